// Databases whose transactions are written before they commit (WRITE_PREPARED, WRITE_UNPREPARED): which WAL keeps them, what an
// opening rolls back, families that are created and tables that come while others write. The definitions that take the place of
// RocksDB's own (rocksdb/port/rocksdb_own.h).

#include "db/write_prepared.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/read_callback.h"
#include "db/snapshot_checker.h"
#include "db/transactions.h"
#include "db/write_batch_internal.h"
#include "rocksdb/port/private_members.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/write_batch.h"
#include "util/set_comparator.h"
#include "utilities/transactions/write_prepared_txn_db.h"
#include "utilities/transactions/write_unprepared_txn.h"
#include "utilities/transactions/write_unprepared_txn_db.h"

extern "C" {
extern const int cairn_write_prepared;
const int cairn_write_prepared = 1;
}

namespace cairn {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

thread_local ImportedNumbers imported;

// What was replaced while others may be reading it, kept as long as no reader takes; for less where that is much, as RocksDB's maps
// keep families that were dropped. Thread-safe.
class RetiredMaps {
 public:
  void Keep(std::shared_ptr<const void> map, size_t families) {
    constexpr std::chrono::minutes kLongerThanAnyReader(10);
    constexpr std::chrono::seconds kLongerThanMost(10);
    constexpr size_t kMany = 1 << 20;
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard<std::mutex> lock(mu_);
    while (!maps_.empty()) {
      const Retired& oldest = maps_.front();
      const auto age = now - oldest.since;
      if (age <= kLongerThanMost || (age <= kLongerThanAnyReader && families_ <= kMany)) break;
      families_ -= oldest.families;
      maps_.pop_front();
    }
    maps_.push_back({now, std::move(map), families});
    families_ += families;
  }

 private:
  struct Retired {
    std::chrono::steady_clock::time_point since;
    std::shared_ptr<const void> map;
    size_t families;
  };
  std::mutex mu_;
  std::deque<Retired> maps_;  // under mu_
  size_t families_ = 0;       // of all of them, under mu_
};

RetiredMaps& AllRetiredMaps() {
  static auto* const maps = new RetiredMaps();
  return *maps;
}

// Sees what no recovered transaction has written.
class WhatIsCommitted : public rocksdb::ReadCallback {
 public:
  using RecoveredTransaction = rocksdb::DBImpl::RecoveredTransaction;
  explicit WhatIsCommitted(rocksdb::DBImpl* db) : ReadCallback(db->GetLatestSequenceNumber()) {
    for (const auto& [name, transaction] : db->recovered_transactions()) {
      for (const auto& [number, batch] : transaction->batches_) {
        batches_[number] = {number + std::max<size_t>(batch.batch_cnt_, 1), transaction};
      }
    }
  }
  // Of the next key.
  void Begin() { newest_ = 0; }
  bool IsVisibleFullCheck(rocksdb::SequenceNumber number) override {
    newest_ = std::max(newest_, number);
    return WriterOf(number) == nullptr;
  }
  // Who has written the newest entry of the key, if that is a recovered transaction.
  const RecoveredTransaction* newest_writer() const { return WriterOf(newest_); }
  void Refresh(rocksdb::SequenceNumber /*number*/) override {}

 private:
  struct Batch {
    rocksdb::SequenceNumber end;
    const RecoveredTransaction* transaction;
  };
  const RecoveredTransaction* WriterOf(rocksdb::SequenceNumber number) const {
    const auto next = batches_.upper_bound(number);
    if (next == batches_.begin() || number >= std::prev(next)->second.end) return nullptr;
    return std::prev(next)->second.transaction;
  }

