// The filter of BloomCluster: for a hash, the set of slots whose tables may hold a key with it. One structure answers
// for one table or for all tables of a container, out of one place in memory.
//
// A filter is a sorted sequence of pairs (fingerprint, slot), where a fingerprint is the first `precision` bits of a
// 64-bit hash. Keys arrive in hash order and tables of one container share a range of hashes, so filters of several
// tables merge into one by merging sorted sequences, and precision can be dropped, but not gained. The sequence is cut
// into columns of equal ranges of hash and coded close to its entropy: a column has 64 buckets, whose populations are
// in unary, and a remainder and a slot number for each pair.
//
// Invariants
//   (1) No wrong no: if a hash was added for a slot, Probe answers with the slot's bit set.
//   (2) At most one pair for each fingerprint and slot.
//   (3) A strange hash finds a slot at random with probability pairs / 2^precision of the range that the keys span.
//
// Why not Bloom filters? At 16 bits per key a filter lets 0.01 % through where a Bloom filter lets 0.05 % through and
// one in cache lines 0.1 %, and filters of 16 tables cost one probe (docs/design/bloom_cluster.md).
//
// Sources: LSM-trie (USENIX ATC 2015), for the clustering; Chucky (SIGMOD 2021), for one filter with slot numbers. The
// code of a column is that of a quotient filter in the form of Elias and Fano.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "util/bits.h"

namespace cairn {

// Slots of one filter, and bits of an answer.
constexpr unsigned kMaxFilterSlots = 64;
constexpr unsigned kFilterSlotBits = 6;
constexpr unsigned kMaxPrecision = 58;
constexpr unsigned kBucketBits = 6;
constexpr unsigned kBuckets = 1u << kBucketBits;
// A column's header: 1, then for each bucket its pairs as zeros and a 1.
constexpr unsigned kHeaderOnes = kBuckets + 1;
// Bits of remainder and slot, so that three pairs fit into a load at any bit.
constexpr unsigned kMaxPairBits = 19;

// A pair in sequences: the fingerprint above, the slot in the low bits.
inline uint64_t PackPair(uint64_t fingerprint, unsigned slot) { return fingerprint << kFilterSlotBits | slot; }
inline uint64_t FingerprintOf(uint64_t pair) { return pair >> kFilterSlotBits; }
inline unsigned SlotOf(uint64_t pair) { return pair & (kMaxFilterSlots - 1); }

// How hashes map to columns, buckets and remainders.
struct FilterShape {
  unsigned precision = 1;       // bits of a fingerprint, 1 ... kMaxPrecision
  unsigned remainder_bits = 0;  // of a pair
  unsigned slot_bits = 0;       // of a pair
  uint64_t low = 0;             // fingerprint at which column 0 begins
  uint64_t columns = 0;

  unsigned pair_bits() const { return remainder_bits + slot_bits; }
  unsigned column_shift() const { return kBucketBits + remainder_bits; }
  uint64_t FingerprintOfHash(uint64_t hash) const { return hash >> (64 - precision); }
  bool Valid() const;
};

// The shape with the most precision whose filter of `pairs` pairs between two hashes takes `bits_per_key` bits a pair,
// or less, and at most max_precision. Too few bits for anything give the smallest filter that there is.
FilterShape ChooseFilterShape(uint64_t pairs, uint64_t low_hash, uint64_t high_hash, unsigned slot_bits,
                              double bits_per_key, unsigned max_precision = kMaxPrecision);

// A column as it lies in memory and in files: its pairs end, and its header begins, at `header`. Readable: 8 bytes
// before the pairs and 8 bytes behind the header. The set of slots that a pair of the wanted fingerprint names.
uint64_t ProbeColumn(const uint8_t* header, const FilterShape& shape, uint64_t offset_in_column);

// Appends the pairs of column number `column`, ascending in fingerprints.
void DecodeColumn(const uint8_t* header, const FilterShape& shape, uint64_t column, std::vector<uint64_t>* pairs);

// The bytes of a column whose pairs take `pair_bytes` up to `header`, or 0 if they are not a column. Reads up to `end`.
size_t CheckColumn(const uint8_t* header, const uint8_t* end, size_t pair_bytes, const FilterShape& shape);

// Receives columns one by one, in order, none left out.
class ColumnSink {
 public:
  virtual ~ColumnSink() = default;
  // The column's `size` bytes; its header begins at byte `header`. False: it cannot be stored, and no more will follow.
  virtual bool Add(const uint8_t* bytes, size_t size, size_t header) = 0;
};

// Encodes ascending pairs.
class ColumnWriter {
 public:
  ColumnWriter(const FilterShape& shape, ColumnSink* sink) : shape_(shape), sink_(sink) {}

