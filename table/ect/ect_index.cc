// Opening an ECT index and looking hashes up in it. The bytes are drawn in docs/design/ect.md; numbers in parentheses
// are its invariants.

#include <algorithm>

#include "cairn/ect.h"
#include "table/ect/ect_codes.h"
#include "table/ect/ect_layout.h"
#include "util/checksum.h"
#include "util/elias_fano.h"

namespace cairn {

namespace {

struct Span {
  uint64_t rank, bit;          // where a bucket begins
  uint64_t rank_end, bit_end;  // where it ends
};

// What decides when a lookup need not descend further: the positions of a node lie in one block. `Fits(n)` asks that
// for the next n positions.

class OnePosition {
 public:
  explicit OnePosition(uint64_t) {}
  bool Fits(uint64_t n) const { return n <= 1; }
  void Seek(uint64_t) {}
};

class FixedBlocks {
 public:
  FixedBlocks(uint64_t items, uint64_t rank) : items_(static_cast<int64_t>(items)) { Seek(rank); }
  bool Fits(uint64_t n) const { return static_cast<int64_t>(n) <= room_; }
  void Seek(uint64_t rank) { room_ = items_ - static_cast<int64_t>(rank % static_cast<uint64_t>(items_)); }
  // Passes n positions that fit, or two that do not.
  void Pass(uint64_t n) {
    room_ -= static_cast<int64_t>(n);
    if (room_ <= 0) room_ += items_;
  }

 private:
  int64_t items_;
  int64_t room_ = 0;  // positions up to the block's end, at least 1
};

class StartedBlocks {
 public:
  StartedBlocks(const EliasFano& starts, uint64_t keys, uint64_t rank)
      : starts_(starts), keys_(keys), next_(starts_, starts_.count()) {
    Seek(rank);
  }
  StartedBlocks(const StartedBlocks&) = delete;
  bool Fits(uint64_t n) const { return rank_ + n <= end_; }
  void Seek(uint64_t rank) {
    rank_ = rank;
    next_ = EliasFano::Iterator(starts_, starts_.Predecessor(std::min(rank, keys_ - 1)) + 1);
    end_ = next_.Valid() ? next_.value() : keys_;
  }
  void Pass(uint64_t n) {
    rank_ += n;
    while (rank_ >= end_ && next_.Valid()) {
      next_.Next();
      end_ = next_.Valid() ? next_.value() : keys_;
    }
  }

 private:
  const EliasFano starts_;
  const uint64_t keys_;
  EliasFano::Iterator next_;
  uint64_t rank_ = 0;
  uint64_t end_ = 0;  // of the block of rank_
};

// The tries that are still to be skipped; by (4) never many.
class Pending {
 public:
  bool Push(uint64_t n) {
    if (size_ == kMax) return false;
    sizes_[size_++] = n;
    return true;
  }
  bool Pop(uint64_t* n) {
    if (size_ == 0) return false;
    *n = sizes_[--size_];
    return true;
  }

 private:
  static constexpr size_t kMax = 128;
  size_t size_ = 0;
  uint64_t sizes_[kMax];
};

// Decodes a region without a stored length: its forward stream up to what has been read, its pairs by their number.
class Cursor {
 public:
  Cursor(const EctCodes* codes, const uint8_t* tries, uint64_t begin, uint64_t end)
      : codes_(codes), tries_(tries), at_(begin), end_(end) {}

  // The left leaves of the node of n leaves whose code is next; n or more: damage.
  uint64_t Left(uint64_t n) {
    const uint64_t left = codes_->Decode(tries_, n, &at_);
    return at_ <= end_ ? left : n;
  }

  // The length in bits of a left part with `left` leaves, or UINT64_MAX.
  uint64_t Length(uint64_t left, uint32_t skip_slope) {
    const uint64_t z = EctCodes::DecodeGamma(tries_, EctSkipBits(left), &at_);
    if (z == UINT64_MAX || at_ > end_) return UINT64_MAX;
    // Modulo 2^64: of damage, the sum may be beyond what a signed number holds.
    const uint64_t length = EctSkipPrediction(left, skip_slope) + static_cast<uint64_t>(UnZigZag(z));
    return length <= end_ - at_ ? length : UINT64_MAX;
  }

