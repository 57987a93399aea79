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
    const auto add = [](std::atomic<uint64_t>* to, uint64_t n) {
      if (n != 0) to->fetch_add(n, std::memory_order_relaxed);
    };
    add(&counts->deferred, stats.deferred);
    add(&counts->resolved, stats.resolved);
    add(&counts->resolved_unused, stats.resolved_unused);
    add(&counts->past_end, stats.past_end);
    add(&counts->past_bound, stats.past_bound);
    add(&counts->direct, stats.direct);
    add(&counts->direct_unused, stats.direct_unused);
    add(&counts->unfiltered, stats.unfiltered);
  }

  OrderedSeekStats Sum() const {
    OrderedSeekStats sum;
    for (size_t core = 0; core < counts_.Size(); ++core) {
      const Counts& counts = *counts_.AccessAtCore(core);
      sum.deferred += counts.deferred.load(std::memory_order_relaxed);
      sum.resolved += counts.resolved.load(std::memory_order_relaxed);
      sum.resolved_unused += counts.resolved_unused.load(std::memory_order_relaxed);
      sum.past_end += counts.past_end.load(std::memory_order_relaxed);
      sum.past_bound += counts.past_bound.load(std::memory_order_relaxed);
      sum.direct += counts.direct.load(std::memory_order_relaxed);
      sum.direct_unused += counts.direct_unused.load(std::memory_order_relaxed);
      sum.unfiltered += counts.unfiltered.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  struct Counts {
    std::atomic<uint64_t> deferred{0};
    std::atomic<uint64_t> resolved{0};
    std::atomic<uint64_t> resolved_unused{0};
    std::atomic<uint64_t> past_end{0};
    std::atomic<uint64_t> past_bound{0};
    std::atomic<uint64_t> direct{0};
    std::atomic<uint64_t> direct_unused{0};
    std::atomic<uint64_t> unfiltered{0};
  };
  rocksdb::CoreLocalArray<Counts> counts_;
};

}  // namespace cairn
