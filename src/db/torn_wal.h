// The end of a WAL whose last write has failed: part of an entry may lie there. RocksDB reads past it in the newest WAL only;
// an older one that is still needed (it holds a prepared transaction, or what a column family has in no table) is taken to be
// damaged, and the database does not open.
//
// Thread-safety: any thread, of a WAL that nobody writes any more. Errors: of the file; the WAL is as good as it was.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"

namespace cairn {

// Writes zeros over what lies behind the last whole entry, which all readers skip, in any wal_recovery_mode. OK where there is
// nothing, no such file, or a file system that cannot write into a file.
rocksdb::IOStatus EraseTornEntry(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                 rocksdb::Logger* log);

}  // namespace cairn