  void EnterLeft(uint64_t length) { end_ = at_ + length; }
  void EnterRight(uint64_t length) { at_ += length; }

  // Passes over a trie of n leaves. False: damage.
  bool Skip(uint64_t n, OnePosition&) {
    if (n <= EctCodes::kMaxSkipLeaves) return SkipSmall(n);
    Pending pending;
    do {
      if (n <= EctCodes::kMaxSkipLeaves) {
        if (!SkipSmall(n)) return false;
        continue;
      }
      const uint64_t left = Left(n);
      if (left >= n || !pending.Push(n - left) || (left != 0 && !pending.Push(left))) return false;
    } while (pending.Pop(&n));
    return true;
  }

  template <class Blocks>
  bool Skip(uint64_t n, Blocks& blocks) {
    Pending pending;
    do {
      if (blocks.Fits(n)) {
        blocks.Pass(n);
      } else if (n == 2) {
        ++pairs_;
        blocks.Pass(2);
      } else {
        const uint64_t left = Left(n);
        if (left >= n || !pending.Push(n - left) || (left != 0 && !pending.Push(left))) return false;
      }
    } while (pending.Pop(&n));
    return true;
  }

  // The number of further bits that the next pair's suffixes have in common; more than 64: damage.
  unsigned PairZeros() const {
    // Bit j of the pair stream is bit end_ - 1 - j. `from` is the first one that belongs to the pair.
    uint64_t from = 0;
    if (pairs_ > 0) {
      uint64_t k = pairs_ - 1;  // the 1 that ends the pair before
      for (;; from += 56) {
        if (from >= end_ - at_) return 65;
        const uint64_t window = Backward(from);
        const unsigned ones = static_cast<unsigned>(__builtin_popcountll(window));
        if (k < ones) {
          from += 56 - SelectInWord(window, ones - 1 - static_cast<unsigned>(k));
          break;
        }
        k -= ones;
      }
    }
    for (unsigned zeros = 0;; zeros += 56) {
      if (zeros > 64 || from + zeros >= end_ - at_) return 65;
      const uint64_t window = Backward(from + zeros);
      if (window != 0) return zeros + static_cast<unsigned>(__builtin_clzll(window)) - 8;
    }
  }

 private:
  // 56 bits of the pair stream from `from` on, the first one highest. There are 8 bytes of header before the first bit.
  uint64_t Backward(uint64_t from) const {
    const uint64_t last = end_ - 1 - from;
    const uint64_t word = LoadU64(tries_ + (last >> 3) - 7);
    return word << (7 - (last & 7)) >> 8;
  }

  // Passes over a trie of at most kMaxSkipLeaves leaves.
  bool SkipSmall(uint64_t n) {
    if (n <= 2) {
      pairs_ += n >> 1;
      return true;
    }
    const uint32_t* const table = codes_->skip_table();
    uint64_t sizes = n;  // of the tries left to skip, a byte each, the next one lowest
    while (at_ <= end_) {
      uint64_t window = LoadBits(tries_, at_);
      for (int step = 0; step < int{56 / EctCodes::kWindowBits}; ++step) {
        const uint32_t entry =
            table[(sizes & 255) << EctCodes::kWindowBits | (window & LowMask(EctCodes::kWindowBits))];
        if (__builtin_expect((entry & 63) == 0 || sizes >> 56 != 0, 0)) {
          if (!SkipOneSlowly(&sizes)) return false;
          if (sizes == 0) return at_ <= end_;
          break;
        }
        window >>= entry & 63;
        at_ += entry & 63;
        pairs_ += entry >> 11 & 31;
        sizes = sizes >> 8 << (entry >> 6 & 31) | entry >> 16;
        if (sizes == 0) return at_ <= end_;
      }
    }
    return false;
  }

