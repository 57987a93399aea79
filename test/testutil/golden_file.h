// Golden files of the tests of formats, FOLDER/testdata/NAME.hex: bytes that may not change unnoticed.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace cairn {

inline std::string Hex(const std::string& bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    char digits[4];
    snprintf(digits, sizeof(digits), "%02x%c", static_cast<uint8_t>(bytes[i]), i % 32 == 31 ? '\n' : ' ');
    hex += digits;
  }
  hex.back() = '\n';
  return hex;
}

inline std::string GoldenPath(const std::string& name, const std::string& folder) {
  const char* source = getenv("CAIRN_SOURCE_DIR");
  return (source != nullptr ? std::string(source) : ".") + "/" + folder + "/testdata/" + name + ".hex";
}

// Fails unless the bytes are those of the file; with CAIRN_UPDATE_GOLDEN set, makes them those of the file.
inline void ExpectGolden(const std::string& name, const std::string& bytes, const std::string& folder) {
  const std::string path = GoldenPath(name, folder);
  if (getenv("CAIRN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << Hex(bytes);
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is missing; run ctest, or set CAIRN_SOURCE_DIR to the source tree";
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(golden, Hex(bytes)) << path;
}

inline std::string GoldenBytes(const std::string& name, const std::string& folder) {
  std::ifstream file(GoldenPath(name, folder));
  std::string bytes;
  for (unsigned byte = 0; file >> std::hex >> byte;) bytes += static_cast<char>(byte);
  return bytes;
}

}  // namespace cairn
