// Writes that do not queue, under a database: what of them a snapshot sees, and what else takes RocksDB's path.
//
//   CAIRN_FAST_WRITES=2000000 build/test/fast_writes_test --gtest_filter='*Prefix*'     so many batches per writer

#include "memtable_cache/fast_writes.h"

#include <map>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "db/cairn_db.h"
#include "db/write_batch_internal.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/transaction_log.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/copy_database.h"

namespace cairn {
namespace {

using rocksdb::WriteBatchInternal;

rocksdb::WriteOptions WithoutWal() {
  WriteOptions options;
  options.disableWAL = true;
  return options;
}

enum class Logs { kNone, kPool, kWal };

Options FastOptions(Logs logs) {
  Options options = test::BaseOptions();
  SubMemTableOptions sub;
  sub.queueless_writes = true;
  sub.durable = logs == Logs::kPool;
  options.memtable_factory = NewSubMemTableFactory(sub);
  EXPECT_OK(
      rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator));
  return options;
}

// A database of two column families.
class FastDb {
 public:
  explicit FastDb(const Options& options, const std::string& path = "") {
    std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, options},
                                                             {"second", options}};
    rocksdb::DBOptions with = options;
    with.create_missing_column_families = true;
    rocksdb::DB* db = nullptr;
    EXPECT_OK(rocksdb::DB::Open(with, path.empty() ? dir_ / "db" : path, families, &handles_, port::Into(&db)));
    db_.reset(db);
  }
  ~FastDb() {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
    EXPECT_OK(db_->Close());
  }
  FastDb(const FastDb&) = delete;
  FastDb& operator=(const FastDb&) = delete;

  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }
  ColumnFamilyHandle* family(size_t i) const { return handles_[i]; }
  FastWrites* fast() const { return CairnDB::Of(db_.get())->services()->fast_writes(); }
  std::string Read(const std::string& key, size_t family = 0, const rocksdb::Snapshot* snapshot = nullptr) const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    std::string value;
    const Status s = db_->Get(options, handles_[family], key, &value);
    return s.ok() ? value : s.ToString();
  }
  std::string File(const std::string& name) const { return dir_ / name; }

 private:
  test::TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

class FastWritesTest : public ::testing::TestWithParam<Logs> {
 protected:
  static WriteOptions Usual() { return GetParam() == Logs::kWal ? WriteOptions() : WithoutWal(); }
};
INSTANTIATE_TEST_SUITE_P(Logs, FastWritesTest, ::testing::Values(Logs::kNone, Logs::kPool, Logs::kWal),
                         [](const auto& test) {
                           return test.param == Logs::kNone ? "None" : test.param == Logs::kPool ? "Pool" : "Wal";
                         });

// ---- which writes ----

