#include "table/ordered/ordered_table.h"

#include <algorithm>
#include <cstdio>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "db/range_tombstone_fragmenter.h"
#include "db/table_properties_collector.h"
#include "memory/arena.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/comparator.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/utilities/options_type.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/block_based/filter_policy_internal.h"
#include "table/deletion_cuts.h"
#include "table/ordered/order_block.h"
#include "table/ordered/ordered_builder.h"
#include "table/ordered/ordered_iterator.h"
#include "table/ordered/ordered_probe.h"
#include "table/ordered/point_filter.h"
#include "table/perf_counts.h"
#include "table/scan_counts.h"
#include "table/table_facts.h"
#include "table/tombstone_run.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"
#include "util/vector_iterator.h"

namespace cairn {

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& OrderFilterOptionTypes() {
  static const auto* defaults = new OrderFilterOptions();
  static const auto* types = new OptionTypes(WithoutDefaults(
      {{"order_bits", {offsetof(OrderFilterOptions, order_bits), rocksdb::OptionType::kDouble}},
       {"extra_order_bits", {offsetof(OrderFilterOptions, extra_order_bits), rocksdb::OptionType::kDouble}},
       {"tombstone_run", {offsetof(OrderFilterOptions, tombstone_run), rocksdb::OptionType::kUInt32T}}},
      defaults));
  return *types;
}

// A trie in key order chooses its compactions by what tables say of their keys, and by what is read of them.
bool IsInTrie(const rocksdb::ImmutableOptions& options) {
  return options.compaction_style == rocksdb::kCompactionStyleNone && options.sst_partitioner_factory != nullptr;
}

std::unique_ptr<ScanCounts::Table> CountScans(const rocksdb::TableReaderOptions& options,
                                              const rocksdb::BlockBasedTable::Rep& rep) {
  const rocksdb::TableProperties* const properties = rep.table_properties.get();
  if (!IsInTrie(options.ioptions) || options.cur_db_session_id.empty() || properties == nullptr) return nullptr;
  const uint64_t block_bytes = properties->data_size / std::max<uint64_t>(properties->num_data_blocks, 1);
  return std::make_unique<ScanCounts::Table>(ScanCounts::Of(options.cur_db_session_id), options.cur_file_num,
                                             block_bytes);
}

class OrderedTableReader final : public OrderedTableProbe {
 public:
  OrderedTableReader(std::unique_ptr<rocksdb::TableReader> inner, std::unique_ptr<const MappedTable> mapped,
                     const ReadOptions& read_options, const rocksdb::TableReaderOptions& options, uint64_t file_size,
                     bool prefetch, std::shared_ptr<OrderedSeeks> seeks)
      : OrderedTableProbe(std::move(inner)),
        rep_(static_cast<const rocksdb::BlockBasedTable*>(WrappedTableReader::inner())->get_rep()),
        place_(read_options, static_cast<rocksdb::BlockBasedTable*>(WrappedTableReader::inner()), file_size,
               prefetch || options.level == 0, options.max_file_size_for_l0_meta_pin),
        blocks_(static_cast<rocksdb::BlockBasedTable*>(WrappedTableReader::inner()), std::move(mapped),
                options.block_cache_tracer),
        comparator_(options.internal_comparator.user_comparator()),
        scans_(CountScans(options, *rep_)) {
    has_entries_only_ = comparator_ == rocksdb::BytewiseComparator() && rep_->fragmented_range_dels == nullptr;
    has_mapped_blocks_ = blocks_.is_mapped();
    bloom_ = BloomLines(*rep_);
    seeks_ = std::move(seeks);
  }

