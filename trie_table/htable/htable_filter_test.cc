// HTables with BloomCluster in a whole database: two tries that share a factory, all residencies, reopening.

#include <memory>
#include <string>
#include <vector>

#include "cairn/htable.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "table/ect/hash_order_table.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

class HTableFilterTest : public ::testing::TestWithParam<FilterResidency> {
 protected:
  HTableFilterTest() : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())) {
    HTableOptions table;
    table.filter.residency = GetParam();
    rocksdb::BlockBasedTableOptions block_based;
    block_based.block_cache = rocksdb::NewLRUCache(64 << 20);
    table.table.reset(rocksdb::NewBlockBasedTableFactory(block_based));
    options_.env = env_.get();
    options_.create_if_missing = true;
    options_.write_buffer_size = 256 << 10;
    options_.statistics = rocksdb::CreateDBStatistics();
    HashTrieOptions trie;
    trie.fan_out = 2;
    trie.slots = 6;
    trie.root_trigger = 3;
    EXPECT_TRUE(UseTrie(&options_, trie).ok());
    options_.table_factory =
        std::make_shared<HashOrderTableFactory>(std::shared_ptr<rocksdb::TableFactory>(NewHTableFactory(table)));
  }
  ~HTableFilterTest() override { Close(); }

  void Open() {
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", options_}, {"other", options_}};
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DBOptions db_options(options_);
    db_options.create_missing_column_families = true;
    rocksdb::DB* db = nullptr;
    const Status s = rocksdb::DB::Open(db_options, "/db", families, &handles, port::Into(&db));
    ASSERT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
    for (auto* handle : handles) families_.emplace_back(handle);
  }

  void Close() {
    families_.clear();
    db_.reset();
  }

  static std::string Key(int family, int i) { return "f" + std::to_string(family) + "/" + std::to_string(i); }

  void Put(int family, int first, int last) {
    for (int i = first; i < last; ++i) {
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Handle(family), Key(family, i), std::string(60, 'v')).ok());
    }
  }

  void ExpectAll(int family, int count) {
    std::string value;
    for (int i = 0; i < count; ++i) {
      const Status s = db_->Get(rocksdb::ReadOptions(), Handle(family), Key(family, i), &value);
      ASSERT_TRUE(s.ok()) << Key(family, i) << ": " << s.ToString();
    }
  }

  // Buckets that lookups of strange keys read.
  uint64_t BucketsOfStrangers(int family, int count) {
    std::string value;
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    for (int i = 0; i < count; ++i) {
      const Status s = db_->Get(rocksdb::ReadOptions(), Handle(family), "strange" + std::to_string(i), &value);
      EXPECT_TRUE(s.IsNotFound()) << s.ToString();
    }
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    EXPECT_GT(counts.bloom_sst_miss_count, static_cast<uint64_t>(count) * 9 / 10);
    return counts.block_read_count - counts.filter_block_read_count + counts.block_cache_hit_count -
           counts.block_cache_filter_hit_count;
  }

  rocksdb::ColumnFamilyHandle* Handle(int family) const { return families_[static_cast<size_t>(family)].get(); }

  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::unique_ptr<rocksdb::ColumnFamilyHandle>> families_;
};

INSTANTIATE_TEST_SUITE_P(All, HTableFilterTest,
                         ::testing::Values(FilterResidency::kPinned, FilterResidency::kCache, FilterResidency::kDisk));

TEST_P(HTableFilterTest, TwoTriesShareAFactory) {
  constexpr int kKeys = 40000;
  Open();
  for (int family : {0, 1}) Put(family, 0, kKeys);
  for (int family : {0, 1}) ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions(), Handle(family)).ok());
  for (int family : {0, 1}) ExpectAll(family, kKeys);
  rocksdb::TablePropertiesCollection tables;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(Handle(0), &tables).ok());
  ASSERT_FALSE(tables.empty());
  for (const auto& table : tables) {
    EXPECT_EQ(table.second->filter_policy_name, kFilterBlockName);
    EXPECT_GT(table.second->filter_size, 0u);
  }
  const uint64_t ticked = options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_USEFUL);
  EXPECT_LE(BucketsOfStrangers(0, 5000), 100u);
  // Statistics may lag behind by what a thread's last lookup has asked.
  const uint64_t counted = rocksdb::get_perf_context()->bloom_sst_miss_count;
  EXPECT_NEAR(static_cast<double>(options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_USEFUL) - ticked),
              static_cast<double>(counted), 24);
  EXPECT_GT(options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE), 0u);
  Close();
  Open();
  for (int family : {0, 1}) ExpectAll(family, kKeys);
  EXPECT_LE(BucketsOfStrangers(1, 5000), 100u);
  ASSERT_TRUE(db_->VerifyChecksum().ok());
}

TEST_P(HTableFilterTest, OptionsSurviveTheirStrings) {
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  std::shared_ptr<rocksdb::TableFactory> factory;
  const Status s = rocksdb::TableFactory::CreateFromString(
      config, "id=cairn.HTable;filter_bits=12;filter_residency=disk;filter_clusters=never", &factory);
  ASSERT_TRUE(s.ok()) << s.ToString();
  const std::string text = factory->ToString(config);
  for (const char* part : {"filter_bits=12", "filter_residency=disk", "filter_clusters=never"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace cairn
