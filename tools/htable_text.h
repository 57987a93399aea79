// What commands print of an HTable. Stateless.

#pragma once

#include <string>

#include "rocksdb/status.h"

namespace cairn {

struct HTableText {
  bool description = true;  // header, fill, properties; reads all buckets
  bool properties = false;  // without the description; reads no entries
  bool entries = false;
  bool verify = false;
};

// Prints on standard output. InvalidArgument if the file is no HTable.
rocksdb::Status PrintHTable(const std::string& path, const HTableText& what);

}  // namespace cairn
