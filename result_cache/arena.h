// Arena hands out chunks of one size from one range of addresses, and counts every byte of a cache against its
// capacity.
//
// Invariants
//   (1) The range stays mapped and readable until the arena dies, also where chunks were given back: an optimistic
//       reader may look at a chunk that was reused or released meanwhile; it sees other bytes or zeros, never a fault.
//   (2) charged() <= capacity(), except while SetCapacity is shrinking the cache.
//   (3) Chunk 0 is never handed out, so that no item has offset 0.
//
// With huge pages, the one that the newest chunk has begun is charged as a whole, and the chunks that follow in it cost
// nothing more.
//
// The chunks may lie in a file. It keeps what it has come to have: chunks that are given back are no longer charged,
// and stay allocated.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>
#include "util/mutex.h"

namespace cairn::cache {

class CacheFile;

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

inline size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// A range of zeroed memory that takes address space at once and pages when they are touched. Empty: the system refused.
class MappedRange {
 public:
  enum class Pages { kSmall, kHuge };

  MappedRange() = default;
  MappedRange(size_t bytes, Pages pages);
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  char* data() const { return data_; }
  size_t size() const { return size_; }
  // The pages that lie whole in [begin, begin + bytes) read as zeros again and take no memory.
  void Release(size_t begin, size_t bytes);

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  char* mapped_ = nullptr;
  size_t mapped_size_ = 0;
};

class Arena {
 public:
  // `max_bytes`: address space, all that the arena can ever hand out.
  // `changed` is told of every byte charged and given back; may be empty.
  // `file`: where the chunks lie, or null.
  Arena(size_t capacity, size_t max_bytes, size_t chunk_bytes, MappedRange::Pages pages,
        std::function<void(int64_t)> changed, CacheFile* file = nullptr);

  bool ok() const { return base_ != nullptr; }
  size_t chunk_bytes() const { return chunk_bytes_; }
  char* base() const { return base_; }

  size_t capacity() const { return capacity_.load(std::memory_order_relaxed); }
  size_t max_bytes() const { return max_bytes_; }
  size_t charged() const { return charged_.load(std::memory_order_relaxed); }
  void set_capacity(size_t bytes) { capacity_.store(bytes, std::memory_order_relaxed); }

  // False, and nothing charged, if that would exceed the capacity.
  bool TryCharge(size_t bytes);
  // Whatever the capacity is.
  void Charge(size_t bytes);
  void Uncharge(size_t bytes);

  // Charges a chunk and returns its number; 0 if the capacity has no room for it.
  uint32_t TakeChunk();
  void ReturnChunk(uint32_t chunk);
  // What is charged of a huge page beyond its chunks goes back.
  void ReturnRest();

  // Of a file that is recovered, before anything else: these chunks are as if they had been handed out.
  void AdoptChunks(const std::vector<bool>& adopted);

 private:
  // Charges the next chunk that was never handed out; false: the capacity has no room for it.
  bool TryChargeNext() CAIRN_REQUIRES(mutex_);

  const size_t chunk_bytes_;
  const size_t max_bytes_;
  const bool huge_pages_;
  const std::function<void(int64_t)> changed_;
  CacheFile* const file_;
  MappedRange range_;  // without a file
  char* const base_;
  const size_t chunks_;
  std::atomic<size_t> capacity_;
  std::atomic<size_t> charged_{0};

  CheckedMutex mutex_;
  uint32_t next_ CAIRN_GUARDED_BY(mutex_) = 1;  // chunks from here on were never handed out
  size_t rest_ CAIRN_GUARDED_BY(mutex_) = 0;    // charged for them
  std::vector<uint32_t> free_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::cache
