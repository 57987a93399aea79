#include "table/ordered/key_code.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "util/bits.h"

namespace cairn {

namespace {

constexpr uint32_t kWhole = 1u << 16;
constexpr size_t kMostPositions = 64;
// Bytes of a key behind which it may go on from the key before.
constexpr size_t kMostStates = 1024;
// Bytes of a sampled key, behind where it leaves the one before, that are learnt.
constexpr size_t kLearnt = 32;
constexpr size_t kLeastLearnt = 64;
constexpr size_t kJudgedKeys = 1024;
// The share of the bits of these bytes that is kept.
constexpr double kKept = 0.3;
// Less is no frequency.
constexpr size_t kLeastSeen = 6;
// Bits of a byte, of 8, that are not worth a look at what it follows.
constexpr double kRandomBits = 7.5;
// In place of an escape: all bytes are alike.
constexpr uint8_t kNoCounts = 0x80;
// Beside an escape: the bytes that were seen are equally frequent.
constexpr uint8_t kFlat = 0x40;

uint64_t BigEndian(const uint8_t* p) { return __builtin_bswap64(LoadU64(p)); }

void StoreBigEndian32(uint8_t* p, uint32_t v) {
  v = __builtin_bswap32(v);
  memcpy(p, &v, sizeof(v));
}

// Members of the set below `byte`.
unsigned Rank(const uint64_t set[4], const uint8_t ranks[4], unsigned byte) {
  const uint64_t below = (uint64_t{1} << (byte & 63)) - 1;
  return ranks[byte >> 6] + static_cast<unsigned>(__builtin_popcountll(set[byte >> 6] & below));
}
bool Has(const uint64_t set[4], unsigned byte) { return (set[byte >> 6] >> (byte & 63) & 1) != 0; }
void MakeRanks(const uint64_t set[4], uint8_t ranks[4]) {
  unsigned sum = 0;
  for (int i = 0; i < 4; ++i) {
    ranks[i] = static_cast<uint8_t>(sum);
    sum += static_cast<unsigned>(__builtin_popcountll(set[i]));
  }
}

}  // namespace

uint64_t KeyBits::Window(uint64_t bit) const {
  const uint64_t byte = bit >> 3;
  if (byte >= bytes) return 0;
  const unsigned shift = bit & 7;
  const uint64_t high = BigEndian(data + byte);
  return shift == 0 ? high : high << shift | data[byte + 8] >> (8 - shift);
}

uint64_t CommonBits(const KeyBits& a, const KeyBits& b) {
  const uint64_t differ = LoadU64(a.data) ^ LoadU64(b.data);
  if (differ != 0 && a.bytes >= 8 && b.bytes >= 8)
    return static_cast<unsigned>(__builtin_clzll(__builtin_bswap64(differ)));
  const size_t bytes = std::max(a.bytes, b.bytes);
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t x = at < a.bytes ? BigEndian(a.data + at) : 0;
    const uint64_t y = at < b.bytes ? BigEndian(b.data + at) : 0;
    if (x != y) return at * 8 + static_cast<unsigned>(__builtin_clzll(x ^ y));
  }
  return UINT64_MAX;
}

namespace {

// How often bytes were seen in one context.
struct Counts {
  uint32_t counts[256] = {};
  uint32_t sum = 0;
  unsigned members = 0;

  void Add(uint8_t byte, uint32_t times = 1) {
    members += counts[byte] == 0 ? 1 : 0;
    counts[byte] += times;
    sum += times;
  }
  // Every byte, seen or not, has 2^(this - 16) of the context.
  unsigned Escape() const {
    const double unseen = members == 256 ? 0 : (members + 0.5) / (sum + members + 1.0);
    unsigned escape = 0;
    while (escape < 7 && std::exp2(-7.5 + escape) < unseen) ++escape;
    return escape;
  }
  size_t Bytes() const { return 2 + std::min(32u, members) + members; }
};

// The bits that bytes take in a context.
class Costs {
 public:
  explicit Costs(const Counts& counts)
      : counts_(counts),
        base_(counts.sum == 0 ? 1.0 / 256 : std::exp2(counts.Escape()) / kWhole),
        scale_((1 - 256 * base_) / std::max(1u, counts.sum)) {}
  double Of(uint8_t byte) const { return -std::log2(base_ + counts_.counts[byte] * scale_); }

