// Where RocksDB keeps transactions that are prepared: in the WAL, which a flush must not remove. Which sequence numbers those
// take that are written before they commit, what comes to their database meanwhile (tables, families), and what an opening rolls
// back.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/private_members.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "test/testutil/arriving_tables.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/copy_database.h"
#include "test/testutil/faulty_disk.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::Transaction;
using rocksdb::TransactionDB;

struct Database {
  Database() = default;
  Database(Database&&) = default;
  ~Database() {
    for (rocksdb::ColumnFamilyHandle* const family : families) EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  }
  TransactionDB* get() const { return db.get(); }
  TransactionDB* operator->() const { return db.get(); }

  std::unique_ptr<TransactionDB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
};

// How many there were.
int RollBackPrepared(TransactionDB* db) {
  std::vector<Transaction*> prepared;
  db->GetAllPreparedTransactions(&prepared);
  for (Transaction* const transaction : prepared) {
    EXPECT_OK(transaction->Rollback());
    delete transaction;
  }
  return static_cast<int>(prepared.size());
}

std::unique_ptr<Transaction> Prepare(TransactionDB* db, const std::string& key) {
  std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  EXPECT_OK(transaction->SetName(key));
  EXPECT_OK(transaction->Put(key, "value"));
  EXPECT_OK(transaction->Prepare());
  return transaction;
}

class PreparedTransactionsTest : public ::testing::TestWithParam<const char*> {
 protected:
  PreparedTransactionsTest() {
    options_.create_missing_column_families = true;
    options_.enable_pipelined_write = GetParam() == std::string("pipelined");
    options_.two_write_queues = GetParam() == std::string("two_queues");
  }
  // With two column families.
  Database Open(const std::string& path) {
    Database opened;
    TransactionDB* db = nullptr;
    EXPECT_OK(TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), path,
                                  {{"default", options_}, {"other", options_}}, &opened.families, &db));
    opened.db.reset(db);
    return opened;
  }
  // As a crash would leave it.
  Database OpenCopy(TransactionDB* db) {
    test::CopyDatabase(db, copy_);
    return Open(copy_);
  }
  // The WALs before are not needed for that family.
  static void WriteAndFlush(const Database& db, size_t family) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(db->Put(rocksdb::WriteOptions(), db.families[family], "another", "value"));
      EXPECT_OK(db->Flush(rocksdb::FlushOptions(), db.families[family]));
    }
  }
  static void WriteAndFlush(const Database& db) {
    WriteAndFlush(db, 0);
    WriteAndFlush(db, 1);
  }
  int Wals() const {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      if (file.path().extension() == ".log") ++count;
    }
    return count;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "db";
  const std::string copy_ = dir_ / "copy";
  rocksdb::Options options_ = test::BaseOptions();
};
INSTANTIATE_TEST_SUITE_P(Writes, PreparedTransactionsTest, ::testing::Values("plain", "pipelined", "two_queues"));

TEST_P(PreparedTransactionsTest, AFlushKeepsThem) {
  const Database db = Open(path_);
  const auto transaction = Prepare(db.get(), "key");
  WriteAndFlush(db);
  EXPECT_EQ(RollBackPrepared(OpenCopy(db.get()).get()), 1);
  ASSERT_OK(transaction->Commit());
  WriteAndFlush(db, 1);
  const Database copied = OpenCopy(db.get());
  std::string value;
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(RollBackPrepared(copied.get()), 0);
}

// Whose writes are of one group, or of several.
TEST_P(PreparedTransactionsTest, OfManyThreads) {
  constexpr int kThreads = 8;
  constexpr int kEach = 50;
  const Database db = Open(path_);
  std::vector<std::unique_ptr<Transaction>> transactions(size_t{kThreads} * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t * kEach; i < (t + 1) * kEach; ++i) transactions[i] = Prepare(db.get(), std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  WriteAndFlush(db);
  EXPECT_EQ(RollBackPrepared(OpenCopy(db.get()).get()), kThreads * kEach);
  for (const auto& transaction : transactions) ASSERT_OK(transaction->Commit());
  WriteAndFlush(db, 1);
  {
    const Database copied = OpenCopy(db.get());
    std::string value;
    for (int i = 0; i < kThreads * kEach; ++i) {
      ASSERT_OK(copied->Get(rocksdb::ReadOptions(), std::to_string(i), &value));
    }
  }
  // No WAL is kept for what is in tables.
  WriteAndFlush(db);
  EXPECT_TRUE(Await([&] { return Wals() <= 2; })) << Wals();
}

// What is torn is behind a Commit whose Prepare is in an older WAL, which is gone when the database is opened the second time: then
// RocksDB counted fewer sequence numbers up to there than the next WAL begins with, and took that for damage.
TEST_P(PreparedTransactionsTest, AWalThatACrashHasTorn) {
  {
    const Database db = Open(path_);
    const auto committed = Prepare(db.get(), "committed");
    WriteAndFlush(db);
    const auto prepared = Prepare(db.get(), "prepared");
    ASSERT_OK(committed->Commit());
    test::CopyDatabase(db.get(), copy_);
    ASSERT_OK(prepared->Rollback());
  }
  std::string newest;
  for (const auto& file : std::filesystem::directory_iterator(copy_)) {
    if (file.path().extension() == ".log") newest = std::max(newest, file.path().string());
  }
  // The head of an entry of more bytes than there are.
  std::ofstream(newest, std::ios::app | std::ios::binary) << std::string("\1\2\3\4\0\1\1torn", 11);
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const Database db = Open(copy_);
    ASSERT_NE(db.get(), nullptr);
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "committed", &value));
    for (int last = 0; last < i; ++last) EXPECT_OK(db->Get(rocksdb::ReadOptions(), std::to_string(last), &value));
    const std::unique_ptr<Transaction> prepared(db->GetTransactionByName("prepared"));
    EXPECT_NE(prepared, nullptr);
    WriteAndFlush(db);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), std::to_string(i), "value"));
  }
}

