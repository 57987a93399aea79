// Sorts the keys of a MultiGet of a column family in hash order. RocksDB sorts them by the comparator, which computes
// the hashes of both keys each time; here each key's is computed once.
//
// Thread-safety: all functions.

#pragma once

#include <cstddef>

#include "table/multiget_context.h"
#include "util/autovector.h"

namespace cairn {

using KeysOfBatch = rocksdb::autovector<rocksdb::KeyContext*, rocksdb::MultiGetContext::MAX_BATCH_SIZE>;

// Puts the first `count` keys into the order of their column family. False, and the keys are as they were: they are of
// several column families, or of one that is not in hash order.
bool SortInHashOrder(size_t count, KeysOfBatch* keys);

}  // namespace cairn
