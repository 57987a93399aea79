// Ordered tables through every door of RocksDB that makes iterators of its own: the same operations on a database with
// RocksDB's table give the same answers.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "rocksdb/cache.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/ordered/order_block.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::TransactionDBOptions;
using Random = std::mt19937_64;

constexpr uint64_t kSpace = 4000;

std::string Key(uint64_t n) {
  char text[32];
  snprintf(text, sizeof(text), "key%06llu", static_cast<unsigned long long>(n % kSpace));
  return text;
}

// Random seeks and steps; the same for the same seed.
std::string Walk(Iterator* it, uint64_t seed, bool forward_only) {
  Random random(seed);
  std::string seen;
  for (int i = 0; i < 60; ++i) {
    const uint64_t step = it->Valid() ? random() % 10 : 0;
    if (step < 3) {
      it->Seek(Key(random()));
    } else if (step == 3 && !forward_only) {
      it->SeekForPrev(Key(random()));
    } else if (step == 4 && !forward_only) {
      it->Prev();
    } else if (step == 5 && random() % 4 == 0) {
      it->SeekToFirst();
    } else {
      it->Next();
    }
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    seen += it->Valid() ? it->key().ToString() + "=" + it->value().ToString() + "\n" : "-\n";
  }
  return seen;
}

class OrderedDoorsTest : public ::testing::Test {
 protected:
  OrderedDoorsTest() {}
  ~OrderedDoorsTest() override {}

  std::string Path(bool ordered) const { return path_ + (ordered ? "/ordered" : "/stock"); }

  Options MakeOptions(bool ordered) const {
    Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1000;
    options.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options.statistics = rocksdb::CreateDBStatistics();
    rocksdb::BlockBasedTableOptions table = table_;
    table.block_size = 512;
    if (ordered) {
      options.table_factory.reset(NewOrderedTableFactory(table));
    } else {
      options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    }
    return options;
  }

  // Runs of random keys, with flushes between.
  static void Fill(DB* db, uint64_t seed, int runs) {
    Random random(seed);
    for (int run = 0; run < runs; ++run) {
      for (int i = 0; i < 300; ++i) {
        const std::string key = Key(random()), value = std::to_string(random());
        const uint64_t kind = random() % 10;
        ASSERT_OK(kind == 0 ? db->Delete({}, key) : kind == 1 ? db->Merge({}, key, value) : db->Put({}, key, value));
      }
      ASSERT_OK(db->Flush({}));
    }
  }

  static OrderedSeekStats Seeks(DB* db) {
    OrderedStats stats;
    EXPECT_TRUE(GetOrderedStats(db, db->DefaultColumnFamily(), &stats).ok());
    return stats.seeks;
  }

  rocksdb::BlockBasedTableOptions table_;
  test::TempDir directory_;
  const std::string path_ = directory_.path();
};

// `open` opens a database of some kind, and `walk` goes through it; both are called with and without order filters.
template <typename Opened>
void Compare(const std::function<Status(bool ordered, std::unique_ptr<Opened>*)>& open,
             const std::function<std::string(Opened*, Random*)>& use) {
  const uint64_t seed = Seed();
  std::string seen[2];
  for (const bool ordered : {false, true}) {
    std::unique_ptr<Opened> db;
    ASSERT_OK(open(ordered, &db));
    Random random(seed);
    for (int i = 0; i < 30; ++i) seen[ordered ? 1 : 0] += use(db.get(), &random);
  }
  ASSERT_EQ(seen[0], seen[1]);
}

TEST_F(OrderedDoorsTest, WriteBatchWithIndex) {
  Compare<DB>(
      [this](bool ordered, std::unique_ptr<DB>* db) {
        const Status s = DB::Open(MakeOptions(ordered), Path(ordered), port::Into(db));
        if (s.ok()) Fill(db->get(), Seed(), 12);
        return s;
      },
      [](DB* db, Random* random) {
        rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, true);
        for (int i = 0; i < 50; ++i) {
          const std::string key = Key((*random)());
          EXPECT_TRUE(((*random)() % 3 == 0 ? batch.Delete(key) : batch.Put(key, "batch")).ok());
        }
        const std::unique_ptr<Iterator> it(batch.NewIteratorWithBase(db->DefaultColumnFamily(), db->NewIterator({})));
        return Walk(it.get(), (*random)(), false);
      });
}

