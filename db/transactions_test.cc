// Transactions of column families of which one is dropped meanwhile: they end, let go of all that they have locked, and the database
// goes on.

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "db/write_batch_internal.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/faulty_disk.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::Transaction;
using rocksdb::TransactionDB;

class TransactionsTest : public ::testing::TestWithParam<std::tuple<rocksdb::TxnDBWritePolicy, bool>> {
 protected:
  static constexpr const char* kDropped = "b";
  enum class How { kKeepsHandle, kDestroysHandle, kOfBaseDatabase };

  TransactionsTest() {
    how_.write_policy = std::get<0>(GetParam());
    options_.two_write_queues = std::get<1>(GetParam());
  }
  ~TransactionsTest() override { Close(); }
  // A new one, with several families.
  void Open() {
    std::filesystem::remove_all(path_);
    TransactionDB* db = nullptr;
    ASSERT_OK(TransactionDB::Open(options_, how_, path_, &db));
    db_.reset(db);
    for (const char* const name : {"a", kDropped, "c", "d"}) {
      ASSERT_OK(db_->CreateColumnFamily(options_, name, &families_[name]));
    }
    ASSERT_NO_FATAL_FAILURE(PutInEach("older"));
  }
  void Close() {
    for (const auto& [name, family] : families_) EXPECT_OK(db_->DestroyColumnFamilyHandle(family));
    families_.clear();
    for (rocksdb::ColumnFamilyHandle* const family : dropped_) EXPECT_OK(db_->DestroyColumnFamilyHandle(family));
    dropped_.clear();
    db_.reset();
  }
  void PutInEach(const std::string& value) {
    for (const auto& [name, family] : families_) {
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), family, "key", value));
    }
  }
  void PutInEach(Transaction* transaction, const std::string& value) {
    for (const auto& [name, family] : families_) ASSERT_OK(transaction->Put(family, "key", value));
  }
  std::unique_ptr<Transaction> Begin(const std::string& name) {
    rocksdb::TransactionOptions options;
    options.write_batch_flush_threshold = 1;  // what WRITE_UNPREPARED writes is in the memtable at once
    std::unique_ptr<Transaction> transaction(db_->BeginTransaction(rocksdb::WriteOptions(), options));
    EXPECT_OK(transaction->SetName(name));
    return transaction;
  }
  std::unique_ptr<Transaction> BeginWithSnapshot() {
    rocksdb::TransactionOptions options;
    options.set_snapshot = true;
    return std::unique_ptr<Transaction>(db_->BeginTransaction(rocksdb::WriteOptions(), options));
  }
  // So that a check for conflicts asks the tables. REQUIRES: memtables are not kept (max_write_buffer_size_to_maintain is 1).
  void FlushTwice() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), "another", "value"));
      ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    }
  }
  // Drops a family of which nobody knows, in a thread that is held up until disk_->held is 0: writers come together meanwhile.
  std::thread DropAnother() {
    rocksdb::ColumnFamilyHandle* another = nullptr;
    EXPECT_OK(db_->CreateColumnFamily(options_, "another", &another));
    dropped_.push_back(another);
    disk_->waiting = 0;
    disk_->held = test::kManifest;
    std::thread drops([this, another] { EXPECT_OK(db_->GetBaseDB()->DropColumnFamily(another)); });
    EXPECT_TRUE(Await([&] { return disk_->waiting > 0; }));
    return drops;
  }
  void Drop(How how) {
    rocksdb::ColumnFamilyHandle* const family = families_[kDropped];
    families_.erase(kDropped);
    ASSERT_OK((how == How::kOfBaseDatabase ? db_->GetBaseDB() : db_.get())->DropColumnFamily(family));
    if (how == How::kDestroysHandle) {
      ASSERT_OK(db_->DestroyColumnFamilyHandle(family));
    } else {
      dropped_.push_back(family);
    }
  }
  static void Sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }
  // And that nobody has a lock, and it is written to.
  void Expect(const std::string& value) {
    for (const auto& [name, family] : families_) {
      std::string found;
      EXPECT_OK(db_->Get(rocksdb::ReadOptions(), family, "key", &found));
      EXPECT_EQ(found, value) << name;
    }
    PutInEach("newest");
  }
  // False: there are none before RocksDB 11.
  template <typename Options>
  static auto UsePerKeyLocks(Options* options, int /*unused*/) -> decltype(options->use_per_key_point_lock_mgr) {
    return options->use_per_key_point_lock_mgr = true;
  }
  template <typename Options>
  static bool UsePerKeyLocks(Options* /*options*/, long /*unused*/) {
    return false;
  }
  void EndPrepared() {
    for (const How how : {How::kKeepsHandle, How::kDestroysHandle, How::kOfBaseDatabase}) {
      for (const bool commits : {false, true}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(how)) + (commits ? " commits" : " rolls back"));
        ASSERT_NO_FATAL_FAILURE(Open());
        std::unique_ptr<Transaction> transaction = Begin("over all families");
        ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
        ASSERT_OK(transaction->Prepare());
        ASSERT_NO_FATAL_FAILURE(Drop(how));
        ASSERT_OK(commits ? transaction->Commit() : transaction->Rollback());
        transaction.reset();
        ASSERT_NO_FATAL_FAILURE(Expect(commits ? "newer" : "older"));
        Close();
      }
    }
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "db";
  const std::shared_ptr<test::FaultyDisk> disk_ = std::make_shared<test::FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
  rocksdb::Options options_ = test::BaseOptions();
  rocksdb::TransactionDBOptions how_;
  std::unique_ptr<TransactionDB> db_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> families_;
  std::vector<rocksdb::ColumnFamilyHandle*> dropped_;
};
INSTANTIATE_TEST_SUITE_P(Policies, TransactionsTest,
                         ::testing::Combine(::testing::Values(rocksdb::WRITE_COMMITTED, rocksdb::WRITE_PREPARED,
                                                              rocksdb::WRITE_UNPREPARED),
                                            ::testing::Bool()));

