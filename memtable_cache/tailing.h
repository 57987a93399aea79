// Tells a memtable that the iterator which is asked of it is a tailing one: RocksDB passes ReadOptions to the memtable
// and not to what is in it (db/rocksdb_hooks.cc).
//
// Thread-safety: a scope is of the thread that makes it.

#pragma once

namespace cairn {

class TailingScope {
 public:
  TailingScope() { ++depth_; }
  ~TailingScope() { --depth_; }
  TailingScope(const TailingScope&) = delete;
  TailingScope& operator=(const TailingScope&) = delete;

  static bool IsOpen() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace cairn
