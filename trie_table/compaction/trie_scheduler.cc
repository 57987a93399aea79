#include "trie_table/compaction/trie_scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "db/db_impl/db_impl.h"
#include "util/listeners.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr uint64_t kThrottleMicros = 100 * 1000;
constexpr uint64_t kScanMicros = 1000 * 1000;
constexpr uint64_t kFirstBackoffMicros = 1000 * 1000;
constexpr uint64_t kLastBackoffMicros = 60 * 1000 * 1000;
struct Registry {
  CheckedMutex mutex;
  std::map<rocksdb::DB*, std::shared_ptr<TrieScheduler>> schedulers CAIRN_GUARDED_BY(mutex);  // by root DB
};

Registry& GlobalRegistry() {
  static auto* registry = new Registry();
  return *registry;
}

// The thread pool's item keeps the scheduler alive until it has run or was dropped.
struct Item {
  std::shared_ptr<TrieScheduler> scheduler;
};

std::string SessionIdOf(rocksdb::DB* db) {
  std::string id;
  db->GetDbSessionId(id).PermitUncheckedError();
  return id;
}

int CompactionLimit(const rocksdb::DBOptions& options) {
  if (options.max_background_compactions >= 1) return options.max_background_compactions;
  // As RocksDB splits max_background_jobs: a quarter for flushes.
  return std::max(1, options.max_background_jobs - std::max(1, options.max_background_jobs / 4));
}

}  // namespace

std::shared_ptr<TrieScheduler> TrieScheduler::Find(rocksdb::DB* db) {
  Registry& registry = GlobalRegistry();
  MutexLock lock(&registry.mutex);
  const auto found = registry.schedulers.find(db->GetRootDB());
  return found == registry.schedulers.end() ? nullptr : found->second;
}

std::shared_ptr<TrieScheduler> TrieScheduler::Attach(rocksdb::DB* db) {
  std::shared_ptr<TrieScheduler> found = Find(db);
  if (found != nullptr) return found;
  // Made outside the registry's lock, because it asks the DB; of two that race, one stays.
  if (!HasListener<TrieListener>(db->GetDBOptions())) return nullptr;
  auto made = std::make_shared<TrieScheduler>(db->GetRootDB());
  Registry& registry = GlobalRegistry();
  MutexLock lock(&registry.mutex);
  return registry.schedulers.emplace(db->GetRootDB(), std::move(made)).first->second;
}

std::shared_ptr<TrieScheduler> TrieScheduler::FindByDefaultHandle(rocksdb::ColumnFamilyHandle* handle) {
  for (const auto& scheduler : All()) {
    if (scheduler->default_handle_ == handle) return scheduler;
  }
  return nullptr;
}

std::vector<std::shared_ptr<TrieScheduler>> TrieScheduler::All() {
  Registry& registry = GlobalRegistry();
  MutexLock lock(&registry.mutex);
  std::vector<std::shared_ptr<TrieScheduler>> all;
  all.reserve(registry.schedulers.size());
  for (const auto& [db, scheduler] : registry.schedulers) all.push_back(scheduler);
  return all;
}

TrieScheduler::TrieScheduler(rocksdb::DB* db)
    : db_(db),
      env_(db->GetEnv()),
      default_handle_(db->DefaultColumnFamily()),
      path_(db->GetName()),
      session_id_(SessionIdOf(db)) {
  const rocksdb::DBOptions options = db->GetDBOptions();
  log_ = options.info_log;
  max_running_ = CompactionLimit(options);
  throttle_ = std::make_unique<WriteThrottle>(static_cast<rocksdb::DBImpl*>(db_));
}

TrieScheduler::~TrieScheduler() {
  if (retry_thread_.joinable()) retry_thread_.join();
}

bool TrieScheduler::EnterLocked() {
  if (stopping_) return false;
  ++users_;
  return true;
}

void TrieScheduler::LeaveLocked() {
  --users_;
  changed_.NotifyAll();
}

// --- Scheduling ------------------------------------------------------------------------------------------------------

bool TrieScheduler::PausedLocked() const { return stopping_ || paused_ > 0; }

void TrieScheduler::WakeLocked() {
  work_pending_ = true;
  ScheduleLocked();
}

void TrieScheduler::ScheduleLocked() {
  if (!work_pending_ || scheduled_ >= max_running_ || PausedLocked()) return;
  ++scheduled_;
  env_->Schedule(&TrieScheduler::RunScheduled, new Item{shared_from_this()}, rocksdb::Env::Priority::LOW, this,
                 &TrieScheduler::DropScheduled);
}

void TrieScheduler::RunScheduled(void* arg) {
  std::unique_ptr<Item> item(static_cast<Item*>(arg));
  item->scheduler->Work();
}

void TrieScheduler::DropScheduled(void* arg) {
  std::unique_ptr<Item> item(static_cast<Item*>(arg));
  TrieScheduler* scheduler = item->scheduler.get();
  MutexLock lock(&scheduler->mutex_);
  --scheduler->scheduled_;
  scheduler->changed_.NotifyAll();
}

