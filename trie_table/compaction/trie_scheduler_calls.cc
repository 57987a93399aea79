// Of TrieScheduler: what its callers ask it for, manual compactions, waiting and statistics.

#include <algorithm>

#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// So often must a column family's compactions fail, one after the other, for those who wait for them to be told.
constexpr int kFailuresToTell = 2;

}  // namespace

Status CompactTrieRange(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                        const rocksdb::Slice* end, const TrieCompactOptions& options, const BlobCollection& blobs) {
  if (!IsTrie(handle)) {
    return Status::NotSupported("column family " + handle->GetName() + " is no trie", "use CompactRange");
  }
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) return scheduler->Compact(handle, begin, end, options, blobs);
  return Status::InvalidArgument("the database was opened without the listener cairn.TrieCompaction",
                                 "add it: cairn::UseTrieCompaction(&db_options)");
}

void TrieScheduler::Pause() {
  MutexLock lock(&mutex_);
  ++paused_;
  while (running_ > 0 && !stopping_) changed_.Wait(&mutex_);
}

void TrieScheduler::Continue() {
  MutexLock lock(&mutex_);
  if (paused_ > 0) --paused_;
  WakeLocked();
}

Status TrieScheduler::EndOfManualLocked(const TrieCompactOptions& options) const {
  if (stopping_) return Status::ShutdownInProgress("the database is being closed");
  const bool canceled = options.canceled != nullptr && options.canceled->load();
  return canceled || paused_ > 0 ? Status::Incomplete(Status::SubCode::kManualCompactionPaused) : Status::OK();
}

Status TrieScheduler::RunManualLocked(const FamilyPtr& family, ManualPlan* manual, const TrieCompactOptions& options,
                                      const BlobCollection& blobs) {
  while (true) {
    Status s = EndOfManualLocked(options);
    if (s.ok() && family->stale) s = FollowLocked(family);
    if (!s.ok()) return s;
    TrieJob job;
    const ManualStep step = manual->Pick(&job);
    if (step == ManualStep::kDone) return s;
    if (step == ManualStep::kJob) {
      job.manual = true;
      job.blobs = blobs;
      s = RunJobLocked(family, job);
      if (s.ok()) {
        manual->Done(job);
        continue;
      }
      if (!IsConflict(s)) return s;
    }
    WaitMicrosLocked(kConflictRetryMicros);
  }
}

Status TrieScheduler::Compact(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                              const rocksdb::Slice* end, const TrieCompactOptions& options,
                              const BlobCollection& blobs) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  const FamilyPtr family = FamilyOfLocked(handle);
  Status s = family == nullptr ? Status::ColumnFamilyDropped(handle->GetName()) : FollowLocked(family);
  std::unique_ptr<ManualPlan> manual;
  if (s.ok()) s = family->plan->PlanManual(options, begin, end, &manual);
  if (s.ok()) {
    ++manual_;
    s = RunManualLocked(family, manual.get(), options, blobs);
    --manual_;
    WakeLocked();
  }
  LeaveLocked();
  return s;
}

Status TrieScheduler::Suggest(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                              const rocksdb::Slice* end) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  const FamilyPtr family = FamilyOfLocked(handle);
  const Status s = family == nullptr ? Status::ColumnFamilyDropped(handle->GetName()) : FollowLocked(family);
  if (s.ok()) {
    for (uint64_t number : family->plan->NumbersIn(begin, end)) family->plan->wanted()->Suggest(number);
    WakeLocked();
  }
  LeaveLocked();
  return s;
}

Status TrieScheduler::WaitUntilIdle(uint64_t timeout_micros) {
  const uint64_t begin = NowMicros();
  const uint64_t deadline = timeout_micros == 0 ? UINT64_MAX : begin + timeout_micros;
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  for (const auto& [id, family] : std::map<uint32_t, FamilyPtr>(families_)) {
    if (family == nullptr) continue;
    FollowLocked(family).PermitUncheckedError();
    if (family->retry_at_micros == 0) continue;
    // What was in the way may be gone: nobody tells.
    family->TryAgain();
    WakeLocked();
  }
  Status s;
  while (true) {
    if (stopping_) {
      s = Status::ShutdownInProgress("the database is being closed");
      break;
    }
    // A compaction that was refused earlier may end only now; it says nothing of what RocksDB takes by now.
    s = StuckLocked(begin);
    if (!s.ok() || IdleLocked()) break;
    const uint64_t now = NowMicros();
    if (now >= deadline) {
      s = Status::TimedOut("trie compaction is still at work");
      break;
    }
    WaitMicrosLocked(std::min<uint64_t>(deadline - now, 100 * 1000));
  }
  LeaveLocked();
  return s;
}

bool TrieScheduler::IdleLocked() const {
  const bool waits = std::any_of(families_.begin(), families_.end(), [](const auto& item) {
    return item.second != nullptr && item.second->retry_at_micros != 0;
  });
  return !waits && running_ == 0 && scheduled_ == 0 && manual_ == 0 && (!work_pending_ || paused_ > 0);
}

Status TrieScheduler::StuckLocked(uint64_t since_micros) {
  const Status paused = Status::Incomplete(Status::SubCode::kManualCompactionPaused);
  for (const auto& [id, family] : families_) {
    if (family == nullptr) continue;
    if (family->failures_in_a_row >= kFailuresToTell) return family->error;
    const uint64_t refused = family->paused_began_micros;
    if (refused != 0 && refused >= since_micros && family->retry_at_micros != 0) return paused;
  }
  FamilyPtr family;
  TrieJob job;
  return paused_ > 0 && running_ == 0 && PickLocked(&family, &job) ? paused : Status::OK();
}

void TrieScheduler::SetAutomatic(uint32_t family_id, bool automatic) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return;
  const FamilyPtr family = FamilyOfLocked(family_id);
  const bool changes = family != nullptr && family->automatic != automatic;
  if (changes) {
    family->automatic = automatic;
    WakeLocked();
    UpdateThrottleLocked();
  }
  LeaveLocked();
}

TrieScheduler::Activity TrieScheduler::GetActivity(uint32_t family_id) {
  Activity activity;
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return activity;
  for (const auto& [id, family] : std::map<uint32_t, FamilyPtr>(families_)) {
    if (family == nullptr || family->state == TrieFamily::State::kRefused ||
        (family_id != kAllFamilies && id != family_id))
      continue;
    if (!FollowLocked(family).ok()) continue;
    activity.running += family->running;
    const uint64_t due_before = activity.due;
    for (const auto& [depth, due] : family->plan->PendingByDepth()) {
      activity.due += due.containers;
      activity.due_bytes += due.bytes;
    }
    // Files to be split, and compactions for space; unless the scheduler has just found that there is nothing.
    const bool nothing_is_due = !work_pending_ && family->automatic && family->retry_at_micros == 0;
    TrieJob job;
    if (activity.due == due_before && !nothing_is_due && family->plan->Pick(&job)) {
      ++activity.due;
      activity.due_bytes += job.input_bytes;
    }
  }
  LeaveLocked();
  return activity;
}

Status TrieScheduler::GetStats(rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  const FamilyPtr family = FamilyOfLocked(handle);
  Status s;
  if (family == nullptr) {
    s = Status::NotFound("column family " + handle->GetName(), "is no trie");
  } else {
    if (family->state != TrieFamily::State::kRefused) s = FollowLocked(family);
    *stats = TrieStats();
    family->FillStats(stats);
    stats->delayed_write_rate = throttle_->rate();
  }
  LeaveLocked();
  return s;
}

}  // namespace cairn
