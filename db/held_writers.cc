// Writers that are held back, and what recovers their database: the definitions that take the place of RocksDB's own
// (rocksdb/port/rocksdb_own.h), under which both wait for each other for ever.

#include "db/held_writers.h"

#include <atomic>
#include <cstdint>

#include "db/error_handler.h"
#include "db/recovery_state.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/rocksdb_own.h"
#include "test_util/sync_point.h"

extern "C" {
extern const int cairn_held_writers;
const int cairn_held_writers = 1;
}

namespace cairn {

std::atomic<int> ListenersWrite::attempts{0};
thread_local WaitsForUnorderedWrites* WaitsForUnorderedWrites::of_thread_ = nullptr;

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

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;
using cairn::AllParts;
using cairn::Part;

// What recovers a database queues behind writers, and a writer that is held back at the front of the queue waits for the
// recovery: RocksDB waits for ever. Here such writers are let go, and so are those that come meanwhile. So are those of the other
// queue: who is before the recovery in this one may wait for them (LockWAL, a flush).
void WriteThread::EnterUnbatched(Writer* writer, InstrumentedMutex* mutex) {
  const cairn::Attempt* const attempt = cairn::Attempt::Find(mutex);
  if (attempt == nullptr) {
    own::EnterUnbatched(this, writer, mutex);
  } else {
    const cairn::Taking queues(attempt->handler(), Part::kQueues);
    while (attempt->LetWritersGo()) {
    }
    own::EnterUnbatched(this, writer, mutex);
  }
  cairn::WaitsForUnorderedWrites::HasEntered(mutex);
}

// RocksDB's own, but for `refuses`: who waits for a recovery that queues behind him, or whose attempt has failed, waits no longer, and
// gets the error. What it wants may be in his hand: file descriptors. And but for the second step of a write-prepared write that
// has two queues: without it what the first has written is neither there nor not there, and leads compactions astray.
Status DBImpl::DelayWrite(uint64_t bytes, WriteThread& thread, const WriteOptions& options) {
  mutex_.AssertHeld();
  if (&thread == &nonmem_write_thread_ && options.disableWAL) return Status::OK();  // it writes nothing
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
    const bool refuses =
        AllParts().Has(&error_handler_, Part::kQueues) || AllParts().Has(&error_handler_, Part::kFailed);
    return error_handler_.IsRecoveryInProgress() && !refuses;
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
  if (error_handler_.IsDBStopped() && AllParts().Has(&error_handler_, Part::kFailed)) return;  // it is refused
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

}  // namespace rocksdb
