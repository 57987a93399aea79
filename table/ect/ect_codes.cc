#include "table/ect/ect_codes.h"

#include <algorithm>
#include <queue>

namespace cairn {

namespace {

constexpr uint32_t kWindow = 1u << EctCodes::kWindowBits;

// Weights of left = 0 (both one-sided cases) ... n - 1, summing to about 2^32. No weight is below 2^16, which keeps
// codes short.
std::vector<uint64_t> Weights(uint32_t n) {
  std::vector<uint64_t> weights(n);
  unsigned __int128 binomial = 1;  // C(n, left), below 2^120
  for (uint32_t left = 0; left < n; ++left) {
    // 2 * C(n, 0) for the two one-sided cases.
    const unsigned __int128 cases = left == 0 ? 2 : binomial;
    const uint64_t weight =
        n > 32 ? static_cast<uint64_t>(cases >> (n - 32)) : static_cast<uint64_t>(cases) << (32 - n);
    weights[left] = std::max<uint64_t>(weight, 1 << 16);
    // C(n, left + 1) = C(n, left) * (n - left) / (left + 1), without a product that overflows.
    const unsigned __int128 whole = binomial / (left + 1), rest = binomial % (left + 1);
    binomial = whole * (n - left) + rest * (n - left) / (left + 1);
  }
  return weights;
}

// Code lengths; of equal weights the one created first is merged first.
std::vector<uint32_t> HuffmanLengths(const std::vector<uint64_t>& weights) {
  const size_t n = weights.size();
  std::vector<size_t> parent(2 * n - 1, 0);
  using Item = std::pair<uint64_t, size_t>;  // weight, order of creation
  std::priority_queue<Item, std::vector<Item>, std::greater<Item>> queue;
  for (size_t i = 0; i < n; ++i) queue.push({weights[i], i});
  size_t next = n;
  while (queue.size() > 1) {
    const Item a = queue.top();
    queue.pop();
    const Item b = queue.top();
    queue.pop();
    parent[a.second] = parent[b.second] = next;
    queue.push({a.first + b.first, next++});
  }
  std::vector<uint32_t> depth(2 * n - 1, 0);
  for (size_t i = 2 * n - 2; i-- > 0;) depth[i] = depth[parent[i]] + 1;
  depth.resize(n);
  return depth;
}

// Of the lowest 1 to 32 bits.
uint32_t ReverseBits(uint32_t v, unsigned bits) {
  v = __builtin_bswap32(v);
  v = (v & 0x0f0f0f0f) << 4 | (v >> 4 & 0x0f0f0f0f);
  v = (v & 0x33333333) << 2 | (v >> 2 & 0x33333333);
  v = (v & 0x55555555) << 1 | (v >> 1 & 0x55555555);
  return v >> (32 - bits);
}

}  // namespace

const EctCodes* EctCodes::Get(uint32_t hmax) {
  static std::once_flag once[kMaxHmax + 1];
  static const EctCodes* codes[kMaxHmax + 1];
  std::call_once(once[hmax], [hmax] { codes[hmax] = new EctCodes(hmax); });
  return codes[hmax];
}

EctCodes::EctCodes(uint32_t hmax)
    : hmax_(hmax), encode_((hmax + 1) * (hmax + 2) / 2), decode_((kMaxHmax + 1) * kWindow), long_codes_(hmax + 1) {
  for (uint32_t n = 3; n <= hmax; ++n) MakeHuffman(n);
  for (uint32_t n = 3; n <= kMaxHmax; ++n) MakeDecodeTable(n);
}

void EctCodes::MakeHuffman(uint32_t n) {
  const std::vector<uint32_t> lengths = HuffmanLengths(Weights(n));
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return lengths[a] < lengths[b]; });
  uint32_t canonical = 0, length = lengths[order[0]];
  for (uint32_t left : order) {
    canonical <<= lengths[left] - length;
    length = lengths[left];
    if (length > kWindowBits) {
      const uint32_t from = canonical << (kMaxHuffmanBits - length);
      long_codes_[n].push_back({from, static_cast<uint16_t>(length), static_cast<uint16_t>(left)});
    }
    encode_[n * (n - 1) / 2 + left] = {ReverseBits(canonical++, length), length};
  }
}

void EctCodes::MakeDecodeTable(uint32_t n) {
  uint16_t* table = &decode_[n * kWindow];
  if (n <= hmax_) {
    for (uint32_t left = 0; left < n; ++left) {
      const Code& code = encode_[n * (n - 1) / 2 + left];
      if (code.length > kWindowBits) continue;
      for (uint32_t w = code.bits; w < kWindow; w += 1u << code.length) {
        table[w] = static_cast<uint16_t>(left << 5 | code.length);
      }
    }
    return;
  }
  for (uint32_t w = 1; w < kWindow; ++w) {
    uint8_t bytes[32] = {static_cast<uint8_t>(w), static_cast<uint8_t>(w >> 8)};
    uint64_t at = 0;
    const uint64_t left = DecodeLarge(bytes, n, &at);
    if (at <= kWindowBits && left < n) table[w] = static_cast<uint16_t>(left << 5 | at);
  }
}

void EctCodes::MakeSkipTable() const {
  std::call_once(skip_made_, [this] {
    skip_.resize((kMaxSkipLeaves + 1) * kWindow);
    for (uint32_t n = 3; n <= kMaxSkipLeaves; ++n) MakeSkipTable(n);
  });
}

void EctCodes::MakeSkipTable(uint32_t n) const {
  for (uint32_t w = 0; w < kWindow; ++w) {
    uint32_t best = 0, used = 0, pairs = 0;
    std::vector<uint32_t> pending = {n};  // the next one last
    while (!pending.empty() && pending.size() <= 8) {
      const uint32_t size = pending.back();
      const uint16_t entry = decode_[size * kWindow + (w >> used)];
      const uint32_t length = entry & 31, left = entry >> 5;
      if (entry == 0 || used + length > kWindowBits) break;
      used += length;
      pending.pop_back();
      for (uint32_t part : {size - left, left}) {
        if (part > 2) pending.push_back(part);
        if (part == 2) ++pairs;
      }
      if (pending.size() <= 2 && pairs < 32) {
        const uint32_t count = static_cast<uint32_t>(pending.size());
        const uint32_t first = count > 0 ? pending[count - 1] : 0;
        const uint32_t second = count > 1 ? pending[0] : 0;
        best = used | (8 * count) << 6 | pairs << 11 | first << 16 | second << 24;
      }
    }
    skip_[n * kWindow + w] = best;
  }
}

uint64_t EctCodes::DecodeLong(uint64_t window, uint64_t n, uint64_t* at) const {
  const uint32_t bits = ReverseBits(static_cast<uint32_t>(window), kMaxHuffmanBits);
  const std::vector<LongCode>& codes = long_codes_[n];
  const auto after = std::upper_bound(codes.begin(), codes.end(), bits,
                                      [](uint32_t b, const LongCode& code) { return b < code.from; });
  if (after == codes.begin()) return UINT64_MAX;  // not reached: Huffman codes are complete
  const LongCode& code = *(after - 1);
  *at += code.length;
  return code.left;
}

}  // namespace cairn
