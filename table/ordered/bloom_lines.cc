#include "table/ordered/bloom_lines.h"

#include <cstring>

#include "rocksdb/filter_policy.h"
#include "rocksdb/port/full_filter.h"
#include "util/hash.h"

namespace cairn {

namespace {

constexpr size_t kTrailerBytes = 5;
// Of the policies that read the filters of all of RocksDB's own.
constexpr char kBuiltinName[] = "rocksdb.BuiltinBloomFilter";

}  // namespace

BloomLines::BloomLines(const rocksdb::BlockBasedTable::Rep& rep) {
  const auto& policy = rep.table_options.filter_policy;
  if (policy == nullptr || !rep.whole_key_filtering || strcmp(policy->CompatibilityName(), kBuiltinName) != 0) {
    return;
  }
  const rocksdb::Slice filter = port::FilterOnHeap(rep);
  if (filter.size() < kLineBytes + kTrailerBytes) return;
  const size_t bytes = filter.size() - kTrailerBytes;
  const auto* const trailer = reinterpret_cast<const uint8_t*>(filter.data()) + bytes;
  const unsigned probes = trailer[2];  // with bits above them that say how large a line is: 0 for 64 bytes
  if (trailer[0] != UINT8_MAX || trailer[1] != 0 || trailer[3] != 0 || trailer[4] != 0) return;
  if (probes < 1 || probes > 30 || bytes % kLineBytes != 0 || bytes / kLineBytes > UINT32_MAX) return;
  data_ = filter.data();
  lines_ = static_cast<uint32_t>(bytes / kLineBytes);
  probes_ = probes;
}

uint64_t BloomLines::HashOf(const rocksdb::Slice& user_key) { return rocksdb::GetSliceHash64(user_key); }

}  // namespace cairn
