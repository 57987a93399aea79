// What fuzz targets share: an input that is read piece by piece, and changes to bytes that were valid. Random bytes are
// nearly all refused at once, so a target builds what the input describes, changes some of it and asks again.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::fuzz {

// Gives zeros when it has ended.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  size_t left() const { return left_; }
  // Of at most eight bytes.
  uint64_t Number(size_t bytes) {
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && left_ > 0; ++i, ++data_, --left_) number = number << 8 | *data_;
    return number;
  }
  // Fewer where it ends.
  std::string Bytes(size_t bytes) {
    const Input part = Part(bytes);
    return std::string(reinterpret_cast<const char*>(part.data_), part.left_);
  }
  Input Part(size_t bytes) {
    const Input part(data_, std::min(bytes, left_));
    data_ += part.left_;
    left_ -= part.left_;
    return part;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

// Changes bytes until the input ends: bits, numbers, runs, and now and then the length.
inline void Edit(Input* input, std::string* bytes) {
  while (!input->empty() && !bytes->empty()) {
    const uint64_t kind = input->Number(1);
    const uint64_t number = kind >> 4;
    // Every other change is near the beginning, where headers are.
    const size_t at =
        (kind & 8) != 0 ? input->Number(1) % std::min<size_t>(bytes->size(), 96) : input->Number(2) % bytes->size();
    const size_t left = bytes->size() - at;
    switch (kind % 8) {
      case 0:
      case 1:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << number % 8);
        break;
      case 2:
        (*bytes)[at] = static_cast<char>((*bytes)[at] + static_cast<int>(number) - 7);
        break;
      case 3:
      case 4: {
        const std::string run = input->Bytes(1 + number % 8);
        bytes->replace(at, std::min(run.size(), left), run, 0, std::min(run.size(), left));
        break;
      }
      case 5:
        bytes->replace(at, std::min<size_t>(number + 1, left), std::min<size_t>(number + 1, left),
                       (input->Number(1) & 1) != 0 ? '\xff' : '\0');
        break;
      case 6:
        bytes->insert(at, number + 1, (*bytes)[at]);
        break;
      default:
        bytes->erase(at, number == 0 ? left : number);
        break;
    }
  }
}

// An allocation that ends where the bytes do, so that the sanitizer sees what is read behind them.
inline std::vector<char> Exact(const std::string& bytes) { return std::vector<char>(bytes.begin(), bytes.end()); }

}  // namespace cairn::fuzz
