// Tells RocksDB's WriteBufferManager of memory that a memtable holds outside its arena.
//
// Thread-safety: Charge may be called by all writers of the memtable, until it becomes read-only.

#pragma once

#include <cstddef>

#include "memory/allocator.h"
#include "rocksdb/write_buffer_manager.h"

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

  // Null: nobody counts.
  rocksdb::WriteBufferManager* manager() const { return manager_; }

 private:
  rocksdb::AllocTracker* tracker_ = nullptr;
  rocksdb::WriteBufferManager* manager_ = nullptr;
};

// Memory that a memtable, or a pool of them, takes for a while and that no flush would free: it counts as used, not as
// what a flush can do something about.
class PassingCharge {
 public:
  PassingCharge(rocksdb::WriteBufferManager* manager, size_t bytes) : manager_(manager), bytes_(bytes) {
    if (manager_ != nullptr) Take(manager_, bytes_);
  }
  ~PassingCharge() {
    if (manager_ != nullptr) manager_->FreeMem(bytes_);
  }
  PassingCharge(const PassingCharge&) = delete;
  PassingCharge& operator=(const PassingCharge&) = delete;

  // FreeMem gives it back.
  static void Take(rocksdb::WriteBufferManager* manager, size_t bytes) {
    manager->ReserveMem(bytes);
    manager->ScheduleFreeMem(bytes);
  }

 private:
  rocksdb::WriteBufferManager* const manager_;
  const size_t bytes_;
};

}  // namespace cairn
