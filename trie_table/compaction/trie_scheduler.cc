#include "trie_table/compaction/trie_scheduler.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <unordered_set>
#include <utility>

#include "db/db_impl/db_impl.h"
#include "file/filename.h"
#include "rocksdb/port/family_options.h"
#include "trie_table/compaction/key_job.h"
#include "trie_table/compaction/table_moves.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_listener.h"
#include "trie_table/compaction/trie_options.h"
#include "util/listeners.h"

namespace cairn {

using rocksdb::Status;

namespace {

constexpr uint64_t kConflictRetryMicros = 50 * 1000;
constexpr uint64_t kThrottleMicros = 100 * 1000;
constexpr uint64_t kScanMicros = 1000 * 1000;
constexpr uint64_t kFirstBackoffMicros = 1000 * 1000;
constexpr uint64_t kLastBackoffMicros = 60 * 1000 * 1000;
// So often must a column family's compactions fail, one after the other, for those who wait for them to be told.
constexpr int kFailuresToTell = 2;

struct Registry {
  CheckedMutex mutex;
  std::map<rocksdb::DB*, std::shared_ptr<TrieScheduler>> schedulers CAIRN_GUARDED_BY(mutex);  // by root DB
};

Registry& GlobalRegistry() {
  static auto* registry = new Registry();
  return *registry;
}

uint64_t NowMicros() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
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

// Somebody else was faster. That a block cache has no room is Aborted, too.
bool IsConflict(const Status& s) { return s.IsAborted() && !s.IsMemoryLimit(); }

uint64_t NewestFile(const TriePlan& plan) {
  uint64_t newest = 0;
  for (uint64_t number : plan.Numbers()) newest = std::max(newest, number);
  return newest;
}

}  // namespace

Status CompactTrieKeys(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                       const rocksdb::Slice* end, const TrieCompactOptions& options) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) return scheduler->CompactKeys(handle, begin, end, options);
  return Status::InvalidArgument("the database was opened without the listener cairn.TrieCompaction",
                                 "add it: cairn::UseTrieCompaction(&db_options)");
}

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

// --- Column families -------------------------------------------------------------------------------------------------

// RocksDB lists the names of its column families, but hands out handles by id only; ids count up from 0, with gaps
// where column families were dropped.
std::unique_ptr<rocksdb::ColumnFamilyHandle> TrieScheduler::HandleOf(uint32_t id) const {
  return static_cast<rocksdb::DBImpl*>(db_)->GetColumnFamilyHandleUnlocked(id);
}

TrieScheduler::Family::Family(uint32_t family_id, std::string family_name, const TrieOptions& trie,
                              const rocksdb::Comparator* comparator, TrieShape::LastOfAll last,
                              uint64_t write_buffer_bytes)
    : id(family_id), name(std::move(family_name)) {
  if (IsInKeyOrder(trie)) {
    plan = std::make_unique<KeyPlan>(trie, comparator, last, write_buffer_bytes, KeyPicker::Moves::kMove);
  } else {
    plan = std::make_unique<HashPlan>(trie, last, write_buffer_bytes);
  }
}

TrieScheduler::FamilyPtr TrieScheduler::MakeFamily(rocksdb::ColumnFamilyHandle* handle) const {
  rocksdb::ColumnFamilyDescriptor descriptor;
  TrieOptions trie;
  if (!handle->GetDescriptor(&descriptor).ok() || !IsTrie(descriptor.options, &trie)) return nullptr;
  const bool keeps_last = port::KeepsLastLevel(db_->GetDBOptions(), descriptor.options);
  const auto last = keeps_last ? TrieShape::LastOfAll::kReserved : TrieShape::LastOfAll::kUsed;
  auto family = std::make_shared<Family>(handle->GetID(), descriptor.name, trie, descriptor.options.comparator, last,
                                         descriptor.options.write_buffer_size);
  family->automatic = !descriptor.options.disable_auto_compactions;
  family->error = CheckTrieOptions(descriptor.options);
  if (!family->error.ok()) {
    family->state = State::kRefused;
    rocksdb::Error(log_, "[%s] Cairn compacts nothing here: %s", family->name.c_str(),
                   family->error.ToString().c_str());
  }
  family->totals = WrittenTotalsOf(session_id_, handle->GetID());
  if (family->keys() != nullptr && trie.scan_merge > 0) {
    family->keys()->picker.scans()->SetCounts(ScanCounts::Of(session_id_));
  }
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
    if (family->state != State::kRefused) s = FollowLocked(family);
    if (!s.ok() && result.ok()) result = s;
  }
  WakeLocked();
  UpdateThrottleLocked();
  LeaveLocked();
  return result;
}

