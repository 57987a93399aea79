// The end of a WAL whose last write has failed. It may be part of an entry: RocksDB reads past that in the newest WAL only; an
// older one that is still needed (it holds a prepared transaction, or what a column family has in no table) is taken to be
// damaged, and the database does not open. Or it is a whole entry, whose sync has failed: the next WAL begins with the same
// sequence number, so that DB::GetUpdatesSince gives the write that failed instead of the one that has succeeded; and who opens
// the database has it in those column families only that had not been flushed.
//
// With unordered_write a whole entry stays: RocksDB counts its sequence number as one of a write that has succeeded.
//
// Thread-safety: any thread, of a WAL that nobody writes any more. Errors: of the file; the WAL is as good as it was.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"
#include "rocksdb/types.h"

namespace cairn {

// Writes zeros, which all readers skip in any wal_recovery_mode, over what lies behind the last whole entry, and over entries that
// begin beyond `last`, that of the last write that has succeeded. OK where there is nothing, no such file, or a file system that
// cannot write into a file.
rocksdb::IOStatus EraseFailedWrites(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                    rocksdb::SequenceNumber last, rocksdb::Logger* log);

}  // namespace cairn
