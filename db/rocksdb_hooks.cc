// The definitions that take the place of RocksDB's. Each begins by asking whether the part concerned is used
// (db/uses_part.h); rocksdb/rocksdb_hooks.txt says why there is each.

#include "rocksdb/port/rocksdb_own.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/cairn_db.h"
#include "db/column_family.h"
#include "db/db_impl/db_impl_secondary.h"
#include "db/external_sst_file_ingestion_job.h"
#include "db/opening.h"
#include "db/stored_seed.h"
#include "db/uses_part.h"
#include "memtable_cache/flush_scope.h"
#include "memtable_cache/tailing.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/compaction.h"
#include "rocksdb/port/family_options.h"
#include "table/hash_order/batches.h"
#include "table/hash_order/hash_merge.h"
#include "table/hash_order/hash_order.h"
#include "table/ordered/ordered_lookup.h"
#include "table/silt/silt_lookup.h"
#include "table/silt/silt_merges.h"
#include "table/silt/silt_table.h"
#include "trie_table/compaction/compaction_inputs.h"
#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/table_moves.h"
#include "trie_table/compaction/trie_ingestion.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "util/cairn_parts.h"

// Nothing but the linker refers to what is defined here; db/register.cc does, so that the file is linked from an
// archive, too.
extern "C" {
extern const int cairn_rocksdb_hooks;
const int cairn_rocksdb_hooks = 1;

// The constructor of a whole DBImpl object (its mangled name, of the standard library's present ABI). Only DBImpl::Open
// and RepairDB construct one; derived classes use another symbol.
// clang-format off
void CairnConstructDBImpl(void* at, const rocksdb::DBOptions& options, const std::string& path, bool seq_per_batch,
                          bool batch_per_txn, bool read_only)
    asm("_ZN7rocksdb6DBImplC1ERKNS_9DBOptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEbbb");
// clang-format on

__attribute__((visibility("default"))) void CairnConstructDBImpl(void* at, const rocksdb::DBOptions& options,
                                                                 const std::string& path, bool seq_per_batch,
                                                                 bool batch_per_txn, bool read_only) {
  if (cairn::DatabaseServices::In(options) == nullptr) {
    return cairn::rocksdb_own::ConstructDBImpl(at, options, path, seq_per_batch, batch_per_txn, read_only);
  }
  new (at) cairn::CairnDB(options, path, seq_per_batch, batch_per_txn, read_only);
}
}

