#include "table/silt/silt_lookup.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/perf_counts.h"
#include "util/bits.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::FdWithKeyRange;
using rocksdb::LevelFilesBrief;
using rocksdb::MultiGetContext;
using rocksdb::Version;

// More parts, or more stores that a key may be in, are no SILT store's but by mistake.
constexpr size_t kMostParts = 256;
constexpr size_t kMostStores = 256;

// Not within its caller, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountKeptFromInPerfContext(uint64_t tables) {
  PERF_COUNTER_ADD(bloom_sst_miss_count, tables);
}

void CountKeptFrom(Version* version, uint64_t tables) {
  if (tables == 0) return;
  RecordTick(port::ImmutableOptionsOf(*version->cfd()).stats, rocksdb::BLOOM_FILTER_USEFUL, tables);
  if (PerfContextCounts()) CountKeptFromInPerfContext(tables);
}

const EctTableProbe* ReaderOf(const FdWithKeyRange& file) { return EctTableProbe::Of(port::PinnedReaderOf(file.fd)); }

uint64_t HashOf(const KeyHash& hash, const Slice& internal_key) { return hash(rocksdb::ExtractUserKey(internal_key)); }

}  // namespace

SiltTables::SiltTables(const Version* version)
    : OfVersion(version),
      hash_(HashOfComparator(version->cfd()->user_comparator())),
      last_level_(version->storage_info()->num_levels() - 1) {}

std::unique_ptr<const SiltTables> SiltTables::Make(Version* version) {
  const rocksdb::ImmutableOptions& options = port::ImmutableOptionsOf(*version->cfd());
  // A row cache stands before each table.
  if (options.row_cache != nullptr || options.optimize_filters_for_hits) return nullptr;
  std::unique_ptr<SiltTables> made(new SiltTables(version));
  if (made->hash_ == nullptr || made->last_level_ == 0) return nullptr;
  return made->AddStores(*version->storage_info()) && made->AddSorted(*version->storage_info()) ? std::move(made)
                                                                                                : nullptr;
}

bool SiltTables::AddStores(const rocksdb::VersionStorageInfo& storage) {
  const int levels = std::min(last_level_, storage.num_non_empty_levels());
  size_t most = 1;
  for (int level = 1; level < levels; ++level) most = std::max(most, storage.LevelFilesBrief(level).num_files);
  while (size_t{1} << part_bits_ < std::min(most, kMostParts)) ++part_bits_;
  std::vector<std::vector<Store>> parts(size_t{1} << part_bits_);
  for (int level = 0; level < levels; ++level) {
    const LevelFilesBrief& files = storage.LevelFilesBrief(level);
    for (size_t i = 0; i < files.num_files; ++i) {
      const FdWithKeyRange& file = files.files[i];
      const EctTableProbe* const reader = ReaderOf(file);
      if (reader == nullptr) return false;
      const uint32_t number = tables_++;
      const uint64_t first = HashOf(*hash_, file.smallest_key), last = HashOf(*hash_, file.largest_key);
      for (size_t part = PartOf(first); part <= PartOf(last); ++part) {
        if (parts[part].size() == kMostStores) return false;
        parts[part].push_back({reader->filter_of_store(), reader, &file, level, number,
                               static_cast<uint16_t>(first >> 48), static_cast<uint16_t>(last >> 48)});
      }
    }
  }
  for (const std::vector<Store>& part : parts) {
    begins_.push_back(static_cast<uint32_t>(stores_.size()));
    stores_.insert(stores_.end(), part.begin(), part.end());
  }
  begins_.push_back(static_cast<uint32_t>(stores_.size()));
  return true;
}

bool SiltTables::AddSorted(const rocksdb::VersionStorageInfo& storage) {
  if (storage.num_non_empty_levels() <= last_level_) return true;
  const LevelFilesBrief& files = storage.LevelFilesBrief(last_level_);
  for (size_t i = 0; i < files.num_files; ++i) {
    const FdWithKeyRange& file = files.files[i];
    const EctTableProbe* const reader = ReaderOf(file);
    if (reader == nullptr) return false;
    sorted_.push_back({HashOf(*hash_, file.smallest_key), HashOf(*hash_, file.largest_key), reader, &file, tables_++});
  }
  return true;
}

