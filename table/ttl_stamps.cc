#include "table/ttl_stamps.h"

#include <algorithm>
#include <cstring>

#include "util/coding.h"
#include "util/mix64.h"

namespace cairn {

namespace {

constexpr uint32_t kStampsVersion = 1;
constexpr size_t kMostSamples = 1024;
constexpr size_t kStampBytes = 4;

}  // namespace

const int32_t* TtlOfFilters(const rocksdb::CompactionFilterFactory& factory) {
  return strcmp(factory.Name(), "TtlCompactionFilterFactory") == 0 ? factory.GetOptions<int32_t>("TTL") : nullptr;
}

uint64_t ExpiredBefore(const int32_t* ttl, rocksdb::SystemClock* clock) {
  int64_t now = 0;
  if (ttl == nullptr) return 0;
  const int32_t seconds = __atomic_load_n(ttl, __ATOMIC_RELAXED);
  if (seconds <= 0 || !clock->GetCurrentTime(&now).ok()) return 0;
  return now > seconds ? static_cast<uint64_t>(now - seconds) : 0;
}

uint64_t TtlStampOf(const rocksdb::Slice& value) {
  if (value.size() < kStampBytes) return UINT64_MAX;
  // May 2013, when DBWithTTL came: RocksDB takes no earlier time for a stamp. Wide columns have none.
  constexpr uint32_t kFirstStamp = 1368146402;
  const uint32_t stamp = rocksdb::DecodeFixed32(value.data() + value.size() - kStampBytes);
  return stamp < kFirstStamp ? UINT64_MAX : stamp;
}

void TtlStampSample::Add(uint64_t hash, uint64_t stamp) {
  // It may be the order of the table's keys: then those of one part of the order would be sampled.
  hash = Mix64(hash);
  if (hash >= below_ || stamp > UINT32_MAX) return;
  stamps_.emplace_back(hash, static_cast<uint32_t>(stamp));
  if (stamps_.size() < 2 * kMostSamples) return;
  std::nth_element(stamps_.begin(), stamps_.begin() + kMostSamples, stamps_.end());
  below_ = stamps_[kMostSamples].first;
  stamps_.resize(kMostSamples);
}

std::string TtlStampSample::Encode() const {
  constexpr size_t kMostQuantiles = 32;
  std::vector<uint32_t> stamps;
  for (const auto& [hash, stamp] : stamps_) stamps.push_back(stamp);
  std::sort(stamps.begin(), stamps.end());
  const size_t count = std::min(stamps.size(), kMostQuantiles);
  std::string encoded;
  rocksdb::PutVarint32(&encoded, kStampsVersion);
  for (size_t i = 0; i < count; ++i) {
    rocksdb::PutFixed32(&encoded, stamps[(2 * i + 1) * stamps.size() / (2 * count)]);
  }
  return encoded;
}

std::vector<uint32_t> DecodeTtlStamps(rocksdb::Slice encoded) {
  uint32_t version = 0;
  if (!rocksdb::GetVarint32(&encoded, &version) || version != kStampsVersion || encoded.size() % kStampBytes != 0)
    return {};
  std::vector<uint32_t> stamps;
  for (size_t at = 0; at < encoded.size(); at += kStampBytes) {
    stamps.push_back(rocksdb::DecodeFixed32(encoded.data() + at));
  }
  if (!std::is_sorted(stamps.begin(), stamps.end())) return {};
  return stamps;
}

double ExpiredShare(const std::vector<uint32_t>& stamps, uint64_t expired_before) {
  if (stamps.empty()) return 0;
  const auto alive = std::lower_bound(stamps.begin(), stamps.end(), expired_before);
  return static_cast<double>(alive - stamps.begin()) / static_cast<double>(stamps.size());
}

}  // namespace cairn
