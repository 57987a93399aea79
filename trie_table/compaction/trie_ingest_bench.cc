// What becomes of files that are ingested into an empty trie, and of updates on top of them.
//
//   trie_ingest_bench FILES KEYS UPDATES [PATH]
//
// Each file holds KEYS random ones of 200,000 keys (all of them, if KEYS is as many), with values of 100 bytes; write
// buffers of 1 MiB. Says how many tables there are when compaction has settled, how large they are, and what was
// written.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/db.h"
#include "rocksdb/sst_file_writer.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kKeys = 200000;

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "trie_ingest_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

std::string Key(uint64_t i) { return "user" + std::to_string(1000000 + i); }

std::string WriteFile(const rocksdb::Options& options, uint64_t keys, const fs::path& folder, std::mt19937_64* random) {
  std::vector<std::string> chosen;
  for (uint64_t i = 0; i < keys; ++i) chosen.push_back(Key(keys >= kKeys ? i : (*random)() % kKeys));
  std::sort(chosen.begin(), chosen.end(),
            [&](const std::string& a, const std::string& b) { return options.comparator->Compare(a, b) < 0; });
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  std::string name = folder / "in.sst";
  Check(writer.Open(name));
  for (const std::string& key : chosen) Check(writer.Put(key, std::string(100, 'i')));
  Check(writer.Finish());
  return name;
}

void Settle(const char* when, Clock::time_point begin, rocksdb::DB* db) {
  Check(WaitForTrieCompaction(db));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  TrieStats stats;
  Check(GetTrieStats(db, db->DefaultColumnFamily(), &stats));
  uint64_t files = 0;
  for (const TrieDepthStats& depth : stats.depths) files += depth.files;
  printf(
      "%s: %.1f s, %llu tables of %.0f KiB on average; written by compactions %.1f MB, by flushes and ingestion into "
      "the root %.1f MB\n",
      when, seconds, static_cast<unsigned long long>(files),
      static_cast<double>(stats.bytes) / 1024 / static_cast<double>(std::max<uint64_t>(files, 1)),
      static_cast<double>(stats.compacted_bytes) / 1e6, static_cast<double>(stats.flushed_bytes) / 1e6);
}

void Run(uint64_t files, uint64_t keys, uint64_t updates, const fs::path& folder) {
  fs::create_directories(folder);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 1 << 20;
  TrieOptions trie;
  trie.seed = 0;  // files are written in the order of these options
  Check(UseTrie(&options, trie));
  rocksdb::DB* opened = nullptr;
  Check(Open(options, folder / "db", &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  std::mt19937_64 random(1);
  rocksdb::IngestExternalFileOptions ingest;
  ingest.move_files = true;
  auto begin = Clock::now();
  for (uint64_t file = 0; file < files; ++file) {
    Check(db->IngestExternalFile({WriteFile(options, keys, folder, &random)}, ingest));
  }
  Settle("ingested", begin, db.get());
  begin = Clock::now();
  rocksdb::WriteOptions no_log;
  no_log.disableWAL = true;
  for (uint64_t i = 0; i < updates; ++i) Check(db->Put(no_log, Key(random() % kKeys), std::string(100, 'u')));
  Check(db->Flush({}));
  Settle("updated", begin, db.get());
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: trie_ingest_bench FILES KEYS UPDATES [PATH]\n");
    return 2;
  }
  const auto number = [&](int i) { return strtoull(argv[i], nullptr, 10); };
  const std::filesystem::path folder =
      std::filesystem::path(argc > 4 ? argv[4] : std::filesystem::temp_directory_path()) /
      ("cairn_ingest." + std::to_string(getpid()));
  cairn::Run(number(1), number(2), number(3), folder);
  std::filesystem::remove_all(folder);
  return 0;
}
