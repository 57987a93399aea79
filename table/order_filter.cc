#include "table/order_filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "table/bits.h"

namespace cairn {

namespace {

constexpr uint32_t kMagic = 0x31464f43;  // COF1
constexpr size_t kHeaderBytes = 32;
constexpr uint8_t kHasFirstKey = 1;
constexpr uint8_t kHasByteCode = 2;

constexpr uint8_t kNumbersBody = 1;
constexpr uint8_t kBranchesBody = 2;
constexpr unsigned kBranches = UINT32_MAX;

// Keys that are encoded and planned together, and the largest group of numbers.
constexpr size_t kBatch = 1024;
constexpr size_t kBatchBytes = size_t{1} << 20;
// A lookup walks over half of a group's branches.
constexpr size_t kMostBranches = 128;
constexpr size_t kLeastNumbers = 16;
// An anchor is kept as what it does not share with every 16th.
constexpr size_t kRestart = 16;
// Of a branch no more bits are kept than this and the extra ones; what the keys behind share beyond them is one entry.
constexpr unsigned kMostBranchBits = 96;
constexpr size_t kMostFirstKeyBytes = 1024;
// No filter is made of keys so long and so uneven that it would take more than this of memory.
constexpr size_t kMostBytesPerKey = 32;
constexpr size_t kMostBytesOfFew = size_t{64} << 10;

// Bits of a group beside its entries: window, offset, anchor, header.
constexpr double kNumbersOverhead = 300;
constexpr double kBranchesOverhead = 260;

void PutVarint(std::string* out, uint64_t v) {
  for (; v >= 128; v >>= 7) out->push_back(static_cast<char>(v | 128));
  out->push_back(static_cast<char>(v));
}

// Reads forward within bounds; a read beyond them fails for good.
class Cursor {
 public:
  Cursor(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}
  uint64_t Varint() {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && at_ < end_; shift += 7) {
      const uint8_t byte = *at_++;
      v |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return v;
    }
    failed_ = true;
    return 0;
  }
  const uint8_t* Take(uint64_t size) {
    if (failed_ || size > static_cast<uint64_t>(end_ - at_)) {
      failed_ = true;
      return nullptr;
    }
    const uint8_t* const taken = at_;
    at_ += size;
    return taken;
  }
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }
  bool failed() const { return failed_; }

 private:
  const uint8_t* at_;
  const uint8_t* const end_;
  bool failed_ = false;
};

// Elias's gamma code of v > 0.
unsigned GammaBits(uint64_t v) { return 2 * BitWidth(v) - 1; }
void PutGamma(BitWriter* out, uint64_t v) {
  const unsigned width = BitWidth(v);
  out->Put(0, width - 1);
  out->Put(1, 1);
  out->Put(v & LowMask(width - 1), width - 1);
}
// 0 if it is longer than any that is written.
uint64_t ReadGamma(const uint8_t* base, uint64_t* at) {
  const uint64_t bits = LoadBits(base, *at);
  const unsigned zeros = (bits & LowMask(28)) == 0 ? 28 : static_cast<unsigned>(__builtin_ctzll(bits));
  if (zeros == 28) return 0;
  *at += 2 * zeros + 1;
  return uint64_t{1} << zeros | (bits >> zeros >> 1 & LowMask(zeros));
}

void PutLabel(BitWriter* out, const KeyBits& key, uint64_t from, uint64_t bits) {
  while (bits > 0) {
    const unsigned take = bits < 32 ? static_cast<unsigned>(bits) : 32;
    out->Put(key.Window(from) >> (64 - take), take);
    from += take;
    bits -= take;
  }
}

// A few bits that are put together: those of a bound that are not in its target's whole bytes.
class ShortBits {
 public:
  // The `bits` (at most 64) high bits of v.
  void Append(uint64_t v, unsigned bits) {
    if (bits == 0) return;
    if (bits < 64) v &= ~(~uint64_t{0} >> bits);
    uint8_t* const at = bytes_ + size_ / 8;
    const unsigned used = size_ % 8;
    const uint64_t high = __builtin_bswap64(v >> used | uint64_t{at[0]} << 56);
    memcpy(at, &high, sizeof(high));
    at[8] = static_cast<uint8_t>(used == 0 ? 0 : v << (8 - used));
    size_ += bits;
  }
  unsigned size() const { return size_; }
  KeyBits bits() const { return {bytes_, size_ / 8 + 1}; }

 private:
  // A code's bits that are not in a whole byte, a branch's 1, cap and extra bits, and what is read beyond them.
  static constexpr size_t kBytes = (16 + 1 + kMostBranchBits + 24) / 8 + 10 + kKeyBitsGuard;
  uint8_t bytes_[kBytes] = {};
  unsigned size_ = 0;
};

