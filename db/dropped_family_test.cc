// Locks of transactions while a column family is dropped.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/until_it_waits.h"

namespace cairn {
namespace {

// Which the process did not survive: a thread's list of all families' locks was freed under it.
TEST(DroppedFamilyTest, OthersLockKeysMeanwhile) {
  const test::TempDir dir;
  rocksdb::TransactionDB* opened = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(test::BaseOptions(), rocksdb::TransactionDBOptions(), dir / "db", &opened));
  const std::unique_ptr<rocksdb::TransactionDB> db(opened);
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const std::string key(1, static_cast<char>('a' + i));
      while (!ends) {
        const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
        EXPECT_OK(transaction->GetForUpdate(rocksdb::ReadOptions(), key, static_cast<std::string*>(nullptr)));
        EXPECT_OK(transaction->Rollback());
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    rocksdb::ColumnFamilyHandle* family = nullptr;
    ASSERT_OK(db->CreateColumnFamily(test::BaseOptions(), "family", &family));
    const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    EXPECT_OK(transaction->Put(family, "key", "value"));
    EXPECT_OK(transaction->Rollback());
    EXPECT_OK(db->DropColumnFamily(family));
    EXPECT_TRUE(transaction->Put(family, "key", "value").IsInvalidArgument());
    EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cairn
