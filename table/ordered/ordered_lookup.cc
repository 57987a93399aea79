#include "table/ordered/ordered_lookup.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/comparator.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/ordered/block_reads.h"
#include "table/perf_counts.h"
#include "util/autovector.h"
#include "util/bits.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::FdWithKeyRange;
using rocksdb::LevelFilesBrief;
using rocksdb::MultiGetContext;
using rocksdb::Version;

namespace {

// A store that has more lacks compaction.
constexpr size_t kMostTables = 128;

Slice SmallestOf(const FdWithKeyRange& file) { return rocksdb::ExtractUserKey(file.smallest_key); }
Slice LargestOf(const FdWithKeyRange& file) { return rocksdb::ExtractUserKey(file.largest_key); }

const OrderedTableProbe* ReaderOf(const FdWithKeyRange& file) {
  const OrderedTableProbe* const reader = OrderedTableProbe::Of(port::PinnedReaderOf(file.fd));
  return reader != nullptr && reader->has_entries_only() ? reader : nullptr;
}

// The first of [begin, end) that is at least `window`, without branches that nobody can foresee.
size_t LowerBound(const uint64_t* windows, size_t begin, size_t end, uint64_t window) {
  if (begin == end) return end;
  const uint64_t* at = windows + begin;
  for (size_t left = end - begin; left > 1; left -= left / 2) at += at[left / 2 - 1] < window ? left / 2 : 0;
  return static_cast<size_t>(at - windows) + (*at < window ? 1 : 0);
}

const rocksdb::SliceTransform* PrefixesOf(Version* version) {
  return version->GetMutableCFOptions().prefix_extractor.get();
}

}  // namespace

std::unique_ptr<const OrderedTables> OrderedTables::Make(Version* version) {
  const rocksdb::ImmutableOptions& options = port::ImmutableOptionsOf(*version->cfd());
  // A row cache stands before each table; filters of the last level may not have to be asked.
  if (options.row_cache != nullptr || options.optimize_filters_for_hits ||
      version->cfd()->user_comparator() != rocksdb::BytewiseComparator()) {
    return nullptr;
  }
  std::unique_ptr<OrderedTables> made(new OrderedTables(version));
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  for (int level = 0; level < storage.num_non_empty_levels(); ++level) {
    if (storage.LevelFilesBrief(level).num_files > 0) made->AddLevel(storage.LevelFilesBrief(level), level);
  }
  if (made->tables_.empty()) return nullptr;
  const rocksdb::TableReader* const first = port::PinnedReaderOf(made->tables_[0].file->fd);
  if (first != nullptr && OrderedTableProbe::Of(first) == nullptr) return nullptr;
  made->DescribeKeys();
  return made;
}

void OrderedTables::AddLevel(const LevelFilesBrief& files, int level) {
  const size_t begin = tables_.size();
  for (size_t i = 0; i < files.num_files; ++i) {
    const FdWithKeyRange& file = files.files[i];
    const OrderedTableProbe* const reader = ReaderOf(file);
    tables_.push_back({reader, &file, reader != nullptr ? reader->bloom() : BloomLines(), level});
  }
  levels_.push_back({begin, tables_.size(), level == 0});
}

void OrderedTables::DescribeKeys() {
  Slice least = SmallestOf(*tables_[0].file), most = LargestOf(*tables_[0].file);
  for (const Table& table : tables_) {
    least = std::min(least, SmallestOf(*table.file), [](const Slice& a, const Slice& b) { return a.compare(b) < 0; });
    most = std::max(most, LargestOf(*table.file), [](const Slice& a, const Slice& b) { return a.compare(b) < 0; });
  }
  beginning_ = Slice(least.data(), least.difference_offset(most)).ToString();
  for (const Table& table : tables_) {
    smallest_.push_back(WindowOf(SmallestOf(*table.file)));
    largest_.push_back(WindowOf(LargestOf(*table.file)));
  }
}