TEST_P(TransactionsTest, APreparedOneEnds) { EndPrepared(); }

TEST_P(TransactionsTest, APreparedOneEndsWithLocksOfSingleKeys) {
  if (!UsePerKeyLocks(&how_, 0)) GTEST_SKIP() << "this RocksDB has none";
  EndPrepared();
}

TEST_P(TransactionsTest, OneThatIsNotPreparedIsRolledBack) {
  enum class By { kRollback, kSavePoint, kEnd };
  for (const How how : {How::kKeepsHandle, How::kDestroysHandle, How::kOfBaseDatabase}) {
    for (const By by : {By::kRollback, By::kSavePoint, By::kEnd}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(how)) + ", " + std::to_string(static_cast<int>(by)));
      ASSERT_NO_FATAL_FAILURE(Open());
      std::unique_ptr<Transaction> transaction = Begin("over all families");
      transaction->SetSavePoint();
      ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
      ASSERT_OK(transaction->PutUntracked(families_[kDropped], "another", "newer"));
      ASSERT_NO_FATAL_FAILURE(Drop(how));
      if (by == By::kRollback) ASSERT_OK(transaction->Rollback());
      if (by == By::kSavePoint) ASSERT_OK(transaction->RollbackToSavePoint());
      transaction.reset();
      ASSERT_NO_FATAL_FAILURE(Expect("older"));
      Close();
    }
  }
}

TEST_P(TransactionsTest, ItsCommitTimeBatch) {
  if (how_.write_policy != rocksdb::WRITE_COMMITTED) GTEST_SKIP() << "the others take none";
  ASSERT_NO_FATAL_FAILURE(Open());
  std::unique_ptr<Transaction> transaction = Begin("over all families");
  ASSERT_OK(transaction->Put("another", "value"));
  for (const auto& [name, family] : families_) {
    ASSERT_OK(transaction->GetCommitTimeWriteBatch()->Put(family, "key", "newer"));
  }
  ASSERT_OK(transaction->Prepare());
  ASSERT_NO_FATAL_FAILURE(Drop(How::kDestroysHandle));
  ASSERT_OK(transaction->Commit());
  transaction.reset();
  ASSERT_NO_FATAL_FAILURE(Expect("newer"));
}

// Whoever ends it looks first, and waits then for the writer that drops the family. (Who is late finds it gone, which is well, too.)
TEST_P(TransactionsTest, APreparedOneEndsMeanwhile) {
  options_.env = env_.get();
  options_.allow_concurrent_memtable_write = false;
  for (const auto& [commits, is_led] : {std::pair(false, false), {false, true}, {true, false}, {true, true}}) {
    SCOPED_TRACE(std::string(commits ? "commits" : "rolls back") + (is_led ? ", led by another writer" : ""));
    ASSERT_NO_FATAL_FAILURE(Open());
    std::unique_ptr<Transaction> transaction = Begin("over all families");
    ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
    ASSERT_OK(transaction->Prepare());
    disk_->waiting = 0;
    disk_->held = test::kManifest;
    std::thread drops([&] { Drop(How::kKeepsHandle); });
    EXPECT_TRUE(Await([&] { return disk_->waiting > 0; }));
    std::thread leads([&, is_led = is_led] {
      if (is_led) EXPECT_OK(db_->Put(rocksdb::WriteOptions(), "of the leader", "value"));
    });
    if (is_led) Sleep();
    std::thread ends([&, commits = commits] { EXPECT_OK(commits ? transaction->Commit() : transaction->Rollback()); });
    Sleep();
    disk_->held = 0;
    drops.join();
    leads.join();
    ends.join();
    transaction.reset();
    ASSERT_NO_FATAL_FAILURE(Expect(commits ? "newer" : "older"));
    Close();
  }
}

