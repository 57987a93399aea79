// The tuner on a real, small database.

#include "cairn/tuner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "msls/key_sample.h"
#include "msls/tuner.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table_properties.h"
#include "test/testutil/await.h"

namespace cairn {
namespace {

class TunerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/tuner_test_" + std::to_string(getpid()) + "_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
    options_.write_buffer_size = 128 << 10;
    options_.target_file_size_base = 64 << 10;
    options_.max_bytes_for_level_base = 256 << 10;
    options_.level_compaction_dynamic_level_bytes = false;
    tuner_.advisory = false;
    tuner_.window_flushes = 8;
    tuner_.min_gain = 0.01;
    tuner_.max_error = 0;  // so small a database is never steady
    tuner_.min_seconds_between_changes = 0;
    tuner_.max_space_amplification = 0;
    ASSERT_EQ(rocksdb::DestroyDB(path_, options_).ToString(), "OK");
  }
  void TearDown() override {
    db_.reset();
    EXPECT_EQ(rocksdb::DestroyDB(path_, options_).ToString(), "OK");
  }

  void Open() {
    options_.listeners.clear();
    ASSERT_TRUE(UseTuner(&options_, tuner_).ok());
    OpenWithListeners();
  }
  void Open(TunerHook hook) {
    options_.listeners = {std::make_shared<TunerListener>(tuner_, std::move(hook))};
    OpenWithListeners();
  }
  void OpenWithListeners() {
    const rocksdb::Status s = rocksdb::DB::Open(options_, path_, port::Into(&db_));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  void Write(int count, rocksdb::ColumnFamilyHandle* family = nullptr) {
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    if (family == nullptr) family = db_->DefaultColumnFamily();
    for (int i = 0; i < count; i++) {
      char key[17];
      snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(draw_()) << 20);
      const rocksdb::Status s = db_->Put(write, family, key, std::string(84, static_cast<char>(i)));
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }

  // Every key once, so that the number of keys is right from then on.
  void Load() {
    const std::function<uint64_t()> draw = draw_;
    uint64_t next = 0;
    draw_ = [&next] { return next++ * 7919 % 20000; };
    Write(20000);
    draw_ = draw;
    EXPECT_TRUE(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  }

  // For so long at least a test goes on: the tuner looks on a thread of its own, which a busy machine may let wait.
  static auto InAMinute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

  // Writes until the tuner has looked `looks` times; a window is 8 flushes of about 1,000 items.
  TunerReport WriteUntil(uint64_t looks, rocksdb::ColumnFamilyHandle* family = nullptr) {
    return WriteUntil([looks](const TunerReport& report) { return report.looks >= looks; }, family);
  }
  TunerReport WriteUntil(const std::function<bool(const TunerReport&)>& enough,
                         rocksdb::ColumnFamilyHandle* family = nullptr) {
    TunerReport report;
    if (family == nullptr) family = db_->DefaultColumnFamily();
    const auto least = InAMinute();
    for (int i = 0; i < 400 || std::chrono::steady_clock::now() < least; i++) {
      Write(2000, family);
      const rocksdb::Status s = db_->WaitForCompact(rocksdb::WaitForCompactOptions());
      EXPECT_TRUE(s.ok()) << s.ToString();
      if (HasFatalFailure() || !s.ok()) return report;
      if (GetTunerReport(db_.get(), family, &report) && enough(report)) return report;
    }
    ADD_FAILURE() << "after " << report.looks << " looks:\n" << report.ToString();
    return report;
  }

  std::string path_;
  rocksdb::Options options_;
  TunerOptions tuner_;
  std::unique_ptr<rocksdb::DB> db_;
  std::mt19937_64 random_{1};
  std::function<uint64_t()> draw_ = [this] { return random_() % 20000; };
};

TEST_F(TunerTest, BelievesAndApplies) {
  Open();
  TunerReport report;
  EXPECT_FALSE(GetTunerReport(db_.get(), &report));
  Load();
  report = WriteUntil(6);
  EXPECT_NEAR(report.keys, 20000, 3000);
  EXPECT_NEAR(report.item_bytes, 104, 8);
  EXPECT_LT(report.skew, 0.4);  // uniform
  EXPECT_GT(report.measured, 1);
  report = WriteUntil([](const TunerReport& so_far) { return so_far.changes > 0; });
  // What a small database writes just after a change may look worse; then the change is taken back.
  const rocksdb::Options now = db_->GetOptions();
  EXPECT_TRUE(report.rollbacks > 0 || now.max_bytes_for_level_base != options_.max_bytes_for_level_base)
      << report.ToString();
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

TEST_F(TunerTest, BelievesWhatNoZipfLawDescribes) {
  draw_ = [this] { return random_() % 10 == 0 ? 2000 + random_() % 18000 : random_() % 2000; };
  tuner_.advisory = true;  // while levels take new sizes, the last one does not hold all keys
  Open();
  Load();
  TunerReport report = WriteUntil(6);
  EXPECT_GT(report.sampled_keys, 1000u);
  EXPECT_NEAR(report.writes_of_top_tenth, 0.9, 0.06) << report.ToString();
  // Then every key alike.
  draw_ = [this] { return random_() % 20000; };
  report = WriteUntil(report.looks + 3);
  EXPECT_NEAR(report.writes_of_top_tenth, 0.1, 0.15) << report.ToString();
}

TEST_F(TunerTest, WithoutASampleItBelievesALaw) {
  Open(nullptr);
  options_.table_properties_collector_factories.clear();
  const TunerReport report = WriteUntil(3);
  EXPECT_EQ(report.sampled_keys, 0u);
  EXPECT_LT(report.skew, 0.4);
  EXPECT_GT(report.predicted, 1);
}

TEST_F(TunerTest, EachColumnFamilyByItself) {
  Open();
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(options_, "second", &family).ok());
  TunerReport report;
  EXPECT_FALSE(GetTunerReport(db_.get(), family, &report));
  const uint64_t base = options_.max_bytes_for_level_base;
  report = WriteUntil([](const TunerReport& now) { return now.changes > 0; }, family);
  EXPECT_NE(db_->GetOptions(family).max_bytes_for_level_base, base) << report.ToString();
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_base, base);  // nothing was written there
  EXPECT_FALSE(GetTunerReport(db_.get(), &report));
  WriteUntil(3);
  ASSERT_TRUE(db_->DropColumnFamily(family).ok());
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(family).ok());
  WriteUntil([](const TunerReport& now) { return now.changes > 0; });
}

