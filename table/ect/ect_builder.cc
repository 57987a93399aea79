// Building an ECT index: hashes to buckets, buckets to tries, tries to bits. The bytes are drawn in docs/design/ect.md.

#include <algorithm>
#include <vector>

#include "cairn/ect.h"
#include "table/ect/ect_codes.h"
#include "table/ect/ect_layout.h"
#include "util/checksum.h"
#include "util/elias_fano.h"

namespace cairn {

namespace {

// Where blocks end, as far as the tries care.
class Boundaries {
 public:
  void SetFixed(uint64_t items) { items_ = items; }
  void SetStarted(const std::vector<uint64_t>* starts) { starts_ = starts; }

  bool InOneBlock(uint64_t first, uint64_t last) const {
    if (items_ != 0) return first / items_ == last / items_;
    if (starts_ == nullptr) return first == last;
    // Invariant: the last start at or before `first` is at or behind hint_, since tries are written in the order of
    // ranks.
    const auto next = std::upper_bound(starts_->begin() + hint_, starts_->end(), first);
    return next == starts_->end() || *next > last;
  }
  // Tells that no later question is about a rank below `rank`.
  void Forget(uint64_t rank) {
    if (starts_ == nullptr) return;
    const auto next = std::upper_bound(starts_->begin() + hint_, starts_->end(), rank);
    hint_ = next == starts_->begin() ? 0 : next - starts_->begin() - 1;
  }

 private:
  uint64_t items_ = 0;
  const std::vector<uint64_t>* starts_ = nullptr;
  ptrdiff_t hint_ = 0;
};

// Expected bits a leaf of dense and sparse tries times 256, measured with `cairn ect` for blocks of 1, 2, 4 ... items.
// Only a prediction.
uint32_t ExpectedBits(uint32_t block_items) {
  static constexpr uint32_t kBits[] = {596, 408, 281, 190, 126, 81, 51, 31, 18, 10, 6, 3, 2, 1};
  const unsigned log = block_items == 0 ? 0 : Log2Floor(block_items);
  return log < sizeof(kBits) / sizeof(kBits[0]) ? kBits[log] : 0;
}

// The number of p[0 .. n - 1], which are sorted, below `limit`.
size_t CountBelow(const uint64_t* p, size_t n, uint64_t limit) {
  const uint64_t* base = p;
  while (n > 8) {
    const size_t half = n / 2;
    base = base[half - 1] < limit ? base + half : base;
    n -= half;
  }
  size_t below = 0;
  for (size_t i = 0; i < n; ++i) below += base[i] < limit ? 1 : 0;
  return static_cast<size_t>(base - p) + below;
}

class TrieWriter {
 public:
  TrieWriter(const EctCodes* codes, uint32_t skip_leaves, uint32_t skip_slope, Boundaries* boundaries, bool dense)
      : codes_(codes), skip_leaves_(skip_leaves), skip_slope_(skip_slope), boundaries_(boundaries), dense_(dense) {}

  // Appends the region of n sorted suffixes; the first one has this rank.
  void WriteTrie(const uint64_t* suffixes, size_t n, uint64_t rank, BitWriter* out) {
    boundaries_->Forget(rank);
    suffixes_ = suffixes;
    rank_ = rank;
    WriteRegion(0, n, 0, 0, out);
  }

 private:
  bool Pruned(size_t begin, size_t end) const {
    return end - begin <= 1 || (!dense_ && boundaries_->InOneBlock(rank_ + begin, rank_ + end - 1));
  }

  // Bits that all suffixes of the range have in common.
  unsigned Common(size_t begin, size_t end) const {
    const uint64_t differing = suffixes_[begin] ^ suffixes_[end - 1];
    return differing == 0 ? 64 : static_cast<unsigned>(__builtin_clzll(differing));
  }

