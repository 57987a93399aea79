// How writers that do not queue share the WAL (docs/design/write_path.md): each adds its batch to what is to be written
// next. One of those who wait writes that for all of them, inserts it, and publishes it.
//
// Invariants
//   (1) Numbers are taken and batches are added under one lock: records, and the batches in them, have the order of
//       their numbers. In a record no number is missing; one that a write without a WAL has taken begins another.
//   (2) At most one thread writes, without the lock. Others may insert meanwhile what they have written before.
//   (3) When a record could not be written, none that follows it is, until Reset. What was in records before it is OK.
//   (4) The batches of a record become visible at once: readers of the WAL take a record as a whole.
//   (5) A group of records is used again only when all of its members have left.
//
// Where two write at the same time, they write together: who comes first waits about a microsecond for the other, and
// the thread that has written last writes again, as it has the log's state in its core's cache.
//
// Thread-safety: all functions, by all threads, unless they say otherwise.

#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "db/write_batch_internal.h"
#include "rocksdb/status.h"
#include "rocksdb/write_batch.h"
#include "util/futex.h"
#include "util/mutex.h"
#include "util/spin.h"

namespace cairn {

class WriteLog {
 public:
  // Writes a record; one at a time.
  using WriteRecord = std::function<rocksdb::Status(const rocksdb::WriteBatch& record)>;
  // Inserts the batches of a record, unless `logged` says that it is not in the WAL, and publishes their numbers.
  using ApplyRecord = std::function<rocksdb::Status(rocksdb::WriteBatch* record, bool ignore_missing_families,
                                                    const rocksdb::Status& logged)>;

  WriteLog() = default;
  WriteLog(const WriteLog&) = delete;
  WriteLog& operator=(const WriteLog&) = delete;

  // Before the first Append.
  void Use(WriteRecord write, ApplyRecord apply) CAIRN_EXCLUDES(mutex_) {
    const MutexLock lock(&mutex_);
    OpenGroup();
    write_ = std::move(write);
    apply_ = std::move(apply);
  }

  enum class Applied {
    kNot,  // the caller must insert its batch, unless *s says that it is not in the WAL, and publish its numbers
    kBySelf,
    kByOther,
  };

  // Takes `entries` numbers by enter(), which returns the first or 0, and returns when they are in the WAL, or with the
  // reason why not. add(record) adds them to a record, where they are inserted with `ignore_missing_families`. `whole`,
  // unless null, is a batch of just them, which becomes the record if nobody else writes.
  template <class Enter, class Add>
  uint64_t Append(uint64_t entries, bool ignore_missing_families, const Enter& enter, rocksdb::WriteBatch* whole,
                  const Add& add, Applied* applied, rocksdb::Status* s) CAIRN_EXCLUDES(mutex_);

  // Records are written again after a failure. REQUIRES: nobody is in Append with numbers.
  void Reset() CAIRN_EXCLUDES(mutex_);

 private:
  // Of a batch that is worth copying for another's sake.
  static constexpr size_t kSmallBytes = 1024;
  // The lock is held for about a tenth of a microsecond.
  static constexpr int kLockSpins = 100;

  struct Record {
    rocksdb::WriteBatch batch;
    bool ignore_missing_families = false;
  };
  // Records of one write; their memory stays.
  struct Group {
    std::vector<Record> records;
    size_t used = 0;
    std::atomic<uint32_t> members{0};  // who have not left
    std::atomic<bool> open{true};      // takes batches
    std::atomic<bool> done{false};     // published, or failed
    Futex changed;
    // Of the first record that failed; for all who see that it is done.
    rocksdb::Status failure;
    uint64_t failed_from = 0;
  };

