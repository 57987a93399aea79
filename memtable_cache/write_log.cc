#include "memtable_cache/write_log.h"

#include "port/port.h"

namespace cairn {

using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteBatchInternal;

namespace {

// Longer than an ordinary record takes to be written. Who waits longer sleeps, and so does who sees others sleep:
// there are more writers than cores then.
constexpr int kRecordSpins = 200;

// A record takes no more batches when it has so many, as RocksDB's.
constexpr size_t kMostBytes = 1 << 20;
// What is kept for the next record.
constexpr size_t kKeptBytes = 64 << 10;

}  // namespace

void WriteLog::OpenGroup() {
  if (free_.empty()) {
    groups_.push_back(std::make_unique<Group>());
    open_ = groups_.back().get();
  } else {
    open_ = free_.back();
    free_.pop_back();
  }
}

void WriteLog::Recycle(Group* group) {
  for (size_t i = 0; i < group->used; ++i) {
    Record& record = group->records[i];
    if (record.batch.GetDataSize() > kKeptBytes) {
      record.batch = WriteBatch();
    } else {
      record.batch.Clear();
    }
  }
  group->used = 0;
  group->members.store(0);
  group->done.store(false);
  group->open.store(true);
  group->failure = Status::OK();
  group->failed_from = 0;
  free_.push_back(group);
}

WriteLog::Record* WriteLog::RecordFrom(uint64_t first, bool ignore_missing_families) {
  Group* const group = open_;
  if (group->used > 0) {
    Record* const last = &group->records[group->used - 1];
    const bool follows = WriteBatchInternal::Sequence(&last->batch) + WriteBatchInternal::Count(&last->batch) == first;
    if (follows && last->ignore_missing_families == ignore_missing_families && last->batch.GetDataSize() < kMostBytes) {
      return last;
    }
  }
  if (group->used == group->records.size()) group->records.emplace_back();
  Record* const record = &group->records[group->used++];
  record->ignore_missing_families = ignore_missing_families;
  WriteBatchInternal::SetSequence(&record->batch, first);
  return record;
}

Status WriteLog::WriteWhole(const WriteBatch& record) {
  writing_.store(true);
  Status s;
  {
    const MutexUnlock unlocked(&mutex_);
    s = write_(record);
  }
  if (!s.ok()) failure_ = s;
  writing_.store(false);
  return s;
}

void WriteLog::WriteGroup() {
  Group* const group = open_;
  OpenGroup();
  writing_.store(true);
  group->open.store(false);
  // If a record failed while the group was open, all of it fails.
  group->failure = failure_;
  {
    const MutexUnlock unlocked(&mutex_);
    for (size_t i = 0; i < group->used && group->failure.ok(); ++i) {
      const WriteBatch& record = group->records[i].batch;
      group->failure = write_(record);
      if (!group->failure.ok()) group->failed_from = WriteBatchInternal::Sequence(&record);
    }
  }
  if (!group->failure.ok()) failure_ = group->failure;
  writing_.store(false);
}

void WriteLog::ApplyGroup(Group* group) {
  for (size_t i = 0; i < group->used; ++i) {
    Record& record = group->records[i];
    const bool failed = !group->failure.ok() && WriteBatchInternal::Sequence(&record.batch) >= group->failed_from;
    const Status s = apply_(&record.batch, record.ignore_missing_families, failed ? group->failure : Status::OK());
    if (s.ok() || failed) continue;
    group->failure = s;
    group->failed_from = WriteBatchInternal::Sequence(&record.batch);
  }
  group->done.store(true);
  group->changed.WakeAll();
}

void WriteLog::Await(Group* group) {
  const auto is_due = [&] { return group->done.load() || (group->open.load() && !writing_.load()); };
  for (int i = 0; i < kRecordSpins && !group->changed.HasSleepers(); ++i) {
    if (is_due()) return;
    rocksdb::port::AsmVolatilePause();
  }
  group->changed.Await(is_due);
}

void WriteLog::Leave(Group* group, uint64_t first, Status* s) {
  if (!group->failure.ok() && first >= group->failed_from) *s = group->failure;
  if (group->members.fetch_sub(1) > 1) return;
  const MutexLock lock(&mutex_);
  Recycle(group);
}

void WriteLog::Reset() {
  const MutexLock lock(&mutex_);
  failure_ = Status::OK();
}

}  // namespace cairn
