#include <nlopt.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "msls/level_sizes.h"
#include "msls/model.h"
#include "util/shared_library.h"

namespace cairn::msls {

namespace {

// The distribution's NLopt, loaded when the optimizer first searches: only `cairn msls` and databases with a tuner need
// it. Never unloaded.
struct NloptLibrary {
  decltype(&nlopt_create) create;
  decltype(&nlopt_destroy) destroy;
  decltype(&nlopt_set_min_objective) set_min_objective;
  decltype(&nlopt_set_lower_bounds1) set_lower_bounds;
  decltype(&nlopt_set_upper_bounds1) set_upper_bounds;
  decltype(&nlopt_set_initial_step1) set_initial_step;
  decltype(&nlopt_set_ftol_rel) set_ftol_rel;
  decltype(&nlopt_set_xtol_rel) set_xtol_rel;
  decltype(&nlopt_set_maxeval) set_maxeval;
  decltype(&nlopt_optimize) optimize;
};

using Library = SharedLibrary<NloptLibrary>;

const Library& TheLibrary() {
  static const auto* const loaded = [] {
    auto* const library = new Library(CAIRN_NLOPT_SONAME);  // the one that the headers belong to: CMakeLists.txt
    library->Find("nlopt_create", &library->functions.create);
    library->Find("nlopt_destroy", &library->functions.destroy);
    library->Find("nlopt_set_min_objective", &library->functions.set_min_objective);
    library->Find("nlopt_set_lower_bounds1", &library->functions.set_lower_bounds);
    library->Find("nlopt_set_upper_bounds1", &library->functions.set_upper_bounds);
    library->Find("nlopt_set_initial_step1", &library->functions.set_initial_step);
    library->Find("nlopt_set_ftol_rel", &library->functions.set_ftol_rel);
    library->Find("nlopt_set_xtol_rel", &library->functions.set_xtol_rel);
    library->Find("nlopt_set_maxeval", &library->functions.set_maxeval);
    library->Find("nlopt_optimize", &library->functions.optimize);
    return library;
  }();
  return *loaded;
}

// Not ok, with the library's name and what to install, if it cannot be loaded.
IndexStatus LoadNlopt(const NloptLibrary** library) {
  const std::string& error = TheLibrary().error;
  if (!error.empty()) {
    return IndexStatus::InvalidArgument("Level sizes are searched with " CAIRN_NLOPT_SONAME
                                        ", which cannot be loaded (" +
                                        error + "): install it (Debian's package libnlopt0).");
  }
  *library = &TheLibrary().functions;
  return IndexStatus::OK();
}

// The last level is at least this many times the one before. The constants of the RocksDB model were fitted from a
// ratio of 2 on.
double LeastLastRatio(Design design) { return design == Design::kRocksDB ? 2 : 1.05; }

// And so are the levels above it, but where RocksDB picks round-robin: a level that has room for no more than one sweep
// of the level above (twice its size, if keys are written alike) can come to be swept in step with it, and is then a
// queue in which nothing meets (docs/design/tuner.md).
constexpr double kFreeOfStep = 2.5;

double LeastRatio(const StoreShape& store) {
  const bool in_turn = store.design == Design::kRocksDB && store.pick == FilePick::kRoundRobin;
  return in_turn ? kFreeOfStep : LeastLastRatio(store.design);
}

// Whether levels of these sizes may come to be swept in step.
bool MayFallIntoStep(const StoreShape& store, const std::vector<double>& size) {
  if (store.design != Design::kRocksDB || store.pick != FilePick::kRoundRobin) return false;
  for (size_t l = 0; l + 2 < size.size(); l++) {
    if (size[l + 1] < 0.99 * kFreeOfStep * size[l]) return true;
  }
  return false;
}

// The last level of options for given data holds this many times the data before a level is added.
constexpr double kRoomToGrow = 2;

// Sizes of levels 1 ... L - 1 as points of the unit cube, so that every point is a valid store: going up from the last
// level, each takes a part of the room between the smallest first level and the level below, on a logarithmic scale.
class LevelSearch {
 public:
  LevelSearch(const NloptLibrary& nlopt, const StoreShape& store, const Popularity& p, const OptimizeOptions& options,
              int levels)
      : nlopt_(nlopt), store_(store), p_(p), options_(options), levels_(levels) {
    const double burst = MemtableRequests(store) * (store.design == Design::kRocksDB ? store.level0_trigger : 1);
    low_ = std::log(std::min(p.Unique(burst), p.keys() / std::pow(LeastRatio(store), levels)));
    gap_ = std::log(LeastRatio(store));
    last_gap_ = std::log(LeastLastRatio(store.design));
  }

