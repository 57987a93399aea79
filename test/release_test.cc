// What releases of RocksDB after 9.10 brought, on every kind of engine: it works, or it is refused by an error that
// names it. docs/guide/building.md has the table. Options are given by name, so this program knows of no release; what
// the RocksDB at hand does not have is skipped.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/table_properties_collectors.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/later_releases.h"

namespace cairn::test {
namespace {

Status FillDurable(Options* options) {
  SubMemTableOptions memtable;
  memtable.durable = true;
  options->memtable_factory = NewSubMemTableFactory(memtable);
  return FindEngine("leveled")->fill(options);
}

Status FillHashOrder(Options* options) {
  Status s = FindEngine("trie_tiny")->fill(options);
  options->sst_partitioner_factory = nullptr;
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->num_levels = 7;
  return s;
}

const std::vector<Engine>& EnginesHere() {
  static const auto* const engines = [] {
    auto* const all = new std::vector<Engine>;
    for (const char* name : {"leveled", "leveled_sub", "round_robin", "ordered", "ordered_trie", "trie_tiny",
                             "trie_htable", "trie_ect", "silt_pinned"}) {
      all->push_back(*FindEngine(name));
    }
    all->push_back({"durable", FillDurable, false, 0});
    all->push_back({"hash_order", FillHashOrder, false, 0});
    return all;
  }();
  return *engines;
}

bool InHashOrder(const std::string& engine) {
  return engine.find("trie") == 0 || engine.find("silt") == 0 || engine == "hash_order";
}

// Options by name, as OPTIONS files have them; of the table they are set before the engine takes it.
struct Settings {
  const char* database = "";
  const char* family = "";
  const char* table = "";
};

enum class Known { kYes, kNo };

Known FillOptions(const Engine& engine, const Settings& settings, Options* options) {
  *options = BaseOptions();
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  const auto* before = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  rocksdb::BlockBasedTableOptions table;
  Status s = rocksdb::GetBlockBasedTableOptionsFromString(config, *before, settings.table, &table);
  if (!s.ok()) return Known::kNo;
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  EXPECT_OK(engine.fill(options));
  rocksdb::DBOptions database;
  rocksdb::ColumnFamilyOptions family;
  if (!rocksdb::GetDBOptionsFromString(config, *options, settings.database, &database).ok()) return Known::kNo;
  if (!rocksdb::GetColumnFamilyOptionsFromString(config, *options, settings.family, &family).ok()) return Known::kNo;
  *options = Options(database, family);
  return Known::kYes;
}

using Model = std::map<std::string, std::string>;

std::string Key(int i) { return "key" + std::to_string(100000 + i * 7919 % 100000); }

// `number` keys in a few tables: written, overwritten, deleted.
void Fill(DB* db, int number, const std::string& round, Model* model) {
  for (int i = 0; i < number; ++i) {
    const std::string key = Key(i);
    if (i % 5 == 4) {
      ASSERT_OK(db->Delete(rocksdb::WriteOptions(), key));
      model->erase(key);
    } else {
      const std::string value = round + std::string(i % 3 == 0 ? 900 : i % 40, static_cast<char>('a' + i % 26));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, value));
      (*model)[key] = value;
    }
    if (i % 150 == 149) ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
}

void CheckIterator(DB* db, const rocksdb::ReadOptions& read, const Model& model) {
  const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(read));
  Model forward;
  for (at->SeekToFirst(); at->Valid(); at->Next()) forward[at->key().ToString()] = at->value().ToString();
  ASSERT_OK(at->status());
  EXPECT_TRUE(forward == model) << forward.size() << " entries instead of " << model.size();
  size_t backward = 0;
  for (at->SeekToLast(); at->Valid(); at->Prev()) ++backward;
  ASSERT_OK(at->status());
  EXPECT_EQ(backward, model.size());
}

