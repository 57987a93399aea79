// What rocksdb::DBWithTTL does to a column family, as far as engines have to know it: it appends to every value the
// second at which it was put, in four bytes, and sets a compaction filter that drops values older than the TTL.
//
// Bytes of the property "cairn.ttl_stamps": varint32 version = 1, fixed32 [count], ascending; quantiles of a sample of
// the table's stamps. A hint: another version is passed over.
//
// Thread-safety: functions of their arguments; a TtlStampSample serves one table builder.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/compaction_filter.h"
#include "rocksdb/slice.h"
#include "rocksdb/system_clock.h"

namespace cairn {

constexpr char kTtlStampsProperty[] = "cairn.ttl_stamps";

// The TTL of a DBWithTTL, in seconds, 0 or less: for ever; null: this is not its factory. SetTtl changes it.
const int32_t* TtlOfFilters(const rocksdb::CompactionFilterFactory& factory);

// `options` are any of RocksDB's that have one. A filter that is not made by a factory, as DBWithTTL has it where the
// user gave such a one, is not asked: DBWithTTL may delete it before the database is closed.
template <class Options>
const int32_t* TtlOf(const Options& options) {
  return options.compaction_filter_factory == nullptr ? nullptr : TtlOfFilters(*options.compaction_filter_factory);
}

// Values with a stamp below it have expired. 0: none has, or the clock fails. `ttl` may be null.
uint64_t ExpiredBefore(const int32_t* ttl, rocksdb::SystemClock* clock);

// The stamp of a value; UINT64_MAX if it has none.
uint64_t TtlStampOf(const rocksdb::Slice& value);

// Stamps of a table's values, sampled by the hashes of their keys.
class TtlStampSample {
 public:
  void Add(uint64_t hash, uint64_t stamp);
  std::string Encode() const;

 private:
  uint64_t below_ = UINT64_MAX;  // hashes that are sampled
  std::vector<std::pair<uint64_t, uint32_t>> stamps_;
};

// Empty for malformed bytes and other versions.
std::vector<uint32_t> DecodeTtlStamps(rocksdb::Slice encoded);

// The part of the values that have expired; 0 without stamps.
double ExpiredShare(const std::vector<uint32_t>& stamps, uint64_t expired_before);

}  // namespace cairn