namespace cairn {
namespace {

// What MoveTables hands to PromoteL0 on the thread that calls both.
thread_local const std::vector<TableMove>* moves_of_thread = nullptr;

// Whether a table of level 1 or more and a neighbour there have versions of one key: compactions of RocksDB cut there
// where snapshots keep them. By itself one of them would come below what is older, or above what is newer.
bool SharesKeyWithNeighbor(const rocksdb::Comparator* order, const std::vector<rocksdb::FileMetaData*>& level,
                           size_t at) {
  const auto meet = [&](size_t left) {
    return rocksdb::sstableKeyCompare(order, level[left]->largest, level[left + 1]->smallest) >= 0;
  };
  return (at > 0 && meet(at - 1)) || (at + 1 < level.size() && meet(at));
}

// Which tables of level 0 have keys in common with another one of it, by their places.
std::vector<bool> TablesOverOthers(const rocksdb::Comparator* order, const std::vector<rocksdb::FileMetaData*>& root) {
  std::vector<size_t> places(root.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = i;
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return order->Compare(root[a]->smallest.user_key(), root[b]->smallest.user_key()) < 0;
  });
  std::vector<bool> over(root.size());
  size_t furthest = 0;  // of the tables before, the one that ends last
  for (size_t i = 0; i < places.size(); ++i) {
    const rocksdb::Slice largest = root[places[i]]->largest.user_key();
    if (i > 0 && order->Compare(root[furthest]->largest.user_key(), root[places[i]]->smallest.user_key()) >= 0) {
      over[furthest] = over[places[i]] = true;
    }
    if (i == 0 || order->Compare(root[furthest]->largest.user_key(), largest) < 0) furthest = places[i];
  }
  return over;
}

// The tables, in the order of the moves. REQUIRES: the DB mutex.
rocksdb::Status FindMovableTables(rocksdb::ColumnFamilyData* family, const std::vector<TableMove>& moves,
                                  std::vector<rocksdb::FileMetaData*>* tables) {
  rocksdb::VersionStorageInfo* const storage = family->current()->storage_info();
  const rocksdb::Comparator* const order = family->user_comparator();
  std::vector<bool> over;
  if (std::any_of(moves.begin(), moves.end(), [](const TableMove& move) { return move.from == 0; })) {
    over = TablesOverOthers(order, storage->LevelFiles(0));
  }
  for (const TableMove& move : moves) {
    const auto place = storage->GetFileLocation(move.number);
    if (!place.IsValid() || place.GetLevel() != move.from) return rocksdb::Status::Aborted("the table is elsewhere");
    rocksdb::FileMetaData* const table = storage->LevelFiles(move.from)[place.GetPosition()];
    if (table->being_compacted) return rocksdb::Status::Aborted("the table is being compacted");
    if (move.from > 0 && SharesKeyWithNeighbor(order, storage->LevelFiles(move.from), place.GetPosition())) {
      return rocksdb::Status::Aborted("a neighbour has versions of the same key");
    }
    const rocksdb::Slice smallest = table->smallest.user_key();
    const rocksdb::Slice largest = table->largest.user_key();
    for (int level = move.from + 1; level <= move.to; ++level) {
      std::vector<rocksdb::FileMetaData*> below;
      storage->GetOverlappingInputs(level, &table->smallest, &table->largest, &below, -1, nullptr, false);
      if (!below.empty() || family->RangeOverlapWithCompaction(smallest, largest, level)) {
        return rocksdb::Status::Aborted("a table or a compaction lies in the way");
      }
    }
    // Level 0 is ordered by age, newest first: what lies over older tables of it cannot pass them.
    const auto& root = storage->LevelFiles(0);
    const bool may_pass = move.from != 0 || !over[place.GetPosition()];
    for (size_t i = place.GetPosition() + 1; !may_pass && i < root.size(); ++i) {
      if (order->Compare(root[i]->smallest.user_key(), largest) <= 0 &&
          order->Compare(root[i]->largest.user_key(), smallest) >= 0) {
        return rocksdb::Status::Aborted("an older table of level 0 lies in the way");
      }
    }
    tables->push_back(table);
  }
  return rocksdb::Status::OK();
}

// Those that can be removed now. Whatever reads without a snapshot reads the newest Version, or holds an older one; a
// snapshot reads any later one, too. What a removed table itself deletes is older than the range deletion, which covers
// it as well, and stays until nothing lies under it. REQUIRES: the DB mutex.
void FindDroppableTables(rocksdb::ColumnFamilyData* family, const std::vector<TableMove>& drops,
                         const std::vector<rocksdb::SequenceNumber>& snapshots,
                         std::vector<rocksdb::FileMetaData*>* tables, std::vector<TableMove>* droppable) {
  rocksdb::VersionStorageInfo* const storage = family->current()->storage_info();
  for (const TableMove& drop : drops) {
    const auto place = storage->GetFileLocation(drop.number);
    const auto deletes = storage->GetFileLocation(drop.deleted_by);
    if (!place.IsValid() || place.GetLevel() != drop.from) continue;
    if (!deletes.IsValid() || deletes.GetLevel() >= drop.from) continue;
    rocksdb::FileMetaData* const table = storage->LevelFiles(drop.from)[place.GetPosition()];
    const bool seen = std::any_of(snapshots.begin(), snapshots.end(), [&](rocksdb::SequenceNumber snapshot) {
      return snapshot < drop.deleted_at && snapshot >= table->fd.smallest_seqno;
    });
    if (seen || table->being_compacted || table->fd.largest_seqno >= drop.deleted_at) continue;
    tables->push_back(table);
    droppable->push_back(drop);
  }
}

// Of a store without partitions, whether it has its two levels: what else it takes SiltTables look at.
bool IsSiltStore(rocksdb::Version* version) {
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  if (storage.num_non_empty_levels() == 0) return false;
  if (port::ImmutableOptionsOf(*version->cfd()).sst_partitioner_factory == nullptr) {
    return storage.num_levels() == kSiltLevels;
  }
  const rocksdb::TableFactory& tables = *version->GetMutableCFOptions().table_factory;
  return typeid(tables) == typeid(SiltTableFactory);
}

// Null: the database has none.
DatabaseLookups* LookupsOf(rocksdb::Version* version) {
  return DatabaseLookups::In(version->version_set()->db_options()->listeners);
}

// Null: the column family is no trie, or its database has none. A SILT store's tables have none.
VersionFilters* FiltersOf(rocksdb::Version* version) {
  if (port::ImmutableOptionsOf(*version->cfd()).sst_partitioner_factory == nullptr) return nullptr;
  DatabaseLookups* const lookups = LookupsOf(version);
  return lookups == nullptr ? nullptr : lookups->version_filters();
}

// Null: the database has none.
SiltLookups* SiltLookupsOf(rocksdb::Version* version) {
  DatabaseLookups* const lookups = LookupsOf(version);
  return lookups == nullptr ? nullptr : lookups->silt_lookups();
}

OrderedLookups* OrderedLookupsOf(rocksdb::Version* version) {
  DatabaseLookups* const lookups = LookupsOf(version);
  return lookups == nullptr ? nullptr : lookups->ordered_lookups();
}

// The memtables that the column families have when it is made, of which the newest are named.
// REQUIRES: the DB mutex, in the destructor, too.
class MemtablesOfFamilies {
 public:
  explicit MemtablesOfFamilies(rocksdb::ColumnFamilySet* families) {
    for (rocksdb::ColumnFamilyData* const family : *families) {
      if (family->IsDropped() || !family->initialized()) continue;
      family->Ref();
      families_.push_back(family);
      numbers_.push_back(family->mem()->IsEmpty() ? family->imm()->GetLatestMemTableID(/*for_atomic_flush=*/false)
                                                  : family->mem()->GetID());
    }
    for (const uint64_t& number : numbers_) newest_.push_back(&number);
  }
  ~MemtablesOfFamilies() {
    for (rocksdb::ColumnFamilyData* const family : families_) family->UnrefAndTryDelete();
  }
  MemtablesOfFamilies(const MemtablesOfFamilies&) = delete;
  MemtablesOfFamilies& operator=(const MemtablesOfFamilies&) = delete;

  const rocksdb::autovector<rocksdb::ColumnFamilyData*>& families() const { return families_; }
  // In the order of the families.
  const rocksdb::autovector<const uint64_t*>& newest() const { return newest_; }

