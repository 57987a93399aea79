// The engine round_robin: its options in text and OPTIONS files, its tuner, and the way to it and back.

#include "cairn/round_robin.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/tuner.h"
#include "msls/level_sizes.h"
#include "msls/model_options.h"
#include "msls/round_robin.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/await.h"
#include "test/testutil/temp_dir.h"

namespace cairn {
namespace {

constexpr int kKeys = 20000;

Options SmallOptions() {
  Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 128 << 10;
  options.target_file_size_base = 64 << 10;
  options.max_bytes_for_level_base = 256 << 10;
  return options;
}

class RoundRobinTest : public ::testing::Test {
 protected:
  void Open(const Options& options) {
    db_.reset();
    ASSERT_OK(DB::Open(options, path(), port::Into(&db_)));
  }
  void OpenStored() {
    db_.reset();
    rocksdb::DBOptions options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path(), &options, &families));
    ASSERT_EQ(families.size(), 1u);
    Open(Options(options, families[0].options));
  }
  std::string path() { return dir_ / "db"; }

  static std::string Key(uint64_t i) {
    char key[17];
    snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(i) << 20);
    return key;
  }
  void Write(int count) {
    for (int i = 0; i < count; i++) {
      const uint64_t key = random_() % kKeys;
      const std::string value = std::to_string(version_++) + std::string(84, 'v');
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), Key(key), value));
      expected_[Key(key)] = value;
    }
  }
  void Check() {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
    auto next = expected_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++next) {
      ASSERT_NE(next, expected_.end());
      ASSERT_EQ(it->key().ToString(), next->first);
      ASSERT_EQ(it->value().ToString(), next->second);
    }
    ASSERT_OK(it->status());
    EXPECT_EQ(next, expected_.end());
  }

  test::TempDir dir_;
  std::unique_ptr<DB> db_;
  std::mt19937_64 random_{1};
  uint64_t version_ = 0;
  std::map<std::string, std::string> expected_;
};

TEST_F(RoundRobinTest, TextOfOptions) {
  RoundRobinOptions options;
  ASSERT_OK(RoundRobinOptionsFromString("keys=50000000;zipf=0.99;pick=best;max_space=1.5;tombstone_run=99;tune=false",
                                        &options));
  EXPECT_EQ(options.keys, 50000000u);
  EXPECT_EQ(options.zipf, 0.99);
  EXPECT_EQ(options.tombstone_run, 99u);
  EXPECT_FALSE(options.tune);
  RoundRobinOptions again;
  ASSERT_OK(RoundRobinOptionsFromString(RoundRobinOptionsToString(options), &again));
  EXPECT_EQ(RoundRobinOptionsToString(again), RoundRobinOptionsToString(options));
  for (const char* bad :
       {"pick=worst", "keys=1", "item_bytes=0", "zipf=9", "zipf=-1", "max_space=1", "colour=3", "window_flushes=0",
        "min_seconds_between_changes=-1", "keys=5e7", "keys=5 M", "keys=5MB", "item_bytes=1e2", "item_bytes=100.5"}) {
    const Status s = RoundRobinOptionsFromString(bad, &again);
    EXPECT_TRUE(s.IsInvalidArgument()) << bad;
    EXPECT_EQ(again.keys, 50000000u) << bad;
  }
  ASSERT_OK(RoundRobinOptionsFromString("keys=5M; item_bytes = 2k ;zipf=1e-1;pick={best}", &again));
  EXPECT_EQ(again.keys, uint64_t{5} << 20);
  EXPECT_EQ(again.item_bytes, 2048u);
  EXPECT_EQ(again.zipf, 0.1);
}

