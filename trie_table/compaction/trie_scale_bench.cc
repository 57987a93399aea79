// What compaction scheduling costs as a trie grows in files, whatever their size: choosing a compaction, the time that
// the DB mutex is held while compactions are set up and installed, and then opening it again: time and memory.
//
//   trie_scale_bench [key] [FILES ...]          (default: 1000 20000)
//
// Makes tiny tables in FILES / 5 containers, five slots each, then merges 50 containers manually. A probing thread
// takes the DB mutex all the time; how long it waits is how long others held it. With `key`, of a trie in key order.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "test/testutil/ingest_again.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kSlots = 5;
constexpr int kMerges = 50;
// Of a container; in hash order this is the mean. Next to no table has so few then that its ingestion leaves it in the
// root (trie_ingestion.h).
constexpr uint64_t kKeys = 40;

double Millis(Clock::duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "trie_scale_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

// As many as RocksDB may keep open: all of them, or what the process may have.
int OpenFiles(uint64_t files) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > 2 * files + 1000 ? -1 : static_cast<int>(limit.rlim_cur / 4);
}

// Keys of the first `containers` containers of the deepest depth, a few each, in key order.
using ContainerKeys = std::map<uint64_t, std::vector<std::string>>;
ContainerKeys KeysByContainer(const TrieOptionText& trie, uint64_t containers, const rocksdb::Comparator* comparator) {
  if (trie.in_key_order()) {
    ContainerKeys keys;
    for (uint64_t container = 0; container < containers; ++container) {
      for (uint64_t i = 0; i < kKeys; ++i) keys[container].push_back(std::to_string(10000000 + container * kKeys + i));
    }
    return keys;
  }
  const HashPrefixMap map = ContainerMapOf(trie);
  ContainerKeys keys;
  uint64_t all = kKeys;
  for (int depth = 0; depth < trie.depth; ++depth) all *= static_cast<uint64_t>(trie.fan_out);
  for (uint64_t i = 0; i < std::max<uint64_t>(all, 32768 * kKeys); ++i) {
    std::string key = "key" + std::to_string(i);
    const uint64_t container = map.ContainerAt(map.Position(key), trie.depth);
    if (container < containers) keys[container].push_back(std::move(key));
  }
  for (auto& [container, list] : keys) {
    std::sort(list.begin(), list.end(),
              [comparator](const std::string& a, const std::string& b) { return comparator->Compare(a, b) < 0; });
  }
  return keys;
}

void Ingest(const rocksdb::Options& options, const ContainerKeys& keys, const fs::path& folder, int slot,
            rocksdb::DB* db) {
  std::vector<std::string> names;
  for (const auto& [container, list] : keys) {
    names.push_back(folder / (std::to_string(container) + ".sst"));
    std::map<std::string, std::string> records;
    for (const std::string& key : list) records[key] = "slot" + std::to_string(slot);
    Check(WriteTable(names.back(), options, records));
  }
  rocksdb::IngestExternalFileOptions ingest;
  ingest.move_files = true;
  Check(db->IngestExternalFile(names, ingest));
}

// Of this process, in bytes.
uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TrieOptionText TrieFor(const std::string& order, uint64_t files) {
  TrieOptionText trie;
  trie.order = order;
  trie.seed = 0;              // files are written in the order of these options
  trie.trigger = trie.slots;  // nothing is due by itself
  trie.space_bound = 1000;
  // Tables of a few kilobytes are then worth the deepest containers, to which their ingestion brings them.
  trie.fan_out = 64;
  trie.depth = files / kSlots > 4096 ? 3 : 2;
  trie.root_trigger = 2;
  return trie;
}

rocksdb::Options OptionsFor(const std::string& order, uint64_t files) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.max_open_files = OpenFiles(files);
  Check(UseTrie(&options, TrieFor(order, files)));
  return options;
}

