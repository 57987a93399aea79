#include "table/key_sketch.h"

#include <algorithm>

#include "util/coding.h"

namespace cairn {

namespace {
constexpr uint32_t kVersion = 2;
}  // namespace

void KeySketch::Keep(uint64_t sample) {
  samples_.push_back(sample);
  if (samples_.size() > kCapacity) Shrink();
}

// Halves the sample: the new threshold is the median, so that by (1) what stays is exactly what lies below it. Two
// bits of a position are lost to (2), hence thresholds are multiples of four.
void KeySketch::Shrink() {
  auto middle = samples_.begin() + static_cast<ptrdiff_t>(kCapacity / 2);
  std::nth_element(samples_.begin(), middle, samples_.end(),
                   [](uint64_t a, uint64_t b) { return LowBits(a) < LowBits(b); });
  threshold_ = LowBits(*middle);
  samples_.erase(
      std::remove_if(samples_.begin(), samples_.end(), [this](uint64_t s) { return LowBits(s) >= threshold_; }),
      samples_.end());
}

void KeySketch::Sort() {
  std::sort(samples_.begin(), samples_.end(), [](uint64_t a, uint64_t b) { return LowBits(a) < LowBits(b); });
}

// version (varint32) | threshold (varint64) | keys (varint64) | first, last (fixed64) | count (varint64) |
// count samples (fixed64)
void KeySketch::EncodeTo(std::string* output) const {
  rocksdb::PutVarint32(output, kVersion);
  rocksdb::PutVarint64(output, threshold_);
  rocksdb::PutVarint64(output, keys_);
  rocksdb::PutFixed64(output, first_);
  rocksdb::PutFixed64(output, last_);
  rocksdb::PutVarint64(output, samples_.size());
  for (uint64_t sample : samples_) rocksdb::PutFixed64(output, sample);
}

rocksdb::Status KeySketch::Decode(rocksdb::Slice input, KeySketch* sketch) {
  uint32_t version = 0;
  uint64_t count = 0;
  KeySketch result;
  if (!rocksdb::GetVarint32(&input, &version) || version != kVersion ||
      !rocksdb::GetVarint64(&input, &result.threshold_) || !rocksdb::GetVarint64(&input, &result.keys_) ||
      !rocksdb::GetFixed64(&input, &result.first_) || !rocksdb::GetFixed64(&input, &result.last_) ||
      result.first_ > result.last_ || !rocksdb::GetVarint64(&input, &count) || result.threshold_ > kMaxThreshold ||
      count > kCapacity || count > result.keys_ || input.size() != count * sizeof(uint64_t)) {
    return rocksdb::Status::Corruption("key sketch", "malformed; the table's liveness is unknown");
  }
  result.samples_.resize(count);
  uint32_t previous = 0;
  for (uint64_t& sample : result.samples_) {
    rocksdb::GetFixed64(&input, &sample);
    if (LowBits(sample) >= result.threshold_ || LowBits(sample) < previous) {
      return rocksdb::Status::Corruption("key sketch", "a sample lies above the threshold or out of order");
    }
    if ((sample & kEntryBits) > static_cast<uint64_t>(Entry::kOperands)) {
      return rocksdb::Status::Corruption("key sketch", "a sample is neither value nor deletion nor operands");
    }
    previous = LowBits(sample);
  }
  *sketch = std::move(result);
  return rocksdb::Status::OK();
}

}  // namespace cairn
