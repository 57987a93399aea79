// CRC-32C of a byte sequence, as formats of Cairn have it.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <cstdint>

#include "util/crc32c.h"

namespace cairn {

// `before`: the CRC of the bytes in front of these, if there are any.
inline uint32_t Crc32c(const void* data, size_t size, uint32_t before = 0) {
  return rocksdb::crc32c::Extend(before, static_cast<const char*>(data), size);
}

}  // namespace cairn
