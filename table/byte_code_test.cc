#include "table/byte_code.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "table/test_seed.h"

namespace cairn {
namespace {

std::string Encoded(const ByteCode& code, const std::string& key) {
  std::string buffer(ByteCode::EncodedBytes(key.size()), 'x');
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

std::string Decoded(const ByteCode& code, const KeyBits& bits, uint64_t size) {
  std::string key;
  code.Decode(bits, size, &key);
  return WithoutZeros(key);
}

ByteCode RandomCode(std::mt19937_64* random) {
  uint64_t weights[256];
  const int kind = static_cast<int>((*random)() % 3);
  for (unsigned i = 0; i < 256; ++i) {
    const bool digit = i >= '0' && i <= '9';
    weights[i] = kind == 0 ? 0 : kind == 1 ? (digit ? 100000 : 0) : (*random)() >> ((*random)() % 64);
    weights[i] >>= 10;
  }
  return ByteCode::ForWeights(weights);
}

TEST(ByteCode, IsPlainByDefault) {
  const ByteCode code;
  EXPECT_TRUE(code.plain());
  EXPECT_EQ("abc", Encoded(code, "abc"));
}

TEST(ByteCode, GivesFrequentBytesFewBits) {
  uint64_t weights[256] = {};
  for (int digit = '0'; digit <= '9'; ++digit) weights[digit] = 1000;
  const ByteCode code = ByteCode::ForWeights(weights);
  EXPECT_FALSE(code.plain());
  for (int digit = '0'; digit <= '9'; ++digit) EXPECT_LE(code.length(static_cast<uint8_t>(digit)), 5);
}

TEST(ByteCode, KeepsOrderAndComesBack) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 200; ++round) {
    const ByteCode code = RandomCode(&random);
    std::vector<std::string> keys;
    for (int i = 0; i < 50; ++i) {
      std::string key(random() % 12, '\0');
      for (char& byte : key) byte = static_cast<char>(random() % (i % 2 == 0 ? 3 : 256));
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    std::string before;
    for (const std::string& key : keys) {
      const std::string encoded = PaddedTo(Encoded(code, key), 64);
      EXPECT_LE(before, encoded);
      before = encoded;
      std::string guarded = Encoded(code, key) + std::string(kKeyBitsGuard, '\0');
      const KeyBits bits{reinterpret_cast<const uint8_t*>(guarded.data()), guarded.size() - kKeyBitsGuard};
      EXPECT_EQ(WithoutZeros(key), Decoded(code, bits, bits.bytes * 8));
      // What is cut off decodes to the smallest key with at least these bits.
      const uint64_t cut = bits.bytes == 0 ? 0 : random() % (bits.bytes * 8);
      const std::string least = Decoded(code, bits, cut);
      uint64_t used = 0;
      const size_t within = code.BytesWithin(key.data(), key.size(), cut, &used);
      EXPECT_LE(used, cut);
      EXPECT_EQ(WithoutZeros(key.substr(0, within)), Decoded(code, bits, used));
      EXPECT_LE(least, key);
      const std::string again = PaddedTo(Encoded(code, least), 64);
      std::string expected = PaddedTo(encoded.substr(0, (cut + 7) / 8), 64);
      if (cut % 8 != 0) expected[cut / 8] = static_cast<char>(expected[cut / 8] & 0xff << (8 - cut % 8));
      EXPECT_EQ(expected, again);
    }
  }
}

TEST(ByteCode, SurvivesItsBytesAndRefusesOthers) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 100; ++round) {
    const ByteCode code = RandomCode(&random);
    std::string bytes;
    code.EncodeTo(&bytes);
    ASSERT_EQ(ByteCode::kEncodedBytes, bytes.size());
    ByteCode read;
    ASSERT_TRUE(read.DecodeFrom(reinterpret_cast<const uint8_t*>(bytes.data())));
    for (unsigned i = 0; i < 256; ++i) {
      EXPECT_EQ(code.length(static_cast<uint8_t>(i)), read.length(static_cast<uint8_t>(i)));
    }
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    EXPECT_FALSE(read.DecodeFrom(reinterpret_cast<const uint8_t*>(bytes.data())));
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
