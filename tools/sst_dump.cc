// sst_dump: RocksDB's, and for HTables, which RocksDB's does not know, our own answers to the same command line. What
// means nothing there is refused, and so is what RocksDB's refuses.

#include "rocksdb/sst_dump_tool.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "tools/htable_text.h"
#include "trie_table/htable/htable_dump.h"

namespace {

using Words = std::vector<std::string>;

// Whether the word is NAME, or NAME=VALUE; then *value, which may be null, is VALUE.
bool Is(const std::string& word, const std::string& name, std::string* value = nullptr) {
  if (value == nullptr) return word == name;
  if (word.compare(0, name.size() + 1, name + "=") != 0) return false;
  *value = word.substr(name.size() + 1);
  return true;
}

bool IsNumber(const std::string& text, uint64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// The last --file; empty: there is none.
std::string FileOf(const Words& words) {
  std::string file;
  for (const std::string& word : words) Is(word, "--file", &file);
  return file;
}

// Whether RocksDB's program answers, whatever the file is.
bool IsForRocksdb(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    std::string value;
    return Is(word, "--help") || Is(word, "--version") || Is(word, "--parse_internal_key", &value) ||
           Is(word, "--env_uri", &value) || Is(word, "--fs_uri", &value);
  });
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

struct Request {
  std::string command;
  uint64_t read_num = 0;  // of all files together; 0: all
  bool properties = false;
  bool verify_checksum = false;
};

// Why the word is refused; empty: it is not.
std::string Take(const std::string& word, Request* request) {
  std::string value;
  uint64_t number = 0;
  if (Is(word, "--file", &value) || Is(word, "--command", &request->command)) return "";
  if (Is(word, "--show_properties")) {
    request->properties = true;
  } else if (Is(word, "--verify_checksum")) {
    request->verify_checksum = true;
  } else if (Is(word, "--read_num", &value)) {
    if (!IsNumber(value, &request->read_num)) return "it takes a whole number, such as --read_num=10";
  } else if (Is(word, "--readahead_size", &value)) {
    if (!IsNumber(value, &number)) return "it takes a whole number of bytes";
  } else if (Is(word, "--from", &value) || Is(word, "--to", &value) || Is(word, "--prefix", &value)) {
    return "HTables are in the order of their keys' hashes, where a range means nothing; leave it out and search what "
           "--command=scan prints, or ask the database by `ldb get`";
  } else if (!Is(word, "--output_hex") && !Is(word, "--input_key_hex")) {  // keys and values are printed so anyway
    const Words others = {"--decode_blob_index",
                          "--show_summary",
                          "--set_block_size",
                          "--compression_types",
                          "--compression_level_from",
                          "--compression_level_to",
                          "--compression_max_dict_bytes",
                          "--compression_zstd_max_train_bytes",
                          "--compression_max_dict_buffer_bytes",
                          "--compression_use_zstd_finalize_dict"};
    const std::string name = word.substr(0, word.find('='));
    if (std::find(others.begin(), others.end(), name) != others.end()) return "it is not for HTables; leave it out";
    return "it is not recognized; `sst_dump --help` lists what there is";
  }
  return "";
}

// False: HTables do not know the command.
bool Plan(const Request& request, cairn::HTableText* what) {
  std::string command = request.command;
  if (command.empty()) command = request.properties ? "none" : "check";  // RocksDB's check, but properties need no scan
  const bool reads_some = request.read_num > 0 && command == "check";
  what->description = command == "raw" || (command == "none" && !request.properties);
  what->properties = request.properties && !what->description;
  what->entries = command == "raw" || command == "scan" || reads_some;
  what->silent = command == "check";
  what->verify = command == "verify" || (command == "check" && !reads_some) || request.verify_checksum;
  return command == "none" || command == "raw" || command == "scan" || command == "verify" || command == "check" ||
         command == "identify";
}

int Run(const std::vector<std::string>& tables, const Request& request, cairn::HTableText what) {
  int result = 0;
  uint64_t left = request.read_num == 0 || request.command == "raw" ? UINT64_MAX : request.read_num;
  for (const std::string& table : tables) {
    if (left == 0) break;
    uint64_t read = 0;
    std::printf("Process %s\n", table.c_str());
    what.most_entries = left;
    const rocksdb::Status s = cairn::PrintHTable(table, what, &read);
    left -= read;
    if (s.ok() && request.command == "identify") std::printf("%s is a valid SST file, an HTable\n", table.c_str());
    if (!s.ok()) {
      std::fprintf(stderr, "%s: %s\n", table.c_str(), s.ToString().c_str());
      result = 1;
    }
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  const std::string path = FileOf(words);
  const std::vector<std::string> tables =
      path.empty() || IsForRocksdb(words) ? std::vector<std::string>() : HTablesOf(path);
  if (tables.empty()) return rocksdb::SSTDumpTool().Run(argc, argv);

  Request request;
  for (const std::string& word : words) {
    const std::string why = Take(word, &request);
    if (why.empty()) continue;
    std::fprintf(stderr, "sst_dump: %s: %s\n", word.c_str(), why.c_str());
    return 1;
  }
  cairn::HTableText what;
  if (!Plan(request, &what)) {
    std::fprintf(stderr,
                 "sst_dump: --command=%s is not for HTables; they know none, check, verify, scan, raw and identify\n",
                 request.command.c_str());
    return 1;
  }
  return Run(tables, request, what);
}
