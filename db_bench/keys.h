// Keys and values of the benchmark programs: reproducible from a seed, checkable when read back, cheap to make.
//
// A key is a number in [0, n), written as 16 hexadecimal digits of SplitMix64, a bijection of 64-bit numbers, so that
// neighbouring numbers, and with them the popular ones of a Zipf distribution, lie scattered over the key space and no
// two numbers share a key.
//
// A value is a piece of a fixed pseudo-random buffer, chosen by key number and size; it does not compress. Whoever
// remembers the size of a key's newest value (one byte per key) can check a value that was read byte by byte.
//
// Thread-safety: generators belong to one thread; ValueSource and the free functions are thread-safe.

#pragma once

#include <cstdint>
#include <vector>

#include "rocksdb/slice.h"
#include "util/mix64.h"

namespace cairn::bench {

constexpr size_t kKeyBytes = 16;

// Writes kKeyBytes bytes.
void EncodeKey(uint64_t number, char* key);

// 64 random bits a call.
class Random64 {
 public:
  explicit Random64(uint64_t seed) : state_(SplitMix64(seed)) {}
  uint64_t Next();
  uint64_t Uniform(uint64_t n);  // in [0, n); n > 0
  double NextDouble();           // in [0, 1)

 private:
  uint64_t state_;
};

// Key numbers.
class KeyChooser {
 public:
  virtual ~KeyChooser() = default;
  virtual uint64_t Next() = 0;
};

class UniformKeys : public KeyChooser {
 public:
  UniformKeys(uint64_t n, uint64_t seed) : random_(seed), n_(n) {}
  uint64_t Next() override { return random_.Uniform(n_); }

 private:
  Random64 random_;
  uint64_t n_;
};

// Number k has probability (k+1)^-theta / sum over all n: Zipf's law, exactly, without a table.
// 0 < theta, theta != 1.
//
// Source: Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
// ACM TOMACS 6(3), 1996. YCSB's generator approximates the same distribution.
class ZipfKeys : public KeyChooser {
 public:
  ZipfKeys(uint64_t n, double theta, uint64_t seed);
  uint64_t Next() override;

 private:
  double H(double x) const;  // integral of x^-theta
  double HInverse(double y) const;

  Random64 random_;
  uint64_t n_;
  double theta_;
  double h_first_;
  double h_last_;
  double accept_;
};

class ValueSource {
 public:
  explicit ValueSource(uint64_t seed);

  // size <= kMaxValueBytes. The slice lives as long as the source.
  rocksdb::Slice Value(uint64_t number, size_t size) const;

  static constexpr size_t kMaxValueBytes = 64 << 10;

 private:
  std::vector<char> buffer_;
};

}  // namespace cairn::bench
