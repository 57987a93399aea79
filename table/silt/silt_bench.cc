// Memory a key, block reads per lookup and bytes written: a SILT store beside leveled RocksDB, with its default index
// and filter and with partitioned ones.
//
//   build/bench/silt_bench ITEMS VALUE_BYTES
//
// Every engine loads the same items of 16-byte keys in random order, replaces a quarter of them, and is compacted at
// the end. The block cache holds nothing, so that every block that a lookup needs is counted; the cost in microseconds
// is processor time with the file in the operating system's cache.

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/silt.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "table/ect/ect_table_index.h"
#include "util/mix64.h"
#include "util/thread_seconds.h"

namespace {

using cairn::SplitMix64;
using cairn::ThreadSeconds;

std::string Key(uint64_t i) {
  char digits[17];
  snprintf(digits, sizeof(digits), "%016" PRIx64, SplitMix64(i));
  return digits;
}

void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "silt_bench: %s\n", status.ToString().c_str());
  exit(1);
}

enum class Engine { kLeveled, kPartitioned, kSilt };

rocksdb::Options OptionsOf(Engine engine) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 16 << 20;
  options.target_file_size_base = 16 << 20;
  options.max_bytes_for_level_base = 64 << 20;
  options.max_background_jobs = 2;
  options.statistics = rocksdb::CreateDBStatistics();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(0, 0);
  if (engine != Engine::kSilt) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  if (engine == Engine::kPartitioned) {
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = true;
    table.cache_index_and_filter_blocks = true;
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (engine == Engine::kSilt) {
    cairn::SiltOptions silt;
    silt.merge_trigger = 8;
    Check(cairn::UseSilt(&options, silt));
  }
  return options;
}

class Run {
 public:
  Run(const char* name, Engine engine, uint64_t items, size_t value_bytes)
      : name_(name), engine_(engine), items_(items), value_(value_bytes, 'v'), options_(OptionsOf(engine)) {
    path_ = std::filesystem::temp_directory_path() / ("silt_bench_" + std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    rocksdb::DB* db = nullptr;
    Check(rocksdb::DB::Open(options_, path_, cairn::port::Into(&db)));
    db_.reset(db);
  }
  ~Run() {
    db_.reset();
    std::filesystem::remove_all(path_);
  }

  void Load() {
    for (uint64_t i = 0; i < items_; ++i) Put(i);
    for (uint64_t i = 0; i < items_ / 4; ++i) Put(SplitMix64(~i) % items_);
    Check(db_->Flush(rocksdb::FlushOptions()));
    Check(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
    const uint64_t written = options_.statistics->getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
                             options_.statistics->getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
    printf("%-12s %.2f bytes written per byte put\n", name_,
           static_cast<double>(written) / static_cast<double>(bytes_put_));
  }

  void Compact() {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    Check(db_->CompactRange(all, nullptr, nullptr));
  }

  void Measure(const char* when) {
    constexpr uint64_t kLookups = 200000;
    rocksdb::TablePropertiesCollection tables;
    Check(db_->GetPropertiesOfAllTables(&tables));
    double bytes = 0;
    for (const auto& [file, table] : tables) {
      if (engine_ != Engine::kSilt) bytes += static_cast<double>(table->index_size + table->filter_size);
      cairn::EctTableFacts facts;
      if (cairn::ReadEctTableFacts(*table, &facts).ok()) {
        bytes += static_cast<double>(facts.layout_bytes + facts.index_bytes + facts.filter_bytes);
      }
    }
    printf("%-12s %-10s %3zu files  %6.2f bits/key", name_, when, tables.size(),
           8 * bytes / static_cast<double>(items_));
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    std::string value;
    for (const bool hits : {true, false}) {
      rocksdb::get_perf_context()->Reset();
      const double start = ThreadSeconds();
      for (uint64_t i = 0; i < kLookups; ++i) {
        const uint64_t item = hits ? SplitMix64(i) % items_ : items_ + i;
        const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), Key(item), &value);
        Check(!hits && status.IsNotFound() ? rocksdb::Status::OK() : status);
      }
      printf("  %s: %.4f blocks, %.2f us", hits ? "hit" : "miss",
             static_cast<double>(rocksdb::get_perf_context()->block_read_count) / kLookups,
             1e6 * (ThreadSeconds() - start) / kLookups);
    }
    printf("\n");
    fflush(stdout);
  }

 private:
  void Put(uint64_t item) {
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    for (size_t at = 0; at < value_.size(); at += 8) {
      const uint64_t noise = SplitMix64(bytes_put_ + at);
      memcpy(&value_[at], &noise, std::min<size_t>(8, value_.size() - at));
    }
    const std::string key = Key(item);
    bytes_put_ += key.size() + value_.size();
    Check(db_->Put(write, key, value_));
  }

  const char* name_;
  const Engine engine_;
  const uint64_t items_;
  std::string value_;
  uint64_t bytes_put_ = 0;
  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

int main(int argc, char** argv) {
  const uint64_t items = argc > 1 ? strtoull(argv[1], nullptr, 10) : 0;
  const uint64_t value_bytes = argc > 2 ? strtoull(argv[2], nullptr, 10) : 0;
  if (argc != 3 || items == 0 || value_bytes == 0) {
    fprintf(stderr, "usage: silt_bench ITEMS VALUE_BYTES\n");
    return 2;
  }
  const struct {
    const char* name;
    Engine engine;
  } engines[] = {{"leveled", Engine::kLeveled}, {"partitioned", Engine::kPartitioned}, {"silt", Engine::kSilt}};
  for (const auto& [name, engine] : engines) {
    Run run(name, engine, items, value_bytes);
    run.Load();
    run.Measure("loaded");
    run.Compact();
    run.Measure("compacted");
  }
}
