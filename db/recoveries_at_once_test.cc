// Several recoveries of one database beside each other: that of a thread that tries again and again after an error that may
// pass (T), that of its SstFileManager after a full disk (S), and Resume. Each waits for flushes of its own, and RocksDB, and
// ours once, told those that fail to whom it took to be the only one. It recovers all the same, and nobody waits for ever.

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "db/error_recovery_fixture.h"
#include "gtest/gtest.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/system_clock.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/faulty_disk.h"
#include "test/testutil/until_it_waits.h"

namespace cairn {
namespace {

using rocksdb::Status;
using test::kOther;
using test::kTable;
using test::kWal;

// Does not pause for a second after a flush that has failed.
class ImpatientClock : public rocksdb::SystemClockWrapper {
 public:
  using SystemClockWrapper::SystemClockWrapper;
  const char* Name() const override { return "ImpatientClock"; }
  void SleepForMicroseconds(int micros) override { target_->SleepForMicroseconds(std::min(micros, 1000)); }
};
class ImpatientEnv : public rocksdb::EnvWrapper {
 public:
  explicit ImpatientEnv(rocksdb::Env* env) : EnvWrapper(env) {
    system_clock_ = std::make_shared<ImpatientClock>(env->GetSystemClock());
  }
  const char* Name() const override { return "ImpatientEnv"; }
};

class RecoveriesAtOnceTest : public ErrorRecoveryTest {
 protected:
  static constexpr std::chrono::milliseconds kInterval{1000};  // of T's attempts
  static constexpr std::chrono::milliseconds kMoreThanInterval{1300};

