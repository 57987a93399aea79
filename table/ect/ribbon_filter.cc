#include "table/ect/ribbon_filter.h"

#include <algorithm>
#include <array>

#include "util/bits.h"
#include "util/checksum.h"
#include "util/mix64.h"

namespace cairn {

namespace {

constexpr uint64_t kRibbonMagic = 0x4642526e72696143u;  // "CairnRBF"
constexpr uint32_t kRibbonVersion = 1;
constexpr size_t kRibbonHeaderBytes = 48;
constexpr size_t kRibbonChecksumBytes = 4;
constexpr uint64_t kWidth = 64;  // bits that an equation chooses from
constexpr uint64_t kMaxStarts = uint64_t{1} << 40;

// Places at which an equation may start: 10 % more than keys. With 5 % systems are so full in places that 8 bits let
// 2.2 % of strange keys pass instead of 0.4 %, with 8 % still up to a tenth more than they should.
uint64_t StartsFor(uint64_t keys) { return keys + keys / 10 + 1; }

uint64_t Segments(uint64_t starts) { return (starts - 1 + kWidth - 1) / kWidth + 1; }
// A lookup reads the segment of its start and the next one.
uint64_t WordBytes(uint64_t starts, uint32_t bits) { return (Segments(starts) + 1) * bits * sizeof(uint64_t); }

uint64_t MultiplierOf(uint64_t starts, uint64_t first_hash, uint64_t last_hash) {
  const unsigned __int128 range = static_cast<unsigned __int128>(last_hash - first_hash) + 1;
  const unsigned __int128 multiplier = (static_cast<unsigned __int128>(starts) << 64) / range;
  return multiplier > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(multiplier);
}

uint64_t StartOf(uint64_t hash, uint64_t first_hash, uint64_t multiplier) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash - first_hash) * multiplier >> 64);
}

// The lowest one is 1: an equation starts where it starts.
uint64_t CoefficientsOf(uint64_t hash) { return SplitMix64(hash) | 1; }

// Equations in echelon form: row i is 0, or begins at place i.
class System {
 public:
  explicit System(uint64_t starts) : rows_((Segments(starts) + 1) * kWidth, 0) {}

  // Places must not decrease. So no row reaches beyond the last bit of the newest equation, and this takes 64 steps at
  // most, whoever chose the hashes; 4.6 if they are uniform.
  void Add(uint64_t place, uint64_t coefficients) {
    while (rows_[place] != 0) {
      coefficients ^= rows_[place];
      if (coefficients == 0) return;  // follows from the others
      const auto zeros = static_cast<unsigned>(__builtin_ctzll(coefficients));
      coefficients >>= zeros;
      place += zeros;
    }
    rows_[place] = coefficients;
  }

  // Solutions, last place first; what no row decides is random.
  void Solve(uint32_t bits, std::vector<uint64_t>* words) const {
    words->assign(rows_.size() / kWidth * bits, 0);
    std::array<uint64_t, kMaxRibbonBits> solved{};  // the 64 bits from the present place on
    for (uint64_t place = rows_.size() - kWidth; place-- > 0;) {
      const uint64_t row = rows_[place];
      const uint64_t random = row == 0 ? SplitMix64(place) : 0;
      for (uint32_t i = 0; i < bits; ++i) {
        const uint64_t bit = row == 0 ? random >> i & 1 : Parity(row >> 1 & solved[i]);
        solved[i] = solved[i] << 1 | bit;
      }
      if (place % kWidth == 0) std::copy_n(solved.begin(), bits, words->begin() + place / kWidth * bits);
    }
  }

  static uint64_t Parity(uint64_t word) { return static_cast<uint64_t>(__builtin_parityll(word)); }

 private:
  std::vector<uint64_t> rows_;  // a segment more than is used
};

}  // namespace

