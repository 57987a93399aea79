// Every field of every options struct that an operation takes, every event of a listener and every function of
// rocksdb/experimental.h, on a database of each kind and on a stock one: the outcomes are the same, or the difference
// stands here with its reason. RocksDB's headers say what there is, so what a release brings fails this test.

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <type_traits>

#include "cairn/memtable.h"
#include "gtest/gtest.h"
#include "rocksdb/experimental.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/trace_reader_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/replayer.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"

namespace cairn::test {
namespace {

constexpr char kStock[] = "leveled";
constexpr char kDurable[] = "durable";
// Those in hash order have a fixed seed.
const char* const kKinds[] = {kStock, "ordered", "leveled_sub", kDurable, "ordered_trie", "trie_tight", "silt_cache"};

rocksdb::Options OptionsFor(const std::string& kind) {
  rocksdb::Options options = OptionsOf(*FindEngine(kind == kDurable ? kStock : kind));
  SubMemTableOptions memtable;
  memtable.durable = true;
  if (kind == kDurable) options.memtable_factory = NewSubMemTableFactory(memtable);
  options.merge_operator = std::make_shared<LastOperator>();
  options.disable_auto_compactions = true;
  return options;
}

struct Database {
  DB* db;
  const rocksdb::Options& options;
  const TempDir& dir;
  std::string kind;
  mutable int number = 0;  // of files that were made for it

  std::string NewName() const { return dir / (kind + "_" + std::to_string(++number)); }
};

std::string Outcome(const Status& s) { return s.ok() ? "OK" : s.ToString().substr(0, s.ToString().find(':')); }

std::string Run(const Database& d, const rocksdb::WriteOptions& options) {
  const Status s = d.db->Put(options, "written", "value");
  std::string value;
  return Outcome(s) + " " + Outcome(d.db->Get(rocksdb::ReadOptions(), "written", &value));
}

std::string Run(const Database& d, const rocksdb::ReadOptions& options) {
  std::string value;
  const Status s = d.db->Get(options, "a", &value);
  std::vector<std::string> values;
  const auto statuses = d.db->MultiGet(options, {Slice("a"), Slice("absent")}, &values);
  const std::unique_ptr<rocksdb::Iterator> it(d.db->NewIterator(options));
  size_t bytes = 0;
  for (it->Seek("a"); it->Valid() && it->PrepareValue(); it->Next()) bytes += it->value().empty() ? 0 : 1;
  return Outcome(s) + value + Outcome(statuses[0]) + Outcome(statuses[1]) + Outcome(it->status()) +
         (bytes > 0 ? " rows" : " none");
}

std::string Run(const Database& d, const rocksdb::FlushOptions& options) {
  EXPECT_OK(d.db->Put(rocksdb::WriteOptions(), "b", "2"));
  return Outcome(d.db->Flush(options));
}

std::string Run(const Database& d, const rocksdb::CompactRangeOptions& options) {
  EXPECT_OK(d.db->Put(rocksdb::WriteOptions(), "b", "3"));
  return Outcome(d.db->CompactRange(options, nullptr, nullptr));
}

// The tables of the level that has most in it, to where they are, or from level 0 to the next.
std::string Run(const Database& d, const rocksdb::CompactionOptions& options) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(d.db->Put(rocksdb::WriteOptions(), "b", "4"));
    EXPECT_OK(d.db->Flush(rocksdb::FlushOptions()));
  }
  rocksdb::ColumnFamilyMetaData metadata;
  d.db->GetColumnFamilyMetaData(&metadata);
  std::vector<std::string> inputs;
  for (const auto& file : metadata.levels[0].files) inputs.push_back(file.name);
  return Outcome(d.db->CompactFiles(options, inputs, d.options.num_levels - 1));
}

std::string Run(const Database& d, const rocksdb::WaitForCompactOptions& options) {
  const Status s = d.db->WaitForCompact(options);
  return Outcome(s);
}

std::string NewTable(const Database& d, const std::string& key) {
  const std::string file = d.NewName() + ".sst";
  EXPECT_OK(WriteTable(file, d.db->GetOptions(), {{key, "value"}}, d.db->DefaultColumnFamily()));
  return file;
}

std::string Run(const Database& d, const rocksdb::IngestExternalFileArg& given) {
  rocksdb::IngestExternalFileArg argument = given;
  argument.column_family = d.db->DefaultColumnFamily();
  argument.external_files = {NewTable(d, "ingested")};
  return Outcome(d.db->IngestExternalFiles({argument}));
}

std::string Run(const Database& d, const rocksdb::IngestExternalFileOptions& options) {
  rocksdb::IngestExternalFileArg argument;
  argument.options = options;
  return Run(d, argument);
}

std::string Run(const Database& d, const rocksdb::ImportColumnFamilyOptions& options) {
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  EXPECT_OK(rocksdb::Checkpoint::Create(d.db, port::Into(&checkpoint)));
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  EXPECT_OK(checkpoint->ExportColumnFamily(d.db->DefaultColumnFamily(), d.NewName(), port::Into(&files)));
  ColumnFamilyHandle* handle = nullptr;
  const Status s = d.db->CreateColumnFamilyWithImport(d.db->GetOptions(), "imported" + std::to_string(++d.number),
                                                      options, *files, &handle);
  if (s.ok()) {
    std::string value;
    EXPECT_OK(d.db->Get(rocksdb::ReadOptions(), handle, "a", &value));
    EXPECT_OK(d.db->DropColumnFamily(handle));
    EXPECT_OK(d.db->DestroyColumnFamilyHandle(handle));
  }
  return Outcome(s);
}

