// What every engine in hash order refuses of a column family's options, and what every trie does.

#pragma once

#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// NotSupported if the options ask for what needs key order, timestamps or compaction by age. Otherwise switches off
// compaction by age, which RocksDB's defaults leave open and foreign tables must not have.
rocksdb::Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options);

// NotSupported if the options ask for compaction of what is old or much read, which `store` does not do. Otherwise
// switches off what RocksDB's defaults leave open.
rocksdb::Status CompactBySizeOnly(const std::string& store, rocksdb::ColumnFamilyOptions* options);

// NotSupported, naming the column family, if its options have come, after they were prepared, to ask for what would
// give wrong answers in hash order or in cairn.PrefixOrder, or to write range tombstones where none are taken. For
// every door by which options come in: open, creation, SetOptions.
rocksdb::Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const std::string& family);

}  // namespace cairn
