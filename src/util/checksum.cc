#include "src/util/checksum.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace cairn {

#if defined(__SSE4_2__)

namespace {

uint64_t Word(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}

// Goes over stripes of so many bytes, three at once: the instruction takes three cycles, and one can start every cycle.
template <size_t kStripe>
class Stripes {
 public:
  // As many bytes as fill three stripes, again and again.
  uint64_t Add(const uint8_t** data, size_t* size, uint64_t crc) const {
    for (; *size >= 3 * kStripe; *size -= 3 * kStripe, *data += 3 * kStripe) {
      const uint8_t* const p = *data;
      uint64_t b = 0, c = 0;
      for (size_t i = 0; i < kStripe; i += 8) {
        crc = _mm_crc32_u64(crc, Word(p + i));
        b = _mm_crc32_u64(b, Word(p + kStripe + i));
        c = _mm_crc32_u64(c, Word(p + 2 * kStripe + i));
      }
      crc = Shift(Shift(crc) ^ b) ^ c;
    }
    return crc;
  }

  Stripes() {
    for (uint32_t byte = 0; byte < 4; ++byte) {
      for (uint32_t v = 0; v < 256; ++v) {
        uint64_t crc = uint64_t{v} << (8 * byte);
        for (size_t i = 0; i < kStripe / 8; ++i) crc = _mm_crc32_u64(crc, 0);
        table_[byte][v] = static_cast<uint32_t>(crc);
      }
    }
  }

 private:
  uint32_t Shift(uint64_t crc) const {
    return table_[0][crc & 255] ^ table_[1][crc >> 8 & 255] ^ table_[2][crc >> 16 & 255] ^ table_[3][crc >> 24 & 255];
  }

  // The CRC after a stripe of zeros, for each byte of a CRC: joins the CRCs of neighbouring stripes.
  uint32_t table_[4][256];
};

}  // namespace

uint32_t Crc32c(const void* data, size_t size, uint32_t before) {
  struct Tables {
    Stripes<1024> large;
    Stripes<168> small;  // two rounds of them for what large ones leave of a page
  };
  static const Tables stripes;
  const uint8_t* p = static_cast<const uint8_t*>(data);
  uint64_t crc = static_cast<uint32_t>(~before);
  crc = stripes.large.Add(&p, &size, crc);
  crc = stripes.small.Add(&p, &size, crc);
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
