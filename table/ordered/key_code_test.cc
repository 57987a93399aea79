#include "table/ordered/key_code.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

std::string Encoded(const KeyCode& code, const std::string& key) {
  std::string buffer(code.EncodedBytes(key.size()), 'x');
  const KeyBits bits = code.Encode(key.data(), key.size(), buffer.data());
  return std::string(reinterpret_cast<const char*>(bits.data), bits.bytes);
}

std::string PaddedTo(std::string bytes, size_t size) {
  bytes.resize(std::max(size, bytes.size()));
  return bytes;
}

std::string WithoutZeros(std::string key) {
  while (!key.empty() && key.back() == '\0') key.pop_back();
  return key;
}

std::string Decoded(const KeyCode& code, const KeyBits& bits, uint64_t size, const std::string& near) {
  std::string key;
  code.Decode(bits, size, near.data(), near.size(), &key);
  return WithoutZeros(key);
}

// Keys of one kind, and other ones in between.
std::string Draw(int kind, std::mt19937_64* random) {
  std::string key;
  switch (kind) {
    case 0:  // rows
      key = "t" + std::to_string(1000 + (*random)() % 9000) + ":r" + std::to_string(100000 + (*random)() % 900000);
      break;
    case 1:  // words
      for (uint64_t i = (*random)() % 12; i < 12; ++i) {
        static const char* const kWords[] = {"the", "n", "qu", "-", "ing"};
        key += kWords[(*random)() % 5];
      }
      break;
    case 2:  // any bytes
      for (uint64_t i = (*random)() % 20; i < 20; ++i) key.push_back(static_cast<char>((*random)()));
      break;
    case 3:  // few bytes, 0 and 255 among them
      for (uint64_t i = (*random)() % 20; i < 20; ++i) key.push_back(static_cast<char>((*random)() % 3 - 1));
      break;
    default:  // long
      key.assign(1 + (*random)() % 3000, static_cast<char>('a' + (*random)() % 2));
      key += std::to_string((*random)());
  }
  return key;
}
constexpr int kKinds = 5;

std::vector<KeyCode> Learnt(int kind, std::mt19937_64* random) {
  std::set<std::string> keys;
  for (int i = 0; i < 3000; ++i) keys.insert(Draw(kind, random));
  std::vector<KeyCode::Sample> sample;
  const std::string* before = nullptr;
  for (const std::string& key : keys) {
    if (before != nullptr) {
      size_t common = 0;
      while (common < std::min(before->size(), key.size()) && (*before)[common] == key[common]) ++common;
      sample.push_back({reinterpret_cast<const uint8_t*>(key.data()), key.size(), common, 0});
    }
    before = &key;
  }
  double head;
  std::vector<KeyCode> codes = KeyCode::Learn(sample, keys.size() * (1 + (*random)() % 20), 5, &head);
  codes.emplace_back();
  return codes;
}

TEST(KeyCode, IsPlainByDefault) {
  const KeyCode code;
  EXPECT_TRUE(code.plain());
  EXPECT_EQ(0u, code.bytes());
  EXPECT_EQ("abc", Encoded(code, "abc"));
}

TEST(KeyCode, TakesFewBitsForWhatIsTheSameInMostKeys) {
  std::vector<std::string> keys;
  for (int i = 1000; i < 9000; i += 3) keys.push_back("tenant" + std::to_string(i) + ":table01:row");
  std::vector<KeyCode::Sample> sample;
  for (const std::string& key : keys) {
    sample.push_back({reinterpret_cast<const uint8_t*>(key.data()), key.size(), 8, 5});
  }
  double head;
  for (const KeyCode& code : KeyCode::Learn(sample, 100000, 8, &head)) {
    // Four digits and next to nothing else, and up to 12 bytes that end an arithmetic code.
    EXPECT_LE(Encoded(code, keys[500]).size(), 16u);
    EXPECT_LT(code.bytes(), 1000u);
  }
  EXPECT_LT(head, 0.7);
}

TEST(KeyCode, KeepsOrderAndComesBack) {
  std::mt19937_64 random(Seed());
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const KeyCode& code : Learnt(kind, &random)) {
      std::vector<std::string> keys;
      for (int i = 0; i < 300; ++i) {
        std::string key = Draw(i % 3 == 0 ? static_cast<int>(random() % kKinds) : kind, &random);
        if (i % 4 == 1) key.resize(random() % (key.size() + 1));
        if (i % 4 == 2) key.push_back('\0');
        keys.push_back(key);
      }
      std::sort(keys.begin(), keys.end());
      constexpr size_t kPadded = 12000;
      std::string before;
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::string& key = keys[i];
        const std::string encoded = PaddedTo(Encoded(code, key), kPadded);
        ASSERT_LE(before, encoded);
        if (i > 0) {
          EXPECT_EQ(before == encoded, WithoutZeros(keys[i - 1]) == WithoutZeros(key));
        }
        before = encoded;
        std::string guarded = Encoded(code, key) + std::string(kKeyBitsGuard, '\0');
        const KeyBits bits{reinterpret_cast<const uint8_t*>(guarded.data()), guarded.size() - kKeyBitsGuard};
        const std::string& near = random() % 2 == 0 ? key : keys[random() % keys.size()];
        EXPECT_EQ(WithoutZeros(key), Decoded(code, bits, bits.bytes * 8, near));
        // What is cut off decodes to a key at or below all that have these bits.
        const uint64_t cut = bits.bytes == 0 ? 0 : random() % (bits.bytes * 8);
        std::string cut_off(guarded, 0, (cut + 7) / 8);
        if (cut % 8 != 0) cut_off.back() = static_cast<char>(cut_off.back() & 0xff << (8 - cut % 8));
        const size_t cut_bytes = cut_off.size();
        cut_off.append(kKeyBitsGuard, '\0');
        const std::string least =
            Decoded(code, {reinterpret_cast<const uint8_t*>(cut_off.data()), cut_bytes}, cut, near);
        EXPECT_LE(least, key);
        EXPECT_LE(PaddedTo(Encoded(code, least), kPadded), PaddedTo(cut_off, kPadded));
      }
    }
  }
}