TEST_F(RoundRobinTest, SizesOfTheWorkload) {
  Options options;
  RoundRobinOptions workload;
  workload.keys = 50000000;
  ASSERT_OK(UseRoundRobin(&options, workload));
  EXPECT_EQ(options.compaction_pri, rocksdb::kRoundRobin);
  EXPECT_FALSE(options.level_compaction_dynamic_level_bytes);
  // Levels between the first and the last are far enough apart.
  const std::vector<double> targets = LevelTargets(LevelSizesOf(options), options.num_levels);
  double above = 0;
  for (size_t l = 0; targets[l] < 5e9; l++) {
    EXPECT_GE(targets[l], 2.4 * above) << l;
    above = targets[l];
  }
  EXPECT_LT(above, 1.2e9);  // the space bound
  EXPECT_GT(above, 0.5e9);

  // Without a workload sizes stay, and the pick that is best is the default's.
  Options unknown;
  workload = RoundRobinOptions();
  workload.pick = "best";
  ASSERT_OK(UseRoundRobin(&unknown, workload));
  EXPECT_EQ(unknown.compaction_pri, rocksdb::kMinOverlappingRatio);
  EXPECT_EQ(unknown.max_bytes_for_level_base, Options().max_bytes_for_level_base);
}

// From hardly any data to as much as can be said, OPTIONS files hold what comes out.
TEST_F(RoundRobinTest, SizesOfAnyWorkload) {
  for (const uint64_t keys : {uint64_t{2}, uint64_t{2000000}, uint64_t{1000000000000000}}) {
    for (const double zipf : {0.0, 0.99}) {
      if ((keys == 2000000) != (zipf > 0)) continue;
      for (const int levels : {2, 20}) {
        Options options;
        options.num_levels = levels;
        RoundRobinOptions workload;
        workload.keys = keys;
        workload.zipf = zipf;
        workload.item_bytes = keys == 2 ? 1000000000 : 100;
        SCOPED_TRACE(std::to_string(keys) + " keys, skew " + std::to_string(zipf) + ", levels " +
                     std::to_string(levels));
        ASSERT_OK(UseRoundRobin(&options, workload));
        EXPECT_EQ(options.num_levels, levels);
        EXPECT_GE(options.max_bytes_for_level_base, 1u);
        const std::vector<double> targets = LevelTargets(LevelSizesOf(options), options.num_levels);
        for (size_t l = 1; l < targets.size(); l++) EXPECT_GE(targets[l], targets[l - 1]);
        std::string text;
        ASSERT_OK(rocksdb::GetStringFromColumnFamilyOptions(&text, options));
        rocksdb::ColumnFamilyOptions again;
        ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), {}, text, &again));
        EXPECT_TRUE(LevelSizesOf(again) == LevelSizesOf(options)) << text;
      }
    }
  }
}

TEST_F(RoundRobinTest, RefusesWhatItCannotHave) {
  Options options;
  options.sst_partitioner_factory = rocksdb::NewSstPartitionerFixedPrefixFactory(4);
  EXPECT_TRUE(UseRoundRobin(&options).IsNotSupported());
  EXPECT_EQ(options.compaction_pri, Options().compaction_pri);
  Options twice;
  ASSERT_OK(UseRoundRobin(&twice));
  ASSERT_OK(UseRoundRobin(&twice));
  EXPECT_EQ(twice.listeners.size(), 1u);
  EXPECT_EQ(twice.table_properties_collector_factories.size(), 2u);
  RoundRobinOptions unmarked;
  unmarked.tombstone_run = 0;
  ASSERT_OK(UseRoundRobin(&twice, unmarked));
  EXPECT_EQ(twice.table_properties_collector_factories.size(), 1u);
  // A tuner of the user's takes the place of the engine's.
  ASSERT_OK(UseTuner(&twice));
  ASSERT_EQ(twice.listeners.size(), 1u);
  EXPECT_STREQ(twice.listeners[0]->Name(), "cairn.Tuner");
  ASSERT_OK(UseRoundRobin(&twice));
  EXPECT_EQ(twice.listeners.size(), 1u);
}

// Stock, round_robin and stock again, over the same files.
TEST_F(RoundRobinTest, SwitchesWithoutConversion) {
  for (int round = 0; round < 3; round++) {
    Open(SmallOptions());
    Write(10000);
    Check();
    Options options = SmallOptions();
    RoundRobinOptions workload;
    workload.keys = kKeys;
    workload.pick = round == 1 ? "best" : "round_robin";
    ASSERT_OK(UseRoundRobin(&options, workload));
    Open(options);
    EXPECT_EQ(db_->GetOptions().max_bytes_for_level_base, options.max_bytes_for_level_base);
    Write(10000);
    ASSERT_OK(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
    Check();
    ASSERT_OK(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    Check();
  }
  Open(SmallOptions());
  Check();
}

// OPTIONS files hold the engine; its tuner and the sample of keys come with the opening.
TEST_F(RoundRobinTest, OpensWithStoredOptions) {
  Options options = SmallOptions();
  RoundRobinOptions workload;
  workload.keys = kKeys;
  workload.window_flushes = 8;
  workload.min_seconds_between_changes = 0;
  ASSERT_OK(UseRoundRobin(&options, workload));
  options.listeners.clear();
  options.table_properties_collector_factories.clear();
  Open(options);
  for (int opening = 0; opening < 3; opening++) {
    if (opening > 0) OpenStored();
    RoundRobinOptions stored;
    const Options now = db_->GetOptions();
    ASSERT_TRUE(IsRoundRobin(now, &stored));
    EXPECT_EQ(stored.keys, workload.keys);
    EXPECT_EQ(stored.window_flushes, 8u);
    EXPECT_EQ(now.compaction_pri, rocksdb::kRoundRobin);
    TunerReport report;
    ASSERT_TRUE(Await([&] {
      Write(2000);
      EXPECT_OK(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
      return GetTunerReport(db_.get(), &report) && report.looks >= 2;
    })) << opening;
    EXPECT_GT(report.sampled_keys, 0u) << opening;
    Check();
  }
}

// The tuner of the engine leaves other column families alone.
TEST_F(RoundRobinTest, TunesItsColumnFamiliesOnly) {
  Options options = SmallOptions();
  RoundRobinOptions workload;
  workload.window_flushes = 1;
  rocksdb::ColumnFamilyOptions ours(options);
  ASSERT_OK(UseRoundRobin(&ours, workload));
  rocksdb::ColumnFamilyOptions untuned(options);
  workload.tune = false;
  ASSERT_OK(UseRoundRobin(&untuned, workload));
  options.create_missing_column_families = true;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ASSERT_OK(cairn::Open(options, path(), {{"default", options}, {"ours", ours}, {"untuned", untuned}}, &handles,
                        port::Into(&db_)));
  TunerReport report;
  for (int i = 0; i < 3000; i++) {
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), handle, Key(random_() % kKeys), std::string(90, 'v')));
    }
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions(), handle));
    EXPECT_EQ(GetTunerReport(db_.get(), handle, &report), handle->GetName() == "ours") << handle->GetName();
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) ASSERT_OK(db_->DestroyColumnFamilyHandle(handle));
}

TEST_F(RoundRobinTest, IsAnEngine) {
  EXPECT_TRUE(KeepsKeyOrder("round_robin"));
  Options options;
  ASSERT_OK(UseEngineFromString("engine=round_robin;keys=20000000;zipf=0.99", &options, &options));
  EXPECT_TRUE(IsRoundRobin(options, nullptr));
  EXPECT_TRUE(IsOfCairn(options));
  ASSERT_EQ(options.listeners.size(), 1u);
  EXPECT_STREQ(options.listeners[0]->Name(), "cairn.RoundRobinTuner");
  Options untuned;
  ASSERT_OK(UseEngineFromString("engine=round_robin;tune=false", &untuned, &untuned));
  EXPECT_EQ(untuned.listeners.size(), 0u);
}

}  // namespace
}  // namespace cairn