// As where power is lost, and an older WAL's end was not synced: what is behind it is not read, and must not be at the next opening
// either, when the older one may end well.
TEST_P(PreparedTransactionsTest, AWalBehindOneThatIsTornIsNeverRead) {
  {
    const Database db = Open(path_);
    const auto prepared = Prepare(db.get(), "prepared");
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "before", "value"));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "torn", "value"));
    ASSERT_OK(db->PauseBackgroundWork());
    ASSERT_OK(BeginFlush(db.get()));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
    ASSERT_OK(prepared->Commit());
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "last", "value"));
    test::CopyDatabase(db.get(), copy_);
    ASSERT_OK(db->ContinueBackgroundWork());
  }
  std::vector<std::string> wals;
  for (const auto& file : std::filesystem::directory_iterator(copy_)) {
    if (file.path().extension() == ".log" && file.file_size() > 0) wals.push_back(file.path());
  }
  std::sort(wals.begin(), wals.end());
  ASSERT_GE(wals.size(), 2u);
  const std::string& torn = wals[wals.size() - 2];
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) - 3);
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const Database db = Open(copy_);
    ASSERT_NE(db.get(), nullptr);
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "before", &value));
    for (const char* lost : {"torn", "behind", "last", "prepared"}) {
      EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), lost, &value).IsNotFound()) << lost;
    }
    for (int last = 0; last < i; ++last) EXPECT_OK(db->Get(rocksdb::ReadOptions(), std::to_string(last), &value));
    const std::unique_ptr<Transaction> prepared(db->GetTransactionByName("prepared"));
    EXPECT_NE(prepared, nullptr);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), std::to_string(i), "value"));
  }
}

// With two write queues a Commit takes a sequence number that no memtable has. RocksDB took those for free when tables came.
class NumbersOfCommitsTest : public ::testing::TestWithParam<rocksdb::TxnDBWritePolicy> {
 protected:
  static constexpr int kCommits = 10;

  NumbersOfCommitsTest() {
    options_.two_write_queues = true;
    options_.memtable_factory = rocksdb::Options().memtable_factory;
  }
  Database Open(const std::string& path) {
    rocksdb::TransactionDBOptions how;
    how.write_policy = GetParam();
    if (commit_cache_bits_ != 0) port::CommitCacheBitsOf(&how) = commit_cache_bits_;
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {{"default", options_}};
    if (std::filesystem::exists(path) && std::filesystem::exists(dir_ / "exported"))
      descriptors.emplace_back("imported", options_);
    Database opened;
    TransactionDB* db = nullptr;
    EXPECT_OK(TransactionDB::Open(options_, how, path, descriptors, &opened.families, &db));
    opened.db.reset(db);
    return opened;
  }
  // Each Commit takes a number. As long as an older transaction is prepared, readers look for what has committed since.
  static void CommitSome(TransactionDB* db) {
    std::vector<std::unique_ptr<Transaction>> transactions;
    for (int i = 0; i < kCommits; ++i) transactions.push_back(Prepare(db, "key" + std::to_string(i)));
    for (const auto& transaction : transactions) EXPECT_OK(transaction->Commit());
  }
  static void ExpectCommitted(rocksdb::DB* db) {
    std::string value;
    for (int i = 0; i < kCommits; ++i) {
      EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key" + std::to_string(i), &value));
    }
  }
  // Then, and when others have been written behind, and in a copy that a crash would have left.
  void ExpectCommittedThenAndLater(TransactionDB* db) {
    ExpectCommitted(db);
    CommitSome(db);
    ExpectCommitted(db);
    test::CopyDatabase(db, dir_ / "copy");
    const Database copied = Open(dir_ / "copy");
    ASSERT_NE(copied.get(), nullptr);
    ExpectCommitted(copied.get());
    EXPECT_EQ(RollBackPrepared(copied.get()), 1);
  }

  const test::TempDir dir_;
  rocksdb::Options options_ = test::BaseOptions();
  size_t commit_cache_bits_ = 0;  // 0: as RocksDB has it
};
INSTANTIATE_TEST_SUITE_P(Policies, NumbersOfCommitsTest,
                         ::testing::Values(rocksdb::WRITE_PREPARED, rocksdb::WRITE_UNPREPARED));