  // Keeps its memory, unless that is much.
  static void ClearRecord(rocksdb::WriteBatch* record);
  Record* RecordFrom(uint64_t first, bool ignore_missing_families) CAIRN_REQUIRES(mutex_);
  void OpenGroup() CAIRN_REQUIRES(mutex_);
  rocksdb::Status WriteWhole(const rocksdb::WriteBatch& record) CAIRN_REQUIRES(mutex_);
  // Whether others write at the same time, so that the open group is worth waiting for: two batches in one record cost
  // hardly more than one.
  bool ExpectsOthers(const Group& group) CAIRN_REQUIRES(mutex_);
  // Returns when they have come, or one of them writes, or after about the time that they take to come again.
  void AwaitOthers(Group* group) CAIRN_REQUIRES(mutex_);
  // Closes the open group and writes it.
  void WriteGroup() CAIRN_REQUIRES(mutex_);
  void ApplyGroup(Group* group);
  // Returns when the group is done, or its turn has come.
  void Await(Group* group);
  // *s becomes what has become of the batch with that number.
  static void Leave(Group* group, uint64_t first, rocksdb::Status* s);

  WriteRecord write_;
  ApplyRecord apply_;
  CheckedMutex mutex_;
  Group* open_ CAIRN_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::unique_ptr<Group>> groups_ CAIRN_GUARDED_BY(mutex_);  // all
  rocksdb::Status failure_ CAIRN_GUARDED_BY(mutex_);
  std::atomic<bool> writing_{false};                    // changes under the lock
  rocksdb::WriteBatch alone_ CAIRN_GUARDED_BY(mutex_);  // the record of who writes alone, without the lock
  uint32_t last_members_ CAIRN_GUARDED_BY(mutex_) = 1;  // of the last group that was written
  pthread_t last_writer_ CAIRN_GUARDED_BY(mutex_) = {};
  uint32_t writes_alone_ CAIRN_GUARDED_BY(mutex_) = 0;     // so many groups more do not wait for others
  uint32_t disappointments_ CAIRN_GUARDED_BY(mutex_) = 0;  // waits in vain, one after the other
};

template <class Enter, class Add>
uint64_t WriteLog::Append(uint64_t entries, bool ignore_missing_families, const Enter& enter,
                          rocksdb::WriteBatch* whole, const Add& add, Applied* applied, rocksdb::Status* s) {
  using rocksdb::WriteBatchInternal;
  *applied = Applied::kNot;
  LockSpinning(&mutex_, kLockSpins);
  const uint64_t first = enter();
  if (first == 0 || !failure_.ok()) {
    if (first != 0) *s = failure_;
    mutex_.Unlock();
    return first;
  }
  Group* const group = open_;
  const bool small = whole == nullptr || whole->GetDataSize() <= kSmallBytes;
  if (!writing_.load() && group->used == 0 && !(small && ExpectsOthers(*group))) {
    if (whole == nullptr) {
      ClearRecord(&alone_);
      add(whole = &alone_);
    }
    WriteBatchInternal::SetSequence(whole, first);
    *s = WriteWhole(*whole);
    Group* const next = open_;
    mutex_.Unlock();
    // Of those who wait for the next group one is enough to write it.
    next->changed.WakeOne();
    return first;
  }
  Record* const record = RecordFrom(first, ignore_missing_families);
  const uint32_t count = WriteBatchInternal::Count(&record->batch) + static_cast<uint32_t>(entries);
  add(&record->batch);
  WriteBatchInternal::SetCount(&record->batch, count);
  group->members.fetch_add(1, std::memory_order_relaxed);
  for (bool waits = true;;) {
    if (!group->open.load() || writing_.load()) {
      mutex_.Unlock();
      Await(group);
      if (group->done.load()) {
        *applied = Applied::kByOther;
        Leave(group, first, s);
        return first;
      }
      LockSpinning(&mutex_, kLockSpins);
    } else if (waits && ExpectsOthers(*group)) {
      AwaitOthers(group);
      waits = false;
    } else {
      break;
    }
  }
  WriteGroup();
  Group* const next = open_;
  if (group->members.load() > 1) *applied = Applied::kBySelf;
  mutex_.Unlock();
  next->changed.WakeOne();
  if (*applied == Applied::kBySelf) ApplyGroup(group);
  Leave(group, first, s);
  return first;
}

}  // namespace cairn
