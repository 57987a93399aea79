// An order-preserving entropy code of keys: of two keys the smaller one has the smaller bits, and what is the same in
// most keys takes next to none, so that the bits of keys lie evenly. It is an arithmetic coder with fixed
// frequencies, which depend on where in the key a byte stands (rows, composites), or on the two bytes before it (text).
//
// Invariant: with infinitely many 0 bits behind each, Encode(a) <= Encode(b) if a <= b. Keys that differ in trailing 0
// bytes alone have equal bits, and no others have.
//
// Thread-safety: immutable once made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "util/prefetch.h"

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

class KeyCode {
  struct CodedSoFar;
  struct Share16;

 public:
  // What a code is learnt from: keys' bytes from where they leave the key before on.
  struct Sample {
    const uint8_t* key;  // behind what all keys share
    size_t size;
    size_t common;         // with the key before
    unsigned common_bits;  // in the byte behind those
  };

  enum class Kind : uint8_t { kPlain, kOrder, kPosition };

  // Every byte is its own eight bits.
  KeyCode() = default;
  // Codes for `keys` keys like those of the sample. *head: what is left of `head_bits` of the plain code's bits behind
  // where a key leaves the one before, of 1.
  static std::vector<KeyCode> Learn(const std::vector<Sample>& sample, size_t keys, unsigned head_bits, double* head);

  // The code of one kind alone.
  static KeyCode LearnKind(Kind kind, const std::vector<Sample>& sample, size_t keys);

  // Appends; a plain code is no bytes. Decode answers false if they are no code.
  void EncodeTo(std::string* out) const;
  bool DecodeFrom(const uint8_t* bytes, size_t size);

  bool plain() const { return kind_ == Kind::kPlain; }
  Kind kind() const { return kind_; }
  size_t bytes() const { return encoded_.size(); }
  size_t memory() const {
    return contexts_.capacity() * sizeof(Context) + sums_.capacity() * sizeof(uint16_t) + parent_of_.capacity() +
           parents_.capacity() * sizeof(Parent);
  }

  // Writes the key's bits and the guard behind them to `buffer`, which has EncodedBytes(size) bytes.
  size_t EncodedBytes(size_t size) const { return (plain() ? size : 3 * size + 16) + kKeyBitsGuard; }
  KeyBits Encode(const char* key, size_t size, char* buffer) const;
  // Asks the memory for what Encode() and Decode() begin with.
  void PrefetchTables() const {
    if (plain()) return;
    Prefetch(contexts_.data(), sizeof(Context));
    Prefetch(sums_.data(), kMostPrefetched);
    if (kind_ != Kind::kOrder) return;
    Prefetch(parents_.data(), sizeof(Parent));
    Prefetch(parent_of_.data(), kMostPrefetched);
  }

  // Encodes keys in order, and what a key begins with as the key before does only once.
  class Encoder {
   public:
    // `code` outlives this.
    explicit Encoder(const KeyCode* code);
    // As KeyCode::Encode. `common`: how many bytes this key has in common with the one before, whose bits are still
    // where they were written, perhaps at the same place.
    KeyBits Encode(const char* key, size_t size, size_t common, char* buffer);
    const KeyCode& code() const { return *code_; }

   private:
    const KeyCode* code_;
    const uint8_t* before_ = nullptr;
    std::vector<CodedSoFar> states_;  // before each of the last key's first bytes
    size_t known_ = 0;                // how many of these are
    std::vector<uint16_t> contexts_;  // last << 8 | before, if the order counts
    std::vector<Share16> shares_;     // context << 8 | byte
  };

  // Appends a key that is not above any whose bits are at or above the first `bits` bits of `data`, and as near to them
  // as whole bytes are. It is quick if it begins as `near` does.
  void Decode(const KeyBits& data, uint64_t bits, const char* near, size_t near_size, std::string* out) const;
  // The same from above: appends a key above all whose bits are below these bits, behind which 0 bits follow. False,
  // and the end of *out is undefined, if there is no key so high.
  bool DecodeAbove(const KeyBits& data, uint64_t bits, const char* near, size_t near_size, std::string* out) const;

 private:
  // Frequencies of bytes, of 2^16: every byte has `base`, those in `set` more.
  struct Context {
    uint64_t set[4];
    uint8_t ranks[4];  // members of the words before
    uint16_t base;
    uint8_t least, most;  // members; all bytes if there are none
    uint32_t first;       // of its sums in sums_: of the weights of the members before the first, the second ... all
    uint32_t slope;       // bytes between them for each of their frequencies, in 2^-16
  };
  // Frequencies of what is below a byte, and of it.
  struct Share {
    uint32_t below, own;
  };
  // The same, in half of the room: below is less than 2^16, and so is own, since every other byte has some.
  struct Share16 {
    uint16_t below, own;
  };
  // The coder before some byte of a key.
  struct CodedSoFar {
    uint64_t low, range;
    uint32_t written;  // bytes
    uint32_t word;     // the last four of them

    void Add(uint32_t below, uint32_t own, uint8_t* out);
    KeyBits Finish(uint8_t* out) const;
  };
  // What follows a byte: the contexts of the two bytes, for some bytes before it.
  struct Parent {
    uint64_t set[4];
    uint8_t ranks[4];
    uint16_t context;
    uint16_t first_child;
  };
  struct Model;

  static constexpr size_t kMostPrefetched = 128;

  void AddContext(const uint8_t* symbols, const uint8_t* weights, unsigned count, unsigned escape);
  bool AddContextFrom(const uint8_t** at, const uint8_t* end);
  bool AddParents(const uint8_t** at, const uint8_t* end);
  size_t ContextAt(size_t position, uint8_t last, uint8_t before) const {
    return kind_ == Kind::kPosition ? (position < positions_ ? position : positions_ - 1) : ContextOf(last, before);
  }
  size_t ContextOf(uint8_t last, uint8_t before) const;
  uint32_t Sum(const Context& context, unsigned byte) const;
  Share ShareOf(const Context& context, unsigned byte) const;
  uint8_t Find(const Context& context, uint32_t sum) const;

  Kind kind_ = Kind::kPlain;
  size_t positions_ = 0;
  std::vector<Context> contexts_;
  std::vector<uint16_t> sums_;
  std::vector<uint8_t> parent_of_;  // 256, if the order counts
  std::vector<Parent> parents_;     // the first one is that of bytes that have no context
  std::string encoded_;
};

// A target's bits, in place if it is short.
class EncodedKey {
 public:
  EncodedKey() = default;
  EncodedKey(const EncodedKey&) = delete;
  EncodedKey& operator=(const EncodedKey&) = delete;

  void Encode(const KeyCode& code, const char* key, size_t size) {
    char* buffer = local_;
    if (code.EncodedBytes(size) > sizeof(local_)) {
      heap_.resize(code.EncodedBytes(size));
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

}  // namespace cairn
