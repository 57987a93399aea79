// A Get in the tables of a SILT store: the filters of all HashStores are asked one after the other, newest first, and
// only the tables that they let pass are looked into, then the table of the SortedStore that may hold the key. RocksDB
// would choose each table, look for its reader and ask that: several hundred instructions for each HashStore, a
// filter's 60.
//
// Invariants
//   (1) A Version keeps its tables' readers; where it does not (max_open_files) or where a table is another's, RocksDB
//       looks the key up, before anything was asked.
//   (2) Level 0 is newest first, and of two levels the lower number is newer.
//
// Thread-safety: all. The caller holds the Version.

#pragma once

#include "db/version_set.h"
#include "table/version_lookup.h"

namespace cairn {

// Does what Version::Get does; false: it has not, and the caller has to ask RocksDB.
bool GetFromSilt(rocksdb::Version* version, const VersionRequest& request);

}  // namespace cairn