  // One step of SkipSmall where the table does not help: a code longer than the window, or no room for two more sizes.
  bool SkipOneSlowly(uint64_t* sizes) {
    // What is readable behind the tries is enough for codes that begin before their end.
    if (at_ > end_) return false;
    const uint64_t n = *sizes & 255;
    if (*sizes >> 56 != 0) {
      // At most two levels deep: each one leaves seven tries of at least 3 leaves behind.
      *sizes >>= 8;
      return SkipSmall(n);
    }
    const uint64_t left = Left(n);
    if (left >= n) return false;
    *sizes >>= 8;
    for (uint64_t part : {n - left, left}) {
      if (part > 2) *sizes = *sizes << 8 | part;
      if (part == 2) ++pairs_;
    }
    return true;
  }

  const EctCodes* const codes_;
  const uint8_t* const tries_;
  uint64_t at_;         // the next code of the forward stream
  uint64_t end_;        // of the region
  uint64_t pairs_ = 0;  // passed so far
};

// Descends to the suffix. count is UINT64_MAX after damage.
template <class Blocks>
EctMatch Find(Cursor cursor, const Span& span, uint64_t suffix, uint32_t skip_leaves, uint32_t skip_slope,
              Blocks& blocks) {
  constexpr EctMatch kDamage = {0, UINT64_MAX};
  uint64_t rank = span.rank, n = span.rank_end - span.rank;
  unsigned depth = 0;
  for (; n >= skip_leaves && !blocks.Fits(n); ++depth) {
    if (depth == 64) return {rank, n};
    const uint64_t left = cursor.Left(n);
    if (left >= n) return kDamage;
    if (left == 0) continue;
    const uint64_t length = cursor.Length(left, skip_slope);
    if (length == UINT64_MAX) return kDamage;
    if ((suffix >> (63 - depth) & 1) == 0) {
      cursor.EnterLeft(length);
      n = left;
    } else {
      cursor.EnterRight(length);
      n -= left;
      rank += left;
      blocks.Seek(rank);
    }
  }
  for (; !blocks.Fits(n); ++depth) {
    if (n == 2) {
      const unsigned zeros = cursor.PairZeros();
      if (zeros > 64) return kDamage;
      depth += zeros;
      if (depth >= 64) return {rank, 2};
      return {rank + (suffix >> (63 - depth) & 1), 1};
    }
    if (depth == 64) return {rank, n};
    const uint64_t left = cursor.Left(n);
    if (left >= n) return kDamage;
    if (left == 0) continue;
    if ((suffix >> (63 - depth) & 1) == 0) {
      n = left;
    } else {
      if (!cursor.Skip(left, blocks)) return kDamage;
      n -= left;
      rank += left;
    }
  }
  return {rank, n};
}

}  // namespace

// The parts of EctIndex that need internal headers.
class EctReader {
 public:
  static bool InRange(const EctIndex& index, uint64_t hash) {
    return hash - index.first_hash_ <= index.last_hash_ - index.first_hash_ && index.keys_ != 0;
  }

  static uint64_t BucketOf(const EctIndex& index, uint64_t hash, uint64_t* suffix) {
    const unsigned __int128 product = static_cast<unsigned __int128>(hash - index.first_hash_) * index.multiplier_;
    *suffix = static_cast<uint64_t>(product);
    return static_cast<uint64_t>(product >> 64);
  }

  static const uint8_t* Record(const EctIndex& index, uint64_t boundary) {
    return index.directory_ + boundary / EctHeader::kRecordBoundaries * index.record_bytes_;
  }

  static void ReadBoundary(const EctIndex& index, uint64_t boundary, uint64_t* rank, uint64_t* bit) {
    const uint8_t* record = Record(index, boundary);
    const uint64_t i = boundary % EctHeader::kRecordBoundaries;
    const uint8_t* entries = record + EctHeader::kRecordBaseBytes;
    const uint64_t at = i * (index.rank_bits_ + index.bit_bits_);
    const uint64_t rank_offset = (i * index.rank_slope_ >> 8) + (LoadBits(entries, at) & LowMask(index.rank_bits_));
    *rank = static_cast<uint64_t>(LoadI48(record)) + rank_offset;
    *bit = static_cast<uint64_t>(LoadI48(record + 6)) + (rank_offset * index.bit_slope_ >> 8) +
           (LoadBits(entries, at + index.rank_bits_) & LowMask(index.bit_bits_));
  }

