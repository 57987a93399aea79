// Ghosts remembers, by 16 bits of their hash, keys that fell out of a small queue of late. Sets of eight; a new ghost
// takes the place of one of the oldest of its set. Two bytes a ghost.
//
// Thread-safety: none; the partition's lock guards it.
//
// Source: S3-FIFO (SOSP 2023), section 4.2.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/util/mix64.h"

namespace cairn::cache {

class Ghosts {
 public:
  static constexpr size_t kSet = 8;

  size_t bytes() const { return marks_.size() * sizeof(uint16_t); }
  // Forgets all.
  void Resize(size_t ghosts) { marks_.assign((ghosts + kSet - 1) / kSet * kSet, 0); }

  void Add(uint64_t hash) {
    if (marks_.empty()) return;
    uint16_t* const set = SetOf(hash);
    for (size_t i = kSet - 1; i > 0; --i) set[i] = set[i - 1];
    set[0] = Mark(hash);
  }

  // Whether the key was there; it is no longer.
  bool Take(uint64_t hash) {
    if (marks_.empty()) return false;
    uint16_t* const set = SetOf(hash);
    for (size_t i = 0; i < kSet; ++i) {
      if (set[i] != Mark(hash)) continue;
      set[i] = 0;
      return true;
    }
    return false;
  }

 private:
  static uint16_t Mark(uint64_t hash) {
    const auto mark = static_cast<uint16_t>(Mix64(hash) >> 48);
    return mark == 0 ? 1 : mark;
  }
  uint16_t* SetOf(uint64_t hash) {
    const uint64_t sets = marks_.size() / kSet;
    return marks_.data() + kSet * static_cast<uint64_t>((Mix64(hash) & 0xffffffff) * sets >> 32);
  }

  std::vector<uint16_t> marks_;
};

}  // namespace cairn::cache
