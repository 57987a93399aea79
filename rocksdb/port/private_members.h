// Members that classes of RocksDB keep to themselves, and that an explicit instantiation may name all the same.
//
// Thread-safety: of the class.

#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "rocksdb/types.h"
#include "util/autovector.h"

namespace rocksdb {
struct FileMetaData;
class VersionStorageInfo;
class WritePreparedSnapshotChecker;
class WritePreparedTxnDB;
class WriteUnpreparedTxn;
struct TransactionDBOptions;
}  // namespace rocksdb

namespace cairn::port {

// What the transaction has in memtables: for each batch, its sequence number, and how many it takes.
using UnpreparedBatches = std::map<rocksdb::SequenceNumber, size_t>;
UnpreparedBatches& BatchesOf(rocksdb::WriteUnpreparedTxn* transaction);

// Whose transactions it knows.
const rocksdb::WritePreparedTxnDB* DatabaseOf(const rocksdb::WritePreparedSnapshotChecker& checker);

// From now on what has a sequence number up to this one has committed, unless it is prepared, or the database knows more of it.
// Reads without a snapshot that began at that number or before, and have not ended yet, return TryAgain. Not under the DB mutex.
void TakeForCommitted(rocksdb::WritePreparedTxnDB* database, rocksdb::SequenceNumber newest);

// What is prepared has this sequence number, or a later one.
rocksdb::SequenceNumber OldestUncommitted(rocksdb::WritePreparedTxnDB* database);

// Files, with their levels, that are to be compacted because nothing lies under them, and no snapshot needs their sequence numbers.
using MarkedFiles = rocksdb::autovector<std::pair<int, rocksdb::FileMetaData*>>;
MarkedFiles& BottommostFilesOf(rocksdb::VersionStorageInfo* storage);

// How many commits its transactions are looked up among; two to the power of it.
size_t& CommitCacheBitsOf(rocksdb::TransactionDBOptions* options);

}  // namespace cairn::port