TEST_P(FastWritesTest, TakesOrdinaryWrites) {
  FastDb db(FastOptions(GetParam()));
  ASSERT_NE(db.fast(), nullptr);
  ASSERT_OK(db->Put(Usual(), "a", "1"));
  ASSERT_OK(db->Put(Usual(), db.family(1), "a", "2"));
  WriteBatch batch;
  ASSERT_OK(batch.Put(db.family(1), "b", "3"));
  ASSERT_OK(batch.Delete("a"));
  ASSERT_OK(batch.Put("c", "4"));
  ASSERT_OK(batch.SingleDelete(db.family(1), "a"));
  ASSERT_OK(db->Write(Usual(), &batch));
  EXPECT_EQ(db->GetLatestSequenceNumber(), WriteBatchInternal::Sequence(&batch) + 3);
  EXPECT_EQ(db.Read("a"), "NotFound: ");
  EXPECT_EQ(db.Read("a", 1), "NotFound: ");
  EXPECT_EQ(db.Read("b", 1), "3");
  EXPECT_EQ(db.Read("c"), "4");
  EXPECT_EQ(db.fast()->counts().writes, 3u);
  EXPECT_EQ(db.fast()->counts().keys, 6u);
  // Writers count for themselves, and RocksDB hears of it before it tells, logs or forgets.
  static_cast<rocksdb::DBImpl*>(db.get())->DumpStats();
  db->GetDBOptions().info_log->Flush();
  std::string stats;
  ASSERT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), db->GetName() + "/LOG", &stats));
  EXPECT_NE(stats.find("Cumulative writes: 3 writes, 6 keys"), std::string::npos);
  ASSERT_TRUE(db->GetProperty("cairn.stats", &stats));
  EXPECT_NE(stats.find("writes: 3 without a queue"), std::string::npos) << stats;
  ASSERT_OK(db->Flush({}, {db.family(0), db.family(1)}));
  ASSERT_OK(db->Put(Usual(), "a", "5"));
  EXPECT_EQ(db.Read("a"), "5");
  EXPECT_EQ(db.fast()->counts().writes, 4u);
  ASSERT_TRUE(db->GetProperty("rocksdb.dbstats", &stats));
  EXPECT_NE(stats.find("Cumulative writes: 4 writes, 7 keys"), std::string::npos) << stats;
  ASSERT_OK(db->Put(Usual(), "a", "6"));
  ASSERT_OK(db->ResetStats());
  ASSERT_TRUE(db->GetProperty("rocksdb.dbstats", &stats));
  EXPECT_NE(stats.find("Cumulative writes: 0 writes, 0 keys"), std::string::npos) << stats;
}

// Put, Delete and SingleDelete make no batch; nobody can tell.
TEST_P(FastWritesTest, CountOneEntryAsABatchOfIt) {
  Options options = FastOptions(GetParam());
  options.statistics = rocksdb::CreateDBStatistics();
  FastDb db(options);
  ASSERT_OK(db->Put(Usual(), "first", "opens the gate"));
  const auto cost = [&](const auto& write) {
    EXPECT_OK(options.statistics->Reset());
    const uint64_t number = db->GetLatestSequenceNumber();
    const uint64_t fast = db.fast()->counts().writes;
    const uint64_t bytes = db.fast()->counts().bytes;
    EXPECT_OK(write());
    EXPECT_EQ(db->GetLatestSequenceNumber(), number + 1);
    EXPECT_EQ(db.fast()->counts().writes, fast + 1);
    EXPECT_EQ(db.fast()->counts().bytes, bytes + options.statistics->getTickerCount(rocksdb::BYTES_WRITTEN));
    rocksdb::HistogramData in_all;
    options.statistics->histogramData(rocksdb::DB_WRITE, &in_all);
    return std::vector<uint64_t>{options.statistics->getTickerCount(rocksdb::NUMBER_KEYS_WRITTEN),
                                 options.statistics->getTickerCount(rocksdb::BYTES_WRITTEN),
                                 options.statistics->getTickerCount(rocksdb::WRITE_DONE_BY_SELF), in_all.count};
  };
  for (const size_t family : {0, 1}) {
    ColumnFamilyHandle* const handle = db.family(family);
    const std::string value(300, 'v');
    WriteBatch put, merge, remove, remove_one;
    ASSERT_OK(put.Put(handle, "key", value));
    ASSERT_OK(merge.Merge(handle, "other", value));
    ASSERT_OK(remove.Delete(handle, "key"));
    ASSERT_OK(remove_one.SingleDelete(handle, "key"));
    const std::vector<uint64_t> by_batch = cost([&] { return db->Write(Usual(), &put); });
    EXPECT_EQ(db.Read("key", family), value);
    EXPECT_EQ(cost([&] { return db->Delete(Usual(), handle, "key"); }),
              cost([&] { return db->Write(Usual(), &remove); }));
    EXPECT_EQ(db.Read("key", family), "NotFound: ");
    EXPECT_EQ(cost([&] { return db->Put(Usual(), handle, "key", value); }), by_batch);
    EXPECT_EQ(db.Read("key", family), value);
    EXPECT_EQ(cost([&] { return db->Merge(Usual(), handle, "other", value); }),
              cost([&] { return db->Write(Usual(), &merge); }));
    ASSERT_OK(db->Put(Usual(), handle, "key", value));
    EXPECT_EQ(cost([&] { return db->SingleDelete(Usual(), handle, "key"); }),
              cost([&] { return db->Write(Usual(), &remove_one); }));
    EXPECT_EQ(db.Read("key", family), "NotFound: ");
  }
}

