// Seeks of ordered tables beside RocksDB's own reader over the same files: microseconds, data blocks touched and read,
// and what became of the order filters' answers.
//
//   ordered_bench --path=DIR [--items=10000000] [--style=universal|leveled] [--runs=16]
//
// The first run fills the folder; later ones measure what is there.
//
//   ordered_bench --path=DIR --style=... --mix=1000000 [--mix_updates=0.5] [--steps=10] [--zipf=0.99] [--stock]
//
// Updates and short scans in one thread, on the database itself: operations a second, data blocks that a scan touches,
// and bytes written per byte.

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "db_bench/keys.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"

DEFINE_string(path, "", "Folder of the database; filled if it is not there");
DEFINE_uint64(items, 10000000, "Puts of random keys, and keys to choose from");
DEFINE_string(style, "universal", "universal or leveled");
DEFINE_int32(runs, 16, "Sorted runs at which universal compaction merges");
DEFINE_uint64(write_buffer_size, 6710886, "Bytes");
DEFINE_double(bloom_bits, 10, "Bits per key of the Bloom filters");
DEFINE_double(cache_mb, 8192, "Block cache");
DEFINE_bool(direct, false, "Direct reads");
DEFINE_uint64(seeks, 40000, "Seeks of a round");
DEFINE_int32(rounds, 3, "Rounds of each table in turn; medians are printed");
DEFINE_string(operations, "0,10,50", "Steps after a seek, separated by commas");
DEFINE_uint64(gets, 0, "Gets of present keys, and of absent ones");
DEFINE_uint64(more_puts, 0, "Puts of random keys into what is there, so that its runs are others than before");
DEFINE_uint64(mix, 0, "Operations of a mix of updates and scans, instead of seeks");
DEFINE_double(mix_updates, 0.5, "Share of the mix that are updates");
DEFINE_int32(steps, 10, "Rows of a scan of the mix");
DEFINE_double(zipf, 0, "Skew of the mix's keys; 0: uniform");
DEFINE_uint64(warm_up, 0, "Operations of the mix before those that are measured");
DEFINE_bool(stock, false, "The database of the mix has RocksDB's table");

namespace {

using rocksdb::DB;
using rocksdb::Status;

// Of this thread where nothing waits for a disk, so that a busy machine does not count.
double Micros() {
  timespec now;
  clock_gettime(FLAGS_direct ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}
using Random = std::mt19937_64;

std::string BigEndian(uint64_t v, int bytes) {
  std::string key;
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<char>(v >> (8 * i)));
  return key;
}

std::string Key(uint64_t n) { return BigEndian(n, 8) + "00000000"; }

rocksdb::Options MakeOptions(bool ordered) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = FLAGS_write_buffer_size;
  options.target_file_size_base = FLAGS_write_buffer_size;
  options.max_bytes_for_level_base = 4 * FLAGS_write_buffer_size;
  options.compression = rocksdb::kNoCompression;
  options.max_background_jobs = 2;
  options.use_direct_reads = FLAGS_direct;
  options.statistics = rocksdb::CreateDBStatistics();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(static_cast<size_t>(FLAGS_cache_mb * 1e6));
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(FLAGS_bloom_bits));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  cairn::PreferSubMemTables(&options);
  cairn::OrderedOptions choice;
  choice.runs = FLAGS_runs;
  choice.filter_bits = -1;
  const auto stock = options.table_factory;
  if (FLAGS_style == "universal") {
    UseOrdered(&options, choice).PermitUncheckedError();
  } else {
    UseOrderedTable(&options, choice).PermitUncheckedError();
  }
  if (!ordered) options.table_factory = stock;
  return options;
}

int Runs(DB* db) {
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(&meta);
  size_t runs = 0;
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    runs += level.level == 0 ? level.files.size() : (level.files.empty() ? 0 : 1);
  }
  return static_cast<int>(runs);
}

