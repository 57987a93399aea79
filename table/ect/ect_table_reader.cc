#include "table/ect/ect_table_reader.h"

#include <algorithm>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "monitoring/statistics_impl.h"
#include "rocksdb/port/block_based.h"
#include "table/ect/ect_residency.h"
#include "table/perf_counts.h"
#include "util/async_read.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::DataBlockIter;
using rocksdb::FilePrefetchBuffer;
using rocksdb::GetContext;

// Not within their callers, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountAnswerInPerfContext(bool passes, uint32_t level) {
  if (perf_level < PerfLevel::kEnableCount) return;
  if (passes) {
    PERF_COUNTER_ADD(bloom_sst_hit_count, 1);
    PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_full_positive, 1, level);
  } else {
    PERF_COUNTER_ADD(bloom_sst_miss_count, 1);
    PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_useful, 1, level);
  }
}
__attribute__((noinline)) void CountTruePositiveInPerfContext(uint32_t level) {
  PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_full_true_positive, 1, level);
}

// As RocksDB counts a block that it reads itself.
__attribute__((noinline)) void CountBlockReadInPerfContext(uint64_t bytes) {
  PERF_COUNTER_ADD(block_read_count, 1);
  PERF_COUNTER_ADD(block_read_byte, bytes);
}

class EctTableReader final : public EctTableProbe {
 public:
  EctTableReader(std::unique_ptr<rocksdb::TableReader> reader, rocksdb::BlockBasedTable* table, const KeyHash& hash,
                 const EctTableOptions& options, uint64_t file_size, size_t load_bytes,
                 std::unique_ptr<EctBlockLayout> layout, std::unique_ptr<EctTableFilterInMemory> filter,
                 std::unique_ptr<EctTries> tries, std::shared_ptr<EctTableCounters> counters)
      : EctTableProbe(std::move(reader)),
        table_(table),
        layout_(std::move(layout)),
        filter_(std::move(filter)),
        residency_(options.index_residency, table, file_size, std::move(tries), AlwaysInMemory(), load_bytes, counters),
        hash_(hash),
        counters_(std::move(counters)) {
    counters_->layout_bytes.fetch_add(layout_->bytes(), std::memory_order_relaxed);
    counters_->filter_bytes.fetch_add(filter_->bytes(), std::memory_order_relaxed);
  }
  ~EctTableReader() override {
    counters_->layout_bytes.fetch_sub(layout_->bytes(), std::memory_order_relaxed);
    counters_->filter_bytes.fetch_sub(filter_->bytes(), std::memory_order_relaxed);
  }

  Status Get(const ReadOptions& read_options, const Slice& key, GetContext* get_context,
             const rocksdb::SliceTransform* /*prefix_extractor*/, bool skip_filters) override {
    const uint64_t hash = hash_(rocksdb::ExtractUserKey(key));
    if (!skip_filters && !PassesFilter(hash)) return Status::OK();
    bool matched = false;
    const Status status = Search({read_options}, key, hash, get_context, &matched);
    if (!skip_filters) CountFound(matched);
    return status;
  }

  bool MayHold(uint64_t hash) const override { return filter_->MayContain(hash); }
  CuckooFilter filter_of_store() const override { return filter_->cuckoo(); }
  void CountKeptFromLast() const override {
    if (filter_->is_cuckoo()) return;
    EctLookupCounts* const counts = counters_->lookups.Access();
    counts->last_lookups.fetch_add(1, std::memory_order_relaxed);
    counts->last_kept.fetch_add(1, std::memory_order_relaxed);
  }
  Status Find(const ReadOptions& read_options, const Slice& key, uint64_t hash, GetContext* get_context,
              FilePrefetchBuffer* started) const override {
    CountPassed();
    bool matched = false;
    const Status status = Search({read_options, started}, key, hash, get_context, &matched);
    CountFound(matched);
    return status;
  }

  void FindBatch(const ReadOptions& read_options, const std::vector<KeyOfBatch>& keys) const override {
    uint64_t missed = 0;
    for (const KeyOfBatch& asked : keys) {
      missed -= BlocksMissed(*asked.key);
      CountPassed();
    }
    const Cached<EctTries> tries = residency_.Acquire(read_options);
    if (tries) {
      SearchKeys(read_options, tries, keys, /*counts=*/true);
    } else {
      for (const auto& [key, hash, started] : keys) {
        bool matched = false;
        *key->s = Interpolate({read_options, started}, key->ikey, hash, key->get_context, &matched);
        CountFound(matched);
      }
    }
    for (const KeyOfBatch& asked : keys) missed += BlocksMissed(*asked.key);
    CountTableRead(missed, keys.front().key->get_context);
  }

