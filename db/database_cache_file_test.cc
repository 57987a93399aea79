// A result cache in a file above a database: what it answers after the process was killed, and after others had their
// hands on the database, is what the tree holds (docs/design/result_cache.md, P7 to P9).

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/result_cache.h"
#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/env_encryption.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/wal_filter.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/random.h"
#include "test/testutil/test_seed.h"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;

using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Options;
using rocksdb::Status;
using rocksdb::WriteOptions;

class KeepAllFilter : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "KeepAll"; }
};

class NothingFilter : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "Nothing"; }
};

constexpr char kFile[] = "ANSWERS";

Options StockOptions() {
  Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = 64 << 10;
  options.max_background_jobs = 2;
  options.merge_operator = std::make_shared<LastOperator>();
  return options;
}

Options CachedOptions() {
  Options options = StockOptions();
  DatabaseCacheOptions cache;
  cache.capacity = 1 << 20;
  cache.path = kFile;
  cache.adaptive = false;
  UseResultCache(cache, &options);
  return options;
}

// A database of two families.
class Database {
 public:
  Database(const std::string& path, const Options& options, const Options& of_second, Status* opened) {
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, options},
                                                                   {"second", of_second}};
    DB* db = nullptr;
    *opened = DB::Open(options, path, families, &handles_, port::Into(&db));
    db_.reset(db);
  }
  ~Database() {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
  }
  DB* operator->() const { return db_.get(); }
  DB* get() const { return db_.get(); }
  ColumnFamilyHandle* Family(uint64_t number) const { return handles_[number % 2]; }
  std::vector<ColumnFamilyHandle*>* handles() { return &handles_; }

  std::string Get(uint64_t family, const std::string& key) const { return Ask(rocksdb::ReadOptions(), family, key); }
  // Reads of a snapshot pass by the cache.
  std::string Tree(uint64_t family, const std::string& key) const {
    rocksdb::ManagedSnapshot snapshot(db_.get());
    rocksdb::ReadOptions options;
    options.snapshot = snapshot.snapshot();
    return Ask(options, family, key);
  }
  DatabaseCacheStats Stats() const {
    DatabaseCacheStats stats;
    EXPECT_OK(GetDatabaseCacheStats(db_.get(), &stats));
    return stats;
  }

 private:
  std::string Ask(const rocksdb::ReadOptions& options, uint64_t family, const std::string& key) const {
    rocksdb::PinnableSlice value;
    const Status s = db_->Get(options, Family(family), key, &value);
    return s.ok() ? value.ToString() : s.ToString();
  }

  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

class DatabaseCacheFileTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kKeys = 300;

  static std::string KeyOf(uint64_t number) { return "key" + std::to_string(number); }
  std::string Path() const { return dir_ / "db"; }
  std::string File() const { return Path() + "/" + kFile; }

  void Open(const Options& options = CachedOptions()) { Open(options, options); }
  void Open(const Options& options, const Options& of_second) {
    Status s;
    db_ = std::make_unique<Database>(Path(), options, of_second, &s);
    ASSERT_OK(s);
  }
  void Close() { db_.reset(); }
  void Put(uint64_t number, const std::string& value) {
    ASSERT_OK((*db_)->Put(WriteOptions(), db_->Family(number), KeyOf(number), value));
  }
  // Every third key is absent.
  void WriteAll(const std::string& value) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      if (i % 3 != 0) Put(i, value + std::to_string(i));
    }
  }
  void ReadAll() {
    for (uint64_t i = 0; i < kKeys; ++i) db_->Get(i, KeyOf(i));
  }
  void ExpectRight() {
    for (int round = 0; round < 2; ++round) {
      for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(db_->Get(i, KeyOf(i)), db_->Tree(i, KeyOf(i))) << KeyOf(i);
    }
    EXPECT_EQ(db_->Stats().wrong_hits, 0u);
  }
  uint64_t Recovered() { return db_->Stats().cache.recovered; }
  void ExpectEmptyAndRight() {
    EXPECT_EQ(Recovered(), 0u);
    ExpectRight();
  }
  // All keys are in the file.
  void Fill(const Options& options = CachedOptions()) {
    Open(options);
    WriteAll("value");
    ReadAll();
    ReadAll();
    EXPECT_GE(db_->Stats().cache.items, kKeys);
  }
  void FillAndClose() {
    Fill();
    Close();
  }
  // Does it in another process, which then dies with the database open. This one has never had one open: its threads
  // would be missing in the other.
  static void InProcessThatDies(const std::function<void()>& work) {
    EXPECT_TRUE(WIFSIGNALED(StatusOfProcess([&] {
      work();
      if (!HasFailure()) kill(getpid(), SIGKILL);
    })));
  }
  void InNextProcess(const std::function<void()>& work) {
    EXPECT_EQ(StatusOfProcess([&] {
                work();
                Close();
                _exit(HasFailure() ? 1 : 0);
              }),
              0);
  }
  static int StatusOfProcess(const std::function<void()>& work) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      work();
      _exit(1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }
  // The newest of the folder's files whose names end like this.
  std::string Newest(const std::string& ending) const {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(Path())) {
      const std::string name = entry.path().filename();
      if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
        newest = std::max(newest, name);
      }
    }
    return Path() + "/" + newest;
  }
  std::string LogText() const {
    std::ifstream log(Path() + "/LOG");
    return {std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
  std::unique_ptr<Database> db_;
};

// Processes first: they may not be forked from one that had a database open.
using AfterKill = DatabaseCacheFileTest;

TEST_F(AfterKill, ItGoesOn) {
  InProcessThatDies([&] {
    Fill();
    Put(1, "newer");                                                                     // erased from the cache
    EXPECT_OK((*db_)->DeleteRange(WriteOptions(), db_->Family(0), "key100", "key110"));  // takes the family's space
    ReadAll();
    Put(7, "newest");
  });
  InNextProcess([&] {
    Open();
    EXPECT_GT(Recovered(), kKeys - 50);
    EXPECT_EQ(db_->Get(1, KeyOf(1)), "newer");
    EXPECT_EQ(db_->Get(7, KeyOf(7)), "newest");
    ExpectRight();
    EXPECT_GT(db_->Stats().cache.hits, kKeys / 2);
  });
}

TEST_F(AfterKill, RangeDeletionAndIngestionTakeAFamilysAnswersAlong) {
  InProcessThatDies([&] {
    Fill();
    const std::string table = dir_ / "table";
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), (*db_)->GetOptions(db_->Family(1)));
    EXPECT_OK(writer.Open(table));
    EXPECT_OK(writer.Put(KeyOf(1), "ingested"));
    EXPECT_OK(writer.Finish());
    EXPECT_OK((*db_)->IngestExternalFile(db_->Family(1), {table}, rocksdb::IngestExternalFileOptions()));
    EXPECT_OK((*db_)->DeleteRange(WriteOptions(), db_->Family(0), "key", "kez"));
  });
  InNextProcess([&] {
    Open();
    EXPECT_EQ(db_->Get(1, KeyOf(1)), "ingested");
    EXPECT_EQ(Recovered(), 0u);
    ExpectRight();
  });
}

TEST_F(AfterKill, WithWritesThatTheWalLacksItBeginsEmpty) {
  InProcessThatDies([&] {
    Fill();
    WriteOptions unlogged;
    unlogged.disableWAL = true;
    EXPECT_OK((*db_)->Put(unlogged, db_->Family(1), KeyOf(1), "lost"));
    Put(2, "kept");
    ReadAll();
  });
  InNextProcess([&] {
    Open();
    EXPECT_NE(db_->Get(1, KeyOf(1)), "lost");
    EXPECT_EQ(db_->Get(2, KeyOf(2)), "kept");
    ExpectEmptyAndRight();
  });
}

TEST_F(AfterKill, WithAWalThatWasInTheProcessItBeginsEmpty) {
  Options buffered = CachedOptions();
  buffered.manual_wal_flush = true;
  buffered.write_buffer_size = 64 << 20;
  InProcessThatDies([&] {
    Fill(buffered);
    EXPECT_OK((*db_)->FlushWAL(true));
    Put(1, "lost");
    ReadAll();
  });
  InNextProcess([&] {
    Open(buffered);
    EXPECT_NE(db_->Get(1, KeyOf(1)), "lost");
    ExpectEmptyAndRight();
  });
}

// What is lost has the sequence numbers of other writes by now.
TEST_F(AfterKill, SequenceNumbersUsedAgainBringNothingBack) {
  InProcessThatDies([&] {
    Fill();
    Put(1, "lost");
    ReadAll();
  });
  InNextProcess([&] {
    const std::string wal = Newest(".log");
    fs::resize_file(wal, fs::file_size(wal) - 3);
    for (const bool cached : {false, true}) {
      Open(cached ? CachedOptions() : StockOptions());
      if (!cached) Put(2, "another");
      if (cached) ExpectEmptyAndRight();
      Close();
    }
  });
}

TEST_F(AfterKill, TurnedOffItIsEmpty) {
  InProcessThatDies([&] {
    Fill();
    DatabaseCache* const cache = CairnDB::Of(db_->get())->services()->cache();
    cache->TEST_Judge(-1);
    for (uint64_t i = 0; i < kKeys; i += 2) Put(i, "while it was off");
  });
  InNextProcess([&] {
    Open();
    ExpectEmptyAndRight();
  });
}

