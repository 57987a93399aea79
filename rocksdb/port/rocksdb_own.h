// RocksDB's own functions behind those that this library puts in their place.
//
// Programs, the C API, JNI, and RocksDB's own openers (transactions, TTL, blobs, secondaries) all open a database
// through a few functions. rocksdb/rocksdb_hooks.txt lists them; cmake/hook_symbols makes their definitions in
// RocksDB's unmodified archive weak, and sources of db/ (rocksdb_hooks.cc above all) define them anew, so whoever opens
// a database gets all of Cairn.
// What is declared here calls RocksDB's definitions. A member function is called with its object first, as the C++ ABI
// of all our platforms has it.
//
// Thread-safety, ownership, errors: those of the functions themselves.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "db/compaction/compaction_picker.h"
#include "db/db_impl/db_impl.h"
#include "db/external_sst_file_ingestion_job.h"
#include "db/internal_stats.h"
#include "db/memtable.h"
#include "db/range_del_aggregator.h"
#include "db/version_set.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/merging_iterator.h"

// Parameters that come last in functions that ours replace, and the same as arguments. A macro, because what takes a
// member function's place has to repeat its declaration.
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
#define CAIRN_MORE_WRITE_PARAMETERS                            \
  rocksdb::WriteBatch *traced_batch, bool skip_blob_transform, \
      const rocksdb::DBImpl::DeferredPutEntityBatch *deferred_entities
// The same, outside of the class, which keeps the type to itself.
#define CAIRN_MORE_OWN_WRITE_PARAMETERS \
  rocksdb::WriteBatch *traced_batch, bool skip_blob_transform, const void *deferred_entities
#define CAIRN_MORE_WRITE_ARGUMENTS traced_batch, skip_blob_transform, deferred_entities
#define CAIRN_MORE_BASE_PARAMETERS , const rocksdb::ReadOptions* read_options
#define CAIRN_MORE_BASE_ARGUMENTS , read_options
#define CAIRN_MORE_ITERATORS_PARAMETERS , rocksdb::SequenceNumber read_sequence, const rocksdb::MultiScanArgs *scans
#define CAIRN_MORE_ITERATORS_ARGUMENTS , read_sequence, scans
// Of iterators that are made later, for which no ranges are named.
#define CAIRN_LATER_ITERATORS_ARGUMENTS(sequence) , sequence, nullptr
// Up to which sequence number entries and range deletions are seen.
#define CAIRN_ITERATORS_SEQUENCE read_sequence
// Whether ranges are named that will be scanned.
#define CAIRN_HAS_SCANS (scans != nullptr)
#define CAIRN_MORE_MERGE_PARAMETERS , rocksdb::InternalStats* stats
#define CAIRN_MORE_MERGE_ARGUMENTS , stats
#define CAIRN_MERGE_STATISTICS stats
// What a DBImpl calls its WALs, and what WriteToWAL takes last.
#define CAIRN_WAL_MUTEX wal_write_mutex_
#define CAIRN_LIVE_WALS alive_wal_files_
#define CAIRN_WAL_NUMBER cur_wal_number_
#define CAIRN_WAL_BYTES wals_total_size_.LoadRelaxed()
#define CAIRN_MORE_WAL_ARGUMENTS(record) , rocksdb::WriteBatchInternal::Sequence(&(record))
#else
#define CAIRN_MORE_WRITE_PARAMETERS uint64_t min_prep_log
#define CAIRN_MORE_OWN_WRITE_PARAMETERS CAIRN_MORE_WRITE_PARAMETERS
#define CAIRN_MORE_WRITE_ARGUMENTS min_prep_log
#define CAIRN_MORE_BASE_PARAMETERS
#define CAIRN_MORE_BASE_ARGUMENTS
#define CAIRN_MORE_ITERATORS_PARAMETERS
#define CAIRN_MORE_ITERATORS_ARGUMENTS
#define CAIRN_LATER_ITERATORS_ARGUMENTS(sequence)
#define CAIRN_ITERATORS_SEQUENCE \
  (options.snapshot != nullptr ? options.snapshot->GetSequenceNumber() : rocksdb::kMaxSequenceNumber)
