// What RocksDB waits for for ever, and Cairn does not. (error_recovery_test has what it waits for on a disk that fails.)

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "db/error_recovery_fixture.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"

namespace cairn {
namespace {

// Close waits for somebody who looks for files that are no longer needed, as the threads of a trie do when they let go of a
// Version. RocksDB looks for files under its mutex, and lets go of that in between, where Close may find that it has to wait. Here
// it is never free but there.
TEST(CloseTest, IsToldWhenNothingWasFoundToDelete) {
  test::TempDir dir;
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), dir / "db", port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> db(opened);
  auto* const impl = static_cast<rocksdb::DBImpl*>(db.get());
  std::atomic<bool> looking{false}, closing{false};
  std::thread looker([&] {
    rocksdb::JobContext job(0);
    const rocksdb::InstrumentedMutexLock lock(impl->mutex());
    for (int left = 300000; left > 0; left -= closing ? 1 : 0) {
      impl->FindObsoleteFiles(&job, /*force=*/false, /*no_full_scan=*/true);
      looking = true;
    }
    EXPECT_FALSE(job.HaveSomethingToDelete());
    job.Clean();
  });
  while (!looking) std::this_thread::yield();
  std::future<rocksdb::Status> closed = std::async(std::launch::async, [&] {
    closing = true;
    return db->Close();
  });
  looker.join();
  if (closed.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
    ADD_FAILURE() << "Close waits for ever";
    EXPECT_OK(db->EnableFileDeletions());  // tells it
  }
  EXPECT_OK(closed.get());
}

// WaitForCompact has no flush queued any more when it closes the database, and Close waits for its own.
TEST_F(ErrorRecoveryTest, CloseFlushesWhatWasWrittenWhileWaitForCompactWaited) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> compacts{false};
  listener_->at_compaction = [&] {
    compacts = true;
    released.wait();
  };
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.level0_file_num_compaction_trigger = 2;
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  {
    const std::unique_ptr<rocksdb::DB> db = Open(options_);
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(db->Put(no_wal, "first", "value"));
      ASSERT_OK(db->Put(no_wal, "last", "value"));  // with one key alone the tables would be moved
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    }
    ASSERT_TRUE(Await([&] { return compacts.load(); }));
    std::future<rocksdb::Status> closed = WaitForCompactAndClose(db.get());
    EXPECT_OK(db->Put(no_wal, "behind", "value"));
    release.set_value();
    EXPECT_OK(Ends("WaitForCompact", [&] { return closed.get(); }));
  }
  const std::unique_ptr<rocksdb::DB> db = Open(options_);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "behind", &value));
}

}  // namespace
}  // namespace cairn
