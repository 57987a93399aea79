// A database whose memtables are durable: opened over a recovered pool file, written without a WAL. cairn::Open puts it
// between RocksDB and what it returns.
//
// Thread-safety: as rocksdb::DB.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/durable_recovery.h"
#include "memtable_cache/durable_factory.h"
#include "rocksdb/db.h"

namespace cairn {

// Whether the column family asks for durable memtables, and for which.
bool GetDurableSettings(const rocksdb::ColumnFamilyOptions& options, DurableSettings* settings);

// Whether any of the column families asks for durable memtables.
bool IsDurable(const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families);

// The pool file that the column families share. InvalidArgument or NotSupported, with the option to change, when they
// differ or when the options rule durability out.
rocksdb::Status CheckDurable(const rocksdb::DBOptions& options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                             DurableSettings* settings);

using OpenFunction = std::function<rocksdb::Status(
    const rocksdb::DBOptions& options, std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db)>;

// Recovers the pool file, opens the database by `open` (rocksdb::DB::Open or what wraps it) with the options that it is
// given, and wraps it. The caller deletes *db.
rocksdb::Status OpenDurable(const rocksdb::DBOptions& options, const std::string& path,
                            const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                            const OpenFunction& open, std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                            rocksdb::DB** db);

}  // namespace cairn
