// A KeySketch is a small sample of the keys of one table that tells, before any data is read, how many keys several
// tables have in common: how much a compaction would drop, and how much of a trie is live.
//
// The keys whose hash has the smallest low 32 bits are kept (a bottom-k, or theta, sketch). Two sketches sample by the
// same rule, so their union below the lower of their thresholds is a sample of the union of the keys. What is kept is
// the whole position, so a sketch can also be restricted to a container.
//
// Invariants
//   (1) A key is in the sketch if and only if the low 32 bits of its position, but for the two that (2) replaces, are
//       below threshold().
//   (2) Samples are positions with the lowest two bits replaced by what the table says of the key (Entry).
//   (3) At most kCapacity samples, and at most one of four keys: 2 bytes per key in a small table, 32 KiB in a large
//       one.
//   (4) A decoded sketch holds its samples in ascending order of those low bits, so that a lower threshold is a prefix.
//
// Accuracy: a count estimated from n samples has a standard deviation of at most 1/sqrt(n).
// Thread-safety: none; immutable ones may be shared.
// Source: theta sketches (Dasgupta, Lang, Rhodes, Thaler, ICDT 2016), there for set expressions over streams.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "table/trie_rules.h"

namespace cairn {

class KeySketch {
 public:
  static constexpr size_t kCapacity = kSketchCapacity;
  static constexpr uint64_t kRange = uint64_t{1} << 32;  // of the low bits that a threshold cuts
  static constexpr uint64_t kMaxThreshold = kRange / kSketchOneOf;
  static constexpr uint64_t kEntryBits = 3;  // of a sample

  // What a table's entries of a key come to.
  enum class Entry : uint8_t {
    kValue = 0,     // a value, with or without merge operands on top: nothing older counts
    kDeletion = 1,  // the newest entry is a deletion
    kOperands = 2,  // merge operands alone: what lies below them counts as well
  };

  // Adds one distinct key.
  void Add(uint64_t position, Entry entry) {
    if (keys_ == 0 || position < first_) first_ = position;
    if (position > last_) last_ = position;
    ++keys_;
    if (LowBits(position) < threshold_) Keep(PositionOf(position) | static_cast<uint64_t>(entry));
  }

  static uint64_t PositionOf(uint64_t sample) { return sample & ~kEntryBits; }
  static Entry EntryOf(uint64_t sample) { return static_cast<Entry>(sample & kEntryBits); }

  // What (1) and (4) speak of.
  static uint32_t LowBits(uint64_t sample) { return static_cast<uint32_t>(PositionOf(sample)); }

  // Establishes (4) for a sketch that was built, not decoded.
  void Sort();

  uint64_t threshold() const { return threshold_; }
  const std::vector<uint64_t>& samples() const { return samples_; }
  // Distinct keys added: exact.
  uint64_t keys() const { return keys_; }
  // The smallest and the largest position added. REQUIRES: keys() > 0.
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }

  // Adds this sketch's encoding to *output. REQUIRES: (4).
  void EncodeTo(std::string* output) const;
  // Corruption for anything that EncodeTo did not write.
  static rocksdb::Status Decode(rocksdb::Slice input, KeySketch* sketch);

 private:
  void Keep(uint64_t sample);
  void Shrink();

  uint64_t threshold_ = kMaxThreshold;
  uint64_t keys_ = 0;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  std::vector<uint64_t> samples_;
};

}  // namespace cairn