void CheckContents(DB* db, const Model& model, int number) {
  std::vector<std::string> keys;
  for (int i = 0; i < number; ++i) keys.push_back(Key(i));
  std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  db->MultiGet(rocksdb::ReadOptions(), db->DefaultColumnFamily(), keys.size(), slices.data(), values.data(),
               statuses.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto expected = model.find(keys[i]);
    std::string value;
    const Status s = db->Get(rocksdb::ReadOptions(), keys[i], &value);
    if (expected == model.end()) {
      ASSERT_TRUE(s.IsNotFound()) << keys[i] << ": " << s.ToString();
      ASSERT_TRUE(statuses[i].IsNotFound()) << keys[i] << ": " << statuses[i].ToString();
    } else {
      ASSERT_OK(s);
      ASSERT_OK(statuses[i]);
      ASSERT_EQ(value, expected->second) << keys[i];
      ASSERT_EQ(values[i].ToString(), expected->second) << keys[i];
    }
  }
  rocksdb::ReadOptions refreshing;
  rocksdb::ManagedSnapshot snapshot(db);
  refreshing.snapshot = snapshot.snapshot();
  port::RefreshByItself(&refreshing);
  CheckIterator(db, refreshing, model);
}

Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  const Status s = cairn::Open(options, path, port::Into(db));
  return s;
}

// Everything that an engine does, with the options on.
void CheckThatItWorks(const Engine& engine, const Options& options) {
  constexpr int kNumber = 450;
  const TempDir dir;
  Model model;
  std::unique_ptr<DB> db;
  ASSERT_OK(Open(options, dir / "db", &db));
  for (const char* round : {"first", "second"}) {
    ASSERT_NO_FATAL_FAILURE(Fill(db.get(), kNumber, round, &model));
    ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, kNumber));
  }
  ASSERT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), engine.trie));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, kNumber));
  ASSERT_OK(db->VerifyChecksum());
  ASSERT_NO_FATAL_FAILURE(Fill(db.get(), 100, "third", &model));  // stays in the memtable
  ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, kNumber));
  if (options.enable_blob_files) ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->Close());
  ASSERT_OK(Open(options, dir / "db", &db));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, kNumber));
  ASSERT_OK(db->Close());
}

enum class Refusing { kNone, kTries, kEct, kHashOrder, kHashOrderBlocks, kDurable };

bool Refuses(Refusing refusing, const Engine& engine) {
  const std::string name = engine.name;
  switch (refusing) {
    case Refusing::kNone:
      return false;
    case Refusing::kTries:
      return engine.trie;
    case Refusing::kEct:
      return name.find("silt") == 0 || name == "trie_ect";
    case Refusing::kHashOrder:
      return InHashOrder(name);
    case Refusing::kHashOrderBlocks:
      return InHashOrder(name) && name != "trie_htable";
    case Refusing::kDurable:
      return name == "durable";
  }
  return false;
}

struct Case {
  const char* name;
  Settings settings;
  Refusing refusing = Refusing::kNone;
  const char* message = "";  // part of it
};

void PrintTo(const Case& what, std::ostream* out) { *out << what.name; }

Settings OfDatabase(const char* text) { return {text, "", ""}; }
Settings OfFamily(const char* text) { return {"", text, ""}; }
Settings OfTable(const char* text) { return {"", "", text}; }

class NewOptionTest : public ::testing::TestWithParam<Case> {};

