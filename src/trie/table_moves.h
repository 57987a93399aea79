// Moves tables to other levels without writing them: one record in the MANIFEST.
//
// RocksDB offers that to its own compactions only (CompactFiles of 9.10 moves nothing), so the function is defined where
// its class can be entered: src/db/rocksdb_hooks.cc.
//
// Thread-safety: safe.

#pragma once

#include <cstdint>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/db.h"
#include "rocksdb/status.h"

namespace cairn {

struct TableMove {
  uint64_t number = 0;
  int from = 0;
  int to = 0;  // > from
};

// All of them or none. Aborted when one is not possible now: the table is elsewhere or being compacted, a table or a
// running compaction lies over its range between the two levels, a neighbour of its level has versions of the same key,
// or tables are being ingested.
rocksdb::Status MoveTables(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family,
                           const std::vector<TableMove>& moves);

}  // namespace cairn