TEST(KeyCode, KeysThatFollowEachOtherHaveTheBitsThatTheyHaveAlone) {
  std::mt19937_64 random(Seed());
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const KeyCode& code : Learnt(kind, &random)) {
      std::set<std::string> keys;
      for (int i = 0; i < 1000; ++i) {
        keys.insert(Draw(kind, &random));
        // Neighbours with long common prefixes, the smallest and the largest bytes among them, so that sums carry.
        std::string near =
            *std::next(keys.begin(), static_cast<ptrdiff_t>(random() % std::min<size_t>(20, keys.size())));
        near.resize(near.size() - random() % std::min<size_t>(4, near.size() + 1));
        for (uint64_t n = random() % 6; n > 0; --n)
          near.push_back(static_cast<char>(random() % 2 == 0 ? 255 : random() % 3));
        keys.insert(near);
      }
      KeyCode::Encoder encoder(&code);
      std::string buffers[2], before;
      int which = 0;
      for (const std::string& key : keys) {
        size_t common = 0;
        while (common < std::min(before.size(), key.size()) && before[common] == key[common]) ++common;
        // As a rule in another place, now and then over the key before.
        if (random() % 4 != 0) which = 1 - which;
        std::string& buffer = buffers[which];
        if (buffer.size() < code.EncodedBytes(key.size())) {
          encoder = KeyCode::Encoder(&code);
          common = 0;
          buffer.resize(2 * code.EncodedBytes(key.size()));
        }
        common -= random() % 8 == 0 ? random() % (common + 1) : 0;
        const KeyBits bits = encoder.Encode(key.data(), key.size(), common, buffer.data());
        ASSERT_EQ(Encoded(code, key), std::string(reinterpret_cast<const char*>(bits.data), bits.bytes)) << key;
        before = key;
      }
    }
  }
}

TEST(KeyCode, SurvivesItsBytesAndReadsOthersWithinBounds) {
  std::mt19937_64 random(Seed());
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const KeyCode& code : Learnt(kind, &random)) {
      std::string bytes;
      code.EncodeTo(&bytes);
      EXPECT_EQ(code.bytes(), bytes.size());
      KeyCode read;
      ASSERT_TRUE(read.DecodeFrom(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
      for (int i = 0; i < 100; ++i) {
        const std::string key = Draw(kind, &random);
        ASSERT_EQ(Encoded(code, key), Encoded(read, key));
      }
      for (int i = 0; i < 500 && !bytes.empty(); ++i) {
        std::vector<char> broken(bytes.begin(), bytes.end());
        broken[random() % broken.size()] = static_cast<char>(random());
        if (i % 3 == 0) broken.resize(random() % broken.size());
        if (!read.DecodeFrom(reinterpret_cast<const uint8_t*>(broken.data()), broken.size())) continue;
        const std::string key = Draw(kind, &random);
        const std::string any = key + std::string(kKeyBitsGuard, '\0');
        Encoded(read, key);
        Decoded(read, {reinterpret_cast<const uint8_t*>(any.data()), key.size()}, key.size() * 8, key);
      }
    }
  }
}

TEST(KeyBits, WindowsAndCommonPrefixes) {
  const std::string a = std::string("\x80\x01\xff", 3) + std::string(kKeyBitsGuard, '\0');
  const KeyBits bits{reinterpret_cast<const uint8_t*>(a.data()), 3};
  EXPECT_EQ(uint64_t{0x8001ff} << 40, bits.Window(0));
  EXPECT_EQ(uint64_t{0x0003fe} << 40, bits.Window(1) & uint64_t{0xffffff} << 40);
  EXPECT_EQ(0u, bits.Window(24));
  EXPECT_EQ(0u, bits.Window(uint64_t{1} << 60));
  const std::string b = std::string("\x80\x01", 2) + std::string(kKeyBitsGuard, '\0');
  const KeyBits shorter{reinterpret_cast<const uint8_t*>(b.data()), 2};
  EXPECT_EQ(16u, CommonBits(bits, shorter));
  EXPECT_EQ(UINT64_MAX, CommonBits(bits, bits));
}

}  // namespace
}  // namespace cairn
