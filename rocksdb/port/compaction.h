// How RocksDB makes the compaction of CompactFiles, and what it tells of one: names and arguments differ.

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/compaction/compaction.h"
#include "db/compaction/compaction_picker.h"
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
};

// A compaction as CompactFiles with default options makes it. REQUIRES: the compaction style is none.
inline rocksdb::Compaction* NewCompaction(rocksdb::VersionStorageInfo* storage,
                                          const rocksdb::ImmutableOptions& immutable_options,
                                          const rocksdb::MutableCFOptions& options,
                                          const rocksdb::MutableDBOptions& db_options,
                                          std::vector<rocksdb::CompactionInputFiles> inputs, int output_level,
                                          uint32_t output_path, const CompactionTerms& terms) {
  constexpr int kBaseLevel = 1;
  const rocksdb::CompactionOptions defaults;
  const auto compression = rocksdb::GetCompressionType(storage, options, output_level, kBaseLevel);
  return new rocksdb::Compaction(storage, immutable_options, options, db_options, std::move(inputs), output_level,
                                 defaults.output_file_size_limit, options.max_compaction_bytes, output_path,
                                 compression, rocksdb::GetCompressionOptions(options, storage, output_level),
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
                                 defaults.output_temperature_override, defaults.max_subcompactions, /*grandparents=*/{},
                                 std::nullopt, nullptr, terms.reason, /*trim_ts=*/"", terms.score,
#else
                                 options.default_write_temperature, defaults.max_subcompactions, /*grandparents=*/{},
                                 std::nullopt, nullptr, terms.reason == rocksdb::CompactionReason::kManualCompaction,
                                 /*trim_ts=*/"", terms.score,
                                 /*deletion_compaction=*/false,
#endif
                                 /*l0_files_might_overlap=*/true,
#if !CAIRN_ROCKSDB_AT_LEAST(11, 0)
                                 terms.reason,
#endif
                                 terms.blob_policy, terms.blob_age_cutoff);
}

}  // namespace cairn::port
