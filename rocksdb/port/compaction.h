// How RocksDB makes the compaction of CompactFiles, what it tells of one, and how a table's move gets into the
// MANIFEST: names and arguments differ.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "db/column_family.h"
#include "db/compaction/compaction.h"
#include "db/compaction/compaction_picker.h"
#include "db/version_edit.h"
#include "db/version_set.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/rocksdb_version.h"

// The member of CompactionPicker, and its parameters that come last. A macro, because what takes its place has to
// repeat its declaration.
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
#define CAIRN_MAKE_COMPACTION PickCompactionForCompactFiles
#define CAIRN_MORE_COMPACTION_PARAMETERS \
  , std::optional<rocksdb::SequenceNumber> earliest_snapshot, const rocksdb::SnapshotChecker *snapshot_checker
#define CAIRN_MORE_COMPACTION_ARGUMENTS , earliest_snapshot, snapshot_checker
#else
#define CAIRN_MAKE_COMPACTION CompactFiles
#define CAIRN_MORE_COMPACTION_PARAMETERS
#define CAIRN_MORE_COMPACTION_ARGUMENTS
#endif

namespace cairn::rocksdb_own {

// See rocksdb/port/rocksdb_own.h.
rocksdb::Compaction* MakeCompaction(
    rocksdb::CompactionPicker* picker, const rocksdb::CompactionOptions& options,
    const std::vector<rocksdb::CompactionInputFiles>& inputs, int output_level, rocksdb::VersionStorageInfo* storage,
    const rocksdb::MutableCFOptions& family_options, const rocksdb::MutableDBOptions& db_options,
    uint32_t output_path CAIRN_MORE_COMPACTION_PARAMETERS) asm("cairn_rocksdb_MakeCompaction");

}  // namespace cairn::rocksdb_own

namespace cairn::port {

// What CompactFiles leaves at its defaults.
struct CompactionTerms {
  rocksdb::CompactionReason reason = rocksdb::CompactionReason::kManualCompaction;
  double score = 0;
  rocksdb::BlobGarbageCollectionPolicy blob_policy = rocksdb::BlobGarbageCollectionPolicy::kUseDefault;
  double blob_age_cutoff = -1;
  rocksdb::Temperature temperature = rocksdb::Temperature::kUnknown;  // of its tables; unknown: by the options
};

// A compaction as CompactFiles with default options makes it. REQUIRES: the compaction style is none.
inline rocksdb::Compaction* NewCompaction(rocksdb::VersionStorageInfo* storage,
                                          const rocksdb::ImmutableOptions& immutable_options,
                                          const rocksdb::MutableCFOptions& options,
                                          const rocksdb::MutableDBOptions& db_options,
                                          std::vector<rocksdb::CompactionInputFiles> inputs, int output_level,
                                          uint32_t output_path, const CompactionTerms& terms) {
  constexpr int kBaseLevel = 1;
  // RocksDB asserts that an automatic job is no move, and takes one with inputs of a single level for that.
  if (terms.reason != rocksdb::CompactionReason::kManualCompaction && inputs.size() == 1 &&
      inputs[0].level != output_level) {
    inputs.emplace_back().level = output_level;
  }
  const rocksdb::CompactionOptions defaults;
  const auto compression = rocksdb::GetCompressionType(storage, options, output_level, kBaseLevel);
  return new rocksdb::Compaction(storage, immutable_options, options, db_options, std::move(inputs), output_level,
                                 defaults.output_file_size_limit, options.max_compaction_bytes, output_path,
                                 compression, rocksdb::GetCompressionOptions(options, storage, output_level),
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
                                 terms.temperature, defaults.max_subcompactions, /*grandparents=*/{}, std::nullopt,
                                 nullptr, terms.reason, /*trim_ts=*/"", terms.score,
#else
                                 terms.temperature == rocksdb::Temperature::kUnknown ? options.default_write_temperature
                                                                                     : terms.temperature,
                                 defaults.max_subcompactions, /*grandparents=*/{}, std::nullopt, nullptr,
                                 terms.reason == rocksdb::CompactionReason::kManualCompaction,
                                 /*trim_ts=*/"", terms.score,
                                 /*deletion_compaction=*/false,
#endif
                                 /*l0_files_might_overlap=*/true,
#if !CAIRN_ROCKSDB_AT_LEAST(11, 0)
                                 terms.reason,
#endif
                                 terms.blob_policy, terms.blob_age_cutoff);
}

// Records in the MANIFEST that move a table: later releases keep more of a table there, and pass fewer options.
inline void AddMovedTable(int level, const rocksdb::FileMetaData& table, rocksdb::VersionEdit* edit) {
  edit->AddFile(level, table.fd.GetNumber(), table.fd.GetPathId(), table.fd.GetFileSize(), table.smallest,
                table.largest, table.fd.smallest_seqno, table.fd.largest_seqno, table.marked_for_compaction,
                table.temperature, table.oldest_blob_file_number, table.oldest_ancester_time, table.file_creation_time,
                table.epoch_number, table.file_checksum, table.file_checksum_func_name, table.unique_id,
                table.compensated_range_deletion_size, table.tail_size, table.user_defined_timestamps_persisted
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
                ,
                table.min_timestamp, table.max_timestamp, table.file_open_metadata
#endif
  );
}

// REQUIRES: the DB mutex, which it lets go of meanwhile.
inline rocksdb::Status LogAndApply(rocksdb::VersionSet* versions, rocksdb::ColumnFamilyData* family,
                                   rocksdb::VersionEdit* edit, rocksdb::InstrumentedMutex* mutex,
                                   rocksdb::FSDirectory* directory) {
  const rocksdb::ReadOptions read(rocksdb::Env::IOActivity::kCompaction);
  const rocksdb::WriteOptions write(rocksdb::Env::IOActivity::kCompaction);
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  return versions->LogAndApply(family, read, write, edit, mutex, directory);
#else
  return versions->LogAndApply(family, *family->GetLatestMutableCFOptions(), read, write, edit, mutex, directory);
#endif
}

// Calls install(...) with the options that it takes in this release.
template <class Install>
void InstallVersion(const Install& install, rocksdb::ColumnFamilyData* family) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  (void)family;
  install();
#else
  install(*family->GetLatestMutableCFOptions());
#endif
}

}  // namespace cairn::port
