#include "table/hash_order_table.h"

#include <unordered_map>
#include <utility>

#include "rocksdb/utilities/options_type.h"
#include "table/hash_order.h"
#include "table/table_facts.h"
#include "table/table_formats.h"
#include "table/table_reader.h"
#include "table/written_totals.h"

namespace cairn {

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& TableOption() {
  static const auto* info = new std::unordered_map<std::string, rocksdb::OptionTypeInfo>{
      {"table", rocksdb::OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
                    0, rocksdb::OptionVerificationType::kByName, rocksdb::OptionTypeFlags::kNone)}};
  return *info;
}

// Where tables count themselves, a new process goes on from the totals of the tables that it opens.
void GoOnFromTotals(const rocksdb::TableReaderOptions& options, const rocksdb::TableReader& reader) {
  if (options.ioptions.compaction_style == rocksdb::kCompactionStyleNone || options.cur_db_session_id.empty()) return;
  const auto properties = reader.GetTableProperties();
  uint64_t flushed = 0, compacted = 0;
  if (properties == nullptr || !DecodeWrittenTotals(properties->user_collected_properties, &flushed, &compacted))
    return;
  WrittenTotalsOf(options.cur_db_session_id, static_cast<uint32_t>(properties->column_family_id))
      ->RaiseTo(flushed, compacted);
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
  OpenTableFunction open = nullptr;
  rocksdb::Status status = FindTableFormat(*table_, read_options, options, file.get(), file_size, &open);
  if (!status.ok()) return status;
  status = open != nullptr ? open(table_, read_options, options, std::move(file), file_size, reader)
                           : table_->NewTableReader(read_options, options, std::move(file), file_size, reader,
                                                    prefetch_index_and_filter_in_cache);
  if (status.ok()) GoOnFromTotals(options, **reader);
  return status;
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
