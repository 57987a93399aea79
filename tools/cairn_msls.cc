// cairn model, cairn simulate, cairn optimize: the write amplification of a store's shape, computed, played and
// improved.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/msls.h"
#include "msls/key_trie_model.h"
#include "msls/model_options.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/engine_costs.h"
#include "trie_table/compaction/trie_options.h"
#include "util/stats_text.h"

namespace cairn {
namespace {

constexpr const char* kOrderedTrie = "ordered_trie";

// The flags that say what is stored, how, and how it is written. Those not given keep the design's defaults.
class StoreFlags {
 public:
  explicit StoreFlags(Arguments* arguments) : arguments_(*arguments) {
    arguments->Choice("design", &design_,
                      {"leveldb", "rocksdb", "universal", "cola", "samt", "silt", "trie", kOrderedTrie},
                      "the kind of store");
    arguments->Count("keys", &keys_, "distinct keys that are written", 1, uint64_t{1000000000000000});
    arguments->Number("item-bytes", &store.item_bytes, "key and value of one item", 1, 1e9);
    arguments->Number("zipf", &zipf_, "skew of the keys' popularity; 0: uniform", 0, 8);
    arguments->Text("histogram", &histogram_, "FILE",
                    "popularity as lines `weight` or `weight keys`; in place of --keys and --zipf");
    arguments->Bytes("write-buffer", &write_buffer_,
                     "what is gathered in memory before it is written (default: the design's)", 1);
    arguments->Switch("log", &store.log, "count the write-ahead log as well");
    arguments->Text("level-sizes", &level_sizes_, "SIZE,SIZE,...",
                    "leveldb, rocksdb: bytes of levels 1, 2 ... without the last, which holds all keys");
    arguments->Bytes("level-base", &level_base_, "leveldb, rocksdb: bytes of level 1 (default: the design's)", 1);
    arguments->Number("level-multiplier", &store.level_multiplier,
                      "leveldb, rocksdb: size of a level by that of the one before", 1.01, 1e6);
    arguments->Switch("dynamic-level-bytes", &dynamic_,
                      "rocksdb: level sizes follow from the data (default unless sizes are given)");
    arguments->Bytes("file-size", &file_size_, "leveldb, rocksdb: bytes of a table (default: the design's)", 1);
    arguments->Choice("compaction-pri", &pick_,
                      {"kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst",
                       "kMinOverlappingRatio", "kRoundRobin"},
                      "rocksdb: which file is compacted next");
    arguments->Integer("level0-trigger", &store.level0_trigger,
                       "leveldb, rocksdb, universal: level-0 files that start a compaction", 1, 10000);
    arguments->Integer("size-ratio", &store.size_ratio_percent, "universal: percent", 0, 1000);
    arguments->Integer("min-merge-width", &store.min_merge_width, "universal: runs merged at least", 2, 1000);
    arguments->Integer("max-size-amplification", &store.max_size_amplification_percent, "universal: percent", 1);
    arguments->Integer("growth", &store.growth, "samt, cola: merges in a level", 2, 1000);
    arguments->Integer("levels", &store.levels, "samt, cola: levels; 0: as many as needed", 0, 60);
    arguments->Number("hash-store-slots", &store.hash_store_slots, "silt: slots of a hash store", 1, 1e15);
    arguments->Number("hash-store-occupancy", &store.hash_store_occupancy, "silt: part of the slots in use", 0, 1);
    arguments->Integer("hash-stores", &store.hash_stores, "silt: hash stores merged at a time", 1);
    arguments->Integer("instances", &store.instances, "silt: stores that share the keys", 1);
    arguments->Integer("root-trigger", &store.root_trigger, "trie: level-0 files that are moved down together", 1,
                       1000);
    arguments->Integer("trigger", &store.container_trigger, "trie: slots of a container that are moved down together",
                       2, 1000);
    arguments->Integer("slots", &store.slots, "trie: levels of a depth (default: a third more than the trigger)", 0,
                       2000);
    arguments->Integer("fan-out", &store.fan_out, "trie: children of a container", 2, 64);
    arguments->Number("grow-liveness", &store.grow_liveness, "trie: live part at which a full container goes deeper", 0,
                      1);
    arguments->Number("fill", &writes.fill, "ordered_trie: part of the write buffer that items fill", 0.01, 1);
    arguments->Number("space-bound", &store.space_bound, "trie: bytes for each live byte that are tolerated", 1.1, 1e9);
  }

