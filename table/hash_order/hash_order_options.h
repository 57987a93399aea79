// What every engine in hash order refuses of a column family's options, and what every trie does.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// NotSupported if the options ask for what needs key order or timestamps; and as ObeyAges.
rocksdb::Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options);

// What ttl or periodic_compaction_seconds says here: 0 (never) also for what RocksDB sets by default, 30 days or a
// number that means unset, and for what is longer than any clock has run.
inline uint64_t AgeOf(uint64_t option) {
  constexpr uint64_t kByDefault = 30 * 24 * 60 * 60;
  return option == kByDefault || option > UINT32_MAX ? 0 : option;
}

// NotSupported if the options ask for compaction of what is read much, which `store` does not do. Otherwise switches
// off compaction by age where RocksDB's defaults leave it open.
rocksdb::Status ObeyAges(const std::string& store, rocksdb::ColumnFamilyOptions* options);

// NotSupported, naming the column family, if its options have come, after they were prepared, to ask for what would
// give wrong answers in hash order or in cairn.PrefixOrder, or to write range tombstones where none are taken. For
// every door by which options come in: open, creation, SetOptions.
rocksdb::Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const std::string& family);

}  // namespace cairn
