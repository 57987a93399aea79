#include "db/failed_writes.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "db/error_recovery_fixture.h"
#include "db/log_reader.h"
#include "db/log_writer.h"
#include "file/sequence_file_reader.h"
#include "file/writable_file_writer.h"
#include "gtest/gtest.h"
#include "rocksdb/port/log_reporter.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/arriving_tables.h"
#include "test/testutil/copy_database.h"
#include "test/testutil/test_seed.h"
#include "test/testutil/until_it_waits.h"
#include "util/coding.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::Status;
using rocksdb::WALRecoveryMode;
using test::Random;

constexpr uint64_t kNumber = 7;
constexpr uint64_t kBlock = rocksdb::log::kBlockSize;

// Counts the files that it opens to write into, which some file systems cannot.
class CountingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "CountingFileSystem"; }
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* context) override {
    ++opened;
    if (cannot) return rocksdb::IOStatus::NotSupported();
    return FileSystemWrapper::NewRandomRWFile(path, options, file, context);
  }
  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus s = FileSystemWrapper::NewSequentialFile(path, options, file, context);
    if (s.ok() && !unreadable.ok()) *file = std::make_unique<File>(std::move(*file), this);
    return s;
  }
  int opened = 0;
  bool cannot = false;
  rocksdb::IOStatus unreadable;  // from the second block on

 private:
  class File : public rocksdb::FSSequentialFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSSequentialFile> file, CountingFileSystem* disk)
        : FSSequentialFileOwnerWrapper(std::move(file)), disk_(disk) {}
    rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                           rocksdb::IODebugContext* context) override {
      if (reads_++ > 0) return disk_->unreadable;
      return FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, context);
    }

   private:
    CountingFileSystem* const disk_;
    int reads_ = 0;
  };
};

class FailedWritesTest : public ::testing::Test {
 protected:
  // Where each entry ends.
  std::vector<uint64_t> WriteEntries(const std::vector<std::string>& entries, bool recycles = false) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_OK(Status(fs_.NewWritableFile(path_, rocksdb::FileOptions(), &file, nullptr)));
    auto writer = std::make_unique<rocksdb::WritableFileWriter>(std::move(file), path_, rocksdb::FileOptions());
    rocksdb::log::Writer log(std::move(writer), kNumber, recycles);
    std::vector<uint64_t> ends;
    for (const std::string& entry : entries) {
      EXPECT_OK(Status(log.AddRecord(rocksdb::WriteOptions(), entry)));
      ends.push_back(log.file()->GetFileSize());
    }
    EXPECT_OK(Status(log.Close(rocksdb::WriteOptions())));
    return ends;
  }
  std::vector<uint64_t> Write(const std::vector<size_t>& sizes, bool recycles = false) {
    std::vector<std::string> entries;
    for (const size_t size : sizes) entries.push_back(Entry(entries.size(), size));
    return WriteEntries(entries, recycles);
  }
  static std::string Entry(size_t i, size_t size) { return std::string(size, static_cast<char>('a' + i % 26)); }

  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void SetBytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  Status Erase(rocksdb::SequenceNumber last = UINT64_MAX) {
    return EraseFailedWrites(&fs_, path_, kNumber, last, {}, nullptr, &from_);
  }

  // The sizes of the entries that there are. OK only if nothing else is there.
  Status Read(WALRecoveryMode mode, std::vector<size_t>* sizes) {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    EXPECT_OK(Status(fs_.NewSequentialFile(path_, rocksdb::FileOptions(), &file, nullptr)));
    port::FirstFault fault;
    rocksdb::log::Reader reader(nullptr, std::make_unique<rocksdb::SequentialFileReader>(std::move(file), path_),
                                &fault,
                                /*checksum=*/true, kNumber);
    std::string scratch;
    rocksdb::Slice entry;
    while (reader.ReadRecord(&entry, &scratch, mode)) {
      EXPECT_TRUE(entry == Entry(sizes->size(), entry.size()));
      sizes->push_back(entry.size());
    }
    return fault.status;
  }
  void ExpectEntries(const std::vector<size_t>& sizes) {
    for (const WALRecoveryMode mode :
         {WALRecoveryMode::kAbsoluteConsistency, WALRecoveryMode::kPointInTimeRecovery,
          WALRecoveryMode::kTolerateCorruptedTailRecords, WALRecoveryMode::kSkipAnyCorruptedRecords}) {
      SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)));
      std::vector<size_t> read;
      ASSERT_OK(Read(mode, &read));
      ASSERT_EQ(read, sizes);
    }
  }

  const test::TempDir dir_;
  uint64_t from_ = 0;
  const std::string path_ = dir_ / "000007.log";
  CountingFileSystem fs_{rocksdb::FileSystem::Default()};
};

TEST_F(FailedWritesTest, AWholeOneStaysAsItIs) {
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{{}, {0}, {10, 100000, 3}}) {
    Write(sizes);
    const std::string bytes = Bytes();
    EXPECT_OK(Erase());
    EXPECT_EQ(fs_.opened, 0);
    EXPECT_TRUE(Bytes() == bytes);
  }
}

// Also near the end of a block, where a header does not fit, or nothing behind it does.
TEST_F(FailedWritesTest, CutOffAnywhere) {
  Random random(Seed());
  for (const size_t last : {size_t{1}, size_t{40}, size_t{3 * kBlock}}) {
    for (size_t left = 0; left < 40; left += left < 16 ? 1 : 8) {
      const std::vector<size_t> whole = {10, kBlock - left - 2 * rocksdb::log::kHeaderSize - 10};
      std::vector<size_t> sizes = whole;
      sizes.push_back(last);
      const std::vector<uint64_t> ends = Write(sizes);
      const std::string bytes = Bytes();
      for (uint64_t cut = ends[1]; cut < ends[2]; cut += last < 100 ? 1 : 1 + random.Uniform(9000)) {
        SCOPED_TRACE("cut " + std::to_string(cut - ends[1]) + " behind an entry that ends " + std::to_string(left) +
                     " before a block");
        SetBytes(bytes.substr(0, cut));
        ASSERT_OK(Erase());
        ASSERT_TRUE(Bytes().compare(0, ends[1], bytes, 0, ends[1]) == 0);
        ASSERT_NO_FATAL_FAILURE(ExpectEntries(whole));
        ASSERT_OK(Erase());
        ASSERT_NO_FATAL_FAILURE(ExpectEntries(whole));
      }
    }
  }
}

// The bytes behind it are not written at all, or are those of a file that was there before.
TEST_F(FailedWritesTest, BytesOfItsEndAreOthers) {
  Random random(Seed());
  for (const bool recycles : {false, true}) {
    const std::vector<uint64_t> ends = Write({10, 3000, 50000, 70000}, recycles);
    const std::string bytes = Bytes();
    for (int i = 0; i < 100; ++i) {
      const uint64_t from = ends[2] + random.Uniform(ends[3] - ends[2]);
      std::string torn = bytes.substr(0, from);
      for (uint64_t at = from; at < bytes.size(); ++at) torn.push_back(static_cast<char>(~bytes[at]));
      SetBytes(torn);
      ASSERT_OK(Erase());
      ASSERT_EQ(Bytes().size(), bytes.size());
      ASSERT_NO_FATAL_FAILURE(ExpectEntries({10, 3000, 50000}));
    }
  }
}