TEST_P(NumbersOfCommitsTest, AreNotThoseOfWhatIsIngested) {
  const std::string table = test::WriteTable(dir_ / "ingested.sst", {"a key before", "the key behind"});
  const Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  const std::unique_ptr<Transaction> older = Prepare(db.get(), "older");
  CommitSome(db.get());
  ASSERT_OK(db->IngestExternalFile({table}, rocksdb::IngestExternalFileOptions()));
  ExpectCommittedThenAndLater(db.get());
  ASSERT_OK(older->Commit());
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a key before", &value));
}

TEST_P(NumbersOfCommitsTest, AreNotThoseOfWhatIsImported) {
  Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  const std::unique_ptr<Transaction> older = Prepare(db.get(), "older");
  CommitSome(db.get());
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "source", port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> source(opened);
    for (uint64_t i = 0; i <= db->GetLatestSequenceNumber(); ++i) {
      ASSERT_OK(source->Put(rocksdb::WriteOptions(), "key", "imported"));
    }
    files = test::Export(source.get(), dir_ / "exported");
  }
  rocksdb::ColumnFamilyHandle* imported = nullptr;
  ASSERT_OK(
      db->CreateColumnFamilyWithImport(options_, "imported", rocksdb::ImportColumnFamilyOptions(), *files, &imported));
  db.families.push_back(imported);
  ExpectCommittedThenAndLater(db.get());
  ASSERT_OK(older->Commit());
}

// Each time takes a number. RocksDB lost count, and took the last one for committed, where an opening found the table flushed.
TEST_P(NumbersOfCommitsTest, AKeyThatCameThreeTimesIsNotReadBehindAnOpening) {
  {
    const Database db = Open(dir_ / "db");
    ASSERT_NE(db.get(), nullptr);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "committed"));
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("three times"));
    for (int i = 0; i < 3; ++i) ASSERT_OK(transaction->Put("key", "prepared"));
    ASSERT_OK(transaction->Prepare());
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    test::CopyDatabase(db.get(), dir_ / "copy");
    ASSERT_OK(transaction->Rollback());
  }
  const Database copied = Open(dir_ / "copy");
  ASSERT_NE(copied.get(), nullptr);
  std::string value;
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(value, "committed");
  EXPECT_EQ(RollBackPrepared(copied.get()), 1);
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(value, "committed");
}

// RocksDB took it, and died at the next opening, or never opened again.
TEST_P(NumbersOfCommitsTest, AnEntityIsRefused) {
  const rocksdb::WideColumns columns = {{rocksdb::kDefaultWideColumnName, "default"}, {"column", "value"}};
  {
    const Database db = Open(dir_ / "db");
    ASSERT_NE(db.get(), nullptr);
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("with an entity"));
    ASSERT_OK(transaction->PutEntity(db->DefaultColumnFamily(), "key", columns));
    const rocksdb::Status refused = transaction->Prepare();
    EXPECT_TRUE(refused.IsNotSupported()) << refused.ToString();
    ASSERT_OK(transaction->Rollback());
    test::CopyDatabase(db.get(), dir_ / "copy");
  }
  const Database copied = Open(dir_ / "copy");
  ASSERT_NE(copied.get(), nullptr);
  EXPECT_EQ(RollBackPrepared(copied.get()), 0);
  std::string value;
  EXPECT_TRUE(copied->Get(rocksdb::ReadOptions(), "key", &value).IsNotFound());
}

// RocksDB compacted it again and again, until the transaction ended.
TEST_P(NumbersOfCommitsTest, AFileOfWhatIsPreparedIsNotCompactedForNothing) {
  const Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "a key before", "value"));
  const std::unique_ptr<Transaction> prepared = Prepare(db.get(), "prepared");
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "the key behind", "value"));
  db->ReleaseSnapshot(snapshot);
  rocksdb::WaitForCompactOptions compacted;
  compacted.timeout = std::chrono::seconds(20);
  EXPECT_OK(db->WaitForCompact(compacted));
  ASSERT_OK(prepared->Commit());
  EXPECT_OK(db->WaitForCompact(compacted));
}

// RocksDB did the same until a snapshot was released that is older than its Commit.
TEST_P(NumbersOfCommitsTest, AFileOfWhatWasPreparedAtASnapshotIsNotCompactedForNothing) {
  Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  rocksdb::ColumnFamilyHandle* other = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "other", &other));
  db.families.push_back(other);
  const auto put = [&] { ASSERT_OK(db->Put(rocksdb::WriteOptions(), other, "key", "value")); };
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "a key before", "value"));
  const std::unique_ptr<Transaction> prepared = Prepare(db.get(), "prepared");
  for (int i = 0; i < 3; ++i) put();
  const rocksdb::Snapshot* const older = db->GetSnapshot();
  put();
  const rocksdb::Snapshot* const newer = db->GetSnapshot();
  ASSERT_OK(prepared->Commit());
  put();
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  put();
  db->ReleaseSnapshot(newer);
  rocksdb::WaitForCompactOptions compacted;
  compacted.timeout = std::chrono::seconds(20);
  EXPECT_OK(db->WaitForCompact(compacted));
  rocksdb::ReadOptions at_older;
  at_older.snapshot = older;
  std::string value;
  EXPECT_TRUE(db->Get(at_older, "prepared", &value).IsNotFound());
  db->ReleaseSnapshot(older);
  EXPECT_OK(db->WaitForCompact(compacted));
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "prepared", &value));
}

