#include "memtable_cache/write_log.h"

#include "util/rocksdb_names.h"

#include <algorithm>

namespace cairn {

using rocksdb::WriteBatchInternal;

namespace {

// About as long as it takes to sleep and wake up. Who waits longer sleeps, and so does who sees others sleep: there are
// more writers than cores then.
constexpr int kRecordSpins = 500;

// A record takes no more batches when it has so many, as RocksDB's.
constexpr size_t kMostBytes = 1 << 20;
// What is kept for the next record.
constexpr size_t kKeptBytes = 64 << 10;

// About as long as a writer takes from its record's end to its next record.
constexpr int kOthersSpins = 60;
// Waits in vain are rare: the more of them, the rarer.
constexpr uint32_t kMostDisappointments = 10;

}  // namespace

void WriteLog::ClearRecord(WriteBatch* record) {
  if (record->GetDataSize() > kKeptBytes) {
    *record = WriteBatch();
  } else {
    record->Clear();
  }
}

void WriteLog::OpenGroup() {
  open_ = nullptr;
  for (const auto& group : groups_) {
    if (group->members.load(std::memory_order_acquire) == 0) open_ = group.get();
  }
  if (open_ == nullptr) {
    groups_.push_back(std::make_unique<Group>());
    open_ = groups_.back().get();
  }
  for (size_t i = 0; i < open_->used; ++i) ClearRecord(&open_->records[i].batch);
  open_->used = 0;
  open_->done.store(false, std::memory_order_relaxed);
  open_->open.store(true, std::memory_order_relaxed);
  open_->failure = Status::OK();
  open_->failed_from = 0;
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
  writing_.store(true, std::memory_order_relaxed);
  last_writer_ = pthread_self();
  last_members_ = 1;
  mutex_.Unlock();
  const Status s = write_(record);
  LockSpinning(&mutex_, kLockSpins);
  if (!s.ok()) failure_ = s;
  writing_.store(false);
  return s;
}

bool WriteLog::ExpectsOthers(const Group& group) {
  const bool has_others = last_members_ > 1 || last_writer_ != pthread_self();
  if (!has_others || group.members.load() >= std::max(2U, last_members_)) return false;
  if (writes_alone_ == 0) return true;
  --writes_alone_;
  return false;
}

void WriteLog::AwaitOthers(Group* group) {
  const bool leads = last_writer_ == pthread_self();
  const uint32_t expected = std::max(2U, last_members_);
  if (leads) writing_.store(true, std::memory_order_relaxed);
  mutex_.Unlock();
  const bool came = SpinUntil(
      kOthersSpins, [&] { return leads ? group->members.load() >= expected : !group->open.load() || writing_.load(); });
  LockSpinning(&mutex_, kLockSpins);
  if (leads) writing_.store(false);
  if (came || group->members.load() > 1) {
    disappointments_ = 0;
  } else {
    disappointments_ = std::min(disappointments_ + 1, kMostDisappointments);
    writes_alone_ = 1U << disappointments_;
  }
}

void WriteLog::WriteGroup() {
  Group* const group = open_;
  OpenGroup();
  // Whoever sees it closed waits for others to tell.
  writing_.store(true, std::memory_order_relaxed);
  group->open.store(false, std::memory_order_release);
  last_writer_ = pthread_self();
  last_members_ = group->members.load();
  // If a record failed while the group was open, all of it fails.
  group->failure = failure_;
  mutex_.Unlock();
  for (size_t i = 0; i < group->used && group->failure.ok(); ++i) {
    const WriteBatch& record = group->records[i].batch;
    group->failure = write_(record);
    if (!group->failure.ok()) group->failed_from = WriteBatchInternal::Sequence(&record);
  }
  LockSpinning(&mutex_, kLockSpins);
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
  SpinUntil(kRecordSpins, [&] { return is_due() || group->changed.HasSleepers(); });
  if (!is_due()) group->changed.Await(is_due);
}

void WriteLog::Leave(Group* group, uint64_t first, Status* s) {
  if (!group->failure.ok() && first >= group->failed_from) *s = group->failure;
  group->members.fetch_sub(1, std::memory_order_release);
}

void WriteLog::Reset() {
  const MutexLock lock(&mutex_);
  failure_ = Status::OK();
}

}  // namespace cairn
