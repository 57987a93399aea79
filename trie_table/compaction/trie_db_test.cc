// A trie database end to end: opening, loading, compaction, reading back, closing while it compacts.

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "table/ect/ect_table_index.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/test_gate.h"
#include "test/testutil/trie_fixture.h"
#include "trie_table/compaction/write_throttle.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

class TrieDbTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::temp_directory_path() / (std::string("cairn_trie_db_") + info->name() + std::to_string(getpid()));
    fs::remove_all(path_);
    options_.create_if_missing = true;
    options_.write_buffer_size = 64 << 10;
    options_.compression = rocksdb::kNoCompression;
    options_.max_background_jobs = 4;
  }

  void TearDown() override {
    db_.reset();
    fs::remove_all(path_);
  }

  void Open() {
    db_.reset();
    ASSERT_TRUE(UseTrie(&options_, trie_).ok());
    const Status s = cairn::Open(options_, path_, port::Into(&db_));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  static std::string Key(int i) { return "key" + std::to_string(i); }
  static std::string Value(int i, int round) {
    return std::to_string(uint64_t(i) * 1000003 + uint64_t(round)) + std::string(80, 'v');
  }

  void Load(int keys, int round) {
    for (int i = 0; i < keys; ++i) ASSERT_TRUE(db_->Put({}, Key(i), Value(i, round)).ok());
  }

  void Check(int keys, int round) {
    std::string value;
    for (int i = 0; i < keys; ++i) {
      const Status s = db_->Get({}, Key(i), &value);
      ASSERT_TRUE(s.ok()) << i << " " << s.ToString();
      ASSERT_EQ(value, Value(i, round));
    }
    ASSERT_TRUE(db_->Get({}, "absent", &value).IsNotFound());
  }

  void Settle() {
    ASSERT_TRUE(db_->Flush({}).ok());
    const Status s = WaitForTrieCompaction(db_.get(), 600'000'000);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  // Returns when level 0, which was empty, has the table; listeners may yet have to hear of it.
  void FlushWithoutWaiting() {
    ASSERT_TRUE(BeginFlush(db_.get()).ok());
    std::string files = "0";
    while (files == "0") ASSERT_TRUE(db_->GetProperty("rocksdb.num-files-at-level0", &files));
  }

  TrieStats Stats() {
    TrieStats stats;
    const Status s = GetTrieStats(db_.get(), db_->DefaultColumnFamily(), &stats);
    EXPECT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(stats.last_error, "");
    return stats;
  }

  fs::path path_;
  rocksdb::Options options_;
  HashTrieOptions trie_ = SmallTrieOptions();
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(TrieDbTest, LoadsCompactsAndReadsBack) {
  Open();
  Load(40000, 0);
  Settle();
  Check(40000, 0);
  const TrieStats stats = Stats();
  EXPECT_GE(stats.depths.size(), 3u) << TrieStatsToTable(stats);
  EXPECT_GT(stats.push_compactions, 0u);
  EXPECT_EQ(stats.failed_compactions, 0u);
  // Each byte is written once per depth, the log aside.
  EXPECT_LT(stats.write_amplification, static_cast<double>(stats.depths.size()) + 0.5) << TrieStatsToTable(stats);
  Open();
  Check(40000, 0);
  EXPECT_GT(Stats().flushed_bytes, 0u);
}

TEST_F(TrieDbTest, KeepsTheSpaceBoundUnderUpdates) {
  Open();
  for (int round = 0; round < 8; ++round) Load(20000, round);
  Settle();
  Check(20000, 7);
  const TrieStats stats = Stats();
  EXPECT_LT(stats.space_amplification, 1.5) << TrieStatsToTable(stats);
  uint64_t bytes = 0;
  ASSERT_TRUE(db_->GetIntProperty("rocksdb.live-sst-files-size", &bytes));
  EXPECT_LT(static_cast<double>(bytes), 1.6 * 20000 * 100) << TrieStatsToTable(stats);
}

// Tables by whether they have an ECT index, and the Bloom filters' bytes of those that have.
struct TablesByIndex {
  int ect = 0;
  int others = 0;
  uint64_t filter_bytes_of_ect = 0;
};

TablesByIndex CountTables(rocksdb::DB* db) {
  TablesByIndex counts;
  rocksdb::TablePropertiesCollection tables;
  EXPECT_TRUE(db->GetPropertiesOfAllTables(&tables).ok());
  for (const auto& [name, properties] : tables) {
    EctTableFacts facts;
    const bool ect = ReadEctTableFacts(*properties, &facts).ok();
    ++(ect ? counts.ect : counts.others);
    if (ect) counts.filter_bytes_of_ect += properties->filter_size + facts.filter_bytes;
  }
  return counts;
}

TEST_F(TrieDbTest, BottommostTablesHaveAnEctIndex) {
  for (const char* format : {"sst", "htable"}) {
    SCOPED_TRACE(format);
    trie_.format = format;
    trie_.bottommost_format = "ect";
    Open();
    Load(8000, 0);
    Load(4000, 1);
    Settle();
    const TrieStats stats = Stats();
    TablesByIndex tables = CountTables(db_.get());
    EXPECT_GT(tables.ect, 0);
    EXPECT_GT(tables.others, 0) << TrieStatsToTable(stats);
    EXPECT_EQ(tables.filter_bytes_of_ect, 0u);
    EXPECT_EQ(stats.ect_files, static_cast<uint64_t>(tables.ect));
    EXPECT_GE(stats.ect_keys, 4000u);
    // Tables here are tiny, and how many there are depends on the seed: each takes some hundred bytes for itself.
    EXPECT_LT(stats.ect_memory_bytes, 600 * stats.ect_files + 2 * stats.ect_keys)
        << stats.ect_files << " tables of " << stats.ect_keys << " keys";
    Check(4000, 1);

    // By the OPTIONS file alone.
    const std::string bottommost = options_.table_factory->ToString(rocksdb::ConfigOptions());
    EXPECT_NE(bottommost.find("bottommost_table={"), std::string::npos) << bottommost;
    db_.reset();
    rocksdb::Options stored;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    rocksdb::Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path_.string(), &stored, &families);
    ASSERT_TRUE(s.ok()) << s.ToString();
    HashTrieOptions read;
    ASSERT_TRUE(IsHashTrie(families[0].options, &read));
    EXPECT_EQ(read.bottommost_format, "ect");
    const auto options = options_;
    options_ = rocksdb::Options(rocksdb::DBOptions(stored), families[0].options);
    options_.create_if_missing = true;
    s = cairn::Open(options_, path_.string(), port::Into(&db_));
    ASSERT_TRUE(s.ok()) << s.ToString();
    Check(4000, 1);
    Load(4000, 2);
    ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
    Check(4000, 2);
    tables = CountTables(db_.get());
    EXPECT_GT(tables.ect, 0);
    // Whether something lies below is asked for a compaction as a whole, which may write several containers.
    EXPECT_LT(tables.others, tables.ect) << "after a full compaction nothing lies below any table";
    options_ = options;

    // Tables with an index are read without the option, and give way to others when they are compacted.
    trie_.bottommost_format = "same";
    Open();
    Check(4000, 2);
    Load(4000, 3);
    ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
    Check(4000, 3);
    EXPECT_EQ(CountTables(db_.get()).ect, 0);
    EXPECT_EQ(Stats().ect_files, 0u);
    db_.reset();
    fs::remove_all(path_);
  }
}

TEST_F(TrieDbTest, BottommostEctRefusesWhatItCannotWrite) {
  trie_.bottommost_format = "ect";
  rocksdb::Options plain;
  plain.table_factory.reset(rocksdb::NewPlainTableFactory());
  EXPECT_TRUE(UseTrie(&plain, trie_).IsNotSupported());
  // Offsets of blocks would not be known while they are written.
  options_.compression_opts.max_dict_bytes = 1024;
  rocksdb::Options dictionary = options_;
  ASSERT_TRUE(UseTrie(&dictionary, trie_).ok());
  rocksdb::DB* db = nullptr;
  const Status s = cairn::Open(dictionary, path_.string(), &db);
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  delete db;
}

TEST_F(TrieDbTest, DeletesGiveTheirSpaceBack) {
  Open();
  Load(20000, 0);
  for (int i = 0; i < 20000; ++i) ASSERT_TRUE(db_->Delete({}, Key(i)).ok());
  Settle();
  ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
  EXPECT_EQ(Stats().bytes, 0u) << TrieStatsToTable(Stats());
}

TEST_F(TrieDbTest, CompactTrieLeavesEachKeyInOneTable) {
  Open();
  for (int round = 0; round < 3; ++round) Load(20000, round);
  const Status s = CompactTrie(db_.get(), db_->DefaultColumnFamily());
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(db_->Flush({}).ok());
  ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
  Check(20000, 2);
  const TrieStats stats = Stats();
  // An estimate; tables of a few KiB, as a busy machine leaves them, are taken for a quarter of garbage.
  EXPECT_LT(stats.space_amplification, 1.5) << TrieStatsToTable(stats);
  rocksdb::TablePropertiesCollection properties;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(&properties).ok());
  uint64_t entries = 0;
  for (const auto& [name, table] : properties) entries += table->num_entries;
  EXPECT_EQ(entries, 20000u);
}

