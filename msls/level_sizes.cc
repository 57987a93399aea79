#include "msls/level_sizes.h"

#include <cstdio>

namespace cairn {

LevelSizes LevelSizesOf(const rocksdb::ColumnFamilyOptions& options) {
  LevelSizes sizes{options.max_bytes_for_level_base, options.max_bytes_for_level_multiplier,
                   options.max_bytes_for_level_multiplier_additional};
  while (!sizes.additional.empty() && sizes.additional.back() == 1) sizes.additional.pop_back();
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