  uint64_t BlockToStart(const ReadOptions& read_options, uint64_t hash) const override {
    const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
    if (read_options.read_tier != rocksdb::kReadAllTier ||
        !CanReadTogether(rep.ioptions.fs.get(), *rep.file, read_options)) {
      return kNoBlock;
    }
    const Cached<EctTries> tries = residency_.Acquire(read_options);
    const uint64_t guess = layout_->Guess(hash);
    const BlockRun run = tries ? tries->Find(hash) : BlockRun{guess, guess};
    if (run.first != run.last || run.first >= layout_->blocks()) return kNoBlock;
    rocksdb::Cache* const cache = rep.table_options.block_cache.get();
    if (cache == nullptr) return run.first;
    const rocksdb::CacheKey key = rocksdb::BlockBasedTable::GetCacheKey(rep.base_cache_key, HandleOf(run.first));
    rocksdb::Cache::Handle* const handle = cache->Lookup(key.AsSlice());
    if (handle != nullptr) cache->Release(handle);
    return handle == nullptr ? run.first : kNoBlock;
  }

  std::unique_ptr<FilePrefetchBuffer> StartRead(const ReadOptions& read_options, uint64_t block) const override {
    const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
    rocksdb::IOOptions io_options;
    if (!rep.file->PrepareIOOptions(read_options, io_options).ok()) return nullptr;
    rocksdb::ReadaheadParams params;
    params.num_buffers = 2;  // RocksDB reads asynchronously into more than one
    auto started = std::make_unique<FilePrefetchBuffer>(params, /*enable=*/true, /*track_min_offset=*/false,
                                                        rep.ioptions.fs.get(), rep.ioptions.clock);
    const rocksdb::BlockHandle handle = HandleOf(block);
    Slice ready;
    const Status s = started->PrefetchAsync(io_options, rep.file.get(), handle.offset(),
                                            rocksdb::BlockBasedTable::BlockSizeWithTrailer(handle), &ready);
    if (!s.IsTryAgain()) return nullptr;
    CountBlockReadInPerfContext(handle.size());
    return started;
  }

  void AwaitRead(const ReadOptions& read_options, uint64_t block, FilePrefetchBuffer* started) const override {
    const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
    rocksdb::IOOptions io_options;
    rep.file->PrepareIOOptions(read_options, io_options).PermitUncheckedError();
    const rocksdb::BlockHandle handle = HandleOf(block);
    Slice bytes;
    Status failed;  // then the lookup reads the block itself
    started->TryReadFromCache(io_options, rep.file.get(), handle.offset(),
                              rocksdb::BlockBasedTable::BlockSizeWithTrailer(handle), &bytes, &failed);
    failed.PermitUncheckedError();
  }

  void MultiGet(const ReadOptions& read_options, const rocksdb::MultiGetContext::Range* range,
                const rocksdb::SliceTransform* prefix_extractor, bool skip_filters) override {
    const uint64_t before = BlocksMissed(*range);
    SearchBatch(read_options, range, prefix_extractor, skip_filters);
    CountTableRead(BlocksMissed(*range) - before, range->begin()->get_context);
  }

  // RocksDB's index, which an iterator needs, is looked for in the block cache. Where a strict limit leaves no room for
  // it, the iterator has it alone. RocksDB makes one of each table that it has written, and with paranoid_file_checks
  // reads all of it: if that failed, it would stop. So that one keeps away from such a cache.
  rocksdb::InternalIterator* NewIterator(const ReadOptions& read_options,
                                         const rocksdb::SliceTransform* prefix_extractor, rocksdb::Arena* arena,
                                         bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t compaction_readahead_size, bool allow_unprepared_value) override {
    const auto with = [&](const ReadOptions& options) {
      return inner()->NewIterator(options, prefix_extractor, arena, skip_filters, caller, compaction_readahead_size,
                                  allow_unprepared_value);
    };
    const std::shared_ptr<rocksdb::Cache>& cache = table_->get_rep()->table_options.block_cache;
    const bool checks_a_new_table = caller != rocksdb::TableReaderCaller::kUserIterator && read_options.fill_cache;
    if (!checks_a_new_table || cache == nullptr || !cache->HasStrictCapacityLimit()) {
      rocksdb::InternalIterator* const iterator = with(read_options);
      if (!read_options.fill_cache || !iterator->status().IsMemoryLimit()) return iterator;
      if (arena == nullptr) {
        delete iterator;
      } else {
        iterator->~InternalIteratorBase();
      }
    }
    // The iterator refers to its options as long as it lives.
    auto past_cache = std::make_unique<ReadOptions>(PastCache(read_options));
    rocksdb::InternalIterator* const again = with(*past_cache);
    again->RegisterCleanup([](void* options, void*) { delete static_cast<ReadOptions*>(options); },
                           past_cache.release(), nullptr);
    return again;
  }

