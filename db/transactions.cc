// Transactions whose Prepare, Commit or Rollback fails, and those of column families that are dropped: the definitions that take
// the place of RocksDB's own (rocksdb/port/rocksdb_own.h).

#include "db/transactions.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/cairn_db.h"
#include "db/write_batch_internal.h"
#include "rocksdb/port/entity.h"
#include "rocksdb/port/private_members.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/write_batch.h"
#include "util/of_thread.h"
#include "utilities/transactions/lock/point/point_lock_manager.h"
#include "utilities/transactions/write_unprepared_txn.h"

extern "C" {
extern const int cairn_transactions;
const int cairn_transactions = 1;
}

namespace cairn {
namespace {

// A batch of a transaction that this database would refuse to write.
rocksdb::Status CheckTransactionBatch(rocksdb::DBImpl* db, rocksdb::WriteBatch* batch) {
  CairnDB* const ours = CairnDB::Of(db);
  return ours == nullptr ? rocksdb::Status::OK() : ours->CheckBatch(batch);
}

// What a transaction has in memtables (WRITE_UNPREPARED), which it forgets also when its Commit or Rollback fails.
class KeptBatches {
 public:
  KeptBatches(rocksdb::PessimisticTransaction* transaction, rocksdb::TxnDBWritePolicy policy)
      : transaction_(policy == rocksdb::WRITE_UNPREPARED ? static_cast<rocksdb::WriteUnpreparedTxn*>(transaction)
                                                         : nullptr) {
    if (transaction_ != nullptr) batches_ = port::BatchesOf(transaction_);
  }
  void PutBack() {
    if (transaction_ != nullptr) port::BatchesOf(transaction_) = std::move(batches_);
  }

 private:
  rocksdb::WriteUnpreparedTxn* const transaction_;
  port::UnpreparedBatches batches_;
};

bool IsThere(rocksdb::DBImpl* db, uint32_t family) {
  const rocksdb::InstrumentedMutexLock lock(db->mutex());
  return db->GetVersionSet()->GetColumnFamilySet()->GetColumnFamily(family) != nullptr;
}

// What comes to families that are dropped, also meanwhile, is left out, as where an opening reads it.
class PassesOverDropped {
 public:
  explicit PassesOverDropped(rocksdb::WriteOptions* options)
      : options_(options), before_(options->ignore_missing_column_families) {
    options_->ignore_missing_column_families = true;
  }
  ~PassesOverDropped() { options_->ignore_missing_column_families = before_; }
  PassesOverDropped(const PassesOverDropped&) = delete;
  PassesOverDropped& operator=(const PassesOverDropped&) = delete;

 private:
  rocksdb::WriteOptions* const options_;
  const bool before_;
};

// What a batch has of transactions' beginnings and ends is passed over.
class PassesOverMarks : public rocksdb::WriteBatch::Handler {
 public:
  using Status = rocksdb::Status;
  using Slice = rocksdb::Slice;

  Status MarkBeginPrepare(bool /*unprepared*/) override { return Mark(); }
  Status MarkEndPrepare(const Slice& /*name*/) override { return Mark(); }
  Status MarkCommit(const Slice& /*name*/) override { return Mark(); }
  Status MarkCommitWithTimestamp(const Slice& /*name*/, const Slice& /*time*/) override { return Mark(); }
  Status MarkRollback(const Slice& /*name*/) override { return Mark(); }
  Status MarkNoop(bool /*is_empty*/) override { return Status::OK(); }

 private:
  virtual Status Mark() const { return Status::OK(); }
};

// Tells what a batch writes to families that are still there from what it writes to others. Adds no marks of transactions to others.
class FamilyFilter : public PassesOverMarks {
 public:
  using Batch = rocksdb::WriteBatchInternal;
  enum class Marks { kRefuse, kPassOver };