  // After Parse. A message for UsageError, or empty.
  std::string Read() {
    if (!IsOrderedTrie() && arguments_.Given("fill")) return "--fill is of --design ordered_trie";
    // Its shape is a trie's.
    IndexStatus s = msls::DesignFromName(IsOrderedTrie() ? "trie" : design_, &store.design);
    if (!s.ok()) return s.message();
    // Designs differ in these; the other flags are fields of the store themselves.
    const StoreShape defaults = StoreShape::Default(store.design);
    auto given = [this](const char* name) { return arguments_.Given(name); };
    const auto bytes_of = [&given](const char* name, uint64_t value, double otherwise) {
      return given(name) ? static_cast<double>(value) : otherwise;
    };
    store.write_buffer_bytes = bytes_of("write-buffer", write_buffer_, defaults.write_buffer_bytes);
    store.level_base_bytes = bytes_of("level-base", level_base_, defaults.level_base_bytes);
    store.file_bytes = bytes_of("file-size", file_size_, defaults.file_bytes);
    store.dynamic_level_bytes = defaults.dynamic_level_bytes;
    store.pick = defaults.pick;
    if (given("compaction-pri")) s = msls::FilePickFromName(pick_, &store.pick);
    if (!s.ok()) return s.message();
    if (given("level-sizes")) {
      for (size_t at = 0; at <= level_sizes_.size();) {
        const size_t comma = std::min(level_sizes_.find(',', at), level_sizes_.size());
        uint64_t bytes = 0;
        const std::string word = level_sizes_.substr(at, comma - at);
        if (!ParseBytes(word, &bytes))
          return "--level-sizes holds \"" + word + "\", which is no number of bytes such as 256M";
        store.level_bytes.push_back(static_cast<double>(bytes));
        at = comma + 1;
      }
      store.dynamic_level_bytes = false;
    }
    if (given("level-base") || given("level-multiplier")) store.dynamic_level_bytes = false;
    if (given("dynamic-level-bytes")) store.dynamic_level_bytes = dynamic_;
    if (given("histogram")) {
      if (given("keys") || given("zipf"))
        return "--histogram says which keys there are and how popular; leave out --keys and --zipf";
      s = Popularity::HistogramFromFile(histogram_, &popularity);
    } else {
      s = Popularity::Zipf(static_cast<double>(keys_), zipf_, &popularity);
    }
    if (IsOrderedTrie()) ReadOrderedTrie();
    return s.message();
  }

  bool IsOrderedTrie() const { return design_ == kOrderedTrie; }
  const char* DesignName() const { return IsOrderedTrie() ? kOrderedTrie : msls::DesignName(store.design); }

  IndexStatus Model(Report* report) const {
    return IsOrderedTrie() ? ModelKeyTrie(ordered_trie_, store, writes, report)
                           : msls::Model(store, popularity, report);
  }
  IndexStatus Simulate(const msls::SimulationOptions& options, Report* report) const {
    return IsOrderedTrie() ? SimulateKeyTrie(ordered_trie_, store, writes, options, report)
                           : msls::Simulate(store, popularity, options, report);
  }
  IndexStatus Optimize(const msls::OptimizeOptions& options, msls::Optimum* optimum) const {
    return IsOrderedTrie() ? OptimizeKeyTrie(ordered_trie_, store, writes, options, optimum)
                           : msls::Optimize(store, popularity, options, optimum);
  }

  StoreShape store;
  Popularity popularity;
  KeyTrieWrites writes;  // of an ordered_trie

 private:
  void ReadOrderedTrie() {
    writes.popularity = popularity;
    ordered_trie_ = KeyTrieOptions();
    if (arguments_.Given("root-trigger")) ordered_trie_.root_trigger = store.root_trigger;
    if (arguments_.Given("trigger")) ordered_trie_.trigger = store.container_trigger;
    if (arguments_.Given("slots")) ordered_trie_.slots = store.slots;
    if (arguments_.Given("fan-out")) ordered_trie_.fan_out = store.fan_out;
    if (arguments_.Given("space-bound")) ordered_trie_.space_bound = store.space_bound;
  }