// RocksDB freed the map of families that the others were reading.
TEST_P(NumbersOfCommitsTest, AFamilyIsCreatedWhileOthersWrite) {
  constexpr int kKeys = 3000;
  Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  std::atomic<bool> ends{false};
  std::thread rolls_back([&] {
    while (!ends) {
      const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
      EXPECT_OK(transaction->SetName("rolled back"));
      for (int i = 0; i < kKeys; ++i) EXPECT_OK(transaction->Put(std::to_string(i), "value"));
      EXPECT_OK(transaction->Prepare());
      EXPECT_OK(transaction->Rollback());
    }
  });
  std::thread writes([&] {
    while (!ends) {
      rocksdb::WriteBatch batch;
      for (int i = 0; i < kKeys; ++i) EXPECT_OK(batch.Put("written" + std::to_string(i), "value"));
      EXPECT_OK(db->Write(rocksdb::WriteOptions(), &batch));
    }
  });
  for (int i = 0; i < 20; ++i) {
    rocksdb::ColumnFamilyHandle* family = nullptr;
    EXPECT_OK(db->CreateColumnFamily(options_, "family" + std::to_string(i), &family));
    db.families.push_back(family);
  }
  ends = true;
  rolls_back.join();
  writes.join();
}

// What comes from elsewhere was prepared by nobody. RocksDB did not read it as long as an older transaction was, and a Rollback put
// over it what had been there before.
class ArrivingTablesTest : public NumbersOfCommitsTest {
 protected:
  static std::string Get(rocksdb::DB* db, const std::string& key, const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions how;
    how.snapshot = snapshot;
    std::string value;
    const rocksdb::Status s = db->Get(how, db->DefaultColumnFamily(), key, &value);
    return s.ok() ? value : s.ToString();
  }
};
INSTANTIATE_TEST_SUITE_P(Policies, ArrivingTablesTest,
                         ::testing::Values(rocksdb::WRITE_PREPARED, rocksdb::WRITE_UNPREPARED));

TEST_P(ArrivingTablesTest, AreReadWhileAnOlderTransactionIsPrepared) {
  for (const bool two_queues : {false, true}) {
    SCOPED_TRACE(two_queues);
    options_.two_write_queues = two_queues;
    const std::string name = two_queues ? "two" : "one";
    const Database db = Open(dir_ / name);
    ASSERT_NE(db.get(), nullptr);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "both", "older"));
    const std::unique_ptr<Transaction> older = Prepare(db.get(), "prepared");
    const rocksdb::Snapshot* const before = db->GetSnapshot();
    // The second one lies above the first.
    const std::string first = test::WriteTable(dir_ / (name + "1.sst"), {"both", "first", "prepared"});
    const std::string second = test::WriteTable(dir_ / (name + "2.sst"), {"both", "second"});
    ASSERT_OK(db->IngestExternalFile({first, second}, rocksdb::IngestExternalFileOptions()));
    for (const char* key : {"both", "first", "second", "prepared"}) EXPECT_EQ(Get(db.get(), key), "ingested") << key;
    EXPECT_EQ(Get(db.get(), "both", before), "older");
    db->ReleaseSnapshot(before);
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    for (const char* key : {"both", "first", "second", "prepared"}) EXPECT_EQ(Get(db.get(), key), "ingested") << key;
    // It has locked its key; who ingests asks for no lock.
    ASSERT_OK(older->Rollback());
    EXPECT_EQ(Get(db.get(), "prepared"), "ingested");
  }
}

TEST_P(ArrivingTablesTest, ARollbackOverThem) {
  const Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "older"));
  const std::string table = test::WriteTable(dir_ / "ingested.sst", {"key", "new"});
  ASSERT_OK(db->IngestExternalFile({table}, rocksdb::IngestExternalFileOptions()));
  for (const char* key : {"key", "new"}) {
    const std::unique_ptr<Transaction> transaction = Prepare(db.get(), key);
    ASSERT_OK(transaction->Rollback());
    EXPECT_EQ(Get(db.get(), key), "ingested");
  }
}

