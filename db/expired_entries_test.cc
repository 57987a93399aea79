// What expires: entries of a DBWithTTL over every engine that compacts by Cairn's rules or is in hash order, and tables
// by the options ttl and periodic_compaction_seconds.

#include "db/expired_entries.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/options_util.h"
#include "test/support.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/set_clock.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using rocksdb::Status;

constexpr int32_t kTtl = 6400;
constexpr int64_t kStart = 1800000000;
constexpr int kModelKeys = 8000;

std::string Key(int number) { return "key" + std::to_string(1000000 + number); }

class ExpiredEntriesTest : public testing::TestWithParam<const char*> {
 protected:
  ExpiredEntriesTest() { options_ = test::OptionsOf(*test::FindEngine(GetParam())); }

  void Open(int32_t ttl = kTtl) {
    db_.reset();
    options_.env = env_.get();
    rocksdb::DBWithTTL* db = nullptr;
    ASSERT_OK(rocksdb::DBWithTTL::Open(options_, path(), &db, ttl));
    db_.reset(db);
  }
  std::string path() const { return dir_ / "db"; }
  bool is_trie() const { return IsTrie(options_); }

  // The same keys each time, of another value.
  void Load(int round, int first = 0, int end = kModelKeys) {
    std::vector<int> order;
    for (int i = first; i < end; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(Seed() + static_cast<uint64_t>(round)));
    for (int i : order) ASSERT_OK(db_->Put({}, Key(i), Value(round)));
  }
  static std::string Value(int round) { return std::string(80, static_cast<char>('a' + round)); }
  void Settle() {
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(db_->WaitForCompact({}));
    if (is_trie()) {
      ASSERT_OK(WaitForTrieCompaction(db_.get()));
    }
  }

  Status Get(int key, const rocksdb::ReadOptions& options = {}) {
    std::string value;
    return db_->Get(options, Key(key), &value);
  }
  // By all ways there are; they must agree.
  size_t Found(const rocksdb::ReadOptions& options = {}) {
    size_t by_get = 0, by_multi_get = 0, forward = 0, backward = 0;
    std::vector<std::string> keys, values;
    for (int i = 0; i < kModelKeys; ++i) keys.push_back(Key(i));
    for (int i = 0; i < kModelKeys; ++i) by_get += Get(i, options).ok() ? 1 : 0;
    for (const Status& s : db_->MultiGet(options, {keys.begin(), keys.end()}, &values)) by_multi_get += s.ok() ? 1 : 0;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(options));
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++forward;
    for (it->SeekToLast(); it->Valid(); it->Prev()) ++backward;
    EXPECT_OK(it->status());
    EXPECT_EQ(by_get, by_multi_get);
    EXPECT_EQ(by_get, forward);
    EXPECT_EQ(by_get, backward);
    return by_get;
  }
  uint64_t Entries() {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    uint64_t entries = 0;
    for (const auto& file : files) entries += file.num_entries;
    return entries;
  }
  TrieStats Stats() {
    TrieStats stats;
    EXPECT_OK(GetTrieStats(db_->GetRootDB(), db_->DefaultColumnFamily(), &stats));
    return stats;
  }
  // Until the scheduler, which looks at the clock every second, has come to it.
  template <class Condition>
  bool Becomes(const Condition& condition) {
    for (int i = 0; i < 400; ++i) {
      if (condition()) return true;
      rocksdb::SystemClock::Default()->SleepForMicroseconds(50 * 1000);
    }
    return false;
  }

  test::TempDir dir_;
  const std::shared_ptr<test::SetClock> clock_ = std::make_shared<test::SetClock>(kStart);
  const std::unique_ptr<rocksdb::Env> env_ = test::EnvOf(clock_);
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DBWithTTL> db_;
};

