#include "trie_table/compaction/trie_ingestion.h"

#include <algorithm>
#include <cmath>

namespace cairn {

namespace {

// Fewer keys say too little about how dense they are.
constexpr uint64_t kTellingEntries = 16;

}  // namespace

double SlotBytes(const TrieOptions& trie, uint64_t write_buffer_bytes, int depth) {
  const double root = static_cast<double>(write_buffer_bytes) * trie.root_trigger;
  return root / trie.fan_out * std::pow(static_cast<double>(TriggerOf(trie)) / trie.fan_out, depth - 1);
}

int DepthOfArriving(const TrieOptions& trie, uint64_t write_buffer_bytes, const ArrivingFile& file) {
  if (file.entries < kTellingEntries) return 0;
  const auto entries = static_cast<double>(file.entries);
  // Of n keys in a part of all positions, the outermost ones lie (n - 1) / (n + 1) of it apart.
  const double apart = std::ldexp(static_cast<double>(file.last_position - file.first_position), -64);
  const double part = std::min(1.0, apart * (entries + 1) / (entries - 1));
  double container = static_cast<double>(file.bytes) / std::max(part, 1e-18);
  int depth = 0;
  while (depth < trie.depth) {
    container /= trie.fan_out;
    if (container < SlotBytes(trie, write_buffer_bytes, depth + 1)) break;
    ++depth;
  }
  return depth;
}

int LevelOfArriving(const TrieOptions& trie, uint64_t write_buffer_bytes, const ArrivingFile& file, int deepest,
                    const std::function<bool(int level)>& fits) {
  const int depth = std::min(DepthOfArriving(trie, write_buffer_bytes, file), DepthOfLevel(trie, deepest));
  if (depth == 0) return 0;
  int level = std::min(deepest, LastLevelOfDepth(trie, depth));
  while (level > 0 && !fits(level)) --level;
  return level;
}

}  // namespace cairn