Status TrieScheduler::FollowLocked(const FamilyPtr& family) {
  if (family->state == State::kRefused) return family->error;
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
  if (family->state == State::kUnread || version->number() >= family->version) {
    family->plan->SetWriteBuffer(version->write_buffer_bytes());
  }
  const auto later = [&] { return family->state == State::kUnread || version->number() > family->version; };
  if (later()) {
    const std::vector<HeldVersion::File> unknown = UnknownFiles(*family, *version);
    const bool first = family->state == State::kUnread;
    std::vector<TrieFile> added;
    uint64_t oldest_snapshot = 0;
    {
      MutexUnlock unlocked(&mutex_);
      added = Describe(*family, *version, unknown, first ? family->totals.get() : nullptr);
      oldest_snapshot = OldestSnapshot();
    }
    family->plan->SetOldestSnapshot(oldest_snapshot);
    if (later()) MirrorLocked(family, *version, added);  // else another thread has brought one that is as late
  }
  MutexUnlock unlocked(&mutex_);
  version.reset();
  return Status::OK();
}

std::vector<HeldVersion::File> TrieScheduler::UnknownFiles(const Family& family, const HeldVersion& version) {
  std::vector<HeldVersion::File> unknown;
  const int last_level = family.plan->LastLevel();
  for (const HeldVersion::File& file : version.Files()) {
    if (file.level <= last_level && family.plan->LevelOf(file.number()) != file.level) unknown.push_back(file);
  }
  return unknown;
}

std::vector<TrieFile> TrieScheduler::Describe(const Family& family, const HeldVersion& version,
                                              const std::vector<HeldVersion::File>& files,
                                              WrittenTotals* totals) const {
  WrittenTotalsReader written;
  std::vector<TrieFile> described(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const Status s =
        version.Describe(files[i], family.plan->trie(), &described[i], totals != nullptr ? &written : nullptr);
    if (!s.ok()) {
      rocksdb::Warn(log_, "[%s] Cairn takes all of table %" PRIu64 " for live: %s", family.name.c_str(),
                    files[i].number(), s.ToString().c_str());
    }
  }
  if (totals != nullptr) written.RaiseTotals(totals);
  return described;
}

void TrieScheduler::MirrorLocked(const FamilyPtr& family, const HeldVersion& version,
                                 const std::vector<TrieFile>& added) {
  std::unordered_set<uint64_t> present;
  for (const HeldVersion::File& file : version.Files()) present.insert(file.number());
  for (uint64_t number : family->plan->Numbers()) {
    if (present.count(number) == 0) family->plan->Remove(number);
  }
  uint64_t flushed = 0;
  for (const TrieFile& file : added) {
    family->plan->Remove(file.number);  // from another level
    family->plan->Add(file);
    if (file.level == 0) flushed += file.bytes;
  }
  // Before the first Version, the tables' own records have counted all.
  if (family->state == State::kReady) {
    family->totals->flushed_bytes += flushed;
    family->written_bytes[0] += flushed;
    family->plan->Flushed(flushed);
  } else if (family->keys() != nullptr && family->plan->trie().scan_merge > 0) {
    StartRetryLoopLocked();
  }
  family->version = version.number();
  family->state = State::kReady;
  WakeLocked();
}

// --- Events ----------------------------------------------------------------------------------------------------------

