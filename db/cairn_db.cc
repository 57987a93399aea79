#include "db/cairn_db.h"

#include <algorithm>
#include <limits>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "cairn/version.h"
#include "db/entry_sizes.h"
#include "db/expired_entries.h"
#include "db/opening.h"
#include "db/set_options.h"
#include "db/stored_seed.h"
#include "memtable_cache/fast_writes.h"
#include "monitoring/perf_level_imp.h"
#include "monitoring/statistics_impl.h"
#include "msls/round_robin.h"
#include "msls/tuner.h"
#include "result_cache/database_cache_reads.h"
#include "rocksdb/convenience.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/utilities/stackable_db.h"
#include "rocksdb/version.h"
#include "table/hash_order/batches.h"
#include "table/hash_order/hash_order.h"
#include "table/silt/silt_merges.h"
#include "table/written_totals.h"
#include "trie_table/compaction/compaction_inputs.h"
#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::DBImpl;

static_assert(sizeof(CairnDB) == sizeof(DBImpl), "invariant (1)");

// What RocksDB counts of its reads, for the cache's part of a Get or MultiGet: RocksDB itself counts only what reaches
// the tree. Clocks are asked only for who wants to know: statistics and perf context of the levels at which RocksDB's
// own timers run. All that a hit without statistics runs through is inline.
class CairnDB::CachedRead {
 public:
  CachedRead(rocksdb::SystemClock* clock, rocksdb::Statistics* statistics, uint32_t histogram)
      : perf_(PerfOfThread()), statistics_(statistics) {
    const bool cpu = *perf_.level >= rocksdb::PerfLevel::kEnableTimeAndCPUTimeExceptForMutex;
    if (__builtin_expect(statistics != nullptr || cpu, 0)) times_ = Begin(clock, statistics, histogram, cpu);
  }

  // What comes now is not the cache's. Only the first call counts.
  void Stop() {
    if (times_.clock != nullptr) End(&times_);
  }

  rocksdb::Statistics* statistics() const { return statistics_; }
  // Whether there is something to count but what AddInPerfContext does.
  bool has_more() const { return statistics_ != nullptr || times_.cpu; }
  void AddInPerfContext(uint64_t rocksdb::PerfContextBase::*counter, uint64_t bytes) {
    if (*perf_.level >= rocksdb::PerfLevel::kEnableCount) perf_.context->*counter += bytes;
  }
  // The time is that of so many calls together.
  void CountTime(uint64_t calls) {
    Stop();
    if (times_.cpu) perf_.context->get_cpu_nanos += times_.cpu_nanos;
    for (uint64_t i = 0; times_.micro && i < calls; ++i) {
      statistics_->reportTimeToHistogram(times_.histogram, times_.micros / calls);
    }
  }

 private:
  // To find the two takes a tenth of a hit's time, so that is done once.
  struct Perf {
    const rocksdb::PerfLevel* level;
    rocksdb::PerfContext* context;
  };
  static const Perf& PerfOfThread() {
    thread_local Perf perf{nullptr, nullptr};  // constants, so that nothing is to be looked at before it is read
    Perf* const own = &perf;                   // found once
    if (__builtin_expect(own->level == nullptr, 0)) *own = {&rocksdb::perf_level, rocksdb::get_perf_context()};
    return *own;
  }

  struct Times {
    rocksdb::SystemClock* clock = nullptr;  // null: nothing is timed any more
    uint32_t histogram = 0;
    bool micro = false;   // whether it is timed for the histogram
    bool cpu = false;     // and for the perf context
    uint64_t micros = 0;  // first when it began, in the end how long it took
    uint64_t cpu_nanos = 0;
  };
  __attribute__((noinline)) static Times Begin(rocksdb::SystemClock* clock, rocksdb::Statistics* statistics,
                                               uint32_t histogram, bool cpu) {
    Times times;
    times.histogram = histogram;
    times.micro = statistics != nullptr && statistics->get_stats_level() > rocksdb::StatsLevel::kExceptTimers &&
                  statistics->HistEnabledForType(histogram);
    times.cpu = cpu;
    if (times.micro || times.cpu) times.clock = clock;
    if (times.micro) times.micros = clock->NowMicros();
    if (times.cpu) times.cpu_nanos = clock->CPUNanos();
    return times;
  }
  __attribute__((noinline)) static void End(Times* times) {
    if (times->micro) times->micros = times->clock->NowMicros() - times->micros;
    if (times->cpu) times->cpu_nanos = times->clock->CPUNanos() - times->cpu_nanos;
    times->clock = nullptr;
  }

  const Perf& perf_;
  rocksdb::Statistics* const statistics_;
  Times times_;
};

namespace {

// Whether a CompactRange also writes tables again of which nothing was overwritten or deleted, as RocksDB does.
bool RewritesAll(const rocksdb::CompactRangeOptions& options, const rocksdb::ColumnFamilyOptions& family) {
  using rocksdb::BottommostLevelCompaction;
  if (options.bottommost_level_compaction == BottommostLevelCompaction::kIfHaveCompactionFilter) {
    return family.compaction_filter != nullptr || family.compaction_filter_factory != nullptr;
  }
  return options.bottommost_level_compaction != BottommostLevelCompaction::kSkip;
}

// RocksDB copies keys before it writes values, so a value's own string may hold a key, as in Get(value, &value).
inline bool LiesIn(const Slice& key, const std::string& text) {
  return reinterpret_cast<uintptr_t>(key.data()) - reinterpret_cast<uintptr_t>(text.data()) < text.size();
}
// Whether some key may lie in some value: in what all values together reach over.
bool MayLieIn(size_t count, const Slice* keys, rocksdb::PinnableSlice* values) {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string& text = *values[i].GetSelf();
    if (text.empty()) continue;
    begin = std::min(begin, reinterpret_cast<uintptr_t>(text.data()));
    end = std::max(end, reinterpret_cast<uintptr_t>(text.data() + text.size()));
  }
  return std::any_of(keys, keys + count, [&](const Slice& key) {
    const auto at = reinterpret_cast<uintptr_t>(key.data());
    return begin <= at && at < end;
  });
}

