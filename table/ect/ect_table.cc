#include "table/ect/ect_table.h"

#include "rocksdb/env.h"
#include "rocksdb/port/block_based.h"
#include "rocksdb/port/block_options.h"
#include "rocksdb/port/family_options.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/ect/ect_table_index.h"
#include "table/ect/ect_table_reader.h"
#include "table/meta_blocks.h"
#include "table/table_facts.h"
#include "util/class_of.h"
#include "util/option_text.h"

namespace cairn {

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& EctTableOptionTypes() {
  static const EctTableOptions* const defaults = new EctTableOptions();
  static const auto* types = [] {
    auto* made = new OptionTypes(WithoutDefaults(EctTableOptionTypesAt(0), defaults));
    made->emplace("table", rocksdb::OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
                               offsetof(EctTableOptions, table), rocksdb::OptionVerificationType::kByName,
                               rocksdb::OptionTypeFlags::kNone));
    return made;
  }();
  return *types;
}

std::string ResidencyName(EctIndexResidency residency) {
  for (const auto& [name, value] : EctIndexResidencyNames()) {
    if (value == residency) return name;
  }
  return "unknown";
}

// Such a cache may have no room for RocksDB's index, without which a table that is just written would not be opened and
// the database would stop. Only iterators need that index, so it waits for them.
bool HasStrictCache(const rocksdb::TableFactory& table) {
  const auto* blocks = table.GetOptions<rocksdb::BlockBasedTableOptions>();
  return blocks != nullptr && blocks->block_cache != nullptr && blocks->block_cache->HasStrictCapacityLimit();
}

bool WritesBlocksAtOnce(const rocksdb::CompressionType type, const rocksdb::CompressionOptions& options) {
  return type == rocksdb::kNoCompression || (options.parallel_threads <= 1 && options.max_dict_bytes == 0);
}

}  // namespace

const std::unordered_map<std::string, EctIndexResidency>& EctIndexResidencyNames() {
  static const auto* names =
      new std::unordered_map<std::string, EctIndexResidency>{{"pinned", EctIndexResidency::kPinned},
                                                             {"cache", EctIndexResidency::kCache},
                                                             {"dropped", EctIndexResidency::kDropped}};
  return *names;
}

std::unordered_map<std::string, rocksdb::OptionTypeInfo> EctTableOptionTypesAt(int offset) {
  const auto at = [offset](size_t field) { return offset + static_cast<int>(field); };
  return {{"group", {at(offsetof(EctTableOptions, group)), rocksdb::OptionType::kUInt32T}},
          {"hmax", {at(offsetof(EctTableOptions, hmax)), rocksdb::OptionType::kUInt32T}},
          {"filter_tag_bits", {at(offsetof(EctTableOptions, filter_tag_bits)), rocksdb::OptionType::kUInt32T}},
          {"last_level_filter_bits",
           {at(offsetof(EctTableOptions, last_level_filter_bits)), rocksdb::OptionType::kUInt32T}},
          {"index_residency", rocksdb::OptionTypeInfo::Enum<EctIndexResidency>(
                                  at(offsetof(EctTableOptions, index_residency)), &EctIndexResidencyNames())}};
}

rocksdb::Status ValidateEctTableOptions(const EctTableOptions& options) {
  const auto bad = [](const char* field, uint32_t value, const char* allowed) {
    return rocksdb::Status::InvalidArgument(
        "option " + std::string(field) + " of cairn.EctTable is " + std::to_string(value), allowed);
  };
  if (options.group < 16 || options.group > 65536) return bad("group", options.group, "it may be 16 to 65536");
  if (options.hmax < 2 || options.hmax > 120) return bad("hmax", options.hmax, "it may be 2 to 120");
  const uint32_t bits = options.filter_tag_bits;
  if (bits != 0 && (bits < 4 || bits > 25)) return bad("filter_tag_bits", bits, "it may be 4 to 25, or 0");
  if (options.last_level_filter_bits > 16) {
    return bad("last_level_filter_bits", options.last_level_filter_bits, "it may be 0 to 16");
  }
  return rocksdb::Status::OK();
}

bool HasEctIndex(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                 rocksdb::RandomAccessFileReader* file, uint64_t file_size) {
  constexpr uint64_t kAnyMagicNumber = 0;
  std::unique_ptr<rocksdb::TableProperties> properties;
  const rocksdb::Status status =
      rocksdb::ReadTableProperties(file, file_size, kAnyMagicNumber, options.ioptions, read_options, &properties);
  return status.ok() && properties->user_collected_properties.count(kEctProperty) > 0;
}

std::shared_ptr<rocksdb::TableFactory> NewEctTableFactoryLike(const rocksdb::BlockBasedTableOptions& blocks,
                                                              const EctTableOptions& options) {
  rocksdb::BlockBasedTableOptions block_options = blocks;
  block_options.filter_policy = nullptr;
  block_options.cache_index_and_filter_blocks = !block_options.no_block_cache;
  EctTableOptions table = options;
  table.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  return std::make_shared<EctTableFactory>(table);
}

EctTableFactory::EctTableFactory(const EctTableOptions& options)
    : options_(options), counters_(std::make_shared<EctTableCounters>()) {
  if (options_.table == nullptr) {
    rocksdb::BlockBasedTableOptions table_options;
    table_options.block_size = 4096;
    table_options.cache_index_and_filter_blocks = true;
    options_.table.reset(rocksdb::NewBlockBasedTableFactory(table_options));
  }
  RegisterOptions("cairn.EctTable", &options_, &EctTableOptionTypes());
}

std::string EctTableFactory::GetOptionName(const std::string& name) const {
  return NameWithin(*this, *options_.table, rocksdb::TableFactory::GetOptionName(name));
}