// Puts of random keys.
Status Fill(uint64_t puts) {
  std::unique_ptr<DB> db;
  Status s = DB::Open(MakeOptions(!FLAGS_stock), FLAGS_path, cairn::port::Into(&db));
  if (!s.ok()) return s;
  Random random(db->GetLatestSequenceNumber() + 1);  // others each time
  const std::string value(200, 'v');
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  uint64_t bytes = 0;
  for (uint64_t i = 0; s.ok() && i < puts; ++i) {
    const std::string key = Key(random() % FLAGS_items);
    const size_t size = 1 + random() % 200;
    bytes += key.size() + size;
    s = db->Put(write, key, rocksdb::Slice(value.data(), size));
  }
  if (s.ok()) s = db->Flush({});
  if (s.ok()) s = db->WaitForCompact({});
  const auto& statistics = *db->GetOptions().statistics;
  printf("filled: %.2f bytes written per byte\n",
         static_cast<double>(statistics.getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
                             statistics.getTickerCount(rocksdb::COMPACT_WRITE_BYTES)) /
             static_cast<double>(bytes));
  return s;
}

struct Measured {
  std::vector<double> micros;
  double blocks = 0, missed = 0, filter_checks = 0;
  cairn::OrderedSeekStats seeks;
};

class Bench {
 public:
  Status Open() {
    for (const bool ordered : {false, true}) {
      options_[ordered ? 1 : 0] = MakeOptions(ordered);
      rocksdb::DBOptions db_options(options_[ordered ? 1 : 0]);
      DB* db = nullptr;
      const Status s = DB::OpenForReadOnly(options_[ordered ? 1 : 0], FLAGS_path, cairn::port::Into(&db));
      if (!s.ok()) return s;
      db_[ordered ? 1 : 0].reset(db);
    }
    cairn::OrderedStats stats;
    const Status s = cairn::GetOrderedStats(db_[1].get(), db_[1]->DefaultColumnFamily(), &stats);
    if (s.ok()) printf("%s", cairn::OrderedStatsToTable(stats, "default").c_str());
    return s;
  }

  // `run` does the operations of one round with a random of its own and says how many there were.
  void Measure(const char* name, const std::function<uint64_t(DB*, Random*)>& run) {
    Measured measured[2];
    for (int round = 0; round <= FLAGS_rounds; ++round) {
      for (int ordered = 0; ordered < 2; ++ordered) {
        const auto& statistics = *options_[ordered].statistics;
        const auto counts = [&statistics](uint32_t a, uint32_t b) {
          return static_cast<double>(statistics.getTickerCount(a) + statistics.getTickerCount(b));
        };
        const double hits = counts(rocksdb::BLOCK_CACHE_DATA_HIT, rocksdb::BLOCK_CACHE_DATA_MISS);
        const double misses = counts(rocksdb::BLOCK_CACHE_DATA_MISS, rocksdb::BLOCK_CACHE_DATA_MISS) / 2;
        const cairn::OrderedSeekStats before = Seeks();
        Random random(static_cast<uint64_t>(FLAGS_direct ? round : 0) + 5);
        const double start = Micros();
        const auto operations = static_cast<double>(run(db_[ordered].get(), &random));
        const double micros = (Micros() - start) / operations;
        // The first round warms up.
        if (round == 0) continue;
        Measured& m = measured[ordered];
        m.micros.push_back(micros);
        m.blocks = (counts(rocksdb::BLOCK_CACHE_DATA_HIT, rocksdb::BLOCK_CACHE_DATA_MISS) - hits) / operations;
        m.missed = (counts(rocksdb::BLOCK_CACHE_DATA_MISS, rocksdb::BLOCK_CACHE_DATA_MISS) / 2 - misses) / operations;
        if (ordered == 1) Print(name, measured, before, operations, round);
      }
    }
  }

 private:
  cairn::OrderedSeekStats Seeks() {
    cairn::OrderedStats stats;
    GetOrderedStats(db_[1].get(), db_[1]->DefaultColumnFamily(), &stats).PermitUncheckedError();
    return stats.seeks;
  }