// Properties by which RocksDB says what it compacts; it knows nothing of what tries do.
bool IsOfTries(const Slice& property) {
  return property == rocksdb::DB::Properties::kCompactionPending ||
         property == rocksdb::DB::Properties::kNumRunningCompactions ||
         property == rocksdb::DB::Properties::kEstimatePendingCompactionBytes;
}

void AddActivity(const Slice& property, TrieScheduler* scheduler, uint32_t family, uint64_t* value) {
  if (property == rocksdb::DB::Properties::kNumRunningCompactions) {
    *value += scheduler->GetActivity(TrieScheduler::kAllFamilies).running;
    return;
  }
  const TrieScheduler::Activity activity = scheduler->GetActivity(family);
  if (property == rocksdb::DB::Properties::kEstimatePendingCompactionBytes) {
    *value += activity.due_bytes;
  } else if (activity.due > 0) {
    *value = 1;
  }
}

// What the column family's engine counts; empty if none is Cairn's.
std::string StatsText(rocksdb::DB* db, ColumnFamilyHandle* family, bool table) {
  SiltStats silt;
  if (GetSiltStats(db, family, &silt).ok()) return table ? SiltStatsToTable(silt) : SiltStatsToJson(silt);
  TrieStats trie;
  if (GetTrieStats(db, family, &trie).ok()) return table ? TrieStatsToTable(trie) : TrieStatsToJson(trie);
  const std::string round_robin = RoundRobinStatsText(db, family, table);
  if (!round_robin.empty()) return round_robin;
  OrderedStats ordered;
  if (!GetOrderedStats(db, family, &ordered).ok()) return "";
  return table ? OrderedStatsToTable(ordered, family->GetName()) : OrderedStatsToJson(ordered, family->GetName());
}

}  // namespace

DatabaseServices::DatabaseServices() = default;

void DatabaseServices::SetFastWrites(std::unique_ptr<FastWrites> writes) { fast_writes_ = std::move(writes); }

DatabaseServices::~DatabaseServices() { ForgetWrittenTotals(session_id_); }

DatabaseServices* DatabaseServices::In(const DBOptions& options) {
  if (options.listeners.empty() || !IsServices(options.listeners.front().get())) return nullptr;
  return static_cast<DatabaseServices*>(options.listeners.front().get());
}

void DatabaseServices::OnFlushBegin(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) {
  if (cache_ != nullptr) cache_->TakePoint();
}

void DatabaseServices::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  if (durable_ != nullptr) durable_->NoteTable(static_cast<rocksdb::DBImpl*>(db), info.file_number);
  if (silt_merges_ != nullptr) silt_merges_->OnFlushCompleted(db, info);
}

void DatabaseServices::OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  if (silt_merges_ != nullptr) silt_merges_->OnCompactionBegin(db, info);
}

void DatabaseServices::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  if (silt_merges_ != nullptr) silt_merges_->OnCompactionCompleted(db, info);
}

void DatabaseServices::OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) {
  TrieJobScope* const scope = TrieJobScope::Current();
  CairnDB* const db = scope == nullptr ? nullptr : CairnDB::Of(scope->db());
  if (db == nullptr || scope->compaction == nullptr || scope->is_told) return;
  scope->is_told = true;
  db->TellOfCompaction(scope->compaction, info.job_id);
}

void CairnDB::TellOfCompaction(rocksdb::Compaction* compaction, int job_id) {
  const rocksdb::InstrumentedMutexLock lock(&mutex_);
  NotifyOnCompactionBegin(compaction->column_family_data(), compaction, Status::OK(), rocksdb::CompactionJobStats(),
                          job_id);
}

void DatabaseServices::MergeSiltStores() { silt_merges_ = std::make_unique<SiltMerges>(); }

void DatabaseServices::OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* /*error*/) {
  if (reason == rocksdb::BackgroundErrorReason::kMemTable && durable_ != nullptr) durable_->NoteFailedInsertion();
}

CairnDB::CairnDB(const DBOptions& options, const std::string& path, bool seq_per_batch, bool batch_per_txn,
                 bool read_only)
    : DbImpl(options, path, seq_per_batch, batch_per_txn, read_only) {
  rocksdb::Log(rocksdb::InfoLogLevel::HEADER_LEVEL, immutable_db_options_.info_log, "Cairn version: %s", Version());
  if (services()->fast_writes() != nullptr) services()->fast_writes()->Serve(this, sizeof(*this));
}

// It takes the database's LOCK; the new MANIFEST is begun later.
Status CairnDB::Recover(const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool read_only,
                        bool error_if_wal_file_exists, bool error_if_data_exists_in_wals, bool is_retry,
                        uint64_t* recovered_seq, RecoveryContext* context, bool* can_retry) {
  const Status s = DBImpl::Recover(families, read_only, error_if_wal_file_exists, error_if_data_exists_in_wals,
                                   is_retry, recovered_seq, context, can_retry);
  if (s.ok() && services()->cache() != nullptr) services()->cache()->LookAtFoundFiles();
  return s;
}

CairnDB::~CairnDB() {
  std::string session_id;
  if (GetDbSessionId(session_id).ok()) services()->SetSession(session_id);
  // Of a database that is still open, whatever snapshots live; the services finish after it.
  if (services()->durable() != nullptr) services()->durable()->BeginClose();
  if (services()->cache() != nullptr) services()->cache()->BeginClose();
  // Threads call functions that this class overrides, so they end before it does: Cairn's, then RocksDB's, where no
  // snapshots that live keep it from closing before its destructor.
  StopThreads();
  DBImpl::Close().PermitUncheckedError();
}

