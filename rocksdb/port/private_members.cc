#include "rocksdb/port/private_members.h"

#include <atomic>

#include "db/snapshot_checker.h"
#include "db/version_set.h"
#include "rocksdb/utilities/transaction_db.h"
#include "utilities/transactions/write_prepared_txn_db.h"
#include "utilities/transactions/write_unprepared_txn.h"

namespace cairn::port {
namespace {

// Defines Pointer(Name()). Access is not checked where a member is named in an explicit instantiation.
template <typename Name, typename Name::Type kMember>
struct Member {
  friend typename Name::Type Pointer(Name /*name*/) { return kMember; }
};

struct Unprepared {
  using Type = UnpreparedBatches rocksdb::WriteUnpreparedTxn::*;
  friend Type Pointer(Unprepared name);
};
template struct Member<Unprepared, &rocksdb::WriteUnpreparedTxn::unprep_seqs_>;

struct DatabaseOfChecker {
  using Type = const rocksdb::WritePreparedTxnDB* const rocksdb::WritePreparedSnapshotChecker::*;
  friend Type Pointer(DatabaseOfChecker name);
};
template struct Member<DatabaseOfChecker, &rocksdb::WritePreparedSnapshotChecker::txn_db_>;

struct MaxEvicted {
  using Type = std::atomic<uint64_t> rocksdb::WritePreparedTxnDB::*;
  friend Type Pointer(MaxEvicted name);
};
template struct Member<MaxEvicted, &rocksdb::WritePreparedTxnDB::max_evicted_seq_>;

struct AdvanceMaxEvicted {
  using Type = void (rocksdb::WritePreparedTxnDB::*)(const rocksdb::SequenceNumber&, const rocksdb::SequenceNumber&);
  friend Type Pointer(AdvanceMaxEvicted name);
};
template struct Member<AdvanceMaxEvicted, &rocksdb::WritePreparedTxnDB::AdvanceMaxEvictedSeq>;

struct SmallestUncommitted {
  using Type = rocksdb::SequenceNumber (rocksdb::WritePreparedTxnDB::*)();
  friend Type Pointer(SmallestUncommitted name);
};
template struct Member<SmallestUncommitted, &rocksdb::WritePreparedTxnDB::SmallestUnCommittedSeq>;

struct BottommostFiles {
  using Type = MarkedFiles rocksdb::VersionStorageInfo::*;
  friend Type Pointer(BottommostFiles name);
};
template struct Member<BottommostFiles, &rocksdb::VersionStorageInfo::bottommost_files_marked_for_compaction_>;

struct CommitCacheBits {
  using Type = size_t rocksdb::TransactionDBOptions::*;
  friend Type Pointer(CommitCacheBits name);
};
template struct Member<CommitCacheBits, &rocksdb::TransactionDBOptions::wp_commit_cache_bits>;

}  // namespace

UnpreparedBatches& BatchesOf(rocksdb::WriteUnpreparedTxn* transaction) { return transaction->*Pointer(Unprepared()); }

const rocksdb::WritePreparedTxnDB* DatabaseOf(const rocksdb::WritePreparedSnapshotChecker& checker) {
  return checker.*Pointer(DatabaseOfChecker());
}

void TakeForCommitted(rocksdb::WritePreparedTxnDB* database, rocksdb::SequenceNumber newest) {
  const rocksdb::SequenceNumber before = (database->*Pointer(MaxEvicted())).load();
  if (before < newest) (database->*Pointer(AdvanceMaxEvicted()))(before, newest);
}

rocksdb::SequenceNumber OldestUncommitted(rocksdb::WritePreparedTxnDB* database) {
  return (database->*Pointer(SmallestUncommitted()))();
}

MarkedFiles& BottommostFilesOf(rocksdb::VersionStorageInfo* storage) { return storage->*Pointer(BottommostFiles()); }

size_t& CommitCacheBitsOf(rocksdb::TransactionDBOptions* options) { return options->*Pointer(CommitCacheBits()); }

}  // namespace cairn::port