// What is damaged before the last whole entry is for others to tell.
TEST_F(FailedWritesTest, DamageInTheMiddleStays) {
  const std::vector<uint64_t> ends = Write({1000, 1000, kBlock, 1000});
  std::string bytes = Bytes();
  bytes[ends[0] + 100] ^= 1;
  SetBytes(bytes);
  ASSERT_OK(Erase());
  EXPECT_TRUE(Bytes() == bytes);
}

// Batches, of which some are of no keys.
TEST_F(FailedWritesTest, WholeEntriesBeyondTheLastThatHasSucceeded) {
  const std::vector<std::pair<uint64_t, uint32_t>> batches = {{5, 2}, {7, 0}, {7, 1}, {8, 0}, {8, 3}, {8, 1}};
  std::vector<std::string> entries;
  for (const auto& [sequence, count] : batches) {
    std::string entry;
    rocksdb::PutFixed64(&entry, sequence);
    rocksdb::PutFixed32(&entry, count);
    entries.push_back(entry + std::string(100, 'e'));
  }
  const std::vector<uint64_t> ends = WriteEntries(entries);
  const std::string bytes = Bytes();
  const auto expect_whole = [&](rocksdb::SequenceNumber last, size_t whole) {
    SetBytes(bytes);
    ASSERT_OK(Erase(last));
    EXPECT_TRUE(Bytes() == bytes.substr(0, ends[whole - 1]) + std::string(bytes.size() - ends[whole - 1], '\0'))
        << last;
  };
  expect_whole(10, 6);
  expect_whole(8, 6);
  expect_whole(7, 4);
  expect_whole(6, 2);
}

TEST_F(FailedWritesTest, WhatItCannotDo) {
  EXPECT_OK(Erase());  // there is no such file
  const std::vector<uint64_t> ends = Write({1000, 1000});
  const std::string bytes = Bytes().substr(0, ends[1] - 1);
  SetBytes(bytes);
  fs_.cannot = true;
  EXPECT_OK(Erase());
  EXPECT_TRUE(Bytes() == bytes);
}

// What cannot be read may be a write that has succeeded. The status is the file system's, whichever it likes.
TEST_F(FailedWritesTest, ThatItCannotBeReadIsNoEnd) {
  const std::vector<uint64_t> ends = Write({10, kBlock, 1000});
  const std::string bytes = Bytes().substr(0, ends[2] - 1);
  using rocksdb::IOStatus;
  for (const IOStatus& error : {IOStatus::IOError("e"), IOStatus::TimedOut("e"), IOStatus::Busy("e"),
                                IOStatus::Aborted("e"), IOStatus::Corruption("e"), IOStatus::NotSupported("e")}) {
    SetBytes(bytes);
    fs_.unreadable = error;
    EXPECT_EQ(Erase().ToString(), error.ToString());
    EXPECT_TRUE(Bytes() == bytes) << error.ToString();
    fs_.unreadable = IOStatus::OK();
    EXPECT_OK(Erase());
    EXPECT_TRUE(Bytes() != bytes);
  }
}

// A WAL that a full disk has torn, or that could not be synced.
class FailedWritesDbTest : public ErrorRecoveryTest {
 protected:
  // RocksDB's debug builds assert that nothing is prepared at the end.
  struct RollBackAndDelete {
    void operator()(rocksdb::Transaction* transaction) const {
      if (transaction->GetState() == rocksdb::Transaction::PREPARED) transaction->Rollback().PermitUncheckedError();
      delete transaction;
    }
    void operator()(rocksdb::TransactionDB* db) const {
      std::vector<rocksdb::Transaction*> prepared;
      db->GetAllPreparedTransactions(&prepared);
      for (rocksdb::Transaction* const transaction : prepared) (*this)(transaction);
      delete db;
    }
  };
  using OwnTransaction = std::unique_ptr<rocksdb::Transaction, RollBackAndDelete>;
  using OwnTransactionDB = std::unique_ptr<rocksdb::TransactionDB, RollBackAndDelete>;
  // With a key in a table, so that a table can be ahead of a WAL.
  std::unique_ptr<rocksdb::TransactionDB> OpenTransactions(
      const rocksdb::TransactionDBOptions& how = rocksdb::TransactionDBOptions()) {
    rocksdb::TransactionDB* opened = nullptr;
    const Status s = rocksdb::TransactionDB::Open(options_, how, dir_ / "db", &opened);
    EXPECT_OK(s);
    std::unique_ptr<rocksdb::TransactionDB> db(opened);
    if (!s.ok()) return db;
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
    return db;
  }
  void TearTheWal(rocksdb::DB* db) {
    EXPECT_OK(Put(db));
    disk_->torn = test::kWal;
    EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), "torn", std::string(1000, 'v')).IsNoSpace());
    disk_->torn = 0;
  }
  void PrepareThenTearTheWal(rocksdb::TransactionDB* db) {
    const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    EXPECT_OK(transaction->SetName("prepared"));
    EXPECT_OK(transaction->Put("key of the transaction", "value"));
    EXPECT_OK(transaction->Prepare());
    TearTheWal(db);
    EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  }
  // With a key in each of the two. A recovery flushes one after the other: the database is copied as it is between them.
  std::unique_ptr<rocksdb::ColumnFamilyHandle> MakeOtherFamily(rocksdb::DB* db) {
    rocksdb::ColumnFamilyHandle* created = nullptr;
    EXPECT_OK(db->CreateColumnFamily(options_, "other", &created));
    EXPECT_OK(Put(db));
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), created, "key", "value"));
    listener_->at_table = [&](const std::string& family) {
      if (family == "other" && !std::filesystem::exists(copy_)) CopyTheDatabase();
    };
    return std::unique_ptr<rocksdb::ColumnFamilyHandle>(created);
  }
  void CopyTheDatabase() const { std::filesystem::copy(dir_ / "db", copy_, std::filesystem::copy_options::recursive); }
  template <typename Check>
  void ExpectInTheCopy(const Check& check, const rocksdb::Options& options = test::BaseOptions()) {
    ASSERT_TRUE(std::filesystem::exists(copy_));
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(
        rocksdb::DB::Open(options, copy_, {{"default", options}, {"other", options}}, &handles, port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> copied(opened);
    for (rocksdb::ColumnFamilyHandle* const handle : handles) {
      check(copied.get(), handle);
      EXPECT_OK(copied->DestroyColumnFamilyHandle(handle));
    }
  }
  // In both families.
  void ExpectTheKeyInTheCopy(const rocksdb::Options& options = test::BaseOptions()) {
    ExpectInTheCopy(
        [](rocksdb::DB* copied, rocksdb::ColumnFamilyHandle* family) {
          std::string value;
          EXPECT_OK(copied->Get(rocksdb::ReadOptions(), family, "key", &value));
        },
        options);
  }
  // Whose writes are synced.
  static OwnTransaction Begin(rocksdb::TransactionDB* db, const char* name, const char* key, const char* value) {
    rocksdb::WriteOptions synced;
    synced.sync = true;
    OwnTransaction transaction(db->BeginTransaction(synced));
    EXPECT_OK(transaction->SetName(name));
    EXPECT_OK(transaction->Put(key, value));
    return transaction;
  }
  // As a crash leaves it now.
  OwnTransactionDB OpenCopy(rocksdb::DB* db, const rocksdb::TransactionDBOptions& how) {
    test::CopyDatabase(db, copy_);
    return OpenTheCopy(how);
  }
  OwnTransactionDB OpenTheCopy(const rocksdb::TransactionDBOptions& how) {
    rocksdb::Options options = options_;
    options.listeners.clear();
    options.sst_file_manager.reset();
    rocksdb::TransactionDB* opened = nullptr;
    EXPECT_OK(rocksdb::TransactionDB::Open(options, how, copy_, &opened));
    return OwnTransactionDB(opened);
  }
  static std::string ValueOf(rocksdb::DB* db, const char* key) {
    std::string value;
    const Status s = db->Get(rocksdb::ReadOptions(), key, &value);
    EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    return s.ok() ? value : "none";
  }
  static void ExpectTheTransaction(rocksdb::TransactionDB* db) {
    ASSERT_NE(db, nullptr);
    const std::unique_ptr<rocksdb::Transaction> transaction(db->GetTransactionByName("prepared"));
    ASSERT_NE(transaction, nullptr);
    EXPECT_OK(transaction->Commit());
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key of the transaction", &value));
    EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "torn", &value).IsNotFound());
  }

  const std::string copy_ = dir_ / "copy";
};

