// What follows from cairn::TrieOptions: the container map and where depths and slots lie on RocksDB's levels.
//
// Level 0 is the root. Depth d (1, 2, ...) takes the levels 1+(d-1)*slots ... d*slots. RocksDB reads a lower level
// number first and takes it for newer, so a container fills from its highest level number down.

#pragma once

#include <string>
#include <unordered_map>

#include "cairn/trie.h"
#include "rocksdb/utilities/options_type.h"
#include "trie_table/compaction/container_map.h"

namespace cairn {

constexpr int kMaxTrieLevels = 512;

// What TrieOptions::format may be.
constexpr char kTrieFormatSst[] = "sst";
constexpr char kTrieFormatHTable[] = "htable";
// ... and TrieOptions::bottommost_format.
constexpr char kTrieFormatSame[] = "same";
constexpr char kTrieFormatEct[] = "ect";

inline int TrieLevels(const TrieOptions& trie) { return 1 + trie.depth * trie.slots; }
inline int DepthOfLevel(const TrieOptions& trie, int level) { return level == 0 ? 0 : (level - 1) / trie.slots + 1; }
// The newest and the oldest slot of a depth. REQUIRES: depth >= 1.
inline int FirstLevelOfDepth(const TrieOptions& trie, int depth) { return 1 + (depth - 1) * trie.slots; }
inline int LastLevelOfDepth(const TrieOptions& trie, int depth) { return depth * trie.slots; }

// What TrieOptions::order may be.
constexpr char kTrieOrderHash[] = "hash";
constexpr char kTrieOrderKey[] = "key";
inline bool IsInKeyOrder(const TrieOptions& trie) { return trie.order == kTrieOrderKey; }

// What --engine=ordered_trie begins with.
TrieOptions KeyOrderTrie();

// OrderedOptions::compaction.
constexpr char kOrderedByTrie[] = "trie";

int BitsPerDepth(const TrieOptions& trie);

// The number of occupied slots at which a container is full.
inline int TriggerOf(const TrieOptions& trie) { return trie.trigger == 0 ? (3 * trie.slots + 3) / 4 : trie.trigger; }

// REQUIRES: ValidateTrieOptions(trie).ok().
HashPrefixMap ContainerMapOf(const TrieOptions& trie);

// Describes the fields of TrieOptions to RocksDB's option parser.
const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& TrieOptionTypes();

}  // namespace cairn
