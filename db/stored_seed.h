// The seeds of column families in hash order whose options leave them open: those that the database was created with,
// or new ones (cairn/hash_seed.h). Every opening, for writing, for reading, as a secondary, calls ResolveSeeds first.
//
// Thread-safety: safe.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// Whether any of the column families leaves its seed open: if not, ResolveSeeds changes nothing.
bool LeavesSeedOpen(const rocksdb::ColumnFamilyOptions& options);
bool HasOpenSeed(const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// Gives each column family that leaves its seed open the seed that the database at `path` has for it, by its MANIFEST,
// or a new one if the database or the column family is not there. Comparator and partitioner are replaced; the objects
// that the options shared with others stay as they were. An unreadable MANIFEST is left to RocksDB to report.
//
// A column family that was dropped gives its seed to the next of its name: RocksDB cannot open a database whose
// MANIFEST has two orders under one name.
void ResolveSeeds(const rocksdb::DBOptions& options, const std::string& path,
                  std::vector<rocksdb::ColumnFamilyDescriptor>* families);

// A copy of `families` with their seeds resolved.
std::vector<rocksdb::ColumnFamilyDescriptor> WithSeeds(const rocksdb::DBOptions& options, const std::string& path,
                                                       const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// The same of a column family that is about to be created in an open database. InvalidArgument if its options name
// another order than one of its name had that was dropped.
rocksdb::Status SeedNewFamily(const rocksdb::DBOptions& options, const std::string& path, const std::string& name,
                              rocksdb::ColumnFamilyOptions* family);

// A new seed.
void DrawSeed(rocksdb::ColumnFamilyOptions* options);

// The same of one that is about to be imported: the seed of the files' comparator (ExportImportFilesMetaData's
// db_comparator_name).
void AdoptSeed(const std::string& comparator, rocksdb::ColumnFamilyOptions* options);

// The names of the comparators, by column family.
using StoredOrders = std::map<std::string, std::string>;

// Those of a database that may be damaged: by its MANIFEST, or where that cannot be read from end to end, by what each
// table says of itself, the newest OPTIONS file, and what can be read of the MANIFESTs, in this order.
StoredOrders FindStoredOrders(const rocksdb::DBOptions& options, const std::string& path,
                              const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// ResolveSeeds of a database that may be damaged. Each column family that is stored, is not among `families`, and could
// have the options `unknown` (may be null) except for the seed, is added with these and its own seed.
void ResolveSeeds(const StoredOrders& orders, const rocksdb::ColumnFamilyOptions* unknown,
                  std::vector<rocksdb::ColumnFamilyDescriptor>* families);

}  // namespace cairn