std::string UseTransaction(rocksdb::Transaction* transaction, Random* random) {
  for (int i = 0; i < 40; ++i) {
    const std::string key = Key((*random)());
    EXPECT_TRUE(((*random)() % 3 == 0 ? transaction->Delete(key) : transaction->Put(key, "mine")).ok());
  }
  ReadOptions read;
  read.snapshot = (*random)() % 2 == 0 ? transaction->GetSnapshot() : nullptr;
  std::string seen;
  {
    const std::unique_ptr<Iterator> it(transaction->GetIterator(read));
    seen = Walk(it.get(), (*random)(), false);
  }
  EXPECT_TRUE(((*random)() % 2 == 0 ? transaction->Commit() : transaction->Rollback()).ok());
  return seen;
}

class OrderedTransactionTest : public OrderedDoorsTest,
                               public ::testing::WithParamInterface<rocksdb::TxnDBWritePolicy> {};

TEST_P(OrderedTransactionTest, OfEachWritePolicy) {
  Compare<rocksdb::TransactionDB>(
      [this](bool ordered, std::unique_ptr<rocksdb::TransactionDB>* db) {
        TransactionDBOptions kind;
        kind.write_policy = GetParam();
        const Status s = rocksdb::TransactionDB::Open(MakeOptions(ordered), kind, Path(ordered), port::Into(db));
        if (s.ok()) Fill(db->get(), Seed(), 12);
        return s;
      },
      [](rocksdb::TransactionDB* db, Random* random) {
        rocksdb::TransactionOptions options;
        options.set_snapshot = true;
        const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction({}, options));
        std::string seen = UseTransaction(transaction.get(), random);
        if ((*random)() % 4 == 0) {
          EXPECT_TRUE(db->Flush({}).ok());
        }
        const std::unique_ptr<Iterator> it(db->NewIterator({}));
        return seen + Walk(it.get(), (*random)(), false);
      });
}

INSTANTIATE_TEST_SUITE_P(Policies, OrderedTransactionTest,
                         ::testing::Values(rocksdb::WRITE_COMMITTED, rocksdb::WRITE_PREPARED,
                                           rocksdb::WRITE_UNPREPARED));

TEST_F(OrderedDoorsTest, OptimisticTransactions) {
  Compare<rocksdb::OptimisticTransactionDB>(
      [this](bool ordered, std::unique_ptr<rocksdb::OptimisticTransactionDB>* db) {
        const Status s = rocksdb::OptimisticTransactionDB::Open(MakeOptions(ordered), Path(ordered), port::Into(db));
        if (s.ok()) Fill(db->get(), Seed(), 12);
        return s;
      },
      [](rocksdb::OptimisticTransactionDB* db, Random* random) {
        rocksdb::OptimisticTransactionOptions options;
        options.set_snapshot = true;
        const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction({}, options));
        return UseTransaction(transaction.get(), random);
      });
}

TEST_F(OrderedDoorsTest, SecondaryInstances) {
  std::unique_ptr<DB> primaries[2], secondaries[2];
  for (const bool ordered : {false, true}) {
    DB* opened = nullptr;
    ASSERT_OK(DB::Open(MakeOptions(ordered), Path(ordered), port::Into(&opened)));
    primaries[ordered ? 1 : 0].reset(opened);
    Options options = MakeOptions(ordered);
    options.max_open_files = -1;
    ASSERT_OK(
        DB::OpenAsSecondary(options, Path(ordered), path_ + (ordered ? "/second1" : "/second0"), port::Into(&opened)));
    secondaries[ordered ? 1 : 0].reset(opened);
  }
  Random random(Seed());
  for (int round = 0; round < 8; ++round) {
    const uint64_t seed = random();
    std::string seen[2];
    for (const int i : {0, 1}) {
      Fill(primaries[i].get(), seed, 2);
      if (round == 5) {
        ASSERT_OK(primaries[i]->CompactRange({}, nullptr, nullptr));
      }
      ASSERT_OK(secondaries[i]->TryCatchUpWithPrimary());
      for (int walk = 0; walk < 20; ++walk) {
        const std::unique_ptr<Iterator> it(secondaries[i]->NewIterator({}));
        seen[i] += Walk(it.get(), seed + static_cast<uint64_t>(walk), false);
      }
    }
    ASSERT_EQ(seen[0], seen[1]);
  }
  EXPECT_GT(Seeks(secondaries[1].get()).deferred, 100u);
}

