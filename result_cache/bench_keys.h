// The keys that the cache's benchmarks ask for.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "util/mix64.h"

namespace cairn {

struct BenchKey {
  char bytes[16];
  std::string_view view() const { return {bytes, sizeof(bytes)}; }
};

inline BenchKey MakeBenchKey(uint64_t number) {
  const uint64_t words[2] = {SplitMix64(number), number};
  BenchKey key;
  std::memcpy(key.bytes, words, sizeof(words));
  return key;
}

// The numbers of `count` keys of so many that one thread asks for, drawn before the clock runs. zipf 0: uniform.
inline std::vector<uint32_t> DrawBenchKeys(uint64_t seed, uint64_t keys, double zipf, size_t count) {
  std::vector<uint32_t> drawn(count);
  std::vector<double> sums;
  double sum = 0;
  for (uint64_t i = 1; zipf > 0 && i <= keys; ++i) sums.push_back(sum += std::pow(static_cast<double>(i), -zipf));
  uint64_t state = seed;
  for (uint32_t& number : drawn) {
    const uint64_t random = NextSplitMix64(&state);
    number = static_cast<uint32_t>(random % keys);
    if (sums.empty()) continue;
    const double at = static_cast<double>(random >> 11) * 0x1p-53 * sum;
    const auto rank = static_cast<uint64_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
    number = static_cast<uint32_t>(std::min(rank, keys - 1));
  }
  return drawn;
}

}  // namespace cairn
