#include "trie_table/bloom_cluster/bloom_filter.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cairn {

namespace {

// Bytes that a probe may read beside a column.
constexpr size_t kGuard = 16;
// A column's share of its directory, and the bits that fill up the last bytes of its pairs and its header.
constexpr double kDirectoryBits = 8.0 * 32 / 12;
constexpr double kFillBits = 8;
// A large image in large pages costs one translation a probe, not two.
constexpr size_t kHugePage = size_t{2} << 20;

size_t BytesForBits(uint64_t bits) { return static_cast<size_t>((bits + 7) / 8); }

// Of all columns.
double ExpectedBits(double pairs, double columns, unsigned pair_bits) {
  return pairs * (1 + pair_bits) + columns * (kHeaderOnes + kFillBits);
}

// The zeros from `bit` of a header up to the next 1, where they are too many for one load.
unsigned LongRun(const uint8_t* header, unsigned bit) {
  unsigned length = 0;
  while ((header[(bit + length) >> 3] >> ((bit + length) & 7) & 1) == 0) ++length;
  return length;
}

// The position of the 1 number `bucket` in a header whose first 128 bits have fewer.
unsigned LateOne(const uint8_t* header, unsigned bucket) {
  unsigned position = 0;
  for (;; header += 8, position += 64) {
    const uint64_t word = LoadU64(header);
    const unsigned ones = static_cast<unsigned>(__builtin_popcountll(word));
    if (bucket < ones) return position + SelectInWord(word, bucket);
    bucket -= ones;
  }
}

unsigned PositionOfBucket(const uint8_t* header, unsigned bucket) {
  const uint64_t first = LoadU64(header), second = LoadU64(header + 8);
  const unsigned ones = static_cast<unsigned>(__builtin_popcountll(first));
  // Which of the two words it is cannot be foreseen: select without a branch.
  const bool later = bucket >= ones;
  const uint64_t word = later ? second : first;
  const unsigned rest = later ? bucket - ones : bucket;
  if (__builtin_expect(rest >= static_cast<unsigned>(__builtin_popcountll(word)), 0)) return LateOne(header, bucket);
  return SelectInWord(word, rest) + (later ? 64 : 0);
}

}  // namespace

bool FilterShape::Valid() const {
  if (precision < 1 || precision > kMaxPrecision || slot_bits > kFilterSlotBits) return false;
  if (pair_bits() > kMaxPairBits) return false;
  const uint64_t fingerprints = uint64_t{1} << precision;
  return low < fingerprints && columns <= ((fingerprints - 1 - low) >> column_shift()) + 1;
}

FilterShape ChooseFilterShape(uint64_t pairs, uint64_t low_hash, uint64_t high_hash, unsigned slot_bits,
                              double bits_per_key, unsigned max_precision) {
  FilterShape best;
  best.slot_bits = slot_bits;
  const double n = static_cast<double>(std::max<uint64_t>(pairs, 1));
  // A step of precision is a bit per key: the nearest one. A few keys may take what a page holds anyway.
  const double budget = std::max((bits_per_key + 0.5) * n, 2048.0);
  const unsigned most_remainder = kMaxPairBits - slot_bits;
  for (unsigned precision = std::min(max_precision, kMaxPrecision); precision >= 1; --precision) {
    const uint64_t low = low_hash >> (64 - precision), high = high_hash >> (64 - precision);
    double least = 0;
    for (unsigned remainder = 0; remainder <= most_remainder; ++remainder) {
      const uint64_t columns = ((high - low) >> (kBucketBits + remainder)) + 1;
      const double bits = ExpectedBits(n, static_cast<double>(columns), remainder + slot_bits) +
                          kDirectoryBits * static_cast<double>(columns);
      if (remainder != 0 && bits >= least) continue;
      least = bits;
      best.precision = precision;
      best.remainder_bits = remainder;
      best.low = low;
      best.columns = columns;
    }
    if (least <= budget) break;
  }
  return best;
}

