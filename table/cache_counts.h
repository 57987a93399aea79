// What RocksDB's readers count of parts of tables that they look up in the block cache, for indexes and filters that
// ours look up there themselves: in the statistics and in the perf context.
//
// Thread-safety: all.

#pragma once

#include <cstddef>

#include "rocksdb/statistics.h"

namespace cairn {

enum class CachedPart { kFilter, kIndex };

// `level`: of the table, for the perf context's counters by level; kNoLevel: it is not known.
constexpr int kNoLevel = -1;

void CountCacheHit(rocksdb::Statistics* statistics, CachedPart part, int level, size_t bytes);
void CountCacheMiss(rocksdb::Statistics* statistics, CachedPart part, int level);
void CountCacheAdd(rocksdb::Statistics* statistics, CachedPart part, size_t bytes);

}  // namespace cairn
