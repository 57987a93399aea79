// A KeyShape is what the compaction scheduler knows of a trie in key order: its tables, which of them lie over one
// another, and which compactions run. It mirrors the current Version, as HashShape does for a trie in hash order.
//
// A container is not named by anything that is stored. At each depth the tables fall into groups that have no key
// range in common; each group is a container, and the gaps between them are its guards. So the Version alone tells
// what the containers are, whatever made the tables: a compaction, an ingestion, a repair, or another set of options.
//
// Invariants
//   (1) Containers of one depth are disjoint; every table of the depth lies in exactly one.
//   (2) Of two tables with keys in common the one with the lower level number is newer; in level 0, the one that
//       IsNewerInRoot names.
//   (3) Of two compactions that run, either the key ranges are disjoint, or the levels from the newest input to the
//       output are. So neither draws a table of the other in, and neither writes between the other's tables.
//   (4) Tables of one level are disjoint, but for those that RocksDB's own compactions have left: where snapshots kept
//       versions of a key, the last key of one may be the first of the next, whose versions are older. None of these
//       moves to another level without the others; a compaction of one takes its neighbours in.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "rocksdb/slice.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

// From `first` to `last`.
struct KeyRange {
  std::string first, last;
  bool last_excluded = false;
};

struct KeyContainer {
  int depth = 0;
  KeyRange range;
  std::vector<const TrieFile*> files;  // newest first; of one level, in key order
  uint64_t bytes = 0;
  int slots = 0;      // levels that hold some of it; of the root, files
  bool busy = false;  // a compaction of some of it runs
};

class KeyShape {
 public:
  KeyShape(const KeyTrieOptions& trie, const rocksdb::Comparator* comparator, LastOfAll last = LastOfAll::kUsed);

  const KeyTrieOptions& trie() const { return trie_; }
  const rocksdb::Comparator* comparator() const { return comparator_; }
  // The oldest slot of a depth. REQUIRES: depth >= 1.
  int LastLevel(int depth) const;
  uint64_t bytes() const { return bytes_; }
  uint64_t files() const { return files_.size(); }
  uint64_t version() const { return version_; }

  bool Contains(uint64_t number) const { return files_.count(number) != 0; }
  // The level of a file; -1 when it is not here.
  int LevelOf(uint64_t number) const;
  std::vector<uint64_t> Numbers() const;  // of all files
  const TrieFile* Find(uint64_t number) const;
  // Adding a file twice or removing one that is not there changes nothing. REQUIRES: `file` has its keys.
  void Add(const TrieFile& file);
  void Remove(uint64_t number);

  // Containers of a depth, in key order; the root, if it is not empty, is the one of depth 0.
  const std::vector<KeyContainer>& ContainersAt(int depth) const;

  // Of all files; false when there is none.
  bool WholeRange(KeyRange* range) const;
  bool Overlap(const KeyRange& a, const KeyRange& b) const;
  static KeyRange RangeOf(const TrieFile& file) { return {file.smallest, file.largest, file.largest_excluded}; }
  // The smallest range that holds both.
  void Widen(KeyRange* range, const TrieFile& file) const;
  // Those of ContainersAt(depth) that have keys of the range among theirs, by their place there.
  std::pair<size_t, size_t> Overlapping(int depth, const KeyRange& range) const;
  // Files of one level, 1 or more, with keys in the range.
  std::vector<const TrieFile*> FilesIn(int level, const KeyRange& range) const;
  uint64_t BytesIn(int depth, const KeyRange& range) const;
  // Files with range deletions, by number.
  const std::set<uint64_t>& deleting() const { return deleting_; }
  // If what the file `deleting` deletes covers all keys of the older `file`, and is newer than them: the highest
  // sequence number of what covers them, below which a snapshot may see some of them; else 0. Also 0 if values of
  // `file` lie in blob files: only a compaction counts them as garbage, and what is not counted RocksDB keeps as long
  // as there is any reference to as old a blob file.
  uint64_t DeletedAt(const TrieFile& deleting, const TrieFile& file) const;
  // The next depth below `depth` that holds keys in the range; 0: none.
  int NextDepthBelow(int depth, const KeyRange& range) const;
  // The lowest level number from `level` on that holds keys in the range; one more than the last level: none.
  int FirstLevelIn(int level, const KeyRange& range) const;

  // By (3).
  struct Run {
    KeyRange range;
    int top_level = 0;
    int output_level = 0;
  };
  bool Conflicts(const Run& run) const;
  bool IsInput(uint64_t number) const;  // of a running compaction
  void Begin(uint64_t job, std::vector<Run> runs, const std::vector<uint64_t>& inputs);
  void End(uint64_t job);

 private:
  struct Running {
    std::vector<Run> runs;
    std::vector<uint64_t> inputs;
  };
  struct BySmallest {
    using is_transparent = void;
    const rocksdb::Comparator* comparator;
    bool operator()(const TrieFile* a, const TrieFile* b) const {
      const int order = comparator->Compare(a->smallest, b->smallest);
      return order != 0 ? order < 0 : a->number < b->number;
    }
    bool operator()(const rocksdb::Slice& key, const TrieFile* file) const {
      return comparator->Compare(key, file->smallest) < 0;
    }
    bool operator()(const TrieFile* file, const rocksdb::Slice& key) const {
      return comparator->Compare(file->smallest, key) < 0;
    }
  };
  using Level = std::set<const TrieFile*, BySmallest>;

  bool HasFilesIn(int level, const KeyRange& range) const;
  // Whether a range lies before a key, with nothing in common.
  bool EndsBefore(const rocksdb::Slice& last, bool last_excluded, const rocksdb::Slice& key) const {
    const int order = comparator_->Compare(last, key);
    return order < 0 || (order == 0 && last_excluded);
  }
  bool EndsBefore(const KeyRange& range, const rocksdb::Slice& key) const {
    return EndsBefore(range.last, range.last_excluded, key);
  }
  bool EndsBefore(const TrieFile& file, const rocksdb::Slice& key) const {
    return EndsBefore(file.largest, file.largest_excluded, key);
  }
  void Group(int depth) const;
  void UpdateBusy(const std::vector<uint64_t>& inputs);

  const KeyTrieOptions trie_;
  const rocksdb::Comparator* const comparator_;
  const LastOfAll last_;
  std::unordered_map<uint64_t, TrieFile> files_;
  std::set<uint64_t> deleting_;
  std::vector<Level> levels_;
  uint64_t bytes_ = 0;
  uint64_t version_ = 0;
  std::map<uint64_t, Running> running_;
  std::unordered_map<uint64_t, int> inputs_;                   // of running compactions
  mutable std::vector<std::vector<KeyContainer>> containers_;  // by depth
  mutable std::vector<bool> stale_;                            // by depth: files have changed
};

}  // namespace cairn
