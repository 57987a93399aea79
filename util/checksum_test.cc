#include "util/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

namespace cairn {
namespace {

// Bit by bit.
uint32_t SlowCrc(const std::string& bytes) {
  uint32_t crc = UINT32_MAX;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32cTest, KnownValues) {
  EXPECT_EQ(Crc32c("", 0), 0u);
  EXPECT_EQ(Crc32c("123456789", 9), 0xe3069283u);
  // RFC 3720, B.4.
  EXPECT_EQ(Crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
}

TEST(Crc32cTest, IsTheSameForEachSizePlaceAndCut) {
  std::mt19937 random(1);
  std::string bytes(16 << 10, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t size = 0; size < 9000; size += size < 1200 ? 1 : 1 + random() % 97) {
    const size_t from = random() % 64;
    const std::string part = bytes.substr(from, size);
    const uint32_t wanted = SlowCrc(part);
    ASSERT_EQ(Crc32c(bytes.data() + from, size), wanted) << size;
    const size_t cut = random() % (size + 1);
    ASSERT_EQ(Crc32c(part.data() + cut, size - cut, Crc32c(part.data(), cut)), wanted) << size << " cut at " << cut;
  }
}

}  // namespace
}  // namespace cairn
