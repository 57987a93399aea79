// Numbers of threads, and cells of counters in different cache lines: one for each of the first threads, and some that
// the others share.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cairn::cache {

// One for each thread, from 0 on, in the order in which they ask first.
inline size_t ThreadNumber() {
  static std::atomic<size_t> next{1};
  thread_local size_t number = 0;  // a constant, so that nothing is to be looked at before it is read
  if (number == 0) number = next.fetch_add(1, std::memory_order_relaxed);
  return number - 1;
}

constexpr size_t kOwnCells = 64;
constexpr size_t kSharedCells = 16;
constexpr size_t kThreadCells = kOwnCells + kSharedCells;

// The calling thread's, below kThreadCells.
inline size_t ThreadCell() {
  const size_t number = ThreadNumber();
  return number < kOwnCells ? number : kOwnCells + number % kSharedCells;
}

// Adds to a counter in the calling thread's cell, and returns what it was. Nobody else writes to a thread's own.
inline uint64_t AddInCell(size_t cell, std::atomic<uint64_t>* counter, uint64_t n) {
  if (cell >= kOwnCells) return counter->fetch_add(n, std::memory_order_relaxed);
  const uint64_t before = counter->load(std::memory_order_relaxed);
  counter->store(before + n, std::memory_order_relaxed);
  return before;
}

}  // namespace cairn::cache