// With numbers that the database has had before: what of it is prepared, committed, and the numbers of commits.
TEST_P(ArrivingTablesTest, AnImportedFamilyOfOlderNumbers) {
  constexpr int kKeys = 30;
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "source", port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> source(opened);
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(source->Put(rocksdb::WriteOptions(), std::to_string(i), "imported"));
    files = test::Export(source.get(), dir_ / "exported");
  }
  Database db = Open(dir_ / "db");
  ASSERT_NE(db.get(), nullptr);
  while (db->GetLatestSequenceNumber() <= kKeys + 1) CommitSome(db.get());
  const std::unique_ptr<Transaction> older = Prepare(db.get(), "older");
  CommitSome(db.get());
  rocksdb::ColumnFamilyHandle* imported = nullptr;
  ASSERT_OK(
      db->CreateColumnFamilyWithImport(options_, "imported", rocksdb::ImportColumnFamilyOptions(), *files, &imported));
  db.families.push_back(imported);
  ExpectCommittedThenAndLater(db.get());
  for (int i = 0; i < kKeys; ++i) {
    const std::unique_ptr<Transaction> over(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(over->SetName("over"));
    ASSERT_OK(over->Put(imported, std::to_string(i), "value"));
    ASSERT_OK(over->Prepare());
    ASSERT_OK(over->Rollback());
    std::string value;
    ASSERT_OK(db->Get(rocksdb::ReadOptions(), imported, std::to_string(i), &value));
    EXPECT_EQ(value, "imported");
  }
  EXPECT_EQ(Get(db.get(), "older"), "NotFound: ");
  ASSERT_OK(older->Commit());
  EXPECT_EQ(Get(db.get(), "older"), "value");
}

TEST_P(ArrivingTablesTest, AnImportedFamily) {
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "source", port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> source(opened);
    // No number of what is prepared where it comes to: it is not read as long as that is (docs/guide/faults.md).
    for (int i = 0; i < 100; ++i) ASSERT_OK(source->Put(rocksdb::WriteOptions(), "0", "older"));
    for (int i = 0; i < 5000; ++i) {
      ASSERT_OK(source->Put(rocksdb::WriteOptions(), std::to_string(i), "imported"));
    }
    files = test::Export(source.get(), dir_ / "exported");
  }
  // How many commits the database keeps: all that the imported numbers are, and a few.
  for (const size_t bits : {23, 5}) {
    SCOPED_TRACE(bits);
    commit_cache_bits_ = bits;
    Database db = Open(dir_ / ("db" + std::to_string(bits)));
    ASSERT_NE(db.get(), nullptr);
    const std::unique_ptr<Transaction> older = Prepare(db.get(), "older");
    const rocksdb::Snapshot* const before = db->GetSnapshot();
    rocksdb::ColumnFamilyHandle* imported = nullptr;
    ASSERT_OK(db->CreateColumnFamilyWithImport(options_, "imported", rocksdb::ImportColumnFamilyOptions(), *files,
                                               &imported));
    db.families.push_back(imported);
    std::string value;
    for (int i = 0; i < 5000; ++i) {
      ASSERT_OK(db->Get(rocksdb::ReadOptions(), imported, std::to_string(i), &value));
    }
    EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "older", &value).IsNotFound());
    const std::unique_ptr<Transaction> over(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(over->SetName("over"));
    ASSERT_OK(over->Put(imported, "4999", "value"));
    ASSERT_OK(over->Prepare());
    ASSERT_OK(over->Rollback());
    ASSERT_OK(db->Get(rocksdb::ReadOptions(), imported, "4999", &value));
    EXPECT_EQ(value, "imported");
    ASSERT_OK(older->Commit());
    EXPECT_EQ(Get(db.get(), "older"), "value");
    rocksdb::ReadOptions at_before;
    at_before.snapshot = before;
    EXPECT_TRUE(db->Get(at_before, "older", &value).IsNotFound());
    db->ReleaseSnapshot(before);
  }
}