  std::map<rocksdb::SequenceNumber, Batch> batches_;  // by where they begin
  rocksdb::SequenceNumber newest_ = 0;
};

// Of each key of a batch that nobody has committed, what is there without it: what was before, or what others have committed since,
// when a RollbackToSavePoint had let go of the key. What another one has written since that is not committed yet stays, too, and lies
// over what was before: letting go has written that.
class WhatIsThereWithout : public rocksdb::WriteBatch::Handler {
 public:
  WhatIsThereWithout(rocksdb::DBImpl* db, rocksdb::WritePreparedTxnDB* transactions,
                     const WhatIsCommitted::RecoveredTransaction* transaction, WhatIsCommitted* committed)
      : db_(db),
        transaction_(transaction),
        families_(transactions->GetCFHandleMap()),
        comparators_(transactions->GetCFComparatorMap()),
        committed_(committed) {}
  rocksdb::WriteBatch* batch() { return &batch_; }

  Status PutCF(uint32_t family, const Slice& key, const Slice& /*value*/) override { return PutBack(family, key); }
  Status DeleteCF(uint32_t family, const Slice& key) override { return PutBack(family, key); }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override { return PutBack(family, key); }
  Status MergeCF(uint32_t family, const Slice& key, const Slice& /*value*/) override { return PutBack(family, key); }
  Status PutEntityCF(uint32_t family, const Slice& key, const Slice& /*entity*/) override {
    return PutBack(family, key);
  }

 private:
  using Keys = std::set<std::string, rocksdb::SetComparator>;

  Status PutBack(uint32_t id, const Slice& key) {
    const auto family = families_->find(id);
    if (family == families_->end()) return Status::OK();  // dropped
    const Keys none(rocksdb::SetComparator(comparators_->at(id)));
    if (!keys_.emplace(id, none).first->second.insert(key.ToString()).second) return Status::OK();
    rocksdb::PinnableWideColumns entity;
    rocksdb::DBImpl::GetImplOptions how;
    how.column_family = family->second;
    how.columns = &entity;
    how.callback = committed_;
    committed_->Begin();
    const Status s = db_->GetImpl(rocksdb::ReadOptions(), key, how);
    const auto* const newest = committed_->newest_writer();
    if (newest != nullptr && newest != transaction_) return s.IsNotFound() ? Status::OK() : s;
    if (s.IsNotFound()) return batch_.Delete(family->second, key);
    if (!s.ok()) return s;
    const rocksdb::WideColumns& columns = entity.columns();
    const bool is_plain = columns.size() == 1 && columns.front().name() == rocksdb::kDefaultWideColumnName;
    return is_plain ? batch_.Put(family->second, key, columns.front().value())
                    : batch_.PutEntity(family->second, key, columns);
  }

  rocksdb::DBImpl* const db_;
  const WhatIsCommitted::RecoveredTransaction* const transaction_;
  const std::shared_ptr<std::map<uint32_t, rocksdb::ColumnFamilyHandle*>> families_;
  const std::shared_ptr<std::map<uint32_t, const rocksdb::Comparator*>> comparators_;
  WhatIsCommitted* const committed_;
  std::map<uint32_t, Keys> keys_;
  rocksdb::WriteBatch batch_;
};

rocksdb::WritePreparedTxnDB* DatabaseOf(const rocksdb::SnapshotChecker& checker) {
  // Const there, for readers; it is the transactions' own database, which adds what it commits.
  return const_cast<rocksdb::WritePreparedTxnDB*>(
      port::DatabaseOf(static_cast<const rocksdb::WritePreparedSnapshotChecker&>(checker)));
}

// What has a sequence number behind `before`, up to `newest`, has committed. As long as nobody says that, what has come from
// elsewhere counts as prepared: readers look past it while an older transaction is, and a Rollback puts over it what was there
// before. REQUIRES: none is a transaction's.
void AddCommitted(rocksdb::WritePreparedTxnDB* database, rocksdb::SequenceNumber before,
                  rocksdb::SequenceNumber newest) {
  // It forgets more than that, and what it has forgotten has committed.
  rocksdb::TransactionDBOptions options = database->GetTxnDBOptions();
  const uint64_t kept = uint64_t{1} << port::CommitCacheBitsOf(&options);
  if (newest > kept) before = std::max(before, newest - kept - 1);
  for (rocksdb::SequenceNumber number = before + 1; number <= newest; ++number) database->AddCommitted(number, number);
}

class NumbersOfBatch : public rocksdb::SubBatchCounter {
 public:
  using SubBatchCounter::SubBatchCounter;
  Status PutEntityCF(uint32_t family, const Slice& key, const Slice& entity) override {
    return PutCF(family, key, entity);
  }
};

// How many sequence numbers the batches of recovered transactions take: one, and one more where a key comes again. RocksDB loses
// count where a key comes for the third time, and its table was flushed: what takes the last numbers counted as committed.
void CountSubBatches(rocksdb::DBImpl* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
  if (db->recovered_transactions().empty()) return;
  std::map<uint32_t, const rocksdb::Comparator*> comparators;
  for (uint32_t id = 0; id <= db->GetVersionSet()->GetColumnFamilySet()->GetMaxColumnFamily(); ++id) {
    comparators[id] = rocksdb::BytewiseComparator();  // of those that were dropped
  }
  for (rocksdb::ColumnFamilyHandle* const family : families) comparators[family->GetID()] = family->GetComparator();
  for (const auto& [name, transaction] : db->recovered_transactions()) {
    for (auto& [number, batch] : transaction->batches_) {
      NumbersOfBatch counter(comparators);
      if (batch.batch_->Iterate(&counter).ok()) batch.batch_cnt_ = std::max(batch.batch_cnt_, counter.BatchCount());
    }
  }
}

}  // namespace