  void Print(const char* name, Measured* measured, const cairn::OrderedSeekStats& before, double operations,
             int round) {
    if (round < FLAGS_rounds) return;
    const cairn::OrderedSeekStats after = Seeks();
    for (int ordered = 0; ordered < 2; ++ordered) {
      Measured& m = measured[ordered];
      std::sort(m.micros.begin(), m.micros.end());
      printf("%-12s %-8s %8.2f us  %7.3f blocks (%.3f missed)", name, ordered == 1 ? "ordered" : "stock",
             m.micros[m.micros.size() / 2], m.blocks, m.missed);
      if (ordered == 1) {
        const auto each = [operations](uint64_t now, uint64_t then) {
          return static_cast<double>(now - then) / operations;
        };
        printf("  deferred %.3f resolved %.3f (unused %.4f) direct %.3f (unused %.4f) end %.3f bound %.3f",
               each(after.deferred, before.deferred), each(after.resolved, before.resolved),
               each(after.resolved_unused, before.resolved_unused), each(after.direct, before.direct),
               each(after.direct_unused, before.direct_unused), each(after.past_end, before.past_end),
               each(after.past_bound, before.past_bound));
      }
      printf("\n");
    }
    printf("%-12s ratio %.3f\n", name,
           measured[1].micros[measured[1].micros.size() / 2] / measured[0].micros[measured[0].micros.size() / 2]);
    fflush(stdout);
  }

  rocksdb::Options options_[2];
  std::unique_ptr<DB> db_[2];
};

uint64_t SeekAndStep(DB* db, Random* random, int steps) {
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
  uint64_t sum = 0;
  for (uint64_t i = 0; i < FLAGS_seeks; ++i) {
    it->Seek(Key((*random)() % FLAGS_items));
    for (int j = 0; j < steps && it->Valid(); ++j) {
      sum += it->value().size();
      it->Next();
    }
    if (it->Valid()) sum += it->value().size();
  }
  return sum == 0 ? 1 : FLAGS_seeks;
}

uint64_t Gets(DB* db, Random* random, bool absent) {
  rocksdb::PinnableSlice value;
  for (uint64_t i = 0; i < FLAGS_gets; ++i) {
    std::string key = Key((*random)() % FLAGS_items);
    if (absent) key = BigEndian((*random)(), 8) + "00000000";
    if (absent) key[0] = 0, key[1] = 0, key[2] = 0, key[3] = 0, key[4] = 0, key[8] = '1';
    db->Get({}, db->DefaultColumnFamily(), key, &value).PermitUncheckedError();
    value.Reset();
  }
  return FLAGS_gets;
}

// Updates and short scans of one thread.
class Mixer {
 public:
  explicit Mixer(DB* db) : db_(db) {
    if (FLAGS_zipf > 0) zipf_ = std::make_unique<cairn::bench::ZipfKeys>(FLAGS_items, FLAGS_zipf, /*seed=*/3);
    write_.disableWAL = true;
  }

  Status Run(uint64_t operations) {
    Status s;
    for (uint64_t i = 0; s.ok() && i < operations; ++i) {
      // Popular items lie anywhere among the keys.
      const uint64_t n = (zipf_ != nullptr ? zipf_->Next() * 0x9E3779B97F4A7C15u : random_()) % FLAGS_items;
      if (static_cast<double>(random_() % 10000) < FLAGS_mix_updates * 10000) {
        const size_t size = 1 + random_() % 200;
        bytes_ += size + 16;
        s = db_->Put(write_, Key(n), rocksdb::Slice(value_.data(), size));
        continue;
      }
      const uint64_t blocks_before = BlocksTouched();
      const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
      it->Seek(Key(n));
      for (int j = 0; j < FLAGS_steps && it->Valid(); ++j, it->Next()) sum_ += it->value().size();
      s = it->status();
      blocks_ += BlocksTouched() - blocks_before;
      ++scans_;
    }
    return s;
  }
  // The same, for a profiler that is told this function's name.
  __attribute__((noinline)) Status RunMeasured(uint64_t operations) { return Run(operations); }

  double bytes() const { return static_cast<double>(bytes_); }
  uint64_t sum() const { return sum_; }
  double BlocksPerScan() const {
    return static_cast<double>(blocks_) / static_cast<double>(std::max<uint64_t>(scans_, 1));
  }

