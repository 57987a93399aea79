// How writers that do not queue share the WAL (docs/design/write_path.md): each adds its batch to what is to be written
// next, and one of those who wait writes that, for all of them.
//
// Invariants
//   (1) Numbers are taken and batches are added under one lock: records, and the batches in them, have the order of
//       their numbers. In a record no number is missing; one that a write without a WAL has taken begins another.
//   (2) At most one thread writes, without the lock.
//   (3) When a record could not be written, none that follows it is, until Reset.
//
// Thread-safety: all functions, by all threads, unless they say otherwise.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "db/write_batch_internal.h"
#include "rocksdb/status.h"
#include "rocksdb/write_batch.h"
#include "util/mutex.h"

namespace cairn {

class WriteLog {
 public:
  // Writes a record; one at a time.
  using WriteRecord = std::function<rocksdb::Status(const rocksdb::WriteBatch& record)>;

  WriteLog() = default;
  WriteLog(const WriteLog&) = delete;
  WriteLog& operator=(const WriteLog&) = delete;

  // Before the first Append.
  void Use(WriteRecord write) { write_ = std::move(write); }

  // Takes `entries` numbers by enter(), which returns the first or 0, and returns when they are in the WAL, or with the
  // reason why not. add(record) adds them to a record. `whole`, unless null, is a batch of just them, which becomes the
  // record if nobody else waits.
  template <class Enter, class Add>
  uint64_t Append(uint64_t entries, const Enter& enter, rocksdb::WriteBatch* whole, const Add& add, rocksdb::Status* s)
      CAIRN_EXCLUDES(mutex_);

  // Records are written again after a failure. REQUIRES: nobody is in Append with numbers.
  void Reset() CAIRN_EXCLUDES(mutex_);

 private:
  // One group waits to be written while another is: who sleeps waits for one of the two.
  static constexpr uint64_t kGroups = 2;

  // Batches of one write; the memory of the records stays.
  struct Group {
    std::vector<rocksdb::WriteBatch> records;
    size_t used = 0;
  };

  rocksdb::WriteBatch* RecordFrom(uint64_t first) CAIRN_REQUIRES(mutex_);
  void WriteWhole(const rocksdb::WriteBatch& record) CAIRN_REQUIRES(mutex_);
  void WriteGroup() CAIRN_REQUIRES(mutex_);
  void Written(const rocksdb::Status& s) CAIRN_REQUIRES(mutex_);
  // Returns when the group is written or its turn has come, or nothing is written any more.
  void Await(uint64_t group) CAIRN_EXCLUDES(mutex_);
  bool IsDone(uint64_t group) const { return done_.load(std::memory_order_acquire) > group; }
  bool IsWriting() const { return writing_.load(std::memory_order_acquire); }

  WriteRecord write_;
  CheckedMutex mutex_;
  std::array<Group, kGroups> groups_ CAIRN_GUARDED_BY(mutex_);  // but that which is written
  uint64_t open_ CAIRN_GUARDED_BY(mutex_) = 0;                  // the group that takes batches
  rocksdb::Status failure_ CAIRN_GUARDED_BY(mutex_);
  std::array<ConditionVariable, kGroups> changed_;
  std::array<int, kGroups> sleepers_ CAIRN_GUARDED_BY(mutex_) = {};
  std::atomic<bool> writing_{false};
  std::atomic<uint64_t> done_{0};  // groups that are written
};

template <class Enter, class Add>
uint64_t WriteLog::Append(uint64_t entries, const Enter& enter, rocksdb::WriteBatch* whole, const Add& add,
                          rocksdb::Status* s) {
  using rocksdb::WriteBatchInternal;
  mutex_.Lock();
  const uint64_t first = enter();
  const uint64_t group = open_;
  if (first == 0) {
    // Nothing has happened.
  } else if (!failure_.ok()) {
    *s = failure_;
  } else if (whole != nullptr && !IsWriting() && groups_[group % kGroups].used == 0) {
    WriteBatchInternal::SetSequence(whole, first);
    WriteWhole(*whole);
    *s = failure_;
  } else {
    rocksdb::WriteBatch* const record = RecordFrom(first);
    const uint32_t count = WriteBatchInternal::Count(record) + static_cast<uint32_t>(entries);
    add(record);
    WriteBatchInternal::SetCount(record, count);
    while (!IsDone(group) && failure_.ok()) {
      if (!IsWriting()) {
        WriteGroup();
        continue;
      }
      mutex_.Unlock();
      Await(group);
      if (IsDone(group)) return first;
      mutex_.Lock();
    }
    if (!IsDone(group)) *s = failure_;
  }
  mutex_.Unlock();
  return first;
}

}  // namespace cairn
