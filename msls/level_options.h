// Level sizes in the form that RocksDB's options have: level 1 is the base, level i + 1 is level i times the multiplier
// times additional[i], and levels that are not listed are the multiplier apart.
//
// Additional multipliers are whole numbers, so ratios of levels are given in hundredths of a multiplier of 0.01. That
// is no ratio for levels to come, so all of them are listed, `level_multiplier` apart.
//
// Thread-safety: functions without state.

#pragma once

#include <cstddef>
#include <vector>

namespace cairn::msls {

struct LevelOptions {
  double base = 0;
  double multiplier = 0;
  std::vector<int> additional;
};

// For levels 1 ... of `level_bytes`, which is not empty, and a last level of at most `last_bytes`. It holds that much
// before the level below it is begun, and `level_multiplier` times the level above it if that is more. At least
// `num_levels` levels, level 0 included, are listed.
LevelOptions LevelOptionsFor(const std::vector<double>& level_bytes, double last_bytes, double level_multiplier,
                             size_t num_levels);

}  // namespace cairn::msls
