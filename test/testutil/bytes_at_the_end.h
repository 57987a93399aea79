// Bytes that end where memory ends: what reads behind them is killed, with or without a sanitizer.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace cairn::test {

class BytesAtTheEnd {
 public:
  explicit BytesAtTheEnd(const std::string& bytes) : mapped_(RoundUp(bytes.size()) + kPage) {
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<uint8_t*>(memory);
    data_ = memory_ + mapped_ - kPage - bytes.size();
    memcpy(data_, bytes.data(), bytes.size());
    if (mprotect(memory_ + mapped_ - kPage, kPage, PROT_NONE) != 0) data_ = nullptr;
  }
  ~BytesAtTheEnd() {
    if (memory_ != nullptr) munmap(memory_, mapped_);
  }
  BytesAtTheEnd(const BytesAtTheEnd&) = delete;
  BytesAtTheEnd& operator=(const BytesAtTheEnd&) = delete;
  // Null if the memory could not be had.
  const uint8_t* data() const { return data_; }

 private:
  static constexpr size_t kPage = 65536;  // a multiple of every page size
  static size_t RoundUp(size_t size) { return (size + kPage - 1) / kPage * kPage; }
  const size_t mapped_;
  uint8_t* memory_ = nullptr;
  uint8_t* data_ = nullptr;
};

}  // namespace cairn::test