// A target's bits, on the stack if it is short.
class EncodedKey {
 public:
  EncodedKey(const ByteCode& code, const char* key, size_t size) {
    char* buffer = local_;
    if (ByteCode::EncodedBytes(size) > sizeof(local_)) {
      heap_.resize(ByteCode::EncodedBytes(size));
      buffer = heap_.data();
    }
    bits_ = code.Encode(key, size, buffer);
  }
  const KeyBits& bits() const { return bits_; }

 private:
  char local_[280];
  std::string heap_;
  KeyBits bits_;
};

// The common prefix, in bits, of a key and bytes behind which there is no guard; size * 8 if the key has them all.
uint64_t CommonWith(const KeyBits& key, size_t from, const uint8_t* bytes, size_t size) {
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t x = key.Window((from + at) * 8);
    uint64_t y = __builtin_bswap64(LoadU64(bytes + at));
    if (size - at < 8) {
      const uint64_t kept = ~(~uint64_t{0} >> (size - at) * 8);
      y &= kept;
      if (((x ^ y) & kept) == 0) break;
    }
    if (x != y) return std::min<uint64_t>(size * 8, at * 8 + static_cast<unsigned>(__builtin_clzll(x ^ y)));
  }
  return size * 8;
}

size_t CommonBytes(const char* a, size_t a_size, const char* b, size_t b_size) {
  const size_t least = std::min(a_size, b_size);
  size_t at = 0;
  while (at < least && a[at] == b[at]) ++at;
  return at;
}

}  // namespace

OrderFilterBuilder::OrderFilterBuilder(double bits_per_key)
    : precision_(std::clamp(bits_per_key, 2.5, 20.0) - 2),
      extra_(static_cast<unsigned>(std::lround(std::max(0.0, precision_ - 1)))) {
  starts_.push_back(0);
}

size_t OrderFilterBuilder::memory() const {
  return raw_.capacity() + encoded_.capacity() + group_bytes_ +
         (raw_ends_.capacity() + starts_.capacity() + common_.capacity()) * sizeof(size_t) +
         groups_.capacity() * sizeof(Group);
}

size_t OrderFilterBuilder::EstimatedBytes() const {
  return keys_ == 0 ? 0 : kHeaderBytes + group_bytes_ + groups_.size() * 12 + raw_ends_.size();
}

void OrderFilterBuilder::Add(const char* key, size_t size) {
  if (keys_ == 0) {
    first_key_.assign(key, size);
  } else if (size == last_key_.size() && memcmp(key, last_key_.data(), size) == 0) {
    return;
  }
  last_key_.assign(key, size);
  ++keys_;
  least_key_bytes_ = std::min(least_key_bytes_, size);
  if (too_large_) return;
  raw_.append(key, size);
  raw_ends_.push_back(raw_.size());
  if (raw_ends_.size() >= kBatch || raw_.size() >= kBatchBytes) FlushBatch();
}

// Learns from the bytes in which a key begins to differ from the one before: the others are in the groups' prefixes.
void OrderFilterBuilder::ChooseByteCode() {
  has_code_ = true;
  constexpr size_t kLearnt = 2;
  uint64_t weights[256] = {};
  uint64_t sum = 0;
  size_t begin = 0, end = raw_ends_[0];
  for (size_t i = 1; i < raw_ends_.size(); ++i) {
    const size_t next_end = raw_ends_[i];
    const char* const key = raw_.data() + end;
    const size_t size = next_end - end;
    const size_t common = CommonBytes(raw_.data() + begin, end - begin, key, size);
    for (size_t at = common; at < std::min(size, common + kLearnt); ++at) {
      weights[static_cast<uint8_t>(key[at])] += 16;
      sum += 16;
    }
    begin = end;
    end = next_end;
  }
  if (raw_ends_.size() < 64) return;
  const ByteCode learnt = ByteCode::ForWeights(weights);
  uint64_t bits = 0;
  for (unsigned i = 0; i < 256; ++i) bits += weights[i] * learnt.length(static_cast<uint8_t>(i));
  if (bits < sum * 7) code_ = learnt;
}

// Makes the batch's keys the bits that a plan is made of, without those that have the bits of the key before.
void OrderFilterBuilder::EncodeBatch() {
  if (!has_code_) ChooseByteCode();
  encoded_.resize(2 * raw_.size() + raw_ends_.size() * (8 + kKeyBitsGuard));
  starts_.assign(1, 0);
  common_.clear();
  size_t begin = 0, at = 0;
  KeyBits before;
  if (!previous_.empty()) {
    before = {reinterpret_cast<const uint8_t*>(previous_.data()), previous_.size() - kKeyBitsGuard};
  }
  bool has_before = !previous_.empty();
  for (const size_t end : raw_ends_) {
    const KeyBits key = code_.Encode(raw_.data() + begin, end - begin, encoded_.data() + at);
    begin = end;
    const uint64_t common = has_before ? CommonBits(before, key) : 0;
    if (common == UINT64_MAX) continue;
    at += key.bytes + kKeyBitsGuard;
    starts_.push_back(at);
    common_.push_back(common);
    before = key;
    has_before = true;
  }
  raw_.clear();
  raw_ends_.clear();
}

