#include "tools/engine_costs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "cairn/engines.h"
#include "cairn/ordered.h"
#include "msls/key_trie_model.h"
#include "msls/model_options.h"
#include "table/silt/silt_merges.h"
#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

namespace {

using msls::FilePick;
using msls::OptimizeOptions;
using msls::Optimum;

// More levels than these are never better by the model, for data of any size.
constexpr int kMostLevels = 6;
// Of a search; silt's default is 16.
constexpr int kMostMergeTrigger = 256;
// Of limits.
constexpr double kRounding = 1.005, kNoLimit = 1e9;
// RocksDB's max_compaction_bytes by target_file_size_base.
constexpr double kFilesOfACompaction = 25;
// Bytes that tables of tries take for an item besides key and value, filters and samples included: HTables, and ordered
// tables with 10 bits of Bloom filter.
constexpr double kHTableOverhead = 14, kOrderedTableOverhead = 11;
// Filters of RocksDB's own engines, as db_bench/engines.h has them; a cuckoo filter's slots in use, and those that may
// hold a key's tag.
constexpr double kRocksDBFilterBits = 10, kCuckooFill = 0.95, kCuckooPlaces = 8;

StoreShape ShapeOf(const EngineWorkload& workload, Design design) {
  StoreShape store = StoreShape::Default(design);
  store.item_bytes = workload.item_bytes;
  store.write_buffer_bytes = workload.write_buffer_bytes;
  store.file_bytes = std::max(workload.item_bytes, workload.file_bytes);
  store.level_base_bytes = std::max(workload.item_bytes, workload.level_base_bytes);
  return store;
}

// Of a search that begins with a store of these costs.
OptimizeOptions LimitsOf(const EngineWorkload& workload, const Report& before) {
  OptimizeOptions limits;
  limits.max_space_amplification = workload.max_space;
  limits.max_runs_to_hit = workload.max_runs_to_hit;
  if (workload.search && workload.max_space == 0) {
    limits.max_space_amplification = std::max(workload.least_space, before.space_amplification);
  }
  if (workload.search && workload.max_runs_to_hit == 0) {
    limits.max_runs_to_hit = before.runs_to_hit;
    limits.max_sorted_runs = before.sorted_runs;
  }
  return limits;
}

std::string Text(const char* format, double value) {
  char text[64];
  snprintf(text, sizeof(text), format, value);
  return text;
}

void DropOptions(EngineCosts* costs, const std::set<std::string>& names) {
  const auto dropped = [&](const auto& option) { return names.count(option.first) > 0; };
  costs->rocksdb.erase(std::remove_if(costs->rocksdb.begin(), costs->rocksdb.end(), dropped), costs->rocksdb.end());
}

// The best shape of the design within the limits if shapes are searched, else the one given; its costs, and RocksDB's
// options if it has any.
StoreShape FindBest(const EngineWorkload& workload, const StoreShape& store, const OptimizeOptions& levels,
                    EngineCosts* costs) {
  costs->no_model = Model(store, workload.popularity, &costs->before).message();
  costs->report = costs->before;
  if (!costs->no_model.empty() || !workload.search) return store;
  OptimizeOptions limits = LimitsOf(workload, costs->before);
  limits.min_levels = levels.min_levels;
  limits.max_levels = levels.max_levels;
  Optimum optimum;
  costs->no_search = Optimize(store, workload.popularity, limits, &optimum).message();
  if (costs->no_search.empty()) costs->report = optimum.after;
  // If no shape searched keeps the limits and the store itself does, it is the best; but levels may be asked for.
  if (store.design != Design::kRocksDB && KeepsLimits(workload, costs->before)) costs->no_search.clear();
  const bool better = HasBetterOptions(workload, *costs);
  if (!better) costs->report = costs->before;
  const StoreShape best = better ? optimum.store : store;
  if (!RocksDBOptions(best, workload.popularity, &costs->rocksdb).ok()) return best;
  // Sizes of buffers and files are given.
  DropOptions(costs, {"write_buffer_size", "target_file_size_base", "num_levels"});
  return best;
}

// One in which shapes of RocksDB's own are searched, with the limits that are given.
EngineWorkload Searched(EngineWorkload workload) {
  if (workload.search) return workload;
  workload.search = true;
  for (double* limit : {&workload.max_space, &workload.max_runs_to_hit}) *limit = *limit > 0 ? *limit : kNoLimit;
  return workload;
}

OptimizeOptions AnyLevels() {
  OptimizeOptions levels;
  levels.min_levels = 1;
  levels.max_levels = kMostLevels;
  return levels;
}

EngineCosts Leveled(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = "leveled";
  costs.engine = kStockEngine;
  costs.no_model = Model(ShapeOf(workload, Design::kRocksDB), workload.popularity, &costs.before).message();
  costs.report = costs.before;
  return costs;
}

// RocksDB's own engine of that design, with the sizes that write least.
EngineCosts StockWithSizes(const char* name, Design design, const EngineWorkload& workload) {
  EngineCosts costs = CostsOfShape(Searched(workload), ShapeOf(workload, design), AnyLevels());
  costs.name = name;
  return costs;
}

EngineCosts RoundRobin(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = costs.engine = "round_robin";
  StoreShape store = ShapeOf(workload, Design::kRocksDB);
  store.pick = FilePick::kRoundRobin;
  FindBest(Searched(workload), store, AnyLevels(), &costs);
  const double max_space = LimitsOf(workload, costs.before).max_space_amplification;
  costs.engine_options = Text("item_bytes=%.0f", workload.item_bytes) + Text(";max_space=%g", max_space);
  if (workload.is_zipf) {
    // The engine finds the sizes itself.
    costs.rocksdb.clear();
    costs.engine_options += Text(";keys=%.0f", workload.popularity.keys()) + Text(";zipf=%.2f", workload.zipf);
  } else {
    // Without keys it begins with the sizes that there are.
    DropOptions(&costs, {"compaction_style", "compaction_pri"});
  }
  return costs;
}

EngineCosts Ordered(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = costs.engine = "ordered";
  const OrderedOptions options;
  StoreShape store = ShapeOf(workload, Design::kUniversal);
  store.level0_trigger = options.runs;
  store.size_ratio_percent = options.size_ratio;
  store.max_size_amplification_percent = options.max_size_amplification_percent;
  const StoreShape best = FindBest(workload, store, OptimizeOptions(), &costs);
  costs.rocksdb.clear();
  if (HasBetterOptions(workload, costs)) {
    costs.engine_options = Text("runs=%.0f", best.level0_trigger) +
                           Text(";max_size_amplification_percent=%.0f", best.max_size_amplification_percent);
  }
  return costs;
}

// Of key and value of an item, and what it takes in tables with `overhead` more.
struct BytesOfItem {
  BytesOfItem(const EngineWorkload& workload, double overhead) {
    if (workload.data_bytes <= 0 || workload.table_bytes <= 0) return;
    data = workload.item_bytes * workload.data_bytes / workload.table_bytes;
    tables = data + overhead;
  }
  double data = 1, tables = 1;
};

template <class Trie>
Trie WithinSpace(Trie trie, const EngineWorkload& workload) {
  if (workload.max_space > 0 && !workload.search) trie.space_bound = std::max(1.1, workload.max_space);
  return trie;
}

// Under the bound on space.
EngineCosts Trie(const EngineWorkload& workload) {
  const BytesOfItem item(workload, kHTableOverhead);
  const HashTrieOptions trie = WithinSpace(HashTrieOptions(), workload);
  EngineCosts costs = CostsOfTrie(workload, trie, item.data, item.tables);
  if (!workload.search) costs.engine_options = Text("space_bound=%g", trie.space_bound);
  return costs;
}

EngineCosts OrderedTrie(const EngineWorkload& workload) {
  const KeyTrieOptions trie = WithinSpace(KeyTrieOptions(), workload);
  EngineCosts costs = CostsOfOrderedTrie(workload, trie);
  if (!workload.search) costs.engine_options = Text("space_bound=%g", trie.space_bound);
  return costs;
}

// Of an item in a table with an ECT index, beyond key and value: sequence number, lengths, and what blocks leave empty.
constexpr double kEctBytesPerItem = 9;
// Of such a table, whatever it holds: properties, checksums, footer. Much of a HashStore of a few dozen items.
constexpr double kEctBytesPerTable = 1550;

// With these options.
Report ReportOfSilt(const EngineWorkload& workload, const SiltOptions& silt) {
  const Popularity& p = workload.popularity;
  const double flush = workload.write_buffer_bytes / workload.item_bytes;
  const double table = p.Unique(flush);
  const double trigger = silt.merge_trigger;
  const bool cut = silt.partitions > 1;  // a flushed table is written once more
  const double cut_table = table + silt.partitions * kEctBytesPerTable / workload.item_bytes;
  const double stores =
      cut ? HashStoresAtTheBound(silt, 1 - kEctBytesPerItem / workload.item_bytes, cut_table / p.keys())
          : std::clamp(trigger * flush / table, trigger, static_cast<double>(MaxHashStores(silt)));
  Report report;
  report.breakdown = {{"log", 1},
                      {"HashStores", (table + (cut ? cut_table : 0)) / flush},
                      {"SortedStore", p.keys() / (stores * flush)}};
  for (const msls::WriteCost& step : report.breakdown) report.write_amplification += step.value;
  report.space_amplification = 1 + (stores - 1) / 2 * table / p.keys();
  report.sorted_runs = 1 + (stores - 1) / 2;
  double visited = 1;
  for (int i = 0; i < static_cast<int>(stores); i++) {
    report.runs_to_hit += visited / std::floor(stores);
    visited += p.MissProbability(flush * (0.5 + i));
  }
  report.level_items = {(stores - 1) / 2 * table, p.keys()};
  return report;
}

// Bits of filters that err as often in all as `bits` did when there were `before` tables with one; a filter of so many
// more bits errs half as often.
double FilterBits(double bits, double bits_to_half, double before, double after) {
  return bits > 0 && before > 0 && after > 0 ? bits + bits_to_half * std::log2(after / before) : bits;
}

// What the largest compaction writes, by the live data.
double LargestCompaction(const EngineWorkload& workload, const EngineCosts& costs) {
  const double data = workload.popularity.keys() * workload.item_bytes;
  if (costs.name == "trie" || costs.name == "ordered_trie") {
    const double buffer = workload.write_buffer_bytes / std::clamp(workload.fill, 0.01, 1.0);
    const KeyTrieOptions key_order = WithinSpace(KeyTrieOptions(), workload);
    const double garbage = (key_order.space_bound - 1) * data;
    const int files = costs.key_order ? RootFilesFor(key_order, static_cast<uint64_t>(data),
                                                     static_cast<uint64_t>(garbage), static_cast<uint64_t>(buffer))
                                      : HashTrieOptions().root_trigger;
    return std::min(1.0, files * workload.write_buffer_bytes / data);
  }
  const bool leveled = costs.name == "round_robin" || costs.name.compare(0, 7, "leveled") == 0;
  return leveled ? std::min(1.0, kFilesOfACompaction * workload.file_bytes / data) : 1;
}

}  // namespace