std::string Run(const Database& d, const rocksdb::LiveFilesStorageInfoOptions& options) {
  std::vector<rocksdb::LiveFileStorageInfo> files;
  const Status s = d.db->GetLiveFilesStorageInfo(options, &files);
  return Outcome(s) + (files.size() > 3 ? " files" : " none");
}

std::string Run(const Database& d, const rocksdb::SizeApproximationOptions& options) {
  const bool ascends = d.db->DefaultColumnFamily()->GetComparator()->Compare("a", "c") < 0;
  const rocksdb::Range range(ascends ? "a" : "c", ascends ? "c" : "a");
  uint64_t size = 0;
  return Outcome(d.db->GetApproximateSizes(options, d.db->DefaultColumnFamily(), &range, 1, &size));
}

std::string Run(const Database& d, const rocksdb::GetMergeOperandsOptions& given) {
  rocksdb::GetMergeOperandsOptions options = given;
  if (options.expected_max_number_of_operands == 0) options.expected_max_number_of_operands = 4;
  std::vector<rocksdb::PinnableSlice> operands(4);
  int number = 0;
  const Status s = d.db->GetMergeOperands(rocksdb::ReadOptions(), d.db->DefaultColumnFamily(), "merged",
                                          operands.data(), &options, &number);
  return Outcome(s) + std::to_string(number);
}

std::string Backup(const Database& d, const rocksdb::CreateBackupOptions& create,
                   const rocksdb::RestoreOptions& restore) {
  std::unique_ptr<rocksdb::BackupEngine> engine;
  EXPECT_OK(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), rocksdb::BackupEngineOptions(d.NewName()),
                                        port::Into(&engine)));
  Status s = engine->CreateNewBackup(create, d.db);
  const std::string path = d.NewName();
  if (s.ok()) s = engine->RestoreDBFromLatestBackup(restore, path, path);
  DB* db = nullptr;
  if (s.ok()) s = DB::Open(OptionsFor(d.kind), path, port::Into(&db));
  std::string value;
  if (s.ok()) s = db->Get(rocksdb::ReadOptions(), "a", &value);
  delete db;
  return Outcome(s) + value;
}
std::string Run(const Database& d, const rocksdb::CreateBackupOptions& options) {
  return Backup(d, options, rocksdb::RestoreOptions());
}
std::string Run(const Database& d, const rocksdb::RestoreOptions& options) {
  return Backup(d, rocksdb::CreateBackupOptions(), options);
}

std::unique_ptr<rocksdb::TraceWriter> NewTrace(const std::string& file) {
  std::unique_ptr<rocksdb::TraceWriter> writer;
  EXPECT_OK(rocksdb::NewFileTraceWriter(rocksdb::Env::Default(), rocksdb::EnvOptions(), file, &writer));
  return writer;
}

std::string Run(const Database& d, const rocksdb::TraceOptions& options) {
  Status s = d.db->StartTrace(options, NewTrace(d.NewName()));
  std::string value;
  EXPECT_OK(d.db->Get(rocksdb::ReadOptions(), "a", &value));
  return Outcome(s) + Outcome(d.db->EndTrace());
}

std::string Run(const Database& d, const rocksdb::ReplayOptions& options) {
  const std::string file = d.NewName();
  EXPECT_OK(d.db->StartTrace(rocksdb::TraceOptions(), NewTrace(file)));
  EXPECT_OK(d.db->Put(rocksdb::WriteOptions(), "traced", "value"));
  EXPECT_OK(d.db->EndTrace());
  std::unique_ptr<rocksdb::TraceReader> reader;
  EXPECT_OK(rocksdb::NewFileTraceReader(rocksdb::Env::Default(), rocksdb::EnvOptions(), file, &reader));
  std::unique_ptr<rocksdb::Replayer> replayer;
  EXPECT_OK(d.db->NewDefaultReplayer({d.db->DefaultColumnFamily()}, std::move(reader), &replayer));
  Status s = replayer->Prepare();
  if (s.ok()) s = replayer->Replay(options, nullptr);
  return Outcome(s);
}

template <class Database_, class Options>
std::string Transact(const Database& d, Database_* db, const Options& options) {
  std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions(), options));
  Status s = transaction->Put("transacted", "value");
  if (s.ok()) s = transaction->Commit();
  std::string value;
  if (s.ok()) s = db->Get(rocksdb::ReadOptions(), "transacted", &value);
  return Outcome(s) + value;
}