  RecoveriesAtOnceTest() {
    options_.env = &impatient_;
    options_.bgerror_resume_retry_interval = std::chrono::microseconds(kInterval).count();
    no_wal_.disableWAL = true;
  }
  // Waits for what happened once. It need not happen any more, nor be in time on a busy machine.
  template <typename Done>
  static void AwaitAWhile(const Done& done) {
    for (int i = 0; i < 300 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // A database in which flushes of two families fail, without a WAL, the second one on a full disk: while T waits for its next
  // attempt, S begins one, which flushes all families. at_error: is told how many errors there were, when the disk is as it
  // will be next; of the third one, that of the full disk, before S hears of it.
  std::unique_ptr<rocksdb::DB> OpenWithTandS(const std::function<void(rocksdb::DB* db, int errors)>& at_error) {
    std::unique_ptr<rocksdb::DB> db = Open(options_);
    listener_->at_error = [this, at_error, opened = db.get()] {
      const int errors = listener_->errors;
      if (errors == 2) disk_->full = kTable;
      if (errors == 3) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // enough for T to wait
      if (errors > 2) disk_->full = disk_->retryable = 0;
      at_error(opened, errors);
      ++seen_;
    };
    EXPECT_OK(db->CreateColumnFamily(options_, "family", &family_));
    EXPECT_OK(db->Put(no_wal_, "key", "value"));
    EXPECT_OK(db->Put(no_wal_, family_, "key", "value"));
    disk_->held = kTable;
    BeginFlush(db.get());
    EXPECT_TRUE(Await([&] { return disk_->waiting > 0; }));
    BeginFlush(db.get(), family_);
    disk_->retryable = kTable;
    disk_->held = 0;
    // On a busy machine T may give up before.
    EXPECT_TRUE(Await([&] { return seen_ > 2; }) || listener_->ends > 0);
    return db;
  }
  // Has a flush fail while listeners hear that a first recovery has ended, whichever it is. It may have been held.
  void FailAFlushAtTheEnd(std::atomic<int>* fault) {
    listener_->at_end = [this, fault] {
      if (listener_->ends > 1) return;
      *fault = kTable;
      disk_->held = 0;
      AwaitAWhile([&] { return seen_ > 3; });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // enough for the error to be passed on
      *fault = 0;
      heard_ = true;
    };
  }
  void AwaitTheEnd() {
    AwaitAWhile([&] { return listener_->ends > 0; });
    disk_->held = 0;
    EXPECT_TRUE(Await([&] { return heard_.load(); }));
  }
  // When the disk is well.
  void ExpectThatItRecovers(rocksdb::DB* db) {
    EXPECT_TRUE(Await([&] { return Ends("Flush", [&] { return db->Flush(rocksdb::FlushOptions()); }).ok(); }))
        << "it does not recover";
    EXPECT_OK(Ends("Put", [&] { return Put(db); }));
    EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
    if (family_ != nullptr) EXPECT_OK(db->DestroyColumnFamilyHandle(family_));
    EXPECT_OK(CloseEnds(db));
  }
  // After a fatal error.
  void ExpectThatItEnds(rocksdb::DB* db) {
    EXPECT_TRUE(Await([&] { return !Ends("Put", [&] { return Put(db); }).ok(); }));
    if (family_ != nullptr) EXPECT_OK(db->DestroyColumnFamilyHandle(family_));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for who waits for ever to do so
    CloseEnds(db).PermitUncheckedError();
  }

  // By a listener that hears of the end of a recovery.
  void CloseAtEnd(rocksdb::DB* db) {
    listener_->at_end = [this, db] {
      EXPECT_OK(db->Close());
      closed_ = true;
    };
  }
  void ExpectThatItCloses() {
    if (!Await([&] { return closed_.load(); })) Hangs("Close");
  }

  void HoldWhoHearsOfTheFirstEnd() {
    listener_->at_end = [this] {
      if (hears_.exchange(true)) return;
      while (holds_) std::this_thread::yield();
    };
  }
  // When the disk is well again.
  void FailAFlushUntilTheListenerHears(rocksdb::DB* db) {
    disk_->retryable = kTable;
    BeginFlush(db);
    ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
    disk_->retryable = 0;
    ASSERT_TRUE(Await([&] { return hears_.load(); }));
  }

  // For its next attempt, whose flush fails as well, until the disk is well again.
  void FailFlushesUntilTWaits(rocksdb::DB* db) {
    disk_->retryable = kTable;
    BeginFlush(db);
    ASSERT_TRUE(Await([&] { return listener_->errors > 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // enough for T to wait
  }

  ImpatientEnv impatient_{env_.get()};
  std::atomic<bool> hears_{false}, holds_{true}, closed_{false};
  rocksdb::WriteOptions no_wal_;
  rocksdb::ColumnFamilyHandle* family_ = nullptr;  // may be null
  std::atomic<int> seen_{0};                       // errors, by at_error
  std::atomic<bool> heard_{false};                 // a first recovery's end
};

// S has recovered the database, and said that no recovery is in progress, when T tries again: it did not hear that its flush
// failed, and waited for it for ever. Which flush: of a memtable that has filled up since, one of two for a flush.
class AnAttemptAfterTheEndTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(ThatMayPassOrNot, AnAttemptAfterTheEndTest, ::testing::Bool());

TEST_P(AnAttemptAfterTheEndTest, MeetsAnError) {
  const bool for_good = GetParam();
  options_.min_write_buffer_number_to_merge = 2;
  options_.max_write_buffer_number = 6;
  const auto db = OpenWithTandS([](rocksdb::DB* /*db*/, int /*errors*/) {});
  ASSERT_TRUE(Await([&] { return listener_->recovered > 0; }));
  (for_good ? disk_->broken : disk_->retryable) = kTable;
  const std::string value(1000, 'v');
  uint64_t immutable = 0;
  for (int i = 0; i < 1000 && immutable == 0; ++i) {
    db->Put(no_wal_, "key" + std::to_string(i), value).PermitUncheckedError();  // an attempt may have met the error
    ASSERT_TRUE(db->GetIntProperty(rocksdb::DB::Properties::kNumImmutableMemTable, &immutable));
  }
  AwaitAWhile([&] { return listener_->errors > 3; });
  if (for_good) {
    BeginFlush(db.get());  // if T has not met it
    return ExpectThatItEnds(db.get());
  }
  disk_->retryable = 0;
  ExpectThatItRecovers(db.get());
}

// T gives up, and says that no recovery is in progress, while a flush of S is under way, which fails: S did not hear of it, and
// waited for it for ever.
class TheOtherOnesFlushTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OnAFullDiskOrNot, TheOtherOnesFlushTest, ::testing::Bool());

TEST_P(TheOtherOnesFlushTest, FailsWhileListenersHearThatARecoveryHasGivenUp) {
  options_.max_bgerror_resume_count = 1;
  FailAFlushAtTheEnd(GetParam() ? &disk_->full : &disk_->retryable);
  const auto db = OpenWithTandS([&](rocksdb::DB* /*db*/, int errors) {
    if (errors == 3) disk_->held = kTable;
  });
  AwaitTheEnd();
  if (seen_ < 3) {  // T gave up before S began
    disk_->full = disk_->retryable = 0;
    EXPECT_OK(db->Resume());
  }
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ExpectThatItRecovers(db.get());
}

// S waits for a writer before it flushes. T's attempt succeeds meanwhile, and says that no recovery is in progress: S did not
// hear that its flush met a full disk, and waited for it for ever.
TEST_F(RecoveriesAtOnceTest, OneSucceedsBeforeTheFlushOfAnother) {
  std::future<Status> put;
  FailAFlushAtTheEnd(&disk_->full);
  const auto db = OpenWithTandS([&](rocksdb::DB* opened, int errors) {
    if (errors != 2) return;
    const int waiting = disk_->waiting;
    disk_->held = kWal;
    put = std::async(std::launch::async, [opened] { return Put(opened); });
    EXPECT_TRUE(Await([&] { return disk_->waiting > waiting; }));
  });
  AwaitTheEnd();
  Ends("Put", [&] { return put.get(); }).PermitUncheckedError();
  ExpectThatItRecovers(db.get());
}

// S's flush meets a fatal error. A listener takes its time to hear of it, and meanwhile T begins an attempt, which makes the
// error forgotten and ends because it is fatal: S waited for a flush that nobody made.
class AFatalErrorTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(ResumesOrNot, AFatalErrorTest, ::testing::Bool());

TEST_P(AFatalErrorTest, IsForgottenByAnAttemptThatBegins) {
  const auto db = OpenWithTandS([&](rocksdb::DB* /*db*/, int errors) {
    if (errors == 3) disk_->broken = kTable;
    if (errors > 3) std::this_thread::sleep_for(kMoreThanInterval);  // enough for T to begin
  });
  ASSERT_TRUE(Await([&] { return listener_->errors > 3; }));
  EXPECT_TRUE(Await([&] { return !Put(db.get()).ok(); }));
  AwaitAWhile([&] { return listener_->ends > 0; });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for T to have ended
  if (GetParam()) {
    EXPECT_FALSE(Ends("Resume", [&] { return db->Resume(); }).ok());
  }
  ExpectThatItEnds(db.get());
}

// A listener hears that T has recovered the database. There is another error, from which nobody recovers, and Resume fails: T
// took that for the end of its own attempt, and tried again though no recovery was in progress any more, for ever.
class ResumeTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(SpaceIsKnownOrNot, ResumeTest, ::testing::Bool());

TEST_P(ResumeTest, FailsWhileAListenerHearsOfTheEnd) {
  if (GetParam()) {
    listener_->recovers = false;
  } else {
    disk_->space_unknown = true;
  }
  HoldWhoHearsOfTheFirstEnd();
  const auto db = OpenWithKey(options_);
  ASSERT_NO_FATAL_FAILURE(FailAFlushUntilTheListenerHears(db.get()));
  EXPECT_OK(Put(db.get()));
  disk_->full = kTable;
  BeginFlush(db.get());
  EXPECT_TRUE(Await([&] { return !Put(db.get()).ok(); }));
  disk_->retryable = kTable;
  disk_->full = 0;
  EXPECT_FALSE(Ends("Resume", [&] { return db->Resume(); }).ok());
  holds_ = false;
  disk_->retryable = 0;
  std::this_thread::sleep_for(kMoreThanInterval);  // enough for T to begin
  CloseEnds(db.get()).PermitUncheckedError();
}

// S waits for space for a compaction, and another error has background work stopped; then S meets a fatal one. Nobody told the
// writer that nobody recovers any longer.
TEST_F(RecoveriesAtOnceTest, AWriterThatAWriteBufferManagerHoldsBackHearsOfAFatalError) {
  const auto db = OpenWithBufferManagerAndHeldFlushes();
  disk_->held = 0;
  for (int i = 0; i < 2; ++i) {
    for (const char* const key : {"key", "the key behind"}) ASSERT_OK(db->Put(no_wal_, key, "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  disk_->full = kTable;
  EXPECT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).IsNoSpace());
  disk_->retryable = kTable;
  disk_->full = kOther;  // so that S goes on waiting
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 1; }));
  {
    const Writer writer(db.get());
    ASSERT_TRUE(Await([&] { return options_.write_buffer_manager->IsStallActive(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the writer to be held back
    disk_->broken = kTable;
    disk_->full = 0;
    if (!Await([&] { return writer.refused() > 0; })) Hangs("Put");
  }
  CloseEnds(db.get()).PermitUncheckedError();
}

// A listener hears that T has recovered the database from an error of a flush. The WAL fails meanwhile, twice: T took that for
// an error of its flush, and went on with the WAL that takes no further entry.
TEST_F(RecoveriesAtOnceTest, TheWalFailsWhileAListenerHearsOfTheEnd) {
  HoldWhoHearsOfTheFirstEnd();
  const auto db = Open(options_);
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  ASSERT_NO_FATAL_FAILURE(FailAFlushUntilTheListenerHears(db.get()));
  ASSERT_OK(Put(db.get()));
  disk_->unsynced = kWal;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(Ends("SyncWAL", [&] { return db->SyncWAL(); }).ok());
  disk_->unsynced = 0;
  holds_ = false;
  EXPECT_TRUE(Await([&] { return listener_->recovered > 1; }));
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->SyncWAL());
  ExpectThatItRecovers(db.get());
}

// T had given up, and a listener that heard so was refused: once a Resume of its own had failed, all others were Busy until it
// returned.
TEST_F(RecoveriesAtOnceTest, AListenerThatHearsThatOneHasGivenUpResumes) {
  options_.max_bgerror_resume_count = 1;
  const auto db = Open(options_);
  listener_->at_end = [&] {
    if (listener_->ends > 1) return;
    EXPECT_FALSE(db->Resume().ok());
    disk_->retryable = 0;
    EXPECT_OK(db->Resume());
    heard_ = true;
  };
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return heard_.load(); }));
  ExpectThatItRecovers(db.get());
}

// Nobody retries after an error that may pass, and a flush is queued. Resume waited for a compaction before it had that flush
// go on, and the compaction for its listener, who flushes.
TEST_F(RecoveriesAtOnceTest, ResumeMeetsACompactionWhoseListenerFlushes) {
  options_.max_bgerror_resume_count = 0;
  options_.disable_auto_compactions = true;
  options_.max_write_buffer_number = 8;
  std::atomic<bool> compacts{false}, holds{true};
  const auto db = Open(options_);
  const auto flush = [&] {
    for (const char* const key : {"key", "the key behind"}) EXPECT_OK(db->Put(no_wal_, key, "value"));
    return db->Flush(rocksdb::FlushOptions());
  };
  listener_->at_compaction = [&] {
    compacts = true;
    while (holds) std::this_thread::yield();
    flush().PermitUncheckedError();  // refused if Resume has not begun
  };
  for (int i = 0; i < 2; ++i) ASSERT_OK(flush());
  std::future<Status> compaction = std::async(
      std::launch::async, [&] { return db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr); });
  ASSERT_TRUE(Await([&] { return compacts.load(); }));
  disk_->retryable = kTable;
  EXPECT_FALSE(flush().ok());
  disk_->retryable = 0;
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  BeginFlush(db.get());
  std::future<Status> resumed = test::BeginUntilItWaits([&] { return db->Resume(); });
  holds = false;
  EXPECT_OK(Ends("Resume", [&] { return resumed.get(); }));
  Ends("CompactRange", [&] { return compaction.get(); }).PermitUncheckedError();  // as above
  ExpectThatItRecovers(db.get());
}

// A family's flush is put off until its timestamps may be forgotten: a recovery from another one's error waited for it.
TEST_F(RecoveriesAtOnceTest, AFlushThatIsPutOffHoldsNoRecoveryUp) {
  options_.allow_concurrent_memtable_write = false;
  rocksdb::Options timestamps = test::BaseOptions();
  timestamps.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  timestamps.persist_user_defined_timestamps = false;
  timestamps.max_write_buffer_number = 8;
  const auto db = Open(options_);
  ASSERT_OK(db->CreateColumnFamily(timestamps, "family", &family_));
  ASSERT_OK(db->IncreaseFullHistoryTsLow(family_, std::string(8, '\1')));
  const std::string time(8, '\2'), value(1000, 'v');
  uint64_t immutable = 0;
  for (int i = 0; i < 1000 && immutable == 0; ++i) {
    ASSERT_OK(db->Put(no_wal_, family_, "key" + std::to_string(i), time, value));
    ASSERT_TRUE(db->GetIntProperty(family_, rocksdb::DB::Properties::kNumImmutableMemTable, &immutable));
  }
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  if (!Await([&] { return listener_->recovered > 0; })) Hangs("the recovery");
  ExpectThatItRecovers(db.get());
}

// The WAL meets a full disk, and S waits for a flush that goes on, which fails so that nothing but a flush need be repeated: S
// took that for the error to recover from, and the WAL that had failed was written on.
TEST_F(RecoveriesAtOnceTest, AFlushFailsWhileAnotherRecoversTheWal) {
  listener_->at_error = [&] { disk_->full = disk_->retryable = 0; };  // before S hears of it
  const auto db = Open(options_);
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  disk_->held = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  disk_->full = kWal;
  EXPECT_FALSE(Put(db.get()).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for S to wait
  disk_->retryable = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 1 && listener_->recovered > 0; }));
  EXPECT_OK(Put(db.get()));
  ExpectThatItRecovers(db.get());
}

// WaitForCompact that closes the database has no further flush queued: T, whose second flush was to come, waited for it.
TEST_F(RecoveriesAtOnceTest, WaitForCompactClosesTheDatabaseMeanwhile) {
  listener_->at_error = [&] { disk_->retryable = 0; };
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family_));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), family_, "key", "value"));
  ASSERT_OK(db->DestroyColumnFamilyHandle(family_));
  disk_->held = kTable;
  disk_->retryable = kWal;
  EXPECT_FALSE(Put(db.get()).ok());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  std::future<Status> closed = WaitForCompactAndClose(db.get());
  disk_->held = 0;
  Ends("WaitForCompact", [&] { return closed.get(); }).PermitUncheckedError();
}

