#include "table/ordered/order_filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "util/bits.h"
#include "util/prefetch.h"

namespace cairn {

namespace {

constexpr uint32_t kMagic = 0x32464f43;  // COF2: the last is the version
constexpr size_t kHeaderBytes = 24;
constexpr uint8_t kHasFirstKey = 1;

// A segment's keys share a code; a builder holds them.
constexpr size_t kMostSegmentKeys = size_t{1} << 16;
constexpr size_t kMostSegmentBytes = size_t{4} << 20;
constexpr size_t kMostStartBytes = 1024;
constexpr size_t kLeastSegmentBytes = 44;
// No filter is made of keys so long and so uneven that it would take more than this of memory.
constexpr size_t kMostBytesPerKey = 32;
constexpr size_t kMostBytesOfFew = size_t{64} << 10;

}  // namespace

OrderFilterBuilder::OrderFilterBuilder(double bits_per_key)
    : depth_{std::clamp(bits_per_key, 2.5, 20.0) - 2,
             static_cast<unsigned>(std::lround(std::max(0.0, std::clamp(bits_per_key, 2.5, 20.0) - 3)))} {}

size_t OrderFilterBuilder::memory() const {
  return held_.memory() + segment_bytes_ + segments_.capacity() * sizeof(Segment) + before_segment_.capacity();
}

size_t OrderFilterBuilder::EstimatedBytes() const {
  return keys_ == 0 ? 0 : kHeaderBytes + segment_bytes_ + held_.size() * 2;
}

void OrderFilterBuilder::Add(const char* key, size_t size) {
  if (too_large_ || held_.EndsWith(key, size)) return;
  if (held_.size() >= kMostSegmentKeys || held_.all_bytes() + size > kMostSegmentBytes) EndSegment();
  ++keys_;
  least_key_bytes_ = std::min(least_key_bytes_, size);
  if (!too_large_) held_.Add(key, size);
}

void OrderFilterBuilder::EndSegment() {
  if (held_.size() == 0) return;
  Segment segment;
  segment.start = held_.whole(0);
  // Of a long key as much as it takes to be above the key before, and to have what all keys of the segment share.
  if (segments_.empty()) first_is_whole_ = segment.start.size() <= kMostStartBytes;
  size_t differ = 0;
  while (differ < std::min(segment.start.size(), before_segment_.size()) &&
         segment.start[differ] == before_segment_[differ]) {
    ++differ;
  }
  const size_t least = std::max({kMostStartBytes, differ + 1, held_.prefix().size()});
  if (segment.start.size() > least) segment.start.resize(least);
  segment.bytes = EncodeOrderSegment(held_, depth_, segment.start.size(), &code_choice_, &error_sum_);
  segment_bytes_ += segment.start.size() + segment.bytes.size();
  segments_.push_back(std::move(segment));
  before_segment_ = held_.whole(held_.size() - 1);
  held_.Clear();
  if (segment_bytes_ > kMostBytesOfFew + keys_ * kMostBytesPerKey) {
    too_large_ = true;
    segments_ = {};
    segment_bytes_ = 0;
  }
}

std::string OrderFilterBuilder::Finish() {
  EndSegment();
  if (segments_.empty() || segment_bytes_ > UINT32_MAX) return {};
  std::string starts, bytes, ends;
  for (const Segment& segment : segments_) {
    starts += segment.start;
    bytes += segment.bytes;
    PutU32(&ends, static_cast<uint32_t>(starts.size()));
    PutU32(&ends, static_cast<uint32_t>(bytes.size()));
  }
  std::string out;
  out.reserve(kHeaderBytes + ends.size() + starts.size() + bytes.size());
  PutU32(&out, kMagic);
  out.push_back(static_cast<char>(depth_.extra));
  out.push_back(static_cast<char>(first_is_whole_ ? kHasFirstKey : 0));
  PutU16(&out, static_cast<uint16_t>(std::min<size_t>(least_key_bytes_, UINT8_MAX)));
  PutU64(&out, keys_);
  PutU32(&out, static_cast<uint32_t>(segments_.size()));
  PutU32(&out, static_cast<uint32_t>(starts.size()));
  out += ends;
  out += starts;
  out += bytes;
  segments_ = {};
  return out;
}

const char* OrderFilter::Open(const char* data, size_t size) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data);
  size_ = size;
  if (size < kHeaderBytes) return "shorter than its header";
  if (LoadU32(bytes) != kMagic) {
    const bool later = memcmp(bytes, "COF", 3) == 0 && bytes[3] > (kMagic >> 24);
    return later ? "of a later version, which a later Cairn reads" : "of another kind or version";
  }
  const unsigned extra = bytes[4];
  const uint8_t flags = bytes[5];
  least_key_bytes_ = LoadU16(bytes + 6);
  keys_ = LoadU64(bytes + 8);
  const size_t segments = LoadU32(bytes + 16), starts_bytes = LoadU32(bytes + 20);
  if ((flags & ~kHasFirstKey) != 0 || extra > 20 || least_key_bytes_ > UINT8_MAX) return "of another kind or version";
  if (segments == 0 || keys_ == 0) return "without keys";
  if (segments > size / kLeastSegmentBytes || starts_bytes > size ||
      size < kHeaderBytes + segments * 8 + starts_bytes) {
    return "of the wrong size";
  }
  ends_ = bytes + kHeaderBytes;
  const uint8_t* const starts = ends_ + segments * 8;
  const uint8_t* const bodies = starts + starts_bytes;
  const size_t bodies_bytes = size - static_cast<size_t>(bodies - bytes);
  starts_ = reinterpret_cast<const char*>(starts);
  size_t start = 0, body = 0;
  segments_.assign(segments, OrderSegment());
  for (size_t i = 0; i < segments; ++i) {
    const size_t start_end = LoadU32(ends_ + 8 * i), body_end = LoadU32(ends_ + 8 * i + 4);
    if (start_end < start || start_end > starts_bytes || body_end < body || body_end > bodies_bytes) {
      return "of the wrong size";
    }
    if (i > 0 && StartOf(i) <= StartOf(i - 1)) return "out of order";
    const char* const wrong =
        segments_[i].Open(bodies + body, body_end - body, starts + start, start_end - start, extra);
    if (wrong != nullptr) return wrong;
    start = start_end;
    body = body_end;
  }
  return start == starts_bytes && body == bodies_bytes ? nullptr : "of the wrong size";
}

