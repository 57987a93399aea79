#include "table/table_facts.h"

#include <utility>

#include "db/dbformat.h"
#include "table/ttl_stamps.h"

namespace cairn {

namespace {

enum class Stamps { kNone, kOfTtl };

class FactsCollector : public rocksdb::InternalTblPropColl {
 public:
  FactsCollector(const KeyHash& hash, std::shared_ptr<WrittenTotals> totals, WrittenBy counted_as, Stamps in_values)
      : hash_(hash), totals_(std::move(totals)), counted_as_(counted_as), in_values_(in_values) {}

  const char* Name() const override { return "cairn.TableFacts"; }

  // Versions of one key arrive side by side, newest first; two keys with one hash count as one, once in 2^64 pairs.
  rocksdb::Status InternalAdd(const rocksdb::Slice& key, const rocksdb::Slice& value, uint64_t blocks_bytes) override {
    if (blocks_bytes != blocks_bytes_) open_block_bytes_ = 0;
    blocks_bytes_ = blocks_bytes;
    open_block_bytes_ += key.size() + value.size();
    if (!HasSketch()) return rocksdb::Status::OK();
    const rocksdb::ValueType type = rocksdb::ExtractValueType(key);
    if (type == rocksdb::kTypeRangeDeletion) return rocksdb::Status::OK();
    const uint64_t position = hash_(rocksdb::ExtractUserKey(key));
    const bool older = has_current_ && position == current_;
    // Only below operands does it matter what is older: there is a value then, be it of a deletion and the operands.
    if (older) {
      if (type != rocksdb::kTypeMerge && entry_ == KeySketch::Entry::kOperands) entry_ = KeySketch::Entry::kValue;
      return rocksdb::Status::OK();
    }
    AddCurrent();
    current_ = position;
    has_current_ = true;
    entry_ = EntryOf(type);
    if (in_values_ == Stamps::kOfTtl && type == rocksdb::kTypeValue) stamps_.Add(position, TtlStampOf(value));
    return rocksdb::Status::OK();
  }

  void BlockAdd(uint64_t, uint64_t, uint64_t) override {}

  rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
    if (HasSketch()) {
      std::string encoded;
      AddCurrent();
      has_current_ = false;
      sketch_.Sort();
      sketch_.EncodeTo(&encoded);
      properties->emplace(kSketchProperty, std::move(encoded));
      if (in_values_ == Stamps::kOfTtl) properties->emplace(kTtlStampsProperty, stamps_.Encode());
    }
    if (totals_ != nullptr) totals_->Add(counted_as_, blocks_bytes_ + open_block_bytes_);
    if (totals_ != nullptr) properties->emplace(kWrittenProperty, EncodeWrittenTotals(*totals_));
    return rocksdb::Status::OK();
  }

  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    if (!HasSketch()) return {};
    return {{kSketchProperty, std::to_string(sketch_.samples().size()) + " of " + std::to_string(sketch_.keys())}};
  }

 private:
  // Only a trie's scheduler asks for it, and it would take four times the memory of a SILT store's index.
  bool HasSketch() const { return counted_as_ == WrittenBy::kCountedElsewhere; }

  static KeySketch::Entry EntryOf(rocksdb::ValueType newest) {
    switch (newest) {
      case rocksdb::kTypeDeletion:
      case rocksdb::kTypeSingleDeletion:
      case rocksdb::kTypeDeletionWithTimestamp:
        return KeySketch::Entry::kDeletion;
      case rocksdb::kTypeMerge:
        return KeySketch::Entry::kOperands;
      default:
        return KeySketch::Entry::kValue;
    }
  }

  void AddCurrent() {
    if (has_current_) sketch_.Add(current_, entry_);
  }

  const KeyHash hash_;
  const std::shared_ptr<WrittenTotals> totals_;
  const WrittenBy counted_as_;
  const Stamps in_values_;
  TtlStampSample stamps_;
  uint64_t blocks_bytes_ = 0;      // of the data blocks written so far
  uint64_t open_block_bytes_ = 0;  // keys and values of the one that fills up
  KeySketch sketch_;
  uint64_t current_ = 0;  // the key whose entries arrive
  bool has_current_ = false;
  KeySketch::Entry entry_ = KeySketch::Entry::kValue;
};

// A trie's scheduler counts whole files; other column families' tables count themselves.
WrittenBy CountedAs(const rocksdb::TableBuilderOptions& options) {
  if (options.ioptions.compaction_style == rocksdb::kCompactionStyleNone) return WrittenBy::kCountedElsewhere;
  return options.reason == rocksdb::TableFileCreationReason::kCompaction ? WrittenBy::kCompaction : WrittenBy::kFlush;
}

}  // namespace

std::unique_ptr<rocksdb::InternalTblPropCollFactories> CollectorsOf(const rocksdb::TableBuilderOptions& options) {
  auto collectors = std::make_unique<rocksdb::InternalTblPropCollFactories>();
  if (options.internal_tbl_prop_coll_factories != nullptr) {
    // The list owns its factories, and those that RocksDB made are not ours to own.
    for (const auto& factory : *options.internal_tbl_prop_coll_factories) {
      collectors->push_back(std::make_unique<CollectorFactory>(
          factory->Name(), [&lent = *factory](auto... table) { return lent.CreateInternalTblPropColl(table...); }));
    }
  }
  return collectors;
}

std::unique_ptr<rocksdb::InternalTblPropCollFactories> CollectorsWithFacts(
    const rocksdb::TableBuilderOptions& options) {
  auto collectors = CollectorsOf(options);
  // Of keys in another order, those of one key still lie side by side, which is all that a sketch wants.
  static const KeyHash any_order(HashKind::kXxh3, 0);
  const KeyHash* hash = HashOfComparator(options.internal_comparator.user_comparator());
  if (hash == nullptr) hash = &any_order;
  std::shared_ptr<WrittenTotals> totals;
  if (!options.db_session_id.empty()) totals = WrittenTotalsOf(options.db_session_id, options.column_family_id);
  const Stamps in_values = TtlOf(options.ioptions) == nullptr ? Stamps::kNone : Stamps::kOfTtl;
  collectors->push_back(std::make_unique<CollectorFactory>(
      "cairn.TableFacts", [hash, totals, counted_as = CountedAs(options), in_values](auto...) {
        return new FactsCollector(*hash, totals, counted_as, in_values);
      }));
  return collectors;
}

}  // namespace cairn
