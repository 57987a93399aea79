#include "table/byte_code.h"

#include <algorithm>
#include <cstring>

#include "table/bits.h"

namespace cairn {

namespace {

uint64_t BigEndian(const uint8_t* p) { return __builtin_bswap64(LoadU64(p)); }

// Gives the leaves [begin, end) of a tree their depths; halves the weight at every node.
void Halve(const uint64_t* sums, unsigned begin, unsigned end, unsigned depth, unsigned max_depth, uint8_t* lengths) {
  if (end - begin == 1) {
    lengths[begin] = static_cast<uint8_t>(depth);
    return;
  }
  const unsigned room = 1u << (max_depth - depth - 1);  // leaves that fit below each child
  const uint64_t middle = sums[begin] + (sums[end] - sums[begin]) / 2;
  unsigned split = static_cast<unsigned>(std::lower_bound(sums + begin + 1, sums + end, middle) - sums);
  if (split > begin + 1 && middle - sums[split - 1] < sums[split] - middle) --split;
  const unsigned least = end - begin > room ? end - room : begin + 1;
  const unsigned most = std::min(end - 1, begin + room);
  split = std::clamp(split, least, most);
  Halve(sums, begin, split, depth + 1, max_depth, lengths);
  Halve(sums, split, end, depth + 1, max_depth, lengths);
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
  const size_t bytes = std::max(a.bytes, b.bytes);
  for (size_t at = 0; at < bytes; at += 8) {
    const uint64_t x = at < a.bytes ? BigEndian(a.data + at) : 0;
    const uint64_t y = at < b.bytes ? BigEndian(b.data + at) : 0;
    if (x != y) return at * 8 + static_cast<unsigned>(__builtin_clzll(x ^ y));
  }
  return UINT64_MAX;
}

ByteCode::ByteCode() {
  uint8_t lengths[256];
  memset(lengths, 8, sizeof(lengths));
  SetLengths(lengths);
}

ByteCode ByteCode::ForWeights(const uint64_t weights[256]) {
  uint64_t sums[257];
  sums[0] = 0;
  for (unsigned i = 0; i < 256; ++i) sums[i + 1] = sums[i] + weights[i] + 1;
  uint8_t lengths[256];
  Halve(sums, 0, 256, 0, kMaxLength, lengths);
  ByteCode code;
  code.SetLengths(lengths);
  return code;
}

void ByteCode::SetLengths(const uint8_t lengths[256]) {
  plain_ = true;
  uint32_t next = 0;
  for (unsigned i = 0; i < 256; ++i) {
    lengths_[i] = lengths[i];
    codes_[i] = static_cast<uint16_t>(next);
    next += 1u << (kMaxLength - lengths[i]);
    plain_ &= lengths[i] == 8;
  }
  unsigned byte = 0;
  for (unsigned i = 0; i < 256; ++i) {
    while (byte < 255 && codes_[byte + 1] <= i << 8) ++byte;
    decode_[i] = static_cast<uint8_t>(byte);
  }
}

void ByteCode::EncodeTo(std::string* out) const {
  for (unsigned i = 0; i < 256; i += 2) {
    out->push_back(static_cast<char>((lengths_[i] - 1) | (lengths_[i + 1] - 1) << 4));
  }
}

bool ByteCode::DecodeFrom(const uint8_t* bytes) {
  uint8_t lengths[256];
  uint32_t next = 0;
  for (unsigned i = 0; i < 256; ++i) {
    lengths[i] = static_cast<uint8_t>((bytes[i / 2] >> (i % 2 * 4) & 15) + 1);
    const uint32_t size = 1u << (kMaxLength - lengths[i]);
    // A code begins at a multiple of its size, or it would be the beginning of none.
    if (next % size != 0) return false;
    next += size;
  }
  if (next != 1u << kMaxLength) return false;
  SetLengths(lengths);
  return true;
}

KeyBits ByteCode::Encode(const char* key, size_t size, char* buffer) const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(key);
  if (plain_) {
    if (size != 0) memcpy(buffer, key, size);
    memset(buffer + size, 0, kKeyBitsGuard);
    return {reinterpret_cast<const uint8_t*>(buffer), size};
  }
  char* at = buffer;
  uint64_t pending = 0;  // the highest `held` bits
  unsigned held = 0;
  for (size_t i = 0; i < size; ++i) {
    pending |= uint64_t{codes_[bytes[i]]} << 48 >> held;
    held += lengths_[bytes[i]];
    if (held < 32) continue;
    const uint32_t whole = __builtin_bswap32(static_cast<uint32_t>(pending >> 32));
    memcpy(at, &whole, sizeof(whole));
    at += sizeof(whole);
    pending <<= 32;
    held -= 32;
  }
  const uint64_t rest = __builtin_bswap64(pending);
  memcpy(at, &rest, sizeof(rest));
  at += (held + 7) / 8;
  memset(at, 0, kKeyBitsGuard);
  return {reinterpret_cast<const uint8_t*>(buffer), static_cast<size_t>(at - buffer)};
}

size_t ByteCode::BytesWithin(const char* key, size_t size, uint64_t bits, uint64_t* used) const {
  if (plain_) {
    const size_t bytes = std::min<size_t>(size, bits / 8);
    *used = bytes * 8;
    return bytes;
  }
  *used = 0;
  for (size_t i = 0; i < size; ++i) {
    const unsigned length = lengths_[static_cast<uint8_t>(key[i])];
    if (*used + length > bits) return i;
    *used += length;
  }
  return size;
}

void ByteCode::Decode(const KeyBits& data, uint64_t bits, std::string* out) const {
  for (uint64_t at = 0; at < bits && at < data.bytes * 8;) {
    uint64_t window = data.Window(at) >> 48;
    if (bits - at < 16) window &= ~LowMask(static_cast<unsigned>(16 - (bits - at)));
    unsigned byte = decode_[window >> 8];
    while (byte < 255 && codes_[byte + 1] <= window) ++byte;
    out->push_back(static_cast<char>(byte));
    at += lengths_[byte];
  }
}

}  // namespace cairn
