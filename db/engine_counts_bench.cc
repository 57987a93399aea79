// What engines write and what space they take under workloads in key order: counts, which do not depend on the machine.
//
//   engine_counts_bench ENGINE WORKLOAD MILLIONS [WRITE_BUFFER_MIB [COMPARATOR]]
//
// ENGINE as in cairn::UseEngineFromString, "stock", "ordered" or "ordered_trie;space_bound=1.4". WORKLOAD:
//   uniform, zipf      puts of MILLIONS of keys, as many as there are keys
//   sequential         keys in order
//   streams            64 sequences, one key of each at a time
//   time               keys in order; each is deleted when it is a tenth of all old
//   updates            each key once, in random order, then uniform puts, of which those count that come after twice as
//   zipf_updates       many puts as keys, four times as many; or by Zipf: what cairn model computes. The writer waits
//                      for compactions twice for each write buffer
//   spot               nine of ten puts to a hundredth of the keys, another one every fortieth of the puts
//
// Keys of 16 bytes, values of 100 that zstd or snappy cannot make smaller. Prints bytes of tables written per byte
// flushed, the most bytes of tables at any moment per byte of live data (from a fourth of the puts on; what is deleted
// but still held by a running compaction included) and what these were, and the largest compaction by what it wrote.

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "db/key_order_workload.h"
#include "rocksdb/db.h"

namespace cairn {
namespace {

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "engine_counts_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

void Print(const std::string& engine, const std::string& workload, uint64_t puts, const TableCounter::Counts& counts) {
  const auto ratio = [](uint64_t a, uint64_t b) {
    return static_cast<double>(a) / static_cast<double>(std::max<uint64_t>(b, 1));
  };
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const TableCounter::Peak& peak = counts.peak;
  printf(
      "%s %s: %.2f bytes written per byte flushed, %.2f bytes of tables per live byte at most, %.2f at the end, "
      "largest compaction %.1f MiB, %" PRIu64
      " tables, %.0f puts and %.0f KiB per flush; at the most, %.1f MiB live, %.1f in "
      "level 0, %.1f below, %.1f being written, %.1f held\n",
      engine.c_str(), workload.c_str(), ratio(counts.written, counts.flushed), peak.per_live_byte,
      ratio(counts.space, counts.live), mib(counts.largest), counts.tables, ratio(puts, counts.flushes),
      ratio(counts.flushed, counts.flushes) / 1024, mib(peak.live), mib(peak.root), mib(peak.below), mib(peak.written),
      mib(peak.held));
}

void Run(const std::string& engine, const std::string& workload, uint64_t keys, uint64_t write_buffer,
         const std::string& order) {
  WorkloadDatabase database;
  Check(database.Open("engine_counts_bench", engine, write_buffer, order));
  rocksdb::DB* const db = database.db();
  rocksdb::WriteOptions without_log;
  without_log.disableWAL = true;
  std::string value(kWorkloadValueBytes, '\0');
  std::vector<bool> present(workload == "streams" ? 0 : keys);
  uint64_t live = 0;
  const bool updates = workload == "updates" || workload == "zipf_updates";
  std::vector<uint64_t> load(updates ? keys : 0);
  std::iota(load.begin(), load.end(), uint64_t{0});
  std::shuffle(load.begin(), load.end(), std::mt19937_64(1));
  const uint64_t puts_per_wait = std::max<uint64_t>(write_buffer / 2 / (kWorkloadKeyBytes + kWorkloadValueBytes), 1);
  const uint64_t puts = updates ? 7 * keys : keys;
  for (uint64_t i = 0; i < puts; ++i) {
    const uint64_t key = i < load.size() ? load[i] : WorkloadKeyAt(workload, i, keys);
    if (updates && i % puts_per_wait == 0) Check(database.Settle());
    if (updates && i == 3 * keys) database.counter()->Restart();
    MakeWorkloadValue(i, &value);
    Check(db->Put(without_log, WorkloadKey(key), value));
    if (present.empty() || !present[key]) ++live;
    if (!present.empty()) present[key] = true;
    if (workload == "time" && i >= keys / 10) {
      Check(db->Delete(without_log, WorkloadKey(i - keys / 10)));
      --live;
    }
    if (i >= keys / 4) database.counter()->SetLive(live * (kWorkloadKeyBytes + kWorkloadValueBytes));
  }
  Check(db->Flush(rocksdb::FlushOptions()));
  Check(database.Settle());
  Print(engine, workload, updates ? 4 * keys : keys, database.counter()->Get());
  Check(database.Destroy());
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: engine_counts_bench ENGINE WORKLOAD MILLIONS [WRITE_BUFFER_MIB [COMPARATOR]]\n");
    return 2;
  }
  const double millions = std::strtod(argv[3], nullptr);
  const double mib = argc > 4 ? std::strtod(argv[4], nullptr) : 64;
  cairn::Run(argv[1], argv[2], static_cast<uint64_t>(millions * 1e6), static_cast<uint64_t>(mib * (1 << 20)),
             argc > 5 ? argv[5] : "");
  return 0;
}
