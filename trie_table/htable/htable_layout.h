// Lays a group of cells out on buckets: which cells go to which home bucket, which are spilled, and which become
// extents.
//
// Thread-safety: a GroupLayout serves one thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace cairn {

// All entries of one hash, as the layout sees them.
struct Cell {
  uint64_t hash = 0;
  size_t bytes = 0;  // in a unit with narrow offsets
  uint32_t entries = 0;
};

struct LayoutOptions {
  size_t capacity = 0;     // bytes of cells that a bucket holds, before compression
  size_t max_entries = 0;  // of a bucket
  // Room in a bucket that is not left empty for the sake of one cell. SIZE_MAX: nothing is spilled.
  size_t spill_threshold = 0;
};

// Cells by their index in the group.
struct GroupLayout {
  uint8_t shift = 0;
  std::vector<std::vector<uint32_t>> homes;   // at least one, the first perhaps empty; in order
  std::vector<uint16_t> bounds;               // of homes
  std::vector<std::vector<uint32_t>> spills;  // spill buckets, cells in order
  std::vector<uint32_t> extents;              // in order
  // Cells that are laid out: the first so many. The others belong to the next group.
  size_t cells = 0;
};

// Chooses where the compressed bucket that begins with home_cells[first] ends: one of `ends`, which grow and of which
// those up to `first` are to be passed over; `first` if not even the first of them fits.
using FitFunction =
    std::function<size_t(const std::vector<uint32_t>& home_cells, const std::vector<size_t>& ends, size_t first)>;

enum class GroupEnd { kMoreFollows, kLast };

// `cells` in order, not empty. Unless it is the last group, a bucket at its end that would be far from full is left to
// the next group.
GroupLayout LayOutGroup(const std::vector<Cell>& cells, const LayoutOptions& options, GroupEnd end);

// The same for compressed buckets, which `fit` fills. It is last asked for the bucket that it is then used for.
GroupLayout LayOutCompressedGroup(const std::vector<Cell>& cells, const LayoutOptions& options, GroupEnd end,
                                  const FitFunction& fit);

}  // namespace cairn
