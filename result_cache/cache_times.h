// Counts what a database's cache is asked, and times samples of it (CacheBenefit): reads that ask the cache, reads that
// ask the tree only, and the bars of writes.
//
// Each thread counts in a cell of its own. To know what the cache saves, a thread asks the tree only for a run of its
// reads, of each so many, and one in so many of the run's second half is timed. During the first half the processor's
// caches lack what the tree needs for popular keys; if the gain is small, that matters, and only a long run tells what
// a tree without a cache takes. How long and how often is a gauge, which the judge chooses (CacheJudge::Gauge).
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

// Whose reads ask the cache.
enum class Asked : uint32_t { kForNone, kForSample, kForAll };

class CacheTimes {
 public:
  // Returns how many reads the thread had counted before: the number of the first of these.
  uint64_t CountReads(size_t place, uint64_t count) { return cache::AddInCell(place, &cells_[place].reads, count); }
  CacheBenefit::Counts Counts() const;
  bool AnyWrites() const;
  CacheBenefit* benefit() { return &benefit_; }

  // `number`: how often a gauge has been set; a long run begins when it has changed.
  void SetGauge(CacheJudge::Gauge gauge, uint32_t number) {
    gauge_.store(number * kGaugeNames + static_cast<uint32_t>(gauge), std::memory_order_relaxed);
  }

  // Whether one of `count` reads from that number on may be timed, compared or left to the tree: then it has a Watch.
  bool IsWatched(size_t place, Asked asked, uint64_t number, uint64_t count) const {
    return (number & TimedMask(asked)) < count || number < cells_[place].run_end.load(std::memory_order_relaxed);
  }

  // Of reads that begin now; they are timed, if they are, until End.
  class Watch {
   public:
    // Of reads whose keys the cache may hold.
    Watch(CacheTimes* times, size_t place, Asked asked, uint64_t number, uint64_t count);
    // During a trial, of reads of keys that are not in the sample: what a tree without a cache takes.
    Watch(CacheTimes* times, bool timed, uint64_t count)
        : times_(times), count_(count), by_tree_(true), begin_(timed ? Nanoseconds() : 0) {}

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
  // Whether reads beside the sample are timed; `passed`: how many the thread has counted of late, these included.
  static bool IsTimedBeside(uint64_t passed, uint64_t count) { return passed % kTimedBeside < count; }

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
  // A run of a thread's reads that ask the tree only ends before read `run_end`; the next one begins at `next_run`, or
  // at once if another gauge holds.
  struct alignas(64) Cell {
    std::atomic<uint64_t> reads{0};
    std::atomic<uint64_t> barred{0};
    std::atomic<uint64_t> writes{0};
    std::atomic<uint64_t> run_end{0};
    std::atomic<uint64_t> next_run{0};
    std::atomic<uint32_t> gauge{0};
  };
  struct Gauge {
    uint64_t period;
    uint64_t run;
    uint64_t timed_mask;
  };
  static constexpr uint32_t kGaugeNames = 4;
  static constexpr Gauge kGauges[] = {  // in the order of CacheJudge::Gauge
      {uint64_t{1} << 14, uint64_t{1} << 11, 1},
      {uint64_t{1} << 20, uint64_t{1} << 12, 3},
      {uint64_t{1} << 18, uint64_t{1} << 14, 15}};

  // One read in so many asks cache and tree, and compares.
  static constexpr uint64_t kComparedMask = 1023;
  // One in so many of the reads is timed: of those that ask the cache, and during a trial of the sample's and of the
  // others'.
  static constexpr uint64_t kTimedMask = 31;
  static constexpr uint64_t kTimedInTrialMask = 3;
  static constexpr uint64_t kTimedBeside = 32;
  static constexpr uint64_t kTimedWrites = 256;

  static constexpr uint64_t TimedMask(Asked asked) { return asked == Asked::kForAll ? kTimedMask : kTimedInTrialMask; }
  static uint64_t Nanoseconds();
  const Gauge& BeginRun(Cell* cell, uint64_t number) const;

  Cell cells_[cache::kThreadCells];
  CacheBenefit benefit_;
  std::atomic<uint32_t> gauge_{0};  // and how often it was set times kGaugeNames
};

}  // namespace cairn
