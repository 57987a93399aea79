// Options of the tries of tests.

#pragma once

#include "cairn/trie.h"

namespace cairn {

// So small that files move through all depths within seconds.
inline HashTrieOptions SmallTrieOptions() {
  HashTrieOptions trie;
  trie.format = "sst";  // tables of a few KiB; a HTable's buckets would be half empty
  trie.fan_out = 4;
  trie.slots = 4;
  trie.trigger = 3;
  trie.depth = 4;
  trie.root_trigger = 2;
  return trie;
}

}  // namespace cairn
