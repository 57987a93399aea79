// What batches of operations may ask of a column family in hash order: range deletions, the index of a
// WriteBatchWithIndex, and the keys of a MultiGet.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <string>

#include "db/db_impl/db_impl.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/write_batch.h"
#include "table/multiget_context.h"
#include "util/autovector.h"

namespace cairn {

// Range deletions have no meaning for tables in hash order. RocksDB refuses one only after it has written it into the
// WAL: it then stops all writes, and refuses to open the database again. So it must not come that far.
//
// Column families in hash order, SILT stores among them, take none.
bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options);

// NotSupported, with what to do instead, if a range of keys has no meaning in the column family, for `call` that
// deletes one.
rocksdb::Status CheckRangesMean(const std::string& call, rocksdb::ColumnFamilyHandle* family);

// NotSupported, with what to do instead, if the batch deletes a range in a column family that cannot.
rocksdb::Status CheckRangeDeletions(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch);

// WriteBatchWithIndex over a column family in hash order. Its index has the order of the comparator that it was made
// with, for the default column family, or of the handle; an iterator that joins it with a database needs both in one.
// Options that leave the seed open (cairn/hash_seed.h) have no such comparator: an index that was made with theirs is
// refused here, when it is used.
//
// InvalidArgument that says what to do if the index is not in the order of the column family, a hash order.
rocksdb::Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family);

// The same of an iterator over an unknown database: only an index in the order of an open seed is known to be wrong.
rocksdb::Status CheckIndexSeed(rocksdb::WriteBatchWithIndex* batch);

// Sorts the keys of a MultiGet of a column family in hash order. RocksDB sorts them by the comparator, which computes
// the hashes of both keys each time; here each key's is computed once.
using KeysOfBatch = rocksdb::autovector<rocksdb::KeyContext*, rocksdb::MultiGetContext::MAX_BATCH_SIZE>;

// Puts the first `count` keys into the order of their column family. False, and the keys are as they were: they are of
// several column families, or of one that is not in hash order.
bool SortInHashOrder(size_t count, KeysOfBatch* keys);

}  // namespace cairn
