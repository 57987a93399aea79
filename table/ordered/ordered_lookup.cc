#include "table/ordered/ordered_lookup.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/ordered/ordered_probe.h"
#include "table/perf_counts.h"
#include "util/autovector.h"
#include "util/bits.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::FdWithKeyRange;
using rocksdb::LevelFilesBrief;

// A store that has more lacks compaction.
constexpr size_t kMostTables = 128;

// A key in bytewise order, compared by its first eight bytes where they tell.
class LookedUp {
 public:
  explicit LookedUp(const Slice& user_key) : key_(user_key), window_(WindowOf(user_key)) {}

  int Compare(const Slice& other) const {
    if (key_.size() >= sizeof(uint64_t) && other.size() >= sizeof(uint64_t)) {
      const uint64_t window = WindowOf(other);
      if (window != window_) return window_ < window ? -1 : 1;
    }
    return key_.compare(other);
  }

 private:
  static uint64_t WindowOf(const Slice& key) {
    uint64_t window = 0;
    if (key.size() >= sizeof(window)) memcpy(&window, key.data(), sizeof(window));
    return __builtin_bswap64(window);
  }

  const Slice key_;
  const uint64_t window_;
};

struct Table {
  const OrderedTableProbe* reader;
  const FdWithKeyRange* file;
  const char* line;  // of its Bloom filter; null: it has none that is asked here
  int level;
  uint64_t age;  // lower is newer, by (2)
};

// Those of a Version that the key may be in by their smallest and largest keys, newest first, by (2).
class Tables {
 public:
  Tables(rocksdb::Version* version, const Slice& user_key)
      : storage_(*version->storage_info()), user_key_(user_key), key_(user_key) {}

  // False: a table that only RocksDB can ask, by (1), or traces.
  bool Find() {
    for (int level = 0; level < storage_.num_non_empty_levels(); ++level) {
      const LevelFilesBrief& files = storage_.LevelFilesBrief(level);
      if (files.num_files == 0) continue;
      if (!(level == 0 ? AddNewest(files) : AddOf(files, level))) return false;
    }
    return count_ == 0 || !tables_[0].reader->IsTraced();
  }

  size_t count() const { return count_; }
  const Table& operator[](size_t i) const { return tables_[i]; }
  uint64_t hash() const { return hash_; }

  // Whether its Bloom filter lets the key pass, if it is asked here.
  bool PassesBloom(const Table& table) const {
    return table.line == nullptr || table.reader->bloom().MayHold(hash_, table.line);
  }

 private:
  static Slice Smallest(const FdWithKeyRange& file) { return rocksdb::ExtractUserKey(file.smallest_key); }
  static Slice Largest(const FdWithKeyRange& file) { return rocksdb::ExtractUserKey(file.largest_key); }

  bool AddNewest(const LevelFilesBrief& files) {
    for (size_t i = 0; i < files.num_files; ++i) {
      const FdWithKeyRange& file = files.files[i];
      if (key_.Compare(Smallest(file)) < 0 || key_.Compare(Largest(file)) > 0) continue;
      if (!Add(file, 0, i)) return false;
    }
    return true;
  }

  bool AddOf(const LevelFilesBrief& files, int level) {
    // The first one that does not end before the key.
    size_t at = 0;
    for (size_t high = files.num_files; at < high;) {
      const size_t middle = (at + high) / 2;
      if (key_.Compare(Largest(files.files[middle])) > 0) {
        at = middle + 1;
      } else {
        high = middle;
      }
    }
    for (; at < files.num_files && key_.Compare(Smallest(files.files[at])) >= 0; ++at) {
      if (!Add(files.files[at], level, at)) return false;
      // Versions and merge operands of a key may go on in the next table.
      if (key_.Compare(Largest(files.files[at])) != 0) return true;
    }
    return true;
  }

