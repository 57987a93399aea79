// What is known of databases that recover from errors, beside what their ErrorHandlers have room for: what the definitions of
// error_recovery.cc, full_disks.cc, held_writers.cc and recovery_flushes.cc, which take the place of RocksDB's own, tell each
// other. docs/guide/faults.md says what an operator saw without them.
//
// Invariants of a database, under its mutex. Its recovery may be tried by its SstFileManager, by the thread that begins with an
// error that may pass, and by Resume:
//   1. One tries at a time (Part::kTries), until it has cleared the error or failed: the error that a flush meets is kept in one
//      place (recovery_error_), which each attempt begins by clearing.
//   2. recovery_in_prog_ while one tries: else that error is not kept, and the flushes are not scheduled.
//   3. An attempt begins when no flush goes on: an earlier one's error is none of the attempt's. Flushes that wait are not
//      scheduled meanwhile, unless they are the recovery's: RocksDB drops them, one a second.
//   4. An attempt to recover from a hard error flushes all memtables, since their WAL may have failed, also when the last error
//      was a soft one. What failed in that WAL, or in a later one, is erased before the first of its tables is there
//      (failed_writes.h), and its sequence numbers go to the next writes.
// Those of a SstFileManager are in full_disks.cc.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "db/error_handler.h"
#include "db/error_recovery.h"
#include "db/failed_writes.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/system_clock.h"

namespace cairn {

inline constexpr uint64_t kMicrosBetweenLooks = 10000;  // where RocksDB tells nobody

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
  kFailed,   // its last attempt, and another follows: writers that are held back get the error, as those do that come
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

// Of this process.
Parts& AllParts();

// While it lives.
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
extern thread_local const rocksdb::ErrorHandler* tried_here;

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
    AllFailedWrites().Clear(db_->GetVersionSet());
    if (retries_) AllParts().RemoveAll(handler_, Part::kRetries);
    EndTurn();
    rocksdb_own::RetryFlushesForErrorRecovery(db_, rocksdb::FlushReason::kCatchUpAfterErrorRecovery, /*wait=*/false)
        .PermitUncheckedError();
    schedule_();  // families whose memtables the recovery has flushed may wait for their turn, and are not queued again
  }
  bool LetWritersGo() const {
    return !handler_->GetBGError().ok() && writers_.LetGo(db_->immutable_db_options().clock);
  }

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

// With atomic_flush and a folder of tables that could not be synced, RocksDB's memtables count as being flushed for ever, and the
// recovery waits for that. REQUIRES: the database's mutex, and that nobody flushes.
void RollBackFlushes(rocksdb::ColumnFamilySet* families);

// Whether no attempt follows one with that result.
inline bool HasEnded(const rocksdb::Status& result) {
  return result.IsShutdownInProgress() || result.severity() >= rocksdb::Status::Severity::kFatalError;
}

inline bool IsHard(const rocksdb::Status& error) { return error.severity() >= rocksdb::Status::Severity::kHardError; }

}  // namespace cairn
