// What is still done for a column family that is dropped meanwhile, and by writes while one is created or dropped.

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/until_it_waits.h"

namespace cairn {
namespace {

// A first deletion waits.
class HeldDeletions : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "HeldDeletions"; }
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    const bool first = holds && waiting++ == 0;
    while (first && holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FileSystemWrapper::DeleteFile(name, options, context);
  }
  std::atomic<bool> holds{false};
  std::atomic<int> waiting{0};
};

class StallListener : public rocksdb::EventListener {
 public:
  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    if (info.cf_name == "family") ++changes;
  }
  std::atomic<int> changes{0};
};

// A flush slows its writes down, or a compaction no longer does, and deletes files before listeners hear of that: RocksDB looks
// for the listeners in the options of the family, which are gone.
TEST(DroppedFamilyTest, ListenersHearOfItsWrites) {
  const test::TempDir dir;
  const auto disk = std::make_shared<HeldDeletions>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(disk);
  const auto listener = std::make_shared<StallListener>();
  rocksdb::Options options = test::BaseOptions();
  options.env = env.get();
  options.listeners = {listener};
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 4;
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options, "family", &family));
  int changes = 0;
  for (int i = 0; i < 4; ++i) {
    if (i == 3) {
      ASSERT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));  // and for deletions of the flushes before
      changes = listener->changes;
      disk->holds = true;
    }
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "value"));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), family, "the key behind", "value"));
    rocksdb::FlushOptions flush;
    flush.wait = i < 3;
    ASSERT_OK(db->Flush(flush, family));
  }
  EXPECT_TRUE(Await([&] { return disk->waiting > 0; }));
  EXPECT_OK(db->DropColumnFamily(family));
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  disk->holds = false;
  EXPECT_TRUE(Await([&] { return listener->changes > changes; }));
  EXPECT_OK(db->Close());
}

// Of keys: holds those who compare them, while it is told to.
class HeldComparator : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "HeldComparator"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    if (holds) ++waiting;
    while (holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return a.compare(b);
  }
  void FindShortestSeparator(std::string* /*start*/, const rocksdb::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

  std::atomic<bool> holds{false};
  mutable std::atomic<int> waiting{0};
};

// With unordered_write a write is not in the queue any more when it looks for its families, in a map that RocksDB changed meanwhile.
TEST(DroppedFamilyTest, WaitsForWritesThatAreUnordered) {
  const test::TempDir dir;
  HeldComparator comparator;
  rocksdb::Options options = test::BaseOptions();
  options.unordered_write = true;
  options.comparator = &comparator;
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> db(opened);
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  rocksdb::ColumnFamilyHandle* family = nullptr;
  const std::function<rocksdb::Status()> changes[] = {
      [&] { return db->CreateColumnFamily(test::BaseOptions(), "family", &family); },
      [&] { return db->DropColumnFamily(family); }};
  for (const auto& change : changes) {
    comparator.waiting = 0;
    comparator.holds = true;
    std::future<rocksdb::Status> written =
        std::async(std::launch::async, [&] { return db->Put(rocksdb::WriteOptions(), "another", "value"); });
    EXPECT_TRUE(Await([&] { return comparator.waiting > 0; }));
    std::future<rocksdb::Status> changed = test::BeginUntilItWaits(change);
    comparator.holds = false;
    EXPECT_OK(written.get());
    EXPECT_OK(changed.get());
  }
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
}

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