  static Span ReadSpan(const EctIndex& index, uint64_t bucket) {
    Span span;
    ReadBoundary(index, bucket, &span.rank, &span.bit);
    ReadBoundary(index, bucket + 1, &span.rank_end, &span.bit_end);
    return span;
  }

  static void Prefetch(const EctIndex& index, const Span& span) {
    const uint64_t end = span.bit_end >> 3;
    for (uint64_t at = span.bit >> 3; at <= end && at < (span.bit >> 3) + 256; at += 64) {
      __builtin_prefetch(index.tries_ + at);
    }
    __builtin_prefetch(index.tries_ + end);
  }

  static EctMatch FindInSpan(const EctIndex& index, const Span& span, uint64_t suffix) {
    const Cursor cursor(index.codes_, index.tries_, span.bit, span.bit_end);
    EctMatch match;
    if (!index.sparse_) {
      OnePosition blocks(span.rank);
      match = Find(cursor, span, suffix, index.skip_leaves_, index.skip_slope_, blocks);
    } else if (index.block_items_ != 0) {
      FixedBlocks blocks(index.block_items_, span.rank);
      match = Find(cursor, span, suffix, index.skip_leaves_, index.skip_slope_, blocks);
    } else {
      StartedBlocks blocks(EliasFano::Trusted(index.blocks_), index.keys_, span.rank);
      match = Find(cursor, span, suffix, index.skip_leaves_, index.skip_slope_, blocks);
    }
    // After damage the bucket still has all positions that are possible.
    if (match.count == UINT64_MAX) return {span.rank, span.rank_end - span.rank};
    return match;
  }

  static IndexStatus Open(const uint8_t* data, size_t size, EctVerify verify, EctIndex* index) {
    EctHeader header;
    IndexStatus status = header.Decode(data, size);
    if (!status.ok()) return status;
    if (verify == EctVerify::kChecksum) {
      const size_t covered = size - EctHeader::kChecksumBytes;
      if (Crc32c(data, covered) != LoadU32(data + covered)) {
        return IndexStatus::Corruption("ECT index: the checksum over bytes 0 ... " + std::to_string(covered - 1) +
                                       " does not match; rebuild it from the sorted hashes");
      }
    }
    EctIndex opened;
    opened.data_ = data;
    opened.size_ = size;
    opened.codes_ = EctCodes::Get(header.hmax);
    opened.keys_ = header.keys;
    opened.first_hash_ = header.first_hash;
    opened.last_hash_ = header.last_hash;
    opened.multiplier_ = header.multiplier;
    opened.buckets_ = header.buckets;
    opened.block_items_ = header.block_items;
    opened.skip_leaves_ = header.skip_leaves;
    opened.skip_slope_ = header.skip_slope;
    opened.rank_slope_ = header.rank_slope;
    opened.bit_slope_ = header.bit_slope;
    opened.rank_bits_ = header.rank_bits;
    opened.bit_bits_ = header.bit_bits;
    opened.record_bytes_ = header.RecordBytes();
    opened.sparse_ = (header.flags & EctHeader::kSparse) != 0;
    opened.trie_bits_ = header.trie_bits;
    opened.directory_ = data + EctHeader::kBytes;
    opened.tries_ = opened.directory_ + header.directory_bytes;
    status = CheckDirectory(opened);
    if (!status.ok()) return status;
    if ((header.flags & EctHeader::kHasBlocks) != 0) {
      opened.blocks_ = opened.tries_ + header.TrieBytes();
      opened.blocks_bytes_ = header.blocks_bytes;
      EliasFano starts;
      const char* error = starts.Open(opened.blocks_, opened.blocks_bytes_, opened.keys_);
      if (error != nullptr) {
        return IndexStatus::Corruption("ECT index: the block section at byte " + std::to_string(opened.blocks_ - data) +
                                       " is " + error + "; rebuild the index from the sorted hashes");
      }
    }
    if (!opened.sparse_) opened.codes_->MakeSkipTable();
    *index = opened;
    return IndexStatus::OK();
  }

