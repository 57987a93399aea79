// The scheduler beside what disturbs it: flushes that leave no file, column families whose compactions fail or are held
// up, manual compactions.

#include "trie_table/compaction/trie_scheduler.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/table.h"
#include "table/written_totals.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/db_functions.h"
#include "test/testutil/test_gate.h"
#include "test/testutil/trie_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

constexpr uint64_t kPatienceMicros = 600'000'000;

class TrieSchedulerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        fs::temp_directory_path() / (std::string("cairn_trie_scheduler_") + info->name() + std::to_string(getpid()));
    fs::remove_all(path_);
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    options_.write_buffer_size = 4 << 20;
    options_.compression = rocksdb::kNoCompression;
    options_.max_background_jobs = 4;
  }

  void TearDown() override {
    Close();
    fs::remove_all(path_);
  }

  void Close() {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
    }
    handles_.clear();
    db_.reset();
  }

  void Open(const std::vector<std::string>& names) {
    Close();
    ASSERT_TRUE(UseTrie(&options_, trie_).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    families.reserve(names.size());
    for (const std::string& name : names) families.emplace_back(name, options_);
    const Status s = cairn::Open(options_, path_, families, &handles_, port::Into(&db_));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  static std::string Key(int i) { return "key" + std::to_string(i); }

  // One flush of `keys` values of `bytes`.
  void Flush(rocksdb::ColumnFamilyHandle* handle, int keys, size_t bytes) {
    for (int i = 0; i < keys; ++i) ASSERT_TRUE(db_->Put({}, handle, Key(i), std::string(bytes, 'v')).ok());
    const Status s = db_->Flush({}, handle);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  TrieStats Stats(rocksdb::ColumnFamilyHandle* handle) {
    TrieStats stats;
    const Status s = GetTrieStats(db_.get(), handle, &stats);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return stats;
  }

  fs::path path_;
  rocksdb::Options options_;
  HashTrieOptions trie_ = SmallTrieOptions();
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

// All of a memtable cancels out: RocksDB flushes no table, and tells of the flush all the same.
TEST_F(TrieSchedulerTest, AFlushWithoutATableCountsNothing) {
  Open({"default"});
  for (int flush = 0; flush < 10 * trie_.root_trigger; ++flush) {
    ASSERT_TRUE(db_->Put({}, "key", "value").ok());
    ASSERT_TRUE(db_->SingleDelete({}, "key").ok());
    ASSERT_TRUE(db_->Flush({}).ok());
    const TrieStats stats = Stats(handles_[0]);
    ASSERT_TRUE(stats.depths.empty()) << TrieStatsToTable(stats);
    ASSERT_EQ(stats.delayed_write_rate, 0u);
  }
  const Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(Stats(handles_[0]).failed_compactions, 0u);
  EXPECT_EQ(Stats(handles_[0]).flushed_bytes, 0u);
}

// Files that vanish without a compaction of ours: by DeleteFile where RocksDB has it, and with the whole column family.
TEST_F(TrieSchedulerTest, FilesThatOthersRemoveAreForgotten) {
  trie_.root_trigger = 8;
  Open({"default", "dropped"});
  for (int flush = 0; flush < 3; ++flush) Flush(handles_[0], 10, 100);
  for (int flush = 0; flush < 3; ++flush) Flush(handles_[1], 10, 100);
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  uint64_t oldest = UINT64_MAX;
  for (const auto& file : files) {
    if (file.column_family_name == "default") oldest = std::min(oldest, file.file_number);
  }
  char name[32];
  snprintf(name, sizeof(name), "/%06llu.sst", static_cast<unsigned long long>(oldest));
  const Status s = port::DeleteTable(db_.get(), name);
  ASSERT_TRUE(s.ok() || s.IsNotSupported()) << s.ToString();
  EXPECT_EQ(Stats(handles_[0]).depths[0].files, s.ok() ? 2u : 3u);
  ASSERT_TRUE(db_->DropColumnFamily(handles_[1]).ok());
  TrieStats stats;
  EXPECT_TRUE(GetTrieStats(db_.get(), handles_[1], &stats).IsColumnFamilyDropped());
  EXPECT_TRUE(CompactTrie(db_.get(), handles_[1]).IsColumnFamilyDropped());
  EXPECT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
  EXPECT_TRUE(CompactTrie(db_.get(), handles_[0]).ok());
}

// No room for the compaction of one column family's large tables; another's small ones fit.
TEST_F(TrieSchedulerTest, FailuresOfOneColumnFamilyDelayNoOther) {
  std::shared_ptr<rocksdb::SstFileManager> manager(rocksdb::NewSstFileManager(rocksdb::Env::Default()));
  manager->SetMaxAllowedSpaceUsage(5 << 20);
  options_.sst_file_manager = manager;
  trie_.space_bound = 1000;
  Open({"default", "large"});
  const auto begin = std::chrono::steady_clock::now();
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[1], 2000, 1000);
  ASSERT_TRUE(Await([&] { return Stats(handles_[1]).failed_compactions > 0; }));
  for (int i = 1; i <= 5; ++i) {
    for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
    ASSERT_TRUE(Await([&] { return Stats(handles_[0]).root_compactions >= static_cast<uint64_t>(i); }))
        << TrieStatsToTable(Stats(handles_[0]));
  }
  // What was small enough went on at once, and did not make the other be tried again each time: only a second after it
  // has failed, and after twice as long each time.
  const auto failed = static_cast<double>(Stats(handles_[1]).failed_compactions);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(failed, 4 + std::log2(1 + seconds.count()));
  Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.IsCompactionTooLarge()) << s.ToString();
  s = CompactTrie(db_.get(), handles_[1]);
  EXPECT_TRUE(s.IsCompactionTooLarge()) << s.ToString();
  // When there is room again, all goes on.
  manager->SetMaxAllowedSpaceUsage(0);
  ASSERT_TRUE(CompactTrie(db_.get(), handles_[1]).ok());
  s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.ok()) << s.ToString();
}