  size_t ApproximateMemoryUsage() const override {
    return inner()->ApproximateMemoryUsage() + layout_->bytes() + filter_->bytes() + residency_.bytes();
  }

 private:
  // Whether a value that is found may keep its block in memory, or must be copied because others use the block, too.
  enum class Found { kPinsBlock, kIsCopied };

  // How blocks are read: what StartRead has made may hold the first.
  struct Reads {
    const ReadOptions& options;
    FilePrefetchBuffer* started = nullptr;
  };

  // A block that several keys of a MultiGet look into.
  struct SharedBlock {
    std::unique_ptr<DataBlockIter> entries;
    uint64_t block = 0;
    bool Holds(uint64_t wanted) const { return entries != nullptr && block == wanted; }
  };

  // As RocksDB counts tables that a batch reads blocks of: with one of its keys.
  static void CountTableRead(uint64_t blocks_missed, GetContext* get_context) {
    if (blocks_missed != 0) ++get_context->get_context_stats_.num_sst_read;
  }

  // Of the key's data blocks, those that were not in the block cache so far.
  static uint64_t BlocksMissed(const rocksdb::KeyContext& key) {
    return key.get_context->get_context_stats_.num_cache_data_miss;
  }
  static uint64_t BlocksMissed(const rocksdb::MultiGetContext::Range& range) {
    uint64_t missed = 0;
    for (auto key = range.begin(); key != range.end(); ++key) missed += BlocksMissed(*key);
    return missed;
  }

  void SearchBatch(const ReadOptions& read_options, const rocksdb::MultiGetContext::Range* range,
                   const rocksdb::SliceTransform* prefix_extractor, bool skip_filters) {
    const Cached<EctTries> tries = residency_.Acquire(read_options);
    if (!tries) return rocksdb::TableReader::MultiGet(read_options, range, prefix_extractor, skip_filters);
    std::vector<KeyOfBatch> keys;
    for (auto key = range->begin(); key != range->end(); ++key) {
      const uint64_t hash = hash_(rocksdb::ExtractUserKey(key->ikey));
      if (skip_filters || PassesFilter(hash)) {
        keys.push_back({&*key, hash, nullptr});
      } else {
        *key->s = Status::OK();
      }
    }
    SearchKeys(read_options, tries, keys, !skip_filters);
  }

  // Asks the index for all keys at once, so that its cache misses overlap, and reads a block once for all keys that
  // follow each other in it.
  void SearchKeys(const ReadOptions& read_options, const Cached<EctTries>& tries, const std::vector<KeyOfBatch>& keys,
                  bool counts) const {
    std::vector<uint64_t> hashes;
    for (const KeyOfBatch& asked : keys) hashes.push_back(asked.hash);
    std::vector<BlockRun> runs;
    tries->FindBatch(hashes, &runs);
    SharedBlock shared;
    for (size_t i = 0; i < keys.size(); ++i) {
      const rocksdb::KeyContext& key = *keys[i].key;
      const Reads how{read_options, keys[i].started};
      bool matched = false;
      const bool only = runs[i].first == runs[i].last;
      const bool next_wants_it = only && i + 1 < keys.size() && runs[i + 1].first == runs[i].first;
      if (only && (next_wants_it || shared.Holds(runs[i].first))) {
        *key.s = SearchShared(how, runs[i].first, key, &shared, &matched);
      } else {
        *key.s = SearchRun(how, runs[i], key.ikey, key.get_context, &matched);
      }
      if (counts) CountFound(matched);
    }
  }

