// Stopping, pausing and failing while compactions run: nothing hangs, no thread touches a database that is gone (run
// it under the tsan and asan presets), and no acknowledged write is lost.
//
// Every test runs on the engines of support.h; what only a trie has is skipped elsewhere. CAIRN_SEED=n replays the
// random choices.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "file/sst_file_manager_impl.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/impatient.h"

namespace cairn::test {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;

// How often is repeated what chance decides.
int Rounds(int usual) { return usual * static_cast<int>(NumberFromEnvironment("CAIRN_ROUNDS", 1)); }

void Nap(uint64_t millis) { std::this_thread::sleep_for(std::chrono::milliseconds(millis)); }

// Writes until it is stopped or a write fails, and knows what the database must hold: for each key the last value whose
// write was acknowledged, or one whose write failed later.
class Writer {
 public:
  Writer(rocksdb::DB* db, ColumnFamilyHandle* family, uint64_t seed, int id)
      : db_(db), family_(family), random_(seed + id), id_(id) {}
  ~Writer() { Stop(); }

  void Start() {
    stop_ = false;
    thread_ = std::thread([this] {
      while (!stop_ && WriteOne().ok()) {
      }
    });
  }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Reopened(rocksdb::DB* db, ColumnFamilyHandle* family) {
    db_ = db;
    family_ = family;
  }

  // With no_slowdown a write fails where it would wait, for a disk that is mended later, say.
  Status WriteOne(bool no_slowdown = false) {
    WriteOptions options;
    options.no_slowdown = no_slowdown;
    const std::string key = "w" + std::to_string(id_) + "/" + std::to_string(random_.Uniform(1500));
    const bool remove = random_.OneIn(8);
    ++count_;
    std::string value;
    if (!remove)
      value = std::to_string(count_) + std::string(random_.Uniform(150), static_cast<char>('a' + count_ % 26));
    const Status status = remove ? db_->Delete(options, family_, key) : db_->Put(options, family_, key, value);
    std::set<std::string>& possible = expected_[key];
    if (status.ok()) possible.clear();
    if (possible.empty() && !status.ok()) possible.insert("");  // never written before
    possible.insert(value);
    last_ = status;
    return status;
  }

  // The status of the last write.
  Status last() const { return last_; }

  void Check() {
    for (const auto& [key, possible] : expected_) {
      std::string value;
      const Status status = db_->Get(ReadOptions(), family_, key, &value);
      if (!status.IsNotFound()) ASSERT_OK(status);
      ASSERT_EQ(possible.count(value), 1u) << key << " is '" << value << "', not '" << *possible.begin() << "'";
    }
    std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(ReadOptions(), family_));
    const std::string prefix = "w" + std::to_string(id_) + "/";
    size_t seen = 0, least = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) seen += iterator->key().starts_with(prefix);
    ASSERT_OK(iterator->status());
    for (const auto& [key, possible] : expected_) least += possible.count("") == 0;
    ASSERT_GE(seen, least);
    ASSERT_LE(seen, expected_.size());
  }

 private:
  rocksdb::DB* db_;
  ColumnFamilyHandle* family_;
  Random random_;
  const int id_;
  uint64_t count_ = 0;
  std::map<std::string, std::set<std::string>> expected_;  // possible values; "" for no value
  Status last_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class ShutdownTest : public ::testing::TestWithParam<Engine> {
 protected:
  void SetUp() override {
    seed_ = SeedFromEnvironment();
    printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed_));
  }

  bool trie() const { return GetParam().trie; }

  // By cairn::Open, or (odd `way`) by rocksdb::DB::Open.
  static std::unique_ptr<rocksdb::DB> Open(const Options& options, const std::string& path, int way = 0) {
    rocksdb::DB* db = nullptr;
    const Status status =
        way % 2 == 0 ? cairn::Open(options, path, &db) : rocksdb::DB::Open(options, path, port::Into(&db));
    EXPECT_OK(status);
    return std::unique_ptr<rocksdb::DB>(status.ok() ? db : nullptr);
  }

  static uint64_t Finished(const TrieStats& stats) {
    return stats.root_compactions + stats.push_compactions + stats.merge_compactions;
  }

  TempDir dir_;
  uint64_t seed_ = 0;
};