// Hashes are uniform, so the place of one among tables is near its share of all hashes. Of keys with one hash, and of
// versions of a key, some may be in the next table.
size_t SiltTables::FirstSorted(uint64_t hash) const {
  auto i = static_cast<size_t>((static_cast<unsigned __int128>(hash) * sorted_.size()) >> 64);
  while (i > 0 && sorted_[i - 1].last >= hash) --i;
  while (i < sorted_.size() && sorted_[i].last < hash) ++i;
  return i;
}

SiltTables::Way SiltTables::WayOf(uint64_t hash) const {
  const size_t part = PartOf(hash);
  const Store* const begin = stores_.data() + begins_[part];
  const Store* const end = stores_.data() + begins_[part + 1];
  for (const Store* store = begin; store != end; ++store) store->filter.Prefetch(hash);
  const size_t sorted = FirstSorted(hash);
  return {hash, begin, end, begin, sorted, sorted};
}

// Within its callers: a Get wants little of what it sets.
__attribute__((always_inline)) inline bool SiltTables::Next(Way* way, uint64_t* kept_from) const {
  const auto may_hold = [way](const auto& table, int level) {
    way->reader = table.reader;
    way->level = level;
    way->number = table.number;
    if (table.reader->MayHold(way->hash)) return true;
    table.reader->CountKeptFromLast();
    return false;
  };
  while (way->store != way->end) {
    const Store& store = *way->store++;
    if (!store.Covers(way->hash)) continue;
    if (store.filter.MayContain(way->hash) && may_hold(store, store.level)) return true;
    ++*kept_from;
  }
  while (way->sorted < sorted_.size() && sorted_[way->sorted].first <= way->hash) {
    if (may_hold(sorted_[way->sorted++], last_level_)) return true;
    ++*kept_from;
  }
  return false;
}

void SiltTables::SampleReads(const Way& way, bool brought) const {
  const auto sample = [](const FdWithKeyRange& file, bool has_it) {
    port::SampleRead(file.file_metadata, has_it ? port::ReadFound::kValue : port::ReadFound::kNoValue);
  };
  for (const Store* asked = way.begin; asked != way.store; ++asked) {
    if (!asked->Covers(way.hash)) continue;
    sample(*asked->file, brought && way.sorted == way.first_sorted && asked + 1 == way.store);
  }
  for (size_t i = way.first_sorted; i < way.sorted; ++i) sample(*sorted_[i].file, brought && i + 1 == way.sorted);
}

void SiltTables::Get(Version* version, const VersionRequest& request) const {
  Way way = WayOf((*hash_)(request.key.user_key()));
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  uint64_t kept_from = 0;
  bool found = false;
  while (!found && Next(&way, &kept_from)) {
    if (!lookup.has_value()) lookup.emplace(version, request);
    const Status s = way.reader->Find(request.options, request.key.internal_key(), way.hash, lookup->context());
    found = lookup->Take(s, way.level) == VersionLookup::Next::kNothing;
  }
  const bool sampled = lookup.has_value() ? lookup->sampled() : rocksdb::should_sample_file_read();
  if (sampled) SampleReads(way, found && request.status->ok());
  if (!found) FinishLookup(version, request, &lookup);
  CountKeptFrom(version, kept_from);
}

// One MultiGet. Newer tables come first, as with RocksDB: its histograms keep levels apart, and the limit on a batch's
// bytes goes by the order.
class SiltTables::Batch {
 public:
  Batch(const SiltTables* tables, Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range,
        rocksdb::ReadCallback* callback)
      : tables_(tables), options_(options), batch_(version, options, range, callback) {
    for (auto key = range->begin(); key != range->end(); ++key) {
      ways_[key.index()] = tables->WayOf((*tables->hash_)(key->lkey->user_key()));
      pending_ |= uint64_t{1} << key.index();
    }
  }