TEST_F(AfterKill, TurnedOffAndOnItGoesOn) {
  InProcessThatDies([&] {
    Fill();
    DatabaseCache* const cache = CairnDB::Of(db_->get())->services()->cache();
    cache->TEST_Judge(-1);
    for (uint64_t i = 0; i < kKeys; i += 2) Put(i, "while it was off");
    cache->TEST_Judge(1);
    ReadAll();
    ReadAll();
  });
  InNextProcess([&] {
    Open();
    EXPECT_GT(Recovered(), 0u);
    ExpectRight();
  });
}

TEST_F(AfterKill, InTheMiddleOfAnOpening) {
  InNextProcess([&] {
    FillAndClose();
    // As if it had been opened: another MANIFEST, and nothing told to the file.
    const std::string copy = dir_ / "copy";
    fs::copy_file(File(), copy);
    Open();
    Put(1, "newer");
    Close();
    fs::copy_file(copy, File(), fs::copy_options::overwrite_existing);
    Open();
    EXPECT_EQ(db_->Get(1, KeyOf(1)), "newer");
    ExpectEmptyAndRight();
  });
}

TEST_F(DatabaseCacheFileTest, WhoOpensItNextFindsTheAnswers) {
  FillAndClose();
  for (int round = 0; round < 3; ++round) {
    Open();
    EXPECT_EQ(Recovered(), kKeys - static_cast<uint64_t>(round == 0 ? 0 : 1)) << LogText();
    Put(static_cast<uint64_t>(round), "newer");
    ExpectRight();
    EXPECT_GT(db_->Stats().cache.hits, 0u);
    EXPECT_GT(db_->Stats().cache.absent_hits, 0u);
    Put(1, "changed before it is closed");
    Close();
  }
}

TEST_F(DatabaseCacheFileTest, AnOptionStringIsEnough) {
  const std::string text = "{id=cairn.ResultCache;capacity=1M;path=" + std::string(kFile) + "}";
  Options options = StockOptions();
  rocksdb::DBOptions parsed;
  ASSERT_OK(rocksdb::GetDBOptionsFromString(rocksdb::ConfigOptions(), options, "listeners=" + text, &parsed));
  const Options with(parsed, options);
  Fill(with);
  Close();
  Open(with);
  EXPECT_EQ(Recovered(), kKeys);
  // Who copies the options of an open database has a copy of what listens to the recovery, and may use it.
  Options again = with;
  again.wal_filter = (*db_)->GetDBOptions().wal_filter;
  EXPECT_NE(again.wal_filter, nullptr);
  rocksdb::WalFilter* const listener = again.wal_filter;
  Close();
  Open(again);
  EXPECT_EQ(Recovered(), kKeys);
  Close();
  again = StockOptions();
  again.wal_filter = listener;
  Open(again);
}

TEST_F(DatabaseCacheFileTest, SurvivesALossOfPowerOnlyWithAWalThatTellsAll) {
  const auto with = [&](const std::string& fields) {
    Options options = StockOptions();
    rocksdb::DBOptions parsed;
    EXPECT_OK(rocksdb::GetDBOptionsFromString(rocksdb::ConfigOptions(), options,
                                              "listeners={id=cairn.ResultCache;survive_power_loss=true;" + fields + "}",
                                              &parsed));
    return Options(parsed, options);
  };
  const auto refused = [&](const Options& options) {
    DB* db = nullptr;
    const Status s = DB::Open(options, Path(), port::Into(&db));
    EXPECT_TRUE(s.IsInvalidArgument() && s.ToString().find("survive_power_loss") != std::string::npos) << s.ToString();
  };
  const std::string file = "path=" + std::string(kFile);
  refused(with("capacity=1M"));
  Options options = with(file);
  options.enable_pipelined_write = true;
  refused(options);
  options = with(file);
  options.allow_2pc = true;
  refused(options);
  options = with(file);
  options.two_write_queues = true;
  refused(options);
  options = with(file);
  options.allow_mmap_writes = true;
  refused(options);
  options = with(file);
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  refused(options);
  // Closed and killed, it is as any other.
  Fill(with(file));
  Close();
  Open(with(file));
  EXPECT_EQ(Recovered(), kKeys);
  Close();
  Open();
  ExpectEmptyAndRight();
}

TEST_F(DatabaseCacheFileTest, NoOptionsFileNamesTheWalFilter) {
  FillAndClose();
  for (const auto& entry : fs::directory_iterator(Path())) {
    if (entry.path().filename().string().compare(0, 8, "OPTIONS-") != 0) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_NE(text.find("path=ANSWERS"), std::string::npos);
    const size_t at = text.find("wal_filter=");
    EXPECT_TRUE(at == std::string::npos || text.compare(at, 18, "wal_filter=nullptr") == 0);
  }
}

