// Recovery of a database from errors without RocksDB's endless waits: the definitions that take the place of its own in
// ErrorHandler (rocksdb/port/rocksdb_own.h). recovery_state.h has the invariants.

#include "db/error_recovery.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "db/error_handler.h"
#include "db/event_helpers.h"
#include "db/recovery_state.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/rocksdb_own.h"
#include "test_util/sync_point.h"

extern "C" {
extern const int cairn_error_recovery;
const int cairn_error_recovery = 1;
}

namespace cairn {
namespace {

// Whether a WAL says that it has failed before, and no more.
bool HasFailedBefore(const rocksdb::Status& error) {
  if (!error.IsIOError()) return false;
  const std::string text = error.ToString();
  return text == "IO error: Writer has previous error." || text == "IO error: Seen error. Skip writing buffer.";
}

// RocksDB takes it for fatal that a block cache has no room for a table's reader, or for what a compaction reads.
bool IsFullCache(const rocksdb::Status& error, rocksdb::BackgroundErrorReason reason) {
  using rocksdb::BackgroundErrorReason;
  return error.IsMemoryLimit() &&
         (reason == BackgroundErrorReason::kFlush || reason == BackgroundErrorReason::kFlushNoWAL ||
          reason == BackgroundErrorReason::kCompaction);
}

}  // namespace

thread_local uint64_t errors_told = 0;

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;
using cairn::AllParts;
using cairn::Part;

// A WAL that has failed takes no further entry: who comes to it next, having looked for an error before it did, meets an error
// that says so, and no more. RocksDB takes it for one that it cannot recover from, whatever the first one was.
// And nobody tells writers that are held back when nobody recovers.
// RocksDB's severities of a full disk lack one that has no room for the next WAL when a memtable is switched: that was fatal.
// A write that is refused, where writes are pipelined or unordered, tells of the error that it was refused for (which has a
// severity). RocksDB takes that for one of the attempt that is under way, which fails as often as clients try again; for one
// that has just come, when the database has recovered meanwhile; or, where allowed space is used up, for a fatal one.
void ErrorHandler::SetBGError(const Status& error, BackgroundErrorReason reason, bool wal_related) {
  ++cairn::errors_told;
  const bool is_known = error.severity() != Status::Severity::kNoError;
  if (reason == BackgroundErrorReason::kWriteCallback && !wal_related && is_known) return;
  if (!IsDBStopped()) cairn::AllFailedWrites().Clear(db_->versions_.get());
  const uint64_t wal = db_->CAIRN_NEWEST_WAL;  // there may be another when listeners have heard of the error
  // Of the next WAL (kMemTable) there is nothing. A write waits for the MANIFEST where that has the WALs' sizes.
  const bool is_manifests =
      (reason == BackgroundErrorReason::kManifestWrite || reason == BackgroundErrorReason::kManifestWriteNoWAL) &&
      db_options_.track_and_verify_wals_in_manifest;
  const bool wal_fails = reason == BackgroundErrorReason::kWriteCallback || is_manifests ||
                         (wal_related && reason != BackgroundErrorReason::kMemTable);
  const cairn::WalPlace entry = wal_fails ? cairn::WrittenEntry::Find(db_->versions_.get()) : cairn::WalPlace();
  // Before the mutex may be free, for what recovers meanwhile, and afterwards: others may have cleared it.
  if (wal_fails) cairn::AllFailedWrites().WalHasFailed(db_->versions_.get(), entry);
  if (!cairn::HasFailedBefore(error) && !cairn::IsFullCache(error, reason)) {
    const bool new_wal_is_full = reason == BackgroundErrorReason::kMemTable && wal_related && error.IsNoSpace();
    own::SetBGError(this, error, new_wal_is_full ? BackgroundErrorReason::kWriteCallback : reason, wal_related);
  } else {
    IOStatus again = status_to_io_status(Status(error));
    again.SetRetryable(true);
    own::SetBGError(this, again, reason, wal_related);
  }
  if (wal_fails) cairn::AllFailedWrites().WalHasFailed(db_->versions_.get(), entry);
  // Nobody has switched the memtable meanwhile: a write that has failed is at the front of its queue until here.
  if (cairn::IsHard(bg_error_) && !end_recovery_) cairn::AllFailedWrites().MayBeIn(db_->versions_.get(), wal);
  // Of no attempt: whoever waits for a flush, whatever becomes of it, would take it for that flush's.
  if (!AllParts().Has(this, Part::kTries)) recovery_error_ = IOStatus::OK();
  if (recovery_in_prog_ || !IsBGWorkStopped()) return;
  const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
  writers.Wake();
}

// With transactions in two phases RocksDB takes a compaction that finds no space for a fatal error, because the WAL might be
// inconsistent. A compaction has nothing to do with that. Whether somebody recovers is asked as for a hard error, which passes.
Status ErrorHandler::OverrideNoSpaceError(const Status& error, bool* recovers) {
  if (!db_options_.allow_2pc || error.severity() != Status::Severity::kSoftError) {
    return own::OverrideNoSpaceError(this, error, recovers);
  }
  own::OverrideNoSpaceError(this, Status(error, Status::Severity::kHardError), recovers).PermitUncheckedError();
  return error;
}

// The mutex is free while listeners hear of an error, and Close may begin meanwhile, which cancels recoveries. RocksDB begins
// one all the same, and Close waits for it as long as the disk is full. And a listener that hears of the last recovery's end
// may be held back in this database.
void ErrorHandler::RecoverFromNoSpace() {
  const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
  while (AllParts().Has(this, Part::kQueues) && writers.LetGo(db_options_.clock)) {
  }
  if (auto_recovery_) own::RecoverFromNoSpace(this);
  if (AllParts().Has(this, Part::kWaits)) return;
  recovery_in_prog_ = AllParts().Has(this, Part::kTries) || AllParts().Has(this, Part::kRetries);
}

// Close waits until no recovery is in progress, but one that has nothing to flush does not tell it of its end, nor does one
// whose thread begins after Close has looked for it.
void ErrorHandler::CAIRN_CANCEL_ERROR_RECOVERY() {
  db_->reject_new_background_jobs_ = false;  // a listener's write may wait for a compaction
  // On the thread that recovers the database a listener closes it: that thread cannot be waited for.
  const cairn::Attempt* const here = cairn::Attempt::Find(db_mutex_);
  const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
  // Without its recovery an error stops all flushes, also one that has stopped none (a compaction has found no space): Close
  // would flush nothing of what is in no WAL.
  if (!bg_error_.ok() && !IsBGWorkStopped() && db_->bg_work_paused_ == 0 && db_->has_unpersisted_data_ &&
      !db_->mutable_db_options_.avoid_flush_during_shutdown) {
    const cairn::Attempt lets_writers_go(this, db_, writers, [] {});
    db_->FlushAllColumnFamilies(FlushOptions(), FlushReason::kShutDown).PermitUncheckedError();
  }
  if (here != nullptr) {
    AllParts().Add(this, Part::kCloses);
    CAIRN_ALLOW_SHUTDOWN;
    db_->own_info_log_ = false;  // closed when it is destroyed: the attempt writes to it
  }
  if (recovery_thread_ != nullptr && recovery_thread_->get_id() == std::this_thread::get_id()) {
    recovery_thread_->detach();
    recovery_thread_.reset();
  }
  if (recovery_in_prog_ &&
      db_->bg_work_paused_ > 0) {  // its flushes are not scheduled before somebody goes on, who may not
    recovery_error_ = IOStatus::Aborted("Closed while background work was paused");
    db_->bg_cv_.SignalAll();
  }
  own::CancelErrorRecovery(this);
  // Neither the SstFileManager nor a thread has it any more; Resume may, or a thread that was about to begin.
  const bool resumes_here = here != nullptr && !here->retries() && cairn::tried_here != this;
  const auto resumes = [&] { return !resumes_here && recovery_in_prog_ && AllParts().Has(this, Part::kResumes); };
  while (AllParts().Has(this, Part::kBegins) || resumes()) {
    cv_.TimedWait(db_options_.clock->NowMicros() + cairn::kMicrosBetweenLooks);
    own::CancelErrorRecovery(this);
  }
  recovery_in_prog_ = false;
  cairn::AllFailedWrites().Forget(db_->versions_.get());
  if (!bg_error_.ok()) writers.Wake();  // Close queues behind those that are held back, and nobody recovers any more
}

// RocksDB schedules no flush of an attempt unless a recovery is in progress, and the attempt never ends: be it that another
// recovery has just ended when the SstFileManager's begins, or that Resume ends while another goes on, and says that none is
// in progress. So Resume is an attempt like the others, and only one that has failed says so. And attempts that run beside each
// other clear each other's errors (invariant 1).
Status ErrorHandler::RecoverFromBGError(bool is_manual) {
  const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
  const auto schedule_what_waits = [this] {
    if (IsBGWorkStopped()) return;
    db_->unscheduled_flushes_ = std::max(db_->unscheduled_flushes_, static_cast<int>(db_->flush_queue_.size()));
    db_->MaybeScheduleFlushOrCompaction();
  };
  cairn::Attempt attempt(this, db_, writers, schedule_what_waits);
  bool stops_work = false;
  std::optional<cairn::Taking> resumes;
  const InstrumentedMutexLock lock(db_mutex_);
  if (is_manual && recovery_in_prog_) return Status::Busy("Recovery already in progress");
  // A listener may hear on a flush's own thread that nobody recovers from its error any more.
  if (is_manual && db_->shutdown_initiated_) return Status::ShutdownInProgress();
  attempt.TakeTurn();
  if (bg_error_.ok()) {  // another attempt has cleared it
    attempt.EndTurn();
    if (!is_manual) AllParts().Add(this, Part::kLeaves);
    return Status::OK();
  }
  recovery_in_prog_ = true;
  if (is_manual) {
    resumes.emplace(this, Part::kResumes);
    stops_work = std::exchange(soft_error_no_bg_work_, false);
    recover_context_.flush_reason = stops_work ? FlushReason::kErrorRecoveryRetryFlush : FlushReason::kErrorRecovery;
  }
  if (IsBGWorkStopped()) {
    db_->unscheduled_flushes_ = 0;
    db_->WaitForBackgroundWork();
  } else if (stops_work) {
    // Flushes are not dropped any more, until one has failed, and a listener may wait for one on a compaction's thread.
    schedule_what_waits();
    while (db_->bg_bottom_compaction_scheduled_ > 0 || db_->bg_compaction_scheduled_ > 0 ||
           db_->bg_flush_scheduled_ > 0) {
      if (IsBGWorkStopped()) db_->unscheduled_flushes_ = 0;
      db_->bg_cv_.Wait();
    }
  }
  if (db_->bg_flush_scheduled_ == 0) cairn::RollBackFlushes(db_->versions_->GetColumnFamilySet());
  if (cairn::IsHard(bg_error_)) recover_context_.flush_reason = FlushReason::kErrorRecovery;
  const bool only_clears = !cairn::IsHard(bg_error_) && recover_context_.flush_reason == FlushReason::kErrorRecovery;
  recovery_error_ = IOStatus::OK();
  const Status s = only_clears ? ClearBGError() : db_->ResumeImpl(recover_context_ CAIRN_RESUME_ACTIVITY);
  const bool cleared = attempt.EndTurn();
  schedule_what_waits();
  resumes.reset();
  const Status result = cleared && !db_->shutdown_initiated_ ? Status::OK() : s;
  if (!is_manual && (result.ok() || cairn::HasEnded(result))) AllParts().Add(this, Part::kLeaves);
  if (cleared) return result;
  if (!s.ok()) {
    soft_error_no_bg_work_ = soft_error_no_bg_work_ || stops_work;
    const bool runs = AllParts().Has(this, Part::kRetries) || AllParts().Has(this, Part::kAgain);
    const bool ended = s.IsShutdownInProgress() || bg_error_.severity() >= Status::Severity::kFatalError;
    recovery_in_prog_ = recovery_in_prog_ && !ended && !bg_error_.ok() && (AllParts().Waits(this) || runs);
  }
  if (!recovery_in_prog_ && IsBGWorkStopped()) writers.Wake();
  return s;
}

// RocksDB's does not tell writers that are held back when it gives up. It says that no recovery is in progress, be it that the
// SstFileManager has begun one; takes errors of others' attempts, and such as come when its own has succeeded, for its own's;
// and flushes what its first error asked for, whatever came since. The sync points are of RocksDB's own tests.
void ErrorHandler::RecoverFromRetryableBGIOError() {
  TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeStart");
  TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeStart2");
  const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
  const auto schedule_what_waits = [this] {
    if (IsBGWorkStopped()) return;
    db_->unscheduled_flushes_ = std::max(db_->unscheduled_flushes_, static_cast<int>(db_->flush_queue_.size()));
    db_->MaybeScheduleFlushOrCompaction();
  };
  cairn::Attempt attempt(this, db_, writers, schedule_what_waits, /*retries=*/true);
  const InstrumentedMutexLock lock(db_mutex_);
  int tries = 0;
  // Says why it gives up; OK: the error is cleared.
  const auto recover = [&]() -> Status {
    for (tries = 0; tries < db_options_.max_bgerror_resume_count;) {
      TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeResume0");
      TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeResume1");
      attempt.TakeTurn();
      // Others have cleared it, and may have to clear another one that stops nothing, without waiting for background work.
      const bool is_others = !cairn::IsHard(bg_error_) && recover_context_.flush_reason == FlushReason::kErrorRecovery;
      if (end_recovery_ || bg_error_.ok() || is_others) {
        attempt.EndTurn();
        return end_recovery_ && !bg_error_.ok() ? Status::ShutdownInProgress() : Status::OK();
      }
      ++tries;
      recovery_in_prog_ = true;
      if (IsBGWorkStopped()) db_->unscheduled_flushes_ = 0;
      db_->WaitForBackgroundWork();
      cairn::RollBackFlushes(db_->versions_->GetColumnFamilySet());
      recovery_error_ = IOStatus::OK();
      if (cairn::IsHard(bg_error_)) recover_context_.flush_reason = FlushReason::kErrorRecovery;
      DBRecoverContext context = recover_context_;
      context.flush_after_recovery = true;
      const Status s = db_->ResumeImpl(context CAIRN_RESUME_ACTIVITY);
      RecordStats({ERROR_HANDLER_AUTORESUME_RETRY_TOTAL_COUNT}, {});
      const bool cleared = attempt.EndTurn();
      schedule_what_waits();
      if (cleared) return Status::OK();
      if (s.IsShutdownInProgress() || bg_error_.severity() >= Status::Severity::kFatalError) return bg_error_;
      if (recovery_error_.ok()) return s;
      if (recovery_error_.severity() > Status::Severity::kHardError || !recovery_error_.GetRetryable()) {
        return Status(recovery_error_);
      }
      if (!AllParts().Has(this, Part::kFailed)) AllParts().Add(this, Part::kFailed);
      writers.Wake();
      TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeWait0");
      TEST_SYNC_POINT("RecoverFromRetryableBGIOError:BeforeWait1");
      cv_.TimedWait(db_options_.clock->NowMicros() + db_options_.bgerror_resume_retry_interval);
    }
    return bg_error_.ok() ? Status::OK()
                          : Status::Aborted("Exceeded resume retry count");  // others may have cleared it
  };
  const auto others_go_on = [&] {
    return !bg_error_.ok() && (AllParts().Waits(this) || AllParts().Has(this, Part::kTries));
  };
  for (bool again = true; again;) {
    AllParts().Add(this, Part::kRetries);
    const Status left = recover();
    AllParts().RemoveAll(this, Part::kRetries);
    AllParts().RemoveAll(this, Part::kFailed);
    if (tries > 0) {
      RecordStats({}, {{ERROR_HANDLER_AUTORESUME_RETRY_COUNT, tries}});
      if (left.ok()) RecordStats({ERROR_HANDLER_AUTORESUME_SUCCESS_COUNT}, {});
    }
    if (left.ok()) {
      TEST_SYNC_POINT("RecoverFromRetryableBGIOError:RecoverSuccess");
    } else if (end_recovery_ || !AllParts().Has(this, Part::kAgain)) {  // else it goes on
      recovery_in_prog_ = others_go_on();
      EventHelpers::NotifyOnErrorRecoveryEnd(db_options_.listeners, bg_error_, left, db_mutex_);
      if (left.IsAborted()) {
        TEST_SYNC_POINT("RecoverFromRetryableBGIOError:LoopOut");
      }
    }
    again = AllParts().RemoveAll(this, Part::kAgain) && !bg_error_.ok() && !end_recovery_;
    recovery_in_prog_ = again || others_go_on();
    db_->bg_cv_.SignalAll();
    if (!recovery_in_prog_ && IsBGWorkStopped()) writers.Wake();
  }
  AllParts().RemoveAll(this, Part::kRuns);
}

// A listener that hears of a recovery's end may write. RocksDB's next recovery waits for the last one's thread, hence for that
// write, which may have met the error itself, or is behind one that has, or is held back. Here the thread begins again.
void ErrorHandler::StartRecoverFromRetryableBGIOError(const IOStatus& error) {
  // The SstFileManager may wait for space that this error does not want, such as a compaction's.
  const auto has = [this](Part part) { return AllParts().Has(this, part); };
  const bool full = cairn::IsHard(bg_error_) && (bg_error_.IsNoSpace() || bg_error_.subcode() == Status::kSpaceLimit);
  const bool beside = recovery_in_prog_ && AllParts().Waits(this) && !full && !has(Part::kTries) &&
                      !has(Part::kRetries) && !has(Part::kAgain) && !has(Part::kBegins);
  if (beside && db_options_.max_bgerror_resume_count > 0 && !end_recovery_) recovery_in_prog_ = false;
  const bool starts = !bg_error_.ok() && !error.ok() && db_options_.max_bgerror_resume_count > 0 &&
                      !recovery_in_prog_ && !end_recovery_;
  if (starts && (has(Part::kRuns) || has(Part::kBegins))) {
    recovery_in_prog_ = true;
    AllParts().Add(this, Part::kAgain);
    cv_.SignalAll();  // it may wait for its next attempt
    RecordStats({ERROR_HANDLER_AUTORESUME_COUNT}, {});
    TEST_SYNC_POINT("StartRecoverFromRetryableBGIOError:BeforeWaitingForOtherThread");  // of RocksDB's own tests
    const cairn::Writers writers{&db_->write_thread_, &db_->nonmem_write_thread_, &db_->bg_cv_, db_->wbm_stall_.get()};
    while (AllParts().Has(this, Part::kQueues) && writers.LetGo(db_options_.clock)) {
    }
    return;
  }
  const cairn::Taking begins(this, Part::kBegins);
  try {
    own::StartRecoverFromRetryableBGIOError(this, error);
    if (starts) AllParts().Add(this, Part::kRuns);
  } catch (const std::system_error& no_thread) {
    AllParts().RemoveAll(this, Part::kAgain);
    recovery_in_prog_ = AllParts().Has(this, Part::kTries) || AllParts().Waits(this);
    Warn(db_options_.info_log, "no thread to recover the database, which DB::Resume may do: %s", no_thread.what());
  }
}

// Flushes that are due during a recovery are dropped. RocksDB asks for them again when all listeners have heard of its end, one
// of which may write and wait for them; or never, where Resume only clears an error.
void EventHelpers::NotifyOnErrorRecoveryEnd(const std::vector<std::shared_ptr<EventListener>>& listeners,
                                            const Status& old_error, const Status& new_error,
                                            InstrumentedMutex* mutex) {
  cairn::Attempt* const attempt = cairn::Attempt::Find(mutex);
  if (attempt != nullptr && new_error.ok()) attempt->HasCleared();
  own::NotifyOnErrorRecoveryEnd(listeners, old_error, new_error, mutex);
}

}  // namespace rocksdb
