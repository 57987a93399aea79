#include "msls/simulator.h"

#include <algorithm>
#include <cmath>

#include "msls/model.h"

namespace cairn::msls {

Table MergeTables(const Table& newer, const Table& older) {
  Table out;
  out.reserve(newer.size() + older.size());
  size_t i = 0, j = 0;
  while (i < newer.size() && j < older.size()) {
    const uint32_t a = ItemKey(newer[i]), b = ItemKey(older[j]);
    if (a <= b) {
      out.push_back(newer[i++]);
      if (a == b) j++;
    } else {
      out.push_back(older[j++]);
    }
  }
  out.insert(out.end(), newer.begin() + i, newer.end());
  out.insert(out.end(), older.begin() + j, older.end());
  return out;
}

bool Holds(const Table& table, uint32_t key) {
  const auto it = std::lower_bound(table.begin(), table.end(), static_cast<Item>(key) << 32);
  return it != table.end() && ItemKey(*it) == key;
}

void WriteStats::BeginFlush() {
  flushing_ = true;
  largest_compaction_ = 0;
}

void WriteStats::Write(const std::string& step, double items) {
  if (!flushing_) largest_compaction_ = std::max(largest_compaction_, items);
  flushing_ = false;
  for (WriteCost& s : steps_) {
    if (s.name == step) {
      s.value += items;
      return;
    }
  }
  steps_.push_back({step, items});
}

void WriteStats::Clear() {
  for (WriteCost& s : steps_) s.value = 0;
}

IndexStatus Play(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                 SimulatedStore* simulated, Report* report) {
  Workload workload(popularity, options.seed);
  const double keys = static_cast<double>(workload.keys());
  const uint64_t load = workload.keys();
  const uint64_t warm = load + static_cast<uint64_t>(options.warm_requests < 0 ? keys : options.warm_requests);
  const uint64_t end = warm + static_cast<uint64_t>(std::max(1.0, options.requests < 0 ? 3 * keys : options.requests));
  const uint64_t memtable =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(store.write_buffer_bytes / store.item_bytes)));

  double counted = 0, samples = 0, items = 0, runs = 0, hits = 0, most = 0;
  std::vector<double> level_items;
  for (uint64_t next = 0; next < end;) {
    const bool count = next >= warm;
    if (count && counted == 0) simulated->write_stats.Clear();
    Table table;
    const uint64_t stop = std::min(next + memtable, count ? end : next < load ? load : warm);
    table.reserve(stop - next);
    // The low half counts down within the table while sorting, so that the newest version of a key comes first.
    for (uint64_t i = next; i < stop; i++) {
      const uint64_t key = i < load ? workload.Load(i) : workload.Draw();
      table.push_back(key << 32 | (stop - 1 - i));
    }
    const uint64_t requests = stop - next;
    std::sort(table.begin(), table.end());
    table.erase(std::unique(table.begin(), table.end(), [](Item a, Item b) { return ItemKey(a) == ItemKey(b); }),
                table.end());
    for (Item& item : table) item = (item >> 32) << 32 | static_cast<uint32_t>(stop - 1 - ItemTime(item));
    next = stop;
    const double before = simulated->Items() + static_cast<double>(table.size());
    simulated->write_stats.BeginFlush();
    simulated->Flush(std::move(table));
    if (!count) continue;

    most = std::max(most, before + simulated->write_stats.largest_compaction());
    counted += static_cast<double>(requests);
    samples++;
    items += simulated->Items();
    runs += simulated->Runs();
    constexpr int kLookups = 20;
    for (int i = 0; i < kLookups; i++) hits += simulated->RunsToHit(workload.Draw()) / kLookups;
    const std::vector<double> now = simulated->LevelItems();
    if (level_items.size() < now.size()) level_items.resize(now.size());
    for (size_t i = 0; i < now.size(); i++) level_items[i] += now[i];
  }

  *report = Report();
  if (store.log) report->breakdown.push_back({"log", 1});
  for (const WriteCost& step : simulated->write_stats.steps())
    report->breakdown.push_back({step.name, step.value / counted});
  for (const WriteCost& step : report->breakdown) report->write_amplification += step.value;
  for (double& level : level_items) level /= samples;
  report->level_items = level_items;
  report->space_amplification = items / samples / keys;
  report->sorted_runs = runs / samples;
  report->runs_to_hit = hits / samples;
  // SAMT and COLA merge what is flushed with what is there.
  if (store.design != Design::kSamt && store.design != Design::kCola) report->most_space_amplification = most / keys;
  return IndexStatus::OK();
}

IndexStatus Simulate(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                     Report* report) {
  IndexStatus s = Validate(store, popularity);
  if (!s.ok()) return s;
  const double keys = popularity.keys();
  if (keys > 1e9) return IndexStatus::InvalidArgument("keys is " + Number(keys) + "; a simulation takes at most 1e9.");
  const double warm = options.warm_requests < 0 ? keys : options.warm_requests;
  const double requests = options.requests < 0 ? 3 * keys : options.requests;
  if (!(keys + warm + requests < 4294967295.0)) {
    return IndexStatus::InvalidArgument("The simulation takes " + Number(keys + warm + requests) +
                                        " requests with loading; fewer than 4294967295 are possible.");
  }
  switch (store.design) {
    case Design::kLevelDB:
    case Design::kRocksDB:
      return SimulateLeveled(store, popularity, options, report);
    case Design::kUniversal:
    case Design::kSamt:
    case Design::kCola:
      return SimulateRuns(store, popularity, options, report);
    case Design::kSilt:
      return SimulateSilt(store, popularity, options, report);
    case Design::kTrie:
      return SimulateTrie(store, popularity, options, report);
  }
  return IndexStatus::InvalidArgument("Unknown design.");
}

}  // namespace cairn::msls
