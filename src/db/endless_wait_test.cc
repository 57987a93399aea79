// What RocksDB waits for: Close for somebody who looks for files that are no longer needed, as the threads of a trie do
// when they let go of a Version, and for a recovery on a full disk; a database that meets a full disk for the thread that
// waits for space.

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "file/sst_file_manager_impl.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/sst_file_manager.h"
#include "src/port/db_impl.h"
#include "src/port/open_into.h"
#include "test/support.h"

namespace cairn {
namespace {

// RocksDB looks for files under its mutex, and lets go of that in between, where Close may find that it has to wait. Here
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

class FullDisk : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "FullDisk"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    const bool is_table = name.find(".sst") != std::string::npos;
    if (is_table && (full || refuses_next_table.exchange(false))) return rocksdb::IOStatus::NoSpace("full");
    return FileSystemWrapper::NewWritableFile(name, options, file, context);
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options, uint64_t* free,
                                 rocksdb::IODebugContext* context) override {
    ++asked;
    if (!full) return FileSystemWrapper::GetFreeSpace(path, options, free, context);
    *free = 0;
    return rocksdb::IOStatus::OK();
  }

  std::atomic<bool> full{false}, refuses_next_table{false};
  std::atomic<int> asked{0};  // for free space
};

class FullDiskTest : public ::testing::Test {
 protected:
  std::unique_ptr<rocksdb::DB> Open(const std::shared_ptr<rocksdb::EventListener>& listener) {
    rocksdb::Options options = test::BaseOptions();
    options.env = env_.get();
    options.sst_file_manager = manager_;
    options.listeners.push_back(listener);
    rocksdb::DB* opened = nullptr;
    EXPECT_OK(rocksdb::DB::Open(options, dir_ / "db", port::Into(&opened)));
    return std::unique_ptr<rocksdb::DB>(opened);
  }

  const test::TempDir dir_;
  const std::shared_ptr<FullDisk> disk_ = std::make_shared<FullDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
  const std::shared_ptr<rocksdb::SstFileManager> manager_{rocksdb::NewSstFileManager(env_.get())};
};

// The thread that waited for the first one's space is not given the second one.
TEST_F(FullDiskTest, ADatabaseDoesNotWaitForWhatAnotherHasGivenUp) {
  auto* const impl = static_cast<rocksdb::SstFileManagerImpl*>(manager_.get());
  impl->ReserveDiskBuffer(1, "");
  disk_->full = true;
  uint64_t places[2];  // of two databases, which nobody looks at before there is space
  const auto handler = [&](int i) { return reinterpret_cast<rocksdb::ErrorHandler*>(&places[i]); };
  const rocksdb::Status full(rocksdb::Status::NoSpace(), rocksdb::Status::Severity::kHardError);
  impl->StartErrorRecovery(handler(0), full);
  while (disk_->asked == 0) std::this_thread::yield();
  EXPECT_TRUE(impl->CancelErrorRecovery(handler(0)));
  std::future<void> started = std::async(std::launch::async, [&] { impl->StartErrorRecovery(handler(1), full); });
  EXPECT_EQ(started.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it waits for ever";
  EXPECT_TRUE(impl->CancelErrorRecovery(handler(1)));
}

// Two databases by turns, of which each may find that it is the last or the first.
TEST_F(FullDiskTest, DatabasesMayComeWhileOthersGiveUp) {
  auto* const impl = static_cast<rocksdb::SstFileManagerImpl*>(manager_.get());
  impl->ReserveDiskBuffer(1, "");
  disk_->full = true;
  const auto come_and_go = [&] {
    uint64_t place;  // of a database
    auto* const handler = reinterpret_cast<rocksdb::ErrorHandler*>(&place);
    const rocksdb::Status full(rocksdb::Status::NoSpace(), rocksdb::Status::Severity::kHardError);
    for (int i = 0; i < 20000; ++i) {
      impl->StartErrorRecovery(handler, full);
      EXPECT_TRUE(impl->CancelErrorRecovery(handler));
    }
  };
  std::future<void> others[3];
  for (std::future<void>& other : others) other = std::async(std::launch::async, come_and_go);
  for (std::future<void>& other : others) {
    ASSERT_EQ(other.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it waits for ever";
  }
}

// Returns from OnBackgroundError when the database is being closed.
class WaitsForClose : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status* /*error*/) override {
    if (heard.exchange(true)) return;
    rocksdb::WaitForCompactOptions options;
    options.timeout = std::chrono::microseconds(1000);
    while (!db.load()->WaitForCompact(options).IsShutdownInProgress()) std::this_thread::yield();
  }

  std::atomic<rocksdb::DB*> db{nullptr};
  std::atomic<bool> heard{false};
};

TEST_F(FullDiskTest, CloseDoesNotWaitForARecoveryThatBeginsMeanwhile) {
  const auto listener = std::make_shared<WaitsForClose>();
  const std::unique_ptr<rocksdb::DB> db = Open(listener);
  listener->db = db.get();
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  disk_->full = true;
  rocksdb::FlushOptions flush;
  flush.wait = false;
  ASSERT_OK(db->Flush(flush));
  while (!listener->heard) std::this_thread::yield();
  std::future<rocksdb::Status> closed = std::async(std::launch::async, [&] { return db->Close(); });
  EXPECT_EQ(closed.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it waits for space";
  disk_->full = false;
  closed.get().PermitUncheckedError();
}

// Returns from OnErrorRecoveryEnd when Close has had the time to come back too early.
class RecoversDuringClose : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    EXPECT_OK(info.new_bg_error);
    heard = true;
    while (!closing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_FALSE(closed) << "a database is closed while it recovers from an error";
  }

  std::atomic<bool> heard{false}, closing{false}, closed{false};
};

class RecoveryTest : public FullDiskTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OfFlushAndCompaction, RecoveryTest, ::testing::Bool());

TEST_P(RecoveryTest, CloseWaitsForItsEndAndNoLonger) {
  const bool compacts = GetParam();  // what meets the full disk, and recovers without a flush
  const auto listener = std::make_shared<RecoversDuringClose>();
  const std::unique_ptr<rocksdb::DB> db = Open(listener);
  for (int i = 0; compacts && i < 2; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  disk_->refuses_next_table = true;
  if (compacts) {
    EXPECT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).IsNoSpace());
  } else {
    rocksdb::FlushOptions flush;
    flush.wait = false;
    ASSERT_OK(db->Flush(flush));
  }
  while (!listener->heard) std::this_thread::yield();
  std::future<rocksdb::Status> closed = std::async(std::launch::async, [&] {
    listener->closing = true;
    const rocksdb::Status s = db->Close();
    listener->closed = true;
    return s;
  });
  ASSERT_EQ(closed.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "nobody tells Close";
  closed.get().PermitUncheckedError();
}

}  // namespace
}  // namespace cairn
