// Tells RocksDB's WriteBufferManager of memory that a memtable holds outside its arena.
//
// Thread-safety: Charge may be called by all writers of the memtable, until it becomes read-only.

#pragma once

#include <cstddef>

#include "memory/allocator.h"

namespace cairn {

class ArenaCharge {
 public:
  // `allocator` is the one that RocksDB gave to the memtable. Foreign allocators, and databases without a limit, are
  // charged nothing.
  explicit ArenaCharge(rocksdb::Allocator* allocator);

  // Given back by RocksDB when the memtable dies.
  void Charge(size_t bytes) {
    if (tracker_ != nullptr) tracker_->Allocate(bytes);
  }

 private:
  rocksdb::AllocTracker* tracker_ = nullptr;
};

}  // namespace cairn