uint64_t OrderedTables::WindowOf(const Slice& user_key) const {
  uint64_t window = 0;
  memcpy(&window, user_key.data() + beginning_.size(), std::min(sizeof(window), user_key.size() - beginning_.size()));
  return __builtin_bswap64(window);
}

int OrderedTables::CompareSmallest(uint64_t window, const Slice& user_key, size_t table) const {
  if (window != smallest_[table]) return window < smallest_[table] ? -1 : 1;
  return user_key.compare(SmallestOf(*tables_[table].file));
}

int OrderedTables::CompareLargest(uint64_t window, const Slice& user_key, size_t table) const {
  if (window != largest_[table]) return window < largest_[table] ? -1 : 1;
  return user_key.compare(LargestOf(*tables_[table].file));
}

size_t OrderedTables::FirstAt(const Level& level, uint64_t window, const Slice& user_key) const {
  size_t at = LowerBound(largest_.data(), level.begin, level.end, window);
  if (at == level.end || largest_[at] != window) return at;
  // Tables whose largest keys have the same window.
  size_t end = window == ~uint64_t{0} ? level.end : LowerBound(largest_.data(), at, level.end, window + 1);
  while (at < end) {
    const size_t middle = (at + end) / 2;
    if (user_key.compare(LargestOf(*tables_[middle].file)) > 0) {
      at = middle + 1;
    } else {
      end = middle;
    }
  }
  return at;
}

// A table that a lookup asks.
struct OrderedTables::Asked {
  const Table* table;
  const OrderedTableProbe* reader;
  const char* line;  // of its Bloom filter; null: it has none that is asked here

  uint64_t age() const { return reinterpret_cast<uintptr_t>(table); }  // lower is newer, by (2)
};

// Those that the key may be in by their smallest and largest keys, newest first.
class OrderedTables::Found {
 public:
  Found(const OrderedTables& all, const Slice& user_key) : all_(all), user_key_(user_key) {}

  // False: a table that only RocksDB can ask, by (1), or traces.
  bool Find() {
    if (!user_key_.starts_with(all_.beginning_)) return true;
    hash_ = BloomLines::HashOf(user_key_);
    const uint64_t window = all_.WindowOf(user_key_);
    for (const Level& level : all_.levels_) {
      if (!(level.overlaps ? AddEach(level, window) : AddOf(level, window))) return false;
    }
    return count_ == 0 || !asked_[0].reader->IsTraced();
  }

  // As RocksDB's own way does for each table that it asks: from the newest one to `last`, which has the key if it was
  // found. Null: all of them.
  void Sample(const rocksdb::FileMetaData* last, bool found) const;

  size_t count() const { return count_; }
  const Asked& operator[](size_t i) const { return asked_[i]; }

  // Whether its Bloom filter lets the key pass, if it is asked here.
  bool PassesBloom(const Asked& asked) const {
    return asked.line == nullptr || asked.table->bloom.MayHold(hash_, asked.line);
  }

 private:
  bool AddEach(const Level& level, uint64_t window) {
    for (size_t at = level.begin; at < level.end; ++at) {
      if (all_.CompareSmallest(window, user_key_, at) < 0 || all_.CompareLargest(window, user_key_, at) > 0) continue;
      if (!Add(at)) return false;
    }
    return true;
  }

  bool AddOf(const Level& level, uint64_t window) {
    size_t at = all_.FirstAt(level, window, user_key_);
    for (; at < level.end && all_.CompareSmallest(window, user_key_, at) >= 0; ++at) {
      if (!Add(at)) return false;
      // Versions and merge operands of a key may go on in the next table.
      if (all_.CompareLargest(window, user_key_, at) != 0) return true;
    }
    return true;
  }

  bool Add(size_t at) {
    const Table& table = all_.tables_[at];
    // A reader may have come since.
    const OrderedTableProbe* const reader = table.reader != nullptr ? table.reader : ReaderOf(*table.file);
    if (reader == nullptr || count_ == kMostTables) return false;
    const char* line = nullptr;
    if (table.bloom.exist()) {
      line = table.bloom.LineOf(hash_);
      table.bloom.Prefetch(line);
    }
    asked_[count_++] = {&table, reader, line};
    return true;
  }