TEST_F(TunerTest, ASetOptionsThatFailsIsReportedAndTriedAgain) {
  std::atomic<int> calls{0};
  SampleKeys(&options_);
  Open([&calls](TunerPoint point) {
    if (point != TunerPoint::kBeforeSetOptions || calls++ > 0) return rocksdb::Status::OK();
    return rocksdb::Status::IOError("injected");
  });
  const uint64_t base = options_.max_bytes_for_level_base;
  TunerReport report = WriteUntil([](const TunerReport& now) { return now.failures > 0; });
  EXPECT_EQ(report.changes, 0u);
  EXPECT_NE(report.ToString().find("injected"), std::string::npos);
  report = WriteUntil([](const TunerReport& now) { return now.changes > 0; });
  EXPECT_EQ(report.failures, 1u) << report.ToString();
  EXPECT_NE(db_->GetOptions().max_bytes_for_level_base, base);
}

// Lets no OPTIONS file be written while it is told so.
class NoOptionsFileEnv : public rocksdb::EnvWrapper {
 public:
  NoOptionsFileEnv() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "NoOptionsFileEnv"; }
  rocksdb::Status NewWritableFile(const std::string& name, std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    if (fail && name.find("OPTIONS-") != std::string::npos) return rocksdb::Status::IOError(name, "injected");
    return target()->NewWritableFile(name, file, options);
  }
  std::atomic<bool> fail{false};
};

TEST_F(TunerTest, LevelSizesInForceAreAChangeThoughTheOptionsFileFailed) {
  NoOptionsFileEnv env;
  options_.env = &env;
  Open();
  env.fail = true;
  const TunerReport report = WriteUntil([](const TunerReport& now) { return now.changes + now.failures > 0; });
  env.fail = false;
  EXPECT_EQ(report.changes, 1u) << report.ToString();
  EXPECT_EQ(report.failures, 0u) << report.ToString();
  EXPECT_NE(db_->GetOptions().max_bytes_for_level_base, options_.max_bytes_for_level_base);
  db_.reset();
  EXPECT_EQ(rocksdb::DestroyDB(path_, options_).ToString(), "OK");
  options_.env = rocksdb::Env::Default();
}

