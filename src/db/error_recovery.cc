// Recovery from errors without RocksDB's endless waits: the definitions that take the place of its own (see
// src/port/rocksdb_own.h) in ErrorHandler, which recovers a database, in SstFileManagerImpl, whose thread has databases
// recovered when there is space again, and where a database flushes for that and holds writers back. docs/faults.md says
// what an operator saw without them.
//
// Invariants of a SstFileManager, under its mutex:
//   1. As long as error_handler_list_ has an entry, bg_thread_ serves it; it does not end before the list is empty.
//   2. cur_instance_ is the database that the thread recovers just then. It is the list's first entry, and exists until
//      cur_instance_ changes: whoever closes it waits for that.
//   3. A database has two entries only while it is recovered and has met another error meanwhile.

#include <algorithm>
#include <cinttypes>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/error_handler.h"
#include "file/sst_file_manager_impl.h"
#include "rocksdb/env.h"
#include "src/port/rocksdb_own.h"
#include "test_util/sync_point.h"

extern "C" {
extern const int cairn_error_recovery;
const int cairn_error_recovery = 1;
}

namespace cairn {
namespace {

constexpr uint64_t kMicrosBetweenAttempts = 5000000;
constexpr uint64_t kMicrosBetweenLooks = 10000;  // where RocksDB tells nobody

// What recovers a database on this thread begins again when it has ended.
thread_local bool recover_again = false;

// What threads are at, by its address, as often as it was added and not removed. Thread-safe.
class Pointers {
 public:
  void Add(const void* pointer) {
    const std::lock_guard<std::mutex> lock(mu_);
    pointers_.push_back(pointer);
  }
  // REQUIRES: there is one.
  void Remove(const void* pointer) {
    const std::lock_guard<std::mutex> lock(mu_);
    pointers_.erase(std::find(pointers_.begin(), pointers_.end(), pointer));
  }
  bool Has(const void* pointer) {
    const std::lock_guard<std::mutex> lock(mu_);
    return std::find(pointers_.begin(), pointers_.end(), pointer) != pointers_.end();
  }

 private:
  std::mutex mu_;
  std::vector<const void*> pointers_;
};

// Never destroyed, for threads that outlive main.
template <int kOfWhat>
Pointers& All() {
  static auto* const pointers = new Pointers();
  return *pointers;
}
constexpr auto ending_managers = All<0>;     // SstFileManagers that wait for the end of a thread
constexpr auto waiting_databases = All<1>;   // error handlers: the entries of all SstFileManagers' lists
constexpr auto other_recoveries = All<2>;    // error handlers in Resume, or that get a thread just then
constexpr auto queuing_recoveries = All<3>;  // databases: their recoveries queue behind writers

class OtherRecovery {
 public:
  explicit OtherRecovery(const rocksdb::ErrorHandler* handler) : handler_(handler) { other_recoveries().Add(handler_); }
  ~OtherRecovery() { other_recoveries().Remove(handler_); }
  OtherRecovery(const OtherRecovery&) = delete;
  OtherRecovery& operator=(const OtherRecovery&) = delete;

 private:
  const rocksdb::ErrorHandler* const handler_;
};

// On the thread that recovers a database. Its listeners may recover another one meanwhile, or the same.
class Attempt {
 public:
  // let_writers_go: has writers that are held back refused, and says whether it could; with the database's mutex.
  Attempt(const rocksdb::DBImpl* db, std::function<bool()> let_writers_go)
      : db_(db), let_writers_go_(std::move(let_writers_go)), outer_(of_thread) {
    of_thread = this;
  }
  ~Attempt() { of_thread = outer_; }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  static const Attempt* OfThread() { return of_thread; }
  const rocksdb::DBImpl* db() const { return db_; }
  bool LetWritersGo() const { return let_writers_go_(); }

 private:
  static thread_local const Attempt* of_thread;

  const rocksdb::DBImpl* const db_;
  const std::function<bool()> let_writers_go_;
  const Attempt* const outer_;
};
thread_local const Attempt* Attempt::of_thread = nullptr;

// Whether an attempt is worth while after an error of such severity.
bool HasRoom(rocksdb::Status::Severity severity, uint64_t free, uint64_t for_flushes, uint64_t for_compactions) {
  if (severity == rocksdb::Status::Severity::kHardError) return free >= for_flushes;
  if (severity == rocksdb::Status::Severity::kSoftError) return free >= for_compactions;
  return true;
}

}  // namespace
}  // namespace cairn