  const BlockSource& blocks() const override { return blocks_; }
  bool IsTraced() const override { return blocks_.IsTraced(); }
  bool PointFilterSaysMaybe(const ReadOptions& read_options, const Slice& key) const override {
    return PointFilterMayHold(*rep_, read_options, key);
  }
  bool OrderSaysMaybe(const ReadOptions& read_options, const Slice& user_key) const override {
    return OrderMayHold(read_options, user_key);
  }
  void AskPointFilter(const ReadOptions& read_options, rocksdb::MultiGetContext::Range* range) const override {
    if (range->empty() || rep_->filter == nullptr || !rep_->whole_key_filtering) return;
    rep_->filter->KeysMayMatch(range, nullptr, read_options);
  }
  void AskOrder(const ReadOptions& read_options, rocksdb::MultiGetContext::Range* range) const override {
    if (!HasOrder() || range->empty()) return;
    const Cached<OrderFilter> filter = place_.Acquire(read_options, OrderBlockPlace::For::kLookup);
    for (auto it = range->begin(); filter && it != range->end(); ++it) {
      if (!filter->MayContain(it->ukey_without_ts.data(), it->ukey_without_ts.size())) range->SkipKey(it);
    }
  }
  Cached<OrderFilter> Order(const ReadOptions& read_options) const override {
    return place_.Acquire(read_options, OrderBlockPlace::For::kSeek);
  }
  OrderedIterator* NewScan(const ReadOptions& read_options, const rocksdb::SliceTransform* prefix_extractor,
                           void* place) const override {
    return new (place)
        OrderedIterator(IteratorParts(read_options, prefix_extractor, nullptr, false, 0), &place_, seeks_.get());
  }
  Status Find(const ReadOptions& read_options, const Slice& key, rocksdb::GetContext* get_context,
              const rocksdb::SliceTransform* prefix_extractor) const override {
    std::optional<Status> found;
    if (blocks_.ServesLookups()) {
      BlockCursor cursor(&blocks_, &read_options);
      found = FindInBlocks(&cursor, For::kGet, read_options, key, get_context, prefix_extractor);
    }
    return found.has_value() ? *found : GetFromTable(read_options, key, get_context, prefix_extractor);
  }

  rocksdb::InternalIterator* NewIterator(const ReadOptions& read_options,
                                         const rocksdb::SliceTransform* prefix_extractor, rocksdb::Arena* arena,
                                         bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t compaction_readahead_size, bool allow_unprepared_value) override {
    if (!place_.exists() || !MayDefer(read_options, comparator_, caller, allow_unprepared_value)) {
      // RocksDB's iterator reads a block when it is sought, which is what it is made for.
      if (scans_ != nullptr && caller == rocksdb::TableReaderCaller::kUserIterator) scans_->Add(1);
      return inner()->NewIterator(read_options, prefix_extractor, arena, skip_filters, caller,
                                  compaction_readahead_size, allow_unprepared_value);
    }
    const OrderedIterator::Table table =
        IteratorParts(read_options, prefix_extractor, arena, skip_filters, compaction_readahead_size);
    if (arena == nullptr) return new OrderedIterator(table, &place_, seeks_.get());
    return new (arena->AllocateAligned(sizeof(OrderedIterator))) OrderedIterator(table, &place_, seeks_.get());
  }