 private:
  const Counts& counts_;
  const double base_;
  const double scale_;
};

}  // namespace

// The contexts that may be: by the position, by the last byte, by both bytes before, and one for all.
struct KeyCode::Model {
  std::vector<Counts> positions{kMostPositions};
  std::vector<Counts> bytes{256};
  Counts all;
  std::vector<uint32_t> pairs;  // before << 16 | last << 8 | byte, sorted
  struct Pair {
    uint16_t bytes;  // last << 8 | before
    Counts counts;
  };
  std::vector<Pair> children;                           // the pairs that are worth their bytes, in order
  std::vector<bool> followed = std::vector<bool>(256);  // the bytes that are
  double scale = 1;                                     // keys to one of the sample

  explicit Model(const std::vector<Sample>& sample, size_t keys)
      : scale(static_cast<double>(keys) / static_cast<double>(sample.size())) {
    for (const Sample& one : sample) {
      const size_t end = std::min(one.size, one.common + kLearnt);
      // What keys share counts as often as they have it where a code is to follow how all of them lie; text is learnt
      // from what is new in each.
      for (size_t at = 0; at < std::min(end, kMostPositions); ++at) positions[at].Add(one.key[at]);
      for (size_t at = one.common; at < end; ++at) {
        bytes[at > 0 ? one.key[at - 1] : 0].Add(one.key[at]);
        all.Add(one.key[at]);
      }
    }
  }

  // Where bytes are all alike, that is said in fewer bytes.
  void ChoosePositions() {
    const Counts none;
    for (Counts& counts : positions) {
      if (!Pays(counts, none)) counts = Counts();
    }
  }

  static double Mean(const Counts& counts) {
    const Costs costs(counts);
    double bits = 0;
    for (unsigned i = 0; i < 256; ++i) {
      if (counts.counts[i] != 0) bits += counts.counts[i] * costs.Of(static_cast<uint8_t>(i));
    }
    return bits / std::max(1u, counts.sum);
  }

  // What its own context saves a key's kept bits, which are not all of its bits, against the bits that it takes.
  bool Pays(const Counts& own, const Counts& instead) const {
    if (own.sum < kLeastSeen) return false;
    const Costs costs(own), others(instead);
    double gain = 0;
    for (unsigned i = 0; i < 256; ++i) {
      if (own.counts[i] == 0) continue;
      const auto byte = static_cast<uint8_t>(i);
      gain += own.counts[i] * (others.Of(byte) - costs.Of(byte));
    }
    return gain * scale * kKept > static_cast<double>(own.Bytes() + 2) * 8;
  }

  // By bytes from the last one on: there are many pairs, and of few bits.
  void SortPairs() {
    std::vector<uint32_t> from(pairs.size());
    for (unsigned shift = 0; shift < 24; shift += 8) {
      from.swap(pairs);
      size_t ends[256] = {};
      for (const uint32_t pair : from) ++ends[pair >> shift & 255];
      size_t sum = 0;
      for (size_t& end : ends) end = std::exchange(sum, sum + end);
      for (const uint32_t pair : from) pairs[ends[pair >> shift & 255]++] = pair;
    }
  }