std::string Transact(const Database& d, const rocksdb::TransactionDBOptions& database,
                     const rocksdb::TransactionOptions& options) {
  std::unique_ptr<rocksdb::TransactionDB> db;
  const Status s = rocksdb::TransactionDB::Open(OptionsFor(d.kind), database, d.NewName(), port::Into(&db));
  return s.ok() ? Transact(d, db.get(), options) : Outcome(s);
}
std::string Run(const Database& d, const rocksdb::TransactionDBOptions& options) {
  return Transact(d, options, rocksdb::TransactionOptions());
}
std::string Run(const Database& d, const rocksdb::TransactionOptions& options) {
  return Transact(d, rocksdb::TransactionDBOptions(), options);
}
std::string Run(const Database& d, const rocksdb::OptimisticTransactionOptions& options) {
  const auto db = OpenedAs<rocksdb::OptimisticTransactionDB>(OptionsFor(d.kind), d.NewName());
  return Transact(d, db.get(), options);
}

struct FieldCheck {
  std::string name;
  std::function<std::string(const Database&)> check;  // empty: this release does not have the field
};

template <class Struct, class Set>
FieldCheck CheckOf(const char* name, Set set) {
  if constexpr (std::is_invocable_v<Set, Struct&>) {
    return {name, [set](const Database& d) {
              Struct options;
              set(options);
              return Run(d, options);
            }};
  } else {
    return {name, nullptr};
  }
}

#define FIELD(STRUCT, NAME, ...)              \
  CheckOf<rocksdb::STRUCT>(#STRUCT "." #NAME, \
                           [](auto& o) -> decltype(static_cast<void>(o.NAME = __VA_ARGS__)) { o.NAME = __VA_ARGS__; })

std::atomic<bool>* Canceled() {
  static std::atomic<bool> canceled{true};
  return &canceled;
}

