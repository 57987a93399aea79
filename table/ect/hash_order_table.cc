#include "table/ect/hash_order_table.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "rocksdb/port/block_options.h"
#include "table/ect/ect_table.h"
#include "table/hash_order/hash_order.h"
#include "table/table_facts.h"
#include "table/table_formats.h"
#include "table/table_reader.h"
#include "table/written_totals.h"
#include "util/option_text.h"

namespace cairn {

namespace {

// Ingestion and import bring tables of other databases.
rocksdb::Status CheckOrder(const rocksdb::TableReaderOptions& options, const rocksdb::TableReader& reader,
                           const std::string& file) {
  const auto properties = reader.GetTableProperties();
  if (properties == nullptr || properties->comparator_name.empty()) return rocksdb::Status::OK();
  const rocksdb::Comparator* const order = options.internal_comparator.user_comparator();
  const std::string wanted = order->Name();
  if (properties->comparator_name == wanted) return rocksdb::Status::OK();
  if (SeedIsOpen(order)) {
    return rocksdb::Status::InvalidArgument(
        file + " is in the order " + properties->comparator_name +
            ", and the options leave the seed of the hash order open",
        "open it with the options of its column family (DB::GetOptions), or with that seed (cairn/hash_seed.h)");
  }
  return rocksdb::Status::InvalidArgument(
      file + " is in the order " + properties->comparator_name + ", the column family in the order " + wanted,
      "write it with the column family's hash and seed (cairn/hash_seed.h)");
}

// A table for ingestion has the order of its column family, which only the caller knows. What a table says of its order
// is what it has. SstFileWriter has no other way to refuse than by its builder.
rocksdb::Status CheckOrderIsKnown(const rocksdb::TableBuilderOptions& options) {
  const rocksdb::Comparator* const order = options.internal_comparator.user_comparator();
  const rocksdb::Comparator* const named = options.ioptions.user_comparator;
  const char* const remedy =
      "make the SstFileWriter with the options of the column family (db->GetOptions(handle)), or with the seed that "
      "cairn::GetHashSeed(db->GetOptions(handle), &trie.seed) gives before cairn::UseTrie";
  if (SeedIsOpen(order) || SeedIsOpen(named)) {
    return rocksdb::Status::InvalidArgument("a table whose options leave the seed of the hash order open", remedy);
  }
  if (named == nullptr || strcmp(order->Name(), named->Name()) == 0) return rocksdb::Status::OK();
  return rocksdb::Status::InvalidArgument(
      std::string("a table in the order ") + order->Name() + " whose options say " + named->Name(), remedy);
}

// A table that is refused: each Put and Finish says why, and nothing is written.
class RefusedTable : public rocksdb::TableBuilder {
 public:
  explicit RefusedTable(rocksdb::Status why) : why_(std::move(why)) {}

  void Add(const rocksdb::Slice& /*key*/, const rocksdb::Slice& /*value*/) override {}
  rocksdb::Status status() const override { return why_; }
  rocksdb::IOStatus io_status() const override { return rocksdb::status_to_io_status(rocksdb::Status(why_)); }
  rocksdb::Status Finish() override { return why_; }
  void Abandon() override {}
  uint64_t NumEntries() const override { return 0; }
  uint64_t FileSize() const override { return 0; }
  rocksdb::TableProperties GetTableProperties() const override { return rocksdb::TableProperties(); }
  std::string GetFileChecksum() const override { return rocksdb::kUnknownFileChecksum; }
  const char* GetFileChecksumFuncName() const override { return rocksdb::kUnknownFileChecksumFuncName; }

