#include "table/ordered/block_index.h"

#include <algorithm>
#include <cstring>

#include "db/dbformat.h"
#include "rocksdb/comparator.h"
#include "table/block_based/block.h"
#include "util/coding.h"
#include "util/prefetch.h"

namespace cairn {

using rocksdb::BlockBasedTable;
using rocksdb::BlockHandle;
using rocksdb::Slice;

namespace {

// What an iterator knows of its block and keeps to itself.
struct IteratorsBlock : rocksdb::BlockIter<rocksdb::IndexValue> {
  static const char* Data(const rocksdb::IndexBlockIter& iterator) { return iterator.*(&IteratorsBlock::data_); }
  static uint32_t Restarts(const rocksdb::IndexBlockIter& iterator) { return iterator.*(&IteratorsBlock::restarts_); }
  static uint32_t Count(const rocksdb::IndexBlockIter& iterator) { return iterator.*(&IteratorsBlock::num_restarts_); }
};

constexpr size_t kPrefetched = 512;

}  // namespace

void BlockIndex::Open(BlockBasedTable* table) {
  const BlockBasedTable::Rep& rep = *table->get_rep();
  if (rep.table_options.cache_index_and_filter_blocks || rep.table_properties == nullptr || rep.index_has_first_key ||
      rep.index_type != rocksdb::BlockBasedTableOptions::kBinarySearch ||
      rep.create_context.protection_bytes_per_key != 0 ||
      rep.internal_comparator.user_comparator() != rocksdb::BytewiseComparator()) {
    return;
  }
  // Also 0 if the properties could not be read: how the index is encoded is not known then.
  const uint64_t blocks = rep.table_properties->num_data_blocks;
  if (blocks == 0) return;
  rocksdb::IndexBlockIter iterator;
  rocksdb::BlockCacheLookupContext context{rocksdb::TableReaderCaller::kUncategorized};
  const auto* const at = rep.index_reader->NewIterator(rocksdb::ReadOptions(), false, &iterator, nullptr, &context);
  if (at != &iterator) {
    delete at;
    return;
  }
  // As many restarts as blocks: every entry is a full one.
  if (!iterator.status().ok() || IteratorsBlock::Count(iterator) != blocks) return;
  data_ = IteratorsBlock::Data(iterator);
  restarts_ = IteratorsBlock::Restarts(iterator);
  with_tag_ = rep.index_key_includes_seq;
  with_value_size_ = rep.index_value_is_full;
  count_ = static_cast<uint32_t>(blocks);
  const Slice first_key = Separator(0), last_key = Separator(count_ - 1);
  first_key_ = first_key.data();
  common_ = first_key.difference_offset(last_key);
  first_ = Window(first_key);
  last_ = Window(last_key);
}

Slice BlockIndex::Key(uint32_t block) const {
  const char* at = data_ + rocksdb::DecodeFixed32(data_ + restarts_ + block * sizeof(uint32_t));
  const char* const limit = data_ + restarts_;
  uint32_t shared, size, value_size;
  at = rocksdb::GetVarint32Ptr(at, limit, &shared);
  if (at != nullptr) at = rocksdb::GetVarint32Ptr(at, limit, &size);
  if (at != nullptr && with_value_size_) at = rocksdb::GetVarint32Ptr(at, limit, &value_size);
  if (at == nullptr || size > static_cast<size_t>(limit - at)) return {};
  return {at, size};
}

Slice BlockIndex::UserKey(const Slice& key) const {
  return with_tag_ && key.size() >= rocksdb::kNumInternalBytes ? rocksdb::ExtractUserKey(key) : key;
}

Slice BlockIndex::Separator(uint32_t block) const { return UserKey(Key(block)); }

BlockHandle BlockIndex::Handle(uint32_t block) const {
  const Slice key = Key(block);
  BlockHandle handle;
  Slice value(key.data() + key.size(), static_cast<size_t>(data_ + restarts_ - (key.data() + key.size())));
  // The zero handle of a failure is no block's.
  if (key.empty() || !handle.DecodeFrom(&value).ok()) return BlockHandle::NullBlockHandle();
  return handle;
}

// Eight bytes behind what all separators begin with.
uint64_t BlockIndex::Window(const Slice& user_key) const {
  uint64_t window = 0;
  if (user_key.size() > common_) {
    memcpy(&window, user_key.data() + common_, std::min(sizeof(window), user_key.size() - common_));
  }
  return __builtin_bswap64(window);
}

bool BlockIndex::IsBelow(uint32_t block, const Slice& target) const {
  const Slice key = Key(block);
  const int order = UserKey(key).compare(rocksdb::ExtractUserKey(target));
  if (order != 0 || !with_tag_ || key.size() < rocksdb::kNumInternalBytes) return order < 0;
  // Newer entries come first.
  return rocksdb::ExtractInternalKeyFooter(key) > rocksdb::ExtractInternalKeyFooter(target);
}

// About where the key is, if keys lie evenly.
uint32_t BlockIndex::Guess(const Slice& user_key) const {
  const size_t least = std::min(common_, user_key.size());
  const int order = least == 0 ? 0 : memcmp(user_key.data(), first_key_, least);
  if (order != 0 || user_key.size() < common_) return order > 0 ? count_ - 1 : 0;
  const uint64_t window = Window(user_key);
  if (window <= first_ || last_ <= first_) return 0;
  if (window >= last_) return count_ - 1;
  return static_cast<uint32_t>(static_cast<double>(window - first_) / static_cast<double>(last_ - first_) *
                               (count_ - 1));
}

// Asks the memory for what lies around an entry, if entries are about of one size.
void BlockIndex::PrefetchAround(uint32_t block) const {
  __builtin_prefetch(data_ + restarts_ + block * sizeof(uint32_t));
  const size_t about = uint64_t{restarts_} * block / count_;
  const size_t before = std::min(about, kPrefetched / 2), behind = std::min(restarts_ - about, kPrefetched / 2);
  Prefetch(data_ + about - before, before + behind);
}

uint32_t BlockIndex::Find(const Slice& target) const {
  uint32_t at = Guess(rocksdb::ExtractUserKey(target));
  PrefetchAround(at);
  // All before `low` are below the target, and those from `high` on are not.
  uint32_t low = 0, high = count_;
  if (IsBelow(at, target)) {
    low = at + 1;
    for (uint32_t step = 4; low + step < count_; step *= 4) {
      at = low + step;
      if (!IsBelow(at, target)) {
        high = at;
        break;
      }
      low = at + 1;
    }
  } else {
    high = at;
    for (uint32_t step = 4; step < high; step *= 4) {
      at = high - step;
      if (IsBelow(at, target)) {
        low = at + 1;
        break;
      }
      high = at;
    }
  }
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (IsBelow(middle, target)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace cairn
