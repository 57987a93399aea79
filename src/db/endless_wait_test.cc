// What RocksDB waits for for ever, and Cairn does not. (error_recovery_test has what it waits for on a disk that fails.)

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "src/port/db_impl.h"
#include "src/port/open_into.h"
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

class CompactionListener : public rocksdb::EventListener {
 public:
  void OnCompactionBegin(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& /*info*/) override {
    begun = true;
    while (holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::atomic<bool> begun{false}, holds{true};
};

// WaitForCompact has no flush queued any more when it closes the database, and Close waits for its own.
TEST(CloseTest, FlushesWhatWasWrittenWhileWaitForCompactWaited) {
  test::TempDir dir;
  const auto listener = std::make_shared<CompactionListener>();
  rocksdb::Options options = test::BaseOptions();
  options.level0_file_num_compaction_trigger = 2;
  options.listeners = {listener};
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  {
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(db->Put(no_wal, "key", "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    }
    while (!listener->begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::future<rocksdb::Status> closed = std::async(std::launch::async, [&] {
      rocksdb::WaitForCompactOptions closing;
      closing.close_db = true;
      return db->WaitForCompact(closing);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for it to wait
    EXPECT_OK(db->Put(no_wal, "behind", "value"));
    listener->holds = false;
    if (closed.wait_for(std::chrono::minutes(1)) != std::future_status::ready) {
      std::fprintf(stderr, "WaitForCompact does not end\n");
      _exit(1);  // a hang cannot be unwound
    }
    EXPECT_OK(closed.get());
  }
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "behind", &value));
}

}  // namespace
}  // namespace cairn
