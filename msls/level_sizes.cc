#include "msls/level_sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cairn {

namespace {

constexpr double kUnit = 0.01;
// Far below 2^64, where RocksDB stops multiplying; a level that would be larger is as large as the one before.
constexpr double kMostBytes = 1e18;

}  // namespace

LevelSizes LevelSizesFor(const std::vector<double>& level_bytes, double last_bytes, double level_multiplier,
                         size_t num_levels) {
  LevelSizes sizes;
  sizes.base = static_cast<uint64_t>(level_bytes[0]);
  sizes.multiplier = kUnit;
  sizes.additional = {1};
  double reached = std::floor(level_bytes[0]);
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
    sizes.additional.push_back(static_cast<int>(units));
    reached = unit * units;
  }
  return sizes;
}

std::unordered_map<std::string, std::string> LevelSizeOptions(const LevelSizes& sizes) {
  std::string additional;
  for (int factor : sizes.additional) additional += (additional.empty() ? "" : ":") + std::to_string(factor);
  char multiplier[40];
  snprintf(multiplier, sizeof(multiplier), "%.17g", sizes.multiplier);
  return {{"max_bytes_for_level_base", std::to_string(sizes.base)},
          {"max_bytes_for_level_multiplier", multiplier},
          {"max_bytes_for_level_multiplier_additional", additional.empty() ? "1" : additional}};
}

std::string LevelSizesText(const LevelSizes& sizes) {
  constexpr int kLevelsShown = 4;
  std::string text;
  for (double bytes : LevelTargets(sizes, kLevelsShown + 1)) {
    char size[40];
    snprintf(size, sizeof(size), "%s%.1f MiB", text.empty() ? "" : ", ", bytes / (1 << 20));
    text += size;
  }
  return text;
}

std::vector<double> LevelTargets(const LevelSizes& sizes, int num_levels) {
  std::vector<double> targets;
  // MultiplyCheckOverflow of RocksDB: what does not fit stays as it is.
  const auto times = [](uint64_t size, double factor) -> uint64_t {
    if (size == 0 || factor <= 0) return 0;
    if (static_cast<double>(UINT64_MAX) / static_cast<double>(size) < factor) return size;
    return static_cast<uint64_t>(static_cast<double>(size) * factor);
  };
  uint64_t size = sizes.base;
  for (size_t level = 1; level < static_cast<size_t>(num_levels); level++) {
    if (level > 1) {
      size =
          times(times(size, sizes.multiplier), level - 1 < sizes.additional.size() ? sizes.additional[level - 1] : 1);
    }
    targets.push_back(static_cast<double>(size));
  }
  return targets;
}

LevelSizes MergedSizes(const LevelSizes& now, const LevelSizes& ours, const LevelSizes& theirs) {
  LevelSizes merged = now;
  if (now.base == ours.base) merged.base = theirs.base;
  if (now.multiplier == ours.multiplier) merged.multiplier = theirs.multiplier;
  if (now.additional == ours.additional) merged.additional = theirs.additional;
  return merged;
}

}  // namespace cairn
