// Cairn's trie in its steady state: the rules of its picker are played on the numbers of keys that its tables are
// expected to hold, from the first load on. Its space bound is met by merges in place and by moving the root down
// early, whichever frees more for what it writes, and that depends on the state of all containers; and what a merge in
// place leaves free of levels decides when siblings have to be merged in place.
//
// Of a trie of very many write buffers only the deepest depths are played. Those above move everything on at fixed
// intervals and hold little.

#include <algorithm>
#include <cmath>
#include <map>

#include "msls/model.h"
#include "msls/trie_play.h"
#include "table/trie_rules.h"

namespace cairn::msls {

namespace {

// Tables as the numbers of keys that they are expected to hold: those of a number of loaded keys, each written once,
// and of requests by popularity.
class ExpectedTables {
 public:
  struct Table {
    double share = 1;  // of the key space
    double loaded = 0;
    double requests = 0;
  };

  explicit ExpectedTables(const Popularity& p) : p_(p) {}

  double Size(const Table& table) const { return table.share * Keys(table.loaded, table.requests); }
  Table Merge(const std::vector<Table>& tables) const {
    Table merged;
    merged.share = tables.front().share;
    for (const Table& table : tables) {
      merged.loaded += table.loaded;
      merged.requests += table.requests;
    }
    return merged;
  }
  Table Part(const Table& table, double begin, double end) const { return {end - begin, table.loaded, table.requests}; }
  double NotIn(const Table& older, const Table& newer) const {
    const double both = Keys(older.loaded + newer.loaded, older.requests + newer.requests);
    return older.share * (both - Keys(newer.loaded, newer.requests));
  }
  double Live() const { return Keys(loaded, requests); }

  double loaded = 0;
  double requests = 0;

 private:
  // Loaded keys are all different and have no popularity.
  double Keys(double loaded_keys, double requested) const {
    const double unseen = std::max(0.0, 1 - loaded_keys / p_.keys());
    return unseen == 0 ? p_.keys() : p_.keys() * (1 - unseen) + unseen * p_.Unique(requested);
  }

  const Popularity& p_;
};

using ExpectedTrie = TriePlay<ExpectedTables>;

constexpr int kMostChildren = 8;                      // of a container: enough for siblings to be in different states
constexpr double kMostContainers = 64;                // of a depth
constexpr double kMostPlayedSlots = 2500;             // of all keys, arriving at the top of what is played
constexpr double kMostSlots = 0.7;                    // of the trigger, that hold all keys at the deepest depth
constexpr double kWarmSlots = 3, kCountedSlots = 12;  // for each of those
constexpr double kHitSamples = 100;                   // hits are the slow part

// Runs visited until a key is found, for reads that follow the popularity of writes.
double RunsToHit(const ExpectedTrie::Container& container, const Popularity& p, double age) {
  double runs = 0;
  for (size_t i = container.slots.size(); i-- > 0;) {
    runs += (container.end - container.begin) * p.MissProbability(age);
    age += container.slots[i].loaded > 0 ? HUGE_VAL : container.slots[i].requests;
  }
  for (const auto& child : container.children) runs += RunsToHit(*child, p, age);
  return runs;
}

// The depths above those that are played. Each receives a slot of all keys written in its interval, and passes
// everything on: it is too small a part of the trie to be compacted for space.
struct DepthAbove {
  double interval = 0;  // writes
  int trigger = 0;      // slots
};

// As many as leave two depths of containers to be played, of which the deeper keeps most of the keys: only these have
// all the siblings that wait for each other and are merged together.
std::vector<DepthAbove> DepthsAbove(const StoreShape& store, const Popularity& p) {
  std::vector<DepthAbove> depths;
  double interval = MemtableRequests(store);
  double deeper =
      interval * store.root_trigger * store.container_trigger;  // interval of the second depth of containers
  while (p.keys() / interval > kMostPlayedSlots || p.keys() / p.Unique(deeper) > kMostSlots * store.container_trigger) {
    if (!depths.empty()) deeper *= store.container_trigger;
    depths.push_back({interval, depths.empty() ? store.root_trigger : store.container_trigger});
    interval *= depths.back().trigger;
  }
  return depths;
}

// Averages over slots that arrive at the top.
struct TrieTotals {
  double items = 0, most_items = 0, runs = 0, hits = 0, hit_samples = 0;
  std::vector<double> depths;
  States states;