EngineCosts CostsOfShape(const EngineWorkload& workload, const StoreShape& now, const OptimizeOptions& levels) {
  EngineCosts costs;
  costs.name = msls::DesignName(now.design);
  costs.engine = kStockEngine;
  FindBest(workload, now, levels, &costs);
  return costs;
}

EngineCosts CostsOfTrie(const EngineWorkload& workload, const HashTrieOptions& now, double data_bytes,
                        double table_bytes) {
  EngineCosts costs;
  costs.name = costs.engine = "trie";
  costs.key_order = false;
  StoreShape store = ShapeOf(workload, Design::kTrie);
  SetTrieShape(now, data_bytes, table_bytes, &store);
  const StoreShape best = FindBest(workload, store, OptimizeOptions(), &costs);
  if (!HasBetterOptions(workload, costs)) return costs;
  costs.engine_options = TrieShapeText(best, msls::SpaceBoundInItems(best.space_bound, table_bytes, data_bytes));
  // Whole bits, of which a Bloom filter takes 1.44 to err half as often.
  const double bits =
      std::ceil(FilterBits(now.filter_bits, 1.44, costs.before.sorted_runs, costs.report.sorted_runs) - 0.1);
  if (bits != now.filter_bits) costs.engine_options += Text(";filter_bits=%.0f", std::clamp(bits, 6.0, 20.0));
  return costs;
}