// Holds the events of flushes back from the listeners behind it.
class LateFlushEvents : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
};

TEST_F(TrieDbTest, CompactTrieSeesTheFlushBeforeItsEvent) {
  options_.listeners.push_back(std::make_shared<LateFlushEvents>());
  Open();
  ASSERT_TRUE(db_->Put({}, "key", "value").ok());
  ASSERT_TRUE(db_->Delete({}, "key").ok());
  FlushWithoutWaiting();
  ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(&tables).ok());
  EXPECT_TRUE(tables.empty());
}

TEST_F(TrieDbTest, ClosesPromptlyWhileCompactionsRun) {
  for (int round = 0; round < 10; ++round) {
    Open();
    Load(5000, round);
    db_.reset();
  }
  Open();
  Check(5000, 9);
}

TEST_F(TrieDbTest, PlainOpenWithStoredOptionsCompactsFromTheFirstFlush) {
  Open();
  Load(100, 0);
  db_.reset();
  rocksdb::DBOptions db_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path_, &db_options, &families);
  ASSERT_TRUE(s.ok()) << s.ToString();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  s = rocksdb::DB::Open(db_options, path_, families, &handles, port::Into(&db_));
  ASSERT_TRUE(s.ok()) << s.ToString();
  Load(20000, 1);
  Settle();
  Check(20000, 1);
  EXPECT_GT(Stats().root_compactions, 0u);
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handles[0]).ok());
}

