// cairn repair: brings back a database that does not open, with the options stored in it. (ldb repair gives every
// column family the default comparator, with which no trie opens.)

#include <cstdio>
#include <memory>

#include "rocksdb/db.h"
#include "rocksdb/utilities/options_util.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace cairn {
namespace {

using rocksdb::Status;

struct Stored {
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
};

Status LoadStored(const std::string& path, Stored* stored) {
  Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &stored->options, &stored->families);
  stored->options.create_if_missing = false;
  stored->options.create_missing_column_families = false;
  return s.IsNotFound() ? Status::NotFound(path, "has no OPTIONS file, which says how to read it") : s;
}

// Whether it opens, and everything in it is found.
Status TryToOpen(const std::string& path, const Stored& stored) {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Status s = rocksdb::DB::Open(stored.options, path, stored.families, &handles, &db);
  if (!s.ok()) return s;
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  s = db->Close();
  delete db;
  return s;
}

Status Repair(const std::string& path, std::string* what_was_done) {
  Stored stored;
  Status s = LoadStored(path, &stored);
  if (!s.ok()) return s;
  rocksdb::FileLock* lock = nullptr;
  s = rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock);
  if (!s.ok()) return Status::Busy(path, "is open in another process; close it there first");
  rocksdb::Env::Default()->UnlockFile(lock).PermitUncheckedError();

  const Status opened = TryToOpen(path, stored);
  if (opened.ok()) {
    *what_was_done = "opens without repair; nothing was changed";
    return opened;
  }
  std::fprintf(stderr, "It does not open: %s\n", opened.ToString().c_str());
  // A range deletion that RocksDB wrote into the WAL before it refused it. Repairing would apply it, in hash order.
  if (opened.IsNotSupported() && opened.ToString().find("DeleteRange") != std::string::npos) {
    Stored tolerant = stored;
    tolerant.options.paranoid_checks = false;
    s = TryToOpen(path, tolerant);
    if (s.ok()) s = TryToOpen(path, stored);
    *what_was_done = "opens again; the write batches with a refused DeleteRange are left out";
    return s;
  }
  s = rocksdb::RepairDB(path, stored.options, stored.families);
  stored.options.create_missing_column_families = true;  // those without a table
  if (s.ok()) s = TryToOpen(path, stored);
  *what_was_done = "was rebuilt from its tables and WAL; what could not be read lies in " + path + "/lost";
  return s;
}

int RunRepair(int argc, char** argv) {
  std::string path;
  Arguments arguments("repair",
                      "Brings back a database that does not open, with the options stored in it: leaves out range\n"
                      "deletions that a trie has refused, or rebuilds the MANIFEST from the tables and the WAL. The\n"
                      "latter may bring deleted keys back and lose what is damaged; keep a copy of the directory.");
  arguments.Positional("DB", &path, "the database's directory; no other process may have it open");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  std::string what_was_done;
  const Status s = Repair(path, &what_was_done);
  if (!s.ok()) return Fail("repair", s);
  std::printf("%s %s.\n", path.c_str(), what_was_done.c_str());
  return kExitOk;
}

const CommandRegistration kRepair("repair", "Brings back a database that does not open, a trie or not", RunRepair);

}  // namespace
}  // namespace cairn
