// One flipped bit in a file.

#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace cairn::test {

// The lowest one of the byte at `at`.
inline void FlipBit(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1));
  EXPECT_TRUE(file.good()) << path;
}

}  // namespace cairn::test
