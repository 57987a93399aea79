#include "src/cache/item.h"

#include <algorithm>

#include "src/util/short_hash.h"

namespace cairn::cache {
namespace {

constexpr size_t kBlockWords = 32;

// Collects bytes and stores them as whole words.
class WordWriter {
 public:
  explicit WordWriter(Word* to) : to_(to) {}

  void Add(std::string_view bytes) {
    while (!bytes.empty()) {
      const size_t part = std::min(bytes.size(), sizeof(block_) - used_);
      std::memcpy(block_ + used_, bytes.data(), part);
      bytes.remove_prefix(part);
      used_ += part;
      if (used_ == sizeof(block_)) Flush();
    }
  }
  void Finish() {
    const size_t rest = used_ % sizeof(Word);
    if (rest != 0) {
      std::memset(block_ + used_, 0, sizeof(Word) - rest);
      used_ += sizeof(Word) - rest;
    }
    Flush();
  }

 private:
  void Flush() {
    for (size_t i = 0; i < used_; i += sizeof(Word)) {
      Word word;
      std::memcpy(&word, block_ + i, sizeof(word));
      StoreWord(to_++, word);
    }
    used_ = 0;
  }

  Word* to_;
  size_t used_ = 0;
  char block_[kBlockWords * sizeof(Word)];
};

// By the holder of the lock.
Word Checksum(const Word* words, const ItemHeader& header) {
  const Word head[2] = {header.Encode(), header.expires() ? words[1] : 0};
  const Word* const bytes = words + header.head_words();
  const size_t count = header.words() - header.head_words();
  return XXH3_64bits_withSeed(bytes, count * sizeof(Word), XXH3_64bits(head, sizeof(head)));
}

}  // namespace

void StoreItem(Word* to, const Item& item) {
  const ItemHeader header = item.header();
  StoreWord(to, header.Encode());
  if (header.expires()) StoreWord(to + 1, item.expiry);
  WordWriter writer(to + header.head_words());
  writer.Add(item.key);
  writer.Add(item.value);
  writer.Finish();
  if (!header.checked()) return;
  const Word checksum = Checksum(to, header);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // who is killed before leaves a wrong one
  StoreWord(to + header.head_words() - 1, checksum);
}

bool ChecksumIsRight(const Word* words) {
  const ItemHeader header = ItemHeader::Decode(words[0]);
  return header.checked() && words[header.head_words() - 1] == Checksum(words, header);
}

namespace {

// Fewer than a word, from the word's lowest byte on. Loads of what was just stored in smaller parts wait, so whole words
// go through registers.
void StoreRest(char* to, Word rest, size_t bytes) {
  if ((bytes & 4) != 0) {
    const auto half = static_cast<uint32_t>(rest);
    std::memcpy(to, &half, sizeof(half));
    to += sizeof(half);
    rest >>= 32;
  }
  for (bytes &= 3; bytes > 0; --bytes, rest >>= 8) *to++ = static_cast<char>(rest);
}

void LoadWords(char* to, const Word* words, size_t bytes) {
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

}  // namespace

void LoadBytes(char* to, const Word* words, size_t skip, size_t bytes) {
  words += skip / sizeof(Word);
  skip %= sizeof(Word);
  if (skip == 0) return LoadWords(to, words, bytes);
  if (bytes == 0) return;
  const size_t low = 8 * skip;
  const size_t high = 8 * (sizeof(Word) - skip);
  Word word = LoadWord(words++);
  for (; bytes >= sizeof(Word); bytes -= sizeof(Word), to += sizeof(Word)) {
    const Word next = LoadWord(words++);
    const Word shifted = word >> low | next << high;
    std::memcpy(to, &shifted, sizeof(shifted));
    word = next;
  }
  const Word next = skip + bytes > sizeof(Word) ? LoadWord(words) : 0;
  StoreRest(to, word >> low | next << high, bytes);
}

}  // namespace cairn::cache