 private:
  rocksdb::autovector<rocksdb::ColumnFamilyData*> families_;
  std::vector<uint64_t> numbers_;
  rocksdb::autovector<const uint64_t*> newest_;
};

// Does what Version::Get does for tables whose filters a lookup may ask all at once; false: it has not.
bool GetByTheirFilters(rocksdb::Version* version, const VersionRequest& request) {
  if (IsSiltStore(version)) {
    SiltLookups* const lookups = SiltLookupsOf(version);
    if (lookups != nullptr && lookups->Get(version, request)) return true;
  } else if (VersionFilters* const filters = FiltersOf(version); filters != nullptr) {
    if (filters->Get(version, request)) return true;
  }
  OrderedLookups* const ordered = OrderedLookupsOf(version);
  return ordered != nullptr && ordered->Get(version, request);
}

// Version::Get of Cairn's tables: a trie's are asked as its VersionFilter says; those of a SILT store and ordered ones,
// too, by what asks their filters together. Apart, so that Version::Get of other tables ends in a jump.
__attribute__((noinline)) void GetFromCairnTables(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                                                  const rocksdb::LookupKey& key, rocksdb::PinnableSlice* value,
                                                  rocksdb::PinnableWideColumns* columns, std::string* timestamp,
                                                  rocksdb::Status* status, rocksdb::MergeContext* merge_context,
                                                  rocksdb::SequenceNumber* max_covering_tombstone_seq,
                                                  rocksdb::PinnedIteratorsManager* pinned_iterators, bool* value_found,
                                                  bool* key_exists, rocksdb::SequenceNumber* sequence,
                                                  rocksdb::ReadCallback* callback, bool* is_blob, bool do_merge) {
  // A range tombstone of a memtable covers what is in tables; the others want more than a value.
  const bool plain =
      *max_covering_tombstone_seq == 0 && timestamp == nullptr && key_exists == nullptr && sequence == nullptr;
  if (plain) {
    const VersionRequest request{
        options,          key,         value,    columns, status,  merge_context, max_covering_tombstone_seq,
        pinned_iterators, value_found, callback, is_blob, do_merge};
    if (GetByTheirFilters(version, request)) return;
  }
  rocksdb_own::VersionGet(version, options, key, value, columns, timestamp, status, merge_context,
                          max_covering_tombstone_seq, pinned_iterators, value_found, key_exists, sequence, callback,
                          is_blob, do_merge);
}

}  // namespace

rocksdb::Status MoveTables(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family,
                           const std::vector<TableMove>& moves) {
  moves_of_thread = &moves;
  const rocksdb::Status s = db->PromoteL0(family, 1);
  moves_of_thread = nullptr;
  return s;
}

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

Status DBImpl::Open(const DBOptions& options, const std::string& path,
                    const std::vector<ColumnFamilyDescriptor>& families, std::vector<ColumnFamilyHandle*>* handles,
                    cairn::port::OpenedDb* db, const bool seq_per_batch, const bool batch_per_txn, const bool is_retry,
                    bool* can_retry) {
  const cairn::OpenFunction open = [&](const DBOptions& with, const std::vector<ColumnFamilyDescriptor>& resolved,
                                       std::vector<ColumnFamilyHandle*>* given, DB** opened) {
    return own::DBImplOpen(with, path, resolved, given, cairn::port::Into(opened), seq_per_batch, batch_per_txn,
                           is_retry, can_retry);
  };
  DB* opened = nullptr;
  const Status s = cairn::OpenDatabase(options, path, families, seq_per_batch, open, handles, &opened);
  cairn::port::Set(db, opened);
  return s;
}

Status DBImpl::WriteImpl(const WriteOptions& options, WriteBatch* batch, WriteCallback* callback,
                         UserWriteCallback* user_write_callback, uint64_t* log_used, uint64_t log_ref,
                         bool disable_memtable, uint64_t* seq_used, size_t batch_count,
                         PreReleaseCallback* pre_release_callback, PostMemTableCallback* post_memtable_callback,
                         std::shared_ptr<WriteBatchWithIndex> wbwi, CAIRN_MORE_WRITE_PARAMETERS) {
  if (!cairn::UsesCairn(this)) {
    return own::WriteImpl(this, options, batch, callback, user_write_callback, log_used, log_ref, disable_memtable,
                          seq_used, batch_count, pre_release_callback, post_memtable_callback, std::move(wbwi),
                          CAIRN_MORE_WRITE_ARGUMENTS);
  }
  cairn::CairnDB* const ours = cairn::CairnDB::Of(this);
  cairn::FastWrites* const fast = ours->services()->fast_writes();
  // What does not go to memtables becomes readable with another write, at commit.
  cairn::DatabaseCache* const cache = disable_memtable ? nullptr : ours->services()->cache();
  if (fast == nullptr && ours->services()->durable() == nullptr && wbwi == nullptr &&
      (cache == nullptr || !cache->in_file())) {
    const Status s = ours->CheckBatch(batch);
    if (!s.ok()) return s;
    const cairn::DatabaseCache::WriteScope scope(cache, batch);
    return own::WriteImpl(this, options, batch, callback, user_write_callback, log_used, log_ref, disable_memtable,
                          seq_used, batch_count, pre_release_callback, post_memtable_callback, nullptr,
                          CAIRN_MORE_WRITE_ARGUMENTS);
  }
  if (fast != nullptr && !fast->IsReady()) {
    const auto stop = [this](const Status& s) {
      const InstrumentedMutexLock lock(&mutex_);
      error_handler_.SetBGError(s, BackgroundErrorReason::kMemTable);
    };
    // Inside the gate, where neither WALs nor column families change.
    const auto log = [this](const WriteBatch& record) {
      cairn::FastWrites::Logged logged;
      CAIRN_WAL_MUTEX.Lock();
      log::Writer* const writer = logs_.back().writer;
      auto& wal = CAIRN_LIVE_WALS.back();
      CAIRN_WAL_MUTEX.Unlock();
      const IOStatus s =
          WriteToWAL(record, WriteOptions(), writer, nullptr, &logged.bytes, wal CAIRN_MORE_WAL_ARGUMENTS(record));
      if (!s.ok()) WALIOStatusCheck(s);
      logged.status = s;
      logged.switch_due =
          CAIRN_WAL_BYTES > GetMaxTotalWalSize() && versions_->GetColumnFamilySet()->NumberOfColumnFamilies() > 1;
      return logged;
    };
    // Without these checks a failed write is not the last; with a flush by the program others may write to the WAL.
    const bool logs = immutable_db_options_.paranoid_checks && !immutable_db_options_.manual_wal_flush;
    fast->Use({&versions_->last_sequence_, versions_->GetColumnFamilySet(), &error_handler_, &write_controller_,
               write_buffer_manager_, &flush_scheduler_, &trim_history_scheduler_, default_cf_internal_stats_, stats_,
               immutable_db_options_.clock, &has_unpersisted_data_, &CAIRN_WAL_NUMBER, &tracer_, stop,
               logs ? log : std::function<cairn::FastWrites::Logged(const WriteBatch&)>()});
  }
  const bool plain = batch != nullptr && callback == nullptr && user_write_callback == nullptr && log_ref == 0 &&
                     !disable_memtable && pre_release_callback == nullptr && post_memtable_callback == nullptr &&
                     wbwi == nullptr;
  const auto write = [&](const WriteOptions& with, uint64_t* log, uint64_t* sequence) {
    Status s;
    if (fast != nullptr &&
        fast->Write(plain ? cairn::FastWrites::kNone : cairn::FastWrites::kCall, with, batch, log, sequence, &s)) {
      return s;
    }
    const cairn::WriteGate::Exclusive queue(fast == nullptr ? nullptr : fast->gate());
    s = own::WriteImpl(this, with, batch, callback, user_write_callback, log, log_ref, disable_memtable, sequence,
                       batch_count, pre_release_callback, post_memtable_callback, std::move(wbwi),
                       CAIRN_MORE_WRITE_ARGUMENTS);
    if (fast != nullptr) fast->NoteQueued();
    return s;
  };
  if (cache == nullptr) {
    return ours->WriteChecked(options, batch, wbwi != nullptr,
                              [&](const WriteOptions& with) { return write(with, log_used, seq_used); });
  }
  if (wbwi != nullptr) {
    cache->Stop("a transaction has commit_bypass_memtable, and reads beside its commit may find what is older");
  }
  cairn::DatabaseCache::WriteScope scope(cache, batch);
  const bool in_file = cache->in_file();
  uint64_t wal = 0;  // RocksDB does not say it to followers of a group of pipelined writes
  uint64_t sequence = kMaxSequenceNumber;
  bool logged = false;
  const Status s = ours->WriteChecked(options, batch, wbwi != nullptr, [&](const WriteOptions& with) {
    // The keys of a commit in two phases are in another WAL, that of its first phase.
    logged = !with.disableWAL && log_ref == 0;
    return write(with, in_file ? &wal : log_used, in_file ? &sequence : seq_used);
  });
  if (!in_file) return s;
  scope.Written(s, logged && sequence != kMaxSequenceNumber ? wal : 0, sequence);
  if (log_used != nullptr && wal != 0) *log_used = wal;
  if (seq_used != nullptr && sequence != kMaxSequenceNumber) *seq_used = sequence;
  return s;
}

