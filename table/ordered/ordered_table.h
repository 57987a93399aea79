// The factory behind include/cairn/ordered.h. It is a BlockBasedTableFactory, so that whatever RocksDB reserves for
// block-based tables (TTL, periodic compaction, charging) works, and every option of theirs is an option of its own.
//
// Thread-safety: as rocksdb::TableFactory: const methods may run in parallel.

#pragma once

#include <memory>
#include <string>

#include "cairn/ordered.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/ordered/ordered_seeks.h"

namespace cairn {

class OrderedTableFactory final : public rocksdb::BlockBasedTableFactory {
 public:
  static const char* kClassName() { return "cairn.OrderedTable"; }

  // Whether texts (OPTIONS files, option strings) name the class and hold what it has beyond a block-based table's.
  // RocksDB without Cairn opens no database whose OPTIONS file names tables that it does not know.
  enum class InTexts { kOrdered, kBlockBased };

  explicit OrderedTableFactory(const rocksdb::BlockBasedTableOptions& table = rocksdb::BlockBasedTableOptions(),
                               const OrderFilterOptions& filter = OrderFilterOptions(),
                               InTexts in_texts = InTexts::kOrdered);

  const char* Name() const override { return in_texts_ == InTexts::kOrdered ? kClassName() : kBlockBasedTableName(); }
  // It is a block-based table's factory as well, and may be cast to one.
  bool IsInstanceOf(const std::string& name) const override;
  std::string GetPrintableOptions() const override;
  rocksdb::Status ValidateOptions(const rocksdb::DBOptions& db_options,
                                  const rocksdb::ColumnFamilyOptions& cf_options) const override;

  using rocksdb::TableFactory::NewTableReader;
  rocksdb::Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                                 std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                 std::unique_ptr<rocksdb::TableReader>* reader,
                                 bool prefetch_index_and_filter_in_cache) const override;
  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override;
  std::unique_ptr<rocksdb::TableFactory> Clone() const override { return std::make_unique<OrderedTableFactory>(*this); }

  const OrderFilterOptions& filter() const { return filter_; }
  OrderedSeekStats SeekStats() const { return seeks_->Sum(); }

 private:
  bool MarksTombstones(const rocksdb::TableBuilderOptions& options) const;
  rocksdb::TableBuilder* NewBuilder(const rocksdb::TableBuilderOptions& options,
                                    rocksdb::WritableFileWriter* file) const;

  OrderFilterOptions filter_;
  InTexts in_texts_;
  std::shared_ptr<OrderedSeeks> seeks_;  // shared by all readers, and by clones
};

}  // namespace cairn