// A write that is whole in the WAL, and whose sync has failed.
void FailASync(rocksdb::DB* db, test::FaultyDisk* disk, rocksdb::WriteBatch* batch) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  disk->unsynced = test::kWal;
  EXPECT_TRUE(db->Write(synced, batch).IsIOError());
  disk->unsynced = 0;
}

TEST_F(FailedWritesDbTest, NothingIsWrittenAfterTheRecovery) {
  PrepareThenTearTheWal(OpenTransactions().get());
  ExpectTheTransaction(OpenTransactions().get());
}

// Which the process did not survive, when it was destroyed.
TEST_F(FailedWritesDbTest, ATransactionThatWasNotPrepared) {
  const auto db = OpenTransactions();
  std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("named"));
  ASSERT_OK(transaction->Put("key of the transaction", "value"));
  disk_->full = test::kWal;
  EXPECT_TRUE(transaction->Commit().IsNoSpace());
  disk_->full = 0;
  EXPECT_EQ(db->GetTransactionByName("named"), nullptr);
  EXPECT_FALSE(transaction->Commit().ok());
  transaction.reset();
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
}

class LaterCommitTest : public FailedWritesDbTest, public ::testing::WithParamInterface<rocksdb::TxnDBWritePolicy> {
 protected:
  void ExpectCount(rocksdb::DB* db, uint64_t expected) {
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "count", &value));
    EXPECT_EQ(value.size() == sizeof(uint64_t) ? rocksdb::DecodeFixed64(value.data()) : 0, expected);
  }
};
INSTANTIATE_TEST_SUITE_P(Policies, LaterCommitTest,
                         ::testing::Values(rocksdb::WRITE_COMMITTED, rocksdb::WRITE_PREPARED,
                                           rocksdb::WRITE_UNPREPARED));

// Once, and the whole of it.
TEST_P(LaterCommitTest, CommittedOrRolledBack) {
  options_.merge_operator = rocksdb::MergeOperators::CreateUInt64AddOperator();
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  rocksdb::TransactionDBOptions how;
  how.write_policy = GetParam();
  const auto db = OpenTransactions(how);
  std::string one;
  rocksdb::PutFixed64(&one, 1);
  ASSERT_OK(db->Merge(rocksdb::WriteOptions(), "count", one));
  for (const bool commits : {false, true}) {
    const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("named"));
    ASSERT_OK(transaction->Put("key of the transaction", "value"));
    if (commits) ASSERT_OK(transaction->Merge("count", one));  // a Rollback leaves merges (docs/guide/faults.md)
    ASSERT_OK(transaction->Prepare());
    const int recovered = listener_->recovered;
    disk_->full = test::kWal;
    EXPECT_TRUE(transaction->Commit().IsNoSpace());
    EXPECT_TRUE((commits ? transaction->Commit() : transaction->Rollback()).IsNoSpace());
    disk_->full = 0;
    EXPECT_TRUE(Await([&] { return listener_->recovered > recovered; }));
    EXPECT_EQ(db->GetTransactionByName("named"), transaction.get());
    EXPECT_OK(commits ? transaction->Commit() : transaction->Rollback());
    std::string value;
    EXPECT_EQ(db->Get(rocksdb::ReadOptions(), "key of the transaction", &value).ok(), commits);
    ExpectCount(db.get(), commits ? 2 : 1);
    const OwnTransactionDB copied = OpenCopy(db.get(), how);
    EXPECT_EQ(copied->Get(rocksdb::ReadOptions(), "key of the transaction", &value).ok(), commits);
    ExpectCount(copied.get(), commits ? 2 : 1);
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    EXPECT_EQ(db->Get(rocksdb::ReadOptions(), "key of the transaction", &value).ok(), commits);
    ExpectCount(db.get(), commits ? 2 : 1);
  }
}

// It keeps its locks until it is rolled back, be it again.
class WrittenTransactionTest : public FailedWritesDbTest,
                               public ::testing::WithParamInterface<std::tuple<const char*, bool>> {};
INSTANTIATE_TEST_SUITE_P(Fails, WrittenTransactionTest,
                         ::testing::Combine(::testing::Values("Prepare", "Commit", "Rollback"), ::testing::Bool()));

TEST_P(WrittenTransactionTest, IsRolledBack) {
  const auto& [fails, two_queues] = GetParam();
  options_.two_write_queues = two_queues;
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  rocksdb::TransactionDBOptions how;
  how.write_policy = rocksdb::WRITE_UNPREPARED;
  how.default_write_batch_flush_threshold = 1;
  how.default_lock_timeout = 1;
  const auto db = OpenTransactions(how);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  ASSERT_OK(db->Put(synced, "key", "old"));
  const auto transaction = Begin(db.get(), "named", "key", "dirty");
  ASSERT_OK(transaction->Put("other", "dirty"));
  disk_->unsynced = test::kWal;
  const Status s = fails == std::string("Prepare")  ? transaction->Prepare()
                   : fails == std::string("Commit") ? transaction->Commit()
                                                    : transaction->Rollback();
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  disk_->unsynced = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_TRUE(db->Put(synced, "key", "newer").IsTimedOut());
  EXPECT_OK(transaction->Rollback());
  EXPECT_OK(db->Put(synced, "key", "newer"));
  const auto copied = OpenCopy(db.get(), how);
  for (rocksdb::DB* const each : {static_cast<rocksdb::DB*>(db.get()), static_cast<rocksdb::DB*>(copied.get())}) {
    EXPECT_EQ(ValueOf(each, "key"), "newer");
    EXPECT_EQ(ValueOf(each, "other"), "none");
  }
}

// RocksDB counts the transactions for which a WAL is kept, and did not keep it for one that is prepared.
class UncountedTransactionTest : public FailedWritesDbTest, public ::testing::WithParamInterface<bool> {
 protected:
  UncountedTransactionTest() {
    options_.two_write_queues = GetParam();
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    how_.write_policy = rocksdb::WRITE_UNPREPARED;
    how_.default_write_batch_flush_threshold = 1;
  }
  void ExpectPreparedWhenAllIsFlushed(rocksdb::TransactionDB* db, const char* name) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "another", "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    }
    const auto copied = OpenCopy(db, how_);
    const std::unique_ptr<rocksdb::Transaction> prepared(copied->GetTransactionByName(name));
    ASSERT_NE(prepared, nullptr);
    EXPECT_OK(prepared->Commit());
    EXPECT_EQ(ValueOf(copied.get(), "key of the prepared"), "value");
  }
  rocksdb::TransactionDBOptions how_;
};
INSTANTIATE_TEST_SUITE_P(Queues, UncountedTransactionTest, ::testing::Bool());