// That others write to a dropped family is no less refused.
TEST_P(TransactionsTest, OneEndsBesideAWriteToADroppedFamily) {
#ifndef NDEBUG
  if (how_.write_policy != rocksdb::WRITE_COMMITTED) {
    GTEST_SKIP() << "RocksDB's debug builds assert that none is prepared when a database is closed";
  }
#endif
  options_.env = env_.get();
  options_.allow_concurrent_memtable_write = false;
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::unique_ptr<Transaction> transaction = Begin("over all families");
  ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
  ASSERT_OK(transaction->Prepare());
  std::thread drops = DropAnother();
  rocksdb::Status of_write;
  std::thread writes([&] { of_write = db_->Put(rocksdb::WriteOptions(), dropped_.back(), "key", "value"); });
  Sleep();
  std::thread ends(
      [&] { transaction->Commit().PermitUncheckedError(); });  // the other leads it, and the database stops
  Sleep();
  disk_->held = 0;
  drops.join();
  ends.join();
  writes.join();
  EXPECT_FALSE(of_write.ok());
}

// As a check for conflicts does, which the process did not survive.
TEST_P(TransactionsTest, OneLocksAKeyThatWasMerged) {
  options_.max_write_buffer_size_to_maintain = 1;  // so that it asks the tables
  options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
  for (const bool is_deleted : {false, true}) {
    SCOPED_TRACE(is_deleted);
    ASSERT_NO_FATAL_FAILURE(Open());
    ASSERT_OK(is_deleted ? db_->Delete(rocksdb::WriteOptions(), "key")
                         : db_->Put(rocksdb::WriteOptions(), "key", "older"));
    const rocksdb::Snapshot* const before = db_->GetSnapshot();
    ASSERT_OK(db_->Merge(rocksdb::WriteOptions(), "key", "merged"));
    const rocksdb::Snapshot* const between = db_->GetSnapshot();
    std::unique_ptr<Transaction> transaction = BeginWithSnapshot();
    ASSERT_NO_FATAL_FAILURE(FlushTwice());
    EXPECT_OK(transaction->Put("key", "newer"));
    ASSERT_OK(transaction->Rollback());
    transaction = BeginWithSnapshot();
    ASSERT_OK(db_->Merge(rocksdb::WriteOptions(), "key", "later"));
    ASSERT_NO_FATAL_FAILURE(FlushTwice());
    EXPECT_TRUE(transaction->Put("key", "newer").IsBusy());
    transaction.reset();
    for (const rocksdb::Snapshot* const snapshot : {before, between}) db_->ReleaseSnapshot(snapshot);
    std::string value;
    EXPECT_OK(db_->Get(rocksdb::ReadOptions(), "key", &value));
    EXPECT_EQ(value, is_deleted ? "merged,later" : "older,merged,later");
    Close();
  }
}