// A file of the bottommost level is compacted when nobody needs its sequence numbers any more, for which the compaction puts 0. That of
// what is prepared it has to keep: RocksDB compacted such a file again and again, as fast as it can, until the transaction ended, and
// the snapshots before its end.
void LeaveOutPrepared(const rocksdb::SnapshotChecker& checker, const rocksdb::SnapshotList& snapshots,
                      rocksdb::ColumnFamilySet* families) {
  rocksdb::SequenceNumber oldest = port::OldestUncommitted(DatabaseOf(checker));
  if (!snapshots.empty()) {
    // RocksDB writes it when the snapshot is in the list already, without the mutex: before that a file may be compacted once more.
    const rocksdb::SequenceNumber of_snapshot =
        __atomic_load_n(&snapshots.oldest()->min_uncommitted_, __ATOMIC_RELAXED);
    if (of_snapshot > rocksdb::kMinUnCommittedSeq) oldest = std::min(oldest, of_snapshot);
  }
  for (rocksdb::ColumnFamilyData* const family : *families) {
    port::MarkedFiles& files = port::BottommostFilesOf(family->current()->storage_info());
    port::MarkedFiles others;
    for (const auto& file : files) {
      if (file.second->fd.largest_seqno < oldest) others.push_back(file);
    }
    if (others.size() < files.size()) files = others;
  }
}

void NoteImported(const ImportedNumbers& numbers) { imported = numbers; }

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// The first batch of a transaction counts for the WAL that it is in, which is kept until all that have counted have ended. RocksDB
// takes a transaction for one of them when its first batch has failed, and what it writes after a Rollback for none: ended then, it
// takes the place of another one, which is prepared, and in a WAL that nobody keeps.
Status WriteUnpreparedTxn::FlushWriteBatchToDBInternal(bool prepared) {
  if (unprep_seqs_.empty()) log_number_ = 0;
  Status s = cairn::CheckEntities(*GetWriteBatch()->GetWriteBatch());
  if (s.ok()) s = own::WriteUnpreparedBatch(this, prepared);
  if (unprep_seqs_.empty()) log_number_ = 0;
  return s;
}

