// The factory behind include/cairn/htable.h.
//
// Thread-safety: as rocksdb::TableFactory: const methods may run in parallel.

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cairn/htable.h"
#include "rocksdb/table.h"
#include "trie_table/bloom_cluster/bloom_table.h"

namespace cairn {

class HTableFactory : public rocksdb::TableFactory {
 public:
  static const char* kClassName() { return "cairn.HTable"; }

  explicit HTableFactory(const HTableOptions& options = HTableOptions());

  const char* Name() const override { return kClassName(); }
  // The block-based table's own options (its block cache, say) are found through this factory.
  const rocksdb::Customizable* Inner() const override { return options_.table.get(); }
  const HTableOptions& options() const { return options_; }
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

  // What the filters of the open tables take, by depth, and how their pages were found.
  std::vector<FilterDepth> FilterDepths() const;
  uint64_t filter_pages_read() const;
  uint64_t filter_pages_cached() const;

 protected:
  std::string GetOptionName(const std::string& name) const override;

 private:
  // Made when it is first needed, because options are read into a factory that exists.
  const std::shared_ptr<FilterDirectory>& filters() const;

  HTableOptions options_;
  mutable std::once_flag filters_made_;
  mutable std::shared_ptr<FilterDirectory> filters_;
  // Those of the factory that this is a clone of (SetOptions may work on one), and go on if their options do.
  std::shared_ptr<FilterDirectory> cloned_filters_;
};

}  // namespace cairn
