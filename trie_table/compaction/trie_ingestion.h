// Where in a trie a file belongs that comes as a whole: one that is ingested.
//
// RocksDB puts such a file into the deepest level whose key range is free, which in an empty trie is the deepest depth,
// whose containers are made for terabytes. A trie wants it where its bytes make containers of the size that compaction
// makes there.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>
#include <functional>

#include "trie_table/compaction/trie_options.h"

namespace cairn {

// What a container of `depth` gains with one slot when it is written from full write buffers: its part of a root, or of
// a full container, right above. REQUIRES: depth >= 1.
double SlotBytes(const TrieOptions& trie, uint64_t write_buffer_bytes, int depth);

// A file is split into containers at once if these are, on average, at least this part of SlotBytes. Else it stays
// whole until a compaction needs its parts.
constexpr double kSensiblePart = 1.0 / 16;

struct ArrivingFile {
  uint64_t bytes = 0;
  uint64_t entries = 0;
  uint64_t first_position = 0;  // HashPrefixMap::Position of its smallest and largest key
  uint64_t last_position = 0;
};

// The deepest depth at which its containers would gain at least SlotBytes if all of their keys were as dense as this
// file's; 0, the root, where there is none. So all files of a sorted bulk load come to the same depth, each lying in
// one or two containers, and a file over all keys comes to the depth where its parts are not small.
int DepthOfArriving(const TrieOptions& trie, uint64_t write_buffer_bytes, const ArrivingFile& file);

// The level of that depth, or of the next shallower one that has one free. `deepest` is what RocksDB has chosen:
// nothing in the levels up to there holds keys among the file's. fits(level) tells whether no file there covers any of
// its range.
int LevelOfArriving(const TrieOptions& trie, uint64_t write_buffer_bytes, const ArrivingFile& file, int deepest,
                    const std::function<bool(int level)>& fits);

}  // namespace cairn