TEST_F(TrieSchedulerTest, WhoWaitsForADamagedTableIsTold) {
  trie_.root_trigger = 4;
  Open({"default"});
  for (int flush = 0; flush < 3; ++flush) Flush(handles_[0], 100, 100);
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 3u);
  Close();
  {
    std::fstream file(path_.string() + files[0].name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.write("XXXXXXXX", 8);
  }
  Open({"default"});
  // Its compaction fails, and RocksDB takes no more writes.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put({}, Key(i), "value").ok());
  db_->Flush({}).PermitUncheckedError();
  Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  s = CompactTrie(db_.get(), handles_[0]);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
}

TEST_F(TrieSchedulerTest, WhoWaitsForAPausedCompactionIsTold) {
  Open({"default"});
  EXPECT_TRUE(db_->PauseBackgroundWork().ok());
  EXPECT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok()) << "nothing is due";
  EXPECT_TRUE(db_->ContinueBackgroundWork().ok());
  db_->DisableManualCompaction();
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
  Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.IsIncomplete()) << s.ToString();
  db_->EnableManualCompaction();
  s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(Stats(handles_[0]).root_compactions, 1u);
}

// As RocksDB says it, also where nothing is to be compacted.
TEST_F(TrieSchedulerTest, CompactRangeWhilePausedIsIncomplete) {
  Open({"default"});
  for (int round = 0; round < 2; ++round) {
    db_->DisableManualCompaction();
    db_->DisableManualCompaction();
    db_->EnableManualCompaction();
    const Status s = db_->CompactRange(rocksdb::CompactRangeOptions(), handles_[0], nullptr, nullptr);
    EXPECT_TRUE(s.IsIncomplete()) << s.ToString();
    EXPECT_TRUE(s.IsManualCompactionPaused());
    db_->EnableManualCompaction();
    EXPECT_TRUE(db_->CompactRange(rocksdb::CompactRangeOptions(), handles_[0], nullptr, nullptr).ok());
    Flush(handles_[0], 10, 100);
  }
}

// A compaction that was begun while RocksDB took none may be refused after it takes them again.
TEST_F(TrieSchedulerTest, WhoWaitsIsNotToldOfAnEarlierPause) {
  Open({"default"});
  for (int round = 0; round < 100; ++round) {
    db_->DisableManualCompaction();
    for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
    db_->EnableManualCompaction();
    const Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
    ASSERT_TRUE(s.ok()) << "round " << round << ": " << s.ToString();
  }
}

// Keeps the compactions of one column family from going on until it is let go.
class HeldFamily : public rocksdb::EventListener {
 public:
  explicit HeldFamily(std::string name) : name_(std::move(name)) {}

  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kCompaction && info.cf_name == name_) gate.Wait();
  }
  Gate gate;

 private:
  const std::string name_;
};