// S has recovered the database while T waits for its next attempt, and meets another error, which stops nothing: T's attempt
// waited for a long compaction, and S for T.
TEST_F(RecoveriesAtOnceTest, NobodyWaitsForALongCompaction) {
  options_.disable_auto_compactions = true;
  options_.max_background_jobs = 4;  // two compactions at once
  std::atomic<bool> holds{true};
  listener_->at_compaction = [&] {
    if (heard_.exchange(true)) return;
    while (holds) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  listener_->at_error = [&] {
    if (disk_->full == kWal) disk_->full = 0;  // before S hears of it
  };
  const auto db = Open(options_);
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family_));
  for (int i = 0; i < 2; ++i) {
    for (rocksdb::ColumnFamilyHandle* const family : {db->DefaultColumnFamily(), family_}) {
      for (const char* const key : {"key", "the key behind"}) ASSERT_OK(db->Put(no_wal_, family, key, "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions(), family));
    }
  }
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  ASSERT_NO_FATAL_FAILURE(FailFlushesUntilTWaits(db.get()));
  disk_->retryable = 0;
  disk_->full = kWal;
  Put(db.get()).PermitUncheckedError();  // goes well if T meets its error just then
  disk_->full = 0;
  ASSERT_TRUE(Await([&] { return listener_->recovered > 0 && Put(db.get()).ok(); }));
  const auto compact = [&](rocksdb::ColumnFamilyHandle* family) {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    return db->CompactRange(options, family, nullptr, nullptr);
  };
  std::future<Status> compaction = std::async(std::launch::async, [&] { return compact(db->DefaultColumnFamily()); });
  ASSERT_TRUE(Await([&] { return heard_.load(); }));
  const int recovered = listener_->recovered;
  disk_->full = kTable;
  EXPECT_TRUE(compact(family_).IsNoSpace());
  std::this_thread::sleep_for(kMoreThanInterval);  // enough for T to begin
  disk_->full = 0;
  EXPECT_TRUE(Await([&] { return listener_->recovered > recovered; })) << "S does not recover it";
  holds = false;
  EXPECT_OK(Ends("CompactRange", [&] { return compaction.get(); }));
  ExpectThatItRecovers(db.get());
}

// Somebody asks for a flush while the recovery's waits for a WAL to be synced, which then takes all memtables along: the other
// one waited for its turn for ever, and the next Flush of the family behind it.
TEST_F(RecoveriesAtOnceTest, AFlushThatTheRecoveryHasDoneAlreadyHoldsNobodyUp) {
  options_.max_background_jobs = 4;
  options_.max_write_buffer_number = 8;
  std::atomic<rocksdb::DB*> opened{nullptr};
  std::atomic<bool> has_flushed{false};
  listener_->at_end = [&] {
    if (listener_->recovered == 0 || has_flushed) return;
    EXPECT_OK(Put(opened));
    rocksdb::FlushOptions flush;
    flush.allow_write_stall = true;
    EXPECT_OK(opened.load()->Flush(flush));
    has_flushed = true;
  };
  const auto db = OpenWithKey(options_);
  opened = db.get();
  ASSERT_OK(db->CreateColumnFamily(options_, "family", &family_));
  disk_->held = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  ASSERT_OK(Put(db.get()));
  BeginFlush(db.get());
  disk_->held_syncs = kWal;
  disk_->retryable = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return disk_->waiting_syncs > 0; }));
  BeginFlush(db.get());
  disk_->held_syncs = 0;
  if (!Await([&] { return has_flushed.load(); })) Hangs("Flush of a listener");
  ExpectThatItRecovers(db.get());
}

