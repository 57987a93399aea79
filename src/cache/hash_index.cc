#include "src/cache/hash_index.h"

#include <algorithm>

namespace cairn::cache {

HashIndex::HashIndex(uint64_t buckets, uint64_t max_buckets)
    : range_(max_buckets * sizeof(Bucket), MappedRange::Pages::kHuge), max_buckets_(max_buckets), buckets_(buckets) {}

bool HashIndex::PutInFree(Bucket* b, uint64_t entry) {
  for (auto& place : b->entries) {
    if (place.load(std::memory_order_relaxed) != 0) continue;
    BeginChange(b);
    place.store(entry, std::memory_order_relaxed);
    EndChange(b);
    ++entries_;
    return true;
  }
  return false;
}

HashIndex::Slot HashIndex::Least(uint64_t hash) const {
  const uint64_t n = buckets();
  Slot least;
  uint64_t least_worth = ~uint64_t{0};
  for (Bucket* b : {First(hash, n), Second(hash, n)}) {
    for (int i = 0; i < Bucket::kEntries; ++i) {
      const uint64_t entry = b->entries[i].load(std::memory_order_relaxed);
      const uint64_t worth = Entry::References(entry) << 1 | ((entry & Entry::kMain) != 0 ? 1 : 0);
      if (worth >= least_worth) continue;
      least = {b, i};
      least_worth = worth;
    }
  }
  return least;
}

void HashIndex::ReleaseUnused() {
  const size_t used = static_cast<size_t>(buckets()) * sizeof(Bucket);
  range_.Release(used, range_.size() - used);
}

}  // namespace cairn::cache
