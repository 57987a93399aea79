#include "msls/round_robin.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cairn/msls.h"
#include "msls/key_sample.h"
#include "msls/level_sizes.h"
#include "msls/model_options.h"
#include "rocksdb/utilities/options_type.h"
#include "table/tombstone_run.h"
#include "util/listeners.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::OptionType;

namespace {

constexpr char kRoundRobinPick[] = "round_robin";
constexpr char kBestPick[] = "best";
// What is more than that never writes less, for data of any size.
constexpr int kMostLevels = 9;
// The last level has room for so many times the data before one is added.
constexpr double kRoomForData = 2;

const OptionTypes& RoundRobinOptionTypes() {
  static const auto* types = new OptionTypes{
      {"pick", {offsetof(RoundRobinOptions, pick), OptionType::kString}},
      {"keys", {offsetof(RoundRobinOptions, keys), OptionType::kUInt64T}},
      {"item_bytes", {offsetof(RoundRobinOptions, item_bytes), OptionType::kUInt64T}},
      {"zipf", {offsetof(RoundRobinOptions, zipf), OptionType::kDouble}},
      {"max_space", {offsetof(RoundRobinOptions, max_space), OptionType::kDouble}},
      {"tombstone_run", {offsetof(RoundRobinOptions, tombstone_run), OptionType::kUInt32T}},
      {"tune", {offsetof(RoundRobinOptions, tune), OptionType::kBoolean}},
      {"window_flushes", {offsetof(RoundRobinOptions, window_flushes), OptionType::kUInt64T}},
      {"min_seconds_between_changes", {offsetof(RoundRobinOptions, min_seconds_between_changes), OptionType::kDouble}},
  };
  return *types;
}

// Samples as cairn.KeySample does.
class RoundRobinSample : public KeySampleFactory {
 public:
  std::string GetId() const override { return std::string(); }
};

Status FromModel(const IndexStatus& s) { return s.ok() ? Status::OK() : Status::InvalidArgument(s.message()); }

// The store as the options have it, without level sizes.
msls::StoreShape ShapeOf(const ColumnFamilyOptions& options, const RoundRobinOptions& round_robin,
                         msls::FilePick pick) {
  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kRocksDB);
  store.pick = pick;
  store.item_bytes = static_cast<double>(round_robin.item_bytes);
  const double buffers = std::max(1, options.min_write_buffer_number_to_merge);
  store.write_buffer_bytes =
      std::max(store.item_bytes, static_cast<double>(options.write_buffer_size) * buffers * store.item_bytes /
                                     (store.item_bytes + kMemtableEntryOverhead));
  store.level0_trigger = std::max(1, options.level0_file_num_compaction_trigger);
  store.file_bytes = std::max(store.item_bytes, static_cast<double>(options.target_file_size_base));
  store.level_base_bytes = std::max(store.item_bytes, static_cast<double>(options.max_bytes_for_level_base));
  store.level_multiplier = std::max(1.01, options.max_bytes_for_level_multiplier);
  return store;
}

// One level, two ... as long as more write less: the search takes time by their number.
IndexStatus FindShape(const msls::StoreShape& store, const msls::Popularity& popularity, int max_levels,
                      double max_space, msls::Optimum* optimum) {
  IndexStatus first;
  bool found = false;
  for (int levels = 1, worse = 0; levels <= max_levels && worse < 2; levels++) {
    msls::OptimizeOptions limits;
    limits.max_space_amplification = max_space;
    limits.min_levels = limits.max_levels = levels;
    msls::Optimum one;
    const IndexStatus s = Optimize(store, popularity, limits, &one);
    const bool better = s.ok() && (!found || one.after.write_amplification < optimum->after.write_amplification);
    if (levels == 1) first = s;
    if (better) *optimum = one;
    worse = better || !found ? 0 : worse + 1;
    found = found || s.ok();
  }
  return found ? IndexStatus::OK() : first;
}

// The sizes that write least, for the better of the picks. *found: there are such that keep the bound on space, which
// level 0 alone is above where data are of few write buffers.
Status FindShape(const ColumnFamilyOptions& options, const RoundRobinOptions& round_robin,
                 const msls::Popularity& popularity, msls::StoreShape* best, bool* found) {
  *found = false;
  std::vector<msls::FilePick> picks = {msls::FilePick::kRoundRobin};
  if (round_robin.pick == kBestPick) picks.push_back(msls::FilePick::kMinOverlappingRatio);
  const int max_levels = std::clamp(options.num_levels - 1, 1, kMostLevels);
  double least = 0;
  for (const msls::FilePick pick : picks) {
    const msls::StoreShape store = ShapeOf(options, round_robin, pick);
    msls::Optimum optimum;
    const bool keeps = FindShape(store, popularity, max_levels, round_robin.max_space, &optimum).ok();
    if (!keeps) {
      const IndexStatus s = FindShape(store, popularity, max_levels, 0, &optimum);
      if (!s.ok()) return FromModel(s);
      continue;
    }
    if (*found && optimum.after.write_amplification >= least) continue;
    *found = true;
    least = optimum.after.write_amplification;
    *best = optimum.store;
  }
  return Status::OK();
}