  void Add(ExpectedTrie* played) {
    const ExpectedTrie& trie = *played;
    items += trie.items();
    most_items = std::max(most_items, played->TakeMostItems());
    ExpectedTrie::Visit(trie.root(), [this](const ExpectedTrie::Container& container) {
      runs += static_cast<double>(container.slots.size()) * (container.end - container.begin);
      if (container.depth == 0) return;
      depths.resize(std::max(depths.size(), static_cast<size_t>(container.depth)));
      depths[static_cast<size_t>(container.depth) - 1] += container.stored;
    });
  }

  void AddHits(const ExpectedTrie& trie, const Popularity& p, const std::vector<DepthAbove>& above) {
    double age = 0;
    for (const DepthAbove& depth : above) {
      const int held = states.Below(depth.trigger);
      for (int i = 0; i < held; i++) hits += p.MissProbability(age + depth.interval * i);
      age += depth.interval * held;
    }
    hits += RunsToHit(trie.root(), p, age);
    hit_samples++;
  }
};

}  // namespace

void ModelTrie(const StoreShape& store, const Popularity& p, Report* report) {
  const std::vector<DepthAbove> above = DepthsAbove(store, p);
  double interval = MemtableRequests(store);
  ExpectedTrie::Top top;
  for (const DepthAbove& depth : above) {
    const double slot = p.Unique(interval);
    const double held = slot * (depth.trigger - 1) / 2;
    AddStep(report, top.first_depth == 0 ? "level-0" : "depth-" + std::to_string(top.first_depth), slot / interval);
    if (top.first_depth > 0) report->level_items.push_back(held);
    report->sorted_runs += (depth.trigger - 1) / 2.0;
    top.held_above += held;
    top.first_depth++;
    interval *= depth.trigger;
  }

  ExpectedTables tables(p);
  ExpectedTrie trie(store, &tables, top, kMostChildren, kMostContainers);
  std::map<std::string, double> written;
  auto write = [&written](const std::string& step, double keys) { written[step] += keys; };
  while (tables.loaded < p.keys()) {
    const double some = std::min(interval, p.keys() - tables.loaded);
    tables.loaded += some;
    trie.Flush({1, some, 0}, write);
  }
  auto play = [&](double count, TrieTotals* totals) {
    const double stride = std::max(1.0, std::floor(count / kHitSamples));
    for (double i = 0; i < count; i++) {
      tables.requests += interval;
      trie.Flush({1, 0, interval}, write);
      if (totals == nullptr) continue;
      totals->Add(&trie);
      if (std::fmod(i, stride) == 0) totals->AddHits(trie, p, above);
    }
  };
  // Long against the times between two compactions of the root and of a container.
  const double slots = std::max(4.0 * store.root_trigger, std::ceil(p.keys() / interval));
  play(kWarmSlots * slots, nullptr);
  written.clear();
  trie.TakeMostItems();
  TrieTotals totals;
  const double counted = kCountedSlots * slots;
  play(counted, &totals);

  const auto level0 = written.extract("level-0");
  if (!level0.empty()) AddStep(report, level0.key(), level0.mapped() / (counted * interval));
  for (const auto& [step, keys] : written) AddStep(report, step, keys / (counted * interval));
  totals.depths.resize(std::max(totals.depths.size(), report->level_items.size()));
  for (size_t i = report->level_items.size(); i < totals.depths.size(); i++) {
    report->level_items.push_back(totals.depths[i] / counted);
  }
  report->space_amplification = (top.held_above + totals.items / counted) / p.keys();
  report->most_space_amplification = (top.held_above + totals.most_items) / p.keys();
  report->sorted_runs += totals.runs / counted;
  report->runs_to_hit = totals.hits / totals.hit_samples;
}

double SpaceBoundInItems(double space_bound, double data_bytes, double table_bytes) {
  const double begins_at = (1 + kSpaceHeadStart * (space_bound - 1)) * data_bytes / table_bytes;
  return std::max(1.1, 1 + (begins_at - 1) / kSpaceHeadStart);
}

}  // namespace cairn::msls
