// Write amplification of multi-stage log-structured stores: how many bytes LevelDB, RocksDB (leveled and universal),
// SAMT, COLA, SILT and Cairn's trie write for each byte that the application writes, computed from the popularity of
// keys and the shape of the store; a simulator at file granularity that checks the computation; and an optimizer of the
// shape.
//
// This header depends on the C++ library alone. Nothing here opens a database.
//
// Units: keys, requests and items are counted (as double, so that 10^12 of them fit); names that end in `bytes` are
// bytes. All items are taken to have one size, so a ratio of items is a ratio of bytes.
//
// Thread-safety: everything here is immutable after construction or a free function without shared state.
//
// Errors: an IndexStatus whose message names the parameter, the value and what is allowed. No exceptions, no abort on
// bad input.
//
// Source: Lim's thesis (CMU 2015), chapter 4, "Analyzing Multi-Stage Log-Structured Designs";
// docs/design/msls.md has the formulas and says where this library departs from it.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/index_status.h"

namespace cairn::msls {

// A number of keys that share one popularity, relative to the other bins (a count of requests per key, say).
struct HistogramBin {
  double weight;
  double keys;
};

// The probability that a write goes to each key, and what follows from it about the number of distinct keys in a
// sequence of independent requests. A cheap value to copy: copies share the tables.
//
// Keys are compressed into groups of similar probability. Within a group a sum over keys becomes a Gauss quadrature of
// the discrete measure (exact for polynomials up to degree 5 in the rank), so Unique is within 10^-6 of the exact sum
// (measured: msls/popularity_test.cc) and costs the same for 10^3 keys as for 10^12.
class Popularity {
 public:
  // All `keys` equally likely. 1 <= keys <= 10^15.
  static IndexStatus Uniform(double keys, Popularity* out);
  // The key of rank i (from 1) has probability proportional to i^-s. 0 <= s <= 8; s = 0 is uniform.
  static IndexStatus Zipf(double keys, double s, Popularity* out);
  // Bins of weight 0 are keys that are never written and are left out.
  static IndexStatus Histogram(std::vector<HistogramBin> bins, Popularity* out);
  // Text, one bin a line: `weight` or `weight keys`; empty lines and lines that begin with # are skipped.
  static IndexStatus HistogramFromFile(const std::string& path, Popularity* out);
  // The same for a store of `keys` keys, of which the file's are a sample: each bin has so many times as many. Bins of
  // weight 0 are keys that are there and hardly ever written.
  static IndexStatus HistogramOfSample(const std::string& path, double keys, Popularity* out);

  // One key with probability 1/2 and one other: what a default object means. Exists so that out parameters are easy to
  // declare.
  Popularity();

  // The number of distinct keys that can be written.
  double keys() const;
  // "uniform", "zipf 0.99" or "histogram".
  const std::string& name() const;

  // Expected number of distinct keys in `requests` requests; increasing, concave, from 0 to keys(). Infinity is
  // allowed.
  double Unique(double requests) const;
  // keys() - Unique(requests), without cancellation where Unique is close to keys().
  double Missing(double requests) const;
  // The number of requests in which `unique` distinct keys are expected; infinity from keys() on, 0 up to 0.
  double UniqueInverse(double unique) const;
  // Distinct keys of the union of two tables of u and v distinct keys that came from separate requests.
  double Merge(double u, double v) const;

  // The mean of Unique over [0, requests]: the size of a level whose key space is swept once every `requests` requests.
  double MeanUnique(double requests) const;
  // The inverse of MeanUnique: the number of requests between two compactions of one key of a level that holds `size`
  // keys, when the level is swept in a circle.
  double DInterval(double size) const;
  // The probability that a level with sweep interval `dinterval` has an item for the key at `distance` (0 to 1, a part
  // of the key space) behind the last compacted key.
  double Density(double dinterval, double distance) const;

  // The probability that a request asks for a key that is in none of the last `requests` requests, for reads that
  // follow the popularity of writes.
  double MissProbability(double requests) const;

