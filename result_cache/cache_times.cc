#include "result_cache/cache_times.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace cairn {

uint64_t CacheTimes::Nanoseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

CacheBenefit::Counts CacheTimes::Counts() const {
  CacheBenefit::Counts sum;
  for (const Cell& cell : cells_) {
    sum.reads += cell.reads.load(std::memory_order_relaxed);
    sum.barred_keys += cell.barred.load(std::memory_order_relaxed);
  }
  return sum;
}

bool CacheTimes::AnyWrites() const {
  return std::any_of(std::begin(cells_), std::end(cells_),
                     [](const Cell& cell) { return cell.writes.load(std::memory_order_relaxed) > 0; });
}

const CacheTimes::Gauge& CacheTimes::BeginRun(Cell* cell, uint64_t number) const {
  const CacheJudge::Gauge name = gauge_.load(std::memory_order_relaxed);
  const Gauge& gauge = kGauges[static_cast<int>(name)];
  if (cell->gauge.load(std::memory_order_relaxed) != name) {
    cell->gauge.store(name, std::memory_order_relaxed);
    cell->run_end.store(0, std::memory_order_relaxed);
    cell->next_run.store(number + gauge.period - gauge.run, std::memory_order_relaxed);
  }
  if (number >= cell->next_run.load(std::memory_order_relaxed)) {
    cell->run_end.store(number + gauge.run, std::memory_order_relaxed);
    cell->next_run.store(number + gauge.period, std::memory_order_relaxed);
  }
  return gauge;
}

CacheTimes::Watch::Watch(CacheTimes* times, size_t place, uint64_t number, uint64_t count)
    : times_(times), count_(count), compares_((number & kComparedMask) < count) {
  Cell* const cell = &times->cells_[place];
  const Gauge& gauge = times->BeginRun(cell, number);
  const uint64_t end = cell->run_end.load(std::memory_order_relaxed);
  by_tree_ = number < end;
  // Reads that are compared ask both, and are no measure.
  const bool timed = by_tree_ ? end - number <= gauge.run / 2 && (number & gauge.timed_mask) < count
                              : !compares_ && (number & kTimedMask) < count;
  begin_ = timed ? Nanoseconds() : 0;
}

void CacheTimes::Watch::End(const rocksdb::Status& s) {
  if (begin_ == 0) return;
  times_->benefit_.AddRead(by_tree_ ? CacheBenefit::kByTree : CacheBenefit::kByCache,
                           s.IsNotFound() ? CacheBenefit::kAbsent : CacheBenefit::kValue,
                           (Nanoseconds() - begin_) / count_);
}

CacheTimes::Barring::Barring(CacheTimes* times)
    : times_(times),
      place_(cache::ThreadCell()),
      begin_(cache::AddInCell(place_, &times->cells_[place_].writes, 1) % kTimedWrites == 0 ? Nanoseconds() : 0) {}

void CacheTimes::Barring::End(uint64_t keys) {
  cache::AddInCell(place_, &times_->cells_[place_].barred, keys);
  if (begin_ != 0 && keys > 0) times_->benefit_.AddWrite(keys, Nanoseconds() - begin_);
}

}  // namespace cairn