TEST_P(ShutdownTest, ClosesWhileCompacting) {
  const Options options = OptionsOf(GetParam());
  Random random(seed_);
  Writer writer(nullptr, nullptr, seed_, 0);
  for (int round = 0; round < Rounds(8); ++round) {  // of each way to close two
    SCOPED_TRACE("round " + std::to_string(round));
    auto db = Open(options, dir_ / "db", round);
    ASSERT_NE(db, nullptr);
    writer.Reopened(db.get(), db->DefaultColumnFamily());
    writer.Start();
    // Manual compaction that the shutdown cuts short.
    std::atomic<bool> stop{false};
    std::thread compacting([&] {
      while (!stop) {
        const Status status = CompactAll(db.get(), db->DefaultColumnFamily(), trie());
        if (!status.ok() && !status.IsShutdownInProgress() && !status.IsIncomplete()) {
          ADD_FAILURE() << status.ToString();
        }
        if (!status.ok()) return;
      }
    });
    for (int i = 0; i < 4; ++i) {
      Nap(random.Uniform(15));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    }
    writer.Stop();
    ASSERT_OK(writer.last());
    switch (round / 2 % 4) {
      case 0:  // delete alone
        stop = true;
        compacting.join();
        break;
      case 1:
        rocksdb::CancelAllBackgroundWork(db.get(), true);
        stop = true;
        compacting.join();
        break;
      case 2:
        rocksdb::CancelAllBackgroundWork(db.get(), false);
        stop = true;
        compacting.join();
        EXPECT_OK(db->Close());
        break;
      default:
        stop = true;
        compacting.join();
        EXPECT_OK(db->Close());
        break;
    }
    db.reset();
  }
  auto db = Open(options, dir_ / "db");
  writer.Reopened(db.get(), db->DefaultColumnFamily());
  writer.Check();
  EXPECT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), trie()));
  writer.Check();
}

TEST_P(ShutdownTest, ClosesAtOnceAfterOpen) {
  const Options options = OptionsOf(GetParam());
  Writer writer(nullptr, nullptr, seed_, 0);
  for (int round = 0; round < 20; ++round) {
    auto db = Open(options, dir_ / "db", round);
    ASSERT_NE(db, nullptr);
    writer.Reopened(db.get(), db->DefaultColumnFamily());
    for (int i = 0; i < 200; ++i) ASSERT_OK(writer.WriteOne());
    if (round % 3 != 0) ASSERT_OK(BeginFlush(db.get()));
    if (round % 5 == 0) ASSERT_OK(db->Close());
    db.reset();
  }
  auto db = Open(options, dir_ / "db");
  writer.Reopened(db.get(), db->DefaultColumnFamily());
  writer.Check();
}

TEST_P(ShutdownTest, Pauses) {
  const Options options = OptionsOf(GetParam());
  auto db = Open(options, dir_ / "db");
  Writer writer(db.get(), db->DefaultColumnFamily(), seed_, 0);
  for (int round = 0; round < Rounds(3); ++round) {
    for (int i = 0; i < 3000; ++i) ASSERT_OK(writer.WriteOne());
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(db->PauseBackgroundWork());
    if (trie()) {
      TrieStats before, after;
      ASSERT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &before));
      EXPECT_EQ(before.running_compactions, 0u);
      const Status status = CompactTrie(db.get(), db->DefaultColumnFamily());
      EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
      Nap(50);
      ASSERT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &after));
      EXPECT_EQ(Finished(before), Finished(after));
    }
    ASSERT_OK(db->ContinueBackgroundWork());
    if (trie()) ASSERT_OK(WaitForTrieCompaction(db.get()));
    ASSERT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), trie()));
  }
  writer.Check();
  // Closing while paused must not hang.
  ASSERT_OK(db->PauseBackgroundWork());
  ASSERT_OK(db->Close());
}

