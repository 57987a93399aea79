// Cairn's trie in its steady state.
//
// A small trie is played: the rules of its picker on the numbers of keys that its tables are expected to hold, from the
// first load on. Its space bound is met by merges in place and by moving the root down early, whichever frees more for
// what it writes, and that depends on the state of all columns. A trie of very many write buffers has no such states:
// its root is a small part of it, and only the deepest columns are merged for space, the fullest first. For that there
// is a formula.

#include <algorithm>
#include <cmath>
#include <map>

#include "msls/model.h"
#include "msls/trie_play.h"

namespace cairn {
namespace msls {

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

// Runs visited until a key is found, for reads that follow the popularity of writes.
double RunsToHit(const ExpectedTrie::Column& column, const Popularity& p, double age) {
  double runs = 0;
  for (size_t i = column.slots.size(); i-- > 0;) {
    runs += (column.end - column.begin) * p.MissProbability(age);
    age += column.slots[i].loaded > 0 ? HUGE_VAL : column.slots[i].requests;
  }
  for (const auto& child : column.children) runs += RunsToHit(*child, p, age);
  return runs;
}

// Averages over flushes.
struct TrieTotals {
  double items = 0, runs = 0, hits = 0, hit_samples = 0;
  std::vector<double> depths;

  void Add(const ExpectedTrie& trie, const Popularity& p, bool with_hits) {
    items += trie.items();
    ExpectedTrie::Visit(trie.root(), [this](const ExpectedTrie::Column& column) {
      runs += static_cast<double>(column.slots.size()) * (column.end - column.begin);
      if (column.depth == 0) return;
      depths.resize(std::max(depths.size(), static_cast<size_t>(column.depth)));
      depths[static_cast<size_t>(column.depth) - 1] += column.stored;
    });
    if (!with_hits) return;
    hits += RunsToHit(trie.root(), p, 0);
    hit_samples++;
  }
};

constexpr double kMostColumns = 16;          // of a depth: enough for its columns to be in different states
constexpr double kMostPlayedFlushes = 1000;  // of keys
constexpr int kHitStride = 7;                // hits are the slow part and are sampled

void ModelPlayedTrie(const Store& store, const Popularity& p, Report* report) {
  const double wal = MemtableRequests(store);
  ExpectedTables tables(p);
  ExpectedTrie trie(store, &tables, kMostColumns);
  std::map<std::string, double> written;
  auto write = [&written](const std::string& step, double keys) { written[step] += keys; };
  while (tables.loaded < p.keys()) {
    const double some = std::min(wal, p.keys() - tables.loaded);
    tables.loaded += some;
    trie.Flush({1, some, 0}, write);
  }
  // Long against the times between two compactions of the root and of a column.
  const double flushes = std::max(4.0 * store.root_trigger, std::ceil(p.keys() / wal));
  auto play = [&](double count, TrieTotals* totals) {
    for (double i = 0; i < count; i++) {
      tables.requests += wal;
      trie.Flush({1, 0, wal}, write);
      if (totals != nullptr) totals->Add(trie, p, std::fmod(i, kHitStride) == 0);
    }
  };
  play(3 * flushes, nullptr);
  written.clear();
  TrieTotals totals;
  const double counted = 12 * flushes;
  play(counted, &totals);

  AddStep(report, "level-0", written["level-0"] / (counted * wal));
  for (const auto& [step, keys] : written) {
    if (step != "level-0") AddStep(report, step, keys / (counted * wal));
  }
  for (double items : totals.depths) report->level_items.push_back(items / counted);
  report->space_amplification = totals.items / counted / p.keys();
  report->sorted_runs = totals.runs / counted;
  report->runs_to_hit = totals.hits / totals.hit_samples;
}

// Each depth receives one slot per `interval` requests and writes it once. The deepest keeps everything in its lowest
// slot and merges in place when the slots above it are too much garbage; a depth where that never happens before the
// column is full of mostly live data passes everything on and is not the deepest.
void ModelSteadyTrie(const Store& store, const Popularity& p, Report* report) {
  const double wal = MemtableRequests(store);
  const double flush_size = p.Unique(wal);
  const double keys = p.keys();
  const int trigger = store.column_trigger;
  AddStep(report, "level-0", flush_size / wal);
  double interval = wal * store.root_trigger;
  double items = (store.root_trigger - 1) / 2.0 * flush_size;
  // Arrivals at the root and at each depth, and how many of them lie there on average.
  const double allowed = (1 + (store.space_bound - 1) * kSpaceHeadStart) * keys;
  std::vector<std::pair<double, double>> arrivals = {{wal, (store.root_trigger - 1) / 2.0}};
  for (int depth = 1;; depth++) {
    const double slot = p.Unique(interval);
    AddStep(report, "depth-" + std::to_string(depth), slot / interval);
    // What the bound leaves for this depth, if it is the deepest, when the depths above are about to move: columns of a
    // depth gain slots together, so that they are all nearly full then.
    const double room = allowed - 2 * items;
    // Loading every key once fills columns with live data, which moves down, unless enough is overwritten before the
    // column is full.
    const bool loaded_deeper =
        keys + std::max(0.0, trigger - keys / interval) * slot <= std::min(room, keys / store.grow_liveness);
    // Slots above the lowest when a column is merged in place: the space bound picks the fullest column of the trie, so
    // they are 0 ... in_place - 1 in turn and fill the room on average.
    double in_place = 0;
    if (!loaded_deeper) {
      in_place = std::max(1.0, 1 + 2 * (room - keys) / slot);
      if (in_place >= trigger - 1)
        in_place = keys < store.grow_liveness * (keys + (trigger - 1) * slot) ? trigger - 1 : 0;
    }
    // Slots above the lowest, on average. Under the space bound garbage fills what the depths above leave free at any
    // time.
    double above = ((in_place > 0 ? in_place : trigger) - 1) / 2;
    if (in_place > 0 && in_place < trigger - 1) above = std::max(above, (allowed - items - keys) / slot);
    arrivals.push_back({interval, above});
    const double held = above * slot;
    items += held;
    if (in_place > 0) {
      AddStep(report, "depth-" + std::to_string(depth) + " in place", keys / (in_place * interval));
      items += keys;
      report->level_items.push_back(held + keys);
      break;
    }
    report->level_items.push_back(held);
    interval *= trigger;
  }
  report->space_amplification = items / keys;
  report->sorted_runs = 1;
  for (const auto& arrival : arrivals) report->sorted_runs += arrival.second;
  States states;
  for (int i = 0; i < States::kCount; i++) {
    double age = 0, visited = 0;
    for (const auto& arrival : arrivals) {
      const int held = states.Below(static_cast<int>(std::lround(2 * arrival.second)) + 1);
      for (int j = 0; j < held; j++) visited += p.MissProbability(age + arrival.first * j);
      age += arrival.first * held;
    }
    report->runs_to_hit += (visited + p.MissProbability(age)) / States::kCount;
  }
}

}  // namespace

void ModelTrie(const Store& store, const Popularity& p, Report* report) {
  if (p.keys() / MemtableRequests(store) <= kMostPlayedFlushes) {
    ModelPlayedTrie(store, p, report);
  } else {
    ModelSteadyTrie(store, p, report);
  }
}

}  // namespace msls
}  // namespace cairn