// With WriteImpl the only way to the front of the queue, and so to what changes memtables or sequence numbers.
void WriteThread::EnterUnbatched(Writer* writer, InstrumentedMutex* mutex) {
  cairn::FastWrites* const fast = cairn::UsesFastWrites(this);
  if (fast == nullptr) return own::EnterUnbatched(this, writer, mutex);
  mutex->Unlock();  // a writer in the gate may want it
  fast->gate()->Close();
  mutex->Lock();
  own::EnterUnbatched(this, writer, mutex);
}

void WriteThread::ExitUnbatched(Writer* writer) {
  cairn::FastWrites* const fast = cairn::UsesFastWrites(this);
  if (fast == nullptr) return own::ExitUnbatched(this, writer);
  fast->Report();
  own::ExitUnbatched(this, writer);
  fast->gate()->Leave();
}

void DBImpl::DumpStats() {
  if (cairn::UsesCairn(this)) {
    cairn::FastWrites* const fast = cairn::CairnDB::Of(this)->services()->fast_writes();
    if (fast != nullptr) fast->Report();
  }
  own::DumpStats(this);
}

// RocksDB lists live files when it has flushed one column family after the other. What is written meanwhile is in some
// of them, but in the WAL, too. Durable memtables have none. So what has been written during a first round is flushed
// while writers wait, and a batch over several column families is there as a whole or not at all.
Status DBImpl::FlushAllColumnFamilies(const FlushOptions& options, FlushReason reason) {
  if (!cairn::UsesDurablePool(this) || reason != FlushReason::kGetLiveFiles) {
    return own::FlushAllColumnFamilies(this, options, reason);
  }
  mutex_.AssertHeld();
  if (immutable_db_options_.atomic_flush) {
    // RocksDB may ask of one family whether another's memtable is flushed, and not wait for its own.
    const cairn::MemtablesOfFamilies memtables(versions_->GetColumnFamilySet());
    const Status s = own::FlushAllColumnFamilies(this, options, reason);
    if (!s.ok()) return s;
    mutex_.Unlock();
    const Status flushed =
        WaitForFlushMemTables(memtables.families(), memtables.newest(), /*resuming_from_bg_err=*/false, reason);
    mutex_.Lock();
    return flushed;
  }
  Status s = own::FlushAllColumnFamilies(this, options, reason);
  if (!s.ok() || versions_->GetColumnFamilySet()->NumberOfColumnFamilies() == 1) return s;
  FlushOptions at_once = options;
  at_once.allow_write_stall = true;  // nobody writes
  WriteThread::Writer writer;
  write_thread_.EnterUnbatched(&writer, &mutex_);
  for (ColumnFamilyData* family : versions_->GetRefedColumnFamilySet()) {
    if (family->IsDropped()) continue;
    mutex_.Unlock();
    s = FlushMemTable(family, at_once, reason, /*entered_write_thread=*/true);
    mutex_.Lock();
    if (s.IsColumnFamilyDropped()) s = Status::OK();
    if (!s.ok()) break;
  }
  write_thread_.ExitUnbatched(&writer);
  return s;
}

