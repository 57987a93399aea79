// A database on a disk that fails and is well again: it recovers by itself, nobody waits for ever, and Close ends while it
// does. What RocksDB does instead is said at each test.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/error_recovery_fixture.h"
#include "file/sst_file_manager_impl.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/faulty_disk.h"

namespace cairn {
namespace {

using rocksdb::Status;
using test::FaultyDisk;
using test::kManifest;
using test::kTable;
using test::kWal;

// RocksDB gives the second one to the thread that waited for the first one's space, and waits for its end.
TEST_F(ErrorRecoveryTest, ADatabaseDoesNotWaitForWhatAnotherHasGivenUp) {
  auto* const impl = static_cast<rocksdb::SstFileManagerImpl*>(manager_.get());
  impl->ReserveDiskBuffer(1, dir_ / "");
  disk_->full = kTable;
  uint64_t places[2];  // of two databases, which nobody looks at before there is space
  const auto handler = [&](int i) { return reinterpret_cast<rocksdb::ErrorHandler*>(&places[i]); };
  const Status full(Status::NoSpace(), Status::Severity::kHardError);
  impl->StartErrorRecovery(handler(0), full);
  ASSERT_TRUE(Await([&] { return disk_->space_asked > 0; }));
  EXPECT_TRUE(impl->CancelErrorRecovery(handler(0)));
  EXPECT_OK(Ends("StartErrorRecovery", [&] {
    impl->StartErrorRecovery(handler(1), full);
    return Status::OK();
  }));
  EXPECT_TRUE(impl->CancelErrorRecovery(handler(1)));
}

// By turns, so that each may find that it is the last or the first.
TEST_F(ErrorRecoveryTest, DatabasesMayComeWhileOthersGiveUp) {
  auto* const impl = static_cast<rocksdb::SstFileManagerImpl*>(manager_.get());
  impl->ReserveDiskBuffer(1, dir_ / "");
  disk_->full = kTable;
  const auto come_and_go = [&] {
    uint64_t place;  // of a database
    auto* const handler = reinterpret_cast<rocksdb::ErrorHandler*>(&place);
    const Status full(Status::NoSpace(), Status::Severity::kHardError);
    for (int i = 0; i < 10000; ++i) {
      impl->StartErrorRecovery(handler, full);
      EXPECT_TRUE(impl->CancelErrorRecovery(handler));
    }
    return Status::OK();
  };
  std::future<Status> others[2];
  for (std::future<Status>& other : others) other = std::async(std::launch::async, come_and_go);
  EXPECT_OK(Ends("StartErrorRecovery", come_and_go));
}

// The mutex is free while listeners hear of an error. RocksDB begins a recovery that Close has cancelled.
TEST_F(ErrorRecoveryTest, CloseDoesNotWaitForARecoveryThatBeginsMeanwhile) {
  std::atomic<rocksdb::DB*> closing{nullptr};
  listener_->at_error = [&] {
    rocksdb::WaitForCompactOptions options;
    options.timeout = std::chrono::microseconds(1000);
    while (closing == nullptr || !closing.load()->WaitForCompact(options).IsShutdownInProgress()) {
      std::this_thread::yield();
    }
  };
  const auto db = OpenWithKey(options_);
  disk_->full = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  closing = db.get();
  CloseEnds(db.get()).PermitUncheckedError();
}

// RocksDB 9.10 destroys a database under a recovery whose end a listener is hearing of.
class ClosedDuringRecoveryTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OfFlushAndCompaction, ClosedDuringRecoveryTest, ::testing::Bool());

TEST_P(ClosedDuringRecoveryTest, CloseWaitsForItsEndAndNoLonger) {
  const bool compacts = GetParam();  // what meets the full disk, and recovers without a flush
  std::atomic<bool> closing{false}, closed{false};
  listener_->at_end = [&] {
    while (!closing) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for a Close that comes back too early
    EXPECT_FALSE(closed) << "a database is closed while it recovers from an error";
  };
  const auto db = OpenWithKey(options_);
  for (int i = 0; compacts && i < 2; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), i == 0 ? "a key before" : "the key behind", "value"));
    ASSERT_OK(Put(db.get()));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  disk_->full = kTable;
  if (compacts) {
    const Status s = db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr);
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  } else {
    BeginFlush(db.get());
    ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  }
  disk_->full = 0;
  ASSERT_TRUE(Await([&] { return listener_->ends > 0; }));
  Ends("Close", [&] {
    closing = true;
    const Status s = db->Close();
    closed = true;
    return s;
  }).PermitUncheckedError();
}

// RocksDB asks for free space with the mutex of the SstFileManager.
TEST_F(ErrorRecoveryTest, ADiskThatHangsStopsNobodyElse) {
  const auto db = OpenWithKey(options_);
  disk_->full = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->space_hangs = true;
  ASSERT_TRUE(Await([&, asked = disk_->space_asked.load()] { return disk_->space_asked > asked; }));
  CloseEnds(db.get()).PermitUncheckedError();

  const auto disk = std::make_shared<FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = test::NewImpatientEnv(disk);
  const auto listener = std::make_shared<Listener>();
  rocksdb::Options options = options_;
  options.env = env.get();
  options.sst_file_manager = test::NewImpatientSstFileManager(env.get());
  options.listeners = {listener};
  const auto other = OpenWithKey(options, "other");
  disk->refuses_table = true;
  BeginFlush(other.get());
  EXPECT_TRUE(Await([&] { return listener->recovered > 0; }));
  EXPECT_OK(Put(other.get()));
  EXPECT_OK(CloseEnds(other.get()));

  // Nor one whose space has to be asked for there.
  options.sst_file_manager = manager_;
  const auto third = OpenWithKey(options, "third");
  disk->refuses_table = true;
  BeginFlush(third.get());
  ASSERT_TRUE(Await([&] { return listener->errors > 1; }));
  Ends("Put", [&] { return Put(third.get()); }).PermitUncheckedError();
  CloseEnds(third.get()).PermitUncheckedError();
  disk_->space_hangs = false;
}