EngineCosts CostsOfOrderedTrie(const EngineWorkload& workload, const KeyTrieOptions& now) {
  EngineCosts costs;
  costs.name = costs.engine = "ordered_trie";
  const BytesOfItem item(workload, kOrderedTableOverhead);
  KeyTrieOptions trie = now;
  trie.space_bound = msls::SpaceBoundInItems(now.space_bound, item.data, item.tables);
  KeyTrieWrites writes;
  writes.popularity = workload.popularity;
  writes.fill = std::clamp(workload.fill, 0.01, 1.0);
  StoreShape store = ShapeOf(workload, Design::kTrie);
  store.write_buffer_bytes /= writes.fill;
  costs.no_model = ModelKeyTrie(trie, store, writes, &costs.before, kMostWriteBuffersCompared).message();
  costs.report = costs.before;
  if (!costs.no_model.empty() || !workload.search) return costs;
  costs.no_search = "Its options are compared with --options=ordered_trie only, which may take minutes.";
  if (!workload.search_ordered_trie) return costs;
  OptimizeOptions limits = LimitsOf(workload, costs.before);
  // Its model does not tell the one from the other.
  limits.max_sorted_runs = std::max(limits.max_sorted_runs, limits.max_runs_to_hit);
  limits.max_runs_to_hit = 0;
  Optimum optimum;
  costs.no_search = OptimizeKeyTrie(trie, store, writes, limits, &optimum).message();
  if (costs.no_search.empty()) costs.report = optimum.after;
  if (KeepsLimits(workload, costs.before)) costs.no_search.clear();  // if no other shape does, this one is the best
  if (HasBetterOptions(workload, costs)) {
    costs.engine_options =
        TrieShapeText(optimum.store, msls::SpaceBoundInItems(optimum.store.space_bound, item.tables, item.data));
  } else {
    costs.report = costs.before;
  }
  return costs;
}

