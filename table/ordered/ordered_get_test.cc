// Point lookups of ordered tables: the answers of RocksDB's own tables, and fewer blocks read for keys that are not
// there.

#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "util/rocksdb_names.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::BlockBasedTableOptions;
using Random = std::mt19937_64;

constexpr uint64_t kSpace = 20000;  // of key numbers
constexpr int kRuns = 8;

std::string Key(uint64_t n) {
  char text[32];
  snprintf(text, sizeof(text), "key%08llu", static_cast<unsigned long long>(n));
  return text;
}

struct Variant {
  const char* name;
  std::function<void(Options*, BlockBasedTableOptions*)> change;
};

const std::vector<Variant>& Variants() {
  static const std::vector<Variant> variants = {
      {"bloom", [](Options*, BlockBasedTableOptions*) {}},
      {"no_filter", [](Options*, BlockBasedTableOptions* t) { t->filter_policy.reset(); }},
      {"partitioned",
       [](Options*, BlockBasedTableOptions* t) {
         t->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
         t->partition_filters = true;
         t->metadata_block_size = 512;
       }},
      {"cached",
       [](Options*, BlockBasedTableOptions* t) {
         t->cache_index_and_filter_blocks = true;
         t->block_cache = rocksdb::NewLRUCache(64 << 10, 0);
       }},
      {"cached_index", [](Options*, BlockBasedTableOptions* t) { t->cache_index_and_filter_blocks = true; }},
      {"first_keys",
       [](Options*, BlockBasedTableOptions* t) { t->index_type = BlockBasedTableOptions::kBinarySearchWithFirstKey; }},
      {"small_cache", [](Options*, BlockBasedTableOptions* t) { t->block_cache = rocksdb::NewLRUCache(64 << 10, 0); }},
      {"prefixes",
       [](Options* o, BlockBasedTableOptions* t) {
         o->prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(9));
         t->whole_key_filtering = false;
       }},
      {"hits", [](Options* o, BlockBasedTableOptions*) { o->optimize_filters_for_hits = true; }},
      {"hash_index", [](Options*, BlockBasedTableOptions* t) {
         t->data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
       }}};
  return variants;
}

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

class OrderedGetTest : public ::testing::TestWithParam<Variant> {
 protected:
  OrderedGetTest() {
    options_.create_if_missing = true;
    options_.disable_auto_compactions = true;
    options_.level0_slowdown_writes_trigger = options_.level0_stop_writes_trigger = 100;
    options_.compression = rocksdb::kNoCompression;
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options_.statistics = rocksdb::CreateDBStatistics();
    table_.block_size = 512;
    table_.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    GetParam().change(&options_, &table_);
  }
  ~OrderedGetTest() override {
    stock_.reset();
    ordered_.reset();
  }

  // Writes runs, and opens them once more through RocksDB's own table factory.
  void Open(bool ranges) {
    options_.table_factory.reset(NewOrderedTableFactory(table_));
    DB* db = nullptr;
    ASSERT_TRUE(DB::Open(options_, path_, port::Into(&db)).ok());
    ordered_.reset(db);
    for (int run = 0; run < kRuns; ++run) {
      for (int i = 0; i < 1500; ++i) {
        const std::string key = Key(random_() % kSpace / 2 * 2);
        Status s;
        switch (random_() % 16) {
          case 0:
            s = db->Delete({}, key);
            break;
          case 1:
            s = db->Merge({}, key, "+" + std::to_string(random_() % 100));
            break;
          default:
            s = db->Put({}, key, std::to_string(random_()));
        }
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
      for (int i = 0; ranges && i < 5; ++i) {
        const uint64_t n = random_() % kSpace;
        ASSERT_TRUE(db->DeleteRange({}, db->DefaultColumnFamily(), Key(n), Key(n + 50)).ok());
      }
      if (run == kRuns / 2) {
        snapshot_ = db->GetSnapshot();
        for (uint64_t n = 0; n < kSpace; n += 7) at_snapshot_.push_back(Get(db, {}, Key(n)));
      }
      ASSERT_TRUE(db->Flush({}).ok());
      if (run == 0) {
        rocksdb::CompactRangeOptions bottom;
        bottom.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
        ASSERT_TRUE(db->CompactRange(bottom, nullptr, nullptr).ok());
      }
    }
    Options stock = options_;
    stock.statistics = rocksdb::CreateDBStatistics();
    stock.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_));
    ASSERT_TRUE(DB::OpenForReadOnly(stock, path_, port::Into(&db)).ok());
    stock_.reset(db);
  }

  static std::string Answer(const Status& s, const rocksdb::Slice& value) {
    return s.ok() ? value.ToString() : s.ToString();
  }
  static std::string Get(DB* db, const rocksdb::ReadOptions& read, const std::string& key) {
    std::string value;
    const Status s = db->Get(read, key, &value);
    return Answer(s, value);
  }

  Random random_{Seed()};
  test::TempDir directory_;
  const std::string path_ = directory_.path();
  Options options_;
  BlockBasedTableOptions table_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::vector<std::string> at_snapshot_;  // what every seventh key was
  std::unique_ptr<DB> ordered_, stock_;
};

