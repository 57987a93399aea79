#include "memtable_cache/key_order.h"

#include "db/memtable.h"
#include "rocksdb/comparator.h"

namespace cairn {

KeyOrder::KeyOrder(const rocksdb::MemTableRep::KeyComparator& comparator) : comparator_(&comparator) {
  const auto* known = dynamic_cast<const rocksdb::MemTable::KeyComparator*>(&comparator);
  if (known == nullptr) return;
  const rocksdb::Comparator* user = known->comparator.user_comparator();
  equal_means_same_bytes_ = user->timestamp_size() == 0 && !user->CanKeysWithDifferentByteContentsBeEqual();
  if (const KeyHash* hash = HashOfComparator(user)) {
    kind_ = Kind::kHash;
    hash_ = *hash;
  } else if (user == rocksdb::BytewiseComparator()) {
    kind_ = Kind::kBytes;
  } else if (user == rocksdb::ReverseBytewiseComparator()) {
    kind_ = Kind::kReverseBytes;
  }
}

}  // namespace cairn
