// RocksDB's bytewise order, with a count of the comparisons.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/comparator.h"

namespace cairn::test {

class CountingComparator : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "Counting"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    ++compares;
    return a.compare(b);
  }
  void FindShortestSeparator(std::string* /*start*/, const rocksdb::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
  mutable uint64_t compares = 0;
};

}  // namespace cairn::test
