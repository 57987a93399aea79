// The release of RocksDB that this library is compiled with.
//
// One source serves 9.10 to 11.8. What differs between them for Cairn is settled in this folder; no other file asks for
// the release (test/include_test). cmake/RocksDB.cmake says which are tested. Where a release between them brought a
// change, its number stands at the difference; what no release notes name is taken to have come with 11.0.

#pragma once

#include "rocksdb/version.h"

#define CAIRN_ROCKSDB_AT_LEAST(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))
