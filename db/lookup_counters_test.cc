// RocksDB's counters of lookups say on each engine's tables what they say on RocksDB's: what an operator watches
// (tickers, histograms, the perf context, also by level) fits to what was read.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "test/support.h"

namespace cairn::test {
namespace {

using rocksdb::PerfContextByLevel;

constexpr uint64_t kKeys = 4000;  // of even numbers
constexpr size_t kBatch = 30;

std::string KeyOf(uint64_t number) { return "key" + std::to_string(100000 + number * 7919 % 100003); }

// A database, and what its counters have counted.
class Counted {
 public:
  Counted(const rocksdb::Options& options, const std::string& path)
      : statistics_(rocksdb::CreateDBStatistics()), path_(path) {
    Open(options);
  }

  // New options have a new block cache.
  void Open(const rocksdb::Options& options) {
    db_.reset();
    options_ = options;
    options_.statistics = statistics_;
    options_.disable_auto_compactions = true;
    options_.level0_slowdown_writes_trigger = options_.level0_stop_writes_trigger = 1000;
    ASSERT_OK(rocksdb::DB::Open(options_, path_, port::Into(&db_)));
  }

  // Several runs, and some keys in the memtable.
  void Fill() {
    for (int round = 0; round < 4; ++round) {
      for (uint64_t i = static_cast<uint64_t>(round); i < kKeys; i += round == 0 ? 1 : 3) {
        ASSERT_OK(db_->Put(WriteOptions(), KeyOf(2 * i), std::string(60, static_cast<char>('a' + i % 20))));
      }
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    for (uint64_t i = 0; i < 50; ++i) ASSERT_OK(db_->Put(WriteOptions(), KeyOf(2 * i), "new"));
  }

  void GetAll(uint64_t odd, const ReadOptions& options = ReadOptions()) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      rocksdb::PinnableSlice value;
      const Status s = db_->Get(options, db_->DefaultColumnFamily(), KeyOf(2 * i + odd), &value);
      ASSERT_EQ(odd == 0 ? Status::kOk : Status::kNotFound, s.code()) << s.ToString();
    }
  }

  void GetBatches(uint64_t odd) {
    for (uint64_t i = 0; i + kBatch <= kKeys; i += kBatch) {
      std::vector<std::string> names;
      for (uint64_t j = 0; j < kBatch; ++j) names.push_back(KeyOf(2 * (i + j) + odd));
      const std::vector<Slice> keys(names.begin(), names.end());
      std::vector<rocksdb::PinnableSlice> values(kBatch);
      std::vector<Status> statuses(kBatch);
      db_->MultiGet(ReadOptions(), db_->DefaultColumnFamily(), kBatch, keys.data(), values.data(), statuses.data());
      for (const Status& s : statuses) ASSERT_EQ(odd == 0 ? Status::kOk : Status::kNotFound, s.code());
    }
  }

  void Reset() {
    ASSERT_OK(statistics_->Reset());
    rocksdb::get_perf_context()->Reset();
  }
  uint64_t Ticker(rocksdb::Tickers ticker) const { return statistics_->getTickerCount(ticker); }
  rocksdb::HistogramData Histogram(rocksdb::Histograms histogram) const {
    rocksdb::HistogramData data;
    statistics_->histogramData(histogram, &data);
    return data;
  }
  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::Statistics* statistics() const { return statistics_.get(); }

