// What a lookup costs beside HashStores that wait for a merge, in a store of the shape that a larger one has.
//
//   silt_lookup_bench ENGINE THOUSAND_KEYS HASH_STORES [ENGINE_OPTIONS]
//
// ENGINE is silt, or leveled with 10-bit Bloom filters. Stores THOUSAND_KEYS of 16 bytes with values of 48 in random order,
// compacts, and updates keys as often as HASH_STORES write buffers hold, each of a 90th of the keys (64 MiB of 50 M): uniformly,
// then by Zipf's law. A SILT store merges none of these, a leveled one compacts as it will. The block cache holds everything
// but for 1 in 8 blocks; compression is off.
//
// Prints, of absent keys, of all keys and by Zipf's law: processor time (the least of five rounds), and data blocks asked for
// per Get; bits of indexes and filters per key. Counts of instructions: valgrind --tool=callgrind --toggle-collect='*Absent*'
// (or '*Uniform*', '*Zipf*'), in a build for a processor that valgrind knows (-DCAIRN_PORTABLE=x86-64-v3), ROUNDS=1.

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cairn/silt.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "table/ect/ect_table_index.h"
#include "util/mix64.h"
#include "util/thread_seconds.h"

namespace {

using cairn::SplitMix64;
using cairn::ThreadSeconds;

constexpr uint64_t kLookups = 50000;

std::string Key(uint64_t i) {
  char digits[17];
  snprintf(digits, sizeof(digits), "%016" PRIx64, SplitMix64(i));
  return digits;
}

void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "silt_lookup_bench: %s\n", status.ToString().c_str());
  _exit(1);
}

// Ranks by Zipf's law with exponent 1, nearly: uniform in the logarithm.
uint64_t ZipfKey(uint64_t draw, uint64_t keys) {
  const double uniform = static_cast<double>(SplitMix64(draw) >> 11) * 0x1p-53;
  const auto rank = static_cast<uint64_t>(std::exp(uniform * std::log(static_cast<double>(keys))));
  return SplitMix64(rank) % keys;
}

class Store {
 public:
  Store(bool silt, uint64_t keys, int hash_stores, const std::string& engine_options)
      : silt_(silt), keys_(keys), hash_stores_(hash_stores) {
    path_ = std::filesystem::temp_directory_path() / ("silt_lookup_bench_" + std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
    options_.write_buffer_size = std::max<uint64_t>(64 << 10, keys * 120 / 90);
    // 60 tables at the last level, as with 64 MiB of 50 M.
    options_.target_file_size_base = std::max<uint64_t>(64 << 10, keys * 76 / 60);
    options_.max_bytes_for_level_base = 4 * options_.write_buffer_size;
    options_.max_background_jobs = 2;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(keys * 76 / 8 * 7);
    if (!silt) table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (silt) {
      cairn::SiltOptions silt_options;
      Check(cairn::SiltOptionsFromString(engine_options, &silt_options));
      Check(cairn::UseSilt(&options_, silt_options));
    }
    rocksdb::DB* db = nullptr;
    Check(rocksdb::DB::Open(options_, path_, cairn::port::Into(&db)));
    db_.reset(db);
  }
  ~Store() {
    db_.reset();
    std::filesystem::remove_all(path_);
  }

  void Load() {
    for (uint64_t i = 0; i < keys_; ++i) Put(i);
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    Check(db_->CompactRange(all, nullptr, nullptr));
  }

  // Updates, each write buffer's worth its own table.
  void Update(bool zipf) {
    if (silt_) Check(db_->SetOptions({{"disable_auto_compactions", "true"}}));
    for (int store = 0; store < hash_stores_; ++store) {
      for (uint64_t i = 0; i < keys_ / 90; ++i) {
        const uint64_t draw = draws_++;
        Put(zipf ? ZipfKey(draw, keys_) : SplitMix64(draw) % keys_);
      }
      Check(db_->Flush(rocksdb::FlushOptions()));
    }
    if (!silt_) Check(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
  }

  void Measure(const char* when, int rounds) {
    rocksdb::TablePropertiesCollection tables;
    Check(db_->GetPropertiesOfAllTables(&tables));
    double bytes = 0;
    for (const auto& [file, table] : tables) {
      if (!silt_) bytes += static_cast<double>(table->index_size + table->filter_size);
      cairn::EctTableFacts facts;
      if (cairn::ReadEctTableFacts(*table, &facts).ok()) {
        bytes += static_cast<double>(facts.layout_bytes + facts.index_bytes + facts.filter_bytes);
      }
    }
    printf("%-8s %-8s %3zu files, %5.2f bits/key", silt_ ? "silt" : "leveled", when, tables.size(),
           8 * bytes / static_cast<double>(keys_));
    const struct {
      const char* name;
      void (Store::*lookups)(uint64_t);
    } kinds[] = {{"absent", &Store::LookUpAbsent}, {"uniform", &Store::LookUpUniform}, {"zipf", &Store::LookUpZipf}};
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    for (const auto& [name, lookups] : kinds) {
      double least = 1e9;
      rocksdb::get_perf_context()->Reset();
      for (int round = 0; round <= rounds; ++round) {
        const double start = ThreadSeconds();
        (this->*lookups)(static_cast<uint64_t>(round) * kLookups);
        if (round > 0 || rounds == 1) least = std::min(least, ThreadSeconds() - start);
      }
      const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
      printf("  %s: %.3f us, %.4f blocks", name, 1e6 * least / kLookups,
             static_cast<double>(counts.block_read_count + counts.block_cache_hit_count) / kLookups / (rounds + 1));
    }
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    printf("\n");
    fflush(stdout);
  }

 private:
  void Put(uint64_t item) {
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    Check(db_->Put(write, Key(item), std::string(48, static_cast<char>('a' + item % 26))));
  }

  __attribute__((noinline)) void LookUpAbsent(uint64_t from) {
    for (uint64_t i = from; i < from + kLookups; ++i) LookUp(Key(keys_ + i));
  }
  __attribute__((noinline)) void LookUpUniform(uint64_t from) {
    for (uint64_t i = from; i < from + kLookups; ++i) LookUp(Key(SplitMix64(~i) % keys_));
  }
  __attribute__((noinline)) void LookUpZipf(uint64_t from) {
    for (uint64_t i = from; i < from + kLookups; ++i) LookUp(Key(ZipfKey(~i, keys_)));
  }
  void LookUp(const std::string& key) {
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value_);
    if (!status.IsNotFound()) Check(status);
  }

  const bool silt_;
  const uint64_t keys_;
  const int hash_stores_;
  uint64_t draws_ = 0;
  std::string value_;
  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string engine = argc > 1 ? argv[1] : "";
  const uint64_t keys = argc > 2 ? 1000 * strtoull(argv[2], nullptr, 10) : 0;
  const int hash_stores = argc > 3 ? atoi(argv[3]) : 0;
  if (argc < 4 || argc > 5 || (engine != "silt" && engine != "leveled") || keys == 0) {
    fprintf(stderr, "usage: silt_lookup_bench silt|leveled THOUSAND_KEYS HASH_STORES [ENGINE_OPTIONS]\n");
    return 2;
  }
  const char* const rounds_text = getenv("ROUNDS");
  const int rounds = rounds_text != nullptr ? atoi(rounds_text) : 5;
  Store store(engine == "silt", keys, hash_stores, argc > 4 ? argv[4] : "");
  store.Load();
  store.Measure("merged", rounds);
  store.Update(/*zipf=*/false);
  store.Measure("updated", rounds);
  return 0;
}