// In a member function of ErrorHandler. While no recovery is in progress, writers that are held back are refused.
#define CAIRN_LET_WRITERS_GO                                                  \
  if (bg_error_.ok() || !db_->write_controller_.IsStopped()) return false;    \
  recovery_in_prog_ = false;                                                  \
  db_->bg_cv_.SignalAll();                                                    \
  cv_.TimedWait(db_options_.clock->NowMicros() + cairn::kMicrosBetweenLooks); \
  recovery_in_prog_ = true;                                                   \
  return true;

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// RocksDB gives the next database to a thread that is about to end, and waits for its end with that database's mutex: for
// ever, because the thread goes on with the database, and needs the mutex. Here it has ended first.
void SstFileManagerImpl::StartErrorRecovery(ErrorHandler* handler, Status error) {
  const MutexLock lock(&mu_);
  while (cairn::ending_managers().Has(this)) cv_.Wait();
  if (error_handler_list_.empty() && bg_thread_ != nullptr) {
    const std::unique_ptr<port::Thread> unneeded = std::move(bg_thread_);
    cairn::ending_managers().Add(this);
    cv_.SignalAll();
    mu_.Unlock();
    unneeded->join();
    mu_.Lock();
    cairn::ending_managers().Remove(this);
    cv_.SignalAll();
  }
  if (bg_err_.ok() || error.severity() == Status::Severity::kHardError) bg_err_ = std::move(error);
  const auto entries = std::count(error_handler_list_.begin(), error_handler_list_.end(), handler);
  if (entries >= (cur_instance_ == handler ? 2 : 1)) return;
  error_handler_list_.push_back(handler);
  cairn::waiting_databases().Add(handler);
  if (bg_thread_ == nullptr) bg_thread_ = std::make_unique<port::Thread>(&SstFileManagerImpl::ClearError, this);
}

// RocksDB's does not wait for an attempt, which may then find the database gone, or leave it in the list.
bool SstFileManagerImpl::CancelErrorRecovery(ErrorHandler* handler) {
  const MutexLock lock(&mu_);
  while (cur_instance_ == handler) cv_.Wait();
  const size_t before = error_handler_list_.size();
  error_handler_list_.remove(handler);
  const size_t removed = before - error_handler_list_.size();
  for (size_t i = 0; i < removed; ++i) cairn::waiting_databases().Remove(handler);
  return removed > 0;
}

// RocksDB's tries the first database of the list only, for as long as that one's disk is full; never any, when the one that
// was opened first with this SstFileManager is gone, whose folder it asks for space; and holds the mutex while it asks.
void SstFileManagerImpl::ClearError() {
  const MutexLock lock(&mu_);
  while (!closing_ && !error_handler_list_.empty()) {
    const std::string path = path_;
    mu_.Unlock();
    uint64_t free = 0;
    const bool known = fs_->GetFreeSpace(path, IOOptions(), &free, nullptr).ok();
    mu_.Lock();
    if (max_allowed_space_ > 0) free = std::min(free, max_allowed_space_);
    const bool room = !known || cairn::HasRoom(bg_err_.severity(), free, reserved_disk_buffer_, free_space_trigger_);
    if (!room) {
      Warn(logger_,
           "%" PRIu64 " bytes are free on %s: too few to recover from \"%s\"; %" PRIu64
           " are wanted for flushes, %" PRIu64 " for compactions",
           free, path.c_str(), bg_err_.ToString().c_str(), reserved_disk_buffer_, free_space_trigger_);
    }
    for (size_t left = room ? error_handler_list_.size() : 0; left > 0 && !error_handler_list_.empty() && !closing_;
         --left) {
      ErrorHandler* const handler = error_handler_list_.front();
      cur_instance_ = handler;
      mu_.Unlock();
      const Status s = handler->RecoverFromBGError();
      TEST_SYNC_POINT("SstFileManagerImpl::ErrorCleared");  // of RocksDB's own tests
      mu_.Lock();
      cur_instance_ = nullptr;
      const bool ended = s.ok() || s.IsShutdownInProgress() || s.severity() >= Status::Severity::kFatalError;
      const bool again = std::count(error_handler_list_.begin(), error_handler_list_.end(), handler) > 1;
      if (ended || again) {
        error_handler_list_.pop_front();
        cairn::waiting_databases().Remove(handler);
      } else {
        error_handler_list_.splice(error_handler_list_.end(), error_handler_list_, error_handler_list_.begin());
      }
      cv_.SignalAll();
    }
    if (!closing_ && !error_handler_list_.empty()) cv_.TimedWait(clock_->NowMicros() + cairn::kMicrosBetweenAttempts);
  }
  if (error_handler_list_.empty()) bg_err_ = Status::OK();
}

// The mutex is free while listeners hear of an error, and Close may begin meanwhile, which cancels recoveries. RocksDB begins
// one all the same, and Close waits for it as long as the disk is full.
void ErrorHandler::RecoverFromNoSpace() {
  if (auto_recovery_) return own::RecoverFromNoSpace(this);
  recovery_in_prog_ = false;
}

// Close waits until no recovery is in progress, but one that has nothing to flush does not tell it of its end, nor does one
// whose thread begins after Close has looked for it.
void ErrorHandler::CAIRN_CANCEL_ERROR_RECOVERY() {
  own::CancelErrorRecovery(this);
  // Neither the SstFileManager nor a thread has it any more; Resume may, or a thread that was about to begin.
  while (recovery_in_prog_ && cairn::other_recoveries().Has(this)) {
    cv_.TimedWait(db_options_.clock->NowMicros() + cairn::kMicrosBetweenLooks);
    own::CancelErrorRecovery(this);
  }
  recovery_in_prog_ = false;
}