  void ChooseOrder(const std::vector<Sample>& sample) {
    for (unsigned last = 0; last < 256; ++last) followed[last] = Pays(bytes[last], all);
    for (const Sample& one : sample) {
      const size_t end = std::min(one.size, one.common + kLearnt);
      for (size_t at = one.common; at < end; ++at) {
        const unsigned last = at > 0 ? one.key[at - 1] : 0, before = at > 1 ? one.key[at - 2] : 0;
        if (followed[last]) pairs.push_back(last << 16 | before << 8 | one.key[at]);
      }
    }
    SortPairs();
    for (size_t i = 0; i < pairs.size();) {
      const size_t first = i;
      while (i < pairs.size() && pairs[i] >> 8 == pairs[first] >> 8) ++i;
      if (i - first < kLeastSeen) continue;
      Pair pair;
      pair.bytes = static_cast<uint16_t>(pairs[first] >> 8);
      for (size_t j = first; j < i; ++j) pair.counts.Add(static_cast<uint8_t>(pairs[j]));
      if (Pays(pair.counts, bytes[pair.bytes >> 8])) children.push_back(pair);
    }
  }

  const Counts& At(Kind kind, size_t position, uint8_t last, uint8_t before) const {
    if (kind == Kind::kPosition) return positions[std::min(position, kMostPositions - 1)];
    if (!followed[last]) return all;
    const auto wanted = static_cast<uint16_t>(last << 8 | before);
    const auto found = std::lower_bound(children.begin(), children.end(), wanted,
                                        [](const Pair& pair, uint16_t b) { return pair.bytes < b; });
    return found != children.end() && found->bytes == wanted ? found->counts : bytes[last];
  }

  // What is left of the first `head_bits` of the plain code behind a branch, of 1.
  double Head(Kind kind, const std::vector<Sample>& sample, unsigned head_bits) const {
    double plain = 0, coded = 0;
    const size_t step = std::max<size_t>(1, sample.size() / kJudgedKeys);
    for (size_t i = 0; i < sample.size(); i += step) {
      const Sample& one = sample[i];
      double left = head_bits;
      for (size_t at = one.common; at < one.size && left > 0; ++at) {
        const uint8_t last = at > 0 ? one.key[at - 1] : 0, before = at > 1 ? one.key[at - 2] : 0;
        const double here = std::min(left, at == one.common ? 7.0 - one.common_bits : 8.0);
        coded += Costs(At(kind, at, last, before)).Of(one.key[at]) * here / 8;
        plain += here;
        left -= here;
      }
    }
    return plain == 0 ? 1 : coded / plain;
  }

  KeyCode Make(Kind kind) const {
    KeyCode code;
    std::string encoded = Encode(kind);
    if (!code.DecodeFrom(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size())) return KeyCode();
    code.encoded_ = std::move(encoded);
    return code;
  }

  void Put(const Counts& counts, std::string* out) const {
    // Whether it pays to say how frequent each byte is.
    Counts alike;
    for (unsigned i = 0; i < 256; ++i) {
      if (counts.counts[i] != 0) alike.Add(static_cast<uint8_t>(i));
    }
    const bool flat = counts.members > 1 && !Pays(counts, alike);
    out->push_back(static_cast<char>(counts.members == 256 ? 0 : counts.members));
    out->push_back(static_cast<char>(counts.members == 0 ? kNoCounts : counts.Escape() | (flat ? kFlat : 0)));
    uint8_t set[32] = {};
    uint32_t most = 1;
    for (unsigned i = 0; i < 256; ++i) {
      if (counts.counts[i] == 0) continue;
      most = std::max(most, counts.counts[i]);
      set[i / 8] = static_cast<uint8_t>(set[i / 8] | 1u << i % 8);
      if (counts.members <= 32) out->push_back(static_cast<char>(i));
    }
    if (counts.members > 32) out->append(reinterpret_cast<const char*>(set), sizeof(set));
    for (const uint64_t n : counts.counts) {
      if (n != 0 && !flat) out->push_back(static_cast<char>(std::max<uint64_t>(1, most <= 255 ? n : n * 255 / most)));
    }
  }

