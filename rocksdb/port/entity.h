// The columns of an entity as a write batch has it.

#pragma once

#include "db/wide/wide_column_serialization.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

// They point into it.
inline rocksdb::Status ReadEntity(rocksdb::Slice entity, rocksdb::WideColumns* columns) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return rocksdb::WideColumnSerialization::DeserializeSimple(entity, *columns);
#else
  return rocksdb::WideColumnSerialization::Deserialize(entity, *columns);
#endif
}

}  // namespace cairn::port