void CairnDB::StopThreads() {
  rocksdb::ColumnFamilyHandle* const handle = DBImpl::DefaultColumnFamily();
  if (handle == nullptr) return;  // closed already, or never open
  StopTuning(handle);
  const std::shared_ptr<TrieScheduler> trie = TrieScheduler::FindByDefaultHandle(handle);
  if (trie == nullptr) return;
  DBImpl::CancelAllBackgroundWork(false);  // its compactions end at once
  trie->Shutdown();
}

CairnDB* CairnDB::Of(rocksdb::DB* db) {
  rocksdb::DB* const root = db->GetRootDB();
  return &typeid(*root) == &typeid(CairnDB) ? static_cast<CairnDB*>(root) : nullptr;
}

Status CairnDB::CheckBatch(rocksdb::WriteBatch* batch) {
  if (batch != nullptr && batch->GetDataSize() > kMostEntryBytes) {
    const Status s = CheckEntrySizes(*batch, kMostEntryBytes);
    if (!s.ok()) return s;
  }
  return batch == nullptr || !batch->HasDeleteRange() ? Status::OK() : CheckRangeDeletions(this, *batch);
}

inline bool CairnDB::WriteEntry(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                                rocksdb::ValueType type, const Slice& key, const Slice& value, Status* status) {
  FastWrites* const fast = services()->fast_writes();
  return fast != nullptr && WriteEntryFast(fast, options, family, type, key, value, status);
}

bool CairnDB::WriteEntryFast(FastWrites* fast, const rocksdb::WriteOptions& options,
                             rocksdb::ColumnFamilyHandle* family, rocksdb::ValueType type, const Slice& key,
                             const Slice& value, Status* status) {
  const uint64_t bytes = key.size() + value.size();
  DatabaseCache* const cache = services()->cache();
  // A cache in a file hears of batches, with their WALs. RocksDB says what it has against a family that is null.
  const bool in_file = cache != nullptr && cache->in_file();
  if (in_file || family == nullptr || bytes > kMostEntryBytes / 2) return false;
  const FastWrites::Entry entry{type, family->GetID(), key, value};
  const auto write = [&](const rocksdb::WriteOptions& with, uint64_t* sequence) {
    return fast->Write(with, entry, sequence, status);
  };
  const auto write_entry = [&] {
    DurableWrites* const durable = services()->durable();
    return durable == nullptr ? write(options, nullptr) : durable->WriteEntry(this, options, bytes, write, status);
  };
  if (cache == nullptr) return write_entry();
  const DatabaseCache::WriteScope scope(cache, family->GetID(), key);
  return write_entry();
}

Status CairnDB::Put(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family, const Slice& key,
                    const Slice& value) {
  Status s;
  return WriteEntry(options, family, rocksdb::kTypeValue, key, value, &s) ? s
                                                                          : DBImpl::Put(options, family, key, value);
}

Status CairnDB::Merge(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family, const Slice& key,
                      const Slice& value) {
  Status s;
  return WriteEntry(options, family, rocksdb::kTypeMerge, key, value, &s) ? s
                                                                          : DBImpl::Merge(options, family, key, value);
}

Status CairnDB::Delete(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family, const Slice& key) {
  Status s;
  return WriteEntry(options, family, rocksdb::kTypeDeletion, key, Slice(), &s) ? s
                                                                               : DBImpl::Delete(options, family, key);
}

Status CairnDB::SingleDelete(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                             const Slice& key) {
  Status s;
  return WriteEntry(options, family, rocksdb::kTypeSingleDeletion, key, Slice(), &s)
             ? s
             : DBImpl::SingleDelete(options, family, key);
}

Status CairnDB::AdmitNewFamily(rocksdb::ColumnFamilyDescriptor* family) {
  EnvironmentOptions* const environment = services()->environment();
  Status s = environment == nullptr ? Status::OK() : environment->ApplyToNew(family);
  const DBOptions options = DBImpl::GetDBOptions();
  if (s.ok()) s = CheckFamily(options, *family);
  if (!s.ok()) return s;
  if (environment != nullptr) environment->LogTo(immutable_db_options_.info_log.get());
  DurableWrites* const durable = services()->durable();
  if (durable != nullptr) {
    s = durable->Adopt(*family);
  } else if (IsDurable({*family})) {
    s = Status::InvalidArgument("column family " + family->name + " asks for durable memtables",
                                "the database's other column families have none: all or none");
  }
  if (s.ok()) s = CheckParts(options, family->options);
  if (s.ok() && services()->fast_writes() != nullptr) services()->fast_writes()->Admit(family->options);
  return s;
}

Status CairnDB::Close() {
  if (rocksdb::ColumnFamilyHandle* const handle = DBImpl::DefaultColumnFamily(); handle != nullptr) {
    // A refused Close must leave everything as it was. It is refused as long as there is a timestamped snapshot.
    size_t snapshots = 0;
    ReleaseTimestampedSnapshotsOlderThan(std::numeric_limits<uint64_t>::max(), &snapshots);
    if (snapshots > 0) return Status::Aborted("Cannot close DB with unreleased snapshot.");
    StopTuning(handle);
  }
  DatabaseCache* const cache = services()->cache();
  if (cache == nullptr || !cache->in_file()) return CloseDurably();
  cache->BeginClose();
  Status s = CloseDurably();
  if (s.IsAborted()) {
    cache->CancelClose();
  } else {
    services()->SetCache(nullptr);  // its file is free, as RocksDB's LOCK
  }
  return s;
}

Status CairnDB::CloseDurably() {
  DurableWrites* const durable = services()->durable();
  if (durable == nullptr) return DBImpl::Close();
  durable->BeginClose();
  Status s = DBImpl::Close();
  if (s.IsAborted()) {
    durable->CancelClose();
    return s;
  }
  const Status finished = durable->FinishClose();
  // As RocksDB's LOCK, the pool file is free from here on, not only when the object is deleted.
  services()->SetDurable(nullptr);
  return s.ok() ? finished : s;
}

Status CairnDB::Resume() {
  // First what RocksDB's flushes need. No write is taken before RocksDB has resumed, too.
  DurableWrites* const durable = services()->durable();
  const Status s = durable != nullptr ? durable->Resume(this) : Status::OK();
  return s.ok() ? DBImpl::Resume() : s;
}

