// What commands print of an HTable. Stateless.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/status.h"

namespace cairn {

struct HTableText {
  bool description = true;  // header, fill, properties; reads all buckets
  bool properties = false;  // without the description; reads no entries
  bool entries = false;
  bool silent = false;  // entries are read, and not printed
  uint64_t most_entries = UINT64_MAX;
  bool verify = false;
};

// Prints on standard output. *read, which may be null: how many entries were printed, or read silently. InvalidArgument
// if the file is no HTable.
rocksdb::Status PrintHTable(const std::string& path, const HTableText& what, uint64_t* read = nullptr);

}  // namespace cairn
