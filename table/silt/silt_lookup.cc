#include "table/silt/silt_lookup.h"

#include <array>
#include <optional>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/perf_context_imp.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/ect/ect_table_reader.h"
#include "table/perf_counts.h"

namespace cairn {

namespace {

using rocksdb::FdWithKeyRange;
using rocksdb::LevelFilesBrief;
using rocksdb::perf_context;  // the macros name them so
using rocksdb::perf_level;
using rocksdb::PerfLevel;
using rocksdb::Slice;
using rocksdb::Status;

// More do not wait for a merge but by mistake.
constexpr size_t kMostTables = 256;

// The tables of a Version that a key may be in, newest first by (2).
class Tables {
 public:
  // False: only RocksDB can look for the key.
  bool Find(rocksdb::Version* version, const Slice& user_key) {
    const rocksdb::VersionStorageInfo& storage = *version->storage_info();
    const LevelFilesBrief& stores = storage.LevelFilesBrief(0);
    if (stores.num_files > kMostTables) return false;
    if (stores.num_files > 0 && !FindHash(stores.files[0], user_key)) return false;
    for (size_t i = 0; i < stores.num_files; ++i) {
      if (!Add(stores.files[i], 0)) return false;
    }
    for (int level = 1; level < storage.num_non_empty_levels(); ++level) {
      const LevelFilesBrief& files = storage.LevelFilesBrief(level);
      if (files.num_files == 0) continue;
      if (!FindHash(files.files[0], user_key)) return false;
      if (!FindIn(files, level)) return false;
    }
    return count_ > 0;
  }

  size_t count() const { return count_; }
  uint64_t hash() const { return hash_; }
  const EctTableProbe& reader(size_t i) const { return *readers_[i]; }
  const FdWithKeyRange& file(size_t i) const { return *files_[i]; }
  int level(size_t i) const { return levels_[i]; }

 private:
  static const EctTableProbe* ReaderOf(const FdWithKeyRange& file) {
    return EctTableProbe::Of(port::PinnedReaderOf(file.fd));
  }

  bool FindHash(const FdWithKeyRange& file, const Slice& user_key) {
    if (has_hash_) return true;
    const EctTableProbe* const reader = ReaderOf(file);
    has_hash_ = reader != nullptr;
    if (has_hash_) hash_ = reader->hash()(user_key);
    return has_hash_;
  }

  bool Add(const FdWithKeyRange& file, int level) {
    const EctTableProbe* const reader = count_ < kMostTables ? ReaderOf(file) : nullptr;
    if (reader == nullptr) return false;
    reader->PrefetchFilter(hash_);
    readers_[count_] = reader;
    files_[count_] = &file;
    levels_[count_++] = level;
    return true;
  }

  // Hashes are uniform, so the place of one among tables is near its share of all hashes. Of keys with one hash, and of
  // versions of a key, some may be in the next table.
  bool FindIn(const LevelFilesBrief& files, int level) {
    auto i = static_cast<size_t>((static_cast<unsigned __int128>(hash_) * files.num_files) >> 64);
    const EctTableProbe* reader = nullptr;
    for (; i > 0; --i) {
      reader = ReaderOf(files.files[i - 1]);
      if (reader == nullptr) return false;
      if (reader->HashesOf(files.files[i - 1]).last < hash_) break;
    }
    for (; i < files.num_files; ++i) {
      reader = ReaderOf(files.files[i]);
      if (reader == nullptr) return false;
      const EctTableProbe::Hashes hashes = reader->HashesOf(files.files[i]);
      if (hashes.last < hash_) continue;
      if (hashes.first > hash_) return true;
      if (!Add(files.files[i], level)) return false;
    }
    return true;
  }

  // Not before there is a table.
  bool has_hash_ = false;
  uint64_t hash_ = 0;
  size_t count_ = 0;
  std::array<const EctTableProbe*, kMostTables> readers_;
  std::array<const FdWithKeyRange*, kMostTables> files_;
  std::array<int, kMostTables> levels_;
};

// Not within its caller, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountKeptFromInPerfContext(uint64_t tables) {
  PERF_COUNTER_ADD(bloom_sst_miss_count, tables);
}

// As RocksDB's own way does for each table that it asks, the last of which is the one that has the key, if one has.
void SampleReads(const Tables& tables, size_t asked, bool found) {
  for (size_t i = 0; i < asked; ++i) {
    const bool brought = found && i + 1 == asked;
    port::SampleRead(tables.file(i).file_metadata, brought ? port::ReadFound::kValue : port::ReadFound::kNoValue);
  }
}

}  // namespace

bool GetFromSilt(rocksdb::Version* version, const VersionRequest& request) {
  const rocksdb::ImmutableOptions& options = port::ImmutableOptionsOf(*version->cfd());
  // A row cache stands before each table.
  if (options.row_cache != nullptr || options.optimize_filters_for_hits) return false;
  Tables tables;
  if (!tables.Find(version, request.key.user_key())) return false;
  // Who counts by level wants each table's answer.
  if (PerfContextCountsByLevel()) return false;
  uint64_t kept_from = 0;
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  bool found = false;
  size_t asked = 0;
  while (asked < tables.count() && !found) {
    const EctTableProbe& reader = tables.reader(asked);
    const int level = tables.level(asked);
    ++asked;
    if (!reader.MayHold(tables.hash())) {
      ++kept_from;
      reader.CountKeptFromLast();
      continue;
    }
    if (!lookup.has_value()) lookup.emplace(version, request);
    const Status s = reader.Find(request.options, request.key.internal_key(), tables.hash(), lookup->context());
    found = lookup->Take(s, level) == VersionLookup::Next::kNothing;
  }
  if (kept_from != 0) {
    RecordTick(options.stats, rocksdb::BLOOM_FILTER_USEFUL, kept_from);
    if (PerfContextCounts()) CountKeptFromInPerfContext(kept_from);
  }
  if (lookup.has_value() ? lookup->sampled() : rocksdb::should_sample_file_read()) {
    SampleReads(tables, asked, found && request.status->ok());
  }
  if (!found) FinishLookup(version, request, &lookup);
  return true;
}

}  // namespace cairn
