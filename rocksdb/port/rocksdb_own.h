// RocksDB's own functions behind those that this library puts in their place.
//
// Programs, the C API, JNI, and RocksDB's own openers (transactions, TTL, blobs, secondaries) all open a database
// through a few functions. rocksdb/rocksdb_hooks.txt lists them; cmake/hook_symbols makes their definitions in RocksDB's
// unmodified archive weak, and sources of db/ (rocksdb_hooks.cc above all) define them anew, so whoever opens a database
// gets all of Cairn.
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
#include "db/import_column_family_job.h"
#include "db/internal_stats.h"
#include "db/memtable.h"
#include "db/range_del_aggregator.h"
#include "db/version_set.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/get_context.h"
#include "utilities/transactions/lock/point/point_lock_manager.h"
#include "utilities/transactions/pessimistic_transaction.h"
#include "utilities/transactions/pessimistic_transaction_db.h"
#include "utilities/transactions/write_prepared_txn_db.h"
#include "utilities/transactions/write_unprepared_txn.h"

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
#define CAIRN_FIRST_INSERT_PARAMETERS
#define CAIRN_FIRST_INSERT_ARGUMENTS
#define CAIRN_MORE_FILE_WRITER_PARAMETERS
#define CAIRN_MORE_FILE_WRITER_ARGUMENTS
#define CAIRN_FILE_WRITER_SYMBOL_END ""
#define CAIRN_MORE_BASE_PARAMETERS , const rocksdb::ReadOptions* read_options
#define CAIRN_MORE_BASE_ARGUMENTS , read_options
#define CAIRN_MORE_MERGE_PARAMETERS , rocksdb::InternalStats* stats
#define CAIRN_MORE_MERGE_ARGUMENTS , stats
#define CAIRN_MERGE_STATISTICS stats
#else
#define CAIRN_MORE_WRITE_PARAMETERS uint64_t min_prep_log
#define CAIRN_MORE_OWN_WRITE_PARAMETERS CAIRN_MORE_WRITE_PARAMETERS
#define CAIRN_MORE_WRITE_ARGUMENTS min_prep_log
#define CAIRN_FIRST_INSERT_PARAMETERS bool concurrently,
#define CAIRN_FIRST_INSERT_ARGUMENTS concurrently,
#define CAIRN_MORE_FILE_WRITER_PARAMETERS , bool skip_filters
#define CAIRN_MORE_FILE_WRITER_ARGUMENTS , skip_filters
#define CAIRN_FILE_WRITER_SYMBOL_END "b"
#define CAIRN_MORE_BASE_PARAMETERS
#define CAIRN_MORE_BASE_ARGUMENTS
#define CAIRN_MORE_MERGE_PARAMETERS
#define CAIRN_MORE_MERGE_ARGUMENTS
#define CAIRN_MERGE_STATISTICS nullptr
#endif