  const OrderedTables& all_;
  const Slice user_key_;
  uint64_t hash_ = 0;
  size_t count_ = 0;
  std::array<Asked, kMostTables> asked_;  // not cleared
};

void OrderedTables::Found::Sample(const rocksdb::FileMetaData* last, bool found) const {
  for (size_t i = 0; i < count_; ++i) {
    rocksdb::FileMetaData* const file = asked_[i].table->file->file_metadata;
    port::SampleRead(file, file == last && found ? port::ReadFound::kValue : port::ReadFound::kNoValue);
    if (file == last) return;
  }
}

// Asks the filters of the tables, and counts what they answer as RocksDB's reader does.
class OrderedTables::Filters {
 public:
  Filters(const rocksdb::ReadOptions& options, rocksdb::Statistics* statistics)
      : options_(options), statistics_(statistics) {}
  ~Filters() {
    if (kept_ != 0) RecordTick(statistics_, rocksdb::BLOOM_FILTER_USEFUL, kept_);
    if (kept_by_bloom_ != 0) PERF_COUNTER_ADD(bloom_sst_miss_count, kept_by_bloom_);
  }
  Filters(const Filters&) = delete;
  Filters& operator=(const Filters&) = delete;

  // Tables whose Bloom filters did not let a key pass.
  void CountKept(size_t tables) {
    kept_ += tables;
    kept_by_bloom_ += tables;
  }
  // Of a key that a table's Bloom filter lets pass, if it was asked: what the others say.
  bool LetPass(const Asked& table, const rocksdb::LookupKey& key) {
    if (table.line != nullptr) {
      PERF_COUNTER_ADD(bloom_sst_hit_count, 1);
    } else if (!table.reader->PointFilterSaysMaybe(options_, key.internal_key())) {
      ++kept_;
      return false;
    }
    const bool maybe = IsBloomEnough(table) || table.reader->OrderSaysMaybe(options_, key.user_key());
    kept_ += maybe ? 0 : 1;
    return maybe;
  }
  // The same for keys of a batch; leaves those out that do not pass.
  void LetPass(const Asked& table, MultiGetContext::Range* keys) {
    const uint64_t before = keys->KeysLeft();
    if (table.line != nullptr) {
      PERF_COUNTER_ADD(bloom_sst_hit_count, before);
    } else {
      table.reader->AskPointFilter(options_, keys);
    }
    if (!IsBloomEnough(table)) table.reader->AskOrder(options_, keys);
    kept_ += before - keys->KeysLeft();
  }

 private:
  // Where blocks are mapped, to look for a key in vain once in a hundred times costs less than to ask the order filter.
  static bool IsBloomEnough(const Asked& table) { return table.line != nullptr && table.reader->has_mapped_blocks(); }

  const rocksdb::ReadOptions& options_;
  rocksdb::Statistics* const statistics_;
  uint64_t kept_ = 0, kept_by_bloom_ = 0;
};

bool OrderedTables::Get(Version* version, const VersionRequest& request) const {
  Found tables(*this, request.key.user_key());
  if (!tables.Find() || tables.count() == 0) return false;
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  const rocksdb::FileMetaData* found_in = nullptr;
  {
    Filters filters(request.options, port::ImmutableOptionsOf(*version->cfd()).stats);
    size_t kept = 0;
    for (size_t i = 0; i < tables.count() && found_in == nullptr; ++i) {
      const Asked& asked = tables[i];
      if (!tables.PassesBloom(asked)) {
        ++kept;
        continue;
      }
      if (!filters.LetPass(asked, request.key)) continue;
      if (!lookup.has_value()) lookup.emplace(version, request);
      const Status s =
          asked.reader->Find(request.options, request.key.internal_key(), lookup->context(), PrefixesOf(version));
      if (lookup->Take(s, asked.table->level) == VersionLookup::Next::kNothing) {
        found_in = asked.table->file->file_metadata;
      }
    }
    filters.CountKept(kept);
  }
  if (lookup.has_value() ? lookup->sampled() : rocksdb::should_sample_file_read()) {
    tables.Sample(found_in, request.status->ok());
  }
  if (found_in == nullptr) FinishLookup(version, request, &lookup);
  return true;
}

