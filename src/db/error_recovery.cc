// Recovery from errors without RocksDB's endless waits: the definitions that take the place of its own (see
// src/port/rocksdb_own.h) in ErrorHandler, which recovers a database, in SstFileManagerImpl, which has databases recovered
// when there is space again, and where a database flushes for that, holds writers back, and forgets compactions that have
// failed. docs/faults.md says what an operator saw without them.
//
// Invariants of a SstFileManager, under its mutex:
//   1. bg_thread_ begins with the first error and ends when the SstFileManager does: nobody waits for it before.
//   2. A database that is tried (Part::kIsTried) is in error_handler_list_, and exists: whoever closes it waits until it is
//      not tried any more, unless he does it on the very thread that tries, as a listener.
//   3. A database has two entries only while it is tried and has met another error meanwhile.
//
// Invariants of a database, under its mutex. Its recovery may be tried by its SstFileManager, by the thread that begins with an
// error that may pass, and by Resume:
//   4. One tries at a time (Part::kTries), until it has cleared the error or failed: the error that a flush meets is kept in one
//      place (recovery_error_), which each attempt begins by clearing.
//   5. recovery_in_prog_ while one tries: else that error is not kept, and the flushes are not scheduled.
//   6. An attempt begins when no flush goes on: an earlier one's error is none of the attempt's. Flushes that wait are not scheduled
//      meanwhile, unless they are the recovery's: RocksDB drops them, one a second.
//   7. An attempt to recover from a hard error flushes all memtables, since their WAL may have failed, also when the last error
//      was a soft one.

#include "src/db/error_recovery.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "db/error_handler.h"
#include "db/event_helpers.h"
#include "file/sst_file_manager_impl.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/env.h"
#include "src/db/torn_wal.h"
#include "src/port/column_family.h"
#include "src/port/rocksdb_own.h"
#include "src/trie/compaction_inputs.h"
#include "test_util/sync_point.h"

extern "C" {
extern const int cairn_error_recovery;
const int cairn_error_recovery = 1;
}

namespace cairn {
namespace {

constexpr uint64_t kMicrosBetweenAttempts = 5000000;
constexpr uint64_t kMicrosBetweenLooks = 10000;  // where RocksDB tells nobody

// Whether a WAL says that it has failed before, and no more.
bool HasFailedBefore(const rocksdb::Status& error) {
  if (!error.IsIOError()) return false;
  const std::string text = error.ToString();
  return text == "IO error: Writer has previous error." || text == "IO error: Seen error. Skip writing buffer.";
}

// What is known of a database that recovers, beside what its ErrorHandler has room for.
enum class Part {
  kWaits,    // in the list of its SstFileManager, once for each entry
  kLeaves,   // that list, when its SstFileManager comes to it: the attempt was the last one
  kRuns,     // a thread of its own, that recovers it from an error that may pass, has not ended but for its last steps
  kRetries,  // that thread tries, or will try again
  kIsTried,  // by its SstFileManager
  kTries,    // has its turn
  kResumes,  // in Resume
  kBegins,   // gets a thread that recovers it just then
  kAgain,    // that thread begins again when it has ended
  kQueues,   // what recovers it queues behind writers, which are not held back any longer
  kCloses,   // was closed by a listener on the thread that recovers it, which goes on
};

// Of all databases, as often as it was added and not removed. Thread-safe.
class Parts {
 public:
  void Add(const rocksdb::ErrorHandler* handler, Part part) {
    const std::lock_guard<std::mutex> lock(mu_);
    parts_.emplace(handler, part);
  }
  // REQUIRES: there is one.
  void Remove(const rocksdb::ErrorHandler* handler, Part part) {
    const std::lock_guard<std::mutex> lock(mu_);
    parts_.erase(parts_.find({handler, part}));
  }
  // Whether there was any.
  bool RemoveAll(const rocksdb::ErrorHandler* handler, Part part) {
    const std::lock_guard<std::mutex> lock(mu_);
    return parts_.erase({handler, part}) > 0;
  }
  // Whether its SstFileManager will try it again.
  bool Waits(const rocksdb::ErrorHandler* handler) {
    const std::lock_guard<std::mutex> lock(mu_);
    return parts_.count({handler, Part::kWaits}) > parts_.count({handler, Part::kLeaves});
  }
  bool Has(const rocksdb::ErrorHandler* handler, Part part) {
    const std::lock_guard<std::mutex> lock(mu_);
    return parts_.find({handler, part}) != parts_.end();
  }

