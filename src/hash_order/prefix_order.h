// The names of the orders of include/cairn/prefix_order.h.
//
// Thread-safety: safe.

#pragma once

#include <string>

#include "cairn/prefix_order.h"
#include "rocksdb/status.h"

namespace cairn {

constexpr char kPrefixOrderName[] = "cairn.PrefixOrder";

// The comparator of the name cairn.PrefixOrder:fixed:BYTES or cairn.PrefixOrder:until:XX, the byte in hexadecimal digits;
// InvalidArgument for any other.
rocksdb::Status PrefixOrderFromName(const std::string& name, const rocksdb::Comparator** comparator);

}  // namespace cairn