TEST_P(UncountedTransactionTest, HasFailedAtItsFirstWrite) {
  const auto db = OpenTransactions(how_);
  const auto kept = Begin(db.get(), "prepared", "key of the prepared", "value");
  ASSERT_OK(kept->Prepare());
  const std::unique_ptr<rocksdb::Transaction> failed(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(failed->SetName("failed"));
  ASSERT_OK(failed->Put("key", "value"));  // is written when there is more
  disk_->full = test::kWal;
  EXPECT_TRUE(failed->Put("other", "value").IsNoSpace());
  disk_->full = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(failed->Rollback());
  ExpectPreparedWhenAllIsFlushed(db.get(), "prepared");
}

TEST_P(UncountedTransactionTest, GoesOnBehindItsRollback) {
  const auto db = OpenTransactions(how_);
  const auto again = Begin(db.get(), "again", "key", "value");
  ASSERT_OK(again->Put("other", "value"));
  ASSERT_OK(again->Rollback());
  EXPECT_OK(again->Rollback());
  const auto kept = Begin(db.get(), "prepared", "key of the prepared", "value");
  ASSERT_OK(kept->Prepare());
  for (const char* key : {"key", "other"}) ASSERT_OK(again->Put(key, "value"));
  ASSERT_OK(again->Rollback());
  EXPECT_OK(again->Rollback());
  ExpectPreparedWhenAllIsFlushed(db.get(), "prepared");
}

// Its listener syncs another database, which fails as well: the last entry there has succeeded.
TEST_F(FailedWritesDbTest, TheEntryIsOfOneDatabase) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  const auto db = OpenTransactions();
  rocksdb::Options options = options_;
  const auto listener = std::make_shared<Listener>();
  options.listeners = {listener};
  rocksdb::TransactionDB* opened = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), dir_ / "failing", &opened));
  const std::unique_ptr<rocksdb::TransactionDB> failing(opened);
  ASSERT_OK(Put(failing.get()));
  ASSERT_OK(failing->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(Put(failing.get()));  // both WALs have the same number, and an entry
  ASSERT_OK(Put(db.get()));
  const auto transaction = Begin(db.get(), "prepared", "key of the transaction", "value");
  ASSERT_OK(transaction->Prepare());
  listener->at_error = [&] { EXPECT_TRUE(db->SyncWAL().IsIOError()); };
  rocksdb::WriteBatch failed;
  ASSERT_OK(failed.Put("failed", "value"));
  FailASync(failing.get(), disk_.get(), &failed);
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0 && listener->recovered > 0; }));
  listener->at_error = nullptr;
  ExpectTheTransaction(OpenCopy(db.get(), rocksdb::TransactionDBOptions()).get());
}

// What has failed in two phases has no sequence number, or one that others have, too.
struct TwoPhases {
  const char* name;
  rocksdb::TxnDBWritePolicy policy;
  bool two_queues;
  bool has_memtables;
};
class TwoPhasesTest : public FailedWritesDbTest, public ::testing::WithParamInterface<TwoPhases> {
 protected:
  TwoPhasesTest() {
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    options_.two_write_queues = GetParam().two_queues;
    how_.write_policy = GetParam().policy;
  }
  // With a prepared transaction that needs this WAL.
  void OpenWithOthers() {
    db_ = OpenTransactions(how_);
    other_ = Begin(db_.get(), "other", "other key", "value");
    ASSERT_OK(other_->Prepare());
    if (GetParam().has_memtables) ASSERT_OK(Put(db_.get()));
  }
  template <typename Write>
  void FailAndRecover(const Write& write) {
    const int recovered = listener_->recovered;
    disk_->unsynced = test::kWal;
    EXPECT_TRUE(write().IsIOError());
    disk_->unsynced = 0;
    EXPECT_TRUE(Await([&] { return listener_->recovered > recovered; }));
  }
  rocksdb::TransactionDBOptions how_;
  std::unique_ptr<rocksdb::TransactionDB> db_;
  OwnTransaction other_;
};
INSTANTIATE_TEST_SUITE_P(Writes, TwoPhasesTest,
                         ::testing::Values(TwoPhases{"Committed", rocksdb::WRITE_COMMITTED, false, true},
                                           TwoPhases{"CommittedWithEmptyMemtables", rocksdb::WRITE_COMMITTED, false,
                                                     false},
                                           TwoPhases{"CommittedWithTwoQueues", rocksdb::WRITE_COMMITTED, true, true},
                                           TwoPhases{"Prepared", rocksdb::WRITE_PREPARED, false, true},
                                           TwoPhases{"PreparedWithTwoQueues", rocksdb::WRITE_PREPARED, true, true},
                                           TwoPhases{"Unprepared", rocksdb::WRITE_UNPREPARED, false, true}),
                         [](const ::testing::TestParamInfo<TwoPhases>& tested) { return tested.param.name; });

TEST_P(TwoPhasesTest, TheSecondCommitCounts) {
  OpenWithOthers();
  for (const bool after_rollback : {false, true}) {
    const auto transaction = Begin(db_.get(), "named", "key of the transaction", "value");
    ASSERT_OK(transaction->Prepare());
    FailAndRecover([&] { return after_rollback ? transaction->Rollback() : transaction->Commit(); });
    EXPECT_OK(transaction->Commit());
    const auto copied = OpenCopy(db_.get(), how_);
    EXPECT_EQ(ValueOf(copied.get(), "key of the transaction"), "value");
    EXPECT_EQ(copied->GetTransactionByName("named"), nullptr);
    EXPECT_NE(copied->GetTransactionByName("other"), nullptr);
    std::filesystem::remove_all(copy_);
  }
}

TEST_P(TwoPhasesTest, ThatHasNotCommittedIsPrepared) {
  OpenWithOthers();
  const auto transaction = Begin(db_.get(), "named", "key of the transaction", "value");
  ASSERT_OK(transaction->Prepare());
  FailAndRecover([&] { return transaction->Commit(); });
  EXPECT_OK(db_->Put(rocksdb::WriteOptions(), "afterwards", "value"));
  const auto copied = OpenCopy(db_.get(), how_);
  EXPECT_EQ(ValueOf(copied.get(), "key of the transaction"), "none");
  EXPECT_EQ(ValueOf(copied.get(), "afterwards"), "value");
  const std::unique_ptr<rocksdb::Transaction> prepared(copied->GetTransactionByName("named"));
  ASSERT_NE(prepared, nullptr);
  EXPECT_OK(prepared->Commit());
  EXPECT_EQ(ValueOf(copied.get(), "key of the transaction"), "value");
}

// The write's sync is told to the MANIFEST, and that fails.
TEST_P(TwoPhasesTest, ThatTheManifestDoesNotKnow) {
  options_.track_and_verify_wals_in_manifest = true;
  OpenWithOthers();
  const auto transaction = Begin(db_.get(), "named", "key of the transaction", "value");
  ASSERT_OK(transaction->Prepare());
  ASSERT_OK(Put(db_.get()));
  ASSERT_OK(db_->PauseBackgroundWork());
  BeginFlush(db_.get());  // so that there is another WAL, and this one is not synced
  disk_->retryable = test::kManifest;
  EXPECT_TRUE(transaction->Commit().IsIOError());
  disk_->retryable = 0;
  EXPECT_OK(db_->ContinueBackgroundWork());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  const auto copied = OpenCopy(db_.get(), how_);
  EXPECT_EQ(ValueOf(copied.get(), "key of the transaction"), "none");
  EXPECT_NE(copied->GetTransactionByName("named"), nullptr);
}