uint64_t OrderFilterBuilder::FirstDifference(size_t begin, size_t end, size_t* at) const {
  const auto least = std::min_element(common_.begin() + static_cast<ptrdiff_t>(begin) + 1,
                                      common_.begin() + static_cast<ptrdiff_t>(end));
  *at = static_cast<size_t>(least - common_.begin());
  return *least;
}

// Cuts off as many bits as leaves the error within what evenly spread keys have.
bool OrderFilterBuilder::PlanNumbers(size_t begin, size_t end, Plan* plan) const {
  const size_t n = end - begin;
  if (n < kLeastNumbers) return false;
  size_t split;
  const uint64_t prefix = FirstDifference(begin, end, &split);
  std::vector<uint64_t> windows(n);
  for (size_t i = 0; i < n; ++i) windows[i] = BitsOf(begin + i).Window(prefix);
  const uint64_t range = windows.back() - windows.front();
  // How many entries have a mean distance to their neighbours of about 2^i. Of evenly spread keys the mean of its
  // inverse is 2 / distance, and a shift is right within a factor of sqrt(2).
  uint32_t distances[65] = {};
  for (size_t i = 0; i < n; ++i) {
    const size_t low = i == 0 ? 0 : i - 1, high = std::min(n - 1, i + 1);
    ++distances[BitWidth((windows[high] - windows[low]) / (high - low))];
  }
  const double count = static_cast<double>(n);
  const double allowed = 2 * 1.7 * std::exp2(-precision_) * count;
  const double least_range = count * std::exp2(precision_ - 0.5);
  int shift = 0;
  while (shift < 63 && static_cast<double>(range >> (shift + 1)) >= least_range) ++shift;
  for (; shift >= 0; --shift) {
    double error = 0;
    for (int width = 0; width <= 64; ++width) {
      if (distances[width] == 0) continue;
      error += distances[width] * std::min(1.0, std::exp2(shift - width + 0.5));
    }
    if (error > allowed && shift != 0) continue;
    const double numbers = static_cast<double>(range >> shift);
    const double low_bits = std::max(0.0, std::floor(std::log2(numbers / count)));
    plan->bits = count * (low_bits + 1) + numbers / std::exp2(low_bits) + kNumbersOverhead;
    plan->error = error / 2;
    plan->segments.assign(1, {begin, end, static_cast<unsigned>(shift)});
    return error <= allowed;
  }
  return false;
}

void OrderFilterBuilder::PlanBranches(size_t begin, size_t end, Plan* plan) const {
  double bits = kBranchesOverhead * (1 + std::floor(static_cast<double>(end - begin) / kMostBranches));
  size_t lost = 0;
  uint64_t kept = UINT64_MAX;  // bits of the last entry
  for (size_t i = begin; i < end; ++i) {
    if (i > begin && common_[i] >= kept) {
      ++lost;
      continue;
    }
    const uint64_t next = i + 1 < common_.size() ? common_[i + 1] : 0;
    const uint64_t rise = next > common_[i] ? std::min<uint64_t>(next - common_[i], kMostBranchBits) : 0;
    kept = common_[i] + 1 + rise + extra_;
    bits += static_cast<double>(rise + extra_ + GammaBits(rise + 1));
    if (rise == 0) bits += GammaBits(common_[i] - std::min(common_[i], next) + 1);
  }
  plan->bits = bits;
  plan->error = static_cast<double>(end - begin - lost) * std::exp2(-static_cast<double>(extra_) - 1) + 2.0 * lost;
  plan->segments.assign(1, {begin, end, kBranches});
}

OrderFilterBuilder::Plan OrderFilterBuilder::MakePlan(size_t begin, size_t end, int splits) const {
  const size_t n = end - begin;
  Plan numbers;
  const bool even = PlanNumbers(begin, end, &numbers);
  if (even && numbers.bits <= kNumbersOverhead + static_cast<double>(n) * (precision_ + 2.6)) return numbers;
  Plan best;
  PlanBranches(begin, end, &best);
  if (even && numbers.bits < best.bits) best = numbers;
  if (splits == 0 || n < 2 * kLeastNumbers) return best;
  // Where the keys of two prefixes meet, say.
  size_t middle;
  FirstDifference(begin, end, &middle);
  Plan both = MakePlan(begin, middle, splits - 1);
  const Plan right = MakePlan(middle, end, splits - 1);
  both.bits += right.bits;
  both.error += right.error;
  both.segments.insert(both.segments.end(), right.segments.begin(), right.segments.end());
  return both.bits < best.bits ? both : best;
}