// A family is dropped behind a transaction, and the WAL of that is still there at the next opening, which was the end of the process.
class DroppedFamilyTest : public ::testing::TestWithParam<std::tuple<rocksdb::TxnDBWritePolicy, bool>> {
 protected:
  DroppedFamilyTest() {
    how_.write_policy = std::get<0>(GetParam());
    options_.two_write_queues = std::get<1>(GetParam());
  }
  std::unique_ptr<TransactionDB> Open(const std::string& path) {
    TransactionDB* db = nullptr;
    EXPECT_OK(TransactionDB::Open(options_, how_, path, &db));
    return std::unique_ptr<TransactionDB>(db);
  }
  // Of a crash. What ends the transaction: before the family is dropped.
  template <typename End>
  void DropAndCopy(const End& end) {
    const auto db = Open(dir_ / "db");
    ASSERT_NE(db, nullptr);
    rocksdb::ColumnFamilyHandle* dropped = nullptr;
    ASSERT_OK(db->CreateColumnFamily(options_, "dropped", &dropped));
    for (const char* const key : {"a", "b"}) ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, "older"));
    rocksdb::WriteOptions without_dropped;
    without_dropped.ignore_missing_column_families = true;
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(without_dropped));
    ASSERT_OK(transaction->SetName("over two families"));
    ASSERT_OK(transaction->Put(dropped, "a", "of the other family"));
    ASSERT_OK(transaction->Delete(dropped, "b"));
    ASSERT_OK(transaction->Put(dropped, "a", "of the other family"));
    ASSERT_OK(transaction->Put("b", "newer"));  // behind one that takes a sequence number
    ASSERT_OK(transaction->Prepare());
    end(transaction.get());
    ASSERT_OK(db->DropColumnFamily(dropped));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
    test::CopyDatabase(db.get(), copy_);
    if (transaction->GetState() == Transaction::PREPARED) ASSERT_OK(transaction->Rollback());
    ASSERT_OK(db->DestroyColumnFamilyHandle(dropped));
  }
  void ExpectInTheCopy(const std::string& of_b) {
    for (int i = 0; i < 2; ++i) {
      const auto db = Open(copy_);
      ASSERT_NE(db, nullptr);
      Expect(db.get(), of_b);
    }
  }
  static void Expect(TransactionDB* db, const std::string& of_b) {
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
    EXPECT_EQ(value, "older");
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "b", &value));
    EXPECT_EQ(value, of_b);
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "behind", &value));
  }
  void End(bool commits) {
    DropAndCopy([](Transaction*) {});
    {
      const auto db = Open(copy_);
      ASSERT_NE(db, nullptr);
      Expect(db.get(), "older");
      const std::unique_ptr<Transaction> transaction(db->GetTransactionByName("over two families"));
      ASSERT_NE(transaction, nullptr);
      ASSERT_OK(commits ? transaction->Commit() : transaction->Rollback());
      Expect(db.get(), commits ? "newer" : "older");
      // What an opening finds behind it has the sequence numbers that were given.
      const std::unique_ptr<Transaction> later = Prepare(db.get(), "later");
      test::CopyDatabase(db.get(), dir_ / "again");
      ASSERT_OK(later->Rollback());
    }
    {
      const auto again = Open(dir_ / "again");
      ASSERT_NE(again, nullptr);
      Expect(again.get(), commits ? "newer" : "older");
      EXPECT_EQ(RollBackPrepared(again.get()), 1);
    }
    ExpectInTheCopy(commits ? "newer" : "older");
  }

  const test::TempDir dir_;
  const std::string copy_ = dir_ / "copy";
  rocksdb::Options options_ = test::BaseOptions();
  rocksdb::TransactionDBOptions how_;
};
INSTANTIATE_TEST_SUITE_P(Policies, DroppedFamilyTest,
                         ::testing::Combine(::testing::Values(rocksdb::WRITE_COMMITTED, rocksdb::WRITE_PREPARED,
                                                              rocksdb::WRITE_UNPREPARED),
                                            ::testing::Bool()));

TEST_P(DroppedFamilyTest, BehindACommit) {
  DropAndCopy([](Transaction* transaction) { ASSERT_OK(transaction->Commit()); });
  ExpectInTheCopy("newer");
}

TEST_P(DroppedFamilyTest, BehindARollback) {
  DropAndCopy([](Transaction* transaction) { ASSERT_OK(transaction->Rollback()); });
  ExpectInTheCopy("older");
}

// Where nothing was opened since. Its handle is still there.
TEST_P(DroppedFamilyTest, BehindAPrepareThatIsCommittedAtOnce) {
  const auto db = Open(dir_ / "live");
  ASSERT_NE(db, nullptr);
  rocksdb::ColumnFamilyHandle* dropped = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "dropped", &dropped));
  const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
  ASSERT_OK(transaction->SetName("over two families"));
  ASSERT_OK(transaction->Put(dropped, "a", "value"));
  ASSERT_OK(transaction->Put("b", "value"));
  ASSERT_OK(transaction->Prepare());
  ASSERT_OK(db->DropColumnFamily(dropped));
  ASSERT_OK(transaction->Commit());
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "b", &value));
  test::CopyDatabase(db.get(), dir_ / "of live");
  ASSERT_OK(db->DestroyColumnFamilyHandle(dropped));
  const auto again = Open(dir_ / "of live");
  ASSERT_NE(again, nullptr);
  for (const char* const key : {"b", "behind"}) EXPECT_OK(again->Get(rocksdb::ReadOptions(), key, &value));
}

TEST_P(DroppedFamilyTest, BehindAPrepareThatIsCommittedLater) { End(/*commits=*/true); }
TEST_P(DroppedFamilyTest, BehindAPrepareThatIsRolledBackLater) { End(/*commits=*/false); }

