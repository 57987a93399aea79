#include "table/reader_charge.h"

#include <algorithm>
#include <string>

#include "cache/typed_cache.h"

namespace cairn {

namespace {

using Charge = rocksdb::PlaceholderCacheInterface<rocksdb::CacheEntryRole::kBlockBasedTableReader>;
using Decision = rocksdb::CacheEntryRoleOptions::Decision;

// Whether a cache with a strict limit has room for blocks beside this and all that is pinned in it. Who reads a block
// through a full one gets an error, also of a family that knows nothing of these tables.
bool LeavesRoom(rocksdb::Cache* cache, const rocksdb::Slice& key, size_t bytes) {
  if (bytes > RoomForCharges(*cache, 0)) return false;
  // The same of the key's own shard, which cannot be asked for its size: it must have room for twice as much.
  rocksdb::Cache::Handle* const twice = cache->CreateStandalone(key, nullptr, Charge::GetHelper(), 2 * bytes, false);
  if (twice == nullptr) return false;
  cache->Release(twice, true);
  return true;
}

}  // namespace

uint64_t RoomForCharges(const rocksdb::Cache& cache, uint64_t already) {
  const uint64_t half = cache.GetCapacity() / 2, pinned = cache.GetPinnedUsage();
  const uint64_t others = pinned - std::min(pinned, already);
  return half - std::min(half, others);
}

Decision ReaderChargeDecision(const rocksdb::BlockBasedTableOptions& options) {
  const auto& overrides = options.cache_usage_options.options_overrides;
  const auto found = overrides.find(rocksdb::CacheEntryRole::kBlockBasedTableReader);
  return found == overrides.end() ? options.cache_usage_options.options.charged : found->second.charged;
}

ReaderCharge::~ReaderCharge() {
  if (handle_ != nullptr) cache_->Release(handle_, true);
}

rocksdb::Status ReaderCharge::Take(const std::shared_ptr<rocksdb::Cache>& cache, const rocksdb::Slice& key,
                                   size_t bytes, Decision decision) {
  if (cache == nullptr || decision == Decision::kDisabled) return rocksdb::Status::OK();
  const bool refuses = decision == Decision::kEnabled;
  if (!refuses && cache->HasStrictCapacityLimit() && !LeavesRoom(cache.get(), key, bytes)) {
    return rocksdb::Status::OK();
  }
  cache_ = cache;
  handle_ = cache->CreateStandalone(key, nullptr, Charge::GetHelper(), bytes, !refuses);
  return handle_ != nullptr ? rocksdb::Status::OK()
                            : rocksdb::Status::MemoryLimit(
                                  "no room in the block cache for " + std::to_string(bytes) + " bytes of an open table",
                                  "enlarge it, or set max_open_files");
}

}  // namespace cairn