TEST_F(TunerTest, TheDatabaseClosesWhileItSolves) {
  for (const TunerPoint stop_at : {TunerPoint::kBeforeSolving, TunerPoint::kBeforeSetOptions}) {
    std::atomic<bool> reached{false}, closing{false}, passed{false};
    Open([&](TunerPoint point) {
      if (point != stop_at) return rocksdb::Status::OK();
      reached = true;
      while (!closing) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // Close has got as far as it can
      passed = true;
      return rocksdb::Status::OK();
    });
    for (int i = 0; i < 400 && !reached; i++) Write(2000);
    ASSERT_TRUE(Await([&] { return reached.load(); }));
    closing = true;
    EXPECT_TRUE(db_->Close().ok());
    EXPECT_TRUE(passed) << "Close did not wait";
    TunerReport report;
    EXPECT_FALSE(GetTunerReport(db_.get(), &report));
    db_.reset();
  }
}

TEST_F(TunerTest, TheColumnFamilyIsDroppedWhileItSolves) {
  for (const TunerPoint drop_at : {TunerPoint::kBeforeSolving, TunerPoint::kBeforeSetOptions}) {
    std::atomic<rocksdb::ColumnFamilyHandle*> family{nullptr};
    std::atomic<bool> dropping{false}, waits{false}, dropped{false};
    Open([&](TunerPoint point) {
      if (point == drop_at && family != nullptr && !dropped) {
        dropping = true;
        // RocksDB reads the family's memtable without its mutex there, and a write may replace it
        // (docs/rocksdb_faults.md).
        while (!waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(db_->DropColumnFamily(family).ok());
        dropped = true;
      }
      return rocksdb::Status::OK();
    });
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    ASSERT_TRUE(db_->CreateColumnFamily(options_, "second", &handle).ok());
    family = handle;
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    write.ignore_missing_column_families = true;  // or the write that comes after the drop stops the database
    for (int i = 0; i < 800000 && !dropped; i++) {
      char key[17];
      snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(draw_()) << 20);
      if (dropping) {
        waits = true;
        while (!dropped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const rocksdb::Status s = db_->Put(write, handle, key, std::string(84, static_cast<char>(i)));
      ASSERT_TRUE(s.ok() || dropped) << s.ToString();
    }
    waits = true;
    EXPECT_TRUE(Await([&] { return dropped.load(); }));
    ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    WriteUntil([](const TunerReport& now) { return now.changes > 0; });  // the rest is tuned on
    db_.reset();
    EXPECT_EQ(rocksdb::DestroyDB(path_, options_).ToString(), "OK");
  }
}

// The believed popularity follows the workload.
TEST_F(TunerTest, TheWorkloadShifts) {
  Open();
  Load();
  TunerReport report = WriteUntil(5);
  EXPECT_GT(report.changes, 0u) << report.ToString();
  EXPECT_LT(report.skew, 0.4) << report.ToString();
  const double uniform = report.predicted_best;
  draw_ = [this] { return random_() % 10 == 0 ? random_() % 20000 : random_() % 500; };
  report = WriteUntil(report.looks + 4);
  EXPECT_GT(report.skew, 0.5) << report.ToString();
  EXPECT_GT(report.writes_of_top_tenth, 0.6) << report.ToString();
  EXPECT_LT(report.predicted_best, uniform) << report.ToString();
  EXPECT_LE(report.rollbacks, 2u) << report.ToString();
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
  tuner.max_error = -1;
  EXPECT_TRUE(UseTuner(&options, tuner).IsInvalidArgument());
  tuner = TunerOptions();
  tuner.tolerance = 0.5;
  EXPECT_TRUE(UseTuner(&options, tuner).IsInvalidArgument());
  EXPECT_TRUE(options.listeners.empty());
  rocksdb::Options all;
  EXPECT_TRUE(UseTuner(&all, tuner).IsInvalidArgument());
  EXPECT_TRUE(all.table_properties_collector_factories.empty());
}

// One Options object for two databases: each is counted by itself.
TEST_F(TunerTest, TwoDatabasesShareAnOptionsObject) {
  tuner_.advisory = true;
  Open();
  const std::string second_path = path_ + "_second";
  ASSERT_TRUE(rocksdb::DestroyDB(second_path, options_).ok());
  std::unique_ptr<rocksdb::DB> second;
  ASSERT_TRUE(rocksdb::DB::Open(options_, second_path, port::Into(&second)).ok());
  // The first gets ten times the writes of the second, and overwrites half of them within a memtable.
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  TunerReport first_report, second_report;
  const std::string value(84, 'v');
  const auto least = InAMinute();
  for (uint64_t i = 0; first_report.looks < 3 || second_report.looks < 2; i++) {
    ASSERT_TRUE(i < 400000 || std::chrono::steady_clock::now() < least)
        << first_report.ToString() << second_report.ToString();
    char key[17];
    snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>((i / 2) * 7919 % 20000) << 20);
    ASSERT_TRUE(db_->Put(write, key, value).ok());
    if (i % 10 == 0) {
      snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>((i / 10) * 7919 % 20000) << 20);
      ASSERT_TRUE(second->Put(write, key, value).ok());
    }
    if (i % 2000 > 0) continue;
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    ASSERT_TRUE(second->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    GetTunerReport(db_.get(), &first_report);
    GetTunerReport(second.get(), &second_report);
  }
  // Half of the writes to the first are gone at the flush; none of those to the second.
  EXPECT_GT(first_report.skew, 0.1) << first_report.ToString();
  EXPECT_LT(second_report.skew, 0.1) << second_report.ToString();
  // Each goes on when the other is closed.
  const uint64_t looks = first_report.looks;
  second.reset();
  EXPECT_TRUE(rocksdb::DestroyDB(second_path, options_).ok());
  WriteUntil(looks + 2);
}

TEST_F(TunerTest, ASecondTunerTakesThePlaceOfTheFirst) {
  ASSERT_TRUE(UseTuner(&options_, tuner_).ok());
  ASSERT_TRUE(UseTuner(&options_, tuner_).ok());
  EXPECT_EQ(options_.listeners.size(), 1u);
  // Two all the same: only one counts.
  options_.listeners.push_back(NewTuner(tuner_));
  OpenWithListeners();
  Load();
  const TunerReport report = WriteUntil(3);
  EXPECT_LT(report.skew, 0.4) << report.ToString();  // twice as many writes to the same distinct keys would be uneven
}

TEST_F(TunerTest, ADatabaseThatIsReadOnlyHasNone) {
  Open();
  Load();
  WriteUntil(1);
  db_.reset();
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::OpenForReadOnly(options_, path_, port::Into(&db)).ok());
  db_.reset(db);
  TunerReport report;
  EXPECT_FALSE(GetTunerReport(db_.get(), &report));
  std::string value;
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(db_->Get(rocksdb::ReadOptions(), "nothing", &value).IsNotFound());
  db_.reset();
  // Nor has one that is a secondary beside the database.
  Open();
  ASSERT_TRUE(rocksdb::DB::OpenAsSecondary(options_, path_, path_ + "_secondary", port::Into(&db)).ok());
  std::unique_ptr<rocksdb::DB> secondary(db);
  EXPECT_FALSE(GetTunerReport(secondary.get(), &report));
  WriteUntil(1);
  EXPECT_TRUE(secondary->TryCatchUpWithPrimary().ok());
  EXPECT_FALSE(GetTunerReport(secondary.get(), &report));
  secondary.reset();
  EXPECT_TRUE(rocksdb::DestroyDB(path_ + "_secondary", options_).ok());
}