// Sets the level sizes for the workload of `round_robin`.
Status SetLevelSizes(const RoundRobinOptions& round_robin, ColumnFamilyOptions* options) {
  msls::Popularity popularity;
  Status s = FromModel(msls::Popularity::Zipf(static_cast<double>(round_robin.keys), round_robin.zipf, &popularity));
  msls::StoreShape store;
  bool found = false;
  if (s.ok()) s = FindShape(*options, round_robin, popularity, &store, &found);
  if (!s.ok() || !found) return s;
  options->compaction_pri =
      store.pick == msls::FilePick::kRoundRobin ? rocksdb::kRoundRobin : rocksdb::kMinOverlappingRatio;
  const auto num_levels = static_cast<size_t>(options->num_levels);
  if (store.level_bytes.empty()) {
    options->max_bytes_for_level_base = static_cast<uint64_t>(store.level_base_bytes);
    // What RocksDB has for levels of which nothing is said.
    options->max_bytes_for_level_multiplier_additional.assign(num_levels, 1);
    return s;
  }
  const double data = static_cast<double>(round_robin.keys) * static_cast<double>(round_robin.item_bytes);
  const LevelSizes levels = LevelSizesFor(store.level_bytes, kRoomForData * data, store.level_multiplier, num_levels);
  options->max_bytes_for_level_base = levels.base;
  options->max_bytes_for_level_multiplier = levels.multiplier;
  options->max_bytes_for_level_multiplier_additional = levels.additional;
  return s;
}

bool TunerOptionsOf(const ColumnFamilyOptions& options, TunerOptions* tuner) {
  RoundRobinOptions round_robin;
  if (!IsRoundRobin(options, &round_robin) || !round_robin.tune) return false;
  *tuner = TunerOptions();
  tuner->advisory = false;
  tuner->window_flushes = round_robin.window_flushes;
  tuner->min_seconds_between_changes = round_robin.min_seconds_between_changes;
  tuner->max_space_amplification = round_robin.max_space;
  return true;
}

}  // namespace

RoundRobinPartitionerFactory::RoundRobinPartitionerFactory(const RoundRobinOptions& options) : options_(options) {
  static const RoundRobinOptions* const defaults = new RoundRobinOptions();
  static const auto* types = new OptionTypes(WithoutDefaults(RoundRobinOptionTypes(), defaults));
  RegisterOptions("cairn.RoundRobinOptions", &options_, types);
}

Status RoundRobinPartitionerFactory::PrepareOptions(const rocksdb::ConfigOptions& config) {
  const Status s = ValidateRoundRobinOptions(options_);
  return s.ok() ? SstPartitionerFactory::PrepareOptions(config) : s;
}

std::unique_ptr<rocksdb::SstPartitioner> RoundRobinPartitionerFactory::CreatePartitioner(
    const rocksdb::SstPartitioner::Context& /*context*/) const {
  return nullptr;
}

RoundRobinTuner::RoundRobinTuner() : TunerListener(TunerOptionsOf) {}

bool WantsRoundRobinTuner(const ColumnFamilyOptions& options) {
  TunerOptions ignored;
  return TunerOptionsOf(options, &ignored);
}

void AddRoundRobinCollectors(ColumnFamilyOptions* options) {
  RoundRobinOptions round_robin;
  if (!IsRoundRobin(*options, &round_robin)) return;
  auto& factories = options->table_properties_collector_factories;
  const auto place = [&factories](const std::string& name) {
    return std::find_if(factories.begin(), factories.end(),
                        [&name](const auto& factory) { return factory != nullptr && factory->Name() == name; });
  };
  if (round_robin.tune && place(KeySampleFactory::kClassName()) == factories.end()) {
    factories.push_back(std::make_shared<RoundRobinSample>());
  }
  // One that is there may be of other options.
  const auto marker = place(TombstoneMarkerFactory::kClassName());
  if (marker != factories.end()) factories.erase(marker);
  if (round_robin.tombstone_run != 0) {
    factories.push_back(std::make_shared<TombstoneMarkerFactory>(round_robin.tombstone_run));
  }
}

Status RoundRobinOptionsFromString(const std::string& text, RoundRobinOptions* options) {
  return ParseOptions(text, RoundRobinOptionTypes(), "options of round_robin", ValidateRoundRobinOptions, options);
}

std::string RoundRobinOptionsToString(const RoundRobinOptions& options) {
  return PrintOptions(&options, RoundRobinOptionTypes());
}

