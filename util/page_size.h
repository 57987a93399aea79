// The unit in which the system maps memory: 4 KiB on x86-64, up to 64 KiB on arm64.

#pragma once

#include <unistd.h>

#include <cstddef>

namespace cairn {

inline size_t PageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace cairn
