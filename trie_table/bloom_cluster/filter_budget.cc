#include "trie_table/bloom_cluster/filter_budget.h"

#include <unordered_map>

#include "rocksdb/advanced_cache.h"
#include "util/mutex.h"

namespace cairn {

namespace {

// Fewer steps than bits: each costs coding filters anew while a database grows, or is opened. With fewer bits than the
// last, false positives would read as much as the pages would.
constexpr uint8_t kFewerBits[] = {14, 12, 10, 8};

// Of a cache, what all who share it need.
std::shared_ptr<std::atomic<uint64_t>> NeedsOf(const rocksdb::Cache* cache) {
  static CheckedMutex* const mutex = new CheckedMutex();
  static auto* const caches = new std::unordered_map<const rocksdb::Cache*, std::weak_ptr<std::atomic<uint64_t>>>();
  const MutexLock lock(mutex);
  for (auto it = caches->begin(); it != caches->end();) it = it->second.expired() ? caches->erase(it) : std::next(it);
  std::weak_ptr<std::atomic<uint64_t>>& entry = (*caches)[cache];
  std::shared_ptr<std::atomic<uint64_t>> needs = entry.lock();
  if (needs == nullptr) {
    needs = std::make_shared<std::atomic<uint64_t>>(0);
    entry = needs;
  }
  return needs;
}

}  // namespace

uint64_t FilterBytes(uint64_t keys, double bits) {
  // Filters are built to the nearest bit.
  return static_cast<uint64_t>(static_cast<double>(keys) * (bits + 0.5) / 8);
}

std::vector<uint8_t> PlanFilterMemory(const std::vector<FilterNeed>& depths, uint64_t budget) {
  std::vector<uint8_t> plan(depths.size(), 0);
  bool may_shorten = true;
  for (size_t i = 0; i < depths.size(); ++i) {
    const FilterNeed& need = depths[i];
    if (need.keys == 0 || need.bits == 0) continue;
    if (FilterBytes(need.keys, need.bits) <= budget) {
      plan[i] = static_cast<uint8_t>(need.bits);
    } else if (may_shorten) {
      may_shorten = false;
      for (const uint8_t bits : kFewerBits) {
        if (bits >= need.bits || FilterBytes(need.keys, bits) > budget) continue;
        plan[i] = bits;
        break;
      }
    }
    if (plan[i] != 0) budget -= FilterBytes(need.keys, plan[i]);
  }
  return plan;
}

CacheShare::~CacheShare() {
  if (all_needs_ != nullptr) all_needs_->fetch_sub(need_, std::memory_order_relaxed);
}

uint64_t CacheShare::Ask(const std::shared_ptr<rocksdb::Cache>& cache, uint64_t need, double share) {
  if (cache == nullptr) return 0;
  if (all_needs_ == nullptr) all_needs_ = NeedsOf(cache.get());
  const uint64_t all = all_needs_->fetch_add(need - need_, std::memory_order_relaxed) + need - need_;
  need_ = need;
  all_when_asked_ = all;
  const double capacity = share * static_cast<double>(cache->GetCapacity());
  return static_cast<uint64_t>(need == 0 ? capacity : capacity * static_cast<double>(need) / static_cast<double>(all));
}

bool CacheShare::IsTooMuch() const {
  return all_needs_ != nullptr && need_ != 0 &&
         all_needs_->load(std::memory_order_relaxed) > all_when_asked_ + all_when_asked_ / 8;
}

bool CacheShare::HasGrown() {
  if (need_ <= need_when_grown_ + need_when_grown_ / 8) return false;
  need_when_grown_ = need_;
  return true;
}

}  // namespace cairn