#define CAIRN_HAS_SCANS false
#define CAIRN_MORE_MERGE_PARAMETERS
#define CAIRN_MORE_MERGE_ARGUMENTS
#define CAIRN_MERGE_STATISTICS nullptr
#define CAIRN_WAL_MUTEX log_write_mutex_
#define CAIRN_LIVE_WALS alive_log_files_
#define CAIRN_WAL_NUMBER logfile_number_
#define CAIRN_WAL_BYTES total_log_size_.load(std::memory_order_relaxed)
#define CAIRN_MORE_WAL_ARGUMENTS(record)
#endif

namespace rocksdb {
class DBImplSecondary;
}  // namespace rocksdb

namespace cairn::port {

// Of DeleteFilesInRanges.
#if CAIRN_ROCKSDB_AT_LEAST(10, 1)
using DeletedRange = rocksdb::RangeOpt;
inline bool IsEverything(const DeletedRange& range) { return !range.start.has_value() && !range.limit.has_value(); }
#else
using DeletedRange = rocksdb::RangePtr;
inline bool IsEverything(const DeletedRange& range) { return range.start == nullptr && range.limit == nullptr; }
#endif

// Of a compaction's inputs: the range deletions of a table, and where a level's iterator learns who wants those of its
// tables.
using RangeDeletionInputs = std::vector<std::pair<std::unique_ptr<rocksdb::TruncatedRangeDelIterator>,
                                                  std::unique_ptr<rocksdb::TruncatedRangeDelIterator>**>>;

// Tells RocksDB's statistics, where they want it, of a compaction under way how many runs it merges, and that it has
// ended. `stats` may be null.
inline void CountMergedRuns(rocksdb::InternalStats* stats, uint64_t runs) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  if (stats != nullptr) stats->IncrNumRunningCompactionSortedRuns(runs);
#endif
}
inline void UncountMergedRuns(rocksdb::InternalStats* stats, uint64_t runs) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  if (stats != nullptr) stats->DecrNumRunningCompactionSortedRuns(runs);
#endif
}

}  // namespace cairn::port