void TrieScheduler::Work() {
  MutexLock lock(&mutex_);
  if (EnterLocked()) {
    FamilyPtr family;
    TrieJob job;
    for (const auto& [id, candidate] : std::map<uint32_t, FamilyPtr>(families_)) {
      if (candidate != nullptr && candidate->stale) FollowLocked(candidate).PermitUncheckedError();
    }
    int limit = 0;
    const bool may_pick = !PausedLocked();
    const bool found = may_pick && PickLocked(&family, &job);
    if (found) {
      // Another thread may find more to do; it finds out by picking.
      ScheduleLocked();
      RunJobLocked(family, job).PermitUncheckedError();
    } else if (may_pick) {
      work_pending_ = false;
    }
    {
      MutexUnlock unlocked(&mutex_);
      // Where there was nothing to do, nothing is to be waited for. After a job the write throttle has been set.
      if (!found && throttle_->rate() > 0) UpdateThrottle();
      limit = CompactionLimit(db_->GetDBOptions());
    }
    max_running_ = limit;
    LeaveLocked();
  }
  --scheduled_;
  ScheduleLocked();
  changed_.NotifyAll();
}

bool TrieScheduler::PickLocked(FamilyPtr* family, TrieJob* job) {
  bool found = false;
  for (const auto& [id, candidate] : families_) {
    if (candidate == nullptr || candidate->state != TrieFamily::State::kReady || candidate->retry_at_micros != 0)
      continue;
    if (!candidate->automatic) continue;
    const uint64_t begin = NowMicros();
    TrieJob picked;
    if (candidate->plan->Pick(&picked) && (!found || picked.score > job->score)) {
      *family = candidate;
      *job = picked;
      found = true;
    }
    candidate->pick_micros += NowMicros() - begin;
  }
  return found;
}

Status TrieScheduler::RunJobLocked(const FamilyPtr& family, TrieJob job) {
  family->plan->Begin(&job);
  ++family->running;
  ++running_;
  const uint64_t began = NowMicros();
  Status s;
  JobOutput output;
  uint64_t oldest_snapshot = 0;
  {
    MutexUnlock unlocked(&mutex_);
    s = RunJobOf(family, job, &output);
    oldest_snapshot = OldestSnapshot(db_);
  }
  FollowLocked(family).PermitUncheckedError();
  family->plan->End(job, s.ok(), output.bytes, oldest_snapshot);
  LookAtSnapshotsLocked(family.get());
  --family->running;
  --running_;
  if (s.ok()) {
    if (job.writes()) family->plan->wanted()->Finished(job.inputs, output.tables);
    family->CountJob(job, output.bytes);
    family->TryAgain();
    work_pending_ = true;
  } else {
    HandleFailureLocked(family, job, began, s);
    // Whoever waits for this very job chooses another one, in the Version that is there then.
    if (IsConflict(s)) family->stale = true;
  }
  changed_.NotifyAll();
  if (job.kind == TrieJob::Kind::kRoot || job.for_space || throttle_->rate() > 0) {
    UpdateThrottleLocked();
  }
  return s;
}

void TrieScheduler::UpdateThrottleLocked() {
  MutexUnlock unlocked(&mutex_);
  UpdateThrottle();
}

void TrieScheduler::UpdateThrottle() {
  const bool switched_on = throttle_->Update(NowMicros(), [this] {
    MutexLock lock(&mutex_);
    double pressure = 0;
    for (const auto& [id, family] : families_) {
      // As in RocksDB, nobody is slowed down for compactions that somebody has switched off.
      if (family == nullptr || family->state != TrieFamily::State::kReady || !family->automatic) continue;
      pressure = std::max(pressure, RootPressure(family->plan->RootFiles(), family->plan->trie().root_trigger));
      // While nothing may run, there is nothing to wait for.
      if (paused_ == 0) pressure = std::max(pressure, kMostPressureForSpace * family->plan->SpacePressure());
    }
    return pressure;
  });
  if (!switched_on) return;
  MutexLock lock(&mutex_);
  StartRetryLoopLocked();
}

Status TrieScheduler::RunJobOf(const FamilyPtr& family, const TrieJob& job, JobOutput* output) {
  const auto handle = HandleOf(family->id);
  if (handle == nullptr) return Status::ColumnFamilyDropped(family->name);
  return RunJob(static_cast<rocksdb::DBImpl*>(db_), handle.get(), job, output);
}

