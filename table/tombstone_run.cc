#include "table/tombstone_run.h"

#include <algorithm>

namespace cairn {

namespace {

class Marker : public rocksdb::TablePropertiesCollector {
 public:
  Marker(uint32_t wanted, TombstoneRun::Share share) : run_(wanted, share) {}
  const char* Name() const override { return TombstoneMarkerFactory::kClassName(); }
  rocksdb::Status AddUserKey(const rocksdb::Slice& key, const rocksdb::Slice& /*value*/, rocksdb::EntryType type,
                             rocksdb::SequenceNumber /*sequence*/, uint64_t /*file_size*/) override {
    if (type == rocksdb::kEntryRangeDeletion) return rocksdb::Status::OK();  // in no order with the keys
    run_.Add(key, type == rocksdb::kEntryDelete || type == rocksdb::kEntrySingleDelete ||
                      type == rocksdb::kEntryDeleteWithTimestamp);
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* /*properties*/) override { return rocksdb::Status::OK(); }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
  bool NeedCompact() const override { return run_.found(); }

 private:
  TombstoneRun run_;
};

}  // namespace

void TombstoneRun::Add(const rocksdb::Slice& user_key, bool deleted) {
  // An older version of a deleted key: a scan passes over it as well.
  if (excess_ != 0 && user_key == rocksdb::Slice(deleted_)) return;
  ++keys_;
  if (!deleted) {
    excess_ -= std::min(excess_, kTombstonesPerKey);
    return;
  }
  deleted_.assign(user_key.data(), user_key.size());
  most_ = std::max(most_, ++excess_);
}

rocksdb::TablePropertiesCollector* TombstoneMarkerFactory::CreateTablePropertiesCollector(Context context) {
  const int level = context.level_at_creation;
  if (level >= 0 && level == context.num_levels - 1) return nullptr;
  return new Marker(wanted_, level == 0 ? TombstoneRun::Share::kEighth : TombstoneRun::Share::kAny);
}

}  // namespace cairn
