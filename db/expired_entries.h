// Reads of a rocksdb::DBWithTTL over a database of Cairn's return nothing that has expired, though it may lie in tables
// until a compaction drops it. What is older of a key has expired, too.
//
// Thread-safety: functions of their arguments; an iterator is for one thread, as RocksDB's.

#pragma once

#include <cstdint>

#include "db/column_family.h"
#include "rocksdb/iterator.h"
#include "rocksdb/port/column_family.h"
#include "table/ttl_stamps.h"

namespace cairn {

// Values of the column family with a stamp below it have expired; 0: none has.
inline uint64_t ExpiredBefore(rocksdb::ColumnFamilyHandle* family, rocksdb::SystemClock* clock) {
  const auto* const data = static_cast<rocksdb::ColumnFamilyHandleImpl*>(family)->cfd();
  return ExpiredBefore(TtlOf(port::ImmutableOptionsOf(*data)), clock);
}

// Takes `entries`. The clock is asked when it is made and when it is refreshed.
rocksdb::Iterator* WithoutExpired(rocksdb::Iterator* entries, const int32_t* ttl, rocksdb::SystemClock* clock);

}  // namespace cairn