TEST_P(OrderedGetTest, AnswersAreThoseOfRocksDB) {
  Open(true);
  for (int i = 0; i < 3000; ++i) {
    rocksdb::ReadOptions read;
    std::vector<std::string> names;
    for (int k = 0; k < 8; ++k) names.push_back(random_() % 16 == 0 ? "other" : Key(random_() % kSpace));
    ASSERT_EQ(Get(stock_.get(), read, names[0]), Get(ordered_.get(), read, names[0])) << names[0];
    const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size()), stock_values(keys.size());
    std::vector<Status> statuses(keys.size()), stock_statuses(keys.size());
    read.async_io = i % 3 == 0;
    read.optimize_multiget_for_io = i % 2 == 0;
    ordered_->MultiGet(read, ordered_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(), statuses.data());
    stock_->MultiGet(read, stock_->DefaultColumnFamily(), keys.size(), keys.data(), stock_values.data(),
                     stock_statuses.data());
    for (size_t k = 0; k < keys.size(); ++k) {
      ASSERT_EQ(Answer(stock_statuses[k], stock_values[k]), Answer(statuses[k], values[k])) << names[k];
    }
    // A key that is there may exist, and may not need I/O.
    std::string value;
    if (statuses[1].ok()) {
      EXPECT_TRUE(ordered_->KeyMayExist({}, names[1], &value));
    }
    read.read_tier = rocksdb::kBlockCacheTier;
    const Status cached = ordered_->Get(read, names[2], &value);
    if (!cached.IsIncomplete()) {
      EXPECT_EQ(Answer(statuses[2], values[2]), Answer(cached, value));
    }
  }
  rocksdb::ReadOptions then;
  then.snapshot = snapshot_;
  for (uint64_t n = 0; n < kSpace; n += 7) ASSERT_EQ(at_snapshot_[n / 7], Get(ordered_.get(), then, Key(n))) << Key(n);
  ordered_->ReleaseSnapshot(snapshot_);
}

