// Which depths of a trie have their filters in memory, when that does not hold all of them.
//
// Every lookup asks the shallow depths, which hold few of the keys: an eighth to a fifteenth. So they come first, and
// only the deepest is asked by pages, one page for all slots of a container. Source: LSM-trie (USENIX ATC 2015; section
// 4.2.4.3 of Wu's dissertation).
//
// Thread-safety: PlanFilterMemory has no state. A CacheShare serves one thread at a time; any number share a cache.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "rocksdb/cache.h"

namespace cairn {

struct FilterNeed {
  uint64_t keys = 0;
  double bits = 0;  // per key, as in files
};

// Bytes of memory that so many keys take.
uint64_t FilterBytes(uint64_t keys, double bits);

// The bits per key in memory for each depth, shallowest first; 0: its filters are asked by pages. One depth, the first
// that does not fit as it is, may get fewer bits.
std::vector<uint8_t> PlanFilterMemory(const std::vector<FilterNeed>& depths, uint64_t budget);

// The part of a cache that is for filters, divided among all who ask by what they need.
class CacheShare {
 public:
  CacheShare() = default;
  ~CacheShare();
  CacheShare(const CacheShare&) = delete;
  CacheShare& operator=(const CacheShare&) = delete;

  // Says that filters of `need` bytes are there, and returns how many of them may be in memory: their part of `share`
  // of the cache. 0 without a cache.
  uint64_t Ask(const std::shared_ptr<rocksdb::Cache>& cache, uint64_t need, double share);
  // Whether others need so much more since then that this one has an eighth too much.
  bool IsTooMuch() const;
  // Whether this one needs an eighth more than when it was last true: the others may have too much then.
  bool HasGrown();

 private:
  std::shared_ptr<std::atomic<uint64_t>> all_needs_;  // of those who share the cache
  uint64_t need_ = 0;                                 // this one's part of it
  uint64_t all_when_asked_ = 0;
  uint64_t need_when_grown_ = 0;
};

}  // namespace cairn