  // Only says whether there is anything to leave out.
  explicit FamilyFilter(rocksdb::DBImpl* db) : db_(db) {}
  // What is left out goes to `dropped`, if there is such a batch, and each of the others to `each`, in the order of the batch.
  FamilyFilter(rocksdb::DBImpl* db, rocksdb::WriteBatch* dropped, std::function<Status(rocksdb::WriteBatch*)> each,
               Marks marks = Marks::kRefuse)
      : db_(db), dropped_(dropped), each_(std::move(each)), marks_(marks) {}
  bool has_left_out() const { return has_left_out_; }

  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    return Add(family, [&](rocksdb::WriteBatch* to) { return Batch::Put(to, family, key, value); });
  }
  Status PutEntityCF(uint32_t family, const Slice& key, const Slice& entity) override {
    rocksdb::WideColumns columns;
    const Status s = port::ReadEntity(entity, &columns);
    if (!s.ok()) return s;
    return Add(family, [&](rocksdb::WriteBatch* to) { return Batch::PutEntity(to, family, key, columns); });
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    return Add(family, [&](rocksdb::WriteBatch* to) { return Batch::Delete(to, family, key); });
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override {
    return Add(family, [&](rocksdb::WriteBatch* to) { return Batch::SingleDelete(to, family, key); });
  }
  Status MergeCF(uint32_t family, const Slice& key, const Slice& value) override {
    return Add(family, [&](rocksdb::WriteBatch* to) { return Batch::Merge(to, family, key, value); });
  }

 private:
  template <typename AddTo>
  Status Add(uint32_t family, const AddTo& add) {
    if (!KnowsThere(family)) return dropped_ == nullptr ? Status::OK() : add(dropped_);
    if (!each_) return Status::OK();
    one_.Clear();
    const Status s = add(&one_);
    return s.ok() ? each_(&one_) : s;
  }
  Status Mark() const override { return marks_ == Marks::kRefuse ? Status::InvalidArgument() : Status::OK(); }
  bool KnowsThere(uint32_t family) {
    const auto known = is_there_.find(family);
    if (known != is_there_.end()) return known->second;
    const bool is_there = IsThere(db_, family);
    has_left_out_ = has_left_out_ || !is_there;
    return is_there_[family] = is_there;
  }

  rocksdb::DBImpl* const db_;
  rocksdb::WriteBatch* const dropped_ = nullptr;
  const std::function<Status(rocksdb::WriteBatch*)> each_;
  const Marks marks_ = Marks::kPassOver;
  rocksdb::WriteBatch one_;
  std::map<uint32_t, bool> is_there_;
  bool has_left_out_ = false;
};

// Looks at the family of each entry.
class EachFamily : public PassesOverMarks {
 public:
  explicit EachFamily(std::function<void(uint32_t)> look) : look_(std::move(look)) {}

  Status PutCF(uint32_t family, const Slice& /*key*/, const Slice& /*value*/) override { return Meet(family); }
  Status TimedPutCF(uint32_t family, const Slice& /*key*/, const Slice& /*value*/, uint64_t /*time*/) override {
    return Meet(family);
  }
  Status PutEntityCF(uint32_t family, const Slice& /*key*/, const Slice& /*entity*/) override { return Meet(family); }
  Status DeleteCF(uint32_t family, const Slice& /*key*/) override { return Meet(family); }
  Status SingleDeleteCF(uint32_t family, const Slice& /*key*/) override { return Meet(family); }
  Status DeleteRangeCF(uint32_t family, const Slice& /*begin*/, const Slice& /*end*/) override { return Meet(family); }
  Status MergeCF(uint32_t family, const Slice& /*key*/, const Slice& /*value*/) override { return Meet(family); }
  Status PutBlobIndexCF(uint32_t family, const Slice& /*key*/, const Slice& /*value*/) override { return Meet(family); }

 private:
  Status Meet(uint32_t family) {
    look_(family);
    return Status::OK();
  }

