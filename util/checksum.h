// CRC-32C of a byte sequence (Castagnoli, reflected, initial and final value inverted), for formats that must not
// depend on RocksDB.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn {

// `before`: the CRC of the bytes in front of these, if there are any.
uint32_t Crc32c(const void* data, size_t size, uint32_t before = 0);

// The same without the processor's instruction for it, as where there is none.
uint32_t Crc32cByTables(const void* data, size_t size, uint32_t before = 0);

}  // namespace cairn
