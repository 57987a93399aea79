// cairn recover: turns what the pool file of durable memtables holds into a WAL file, without opening the database.

#include <cstdio>
#include <memory>

#include "memtable_cache/durable_recovery.h"
#include "memtable_cache/pool_presence.h"
#include "memtable_cache/process_lock.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/options_util.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/database.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// The options to read the database with, and its pool file unless `pool` is one. A database that is gone has none.
Status FindDatabase(const std::string& path, rocksdb::DBOptions* options, std::string* pool) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, options, &families).PermitUncheckedError();
  PoolPresence found;
  const Status s = FindPool(*options, path, families, &found);
  if (pool->empty()) *pool = found.pool;
  return s;
}

Status RecoverFrom(const rocksdb::DBOptions& options, const std::string& path, const std::string& pool,
                   RecoveryReport* report) {
  if (pool.empty()) return Status::NotFound(path, "has no pool file; --pool names it if it was moved");
  Status s = rocksdb::Env::Default()->FileExists(pool);
  if (!s.ok()) return Status::NotFound(pool, "is not there; --pool names the pool file of the database");
  PmemFileOptions file_options;
  file_options.path = pool;
  std::unique_ptr<PmemFile> file;
  s = PmemFile::Open(file_options, &file);
  return s.ok() ? RecoverPoolFile(options, path, file.get(), report) : s;
}

Status Recover(const std::string& path, std::string pool, bool discard, RecoveryReport* report) {
  rocksdb::Env* const env = rocksdb::Env::Default();
  // The pool file of a database that is gone or damaged can be given up.
  if (!env->FileExists(path + "/CURRENT").ok() && !discard) {
    return Status::NotFound(path, "is no RocksDB database (it has no file CURRENT)");
  }
  rocksdb::FileLock* lock = nullptr;
  Status s = env->FileExists(path).ok() ? env->LockFile(path + "/LOCK", &lock) : Status::OK();
  if (!s.ok()) return CannotLock(path, s);
  rocksdb::DBOptions options;
  const std::string named = pool;
  s = FindDatabase(path, &options, &pool);
  if (s.ok()) s = discard ? DiscardPool(options, path, named) : RecoverFrom(options, path, pool, report);
  if (lock != nullptr) env->UnlockFile(lock).PermitUncheckedError();
  return s;
}

void PrintJson(const RecoveryReport& report) {
  const PoolCounts& counts = report.counts;
  std::printf(
      "{\"had_work\":%s,\"wal\":%llu,\"replayed\":%llu,\"replayed_bytes\":%llu,\"flushed\":%llu,"
      "\"unacknowledged\":%llu,\"dropped_column_family\":%llu,\"older\":%llu,\"segments\":%llu}\n",
      report.had_work ? "true" : "false", static_cast<unsigned long long>(report.wal),
      static_cast<unsigned long long>(counts.replayed), static_cast<unsigned long long>(counts.replayed_bytes),
      static_cast<unsigned long long>(counts.flushed), static_cast<unsigned long long>(counts.unacknowledged),
      static_cast<unsigned long long>(counts.dropped_family), static_cast<unsigned long long>(counts.older),
      static_cast<unsigned long long>(counts.segments));
}

int RunRecover(int argc, char** argv) {
  std::string path;
  std::string pool;
  bool discard = false;
  bool json = false;
  Arguments arguments("recover",
                      "Turns what the pool file of durable memtables holds into a WAL file of the database, which the\n"
                      "next opening replays; after that the database needs the pool file no more. May be run again,\n"
                      "and killed, at any time. A pool file that is damaged, of another database or of an earlier\n"
                      "state of this one is an error, and nothing of it is replayed.");
  arguments.Positional("DB", &path, "the database's directory; no other process may have it open");
  arguments.Text("pool", &pool, "FILE", "the pool file; default: where the database left it");
  arguments.Switch("discard", &discard, "gives up what the pool file holds, for good");
  arguments.Switch("json", &json, "prints JSON");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  RecoveryReport report;
  const Status s = Recover(path, pool, discard, &report);
  if (!s.ok()) return Fail("recover", s);
  if (json) {
    PrintJson(report);
  } else {
    std::printf("%s: %s.\n", path.c_str(), discard ? "the pool file holds nothing now" : report.ToString().c_str());
  }
  return kExitOk;
}

const CommandRegistration kRecover("recover", "Brings what durable memtables held back after a crash", RunRecover);

}  // namespace
}  // namespace cairn
