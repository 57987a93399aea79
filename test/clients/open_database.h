// Opens a database as a program that knows nothing of Cairn does, whatever release of RocksDB it is compiled with: before
// 11.0 into a plain pointer, since then into one that owns the database.

#pragma once

#include <memory>

#include "rocksdb/db.h"
#include "rocksdb/version.h"

namespace stock {

#if ROCKSDB_MAJOR >= 11

template <typename... Arguments>
rocksdb::Status OpenDatabase(std::unique_ptr<rocksdb::DB>* db, const Arguments&... arguments) {
  return rocksdb::DB::Open(arguments..., db);
}

#else

template <typename... Arguments>
rocksdb::Status OpenDatabase(std::unique_ptr<rocksdb::DB>* db, const Arguments&... arguments) {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status s = rocksdb::DB::Open(arguments..., &opened);
  db->reset(opened);
  return s;
}

#endif

}  // namespace stock
