#include "util/checksum.h"

#include <array>

#include "util/bits.h"

// CAIRN_CRC marks functions that use the processor's instruction for it. Where the processor that is built for need not
// have the instruction, the processor that runs is asked.
#if defined(__x86_64__)
#include <nmmintrin.h>
#if defined(__SSE4_2__)
#define CAIRN_CRC
#else
#define CAIRN_CRC __attribute__((target("sse4.2")))
#endif
#elif defined(__aarch64__) && (defined(__ARM_FEATURE_CRC32) || !defined(__clang__))
#include <arm_acle.h>
#if defined(__ARM_FEATURE_CRC32)
#define CAIRN_CRC
#else
#include <sys/auxv.h>
#define CAIRN_CRC __attribute__((target("+crc")))
#endif
#endif

namespace cairn {

namespace {

// Eight bytes at a time: the CRC of each, by how many bytes follow it.
class ByTables {
 public:
  ByTables() {
    for (uint32_t v = 0; v < 256; ++v) {
      uint32_t crc = v;
      for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
      tables_[0][v] = crc;
    }
    for (size_t behind = 1; behind < 8; ++behind) {
      for (size_t v = 0; v < 256; ++v) tables_[behind][v] = AddByte(tables_[behind - 1][v], 0);
    }
  }

  uint32_t AddByte(uint32_t crc, uint8_t byte) const { return (crc >> 8) ^ tables_[0][(crc ^ byte) & 255]; }
  uint32_t AddWord(uint32_t crc, uint64_t word) const {
    word ^= crc;
    uint32_t sum = 0;
    for (size_t i = 0; i < 8; ++i) sum ^= tables_[7 - i][word >> (8 * i) & 255];
    return sum;
  }
  uint32_t Add(uint32_t crc, const uint8_t* p, size_t size) const {
    for (; size >= 8; size -= 8, p += 8) crc = AddWord(crc, LoadU64(p));
    for (; size > 0; --size) crc = AddByte(crc, *p++);
    return crc;
  }

 private:
  std::array<std::array<uint32_t, 256>, 8> tables_;
};

const ByTables& TheTables() {
  static const ByTables tables;
  return tables;
}

#if defined(CAIRN_CRC)

// 64 bits, as the instruction of x86-64 has it.
CAIRN_CRC inline uint64_t AddWord(uint64_t crc, uint64_t word) {
#if defined(__x86_64__)
  return _mm_crc32_u64(crc, word);
#else
  return __crc32cd(static_cast<uint32_t>(crc), word);
#endif
}

CAIRN_CRC inline uint32_t AddByte(uint32_t crc, uint8_t byte) {
#if defined(__x86_64__)
  return _mm_crc32_u8(crc, byte);
#else
  return __crc32cb(crc, byte);
#endif
}

bool HasInstruction() {
#if defined(__SSE4_2__) || defined(__ARM_FEATURE_CRC32)
  return true;
#elif defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
#else
  constexpr unsigned long kHasCrc = 1 << 7;  // HWCAP_CRC32
  static const bool has = (getauxval(AT_HWCAP) & kHasCrc) != 0;
  return has;
#endif
}

// Goes over stripes of so many bytes, three at once: the instruction takes three cycles, and one can start every cycle.
template <size_t kStripe>
class Stripes {
 public:
  Stripes() {
    uint32_t of_bit[32];
    for (unsigned bit = 0; bit < 32; ++bit) {
      of_bit[bit] = uint32_t{1} << bit;
      for (size_t i = 0; i < kStripe; i += 8) of_bit[bit] = TheTables().AddWord(of_bit[bit], 0);
    }
    for (unsigned byte = 0; byte < 4; ++byte) {
      for (uint32_t v = 0; v < 256; ++v) {
        table_[byte][v] = 0;
        ForEachBit(v, [&](unsigned bit) { table_[byte][v] ^= of_bit[8 * byte + bit]; });
      }
    }
  }

  // As many bytes as fill three stripes, again and again.
  CAIRN_CRC uint64_t Add(const uint8_t** data, size_t* size, uint64_t crc) const {
    for (; *size >= 3 * kStripe; *size -= 3 * kStripe, *data += 3 * kStripe) {
      const uint8_t* const p = *data;
      uint64_t b = 0, c = 0;
      for (size_t i = 0; i < kStripe; i += 8) {
        crc = AddWord(crc, LoadU64(p + i));
        b = AddWord(b, LoadU64(p + kStripe + i));
        c = AddWord(c, LoadU64(p + 2 * kStripe + i));
      }
      crc = Shift(Shift(crc) ^ b) ^ c;
    }
    return crc;
  }

 private:
  uint32_t Shift(uint64_t crc) const {
    return table_[0][crc & 255] ^ table_[1][crc >> 8 & 255] ^ table_[2][crc >> 16 & 255] ^ table_[3][crc >> 24 & 255];
  }

  // The CRC after a stripe of zeros, for each byte of a CRC: joins the CRCs of neighbouring stripes.
  uint32_t table_[4][256];
};

CAIRN_CRC uint32_t AddByInstruction(uint32_t before, const uint8_t* p, size_t size) {
  struct Tables {
    Stripes<1024> large;
    Stripes<168> small;  // two rounds of them for what large ones leave of a page
  };
  static const Tables stripes;
  uint64_t crc = before;
  crc = stripes.large.Add(&p, &size, crc);
  crc = stripes.small.Add(&p, &size, crc);
  for (; size >= 8; size -= 8, p += 8) crc = AddWord(crc, LoadU64(p));
  auto rest = static_cast<uint32_t>(crc);
  for (; size > 0; --size) rest = AddByte(rest, *p++);
  return rest;
}

#endif

}  // namespace

uint32_t Crc32c(const void* data, size_t size, uint32_t before) {
  const uint8_t* const p = static_cast<const uint8_t*>(data);
#if defined(CAIRN_CRC)
  if (HasInstruction()) return ~AddByInstruction(~before, p, size);
#endif
  return ~TheTables().Add(~before, p, size);
}

uint32_t Crc32cByTables(const void* data, size_t size, uint32_t before) {
  return ~TheTables().Add(~before, static_cast<const uint8_t*>(data), size);
}

}  // namespace cairn
