// Runs mixes of operations (mixes.h) on a database: stores the items, then each mix in turn, as YCSB prescribes. Every
// value that is read is compared with the newest one; a scan of streams must bring every item, other scans present
// items in order.
//
// Thread-safety: one thread calls.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db_bench/engines.h"
#include "db_bench/measure.h"
#include "db_bench/mixes.h"
#include "db_bench/report.h"

namespace cairn::bench {

struct MixSettings {
  std::vector<const Mix*> mixes;  // of one shape
  uint64_t items = 0;
  uint64_t operations = 0;  // of each mix
  size_t record_bytes = 0;  // of Shape::kRecord; 0: as published
  uint64_t write_buffer_size = 0;
  uint64_t seed = 0;
  bool count_at_last = false;  // whether a scan of everything finds as many items as there are
  std::string database;        // its folder
};

// Adds to *json, into the object that is open: of the load its rate, of each mix its rate and the latencies of each
// kind of operation, of all together write and space amplification. `db` is empty. Mixes that need key order are left
// out where an engine has none, which *json lists.
rocksdb::Status RunMixes(const Engine& engine, const MixSettings& settings, rocksdb::DB* db,
                         const rocksdb::Statistics& statistics, JsonWriter* json);

}  // namespace cairn::bench
