#include "db/repair_tables.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "db/dbformat.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/table.h"
#include "table/format.h"
#include "table/meta_blocks.h"
#include "table/table_builder.h"

namespace cairn {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::Status;

namespace {

class RepairTableFactory : public rocksdb::TableFactory {
 public:
  // One of them is the default one.
  explicit RepairTableFactory(const std::vector<ColumnFamilyDescriptor>& families) {
    for (const ColumnFamilyDescriptor& family : families) {
      families_.emplace(family.name, std::make_shared<Family>(family.options));
    }
    default_ = families_.at(rocksdb::kDefaultColumnFamilyName)->format;
  }

  const char* Name() const override { return "cairn.RepairTables"; }
  const rocksdb::Customizable* Inner() const override { return default_.get(); }

  using rocksdb::TableFactory::NewTableReader;
  Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                        std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                        std::unique_ptr<rocksdb::TableReader>* reader, bool prefetch) const override {
    std::unique_ptr<rocksdb::TableProperties> properties;
    const Status s = rocksdb::ReadTableProperties(file.get(), file_size, rocksdb::Footer::kNullTableMagicNumber,
                                                  options.ioptions, read_options, &properties);
    const auto found = s.ok() ? families_.find(properties->column_family_name) : families_.end();
    if (found == families_.end()) {
      return default_->NewTableReader(read_options, options, std::move(file), file_size, reader, prefetch);
    }
    return found->second->format->NewTableReader(read_options, port::InOrder(options, found->second->order),
                                                 std::move(file), file_size, reader, prefetch);
  }

  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override {
    return default_->NewTableBuilder(options, file);
  }
  std::unique_ptr<rocksdb::TableFactory> Clone() const override { return std::make_unique<RepairTableFactory>(*this); }
  bool IsDeleteRangeSupported() const override { return default_->IsDeleteRangeSupported(); }

 private:
  // Readers refer to its order, and do not outlive the repair's options.
  struct Family {
    explicit Family(const rocksdb::ColumnFamilyOptions& options)
        : format(options.table_factory), order(options.comparator) {}
    const std::shared_ptr<rocksdb::TableFactory> format;
    const rocksdb::InternalKeyComparator order;
  };

  std::map<std::string, std::shared_ptr<const Family>> families_;
  std::shared_ptr<rocksdb::TableFactory> default_;
};

}  // namespace

std::vector<ColumnFamilyDescriptor> ForRepair(const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<ColumnFamilyDescriptor> result = families;
  for (ColumnFamilyDescriptor& family : result) {
    if (family.name != rocksdb::kDefaultColumnFamilyName) continue;  // without it, RocksDB says that it is missing
    family.options.table_factory = std::make_shared<RepairTableFactory>(families);
  }
  return result;
}

}  // namespace cairn