// Takes down for how much at once tables ask the file system.
class AskedRoom : public rocksdb::FileSystemWrapper {
 public:
  AskedRoom() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "AskedRoom"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> opened;
    const rocksdb::IOStatus s = FileSystemWrapper::NewWritableFile(name, options, &opened, debug);
    if (s.ok()) *file = std::make_unique<File>(std::move(opened), this, fs::path(name).extension() == ".sst");
    return s;
  }

  size_t most() const { return most_; }

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> file, AskedRoom* room, bool is_table)
        : FSWritableFileOwnerWrapper(std::move(file)), room_(room), is_table_(is_table) {}
    void SetPreallocationBlockSize(size_t bytes) override {
      size_t most = room_->most_;
      while (is_table_ && most < bytes && !room_->most_.compare_exchange_weak(most, bytes)) {
      }
      FSWritableFileOwnerWrapper::SetPreallocationBlockSize(bytes);
    }

   private:
    AskedRoom* const room_;
    const bool is_table_;
  };

  std::atomic<size_t> most_{0};
};

TEST_F(TrieDbTest, TakesRoomForOneChildAtATime) {
  const auto room = std::make_shared<AskedRoom>();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(room);
  options_.env = env.get();
  options_.disable_auto_compactions = true;
  Open();
  for (int file = 0; file < 4; ++file) {
    Load(1000, file);
    ASSERT_TRUE(db_->Flush({}).ok());
  }
  uint64_t bytes = 0;
  ASSERT_TRUE(db_->GetIntProperty("rocksdb.total-sst-files-size", &bytes));
  ASSERT_TRUE(db_->SetOptions({{"disable_auto_compactions", "false"}}).ok());
  Settle();
  EXPECT_GT(Stats().root_compactions, 0u);
  EXPECT_GT(room->most(), 0u);
  EXPECT_LE(room->most(), (bytes + bytes / 10) / static_cast<uint64_t>(trie_.fan_out));
  Check(1000, 3);
  db_.reset();
}

