// A filter's bytes with every kind of damage, for filters with a checksum in their last four bytes.

#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cairn/index_status.h"
#include "gtest/gtest.h"
#include "util/checksum.h"

namespace cairn {

// Each truncation and each changed byte is refused; with the checksum corrected it is refused or answers.
template <class Filter>
void ExpectDamageIsRefused(const std::string& bytes, std::mt19937_64* random) {
  for (size_t size = 0; size < bytes.size(); ++size) {
    Filter filter;
    ASSERT_FALSE(Filter::Open(bytes.data(), size, &filter).ok());
    EXPECT_TRUE(filter.MayContain(1));  // one that could not be opened rules nothing out
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      // Of this size, so that a sanitizer sees what is read behind it.
      std::vector<char> damaged(bytes.begin(), bytes.end());
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      Filter filter;
      const IndexStatus status = Filter::Open(damaged.data(), bytes.size(), &filter);
      ASSERT_FALSE(status.ok()) << "byte " << at;
      ASSERT_FALSE(status.message().empty());
      // As a malicious writer would: with the right checksum.
      const uint32_t crc = Crc32c(damaged.data(), bytes.size() - 4);
      memcpy(&damaged[bytes.size() - 4], &crc, 4);
      if (!Filter::Open(damaged.data(), bytes.size(), &filter).ok()) continue;
      for (int i = 0; i < 50; ++i) filter.MayContain((*random)());
      filter.MayContain(0);
      filter.MayContain(~uint64_t{0});
    }
  }
}

}  // namespace cairn
