// Counts what a database's cache is asked, and times samples of it (CacheBenefit): reads that ask the cache, reads that
// ask the tree only, and the bars of writes.
//
// Each thread counts in a cell of its own. To know what the cache saves, a thread asks the tree only for a run of its
// reads, of each so many, and one in so many of the run's second half is timed. During the first half the processor's
// caches lack what the tree needs for popular keys. How long and how often is a gauge, which the judge chooses
// (CacheJudge::Gauge).
//
// Thread-safety: safe; `place` is always the calling thread's cache::ThreadCell().

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "result_cache/cache_benefit.h"
#include "result_cache/cache_judge.h"
#include "result_cache/per_thread.h"
#include "rocksdb/status.h"

namespace cairn {

class CacheTimes {
 public:
  // Returns how many reads the thread had counted before: the number of the first of these.
  uint64_t CountReads(size_t place, uint64_t count) { return cache::AddInCell(place, &cells_[place].reads, count); }
  CacheBenefit::Counts Counts() const;
  bool AnyWrites() const;
  CacheBenefit* benefit() { return &benefit_; }

  // Whether a window is over: enough was sampled to go by.
  bool Knows() const {
    return benefit_.Knows(kGauges[static_cast<int>(gauge_.load(std::memory_order_relaxed))].enough);
  }
  void SetGauge(CacheJudge::Gauge gauge) { gauge_.store(gauge, std::memory_order_relaxed); }

  // Whether one of `count` reads from that number on may be timed, compared or left to the tree: then it has a Watch.
  bool IsWatched(size_t place, uint64_t number, uint64_t count) const {
    return (number & kTimedMask) < count || number < cells_[place].run_end.load(std::memory_order_relaxed);
  }

  // Of reads that begin now; they are timed, if they are, until End.
  class Watch {
   public:
    // Of reads whose keys the cache may hold.
    Watch(CacheTimes* times, size_t place, uint64_t number, uint64_t count);

    // They ask the tree only.
    bool by_tree() const { return by_tree_; }
    // They ask cache and tree, and compare.
    bool compares() const { return compares_; }
    // `s`: of the first read.
    void End(const rocksdb::Status& s);

   private:
    CacheTimes* const times_;
    const uint64_t count_;
    const bool compares_ = false;
    bool by_tree_ = false;
    uint64_t begin_ = 0;  // 0: they are not timed
  };

  // Of a write, while it bars its keys.
  class Barring {
   public:
    explicit Barring(CacheTimes* times);
    void End(uint64_t keys);

   private:
    CacheTimes* const times_;
    const size_t place_;
    const uint64_t begin_;  // 0: it is not timed
  };

 private:
  // A run of a thread's reads that ask the tree only ends before read `run_end`; the next one begins at `next_run`.
  struct alignas(64) Cell {
    std::atomic<uint64_t> reads{0};
    std::atomic<uint64_t> barred{0};
    std::atomic<uint64_t> writes{0};
    std::atomic<uint64_t> run_end{0};
    std::atomic<uint64_t> next_run{kGauges[0].period - kGauges[0].run};
    std::atomic<CacheJudge::Gauge> gauge{CacheJudge::Gauge::kFirst};
  };
  struct Gauge {
    uint64_t period;
    uint64_t run;
    uint64_t timed_mask;
    uint64_t enough;  // samples of reads by the cache and of reads by the tree
  };
  static constexpr Gauge kGauges[] = {  // in the order of CacheJudge::Gauge
      {uint64_t{1} << 12, uint64_t{1} << 9, 1, 96},
      {uint64_t{1} << 14, uint64_t{1} << 11, 1, 384},
      {uint64_t{1} << 20, uint64_t{1} << 12, 3, 384}};

  // One read in so many asks cache and tree, and compares.
  static constexpr uint64_t kComparedMask = 1023;
  // One in so many of the reads that ask the cache is timed.
  static constexpr uint64_t kTimedMask = 31;
  static constexpr uint64_t kTimedWrites = 256;

  static uint64_t Nanoseconds();
  const Gauge& BeginRun(Cell* cell, uint64_t number) const;

  Cell cells_[cache::kThreadCells];
  CacheBenefit benefit_;
  std::atomic<CacheJudge::Gauge> gauge_{CacheJudge::Gauge::kFirst};
};

}  // namespace cairn