// A root that cannot move slows writers down, and lets them go when it has.
TEST_F(TrieDbTest, AFullRootSlowsWritersDown) {
  Open();
  ASSERT_TRUE(db_->PauseBackgroundWork().ok());
  ASSERT_TRUE(db_->ContinueBackgroundWork().ok());
  db_->DisableManualCompaction();  // CompactFiles is refused, flushes go on
  for (int file = 0; file <= kLeastFilesToSlow; ++file) {
    EXPECT_EQ(Stats().delayed_write_rate, 0u);
    Load(10, file);
    ASSERT_TRUE(db_->Flush({}).ok());
  }
  // The scheduler hears of the last flush a moment later.
  EXPECT_TRUE(Await([&] { return Stats().delayed_write_rate > 0; })) << TrieStatsToTable(Stats());
  EXPECT_LT(Stats().delayed_write_rate, 32u << 20);
  db_->EnableManualCompaction();
  Settle();
  EXPECT_EQ(Stats().delayed_write_rate, 0u) << TrieStatsToTable(Stats());
}

// Keeps the first compaction from going on until its gate is released.
class HeldCompaction : public rocksdb::EventListener {
 public:
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kCompaction) gate.Wait();
  }

  Gate gate;
};

// A compaction for space ends while writers are held back for it, and nothing more is due: no other compaction comes
// that could let them go.
TEST_F(TrieDbTest, LetsWritersGoWhenNothingIsLeftToDo) {
  auto held = std::make_shared<HeldCompaction>();
  options_.listeners.push_back(held);
  options_.write_buffer_size = 4 << 20;
  options_.max_background_jobs = 2;  // one compaction at a time
  trie_.root_trigger = 16;
  Open();
  const auto load = [&](int from, int to, int round) {
    for (int i = from; i < to; ++i) ASSERT_TRUE(db_->Put({}, Key(i), Value(i, round)).ok());
    ASSERT_TRUE(db_->Flush({}).ok());
  };
  const int keys = 5000;  // in a flush
  for (int flush = 0; flush < 3; ++flush) load(flush * keys, (flush + 1) * keys, 0);
  load(0, keys, 1);
  ASSERT_TRUE(held->gate.AwaitWaiter()) << TrieStatsToTable(Stats());
  load(3 * keys, 4 * keys, 0);
  held->gate.Release();
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), 600'000'000).ok());
  EXPECT_EQ(Stats().root_compactions, 1u) << TrieStatsToTable(Stats());
  EXPECT_EQ(Stats().delayed_write_rate, 0u) << TrieStatsToTable(Stats());
}

TEST_F(TrieDbTest, ReadingAColumnFamilyForItsStatisticsLeavesNothingToWaitFor) {
  Open();
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), 600'000'000).ok());
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(options_, "second", &handle).ok());
  TrieStats stats;
  EXPECT_TRUE(GetTrieStats(db_.get(), handle, &stats).ok());
  const Status s = WaitForTrieCompaction(db_.get(), 600'000'000);
  EXPECT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
}

// Holds the event of the first flush back from the listeners behind it until its gate is released.
class HeldFlushEvent : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override {
    if (++flushes_ == 1) gate.Wait();
  }

  Gate gate;

 private:
  std::atomic<int> flushes_{0};
};