TEST_P(TwoPhasesTest, OneOfTheSameNameAsOneThatWasNotPrepared) {
  OpenWithOthers();
  FailAndRecover([&] { return Begin(db_.get(), "named", "key of the transaction", "failed")->Prepare(); });
  ASSERT_OK(db_->Put(rocksdb::WriteOptions(), "between", "value"));  // a sequence number
  const auto transaction = Begin(db_.get(), "named", "key of the transaction", "value");
  ASSERT_OK(transaction->Prepare());
  EXPECT_OK(transaction->Commit());
  const auto copied = OpenCopy(db_.get(), how_);
  EXPECT_EQ(ValueOf(copied.get(), "key of the transaction"), "value");
  EXPECT_EQ(copied->GetTransactionByName("named"), nullptr);
}

// A write that fails takes its sequence numbers with it, and the next WAL does not go on where this one ends.
TEST_F(FailedWritesDbTest, WithTwoWriteQueues) {
  options_.two_write_queues = true;
  {
    const auto db = OpenTransactions();
    PrepareThenTearTheWal(db.get());
    EXPECT_OK(Put(db.get()));
  }
  ExpectTheTransaction(OpenTransactions().get());
}

// The database stops between the two steps of a write, or of a rollback, of which the second only counts what the first has
// written.
class TwoStepsTest : public FailedWritesDbTest, public ::testing::WithParamInterface<rocksdb::TxnDBWritePolicy> {
 protected:
  TwoStepsTest() {
    options_.two_write_queues = true;
    options_.disable_auto_compactions = true;
    options_.memtable_factory =
        rocksdb::Options().memtable_factory;  // the policies demand that it takes an entry twice
    how_.write_policy = GetParam();
  }
  // The first step is written after the database has stopped.
  void ExpectOkWhereItStops(rocksdb::DB* db, const std::function<Status()>& write) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "other", "value"));
    disk_->held = test::kTable;
    BeginFlush(db);
    ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
    disk_->held = test::kTable | test::kWal;
    std::future<Status> written = std::async(std::launch::async, write);
    ASSERT_TRUE(Await([&] { return disk_->waiting > 1; }));
    listener_->recovers = false;
    disk_->full = test::kTable;
    disk_->held = test::kWal;
    ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
    disk_->held = 0;
    EXPECT_OK(written.get());
    disk_->full = 0;
    EXPECT_OK(db->Resume());
  }
  // No compaction has kept an older one.
  static void ExpectNoMoreThanTwoKeys(rocksdb::DB* db) {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;  // keeps nothing that was replaced
    EXPECT_OK(db->CompactRange(all, nullptr, nullptr));
    uint64_t keys = 0;
    EXPECT_TRUE(db->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &keys));
    EXPECT_EQ(keys, 2u);
  }

  rocksdb::TransactionDBOptions how_;
};
INSTANTIATE_TEST_SUITE_P(Policies, TwoStepsTest, ::testing::Values(rocksdb::WRITE_PREPARED, rocksdb::WRITE_UNPREPARED));

TEST_P(TwoStepsTest, AWriteHasTheSecond) {
  const auto db = OpenTransactions(how_);
  ExpectOkWhereItStops(db.get(), [&] { return db->Put(rocksdb::WriteOptions(), "key", "newer"); });
  EXPECT_EQ(ValueOf(db.get(), "key"), "newer");
  EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "newest"));
  ExpectNoMoreThanTwoKeys(db.get());
}

TEST_P(TwoStepsTest, ARollbackHasTheSecond) {
  const auto db = OpenTransactions(how_);
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "older"));
  const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("rolled back"));
  ASSERT_OK(transaction->Put("key", "value"));
  ASSERT_OK(transaction->Prepare());
  ExpectOkWhereItStops(db.get(), [&] { return transaction->Rollback(); });
  EXPECT_EQ(ValueOf(db.get(), "key"), "older");
  EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "newest"));
  ExpectNoMoreThanTwoKeys(db.get());
  EXPECT_EQ(ValueOf(OpenCopy(db.get(), how_).get(), "key"), "newest");
}

// RocksDB took what an older WAL has left behind its end for damage, and read nothing newer.
TEST_P(TwoStepsTest, ARecycledWalIsReadToItsEnd) {
  options_.recycle_log_file_num = 2;
  options_.write_buffer_size = 1 << 20;
  const auto db = OpenTransactions(how_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "old", std::string(100000, 'v')));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  ASSERT_OK(db->PauseBackgroundWork());  // which cuts off what is behind its end, when it closes it
  BeginFlush(db.get());
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "newest"));
  test::CopyDatabase(db.get(), copy_);
  ASSERT_OK(db->ContinueBackgroundWork());
  EXPECT_EQ(ValueOf(OpenTheCopy(how_).get(), "key"), "newest");
}

// A recycled WAL of which no entry is the newest one's is kept when the database is opened again, and nothing behind it was read.
class RecycledWalTest : public FailedWritesDbTest {
 protected:
  RecycledWalTest() {
    options_.recycle_log_file_num = 2;
    options_.avoid_flush_during_shutdown = true;
    options_.memtable_factory = rocksdb::Options().memtable_factory;
  }
  static void FillWals(rocksdb::DB* db) {
    for (int i = 0; i < 6; ++i) {
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "old", std::string(400, 'v')));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    }
  }
};

TEST_F(RecycledWalTest, ATransactionDatabaseOpensAgain) {
  FillWals(OpenTransactions().get());
  {
    rocksdb::TransactionDB* opened = nullptr;
    ASSERT_OK(rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), dir_ / "db", &opened));
    const OwnTransactionDB db(opened);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "newest", "acknowledged"));
  }
  const auto db = OpenTransactions();
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(ValueOf(db.get(), "newest"), "acknowledged");
}

TEST_F(RecycledWalTest, TheLogSaysThatItIsNone) {
  const auto db = Open(options_);
  std::ostringstream text;
  text << std::ifstream(dir_ / "db/LOG").rdbuf();
  EXPECT_NE(text.str().find("recycle_log_file_num is ignored"), std::string::npos);
  EXPECT_EQ(db->GetDBOptions().recycle_log_file_num, 0);
}

// What is ingested takes a number that is in no WAL.
TEST_F(RecycledWalTest, WhatFollowsAnIngestionIsKept) {
  const auto db = Open(options_);
  FillWals(db.get());
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "older"));
  const std::string table = test::WriteTable(dir_ / "ingested.sst", {"the key behind"});
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  ASSERT_OK(db->IngestExternalFile({table}, rocksdb::IngestExternalFileOptions()));
  db->ReleaseSnapshot(snapshot);
  ASSERT_OK(db->PauseBackgroundWork());
  BeginFlush(db.get());
  rocksdb::WriteOptions synced;
  synced.sync = true;
  ASSERT_OK(db->Put(synced, "key", "acknowledged"));
  test::CopyDatabase(db.get(), copy_);
  ASSERT_OK(db->ContinueBackgroundWork());
  const auto copied = Open(test::BaseOptions(), "copy");
  ASSERT_NE(copied, nullptr);
  EXPECT_EQ(ValueOf(copied.get(), "key"), "acknowledged");
}