TEST_P(ShutdownTest, DisablesManualCompaction) {
  auto db = Open(OptionsOf(GetParam()), dir_ / "db");
  Writer writer(db.get(), db->DefaultColumnFamily(), seed_, 0);
  db->DisableManualCompaction();
  for (int i = 0; i < 3000; ++i) ASSERT_OK(writer.WriteOne());
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  const Status status = CompactAll(db.get(), db->DefaultColumnFamily(), trie());
  EXPECT_TRUE(status.IsIncomplete()) << status.ToString();
  db->EnableManualCompaction();
  ASSERT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), trie()));
  writer.Check();
}

TEST_P(ShutdownTest, TwoDatabasesShareOptionsAndEnv) {
  const Options options = OptionsOf(GetParam());
  auto stays = Open(options, dir_ / "stays");
  Writer staying(stays.get(), stays->DefaultColumnFamily(), seed_, 0);
  staying.Start();
  Writer leaving(nullptr, nullptr, seed_, 1);
  for (int round = 0; round < Rounds(4); ++round) {
    auto leaves = Open(options, dir_ / "leaves", round);
    ASSERT_NE(leaves, nullptr);
    leaving.Reopened(leaves.get(), leaves->DefaultColumnFamily());
    leaving.Start();
    Nap(20);
    ASSERT_OK(leaves->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(stays->Flush(rocksdb::FlushOptions()));
    leaving.Stop();
    leaves.reset();
  }
  staying.Stop();
  ASSERT_OK(staying.last());
  staying.Check();
  auto leaves = Open(options, dir_ / "leaves");
  leaving.Reopened(leaves.get(), leaves->DefaultColumnFamily());
  leaving.Check();
  ASSERT_OK(CompactAll(stays.get(), stays->DefaultColumnFamily(), trie()));
  ASSERT_OK(CompactAll(leaves.get(), leaves->DefaultColumnFamily(), trie()));
  staying.Check();
  leaving.Check();
}

TEST_P(ShutdownTest, DropsAFamilyMidCompaction) {
  const Options options = OptionsOf(GetParam());
  auto db = Open(options, dir_ / "db");
  Writer survivor(db.get(), db->DefaultColumnFamily(), seed_, 0);
  survivor.Start();
  Random random(seed_);
  for (int round = 0; round < Rounds(6); ++round) {
    ColumnFamilyHandle* dropped = nullptr;
    ASSERT_OK(db->CreateColumnFamily(options, "dropped", &dropped));
    {
      Writer writer(db.get(), dropped, seed_, 1 + round);
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 500; ++j) ASSERT_OK(writer.WriteOne());
        ASSERT_OK(db->Flush(rocksdb::FlushOptions(), dropped));
      }
      std::thread compacting([&] {
        // OK, or an error that the family is gone; never a crash and never a background error.
        CompactAll(db.get(), dropped, trie()).PermitUncheckedError();
      });
      Nap(random.Uniform(4));
      ASSERT_OK(db->DropColumnFamily(dropped));
      compacting.join();
      writer.Check();  // Its handle still reads.
    }
    ASSERT_OK(db->DestroyColumnFamilyHandle(dropped));
  }
  survivor.Stop();
  ASSERT_OK(survivor.last());
  survivor.Check();
  ASSERT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), trie()));
  survivor.Check();
  uint64_t errors = 0;
  EXPECT_TRUE(db->GetIntProperty("rocksdb.background-errors", &errors));
  EXPECT_EQ(errors, 0u);
}

