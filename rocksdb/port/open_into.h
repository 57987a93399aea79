// Opens a database, or what else RocksDB's functions hand out by a pointer, into what owns it. DB's functions take a
// DB** before 11.0, and since then a std::unique_ptr<DB>*; other classes' and ours a raw pointer in every release.
//
//   std::unique_ptr<rocksdb::DB> db;
//   s = rocksdb::DB::Open(options, path, port::Into(&db));
//
// What it is opened into, which may be a raw pointer, too, is set when the statement ends; it is null if nothing was
// opened.

#pragma once

#include <memory>
#include <utility>

#include "rocksdb/db.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

template <class T>
class Into {
 public:
  explicit Into(T** to) : to_(to) {}
  explicit Into(std::unique_ptr<T>* to) : owner_(to) {}
  Into(const Into&) = delete;
  Into& operator=(const Into&) = delete;
  ~Into() {
    if (raw_ != nullptr) opened_.reset(raw_);
    if (owner_ != nullptr) {
      *owner_ = std::move(opened_);
    } else {
      *to_ = opened_.release();
    }
  }
  operator T**() { return &raw_; }  // NOLINT(google-explicit-constructor): stands for it
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  operator std::unique_ptr<T>*() { return &opened_; }  // NOLINT(google-explicit-constructor): as above
#endif

 private:
  T** const to_ = nullptr;
  std::unique_ptr<T>* const owner_ = nullptr;
  T* raw_ = nullptr;
  std::unique_ptr<T> opened_;
};

// What openers of RocksDB put a database into, and how a pointer to it is mangled in rocksdb::DB's functions.
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
using OpenedDb = std::unique_ptr<rocksdb::DB>;
#define CAIRN_OPENED_DB_SYMBOL "PSt10unique_ptrIS0_St14default_deleteIS0_EE"

inline rocksdb::DB* Get(const OpenedDb& db) { return db.get(); }
inline void Clear(OpenedDb* db) { db->reset(); }
inline void Set(OpenedDb* to, rocksdb::DB* db) { to->reset(db); }
#else
using OpenedDb = rocksdb::DB*;
#define CAIRN_OPENED_DB_SYMBOL "PPS0_"

inline rocksdb::DB* Get(rocksdb::DB* db) { return db; }
inline void Clear(rocksdb::DB** db) { *db = nullptr; }
inline void Set(rocksdb::DB** to, rocksdb::DB* db) { *to = db; }
#endif

}  // namespace cairn::port
