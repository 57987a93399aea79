#include "trie_table/compaction/key_sizes.h"

#include <algorithm>

namespace cairn {

namespace {

// More: writers wait longer, and bytes are written for space, because less garbage is left for compactions to find.
// Less: bytes are written for the root (docs/design/ordered_trie.md).
constexpr double kRootOfGarbage = 2.0 / 9;
constexpr int kLeastRootFiles = 3;
// Of the room that there is now, where that is more. Less: a trie that grows, whose keys are mostly new, writes small
// roots for no garbage. More: what a compaction of the root writes is more than the room that made it large.
constexpr double kRootOfRoom = 0.6;

}  // namespace

int RootFilesFor(const KeyTrieOptions& trie, uint64_t live_bytes, uint64_t garbage_bytes, uint64_t file_bytes) {
  const double allowed = (trie.space_bound - 1) * static_cast<double>(live_bytes);
  const double room = allowed - static_cast<double>(garbage_bytes);
  const double root = std::max(kRootOfGarbage * allowed, kRootOfRoom * room);
  const double files = root / static_cast<double>(std::max<uint64_t>(file_bytes, 1));
  const int least = std::min(kLeastRootFiles, trie.root_trigger);
  return static_cast<int>(std::clamp<double>(files, least, trie.root_trigger));
}

KeySizes::KeySizes(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, int files)
    : root_files(files),
      unit(std::max<uint64_t>(write_buffer_bytes, 1) * static_cast<uint64_t>(files)),
      table(std::max<uint64_t>(unit / static_cast<uint64_t>(trie.fan_out), 1)),
      least(std::max<uint64_t>(table / 8, 1)),
      most(2 * table),
      joined(unit / 2),
      largest_job(unit + unit / 8) {}

}  // namespace cairn