  // Fingerprints must not descend, nor leave the columns of the shape. A pair that was just added is skipped.
  void Add(uint64_t fingerprint, unsigned slot);
  // False if the sink refused a column.
  bool Finish();
  uint64_t pairs() const { return written_; }

 private:
  void Flush();
  void WritePairs(uint8_t* out, size_t fill) const;
  void WritePopulations(uint8_t* out) const;

  const FilterShape shape_;
  ColumnSink* const sink_;
  uint64_t column_ = 0;
  bool ok_ = true;
  uint64_t written_ = 0;
  std::vector<uint64_t> pairs_;  // of the column, relative to its beginning
  std::vector<uint8_t> bytes_;
};

// An ascending sequence of pairs.
class PairCursor {
 public:
  virtual ~PairCursor() = default;
  // False at the end; then failed() tells whether it is a premature one.
  bool Next(uint64_t* pair) {
    while (next_ == buffer_.size()) {
      buffer_.clear();
      next_ = 0;
      if (!Refill(&buffer_)) return false;
    }
    *pair = buffer_[next_++];
    return true;
  }
  virtual bool failed() const { return false; }

 protected:
  // Appends the next pairs, maybe none; false at the end.
  virtual bool Refill(std::vector<uint64_t>* pairs) = 0;

 private:
  std::vector<uint64_t> buffer_;
  size_t next_ = 0;
};

// One of the sequences that are merged.
struct MergeInput {
  static constexpr uint8_t kDropped = 255;
  PairCursor* cursor = nullptr;
  unsigned precision = 0;
  std::array<uint8_t, kMaxFilterSlots> slots{};  // what becomes of the input's slots
};

// Feeds the merged sequence to the writer, whose shape must not be more precise than any input. False if a cursor
// failed or left the columns of the shape, or the sink refused.
bool MergePairs(const std::vector<MergeInput>& inputs, const FilterShape& shape, ColumnWriter* writer);

// A filter in memory. Immutable; any number of threads may probe it.
class FilterImage {
 public:
  class Builder;

  // Bit i: a key with this hash may be in slot i.
  uint64_t Probe(uint64_t hash) const {
    const uint64_t offset = shape_.FingerprintOfHash(hash) - shape_.low;
    const uint64_t column = offset >> shift_;
    if (column >= shape_.columns) return 0;
    return ProbeColumn(HeaderOf(column), shape_, offset);
  }
  // Load what Probe will read: the first the directory, the second, which waits for it, the column.
  void PrefetchDirectory(uint64_t hash) const {
    const uint64_t column = ColumnOf(hash);
    if (column < shape_.columns) __builtin_prefetch(&groups_[column / kGroupColumns]);
  }
  void PrefetchColumn(uint64_t hash) const {
    const uint64_t column = ColumnOf(hash);
    if (column >= shape_.columns) return;
    const uint8_t* const header = HeaderOf(column);
    __builtin_prefetch(header - kPrefetchBefore);
    __builtin_prefetch(header);
  }

  const FilterShape& shape() const { return shape_; }
  uint64_t pairs() const { return pairs_; }
  // Of memory.
  size_t bytes() const { return bytes_; }

  std::unique_ptr<PairCursor> NewCursor() const;

 private:
  friend class ImageCursor;
  static constexpr unsigned kGroupColumns = 12;
  static constexpr size_t kPrefetchBefore = 64;

  // Where the headers of neighbouring columns are.
  struct Group {
    uint64_t base;
    uint16_t delta[kGroupColumns];
  };
  struct Free {
    void operator()(uint8_t* memory) const;
  };

  FilterImage() = default;
  uint64_t ColumnOf(uint64_t hash) const { return (shape_.FingerprintOfHash(hash) - shape_.low) >> shift_; }
  const uint8_t* HeaderOf(uint64_t column) const {
    const Group& group = groups_[column / kGroupColumns];
    return data_.get() + group.base + group.delta[column % kGroupColumns];
  }

  FilterShape shape_;
  unsigned shift_ = 0;
  uint64_t pairs_ = 0;
  size_t bytes_ = 0;
  std::vector<Group> groups_;
  std::unique_ptr<uint8_t[], Free> data_;
};

// Receives the columns of an image.
class FilterImage::Builder : public ColumnSink {
 public:
  // Memory for this many pairs is taken at once; more is taken as needed.
  Builder(const FilterShape& shape, uint64_t pairs);
  bool Add(const uint8_t* bytes, size_t size, size_t header) override;
  // Null if a column was refused: hashes so uneven that a filter is of no use.
  std::shared_ptr<const FilterImage> Finish(uint64_t pairs);

 private:
  bool Reserve(size_t bytes);

  std::unique_ptr<FilterImage> image_;
  uint64_t columns_ = 0;
  size_t used_ = 0;
  size_t capacity_ = 0;
  bool ok_ = true;
};

}  // namespace cairn
