#include "db/range_deletion_filter.h"

#include "db/wide/wide_column_serialization.h"
#include "db/write_batch_internal.h"

namespace cairn {

using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteBatchInternal;

namespace {

// Copies a batch but for the range deletions on tries.
class Copier : public rocksdb::WriteBatch::Handler {
 public:
  Copier(const std::set<uint32_t>* tries, rocksdb::WriteBatch* copy) : tries_(tries), copy_(copy) {}

  bool dropped() const { return dropped_; }

  Status PutCF(uint32_t id, const Slice& key, const Slice& value) override {
    return WriteBatchInternal::Put(copy_, id, key, value);
  }
  Status DeleteCF(uint32_t id, const Slice& key) override { return WriteBatchInternal::Delete(copy_, id, key); }
  Status SingleDeleteCF(uint32_t id, const Slice& key) override {
    return WriteBatchInternal::SingleDelete(copy_, id, key);
  }
  Status MergeCF(uint32_t id, const Slice& key, const Slice& value) override {
    return WriteBatchInternal::Merge(copy_, id, key, value);
  }
  Status PutEntityCF(uint32_t id, const Slice& key, const Slice& entity) override {
    Slice input(entity);
    rocksdb::WideColumns columns;
    Status s = rocksdb::WideColumnSerialization::Deserialize(input, columns);
    return s.ok() ? WriteBatchInternal::PutEntity(copy_, id, key, columns) : s;
  }
  Status DeleteRangeCF(uint32_t id, const Slice& begin, const Slice& end) override {
    if (tries_->count(id) == 0) return WriteBatchInternal::DeleteRange(copy_, id, begin, end);
    dropped_ = true;
    return Status::OK();
  }
  void LogData(const Slice& blob) override { copy_->PutLogData(blob).PermitUncheckedError(); }
  Status MarkNoop(bool /*empty_batch*/) override { return Status::OK(); }

 private:
  const std::set<uint32_t>* const tries_;
  rocksdb::WriteBatch* const copy_;
  bool dropped_ = false;
};

}  // namespace

void RangeDeletionFilter::ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& /*log_numbers*/,
                                                   const std::map<std::string, uint32_t>& ids) {
  trie_ids_.clear();
  for (const std::string& name : tries_) {
    const auto found = ids.find(name);
    if (found != ids.end()) trie_ids_.insert(found->second);
  }
}

rocksdb::WalFilter::WalProcessingOption RangeDeletionFilter::LogRecordFound(unsigned long long /*log_number*/,
                                                                            const std::string& /*log_name*/,
                                                                            const rocksdb::WriteBatch& batch,
                                                                            rocksdb::WriteBatch* new_batch,
                                                                            bool* batch_changed) {
  if (!batch.HasDeleteRange()) return WalProcessingOption::kContinueProcessing;
  rocksdb::WriteBatch copy;
  Copier copier(&trie_ids_, &copy);
  if (batch.Iterate(&copier).ok() && copier.dropped()) {
    *new_batch = std::move(copy);
    *batch_changed = true;
  }
  return WalProcessingOption::kContinueProcessing;
}

}  // namespace cairn
