// HashBytes (result_cache/n_zone.h) where it is inlined. Include it in .cc files only.
//
// Thread-safety: functions without state.

#pragma once

#include <cstdint>
#include <string_view>

#include "util/short_hash.h"

namespace cairn::cache {

inline uint64_t HashBytesInline(uint64_t seed, std::string_view key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

}  // namespace cairn::cache