// A Commit has torn the WAL, and the write that waits for it has asked for errors before: while a recovery begins, it goes on
// with the next WAL, whose sequence numbers do not begin where this one's end.
TEST_P(TwoStepsTest, AWriteBehindATornWalIsKept) {
  constexpr size_t kFull = 64 << 10;
  options_.write_buffer_size = kFull;
  options_.max_write_buffer_number = 6;
  const auto db = OpenTransactions(how_);
  const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("committed"));
  ASSERT_OK(transaction->Put("key of the transaction", "value"));
  ASSERT_OK(transaction->Prepare());
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "full", std::string(2 * kFull, 'f')));
  disk_->held = disk_->torn = test::kWal;
  disk_->held_wals = true;
  std::future<Status> commit = std::async(std::launch::async, [&] { return transaction->Commit(); });
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  std::future<Status> written = test::BeginUntilItWaits(
      [&] { return db->Put(rocksdb::WriteOptions(), "key", "acknowledged"); });  // for the Commit
  disk_->held = 0;
  EXPECT_TRUE(commit.get().IsNoSpace());
  ASSERT_TRUE(Await([&] { return disk_->waiting_wals > 0; }));
  // It is let go when the recovery, which waits for it, would wait for a WAL of its own.
  disk_->torn = 0;
  disk_->held = test::kWal;
  disk_->held_wals = false;
  ASSERT_TRUE(Await([&] { return disk_->waiting > 1; }));
  disk_->held_wals = true;
  disk_->held = 0;
  // Or the recovery was ahead of its second step, which has to wait then.
  if (written.wait_for(std::chrono::seconds(1)) != std::future_status::ready) disk_->held_wals = false;
  EXPECT_OK(written.get());
  test::CopyDatabase(db.get(), copy_);
  disk_->held_wals = false;
  EXPECT_EQ(ValueOf(OpenTheCopy(how_).get(), "key"), "acknowledged");
  EXPECT_TRUE(Await([&] { return transaction->Rollback().ok(); }));
}

// A listener of a Rollback prepares one of another database.
TEST_F(FailedWritesDbTest, APrepareDuringTheRollbackOfAnotherDatabase) {
  rocksdb::TransactionDB* opened = nullptr;
  ASSERT_OK(
      rocksdb::TransactionDB::Open(test::BaseOptions(), rocksdb::TransactionDBOptions(), dir_ / "other", &opened));
  const OwnTransactionDB other(opened);
  const OwnTransaction prepared(other->BeginTransaction(rocksdb::WriteOptions()));
  bool seals = false;  // the Rollback
  listener_->at_sealed = [&] {
    if (!std::exchange(seals, false)) return;
    ASSERT_OK(prepared->SetName("prepared"));
    ASSERT_OK(prepared->Put("key", "value"));
    EXPECT_OK(prepared->Prepare());
    test::CopyDatabase(other.get(), copy_);
  };
  constexpr size_t kFull = 64 << 10;
  options_.write_buffer_size = kFull;
  const auto db = OpenTransactions();
  const OwnTransaction transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("rolled back"));
  ASSERT_OK(transaction->Put("key of the transaction", "value"));
  ASSERT_OK(transaction->Prepare());
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "full", std::string(2 * kFull, 'f')));
  seals = true;
  ASSERT_OK(transaction->Rollback());
  ASSERT_TRUE(std::filesystem::exists(copy_));
  const OwnTransactionDB copied = OpenTheCopy(rocksdb::TransactionDBOptions());
  ASSERT_NE(copied, nullptr);
  EXPECT_NE(copied->GetTransactionByName("prepared"), nullptr);
}

// It holds up the other queue: who has the first and waits for it is before the recovery.
TEST_F(FailedWritesDbTest, APrepareThatIsHeldBackIsLetGo) {
  options_.two_write_queues = true;
  options_.max_write_buffer_number = 2;
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  const auto db = OpenTransactions();
  const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("prepared"));
  ASSERT_OK(transaction->Put("key of the transaction", "value"));
  disk_->held = test::kTable;
  ASSERT_OK(Put(db.get()));
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  ASSERT_OK(Put(db.get()));
  disk_->retryable = test::kWal;
  EXPECT_TRUE(Put(db.get()).IsIOError());
  disk_->retryable = 0;
  BeginFlush(db.get());  // the recovery waits for the first one
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  std::future<Status> prepared = test::BeginUntilItWaits([&] { return transaction->Prepare(); });
  std::future<Status> locked = test::BeginUntilItWaits([&] {
    const Status s = db->LockWAL();
    return s.ok() ? db->UnlockWAL() : s;
  });
  disk_->held = 0;
  if (!Await([&] { return listener_->recovered > 0; })) Hangs("the recovery");
  EXPECT_OK(Ends("LockWAL", [&] { return locked.get(); }));
  Ends("Prepare", [&] { return prepared.get(); }).PermitUncheckedError();
}

TEST_F(FailedWritesDbTest, WithAbsoluteConsistency) {
  options_.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  {
    const auto db = OpenTransactions();
    PrepareThenTearTheWal(db.get());
    EXPECT_OK(Put(db.get()));
  }
  ExpectTheTransaction(OpenTransactions().get());
}

TEST_F(FailedWritesDbTest, TheProcessDiesDuringTheRecovery) {
  const auto db = Open(options_);
  const auto other = MakeOtherFamily(db.get());
  TearTheWal(db.get());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ExpectTheKeyInTheCopy();
}

// The keys that whoever follows the WALs gets, to where they end now.
std::string Follow(rocksdb::TransactionLogIterator* updates) {
  struct Keys : rocksdb::WriteBatch::Handler {
    Status PutCF(uint32_t /*family*/, const rocksdb::Slice& key, const rocksdb::Slice& /*value*/) override {
      keys += key.ToString() + " ";
      return Status::OK();
    }
    std::string keys;
  } handler;
  for (; updates->Valid(); updates->Next()) EXPECT_OK(updates->GetBatch().writeBatchPtr->Iterate(&handler));
  return handler.keys;
}
std::string KeysOfUpdates(rocksdb::DB* db, rocksdb::SequenceNumber since = 0) {
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  EXPECT_OK(db->GetUpdatesSince(since, &updates));
  const std::string keys = Follow(updates.get());
  EXPECT_OK(updates->status());
  return keys;
}

// Each way of writing that RocksDB has.
class WaysOfWritingTest : public FailedWritesDbTest, public ::testing::WithParamInterface<const char*> {
 protected:
  WaysOfWritingTest() {
    options_.enable_pipelined_write = GetParam() == std::string("pipelined");
    options_.two_write_queues = GetParam() == std::string("two_queues");
    options_.unordered_write = GetParam() == std::string("unordered");
  }
};

