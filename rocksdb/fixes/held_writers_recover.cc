// Without it: a database stands still for ever when its disk fills while writers are held back (too many memtables, or
// tables in level 0), also when there is room again. RocksDB's recovery flushes all memtables, and to switch the newest
// one it queues behind the writer that is held back, who waits for the recovery. Here the recovery flushes the
// read-only memtables alone while writers are held back, which lets them go on. The newest memtable lacks nothing in
// its WAL, unless a WAL has failed itself.
// Seen in: RocksDB 9.10 and 11.8.
// Cost: nothing but at a recovery from an error.
// Test: FaultTest.FullDiskWhileAWriterWaits of shutdown_test.

#include <algorithm>

#include "db/db_impl/db_impl.h"
#include "file/writable_file_writer.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/port/rocksdb_version.h"

extern "C" {
extern const int cairn_held_writers_recover;
const int cairn_held_writers_recover = 1;
}

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
#define CAIRN_MORE_RESUME_PARAMETERS , rocksdb::Env::IOActivity activity
#define CAIRN_MORE_RESUME_ARGUMENTS , activity
#define CAIRN_WALS_MUTEX wal_write_mutex_
#else
#define CAIRN_MORE_RESUME_PARAMETERS
#define CAIRN_MORE_RESUME_ARGUMENTS
#define CAIRN_WALS_MUTEX log_write_mutex_
#endif

namespace cairn::rocksdb_own {

rocksdb::Status ResumeImpl(rocksdb::DBImpl* db, rocksdb::DBRecoverContext context CAIRN_MORE_RESUME_PARAMETERS) asm(
    "cairn_rocksdb_ResumeImpl");

}  // namespace cairn::rocksdb_own

namespace rocksdb {

Status DBImpl::ResumeImpl(DBRecoverContext context CAIRN_MORE_RESUME_PARAMETERS) {
  if (!cairn::port::UsesCairn(immutable_db_options_) || context.flush_reason != FlushReason::kErrorRecovery ||
      !error_handler_.GetBGError().IsNoSpace()) {
    return cairn::rocksdb_own::ResumeImpl(this, context CAIRN_MORE_RESUME_ARGUMENTS);
  }
  mutex_.AssertHeld();
  WaitForBackgroundWork();  // which RocksDB's begins with
  const bool held_back =
      write_controller_.IsStopped() || (write_buffer_manager_ != nullptr && write_buffer_manager_->IsStallActive());
  const auto some_wal_has_failed = [this] {
    const InstrumentedMutexLock lock(&CAIRN_WALS_MUTEX);
    return std::any_of(logs_.begin(), logs_.end(), [](const auto& wal) {
      const WritableFileWriter* const file = wal.writer->file();
      return file != nullptr && file->seen_error();
    });
  };
  if (held_back && !some_wal_has_failed()) context.flush_reason = FlushReason::kErrorRecoveryRetryFlush;
  return cairn::rocksdb_own::ResumeImpl(this, context CAIRN_MORE_RESUME_ARGUMENTS);
}

}  // namespace rocksdb