// S, or Resume, has cleared its error, and a listener that hears of it takes long. Close began while T recovered from another
// error, and the listener's end said that no recovery was in progress: T waited for ever for its flush, which had failed.
class AListenerThatTakesLongTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OfSOrResume, AListenerThatTakesLongTest, ::testing::Bool());

TEST_P(AListenerThatTakesLongTest, ReturnsWhileCloseWaitsForT) {
  listener_->recovers = !GetParam();
  listener_->at_error = [&] {
    if (listener_->errors == 1) disk_->full = 0;
    if (listener_->errors == 2) disk_->held = kTable;
  };
  HoldWhoHearsOfTheFirstEnd();
  const auto db = OpenWithKey(options_);
  disk_->full = kTable;
  EXPECT_FALSE(db->Flush(rocksdb::FlushOptions()).ok());
  std::future<Status> resumed;
  if (GetParam()) resumed = std::async(std::launch::async, [&] { return db->Resume(); });
  if (!Await([&] { return hears_.load(); })) Hangs("the first recovery");
  EXPECT_OK(Put(db.get()));
  disk_->retryable = kTable;
  BeginFlush(db.get());
  if (!Await([&] { return disk_->waiting > 0; })) Hangs("T");
  std::future<Status> closed = test::BeginUntilItWaits([&] { return db->Close(); });
  holds_ = false;
  if (resumed.valid()) {
    Ends("Resume", [&] { return resumed.get(); }).PermitUncheckedError();  // it needs what Close closes
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // enough for the first recovery to end
  }
  disk_->held = 0;
  EXPECT_OK(Ends("Close", [&] { return closed.get(); }));
}