void OrderFilterBuilder::FlushBatch() {
  EncodeBatch();
  const size_t n = common_.size();
  if (n == 0) return;
  constexpr int kMostSplits = 12;
  const Plan plan = MakePlan(0, n, kMostSplits);
  entries_ += n;
  error_sum_ += plan.error;
  for (size_t i = 0; i < plan.segments.size();) {
    Segment segment = plan.segments[i++];
    if (segment.shift != kBranches) {
      EmitNumbers(segment);
      continue;
    }
    while (i < plan.segments.size() && plan.segments[i].shift == kBranches) segment.end = plan.segments[i++].end;
    const size_t pieces = (segment.end - segment.begin + kMostBranches - 1) / kMostBranches;
    const size_t each = (segment.end - segment.begin + pieces - 1) / pieces;
    for (size_t begin = segment.begin; begin < segment.end; begin += each) {
      EmitBranches(begin, std::min(segment.end, begin + each));
    }
  }
  previous_.assign(encoded_, starts_[n - 1], starts_[n] - starts_[n - 1]);
  if (group_bytes_ > kMostBytesOfFew + keys_ * kMostBytesPerKey) {
    too_large_ = true;
    groups_ = {};
    group_bytes_ = 0;
    entries_ = 0;
  }
}

void OrderFilterBuilder::EmitGroup(size_t begin, uint64_t anchor_bits, std::string body) {
  const KeyBits key = BitsOf(begin);
  const size_t size = (anchor_bits + 7) / 8;
  std::string anchor(size, '\0');
  memcpy(anchor.data(), key.data, std::min(size, key.bytes));
  if (size * 8 > anchor_bits) {
    anchor.back() = static_cast<char>(static_cast<uint8_t>(anchor.back()) & 0xff << (size * 8 - anchor_bits));
  }
  group_bytes_ += anchor.size() + body.size();
  groups_.push_back({std::move(anchor), anchor_bits, std::move(body)});
}

void OrderFilterBuilder::EmitNumbers(const Segment& segment) {
  const size_t n = segment.end - segment.begin;
  const unsigned shift = segment.shift;
  size_t split;
  const uint64_t prefix = FirstDifference(segment.begin, segment.end, &split);
  const auto number = [&](size_t i) { return BitsOf(segment.begin + i).Window(prefix) >> shift; };
  const uint64_t first = number(0);
  const uint64_t universe = number(n - 1) - first;
  const unsigned low_bits = universe / n == 0 ? 0 : Log2Floor(universe / n);
  BitWriter low, high;
  uint64_t zeros = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t value = number(i) - first;
    low.Put(value & LowMask(low_bits), low_bits);
    for (; zeros < value >> low_bits; ++zeros) high.Put(0, 1);
    high.Put(1, 1);
  }
  std::string body(1, static_cast<char>(kNumbersBody));
  PutVarint(&body, n);
  PutVarint(&body, prefix);
  PutVarint(&body, high.size());
  body.push_back(static_cast<char>(shift));
  body.push_back(static_cast<char>(low_bits));
  PutU64(&body, first);
  low.AppendBytes(&body);
  high.AppendBytes(&body);
  EmitGroup(segment.begin, std::max(prefix + 64 - shift, common_[segment.begin] + 1), std::move(body));
}

void OrderFilterBuilder::EmitBranches(size_t begin, size_t end) {
  const bool first_of_all = groups_.empty() && begin == 0;
  const auto after = [this](size_t i) { return i + 1 < common_.size() ? common_[i + 1] : 0; };
  // What leaves nothing before it leaves what comes behind.
  uint64_t common = first_of_all ? after(begin) : common_[begin];
  const uint64_t first_common = common;
  uint64_t rise = after(begin) > common ? after(begin) - common : 0;
  const uint64_t anchor_bits = common + 1 + rise + extra_;
  uint64_t kept = anchor_bits;
  bool cut = false;
  BitWriter bits;
  size_t entries = 1;
  for (size_t i = begin + 1; i < end; ++i) {
    if (common_[i] >= kept) continue;
    if (cut) {
      PutGamma(&bits, kept - common_[i]);
    } else if (rise == 0) {
      PutGamma(&bits, common - common_[i] + 1);
    }
    common = common_[i];
    rise = after(i) > common ? std::min<uint64_t>(after(i) - common, kMostBranchBits) : 0;
    cut = rise == kMostBranchBits;
    kept = common + 1 + rise + extra_;
    PutGamma(&bits, rise + 1);
    PutLabel(&bits, BitsOf(i), common + 1, rise + extra_);
    ++entries;
  }
  std::string body(1, static_cast<char>(kBranchesBody));
  PutVarint(&body, entries);
  PutVarint(&body, first_common);
  bits.AppendBytes(&body);
  EmitGroup(begin, anchor_bits, std::move(body));
}

