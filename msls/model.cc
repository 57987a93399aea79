#include "msls/model.h"

#include <cmath>
#include <limits>

namespace cairn::msls {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string LevelStep(size_t level) { return "level-" + std::to_string(level) + " to " + std::to_string(level + 1); }

// The thesis' Algorithm 3.
void ModelLevelDB(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report) {
  const double wal = MemtableRequests(store);
  AddStep(report, "level-0", p.Unique(wal) / wal);
  double interval = wal * store.level0_trigger;
  AddStep(report, LevelStep(0), p.Merge(p.Unique(interval), size[0]) / interval);
  for (size_t l = 0; l + 1 < size.size(); l++) {
    interval += p.DInterval(size[l]);
    const double moved = p.Unique(interval);
    AddStep(report, LevelStep(l + 1), (p.Merge(moved, size[l + 1]) + moved) / interval);
  }
}

// A lookup visits a run if no newer run has its key: if the key was not asked for in the requests that those cover.
// Level l, of which the lookup sees one place, covers the requests since the sweep left that place.
void ReadsLeveled(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report) {
  const double wal = MemtableRequests(store);
  const double level0_files = (store.level0_trigger - 1) / 2.0;
  double items = 0;
  for (double s : size) items += s;
  report->level_items = size;
  report->space_amplification = (items + level0_files * p.Unique(wal)) / p.keys();
  report->sorted_runs = level0_files + static_cast<double>(size.size());
  std::vector<double> sweep;
  for (size_t l = 0; l + 1 < size.size(); l++) sweep.push_back(p.DInterval(size[l]));
  States states;
  for (int i = 0; i < States::kCount; i++) {
    const int files = states.Below(store.level0_trigger);
    double runs = 0;
    for (int j = 0; j < files; j++) runs += p.MissProbability(wal * j);
    double age = wal * files;
    for (size_t l = 0; l < size.size(); l++) {
      runs += p.MissProbability(age);
      if (l + 1 < size.size()) age += sweep[l] * states.Next();
    }
    report->runs_to_hit += runs / States::kCount;
  }
}

void ModelLeveled(const StoreShape& store, const Popularity& p, Report* report) {
  std::vector<double> size;
  (void)LevelItems(store, p, &size);  // validated before
  ModelLevels(store, p, size, report);
  ReadsLeveled(store, p, size, report);
}

// Runs that hold the requests of a stretch of time; the oldest holds everything.
void ModelUniversal(const StoreShape& store, const Popularity& p, Report* report) {
  const double wal = MemtableRequests(store);
  // The policy is played on expected sizes. Its states repeat with the merges of the last run, so whole rounds between
  // such merges are averaged.
  std::vector<double> spans = {kInfinity};
  std::vector<double> sizes = {p.keys()};
  double flushes = 0, items = 0, most_items = 0, runs = 0, hits = 0, asked = 0, next_asked = 0;
  std::vector<WriteCost> written = {{"flush", 0}};
  struct Totals {
    double flushes, items, runs, hits, asked;
    std::vector<WriteCost> written;
  };
  Totals start = {0, 0, 0, 0, 0, {}};
  Totals stop = start;
  constexpr int kWarmRounds = 5, kRounds = 60;
  // A round takes as many flushes as the bound on space allows, twice the keys by default.
  const double most_flushes = std::clamp(16 * p.keys() / wal, 4e5, 1e7);
  constexpr int kMostStride = 59;  // hits are the slow part and are sampled, at no fixed steps: a round may be as long
  // Counts of distinct keys vary by about the square root of the number of duplicates. Without that the policy, whose
  // thresholds are sharp, locks into short cycles that real stores leave.
  uint64_t random = 1;
  auto unique = [&random, &p](double requests) {
    if (std::isinf(requests)) return p.keys();
    const double size = p.Unique(requests);
    random = random * 6364136223846793005ull + 1442695040888963407ull;
    const double uniform = static_cast<double>(random >> 11) / 9007199254740992.0 - 0.5;
    return std::min(p.keys(), size + 2 * uniform * std::sqrt(std::min(size, std::max(0.0, requests - size))));
  };
  for (int round = 0; round < kWarmRounds + kRounds && flushes < most_flushes;) {
    spans.insert(spans.begin(), wal);
    sizes.insert(sizes.begin(), unique(wal));
    written[0].value += sizes[0];
    bool all = false;
    for (;;) {
      const UniversalPick pick = PickUniversal(store, sizes);
      if (pick.end == 0) break;
      double span = 0;
      for (size_t i = pick.begin; i < pick.end; i++) span += spans[i];
      double inputs = 0;  // and all else that is stored
      for (double size : sizes) inputs += size;
      all = all || pick.end == sizes.size();
      spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(pick.begin) + 1,
                  spans.begin() + static_cast<std::ptrdiff_t>(pick.end));
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(pick.begin) + 1,
                  sizes.begin() + static_cast<std::ptrdiff_t>(pick.end));
      spans[pick.begin] = span;
      sizes[pick.begin] = unique(span);
      if (round >= kWarmRounds) most_items = std::max(most_items, inputs + sizes[pick.begin]);
      auto step =
          std::find_if(written.begin(), written.end(), [&](const WriteCost& s) { return s.name == pick.reason; });
      if (step == written.end()) step = written.insert(step, {pick.reason, 0});
      step->value += sizes[pick.begin];
    }
    flushes++;
    for (double size : sizes) items += size;
    if (flushes >= next_asked) {
      asked++;
      next_asked = flushes + 1 + static_cast<double>((random >> 32) % kMostStride);
      double age = 0;
      for (double span : spans) {
        hits += p.MissProbability(age);
        age += span;
      }
    }
    runs += static_cast<double>(sizes.size());
    if (all) {
      round++;
      stop = {flushes, items, runs, hits, asked, written};
      if (round == kWarmRounds) start = stop;
    }
  }
  if (stop.flushes <= start.flushes) stop = {flushes, items, runs, hits, asked, written};
  const double counted = stop.flushes - start.flushes;
  for (size_t i = 0; i < stop.written.size(); i++) {
    const double before = i < start.written.size() ? start.written[i].value : 0;
    AddStep(report, stop.written[i].name, (stop.written[i].value - before) / (counted * wal));
  }
  report->space_amplification = (stop.items - start.items) / counted / p.keys();
  report->most_space_amplification = most_items / p.keys();
  report->sorted_runs = (stop.runs - start.runs) / counted;
  report->runs_to_hit = (stop.hits - start.hits) / (stop.asked - start.asked);
  report->level_items = sizes;
}