// At an opening, of one that was not prepared. RocksDB says after each of its batches, the newest first, that it is rolled back: a
// process that dies between two of them leaves the older ones, which count as committed. And it does not say that what it has put
// back has committed: other Rollbacks, snapshots behind compactions, and reads while an older transaction is prepared find what it
// was to hide.
Status WriteUnpreparedTxnDB::RollbackRecoveredTransaction(const DBImpl::RecoveredTransaction* transaction) {
  cairn::WhatIsCommitted committed(db_impl_);
  const auto oldest = transaction->batches_.begin();
  for (auto batch = transaction->batches_.end(); batch != oldest;) {
    --batch;
    cairn::WhatIsThereWithout without(db_impl_, this, transaction, &committed);
    Status s = batch->second.batch_->Iterate(&without);
    if (s.ok() && batch != oldest && without.batch()->Count() == 0) continue;
    // What ends a batch, as long as others are to be rolled back.
    if (s.ok()) {
      s = batch == oldest ? WriteBatchInternal::MarkRollback(without.batch(), transaction->name_)
                          : WriteBatchInternal::InsertNoop(without.batch());
    }
    uint64_t number = 0;
    if (s.ok()) {
      s = db_impl_->WriteImpl(WriteOptions(), without.batch(), /*callback=*/nullptr, /*user_write_cb=*/nullptr,
                              /*wal_used=*/nullptr, /*log_ref=*/0, /*disable_memtable=*/false, &number,
                              /*batch_cnt=*/1);
    }
    if (!s.ok()) return s;
    AddCommitted(number, number);
    if (db_impl_->immutable_db_options().two_write_queues) db_impl_->SetLastPublishedSequence(number);
  }
  return Status::OK();
}

Status WritePreparedTxnDB::Initialize(const std::vector<size_t>& to_compact,
                                      const std::vector<ColumnFamilyHandle*>& families) {
  cairn::CountSubBatches(db_impl_, families);
  return own::InitializeWritePrepared(this, to_compact, families);
}

Status WriteUnpreparedTxnDB::Initialize(const std::vector<size_t>& to_compact,
                                        const std::vector<ColumnFamilyHandle*>& families) {
  cairn::CountSubBatches(db_impl_, families);
  return own::InitializeWriteUnprepared(this, to_compact, families);
}

// A transaction, or a write, keeps a reference to the map of families that it has found, and to nothing that would keep the map: a
// family that was created meanwhile was the end of the process.
void WritePreparedTxnDB::UpdateCFComparatorMap(ColumnFamilyHandle* family) {
  cairn::AllRetiredMaps().Keep(cf_map_, cf_map_ == nullptr ? 0 : cf_map_->size());
  cairn::AllRetiredMaps().Keep(handle_map_, handle_map_ == nullptr ? 0 : handle_map_->size());
  own::UpdateCFComparatorMap(this, family);
}

// By now anybody reads what was ingested, and others write. What took no number is older than all transactions.
void DBImpl::NotifyOnExternalFileIngested(ColumnFamilyData* family, const ExternalSstFileIngestionJob& job) {
  if (seq_per_batch_ && snapshot_checker_ != nullptr) {
    for (const IngestedFileInfo& file : job.files_to_ingest()) {
      const SequenceNumber number = file.assigned_seqno;
      if (number > 0) cairn::AddCommitted(cairn::DatabaseOf(*snapshot_checker_), number - 1, number);
    }
  }
  own::NotifyOnExternalFileIngested(this, family, job);
}

Status DBImpl::CreateColumnFamilyWithImport(const ColumnFamilyOptions& options, const std::string& name,
                                            const ImportColumnFamilyOptions& import_options,
                                            const std::vector<const ExportImportFilesMetaData*>& files,
                                            ColumnFamilyHandle** handle) {
  cairn::NoteImported(cairn::ImportedNumbers());
  const Status s = own::CreateColumnFamilyWithImport(this, options, name, import_options, files, handle);
  const cairn::ImportedNumbers numbers = cairn::imported;
  if (s.ok() && seq_per_batch_ && snapshot_checker_ != nullptr) {
    rocksdb::WritePreparedTxnDB* const database = cairn::DatabaseOf(*snapshot_checker_);
    // Whoever reads by now reads that number, or a later one, unless the read takes longer than the import.
    if (numbers.read > 0) cairn::port::TakeForCommitted(database, numbers.read - 1);
    cairn::AddCommitted(database, numbers.before, numbers.newest);
  }
  return s;
}

}  // namespace rocksdb