Status DBImpl::CreateColumnFamilyImpl(const ReadOptions& read_options, const WriteOptions& write_options,
                                      const ColumnFamilyOptions& options, const std::string& name,
                                      ColumnFamilyHandle** handle) {
  if (!cairn::UsesCairn(this) && !cairn::UsesCairn(options)) {
    return own::CreateColumnFamilyImpl(this, read_options, write_options, options, name, handle);
  }
  *handle = nullptr;
  cairn::CairnDB* const ours = cairn::CairnDB::Of(this);
  ColumnFamilyDescriptor family(name, options);
  if (ours == nullptr) {
    const Status s = cairn::CheckFamilyOfStockDatabase(GetDBOptions(), family);
    return s.ok() ? own::CreateColumnFamilyImpl(this, read_options, write_options, options, name, handle) : s;
  }
  Status s = ours->AdmitNewFamily(&family);
  if (s.ok()) s = cairn::SeedNewFamily(GetDBOptions(), GetName(), name, &family.options);
  if (s.ok()) s = own::CreateColumnFamilyImpl(this, read_options, write_options, family.options, name, handle);
  if (!s.ok()) return s;
  if (ours->services()->cache() != nullptr) ours->services()->cache()->NoteFiles();
  if (ours->services()->durable() != nullptr) ours->services()->durable()->NoteFamily((*handle)->GetID(), name);
  return s;
}

// Where RocksDB has found the deepest level that is free, a trie may want a shallower one.
Status ExternalSstFileIngestionJob::AssignLevelAndSeqnoForIngestedFile(
    SuperVersion* super_version, bool force_global_seqno, CompactionStyle style, SequenceNumber last_seqno,
    IngestedFileInfo* file, SequenceNumber* assigned_seqno, std::optional<int> prev_batch_uppermost_level) {
  const auto assign = [&] {
    return own::AssignLevelToIngestedFile(this, super_version, force_global_seqno, style, last_seqno, file,
                                          assigned_seqno, prev_batch_uppermost_level);
  };
  if (!cairn::UsesTrie(cairn::port::ImmutableOptionsOf(*cfd_))) return assign();
  const Status s = assign();
  if (!s.ok() || file->picked_level == 0) return s;
  const ColumnFamilyOptions options = cfd_->GetLatestCFOptions();
  if (!cairn::IsTrie(options)) return s;
  // The last level may be kept for files that are ingested behind.
  const int last = cfd_->NumberLevels() - (cairn::port::KeepsLastLevel(cairn::port::ImmutableOptionsOf(*cfd_)) ? 2 : 1);
  file->picked_level = std::min(file->picked_level, last);
  cairn::HashTrieOptions trie;
  if (!cairn::IsHashTrie(options, &trie)) return s;
  const cairn::HashPrefixMap map = cairn::ContainerMapOf(trie);
  const cairn::ArrivingFile arriving{file->fd.GetFileSize(), file->num_entries, map.Position(file->start_ukey),
                                     map.Position(file->limit_ukey)};
  file->picked_level = cairn::LevelOfArriving(trie, options.write_buffer_size, arriving, file->picked_level,
                                              [&](int level) { return IngestedFileFitInLevel(file, level); });
  return s;
}

Status DBImpl::DeleteFilesInRanges(ColumnFamilyHandle* family, const cairn::port::DeletedRange* ranges, size_t count,
                                   bool include_end) {
  if (!cairn::UsesCairn(this)) return own::DeleteFilesInRanges(this, family, ranges, count, include_end);
  // From no key to no key is everything, in any order.
  const bool everything = std::all_of(ranges, ranges + count, cairn::port::IsEverything);
  const Status s = everything ? Status::OK() : cairn::CheckRangesMean("DeleteFilesInRanges", family);
  if (!s.ok()) return s;
  const cairn::DatabaseCache::ChangeScope change(cairn::CairnDB::Of(this)->services()->cache(), {family->GetID()});
  return own::DeleteFilesInRanges(this, family, ranges, count, include_end);
}

// RocksDB requires a range to begin before it ends, and takes the difference of two offsets for its size. In hash order
// a range of bytes ends before it begins as often as not: what an iterator passes from its begin to its end is nothing.
Status DBImpl::GetApproximateSizes(const SizeApproximationOptions& options, ColumnFamilyHandle* family,
                                   const Range* ranges, int count, uint64_t* sizes) {
  if (!cairn::UsesHashOrder(family)) return own::GetApproximateSizes(this, options, family, ranges, count, sizes);
  const Comparator* const order = family->GetComparator();
  std::vector<Range> ascending(ranges, ranges + count);
  for (Range& range : ascending) {
    if (order->Compare(range.start, range.limit) > 0) range.limit = range.start;
  }
  return own::GetApproximateSizes(this, options, family, ascending.data(), count, sizes);
}

// RocksDB describes all files of the family first, in strings, while it holds the DB mutex; at 20,000 files that is
// most of the time that a trie's compaction holds it. And it compares keys where the range deletions of a table end
// with the first key of the next, and would take all tables that one covers.
Status CompactionPicker::SanitizeAndConvertCompactionInputFiles(std::unordered_set<uint64_t>* files,
                                                                const int output_level, Version* version,
                                                                std::vector<CompactionInputFiles>* inputs) const {
  const ColumnFamilyData* const family = version->cfd();
  if (!cairn::UsesTrie(cairn::port::ImmutableOptionsOf(*family))) {
    return own::ChooseCompactionInputs(this, files, output_level, version, inputs);
  }
  Status s = cairn::AddOverlappingFiles(*version->storage_info(), family->user_comparator(), output_level, files);
  if (s.ok()) s = GetCompactionInputsFromFileNumbers(inputs, files, version->storage_info(), CompactionOptions());
  if (!s.ok() || output_level == 0) return s;
  if (!FilesRangeOverlapWithCompaction(*inputs, output_level, Compaction::kInvalidLevel)) return s;
  return Status::Aborted("a running compaction writes to the same keys of level " + std::to_string(output_level));
}

