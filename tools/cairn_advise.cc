// cairn advise: reads the shape of a database and says which level sizes would write less, and what each engine would
// cost for its workload.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cairn/engines.h"
#include "cairn/msls.h"
#include "cairn/ordered.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "msls/model_options.h"
#include "msls/tuner_logic.h"
#include "rocksdb/db.h"
#include "rocksdb/metadata.h"
#include "rocksdb/table_properties.h"
#include "table/table_facts.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/database.h"
#include "tools/engine_costs.h"

namespace cairn {
namespace {

// What was found in the tables of a column family.
struct Found {
  double entries = 0, table_bytes = 0, raw_bytes = 0, keys = 0;
  std::vector<double> level_bytes;  // from level 1
  // Of the tables of level 0 but the oldest: the writes that went into them, and the keys that were left of those.
  double level0_tables = 0, level0_writes = 0, level0_keys = 0;
};

// Every write took a sequence number, also those of which nothing is left: a table stands for those from the last of
// the table before it, which the oldest has not.
void LookAtLevel0(const rocksdb::LevelMetaData& level, Found* found) {
  std::vector<std::pair<uint64_t, uint64_t>> tables;
  for (const rocksdb::SstFileMetaData& file : level.files) tables.emplace_back(file.largest_seqno, file.num_entries);
  std::sort(tables.begin(), tables.end());
  for (size_t i = 1; i < tables.size(); i++) {
    found->level0_tables++;
    found->level0_writes += static_cast<double>(tables[i].first - tables[i - 1].first);
    found->level0_keys += static_cast<double>(tables[i].second);
  }
}

rocksdb::Status Look(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Found* found) {
  rocksdb::TablePropertiesCollection tables;
  rocksdb::Status s = db->GetPropertiesOfAllTables(family, &tables);
  if (!s.ok()) return s;
  for (const auto& [name, properties] : tables) {
    found->entries += static_cast<double>(properties->num_entries);
    found->raw_bytes += static_cast<double>(KeyAndValueBytes(*properties));
  }
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(family, &metadata);
  for (const rocksdb::LevelMetaData& level : metadata.levels) {
    found->table_bytes += static_cast<double>(level.size);
    if (level.level == 0) LookAtLevel0(level, found);
    if (level.level > 0) found->level_bytes.push_back(static_cast<double>(level.size));
  }
  while (!found->level_bytes.empty() && found->level_bytes.back() == 0) found->level_bytes.pop_back();
  // Each key lies once in the deepest level, and newer versions of it above: the deepest level counts the keys, unless
  // most of the data has not got there yet.
  double deepest = 0;
  for (double bytes : found->level_bytes) deepest = std::max(deepest, bytes);
  const double bytes_per_entry = found->entries > 0 ? found->table_bytes / found->entries : 0;
  found->keys = bytes_per_entry > 0 ? (deepest > 0 ? deepest : found->table_bytes) / bytes_per_entry : 0;
  return s;
}

// The store that the options describe, but for the shape of a trie or of SILT (see OwnCosts). A message if there is no
// model for them.
std::string Describe(const rocksdb::Options& options, const Found& found, StoreShape* store) {
  const double item_bytes = std::max(1.0, found.table_bytes / found.entries);
  if (IsSilt(options, nullptr)) {
    *store = StoreShape::Default(Design::kSilt);
  } else if (IsTrie(options)) {
    *store = StoreShape::Default(Design::kTrie);
  } else if (options.compaction_style == rocksdb::kCompactionStyleUniversal) {
    *store = StoreShape::Default(Design::kUniversal);
    store->size_ratio_percent = static_cast<int>(options.compaction_options_universal.size_ratio);
    store->min_merge_width = std::max(2, static_cast<int>(options.compaction_options_universal.min_merge_width));
    store->max_size_amplification_percent =
        static_cast<int>(std::min(options.compaction_options_universal.max_size_amplification_percent, 1000000u));
    store->level0_trigger = std::max(2, options.level0_file_num_compaction_trigger);
  } else if (options.compaction_style == rocksdb::kCompactionStyleLevel) {
    *store = StoreShape::Default(Design::kRocksDB);
    store->pick = PickOf(options.compaction_pri);
    store->level0_trigger = std::max(1, options.level0_file_num_compaction_trigger);
    store->file_bytes = std::max(item_bytes, static_cast<double>(options.target_file_size_base));
    store->dynamic_level_bytes = options.level_compaction_dynamic_level_bytes;
    store->level_base_bytes = static_cast<double>(options.max_bytes_for_level_base);
    store->level_multiplier = std::max(1.01, options.max_bytes_for_level_multiplier);
    if (!store->dynamic_level_bytes && !AppendLevelTargets(options, found.keys * item_bytes, &store->level_bytes)) {
      return "its level sizes do not grow from level to level";
    }
  } else {
    return "its compaction style is neither level nor universal, and it is no trie";
  }
  store->item_bytes = item_bytes;
  const double raw = found.raw_bytes / found.entries + kMemtableEntryOverhead;
  const double buffers = std::max(1, options.min_write_buffer_number_to_merge);
  store->write_buffer_bytes =
      std::max(item_bytes, static_cast<double>(options.write_buffer_size) * buffers / raw * item_bytes);
  return "";
}

std::string Tenths(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string RunsToHit(const Report& report) { return report.runs_to_hit > 0 ? Tenths(report.runs_to_hit) : "-"; }

// What was found and what is advised.
struct Advice {
  Found found;
  StoreShape store;
  std::string popularity_source;  // given, level 0 or assumed
  double histogram_keys = 0;      // of the file given; they stand for those of the store
  EngineCosts own;                // of the engine that there is
  EngineWorkload own_workload;    // ... within its limits
  EngineWorkload workload;
  std::vector<EngineCosts> engines;
  double seconds = 0;
};

// Of --options: every engine.
constexpr char kAll[] = "all";

// What the engine that there is may take in space, unless told otherwise; and others, as much as a trie by default.
constexpr double kSpaceOfSizes = 1.25, kSpaceOfEngines = 1.5;

// Of Advice::workload, all but the popularity and the limits.
void DescribeWorkload(const rocksdb::Options& options, double zipf, Advice* advice) {
  const StoreShape& store = advice->store;
  const auto write_buffer = static_cast<double>(options.write_buffer_size);
  EngineWorkload& workload = advice->workload;
  workload.is_zipf = advice->histogram_keys == 0;
  workload.zipf = zipf;
  workload.item_bytes = store.item_bytes;
  workload.data_bytes = advice->found.raw_bytes;
  workload.table_bytes = advice->found.table_bytes;
  workload.write_buffer_bytes = store.write_buffer_bytes;
  workload.fill = store.write_buffer_bytes / (write_buffer * std::max(1, options.min_write_buffer_number_to_merge));
  workload.file_bytes = store.file_bytes;
  workload.level_base_bytes = std::max(store.item_bytes, options.level_compaction_dynamic_level_bytes
                                                             ? static_cast<double>(options.max_bytes_for_level_base)
                                                             : 4 * write_buffer);  // RocksDB's own proportions
}

// What the store costs as it is, and with better options.
EngineCosts OwnCosts(const rocksdb::Options& options, const msls::OptimizeOptions& levels, const Advice& advice) {
  const EngineWorkload& workload = advice.own_workload;
  SiltOptions silt;
  HashTrieOptions hash_trie;
  KeyTrieOptions key_trie;
  if (IsSilt(options, &silt)) return CostsOfSilt(workload, silt);
  if (IsKeyTrie(options, &key_trie)) return CostsOfOrderedTrie(workload, key_trie);
  if (IsHashTrie(options, &hash_trie)) {
    EngineCosts costs = CostsOfTrie(workload, hash_trie, advice.found.raw_bytes, advice.found.table_bytes);
    if (hash_trie.format == "sst") costs.engine = "trie_sst";
    return costs;
  }
  return CostsOfShape(workload, advice.store, levels);
}

// How CompareEngines names the engine that there is.
std::string NameOf(const rocksdb::Options& options, const EngineCosts& own) {
  if (IsRoundRobin(options, nullptr)) return "round_robin";
  if (own.engine != kStockEngine) return own.name;
  if (options.compaction_style == rocksdb::kCompactionStyleLevel) return kLeveledBest;
  return IsOrdered(options) ? "ordered" : own.name;
}

// For the engine that there is, and for each in place of it.
void Compare(const rocksdb::Options& options, const msls::OptimizeOptions& limits, Advice* advice) {
  const auto start = std::chrono::steady_clock::now();
  EngineWorkload& workload = advice->workload;
  workload.max_space = limits.max_space_amplification;
  workload.max_runs_to_hit = limits.max_runs_to_hit;
  advice->own_workload = workload;
  advice->own_workload.search = true;
  if (!workload.search) advice->own_workload.least_space = kSpaceOfSizes;
  advice->own = OwnCosts(options, limits, *advice);
  if (!workload.search && workload.max_space == 0) {
    workload.max_space = std::max(kSpaceOfEngines, advice->own.before.space_amplification);
  }
  workload.search_ordered_trie = workload.search_ordered_trie && !IsKeyTrie(options, nullptr);
  advice->engines = CompareEngines(workload);
  for (EngineCosts& costs : advice->engines) {
    const std::string name = costs.name;
    if (!workload.search || name != NameOf(options, advice->own)) continue;
    costs = advice->own;
    costs.name = name;
    SetPeak(workload, &costs);
  }
  advice->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The word of a command line.
std::string Quoted(const std::string& text) { return text.find(';') == std::string::npos ? text : "\"" + text + "\""; }

// How to get the options of an engine.
std::string OptionsCommand(const EngineCosts& costs) {
  std::string command = "cairn options " + costs.engine;
  if (!costs.engine_options.empty()) command += " --option " + Quoted(costs.engine_options);
  std::string rocksdb;
  for (const auto& [name, value] : costs.rocksdb) rocksdb += (rocksdb.empty() ? "" : ";") + name + "=" + value;
  if (!rocksdb.empty()) command += " --rocksdb-option \"" + rocksdb + "\"";
  return command;
}

// Why there is no advice; empty: there is.
std::string NoOptions(const EngineCosts& costs) {
  return costs.no_model.empty() ? costs.no_search : "What it costs is not known: " + costs.no_model + ".";
}

nlohmann::ordered_json ToJson(const Report& report) {
  return {{"write_amplification", report.write_amplification},
          {"space_amplification", report.space_amplification},
          {"runs_to_hit", report.runs_to_hit},
          {"sorted_runs", report.sorted_runs}};
}

nlohmann::ordered_json ToJson(const EngineWorkload& workload, const EngineCosts& costs) {
  nlohmann::ordered_json json;
  json["name"] = costs.name;
  json["engine"] = costs.engine;
  json["options"] = OptionsCommand(costs);
  json["key_order"] = costs.key_order;
  if (!costs.no_model.empty()) {
    json["no_model"] = costs.no_model;
    return json;
  }
  json.update(ToJson(costs.report));
  json["peak_space"] = costs.peak_space;
  json["within_limits"] = costs.within_limits;
  if (workload.search) {
    json["before"] = ToJson(costs.before);
    json["fragment"] = HasBetterOptions(workload, costs) ? OptionsText(costs) : "";
    if (!costs.no_search.empty()) json["no_search"] = costs.no_search;
  }
  return json;
}

void PrintEngines(const Advice& advice) {
  printf("\nEngines, for this workload and within %.2f bytes for each live byte:\n", advice.workload.max_space);
  printf("  %-20s %8s %6s %8s %14s %15s  %s\n", "", "written", "space", "at most", "runs to a key", "of no such key",
         "keys");
  for (const EngineCosts& costs : advice.engines) {
    if (!costs.no_model.empty()) {
      printf("  %-20s no model: %s\n", costs.name.c_str(), costs.no_model.c_str());
      continue;
    }
    const Report& report = costs.report;
    printf("  %-20s %8.2f %6.2f %8.2f %14s %15.1f  %s%s\n", costs.name.c_str(), report.write_amplification,
           report.space_amplification, costs.peak_space, RunsToHit(report).c_str(), report.sorted_runs,
           costs.key_order ? "in order" : "in hash order", costs.within_limits ? "" : ", above the limits");
  }
  const EngineCosts* const best = BestEngine(advice.engines, advice.workload, EngineNeeds::kNothing);
  if (best == nullptr) {
    printf("None keeps the limits.\n");
    return;
  }
  const Report& now = advice.own.before;
  if (now.write_amplification == 0) {
    printf("%s writes least, %.2f:\n  %s\n", best->name.c_str(), best->report.write_amplification,
           OptionsCommand(*best).c_str());
  } else if (KeepsLimits(advice.workload, now) &&
             best->report.write_amplification > (1 - kLittle) * now.write_amplification) {
    printf("None writes 1 %% less than it does as it is, %.2f.\n", now.write_amplification);
  } else {
    printf("%s writes least, %.2f instead of %.2f:\n  %s\n", best->name.c_str(), best->report.write_amplification,
           now.write_amplification, OptionsCommand(*best).c_str());
  }
  const auto other = [&](const char* what, EngineNeeds needs) {
    const EngineCosts* const found = BestEngine(advice.engines, advice.workload, needs);
    if (found == nullptr || found == best) return;
    printf("Of those that %s, %s does, %.2f:\n  %s\n", what, found->name.c_str(), found->report.write_amplification,
           OptionsCommand(*found).c_str());
  };
  other("keep keys in order", EngineNeeds::kKeyOrder);
  other("keep the limit on space while they compact", EngineNeeds::kNoPeaks);
}

void PrintJson(const Advice& advice) {
  const EngineCosts& own = advice.own;
  const double item_bytes = advice.store.item_bytes;
  // Null: its engine's model has nothing to say.
  const auto known = [](double cost) { return cost > 0 ? nlohmann::ordered_json(cost) : nlohmann::ordered_json(); };
  nlohmann::ordered_json out;
  out["design"] = own.name;
  out["keys"] = std::llround(advice.found.keys);
  out["item_bytes"] = item_bytes;
  out["items_per_flush"] = advice.store.write_buffer_bytes / item_bytes;
  out["level_bytes"] = advice.found.level_bytes;
  out["popularity"] = advice.workload.popularity.name();
  out["popularity_source"] = advice.popularity_source;
  if (advice.histogram_keys > 0) out["histogram_keys"] = advice.histogram_keys;
  if (!NoOptions(own).empty()) out["no_sizes"] = NoOptions(own);
  out["write_amplification"] = known(own.before.write_amplification);
  out["advised_write_amplification"] = known(own.report.write_amplification);
  out["space_amplification"] = known(own.before.space_amplification);
  out["advised_space_amplification"] = known(own.report.space_amplification);
  out["breakdown"] = nlohmann::ordered_json::array();
  for (const msls::WriteCost& step : own.before.breakdown) {
    out["breakdown"].push_back({{"name", step.name}, {"value", step.value}});
  }
  for (double items : own.before.level_items) out["level_sizes"].push_back(std::llround(items * item_bytes));
  for (double items : own.report.level_items) out["advised_level_sizes"].push_back(std::llround(items * item_bytes));
  out["max_space"] = advice.workload.max_space;
  for (const EngineCosts& costs : advice.engines) out["engines"].push_back(ToJson(advice.workload, costs));
  const auto best = [&](EngineNeeds needs) {
    const EngineCosts* const found = BestEngine(advice.engines, advice.workload, needs);
    return found == nullptr ? "" : found->name;
  };
  out["best"] = best(EngineNeeds::kNothing);
  out["best_in_key_order"] = best(EngineNeeds::kKeyOrder);
  out["best_without_peaks"] = best(EngineNeeds::kNoPeaks);
  out["seconds"] = advice.seconds;
  out["options"] = nlohmann::ordered_json::object();
  for (const auto& option : own.rocksdb) out["options"][option.first] = option.second;
  printf("%s\n", out.dump(2).c_str());
}

void PrintSizes(const std::string& path, const Advice& advice) {
  const EngineCosts& own = advice.own;
  const Found& found = advice.found;
  const StoreShape& store = advice.store;
  const std::string& source = advice.popularity_source;
  printf("%s, %s: about %.0f keys of %.0f B in tables, %.0f to a flush, popularity %s (%s)\n", path.c_str(),
         own.name.c_str(), found.keys, store.item_bytes, store.write_buffer_bytes / store.item_bytes,
         advice.workload.popularity.name().c_str(), source == "level 0" ? "by the tables of level 0" : source.c_str());
  if (advice.histogram_keys > 0 && std::abs(advice.histogram_keys - found.keys) > kLittle * found.keys) {
    printf("  The %.0f keys of the histogram are taken for a sample of these.\n", advice.histogram_keys);
  }
  for (size_t l = 0; l < found.level_bytes.size(); l++) {
    if (found.level_bytes[l] > 0) printf("  level %zu holds %.1f MB\n", l + 1, found.level_bytes[l] / 1e6);
  }
  if (own.no_model.empty()) {
    printf(
        "In the steady state it writes %.2f bytes for each byte put in, the log included, and keeps %.2f for each live "
        "byte.\n",
        own.before.write_amplification, own.before.space_amplification);
  }
  if (!NoOptions(own).empty()) {
    printf("%s\n", NoOptions(own).c_str());
  } else if (!HasBetterOptions(advice.own_workload, own)) {
    printf("No other options within the limits write 1 %% less. Leave it as it is.\n");
  } else {
    const double gain = 1 - own.report.write_amplification / own.before.write_amplification;
    if (!KeepsLimits(advice.own_workload, own.before)) printf("That is not within the limits. ");
    printf("This would write %.2f (%.1f %% %s) and keep %.2f:\n%s", own.report.write_amplification,
           100 * std::abs(gain), gain < 0 ? "more" : "less", own.report.space_amplification, OptionsText(own).c_str());
  }
}

// The options of an engine, as text that OPTIONS files and option strings take; what is said of them is a comment.
void PrintOptions(const EngineWorkload& workload, const EngineCosts& costs) {
  printf("# %s: ", costs.name.c_str());
  if (!costs.no_model.empty()) {
    printf("no model: %s\n\n", costs.no_model.c_str());
    return;
  }
  const auto figures = [](const Report& report) {
    printf("writes %.2f, keeps %.2f, %s runs to a key, %.1f of no such key", report.write_amplification,
           report.space_amplification, RunsToHit(report).c_str(), report.sorted_runs);
  };
  figures(costs.before);
  if (!HasBetterOptions(workload, costs)) {
    printf("\n# %s\n\n", costs.no_search.empty() ? "Leave its options as they are." : costs.no_search.c_str());
    return;
  }
  printf("; with these options it\n#   ");
  figures(costs.report);
  // "engine=" begins an option string of Cairn's.
  const bool engine = costs.engine != kStockEngine;
  printf("\n# %s\n%s\n", engine ? OptionsCommand(costs).c_str() : "under [CFOptions \"default\"] of an OPTIONS file:",
         OptionsText(costs).c_str());
}

int RunAdvise(int argc, char** argv) {
  Arguments arguments(
      "advise",
      "Reads the shape of a database (options, level sizes, item size, number of keys) and says by the model how much\n"
      "it writes, which options would make it write less, and what each engine would write, keep and read for the\n"
      "same workload. Changes nothing; the database may be in use. How popular keys are is read off the tables of\n"
      "level 0, if there are two or more and no other column family; say it better with --zipf or --histogram, whose\n"
      "keys are taken for a sample of the database's.");
  std::string path, family_name = "default", histogram;
  double zipf = 0;
  msls::OptimizeOptions limits;
  bool json = false;
  std::string engine;
  arguments.Positional("DB", &path, "the database's directory");
  arguments.Text("column-family", &family_name, "NAME", "the column family to look at");
  arguments.Number("zipf", &zipf, "skew of the popularity of written keys; 0: uniform", 0, 8);
  arguments.Text("histogram", &histogram, "FILE", "popularity as lines `weight` or `weight keys`; in place of --zipf");
  arguments.Number("max-space", &limits.max_space_amplification,
                   "bytes kept for each live byte; 0: 1.25 for level sizes, 1.5 for engines, or as many as now", 0,
                   1e6);
  arguments.Number("max-runs-to-hit", &limits.max_runs_to_hit,
                   "engines: runs visited, or filters asked, for a key that exists; 0: no limit", 0, 1e6);
  arguments.Integer("min-levels", &limits.min_levels, "least number of levels without level 0; 0: as it is", 0, 20);
  arguments.Integer("max-levels", &limits.max_levels, "most levels without level 0; 0: as it is", 0, 20);
  arguments.Choice("options", &engine,
                   {kAll, "leveled", "round_robin", "universal", "ordered", "ordered_trie", "trie", "silt"},
                   "print options of this engine that write less than its defaults, or than those that the database "
                   "has, and keep and read no more, or as much as the limits allow");
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (arguments.Given("zipf") && arguments.Given("histogram")) {
    return arguments.UsageError("--histogram says how popular keys are; leave out --zipf");
  }
  if (limits.max_levels > 0 && limits.min_levels > limits.max_levels) {
    return arguments.UsageError("--min-levels is more than --max-levels");
  }

  std::unique_ptr<Database> database;
  auto fail = [&path](const std::string& message) {
    fprintf(stderr, "cairn advise: %s: %s\n", path.c_str(), message.c_str());
    return kExitFailure;
  };
  const rocksdb::Status opened = Database::OpenForReading(path, &database);
  if (!opened.ok()) return fail(opened.ToString());
  rocksdb::ColumnFamilyHandle* family = database->Find(family_name);
  if (family == nullptr) return fail("There is no column family \"" + family_name + "\".");
  Advice advice;
  Found& found = advice.found;
  const rocksdb::Status looked = Look(database->db(), family, &found);
  if (!looked.ok()) return fail(looked.ToString());
  if (found.entries < 1 || found.keys < 2) return fail("It holds no tables yet; there is nothing to go by.");
  const rocksdb::Options options = database->db()->GetOptions(family);
  const std::string unknown = Describe(options, found, &advice.store);
  if (!unknown.empty()) return fail("There is no model for it: " + unknown + ".");

  advice.popularity_source = "given";
  if (histogram.empty() && !arguments.Given("zipf")) {
    // Other column families take sequence numbers, too, and would make keys look popular.
    const bool seen = found.level0_tables > 0 && database->families().size() == 1;
    advice.popularity_source = seen ? "level 0" : "assumed";
    if (seen) {
      zipf =
          EstimateSkew(found.keys, found.level0_writes / found.level0_tables, found.level0_keys / found.level0_tables);
    }
  }
  IndexStatus s = IndexStatus::OK();
  if (histogram.empty()) {
    s = Popularity::Zipf(found.keys, zipf, &advice.workload.popularity);
  } else {
    s = Popularity::HistogramFromFile(histogram, &advice.workload.popularity);
    advice.histogram_keys = s.ok() ? advice.workload.popularity.keys() : 0;
    if (s.ok()) s = Popularity::HistogramOfSample(histogram, found.keys, &advice.workload.popularity);
  }
  if (!s.ok()) return fail(s.message());
  DescribeWorkload(options, zipf, &advice);
  advice.workload.search = !engine.empty();
  advice.workload.search_ordered_trie = engine == "ordered_trie";
  Compare(options, limits, &advice);
  if (json) {
    PrintJson(advice);
  } else if (!engine.empty()) {
    for (const EngineCosts& costs : advice.engines) {
      // Leveled compaction as it comes has none.
      const bool asked = engine == kAll || engine == (costs.name == kLeveledBest ? "leveled" : costs.name);
      if (asked && costs.name != "leveled") PrintOptions(advice.workload, costs);
    }
  } else {
    PrintSizes(path, advice);
    PrintEngines(advice);
  }
  return kExitOk;
}

const CommandRegistration kAdvise("advise", "Say which level sizes or engine would make a database write less",
                                  RunAdvise);

}  // namespace
}  // namespace cairn
