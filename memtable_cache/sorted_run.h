// Entries of a memtable in order: what iterators and the flush read. Made by sorting many entries at once (MSD radix on
// order-preserving 8-byte prefixes), or by merging two runs; never by inserting.
//
// Thread-safety: immutable.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "memtable_cache/key_order.h"

namespace cairn {

struct SortItem {
  uint64_t prefix;
  const char* entry;
};

// Entries to be sorted: sixteen bytes each, that become the eight of a run's entry in place.
class SortItems {
 public:
  // Room for `most` items, without which Add may not be called.
  explicit SortItems(size_t most);

  void Add(const SortItem& item) { items_.get()[size_++] = item; }
  size_t size() const { return size_; }
  size_t room() const { return room_; }
  SortItem* data() const { return items_.get(); }

  struct Free {
    void operator()(void* memory) const { free(memory); }
  };
  // The entries' addresses in the items' memory, of which the rest is given back; no items are left.
  std::unique_ptr<const char*[], Free> TakeEntries();

  // Memory that sorting takes besides the items.
  static constexpr size_t kSpareItems = size_t{1} << 16;

 private:
  size_t size_ = 0;
  size_t room_;
  std::unique_ptr<SortItem[], Free> items_;
};

// Sorts by key, newest first; the prefixes are KeyOrder::Prefix of the keys, and are overwritten.
void SortEntries(const KeyOrder& order, SortItems* items);

// Invariant: the keys of a run agree in their first `depth` bytes, behind which its prefixes begin. So prefixes tell
// apart keys that begin with a long name.
class SortedRun {
 public:
  // A dense run keeps every prefix, for merging; a sparse one every 16th, for seeking only.
  enum class Prefixes { kDense, kSparse };

  // `beside`, unless it is null, is another run: keys of both agree to the new run's depth.
  static std::shared_ptr<const SortedRun> FromEntries(const KeyOrder& order, SortItems* items, Prefixes prefixes,
                                                      const SortedRun* beside);
  // A dense run's entries, with the prefixes of a smaller depth.
  static std::shared_ptr<const SortedRun> WithDepth(const KeyOrder& order, const SortedRun& run, size_t depth);
  // Of two dense runs of the same depth, a dense one.
  static std::shared_ptr<const SortedRun> Merge(const KeyOrder& order, const SortedRun& a, const SortedRun& b);

  size_t size() const { return size_; }
  size_t depth() const { return depth_; }
  const char* entry(size_t i) const { return entries_[i]; }
  // Of a dense run.
  uint64_t prefix(size_t i) const { return prefixes_[i]; }

  // Index of the first entry that is not before the key; size() if there is none.
  size_t LowerBound(const KeyOrder& order, const rocksdb::Slice& internal_key) const;

  // Not inlined, it would be a function without effects for GCC, which drops calls of such.
  [[gnu::always_inline]] void Prefetch(size_t i) const {
    if (i < size_) {
      __builtin_prefetch(entries_[i]);
      __builtin_prefetch(entries_[i] + 64);
    }
  }

  static constexpr size_t kDenseBytes = sizeof(const char*) + sizeof(uint64_t);  // per entry
  size_t MemoryBytes() const { return size_ * sizeof(const char*) + prefix_count_ * sizeof(uint64_t); }

 private:
  using Entries = std::unique_ptr<const char*[], SortItems::Free>;

  SortedRun(size_t size, Prefixes prefixes, size_t depth, Entries entries);
  static std::shared_ptr<SortedRun> NewDense(size_t size, size_t depth);

  static constexpr int kSparseShift = 4;

  const size_t size_;
  const size_t depth_;
  const int shift_;
  const size_t prefix_count_;
  Entries entries_;
  std::unique_ptr<uint64_t[]> prefixes_;
};

}  // namespace cairn
