#include "table/hash_order_table.h"

#include <unordered_map>
#include <utility>

#include "rocksdb/utilities/options_type.h"
#include "table/hash_order.h"
#include "table/table_facts.h"

namespace cairn {

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& TableOption() {
  static const auto* info = new std::unordered_map<std::string, rocksdb::OptionTypeInfo>{
      {"table", rocksdb::OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
                    0, rocksdb::OptionVerificationType::kByName, rocksdb::OptionTypeFlags::kNone)}};
  return *info;
}

}  // namespace

HashOrderTableFactory::HashOrderTableFactory(std::shared_ptr<rocksdb::TableFactory> table) : table_(std::move(table)) {
  if (table_ == nullptr) table_.reset(rocksdb::NewBlockBasedTableFactory());
  RegisterOptions("cairn.HashOrderTable", &table_, &TableOption());
}

std::string HashOrderTableFactory::GetPrintableOptions() const {
  return std::string("  table: ") + table_->Name() + "\n" + table_->GetPrintableOptions();
}

rocksdb::Status HashOrderTableFactory::NewTableReader(const rocksdb::ReadOptions& read_options,
                                                      const rocksdb::TableReaderOptions& options,
                                                      std::unique_ptr<rocksdb::RandomAccessFileReader>&& file,
                                                      uint64_t file_size, std::unique_ptr<rocksdb::TableReader>* reader,
                                                      bool prefetch_index_and_filter_in_cache) const {
  return table_->NewTableReader(read_options, options, std::move(file), file_size, reader,
                                prefetch_index_and_filter_in_cache);
}

rocksdb::TableBuilder* HashOrderTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                              rocksdb::WritableFileWriter* file) const {
  rocksdb::TableBuilderOptions with_facts(options);
  const auto collectors = CollectorsWithFacts(options);
  with_facts.internal_tbl_prop_coll_factories = collectors.get();
  return table_->NewTableBuilder(with_facts, file);
}

std::unique_ptr<rocksdb::TableFactory> HashOrderTableFactory::Clone() const {
  return std::make_unique<HashOrderTableFactory>(std::shared_ptr<rocksdb::TableFactory>(table_->Clone()));
}

}  // namespace cairn
