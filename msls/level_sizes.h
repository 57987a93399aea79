// The level sizes of a column family without level_compaction_dynamic_level_bytes, as its options have them: what the
// user set, what the tuner set, and whether the two are the same.
//
// Thread-safety: functions without state.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace cairn {

struct LevelSizes {
  uint64_t base = 0;
  double multiplier = 10;
  std::vector<int> additional;  // without ones at the end, which mean nothing
};

inline bool operator==(const LevelSizes& a, const LevelSizes& b) {
  return a.base == b.base && a.multiplier == b.multiplier && a.additional == b.additional;
}
inline bool operator!=(const LevelSizes& a, const LevelSizes& b) { return !(a == b); }

// Level 1 is the base, level i + 1 is level i times the multiplier times additional[i], and levels that are not listed
// are the multiplier apart. Additional multipliers are whole numbers, so ratios of levels are given in hundredths of a
// multiplier of 0.01. That is no ratio for levels to come, so all of them are listed, `level_multiplier` apart.
//
// For levels 1 ... of `level_bytes`, which is not empty, and a last level of at most `last_bytes`. It holds that much
// before the level below it is begun, and `level_multiplier` times the level above it if that is more. At least
// `num_levels` levels, level 0 included, are listed.
LevelSizes LevelSizesFor(const std::vector<double>& level_bytes, double last_bytes, double level_multiplier,
                         size_t num_levels);

// For SetOptions.
std::unordered_map<std::string, std::string> LevelSizeOptions(const LevelSizes& sizes);

// "256.0 MiB x 10" or "400.0 MiB, 1.5 GiB, 15.0 GiB ...": for people.
std::string LevelSizesText(const LevelSizes& sizes);

// The targets in bytes of levels 1 to num_levels - 1, by RocksDB's arithmetic.
std::vector<double> LevelTargets(const LevelSizes& sizes, int num_levels);

// What a user meant who changed some of `ours`, which a tuner had set in place of `theirs`: what was changed, and
// `theirs` for the rest.
LevelSizes MergedSizes(const LevelSizes& now, const LevelSizes& ours, const LevelSizes& theirs);

}  // namespace cairn
