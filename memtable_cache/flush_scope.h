// Tells a memtable that the iterator which is asked of it is a flush's, and takes why the flush must not be: RocksDB
// asks nothing of what is in a memtable before it flushes it (db/rocksdb_hooks.cc).
//
// Thread-safety: a scope is of the thread that makes it.

#pragma once

#include "rocksdb/status.h"

namespace cairn {

class FlushScope {
 public:
  FlushScope() : outer_(innermost_) { innermost_ = this; }
  ~FlushScope() { innermost_ = outer_; }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;

  // Null: there is none.
  static FlushScope* Innermost() { return innermost_; }

  void Note(const rocksdb::Status& s) { status_.UpdateIfOk(rocksdb::Status(s)); }
  const rocksdb::Status& status() const { return status_; }

 private:
  static thread_local FlushScope* innermost_;

  FlushScope* const outer_;
  rocksdb::Status status_;
};

}  // namespace cairn