// An attempt of the SstFileManager's thread is a recovery in progress, also if another recovery has just ended: RocksDB
// schedules no flush otherwise, and the attempt never ends.
Status ErrorHandler::RecoverFromBGError(bool is_manual) {
  std::optional<cairn::OtherRecovery> resumes;
  if (is_manual) {
    resumes.emplace(this);
  } else {
    const InstrumentedMutexLock lock(db_mutex_);
    recovery_in_prog_ = true;
  }
  const cairn::Attempt attempt(db_, [this] { CAIRN_LET_WRITERS_GO });
  return own::RecoverFromBGError(this, is_manual);
}

// RocksDB's does not tell writers that are held back when it gives up. And it says that no recovery is in progress, be it
// that the disk was full meanwhile and the SstFileManager's thread has begun one.
void ErrorHandler::RecoverFromRetryableBGIOError() {
  const cairn::Attempt attempt(db_, [this] { CAIRN_LET_WRITERS_GO });
  for (;;) {
    cairn::recover_again = false;
    own::RecoverFromRetryableBGIOError(this);
    const InstrumentedMutexLock lock(db_mutex_);
    if (!bg_error_.ok() && cairn::waiting_databases().Has(this)) {
      recovery_in_prog_ = true;
      db_->MaybeScheduleFlushOrCompaction();
      return;
    }
    db_->bg_cv_.SignalAll();
    if (!cairn::recover_again || bg_error_.ok() || end_recovery_ || recovery_in_prog_) return;
    recovery_in_prog_ = true;
  }
}

// What recovers a database queues behind writers, and a writer that is held back at the front of the queue waits for the
// recovery: RocksDB waits for ever. Here such writers are refused, as are those that come while the database is stopped.
void WriteThread::EnterUnbatched(Writer* writer, InstrumentedMutex* mutex) {
  const cairn::Attempt* const attempt = cairn::Attempt::OfThread();
  // A listener may call another database.
  if (attempt == nullptr || attempt->db()->mutex() != mutex) return own::EnterUnbatched(this, writer, mutex);
  cairn::queuing_recoveries().Add(attempt->db());
  while (GetBegunCountOfOutstandingStall() > 0 && attempt->LetWritersGo()) {
  }
  own::EnterUnbatched(this, writer, mutex);
  cairn::queuing_recoveries().Remove(attempt->db());
}

Status DBImpl::DelayWrite(uint64_t bytes, WriteThread& thread, const WriteOptions& options) {
  if (write_controller_.IsStopped() && cairn::queuing_recoveries().Has(this)) {
    const Status error = error_handler_.GetBGError();
    if (!error.ok()) return error;
  }
  return own::DelayWrite(this, bytes, thread, options);
}

// A listener that hears of a recovery's end may write, and meet another error: RocksDB's thread would wait for itself.
void ErrorHandler::StartRecoverFromRetryableBGIOError(const IOStatus& error) {
  if (!recovery_in_prog_ && recovery_thread_ != nullptr && recovery_thread_->get_id() == std::this_thread::get_id()) {
    cairn::recover_again = true;
    return;
  }
  const cairn::OtherRecovery begins(this);
  own::StartRecoverFromRetryableBGIOError(this, error);
}

// A family that waits for a flush already is not queued again. But that flush is dropped, since it is none of a recovery, and
// the recovery would wait for it for ever: so it becomes one. Flushes of several families at once are always queued.
bool DBImpl::EnqueuePendingFlush(const FlushRequest& request) {
  const bool recovers = request.flush_reason == FlushReason::kErrorRecovery ||
                        request.flush_reason == FlushReason::kErrorRecoveryRetryFlush;
  if (!recovers) return own::EnqueuePendingFlush(this, &request);
  for (FlushRequest& waiting : flush_queue_) {
    if (immutable_db_options_.atomic_flush || waiting.cfd_to_max_mem_id_to_persist.size() != 1) continue;
    auto& [family, newest] = *waiting.cfd_to_max_mem_id_to_persist.begin();
    const auto wanted = request.cfd_to_max_mem_id_to_persist.find(family);
    if (wanted == request.cfd_to_max_mem_id_to_persist.end()) continue;
    waiting.flush_reason = request.flush_reason;
    newest = std::max(newest, wanted->second);
  }
  const bool queued = own::EnqueuePendingFlush(this, &request);
  // Of what waits, one may have lost its turn while the database was stopped.
  unscheduled_flushes_ = std::max(unscheduled_flushes_, static_cast<int>(flush_queue_.size()));
  return queued;
}

// A family that is dropped meanwhile ends a recovery, and the database stays stopped.
Status DBImpl::RetryFlushesForErrorRecovery(FlushReason reason, bool wait) {
  Status s;
  do {
    s = own::RetryFlushesForErrorRecovery(this, reason, wait);
  } while (s.IsColumnFamilyDropped());
  return s;
}

}  // namespace rocksdb