TEST_P(NewOptionTest, WorksOrIsRefused) {
  const Case& what = GetParam();
  for (const Engine& engine : EnginesHere()) {
    SCOPED_TRACE(engine.name);
    Options options;
    if (FillOptions(engine, what.settings, &options) == Known::kNo) GTEST_SKIP() << "this RocksDB does not have it";
    if (!Refuses(what.refusing, engine)) {
      CheckThatItWorks(engine, options);
      if (HasFatalFailure()) return;
      continue;
    }
    const TempDir dir;
    std::unique_ptr<DB> db;
    const Status s = Open(options, dir / "db", &db);
    EXPECT_TRUE(s.IsNotSupported() || s.IsInvalidArgument()) << s.ToString();
    EXPECT_NE(s.ToString().find(what.message), std::string::npos) << s.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, NewOptionTest,
    ::testing::Values(
        Case{"open_files_async", OfDatabase("open_files_async=true;skip_stats_update_on_db_open=true")},
        Case{"async_wal_precreate", OfDatabase("async_wal_precreate=true")},
        Case{"verify_manifest_content_on_close", OfDatabase("verify_manifest_content_on_close=true")},
        Case{"optimize_manifest_for_recovery", OfDatabase("optimize_manifest_for_recovery=true")},
        Case{"reuse_manifest_on_open", OfDatabase("reuse_manifest_on_open=true;max_manifest_space_amp_pct=100")},
        Case{"fast_sst_open", OfDatabase("fast_sst_open=true")},
        Case{"track_and_verify_wals", OfDatabase("track_and_verify_wals=true")},
        Case{"target_file_size_is_upper_bound", OfFamily("target_file_size_is_upper_bound=true")},
        Case{"memtable_verify_per_key_checksum_on_seek",
             OfFamily("memtable_verify_per_key_checksum_on_seek=true;memtable_protection_bytes_per_key=8")},
        Case{"memtable_op_scan_flush_trigger",
             OfFamily("memtable_op_scan_flush_trigger=3;memtable_avg_op_scan_flush_trigger=2")},
        Case{"memtable_batch_lookup_optimization", OfFamily("memtable_batch_lookup_optimization=true")},
        Case{"cf_allow_ingest_behind", OfFamily("cf_allow_ingest_behind=true")},
        Case{"min_tombstones_for_range_conversion", OfFamily("min_tombstones_for_range_conversion=2"),
             Refusing::kHashOrder, "min_tombstones_for_range_conversion"},
        Case{"read_triggered_compaction_threshold", OfFamily("read_triggered_compaction_threshold=0.0001"),
             Refusing::kTries, "read_triggered_compaction_threshold"},
        Case{"enable_blob_direct_write",
             {"allow_concurrent_memtable_write=false;enable_pipelined_write=false",
              "enable_blob_files=true;min_blob_size=500;enable_blob_direct_write=true", ""},
             Refusing::kDurable,
             "enable_blob_direct_write"},
        Case{"index_search_auto", OfTable("index_block_search_type=kAuto;uniform_cv_threshold=0.5")},
        Case{"index_search_by_interpolation", OfTable("index_block_search_type=kInterpolation"), Refusing::kHashOrder,
             "BytewiseComparator"},
        Case{"separate_key_value_in_data_block", OfTable("separate_key_value_in_data_block=true")},
        Case{"parallel_compression", OfFamily("compression=kZSTD;compression_opts={parallel_threads=4}"),
             Refusing::kEct, "parallel compression"},
        Case{"super_block_alignment", OfTable("super_block_alignment_size=16384"), Refusing::kEct,
             "super_block_alignment_size"},
        Case{"user_defined_index", OfTable("user_defined_index_factory=trie_index"), Refusing::kHashOrderBlocks,
             "user_defined_index_factory trie_index"},
        Case{"user_defined_index_as_primary",
             OfTable("user_defined_index_factory=trie_index;use_udi_as_primary_index=true"), Refusing::kHashOrderBlocks,
             "user_defined_index_factory trie_index"}),
    [](const ::testing::TestParamInfo<Case>& test) { return std::string(test.param.name); });

class ReleaseTest : public ::testing::TestWithParam<Engine> {
 protected:
  void OpenDb(const Settings& settings = {}) {
    if (FillOptions(GetParam(), settings, &options_) == Known::kNo) return;
    ASSERT_OK(Open(options_, dir_ / "db", &db_));
  }

  std::string NewTable(const std::string& name, const Model& contents) {
    std::string file = dir_ / name;
    EXPECT_OK(WriteTable(file, db_->GetOptions(), contents, db_->DefaultColumnFamily()));
    return file;
  }

  const TempDir dir_;
  Options options_;
  std::unique_ptr<DB> db_;
};

// What is ingested behind stays behind, though the option is the column family's own.
TEST_P(ReleaseTest, IngestsBehindOneFamily) {
  ASSERT_NO_FATAL_FAILURE(OpenDb(OfFamily("cf_allow_ingest_behind=true")));
  if (db_ == nullptr) GTEST_SKIP() << "this RocksDB does not have it";
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "written", &model));
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  Model behind;
  for (int i = 0; i < 450; i += 3) behind[Key(i)] = "old";
  behind["not written"] = "old";
  rocksdb::IngestExternalFileOptions ingestion;
  ingestion.ingest_behind = true;
  const Status ingested = db_->IngestExternalFile({NewTable("behind.sst", behind)}, ingestion);
  if (options_.compaction_style == rocksdb::kCompactionStyleLevel && ingested.IsInvalidArgument()) {
    GTEST_SKIP() << "leveled compaction uses the last level";
  }
  ASSERT_OK(ingested);
  // Tombstones are kept for what comes behind, so that what was deleted before stays away.
  model["not written"] = "old";
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 450));
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "again", &model));
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 450));
}

