// A flush that nobody waits for, neither for its end nor for its beginning.

#pragma once

#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace cairn {

// Of the default column family, where none is named.
inline rocksdb::Status BeginFlush(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family = nullptr) {
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;
  return db->Flush(options, family == nullptr ? db->DefaultColumnFamily() : family);
}

}  // namespace cairn