Compaction* CompactionPicker::CAIRN_MAKE_COMPACTION(const CompactionOptions& options,
                                                    const std::vector<CompactionInputFiles>& inputs, int output_level,
                                                    VersionStorageInfo* storage, const MutableCFOptions& family_options,
                                                    const MutableDBOptions& db_options,
                                                    uint32_t output_path CAIRN_MORE_COMPACTION_PARAMETERS) {
  cairn::TrieJobScope* const scope = cairn::UsesTrie(ioptions_) ? cairn::TrieJobScope::Current() : nullptr;
  if (scope == nullptr) {
    return own::MakeCompaction(this, options, inputs, output_level, storage, family_options, db_options,
                               output_path CAIRN_MORE_COMPACTION_ARGUMENTS);
  }
  const cairn::TrieJob& job = scope->job();
  InternalKey smallest, largest;
  GetRange(inputs, &smallest, &largest, Compaction::kInvalidLevel);
  scope->compaction =
      cairn::port::NewCompaction(storage, ioptions_, family_options, db_options, inputs, output_level, output_path,
                                 {cairn::ReasonOf(job), job.score, job.blobs.policy, job.blobs.age_cutoff,
                                  cairn::OutputTemperature(family_options, storage, smallest, largest, output_level)});
  RegisterCompaction(scope->compaction);
  return scope->compaction;
}

// Also what a trie's moves come to, because only members of the class may enter it. While the MANIFEST is written the
// mutex is free, and the tables are marked, so that nobody else takes them. Whoever ingests then sees them where they
// were, and puts what overlaps them above.
Status DBImpl::PromoteL0(ColumnFamilyHandle* family, int target_level) {
  if (cairn::moves_of_thread == nullptr) return own::PromoteL0(this, family, target_level);
  const std::vector<cairn::TableMove>& asked = *cairn::moves_of_thread;
  std::vector<cairn::TableMove> moves;
  ColumnFamilyData* const data = static_cast<ColumnFamilyHandleImpl*>(family)->cfd();
  JobContext job(next_job_id_.fetch_add(1), /*create_superversion=*/true);
  Status s;
  {
    const InstrumentedMutexLock lock(&mutex_);
    std::vector<FileMetaData*> tables;
    if (shutting_down_.load(std::memory_order_acquire)) {
      s = Status::ShutdownInProgress();
    } else if (data->IsDropped()) {
      s = Status::ColumnFamilyDropped();
    } else if (manual_compaction_paused_.load(std::memory_order_acquire) > 0) {
      s = Status::Incomplete(Status::SubCode::kManualCompactionPaused);
    } else if (num_running_ingest_file_ > 0) {
      s = Status::Aborted("tables are being ingested");
    } else if (asked.empty() || asked.front().to != cairn::TableMove::kNowhere) {
      moves = asked;
      s = cairn::FindMovableTables(data, moves, &tables);
    } else if (snapshot_checker_ == nullptr) {  // else it alone knows whether what is written has been committed
      cairn::FindDroppableTables(data, asked, snapshots_.GetAll(), &tables, &moves);
    }
    if (s.ok() && !moves.empty()) {
      VersionEdit edit;
      edit.SetColumnFamily(data->GetID());
      for (size_t i = 0; i < moves.size(); ++i) {
        edit.DeleteFile(moves[i].from, moves[i].number);
        if (moves[i].to != cairn::TableMove::kNowhere) cairn::port::AddMovedTable(moves[i].to, *tables[i], &edit);
      }
      Version* const before = data->current();  // keeps what `tables` point to
      before->Ref();
      for (FileMetaData* table : tables) table->being_compacted = true;
      s = cairn::port::LogAndApply(versions_.get(), data, &edit, &mutex_, directories_.GetDbDir());
      for (FileMetaData* table : tables) table->being_compacted = false;
      before->Unref();
      if (s.ok()) {
        cairn::port::InstallVersion(
            [&](auto&&... options) {
              InstallSuperVersionAndScheduleWork(data, job.superversion_contexts.data(), options...);
            },
            data);
      } else if (versions_->io_status().IsIOError()) {
        error_handler_.SetBGError(versions_->io_status(), BackgroundErrorReason::kManifestWrite);
      }
      if (s.ok() && moves.front().to == cairn::TableMove::kNowhere) FindObsoleteFiles(&job, /*force=*/false);
    }
  }
  if (job.HaveSomethingToDelete()) PurgeObsoleteFiles(job);
  job.Clean();
  return s;
}

Status DB::OpenForReadOnly(const Options& options, const std::string& path, cairn::port::OpenedDb* db,
                           bool error_if_wal_file_exists) {
  cairn::port::Clear(db);
  const cairn::ReadFunction open = [&](const DBOptions& with, const std::vector<ColumnFamilyDescriptor>& families) {
    return own::OpenForReadOnly(Options(with, families[0].options), path, db, error_if_wal_file_exists);
  };
  return cairn::OpenForReading(options, path, path, {{kDefaultColumnFamilyName, options}}, open, *db);
}

Status DB::OpenForReadOnly(const DBOptions& options, const std::string& path,
                           const std::vector<ColumnFamilyDescriptor>& given, std::vector<ColumnFamilyHandle*>* handles,
                           cairn::port::OpenedDb* db, bool error_if_wal_file_exists) {
  cairn::port::Clear(db);
  const cairn::ReadFunction open = [&](const DBOptions& with, const std::vector<ColumnFamilyDescriptor>& families) {
    return own::OpenForReadOnlyFamilies(with, path, families, handles, db, error_if_wal_file_exists);
  };
  return cairn::OpenForReading(options, path, path, given, open, *db);
}