// Tables of mostly tombstones are compacted for that alone.
TEST_P(ReleaseTest, DenseTombstonesAreCompacted) {
  ASSERT_EQ(FillOptions(GetParam(), {}, &options_), Known::kYes);
  options_.table_properties_collector_factories.push_back(rocksdb::NewCompactOnDeletionCollectorFactory(50, 25));
  options_.level0_file_num_compaction_trigger = 20;
  ASSERT_OK(Open(options_, dir_ / "db", &db_));
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "written", &model));
  ASSERT_OK(db_->WaitForCompact({}));
  for (int i = 0; i < 450; ++i) {
    if (i % 10 == 0) continue;
    ASSERT_OK(db_->Delete(rocksdb::WriteOptions(), Key(i)));
    model.erase(Key(i));
  }
  ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db_->WaitForCompact({}));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 450));
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(db_->GetPropertiesOfAllTables(&tables));
  uint64_t tombstones = 0;  // without the collector 150 and more are left, but in tries of these small tables
  for (const auto& table : tables) tombstones += table.second->num_deletions;
  EXPECT_EQ(tombstones, 0);
}

TEST_P(ReleaseTest, IngestionReplacesEverything) {
  ASSERT_NO_FATAL_FAILURE(OpenDb());
  rocksdb::IngestExternalFileArg argument;
  if (!port::ReplaceAll(&argument)) GTEST_SKIP() << "this RocksDB does not have it";
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "written", &model));
  model.clear();
  for (int i = 0; i < 450; i += 3) model[Key(i)] = "new";
  argument.column_family = db_->DefaultColumnFamily();
  argument.external_files = {NewTable("all.sst", model)};
  ASSERT_OK(db_->WaitForCompact({}));
  ASSERT_OK(db_->IngestExternalFiles({argument}));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 450));
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "again", &model));
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 450));
}

TEST_P(ReleaseTest, IngestionReplacesARangeWhereThereAreRanges) {
  ASSERT_NO_FATAL_FAILURE(OpenDb());
  rocksdb::IngestExternalFileArg argument;
  if (!port::ReplaceRange(&argument, "key", "kez")) GTEST_SKIP() << "this RocksDB does not have it";
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 300, "written", &model));
  const Model replacing = {{"key1", "new"}};
  argument.column_family = db_->DefaultColumnFamily();
  argument.external_files = {NewTable("range.sst", replacing)};
  ASSERT_OK(db_->WaitForCompact({}));
  const Status s = db_->IngestExternalFiles({argument});
  if (InHashOrder(GetParam().name)) {
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    EXPECT_NE(s.ToString().find("atomic_replace_range"), std::string::npos) << s.ToString();
    ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), model, 300));
    return;
  }
  ASSERT_OK(s);
  ASSERT_NO_FATAL_FAILURE(CheckContents(db_.get(), replacing, 300));
}

