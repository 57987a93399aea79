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

// The tables of a Version that a key may be in, by (2): HashStores, then those of the SortedStore.
struct Tables {
  std::array<const EctTableProbe*, kMostTables> readers;
  std::array<const FdWithKeyRange*, kMostTables> files;
  size_t hash_stores = 0;
  size_t count = 0;

  // False: a table that only RocksDB can ask.
  bool Add(const FdWithKeyRange& file) {
    readers[count] = EctTableProbe::Of(port::PinnedReaderOf(file.fd));
    files[count] = &file;
    return readers[count++] != nullptr;
  }
};

bool FindTables(rocksdb::Version* version, const rocksdb::LookupKey& key, Tables* tables) {
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  if (storage.num_non_empty_levels() > 2) return false;
  const LevelFilesBrief& stores = storage.LevelFilesBrief(0);
  if (stores.num_files > kMostTables) return false;
  for (size_t i = 0; i < stores.num_files; ++i) {
    if (!tables->Add(stores.files[i])) return false;
  }
  tables->hash_stores = tables->count;
  if (storage.num_non_empty_levels() < 2) return true;
  const LevelFilesBrief& sorted = storage.LevelFilesBrief(1);
  const rocksdb::InternalKeyComparator& order = version->cfd()->internal_comparator();
  auto i = static_cast<size_t>(rocksdb::FindFile(order, sorted, key.internal_key()));
  for (; i < sorted.num_files; ++i) {
    const FdWithKeyRange& file = sorted.files[i];
    const Slice smallest = rocksdb::ExtractUserKey(file.smallest_key);
    if (order.user_comparator()->Compare(smallest, key.user_key()) > 0) return true;
    if (tables->count == kMostTables || !tables->Add(file)) return false;
    // Versions and merge operands of a key may go on in the next table.
    if (rocksdb::ExtractUserKey(file.largest_key) != key.user_key()) return true;
  }
  return true;
}

// Not within its caller, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountKeptFromInPerfContext(uint64_t tables) {
  PERF_COUNTER_ADD(bloom_sst_miss_count, tables);
}

// As RocksDB's own way does for each table that it asks, the last of which is the one that has the key, if one has.
void SampleReads(const Tables& tables, size_t asked, bool found) {
  for (size_t i = 0; i < asked; ++i) {
    const bool brought = found && i + 1 == asked;
    port::SampleRead(tables.files[i]->file_metadata, brought ? port::ReadFound::kValue : port::ReadFound::kNoValue);
  }
}

}  // namespace

bool GetFromSilt(rocksdb::Version* version, const VersionRequest& request) {
  const rocksdb::ImmutableOptions& options = port::ImmutableOptionsOf(*version->cfd());
  // A row cache stands before each table.
  if (options.row_cache != nullptr || options.optimize_filters_for_hits) return false;
  Tables tables;
  if (!FindTables(version, request.key, &tables) || tables.count == 0) return false;
  // Who counts by level wants each table's answer.
  if (PerfContextCountsByLevel()) return false;
  const uint64_t hash = tables.readers[0]->hash()(request.key.user_key());
  uint64_t kept_from = 0;
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  bool found = false;
  size_t asked = 0;
  while (asked < tables.count && !found) {
    const EctTableProbe* const reader = tables.readers[asked];
    const int level = asked < tables.hash_stores ? 0 : 1;
    ++asked;
    if (!reader->MayHold(hash)) {
      ++kept_from;
      if (level == 1) reader->CountKeptFromLast();
      continue;
    }
    if (!lookup.has_value()) lookup.emplace(version, request);
    const Status s = reader->Find(request.options, request.key.internal_key(), hash, lookup->context());
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
