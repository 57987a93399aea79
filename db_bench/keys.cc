#include "db_bench/keys.h"

#include <cmath>
#include <cstring>

namespace cairn::bench {

namespace {
constexpr size_t kBufferBytes = 1 << 20;
}  // namespace

void EncodeKey(uint64_t number, char* key) {
  static const char kDigits[] = "0123456789abcdef";
  uint64_t bits = SplitMix64(number);
  for (int i = kKeyBytes - 1; i >= 0; i--) {
    key[i] = kDigits[bits & 15];
    bits >>= 4;
  }
}

uint64_t Random64::Next() { return NextSplitMix64(&state_); }

uint64_t Random64::Uniform(uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
}

double Random64::NextDouble() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

ZipfKeys::ZipfKeys(uint64_t n, double theta, uint64_t seed) : random_(seed), n_(n), theta_(theta) {
  h_first_ = H(1.5) - 1;
  h_last_ = H(static_cast<double>(n) + 0.5);
  accept_ = 2 - HInverse(H(2.5) - std::pow(2.0, -theta));
}

double ZipfKeys::H(double x) const { return (std::pow(x, 1 - theta_) - 1) / (1 - theta_); }

double ZipfKeys::HInverse(double y) const { return std::pow(1 + y * (1 - theta_), 1 / (1 - theta_)); }

uint64_t ZipfKeys::Next() {
  for (;;) {
    double u = h_last_ + random_.NextDouble() * (h_first_ - h_last_);
    double x = HInverse(u);
    double k = std::floor(x + 0.5);
    if (k < 1) {
      k = 1;
    } else if (k > static_cast<double>(n_)) {
      k = static_cast<double>(n_);
    }
    if (k - x <= accept_ || u >= H(k + 0.5) - std::pow(k, -theta_)) {
      return static_cast<uint64_t>(k) - 1;
    }
  }
}

ValueSource::ValueSource(uint64_t seed) : buffer_(kBufferBytes + kMaxValueBytes) {
  Random64 random(seed);
  for (size_t i = 0; i + 8 <= buffer_.size(); i += 8) {
    uint64_t word = random.Next();
    memcpy(&buffer_[i], &word, 8);
  }
}

rocksdb::Slice ValueSource::Value(uint64_t number, size_t size) const {
  return rocksdb::Slice(&buffer_[SplitMix64(number * 257 + size) % kBufferBytes], size);
}

}  // namespace cairn::bench