  std::string Encode(Kind kind) const {
    std::string out(1, static_cast<char>(kind));
    if (kind == Kind::kPosition) {
      size_t count = positions.size();
      // The last one is that of all positions behind, too.
      while (count > 1 && positions[count - 1].sum == 0 && positions[count - 2].sum == 0) --count;
      out.push_back(static_cast<char>(count));
      for (size_t i = 0; i < count; ++i) Put(positions[i], &out);
      return out;
    }
    Put(all, &out);
    out.push_back(static_cast<char>(std::min<ptrdiff_t>(255, std::count(followed.begin(), followed.end(), true))));
    size_t parents = 0;
    auto child = children.begin();
    for (unsigned last = 0; last < 256; ++last) {
      const auto first = child;
      while (child != children.end() && child->bytes >> 8 == last) ++child;
      if (!followed[last] || ++parents > 255) continue;
      out.push_back(static_cast<char>(last));
      Put(bytes[last], &out);
      PutU16(&out, static_cast<uint16_t>(child - first));
      for (auto it = first; it != child; ++it) out.push_back(static_cast<char>(it->bytes));
      for (auto it = first; it != child; ++it) Put(it->counts, &out);
    }
    return out;
  }
};

std::vector<KeyCode> KeyCode::Learn(const std::vector<Sample>& sample, size_t keys, unsigned head_bits, double* head) {
  std::vector<KeyCode> codes;
  *head = 1;
  if (sample.size() < kLeastLearnt) return codes;
  Model model(sample, keys);
  model.ChoosePositions();
  *head = model.Head(Kind::kPosition, sample, head_bits);
  codes.push_back(model.Make(Kind::kPosition));
  // Where all bytes are about as frequent, what they follow tells nothing; and it takes time.
  if (model.Mean(model.all) < kRandomBits) {
    model.ChooseOrder(sample);
    *head = std::min(*head, model.Head(Kind::kOrder, sample, head_bits));
    codes.push_back(model.Make(Kind::kOrder));
  }
  return codes;
}

KeyCode KeyCode::LearnKind(Kind kind, const std::vector<Sample>& sample, size_t keys) {
  if (kind == Kind::kPlain || sample.size() < kLeastLearnt) return KeyCode();
  Model model(sample, keys);
  if (kind == Kind::kPosition) {
    model.ChoosePositions();
  } else {
    model.ChooseOrder(sample);
  }
  return model.Make(kind);
}

void KeyCode::EncodeTo(std::string* out) const { *out += encoded_; }

void KeyCode::AddContext(const uint8_t* symbols, const uint8_t* weights, unsigned count, unsigned escape) {
  Context context = {};
  context.first = static_cast<uint32_t>(sums_.size());
  context.base = static_cast<uint16_t>(count == 0 ? 256 : 1u << escape);
  uint32_t total = 0, most = 0;
  for (unsigned i = 0; i < count; ++i) {
    context.set[symbols[i] >> 6] |= uint64_t{1} << (symbols[i] & 63);
    total += weights[i];
    if (weights[i] > weights[most]) most = i;
  }
  MakeRanks(context.set, context.ranks);
  const uint32_t room = kWhole - 256u * context.base;
  uint32_t left = room;
  for (unsigned i = 0; i < count; ++i) left -= room * weights[i] / total;
  uint32_t sum = 0;
  sums_.push_back(0);
  for (unsigned i = 0; i < count; ++i) {
    sum += room * weights[i] / total + (i == most ? left : 0);
    sums_.push_back(static_cast<uint16_t>(sum));
  }
  context.least = count == 0 ? 0 : symbols[0];
  context.most = count == 0 ? UINT8_MAX : symbols[count - 1];
  const uint32_t bytes = context.most + 1u - context.least;
  context.slope = (bytes << 16) / (context.base * bytes + (count == 0 ? 0 : room));
  contexts_.push_back(context);
}

