// The table factory of column families in hash order. It writes the format it is given (RocksDB's block-based table by
// default), adds to every table what the engines need to know about it, and refuses range deletions, which have no
// meaning in hash order.
//
// It reads the formats of table_formats.h, too, whichever it writes.
//
// Tables below which the column family holds nothing older, level 0 excepted, may be of a second factory, an EctTable's
// (RocksDB's `bottommost_compression` has the same notion of bottommost). It also reads the tables with an ECT index.
//
// Option string: {id=cairn.HashOrderTable;table={id=BlockBasedTable;block_size=4096;...};bottommost_table={id=
// cairn.EctTable;...}}
//
// Added properties: "cairn.sketch" (key_sketch.h; in tries only) and "cairn.written" (written_totals.h).
//
// Thread-safety: as rocksdb::TableFactory: const methods may run in parallel.

#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "rocksdb/table.h"
#include "rocksdb/utilities/options_type.h"

namespace cairn {

class HashOrderTableFactory : public rocksdb::TableFactory {
 public:
  static const char* kClassName() { return "cairn.HashOrderTable"; }

  // Null table: a block-based table with RocksDB's defaults. Null bottommost: all tables are of the one format.
  explicit HashOrderTableFactory(std::shared_ptr<rocksdb::TableFactory> table = nullptr,
                                 std::shared_ptr<rocksdb::TableFactory> bottommost = nullptr);

  const char* Name() const override { return kClassName(); }
  // The format's own options (its block cache, say) are found through this factory.
  const rocksdb::Customizable* Inner() const override { return formats_.table.get(); }
  // The format.
  const std::shared_ptr<rocksdb::TableFactory>& table() const { return formats_.table; }
  const std::shared_ptr<rocksdb::TableFactory>& bottommost() const { return formats_.bottommost; }
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
  std::unique_ptr<rocksdb::TableFactory> Clone() const override;
  bool IsDeleteRangeSupported() const override { return false; }

 protected:
  std::string GetOptionName(const std::string& name) const override;

 private:
  struct Formats {
    std::shared_ptr<rocksdb::TableFactory> table;
    std::shared_ptr<rocksdb::TableFactory> bottommost;  // may be null
  };
  static const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& FormatOptions();

  Formats formats_;
};

}  // namespace cairn
