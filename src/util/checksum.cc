#include "src/util/checksum.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace cairn {

#if defined(__SSE4_2__)

namespace {

constexpr size_t kStripe = 1024;

// The CRC after kStripe zero bytes, for each byte of a CRC: joins the CRCs of neighbouring stripes.
struct ZeroStripe {
  uint32_t table[4][256];
  ZeroStripe() {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      for (uint32_t v = 0; v < 256; ++v) {
        uint64_t crc = uint64_t{v} << (8 * byte);
        for (size_t i = 0; i < kStripe / 8; ++i) crc = _mm_crc32_u64(crc, 0);
        table[byte][v] = static_cast<uint32_t>(crc);
      }
    }
  }
  uint32_t Shift(uint64_t crc) const {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24 & 255];
  }
};

uint64_t Word(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}

}  // namespace

uint32_t Crc32c(const void* data, size_t size, uint32_t before) {
  static const ZeroStripe zero_stripe;
  const uint8_t* p = static_cast<const uint8_t*>(data);
  uint64_t crc = static_cast<uint32_t>(~before);
  // Three stripes at once: the instruction takes three cycles, and one can start every cycle.
  for (; size >= 3 * kStripe; size -= 3 * kStripe, p += 3 * kStripe) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kStripe; i += 8) {
      crc = _mm_crc32_u64(crc, Word(p + i));
      b = _mm_crc32_u64(b, Word(p + kStripe + i));
      c = _mm_crc32_u64(c, Word(p + 2 * kStripe + i));
    }
    crc = zero_stripe.Shift(zero_stripe.Shift(crc) ^ b) ^ c;
  }
  for (; size >= 8; size -= 8, p += 8) crc = _mm_crc32_u64(crc, Word(p));
  for (; size > 0; --size) crc = _mm_crc32_u8(static_cast<uint32_t>(crc), *p++);
  return ~static_cast<uint32_t>(crc);
}

#else

uint32_t Crc32c(const void* data, size_t size, uint32_t before) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t v = 0; v < 256; ++v) {
      uint32_t crc = v;
      for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
      t[v] = crc;
    }
    return t;
  }();
  const uint8_t* p = static_cast<const uint8_t*>(data);
  uint32_t crc = ~before;
  for (; size > 0; --size) crc = (crc >> 8) ^ table[(crc ^ *p++) & 255];
  return ~crc;
}

#endif

}  // namespace cairn