// The thesis' Algorithm 4.
void ModelGrowth(const StoreShape& store, const Popularity& p, Report* report) {
  const bool cola = store.design == Design::kCola;
  const int levels = GrowthLevels(store, p);
  const int r = store.growth;
  double interval = MemtableRequests(store);
  double items = p.keys(), runs = 1;
  std::vector<double> intervals;
  for (int l = 0; l + 1 < levels; l++) {
    // Arrivals of unique(interval); the level holds 0 ... r - 1 of them in turn.
    intervals.push_back(interval);
    double written = 0;
    if (cola) {
      for (int j = 0; j + 1 < r; j++) written += p.Merge(p.Unique(interval), p.Unique(interval * j));
    } else {
      written = r * p.Unique(interval);
    }
    AddStep(report, "level-" + std::to_string(l + 1), written / (interval * r));
    double held = 0;
    for (int j = 0; j < r; j++) held += (cola ? p.Unique(interval * j) : j * p.Unique(interval)) / r;
    runs += cola ? (r - 1.0) / r : (r - 1) / 2.0;
    items += held;
    report->level_items.push_back(held);
    interval *= r;
  }
  AddStep(report, "level-" + std::to_string(levels), p.keys() / interval);
  report->level_items.push_back(p.keys());
  report->space_amplification = items / p.keys();
  report->sorted_runs = runs;
  States states;
  for (int i = 0; i < States::kCount; i++) {
    double age = 0, visited = 0;
    for (double arrival : intervals) {
      const int held = states.Below(r);
      if (cola && held > 0) visited += p.MissProbability(age);
      for (int j = 0; j < held && !cola; j++) visited += p.MissProbability(age + arrival * j);
      age += arrival * held;
    }
    report->runs_to_hit += (visited + p.MissProbability(age)) / States::kCount;
  }
}