  class Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

enum class Design {
  kLevelDB,    // levels of files, picked round-robin; level sizes as given
  kRocksDB,    // leveled compaction with RocksDB 9.10's file picking, input expansion and output cutting
  kUniversal,  // RocksDB's universal compaction
  kSamt,       // sorted array merge tree: `growth` tables a level
  kCola,       // cache-oblivious lookahead array: one table per level, `growth` - 1 merges into it
  kSilt,       // log, hash stores, one sorted store
  kTrie,       // Cairn's trie (cairn/trie.h)
};

// RocksDB's compaction_pri, and the same names.
enum class FilePick {
  kByCompensatedSize,
  kOldestLargestSeqFirst,
  kOldestSmallestSeqFirst,
  kMinOverlappingRatio,
  kRoundRobin,
};

// "leveldb", "rocksdb", "universal", "samt", "cola", "silt", "trie".
IndexStatus DesignFromName(const std::string& name, Design* out);
const char* DesignName(Design design);
// RocksDB's names, "kMinOverlappingRatio" and so on.
IndexStatus FilePickFromName(const std::string& name, FilePick* out);
const char* FilePickName(FilePick pick);

// The shape of a store. A design ignores the fields that it does not name.
struct StoreShape {
  // The defaults of the system: LevelDB 1.23, RocksDB 9.10, the thesis' SILT, cairn::HashTrieOptions.
  static StoreShape Default(Design design);

  Design design = Design::kRocksDB;

  // Key and value of one item with the table's overhead.
  double item_bytes = 100;
  // Whether each write goes to a log as well (1 unit of write amplification). SILT's log is its LogStore and always
  // there.
  bool log = true;
  // What is gathered in memory before it is written as one table.
  double write_buffer_bytes = 64 << 20;
  // kLevelDB, kRocksDB: level-0 files at which they are compacted. kUniversal: sorted runs at which compaction is
  // considered.
  int level0_trigger = 4;

  // kLevelDB, kRocksDB: sizes of levels 1, 2 ... up to the last but one; the last level holds every key and needs no
  // size. Each larger than the one before. Empty: level_base_bytes times powers of level_multiplier while smaller than
  // the data.
  std::vector<double> level_bytes;
  double level_base_bytes = 256 << 20;
  double level_multiplier = 10;
  // kRocksDB: sizes follow from the data upward, as level_compaction_dynamic_level_bytes does; level_bytes must be
  // empty.
  bool dynamic_level_bytes = true;
  double file_bytes = 64 << 20;
  FilePick pick = FilePick::kMinOverlappingRatio;

  // kUniversal: as in rocksdb::CompactionOptionsUniversal.
  int size_ratio_percent = 1;
  int min_merge_width = 2;
  int max_size_amplification_percent = 200;

  // kSamt, kCola.
  int growth = 4;
  // kSamt, kCola: number of levels; 0: as many as the data needs.
  int levels = 0;

  // kSilt: slots of one hash store, the part of them that is used, hash stores merged at a time, and instances that
  // share the keys.
  double hash_store_slots = 131072;
  double hash_store_occupancy = 0.93;
  int hash_stores = 62;
  int instances = 4;

