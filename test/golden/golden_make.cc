// Makes golden databases: golden_make FOLDER writes a folder for each into FOLDER, and what they hold to stdout.
// test/golden/make calls it.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cairn/version.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/version.h"
#include "test/golden/golden_databases.h"

namespace cairn::golden {
namespace {

void Require(const char* what, const rocksdb::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "golden_make: %s: %s\n", what, s.ToString().c_str());
  _exit(1);
}

std::string Make(const Database& database, const std::string& folder) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  const rocksdb::DBOptions options = OptionsOf(database, database.engine, &families);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  Require(database.name, rocksdb::DB::Open(options, folder, families, &handles, port::Into(&opened)));
  std::unique_ptr<rocksdb::DB> db(opened);
  Require(database.name, Fill(database, db.get(), handles));
  if (!database.killed) Require("WaitForCompact", db->WaitForCompact(rocksdb::WaitForCompactOptions()));
  std::string lines = std::string("database ") + database.name + "\nengine " + database.engine + "\n";
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    Content content;
    Require(database.name, ReadAll(db.get(), handle, &content));
    lines += "family " + handle->GetName() + ": " + Describe(content) + "\n";
    for (const auto& [key, value] : content) {
      std::string read;
      Require("Get", db->Get(rocksdb::ReadOptions(), handle, key, &read));  // a cache learns it
    }
  }
  if (database.killed) return lines;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    Require("DestroyColumnFamilyHandle", db->DestroyColumnFamilyHandle(handle));
  }
  Require("Close", db->Close());
  return lines;
}

// In a process of its own, which is killed if the database is to be left as a kill leaves it.
bool MakeInChild(const Database& database, const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string lines = Make(database, folder);
    std::fputs(lines.c_str(), stdout);
    std::fflush(stdout);
    if (database.killed) kill(getpid(), SIGKILL);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return false;
  return database.killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                         : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool MakeCache(const std::string& folder) {
  std::unique_ptr<ResultCache> cache;
  const IndexStatus s = ResultCache::Create(CacheOptions(folder), &cache);
  if (!s.ok()) std::fprintf(stderr, "golden_make: %s\n", std::string(s.message()).c_str());
  for (int i = 0; s.ok() && i < kCachedAnswers; ++i) cache->Put(CachedKey(i), "value of " + CachedKey(i));
  return s.ok();
}

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_make FOLDER\n");
    return 2;
  }
  std::printf("cairn %s, RocksDB %s\n", Version(), rocksdb::GetRocksVersionAsString().c_str());
  std::fflush(stdout);
  for (const Database& database : Databases()) {
    if (!MakeInChild(database, std::string(argv[1]) + "/" + database.name)) return 1;
  }
  return MakeCache(std::string(argv[1]) + "/" + kCached) ? 0 : 1;
}

}  // namespace
}  // namespace cairn::golden

int main(int argc, char** argv) { return cairn::golden::Main(argc, argv); }
