#include "src/hash_order/range_deletions.h"

#include <string>

#include "rocksdb/table.h"
#include "src/hash_order/hash_order.h"

namespace cairn {

using rocksdb::Slice;
using rocksdb::Status;

namespace {

bool RefusesRangeDeletions(rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  return handle->GetDescriptor(&descriptor).ok() && cairn::RefusesRangeDeletions(descriptor.options);
}

class RangeDeletionFinder : public rocksdb::WriteBatch::Handler {
 public:
  explicit RangeDeletionFinder(rocksdb::DBImpl* db) : db_(db) {}

  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(id);
    return handle == nullptr ? Status::OK() : CheckRangesMean("DeleteRange", handle.get());
  }
  Status PutCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status TimedPutCF(uint32_t, const Slice&, const Slice&, uint64_t) override { return Status::OK(); }
  Status PutEntityCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status DeleteCF(uint32_t, const Slice&) override { return Status::OK(); }
  Status SingleDeleteCF(uint32_t, const Slice&) override { return Status::OK(); }
  Status MergeCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status PutBlobIndexCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  void LogData(const Slice&) override {}
  Status MarkBeginPrepare(bool) override { return Status::OK(); }
  Status MarkEndPrepare(const Slice&) override { return Status::OK(); }
  Status MarkNoop(bool) override { return Status::OK(); }
  Status MarkRollback(const Slice&) override { return Status::OK(); }
  Status MarkCommit(const Slice&) override { return Status::OK(); }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override { return Status::OK(); }

 private:
  rocksdb::DBImpl* const db_;
};

}  // namespace

bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options) {
  return HashOfComparator(options.comparator) != nullptr;
}

Status CheckRangesMean(const std::string& call, rocksdb::ColumnFamilyHandle* family) {
  if (!RefusesRangeDeletions(family)) return Status::OK();
  return Status::NotSupported(call + " on column family " + family->GetName(),
                              "a range has no meaning in hash order; delete the keys one by one");
}

Status CheckRangeDeletions(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch) {
  if (!batch.HasDeleteRange()) return Status::OK();
  RangeDeletionFinder finder(db);
  return batch.Iterate(&finder);
}

}  // namespace cairn
