// What makes a column family a SILT store and says when its HashStores are merged: tables in hash order, with the
// merge's options beside them. The options of the tables themselves are those of the factory within it.
//
// Option string: table_factory={id=cairn.SiltTable;partitions=16;space_bound=1.5;merge_trigger=16;max_hash_stores=0;
// table={id=cairn.EctTable;...}}
// Thread-safety: safe, as all table factories.

#pragma once

#include <memory>
#include <string>

#include "cairn/silt.h"
#include "table/ect/hash_order_table.h"

namespace cairn {

// As in SiltOptions.
struct SiltMergeOptions {
  int partitions = SiltOptions().partitions;
  double space_bound = SiltOptions().space_bound;
  int merge_trigger = SiltOptions().merge_trigger;
  int max_hash_stores = SiltOptions().max_hash_stores;
};

class SiltTableFactory : public HashOrderTableFactory {
 public:
  static const char* kClassName() { return "cairn.SiltTable"; }

  // Null table: a cairn.EctTable with its defaults.
  explicit SiltTableFactory(std::shared_ptr<rocksdb::TableFactory> table = nullptr,
                            const SiltMergeOptions& merges = SiltMergeOptions());

  const char* Name() const override { return kClassName(); }
  bool IsInstanceOf(const std::string& name) const override;
  std::string GetPrintableOptions() const override;
  rocksdb::Status ValidateOptions(const rocksdb::DBOptions& db_options,
                                  const rocksdb::ColumnFamilyOptions& cf_options) const override;
  std::unique_ptr<rocksdb::TableFactory> Clone() const override;

  const SiltMergeOptions& merges() const { return merges_; }

 private:
  SiltMergeOptions merges_;
};

}  // namespace cairn
