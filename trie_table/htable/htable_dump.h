// An HTable as text for people: header, fill, spills, extents, and all entries.
//
// Thread-safety: functions without state.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rocksdb/env.h"
#include "table/hash_order/hash_order.h"
#include "trie_table/htable/htable_file.h"

namespace cairn {

// Opens a table on its own, without a database. *hash is that of its comparator. InvalidArgument if it is no HTable.
rocksdb::Status OpenHTable(const std::string& path, std::shared_ptr<HTableFile>* file, KeyHash* hash);

// Whether the file ends as an HTable does.
bool IsHTable(const std::string& path);

// Header, memory, filter, and how full home and spill buckets are. Reads all buckets.
rocksdb::Status DescribeHTable(const HTableFile& file, std::string* text);

// All entries in order, a line each.
rocksdb::Status DumpHTableEntries(const HTableFile& file, const KeyHash& hash,
                                  const std::function<rocksdb::Status(const std::string& line)>& print);

// Reads all of it, the filter included, checks it, and counts its entries.
rocksdb::Status VerifyHTable(const HTableFile& file, const KeyHash& hash);

// Description, properties and entries.
rocksdb::Status DumpHTable(const HTableFile& file, const KeyHash& hash, rocksdb::WritableFile* out);

}  // namespace cairn
