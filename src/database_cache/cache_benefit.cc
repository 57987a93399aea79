#include "src/database_cache/cache_benefit.h"

#include <algorithm>

namespace cairn {

namespace {

// A sample that took longer was interrupted.
constexpr uint64_t kMostNanoseconds = 2000000;
// With fewer samples of hits than this, what the tree takes for others must do.
constexpr uint64_t kEnough = 16;
// Before anything was sampled.
constexpr double kGuess = 100;

}  // namespace

void CacheBenefit::Mean::Add(uint64_t nanoseconds, uint64_t samples) {
  n.fetch_add(samples, std::memory_order_relaxed);
  sum.fetch_add(std::min(nanoseconds, kMostNanoseconds * samples), std::memory_order_relaxed);
}

double CacheBenefit::Mean::Get(double otherwise) const {
  const auto samples = static_cast<double>(n.load(std::memory_order_relaxed));
  return samples == 0 ? otherwise : static_cast<double>(sum.load(std::memory_order_relaxed)) / samples;
}

void CacheBenefit::Mean::Scale(uint64_t divisor) {
  // Samples that come between load and store are lost.
  n.store(n.load(std::memory_order_relaxed) / divisor, std::memory_order_relaxed);
  sum.store(sum.load(std::memory_order_relaxed) / divisor, std::memory_order_relaxed);
}

void CacheBenefit::AddHit(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds) {
  probe_.Add(probe_nanoseconds);
  tree_of_hit_.Add(tree_nanoseconds);
}

void CacheBenefit::AddMiss(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds, uint64_t fill_nanoseconds) {
  probe_.Add(probe_nanoseconds);
  tree_of_miss_.Add(tree_nanoseconds);
  fill_.Add(fill_nanoseconds);
}

void CacheBenefit::AddWrite(uint64_t keys, uint64_t nanoseconds) { bar_.Add(nanoseconds, keys); }

bool CacheBenefit::Knows() const {
  return tree_of_hit_.n.load(std::memory_order_relaxed) + tree_of_miss_.n.load(std::memory_order_relaxed) >= kEnough;
}

double CacheBenefit::SavedPerRead(const Counts& window) const {
  if (window.reads == 0) return 0;
  const bool enough = tree_of_hit_.n.load(std::memory_order_relaxed) >= kEnough;
  const double tree = enough ? tree_of_hit_.Get(kGuess) : tree_of_miss_.Get(kGuess);
  const double saved = static_cast<double>(window.hits) * tree;
  const double cost = static_cast<double>(window.reads) * probe_.Get(kGuess) +
                      static_cast<double>(window.fills) * fill_.Get(kGuess) +
                      static_cast<double>(window.barred_keys) * bar_.Get(kGuess);
  return (saved - cost) / static_cast<double>(window.reads);
}

void CacheBenefit::Age() {
  for (Mean* mean : {&probe_, &tree_of_hit_, &tree_of_miss_, &fill_, &bar_}) mean->Scale(2);
}

void CacheBenefit::Forget() {
  for (Mean* mean : {&probe_, &tree_of_hit_, &tree_of_miss_, &fill_, &bar_}) mean->Scale(UINT64_MAX);
}

}  // namespace cairn
