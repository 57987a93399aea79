// What the pools of this process keep free, as their WriteBufferManagers count it: as used, and as nothing that a flush
// could do something about.
//
// Databases may share a manager. With allow_stall, all of them wait while it is full, and one that is idle flushes
// nothing. RocksDB lets their memtables hold seven eighths of the limit, so all their pools together take half of the
// eighth that is left, and what is beyond is not counted.
//
// Thread-safety: all functions may be called by all threads.

#pragma once

#include <cstddef>

#include "rocksdb/write_buffer_manager.h"

namespace cairn {

class FreeCharges {
 public:
  FreeCharges() = delete;

  // A pool begins to count with `manager`, with nothing yet; ends to, and gives back what it has counted.
  static void Join(rocksdb::WriteBufferManager* manager);
  static void Leave(rocksdb::WriteBufferManager* manager, size_t counted);

  // A pool that has `counted` and keeps `free` bytes. Returns what it has counted now: of `free` as much as the others
  // leave of a sixteenth of the limit. REQUIRES: between Join and Leave.
  static size_t Change(rocksdb::WriteBufferManager* manager, size_t counted, size_t free);

  // What one of its pools should keep free at most.
  static size_t MostFree(rocksdb::WriteBufferManager* manager);
};

}  // namespace cairn
