// A strictly growing sequence of integers that begins with 0, in about 2 + log2(universe / count) bits an element
// (Elias-Fano), read in place. The bytes are described in docs/design/ect.md, "Elias-Fano".
//
// Thread-safety: the view is immutable; it does not own its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

// Appends the sequence. `values` begins with 0 and grows strictly; all values are below `universe`, which is below
// 2^48.
void EncodeEliasFano(const std::vector<uint64_t>& values, uint64_t universe, std::string* out);

class EliasFano {
 public:
  EliasFano() = default;

  // Checks everything a reader relies on, in one pass over the bytes. Null if all is well, otherwise what is wrong.
  const char* Open(const uint8_t* data, size_t size, uint64_t universe);

  // A view of bytes that Open() has accepted before.
  static EliasFano Trusted(const uint8_t* data);

  uint64_t count() const { return count_; }
  // The value at `index`, which is below count().
  uint64_t Get(uint64_t index) const;
  // The index of the last value at or below `value`, which is below the universe.
  uint64_t Predecessor(uint64_t value) const;

  // Walks over the values from `index` on.
  class Iterator {
   public:
    Iterator(const EliasFano& sequence, uint64_t index);
    bool Valid() const { return index_ < sequence_->count_; }
    uint64_t value() const { return value_; }
    void Next();

   private:
    void Read();
    const EliasFano* sequence_;
    uint64_t index_;
    uint64_t high_at_ = 0;
    uint64_t value_ = 0;
  };

 private:
  static constexpr uint64_t kSample = 256;

  void Layout(const uint8_t* data);
  uint64_t Low(uint64_t index) const;
  uint64_t SelectOne(uint64_t k) const;
  uint64_t SelectZero(uint64_t k) const;
  template <bool kOne>
  uint64_t Scan(uint64_t at, uint64_t k) const;

  uint64_t count_ = 0;
  uint64_t universe_ = 0;
  unsigned low_bits_ = 0;
  uint64_t high_bits_ = 0;  // length of the unary part
  const uint8_t* low_ = nullptr;
  const uint8_t* high_ = nullptr;
  const uint8_t* one_samples_ = nullptr;
  const uint8_t* zero_samples_ = nullptr;
};

}  // namespace cairn
