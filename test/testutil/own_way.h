// RocksDB's own lookups in the tables of a Version, for comparison with Cairn's.

#pragma once

#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"

namespace cairn {

// While one lives, lookups of this thread go RocksDB's own way, table by table.
class OwnWay {
 public:
  OwnWay() : level_(rocksdb::GetPerfLevel()) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->EnablePerLevelPerfContext();
  }
  ~OwnWay() {
    rocksdb::get_perf_context()->ClearPerLevelPerfContext();
    rocksdb::SetPerfLevel(level_);
  }

 private:
  const rocksdb::PerfLevel level_;
};

}  // namespace cairn