// RocksDB tries the first one again and again.
TEST_F(ErrorRecoveryTest, ADatabaseRecoversWhileAnothersDiskStaysFull) {
  const auto disk = std::make_shared<FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = test::NewImpatientEnv(disk);
  const auto listener = std::make_shared<Listener>();
  rocksdb::Options options = options_;
  options.env = env.get();
  options.listeners = {listener};
  const auto db = OpenWithKey(options_);  // whose space is asked for
  const auto other = OpenWithKey(options, "other");
  disk->full = kTable;
  BeginFlush(other.get());
  ASSERT_TRUE(Await([&] { return listener->errors > 0; }));
  disk_->full = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->full = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  CloseEnds(other.get()).PermitUncheckedError();
}

// RocksDB asks for space where that one was.
TEST_F(ErrorRecoveryTest, ADatabaseRecoversWhenTheFirstOneIsGone) {
  ASSERT_OK(CloseEnds(Open(options_, "first").get()));
  ASSERT_OK(rocksdb::DestroyDB(dir_ / "first", options_));
  const auto db = OpenWithKey(options_);
  disk_->refuses_table = true;
  BeginFlush(db.get());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
}

// RocksDB says that no recovery is in progress when the first one ends, and the flush of the second one waits for ever; it
// dies when it is closed then.
TEST_F(ErrorRecoveryTest, ADiskThatIsFullDuringARecovery) {
  for (const bool closes : {false, true}) {
    const auto db = OpenWithKey(options_, closes ? "closed" : "db");
    const int errors = listener_->errors, ends = listener_->ends;
    disk_->retryable = kTable;
    BeginFlush(db.get());
    ASSERT_TRUE(Await([&] { return listener_->errors > errors; }));
    disk_->full = kTable;
    ASSERT_TRUE(Await([&] { return listener_->ends > ends; }));
    disk_->retryable = 0;
    const int asked = disk_->space_asked;
    disk_->full = 0;
    if (closes) {
      ASSERT_TRUE(Await([&] { return disk_->space_asked > asked; }));
    } else {
      EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); }));
    }
    CloseEnds(db.get()).PermitUncheckedError();
  }
}

// A flush that waits is none of the recovery's, and is dropped; RocksDB does not queue the recovery's beside it, and waits
// for that one for ever.
TEST_F(ErrorRecoveryTest, AFlushThatWaitedBecomesTheRecoverys) {
  listener_->at_error = [&] {
    while (disk_->held != 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the flushes to go on
  };
  const auto db = OpenWithKey(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "value"));
  disk_->held = kManifest;
  BeginFlush(db.get(), family);
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  BeginFlush(db.get());
  disk_->retryable = kWal;
  std::future<Status> put = std::async(std::launch::async, [&] { return Put(db.get()); });
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->held = 0;  // while the listener is still hearing of it
  EXPECT_TRUE(put.get().IsIOError());
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); }));
  EXPECT_OK(Ends("Flush", [&] { return db->Flush(rocksdb::FlushOptions()); }));
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  EXPECT_OK(CloseEnds(db.get()));
}

TEST_F(ErrorRecoveryTest, ResumeAfterAFlushWasAskedFor) {
  listener_->recovers = false;
  const auto db = OpenWithKey(options_);
  disk_->full = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // RocksDB pauses for a second after the error
  disk_->full = 0;
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  EXPECT_TRUE(db->Flush(flush).IsNoSpace());
  EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(CloseEnds(db.get()));
}

// RocksDB waits for the writer, and it for the recovery. By flushing only what is read-only it would leave a WAL that takes
// no further entry, and the next write would stop the database for good.
TEST_F(ErrorRecoveryTest, AWriterThatIsHeldBackIsRefusedWhenTheWalHasFailed) {
  LetNothingBeCompacted();
  const auto db = Open(options_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Put(db.get()));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  disk_->held = kTable;
  ASSERT_OK(Put(db.get()));
  BeginFlush(db.get());
  ASSERT_OK(Put(db.get()));  // into the WAL of the active memtable
  disk_->held = 0;
  std::string files;
  ASSERT_TRUE(Await([&] { return db->GetProperty("rocksdb.num-files-at-level0", &files) && files == "3"; }));
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "3"}, {"level0_slowdown_writes_trigger", "3"}}));
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  const Writer writer(db.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the writer to be held back
  disk_->unsynced = kWal;
  EXPECT_TRUE(db->SyncWAL().IsIOError());
  disk_->unsynced = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(db->SyncWAL());
  EXPECT_EQ(writer.written(), 0);
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "30"}, {"level0_slowdown_writes_trigger", "20"}}));
  EXPECT_TRUE(writer.GoesOn());
}

// RocksDB's recovery queues behind the writer that waits for it.
class WriteBufferManagerTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OfRocksDBsPartsOrNot, WriteBufferManagerTest, ::testing::Bool());