namespace cairn::rocksdb_own {

rocksdb::Status DBImplOpen(const rocksdb::DBOptions& options, const std::string& path,
                           const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                           std::vector<rocksdb::ColumnFamilyHandle*>* handles, port::OpenedDb* db, bool seq_per_batch,
                           bool batch_per_txn, bool is_retry, bool* can_retry) asm("cairn_rocksdb_DBImplOpen");

void ConstructDBImpl(void* at, const rocksdb::DBOptions& options, const std::string& path, bool seq_per_batch,
                     bool batch_per_txn, bool read_only) asm("cairn_rocksdb_ConstructDBImpl");

rocksdb::Status WriteImpl(rocksdb::DBImpl* db, const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch,
                          rocksdb::WriteCallback* callback, rocksdb::UserWriteCallback* user_write_callback,
                          uint64_t* log_used, uint64_t log_ref, bool disable_memtable, uint64_t* seq_used,
                          size_t batch_count, rocksdb::PreReleaseCallback* pre_release_callback,
                          rocksdb::PostMemTableCallback* post_memtable_callback,
                          std::shared_ptr<rocksdb::WriteBatchWithIndex> wbwi,
                          CAIRN_MORE_OWN_WRITE_PARAMETERS) asm("cairn_rocksdb_WriteImpl");

void EnterUnbatched(rocksdb::WriteThread* queue, rocksdb::WriteThread::Writer* writer,
                    rocksdb::InstrumentedMutex* mutex) asm("cairn_rocksdb_EnterUnbatched");
void ExitUnbatched(rocksdb::WriteThread* queue,
                   rocksdb::WriteThread::Writer* writer) asm("cairn_rocksdb_ExitUnbatched");

void DumpStats(rocksdb::DBImpl* db) asm("cairn_rocksdb_DumpStats");

rocksdb::Status FlushAllColumnFamilies(rocksdb::DBImpl* db, const rocksdb::FlushOptions& options,
                                       rocksdb::FlushReason reason) asm("cairn_rocksdb_FlushAllColumnFamilies");

rocksdb::Status CreateColumnFamilyImpl(
    rocksdb::DBImpl* db, const rocksdb::ReadOptions& read_options, const rocksdb::WriteOptions& write_options,
    const rocksdb::ColumnFamilyOptions& options, const std::string& name,
    rocksdb::ColumnFamilyHandle** handle) asm("cairn_rocksdb_CreateColumnFamilyImpl");

rocksdb::Status AssignLevelToIngestedFile(
    rocksdb::ExternalSstFileIngestionJob* job, rocksdb::SuperVersion* super_version, bool force_global_seqno,
    rocksdb::CompactionStyle style, rocksdb::SequenceNumber last_seqno, rocksdb::IngestedFileInfo* file,
    rocksdb::SequenceNumber* assigned_seqno,
    std::optional<int> prev_batch_uppermost_level) asm("cairn_rocksdb_AssignLevelToIngestedFile");

rocksdb::Status DeleteFilesInRanges(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family,
                                    const port::DeletedRange* ranges, size_t count,
                                    bool include_end) asm("cairn_rocksdb_DeleteFilesInRanges");

rocksdb::Status GetApproximateSizes(rocksdb::DBImpl* db, const rocksdb::SizeApproximationOptions& options,
                                    rocksdb::ColumnFamilyHandle* family, const rocksdb::Range* ranges, int count,
                                    uint64_t* sizes) asm("cairn_rocksdb_GetApproximateSizes");

rocksdb::Status ChooseCompactionInputs(
    const rocksdb::CompactionPicker* picker, std::unordered_set<uint64_t>* files, int output_level,
    rocksdb::Version* version,
    std::vector<rocksdb::CompactionInputFiles>* inputs) asm("cairn_rocksdb_ChooseCompactionInputs");

rocksdb::Status PromoteL0(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family,
                          int target_level) asm("cairn_rocksdb_PromoteL0");

rocksdb::Status OpenForReadOnly(const rocksdb::Options& options, const std::string& path, port::OpenedDb* db,
                                bool error_if_wal_file_exists) asm("cairn_rocksdb_OpenForReadOnly");

rocksdb::Status OpenForReadOnlyFamilies(const rocksdb::DBOptions& options, const std::string& path,
                                        const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                                        std::vector<rocksdb::ColumnFamilyHandle*>* handles, port::OpenedDb* db,
                                        bool error_if_wal_file_exists) asm("cairn_rocksdb_OpenForReadOnlyFamilies");

rocksdb::Status OpenAsSecondaryFamilies(const rocksdb::DBOptions& options, const std::string& path,
                                        const std::string& secondary_path,
                                        const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                                        std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                                        port::OpenedDb* db) asm("cairn_rocksdb_OpenAsSecondaryFamilies");

rocksdb::Status FindAndRecoverLogFiles(rocksdb::DBImplSecondary* db,
                                       std::unordered_set<rocksdb::ColumnFamilyData*>* changed,
                                       rocksdb::JobContext* job) asm("cairn_rocksdb_FindAndRecoverLogFiles");

rocksdb::Status OpenAsFollowerFamilies(const rocksdb::DBOptions& options, const std::string& path,
                                       const std::string& leader_path,
                                       const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                                       std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                                       std::unique_ptr<rocksdb::DB>* db) asm("cairn_rocksdb_OpenAsFollowerFamilies");

rocksdb::Status DestroyDB(const std::string& path, const rocksdb::Options& options,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families) asm("cairn_rocksdb_DestroyDB");

rocksdb::Status RepairDB(const std::string& path, const rocksdb::Options& options) asm("cairn_rocksdb_RepairDB");

rocksdb::Status RepairDBFamilies(
    const std::string& path, const rocksdb::DBOptions& options,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& families) asm("cairn_rocksdb_RepairDBFamilies");

rocksdb::Status RepairDBUnknownFamilies(
    const std::string& path, const rocksdb::DBOptions& options,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
    const rocksdb::ColumnFamilyOptions& unknown) asm("cairn_rocksdb_RepairDBUnknownFamilies");

rocksdb::InternalIterator* NewMemTableIterator(rocksdb::MemTable* table, const rocksdb::ReadOptions& options,
                                               rocksdb::UnownedPtr<const rocksdb::SeqnoToTimeMapping> times,
                                               rocksdb::Arena* arena, const rocksdb::SliceTransform* prefix_extractor,
                                               bool for_flush) asm("cairn_rocksdb_NewMemTableIterator");

rocksdb::Status ValidateFamily(const rocksdb::DBOptions& database,
                               const rocksdb::ColumnFamilyOptions& family) asm("cairn_rocksdb_ValidateFamily");

uint64_t PreallocatedOutputBytes(const rocksdb::Compaction* compaction) asm("cairn_rocksdb_PreallocatedOutputBytes");

rocksdb::InternalIterator* MergeForCompaction(
    const rocksdb::InternalKeyComparator* comparator, rocksdb::InternalIterator** inputs, int count,
    port::RangeDeletionInputs& range_deletions,
    rocksdb::Arena* arena CAIRN_MORE_MERGE_PARAMETERS) asm("cairn_rocksdb_MergeForCompaction");

void VersionGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, const rocksdb::LookupKey& key,
                rocksdb::PinnableSlice* value, rocksdb::PinnableWideColumns* columns, std::string* timestamp,
                rocksdb::Status* status, rocksdb::MergeContext* merge_context,
                rocksdb::SequenceNumber* max_covering_tombstone_seq, rocksdb::PinnedIteratorsManager* pinned_iterators,
                bool* value_found, bool* key_exists, rocksdb::SequenceNumber* sequence, rocksdb::ReadCallback* callback,
                bool* is_blob, bool do_merge) asm("cairn_rocksdb_VersionGet");

void VersionMultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                     rocksdb::MultiGetContext::Range* range,
                     rocksdb::ReadCallback* callback) asm("cairn_rocksdb_VersionMultiGet");

void AddVersionIterators(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                         const rocksdb::FileOptions& file_options, rocksdb::MergeIteratorBuilder* builder,
                         bool allow_unprepared_value
                             CAIRN_MORE_ITERATORS_PARAMETERS) asm("cairn_rocksdb_AddVersionIterators");

void PrepareMultiGetKeys(rocksdb::DBImpl* db, size_t count, bool sorted,
                         rocksdb::autovector<rocksdb::KeyContext*, rocksdb::MultiGetContext::MAX_BATCH_SIZE>*
                             keys) asm("cairn_rocksdb_PrepareMultiGetKeys");

rocksdb::Iterator* NewIteratorWithBaseOfFamily(
    rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family, rocksdb::Iterator* base,
    const rocksdb::ReadOptions* read_options) asm("cairn_rocksdb_NewIteratorWithBaseOfFamily");

rocksdb::Iterator* NewIteratorWithBase(rocksdb::WriteBatchWithIndex* batch,
                                       rocksdb::Iterator* base
                                           CAIRN_MORE_BASE_PARAMETERS) asm("cairn_rocksdb_NewIteratorWithBase");

// Puts the database into its background-error state, as after a write or sync of the WAL that failed.
void WriteErrorToBackgroundError(rocksdb::DBImpl* db,
                                 const rocksdb::IOStatus& error) asm("cairn_rocksdb_WriteErrorToBackgroundError");

}  // namespace cairn::rocksdb_own
