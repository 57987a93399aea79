#include "result_cache/item.h"

#include <algorithm>

#include "util/short_hash.h"

namespace cairn::cache {
namespace {

// Whole words of `bytes`. Returns where the next word goes.
Word* StoreWords(Word* to, std::string_view bytes) {
  const char* from = bytes.data();
  const auto copy = [&](size_t i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(word), sizeof(word));
    StoreWord(to + i, word);
  };
  size_t words = bytes.size() / sizeof(Word);
  for (; words >= 4; words -= 4, from += 4 * sizeof(Word), to += 4) copy(0), copy(1), copy(2), copy(3);
  for (; words > 0; --words, from += sizeof(Word), ++to) copy(0);
  return to;
}

// Both side by side, filled up with zeros to whole words.
void StoreBytes(Word* to, std::string_view key, std::string_view value) {
  to = StoreWords(to, key);
  const size_t rest = key.size() % sizeof(Word);
  if (rest > 0) {
    const size_t first = std::min(sizeof(Word) - rest, value.size());
    const Word of_key = RestOf(key.data() + key.size() - rest, rest);
    StoreWord(to++, of_key | RestOf(value.data(), first) << 8 * rest);
    value.remove_prefix(first);
  }
  to = StoreWords(to, value);
  const size_t last = value.size() % sizeof(Word);
  if (last > 0) StoreWord(to, RestOf(value.data() + value.size() - last, last));
}

// By the holder of the lock.
Word Checksum(const Word* words, const ItemHeader& header, Word salt) {
  const Word head[4] = {header.Encode(), header.expires() ? words[1] : 0,
                        header.stamped() ? words[header.stamp_at()] : 0, salt};
  const Word* const bytes = words + header.head_words();
  const size_t count = header.words() - header.head_words();
  const size_t head_bytes = (header.stamped() ? 4 : 2) * sizeof(Word);
  return XXH3_64bits_withSeed(bytes, count * sizeof(Word), XXH3_64bits(head, head_bytes));
}

}  // namespace

void StoreItem(Word* to, const Item& item, Word salt) {
  const ItemHeader header = item.header();
  StoreWord(to, header.Encode());
  if (header.expires()) StoreWord(to + 1, item.expiry);
  if (header.stamped()) StoreWord(to + header.stamp_at(), item.stamp);
  StoreBytes(to + header.head_words(), item.key, item.value);
  if (!header.checked()) return;
  const Word checksum = Checksum(to, header, salt);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // who is killed before leaves a wrong one
  StoreWord(to + header.head_words() - 1, checksum);
}

bool ChecksumIsRight(const Word* words, Word salt) {
  const ItemHeader header = ItemHeader::Decode(words[0]);
  return header.checked() && words[header.head_words() - 1] == Checksum(words, header, salt);
}

void LoadBytesWithin(char* to, const Word* words, size_t skip, size_t bytes) {
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