TEST_F(TunerTest, ADroppedColumnFamilyIsForgotten) {
  Open();
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(options_, "second", &family).ok());
  WriteUntil(1, family);
  EXPECT_EQ(TunedColumnFamilies(db_.get()), 1u);
  Write(3000);
  ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  EXPECT_EQ(TunedColumnFamilies(db_.get()), 2u);
  ASSERT_TRUE(db_->DropColumnFamily(family).ok());
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(family).ok());
  EXPECT_EQ(TunedColumnFamilies(db_.get()), 1u);
  // Its name may come back.
  ASSERT_TRUE(db_->CreateColumnFamily(options_, "second", &family).ok());
  TunerReport report;
  EXPECT_FALSE(GetTunerReport(db_.get(), family, &report));
  report = WriteUntil(1, family);
  EXPECT_LT(report.skew, 0.4) << report.ToString();
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(family).ok());
  EXPECT_EQ(TunedColumnFamilies(db_.get()), 2u);  // closing a handle is no drop
  ASSERT_TRUE(db_->Close().ok());
  EXPECT_EQ(TunedColumnFamilies(db_.get()), 0u);
}

// Keeps the LOG's lines.
class LineLogger : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, arguments);
    std::lock_guard<std::mutex> lock(mutex_);
    if (strstr(line, "cairn.Tuner") != nullptr) lines_ += std::string(line) + "\n";
  }
  std::string lines() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

