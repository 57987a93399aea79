// A filter over 64-bit hashes for tables whose memory counts: "certainly not in the set" or "probably in it", with a
// false positive rate of 2^-b at 1.1 b bits per key, which is within a tenth of the least that is possible. It needs
// nothing of RocksDB.
//
//   RibbonFilterBuilder builder(4);
//   for (uint64_t hash : sorted_hashes) builder.Add(hash);
//   std::string bytes;
//   IndexStatus status = builder.Finish(&bytes);
//   RibbonFilter filter;
//   status = RibbonFilter::Open(bytes.data(), bytes.size(), &filter);
//   if (filter.MayContain(hash)) ...
//
// Which one, this or a cuckoo filter (cairn/cuckoo_filter.h)? At 4 bits this one lets 1 key in 16 pass, a cuckoo filter
// 1 in 2; at 15 bits the cuckoo filter, whose bits buy as much from there on, is built and asked faster.
//
// A key stands for an equation over 64 bits in a row: those that its coefficients choose are even in number. A key that
// was not added solves each of the b systems by chance. Equations without a constant always have a solution, so
// building cannot fail; hashes come sorted, so it needs only what the processor's first cache holds.
//
// Source: P. Dillinger, L. Hübschle-Schneider, P. Sanders, S. Walzer, Fast succinct retrieval and approximate
// membership using ribbon (SEA 2022), homogeneous ribbon filters. Bytes: docs/design/silt.md.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cairn/index_status.h"

namespace cairn {

constexpr uint32_t kMaxRibbonBits = 16;

// Collects hashes (8 bytes each) and builds one filter. Not thread-safe.
class RibbonFilterBuilder {
 public:
  // `bits`: 1 to kMaxRibbonBits.
  explicit RibbonFilterBuilder(uint32_t bits) : bits_(bits) {}

  // Hashes must not decrease. Equal ones count once.
  void Add(uint64_t hash) { hashes_.push_back(hash); }
  size_t keys() const { return hashes_.size(); }

  // Appends the filter to *out and forgets the hashes. The same hashes give the same bytes.
  // Where hashes crowd, because somebody chose them so, strange ones pass; it takes no longer to build.
  IndexStatus Finish(std::string* out);

 private:
  const uint32_t bits_;
  std::vector<uint64_t> hashes_;
};

// A view of a filter in memory.
//
// Thread-safety: immutable after Open(); any number of threads may ask at once.
// Ownership: the caller's bytes are used in place and must outlive the view.
class RibbonFilter {
 public:
  RibbonFilter() = default;

  // Checks size and checksum and makes *filter a view of the bytes. On an error *filter is left empty, and says yes to
  // everything.
  static IndexStatus Open(const void* data, size_t size, RibbonFilter* filter);

  bool MayContain(uint64_t hash) const;

  uint32_t bits() const { return bits_; }
  uint64_t keys() const { return keys_; }

 private:
  const uint8_t* words_ = nullptr;  // of segment after segment: a word of 64 bits for each of the b systems
  uint32_t bits_ = 0;
  uint64_t keys_ = 0;
  uint64_t first_hash_ = 0;
  uint64_t last_hash_ = 0;
  uint64_t multiplier_ = 0;
};

}  // namespace cairn