  const std::function<void(uint32_t)> look_;
};

// Whether each family that it writes to is there, or was once.
rocksdb::Status CheckFamilies(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch) {
  uint32_t newest = 0;
  EachFamily family([&](uint32_t id) { newest = std::max(newest, id); });
  const rocksdb::Status s = batch.Iterate(&family);
  if (!s.ok() || newest == 0) return s;
  const rocksdb::InstrumentedMutexLock lock(db->mutex());
  if (newest <= db->GetVersionSet()->GetColumnFamilySet()->GetMaxColumnFamily()) return s;
  return rocksdb::Status::InvalidArgument("A transaction writes to a column family that never was",
                                          std::to_string(newest));
}

// Whether what a group of writers is about to write to memtables ends a transaction, which passes over dropped families, and none of
// the others writes to such.
bool OnlyEndsMiss(const rocksdb::WriteThread::WriteGroup& group, rocksdb::ColumnFamilyMemTables* memtables) {
  const auto is_end = [](const rocksdb::WriteBatch& batch) { return batch.HasCommit() || batch.HasRollback(); };
  bool has_ends = false;
  for (rocksdb::WriteThread::Writer* const writer : group) {
    has_ends = has_ends || (writer->ShouldWriteToMemtable() && is_end(*writer->batch));
  }
  if (!has_ends) return false;
  bool others_miss = false;
  EachFamily of_other([&](uint32_t id) { others_miss = others_miss || !memtables->Seek(id); });
  for (rocksdb::WriteThread::Writer* const writer : group) {
    if (!writer->ShouldWriteToMemtable() || is_end(*writer->batch)) continue;
    if (!writer->batch->Iterate(&of_other).ok()) return false;
  }
  return !others_miss;
}

// How often a family of a TransactionDB was dropped in this process.
std::atomic<uint64_t> drops{0};

// The managers whose lists this thread has emptied since a family was dropped.
struct EmptiedLists {
  uint64_t drops = 0;
  std::vector<const rocksdb::PointLockManager*> managers;
};

// Whether this thread may have locks of a dropped family in the list that it keeps of this manager's. Asked once: it is about to
// empty the list.
bool KeepsLocksOfDropped(const rocksdb::PointLockManager* manager) {
  const uint64_t drops_now = drops.load(std::memory_order_acquire);
  if (drops_now == 0) return false;
  EmptiedLists* const emptied = OfThread<EmptiedLists>::Get();
  if (emptied->drops != drops_now) *emptied = {drops_now, {}};
  std::vector<const rocksdb::PointLockManager*>& managers = emptied->managers;
  if (std::find(managers.begin(), managers.end(), manager) != managers.end()) return false;
  managers.push_back(manager);
  return true;
}

std::vector<uint32_t> FamiliesOf(const rocksdb::LockTracker& tracker) {
  std::vector<uint32_t> families;
  const std::unique_ptr<rocksdb::LockTracker::ColumnFamilyIterator> next(tracker.GetColumnFamilyIterator());
  while (next->HasNext()) families.push_back(next->Next());
  return families;
}

// The keys of families that are there, or null where all of them are.
std::unique_ptr<rocksdb::LockTracker> LeaveOutDropped(rocksdb::DBImpl* db, const rocksdb::LockTracker& tracker,
                                                      const rocksdb::LockTrackerFactory& factory) {
  std::vector<uint32_t> families = FamiliesOf(tracker);
  const auto dropped = std::remove_if(families.begin(), families.end(), [=](uint32_t id) { return !IsThere(db, id); });
  if (dropped == families.end()) return nullptr;
  families.erase(dropped, families.end());
  std::unique_ptr<rocksdb::LockTracker> there(factory.Create());
  rocksdb::PointLockRequest of_key;
  for (const uint32_t id : families) {
    of_key.column_family_id = id;
    const std::unique_ptr<rocksdb::LockTracker::KeyIterator> key(tracker.GetKeyIterator(id));
    while (key->HasNext()) {
      of_key.key = key->Next();
      there->Track(of_key);
    }
  }
  return there;
}

// The locks of families that are there, which a thread is about to let go of: nobody drops these meanwhile.
struct HeldLocks {
  const rocksdb::PointLockManager* manager;
  std::map<uint32_t, std::shared_ptr<rocksdb::LockMap>> of_family;
};
thread_local HeldLocks* held_locks = nullptr;

// Lets a transaction go of all that it has locked. RocksDB's own stops at a family that was dropped.
template <typename GetLocks, typename UnlockAll>
void Unlock(rocksdb::PointLockManager* manager, rocksdb::PessimisticTransaction* transaction,
            const rocksdb::LockTracker& tracker, rocksdb::Env* env, const GetLocks& get_locks,
            const UnlockAll& unlock_all) {
  const std::vector<uint32_t> families = FamiliesOf(tracker);
  if (families.size() < 2) return unlock_all();
  HeldLocks held{manager, {}};
  bool has_dropped = false;
  for (const uint32_t id : families) has_dropped |= (held.of_family[id] = get_locks(id)) == nullptr;
  HeldLocks* const outer = std::exchange(held_locks, &held);
  if (!has_dropped) {
    unlock_all();
  } else {
    for (const auto& [id, locks] : held.of_family) {
      const std::unique_ptr<rocksdb::LockTracker::KeyIterator> key(tracker.GetKeyIterator(id));
      while (locks != nullptr && key->HasNext()) manager->UnLock(transaction, id, key->Next(), env);
    }
  }
  held_locks = outer;
}

}  // namespace

rocksdb::Status CheckEntities(const rocksdb::WriteBatch& batch) {
  if (!batch.HasPutEntity()) return rocksdb::Status::OK();
  return rocksdb::Status::NotSupported(
      "PutEntity in a transaction that is written before it commits (WRITE_PREPARED, WRITE_UNPREPARED)",
      "RocksDB cannot roll it back; use WRITE_COMMITTED");
}

thread_local const rocksdb::DBImpl* RollbackScope::database_ = nullptr;

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// RocksDB changes a transaction's state before it writes the batch; refused then, it could not even be rolled back.
Status PessimisticTransaction::Prepare() {
  WriteBatch* const batch = GetWriteBatch()->GetWriteBatch();
  Status s = cairn::CheckTransactionBatch(db_impl_, batch);
  if (s.ok() && txn_db_impl_->GetTxnDBOptions().write_policy != WRITE_COMMITTED) s = cairn::CheckEntities(*batch);
  return s.ok() ? own::PrepareTransaction(this) : s;
}

// A transaction that was not prepared, and whose Commit has failed, is forgotten, and RocksDB forgets it by its name once more
// when it is destroyed, which ends the process. A prepared one could be neither committed when the database had recovered, nor
// rolled back (until 11.8): compactions may keep an older value beside the newest of a write-prepared one that is destroyed
// then, both of sequence number 0. And a Commit changes what the next one needs, also where it fails: with 11.8 the next one
// writes all twice, or nothing.
Status PessimisticTransaction::Commit() {
  Status s = cairn::CheckTransactionBatch(db_impl_, GetCommitTimeWriteBatch());
  if (!s.ok()) return s;
  if (txn_state_ == STARTED && skip_prepare_ && log_number_ > 0 && GetCommitTimeWriteBatch()->Count() == 0) {
    s = Prepare();  // as RocksDB does, but so that it can be rolled back where the Commit fails
    if (!s.ok()) return s;
  }
  if (txn_state_ != PREPARED) {
    s = own::CommitTransaction(this);
    const bool failed = !s.ok() && txn_state_ == AWAITING_COMMIT;
    if (failed && !name_.empty() && txn_db_impl_->GetTransactionByName(name_) != this) name_.clear();
    return s;
  }
  // It was refused where a family had been dropped, and the database stopped.
  if (txn_db_impl_->GetTxnDBOptions().write_policy == WRITE_COMMITTED) {
    s = cairn::CheckFamilies(db_impl_, *GetWriteBatch()->GetWriteBatch());
  }
  if (s.ok()) s = cairn::CheckFamilies(db_impl_, *GetCommitTimeWriteBatch());
  if (!s.ok()) return s;
  const cairn::PassesOverDropped passes_over_dropped(&write_options_);
  WriteBatch at_commit = *GetCommitTimeWriteBatch();
  cairn::KeptBatches batches(this, txn_db_impl_->GetTxnDBOptions().write_policy);
  const uint32_t keys = GetWriteBatch()->GetWriteBatch()->Count();
  s = own::CommitTransaction(this);
  if (s.ok() || (txn_state_ != AWAITING_COMMIT && txn_state_ != PREPARED)) return s;
  *GetCommitTimeWriteBatch() = std::move(at_commit);
  batches.PutBack();
  // With commit_bypass_memtable what was prepared is gone; the WAL has it.
  txn_state_ = GetWriteBatch()->GetWriteBatch()->Count() == keys ? PREPARED : AWAITING_COMMIT;
  return s;
}

// One that is not prepared, and has batches in memtables (WRITE_UNPREPARED), loses its locks besides when its Rollback fails, and
// the next one does nothing: others write to its keys, and who opens the database rolls them back to what was there before it.
// And it could not be rolled back when its Prepare had failed.
Status PessimisticTransaction::Rollback() {
  const cairn::RollbackScope scope(db_impl_);
  const bool has_written = (txn_state_ == STARTED || txn_state_ == AWAITING_PREPARE) && log_number_ > 0 &&
                           txn_db_impl_->GetTxnDBOptions().write_policy == WRITE_UNPREPARED;
  if (txn_state_ != PREPARED && !has_written) return own::RollbackTransaction(this);
  const cairn::PassesOverDropped passes_over_dropped(&write_options_);
  cairn::KeptBatches batches(this, txn_db_impl_->GetTxnDBOptions().write_policy);
  if (has_written) {
    const Status written = RollbackInternal();
    if (!written.ok()) {
      batches.PutBack();
      return written;
    }
    dbimpl_->logs_with_prep_tracker()->MarkLogAsHavingPrepSectionFlushed(log_number_);
    log_number_ = 0;
    Clear();
    txn_state_ = STARTED;
    return written;
  }
  const Status s = own::RollbackTransaction(this);
  if (s.ok() || (txn_state_ != AWAITING_ROLLBACK && txn_state_ != PREPARED)) return s;
  batches.PutBack();
  txn_state_ = PREPARED;
  return s;
}

// What one thread writes for others goes by the options of its own write.
Status WriteBatchInternal::InsertInto(WriteThread::WriteGroup& group, SequenceNumber first,
                                      ColumnFamilyMemTables* memtables, FlushScheduler* flushes,
                                      TrimHistoryScheduler* trims, bool ignores_missing, uint64_t wal, DB* db,
                                      CAIRN_FIRST_INSERT_PARAMETERS bool seq_per_batch, bool batch_per_txn) {
  ignores_missing = ignores_missing || cairn::OnlyEndsMiss(group, memtables);
  return own::InsertGroup(group, first, memtables, flushes, trims, ignores_missing, wal, db,
                          CAIRN_FIRST_INSERT_ARGUMENTS seq_per_batch, batch_per_txn);
}

// To roll back what is in memtables, RocksDB reads what was there before through the handle that the transaction's user had, and
// writes it once more. Where the family was dropped since, and the handle destroyed, the process died; else the Rollback was refused,
// half of it was there, and the database stopped. (A family that is dropped just now must keep its handle until the Rollback ends.)
Status WritePreparedTxn::RollbackInternal() {
  const WriteBatch* const batch = write_batch_.GetWriteBatch();
  cairn::FamilyFilter filter(db_impl_);
  Status s = batch->Iterate(&filter);
  if (!s.ok()) return s;
  if (!filter.has_left_out()) return own::RollbackPrepared(this);
  WriteBatchWithIndex there;
  cairn::FamilyFilter in_order(
      db_impl_, /*dropped=*/nullptr,
      [&there](WriteBatch* one) { return WriteBatchInternal::Append(there.GetWriteBatch(), one); },
      cairn::FamilyFilter::Marks::kPassOver);
  s = batch->Iterate(&in_order);
  if (!s.ok()) return s;
  std::swap(write_batch_, there);  // not the batches in them, which are of a class of its own
  s = own::RollbackPrepared(this);
  std::swap(write_batch_, there);
  return s;
}
Status WriteUnpreparedTxn::WriteRollbackKeys(const LockTracker& keys, WriteBatchWithIndex* batch,
                                             ReadCallback* callback, const ReadOptions& options) {
  for (auto next = untracked_keys_.begin(); next != untracked_keys_.end();) {
    next = cairn::IsThere(db_impl_, next->first) ? std::next(next) : untracked_keys_.erase(next);
  }
  const std::unique_ptr<LockTracker> there = cairn::LeaveOutDropped(db_impl_, keys, lock_tracker_factory_);
  return own::WriteRollbackKeys(this, there == nullptr ? keys : *there, batch, callback, options);
}

// Of what an opening finds prepared. Where a family that it has written to was dropped since, that was the end of the process, or its
// Rollback was. A Commit that writes to memtables (WRITE_COMMITTED) takes as many sequence numbers as it does when an opening reads
// it, which counts what was written to the dropped one, too: that stays in the batch, and is passed over.
Status TransactionBaseImpl::RebuildFromWriteBatch(WriteBatch* batch) {
  cairn::FamilyFilter filter(dbimpl_);
  const Status s = batch->Iterate(&filter);
  if (!s.ok()) return s;
  if (!filter.has_left_out()) return own::RebuildFromWriteBatch(this, batch);
  const bool keeps_dropped = dynamic_cast<WriteCommittedTxn*>(this) != nullptr;
  if (keeps_dropped) write_options_.ignore_missing_column_families = true;
  cairn::FamilyFilter in_order(dbimpl_, keeps_dropped ? GetWriteBatch()->GetWriteBatch() : nullptr,
                               [this](WriteBatch* one) { return own::RebuildFromWriteBatch(this, one); });
  return batch->Iterate(&in_order);
}
// What it wrote to a dropped family has taken sequence numbers, too, which its Commit or Rollback says are its own. RocksDB's debug builds
// assert that what they are told of the batch is what is left of it.
Status WritePreparedTxn::RebuildFromWriteBatch(WriteBatch* batch) {
  const Status s = own::RebuildPrepared(this, batch);
  for (const auto& [name, transaction] : db_impl_->recovered_transactions()) {
    for (auto& [number, recovered] : transaction->batches_) {
      if (recovered.batch_ != batch || recovered.batch_cnt_ <= prepare_batch_cnt_) continue;
      std::swap(recovered.batch_cnt_, prepare_batch_cnt_);
    }
  }
  return s;
}
Status WriteUnpreparedTxn::RebuildFromWriteBatch(WriteBatch* batch) {
  cairn::FamilyFilter filter(db_impl_, /*dropped=*/nullptr,
                             [this](WriteBatch* one) { return own::RebuildUnprepared(this, one); });
  return batch->Iterate(&filter);
}

// An opening asks with which comparator a WAL's keys are to be compared, to count sequence numbers (WRITE_PREPARED,
// WRITE_UNPREPARED), and that a family was dropped since was the end of the process. The default family's does, but for keys that
// are equal to the other's comparator and not to this one.
ColumnFamilyHandle* DBImpl::GetColumnFamilyHandle(uint32_t id) {
  ColumnFamilyHandle* const handle = own::GetColumnFamilyHandle(this, id);
  return handle == nullptr && !opened_successfully_ ? default_cf_handle_ : handle;
}

// RocksDB frees the lists of all threads, which use them without a mutex.
void PointLockManager::RemoveColumnFamily(const ColumnFamilyHandle* family) {
  {
    const InstrumentedMutexLock lock(&lock_map_mutex_);
    if (lock_maps_.erase(family->GetID()) == 0) return;
  }
  cairn::drops.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<LockMap> PointLockManager::GetLockMap(ColumnFamilyId family) {
  if (cairn::held_locks != nullptr && cairn::held_locks->manager == this) {
    const auto held = cairn::held_locks->of_family.find(family);
    if (held != cairn::held_locks->of_family.end()) return held->second;
  }
  if (cairn::KeepsLocksOfDropped(this)) {
    auto* const of_thread = static_cast<LockMaps*>(lock_maps_cache_->Get());
    if (of_thread != nullptr) of_thread->clear();
  }
  return own::GetLockMap(this, family);
}

// The transaction's locks in other families than a dropped one stayed for ever.
void PointLockManager::UnLock(PessimisticTransaction* transaction, const LockTracker& tracker, Env* env) {
  cairn::Unlock(
      this, transaction, tracker, env, [this](uint32_t family) { return GetLockMap(family); },
      [&] { own::UnlockTracked(this, transaction, tracker, env); });
}
#if CAIRN_HAS_PER_KEY_LOCKS
void PerKeyPointLockManager::UnLock(PessimisticTransaction* transaction, const LockTracker& tracker, Env* env) {
  cairn::Unlock(
      this, transaction, tracker, env, [this](uint32_t family) { return GetLockMap(family); },
      [&] { own::UnlockTrackedPerKey(this, transaction, tracker, env); });
}
#endif

}  // namespace rocksdb