 private:
  std::mutex mu_;
  std::multiset<std::pair<const rocksdb::ErrorHandler*, Part>> parts_;
};

// Never destroyed, for threads that outlive main.
Parts& AllParts() {
  static auto* const parts = new Parts();
  return *parts;
}

class Taking {
 public:
  Taking(const rocksdb::ErrorHandler* handler, Part part) : handler_(handler), part_(part) {
    AllParts().Add(handler_, part_);
  }
  ~Taking() { AllParts().Remove(handler_, part_); }
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;

 private:
  const rocksdb::ErrorHandler* const handler_;
  const Part part_;
};

// Who holds writers of a database back.
struct Writers {
  rocksdb::WriteThread* queue;
  rocksdb::WriteThread* log_queue;        // with two_write_queues: of those that write the WAL only
  rocksdb::InstrumentedCondVar* stopped;  // those that DelayWrite has stopped wait for it
  rocksdb::StallInterface* stalled;       // by a WriteBufferManager; may be null

  // Has the writers that are held back look again.
  void Wake() const {
    stopped->SignalAll();
    if (stalled != nullptr) stalled->Signal();
  }
  // Has the writer that is held back at the front of the queue look again, and waits a moment, without the database's mutex,
  // if there is one. Says whether there was.
  bool LetGo(rocksdb::WriteThread* from, rocksdb::SystemClock* clock) const {
    if (from->GetBegunCountOfOutstandingStall() == 0) return false;
    Wake();
    stopped->TimedWait(clock->NowMicros() + kMicrosBetweenLooks);
    return true;
  }
  // From both queues, where it is not known which one a listener's write is in.
  bool LetGo(rocksdb::SystemClock* clock) const { return LetGo(queue, clock) || LetGo(log_queue, clock); }
};

// What this thread tries for a SstFileManager, whose attempts have a thread each; null: nothing.
thread_local const rocksdb::ErrorHandler* tried_here = nullptr;

// On the thread that recovers a database, once or more than once. Its listeners may recover another one meanwhile, or the same.
class Attempt {
 public:
  // schedule: has the flushes begin that wait, unless the database is stopped.
  Attempt(const rocksdb::ErrorHandler* handler, rocksdb::DBImpl* db, const Writers& writers,
          std::function<void()> schedule, bool retries = false)
      : handler_(handler),
        db_(db),
        writers_(writers),
        schedule_(std::move(schedule)),
        outer_(of_thread),
        retries_(retries) {
    of_thread = this;
    ++ListenersWrite::attempts;
  }
  ~Attempt() {
    --ListenersWrite::attempts;
    of_thread = outer_;
    if (tried_here != handler_ && Find(db_->mutex()) == nullptr) AllParts().RemoveAll(handler_, Part::kCloses);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Of this thread, to recover the database of that mutex; null: there is none.
  static Attempt* Find(const rocksdb::InstrumentedMutex* mutex) {
    Attempt* attempt = of_thread;
    while (attempt != nullptr && attempt->db_->mutex() != mutex) attempt = attempt->outer_;
    return attempt;
  }
  const rocksdb::ErrorHandler* handler() const { return handler_; }
  // Whether it is of the thread that begins with an error that may pass.
  bool retries() const { return retries_; }
  // All with the database's mutex. Waits until nobody else has the turn.
  void TakeTurn() {
    while (AllParts().Has(handler_, Part::kTries)) writers_.stopped->Wait();
    AllParts().Add(handler_, Part::kTries);
    has_turn_ = true;
    cleared_ = false;
  }
  // Says whether the attempt has cleared the error, whatever has come since.
  bool EndTurn() {
    if (has_turn_) {
      AllParts().Remove(handler_, Part::kTries);
      has_turn_ = false;
      writers_.stopped->SignalAll();
    }
    return cleared_;
  }
  // What comes after it is no part of the turn: listeners hear of it. Asks for the flushes that were dropped meanwhile, and has
  // the compactions begin that wait.
  void HasCleared() {
    cleared_ = true;
    if (retries_) AllParts().RemoveAll(handler_, Part::kRetries);
    EndTurn();
    rocksdb_own::RetryFlushesForErrorRecovery(db_, rocksdb::FlushReason::kCatchUpAfterErrorRecovery, /*wait=*/false)
        .PermitUncheckedError();
    schedule_();  // families whose memtables the recovery has flushed may wait for their turn, and are not queued again
  }
  // from: one of the database's two queues.
  bool LetWritersGo(rocksdb::WriteThread* from) const {
    return !handler_->GetBGError().ok() && writers_.LetGo(from, db_->immutable_db_options().clock);
  }
  bool LetWritersGo() const { return LetWritersGo(writers_.queue) || LetWritersGo(writers_.log_queue); }

 private:
  static thread_local Attempt* of_thread;

  const rocksdb::ErrorHandler* const handler_;
  rocksdb::DBImpl* const db_;
  const Writers writers_;
  const std::function<void()> schedule_;
  Attempt* const outer_;
  const bool retries_;
  bool has_turn_ = false;
  bool cleared_ = false;
};
thread_local Attempt* Attempt::of_thread = nullptr;

// Whether no attempt follows one with that result.
bool HasEnded(const rocksdb::Status& result) {
  return result.IsShutdownInProgress() || result.severity() >= rocksdb::Status::Severity::kFatalError;
}

bool IsHard(const rocksdb::Status& error) { return error.severity() >= rocksdb::Status::Severity::kHardError; }

// Whether an attempt is worth while after an error of such severity.
bool HasRoom(rocksdb::Status::Severity severity, uint64_t free, uint64_t for_flushes, uint64_t for_compactions) {
  if (severity == rocksdb::Status::Severity::kHardError) return free >= for_flushes;
  if (severity == rocksdb::Status::Severity::kSoftError) return free >= for_compactions;
  return true;
}

// With the database's mutex, after a compaction of that family has failed or was given up. Its inputs count as being compacted
// until there is another Version, for which writers may wait who wait for their compaction.
void LookForCompactions(rocksdb::DBImpl* db, rocksdb::ColumnFamilyData* family) {
  if (family->IsDropped() || !family->initialized()) return;
  port::ComputeCompactionScores(family);
  rocksdb_own::EnqueuePendingCompaction(db, family);
}

}  // namespace

std::atomic<int> ListenersWrite::attempts{0};

void ListenersWrite::Begin(rocksdb::InstrumentedMutex* mutex) {
  const Attempt* const attempt = Attempt::Find(mutex);
  if (attempt == nullptr) return;
  handler_ = attempt->handler();
  AllParts().Add(handler_, Part::kQueues);
  const rocksdb::InstrumentedMutexLock lock(mutex);
  while (attempt->LetWritersGo()) {
  }
}

void ListenersWrite::End() { AllParts().Remove(handler_, Part::kQueues); }

void AwaitClosingRecovery(const rocksdb::ErrorHandler* handler, const rocksdb::InstrumentedMutex* mutex) {
  while (AllParts().Has(handler, Part::kCloses) && Attempt::Find(mutex) == nullptr) {
    std::this_thread::sleep_for(std::chrono::microseconds(kMicrosBetweenLooks));
  }
}

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;
using cairn::AllParts;
using cairn::Part;

// RocksDB's thread ends when the list is empty, and who begins the next one waits for its end with a database's mutex: for
// ever, because the thread goes on with the database, and needs the mutex.
void SstFileManagerImpl::StartErrorRecovery(ErrorHandler* handler, Status error) {
  const MutexLock lock(&mu_);
  if (bg_err_.ok() || error.severity() == Status::Severity::kHardError) bg_err_ = std::move(error);
  const auto entries = std::count(error_handler_list_.begin(), error_handler_list_.end(), handler);
  if (entries >= (AllParts().Has(handler, Part::kIsTried) ? 2 : 1)) return;
  error_handler_list_.push_back(handler);
  AllParts().Add(handler, Part::kWaits);
  cv_.SignalAll();
  if (bg_thread_ != nullptr) return;
  try {
    bg_thread_ = std::make_unique<port::Thread>(&SstFileManagerImpl::ClearError, this);
  } catch (const std::system_error& no_thread) {
    Warn(logger_, "no thread to recover databases from full disks, which DB::Resume may do: %s", no_thread.what());
    bg_err_ = Status::OK();
    error_handler_list_.pop_back();
    AllParts().Remove(handler, Part::kWaits);
  }
}

// RocksDB's does not wait for an attempt, which may then find the database gone, or leave it in the list. Says whether the
// database had no other recovery.
bool SstFileManagerImpl::CancelErrorRecovery(ErrorHandler* handler) {
  const MutexLock lock(&mu_);
  while (AllParts().Has(handler, Part::kIsTried) && handler != cairn::tried_here) cv_.Wait();
  const size_t before = error_handler_list_.size();
  error_handler_list_.remove(handler);
  const size_t removed = before - error_handler_list_.size();
  for (size_t i = 0; i < removed; ++i) AllParts().Remove(handler, Part::kWaits);
  if (removed > 0) cv_.SignalAll();
  // Who calls takes it then that no recovery is in progress, and one whose flush fails would not hear of it.
  return removed > 0 && !AllParts().Has(handler, Part::kRuns) && !AllParts().Has(handler, Part::kResumes);
}

// RocksDB's tries the first database of the list only, for as long as that one's disk is full; never any, when the one that
// was opened first with this SstFileManager is gone, whose folder it asks for space; holds the mutex while it asks; and does
// all of it on one thread, where a listener waits for ever for a database that comes later. Here each attempt has its own.
void SstFileManagerImpl::ClearError() {
  const auto recover = [this](ErrorHandler* handler) {
    cairn::tried_here = handler;
    const Status s = handler->RecoverFromBGError();
    TEST_SYNC_POINT("SstFileManagerImpl::ErrorCleared");  // of RocksDB's own tests
    const MutexLock lock(&mu_);
    const bool ended = s.ok() || cairn::HasEnded(s);
    const bool again = std::count(error_handler_list_.begin(), error_handler_list_.end(), handler) > 1;
    const auto entry = std::find(error_handler_list_.begin(), error_handler_list_.end(), handler);
    if ((ended || again) && entry != error_handler_list_.end()) {  // a listener may have closed the database
      error_handler_list_.erase(entry);
      AllParts().Remove(handler, Part::kWaits);
    }
    AllParts().RemoveAll(handler, Part::kLeaves);
    AllParts().Remove(handler, Part::kIsTried);
    AllParts().RemoveAll(handler, Part::kCloses);
    cv_.SignalAll();  // nothing behind it: Close may end
  };
  const auto is_tried = [](const ErrorHandler* handler) { return AllParts().Has(handler, Part::kIsTried); };

  const MutexLock lock(&mu_);
  while (!closing_) {
    if (error_handler_list_.empty()) {
      bg_err_ = Status::OK();
      cv_.Wait();
      continue;
    }
    const std::string path = path_;
    mu_.Unlock();
    uint64_t free = 0;
    const bool known = fs_->GetFreeSpace(path, IOOptions(), &free, nullptr).ok();
    mu_.Lock();
    if (max_allowed_space_ > 0) free = std::min(free, max_allowed_space_);
    if (!known || cairn::HasRoom(bg_err_.severity(), free, reserved_disk_buffer_, free_space_trigger_)) {
      for (ErrorHandler* const handler : error_handler_list_) {
        if (closing_ || is_tried(handler)) continue;
        AllParts().Add(handler, Part::kIsTried);
        try {
          port::Thread(recover, handler).detach();
        } catch (const std::system_error& no_thread) {
          AllParts().Remove(handler, Part::kIsTried);
          Warn(logger_, "no thread to recover a database: %s; tried again in five seconds", no_thread.what());
          break;
        }
      }
    } else {
      Warn(logger_,
           "%" PRIu64 " bytes are free on %s: too few to recover from \"%s\"; %" PRIu64
           " are wanted for flushes, %" PRIu64 " for compactions",
           free, path.c_str(), bg_err_.ToString().c_str(), reserved_disk_buffer_, free_space_trigger_);
    }
    const uint64_t next = clock_->NowMicros() + cairn::kMicrosBetweenAttempts;
    while (!closing_ && !error_handler_list_.empty() && clock_->NowMicros() < next) cv_.TimedWait(next);
  }
  while (std::any_of(error_handler_list_.begin(), error_handler_list_.end(), is_tried)) cv_.Wait();
}

// A WAL that has failed takes no further entry: who comes to it next, having looked for an error before it did, meets an error
// that says so, and no more. RocksDB takes it for one that it cannot recover from, whatever the first one was.
// And nobody tells writers that are held back when nobody recovers.
// RocksDB's severities of a full disk lack one that has no room for the next WAL when a memtable is switched: that was fatal.
// A write that is refused, where writes are pipelined or unordered, tells of the error that it was refused for (which has a
// severity). RocksDB takes that for one of the attempt that is under way, which fails as often as clients try again; for one
// that has just come, when the database has recovered meanwhile; or, where allowed space is used up, for a fatal one.
void ErrorHandler::SetBGError(const Status& error, BackgroundErrorReason reason, bool wal_related) {
  const bool is_known = error.severity() != Status::Severity::kNoError;
  if (reason == BackgroundErrorReason::kWriteCallback && !wal_related && is_known) return;
  if (!cairn::HasFailedBefore(error)) {
    const bool new_wal_is_full = reason == BackgroundErrorReason::kMemTable && wal_related && error.IsNoSpace();
    own::SetBGError(this, error, new_wal_is_full ? BackgroundErrorReason::kWriteCallback : reason, wal_related);
  } else {
    IOStatus again = status_to_io_status(Status(error));
    again.SetRetryable(true);
    own::SetBGError(this, again, reason, wal_related);
  }
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
  if (!bg_error_.ok()) writers.Wake();  // Close queues behind those that are held back, and nobody recovers any more
}

// RocksDB schedules no flush of an attempt unless a recovery is in progress, and the attempt never ends: be it that another
// recovery has just ended when the SstFileManager's begins, or that Resume ends while another goes on, and says that none is
// in progress. So Resume is an attempt like the others, and only one that has failed says so. And attempts that run beside each
// other clear each other's errors (invariant 4).
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

// A compaction that fails, or is given up before it begins, is looked for again, unless the database is stopped just then, or
// it is a manual one, which may only have been cancelled: RocksDB forgets those. All of this has the mutex.
Status DBImpl::BackgroundCompaction(bool* made_progress, JobContext* job, LogBuffer* log,
                                    PrepickedCompaction* compaction, Env::Priority priority) {
  const Status s = own::BackgroundCompaction(this, made_progress, job, log, compaction, priority);
  if (s.ok() || s.IsBusy() || s.IsShutdownInProgress()) return s;
  for (ColumnFamilyData* const family : *versions_->GetColumnFamilySet()) cairn::LookForCompactions(this, family);
  return s;
}
// Its compaction may be given up while it waits for a thread.
Status DBImpl::RunManualCompaction(ColumnFamilyData* family, int input_level, int output_level,
                                   const CompactRangeOptions& options, const Slice* begin, const Slice* end,
                                   bool exclusive, bool disallow_trivial_move, uint64_t max_file_num_to_ignore,
                                   const std::string& trim_ts, int* final_output_level) {
  const Status s = own::RunManualCompaction(this, family, input_level, output_level, options, begin, end, exclusive,
                                            disallow_trivial_move, max_file_num_to_ignore, trim_ts, final_output_level);
  if (s.ok()) return s;
  const InstrumentedMutexLock lock(&mutex_);
  if (shutting_down_.load(std::memory_order_relaxed)) return s;  // Close may have emptied the queue of compactions
  cairn::LookForCompactions(this, family);
  MaybeScheduleFlushOrCompaction();
  return s;
}
Status DBImpl::CompactFilesImpl(const CompactionOptions& options, ColumnFamilyData* family, Version* version,
                                const std::vector<std::string>& inputs, std::vector<std::string>* const outputs,
                                int output_level, int output_path, JobContext* job, LogBuffer* log,
                                CompactionJobInfo* info) {
  const Status checked = cairn::CheckCompactFiles(*family, *version, inputs, output_level);
  if (!checked.ok()) return checked;
  const Status s =
      own::CompactFilesImpl(this, options, family, version, inputs, outputs, output_level, output_path, job, log, info);
  if (s.ok() || shutting_down_.load(std::memory_order_relaxed)) return s;  // as above
  cairn::LookForCompactions(this, family);
  MaybeScheduleFlushOrCompaction();
  return s;
}

// RocksDB asks for as much room as the inputs take also when they are only to be removed, and so a FIFO that has used up the space
// it is allowed never has room again.
bool DBImpl::EnoughRoomForCompaction(ColumnFamilyData* family, const std::vector<CompactionInputFiles>& inputs,
                                     bool* reserved, LogBuffer* log) {
  for (Compaction* const compaction : *family->compaction_picker()->compactions_in_progress()) {
    if (compaction->inputs() == &inputs && compaction->deletion_compaction()) return true;
  }
  return own::EnoughRoomForCompaction(this, family, inputs, reserved, log);
}

// Before a flush of a recovery, whose table must not be ahead of a WAL that counts as damaged (torn_wal.h).
IOStatus DBImpl::SyncClosedWals(const WriteOptions& options, JobContext* job, VersionEdit* synced, bool recovers) {
  std::vector<uint64_t> closed;
  if (recovers) {
    const InstrumentedMutexLock lock(&CAIRN_WALS_MUTEX);
    for (const LogWriterNumber& wal : logs_) {
      if (wal.number < CAIRN_NEWEST_WAL) closed.push_back(wal.number);
    }
  }
  for (const uint64_t number : closed) {
    const std::string path = LogFileName(immutable_db_options_.GetWalDir(), number);
    IOStatus s = cairn::EraseTornEntry(fs_.get(), path, number, immutable_db_options_.logger);
    if (!s.ok()) return s;
  }
  return own::SyncClosedWals(this, options, job, synced, recovers);
}

// What recovers a database queues behind writers, and a writer that is held back at the front of the queue waits for the
// recovery: RocksDB waits for ever. Here such writers are let go, and so are those that come meanwhile.
void WriteThread::EnterUnbatched(Writer* writer, InstrumentedMutex* mutex) {
  const cairn::Attempt* const attempt = cairn::Attempt::Find(mutex);
  if (attempt == nullptr) return own::EnterUnbatched(this, writer, mutex);
  const cairn::Taking queues(attempt->handler(), Part::kQueues);
  while (attempt->LetWritersGo(this)) {
  }
  own::EnterUnbatched(this, writer, mutex);
}

// RocksDB's own, but for `queues`: who waits for a recovery that queues behind him waits no longer, and gets the error.
Status DBImpl::DelayWrite(uint64_t bytes, WriteThread& thread, const WriteOptions& options) {
  mutex_.AssertHeld();
  SystemClock* const clock = immutable_db_options_.clock;
  const uint64_t delay = &thread == &write_thread_ ? write_controller_.GetDelay(clock, bytes) : 0;
  TEST_SYNC_POINT("DBImpl::DelayWrite:Start");
  const uint64_t start = clock->NowMicros();
  bool delayed = false;
  if (delay > 0) {
    if (options.no_slowdown) return Status::Incomplete("Write stall");
    TEST_SYNC_POINT("DBImpl::DelayWrite:Sleep");
    thread.BeginWriteStall();  // has writers with no_slowdown refused, as below
    mutex_.Unlock();
    TEST_SYNC_POINT("DBImpl::DelayWrite:BeginWriteStallDone");
    constexpr uint64_t kMicrosBetweenLooks = 1001;
    while (write_controller_.NeedsDelay() && clock->NowMicros() < start + delay) {
      delayed = true;
      clock->SleepForMicroseconds(kMicrosBetweenLooks);
    }
    mutex_.Lock();
    thread.EndWriteStall();
  }
  const auto waits_for_recovery = [this] {
    const bool queues = AllParts().Has(&error_handler_, Part::kQueues);
    return error_handler_.IsRecoveryInProgress() && !queues;
  };
  while ((error_handler_.GetBGError().ok() || waits_for_recovery()) && write_controller_.IsStopped() &&
         !shutting_down_.load(std::memory_order_relaxed)) {
    if (options.no_slowdown) return Status::Incomplete("Write stall");
    delayed = true;
    thread.BeginWriteStall();
    if (&thread == &write_thread_) {  // NOLINT(bugprone-branch-clone): a release build has neither
      TEST_SYNC_POINT("DBImpl::DelayWrite:Wait");
    } else {
      TEST_SYNC_POINT("DBImpl::DelayWrite:NonmemWait");
    }
    bg_cv_.Wait();
    TEST_SYNC_POINT_CALLBACK("DBImpl::DelayWrite:AfterWait", &mutex_);
    thread.EndWriteStall();
  }
  if (delayed) {
    const uint64_t micros = clock->NowMicros() - start;
    default_cf_internal_stats_->AddDBStats(InternalStats::kIntStatsWriteStallMicros, micros);
    RecordTick(stats_, STALL_MICROS, micros);
    RecordInHistogram(stats_, WRITE_STALL, micros);
  }
  if (error_handler_.IsDBStopped()) return error_handler_.GetBGError();
  if (!write_controller_.IsStopped()) return Status::OK();
  if (shutting_down_.load(std::memory_order_relaxed)) return Status::ShutdownInProgress("stalled writes");
  return Status::Incomplete(error_handler_.GetBGError().ToString());
}

// RocksDB's own, but for who would wait for a recovery that queues behind him, or for one that nobody makes: such a write goes
// on, and finds the WAL as the error has left it. The state is changed with the mutex still held, so that no Wake is lost.
void DBImpl::WriteBufferManagerStallWrites() {
  mutex_.AssertHeld();
  if (!error_handler_.GetBGError().ok() && AllParts().Has(&error_handler_, Part::kQueues)) return;
  if (error_handler_.IsBGWorkStopped() && !error_handler_.IsRecoveryInProgress()) return;
  auto* const stall = static_cast<WBMStallInterface*>(wbm_stall_.get());
  stall->SetState(WBMStallInterface::State::BLOCKED);
  write_thread_.BeginWriteStall();
  mutex_.Unlock();
  write_buffer_manager_->BeginWriteStall(stall);
  stall->Block();
  mutex_.Lock();
  write_thread_.EndWriteStall();
}

// A family that waits for a flush already is not queued again. But that flush is dropped, since it is none of a recovery, and
// the recovery would wait for it for ever: so it becomes one. A recovery's flushes go before all others, which are not scheduled
// before it ends.
bool DBImpl::EnqueuePendingFlush(const FlushRequest& request) {
  const bool recovers = IsRecoveryFlush(request.flush_reason);
  if (recovers && !immutable_db_options_.atomic_flush && !request.cfd_to_max_mem_id_to_persist.empty()) {
    const auto& [family, newest] = *request.cfd_to_max_mem_id_to_persist.begin();
    for (auto waiting = flush_queue_.begin(); waiting != flush_queue_.end(); ++waiting) {
      const auto found = waiting->cfd_to_max_mem_id_to_persist.find(family);
      if (found == waiting->cfd_to_max_mem_id_to_persist.end()) continue;
      found->second = std::max(found->second, newest);
      waiting->flush_reason = request.flush_reason;
      family->SetFlushSkipReschedule();  // as RocksDB of what it has queued
      std::rotate(flush_queue_.begin(), waiting, waiting + 1);
      ++unscheduled_flushes_;
      return false;
    }
  }
  // Who closes the database waits for the recovery, for its listeners, and for a flush of his own.
  const bool rejects = std::exchange(reject_new_background_jobs_, false);
  const bool queued = own::EnqueuePendingFlush(this, &request);
  reject_new_background_jobs_ = rejects;
  if (recovers && queued) std::rotate(flush_queue_.begin(), flush_queue_.end() - 1, flush_queue_.end());
  if (request.flush_reason == FlushReason::kCatchUpAfterErrorRecovery && !error_handler_.IsBGWorkStopped()) {
    unscheduled_flushes_ = std::max(unscheduled_flushes_, static_cast<int>(flush_queue_.size()));
  } else if (!recovers && queued && error_handler_.IsBGWorkStopped() && error_handler_.IsRecoveryInProgress()) {
    --unscheduled_flushes_;
  }
  return queued;
}

// A family that is dropped meanwhile ends a recovery, and the database stays stopped. And RocksDB mixes up which memtables of
// several families it waits for (WaitForFlushMemTables): they are those that there are when it asks for their flush. A writer
// may switch others before it waits, whose flush is none of a recovery, and dropped.
Status DBImpl::RetryFlushesForErrorRecovery(FlushReason reason, bool wait) {
  if (!wait) return own::RetryFlushesForErrorRecovery(this, reason, wait);
  Status s;
  do {
    if (!immutable_db_options_.atomic_flush) {
      s = own::RetryFlushesForErrorRecovery(this, reason, wait);
      continue;
    }
    autovector<ColumnFamilyData*> families;
    autovector<uint64_t> numbers;
    for (ColumnFamilyData* family : *versions_->GetColumnFamilySet()) {
      if (family->IsDropped() || !family->initialized() || family->imm()->NumNotFlushed() == 0) continue;
      family->Ref();
      families.push_back(family);
      numbers.push_back(family->imm()->GetLatestMemTableID(/*for_atomic_flush=*/true));
    }
    autovector<const uint64_t*> newest;
    for (const uint64_t& number : numbers) newest.push_back(&number);
    own::RetryFlushesForErrorRecovery(this, reason, /*wait=*/false).PermitUncheckedError();
    mutex_.Unlock();
    s = WaitForFlushMemTables(families, newest, /*resuming_from_bg_err=*/true, reason);
    mutex_.Lock();
    for (ColumnFamilyData* family : families) family->UnrefAndTryDelete();
  } while (s.IsColumnFamilyDropped());
  return s;
}

}  // namespace rocksdb
