// What an open table holds in memory, charged to the block cache, so that the cache's size bounds both.
//
// Thread-safety: a charge may be made and given back by any thread.
//
// Source: the memory charging of RocksDB (CacheEntryRole::kBlockBasedTableReader), whose option decides here, too.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/status.h"
#include "rocksdb/table.h"

namespace cairn {

// What cache_usage_options says of table readers. kFallback: a full cache with a strict limit keeps no table from being
// opened, and charges fill at most half of one; what is beyond is not charged. kEnabled: it does, and may be filled.
// kDisabled: nothing is charged.
rocksdb::CacheEntryRoleOptions::Decision ReaderChargeDecision(const rocksdb::BlockBasedTableOptions& options);

// What a cache with a strict limit may be charged with beside what others have pinned in it: half of it stays free for
// blocks. already: of what is pinned, what the caller has charged.
uint64_t RoomForCharges(const rocksdb::Cache& cache, uint64_t already);

class ReaderCharge {
 public:
  ReaderCharge() = default;
  ~ReaderCharge();
  ReaderCharge(const ReaderCharge&) = delete;
  ReaderCharge& operator=(const ReaderCharge&) = delete;

  // `key` tells the cache's shards apart and names nothing. MemoryLimit, as said above. Without a cache nothing is
  // charged. REQUIRES: called once at most.
  rocksdb::Status Take(const std::shared_ptr<rocksdb::Cache>& cache, const rocksdb::Slice& key, size_t bytes,
                       rocksdb::CacheEntryRoleOptions::Decision decision);

 private:
  std::shared_ptr<rocksdb::Cache> cache_;
  rocksdb::Cache::Handle* handle_ = nullptr;
};

}  // namespace cairn