  const Arguments& arguments_;
  KeyTrieOptions ordered_trie_;
  std::string design_ = "rocksdb", histogram_, level_sizes_, pick_ = "kMinOverlappingRatio";
  uint64_t keys_ = 100000000, write_buffer_ = 64 << 20, level_base_ = 256 << 20, file_size_ = 64 << 20;
  double zipf_ = 0;
  bool dynamic_ = true;
};

class Clock {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

nlohmann::ordered_json ToJson(const StoreShape& store, const Report& report) {
  nlohmann::ordered_json json;
  json["write_amplification"] = report.write_amplification;
  json["breakdown"] = nlohmann::ordered_json::array();
  for (const msls::WriteCost& step : report.breakdown)
    json["breakdown"].push_back({{"name", step.name}, {"value", step.value}});
  json["level_sizes"] = nlohmann::ordered_json::array();
  for (double items : report.level_items) json["level_sizes"].push_back(std::llround(items * store.item_bytes));
  json["space_amplification"] = report.space_amplification;
  if (report.most_space_amplification > 0) json["most_space_amplification"] = report.most_space_amplification;
  json["sorted_runs"] = report.sorted_runs;
  json["runs_to_hit"] = report.runs_to_hit;
  return json;
}

nlohmann::ordered_json WithHead(const StoreFlags& flags, const nlohmann::ordered_json& body, double seconds) {
  nlohmann::ordered_json json;
  json["design"] = flags.DesignName();
  json["keys"] = flags.popularity.keys();
  json["popularity"] = flags.popularity.name();
  json["item_bytes"] = flags.store.item_bytes;
  json.update(body);
  json["seconds"] = seconds;
  return json;
}

void Print(const StoreShape& store, const Report& report) {
  for (const msls::WriteCost& step : report.breakdown) printf("  %-24s %8.3f\n", step.name.c_str(), step.value);
  printf("  %-24s %8.3f  bytes written for each byte put in\n", "write amplification", report.write_amplification);
  printf("  %-24s %8.3f  bytes kept for each live byte\n", "space amplification", report.space_amplification);
  if (report.most_space_amplification > 0)
    printf("  %-24s %8.3f  the most, with what a compaction is writing\n", "at most", report.most_space_amplification);
  printf("  %-24s %8.2f  visited without filters for a key that does not exist\n", "sorted runs", report.sorted_runs);
  if (report.runs_to_hit > 0)
    printf("  %-24s %8.2f  visited without filters for a key that is read as often as written\n", "runs to a hit",
           report.runs_to_hit);
  std::string sizes;
  for (double items : report.level_items)
    sizes += (sizes.empty() ? "" : ", ") + BytesText(static_cast<uint64_t>(items * store.item_bytes));
  printf("  %-24s %s\n", "sizes, newest first", sizes.c_str());
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) words.push_back(word);
  return words;
}

nlohmann::ordered_json ToJson(const ScaleCosts& costs, double item_bytes) {
  nlohmann::ordered_json json = {{"engine", costs.engine},
                                 {"bytes", costs.keys * item_bytes},
                                 {"load_write_amplification", costs.load_written},
                                 {"write_amplification", costs.written},
                                 {"space_amplification", costs.space},
                                 {"peak_space_amplification", costs.peak_space},
                                 {"sorted_runs", costs.sorted_runs},
                                 {"memory_bytes_per_key", costs.memory},
                                 {"reads_of_present", costs.present_reads},
                                 {"reads_of_absent", costs.absent_reads}};
  if (costs.upper_memory == 0) return json;
  json["upper"] = {{"memory_bytes_per_key", costs.upper_memory},
                   {"reads_of_present", costs.upper_present_reads},
                   {"reads_of_absent", costs.upper_absent_reads}};
  return json;
}

void Print(const ScaleCosts& costs, double item_bytes) {
  printf("%-10s %-13s %8.2f %8.2f %6.2f %6.2f %7.1f %7.2f %7.3f %7.3f", BytesText(costs.keys * item_bytes).c_str(),
         costs.engine.c_str(), costs.load_written, costs.written, costs.space, costs.peak_space, costs.sorted_runs,
         costs.memory, costs.present_reads, costs.absent_reads);
  if (costs.upper_memory > 0) {
    printf(" %8.2f %7.3f %7.3f", costs.upper_memory, costs.upper_present_reads, costs.upper_absent_reads);
  }
  printf("\n");
}

// A line for each engine and size.
int PrintCurve(const Arguments* arguments, const StoreShape& store, const std::string& sizes,
               const std::string& engines, bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (!json) {
    printf("%-10s %-13s %8s %8s %6s %6s %7s %7s %7s %7s   upper: %s\n", "data", "engine", "load", "updates", "space",
           "peak", "runs", "B/key", "present", "absent", "B/key, present, absent");
  }
  for (const std::string& size : Words(sizes)) {
    uint64_t bytes = 0;
    if (!ParseBytes(size, &bytes) || static_cast<double>(bytes) < store.item_bytes) {
      return arguments->UsageError("--sizes holds \"" + size + "\", which is no number of bytes such as 10G");
    }
    for (const std::string& engine : engines.empty() ? ScaleEngines() : Words(engines)) {
      ScaleCosts costs;
      const IndexStatus s = CostsAtScale(engine,
                                         {static_cast<double>(bytes) / store.item_bytes, store.item_bytes,
                                          store.write_buffer_bytes / store.item_bytes},
                                         &costs);
      if (!s.ok()) return arguments->UsageError(s.message());
      if (json) {
        all.push_back(ToJson(costs, store.item_bytes));
      } else {
        Print(costs, store.item_bytes);
      }
    }
  }
  if (json) printf("%s\n", all.dump(1).c_str());
  return kExitOk;
}

int RunModel(int argc, char** argv) {
  Arguments arguments(
      "model",
      "Computes the write amplification of a log-structured store in its steady state from the popularity of keys and "
      "the\n"
      "store's shape: bytes written to storage for each byte that the application writes, step by step.\n"
      "docs/design/msls.md has the formulas and how far they can be trusted.");
  StoreFlags flags(&arguments);
  bool json = false;
  std::string sizes, engines;
  arguments.Text("sizes", &sizes, "SIZE,SIZE,...",
                 "what each engine costs as a store grows to these bytes of uniform keys and values, of --item-bytes, "
                 "with its defaults; of the other flags only --write-buffer counts: items that a flush writes");
  arguments.Text("engines", &engines, "NAME,NAME,...", "with --sizes: trie, ordered_trie, universal, leveled, silt");
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  const std::string error = flags.Read();
  if (!error.empty()) return arguments.UsageError(error);
  if (arguments.Given("engines") && sizes.empty()) return arguments.UsageError("--engines is of --sizes");
  if (!sizes.empty()) return PrintCurve(&arguments, flags.store, sizes, engines, json);
  Report report;
  const Clock clock;
  const IndexStatus s = flags.Model(&report);
  const double seconds = clock.Seconds();
  if (!s.ok()) return arguments.UsageError(s.message());
  if (json) {
    printf("%s\n", WithHead(flags, ToJson(flags.store, report), seconds).dump(2).c_str());
  } else {
    printf("%s, %.12g keys, %s, items of %g B\n", flags.DesignName(), flags.popularity.keys(),
           flags.popularity.name().c_str(), flags.store.item_bytes);
    Print(flags.store, report);
  }
  return kExitOk;
}

int RunSimulate(int argc, char** argv) {
  Arguments arguments(
      "simulate",
      "Plays a log-structured store in memory, file by file and key by key, and counts what it writes: first every "
      "key\n"
      "once, then requests to warm up, then requests that are counted. Checks what cairn model computes.");
  StoreFlags flags(&arguments);
  uint64_t warm = 0, requests = 0, seed = 1;
  bool json = false;
  arguments.Count("warm", &warm, "requests before counting (default: as many as keys)");
  arguments.Count("requests", &requests, "requests that are counted (default: three times the keys)", 1);
  arguments.Count("seed", &seed, "of the requests");
  msls::SimulationOptions options;
  arguments.Switch("split-at-cursor", &options.split_at_cursor,
                   "rocksdb with kRoundRobin: output files end at the cursor of their level, as RocksDB's do");
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  std::string error = flags.Read();
  if (!error.empty()) return arguments.UsageError(error);
  options.seed = seed;
  if (arguments.Given("warm")) options.warm_requests = static_cast<double>(warm);
  if (arguments.Given("requests")) options.requests = static_cast<double>(requests);
  Report report, model;
  const Clock clock;
  IndexStatus s = flags.Simulate(options, &report);
  const double seconds = clock.Seconds();
  if (s.ok()) s = flags.Model(&model);
  if (!s.ok()) return arguments.UsageError(s.message());
  if (json) {
    nlohmann::ordered_json body = ToJson(flags.store, report);
    body["model_write_amplification"] = model.write_amplification;
    printf("%s\n", WithHead(flags, body, seconds).dump(2).c_str());
  } else {
    printf("%s, %.12g keys, %s, items of %g B, simulated in %.2f s\n", flags.DesignName(), flags.popularity.keys(),
           flags.popularity.name().c_str(), flags.store.item_bytes, seconds);
    Print(flags.store, report);
    printf("  %-24s %8.3f  (%+.1f %%)\n", "the model says", model.write_amplification,
           100 * (model.write_amplification / report.write_amplification - 1));
  }
  return kExitOk;
}

// The options of a shape that has none of RocksDB's.
std::string ShapeText(const StoreShape& store) {
  if (store.design == Design::kTrie) return TrieShapeText(store, store.space_bound);
  return store.design == Design::kSilt ? "hash_stores=" + std::to_string(store.hash_stores)
                                       : "growth=" + std::to_string(store.growth);
}

int RunOptimize(int argc, char** argv) {
  Arguments arguments("optimize",
                      "Finds the shape of a store that writes least by the model, within limits: level sizes and their "
                      "number for leveldb and\n"
                      "rocksdb, triggers and growth for the others. Prints the shape, before and after, and the "
                      "RocksDB options for it.");
  StoreFlags flags(&arguments);
  msls::OptimizeOptions options;
  uint64_t write_buffer = 0;
  bool json = false;
  arguments.Integer("min-levels", &options.min_levels,
                    "leveldb, rocksdb: least number of levels without level 0; 0: as it is", 0, 20);
  arguments.Integer("max-levels", &options.max_levels, "leveldb, rocksdb: most levels without level 0; 0: as it is", 0,
                    20);
  arguments.Bytes("max-write-buffer", &write_buffer, "memory that the write buffer may take; 0: it stays");
  arguments.Number("max-space", &options.max_space_amplification, "bytes kept for each live byte; 0: no limit", 0, 1e6);
  arguments.Number("max-runs", &options.max_sorted_runs, "sorted runs on average; 0: no limit", 0, 1e6);
  arguments.Number("max-runs-to-hit", &options.max_runs_to_hit, "runs visited for a key that exists; 0: no limit", 0,
                   1e6);
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  const std::string error = flags.Read();
  if (!error.empty()) return arguments.UsageError(error);
  options.max_write_buffer_bytes = static_cast<double>(write_buffer);
  msls::Optimum optimum;
  const Clock clock;
  const IndexStatus s = flags.Optimize(options, &optimum);
  const double seconds = clock.Seconds();
  if (!s.ok()) return arguments.UsageError(s.message());
  std::vector<std::pair<std::string, std::string>> rocksdb;
  const bool has_options = RocksDBOptions(optimum.store, flags.popularity, &rocksdb).ok();
  if (json) {
    nlohmann::ordered_json body = ToJson(optimum.store, optimum.after);
    body["before"] = ToJson(flags.store, optimum.before);
    body["evaluations"] = optimum.evaluations;
    if (has_options) {
      for (const auto& option : rocksdb) body["rocksdb_options"][option.first] = option.second;
    }
    printf("%s\n", WithHead(flags, body, seconds).dump(2).c_str());
    return kExitOk;
  }
  printf("%s, %.12g keys, %s, items of %g B\nBefore:\n", flags.DesignName(), flags.popularity.keys(),
         flags.popularity.name().c_str(), flags.store.item_bytes);
  Print(flags.store, optimum.before);
  printf("After (%d shapes in %.3f s):\n", optimum.evaluations, seconds);
  Print(optimum.store, optimum.after);
  printf("Write amplification falls by %.1f %%.\n",
         100 * (1 - optimum.after.write_amplification / optimum.before.write_amplification));
  if (rocksdb.empty()) printf("  %s\n", ShapeText(optimum.store).c_str());
  for (const auto& option : rocksdb) printf("  %s=%s\n", option.first.c_str(), option.second.c_str());
  return kExitOk;
}

const CommandRegistration kModel("model", "Compute the write amplification of a store's shape", RunModel);
const CommandRegistration kSimulate("simulate", "Play a store in memory and count what it writes", RunSimulate);
const CommandRegistration kOptimize("optimize", "Find level sizes that write less, as RocksDB options", RunOptimize);

}  // namespace
}  // namespace cairn
