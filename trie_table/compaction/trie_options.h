// What follows from a trie's options: the container map, where depths and slots lie on RocksDB's levels, and how option
// strings name them.
//
// Level 0 is the root. Depth d (1, 2, ...) takes the levels 1+(d-1)*slots ... d*slots. RocksDB reads a lower level
// number first and takes it for newer, so a container fills from its highest level number down.

#pragma once

#include <string>

#include "cairn/trie.h"
#include "trie_table/compaction/container_map.h"
#include "util/option_text.h"

namespace cairn {

constexpr int kMaxTrieLevels = 512;

// What HashTrieOptions::format may be.
constexpr char kTrieFormatSst[] = "sst";
constexpr char kTrieFormatHTable[] = "htable";
// ... and HashTrieOptions::bottommost_format.
constexpr char kTrieFormatSame[] = "same";
constexpr char kTrieFormatEct[] = "ect";

// OrderedOptions::compaction.
constexpr char kOrderedByTrie[] = "trie";

inline int TrieLevels(const TrieOptions& trie) { return 1 + trie.depth * trie.slots; }
inline int DepthOfLevel(const TrieOptions& trie, int level) { return level == 0 ? 0 : (level - 1) / trie.slots + 1; }
// The newest and the oldest slot of a depth. REQUIRES: depth >= 1.
inline int FirstLevelOfDepth(const TrieOptions& trie, int depth) { return 1 + (depth - 1) * trie.slots; }
inline int LastLevelOfDepth(const TrieOptions& trie, int depth) { return depth * trie.slots; }

int BitsPerDepth(const TrieOptions& trie);

// The number of occupied slots at which a container is full.
inline int TriggerOf(const TrieOptions& trie) { return trie.trigger == 0 ? (3 * trie.slots + 3) / 4 : trie.trigger; }

// REQUIRES: ValidateTrieOptions(trie).ok().
HashPrefixMap ContainerMapOf(const HashTrieOptions& trie);

// What an option string of a trie may say, in whatever order it is: the options of both, and which order that is. Those
// that mean nothing there are kept, so that an option string comes back as it was. It is for where the order is not
// known before the string has been read; all else takes hash_order() or key_order().
struct TrieOptionText : HashTrieOptions {
  static constexpr char kHash[] = "hash";
  static constexpr char kKey[] = "key";

  TrieOptionText() = default;
  TrieOptionText(const HashTrieOptions& trie) : HashTrieOptions(trie) {}  // NOLINT(google-explicit-constructor)
  TrieOptionText(const KeyTrieOptions& trie);                             // NOLINT(google-explicit-constructor)

  bool in_key_order() const { return order == kKey; }
  const HashTrieOptions& hash_order() const { return *this; }
  KeyTrieOptions key_order() const;

  std::string order = kHash;
  double scan_merge = KeyTrieOptions().scan_merge;
};

rocksdb::Status TrieOptionsFromString(const std::string& text, TrieOptionText* options);
rocksdb::Status ValidateTrieOptions(const TrieOptionText& options);
rocksdb::Status UseTrie(rocksdb::ColumnFamilyOptions* options, const TrieOptionText& trie);
rocksdb::Status UseTrie(rocksdb::Options* options, const TrieOptionText& trie);
bool IsTrie(const rocksdb::ColumnFamilyOptions& options, TrieOptionText* trie);

// The fields of TrieOptionText, for RocksDB's option parser.
const OptionTypes& TrieOptionTypes();

}  // namespace cairn