// With atomic_flush what is lost without a WAL is lost in all column families: a manual compaction of one flushes all.
TEST_P(ShutdownTest, CompactsOneFamilyAndTearsNoBatch) {
  Options options = OptionsOf(GetParam());
  options.atomic_flush = true;
  options.avoid_flush_during_shutdown = true;
  options.write_buffer_size = 16 << 20;
  const std::string path = dir_ / "db";
  const auto key = [](int i) { return "key" + std::to_string(i); };
  {
    auto db = Open(options, path);
    ASSERT_NE(db, nullptr);
    ColumnFamilyHandle* other = nullptr;
    const Status created = db->CreateColumnFamily(options, "other", &other);
    ASSERT_OK(created);
    rocksdb::WriteOptions without_log;
    without_log.disableWAL = true;
    for (int i = 0; i < 300; ++i) {
      rocksdb::WriteBatch batch;
      ASSERT_OK(batch.Put(key(i), "in both"));
      ASSERT_OK(batch.Put(other, key(i), "in both"));
      ASSERT_OK(db->Write(without_log, &batch));
      if (i == 200) ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    }
    ASSERT_OK(db->DestroyColumnFamilyHandle(other));
  }
  std::unique_ptr<rocksdb::DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  ASSERT_OK(rocksdb::DB::Open(options, path, {{rocksdb::kDefaultColumnFamilyName, options}, {"other", options}},
                              &handles, port::Into(&db)));
  int kept = 0;
  for (int i = 0; i < 300; ++i) {
    std::string value;
    const bool here = db->Get(rocksdb::ReadOptions(), handles[0], key(i), &value).ok();
    const bool there = db->Get(rocksdb::ReadOptions(), handles[1], key(i), &value).ok();
    ASSERT_EQ(here, there) << i;
    kept += here;
  }
  EXPECT_GE(kept, 201);
  for (ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
}

// Everything that a program may call at once, for the sanitizers to watch.
TEST_P(ShutdownTest, AllAtOnce) {
  const Options options = OptionsOf(GetParam());
  auto db = Open(options, dir_ / "db");
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < 2; ++i) {
    writers.push_back(std::make_unique<Writer>(db.get(), db->DefaultColumnFamily(), seed_, i));
    writers.back()->Start();
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    Random random(seed_ + 10);
    while (!stop) {
      const rocksdb::Snapshot* snapshot = db->GetSnapshot();
      ReadOptions read;
      read.snapshot = snapshot;
      std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(read));
      int forward = 0, backward = 0;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++forward;
      for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) ++backward;
      EXPECT_OK(iterator->status());
      EXPECT_EQ(forward, backward);
      iterator.reset();
      db->ReleaseSnapshot(snapshot);
    }
  });
  threads.emplace_back([&] {
    Random random(seed_ + 11);
    while (!stop) {
      std::string text;
      db->GetProperty("rocksdb.stats", &text);
      if (trie()) {
        TrieStats stats;
        EXPECT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &stats));
        EXPECT_TRUE(db->GetProperty("cairn.stats", &text));
        const Status status = WaitForTrieCompaction(db.get(), 1000);
        // Incomplete: another thread has paused compaction.
        EXPECT_TRUE(status.ok() || status.IsTimedOut() || status.IsIncomplete()) << status.ToString();
      }
      EXPECT_OK(db->SetOptions({{"write_buffer_size", std::to_string(65536 + random.Uniform(3) * 4096)}}));
      Nap(2);
    }
  });
  threads.emplace_back([&] {
    Random random(seed_ + 12);
    while (!stop) {
      EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
      if (random.OneIn(3)) {
        TrieCompactOptions compact;
        Status status;
        if (trie() && db->DefaultColumnFamily()->GetComparator() != rocksdb::BytewiseComparator()) {
          EXPECT_OK(
              TrieContainerOf(db->DefaultColumnFamily(), std::to_string(random.Uniform(100)), 1, &compact.container));
          status = CompactTrie(db.get(), db->DefaultColumnFamily(), compact);
        } else {
          status = CompactAll(db.get(), db->DefaultColumnFamily(), false);
        }
        EXPECT_TRUE(status.ok() || status.IsIncomplete()) << status.ToString();
      }
      if (random.OneIn(5)) {
        EXPECT_OK(db->PauseBackgroundWork());
        EXPECT_OK(db->ContinueBackgroundWork());
      }
      if (random.OneIn(5)) {
        ColumnFamilyHandle* family = nullptr;
        EXPECT_OK(db->CreateColumnFamily(options, "fleeting", &family));
        EXPECT_OK(db->Put(WriteOptions(), family, "k", "v"));
        EXPECT_OK(db->Flush(rocksdb::FlushOptions(), family));
        EXPECT_OK(db->DropColumnFamily(family));
        EXPECT_OK(db->DestroyColumnFamilyHandle(family));
      }
    }
  });
  Nap(Rounds(600));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& writer : writers) {
    writer->Stop();
    EXPECT_OK(writer->last());
    writer->Check();
  }
}

