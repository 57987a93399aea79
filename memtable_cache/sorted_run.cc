#include "memtable_cache/sorted_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

namespace cairn {

namespace {

// Below this a comparison sort is faster than a pass of counting.
constexpr size_t kSmall = 48;
// Keys that agree in so many bytes are compared as a whole.
constexpr size_t kDeepest = 256;
constexpr int kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;

class Sorter {
 public:
  Sorter(const KeyOrder& order, SortItem* items, size_t count)
      : order_(order), spare_(new SortItem[std::min(count, SortItems::kSpareItems)]), items_(items) {}

  // Keys in [begin, end) agree in their first `depth` bytes. The result is in items_.
  void Sort(size_t begin, size_t end, size_t depth) {
    if (end - begin <= kSmall) return SortSmall(begin, end);
    uint64_t differing = 0;
    bool ordered = true;
    for (size_t i = begin + 1; i < end; ++i) {
      differing |= items_[i].prefix ^ items_[begin].prefix;
      ordered &= items_[i - 1].prefix < items_[i].prefix;
    }
    if (ordered) return;
    if (differing == 0) return SortEqualPrefixes(begin, end, depth);
    SortByDigit(begin, end, depth, std::max(0, 64 - __builtin_clzll(differing) - kDigitBits));
  }

 private:
  bool Before(const SortItem& a, const SortItem& b) const {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    return order_.CompareRest(a.entry, b.entry) < 0;
  }

  void SortSmall(size_t begin, size_t end) {
    if (end - begin > 16) {
      std::sort(items_ + begin, items_ + end, [this](const SortItem& a, const SortItem& b) { return Before(a, b); });
      return;
    }
    for (size_t i = begin + 1; i < end; ++i) {
      const SortItem item = items_[i];
      size_t at = i;
      for (; at > begin && Before(item, items_[at - 1]); --at) items_[at] = items_[at - 1];
      items_[at] = item;
    }
  }

  void SortByDigit(size_t begin, size_t end, size_t depth, int shift) {
    std::array<uint32_t, kDigits> counts{};
    for (size_t i = begin; i < end; ++i) ++counts[items_[i].prefix >> shift & (kDigits - 1)];
    if (end - begin <= SortItems::kSpareItems) {
      Distribute(begin, end, shift, counts);
    } else {
      DistributeInPlace(begin, shift, counts);
    }
    size_t from = begin;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      if (counts[digit] > 1) Sort(from, from + counts[digit], depth);
      from += counts[digit];
    }
  }

  void Distribute(size_t begin, size_t end, int shift, const std::array<uint32_t, kDigits>& counts) {
    std::array<size_t, kDigits> places;
    size_t place = 0;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      places[digit] = place;
      place += counts[digit];
    }
    for (size_t i = begin; i < end; ++i) {
      spare_[places[items_[i].prefix >> shift & (kDigits - 1)]++] = items_[i];
    }
    std::copy(spare_.get(), spare_.get() + (end - begin), items_ + begin);
  }

  // Follows each item that is out of place to where it belongs ("American flag sort", McIlroy, Bostic and McIlroy
  // 1993): slower than Distribute, but it takes no memory.
  void DistributeInPlace(size_t begin, int shift, const std::array<uint32_t, kDigits>& counts) {
    std::array<size_t, kDigits> places;
    std::array<size_t, kDigits> ends;
    size_t place = begin;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      places[digit] = place;
      place += counts[digit];
      ends[digit] = place;
    }
    for (size_t digit = 0; digit < kDigits; ++digit) {
      while (places[digit] < ends[digit]) {
        SortItem item = items_[places[digit]];
        for (;;) {
          const size_t belongs = item.prefix >> shift & (kDigits - 1);
          if (belongs == digit) break;
          std::swap(item, items_[places[belongs]++]);
        }
        items_[places[digit]++] = item;
      }
    }
  }

  // The prefixes say nothing more. Keys that go on get prefixes of their next eight bytes; without such (versions of
  // one key, a foreign comparator) comparisons decide.
  void SortEqualPrefixes(size_t begin, size_t end, size_t depth) {
    bool deeper = order_.can_deepen() && depth < kDeepest;
    for (size_t i = begin; deeper && i < end; ++i) deeper = KeyOf(items_[i].entry).user_key.size() >= depth + 8;
    if (deeper) {
      for (size_t i = begin; i < end; ++i) {
        items_[i].prefix = order_.Prefix(KeyOf(items_[i].entry).user_key, depth + 8);
      }
      return Sort(begin, end, depth + 8);
    }
    std::sort(items_ + begin, items_ + end,
              [this](const SortItem& a, const SortItem& b) { return order_.CompareRest(a.entry, b.entry) < 0; });
  }

  const KeyOrder& order_;
  const std::unique_ptr<SortItem[]> spare_;
  SortItem* const items_;
};

}  // namespace

SortItems::SortItems(size_t most)
    : room_(most), items_(static_cast<SortItem*>(malloc(std::max<size_t>(1, most) * sizeof(SortItem)))) {
  if (items_ == nullptr) throw std::bad_alloc();
}