TEST_F(TrieSchedulerTest, AManualCompactionHoldsUpNoOtherColumnFamily) {
  auto listener = std::make_shared<HeldFamily>("slow");
  options_.listeners.push_back(listener);
  Open({"default", "slow"});
  Flush(handles_[1], 100, 100);
  Status manual;
  std::thread thread([&] { manual = CompactTrie(db_.get(), handles_[1]); });
  EXPECT_TRUE(listener->gate.AwaitWaiter());
  for (uint64_t i = 1; i <= 2; ++i) {
    for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
    EXPECT_TRUE(Await([&] { return Stats(handles_[0]).root_compactions >= i; }))
        << TrieStatsToTable(Stats(handles_[0]));
  }
  listener->gate.Release();
  thread.join();
  EXPECT_TRUE(manual.ok()) << manual.ToString();
  EXPECT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
}

TEST_F(TrieSchedulerTest, CompactRangeIsCanceled) {
  auto listener = std::make_shared<HeldFamily>("default");
  options_.listeners.push_back(listener);
  Open({"default"});
  Flush(handles_[0], 100, 100);
  std::atomic<bool> canceled{false};
  Status manual;
  std::thread thread([&] {
    rocksdb::CompactRangeOptions options;
    options.canceled = &canceled;
    manual = db_->CompactRange(options, handles_[0], nullptr, nullptr);
  });
  EXPECT_TRUE(listener->gate.AwaitWaiter());
  canceled = true;
  listener->gate.Release();
  thread.join();
  EXPECT_TRUE(manual.IsManualCompactionPaused()) << manual.ToString();
}

// RocksDB's status for that is Aborted, as for a compaction whose tables another one has taken.
TEST_F(TrieSchedulerTest, ABlockCacheHasNoRoom) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8 << 20, 0, /*strict_capacity_limit=*/true);
  table.cache_index_and_filter_blocks = true;
  options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  Open({"default"});
  Flush(handles_[0], 100, 100);
  table.block_cache->SetCapacity(0);
  const Status full = db_->CompactRange({}, handles_[0], nullptr, nullptr);
  EXPECT_TRUE(full.IsMemoryLimit()) << full.ToString();
  // RocksDB stops the database until it is opened again, whoever compacts (docs/rocksdb_faults.md).
  table.block_cache->SetCapacity(8 << 20);
  Open({"default"});
  const Status s = db_->CompactRange({}, handles_[0], nullptr, nullptr);
  EXPECT_TRUE(s.ok()) << s.ToString();
}

// A manual compaction of one container, below the root: the same trie's root goes on.
TEST_F(TrieSchedulerTest, AManualCompactionHoldsUpNoOtherContainer) {
  auto listener = std::make_shared<HeldFamily>("default");
  Open({"default"});
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 100, 100);
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 100, 100);
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
  ASSERT_EQ(Stats(handles_[0]).root_compactions, 2u);
  options_.listeners.insert(options_.listeners.begin(), listener);
  Open({"default"});
  Status manual;
  TrieCompactOptions one;
  one.container = {1};
  std::thread thread([&] { manual = CompactTrie(db_.get(), handles_[0], one); });
  EXPECT_TRUE(listener->gate.AwaitWaiter());
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
  EXPECT_TRUE(Await([&] { return Stats(handles_[0]).running_compactions == 2; }))
      << TrieStatsToTable(Stats(handles_[0]));
  listener->gate.Release();
  thread.join();
  EXPECT_TRUE(manual.ok()) << manual.ToString();
  EXPECT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
}

class WriteThrottleTest : public TrieSchedulerTest {
 protected:
  // A trie whose root cannot move, and a column family that RocksDB compacts by itself.
  void OpenWithAFullRoot() {
    ASSERT_TRUE(UseTrie(&options_, trie_).ok());
    rocksdb::ColumnFamilyOptions other;
    other.disable_auto_compactions = true;
    const Status s =
        cairn::Open(options_, path_, {{"default", options_}, {"other", other}}, &handles_, port::Into(&db_));
    ASSERT_TRUE(s.ok()) << s.ToString();
    db_->DisableManualCompaction();
    for (int flush = 0; flush < (kLeastFilesToSlow + kLeastFilesToStop) / 2; ++flush) Flush(handles_[0], 10, 100);
    ASSERT_TRUE(Await([&] { return Stats(handles_[0]).delayed_write_rate > 0; }));
    // That of the last flush, which its event sets, or the next tenth of a second.
    uint64_t rate = 0;
    ASSERT_TRUE(Await([&] {
      const uint64_t before = std::exchange(rate, RateOfRocksDB());
      std::this_thread::sleep_for(std::chrono::milliseconds(250));
      return before == rate && Stats(handles_[0]).delayed_write_rate == rate;
    }));
  }