// A batch's keys, and for each the tables whose Bloom filters let it pass.
class OrderedTables::Batch {
 public:
  Batch(const OrderedTables& all, Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range)
      : all_(all),
        version_(version),
        range_(range),
        filters_(options, port::ImmutableOptionsOf(*version->cfd()).stats) {}

  // False: a key that only RocksDB can look up, or none that any table may have.
  bool Find() {
    bool any = false;
    for (auto key = range_->begin(); key != range_->end(); ++key) {
      Found tables(all_, key->lkey->user_key());
      if (!tables.Find()) return false;
      any |= tables.count() > 0;
      Way& way = ways_[key.index()];
      way.next = passing_.size();
      size_t kept = 0;
      for (size_t i = 0; i < tables.count(); ++i) {
        if (tables.PassesBloom(tables[i])) {
          passing_.push_back({tables[i], kept});
          kept = 0;
        } else {
          ++kept;
        }
      }
      way.end = passing_.size();
      way.kept_behind = kept;
      pending_ |= uint64_t{1} << key.index();
    }
    return any;
  }

  void LookUp(const rocksdb::ReadOptions& options, rocksdb::ReadCallback* callback) {
    VersionBatch batch(version_, options, range_, callback);
    CountAndEnd(pending_);
    while (pending_ != 0 && !batch.IsOverLimit()) {
      // The newest table first, so that all keys that want it ask it and its filters together: each filter that lies
      // in the block cache is looked up there once. Reads that can be under way together wait for all keys' filters.
      const bool together = CanReadTogether(options);
      do {
        AskFilters(batch, NewestOf(pending_ & ~passed_));
      } while (together && (pending_ & ~passed_) != 0);
      if (together) ReadFirstBlocks(options);
      while (passed_ != 0 && !batch.IsOverLimit()) AskTable(batch, options, NewestOf(passed_));
    }
    for (; ended_ != 0 && !batch.IsOverLimit(); ended_ &= ended_ - 1) {
      const size_t place = LowestBit(ended_);
      Sample(batch, place, nullptr);
      batch.Finish(place);
    }
    batch.Abort(pending_ | ended_);
  }

 private:
  struct Passing {
    Asked table;
    size_t kept;  // tables between it and the one before whose Bloom filters did not let the key pass
  };
  struct Way {
    size_t next, end;  // of passing_
    size_t kept_behind;
  };

  const Asked& NextOf(size_t place) const { return passing_[ways_[place].next].table; }

  // Those of the keys whose next table is the newest of all that they have next.
  uint64_t NewestOf(uint64_t keys) const {
    uint64_t newest = ~uint64_t{0}, places = 0;
    ForEachBit(keys, [&](size_t place) { newest = std::min(newest, NextOf(place).age()); });
    ForEachBit(keys, [&](size_t place) { places |= NextOf(place).age() == newest ? uint64_t{1} << place : 0; });
    return places;
  }

  MultiGetContext::Range RangeOf(uint64_t places) const {
    MultiGetContext::Range keys(*range_, range_->begin(), range_->end());
    for (auto key = range_->begin(); key != range_->end(); ++key) {
      if ((places >> key.index() & 1) == 0) keys.SkipIndex(key.index());
    }
    return keys;
  }

  // The filters of the keys' next table. Keys that they do not let pass go on.
  void AskFilters(VersionBatch& batch, uint64_t places) {
    const Asked next = NextOf(LowestBit(places));
    batch.BeginTable(next.table->level, places);
    MultiGetContext::Range asked = RangeOf(places);
    filters_.LetPass(next, &asked);
    uint64_t passed = 0;
    for (auto key = asked.begin(); key != asked.end(); ++key) passed |= uint64_t{1} << key.index();
    passed_ |= passed;
    GoOn(places & ~passed);
  }