// With values that are not the default, and what else they need.
std::vector<FieldCheck> FieldChecks() {
  using rocksdb::Env;
  static const Slice kA("a"), kB("b");
  static std::string timestamp(8, '\0');
  static const Slice at(timestamp);
  static const auto kAnyTable = [](const rocksdb::TableProperties&) { return true; };
  static const auto kNoMore = [](Slice) { return false; };
  static const auto kNothing = [] {};
  return {
      FIELD(CompactRangeOptions, exclusive_manual_compaction, false),
      FIELD(CompactRangeOptions, change_level, true),
      FIELD(CompactRangeOptions, target_level, (o.change_level = true, 2)),
      FIELD(CompactRangeOptions, target_path_id, 1),
      FIELD(CompactRangeOptions, bottommost_level_compaction, rocksdb::BottommostLevelCompaction::kForce),
      FIELD(CompactRangeOptions, allow_write_stall, true),
      FIELD(CompactRangeOptions, max_subcompactions, 2),
      FIELD(CompactRangeOptions, full_history_ts_low, &timestamp),
      FIELD(CompactRangeOptions, canceled, Canceled()),
      FIELD(CompactRangeOptions, blob_garbage_collection_policy, rocksdb::BlobGarbageCollectionPolicy::kForce),
      FIELD(CompactRangeOptions, blob_garbage_collection_age_cutoff, 0.5),
      FIELD(CompactionOptions, compression, rocksdb::kNoCompression),
      FIELD(CompactionOptions, output_file_size_limit, 1 << 20),
      FIELD(CompactionOptions, max_subcompactions, 2),
      FIELD(CompactionOptions, allow_trivial_move, true),
      FIELD(CompactionOptions, canceled, Canceled()),
      FIELD(CompactionOptions, output_temperature_override, rocksdb::Temperature::kWarm),
      FIELD(FlushOptions, wait, false),
      FIELD(FlushOptions, allow_write_stall, true),
      FIELD(FlushOptions, force_atomic_flush, true),
      FIELD(FlushOptions, listener_wait, true),
      FIELD(IngestExternalFileOptions, move_files, true),
      FIELD(IngestExternalFileOptions, link_files, true),
      FIELD(IngestExternalFileOptions, failed_move_fall_back_to_copy, false),
      FIELD(IngestExternalFileOptions, snapshot_consistency, false),
      FIELD(IngestExternalFileOptions, allow_global_seqno, false),
      FIELD(IngestExternalFileOptions, allow_blocking_flush, false),
      FIELD(IngestExternalFileOptions, ingest_behind, true),
      FIELD(IngestExternalFileOptions, write_global_seqno, true),
      FIELD(IngestExternalFileOptions, verify_checksums_before_ingest, true),
      FIELD(IngestExternalFileOptions, verify_checksums_readahead_size, 4096),
      FIELD(IngestExternalFileOptions, verify_file_checksum, false),
      FIELD(IngestExternalFileOptions, fail_if_not_bottommost_level, true),
      FIELD(IngestExternalFileOptions, allow_db_generated_files, true),
      FIELD(IngestExternalFileOptions, fill_cache, false),
      FIELD(IngestExternalFileOptions, file_opening_threads, 2),
      FIELD(IngestExternalFileOptions, prefetch_lmax_index_and_filter_blocks, true),
      FIELD(IngestExternalFileArg, options, rocksdb::IngestExternalFileOptions()),
      FIELD(IngestExternalFileArg, files_checksums, {"checksum"}),
      FIELD(IngestExternalFileArg, files_checksum_func_names, {"name"}),
      FIELD(IngestExternalFileArg, file_temperature, rocksdb::Temperature::kWarm),
      FIELD(IngestExternalFileArg, atomic_replace_range, decltype(o.atomic_replace_range)()),
      FIELD(ImportColumnFamilyOptions, move_files, true),
      FIELD(ReadOptions, snapshot, nullptr),
      FIELD(ReadOptions, timestamp, &at),
      FIELD(ReadOptions, iter_start_ts, &at),
      FIELD(ReadOptions, deadline, std::chrono::hours(1000000)),
      FIELD(ReadOptions, io_timeout, std::chrono::hours(1)),
      FIELD(ReadOptions, read_tier, rocksdb::kPersistedTier),
      FIELD(ReadOptions, rate_limiter_priority, Env::IO_USER),
      FIELD(ReadOptions, value_size_soft_limit, 1000),
      FIELD(ReadOptions, merge_operand_count_threshold, 3),
      FIELD(ReadOptions, verify_checksums, false),
      FIELD(ReadOptions, fill_cache, false),
      FIELD(ReadOptions, ignore_range_deletions, true),
      FIELD(ReadOptions, async_io, true),
      FIELD(ReadOptions, optimize_multiget_for_io, false),
      FIELD(ReadOptions, readahead_size, 1 << 16),
      FIELD(ReadOptions, max_skippable_internal_keys, 1000),
      FIELD(ReadOptions, iterate_lower_bound, &kA),
      FIELD(ReadOptions, iterate_upper_bound, &kB),
      FIELD(ReadOptions, tailing, true),
      FIELD(ReadOptions, managed, true),
      FIELD(ReadOptions, total_order_seek, true),
      FIELD(ReadOptions, auto_prefix_mode, true),
      FIELD(ReadOptions, prefix_same_as_start, true),
      FIELD(ReadOptions, pin_data, true),
      FIELD(ReadOptions, adaptive_readahead, true),
      FIELD(ReadOptions, background_purge_on_iterator_cleanup, true),
      FIELD(ReadOptions, table_filter, kAnyTable),
      FIELD(ReadOptions, auto_readahead_size, false),
      FIELD(ReadOptions, allow_unprepared_value, true),
      FIELD(ReadOptions, auto_refresh_iterator_with_snapshot, true),
      FIELD(ReadOptions, request_id, nullptr),
      FIELD(ReadOptions, read_scoped_block_buffer_provider, nullptr),
      FIELD(ReadOptions, table_index_factory, nullptr),
      FIELD(ReadOptions, io_activity, Env::IOActivity::kCompaction),
      FIELD(WriteOptions, sync, true),
      FIELD(WriteOptions, disableWAL, true),
      FIELD(WriteOptions, ignore_missing_column_families, true),
      FIELD(WriteOptions, no_slowdown, true),
      FIELD(WriteOptions, low_pri, true),
      FIELD(WriteOptions, memtable_insert_hint_per_batch, true),
      FIELD(WriteOptions, rate_limiter_priority, Env::IO_USER),
      FIELD(WriteOptions, protection_bytes_per_key, 8),
      FIELD(WriteOptions, io_activity, Env::IOActivity::kFlush),
      FIELD(WaitForCompactOptions, abort_on_pause, true),
      FIELD(WaitForCompactOptions, flush, true),
      FIELD(WaitForCompactOptions, wait_for_purge, true),
      FIELD(WaitForCompactOptions, timeout, std::chrono::hours(1)),
      FIELD(LiveFilesStorageInfoOptions, include_checksum_info, true),
      FIELD(LiveFilesStorageInfoOptions, wal_size_for_flush, 1000000000),
      FIELD(LiveFilesStorageInfoOptions, atomic_flush, true),
      FIELD(SizeApproximationOptions, include_memtables, true),
      FIELD(SizeApproximationOptions, include_files, (o.include_memtables = true, false)),
      FIELD(SizeApproximationOptions, files_size_error_margin, 0.1),
      FIELD(SizeApproximationOptions, include_blob_files, true),
      FIELD(GetMergeOperandsOptions, expected_max_number_of_operands, 1),
      FIELD(GetMergeOperandsOptions, continue_cb, kNoMore),
      FIELD(CreateBackupOptions, flush_before_backup, true),
      FIELD(CreateBackupOptions, progress_callback, kNothing),
      FIELD(CreateBackupOptions, exclude_files_callback, nullptr),
      FIELD(CreateBackupOptions, decrease_background_thread_cpu_priority, true),
      FIELD(CreateBackupOptions, background_thread_cpu_priority, rocksdb::CpuPriority::kNormal),
      FIELD(CreateBackupOptions, atomic_flush, true),
      FIELD(RestoreOptions, keep_log_files, true),
      FIELD(RestoreOptions, alternate_dirs, {}),
      FIELD(RestoreOptions, mode, decltype(o.mode)()),
      FIELD(TraceOptions, max_trace_file_size, 1 << 20),
      FIELD(TraceOptions, sampling_frequency, 2),
      FIELD(TraceOptions, filter, rocksdb::TraceFilterType::kTraceFilterGet),
      FIELD(TraceOptions, preserve_write_order, true),
      FIELD(ReplayOptions, num_threads, 2),
      FIELD(ReplayOptions, fast_forward, 2),
      FIELD(OptimisticTransactionOptions, set_snapshot, true),
      FIELD(OptimisticTransactionOptions, cmp, rocksdb::BytewiseComparator()),
      FIELD(TransactionDBOptions, max_num_locks, 100),
      FIELD(TransactionDBOptions, max_num_deadlocks, 1),
      FIELD(TransactionDBOptions, num_stripes, 1),
      FIELD(TransactionDBOptions, transaction_lock_timeout, 10),
      FIELD(TransactionDBOptions, default_lock_timeout, 10),
      FIELD(TransactionDBOptions, custom_mutex_factory, nullptr),
      FIELD(TransactionDBOptions, write_policy, rocksdb::WRITE_PREPARED),
      FIELD(TransactionDBOptions, rollback_merge_operands, true),
      FIELD(TransactionDBOptions, lock_mgr_handle, nullptr),
      FIELD(TransactionDBOptions, skip_concurrency_control, true),
      FIELD(TransactionDBOptions, default_write_batch_flush_threshold, 1000),
      FIELD(TransactionDBOptions, rollback_deletion_type_callback, nullptr),
      FIELD(TransactionDBOptions, enable_udt_validation, false),
      FIELD(TransactionDBOptions, secondary_indices, {}),
      FIELD(TransactionDBOptions, txn_commit_bypass_memtable_threshold, 1),
      FIELD(TransactionDBOptions, use_per_key_point_lock_mgr, true),
      FIELD(TransactionOptions, set_snapshot, true),
      FIELD(TransactionOptions, deadlock_detect, true),
      FIELD(TransactionOptions, use_only_the_last_commit_time_batch_for_recovery, true),
      FIELD(TransactionOptions, lock_timeout, 10),
      FIELD(TransactionOptions, expiration, 1000000),
      FIELD(TransactionOptions, deadlock_detect_depth, 2),
      FIELD(TransactionOptions, deadlock_timeout_us, 1000),
      FIELD(TransactionOptions, max_write_batch_size, 10000),
      FIELD(TransactionOptions, skip_concurrency_control, true),
      FIELD(TransactionOptions, skip_prepare, true),
      FIELD(TransactionOptions, write_batch_flush_threshold, 1000),
      FIELD(TransactionOptions, write_batch_track_timestamp_size, true),
      FIELD(TransactionOptions, commit_bypass_memtable, true),
      FIELD(TransactionOptions, large_txn_commit_optimize_threshold, 1),
      FIELD(TransactionOptions, large_txn_commit_optimize_byte_threshold, 1),
  };
}