TEST_P(ExpiredEntriesTest, NoReadReturnsThem) {
  Open();
  Load(0);
  Settle();
  ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));  // what they drop, no other TTL brings back
  clock_->Advance(kTtl / 2);
  Load(1, 0, kModelKeys / 4);  // of these, both are there
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  rocksdb::ReadOptions of_snapshot;
  of_snapshot.snapshot = snapshot;
  EXPECT_EQ(Found(), kModelKeys);
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  clock_->Advance(kTtl / 2);
  EXPECT_EQ(Found(), kModelKeys) << "an entry lives for the TTL";
  clock_->Advance(1);
  EXPECT_EQ(Found(), kModelKeys / 4);
  EXPECT_EQ(Found(of_snapshot), kModelKeys / 4);
  std::string value;
  ASSERT_OK(db_->Get({}, Key(0), &value));
  EXPECT_EQ(value, Value(1));
  EXPECT_TRUE(Get(kModelKeys - 1).IsNotFound());
  bool found = false;
  EXPECT_FALSE(db_->KeyMayExist({}, db_->DefaultColumnFamily(), Key(kModelKeys - 1), &value, &found) && found);
  size_t old_iterator = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++old_iterator;
  EXPECT_EQ(old_iterator, kModelKeys) << "it is of the time when it was made";
  db_->ReleaseSnapshot(snapshot);
  // Another TTL, and a clock that is set back.
  db_->SetTtl(2 * kTtl);
  EXPECT_EQ(Found(), kModelKeys);
  db_->SetTtl(kTtl);
  EXPECT_EQ(Found(), kModelKeys / 4);
  clock_->Advance(-kTtl / 4);
  EXPECT_EQ(Found(), kModelKeys);
  clock_->Advance(kTtl);
  EXPECT_EQ(Found(), 0);
  db_->SetTtl(0);
  EXPECT_EQ(Found(), kModelKeys);
}

TEST_P(ExpiredEntriesTest, CompactionDropsThemAndStockRocksdbReadsTheRest) {
  Open();
  Load(0);
  Settle();
  clock_->Advance(kTtl - 10);
  Load(1, 0, kModelKeys / 4);
  clock_->Advance(20);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_EQ(Entries(), kModelKeys / 4);
  Open();
  EXPECT_EQ(Found(), kModelKeys / 4);
  // As values with four bytes behind them.
  db_.reset();
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options_, path(), port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> plain(opened);
  std::string value;
  ASSERT_OK(plain->Get({}, Key(1), &value));
  ASSERT_EQ(value.size(), 84u);
  EXPECT_EQ(TtlStampOf(value), static_cast<uint64_t>(kStart + kTtl - 10));
}

TEST_P(ExpiredEntriesTest, CountAsGarbage) {
  if (!is_trie()) return;  // what compacts a store without partitions is the number of its HashStores
  Open();
  Load(0);
  Settle();
  const uint64_t before = Stats().bytes;
  EXPECT_NEAR(static_cast<double>(Stats().live_bytes), static_cast<double>(before), 0.35 * static_cast<double>(before));
  clock_->Advance(kTtl / 2);
  Load(1, kModelKeys, 5 * kModelKeys / 4);
  Settle();
  clock_->Advance(kTtl / 2 + 2);
  // All of the first load, unless it is too little; nobody writes.
  ASSERT_OK(db_->Put({}, Key(5 * kModelKeys / 4), Value(1)));
  ASSERT_OK(db_->Flush({}));
  EXPECT_TRUE(Becomes([&] { return Stats().bytes < before / 2; })) << TrieStatsToTable(Stats());
  EXPECT_OK(WaitForTrieCompaction(db_->GetRootDB()));
  // Small HTables take twice what is in them.
  const double live = static_cast<double>(Stats().live_bytes);
  EXPECT_LE(Stats().bytes, 1.1 * Stats().space_bound * live + static_cast<double>(before) / 4)
      << TrieStatsToTable(Stats());
  EXPECT_EQ(Get(kModelKeys).ok(), true);
  clock_->Advance(2 * kTtl);
  ASSERT_OK(db_->Put({}, Key(0), Value(2)));
  ASSERT_OK(db_->Flush({}));
  EXPECT_TRUE(Becomes([&] { return Stats().bytes < before / 8; })) << TrieStatsToTable(Stats());
  EXPECT_EQ(Found(), 1u);
}

