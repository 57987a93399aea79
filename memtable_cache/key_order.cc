#include "memtable_cache/key_order.h"

#include "db/memtable.h"
#include "rocksdb/comparator.h"
#include "util/class_of.h"

namespace cairn {

KeyOrder::KeyOrder(const rocksdb::MemTableRep::KeyComparator& comparator) : comparator_(&comparator) {
  static const auto* const example = new rocksdb::MemTable::KeyComparator(rocksdb::InternalKeyComparator());
  const auto* known = AsSameClassAs(example, &comparator);
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
