#include "memtable_cache/fast_writes.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "db/column_family.h"
#include "db/error_handler.h"
#include "db/flush_scheduler.h"
#include "db/internal_stats.h"
#include "db/memtable.h"
#include "db/trim_history_scheduler.h"
#include "db/write_batch_internal.h"
#include "db/write_controller.h"
#include "memtable_cache/sub_memtable_factory.h"
#include "monitoring/perf_context_imp.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/family_options.h"
#include "rocksdb/write_buffer_manager.h"
#include "trace_replay/trace_replay.h"
#include "util/coding.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::WriteBatchInternal;

namespace {

// Who waits longer than this at a closed gate queues, and so do as many that find it closed after it.
constexpr std::chrono::microseconds kPatience{1000};
constexpr uint64_t kImpatientWrites = 64;

CheckedMutex served_mutex;

// By the address behind each object's end.
std::map<uintptr_t, std::pair<uintptr_t, FastWrites*>>& Served() {
  static auto* const served = new std::map<uintptr_t, std::pair<uintptr_t, FastWrites*>>();
  return *served;
}

using Record = FastWrites::Entry;

bool HasValue(const Record& record) { return record.type == rocksdb::kTypeValue || record.type == rocksdb::kTypeMerge; }

// Takes the first of the records; false: it is of another kind.
bool NextRecord(Slice* records, Record* record) {
  const auto tag = static_cast<rocksdb::ValueType>((*records)[0]);
  records->remove_prefix(1);
  switch (tag) {
    case rocksdb::kTypeValue:
    case rocksdb::kTypeMerge:
    case rocksdb::kTypeDeletion:
    case rocksdb::kTypeSingleDeletion:
      record->type = tag;
      record->family = 0;
      break;
    case rocksdb::kTypeColumnFamilyValue:
    case rocksdb::kTypeColumnFamilyMerge:
    case rocksdb::kTypeColumnFamilyDeletion:
    case rocksdb::kTypeColumnFamilySingleDeletion:
      record->type = tag == rocksdb::kTypeColumnFamilyValue      ? rocksdb::kTypeValue
                     : tag == rocksdb::kTypeColumnFamilyMerge    ? rocksdb::kTypeMerge
                     : tag == rocksdb::kTypeColumnFamilyDeletion ? rocksdb::kTypeDeletion
                                                                 : rocksdb::kTypeSingleDeletion;
      if (!rocksdb::GetVarint32(records, &record->family)) return false;
      break;
    default:
      return false;
  }
  record->value.clear();
  return rocksdb::GetLengthPrefixedSlice(records, &record->key) &&
         (!HasValue(*record) || rocksdb::GetLengthPrefixedSlice(records, &record->value));
}

Slice RecordsOf(const WriteBatch& batch) {
  Slice records(batch.Data());
  records.remove_prefix(std::min(records.size(), WriteBatchInternal::kHeader));
  return records;
}

// Whether the batch has nothing but such records, and as many as it says.
bool IsPlain(const WriteBatch& batch, uint64_t entries) {
  Record record;
  for (Slice records = RecordsOf(batch); !records.empty(); --entries) {
    if (entries == 0 || !NextRecord(&records, &record)) return false;
  }
  return entries == 0;
}

}  // namespace

std::atomic<int> FastWrites::served{0};

// Puts entries into memtables, as RocksDB's MemTableInserter does for concurrent writers.
// REQUIRES: the gate was entered for them.
class FastWrites::Inserter {
 public:
  Inserter(FastWrites* writes, bool ignore_missing_families)
      : writes_(writes), ignore_missing_families_(ignore_missing_families) {}
  ~Inserter() { Finish(); }
  Inserter(const Inserter&) = delete;
  Inserter& operator=(const Inserter&) = delete;

