// RocksDB's perf context of the calling thread: its names, and whether it counts.
//
// Thread-safety: each thread asks for itself.

#pragma once

#include "monitoring/perf_context_imp.h"

namespace cairn {

// RocksDB's macros name them so.
using rocksdb::perf_context;
using rocksdb::perf_level;
using rocksdb::PerfContextByLevel;
using rocksdb::PerfLevel;
using rocksdb::PerfStepTimer;

inline bool PerfContextCounts() { return perf_level >= PerfLevel::kEnableCount; }

// Whether it counts by level, which takes each table's own answer.
inline bool PerfContextCountsByLevel() {
  return PerfContextCounts() && rocksdb::get_perf_context()->per_level_perf_context_enabled;
}

}  // namespace cairn