// Who reads the Commit asks each family for the size of its timestamps. Without the dropped one it is read, too, by who opens some of
// the families only.
TEST(FamiliesOfTimestampsTest, OneIsDroppedOrNotOpened) {
  const test::TempDir dir;
  rocksdb::Options options = test::BaseOptions();
  options.allow_2pc = true;
  rocksdb::Options timed = options;
  timed.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  const std::string dropped_from = dir / "dropped";
  const std::string complete = dir / "complete";
  {
    TransactionDB* opened = nullptr;
    ASSERT_OK(TransactionDB::Open(options, rocksdb::TransactionDBOptions(), dir / "db", &opened));
    const std::unique_ptr<TransactionDB> db(opened);
    rocksdb::ColumnFamilyHandle* other = nullptr;
    rocksdb::ColumnFamilyHandle* times = nullptr;
    ASSERT_OK(db->CreateColumnFamily(options, "other", &other));
    ASSERT_OK(db->CreateColumnFamily(timed, "times", &times));
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("over three families"));
    ASSERT_OK(transaction->Put(other, "key", "value"));
    ASSERT_OK(transaction->Put(times, "key", "value"));
    ASSERT_OK(transaction->Put("key", "value"));
    ASSERT_OK(transaction->Prepare());
    ASSERT_OK(transaction->SetCommitTimestamp(100));
    ASSERT_OK(transaction->Commit());
    test::CopyDatabase(db.get(), complete);
    ASSERT_OK(db->DropColumnFamily(other));
    test::CopyDatabase(db.get(), dropped_from);
    ASSERT_OK(db->DestroyColumnFamilyHandle(other));
    ASSERT_OK(db->DestroyColumnFamilyHandle(times));
  }
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", options}, {"times", timed}};
  const auto expect = [](rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& handles) {
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
    std::string time;
    const rocksdb::Slice at = rocksdb::EncodeU64Ts(100, &time);
    rocksdb::ReadOptions read;
    read.timestamp = &at;
    EXPECT_OK(db->Get(read, handles[1], "key", &value));
    for (rocksdb::ColumnFamilyHandle* const handle : handles) EXPECT_OK(db->DestroyColumnFamilyHandle(handle));
  };
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    TransactionDB* opened = nullptr;
    ASSERT_OK(TransactionDB::Open(options, rocksdb::TransactionDBOptions(), dropped_from, families, &handles, &opened));
    const std::unique_ptr<TransactionDB> db(opened);
    expect(db.get(), handles);
  }
  options.max_open_files = -1;
  for (const bool is_secondary : {false, true}) {
    SCOPED_TRACE(is_secondary);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(is_secondary ? rocksdb::DB::OpenAsSecondary(options, complete, dir / "secondary", families, &handles,
                                                          port::Into(&opened))
                           : rocksdb::DB::OpenForReadOnly(options, complete, families, &handles, port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> db(opened);
    expect(db.get(), handles);
  }
}

// A transaction that was written and never prepared is rolled back when its database is opened. RocksDB did not say that what it
// puts back has committed, and found the transaction's values again; and when it was killed meanwhile, left a part of them.
class RolledBackAtOpeningTest : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr const char* kKeys[] = {"a", "b", "c"};

  RolledBackAtOpeningTest() {
    options_.two_write_queues = GetParam();
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    how_.write_policy = rocksdb::WRITE_UNPREPARED;
    how_.default_write_batch_flush_threshold = 1;
    how_.rollback_merge_operands = true;
  }
  std::unique_ptr<TransactionDB> Open(const std::string& path, rocksdb::Env* env = rocksdb::Env::Default()) {
    rocksdb::Options options = options_;
    options.env = env;
    TransactionDB* db = nullptr;
    EXPECT_OK(TransactionDB::Open(options, how_, path, &db));
    return std::unique_ptr<TransactionDB>(db);
  }
  // As a crash leaves it.
  void MakeKilled(bool beside_prepared = false) {
    const auto db = Open(dir_ / "db");
    ASSERT_NE(db, nullptr);
    const std::unique_ptr<Transaction> older = beside_prepared ? Prepare(db.get(), "older") : nullptr;
    for (const char* key : kKeys) ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, "committed"));
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("killed"));
    for (const char* key : kKeys) ASSERT_OK(transaction->Put(key, "never committed"));
    ASSERT_OK(transaction->Put("new", "never committed"));
    ASSERT_OK(transaction->Delete("a"));
    ASSERT_OK(transaction->Put("new", "never committed"));
    test::CopyDatabase(db.get(), killed_);
    ASSERT_OK(transaction->Rollback());
    if (older != nullptr) ASSERT_OK(older->Rollback());
  }
  // It has let go of "key", which another one writes to then: `write` returns that, if it is left prepared.
  template <typename Write>
  void MakeKilledBehindASavePoint(const Write& write) {
    const auto db = Open(dir_ / "db");
    ASSERT_NE(db, nullptr);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "before"));
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("killed"));
    ASSERT_OK(transaction->Put("other", "never committed"));
    transaction->SetSavePoint();
    ASSERT_OK(transaction->Put("key", "never committed"));
    ASSERT_OK(transaction->Put("another", "never committed"));
    ASSERT_OK(transaction->RollbackToSavePoint());
    const std::unique_ptr<Transaction> prepared = write(db.get());
    test::CopyDatabase(db.get(), killed_);
    if (prepared != nullptr) ASSERT_OK(prepared->Rollback());
    ASSERT_OK(transaction->Rollback());
  }
  static void ExpectCommitted(TransactionDB* db, const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions how;
    how.snapshot = snapshot;
    std::string value;
    for (const char* key : kKeys) {
      EXPECT_OK(db->Get(how, key, &value));
      EXPECT_EQ(value, "committed") << key;
    }
    EXPECT_TRUE(db->Get(how, "new", &value).IsNotFound());
  }

  const test::TempDir dir_;
  const std::string killed_ = dir_ / "killed";
  rocksdb::Options options_ = test::BaseOptions();
  rocksdb::TransactionDBOptions how_;
};
INSTANTIATE_TEST_SUITE_P(Queues, RolledBackAtOpeningTest, ::testing::Bool());

