#include "trie_table/htable/htable_table.h"

#include <utility>

#include "rocksdb/port/family_options.h"
#include "rocksdb/utilities/options_type.h"
#include "table/ect/ect_table.h"
#include "table/format.h"
#include "table/hash_order/hash_order.h"
#include "table/table_formats.h"
#include "trie_table/bloom_cluster/bloom_directory.h"
#include "trie_table/htable/htable_builder.h"
#include "trie_table/htable/htable_reader.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

const OptionTypes& HTableOptionTypes() {
  static const HTableOptions* const defaults = new HTableOptions();
  static const OptionTypes all = {
      {"table",
       rocksdb::OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
           offsetof(HTableOptions, table), rocksdb::OptionVerificationType::kByName, rocksdb::OptionTypeFlags::kNone)},
      {"bucket_size", {offsetof(HTableOptions, bucket_size), rocksdb::OptionType::kUInt32T}},
      {"group_buckets", {offsetof(HTableOptions, group_buckets), rocksdb::OptionType::kUInt32T}}};
  static const auto* types = new OptionTypes(WithoutDefaults(all, defaults));
  return *types;
}

Status OpenForOthers(const std::shared_ptr<rocksdb::TableFactory>& blocks, const rocksdb::ReadOptions& read_options,
                     const rocksdb::TableReaderOptions& options,
                     std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                     std::unique_ptr<rocksdb::TableReader>* reader) {
  HTableOptions table_options;
  table_options.table = blocks;
  return HTableFactory(table_options).NewTableReader(read_options, options, std::move(file), file_size, reader, true);
}

const TableFormatRegistration kFormat(kHTableFooterMagic, HTableFactory::kClassName(), OpenForOthers);

}  // namespace

HTableFactory::HTableFactory(const HTableOptions& options) : options_(options) {
  if (options_.table == nullptr) options_.table.reset(rocksdb::NewBlockBasedTableFactory());
  RegisterOptions("cairn.HTable", &options_, &HTableOptionTypes());
  RegisterOptions("cairn.HTable.filter", &options_.filter, &FilterOptionTypes());
}

const std::shared_ptr<FilterDirectory>& HTableFactory::filters() const {
  std::call_once(filters_made_, [this] {
    FilterOptions filter = options_.filter;
    if (filter.residency == FilterResidency::kAuto) {
      const auto* blocks = options_.table->GetOptions<rocksdb::BlockBasedTableOptions>();
      const bool cached = blocks != nullptr && blocks->cache_index_and_filter_blocks && !blocks->no_block_cache;
      filter.residency = cached ? FilterResidency::kCache : FilterResidency::kPinned;
    }
    const bool go_on = cloned_filters_ != nullptr && cloned_filters_->IsOf(filter);
    std::atomic_store(&filters_, go_on ? cloned_filters_ : std::make_shared<FilterDirectory>(filter));
  });
  return filters_;
}

std::string HTableFactory::GetOptionName(const std::string& name) const {
  return NameWithin(*this, *options_.table, rocksdb::TableFactory::GetOptionName(name));
}

std::string HTableFactory::GetPrintableOptions() const {
  return "  bucket_size: " + std::to_string(options_.bucket_size) +
         "\n  group_buckets: " + std::to_string(options_.group_buckets) + "\n  table: " + options_.table->Name() +
         "\n" + options_.table->GetPrintableOptions();
}

Status HTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                      const rocksdb::ColumnFamilyOptions& cf_options) const {
  if (HashOfComparator(cf_options.comparator) == nullptr) {
    return Status::InvalidArgument("cairn.HTable needs keys in hash order",
                                   "set the comparator to cairn.HashOrder:xxh3");
  }
  if (options_.table->GetOptions<rocksdb::BlockBasedTableOptions>() == nullptr) {
    return Status::InvalidArgument("cairn.HTable reads other tables by a block-based table",
                                   "set table={id=BlockBasedTable}");
  }
  const uint32_t size = options_.bucket_size;
  if (size < kMinBucketSize || size > kMaxBucketSize || (size & (size - 1)) != 0) {
    return Status::InvalidArgument("cairn.HTable: bucket_size is " + std::to_string(size),
                                   "it may be 4096, 8192, 16384 or 32768");
  }
  if (options_.group_buckets < 8 || options_.group_buckets > 256) {
    return Status::InvalidArgument("cairn.HTable: group_buckets is " + std::to_string(options_.group_buckets),
                                   "it may be 8 to 256");
  }
  const std::string manager = port::ForeignCompression(cf_options);
  if (!manager.empty()) {
    return Status::NotSupported("cairn.HTable with the compression_manager " + manager,
                                "its pages are compressed by RocksDB's built-in types: set none");
  }
  const Status s = ValidateFilterOptions(options_.filter);
  return s.ok() ? rocksdb::TableFactory::ValidateOptions(db_options, cf_options) : s;
}

