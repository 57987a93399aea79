#include "cairn/cuckoo_filter.h"

#include <algorithm>
#include <cmath>

#include "util/bits.h"
#include "util/checksum.h"
#include "util/format_version.h"

namespace cairn {

namespace {

constexpr uint64_t kMagic = 0x464b436e72696143u;  // "CairnCKF"
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 32;
constexpr size_t kPadding = 8;
constexpr size_t kChecksumBytes = 4;
constexpr uint64_t kMaxBuckets = uint64_t{1} << 40;
constexpr uint32_t kMinTagBits = 4;
constexpr uint32_t kMaxTagBits = 25;
constexpr uint32_t kSlots = 4;
constexpr int kMaxMoves = 2000;
// Hashes that are spread as those of a good hash function fit with a few more buckets at most.
constexpr uint64_t kMostGrowth = 2;
constexpr uint64_t kGrowthOfFew = 64;  // buckets

uint64_t High(uint64_t a, uint64_t b) { return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64); }

// Where a key belongs. The hash is mixed again, so that hashes of a part of their range, as one of many files has, fill
// all buckets.
struct Place {
  uint64_t bucket;
  uint64_t tag;
};

Place PlaceOf(uint64_t hash, uint64_t buckets, uint32_t tag_bits) {
  uint64_t mixed = hash * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93u;
  const uint64_t again = (mixed ^ (mixed >> 29)) * 0xc2b2ae3d27d4eb4fu;
  return {High(mixed, buckets), High(again, LowMask(tag_bits)) + 1};
}

uint64_t OtherBucket(uint64_t bucket, uint64_t tag, uint64_t buckets) {
  const uint64_t sum = High(tag * 0xc2b2ae3d27d4eb4fu, buckets);
  return sum >= bucket ? sum - bucket : sum - bucket + buckets;
}

uint64_t SlotBytes(uint64_t buckets, uint32_t tag_bits) { return (buckets * kSlots * tag_bits + 7) / 8 + kPadding; }

// A filter that is being filled.
class Table {
 public:
  Table(uint64_t buckets, uint32_t tag_bits)
      : buckets_(buckets), tag_bits_(tag_bits), slots_(buckets * kSlots, 0), random_(buckets) {}

  uint64_t tags() const { return tags_; }

  // False if no free slot was found.
  bool Insert(uint64_t hash) {
    const Place place = PlaceOf(hash, buckets_, tag_bits_);
    uint64_t bucket = place.bucket;
    uint32_t tag = static_cast<uint32_t>(place.tag);
    const uint64_t other = OtherBucket(bucket, tag, buckets_);
    // Nothing is ever removed, so one tag serves all keys that have it in these buckets.
    if (Has(bucket, tag) || Has(other, tag)) return true;
    if (Put(bucket, tag) || Put(other, tag)) {
      ++tags_;
      return true;
    }
    for (int moves = 0; moves < kMaxMoves; ++moves) {
      uint32_t* const victim = &slots_[bucket * kSlots + (Random() & 3)];
      std::swap(*victim, tag);
      bucket = OtherBucket(bucket, tag, buckets_);
      if (Put(bucket, tag)) {
        ++tags_;
        return true;
      }
    }
    return false;
  }

  void AppendTo(std::string* out) const {
    BitWriter writer;
    for (uint32_t tag : slots_) {
      writer.Put(tag, tag_bits_);
      if (writer.size() >= 1 << 16) writer.Drain(out);
    }
    writer.AppendBytes(out);
    out->append(kPadding, '\0');
  }

 private:
  bool Has(uint64_t bucket, uint32_t tag) const {
    const uint32_t* const slots = &slots_[bucket * kSlots];
    return slots[0] == tag || slots[1] == tag || slots[2] == tag || slots[3] == tag;
  }
  bool Put(uint64_t bucket, uint32_t tag) {
    uint32_t* const slots = &slots_[bucket * kSlots];
    for (uint32_t i = 0; i < kSlots; ++i) {
      if (slots[i] != 0) continue;
      slots[i] = tag;
      return true;
    }
    return false;
  }
  uint64_t Random() {
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    return random_ >> 40;
  }

  const uint64_t buckets_;
  const uint32_t tag_bits_;
  std::vector<uint32_t> slots_;
  uint64_t tags_ = 0;
  uint64_t random_;
};

}  // namespace

IndexStatus CuckooFilterBuilder::Finish(std::string* out) {
  if (options_.tag_bits < kMinTagBits || options_.tag_bits > kMaxTagBits) {
    return IndexStatus::InvalidArgument("cuckoo filter: tag_bits " + std::to_string(options_.tag_bits) +
                                        " is not within 4 ... 25");
  }
  if (!(options_.load >= 0.05 && options_.load <= 0.97)) {
    return IndexStatus::InvalidArgument("cuckoo filter: load " + std::to_string(options_.load) +
                                        " is not within 0.05 ... 0.97");
  }
  std::vector<uint64_t> hashes;
  hashes.swap(hashes_);
  if (hashes.size() > kMaxBuckets) return IndexStatus::InvalidArgument("cuckoo filter: more than 2^40 keys");

  uint64_t buckets = static_cast<uint64_t>(std::ceil(static_cast<double>(hashes.size()) / (kSlots * options_.load)));
  const uint64_t most_buckets = kMostGrowth * buckets + kGrowthOfFew;
  for (;;) {
    if (buckets > most_buckets) {
      return IndexStatus::NotSupported("cuckoo filter: the hashes crowd in few buckets; go without a filter");
    }
    Table table(buckets, options_.tag_bits);
    size_t done = 0;
    while (done < hashes.size() && table.Insert(hashes[done])) ++done;
    if (done < hashes.size()) {
      buckets += buckets / 50 + 1;
      continue;
    }
    const size_t start = out->size();
    PutU64(out, kMagic);
    PutU32(out, kVersion);
    PutU32(out, options_.tag_bits);
    PutU64(out, buckets);
    PutU64(out, table.tags());
    table.AppendTo(out);
    PutU32(out, Crc32c(out->data() + start, out->size() - start));
    return IndexStatus::OK();
  }
}