// ---- Errors of the file system

enum class Fault { kNone, kRetryable, kNoSpace, kFatal };

// Fails appends to files whose name contains `part`, while a fault is set.
class FaultyFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(const std::shared_ptr<rocksdb::FileSystem>& target) : FileSystemWrapper(target) {}
  const char* Name() const override { return "FaultyFileSystem"; }

  void Break(Fault fault, const std::string& part) {
    std::lock_guard<std::mutex> lock(mutex_);
    fault_ = fault;
    part_ = part;
    held_ = false;
    released_.notify_all();
  }
  // Appends wait until the next Break or Heal.
  void Hold(const std::string& part) {
    std::lock_guard<std::mutex> lock(mutex_);
    part_ = part;
    held_ = true;
  }
  void Heal() { Break(Fault::kNone, ""); }
  uint64_t failures() const { return failures_; }

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    const IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, context);
    if (status.ok()) *result = std::make_unique<File>(std::move(*result), name, this);
    return status;
  }

  // Free space is what a recovery from NoSpace looks at.
  IOStatus GetFreeSpace(const std::string& path, const IOOptions& options, uint64_t* free,
                        IODebugContext* context) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fault_ != Fault::kNoSpace) return FileSystemWrapper::GetFreeSpace(path, options, free, context);
    *free = 0;
    return IOStatus::OK();
  }

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& target, std::string name, FaultyFileSystem* system)
        : FSWritableFileOwnerWrapper(std::move(target)), name_(std::move(name)), system_(system) {}
    IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
      const IOStatus fault = system_->FaultFor(name_);
      return fault.ok() ? FSWritableFileOwnerWrapper::Append(data, options, context) : fault;
    }
    IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& verification,
                    IODebugContext* context) override {
      const IOStatus fault = system_->FaultFor(name_);
      return fault.ok() ? FSWritableFileOwnerWrapper::Append(data, options, verification, context) : fault;
    }

   private:
    const std::string name_;
    FaultyFileSystem* const system_;
  };

  IOStatus FaultFor(const std::string& name) {
    std::unique_lock<std::mutex> lock(mutex_);
    released_.wait(lock, [&] { return !held_ || name.find(part_) == std::string::npos; });
    if (fault_ == Fault::kNone || name.find(part_) == std::string::npos) return IOStatus::OK();
    ++failures_;
    IOStatus status =
        fault_ == Fault::kNoSpace ? IOStatus::NoSpace("injected", name) : IOStatus::IOError("injected", name);
    status.SetRetryable(fault_ == Fault::kRetryable);
    return status;
  }

  std::mutex mutex_;
  std::condition_variable released_;
  bool held_ = false;
  Fault fault_ = Fault::kNone;
  std::string part_;
  std::atomic<uint64_t> failures_{0};
};

bool HasPartsOfCairn(const Options& options) {
  return std::string(options.memtable_factory->Name()).find("cairn.") == 0 ||
         std::string(options.table_factory->Name()).find("cairn.") == 0 ||
         std::string(options.comparator->Name()).find("cairn.") == 0;
}