bool KeyCode::AddContextFrom(const uint8_t** at, const uint8_t* end) {
  if (end - *at < 2) return false;
  const uint8_t* p = *at;
  const bool none = p[1] == kNoCounts;
  const unsigned count = none ? 0 : (p[0] == 0 ? 256 : p[0]);
  const bool flat = !none && (p[1] & kFlat) != 0;
  const unsigned escape = none ? 0 : p[1] & ~unsigned{kFlat};
  p += 2;
  if (escape > 7 || contexts_.size() >= UINT16_MAX) return false;
  uint8_t symbols[256];
  if (static_cast<size_t>(end - p) < std::min(32u, count) + (flat ? 0 : size_t{count})) return false;
  if (count <= 32) {
    for (unsigned i = 0; i < count; ++i) {
      symbols[i] = p[i];
      if (i > 0 && symbols[i] <= symbols[i - 1]) return false;
    }
  } else {
    unsigned members = 0;
    for (unsigned i = 0; i < 256; ++i) {
      if ((p[i / 8] >> i % 8 & 1) != 0) symbols[members++] = static_cast<uint8_t>(i);
    }
    if (members != count) return false;
  }
  p += std::min(32u, count);
  uint8_t weights[256];
  memset(weights, 1, sizeof(weights));
  if (!flat) {
    memcpy(weights, p, count);
    p += count;
  }
  if (memchr(weights, 0, count) != nullptr) return false;
  AddContext(symbols, weights, count, escape);
  *at = p;
  return true;
}

bool KeyCode::AddParents(const uint8_t** at, const uint8_t* end) {
  parent_of_.assign(256, 0);
  parents_.assign(1, Parent{});
  for (size_t parents = *(*at)++; parents > 0; --parents) {
    Parent parent = {};
    if (*at == end) return false;
    const uint8_t last = *(*at)++;
    parent.context = static_cast<uint16_t>(contexts_.size());
    if (!AddContextFrom(at, end) || end - *at < 2) return false;
    const size_t children = LoadU16(*at);
    *at += 2;
    if (children > 256 || static_cast<size_t>(end - *at) < children) return false;
    const uint8_t* const before = *at;
    for (size_t i = 0; i < children; ++i) {
      if (i > 0 && before[i] <= before[i - 1]) return false;
      parent.set[before[i] >> 6] |= uint64_t{1} << (before[i] & 63);
    }
    MakeRanks(parent.set, parent.ranks);
    *at += children;
    parent.first_child = static_cast<uint16_t>(contexts_.size());
    for (size_t i = 0; i < children; ++i) {
      if (!AddContextFrom(at, end)) return false;
    }
    parent_of_[last] = static_cast<uint8_t>(parents_.size());
    parents_.push_back(parent);
  }
  return true;
}

bool KeyCode::DecodeFrom(const uint8_t* bytes, size_t size) {
  *this = KeyCode();
  if (size == 0) return true;
  const uint8_t* at = bytes;
  const uint8_t* const end = bytes + size;
  const auto kind = static_cast<Kind>(*at++);
  if (kind == Kind::kPosition) {
    if (at == end) return false;
    positions_ = *at++;
    if (positions_ == 0 || positions_ > kMostPositions) return false;
    for (size_t i = 0; i < positions_; ++i) {
      if (!AddContextFrom(&at, end)) return false;
    }
  } else if (kind == Kind::kOrder) {
    if (!AddContextFrom(&at, end) || at == end || !AddParents(&at, end)) return false;
  } else {
    return false;
  }
  if (at != end) return false;
  kind_ = kind;
  return true;
}

size_t KeyCode::ContextOf(uint8_t last, uint8_t before) const {
  const Parent& parent = parents_[parent_of_[last]];
  if (!Has(parent.set, before)) return parent.context;
  return parent.first_child + Rank(parent.set, parent.ranks, before);
}

// The frequencies of all bytes below `byte`.
uint32_t KeyCode::Sum(const Context& context, unsigned byte) const {
  return context.base * byte + sums_[context.first + Rank(context.set, context.ranks, byte)];
}

// And its own.
KeyCode::Share KeyCode::ShareOf(const Context& context, unsigned byte) const {
  const uint16_t* const sums = &sums_[context.first + Rank(context.set, context.ranks, byte)];
  return {context.base * byte + sums[0],
          context.base + (Has(context.set, byte) ? static_cast<uint32_t>(sums[1] - sums[0]) : 0)};
}