  std::vector<double> Sizes(const double* x) const {
    std::vector<double> size(static_cast<size_t>(levels_));
    double above = std::log(p_.keys());
    size.back() = p_.keys();
    for (int l = levels_ - 2; l >= 0; l--) {
      // Room for the levels still to come.
      const double least = low_ + l * gap_;
      const double most = std::max(least, above - Gap(l));
      above = least + x[l] * (most - least);
      size[static_cast<size_t>(l)] = std::exp(above);
    }
    return size;
  }

  std::vector<double> Point(const std::vector<double>& size) const {
    std::vector<double> x(static_cast<size_t>(levels_) - 1);
    double above = std::log(p_.keys());
    for (int l = levels_ - 2; l >= 0; l--) {
      const double least = low_ + l * gap_;
      const double most = std::max(least, above - Gap(l));
      const double here = std::min(most, std::max(least, std::log(size[static_cast<size_t>(l)])));
      x[static_cast<size_t>(l)] = most > least ? (here - least) / (most - least) : 0;
      above = here;
    }
    return x;
  }

  // Write amplification, with a penalty for the space that is too much.
  double Value(const double* x) {
    evaluations_++;
    const std::vector<double> size = Sizes(x);
    double penalty = 0;
    if (options_.max_space_amplification > 0) {
      double items = (store_.level0_trigger - 1) / 2.0 * p_.Unique(MemtableRequests(store_));
      for (double s : size) items += s;
      penalty = 1e4 * std::max(0.0, items / p_.keys() - options_.max_space_amplification);
    }
    return LeveledWriteAmplification(store_, p_, size) + penalty;
  }

  // The best sizes found from `start`.
  std::vector<double> Run(const std::vector<double>& start) {
    std::vector<double> x = Point(start);
    if (x.empty()) return Sizes(nullptr);
    const unsigned n = static_cast<unsigned>(x.size());
    nlopt_opt opt = nlopt_.create(NLOPT_LN_SBPLX, n);
    if (opt == nullptr) return Sizes(x.data());
    nlopt_.set_min_objective(
        opt, [](unsigned, const double* at, double*, void* self) { return static_cast<LevelSearch*>(self)->Value(at); },
        this);
    nlopt_.set_lower_bounds(opt, 0);
    nlopt_.set_upper_bounds(opt, 1);
    nlopt_.set_initial_step(opt, 0.1);
    nlopt_.set_ftol_rel(opt, 1e-7);
    nlopt_.set_xtol_rel(opt, 1e-5);
    nlopt_.set_maxeval(opt, 600 * static_cast<int>(n));
    double value = 0;
    (void)nlopt_.optimize(opt, x.data(), &value);  // x is the best point so far, whatever ended the search
    nlopt_.destroy(opt);
    return Sizes(x.data());
  }

  // Ratios that grow or shrink by `bend` from level to level.
  std::vector<double> Bent(double bend) const {
    std::vector<double> size(static_cast<size_t>(levels_), p_.keys());
    double total = 0, weight = 1;
    std::vector<double> part;
    for (int l = 0; l < levels_; l++, weight *= bend) total += weight, part.push_back(weight);
    double log_size = std::log(p_.keys());
    const double room = log_size - low_;
    for (int l = levels_ - 2; l >= 0; l--) {
      log_size -= room * part[static_cast<size_t>(l) + 1] / total;
      size[static_cast<size_t>(l)] = std::exp(log_size);
    }
    return size;
  }