TEST_P(FastWritesTest, RefuseNoFamily) {
  FastDb db(FastOptions(GetParam()));
  ASSERT_OK(db->Put(Usual(), "a", "1"));
  EXPECT_TRUE(db->Put(Usual(), nullptr, "a", "2").IsInvalidArgument());
  EXPECT_TRUE(db->Delete(Usual(), nullptr, "a").IsInvalidArgument());
  EXPECT_EQ(db.Read("a"), "1");
}

// Takes every error back.
class Forgiving : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason, Status* error) override { *error = Status::OK(); }
};

TEST_P(FastWritesTest, GoOnAfterABatchThatCouldNotBeInserted) {
  Options options = FastOptions(GetParam());
  options.listeners.push_back(std::make_shared<Forgiving>());
  FastDb db(options);
  ASSERT_OK(db->Put(Usual(), "a", "1"));
  WriteBatch batch;
  ASSERT_OK(WriteBatchInternal::Put(&batch, 77, "a", "2"));
  EXPECT_TRUE(db->Write(Usual(), &batch).IsInvalidArgument());
  if (GetParam() == Logs::kPool) return;  // the pool asks for a new opening
  for (int i = 0; i < 3; ++i) ASSERT_OK(db->Put(Usual(), "a", "3"));
  EXPECT_EQ(db.Read("a"), "3");
}

class Callback : public rocksdb::UserWriteCallback {
 public:
  void OnWriteEnqueued() override { ++calls; }
  void OnWalWriteFinish() override {}
  int calls = 0;
};

TEST_P(FastWritesTest, QueuesWhatIsUnusual) {
  FastDb db(FastOptions(GetParam()));
  std::map<FastWrites::Reason, uint64_t> expected;
  const auto queued = [&](FastWrites::Reason reason) {
    ++expected[reason];
    for (const auto& [each, count] : expected) EXPECT_EQ(db.fast()->counts().others[each], count) << each;
  };
  if (GetParam() != Logs::kPool) {
    ASSERT_OK(db->DeleteRange(Usual(), db.family(0), "a", "b"));
    queued(FastWrites::kBatch);
    WriteOptions sync = Usual();
    sync.sync = true;
    EXPECT_EQ(db->Put(sync, "a", "1").ok(), GetParam() == Logs::kWal);
    queued(FastWrites::kOptions);
  }
  WriteBatch with_blob;
  ASSERT_OK(with_blob.PutLogData("nothing"));
  ASSERT_OK(with_blob.Put("n", "1"));
  ASSERT_OK(db->Write(Usual(), &with_blob));
  queued(FastWrites::kBatch);
  WriteBatch empty;
  ASSERT_OK(db->Write(Usual(), &empty));
  queued(FastWrites::kBatch);
  WriteBatch with_checksums(0, 0, /*protection_bytes_per_key=*/8, 0);
  ASSERT_OK(with_checksums.Put("p", "2"));
  ASSERT_OK(db->Write(Usual(), &with_checksums));
  queued(FastWrites::kBatch);
  WriteOptions low = Usual();
  low.low_pri = true;
  ASSERT_OK(db->Put(low, "l", "3"));
  queued(FastWrites::kOptions);
  Callback callback;
  WriteBatch batch;
  ASSERT_OK(batch.Put("u", "4"));
  ASSERT_OK(db->WriteWithCallback(Usual(), &batch, &callback));
  queued(FastWrites::kCall);
  EXPECT_EQ(callback.calls, 1);
  EXPECT_EQ(db.fast()->counts().writes, 0u);
  ASSERT_OK(db->Put(Usual(), "m", "5"));
  EXPECT_EQ(db.fast()->counts().writes, 1u);
  for (const auto& [key, value] : std::map<std::string, std::string>{{"m", "5"}, {"p", "2"}, {"l", "3"}, {"u", "4"}}) {
    EXPECT_EQ(db.Read(key), value) << key;
  }
}

