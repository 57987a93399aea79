#include "memtable_cache/write_log.h"

#include "port/port.h"

namespace cairn {

using rocksdb::WriteBatch;
using rocksdb::WriteBatchInternal;

namespace {

// Longer than a record of ordinary size takes to be written. Who waits longer sleeps.
constexpr int kRecordSpins = 200;

// A record takes no more batches when it has so many, as RocksDB's.
constexpr size_t kMostBytes = 1 << 20;
// What is kept for the next record.
constexpr size_t kKeptBytes = 64 << 10;

}  // namespace

WriteLog::Record* WriteLog::RecordFrom(uint64_t first) {
  Group& group = groups_[open_ % kGroups];
  if (group.used > 0) {
    Record* const last = &group.records[group.used - 1];
    const bool follows = WriteBatchInternal::Sequence(&last->batch) + WriteBatchInternal::Count(&last->batch) == first;
    if (follows && last->batch.GetDataSize() < kMostBytes) return last;
  }
  if (group.used == group.records.size()) group.records.emplace_back();
  Record* const record = &group.records[group.used++];
  WriteBatchInternal::SetSequence(&record->batch, first);
  return record;
}

// Before they know that it is written.
void WriteLog::TellOfOthers(Record* record) {
  if (record->writers.size() > 1) {
    const uint64_t first = WriteBatchInternal::Sequence(&record->batch);
    const auto together = std::make_shared<Together>();
    together->first = first;
    together->last = first + WriteBatchInternal::Count(&record->batch) - 1;
    together->batches.store(record->writers.size(), std::memory_order_relaxed);
    for (std::shared_ptr<Together>* writer : record->writers) *writer = together;
  }
  record->writers.clear();
  if (record->batch.GetDataSize() > kKeptBytes) {
    record->batch = WriteBatch();
  } else {
    record->batch.Clear();
  }
}

void WriteLog::WriteWhole(const WriteBatch& record) {
  writing_.store(true, std::memory_order_relaxed);
  rocksdb::Status s;
  {
    const MutexUnlock unlocked(&mutex_);
    s = write_(record);
  }
  if (!s.ok()) failed_from_ = WriteBatchInternal::Sequence(&record);
  Written(s);
}

void WriteLog::WriteGroup() {
  writing_.store(true, std::memory_order_relaxed);
  const uint64_t closed = open_++;
  Group& group = groups_[closed % kGroups];
  rocksdb::Status s;
  uint64_t failed = 0;
  {
    const MutexUnlock unlocked(&mutex_);
    for (size_t i = 0; i < group.used; ++i) {
      Record& record = group.records[i];
      if (s.ok()) {
        failed = WriteBatchInternal::Sequence(&record.batch);
        s = write_(record.batch);
      }
      TellOfOthers(&record);
    }
    group.used = 0;
  }
  if (s.ok()) {
    done_.store(closed + 1, std::memory_order_release);
  } else {
    failed_from_ = failed;
  }
  if (sleepers_[closed % kGroups] > 0) changed_[closed % kGroups].NotifyAll();
  Written(s);
}

// Of those who wait for the next group one is enough to write it.
void WriteLog::Written(const rocksdb::Status& s) {
  if (!s.ok()) failure_ = s;
  writing_.store(false, std::memory_order_release);
  if (sleepers_[open_ % kGroups] == 0) return;
  if (s.ok()) {
    changed_[open_ % kGroups].NotifyOne();
  } else {
    changed_[open_ % kGroups].NotifyAll();
  }
}

void WriteLog::Await(uint64_t group) {
  for (int i = 0; i < kRecordSpins; ++i) {
    if (IsDone(group) || !IsWriting()) return;
    rocksdb::port::AsmVolatilePause();
  }
  const MutexLock lock(&mutex_);
  ++sleepers_[group % kGroups];
  while (!IsDone(group) && IsWriting()) changed_[group % kGroups].Wait(&mutex_);
  --sleepers_[group % kGroups];
}

void WriteLog::Reset() {
  const MutexLock lock(&mutex_);
  if (failure_.ok()) return;
  failure_ = rocksdb::Status::OK();
  Group& group = groups_[open_ % kGroups];
  for (size_t i = 0; i < group.used; ++i) group.records[i] = Record();
  group.used = 0;
}

}  // namespace cairn
