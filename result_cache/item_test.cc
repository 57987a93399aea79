#include "result_cache/item.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace cairn::cache {
namespace {

std::string Bytes(size_t bytes, char first) {
  std::string text(bytes, 0);
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(first + 37 * i);
  return text;
}

// In memory that ends with the item: who reads beyond it is found by the address sanitizer.
std::unique_ptr<Word[]> Stored(const Item& item) {
  auto words = std::make_unique<Word[]>(item.header().words());
  StoreItem(words.get(), item);
  return words;
}

TEST(ItemTest, EveryLengthOfKeyAndValue) {
  for (size_t key_bytes = 0; key_bytes <= 33; ++key_bytes) {
    for (size_t value_bytes = 0; value_bytes <= 70; ++value_bytes) {
      const std::string key = Bytes(key_bytes, 'k');
      const std::string value = Bytes(value_bytes, '\x80');
      for (const uint64_t expiry : {0, 77}) {
        const Item item{key, value, expiry, 5, false, key_bytes % 2 == 1};
        const auto words = Stored(item);
        const Item found = ViewItem(words.get());
        ASSERT_EQ(found.key, key);
        ASSERT_EQ(found.value, value);
        ASSERT_EQ(found.expiry, expiry);
        ASSERT_EQ(ChecksumIsRight(words.get()), item.checked);
        const Word* const bytes = words.get() + found.header().head_words();
        ASSERT_TRUE(SameBytes(bytes, key));
        std::string copied(value_bytes + 1, '!');
        LoadBytes(copied.data(), bytes, key_bytes, value_bytes);
        ASSERT_EQ(copied, value + "!");
      }
    }
  }
}

TEST(ItemTest, LongValues) {
  for (const size_t bytes : {255u, 256u, 257u, 1000u, 4099u}) {
    for (size_t key_bytes = 0; key_bytes < 9; ++key_bytes) {
      const std::string key = Bytes(key_bytes, 'k');
      const std::string value = Bytes(bytes, 'v');
      const auto words = Stored({key, value, 0, 0, false, false});
      std::string copied(bytes, '!');
      LoadBytes(copied.data(), words.get() + 1, key_bytes, bytes);
      ASSERT_EQ(copied, value);
    }
  }
}

}  // namespace
}  // namespace cairn::cache