TEST_P(WriteBufferManagerTest, AWriterThatItHoldsBackGoesOn) {
  if (GetParam()) options_.memtable_factory = rocksdb::Options().memtable_factory;
  const auto db = OpenWithBufferManagerAndHeldFlushes();
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return options_.write_buffer_manager->IsStallActive(); }));
  disk_->full = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->full = 0;
  EXPECT_TRUE(writer.GoesOn());
}

// Nobody recovers: the listener has refused it, or the recovery has given up, or it is not to be tried. RocksDB leaves the
// writer waiting for a flush that never comes.
class NobodyRecoversTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(RefusedGivenUpOrNotTried, NobodyRecoversTest, ::testing::Range(0, 3));

TEST_P(NobodyRecoversTest, AWriterThatAWriteBufferManagerHoldsBackIsRefused) {
  listener_->recovers = GetParam() != 0;
  options_.max_bgerror_resume_count = GetParam() == 1 ? 2 : 0;
  const auto db = OpenWithBufferManagerAndHeldFlushes();
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return options_.write_buffer_manager->IsStallActive(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the writer to be held back
  (GetParam() == 0 ? disk_->full : disk_->retryable) = kTable;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return writer.refused() > 0; }));
  disk_->full = 0;
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return db->Resume().ok() && writer.GoesOn(); }));
}

// It goes on to a WAL that takes no further entry. RocksDB stops for good then.
TEST_F(ErrorRecoveryTest, AWriterThatComesToAWalThatHasFailed) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  const auto db = OpenWithBufferManagerAndHeldFlushes();
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return options_.write_buffer_manager->IsStallActive(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the writer to be held back
  disk_->unsynced = kWal;
  EXPECT_TRUE(db->SyncWAL().IsIOError());
  disk_->unsynced = 0;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_TRUE(writer.GoesOn());
}

// It queues behind the writer that waits for it.
TEST_F(ErrorRecoveryTest, ARecoveryDoesNotWaitForAWriterThatWaitsForIt) {
  const auto db = OpenStockWithHeldFlushes();
  const Writer writer(db.get());
  ASSERT_NO_FATAL_FAILURE(FailAFlushOfStopped(db.get()));
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_TRUE(writer.GoesOn());
}

// What the recovery lacks may be in the writer's hand, such as file descriptors: it waits for one attempt.
TEST_F(ErrorRecoveryTest, AWriterThatIsHeldBackHearsThatAnAttemptHasFailed) {
  const auto db = OpenStockWithHeldFlushes();
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  disk_->retryable = kTable;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return writer.refused() > 0; }));
  EXPECT_EQ(listener_->ends, 0);
  disk_->retryable = 0;
  EXPECT_TRUE(writer.GoesOn());
}

// RocksDB does not tell it.
TEST_F(ErrorRecoveryTest, AWriterThatIsHeldBackHearsThatTheRecoveryHasGivenUp) {
  options_.max_bgerror_resume_count = 3;
  options_.bgerror_resume_retry_interval = 1000000;
  options_.max_write_buffer_number = 2;
  const auto db = Open(options_);
  disk_->held = kTable;
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  disk_->retryable = kManifest;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return listener_->ends > 0; }));
  EXPECT_TRUE(Await([&] { return writer.refused() > 0; }));
  EXPECT_EQ(listener_->recovered, 0);
  disk_->retryable = 0;
  EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
  EXPECT_TRUE(writer.GoesOn());
}

// In RocksDB the recovery has failed then, for good.
TEST_F(ErrorRecoveryTest, AFamilyMayBeDroppedMeanwhile) {
  const auto db = Open(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  ASSERT_OK(db->Put(no_wal, family, "key", "value"));
  disk_->retryable = kTable;
  BeginFlush(db.get(), family);
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->held = kTable;
  ASSERT_TRUE(Await([&, before = disk_->waiting.load()] { return disk_->waiting > before; }));
  ASSERT_OK(db->DropColumnFamily(family));
  disk_->retryable = 0;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok() && db->Flush(rocksdb::FlushOptions()).ok(); }));
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
}

// RocksDB says when Resume ends that no recovery is in progress, and another one that has begun since waits for ever for a
// flush that is not scheduled, or whose error it does not hear of.
class AfterResumeTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(ItsFlushFailsOrNot, AfterResumeTest, ::testing::Bool());

TEST_P(AfterResumeTest, ARecoveryThatHasBegunSinceEnds) {
  listener_->recovers = false;
  const auto db = OpenWithKey(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  listener_->at_end = [&] {
    if (listener_->ends > 1) return;
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "value"));
    disk_->held = kTable;
    disk_->retryable = kWal;
    EXPECT_TRUE(Put(db.get()).IsIOError());
    disk_->retryable = 0;
    EXPECT_TRUE(Await([&] { return disk_->waiting > 0; }));
  };
  disk_->full = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->full = 0;
  EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
  if (GetParam()) disk_->retryable = kTable;
  disk_->held = 0;
  EXPECT_TRUE(Await([&] { return !GetParam() || listener_->errors > 2; }));
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); }));
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  CloseEnds(db.get()).PermitUncheckedError();
}

// RocksDB's thread waits for itself then, which ends the process.
TEST_F(ErrorRecoveryTest, AListenerMayWriteWhenItHearsOfTheEnd) {
  const auto db = OpenWithKey(options_);
  listener_->at_end = [&] {
    if (listener_->ends > 1) return;
    disk_->retryable = kWal;
    EXPECT_TRUE(Put(db.get()).IsIOError());
    disk_->retryable = 0;
  };
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return listener_->ends > 1 && Put(db.get()).ok(); }));
}

