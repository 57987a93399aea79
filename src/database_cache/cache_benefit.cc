#include "src/database_cache/cache_benefit.h"

#include <algorithm>

namespace cairn {

namespace {

// Samples of each kind of read.
constexpr uint64_t kEnough = 128;
// Before anything was sampled.
constexpr double kGuess = 100;
constexpr double kMostMedians = 16;

}  // namespace

int CacheBenefit::Samples::ClassOf(uint64_t nanoseconds) {
  if (nanoseconds < 4) return static_cast<int>(nanoseconds);
  const int power = 63 - __builtin_clzll(nanoseconds);
  const int number = 4 * power + static_cast<int>(nanoseconds >> (power - 2) & 3);
  return std::min(number, kClasses - 1);
}

double CacheBenefit::Samples::MiddleOf(int number) {
  if (number < 8) return number;  // of classes 4 to 7 there are none
  const auto power = static_cast<double>(uint64_t{1} << (number / 4));
  return power * (1 + (number % 4 + 0.5) / 4);
}

void CacheBenefit::Samples::Add(uint64_t nanoseconds) {
  counts_[ClassOf(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
}

uint64_t CacheBenefit::Samples::Count() const {
  uint64_t sum = 0;
  for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

double CacheBenefit::Samples::Median(double otherwise) const {
  const uint64_t half = (Count() + 1) / 2;
  uint64_t sum = 0;
  for (int i = 0; i < kClasses && half > 0; ++i) {
    sum += counts_[i].load(std::memory_order_relaxed);
    if (sum >= half) return MiddleOf(i);
  }
  return otherwise;
}

double CacheBenefit::Samples::Mean(double most) const {
  double sum = 0;
  double samples = 0;
  for (int i = 0; i < kClasses; ++i) {
    const auto count = static_cast<double>(counts_[i].load(std::memory_order_relaxed));
    sum += count * std::min(most, MiddleOf(i));
    samples += count;
  }
  return samples == 0 ? 0 : sum / samples;
}

// Samples that come between load and store are lost.
void CacheBenefit::Samples::Scale(uint64_t divisor) {
  for (auto& count : counts_) {
    const uint64_t scaled = count.load(std::memory_order_relaxed) / divisor;
    count.store(static_cast<uint32_t>(scaled), std::memory_order_relaxed);
  }
}

void CacheBenefit::AddWrite(uint64_t keys, uint64_t nanoseconds) { bar_.Add(nanoseconds / keys); }

bool CacheBenefit::Knows() const { return by_cache_.Count() >= kEnough && by_tree_.Count() >= kEnough; }

double CacheBenefit::SavedPerRead(const Counts& window) const {
  if (window.reads == 0 || !Knows()) return 0;
  const double most = kMostMedians * by_tree_.Median(kGuess);
  const double bars = static_cast<double>(window.barred_keys) * bar_.Median(kGuess);
  return by_tree_.Mean(most) - by_cache_.Mean(most) - bars / static_cast<double>(window.reads);
}

void CacheBenefit::Age() {
  for (Samples* samples : {&by_cache_, &by_tree_, &bar_}) samples->Scale(2);
}

void CacheBenefit::Forget() {
  for (Samples* samples : {&by_cache_, &by_tree_, &bar_}) samples->Scale(UINT64_MAX);
}

}  // namespace cairn
