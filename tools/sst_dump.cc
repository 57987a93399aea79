// sst_dump: RocksDB's, and for HTables, which RocksDB's does not know, our own answers to the same commands.

#include "rocksdb/sst_dump_tool.h"

#include <cstdio>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "tools/htable_text.h"
#include "trie_table/htable/htable_dump.h"

namespace {

// Whether the word is NAME=VALUE.
bool Is(const std::string& word, const std::string& name, std::string* value) {
  if (word.compare(0, name.size() + 1, name + "=") != 0) return false;
  *value = word.substr(name.size() + 1);
  return true;
}

// The HTables that --file names: the file itself, or those of a directory.
std::vector<std::string> HTablesOf(const std::string& path) {
  std::vector<std::string> found, names;
  if (cairn::IsHTable(path)) return {path};
  if (rocksdb::Env::Default()->GetChildren(path, &names).ok()) {
    for (const std::string& name : names) {
      const std::string file = path + "/" + name;
      if (cairn::IsHTable(file)) found.push_back(file);
    }
  }
  return found;
}

int Refuse(const std::string& word) {
  std::fprintf(
      stderr,
      "sst_dump: %s is not for HTables; they know --file, --show_properties and --command=check, verify, scan, "
      "raw or none\n",
      word.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, command, refused;
  bool properties = false, help = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (Is(word, "--file", &path) || Is(word, "--command", &command)) continue;
    help = help || word == "--help" || word == "--version";
    if (word == "--show_properties") {
      properties = true;
    } else {
      refused = word;
    }
  }
  const std::vector<std::string> tables = help ? std::vector<std::string>() : HTablesOf(path);
  if (tables.empty()) return rocksdb::SSTDumpTool().Run(argc, argv);
  if (!refused.empty()) return Refuse(refused);
  if (command.empty()) command = properties ? "none" : "check";  // RocksDB's check, but properties need no scan
  cairn::HTableText what;
  what.description = command == "raw" || (command == "none" && !properties);
  what.properties = properties && !what.description;
  what.entries = command == "raw" || command == "scan";
  what.verify = command == "check" || command == "verify";
  if (!what.description && !what.entries && !what.verify && command != "none") return Refuse("--command=" + command);
  int result = 0;
  for (const std::string& table : tables) {
    std::printf("Process %s\n", table.c_str());
    const rocksdb::Status s = cairn::PrintHTable(table, what);
    if (s.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", table.c_str(), s.ToString().c_str());
    result = 1;
  }
  return result;
}