  Status Add(uint64_t number, const Entry& entry) {
    if (MoveTo(entry.family)) {
      return family_->mem()->Add(number, entry.type, entry.key, entry.value, nullptr, /*allow_concurrent=*/true,
                                 &added_);
    }
    return ignore_missing_families_ ? Status::OK()
                                    : Status::InvalidArgument("Invalid column family specified in write batch");
  }

 private:
  // False: there is none of this number.
  bool MoveTo(uint32_t family) {
    if (family_ != nullptr && family_->GetID() == family) return true;
    Finish();
    family_ = family == 0 ? writes_->parts_.families->GetDefault() : writes_->parts_.families->GetColumnFamily(family);
    return family_ != nullptr;
  }
  // Counts what was added to the memtable, and asks for its flush when it is full.
  void Finish() {
    if (family_ == nullptr) return;
    rocksdb::MemTable* const memtable = family_->mem();
    memtable->BatchPostProcess(added_);
    added_ = rocksdb::MemTablePostProcessInfo();
    if (!memtable->ShouldScheduleFlush() || !memtable->MarkFlushScheduled()) return;
    writes_->parts_.flushes->ScheduleWork(family_);
    writes_->switch_due_.store(true, std::memory_order_relaxed);
  }

  FastWrites* const writes_;
  const bool ignore_missing_families_;
  rocksdb::ColumnFamilyData* family_ = nullptr;
  rocksdb::MemTablePostProcessInfo added_;
};

bool FastWrites::Fits(const rocksdb::ColumnFamilyOptions& options) {
  const auto& factory = options.memtable_factory;
  // An object of a client may not be cast.
  if (factory == nullptr || std::string(factory->Name()) != SubMemTableFactory::kClassName()) return false;
  const auto* const sub = factory->GetOptions<SubMemTableOptions>(SubMemTableFactory::kOptionsName());
  return sub != nullptr && sub->queueless_writes && !options.inplace_update_support &&
         options.max_write_buffer_size_to_maintain == 0 &&
         (options.comparator == nullptr || options.comparator->timestamp_size() == 0) &&
         !port::WritesBlobsAtOnce(options);
}

std::unique_ptr<FastWrites> FastWrites::Create(const rocksdb::DBOptions& options, bool seq_per_batch,
                                               const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  // Each has RocksDB give numbers at another place than the newest one, or families that are not in the list.
  if (seq_per_batch || options.two_write_queues || options.unordered_write || options.allow_2pc ||
      options.persist_stats_to_disk || options.recycle_log_file_num > 0) {
    return nullptr;
  }
  for (const auto& family : families) {
    if (!Fits(family.options)) return nullptr;
  }
  std::unique_ptr<FastWrites> writes(new FastWrites());
  for (const auto& family : families) writes->Admit(family.options);
  return writes;
}

FastWrites::~FastWrites() {
  const MutexLock lock(&served_mutex);
  for (auto it = Served().begin(); it != Served().end(); ++it) {
    if (it->second.second != this) continue;
    Served().erase(it);
    served.fetch_sub(1);
    return;
  }
}

void FastWrites::Serve(const void* object, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(object);
  const MutexLock lock(&served_mutex);
  Served()[begin + bytes] = {begin, this};
  served.fetch_add(1);
}

FastWrites* FastWrites::Find(const void* part) {
  const auto address = reinterpret_cast<uintptr_t>(part);
  const MutexLock lock(&served_mutex);
  const auto it = Served().upper_bound(address);
  return it != Served().end() && it->second.first <= address ? it->second.second : nullptr;
}

void FastWrites::Use(const Parts& parts) {
  const MutexLock lock(&report_mutex_);
  if (IsReady()) return;
  parts_ = parts;
  log_.Use([this](const WriteBatch& record) { return WriteRecord(record); },
           [this](WriteBatch* record, bool ignore_missing_families, const Status& logged) {
             return ApplyRecord(record, ignore_missing_families, logged);
           });
  gate_.Use(parts.last_sequence);
}

