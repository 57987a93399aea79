// What every engine in hash order refuses of a column family's options.

#pragma once

#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// NotSupported if the options ask for what needs key order, timestamps or compaction by age. Otherwise switches off
// compaction by age, which RocksDB's defaults leave open and foreign tables must not have.
rocksdb::Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options);

// NotSupported, naming the column family, if its keys are in hash order and its options have come, after they were
// prepared, to ask for what would give wrong answers there. For every door by which options come in: open, creation,
// SetOptions.
rocksdb::Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const std::string& family);

}  // namespace cairn
