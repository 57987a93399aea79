// Numbers of threads, by which counters lie in different cache lines as long as threads are few.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstddef>

namespace cairn::cache {

// One for each thread, from 0 on, in the order in which they ask first.
inline size_t ThreadNumber() {
  static std::atomic<size_t> next{0};
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace cairn::cache
