// What a recovery flushes, and the compactions that an error has ended: the definitions that take the place of RocksDB's own
// (rocksdb/port/rocksdb_own.h) in DBImpl.

#include <algorithm>
#include <cinttypes>
#include <string>
#include <utility>
#include <vector>

#include "db/error_handler.h"
#include "db/failed_writes.h"
#include "db/recovery_state.h"
#include "db/transaction_log_impl.h"
#include "db/write_prepared.h"
#include "file/writable_file_writer.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/private_members.h"
#include "rocksdb/port/rocksdb_own.h"
#include "trie_table/compaction/compaction_inputs.h"

extern "C" {
extern const int cairn_recovery_flushes;
const int cairn_recovery_flushes = 1;
}

namespace cairn {
namespace {

// With the database's mutex, after a compaction of that family has failed or was given up. Its inputs count as being compacted
// until there is another Version, for which writers may wait who wait for their compaction.
void LookForCompactions(rocksdb::DBImpl* db, rocksdb::ColumnFamilyData* family) {
  if (family->IsDropped() || !family->initialized()) return;
  port::ComputeCompactionScores(family);
  rocksdb_own::EnqueuePendingCompaction(db, family);
}

// The sequence numbers of writes that have failed go to the next ones, unless others may be ahead in any case: those of
// transactions that are not written when they commit.
// REQUIRES: the database has stopped, and nobody writes.
void TakeNumbersBack(rocksdb::VersionSet* versions, rocksdb::WriteThread* queue, bool others_are_ahead) {
  const rocksdb::SequenceNumber succeeded = versions->LastSequence();
  AllFailedWrites().Settle(versions, succeeded);
  if (others_are_ahead) return;
  port::NewestSequenceOf(queue) = succeeded;
  versions->FetchAddLastAllocatedSequence(succeeded - versions->LastAllocatedSequence());
}

// Of those from `oldest` to before `newest`. mutex: of the list.
template <class Wals>
std::vector<uint64_t> NumbersOf(const Wals& wals, rocksdb::InstrumentedMutex* mutex, uint64_t oldest, uint64_t newest) {
  std::vector<uint64_t> numbers;
  if (oldest >= newest) return numbers;
  const rocksdb::InstrumentedMutexLock lock(mutex);
  for (const auto& wal : wals) {
    if (wal.number >= oldest && wal.number < newest) numbers.push_back(wal.number);
  }
  return numbers;
}

// In WALs that nobody writes any more. last: as of EraseFailedWrites. by_offset: also the entries that are known to have failed.
rocksdb::IOStatus EraseFailedWritesIn(const std::vector<uint64_t>& wals, const rocksdb::ImmutableDBOptions& options,
                                      const rocksdb::VersionSet* versions, rocksdb::SequenceNumber last,
                                      bool by_offset) {
  FailedWrites& failed = AllFailedWrites();
  const FailedWrites::Range where = failed.Find(versions);
  rocksdb::IOStatus s;
  for (const uint64_t number : wals) {
    const std::string path = rocksdb::LogFileName(options.GetWalDir(), number);
    const std::vector<uint64_t> offsets = by_offset ? where.OffsetsIn(number) : std::vector<uint64_t>();
    uint64_t from = kNothingErased;
    if (s.ok()) s = EraseFailedWrites(options.fs.get(), path, number, last, offsets, options.logger, &from);
    if (from != kNothingErased) failed.Erased(versions, number, from);
  }
  return s;
}

}  // namespace

void RollBackFlushes(rocksdb::ColumnFamilySet* families) {
  for (rocksdb::ColumnFamilyData* const family : *families) {
    if (family->IsDropped() || !family->initialized()) continue;
    rocksdb::autovector<rocksdb::ReadOnlyMemTable*> left;
    for (rocksdb::ReadOnlyMemTable* const memtable : port::MemtablesOf(*family->imm()->current())) {
      if (port::IsBeingFlushed(*memtable)) left.push_back(memtable);
    }
    if (!left.empty()) family->imm()->RollbackMemtableFlush(left, /*rollback_succeeding_memtables=*/false);
  }
}

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// A family that waits for a flush already is not queued again. But that flush is dropped, since it is none of a recovery, and
// the recovery would wait for it for ever: so it becomes one. A recovery's flushes go before all others, which are not scheduled
// before it ends.
bool DBImpl::EnqueuePendingFlush(const FlushRequest& request) {
  const bool recovers = IsRecoveryFlush(request.flush_reason);
  if (recovers && !immutable_db_options_.atomic_flush && !request.cfd_to_max_mem_id_to_persist.empty()) {
    const auto& [family, newest] = *request.cfd_to_max_mem_id_to_persist.begin();
    for (auto waiting = flush_queue_.begin(); waiting != flush_queue_.end(); ++waiting) {
      const auto found = waiting->cfd_to_max_mem_id_to_persist.find(family);
      if (found == waiting->cfd_to_max_mem_id_to_persist.end()) continue;
      found->second = std::max(found->second, newest);
      waiting->flush_reason = request.flush_reason;
      family->SetFlushSkipReschedule();  // as RocksDB of what it has queued
      std::rotate(flush_queue_.begin(), waiting, waiting + 1);
      ++unscheduled_flushes_;
      return false;
    }
  }
  // Who closes the database waits for the recovery, for its listeners, and for a flush of his own.
  const bool rejects = std::exchange(reject_new_background_jobs_, false);
  const bool queued = own::EnqueuePendingFlush(this, &request);
  reject_new_background_jobs_ = rejects;
  if (recovers && queued) std::rotate(flush_queue_.begin(), flush_queue_.end() - 1, flush_queue_.end());
  if (request.flush_reason == FlushReason::kCatchUpAfterErrorRecovery && !error_handler_.IsBGWorkStopped()) {
    unscheduled_flushes_ = std::max(unscheduled_flushes_, static_cast<int>(flush_queue_.size()));
  } else if (!recovers && queued && error_handler_.IsBGWorkStopped() && error_handler_.IsRecoveryInProgress()) {
    --unscheduled_flushes_;
  }
  return queued;
}

// A family that is dropped meanwhile ends a recovery, and the database stays stopped. And RocksDB mixes up which memtables of
// several families it waits for (WaitForFlushMemTables): they are those that there are when it asks for their flush. A writer
// may switch others before it waits, whose flush is none of a recovery, and dropped.
Status DBImpl::RetryFlushesForErrorRecovery(FlushReason reason, bool wait) {
  if (!wait) return own::RetryFlushesForErrorRecovery(this, reason, wait);
  Status s;
  do {
    if (!immutable_db_options_.atomic_flush) {
      s = own::RetryFlushesForErrorRecovery(this, reason, wait);
      continue;
    }
    autovector<ColumnFamilyData*> families;
    autovector<uint64_t> numbers;
    for (ColumnFamilyData* family : *versions_->GetColumnFamilySet()) {
      if (family->IsDropped() || !family->initialized() || family->imm()->NumNotFlushed() == 0) continue;
      family->Ref();
      families.push_back(family);
      numbers.push_back(family->imm()->GetLatestMemTableID(/*for_atomic_flush=*/true));
    }
    autovector<const uint64_t*> newest;
    for (const uint64_t& number : numbers) newest.push_back(&number);
    own::RetryFlushesForErrorRecovery(this, reason, /*wait=*/false).PermitUncheckedError();
    mutex_.Unlock();
    s = WaitForFlushMemTables(families, newest, /*resuming_from_bg_err=*/true, reason);
    mutex_.Lock();
    for (ColumnFamilyData* family : families) family->UnrefAndTryDelete();
  } while (s.IsColumnFamilyDropped());
  return s;
}

// Whoever follows a WAL may have read ahead what was erased since, whose sequence numbers are those of other writes now.
bool TransactionLogIteratorImpl::RestrictedRead(Slice* entry) {
  return own::RestrictedRead(this, entry) &&
         !cairn::AllFailedWrites().IsErased(versions_, (*files_)[current_file_index_]->LogNumber(),
                                            current_log_reader_->LastRecordOffset());
}

// Writes that fail take sequence numbers with them, where writes are pipelined or have two queues. Who switches a memtable
// is at the front of the queues, and no write before it is under way. If that is a write itself, it has asked for errors before,
// and goes on: its numbers are no failed one's. With the next WAL it may be acknowledged before a recovery comes to this one,
// and is not read behind what is torn where the numbers have a gap, as those of write-prepared transactions have.
//
// And RocksDB takes no other WAL for one that has no entry, which takes none either once it could not be synced. Whether it has
// one can be asked here alone: elsewhere a writer may be about to say that it has, in which it has failed.
Status DBImpl::SwitchMemtable(ColumnFamilyData* family, WriteContext* context, ReadOnlyMemTable* ingested,
                              SequenceNumber last) {
  if (error_handler_.IsRecoveryInProgress()) {
    const InstrumentedMutexLock lock(&CAIRN_WALS_MUTEX);
    const WritableFileWriter* const wal = logs_.empty() ? nullptr : logs_.back().writer->file();
    if (wal != nullptr && wal->seen_error()) CAIRN_WAL_HAS_NO_ENTRY = false;
  }
  const bool writes_next = cairn::WrittenEntry::IsOf(versions_.get()) || ingested != nullptr;
  const bool stopped = error_handler_.IsDBStopped();
  if (stopped && !writes_next) {
    cairn::TakeNumbersBack(versions_.get(), &write_thread_, allow_2pc() || !last_seq_same_as_publish_seq_);
  }
  const Status s = own::SwitchMemtable(this, family, context, ingested, last);
  if (!s.ok() || !stopped || !writes_next || !seq_per_batch_) return s;
  const uint64_t oldest = cairn::AllFailedWrites().Find(versions_.get()).oldest_wal;
  // A recovery does it again, and says so where it cannot.
  cairn::EraseFailedWritesIn(cairn::NumbersOf(CAIRN_NEEDED_WALS, &CAIRN_WALS_MUTEX, oldest, CAIRN_NEWEST_WAL),
                             immutable_db_options_, versions_.get(), kMaxSequenceNumber, /*by_offset=*/false)
      .PermitUncheckedError();
  return s;
}

#if CAIRN_REPLACES_RESUME
// Where writes have two queues, RocksDB takes all numbers that were handed out for written ones, and then recovers.
Status DBImpl::ResumeImpl(DBRecoverContext context, Env::IOActivity activity) {
  mutex_.AssertHeld();
  if (two_write_queues_ && error_handler_.IsDBStopped()) {
    WriteThread::Writer writer;
    write_thread_.EnterUnbatched(&writer, &mutex_);
    WriteThread::Writer log_writer;
    nonmem_write_thread_.EnterUnbatched(&log_writer, &mutex_);
    WaitForPendingWrites();
    cairn::TakeNumbersBack(versions_.get(), &write_thread_, allow_2pc() || !last_seq_same_as_publish_seq_);
    nonmem_write_thread_.ExitUnbatched(&log_writer);
    write_thread_.ExitUnbatched(&writer);
  }
  return own::ResumeImpl(this, context, activity);
}
#endif

// While a database is stopped, the WAL was switched by a recovery that flushes all memtables, or by a client's Flush, whose
// memtable a recovery of another kind may flush. What has failed must be gone before the first of these tables is there
// (failed_writes.h). With transactions in two phases numbers do not tell it: a prepared one has none. And where the next WAL has
// the last sequence number of this one, only what is torn can go.
Status DBImpl::FlushMemTablesToOutputFiles(const autovector<BGFlushArg>& flushes, bool* made_progress, JobContext* job,
                                           LogBuffer* log, Env::Priority priority) {
  mutex_.AssertHeld();
  const cairn::FailedWrites::Range where = cairn::AllFailedWrites().Find(versions_.get());
  const uint64_t newest = CAIRN_NEWEST_WAL;
  const std::vector<uint64_t> closed = cairn::NumbersOf(CAIRN_NEEDED_WALS, &CAIRN_WALS_MUTEX, where.oldest_wal, newest);
  const bool by_number = !allow_2pc() && !CAIRN_VERIFIES_WALS;
  const SequenceNumber last = by_number ? std::min(where.last, versions_->LastSequence()) : kMaxSequenceNumber;
  IOStatus s;
  if (!closed.empty()) {
    ++disable_delete_obsolete_files_;  // nor recycle them
    mutex_.Unlock();
    s = cairn::EraseFailedWritesIn(closed, immutable_db_options_, versions_.get(), last, !CAIRN_VERIFIES_WALS);
    mutex_.Lock();
    if (disable_delete_obsolete_files_ > 0) --disable_delete_obsolete_files_;  // EnableFileDeletions may have had it
    if (s.ok()) cairn::AllFailedWrites().AreNotBefore(versions_.get(), newest);
  }
  if (s.ok()) return own::FlushMemTablesToOutputFiles(this, &flushes, made_progress, job, log, priority);
  error_handler_.SetBGError(s, BackgroundErrorReason::kFlush);
  return s;
}

// A compaction that fails, or is given up before it begins, is looked for again, unless the database is stopped just then, or
// it is a manual one, which may only have been cancelled: RocksDB forgets those. All of this has the mutex.
Status DBImpl::BackgroundCompaction(bool* made_progress, JobContext* job, LogBuffer* log,
                                    PrepickedCompaction* compaction, Env::Priority priority) {
  if (seq_per_batch_ && snapshot_checker_ != nullptr) {
    cairn::LeaveOutPrepared(*snapshot_checker_, snapshots_, versions_->GetColumnFamilySet());
  }
  const Status s = own::BackgroundCompaction(this, made_progress, job, log, compaction, priority);
  if (s.ok() || s.IsBusy() || s.IsShutdownInProgress()) return s;
  for (ColumnFamilyData* const family : *versions_->GetColumnFamilySet()) cairn::LookForCompactions(this, family);
  return s;
}
// Its compaction may be given up while it waits for a thread.
Status DBImpl::RunManualCompaction(ColumnFamilyData* family, int input_level, int output_level,
                                   const CompactRangeOptions& options, const Slice* begin, const Slice* end,
                                   bool exclusive, bool disallow_trivial_move, uint64_t max_file_num_to_ignore,
                                   const std::string& trim_ts, int* final_output_level) {
  const Status s = own::RunManualCompaction(this, family, input_level, output_level, options, begin, end, exclusive,
                                            disallow_trivial_move, max_file_num_to_ignore, trim_ts, final_output_level);
  if (s.ok()) return s;
  const InstrumentedMutexLock lock(&mutex_);
  if (shutting_down_.load(std::memory_order_relaxed)) return s;  // Close may have emptied the queue of compactions
  cairn::LookForCompactions(this, family);
  MaybeScheduleFlushOrCompaction();
  return s;
}
Status DBImpl::CompactFilesImpl(const CompactionOptions& options, ColumnFamilyData* family, Version* version,
                                const std::vector<std::string>& inputs, std::vector<std::string>* const outputs,
                                int output_level, int output_path, JobContext* job, LogBuffer* log,
                                CompactionJobInfo* info) {
  const Status checked = cairn::CheckCompactFiles(*family, *version, inputs, output_level);
  if (!checked.ok()) return checked;
  const Status s =
      own::CompactFilesImpl(this, options, family, version, inputs, outputs, output_level, output_path, job, log, info);
  if (s.ok() || shutting_down_.load(std::memory_order_relaxed)) return s;  // as above
  cairn::LookForCompactions(this, family);
  MaybeScheduleFlushOrCompaction();
  return s;
}

}  // namespace rocksdb