  int evaluations() const { return evaluations_; }

 private:
  // Logarithm of the least ratio of level l + 1 to level l, counted from 0.
  double Gap(int l) const { return l == levels_ - 2 ? last_gap_ : gap_; }

  const NloptLibrary& nlopt_;
  const StoreShape store_;
  const Popularity& p_;
  const OptimizeOptions options_;
  const int levels_;
  double low_;
  double gap_, last_gap_;
  int evaluations_ = 0;
};

bool Keeps(const Report& report, const OptimizeOptions& options) {
  auto within = [](double value, double limit) { return limit <= 0 || value <= limit * (1 + 1e-4); };
  return within(report.space_amplification, options.max_space_amplification) &&
         within(report.sorted_runs, options.max_sorted_runs) && within(report.runs_to_hit, options.max_runs_to_hit);
}

// What a search has found.
struct Findings {
  explicit Findings(Optimum* best) : optimum(best) {}

  Optimum* const optimum;
  bool any = false;  // optimum->store and after are set
};

// Takes a candidate if it is valid, keeps the limits and writes less than what was found so far.
void Consider(const StoreShape& candidate, const Popularity& p, const OptimizeOptions& options, Findings* findings) {
  Report report;
  Optimum* const optimum = findings->optimum;
  optimum->evaluations++;
  if (!Model(candidate, p, &report).ok() || !Keeps(report, options)) return;
  if (findings->any && report.write_amplification >= optimum->after.write_amplification) return;
  findings->any = true;
  optimum->store = candidate;
  optimum->after = report;
}

// The store with levels of these sizes, of which the last holds all keys.
StoreShape WithLevels(const StoreShape& store, const Popularity& p, const std::vector<double>& size) {
  StoreShape with = store;
  with.dynamic_level_bytes = store.design == Design::kRocksDB ? false : store.dynamic_level_bytes;
  with.level_bytes.clear();
  for (size_t l = 0; l + 1 < size.size(); l++) with.level_bytes.push_back(std::floor(size[l] * store.item_bytes));
  if (with.level_bytes.empty())
    with.level_base_bytes = std::max(store.level_base_bytes, 2 * p.keys() * store.item_bytes);
  return with;
}

IndexStatus OptimizeLeveled(const StoreShape& store, const Popularity& p, const OptimizeOptions& options,
                            Findings* findings) {
  const NloptLibrary* nlopt = nullptr;
  IndexStatus s = LoadNlopt(&nlopt);
  if (!s.ok()) return s;
  std::vector<double> size;
  (void)LevelItems(store, p, &size);  // validated by the caller
  const int now = static_cast<int>(size.size());
  const int least = options.min_levels > 0   ? options.min_levels
                    : options.max_levels > 0 ? std::min(now, options.max_levels)
                                             : now;
  const int most = options.max_levels > 0 ? options.max_levels : std::max(now, least);
  for (int levels = least; levels <= most; levels++) {
    LevelSearch search(*nlopt, store, p, options, levels);
    std::vector<std::vector<double>> starts;
    if (levels == now) starts.push_back(size);
    for (double bend : {1.0, 0.7, 1.4}) starts.push_back(search.Bent(bend));
    for (const std::vector<double>& start : starts) {
      const std::vector<double> best = search.Run(start);
      Consider(WithLevels(store, p, best), p, options, findings);
    }
    findings->optimum->evaluations += search.evaluations();
  }
  // The store as it is, when nothing better was found, and the model knows what it writes.
  if (now >= least && now <= most && !(findings->any && MayFallIntoStep(store, size))) {
    Consider(store, p, options, findings);
  }
  return s;
}

void OptimizeUniversal(const StoreShape& store, const Popularity& p, const OptimizeOptions& options,
                       Findings* findings) {
  for (int trigger : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32}) {
    for (int percent : {25, 50, 100, 150, 200, 300, 400}) {
      StoreShape candidate = store;
      candidate.level0_trigger = trigger;
      candidate.max_size_amplification_percent = percent;
      Consider(candidate, p, options, findings);
    }
  }
}

void OptimizeTrie(const StoreShape& store, const Popularity& p, const OptimizeOptions& options, Findings* findings) {
  for (int root : {2, 4, 8, 12, 16}) {
    for (int container : {2, 4, 6, 8, 10, 12, 16, 24, 32}) {
      for (double bound : {1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0}) {
        StoreShape candidate = store;
        candidate.root_trigger = root;
        candidate.container_trigger = container;
        candidate.slots = TrieSlotsFor(container);
        candidate.space_bound = bound;
        Consider(candidate, p, options, findings);
      }
    }
  }
}

void OptimizeInteger(const StoreShape& store, const Popularity& p, const OptimizeOptions& options,
                     int StoreShape::*field, const std::vector<int>& values, Findings* findings) {
  for (int value : values) {
    StoreShape candidate = store;
    candidate.*field = value;
    Consider(candidate, p, options, findings);
  }
}

IndexStatus SearchDesign(const StoreShape& store, const Popularity& p, const OptimizeOptions& options,
                         Findings* findings) {
  switch (store.design) {
    case Design::kLevelDB:
    case Design::kRocksDB:
      return OptimizeLeveled(store, p, options, findings);
    case Design::kUniversal:
      OptimizeUniversal(store, p, options, findings);
      break;
    case Design::kSamt:
    case Design::kCola:
      OptimizeInteger(store, p, options, &StoreShape::growth, {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32}, findings);
      break;
    case Design::kSilt:
      OptimizeInteger(store, p, options, &StoreShape::hash_stores, {1, 2, 4, 8, 16, 24, 31, 48, 62, 96, 128, 192, 256},
                      findings);
      break;
    case Design::kTrie:
      OptimizeTrie(store, p, options, findings);
      break;
  }
  return IndexStatus::OK();
}

std::string Rounded(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

IndexStatus CheckLimits(const OptimizeOptions& options) {
  if (options.min_levels < 0 || options.min_levels > 20 || options.max_levels < 0 || options.max_levels > 20) {
    return IndexStatus::InvalidArgument("min_levels is " + std::to_string(options.min_levels) + " and max_levels " +
                                        std::to_string(options.max_levels) + "; both must be from 0 to 20.");
  }
  if (options.max_levels > 0 && options.min_levels > options.max_levels) {
    return IndexStatus::InvalidArgument("min_levels, " + std::to_string(options.min_levels) +
                                        ", is more than max_levels, " + std::to_string(options.max_levels) + ".");
  }
  const std::pair<const char*, double> limits[] = {{"max_write_buffer_bytes", options.max_write_buffer_bytes},
                                                   {"max_space_amplification", options.max_space_amplification},
                                                   {"max_sorted_runs", options.max_sorted_runs},
                                                   {"max_runs_to_hit", options.max_runs_to_hit}};
  for (const auto& limit : limits) {
    if (!(limit.second >= 0 && limit.second <= 1e30)) {
      return IndexStatus::InvalidArgument(std::string(limit.first) + " is " + Number(limit.second) +
                                          "; it must be 0 (none) or positive.");
    }
  }
  return IndexStatus::OK();
}

}  // namespace

IndexStatus Optimize(const StoreShape& store, const Popularity& popularity, const OptimizeOptions& options,
                     Optimum* optimum) {
  *optimum = Optimum();
  IndexStatus s = CheckLimits(options);
  if (s.ok()) s = Model(store, popularity, &optimum->before);
  if (!s.ok()) return s;
  StoreShape start = store;
  if (options.max_write_buffer_bytes > 0) {
    if (options.max_write_buffer_bytes < store.item_bytes) {
      return IndexStatus::InvalidArgument("max_write_buffer_bytes is " + Number(options.max_write_buffer_bytes) +
                                          "; it must hold at least one item, " + Number(store.item_bytes) + " bytes.");
    }
    start.write_buffer_bytes = options.max_write_buffer_bytes;
  }
  Findings findings(optimum);
  s = SearchDesign(start, popularity, options, &findings);
  if (!s.ok()) return s;
  if (!findings.any) {
    return IndexStatus::InvalidArgument(
        "No shape of the design keeps the limits on space, sorted runs and levels; the given one has space "
        "amplification " +
        Rounded(optimum->before.space_amplification) + ", " + Rounded(optimum->before.sorted_runs) +
        " sorted runs and visits " + Rounded(optimum->before.runs_to_hit) + " of them for a key that exists.");
  }
  return s;
}

IndexStatus RocksDBOptions(const StoreShape& store, const Popularity& popularity,
                           std::vector<std::pair<std::string, std::string>>* options) {
  options->clear();
  IndexStatus s = Validate(store, popularity);
  if (!s.ok()) return s;
  auto bytes = [](double value) { return std::to_string(static_cast<unsigned long long>(std::llround(value))); };
  if (store.design == Design::kUniversal) {
    *options = {{"compaction_style", "kCompactionStyleUniversal"},
                {"write_buffer_size", bytes(store.write_buffer_bytes)},
                {"level0_file_num_compaction_trigger", std::to_string(store.level0_trigger)},
                {"compaction_options_universal",
                 "{size_ratio=" + std::to_string(store.size_ratio_percent) +
                     ";min_merge_width=" + std::to_string(store.min_merge_width) +
                     ";max_size_amplification_percent=" + std::to_string(store.max_size_amplification_percent) + ";}"}};
    return s;
  }
  if (store.design != Design::kRocksDB && store.design != Design::kLevelDB) {
    return IndexStatus::InvalidArgument(std::string("design is ") + DesignName(store.design) +
                                        "; only rocksdb, leveldb and universal have a form as RocksDB options.");
  }
  const FilePick pick = store.design == Design::kLevelDB ? FilePick::kRoundRobin : store.pick;
  *options = {{"compaction_style", "kCompactionStyleLevel"},
              {"write_buffer_size", bytes(store.write_buffer_bytes)},
              {"level0_file_num_compaction_trigger", std::to_string(store.level0_trigger)},
              {"target_file_size_base", bytes(store.file_bytes)},
              {"compaction_pri", FilePickName(pick)}};
  const bool dynamic = store.design == Design::kRocksDB && store.dynamic_level_bytes;
  options->push_back({"level_compaction_dynamic_level_bytes", dynamic ? "true" : "false"});
  if (dynamic || store.level_bytes.empty()) {
    options->push_back({"max_bytes_for_level_base", bytes(store.level_base_bytes)});
    options->push_back({"max_bytes_for_level_multiplier", Number(store.level_multiplier)});
    return s;
  }
  const size_t num_levels = std::max<size_t>(7, store.level_bytes.size() + 2);
  const LevelSizes levels = LevelSizesFor(store.level_bytes, kRoomToGrow * popularity.keys() * store.item_bytes,
                                          store.level_multiplier, num_levels);
  std::string additional;
  for (int factor : levels.additional) additional += (additional.empty() ? "" : ":") + std::to_string(factor);
  options->push_back({"num_levels", std::to_string(num_levels)});
  options->push_back({"max_bytes_for_level_base", std::to_string(levels.base)});
  options->push_back({"max_bytes_for_level_multiplier", Number(levels.multiplier)});
  options->push_back({"max_bytes_for_level_multiplier_additional", additional});
  return s;
}

}  // namespace cairn::msls
