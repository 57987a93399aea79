// Designs of whole sorted runs: RocksDB's universal compaction, SAMT, COLA, and SILT's three stores.

#include <algorithm>

#include "msls/model.h"
#include "msls/simulator.h"

namespace cairn::msls {

namespace {

// Runs, newest first.
class RunStore : public SimulatedStore {
 public:
  double Items() const override {
    double items = 0;
    for (const Table& run : runs_) items += static_cast<double>(run.size());
    return items;
  }
  double Runs() const override { return static_cast<double>(runs_.size()); }
  std::vector<double> LevelItems() const override {
    std::vector<double> sizes;
    for (const Table& run : runs_) sizes.push_back(static_cast<double>(run.size()));
    return sizes;
  }
  double RunsToHit(uint32_t key) const override {
    double visited = 0;
    for (const Table& run : runs_) {
      visited++;
      if (Holds(run, key)) break;
    }
    return visited;
  }

 protected:
  // Replaces runs [begin, end) by their merge; returns its size.
  double MergeRuns(size_t begin, size_t end) {
    Table merged = std::move(runs_[end - 1]);
    for (size_t i = end - 1; i-- > begin;) merged = MergeTables(runs_[i], merged);
    const double size = static_cast<double>(merged.size());
    runs_[begin] = std::move(merged);
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                runs_.begin() + static_cast<std::ptrdiff_t>(end));
    return size;
  }

  std::vector<Table> runs_;
};

class UniversalStore : public RunStore {
 public:
  explicit UniversalStore(const StoreShape& store) : store_(store) {}
  void Flush(Table table) override {
    write_stats.Write("flush", static_cast<double>(table.size()));
    runs_.insert(runs_.begin(), std::move(table));
    for (;;) {
      const UniversalPick pick = PickUniversal(store_, LevelItems());
      if (pick.end == 0) return;
      write_stats.Write(pick.reason, MergeRuns(pick.begin, pick.end));
    }
  }

 private:
  const StoreShape store_;
};

// SAMT and COLA: level 1 (index 0) receives flushes, the last level holds everything. counts_[l] arrivals lie in level
// l: as runs of their own (SAMT) or as one run (COLA).
class GrowthStore : public RunStore {
 public:
  GrowthStore(const StoreShape& store, size_t levels)
      : cola_(store.design == Design::kCola), growth_(static_cast<size_t>(store.growth)), counts_(levels, 0) {
    for (size_t l = 1; l <= levels; l++) names_.push_back("level-" + std::to_string(l));
  }

  void Flush(Table table) override {
    for (size_t l = 0;; l++) {
      const size_t begin = Begin(l);
      if (l + 1 == counts_.size()) {
        // The last level is one run, merged with each arrival.
        runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(begin), std::move(table));
        write_stats.Write(names_[l], MergeRuns(begin, runs_.size()));
        counts_[l] = 1;
        return;
      }
      const bool full = counts_[l] + 1 == growth_;
      if (cola_) {
        if (counts_[l] > 0) table = MergeTables(table, runs_[begin]);
        if (counts_[l] > 0) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(begin));
        if (!full) {
          write_stats.Write(names_[l], static_cast<double>(table.size()));
          runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(begin), std::move(table));
          counts_[l]++;
          return;
        }
      } else {
        write_stats.Write(names_[l], static_cast<double>(table.size()));
        runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(begin), std::move(table));
        if (!full) {
          counts_[l]++;
          return;
        }
        MergeRuns(begin, begin + growth_);
        table = std::move(runs_[begin]);
        runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(begin));
      }
      counts_[l] = 0;
    }
  }

 private:
  size_t Begin(size_t level) const {
    size_t begin = 0;
    for (size_t l = 0; l < level; l++) begin += cola_ ? counts_[l] > 0 : counts_[l];
    return begin;
  }

  const bool cola_;
  const size_t growth_;
  std::vector<size_t> counts_;
  std::vector<std::string> names_;
};

}  // namespace

IndexStatus SimulateRuns(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report) {
  if (store.design == Design::kUniversal) {
    UniversalStore simulated(store);
    return Play(store, popularity, options, &simulated, report);
  }
  GrowthStore simulated(store, static_cast<size_t>(GrowthLevels(store, popularity)));
  return Play(store, popularity, options, &simulated, report);
}

// Request by request, because a LogStore is full by distinct keys, not by requests. Keys are dealt out to the instances
// by number, which scatters the popular ones.
IndexStatus SimulateSilt(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report) {
  struct Instance {
    std::vector<uint32_t> log;
    uint64_t hash_stores = 0;
  };
  Workload workload(popularity, options.seed);
  const size_t instances = static_cast<size_t>(store.instances);
  std::vector<Instance> all(instances);
  const double keys = static_cast<double>(workload.keys());
  const uint64_t full =
      std::max<uint64_t>(1, static_cast<uint64_t>(store.hash_store_slots * store.hash_store_occupancy));
  std::vector<uint8_t> in_log(workload.keys(), 0);
  const uint64_t warm = static_cast<uint64_t>(options.warm_requests < 0 ? keys : options.warm_requests);
  const uint64_t end = warm + static_cast<uint64_t>(std::max(1.0, options.requests < 0 ? 3 * keys : options.requests));
  double hash_written = 0, sorted_written = 0, stored = 0, runs = 0;
  for (uint64_t i = 0; i < end; i++) {
    const uint32_t key = workload.Draw();
    Instance& mine = all[key % instances];
    if (!in_log[key]) {
      in_log[key] = 1;
      mine.log.push_back(key);
    }
    if (mine.log.size() == full) {
      for (uint32_t k : mine.log) in_log[k] = 0;
      mine.log.clear();
      mine.hash_stores++;
      if (i >= warm) hash_written += store.hash_store_slots;
    }
    if (mine.hash_stores == static_cast<uint64_t>(store.hash_stores)) {
      mine.hash_stores = 0;
      if (i >= warm) sorted_written += keys / store.instances;
    }
    if (i < warm) continue;
    stored += keys / store.instances + static_cast<double>(mine.hash_stores) * store.hash_store_slots;
    runs += 2 + static_cast<double>(mine.hash_stores);
  }
  const double requests = static_cast<double>(end - warm);
  *report = Report();
  report->breakdown = {
      {"LogStore", 1}, {"HashStores", hash_written / requests}, {"SortedStore", sorted_written / requests}};
  for (const WriteCost& step : report->breakdown) report->write_amplification += step.value;
  report->space_amplification = stored / requests / (keys / store.instances);
  report->sorted_runs = runs / requests;
  report->level_items = {0, keys};
  return IndexStatus::OK();
}

}  // namespace cairn::msls
