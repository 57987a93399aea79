// Bit sequences in memory: loads, stores, a writer, and selection of the k-th set bit. Bit i is bit i % 8 of byte i
// / 8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#if defined(__BMI2__)
#include <immintrin.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "The formats of table/ are read in place and need a little-endian processor."
#endif

namespace cairn {

inline uint64_t LoadU64(const void* p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}
inline uint32_t LoadU32(const void* p) {
  uint32_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}
inline uint16_t LoadU16(const void* p) {
  uint16_t v;
  memcpy(&v, p, sizeof(v));
  return v;
}
// A signed integer of 48 bits. Reads 8 bytes.
inline int64_t LoadI48(const void* p) { return static_cast<int64_t>(LoadU64(p) << 16) >> 16; }

inline void PutU16(std::string* out, uint16_t v) { out->append(reinterpret_cast<const char*>(&v), sizeof(v)); }
inline void PutU32(std::string* out, uint32_t v) { out->append(reinterpret_cast<const char*>(&v), sizeof(v)); }
inline void PutU64(std::string* out, uint64_t v) { out->append(reinterpret_cast<const char*>(&v), sizeof(v)); }
inline void PutI48(std::string* out, int64_t v) { out->append(reinterpret_cast<const char*>(&v), 6); }

inline uint64_t LowMask(unsigned bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

// At least the 57 bits from `bit` on. Reads the 8 bytes from byte bit / 8 on.
inline uint64_t LoadBits(const uint8_t* base, uint64_t bit) { return LoadU64(base + (bit >> 3)) >> (bit & 7); }

// Number of bits that v needs; 0 for 0.
inline unsigned BitWidth(uint64_t v) { return v == 0 ? 0 : 64 - static_cast<unsigned>(__builtin_clzll(v)); }
// Largest e with 2^e <= v; v > 0.
inline unsigned Log2Floor(uint64_t v) { return 63 - static_cast<unsigned>(__builtin_clzll(v)); }

// Position of the lowest set bit; v > 0.
inline unsigned LowestBit(uint64_t v) { return static_cast<unsigned>(__builtin_ctzll(v)); }

// visit(position) for each set bit, the lowest first.
template <class Visit>
void ForEachBit(uint64_t bits, const Visit& visit) {
  for (; bits != 0; bits &= bits - 1) visit(LowestBit(bits));
}

// Position of the k-th set bit (k from 0) of v, which has more than k set bits.
inline unsigned SelectInWord(uint64_t v, unsigned k) {
#if defined(__BMI2__)
  return LowestBit(_pdep_u64(uint64_t{1} << k, v));
#else
  for (; k > 0; --k) v &= v - 1;
  return LowestBit(v);
#endif
}

inline uint64_t ZigZag(int64_t v) { return v >= 0 ? uint64_t(v) << 1 : (uint64_t(-(v + 1)) << 1) | 1; }
inline int64_t UnZigZag(uint64_t z) { return (z & 1) == 0 ? int64_t(z >> 1) : -int64_t(z >> 1) - 1; }

// Appends bits to a growing sequence.
class BitWriter {
 public:
  // The low `bits` bits of v, at most 64; the others must be 0.
  void Put(uint64_t v, unsigned bits) {
    if (words_.size() * 64 < size_ + 128) words_.resize(words_.size() * 2 + 16);
    const size_t word = size_ >> 6;
    const unsigned shift = size_ & 63;
    words_[word] |= v << shift;
    words_[word + 1] |= (v >> 1) >> (63 - shift);
    size_ += bits;
  }
  void Append(const BitWriter& other) {
    uint64_t left = other.size_;
    for (size_t i = 0; left > 0; ++i) {
      const unsigned take = left < 64 ? static_cast<unsigned>(left) : 64;
      Put(other.words_[i], take);
      left -= take;
    }
  }
  // Appends the other sequence back to front.
  void AppendReversed(const BitWriter& other) {
    uint64_t left = other.size_;
    while (left > 0) {
      const unsigned take = (left & 63) == 0 ? 64 : static_cast<unsigned>(left & 63);
      const uint64_t v = other.words_[(left - 1) >> 6] & LowMask(take);
      Put(Reverse(v) >> (64 - take), take);
      left -= take;
    }
  }
  void Clear() {
    const size_t used = (size_ + 63) / 64;
    std::fill_n(words_.begin(), used, 0);
    size_ = 0;
  }
  uint64_t size() const { return size_; }
  // Moves all complete words' bytes to *out, for sequences too long to be kept twice.
  void Drain(std::string* out) {
    const size_t whole = size_ >> 6;
    if (whole == 0) return;
    out->append(reinterpret_cast<const char*>(words_.data()), whole * 8);
    const uint64_t rest = (size_ & 63) != 0 ? words_[whole] : 0;
    memset(words_.data(), 0, (whole + ((size_ & 63) != 0 ? 1 : 0)) * 8);
    size_ &= 63;
    if (size_ != 0) words_[0] = rest;
  }
  // The bytes that hold the sequence, the last one filled with 0 bits.
  void AppendBytes(std::string* out) const {
    if (size_ != 0) out->append(reinterpret_cast<const char*>(words_.data()), (size_ + 7) / 8);
  }

 private:
  static uint64_t Reverse(uint64_t v) {
    v = ((v >> 1) & 0x5555555555555555u) | ((v & 0x5555555555555555u) << 1);
    v = ((v >> 2) & 0x3333333333333333u) | ((v & 0x3333333333333333u) << 2);
    v = ((v >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((v & 0x0f0f0f0f0f0f0f0fu) << 4);
    return __builtin_bswap64(v);
  }
  // Bits behind size_ are 0, and there is always a word behind the last one in use.
  std::vector<uint64_t> words_;
  uint64_t size_ = 0;
};

}  // namespace cairn