// Fields that no call sets by itself here, and who looks at them.
const std::map<std::string, std::string>& CheckedElsewhere() {
  static const auto* const elsewhere = new std::map<std::string, std::string>{
      {"IngestExternalFileArg.column_family", "each ingestion above"},
      {"IngestExternalFileArg.external_files", "each ingestion above"},
      {"IngestExternalFileArg.file_infos", "port::FunctionsOfThisRelease of db_interface_test"},
      {"TransactionDBOptions.wp_snapshot_cache_bits", "private to RocksDB's tests"},
      {"TransactionDBOptions.wp_commit_cache_bits", "private to RocksDB's tests"},
      {"TransactionDBOptions.autogenerate_name", "private to RocksDB's tests"},
      {"WaitForCompactOptions.close_db", "shutdown_test"},
  };
  return *elsewhere;
}

// Options of objects, not of operations on a database; and of operations that db_interface_test calls in every release
// that has them.
const std::set<std::string>& OtherOptions() {
  static const auto* const others = new std::set<std::string>{
      "AdvancedColumnFamilyOptions",
      "BackupEngineOptions",
      "BlockBasedTableOptions",
      "BlockCacheTraceOptions",
      "BlockCacheTraceWriterOptions",
      "CacheDumpOptions",
      "CacheEntryRoleOptions",
      "CacheUsageOptions",
      "CheckpointEngineOptions",
      "CheckpointOrBackupEngineOptions",
      "ColumnFamilyOptions",
      "CompactionServiceOptionsOverride",
      "CompressedSecondaryCacheOptions",
      "CompressionOptions",
      "ConfigOptions",
      "CreateCheckpointOptions",
      "CreateCheckpointOrBackupOptions",
      "CuckooTableOptions",
      "DBOptions",
      "DirFsyncOptions",
      "DumpOptions",
      "EnvOptions",
      "ExternalTableBuilderOptions",
      "ExternalTableOptions",
      "FileOptions",
      "FlushWALOptions",
      "GetColumnFamilyMetaDataOptions",
      "HyperClockCacheOptions",
      "IODispatcherOptions",
      "IOOptions",
      "JemallocAllocatorOptions",
      "JobOptions",
      "LDBOptions",
      "LRUCacheOptions",
      "LevelDBOptions",
      "MetadataCacheOptions",
      "OpenAndCompactOptions",
      "OptimisticTransactionDBOptions",
      "Options",
      "PlainTableOptions",
      "ScanOptions",
      "ShardedCacheOptions",
      "SortedRunBuilderOptions",
      "SstFileWriterEmbeddedBlobOptions",
      "TieredCacheOptions",
      "UndumpOptions",
      "UpdateManifestForFilesStateOptions",
  };
  return *others;
}

