// sst_dump: RocksDB's, and for HTables, which RocksDB's does not know, our own answers to the same commands: none,
// check, verify, scan, raw.

#include "rocksdb/sst_dump_tool.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "src/htable/htable_dump.h"
#include "src/tools/htable_text.h"

namespace {

// The value of --NAME=VALUE; null if it is not given.
const char* Flag(int argc, char** argv, const char* name) {
  const std::string prefix = std::string("--") + name + "=";
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], prefix.c_str(), prefix.size()) == 0) return argv[i] + prefix.size();
  }
  return nullptr;
}

bool IsGiven(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i) {
    if (std::string("--") + name == argv[i]) return true;
  }
  return false;
}

// The HTables that --file names: the file itself, or those of a directory.
std::vector<std::string> HTablesOf(const char* path) {
  std::vector<std::string> found, names;
  if (cairn::IsHTable(path)) return {path};
  if (rocksdb::Env::Default()->GetChildren(path, &names).ok()) {
    for (const std::string& name : names) {
      const std::string file = std::string(path) + "/" + name;
      if (cairn::IsHTable(file)) found.push_back(file);
    }
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const path = Flag(argc, argv, "file");
  const std::vector<std::string> tables = path == nullptr ? std::vector<std::string>() : HTablesOf(path);
  if (tables.empty()) return rocksdb::SSTDumpTool().Run(argc, argv);

  const char* const given = Flag(argc, argv, "command");
  const std::string command = given == nullptr ? "scan" : given;
  cairn::HTableText what;
  what.description = command == "raw" || command == "none" || IsGiven(argc, argv, "show_properties");
  what.entries = command == "raw" || command == "scan";
  what.verify = command == "verify" || command == "check";
  if (!what.description && !what.entries && !what.verify) {
    std::fprintf(stderr, "sst_dump: --command=%s is not for HTables; they know none, check, verify, scan and raw\n",
                 command.c_str());
    return 1;
  }
  int result = 0;
  for (const std::string& table : tables) {
    std::printf("Process %s\n", table.c_str());
    const rocksdb::Status s = cairn::PrintHTable(table, what);
    if (!s.ok()) {
      std::fprintf(stderr, "%s: %s\n", table.c_str(), s.ToString().c_str());
      result = 1;
    }
  }
  return result;
}