// What is in the pool file is persisted.
ReadOptions CairnDB::ForMemTables(const ReadOptions& options) const {
  ReadOptions result = options;
  if (options.read_tier == rocksdb::kPersistedTier && services()->durable() != nullptr) {
    result.read_tier = rocksdb::kReadAllTier;
  }
  return result;
}

// Rule D3: only reads of the newest state that want all of it. Who traces reads wants to see them.
inline DatabaseCache* CairnDB::CacheFor(const ReadOptions& options) const {
  DatabaseCache* const cache = services()->cache();
  const bool may = cache != nullptr && options.snapshot == nullptr && options.timestamp == nullptr &&
                   options.read_tier == rocksdb::kReadAllTier && !options.ignore_range_deletions &&
                   !options.merge_operand_count_threshold.has_value() && !options.table_filter && tracer_ == nullptr;
  return may ? cache : nullptr;
}

// As RocksDB of a Get: of an absent key no bytes, but a sample of them.
void CairnDB::CountCachedGet(bool found, size_t bytes, CachedRead* read) {
  rocksdb::RecordTick(read->statistics(), rocksdb::NUMBER_KEYS_READ);
  if (found) rocksdb::RecordTick(read->statistics(), rocksdb::BYTES_READ, bytes);
  rocksdb::RecordInHistogram(read->statistics(), rocksdb::BYTES_PER_READ, found ? bytes : 0);
  read->CountTime(1);
}

// RocksDB counts a MultiGet once for each column family. What it has counted itself, of a family of which it read some
// keys, lacks those that the cache answered.
void CairnDB::CountCachedMultiGet(size_t count, ColumnFamilyHandle** families,
                                  const std::vector<ResultCache::Answer>& answers, const rocksdb::PinnableSlice* values,
                                  CachedRead* read) {
  struct Share {
    uint32_t family;
    bool asked_tree = false;
    uint64_t keys = 0;
    uint64_t found = 0;
    uint64_t bytes = 0;
  };
  rocksdb::autovector<Share, 8> shares;
  const auto place_of = [&](uint32_t family) {
    size_t place = 0;
    while (place < shares.size() && shares[place].family != family) ++place;
    if (place == shares.size()) shares.push_back(Share{family});
    return place;
  };
  size_t place = 0;
  for (size_t i = 0; i < count; ++i) {
    if (i == 0 || families[i] != families[i - 1]) place = place_of(families[i]->GetID());
    Share& share = shares[place];
    if (answers[i] == ResultCache::Answer::kMiss) {
      share.asked_tree = true;
      continue;
    }
    ++share.keys;
    if (answers[i] == ResultCache::Answer::kAbsent) continue;
    ++share.found;
    share.bytes += values[i].size();
  }
  uint64_t calls = 0;
  for (const Share& share : shares) {
    read->AddInPerfContext(&rocksdb::PerfContextBase::multiget_read_bytes, share.bytes);
    if (!share.asked_tree) ++calls;
    rocksdb::Statistics* const statistics = read->statistics();
    if (statistics == nullptr) continue;
    rocksdb::RecordTick(statistics, rocksdb::NUMBER_MULTIGET_CALLS, share.asked_tree ? 0 : 1);
    rocksdb::RecordTick(statistics, rocksdb::NUMBER_MULTIGET_KEYS_READ, share.keys);
    rocksdb::RecordTick(statistics, rocksdb::NUMBER_MULTIGET_KEYS_FOUND, share.found);
    rocksdb::RecordTick(statistics, rocksdb::NUMBER_MULTIGET_BYTES_READ, share.bytes);
    if (!share.asked_tree) rocksdb::RecordInHistogram(statistics, rocksdb::BYTES_PER_MULTIGET, share.bytes);
  }
  read->CountTime(calls);
}

template <class ReadTree>
inline Status CairnDB::AskCache(DatabaseCache* cache, const ReadOptions& options, ColumnFamilyHandle* family,
                                const Slice& key, rocksdb::PinnableSlice* value, const ReadTree& read_tree) {
  CachedRead read(immutable_db_options_.clock, stats_, rocksdb::DB_GET);
  DatabaseCache::From from = DatabaseCache::From::kTree;
  const auto fills = options.fill_cache ? DatabaseCache::Fills::kYes : DatabaseCache::Fills::kNo;
  Status s = cache->Get(family, key, fills, value, &from, read_tree);
  if (from != DatabaseCache::From::kCache) return s;
  if (s.ok()) read.AddInPerfContext(&rocksdb::PerfContextBase::get_read_bytes, value->size());
  if (__builtin_expect(read.has_more(), 0)) CountCachedGet(s.ok(), value->size(), &read);
  return s;
}

inline Status CairnDB::GetUnexpired(const ReadOptions& options, const Slice& key, GetImplOptions& get_options) {
  const uint64_t before = ExpiredBefore(get_options.column_family, immutable_db_options_.clock);
  return before == 0 ? DBImpl::GetImpl(options, key, get_options) : GetSince(before, options, key, get_options);
}

Status CairnDB::GetSince(uint64_t before, const ReadOptions& options, const Slice& key, GetImplOptions& get_options) {
  const Status s = DBImpl::GetImpl(options, key, get_options);
  if (!s.ok() || get_options.value == nullptr || !get_options.get_value) return s;
  if (TtlStampOf(*get_options.value) >= before) return s;
  get_options.value->Reset();
  return Status::NotFound();
}

// What RocksDB does here first, a copy of the options above all, takes as long as an answer of the cache.
Status CairnDB::Get(const ReadOptions& options, ColumnFamilyHandle* family, const Slice& key,
                    rocksdb::PinnableSlice* value, std::string* timestamp) {
  DatabaseCache* const cache = services()->cache();
  if (cache == nullptr || !cache->asked()) return DBImpl::Get(options, family, key, value, timestamp);
  return GetFirstFrom(cache, options, family, key, value, timestamp);
}

