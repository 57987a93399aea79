// Ingestion of tables: what later releases ask for besides.

#pragma once

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

// Whether all keys of a range, but not of the whole column family, go when the tables come: atomic_replace_range of
// 11.0.
inline bool ReplacesRange(const rocksdb::IngestExternalFileArg& argument) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return argument.atomic_replace_range.has_value() &&
         (argument.atomic_replace_range->start.has_value() || argument.atomic_replace_range->limit.has_value());
#else
  (void)argument;
  return false;
#endif
}

}  // namespace cairn::port
