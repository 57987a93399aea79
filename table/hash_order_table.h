// The table factory of column families in hash order. It writes the format it is given (RocksDB's block-based table by
// default), adds to every table what the engines need to know about it, and refuses range deletions, which have no
// meaning in hash order.
//
// It reads the formats of table_formats.h, too, whichever it writes.
//
// Option string: {id=cairn.HashOrderTable;table={id=BlockBasedTable;block_size=4096;...}}
//
// Added properties: "cairn.sketch" (key_sketch.h; in tries only) and "cairn.written" (written_totals.h).
//
// Thread-safety: as rocksdb::TableFactory: const methods may run in parallel.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/table.h"

namespace cairn {

class HashOrderTableFactory : public rocksdb::TableFactory {
 public:
  static const char* kClassName() { return "cairn.HashOrderTable"; }

  // Null: a block-based table with RocksDB's defaults.
  explicit HashOrderTableFactory(std::shared_ptr<rocksdb::TableFactory> table = nullptr);

  const char* Name() const override { return kClassName(); }
  // The format's own options (its block cache, say) are found through this factory.
  const rocksdb::Customizable* Inner() const override { return table_.get(); }
  // The format.
  const std::shared_ptr<rocksdb::TableFactory>& table() const { return table_; }
  std::string GetPrintableOptions() const override;

  using rocksdb::TableFactory::NewTableReader;
  rocksdb::Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                                 std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                 std::unique_ptr<rocksdb::TableReader>* reader,
                                 bool prefetch_index_and_filter_in_cache) const override;
  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override;
  std::unique_ptr<rocksdb::TableFactory> Clone() const override;
  bool IsDeleteRangeSupported() const override { return false; }

 private:
  std::shared_ptr<rocksdb::TableFactory> table_;
};

}  // namespace cairn