// A tailing iterator sees what is written, flushed and compacted under it.
TEST_F(OrderedDoorsTest, TailingIterators) {
  std::unique_ptr<DB> dbs[2];
  std::unique_ptr<Iterator> tails[2];
  ReadOptions tailing;
  tailing.tailing = true;
  for (const bool ordered : {false, true}) {
    DB* opened = nullptr;
    ASSERT_OK(DB::Open(MakeOptions(ordered), Path(ordered), port::Into(&opened)));
    dbs[ordered ? 1 : 0].reset(opened);
    tails[ordered ? 1 : 0].reset(opened->NewIterator(tailing));
  }
  Random random(Seed());
  for (int round = 0; round < 20; ++round) {
    const uint64_t seed = random();
    std::string seen[2];
    for (const int i : {0, 1}) {
      Fill(dbs[i].get(), seed, 1);
      if (round % 7 == 6) {
        ASSERT_OK(dbs[i]->CompactRange({}, nullptr, nullptr));
      }
      seen[i] = Walk(tails[i].get(), seed, true);
    }
    ASSERT_EQ(seen[0], seen[1]);
  }
  EXPECT_EQ(0u, Seeks(dbs[1].get()).deferred);
}

// What the cache alone can answer is right, and what it cannot is Incomplete, as with RocksDB's table.
TEST_F(OrderedDoorsTest, TheCacheAlone) {
  for (const bool cached_filters : {false, true}) {
    table_.block_cache = rocksdb::NewLRUCache(1 << 20);
    table_.cache_index_and_filter_blocks = cached_filters;
    const std::string path = Path(true) + (cached_filters ? "_cached" : "");
    DB* opened = nullptr;
    ASSERT_OK(DB::Open(MakeOptions(true), path, port::Into(&opened)));
    Fill(opened, Seed(), 10);
    delete opened;
    table_.block_cache = rocksdb::NewLRUCache(1 << 20);
    ASSERT_OK(DB::Open(MakeOptions(true), path, port::Into(&opened)));
    const std::unique_ptr<DB> db(opened);
    ReadOptions cache_alone;
    cache_alone.read_tier = rocksdb::kBlockCacheTier;
    Random random(Seed());
    uint64_t answered = 0, incomplete = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::string target = Key(random());
      const std::unique_ptr<Iterator> it(db->NewIterator(cache_alone));
      it->Seek(target);
      const std::unique_ptr<Iterator> all(db->NewIterator({}));
      // Every fourth seek reads, so that blocks come into the cache one by one.
      if (i % 4 == 0) all->Seek(target);
      if (it->status().IsIncomplete()) {
        ++incomplete;
        continue;
      }
      ASSERT_OK(it->status());
      all->Seek(target);
      ASSERT_EQ(all->Valid(), it->Valid());
      if (!it->Valid()) continue;
      ++answered;
      ASSERT_EQ(all->key().ToString(), it->key().ToString());
      ASSERT_EQ(all->value().ToString(), it->value().ToString());
    }
    EXPECT_GT(answered, 200u);
    EXPECT_GT(incomplete, 3u);
  }
}

// Timestamps have no order filter, and no part in it.
TEST_F(OrderedDoorsTest, TimestampsAreRocksDBs) {
  Options options = MakeOptions(true);
  options.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  options.merge_operator = nullptr;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, Path(true), port::Into(&db)));
  const std::string at(8, '\1'), later(8, '\2');
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_OK(db->Put({}, Key(i * 3), at, "old"));
    ASSERT_OK(db->Put({}, Key(i * 3), later, "new"));
  }
  ASSERT_OK(db->Flush({}));
  const Slice timestamp(at);
  ReadOptions read;
  read.timestamp = &timestamp;
  const std::unique_ptr<Iterator> it(db->NewIterator(read));
  it->Seek(Key(4));
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(Key(6), it->key().ToString());
  EXPECT_EQ("old", it->value().ToString());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(db->GetPropertiesOfAllTables(&tables));
  for (const auto& [name, properties] : tables) {
    EXPECT_EQ(0u, properties->user_collected_properties.count(kOrderProperty)) << name;
  }
  EXPECT_EQ(0u, Seeks(db.get()).deferred);
}