// Cairn's, which differs from the thesis': a HashStore is what a flush leaves, and a merge is due by what HashStores
// hold, or by their number.
EngineCosts CostsOfSilt(const EngineWorkload& workload, const SiltOptions& now) {
  EngineCosts costs;
  costs.name = costs.engine = "silt";
  costs.key_order = false;
  const Popularity& p = workload.popularity;
  if (p.Unique(workload.write_buffer_bytes / workload.item_bytes) >= 0.5 * p.keys()) {
    costs.no_model = "half of the keys fit into one write buffer";
    return costs;
  }
  costs.before = costs.report = ReportOfSilt(workload, now);
  if (!workload.search) return costs;
  EngineWorkload limits = workload;
  limits.max_space = LimitsOf(workload, costs.before).max_space_amplification;
  limits.max_runs_to_hit = LimitsOf(workload, costs.before).max_runs_to_hit;
  const bool by_space = now.partitions > 1;
  SiltOptions best = now;
  bool keeps = KeepsLimits(limits, costs.before);
  for (int i = 1; i <= kMostMergeTrigger; i++) {
    SiltOptions silt = now;
    if (by_space) {
      silt.space_bound = 1.1 + 0.05 * i;
    } else {
      silt.merge_trigger = i;
      silt.max_hash_stores = 0;
    }
    const Report report = ReportOfSilt(workload, silt);
    if (!KeepsLimits(limits, report)) break;  // so do all that merge less often
    if (keeps && report.write_amplification >= costs.report.write_amplification) continue;
    keeps = true;
    best = silt;
    costs.report = report;
  }
  if (!keeps)
    costs.no_search = std::string("No ") + (by_space ? "space_bound" : "merge_trigger") + " keeps the limits.";
  if (!HasBetterOptions(workload, costs)) {
    costs.report = costs.before;
    return costs;
  }
  costs.engine_options = by_space ? Text("space_bound=%.2f", best.space_bound)
                                  : Text("partitions=1;merge_trigger=%.0f", best.merge_trigger);
  if (!by_space && now.max_hash_stores != 0) costs.engine_options += ";max_hash_stores=0";
  const double tag_bits =
      std::ceil(FilterBits(now.table.filter_tag_bits, 1, costs.before.sorted_runs - 1, costs.report.sorted_runs - 1));
  if (tag_bits != now.table.filter_tag_bits) {
    costs.engine_options += Text(";filter_tag_bits=%.0f", std::clamp(tag_bits, 4.0, 25.0));
  }
  return costs;
}

bool HasBetterOptions(const EngineWorkload& workload, const EngineCosts& costs) {
  return costs.no_model.empty() && costs.no_search.empty() &&
         (!KeepsLimits(workload, costs.before) ||
          costs.report.write_amplification < (1 - kLittle) * costs.before.write_amplification);
}

std::string OptionsText(const EngineCosts& costs) {
  std::string text;
  if (costs.engine != kStockEngine) {
    text = "engine=" + costs.engine + (costs.engine_options.empty() ? "" : ";" + costs.engine_options) + "\n";
  }
  for (const auto& [name, value] : costs.rocksdb) text += name + "=" + value + "\n";
  return text;
}

bool KeepsLimits(const EngineWorkload& workload, const Report& report) {
  const auto keeps = [](double value, double limit) { return limit <= 0 || value <= kRounding * limit; };
  const double runs = report.runs_to_hit > 0 ? report.runs_to_hit : report.sorted_runs;
  return keeps(report.space_amplification, workload.max_space) && keeps(runs, workload.max_runs_to_hit);
}

