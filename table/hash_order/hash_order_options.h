// What every engine in hash order refuses of a column family's options, and what every trie does.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// NotSupported if the options ask for what needs key order or timestamps; and as ObeyAges.
rocksdb::Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options);

// What RocksDB takes for ttl and periodic_compaction_seconds where nobody has set them. Here it means none.
constexpr uint64_t kAgeByDefault = 30 * 24 * 60 * 60;

// NotSupported if the options ask for compaction of what is read much, which `store` does not do. Otherwise switches
// off compaction by age where RocksDB's defaults leave it open.
rocksdb::Status ObeyAges(const std::string& store, rocksdb::ColumnFamilyOptions* options);

// NotSupported, naming the column family, if its options have come, after they were prepared, to ask for what would
// give wrong answers in hash order or in cairn.PrefixOrder, or to write range tombstones where none are taken. For
// every door by which options come in: open, creation, SetOptions.
rocksdb::Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const std::string& family);

}  // namespace cairn