void TrieScheduler::HandleFailureLocked(const FamilyPtr& family, const TrieJob& job, uint64_t began_micros,
                                        const Status& s) {
  if (s.IsShutdownInProgress()) {
    work_pending_ = false;
    return;
  }
  if (s.IsColumnFamilyDropped()) {
    families_.erase(family->id);
    WakeLocked();
    return;
  }
  family->paused_began_micros = s.IsManualCompactionPaused() ? began_micros : 0;
  if (IsConflict(s) || s.IsManualCompactionPaused()) {
    RetryLaterLocked(family, kConflictRetryMicros);
    return;
  }
  ++family->failed;
  ++family->failures_in_a_row;
  family->error = s;
  rocksdb::Error(log_, "[%s] Trie compaction failed: %s", family->name.c_str(), s.ToString().c_str());
  family->backoff_micros = std::min(kLastBackoffMicros, std::max(kFirstBackoffMicros, 2 * family->backoff_micros));
  RetryLaterLocked(family, family->backoff_micros);
}

void TrieScheduler::RetryLaterLocked(const FamilyPtr& family, uint64_t micros) {
  family->retry_at_micros = NowMicros() + micros;
  StartRetryLoopLocked();
}

uint64_t TrieScheduler::NowMicros() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void TrieScheduler::WaitMicrosLocked(uint64_t micros) {
  changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + std::chrono::microseconds(micros));
}

void TrieScheduler::StartRetryLoopLocked() {
  if (!stopping_ && !retry_thread_.joinable()) retry_thread_ = std::thread([this] { RetryLoop(); });
  changed_.NotifyAll();
}

TrieScheduler::ScanWatch TrieScheduler::WatchScansLocked() const {
  ScanWatch watch;
  for (const auto& [id, family] : families_) {
    if (family == nullptr || family->state != TrieFamily::State::kReady) continue;
    watch.any |= family->plan->WatchesScans();
    watch.due |= family->automatic && family->plan->HasScanNews();
  }
  return watch;
}

void TrieScheduler::RetryLoop() {
  MutexLock lock(&mutex_);
  uint64_t throttle_at = 0;
  uint64_t scans_at = 0;
  while (!stopping_) {
    const uint64_t now = NowMicros();
    const bool throttling = throttle_->rate() > 0;
    if (throttling && now >= throttle_at && EnterLocked()) {
      UpdateThrottleLocked();
      LeaveLocked();
      throttle_at = NowMicros() + kThrottleMicros;
      continue;  // anything may have changed meanwhile
    }
    uint64_t next = throttling ? throttle_at : UINT64_MAX;
    bool due = false;
    const ScanWatch watch = WatchScansLocked();
    if (watch.any && now >= scans_at) {
      due = watch.due;
      scans_at = now + kScanMicros;
    }
    if (watch.any) next = std::min(next, scans_at);
    for (const auto& [id, family] : families_) {
      if (family == nullptr || family->retry_at_micros == 0) continue;
      if (family->retry_at_micros > now) {
        next = std::min(next, family->retry_at_micros);
        continue;
      }
      family->retry_at_micros = 0;
      due = true;
    }
    for (const auto& [id, family] : families_) {
      if (family == nullptr || family->ages_at_micros == 0) continue;
      if (family->ages_at_micros > now) {
        next = std::min(next, family->ages_at_micros);
        continue;
      }
      family->ages_at_micros = 0;  // set anew by whoever follows
      family->stale = true;
      due = true;
    }
    if (due) WakeLocked();
    if (next == UINT64_MAX) {
      changed_.Wait(&mutex_);
    } else {
      WaitMicrosLocked(next - now);
    }
  }
}

void TrieScheduler::Shutdown() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  env_->UnSchedule(this, rocksdb::Env::Priority::LOW);
  {
    MutexLock lock(&mutex_);
    while (users_ > 0 || scheduled_ > 0) changed_.Wait(&mutex_);
  }
  if (retry_thread_.joinable()) retry_thread_.join();
  throttle_->Release();
  ForgetWrittenTotals(session_id_);
  Registry& registry = GlobalRegistry();
  MutexLock lock(&registry.mutex);
  const auto found = registry.schedulers.find(db_);
  if (found != registry.schedulers.end() && found->second.get() == this) registry.schedulers.erase(found);
}

void TrieListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) scheduler->OnFlush(info.cf_id);
}

void TrieListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  info.status.PermitUncheckedError();
  const auto scheduler = TrieScheduler::Find(db);
  if (scheduler != nullptr) scheduler->OnCompaction();
}

void TrieListener::OnExternalFileIngested(rocksdb::DB* db, const rocksdb::ExternalFileIngestionInfo& info) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) scheduler->OnFilesIngested(info.cf_name);
}

void TrieListener::OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) {
  for (const auto& scheduler : TrieScheduler::All()) scheduler->OnFileDeleted(info.db_name, info.file_path);
}

// RocksDB does not say which database has recovered; asking one that has not costs a failed attempt at most.
void TrieListener::OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) {
  info.old_bg_error.PermitUncheckedError();
  info.new_bg_error.PermitUncheckedError();
  for (const auto& scheduler : TrieScheduler::All()) scheduler->OnRecovered();
}

void TrieListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  const auto scheduler = TrieScheduler::FindByDefaultHandle(handle);
  if (scheduler != nullptr) scheduler->Shutdown();
}

}  // namespace cairn
