// Copies a database into another engine, in a new directory, and proves that nothing was lost.
//
//   copy     every column family in the source's order, without WAL; the state file follows the flushes
//   settle   flush, and wait until no compaction is due
//   verify   each record of the source is looked up in the destination and compared; then the destination is read from
//            end to end, and number and fingerprint of its records must be those of the source
//   whole    the destination gets its final options
//
// Each step can be killed at any point and is gone on with by the next call. Both databases may hold wide columns;
// merge operands and range deletions arrive resolved.
//
// Not thread-safe, except for `stop`.

#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "rocksdb/status.h"

namespace cairn {

struct ConvertOptions {
  std::string source;
  std::string destination;
  std::string engine;
  std::vector<std::string> engine_options;
  std::vector<std::string> column_families;  // to convert; empty: all
  bool compact = false;                      // also merge until each key lies in one table
  bool check_space = true;
  uint64_t reserve_bytes = 0;               // of the destination's file system, to be left free
  const std::atomic<bool>* stop = nullptr;  // set: Convert returns Incomplete soon
};

struct ConvertReport {
  bool was_whole_before = false;
  uint64_t records = 0;
  uint64_t column_families = 0;
  uint64_t source_bytes = 0;
  uint64_t destination_bytes = 0;
  std::vector<std::string> notes;
};

// Incomplete: stopped, go on by running again. Corruption: source and destination differ.
rocksdb::Status Convert(const ConvertOptions& options, ConvertReport* report);

}  // namespace cairn