__attribute__((noinline)) Status CairnDB::GetFirstFrom(DatabaseCache* cache, const ReadOptions& options,
                                                       ColumnFamilyHandle* family, const Slice& key,
                                                       rocksdb::PinnableSlice* value, std::string* timestamp) {
  using rocksdb::Env;
  const bool plain = timestamp == nullptr &&
                     (options.io_activity == Env::IOActivity::kUnknown || options.io_activity == Env::IOActivity::kGet);
  if (!plain || CacheFor(options) == nullptr) return DBImpl::Get(options, family, key, value, timestamp);
  if (__builtin_expect(LiesIn(key, *value->GetSelf()), 0)) {
    return Get(options, family, key.ToString(), value, timestamp);
  }
  value->Reset();
  return AskCache(cache, options, family, key, value, [&](rocksdb::PinnableSlice* /*value*/) {
    ReadOptions of_get(options);
    of_get.io_activity = Env::IOActivity::kGet;
    GetImplOptions get_options;
    get_options.column_family = family;
    get_options.value = value;
    return GetUnexpired(of_get, key, get_options);
  });
}

Status CairnDB::GetImpl(const ReadOptions& options, const Slice& key, GetImplOptions& get_options) {
  DatabaseCache* const cache = CacheFor(options);
  const bool plain = get_options.value != nullptr && get_options.get_value && get_options.columns == nullptr &&
                     get_options.timestamp == nullptr && get_options.value_found == nullptr &&
                     get_options.callback == nullptr && get_options.is_blob_index == nullptr;
  if (cache != nullptr && plain && cache->AskedOrPassedBy()) return GetFirstFrom(cache, options, key, get_options);
  if (options.read_tier != rocksdb::kPersistedTier) return GetUnexpired(options, key, get_options);
  return GetUnexpired(ForMemTables(options), key, get_options);
}

__attribute__((noinline)) Status CairnDB::GetFirstFrom(DatabaseCache* cache, const ReadOptions& options,
                                                       const Slice& key, GetImplOptions& get_options) {
  if (__builtin_expect(LiesIn(key, *get_options.value->GetSelf()), 0)) {
    return GetImpl(options, key.ToString(), get_options);
  }
  return AskCache(cache, options, get_options.column_family, key, get_options.value,
                  [&](rocksdb::PinnableSlice* /*value*/) { return GetUnexpired(options, key, get_options); });
}

void CairnDB::MultiGetUnexpired(const ReadOptions& options, size_t count, ColumnFamilyHandle** families,
                                const Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                                Status* statuses, bool sorted_input) {
  DBImpl::MultiGet(options, count, families, keys, values, timestamps, statuses, sorted_input);
  for (size_t i = 0; i < count; ++i) {
    if (!statuses[i].ok()) continue;
    const uint64_t before = ExpiredBefore(families[i], immutable_db_options_.clock);
    if (before == 0 || TtlStampOf(values[i]) >= before) continue;
    values[i].Reset();
    statuses[i] = Status::NotFound();
  }
}

rocksdb::Iterator* CairnDB::NewIterator(const ReadOptions& options, ColumnFamilyHandle* family) {
  const int32_t* const ttl =
      TtlOf(port::ImmutableOptionsOf(*static_cast<rocksdb::ColumnFamilyHandleImpl*>(family)->cfd()));
  if (ttl == nullptr) return DBImpl::NewIterator(options, family);
  ReadOptions with_values(options);
  with_values.allow_unprepared_value = false;
  return WithoutExpired(DBImpl::NewIterator(with_values, family), ttl, immutable_db_options_.clock);
}

void CairnDB::MultiGet(const ReadOptions& options, const size_t count, ColumnFamilyHandle** families, const Slice* keys,
                       rocksdb::PinnableSlice* values, std::string* timestamps, Status* statuses,
                       const bool sorted_input) {
  using rocksdb::Env;
  DatabaseCache* const cache = CacheFor(options);
  const bool plain =
      timestamps == nullptr && options.value_size_soft_limit == std::numeric_limits<uint64_t>::max() &&
      (options.io_activity == Env::IOActivity::kUnknown || options.io_activity == Env::IOActivity::kMultiGet);
  if (cache != nullptr && plain && count > 0) {
    std::vector<std::string> copies;
    std::vector<Slice> own_keys;
    if (MayLieIn(count, keys, values)) {
      for (size_t i = 0; i < count; ++i) copies.push_back(keys[i].ToString());
      own_keys.assign(copies.begin(), copies.end());
      keys = own_keys.data();
    }
    CachedRead read(immutable_db_options_.clock, stats_, rocksdb::DB_MULTIGET);
    std::vector<ResultCache::Answer> answers;
    cache->MultiGet(count, families, keys, options.fill_cache ? DatabaseCache::Fills::kYes : DatabaseCache::Fills::kNo,
                    values, statuses, &answers,
                    [&](size_t left, ColumnFamilyHandle** left_families, const Slice* left_keys,
                        rocksdb::PinnableSlice* left_values, Status* left_statuses) {
                      read.Stop();
                      MultiGetUnexpired(options, left, left_families, left_keys, left_values, nullptr, left_statuses,
                                        sorted_input);
                    });
    if (!answers.empty()) CountCachedMultiGet(count, families, answers, values, &read);
    return;
  }
  MultiGetUnexpired(ForMemTables(options), count, families, keys, values, timestamps, statuses, sorted_input);
}

void CairnDB::MultiGetEntity(const ReadOptions& options, size_t count, ColumnFamilyHandle** families, const Slice* keys,
                             rocksdb::PinnableWideColumns* results, Status* statuses, bool sorted_input) {
  DBImpl::MultiGetEntity(ForMemTables(options), count, families, keys, results, statuses, sorted_input);
}