// RocksDB's filter is asked once for a lookup, and counted so.
TEST_P(OrderedGetTest, CountsAreThoseOfRocksDB) {
  Open(false);
  if (table_.filter_policy == nullptr || !table_.whole_key_filtering) {
    ordered_->ReleaseSnapshot(snapshot_);
    return;
  }
  uint64_t asked[2], found[2];
  for (int ordered = 0; ordered < 2; ++ordered) {
    DB* const db = ordered == 1 ? ordered_.get() : stock_.get();
    const std::shared_ptr<rocksdb::Statistics> statistics = db->GetOptions().statistics;
    ASSERT_TRUE(statistics->Reset().ok());
    for (uint64_t n = 0; n < kSpace; n += 3) Get(db, {}, Key(n));
    found[ordered] = statistics->getTickerCount(rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
    asked[ordered] = statistics->getTickerCount(rocksdb::BLOOM_FILTER_FULL_POSITIVE) +
                     statistics->getTickerCount(rocksdb::BLOOM_FILTER_USEFUL);
  }
  EXPECT_LT(0u, found[0]);
  // A table with a stranger behind one with an operand may count as one that has the key.
  EXPECT_LE(found[0], found[1]);
  EXPECT_GE(found[0] + found[0] / 50, found[1]);
  // A last level without RocksDB's filter is not counted by either.
  EXPECT_EQ(asked[0], asked[1]);
  ordered_->ReleaseSnapshot(snapshot_);
}

TEST_P(OrderedGetTest, AbsentKeysAreSeldomReadFor) {
  Open(false);
  double blocks[2];
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  constexpr int kKeys = 4000;
  for (int ordered = 0; ordered < 2; ++ordered) {
    DB* const db = ordered == 1 ? ordered_.get() : stock_.get();
    std::string value;
    rocksdb::get_perf_context()->Reset();
    Random targets(6);
    for (int i = 0; i < kKeys; ++i) db->Get({}, Key(targets() % kSpace / 2 * 2 + 1), &value).PermitUncheckedError();
    const rocksdb::PerfContext& context = *rocksdb::get_perf_context();
    blocks[ordered] = static_cast<double>(context.block_cache_hit_count + context.block_read_count -
                                          context.block_cache_filter_hit_count - context.filter_block_read_count -
                                          context.block_cache_index_hit_count - context.index_block_read_count) /
                      kKeys;
  }
  rocksdb::SetPerfLevel(rocksdb::kDisable);
  printf("%s: %.4f data blocks per absent key, %.4f with RocksDB's tables\n", GetParam().name, blocks[1], blocks[0]);
  // A last level without filters is read. Odd numbers, of which there is no key, are like the even ones above them, so
  // that the order filter alone cannot tell those from them.
  const double last = options_.optimize_filters_for_hits ? 1 : 0;
  EXPECT_LT(blocks[1], last + (blocks[0] - last) * 0.6);
  ordered_->ReleaseSnapshot(snapshot_);
}

// A batch that RocksDB looks up, because of a range deletion: each filter is taken from the block cache once for all
// keys.
TEST(OrderedBatches, ABatchTakesEachFilterFromTheCacheOnce) {
  const test::TempDir directory;
  Options options;
  options.create_if_missing = true;
  options.statistics = rocksdb::CreateDBStatistics();
  BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  options.table_factory.reset(NewOrderedTableFactory(table));
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, directory.path(), port::Into(&db)).ok());
  constexpr int kKeys = 20;
  std::vector<std::string> names;
  for (int k = 0; k < kKeys; ++k) {
    names.push_back(Key(k));
    ASSERT_TRUE(db->Put({}, names.back(), "v").ok());
  }
  ASSERT_TRUE(db->DeleteRange({}, db->DefaultColumnFamily(), Key(kKeys), Key(2 * kKeys)).ok());
  ASSERT_TRUE(db->Flush({}).ok());
  const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  for (const bool for_io : {false, true}) {
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    rocksdb::ReadOptions read;
    read.optimize_multiget_for_io = for_io;
    ASSERT_TRUE(options.statistics->Reset().ok());
    db->MultiGet(read, db->DefaultColumnFamily(), keys.size(), keys.data(), values.data(), statuses.data());
    for (const Status& s : statuses) ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(options.statistics->getTickerCount(rocksdb::BLOCK_CACHE_FILTER_HIT), 2u);
  }
}