IndexStatus CuckooFilter::Open(const void* data, size_t size, CuckooFilter* filter) {
  *filter = CuckooFilter();
  const auto damaged = [](const std::string& what) {
    return IndexStatus::Corruption("cuckoo filter: " + what + "; rebuild it from the keys");
  };
  const uint8_t* const bytes = static_cast<const uint8_t*>(data);
  if (size < kHeaderBytes + kPadding + kChecksumBytes) return damaged("shorter than its header");
  if (LoadU64(bytes) != kMagic) return damaged("no magic number (byte 0)");
  if (LoadU32(bytes + 8) != kVersion) {
    return IndexStatus::NotSupported("cuckoo filter of " + UnknownVersion(LoadU32(bytes + 8), kVersion) +
                                     ", or rebuild the filter");
  }
  const uint32_t tag_bits = LoadU32(bytes + 12);
  const uint64_t buckets = LoadU64(bytes + 16), tags = LoadU64(bytes + 24);
  if (tag_bits < kMinTagBits || tag_bits > kMaxTagBits) return damaged("impossible tag_bits (byte 12)");
  if (buckets > kMaxBuckets || kHeaderBytes + SlotBytes(buckets, tag_bits) + kChecksumBytes != size) {
    return damaged("the slots do not fill it (byte 16)");
  }
  if (tags > buckets * kSlots) return damaged("more tags than slots (byte 24)");
  if (Crc32c(bytes, size - kChecksumBytes) != LoadU32(bytes + size - kChecksumBytes)) {
    return damaged("the checksum over bytes 0 ... " + std::to_string(size - kChecksumBytes - 1) + " does not match");
  }
  filter->slots_ = bytes + kHeaderBytes;
  filter->size_ = size;
  filter->buckets_ = buckets;
  filter->tags_ = tags;
  filter->tag_bits_ = tag_bits;
  return IndexStatus::OK();
}

bool CuckooFilter::BucketHas(uint64_t bucket, uint64_t tag) const {
  const uint64_t at = bucket * kSlots * tag_bits_;
  const uint64_t mask = LowMask(tag_bits_);
  if (tag_bits_ <= 16) {
    // Four times tag_bits_ from a bit that is 0 or 4 within its byte on: one load has them all.
    const uint64_t ones = 1 | uint64_t{1} << tag_bits_ | uint64_t{1} << 2 * tag_bits_ | uint64_t{1} << 3 * tag_bits_;
    const uint64_t high = ones << (tag_bits_ - 1);
    const uint64_t differing = (LoadBits(slots_, at) ^ (tag * ones)) & LowMask(kSlots * tag_bits_);
    // The high bit of a field becomes 1 unless the field is 0. No sum leaves its field.
    const uint64_t nonzero = (((differing & ~high) + (high - ones)) | differing) & high;
    return nonzero != high;
  }
  for (uint32_t i = 0; i < kSlots; ++i) {
    if ((LoadBits(slots_, at + i * tag_bits_) & mask) == tag) return true;
  }
  return false;
}

bool CuckooFilter::MayContain(uint64_t hash) const {
  if (slots_ == nullptr) return true;
  if (buckets_ == 0) return false;
  const Place place = PlaceOf(hash, buckets_, tag_bits_);
  const uint64_t other = OtherBucket(place.bucket, place.tag, buckets_);
  // Both without a branch: which one has the tag cannot be foreseen, and both loads can be under way at once.
  return (static_cast<int>(BucketHas(place.bucket, place.tag)) | static_cast<int>(BucketHas(other, place.tag))) != 0;
}

void CuckooFilter::Prefetch(uint64_t hash) const {
  if (buckets_ == 0) return;
  const Place place = PlaceOf(hash, buckets_, tag_bits_);
  const uint64_t other = OtherBucket(place.bucket, place.tag, buckets_);
  __builtin_prefetch(slots_ + place.bucket * kSlots * tag_bits_ / 8);
  __builtin_prefetch(slots_ + other * kSlots * tag_bits_ / 8);
}

void CuckooFilter::MayContainBatch(const uint64_t* hashes, size_t count, bool* answers) const {
  constexpr size_t kInFlight = 16;
  for (size_t begin = 0; begin < count; begin += kInFlight) {
    const size_t end = std::min(begin + kInFlight, count);
    for (size_t i = begin; i < end; ++i) Prefetch(hashes[i]);
    for (size_t i = begin; i < end; ++i) answers[i] = MayContain(hashes[i]);
  }
}

}  // namespace cairn
