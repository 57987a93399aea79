// Lets RocksDB's repair read the tables of all column families. It opens each table by the format and in the order of
// the default column family, before it knows whose the table is; what cannot be opened so it takes for damaged. That
// is the lot of tables in an order or format of Cairn's beside a default column family without, and the other way
// round.
//
// Thread-safety: as TableFactory.

#pragma once

#include <vector>

#include "rocksdb/db.h"

namespace cairn {

// The same, but the default column family opens each table as the column family does of which it says that it is.
std::vector<rocksdb::ColumnFamilyDescriptor> ForRepair(const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

}  // namespace cairn
