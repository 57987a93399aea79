// Asking the memory early for what will be read: loads that depend on one another wait one after the other, and these
// wait together.

#pragma once

#include <cstddef>

namespace cairn {

// The cache lines that bytes lie in. They need not exist.
inline void Prefetch(const void* from, size_t bytes) {
  constexpr size_t kLineBytes = 64;
  const char* const begin = static_cast<const char*>(from);
  for (size_t at = 0; at < bytes; at += kLineBytes) __builtin_prefetch(begin + at);
  __builtin_prefetch(begin + bytes);
}

}  // namespace cairn
