// Options of the tries of tests.

#pragma once

#include "cairn/trie.h"

namespace cairn {

template <class Options>
Options ShapedTrie(int fan_out, int slots, int trigger, int depth, int root_trigger) {
  Options trie;
  trie.fan_out = fan_out;
  trie.slots = slots;
  trie.trigger = trigger;
  trie.depth = depth;
  trie.root_trigger = root_trigger;
  return trie;
}

// So small that files move through all depths within seconds.
inline HashTrieOptions SmallTrieOptions() {
  auto trie = ShapedTrie<HashTrieOptions>(/*fan_out=*/4, /*slots=*/4, /*trigger=*/3, /*depth=*/4, /*root_trigger=*/2);
  trie.format = "sst";  // tables of a few KiB; a HTable's buckets would be half empty
  return trie;
}

}  // namespace cairn