void TrieScheduler::OnFlush(uint32_t column_family_id) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return;
  const FamilyPtr family = FamilyOfLocked(column_family_id);
  if (family != nullptr && family->state != State::kRefused) {
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

void TrieScheduler::OnRecovered() {
  MutexLock lock(&mutex_);
  for (const auto& [id, family] : families_) {
    if (family != nullptr) TryAgainLocked(family);
  }
  WakeLocked();
}

void TrieScheduler::TryAgainLocked(const FamilyPtr& family) {
  family->paused_began_micros = 0;
  family->backoff_micros = 0;
  family->retry_at_micros = 0;
  family->failures_in_a_row = 0;
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
    if (candidate == nullptr || candidate->state != State::kReady || candidate->retry_at_micros != 0) continue;
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

// One more than its sequence number, which is 0 in a database without writes. 0: there is none.
uint64_t TrieScheduler::OldestSnapshot() const {
  uint64_t snapshots = 0, sequence = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kNumSnapshots, &snapshots);
  db_->GetIntProperty(rocksdb::DB::Properties::kOldestSnapshotSequence, &sequence);
  return snapshots == 0 ? 0 : sequence + 1;
}

Status TrieScheduler::RunJobLocked(const FamilyPtr& family, TrieJob job) {
  family->plan->Begin(&job);
  ++family->running;
  ++running_;
  const uint64_t began = NowMicros();
  Status s;
  uint64_t output_bytes = 0;
  uint64_t oldest_snapshot = 0;
  {
    MutexUnlock unlocked(&mutex_);
    s = CallCompactFiles(family, job, &output_bytes);
    oldest_snapshot = OldestSnapshot();
  }
  FollowLocked(family).PermitUncheckedError();
  family->plan->End(job, s.ok(), output_bytes, oldest_snapshot);
  --family->running;
  --running_;
  if (s.ok()) {
    ++family->finished[static_cast<int>(job.kind)];
    for (const TableMove& move : job.moves) {
      if (move.to != TableMove::kNowhere) ++family->moved;
      if (move.to == TableMove::kNowhere && !family->plan->Contains(move.number)) ++family->dropped;
    }
    if (job.for_scans) ++family->scan_merges;
    if (job.for_scans) family->scan_merged_bytes += output_bytes;
    family->totals->compacted_bytes += output_bytes;
    family->written_bytes[DepthOfLevel(family->plan->trie(), job.output_level)] += output_bytes;
    TryAgainLocked(family);
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
      if (family == nullptr || family->state != State::kReady || !family->automatic) continue;
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

namespace {

// In the current Version, which comes a moment before the SuperVersion that shapes follow.
bool AreThere(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* handle, const std::vector<uint64_t>& tables) {
  const rocksdb::InstrumentedMutexLock lock(db->mutex());
  auto* const family = static_cast<rocksdb::ColumnFamilyHandleImpl*>(handle)->cfd();
  return std::all_of(tables.begin(), tables.end(), [&](uint64_t number) {
    return family->current()->storage_info()->GetFileLocation(number).IsValid();
  });
}

}  // namespace

Status TrieScheduler::CallCompactFiles(const FamilyPtr& family, const TrieJob& job, uint64_t* output_bytes) {
  auto handle = HandleOf(family->id);
  if (handle == nullptr) return Status::ColumnFamilyDropped(family->name);
  if (!job.writes()) {
    return MoveTables(static_cast<rocksdb::DBImpl*>(db_), handle.get(), job.moves);
  }
  std::vector<std::string> names;
  names.reserve(job.inputs.size());
  for (uint64_t number : job.inputs) names.push_back(rocksdb::MakeTableFileName(number));
  rocksdb::CompactionJobInfo info;
  const KeyJobScope scope(handle->GetComparator(), job.cuts);
  Status s = db_->CompactFiles(rocksdb::CompactionOptions(), handle.get(), names, job.output_level, -1, nullptr, &info);
  if (s.ok()) *output_bytes = info.stats.total_output_bytes;
  // Others have compacted or deleted them; the shape may not know it yet.
  if (s.IsInvalidArgument() && !AreThere(static_cast<rocksdb::DBImpl*>(db_), handle.get(), job.inputs)) {
    return Status::Aborted("its tables are gone");
  }
  return s;
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
    if (family == nullptr || family->state != State::kReady) continue;
    watch.any |= family->keys() != nullptr && family->plan->trie().scan_merge > 0;
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

// --- Manual ----------------------------------------------------------------------------------------------------------

Status TrieScheduler::EndOfManualLocked(const TrieCompactOptions& options) const {
  if (stopping_) return Status::ShutdownInProgress("the database is being closed");
  const bool canceled = options.canceled != nullptr && options.canceled->load();
  return canceled || paused_ > 0 ? Status::Incomplete(Status::SubCode::kManualCompactionPaused) : Status::OK();
}

Status TrieScheduler::CompactContainerLocked(const FamilyPtr& family, const ContainerId& id, uint64_t rewritten,
                                             const TrieCompactOptions& options) {
  while (true) {
    Status s = EndOfManualLocked(options);
    if (s.ok() && family->stale) s = FollowLocked(family);
    if (!s.ok()) return s;
    const Container* container = family->hash()->shape.Find(id);
    if (container == nullptr || container->files == 0) return Status::OK();
    if (container->busy) {
      changed_.Wait(&mutex_);
      continue;
    }
    const std::vector<uint64_t> in_the_way = family->hash()->shape.SpanningFilesInTheWay(id);
    if (!in_the_way.empty()) {
      s = SplitSpanningFilesLocked(family, *std::max_element(in_the_way.begin(), in_the_way.end()), options);
      if (!s.ok()) return s;
      continue;
    }
    TrieJob job;
    if (!family->hash()->picker.PickContainer(id, &job, rewritten)) {
      const bool pushes = id.depth < family->plan->trie().depth && (id.depth == 0 || container->files_below > 0);
      if (!pushes) return Status::OK();  // one table of live keys
      // No free slot below: the children have to move first.
      for (const ContainerId& child : family->hash()->shape.Children(id)) {
        s = CompactContainerLocked(family, child, rewritten, options);
        if (!s.ok()) return s;
      }
      // Other compactions may have filled the slots again, or have taken this container.
      if (!family->hash()->picker.PickContainer(id, &job, rewritten)) continue;
    }
    s = RunJobLocked(family, job);
    if (IsConflict(s)) {
      WaitMicrosLocked(kConflictRetryMicros);
      continue;
    }
    return s;
  }
}

Status TrieScheduler::SplitSpanningFilesLocked(const FamilyPtr& family, uint64_t last,
                                               const TrieCompactOptions& options) {
  while (true) {
    Status s = family->stale ? FollowLocked(family) : Status::OK();
    const auto& spanning_files = family->hash()->shape.spanning_files();
    if (!s.ok() || spanning_files.empty() || spanning_files.begin()->first > last) return s;
    s = EndOfManualLocked(options);
    if (!s.ok()) return s;
    TrieJob job;
    if (family->hash()->picker.PickSplit(last, &job)) {
      s = RunJobLocked(family, job);
      if (IsConflict(s)) {
        WaitMicrosLocked(kConflictRetryMicros);
      } else if (!s.ok()) {
        return s;
      }
    } else {
      changed_.Wait(&mutex_);
    }
  }
}

Status TrieScheduler::Compact(rocksdb::ColumnFamilyHandle* handle, const TrieCompactOptions& options) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  Status s;
  const FamilyPtr family = FamilyOfLocked(handle);
  if (family == nullptr) {
    s = Status::NotSupported("column family " + handle->GetName() + " is no trie", "use CompactRange");
  } else if (family->state == State::kRefused) {
    s = family->error;
  } else if (family->keys() != nullptr) {
    if (options.depth < 0 && options.container.empty()) {
      s = CompactKeysLocked(family, nullptr, options);
    } else {
      s = Status::NotSupported("compaction of one container or depth of " + handle->GetName(),
                               "its containers have no numbers: name a range of keys (CompactRange)");
    }
  } else {
    const TrieOptions& trie = family->plan->trie();
    const int top = static_cast<int>(options.container.size());
    uint64_t container = 0;
    for (int child : options.container) {
      if (child < 0 || child >= trie.fan_out) {
        s = Status::InvalidArgument("container path holds " + std::to_string(child),
                                    "a child is 0 to " + std::to_string(trie.fan_out - 1));
      }
      container = container * static_cast<uint64_t>(trie.fan_out) + static_cast<uint64_t>(child);
    }
    if (s.ok() && (top > trie.depth || options.depth < -1 || options.depth > trie.depth)) {
      s = Status::InvalidArgument("depth of the compaction", "this trie has depths 0 to " + std::to_string(trie.depth));
    }
    ++manual_;
    if (s.ok()) s = FollowLocked(family);
    const uint64_t rewritten = options.rewrite ? NewestFile(*family->plan) : 0;
    // Those that come later are split where they lie in the way.
    const auto& spanning_files = family->hash()->shape.spanning_files();
    if (s.ok() && !spanning_files.empty())
      s = SplitSpanningFilesLocked(family, spanning_files.rbegin()->first, options);
    for (int depth = std::max(top, options.depth); s.ok() && depth <= trie.depth; ++depth) {
      std::vector<ContainerId> containers;
      for (const auto& [id, found] : family->hash()->shape.containers()) {
        if (id.depth != depth || found.files == 0) continue;
        uint64_t ancestor = id.container;
        for (int d = depth; d > top; --d) ancestor = family->hash()->shape.map().Parent(ancestor);
        if (ancestor == container) containers.push_back(id);
      }
      for (const ContainerId& id : containers) {
        s = CompactContainerLocked(family, id, rewritten, options);
        if (!s.ok()) break;
      }
      if (options.depth >= 0) break;
    }
    --manual_;
    WakeLocked();
  }
  LeaveLocked();
  return s;
}

Status TrieScheduler::CompactKeys(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                                  const rocksdb::Slice* end, const TrieCompactOptions& options) {
  MutexLock lock(&mutex_);
  if (!EnterLocked()) return Status::ShutdownInProgress("the database is being closed");
  Status s;
  const FamilyPtr family = FamilyOfLocked(handle);
  if (family == nullptr || family->keys() == nullptr) {
    s = Status::NotSupported("column family " + handle->GetName() + " is no trie in key order", "use CompactRange");
  } else if (family->state == State::kRefused) {
    s = family->error;
  } else {
    s = FollowLocked(family);
    KeyRange range;
    bool any = false;
    if (s.ok()) any = family->keys()->shape.WholeRange(&range);
    if (begin != nullptr) range.first = begin->ToString();
    if (end != nullptr) {
      range.last = end->ToString();
      range.last_excluded = false;
    }
    if (s.ok() && any) s = CompactKeysLocked(family, &range, options);
  }
  LeaveLocked();
  return s;
}

// From depth to depth. What is there when it begins at a depth moves on; what comes later is not waited for.
Status TrieScheduler::CompactKeysLocked(const FamilyPtr& family, const KeyRange* range,
                                        const TrieCompactOptions& options) {
  ++manual_;
  Status s = FollowLocked(family);
  const uint64_t rewritten = options.rewrite ? NewestFile(*family->plan) : 0;
  for (int depth = 0; s.ok() && depth <= family->plan->trie().depth; ++depth) {
    uint64_t newest = NewestFile(*family->plan);
    while (s.ok()) {
      s = EndOfManualLocked(options);
      if (s.ok() && family->stale) s = FollowLocked(family);
      if (!s.ok()) break;
      TrieJob job;
      const KeyPicker::Manual found = family->keys()->picker.PickManual(depth, range, newest, &job, rewritten);
      if (found == KeyPicker::Manual::kDone) break;
      if (found == KeyPicker::Manual::kWait) {
        WaitMicrosLocked(kConflictRetryMicros);
        continue;
      }
      const bool splits = job.kind == TrieJob::Kind::kSplit;
      s = RunJobLocked(family, std::move(job));
      if (IsConflict(s)) {
        s = Status::OK();
        WaitMicrosLocked(kConflictRetryMicros);
      }
      // What a table was cut into did not come later.
      if (splits) newest = NewestFile(*family->plan);
    }
  }
  --manual_;
  WakeLocked();
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
    TryAgainLocked(family);
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
    if (family == nullptr || family->state == State::kRefused || (family_id != kAllFamilies && id != family_id))
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
    if (family->state != State::kRefused) s = FollowLocked(family);
    *stats = TrieStats();
    family->plan->FillStats(*family->totals, stats);
    stats->column_family = family->name;
    for (TrieDepthStats& depth : stats->depths) depth.written_bytes = family->written_bytes[depth.depth];
    stats->delayed_write_rate = throttle_->rate();
    stats->running_compactions = family->running;
    stats->root_compactions = family->finished[static_cast<int>(TrieJob::Kind::kRoot)];
    stats->push_compactions = family->finished[static_cast<int>(TrieJob::Kind::kPush)];
    stats->merge_compactions = family->finished[static_cast<int>(TrieJob::Kind::kMerge)];
    stats->split_compactions = family->finished[static_cast<int>(TrieJob::Kind::kSplit)];
    stats->failed_compactions = family->failed;
    stats->moved_tables = family->moved;
    stats->dropped_tables = family->dropped;
    stats->scan_merges = family->scan_merges;
    stats->scan_merged_bytes = family->scan_merged_bytes;
    stats->pick_micros = family->pick_micros;
    if (!family->error.ok()) stats->last_error = family->error.ToString();
  }
  LeaveLocked();
  return s;
}

}  // namespace cairn