// As a check for conflicts does: what the newest entry is, is in tables, and no value is read.
TEST_P(TransactionsTest, OneLocksAKeyWhoseBlobIsDamaged) {
  options_.max_write_buffer_size_to_maintain = 1;  // so that it asks the tables
  options_.enable_blob_files = true;
  options_.statistics = rocksdb::CreateDBStatistics();
  for (const bool can_merge : {false, true}) {
    SCOPED_TRACE(can_merge);
    if (can_merge) options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    ASSERT_NO_FATAL_FAILURE(Open());
    const rocksdb::Snapshot* const before = db_->GetSnapshot();
    std::vector<std::string> keys = {"key", "merged"};
    for (const std::string& key : keys) ASSERT_OK(db_->Put(rocksdb::WriteOptions(), key, "of a blob"));
    if (how_.write_policy == rocksdb::WRITE_COMMITTED) {
      keys.emplace_back("entity");  // whose columns RocksDB 11 has in blobs, too
      ASSERT_OK(db_->PutEntity(rocksdb::WriteOptions(), db_->DefaultColumnFamily(), "entity",
                               {{"", "of a blob"}, {"another column", "of a blob"}}));
    }
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    if (can_merge) ASSERT_OK(db_->Merge(rocksdb::WriteOptions(), "merged", "operand"));
    std::unique_ptr<Transaction> transaction = BeginWithSnapshot();
    ASSERT_NO_FATAL_FAILURE(FlushTwice());
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      if (file.path().extension() == ".blob") std::filesystem::resize_file(file.path(), 1);
    }
    for (const std::string& key : keys) EXPECT_OK(transaction->Delete(key));
    EXPECT_EQ(options_.statistics->getTickerCount(rocksdb::BLOB_DB_BLOB_FILE_BYTES_READ), 0u);
    ASSERT_OK(transaction->Rollback());
    transaction.reset();
    db_->ReleaseSnapshot(before);
    Close();
  }
}

// An operator that merges each operand at once, and fails: nobody wants to know.
TEST_P(TransactionsTest, OneLocksAKeyThatCannotBeMerged) {
  class Fails : public rocksdb::AssociativeMergeOperator {
   public:
    bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* /*before*/, const rocksdb::Slice& /*operand*/,
               std::string* /*value*/, rocksdb::Logger* /*log*/) const override {
      return false;
    }
    bool ShouldMerge(const std::vector<rocksdb::Slice>& /*operands*/) const override { return true; }
    const char* Name() const override { return "Fails"; }
  };
  options_.max_write_buffer_size_to_maintain = 1;
  options_.merge_operator = std::make_shared<Fails>();
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_OK(db_->Put(rocksdb::WriteOptions(), "key", "value"));
  ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db_->Merge(rocksdb::WriteOptions(), "key", "operand"));
  const std::unique_ptr<Transaction> transaction = BeginWithSnapshot();
  ASSERT_NO_FATAL_FAILURE(FlushTwice());
  std::string value;
  EXPECT_FALSE(db_->Get(rocksdb::ReadOptions(), "key", &value).ok());
  EXPECT_OK(transaction->Put("key", "newer"));
  EXPECT_OK(transaction->Commit());
  EXPECT_OK(db_->Get(rocksdb::ReadOptions(), "key", &value));
}

// It asks the tables for a key's newest timestamp, too.
TEST_P(TransactionsTest, OneLocksAKeyOfANewerTimestamp) {
  if (how_.write_policy != rocksdb::WRITE_COMMITTED) GTEST_SKIP() << "the others have none";
  options_.max_write_buffer_size_to_maintain = 1;
  for (const bool can_merge : {false, true}) {
    SCOPED_TRACE(can_merge);
    if (can_merge) options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    ASSERT_NO_FATAL_FAILURE(Open());
    rocksdb::Options with_timestamps = options_;
    with_timestamps.comparator = rocksdb::BytewiseComparatorWithU64Ts();
    rocksdb::ColumnFamilyHandle* family = nullptr;
    ASSERT_OK(db_->CreateColumnFamily(with_timestamps, "with timestamps", &family));
    dropped_.push_back(family);
    const auto commit_at = [&](const char* key, uint64_t time) {
      const std::unique_ptr<Transaction> transaction(db_->BeginTransaction(rocksdb::WriteOptions()));
      ASSERT_OK(transaction->Put(family, key, "value"));
      ASSERT_OK(transaction->SetCommitTimestamp(time));
      ASSERT_OK(transaction->Commit());
    };
    ASSERT_NO_FATAL_FAILURE(commit_at("key", 100));
    std::map<uint64_t, std::unique_ptr<Transaction>> reads_at;
    for (const uint64_t time : {50, 150}) {
      reads_at[time] = BeginWithSnapshot();
      ASSERT_OK(reads_at[time]->SetReadTimestampForValidation(time));
    }
    for (int i = 0; i < 2; ++i) {
      ASSERT_NO_FATAL_FAILURE(commit_at("another", 1));
      ASSERT_OK(db_->Flush(rocksdb::FlushOptions(), family));
    }
    EXPECT_TRUE(reads_at[50]->Put(family, "key", "newer").IsBusy());
    EXPECT_OK(reads_at[150]->Put(family, "key", "newer"));
    for (const auto& [time, transaction] : reads_at) ASSERT_OK(transaction->Rollback());
    reads_at.clear();
    Close();
  }
}

