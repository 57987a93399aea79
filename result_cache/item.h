// An item as it lies in a log, in memory or in a file (docs/design/result_cache.md, Bytes of the file): words of 8
// bytes, the first of them on a boundary of 8.
//
// Optimistic readers copy words that a writer may be overwriting, and find out afterwards (result_cache/hash_index.h,
// (1)). So both sides use relaxed atomic words, which cost the same as others; what is read may be mixed, and is never
// undefined.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cairn::cache {

using Word = uint64_t;

struct ItemHeader {
  enum Flag : uint32_t {
    kExpires = 1,
    kAbsent = 2,   // the answer is that there is no such key
    kChecked = 4,  // it has a checksum; 0: the item is dead, no index has it
    kStamped = 8,  // and a stamp: the state that the answer belongs to
  };
  static constexpr size_t kMaxKey = 0xffff;
  static constexpr size_t kMaxValue = 0xffff;
  static constexpr uint32_t kMaxSpace = (1 << 20) - 1;

  uint32_t key_bytes = 0;
  uint32_t value_bytes = 0;
  uint32_t space = 0;
  uint32_t flags = 0;

  static ItemHeader Decode(Word word) {
    return {static_cast<uint32_t>(word & 0xffff), static_cast<uint32_t>(word >> 16 & 0xffff),
            static_cast<uint32_t>(word >> 32 & kMaxSpace), static_cast<uint32_t>(word >> 52 & 0xf)};
  }
  Word Encode() const { return Word{key_bytes} | Word{value_bytes} << 16 | Word{space} << 32 | Word{flags} << 52; }
  bool expires() const { return (flags & kExpires) != 0; }
  bool absent() const { return (flags & kAbsent) != 0; }
  bool checked() const { return (flags & kChecked) != 0; }
  bool stamped() const { return (flags & kStamped) != 0; }
  size_t stamp_at() const { return size_t{1} + (expires() ? 1 : 0); }
  // Words before the key.
  size_t head_words() const { return stamp_at() + (stamped() ? 1 : 0) + (checked() ? 1 : 0); }
  size_t words() const { return head_words() + (size_t{key_bytes} + value_bytes + 7) / 8; }
  size_t bytes() const { return words() * sizeof(Word); }
};

// An item as the holder of the lock sees it, or one on its way.
struct Item {
  std::string_view key;
  std::string_view value;
  uint64_t expiry = 0;  // 0: never
  uint32_t space = 0;
  bool absent = false;
  bool checked = false;
  bool stamped = false;
  uint64_t stamp = 0;

  ItemHeader header() const {
    return {static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size()), space,
            (expiry != 0 ? ItemHeader::kExpires : 0u) | (absent ? ItemHeader::kAbsent : 0u) |
                (checked ? ItemHeader::kChecked : 0u) | (stamped ? ItemHeader::kStamped : 0u)};
  }
};

inline Word LoadWord(const Word* word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
inline void StoreWord(Word* word, Word value) { __atomic_store_n(word, value, __ATOMIC_RELAXED); }

// What the holder of the lock reads at `words`.
inline Item ViewItem(const Word* words) {
  const ItemHeader header = ItemHeader::Decode(words[0]);
  const char* const key = reinterpret_cast<const char*>(words + header.head_words());
  return {{key, header.key_bytes},
          {key + header.key_bytes, header.value_bytes},
          header.expires() ? words[1] : 0,
          header.space,
          header.absent(),
          header.checked(),
          header.stamped(),
          header.stamped() ? words[header.stamp_at()] : 0};
}

inline void CopyWords(Word* to, const Word* from, size_t words) {
  for (size_t i = 0; i < words; ++i) StoreWord(to + i, from[i]);
}

// The checksum of an item that has one comes last: until all of it is there, it is wrong. That of one with a stamp
// holds only with `salt`, by which the place and the time in which it was stored go into it.
void StoreItem(Word* to, const Item& item, Word salt = 0);

// False: the item is dead or damaged, or has no checksum. REQUIRES: its words are there to read.
bool ChecksumIsRight(const Word* words, Word salt = 0);
// By MarkDead. REQUIRES: as of ChecksumIsRight.
inline bool IsDead(const Word* words) {
  const ItemHeader header = ItemHeader::Decode(words[0]);
  return header.checked() && words[header.head_words() - 1] == 0;
}
// No single bit that is damaged brings it back.
inline void MarkDead(Word* words) {
  const ItemHeader header = ItemHeader::Decode(LoadWord(words));
  if (header.checked()) StoreWord(words + header.head_words() - 1, 0);
}

// Fewer bytes than a word has, and zeros above them.
inline Word RestOf(const char* from, size_t bytes) {
  Word rest = 0;
  if ((bytes & 1) != 0) rest = static_cast<unsigned char>(from[bytes - 1]);
  if ((bytes & 2) != 0) {
    uint16_t half = 0;
    std::memcpy(&half, from + (bytes & 4), sizeof(half));
    rest = rest << 16 | half;
  }
  if ((bytes & 4) != 0) {
    uint32_t half = 0;
    std::memcpy(&half, from, sizeof(half));
    rest = rest << 32 | half;
  }
  return rest;
}

// Whether the bytes at `words` are `bytes`.
inline bool SameBytes(const Word* words, std::string_view bytes) {
  size_t left = bytes.size();
  const char* expected = bytes.data();
  for (; left >= sizeof(Word); left -= sizeof(Word), expected += sizeof(Word), ++words) {
    Word word;
    std::memcpy(&word, expected, sizeof(word));
    if (LoadWord(words) != word) return false;
  }
  if (left == 0) return true;
  const Word mask = (Word{1} << (8 * left)) - 1;
  return (LoadWord(words) & mask) == RestOf(expected, left);
}

// Of a word, from its lowest byte on. Loads of what was just stored in smaller parts wait, so words go through
// registers.
inline void StoreRest(char* to, Word rest, size_t bytes) {
  if ((bytes & 4) != 0) {
    const auto half = static_cast<uint32_t>(rest);
    std::memcpy(to, &half, sizeof(half));
    to += sizeof(half);
    rest >>= 32;
  }
  for (bytes &= 3; bytes > 0; --bytes, rest >>= 8) *to++ = static_cast<char>(rest);
}

inline void LoadWords(char* to, const Word* words, size_t bytes) {
  const auto copy = [&](size_t i) {
    const Word word = LoadWord(words + i);
    std::memcpy(to + i * sizeof(word), &word, sizeof(word));
  };
  for (; bytes >= 4 * sizeof(Word); bytes -= 4 * sizeof(Word), to += 4 * sizeof(Word), words += 4) {
    copy(0), copy(1), copy(2), copy(3);
  }
  for (; bytes >= sizeof(Word); bytes -= sizeof(Word), to += sizeof(Word), ++words) copy(0);
  if (bytes > 0) StoreRest(to, LoadWord(words), bytes);
}

// As LoadBytes, where the bytes begin within a word: `skip` is from 1 to 7.
void LoadBytesWithin(char* to, const Word* words, size_t skip, size_t bytes);

// Copies `bytes` bytes that begin `skip` bytes behind `words`.
inline void LoadBytes(char* to, const Word* words, size_t skip, size_t bytes) {
  words += skip / sizeof(Word);
  skip %= sizeof(Word);
  if (skip == 0) return LoadWords(to, words, bytes);
  LoadBytesWithin(to, words, skip, bytes);
}

}  // namespace cairn::cache
