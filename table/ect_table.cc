#include "table/ect_table.h"

#include <unordered_map>
#include <utility>

#include "monitoring/statistics_impl.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/options_type.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/block_based/block_based_table_reader_impl.h"
#include "table/ect_table_index.h"
#include "table/table_facts.h"

namespace cairn {

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& EctTableOptionTypes() {
  static const auto* types = new std::unordered_map<std::string, rocksdb::OptionTypeInfo>{
      {"table", rocksdb::OptionTypeInfo::AsCustomSharedPtr<rocksdb::TableFactory>(
                    offsetof(EctTableOptions, table), rocksdb::OptionVerificationType::kByName,
                    rocksdb::OptionTypeFlags::kNone)},
      {"group", {offsetof(EctTableOptions, group), rocksdb::OptionType::kUInt32T}},
      {"hmax", {offsetof(EctTableOptions, hmax), rocksdb::OptionType::kUInt32T}},
      {"filter_tag_bits", {offsetof(EctTableOptions, filter_tag_bits), rocksdb::OptionType::kUInt32T}}};
  return *types;
}

// Answers Get by the ECT index and leaves everything else to the block-based table.
class EctTableReader : public rocksdb::TableReader {
 public:
  EctTableReader(std::unique_ptr<rocksdb::TableReader> reader, rocksdb::BlockBasedTable* table,
                 std::unique_ptr<EctTableIndex> index, const KeyHash& hash)
      : reader_(std::move(reader)), table_(table), index_(std::move(index)), hash_(hash) {}

