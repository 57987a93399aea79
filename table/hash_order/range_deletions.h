// Range deletions have no meaning for tables in hash order. RocksDB refuses one only after it has written it into the
// WAL: it then stops all writes, and refuses to open the database again. So it must not come that far.
//
// Thread-safety: safe.

#pragma once

#include <string>

#include "db/db_impl/db_impl.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace cairn {

// Column families in hash order, SILT stores among them, take none.
bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options);

// NotSupported, with what to do instead, if a range of keys has no meaning in the column family, for `call` that
// deletes one.
rocksdb::Status CheckRangesMean(const std::string& call, rocksdb::ColumnFamilyHandle* family);

// NotSupported, with what to do instead, if the batch deletes a range in a column family that cannot.
rocksdb::Status CheckRangeDeletions(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch);

}  // namespace cairn
