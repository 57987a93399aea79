// How keys are spelled in the tests and benches of order filters.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace cairn {

inline std::string BigEndian(uint64_t v, int bytes = 8) {
  std::string key;
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<char>(v >> (8 * i)));
  return key;
}

inline std::string Decimal(uint64_t v, int digits) {
  char text[32];
  snprintf(text, sizeof(text), "%0*llu", digits, static_cast<unsigned long long>(v));
  return text;
}

}  // namespace cairn
