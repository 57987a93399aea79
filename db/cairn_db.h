// The object behind rocksdb::DB* of a database that uses a part of Cairn: RocksDB's own DBImpl, with what an engine
// needs done otherwise overridden. Whatever casts DB* to DBImpl* (transactions, checkpoints, tools) finds one.
//
// Invariants
//   (1) A CairnDB adds no data to DBImpl: RocksDB allocates the object and decides its size. What it needs besides is
//       its DatabaseServices, the first listener of its options, which RocksDB keeps as long as the object lives.
//   (2) An object is a CairnDB if and only if its options were made by OpenDatabase (db/opening.h) for such a database.
//   (3) Every write, of whatever API, passes WriteChecked; every new column family, however it comes, AdmitNewFamily.
//
// Thread-safety: as rocksdb::DB.

#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "db/database_lookups.h"
#include "db/db_impl/db_impl.h"
#include "db/environment_options.h"
#include "memtable_cache/durable_writes.h"
#include "result_cache/database_cache.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/db_impl.h"

namespace cairn {

class FastWrites;
class SiltMerges;

// What Cairn keeps for one open database. As a listener it has no name, so that no OPTIONS file mentions it.
class DatabaseServices : public DatabaseLookups {
 public:
  DatabaseServices();
  // When the DBImpl is gone, and with it everything that writes tables.
  ~DatabaseServices() override;

  // Those that OpenDatabase has put into the options; null if they are of another database.
  static DatabaseServices* In(const rocksdb::DBOptions& options);

  const char* Name() const override { return port::kServicesName; }
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  // RocksDB tells listeners of the part of a CompactFiles, but not of the whole: of a trie's own they hear it here, the
  // first of them.
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override;
  // Of a batch that was inserted in part: while its group holds RocksDB's queue of writers.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;

  // Of a database whose options have no SiltMerges: a SILT store may be created in it, or become one by SetOptions,
  // when RocksDB takes no more listeners.
  void MergeSiltStores();

  void SetDurable(std::unique_ptr<DurableWrites> durable) { durable_ = std::move(durable); }
  DurableWrites* durable() const { return durable_.get(); }  // null: memtables are not durable
  void SetFastWrites(std::unique_ptr<FastWrites> writes);
  FastWrites* fast_writes() const { return fast_writes_.get(); }  // null: all writes queue
  // Null: there is none.
  void SetCache(std::unique_ptr<DatabaseCache> cache) { cache_ = std::move(cache); }
  DatabaseCache* cache() const { return cache_.get(); }

  void SetEnvironment(std::shared_ptr<EnvironmentOptions> environment) { environment_ = std::move(environment); }
  EnvironmentOptions* environment() const { return environment_.get(); }  // null: it says nothing of this database

  // Calls of DisableManualCompaction that have not been taken back.
  void CountManualPause(int by) { manual_pauses_ += by; }
  bool manual_compaction_paused() const { return manual_pauses_ > 0; }

  // Of the open database, before it closes.
  void SetSession(const std::string& session_id) { session_id_ = session_id; }

  static bool IsServices(const rocksdb::EventListener* listener) {
    // The address tells; other listeners may have an empty name, too, and may not be cast.
    return listener != nullptr && listener->Name() == port::kServicesName;
  }

 private:
  std::unique_ptr<DurableWrites> durable_;
  std::unique_ptr<FastWrites> fast_writes_;
  std::unique_ptr<DatabaseCache> cache_;
  std::shared_ptr<EnvironmentOptions> environment_;
  std::string session_id_;
  std::atomic<int> manual_pauses_{0};
  std::unique_ptr<SiltMerges> silt_merges_;  // null: that of the options merges
};

class CairnDB final : public port::DbImpl {
 public:
  CairnDB(const rocksdb::DBOptions& options, const std::string& path, bool seq_per_batch, bool batch_per_txn,
          bool read_only);
  ~CairnDB() override;

  // Null if it is RocksDB's own.
  static CairnDB* Of(rocksdb::DBImpl* db) {
    // All objects of the class are made by this library, so its one type_info tells.
    return &typeid(*db) == &typeid(CairnDB) ? static_cast<CairnDB*>(db) : nullptr;
  }
  // Of any DB*: the database's own object, or a StackableDB around it.
  static CairnDB* Of(rocksdb::DB* db);

  DatabaseServices* services() const {
    return static_cast<DatabaseServices*>(immutable_db_options_.listeners.front().get());
  }

  // Tells listeners that the compaction begins.
  void TellOfCompaction(rocksdb::Compaction* compaction, int job_id);

  // NotSupported if the batch, which may be null, holds what is refused whatever the memtables are.
  rocksdb::Status CheckBatch(rocksdb::WriteBatch* batch);

  // Calls write(options) if what the batch holds is not refused, with the options that the memtables ask for.
  template <class Write>
  rocksdb::Status WriteChecked(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch, bool has_indexed_batch,
                               const Write& write) {
    rocksdb::Status s = CheckBatch(batch);
    if (!s.ok()) return s;
    DurableWrites* const durable = services()->durable();
    return durable == nullptr ? write(options) : durable->Write(this, options, batch, has_indexed_batch, write);
  }