// Flushes of memtables that fill up during a recovery are dropped. RocksDB asks for them again when all listeners have heard
// of the end.
TEST_F(ErrorRecoveryTest, AListenerMayWriteWhenWritersWaitForAFlushThatWasDropped) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.max_write_buffer_number = 2;
  options_.max_background_jobs = 8;  // two flushes at a time
  const auto db = Open(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  rocksdb::WriteOptions no_wal;  // an error of its flush leaves the database open to writers
  no_wal.disableWAL = true;
  for (rocksdb::ColumnFamilyHandle* const each : {db->DefaultColumnFamily(), family}) {
    ASSERT_OK(db->Put(no_wal, each, "key", "value"));
  }
  std::atomic<bool> flushes{true}, has_flushed{false}, has_written{false};
  listener_->at_table = [&](const std::string& name) {
    if (name != "family") has_flushed = true;
    while (name == "family" && flushes) std::this_thread::yield();
  };
  listener_->at_end = [&] {
    Put(db.get()).PermitUncheckedError();
    has_written = true;
  };
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  BeginFlush(db.get(), family);
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return has_flushed.load(); }));
  const Writer writer(db.get());
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the flush to be dropped
  flushes = false;
  if (!Await([&] { return has_written.load(); })) Hangs("Put of a listener");
  EXPECT_TRUE(writer.GoesOn());
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
}

// Resume clears an error of a compaction and does no more: RocksDB leaves the flush out that was dropped meanwhile.
TEST_F(ErrorRecoveryTest, AFlushThatWasDroppedFollowsWhenResumeOnlyClearsAnError) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.max_write_buffer_number = 2;
  const auto db = OpenWithKey(options_);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), i == 0 ? "a key before" : "the key behind", "value"));
    ASSERT_OK(Put(db.get()));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  listener_->recovers = false;
  disk_->full = kTable;
  EXPECT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).IsNoSpace());
  ASSERT_OK(Put(db.get()));
  BeginFlush(db.get());
  disk_->full = 0;
  // That flush may have met the full disk, and say so later.
  EXPECT_TRUE(Await([&] {
    Ends("Resume", [&] { return db->Resume(); }).PermitUncheckedError();
    return Ends("Flush", [&] { return db->Flush(rocksdb::FlushOptions()); }).ok();
  }));
}

// A compaction fails whose inputs writers wait for. RocksDB does not look for another one, because the inputs count as being
// compacted until the family has another Version, and writers wait for ever.
class CompactionFailsTest : public ErrorRecoveryTest {
 protected:
  static constexpr int kFiles = 4;  // are compacted, and stop writers

