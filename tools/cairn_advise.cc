// cairn advise: reads the shape of a database and says which level sizes would write less, and what each engine would
// cost for its workload.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/msls.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "msls/model_options.h"
#include "msls/tuner_logic.h"
#include "rocksdb/db.h"
#include "rocksdb/metadata.h"
#include "rocksdb/table_properties.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/database.h"
#include "tools/engine_costs.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

using msls::Design;
using msls::Popularity;
using msls::Report;
using msls::StoreShape;

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
    // Sequence number and type are no part of a user's key.
    found->raw_bytes += static_cast<double>(properties->raw_key_size + properties->raw_value_size) -
                        8 * static_cast<double>(properties->num_entries);
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

// The store that the options describe, but for what the optimizer has no shapes of (see Advice::own). A message if
// there is no model for them.
std::string Describe(const rocksdb::Options& options, const Found& found, StoreShape* store) {
  TrieOptionText trie;
  const double item_bytes = std::max(1.0, found.table_bytes / found.entries);
  if (IsSilt(options, nullptr)) {
    *store = StoreShape::Default(Design::kSilt);
  } else if (IsTrie(options, &trie)) {
    *store = StoreShape::Default(Design::kTrie);
    SetTrieShape(trie, found.raw_bytes, found.table_bytes, store);
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

std::string Mega(double bytes) {
  char text[32];
  snprintf(text, sizeof(text), "%.1f MB", bytes / 1e6);
  return text;
}

// A smaller gain is none.
constexpr double kLittle = 0.01;

// What was found and what is advised.
struct Advice {
  Found found;
  StoreShape store;
  Popularity popularity;
  std::string popularity_source;  // given, level 0 or assumed
  double histogram_keys = 0;      // of the file given; they stand for those of the store
  msls::Optimum optimum;
  std::string no_sizes;    // why no shape is advised; empty: one is
  double sizes_space = 0;  // the limit that it keeps
  // Of an engine that the optimizer has no shapes of.
  std::optional<EngineCosts> own;
  std::vector<std::pair<std::string, std::string>> options;  // RocksDB's, of the advised shape; a trie has none
  uint64_t level_base_bytes = 0;                             // of the options
  double fill = 1;                                           // what a flush writes by the size of the write buffer
  EngineWorkload workload;
  std::vector<EngineCosts> engines;
  double seconds = 0;
};

// What other engines may take in space, unless told otherwise: as much as a trie by default.
constexpr double kSpaceOfEngines = 1.5;

// Of Advice::workload, all but the limits.
void DescribeWorkload(double zipf, Advice* advice) {
  const StoreShape& store = advice->store;
  EngineWorkload& workload = advice->workload;
  workload.popularity = advice->popularity;
  workload.is_zipf = advice->histogram_keys == 0;
  workload.zipf = zipf;
  workload.item_bytes = store.item_bytes;
  workload.data_bytes = advice->found.raw_bytes;
  workload.table_bytes = advice->found.table_bytes;
  workload.write_buffer_bytes = store.write_buffer_bytes;
  workload.fill = advice->fill;
  workload.file_bytes = store.file_bytes;
  workload.level_base_bytes = std::max(store.item_bytes, static_cast<double>(advice->level_base_bytes));
}

// What each engine would cost in place of the one there is.
void Compare(const msls::OptimizeOptions& limits, Advice* advice) {
  EngineWorkload& workload = advice->workload;
  workload.max_space = limits.max_space_amplification;
  if (workload.max_space == 0) {
    workload.max_space = std::max(kSpaceOfEngines, advice->optimum.before.space_amplification);
  }
  workload.max_runs_to_hit = limits.max_runs_to_hit;
  advice->engines = CompareEngines(workload);
}

// What the store costs as it is, for an engine that the optimizer has no shapes of.
std::optional<EngineCosts> OwnCosts(const rocksdb::Options& options, const EngineWorkload& workload) {
  SiltOptions silt;
  if (IsSilt(options, &silt)) return CostsOfSilt(workload, silt);
  KeyTrieOptions trie;
  if (IsKeyTrie(options, &trie)) return CostsOfOrderedTrie(workload, trie);
  return std::nullopt;
}

IndexStatus Advise(msls::OptimizeOptions limits, Advice* advice) {
  const auto start = std::chrono::steady_clock::now();
  if (advice->own.has_value()) {
    advice->no_sizes = advice->own->no_model.empty() ? "It has no level sizes to choose."
                                                     : "What it costs is not known: " + advice->own->no_model + ".";
    advice->optimum.before = advice->optimum.after = advice->own->report;
    return IndexStatus::OK();
  }
  limits.max_runs_to_hit = 0;  // of level sizes no others are told that read more than those there are
  IndexStatus s;
  if (limits.max_space_amplification == 0) {
    // Unless told otherwise, the advice does not trade away much space.
    msls::Report now;
    s = Model(advice->store, advice->popularity, &now);
    limits.max_space_amplification = std::max(1.25, now.space_amplification);
  }
  advice->sizes_space = limits.max_space_amplification;
  if (s.ok()) {
    s = Optimize(advice->store, advice->popularity, limits, &advice->optimum);
    if (!s.ok() && advice->optimum.before.write_amplification > 0) {
      // Other engines may keep limits that no shape of this one does.
      advice->no_sizes = s.message();
      advice->optimum.after = advice->optimum.before;
      s = IndexStatus::OK();
    }
  }
  if (s.ok() && advice->no_sizes.empty())
    (void)RocksDBOptions(advice->optimum.store, advice->popularity, &advice->options);
  advice->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return s;
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

nlohmann::ordered_json ToJson(const EngineCosts& costs) {
  nlohmann::ordered_json json;
  json["name"] = costs.name;
  json["engine"] = costs.engine;
  json["options"] = OptionsCommand(costs);
  json["key_order"] = costs.key_order;
  if (!costs.no_model.empty()) {
    json["no_model"] = costs.no_model;
    return json;
  }
  json["write_amplification"] = costs.report.write_amplification;
  json["space_amplification"] = costs.report.space_amplification;
  json["runs_to_hit"] = costs.report.runs_to_hit;
  json["sorted_runs"] = costs.report.sorted_runs;
  json["peak_space"] = costs.peak_space;
  json["within_limits"] = costs.within_limits;
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
    char hit[32] = "-";
    if (report.runs_to_hit > 0) snprintf(hit, sizeof(hit), "%.1f", report.runs_to_hit);
    printf("  %-20s %8.2f %6.2f %8.2f %14s %15.1f  %s%s\n", costs.name.c_str(), report.write_amplification,
           report.space_amplification, costs.peak_space, hit, report.sorted_runs,
           costs.key_order ? "in order" : "in hash order", costs.within_limits ? "" : ", above the limits");
  }
  const EngineCosts* const best = BestEngine(advice.engines, advice.workload, EngineNeeds::kNothing);
  if (best == nullptr) {
    printf("None keeps the limits.\n");
    return;
  }
  const Report& now = advice.optimum.before;
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

std::string DesignOf(const Advice& advice) {
  return advice.own.has_value() ? advice.own->engine : msls::DesignName(advice.store.design);
}

void PrintJson(const Advice& advice) {
  const msls::Optimum& optimum = advice.optimum;
  const double item_bytes = advice.store.item_bytes;
  // Null: its engine's model has nothing to say.
  const auto known = [](double cost) { return cost > 0 ? nlohmann::ordered_json(cost) : nlohmann::ordered_json(); };
  nlohmann::ordered_json out;
  out["design"] = DesignOf(advice);
  out["keys"] = std::llround(advice.found.keys);
  out["item_bytes"] = item_bytes;
  out["items_per_flush"] = advice.store.write_buffer_bytes / item_bytes;
  out["level_bytes"] = advice.found.level_bytes;
  out["popularity"] = advice.popularity.name();
  out["popularity_source"] = advice.popularity_source;
  if (advice.histogram_keys > 0) out["histogram_keys"] = advice.histogram_keys;
  if (!advice.no_sizes.empty()) out["no_sizes"] = advice.no_sizes;
  out["write_amplification"] = known(optimum.before.write_amplification);
  out["advised_write_amplification"] = known(optimum.after.write_amplification);
  out["space_amplification"] = known(optimum.before.space_amplification);
  out["advised_space_amplification"] = known(optimum.after.space_amplification);
  out["breakdown"] = nlohmann::ordered_json::array();
  for (const msls::WriteCost& step : optimum.before.breakdown) {
    out["breakdown"].push_back({{"name", step.name}, {"value", step.value}});
  }
  for (double items : optimum.before.level_items) out["level_sizes"].push_back(std::llround(items * item_bytes));
  for (double items : optimum.after.level_items) out["advised_level_sizes"].push_back(std::llround(items * item_bytes));
  out["max_space"] = advice.workload.max_space;
  for (const EngineCosts& costs : advice.engines) out["engines"].push_back(ToJson(costs));
  const auto best = [&](EngineNeeds needs) {
    const EngineCosts* const found = BestEngine(advice.engines, advice.workload, needs);
    return found == nullptr ? "" : found->name;
  };
  out["best"] = best(EngineNeeds::kNothing);
  out["best_in_key_order"] = best(EngineNeeds::kKeyOrder);
  out["best_without_peaks"] = best(EngineNeeds::kNoPeaks);
  out["seconds"] = advice.seconds;
  out["options"] = nlohmann::ordered_json::object();
  for (const auto& option : advice.options) out["options"][option.first] = option.second;
  printf("%s\n", out.dump(2).c_str());
}

void PrintSizes(const std::string& path, const Advice& advice) {
  const msls::Optimum& optimum = advice.optimum;
  const Found& found = advice.found;
  const StoreShape& store = advice.store;
  const std::string& source = advice.popularity_source;
  printf("%s, %s: about %.0f keys of %.0f B in tables, %.0f to a flush, popularity %s (%s)\n", path.c_str(),
         DesignOf(advice).c_str(), found.keys, store.item_bytes, store.write_buffer_bytes / store.item_bytes,
         advice.popularity.name().c_str(), source == "level 0" ? "by the tables of level 0" : source.c_str());
  if (advice.histogram_keys > 0 && std::abs(advice.histogram_keys - found.keys) > kLittle * found.keys) {
    printf("  The %.0f keys of the histogram are taken for a sample of these.\n", advice.histogram_keys);
  }
  for (size_t l = 0; l < found.level_bytes.size(); l++) {
    if (found.level_bytes[l] > 0) printf("  level %zu holds %s\n", l + 1, Mega(found.level_bytes[l]).c_str());
  }
  if (optimum.before.write_amplification == 0) {
    printf("%s\n", advice.no_sizes.c_str());
    return;
  }
  printf(
      "In the steady state it writes %.2f bytes for each byte put in, the log included, and keeps %.2f for each live "
      "byte.\n",
      optimum.before.write_amplification, optimum.before.space_amplification);
  if (!advice.no_sizes.empty()) {
    printf("%s\n", advice.no_sizes.c_str());
    return;
  }
  const double gain = 1 - optimum.after.write_amplification / optimum.before.write_amplification;
  const bool keeps_space = optimum.before.space_amplification <= (1 + kLittle) * advice.sizes_space;
  if (gain < kLittle && keeps_space) {
    printf("No other shape within the limits writes 1 %% less. Leave it as it is.\n");
    return;
  }
  if (!keeps_space) printf("That is more than %.2f. ", advice.sizes_space);
  printf("This would write %.2f (%.1f %% %s) and keep %.2f:\n", optimum.after.write_amplification, 100 * std::abs(gain),
         gain < 0 ? "more" : "less", optimum.after.space_amplification);
  if (store.design == Design::kTrie) {
    const double space_bound = msls::SpaceBoundInItems(optimum.store.space_bound, found.table_bytes, found.raw_bytes);
    printf("  %s\n", TrieShapeText(optimum.store, space_bound).c_str());
  }
  for (const auto& option : advice.options) {
    if (option.first != "write_buffer_size" && option.first != "num_levels")
      printf("  %s=%s\n", option.first.c_str(), option.second.c_str());
  }
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
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (arguments.Given("zipf") && arguments.Given("histogram")) {
    fprintf(stderr, "cairn advise: --histogram says how popular keys are; leave out --zipf\n");
    return kExitUsage;
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
  advice.level_base_bytes = options.level_compaction_dynamic_level_bytes
                                ? options.max_bytes_for_level_base
                                : 4 * options.write_buffer_size;  // RocksDB's own proportions
  advice.fill = advice.store.write_buffer_bytes / (static_cast<double>(options.write_buffer_size) *
                                                   std::max(1, options.min_write_buffer_number_to_merge));
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
    s = Popularity::Zipf(found.keys, zipf, &advice.popularity);
  } else {
    s = Popularity::HistogramFromFile(histogram, &advice.popularity);
    advice.histogram_keys = s.ok() ? advice.popularity.keys() : 0;
    if (s.ok()) s = Popularity::HistogramOfSample(histogram, found.keys, &advice.popularity);
  }
  if (s.ok()) {
    DescribeWorkload(zipf, &advice);
    advice.own = OwnCosts(options, advice.workload);
    s = Advise(limits, &advice);
  }
  if (!s.ok()) return fail(s.message());
  Compare(limits, &advice);
  if (json) {
    PrintJson(advice);
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