// As WaitForCompactClosesTheDatabaseMeanwhile: a listener's flush was not queued either, for which it waited, and Close for it.
class AListenersFlushTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(AtomicOrNot, AListenersFlushTest, ::testing::Bool());

TEST_P(AListenersFlushTest, EndsWhileWaitForCompactClosesTheDatabase) {
  options_.atomic_flush = GetParam();
  std::atomic<rocksdb::DB*> opened{nullptr};
  listener_->at_error = [&] {
    disk_->held = kTable;
    disk_->retryable = 0;
  };
  listener_->at_end = [&] {
    if (listener_->recovered == 0) return;
    EXPECT_OK(Put(opened));
    EXPECT_OK(opened.load()->Flush(rocksdb::FlushOptions()));
    heard_ = true;
  };
  const auto db = OpenWithKey(options_);
  opened = db.get();
  disk_->retryable = kTable;
  BeginFlush(db.get());
  ASSERT_TRUE(Await([&] { return disk_->waiting > 0; }));
  std::future<Status> closed = WaitForCompactAndClose(db.get());
  disk_->held = 0;
  EXPECT_OK(Ends("WaitForCompact", [&] { return closed.get(); }));
  EXPECT_EQ(heard_.load(), listener_->recovered > 0);  // RocksDB 11 may end the recovery
}