  CompactionFailsTest() {
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    options_.max_background_jobs = 8;  // a flush beside a compaction
    options_.level0_file_num_compaction_trigger = kFiles;
    options_.level0_slowdown_writes_trigger = options_.level0_stop_writes_trigger = kFiles;
    no_wal_.disableWAL = true;
    listener_->at_compaction = [this] {
      compacts_ = true;
      while (!goes_on_) std::this_thread::yield();
    };
  }
  // So that no file is only moved.
  void FlushAFile(rocksdb::DB* db) {
    for (const char* const key : {"key", "the key behind"}) ASSERT_OK(db->Put(no_wal_, key, "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  // Begins a compaction on a thread of its own, of all files but the last, and stops the writers while it runs.
  std::future<Status> Begin(rocksdb::DB* db, const std::function<Status()>& compact) {
    for (int i = 0; i + 1 < kFiles; ++i) FlushAFile(db);
    std::future<Status> done = std::async(std::launch::async, compact);
    EXPECT_TRUE(Await([&] { return compacts_.load(); }));
    FlushAFile(db);
    EXPECT_TRUE(IsStopped(db));
    return done;
  }
  // Its result.
  Status End(std::future<Status>* done) {
    goes_on_ = true;
    return Ends("the compaction", [&] { return done->get(); });
  }
  static Status Compact(rocksdb::DB* db) { return db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr); }

  std::atomic<bool> compacts_{false}, goes_on_{false};
  rocksdb::WriteOptions no_wal_;
};

// The flush's error is one of those that leave the database open to writers and stop its threads.
TEST_F(CompactionFailsTest, WhileAFlushOfAnotherFamilyHasStoppedTheDatabase) {
  rocksdb::ColumnFamilyHandle* family = nullptr;
  const auto db = Open(options_);
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  for (int i = 1; i < kFiles; ++i) FlushAFile(db.get());
  ASSERT_OK(db->Put(no_wal_, family, "key", "value"));
  FlushAFile(db.get());
  ASSERT_TRUE(Await([&] { return compacts_.load(); }));
  ASSERT_TRUE(IsStopped(db.get()));
  disk_->retryable = kTable;
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = true;
  EXPECT_TRUE(Ends("Flush", [&] { return db->Flush(flush, family); }).IsIOError());
  goes_on_ = true;
  ASSERT_TRUE(Await([&] {
    uint64_t running = 1;
    return db->GetIntProperty(rocksdb::DB::Properties::kNumRunningCompactions, &running) && running == 0;
  }));
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
}

TEST_F(CompactionFailsTest, ThatIsAManualOne) {
  const auto db = Open(options_);
  std::future<Status> done = Begin(db.get(), [&] { return Compact(db.get()); });
  disk_->retryable = kTable;
  EXPECT_TRUE(End(&done).IsIOError());
  disk_->retryable = 0;
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
}

TEST_F(CompactionFailsTest, BecauseItIsCancelled) {
  const auto db = Open(options_);
  std::future<Status> done = Begin(db.get(), [&] { return Compact(db.get()); });
  std::future<Status> cancelled = test::BeginUntilItWaits([&] {
    db->DisableManualCompaction();
    return Status::OK();
  });
  EXPECT_TRUE(End(&done).IsIncomplete());
  EXPECT_OK(cancelled.get());
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
}

TEST_F(CompactionFailsTest, BecauseItIsCancelledBeforeItBegins) {
  std::atomic<bool> busy{true};
  std::atomic<int> idle{0};
  const auto db = Open(options_);
  struct Job {
    std::atomic<bool>* busy;
    std::atomic<int>* idle;
  } job{&busy, &idle};
  const int threads = env_->GetBackgroundThreads(rocksdb::Env::LOW);
  for (int i = 0; i < threads; ++i) {
    env_->Schedule(
        [](void* arg) {
          const Job* const keeps = static_cast<const Job*>(arg);
          while (*keeps->busy) std::this_thread::yield();
          ++*keeps->idle;
        },
        &job);
  }
  ASSERT_TRUE(Await([&] { return env_->GetThreadPoolQueueLen(rocksdb::Env::LOW) == 0; }));
  for (int i = 1; i < kFiles; ++i) FlushAFile(db.get());
  std::future<Status> done = std::async(std::launch::async, [&] { return Compact(db.get()); });
  ASSERT_TRUE(Await([&] { return env_->GetThreadPoolQueueLen(rocksdb::Env::LOW) > 0; }));
  FlushAFile(db.get());
  goes_on_ = true;
  db->DisableManualCompaction();
  EXPECT_TRUE(done.get().IsIncomplete());
  busy = false;
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
  ASSERT_TRUE(Await([&] { return idle == threads; }));
}

TEST_F(CompactionFailsTest, ThatIsOfChosenFiles) {
  const auto db = Open(options_);
  std::future<Status> done = Begin(db.get(), [&] {
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    std::vector<std::string> names;
    for (const rocksdb::LiveFileMetaData& file : files) names.push_back(file.name);
    return db->CompactFiles(rocksdb::CompactionOptions(), names, /*output_level=*/1);
  });
  disk_->retryable = kTable;
  EXPECT_TRUE(End(&done).IsIOError());
  disk_->retryable = 0;
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
}

// RocksDB recovers the second one on the thread that waits for it.
TEST_F(ErrorRecoveryTest, AListenerMayWaitForAnotherDatabaseThatRecovers) {
  const auto disk = std::make_shared<FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = test::NewImpatientEnv(disk);
  const auto listener = std::make_shared<Listener>();
  rocksdb::Options options = options_;
  options.env = env.get();
  options.listeners = {listener};
  options.max_write_buffer_number = 2;
  const auto db = OpenWithKey(options_);  // whose space is asked for
  const auto other = Open(options, "other");
  disk->held = kTable;
  const Writer writer(other.get());
  ASSERT_TRUE(Await([&] { return IsStopped(other.get()); }));
  disk->full = kTable;
  disk->held = 0;
  ASSERT_TRUE(Await([&] { return listener->errors > 0; }));

  std::atomic<bool> hears{false}, has_written{false};
  listener_->at_end = [&] {
    hears = true;
    Put(other.get()).PermitUncheckedError();
    has_written = true;
  };
  disk_->refuses_table = true;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return hears.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the listener to be held back
  EXPECT_FALSE(has_written);
  disk->full = 0;
  if (!Await([&] { return has_written.load(); })) Hangs("Put by a listener");
  EXPECT_TRUE(writer.GoesOn());
  EXPECT_OK(CloseEnds(db.get()));
}

// RocksDB's next recovery waits for the end of the last one, whose listener waits for it.
TEST_F(ErrorRecoveryTest, AListenerThatIsHeldBackIsRefusedWhenThereIsAnotherError) {
  LetNothingBeCompacted();
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  std::atomic<bool> hears{false}, has_written{false};
  listener_->at_end = [&] {
    if (hears.exchange(true)) return;
    EXPECT_FALSE(Put(db.get()).ok());
    has_written = true;
  };
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "1"}, {"level0_slowdown_writes_trigger", "1"}}));
  ASSERT_TRUE(Await([&] { return IsStopped(db.get()); }));
  const auto sync_fails = [&] {
    disk_->unsynced = kWal;
    const Status s = db->SyncWAL();
    disk_->unsynced = 0;
    return s;
  };
  EXPECT_TRUE(Ends("SyncWAL", sync_fails).IsIOError());
  ASSERT_TRUE(Await([&] { return hears.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the listener to be held back
  EXPECT_FALSE(has_written);
  EXPECT_TRUE(Ends("SyncWAL", sync_fails).IsIOError());
  EXPECT_TRUE(Await([&] { return has_written && listener_->recovered > 1; }));
  ASSERT_OK(db->SetOptions({{"level0_stop_writes_trigger", "30"}, {"level0_slowdown_writes_trigger", "20"}}));
  EXPECT_OK(Ends("Put", [&] { return Put(db.get()); }));
}

// RocksDB's next recovery waits for the end of the last one, whose listener queues behind the writer that begins it.
TEST_F(ErrorRecoveryTest, AListenerMayQueueBehindAWriterThatMeetsAnotherError) {
  const auto db = OpenWithKey(options_);
  std::future<Status> put, well;
  listener_->at_end = [&] {
    if (listener_->ends > 1) return;
    disk_->held = kWal;
    const int waiting = disk_->waiting;
    put = std::async(std::launch::async, [&] { return Put(db.get()); });
    EXPECT_TRUE(Await([&] { return disk_->waiting > waiting; }));
    disk_->retryable = kWal;
    well = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the listener to queue
      disk_->held = 0;
      return Status::OK();
    });
    EXPECT_FALSE(Put(db.get()).ok());
    disk_->retryable = 0;
  };
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  if (!Await([&] { return listener_->ends > 1 && Put(db.get()).ok(); })) Hangs("Put by a listener");
  EXPECT_TRUE(put.get().IsIOError());
}

