// Counts what seeks of ordered tables came to (OrderedSeekStats).
//
// Thread-safety: any number of threads may add and sum up.

#pragma once

#include <atomic>

#include "cairn/ordered.h"
#include "util/core_local.h"

namespace cairn {

class OrderedSeeks {
 public:
  void Add(const OrderedSeekStats& stats) {
    Counts* const counts = counts_.Access();
    // Sums only, in no order with anything else.
    counts->deferred.fetch_add(stats.deferred, std::memory_order_relaxed);
    counts->resolved.fetch_add(stats.resolved, std::memory_order_relaxed);
    counts->resolved_in_vain.fetch_add(stats.resolved_in_vain, std::memory_order_relaxed);
    counts->past_end.fetch_add(stats.past_end, std::memory_order_relaxed);
    counts->past_bound.fetch_add(stats.past_bound, std::memory_order_relaxed);
    counts->direct.fetch_add(stats.direct, std::memory_order_relaxed);
    counts->direct_in_vain.fetch_add(stats.direct_in_vain, std::memory_order_relaxed);
    counts->unfiltered.fetch_add(stats.unfiltered, std::memory_order_relaxed);
  }

  OrderedSeekStats Sum() const {
    OrderedSeekStats sum;
    for (size_t core = 0; core < counts_.Size(); ++core) {
      const Counts& counts = *counts_.AccessAtCore(core);
      sum.deferred += counts.deferred.load(std::memory_order_relaxed);
      sum.resolved += counts.resolved.load(std::memory_order_relaxed);
      sum.resolved_in_vain += counts.resolved_in_vain.load(std::memory_order_relaxed);
      sum.past_end += counts.past_end.load(std::memory_order_relaxed);
      sum.past_bound += counts.past_bound.load(std::memory_order_relaxed);
      sum.direct += counts.direct.load(std::memory_order_relaxed);
      sum.direct_in_vain += counts.direct_in_vain.load(std::memory_order_relaxed);
      sum.unfiltered += counts.unfiltered.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct Counts {
    std::atomic<uint64_t> deferred{0};
    std::atomic<uint64_t> resolved{0};
    std::atomic<uint64_t> resolved_in_vain{0};
    std::atomic<uint64_t> past_end{0};
    std::atomic<uint64_t> past_bound{0};
    std::atomic<uint64_t> direct{0};
    std::atomic<uint64_t> direct_in_vain{0};
    std::atomic<uint64_t> unfiltered{0};
  };
  rocksdb::CoreLocalArray<Counts> counts_;
};

}  // namespace cairn
