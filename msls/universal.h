// Which sorted runs RocksDB's universal compaction merges next, for sizes that may be counted or expected. One
// compaction at a time.

#pragma once

#include <cstddef>
#include <vector>

#include "cairn/msls.h"

namespace cairn::msls {

struct UniversalPick {
  size_t begin = 0, end = 0;  // of the runs, newest first; empty: nothing to do
  const char* reason = "";    // "size amplification", "size ratio" or "run count"
};

// `sizes` are those of the runs, newest first.
UniversalPick PickUniversal(const StoreShape& store, const std::vector<double>& sizes);

}  // namespace cairn::msls
