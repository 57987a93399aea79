#include "table/hash_order/range_deletions.h"

#include <string>

#include "table/hash_order/hash_order.h"
#include "util/batch_handler.h"

namespace cairn {

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

}  // namespace cairn