  // Whether a column family of these options can be added, and makes it part of what the database shares. Its options
  // become those that it is to be opened with.
  rocksdb::Status AdmitNewFamily(rocksdb::ColumnFamilyDescriptor* family);

  rocksdb::Status Close() override;
  rocksdb::Status Resume() override;

  // Without a batch, if the write need not queue. RocksDB's own, which make one, end in WriteImpl.
  using rocksdb::DBImpl::Put;
  rocksdb::Status Put(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                      const rocksdb::Slice& key, const rocksdb::Slice& value) override;
  using rocksdb::DBImpl::Merge;
  rocksdb::Status Merge(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                        const rocksdb::Slice& key, const rocksdb::Slice& value) override;
  using rocksdb::DBImpl::Delete;
  rocksdb::Status Delete(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                         const rocksdb::Slice& key) override;
  using rocksdb::DBImpl::SingleDelete;
  rocksdb::Status SingleDelete(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                               const rocksdb::Slice& key) override;

  using rocksdb::DBImpl::Get;
  rocksdb::Status Get(const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family,
                      const rocksdb::Slice& key, rocksdb::PinnableSlice* value, std::string* timestamp) override;
  using rocksdb::DBImpl::GetEntity;
  rocksdb::Status GetEntity(const rocksdb::ReadOptions& options, const rocksdb::Slice& key,
                            rocksdb::PinnableAttributeGroups* result) override;
  using rocksdb::DBImpl::GetImpl;
  rocksdb::Status GetImpl(const rocksdb::ReadOptions& options, const rocksdb::Slice& key,
                          GetImplOptions& get_options) override;
  using rocksdb::DBImpl::MultiGet;
  void MultiGet(const rocksdb::ReadOptions& options, const size_t count, rocksdb::ColumnFamilyHandle** families,
                const rocksdb::Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                rocksdb::Status* statuses, const bool sorted_input) override;
  using rocksdb::DBImpl::MultiGetEntity;
  void MultiGetEntity(const rocksdb::ReadOptions& options, size_t count, rocksdb::ColumnFamilyHandle** families,
                      const rocksdb::Slice* keys, rocksdb::PinnableWideColumns* results, rocksdb::Status* statuses,
                      bool sorted_input) override;
  void MultiGetEntity(const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family, size_t count,
                      const rocksdb::Slice* keys, rocksdb::PinnableWideColumns* results, rocksdb::Status* statuses,
                      bool sorted_input) override;
  void MultiGetEntity(const rocksdb::ReadOptions& options, size_t count, const rocksdb::Slice* keys,
                      rocksdb::PinnableAttributeGroups* results) override;

  using rocksdb::DBImpl::NewIterator;
  rocksdb::Iterator* NewIterator(const rocksdb::ReadOptions& options, rocksdb::ColumnFamilyHandle* family) override;

  rocksdb::Status IngestExternalFiles(const std::vector<rocksdb::IngestExternalFileArg>& args) override;
  using rocksdb::DBImpl::CompactRange;
  rocksdb::Status CompactRange(const rocksdb::CompactRangeOptions& options, rocksdb::ColumnFamilyHandle* family,
                               const rocksdb::Slice* begin, const rocksdb::Slice* end) override;
  using rocksdb::DBImpl::CompactFiles;
  rocksdb::Status CompactFiles(const rocksdb::CompactionOptions& options, rocksdb::ColumnFamilyHandle* family,
                               const std::vector<std::string>& inputs, const int output_level, const int output_path,
                               std::vector<std::string>* const outputs, rocksdb::CompactionJobInfo* info) override;
  rocksdb::Status SuggestCompactRange(rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice* begin,
                                      const rocksdb::Slice* end) override;
  using rocksdb::DBImpl::ClipColumnFamily;
  rocksdb::Status ClipColumnFamily(rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& begin,
                                   const rocksdb::Slice& end) override;
  // A seed that the options leave open is that of the files.
  using rocksdb::DBImpl::CreateColumnFamilyWithImport;
  rocksdb::Status CreateColumnFamilyWithImport(const rocksdb::ColumnFamilyOptions& options, const std::string& name,
                                               const rocksdb::ImportColumnFamilyOptions& import_options,
                                               const std::vector<const rocksdb::ExportImportFilesMetaData*>& files,
                                               rocksdb::ColumnFamilyHandle** handle) override;
  void ReleaseSnapshot(const rocksdb::Snapshot* snapshot) override;
  void DisableManualCompaction() override;
  void EnableManualCompaction() override;
  rocksdb::Status PauseBackgroundWork() override;
  rocksdb::Status ContinueBackgroundWork() override;
  rocksdb::Status WaitForCompact(const rocksdb::WaitForCompactOptions& options) override;

