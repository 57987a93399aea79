// How writers that do not queue share the WAL (docs/design/write_path.md): each adds its batch to what is to be written
// next, and one of those who wait writes that, for all of them.
//
// Invariants
//   (1) Numbers are taken and batches are added under one lock: records, and the batches in them, have the order of
//       their numbers. In a record no number is missing; one that a write without a WAL has taken begins another.
//   (2) At most one thread writes, without the lock.
//   (3) When a record could not be written, none that follows it is, until Reset. What was in records before it is OK.
//   (4) The batches of a record become visible at once: readers of the WAL take a record as a whole.
//
// Thread-safety: all functions, by all threads, unless they say otherwise.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
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

  // The batches of one record.
  struct Together {
    uint64_t first, last;           // their numbers
    std::atomic<uint64_t> batches;  // that are not in their memtables yet
  };

  // Takes `entries` numbers by enter(), which returns the first or 0, and returns when they are in the WAL, or with the
  // reason why not. add(record) adds them to a record. `whole`, unless null, is a batch of just them, which becomes the
  // record if nobody else waits. *together stays null unless there are others in the record.
  template <class Enter, class Add>
  uint64_t Append(uint64_t entries, const Enter& enter, rocksdb::WriteBatch* whole, const Add& add,
                  std::shared_ptr<Together>* together, rocksdb::Status* s) CAIRN_EXCLUDES(mutex_);

  // Records are written again after a failure. REQUIRES: nobody is in Append with numbers.
  void Reset() CAIRN_EXCLUDES(mutex_);

 private:
  // One group waits to be written while another is: who sleeps waits for one of the two.
  static constexpr uint64_t kGroups = 2;

  struct Record {
    rocksdb::WriteBatch batch;
    std::vector<std::shared_ptr<Together>*> writers;  // who wait until it is written
  };
  // Records of one write; their memory stays.
  struct Group {
    std::vector<Record> records;
    size_t used = 0;
  };

  Record* RecordFrom(uint64_t first) CAIRN_REQUIRES(mutex_);
  static void TellOfOthers(Record* record);
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
  uint64_t failed_from_ CAIRN_GUARDED_BY(mutex_) = 0;  // the first number of the record that failed
  std::array<ConditionVariable, kGroups> changed_;
  std::array<int, kGroups> sleepers_ CAIRN_GUARDED_BY(mutex_) = {};
  std::atomic<bool> writing_{false};
  std::atomic<uint64_t> done_{0};  // groups that are written
};

template <class Enter, class Add>
uint64_t WriteLog::Append(uint64_t entries, const Enter& enter, rocksdb::WriteBatch* whole, const Add& add,
                          std::shared_ptr<Together>* together, rocksdb::Status* s) {
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
    Record* const record = RecordFrom(first);
    const uint32_t count = WriteBatchInternal::Count(&record->batch) + static_cast<uint32_t>(entries);
    add(&record->batch);
    WriteBatchInternal::SetCount(&record->batch, count);
    record->writers.push_back(together);
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
    if (!IsDone(group) && first >= failed_from_) *s = failure_;
  }
  mutex_.Unlock();
  return first;
}

}  // namespace cairn
