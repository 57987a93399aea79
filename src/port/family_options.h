// Options of a column family that only later releases have.

#pragma once

#include <string>

#include "rocksdb/options.h"
#include "src/port/rocksdb_version.h"

#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
#include "rocksdb/advanced_compression.h"
#endif

namespace cairn::port {

// Whether iterators write a range tombstone where they have passed over many point tombstones: the option
// min_tombstones_for_range_conversion of 11.2.
inline bool IteratorsDeleteRanges(const rocksdb::ColumnFamilyOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 2)
  return options.min_tombstones_for_range_conversion > 0;
#else
  (void)options;
  return false;
#endif
}

// The name of a compression manager of the program's own, which tables of Cairn's formats do not ask; empty: none.
inline std::string ForeignCompression(const rocksdb::ColumnFamilyOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
  return options.compression_manager == nullptr ? "" : options.compression_manager->Name();
#else
  (void)options;
  return "";
#endif
}

}  // namespace cairn::port