// Versions of a key over many blocks, some of which are in the cache: lookups go on where they are not.
TEST(OrderedVersions, ALookupGoesOnWithBlocksThatAreNotInTheCache) {
  const test::TempDir directory;
  const std::string& path = directory.path();
  Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kNoCompression;
  options.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
  BlockBasedTableOptions table;
  table.block_size = 64;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_cache = rocksdb::NewLRUCache(16 << 10, 0);
  options.table_factory.reset(NewOrderedTableFactory(table));
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options, path, port::Into(&db)).ok());
  Random random(Seed());
  constexpr int kKeys = 40, kVersions = 30;
  std::vector<const rocksdb::Snapshot*> snapshots;
  std::vector<std::string> now(kKeys);
  std::vector<std::vector<std::string>> seen;
  for (int version = 0; version < kVersions; ++version) {
    for (int k = 0; k < kKeys; ++k) {
      const std::string value(1 + random() % 40, static_cast<char>('a' + random() % 26));
      const uint64_t kind = random() % 16;
      if (kind == 0) {
        ASSERT_TRUE(db->Delete({}, Key(k)).ok());
        now[k].clear();
      } else if (kind == 1) {
        ASSERT_TRUE(db->Put({}, Key(k), value).ok());
        now[k] = value;
      } else {
        ASSERT_TRUE(db->Merge({}, Key(k), value).ok());
        now[k] += (now[k].empty() ? "" : ",") + value;
      }
    }
    snapshots.push_back(db->GetSnapshot());
    seen.push_back(now);
  }
  ASSERT_TRUE(db->Flush({}).ok());
  for (int i = 0; i < 20000; ++i) {
    const size_t version = random() % kVersions, k = random() % kKeys;
    rocksdb::ReadOptions read;
    read.snapshot = snapshots[version];
    read.fill_cache = random() % 4 != 0;
    rocksdb::PinnableSlice value;
    const Status s = db->Get(read, db->DefaultColumnFamily(), Key(k), &value);
    ASSERT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    ASSERT_EQ(seen[version][k], s.ok() ? value.ToString() : "") << version << " " << k;
  }
  for (const rocksdb::Snapshot* snapshot : snapshots) db->ReleaseSnapshot(snapshot);
  db.reset();
}

// Names that every run has neighbours of: the order filters alone cannot tell them apart.
TEST(OrderedPresent, ASeekOfAKeyThatExistsReadsTheTablesThatHaveIt) {
  const test::TempDir directory;
  const std::string& path = directory.path();
  Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 100;
  BlockBasedTableOptions table;
  table.block_size = 512;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(NewOrderedTableFactory(table));
  DB* opened = nullptr;
  ASSERT_TRUE(DB::Open(options, path, port::Into(&opened)).ok());
  const std::unique_ptr<DB> ordered(opened);
  Random random(Seed());
  constexpr int kManyRuns = 24;  // more than DBIter steps over without a seek
  std::vector<std::string> keys;
  for (int run = 0; run < kManyRuns; ++run) {
    for (int folder = 0; folder < 40; ++folder) {
      Random letters(folder);
      std::string key = "/srv/";
      for (int i = 0; i < 40; ++i) key.push_back(static_cast<char>('a' + letters() % 26));
      keys.push_back(key + "/" + std::to_string(random()));
      ASSERT_TRUE(ordered->Put({}, keys.back(), std::to_string(run)).ok());
    }
    ASSERT_TRUE(ordered->Flush({}).ok());
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  ASSERT_TRUE(DB::OpenForReadOnly(options, path, port::Into(&opened)).ok());
  const std::unique_ptr<DB> stock(opened);
  uint64_t blocks[2] = {};
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  for (int i = 0; i < 500; ++i) {
    const std::string& key = keys[random() % keys.size()];
    std::string seen[2];
    for (int which = 0; which < 2; ++which) {
      const std::unique_ptr<rocksdb::Iterator> it((which == 1 ? ordered : stock)->NewIterator({}));
      rocksdb::get_perf_context()->Reset();
      it->Seek(key);
      const rocksdb::PerfContext& context = *rocksdb::get_perf_context();
      blocks[which] += context.block_cache_hit_count + context.block_read_count;
      for (int step = 0; step < 20 && it->Valid(); ++step, it->Next()) seen[which] += it->key().ToString() + "\n";
      EXPECT_TRUE(it->status().ok());
    }
    EXPECT_EQ(key, seen[1].substr(0, key.size()));
    EXPECT_EQ(seen[0], seen[1]);
  }
  rocksdb::SetPerfLevel(rocksdb::kDisable);
  EXPECT_GT(blocks[0], 500u * (kManyRuns - 2));
  EXPECT_LT(blocks[1], 500u * 2);
}

INSTANTIATE_TEST_SUITE_P(Variants, OrderedGetTest, ::testing::ValuesIn(Variants()),
                         [](const ::testing::TestParamInfo<Variant>& variant) {
                           return std::string(variant.param.name);
                         });

}  // namespace
}  // namespace cairn
