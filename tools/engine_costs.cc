#include "tools/engine_costs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cairn/ordered.h"
#include "msls/key_trie_model.h"
#include "msls/model_options.h"
#include "table/silt/silt_merges.h"
#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

namespace {

using msls::Design;
using msls::FilePick;
using msls::OptimizeOptions;
using msls::Optimum;
using msls::Report;
using msls::StoreShape;

// More levels than these are never better by the model, for data of any size.
constexpr int kMostLevels = 6;
// ordered_trie's model takes time by the square of this.
constexpr double kMostBuffersPlayed = 200;
// Of limits.
constexpr double kRounding = 1.005;
// RocksDB's max_compaction_bytes by target_file_size_base.
constexpr double kFilesOfACompaction = 25;
// Bytes that tables of tries take for an item besides key and value, filters and samples included: HTables, and ordered
// tables with 10 bits of Bloom filter.
constexpr double kHTableOverhead = 14, kOrderedTableOverhead = 11;

StoreShape ShapeOf(const EngineWorkload& workload, Design design) {
  StoreShape store = StoreShape::Default(design);
  store.item_bytes = workload.item_bytes;
  store.write_buffer_bytes = workload.write_buffer_bytes;
  store.file_bytes = std::max(workload.item_bytes, workload.file_bytes);
  store.level_base_bytes = std::max(workload.item_bytes, workload.level_base_bytes);
  return store;
}

OptimizeOptions LimitsOf(const EngineWorkload& workload) {
  OptimizeOptions limits;
  limits.max_space_amplification = workload.max_space;
  limits.max_runs_to_hit = workload.max_runs_to_hit;
  return limits;
}

std::string Text(const char* format, double value) {
  char text[64];
  snprintf(text, sizeof(text), format, value);
  return text;
}

// The best shape of the design within the limits, else the one given; its costs, and its options as far as it has any.
void FindBest(const EngineWorkload& workload, const StoreShape& store, EngineCosts* costs, StoreShape* best) {
  OptimizeOptions limits = LimitsOf(workload);
  if (store.design == Design::kRocksDB) {
    limits.min_levels = 1;
    limits.max_levels = kMostLevels;
  }
  Optimum optimum;
  IndexStatus s = Optimize(store, workload.popularity, limits, &optimum);
  *best = s.ok() ? optimum.store : store;
  s = Model(*best, workload.popularity, &costs->report);
  costs->no_model = s.message();
  // Sizes of buffers and files are given.
  if (!s.ok() || !RocksDBOptions(*best, workload.popularity, &costs->rocksdb).ok()) return;
  costs->rocksdb.erase(std::remove_if(costs->rocksdb.begin(), costs->rocksdb.end(),
                                      [](const auto& option) {
                                        return option.first == "write_buffer_size" ||
                                               option.first == "target_file_size_base" || option.first == "num_levels";
                                      }),
                       costs->rocksdb.end());
}

EngineCosts Leveled(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = "leveled";
  costs.engine = "stock";
  costs.no_model = Model(ShapeOf(workload, Design::kRocksDB), workload.popularity, &costs.report).message();
  return costs;
}

// RocksDB's own engine of that design, with the sizes that write least.
EngineCosts StockWithSizes(const char* name, Design design, const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = name;
  costs.engine = "stock";
  StoreShape best;
  FindBest(workload, ShapeOf(workload, design), &costs, &best);
  return costs;
}

EngineCosts RoundRobin(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = costs.engine = "round_robin";
  StoreShape store = ShapeOf(workload, Design::kRocksDB), best;
  store.pick = FilePick::kRoundRobin;
  FindBest(workload, store, &costs, &best);
  costs.engine_options = Text("item_bytes=%.0f", workload.item_bytes) + Text(";max_space=%g", workload.max_space);
  if (workload.is_zipf) {
    // The engine finds the sizes itself.
    costs.rocksdb.clear();
    costs.engine_options += Text(";keys=%.0f", workload.popularity.keys()) + Text(";zipf=%.2f", workload.zipf);
  } else {
    // Without keys it begins with the sizes that there are.
    costs.rocksdb.erase(std::remove_if(costs.rocksdb.begin(), costs.rocksdb.end(),
                                       [](const auto& option) {
                                         return option.first == "compaction_style" || option.first == "compaction_pri";
                                       }),
                        costs.rocksdb.end());
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
  costs.no_model = Model(store, workload.popularity, &costs.report).message();
  return costs;
}

// A trie's bound on bytes of tables, which take `overhead` more for an item than key and value, as one on items.
double ItemsBound(const EngineWorkload& workload, double bytes_bound, double overhead) {
  if (workload.data_bytes <= 0 || workload.table_bytes <= 0) return bytes_bound;
  const double data = workload.item_bytes * workload.data_bytes / workload.table_bytes;
  return msls::SpaceBoundInItems(bytes_bound, data, data + overhead);
}

template <class Trie>
Trie WithinSpace(Trie trie, const EngineWorkload& workload) {
  if (workload.max_space > 0) trie.space_bound = std::max(1.1, workload.max_space);
  return trie;
}

// Its own shape, under the bound on space.
EngineCosts Trie(const EngineWorkload& workload) {
  EngineCosts costs;
  costs.name = costs.engine = "trie";
  costs.key_order = false;
  const HashTrieOptions trie = WithinSpace(HashTrieOptions(), workload);
  costs.engine_options = Text("space_bound=%g", trie.space_bound);
  StoreShape store = ShapeOf(workload, Design::kTrie);
  SetTrieShape(trie, 1, 1, &store);
  store.space_bound = ItemsBound(workload, trie.space_bound, kHTableOverhead);
  costs.no_model = Model(store, workload.popularity, &costs.report).message();
  return costs;
}

EngineCosts OrderedTrie(const EngineWorkload& workload) {
  const KeyTrieOptions trie = WithinSpace(KeyTrieOptions(), workload);
  EngineCosts costs = CostsOfOrderedTrie(workload, trie);
  costs.engine_options = Text("space_bound=%g", trie.space_bound);
  return costs;
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

EngineCosts CostsOfOrderedTrie(const EngineWorkload& workload, const KeyTrieOptions& options) {
  EngineCosts costs;
  costs.name = costs.engine = "ordered_trie";
  const double buffers = workload.popularity.keys() * workload.item_bytes / workload.write_buffer_bytes;
  if (buffers > kMostBuffersPlayed) {
    costs.no_model = "more write buffers of keys than are played here; cairn model --design ordered_trie plays 1,024";
    return costs;
  }
  KeyTrieOptions trie = options;
  trie.space_bound = ItemsBound(workload, trie.space_bound, kOrderedTableOverhead);
  KeyTrieWrites writes;
  writes.popularity = workload.popularity;
  writes.fill = std::clamp(workload.fill, 0.01, 1.0);
  StoreShape store = ShapeOf(workload, Design::kTrie);
  store.write_buffer_bytes /= writes.fill;
  costs.no_model = ModelKeyTrie(trie, store, writes, &costs.report).message();
  return costs;
}

// Cairn's, which differs from the thesis': a HashStore is what a flush leaves, and a merge is due by what HashStores
// hold, or by their number.
EngineCosts CostsOfSilt(const EngineWorkload& workload, const SiltOptions& silt) {
  EngineCosts costs;
  costs.name = costs.engine = "silt";
  costs.key_order = false;
  const msls::Popularity& p = workload.popularity;
  const double flush = workload.write_buffer_bytes / workload.item_bytes;
  const double table = p.Unique(flush);
  if (table >= 0.5 * p.keys()) {
    costs.no_model = "half of the keys fit into one write buffer";
    return costs;
  }
  const double trigger = silt.merge_trigger;
  const double stores = std::clamp(trigger * flush / table, trigger, static_cast<double>(MaxHashStores(silt)));
  Report& report = costs.report;
  report.breakdown = {{"log", 1}, {"HashStores", table / flush}, {"SortedStore", p.keys() / (stores * flush)}};
  for (const msls::WriteCost& step : report.breakdown) report.write_amplification += step.value;
  report.space_amplification = 1 + (stores - 1) / 2 * table / p.keys();
  report.sorted_runs = 1 + (stores - 1) / 2;
  for (int i = 0; i < static_cast<int>(stores); i++) {
    double visited = 1;
    for (int j = 0; j < i; j++) visited += p.MissProbability(flush * (0.5 + j));
    report.runs_to_hit += visited / std::floor(stores);
  }
  report.level_items = {(stores - 1) / 2 * table, p.keys()};
  return costs;
}

bool KeepsLimits(const EngineWorkload& workload, const Report& report) {
  const auto keeps = [](double value, double limit) { return limit <= 0 || value <= kRounding * limit; };
  const double runs = report.runs_to_hit > 0 ? report.runs_to_hit : report.sorted_runs;
  return keeps(report.space_amplification, workload.max_space) && keeps(runs, workload.max_runs_to_hit);
}

std::vector<EngineCosts> CompareEngines(const EngineWorkload& workload) {
  std::vector<EngineCosts> engines = {
      Leveled(workload),    StockWithSizes("leveled, best sizes", Design::kRocksDB, workload),
      RoundRobin(workload), StockWithSizes("universal", Design::kUniversal, workload),
      Ordered(workload),    OrderedTrie(workload),
      Trie(workload),       CostsOfSilt(workload, SiltOptions())};
  for (EngineCosts& costs : engines) {
    if (!costs.no_model.empty()) continue;
    costs.peak_space = costs.report.space_amplification + LargestCompaction(workload, costs);
    costs.within_limits = KeepsLimits(workload, costs.report);
  }
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

}  // namespace cairn