// What is known of a live table suffices to ingest it elsewhere, sequence numbers and all.
TEST_P(ReleaseTest, LiveTablesAreIngestedUnread) {
  ASSERT_NO_FATAL_FAILURE(OpenDb());
  // The same seed, where there is one.
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db_.get(), port::Into(&checkpoint)));
  ASSERT_OK(checkpoint->CreateCheckpoint(dir_ / "other"));
  Model model;
  for (int i = 0; i < 100; ++i) {
    model[Key(i)] = "value " + std::to_string(i);
    ASSERT_OK(db_->Put(rocksdb::WriteOptions(), Key(i), model[Key(i)]));
  }
  ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 1u);
  Options others;
  ASSERT_EQ(FillOptions(GetParam(), {}, &others), Known::kYes);
  std::unique_ptr<DB> other;
  ASSERT_OK(Open(others, dir_ / "other", &other));
  Status s;
  if (!port::IngestLiveTable(db_.get(), files[0].db_path + files[0].name, other.get(), &s)) {
    GTEST_SKIP() << "this RocksDB does not have it";
  }
  ASSERT_OK(s);
  ASSERT_NO_FATAL_FAILURE(CheckContents(other.get(), model, 100));
}

// What RocksDB's compactions tell listeners. Those of a trie are CompactFiles calls, of which they hear when one begins
// and when it has ended (trie_events_test), but not before it is committed.
TEST_P(ReleaseTest, ListenersHearOfNewEvents) {
  if (!port::kHasNewEvents) GTEST_SKIP() << "this RocksDB does not have them";
  const auto events = std::make_shared<port::NewEvents>();
  ASSERT_EQ(FillOptions(GetParam(), {}, &options_), Known::kYes);
  options_.listeners.push_back(events);
  ASSERT_OK(Open(options_, dir_ / "db", &db_));
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db_.get(), 450, "written", &model));
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  EXPECT_EQ(events->precommits > 0, !GetParam().trie);
  EXPECT_EQ(events->shutdowns, 0);
  ASSERT_OK(db_->Close());
  EXPECT_EQ(events->shutdowns, 1);
}

// A transaction that becomes a memtable of its own when it commits.
TEST_P(ReleaseTest, TransactionsThatBypassTheMemtable) {
  ASSERT_EQ(FillOptions(GetParam(), {}, &options_), Known::kYes);
  rocksdb::TransactionDB* opened = nullptr;
  const Status s = rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), dir_ / "db", &opened);
  const std::unique_ptr<rocksdb::TransactionDB> db(opened);
  if (!s.ok()) {
    EXPECT_EQ(std::string(GetParam().name), "durable") << s.ToString();
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    return;
  }
  Model model;
  ASSERT_NO_FATAL_FAILURE(Fill(db.get(), 300, "written", &model));
  rocksdb::TransactionOptions bypassing;
  bypassing.commit_bypass_memtable = true;
  const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions(), bypassing));
  ASSERT_OK(transaction->SetName("bypassing"));
  for (int i = 0; i < 300; ++i) {
    if (i % 7 == 0) {
      ASSERT_OK(transaction->Delete(Key(i)));
      model.erase(Key(i));
    } else if (i % 7 == 1) {
      ASSERT_OK(transaction->Put(Key(i), "in a transaction"));
      model[Key(i)] = "in a transaction";
    }
  }
  ASSERT_OK(transaction->Prepare());
  ASSERT_OK(transaction->Commit());
  ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, 300));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_NO_FATAL_FAILURE(CheckContents(db.get(), model, 300));
}

INSTANTIATE_TEST_SUITE_P(Engines, ReleaseTest, ::testing::ValuesIn(EnginesHere()), EngineName);

}  // namespace
}  // namespace cairn::test
