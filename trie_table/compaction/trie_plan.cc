#include "trie_table/compaction/trie_plan.h"

namespace cairn {

std::unique_ptr<TriePlan> NewTriePlan(const TrieOptionText& trie, const PlannedFamily& family) {
  if (trie.in_key_order()) return NewKeyPlan(trie.key_order(), family);
  return NewHashPlan(trie.hash_order(), family);
}

uint64_t NewestFile(const TriePlan& plan) {
  uint64_t newest = 0;
  for (uint64_t number : plan.Numbers()) newest = std::max(newest, number);
  return newest;
}

TrieDepthStats& DepthOf(int depth, TrieStats* stats) {
  while (static_cast<int>(stats->depths.size()) <= depth) {
    stats->depths.emplace_back();
    stats->depths.back().depth = static_cast<int>(stats->depths.size()) - 1;
  }
  return stats->depths[static_cast<size_t>(depth)];
}

void AddContainer(uint64_t files, int filled_slots, uint64_t bytes, TrieDepthStats* depth) {
  depth->slots_min = depth->containers == 0 ? filled_slots : std::min(depth->slots_min, filled_slots);
  depth->slots_max = std::max(depth->slots_max, filled_slots);
  ++depth->containers;
  depth->files += files;
  depth->bytes += bytes;
}

void FillTotals(const TrieSpace& space, const std::map<int, DueContainers>& pending, const TrieOptions& trie,
                const WrittenTotals& totals, TrieStats* stats) {
  for (TrieDepthStats& depth : stats->depths) {
    const auto due = pending.find(depth.depth);
    if (due == pending.end()) continue;
    depth.pending_containers = due->second.containers;
    depth.pending_bytes = due->second.bytes;
  }
  stats->bytes = space.bytes;
  stats->live_bytes = space.live;
  if (space.live > 0) stats->space_amplification = static_cast<double>(space.bytes) / static_cast<double>(space.live);
  stats->space_bound = trie.space_bound;
  stats->flushed_bytes = totals.flushed_bytes;
  stats->compacted_bytes = totals.compacted_bytes;
  if (stats->flushed_bytes > 0) {
    stats->write_amplification =
        static_cast<double>(stats->flushed_bytes + stats->compacted_bytes) / static_cast<double>(stats->flushed_bytes);
  }
}

}  // namespace cairn
