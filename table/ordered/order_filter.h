// The order filter: for any key, without I/O, a lower bound of the next key that a table holds, and an upper bound of
// the last key before. docs/design/ordered.md describes the bytes and why the bounds hold.
//
// It is a row of segments (order_segment.h), each behind the key that it starts at. A builder holds the keys of one.
//
// Invariants
//   (1) A segment's start is above the last key of the segment before, and at or below its own first key.
//   (2) A bound behind a target is above it and at or below the table's next key. One before a target is at or below
//       it and above the table's last key before.
//
// Needs nothing of RocksDB. Keys are in bytewise order.
//
// Thread-safety: an OrderFilter is immutable; a builder serves one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "table/ordered/order_segment.h"

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
  double error() const { return keys_ == 0 ? 0 : error_sum_ / static_cast<double>(keys_); }

 private:
  struct Segment {
    std::string start;
    std::string bytes;
  };

  void EndSegment();

  const OrderDepth depth_;
  uint64_t keys_ = 0;
  bool too_large_ = false;
  bool first_is_whole_ = false;
  double error_sum_ = 0;
  size_t least_key_bytes_ = SIZE_MAX;
  std::string before_segment_;  // the last key of the segment before
  OrderKeys held_;              // of the segment that is being gathered
  OrderCodeChoice code_choice_;
  std::vector<Segment> segments_;
  size_t segment_bytes_ = 0;
};

class OrderFilter {
 public:
  // A view of the bytes, which must outlive it. Null if all is well, otherwise what is wrong. Whatever the bytes are,
  // no call of Find reads beyond them; only bytes that a builder made give right answers.
  const char* Open(const char* data, size_t size);

  // Replaces *bound if the answer is kBound.
  OrderAnswer Find(const char* target, size_t size, std::string* bound) const;
  // The same for the last key at or below the target.
  OrderAnswer FindBefore(const char* target, size_t size, std::string* bound) const;

  // False if the table has not this key.
  bool MayContain(const char* key, size_t size) const;

  uint64_t keys() const { return keys_; }
  size_t bytes() const { return size_; }
  // What this holds beside the bytes.
  size_t memory() const;
  size_t groups() const;

 private:
  friend class OrderSearch;

  std::string_view StartOf(size_t segment) const;
  size_t SegmentAbove(const char* target, size_t size) const;

  size_t size_ = 0;
  uint64_t keys_ = 0;
  size_t least_key_bytes_ = 0;
  const uint8_t* ends_ = nullptr;  // of the starts, and of the segments' bytes
  const char* starts_ = nullptr;
  std::vector<OrderSegment> segments_;
};

// A target that is sought in several filters at once: a search is a row of loads, each of which depends on the one
// before, and those of several filters wait together.
class OrderSearch {
 public:
  // `filter` and `target` stay until Answer(). Null: there is no filter, and the answer is kHere.
  void Begin(const OrderFilter* filter, const char* target, size_t size);
  // Searches that have begun: as far as they go without an answer.
  static void Advance(OrderSearch* searches, size_t count);
  // As OrderFilter::Find or FindBefore. REQUIRES: Advance().
  OrderAnswer Answer(OrderSide side, std::string* bound) const;

 private:
  const OrderFilter* filter_ = nullptr;
  const char* target_ = nullptr;
  size_t size_ = 0;
  size_t next_ = 0;  // the first segment that starts above the target
  OrderSegment::Place place_;
};

}  // namespace cairn
