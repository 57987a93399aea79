// What a table's properties say of it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/types.h"

namespace cairn::port {

// The names of the compressions that the table's blocks may have: with format_version 7, which 10.4 brought, the
// property holds their numbers.
inline std::string CompressionNames(const rocksdb::TableProperties& properties) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return rocksdb::ParseCompressionNameForDisplay(properties.compression_name);
#else
  return properties.compression_name;
#endif
}

// Takes an entry's sequence number into the table's bounds: the smallest, by which live tables are ingested unread, is
// a property since 10.7.
inline void CountSequence(rocksdb::SequenceNumber sequence, rocksdb::TableProperties* properties) {
  properties->key_largest_seqno = std::max(properties->key_largest_seqno, sequence);
#if CAIRN_ROCKSDB_AT_LEAST(10, 7)
  properties->key_smallest_seqno = std::min(properties->key_smallest_seqno, sequence);
#endif
}

// Takes a data block into account, `bytes` before its compression: a property since 10.7.
inline void CountUncompressedData(uint64_t bytes, rocksdb::TableProperties* properties) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 7)
  properties->uncompressed_data_size += bytes;
#else
  (void)bytes;
  (void)properties;
#endif
}

}  // namespace cairn::port
