// A prefix code of bytes that keeps their order: a key becomes a string of bits, and of two keys the smaller one has
// the smaller bits. Digits, letters and separators take as few bits as they are rare or frequent, so that what follows
// in a key lies evenly in the numbers that its bits spell.
//
// Invariant: with infinitely many 0 bits behind each, Encode(a) <= Encode(b) if a <= b. Keys that differ in trailing 0
// bytes alone have equal bits.
//
// Thread-safety: immutable once made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

// Bits that continue with 0 forever. Bit i is bit 7 - i % 8 of byte i / 8; behind the bytes lie kKeyBitsGuard bytes of
// 0.
struct KeyBits {
  const uint8_t* data = nullptr;
  size_t bytes = 0;

  // The 64 bits from `bit` on, the first one highest.
  uint64_t Window(uint64_t bit) const;
};

constexpr size_t kKeyBitsGuard = 16;

// Length of the common prefix; UINT64_MAX if all bits are equal.
uint64_t CommonBits(const KeyBits& a, const KeyBits& b);

class ByteCode {
 public:
  static constexpr size_t kEncodedBytes = 128;

  // Every byte is its own eight bits.
  ByteCode();
  // A code for bytes that occur as often as `weights` say.
  static ByteCode ForWeights(const uint64_t weights[256]);

  // kEncodedBytes bytes. Decode answers false if they are no code.
  void EncodeTo(std::string* out) const;
  bool DecodeFrom(const uint8_t* bytes);

  bool plain() const { return plain_; }
  unsigned length(uint8_t byte) const { return lengths_[byte]; }

  // Writes the key's bits and the guard behind them to `buffer`, which has EncodedBytes(size) bytes.
  static size_t EncodedBytes(size_t size) { return 2 * size + 8 + kKeyBitsGuard; }
  KeyBits Encode(const char* key, size_t size, char* buffer) const;

  // How many of the key's first bytes have all their bits within its first `bits` bits; *used: how many bits they have.
  size_t BytesWithin(const char* key, size_t size, uint64_t bits, uint64_t* used) const;

  // Appends the shortest bytes whose bits begin with the first `bits` bits of `data` and go on with 0.
  void Decode(const KeyBits& data, uint64_t bits, std::string* out) const;

 private:
  static constexpr unsigned kMaxLength = 16;

  void SetLengths(const uint8_t lengths[256]);

  bool plain_ = true;
  uint8_t lengths_[256];
  uint16_t codes_[256];  // the code's bits, the first one highest
  uint8_t decode_[256];  // by the next 8 bits, the smallest byte that it can be
};

}  // namespace cairn
