// An advisory lock on a whole file that belongs to the process: the kernel drops it when the process dies, and a child
// made by fork does not have it, as with the record lock of RocksDB's LOCK. A record lock is no good for a file that is
// opened elsewhere in the process as well (libpmem does): the first close of any descriptor of it would end the lock.
// So this is a lock of an open file (flock), on a descriptor that nothing is mapped through, and which fork's children
// close before they do anything else.
//
// Thread-safety: an object is one thread's at a time; any number of objects.

#pragma once

#include <string>

#include "rocksdb/status.h"

namespace cairn {

class ProcessLock {
 public:
  enum class Kind { kShared, kExclusive };

  ProcessLock();
  ~ProcessLock();
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  // Of a file that is there. Busy when another object or process has it, and is not just reading (kExclusive waits for
  // readers, up to ten seconds).
  rocksdb::Status Acquire(const std::string& path, Kind kind);

  // False before Acquire, and in a child of the process that acquired it.
  bool held() const { return fd_ >= 0; }

  // Whether it is on the file that this descriptor is open on: nobody has put another in its place.
  bool IsOn(int fd) const;

 private:
  friend struct ProcessLocks;
  int fd_ = -1;  // guarded by the mutex of all locks while it is changed
};

// What `s`, of an Env that could not lock the LOCK of the database at `path` for writing, means: somebody has it open,
// or the error itself, as on a file system that is read-only.
rocksdb::Status CannotLock(const std::string& path, const rocksdb::Status& s);

}  // namespace cairn
