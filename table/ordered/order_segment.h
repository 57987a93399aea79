// A segment of an order filter: up to kMostSegmentKeys neighbouring keys, which share a code (key_code.h).
//
// Keys become bits, and are cut into groups. A group keeps of its keys
//   - code numbers: the bits below the group's common prefix, cut off where the neighbours are far enough away, as an
//     Elias-Fano sequence, where keys lie evenly; or
//   - branches: of every key the bits from where it leaves the key before it to where the key behind leaves it, and
//     some more, where keys lie unevenly.
//
// Invariants
//   (1) The bits that a group keeps of a key are a prefix of the key's bits, so with 0 bits behind they are at or below
//       it.
//   (2) A group's anchor, its first key cut off, is above the last key of the group before.
//   (3) A bound is above the target and at or below the segment's next key.
//
// Thread-safety: immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "table/ordered/key_code.h"
#include "table/ordered/order_plan.h"

namespace cairn {

// Which keys are asked for: the next one at or above the target, or the last one at or below it.
enum class OrderSide { kBehind, kBefore };

enum class OrderAnswer {
  kNone,   // there is no key on that side
  kBound,  // behind: the next key is at or above the bound, which is above the target; before: the last key is below
           // the bound, which is at or below the target
  kHere,   // there may be a key at the target, or so close to it that only the table can tell
};

// Keys in order, each once; what they begin with is held once.
class OrderKeys {
 public:
  void Add(const char* key, size_t size);
  void Clear();
  // The key that was added last, if any was.
  bool EndsWith(const char* key, size_t size) const {
    const size_t end = ends_.back();
    if (ends_.size() == 1 || size != prefix_.size() + end - ends_[ends_.size() - 2]) return false;
    // Two keys in order seldom end alike.
    return size == 0 || (key[size - 1] == (end != 0 ? bytes_[end - 1] : prefix_[size - 1]) && IsLast(key, size));
  }

  size_t size() const { return ends_.size() - 1; }
  // What all keys begin with, and what a key has behind it.
  const std::string& prefix() const { return prefix_; }
  const char* key(size_t i) const { return bytes_.data() + ends_[i]; }
  size_t bytes(size_t i) const { return ends_[i + 1] - ends_[i]; }
  std::string whole(size_t i) const { return prefix_ + bytes_.substr(ends_[i], bytes(i)); }
  size_t all_bytes() const { return ends_.back(); }
  size_t memory() const { return prefix_.capacity() + bytes_.capacity() + ends_.capacity() * sizeof(uint32_t); }

 private:
  bool IsLast(const char* key, size_t size) const;
  void Shorten(size_t prefix);

  std::string prefix_;
  std::string bytes_;  // more than there are, so that a key is added by a copy alone
  std::vector<uint32_t> ends_ = {0};
};

// The kind of code that a table's segments have. They are much alike: what one has chosen, the next ones have, too, as
// long as they take about as few bits.
struct OrderCodeChoice {
  KeyCode::Kind kind = KeyCode::Kind::kPlain;
  unsigned segments = 0;    // that may still have it; 0: the next one chooses
  double bits_per_key = 0;  // of the segment that chose
};

// There is at least one key. Adds the estimated number of keys that a target beside them is not told from. The first
// `start_bytes` of the first key are kept elsewhere.
std::string EncodeOrderSegment(const OrderKeys& keys, const OrderDepth& depth, size_t start_bytes,
                               OrderCodeChoice* choice, double* error_sum);

class OrderSegment {
 public:
  // Where a target lies.
  struct Place {
    enum class At {
      kAbove,    // all keys
      kBelow,    // what all keys begin with
      kBefore,   // the first group
      kInGroup,  // or between it and the next one
    };
    At at = At::kAbove;
    size_t group = 0;
    EncodedKey bits;
    KeyBits rest;  // behind the segment's prefix
  };

  // A view of the bytes, which must outlive it, as must the start, the first bytes of the first key. Null if all is
  // well, otherwise what is wrong. Whatever the bytes are, no search reads beyond them; only bytes that
  // EncodeOrderSegment made give right answers.
  const char* Open(const uint8_t* data, size_t size, const uint8_t* start, size_t start_bytes, unsigned extra);

  // Replaces *bound, unless null, if the answer is kBound; it has at least `least` bytes, which no key has fewer of.
  OrderAnswer Find(const char* key, size_t size, size_t least, std::string* bound) const {
    Place place;
    Locate(key, size, &place);
    return AnswerAt(place, key, size, least, OrderSide::kBehind, bound);
  }

  // Find() in steps. Each asks the memory for what the next one reads, so that searches in several segments wait
  // together.
  void PrefetchGroups() const;
  void Locate(const char* key, size_t size, Place* place) const;
  // REQUIRES: bound is not null for kBefore.
  OrderAnswer AnswerAt(const Place& place, const char* key, size_t size, size_t least, OrderSide side,
                       std::string* bound) const;

  size_t groups() const { return groups_; }
  size_t memory() const { return sizeof(*this) + code_.memory(); }

 private:
  struct Record;
  struct Target;

  bool ReadRecord(size_t group, Record* record) const;
  bool FindShared(size_t group, Record* record) const;
  uint64_t CommonWithAnchor(const KeyBits& target, const Record& record) const;
  bool AnchorIsAbove(const KeyBits& target, size_t group) const;
  size_t GroupOf(const KeyBits& target) const;
  void PrefetchRecord(size_t group) const;
  bool HasPrefix(const KeyBits& target, uint64_t bits, size_t group, Record* record) const;
  OrderAnswer FindNumber(const Target& target, size_t group, Record* record, bool* beyond) const;
  OrderAnswer NumberBefore(const Target& target, const KeyBits& with_prefix, uint64_t prefix, uint64_t number,
                           unsigned shift) const;
  OrderAnswer FindBranch(const Target& target, const Record& record, uint64_t common, bool* beyond) const;
  OrderAnswer BoundAt(size_t group, const Target& target) const;
  OrderAnswer EndBound(const Target& target, const KeyBits& data, uint64_t bits) const;
  OrderAnswer EndBoundBefore(const Target& target, const KeyBits& data, uint64_t bits) const;
  std::string AnchorOf(const Record& record) const;

  size_t groups_ = 0;
  unsigned extra_ = 0;
  KeyCode code_;
  const uint8_t* shared_ = nullptr;  // what all keys begin with
  size_t shared_bytes_ = 0;
  const uint8_t* prefix_ = nullptr;  // what all keys' bits behind that begin with, in whole bytes
  size_t prefix_bytes_ = 0;
  const uint8_t* windows_ = nullptr;  // 64 bits of each anchor behind the prefix
  const uint8_t* offsets_ = nullptr;  // of each record
  const uint8_t* records_ = nullptr;
  size_t records_bytes_ = 0;
};

}  // namespace cairn