TEST_F(ErrorRecoveryTest, ResumeIsRefusedWhileTheDatabaseRecovers) {
  const auto db = OpenStockWithHeldFlushes();
  const Writer writer(db.get());
  ASSERT_NO_FATAL_FAILURE(FailAFlushOfStopped(db.get()));
  EXPECT_OK(Ends("Resume", [&] {
    Status s;
    do {
      s = db->Resume();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } while (s.IsBusy());
    return s;
  }));
  EXPECT_TRUE(writer.GoesOn());
  EXPECT_EQ(listener_->ends, 1);
}

// Does something when a database asks for a thread, which it does with its mutex.
class SchedulingEnv : public rocksdb::EnvWrapper {
 public:
  using EnvWrapper::EnvWrapper;
  const char* Name() const override { return "SchedulingEnv"; }
  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag,
                void (*unschedule)(void*)) override {
    if (armed.exchange(false)) at_schedule();
    target()->Schedule(function, argument, priority, tag, unschedule);
  }

  std::atomic<bool> armed{false};
  std::function<void()> at_schedule;
};

// What is switched while it asks for its flush has a flush of its own, which is dropped: the recovery waited for it.
TEST_F(ErrorRecoveryTest, ARecoveryOfSeveralFamiliesWaitsForWhatItFlushesOnly) {
  SchedulingEnv env(env_.get());
  options_.env = &env;
  options_.atomic_flush = true;
  options_.write_buffer_size = 1 << 20;
  options_.max_write_buffer_number = 10;
  const auto db = Open(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  const std::vector<rocksdb::ColumnFamilyHandle*> families{db->DefaultColumnFamily(), family};
  for (rocksdb::ColumnFamilyHandle* each : families) ASSERT_OK(db->Put(no_wal, each, "key", "value"));
  const auto immutable = [&] {
    uint64_t number = 0;
    EXPECT_TRUE(db->GetIntProperty(rocksdb::DB::Properties::kNumImmutableMemTable, &number));
    return number;
  };
  rocksdb::InstrumentedMutex* const mutex = static_cast<rocksdb::DBImpl*>(db->GetRootDB())->mutex();
  // As a writer that gets the mutex between two steps of the recovery.
  env.at_schedule = [&] {
    mutex->Unlock();
    std::thread writer([&] {
      const std::string value(10000, 'v');
      const uint64_t before = immutable();
      for (int i = 0; i < 1000 && immutable() == before; ++i) {
        for (rocksdb::ColumnFamilyHandle* each : families) EXPECT_OK(db->Put(no_wal, each, std::to_string(i), value));
      }
      EXPECT_GT(immutable(), before);
    });
    writer.join();
    mutex->Lock();
  };
  disk_->retryable = kTable;
  rocksdb::FlushOptions flush;
  flush.wait = false;
  ASSERT_OK(db->Flush(flush, families));
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  env.armed = true;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_FALSE(env.armed);
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  CloseEnds(db.get()).PermitUncheckedError();
}

class SeveralFamiliesTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};

// RocksDB drops the flushes that were asked for before, one a second, and the recovery waits for that.
TEST_P(SeveralFamiliesTest, FlushesThatWereAskedForBeforeHoldUpNoRecovery) {
  constexpr int kFlushes = 20;
  options_.atomic_flush = GetParam();
  const auto db = Open(options_);
  std::vector<rocksdb::ColumnFamilyHandle*> families(kFlushes);
  for (int i = 0; i < kFlushes; ++i) {
    ASSERT_OK(db->CreateColumnFamily(options_, "family" + std::to_string(i), &families[i]));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), families[i], "key", "value"));
  }
  disk_->held = kTable;
  for (rocksdb::ColumnFamilyHandle* family : families) BeginFlush(db.get(), family);
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  disk_->retryable = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return listener_->recovered > 0; }));
  for (rocksdb::ColumnFamilyHandle* family : families) {
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "another value"));
    EXPECT_OK(Ends("Flush", [&] { return db->Flush(rocksdb::FlushOptions(), family); }));
    EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  }
  uint64_t failed = 0;
  EXPECT_TRUE(db->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &failed));
  EXPECT_LT(failed, 5u);  // the first one, and attempts before the disk was well
  EXPECT_OK(CloseEnds(db.get()));
}

