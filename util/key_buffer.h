// Bytes of one key, within the object itself as long as the key is short.
//
// Thread-safety: none.

#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "rocksdb/slice.h"

namespace cairn {

class KeyBuffer {
 public:
  KeyBuffer() = default;
  KeyBuffer(const KeyBuffer&) = delete;
  KeyBuffer& operator=(const KeyBuffer&) = delete;

  const char* data() const { return data_; }
  char* data() { return data_; }
  size_t size() const { return size_; }
  rocksdb::Slice slice() const { return {data_, size_}; }

  // Keeps the first `kept` bytes, at most size(), and appends.
  void Replace(size_t kept, const char* bytes, size_t size) {
    if (kept + size > capacity_) Grow(kept, kept + size);
    memcpy(data_ + kept, bytes, size);
    size_ = kept + size;
  }
  void Assign(const rocksdb::Slice& bytes) { Replace(0, bytes.data(), bytes.size()); }

 private:
  static constexpr size_t kInside = 80;

  void Grow(size_t kept, size_t size) {
    const size_t capacity = size * 2;
    std::unique_ptr<char[]> large(new char[capacity]);
    memcpy(large.get(), data_, kept);
    large_ = std::move(large);
    data_ = large_.get();
    capacity_ = capacity;
  }

  char inside_[kInside];
  char* data_ = inside_;
  size_t size_ = 0;
  size_t capacity_ = kInside;
  std::unique_ptr<char[]> large_;
};

}  // namespace cairn
