#include "result_cache/hash_index.h"

namespace cairn::cache {

BucketRange::BucketRange(uint64_t max_buckets, size_t partitions, MappedRange::Pages pages)
    : partition_bits_(__builtin_ctzll(partitions)),
      range_(RoundUp(max_buckets, kPageBuckets) * partitions * sizeof(Bucket), pages) {}

void BucketRange::Release(size_t partition, uint64_t from, uint64_t to) {
  const uint64_t end = RoundUp(to, std::max(kPageBuckets, kHugePage / sizeof(Bucket) >> partition_bits_));
  for (uint64_t bucket = RoundUp(from, kPageBuckets); bucket < end; bucket += kPageBuckets) {
    const size_t begin = (partition * kPageBuckets + Offset(bucket)) * sizeof(Bucket);
    if (begin < range_.size()) range_.Release(begin, kPageBuckets * sizeof(Bucket));
  }
}

HashIndex::HashIndex(BucketRange* range, size_t partition, uint64_t buckets, uint64_t max_buckets)
    : range_(range),
      partition_(partition),
      first_(range->First(partition)),
      partition_bits_(range->partition_bits()),
      max_buckets_(max_buckets),
      buckets_(buckets),
      most_buckets_(buckets) {}

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
  range_->Release(partition_, buckets(), most_buckets_);
  most_buckets_ = buckets();
}

}  // namespace cairn::cache
