// How a key maps to a container of the trie. This is all that the partitioner and the compaction scheduler know of
// keys.
//
// Today a container is a prefix of the key's hash. Another map (guard keys, so that a trie keeps key order) may take
// its place without a change to either.
//
// A container is named by a number that is unique within its depth; depth 0 has the one container 0, the root.
// Thread-safety: immutable.
// Source: LSM-trie (USENIX ATC 2015; section 4.2.3 and figure 4.2 of Wu's dissertation, UT Arlington 2018).

#pragma once

#include <cstdint>

#include "rocksdb/slice.h"
#include "table/hash_order/hash_order.h"

namespace cairn {

class ContainerMap {
 public:
  virtual ~ContainerMap() = default;

  // Where a key stands in the order of all keys: the order of positions is the order of keys, but for keys that share
  // one.
  virtual uint64_t Position(const rocksdb::Slice& user_key) const = 0;

  // The container at `depth` that holds `position`. Positions of one container are contiguous.
  virtual uint64_t ContainerAt(uint64_t position, int depth) const = 0;

  // The children of `container` are FirstChild() ... FirstChild() + fan_out() - 1 at the next depth.
  virtual int fan_out() const = 0;
  virtual uint64_t FirstChild(uint64_t container) const = 0;
  virtual uint64_t Parent(uint64_t container) const = 0;
};

// fan_out is 2^bits_per_depth; the container at depth d is the first d * bits_per_depth bits of the hash.
class HashPrefixMap final : public ContainerMap {
 public:
  // REQUIRES: depths asked for times bits_per_depth stays within 64.
  HashPrefixMap(const KeyHash& hash, int bits_per_depth) : hash_(hash), bits_(bits_per_depth) {}

  uint64_t Position(const rocksdb::Slice& user_key) const override { return hash_(user_key); }
  uint64_t ContainerAt(uint64_t position, int depth) const override {
    return depth == 0 ? 0 : position >> (64 - bits_ * depth);
  }
  int fan_out() const override { return 1 << bits_; }
  uint64_t FirstChild(uint64_t container) const override { return container << bits_; }
  uint64_t Parent(uint64_t container) const override { return container >> bits_; }

 private:
  const KeyHash hash_;
  const int bits_;
};

}  // namespace cairn
