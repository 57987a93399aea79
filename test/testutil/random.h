// Random numbers of a test, the same for the same seed.

#pragma once

#include <cstdint>
#include <random>

namespace cairn::test {

class Random {
 public:
  explicit Random(uint64_t seed) : generator_(seed) {}
  // In [0, n); n is not 0.
  uint64_t Uniform(uint64_t n) { return generator_() % n; }
  bool OneIn(uint64_t n) { return Uniform(n) == 0; }
  uint64_t Next() { return generator_(); }

 private:
  std::mt19937_64 generator_;
};

}  // namespace cairn::test
