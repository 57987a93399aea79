// What the picker of a trie's compactions (db/trie_picker.h) and the models that play it (msls) must agree on: when it
// compacts for space, and how much of the keys it knows then. Needs nothing of RocksDB.

#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn {

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
