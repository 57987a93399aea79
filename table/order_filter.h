// The order filter: for any key, without I/O, a lower bound of the next key that a table holds. docs/ordered.md
// describes the bytes and why the bound holds.
//
// Keys become bits (byte_code.h), and a table's keys are cut into groups. A group keeps of its keys
//   - code numbers: the bits below the group's common prefix, cut off where the neighbours are far enough away, as an
//     Elias-Fano sequence, where keys lie evenly; or
//   - branches: of every key the bits from where it leaves the key before it to where the key behind leaves it, and
//   some
//     more, where keys lie unevenly.
//
// Invariants
//   (1) The bits that a group keeps of a key are a prefix of the key's bits, so with 0 bits behind they are at or below
//   it. (2) A group's anchor, its first key cut off, is above the last key of the group before. (3) A bound is above
//   the target and at or below the table's next key: it is the smallest key with kept bits that are
//       above the target's.
//
// Needs nothing of RocksDB. Keys are in bytewise order.
//
// Thread-safety: an OrderFilter is immutable; a builder serves one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "table/byte_code.h"

namespace cairn {

class OrderFilterBuilder {
 public:
  // About this many bits per key where keys lie evenly: 2 to 20. A bound is then too low for 2^(2 - bits) of the
  // targets.
  explicit OrderFilterBuilder(double bits_per_key);

  // Keys in order; the key before may be repeated.
  void Add(const char* key, size_t size);

  // The filter's bytes; nothing may be added later. An empty string if there was no key, or if keys are so long and so
  // uneven that the filter would take more than 32 bytes per key.
  std::string Finish();

  uint64_t keys() const { return keys_; }
  // What the builder holds now, and about what Finish() would answer.
  size_t memory() const;
  size_t EstimatedBytes() const;
  // Estimated share of targets that cannot be told apart from a key, known after Finish().
  double error() const { return entries_ == 0 ? 0 : error_sum_ / static_cast<double>(entries_); }

 private:
  struct Group {
    std::string anchor;  // without guard
    uint64_t anchor_bits;
    std::string body;
  };
  struct Segment {
    size_t begin, end;
    unsigned shift;  // of code numbers; kBranches for a group of branches
  };
  struct Plan {
    double bits = 0;
    double error = 0;  // sum over the entries
    std::vector<Segment> segments;
  };

  KeyBits BitsOf(size_t entry) const {
    return {reinterpret_cast<const uint8_t*>(encoded_.data()) + starts_[entry],
            starts_[entry + 1] - starts_[entry] - kKeyBitsGuard};
  }
  uint64_t FirstDifference(size_t begin, size_t end, size_t* at) const;
  void EncodeBatch();
  void FlushBatch();
  void ChooseByteCode();
  bool PlanNumbers(size_t begin, size_t end, Plan* plan) const;
  void PlanBranches(size_t begin, size_t end, Plan* plan) const;
  Plan MakePlan(size_t begin, size_t end, int splits) const;
  void EmitNumbers(const Segment& segment);
  void EmitBranches(size_t begin, size_t end);
  void EmitGroup(size_t begin, uint64_t anchor_bits, std::string body);

  const double precision_;  // bits per key beyond Elias-Fano's two
  const unsigned extra_;    // bits of a branch beyond those that tell a key from its neighbours
  uint64_t keys_ = 0;
  bool too_large_ = false;
  uint64_t entries_ = 0;
  double error_sum_ = 0;
  size_t least_key_bytes_ = SIZE_MAX;
  std::string first_key_;
  std::string last_key_;

  // The batch: keys as they came, then as bits. common_[i] is what entry i has in common with the one before.
  std::string raw_;
  std::vector<size_t> raw_ends_;
  bool has_code_ = false;
  ByteCode code_;
  std::string encoded_;
  std::vector<size_t> starts_;
  std::vector<uint64_t> common_;
  std::string previous_;  // the last key of the batch before, encoded

  std::vector<Group> groups_;
  size_t group_bytes_ = 0;
};

enum class OrderAnswer {
  kNone,   // the table has no key at or above the target
  kBound,  // the next key is at or above the bound, which is above the target
  kHere,   // there may be a key at the target, or so close above it that only the table can tell
};

class OrderFilter {
 public:
  // A view of the bytes, which must outlive it. Null if all is well, otherwise what is wrong. Whatever the bytes are,
  // no call of Find reads beyond them; only bytes that a builder made give right answers.
  const char* Open(const char* data, size_t size);

  // Replaces *bound if the answer is kBound.
  OrderAnswer Find(const char* target, size_t size, std::string* bound) const;

  // The table's first key itself; null if it is too long to be kept.
  const std::string* first_key() const { return has_first_key_ ? &first_key_ : nullptr; }
  uint64_t keys() const { return keys_; }
  size_t bytes() const { return size_; }
  size_t groups() const { return groups_; }

 private:
  struct Record;
  struct Target;

  bool ReadRecord(size_t group, Record* record) const;
  uint64_t CommonWithAnchor(const KeyBits& target, const Record& record) const;
  bool AnchorIsAbove(const KeyBits& target, size_t group) const;
  size_t GroupOf(const KeyBits& target) const;
  OrderAnswer FindNumber(const Target& target, const Record& record, uint64_t common, bool* beyond) const;
  OrderAnswer FindBranch(const Target& target, const Record& record, uint64_t common, bool* beyond) const;
  OrderAnswer BoundAt(size_t group, std::string* bound) const;
  void Finish(std::string* bound) const;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  uint64_t keys_ = 0;
  size_t groups_ = 0;
  unsigned extra_ = 0;
  size_t least_key_bytes_ = 0;
  ByteCode code_;
  bool has_first_key_ = false;
  std::string first_key_;
  std::string prefix_;                // what all keys' bits begin with, in whole bytes
  const uint8_t* windows_ = nullptr;  // 64 bits of each anchor behind the prefix
  const uint8_t* offsets_ = nullptr;  // of each record
  const uint8_t* records_ = nullptr;
  size_t records_bytes_ = 0;
};

}  // namespace cairn
