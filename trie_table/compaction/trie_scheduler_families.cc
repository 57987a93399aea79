// Of TrieScheduler: its column families, and how their plans follow RocksDB's Versions.

#include <cinttypes>

#include "db/db_impl/db_impl.h"
#include "file/filename.h"
#include "rocksdb/port/family_options.h"
#include "table/ttl_stamps.h"
#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/rocksdb_names.h"

namespace cairn {

// RocksDB lists the names of its column families, but hands out handles by id only; ids count up from 0, with gaps
// where column families were dropped.
std::unique_ptr<rocksdb::ColumnFamilyHandle> TrieScheduler::HandleOf(uint32_t id) const {
  return static_cast<rocksdb::DBImpl*>(db_)->GetColumnFamilyHandleUnlocked(id);
}

TrieScheduler::FamilyPtr TrieScheduler::MakeFamily(rocksdb::ColumnFamilyHandle* handle) const {
  rocksdb::ColumnFamilyDescriptor descriptor;
  TrieOptionText trie;
  if (!handle->GetDescriptor(&descriptor).ok() || !IsTrie(descriptor.options, &trie)) return nullptr;
  const bool keeps_last = port::KeepsLastLevel(db_->GetDBOptions(), descriptor.options);
  const PlannedFamily planned{descriptor.name, descriptor.options.comparator, descriptor.options.write_buffer_size,
                              keeps_last ? LastOfAll::kReserved : LastOfAll::kUsed, session_id_};
  auto family = std::make_shared<TrieFamily>(handle->GetID(), descriptor.name, NewTriePlan(trie, planned));
  family->automatic = !descriptor.options.disable_auto_compactions;
  family->error = CheckTrieOptions(descriptor.options);
  if (!family->error.ok()) {
    family->state = TrieFamily::State::kRefused;
    rocksdb::Error(log_, "[%s] Cairn compacts nothing here: %s", family->name.c_str(),
                   family->error.ToString().c_str());
  }
  family->totals = WrittenTotalsOf(session_id_, handle->GetID());
  return family;
}

TrieScheduler::FamilyPtr TrieScheduler::FamilyOfLocked(rocksdb::ColumnFamilyHandle* handle) {
  const uint32_t id = handle->GetID();
  const auto found = families_.find(id);
  if (found != families_.end()) return found->second;
  FamilyPtr family;
  {
    MutexUnlock unlocked(&mutex_);
    family = MakeFamily(handle);
  }
  return families_.emplace(id, family).first->second;  // another thread may have been faster
}

TrieScheduler::FamilyPtr TrieScheduler::FamilyOfLocked(uint32_t id) {
  const auto found = families_.find(id);
  if (found != families_.end()) return found->second;
  MutexUnlock unlocked(&mutex_);  // both making and dropping a handle take the DB's mutex
  const auto handle = HandleOf(id);
  if (handle == nullptr) return nullptr;
  MutexLock lock(&mutex_);
  return FamilyOfLocked(handle.get());
}

Status TrieScheduler::LoadAll(const std::vector<rocksdb::ColumnFamilyHandle*>& handles) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  Status result;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    const FamilyPtr family = FamilyOfLocked(handle);
    if (family == nullptr) continue;
    Status s = family->error;
    if (family->state != TrieFamily::State::kRefused) s = FollowLocked(family);
    if (!s.ok() && result.ok()) result = s;
  }
  WakeLocked();
  UpdateThrottleLocked();
  LeaveLocked();
  return result;
}

Status TrieScheduler::FollowLocked(const FamilyPtr& family) {
  if (family->state == TrieFamily::State::kRefused) return family->error;
  family->stale = false;  // what is installed from here on makes it stale again
  std::unique_ptr<HeldVersion> version;
  {
    MutexUnlock unlocked(&mutex_);
    version = HeldVersion::Current(static_cast<rocksdb::DBImpl*>(db_), family->id);
  }
  if (version == nullptr) {
    families_.erase(family->id);
    WakeLocked();
    return Status::ColumnFamilyDropped(family->name);
  }
  const bool first = family->state == TrieFamily::State::kUnread;
  if (first || version->number() >= family->shown_version) family->plan->SetWriteBuffer(version->write_buffer_bytes());
  if (family->IsBehind(*version)) {
    const std::vector<HeldVersion::File> unknown = family->UnknownFiles(*version);
    std::vector<TrieFile> added;
    std::vector<uint64_t> of_blobs;
    {
      MutexUnlock unlocked(&mutex_);
      added = Describe(*family, *version, unknown, first ? family->totals.get() : nullptr);
      of_blobs = version->TablesOfBlobGarbage();
    }
    // Else another thread has brought one that is as late.
    if (family->IsBehind(*version)) {
      if (first && family->plan->WatchesScans()) StartRetryLoopLocked();
      family->Show(*version, added);
      family->plan->wanted()->SetBlobGarbage(of_blobs);
      WakeLocked();
    }
  }
  // By the latest Version: what the plan does not have is no more to be compacted.
  if (version->number() >= family->shown_version) {
    int64_t now = 0;  // if the clock fails: nothing is old
    env_->GetCurrentTime(&now).PermitUncheckedError();
    const uint64_t expired_before = ExpiredBefore(version->entry_ttl(), env_->GetSystemClock().get());
    family->LookAtAges(*version, expired_before, static_cast<uint64_t>(now), NowMicros());
    if (family->ages_at_micros != 0) StartRetryLoopLocked();
  }
  LookAtSnapshotsLocked(family.get());
  MutexUnlock unlocked(&mutex_);
  version.reset();
  return Status::OK();
}

