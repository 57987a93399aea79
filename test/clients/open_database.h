// For programs that know nothing of Cairn. They open a database whatever release of RocksDB they are compiled with:
// before
// 11.0 into a plain pointer, since then into one that owns the database.

#pragma once

#include <cstdio>
#include <cstdlib>
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

// Ends the program, with what it says, unless all is well.
inline void Require(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

}  // namespace stock