// The table of a flush is read from the Version and compacted away; only then its event arrives, and the table's
// deletion while another compaction runs.
TEST_F(TrieDbTest, TheEventOfATableThatIsGoneBringsNothingBack) {
  auto held = std::make_shared<HeldFlushEvent>();
  auto held_compaction = std::make_shared<HeldCompaction>();
  options_.listeners.push_back(held);
  options_.listeners.push_back(held_compaction);
  options_.max_background_jobs = 8;  // two flushes at once
  Open();
  const auto compact = [this] { return CompactTrie(db_.get(), db_->DefaultColumnFamily()); };
  ASSERT_TRUE(db_->Put({}, "key", "value").ok());
  ASSERT_TRUE(db_->Delete({}, "key").ok());
  FlushWithoutWaiting();
  ASSERT_TRUE(compact().ok());  // gives up waiting for the event, and reads the Version
  for (const char* key : {"key", "other"}) {
    ASSERT_TRUE(db_->Put({}, key, "newer").ok());
    ASSERT_TRUE(db_->Flush({}).ok());
  }
  Status s;
  std::thread by_hand([&] { s = compact(); });
  EXPECT_TRUE(held_compaction->gate.AwaitWaiter());
  held->gate.Release();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  held_compaction->gate.Release();
  by_hand.join();
  EXPECT_TRUE(s.ok()) << s.ToString();
  s = compact();
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(Stats().failed_compactions, 0u) << TrieStatsToTable(Stats());
}

TEST_F(TrieDbTest, FanOutAndSlotsCanChange) {
  trie_.fan_out = 2;
  Open();
  Load(20000, 0);
  Settle();
  const size_t depths = Stats().depths.size();
  ASSERT_GE(depths, 3u);
  trie_.fan_out = 4;
  trie_.slots = 5;
  trie_.trigger = 4;
  Open();
  Settle();
  EXPECT_GT(Stats().split_compactions, 0u) << TrieStatsToTable(Stats());
  Check(20000, 0);
  Load(20000, 1);
  Settle();
  Check(20000, 1);
}

// RocksDB's example compact_files compacts all tables to the last level after each flush.
TEST_F(TrieDbTest, CompactFilesDoesNotCutTablesToPieces) {
  trie_ = HashTrieOptions();
  Open();
  const auto tables = [&](int below) {
    rocksdb::ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(&meta);
    std::vector<std::string> names;
    for (const auto& level : meta.levels) {
      for (const auto& file : level.files) {
        if (level.level < below) names.push_back(file.name);
      }
    }
    return names;
  };
  const int last = options_.num_levels - 1;
  Load(5000, 0);
  ASSERT_TRUE(db_->Flush({}).ok());
  ASSERT_TRUE(WaitForTrieCompaction(db_.get(), 600'000'000).ok());
  const std::vector<std::string> all = tables(last + 1);
  ASSERT_LT(all.size(), 20u);
  const Status refused = db_->CompactFiles({}, all, last);
  EXPECT_TRUE(refused.IsInvalidArgument()) << refused.ToString();
  for (const char* part : {"output level 80", "trie default", " bytes into up to 4", "CompactRange"}) {
    EXPECT_NE(refused.ToString().find(part), std::string::npos) << refused.ToString();
  }
  EXPECT_EQ(tables(last + 1), all);
  // The level that the refusal names is taken.
  const size_t at = refused.ToString().find("name level ");
  ASSERT_NE(at, std::string::npos) << refused.ToString();
  const int level = std::stoi(refused.ToString().substr(at + 11));
  EXPECT_EQ(level % trie_.slots, 0) << "the oldest slot of a depth";
  const Status taken = db_->CompactFiles({}, all, level);
  EXPECT_TRUE(taken.ok()) << taken.ToString();
  EXPECT_LE(tables(last + 1).size(), 64u);
  Check(5000, 0);
  // What is as small already is not cut, and the trie's own compactions go to any depth.
  EXPECT_TRUE(db_->CompactFiles({}, tables(last + 1), level).ok());
  ASSERT_TRUE(CompactTrie(db_.get(), db_->DefaultColumnFamily()).ok());
  Check(5000, 0);
}

TEST_F(TrieDbTest, TakesTheOptionsOfAStockDatabase) {
  rocksdb::Options stock;
  stock.create_if_missing = true;
  ASSERT_TRUE(rocksdb::DB::Open(stock, path_, port::Into(&db_)).ok());
  options_.ttl = db_->GetOptions().ttl;
  options_.periodic_compaction_seconds = db_->GetOptions().periodic_compaction_seconds;
  ASSERT_GT(options_.ttl, 0u);
  db_.reset();
  ASSERT_TRUE(rocksdb::DestroyDB(path_, stock).ok());
  Open();
  Load(100, 0);
  Check(100, 0);
  EXPECT_EQ(db_->GetOptions().ttl, 0u);
}

}  // namespace
}  // namespace cairn
