// What a table's properties say of it.

#pragma once

#include <string>

#include "rocksdb/table_properties.h"
#include "src/port/rocksdb_version.h"

namespace cairn::port {

// The names of the compressions that the table's blocks may have: with format_version 7, which 10.4 brought, the property
// holds their numbers.
inline std::string CompressionNames(const rocksdb::TableProperties& properties) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return rocksdb::ParseCompressionNameForDisplay(properties.compression_name);
#else
  return properties.compression_name;
#endif
}

}  // namespace cairn::port
