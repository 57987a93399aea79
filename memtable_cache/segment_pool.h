// The pool: memory in segments, shared by the memtables and column families of a database. Any multiple of 4 KiB can be
// claimed; blocks are halved to serve a smaller claim, and halves that are both free become one again.
//
// Invariants
//   (1) Every byte of a region is in one free block or one claimed segment.
//   (2) At most MostFree() of wholly free regions stay mapped: `keep_bytes`, or a sixteenth of the limit of a
//       WriteBufferManager divided among the pools that it counts, if that is less, but what a durable pool needs to
//       have.
//   (3) Of what all pools keep free a WriteBufferManager counts a sixteenth of its limit at most: no flush frees it,
//       and those who wait for the manager would wait for ever.
//
// Thread-safety: all functions may be called by all threads; the mutex is taken once a segment, not once an entry.
//
// Source: CacheKV (ICDE 2023), section III-A; the blocks are a buddy system (Knowlton, CACM 1965).

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memtable_cache/backing.h"
#include "rocksdb/status.h"
#include "rocksdb/write_buffer_manager.h"
#include "util/mutex.h"

namespace cairn {

class SegmentPool {
 public:
  static constexpr size_t kGrain = 4096;

  // Bytes that the pool holds now, and what happened so far.
  struct Stats {
    size_t claimed_bytes = 0;  // in segments of memtables
    size_t free_bytes = 0;     // mapped, ready to be claimed
    size_t copied_bytes = 0;   // in segments of memtables, sealed by copy
    uint64_t claims = 0;
    uint64_t misses = 0;            // a writer found the segment of its core taken
    uint64_t copies = 0;            // segments sealed by copy
    uint64_t written_bytes = 0;     // to the backing's store, by those
    size_t sorting_bytes = 0;       // that sorting memtables takes now, besides what they report
    size_t most_sorting_bytes = 0;  // so far
  };

  SegmentPool(std::unique_ptr<Backing> backing, size_t keep_bytes);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  const SegmentLayout& layout() const { return backing_->layout(); }
  Backing* backing() const { return backing_.get(); }
  uint64_t NextMemTable() { return memtables_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // A segment of `wanted` bytes; of fewer, at least `at_least`, if there is little left. Addresses are aligned to 4
  // KiB. MemoryLimit when there is no memory.
  rocksdb::Status Claim(size_t at_least, size_t wanted, const SegmentOwner& owner, char** base, size_t* bytes);

  // The segment is full. Whether the backing has copied it to its store.
  bool Seal(char* base, size_t used, size_t bytes);

  // Nobody reads the segment any more.
  void Release(char* base, size_t bytes, bool copied);

  // A memtable that counts with this manager (null: with none) uses the pool: while there is one, the manager counts
  // what the pool keeps free, too (3).
  void Attach(rocksdb::WriteBufferManager* manager);
  void Detach(rocksdb::WriteBufferManager* manager);

  void CountSorting(int64_t bytes);

  // A writer could not use the segment of its core because another thread was in it.
  void CountMiss() { misses_.fetch_add(1, std::memory_order_relaxed); }

  Stats GetStats() const;

 private:
  static constexpr int kOrders = 10;  // 4 KiB to 2 MiB
  static size_t OrderBytes(int order) { return kGrain << order; }
  static int OrderOf(size_t bytes);

  struct FreeBlock {
    int order;
    std::list<char*>::iterator place;
  };

  mutable CheckedMutex mutex_;

  rocksdb::Status MapRegion() CAIRN_REQUIRES(mutex_);
  char* TakeBlock(int order) CAIRN_REQUIRES(mutex_);
  void PutBlock(char* block, int order) CAIRN_REQUIRES(mutex_);
  void CutBehind(char* block, size_t keep, size_t bytes) CAIRN_REQUIRES(mutex_);
  void FreeRange(char* base, size_t bytes) CAIRN_REQUIRES(mutex_);
  void FreeBlockAndJoin(char* block, int order) CAIRN_REQUIRES(mutex_);
  void TrimFreeRegions() CAIRN_REQUIRES(mutex_);
  rocksdb::Status TakeOrMapBlock(size_t at_least, size_t* size, char** block, int* order) CAIRN_REQUIRES(mutex_);
  void KeepSpare() CAIRN_REQUIRES(mutex_);
  void ChargeTo(rocksdb::WriteBufferManager* manager) CAIRN_REQUIRES(mutex_);
  void ChargeFree() CAIRN_REQUIRES(mutex_);
  size_t MostFree() const CAIRN_REQUIRES(mutex_);

  const std::unique_ptr<Backing> backing_;
  const size_t keep_bytes_;
  std::atomic<uint64_t> memtables_{0};
  std::atomic<uint64_t> misses_{0};

  std::array<std::list<char*>, kOrders> free_
      CAIRN_GUARDED_BY(mutex_);  // most recently freed first: its lines are warm
  std::unordered_map<char*, FreeBlock> free_blocks_ CAIRN_GUARDED_BY(mutex_);
  bool full_ CAIRN_GUARDED_BY(mutex_) = false;  // the backing refused to keep kSpareBytes free
  Stats stats_ CAIRN_GUARDED_BY(mutex_);
  std::map<rocksdb::WriteBufferManager*, size_t> managers_
      CAIRN_GUARDED_BY(mutex_);                                              // and how many memtables count with each
  rocksdb::WriteBufferManager* charged_ CAIRN_GUARDED_BY(mutex_) = nullptr;  // one of them
  size_t charged_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