class ErrorListener : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason, Status*) override { ++errors; }
  std::atomic<uint64_t> errors{0};
};

class FaultTest : public ShutdownTest {
 protected:
  void SetUp() override {
    ShutdownTest::SetUp();
    file_system_ = std::make_shared<FaultyFileSystem>(rocksdb::FileSystem::Default());
    env_ = test::NewImpatientEnv(file_system_);
    options_ = OptionsOf(GetParam());
    options_.env = env_.get();
    options_.bgerror_resume_retry_interval = 20000;
    options_.sst_file_manager = test::NewImpatientSstFileManager(env_.get());
    listener_ = std::make_shared<ErrorListener>();
    options_.listeners.push_back(listener_);
    db_ = Open(options_, dir_ / "db");
    ASSERT_NE(db_, nullptr);
    writer_ = std::make_unique<Writer>(db_.get(), db_->DefaultColumnFamily(), seed_, 0);
    for (int i = 0; i < 2000; ++i) ASSERT_OK(writer_->WriteOne());
    ASSERT_OK(Flush());
  }

  // What has recovered from a full disk tells its listeners beside a close, and then locks what is gone (a fault of
  // RocksDB's).
  void EndRecovery() { static_cast<rocksdb::SstFileManagerImpl*>(options_.sst_file_manager.get())->Close(); }

  void TearDown() override { EndRecovery(); }

  void Reopen() {
    if (db_ != nullptr) EndRecovery();
    db_.reset();
    options_.sst_file_manager = test::NewImpatientSstFileManager(env_.get());
    db_ = Open(options_, dir_ / "db");
    ASSERT_NE(db_, nullptr);
    writer_->Reopened(db_.get(), db_->DefaultColumnFamily());
  }

  // Errors reach the listener a moment after the write that failed.
  void ExpectABackgroundError() {
    EXPECT_TRUE(Await([&] { return listener_->errors > 0; })) << "no background error";
  }

  // Writes under the fault until it is felt.
  void FeelTheFault() {
    const auto felt = [&, before = file_system_->failures()] {
      for (int i = 0; i < 100 && writer_->WriteOne(true).ok(); ++i) {
      }
      BeginFlush(db_.get()).PermitUncheckedError();
      return file_system_->failures() > before;
    };
    EXPECT_TRUE(Await(felt)) << "no write met the fault";
  }

  // After a failed compaction RocksDB may not start the next one before a flush, which by default would wait for it.
  Status Flush() {
    rocksdb::FlushOptions options;
    options.allow_write_stall = true;
    return db_->Flush(options);
  }

  // After healing: the database recovers by itself or by Resume.
  void Recover() {
    Status status;
    ASSERT_TRUE(Await([&] {
      status = db_->Resume();
      if (status.ok()) status = writer_->WriteOne();
      if (status.ok()) status = Flush();
      return status.ok();
    })) << status.ToString();
  }

  void CheckWorks() {
    writer_->Check();
    for (int i = 0; i < 2000; ++i) ASSERT_OK(writer_->WriteOne());
    ASSERT_OK(Flush());
    if (trie()) ASSERT_OK(WaitForTrieCompaction(db_.get()));
    ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), trie()));
    writer_->Check();
    Reopen();
    writer_->Check();
  }

  std::shared_ptr<FaultyFileSystem> file_system_;
  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<ErrorListener> listener_;
  Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::unique_ptr<Writer> writer_;
};

TEST_P(FaultTest, RetryableErrorsOfTables) {
  file_system_->Break(Fault::kRetryable, ".sst");
  FeelTheFault();
  file_system_->Heal();
  Recover();
  CheckWorks();
}

TEST_P(FaultTest, FullDisk) {
  file_system_->Break(Fault::kNoSpace, ".sst");
  FeelTheFault();
  ExpectABackgroundError();
  file_system_->Heal();
  Recover();
  CheckWorks();
}