TEST_F(DatabaseCacheFileTest, AClosedDatabaseHasLetGoOfItsFile) {
  Fill();
  for (ColumnFamilyHandle* handle : *db_->handles()) EXPECT_OK((*db_)->DestroyColumnFamilyHandle(handle));
  db_->handles()->clear();
  const rocksdb::Snapshot* const snapshot = (*db_)->GetSnapshot();
  EXPECT_TRUE((*db_)->Close().IsAborted());
  std::string value;
  EXPECT_OK((*db_)->Get(rocksdb::ReadOptions(), KeyOf(2), &value));
  (*db_)->ReleaseSnapshot(snapshot);
  EXPECT_OK((*db_)->Close());
  const std::unique_ptr<Database> closed = std::move(db_);
  Open();
  EXPECT_EQ(Recovered(), kKeys);
  ExpectRight();
}

TEST_F(DatabaseCacheFileTest, AStockRocksdbInBetweenMakesItEmpty) {
  for (const bool writes : {false, true}) {
    FillAndClose();
    Open(StockOptions());
    if (writes) Put(1, "by stock RocksDB");
    Close();
    Open();
    EXPECT_EQ(db_->Get(1, KeyOf(1)), writes ? "by stock RocksDB" : "value1");
    ExpectEmptyAndRight();
    Close();
  }
}

TEST_F(DatabaseCacheFileTest, ReadOnlyInBetweenIsNothing) {
  FillAndClose();
  {
    std::vector<ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    ASSERT_OK(DB::OpenForReadOnly(StockOptions(), Path(),
                                  {{rocksdb::kDefaultColumnFamilyName, StockOptions()}, {"second", StockOptions()}},
                                  &handles, port::Into(&db)));
    for (ColumnFamilyHandle* handle : handles) EXPECT_OK(db->DestroyColumnFamilyHandle(handle));
    delete db;
  }
  Open();
  EXPECT_EQ(Recovered(), kKeys);
  ExpectRight();
}

TEST_F(DatabaseCacheFileTest, ARestoredBackupBeginsEmpty) {
  Fill();
  rocksdb::BackupEngine* opened = nullptr;
  ASSERT_OK(
      rocksdb::BackupEngine::Open(rocksdb::Env::Default(), rocksdb::BackupEngineOptions(dir_ / "backup"), &opened));
  const std::unique_ptr<rocksdb::BackupEngine> backups(opened);
  ASSERT_OK(backups->CreateNewBackup(db_->get()));
  for (uint64_t i = 0; i < kKeys; i += 2) Put(i, "after the backup");
  ReadAll();
  Close();
  rocksdb::RestoreOptions keep_logs;
  ASSERT_OK(backups->RestoreDBFromLatestBackup(keep_logs, Path(), Path()));
  Open();
  EXPECT_NE(db_->Get(2, KeyOf(2)), "after the backup");
  ExpectEmptyAndRight();
}

TEST_F(DatabaseCacheFileTest, ACopiedFolderBeginsEmptyAndTheOriginalGoesOn) {
  FillAndClose();
  const std::string original = Path();
  fs::copy(original, dir_ / "copy");
  {
    Status s;
    const Database copy(dir_ / "copy", CachedOptions(), CachedOptions(), &s);
    ASSERT_OK(s);
    EXPECT_EQ(copy.Stats().cache.recovered, 0u);
    for (uint64_t i = 0; i < kKeys; ++i) EXPECT_EQ(copy.Get(i, KeyOf(i)), copy.Tree(i, KeyOf(i)));
  }
  Open();
  EXPECT_EQ(Recovered(), kKeys);
  ExpectRight();
  Close();
  // A folder in the place of another.
  fs::remove_all(original);
  fs::rename(dir_ / "copy", original);
  Open();
  ExpectRight();
}

TEST_F(DatabaseCacheFileTest, ColumnFamiliesComeAndGo) {
  FillAndClose();
  Open();
  ASSERT_OK((*db_)->DropColumnFamily(db_->Family(1)));
  ASSERT_OK((*db_)->DestroyColumnFamilyHandle(db_->Family(1)));
  ASSERT_OK((*db_)->CreateColumnFamily(StockOptions(), "second", &(*db_->handles())[1]));
  Put(1, "of the new family");
  Close();
  Open();
  EXPECT_GT(Recovered(), 0u) << "the default family's";
  EXPECT_LT(Recovered(), kKeys);
  EXPECT_EQ(db_->Get(1, KeyOf(1)), "of the new family");
  EXPECT_EQ(db_->Get(5, KeyOf(5)), "NotFound: ");
  ExpectRight();
}