// The thesis' Algorithm 5. Keys are spread over the instances evenly, so one instance sees the same popularity over its
// part of the keys, and its requests are counted as those of all instances divided by their number.
void ModelSilt(const StoreShape& store, const Popularity& p, Report* report) {
  const double full = store.hash_store_slots * store.hash_store_occupancy;
  const double interval = p.UniqueInverse(full * store.instances) / store.instances;
  const double keys = p.keys() / store.instances;
  report->breakdown.clear();
  report->write_amplification = 0;
  AddStep(report, "LogStore", 1);
  AddStep(report, "HashStores", store.hash_store_slots / interval);
  AddStep(report, "SortedStore", keys / (interval * store.hash_stores));
  const double mean_stores = (store.hash_stores - 1) / 2.0;
  report->space_amplification = (keys + mean_stores * store.hash_store_slots) / keys;
  report->sorted_runs = 2 + mean_stores;
  report->level_items = {mean_stores * full * store.instances, p.keys()};
  const double total = interval * store.instances;
  double runs = 1;
  for (int i = 0; i < store.hash_stores; i++) {
    for (int j = 0; j <= i; j++) runs += p.MissProbability(total * (0.5 + j)) / store.hash_stores;
  }
  report->runs_to_hit = runs;
}

// PickCompactionToReduceSortedRuns: runs in a row, each not larger than the sum of those before it and `ratio` percent.
UniversalPick PickByRatio(const StoreShape& store, const std::vector<double>& sizes, double ratio, size_t most,
                          const char* reason) {
  for (size_t begin = 0; begin < sizes.size(); begin++) {
    double candidate = sizes[begin];
    size_t end = begin + 1;
    while (end - begin < most && end < sizes.size() && candidate * (100 + ratio) / 100 >= sizes[end])
      candidate += sizes[end++];
    if (end - begin >= static_cast<size_t>(store.min_merge_width)) return {begin, end, reason};
  }
  return {};
}

}  // namespace

UniversalPick PickUniversal(const StoreShape& store, const std::vector<double>& sizes) {
  const size_t trigger = static_cast<size_t>(store.level0_trigger);
  if (sizes.size() < trigger || sizes.size() < 2) return {};
  double above = 0;
  for (size_t i = 0; i + 1 < sizes.size(); i++) above += sizes[i];
  if (above * 100 >= sizes.back() * store.max_size_amplification_percent)
    return {0, sizes.size(), "size amplification"};
  const UniversalPick pick =
      PickByRatio(store, sizes, store.size_ratio_percent, std::numeric_limits<size_t>::max(), "size ratio");
  if (pick.end > 0) return pick;
  if (sizes.size() > trigger) return PickByRatio(store, sizes, 1e18, sizes.size() - trigger + 1, "run count");
  return {};
}

void ModelLevels(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report) {
  if (store.design == Design::kLevelDB) {
    ModelLevelDB(store, p, size, report);
  } else {
    ModelRocksDB(store, p, size, report);
  }
}

double LeveledWriteAmplification(const StoreShape& store, const Popularity& p, const std::vector<double>& size) {
  Report report;
  if (store.log) AddStep(&report, "log", 1);
  ModelLevels(store, p, size, &report);
  return report.write_amplification;
}

int GrowthLevels(const StoreShape& store, const Popularity& popularity) {
  if (store.levels > 0) return store.levels;
  // The last level but one gathers at least a `growth`th part of the keys before it is merged into the last.
  const double steps = std::log(popularity.keys() / MemtableRequests(store)) / std::log(store.growth);
  return std::max(1, static_cast<int>(std::ceil(steps - 1e-9)));
}

IndexStatus Model(const StoreShape& store, const Popularity& popularity, Report* report) {
  IndexStatus s = Validate(store, popularity);
  if (!s.ok()) return s;
  *report = Report();
  if (store.log) AddStep(report, "log", 1);
  switch (store.design) {
    case Design::kLevelDB:
    case Design::kRocksDB:
      ModelLeveled(store, popularity, report);
      break;
    case Design::kUniversal:
      ModelUniversal(store, popularity, report);
      break;
    case Design::kSamt:
    case Design::kCola:
      ModelGrowth(store, popularity, report);
      break;
    case Design::kSilt:
      ModelSilt(store, popularity, report);
      break;
    case Design::kTrie:
      ModelTrie(store, popularity, report);
      break;
  }
  return s;
}

}  // namespace cairn::msls
