// A key as a message to people has it.
//
// Thread-safety: none is needed.

#pragma once

#include <cstddef>
#include <string>

#include "rocksdb/slice.h"

namespace cairn {

// In hexadecimal; of a long one the ends and the length: "0x6162...797a (1048576 bytes)".
inline std::string KeyText(const rocksdb::Slice& key) {
  constexpr size_t kMost = 256;
  constexpr size_t kEnd = 32;
  if (key.size() <= kMost) return "0x" + key.ToString(/*hex=*/true);
  return "0x" + rocksdb::Slice(key.data(), kEnd).ToString(true) + "..." +
         rocksdb::Slice(key.data() + key.size() - kEnd, kEnd).ToString(true) + " (" + std::to_string(key.size()) +
         " bytes)";
}

}  // namespace cairn