Status HTableFactory::NewTableReader(const rocksdb::ReadOptions& read_options,
                                     const rocksdb::TableReaderOptions& options,
                                     std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                     std::unique_ptr<rocksdb::TableReader>* reader,
                                     bool prefetch_index_and_filter_in_cache) const {
  rocksdb::IOOptions io_options;
  Status s = file->PrepareIOOptions(read_options, io_options);
  rocksdb::Footer footer;
  if (s.ok()) {
    s = rocksdb::ReadFooterFromFile(io_options, file.get(), *options.ioptions.fs, nullptr, file_size, &footer, 0,
                                    options.ioptions.stats);
  }
  if (!s.ok()) return s;
  if (footer.table_magic_number() != kHTableFooterMagic) {
    EctTableOptions others;
    others.table = options_.table;
    return EctTableFactory(others).NewTableReader(read_options, options, std::move(file), file_size, reader,
                                                  prefetch_index_and_filter_in_cache);
  }
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  if (hash == nullptr) {
    return Status::InvalidArgument("an HTable needs its own hash order as comparator", file->file_name());
  }
  const auto* block_based = options_.table->GetOptions<rocksdb::BlockBasedTableOptions>();
  std::shared_ptr<rocksdb::Cache> cache;
  if (block_based != nullptr && !block_based->no_block_cache) cache = block_based->block_cache;
  std::shared_ptr<HTableFile> opened;
  s = HTableFile::Open(read_options, options, std::move(cache), std::move(file), file_size, &opened);
  if (s.ok() && block_based != nullptr) s = opened->Charge(ReaderChargeDecision(*block_based));
  if (!s.ok()) return s;
  const std::string& comparator = opened->properties()->comparator_name;
  const std::string ours = options.internal_comparator.user_comparator()->Name();
  if (comparator != ours) {
    return Status::InvalidArgument("the HTable " + opened->name() + " is in the order " + comparator,
                                   "open it with this comparator, not with " + ours);
  }
  std::unique_ptr<TableFilter> filter;
  if (!options.skip_filters && opened->filter_part().size > 0) {
    FilterContext context = FilterContextOf(options, *opened->properties());
    context.block_cache = opened->cache();
    context.cache_key = opened->cache_key();
    context.table = opened;
    filters()->SetMemoryShare(options_.filter.memory_share);
    s = TableFilter::Open(filters(), context, read_options, opened->file(), opened->filter_part().offset,
                          opened->filter_part().size, &filter);
    if (!s.ok()) return s;
  }
  *reader = std::make_unique<HTableReader>(std::move(opened), *hash, std::move(filter));
  return s;
}

rocksdb::TableBuilder* HTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                      rocksdb::WritableFileWriter* file) const {
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  if (hash == nullptr) return options_.table->NewTableBuilder(options, file);
  auto filter = std::make_unique<TableFilterBuilder>(filters(), FilterContextOf(options));
  return new HTableBuilder(options_, *hash, options, std::move(filter), file);
}

std::unique_ptr<rocksdb::TableFactory> HTableFactory::Clone() const {
  HTableOptions options = options_;
  options.table = options_.table->Clone();
  auto clone = std::make_unique<HTableFactory>(options);
  // Not made for this: options may yet be read into either.
  clone->cloned_filters_ = std::atomic_load(&filters_);
  return clone;
}

std::vector<FilterDepth> HTableFactory::FilterDepths() const { return filters()->Depths(); }
uint64_t HTableFactory::filter_pages_read() const { return filters()->counters().page_reads; }
uint64_t HTableFactory::filter_pages_cached() const { return filters()->counters().page_hits; }

rocksdb::TableFactory* NewHTableFactory(const HTableOptions& options) { return new HTableFactory(options); }

}  // namespace cairn
