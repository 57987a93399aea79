#include "trie_table/compaction/key_cuts.h"

#include "util/rocksdb_names.h"

#include <algorithm>

namespace cairn {

std::vector<std::string> KeyCuts::DeletionCuts() const {
  std::vector<std::string> cuts;
  uint64_t bytes = 0;
  for (const Below& container : below) {
    bytes += container.bytes;
    if (bytes <= joined_bytes / 2) continue;
    cuts.push_back(container.smallest);
    bytes = container.bytes;
  }
  return cuts;
}

bool KeyCutter::IsWithin(const Slice& key) const {
  return entered_ > 0 && comparator_->Compare(key, cuts_->below[entered_ - 1].largest) <= 0;
}

// The bytes of containers that are reached with `key` for the first time.
uint64_t KeyCutter::EnterUpTo(const Slice& key) {
  uint64_t bytes = 0;
  for (; entered_ < cuts_->below.size(); ++entered_) {
    if (comparator_->Compare(cuts_->below[entered_].smallest, key) > 0) break;
    bytes += cuts_->below[entered_].bytes;
  }
  return bytes;
}

bool KeyCutter::CutBefore(const Slice& previous, const Slice& current, uint64_t bytes) {
  if (!begun_) {
    EnterUpTo(previous);
    joined_ = IsWithin(previous) ? cuts_->below[entered_ - 1].bytes : 0;
    touches_ = IsWithin(previous);
    begun_ = true;
  }
  if (comparator_->Compare(previous, current) == 0) return false;
  const size_t entered_before = entered_;
  const uint64_t entering = EnterUpTo(current);
  const bool within = IsWithin(current);
  bool cut = false;
  if (entered_ != entered_before) {
    // Also where no key lies in any of several: the table would lie over them all the same.
    const bool joins = touches_ || entered_ - entered_before > 1;
    cut = bytes >= (touches_ ? cuts_->least_bytes : cuts_->least_free_bytes) ||
          (joins && joined_ + entering > cuts_->joined_bytes);
  } else if (!within) {
    cut = bytes >= cuts_->table_bytes;
  }
  cut |= bytes >= cuts_->most_bytes;
  const size_t common = previous.difference_offset(current);
  cut |= bytes >= cuts_->least_free_bytes && least_common_ != SIZE_MAX && common + 2 <= least_common_;
  least_common_ = cut ? SIZE_MAX : std::min(least_common_, common);
  if (cut) {
    joined_ = within ? cuts_->below[entered_ - 1].bytes : 0;
    touches_ = within;
  } else {
    joined_ += entering;
    touches_ |= within || entered_ != entered_before;
  }
  return cut;
}

}  // namespace cairn