void CairnDB::MultiGetEntity(const ReadOptions& options, ColumnFamilyHandle* family, size_t count, const Slice* keys,
                             rocksdb::PinnableWideColumns* results, Status* statuses, bool sorted_input) {
  DBImpl::MultiGetEntity(ForMemTables(options), family, count, keys, results, statuses, sorted_input);
}

void CairnDB::MultiGetEntity(const ReadOptions& options, size_t count, const Slice* keys,
                             rocksdb::PinnableAttributeGroups* results) {
  DBImpl::MultiGetEntity(ForMemTables(options), count, keys, results);
}

Status CairnDB::GetEntity(const ReadOptions& options, const Slice& key, rocksdb::PinnableAttributeGroups* result) {
  return DBImpl::GetEntity(ForMemTables(options), key, result);
}

// Rule D4.
Status CairnDB::CheckIngestion(const std::vector<rocksdb::IngestExternalFileArg>& arguments) {
  for (const rocksdb::IngestExternalFileArg& argument : arguments) {
    if (argument.column_family == nullptr || !port::ReplacesRange(argument)) continue;
    const Status s = CheckRangesMean("IngestExternalFile with atomic_replace_range", argument.column_family);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status CairnDB::IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& args) {
  const Status s = CheckIngestion(args);
  if (!s.ok()) return s;
  std::vector<uint32_t> families;
  for (const rocksdb::IngestExternalFileArg& arg : args) {
    if (arg.column_family != nullptr) families.push_back(arg.column_family->GetID());
  }
  const DatabaseCache::ChangeScope change(services()->cache(), std::move(families));
  return DBImpl::IngestExternalFiles(args);
}

void CairnDB::WhileFilesChange(const std::function<void()>& change) {
  const DatabaseCache::ChangeAllScope scope(services()->cache());
  change();
}

// Without a WAL a batch is torn that a family has on disk and another in memory, so atomic_flush flushes all.
Status CairnDB::FlushForCompaction(const rocksdb::CompactRangeOptions& options, ColumnFamilyHandle* family) {
  rocksdb::FlushOptions flush;
  flush.allow_write_stall = options.allow_write_stall;
  if (!immutable_db_options_.atomic_flush) return DBImpl::Flush(flush, family);
  const rocksdb::InstrumentedMutexLock lock(&mutex_);
  return FlushAllColumnFamilies(flush, rocksdb::FlushReason::kManualCompaction);
}

// As RocksDB's, that of what is in memory included.
Status CairnDB::CompactRange(const rocksdb::CompactRangeOptions& options, ColumnFamilyHandle* family,
                             const Slice* begin, const Slice* end) {
  const bool in_hash_order = HashOfComparator(family->GetComparator()) != nullptr;
  if (!IsTrie(family)) {
    if (in_hash_order && (begin != nullptr || end != nullptr)) {
      return Status::NotSupported("CompactRange of a part of column family " + family->GetName(),
                                  "a range has no meaning in hash order; leave begin and end out");
    }
    // RocksDB would make the SortedStore a HashStore, of another kind and without their filter.
    if (options.change_level && options.target_level == 0 && IsSilt(DBImpl::GetOptions(family), nullptr)) {
      return Status::NotSupported(
          "CompactRange of the SILT store " + family->GetName() + " with change_level to level 0",
          "level 0 is of its HashStores, and the SortedStore stays in level 1; leave change_level out");
    }
    return DBImpl::CompactRange(options, family, begin, end);
  }
  if (in_hash_order && (begin != nullptr || end != nullptr)) {
    return Status::NotSupported("CompactRange of a part of the trie " + family->GetName(),
                                "a range has no meaning in hash order; leave begin and end out, or name a container "
                                "(cairn::CompactTrie, cairn compact)");
  }
  if (options.change_level || options.target_path_id != 0) {
    return Status::NotSupported(
        "CompactRange of the trie " + family->GetName() + " with change_level or target_path_id",
        "a trie's levels are its slots");
  }
  // RocksDB looks before it knows whether there is anything to compact.
  if ((options.canceled != nullptr && options.canceled->load()) || services()->manual_compaction_paused()) {
    return Status::Incomplete(Status::SubCode::kManualCompactionPaused);
  }
  const Status s = FlushForCompaction(options, family);
  if (!s.ok()) return s;
  TrieCompactOptions compact;
  compact.rewrite = RewritesAll(options, GetOptions(family));
  compact.canceled = options.canceled;
  return CompactTrieRange(this, family, begin, end, compact,
                          {options.blob_garbage_collection_policy, options.blob_garbage_collection_age_cutoff});
}

Status CairnDB::CompactFiles(const rocksdb::CompactionOptions& options, ColumnFamilyHandle* family,
                             const std::vector<std::string>& inputs, const int output_level, const int output_path,
                             std::vector<std::string>* const outputs, rocksdb::CompactionJobInfo* info) {
  if (family == nullptr) return Status::InvalidArgument("ColumnFamilyHandle must be non-null.");
  {
    const rocksdb::InstrumentedMutexLock lock(&mutex_);
    rocksdb::ColumnFamilyData* const data = static_cast<rocksdb::ColumnFamilyHandleImpl*>(family)->cfd();
    const Status s = CheckCompactFiles(*data, *data->current(), inputs, output_level);
    if (!s.ok()) return s;
  }
  return DBImpl::CompactFiles(options, family, inputs, output_level, output_path, outputs, info);
}

// RocksDB marks the tables, and a trie has pickers of its own.
Status CairnDB::SuggestCompactRange(ColumnFamilyHandle* family, const Slice* begin, const Slice* end) {
  const bool all = begin == nullptr && end == nullptr;
  const Status s = all ? Status::OK() : CheckRangesMean("SuggestCompactRange of a part", family);
  if (!s.ok()) return s;
  const auto scheduler = IsTrie(family) ? TrieScheduler::Attach(this) : nullptr;
  return scheduler == nullptr ? DBImpl::SuggestCompactRange(family, begin, end)
                              : scheduler->Suggest(family, begin, end);
}

// RocksDB deletes files before it deletes ranges, so half of it would be done before it is refused.
Status CairnDB::ClipColumnFamily(ColumnFamilyHandle* family, const Slice& begin, const Slice& end) {
  const Status s = CheckRangesMean("ClipColumnFamily", family);
  if (!s.ok()) return s;
  if (services()->durable() != nullptr) {
    return Status::NotSupported("ClipColumnFamily with durable memtables", "range deletions bypass the pool");
  }
  return DBImpl::ClipColumnFamily(family, begin, end);
}

Status CairnDB::ChangeOptions(const port::FamilyChanges& given) {
  port::FamilyChanges changes = given;
  for (auto& [family, options] : changes) {
    const rocksdb::Options current = DBImpl::GetOptions(family);
    options = ByNamesOfTables(current, options);
    const Status s = CheckSetOptions(current, family->GetName(), *services(), options);
    if (!s.ok()) return s;
    if (services()->fast_writes() != nullptr && options.count("max_successive_merges") > 0) {
      services()->fast_writes()->QueueMerges();
    }
  }
  const Status set = SetRocksdbOptions(changes);
  if (services()->cache() != nullptr) services()->cache()->NoteFiles();
  const auto scheduler = TrieScheduler::Find(this);
  if (!set.ok() || scheduler == nullptr) return set;
  for (const auto& [family, options] : changes) {
    scheduler->SetAutomatic(family->GetID(), !DBImpl::GetOptions(family).disable_auto_compactions);
    scheduler->OnFlush(family->GetID());  // others may make something due, too
  }
  return set;
}

void CairnDB::CompactionsAborted() {
  const auto scheduler = TrieScheduler::Find(this);
  if (scheduler != nullptr) scheduler->Pause();
}

void CairnDB::CompactionsResumed() {
  const auto scheduler = TrieScheduler::Find(this);
  if (scheduler != nullptr) scheduler->Continue();
}

Status CairnDB::CreateColumnFamilyWithImport(const rocksdb::ColumnFamilyOptions& options, const std::string& name,
                                             const rocksdb::ImportColumnFamilyOptions& import_options,
                                             const std::vector<const rocksdb::ExportImportFilesMetaData*>& files,
                                             ColumnFamilyHandle** handle) {
  // RocksDB leaves out files of levels that the column family does not have.
  for (const rocksdb::ExportImportFilesMetaData* metadata : files) {
    if (metadata->db_comparator_name != options.comparator->Name()) continue;  // refused for that
    for (const rocksdb::LiveFileMetaData& file : metadata->files) {
      if (file.level < options.num_levels) continue;
      *handle = nullptr;
      return Status::InvalidArgument("import of " + file.name + " into column family " + name,
                                     "the file is of level " + std::to_string(file.level) + ", and num_levels is " +
                                         std::to_string(options.num_levels));
    }
  }
  rocksdb::ColumnFamilyOptions with_seed = options;
  if (!files.empty()) AdoptSeed(files[0]->db_comparator_name, &with_seed);
  return DBImpl::CreateColumnFamilyWithImport(with_seed, name, import_options, files, handle);
}

// RocksDB looks for tables that may be compacted now; so do tries.
void CairnDB::ReleaseSnapshot(const rocksdb::Snapshot* snapshot) {
  const uint64_t sequence = snapshot == nullptr ? 0 : snapshot->GetSequenceNumber();
  DBImpl::ReleaseSnapshot(snapshot);
  const auto scheduler = snapshot == nullptr ? nullptr : TrieScheduler::Find(this);
  if (scheduler != nullptr) scheduler->OnSnapshotReleased(sequence);
}

void CairnDB::DisableManualCompaction() {
  services()->CountManualPause(1);
  DBImpl::DisableManualCompaction();
}

void CairnDB::EnableManualCompaction() {
  DBImpl::EnableManualCompaction();
  services()->CountManualPause(-1);
}

Status CairnDB::PauseBackgroundWork() {
  const auto scheduler = TrieScheduler::Find(this);
  if (scheduler != nullptr) scheduler->Pause();
  Status s = DBImpl::PauseBackgroundWork();
  if (!s.ok() && scheduler != nullptr) scheduler->Continue();
  return s;
}

Status CairnDB::ContinueBackgroundWork() {
  Status s = DBImpl::ContinueBackgroundWork();
  const auto scheduler = TrieScheduler::Find(this);
  if (s.ok() && scheduler != nullptr) scheduler->Continue();
  return s;
}

Status CairnDB::WaitForCompact(const rocksdb::WaitForCompactOptions& options) {
  const auto scheduler = TrieScheduler::Find(this);
  if (scheduler == nullptr) return DBImpl::WaitForCompact(options);
  rocksdb::SystemClock* const clock = immutable_db_options_.clock;
  const uint64_t timeout = static_cast<uint64_t>(options.timeout.count());
  const uint64_t deadline = clock->NowMicros() + timeout;
  rocksdb::WaitForCompactOptions wait = options;
  wait.close_db = false;
  wait.flush = options.flush || options.close_db;
  // A flush gives the trie something to compact, so the trie comes last; a flush that began meanwhile is another round.
  for (uint64_t flushing = 1; flushing > 0;) {
    Status s = DBImpl::WaitForCompact(wait);
    if (!s.ok()) return s;
    wait.flush = false;
    uint64_t left = 0;
    if (timeout > 0) {
      const uint64_t now = clock->NowMicros();
      if (now >= deadline) return Status::TimedOut("compactions are still at work");
      left = deadline - now;
      wait.timeout = std::chrono::microseconds(left);
    }
    s = scheduler->WaitUntilIdle(left);
    if (!s.ok()) return s;
    flushing = 0;
    DBImpl::GetAggregatedIntProperty(rocksdb::DB::Properties::kNumRunningFlushes, &flushing);
  }
  return options.close_db ? Close() : Status::OK();
}

bool CairnDB::GetMapProperty(ColumnFamilyHandle* family, const Slice& property,
                             std::map<std::string, std::string>* value) {
  if (services()->fast_writes() != nullptr) services()->fast_writes()->Report();
  return DBImpl::GetMapProperty(family, property, value);
}

Status CairnDB::ResetStats() {
  if (services()->fast_writes() != nullptr) services()->fast_writes()->Report();
  return DBImpl::ResetStats();
}

bool CairnDB::GetProperty(ColumnFamilyHandle* family, const Slice& property, std::string* value) {
  if (services()->fast_writes() != nullptr) services()->fast_writes()->Report();
  if (IsOfTries(property)) {
    uint64_t number = 0;
    const bool found = GetIntProperty(family, property, &number);
    *value = std::to_string(number);
    return found;
  }
  if (property == "cairn.environment_options") {
    *value = services()->environment() == nullptr ? "" : services()->environment()->Describe(family->GetName());
    return !value->empty();
  }
  const bool cache_as_json = property == "cairn.result_cache.json";
  if (cache_as_json || property == "cairn.result_cache") {
    if (services()->cache() == nullptr) return false;
    const DatabaseCacheStats stats = services()->cache()->GetStats();
    *value = cache_as_json ? DatabaseCacheStatsToJson(stats) : DatabaseCacheStatsToTable(stats);
    return true;
  }
  const bool table = property == "cairn.stats";
  if (!table && property != "cairn.stats.json") return DBImpl::GetProperty(family, property, value);
  *value = StatsText(this, family, table);
  SubMemTableStats memtable;
  if (table && GetSubMemTableStats(*DBImpl::GetOptions(family).memtable_factory, &memtable).ok()) {
    *value += SubMemTableStatsToTable(memtable);
    if (services()->fast_writes() != nullptr) *value += services()->fast_writes()->ToText();
  }
  if (value->empty()) return false;
  const std::string version = Version();
  if (table) {
    value->insert(0, "Cairn " + version + ", RocksDB " + rocksdb::GetRocksVersionAsString() + "\n");
  } else {
    value->insert(1, "\"version\":\"" + version + "\",");  // behind the brace
  }
  return true;
}

bool CairnDB::GetIntProperty(ColumnFamilyHandle* family, const Slice& property, uint64_t* value) {
  if (!DBImpl::GetIntProperty(family, property, value)) return false;
  const auto scheduler = IsOfTries(property) ? TrieScheduler::Find(this) : nullptr;
  if (scheduler != nullptr) AddActivity(property, scheduler.get(), family->GetID(), value);
  return true;
}

bool CairnDB::GetAggregatedIntProperty(const Slice& property, uint64_t* value) {
  if (!DBImpl::GetAggregatedIntProperty(property, value)) return false;
  const auto scheduler = IsOfTries(property) ? TrieScheduler::Find(this) : nullptr;
  // RocksDB adds a property of the database up over its column families; what tries do is counted once.
  if (scheduler != nullptr) AddActivity(property, scheduler.get(), TrieScheduler::kAllFamilies, value);
  return true;
}

// What the user gave: options that are taken from one database and given to another must not bring its services along.
rocksdb::Options CairnDB::GetOptions(ColumnFamilyHandle* family) const {
  rocksdb::Options options = DBImpl::GetOptions(family);
  DatabaseLookups::RemoveFrom(&options.listeners);
  return options;
}

DBOptions CairnDB::GetDBOptions() const {
  DBOptions options = DBImpl::GetDBOptions();
  DatabaseLookups::RemoveFrom(&options.listeners);
  return options;
}

Status CairnDB::SyncWAL() {
  DurableWrites* const durable = services()->durable();
  return durable == nullptr ? DBImpl::SyncWAL() : durable->Sync(this);
}

Status CairnDB::FlushWAL(const rocksdb::WriteOptions& options, bool sync) {
  DurableWrites* const durable = services()->durable();
  if (durable == nullptr) return DBImpl::FlushWAL(options, sync);
  return sync ? durable->Sync(this) : Status::OK();
}

Status CairnDB::LockWAL() {
  const Status s = DBImpl::LockWAL();
  if (s.ok() && services()->durable() != nullptr) services()->durable()->CountWalLock(1);
  return s;
}

Status CairnDB::UnlockWAL() {
  const Status s = DBImpl::UnlockWAL();
  if (s.ok() && services()->durable() != nullptr) services()->durable()->CountWalLock(-1);
  return s;
}

// Live files without what the pool file holds would lack acknowledged writes: there is no WAL to copy beside them.
Status CairnDB::GetLiveFiles(std::vector<std::string>& files, uint64_t* manifest_bytes, bool flush_memtable) {
  DurableWrites* const durable = services()->durable();
  if (durable == nullptr) return DBImpl::GetLiveFiles(files, manifest_bytes, flush_memtable);
  const Status s = durable->CheckWalUnlocked();
  return s.ok() ? DBImpl::GetLiveFiles(files, manifest_bytes, true) : s;
}

Status CairnDB::GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& options,
                                        std::vector<rocksdb::LiveFileStorageInfo>* files) {
  DurableWrites* const durable = services()->durable();
  if (durable == nullptr) return DBImpl::GetLiveFilesStorageInfo(options, files);
  const Status s = durable->CheckWalUnlocked();
  if (!s.ok()) return s;
  rocksdb::LiveFilesStorageInfoOptions flushed = options;
  flushed.wal_size_for_flush = 0;
  return DBImpl::GetLiveFilesStorageInfo(flushed, files);
}

Status CairnDB::GetUpdatesSince(rocksdb::SequenceNumber sequence,
                                std::unique_ptr<rocksdb::TransactionLogIterator>* updates,
                                const rocksdb::TransactionLogIterator::ReadOptions& options) {
  if (services()->durable() == nullptr) return DBImpl::GetUpdatesSince(sequence, updates, options);
  return Status::NotSupported(
      "GetUpdatesSince with durable memtables",
      "there is no WAL that holds the updates; replicate by checkpoints or backups, or turn durable off");
}

}  // namespace cairn
