// Opens a database into a raw pointer, whatever RocksDB's functions take: before 11.0 a DB**, since then a
// std::unique_ptr<DB>*.
//
//   rocksdb::DB* db = nullptr;
//   s = rocksdb::DB::Open(options, path, port::Into(&db));
//
// The pointer is set when the statement ends; it is null if nothing was opened.

#pragma once

#include <memory>

#include "rocksdb/db.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)

// What openers of RocksDB put a database into, and how a pointer to it is mangled in rocksdb::DB's functions.
using OpenedDb = std::unique_ptr<rocksdb::DB>;
#define CAIRN_OPENED_DB_SYMBOL "PSt10unique_ptrIS0_St14default_deleteIS0_EE"

class Into {
 public:
  explicit Into(rocksdb::DB** to) : to_(to) {}
  Into(const Into&) = delete;
  Into& operator=(const Into&) = delete;
  ~Into() { *to_ = opened_.release(); }
  operator std::unique_ptr<rocksdb::DB>*() { return &opened_; }  // NOLINT(google-explicit-constructor): stands for it

 private:
  rocksdb::DB** const to_;
  std::unique_ptr<rocksdb::DB> opened_;
};

inline rocksdb::DB* Get(const OpenedDb& db) { return db.get(); }
inline void Clear(OpenedDb* db) { db->reset(); }
inline void Set(OpenedDb* to, rocksdb::DB* db) { to->reset(db); }

#else

using OpenedDb = rocksdb::DB*;
#define CAIRN_OPENED_DB_SYMBOL "PPS0_"

inline rocksdb::DB** Into(rocksdb::DB** to) { return to; }

inline rocksdb::DB* Get(rocksdb::DB* db) { return db; }
inline void Clear(rocksdb::DB** db) { *db = nullptr; }
inline void Set(rocksdb::DB** to, rocksdb::DB* db) { *to = db; }

#endif

}  // namespace cairn::port