  // Leaves of the range that lie left of its split behind `common` bits.
  size_t Left(size_t begin, size_t end, unsigned common) const {
    if (common == 64) return (end - begin) / 2;
    const uint64_t limit = suffixes_[end - 1] >> (63 - common) << (63 - common);
    return CountBelow(suffixes_ + begin, end - begin, limit);
  }

  void WriteRegion(size_t begin, size_t end, unsigned depth, size_t nesting, BitWriter* out) {
    // A loop over the right parts, which end where their parents end.
    while (end - begin >= skip_leaves_ && !Pruned(begin, end)) {
      const size_t n = end - begin;
      const unsigned common = Common(begin, end);
      for (; depth < common; ++depth) codes_->Encode(n, 0, out);
      const size_t left = Left(begin, end, common);
      codes_->Encode(n, left, out);
      depth = common < 64 ? common + 1 : 64;
      if (scratch_.size() <= nesting) scratch_.resize(nesting + 1);
      BitWriter region;
      std::swap(region, scratch_[nesting]);
      WriteRegion(begin, begin + left, depth, nesting + 1, &region);
      const int64_t error = static_cast<int64_t>(region.size() - EctSkipPrediction(left, skip_slope_));
      EctCodes::EncodeGamma(ZigZag(error), EctSkipBits(left), out);
      out->Append(region);
      region.Clear();
      std::swap(region, scratch_[nesting]);
      begin += left;
    }
    WriteNodes(begin, end, depth, out);
    out->AppendReversed(pairs_);
    pairs_.Clear();
  }

  void WriteNodes(size_t begin, size_t end, unsigned depth, BitWriter* out) {
    while (!Pruned(begin, end)) {
      const size_t n = end - begin;
      const unsigned common = Common(begin, end);
      if (n == 2) {
        const unsigned zeros = common - depth;
        if (zeros == 64) pairs_.Put(0, 64);
        pairs_.Put(uint64_t{1} << (zeros & 63), (zeros & 63) + 1);
        return;
      }
      for (; depth < common; ++depth) codes_->Encode(n, 0, out);
      const size_t left = Left(begin, end, common);
      codes_->Encode(n, left, out);
      depth = common < 64 ? common + 1 : 64;
      WriteNodes(begin, begin + left, depth, out);
      begin += left;
    }
  }

