// The seeds of column families in hash order whose options leave them open: those that the database was created with,
// or new ones (cairn/hash_seed.h). Every opening, for writing, for reading, as a secondary, calls ResolveSeeds first.
//
// Thread-safety: safe.

#pragma once

#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// Whether any of the column families leaves its seed open: if not, ResolveSeeds changes nothing.
bool HasOpenSeed(const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// Gives each column family that leaves its seed open the seed that the database at `path` has for it, by its MANIFEST,
// or a new one if the database or the column family is not there. Comparator and partitioner are replaced; the objects
// that the options shared with others stay as they were. An unreadable MANIFEST is left to RocksDB to report.
void ResolveSeeds(const rocksdb::DBOptions& options, const std::string& path,
                  std::vector<rocksdb::ColumnFamilyDescriptor>* families);

// A copy of `families` with their seeds resolved.
std::vector<rocksdb::ColumnFamilyDescriptor> WithSeeds(const rocksdb::DBOptions& options, const std::string& path,
                                                       const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// The same of a column family that is about to be created: a new seed.
void DrawSeed(rocksdb::ColumnFamilyOptions* options);

// The same of one that is about to be imported: the seed of the files' comparator (ExportImportFilesMetaData's
// db_comparator_name).
void AdoptSeed(const std::string& comparator, rocksdb::ColumnFamilyOptions* options);

}  // namespace cairn