TEST(FastWritesOptionsTest, AreForDatabasesThatCan) {
  const auto fast = [](const Options& options) { return FastDb(options).fast() != nullptr; };
  EXPECT_TRUE(fast(FastOptions(Logs::kNone)));
  Options options = FastOptions(Logs::kNone);
  PreferSubMemTables(&options);
  options.memtable_factory = NewSubMemTableFactory(SubMemTableOptions());
  EXPECT_EQ(fast(options), SubMemTableOptions().queueless_writes);
  options = FastOptions(Logs::kNone);
  options.unordered_write = true;
  EXPECT_FALSE(fast(options));
  options = FastOptions(Logs::kNone);
  options.inplace_update_support = true;
  options.allow_concurrent_memtable_write = false;
  EXPECT_FALSE(fast(options));
}

TEST_P(FastWritesTest, MergeUnlessAnInsertMayRead) {
  FastDb db(FastOptions(GetParam()));
  const auto merge = [&](uint64_t fast) {
    WriteBatch batch;
    ASSERT_OK(batch.Merge(db.family(1), "m", "1"));
    ASSERT_OK(batch.Merge("m", "2"));
    ASSERT_OK(db->Write(Usual(), &batch));
    ASSERT_OK(db->Merge(Usual(), db.family(1), "m", "3"));
    EXPECT_EQ(db.fast()->counts().writes, fast);
  };
  merge(2);
  EXPECT_EQ(db.Read("m"), "2");
  EXPECT_EQ(db.Read("m", 1), "1,3");
  ASSERT_OK(db->SetOptions(db.family(1), {{"max_successive_merges", "2"}}));
  merge(2);
  EXPECT_EQ(db.Read("m"), "2,2");
  EXPECT_EQ(db.Read("m", 1), "1,3,1,3");
  EXPECT_EQ(db.fast()->counts().others[FastWrites::kBatch], 2u);
}

TEST_P(FastWritesTest, RefuseMergesWithoutAnOperator) {
  Options options = FastOptions(GetParam());
  options.merge_operator = nullptr;
  FastDb db(options);
  EXPECT_TRUE(db->Merge(Usual(), "m", "1").IsNotSupported());
  WriteBatch batch;
  ASSERT_OK(batch.Merge("m", "1"));
  EXPECT_TRUE(db->Write(Usual(), &batch).IsInvalidArgument());
  EXPECT_EQ(db.fast()->counts().others[FastWrites::kBatch], 1u);
}

TEST(FastWritesOptionsTest, EndWithAFamilyThatCannot) {
  FastDb db(FastOptions(Logs::kNone));
  ASSERT_OK(db->Put(WithoutWal(), "a", "1"));
  ColumnFamilyHandle* other = nullptr;
  ASSERT_OK(db->CreateColumnFamily(test::BaseOptions(), "other", &other));
  ASSERT_OK(db->Put(WithoutWal(), other, "a", "2"));
  ASSERT_OK(db->Put(WithoutWal(), "a", "3"));
  EXPECT_EQ(db.Read("a"), "3");
  EXPECT_EQ(db.fast()->counts().writes, 1u);
  EXPECT_EQ(db.fast()->counts().others[FastWrites::kFamilies], 2u);
  ASSERT_OK(db->DestroyColumnFamilyHandle(other));
}

// ---- what holds writers back ----

