#include "table/silt/silt_lookup.h"

#include <algorithm>
#include <optional>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/perf_counts.h"
#include "util/of_thread.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::FdWithKeyRange;
using rocksdb::LevelFilesBrief;
using rocksdb::Version;

// More parts, or more stores that a key may be in, are no SILT store's but by mistake.
constexpr size_t kMostParts = 256;
constexpr size_t kMostStores = 256;

// Not within its caller, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountKeptFromInPerfContext(uint64_t tables) {
  PERF_COUNTER_ADD(bloom_sst_miss_count, tables);
}

// Of a thread's lookup in a SILT store; a merge operator may look up another key within it.
struct LookupHazard : OwnedHazard {};

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
      ++tables_;
      const uint64_t first = HashOf(*hash_, file.smallest_key), last = HashOf(*hash_, file.largest_key);
      for (size_t part = PartOf(first); part <= PartOf(last); ++part) {
        if (parts[part].size() == kMostStores) return false;
        parts[part].push_back({reader->filter_of_store(), reader, &file, level, static_cast<uint16_t>(first >> 48),
                               static_cast<uint16_t>(last >> 48)});
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
    ++tables_;
    sorted_.push_back({HashOf(*hash_, file.smallest_key), HashOf(*hash_, file.largest_key), reader, &file});
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

// One lookup.
class SiltTables::Search {
 public:
  Search(Version* version, const VersionRequest& request, uint64_t hash)
      : version_(version), request_(request), hash_(hash) {}

  void AskStore(const Store& store) {
    if (!store.Covers(hash_)) return;
    if (store.filter.MayContain(hash_)) {
      Ask(*store.reader, store.level);
    } else {
      ++kept_from_;
    }
  }
  void Ask(const EctTableProbe& reader, int level) {
    if (!reader.MayHold(hash_)) {
      ++kept_from_;
      reader.CountKeptFromLast();
      return;
    }
    if (!lookup_.has_value()) lookup_.emplace(version_, request_);
    const Status s = reader.Find(request_.options, request_.key.internal_key(), hash_, lookup_->context());
    found_ = lookup_->Take(s, level) == VersionLookup::Next::kNothing;
  }
  bool found() const { return found_; }

  // Whether this one is counted in RocksDB's samples of reads.
  bool Sampled() const { return lookup_.has_value() ? lookup_->sampled() : rocksdb::should_sample_file_read(); }

  void Finish() {
    if (!found_) FinishLookup(version_, request_, &lookup_);
    if (kept_from_ == 0) return;
    RecordTick(port::ImmutableOptionsOf(*version_->cfd()).stats, rocksdb::BLOOM_FILTER_USEFUL, kept_from_);
    if (PerfContextCounts()) CountKeptFromInPerfContext(kept_from_);
  }

 private:
  Version* const version_;
  const VersionRequest& request_;
  const uint64_t hash_;
  std::optional<VersionLookup> lookup_;  // from the first table on that may hold the key
  uint64_t kept_from_ = 0;
  bool found_ = false;
};

void SiltTables::Get(Version* version, const VersionRequest& request) const {
  const uint64_t hash = (*hash_)(request.key.user_key());
  const size_t part = PartOf(hash);
  const Store* const begin = stores_.data() + begins_[part];
  const Store* const end = stores_.data() + begins_[part + 1];
  for (const Store* store = begin; store != end; ++store) store->filter.Prefetch(hash);
  Search search(version, request, hash);
  const Store* store = begin;
  while (store != end && !search.found()) search.AskStore(*store++);
  const size_t first = FirstSorted(hash);
  size_t sorted = first;
  while (sorted < sorted_.size() && sorted_[sorted].first <= hash && !search.found()) {
    search.Ask(*sorted_[sorted++].reader, last_level_);
  }
  if (search.Sampled()) {
    // As RocksDB's own way does for each table that it asks, the last of which is the one that has the key, if one has.
    const bool brought = search.found() && request.status->ok();
    const auto sample = [](const FdWithKeyRange& file, bool has_it) {
      port::SampleRead(file.file_metadata, has_it ? port::ReadFound::kValue : port::ReadFound::kNoValue);
    };
    for (const Store* asked = begin; asked != store; ++asked) {
      if (asked->Covers(hash)) sample(*asked->file, brought && sorted == first && asked + 1 == store);
    }
    for (size_t i = first; i < sorted; ++i) sample(*sorted_[i].file, brought && i + 1 == sorted);
  }
  search.Finish();
}

bool SiltLookups::Get(Version* version, const VersionRequest& request) {
  auto* const slot = slots_.SlotOf(version);
  // Who counts by level wants each table's answer.
  if (slot->HasNoneFor(version) || PerfContextCountsByLevel()) return false;
  LookupHazard* const hazard = OfThread<LookupHazard>::Get();
  if (hazard->InUse()) return false;
  {
    const Protected<SiltTables> tables(hazard->record(), slot->made);
    if (tables.get() != nullptr && tables->IsOf(version)) {
      tables->Get(version, request);
      return true;
    }
  }
  slots_.Miss(version, slot);
  return false;
}

}  // namespace cairn