TEST_P(RolledBackAtOpeningTest, StaysSoBehindOtherRollbacks) {
  MakeKilled();
  {
    const auto db = Open(killed_);
    ExpectCommitted(db.get());
    for (const char* key : {"a", "b", "c", "new"}) ASSERT_OK(Prepare(db.get(), key)->Rollback());
    ExpectCommitted(db.get());
  }
  ExpectCommitted(Open(killed_).get());
}

// Who has rolled back to a savepoint has let go of what was written since.
TEST_P(RolledBackAtOpeningTest, LeavesWhatOthersHaveCommittedSince) {
  MakeKilledBehindASavePoint([](TransactionDB* db) -> std::unique_ptr<Transaction> {
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "acknowledged"));
    return nullptr;
  });
  const auto db = Open(killed_);
  ASSERT_NE(db, nullptr);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(value, "acknowledged");
  EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "other", &value).IsNotFound());
}

TEST_P(RolledBackAtOpeningTest, LeavesWhatOthersHavePreparedSince) {
  MakeKilledBehindASavePoint([](TransactionDB* db) { return Prepare(db, "key"); });
  std::string value;
  {
    const auto db = Open(killed_);
    ASSERT_NE(db, nullptr);
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
    EXPECT_EQ(value, "before");
    const std::unique_ptr<Transaction> prepared(db->GetTransactionByName("key"));
    ASSERT_NE(prepared, nullptr);
    ASSERT_OK(prepared->Commit());
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
    EXPECT_EQ(value, "value");
  }
  EXPECT_OK(Open(killed_)->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(value, "value");
}

// RocksDB left the merges there, and of an entity no more than its default column.
TEST_P(RolledBackAtOpeningTest, MergesAndEntities) {
  how_.rollback_merge_operands = false;
  options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
  const rocksdb::WideColumns columns = {{rocksdb::kDefaultWideColumnName, "of the entity"}, {"column", "value"}};
  {
    const auto db = Open(dir_ / "db");
    ASSERT_NE(db, nullptr);
    ASSERT_OK(db->Merge(rocksdb::WriteOptions(), "merged", "committed"));
    ASSERT_OK(db->PutEntity(rocksdb::WriteOptions(), db->DefaultColumnFamily(), "entity", columns));
    const std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    ASSERT_OK(transaction->SetName("killed"));
    ASSERT_OK(transaction->Merge("merged", "never committed"));
    ASSERT_OK(transaction->Put("entity", "never committed"));
    ASSERT_OK(transaction->Put("another", "never committed"));
    test::CopyDatabase(db.get(), killed_);
    ASSERT_OK(transaction->Rollback());
  }
  for (int i = 0; i < 2; ++i) {
    const auto db = Open(killed_);
    ASSERT_NE(db, nullptr);
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "merged", &value));
    EXPECT_EQ(value, "committed");
    rocksdb::PinnableWideColumns entity;
    EXPECT_OK(db->GetEntity(rocksdb::ReadOptions(), db->DefaultColumnFamily(), "entity", &entity));
    EXPECT_EQ(entity.columns(), columns);
    EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "another", &value).IsNotFound());
  }
}

TEST_P(RolledBackAtOpeningTest, StaysSoForASnapshot) {
  MakeKilled();
  const auto db = Open(killed_);
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  for (const char* key : {"a", "b", "c", "new"}) ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, "newer"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  ExpectCommitted(db.get(), snapshot);
  db->ReleaseSnapshot(snapshot);
}

TEST_P(RolledBackAtOpeningTest, StaysSoWhileAnotherIsPrepared) {
  MakeKilled(/*beside_prepared=*/true);
  const auto db = Open(killed_);
  ExpectCommitted(db.get());
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  ExpectCommitted(db.get());
  EXPECT_EQ(RollBackPrepared(db.get()), 1);
  ExpectCommitted(db.get());
}

TEST_P(RolledBackAtOpeningTest, OfATransactionThatIsKilledMeanwhile) {
  MakeKilled();
  const auto disk = std::make_shared<test::FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(disk);
  int copies = 0;
  std::atomic<bool> opens{true};
  disk->appends = [&](test::Kind kind) {
    if (kind == test::kWal && opens) std::filesystem::copy(killed_, dir_ / ("copy" + std::to_string(copies++)));
  };
  {
    const auto db = Open(killed_, env.get());
    opens = false;
    ExpectCommitted(db.get());
  }
  EXPECT_GE(copies, 3);
  for (int copy = 0; copy < copies; ++copy) {
    SCOPED_TRACE(copy);
    const auto db = Open(dir_ / ("copy" + std::to_string(copy)));
    ASSERT_NE(db, nullptr);
    ExpectCommitted(db.get());
  }
}

}  // namespace
}  // namespace cairn