TEST_P(FastWritesTest, WaitWhileTheWalIsLocked) {
  FastDb db(FastOptions(GetParam()));
  ASSERT_OK(db->Put(Usual(), "a", "1"));
  ASSERT_OK(db->LockWAL());
  const uint64_t newest = db->GetLatestSequenceNumber();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_OK(db->Put(Usual(), "a", "2"));
    done = true;
  });
  WriteOptions impatient = Usual();
  impatient.no_slowdown = true;
  EXPECT_TRUE(db->Put(impatient, "b", "1").IsIncomplete());
  ASSERT_TRUE(Await([&] { return db.fast()->counts().others[FastWrites::kHeldBack] == 2; }));
  EXPECT_FALSE(done);
  EXPECT_EQ(db->GetLatestSequenceNumber(), newest);
  ASSERT_OK(db->UnlockWAL());
  writer.join();
  EXPECT_EQ(db.Read("a"), "2");
}

TEST_P(FastWritesTest, StopWhenABatchCannotBeInserted) {
  FastDb db(FastOptions(GetParam()));
  ASSERT_OK(db->Put(Usual(), "a", "1"));
  WriteBatch batch;
  ASSERT_OK(batch.Put("a", "2"));
  ASSERT_OK(WriteBatchInternal::Put(&batch, 77, "a", "2"));
  WriteOptions ignore = Usual();
  ignore.ignore_missing_column_families = true;
  ASSERT_OK(db->Write(ignore, &batch));
  EXPECT_EQ(db.Read("a"), "2");
  EXPECT_EQ(db->GetLatestSequenceNumber(), WriteBatchInternal::Sequence(&batch) + 1);
  EXPECT_TRUE(db->Write(Usual(), &batch).IsInvalidArgument());
  EXPECT_FALSE(db->Put(Usual(), "a", "3").ok());
  EXPECT_EQ(db.fast()->counts().others[FastWrites::kHeldBack], 1u);
}

// Appends to the WAL fail while it says so.
struct Appends {
  std::atomic<bool> fail{false};
  rocksdb::IOStatus error;
};

class FailingWal : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FailingWal(std::unique_ptr<rocksdb::FSWritableFile>&& file, Appends* appends)
      : FSWritableFileOwnerWrapper(std::move(file)), appends_(appends) {}
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* dbg) override {
    return appends_->fail ? appends_->error : target()->Append(data, options, dbg);
  }

 private:
  Appends* const appends_;
};

class FailingWals : public rocksdb::FileSystemWrapper {
 public:
  explicit FailingWals(Appends* appends) : FileSystemWrapper(rocksdb::FileSystem::Default()), appends_(appends) {}
  const char* Name() const override { return "FailingWals"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* dbg) override {
    rocksdb::IOStatus s = target()->NewWritableFile(name, options, result, dbg);
    if (s.ok() && name.find(".log") != std::string::npos)
      *result = std::make_unique<FailingWal>(std::move(*result), appends_);
    return s;
  }

 private:
  Appends* const appends_;
};

// With `stops` the database stops until it is told to resume.
void FailToLog(const rocksdb::IOStatus& error, bool stops) {
  Appends appends;
  appends.error = error;
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(std::make_shared<FailingWals>(&appends));
  Options options = FastOptions(Logs::kWal);
  options.env = env.get();
  FastDb db(options);
  ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
  appends.fail = true;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { EXPECT_FALSE(db->Put(WriteOptions(), i % 2 == 0 ? "a" : "b", "2").ok()); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(db.Read("a"), "1");
  EXPECT_EQ(db.Read("b"), "NotFound: ");
  EXPECT_FALSE(db->Put(WriteOptions(), "a", "3").ok());
  appends.fail = false;
  if (stops) {
    ASSERT_TRUE(Await([&] { return db->Resume().ok(); }));
  }
  const uint64_t writes = db.fast()->counts().writes;
  ASSERT_OK(db->Put(WriteOptions(), "a", "4"));
  EXPECT_EQ(db.Read("a"), "4");
  EXPECT_EQ(db.fast()->counts().writes, writes + 1);
}

TEST(FastWritesWalTest, StopWhenTheWalCannotBeWritten) {
  rocksdb::IOStatus error = rocksdb::IOStatus::IOError("not now");
  error.SetRetryable(true);
  FailToLog(error, true);
}

TEST(FastWritesWalTest, GoOnWhereRocksDbDoes) { FailToLog(rocksdb::IOStatus::Busy("not now"), false); }

// Whoever follows the WAL gets no batch before it can be read.
TEST(FastWritesWalTest, TellOfUpdatesThatAreVisible) {
  constexpr int kWrites = 20000;
  Options options = FastOptions(Logs::kWal);
  options.write_buffer_size = 64 << 20;
  FastDb db(options);
  ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
  std::atomic<int> writing{4};
  std::vector<std::thread> threads;
  for (int w = 0; w < 4; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kWrites / 4; ++i) EXPECT_OK(db->Put(WriteOptions(), std::to_string(w), "value"));
      --writing;
    });
  }
  uint64_t next = 1;
  while (next < kWrites + 2) {
    std::unique_ptr<rocksdb::TransactionLogIterator> updates;
    if (db->GetLatestSequenceNumber() < next) continue;
    if (!db->GetUpdatesSince(next, &updates).ok()) continue;
    for (; updates->Valid(); updates->Next()) {
      const rocksdb::BatchResult result = updates->GetBatch();
      EXPECT_LE(result.sequence, next);
      next = result.sequence + result.writeBatchPtr->Count();
      ASSERT_LE(next - 1, db->GetLatestSequenceNumber());
    }
  }
  for (auto& thread : threads) thread.join();
}

