// What SetOptions may change while a database with parts of Cairn is open.
//
// Thread-safety: safe.

#pragma once

#include <string>
#include <unordered_map>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

class DatabaseServices;

// The changes by names that reach the column family's tables: RocksDB takes block_based_table_factory={OPTION=VALUE}
// for tables of that very name only, and table_factory.OPTION for those within others, too.
std::unordered_map<std::string, std::string> ByNamesOfTables(
    const rocksdb::ColumnFamilyOptions& current, const std::unordered_map<std::string, std::string>& changes);

// NotSupported, with what to do instead, for a change that the column family's engine would not follow, and what an
// opening with the changed options would say if it refused them. What RocksDB itself refuses is left to it.
rocksdb::Status CheckSetOptions(const rocksdb::Options& current, const std::string& family,
                                const DatabaseServices& services,
                                const std::unordered_map<std::string, std::string>& changes);

}  // namespace cairn
