// What RocksDB's options of a column family with leveled compaction, and those of a trie, mean to the model of
// cairn/msls.h.
//
// Thread-safety: functions without state.

#pragma once

#include <string>
#include <vector>

#include "cairn/msls.h"
#include "cairn/trie.h"
#include "msls/level_sizes.h"
#include "rocksdb/options.h"

namespace cairn {

// What a memtable holds for an entry besides key and value: skip-list node, sequence number, lengths.
constexpr double kMemtableEntryOverhead = 48;

msls::FilePick PickOf(rocksdb::CompactionPri pri);

LevelSizes LevelSizesOf(const rocksdb::ColumnFamilyOptions& options);

// Appends the targets in bytes of the levels from 1 on that lie above the one that holds `data_bytes`, as the options
// have them without level_compaction_dynamic_level_bytes. False if they do not grow from level to level: those that do
// are appended.
bool AppendLevelTargets(const rocksdb::ColumnFamilyOptions& options, double data_bytes, std::vector<double>* targets);

// Sets what a kTrie store has of the options. Tables take `table_bytes` for `data_bytes` of keys and values.
void SetTrieShape(const HashTrieOptions& trie, double data_bytes, double table_bytes, msls::StoreShape* store);

// What Optimize changes of a kTrie store, in the form that TrieOptionsFromString takes, with a space bound on bytes or
// items.
std::string TrieShapeText(const msls::StoreShape& store, double space_bound);

}  // namespace cairn