void SetPeak(const EngineWorkload& workload, EngineCosts* costs) {
  if (!costs->no_model.empty()) return;
  costs->peak_space = costs->report.space_amplification + LargestCompaction(workload, *costs);
  costs->within_limits = KeepsLimits(workload, costs->report);
}

std::vector<EngineCosts> CompareEngines(const EngineWorkload& workload) {
  std::vector<EngineCosts> engines = {Leveled(workload),    StockWithSizes(kLeveledBest, Design::kRocksDB, workload),
                                      RoundRobin(workload), StockWithSizes("universal", Design::kUniversal, workload),
                                      Ordered(workload),    OrderedTrie(workload),
                                      Trie(workload),       CostsOfSilt(workload, SiltOptions())};
  for (EngineCosts& costs : engines) SetPeak(workload, &costs);
  return engines;
}

const EngineCosts* BestEngine(const std::vector<EngineCosts>& engines, const EngineWorkload& workload,
                              EngineNeeds needs) {
  const auto suits = [&](const EngineCosts& costs) {
    if (!costs.within_limits) return false;
    if (needs == EngineNeeds::kKeyOrder) return costs.key_order;
    return needs == EngineNeeds::kNothing || workload.max_space == 0 ||
           costs.peak_space <= kRounding * workload.max_space;
  };
  const EngineCosts* best = nullptr;
  for (const EngineCosts& costs : engines) {
    if (!suits(costs)) continue;
    if (best == nullptr || costs.report.write_amplification < best->report.write_amplification) best = &costs;
  }
  return best;
}

// --- The curve over the size -----------------------------------------------------------------------------------------

namespace {

// Of memory for an item beside its Bloom filter: indexes of blocks, with order filters; of buckets that overflow; of a
// SortedStore. Measured with write buffers of 64 MiB; small tables take more.
constexpr double kIndexBytes = 0.55, kOrderedIndexBytes = 1.8, kHTableBytes = 0.15, kEctIndexBytes = 0.11;
// Lookups that a table of a trie in hash order lets read in vain; measured.
constexpr double kHTableErrors = 4e-5;
// Of lookups that pass a table's Bloom filter in vain, those that its order filter lets read.
constexpr double kOrderFilterErrors = 0.01;
// A Bloom filter of b bits errs once in 0.6185^-b, and RocksDB's of one cache line a little more often.
double BloomErrors(double bits) { return 1.15 * std::pow(0.6185, bits); }

// Runs are asked from the newest on, and each filter errs by itself. `unfiltered`: runs that have none, the last.
void SetReads(const Report& report, double errors, double unfiltered, ScaleCosts* costs) {
  const double runs_to_hit = report.runs_to_hit > 0 ? report.runs_to_hit : report.sorted_runs;
  costs->present_reads = 1 + (runs_to_hit - 1) * errors;
  costs->absent_reads = (report.sorted_runs - unfiltered) * errors + unfiltered;
}

// Of items, those of the largest level or depth.
double LargestShare(const Report& report) {
  double items = 0, largest = 0;
  for (double level : report.level_items) {
    items += level;
    largest = std::max(largest, level);
  }
  return items > 0 ? largest / items : 1;
}

// Where filters and indexes of the largest level, depth or run, with this share of the items, are on the disk: a lookup
// reads so many blocks of these filters, and of an index for each block of data that it then reads.
void SetReadsFromDisk(double share, double filters, double indexes, ScaleCosts* costs) {
  costs->upper_memory = costs->memory * (1 - share);
  costs->upper_present_reads = costs->present_reads + filters + indexes;
  costs->upper_absent_reads = costs->absent_reads * (1 + indexes) + filters;
}

// What SILT writes while it is filled: every HashStore, cut by partition, and the SortedStore at each merge on the way,
// which only the number of HashStores makes due, because nothing is garbage.
double LoadOfSilt(const SiltOptions& silt, double buffers) {
  const double stores = MaxHashStores(silt), merges = std::floor(buffers / stores);
  return 1 + (silt.partitions > 1 ? 1 : 0) + stores * merges * (merges + 1) / 2 / buffers;
}

}  // namespace

const std::vector<std::string>& ScaleEngines() {
  static const auto* engines = new std::vector<std::string>{"trie", "ordered_trie", "universal", "leveled", "silt"};
  return *engines;
}

