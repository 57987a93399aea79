// Ghosts of keys that the cache had of late: 15 or 16 bits of their hash. Two bytes per ghost; a new one takes the
// place of the oldest of its set.
//
// BucketGhosts are the two of a bucket of the index (result_cache/hash_index.h), at hand for who looks for a key, of
// what the small queue evicts. They are fewer than the items: what nobody asks for again soon is no loss.
//
// Ghosts are as many as are wanted, in sets of eight, with how each key was lost. Where writers erase now and then,
// what they erase is there, because it was worth its place and may come back late; and where they erase much, what the
// small queue evicts, too.
//
// Thread-safety: BucketGhosts are functions of a word. Ghosts: none; the partition's lock guards it.
//
// Source: S3-FIFO (SOSP 2023), section 4.2.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "util/mix64.h"

namespace cairn::cache {

struct BucketGhosts {
  static uint32_t Add(uint32_t ghosts, uint64_t hash) { return ghosts << 16 | Mark(hash); }
  static bool Has(uint32_t ghosts, uint64_t hash) {
    return (ghosts & 0xffff) == Mark(hash) || ghosts >> 16 == Mark(hash);
  }
  static uint32_t Remove(uint32_t ghosts, uint64_t hash) {
    if ((ghosts & 0xffff) == Mark(hash)) return ghosts & 0xffff0000;
    return ghosts >> 16 == Mark(hash) ? ghosts & 0xffff : ghosts;
  }
  // Bits of the hash that do not choose the bucket. Never 0.
  static uint32_t Mark(uint64_t hash) {
    const auto bits = static_cast<uint32_t>(hash >> 32 & 0xffff);
    return bits == 0 ? 1 : bits;
  }
};

class Ghosts {
 public:
  static constexpr size_t kSet = 8;

  size_t bytes() const { return marks_.size() * sizeof(uint16_t); }
  // Forgets all.
  void Resize(size_t ghosts) { marks_.assign((ghosts + kSet - 1) / kSet * kSet, 0); }

  enum class Lost {
    kNever,
    kEvicted,  // from the small queue: nobody had asked for it again
    kErased,   // by a writer, though it was asked for
  };

  // REQUIRES: lost != Lost::kNever.
  void Add(uint64_t hash, Lost lost) {
    if (marks_.empty()) return;
    uint16_t* const set = marks_.data() + SetOf(hash);
    for (size_t i = kSet - 1; i > 0; --i) set[i] = set[i - 1];
    set[0] = static_cast<uint16_t>(Mark(hash) | (lost == Lost::kErased ? 1 : 0));
  }

  Lost Find(uint64_t hash) const { return marks_.empty() ? Lost::kNever : Kind(marks_[PlaceOf(hash)], hash); }

  // As Find; the key is forgotten.
  Lost Take(uint64_t hash) {
    if (marks_.empty()) return Lost::kNever;
    uint16_t* const mark = &marks_[PlaceOf(hash)];
    const Lost lost = Kind(*mark, hash);
    if (lost != Lost::kNever) *mark = 0;
    return lost;
  }

 private:
  // Its lowest bit says how the key was lost.
  static uint16_t Mark(uint64_t hash) {
    const auto mark = static_cast<uint16_t>(Mix64(hash) >> 48 & ~uint64_t{1});
    return mark == 0 ? 2 : mark;
  }
  static Lost Kind(uint16_t mark, uint64_t hash) {
    if ((mark & ~1) != Mark(hash)) return Lost::kNever;
    return (mark & 1) != 0 ? Lost::kErased : Lost::kEvicted;
  }
  size_t SetOf(uint64_t hash) const {
    const uint64_t sets = marks_.size() / kSet;
    return kSet * static_cast<size_t>((Mix64(hash) & 0xffffffff) * sets >> 32);
  }
  // Of its mark; of the set's first if there is none.
  size_t PlaceOf(uint64_t hash) const {
    const size_t set = SetOf(hash);
    for (size_t i = 0; i < kSet; ++i) {
      if ((marks_[set + i] & ~1) == Mark(hash)) return set + i;
    }
    return set;
  }

  std::vector<uint16_t> marks_;
};

}  // namespace cairn::cache
