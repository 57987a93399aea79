// ECT, an index of entropy-coded tries over a sorted sequence of 64-bit hashes: from a hash to its position, in
// about 2.5 bits per key, or to the block that holds its position, in less than one bit per key. It needs nothing of
// RocksDB.
//
//   cairn::EctBuilder builder{cairn::EctOptions()};
//   for (uint64_t hash : sorted_hashes) builder.Add(hash);
//   std::string bytes;
//   cairn::IndexStatus status = builder.Finish(&bytes);
//   cairn::EctIndex index;
//   status = cairn::EctIndex::Open(bytes.data(), bytes.size(), cairn::EctVerify::kChecksum, &index);
//   cairn::EctMatch match = index.Lookup(hash);
//
// The index does not hold the hashes. A hash that was added always gets a range that contains its position. Another
// hash gets either an empty range or the position of a key that must then be compared.
//
// The hashes must be well mixed (XXH3, say): the codes assume that every bit is a coin toss. Clustered and equal hashes
// are indexed correctly, but cost more bits.
//
// Sources: Lim's thesis (CMU 2015), chapter 3; SILT (SOSP 2011). Bytes: docs/design/ect.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cairn/index_status.h"

namespace cairn {

struct EctOptions {
  // Mean number of keys in a virtual bucket (16 to 65536). Larger is smaller and slower: a lookup decodes a part of one
  // bucket. 256 gives 2.47 bits per key.
  uint32_t group = 256;

  // Tries of at most this many leaves have Huffman codes, larger ones Elias-gamma (2 to 120).
  uint32_t hmax = 64;

  // 0: dense, one position a key. At least 2: sparse, positions are told apart only if they lie in different blocks of
  // this many positions, the last block excepted.
  uint32_t block_items = 0;

  // Tries with at least this many leaves also store the length of their left part, so that a lookup that goes right
  // need not decode it. Smaller is faster and larger: about 6 bits for every trie of that size. 160 costs 0.02 bits a
  // key at group 256.
  uint32_t skip_leaves = 160;

  // With blocks that EctBuilder::StartBlock() cuts: whether tries stop at block boundaries (sparse) or at keys.
  bool prune_at_started_blocks = false;

  // 0: the builder keeps all hashes (8 bytes per key) until Finish(). Otherwise the expected number of keys, and the
  // range in which all hashes lie: the index is then built while keys arrive, in memory for one bucket, and twice as
  // fast where there are many. A wrong number costs bits or speed only.
  uint64_t expected_keys = 0;
  uint64_t first_hash = 0;
  uint64_t last_hash = UINT64_MAX;
};

// Builds one index. Not thread-safe. Errors of arguments are kept and returned by Finish().
class EctBuilder {
 public:
  explicit EctBuilder(const EctOptions& options);
  ~EctBuilder();
  EctBuilder(const EctBuilder&) = delete;
  EctBuilder& operator=(const EctBuilder&) = delete;

  // Adds the next position. Hashes must not decrease; equal ones are allowed.
  void Add(uint64_t hash);

  // The next position begins a block of a variable number of items. To be called before the first Add() and wherever a
  // block begins; not together with EctOptions::block_items.
  void StartBlock();

  uint64_t keys() const;

  // Appends the index to *out. May be called once.
  IndexStatus Finish(std::string* out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Positions rank ... rank + count - 1 may hold the key that was asked for; nothing else does. count is 0 if no key can,
// 1 in a dense index without equal hashes, at most a block's items in a sparse one.
struct EctMatch {
  uint64_t rank = 0;
  uint64_t count = 0;
};

enum class EctVerify {
  kChecksum,   // read and check every byte
  kStructure,  // check header, directory and blocks only: for mapped files of which few pages should be touched
};

// A view of an index in memory.
//
// Thread-safety: immutable after Open(); any number of threads may look up at once.
// Ownership: the caller's bytes are used in place and must outlive the view.
// Safety: with bytes that changed after Open(), or were not verified, answers may be wrong, but reads stay inside the
// bytes.
class EctIndex {
 public:
  EctIndex() = default;

  // Checks the bytes and makes *index a view of them. On an error *index is left empty.
  static IndexStatus Open(const void* data, size_t size, EctVerify verify, EctIndex* index);

  EctMatch Lookup(uint64_t hash) const;

  // The same answers for `count` hashes. Overlaps the cache misses of several lookups, so that an index larger than the
  // processor's caches costs less a key.
  void LookupBatch(const uint64_t* hashes, size_t count, EctMatch* matches) const;

  // All positions whose hash may share the bucket of `hash`. The first position with a hash not below `hash` lies in
  // rank ... rank + count.
  EctMatch Bucket(uint64_t hash) const;

  // The block of a position: rank / block_items, or the last started block that begins at or before it; the position
  // itself if the index has no blocks. `rank` must be below keys().
  uint64_t BlockOf(uint64_t rank) const;

  uint64_t keys() const { return keys_; }
  uint64_t blocks() const;
  uint32_t buckets() const { return buckets_; }
  bool sparse() const { return sparse_; }
  size_t bytes() const { return size_; }
  double BitsPerKey() const { return keys_ == 0 ? 0 : 8.0 * static_cast<double>(size_) / static_cast<double>(keys_); }

 private:
  friend class EctReader;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  const class EctCodes* codes_ = nullptr;  // shared, never freed

  // Copies of the header's fields, see docs/design/ect.md.
  uint64_t keys_ = 0;
  uint64_t first_hash_ = 0;
  uint64_t last_hash_ = 0;
  uint64_t multiplier_ = 0;
  uint32_t buckets_ = 0;
  uint32_t block_items_ = 0;
  uint32_t skip_leaves_ = 0;
  uint32_t skip_slope_ = 0;
  uint32_t rank_slope_ = 0;
  uint32_t bit_slope_ = 0;
  uint32_t rank_bits_ = 0;
  uint32_t bit_bits_ = 0;
  uint32_t record_bytes_ = 0;
  bool sparse_ = false;
  uint64_t trie_bits_ = 0;
  const uint8_t* directory_ = nullptr;
  const uint8_t* tries_ = nullptr;
  const uint8_t* blocks_ = nullptr;  // null: no started blocks
  size_t blocks_bytes_ = 0;
};

}  // namespace cairn
