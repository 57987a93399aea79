#include "msls/universal.h"

#include <limits>

namespace cairn::msls {

namespace {

// PickCompactionToReduceSortedRuns: runs in a row, each not larger than the sum of those before it and `ratio` percent.
UniversalPick PickByRatio(const StoreShape& store, const std::vector<double>& sizes, double ratio, size_t most,
                          const char* reason) {
  for (size_t begin = 0; begin < sizes.size(); begin++) {
    double candidate = sizes[begin];
    size_t end = begin + 1;
    while (end - begin < most && end < sizes.size() && candidate * (100 + ratio) / 100 >= sizes[end])
      candidate += sizes[end++];
    if (end - begin >= static_cast<size_t>(store.min_merge_width)) return {begin, end, reason};
  }
  return {};
}

}  // namespace

UniversalPick PickUniversal(const StoreShape& store, const std::vector<double>& sizes) {
  const size_t trigger = static_cast<size_t>(store.level0_trigger);
  if (sizes.size() < trigger || sizes.size() < 2) return {};
  double above = 0;
  for (size_t i = 0; i + 1 < sizes.size(); i++) above += sizes[i];
  if (above * 100 >= sizes.back() * store.max_size_amplification_percent)
    return {0, sizes.size(), "size amplification"};
  const UniversalPick pick =
      PickByRatio(store, sizes, store.size_ratio_percent, std::numeric_limits<size_t>::max(), "size ratio");
  if (pick.end > 0) return pick;
  if (sizes.size() > trigger) return PickByRatio(store, sizes, 1e18, sizes.size() - trigger + 1, "run count");
  return {};
}

}  // namespace cairn::msls
