// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): random 64-bit numbers that do not depend on machine or C++ library.
// Needs nothing of RocksDB.
//
// Thread-safety: functions without state.

#pragma once

#include <cstdint>

namespace cairn {

// Its finaliser, a bijection that scatters all numbers but 0.
inline uint64_t Mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// What the generator steps by.
constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// The number that it makes of a state, a bijection too; scatters 0 as well.
inline uint64_t SplitMix64(uint64_t state) { return Mix64(state + kSplitMixStep); }

// Equidistributed over its period of 2^64.
inline uint64_t NextSplitMix64(uint64_t* state) { return Mix64(*state += kSplitMixStep); }

}  // namespace cairn