  // RocksDB's reader counts only where it is charged: then with its properties, which held the index, so it is charged
  // anew.
  size_t AlwaysInMemory() const {
    auto& charged = table_->get_rep()->table_reader_cache_res_handle;
    const size_t of_rocksdb = charged == nullptr ? 0 : inner()->ApproximateMemoryUsage();
    charged.reset();
    return of_rocksdb + layout_->bytes() + filter_->bytes();
  }

  Status Search(const Reads& how, const Slice& key, uint64_t hash, GetContext* get_context, bool* matched) const {
    const Cached<EctTries> tries = residency_.Acquire(how.options);
    return tries ? SearchRun(how, tries->Find(hash), key, get_context, matched)
                 : Interpolate(how, key, hash, get_context, matched);
  }

  // Of a lookup that the filter lets pass.
  void CountPassed() const {
    if (!filter_->is_cuckoo()) counters_->lookups.Access()->last_lookups.fetch_add(1, std::memory_order_relaxed);
    if (filter_->exists()) CountAnswer(/*passes=*/true);
  }

  bool PassesFilter(uint64_t hash) const {
    if (MayHold(hash)) {
      CountPassed();
      return true;
    }
    CountKeptFromLast();
    CountAnswer(/*passes=*/false);
    return false;
  }
  // Of the filter, as RocksDB's reader counts its own.
  void CountAnswer(bool passes) const {
    RecordTick(table_->GetStatistics(), passes ? rocksdb::BLOOM_FILTER_FULL_POSITIVE : rocksdb::BLOOM_FILTER_USEFUL);
    CountAnswerInPerfContext(passes, Level());
  }
  uint32_t Level() const { return static_cast<uint32_t>(std::max(0, table_->get_rep()->level)); }
  // Whether a table that was not kept from reading has entries of the key.
  void CountFound(bool found) const {
    EctLookupCounts* const counts = counters_->lookups.Access();
    if (!found && !filter_->is_cuckoo()) counts->last_misses.fetch_add(1, std::memory_order_relaxed);
    if (found && filter_->is_cuckoo()) counts->filtered_hits.fetch_add(1, std::memory_order_relaxed);
    if (!found || !filter_->exists()) return;
    RecordTick(table_->GetStatistics(), rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
    CountTruePositiveInPerfContext(Level());
  }

  Status Corrupt(const char* what) const {
    return Status::Corruption(std::string("cairn.EctTable: ") + what, table_->get_rep()->file->file_name());
  }

  rocksdb::BlockHandle HandleOf(uint64_t block) const {
    uint64_t offset, size;
    layout_->Locate(block, &offset, &size);
    return {offset, size};
  }

  Status OpenBlock(const Reads& how, uint64_t block, GetContext* get_context, DataBlockIter* entries) const {
    const ReadOptions& read_options = how.options;
    counters_->lookups.Access()->blocks.fetch_add(1, std::memory_order_relaxed);
    rocksdb::BlockCacheLookupContext lookup_context(
        rocksdb::TableReaderCaller::kUserGet, get_context->get_tracing_get_id(), read_options.snapshot != nullptr);
    const auto read = [&](const ReadOptions& with) {
      // It is not OK as well where the block was read and has no room in the cache, which the iterator does not need.
      Status of_cache;
      table_->NewDataBlockIterator<DataBlockIter>(with, HandleOf(block), entries, rocksdb::BlockType::kData,
                                                  get_context, &lookup_context, how.started, false, false, of_cache,
                                                  true);
      of_cache.PermitUncheckedError();
      return entries->status();
    };
    Status status = read(read_options);
    if (status.IsCorruption() && how.started != nullptr) {  // as StartRead's block arrived
      entries->Invalidate(Status::OK());
      return OpenBlock({read_options}, block, get_context, entries);
    }
    if (status.IsMemoryLimit() && read_options.fill_cache) {
      entries->Invalidate(Status::OK());
      status = read(PastCache(read_options));
    }
    if (status.IsIncomplete() && read_options.read_tier == rocksdb::kBlockCacheTier) {
      // Without I/O nobody can say that the key is absent.
      get_context->MarkKeyMayExist();
    }
    return status;
  }

  // Hands the block's entries of the key from the iterator's position on to get_context. *done: it wants no more, or
  // the key's entries end before the block does.
  static Status Feed(DataBlockIter* entries, GetContext* get_context, Found found, bool* matched, bool* done) {
    for (; entries->Valid(); entries->Next()) {
      rocksdb::ParsedInternalKey parsed;
      const Status status = rocksdb::ParseInternalKey(entries->key(), &parsed, false);
      if (!status.ok()) return status;
      Status merge_status;
      const bool pins = found == Found::kPinsBlock && entries->IsValuePinned();
      const bool more =
          get_context->SaveValue(parsed, entries->value(), matched, &merge_status, pins ? entries : nullptr);
      if (!merge_status.ok()) return merge_status;
      if (!more) {
        *done = true;
        return Status::OK();
      }
    }
    return entries->status();
  }

  Status SearchRun(const Reads& how, const BlockRun& run, const Slice& key, GetContext* get_context,
                   bool* matched) const {
    // Index and layout come from one property, but are checked one by one.
    if (run.first <= run.last && run.last >= layout_->blocks()) {
      return Corrupt("the index names a block that the file does not have");
    }
    uint64_t first = run.first;
    const Status skipped = SkipBlocks(how, run.last, key, get_context, &first);
    if (!skipped.ok()) return skipped;
    bool done = false;
    for (uint64_t block = first; block <= run.last && !done; ++block) {
      DataBlockIter entries;
      Status status = OpenBlock(how, block, get_context, &entries);
      if (!status.ok()) return status;
      entries.Seek(key);
      status = Feed(&entries, get_context, Found::kPinsBlock, matched, &done);
      if (!status.ok()) return status;
    }
    return Status::OK();
  }

  // Moves *first on to the first of the blocks up to `last` that does not end before the key. Keys of one hash may fill
  // many blocks; of few, reading one after the other takes no longer.
  Status SkipBlocks(const Reads& how, uint64_t last, const Slice& key, GetContext* get_context, uint64_t* first) const {
    constexpr uint64_t kFew = 2;
    uint64_t end = last;
    while (*first + kFew <= end) {
      const uint64_t middle = *first + (end - *first) / 2;
      DataBlockIter entries;
      Status status = OpenBlock(how, middle, get_context, &entries);
      if (!status.ok()) return status;
      entries.Seek(key);
      status = entries.status();
      if (!status.ok()) return status;
      if (entries.Valid()) {
        end = middle;
      } else {
        *first = middle + 1;
      }
    }
    return Status::OK();
  }

  Status SearchShared(const Reads& how, uint64_t block, const rocksdb::KeyContext& key, SharedBlock* shared,
                      bool* matched) const {
    if (block >= layout_->blocks()) return SearchRun(how, {block, block}, key.ikey, key.get_context, matched);
    if (!shared->Holds(block)) {
      auto entries = std::make_unique<DataBlockIter>();
      const Status status = OpenBlock(how, block, key.get_context, entries.get());
      if (!status.ok()) return status;
      shared->entries = std::move(entries);
      shared->block = block;
    }
    bool done = false;
    shared->entries->Seek(key.ikey);
    return Feed(shared->entries.get(), key.get_context, Found::kIsCopied, matched, &done);
  }

  // The same without the index: looks for the first block that does not end before the key, starting where the hash
  // says that it should be. Blocks are in hash order and hashes uniform, so the guess is seldom off by more than one.
  Status Interpolate(const Reads& how, const Slice& key, uint64_t hash, GetContext* get_context, bool* matched) const {
    const Slice user_key = rocksdb::ExtractUserKey(key);
    // Blocks before `low` end before the key, block `high` (if there is one) does not: the block is one of low ...
    // high. If it is `high`, that has entries of the key only if `continued`.
    uint64_t low = 0, high = layout_->blocks(), block = layout_->Guess(hash), reads = 0;
    bool continued = false, done = false;
    Status status;
    while (low < high && !done) {
      // Hashes that are not uniform, because somebody chose them so, cost no more than halving.
      constexpr uint64_t kGuesses = 8;
      if (reads >= kGuesses) block = low + (high - low) / 2;
      DataBlockIter entries;
      status = OpenBlock(how, block, get_context, &entries);
      ++reads;
      if (!status.ok()) break;
      entries.Seek(key);
      if (!entries.Valid()) {
        entries.SeekToLast();
        if (!entries.Valid()) {
          status = entries.status();
          if (status.ok()) status = Corrupt("a data block is empty");
          break;
        }
        const uint64_t last = hash_(rocksdb::ExtractUserKey(entries.key()));
        low = block + 1;
        block = std::min(high - 1, block + layout_->BlocksWithin(hash - std::min(hash, last)));
        continue;
      }
      const bool same_key = rocksdb::ExtractUserKey(entries.key()) == user_key;
      uint64_t first = 0;
      if (block > low && !(same_key && layout_->keys_in_one_block()) && IsFirst(&entries, key, &first)) {
        high = block;
        continued = same_key;
        block = high - std::min(high - low, layout_->BlocksWithin(first - std::min(first, hash)));
        continue;
      }
      status = Feed(&entries, get_context, Found::kPinsBlock, matched, &done);
      if (!status.ok() || done || layout_->keys_in_one_block()) {
        done = true;
        break;
      }
      // The key's entries run to the end of the block, and may go on.
      low = high = block + 1;
      continued = low < layout_->blocks();
    }
    for (block = high; status.ok() && !done && continued && block < layout_->blocks(); ++block) {
      DataBlockIter entries;
      status = OpenBlock(how, block, get_context, &entries);
      ++reads;
      if (!status.ok()) break;
      entries.Seek(key);
      status = Feed(&entries, get_context, Found::kPinsBlock, matched, &done);
    }
    counters_->searches.fetch_add(1, std::memory_order_relaxed);
    counters_->search_blocks.fetch_add(reads, std::memory_order_relaxed);
    if (reads > 1) residency_.AddExcess(reads - 1);
    return status;
  }

  // Whether the entry that the iterator stands on after Seek(key) is the block's first one; *first is then its hash.
  // The iterator stands there again.
  bool IsFirst(DataBlockIter* entries, const Slice& key, uint64_t* first) const {
    const std::string here = entries->key().ToString();
    entries->SeekToFirst();
    const bool is_first = entries->Valid() && entries->key() == Slice(here);
    if (is_first) *first = hash_(rocksdb::ExtractUserKey(here));
    entries->Seek(key);
    return is_first;
  }

  rocksdb::BlockBasedTable* const table_;  // inner() itself
  const std::unique_ptr<EctBlockLayout> layout_;
  const std::unique_ptr<EctTableFilterInMemory> filter_;
  mutable EctResidency residency_;  // lookups by any number of threads
  const KeyHash hash_;
  const std::shared_ptr<EctTableCounters> counters_;
};

}  // namespace