  Status Get(const ReadOptions& read_options, const Slice& key, rocksdb::GetContext* get_context,
             const rocksdb::SliceTransform* prefix_extractor, bool skip_filters) override {
    if (skip_filters || !HasOrder()) {
      return inner()->Get(read_options, key, get_context, prefix_extractor, skip_filters);
    }
    if (!MayHold(read_options, key, get_context)) return Status::OK();
    return Find(read_options, key, get_context, prefix_extractor);
  }
  Status MultiGetFilter(const ReadOptions& read_options, const rocksdb::SliceTransform* prefix_extractor,
                        rocksdb::MultiGetContext::Range* range) override {
    const Status s = inner()->MultiGetFilter(read_options, prefix_extractor, range);
    if (s.ok()) AskOrder(read_options, range);
    return s;
  }
  void MultiGet(const ReadOptions& read_options, const rocksdb::MultiGetContext::Range* range,
                const rocksdb::SliceTransform* prefix_extractor, bool skip_filters) override {
    if (skip_filters || !HasOrder()) return inner()->MultiGet(read_options, range, prefix_extractor, skip_filters);
    rocksdb::MultiGetContext::Range may_hold(*range, range->begin(), range->end());
    const uint64_t keys = may_hold.KeysLeft();
    AskPointFilter(read_options, &may_hold);
    AskOrder(read_options, &may_hold);
    CountUseful(keys - may_hold.KeysLeft());
    if (!may_hold.empty()) FindBatch(read_options, may_hold, prefix_extractor);
  }
  // RocksDB's reader gets the keys whose blocks are not in memory, to read them together.
  void FindBatch(const ReadOptions& read_options, const rocksdb::MultiGetContext::Range& range,
                 const rocksdb::SliceTransform* prefix_extractor) const override {
    rocksdb::MultiGetContext::Range rest(range, range.begin(), range.end());
    BlockCursor cursor(&blocks_, &read_options);  // neighbours may lie in one block
    for (auto it = rest.begin(); blocks_.ServesLookups() && it != rest.end(); ++it) {
      const std::optional<Status> found =
          FindInBlocks(&cursor, For::kBatch, read_options, it->ikey, it->get_context, prefix_extractor);
      if (!found.has_value()) continue;
      if (!found->ok()) *it->s = *found;
      rest.SkipKey(it);
    }
    if (rest.empty()) return;
    const bool asked = IsPointFilterAsked();
    inner()->MultiGet(read_options, &rest, prefix_extractor, asked);
    for (auto it = rest.begin(); asked && it != rest.end(); ++it) CountPositive(*it->get_context);
  }
  // For a compaction of a trie in key order, in the parts that it wants.
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(const ReadOptions& read_options) override {
    std::unique_ptr<rocksdb::FragmentedRangeTombstoneIterator> whole(inner()->NewRangeTombstoneIterator(read_options));
    const std::vector<std::string>* const cuts = DeletionCutsScope::Current();
    if (cuts == nullptr || whole == nullptr || whole->empty()) return whole.release();
    std::vector<std::string> begins, ends;
    for (whole->SeekToFirst(); whole->Valid(); whole->Next()) {
      CutDeletion(whole->Tombstone(), *cuts, &begins, &ends);
    }
    auto parts =
        std::make_unique<rocksdb::VectorIterator>(std::move(begins), std::move(ends), &rep_->internal_comparator);
    const auto list =
        std::make_shared<rocksdb::FragmentedRangeTombstoneList>(std::move(parts), rep_->internal_comparator);
    return new rocksdb::FragmentedRangeTombstoneIterator(list, rep_->internal_comparator, rocksdb::kMaxSequenceNumber);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(rocksdb::SequenceNumber read_seqno,
                                                                       const Slice* timestamp) override {
    return inner()->NewRangeTombstoneIterator(read_seqno, timestamp);
  }
  void Prepare(const Slice& target) override { inner()->Prepare(target); }
  size_t ApproximateMemoryUsage() const override {
    return inner()->ApproximateMemoryUsage() + place_.bytes() + blocks_.bytes_in_memory();
  }
  void MarkObsolete(uint32_t uncache_aggressiveness) override {
    if (uncache_aggressiveness > 0) place_.Forget();
    inner()->MarkObsolete(uncache_aggressiveness);
  }

 private:
  // Whether there may be an entry of this internal key's user key: RocksDB's filter first, which takes one cache line,
  // then the order filter, which sees most keys of which that one errs.
  bool MayHold(const ReadOptions& read_options, const Slice& key, rocksdb::GetContext* get_context) const {
    const bool may = PointFilterMayHold(*rep_, read_options, key, get_context) &&
                     OrderMayHold(read_options, rocksdb::ExtractUserKey(key));
    CountUseful(may ? 0 : 1);
    return may;
  }

  OrderedIterator::Table IteratorParts(const ReadOptions& read_options, const rocksdb::SliceTransform* prefix_extractor,
                                       rocksdb::Arena* arena, bool skip_filters,
                                       size_t compaction_readahead_size) const {
    return {inner(),     &blocks_, &read_options, prefix_extractor, arena, skip_filters, compaction_readahead_size,
            scans_.get()};
  }

  // Keys that a filter has excluded.
  void CountUseful(uint64_t keys) const {
    if (keys == 0) return;
    RecordTick(rep_->ioptions.stats, rocksdb::BLOOM_FILTER_USEFUL, keys);
    PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_useful, keys, rep_->level);
  }

