// What each engine would cost for one workload, by the models of cairn/msls.h: the comparison of `cairn advise`.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cairn/msls.h"
#include "cairn/silt.h"
#include "cairn/trie.h"

namespace cairn {

using msls::Design;
using msls::Popularity;
using msls::Report;
using msls::StoreShape;

// What is written, and into what. Units as in cairn/msls.h.
struct EngineWorkload {
  Popularity popularity;
  bool is_zipf = true;  // popularity is by Zipf's law, of exponent `zipf`
  double zipf = 0;
  double item_bytes = 100;  // in a table
  double data_bytes = 0;    // of keys and values that take table_bytes in tables; 0: as many as those
  double table_bytes = 0;
  double write_buffer_bytes = 64 << 20;  // what a flush writes, without duplicates
  double fill = 1;                       // ... by the size of the write buffer
  double file_bytes = 64 << 20;
  double level_base_bytes = 256 << 20;
  // Bytes kept for each live byte, and runs visited for a key that exists; 0: no limit.
  double max_space = 0;
  double max_runs_to_hit = 0;
  // The options of every engine are searched. A limit of 0 is then what the engine takes without them; of space, at
  // least least_space.
  bool search = false;
  double least_space = 0;
  bool search_ordered_trie = false;  // its own, too, which takes minutes
};

inline constexpr char kLeveledBest[] = "leveled, best sizes";

struct EngineCosts {
  std::string name;                                          // "leveled", "leveled, best sizes", "round_robin" ...
  std::string engine;                                        // for UseEngine and `cairn options`
  std::string engine_options;                                // of the engine
  std::vector<std::pair<std::string, std::string>> rocksdb;  // RocksDB's options beside it
  bool key_order = true;
  Report before;  // where options are searched: with the engine's defaults, or the database's own options
  Report report;  // with the options above
  // Bytes kept for each live byte at most, while the largest compaction has its inputs and its outputs: a bound, where
  // report.space_amplification is a mean.
  double peak_space = 0;
  std::string no_model;        // why there are no costs; empty: there are
  std::string no_search;       // why other options were not found; empty: these are the best
  bool within_limits = false;  // of EngineWorkload
};

// All engines, each with the options that write least within the limits where its model can tell, and with its defaults
// where not: RocksDB's leveled compaction as it comes (`leveled`), with the best level sizes, round_robin, universal,
// ordered, ordered_trie, trie and silt. A second or two, most of it for ordered_trie.
std::vector<EngineCosts> CompareEngines(const EngineWorkload& workload);

// What a store costs as it is, and with the best options if they are searched: one of leveled or universal compaction,
// with as many levels as `levels` allows; a trie whose tables take `table_bytes` for `data_bytes`; the others.
EngineCosts CostsOfShape(const EngineWorkload& workload, const StoreShape& now, const msls::OptimizeOptions& levels);
EngineCosts CostsOfTrie(const EngineWorkload& workload, const HashTrieOptions& now, double data_bytes,
                        double table_bytes);
EngineCosts CostsOfSilt(const EngineWorkload& workload, const SiltOptions& now);
EngineCosts CostsOfOrderedTrie(const EngineWorkload& workload, const KeyTrieOptions& now);

// Whether its options write 1 % less than it did before, or have to keep a limit that it broke.
bool HasBetterOptions(const EngineWorkload& workload, const EngineCosts& costs);

// The options as text: "engine=NAME;OPTION=VALUE;..." for UseEngineFromString, unless it is RocksDB as it comes; and
// RocksDB's, a line each, as an OPTIONS file has them under [CFOptions].
std::string OptionsText(const EngineCosts& costs);

// A smaller gain is none.
constexpr double kLittle = 0.01;

// Whether what the report says is within the workload's limits.
bool KeepsLimits(const EngineWorkload& workload, const Report& report);

enum class EngineNeeds {
  kNothing,
  kKeyOrder,  // the order of keys is kept
  kNoPeaks,   // EngineWorkload::max_space is kept by peak_space, too
};

// Fills peak_space and within_limits. CompareEngines does.
void SetPeak(const EngineWorkload& workload, EngineCosts* costs);

// The one that writes least within the limits; null if there is none.
const EngineCosts* BestEngine(const std::vector<EngineCosts>& engines, const EngineWorkload& workload,
                              EngineNeeds needs);

// --- The curve over the size: what `cairn model --sizes` prints ---

struct ScaleWorkload {
  double keys = 0;          // all as popular
  double item_bytes = 100;  // key and value
  double buffer_items = 0;  // of a write buffer
};

// What an engine with its defaults costs (universal: at 16 runs), the log left out.
struct ScaleCosts {
  std::string engine;
  double keys = 0;
  double load_written = 0;           // write amplification of filling it, each key once in random order,
  double written = 0;                // and of overwriting it in its steady state
  double space = 0, peak_space = 0;  // in the steady state
  double sorted_runs = 0;
  double memory = 0;                           // filters and indexes, bytes by key
  double present_reads = 0, absent_reads = 0;  // blocks that a lookup reads, filters and indexes in memory
  // The same where those of the largest level, depth or run are not; 0: there is no other, or it is not known (silt).
  double upper_memory = 0, upper_present_reads = 0, upper_absent_reads = 0;
};

const std::vector<std::string>& ScaleEngines();
IndexStatus CostsAtScale(const std::string& engine, const ScaleWorkload& workload, ScaleCosts* costs);

}  // namespace cairn