std::unique_ptr<const char* [], SortItems::Free> SortItems::TakeEntries() {
  char* const memory = reinterpret_cast<char*>(items_.release());
  for (size_t i = 0; i < size_; ++i) {
    const char* const entry = reinterpret_cast<const SortItem*>(memory)[i].entry;
    memcpy(memory + i * sizeof(entry), &entry, sizeof(entry));
  }
  void* const smaller = realloc(memory, std::max<size_t>(1, size_) * sizeof(const char*));
  size_ = room_ = 0;
  return std::unique_ptr<const char*[], Free>(static_cast<const char**>(smaller != nullptr ? smaller : memory));
}

void SortEntries(const KeyOrder& order, SortItems* items) {
  Sorter sorter(order, items->data(), items->size());
  sorter.Sort(0, items->size(), 0);
}

SortedRun::SortedRun(size_t size, Prefixes prefixes, size_t depth, Entries entries)
    : size_(size),
      depth_(depth),
      shift_(prefixes == Prefixes::kDense ? 0 : kSparseShift),
      prefix_count_((size + (size_t{1} << shift_) - 1) >> shift_),
      entries_(std::move(entries)),
      prefixes_(new uint64_t[prefix_count_]) {}

std::shared_ptr<SortedRun> SortedRun::NewDense(size_t size, size_t depth) {
  Entries entries(static_cast<const char**>(malloc(std::max<size_t>(1, size) * sizeof(const char*))));
  if (entries == nullptr) throw std::bad_alloc();
  return std::shared_ptr<SortedRun>(new SortedRun(size, Prefixes::kDense, depth, std::move(entries)));
}

std::shared_ptr<const SortedRun> SortedRun::FromEntries(const KeyOrder& order, SortItems* items, Prefixes prefixes,
                                                        const SortedRun* beside) {
  SortEntries(order, items);
  const size_t size = items->size();
  Entries entries = items->TakeEntries();
  size_t depth = 0;
  if (size != 0) {
    // What the first and the last have in common, all have.
    const rocksdb::Slice first = KeyOf(entries[0]).user_key;
    depth = order.CommonBytes(first, KeyOf(entries[size - 1]).user_key);
    if (beside != nullptr) {
      depth = std::min({depth, beside->depth_, order.CommonBytes(first, KeyOf(beside->entries_[0]).user_key)});
    }
  }
  std::shared_ptr<SortedRun> run(new SortedRun(size, prefixes, depth, std::move(entries)));
  // Sorting may have replaced the prefixes by deeper ones.
  for (size_t i = 0; i < run->prefix_count_; ++i) {
    run->prefixes_[i] = order.Prefix(KeyOf(run->entries_[i << run->shift_]).user_key, depth);
  }
  return run;
}

std::shared_ptr<const SortedRun> SortedRun::WithDepth(const KeyOrder& order, const SortedRun& run, size_t depth) {
  std::shared_ptr<SortedRun> made = NewDense(run.size_, depth);
  for (size_t i = 0; i < run.size_; ++i) {
    made->entries_[i] = run.entries_[i];
    made->prefixes_[i] = order.Prefix(KeyOf(run.entries_[i]).user_key, depth);
  }
  return made;
}

std::shared_ptr<const SortedRun> SortedRun::Merge(const KeyOrder& order, const SortedRun& a, const SortedRun& b) {
  std::shared_ptr<SortedRun> run = NewDense(a.size_ + b.size_, a.depth_);
  size_t i = 0;
  size_t j = 0;
  for (size_t k = 0; k < run->size_; ++k) {
    bool first = j == b.size_;
    if (!first && i < a.size_) {
      first = a.prefixes_[i] != b.prefixes_[j] ? a.prefixes_[i] < b.prefixes_[j]
                                               : order.CompareRest(a.entries_[i], b.entries_[j]) < 0;
    }
    const SortedRun& from = first ? a : b;
    size_t& at = first ? i : j;
    run->entries_[k] = from.entries_[at];
    run->prefixes_[k] = from.prefixes_[at];
    ++at;
  }
  return run;
}

size_t SortedRun::LowerBound(const KeyOrder& order, const rocksdb::Slice& internal_key) const {
  const EntryKey key = SplitInternalKey(internal_key);
  if (depth_ != 0) {
    const int side = order.CompareBeginnings(key.user_key, KeyOf(entries_[0]).user_key, depth_);
    if (side != 0) return side < 0 ? 0 : size_;
  }
  const uint64_t prefix = order.Prefix(key.user_key, depth_);
  const uint64_t* const begin = prefixes_.get();
  const uint64_t* const end = begin + prefix_count_;
  const uint64_t* const first = std::lower_bound(begin, end, prefix);
  const uint64_t* const last = first != end && *first == prefix ? std::upper_bound(first, end, prefix) : first;
  size_t low = first == begin ? 0 : static_cast<size_t>(first - begin - 1) << shift_;
  size_t high = std::min(size_, static_cast<size_t>(last - begin) << shift_);
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const char* entry = entries_[middle];
    const uint64_t here = shift_ == 0 ? prefixes_[middle] : order.Prefix(KeyOf(entry).user_key, depth_);
    const bool before = here != prefix ? here < prefix : order.CompareRest(entry, key, internal_key) < 0;
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace cairn