// The writer of another's record may see that published, and another WAL begun, long before the other goes on.
TEST(FastWritesWalTest, TellWhichWalHasThem) {
  constexpr size_t kWriters = 8;
  Options options = FastOptions(Logs::kWal);
  options.WAL_ttl_seconds = 3600;
  FastDb db(options);
  ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
  struct Told {
    uint64_t wal, number;
  };
  std::array<std::vector<Told>, kWriters> told;
  std::atomic<size_t> writing{kWriters};
  std::vector<std::thread> threads;
  for (size_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < 10000; ++i) {
        WriteBatch batch;
        EXPECT_OK(batch.Put("a", "2"));
        Told now{};
        Status s;
        if (!db.fast()->Write(FastWrites::kNone, WriteOptions(), &batch, &now.wal, &now.number, &s)) {
          s = db->Write(WriteOptions(), &batch);  // opens the gate again
        } else {
          told[w].push_back(now);
        }
        EXPECT_OK(s);
      }
      --writing;
    });
  }
  while (writing > 0) EXPECT_OK(db->Flush({}, db.family(0)));
  for (auto& thread : threads) thread.join();
  rocksdb::VectorLogPtr wals;
  ASSERT_OK(db->GetSortedWalFiles(wals));
  std::map<uint64_t, uint64_t> wal_from;  // by its first number
  for (const auto& wal : wals) {
    if (wal->StartSequence() > 0) wal_from[wal->StartSequence()] = wal->LogNumber();
  }
  for (const auto& writer : told) {
    for (const Told& each : writer) EXPECT_EQ(each.wal, std::prev(wal_from.upper_bound(each.number))->second);
  }
}