  // Whether MayHold asks RocksDB's filter in place of its reader, which need not do so once more. (The reader takes
  // what it is not to ask its filter for leave to ignore the first keys in the index.)
  bool IsPointFilterAsked() const {
    return rep_->filter != nullptr && rep_->whole_key_filtering && !rep_->index_has_first_key;
  }

  // RocksDB's filter has said yes. Whether there was an entry is known but for operands that others were found before.
  void CountPositive(const rocksdb::GetContext& get_context) const {
    RecordTick(rep_->ioptions.stats, rocksdb::BLOOM_FILTER_FULL_POSITIVE);
    PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_full_positive, 1, rep_->level);
    if (get_context.State() == rocksdb::GetContext::kNotFound) return;
    RecordTick(rep_->ioptions.stats, rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
    PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_full_true_positive, 1, rep_->level);
  }

  // REQUIRES: MayHold has said yes, as for FindInBlocks.
  Status GetFromTable(const ReadOptions& read_options, const Slice& key, rocksdb::GetContext* get_context,
                      const rocksdb::SliceTransform* prefix_extractor) const {
    const bool asked = IsPointFilterAsked();
    const Status status = inner()->Get(read_options, key, get_context, prefix_extractor, asked);
    if (asked) CountPositive(*get_context);
    return status;
  }

  enum class For {
    kGet,    // reads the block
    kBatch,  // leaves blocks that are not in memory; goes on with the cursor
  };

  // What RocksDB's reader does where its filter says yes; nullopt: the first block is that reader's.
  std::optional<Status> FindInBlocks(BlockCursor* cursor, For use, const ReadOptions& read_options, const Slice& key,
                                     rocksdb::GetContext* get_context,
                                     const rocksdb::SliceTransform* prefix_extractor) const {
    rocksdb::Cleanable holder;
    BlockCursor::Result at = cursor->Find(key, use == For::kGet ? get_context : nullptr);
    if (at == BlockCursor::Result::kElsewhere) return std::nullopt;
    bool more = true, matched = false;
    Status status;
    while (at == BlockCursor::Result::kHere) {
      rocksdb::ParsedInternalKey entry;
      status = rocksdb::ParseInternalKey(cursor->key(), &entry, false);
      if (status.ok() && entry.user_key == rocksdb::ExtractUserKey(key)) {
        if (use == For::kGet) {
          cursor->GiveBlock(&holder);
        } else {
          cursor->ShareBlock(&holder);
        }
        more =
            get_context->SaveValue(entry, cursor->value(), &matched, &status, cursor->is_mapped() ? nullptr : &holder);
      } else {
        more = false;
      }
      if (!more || !status.ok()) break;
      at = cursor->FindNext();
    }
    if (IsPointFilterAsked()) CountPositive(*get_context);
    // It goes on behind the last entry. RocksDB's reader knows older ones by their sequence numbers.
    const bool goes_on = status.ok() && more && at == BlockCursor::Result::kElsewhere;
    const uint64_t sequence = goes_on ? rocksdb::GetInternalKeySeqno(cursor->key()) : 0;
    if (sequence == 0) return status;
    const rocksdb::InternalKey behind(cursor->user_key(), sequence - 1, rocksdb::kValueTypeForSeek);
    return inner()->Get(read_options, behind.Encode(), get_context, prefix_extractor, true);
  }

