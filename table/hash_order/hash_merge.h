// Merges the inputs of a compaction in hash order. RocksDB's heap compares two keys some seven times for each that it
// gives out of sixteen inputs, and each time the hashes of both are computed. Here a key's hash is computed once, when
// its input comes to it, and a tree of losers compares numbers: keys themselves only where hashes are equal.
//
// Thread-safety: as rocksdb::Iterator.
//
// Source: Knuth, The Art of Computer Programming, volume 3, section 5.4.1.

#pragma once

#include <cstddef>
#include <functional>

#include "db/dbformat.h"
#include "table/hash_order/hash_order.h"
#include "table/internal_iterator.h"

namespace cairn {

// Of at least one iterator over internal keys in the order of `comparator`, whose hash is `hash`; the first of them is
// the newest. They have no range deletions. Owns them, but not the comparator. `at_end`, if there is one, is called
// when it is destroyed.
rocksdb::InternalIterator* NewHashMergingIterator(const rocksdb::InternalKeyComparator* comparator, const KeyHash& hash,
                                                  rocksdb::InternalIterator** inputs, size_t count,
                                                  std::function<void()> at_end);

}  // namespace cairn
