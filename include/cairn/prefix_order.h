// An order of keys by prefix: that of the prefixes' bytes, and within a prefix that of a hash of the rest. All keys of
// a prefix are neighbours, so ranges, DeleteRange, bounds and prefix seeks of whole prefixes are complete; within one,
// keys that are close to each other are spread over all of it.
//
//   options.comparator = cairn::PrefixOrder(8);            // the first 8 bytes; a shorter key is its own prefix
//   options.comparator = cairn::PrefixOrderUntil('/');     // up to the first '/', that included; a key without is its
//   own options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(8));  // as with any order
//   rocksdb::Status s = cairn::UseTrie(&options, cairn::KeyTrieOptions());  // or leveled or universal compaction
//
// In option text and OPTIONS files: comparator=cairn.PrefixOrder:fixed:8, comparator=cairn.PrefixOrder:until:2f. The
// name is in the MANIFEST and in every table: a database is never read in another order than it was written in.
//
// A prefix by itself comes before all keys that it is a prefix of, and a bound that is not longer than a prefix, or
// that has no delimiter, lies between prefixes: the range from "user7/" to "user70" (the next after '/' is '0') is all
// of user7.
//
// docs/design/hash_order.md says when it is worth having: seldom.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>

#include "rocksdb/comparator.h"

namespace cairn {

// One for each prefix; they live until the process ends.
const rocksdb::Comparator* PrefixOrder(size_t bytes);
const rocksdb::Comparator* PrefixOrderUntil(char delimiter);

}  // namespace cairn
