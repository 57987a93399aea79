// What opening, creating, reading and destroying a database means in this library, whoever asks for it:
// db/rocksdb_hooks.cc brings every such call here.
//
// A database that uses no part of Cairn gets RocksDB's own object and nothing else. One that does gets a CairnDB: its
// options are checked as a whole, a pool file that a killed process has left is recovered first, tries start compacting
// at once. What the environment says of the database (db/environment_options.h) is laid over its options before that.
//
// Thread-safety: safe.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/environment_options.h"
#include "result_cache/database_cache.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "util/cairn_parts.h"

namespace cairn {

// RocksDB's DBImpl::Open, of one seq_per_batch and batch_per_txn.
using OpenFunction = std::function<rocksdb::Status(
    const rocksdb::DBOptions& options, const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db)>;

// For writing. `seq_per_batch`: that of `open`. The caller deletes *db.
rocksdb::Status OpenDatabase(const rocksdb::DBOptions& options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool seq_per_batch,
                             const OpenFunction& open, std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                             rocksdb::DB** db);

// What an opening for reading checks, and the options that it opens with.
rocksdb::Status PrepareForReading(const rocksdb::DBOptions& options, const std::string& path, const std::string& stored,
                                  const std::vector<rocksdb::ColumnFamilyDescriptor>& given,
                                  std::vector<rocksdb::ColumnFamilyDescriptor>* families,
                                  std::shared_ptr<EnvironmentOptions>* environment);

// RocksDB's own function that opens a database for reading.
using ReadFunction = std::function<rocksdb::Status(const rocksdb::DBOptions& options,
                                                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families)>;

// The options with nothing of another open database: for one with a part of Cairn, with lookups of its own.
rocksdb::DBOptions WithLookups(const rocksdb::DBOptions& options, bool uses_cairn);

// Calls open() again where it has failed while a process that writes has changed the MANIFEST: what it names may be
// deleted before it is opened. TryAgain if that happened over and over.
rocksdb::Status OpenWhileWritten(const rocksdb::DBOptions& options, const std::string& path,
                                 const std::function<rocksdb::Status()>& open);

// For reading only, as a secondary or as a follower: refused while a pool file holds writes that such an opening would
// not see, and where options would give wrong answers. `stored`: where the files are, if elsewhere. `db`: what
// open(options, families) sets, a pointer or a unique_ptr.
template <class Database>
rocksdb::Status OpenForReading(const rocksdb::DBOptions& options, const std::string& path, const std::string& stored,
                               const std::vector<rocksdb::ColumnFamilyDescriptor>& families, const ReadFunction& open,
                               const Database& db) {
  std::vector<rocksdb::ColumnFamilyDescriptor> resolved;
  std::shared_ptr<EnvironmentOptions> environment;
  rocksdb::Status s = PrepareForReading(options, path, stored, families, &resolved, &environment);
  if (s.ok()) {
    const bool uses_cairn = UsesCairn(options, resolved);
    const auto once = [&] { return open(WithLookups(options, uses_cairn), resolved); };
    s = uses_cairn ? OpenWhileWritten(options, stored, once) : once();
  }
  if (s.ok() && environment != nullptr) environment->NoteOpened(db->GetDBOptions().info_log.get());
  return s;
}

// A column family that is to be added to a database opened, with these options, without a part of Cairn.
rocksdb::Status CheckFamilyOfStockDatabase(const rocksdb::DBOptions& options,
                                           const rocksdb::ColumnFamilyDescriptor& family);

// What every column family must fulfil, at whichever door it comes in. `options`: the database's.
rocksdb::Status CheckFamily(const rocksdb::DBOptions& options, const rocksdb::ColumnFamilyDescriptor& family);

// What RocksDB asks the parts of the options, tables above all, at Open, of a family with a part of Cairn. It does not
// ask them when a column family is added or its options change, and would not open the database again.
rocksdb::Status CheckParts(const rocksdb::DBOptions& options, const rocksdb::ColumnFamilyOptions& family);

// The result cache that the database's options ask for, or else the environment, which may be null. Of capacity 0:
// none.
DatabaseCacheOptions WantedCache(const rocksdb::DBOptions& options, const EnvironmentOptions* environment);

// InvalidArgument if the cache is to be charged to a block cache, and the default column family has none.
rocksdb::Status CheckCacheCharge(const DatabaseCacheOptions& cache, const std::shared_ptr<rocksdb::Cache>& block_cache);

// That of the column family's tables; null: they have none.
std::shared_ptr<rocksdb::Cache> BlockCacheOf(const rocksdb::ColumnFamilyOptions& family);

// RepairDB makes a new MANIFEST: refused while a pool file holds writes, which would fit the old one only, and where a
// column family in an order of Cairn's would get another. Seeds that the options leave open become the database's own;
// column families that `unknown` (may be null) is meant for are named with theirs.
rocksdb::Status PrepareRepair(const rocksdb::DBOptions& options, const std::string& path,
                              const rocksdb::ColumnFamilyOptions* unknown,
                              std::vector<rocksdb::ColumnFamilyDescriptor>* families);

// RocksDB's DestroyDB, and the pool file.
rocksdb::Status DestroyDatabase(const std::string& path, const rocksdb::Options& options,
                                const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// Lets RocksDB's repair read the tables of all column families. It opens each table by the format and in the order of
// the default column family, before it knows whose the table is; what cannot be opened so it takes for damaged. That
// is the lot of tables in an order or format of Cairn's beside a default column family without, and the other way
// round. So here it gets the same column families, but the default column family opens each table as the column family
// does of which it says that it is.
std::vector<rocksdb::ColumnFamilyDescriptor> ForRepair(const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

}  // namespace cairn