 private:
  static uint64_t BlocksTouched() {  // by this thread
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    return counts.block_cache_hit_count + counts.block_read_count;
  }

  DB* const db_;
  std::unique_ptr<cairn::bench::ZipfKeys> zipf_;
  Random random_{3};
  const std::string value_ = std::string(200, 'v');
  rocksdb::WriteOptions write_;
  uint64_t bytes_ = 0, sum_ = 0, blocks_ = 0, scans_ = 0;
};

Status Mix() {
  rocksdb::Options options = MakeOptions(!FLAGS_stock);
  std::unique_ptr<DB> db;
  Status s = DB::Open(options, FLAGS_path, cairn::port::Into(&db));
  if (!s.ok()) return s;
  Mixer mixer(db.get());
  s = mixer.Run(FLAGS_warm_up);
  if (!s.ok()) return s;
  const auto wall = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  const auto& statistics = *options.statistics;
  const auto blocks = [&statistics](uint32_t ticker) { return static_cast<double>(statistics.getTickerCount(ticker)); };
  const double hits = blocks(rocksdb::BLOCK_CACHE_DATA_HIT), misses = blocks(rocksdb::BLOCK_CACHE_DATA_MISS);
  const double reseeks = blocks(rocksdb::NUMBER_OF_RESEEKS_IN_ITERATION);
  const double start = wall(), own = Micros();
  s = mixer.RunMeasured(FLAGS_mix);
  const double seconds = wall() - start, own_seconds = (Micros() - own) / 1e6;
  const auto each = [](double count) { return count / static_cast<double>(FLAGS_mix); };
  printf("each operation: %.3f blocks found in the cache, %.3f not, %.3f seeks of RocksDB's over versions of a key\n",
         each(blocks(rocksdb::BLOCK_CACHE_DATA_HIT) - hits), each(blocks(rocksdb::BLOCK_CACHE_DATA_MISS) - misses),
         each(blocks(rocksdb::NUMBER_OF_RESEEKS_IN_ITERATION) - reseeks));
  if (s.ok()) s = db->WaitForCompact({});
  printf(
      "mix %-8s %-9s %.1f thousand operations a second (%.2f us of the thread each), %.2f blocks per scan, "
      "%.2f bytes written per byte, %d runs (%llu)\n",
      FLAGS_stock ? "stock" : "ordered", FLAGS_style.c_str(), static_cast<double>(FLAGS_mix) / seconds / 1000,
      own_seconds * 1e6 / static_cast<double>(FLAGS_mix), mixer.BlocksPerScan(),
      (blocks(rocksdb::FLUSH_WRITE_BYTES) + blocks(rocksdb::COMPACT_WRITE_BYTES)) / mixer.bytes(), Runs(db.get()),
      static_cast<unsigned long long>(mixer.sum()));
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_path.empty()) {
    fprintf(stderr, "--path is missing\n");
    return 2;
  }
  Status s = rocksdb::Env::Default()->FileExists(FLAGS_path + "/CURRENT");
  if (!s.ok()) s = Fill(FLAGS_items);
  if (s.ok() && FLAGS_more_puts > 0) s = Fill(FLAGS_more_puts);
  if (s.ok() && FLAGS_mix > 0) {
    s = Mix();
    if (!s.ok()) fprintf(stderr, "%s\n", s.ToString().c_str());
    return s.ok() ? 0 : 1;
  }
  Bench bench;
  if (s.ok()) s = bench.Open();
  if (!s.ok()) {
    fprintf(stderr, "%s\n", s.ToString().c_str());
    return 1;
  }
  std::string list = FLAGS_operations;
  for (char* steps = strtok(list.data(), ","); steps != nullptr; steps = strtok(nullptr, ",")) {
    const int count = atoi(steps);
    bench.Measure(("Seek+" + std::string(steps)).c_str(),
                  [count](DB* db, Random* random) { return SeekAndStep(db, random, count); });
  }
  if (FLAGS_gets > 0) {
    bench.Measure("Get", [](DB* db, Random* random) { return Gets(db, random, false); });
    bench.Measure("absent", [](DB* db, Random* random) { return Gets(db, random, true); });
  }
  return 0;
}
