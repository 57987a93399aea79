// Whether options name a part of Cairn. Objects of a client are asked for their names only: they may not be cast,
// because a client may have been compiled without RTTI.
//
// Thread-safety: none; options are the caller's.

#pragma once

#include <cstring>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace cairn {

// Every part's class name begins so.
inline bool IsCairnName(const char* name) { return name != nullptr && strncmp(name, "cairn.", 6) == 0; }

// Comparator, memtables, tables, partitioner, collectors or listeners.
bool UsesCairn(const rocksdb::ColumnFamilyOptions& options);
bool UsesCairn(const rocksdb::DBOptions& options, const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

}  // namespace cairn
