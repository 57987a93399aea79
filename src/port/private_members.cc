#include "src/port/private_members.h"

#include "db/memtable.h"
#include "db/memtable_list.h"
#include "db/write_thread.h"
#include "utilities/transactions/write_unprepared_txn.h"

namespace cairn::port {
namespace {

// Defines Pointer(Name()). Access is not checked where a member is named in an explicit instantiation.
template <typename Name, typename Name::Type kMember>
struct Member {
  friend typename Name::Type Pointer(Name /*name*/) { return kMember; }
};

struct NewestSequence {
  using Type = rocksdb::SequenceNumber rocksdb::WriteThread::*;
  friend Type Pointer(NewestSequence name);
};
template struct Member<NewestSequence, &rocksdb::WriteThread::last_sequence_>;

struct Memtables {
  using Type = std::list<rocksdb::ReadOnlyMemTable*> rocksdb::MemTableListVersion::*;
  friend Type Pointer(Memtables name);
};
template struct Member<Memtables, &rocksdb::MemTableListVersion::memlist_>;

struct FlushInProgress {
  using Type = bool rocksdb::ReadOnlyMemTable::*;
  friend Type Pointer(FlushInProgress name);
};
template struct Member<FlushInProgress, &rocksdb::ReadOnlyMemTable::flush_in_progress_>;

struct Unprepared {
  using Type = UnpreparedBatches rocksdb::WriteUnpreparedTxn::*;
  friend Type Pointer(Unprepared name);
};
template struct Member<Unprepared, &rocksdb::WriteUnpreparedTxn::unprep_seqs_>;

}  // namespace

rocksdb::SequenceNumber& NewestSequenceOf(rocksdb::WriteThread* queue) { return queue->*Pointer(NewestSequence()); }

const std::list<rocksdb::ReadOnlyMemTable*>& MemtablesOf(const rocksdb::MemTableListVersion& list) {
  return list.*Pointer(Memtables());
}

bool IsBeingFlushed(const rocksdb::ReadOnlyMemTable& memtable) { return memtable.*Pointer(FlushInProgress()); }

UnpreparedBatches& BatchesOf(rocksdb::WriteUnpreparedTxn* transaction) { return transaction->*Pointer(Unprepared()); }

}  // namespace cairn::port