// T has cleared an error, and that of the full disk for which S still waits for space. A listener that hears of it meets another
// one, which T is to recover from: it left that to S, where nothing was left.
TEST_F(RecoveriesAtOnceTest, AListenerMeetsAnErrorWhileSWaitsForSpace) {
  std::atomic<rocksdb::DB*> opened{nullptr};
  listener_->at_end = [&] {
    if (listener_->recovered == 0 || heard_.exchange(true)) return;
    disk_->retryable = kWal;
    EXPECT_FALSE(Put(opened).ok());
    disk_->retryable = 0;
  };
  const auto db = OpenWithKey(options_);
  opened = db.get();
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  ASSERT_NO_FATAL_FAILURE(FailFlushesUntilTWaits(db.get()));
  disk_->full = kWal;
  EXPECT_TRUE(Put(db.get()).IsNoSpace());
  disk_->full = kOther;  // no space is free
  disk_->retryable = 0;
  ASSERT_TRUE(Await([&] { return heard_.load(); }));
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); })) << "T does not recover it";
  disk_->full = 0;
  ExpectThatItRecovers(db.get());
}

// T's last attempt has failed, and S recovers the database before T gives up: listeners heard last that it was not recovered.
TEST_F(RecoveriesAtOnceTest, ListenersHearNoFailureAfterTheSuccessOfAnother) {
  options_.max_bgerror_resume_count = 1;
  listener_->at_error = [&] {
    if (listener_->errors > 2) disk_->full = 0;
  };
  const auto db = OpenWithKey(options_);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->Put(no_wal_, "key", "value"));
  ASSERT_NO_FATAL_FAILURE(FailFlushesUntilTWaits(db.get()));
  disk_->retryable = 0;
  disk_->full = kWal;
  Put(db.get()).PermitUncheckedError();  // goes well if T has given up by now
  disk_->full = 0;
  if (listener_->ends == 0) {
    ASSERT_TRUE(Await([&] { return listener_->recovered > 0; }));
    std::this_thread::sleep_for(kMoreThanInterval);
    EXPECT_EQ(listener_->ends, listener_->recovered);
  }
  ExpectThatItRecovers(db.get());
}

// There is no room for the stack of another thread when T or S begins: the process ended.
class NoThreadTest : public RecoveriesAtOnceTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(OnAFullDiskOrNot, NoThreadTest, ::testing::Bool());