// A write that switches memtables when somebody else meets an error, and goes on, as RocksDB has it.
class WriteAfterTheErrorTest : public WaysOfWritingTest {
 protected:
  WriteAfterTheErrorTest() {
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    options_.max_write_buffer_number = 6;
    options_.WAL_ttl_seconds = 1000;
    // Both switch the memtables of both families.
    if (options_.unordered_write) {
      options_.max_total_wal_size = kFull;
    } else {
      options_.write_buffer_size = kFull;
    }
  }
  static constexpr size_t kFull = 64 << 10;
  static Status WriteToBoth(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* other, const std::string& value) {
    rocksdb::WriteBatch batch;
    EXPECT_OK(batch.Put("key", value));
    EXPECT_OK(batch.Put(other, "key", value));
    return db->Write(rocksdb::WriteOptions(), &batch);
  }
};
INSTANTIATE_TEST_SUITE_P(Writes, WriteAfterTheErrorTest,
                         ::testing::Values("plain", "pipelined", "two_queues", "unordered"));

TEST_P(WriteAfterTheErrorTest, IsKept) {
  const auto db = Open(options_);
  const auto other = MakeOtherFamily(db.get());
  ASSERT_OK(WriteToBoth(db.get(), other.get(), std::string(2 * kFull, 'f')));
  disk_->held_wals = true;
  std::future<Status> written =
      std::async(std::launch::async, [&] { return WriteToBoth(db.get(), other.get(), "acknowledged"); });
  ASSERT_TRUE(Await([&] { return disk_->waiting_wals > 0; }));
  disk_->unsynced = test::kWal;
  EXPECT_TRUE(db->SyncWAL().IsIOError());
  disk_->unsynced = 0;
  disk_->held_wals = false;
  ASSERT_OK(written.get());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_TRUE(ValueOf(db.get(), "key") == "acknowledged");
  ExpectInTheCopy([](rocksdb::DB* opened, rocksdb::ColumnFamilyHandle* family) {
    std::string value;
    EXPECT_OK(opened->Get(rocksdb::ReadOptions(), family, "key", &value));
    EXPECT_TRUE(value == "acknowledged");
  });
  EXPECT_OK(db->Put(rocksdb::WriteOptions(), "afterwards", "value"));
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  EXPECT_OK(db->GetUpdatesSince(1, &updates));
  while (updates->Valid()) updates->Next();
  EXPECT_OK(updates->status());
}

// Of whose first entry a full disk keeps a part. It would be damage in front of the next one.
class UnbegunWalTest : public FailedWritesDbTest, public ::testing::WithParamInterface<bool> {
 protected:
  UnbegunWalTest() {
    options_.wal_compression = rocksdb::kZSTD;
    options_.recycle_log_file_num = GetParam() ? 2 : 0;
  }
};
INSTANTIATE_TEST_SUITE_P(Recycles, UnbegunWalTest, ::testing::Bool());

TEST_P(UnbegunWalTest, OfAFlush) {
  const auto db = Open(options_);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "older value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  const auto other = MakeOtherFamily(db.get());
  disk_->torn = test::kWal;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsNoSpace());
  disk_->torn = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ExpectTheKeyInTheCopy();
}

TEST_P(UnbegunWalTest, OfAnOpening) {
  ASSERT_OK(Put(Open(options_).get()));
  options_.wal_recovery_mode = WALRecoveryMode::kAbsoluteConsistency;
  disk_->torn = test::kWal;
  rocksdb::DB* opened = nullptr;
  EXPECT_TRUE(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&opened)).IsNoSpace());
  disk_->torn = 0;
  EXPECT_EQ(ValueOf(Open(options_).get(), "key"), "value");
}

#if CAIRN_CAN_VERIFY_WALS
// The next WAL has the last sequence number of this one.
TEST_F(FailedWritesDbTest, WalsAreVerified) {
  options_.track_and_verify_wals = true;
  const auto db = Open(options_);
  const auto other = MakeOtherFamily(db.get());
  rocksdb::WriteBatch failed;
  ASSERT_OK(failed.Put("failed", "value"));
  FailASync(db.get(), disk_.get(), &failed);
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  rocksdb::Options options = test::BaseOptions();
  options.track_and_verify_wals = true;
  ExpectTheKeyInTheCopy(options);
}
#endif

// Who follows the WAL had the write that failed, and not the one that took its sequence number. Or, where writes have numbers
// before they succeed, a gap.
class UpdatesTest : public WaysOfWritingTest {
 protected:
  UpdatesTest() {
    options_.WAL_ttl_seconds = 1000;
    EXPECT_OK(failed_.Put("failed", "value"));
    EXPECT_OK(failed_.Put("failed, too", "value"));
  }
  void ExpectThoseThatHaveSucceeded(rocksdb::DB* db, const std::string& before = "key ") {
    EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
    const rocksdb::SequenceNumber last = db->GetLatestSequenceNumber();
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "afterwards", "value"));
    EXPECT_EQ(db->GetLatestSequenceNumber(), last + 1);
    EXPECT_EQ(KeysOfUpdates(db), before + "afterwards ");
  }

  rocksdb::WriteBatch failed_;
};

// RocksDB publishes the numbers of an unordered write that has failed, too. Who follows the WAL begins again behind them.
TEST_F(FailedWritesDbTest, UpdatesBehindAnUnorderedWrite) {
  options_.WAL_ttl_seconds = 1000;
  options_.unordered_write = true;
  const auto db = OpenWithKey(options_);
  rocksdb::WriteBatch failed;
  ASSERT_OK(failed.Put("failed", "value"));
  FailASync(db.get(), disk_.get(), &failed);
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "afterwards", "value"));
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_OK(db->GetUpdatesSince(0, &updates));
  EXPECT_EQ(Follow(updates.get()), "key ");
  EXPECT_TRUE(updates->status().IsNotFound()) << updates->status().ToString();
  EXPECT_EQ(KeysOfUpdates(db.get(), 2), "afterwards ");
}

TEST_P(UpdatesTest, AreThoseThatHaveSucceeded) {
  const auto db = OpenWithKey(options_);
  FailASync(db.get(), disk_.get(), &failed_);
  ExpectThoseThatHaveSucceeded(db.get());
}

TEST_P(UpdatesTest, TornBeforeThem) {
  const auto db = Open(options_);
  TearTheWal(db.get());
  ExpectThoseThatHaveSucceeded(db.get());
}

