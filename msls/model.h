// What the models share.

#pragma once

#include <vector>

#include "cairn/msls.h"

namespace cairn {
namespace msls {

// Part of the garbage that TrieOptions::space_bound allows at which the trie begins to compact for space
// (db/trie_picker.cc).
constexpr double kSpaceHeadStart = 0.95;

// Requests that one memtable holds.
inline double MemtableRequests(const Store& store) { return store.write_buffer_bytes / store.item_bytes; }

// Adds the steps of RocksDB leveled compaction below the log; size as LevelItems gives it.
void ModelRocksDB(const Store& store, const Popularity& p, const std::vector<double>& size, Report* report);

// The log and everything below, for levels of given sizes (items, the last entry all keys); nothing is checked.
double LeveledWriteAmplification(const Store& store, const Popularity& p, const std::vector<double>& size);

// Levels of a kSamt or kCola store.
int GrowthLevels(const Store& store, const Popularity& popularity);

}  // namespace msls
}  // namespace cairn