 private:
  const rocksdb::Status why_;
};

// Ingestion might bring one of SstFileWriter, which writes range deletions in any order.
rocksdb::Status CheckNoRangeDeletions(const rocksdb::TableReader& reader, const std::string& file) {
  const auto properties = reader.GetTableProperties();
  if (properties == nullptr || properties->num_range_deletions == 0) return rocksdb::Status::OK();
  return rocksdb::Status::NotSupported(file + " deletes ranges of keys",
                                       "a range has no meaning in hash order; delete the keys one by one");
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

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& HashOrderTableFactory::FormatOptions() {
  using rocksdb::OptionTypeFlags;
  using rocksdb::OptionTypeInfo;
  using rocksdb::OptionVerificationType;
  static const auto* options = new std::unordered_map<std::string, OptionTypeInfo>{
      {"table", OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
                    offsetof(Formats, table), OptionVerificationType::kByName, OptionTypeFlags::kNone)},
      {"bottommost_table",
       OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
           offsetof(Formats, bottommost), OptionVerificationType::kByNameAllowNull, OptionTypeFlags::kAllowNull)}};
  return *options;
}

HashOrderTableFactory::HashOrderTableFactory(std::shared_ptr<rocksdb::TableFactory> table,
                                             std::shared_ptr<rocksdb::TableFactory> bottommost)
    : formats_{std::move(table), std::move(bottommost)} {
  if (formats_.table == nullptr) formats_.table.reset(rocksdb::NewBlockBasedTableFactory());
  RegisterOptions("cairn.HashOrderTable", &formats_, &FormatOptions());
}

std::string HashOrderTableFactory::GetOptionName(const std::string& name) const {
  return NameWithin(*this, *formats_.table, rocksdb::TableFactory::GetOptionName(name));
}

std::string HashOrderTableFactory::GetPrintableOptions() const {
  std::string text = std::string("  table: ") + formats_.table->Name() + "\n" + formats_.table->GetPrintableOptions();
  if (formats_.bottommost != nullptr) {
    text += std::string("  bottommost_table: ") + formats_.bottommost->Name() + "\n" +
            formats_.bottommost->GetPrintableOptions();
  }
  return text;
}

rocksdb::Status HashOrderTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                                       const rocksdb::ColumnFamilyOptions& cf_options) const {
  if (formats_.bottommost != nullptr && !formats_.bottommost->IsInstanceOf(EctTableFactory::kClassName())) {
    return rocksdb::Status::NotSupported(
        "bottommost_table of cairn.HashOrderTable is " + std::string(formats_.bottommost->Name()),
        "it may be cairn.EctTable");
  }
  const auto* blocks = formats_.table->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName())
                           ? formats_.table->GetOptions<rocksdb::BlockBasedTableOptions>()
                           : nullptr;
  const rocksdb::Status s =
      blocks == nullptr ? rocksdb::Status::OK() : port::CheckUserIndex(*blocks, cf_options.comparator);
  return s.ok() ? rocksdb::TableFactory::ValidateOptions(db_options, cf_options) : s;
}

rocksdb::Status HashOrderTableFactory::NewTableReader(const rocksdb::ReadOptions& read_options,
                                                      const rocksdb::TableReaderOptions& options,
                                                      std::unique_ptr<rocksdb::RandomAccessFileReader>&& file,
                                                      uint64_t file_size, std::unique_ptr<rocksdb::TableReader>* reader,
                                                      bool prefetch_index_and_filter_in_cache) const {
  const bool bottommost = formats_.bottommost != nullptr && HasEctIndex(read_options, options, file.get(), file_size);
  const std::shared_ptr<rocksdb::TableFactory>& table = bottommost ? formats_.bottommost : formats_.table;
  const std::string name = file->file_name();
  OpenTableFunction open = nullptr;
  rocksdb::Status status;
  if (!bottommost) status = FindTableFormat(*table, read_options, options, file.get(), file_size, &open);
  if (!status.ok()) return status;
  status = open != nullptr ? open(table, read_options, options, std::move(file), file_size, reader)
                           : table->NewTableReader(read_options, options, std::move(file), file_size, reader,
                                                   prefetch_index_and_filter_in_cache);
  if (status.ok()) status = CheckOrder(options, **reader, name);
  if (status.ok()) status = CheckNoRangeDeletions(**reader, name);
  if (!status.ok()) {
    reader->reset();
    return status;
  }
  GoOnFromTotals(options, **reader);
  return status;
}

rocksdb::TableBuilder* HashOrderTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                              rocksdb::WritableFileWriter* file) const {
  rocksdb::Status known = CheckOrderIsKnown(options);
  if (!known.ok()) return new RefusedTable(std::move(known));
  rocksdb::TableBuilderOptions with_facts(options);
  const auto collectors = CollectorsWithFacts(options);
  with_facts.internal_tbl_prop_coll_factories = collectors.get();
  const bool bottommost = formats_.bottommost != nullptr && options.is_bottommost && options.level_at_creation > 0;
  return (bottommost ? formats_.bottommost : formats_.table)->NewTableBuilder(with_facts, file);
}

std::unique_ptr<rocksdb::TableFactory> HashOrderTableFactory::Clone() const {
  std::shared_ptr<rocksdb::TableFactory> table(formats_.table->Clone());
  std::shared_ptr<rocksdb::TableFactory> bottommost;
  if (formats_.bottommost != nullptr) bottommost = formats_.bottommost->Clone();
  return std::make_unique<HashOrderTableFactory>(std::move(table), std::move(bottommost));
}

}  // namespace cairn