IndexStatus RibbonFilterBuilder::Finish(std::string* out) {
  if (bits_ < 1 || bits_ > kMaxRibbonBits) {
    return IndexStatus::InvalidArgument("ribbon filter: " + std::to_string(bits_) + " bits are not within 1 ... 16");
  }
  std::vector<uint64_t> hashes;
  hashes.swap(hashes_);
  const uint64_t starts = StartsFor(hashes.size());
  if (starts > kMaxStarts) return IndexStatus::InvalidArgument("ribbon filter: more than 2^40 keys");
  const uint64_t first_hash = hashes.empty() ? 0 : hashes.front(), last_hash = hashes.empty() ? 0 : hashes.back();
  const uint64_t multiplier = first_hash > last_hash ? 0 : MultiplierOf(starts, first_hash, last_hash);
  System system(starts);
  uint64_t previous = first_hash;
  for (const uint64_t hash : hashes) {
    if (hash < previous) return IndexStatus::InvalidArgument("ribbon filter: hashes must not decrease");
    previous = hash;
    system.Add(StartOf(hash, first_hash, multiplier), CoefficientsOf(hash));
  }
  std::vector<uint64_t> words;
  system.Solve(bits_, &words);
  const size_t start = out->size();
  PutU64(out, kRibbonMagic);
  PutU32(out, kRibbonVersion);
  PutU32(out, bits_);
  PutU64(out, hashes.size());
  PutU64(out, starts);
  PutU64(out, first_hash);
  PutU64(out, last_hash);
  out->append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
  PutU32(out, Crc32c(out->data() + start, out->size() - start));
  return IndexStatus::OK();
}

IndexStatus RibbonFilter::Open(const void* data, size_t size, RibbonFilter* filter) {
  *filter = RibbonFilter();
  const auto damaged = [](const std::string& what) {
    return IndexStatus::Corruption("ribbon filter: " + what + "; rebuild it from the keys");
  };
  const uint8_t* const bytes = static_cast<const uint8_t*>(data);
  if (size < kRibbonHeaderBytes + kRibbonChecksumBytes) return damaged("shorter than its header");
  if (LoadU64(bytes) != kRibbonMagic) return damaged("no magic number (byte 0)");
  if (LoadU32(bytes + 8) != kRibbonVersion) {
    return IndexStatus::NotSupported("ribbon filter: version " + std::to_string(LoadU32(bytes + 8)) +
                                     ", but this program reads version 1; use a newer one or rebuild the filter");
  }
  const uint32_t bits = LoadU32(bytes + 12);
  const uint64_t keys = LoadU64(bytes + 16), starts = LoadU64(bytes + 24);
  const uint64_t first_hash = LoadU64(bytes + 32), last_hash = LoadU64(bytes + 40);
  if (bits < 1 || bits > kMaxRibbonBits) return damaged("impossible bits (byte 12)");
  if (starts < 1 || starts > kMaxStarts ||
      kRibbonHeaderBytes + WordBytes(starts, bits) + kRibbonChecksumBytes != size) {
    return damaged("the words do not fill it (byte 24)");
  }
  if (first_hash > last_hash) return damaged("the last hash is below the first (byte 40)");
  if (Crc32c(bytes, size - kRibbonChecksumBytes) != LoadU32(bytes + size - kRibbonChecksumBytes)) {
    return damaged("the checksum over bytes 0 ... " + std::to_string(size - kRibbonChecksumBytes - 1) +
                   " does not match");
  }
  filter->words_ = bytes + kRibbonHeaderBytes;
  filter->bits_ = bits;
  filter->keys_ = keys;
  filter->first_hash_ = first_hash;
  filter->last_hash_ = last_hash;
  filter->multiplier_ = MultiplierOf(starts, first_hash, last_hash);
  return IndexStatus::OK();
}

bool RibbonFilter::MayContain(uint64_t hash) const {
  if (words_ == nullptr) return true;
  if (keys_ == 0 || hash < first_hash_ || hash > last_hash_) return false;
  const uint64_t start = StartOf(hash, first_hash_, multiplier_);
  const uint64_t coefficients = CoefficientsOf(hash);
  const uint8_t* const segment = words_ + start / kWidth * bits_ * sizeof(uint64_t);
  const uint8_t* const next = segment + bits_ * sizeof(uint64_t);
  const unsigned shift = start % kWidth;
  for (size_t i = 0; i < bits_ * sizeof(uint64_t); i += sizeof(uint64_t)) {
    const uint64_t row = LoadU64(segment + i) >> shift | LoadU64(next + i) << 1 << (kWidth - 1 - shift);
    if (System::Parity(row & coefficients) != 0) return false;
  }
  return true;
}

}  // namespace cairn