ReadOptions PastCache(const ReadOptions& read_options) {
  ReadOptions past_cache = read_options;
  past_cache.fill_cache = false;
  return past_cache;
}

// Readers are all made by this library, so their one type_info tells.
const EctTableProbe* EctTableProbe::Of(const rocksdb::TableReader* reader) {
  if (reader == nullptr || typeid(*reader) != typeid(EctTableReader)) return nullptr;
  return static_cast<const EctTableReader*>(reader);
}

Status OpenEctTableReader(const EctTableOptions& options, const KeyHash& hash, uint64_t file_size,
                          const std::shared_ptr<EctTableCounters>& counters, rocksdb::BlockBasedTable* table,
                          std::unique_ptr<rocksdb::TableReader>* reader) {
  const rocksdb::TableProperties& properties = *table->get_rep()->table_properties;
  std::unique_ptr<EctBlockLayout> layout;
  std::unique_ptr<EctTableFilterInMemory> filter;
  std::unique_ptr<EctTries> tries;
  Status status = OpenEctBlockLayout(properties, &layout);
  if (status.ok()) status = EctTableFilterInMemory::Open(properties, &filter);
  if (status.ok()) status = EctTries::Open(properties, counters, &tries);
  if (!status.ok()) return status;
  if (tries->blocks() != layout->blocks()) {
    return Status::Corruption("property cairn.ect: the index is of another number of blocks than the offsets",
                              "compact the file to write it anew");
  }
  size_t load_bytes = 0;
  for (const auto& [name, value] : properties.user_collected_properties) load_bytes += value.size();
  // An allocation of its own: RocksDB asks the allocator for its size.
  std::unique_ptr<rocksdb::TableProperties> without_bytes(new rocksdb::TableProperties(properties));
  DropEctTableBytes(without_bytes.get());
  table->get_rep()->table_properties = std::move(without_bytes);
  *reader = std::make_unique<EctTableReader>(std::move(*reader), table, hash, options, file_size, load_bytes,
                                             std::move(layout), std::move(filter), std::move(tries), counters);
  return status;
}

}  // namespace cairn
