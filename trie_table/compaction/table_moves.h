// Moves tables to other levels without writing them, and removes tables all of whose keys a range deletion covers: one
// record in the MANIFEST.
//
// RocksDB offers that to its own compactions only (CompactFiles of 9.10 moves nothing), so the function is defined
// where its class can be entered: db/rocksdb_hooks.cc.
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
  static constexpr int kNowhere = -1;

  uint64_t number = 0;
  int from = 0;
  int to = 0;  // > from, or kNowhere: removed
  // Of a table that is removed: the table whose range deletions cover all its keys, and their highest sequence number.
  uint64_t deleted_by = 0;
  uint64_t deleted_at = 0;
};

// All of them or none. Aborted when one is not possible now: the table is elsewhere or being compacted, a table or a
// running compaction lies over its range between the two levels, a neighbour of its level has versions of the same key,
// or tables are being ingested.
//
// What is removed is removed as far as that is possible now: not while a snapshot needs it, or a compaction reads it.
rocksdb::Status MoveTables(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family,
                           const std::vector<TableMove>& moves);

}  // namespace cairn
