// The names of the orders of include/cairn/prefix_order.h.
//
// Thread-safety: safe.

#pragma once

#include <string>

#include "cairn/prefix_order.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/status.h"

namespace cairn {

constexpr char kPrefixOrderName[] = "cairn.PrefixOrder";

// The comparator of the name cairn.PrefixOrder:fixed:BYTES or cairn.PrefixOrder:until:XX, the byte in hexadecimal
// digits; InvalidArgument for any other.
rocksdb::Status PrefixOrderFromName(const std::string& name, const rocksdb::Comparator** comparator);

bool IsPrefixOrder(const rocksdb::Comparator* comparator);

// Whether the extractor takes more bytes of a key than the order's prefix has, so that keys of one of its prefixes are
// no neighbours. Known of RocksDB's own extractors and an order by a fixed number of bytes: whether others do depends
// on the keys.
bool SplitsPrefixes(const rocksdb::Comparator* order, const rocksdb::SliceTransform& extractor);

}  // namespace cairn