std::string OrderFilterBuilder::Finish() {
  if (keys_ == 0) return {};
  if (!raw_ends_.empty()) FlushBatch();
  if (too_large_) return {};
  std::string first(ByteCode::EncodedBytes(first_key_.size()), '\0');
  std::string last(ByteCode::EncodedBytes(last_key_.size()), '\0');
  const uint64_t common = CommonBits(code_.Encode(first_key_.data(), first_key_.size(), first.data()),
                                     code_.Encode(last_key_.data(), last_key_.size(), last.data()));
  size_t prefix = common == UINT64_MAX ? 0 : common / 8;
  for (const Group& group : groups_) prefix = std::min<size_t>(prefix, group.anchor_bits / 8);
  std::string records, windows, offsets;
  const std::string* restart = nullptr;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (i % kRestart == 0) restart = &group.anchor;
    size_t shared = 0;
    if (i % kRestart != 0) {
      shared = CommonBytes(restart->data() + prefix, restart->size() - prefix, group.anchor.data() + prefix,
                           group.anchor.size() - prefix);
    }
    std::string window(group.anchor, prefix, 8);
    window.resize(8);
    PutU64(&windows, __builtin_bswap64(LoadU64(window.data())));
    PutU32(&offsets, static_cast<uint32_t>(records.size()));
    PutVarint(&records, shared);
    PutVarint(&records, group.anchor_bits - prefix * 8);
    records.append(group.anchor, prefix + shared, std::string::npos);
    records += group.body;
  }
  const bool keep_first = first_key_.size() <= kMostFirstKeyBytes;
  std::string out;
  out.reserve(kHeaderBytes + ByteCode::kEncodedBytes + first_key_.size() + prefix + windows.size() + offsets.size() +
              records.size() + kKeyBitsGuard);
  PutU32(&out, kMagic);
  out.push_back(static_cast<char>(extra_));
  out.push_back(static_cast<char>((keep_first ? kHasFirstKey : 0) | (code_.plain() ? 0 : kHasByteCode)));
  PutU16(&out, static_cast<uint16_t>(std::min<size_t>(least_key_bytes_, UINT8_MAX)));
  PutU64(&out, keys_);
  PutU32(&out, static_cast<uint32_t>(groups_.size()));
  PutU32(&out, static_cast<uint32_t>(prefix));
  PutU32(&out, keep_first ? static_cast<uint32_t>(first_key_.size()) : 0);
  PutU32(&out, static_cast<uint32_t>(records.size()));
  if (!code_.plain()) code_.EncodeTo(&out);
  if (keep_first) out += first_key_;
  out.append(groups_[0].anchor, 0, prefix);
  out += windows;
  out += offsets;
  out += records;
  out.append(kKeyBitsGuard, '\0');
  return out;
}

// A group as it lies in the file. Positions are those of bits behind the filter's prefix.
struct OrderFilter::Record {
  const uint8_t* shared = nullptr;  // the first bytes of the anchor
  size_t shared_bytes = 0;
  const uint8_t* suffix = nullptr;  // and the others
  size_t suffix_bytes = 0;
  uint64_t anchor_bits = 0;
  const uint8_t* body = nullptr;
  const uint8_t* end = nullptr;
};

struct OrderFilter::Target {
  const OrderFilter& filter;
  const char* key;
  size_t size;
  KeyBits rest;  // behind the filter's prefix
  std::string* bound;

  // Begins the bound with the target's whole bytes within the first `bits` bits of rest, and *more with those of these
  // bits that are left. False for what no builder makes.
  bool BeginBound(uint64_t bits, ShortBits* more) const {
    const uint64_t prefix_bits = filter.prefix_.size() * 8;
    uint64_t used;
    const size_t whole = filter.code_.BytesWithin(key, size, prefix_bits + bits, &used);
    const uint64_t left = prefix_bits + bits - used;
    // The target may end before its bits do, which go on with 0; so do bytes of 0, which are the shortest that can.
    bound->assign(key, whole);
    if (whole == size) {
      const unsigned zero = filter.code_.length(0);
      const uint64_t zeros = left / zero;
      if (zeros > (uint64_t{1} << 20)) return false;
      bound->append(zeros, '\0');
      more->Append(0, static_cast<unsigned>(left % zero));
      return true;
    }
    if (left > 16) return false;
    uint64_t window = 0;
    if (used >= prefix_bits) {
      window = rest.Window(used - prefix_bits);
    } else {
      // Some bits of the prefix are left, since a byte's code may cross its end.
      const unsigned crossing = static_cast<unsigned>(prefix_bits - used);
      const KeyBits prefix{filter.windows_ - filter.prefix_.size(), filter.prefix_.size()};
      window = prefix.Window(used) & ~(~uint64_t{0} >> crossing);
      window |= rest.Window(0) >> crossing;
    }
    more->Append(window, static_cast<unsigned>(left));
    return true;
  }
  OrderAnswer EndBound(const ShortBits& more) const {
    filter.code_.Decode(more.bits(), more.size(), bound);
    filter.Finish(bound);
    return OrderAnswer::kBound;
  }
};