  bool Add(const FdWithKeyRange& file, int level, size_t place) {
    const OrderedTableProbe* const reader = OrderedTableProbe::Of(port::PinnedReaderOf(file.fd));
    if (reader == nullptr || !reader->has_entries_only() || count_ == kMostTables) return false;
    if (count_ == 0) hash_ = BloomLines::HashOf(user_key_);
    const char* line = nullptr;
    if (reader->bloom().exist()) {
      line = reader->bloom().LineOf(hash_);
      reader->bloom().Prefetch(line);
    }
    tables_[count_++] = {reader, &file, line, level, static_cast<uint64_t>(level) << 32 | place};
    return true;
  }

  const rocksdb::VersionStorageInfo& storage_;
  const Slice user_key_;
  const LookedUp key_;
  uint64_t hash_ = 0;
  size_t count_ = 0;
  std::array<Table, kMostTables> tables_;  // not cleared
};

// As RocksDB's own way does for each table that it asks: from the newest one to `last`, which has the key if it was
// found. Null: all of them.
void SampleReads(const Tables& tables, const rocksdb::FileMetaData* last, bool found) {
  for (size_t i = 0; i < tables.count(); ++i) {
    rocksdb::FileMetaData* const file = tables[i].file->file_metadata;
    port::SampleRead(file, file == last && found ? port::ReadFound::kValue : port::ReadFound::kNoValue);
    if (file == last) return;
  }
}

// Asks the filters of the tables, and counts what they answer as RocksDB's reader does.
class Filters {
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
  bool LetPass(const Table& table, const rocksdb::LookupKey& key) {
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
  void LetPass(const Table& table, rocksdb::MultiGetContext::Range* keys) {
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
  static bool IsBloomEnough(const Table& table) { return table.line != nullptr && table.reader->has_mapped_blocks(); }

  const rocksdb::ReadOptions& options_;
  rocksdb::Statistics* const statistics_;
  uint64_t kept_ = 0, kept_by_bloom_ = 0;
};

// A row cache stands before each table; filters of the last level may not have to be asked; and who counts by level
// wants each table's answer from RocksDB.
bool MayGoAround(const rocksdb::ImmutableOptions& options) {
  return options.row_cache == nullptr && !options.optimize_filters_for_hits && !PerfContextCountsByLevel();
}

// By its first table: a Version without ordered tables is not looked through once more for every key.
bool MayHaveOrdered(rocksdb::Version* version) {
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  for (int level = 0; level < storage.num_non_empty_levels(); ++level) {
    const LevelFilesBrief& files = storage.LevelFilesBrief(level);
    if (files.num_files != 0) return OrderedTableProbe::Of(port::PinnedReaderOf(files.files[0].fd)) != nullptr;
  }
  return false;
}

const rocksdb::SliceTransform* PrefixesOf(rocksdb::Version* version) {
  return version->GetMutableCFOptions().prefix_extractor.get();
}

}  // namespace

bool GetFromOrdered(rocksdb::Version* version, const VersionRequest& request) {
  if (!MayHaveOrdered(version)) return false;
  Tables tables(version, request.key.user_key());
  const rocksdb::ImmutableOptions& options = port::ImmutableOptionsOf(*version->cfd());
  if (!tables.Find() || tables.count() == 0 || !MayGoAround(options)) return false;
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  const rocksdb::FileMetaData* found_in = nullptr;
  {
    Filters filters(request.options, options.stats);
    size_t kept = 0;
    for (size_t i = 0; i < tables.count() && found_in == nullptr; ++i) {
      const Table& table = tables[i];
      if (!tables.PassesBloom(table)) {
        ++kept;
        continue;
      }
      if (!filters.LetPass(table, request.key)) continue;
      if (!lookup.has_value()) lookup.emplace(version, request);
      const Status s =
          table.reader->Find(request.options, request.key.internal_key(), lookup->context(), PrefixesOf(version));
      if (lookup->Take(s, table.level) == VersionLookup::Next::kNothing) found_in = table.file->file_metadata;
    }
    filters.CountKept(kept);
  }
  if (lookup.has_value() ? lookup->sampled() : rocksdb::should_sample_file_read()) {
    SampleReads(tables, found_in, request.status->ok());
  }
  if (found_in == nullptr) FinishLookup(version, request, &lookup);
  return true;
}

namespace {

// A batch's keys, and for each the tables whose Bloom filters let it pass.
class OrderedBatch {
 public:
  OrderedBatch(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range)
      : version_(version), range_(range), filters_(options, port::ImmutableOptionsOf(*version->cfd()).stats) {}

