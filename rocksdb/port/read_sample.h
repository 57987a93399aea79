// RocksDB's samples of reads of tables; 11.0 also counts those that brought no value.

#pragma once

#include "monitoring/file_read_sample.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

enum class ReadFound { kValue, kNoValue };

inline void SampleRead(rocksdb::FileMetaData* file, [[maybe_unused]] ReadFound found) {
  rocksdb::sample_file_read_inc(file);
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  if (found == ReadFound::kNoValue) rocksdb::sample_collapsible_entry_file_read_inc(file);
#endif
}

}  // namespace cairn::port