  rocksdb::Status Get(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                      rocksdb::GetContext* get_context, const rocksdb::SliceTransform* /*prefix_extractor*/,
                      bool skip_filters) override {
    const uint64_t hash = hash_(rocksdb::ExtractUserKey(key));
    if (!skip_filters && index_->has_filter()) {
      if (!index_->MayContain(hash)) {
        RecordTick(table_->GetStatistics(), rocksdb::BLOOM_FILTER_USEFUL);
        return rocksdb::Status::OK();
      }
      RecordTick(table_->GetStatistics(), rocksdb::BLOOM_FILTER_FULL_POSITIVE);
    }
    const BlockRun run = index_->Find(hash);
    bool matched = false;
    for (uint64_t block = run.first; block <= run.last; ++block) {
      bool done = false;
      const rocksdb::Status status = SearchBlock(read_options, block, key, get_context, &matched, &done);
      if (!status.ok()) return status;
      if (done) break;
    }
    if (matched && !skip_filters && index_->has_filter()) {
      RecordTick(table_->GetStatistics(), rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
    }
    return rocksdb::Status::OK();
  }

  rocksdb::InternalIterator* NewIterator(const rocksdb::ReadOptions& read_options,
                                         const rocksdb::SliceTransform* prefix_extractor, rocksdb::Arena* arena,
                                         bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t compaction_readahead_size, bool allow_unprepared_value) override {
    return reader_->NewIterator(read_options, prefix_extractor, arena, skip_filters, caller, compaction_readahead_size,
                                allow_unprepared_value);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(
      const rocksdb::ReadOptions& read_options) override {
    return reader_->NewRangeTombstoneIterator(read_options);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(rocksdb::SequenceNumber read_seqno,
                                                                       const rocksdb::Slice* timestamp) override {
    return reader_->NewRangeTombstoneIterator(read_seqno, timestamp);
  }
  rocksdb::Status Prefetch(const rocksdb::ReadOptions& read_options, const rocksdb::Slice* begin,
                           const rocksdb::Slice* end) override {
    return reader_->Prefetch(read_options, begin, end);
  }
  uint64_t ApproximateOffsetOf(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                               rocksdb::TableReaderCaller caller) override {
    return reader_->ApproximateOffsetOf(read_options, key, caller);
  }
  uint64_t ApproximateSize(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& start,
                           const rocksdb::Slice& end, rocksdb::TableReaderCaller caller) override {
    return reader_->ApproximateSize(read_options, start, end, caller);
  }
  rocksdb::Status ApproximateKeyAnchors(const rocksdb::ReadOptions& read_options,
                                        std::vector<Anchor>& anchors) override {
    return reader_->ApproximateKeyAnchors(read_options, anchors);
  }
  void SetupForCompaction() override { reader_->SetupForCompaction(); }
  std::shared_ptr<const rocksdb::TableProperties> GetTableProperties() const override {
    return reader_->GetTableProperties();
  }
  size_t ApproximateMemoryUsage() const override { return reader_->ApproximateMemoryUsage() + index_->bytes(); }
  rocksdb::Status DumpTable(rocksdb::WritableFile* out_file) override { return reader_->DumpTable(out_file); }
  rocksdb::Status VerifyChecksum(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller) override {
    return reader_->VerifyChecksum(read_options, caller);
  }
  void MarkObsolete(uint32_t uncache_aggressiveness) override { reader_->MarkObsolete(uncache_aggressiveness); }

 private:
  // Hands the block's entries of the key to get_context. *done: it wants no more, or the key's entries end before the
  // block does.
  rocksdb::Status SearchBlock(const rocksdb::ReadOptions& read_options, uint64_t block, const rocksdb::Slice& key,
                              rocksdb::GetContext* get_context, bool* matched, bool* done) const {
    uint64_t offset, size;
    index_->Locate(block, &offset, &size);
    rocksdb::BlockCacheLookupContext lookup_context(
        rocksdb::TableReaderCaller::kUserGet, get_context->get_tracing_get_id(), read_options.snapshot != nullptr);
    rocksdb::DataBlockIter entries;
    rocksdb::Status status;
    table_->NewDataBlockIterator<rocksdb::DataBlockIter>(read_options, rocksdb::BlockHandle(offset, size), &entries,
                                                         rocksdb::BlockType::kData, get_context, &lookup_context,
                                                         nullptr, false, false, status, true);
    if (status.ok()) status = entries.status();
    if (status.IsIncomplete() && read_options.read_tier == rocksdb::kBlockCacheTier) {
      // Without I/O nobody can say that the key is absent.
      get_context->MarkKeyMayExist();
    }
    if (!status.ok()) return status;
    for (entries.Seek(key); entries.Valid(); entries.Next()) {
      rocksdb::ParsedInternalKey parsed;
      status = rocksdb::ParseInternalKey(entries.key(), &parsed, false);
      if (!status.ok()) return status;
      rocksdb::Status merge_status;
      const bool more = get_context->SaveValue(parsed, entries.value(), matched, &merge_status,
                                               entries.IsValuePinned() ? &entries : nullptr);
      if (!merge_status.ok()) return merge_status;
      if (!more) {
        *done = true;
        return rocksdb::Status::OK();
      }
    }
    return entries.status();
  }

  const std::unique_ptr<rocksdb::TableReader> reader_;
  rocksdb::BlockBasedTable* const table_;  // reader_ itself
  const std::unique_ptr<EctTableIndex> index_;
  const KeyHash hash_;
};

bool WritesBlocksAtOnce(const rocksdb::CompressionType type, const rocksdb::CompressionOptions& options) {
  return type == rocksdb::kNoCompression || (options.parallel_threads <= 1 && options.max_dict_bytes == 0);
}

}  // namespace

rocksdb::Status ValidateEctTableOptions(const EctTableOptions& options) {
  const auto bad = [](const char* field, uint32_t value, const char* allowed) {
    return rocksdb::Status::InvalidArgument(
        "option " + std::string(field) + " of cairn.EctTable is " + std::to_string(value), allowed);
  };
  if (options.group < 16 || options.group > 65536) return bad("group", options.group, "it may be 16 to 65536");
  if (options.hmax < 2 || options.hmax > 120) return bad("hmax", options.hmax, "it may be 2 to 120");
  const uint32_t bits = options.filter_tag_bits;
  if (bits != 0 && (bits < 4 || bits > 25)) return bad("filter_tag_bits", bits, "it may be 4 to 25, or 0");
  return rocksdb::Status::OK();
}

EctTableFactory::EctTableFactory(const EctTableOptions& options) : options_(options) {
  if (options_.table == nullptr) {
    rocksdb::BlockBasedTableOptions table_options;
    table_options.block_size = 4096;
    table_options.cache_index_and_filter_blocks = true;
    options_.table.reset(rocksdb::NewBlockBasedTableFactory(table_options));
  }
  RegisterOptions("cairn.EctTable", &options_, &EctTableOptionTypes());
}

std::string EctTableFactory::GetPrintableOptions() const {
  return "  group: " + std::to_string(options_.group) + "\n  hmax: " + std::to_string(options_.hmax) +
         "\n  filter_tag_bits: " + std::to_string(options_.filter_tag_bits) + "\n  table: " + options_.table->Name() +
         "\n" + options_.table->GetPrintableOptions();
}

rocksdb::Status EctTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                                 const rocksdb::ColumnFamilyOptions& cf_options) const {
  if (HashOfComparator(cf_options.comparator) == nullptr) {
    return rocksdb::Status::InvalidArgument("cairn.EctTable needs keys in hash order",
                                            "set the comparator to cairn.HashOrder:xxh3:0");
  }
  const auto* block_options = options_.table->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (block_options == nullptr) {
    return rocksdb::Status::InvalidArgument("cairn.EctTable needs a block-based table",
                                            "set table={id=BlockBasedTable}");
  }
  const rocksdb::Status status = ValidateEctTableOptions(options_);
  if (!status.ok()) return status;
  if (block_options->block_align) {
    return rocksdb::Status::NotSupported("cairn.EctTable with block_align", "set block_align=false");
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
  rocksdb::Status status = options_.table->NewTableReader(read_options, options, std::move(file), file_size, &inner,
                                                          prefetch_index_and_filter_in_cache);
  if (!status.ok()) return status;
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  auto* const table = dynamic_cast<rocksdb::BlockBasedTable*>(inner.get());
  if (hash == nullptr || table == nullptr) {
    *reader = std::move(inner);
    return status;
  }
  std::unique_ptr<EctTableIndex> index;
  status = EctTableIndex::Open(inner->GetTableProperties(), &index);
  if (!status.ok()) {
    rocksdb::Warn(options.ioptions.logger, "cairn.EctTable: %s is read through RocksDB's own index: %s",
                  file_name.c_str(), status.ToString().c_str());
    *reader = std::move(inner);
    return rocksdb::Status::OK();
  }
  *reader = std::make_unique<EctTableReader>(std::move(inner), table, std::move(index), *hash);
  return rocksdb::Status::OK();
}

rocksdb::TableBuilder* EctTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                        rocksdb::WritableFileWriter* file) const {
  const KeyHash* const hash = HashOfComparator(options.internal_comparator.user_comparator());
  if (hash == nullptr || !WritesBlocksAtOnce(options.compression_type, options.compression_opts)) {
    return options_.table->NewTableBuilder(options, file);
  }
  const bool last_level = options.is_bottommost && options.level_at_creation > 0;
  const EctTableFilter filter =
      last_level || options_.filter_tag_bits == 0 ? EctTableFilter::kNone : EctTableFilter::kCuckoo;
  const auto collectors = CollectorsOf(options);
  collectors->push_back(NewEctCollectorFactory(options_, *hash, filter));
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
