// The picture of one column family: where its tables lie and which of them are being compacted.
//
// A trie is a row of cells for each depth. A cell stands for one container, or for several neighbours where a depth has
// more than kMaxCells of them, so that a picture stays small however large the trie is. In hash order a depth has a
// cell for each hash prefix, in key order for each container that there is. Everything else is a list of
// sorted runs, newest first: each table of level 0, and each deeper level that holds tables.
//
// Thread-safety: plain values, and functions of their arguments.

#pragma once

#include <cstdint>
#include <vector>

#include "cairn/trie.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

// One table, as any source sees it.
struct PictureFile {
  uint64_t number = 0;
  int level = 0;
  uint64_t bytes = 0;
  bool compacting = false;
  // Where its smallest and its largest key stand in the order of all keys (HashPrefixMap::Position). Of a trie in key
  // order, both the place of its container among those of its depth (PlaceInKeyOrder). Of tries only.
  uint64_t first_position = 0;
  uint64_t last_position = 0;
};

struct PictureCell {
  uint64_t index = 0;       // of the depth's cells, from the smallest hash or key
  uint64_t containers = 0;  // that hold tables
  int slots = 0;            // occupied slots of the fullest of them; at depth 0 the tables of level 0
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t compacting_files = 0;
};

struct PictureDepth {
  int depth = 0;
  uint64_t places = 1;      // containers that the depth has room for; in key order, that hold tables
  uint64_t cells = 1;       // cells in the row; places / cells containers each, in the last one fewer
  int full_slots = 0;       // occupied slots at which a container is compacted
  int max_slots = 0;        // slots that there are
  uint64_t containers = 0;  // that hold tables
  int slots_min = 0;        // occupied slots of the emptiest and of the fullest of them
  int slots_max = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<PictureCell> filled;  // by index; cells without tables are left out
};

struct PictureSum {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t compacting_files = 0;
  uint64_t compacting_bytes = 0;
};

struct PictureRun : PictureSum {
  int level = 0;
  uint64_t file_number = 0;  // of a table of level 0; 0 for a deeper level
};

struct Picture : PictureSum {
  uint64_t spanning_files = 0;       // of a trie: tables with keys of several containers, which are split first
  std::vector<PictureDepth> depths;  // of a trie, down to the deepest that holds tables
  std::vector<PictureRun> runs;      // of all else
};

constexpr uint64_t kMaxCells = 512;
// Runs that a picture names one by one; the oldest tables of level 0 beyond that make up one run.
constexpr size_t kMaxRuns = 256;

// Of the tables of a trie in key order. REQUIRES: they are those of `shape`.
void PlaceInKeyOrder(const KeyShape& shape, std::vector<PictureFile>* files);

// Of a column family that is no trie.
Picture MakePicture(const std::vector<PictureFile>& files);
// Of a trie. In key order the root may be due at fewer tables than its row says: TrieStats::root_due_files.
Picture MakePicture(const std::vector<PictureFile>& files, const HashTrieOptions& trie);
Picture MakePicture(const std::vector<PictureFile>& files, const KeyTrieOptions& trie);

// The same of files whose places are not set: `tables` are the same with their keys, in the same order.
Picture MakeTriePicture(std::vector<PictureFile> files, const std::vector<TrieFile>& tables, const TrieOptionText& trie,
                        const rocksdb::Comparator* comparator);

}  // namespace cairn