const char* OrderFilter::Open(const char* data, size_t size) {
  data_ = reinterpret_cast<const uint8_t*>(data);
  size_ = size;
  if (size < kHeaderBytes + kKeyBitsGuard) return "shorter than its header";
  if (LoadU32(data_) != kMagic) return "of another kind or version";
  extra_ = data_[4];
  const uint8_t flags = data_[5];
  least_key_bytes_ = LoadU16(data_ + 6);
  keys_ = LoadU64(data_ + 8);
  groups_ = LoadU32(data_ + 16);
  const size_t prefix = LoadU32(data_ + 20), first_key = LoadU32(data_ + 24);
  records_bytes_ = LoadU32(data_ + 28);
  if ((flags & ~(kHasFirstKey | kHasByteCode)) != 0 || extra_ > 20 || least_key_bytes_ > UINT8_MAX) {
    return "of another kind or version";
  }
  if (groups_ == 0 || keys_ == 0) return "without keys";
  const size_t code = (flags & kHasByteCode) != 0 ? ByteCode::kEncodedBytes : 0;
  if (size != kHeaderBytes + code + first_key + prefix + groups_ * 12 + records_bytes_ + kKeyBitsGuard) {
    return "of the wrong size";
  }
  const uint8_t* at = data_ + kHeaderBytes;
  code_ = ByteCode();
  if (code != 0 && !code_.DecodeFrom(at)) return "of an impossible byte code";
  at += code;
  has_first_key_ = (flags & kHasFirstKey) != 0;
  first_key_.assign(reinterpret_cast<const char*>(at), first_key);
  at += first_key;
  prefix_.assign(reinterpret_cast<const char*>(at), prefix);
  at += prefix;
  windows_ = at;
  offsets_ = windows_ + groups_ * 8;
  records_ = offsets_ + groups_ * 4;
  for (size_t i = 0; i < groups_; ++i) {
    if (i > 0 && LoadU64(windows_ + 8 * i) < LoadU64(windows_ + 8 * i - 8)) return "out of order";
    Record record;
    if (!ReadRecord(i, &record)) return "of impossible groups";
  }
  return nullptr;
}

bool OrderFilter::ReadRecord(size_t group, Record* record) const {
  const size_t from = LoadU32(offsets_ + 4 * group);
  const size_t to = group + 1 == groups_ ? records_bytes_ : LoadU32(offsets_ + 4 * group + 4);
  if (from > to || to > records_bytes_) return false;
  Cursor cursor(records_ + from, records_ + to);
  record->shared_bytes = cursor.Varint();
  record->anchor_bits = cursor.Varint();
  const uint64_t anchor_bytes = record->anchor_bits / 8 + (record->anchor_bits % 8 != 0 ? 1 : 0);
  if (cursor.failed() || record->shared_bytes > anchor_bytes) return false;
  record->suffix_bytes = anchor_bytes - record->shared_bytes;
  record->suffix = cursor.Take(record->suffix_bytes);
  if (cursor.failed()) return false;
  record->body = record->suffix + record->suffix_bytes;
  record->end = records_ + to;
  record->shared = records_;
  if (record->shared_bytes == 0) return true;
  if (group % kRestart == 0) return false;
  Record restart;
  if (!ReadRecord(group - group % kRestart, &restart)) return false;
  record->shared = restart.suffix;
  return record->shared_bytes <= restart.suffix_bytes;
}

// How many of the anchor's bits, in whole bytes, the target has.
uint64_t OrderFilter::CommonWithAnchor(const KeyBits& target, const Record& record) const {
  const uint64_t common = CommonWith(target, 0, record.shared, record.shared_bytes);
  if (common != record.shared_bytes * 8) return common;
  return common + CommonWith(target, record.shared_bytes, record.suffix, record.suffix_bytes);
}

bool OrderFilter::AnchorIsAbove(const KeyBits& target, size_t group) const {
  Record record;
  if (!ReadRecord(group, &record)) return false;
  const uint64_t common = CommonWithAnchor(target, record);
  return common < (record.shared_bytes + record.suffix_bytes) * 8 && target.Window(common) >> 63 == 0;
}