TEST_P(NoThreadTest, ResumeRecovers) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);
  listener_->at_error = [&] { hears_ = pthread_setattr_default_np(&huge) == 0; };
  const auto db = OpenWithKey(options_);
  (GetParam() ? disk_->full : disk_->retryable) = kTable;
  EXPECT_FALSE(db->Flush(rocksdb::FlushOptions()).ok());  // may return before listeners hear of it
  ASSERT_TRUE(Await([&] { return hears_.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // enough for T or S to find no thread
  EXPECT_EQ(pthread_setattr_default_np(&usual), 0);
  disk_->full = disk_->retryable = 0;
  EXPECT_OK(Ends("Resume", [&] { return db->Resume(); }));
  ExpectThatItRecovers(db.get());
}

// A compaction has found no space, and S waits for room for compactions. Flushes have room.
class NoRoomForCompactionsTest : public RecoveriesAtOnceTest {
 protected:
  static constexpr int kNoAppend = 1 << 30;  // finds the disk full; none is free all the same

  std::unique_ptr<rocksdb::DB> OpenWithTables() {
    options_.disable_auto_compactions = true;
    std::unique_ptr<rocksdb::DB> db = Open(options_);
    EXPECT_OK(db->CreateColumnFamily(options_, "family", &family_));
    for (rocksdb::ColumnFamilyHandle* const family : {db->DefaultColumnFamily(), family_}) {
      for (int i = 0; i < 2; ++i) {
        EXPECT_OK(db->Put(rocksdb::WriteOptions(), family, "key", "value"));
        EXPECT_OK(db->Put(rocksdb::WriteOptions(), family, "the key behind", "value"));
        EXPECT_OK(db->Flush(rocksdb::FlushOptions(), family));
      }
    }
    return db;
  }
  void FailCompactions(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    const int count = static_cast<int>(families.size());
    listener_->at_error = [this, count] {
      if (listener_->errors == count) disk_->full = kNoAppend;
    };
    disk_->held = kTable;
    std::vector<std::future<Status>> compactions;
    for (rocksdb::ColumnFamilyHandle* const family : families) {
      compactions.push_back(std::async(std::launch::async, [db, family] {
        rocksdb::CompactRangeOptions options;
        options.exclusive_manual_compaction = false;
        return db->CompactRange(options, family, nullptr, nullptr);
      }));
    }
    ASSERT_TRUE(Await([&] { return disk_->waiting == count; }));
    disk_->full = kTable;
    disk_->held = 0;
    for (std::future<Status>& compaction : compactions) EXPECT_TRUE(compaction.get().IsNoSpace());
    listener_->at_error = nullptr;
  }
  void Close(std::unique_ptr<rocksdb::DB> db) {
    EXPECT_OK(db->DestroyColumnFamilyHandle(family_));
    CloseEnds(db.get()).PermitUncheckedError();
  }
};

// RocksDB left it to S: stopped for good, and Resume was Busy.
TEST_F(NoRoomForCompactionsTest, AnErrorThatMayPassIsRecovered) {
  std::unique_ptr<rocksdb::DB> db = OpenWithTables();
  FailCompactions(db.get(), {family_});
  disk_->retryable = kWal;
  EXPECT_TRUE(Put(db.get()).IsIOError());
  disk_->retryable = 0;
  EXPECT_TRUE(Await([&] { return Put(db.get()).ok(); }));
  EXPECT_GT(listener_->recovered, 0);
  Close(std::move(db));
}

// The second compaction's error was taken for one of every flush.
TEST_F(NoRoomForCompactionsTest, FlushSucceeds) {
  options_.max_background_jobs = 8;
  std::unique_ptr<rocksdb::DB> db = OpenWithTables();
  FailCompactions(db.get(), {family_, db->DefaultColumnFamily()});
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  Close(std::move(db));
}

// RocksDB's Close said OK, and had flushed nothing.
TEST_F(NoRoomForCompactionsTest, CloseFlushesWhatIsInNoWal) {
  std::unique_ptr<rocksdb::DB> db = OpenWithTables();
  FailCompactions(db.get(), {family_});
  EXPECT_OK(db->Put(no_wal_, "in no WAL", "value"));
  Close(std::move(db));
  disk_->full = 0;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", {{"default", options_}, {"family", options_}}, &handles,
                              port::Into(&opened)));
  db.reset(opened);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "in no WAL", &value));
  for (rocksdb::ColumnFamilyHandle* const handle : handles) EXPECT_OK(db->DestroyColumnFamilyHandle(handle));
}

// On S's own thread, for which RocksDB's Close does not wait.
TEST_F(NoRoomForCompactionsTest, AListenerThatHearsOfTheEndMayClose) {
  std::unique_ptr<rocksdb::DB> db = OpenWithTables();
  FailCompactions(db.get(), {family_});
  EXPECT_OK(db->DestroyColumnFamilyHandle(family_));
  CloseAtEnd(db.get());
  disk_->full = 0;
  ExpectThatItCloses();
}

// The same when it has flushed, on S's thread, T's, or that of Resume. (RocksDB's process dies.)
class ClosingListenerTest : public RecoveriesAtOnceTest {
 protected:
  std::unique_ptr<rocksdb::DB> OpenAndCloseAtEnd() {
    std::unique_ptr<rocksdb::DB> db = OpenWithKey(options_);
    CloseAtEnd(db.get());
    return db;
  }
};

TEST_F(ClosingListenerTest, OfS) {
  const std::unique_ptr<rocksdb::DB> db = OpenAndCloseAtEnd();
  disk_->full = kTable;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsNoSpace());
  disk_->full = 0;
  ExpectThatItCloses();
}

TEST_F(ClosingListenerTest, OfT) {
  const std::unique_ptr<rocksdb::DB> db = OpenAndCloseAtEnd();
  disk_->retryable = kTable;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsIOError());
  disk_->retryable = 0;
  ExpectThatItCloses();
}

