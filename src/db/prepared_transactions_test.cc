// Where RocksDB keeps transactions that are prepared: in the WAL, which a flush must not remove.

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "src/testutil/await.h"
#include "src/testutil/copy_database.h"
#include "test/support.h"

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
  static std::unique_ptr<Transaction> Prepare(TransactionDB* db, const std::string& key) {
    std::unique_ptr<Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    EXPECT_OK(transaction->SetName(key));
    EXPECT_OK(transaction->Put(key, "value"));
    EXPECT_OK(transaction->Prepare());
    return transaction;
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
  static int CountPrepared(TransactionDB* db) {
    std::vector<Transaction*> prepared;
    db->GetAllPreparedTransactions(&prepared);
    const int count = static_cast<int>(prepared.size());
    for (Transaction* const transaction : prepared) {
      EXPECT_OK(transaction->Rollback());
      delete transaction;
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
  EXPECT_EQ(CountPrepared(OpenCopy(db.get()).get()), 1);
  ASSERT_OK(transaction->Commit());
  WriteAndFlush(db, 1);
  const Database copied = OpenCopy(db.get());
  std::string value;
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), "key", &value));
  EXPECT_EQ(CountPrepared(copied.get()), 0);
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
  EXPECT_EQ(CountPrepared(OpenCopy(db.get()).get()), kThreads * kEach);
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

}  // namespace
}  // namespace cairn
