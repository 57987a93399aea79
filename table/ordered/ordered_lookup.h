// A Get or MultiGet in a Version of ordered tables: the Bloom filters of all tables that the key may be in are asked by
// one hash, their lines fetched together, and only what these let pass is asked further. RocksDB chooses each table,
// looks for its reader, and has that hash the key, one table after the other: some 500 instructions for each run, a
// filter's 40, and a miss of the processor's cache at a time.
//
// Invariants
//   (1) A Version keeps its tables' readers; where it does not (max_open_files), where a table is another's, or where
//       range deletions may cover the key, RocksDB looks the key up, before anything was asked. So it does at once
//       where the Version's first table is another's: who has no ordered tables is not to pay for them.
//   (2) Level 0 is newest first, and each level newer than those of higher numbers.
//
// Thread-safety: all. The caller holds the Version.

#pragma once

#include "db/version_set.h"
#include "table/version_lookup.h"

namespace cairn {

// Does what Version::Get does; false: it has not, and the caller has to ask RocksDB.
bool GetFromOrdered(rocksdb::Version* version, const VersionRequest& request);

// Does what Version::MultiGet does, for all keys; false: for none of them.
bool MultiGetFromOrdered(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                         rocksdb::MultiGetContext::Range* range, rocksdb::ReadCallback* callback);

}  // namespace cairn
