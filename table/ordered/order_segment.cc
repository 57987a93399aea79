#include "table/ordered/order_segment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "table/ordered/order_plan.h"
#include "util/bits.h"
#include "util/prefetch.h"

namespace cairn {

namespace {

constexpr size_t kHeaderBytes = 20;

constexpr uint8_t kNumbersBody = 1;
constexpr uint8_t kBranchesBody = 2;

// Keys that are encoded and planned together, and the largest group of numbers.
constexpr size_t kBatch = 1024;
constexpr size_t kLeastPlanned = 128;
// Keys of a segment that chooses a kind of code for the next ones, how many they may be, and how many times its bits
// per key they may take.
constexpr size_t kLeastChoosing = 4096;
constexpr unsigned kAlikeSegments = 7;
constexpr double kAlikeBits = 1.15;
// An anchor is kept as what it does not share with every 16th.
constexpr size_t kRestart = 16;
// How much of memory is asked for at once: most records and most rows of windows are no longer.
constexpr size_t kMostPrefetched = 1024;

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

// The bits of a bound: those of a target, up to some place, and others behind them; on the stack if they are few.
class BoundBits {
 public:
  BoundBits(const KeyBits& prefix, uint64_t prefix_bits, size_t more_bits) {
    const size_t bytes = (prefix_bits + more_bits) / 8 + 10 + kKeyBitsGuard;
    if (bytes > sizeof(local_)) {
      heap_.assign(bytes, '\0');
      bytes_ = reinterpret_cast<uint8_t*>(heap_.data());
    }
    const size_t whole = prefix_bits / 8;
    const size_t kept = std::min(whole, prefix.bytes);
    memcpy(bytes_, prefix.data, kept);
    memset(bytes_ + kept, 0, bytes - kept);
    if (prefix_bits % 8 != 0) {
      bytes_[whole] = static_cast<uint8_t>(prefix.Window(whole * 8) >> 56 & 0xff00u >> prefix_bits % 8);
    }
    size_ = prefix_bits;
  }
  BoundBits(const BoundBits&) = delete;
  BoundBits& operator=(const BoundBits&) = delete;

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
  uint64_t size() const { return size_; }
  KeyBits bits() const { return {bytes_, static_cast<size_t>((size_ + 7) / 8)}; }

 private:
  uint8_t local_[256];
  std::string heap_;
  uint8_t* bytes_ = local_;
  uint64_t size_ = 0;
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

// Sets *behind to what is behind the zero of this number (from 0 on) of `bits` bits with `zeros` zeros, from whichever
// end it is nearer to. False if there is none.
bool FindZero(const uint8_t* base, uint64_t bits, uint64_t zeros, uint64_t number, uint64_t* behind) {
  const auto zeros_of = [base](uint64_t at) { return ~LoadU64(base + at / 8); };
  const auto count = [](uint64_t word) { return static_cast<uint64_t>(__builtin_popcountll(word)); };
  if (number < zeros / 2) {
    for (uint64_t at = 0; at < bits; at += 64) {
      const uint64_t word = zeros_of(at), here = count(word);
      if (number < here) {
        *behind = at + SelectInWord(word, static_cast<unsigned>(number)) + 1;
        return true;
      }
      number -= here;
    }
    return false;
  }
  if (number >= zeros) return false;
  uint64_t from_end = zeros - number;  // it is this one, from 1 on
  uint64_t at = (bits - 1) / 64 * 64;
  uint64_t word = zeros_of(at) & LowMask(static_cast<unsigned>(bits - at));
  for (;;) {
    const uint64_t here = count(word);
    if (from_end <= here) {
      *behind = at + SelectInWord(word, static_cast<unsigned>(here - from_end)) + 1;
      return true;
    }
    if (at == 0) return false;
    from_end -= here;
    at -= 64;
    word = zeros_of(at);
  }
}

size_t CommonBytes(const char* a, size_t a_size, const char* b, size_t b_size) {
  const size_t least = std::min(a_size, b_size);
  size_t at = 0;
  for (; at + 8 <= least; at += 8) {
    uint64_t x, y;
    memcpy(&x, a + at, sizeof(x));
    memcpy(&y, b + at, sizeof(y));
    if (x != y) return at + static_cast<size_t>(__builtin_ctzll(x ^ y)) / 8;
  }
  while (at < least && a[at] == b[at]) ++at;
  return at;
}

// Of bytes that end with a guard.
KeyBits BitsOf(const std::string& guarded) {
  return {reinterpret_cast<const uint8_t*>(guarded.data()), guarded.size() - kKeyBitsGuard};
}

class SegmentBuilder {
 public:
  SegmentBuilder(const OrderKeys& keys, const OrderDepth& depth, size_t start_bytes)
      : keys_(keys), depth_(depth), start_bytes_(start_bytes), planner_(depth) {}
  std::string Build(OrderCodeChoice* choice);
  double error_sum() const { return error_sum_; }