  // Whether the newest of the keys' next tables, and so all others, are read so.
  bool CanReadTogether(const rocksdb::ReadOptions& options) const {
    return (pending_ & (pending_ - 1)) != 0 &&
           BlockReads::Serves(NextOf(LowestBit(pending_)).reader->blocks(), options);
  }

  // For keys whose filters have let them pass.
  void ReadFirstBlocks(const rocksdb::ReadOptions& options) {
    BlockReads reads(&options);
    for (auto key = range_->begin(); key != range_->end(); ++key) {
      if ((passed_ >> key.index() & 1) == 0) continue;
      const BlockSource& blocks = NextOf(key.index()).reader->blocks();
      if (BlockReads::Serves(blocks, options)) reads.Begin(blocks, key->ikey, key->get_context);
    }
    reads.Finish();
  }

  // The next table of keys that its filters have let pass. Those that are not done go on.
  void AskTable(VersionBatch& batch, const rocksdb::ReadOptions& options, uint64_t places) {
    const Asked next = NextOf(LowestBit(places));
    const MultiGetContext::Range asked = RangeOf(places);
    const uint64_t older =
        batch.AskBy(next.table->level, places, [&] { next.reader->FindBatch(options, asked, PrefixesOf(version_)); });
    const uint64_t done = places & ~older;
    ForEachBit(done, [&](size_t place) { Sample(batch, place, next.table->file->file_metadata); });
    pending_ &= ~done;
    passed_ &= ~places;
    GoOn(places & ~done);
  }

  // Behind the table that these keys have asked.
  void GoOn(uint64_t places) {
    ForEachBit(places, [&](size_t place) { ++ways_[place].next; });
    CountAndEnd(places);
  }

  // Counts the tables up to each key's next one; keys that have none have ended.
  void CountAndEnd(uint64_t places) {
    ForEachBit(places, [&](size_t place) {
      const Way& way = ways_[place];
      const bool ends = way.next == way.end;
      filters_.CountKept(ends ? way.kept_behind : passing_[way.next].kept);
      if (ends) ended_ |= uint64_t{1} << place;
    });
    pending_ &= ~ended_;
  }

  void Sample(const VersionBatch& batch, size_t place, const rocksdb::FileMetaData* last) {
    if (!batch.IsSampled(place)) return;
    Found tables(all_, batch.KeyAt(place)->lkey->user_key());
    if (tables.Find()) tables.Sample(last, batch.KeyAt(place)->s->ok());
  }

  const OrderedTables& all_;
  Version* const version_;
  MultiGetContext::Range* const range_;
  Filters filters_;
  rocksdb::autovector<Passing, 48> passing_;
  std::array<Way, MultiGetContext::MAX_BATCH_SIZE> ways_;  // by place, those of the range
  uint64_t pending_ = 0;
  uint64_t passed_ = 0;  // of these: their next table's filters have let them pass
  uint64_t ended_ = 0;   // no further table may hold them; they are finished behind all others, as in RocksDB
};

bool OrderedTables::MultiGet(Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range,
                             rocksdb::ReadCallback* callback) const {
  Batch batch(*this, version, options, range);
  if (!batch.Find()) return false;
  batch.LookUp(options, callback);
  return true;
}

bool OrderedLookups::Get(Version* version, const VersionRequest& request) {
  return With(version, [&](const OrderedTables& tables) { return tables.Get(version, request); });
}

bool OrderedLookups::MultiGet(Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range,
                              rocksdb::ReadCallback* callback) {
  if (range->empty() || !VersionBatch::Serves(version, *range)) return false;
  return With(version, [&](const OrderedTables& tables) { return tables.MultiGet(version, options, range, callback); });
}

}  // namespace cairn