 private:
  const std::shared_ptr<rocksdb::Statistics> statistics_;
  const std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

// Counts in the perf context, also by level, while it lives.
class CountByLevel {
 public:
  CountByLevel() {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->EnablePerLevelPerfContext();
  }
  ~CountByLevel() {
    rocksdb::get_perf_context()->ClearPerLevelPerfContext();
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  }
  static uint64_t Sum(uint64_t PerfContextByLevel::*counter) {
    uint64_t sum = 0;
    for (const auto& [level, counts] : *rocksdb::get_perf_context()->level_to_perf_context) sum += counts.*counter;
    return sum;
  }
};

class LookupCountersTest : public ::testing::TestWithParam<const char*> {
 protected:
  // With a block cache of their own.
  static rocksdb::Options Options() {
    rocksdb::Options options = OptionsOf(*FindEngine(GetParam()));
    auto* table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    EXPECT_NE(nullptr, table);
    if (table != nullptr) {
      table->block_cache = rocksdb::NewLRUCache(64 << 20);
      if (table->filter_policy == nullptr) table->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    }
    return options;
  }
  TempDir dir_;
};

// Each block that a Get reads is one miss of the cache, one insertion, and one time.
TEST_P(LookupCountersTest, AReadOfABlockIsCountedOnce) {
  Counted counted(Options(), dir_ / "db");
  counted.Fill();
  counted.Open(Options());
  counted.Reset();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  counted.GetAll(0);
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  const rocksdb::PerfContext& perf = *rocksdb::get_perf_context();
  EXPECT_EQ(kKeys, counted.Ticker(rocksdb::NUMBER_KEYS_READ));
  EXPECT_EQ(kKeys - 50, counted.Ticker(rocksdb::GET_HIT_L0) + counted.Ticker(rocksdb::GET_HIT_L1) +
                            counted.Ticker(rocksdb::GET_HIT_L2_AND_UP) + counted.Ticker(rocksdb::MEMTABLE_HIT) - 50);
  EXPECT_GT(counted.Ticker(rocksdb::BLOCK_CACHE_DATA_MISS), 10u);
  EXPECT_GE(counted.Ticker(rocksdb::BLOCK_CACHE_ADD), counted.Ticker(rocksdb::BLOCK_CACHE_DATA_MISS));
  EXPECT_EQ(counted.Ticker(rocksdb::BLOCK_CACHE_DATA_MISS), counted.Ticker(rocksdb::BLOCK_CACHE_DATA_ADD));
  EXPECT_GE(counted.Ticker(rocksdb::BLOCK_CACHE_BYTES_WRITE), counted.Ticker(rocksdb::BLOCK_CACHE_DATA_BYTES_INSERT));
  EXPECT_GE(counted.Histogram(rocksdb::READ_BLOCK_GET_MICROS).count, counted.Ticker(rocksdb::BLOCK_CACHE_DATA_MISS));
  EXPECT_GE(perf.block_read_count, counted.Ticker(rocksdb::BLOCK_CACHE_DATA_MISS));
  EXPECT_EQ(counted.Ticker(rocksdb::BLOCK_CACHE_HIT), perf.block_cache_hit_count);
  EXPECT_EQ(counted.Ticker(rocksdb::BLOCK_CACHE_FILTER_HIT), perf.block_cache_filter_hit_count);
  EXPECT_EQ(counted.Ticker(rocksdb::BLOCK_CACHE_INDEX_HIT), perf.block_cache_index_hit_count);
  EXPECT_EQ(counted.Ticker(rocksdb::BLOCK_CACHE_BYTES_READ), perf.block_cache_read_byte);
}

// The perf context counts what the tickers do, as a whole and by level.
TEST_P(LookupCountersTest, FiltersCountInThePerfContext) {
  Counted counted(Options(), dir_ / "db");
  counted.Fill();
  counted.Open(Options());
  for (const bool by_level : {false, true}) {
    SCOPED_TRACE(by_level);
    // So that a VersionFilter is there.
    counted.GetAll(1);
    counted.GetAll(0);
    counted.Reset();
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    {
      const std::unique_ptr<CountByLevel> levels = by_level ? std::make_unique<CountByLevel>() : nullptr;
      counted.GetAll(0);
      counted.GetAll(1);
      const rocksdb::PerfContext& perf = *rocksdb::get_perf_context();
      const uint64_t positive = counted.Ticker(rocksdb::BLOOM_FILTER_FULL_POSITIVE);
      const uint64_t useful = counted.Ticker(rocksdb::BLOOM_FILTER_USEFUL);
      EXPECT_GT(useful, 0u);
      // Of an ordered table whose Bloom filter has erred, the order filter's answer is the ticker's. A trie's ticker
      // lags by what the thread's last lookup has asked.
      EXPECT_NEAR(static_cast<double>(useful + positive),
                  static_cast<double>(perf.bloom_sst_miss_count + perf.bloom_sst_hit_count), 70);
      EXPECT_GT(useful + 70, perf.bloom_sst_miss_count);
      if (by_level) {
        EXPECT_EQ(positive, CountByLevel::Sum(&PerfContextByLevel::bloom_filter_full_positive));
        EXPECT_EQ(counted.Ticker(rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE),
                  CountByLevel::Sum(&PerfContextByLevel::bloom_filter_full_true_positive));
        EXPECT_NEAR(static_cast<double>(useful),
                    static_cast<double>(CountByLevel::Sum(&PerfContextByLevel::bloom_filter_useful)), 70);
        EXPECT_EQ(perf.block_cache_hit_count, CountByLevel::Sum(&PerfContextByLevel::block_cache_hit_count));
        EXPECT_EQ(kKeys - counted.Ticker(rocksdb::MEMTABLE_HIT),
                  CountByLevel::Sum(&PerfContextByLevel::user_key_return_count));
      }
    }
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  }
}

// Tables that a batch has read blocks of, and their levels.
TEST_P(LookupCountersTest, ABatchCountsTheTablesThatItReads) {
  Counted counted(Options(), dir_ / "db");
  counted.Fill();
  // Not the first lookups, which find no VersionFilter; the cache is new.
  counted.Open(Options());
  ReadOptions not_into_cache;
  not_into_cache.fill_cache = false;
  counted.GetAll(1, not_into_cache);
  counted.Reset();
  counted.GetBatches(0);
  const uint64_t levels = counted.Histogram(rocksdb::NUM_LEVEL_READ_PER_MULTIGET).sum;
  EXPECT_GT(levels, 0u);
  EXPECT_EQ(levels, counted.Histogram(rocksdb::NUM_SST_READ_PER_LEVEL).count);
  EXPECT_LE(counted.Histogram(rocksdb::NUM_LEVEL_READ_PER_MULTIGET).count, kKeys / kBatch);
  EXPECT_GT(counted.Histogram(rocksdb::SST_BATCH_SIZE).count, 0u);
}

// What is compressed when tables are written and decompressed when they are read.
TEST_P(LookupCountersTest, CompressionCounts) {
  const std::vector<rocksdb::CompressionType> supported = rocksdb::GetSupportedCompressions();
  if (std::find(supported.begin(), supported.end(), rocksdb::kZSTD) == supported.end()) GTEST_SKIP() << "no Zstandard";
  rocksdb::Options options = Options();
  options.compression = rocksdb::kZSTD;
  options.compression_per_level.clear();
  Counted counted(options, dir_ / "db");
  counted.statistics()->set_stats_level(rocksdb::StatsLevel::kAll);
  counted.Fill();
  EXPECT_GT(counted.Ticker(rocksdb::NUMBER_BLOCK_COMPRESSED), 10u);
  EXPECT_GT(counted.Ticker(rocksdb::BYTES_COMPRESSED_TO), 0u);
  EXPECT_GT(counted.Ticker(rocksdb::BYTES_COMPRESSED_FROM), 2 * counted.Ticker(rocksdb::BYTES_COMPRESSED_TO));
  EXPECT_GE(counted.Histogram(rocksdb::COMPRESSION_TIMES_NANOS).count,
            counted.Ticker(rocksdb::NUMBER_BLOCK_COMPRESSED));
  EXPECT_GT(counted.Histogram(rocksdb::WRITE_RAW_BLOCK_MICROS).count, 0u);
  options.table_factory = Options().table_factory;
  counted.Open(options);
  counted.Reset();
  counted.GetAll(0);
  EXPECT_GT(counted.Ticker(rocksdb::NUMBER_BLOCK_DECOMPRESSED), 10u);
  EXPECT_GT(counted.Ticker(rocksdb::BYTES_DECOMPRESSED_TO), 2 * counted.Ticker(rocksdb::BYTES_DECOMPRESSED_FROM));
  EXPECT_GE(counted.Histogram(rocksdb::DECOMPRESSION_TIMES_NANOS).count,
            counted.Ticker(rocksdb::NUMBER_BLOCK_DECOMPRESSED));
}

INSTANTIATE_TEST_SUITE_P(Engines, LookupCountersTest,
                         ::testing::Values("leveled", "leveled_ordered", "ordered", "ordered_cache", "trie_htable",
                                           "silt_pinned", "silt_cache", "trie_ect"),
                         [](const auto& engine) { return std::string(engine.param); });

// RocksDB's batches have all keys within a table's bounds, ours those that the table's filters let pass. Files are
// deleted when a thread in the background comes to it.
bool Differs(const std::string& name) {
  return name == "rocksdb.sst.batch.size count" || name.rfind("rocksdb.files.", 0) == 0;
}

// Ordered tables without an order filter are read as RocksDB's own: every counter is the same but for what is named
// here.
TEST(OrderedCountersTest, EveryCounterIsStocks) {
  for (const bool in_cache : {false, true}) {
    SCOPED_TRACE(in_cache);
    TempDir dir;
    rocksdb::Options options = BaseOptions();
    options.write_buffer_size = 64 << 20;  // as many tables in both
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.cache_index_and_filter_blocks = in_cache;
    table.block_cache = rocksdb::NewLRUCache(64 << 20);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    Counted stock(options, dir / "stock");
    table.block_cache = rocksdb::NewLRUCache(64 << 20);
    OrderFilterOptions none;
    none.order_bits = 0;
    options.table_factory.reset(NewOrderedTableFactory(table, none));
    Counted ordered(options, dir / "ordered");
    std::map<std::string, uint64_t> counts[2];
    for (Counted* counted : {&stock, &ordered}) {
      counted->Fill();
      counted->Reset();
      rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
      for (int pass = 0; pass < 2; ++pass) {
        counted->GetAll(pass == 0 ? 0 : 1);
        counted->GetAll(0);
        counted->GetBatches(0);
        counted->GetBatches(1);
      }
      rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
      auto& own = counts[counted == &ordered ? 1 : 0];
      for (const auto& [ticker, name] : rocksdb::TickersNameMap) {
        own[name] = counted->Ticker(static_cast<rocksdb::Tickers>(ticker));
      }
      for (const auto& [histogram, name] : rocksdb::HistogramsNameMap) {
        own[name + " count"] = counted->Histogram(static_cast<rocksdb::Histograms>(histogram)).count;
      }
      const rocksdb::PerfContext& perf = *rocksdb::get_perf_context();
      own["perf hits"] = perf.block_cache_hit_count;
      own["perf filter hits"] = perf.block_cache_filter_hit_count;
      own["perf index hits"] = perf.block_cache_index_hit_count;
      own["perf reads"] = perf.block_read_count;
      own["perf bytes"] = perf.block_read_byte;
      own["perf filters passed"] = perf.bloom_sst_hit_count;
      own["perf filters kept"] = perf.bloom_sst_miss_count;
      own["perf read bytes"] = perf.get_read_bytes + perf.multiget_read_bytes;
    }
    for (const auto& [name, count] : counts[0]) {
      if (Differs(name)) continue;
      // What an allocation takes is the allocator's: 16 bytes more where what would be left of a piece is too little
      // for another.
      const double few = name.find("bytes") != std::string::npos ? 1e-2 * static_cast<double>(count) : 0;
      EXPECT_NEAR(static_cast<double>(count), static_cast<double>(counts[1][name]), few) << name;
    }
  }
}

}  // namespace
}  // namespace cairn::test
