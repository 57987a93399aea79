#include "table/hash_order/batches.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "table/hash_order/hash_order.h"
#include "util/batch_handler.h"

namespace cairn {

using rocksdb::Comparator;
using rocksdb::Status;

namespace {

class RangeDeletionFinder : public BatchHandler {
 public:
  explicit RangeDeletionFinder(rocksdb::DBImpl* db) : db_(db) {}

  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(id);
    return handle == nullptr ? Status::OK() : CheckRangesMean("DeleteRange", handle.get());
  }

 private:
  rocksdb::DBImpl* const db_;
};

}  // namespace

bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options) {
  return HashOfComparator(options.comparator) != nullptr;
}

Status CheckRangesMean(const std::string& call, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  const Status s = family->GetDescriptor(&descriptor);
  if (!s.ok() || HashOfComparator(descriptor.options.comparator) == nullptr) return Status::OK();
  return Status::NotSupported(call + " on column family " + family->GetName(),
                              "a range has no meaning in hash order; delete the keys one by one");
}

Status CheckRangeDeletions(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch) {
  if (!batch.HasDeleteRange()) return Status::OK();
  RangeDeletionFinder finder(db);
  return batch.Iterate(&finder);
}

namespace {

Status WrongOrder(const std::string& which) {
  return Status::InvalidArgument(
      "WriteBatchWithIndex: its index is not in the order of " + which,
      "make it with the comparator of the open column family: "
      "WriteBatchWithIndex(db->DefaultColumnFamily()->GetComparator()), or write by the column family's handle");
}

}  // namespace

Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family) {
  const Comparator* const order = family->GetComparator();
  // Some keys tell: 16 in another order are in this one, too, once in 2 * 10^13.
  constexpr int kProbes = 16;
  const std::unique_ptr<rocksdb::WBWIIterator> entries(batch->NewIterator(family));
  std::string last;
  int probes = 0;
  for (entries->SeekToFirst(); entries->Valid() && probes < kProbes; entries->Next(), ++probes) {
    const rocksdb::Slice key = entries->Entry().key;
    if (probes > 0 && order->Compare(last, key) > 0) return WrongOrder("column family " + family->GetName());
    last.assign(key.data(), key.size());
  }
  return Status::OK();
}

Status CheckIndexSeed(rocksdb::WriteBatchWithIndex* batch) {
  TakeComparedByOpenSeed();
  const std::unique_ptr<rocksdb::WBWIIterator> entries(batch->NewIterator());
  entries->Seek("");
  return TakeComparedByOpenSeed() ? WrongOrder("any database") : Status::OK();
}

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