Status DB::OpenAsSecondary(const DBOptions& options, const std::string& path, const std::string& secondary_path,
                           const std::vector<ColumnFamilyDescriptor>& given, std::vector<ColumnFamilyHandle*>* handles,
                           cairn::port::OpenedDb* db) {
  cairn::port::Clear(db);
  const cairn::ReadFunction open = [&](const DBOptions& with, const std::vector<ColumnFamilyDescriptor>& families) {
    return own::OpenAsSecondaryFamilies(with, path, secondary_path, families, handles, db);
  };
  return cairn::OpenForReading(options, path, path, given, open, *db);
}

// RocksDB has read the MANIFEST. Tables and WALs that it names may be gone by now, and would be missed; then it says so
// itself, so it is read again until nothing is new. Only then is a memtable dropped whose WAL is in tables. RocksDB
// keeps it until there is a record in a later WAL, and it hides what tables hold of its keys: from a Get all, and from
// an iterator whatever has lost its sequence number in a compaction.
Status DBImplSecondary::FindAndRecoverLogFiles(std::unordered_set<ColumnFamilyData*>* changed, JobContext* job) {
  mutex_.AssertHeld();
  bool uses_cairn = false;
  for (const ColumnFamilyData* const family : *versions_->GetColumnFamilySet()) {
    uses_cairn = uses_cairn || cairn::UsesCairn(*family);
  }
  if (!uses_cairn) return own::FindAndRecoverLogFiles(this, changed, job);
  constexpr int kMostReads = 20;
  Status s;
  for (int i = 0; i < kMostReads; ++i) {
    s = own::FindAndRecoverLogFiles(this, changed, job);
    if (!s.ok() && !s.IsPathNotFound()) return s;
    std::unordered_set<ColumnFamilyData*> more;
    const Status read = static_cast_with_check<ReactiveVersionSet>(versions_.get())
                            ->ReadAndApply(&mutex_, &manifest_reader_, manifest_reader_status_.get(), &more, nullptr);
    if (!read.ok()) return read;
    if (more.empty()) break;
    changed->insert(more.begin(), more.end());
    if (i + 1 == kMostReads) return s;
  }
  for (ColumnFamilyData* const family : *changed) {
    const auto last = cfd_to_current_log_.find(family);
    if (last == cfd_to_current_log_.end() || last->second >= family->GetLogNumber()) continue;
    if (family->IsDropped() || family->mem()->IsEmpty()) continue;
    auto* const flushed = family->mem();
    auto* const empty =
        family->ConstructNewMemtable(cairn::port::MutableOptionsOf(*family), flushed->GetEarliestSequenceNumber());
    empty->Ref();
    flushed->SetNextLogNumber(family->GetLogNumber());
    flushed->ConstructFragmentedRangeTombstones();
    family->imm()->Add(flushed, &job->memtables_to_free);
    family->SetMemtable(empty);
  }
  return s;
}

Status DB::OpenAsFollower(const DBOptions& options, const std::string& path, const std::string& leader_path,
                          const std::vector<ColumnFamilyDescriptor>& given, std::vector<ColumnFamilyHandle*>* handles,
                          std::unique_ptr<DB>* db) {
  db->reset();
  const cairn::ReadFunction open = [&](const DBOptions& with, const std::vector<ColumnFamilyDescriptor>& families) {
    return own::OpenAsFollowerFamilies(with, path, leader_path, families, handles, db);
  };
  return cairn::OpenForReading(options, path, leader_path, given, open, *db);
}

InternalIterator* MemTable::NewIterator(const ReadOptions& options,
                                        UnownedPtr<const SeqnoToTimeMapping> seqno_to_time_mapping, Arena* arena,
                                        const SliceTransform* prefix_extractor, bool for_flush) {
  const auto make = [&] {
    return own::NewMemTableIterator(this, options, seqno_to_time_mapping, arena, prefix_extractor, for_flush);
  };
  if (!cairn::UsesSubMemTables(*table_)) return make();
  if (for_flush) {
    const cairn::FlushScope flush;
    InternalIterator* const iterator = make();
    if (flush.status().ok()) return iterator;
    std::destroy_at(iterator);  // its memory is the arena's
    return NewErrorInternalIterator<Slice>(flush.status(), arena);
  }
  if (!options.tailing) return make();
  const cairn::TailingScope tailing;
  return make();
}

// RocksDB refuses compaction by age where tables are not block-based, though it asks nothing of them for that.
Status ColumnFamilyData::ValidateOptions(const DBOptions& database, const ColumnFamilyOptions& family) {
  if (!cairn::UsesHashOrder(family.comparator)) return own::ValidateFamily(database, family);
  ColumnFamilyOptions ageless(family);
  ageless.ttl = ageless.periodic_compaction_seconds = 0;
  return own::ValidateFamily(database, ageless);
}

// RocksDB takes room on the file system for as much as all inputs together, for each of the tables that it writes. A
// trie writes one for each child; a memory file system fills with zeros, and clears, what it takes.
uint64_t Compaction::OutputFilePreallocationSize() const {
  const auto* const of_trie = cairn::UsesTrie(immutable_options_);
  if (of_trie == nullptr) return own::PreallocatedOutputBytes(this);
  return own::PreallocatedOutputBytes(this) / static_cast<uint64_t>(of_trie->trie().fan_out);
}

// In hash order, where no table has range deletions, keys are merged by their hashes.
InternalIterator* NewCompactionMergingIterator(const InternalKeyComparator* comparator, InternalIterator** inputs,
                                               int count, cairn::port::RangeDeletionInputs& range_deletions,
                                               Arena* arena CAIRN_MORE_MERGE_PARAMETERS) {
  if (!cairn::UsesHashOrder(comparator->user_comparator())) {
    return own::MergeForCompaction(comparator, inputs, count, range_deletions, arena CAIRN_MORE_MERGE_ARGUMENTS);
  }
  const bool deletes = std::any_of(range_deletions.begin(), range_deletions.end(),
                                   [](const auto& of_input) { return of_input.first != nullptr; });
  if (deletes || count == 0 || arena != nullptr) {
    return own::MergeForCompaction(comparator, inputs, count, range_deletions, arena CAIRN_MORE_MERGE_ARGUMENTS);
  }
  const auto runs = static_cast<size_t>(count);
  InternalStats* const statistics = CAIRN_MERGE_STATISTICS;
  cairn::port::CountMergedRuns(statistics, runs);
  const cairn::KeyHash& hash = *cairn::HashOfComparator(comparator->user_comparator());
  return cairn::NewHashMergingIterator(comparator, hash, inputs, runs,
                                       [statistics, runs] { cairn::port::UncountMergedRuns(statistics, runs); });
}