// This program again, whose memory nothing else has touched.
void Reopen(const std::string& order, uint64_t files, const fs::path& folder) {
  const rocksdb::Options options = OptionsFor(order, files);
  const uint64_t before = ResidentBytes();
  const auto begin = Clock::now();
  const clock_t processor = clock();
  std::unique_ptr<rocksdb::DB> db;
  Check(Open(options, folder, port::Into(&db)));
  const double seconds = Millis(Clock::now() - begin) / 1000;
  TrieStats stats;
  Check(GetTrieStats(db.get(), db->DefaultColumnFamily(), &stats));
  printf("          opened again in %.2f s (processor time %.2f s), %.1f MiB of memory, max_open_files %d\n", seconds,
         static_cast<double>(clock() - processor) / CLOCKS_PER_SEC,
         static_cast<double>(ResidentBytes() - before) / (1 << 20), options.max_open_files);
}

void Compact(const TrieOptionText& trie, const std::vector<std::string>& keys, rocksdb::DB* db) {
  if (trie.in_key_order()) {
    const rocksdb::Slice begin(keys.front()), end(keys.back());
    return Check(db->CompactRange({}, &begin, &end));
  }
  TrieCompactOptions compact;
  Check(TrieContainerOf(db->DefaultColumnFamily(), keys.front(), trie.depth, &compact.container));
  Check(CompactTrie(db, db->DefaultColumnFamily(), compact));
}

void Run(const std::string& order, uint64_t files) {
  const fs::path folder = fs::temp_directory_path() / ("cairn_scale." + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder / "in");
  const TrieOptionText trie = TrieFor(order, files);
  const rocksdb::Options options = OptionsFor(order, files);
  rocksdb::DB* opened = nullptr;
  Check(Open(options, folder / "db", &opened));
  std::unique_ptr<rocksdb::DB> db(opened);
  const auto keys = KeysByContainer(trie, files / kSlots, options.comparator);
  for (int slot = 0; slot < kSlots; ++slot) Ingest(options, keys, folder / "in", slot, db.get());
  Check(WaitForTrieCompaction(db.get()));
  TrieStats before;
  Check(GetTrieStats(db.get(), db->DefaultColumnFamily(), &before));

  std::atomic<bool> stop{false};
  Clock::duration waited{};
  Clock::duration longest{};
  uint64_t probes = 0;
  std::thread prober([&] {
    uint64_t value = 0;
    while (!stop) {
      const auto begin = Clock::now();
      db->GetIntProperty("rocksdb.num-running-compactions", &value);
      const auto took = Clock::now() - begin;
      ++probes;
      // A free mutex takes about a microsecond.
      if (took < std::chrono::microseconds(20)) continue;
      waited += took;
      longest = std::max(longest, took);
    }
  });
  const auto begin = Clock::now();
  for (int i = 0; i < kMerges; ++i) Compact(trie, std::next(keys.begin(), i)->second, db.get());
  const auto took = Clock::now() - begin;
  stop = true;
  prober.join();
  Check(db->Put({}, "one more", "value"));
  Check(db->Flush({}));
  Check(WaitForTrieCompaction(db.get()));
  TrieStats after;
  Check(GetTrieStats(db.get(), db->DefaultColumnFamily(), &after));
  uint64_t count = 0;
  for (const TrieDepthStats& depth : after.depths) count += depth.files;
  printf(
      "%8llu files: a compaction of %d tiny tables takes %.2f ms, of which the DB mutex is held %.2f ms (at most %.2f "
      "ms at once); all picking since the open took %.2f ms\n",
      static_cast<unsigned long long>(count) + kMerges * (kSlots - 1), kSlots, Millis(took) / kMerges,
      Millis(waited) / kMerges, Millis(longest), static_cast<double>(after.pick_micros) / 1000);
  fflush(stdout);
  db.reset();
  const std::string again = "/proc/" + std::to_string(getpid()) + "/exe --open " + order + " " + std::to_string(files) +
                            " " + (folder / "db").string();
  if (std::system(again.c_str()) != 0) fprintf(stderr, "trie_scale_bench: it was not opened again\n");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == "--open") {
    cairn::Reopen(argv[2], strtoull(argv[3], nullptr, 10), argv[4]);
    return 0;
  }
  const bool in_key_order = argc > 1 && std::string(argv[1]) == "key";
  const std::string order = in_key_order ? "key" : "hash";
  const int first = in_key_order ? 2 : 1;
  if (argc == first) {
    cairn::Run(order, 1000);
    cairn::Run(order, 20000);
  }
  for (int i = first; i < argc; ++i) cairn::Run(order, std::max<uint64_t>(500, strtoull(argv[i], nullptr, 10)));
  return 0;
}
