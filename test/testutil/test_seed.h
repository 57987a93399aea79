// The seed of a random test: what CAIRN_SEED names, or a fresh one; printed, so that a failure can be replayed.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace cairn {

// One seed for the whole program, chosen at the first call.
inline uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* given = getenv("CAIRN_SEED");
    const uint64_t value = given != nullptr ? strtoull(given, nullptr, 0) : std::random_device()();
    printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

}  // namespace cairn
