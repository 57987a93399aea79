// Estimates, from the tables' sketches alone, how much of a trie is live and what a compaction would free.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "db/trie_shape.h"

namespace cairn {

// All in bytes. A key of a column may also lie above it (newer) or below it (older).
struct ColumnSpace {
  uint64_t bytes = 0;
  uint64_t live = 0;          // keys and values of the newest of all, not deleted
  uint64_t merged = 0;        // what a merge of this column alone would keep
  uint64_t after_parent = 0;  // what a merge would keep once the parent's files have come down
  uint64_t shadowing = 0;     // keys that also lie below, at any depth
};

struct TrieSpace {
  uint64_t bytes = 0;
  uint64_t live = 0;
  std::map<ContainerId, ColumnSpace> columns;
};

// Within 5 % with 95 % probability for 10,000 keys and more; tables without a sketch count as live. Looks at about a
// quarter of a million sampled keys at most: 20 to 40 ms.
TrieSpace EstimateSpace(const TrieShape& shape);

// What a merge of the column alone would keep, as a share of its bytes, from the column's own sketches at full
// resolution.
double MergedShare(const Column& column, bool drops_deletions);

}  // namespace cairn
