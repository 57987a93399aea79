// The names of RocksDB that nearly every source uses, for namespace cairn. Public headers do without: they name no more
// of RocksDB than they offer.

#pragma once

#include "rocksdb/db.h"

namespace cairn {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::FlushOptions;
using rocksdb::IOStatus;
using rocksdb::Iterator;
using rocksdb::Options;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

}  // namespace cairn