// What writes to no memtable misses no family.
TEST_P(TransactionsTest, OneEndsBesideThePrepareOfAnother) {
  options_.env = env_.get();
  options_.allow_concurrent_memtable_write = false;
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::unique_ptr<Transaction> ends = Begin("over all families");
  ASSERT_NO_FATAL_FAILURE(PutInEach(ends.get(), "newer"));
  ASSERT_OK(ends->Prepare());
  const std::unique_ptr<Transaction> begins = Begin("over the dropped one");
  if (how_.write_policy == rocksdb::WRITE_COMMITTED) ASSERT_OK(begins->Put(families_[kDropped], "of another", "value"));
  ASSERT_NO_FATAL_FAILURE(Drop(How::kKeepsHandle));
  std::thread drops = DropAnother();
  std::thread leads([&] { EXPECT_OK(db_->Put(rocksdb::WriteOptions(), "of the leader", "value")); });
  Sleep();
  std::thread commits([&] { EXPECT_OK(ends->Commit()); });
  Sleep();
  std::thread prepares([&] { EXPECT_OK(begins->Prepare()); });
  Sleep();
  disk_->held = 0;
  for (std::thread* const thread : {&drops, &leads, &commits, &prepares}) thread->join();
  EXPECT_OK(begins->Rollback());
  Expect("newer");
}

// What was found before the Commit is no answer after it.
TEST_P(TransactionsTest, OneCommitsWhatARowCacheHas) {
  options_.row_cache = rocksdb::NewLRUCache(1 << 20);
  ASSERT_NO_FATAL_FAILURE(Open());
  const std::unique_ptr<Transaction> transaction = Begin("over all families");
  ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
  ASSERT_OK(transaction->Prepare());
  const auto expect = [&](const std::string& expected) {
    for (const auto& [name, family] : families_) {
      std::string value;
      EXPECT_OK(db_->Get(rocksdb::ReadOptions(), family, "key", &value));
      EXPECT_EQ(value, expected) << name;
      std::vector<std::string> values;
      EXPECT_EQ(db_->MultiGet(rocksdb::ReadOptions(), {family}, {"key"}, &values).size(), 1u);
      EXPECT_EQ(values[0], expected) << name;
    }
  };
  for (const auto& [name, family] : families_) ASSERT_OK(db_->Flush(rocksdb::FlushOptions(), family));
  ASSERT_NO_FATAL_FAILURE(expect("older"));
  ASSERT_OK(transaction->Commit());
  for (const auto& [name, family] : families_) ASSERT_OK(db_->Flush(rocksdb::FlushOptions(), family));
  ASSERT_NO_FATAL_FAILURE(expect("newer"));
  EXPECT_EQ(db_->GetDBOptions().row_cache != nullptr, how_.write_policy == rocksdb::WRITE_COMMITTED);
}

// A program's own thread-local object may be the last of its thread.
TEST_P(TransactionsTest, OneEndsWithItsThread) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Drop(How::kKeepsHandle));  // since then a thread looks at the locks that it knows
  for (int i = 0; i < 10; ++i) {
    std::thread([&] {
      static thread_local std::vector<std::unique_ptr<Transaction>>
          of_thread;  // the first to be made is the last to end
      for (int each = 0; each < 6; ++each) {
        of_thread.emplace_back(db_->BeginTransaction(rocksdb::WriteOptions()));
        EXPECT_OK(of_thread.back()->Put("key" + std::to_string(each), "value"));
      }
    }).join();
  }
  for (int each = 0; each < 6; ++each) {
    EXPECT_OK(db_->Put(rocksdb::WriteOptions(), "key" + std::to_string(each), "value"));
  }
}

// A mistake, which does not stop the database.
TEST_P(TransactionsTest, OfAFamilyThatNeverWas) {
  if (how_.write_policy != rocksdb::WRITE_COMMITTED) GTEST_SKIP() << "the others write it when they are prepared";
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(Drop(How::kDestroysHandle));
  const std::unique_ptr<Transaction> transaction = Begin("over all families");
  ASSERT_NO_FATAL_FAILURE(PutInEach(transaction.get(), "newer"));
  ASSERT_OK(rocksdb::WriteBatchInternal::Put(transaction->GetWriteBatch()->GetWriteBatch(), 12345, "key", "value"));
  ASSERT_OK(transaction->Prepare());
  EXPECT_TRUE(transaction->Commit().IsInvalidArgument());
  ASSERT_OK(transaction->Rollback());
  Expect("older");
}

}  // namespace
}  // namespace cairn