// The order filter is in the cache when a flush or an open has warmed it up, counted as a filter block, and part of
// what table readers take where it is not in the cache.
TEST_F(OrderedDoorsTest, IsKeptAsFiltersAre) {
  uint64_t reader_bytes[2];
  for (const bool cached : {false, true}) {
    table_.block_cache = rocksdb::NewLRUCache(8 << 20);
    table_.cache_index_and_filter_blocks = cached;
    table_.pin_l0_filter_and_index_blocks_in_cache = cached;
    table_.prepopulate_block_cache = rocksdb::BlockBasedTableOptions::PrepopulateBlockCache::kFlushOnly;
    std::unique_ptr<DB> db;
    const Options options = MakeOptions(true);
    const std::string path = Path(true) + (cached ? "_cached" : "");
    ASSERT_OK(DB::Open(options, path, port::Into(&db)));
    Fill(db.get(), Seed(), 8);
    ASSERT_TRUE(db->GetIntProperty("rocksdb.estimate-table-readers-mem", &reader_bytes[cached ? 1 : 0]));
    const auto& statistics = *options.statistics;
    const uint64_t misses = statistics.getTickerCount(rocksdb::BLOCK_CACHE_FILTER_MISS);
    const uint64_t data_misses = statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS);
    {
      const std::unique_ptr<Iterator> it(db->NewIterator({}));
      for (uint64_t i = 0; i < 200; ++i) it->Seek(Key(i * 19));
    }
    EXPECT_EQ(misses, statistics.getTickerCount(rocksdb::BLOCK_CACHE_FILTER_MISS));
    EXPECT_EQ(data_misses, statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS));
    EXPECT_GT(Seeks(db.get()).deferred, 200u);
  }
  EXPECT_GT(reader_bytes[0], reader_bytes[1]);
}

// optimize_filters_for_hits leaves out Bloom filters of the last level. Order filters answer seeks: they stay.
TEST_F(OrderedDoorsTest, FiltersForHitsLeaveOrderFilters) {
  table_.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  Options options = MakeOptions(true);
  options.optimize_filters_for_hits = true;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, Path(true), port::Into(&db)));
  Fill(db.get(), Seed(), 6);
  ASSERT_OK(db->CompactRange({}, nullptr, nullptr));
  OrderedStats stats;
  ASSERT_OK(GetOrderedStats(db.get(), db->DefaultColumnFamily(), &stats));
  EXPECT_EQ(1u, stats.runs);
  EXPECT_GT(stats.filter_keys, 500u);
}

TEST_F(OrderedDoorsTest, StatisticsSayWhatSeeksCameTo) {
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(MakeOptions(true), Path(true), port::Into(&db)));
  Fill(db.get(), Seed(), 10);
  constexpr uint64_t kSeeks = 1000;
  {
    const std::unique_ptr<Iterator> it(db->NewIterator({}));
    Random random(Seed());
    for (uint64_t i = 0; i < kSeeks; ++i) it->Seek(Key(random()));
  }
  const OrderedSeekStats seeks = Seeks(db.get());
  // Each seek asks each of the ten tables once, and a placeholder is read at most once.
  EXPECT_EQ(kSeeks * 10, seeks.deferred + seeks.past_end + seeks.past_bound + seeks.direct + seeks.unfiltered);
  EXPECT_EQ(0u, seeks.unfiltered);
  EXPECT_LE(seeks.resolved, seeks.deferred);
  EXPECT_LE(seeks.resolved_unused, seeks.resolved);
  EXPECT_GT(seeks.saved(), kSeeks * 6);
  OrderedStats stats;
  ASSERT_OK(GetOrderedStats(db.get(), db->DefaultColumnFamily(), &stats));
  EXPECT_NE(std::string::npos, OrderedStatsToTable(stats, "default").find("saved"));
  EXPECT_NE(std::string::npos, OrderedStatsToJson(stats, "default").find("\"saved\""));
}

