// What Version::AddIterators adds of a column family of ordered tables: one iterator over all of their runs, if what is
// asked of it allows (RunIterator::Serves), else RocksDB's iterators.

#include <array>

#include "db/column_family.h"
#include "db/uses_part.h"
#include "db/version_set.h"
#include "monitoring/file_read_sample.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/rocksdb_own.h"
#include "table/merging_iterator.h"
#include "table/ordered/run_iterator.h"

namespace cairn {

namespace {

// The SuperVersion that RocksDB's iterator holds keeps the Version.
class VersionIterator final : public RunIterator {
 public:
  VersionIterator(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                  const rocksdb::FileOptions& file_options, rocksdb::SequenceNumber sequence, rocksdb::Arena* arena,
                  const Tables* runs, size_t count)
      : RunIterator(&options, FamilyOf(version->GetMutableCFOptions()), sequence, arena, runs, count),
        version_(version),
        file_options_(file_options) {}

 private:
  static Family FamilyOf(const rocksdb::MutableCFOptions& options) {
    return {options.prefix_extractor.get(), rocksdb::should_sample_file_read(),
            options.max_sequential_skip_in_iterations > 0};
  }

  rocksdb::InternalIterator* NewOwn(const rocksdb::ReadOptions& options,
                                    [[maybe_unused]] rocksdb::SequenceNumber sequence, rocksdb::Arena* arena) override {
    rocksdb::MergeIteratorBuilder builder(&version_->cfd()->internal_comparator(), arena, /*prefix_seek_mode=*/false,
                                          options.iterate_upper_bound);
    rocksdb_own::AddVersionIterators(version_, options, file_options_, &builder,
                                     true CAIRN_LATER_ITERATORS_ARGUMENTS(sequence));
    return builder.Finish();
  }

  rocksdb::Version* const version_;
  const rocksdb::FileOptions& file_options_;
};

// The runs of a Version whose first table is an open ordered table; 0: none, or too many.
size_t RunsOf(rocksdb::Version* version, std::array<RunIterator::Tables, RunIterator::kMostRuns>* runs) {
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  size_t count = 0;
  for (int level = 0; level < storage.num_non_empty_levels(); ++level) {
    const rocksdb::LevelFilesBrief& files = storage.LevelFilesBrief(level);
    if (files.num_files == 0) continue;
    if (count == 0 && OrderedTableProbe::Of(port::PinnedReaderOf(files.files[0].fd)) == nullptr) return 0;
    const size_t step = level == 0 ? 1 : files.num_files;
    for (size_t i = 0; i < files.num_files; i += step) {
      if (count == runs->size()) return 0;
      (*runs)[count++] = {&files.files[i], step};
    }
  }
  return count;
}

bool AddRunIterator(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                    const rocksdb::FileOptions& file_options, rocksdb::MergeIteratorBuilder* builder,
                    bool allow_unprepared_value, rocksdb::SequenceNumber sequence) {
  const rocksdb::ColumnFamilyData& family = *version->cfd();
  if (port::ImmutableOptionsOf(family).optimize_filters_for_hits ||
      !RunIterator::Serves(options, family.user_comparator(), version->GetMutableCFOptions().prefix_extractor.get(),
                           allow_unprepared_value)) {
    return false;
  }
  std::array<RunIterator::Tables, RunIterator::kMostRuns> runs;  // not cleared
  const size_t count = RunsOf(version, &runs);
  if (count == 0) return false;
  rocksdb::Arena* const arena = builder->GetArena();
  auto* const iterator = new (arena->AllocateAligned(sizeof(VersionIterator)))
      VersionIterator(version, options, file_options, sequence, arena, runs.data(), count);
  if (options.ignore_range_deletions) {
    builder->AddIterator(iterator);
  } else {
    builder->AddPointAndTombstoneIterator(iterator, nullptr);
  }
  return true;
}

}  // namespace

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

void Version::AddIterators(const ReadOptions& options, const FileOptions& file_options, MergeIteratorBuilder* builder,
                           bool allow_unprepared_value CAIRN_MORE_ITERATORS_PARAMETERS) {
  if (!cairn::UsesOrderedTables(this) || CAIRN_HAS_SCANS ||
      !cairn::AddRunIterator(this, options, file_options, builder, allow_unprepared_value, CAIRN_ITERATORS_SEQUENCE)) {
    own::AddVersionIterators(this, options, file_options, builder,
                             allow_unprepared_value CAIRN_MORE_ITERATORS_ARGUMENTS);
  }
}

}  // namespace rocksdb