std::string EctTableFactory::GetPrintableOptions() const {
  return "  group: " + std::to_string(options_.group) + "\n  hmax: " + std::to_string(options_.hmax) +
         "\n  filter_tag_bits: " + std::to_string(options_.filter_tag_bits) +
         "\n  last_level_filter_bits: " + std::to_string(options_.last_level_filter_bits) +
         "\n  index_residency: " + ResidencyName(options_.index_residency) + "\n  table: " + options_.table->Name() +
         "\n" + options_.table->GetPrintableOptions();
}

rocksdb::Status EctTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                                 const rocksdb::ColumnFamilyOptions& cf_options) const {
  if (HashOfComparator(cf_options.comparator) == nullptr) {
    return rocksdb::Status::InvalidArgument("cairn.EctTable needs keys in hash order",
                                            "set the comparator to cairn.HashOrder:xxh3");
  }
  const auto* block_options = options_.table->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (block_options == nullptr) {
    return rocksdb::Status::InvalidArgument("cairn.EctTable needs a block-based table",
                                            "set table={id=BlockBasedTable}");
  }
  const rocksdb::Status status = ValidateEctTableOptions(options_);
  if (!status.ok()) return status;
  if (options_.index_residency == EctIndexResidency::kCache && block_options->no_block_cache) {
    return rocksdb::Status::InvalidArgument("cairn.EctTable: index_residency=cache needs a block cache",
                                            "use index_residency=pinned or dropped, or no_block_cache=false");
  }
  if (port::HasGapsBetweenBlocks(*block_options)) {
    return rocksdb::Status::NotSupported("cairn.EctTable with block_align or super_block_alignment_size",
                                         "set block_align=false and super_block_alignment_size=0");
  }
  const rocksdb::Status index = port::CheckUserIndex(*block_options, cf_options.comparator);
  if (!index.ok()) return index;
  const std::string manager = port::ForeignCompression(cf_options);
  if (!manager.empty()) {
    return rocksdb::Status::NotSupported("cairn.EctTable with the compression_manager " + manager,
                                         "its blocks may come in another order: set none");
  }
  for (const rocksdb::CompressionOptions* compression :
       {&cf_options.compression_opts, &cf_options.bottommost_compression_opts}) {
    if (compression->parallel_threads > 1) {
      return rocksdb::Status::NotSupported("cairn.EctTable with parallel compression", "set parallel_threads=1");
    }
    if (compression->max_dict_bytes > 0) {
      return rocksdb::Status::NotSupported("cairn.EctTable with a compression dictionary", "set max_dict_bytes=0");
    }
  }
  return rocksdb::TableFactory::ValidateOptions(db_options, cf_options);
}

rocksdb::Status EctTableFactory::NewTableReader(const rocksdb::ReadOptions& read_options,
                                                const rocksdb::TableReaderOptions& options,
                                                std::unique_ptr<rocksdb::RandomAccessFileReader>&& file,
                                                uint64_t file_size, std::unique_ptr<rocksdb::TableReader>* reader,
                                                bool prefetch_index_and_filter_in_cache) const {
  const std::string file_name = file->file_name();
  std::unique_ptr<rocksdb::TableReader> inner;
  rocksdb::Status status =
      options_.table->NewTableReader(HasStrictCache(*options_.table) ? PastCache(read_options) : read_options, options,
                                     std::move(file), file_size, &inner, prefetch_index_and_filter_in_cache);
  if (!status.ok()) return status;
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  // Of another factory, which may be an application's, nothing is known.
  const bool block_based = AsInstanceOf<rocksdb::BlockBasedTableFactory>(options_.table.get()) != nullptr;
  auto* const table = block_based ? static_cast<rocksdb::BlockBasedTable*>(inner.get()) : nullptr;
  if (hash == nullptr || table == nullptr || port::HasEmbeddedBlobs(*table->get_rep())) {
    *reader = std::move(inner);
    return status;
  }
  status = OpenEctTableReader(options_, *hash, file_size, counters_, table, &inner);
  if (!status.ok()) {
    rocksdb::Warn(options.ioptions.logger, "cairn.EctTable: %s is read through RocksDB's own index: %s",
                  file_name.c_str(), status.ToString().c_str());
  }
  *reader = std::move(inner);
  return rocksdb::Status::OK();
}

rocksdb::TableBuilder* EctTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                        rocksdb::WritableFileWriter* file) const {
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  if (hash == nullptr || !WritesBlocksAtOnce(options.compression_type, options.compression_opts)) {
    return options_.table->NewTableBuilder(options, file);
  }
  const bool last_level = options.is_bottommost && options.level_at_creation > 0;
  const EctTableFilter filter = last_level ? EctTableFilter::kRibbon : EctTableFilter::kCuckoo;
  const auto collectors = CollectorsOf(options);
  const bool compact = options.reason == rocksdb::TableFileCreationReason::kFlush &&
                       compact_next_flush_.Take(options.db_session_id, options.column_family_id);
  collectors->push_back(NewEctCollectorFactory(options_, *hash, filter, compact));
  rocksdb::TableBuilderOptions with_index(options);
  with_index.internal_tbl_prop_coll_factories = collectors.get();
  return options_.table->NewTableBuilder(with_index, file);
}

std::unique_ptr<rocksdb::TableFactory> EctTableFactory::Clone() const {
  EctTableOptions options = options_;
  options.table = options_.table->Clone();
  return std::make_unique<EctTableFactory>(options);
}

rocksdb::TableFactory* NewEctTableFactory(const EctTableOptions& options) { return new EctTableFactory(options); }

}  // namespace cairn
