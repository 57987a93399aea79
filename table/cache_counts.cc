#include "table/cache_counts.h"

#include "monitoring/statistics_impl.h"
#include "table/perf_counts.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.

void CountCacheHit(rocksdb::Statistics* statistics, CachedPart part, int level, size_t bytes) {
  RecordTick(statistics, rocksdb::BLOCK_CACHE_HIT);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_BYTES_READ, bytes);
  RecordTick(statistics,
             part == CachedPart::kFilter ? rocksdb::BLOCK_CACHE_FILTER_HIT : rocksdb::BLOCK_CACHE_INDEX_HIT);
  if (perf_level < PerfLevel::kEnableCount) return;
  PERF_COUNTER_ADD(block_cache_hit_count, 1);
  PERF_COUNTER_ADD(block_cache_read_byte, bytes);
  if (part == CachedPart::kFilter) {
    PERF_COUNTER_ADD(block_cache_filter_hit_count, 1);
    PERF_COUNTER_ADD(block_cache_filter_read_byte, bytes);
  } else {
    PERF_COUNTER_ADD(block_cache_index_hit_count, 1);
    PERF_COUNTER_ADD(block_cache_index_read_byte, bytes);
  }
  if (level != kNoLevel) {
    PERF_COUNTER_BY_LEVEL_ADD(block_cache_hit_count, 1, static_cast<uint32_t>(level));
  }
}

void CountCacheMiss(rocksdb::Statistics* statistics, CachedPart part, int level) {
  RecordTick(statistics, rocksdb::BLOCK_CACHE_MISS);
  RecordTick(statistics,
             part == CachedPart::kFilter ? rocksdb::BLOCK_CACHE_FILTER_MISS : rocksdb::BLOCK_CACHE_INDEX_MISS);
  if (level != kNoLevel) {
    PERF_COUNTER_BY_LEVEL_ADD(block_cache_miss_count, 1, static_cast<uint32_t>(level));
  }
}

void CountCacheAdd(rocksdb::Statistics* statistics, CachedPart part, size_t bytes) {
  RecordTick(statistics, rocksdb::BLOCK_CACHE_ADD);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_BYTES_WRITE, bytes);
  if (part == CachedPart::kFilter) {
    RecordTick(statistics, rocksdb::BLOCK_CACHE_FILTER_ADD);
    RecordTick(statistics, rocksdb::BLOCK_CACHE_FILTER_BYTES_INSERT, bytes);
  } else {
    RecordTick(statistics, rocksdb::BLOCK_CACHE_INDEX_ADD);
    RecordTick(statistics, rocksdb::BLOCK_CACHE_INDEX_BYTES_INSERT, bytes);
  }
}

}  // namespace cairn