  const EctCodes* codes_;
  const uint32_t skip_leaves_;
  const uint32_t skip_slope_;
  Boundaries* boundaries_;
  const bool dense_;
  const uint64_t* suffixes_ = nullptr;
  uint64_t rank_ = 0;
  BitWriter pairs_;                 // of the innermost region that is being written
  std::vector<BitWriter> scratch_;  // kept for their memory
};

struct Boundary {
  uint64_t rank;
  uint64_t bit;
};

// Encodes records of boundaries with the narrowest fields that hold all of them, see (2) of the format.
void WriteDirectory(const std::vector<Boundary>& boundaries, EctHeader* header, std::string* out) {
  constexpr size_t kRecord = EctHeader::kRecordBoundaries;
  const auto rank_line = [&](size_t i) { return static_cast<int64_t>(i * header->rank_slope >> 8); };
  struct Base {
    int64_t rank, bit;
  };
  std::vector<Base> bases;
  const auto bit_delta = [&](const Boundary& b, int64_t base_rank) {
    const uint64_t offset = b.rank - static_cast<uint64_t>(base_rank);
    return static_cast<int64_t>(b.bit) - static_cast<int64_t>(offset * header->bit_slope >> 8);
  };
  uint64_t widest_rank = 0, widest_bit = 0;
  for (size_t begin = 0; begin < boundaries.size(); begin += kRecord) {
    const size_t end = std::min(begin + kRecord, boundaries.size());
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = begin; i < end; ++i) {
      const int64_t delta = static_cast<int64_t>(boundaries[i].rank) - rank_line(i - begin);
      low = std::min(low, delta);
      high = std::max(high, delta);
    }
    widest_rank = std::max(widest_rank, static_cast<uint64_t>(high - low));
    Base base = {low, INT64_MAX};
    int64_t highest_bit = INT64_MIN;
    for (size_t i = begin; i < end; ++i) {
      base.bit = std::min(base.bit, bit_delta(boundaries[i], base.rank));
      highest_bit = std::max(highest_bit, bit_delta(boundaries[i], base.rank));
    }
    widest_bit = std::max(widest_bit, static_cast<uint64_t>(highest_bit - base.bit));
    bases.push_back(base);
  }
  header->rank_bits = BitWidth(widest_rank);
  header->bit_bits = BitWidth(widest_bit);
  for (size_t begin = 0; begin < boundaries.size(); begin += kRecord) {
    const Base& base = bases[begin / kRecord];
    PutI48(out, base.rank);
    PutI48(out, base.bit);
    BitWriter entries;
    for (size_t i = begin; i < begin + kRecord; ++i) {
      uint64_t rank = 0, bit = 0;
      if (i < boundaries.size()) {
        rank = static_cast<uint64_t>(static_cast<int64_t>(boundaries[i].rank) - rank_line(i - begin) - base.rank);
        bit = static_cast<uint64_t>(bit_delta(boundaries[i], base.rank) - base.bit);
      }
      entries.Put(rank, header->rank_bits);
      entries.Put(bit, header->bit_bits);
    }
    entries.AppendBytes(out);
  }
}

// Hashes in the order in which they came, in pieces: none is copied as more come, and each piece is freed as soon as it
// has been handed on.
class HashQueue {
 public:
  void Push(uint64_t hash) {
    if (pieces_.empty() || pieces_.back().size() == pieces_.back().capacity()) AddPiece();
    pieces_.back().push_back(hash);
  }

  // Hands all on, oldest first, and leaves none.
  template <typename Take>
  void Drain(const Take& take) {
    for (std::vector<uint64_t>& piece : pieces_) {
      for (uint64_t hash : piece) take(hash);
      piece = {};
    }
    pieces_.clear();
  }

 private:
  void AddPiece() {
    constexpr size_t kFirst = 1 << 10, kLargest = 1 << 17;  // hashes
    const size_t hashes = pieces_.empty() ? kFirst : std::min(2 * pieces_.back().capacity(), kLargest);
    pieces_.emplace_back();
    pieces_.back().reserve(hashes);
  }

  std::vector<std::vector<uint64_t>> pieces_;
};

}  // namespace

class EctBuilder::Impl {
 public:
  explicit Impl(const EctOptions& options) : options_(options) {
    if (options.group < 16 || options.group > 65536) {
      Fail("group " + std::to_string(options.group) + " is not within 16 ... 65536");
    } else if (options.hmax < EctCodes::kMinHmax || options.hmax > EctCodes::kMaxHmax) {
      Fail("hmax " + std::to_string(options.hmax) + " is not within 2 ... 120");
    } else if (options.skip_leaves < 3) {
      Fail("skip_leaves " + std::to_string(options.skip_leaves) + " is below 3");
    } else if (options.block_items == 1) {
      Fail("block_items 1 is a dense index: use 0");
    } else if (options.block_items != 0 && options.prune_at_started_blocks) {
      Fail("block_items and prune_at_started_blocks exclude each other");
    } else if (options.prune_at_started_blocks && options.expected_keys != 0) {
      // A block's end is known only when the next one starts; the builder then has to keep the hashes anyway.
      options_.expected_keys = 0;
    }
    if (options.expected_keys != 0 && options.first_hash > options.last_hash) Fail("first_hash is above last_hash");
    if (!status_.ok()) return;
    if (options_.expected_keys != 0) Begin(options.expected_keys, options.first_hash, options.last_hash);
  }

