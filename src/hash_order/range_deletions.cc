#include "src/hash_order/range_deletions.h"

#include <string>

#include "rocksdb/table.h"
#include "src/hash_order/hash_order.h"
#include "src/util/batch_handler.h"

namespace cairn {

using rocksdb::Status;

namespace {

// The name is the partitioner's (src/trie/trie_partitioner.h), which stands above this folder.
bool IsTrieInKeyOrder(const rocksdb::ColumnFamilyOptions& options) {
  return options.sst_partitioner_factory != nullptr && HashOfComparator(options.comparator) == nullptr &&
         std::string(options.sst_partitioner_factory->Name()) == "cairn.TriePartitioner";
}

class RangeDeletionFinder : public BatchHandler {
 public:
  explicit RangeDeletionFinder(rocksdb::DBImpl* db) : db_(db) {}

  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(id);
    return handle == nullptr ? Status::OK() : CheckRangeDeletion("DeleteRange", handle.get());
  }

 private:
  rocksdb::DBImpl* const db_;
};

}  // namespace

bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options) {
  return HashOfComparator(options.comparator) != nullptr || IsTrieInKeyOrder(options);
}

Status CheckRangesMean(const std::string& call, rocksdb::ColumnFamilyHandle* family) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  const Status s = family->GetDescriptor(&descriptor);
  if (!s.ok() || HashOfComparator(descriptor.options.comparator) == nullptr) return Status::OK();
  return Status::NotSupported(call + " on column family " + family->GetName(),
                              "a range has no meaning in hash order; delete the keys one by one");
}

Status CheckRangeDeletion(const std::string& call, rocksdb::ColumnFamilyHandle* family) {
  const Status s = CheckRangesMean(call, family);
  rocksdb::ColumnFamilyDescriptor descriptor;
  if (!s.ok() || !family->GetDescriptor(&descriptor).ok() || !IsTrieInKeyOrder(descriptor.options)) return s;
  return Status::NotSupported(call + " on the trie " + family->GetName(),
                              "a range deletion would tie the tables of many containers together, and one compaction "
                              "would take them all; delete the keys one by one, or whole files (DeleteFilesInRange)");
}

Status CheckRangeDeletions(rocksdb::DBImpl* db, const rocksdb::WriteBatch& batch) {
  if (!batch.HasDeleteRange()) return Status::OK();
  RangeDeletionFinder finder(db);
  return batch.Iterate(&finder);
}

}  // namespace cairn
