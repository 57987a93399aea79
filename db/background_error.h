// Tells RocksDB of an error that it cannot see itself, so that the database stops as it does for one of its own.
//
// Thread-safety: may be called by any thread that holds none of RocksDB's mutexes.

#pragma once

#include "rocksdb/db.h"
#include "rocksdb/status.h"

namespace cairn {

// `s`, an error of what stands for the WAL: the database refuses writes from now on, as after a failed sync of its WAL,
// until it is resumed, where RocksDB can, or opened again.
void SetBackgroundError(rocksdb::DB* db, const rocksdb::Status& s);

}  // namespace cairn
