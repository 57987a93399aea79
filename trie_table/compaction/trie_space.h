// Estimates, from the tables' sketches alone, how much of a trie is live and what a compaction would free.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/snapshot_ledger.h"

namespace cairn {

// All in bytes. A key of a container may also lie above it (newer) or below it (older).
//
// Merge operands are folded into the value below them, or into one another where nothing lies below. What becomes of
// the bytes depends on the merge operator: a counter's are gone, those of a list stay. So the functions below are told
// `operand_share`, the part that stays, 0 to 1; SpaceLedger learns it.
struct ContainerSpace {
  uint64_t bytes = 0;
  uint64_t live = 0;          // keys and values of the newest of all, not deleted, and what lies below operands
  uint64_t merged = 0;        // what a merge of this container alone would keep
  uint64_t after_parent = 0;  // what a merge would keep once the parent's files have come down
  uint64_t shadowing = 0;     // keys that also lie below, at any depth
  uint64_t folded = 0;        // operands of which `merged` counts operand_share
  uint64_t folded_below = 0;  // operands of `merged` that the next depth's merge would fold, less operand_share of them
};

struct TrieSpace {
  uint64_t bytes = 0;
  uint64_t live = 0;
  std::map<ContainerId, ContainerSpace> containers;
  std::map<int, uint64_t> spanning_live;  // of files that span containers, by depth; `live` counts them
};

// Within 5 % with 95 % probability for 10,000 keys and more; tables without a sketch count as live, and so does what
// snapshots are known to keep. Expired values count as deleted. Looks at about a quarter of a million sampled keys at
// most: 20 to 40 ms.
TrieSpace EstimateSpace(const HashShape& shape, double operand_share, const SnapshotLedger& snapshots);

// The same of files in any containers. Data may skip depths: what comes down next lies at the next depth that has it.
struct PlacedFile {
  const TrieFile* file;
  ContainerId id;
};
TrieSpace EstimateSpace(const std::vector<PlacedFile>& newest_first, double operand_share,
                        const SnapshotLedger& snapshots);

// What a merge of these files alone, or of the container, would keep, as a share of its bytes, from its own sketches at
// full resolution.
double MergedShare(const std::vector<const TrieFile*>& newest_first, bool nothing_below, double operand_share,
                   const SnapshotLedger& snapshots);
double MergedShare(const Container& container, bool nothing_below, double operand_share,
                   const SnapshotLedger& snapshots);

}  // namespace cairn