// The table of what does not fit; docs/design/write_path.md has the reasons.
FastWrites::Reason FastWrites::Against(const WriteOptions& options) const {
  if (!options.disableWAL && parts_.log == nullptr) return kWal;
  return options.sync || options.low_pri || options.rate_limiter_priority != rocksdb::Env::IO_TOTAL ||
                 options.protection_bytes_per_key != 0
             ? kOptions
             : kNone;
}

FastWrites::Reason FastWrites::Against(const WriteBatch& batch) const {
  const uint64_t entries = WriteBatchInternal::Count(&batch);
  if (batch.HasMerge() && merges_queue_.load(std::memory_order_relaxed)) return kBatch;
  if (entries == 0 || entries > WriteGate::kMostEntries || batch.GetProtectionBytesPerKey() != 0 ||
      WriteBatchInternal::TimestampsUpdateNeeded(batch) || !batch.GetWalTerminationPoint().is_cleared() ||
      !IsPlain(batch, entries)) {
    return kBatch;
  }
  return kNone;
}

FastWrites::Reason FastWrites::AgainstState() const {
  if (others_.load(std::memory_order_relaxed)) return kFamilies;
  if (parts_.errors->IsDBStopped() || parts_.controller->IsStopped() || parts_.controller->NeedsDelay() ||
      parts_.buffers->ShouldStall() || *parts_.tracer != nullptr) {
    return kHeldBack;
  }
  return parts_.buffers->ShouldFlush() || switch_due_.load(std::memory_order_relaxed) ? kSwitch : kNone;
}

// Queued writes may have left a switch to the next one. RocksDB lets nobody ask while it takes from these, which it
// does behind the closed gate; while that is open only the writers inside add to them, and note it in switch_due_.
FastWrites::Reason FastWrites::AgainstOpening() const {
  const Reason reason = AgainstState();
  return reason == kNone && (!parts_.flushes->Empty() || !parts_.trims->Empty()) ? kSwitch : reason;
}

template <class TryEnter>
uint64_t FastWrites::Enter(const WriteOptions& options, const TryEnter& try_enter, Reason* reason) {
  // Whoever opens the gate looks anew: what has been stopped while it was closed stays so.
  const auto may_open = [&] {
    *reason = AgainstOpening();
    if (*reason != kNone) return false;
    // Nobody is inside, and RocksDB has resumed from what had stopped it.
    failed_at_.store(UINT64_MAX);
    log_.Reset();
    return true;
  };
  for (;;) {
    const uint64_t first = try_enter();
    if (first != 0) return first;
    if (gate_.TryOpen(may_open)) continue;
    if (*reason != kNone) return 0;
    // As the queue of writers, unless somebody holds the gate again and again.
    uint64_t impatient = impatience_.load(std::memory_order_relaxed);
    if (options.no_slowdown || impatient != 0) {
      if (impatient != 0) impatience_.compare_exchange_strong(impatient, impatient - 1);
      *reason = kClosed;
      return 0;
    }
    if (!gate_.AwaitFree(kPatience)) impatience_.store(kImpatientWrites);
    if ((*reason = AgainstState()) != kNone) return 0;
  }
}

void FastWrites::StopAt(uint64_t first) {
  uint64_t failed = failed_at_.load();
  while (first < failed && !failed_at_.compare_exchange_weak(failed, first)) {
  }
}

// What a write wants of its thread, found once.
struct FastWrites::Thread {
  // Numbers below that of the last lane are of one thread each.
  const size_t number;
  const rocksdb::PerfLevel* const perf_level;
  rocksdb::PerfContext* const perf_context;

