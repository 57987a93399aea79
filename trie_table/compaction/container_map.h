// How a key maps to a container of a trie in hash order: a container is a prefix of the key's hash. This is all that
// the partitioner and the compaction scheduler know of keys.
//
// A container is named by a number that is unique within its depth; depth 0 has the one container 0, the root.
// Thread-safety: immutable.
// Source: LSM-trie (USENIX ATC 2015; section 4.2.3 and figure 4.2 of Wu's dissertation, UT Arlington 2018).

#pragma once

#include <cstdint>

#include "rocksdb/slice.h"
#include "table/hash_order/hash_order.h"

namespace cairn {

// fan_out is 2^bits_per_depth; the container at depth d is the first d * bits_per_depth bits of the hash.
class HashPrefixMap {
 public:
  // REQUIRES: depths asked for times bits_per_depth stays within 64.
  HashPrefixMap(const KeyHash& hash, int bits_per_depth) : hash_(hash), bits_(bits_per_depth) {}

  // Where a key stands in the order of all keys: the order of positions is the order of keys, but for keys that share
  // one.
  uint64_t Position(const rocksdb::Slice& user_key) const { return hash_(user_key); }
  // The container at `depth` that holds `position`.
  uint64_t ContainerAt(uint64_t position, int depth) const { return depth == 0 ? 0 : position >> (64 - bits_ * depth); }
  // The children of `container` are FirstChild() ... FirstChild() + fan_out() - 1 at the next depth.
  int fan_out() const { return 1 << bits_; }
  uint64_t FirstChild(uint64_t container) const { return container << bits_; }
  uint64_t Parent(uint64_t container) const { return container >> bits_; }

 private:
  const KeyHash hash_;
  const int bits_;
};

}  // namespace cairn
