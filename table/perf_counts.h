// Whether the calling thread's perf context of RocksDB counts.
//
// Thread-safety: each thread asks for itself.

#pragma once

#include "monitoring/perf_context_imp.h"

namespace cairn {

inline bool PerfContextCounts() { return rocksdb::perf_level >= rocksdb::PerfLevel::kEnableCount; }

// Whether it counts by level, which takes each table's own answer.
inline bool PerfContextCountsByLevel() {
  return PerfContextCounts() && rocksdb::get_perf_context()->per_level_perf_context_enabled;
}

}  // namespace cairn