// RocksDB's recovery queues behind the writer, which waits for the recovery.
TEST_P(FaultTest, FullDiskWhileAWriterWaits) {
  if (!HasPartsOfCairn(options_)) GTEST_SKIP() << "RocksDB's own database";
  file_system_->Hold(".sst");
  std::atomic<uint64_t> written{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) written += writer_->WriteOne().ok() ? 1 : 0;
  });
  uint64_t stopped = 0;
  EXPECT_TRUE(Await([&] {
    return db_->GetIntProperty(rocksdb::DB::Properties::kIsWriteStopped, &stopped) && stopped == 1;
  })) << "writes were never stopped";
  Nap(50);  // It waits, most likely; where it does not, nothing is tested.
  file_system_->Break(Fault::kNoSpace, ".sst");
  ExpectABackgroundError();
  file_system_->Heal();
  const uint64_t before = written;
  const bool goes_on = Await([&] { return written > before + 100; });
  EXPECT_TRUE(goes_on) << "the writer still waits a minute after there is room";
  stop = true;
  if (!goes_on) rocksdb::CancelAllBackgroundWork(db_.get(), false);  // which ends its wait
  thread.join();
  if (!goes_on) return;
  Recover();
  CheckWorks();
}

TEST_P(FaultTest, ErrorsOfTheManifest) {
  file_system_->Break(Fault::kRetryable, "MANIFEST");
  FeelTheFault();
  ExpectABackgroundError();
  file_system_->Heal();
  Recover();
  CheckWorks();
}

TEST_P(FaultTest, FatalErrorsNeedAReopen) {
  file_system_->Break(Fault::kFatal, ".sst");
  FeelTheFault();
  ExpectABackgroundError();
  file_system_->Heal();
  Reopen();
  CheckWorks();
}

// Only compactions fail: a manual one says so, and goes through when the fault is mended.
TEST_P(FaultTest, FailedCompactions) {
  for (const Fault fault : {Fault::kRetryable, Fault::kNoSpace}) {
    Status status;
    // An automatic compaction may have left nothing to do before the fault set in.
    for (int i = 0; i < 50 && status.ok(); ++i) {
      for (int j = 0; j < 300; ++j) ASSERT_OK(writer_->WriteOne());
      ASSERT_OK(Flush());
      file_system_->Break(fault, ".sst");
      status = CompactAll(db_.get(), db_->DefaultColumnFamily(), trie());
      if (status.ok()) file_system_->Heal();
    }
    // A background compaction that met the full disk first keeps RocksDB from starting another.
    const bool refused = fault == Fault::kNoSpace && status.IsCompactionTooLarge();
    if (!refused) {
      EXPECT_TRUE(status.IsIOError()) << status.ToString();
      EXPECT_NE(status.ToString().find("injected"), std::string::npos) << status.ToString();
    }
    if (trie()) {
      TrieStats stats;
      ASSERT_OK(GetTrieStats(db_.get(), db_->DefaultColumnFamily(), &stats));
      EXPECT_GT(stats.failed_compactions, 0u);
      const bool last_was_refused = fault == Fault::kNoSpace && stats.last_error.find("too large") != std::string::npos;
      EXPECT_TRUE(last_was_refused || stats.last_error.find("injected") != std::string::npos) << stats.last_error;
    }
    file_system_->Heal();
    Recover();
    writer_->Check();
  }
  CheckWorks();
}

// A close must not wait for a disk that stays full.
TEST_P(FaultTest, ClosesUnderTheFault) {
  file_system_->Break(Fault::kNoSpace, ".sst");
  FeelTheFault();
  db_->Close().PermitUncheckedError();
  db_.reset();
  file_system_->Heal();
  Reopen();
  CheckWorks();
}

INSTANTIATE_TEST_SUITE_P(Engines, ShutdownTest, ::testing::ValuesIn(Engines()), EngineName);
INSTANTIATE_TEST_SUITE_P(Engines, FaultTest, ::testing::ValuesIn(Engines()), EngineName);

}  // namespace
}  // namespace cairn::test