 private:
  struct Group {
    std::string anchor;  // without guard
    uint64_t anchor_bits;
    std::string body;
  };
  void LearnCode(const OrderCodeChoice& choice);
  std::vector<KeyCode::Sample> TakeSample() const;
  double PlannedBits(const KeyCode& code);
  void EncodeBatch(size_t begin, size_t end, KeyCode::Encoder* encoder);
  void EmitBatch();
  void KeepChoice(double bits_per_key, OrderCodeChoice* choice) const;
  void EmitNumbers(const OrderPiece& piece);
  void EmitBranches(size_t begin, size_t end);
  void EmitGroup(size_t begin, uint64_t anchor_bits, std::string body);

  const OrderKeys& keys_;
  const OrderDepth depth_;
  const size_t start_bytes_;
  size_t shared_ = 0;  // first bytes that all keys have behind their prefix and that are known of the start
  KeyCode code_;
  double error_sum_ = 0;

  OrderBatch batch_;
  OrderPlanner planner_;
  std::string previous_;  // the last key of the batch before, encoded

  std::vector<Group> groups_;
};

// Keys that are spread over the segment, and where each leaves the one before.
std::vector<KeyCode::Sample> SegmentBuilder::TakeSample() const {
  constexpr size_t kLearntKeys = 4096;
  const size_t step = std::max<size_t>(4, keys_.size() / kLearntKeys);
  std::vector<KeyCode::Sample> sample;
  sample.reserve(keys_.size() / step + 1);
  for (size_t i = 1; i < keys_.size(); i += step) {
    const char* const key = keys_.key(i) + shared_;
    const char* const before = keys_.key(i - 1) + shared_;
    const size_t size = keys_.bytes(i) - shared_, before_size = keys_.bytes(i - 1) - shared_;
    const size_t common = CommonBytes(before, before_size, key, size);
    if (common == size) continue;
    const unsigned other = common == before_size ? 0 : static_cast<uint8_t>(before[common]);
    const unsigned differ = static_cast<uint8_t>(key[common]) ^ other;
    sample.push_back({reinterpret_cast<const uint8_t*>(key), size, common, 8 - BitWidth(differ | 1)});
  }
  return sample;
}

void SegmentBuilder::LearnCode(const OrderCodeChoice& choice) {
  if (choice.segments > 0) {
    if (choice.kind != KeyCode::Kind::kPlain) code_ = KeyCode::LearnKind(choice.kind, TakeSample(), keys_.size());
    return;
  }
  double head;
  std::vector<KeyCode> codes = KeyCode::Learn(TakeSample(), keys_.size(), depth_.extra + 2, &head);
  if (codes.empty()) return;
  // What a code must make of the bits, to be worth its time.
  constexpr double kWorthwhile = 0.9;
  // The share of bits behind a branch that tell something, below which the plain code is no choice.
  constexpr double kTellingHead = 0.66;
  // Bits that are the same in most keys tell little, so the plain code's are not to be compared.
  double least = head < kTellingHead ? HUGE_VAL : PlannedBits(code_) * kWorthwhile;
  KeyCode* best = nullptr;
  for (KeyCode& code : codes) {
    const double bits = PlannedBits(code);
    if (bits >= least) continue;
    least = bits;
    best = &code;
  }
  if (best != nullptr) code_ = std::move(*best);
}

// Per key, by a batch in the middle.
double SegmentBuilder::PlannedBits(const KeyCode& code) {
  const size_t size = std::clamp(keys_.size() / 8, std::min(keys_.size(), kLeastPlanned), kBatch);
  const size_t begin = (keys_.size() - size) / 2;
  KeyCode::Encoder encoder(&code);
  EncodeBatch(begin, begin + size, &encoder);
  const double bits = batch_.size() == 0 ? 0 : planner_.Plan(batch_).bits;
  return bits / static_cast<double>(size) + static_cast<double>(code.bytes() * 8) / static_cast<double>(keys_.size());
}

// Makes keys the bits that a plan is made of, without those that have the bits of the key before.
void SegmentBuilder::EncodeBatch(size_t begin, size_t end, KeyCode::Encoder* encoder) {
  size_t bytes = 0;
  for (size_t i = begin; i < end; ++i) bytes += encoder->code().EncodedBytes(keys_.bytes(i) - shared_);
  if (batch_.bytes.size() < bytes) batch_.bytes.resize(bytes);
  batch_.starts.clear();
  batch_.starts.reserve(end - begin + 1);
  batch_.starts.push_back(0);
  batch_.common.clear();
  batch_.common.reserve(end - begin);
  size_t at = 0;
  KeyBits before;
  bool has_before = !previous_.empty();
  if (has_before) {
    before = {reinterpret_cast<const uint8_t*>(previous_.data()), previous_.size() - kKeyBitsGuard};
  }
  for (size_t i = begin; i < end; ++i) {
    const char* const bytes_of = keys_.key(i) + shared_;
    const size_t size = keys_.bytes(i) - shared_;
    const size_t same = i == begin || encoder->code().plain()
                            ? 0
                            : CommonBytes(keys_.key(i - 1) + shared_, keys_.bytes(i - 1) - shared_, bytes_of, size);
    const KeyBits key = encoder->Encode(bytes_of, size, same, batch_.bytes.data() + at);
    const uint64_t common = has_before ? CommonBits(before, key) : 0;
    if (common == UINT64_MAX) continue;
    at += key.bytes + kKeyBitsGuard;
    batch_.starts.push_back(at);
    batch_.common.push_back(common);
    before = key;
    has_before = true;
  }
}

void SegmentBuilder::EmitBatch() {
  const size_t n = batch_.size();
  if (n == 0) return;
  const OrderPlan& plan = planner_.Plan(batch_);
  error_sum_ += plan.error;
  for (size_t i = 0; i < plan.pieces.size();) {
    OrderPiece piece = plan.pieces[i++];
    if (piece.shift != OrderPiece::kBranches) {
      EmitNumbers(piece);
      continue;
    }
    for (; i < plan.pieces.size() && plan.pieces[i].shift == OrderPiece::kBranches; ++i) piece.end = plan.pieces[i].end;
    const size_t parts = (piece.end - piece.begin + kMostBranches - 1) / kMostBranches;
    const size_t each = (piece.end - piece.begin + parts - 1) / parts;
    for (size_t begin = piece.begin; begin < piece.end; begin += each) {
      EmitBranches(begin, std::min(piece.end, begin + each));
    }
  }
  previous_.assign(batch_.bytes, batch_.starts[n - 1], batch_.starts[n] - batch_.starts[n - 1]);
}

void SegmentBuilder::EmitGroup(size_t begin, uint64_t anchor_bits, std::string body) {
  const KeyBits key = batch_.at(begin);
  const size_t size = (anchor_bits + 7) / 8;
  std::string anchor(size, '\0');
  memcpy(anchor.data(), key.data, std::min(size, key.bytes));
  if (size * 8 > anchor_bits) {
    anchor.back() = static_cast<char>(static_cast<uint8_t>(anchor.back()) & 0xff << (size * 8 - anchor_bits));
  }
  groups_.push_back({std::move(anchor), anchor_bits, std::move(body)});
}

void SegmentBuilder::EmitNumbers(const OrderPiece& piece) {
  const size_t n = piece.end - piece.begin;
  const unsigned shift = piece.shift;
  const uint64_t prefix = piece.prefix;
  const auto number = [&](size_t i) { return batch_.at(piece.begin + i).Window(prefix) >> shift; };
  const uint64_t first = number(0);
  const uint64_t universe = number(n - 1) - first;
  const unsigned low_bits = universe / n == 0 ? 0 : Log2Floor(universe / n);
  BitWriter low, high;
  uint64_t zeros = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t value = number(i) - first;
    low.Put(value & LowMask(low_bits), low_bits);
    for (; zeros + 63 < value >> low_bits; zeros += 63) high.Put(0, 63);
    const auto more = static_cast<unsigned>((value >> low_bits) - zeros);
    high.Put(uint64_t{1} << more, more + 1);
    zeros += more;
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
  EmitGroup(piece.begin, std::max(prefix + 64 - shift, batch_.common[piece.begin] + 1), std::move(body));
}

void SegmentBuilder::EmitBranches(size_t begin, size_t end) {
  const bool first_of_all = groups_.empty() && begin == 0;
  const auto after = [this](size_t i) { return batch_.common_behind(i); };
  const std::vector<uint64_t>& commons = batch_.common;
  // What leaves nothing before it leaves what comes behind.
  uint64_t common = first_of_all ? after(begin) : commons[begin];
  const uint64_t first_common = common;
  uint64_t rise = after(begin) > common ? after(begin) - common : 0;
  const uint64_t anchor_bits = common + 1 + rise + depth_.extra;
  uint64_t kept = anchor_bits;
  bool cut = false;
  BitWriter bits;
  size_t entries = 1;
  for (size_t i = begin + 1; i < end; ++i) {
    if (commons[i] >= kept) continue;
    if (cut) {
      PutGamma(&bits, kept - commons[i]);
    } else if (rise == 0) {
      PutGamma(&bits, common - commons[i] + 1);
    }
    common = commons[i];
    rise = after(i) > common ? std::min<uint64_t>(after(i) - common, kMostBranchBits) : 0;
    cut = rise == kMostBranchBits;
    kept = common + 1 + rise + depth_.extra;
    PutGamma(&bits, rise + 1);
    PutLabel(&bits, batch_.at(i), common + 1, rise + depth_.extra);
    ++entries;
  }
  std::string body(1, static_cast<char>(kBranchesBody));
  PutVarint(&body, entries);
  PutVarint(&body, first_common);
  bits.AppendBytes(&body);
  EmitGroup(begin, anchor_bits, std::move(body));
}

std::string SegmentBuilder::Build(OrderCodeChoice* choice) {
  const size_t last_key = keys_.size() - 1;
  // All of the prefix is, since a start is cut off behind where the first two keys differ, at the earliest.
  shared_ = std::min(start_bytes_ - keys_.prefix().size(),
                     CommonBytes(keys_.key(0), keys_.bytes(0), keys_.key(last_key), keys_.bytes(last_key)));
  LearnCode(*choice);
  KeyCode::Encoder encoder(&code_);
  for (size_t begin = 0; begin < keys_.size(); begin += kBatch) {
    EncodeBatch(begin, std::min(keys_.size(), begin + kBatch), &encoder);
    EmitBatch();
  }
  std::string first(code_.EncodedBytes(keys_.bytes(0) - shared_), '\0');
  std::string last(code_.EncodedBytes(keys_.bytes(last_key) - shared_), '\0');
  const uint64_t common =
      CommonBits(code_.Encode(keys_.key(0) + shared_, keys_.bytes(0) - shared_, first.data()),
                 code_.Encode(keys_.key(last_key) + shared_, keys_.bytes(last_key) - shared_, last.data()));
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
  std::string code;
  code_.EncodeTo(&code);
  std::string out;
  out.reserve(kHeaderBytes + code.size() + prefix + windows.size() + offsets.size() + records.size() + kKeyBitsGuard);
  PutU32(&out, static_cast<uint32_t>(groups_.size()));
  PutU32(&out, static_cast<uint32_t>(keys_.prefix().size() + shared_));
  PutU32(&out, static_cast<uint32_t>(prefix));
  PutU32(&out, static_cast<uint32_t>(records.size()));
  PutU32(&out, static_cast<uint32_t>(code.size()));
  out += code;
  out.append(groups_[0].anchor, 0, prefix);
  out += windows;
  out += offsets;
  out += records;
  out.append(kKeyBitsGuard, '\0');
  KeepChoice(static_cast<double>(out.size() * 8) / static_cast<double>(keys_.size()), choice);
  return out;
}

void SegmentBuilder::KeepChoice(double bits_per_key, OrderCodeChoice* choice) const {
  if (choice->segments == 0) {
    // Few keys tell too little.
    if (keys_.size() >= kLeastChoosing) *choice = {code_.kind(), kAlikeSegments, bits_per_key};
  } else if (bits_per_key > choice->bits_per_key * kAlikeBits) {
    choice->segments = 0;
  } else {
    --choice->segments;
  }
}

}  // namespace

void OrderKeys::Add(const char* key, size_t size) {
  if (ends_.size() == 1) prefix_.assign(key, size);
  if (size < prefix_.size() || memcmp(key, prefix_.data(), prefix_.size()) != 0) {
    const size_t common = CommonBytes(prefix_.data(), prefix_.size(), key, size);
    // Less than there is, so that it seldom comes to this.
    Shorten(ends_.size() == 2 ? common : common / 2);
  }
  const size_t end = ends_.back(), more = size - prefix_.size();
  if (bytes_.size() < end + more) bytes_.resize(std::max(2 * bytes_.size(), end + more));
  if (more != 0) memcpy(bytes_.data() + end, key + prefix_.size(), more);
  ends_.push_back(static_cast<uint32_t>(end + more));
}

bool OrderKeys::IsLast(const char* key, size_t size) const {
  const size_t more = size - prefix_.size();
  return memcmp(key + prefix_.size(), bytes_.data() + ends_.back() - more, more) == 0 &&
         memcmp(key, prefix_.data(), prefix_.size()) == 0;
}

void OrderKeys::Clear() {
  prefix_.clear();
  bytes_.clear();
  ends_.assign(1, 0);
}

void OrderKeys::Shorten(size_t prefix) {
  const std::string more = prefix_.substr(prefix);
  std::string bytes;
  std::vector<uint32_t> ends = {0};
  for (size_t i = 0; i < size(); ++i) {
    bytes += more;
    bytes.append(key(i), this->bytes(i));
    ends.push_back(static_cast<uint32_t>(bytes.size()));
  }
  prefix_.resize(prefix);
  bytes_ = std::move(bytes);
  ends_ = std::move(ends);
}

std::string EncodeOrderSegment(const OrderKeys& keys, const OrderDepth& depth, size_t start_bytes,
                               OrderCodeChoice* choice, double* error_sum) {
  SegmentBuilder builder(keys, depth, start_bytes);
  std::string bytes = builder.Build(choice);
  *error_sum += builder.error_sum();
  return bytes;
}

// A group as it lies in the file. Positions are those of bits behind the segment's prefix.
struct OrderSegment::Record {
  const uint8_t* shared = nullptr;  // the first bytes of the anchor; null: not looked for yet
  size_t shared_bytes = 0;
  const uint8_t* suffix = nullptr;  // and the others
  size_t suffix_bytes = 0;
  uint64_t anchor_bits = 0;
  const uint8_t* body = nullptr;
  const uint8_t* end = nullptr;
};

struct OrderSegment::Target {
  const char* key;  // all of it
  size_t size;
  size_t least;  // bytes of a bound
  KeyBits whole;
  KeyBits rest;  // behind the segment's prefix
  bool before;   // the side
  std::string* bound;
};

const char* OrderSegment::Open(const uint8_t* data, size_t size, const uint8_t* start, size_t start_bytes,
                               unsigned extra) {
  extra_ = extra;
  shared_ = start;
  if (size < kHeaderBytes + kKeyBitsGuard) return "shorter than its header";
  groups_ = LoadU32(data);
  shared_bytes_ = LoadU32(data + 4);
  prefix_bytes_ = LoadU32(data + 8);
  records_bytes_ = LoadU32(data + 12);
  const size_t code = LoadU32(data + 16);
  if (groups_ == 0) return "without keys";
  if (shared_bytes_ > start_bytes) return "of an impossible prefix";
  if (size != kHeaderBytes + code + prefix_bytes_ + groups_ * 12 + records_bytes_ + kKeyBitsGuard) {
    return "of the wrong size";
  }
  const uint8_t* at = data + kHeaderBytes;
  if (!code_.DecodeFrom(at, code)) return "of an impossible code of keys";
  prefix_ = at + code;
  windows_ = prefix_ + prefix_bytes_;
  offsets_ = windows_ + groups_ * 8;
  records_ = offsets_ + groups_ * 4;
  for (size_t i = 0; i < groups_; ++i) {
    if (i > 0 && LoadU64(windows_ + 8 * i) < LoadU64(windows_ + 8 * i - 8)) return "out of order";
    Record record;
    if (!ReadRecord(i, &record) || !FindShared(i, &record)) return "of impossible groups";
  }
  return nullptr;
}

bool OrderSegment::ReadRecord(size_t group, Record* record) const {
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
  return true;
}

// What the anchor has of another group's. REQUIRES: ReadRecord.
bool OrderSegment::FindShared(size_t group, Record* record) const {
  record->shared = records_;
  if (record->shared_bytes == 0) return true;
  if (group % kRestart == 0) return false;
  Record restart;
  if (!ReadRecord(group - group % kRestart, &restart)) return false;
  record->shared = restart.suffix;
  return record->shared_bytes <= restart.suffix_bytes;
}

// How many of the anchor's bits, in whole bytes, the target has.
uint64_t OrderSegment::CommonWithAnchor(const KeyBits& target, const Record& record) const {
  const uint64_t common = CommonWith(target, 0, record.shared, record.shared_bytes);
  if (common != record.shared_bytes * 8) return common;
  return common + CommonWith(target, record.shared_bytes, record.suffix, record.suffix_bytes);
}

bool OrderSegment::AnchorIsAbove(const KeyBits& target, size_t group) const {
  Record record;
  if (!ReadRecord(group, &record) || !FindShared(group, &record)) return false;
  const uint64_t common = CommonWithAnchor(target, record);
  return common < (record.shared_bytes + record.suffix_bytes) * 8 && target.Window(common) >> 63 == 0;
}

// The last group whose anchor is at or below the target; groups_ if there is none.
size_t OrderSegment::GroupOf(const KeyBits& target) const {
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

// What a bound begins with and its bits are known. No key is above the target and below it.
OrderAnswer OrderSegment::EndBound(const Target& target, const KeyBits& data, uint64_t bits) const {
  std::string* const bound = target.bound;
  bound->assign(target.key, shared_bytes_);
  code_.Decode(data, bits, target.key + shared_bytes_, target.size - shared_bytes_, bound);
  // A key that ends before its trailing bytes of 0 has the same bits and is smaller.
  while (bound->size() > shared_bytes_ && bound->back() == '\0') bound->pop_back();
  // What was decoded is exact to a part of a byte; what is above the target is not below the next one. A target that
  // may itself be such a bound is told nothing: its bound, and that one's, would each be a byte longer and lead
  // nowhere.
  if (bound->compare(0, std::string::npos, target.key, target.size) <= 0) {
    if (target.size > 0 && target.key[target.size - 1] == '\0') return OrderAnswer::kHere;
    bound->assign(target.key, target.size);
    bound->push_back('\0');
  }
  // No key is shorter than the shortest, so none lies between; and RocksDB may look at a prefix of the bound.
  if (bound->size() < target.least) bound->resize(target.least);
  return OrderAnswer::kBound;
}

// All keys before the target have lower bits than these.
OrderAnswer OrderSegment::EndBoundBefore(const Target& target, const KeyBits& data, uint64_t bits) const {
  std::string* const bound = target.bound;
  bound->assign(target.key, shared_bytes_);
  if (!code_.DecodeAbove(data, bits, target.key + shared_bytes_, target.size - shared_bytes_, bound)) {
    return OrderAnswer::kHere;
  }
  while (bound->size() > shared_bytes_ && bound->back() == '\0') bound->pop_back();
  if (bound->size() < target.least) bound->resize(target.least);
  // What was decoded is exact to a part of a byte.
  const bool is_above = bound->compare(0, std::string::npos, target.key, target.size) > 0;
  return is_above ? OrderAnswer::kHere : OrderAnswer::kBound;
}

// A group's anchor with the segment's prefix, and a guard. REQUIRES: FindShared.
std::string OrderSegment::AnchorOf(const Record& record) const {
  std::string bits(reinterpret_cast<const char*>(prefix_), prefix_bytes_);
  bits.append(reinterpret_cast<const char*>(record.shared), record.shared_bytes);
  bits.append(reinterpret_cast<const char*>(record.suffix), record.suffix_bytes);
  bits.append(kKeyBitsGuard, '\0');
  return bits;
}

OrderAnswer OrderSegment::BoundAt(size_t group, const Target& target) const {
  if (group >= groups_) return OrderAnswer::kNone;
  if (target.bound == nullptr) return OrderAnswer::kBound;
  Record record;
  if (!ReadRecord(group, &record) || !FindShared(group, &record)) return OrderAnswer::kHere;
  const std::string bits = AnchorOf(record);
  return EndBound(target, BitsOf(bits), prefix_bytes_ * 8 + record.anchor_bits);
}

void OrderSegment::PrefetchGroups() const {
  __builtin_prefetch(shared_);
  // Behind it lie the windows and the offsets.
  Prefetch(prefix_, std::min(prefix_bytes_ + groups_ * 12, kMostPrefetched));
  code_.PrefetchTables();
}

void OrderSegment::PrefetchRecord(size_t group) const {
  const size_t from = LoadU32(offsets_ + 4 * group);
  if (from < records_bytes_) Prefetch(records_ + from, std::min(records_bytes_ - from, kMostPrefetched));
}

void OrderSegment::Locate(const char* key, size_t size, Place* place) const {
  const int order = memcmp(key, shared_, std::min(size, shared_bytes_));
  if (order != 0 || size < shared_bytes_) {
    place->at = order > 0 ? Place::At::kAbove : Place::At::kBelow;
    return;
  }
  place->bits.Encode(code_, key + shared_bytes_, size - shared_bytes_);
  const KeyBits& whole = place->bits.bits();
  const uint64_t in_prefix = CommonWith(whole, 0, prefix_, prefix_bytes_);
  if (in_prefix < prefix_bytes_ * 8) {
    place->at = (whole.Window(in_prefix) >> 63) != 0 ? Place::At::kAbove : Place::At::kBefore;
    return;
  }
  static const uint8_t kNothing[kKeyBitsGuard] = {};
  place->rest = {kNothing, 0};
  if (whole.bytes > prefix_bytes_) place->rest = {whole.data + prefix_bytes_, whole.bytes - prefix_bytes_};
  place->group = GroupOf(place->rest);
  place->at = place->group == groups_ ? Place::At::kBefore : Place::At::kInGroup;
  if (place->at == Place::At::kInGroup) PrefetchRecord(place->group);
}

OrderAnswer OrderSegment::AnswerAt(const Place& place, const char* key, size_t size, size_t least, OrderSide side,
                                   std::string* bound) const {
  const bool before = side == OrderSide::kBefore;
  const Target target{key, size, least, place.bits.bits(), place.rest, before, bound};
  switch (place.at) {
    case Place::At::kAbove:
      // A target between two segments is rare.
      return before ? OrderAnswer::kHere : OrderAnswer::kNone;
    case Place::At::kBelow:
      if (before) return OrderAnswer::kNone;
      if (bound == nullptr) return OrderAnswer::kBound;
      bound->assign(reinterpret_cast<const char*>(shared_), shared_bytes_);
      if (bound->size() < least) bound->resize(least);
      return OrderAnswer::kBound;
    case Place::At::kBefore:
      return before ? OrderAnswer::kNone : BoundAt(0, target);
    case Place::At::kInGroup:
      break;
  }
  Record record;
  if (!ReadRecord(place.group, &record) || record.body == record.end) return OrderAnswer::kHere;
  bool beyond = false;
  OrderAnswer answer = OrderAnswer::kHere;
  if (*record.body == kNumbersBody) {
    answer = FindNumber(target, place.group, &record, &beyond);
  } else if (FindShared(place.group, &record)) {
    answer = FindBranch(target, record, CommonWithAnchor(target.rest, record), &beyond);
  }
  return beyond && !before ? BoundAt(place.group + 1, target) : answer;
}

// Whether the target begins with the first `bits` bits of a group's anchor. False, too, for a group that makes no
// sense.
bool OrderSegment::HasPrefix(const KeyBits& target, uint64_t bits, size_t group, Record* record) const {
  // An anchor's window has 0 bits where the anchor ends.
  if (bits <= 64 && bits <= record->anchor_bits) {
    return bits == 0 || (target.Window(0) ^ LoadU64(windows_ + 8 * group)) >> (64 - bits) == 0;
  }
  return FindShared(group, record) && CommonWithAnchor(target, *record) >= bits;
}

OrderAnswer OrderSegment::FindNumber(const Target& target, size_t group, Record* record, bool* beyond) const {
  Cursor cursor(record->body + 1, record->end);
  const uint64_t count = cursor.Varint();
  const uint64_t prefix = cursor.Varint() - prefix_bytes_ * 8;
  const uint64_t high_bits = cursor.Varint();
  const uint8_t* const fixed = cursor.Take(10);
  if (fixed == nullptr) return OrderAnswer::kHere;
  const unsigned shift = fixed[0], low_bits = fixed[1];
  const uint64_t first = LoadU64(fixed + 2);
  if (count > kBatch || high_bits > cursor.left() * 8 || shift > 63 || low_bits > 48) return OrderAnswer::kHere;
  const uint8_t* const low = cursor.Take((count * low_bits + 7) / 8);
  const uint8_t* const high = cursor.Take((high_bits + 7) / 8);
  if (high == nullptr) return OrderAnswer::kHere;
  const auto is_one = [&](uint64_t bit) { return (high[bit >> 3] >> (bit & 7) & 1) != 0; };
  const auto low_of = [&](uint64_t i) { return LoadBits(low, i * low_bits) & LowMask(low_bits); };
  const auto number_at = [&](uint64_t bit, uint64_t i) { return first + ((bit - i) << low_bits | low_of(i)); };
  // The anchor is at or below the target: what has not the group's prefix is above all of it.
  if (!HasPrefix(target.rest, prefix, group, record)) {
    *beyond = true;
    if (!target.before || count == 0 || high_bits < count || !FindShared(group, record)) return OrderAnswer::kHere;
    const std::string anchor = AnchorOf(*record);
    return NumberBefore(target, BitsOf(anchor), prefix, number_at(high_bits - 1, count - 1), shift);
  }
  const uint64_t number = target.rest.Window(prefix) >> shift;
  const uint64_t wanted = number - first;
  if (wanted > number) return OrderAnswer::kHere;
  const uint64_t wanted_high = wanted >> low_bits, wanted_low = wanted & LowMask(low_bits);
  if (high_bits < count || wanted_high > high_bits - count) {
    *beyond = true;
    if (!target.before || count == 0 || high_bits < count) return OrderAnswer::kHere;
    return NumberBefore(target, target.whole, prefix, number_at(high_bits - 1, count - 1), shift);
  }
  // About where its low bits are, which are fetched while their place is counted.
  __builtin_prefetch(low + wanted_high * count / (high_bits - count + 1) * low_bits / 8);
  // Behind the zero number wanted_high lie the entries with these high bits.
  uint64_t at = 0;
  if (wanted_high > 0 && !FindZero(high, high_bits, high_bits - count, wanted_high - 1, &at)) return OrderAnswer::kHere;
  uint64_t index = at - wanted_high;
  while (at < high_bits && index < count && is_one(at)) {
    const uint64_t value = low_of(index);
    if (value == wanted_low) return OrderAnswer::kHere;
    if (value > wanted_low) break;
    ++at;
    ++index;
  }
  if (target.before) {
    while (at > 0 && !is_one(at - 1)) --at;
    if (at == 0 || index == 0 || index > count) return OrderAnswer::kHere;
    return NumberBefore(target, target.whole, prefix, number_at(at - 1, index - 1), shift);
  }
  while (at < high_bits && !is_one(at)) ++at;
  if (at >= high_bits || index >= count) {
    *beyond = true;
    return OrderAnswer::kHere;
  }
  const uint64_t found = number_at(at, index);
  if (target.bound == nullptr) return OrderAnswer::kBound;
  BoundBits bits(target.whole, prefix_bytes_ * 8 + prefix, 64);
  bits.Append(found << shift, 64 - shift);
  return EndBound(target, bits.bits(), bits.size());
}

// `number` is that of the last key below the target. The first `prefix` bits behind the segment's prefix are those of
// `with_prefix`.
OrderAnswer OrderSegment::NumberBefore(const Target& target, const KeyBits& with_prefix, uint64_t prefix,
                                       uint64_t number, unsigned shift) const {
  const uint64_t next = (number + 1) << shift;
  if (next >> shift != number + 1 || next == 0) return OrderAnswer::kHere;
  BoundBits bits(with_prefix, prefix_bytes_ * 8 + prefix, 64);
  bits.Append(next, 64 - shift);
  return EndBoundBefore(target, bits.bits(), bits.size());
}

namespace {

// An entry below a target, from the bit on in which they differ: the target has a 1 there.
class TailBelow {
 public:
  // Nothing is known behind that bit.
  explicit TailBelow(uint64_t common) : common_(common) {}
  // The bits of an anchor from there on.
  void SetBits(uint64_t window, uint64_t bits) { Set(window, bits); }

  // To the next entry: it has `shares` bits of the one before, more than that has of the target, then a 1 and a label.
  void Follow(const uint8_t* bits, uint64_t label, uint64_t label_bits, uint64_t shares) {
    const uint64_t kept = shares - common_;
    if (kept >= known_) return;  // what is known of it is the same
    const uint64_t window = (window_ & ~(~uint64_t{0} >> kept)) | uint64_t{1} << (63 - kept);
    Set(window, kept + 1);
    Append(bits, label, label_bits, 0);
  }
  // To an entry that has `common` bits of the target, the last of them in its label from bit `from` on.
  void Restart(const uint8_t* bits, uint64_t label, uint64_t label_bits, uint64_t from, uint64_t common) {
    common_ = common;
    Set(0, 0);
    Append(bits, label, label_bits, from);
    if (known_ == 0) known_ = 1;
  }

  uint64_t common() const { return common_; }
  // As many bits above all that begins as the entry does.
  uint64_t above() const { return window_ + (uint64_t{1} << (64 - known_)); }
  unsigned known() const { return known_; }

 private:
  void Set(uint64_t window, uint64_t bits) {
    known_ = static_cast<unsigned>(std::min<uint64_t>(bits, 64));
    window_ = known_ == 0 ? 0 : window & ~uint64_t{0} << (64 - known_);
  }
  // A label is pieces of 32 bits, each a number whose highest bit is the key's first.
  void Append(const uint8_t* bits, uint64_t label, uint64_t label_bits, uint64_t from) {
    for (uint64_t done = from / 32 * 32; done < label_bits && known_ < 64; done += 32) {
      const auto take = static_cast<unsigned>(std::min<uint64_t>(32, label_bits - done));
      const unsigned skipped = static_cast<unsigned>(done < from ? std::min<uint64_t>(from - done, take) : 0);
      const unsigned used = take - skipped;
      if (used == 0) continue;
      const uint64_t piece = (LoadBits(bits, label + done) & LowMask(used)) << (64 - used);
      window_ |= piece >> known_;
      known_ = std::min(known_ + used, 64u);
    }
  }

  uint64_t common_;
  uint64_t window_ = 0;  // of the entry, from bit common_ on, the first bit highest
  unsigned known_ = 1;   // bits of it
};

}  // namespace

OrderAnswer OrderSegment::FindBranch(const Target& target, const Record& record, uint64_t common, bool* beyond) const {
  Cursor cursor(record.body + 1, record.end);
  const uint64_t entries = cursor.Varint();
  uint64_t shares = cursor.Varint() - prefix_bytes_ * 8;  // with the entry before
  if (cursor.failed() || common >= record.anchor_bits) return OrderAnswer::kHere;
  const uint64_t bits_end = cursor.left() * 8;
  const uint8_t* const bits = cursor.Take(0);
  uint64_t kept = record.anchor_bits;
  // Of the first group's first entry nothing is known of the one before, and `shares` may exceed what is kept.
  uint64_t rise = kept - shares - 1 - extra_;
  bool cut = false;
  uint64_t at = 0;
  TailBelow tail(common);  // of the entry before, which only a bound before the target needs
  if (target.before && common >= record.shared_bytes * 8) {
    const KeyBits suffix{record.suffix, record.suffix_bytes};
    tail.SetBits(suffix.Window(common - record.shared_bytes * 8), record.anchor_bits - common);
  }
  const auto answer_before = [&] {
    BoundBits bound(target.whole, prefix_bytes_ * 8 + tail.common(), 64);
    bound.Append(tail.above(), tail.known());
    return EndBoundBefore(target, bound.bits(), bound.size());
  };
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
    if (shares > common) {
      if (target.before) tail.Follow(bits, label, label_bits, shares);
      continue;
    }
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
    if (!above) {
      if (target.before) tail.Restart(bits, label, label_bits, common - shares - 1, common);
      continue;
    }
    if (target.before) return answer_before();
    if (target.bound == nullptr) return OrderAnswer::kBound;
    // The target's bits up to where the entry leaves it, a 1, and the entry's own.
    BoundBits bound(target.whole, prefix_bytes_ * 8 + shares, 1 + label_bits);
    bound.Append(uint64_t{1} << 63, 1);
    for (uint64_t done = 0; done < label_bits;) {
      const unsigned take = static_cast<unsigned>(std::min<uint64_t>(32, label_bits - done));
      bound.Append((LoadBits(bits, label + done) & LowMask(take)) << (64 - take), take);
      done += take;
    }
    return EndBound(target, bound.bits(), bound.size());
  }
  *beyond = true;
  return target.before ? answer_before() : OrderAnswer::kHere;
}

}  // namespace cairn
