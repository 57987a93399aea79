#include "table/hash_order/batch_order.h"

#include <algorithm>
#include <array>
#include <vector>

#include "rocksdb/db.h"
#include "table/hash_order/hash_order.h"

namespace cairn {

namespace {

struct HashedKey {
  uint64_t hash;
  rocksdb::KeyContext* key;
  bool operator<(const HashedKey& other) const {
    return hash != other.hash ? hash < other.hash : key->key->compare(*other.key->key) < 0;
  }
};

// What HashOfComparator says, without its lock for the thread's last comparator in hash order. These live until the
// process ends, so nobody else gets their addresses.
const KeyHash* HashOf(const rocksdb::Comparator* comparator) {
  thread_local const rocksdb::Comparator* last = nullptr;
  thread_local const KeyHash* hash_of_last = nullptr;
  if (comparator == last && last != nullptr) return hash_of_last;
  const KeyHash* const hash = HashOfComparator(comparator);
  // One that wraps another may be destroyed.
  if (hash != nullptr && comparator->GetRootComparator() == comparator) {
    last = comparator;
    hash_of_last = hash;
  }
  return hash;
}

void Sort(const KeyHash& hash, size_t count, HashedKey* hashed, KeysOfBatch* keys) {
  for (size_t i = 0; i < count; ++i) hashed[i] = {hash(*(*keys)[i]->key), (*keys)[i]};
  std::sort(hashed, hashed + count);
  for (size_t i = 0; i < count; ++i) (*keys)[i] = hashed[i].key;
}

}  // namespace

bool SortInHashOrder(size_t count, KeysOfBatch* keys) {
  if (count == 0) return true;
  rocksdb::ColumnFamilyHandle* const family = keys->front()->column_family;
  const KeyHash* const hash = HashOf(family->GetComparator());
  if (hash == nullptr) return false;
  for (size_t i = 1; i < count; ++i) {
    if ((*keys)[i]->column_family != family) return false;
  }
  if (count <= rocksdb::MultiGetContext::MAX_BATCH_SIZE) {
    std::array<HashedKey, rocksdb::MultiGetContext::MAX_BATCH_SIZE> hashed;
    Sort(*hash, count, hashed.data(), keys);
  } else {
    std::vector<HashedKey> hashed(count);
    Sort(*hash, count, hashed.data(), keys);
  }
  return true;
}

}  // namespace cairn