TEST_F(TunerTest, WhatTheUserSetsMeanwhileStays) {
  auto log = std::make_shared<LineLogger>();
  options_.info_log = log;
  tuner_.min_seconds_between_changes = 1e6;  // the first change, and no other
  SampleKeys(&options_);
  // At the moment when the tuner is about to set its own.
  std::atomic<bool> set{false};
  Open([&](TunerPoint point) {
    if (point != TunerPoint::kBeforeSetOptions || set.exchange(true)) return rocksdb::Status::OK();
    return db_->SetOptions({{"max_bytes_for_level_base", "300000"}, {"max_bytes_for_level_multiplier", "7"}});
  });
  Load();
  TunerReport report = WriteUntil([&](const TunerReport&) { return set.load(); });
  report = WriteUntil(report.looks + 4);
  EXPECT_EQ(report.changes, 0u) << report.ToString();
  EXPECT_EQ(report.failures, 0u) << report.ToString();
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_base, 300000u);
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_multiplier, 7);
  EXPECT_NE(log->lines().find("set by SetOptions"), std::string::npos) << log->lines();
}

TEST_F(TunerTest, WhatTheUserSetsLaterIsTheNewBaseline) {
  auto log = std::make_shared<LineLogger>();
  options_.info_log = log;
  tuner_.min_seconds_between_changes = 1e6;
  Open();
  Load();
  TunerReport report = WriteUntil([](const TunerReport& now) { return now.changes > 0; });
  EXPECT_NE(log->lines().find("[default] cairn.Tuner: Changed level sizes"), std::string::npos) << log->lines();
  ASSERT_NE(db_->GetOptions().max_bytes_for_level_multiplier, 10);
  // One of three: the tuner's other two go.
  ASSERT_TRUE(db_->SetOptions({{"max_bytes_for_level_base", "300000"}}).ok());
  report = WriteUntil(report.looks + 3);
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_base, 300000u);
  EXPECT_EQ(db_->GetOptions().max_bytes_for_level_multiplier, 10);
  EXPECT_EQ(report.changes, 1u) << report.ToString();
  EXPECT_EQ(report.rollbacks, 0u) << report.ToString();
}

TEST_F(TunerTest, NothingIsSetWhileCompactionIsOff) {
  options_.disable_auto_compactions = true;
  options_.level0_slowdown_writes_trigger = options_.level0_stop_writes_trigger = 1 << 20;
  Open();
  TunerReport report;
  EXPECT_TRUE(Await([&] {
    Write(2000);
    return GetTunerReport(db_.get(), &report) && report.looks >= 4;
  }));
  EXPECT_EQ(report.changes, 0u);
}

TEST_F(TunerTest, SamplingTwiceIsSamplingOnce) {
  rocksdb::ColumnFamilyOptions family;
  SampleKeys(&family);
  SampleKeys(&family);
  EXPECT_EQ(family.table_properties_collector_factories.size(), 1u);
}

TEST_F(TunerTest, ComesFromItsName) {
  std::shared_ptr<rocksdb::EventListener> listener;
  const rocksdb::Status s =
      rocksdb::EventListener::CreateFromString(rocksdb::ConfigOptions(), "cairn.Tuner", &listener);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_STREQ(listener->Name(), "cairn.Tuner");
  std::shared_ptr<rocksdb::TablePropertiesCollectorFactory> sample;
  const rocksdb::Status found =
      rocksdb::TablePropertiesCollectorFactory::CreateFromString(rocksdb::ConfigOptions(), "cairn.KeySample", &sample);
  ASSERT_TRUE(found.ok()) << found.ToString();
  EXPECT_STREQ(sample->Name(), "cairn.KeySample");
}

}  // namespace
}  // namespace cairn