// Operands never expire by themselves, as the page says; what they were folded into does.
TEST_P(ExpiredEntriesTest, OfMergesTheResultExpires) {
  options_.merge_operator = std::make_shared<test::LastOperator>();
  Open();
  for (int i = 0; i < 100; ++i) ASSERT_OK(db_->Merge({}, Key(i), "operand"));
  Settle();
  clock_->Advance(kTtl + 1);
  // Cutting a table into those of partitions folds them, too.
  EXPECT_EQ(Get(1).ok(), GetParam() != std::string("silt_partitions"));
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  clock_->Advance(kTtl + 1);
  EXPECT_TRUE(Get(1).IsNotFound());
}

TEST_P(ExpiredEntriesTest, OldTablesAreCompacted) {
  options_.ttl = 3600;
  options_.periodic_compaction_seconds = 7200;
  ASSERT_OK(test::FindEngine(GetParam())->fill(&options_));
  EXPECT_EQ(options_.ttl, 3600u);
  EXPECT_EQ(options_.periodic_compaction_seconds, 7200u);
  Open(0);
  Load(0);
  Settle();
  ASSERT_OK(test::CompactAll(db_->GetRootDB(), db_->DefaultColumnFamily(), is_trie()));
  // A few deletions on top, which lie in level 0.
  for (int i = 0; i < 10; ++i) ASSERT_OK(db_->Delete({}, Key(i)));
  Settle();
  const auto deletions = [&] {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    uint64_t count = 0;
    for (const auto& file : files) count += file.num_deletions;
    return count;
  };
  const auto oldest = [&] {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    uint64_t time = UINT64_MAX;
    for (const auto& file : files) time = std::min(time, file.file_creation_time);
    return time;
  };
  ASSERT_GT(deletions(), 0u);
  clock_->Advance(3700);
  ASSERT_OK(db_->SetOptions({{"ttl", "3500"}}));  // RocksDB, too, looks at the clock when there is a new Version
  EXPECT_TRUE(Becomes([&] { return deletions() == 0; }));
  if (is_trie()) {
    EXPECT_TRUE(Becomes([&] { return Stats().age_compactions > 0; }));
    EXPECT_NE(TrieStatsToTable(Stats()).find("because of age"), std::string::npos);
  }
  Settle();
  const uint64_t entries = Entries();
  clock_->Advance(7300);
  ASSERT_OK(db_->SetOptions({{"periodic_compaction_seconds", "7100"}}));
  EXPECT_TRUE(Becomes([&] { return oldest() >= static_cast<uint64_t>(kStart + 11000); })) << oldest() - kStart;
  EXPECT_EQ(Entries(), entries);
  // They rest until they are old again.
  Settle();
  rocksdb::SystemClock::Default()->SleepForMicroseconds(1500 * 1000);
  const uint64_t compactions = is_trie() ? Stats().age_compactions : 0;
  rocksdb::SystemClock::Default()->SleepForMicroseconds(1500 * 1000);
  EXPECT_EQ(compactions, is_trie() ? Stats().age_compactions : 0);
  // Nor do they get old by what RocksDB sets where nobody has, or by what is longer than any clock has run.
  ASSERT_OK(
      db_->SetOptions({{"ttl", "18446744073709551615"}, {"periodic_compaction_seconds", "18446744073709551614"}}));
  rocksdb::SystemClock::Default()->SleepForMicroseconds(1500 * 1000);
  EXPECT_EQ(compactions, is_trie() ? Stats().age_compactions : 0);
  ASSERT_OK(db_->SetOptions({{"ttl", "3500"}, {"periodic_compaction_seconds", "7100"}}));
  // Reopened with what is stored.
  db_.reset();
  rocksdb::DBOptions database;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  rocksdb::ConfigOptions config;
  config.env = env_.get();
  ASSERT_OK(rocksdb::LoadLatestOptions(config, path(), &database, &families));
  EXPECT_EQ(families[0].options.ttl, 3500u);
  EXPECT_EQ(families[0].options.periodic_compaction_seconds, 7100u);
}

INSTANTIATE_TEST_SUITE_P(Engines, ExpiredEntriesTest,
                         testing::Values("trie_tiny", "trie_htable", "trie_ect", "ordered_trie", "silt_pinned",
                                         "silt_partitions"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn
