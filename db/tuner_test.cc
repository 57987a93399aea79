// The tuner on a real, small database.

#include "cairn/tuner.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"

namespace cairn {
namespace {

class TunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/tuner_test_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
    options_.write_buffer_size = 128 << 10;
    options_.target_file_size_base = 64 << 10;
    options_.max_bytes_for_level_base = 256 << 10;
    options_.level_compaction_dynamic_level_bytes = false;
    tuner_.advisory = false;
    tuner_.window_flushes = 8;
    tuner_.min_gain = 0.01;
    tuner_.min_seconds_between_changes = 0;
    tuner_.max_space_amplification = 0;
    ASSERT_TRUE(rocksdb::DestroyDB(path_, options_).ok());
  }
  void TearDown() override {
    db_.reset();
    EXPECT_TRUE(rocksdb::DestroyDB(path_, options_).ok());
  }

  void Open() {
    options_.listeners.clear();
    ASSERT_TRUE(UseTuner(&options_, tuner_).ok());
    rocksdb::DB* db = nullptr;
    const rocksdb::Status s = rocksdb::DB::Open(options_, path_, &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    db_.reset(db);
  }

  void Write(int count) {
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    for (int i = 0; i < count; i++) {
      char key[17];
      snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(random_() % 20000) << 20);
      ASSERT_TRUE(db_->Put(write, key, std::string(84, static_cast<char>(i))).ok());
    }
  }

  // Writes until the tuner has looked `looks` times; a window is 8 flushes of about 1,000 items.
  TunerReport WriteUntil(uint64_t looks) {
    TunerReport report;
    for (int i = 0; i < 400; i++) {
      Write(2000);
      EXPECT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
      if (GetTunerReport(db_.get(), &report) && report.looks >= looks) return report;
    }
    ADD_FAILURE() << "only " << report.looks << " looks";
    return report;
  }

  std::string path_;
  rocksdb::Options options_;
  TunerOptions tuner_;
  std::unique_ptr<rocksdb::DB> db_;
  std::mt19937_64 random_{1};
};

TEST_F(TunerTest, BelievesAndApplies) {
  Open();
  TunerReport report;
  EXPECT_FALSE(GetTunerReport(db_.get(), &report));
  report = WriteUntil(6);
  EXPECT_NEAR(report.keys, 20000, 3000);
  EXPECT_NEAR(report.item_bytes, 104, 8);
  EXPECT_LT(report.skew, 0.4);  // uniform
  EXPECT_GT(report.measured, 1);
  EXPECT_GE(report.changes, 1u) << report.ToString();
  const rocksdb::Options now = db_->GetOptions();
  EXPECT_NE(now.max_bytes_for_level_base, options_.max_bytes_for_level_base) << report.ToString();
}

TEST_F(TunerTest, AdvisoryModeChangesNothing) {
  tuner_.advisory = true;
  Open();
  const TunerReport report = WriteUntil(4);
  EXPECT_EQ(report.changes, 0u);
  const rocksdb::Options now = db_->GetOptions();
  EXPECT_EQ(now.max_bytes_for_level_base, options_.max_bytes_for_level_base);
  EXPECT_EQ(now.max_bytes_for_level_multiplier, options_.max_bytes_for_level_multiplier);
}

TEST_F(TunerTest, DynamicLevelBytesOnlyAdvised) {
  options_.level_compaction_dynamic_level_bytes = true;
  Open();
  const TunerReport report = WriteUntil(4);
  EXPECT_EQ(report.changes, 0u);
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_base, options_.max_bytes_for_level_base);
}

TEST_F(TunerTest, WorseIsTakenBack) {
  tuner_.tolerance = 1;
  tuner_.settle_windows = 0;
  Open();
  // Whatever is measured after the first change, twice is the most that can be taken back.
  const TunerReport report = WriteUntil(14);
  EXPECT_LE(report.rollbacks, 2u) << report.ToString();
  EXPECT_EQ(report.failures, 0u) << report.ToString();
  EXPECT_GE(report.changes, report.rollbacks);
}

TEST_F(TunerTest, ClosesWhileItWorks) {
  tuner_.window_flushes = 1;
  for (int round = 0; round < 12; round++) {
    Open();
    Write(1500 + 700 * round);
    TunerReport report;
    GetTunerReport(db_.get(), &report);
    if (round % 2 == 0) {
      ASSERT_TRUE(db_->Close().ok());
    }
    db_.reset();
  }
}

TEST_F(TunerTest, BadOptionsAreRefused) {
  rocksdb::DBOptions options;
  TunerOptions tuner;
  tuner.window_flushes = 0;
  EXPECT_TRUE(UseTuner(&options, tuner).IsInvalidArgument());
  tuner = TunerOptions();
  tuner.min_gain = -1;
  EXPECT_TRUE(UseTuner(&options, tuner).IsInvalidArgument());
  tuner = TunerOptions();
  tuner.tolerance = 0.5;
  EXPECT_TRUE(UseTuner(&options, tuner).IsInvalidArgument());
  EXPECT_TRUE(options.listeners.empty());
}

TEST_F(TunerTest, ComesFromItsName) {
  std::shared_ptr<rocksdb::EventListener> listener;
  const rocksdb::Status s =
      rocksdb::EventListener::CreateFromString(rocksdb::ConfigOptions(), "cairn.Tuner", &listener);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_STREQ(listener->Name(), "cairn.Tuner");
}

}  // namespace
}  // namespace cairn