Status DestroyDB(const std::string& path, const Options& options, const std::vector<ColumnFamilyDescriptor>& families) {
  return cairn::DestroyDatabase(path, options, families);
}

// The database itself is asked, too, whether it uses Cairn: a table in an order that the options do not have would
// count as damaged.
//
// As RocksDB's: these options are the default column family's, and of all others that there are.
Status RepairDB(const std::string& path, const Options& options) {
  std::vector<ColumnFamilyDescriptor> families = {{kDefaultColumnFamilyName, options}};
  Status s = cairn::PrepareRepair(options, path, &options, &families);
  if (!s.ok()) return s;
  if (!cairn::UsesCairn(options, families)) return own::RepairDB(path, options);
  return own::RepairDBUnknownFamilies(path, options, cairn::ForRepair(families), families[0].options);
}

Status RepairDB(const std::string& path, const DBOptions& options, const std::vector<ColumnFamilyDescriptor>& given) {
  std::vector<ColumnFamilyDescriptor> families = given;
  const Status s = cairn::PrepareRepair(options, path, nullptr, &families);
  if (!s.ok()) return s;
  if (!cairn::UsesCairn(options, families)) return own::RepairDBFamilies(path, options, given);
  return own::RepairDBFamilies(path, options, cairn::ForRepair(families));
}

Status RepairDB(const std::string& path, const DBOptions& options, const std::vector<ColumnFamilyDescriptor>& given,
                const ColumnFamilyOptions& unknown) {
  std::vector<ColumnFamilyDescriptor> families = given;
  const Status s = cairn::PrepareRepair(options, path, &unknown, &families);
  if (!s.ok()) return s;
  if (!cairn::UsesCairn(options, families)) return own::RepairDBUnknownFamilies(path, options, given, unknown);
  return own::RepairDBUnknownFamilies(path, options, cairn::ForRepair(families), unknown);
}

// An index in another order than the database's would be joined with it wrongly, without a word.
Iterator* WriteBatchWithIndex::NewIteratorWithBase(ColumnFamilyHandle* family, Iterator* base,
                                                   const ReadOptions* read_options) {
  if (!cairn::UsesHashOrder(family)) return own::NewIteratorWithBaseOfFamily(this, family, base, read_options);
  const Status s = cairn::CheckIndexOrder(this, family);
  if (s.ok()) return own::NewIteratorWithBaseOfFamily(this, family, base, read_options);
  delete base;
  return NewErrorIterator(s);
}

Iterator* WriteBatchWithIndex::NewIteratorWithBase(Iterator* base CAIRN_MORE_BASE_PARAMETERS) {
  if (!cairn::HasOpenSeeds()) return own::NewIteratorWithBase(this, base CAIRN_MORE_BASE_ARGUMENTS);
  const Status s = cairn::CheckIndexSeed(this);
  if (s.ok()) return own::NewIteratorWithBase(this, base CAIRN_MORE_BASE_ARGUMENTS);
  delete base;
  return NewErrorIterator(s);
}

void Version::Get(const ReadOptions& options, const LookupKey& key, PinnableSlice* value, PinnableWideColumns* columns,
                  std::string* timestamp, Status* status, MergeContext* merge_context,
                  SequenceNumber* max_covering_tombstone_seq, PinnedIteratorsManager* pinned_iterators,
                  bool* value_found, bool* key_exists, SequenceNumber* sequence, ReadCallback* callback, bool* is_blob,
                  bool do_merge) {
  if (!cairn::UsesCairnTables(this)) {
    return own::VersionGet(this, options, key, value, columns, timestamp, status, merge_context,
                           max_covering_tombstone_seq, pinned_iterators, value_found, key_exists, sequence, callback,
                           is_blob, do_merge);
  }
  cairn::GetFromCairnTables(this, options, key, value, columns, timestamp, status, merge_context,
                            max_covering_tombstone_seq, pinned_iterators, value_found, key_exists, sequence, callback,
                            is_blob, do_merge);
}

void Version::MultiGet(const ReadOptions& options, MultiGetContext::Range* range, ReadCallback* callback) {
  if (!cairn::UsesCairnTables(this)) return own::VersionMultiGet(this, options, range, callback);
  if (cairn::IsSiltStore(this)) {
    cairn::SiltLookups* const lookups = cairn::SiltLookupsOf(this);
    if (lookups != nullptr && lookups->MultiGet(this, options, range, callback)) return;
  } else if (cairn::VersionFilters* const filters = cairn::FiltersOf(this); filters != nullptr) {
    filters->MultiGet(this, options, range, callback);
  }
  if (range->empty()) return;
  cairn::OrderedLookups* const ordered = cairn::OrderedLookupsOf(this);
  if (ordered != nullptr && ordered->MultiGet(this, options, range, callback)) return;
  own::VersionMultiGet(this, options, range, callback);
}

void DBImpl::PrepareMultiGetKeys(const size_t count, bool sorted,
                                 autovector<KeyContext*, MultiGetContext::MAX_BATCH_SIZE>* keys) {
  if (sorted || !cairn::SortInHashOrder(count, keys)) own::PrepareMultiGetKeys(this, count, sorted, keys);
}

}  // namespace rocksdb