// Writers with and without a WAL take turns. What was logged is there after a crash, with the numbers that it had.
TEST(FastWritesWalTest, RecoverWhatWasLogged) {
  const uint64_t seed = test::SeedFromEnvironment();
  constexpr int kWriters = 4;
  constexpr int kWrites = 2000;
  Options options = FastOptions(Logs::kWal);
  options.write_buffer_size = 16 << 20;
  FastDb db(options);
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      test::Random random(seed + static_cast<uint64_t>(w));
      for (int i = 1; i <= kWrites; ++i) {
        const bool without = random.OneIn(7);
        const std::string key = without ? "unlogged" : std::to_string(w);
        if (random.OneIn(2)) {
          EXPECT_OK(db->Put(without ? WithoutWal() : WriteOptions(), db.family(i % 2), key, std::to_string(i)));
          continue;
        }
        WriteBatch batch;
        EXPECT_OK(batch.Delete(db.family(0), key));
        EXPECT_OK(batch.Put(db.family(i % 2), key, std::to_string(i)));
        EXPECT_OK(db->Write(without ? WithoutWal() : WriteOptions(), &batch));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(db.fast()->counts().writes, uint64_t{kWriters} * kWrites);
  uint64_t wals = 0;
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_OK(db->GetUpdatesSince(1, &updates));
  uint64_t next = 1;
  for (; updates->Valid(); updates->Next(), ++wals) {
    const rocksdb::BatchResult result = updates->GetBatch();
    EXPECT_GE(result.sequence, next);
    next = result.sequence + result.writeBatchPtr->Count();
  }
  EXPECT_GT(wals, 0u);
  std::array<std::array<std::string, kWriters>, 2> before;
  for (size_t f = 0; f < 2; ++f) {
    for (int w = 0; w < kWriters; ++w) before[f][w] = db.Read(std::to_string(w), f);
  }
  const test::TempDir copies;
  test::CopyDatabase(db.get(), copies / "copy");
  const FastDb copy(options, copies / "copy");
  for (size_t f = 0; f < 2; ++f) {
    for (int w = 0; w < kWriters; ++w) EXPECT_EQ(copy.Read(std::to_string(w), f), before[f][w]);
    EXPECT_EQ(copy.Read("unlogged", f), "NotFound: ");
  }
}

TEST_P(FastWritesTest, SwitchMemtablesThatAreFull) {
  Options options = FastOptions(GetParam());
  options.write_buffer_size = 256 << 10;
  FastDb db(options);
  const std::string value(1000, 'v');
  for (int i = 0; i < 3000; ++i) ASSERT_OK(db->Put(Usual(), std::to_string(i), value));
  ASSERT_OK(db->Flush({}, db.family(0)));
  EXPECT_GT(db.fast()->gate()->counts().closings, 5u);
  EXPECT_GT(db.fast()->counts().others[FastWrites::kSwitch], 5u);
  EXPECT_LT(db.fast()->counts().others[FastWrites::kSwitch], 100u);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(db.Read(std::to_string(i)), value);
}

// ---- the order of history ----

// Writers count up: batch i of a writer sets its keys, in both families, to i. What a snapshot sees of each writer must
// be the last batch with numbers up to the snapshot's, as a whole.
TEST_P(FastWritesTest, SnapshotsAreAPrefixOfHistory) {
  const uint64_t batches = test::NumberFromEnvironment("CAIRN_FAST_WRITES", 3000);
  const uint64_t seed = test::SeedFromEnvironment();
  constexpr size_t kWriters = 8;
  constexpr size_t kKeys = 3;
  Options options = FastOptions(GetParam());
  options.write_buffer_size = 512 << 10;
  options.max_write_buffer_number = 6;
  FastDb db(options);
  const auto key_of = [](size_t writer, size_t key) { return std::to_string(writer) + "." + std::to_string(key); };
  struct Numbers {
    uint64_t first, last;
  };
  std::vector<std::vector<Numbers>> history(kWriters, std::vector<Numbers>(batches + 1));
  struct Seen {
    uint64_t number;
    std::array<uint64_t, kWriters> values;
  };
  std::vector<std::vector<Seen>> seen(3);
  std::atomic<size_t> writing{kWriters};
  std::vector<std::thread> threads;
  for (size_t w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      test::Random random(seed + w);
      for (uint64_t i = 1; i <= batches; ++i) {
        WriteBatch batch;
        for (size_t key = 0; key < kKeys; ++key) {
          for (size_t f = 0; f < 2; ++f) EXPECT_OK(batch.Put(db.family(f), key_of(w, key), std::to_string(i)));
        }
        // Some take the queue.
        if (random.OneIn(500)) {
          EXPECT_OK(batch.PutLogData("x"));
        }
        WriteOptions with = Usual();
        if (random.OneIn(GetParam() == Logs::kWal ? 20 : 700)) with.disableWAL = !with.disableWAL;
        with.sync = GetParam() == Logs::kPool && random.OneIn(2000);
        const Status s = db->Write(with, &batch);
        EXPECT_OK(s);
        if (!s.ok()) break;
        const uint64_t first = WriteBatchInternal::Sequence(&batch);
        history[w][i] = {first, first + batch.Count() - 1};
        EXPECT_GE(db->GetLatestSequenceNumber(), history[w][i].last);
      }
      --writing;
    });
  }
  for (size_t r = 0; r < seen.size(); ++r) {
    threads.emplace_back([&, r] {
      test::Random random(seed + 100 + r);
      while (writing > 0) {
        const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
        Seen now{snapshot->GetSequenceNumber(), {}};
        rocksdb::ReadOptions reads;
        reads.snapshot = snapshot;
        std::array<std::unique_ptr<rocksdb::Iterator>, 2> iterators;
        for (size_t f = 0; f < 2; ++f) iterators[f].reset(db->NewIterator(reads, db.family(f)));
        for (size_t w = 0; w < kWriters; ++w) {
          std::array<std::string, 2 * kKeys> values;
          for (size_t k = 0; k < 2 * kKeys; ++k) {
            const std::string key = key_of(w, k / 2);
            if (random.OneIn(2)) {
              values[k] = db.Read(key, k % 2, snapshot);
            } else {
              iterators[k % 2]->Seek(key);
              const bool found = iterators[k % 2]->Valid() && iterators[k % 2]->key() == key;
              values[k] = found ? iterators[k % 2]->value().ToString() : "NotFound: ";
            }
            EXPECT_EQ(values[k], values[0]) << "a batch in part, at " << now.number;
          }
          now.values[w] = values[0] == "NotFound: " ? 0 : std::stoull(values[0]);
        }
        iterators = {};
        db->ReleaseSnapshot(snapshot);
        seen[r].push_back(now);
      }
    });
  }
  // What closes the gate.
  threads.emplace_back([&] {
    test::Random random(seed + 200);
    while (writing > 0) {
      switch (random.Uniform(5)) {
        case 0:
          EXPECT_OK(db->Flush({}, db.family(random.Uniform(2))));
          break;
        case 1: {
          ColumnFamilyHandle* passing = nullptr;
          EXPECT_OK(db->CreateColumnFamily(options, "passing", &passing));
          EXPECT_OK(db->Put(Usual(), passing, "a", "b"));
          EXPECT_OK(db->DropColumnFamily(passing));
          EXPECT_OK(db->DestroyColumnFamilyHandle(passing));
          break;
        }
        case 2:
          EXPECT_OK(db->LockWAL());
          EXPECT_OK(db->UnlockWAL());
          break;
        case 3:
          EXPECT_OK(db->SetDBOptions({{"max_background_jobs", std::to_string(2 + random.Uniform(2))}}));
          break;
        default:
          EXPECT_OK(db->Delete(Usual(), "nothing"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(random.Uniform(10)));
    }
  });
  for (auto& thread : threads) thread.join();

  for (const auto& reader : seen) {
    uint64_t newest = 0;
    for (const Seen& now : reader) {
      EXPECT_GE(now.number, newest);
      newest = now.number;
      for (size_t w = 0; w < kWriters; ++w) {
        const uint64_t value = now.values[w];
        EXPECT_LE(history[w][value].last, now.number);
        if (value == batches) continue;
        EXPECT_GT(history[w][value + 1].first, now.number) << "writer " << w << ", " << value;
      }
    }
  }
  // No two batches share a number.
  std::map<uint64_t, uint64_t> ranges;
  for (const auto& writer : history) {
    for (size_t i = 1; i <= batches; ++i) EXPECT_TRUE(ranges.emplace(writer[i].first, writer[i].last).second);
  }
  uint64_t end = 0;
  for (const auto& [first, last] : ranges) {
    EXPECT_GT(first, end);
    end = last;
  }
  for (size_t w = 0; w < kWriters; ++w) EXPECT_EQ(db.Read(key_of(w, 0)), std::to_string(batches));
  EXPECT_GT(db.fast()->counts().writes, 0u) << db.fast()->ToText();
}

}  // namespace
}  // namespace cairn
