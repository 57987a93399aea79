// Text of statistics.

#pragma once

#include <cstdint>
#include <string>

namespace cairn {

// "23.8 MiB"
std::string BytesText(uint64_t bytes);

// As printf; lines longer than 511 bytes are cut.
std::string FormatText(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace cairn
