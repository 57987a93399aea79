// The factory behind include/cairn/ect_table.h: a block-based table with an ECT index and a filter among its
// properties.
//
// Thread-safety: as rocksdb::TableFactory: const methods may run in parallel.

#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "cairn/ect_table.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_type.h"
#include "util/mutex.h"

namespace cairn {

constexpr char kEctProperty[] = "cairn.ect";
constexpr char kCuckooProperty[] = "cairn.cuckoo";
constexpr char kRibbonProperty[] = "cairn.ribbon128";

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateEctTableOptions(const EctTableOptions& options);

// The names of EctIndexResidency, and the option types of EctTableOptions but for `table`, at `offset` within a struct.
const std::unordered_map<std::string, EctIndexResidency>& EctIndexResidencyNames();
std::unordered_map<std::string, rocksdb::OptionTypeInfo> EctTableOptionTypesAt(int offset);

// Whether the file is a table with an ECT index, of whatever version. Reads footer and properties; false as well if
// they cannot be read, which whoever opens the file will find.
bool HasEctIndex(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                 rocksdb::RandomAccessFileReader* file, uint64_t file_size);

// A factory of EctTables whose blocks are kept as `blocks` says: its block size, cache and checksums. Only iterators
// need RocksDB's own index, so it is kept in the block cache, and there is no Bloom filter.
std::shared_ptr<rocksdb::TableFactory> NewEctTableFactoryLike(const rocksdb::BlockBasedTableOptions& blocks,
                                                              const EctTableOptions& options);

struct EctTableCounters;

// Column families, each named by its database's session and its number in there. Thread-safe.
class FamilyMarks {
 public:
  void Set(const std::string& db_session_id, uint32_t family, bool marked) {
    const MutexLock lock(&mutex_);
    if (marked) {
      marked_.emplace(db_session_id, family);
    } else {
      marked_.erase({db_session_id, family});
    }
  }
  // Whether it was set; it no longer is.
  bool Take(const std::string& db_session_id, uint32_t family) {
    const MutexLock lock(&mutex_);
    return marked_.erase({db_session_id, family}) != 0;
  }

 private:
  CheckedMutex mutex_;
  std::set<std::pair<std::string, uint32_t>> marked_ CAIRN_GUARDED_BY(mutex_);
};

class EctTableFactory : public rocksdb::TableFactory {
 public:
  static const char* kClassName() { return "cairn.EctTable"; }

  explicit EctTableFactory(const EctTableOptions& options = EctTableOptions());

  const char* Name() const override { return kClassName(); }
  // The block-based table's own options (its block cache, say) are found through this factory.
  const rocksdb::Customizable* Inner() const override { return options_.table.get(); }
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

  const EctTableOptions& options() const { return options_; }
  const EctTableCounters& counters() const { return *counters_; }

  // Whether the next flush of this column family writes a table that RocksDB is to compact.
  void CompactNextFlush(const std::string& db_session_id, uint32_t family, bool compact) const {
    compact_next_flush_.Set(db_session_id, family, compact);
  }

 private:
  std::string GetOptionName(const std::string& name) const override;

  EctTableOptions options_;
  const std::shared_ptr<EctTableCounters> counters_;  // shared by all readers
  mutable FamilyMarks compact_next_flush_;
};

}  // namespace cairn
