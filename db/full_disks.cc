// Databases that wait for space: the definitions that take the place of RocksDB's own (rocksdb/port/rocksdb_own.h) in
// SstFileManagerImpl, which has databases recovered when there is space again.
//
// Invariants of a SstFileManager, under its mutex:
//   1. bg_thread_ begins with the first error and ends when the SstFileManager does: nobody waits for it before.
//   2. A database that is tried (Part::kIsTried) is in error_handler_list_, and exists: whoever closes it waits until it is
//      not tried any more, unless he does it on the very thread that tries, as a listener.
//   3. A database has two entries only while it is tried and has met another error meanwhile.

#include <algorithm>
#include <cinttypes>
#include <list>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "db/error_handler.h"
#include "db/recovery_state.h"
#include "file/sst_file_manager_impl.h"
#include "rocksdb/port/rocksdb_own.h"
#include "test_util/sync_point.h"

extern "C" {
extern const int cairn_full_disks;
const int cairn_full_disks = 1;
}

namespace cairn {
namespace {

constexpr uint64_t kMicrosBetweenAttempts = 5000000;

// Whether an attempt is worth while after an error of such severity.
bool HasRoom(rocksdb::Status::Severity severity, uint64_t free, uint64_t for_flushes, uint64_t for_compactions) {
  if (severity == rocksdb::Status::Severity::kHardError) return free >= for_flushes;
  if (severity == rocksdb::Status::Severity::kSoftError) return free >= for_compactions;
  return true;
}

}  // namespace
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
    bool is_due = false;
    while (!closing_ && !error_handler_list_.empty() && !is_due) is_due = cv_.TimedWait(next);
  }
  while (std::any_of(error_handler_list_.begin(), error_handler_list_.end(), is_tried)) cv_.Wait();
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

}  // namespace rocksdb