TEST_F(ClosingListenerTest, OfResume) {
  options_.max_bgerror_resume_count = 0;
  const std::unique_ptr<rocksdb::DB> db = OpenAndCloseAtEnd();
  disk_->retryable = kTable;
  EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsIOError());
  disk_->retryable = 0;
  Ends("Resume", [&] { return db->Resume(); }).PermitUncheckedError();
  ExpectThatItCloses();
}

// Close flushes what is in no WAL, behind a writer who waited for S, which Close had cancelled (RocksDB as well).
TEST_F(RecoveriesAtOnceTest, CloseWhileAWriterIsHeldBackAndSWaitsForSpace) {
  const std::unique_ptr<rocksdb::DB> db = OpenStockWithHeldFlushes();
  EXPECT_OK(db->CreateColumnFamily(options_, "family", &family_));
  EXPECT_OK(db->Put(no_wal_, "in no WAL", "value"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(db->Put(no_wal_, family_, "key", "value"));
    BeginFlush(db.get(), family_);
  }
  ASSERT_TRUE(IsStopped(db.get()));
  std::future<Status> writer = test::BeginUntilItWaits([&] { return db->Put(no_wal_, family_, "key", "value"); });
  disk_->full = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the flush's thread ends, which wakes everybody
  EXPECT_OK(db->DestroyColumnFamilyHandle(family_));            // the writer needs it no more
  CloseEnds(db.get()).PermitUncheckedError();
  EXPECT_FALSE(writer.get().ok());
}

// T has used up its attempts when S clears the error, and begins again after the next one.
TEST_F(RecoveriesAtOnceTest, ListenersHearNoFailureOfWhatBeginsAgain) {
  options_.max_bgerror_resume_count = 1;
  options_.bgerror_resume_retry_interval = std::chrono::microseconds(std::chrono::minutes(1)).count();
  const std::unique_ptr<rocksdb::DB> db = Open(options_);
  const auto fail_a_flush = [&](int errors) {
    EXPECT_OK(db->Put(no_wal_, "key", "value"));
    listener_->at_error = [this, before = listener_->errors.load(), errors] {
      if (listener_->errors == before + errors) disk_->retryable = 0;
    };
    disk_->retryable = kTable;
    EXPECT_TRUE(db->Flush(rocksdb::FlushOptions()).IsIOError());
    EXPECT_TRUE(Await([&] { return disk_->retryable == 0; }));
  };
  fail_a_flush(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // enough for T to wait
  disk_->full = kWal;
  EXPECT_TRUE(Put(db.get()).IsNoSpace());
  disk_->full = 0;
  ASSERT_TRUE(Await([&] { return listener_->recovered == 1; }));
  fail_a_flush(1);
  EXPECT_TRUE(Await([&] { return listener_->recovered == 2; }));
  EXPECT_EQ(listener_->ends, 2);
  EXPECT_OK(CloseEnds(db.get()));
}

// With two queues of writers a transaction that is prepared waits in the one, and RocksDB lets go those of the other.
TEST_F(RecoveriesAtOnceTest, AListenerPreparesBehindOneThatIsHeldBack) {
  options_.memtable_factory = rocksdb::Options().memtable_factory;
  options_.max_write_buffer_number = 2;
  options_.two_write_queues = true;
  rocksdb::TransactionDB* opened = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), dir_ / "db", &opened));
  const std::unique_ptr<rocksdb::TransactionDB> db(opened);
  const auto prepare = [&](const std::string& name) {
    const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    EXPECT_OK(transaction->SetName(name));
    EXPECT_OK(transaction->Put(name, "value"));
    Status s = transaction->Prepare();
    transaction->Rollback().PermitUncheckedError();
    return s;
  };
  std::promise<void> prepared;
  listener_->at_end = [&] {
    if (hears_.exchange(true)) return;
    while (holds_) std::this_thread::yield();
    prepare("the listener's").PermitUncheckedError();
    prepared.set_value();
  };
  EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  FailAFlushUntilTheListenerHears(db.get());
  disk_->held = kTable;
  for (int i = 0; i < 5 && !IsStopped(db.get()); ++i) {
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
    BeginFlush(db.get());
  }
  ASSERT_TRUE(IsStopped(db.get()));
  std::future<Status> held_back = test::BeginUntilItWaits([&] { return prepare("held back"); });
  disk_->retryable = kTable;
  disk_->held = 0;
  ASSERT_TRUE(Await([&] { return listener_->errors > 1; }));
  disk_->retryable = 0;
  holds_ = false;
  Ends("a listener's Prepare", [&] {
    prepared.get_future().wait();
    return Status::OK();
  }).PermitUncheckedError();
  Ends("Prepare", [&] { return held_back.get(); }).PermitUncheckedError();
  ExpectThatItRecovers(db.get());
}

}  // namespace
}  // namespace cairn
