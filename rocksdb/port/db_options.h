// Options of a database that only later releases have.

#pragma once

#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

// Whether an opening goes on with the MANIFEST that is there: reuse_manifest_on_open of 11.3. A new database then goes
// on with its first, into which RocksDB has not written in what order the default column family is.
inline bool ReusesManifest(const rocksdb::DBOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 3)
  return options.reuse_manifest_on_open;
#else
  (void)options;
  return false;
#endif
}

inline void StartNewManifest(rocksdb::DBOptions* options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 3)
  options->reuse_manifest_on_open = false;
#else
  (void)options;
#endif
}

}  // namespace cairn::port
