// How a batch of keys is cut into groups of an order filter's segment (order_segment.h): numbers where the keys' bits
// lie evenly, branches where they do not, whatever takes fewest bits.
//
// Invariants
//   (1) A batch's entries are in order, and each differs from the one before it.
//   (2) A plan's pieces are in order and cover the batch; one of numbers has two entries at least.
//
// Thread-safety: none; a planner is reused for its memory.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "table/ordered/key_code.h"

namespace cairn {

struct OrderDepth {
  double precision;  // bits per key beyond Elias-Fano's two
  unsigned extra;    // bits of a branch beyond those that tell a key from its neighbours
};

// Of a branch no more bits are kept than this and the extra ones; what the keys behind share beyond them is one entry.
constexpr unsigned kMostBranchBits = 96;
// A lookup walks over half of a group's branches.
constexpr size_t kMostBranches = 128;

// Keys as bits, each with its guard behind it.
struct OrderBatch {
  std::string bytes;
  std::vector<size_t> starts = {0};
  std::vector<uint64_t> common;  // what an entry has in common with the one before, in bits

  size_t size() const { return common.size(); }
  KeyBits at(size_t i) const {
    return {reinterpret_cast<const uint8_t*>(bytes.data()) + starts[i], starts[i + 1] - starts[i] - kKeyBitsGuard};
  }
  uint64_t common_behind(size_t i) const { return i + 1 < common.size() ? common[i + 1] : 0; }
};

struct OrderPiece {
  static constexpr unsigned kBranches = UINT32_MAX;

  size_t begin, end;
  unsigned shift;   // bits of code numbers that are cut off; kBranches for branches
  uint64_t prefix;  // of numbers: bits that all have in common
};

struct OrderPlan {
  double bits = 0;
  double error = 0;  // sum over the entries
  std::vector<OrderPiece> pieces;
};

class OrderPlanner {
 public:
  explicit OrderPlanner(const OrderDepth& depth) : depth_(depth) {}

  // The plan of a batch that is not empty; until the next call.
  const OrderPlan& Plan(const OrderBatch& batch);

 private:
  struct Cost {
    double bits, error;
  };
  struct Numbers {
    Cost cost;
    unsigned shift;
    bool even;  // the error is what evenly spread keys have
  };
  struct Range {
    size_t begin, end;
    size_t
        split;  // the entry that has least in common with the one before, of those behind the first; 0: there is none
  };

  size_t FirstSplit() const;
  void FindSplits();
  void MeasureDistances();
  void SumBranches();
  // How many entries of a range have a mean distance to their neighbours of about 2^i, of the 64 bits behind what all
  // have in common.
  using Distances = std::array<uint32_t, 65>;
  Distances CountByWindows(const Range& range);
  Distances Count(const Range& range) const;
  bool PlanNumbers(const Range& range, const Distances& distances, Numbers* numbers) const;
  bool MayTakeLess(const Range& range, double bits) const;
  bool PaysAtOnce(const Range& range, const Numbers& numbers) const;
  Cost PlanBranches(const Range& range) const;
  Cost PlanRange(const Range& range, int splits);

  const OrderDepth depth_;
  const OrderBatch* batch_ = nullptr;
  OrderPlan plan_;

  // Of a range that an entry splits: the entries that split both parts, 0 if there are none.
  std::vector<uint32_t> left_, right_;
  std::vector<uint32_t> open_;
  std::vector<uint64_t> windows_;
  // The bit, from the key's first, that stands for half of the distance between an entry's neighbours.
  std::vector<uint64_t> distances_;
  // Sums over the entries before.
  std::vector<uint64_t> branch_bits_;
  std::vector<uint32_t> lost_;
};

}  // namespace cairn