struct Difference {
  const char* kinds;
  const char* what;
  const char* outcome;
  const char* reason;
};

const Difference kDifferences[] = {
    {"ordered|leveled_sub", "TransactionDBOptions.write_policy", "Invalid argument",
     "WRITE_PREPARED gives a key twice under one sequence number, which sub-MemTables do not take"},
    {"durable", "Transaction(DB)?Options[.].*", "Not implemented", "two-phase commit lives in the WAL"},
    {"durable", "WriteOptions.rate_limiter_priority", "Invalid argument OK",
     "RocksDB limits how fast a WAL is written"},
    {"ordered_trie|trie_tight", "CompactRangeOptions.(change_level|target_level|target_path_id)", "Not implemented",
     "a trie's levels are its slots"},
    {"trie_tight|silt_cache", "ReadOptions.iterate_upper_bound", "OK1OKNotFoundOK none", "there is no range of keys"},
    {"trie_tight", "MakeSharedBytewiseMinMaxSQFC", "b", "there is no range of keys, and every table is read"},
    {"silt_cache", "MakeSharedBytewiseMinMaxSQFC", "merged", "as a trie in hash order"},
    {"silt_cache", "CompactRangeOptions.target_level", "Invalid argument", "it has two levels"},
};

std::string Expected(const std::string& kind, const std::string& what, const std::string& stock) {
  for (const Difference& difference : kDifferences) {
    if (std::regex_match(kind, std::regex(difference.kinds)) && std::regex_match(what, std::regex(difference.what))) {
      return difference.outcome;
    }
  }
  return stock;
}

std::string Header(const std::string& name) {
  std::ifstream file(std::string(CAIRN_ROCKSDB_TREE) + "/include/rocksdb/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
}

const char* const kHeaders[] = {"options.h",
                                "db.h",
                                "experimental.h",
                                "utilities/backup_engine.h",
                                "utilities/checkpoint.h",
                                "utilities/optimistic_transaction_db.h",
                                "utilities/replayer.h",
                                "utilities/transaction_db.h"};

// What stands in the braces that come next after `at`, without what stands in further ones.
std::string BodyAt(const std::string& text, size_t at) {
  std::string body;
  int depth = 0;
  for (size_t i = text.find('{', at); i < text.size(); ++i) {
    if (text[i] == '}' && --depth == 0) break;
    if (depth == 1 && text[i] != '{') body += text[i];
    if (text[i] == '{') ++depth;
  }
  return body;
}

// STRUCT.FIELD of each struct of options.
std::set<std::string> FieldsOfTheHeaders() {
  std::set<std::string> fields;
  for (const char* const name : kHeaders) {
    const std::string text = Header(name);
    const std::regex structure("\n(?:struct|class) (\\w*Options?|IngestExternalFileArg)\\b[^;{]*\\{");
    for (std::sregex_iterator at(text.begin(), text.end(), structure), end; at != end; ++at) {
      const std::string type = (*at)[1];
      if (OtherOptions().count(type) > 0) continue;
      std::stringstream body(BodyAt(text, static_cast<size_t>(at->position()) + 1));
      for (std::string statement; std::getline(body, statement, ';');) {
        static const std::regex field("[\\s\\S]*[\\s*&>](\\w+)\\s*");
        std::smatch match;
        const std::string declared = statement.substr(0, statement.find('='));
        const bool function =
            declared.find('(') != std::string::npos && declared.find("std::function") == std::string::npos;
        if (!function && declared.find("operator") == std::string::npos &&
            declared.find("enum ") == std::string::npos && declared.find("friend ") == std::string::npos &&
            declared.find("using ") == std::string::npos && std::regex_match(declared, match, field)) {
          fields.insert(type + "." + match[1].str());
        }
      }
    }
  }
  return fields;
}

TEST(OperationFieldsTest, EveryFieldHasACheck) {
  std::set<std::string> checked;
  for (const FieldCheck& field : FieldChecks()) checked.insert(field.name);
  const std::set<std::string> fields = FieldsOfTheHeaders();
  EXPECT_GT(fields.size(), 100u) << "the headers were not read";
  for (const std::string& field : fields) {
    EXPECT_EQ(checked.count(field) + CheckedElsewhere().count(field), 1u) << field << " has no check";
  }
}

void Fill(DB* db) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "a", "1"));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "b", "1"));
    ASSERT_OK(db->Merge(rocksdb::WriteOptions(), "merged", "1"));
    ASSERT_OK(db->Delete(rocksdb::WriteOptions(), "gone"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
}

// Calls check(database, what, outcome) for what `each` says of each kind, and compares it with the stock one's.
void ForEachKind(const std::function<std::map<std::string, std::string>(const Database&)>& outcomes) {
  const TempDir dir;
  std::map<std::string, std::string> stock;
  for (const std::string kind : kKinds) {
    SCOPED_TRACE(kind);
    const rocksdb::Options options = OptionsFor(kind);
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, dir / kind, port::Into(&db)));
    ASSERT_NO_FATAL_FAILURE(Fill(db.get()));
    const auto found = outcomes(Database{db.get(), options, dir, kind});
    if (kind == kStock) stock = found;
    for (const auto& [what, outcome] : found) {
      EXPECT_EQ(outcome, kind == kStock ? outcome : Expected(kind, what, stock[what])) << what;
    }
  }
}

