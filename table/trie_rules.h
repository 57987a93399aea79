// What the picker of a trie's compactions (trie_table/compaction/hash_picker.h) and the models that play it (msls) must
// agree on: when containers wait or are merged in place, when it compacts for space, and how much of the keys it knows
// then. Needs nothing of RocksDB.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn {

// A full container waits for those of its children that are full as well, until it has so many slots (the root: files).
constexpr int RootWaitsUntil(int trigger) { return 5 * trigger / 2; }
constexpr int ContainerWaitsUntil(int trigger, int slots) { return trigger + (slots - trigger) / 2; }

// Siblings are merged in place, each into the last level of its depth, when all are nearly empty but have hardly a
// level left above the newest of them: they would have to move on with a few slots each. Not while they have two, for
// what arrives until then is merged along.
constexpr bool SiblingsMergeInPlace(int most_occupied, int free_levels, int trigger) {
  return 4 * most_occupied <= trigger && free_levels <= 1;
}

// Whether a container will be moved down before long.
constexpr bool IsNearlyFull(int occupied, int trigger) { return 4 * occupied >= 3 * trigger; }

// How urgent compaction for space is when a trie takes `excess` more than it is allowed, as a part of that. A container
// that is just full has 1.
inline double SpaceScore(double excess) { return 1 + 4 * std::min(excess, 2.0); }

// A compaction for space must free at least this share of what it reads, or it is not worth its writes.
constexpr double kSpaceWorthwhile = 0.02;

// Share of the garbage that TrieOptions::space_bound allows at which compaction for space begins, so that the bound
// itself is kept while the compactions run.
constexpr double kSpaceHeadStart = 0.92;

// Garbage below this share of what the bound allows is left alone, and slows nobody down, however near the bound the
// next write buffer may bring a trie that holds a few of them.
constexpr double kSpaceLittleGarbage = 0.25;

// A table's sketch has at most so many of its keys, and at most one of so many (table/key_sketch.h).
constexpr size_t kSketchCapacity = 4096;
constexpr uint64_t kSketchOneOf = 4;

// Of all tables' sketches together no more keys than this are looked at.
constexpr uint64_t kMaxSpaceSamples = uint64_t{1} << 18;

}  // namespace cairn
