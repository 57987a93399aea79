// WriteBatchWithIndex over a column family in hash order. Its index has the order of the comparator that it was made
// with, for the default column family, or of the handle; an iterator that joins it with a database needs both in one.
// Options that leave the seed open (cairn/hash_seed.h) have no such comparator: an index that was made with theirs is
// refused here, when it is used.
//
// Thread-safety: safe.

#pragma once

#include "rocksdb/db.h"
#include "rocksdb/status.h"
#include "rocksdb/utilities/write_batch_with_index.h"

namespace cairn {

// InvalidArgument that says what to do if the index is not in the order of the column family, a hash order.
rocksdb::Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family);

// The same of an iterator over an unknown database: only an index in the order of an open seed is known to be wrong.
rocksdb::Status CheckIndexSeed(rocksdb::WriteBatchWithIndex* batch);

}  // namespace cairn