  // False: a key that only RocksDB can look up, or none that any table may have.
  bool Find() {
    bool any = false;
    for (auto key = range_->begin(); key != range_->end(); ++key) {
      Tables tables(version_, key->lkey->user_key());
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
    // The newest table first, so that all keys that want it ask it and its filters together: each filter that lies in
    // the block cache is looked up there once.
    while (pending_ != 0 && !batch.IsOverLimit()) {
      uint64_t newest = ~uint64_t{0};
      ForEachBit(pending_, [&](size_t place) { newest = std::min(newest, NextOf(place).age); });
      uint64_t places = 0;
      ForEachBit(pending_, [&](size_t place) { places |= NextOf(place).age == newest ? uint64_t{1} << place : 0; });
      GoOn(places & ~Ask(batch, options, NextOf(LowestBit(places)), places));
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
    Table table;
    size_t kept;  // tables between it and the one before whose Bloom filters did not let the key pass
  };
  struct Way {
    size_t next, end;  // of passing_
    size_t kept_behind;
  };

  const Table& NextOf(size_t place) const { return passing_[ways_[place].next].table; }

  // The filters, and then the table for keys that they let pass. Returns the keys that are done.
  uint64_t Ask(VersionBatch& batch, const rocksdb::ReadOptions& options, const Table& table, uint64_t places) {
    batch.BeginTable(table.level, places);
    rocksdb::MultiGetContext::Range asked(*range_, range_->begin(), range_->end());
    for (auto key = range_->begin(); key != range_->end(); ++key) {
      if ((places >> key.index() & 1) == 0) asked.SkipIndex(key.index());
    }
    filters_.LetPass(table, &asked);
    uint64_t passed = 0;
    for (auto key = asked.begin(); key != asked.end(); ++key) passed |= uint64_t{1} << key.index();
    if (passed == 0) return 0;
    const uint64_t older =
        batch.AskBy(table.level, passed, [&] { table.reader->FindBatch(options, asked, PrefixesOf(version_)); });
    const uint64_t done = passed & ~older;
    ForEachBit(done, [&](size_t place) { Sample(batch, place, table.file->file_metadata); });
    pending_ &= ~done;
    return done;
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
    Tables tables(version_, batch.KeyAt(place)->lkey->user_key());
    if (tables.Find()) SampleReads(tables, last, batch.KeyAt(place)->s->ok());
  }

  rocksdb::Version* const version_;
  rocksdb::MultiGetContext::Range* const range_;
  Filters filters_;
  rocksdb::autovector<Passing, 48> passing_;
  std::array<Way, rocksdb::MultiGetContext::MAX_BATCH_SIZE> ways_;  // by place, those of the range
  uint64_t pending_ = 0;
  uint64_t ended_ = 0;  // no further table may hold them; they are finished behind all others, as in RocksDB
};

}  // namespace

bool MultiGetFromOrdered(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                         rocksdb::MultiGetContext::Range* range, rocksdb::ReadCallback* callback) {
  if (range->empty() || !MayHaveOrdered(version) || !MayGoAround(port::ImmutableOptionsOf(*version->cfd())) ||
      !VersionBatch::Serves(version, *range)) {
    return false;
  }
  OrderedBatch batch(version, options, range);
  if (!batch.Find()) return false;
  batch.LookUp(options, callback);
  return true;
}

}  // namespace cairn