  void Add(uint64_t hash) {
    if (hash < previous_) {
      Fail("hashes must not decrease, but position " + std::to_string(keys_) + " does");
    }
    previous_ = hash;
    ++keys_;
    if (!status_.ok()) return;
    if (options_.expected_keys == 0) {
      if (keys_ == 1) first_ = hash;
      hashes_.Push(hash);
    } else if (hash < header_.first_hash || hash > header_.last_hash) {
      Fail("the hash at position " + std::to_string(keys_ - 1) + " is not within first_hash ... last_hash");
    } else {
      AddToBucket(hash);
    }
  }

  void StartBlock() {
    if (options_.block_items != 0) Fail("StartBlock() and block_items exclude each other");
    if (starts_.empty() || starts_.back() != keys_) starts_.push_back(keys_);
  }

  uint64_t keys() const { return keys_; }

  IndexStatus Finish(std::string* out) {
    if (finished_) Fail("Finish() was called twice");
    finished_ = true;
    if (keys_ > EctHeader::kMaxKeys) Fail("more than 2^40 keys");
    if (options_.prune_at_started_blocks && starts_.empty() && keys_ > 0) Fail("no block was started");
    if (!starts_.empty() && starts_.back() == keys_) starts_.pop_back();
    if (!starts_.empty() && starts_[0] != 0) Fail("the first block must start before the first key");
    if (!status_.ok()) return status_;

    if (options_.expected_keys == 0) {
      Begin(keys_, first_, previous_);
      hashes_.Drain([this](uint64_t hash) { AddToBucket(hash); });
    }
    EndBucket();
    header_.keys = keys_;
    header_.buckets = keys_ == 0 ? 0 : static_cast<uint32_t>(bucket_ + 1);
    CutRange();
    header_.trie_bits = trie_base_bits_ + bits_.size();
    bits_.AppendBytes(&tries_);
    boundaries_.push_back({keys_, header_.trie_bits});
    header_.rank_slope = header_.buckets == 0 ? 0 : Slope(keys_, header_.buckets);
    header_.bit_slope = keys_ == 0 ? 0 : Slope(header_.trie_bits, keys_);

    std::string directory;
    WriteDirectory(boundaries_, &header_, &directory);
    header_.directory_bytes = directory.size();
    std::string blocks;
    if (!starts_.empty()) {
      EncodeEliasFano(starts_, keys_, &blocks);
      header_.flags |= EctHeader::kHasBlocks;
    }
    if (keys_ > 0 && (options_.block_items != 0 || options_.prune_at_started_blocks)) {
      header_.flags |= EctHeader::kSparse;
      header_.block_items = options_.block_items;
    }
    header_.blocks_bytes = blocks.size();

    const size_t start = out->size();
    out->reserve(start + header_.TotalBytes());
    header_.EncodeTo(out);
    out->append(directory);
    out->append(tries_);
    out->append(EctHeader::kTriePadding, '\0');
    out->append(blocks);
    PutU32(out, Crc32c(out->data() + start, out->size() - start));
    return IndexStatus::OK();
  }

 private:
  void Fail(std::string what) {
    if (status_.ok()) status_ = IndexStatus::InvalidArgument("ECT index: " + std::move(what));
  }

  static uint32_t Slope(uint64_t total, uint64_t parts) {
    const unsigned __int128 slope = (static_cast<unsigned __int128>(total) << 8) / parts;
    return slope > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(slope);
  }

