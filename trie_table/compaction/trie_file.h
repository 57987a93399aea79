// What a trie knows of its tables, in either order.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "table/key_sketch.h"

namespace cairn {

// A part of what DeleteRange deletes: keys from `first` up to `end`, without it, whose sequence numbers are lower.
struct DeletedKeys {
  std::string first, end;
  uint64_t sequence = 0;
};

struct TrieFile {
  uint64_t number = 0;
  // RocksDB's, by which level 0 is ordered. After a repair or an import a higher number may hold what is older.
  uint64_t epoch = 0;
  int level = 0;
  uint64_t container = 0;  // of its smallest key, at the depth of `level`
  uint64_t bytes = 0;
  // Of keys and values alone, at most `bytes`: what would remain if every entry were live and stored without overhead.
  uint64_t data_bytes = 0;
  std::shared_ptr<const KeySketch> sketch;  // null: unknown
  // Every entry is the only one of its key in the file, and no deletion.
  bool only_live = false;
  bool deletes = false;  // entries of it are deletions
  // The part of its entries that are the newest of their keys. The others are there for a snapshot.
  double newest = 1;
  std::shared_ptr<const std::vector<uint32_t>> ttl_stamps;  // of its values (ttl_stamps.h); null: unknown
  bool marked = false;                                      // a table properties collector wants it compacted
  // Keys of several containers, up to this one: a file that was ingested or imported, or written under another fan_out
  // or number of slots.
  bool spans = false;
  uint64_t last_container = 0;  // of its largest key; meaningless unless it spans
  // Of a trie in key order, which has no use for the containers' numbers.
  std::string smallest, largest;
  bool largest_excluded = false;  // a range deletion ends there, and no key of the table is as large
  uint64_t largest_sequence = 0;  // of its entries, but for those that a compaction to the last level has set to 0
  std::shared_ptr<const std::vector<DeletedKeys>> deleted;  // in key order, none overlaps another; null: none
  bool has_blobs = false;                                   // values of it lie in blob files
};

// Of two tables of level 0, whether the first holds what is newer, should both hold a key.
inline bool IsNewerInRoot(const TrieFile& a, const TrieFile& b) {
  return a.epoch != b.epoch ? a.epoch > b.epoch : a.number > b.number;
}

// A container's name: its depth and its number there. In key order the number is its place among those of one Version.
struct ContainerId {
  int depth = 0;
  uint64_t container = 0;
  bool operator<(const ContainerId& other) const {
    return depth != other.depth ? depth < other.depth : container < other.container;
  }
  bool operator==(const ContainerId& other) const { return depth == other.depth && container == other.container; }
};

// kReserved: the last of all levels is not the trie's, but holds what was ingested behind it (allow_ingest_behind).
enum class LastOfAll { kUsed, kReserved };

}  // namespace cairn
