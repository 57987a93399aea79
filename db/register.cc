// RocksDB calls this once, from its plugin list, when the object registry is first used.

#include <string>

#include "rocksdb/utilities/object_registry.h"

extern "C" int cairn_Register(ROCKSDB_NAMESPACE::ObjectLibrary& library, const std::string& /*arg*/) {
  (void)library;
  return 0;
}
