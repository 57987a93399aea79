#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "cairn/memtable.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"

namespace cairn {
namespace {

// RocksDB looks for files under its mutex, and lets go of that in between, where Close may find that it has to wait.
// Here it is never free but there.
TEST(CloseTest, IsToldWhenNothingWasFoundToDelete) {
  test::TempDir dir;
  rocksdb::Options options = test::BaseOptions();
  options.memtable_factory = NewSubMemTableFactory();
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
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

}  // namespace
}  // namespace cairn
