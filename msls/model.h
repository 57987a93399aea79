// What the models, the simulator and the optimizer share.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/msls.h"

namespace cairn::msls {

// At most 12 significant digits, for messages.
std::string Number(double value);

// Levels that a depth of the trie takes: as many that three quarters of them are the trigger (cairn/trie.h).
inline int TrieSlotsFor(int container_trigger) { return (4 * container_trigger + 2) / 3; }
inline int TrieSlots(const StoreShape& store) {
  return store.slots > 0 ? store.slots : TrieSlotsFor(store.container_trigger);
}

inline void AddStep(Report* report, const std::string& name, double value) {
  report->breakdown.push_back({name, value});
  report->write_amplification += value;
}

// States of a store drawn evenly, always the same ones: which of the runs that fill and empty in turn are there.
class States {
 public:
  static constexpr int kCount = 64;
  double Next() {  // in [0, 1)
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<double>(state_ >> 11) / 9007199254740992.0;
  }
  int Below(int limit) { return std::min(limit - 1, static_cast<int>(Next() * limit)); }

 private:
  uint64_t state_ = 1;
};

// Requests that one memtable holds.
inline double MemtableRequests(const StoreShape& store) { return store.write_buffer_bytes / store.item_bytes; }

// Which sorted runs RocksDB's universal compaction merges next, for sizes that may be counted or expected. One
// compaction at a time.
struct UniversalPick {
  size_t begin = 0, end = 0;  // of the runs, newest first; empty: nothing to do
  const char* reason = "";    // "size amplification", "size ratio" or "run count"
};

// `sizes` are those of the runs, newest first.
UniversalPick PickUniversal(const StoreShape& store, const std::vector<double>& sizes);

// Adds the steps of leveled compaction below the log: level 0, and those into the others from the top; size as
// LevelItems gives it. ModelRocksDB: those of RocksDB's.
void ModelLevels(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report);
void ModelRocksDB(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report);

// The log and everything below, for levels of given sizes (items, the last entry all keys); nothing is checked.
double LeveledWriteAmplification(const StoreShape& store, const Popularity& p, const std::vector<double>& size);

// Fills the report of a kTrie store, log left out.
void ModelTrie(const StoreShape& store, const Popularity& p, Report* report);

// Levels of a kSamt or kCola store.
int GrowthLevels(const StoreShape& store, const Popularity& popularity);

}  // namespace cairn::msls