  // kTrie: as in cairn::HashTrieOptions, but space_bound counts items (see SpaceBoundInItems).
  int root_trigger = 16;
  int container_trigger = 15;
  // Levels of a depth, at least container_trigger, the rest being headroom; 0: a third more than container_trigger.
  int slots = 0;
  int fan_out = 8;
  double grow_liveness = 0.52;
  double space_bound = 1.5;
};

// One source of writes: "log", "level-0", "level-1 to 2" ... and bytes written there for each byte that the application
// writes.
struct WriteCost {
  std::string name;
  double value;
};

struct Report {
  double write_amplification = 0;  // the sum of the breakdown
  std::vector<WriteCost> breakdown;
  // Items of each level, run or depth, newest first; level 0 is left out.
  std::vector<double> level_items;
  // Items stored for each live key, on average over time.
  double space_amplification = 0;
  // Sorted runs that hold data, on average over time: what a lookup of a key that does not exist visits without
  // filters.
  double sorted_runs = 0;
  // Of these, those of the deepest level or depth; 0: not known.
  double deepest_runs = 0;
  // Sorted runs that a lookup visits until it finds its key, without filters, for reads that follow the popularity of
  // writes.
  double runs_to_hit = 0;
  // Of kUniversal and kTrie, and of simulations of kLevelDB and kRocksDB, else 0: items stored for each live key at
  // most at any moment, with the outputs of the compaction that is under way, whose inputs are still there.
  double most_space_amplification = 0;
};

// InvalidArgument that names the field, its value and what is allowed, or OK.
IndexStatus Validate(const StoreShape& store, const Popularity& popularity);

// Items of levels 1 ... of a kLevelDB or kRocksDB store; the last entry is all keys.
IndexStatus LevelItems(const StoreShape& store, const Popularity& popularity, std::vector<double>* items);

// What the store writes in its steady state: every key has been written, and keys go on being overwritten by their
// popularity.
IndexStatus Model(const StoreShape& store, const Popularity& popularity, Report* report);

// The write amplification of filling a kLevelDB, kRocksDB, kUniversal or kTrie store: so many keys, each written once,
// in random order. InvalidArgument for the other designs.
IndexStatus ModelLoad(const StoreShape& store, double keys, double* write_amplification);

struct SimulationOptions {
  uint64_t seed = 1;
  // After every key was written once in random order, requests by popularity: first these, not counted; negative: as
  // many as keys.
  double warm_requests = -1;
  // Then these, counted; negative: three times the number of keys, as in the thesis.
  double requests = -1;
  // kRocksDB with kRoundRobin: whether output files end where the level that they come to goes on being swept, as those
  // of RocksDB do. Without that, no level can come to be swept in step with the one above (docs/design/tuner.md).
  bool split_at_cursor = true;
};

// Plays the store in memory, file by file and key by key, and counts. At most 10^9 keys, and about 10 bytes of memory
// for each stored item; time grows with requests times write amplification (10^6 keys: about a second).
IndexStatus Simulate(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                     Report* report);

// Limits that a better shape must keep. A limit of 0 is none.
struct OptimizeOptions {
  // kLevelDB, kRocksDB: levels without level 0 to try; 0: the number that the store has. More levels are not always
  // fewer writes.
  int min_levels = 0;
  int max_levels = 0;
  // The write buffer may grow to this; 0: it stays. (Write amplification never rises with it.)
  double max_write_buffer_bytes = 0;
  // Report::space_amplification, Report::sorted_runs and Report::runs_to_hit. The store that Optimize starts from may
  // break them.
  double max_space_amplification = 0;
  double max_sorted_runs = 0;
  double max_runs_to_hit = 0;
};

struct Optimum {
  StoreShape store;
  Report before;
  Report after;
  // Shapes that were computed.
  int evaluations = 0;
};

// The shape with the least write amplification by the model. What it changes:
//   kLevelDB, kRocksDB: level_bytes (and their number); for kRocksDB dynamic_level_bytes is turned off.
//   kUniversal: level0_trigger, max_size_amplification_percent.  kSamt, kCola: growth.  kSilt: hash_stores.
//   kTrie: root_trigger, container_trigger with slots, space_bound.  (Fan-out changes the size of files, not what is
//   written.)
// Without a limit the last four trade reads and space for writes up to the ends of the ranges searched: set limits.
// InvalidArgument if no shape keeps the limits. Source: the thesis, section 4.6; the solver is NLopt's Sbplx over the
// logarithms of the level sizes, from several starts.
IndexStatus Optimize(const StoreShape& store, const Popularity& popularity, const OptimizeOptions& options,
                     Optimum* optimum);

// A kTrie store's space_bound for TrieOptions::space_bound, which is on bytes of files for bytes of live keys and
// values, where tables take `table_bytes` for `data_bytes` of keys and values: so that compaction for space begins at
// as many items (8 % less with filters of 16 bits and items of 100 B). With the bytes swapped, the way back. Never
// below 1.1.
double SpaceBoundInItems(double space_bound, double data_bytes, double table_bytes);

// The store's shape as RocksDB options of a column family, name and value, in the form that an OPTIONS file and
// SetOptions take; only for kRocksDB, kLevelDB (as RocksDB with kRoundRobin) and kUniversal. Level sizes are reached
// within 1 %: max_bytes_for_level_multiplier is 0.01 and max_bytes_for_level_multiplier_additional holds the ratios in
// hundredths. The last level has room for twice the data, or for level_multiplier times the level before it if that is
// more; levels that growing data adds below it are level_multiplier apart.
IndexStatus RocksDBOptions(const StoreShape& store, const Popularity& popularity,
                           std::vector<std::pair<std::string, std::string>>* options);

}  // namespace cairn::msls
