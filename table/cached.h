// What a table reader keeps in memory or in the block cache, for the time of one lookup.
//
// Thread-safety: an object belongs to one thread.

#pragma once

#include "rocksdb/advanced_cache.h"

namespace cairn {

// Empty: there is none, or none without I/O.
template <class T>
class Cached {
 public:
  Cached() = default;
  // REQUIRES: *held outlives this.
  explicit Cached(const T* held) : value_(held) {}
  // `value` lies in what `handle` holds, which is released with this.
  Cached(const T* value, rocksdb::Cache* cache, rocksdb::Cache::Handle* handle)
      : value_(value), cache_(cache), handle_(handle) {}
  ~Cached() {
    if (handle_ != nullptr) cache_->Release(handle_);
  }
  Cached(Cached&& other) noexcept : value_(other.value_), cache_(other.cache_), handle_(other.handle_) {
    other.value_ = nullptr;
    other.handle_ = nullptr;
  }
  Cached(const Cached&) = delete;
  Cached& operator=(const Cached&) = delete;

  explicit operator bool() const { return value_ != nullptr; }
  const T* operator->() const { return value_; }
  const T* get() const { return value_; }

 private:
  const T* value_ = nullptr;
  rocksdb::Cache* cache_ = nullptr;
  rocksdb::Cache::Handle* handle_ = nullptr;
};

}  // namespace cairn