  void Count(std::atomic<uint64_t>* counter, uint64_t by) const {
    if (number < kLanes - 1) {
      counter->store(counter->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    } else {
      counter->fetch_add(by, std::memory_order_relaxed);
    }
  }
};

const FastWrites::Thread& FastWrites::OwnThread() {
  static std::atomic<size_t> threads{0};
  thread_local const Thread own{threads.fetch_add(1), &rocksdb::perf_level, rocksdb::get_perf_context()};
  return own;
}

FastWrites::Lane* FastWrites::LaneOf(const Thread& thread) { return &lanes_[std::min(thread.number, kLanes - 1)]; }

// What Run writes.
class FastWrites::Batch {
 public:
  explicit Batch(WriteBatch* batch) : batch_(batch) {}
  uint64_t entries() const { return WriteBatchInternal::Count(batch_); }
  uint64_t bytes() const { return WriteBatchInternal::ByteSize(batch_); }
  WriteBatch* whole() const { return batch_; }
  void AddTo(WriteBatch* record) const { WriteBatchInternal::Append(record, batch_).PermitUncheckedError(); }
  void SetNumber(uint64_t first) const { WriteBatchInternal::SetSequence(batch_, first); }
  Status Insert(uint64_t first, Inserter* inserter) const {
    Status s;
    Entry entry;
    for (Slice records = RecordsOf(*batch_); s.ok() && !records.empty() && NextRecord(&records, &entry); ++first) {
      s = inserter->Add(first, entry);
    }
    return s;
  }

 private:
  WriteBatch* const batch_;
};

class FastWrites::Single {
 public:
  explicit Single(const Entry& entry) : entry_(entry) {}
  uint64_t entries() const { return 1; }
  // As many as a batch of it has.
  uint64_t bytes() const {
    uint64_t bytes = WriteBatchInternal::kHeader + 1 + rocksdb::VarintLength(entry_.key.size()) + entry_.key.size();
    if (entry_.family != 0) bytes += rocksdb::VarintLength(entry_.family);
    if (!HasValue(entry_)) return bytes;
    return bytes + rocksdb::VarintLength(entry_.value.size()) + entry_.value.size();
  }
  WriteBatch* whole() const { return nullptr; }
  void AddTo(WriteBatch* record) const {
    const Status s =
        entry_.type == rocksdb::kTypeValue ? WriteBatchInternal::Put(record, entry_.family, entry_.key, entry_.value)
        : entry_.type == rocksdb::kTypeMerge
            ? WriteBatchInternal::Merge(record, entry_.family, entry_.key, entry_.value)
        : entry_.type == rocksdb::kTypeDeletion ? WriteBatchInternal::Delete(record, entry_.family, entry_.key)
                                                : WriteBatchInternal::SingleDelete(record, entry_.family, entry_.key);
    s.PermitUncheckedError();  // refuses sizes that do not come here
  }
  void SetNumber(uint64_t) const {}
  Status Insert(uint64_t first, Inserter* inserter) const { return inserter->Add(first, entry_); }