namespace rocksdb {
struct LockMap;
class PointLockManager;
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

// What a lookup that merges returns: nothing, before RocksDB 11.
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
using MergeOutcome = rocksdb::Status;
#else
using MergeOutcome = void;
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

rocksdb::Status RunIngestion(rocksdb::ExternalSstFileIngestionJob* job) asm("cairn_rocksdb_RunIngestion");

void CleanupIngestion(rocksdb::ExternalSstFileIngestionJob* job,
                      const rocksdb::Status& status) asm("cairn_rocksdb_CleanupIngestion");

rocksdb::Status RunImport(rocksdb::ImportColumnFamilyJob* job) asm("cairn_rocksdb_RunImport");

void CleanupImport(rocksdb::ImportColumnFamilyJob* job,
                   const rocksdb::Status& status) asm("cairn_rocksdb_CleanupImport");

void NotifyOnExternalFileIngested(
    rocksdb::DBImpl* db, rocksdb::ColumnFamilyData* family,
    const rocksdb::ExternalSstFileIngestionJob& job) asm("cairn_rocksdb_NotifyOnExternalFileIngested");

rocksdb::Status CreateColumnFamilyWithImport(
    rocksdb::DBImpl* db, const rocksdb::ColumnFamilyOptions& options, const std::string& name,
    const rocksdb::ImportColumnFamilyOptions& import_options,
    const std::vector<const rocksdb::ExportImportFilesMetaData*>& files,
    rocksdb::ColumnFamilyHandle** handle) asm("cairn_rocksdb_CreateColumnFamilyWithImport");

rocksdb::Status WriteUnpreparedBatch(rocksdb::WriteUnpreparedTxn* transaction,
                                     bool prepared) asm("cairn_rocksdb_WriteUnpreparedBatch");

rocksdb::Status InitializeWritePrepared(
    rocksdb::WritePreparedTxnDB* db, const std::vector<size_t>& to_compact,
    const std::vector<rocksdb::ColumnFamilyHandle*>& families) asm("cairn_rocksdb_InitializeWritePrepared");
rocksdb::Status InitializeWriteUnprepared(
    rocksdb::WriteUnpreparedTxnDB* db, const std::vector<size_t>& to_compact,
    const std::vector<rocksdb::ColumnFamilyHandle*>& families) asm("cairn_rocksdb_InitializeWriteUnprepared");

void UpdateCFComparatorMap(rocksdb::WritePreparedTxnDB* db,
                           rocksdb::ColumnFamilyHandle* family) asm("cairn_rocksdb_UpdateCFComparatorMap");

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

rocksdb::Status PrepareTransaction(rocksdb::PessimisticTransaction* transaction) asm(
    "cairn_rocksdb_PrepareTransaction");
rocksdb::Status CommitTransaction(rocksdb::PessimisticTransaction* transaction) asm("cairn_rocksdb_CommitTransaction");
rocksdb::Status RollbackTransaction(rocksdb::PessimisticTransaction* transaction) asm(
    "cairn_rocksdb_RollbackTransaction");
rocksdb::Status InsertGroup(rocksdb::WriteThread::WriteGroup& group, rocksdb::SequenceNumber first,
                            rocksdb::ColumnFamilyMemTables* memtables, rocksdb::FlushScheduler* flushes,
                            rocksdb::TrimHistoryScheduler* trims, bool ignores_missing, uint64_t wal, rocksdb::DB* db,
                            CAIRN_FIRST_INSERT_PARAMETERS bool seq_per_batch,
                            bool batch_per_txn) asm("cairn_rocksdb_InsertGroup");

rocksdb::Status RollbackPrepared(rocksdb::WritePreparedTxn* transaction) asm("cairn_rocksdb_RollbackPrepared");
rocksdb::Status WriteRollbackKeys(rocksdb::WriteUnpreparedTxn* transaction, const rocksdb::LockTracker& keys,
                                  rocksdb::WriteBatchWithIndex* batch, rocksdb::ReadCallback* callback,
                                  const rocksdb::ReadOptions& options) asm("cairn_rocksdb_WriteRollbackKeys");

rocksdb::Status RebuildFromWriteBatch(rocksdb::TransactionBaseImpl* transaction,
                                      rocksdb::WriteBatch* batch) asm("cairn_rocksdb_RebuildFromWriteBatch");

rocksdb::Status RebuildPrepared(rocksdb::WritePreparedTxn* transaction,
                                rocksdb::WriteBatch* batch) asm("cairn_rocksdb_RebuildPrepared");

rocksdb::Status RebuildUnprepared(rocksdb::WriteUnpreparedTxn* transaction,
                                  rocksdb::WriteBatch* batch) asm("cairn_rocksdb_RebuildUnprepared");

rocksdb::ColumnFamilyHandle* GetColumnFamilyHandle(rocksdb::DBImpl* db,
                                                   uint32_t id) asm("cairn_rocksdb_GetColumnFamilyHandle");

port::MergeOutcome MergeWithNoBaseValue(rocksdb::GetContext* lookup) asm("cairn_rocksdb_MergeWithNoBaseValue");

std::shared_ptr<rocksdb::LockMap> GetLockMap(rocksdb::PointLockManager* manager,
                                             uint32_t family) asm("cairn_rocksdb_GetLockMap");

void UnlockTracked(rocksdb::PointLockManager* manager, rocksdb::PessimisticTransaction* transaction,
                   const rocksdb::LockTracker& tracker, rocksdb::Env* env) asm("cairn_rocksdb_UnlockTracked");
// Whether there is another such manager, of locks of single keys.
#define CAIRN_HAS_PER_KEY_LOCKS CAIRN_ROCKSDB_AT_LEAST(11, 0)
#if CAIRN_HAS_PER_KEY_LOCKS
void UnlockTrackedPerKey(rocksdb::PerKeyPointLockManager* manager, rocksdb::PessimisticTransaction* transaction,
                         const rocksdb::LockTracker& tracker,
                         rocksdb::Env* env) asm("cairn_rocksdb_UnlockTrackedPerKey");
#endif

rocksdb::InternalIterator* NewMemTableIterator(rocksdb::MemTable* table, const rocksdb::ReadOptions& options,
                                               rocksdb::UnownedPtr<const rocksdb::SeqnoToTimeMapping> times,
                                               rocksdb::Arena* arena, const rocksdb::SliceTransform* prefix_extractor,
                                               bool for_flush) asm("cairn_rocksdb_NewMemTableIterator");

// Whether Cairn has a definition of its own.
#define CAIRN_REPLACES_SNAPSHOT_CONTEXT !CAIRN_ROCKSDB_AT_LEAST(9, 11)
#if CAIRN_REPLACES_SNAPSHOT_CONTEXT
void GetSnapshotContext(rocksdb::DBImpl* db, rocksdb::JobContext* job, std::vector<rocksdb::SequenceNumber>* snapshots,
                        rocksdb::SequenceNumber* earliest_write_conflict,
                        rocksdb::SnapshotChecker** checker) asm("cairn_rocksdb_GetSnapshotContext");
#endif

rocksdb::Status CompactFilesImpl(rocksdb::DBImpl* db, const rocksdb::CompactionOptions& options,
                                 rocksdb::ColumnFamilyData* family, rocksdb::Version* version,
                                 const std::vector<std::string>& inputs, std::vector<std::string>* outputs,
                                 int output_level, int output_path, rocksdb::JobContext* job, rocksdb::LogBuffer* log,
                                 rocksdb::CompactionJobInfo* info) asm("cairn_rocksdb_CompactFilesImpl");

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

void PrepareMultiGetKeys(rocksdb::DBImpl* db, size_t count, bool sorted,
                         rocksdb::autovector<rocksdb::KeyContext*, rocksdb::MultiGetContext::MAX_BATCH_SIZE>*
                             keys) asm("cairn_rocksdb_PrepareMultiGetKeys");

void ConstructSstFileWriter(
    void* at, const rocksdb::EnvOptions& env_options, const rocksdb::Options& options,
    const rocksdb::Comparator* comparator, rocksdb::ColumnFamilyHandle* family, bool invalidate_page_cache,
    rocksdb::Env::IOPriority io_priority CAIRN_MORE_FILE_WRITER_PARAMETERS) asm("cairn_rocksdb_SstFileWriter");

void ConstructSstFileReader(void* at, const rocksdb::Options& options) asm("cairn_rocksdb_SstFileReader");

void ConstructIndexedBatch(void* at, const rocksdb::Comparator* comparator, size_t reserved_bytes, bool overwrite_key,
                           size_t max_bytes, size_t protection_bytes_per_key) asm("cairn_rocksdb_IndexedBatch");

rocksdb::Iterator* NewIteratorWithBaseOfFamily(
    rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family, rocksdb::Iterator* base,
    const rocksdb::ReadOptions* read_options) asm("cairn_rocksdb_NewIteratorWithBaseOfFamily");

rocksdb::Iterator* NewIteratorWithBase(rocksdb::WriteBatchWithIndex* batch,
                                       rocksdb::Iterator* base
                                           CAIRN_MORE_BASE_PARAMETERS) asm("cairn_rocksdb_NewIteratorWithBase");

// Puts the database into its background-error state, as after a write or sync of the WAL that failed.
void WriteErrorToBackgroundError(rocksdb::DBImpl* db,
                                 const rocksdb::IOStatus& error) asm("cairn_rocksdb_WriteErrorToBackgroundError");

// Aborted while a snapshot lives: then Close refuses, too.
rocksdb::Status CheckSnapshotsReleased(rocksdb::DBImpl* db) asm("cairn_rocksdb_CheckSnapshotsReleased");

}  // namespace cairn::rocksdb_own
