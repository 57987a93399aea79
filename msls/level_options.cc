#include "msls/level_options.h"

#include <algorithm>
#include <cmath>

namespace cairn::msls {

namespace {

constexpr double kUnit = 0.01;
// Far below 2^64, where RocksDB stops multiplying; a level that would be larger is as large as the one before.
constexpr double kMostBytes = 1e18;

}  // namespace

LevelOptions LevelOptionsFor(const std::vector<double>& level_bytes, double last_bytes, double level_multiplier,
                             size_t num_levels) {
  LevelOptions options;
  options.base = std::floor(level_bytes[0]);
  options.multiplier = kUnit;
  options.additional = {1};
  double reached = options.base;
  const size_t last = level_bytes.size();  // listed at this index
  // Some more than there are, for a database that is opened with more levels later.
  constexpr size_t kSpare = 3;
  for (size_t i = 1; i < std::max(num_levels, last + 2) + kSpare; i++) {
    double wanted = level_multiplier * reached;
    if (i < last) wanted = level_bytes[i];
    if (i == last) wanted = std::max(wanted, last_bytes);
    wanted = std::min(wanted, std::max(reached, kMostBytes));
    const double unit = std::max(1.0, std::floor(reached * kUnit));
    const double units = std::min(2e9, std::max(1.0, std::round(wanted / (reached * kUnit))));
    options.additional.push_back(static_cast<int>(units));
    reached = unit * units;
  }
  return options;
}

}  // namespace cairn::msls