size_t OrderFilter::memory() const {
  size_t sum = 0;
  for (const OrderSegment& segment : segments_) sum += segment.memory();
  return sum;
}

size_t OrderFilter::groups() const {
  size_t sum = 0;
  for (const OrderSegment& segment : segments_) sum += segment.groups();
  return sum;
}

std::string_view OrderFilter::StartOf(size_t segment) const {
  const size_t from = segment == 0 ? 0 : LoadU32(ends_ + 8 * segment - 8);
  return {starts_ + from, LoadU32(ends_ + 8 * segment) - from};
}

// The first segment that starts above the target.
size_t OrderFilter::SegmentAbove(const char* target, size_t size) const {
  size_t next = 0;
  for (size_t high = segments_.size(); next < high;) {
    const size_t middle = (next + high) / 2;
    if (StartOf(middle) > std::string_view(target, size)) {
      high = middle;
    } else {
      next = middle + 1;
    }
  }
  return next;
}

OrderAnswer OrderFilter::Find(const char* target, size_t size, std::string* bound) const {
  OrderSearch search;
  search.Begin(this, target, size);
  OrderSearch::Advance(&search, 1);
  return search.Answer(OrderSide::kBehind, bound);
}

OrderAnswer OrderFilter::FindBefore(const char* target, size_t size, std::string* bound) const {
  OrderSearch search;
  search.Begin(this, target, size);
  OrderSearch::Advance(&search, 1);
  return search.Answer(OrderSide::kBefore, bound);
}

bool OrderFilter::MayContain(const char* key, size_t size) const {
  const size_t next = SegmentAbove(key, size);
  return next > 0 && segments_[next - 1].Find(key, size, 0, nullptr) == OrderAnswer::kHere;
}

void OrderSearch::Begin(const OrderFilter* filter, const char* target, size_t size) {
  filter_ = filter;
  target_ = target;
  size_ = size;
  next_ = 0;
  Prefetch(filter, sizeof(*filter));
}

void OrderSearch::Advance(OrderSearch* searches, size_t count) {
  OrderSearch* const end = searches + count;
  for (OrderSearch* one = searches; one < end; ++one) {
    if (one->filter_ != nullptr) __builtin_prefetch(one->filter_->ends_);
  }
  for (OrderSearch* one = searches; one < end; ++one) {
    if (one->filter_ == nullptr) continue;
    one->next_ = one->filter_->SegmentAbove(one->target_, one->size_);
    if (one->next_ == 0) continue;
    Prefetch(&one->filter_->segments_[one->next_ - 1], sizeof(OrderSegment));
  }
  for (OrderSearch* one = searches; one < end; ++one) {
    if (one->next_ > 0) one->filter_->segments_[one->next_ - 1].PrefetchGroups();
  }
  for (OrderSearch* one = searches; one < end; ++one) {
    if (one->next_ > 0) one->filter_->segments_[one->next_ - 1].Locate(one->target_, one->size_, &one->place_);
  }
}

OrderAnswer OrderSearch::Answer(OrderSide side, std::string* bound) const {
  if (filter_ == nullptr) return OrderAnswer::kHere;
  if (next_ > 0) {
    const OrderAnswer answer =
        filter_->segments_[next_ - 1].AnswerAt(place_, target_, size_, filter_->least_key_bytes_, side, bound);
    if (answer != OrderAnswer::kNone) return answer;
  }
  if (side == OrderSide::kBefore) {
    if (next_ <= 1) return OrderAnswer::kNone;
    // All of its keys are above the target, and those of the segments before are below its start.
    *bound = filter_->StartOf(next_ - 1);
    return OrderAnswer::kBound;
  }
  if (next_ == filter_->segments_.size()) return OrderAnswer::kNone;
  *bound = filter_->StartOf(next_);
  return OrderAnswer::kBound;
}

}  // namespace cairn
