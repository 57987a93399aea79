// Keys that XXH3 with seed 0 gives one hash, as somebody makes them who knows the seed.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace cairn {

// 32 bytes, in the order of `number`: the first eight cancel out what XXH3 multiplies the next eight with.
inline std::string KeyOfOneHash(uint64_t number) {
  static constexpr unsigned char kCancels[8] = {0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe};
  const uint64_t big_endian = __builtin_bswap64(number);
  std::string key(32, 'A');
  memcpy(&key[0], kCancels, sizeof(kCancels));
  memcpy(&key[8], &big_endian, sizeof(big_endian));
  return key;
}

}  // namespace cairn