TEST_F(DatabaseCacheFileTest, OtherOptionsOfAFamilyMakeItsAnswersGo) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_OK((*db_)->Merge(WriteOptions(), db_->Family(i), KeyOf(i), "merged"));
  }
  ReadAll();
  Close();
  Options other = CachedOptions();
  other.merge_operator = std::make_shared<LastOperator>("Other");
  Open(CachedOptions(), other);
  EXPECT_EQ(Recovered(), kKeys / 2);
  EXPECT_EQ(db_->Get(1, KeyOf(1)), "mergedOther");
  ExpectRight();
  Close();
  const KeepAllFilter filter;
  Options filtered = CachedOptions();
  filtered.compaction_filter = &filter;
  Open(CachedOptions(), filtered);
  Put(1, "written where nothing is barred");
  Close();
  Open();
  EXPECT_EQ(db_->Get(1, KeyOf(1)), "written where nothing is barred");
  EXPECT_EQ(Recovered(), kKeys / 2);
  ExpectRight();
}

TEST_F(DatabaseCacheFileTest, WhoHasAWalFilterOrSkipsRecordsBeginsEmpty) {
  NothingFilter filter;
  Options filtered = CachedOptions();
  filtered.wal_filter = &filter;
  Options skipping = CachedOptions();
  skipping.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  for (const Options& options : {filtered, skipping}) {
    FillAndClose();
    Open(options);
    ExpectEmptyAndRight();
    Close();
  }
}

TEST_F(DatabaseCacheFileTest, OneDatabaseAtATime) {
  Options options = StockOptions();
  DatabaseCacheOptions cache;
  cache.capacity = 1 << 20;
  cache.path = dir_ / "shared";
  UseResultCache(cache, &options);
  Open(options);
  Status s;
  {
    const Database second(dir_ / "other", options, options, &s);
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
    EXPECT_NE(s.ToString().find("shared"), std::string::npos) << s.ToString();
  }
  WriteAll("first");
  ReadAll();
  Close();
  // One after the other: each finds another one's.
  for (const char* name : {"other", "db", "other"}) {
    const Database next(dir_ / name, options, options, &s);
    ASSERT_OK(s);
    EXPECT_EQ(next.Stats().cache.recovered, 0u);
    for (uint64_t i = 0; i < kKeys; ++i) EXPECT_EQ(next.Get(i, KeyOf(i)), next.Tree(i, KeyOf(i)));
  }
}

// RocksDB logs it, inserts what stands before the family that is gone, and fails; the next opening replays all of it.
TEST_F(DatabaseCacheFileTest, ABatchThatFailedHalfwayMakesItEmpty) {
  Fill();
  ColumnFamilyHandle* dropped = nullptr;
  ASSERT_OK((*db_)->CreateColumnFamily(StockOptions(), "dropped", &dropped));
  ASSERT_OK((*db_)->DropColumnFamily(dropped));
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.Put(db_->Family(1), KeyOf(1), "before the gap"));
  ASSERT_OK(batch.Put(dropped, "key", "value"));
  ASSERT_OK(batch.Put(db_->Family(1), KeyOf(5), "behind the gap"));
  EXPECT_TRUE((*db_)->Write(WriteOptions(), &batch).IsInvalidArgument());
  ASSERT_OK((*db_)->DestroyColumnFamilyHandle(dropped));
  ReadAll();
  ReadAll();
  Close();
  Open();
  // RocksDB 11.8 replays nothing of it.
  const std::string replayed = db_->Get(5, KeyOf(5));
  EXPECT_TRUE(replayed == "behind the gap" || replayed == "value5") << replayed;
  ExpectEmptyAndRight();
}

// Does something when the database's LOCK is asked for.
class BeforeTheLock : public rocksdb::EnvWrapper {
 public:
  explicit BeforeTheLock(std::function<void()> work) : EnvWrapper(Env::Default()), work_(std::move(work)) {}
  const char* Name() const override { return "BeforeTheLock"; }
  Status LockFile(const std::string& name, rocksdb::FileLock** lock) override {
    if (work_ != nullptr) std::exchange(work_, nullptr)();
    return EnvWrapper::LockFile(name, lock);
  }

 private:
  std::function<void()> work_;
};

TEST_F(DatabaseCacheFileTest, WhoOpensItJustBeforeUsMakesItEmpty) {
  FillAndClose();
  BeforeTheLock env([&] {
    Status s;
    const Database other(Path(), StockOptions(), StockOptions(), &s);
    ASSERT_OK(s);
    ASSERT_OK(other->Put(WriteOptions(), other.Family(1), KeyOf(1), "by another"));
    for (uint64_t i = 0; i < 2; ++i) ASSERT_OK(other->Flush(rocksdb::FlushOptions(), other.Family(i)));
  });
  Options options = CachedOptions();
  options.env = &env;
  Open(options);
  EXPECT_EQ(db_->Get(1, KeyOf(1)), "by another");
  ExpectEmptyAndRight();
  Close();
}

