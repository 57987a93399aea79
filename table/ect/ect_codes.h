// The codes of ECT's tries: how many of a node's leaves lie left, as bits. Static tables that follow from hmax alone
// (docs/design/ect.md), made once per hmax and process.
//
// Thread-safety: immutable; Get() may be called from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "util/bits.h"

namespace cairn {

class EctCodes {
 public:
  static constexpr uint32_t kMinHmax = 2;
  static constexpr uint32_t kMaxHmax = 120;
  static constexpr unsigned kMaxHuffmanBits = 24;
  // Nodes of at most this many leaves have entries in the skip table.
  static constexpr uint32_t kMaxSkipLeaves = 64;
  static constexpr unsigned kWindowBits = 8;

  struct Code {
    uint32_t bits;
    uint32_t length;
  };

  // The tables of one hmax within kMinHmax ... kMaxHmax. Never freed.
  static const EctCodes* Get(uint32_t hmax);

  // Appends the code of `left` in a node of n > 2 leaves. left < n; left = 0 stands for both one-sided cases.
  void Encode(uint64_t n, uint64_t left, BitWriter* out) const {
    if (n <= hmax_) {
      const Code& code = encode_[n * (n - 1) / 2 + left];
      out->Put(code.bits, code.length);
    } else {
      EncodeGamma(ZigZag(static_cast<int64_t>(left) - static_cast<int64_t>(n / 2)), GammaBits(n), out);
    }
  }

  // The number of leaves that lie left in a node of n > 2 leaves, whose code starts at bit *at of base; moves *at
  // behind it. Returns n or more if the bits are no code. Reads at most 24 bytes from byte *at / 8 on.
  uint64_t Decode(const uint8_t* base, uint64_t n, uint64_t* at) const {
    if (n <= kMaxHmax) {
      const uint64_t window = LoadBits(base, *at);
      const uint16_t entry = decode_[(n << kWindowBits) | (window & ((1 << kWindowBits) - 1))];
      if (entry != 0) {
        *at += entry & 31;
        return entry >> 5;
      }
      if (n <= hmax_) return DecodeLong(window, n, at);
    }
    return DecodeLarge(base, n, at);
  }

  // One step of skipping over a trie of 3 to kMaxSkipLeaves leaves by its next kWindowBits bits: as many whole nodes as
  // they hold, if at most two tries are then left to skip.
  //   bits 0-5: bits consumed, 0 if the first code is longer than the window
  //   bits 6-10: 8 times the number of tries left;  bits 11-15: pairs met
  //   bits 16-23, 24-31: sizes of the tries left, the first one first
  // REQUIRES: MakeSkipTable has been called, which only who skips needs: dense indexes.
  const uint32_t* skip_table() const { return skip_.data(); }
  void MakeSkipTable() const;

  // Elias-gamma of (z >> k) + 1, then the low k bits of z.
  static void EncodeGamma(uint64_t z, unsigned k, BitWriter* out) {
    const uint64_t v = (z >> k) + 1;
    const unsigned width = Log2Floor(v);
    out->Put(uint64_t{1} << width, width + 1);
    out->Put(v & LowMask(width), width);
    out->Put(z & LowMask(k), k);
  }
  // Returns UINT64_MAX if the bits are no code. Reads at most 24 bytes from byte *at / 8 on.
  static uint64_t DecodeGamma(const uint8_t* base, unsigned k, uint64_t* at) {
    const uint64_t window = LoadBits(base, *at);
    if (window == 0) return UINT64_MAX;
    const unsigned width = static_cast<unsigned>(__builtin_ctzll(window));
    if (width > 48) return UINT64_MAX;
    const uint64_t high = (LoadBits(base, *at + width + 1) & LowMask(width)) | (uint64_t{1} << width);
    *at += 2 * width + 1;
    const uint64_t low = LoadBits(base, *at) & LowMask(k);
    *at += k;
    return ((high - 1) << k) | low;
  }
  // About log2 of the standard deviation of a binomial of n.
  static unsigned GammaBits(uint64_t n) {
    const unsigned log = Log2Floor(n);
    return log > 1 ? (log - 1) / 2 : 0;
  }

 private:
  // Codes are canonical: bits that begin with one, read as a number of kMaxHuffmanBits bits, first bit highest, are at
  // least `from`, and less than that of the next.
  struct LongCode {
    uint32_t from;
    uint16_t length;
    uint16_t left;
  };

  explicit EctCodes(uint32_t hmax);
  void MakeHuffman(uint32_t n);
  void MakeDecodeTable(uint32_t n);
  void MakeSkipTable(uint32_t n) const;
  uint64_t DecodeLong(uint64_t window, uint64_t n, uint64_t* at) const;
  uint64_t DecodeLarge(const uint8_t* base, uint64_t n, uint64_t* at) const {
    const uint64_t z = DecodeGamma(base, GammaBits(n), at);
    // Modulo 2^64: of damage, the sum may be beyond what a signed number holds.
    return z == UINT64_MAX ? z : static_cast<uint64_t>(UnZigZag(z)) + n / 2;
  }

  uint32_t hmax_;
  std::vector<Code> encode_;      // of (n, left) at n * (n - 1) / 2 + left
  std::vector<uint16_t> decode_;  // of (n, window): length in the low 5 bits, left above; 0: longer than the window
  mutable std::once_flag skip_made_;
  mutable std::vector<uint32_t> skip_;
  std::vector<std::vector<LongCode>> long_codes_;  // of n, by `from`
};

}  // namespace cairn