 private:
  // (2)
  static IndexStatus CheckDirectory(const EctIndex& index) {
    uint64_t last_rank = 0, last_bit = 0;
    for (uint64_t b = 0; b <= index.buckets_; ++b) {
      uint64_t rank, bit;
      ReadBoundary(index, b, &rank, &bit);
      const bool first = b == 0, last = b == index.buckets_;
      if (rank < last_rank || bit < last_bit || rank > index.keys_ || bit > index.trie_bits_ ||
          (first && (rank != 0 || bit != 0)) || (last && (rank != index.keys_ || bit != index.trie_bits_))) {
        return IndexStatus::Corruption(
            "ECT index: bucket " + std::to_string(b) + " is out of order in the directory (byte " +
            std::to_string(Record(index, b) - index.data_) + "); rebuild the index from the sorted hashes");
      }
      last_rank = rank;
      last_bit = bit;
    }
    return IndexStatus::OK();
  }
};

IndexStatus EctIndex::Open(const void* data, size_t size, EctVerify verify, EctIndex* index) {
  *index = EctIndex();
  return EctReader::Open(static_cast<const uint8_t*>(data), size, verify, index);
}

EctMatch EctIndex::Lookup(uint64_t hash) const {
  if (!EctReader::InRange(*this, hash)) return {};
  uint64_t suffix;
  const uint64_t bucket = EctReader::BucketOf(*this, hash, &suffix);
  const Span span = EctReader::ReadSpan(*this, bucket);
  EctReader::Prefetch(*this, span);
  return EctReader::FindInSpan(*this, span, suffix);
}

void EctIndex::LookupBatch(const uint64_t* hashes, size_t count, EctMatch* matches) const {
  constexpr size_t kInFlight = 16;
  struct Query {
    uint64_t bucket, suffix;
    Span span;
    bool in_range;
  };
  Query queries[kInFlight];
  for (size_t begin = 0; begin < count; begin += kInFlight) {
    const size_t n = std::min(kInFlight, count - begin);
    for (size_t i = 0; i < n; ++i) {
      Query& query = queries[i];
      query.in_range = EctReader::InRange(*this, hashes[begin + i]);
      if (!query.in_range) continue;
      query.bucket = EctReader::BucketOf(*this, hashes[begin + i], &query.suffix);
      const uint8_t* record = EctReader::Record(*this, query.bucket);
      __builtin_prefetch(record);
      __builtin_prefetch(record + 64);
    }
    for (size_t i = 0; i < n; ++i) {
      Query& query = queries[i];
      if (!query.in_range) continue;
      query.span = EctReader::ReadSpan(*this, query.bucket);
      EctReader::Prefetch(*this, query.span);
    }
    for (size_t i = 0; i < n; ++i) {
      const Query& query = queries[i];
      matches[begin + i] = query.in_range ? EctReader::FindInSpan(*this, query.span, query.suffix) : EctMatch();
    }
  }
}

EctMatch EctIndex::Bucket(uint64_t hash) const {
  if (keys_ == 0 || hash < first_hash_) return {};
  if (hash > last_hash_) return {keys_, 0};
  uint64_t suffix;
  const Span span = EctReader::ReadSpan(*this, EctReader::BucketOf(*this, hash, &suffix));
  return {span.rank, span.rank_end - span.rank};
}

uint64_t EctIndex::BlockOf(uint64_t rank) const {
  if (block_items_ != 0) return rank / block_items_;
  if (blocks_ != nullptr) return EliasFano::Trusted(blocks_).Predecessor(rank);
  return rank;
}

uint64_t EctIndex::blocks() const {
  if (block_items_ != 0) return (keys_ + block_items_ - 1) / block_items_;
  if (blocks_ != nullptr) return EliasFano::Trusted(blocks_).count();
  return keys_;
}

}  // namespace cairn