// A path that was mistyped must not cost what lies there.
TEST_F(DatabaseCacheFileTest, AFileThatIsNoCacheStaysAsItIs) {
  const std::string precious = dir_ / "precious";
  std::string text = "not a cache";
  for (int round = 0; round < 3; ++round) {
    if (round == 1) text = std::string(20000, '\0') + "an image";
    if (round == 2) text = std::string(3 << 20, 'x');
    std::ofstream(precious, std::ios::binary | std::ios::trunc) << text;
    Options options = StockOptions();
    DatabaseCacheOptions cache;
    cache.capacity = 1 << 20;
    cache.path = precious;
    cache.adaptive = false;
    UseResultCache(cache, &options);
    Fill(options);
    ExpectRight();
    EXPECT_GT(db_->Stats().cache.hits, 0u);
    Close();
    std::ifstream file(precious, std::ios::binary);
    const std::string now{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    EXPECT_TRUE(now == text) << round;
    EXPECT_TRUE(LogText().find("precious is not a result cache's file") != std::string::npos);
  }
}

TEST_F(DatabaseCacheFileTest, NamesOfTheDatabasesOwnFilesAreRefused) {
  for (const char* name : {"CURRENT", "LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "000004.log", "000007.sst",
                           "OPTIONS-000007", "CAIRN_POOL", "CAIRN_POOL_NOTE", "./CURRENT", "sub/../LOCK"}) {
    Options options = StockOptions();
    DatabaseCacheOptions cache;
    cache.capacity = 1 << 20;
    cache.path = name;
    UseResultCache(cache, &options);
    Status s;
    const Database refused(Path(), options, options, &s);
    EXPECT_TRUE(s.IsInvalidArgument()) << name << ": " << s.ToString();
    EXPECT_FALSE(fs::exists(Path() + "/" + name));
  }
}

TEST_F(DatabaseCacheFileTest, WhereTheEnvKeepsFilesInAnotherFormItIsInMemory) {
  std::shared_ptr<rocksdb::EncryptionProvider> provider;
  ASSERT_OK(rocksdb::EncryptionProvider::CreateFromString(rocksdb::ConfigOptions(), "CTR://test", &provider));
  const std::unique_ptr<rocksdb::Env> encrypted(rocksdb::NewEncryptedEnv(rocksdb::Env::Default(), provider));
  const std::unique_ptr<rocksdb::Env> in_memory(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  for (rocksdb::Env* const env : {encrypted.get(), in_memory.get()}) {
    Options options = CachedOptions();
    options.env = env;
    Open(options);
    Put(1, "a secret that must not be readable");
    ReadAll();
    ReadAll();
    EXPECT_GT(db_->Stats().cache.hits, 0u);
    ExpectRight();
    Close();
    EXPECT_FALSE(fs::exists(File()));
  }
}

TEST_F(DatabaseCacheFileTest, DestroyDBRemovesItsFile) {
  FillAndClose();
  const Options with[] = {CachedOptions(), StockOptions()};
  for (const Options& options : with) {
    ASSERT_OK(rocksdb::DestroyDB(Path(), options, {{"second", options}}));
    EXPECT_FALSE(fs::exists(Path()));
    FillAndClose();
    EXPECT_TRUE(fs::exists(File()));
  }
}

// As without a cache: the database's LOCK says it.
TEST_F(DatabaseCacheFileTest, AnOpenDatabaseIsLocked) {
  Fill();
  Status s;
  const Database second(Path(), CachedOptions(), CachedOptions(), &s);
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_NE(s.ToString().find("LOCK"), std::string::npos) << s.ToString();
  EXPECT_TRUE(rocksdb::DestroyDB(Path(), CachedOptions()).IsIOError());
  EXPECT_TRUE(fs::exists(File()));
  ExpectRight();
}

// A file system that has no room for the file: the cache is in memory, and LOG says so.
TEST_F(AfterKill, WithoutRoomForTheFileItIsInMemory) {
  InNextProcess([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {512 << 10, 512 << 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    Fill();
    ExpectRight();
    EXPECT_GT(db_->Stats().cache.hits, 0u);
  });
  EXPECT_NE(LogText().find("it is in memory only"), std::string::npos);
}

// ---- killed while it writes ----

// What a killed process had promised: of each key, the version that was begun last, and the newest that was
// acknowledged or seen. Even versions are deletions.
struct Promises {
  static constexpr uint64_t kKeys = 160;
  std::atomic<uint64_t> begun[kKeys];
  std::atomic<uint64_t> known[kKeys];
  std::atomic<uint64_t> checked;    // cycles that were opened and found right
  std::atomic<uint64_t> recovered;  // of them those that found answers in the file
  std::atomic<uint64_t> hits;
};

class KilledWriter {
 public:
  KilledWriter(const std::string& path, Promises* promises, uint64_t seed)
      : path_(path), promises_(promises), seed_(seed) {}

  // Never returns.
  [[noreturn]] void Run() {
    Random random(seed_);
    Options options = CachedOptions();
    options.write_buffer_size = 16 << random.Uniform(5) << 10;
    options.avoid_flush_during_recovery = random.OneIn(2);
    options.unordered_write = random.OneIn(4);
    options.enable_pipelined_write = !options.unordered_write && random.OneIn(10);
    options.recycle_log_file_num = random.OneIn(3) ? 2 : 0;
    options.max_manifest_file_size = random.OneIn(4) ? 4096 : 1 << 30;
    Status s;
    Database db(path_, options, options, &s);
    db_ = &db;
    ranges_ = !options.unordered_write;
    ingests_ = options.recycle_log_file_num == 0;  // RocksDB loses writes otherwise (docs/rocksdb_faults.md)
    if (!s.ok()) Die("open: " + s.ToString());
    if (db.Stats().cache.recovered > 0) ++promises_->recovered;
    CheckAll();
    ++promises_->checked;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([this, t] {
        Random own(seed_ * 3 + t);
        for (;;) own.OneIn(3) ? Write(&own) : Read(&own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    _exit(1);
  }

 private:
  [[noreturn]] void Die(const std::string& why) {
    fprintf(stderr, "CAIRN_SEED=%llu: %s\n", static_cast<unsigned long long>(seed_), why.c_str());
    _exit(1);
  }
  // Some in a file's small items, some in its large ones, some in memory only.
  static std::string KeyOf(uint64_t number) {
    size_t padding = 0;
    if (number % 40 == 3) padding = 5 << 10;
    if (number == 8) padding = 70000;
    if (number == kHugeKey) padding = 1 << 20;
    return "key" + std::string(padding, 'k') + std::to_string(number);
  }
  // Every other of some keys' versions is too large for the file.
  static std::string ValueOf(uint64_t number, uint64_t version) {
    const size_t padding = number % 16 == 5 && version / 2 % 2 == 1 ? 40000 : 0;
    return std::to_string(version) + ":" + std::string(number * 7 % 90 + padding, 'x');
  }
  static uint64_t Draw(Random* random) {
    const uint64_t number = random->Uniform(Promises::kKeys);
    return number / 2 == kHugeKey / 2 && !random->OneIn(40) ? random->Uniform(kHugeKey - 1) : number;
  }
  void Learn(uint64_t number, uint64_t version) {
    uint64_t before = promises_->known[number];
    while (before < version && !promises_->known[number].compare_exchange_weak(before, version)) {
    }
  }
  void Check(uint64_t number, uint64_t before, const std::string& text) {
    uint64_t version = before + (before & 1);
    if (text != "NotFound: ") {
      version = std::strtoull(text.c_str(), nullptr, 10);
      if ((version & 1) == 0 || text != ValueOf(number, version)) Die(KeyOf(number) + " is " + text);
    }
    if (version < before || version > promises_->begun[number]) {
      Die(KeyOf(number) + ": " + text + ", and " + std::to_string(before) + " was known");
    }
    Learn(number, version);
  }
  void CheckAll() {
    for (uint64_t i = 0; i < Promises::kKeys; ++i) {
      const std::string by_cache = db_->Get(i, KeyOf(i));
      const std::string by_tree = db_->Tree(i, KeyOf(i));
      if (by_cache != by_tree) Die(KeyOf(i) + " is " + by_tree + ", and the cache says " + by_cache);
      Check(i, promises_->known[i], by_tree);
    }
    const DatabaseCacheStats stats = db_->Stats();
    promises_->hits += stats.cache.hits + stats.cache.absent_hits;
  }
  void Read(Random* random) {
    const uint64_t number = Draw(random);
    const uint64_t before = promises_->known[number];
    Check(number, before, db_->Get(number, KeyOf(number)));
  }
  uint64_t Begin(uint64_t number, bool deletion) {
    const uint64_t now = promises_->begun[number];
    const uint64_t next = now + ((now & 1) == (deletion ? 0u : 1u) ? 2 : 1);
    promises_->begun[number] = next;
    return next;
  }
  void Write(Random* random) {
    const uint64_t kind = random->Uniform(300);
    const uint64_t number = Draw(random);
    if (kind == 0 && ranges_) return DeleteAll(number % 2);
    if (kind < 60) return WritePair(number / 2 * 2);
    const std::lock_guard<std::mutex> lock(writers_[number]);
    const bool deletion = kind >= 3 && random->OneIn(4);
    const uint64_t version = Begin(number, deletion);
    const std::string value = ValueOf(number, version);
    Status s;
    if (kind < 3 && ingests_) {
      s = Ingest(number, value, random);
    } else if (deletion) {
      s = (*db_)->Delete(WriteOptions(), db_->Family(number), KeyOf(number));
    } else if (random->OneIn(3)) {
      s = (*db_)->Merge(WriteOptions(), db_->Family(number), KeyOf(number), value);
    } else {
      s = (*db_)->Put(WriteOptions(), db_->Family(number), KeyOf(number), value);
    }
    if (!s.ok()) Die("write: " + s.ToString());
    Learn(number, version);
  }
  void WritePair(uint64_t first) {
    const std::lock_guard<std::mutex> lock(writers_[first]);
    const std::lock_guard<std::mutex> second_lock(writers_[first + 1]);
    rocksdb::WriteBatch batch;
    uint64_t versions[2];
    for (uint64_t i = 0; i < 2; ++i) {
      versions[i] = Begin(first + i, false);
      batch.Put(db_->Family(first + i), KeyOf(first + i), ValueOf(first + i, versions[i])).PermitUncheckedError();
    }
    const Status s = (*db_)->Write(WriteOptions(), &batch);
    if (!s.ok()) Die("batch: " + s.ToString());
    for (uint64_t i = 0; i < 2; ++i) Learn(first + i, versions[i]);
  }
  void DeleteAll(uint64_t parity) {
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<uint64_t> versions(Promises::kKeys);
    for (uint64_t i = parity; i < Promises::kKeys; i += 2) {
      locks.emplace_back(writers_[i]);
      versions[i] = Begin(i, true);
    }
    const Status s = (*db_)->DeleteRange(WriteOptions(), db_->Family(parity), "key", "kez");
    if (!s.ok()) Die("range: " + s.ToString());
    for (uint64_t i = parity; i < Promises::kKeys; i += 2) Learn(i, versions[i]);
  }
  Status Ingest(uint64_t number, const std::string& value, Random* random) {
    const std::string file = path_ + ".table" + std::to_string(random->Next());
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), (*db_)->GetOptions(db_->Family(number)));
    Status s = writer.Open(file);
    if (s.ok()) s = writer.Put(KeyOf(number), value);
    if (s.ok()) s = writer.Finish();
    rocksdb::IngestExternalFileOptions move;
    move.move_files = true;
    return s.ok() ? IngestAgain(db_->get(), db_->Family(number), {file}, move) : s;
  }

  static constexpr uint64_t kHugeKey = Promises::kKeys - 1;  // 1 MiB, seldom drawn

  const std::string path_;
  Promises* const promises_;
  const uint64_t seed_;
  const Database* db_ = nullptr;
  bool ranges_ = false;
  bool ingests_ = false;
  std::mutex writers_[Promises::kKeys];
};

Promises* MapPromises(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Promises)) != 0) return nullptr;
  void* const mapped = mmap(nullptr, sizeof(Promises), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<Promises*>(mapped);
}

// A process of its own: see KilledItIsLinearizable.
TEST(KilledWriterTest, DISABLED_Child) {
  const char* const folder = getenv("CAIRN_KILLED_FOLDER");
  ASSERT_NE(folder, nullptr);
  Promises* const promises = MapPromises(std::string(folder) + "/promises");
  ASSERT_NE(promises, nullptr);
  KilledWriter(std::string(folder) + "/db", promises, SeedFromEnvironment()).Run();
}

// CAIRN_CYCLES: how often it is killed.
TEST_F(DatabaseCacheFileTest, KilledItIsLinearizable) {
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  const uint64_t cycles = NumberFromEnvironment("CAIRN_CYCLES", 20);
  Promises* const promises = MapPromises(dir_ / "promises");
  ASSERT_NE(promises, nullptr);
  setenv("CAIRN_KILLED_FOLDER", dir_.path().c_str(), 1);
  // On a busy machine, or by chance, few are killed when there is something to find: then there are more of them.
  const uint64_t few = cycles / 4;
  for (uint64_t cycle = 0; cycle < cycles || (promises->recovered <= few && cycle < 5 * cycles); ++cycle) {
    setenv("CAIRN_SEED", std::to_string(seed + cycle).c_str(), 1);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_Child",
            "--gtest_brief=1", nullptr);
      _exit(1);
    }
    int status = 0;
    while (promises->checked == cycle && waitpid(child, &status, WNOHANG) == 0) usleep(500);
    ASSERT_EQ(promises->checked, cycle + 1) << "cycle " << cycle;
    usleep(static_cast<useconds_t>(random.Uniform(25000)));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "cycle " << cycle;
  }
  setenv("CAIRN_SEED", std::to_string(seed).c_str(), 1);
  RecordProperty("recovered", std::to_string(promises->recovered));
  RecordProperty("hits", std::to_string(promises->hits));
  if (cycles > 100)
    printf("%llu cycles, %llu warm, %llu hits\n", static_cast<unsigned long long>(cycles),
           static_cast<unsigned long long>(promises->recovered), static_cast<unsigned long long>(promises->hits));
  EXPECT_GT(promises->recovered, few) << "few found what was there";
  munmap(promises, sizeof(Promises));
}

}  // namespace
}  // namespace cairn::test
