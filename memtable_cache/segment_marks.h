// What finds a key among entries of a segment that are in no index yet: 16 bits of the hash of each, side by side, and
// for every 64 entries the range of their tags. A lookup goes over 64 entries in a few nanoseconds, and touches those
// only whose bits are the key's; of a key with many versions it leaves out the blocks that cannot hold the wanted one.
//
// Thread-safety: Add is called by the one writer that has claimed the segment, before it publishes the entry; readers
// look at published entries only.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cairn {

class SegmentMarks {
 public:
  static constexpr size_t kBlockEntries = 64;

  class TagRange {
   public:
    uint64_t smallest() const { return smallest_.load(std::memory_order_relaxed); }
    uint64_t largest() const { return largest_.load(std::memory_order_relaxed); }
    void Include(uint64_t tag) {
      if (tag < smallest()) smallest_.store(tag, std::memory_order_relaxed);
      if (tag > largest()) largest_.store(tag, std::memory_order_relaxed);
    }

   private:
    std::atomic<uint64_t> smallest_{UINT64_MAX};
    std::atomic<uint64_t> largest_{0};
  };

  struct Block {
    TagRange tags;
    uint32_t offset = 0;  // of the first entry in the segment
    uint16_t marks[kBlockEntries];

    // Bit i: entry i of [from, to) has this mark.
    uint64_t Matches(uint16_t mark, size_t from, size_t to) const {
      uint64_t matches = 0;
      if (from == 0 && to == kBlockEntries) {
        for (size_t word = 0; word < kBlockEntries; word += 16) matches |= SixteenMatches(mark, word) << word;
        return matches;
      }
      for (size_t i = from; i < to; ++i) matches |= static_cast<uint64_t>(marks[i] == mark) << i;
      return matches;
    }

   private:
    uint64_t SixteenMatches(uint16_t mark, size_t at) const;
  };

  // For at most `most` entries.
  explicit SegmentMarks(size_t most) : chunks_(new std::unique_ptr<Block[]>[most / kChunkEntries + 1]) {}

  // Entry number `index`, one more than the last, at `offset` of the segment. Returns how many bytes it took.
  size_t Add(uint64_t index, uint32_t offset, uint16_t mark, uint64_t tag) {
    const size_t at = index % kBlockEntries;
    size_t taken = 0;
    if (index % kChunkEntries == 0) {
      chunks_[index / kChunkEntries].reset(new Block[kChunkBlocks]);
      taken = kChunkBlocks * sizeof(Block);
    }
    Block& block = chunks_[index / kChunkEntries][index / kBlockEntries % kChunkBlocks];
    if (at == 0) block.offset = offset;
    block.marks[at] = mark;
    block.tags.Include(tag);
    tags_.Include(tag);
    return taken;
  }

  // Of all entries.
  const TagRange& tags() const { return tags_; }

  const Block& block(size_t i) const { return chunks_[i / kChunkBlocks][i % kChunkBlocks]; }

 private:
  static constexpr size_t kChunkBlocks = 8;
  static constexpr size_t kChunkEntries = kChunkBlocks * kBlockEntries;

  TagRange tags_;
  const std::unique_ptr<std::unique_ptr<Block[]>[]> chunks_;
};

}  // namespace cairn

#if defined(__SSE2__)
#include <emmintrin.h>

inline uint64_t cairn::SegmentMarks::Block::SixteenMatches(uint16_t mark, size_t at) const {
  const __m128i wanted = _mm_set1_epi16(static_cast<int16_t>(mark));
  const auto* const words = reinterpret_cast<const __m128i*>(marks + at);
  const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(words), wanted);
  const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(words + 1), wanted);
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
}
#elif defined(__aarch64__)
#include <arm_neon.h>

inline uint64_t cairn::SegmentMarks::Block::SixteenMatches(uint16_t mark, size_t at) const {
  const uint16x8_t bits = {1, 2, 4, 8, 16, 32, 64, 128};
  const uint16x8_t wanted = vdupq_n_u16(mark);
  const uint16x8_t low = vandq_u16(vceqq_u16(vld1q_u16(marks + at), wanted), bits);
  const uint16x8_t high = vandq_u16(vceqq_u16(vld1q_u16(marks + at + 8), wanted), bits);
  return static_cast<uint64_t>(vaddvq_u16(low)) | static_cast<uint64_t>(vaddvq_u16(high)) << 8;
}
#else
inline uint64_t cairn::SegmentMarks::Block::SixteenMatches(uint16_t mark, size_t at) const {
  uint64_t matches = 0;
  for (size_t i = 0; i < 16; ++i) matches |= static_cast<uint64_t>(marks[at + i] == mark) << i;
  return matches;
}
#endif
