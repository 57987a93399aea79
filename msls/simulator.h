// What the simulated designs share: tables of keys, their merge, the write_stats, and the loop that feeds a store with
// flushes.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/msls.h"
#include "msls/workload.h"

namespace cairn::msls {

// One version of a key: the key above, the number of the request that wrote it below, so that items compare by key
// first.
using Item = uint64_t;
inline uint32_t ItemKey(Item item) { return static_cast<uint32_t>(item >> 32); }
inline uint32_t ItemTime(Item item) { return static_cast<uint32_t>(item); }

// Items in increasing order, no key twice.
using Table = std::vector<Item>;

// The newest version of every key of `newer` and `older`.
Table MergeTables(const Table& newer, const Table& older);

// Items written by cause, in the order in which the causes were named first.
class WriteStats {
 public:
  void Write(const std::string& step, double items);
  void Clear();
  // A flush begins: its own write is the first.
  void BeginFlush();
  // What the largest of the compactions wrote that this flush brought about.
  double largest_compaction() const { return largest_compaction_; }
  const std::vector<WriteCost>& steps() const { return steps_; }

 private:
  std::vector<WriteCost> steps_;
  bool flushing_ = false;
  double largest_compaction_ = 0;
};

class SimulatedStore {
 public:
  virtual ~SimulatedStore() = default;
  // One flushed memtable.
  virtual void Flush(Table table) = 0;
  // Items stored and sorted runs that hold any, now.
  virtual double Items() const = 0;
  virtual double Runs() const = 0;
  virtual std::vector<double> LevelItems() const = 0;
  // The number of runs that a lookup visits until it finds the key, which exists.
  virtual double RunsToHit(uint32_t key) const = 0;

  WriteStats write_stats;
};

// A leveled store whose level targets may change from one flush to the next, as SetOptions changes those of a database,
// with as many levels as it is given targets; the last has none that matters.
class AdjustableStore : public SimulatedStore {
 public:
  // In items, of levels 1, 2 ...; as many as the store was made with.
  virtual void SetTargets(const std::vector<double>& targets) = 0;
};

// kAllValues: every item is a value. kOddTimesDelete: an item whose time is odd is a deletion, and goes when no deeper
// level has a file that its key lies in.
enum class Deletions { kAllValues, kOddTimesDelete };

// A kLevelDB or kRocksDB store without dynamic_level_bytes.
std::unique_ptr<AdjustableStore> NewAdjustableStore(const StoreShape& store, const std::vector<double>& targets,
                                                    Deletions deletions);

IndexStatus SimulateLeveled(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                            Report* report);
IndexStatus SimulateRuns(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report);
IndexStatus SimulateTrie(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report);
IndexStatus SimulateSilt(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report);

// Loads, warms up, counts, and fills the report, log included.
IndexStatus Play(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                 SimulatedStore* simulated, Report* report);

// True if a run, which is sorted by key, holds the key.
bool Holds(const Table& table, uint32_t key);

}  // namespace cairn::msls