 private:
  const Entry& entry_;
};

Status FastWrites::WriteRecord(const WriteBatch& record) {
  const Thread& thread = OwnThread();
  Logged logged;
  {
    std::optional<rocksdb::PerfStepTimer> timer;
    if (*thread.perf_level >= rocksdb::PerfLevel::kEnableTimeExceptForMutex) {
      timer.emplace(&thread.perf_context->write_wal_time).Start();
    }
    logged = parts_.log(record);
  }
  if (!logged.status.ok()) {
    StopAt(WriteBatchInternal::Sequence(&record));
    return logged.status;
  }
  if (logged.switch_due) switch_due_.store(true, std::memory_order_relaxed);
  thread.Count(&LaneOf(thread)->log_bytes, logged.bytes);
  rocksdb::RecordTick(parts_.statistics, rocksdb::WAL_FILE_BYTES, logged.bytes);
  return Status::OK();
}

// Stops the database where that cannot be done to the end.
template <class What>
Status FastWrites::Insert(bool ignore_missing_families, const What& what, uint64_t first) {
  const Thread& thread = OwnThread();
  std::optional<rocksdb::PerfStepTimer> timer;
  if (*thread.perf_level >= rocksdb::PerfLevel::kEnableWait) {
    timer.emplace(&thread.perf_context->write_memtable_time, nullptr, false, rocksdb::PerfLevel::kEnableWait).Start();
  }
  Status s;
  {
    Inserter inserter(this, ignore_missing_families);
    s = what.Insert(first, &inserter);
  }
  if (!s.ok()) {
    parts_.stop(s);
    StopAt(first);
  }
  return s;
}

Status FastWrites::ApplyRecord(WriteBatch* record, bool ignore_missing_families, const Status& logged) {
  const uint64_t first = WriteBatchInternal::Sequence(record);
  const Batch batch(record);
  const Status s = logged.ok() ? Insert(ignore_missing_families, batch, first) : logged;
  gate_.Publish(first, first + batch.entries() - 1);
  return s;
}

template <class What>
bool FastWrites::Run(const WriteOptions& options, const What& what, uint64_t* wal, uint64_t* sequence, Status* status,
                     Reason* reason) {
  const uint64_t begun = parts_.statistics == nullptr ? 0 : parts_.clock->NowMicros();
  const uint64_t entries = what.entries();
  auto applied = WriteLog::Applied::kNot;
  const bool logs = !options.disableWAL;
  const auto enter = [&] {
    const uint64_t first = gate_.Enter(entries);
    if (logs && wal != nullptr && first != 0) *wal = *parts_.wal;
    return first;
  };
  const auto enter_logged = [&] {
    return log_.Append(
        entries, options.ignore_missing_column_families, enter, what.whole(),
        [&](WriteBatch* record) { what.AddTo(record); }, &applied, status);
  };
  const uint64_t first = logs ? Enter(options, enter_logged, reason) : Enter(options, enter, reason);
  if (first == 0) return false;
  what.SetNumber(first);
  const Thread& thread = OwnThread();
  const uint64_t last = first + entries - 1;
  if (!logs && !parts_.has_unpersisted_data->load(std::memory_order_relaxed)) {
    parts_.has_unpersisted_data->store(true);
  }
  Lane* const lane = LaneOf(thread);
  const bool by_other = applied == WriteLog::Applied::kByOther;
  bool waited = by_other;
  if (applied == WriteLog::Applied::kNot) {
    if (status->ok()) *status = Insert(options.ignore_missing_column_families, what, first);
    waited = gate_.Publish(first, last);
  }
  if (waited) thread.Count(&lane->waits, 1);
  if (by_other) thread.Count(&lane->by_others, 1);
  const bool failed = !status->ok();
  // Whoever opens it again sees whether the database goes on.
  if (failed) const WriteGate::Exclusive closed(&gate_);
  if (failed_at_.load(std::memory_order_relaxed) <= last && status->ok()) {
    *status =
        Status::Aborted("an earlier write could not be logged or inserted", "call Resume, or open the database again");
  }
  if (sequence != nullptr) *sequence = first;
  const uint64_t bytes = what.bytes();
  thread.Count(&lane->writes, 1);
  thread.Count(&lane->keys, entries);
  thread.Count(&lane->bytes, bytes);
  if (logs) thread.Count(&lane->logged, 1);
  if (parts_.statistics != nullptr) {
    rocksdb::RecordTick(parts_.statistics, rocksdb::NUMBER_KEYS_WRITTEN, entries);
    rocksdb::RecordTick(parts_.statistics, rocksdb::BYTES_WRITTEN, bytes);
    rocksdb::RecordTick(parts_.statistics, by_other ? rocksdb::WRITE_DONE_BY_OTHER : rocksdb::WRITE_DONE_BY_SELF);
    if (logs) rocksdb::RecordTick(parts_.statistics, rocksdb::WRITE_WITH_WAL);
    rocksdb::RecordInHistogram(parts_.statistics, rocksdb::BYTES_PER_WRITE, bytes);
    rocksdb::RecordTimeToHistogram(parts_.statistics, rocksdb::DB_WRITE, parts_.clock->NowMicros() - begun);
  }
  return true;
}

bool FastWrites::Write(Reason call, const WriteOptions& options, WriteBatch* batch, uint64_t* wal, uint64_t* sequence,
                       Status* status) {
  Reason reason = call;
  if (reason == kNone) reason = Against(options);
  if (reason == kNone) reason = Against(*batch);
  if (reason == kNone) reason = AgainstState();
  if (reason == kNone && Run(options, Batch(batch), wal, sequence, status, &reason)) return true;
  if (reason == kSwitch) report_due_.store(true, std::memory_order_relaxed);
  const Thread& thread = OwnThread();
  thread.Count(&LaneOf(thread)->others[reason], 1);
  return false;
}

bool FastWrites::Write(const WriteOptions& options, const Entry& entry, uint64_t* sequence, Status* status) {
  if (!IsReady() || Against(options) != kNone || AgainstState() != kNone) return false;
  if (entry.type == rocksdb::kTypeMerge && merges_queue_.load(std::memory_order_relaxed)) return false;
  Reason reason = kNone;
  return Run(options, Single(entry), nullptr, sequence, status, &reason);
}

FastWrites::Counts FastWrites::counts() const {
  Counts sum;
  for (const Lane& lane : lanes_) {
    sum.writes += lane.writes.load(std::memory_order_relaxed);
    sum.keys += lane.keys.load(std::memory_order_relaxed);
    sum.bytes += lane.bytes.load(std::memory_order_relaxed);
    sum.logged += lane.logged.load(std::memory_order_relaxed);
    sum.log_bytes += lane.log_bytes.load(std::memory_order_relaxed);
    sum.waits += lane.waits.load(std::memory_order_relaxed);
    sum.by_others += lane.by_others.load(std::memory_order_relaxed);
    for (size_t i = 0; i < kReasons; ++i) sum.others[i] += lane.others[i].load(std::memory_order_relaxed);
  }
  return sum;
}

void FastWrites::Report() {
  const MutexLock lock(&report_mutex_);
  if (!IsReady()) return;
  const Counts now = counts();
  using rocksdb::InternalStats;
  const auto add = [&](InternalStats::InternalDBStatsType type, uint64_t by) {
    parts_.counts->AddDBStats(type, by, /*concurrent=*/true);
  };
  add(InternalStats::kIntStatsNumKeysWritten, now.keys - reported_.keys);
  add(InternalStats::kIntStatsBytesWritten, now.bytes - reported_.bytes);
  const uint64_t by_others = now.by_others - reported_.by_others;
  add(InternalStats::kIntStatsWriteDoneBySelf, now.writes - reported_.writes - by_others);
  add(InternalStats::kIntStatsWriteDoneByOther, by_others);
  add(InternalStats::kIntStatsWriteWithWal, now.logged - reported_.logged);
  add(InternalStats::kIntStatsWalFileBytes, now.log_bytes - reported_.log_bytes);
  reported_ = now;
}

const char* FastWrites::NameOf(Reason reason) {
  static constexpr std::array<const char*, kReasons> kNames = {
      "", "transaction", "wal", "options", "batch", "column_family", "held_back", "switch", "closed_gate"};
  return kNames[reason];
}

std::string FastWrites::ToText() const {
  const Counts counts = this->counts();
  std::string queued;
  for (size_t i = kNone + 1; i < kReasons; ++i) {
    if (counts.others[i] == 0) continue;
    queued += (queued.empty() ? "" : ", ") + std::string(NameOf(static_cast<Reason>(i))) + " " +
              std::to_string(counts.others[i]);
  }
  const WriteGate::Counts gate = gate_.counts();
  return "writes: " + std::to_string(counts.writes) + " without a queue, " + std::to_string(counts.logged) +
         " of them with a WAL, " + std::to_string(counts.waits) + " waited for others, " + std::to_string(gate.sleeps) +
         " slept; the gate was closed " + std::to_string(gate.closings) + " times, " +
         std::to_string(gate.closed_nanos / 1000000) + " ms; queued: " + (queued.empty() ? "none" : queued) + "\n";
}

}  // namespace cairn
