// Keys for the simulator: drawn by popularity, or every key once. Popular keys are scattered over the key space.
// Not safe for use by several threads.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "msls/popularity.h"

namespace cairn::msls {

// A bijection of [0, size): a Feistel network over the next power of four, walked until it lands inside.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed);
  uint64_t operator()(uint64_t i) const;

 private:
  uint64_t size_;
  int half_bits_;
  uint64_t half_mask_;
  uint64_t keys_[4];
};

class Workload {
 public:
  Workload(const Popularity& popularity, uint64_t seed);

  uint64_t keys() const { return keys_; }
  // A key in [0, keys()), by popularity.
  uint32_t Draw();
  // Each key once for i in [0, keys()), in an order of its own.
  uint32_t Load(uint64_t i) const { return static_cast<uint32_t>(load_order_(i)); }

 private:
  uint64_t DrawZipfRank();

  const Popularity::Impl& impl_;
  uint64_t keys_;
  std::mt19937_64 random_;
  Permutation place_;
  Permutation load_order_;
  // Zipf by rejection-inversion.
  double skew_ = 0, h_first_ = 0, h_last_ = 0, accept_ = 0;
  // Histogram: cumulative weight and first rank of each bin.
  std::vector<double> cumulative_;
  std::vector<uint64_t> first_rank_;
};

}  // namespace cairn::msls