// The byte whose part holds `sum`: first guessed, as if the members were equally frequent.
uint8_t KeyCode::Find(const Context& context, uint32_t sum) const {
  const uint32_t before = context.base * uint32_t{context.least};
  const uint64_t behind = sum > before ? sum - before : 0;
  const unsigned guess = context.least + static_cast<unsigned>(behind * context.slope >> 16);
  unsigned low = 0, high = 256;
  if (guess < high) {
    if (Sum(context, guess) > sum) {
      high = guess;
    } else {
      if (guess == UINT8_MAX || Sum(context, guess + 1) > sum) return static_cast<uint8_t>(guess);
      low = guess + 1;
    }
  }
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (Sum(context, middle) <= sum) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return static_cast<uint8_t>(low);
}

KeyBits KeyCode::Encode(const char* key, size_t size, char* buffer) const {
  if (plain()) {
    if (size != 0) memcpy(buffer, key, size);
    memset(buffer + size, 0, kKeyBitsGuard);
    return {reinterpret_cast<const uint8_t*>(buffer), size};
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(key);
  auto* const out = reinterpret_cast<uint8_t*>(buffer);
  CodedSoFar coded = {0, UINT64_MAX, 0, 0};
  if (kind_ == Kind::kPosition) {
    const Context* context = contexts_.data();
    const Context* const last_context = context + positions_ - 1;
    for (size_t i = 0; i < size; ++i) {
      const Share share = ShareOf(*context, bytes[i]);
      coded.Add(share.below, share.own, out);
      if (context != last_context) ++context;
    }
    return coded.Finish(out);
  }
  uint8_t last = 0, before = 0;
  for (size_t i = 0; i < size; ++i) {
    const Share share = ShareOf(contexts_[ContextOf(last, before)], bytes[i]);
    coded.Add(share.below, share.own, out);
    before = last;
    last = bytes[i];
  }
  return coded.Finish(out);
}

// Narrows the range to a byte's part; what is certain by then is written behind what is written to `out` so far.
inline void KeyCode::CodedSoFar::Add(uint32_t below, uint32_t own, uint8_t* out) {
  const uint64_t part = range >> 16;
  const uint64_t add = part * below;
  low += add;
  if (low < add) {
    for (uint8_t* carry = out + written - 1; ++*carry == 0; --carry) {
    }
    ++word;
  }
  range = part * own;
  if (range >> 32 == 0) {
    word = static_cast<uint32_t>(low >> 32);
    StoreBigEndian32(out + written, word);
    written += 4;
    low <<= 32;
    range <<= 32;
  }
}

inline KeyBits KeyCode::CodedSoFar::Finish(uint8_t* out) const {
  StoreBigEndian32(out + written, static_cast<uint32_t>(low >> 32));
  StoreBigEndian32(out + written + 4, static_cast<uint32_t>(low));
  memset(out + written + 8, 0, kKeyBitsGuard);
  return {out, written + size_t{8}};
}

KeyCode::Encoder::Encoder(const KeyCode* code) : code_(code) {
  if (code_->plain()) return;
  states_.resize(kMostStates);
  states_[0] = {0, UINT64_MAX, 0, 0};
  shares_.resize(code_->contexts_.size() << 8);
  Share16* share = shares_.data();
  for (const Context& context : code_->contexts_) {
    const uint16_t* sum = &code_->sums_[context.first];
    for (unsigned byte = 0; byte < 256; ++byte, ++share) {
      const bool has = Has(context.set, byte);
      share->below = static_cast<uint16_t>(context.base * byte + sum[0]);
      share->own = static_cast<uint16_t>(context.base + (has ? sum[1] - sum[0] : 0));
      sum += has ? 1 : 0;
    }
  }
  if (code_->kind_ != Kind::kOrder) return;
  contexts_.resize(size_t{1} << 16);
  for (unsigned last = 0; last < 256; ++last) {
    const Parent& parent = code_->parents_[code_->parent_of_[last]];
    uint16_t* const contexts = &contexts_[last << 8];
    std::fill_n(contexts, 256, parent.context);
    uint16_t child = parent.first_child;
    for (unsigned before = 0; before < 256; ++before) {
      if (Has(parent.set, before)) contexts[before] = child++;
    }
  }
}

KeyBits KeyCode::Encoder::Encode(const char* key, size_t size, size_t common, char* buffer) {
  if (code_->plain()) return code_->Encode(key, size, buffer);
  size_t at = std::min({common, size, known_});
  CodedSoFar coded = states_[at];
  auto* const out = reinterpret_cast<uint8_t*>(buffer);
  if (coded.written > 0) {
    memmove(out, before_, coded.written);
    // The bytes behind may have carried into those before, once at most, since all of a state's keys lie within its
    // range.
    if (static_cast<uint32_t>(BigEndian(out + coded.written - 4) >> 32) != coded.word) {
      for (uint8_t* borrow = out + coded.written - 1; (*borrow)-- == 0; --borrow) {
      }
    }
  }
  before_ = out;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(key);
  const auto code = [&](const Share16* shares) {
    coded.Add(shares[bytes[at]].below, shares[bytes[at]].own, out);
    if (++at < kMostStates) states_[at] = coded;
  };
  if (code_->kind_ == Kind::kPosition) {
    const size_t last_position = code_->positions_ - 1;
    while (at < size) code(&shares_[std::min(at, last_position) << 8]);
  } else {
    unsigned before = at > 1 ? bytes[at - 2] : 0, last = at > 0 ? bytes[at - 1] : 0;
    while (at < size) {
      const unsigned byte = bytes[at];
      code(&shares_[size_t{contexts_[last << 8 | before]} << 8]);
      before = last;
      last = byte;
    }
  }
  known_ = std::min(size, kMostStates - 1);
  return coded.Finish(out);
}

void KeyCode::Decode(const KeyBits& data, uint64_t bits, const char* near, size_t near_size, std::string* out) const {
  if (plain()) {
    out->append(reinterpret_cast<const char*>(data.data), std::min<uint64_t>(data.bytes, (bits + 7) / 8));
    return;
  }
  uint64_t value = data.Window(0), range = UINT64_MAX;  // what is left of the bits within the part of the bytes so far
  uint64_t next = 64;
  uint8_t last = 0, before = 0;
  bool along = true;
  for (size_t i = 0; value != 0 || next < bits; ++i) {
    const Context& context = contexts_[ContextAt(i, last, before)];
    const uint64_t part = range >> 16;
    uint8_t byte = 0;
    Share share = {0, 0};
    along = along && i < near_size;
    if (along) {
      byte = static_cast<uint8_t>(near[i]);
      share = ShareOf(context, byte);
      along = value >= part * share.below && value - part * share.below < part * share.own;
    }
    if (!along) {
      // The parts do not fill the range: what is behind them all belongs to none, and all keys before are below it.
      byte = Find(context, static_cast<uint32_t>(std::min<uint64_t>(value / part, kWhole - 1)));
      share = ShareOf(context, byte);
    }
    out->push_back(static_cast<char>(byte));
    value -= part * share.below;
    range = part * share.own;
    if (value >= range) return;
    if (range >> 32 == 0) {
      if (next >= bits + 64) return;
      value = value << 32 | data.Window(next) >> 32;
      range <<= 32;
      next += 32;
    }
    // The bytes that follow tell less than the bits do.
    if (!along && next >= bits + BitWidth(range) + 8) return;
    before = last;
    last = byte;
  }
}

bool KeyCode::DecodeAbove(const KeyBits& data, uint64_t bits, const char* near, size_t near_size,
                          std::string* out) const {
  const size_t begin = out->size();
  Decode(data, bits, near, near_size, out);
  // These bits are those of the bytes.
  if (plain()) return true;
  // The bits lie in the part of what was decoded, or behind all of that: the next key of its length is above.
  while (out->size() > begin && static_cast<uint8_t>(out->back()) == UINT8_MAX) out->pop_back();
  if (out->size() == begin) return false;
  out->back() = static_cast<char>(out->back() + 1);
  return true;
}

}  // namespace cairn
