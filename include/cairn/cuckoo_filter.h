// A partial-key cuckoo hash filter over 64-bit hashes: "certainly not in the set" or "probably in it", with a false
// positive rate of about 7.6 / 2^tag_bits at tag_bits / 0.95 bits per key. SILT's filter of HashStores.
//
//   cairn::CuckooFilterBuilder builder{cairn::CuckooFilterOptions()};
//   for (uint64_t hash : hashes) builder.Add(hash);       // any order, equal hashes count once
//   std::string bytes;
//   cairn::IndexStatus status = builder.Finish(&bytes);
//   cairn::CuckooFilter filter;
//   status = cairn::CuckooFilter::Open(bytes.data(), bytes.size(), &filter);
//   if (filter.MayContain(hash)) ...
//
// Which one, this or a Bloom filter? At the same rate f a Bloom filter takes 1.44 log2(1 / f) bits per key, this one
// (log2(1 / f) + 2.9) / 0.95: fewer below f of about 0.4 %. A lookup reads two places, a Bloom filter in cache lines
// one.
//
// A bucket has four tags, and a key's tag is in one of two buckets: b, or b' = T(tag) - b modulo the number of buckets.
// Taking b' for b gives b again, as in the XOR variant of the source, but works for any number of buckets: XOR needs a
// power of two of them, and leaves up to half of the memory empty.
//
// Sources: SILT (SOSP 2011; sections 2.2.1 and 2.2.2 of Lim's thesis, CMU 2015); B. Fan et al., Cuckoo filter (CoNEXT
// 2014), for the self-inverse step. Bytes: docs/design/silt.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/index_status.h"

namespace cairn {

struct CuckooFilterOptions {
  // Bits of a tag, 4 to 25. 15 is SILT's: 0.023 % false positives at 15.8 bits per key.
  uint32_t tag_bits = 15;

  // The part of the slots that is filled, 0.05 to 0.97. Above 0.95 building takes ever longer, and may end with a lower
  // load.
  double load = 0.95;
};

// Collects hashes (8 bytes each) and builds one filter. Not thread-safe.
class CuckooFilterBuilder {
 public:
  explicit CuckooFilterBuilder(const CuckooFilterOptions& options) : options_(options) {}

  void Add(uint64_t hash) { hashes_.push_back(hash); }
  size_t keys() const { return hashes_.size(); }

  // Appends the filter to *out and forgets the hashes. The same hashes in the same order give the same bytes.
  // NotSupported if so many hashes share their buckets that it would not fit into about twice the memory: somebody
  // chose them so. Go without a filter then.
  IndexStatus Finish(std::string* out);

 private:
  CuckooFilterOptions options_;
  std::vector<uint64_t> hashes_;
};

// A view of a filter in memory.
//
// Thread-safety: immutable after Open(); any number of threads may ask at once.
// Ownership: the caller's bytes are used in place and must outlive the view.
class CuckooFilter {
 public:
  CuckooFilter() = default;

  // Checks size and checksum and makes *filter a view of the bytes. On an error *filter is left empty, and says yes to
  // everything.
  static IndexStatus Open(const void* data, size_t size, CuckooFilter* filter);

  bool MayContain(uint64_t hash) const;
  // Begins to load what MayContain will read: call it for several filters, then ask them.
  void Prefetch(uint64_t hash) const;

  // Asks for `count` hashes with overlapping cache misses; answers[i] is true if hashes[i] may be in the set.
  void MayContainBatch(const uint64_t* hashes, size_t count, bool* answers) const;

  // Tags stored: the number of keys, less those that were added twice or share tag and buckets with another.
  uint64_t tags() const { return tags_; }
  uint32_t tag_bits() const { return tag_bits_; }
  double load() const { return buckets_ == 0 ? 0 : static_cast<double>(tags_) / (4.0 * static_cast<double>(buckets_)); }
  size_t bytes() const { return size_; }

 private:
  bool BucketHas(uint64_t bucket, uint64_t tag) const;

  const uint8_t* slots_ = nullptr;
  size_t size_ = 0;
  uint64_t buckets_ = 0;
  uint64_t tags_ = 0;
  uint32_t tag_bits_ = 0;
};

}  // namespace cairn