uint64_t ProbeColumn(const uint8_t* header, const FilterShape& shape, uint64_t offset_in_column) {
  const unsigned bucket = static_cast<unsigned>(offset_in_column >> shape.remainder_bits) & (kBuckets - 1);
  const unsigned position = PositionOfBucket(header, bucket);
  const uint64_t run = LoadBits(header, position + 1);
  unsigned length = run == 0 ? 64 : static_cast<unsigned>(__builtin_ctzll(run));
  if (__builtin_expect(length > 56, 0)) length = LongRun(header, position + 1);
  const unsigned bits = shape.pair_bits();
  if (bits == 0) return length != 0 ? 1 : 0;  // one slot, and the bucket says it all
  const uint64_t slot_mask = LowMask(shape.slot_bits);
  const uint64_t wanted = (offset_in_column & LowMask(shape.remainder_bits)) << shape.slot_bits;
  // Pairs run backward from the header.
  int64_t end = -static_cast<int64_t>((position - bucket) * bits);
  uint64_t slots = 0;
  do {
    // The three pairs before bit `end`, the first one highest. Those behind the run are ignored.
    const int64_t byte = (end - 57) >> 3;
    const uint64_t three = LoadU64(header + byte) << (7 - ((end - 57) & 7));
    const uint64_t a = three >> (64 - bits), b = three << bits >> (64 - bits), c = three << 2 * bits >> (64 - bits);
    const bool in_a = ((a ^ wanted) >> shape.slot_bits) == 0 && length > 0;
    const bool in_b = ((b ^ wanted) >> shape.slot_bits) == 0 && length > 1;
    const bool in_c = ((c ^ wanted) >> shape.slot_bits) == 0 && length > 2;
    slots |= uint64_t{in_a} << (a & slot_mask) | uint64_t{in_b} << (b & slot_mask) | uint64_t{in_c} << (c & slot_mask);
    if (__builtin_expect(length <= 3, 1)) return slots;
    length -= 3;
    end -= static_cast<int64_t>(3 * bits);
  } while (true);
}

void DecodeColumn(const uint8_t* header, const FilterShape& shape, uint64_t column, std::vector<uint64_t>* pairs) {
  const unsigned bits = shape.pair_bits();
  const uint64_t mask = LowMask(bits);
  const uint64_t slot_mask = LowMask(shape.slot_bits);
  const uint64_t begin = shape.low + (column << shape.column_shift());
  int64_t end = 0;
  unsigned ones = 0;
  unsigned position = 1;  // behind the leading 1
  while (ones < kBuckets) {
    uint64_t word = LoadBits(header, position);
    unsigned left = 57;
    while (ones < kBuckets && left > 0) {
      const unsigned zeros = std::min(left, word == 0 ? 64 : static_cast<unsigned>(__builtin_ctzll(word)));
      for (unsigned i = 0; i < zeros; ++i) {
        end -= static_cast<int64_t>(bits);
        const uint64_t pair = LoadU64(header + (end >> 3)) >> (end & 7) & mask;
        const uint64_t fingerprint = begin + (uint64_t{ones} << shape.remainder_bits | pair >> shape.slot_bits);
        pairs->push_back(PackPair(fingerprint, static_cast<unsigned>(pair & slot_mask)));
      }
      position += zeros;
      left -= zeros;
      if (left == 0) break;
      word = word >> zeros >> 1;
      ++position;
      --left;
      ++ones;
    }
  }
}

size_t CheckColumn(const uint8_t* header, const uint8_t* end, size_t pair_bytes, const FilterShape& shape) {
  if (header >= end || (*header & 1) == 0) return 0;
  unsigned ones = 0;
  for (const uint8_t* byte = header; byte < end; ++byte) {
    const unsigned more = static_cast<unsigned>(__builtin_popcount(*byte));
    if (ones + more < kHeaderOnes) {
      ones += more;
      continue;
    }
    if (ones + more != kHeaderOnes) return 0;
    const uint64_t bits = static_cast<uint64_t>(byte - header) * 8 + 32 - static_cast<unsigned>(__builtin_clz(*byte));
    const uint64_t pairs = bits - kHeaderOnes;
    if (BytesForBits(pairs * shape.pair_bits()) != pair_bytes) return 0;
    return pair_bytes + BytesForBits(bits);
  }
  return 0;
}