uint64_t TrieScheduler::AskOldestSnapshotLocked() {
  MutexUnlock unlocked(&mutex_);
  return OldestSnapshot(db_);
}

// Nobody tells of a release that comes before the plan waits for it. So they are looked at once more from then on.
void TrieScheduler::LookAtSnapshotsLocked(TrieFamily* family) {
  uint64_t found = AskOldestSnapshotLocked();
  constexpr int kMostLooks = 4;  // then the scheduler looks again
  for (int looks = 1;; ++looks) {
    const uint64_t awaited = family->plan->AwaitedSnapshot();
    family->plan->SetOldestSnapshot(found);
    if (awaited != 0 && awaited != found) WakeLocked();
    if (family->plan->AwaitedSnapshot() == 0) return;
    awaits_snapshot_ = true;
    const uint64_t now = AskOldestSnapshotLocked();
    if (now == found) return;
    if (looks == kMostLooks) {
      family->stale = true;
      return WakeLocked();
    }
    found = now;
  }
}

std::vector<TrieFile> TrieScheduler::Describe(const TrieFamily& family, const HeldVersion& version,
                                              const std::vector<HeldVersion::File>& files,
                                              WrittenTotals* totals) const {
  WrittenTotalsReader written;
  std::vector<TrieFile> described(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const Status s = version.Describe(files[i], &described[i], totals != nullptr ? &written : nullptr);
    if (!s.ok()) {
      rocksdb::Warn(log_, "[%s] Cairn takes all of table %" PRIu64 " for live: %s", family.name.c_str(),
                    files[i].number(), s.ToString().c_str());
    }
  }
  if (totals != nullptr) written.RaiseTotals(totals);
  return described;
}

void TrieScheduler::OnFlush(uint32_t column_family_id) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return;
  const FamilyPtr family = FamilyOfLocked(column_family_id);
  if (family != nullptr && family->state != TrieFamily::State::kRefused) {
    FollowLocked(family).PermitUncheckedError();
  }
  // A flush of any column family makes RocksDB raise the rate that writers are held to.
  UpdateThrottleLocked();
  LeaveLocked();
}

void TrieScheduler::OnCompaction() {
  MutexLock lock(&mutex_);
  if (throttle_->rate() == 0 || !EnterLocked()) return;
  UpdateThrottleLocked();
  LeaveLocked();
}

void TrieScheduler::OnFilesIngested(const std::string& column_family_name) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  for (const auto& [id, family] : families_) {
    if (family != nullptr && family->name == column_family_name) family->stale = true;
  }
  WakeLocked();
}

void TrieScheduler::OnFileDeleted(const std::string& db_path, const std::string& file_path) {
  if (db_path != path_) return;
  const uint64_t number = rocksdb::TableFileNameToNumber(file_path);
  MutexLock lock(&mutex_);
  if (stopping_) return;
  for (const auto& [id, family] : families_) {
    if (family == nullptr || !family->plan->Contains(number)) continue;
    family->stale = true;
    WakeLocked();
  }
}

void TrieScheduler::OnSnapshotReleased(uint64_t sequence) {
  if (!awaits_snapshot_) return;
  MutexLock lock(&mutex_);
  bool awaited = false;
  for (const auto& [id, family] : families_) {
    const uint64_t oldest = family == nullptr ? 0 : family->plan->AwaitedSnapshot();
    awaited |= oldest != 0;
    if (oldest == sequence + 1) family->stale = true;
  }
  awaits_snapshot_ = awaited;
  if (awaited && !stopping_) WakeLocked();
}

void TrieScheduler::OnRecovered() {
  MutexLock lock(&mutex_);
  for (const auto& [id, family] : families_) {
    if (family != nullptr) family->TryAgain();
  }
  WakeLocked();
}

}  // namespace cairn
