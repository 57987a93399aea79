#include "util/elias_fano.h"

#include "util/bits.h"

namespace cairn {

namespace {

constexpr size_t kHeader = 24;

uint64_t Words(uint64_t bits) { return (bits + 63) / 64; }

void AppendPadded(const BitWriter& bits, std::string* out) {
  bits.AppendBytes(out);
  out->append((8 - ((bits.size() + 7) / 8) % 8) % 8, '\0');
}

}  // namespace

void EncodeEliasFano(const std::vector<uint64_t>& values, uint64_t universe, std::string* out) {
  const uint64_t count = values.size();
  const unsigned low_bits = count == 0 || universe / count == 0 ? 0 : Log2Floor(universe / count);
  BitWriter low, high;
  std::vector<uint64_t> ones, zeros;
  uint64_t zero_count = 0;
  const auto put_zeros = [&](uint64_t upto) {
    for (; zero_count < upto; ++zero_count) {
      if (zero_count % 256 == 0) zeros.push_back(high.size());
      high.Put(0, 1);
    }
  };
  for (uint64_t i = 0; i < count; ++i) {
    low.Put(values[i] & LowMask(low_bits), low_bits);
    put_zeros(values[i] >> low_bits);
    if (i % 256 == 0) ones.push_back(high.size());
    high.Put(1, 1);
  }
  put_zeros((universe >> low_bits) + 1);
  PutU64(out, count);
  PutU64(out, universe);
  PutU64(out, low_bits);
  AppendPadded(low, out);
  AppendPadded(high, out);
  for (uint64_t at : ones) PutU64(out, at);
  for (uint64_t at : zeros) PutU64(out, at);
}

void EliasFano::Layout(const uint8_t* data) {
  count_ = LoadU64(data);
  universe_ = LoadU64(data + 8);
  low_bits_ = data[16];
  high_bits_ = count_ + (universe_ >> low_bits_) + 1;
  low_ = data + kHeader;
  high_ = low_ + 8 * Words(count_ * low_bits_);
  one_samples_ = high_ + 8 * Words(high_bits_);
  zero_samples_ = one_samples_ + 8 * ((count_ + kSample - 1) / kSample);
}

EliasFano EliasFano::Trusted(const uint8_t* data) {
  EliasFano sequence;
  sequence.Layout(data);
  return sequence;
}

const char* EliasFano::Open(const uint8_t* data, size_t size, uint64_t universe) {
  if (size < kHeader) return "shorter than its header";
  if (LoadU64(data + 8) != universe) return "of another universe";
  if (LoadU64(data + 16) > 48) return "impossible width";
  const uint64_t count = LoadU64(data);
  const unsigned low_bits = data[16];
  if (count == 0 || count > universe || universe >> 48 != 0) return "impossible number of values";
  const uint64_t high_zeros = (universe >> low_bits) + 1;
  const uint64_t expected = kHeader + 8 * (Words(count * low_bits) + Words(count + high_zeros) +
                                           (count + kSample - 1) / kSample + (high_zeros + kSample - 1) / kSample);
  if (expected != size) return "of the wrong size";
  Layout(data);
  uint64_t ones = 0, zeros = 0, previous = 0;
  for (uint64_t at = 0; at < high_bits_; ++at) {
    if ((high_[at >> 3] >> (at & 7) & 1) == 0) {
      if (zeros == high_zeros) return "too few values";  // more zeros than samples were laid out for
      if (zeros % kSample == 0 && LoadU64(zero_samples_ + 8 * (zeros / kSample)) != at) return "wrong samples";
      ++zeros;
      continue;
    }
    if (ones == count_) return "too many values";
    if (ones % kSample == 0 && LoadU64(one_samples_ + 8 * (ones / kSample)) != at) return "wrong samples";
    const uint64_t value = zeros << low_bits_ | Low(ones);
    if (ones == 0 ? value != 0 : value <= previous) return "not growing from 0";
    if (value >= universe_) return "beyond the universe";
    previous = value;
    ++ones;
  }
  return ones == count_ ? nullptr : "too few values";
}

uint64_t EliasFano::Low(uint64_t index) const { return LoadBits(low_, index * low_bits_) & LowMask(low_bits_); }

// The position of the k-th bit (from 0) of this kind from position `at` on.
template <bool kOne>
uint64_t EliasFano::Scan(uint64_t at, uint64_t k) const {
  uint64_t word_at = at >> 6;
  uint64_t word = LoadU64(high_ + 8 * word_at);
  if (!kOne) word = ~word;
  word &= ~LowMask(at & 63);
  for (;;) {
    const unsigned bits = static_cast<unsigned>(__builtin_popcountll(word));
    if (k < bits) return (word_at << 6) + SelectInWord(word, static_cast<unsigned>(k));
    k -= bits;
    ++word_at;
    word = LoadU64(high_ + 8 * word_at);
    if (!kOne) word = ~word;
  }
}

uint64_t EliasFano::SelectOne(uint64_t k) const {
  return Scan<true>(LoadU64(one_samples_ + 8 * (k / kSample)), k % kSample);
}

uint64_t EliasFano::SelectZero(uint64_t k) const {
  return Scan<false>(LoadU64(zero_samples_ + 8 * (k / kSample)), k % kSample);
}

uint64_t EliasFano::Get(uint64_t index) const { return (SelectOne(index) - index) << low_bits_ | Low(index); }

uint64_t EliasFano::Predecessor(uint64_t value) const {
  const uint64_t high = value >> low_bits_;
  // The first value with these high bits, or the one behind them.
  uint64_t at = high == 0 ? 0 : SelectZero(high - 1) + 1;
  uint64_t index = at - high;
  const uint64_t low = value & LowMask(low_bits_);
  while (at < high_bits_ && (high_[at >> 3] >> (at & 7) & 1) != 0 && Low(index) <= low) {
    ++at;
    ++index;
  }
  return index - 1;
}

EliasFano::Iterator::Iterator(const EliasFano& sequence, uint64_t index) : sequence_(&sequence), index_(index) {
  if (!Valid()) return;
  high_at_ = sequence.SelectOne(index);
  Read();
}

void EliasFano::Iterator::Read() { value_ = (high_at_ - index_) << sequence_->low_bits_ | sequence_->Low(index_); }

void EliasFano::Iterator::Next() {
  ++index_;
  if (!Valid()) return;
  high_at_ = sequence_->Scan<true>(high_at_ + 1, 0);
  Read();
}

}  // namespace cairn
