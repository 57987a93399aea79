#include "result_cache/cache_benefit.h"

#include <algorithm>

namespace cairn {

namespace {

// Fewer of a kind are not looked at apart.
constexpr uint64_t kEnoughOfKind = 48;
// Before anything was sampled.
constexpr double kGuess = 100;
constexpr double kMostMedians = 16;

}  // namespace

int CacheBenefit::Samples::ClassOf(uint64_t nanoseconds) {
  if (nanoseconds < kParts) return static_cast<int>(nanoseconds);
  const int power = 63 - __builtin_clzll(nanoseconds);
  const int number = kParts * power + static_cast<int>(nanoseconds >> (power - kPartBits) & (kParts - 1));
  return std::min(number, kClasses - 1);
}

double CacheBenefit::Samples::MiddleOf(int number) {
  if (number < kParts) return number;
  const auto power = static_cast<double>(uint64_t{1} << (number / kParts));
  return power * (1 + (number % kParts + 0.5) / kParts);
}

void CacheBenefit::Samples::Add(uint64_t nanoseconds) {
  counts_[ClassOf(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
  samples_.fetch_add(1, std::memory_order_relaxed);
}

double CacheBenefit::Samples::Median(double otherwise) const {
  uint64_t all = 0;
  for (const auto& count : counts_) all += count.load(std::memory_order_relaxed);
  const uint64_t half = (all + 1) / 2;
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

void CacheBenefit::Samples::AddAll(const Samples& other) {
  for (int i = 0; i < kClasses; ++i) {
    counts_[i].fetch_add(other.counts_[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  samples_.fetch_add(other.Count(), std::memory_order_relaxed);
}

void CacheBenefit::Samples::Forget() {
  samples_.store(0, std::memory_order_relaxed);
  for (auto& count : counts_) count.store(0, std::memory_order_relaxed);
}

void CacheBenefit::AddWrite(uint64_t keys, uint64_t nanoseconds) { bar_.Add(nanoseconds / keys); }

double CacheBenefit::Saved(const Samples& by_cache, const Samples& by_tree) {
  const double most = kMostMedians * by_tree.Median(kGuess);
  return by_tree.Mean(most) - by_cache.Mean(most);
}

double CacheBenefit::SavedPerRead(const Counts& window) const {
  if (window.reads == 0 || !Knows(1)) return 0;
  Samples all[2];
  double by_kind = 0;
  bool apart = true;
  for (const Found found : {kValue, kAbsent}) {
    const Samples& by_cache = reads_[kByCache][found];
    const Samples& by_tree = reads_[kByTree][found];
    all[kByCache].AddAll(by_cache);
    all[kByTree].AddAll(by_tree);
    apart = apart && by_cache.Count() >= kEnoughOfKind && by_tree.Count() >= kEnoughOfKind;
    by_kind += static_cast<double>(by_cache.Count() + by_tree.Count()) * Saved(by_cache, by_tree);
  }
  const auto samples = static_cast<double>(Count(kByCache) + Count(kByTree));
  const double saved = apart ? by_kind / samples : Saved(all[kByCache], all[kByTree]);
  const double bars = static_cast<double>(window.barred_keys) * bar_.Median(kGuess);
  return saved - bars / static_cast<double>(window.reads);
}

double CacheBenefit::TreeNanoseconds() const {
  Samples all;
  for (const Found found : {kValue, kAbsent}) all.AddAll(reads_[kByTree][found]);
  return all.Mean(kMostMedians * all.Median(kGuess));
}

void CacheBenefit::Forget() {
  for (auto& by : reads_) {
    for (Samples& samples : by) samples.Forget();
  }
  bar_.Forget();
}

}  // namespace cairn