  using rocksdb::DBImpl::GetProperty;
  bool GetProperty(rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& property, std::string* value) override;
  using rocksdb::DBImpl::GetMapProperty;
  bool GetMapProperty(rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& property,
                      std::map<std::string, std::string>* value) override;
  rocksdb::Status ResetStats() override;
  using rocksdb::DBImpl::GetIntProperty;
  bool GetIntProperty(rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& property, uint64_t* value) override;
  bool GetAggregatedIntProperty(const rocksdb::Slice& property, uint64_t* value) override;
  using rocksdb::DBImpl::GetOptions;
  rocksdb::Options GetOptions(rocksdb::ColumnFamilyHandle* family) const override;
  rocksdb::DBOptions GetDBOptions() const override;

  rocksdb::Status SyncWAL() override;
  using rocksdb::DBImpl::FlushWAL;
  rocksdb::Status FlushWAL(const rocksdb::WriteOptions& options, bool sync) override;
  rocksdb::Status LockWAL() override;
  rocksdb::Status UnlockWAL() override;
  rocksdb::Status GetLiveFiles(std::vector<std::string>& files, uint64_t* manifest_bytes, bool flush_memtable) override;
  rocksdb::Status GetLiveFilesStorageInfo(const rocksdb::LiveFilesStorageInfoOptions& options,
                                          std::vector<rocksdb::LiveFileStorageInfo>* files) override;
  rocksdb::Status GetUpdatesSince(rocksdb::SequenceNumber sequence,
                                  std::unique_ptr<rocksdb::TransactionLogIterator>* updates,
                                  const rocksdb::TransactionLogIterator::ReadOptions& options) override;

 private:
  rocksdb::Status Recover(const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool read_only,
                          bool error_if_wal_file_exists, bool error_if_data_exists_in_wals, bool is_retry,
                          uint64_t* recovered_seq, RecoveryContext* context, bool* can_retry) override;
  void StopThreads();
  rocksdb::Status ChangeOptions(const port::FamilyChanges& given) override;
  rocksdb::Status CheckIngestion(const std::vector<rocksdb::IngestExternalFileArg>& arguments) override;
  void WhileFilesChange(const std::function<void()>& change) override;
  void CompactionsAborted() override;
  void CompactionsResumed() override;

  // False: nothing has happened, and the write is to take a batch.
  bool WriteEntry(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family, rocksdb::ValueType type,
                  const rocksdb::Slice& key, const rocksdb::Slice& value, rocksdb::Status* status);
  bool WriteEntryFast(FastWrites* fast, const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* family,
                      rocksdb::ValueType type, const rocksdb::Slice& key, const rocksdb::Slice& value,
                      rocksdb::Status* status);
  // What a manual compaction of the family shall take along; all families with atomic_flush.
  rocksdb::Status FlushForCompaction(const rocksdb::CompactRangeOptions& options, rocksdb::ColumnFamilyHandle* family);
  // The database's result cache, if reads with these options may be answered by it; else null.
  rocksdb::Status CloseDurably();
  DatabaseCache* CacheFor(const rocksdb::ReadOptions& options) const;
  // What RocksDB counts of reads that reach the tree, for those that the cache has answered.
  class CachedRead;
  static void CountCachedGet(bool found, size_t bytes, CachedRead* read);
  static void CountCachedMultiGet(size_t count, rocksdb::ColumnFamilyHandle** families,
                                  const std::vector<ResultCache::Answer>& answers, const rocksdb::PinnableSlice* values,
                                  CachedRead* read);
  template <class ReadTree>
  rocksdb::Status AskCache(DatabaseCache* cache, const rocksdb::ReadOptions& options,
                           rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& key,
                           rocksdb::PinnableSlice* value, const ReadTree& read_tree);
  // REQUIRES: the cache is asked; of the second, that it may answer.
  rocksdb::Status GetFirstFrom(DatabaseCache* cache, const rocksdb::ReadOptions& options,
                               rocksdb::ColumnFamilyHandle* family, const rocksdb::Slice& key,
                               rocksdb::PinnableSlice* value, std::string* timestamp);
  rocksdb::Status GetFirstFrom(DatabaseCache* cache, const rocksdb::ReadOptions& options, const rocksdb::Slice& key,
                               GetImplOptions& get_options);
  // RocksDB's own reads, but of what has expired.
  rocksdb::Status GetUnexpired(const rocksdb::ReadOptions& options, const rocksdb::Slice& key,
                               GetImplOptions& get_options);
  // Without what has a stamp below this.
  rocksdb::Status GetSince(uint64_t before, const rocksdb::ReadOptions& options, const rocksdb::Slice& key,
                           GetImplOptions& get_options);
  void MultiGetUnexpired(const rocksdb::ReadOptions& options, size_t count, rocksdb::ColumnFamilyHandle** families,
                         const rocksdb::Slice* keys, rocksdb::PinnableSlice* values, std::string* timestamps,
                         rocksdb::Status* statuses, bool sorted_input);
  // What a read of persisted data means here.
  rocksdb::ReadOptions ForMemTables(const rocksdb::ReadOptions& options) const;
};

}  // namespace cairn