void ColumnWriter::Add(uint64_t fingerprint, unsigned slot) {
  const uint64_t offset = fingerprint - shape_.low;
  const uint64_t column = offset >> shape_.column_shift();
  while (column_ < column && ok_) Flush();
  const uint64_t pair = PackPair(offset & LowMask(shape_.column_shift()), slot);
  for (size_t i = pairs_.size(); i > 0 && FingerprintOf(pairs_[i - 1]) == FingerprintOf(pair); --i) {
    if (pairs_[i - 1] == pair) return;
  }
  pairs_.push_back(pair);
}

bool ColumnWriter::Finish() {
  while (column_ < shape_.columns && ok_) Flush();
  return ok_;
}

void ColumnWriter::Flush() {
  const unsigned bits = shape_.pair_bits();
  const size_t pair_bytes = BytesForBits(pairs_.size() * bits);
  const size_t size = pair_bytes + BytesForBits(kHeaderOnes + pairs_.size());
  if (bytes_.size() < size + kGuard) bytes_.resize(2 * (size + kGuard));
  WritePairs(bytes_.data(), pair_bytes * 8 - pairs_.size() * bits);
  WritePopulations(bytes_.data() + pair_bytes);
  ok_ = sink_->Add(bytes_.data(), size, pair_bytes);
  written_ += pairs_.size();
  pairs_.clear();
  ++column_;
}

// The last pair first, behind `fill` zeros. Words are stored once, none is read back; what the last one reaches beyond
// the pairs is overwritten by the header.
void ColumnWriter::WritePairs(uint8_t* out, size_t fill) const {
  const unsigned bits = shape_.pair_bits();
  const uint64_t remainder_mask = LowMask(shape_.remainder_bits);
  uint64_t word = 0;
  unsigned used = static_cast<unsigned>(fill);
  for (size_t i = pairs_.size(); i-- > 0;) {
    const uint64_t pair = pairs_[i];
    word |= ((FingerprintOf(pair) & remainder_mask) << shape_.slot_bits | SlotOf(pair)) << used;
    used += bits;
    if (used < 32) continue;
    const auto half = static_cast<uint32_t>(word);
    memcpy(out, &half, sizeof(half));
    out += sizeof(half);
    word >>= 32;
    used -= 32;
  }
  memcpy(out, &word, sizeof(word));
}

// A 1, then each bucket's pairs as zeros and a 1.
void ColumnWriter::WritePopulations(uint8_t* out) const {
  uint64_t word = 1;
  unsigned used = 1;
  const auto put_zeros = [&](size_t zeros) {
    for (used += static_cast<unsigned>(zeros); used >= 64; used -= 64) {
      memcpy(out, &word, sizeof(word));
      out += sizeof(word);
      word = 0;
    }
  };
  const auto put_one = [&] {
    word |= uint64_t{1} << used;
    put_zeros(1);
  };
  size_t i = 0;
  for (unsigned bucket = 0; bucket < kBuckets; ++bucket) {
    const size_t first = i;
    while (i < pairs_.size() && FingerprintOf(pairs_[i]) >> shape_.remainder_bits == bucket) ++i;
    put_zeros(i - first);
    put_one();
  }
  memcpy(out, &word, sizeof(word));
}

bool MergePairs(const std::vector<MergeInput>& inputs, const FilterShape& shape, ColumnWriter* writer) {
  struct Head {
    uint64_t fingerprint;
    unsigned slot;
    const MergeInput* input;
  };
  bool failed = false;
  const auto advance = [&shape, &failed](Head* head) {
    uint64_t pair;
    while (head->input->cursor->Next(&pair)) {
      const uint8_t slot = head->input->slots[SlotOf(pair)];
      if (slot == MergeInput::kDropped) continue;
      head->fingerprint = FingerprintOf(pair) >> (head->input->precision - shape.precision);
      head->slot = slot;
      // A damaged filter's: the writer would fill up all columns before it.
      if ((head->fingerprint - shape.low) >> shape.column_shift() >= shape.columns) {
        failed = true;
        return false;
      }
      return true;
    }
    failed |= head->input->cursor->failed();
    return false;
  };
  std::vector<Head> heads;
  for (const MergeInput& input : inputs) {
    Head head{0, 0, &input};
    if (advance(&head)) heads.push_back(head);
  }
  // A handful of inputs: looking through all heads beats a heap.
  while (!heads.empty()) {
    size_t least = 0;
    for (size_t i = 1; i < heads.size(); ++i) {
      if (heads[i].fingerprint < heads[least].fingerprint) least = i;
    }
    writer->Add(heads[least].fingerprint, heads[least].slot);
    if (advance(&heads[least])) continue;
    heads[least] = heads.back();
    heads.pop_back();
  }
  return writer->Finish() && !failed;
}

