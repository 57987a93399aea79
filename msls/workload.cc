#include "msls/workload.h"

#include <algorithm>
#include <cmath>

namespace cairn::msls {

namespace {

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 32);
}

// (e^x - 1) / x and log(1 + x) / x, at 0 as well.
double ExpRatio(double x) { return std::fabs(x) > 1e-8 ? std::expm1(x) / x : 1 + x / 2; }
double LogRatio(double x) { return std::fabs(x) > 1e-8 ? std::log1p(x) / x : 1 - x / 2; }

// The integral of x^-s and its inverse.
double Integral(double x, double s) {
  const double log_x = std::log(x);
  return ExpRatio((1 - s) * log_x) * log_x;
}
double IntegralInverse(double y, double s) {
  const double t = std::max(-1.0, y * (1 - s));
  return std::exp(LogRatio(t) * y);
}

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t seed) : size_(size), half_bits_(1) {
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < size) half_bits_++;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  for (uint64_t i = 0; i < 4; i++) keys_[i] = Mix(seed * 4 + i + 1);
}

uint64_t Permutation::operator()(uint64_t i) const {
  do {
    uint64_t left = i >> half_bits_, right = i & half_mask_;
    for (uint64_t key : keys_) {
      const uint64_t next = left ^ (Mix(right + key) & half_mask_);
      left = right;
      right = next;
    }
    i = left << half_bits_ | right;
  } while (i >= size_);
  return i;
}

Workload::Workload(const Popularity& popularity, uint64_t seed)
    : impl_(popularity.impl()),
      keys_(static_cast<uint64_t>(impl_.keys())),
      random_(seed),
      place_(keys_, seed ^ 0x5bd1e995),
      load_order_(keys_, seed ^ 0xc2b2ae35) {
  if (impl_.kind() == Popularity::Impl::Kind::kZipf) {
    skew_ = impl_.skew();
    h_first_ = Integral(1.5, skew_) - 1;
    h_last_ = Integral(static_cast<double>(keys_) + 0.5, skew_);
    accept_ = 2 - IntegralInverse(Integral(2.5, skew_) - std::pow(2, -skew_), skew_);
  } else if (impl_.kind() == Popularity::Impl::Kind::kHistogram) {
    double weight = 0, rank = 0;
    for (const HistogramBin& bin : impl_.bins()) {
      first_rank_.push_back(static_cast<uint64_t>(rank));
      weight += bin.weight * bin.keys;
      rank += bin.keys;
      cumulative_.push_back(weight);
    }
    first_rank_.push_back(keys_);
  }
}

// Rejection-inversion (Hoermann and Derflinger, 1996).
uint64_t Workload::DrawZipfRank() {
  for (;;) {
    const double u = h_last_ + std::generate_canonical<double, 53>(random_) * (h_first_ - h_last_);
    const double x = IntegralInverse(u, skew_);
    const double rank = std::min(static_cast<double>(keys_), std::max(1.0, std::floor(x + 0.5)));
    if (rank - x <= accept_ || u >= Integral(rank + 0.5, skew_) - std::pow(rank, -skew_))
      return static_cast<uint64_t>(rank) - 1;
  }
}

uint32_t Workload::Draw() {
  uint64_t rank;
  switch (impl_.kind()) {
    case Popularity::Impl::Kind::kZipf:
      rank = DrawZipfRank();
      break;
    case Popularity::Impl::Kind::kHistogram: {
      const double u = std::generate_canonical<double, 53>(random_) * cumulative_.back();
      size_t bin = std::upper_bound(cumulative_.begin(), cumulative_.end(), u) - cumulative_.begin();
      bin = std::min(bin, cumulative_.size() - 1);
      const uint64_t first = first_rank_[bin];
      const uint64_t count = std::max<uint64_t>(1, first_rank_[bin + 1] - first);
      rank = std::min(keys_ - 1, first + random_() % count);
      break;
    }
    default:
      return static_cast<uint32_t>(random_() % keys_);
  }
  return static_cast<uint32_t>(place_(rank));
}

}  // namespace cairn::msls