Status ValidateRoundRobinOptions(const RoundRobinOptions& options) {
  const auto bad = [](const char* field, const std::string& value, const char* allowed) {
    return Status::InvalidArgument(std::string("option ") + field + " of round_robin is " + value, allowed);
  };
  if (options.pick != kRoundRobinPick && options.pick != kBestPick) {
    return bad("pick", "\"" + options.pick + "\"", "it may be round_robin or best");
  }
  if (options.keys == 1 || options.keys > uint64_t{1000000000000000}) {
    return bad("keys", std::to_string(options.keys), "it may be 0 (not known) or 2 to 10^15");
  }
  if (options.item_bytes < 1 || options.item_bytes > 1000000000) {
    return bad("item_bytes", std::to_string(options.item_bytes), "it may be 1 to 10^9");
  }
  if (!(options.zipf >= 0 && options.zipf <= 8)) {
    return bad("zipf", std::to_string(options.zipf), "it may be 0 (all keys alike) to 8");
  }
  if (!(options.max_space == 0 || (options.max_space >= 1.1 && options.max_space <= 1e6))) {
    return bad("max_space", std::to_string(options.max_space), "it may be 0 (no limit) or 1.1 and more");
  }
  if (options.window_flushes < 1) {
    return bad("window_flushes", std::to_string(options.window_flushes), "it may be 1 or more");
  }
  if (!(options.min_seconds_between_changes >= 0)) {
    return bad("min_seconds_between_changes", std::to_string(options.min_seconds_between_changes),
               "it may be 0 or more");
  }
  return Status::OK();
}

Status UseRoundRobin(ColumnFamilyOptions* options, const RoundRobinOptions& round_robin) {
  Status s = ValidateRoundRobinOptions(round_robin);
  if (!s.ok()) return s;
  if (options->sst_partitioner_factory != nullptr && !IsRoundRobin(*options, nullptr)) {
    return Status::NotSupported(
        "round_robin with the partitioner " + std::string(options->sst_partitioner_factory->Name()),
        "it has one of its own, which names its options: leave sst_partitioner_factory out");
  }
  ColumnFamilyOptions changed = *options;
  changed.compaction_style = rocksdb::kCompactionStyleLevel;
  changed.level_compaction_dynamic_level_bytes = false;
  changed.compaction_pri = round_robin.pick == kRoundRobinPick ? rocksdb::kRoundRobin : rocksdb::kMinOverlappingRatio;
  changed.sst_partitioner_factory = std::make_shared<RoundRobinPartitionerFactory>(round_robin);
  if (round_robin.keys > 0) s = SetLevelSizes(round_robin, &changed);
  if (s.ok()) AddRoundRobinCollectors(&changed);
  if (s.ok()) *options = std::move(changed);
  return s;
}

Status UseRoundRobinTuner(rocksdb::DBOptions* options) {
  if (!HasListener<TunerListener>(*options)) AddListener<RoundRobinTuner>(options);
  return Status::OK();
}

Status UseRoundRobin(rocksdb::Options* options, const RoundRobinOptions& round_robin) {
  const Status s = UseRoundRobin(static_cast<ColumnFamilyOptions*>(options), round_robin);
  return s.ok() && round_robin.tune ? UseRoundRobinTuner(options) : s;
}

bool IsRoundRobin(const ColumnFamilyOptions& options, RoundRobinOptions* round_robin) {
  if (options.sst_partitioner_factory == nullptr) return false;
  const auto* factory = options.sst_partitioner_factory->CheckedCast<RoundRobinPartitionerFactory>();
  if (factory == nullptr) return false;
  if (round_robin != nullptr) *round_robin = factory->options();
  return true;
}

std::string RoundRobinStatsText(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, bool table) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  RoundRobinOptions round_robin;
  if (!family->GetDescriptor(&descriptor).ok() || !IsRoundRobin(descriptor.options, &round_robin)) return "";
  const LevelSizes sizes = LevelSizesOf(descriptor.options);
  const char* const pick =
      descriptor.options.compaction_pri == rocksdb::kRoundRobin ? "round_robin" : "min_overlapping_ratio";
  TunerReport report;
  const bool tuned = GetTunerReport(db, family, &report);
  if (table) {
    return "column family " + family->GetName() + ": round_robin\n  levels of " + LevelSizesText(sizes) +
           ", tables picked by " + pick + "\n" + (tuned ? report.ToString() : "");
  }
  nlohmann::ordered_json json = {{"column_family", family->GetName()},
                                 {"engine", "round_robin"},
                                 {"options", RoundRobinOptionsToString(round_robin)},
                                 {"pick", pick},
                                 {"level_bytes", LevelTargets(sizes, descriptor.options.num_levels)}};
  if (tuned) {
    json["tuner"] = {{"keys", report.keys},           {"item_bytes", report.item_bytes},
                     {"skew", report.skew},           {"measured", report.measured},
                     {"predicted", report.predicted}, {"predicted_best", report.predicted_best},
                     {"looks", report.looks},         {"changes", report.changes},
                     {"rollbacks", report.rollbacks}, {"failures", report.failures}};
  }
  return json.dump();
}

}  // namespace cairn