class ImageCursor : public PairCursor {
 public:
  explicit ImageCursor(const FilterImage& image) : image_(image) {}

 protected:
  bool Refill(std::vector<uint64_t>* pairs) override {
    if (column_ == image_.shape_.columns) return false;
    DecodeColumn(image_.HeaderOf(column_), image_.shape_, column_, pairs);
    ++column_;
    return true;
  }

 private:
  const FilterImage& image_;
  uint64_t column_ = 0;
};

std::unique_ptr<PairCursor> FilterImage::NewCursor() const { return std::make_unique<ImageCursor>(*this); }

void FilterImage::Free::operator()(uint8_t* memory) const { free(memory); }

FilterImage::Builder::Builder(const FilterShape& shape, uint64_t pairs) : image_(new FilterImage()) {
  image_->shape_ = shape;
  image_->shift_ = shape.column_shift();
  image_->groups_.reserve(shape.columns / kGroupColumns + 1);
  const double bits = ExpectedBits(static_cast<double>(pairs), static_cast<double>(shape.columns), shape.pair_bits());
  used_ = kGuard;
  ok_ = Reserve(static_cast<size_t>(bits / 8) + 4 * kGuard);
}

bool FilterImage::Builder::Reserve(size_t bytes) {
  if (bytes <= capacity_) return true;
  const bool huge = bytes >= 2 * kHugePage;
  const size_t page = huge ? 4096 : 64;
  const size_t capacity = (bytes + page - 1) / page * page;
  void* memory = nullptr;
  if (posix_memalign(&memory, huge ? kHugePage : page, capacity) != 0) return false;
  std::unique_ptr<uint8_t[], Free> data(static_cast<uint8_t*>(memory));
  // Only advice: the kernel takes large pages for the whole ones within.
  if (huge) madvise(memory, capacity, MADV_HUGEPAGE);
  if (image_->data_ != nullptr) memcpy(data.get(), image_->data_.get(), used_);
  memset(data.get() + used_, 0, std::min(kGuard, capacity - used_));
  image_->data_ = std::move(data);
  capacity_ = capacity;
  return true;
}

bool FilterImage::Builder::Add(const uint8_t* bytes, size_t size, size_t header) {
  if (!ok_ || columns_ == image_->shape_.columns) return ok_ = false;
  if (used_ + size + kGuard > capacity_) ok_ = Reserve((used_ + size + kGuard) * 5 / 4);
  if (!ok_) return false;
  const uint64_t at = used_ + header;
  if (columns_ % kGroupColumns == 0) image_->groups_.push_back({at, {}});
  Group& group = image_->groups_.back();
  if (at - group.base > UINT16_MAX) return ok_ = false;
  group.delta[columns_ % kGroupColumns] = static_cast<uint16_t>(at - group.base);
  memcpy(image_->data_.get() + used_, bytes, size);
  used_ += size;
  ++columns_;
  return true;
}

std::shared_ptr<const FilterImage> FilterImage::Builder::Finish(uint64_t pairs) {
  if (!ok_ || columns_ != image_->shape_.columns) return nullptr;
  memset(image_->data_.get() + used_, 0, kGuard);
  image_->pairs_ = pairs;
  image_->bytes_ = capacity_ + image_->groups_.capacity() * sizeof(Group) + sizeof(FilterImage);
  return std::shared_ptr<const FilterImage>(std::move(image_));
}

}  // namespace cairn
