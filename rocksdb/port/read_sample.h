// What reads of RocksDB count and fetch: its samples, of which 11.0 also counts those that brought no value, and blobs.

#pragma once

#include "db/blob/blob_fetcher.h"
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

// What reads the blobs of a Version: 11.0 has made its class the base of others.
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
using VersionBlobFetcher = rocksdb::VersionBlobFetcher;
#else
using VersionBlobFetcher = rocksdb::BlobFetcher;
#endif

}  // namespace cairn::port
