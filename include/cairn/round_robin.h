// round_robin: RocksDB's leveled compaction with the level sizes that write least, and with tables picked in turn,
// which is what those sizes are computed for.
//
//   rocksdb::Options options;
//   cairn::RoundRobinOptions workload;
//   workload.keys = 50000000;  // or leave it out: the tuner measures
//   workload.item_bytes = 110;
//   rocksdb::Status s = cairn::UseRoundRobin(&options, workload);
//
// The level sizes come from the optimizer of cairn/msls.h for the workload that is given; a tuner (cairn/tuner.h)
// measures the workload that comes, and follows it. Tables, comparator and memtables stay what the options have. An
// existing leveled database can be opened with it, and a database of it without: nothing is converted.
//
// For 50 M uniform keys, within a space bound of 1.25, it writes 12 % less than RocksDB's defaults do;
// docs/design/tuner.md says why the picker is RocksDB's own kRoundRobin.
//
// Units: keys are counted, names that end in `bytes` are bytes. Errors: InvalidArgument names the option and what it
// may be, or says that the solver's library (NLopt) is missing; NotSupported says what of the options stands in the
// way.
//
// Thread-safety: functions without state.
//
// Source: Lim's thesis (CMU 2015), section 4.6: level sizes by optimization, for tables picked round-robin.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

struct RoundRobinOptions {
  // Which table of a level is compacted next: "round_robin" (RocksDB's kRoundRobin), or "best": of that and
  // kMinOverlappingRatio, RocksDB's default, the one that writes less by the model with the sizes that are best for it.
  // Without `keys` "best" is the default. It is read when the database is opened.
  std::string pick = "round_robin";

  // The workload. `keys`: distinct keys; 0: not known, and the level sizes stay those of the options until the tuner
  // has measured. `item_bytes`: key and value of one item as it lies in a table, compressed. `zipf`: skew of the
  // popularity of written keys, 0 to 8; 0: all alike.
  uint64_t keys = 0;
  uint64_t item_bytes = 100;
  double zipf = 0;

  // Bytes kept for each live byte that the level sizes may cost, by the model; 0: no limit. What writes least keeps 1.4
  // to 1.7, and 1.25 is close to it. Where no sizes keep the limit, because the data are a few write buffers, sizes
  // stay.
  double max_space = 1.25;

  // OrderFilterOptions::tombstone_run (cairn/ordered.h), for tables of any format.
  uint32_t tombstone_run = 512;

  // Lets a tuner of the database watch the column family and set its level sizes. TunerOptions::window_flushes and
  // min_seconds_between_changes.
  bool tune = true;
  uint64_t window_flushes = 256;
  double min_seconds_between_changes = 3600;
};

// Parses "keys=50000000;zipf=0.99;pick=best;...": fields not named keep their value in *options. Unknown names and bad
// values are InvalidArgument and leave *options unchanged. K, M and G behind a whole number are powers of 1,024, as in
// all of RocksDB's option strings.
rocksdb::Status RoundRobinOptionsFromString(const std::string& text, RoundRobinOptions* options);

// All fields, in the form that RoundRobinOptionsFromString reads.
std::string RoundRobinOptionsToString(const RoundRobinOptions& options);

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateRoundRobinOptions(const RoundRobinOptions& options);

// Sets compaction style, pick and level sizes of a column family, and has its flushes sample their keys. Buffer, file
// and level-0 options are what the sizes are computed for: set them before. OPTIONS files hold all of it, and the
// partitioner cairn.RoundRobin, which cuts nothing and names the options; so it takes no other partitioner.
rocksdb::Status UseRoundRobin(rocksdb::ColumnFamilyOptions* options,
                              const RoundRobinOptions& round_robin = RoundRobinOptions());

// Adds the tuner, unless there is one. Every opening does, if a column family asks for it; only column families that
// are created later need it here. A tuner of your own (UseTuner) takes its place.
rocksdb::Status UseRoundRobinTuner(rocksdb::DBOptions* options);

// Both of the above.
rocksdb::Status UseRoundRobin(rocksdb::Options* options, const RoundRobinOptions& round_robin = RoundRobinOptions());

// True if `options` describe a column family of round_robin; *round_robin (may be null) gets its options.
bool IsRoundRobin(const rocksdb::ColumnFamilyOptions& options, RoundRobinOptions* round_robin);

}  // namespace cairn
