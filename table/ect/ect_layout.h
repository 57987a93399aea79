// The header of an ECT index and what builder and reader must agree on. The bytes are drawn in docs/design/ect.md.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/index_status.h"
#include "table/ect/ect_codes.h"
#include "util/bits.h"

namespace cairn {

struct EctHeader {
  static constexpr uint64_t kMagic = 0x5443456e72696143u;  // "CairnECT"
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kBytes = 112;
  static constexpr uint32_t kHasBlocks = 1;
  static constexpr uint32_t kSparse = 2;
  static constexpr uint64_t kMaxKeys = uint64_t{1} << 40;
  static constexpr uint32_t kRecordBoundaries = 32;
  static constexpr uint32_t kRecordBaseBytes = 12;
  static constexpr uint32_t kMaxFieldBits = 48;
  static constexpr size_t kTriePadding = 16;
  static constexpr size_t kChecksumBytes = 4;

  uint32_t flags = 0;
  uint64_t keys = 0;
  uint64_t first_hash = 0;
  uint64_t last_hash = 0;
  uint64_t multiplier = 0;
  uint32_t buckets = 0;
  uint32_t hmax = 0;
  uint32_t block_items = 0;
  uint32_t skip_leaves = 0;
  uint32_t skip_slope = 0;
  uint32_t rank_slope = 0;
  uint32_t bit_slope = 0;
  uint32_t rank_bits = 0;
  uint32_t bit_bits = 0;
  uint64_t directory_bytes = 0;
  uint64_t trie_bits = 0;
  uint64_t blocks_bytes = 0;

  uint32_t RecordBytes() const { return kRecordBaseBytes + kRecordBoundaries / 8 * (rank_bits + bit_bits); }
  uint64_t Records() const { return uint64_t{buckets} / kRecordBoundaries + 1; }
  uint64_t TrieBytes() const { return (trie_bits + 7) / 8 + kTriePadding; }
  uint64_t TotalBytes() const { return kBytes + directory_bytes + TrieBytes() + blocks_bytes + kChecksumBytes; }

  void EncodeTo(std::string* out) const;
  // Checks all that can be checked without the other sections, above all that they fill exactly `size` bytes.
  IndexStatus Decode(const uint8_t* data, size_t size);
};

// Bits of the second part of the length code of a left part with `left` leaves: about log2 of the lengths' standard
// deviation.
inline unsigned EctSkipBits(uint64_t left) { return Log2Floor(left + 2) / 2 + 1; }
inline uint64_t EctSkipPrediction(uint64_t left, uint32_t skip_slope) { return left * skip_slope >> 8; }

}  // namespace cairn
