// What every engine in hash order refuses of a column family's options.

#pragma once

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// NotSupported if the options ask for what needs key order, timestamps or compaction by age. Otherwise switches off
// compaction by age, which RocksDB's defaults leave open and foreign tables must not have.
rocksdb::Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options);

}  // namespace cairn