  // A file may be read with another comparator than it was written with: one that has timestamps, too.
  bool HasOrder() const { return place_.exists() && comparator_ == rocksdb::BytewiseComparator(); }

  bool OrderMayHold(const ReadOptions& read_options, const Slice& user_key) const {
    if (!HasOrder()) return true;
    const Cached<OrderFilter> filter = place_.Acquire(read_options, OrderBlockPlace::For::kLookup);
    return !filter || filter->MayContain(user_key.data(), user_key.size());
  }

  // As RocksDB writes range deletions: internal keys of their beginnings, and ends.
  void CutDeletion(const rocksdb::RangeTombstone& whole, const std::vector<std::string>& cuts,
                   std::vector<std::string>* begins, std::vector<std::string>* ends) const {
    auto cut = std::upper_bound(
        cuts.begin(), cuts.end(), whole.start_key_,
        [this](const Slice& key, const std::string& other) { return comparator_->Compare(key, other) < 0; });
    for (rocksdb::RangeTombstone part = whole; true; part.start_key_ = *cut++) {
      const bool last = cut == cuts.end() || comparator_->Compare(*cut, whole.end_key_) >= 0;
      part.end_key_ = last ? whole.end_key_ : Slice(*cut);
      const auto entry = part.Serialize();
      begins->push_back(entry.first.Encode().ToString());
      ends->push_back(entry.second.ToString());
      if (last) return;
    }
  }

  const rocksdb::BlockBasedTable::Rep* const rep_;
  OrderBlockPlace place_;
  const BlockSource blocks_;
  const rocksdb::Comparator* const comparator_;
  const std::unique_ptr<ScanCounts::Table> scans_;  // null: no trie has the table
};

}  // namespace

// Readers of ordered tables are all made by this library, so their one type_info tells. It stands on the left, where
// its name says that there is no other of this name, and none is compared.
const OrderedTableProbe* OrderedTableProbe::Of(const rocksdb::TableReader* reader) {
  if (reader == nullptr || typeid(OrderedTableReader) != typeid(*reader)) return nullptr;
  return static_cast<const OrderedTableReader*>(reader);
}

OrderedTableFactory::OrderedTableFactory(const rocksdb::BlockBasedTableOptions& table, const OrderFilterOptions& filter,
                                         InTexts in_texts)
    : BlockBasedTableFactory(table), filter_(filter), in_texts_(in_texts), seeks_(std::make_shared<OrderedSeeks>()) {
  if (in_texts == InTexts::kOrdered) RegisterOptions("cairn.OrderFilter", &filter_, &OrderFilterOptionTypes());
}

bool OrderedTableFactory::IsInstanceOf(const std::string& name) const {
  return name == kClassName() || name == kBlockBasedTableName() || BlockBasedTableFactory::IsInstanceOf(name);
}

std::string OrderedTableFactory::GetPrintableOptions() const {
  char own[128];
  snprintf(own, sizeof(own), "  order_bits: %g\n  extra_order_bits: %g\n  tombstone_run: %u\n", filter_.order_bits,
           filter_.extra_order_bits, filter_.tombstone_run);
  return own + BlockBasedTableFactory::GetPrintableOptions();
}

Status OrderedTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                            const rocksdb::ColumnFamilyOptions& cf_options) const {
  const double bits = filter_.order_bits, extra = filter_.extra_order_bits;
  if (bits != 0 && !(bits >= 2.5 && bits <= 20)) {
    return Status::InvalidArgument("option order_bits of cairn.OrderedTable is " + std::to_string(bits),
                                   "it may be 2.5 to 20, or 0");
  }
  if (!(extra >= 0 && extra <= 17)) {
    return Status::InvalidArgument("option extra_order_bits of cairn.OrderedTable is " + std::to_string(extra),
                                   "it may be 0 to 17");
  }
  const auto& filter = GetOptions<rocksdb::BlockBasedTableOptions>()->filter_policy;
  const rocksdb::Comparator& order = *cf_options.comparator;
  if (filter != nullptr && order.CanKeysWithDifferentByteContentsBeEqual() && order.timestamp_size() == 0 &&
      filter->IsInstanceOf(rocksdb::BuiltinFilterPolicy::kClassName())) {
    return Status::NotSupported(
        "cairn.OrderedTable with the comparator " + std::string(order.Name()) + " and the filter " + filter->Name(),
        "keys of other bytes may be equal, and the filter goes by bytes; set no filter_policy, or let the comparator "
        "say that they are not (CanKeysWithDifferentByteContentsBeEqual)");
  }
  return BlockBasedTableFactory::ValidateOptions(db_options, cf_options);
}