TEST_P(SeveralFamiliesTest, FlushesThatAreAskedForAgainAndAgainHoldUpNoRecovery) {
  options_.atomic_flush = GetParam();
  const auto db = OpenWithKey(options_);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "value"));
  std::atomic<int> asked{0};
  std::atomic<bool> ends{false};
  disk_->retryable = kTable;
  std::thread flusher([&] {
    for (; !ends; ++asked) {
      BeginFlush(db.get());
      BeginFlush(db.get(), family);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(Await([&] { return listener_->errors > 0; }));
  EXPECT_TRUE(Await([&, before = asked.load()] { return asked > before + 100; }));
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ends = true;
  flusher.join();
  EXPECT_OK(db->DestroyColumnFamilyHandle(family));
  EXPECT_OK(CloseEnds(db.get()));
}

INSTANTIATE_TEST_SUITE_P(AtOnceOrNot, SeveralFamiliesTest, ::testing::Bool());

// The flush of what is in no WAL fails before a WAL does, or after it. Such a flush alone leaves the WAL that takes no further
// entry, as RocksDB does.
class AWalFailsTooTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};

TEST_P(AWalFailsTooTest, AllIsFlushed) {
  const bool before = GetParam();
  options_.bgerror_resume_retry_interval = 200000;
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  ASSERT_OK(db->Put(no_wal, "key", "value"));
  const auto fail_wal = [&] {
    disk_->unsynced = kWal;
    EXPECT_TRUE(db->SyncWAL().IsIOError());
    disk_->unsynced = 0;
  };
  disk_->held = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  if (before) fail_wal();
  const int errors = listener_->errors;
  disk_->retryable = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > errors; }));
  if (!before) {
    EXPECT_OK(Put(db.get()));
    fail_wal();
  }
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->SyncWAL());
  EXPECT_OK(CloseEnds(db.get()));
}

INSTANTIATE_TEST_SUITE_P(BeforeOrAfter, AWalFailsTooTest, ::testing::Bool());

// RocksDB goes on with the WAL, and the next write stops the database for good.
class EmptyWalTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<rocksdb::CompressionType> {};
INSTANTIATE_TEST_SUITE_P(CompressedOrNot, EmptyWalTest, ::testing::Values(rocksdb::kNoCompression, rocksdb::kZSTD));

TEST_P(EmptyWalTest, MayFailToBeSynced) {
  options_.wal_compression = GetParam();
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  disk_->unsynced = kWal;
  EXPECT_TRUE(db->SyncWAL().IsIOError());
  disk_->unsynced = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->SyncWAL());
}

// RocksDB's recovery waits for the flush of memtables that count as being flushed for ever.
TEST_F(ErrorRecoveryTest, AtomicFlushesWhoseFolderCannotBeSynced) {
  options_.atomic_flush = true;
  const auto db = OpenWithKey(options_);
  disk_->folders_unsynced = true;
  BeginFlush(db.get());
  EXPECT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->folders_unsynced = false;
  if (!Await([&] { return listener_->recovered > 0; })) Hangs("the recovery");
  EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  EXPECT_OK(CloseEnds(db.get()));
}

TEST_F(ErrorRecoveryTest, ResumeAfterAtomicFlushesWhoseFolderCannotBeSynced) {
  options_.atomic_flush = true;
  options_.max_bgerror_resume_count = 0;
  const auto db = Open(options_);
  for (const bool has_wal : {false, true}) {
    rocksdb::WriteOptions write;
    write.disableWAL = !has_wal;
    ASSERT_OK(db->Put(write, "key", "value"));
    const int errors = listener_->errors;
    disk_->folders_unsynced = true;
    BeginFlush(db.get());
    EXPECT_TRUE(Await([&] { return listener_->errors > errors; }));
    disk_->folders_unsynced = false;
    EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  EXPECT_OK(CloseEnds(db.get()));
}

// RocksDB says that it is synced, and then syncs what is not.
TEST_F(ErrorRecoveryTest, AFolderOfWalsThatCannotBeSynced) {
  options_.two_write_queues = true;
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  const auto db = OpenWithKey(options_);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  disk_->folders_unsynced = true;
  EXPECT_TRUE(db->Put(synced, "key", "value").IsIOError());
  disk_->folders_unsynced = false;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(db->Put(synced, "key", "value"));
  EXPECT_OK(CloseEnds(db.get()));
}

TEST_F(ErrorRecoveryTest, ABlockCacheThatHasNoRoom) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8 << 20, 0, /*strict_capacity_limit=*/true);
  table.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged =
      rocksdb::CacheEntryRoleOptions::Decision::kEnabled;
  options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  const auto db = OpenWithKey(options_);
  table.block_cache->SetCapacity(0);
  BeginFlush(db.get());
  EXPECT_TRUE(Await([&] { return listener_->errors > 0; }));
  table.block_cache->SetCapacity(8 << 20);
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
}

// Its flush fails, and a listener hears on the flush's own thread that nobody recovers: Resume there waited for that flush.
TEST_F(ErrorRecoveryTest, ResumeIsRefusedWhenCloseHasBegun) {
  std::atomic<rocksdb::DB*> opened{nullptr};
  std::atomic<bool> refused{false};
  listener_->at_end = [&] { refused = opened.load()->Resume().IsShutdownInProgress(); };
  options_.memtable_factory = rocksdb::Options().memtable_factory;  // Close flushes what has no WAL
  const auto db = Open(options_);
  opened = db.get();
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  ASSERT_OK(db->Put(no_wal, "key", "value"));
  disk_->retryable = kTable;
  CloseEnds(db.get()).PermitUncheckedError();
  EXPECT_TRUE(refused);
}

// A recovery's flushes wait until background work goes on, which may be never.
class PausedTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OnAFullDiskOrNot, PausedTest, ::testing::Bool());

TEST_P(PausedTest, CloseDoesNotWaitForTheRecovery) {
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->PauseBackgroundWork());
  listener_->at_error = [&] { disk_->full = disk_->retryable = 0; };
  (GetParam() ? disk_->full : disk_->retryable) = kWal;
  EXPECT_FALSE(Put(db.get()).ok());
  EXPECT_TRUE(Await([&] {
    uint64_t pending = 0;
    return db->GetIntProperty(rocksdb::DB::Properties::kMemTableFlushPending, &pending) && pending > 0;
  }));
  EXPECT_OK(CloseEnds(db.get()));
  EXPECT_EQ(listener_->recovered, 0);
}