IndexStatus CostsAtScale(const std::string& engine, const ScaleWorkload& scale, ScaleCosts* costs) {
  *costs = ScaleCosts();
  costs->engine = engine;
  costs->keys = scale.keys;
  EngineWorkload workload;
  Popularity& keys = workload.popularity;
  IndexStatus s = Popularity::Uniform(scale.keys, &keys);
  if (!s.ok()) return s;
  // Ratios of items; overhead makes them ratios of bytes.
  workload.item_bytes = scale.item_bytes;
  workload.write_buffer_bytes = workload.file_bytes = scale.buffer_items * scale.item_bytes;
  workload.level_base_bytes = 4 * workload.write_buffer_bytes;
  double overhead = kOrderedTableOverhead;
  const auto in_items = [&](double bound) {
    return msls::SpaceBoundInItems(bound, scale.item_bytes, scale.item_bytes + overhead);
  };
  const auto shape_of = [&](Design design) {
    StoreShape shape = ShapeOf(workload, design);
    shape.log = false;
    return shape;
  };
  Report report;
  double& load = costs->load_written;
  const double buffers = scale.keys / scale.buffer_items;
  if (engine == "trie") {
    overhead = kHTableOverhead;
    const HashTrieOptions trie;
    StoreShape shape = shape_of(Design::kTrie);
    SetTrieShape(trie, scale.item_bytes, scale.item_bytes + overhead, &shape);
    s = Model(shape, keys, &report);
    if (s.ok()) s = ModelLoad(shape, scale.keys, &load);
    costs->memory = report.space_amplification * (trie.filter_bits / 8 + kHTableBytes);
    SetReads(report, kHTableErrors, 0, costs);
    SetReadsFromDisk(LargestShare(report), 1, 0, costs);  // a cluster has the filters of all slots
  } else if (engine == "ordered_trie") {
    KeyTrieOptions trie;
    trie.space_bound = in_items(trie.space_bound);
    KeyTrieWrites writes;
    writes.popularity = keys;
    s = ModelKeyTrie(trie, shape_of(Design::kTrie), writes, &report);
    if (s.ok()) s = ModelKeyTrieLoad(trie, shape_of(Design::kTrie), writes, &load);
    costs->memory = report.space_amplification * (trie.filter_bits / 8 + kOrderedIndexBytes);
    SetReads(report, BloomErrors(trie.filter_bits) * kOrderFilterErrors, 0, costs);
    SetReadsFromDisk(LargestShare(report), report.deepest_runs, 1, costs);
  } else if (engine == "universal" || engine == "leveled") {
    StoreShape shape = shape_of(engine == "leveled" ? Design::kRocksDB : Design::kUniversal);
    if (engine == "universal") shape.level0_trigger = OrderedOptions().runs;
    s = Model(shape, keys, &report);
    if (s.ok()) s = ModelLoad(shape, scale.keys, &load);
    costs->memory = report.space_amplification * (kRocksDBFilterBits / 8 + kIndexBytes);
    SetReads(report, BloomErrors(kRocksDBFilterBits), 0, costs);
    SetReadsFromDisk(1 / report.space_amplification, 1, 1, costs);
    const double files = kFilesOfACompaction * workload.file_bytes / (scale.keys * scale.item_bytes);
    if (engine == "leveled") report.most_space_amplification = report.space_amplification + std::min(1.0, files);
  } else if (engine == "silt") {
    const SiltOptions silt;
    overhead = kEctBytesPerItem;
    report = ReportOfSilt(workload, silt);
    report.write_amplification -= report.breakdown.front().value;  // the log
    load = LoadOfSilt(silt, buffers);
    report.most_space_amplification = report.space_amplification + 1.0 / silt.partitions;
    const double hash_stores = report.space_amplification - 1;
    costs->memory = kEctIndexBytes + hash_stores * silt.table.filter_tag_bits / 8 / kCuckooFill;
    SetReads(report, kCuckooPlaces / std::pow(2, silt.table.filter_tag_bits), 1, costs);
  } else {
    return IndexStatus::InvalidArgument("\"" + engine + "\" is no engine of the curve: " + "trie, ordered_trie, " +
                                        "universal, leveled, silt.");
  }
  const double bytes = 1 + overhead / scale.item_bytes;
  load *= bytes;
  costs->written = bytes * report.write_amplification;
  costs->space = bytes * report.space_amplification;
  costs->peak_space = bytes * report.most_space_amplification;
  costs->sorted_runs = report.sorted_runs;
  return s;
}

}  // namespace cairn