  void Run() {
    Next(pending_);
    if ((pending_ & (pending_ - 1)) != 0) ReadTogether();
    while (pending_ != 0 && !batch_.IsOverLimit()) AskTable();
    for (; ended_ != 0 && !batch_.IsOverLimit(); ended_ &= ended_ - 1) {
      const size_t place = LowestBit(ended_);
      if (batch_.IsSampled(place)) tables_->SampleReads(ways_[place], /*brought=*/false);
      batch_.Finish(place);
    }
    batch_.Abort(pending_ | ended_);
  }
  uint64_t kept_from() const { return kept_from_; }

 private:
  void Next(uint64_t places) {
    ForEachBit(places, [this](size_t place) {
      if (!tables_->Next(&ways_[place], &kept_from_)) ended_ |= uint64_t{1} << place;
    });
    pending_ &= ~ended_;
  }

  // Keys come by their hashes, so those of one block follow each other.
  void ReadTogether() {
    std::array<uint64_t, MultiGetContext::MAX_BATCH_SIZE> blocks;
    uint64_t places = 0;
    const EctTableProbe* reader = nullptr;
    uint64_t block = EctTableProbe::kNoBlock;
    ForEachBit(pending_, [&](size_t place) {
      const Way& way = ways_[place];
      const uint64_t wanted = way.reader->BlockToStart(options_, way.hash);
      if (wanted == EctTableProbe::kNoBlock || (way.reader == reader && wanted == block)) return;
      reader = way.reader;
      block = blocks[place] = wanted;
      read_[place] = reader->StartRead(options_, block);
      if (read_[place] != nullptr) places |= uint64_t{1} << place;
    });
    ForEachBit(places,
               [&](size_t place) { ways_[place].reader->AwaitRead(options_, blocks[place], read_[place].get()); });
  }

  // The newest table that is next for a key, for all keys that it is next for.
  void AskTable() {
    size_t first = LowestBit(pending_);
    ForEachBit(pending_, [&](size_t place) {
      if (ways_[place].number < ways_[first].number) first = place;
    });
    const EctTableProbe* const reader = ways_[first].reader;
    uint64_t places = 0;
    keys_.clear();
    ForEachBit(pending_, [&](size_t place) {
      if (ways_[place].reader != reader) return;
      places |= uint64_t{1} << place;
      keys_.push_back({batch_.KeyAt(place), ways_[place].hash, read_[place].get()});
    });
    const uint64_t older = batch_.AskBy(ways_[first].level, places, [&] { reader->FindBatch(options_, keys_); });
    // It was of this table's file, and is asked by place in the file: no other table may take it.
    ForEachBit(places, [this](size_t place) { read_[place].reset(); });
    ForEachBit(places & ~older, [this](size_t place) {
      if (batch_.IsSampled(place)) tables_->SampleReads(ways_[place], batch_.StatusAt(place).ok());
    });
    pending_ &= ~(places & ~older);
    if (!batch_.IsOverLimit()) Next(older);
  }

  const SiltTables* const tables_;
  const rocksdb::ReadOptions& options_;
  VersionBatch batch_;
  std::array<Way, MultiGetContext::MAX_BATCH_SIZE> ways_;  // by place
  // What was read of the first table that each key asks.
  std::array<std::unique_ptr<rocksdb::FilePrefetchBuffer>, MultiGetContext::MAX_BATCH_SIZE> read_;
  std::vector<EctTableProbe::KeyOfBatch> keys_;
  uint64_t pending_ = 0;
  uint64_t ended_ = 0;  // no further table may hold them; they are finished behind all others, as in RocksDB
  uint64_t kept_from_ = 0;
};

void SiltTables::MultiGet(Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range,
                          rocksdb::ReadCallback* callback) const {
  Batch batch(this, version, options, range, callback);
  batch.Run();
  CountKeptFrom(version, batch.kept_from());
}

bool SiltLookups::Get(Version* version, const VersionRequest& request) {
  return With(version, [&](const SiltTables& tables) {
    tables.Get(version, request);
    return true;
  });
}

bool SiltLookups::MultiGet(Version* version, const rocksdb::ReadOptions& options, MultiGetContext::Range* range,
                           rocksdb::ReadCallback* callback) {
  if (!VersionBatch::Serves(version, *range)) return false;
  return With(version, [&](const SiltTables& tables) {
    tables.MultiGet(version, options, range, callback);
    return true;
  });
}

}  // namespace cairn