  void Begin(uint64_t keys, uint64_t first_hash, uint64_t last_hash) {
    header_.first_hash = first_hash;
    header_.last_hash = last_hash;
    header_.hmax = options_.hmax;
    header_.skip_leaves = options_.skip_leaves;
    const unsigned __int128 range = static_cast<unsigned __int128>(last_hash - first_hash) + 1;
    uint64_t buckets = std::max<uint64_t>(1, (keys + options_.group / 2) / options_.group);
    buckets = std::min<uint64_t>(buckets, UINT32_MAX - 1);
    // floor(2^64 * buckets / range) must fit into 64 bits, and a bucket must hold at least one hash value.
    if (buckets >= range) buckets = std::max<uint64_t>(1, static_cast<uint64_t>(range - 1));
    const unsigned __int128 multiplier = (static_cast<unsigned __int128>(buckets) << 64) / range;
    header_.multiplier = multiplier > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(multiplier);

    uint32_t block_items = options_.block_items;
    if (options_.prune_at_started_blocks && !starts_.empty()) {
      block_items = static_cast<uint32_t>(std::min<uint64_t>(keys / starts_.size(), 1 << 20));
      pruning_.SetStarted(&starts_);
    }
    if (options_.block_items != 0) pruning_.SetFixed(options_.block_items);
    header_.skip_slope = ExpectedBits(block_items);
    const bool dense = options_.block_items == 0 && !options_.prune_at_started_blocks;
    writer_ = std::make_unique<TrieWriter>(EctCodes::Get(options_.hmax), options_.skip_leaves, header_.skip_slope,
                                           &pruning_, dense);
  }

  void AddToBucket(uint64_t hash) {
    const unsigned __int128 product = static_cast<unsigned __int128>(hash - header_.first_hash) * header_.multiplier;
    const uint64_t bucket = static_cast<uint64_t>(product >> 64);
    if (bucket != bucket_) {
      EndBucket();
      // Empty buckets have their boundaries too.
      for (; bucket_ < bucket; ++bucket_) boundaries_.push_back({written_, trie_base_bits_ + bits_.size()});
    }
    suffixes_.push_back(static_cast<uint64_t>(product));
  }

  // Writes the collected trie. boundaries_ holds all boundaries up to that of bucket_.
  void EndBucket() {
    if (boundaries_.empty()) boundaries_.push_back({0, 0});
    if (suffixes_.empty()) return;
    writer_->WriteTrie(suffixes_.data(), suffixes_.size(), written_, &bits_);
    written_ += suffixes_.size();
    suffixes_.clear();
    if (bits_.size() > 1 << 20) {
      trie_base_bits_ += bits_.size() & ~uint64_t{63};
      bits_.Drain(&tries_);
    }
  }

  // With a wrong expectation of keys the last buckets may be missing: hashes behind the last bucket are then out of
  // range.
  void CutRange() {
    if (keys_ == 0) {
      header_.first_hash = header_.last_hash = 0;
      header_.multiplier = 0;
      return;
    }
    header_.last_hash = std::min(header_.last_hash, previous_);
  }

  EctOptions options_;
  IndexStatus status_;
  EctHeader header_;
  bool finished_ = false;
  uint64_t keys_ = 0;
  uint64_t previous_ = 0;
  uint64_t first_ = 0;
  HashQueue hashes_;              // all of them, unless expected_keys says that they need not be kept
  std::vector<uint64_t> starts_;  // ranks at which started blocks begin

  Boundaries pruning_;
  std::unique_ptr<TrieWriter> writer_;
  uint64_t bucket_ = 0;             // that suffixes_ belong to
  std::vector<uint64_t> suffixes_;  // of the bucket that is being collected
  uint64_t written_ = 0;            // keys of the buckets before
  std::vector<Boundary> boundaries_;
  std::string tries_;  // whole words of the bits so far; bits_ is the rest
  uint64_t trie_base_bits_ = 0;
  BitWriter bits_;
};

EctBuilder::EctBuilder(const EctOptions& options) : impl_(std::make_unique<Impl>(options)) {}
EctBuilder::~EctBuilder() = default;
void EctBuilder::Add(uint64_t hash) { impl_->Add(hash); }
void EctBuilder::StartBlock() { impl_->StartBlock(); }
uint64_t EctBuilder::keys() const { return impl_->keys(); }
IndexStatus EctBuilder::Finish(std::string* out) { return impl_->Finish(out); }

}  // namespace cairn