  uint64_t RateOfRocksDB() {
    uint64_t rate = 0;
    EXPECT_TRUE(db_->GetIntProperty("rocksdb.actual-delayed-write-rate", &rate));
    return rate;
  }
};

// RocksDB raises the rate with each flush of a column family that is not behind.
TEST_F(WriteThrottleTest, FlushesOfOthersDoNotRaiseTheRate) {
  OpenWithAFullRoot();
  const uint64_t rate = Stats(handles_[0]).delayed_write_rate;
  EXPECT_EQ(RateOfRocksDB(), rate);
  for (int flush = 0; flush < 5; ++flush) {
    Flush(handles_[1], 10, 100);
    ASSERT_TRUE(Await([&] { return RateOfRocksDB() == rate; })) << RateOfRocksDB() << " instead of " << rate;
  }
  EXPECT_EQ(Stats(handles_[0]).delayed_write_rate, rate);
}

// Keeps the flushes of one column family from beginning.
class HeldFlushes : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_name == "other") gate.Wait();
  }
  Gate gate;
};

// RocksDB raises the rate with each memtable that a column family begins, too, and tells nobody before the flush ends.
TEST_F(WriteThrottleTest, MemtablesThatAreNotFlushedYetDoNotRaiseTheRate) {
  auto listener = std::make_shared<HeldFlushes>();
  auto compaction = std::make_shared<HeldFamily>("default");
  options_.listeners.push_back(listener);
  options_.listeners.push_back(compaction);
  options_.max_background_jobs = 8;
  OpenWithAFullRoot();
  // A compaction that lasts: one that is tried again and again would set the rate each time.
  db_->EnableManualCompaction();
  ASSERT_TRUE(compaction->gate.AwaitWaiter());
  const uint64_t rate = Stats(handles_[0]).delayed_write_rate;
  ASSERT_TRUE(db_->SetOptions(handles_[1], {{"max_write_buffer_number", "100"}}).ok());
  const std::string value(rate / 20, 'v');
  uint64_t bytes = 0;
  const auto since = std::chrono::steady_clock::now();
  for (int memtable = 0; memtable < 10; ++memtable) {
    ASSERT_TRUE(db_->Put({}, handles_[1], Key(memtable), value).ok());
    ASSERT_TRUE(BeginFlush(db_.get(), handles_[1]).ok());
    bytes += value.size();
    ASSERT_TRUE(Await([&] { return RateOfRocksDB() == rate; })) << RateOfRocksDB() << " instead of " << rate;
  }
  // What writers got: the rate, and a little that the controller saves up for them.
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
  EXPECT_LT(static_cast<double>(bytes), static_cast<double>(rate) * (1.1 * seconds + 0.1));
  listener->gate.Release();
  compaction->gate.Release();
}

// The thread that asserts the rate sleeps while there is none: whoever switches the throttle on has to know.
TEST_F(WriteThrottleTest, TellsWhoSwitchedItOn) {
  Open({"default"});
  WriteThrottle throttle(static_cast<rocksdb::DBImpl*>(db_->GetRootDB()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(throttle.Update(1, [] { return 0.0; }));
    EXPECT_TRUE(throttle.Update(2, [] { return 0.5; }));
    EXPECT_FALSE(throttle.Update(3, [] { return 0.6; }));
    EXPECT_FALSE(throttle.Update(4, [] { return 0.0; }));
    EXPECT_EQ(throttle.rate(), 0u);
  }
}

TEST_F(WriteThrottleTest, NoRateIsAboveDelayedWriteRate) {
  options_.delayed_write_rate = 1 << 20;
  // Writers are faster than that before.
  Open({"default"});
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1200)) Flush(handles_[0], 1000, 1000);
  Close();
  fs::remove_all(path_);
  OpenWithAFullRoot();
  EXPECT_LE(RateOfRocksDB(), 1u << 20);
  EXPECT_EQ(Stats(handles_[0]).delayed_write_rate, RateOfRocksDB());
  db_->EnableManualCompaction();
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
  EXPECT_TRUE(Await([&] { return RateOfRocksDB() == 0 && Stats(handles_[0]).delayed_write_rate == 0; }));
}

