// What reads the blobs of a Version: 11.0 has made its class the base of others.

#pragma once

#include "db/blob/blob_fetcher.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
using VersionBlobFetcher = rocksdb::VersionBlobFetcher;
#else
using VersionBlobFetcher = rocksdb::BlobFetcher;
#endif

}  // namespace cairn::port