// The recovery waits for a compaction, and a client has the WAL closed meanwhile.
TEST_P(UpdatesTest, AnotherClosesTheWal) {
  options_.level0_file_num_compaction_trigger = 2;
  options_.max_background_jobs = 8;  // a flush beside a compaction
  std::promise<void> goes_on;
  std::atomic<bool> compacts{false};
  listener_->at_compaction = [&, waits = goes_on.get_future().share()] {
    compacts = true;
    waits.wait();
  };
  const auto db = Open(options_);
  for (int i = 0; i < 2; ++i) {
    for (const char* const key : {"key", "next"}) ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  ASSERT_TRUE(Await([&] { return compacts.load(); }));
  ASSERT_OK(Put(db.get()));
  FailASync(db.get(), disk_.get(), &failed_);
  BeginFlush(db.get());
  db->SyncWAL().PermitUncheckedError();  // as RocksDB's recovery and the Flush come, seldom refused
  goes_on.set_value();
  ExpectThoseThatHaveSucceeded(db.get(), "key next key next key ");
}

// The block that he has read holds the write that has failed since.
TEST_P(UpdatesTest, AFollowerHasReadAhead) {
  const auto db = OpenWithKey(options_);
  disk_->held_syncs = test::kWal;
  std::thread writer([&] { FailASync(db.get(), disk_.get(), &failed_); });
  ASSERT_TRUE(Await([&] { return disk_->waiting_syncs > 0; }));
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_OK(db->GetUpdatesSince(0, &updates));
  EXPECT_EQ(Follow(updates.get()), "key ");
  disk_->held_syncs = 0;
  writer.join();
  ExpectThoseThatHaveSucceeded(db.get());
  updates->Next();
  EXPECT_EQ(Follow(updates.get()), "");  // his list of files is older
  EXPECT_TRUE(updates->status().IsTryAgain()) << updates->status().ToString();
}

// It waits in the queue while the write fails, and takes the sequence number that the write has in the WAL, or with two queues
// the next one.
TEST_P(UpdatesTest, AnIngestionBehindTheFailedWrite) {
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "next", "value"));
  const std::string table = test::WriteTable(dir_ / "ingested.sst", {"key"});
  disk_->held_syncs = test::kWal;
  std::thread writer([&] { FailASync(db.get(), disk_.get(), &failed_); });
  ASSERT_TRUE(Await([&] { return disk_->waiting_syncs > 0; }));
  std::future<Status> ingested =
      test::BeginUntilItWaits([&] { return db->IngestExternalFile({table}, rocksdb::IngestExternalFileOptions()); });
  disk_->held_syncs = 0;
  writer.join();
  EXPECT_OK(ingested.get());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "afterwards", "value"));
  EXPECT_EQ(KeysOfUpdates(db.get(), db->GetLatestSequenceNumber()), "afterwards ");
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_OK(db->GetUpdatesSince(0, &updates));
  EXPECT_EQ(Follow(updates.get()), "key next ");  // what is ingested is a gap
}

// It raises the sequence numbers beyond the one that the write has.
TEST_P(UpdatesTest, AnImportBehindTheFailedWrite) {
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  {
    const auto source = Open(test::BaseOptions(), "source");
    for (int i = 0; i < 10; ++i) ASSERT_OK(source->Put(rocksdb::WriteOptions(), "imported", "value"));
    files = test::Export(source.get(), dir_ / "exported");
  }
  const auto db = OpenWithKey(options_);
  rocksdb::ColumnFamilyHandle* imported = nullptr;
  disk_->held = test::kManifest;
  std::thread imports([&] {
    EXPECT_OK(db->CreateColumnFamilyWithImport(rocksdb::ColumnFamilyOptions(), "imported",
                                               rocksdb::ImportColumnFamilyOptions(), *files, &imported));
  });
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));  // it has looked for errors
  disk_->held_syncs = test::kWal;
  std::future<Status> writer = test::BeginUntilItWaits([&] {  // behind the new family
    FailASync(db.get(), disk_.get(), &failed_);
    return Status::OK();
  });
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return disk_->waiting_syncs > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the import to wait; it may come later
  disk_->held_syncs = 0;
  writer.get().PermitUncheckedError();
  imports.join();
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  ASSERT_OK(db->GetUpdatesSince(0, &updates));
  EXPECT_EQ(Follow(updates.get()), "key ");
  if (imported != nullptr) EXPECT_OK(db->DestroyColumnFamilyHandle(imported));
}

INSTANTIATE_TEST_SUITE_P(Writes, UpdatesTest, ::testing::Values("plain", "pipelined", "two_queues"),
                         [](const auto& test) { return std::string(test.param); });

// A recovery that flushes only what has failed to be flushed has its flush waiting for a thread, and a client's Flush gives it more.
TEST_F(FailedWritesDbTest, ARecoveryOfAnotherKindFlushes) {
  env_->SetBackgroundThreads(1, rocksdb::Env::HIGH);
  const auto db = Open(options_);
  const auto other = MakeOtherFamily(db.get());
  disk_->retryable = test::kTable;
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  EXPECT_OK(db->Put(no_wal, "in no WAL", "value"));
  EXPECT_FALSE(db->Flush(rocksdb::FlushOptions()).ok());
  std::atomic<bool> busy{false}, goes_on{false};
  std::pair<std::atomic<bool>*, std::atomic<bool>*> flags{&busy, &goes_on};
  env_->Schedule(
      [](void* arg) {
        const auto& [begun, ends] = *static_cast<decltype(&flags)>(arg);
        *begun = true;
        while (!*ends) std::this_thread::yield();
      },
      &flags, rocksdb::Env::HIGH);
  ASSERT_TRUE(Await([&] { return busy.load(); }));
  ASSERT_TRUE(Await([&] { return env_->GetThreadPoolQueueLen(rocksdb::Env::HIGH) > 0; }));
  disk_->retryable = 0;
  rocksdb::WriteBatch batch;
  for (rocksdb::ColumnFamilyHandle* const family : {db->DefaultColumnFamily(), other.get()}) {
    ASSERT_OK(batch.Put(family, "key", "value"));
  }
  ASSERT_OK(db->Write(rocksdb::WriteOptions(), &batch));
  TearTheWal(db.get());
  BeginFlush(db.get());
  listener_->at_table = nullptr;
  listener_->at_flush = [&] {
    if (!std::filesystem::exists(copy_)) CopyTheDatabase();
  };
  goes_on = true;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ExpectTheKeyInTheCopy();
}

// Its own WAL could be synced, an older one could not. When the recovery comes, writers are held back until files are compacted.
TEST_F(FailedWritesDbTest, WritersAreHeldBackAtTheRecovery) {
  LetNothingBeCompacted();
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const auto db = Open(options_);
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "2"}, {"level0_slowdown_writes_trigger", "2"}}));
  ASSERT_OK(db->Put(synced, "key", "value"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  disk_->held = test::kTable;
  ASSERT_OK(Put(db.get()));
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  disk_->held_syncs = test::kWal;
  rocksdb::WriteBatch failed;
  ASSERT_OK(failed.Put("failed", "value"));
  std::thread writer([&] { FailASync(db.get(), disk_.get(), &failed); });
  ASSERT_TRUE(Await([&] { return disk_->waiting_syncs > 0; }));
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  disk_->held_syncs = 0;
  writer.join();
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "30"}, {"level0_slowdown_writes_trigger", "20"}}));
  EXPECT_OK(db->Put(synced, "afterwards", "value"));
  test::CopyDatabase(db.get(), copy_);
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), copy_, port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> copied(opened);
  std::string value;
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), "afterwards", &value));
  EXPECT_TRUE(copied->Get(rocksdb::ReadOptions(), "failed", &value).IsNotFound());
}

class BatchInPartTest : public WaysOfWritingTest {};
INSTANTIATE_TEST_SUITE_P(Writes, BatchInPartTest, ::testing::Values("plain", "unordered", "pipelined", "two_queues"),
                         [](const ::testing::TestParamInfo<const char*>& tested) { return std::string(tested.param); });

TEST_P(BatchInPartTest, NotAfterItHasFailed) {
  const auto db = Open(options_);
  const auto other = MakeOtherFamily(db.get());
  rocksdb::WriteBatch failed;
  ASSERT_OK(failed.Put("failed", "value"));
  ASSERT_OK(failed.Put(other.get(), "failed", "value"));
  FailASync(db.get(), disk_.get(), &failed);
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ExpectInTheCopy([](rocksdb::DB* copied, rocksdb::ColumnFamilyHandle* family) {
    std::string value;
    EXPECT_OK(copied->Get(rocksdb::ReadOptions(), family, "key", &value));
    EXPECT_TRUE(copied->Get(rocksdb::ReadOptions(), family, "failed", &value).IsNotFound()) << family->GetName();
  });
}

}  // namespace
}  // namespace cairn