TEST_F(TrieSchedulerTest, TellsWhatThereIsToDo) {
  Open({"default"});
  const auto scheduler = TrieScheduler::Find(db_.get());
  ASSERT_NE(scheduler, nullptr);
  EXPECT_EQ(scheduler->GetActivity(0).due, 0u);
  db_->DisableManualCompaction();
  for (int flush = 0; flush < trie_.root_trigger; ++flush) Flush(handles_[0], 10, 100);
  EXPECT_TRUE(Await([&] { return scheduler->GetActivity(0).due > 0; }));
  EXPECT_GT(scheduler->GetActivity(0).due_bytes, 0u);
  db_->EnableManualCompaction();
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
  EXPECT_EQ(scheduler->GetActivity(0).due, 0u);
  EXPECT_EQ(scheduler->GetActivity(0).due_bytes, 0u);
  EXPECT_EQ(scheduler->GetActivity(0).running, 0u);
}

TEST_F(TrieSchedulerTest, AClosedDatabaseLeavesNoTotalsBehind) {
  Open({"default", "second"});
  Flush(handles_[0], 10, 100);
  Flush(handles_[1], 10, 100);
  std::string session;
  ASSERT_TRUE(db_->GetDbSessionId(session).ok());
  EXPECT_GT(WrittenTotalsOf(session, 0)->flushed_bytes, 0u);
  Close();
  for (const uint32_t family : {0, 1}) EXPECT_EQ(WrittenTotalsOf(session, family)->flushed_bytes, 0u);
}

// Values of 1,000 bytes with merge operands of 8 bytes on top, which cost next to nothing to keep for a while.
TEST_F(TrieSchedulerTest, MergeOperandsDoNotMakeTheirValuesGarbage) {
  trie_ = HashTrieOptions();
  options_.write_buffer_size = 128 << 10;
  for (const size_t value_bytes : {size_t{1000}, size_t{8}}) {
    SCOPED_TRACE(value_bytes);
    const int keys = value_bytes == 8 ? 40000 : 5000;
    const std::string one("\1\0\0\0\0\0\0\0", 8);
    options_.merge_operator = nullptr;
    ASSERT_TRUE(rocksdb::MergeOperator::CreateFromString(
                    rocksdb::ConfigOptions(), value_bytes == 8 ? "uint64add" : "stringappend", &options_.merge_operator)
                    .ok());
    Open({"default"});
    rocksdb::WriteOptions no_log;
    no_log.disableWAL = true;
    for (int i = 0; i < keys; ++i) {
      ASSERT_TRUE(db_->Put(no_log, Key(i), value_bytes == 8 ? one : std::string(value_bytes, 'v')).ok());
    }
    ASSERT_TRUE(db_->Flush({}).ok());
    ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
    const TrieStats before = Stats(handles_[0]);
    for (int i = 0; i < 300000; ++i) ASSERT_TRUE(db_->Merge(no_log, Key(i % keys * 7919 % keys), one).ok());
    ASSERT_TRUE(db_->Flush({}).ok());
    ASSERT_TRUE(WaitForTrieCompaction(db_.get(), kPatienceMicros).ok());
    const TrieStats after = Stats(handles_[0]);
    const double compacted = static_cast<double>(after.compacted_bytes - before.compacted_bytes);
    const double flushed = static_cast<double>(after.flushed_bytes - before.flushed_bytes);
    // Operands on values of their own size are garbage before long. How often they are folded depends on how many
    // flushes each compaction finds: where it never waits for more of them, 7.8 bytes are written, and 9.7 where
    // threads are slow.
    EXPECT_LT(compacted / flushed, value_bytes == 8 ? 12 : 6) << TrieStatsToTable(after);
    std::string value;
    ASSERT_TRUE(db_->Get({}, Key(0), &value).ok());
    Close();
    fs::remove_all(path_);
  }
}

}  // namespace
}  // namespace cairn