Status OrderedTableFactory::NewTableReader(const ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                                           std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                           std::unique_ptr<rocksdb::TableReader>* reader,
                                           bool prefetch_index_and_filter_in_cache) const {
  std::unique_ptr<rocksdb::TableReader> inner;
  Status status = BlockBasedTableFactory::NewTableReader(read_options, options, std::move(file), file_size, &inner,
                                                         prefetch_index_and_filter_in_cache);
  std::unique_ptr<const MappedTable> mapped;
  if (status.ok() && options.ioptions.allow_mmap_reads) {
    const auto& rep = *static_cast<const rocksdb::BlockBasedTable*>(inner.get())->get_rep();
    if (rep.table_properties != nullptr) {
      status = MappedTable::Find(*rep.file, file_size, *rep.table_properties, rep.table_options.block_size, &mapped);
    }
  }
  if (!status.ok()) return status;
  *reader = std::make_unique<OrderedTableReader>(std::move(inner), std::move(mapped), read_options, options, file_size,
                                                 prefetch_index_and_filter_in_cache, seeks_);
  return status;
}

rocksdb::TableBuilder* OrderedTableFactory::NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                                            rocksdb::WritableFileWriter* file) const {
  const bool in_trie = IsInTrie(options.ioptions), marks = MarksTombstones(options);
  if (!in_trie && !marks) return NewBuilder(options, file);
  const auto collectors = in_trie ? CollectorsWithFacts(options) : CollectorsOf(options);
  if (marks) {
    collectors->push_back(std::make_unique<rocksdb::UserKeyTablePropertiesCollectorFactory>(
        std::make_shared<TombstoneMarkerFactory>(filter_.tombstone_run)));
  }
  rocksdb::TableBuilderOptions with_collectors(options);
  with_collectors.internal_tbl_prop_coll_factories = collectors.get();
  return NewBuilder(with_collectors, file);
}

// What a compaction writes where nothing older lies below has the tombstones that a snapshot keeps, and no others.
bool OrderedTableFactory::MarksTombstones(const rocksdb::TableBuilderOptions& options) const {
  const bool to_bottom = options.reason == rocksdb::TableFileCreationReason::kCompaction && options.is_bottommost;
  return filter_.tombstone_run != 0 && !to_bottom;
}

rocksdb::TableBuilder* OrderedTableFactory::NewBuilder(const rocksdb::TableBuilderOptions& options,
                                                       rocksdb::WritableFileWriter* file) const {
  const auto make = [this](const rocksdb::TableBuilderOptions& with_order, rocksdb::WritableFileWriter* to) {
    return BlockBasedTableFactory::NewTableBuilder(with_order, to);
  };
  if (filter_.order_bits == 0 || options.internal_comparator.user_comparator() != rocksdb::BytewiseComparator()) {
    return make(options, file);
  }
  const double extra = options.is_bottommost ? 0 : filter_.extra_order_bits;
  return NewOrderedTableBuilder(filter_.order_bits + extra, *GetOptions<rocksdb::BlockBasedTableOptions>(), options,
                                file, make);
}

rocksdb::TableFactory* NewOrderedTableFactory(const rocksdb::BlockBasedTableOptions& table,
                                              const OrderFilterOptions& filter) {
  return new OrderedTableFactory(table, filter);
}

}  // namespace cairn
