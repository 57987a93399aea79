// Options of a column family that only later releases have.

#pragma once

#include <string>

#include "options/cf_options.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

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

// Whether what is read often is compacted for that: read_triggered_compaction_threshold of 11.2.
inline bool CompactsWhatIsRead(const rocksdb::ColumnFamilyOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 2)
  return options.read_triggered_compaction_threshold > 0;
#else
  (void)options;
  return false;
#endif
}

// Whether writes put their values into blob files, which no MANIFEST names before the memtable is flushed:
// enable_blob_direct_write of 11.2.
inline bool WritesBlobsAtOnce(const rocksdb::ColumnFamilyOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 2)
  return options.enable_blob_files && options.enable_blob_direct_write;
#else
  (void)options;
  return false;
#endif
}

// Whether the last level is kept for files that are ingested behind all others: an option of the database, since 10.6
// of the column family, too.
inline bool KeepsLastLevel(const rocksdb::DBOptions& database, const rocksdb::ColumnFamilyOptions& family) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
  return database.allow_ingest_behind || family.cf_allow_ingest_behind;
#else
  (void)family;
  return database.allow_ingest_behind;
#endif
}
inline bool KeepsLastLevel(const rocksdb::ImmutableOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
  return options.allow_ingest_behind || options.cf_allow_ingest_behind;
#else
  return options.allow_ingest_behind;
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
