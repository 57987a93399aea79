// Members that classes of RocksDB keep to themselves, and that an explicit instantiation may name all the same.
//
// Thread-safety: of the class.

#pragma once

#include <cstddef>
#include <list>
#include <map>

#include "rocksdb/types.h"

namespace rocksdb {
class MemTableListVersion;
class ReadOnlyMemTable;
class WriteThread;
class WriteUnpreparedTxn;
}  // namespace rocksdb

namespace cairn::port {

// The newest that a writer of the queue has had, which WriteThread only raises.
rocksdb::SequenceNumber& NewestSequenceOf(rocksdb::WriteThread* queue);

// Those that are not flushed yet.
const std::list<rocksdb::ReadOnlyMemTable*>& MemtablesOf(const rocksdb::MemTableListVersion& list);
bool IsBeingFlushed(const rocksdb::ReadOnlyMemTable& memtable);

// What the transaction has in memtables: for each batch, its sequence number, and how many it takes.
using UnpreparedBatches = std::map<rocksdb::SequenceNumber, size_t>;
UnpreparedBatches& BatchesOf(rocksdb::WriteUnpreparedTxn* transaction);

}  // namespace cairn::port