// The last group whose anchor is at or below the target; groups_ if there is none.
size_t OrderFilter::GroupOf(const KeyBits& target) const {
  const uint64_t window = target.Window(0);
  // The first group whose window is above the target's.
  size_t low = 0, high = groups_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (LoadU64(windows_ + 8 * middle) > window) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (high == 0) return groups_;
  if (LoadU64(windows_ + 8 * (high - 1)) < window) return high - 1;
  // Groups of the same window.
  const size_t end = high;
  low = 0;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (LoadU64(windows_ + 8 * middle) < window) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  high = end;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (AnchorIsAbove(target, middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high == 0 ? groups_ : high - 1;
}

// A key that ends before its trailing bytes of 0 has the same bits and is smaller. But no key is shorter than the
// shortest, so none lies between; and RocksDB may look at a prefix of the bound.
void OrderFilter::Finish(std::string* bound) const {
  while (!bound->empty() && bound->back() == '\0') bound->pop_back();
  if (bound->size() < least_key_bytes_) bound->resize(least_key_bytes_);
}

OrderAnswer OrderFilter::BoundAt(size_t group, std::string* bound) const {
  if (group >= groups_) return OrderAnswer::kNone;
  Record record;
  if (!ReadRecord(group, &record)) return OrderAnswer::kHere;
  std::string bits = prefix_;
  bits.append(reinterpret_cast<const char*>(record.shared), record.shared_bytes);
  bits.append(reinterpret_cast<const char*>(record.suffix), record.suffix_bytes);
  const size_t size = bits.size();
  bits.append(kKeyBitsGuard, '\0');
  bound->clear();
  code_.Decode({reinterpret_cast<const uint8_t*>(bits.data()), size}, prefix_.size() * 8 + record.anchor_bits, bound);
  Finish(bound);
  return OrderAnswer::kBound;
}

OrderAnswer OrderFilter::Find(const char* target, size_t size, std::string* bound) const {
  if (has_first_key_) {
    const int order = memcmp(target, first_key_.data(), std::min(size, first_key_.size()));
    if (order < 0 || (order == 0 && size < first_key_.size())) {
      *bound = first_key_;
      return OrderAnswer::kBound;
    }
  }
  const EncodedKey encoded(code_, target, size);
  const KeyBits& whole = encoded.bits();
  const uint64_t in_prefix = CommonWith(whole, 0, windows_ - prefix_.size(), prefix_.size());
  if (in_prefix < prefix_.size() * 8) {
    return (whole.Window(in_prefix) >> 63) != 0 ? OrderAnswer::kNone : BoundAt(0, bound);
  }
  static const uint8_t kNothing[kKeyBitsGuard] = {};
  KeyBits rest{kNothing, 0};
  if (whole.bytes > prefix_.size()) rest = {whole.data + prefix_.size(), whole.bytes - prefix_.size()};
  const size_t group = GroupOf(rest);
  if (group == groups_) return BoundAt(0, bound);
  Record record;
  if (!ReadRecord(group, &record) || record.body == record.end) return OrderAnswer::kHere;
  const uint64_t common = CommonWithAnchor(rest, record);
  bool beyond = false;
  const Target looked_for{*this, target, size, rest, bound};
  const OrderAnswer answer = *record.body == kNumbersBody ? FindNumber(looked_for, record, common, &beyond)
                                                          : FindBranch(looked_for, record, common, &beyond);
  return beyond ? BoundAt(group + 1, bound) : answer;
}

OrderAnswer OrderFilter::FindNumber(const Target& target, const Record& record, uint64_t common, bool* beyond) const {
  Cursor cursor(record.body + 1, record.end);
  const uint64_t count = cursor.Varint();
  const uint64_t prefix = cursor.Varint() - prefix_.size() * 8;
  const uint64_t high_bits = cursor.Varint();
  const uint8_t* const fixed = cursor.Take(10);
  if (fixed == nullptr) return OrderAnswer::kHere;
  const unsigned shift = fixed[0], low_bits = fixed[1];
  const uint64_t first = LoadU64(fixed + 2);
  if (count > kBatch || high_bits > cursor.left() * 8 || shift > 63 || low_bits > 48) return OrderAnswer::kHere;
  const uint8_t* const low = cursor.Take((count * low_bits + 7) / 8);
  const uint8_t* const high = cursor.Take((high_bits + 7) / 8);
  if (high == nullptr) return OrderAnswer::kHere;
  // The anchor is at or below the target: what has not the group's prefix is above all of it.
  if (common < prefix) {
    *beyond = true;
    return OrderAnswer::kHere;
  }
  const uint64_t number = target.rest.Window(prefix) >> shift;
  const uint64_t wanted = number - first;
  if (wanted > number) return OrderAnswer::kHere;
  const uint64_t wanted_high = wanted >> low_bits, wanted_low = wanted & LowMask(low_bits);
  if (high_bits < count || wanted_high > high_bits - count) {
    *beyond = true;
    return OrderAnswer::kHere;
  }
  // Behind the zero number wanted_high lie the entries with these high bits.
  uint64_t at = 0;
  if (wanted_high > 0) {
    uint64_t left = wanted_high - 1;
    for (;; at += 64) {
      if (at >= high_bits) return OrderAnswer::kHere;
      const uint64_t zeros = ~LoadU64(high + at / 8);
      const auto bits = static_cast<unsigned>(__builtin_popcountll(zeros));
      if (left < bits) {
        at += SelectInWord(zeros, static_cast<unsigned>(left)) + 1;
        break;
      }
      left -= bits;
    }
  }
  uint64_t index = at - wanted_high;
  const auto is_one = [&](uint64_t bit) { return (high[bit >> 3] >> (bit & 7) & 1) != 0; };
  const auto low_of = [&](uint64_t i) { return LoadBits(low, i * low_bits) & LowMask(low_bits); };
  while (at < high_bits && index < count && is_one(at)) {
    const uint64_t value = low_of(index);
    if (value == wanted_low) return OrderAnswer::kHere;
    if (value > wanted_low) break;
    ++at;
    ++index;
  }
  while (at < high_bits && !is_one(at)) ++at;
  if (at >= high_bits || index >= count) {
    *beyond = true;
    return OrderAnswer::kHere;
  }
  const uint64_t found = first + ((at - index) << low_bits | low_of(index));
  ShortBits more;
  if (!target.BeginBound(prefix, &more)) return OrderAnswer::kHere;
  more.Append(found << shift, 64 - shift);
  return target.EndBound(more);
}

OrderAnswer OrderFilter::FindBranch(const Target& target, const Record& record, uint64_t common, bool* beyond) const {
  Cursor cursor(record.body + 1, record.end);
  const uint64_t entries = cursor.Varint();
  uint64_t shares = cursor.Varint() - prefix_.size() * 8;  // with the entry before
  if (cursor.failed() || common >= record.anchor_bits) return OrderAnswer::kHere;
  const uint64_t bits_end = cursor.left() * 8;
  const uint8_t* const bits = cursor.Take(0);
  uint64_t kept = record.anchor_bits;
  // Of the first group's first entry nothing is known of the one before, and `shares` may exceed what is kept.
  uint64_t rise = kept - shares - 1 - extra_;
  bool cut = false;
  uint64_t at = 0;
  // The target is above the entry before, with which it has `common` bits in common.
  for (uint64_t i = 1; i < entries; ++i) {
    if (cut || rise == 0) {
      const uint64_t down = ReadGamma(bits, &at);
      if (down == 0) return OrderAnswer::kHere;
      shares = cut ? kept - down : shares - (down - 1);
    } else {
      shares += rise;
    }
    const uint64_t coded = ReadGamma(bits, &at);
    if (coded == 0 || coded - 1 > kMostBranchBits || at > bits_end || shares > record.anchor_bits + bits_end) {
      return OrderAnswer::kHere;
    }
    rise = coded - 1;
    cut = rise == kMostBranchBits;
    const uint64_t label = at;
    const uint64_t label_bits = rise + extra_;
    at += label_bits;
    if (at > bits_end) return OrderAnswer::kHere;
    kept = shares + 1 + label_bits;
    // It follows the entry before beyond the place where the target leaves that.
    if (shares > common) continue;
    bool above = shares < common;
    // Both have a 1 where the target leaves the entry before.
    if (!above) ++common;
    for (uint64_t done = 0; !above && done < label_bits;) {
      const unsigned take = static_cast<unsigned>(std::min<uint64_t>(32, label_bits - done));
      const uint64_t here = LoadBits(bits, label + done) & LowMask(take);
      const uint64_t wanted = target.rest.Window(shares + 1 + done) >> (64 - take);
      if (here == wanted) {
        done += take;
        common = shares + 1 + done;
        continue;
      }
      const uint64_t differ = here ^ wanted;
      common = shares + 1 + done + take - BitWidth(differ);
      above = here > wanted;
      break;
    }
    if (!above && common >= kept) return OrderAnswer::kHere;
    if (!above) continue;
    // The target's bits up to where the entry leaves it, a 1, and the entry's own.
    ShortBits more;
    if (!target.BeginBound(shares, &more)) return OrderAnswer::kHere;
    more.Append(uint64_t{1} << 63, 1);
    for (uint64_t done = 0; done < label_bits;) {
      const unsigned take = static_cast<unsigned>(std::min<uint64_t>(32, label_bits - done));
      more.Append((LoadBits(bits, label + done) & LowMask(take)) << (64 - take), take);
      done += take;
    }
    return target.EndBound(more);
  }
  *beyond = true;
  return OrderAnswer::kHere;
}

}  // namespace cairn