TEST(OperationFieldsTest, EveryFieldIsObeyedOrRefused) {
  ForEachKind([](const Database& database) {
    std::map<std::string, std::string> outcomes;
    for (const FieldCheck& field : FieldChecks()) {
      if (field.check != nullptr) outcomes[field.name] = field.check(database);
    }
    return outcomes;
  });
}

// The names of the events that it hears.
class Listener : public rocksdb::EventListener {
 public:
#define EVENT(NAME, ...) \
  void NAME(__VA_ARGS__) override { Hear(#NAME); }
  EVENT(OnFlushBegin, DB*, const rocksdb::FlushJobInfo&)
  EVENT(OnFlushCompleted, DB*, const rocksdb::FlushJobInfo&)
  EVENT(OnManualFlushScheduled, DB*, const std::vector<rocksdb::ManualFlushInfo>&)
  EVENT(OnTableFileDeleted, const rocksdb::TableFileDeletionInfo&)
  EVENT(OnCompactionBegin, DB*, const rocksdb::CompactionJobInfo&)
  EVENT(OnCompactionCompleted, DB*, const rocksdb::CompactionJobInfo&)
  EVENT(OnSubcompactionBegin, const rocksdb::SubcompactionJobInfo&)
  EVENT(OnSubcompactionCompleted, const rocksdb::SubcompactionJobInfo&)
  EVENT(OnTableFileCreated, const rocksdb::TableFileCreationInfo&)
  EVENT(OnTableFileCreationStarted, const rocksdb::TableFileCreationBriefInfo&)
  EVENT(OnMemTableSealed, const rocksdb::MemTableInfo&)
  EVENT(OnColumnFamilyHandleDeletionStarted, ColumnFamilyHandle*)
  EVENT(OnExternalFileIngested, DB*, const rocksdb::ExternalFileIngestionInfo&)
  EVENT(OnBackgroundError, rocksdb::BackgroundErrorReason, Status*)
  EVENT(OnStallConditionsChanged, const rocksdb::WriteStallInfo&)
  EVENT(OnFileReadFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileWriteFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileFlushFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileSyncFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileRangeSyncFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileTruncateFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnFileCloseFinish, const rocksdb::FileOperationInfo&)
  EVENT(OnErrorRecoveryBegin, rocksdb::BackgroundErrorReason, Status, bool*)
  EVENT(OnErrorRecoveryEnd, const rocksdb::BackgroundErrorRecoveryInfo&)
  EVENT(OnBlobFileCreationStarted, const rocksdb::BlobFileCreationBriefInfo&)
  EVENT(OnBlobFileCreated, const rocksdb::BlobFileCreationInfo&)
  EVENT(OnBlobFileDeleted, const rocksdb::BlobFileDeletionInfo&)
  EVENT(OnIOError, const rocksdb::IOErrorInfo&)
#undef EVENT
  bool ShouldBeNotifiedOnFileIO() override { return true; }

  std::set<std::string> heard() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return heard_;
  }

 private:
  void Hear(const char* event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_.insert(event);
  }

  std::mutex mutex_;
  std::set<std::string> heard_;
};

// Those that the work below makes on a stock database; others come of errors and stalls, or are elsewhere.
const std::map<std::string, std::string>& OtherEvents() {
  static const auto* const others = new std::map<std::string, std::string>{
      {"OnBackgroundError", "shutdown_test"},
      {"OnErrorRecoveryBegin", "shutdown_test"},
      {"OnErrorRecoveryEnd", "shutdown_test"},
      {"OnErrorRecoveryCompleted", "OnErrorRecoveryEnd has replaced it"},
      {"OnIOError", "of a file system with errors"},
      {"OnStallConditionsChanged", "trie_scheduler_test"},
      {"OnFileRangeSyncFinish", "with bytes_per_sync"},
      {"OnFileTruncateFinish", "of files that are written directly"},
      {"OnBackgroundJobPressureChanged", "of RocksDB's own threads"},
      {"OnCompactionPreCommit", "release_test"},
      {"OnDBShutdownBegin", "release_test"},
  };
  return *others;
}

// Values in blob files, a table that is ingested, a family that goes; flushed and compacted.
std::set<std::string> EventsOf(const std::string& kind, const std::string& path, const TempDir& dir) {
  rocksdb::Options options = OptionsFor(kind);
  const auto listener = std::make_shared<Listener>();
  options.listeners.push_back(listener);
  options.enable_blob_files = true;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 1;
  std::unique_ptr<DB> db;
  EXPECT_OK(DB::Open(options, path, port::Into(&db)));
  Fill(db.get());
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_OK(db->CreateColumnFamily(options, "dropped", &handle));
  EXPECT_OK(db->DropColumnFamily(handle));
  EXPECT_OK(db->DestroyColumnFamilyHandle(handle));
  EXPECT_OK(db->IngestExternalFile({NewTable(Database{db.get(), options, dir, kind + "_events"}, "ingested")}, {}));
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  EXPECT_OK(db->CompactRange(compact, nullptr, nullptr));
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
  rocksdb::WaitForCompactOptions wait;
  wait.close_db = true;
  EXPECT_OK(db->WaitForCompact(wait));
  db.reset();
  return listener->heard();
}

TEST(OperationFieldsTest, ListenersHearWhatAStockDatabaseTells) {
  const TempDir dir;
  const std::set<std::string> stock = EventsOf(kStock, dir / kStock, dir);
  const std::string header = Header("listener.h");
  const std::string body = header.substr(header.find("class EventListener "));
  const std::regex event("virtual void (On\\w+)\\(");
  for (std::sregex_iterator at(body.begin(), body.end(), event), end; at != end; ++at) {
    const std::string name = (*at)[1];
    EXPECT_EQ(stock.count(name) + OtherEvents().count(name), 1u) << name << " has no check";
  }
  for (const std::string kind : kKinds) {
    SCOPED_TRACE(kind);
    const std::set<std::string> heard = EventsOf(kind, dir / ("events_" + kind), dir);
    for (const std::string& name : stock) {
      EXPECT_EQ(heard.count(name) > 0 ? "heard" : "not heard", Expected(kind, name, "heard")) << name;
    }
  }
}

std::map<std::string, std::function<std::string(const Database&)>> ExperimentalChecks() {
  namespace experimental = rocksdb::experimental;
  return {
      {"SuggestCompactRange",
       [](const Database& d) { return Outcome(experimental::SuggestCompactRange(d.db, nullptr, nullptr)); }},
      {"PromoteL0",
       [](const Database& d) { return Outcome(experimental::PromoteL0(d.db, d.db->DefaultColumnFamily(), 1)); }},
      {"GetFileChecksumsFromCurrentManifest",
       [](const Database& d) {
         const std::unique_ptr<rocksdb::FileChecksumList> list(rocksdb::NewFileChecksumList());
         return Outcome(experimental::GetFileChecksumsFromCurrentManifest(rocksdb::FileSystem::Default().get(),
                                                                          d.db->GetName(), list.get())) +
                (list->size() > 0 ? " files" : " none");
       }},
      // Of a database that is closed.
      {"UpdateManifestForFilesState",
       [](const Database& d) {
         const std::string path = d.NewName();
         DB* db = nullptr;
         EXPECT_OK(DB::Open(OptionsFor(d.kind), path, port::Into(&db)));
         Fill(db);
         rocksdb::Options options = db->GetOptions();
         options.info_log = nullptr;
         delete db;
         const Status s =
             experimental::UpdateManifestForFilesState(options, path, {{rocksdb::kDefaultColumnFamilyName, options}});
         EXPECT_OK(DB::Open(OptionsFor(d.kind), path, port::Into(&db)));
         std::string value;
         EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
         delete db;
         return Outcome(s) + value;
       }},
      // Filters by segments of keys are a collector of table properties and a table_filter.
      {"MakeSharedCappedKeySegmentsExtractor",
       [](const Database&) { return experimental::MakeSharedCappedKeySegmentsExtractor({1})->GetId(); }},
      {"MakeSharedBytewiseMinMaxSQFC",
       [](const Database& d) {
         experimental::SstQueryFilterConfigs configs{
             {experimental::MakeSharedBytewiseMinMaxSQFC(experimental::SelectKeySegment(0))},
             experimental::MakeSharedCappedKeySegmentsExtractor({1})};
         std::shared_ptr<experimental::SstQueryFilterConfigsManager> manager;
         EXPECT_OK(experimental::SstQueryFilterConfigsManager::MakeShared({{1, {{"config", configs}}}}, &manager));
         std::shared_ptr<experimental::SstQueryFilterConfigsManager::Factory> factory;
         EXPECT_OK(manager->MakeSharedFactory("config", 1, &factory));
         rocksdb::Options options = OptionsFor(d.kind);
         options.table_properties_collector_factories.push_back(factory);
         std::unique_ptr<DB> db;
         EXPECT_OK(DB::Open(options, d.NewName(), port::Into(&db)));
         Fill(db.get());
         const Slice begin("x"), end("z");
         rocksdb::ReadOptions read;
         read.table_filter = factory->GetTableFilterForRangeQuery(begin, end);
         const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(read));
         it->SeekToFirst();
         return it->Valid() ? it->key().ToString() : "no table";
       }},
  };
}

TEST(OperationFieldsTest, ExperimentalFunctionsDoAsOnAStockDatabase) {
  const auto checks = ExperimentalChecks();
  const std::string header = Header("experimental.h");
  const std::regex function("\n(?:Status |std::shared_ptr<[^>]*>\\s+)?(\\w+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator at(header.begin(), header.end(), function), end; at != end; ++at) names.insert((*at)[1]);
  names.erase("MakeSharedReverseBytewiseMinMaxSQFC");  // as MakeSharedBytewiseMinMaxSQFC
  EXPECT_GT(names.size(), 4u) << "the header was not read";
  for (const std::string& name : names) EXPECT_EQ(checks.count(name), 1u) << name << " has no check";
  ForEachKind([&](const Database& database) {
    std::map<std::string, std::string> outcomes;
    for (const auto& [name, check] : checks) outcomes[name] = check(database);
    return outcomes;
  });
}

}  // namespace
}  // namespace cairn::test