// A short scan pays for the entries above the last run: the preset lets these grow to half of it, in runs of different
// sizes, where RocksDB's own options let them become twice as many, in runs of one size.
TEST_F(OrderedDoorsTest, APresetsRunsAboveTheLastStaySmall) {
  constexpr uint64_t kPuts = 200;
  const auto most_entries = [this](bool preset) {
    Options options = MakeOptions(true);
    options.disable_auto_compactions = false;
    OrderedOptions ordered;
    ordered.runs = 8;
    if (!preset) {
      ordered.max_size_amplification_percent = 200;
      ordered.size_ratio = 1;
    }
    EXPECT_OK(UseOrdered(&options, ordered));
    std::unique_ptr<DB> db;
    EXPECT_OK(DB::Open(options, Path(preset), port::Into(&db)));
    Random random(7);
    uint64_t most = 0;
    for (int flush = 0; db != nullptr && flush < 100; ++flush) {
      for (uint64_t i = 0; i < kPuts; ++i) EXPECT_OK(db->Put({}, Key(random()), std::string(100, 'v')));
      EXPECT_OK(db->Flush({}));
      EXPECT_OK(db->WaitForCompact({}));
      OrderedStats stats;
      EXPECT_OK(GetOrderedStats(db.get(), db->DefaultColumnFamily(), &stats));
      if (flush >= 40) most = std::max(most, stats.filter_keys);
    }
    return most;
  };
  EXPECT_LT(most_entries(true), kSpace * 17 / 10);
  EXPECT_GT(most_entries(false), kSpace * 17 / 10);
}

TEST_F(OrderedDoorsTest, OptionsOfThePresetAreChecked) {
  OrderedOptions ordered;
  EXPECT_OK(OrderedOptionsFromString("runs=12;max_size_amplification_percent=80;size_ratio=20", &ordered));
  Options options;
  EXPECT_OK(UseOrdered(&options, ordered));
  EXPECT_EQ(12, options.level0_file_num_compaction_trigger);
  EXPECT_EQ(80u, options.compaction_options_universal.max_size_amplification_percent);
  EXPECT_EQ(20u, options.compaction_options_universal.size_ratio);
  for (const char* wrong : {"runs=1", "max_size_amplification_percent=0", "size_ratio=-1", "filter_bits=nan",
                            "filter_bits=inf", "filter_bits=101"}) {
    OrderedOptions given;
    EXPECT_OK(OrderedOptionsFromString(wrong, &given));
    const Status s = UseOrdered(&options, given);
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  }
}

// A tombstone that lies in two files of a level ends the first one with the key that the second one begins with.
// Another tombstone that ends there sends the merging iterator to the first one for it.
TEST_F(OrderedDoorsTest, ARangeTombstoneEndsWhereAFileEnds) {
  Options options = MakeOptions(true);
  options.target_file_size_base = 1 << 10;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 512;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  OrderFilterOptions filter;
  filter.order_bits = 2.5;  // takes a target for the key before it
  options.table_factory.reset(NewOrderedTableFactory(table, filter));
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, Path(true), port::Into(&db)));
  for (uint64_t i = 0; i < kSpace; ++i) ASSERT_OK(db->Put({}, Key(i), "deleted"));
  const rocksdb::Snapshot* const kept = db->GetSnapshot();
  ASSERT_OK(db->DeleteRange({}, db->DefaultColumnFamily(), Key(0), "z"));
  for (uint64_t i = 0; i < kSpace; ++i) ASSERT_OK(db->Put({}, Key(i), "old" + std::string(50, '.')));
  ASSERT_OK(db->Flush({}));
  ASSERT_OK(db->CompactRange({}, nullptr, nullptr));

  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  std::vector<std::string> ends;
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (file.level > 0 && file.smallestkey > Key(0)) ends.push_back(file.smallestkey);
  }
  ASSERT_GT(ends.size(), 20);
  for (const std::string& end : ends) {
    const uint64_t n = strtoull(end.c_str() + 3, nullptr, 10);
    ASSERT_OK(db->Put({}, end, "new"));
    ASSERT_OK(db->DeleteRange({}, db->DefaultColumnFamily(), Key(n - 2), end));
  }
  ASSERT_OK(db->Flush({}));

  std::unique_ptr<Iterator> it(db->NewIterator({}));
  for (const std::string& end : ends) {
    const uint64_t n = strtoull(end.c_str() + 3, nullptr, 10);
    it->Seek(Key(n - 1));
    ASSERT_TRUE(it->Valid()) << end;
    EXPECT_EQ(it->key().ToString() + "=" + it->value().ToString(), end + "=new");
    it->Next();
    ASSERT_TRUE(it->Valid() || n + 1 == kSpace) << end;
    if (it->Valid()) {
      EXPECT_EQ(it->key().ToString() + "=" + it->value().ToString(), Key(n + 1) + "=old" + std::string(50, '.')) << end;
    }
  }
  it.reset();
  db->ReleaseSnapshot(kept);
}

}  // namespace
}  // namespace cairn