// Clients try again while they are refused. Pipelined and unordered writes told of the error that they were refused for, which
// RocksDB took for one of the attempt to recover, or for a fatal one.
class RefusedWritersTest : public ErrorRecoveryTest, public ::testing::WithParamInterface<bool> {
 protected:
  RefusedWritersTest() {
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    (GetParam() ? options_.enable_pipelined_write : options_.unordered_write) = true;
  }
  void ExpectThatWritersGoOn(rocksdb::DB* db, const std::function<void()>& fail, const std::function<void()>& mend) {
    std::list<Writer> writers;
    for (int i = 0; i < 4; ++i) writers.emplace_back(db);
    EXPECT_TRUE(writers.front().GoesOn());
    fail();
    EXPECT_TRUE(Await([&] { return listener_->errors > 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // enough for hundreds to be refused
    mend();
    EXPECT_TRUE(writers.front().GoesOn());
    EXPECT_LT(listener_->errors, 100);  // nobody hears of each
  }
};
INSTANTIATE_TEST_SUITE_P(PipelinedOrUnordered, RefusedWritersTest, ::testing::Bool());

TEST_P(RefusedWritersTest, DoNotDisturbTheRecoveryFromAFullDisk) {
  const auto db = Open(options_);
  ExpectThatWritersGoOn(
      db.get(), [&] { disk_->full = kWal; }, [&] { disk_->full = 0; });
}

TEST_P(RefusedWritersTest, DoNotMakeASpaceLimitFatal) {
  const auto db = Open(options_);
  const auto reach_the_limit = [&] {
    manager_->SetMaxAllowedSpaceUsage(1);
    db->Flush(rocksdb::FlushOptions()).PermitUncheckedError();
  };
  ExpectThatWritersGoOn(db.get(), reach_the_limit, [&] { manager_->SetMaxAllowedSpaceUsage(0); });
}

// RocksDB takes that for fatal.
TEST_F(ErrorRecoveryTest, AFullDiskHasNoRoomForTheNextWal) {
  const auto db = OpenWithKey(options_);
  disk_->refuses_wal = true;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsNoSpace());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
}

// Of a compaction, the same.
TEST_F(ErrorRecoveryTest, ACompactionFindsNoSpaceBesideTransactionsInTwoPhases) {
  options_.allow_2pc = true;
  options_.disable_auto_compactions = true;
  const auto db = Open(options_);
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "the key behind", "value"));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  disk_->full = kTable;
  EXPECT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).IsNoSpace());
  EXPECT_OK(Put(db.get()));
  disk_->full = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
}

// Close waited until its flush would slow down no writer, for a compaction that is larger than the allowed space.
TEST_F(ErrorRecoveryTest, CloseWaitsForNoCompaction) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.level0_file_num_compaction_trigger = 2;
  options_.level0_slowdown_writes_trigger = 3;
  options_.disable_auto_compactions = true;
  auto db = Open(options_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  manager_->SetMaxAllowedSpaceUsage(2 * manager_->GetTotalSize() - 1);
  EXPECT_OK(db->SetOptions({{"disable_auto_compactions", "false"}}));
  rocksdb::WriteOptions no_wal;
  no_wal.disableWAL = true;
  EXPECT_OK(db->Put(no_wal, "in no WAL", "value"));
  EXPECT_OK(CloseEnds(db.get()));
  manager_->SetMaxAllowedSpaceUsage(0);
  db = Open(options_);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "in no WAL", &value));
}

// What it writes has used up the allowed space before it may remove as much.
TEST_F(ErrorRecoveryTest, AFifoRemovesItsOldestTableThoughItMayUseNoMoreSpace) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.compaction_style = rocksdb::kCompactionStyleFIFO;
  options_.compaction_options_fifo.max_table_files_size = 100000;
  options_.compression = rocksdb::kNoCompression;
  manager_->SetMaxAllowedSpaceUsage(120000);
  const auto db = Open(options_);
  rocksdb::WaitForCompactOptions patience;
  patience.timeout = std::chrono::seconds(20);
  for (int i = 0; i < 30; ++i) {
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), std::string(10000, 'v')));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
    EXPECT_OK(db->WaitForCompact(patience));
    if (HasFailure()) break;
  }
  EXPECT_EQ(listener_->errors, 0);
  EXPECT_LE(manager_->GetTotalSize(), 120000);
}

// Its table and its blobs are in nobody's way, but RocksDB never removed the blobs.
TEST_F(ErrorRecoveryTest, FilesOfAFlushThatTheManifestDoesNotNameAreRemoved) {
  options_.enable_blob_files = true;
  const auto db = OpenWithKey(options_);
  disk_->full = test::kManifest;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsNoSpace());
  disk_->full = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  EXPECT_OK(db->DisableFileDeletions());
  EXPECT_OK(db->EnableFileDeletions());  // looks through the folder
  const auto files = [&](const char* kind) {
    std::vector<std::string> names;
    EXPECT_OK(env_->GetChildren(dir_ / "db", &names));
    return std::count_if(names.begin(), names.end(),
                         [&](const std::string& name) { return name.find(kind) != std::string::npos; });
  };
  EXPECT_TRUE(Await([&] { return files(".blob") == 2 && files(".sst") == 2; }));
}

}  // namespace
}  // namespace cairn
