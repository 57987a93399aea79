// Every virtual function of rocksdb::DB, called on a database of each kind and on a stock one: the outcomes are the
// same, or the difference stands here with its reason. The header itself says which functions there are, so a new one
// fails this test.

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "db/cairn_db.h"
#include "db/write_callback.h"
#include "gtest/gtest.h"
#include "rocksdb/comparator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/stats_history.h"
#include "rocksdb/trace_reader_writer.h"
#include "rocksdb/utilities/replayer.h"
#include "rocksdb/wide_columns.h"
#include "test/support.h"
#include "test/testutil/db_functions.h"
#include "test/testutil/ingest_again.h"

namespace cairn::test {
namespace {

enum class Kind { kStock, kTrie, kSubMemTables, kDurable, kOrdered, kKeyTrie, kSilt };
const char* const kKindNames[] = {"stock", "trie", "sub-MemTables", "durable", "ordered", "ordered_trie", "silt"};
const char* const kEngines[] = {"leveled", "trie_tiny", "leveled", "leveled", "ordered", "ordered_trie", "silt_pinned"};

rocksdb::Options OptionsFor(Kind kind) {
  rocksdb::Options options = OptionsOf(*FindEngine(kEngines[static_cast<int>(kind)]));
  options.statistics = rocksdb::CreateDBStatistics();
  options.stats_persist_period_sec = 600;
  options.merge_operator = nullptr;
  SubMemTableOptions memtable;
  memtable.durable = kind == Kind::kDurable;
  if (kind == Kind::kSubMemTables || kind == Kind::kDurable) options.memtable_factory = NewSubMemTableFactory(memtable);
  return options;
}

struct Context {
  DB* db;
  ColumnFamilyHandle* family;
  const rocksdb::Options& options;
  const TempDir& dir;
  std::string name;  // of this kind, for files beside the database
};

// What a program sees: of a status its kind, not its words.
std::string Outcome(const Status& s) { return s.ok() ? "OK" : s.ToString().substr(0, s.ToString().find(':')); }

using Check = std::function<std::string(const Context&)>;

std::string TraceFile(const Context& c) { return c.dir / (c.name + ".trace"); }

std::unique_ptr<rocksdb::TraceWriter> NewTrace(const Context& c) {
  std::unique_ptr<rocksdb::TraceWriter> writer;
  EXPECT_OK(rocksdb::NewFileTraceWriter(rocksdb::Env::Default(), rocksdb::EnvOptions(), TraceFile(c), &writer));
  return writer;
}

std::string NewTable(const Context& c, const std::string& name) {
  const std::string file = c.dir / (c.name + name + ".sst");
  EXPECT_OK(WriteTable(file, c.db->GetOptions(c.family), {{"ingested", "value"}}, c.family));
  return file;
}

std::string Ingest(const Context& c, bool through_list) {
  const std::string file = NewTable(c, through_list ? "2" : "1");
  if (!through_list) return Outcome(c.db->IngestExternalFile(c.family, {file}, rocksdb::IngestExternalFileOptions()));
  rocksdb::IngestExternalFileArg argument;
  argument.column_family = c.family;
  argument.external_files = {file};
  return Outcome(c.db->IngestExternalFiles({argument}));
}

std::map<std::string, Check> ChecksOfAllReleases() {
  return {
      {"Put", [](const Context& c) { return Outcome(c.db->Put(WriteOptions(), c.family, "a", "1")); }},
      {"PutEntity",
       [](const Context& c) {
         return Outcome(
             c.db->PutEntity(WriteOptions(), c.family, "entity", rocksdb::WideColumns{{"", "d"}, {"c", "1"}}));
       }},
      {"Delete", [](const Context& c) { return Outcome(c.db->Delete(WriteOptions(), c.family, "gone")); }},
      {"SingleDelete",
       [](const Context& c) { return Outcome(c.db->SingleDelete(WriteOptions(), c.family, "gone once")); }},
      {"DeleteRange", [](const Context& c) { return Outcome(c.db->DeleteRange(WriteOptions(), c.family, "x", "y")); }},
      {"Merge", [](const Context& c) { return Outcome(c.db->Merge(WriteOptions(), c.family, "m", "1")); }},
      {"Write",
       [](const Context& c) {
         rocksdb::WriteBatch batch;
         EXPECT_OK(batch.Put(c.family, "b", "1"));
         return Outcome(c.db->Write(WriteOptions(), &batch));
       }},
      {"WriteWithCallback",
       [](const Context& c) {
         struct Callback : rocksdb::UserWriteCallback {
           void OnWriteEnqueued() override {}
           void OnWalWriteFinish() override {}
         } callback;
         rocksdb::WriteBatch batch;
         EXPECT_OK(batch.Put(c.family, "b", "2"));
         return Outcome(c.db->WriteWithCallback(WriteOptions(), &batch, &callback));
       }},
      {"Get",
       [](const Context& c) {
         std::string value;
         const Status s = c.db->Get(ReadOptions(), c.family, "a", &value);
         return Outcome(s) + " " + value;
       }},
      {"GetEntity",
       [](const Context& c) {
         rocksdb::PinnableWideColumns columns;
         return Outcome(c.db->GetEntity(ReadOptions(), c.family, "a", &columns)) +
                std::to_string(columns.columns().size());
       }},
      {"GetMergeOperands",
       [](const Context& c) {
         rocksdb::PinnableSlice operands[4];
         rocksdb::GetMergeOperandsOptions options;
         options.expected_max_number_of_operands = 4;
         int number = 0;
         const Status s = c.db->GetMergeOperands(ReadOptions(), c.family, "a", operands, &options, &number);
         return Outcome(s) + std::to_string(number);
       }},
      {"MultiGet",
       [](const Context& c) {
         std::vector<std::string> values;
         const auto statuses = c.db->MultiGet(ReadOptions(), {c.family, c.family},
                                              {rocksdb::Slice("a"), rocksdb::Slice("absent")}, &values);
         return Outcome(statuses[0]) + Outcome(statuses[1]) + values[0];
       }},
      {"MultiGetEntity",
       [](const Context& c) {
         const rocksdb::Slice keys[] = {"a", "absent"};
         rocksdb::PinnableWideColumns columns[2];
         Status statuses[2];
         c.db->MultiGetEntity(ReadOptions(), c.family, 2, keys, columns, statuses);
         return Outcome(statuses[0]) + Outcome(statuses[1]);
       }},
      {"KeyMayExist",
       [](const Context& c) {
         std::string value;
         return std::to_string(static_cast<int>(c.db->KeyMayExist(ReadOptions(), c.family, "a", &value)));
       }},
      {"NewIterator",
       [](const Context& c) {
         const std::unique_ptr<rocksdb::Iterator> at(c.db->NewIterator(ReadOptions(), c.family));
         at->Seek("a");
         return at->Valid() ? at->key().ToString() : Outcome(at->status());
       }},
      {"NewIterators",
       [](const Context& c) {
         std::vector<rocksdb::Iterator*> iterators;
         const Status s = c.db->NewIterators(ReadOptions(), {c.family}, &iterators);
         for (rocksdb::Iterator* at : iterators) delete at;
         return Outcome(s) + std::to_string(iterators.size());
       }},
      {"NewCoalescingIterator",
       [](const Context& c) {
         const auto at = c.db->NewCoalescingIterator(ReadOptions(), {c.family});
         at->Seek("a");
         return at->Valid() ? at->key().ToString() : Outcome(at->status());
       }},
      {"NewAttributeGroupIterator",
       [](const Context& c) {
         const auto at = c.db->NewAttributeGroupIterator(ReadOptions(), {c.family});
         at->Seek("a");
         return at->Valid() ? at->key().ToString() : Outcome(at->status());
       }},
      {"GetSnapshot",
       [](const Context& c) {
         const rocksdb::Snapshot* const snapshot = c.db->GetSnapshot();
         c.db->ReleaseSnapshot(snapshot);
         return std::string(snapshot == nullptr ? "null" : "snapshot");
       }},
      {"GetProperty",
       [](const Context& c) {
         std::string value;
         return std::to_string(static_cast<int>(c.db->GetProperty(c.family, DB::Properties::kStats, &value)));
       }},
      {"GetMapProperty",
       [](const Context& c) {
         std::map<std::string, std::string> value;
         return std::to_string(static_cast<int>(c.db->GetMapProperty(c.family, DB::Properties::kCFStats, &value)));
       }},
      {"GetIntProperty",
       [](const Context& c) {
         uint64_t value = 0;
         return std::to_string(
             static_cast<int>(c.db->GetIntProperty(c.family, DB::Properties::kCurSizeActiveMemTable, &value)));
       }},
      {"ResetStats", [](const Context& c) { return Outcome(c.db->ResetStats()); }},
      {"GetAggregatedIntProperty",
       [](const Context& c) {
         uint64_t value = 0;
         return std::to_string(
             static_cast<int>(c.db->GetAggregatedIntProperty(DB::Properties::kEstimateNumKeys, &value)));
       }},
      {"GetApproximateSizes",
       [](const Context& c) {
         // Debug builds of RocksDB assert that it begins before it ends.
         const bool ascends = c.family->GetComparator()->Compare("a", "b") <= 0;
         const rocksdb::Range range(ascends ? "a" : "b", ascends ? "b" : "a");
         uint64_t size = 0;
         return Outcome(c.db->GetApproximateSizes(rocksdb::SizeApproximationOptions(), c.family, &range, 1, &size));
       }},
      {"GetApproximateMemTableStats",
       [](const Context& c) {
         uint64_t count = 0;
         uint64_t size = 0;
         c.db->GetApproximateMemTableStats(c.family, rocksdb::Range("a", "b"), &count, &size);
         return std::string("called");
       }},
      {"CompactRange",
       [](const Context& c) {
         return Outcome(c.db->CompactRange(rocksdb::CompactRangeOptions(), c.family, nullptr, nullptr));
       }},
      {"SetOptions",
       [](const Context& c) {
         return Outcome(c.db->SetOptions(c.family, {{"write_buffer_size", "131072"}}));
       }},
      {"SetDBOptions",
       [](const Context& c) {
         return Outcome(c.db->SetDBOptions({{"max_background_jobs", "3"}}));
       }},
      {"CompactFiles",
       [](const Context& c) {
         return Outcome(c.db->CompactFiles(rocksdb::CompactionOptions(), c.family, {"000000.sst"}, 1));
       }},
      {"PauseBackgroundWork",
       [](const Context& c) {
         const Status s = c.db->PauseBackgroundWork();
         return Outcome(s) + Outcome(c.db->ContinueBackgroundWork());
       }},
      {"EnableAutoCompaction", [](const Context& c) { return Outcome(c.db->EnableAutoCompaction({c.family})); }},
      {"DisableManualCompaction",
       [](const Context& c) {
         c.db->DisableManualCompaction();
         const Status s = c.db->CompactRange(rocksdb::CompactRangeOptions(), c.family, nullptr, nullptr);
         c.db->EnableManualCompaction();
         return Outcome(s);
       }},
      {"WaitForCompact",
       [](const Context& c) { return Outcome(c.db->WaitForCompact(rocksdb::WaitForCompactOptions())); }},
      {"NumberLevels",
       [](const Context& c) { return std::to_string(c.db->NumberLevels(c.family) == c.options.num_levels ? 1 : 0); }},
      {"GetName", [](const Context& c) { return std::to_string(c.db->GetName().size() > 2 ? 1 : 0); }},
      {"GetEnv", [](const Context& c) { return std::to_string(c.db->GetEnv() == rocksdb::Env::Default() ? 1 : 0); }},
      {"GetFileSystem", [](const Context& c) { return std::to_string(c.db->GetFileSystem() != nullptr ? 1 : 0); }},
      {"GetOptions", [](const Context& c) { return std::to_string(c.db->GetOptions(c.family).write_buffer_size); }},
      {"GetDBOptions", [](const Context& c) { return std::to_string(c.db->GetDBOptions().stats_persist_period_sec); }},
      {"Flush", [](const Context& c) { return Outcome(c.db->Flush(rocksdb::FlushOptions(), {c.family})); }},
      {"FlushWAL", [](const Context& c) { return Outcome(c.db->FlushWAL(true)); }},
      {"SyncWAL", [](const Context& c) { return Outcome(c.db->SyncWAL()); }},
      {"LockWAL",
       [](const Context& c) {
         const Status s = c.db->LockWAL();
         return Outcome(s) + Outcome(c.db->UnlockWAL());
       }},
      {"GetLatestSequenceNumber",
       [](const Context& c) { return std::to_string(c.db->GetLatestSequenceNumber() > 0 ? 1 : 0); }},
      {"IncreaseFullHistoryTsLow",
       [](const Context& c) { return Outcome(c.db->IncreaseFullHistoryTsLow(c.family, "12345678")); }},
      {"GetFullHistoryTsLow",
       [](const Context& c) {
         std::string low;
         return Outcome(c.db->GetFullHistoryTsLow(c.family, &low));
       }},
      {"DisableFileDeletions",
       [](const Context& c) {
         const Status s = c.db->DisableFileDeletions();
         return Outcome(s) + Outcome(c.db->EnableFileDeletions());
       }},
      {"GetCreationTimeOfOldestFile",
       [](const Context& c) {
         uint64_t time = 0;
         return Outcome(c.db->GetCreationTimeOfOldestFile(&time));
       }},
      {"GetUpdatesSince",
       [](const Context& c) {
         std::unique_ptr<rocksdb::TransactionLogIterator> updates;
         return Outcome(c.db->GetUpdatesSince(c.db->GetLatestSequenceNumber() + 1, &updates));
       }},
      {"GetLiveFilesMetaData",
       [](const Context& c) {
         std::vector<rocksdb::LiveFileMetaData> metadata;
         c.db->GetLiveFilesMetaData(&metadata);
         return std::to_string(metadata.empty() ? 0 : 1);
       }},
      {"GetLiveFilesChecksumInfo",
       [](const Context& c) {
         const std::unique_ptr<rocksdb::FileChecksumList> list(rocksdb::NewFileChecksumList());
         return Outcome(c.db->GetLiveFilesChecksumInfo(list.get()));
       }},
      {"GetLiveFilesStorageInfo",
       [](const Context& c) {
         std::vector<rocksdb::LiveFileStorageInfo> files;
         return Outcome(c.db->GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions(), &files));
       }},
      {"GetColumnFamilyMetaData",
       [](const Context& c) {
         rocksdb::ColumnFamilyMetaData metadata;
         c.db->GetColumnFamilyMetaData(c.family, &metadata);
         return metadata.name + std::to_string(metadata.file_count > 0 ? 1 : 0);
       }},
      {"GetAllColumnFamilyMetaData",
       [](const Context& c) {
         std::vector<rocksdb::ColumnFamilyMetaData> metadata;
         c.db->GetAllColumnFamilyMetaData(&metadata);
         return std::to_string(metadata.size());
       }},
      {"GetLiveFiles",
       [](const Context& c) {
         std::vector<std::string> files;
         uint64_t manifest_bytes = 0;
         return Outcome(c.db->GetLiveFiles(files, &manifest_bytes));
       }},
      {"GetSortedWalFiles",
       [](const Context& c) {
         rocksdb::VectorWalPtr files;
         return Outcome(c.db->GetSortedWalFiles(files));
       }},
      {"GetCurrentWalFile",
       [](const Context& c) {
         std::unique_ptr<rocksdb::WalFile> file;
         return Outcome(c.db->GetCurrentWalFile(&file));
       }},
      {"IngestExternalFile", [](const Context& c) { return Ingest(c, false); }},
      {"IngestExternalFiles", [](const Context& c) { return Ingest(c, true); }},
      {"CreateColumnFamily",
       [](const Context& c) {
         ColumnFamilyHandle* handle = nullptr;
         const Status s = c.db->CreateColumnFamily(c.options, "added", &handle);
         if (s.ok()) {
           EXPECT_OK(c.db->DropColumnFamily(handle));
           EXPECT_OK(c.db->DestroyColumnFamilyHandle(handle));
         }
         return Outcome(s);
       }},
      {"CreateColumnFamilies",
       [](const Context& c) {
         std::vector<ColumnFamilyHandle*> handles;
         const Status s = c.db->CreateColumnFamilies(c.options, {"two", "three"}, &handles);
         EXPECT_OK(c.db->DropColumnFamilies(handles));
         for (ColumnFamilyHandle* handle : handles) EXPECT_OK(c.db->DestroyColumnFamilyHandle(handle));
         return Outcome(s);
       }},
      {"CreateColumnFamilyWithImport",
       [](const Context& c) {
         ColumnFamilyHandle* handle = nullptr;
         rocksdb::ExportImportFilesMetaData nothing;
         return Outcome(c.db->CreateColumnFamilyWithImport(c.options, "four", rocksdb::ImportColumnFamilyOptions(),
                                                           nothing, &handle));
       }},
      {"ClipColumnFamily", [](const Context& c) { return Outcome(c.db->ClipColumnFamily(c.family, "a", "zz")); }},
      {"VerifyFileChecksums", [](const Context& c) { return Outcome(c.db->VerifyFileChecksums(ReadOptions())); }},
      {"VerifyChecksum", [](const Context& c) { return Outcome(c.db->VerifyChecksum()); }},
      {"GetDbIdentity",
       [](const Context& c) {
         std::string identity;
         return Outcome(c.db->GetDbIdentity(identity)) + std::to_string(identity.size());
       }},
      {"GetDbSessionId",
       [](const Context& c) {
         std::string session;
         return Outcome(c.db->GetDbSessionId(session)) + std::to_string(session.size());
       }},
      {"DefaultColumnFamily", [](const Context& c) { return c.db->DefaultColumnFamily()->GetName(); }},
      {"GetPropertiesOfAllTables",
       [](const Context& c) {
         rocksdb::TablePropertiesCollection properties;
         return Outcome(c.db->GetPropertiesOfAllTables(c.family, &properties)) +
                std::to_string(properties.empty() ? 0 : 1);
       }},
      {"GetPropertiesOfTablesInRange",
       [](const Context& c) {
         rocksdb::TablePropertiesCollection properties;
         const rocksdb::Range range("a", "b");
         return Outcome(c.db->GetPropertiesOfTablesInRange(c.family, &range, 1, &properties));
       }},
      {"SuggestCompactRange",
       [](const Context& c) { return Outcome(c.db->SuggestCompactRange(c.family, nullptr, nullptr)); }},
      {"StartTrace",
       [](const Context& c) {
         const Status s = c.db->StartTrace(rocksdb::TraceOptions(), NewTrace(c));
         return Outcome(s) + Outcome(c.db->EndTrace());
       }},
      {"StartIOTrace",
       [](const Context& c) {
         const Status s = c.db->StartIOTrace(rocksdb::TraceOptions(), NewTrace(c));
         return Outcome(s) + Outcome(c.db->EndIOTrace());
       }},
      {"StartBlockCacheTrace",
       [](const Context& c) {
         const Status s = c.db->StartBlockCacheTrace(rocksdb::TraceOptions(), NewTrace(c));
         return Outcome(s) + Outcome(c.db->EndBlockCacheTrace());
       }},
      {"NewDefaultReplayer",
       [](const Context& c) {
         EXPECT_OK(c.db->StartTrace(rocksdb::TraceOptions(), NewTrace(c)));
         EXPECT_OK(c.db->EndTrace());
         std::unique_ptr<rocksdb::TraceReader> reader;
         EXPECT_OK(rocksdb::NewFileTraceReader(rocksdb::Env::Default(), rocksdb::EnvOptions(), TraceFile(c), &reader));
         std::unique_ptr<rocksdb::Replayer> replayer;
         return Outcome(c.db->NewDefaultReplayer({c.family}, std::move(reader), &replayer));
       }},
      {"GetRootDB", [](const Context& c) { return std::to_string(c.db->GetRootDB() == c.db ? 1 : 0); }},
      {"GetStatsHistory",
       [](const Context& c) {
         std::unique_ptr<rocksdb::StatsHistoryIterator> history;
         return Outcome(c.db->GetStatsHistory(0, UINT64_MAX, &history));
       }},
      {"TryCatchUpWithPrimary", [](const Context& c) { return Outcome(c.db->TryCatchUpWithPrimary()); }},
      {"Resume", [](const Context& c) { return Outcome(c.db->Resume()); }},
      {"Close", [](const Context& c) { return Outcome(c.db->Close()); }},
  };
}

const std::map<std::string, Check>& Checks() {
  static const auto* const checks = [] {
    auto* const all = new std::map<std::string, Check>(ChecksOfAllReleases());
    for (const auto& [name, function] : port::FunctionsOfThisRelease()) {
      (*all)[name] = [call = function](const Context& c) {
        const auto new_table = [&c](const std::string& table) { return NewTable(c, table); };
        return Outcome(call({c.db, c.family, new_table}));
      };
    }
    return all;
  }();
  return *checks;
}

// What RocksDB refuses, in words or with a status for each key, before it looks at what it was given.
const std::map<std::string, Check>& WrongArguments() {
  using Columns = std::vector<rocksdb::PinnableWideColumns>;
  static const Slice keys[] = {"a", "b"};
  static const auto entities = [](const std::function<void(Columns*, Status*)>& read) {
    Columns columns(2);
    std::vector<Status> statuses(2);
    read(&columns, statuses.data());
    return Outcome(statuses[0]) + ", " + Outcome(statuses[1]);
  };
  static const auto* const checks = new std::map<std::string, Check>{
      {"GetEntity of no family",
       [](const Context& c) {
         rocksdb::PinnableWideColumns columns;
         return Outcome(c.db->GetEntity(ReadOptions(), static_cast<ColumnFamilyHandle*>(nullptr), "a", &columns));
       }},
      {"GetEntity without a place",
       [](const Context& c) {
         rocksdb::PinnableWideColumns* const none = nullptr;
         return Outcome(c.db->GetEntity(ReadOptions(), c.family, "a", none));
       }},
      {"GetEntity of groups of no family",
       [](const Context& c) {
         rocksdb::PinnableAttributeGroups groups;
         groups.emplace_back(nullptr);
         const Status s = c.db->GetEntity(ReadOptions(), "a", &groups);
         return Outcome(s) + ", " + Outcome(groups[0].status());
       }},
      {"MultiGetEntity of no family",
       [](const Context& c) {
         return entities([&](Columns* columns, Status* statuses) {
           ColumnFamilyHandle* const none = nullptr;
           c.db->MultiGetEntity(ReadOptions(), none, 2, keys, columns->data(), statuses);
         });
       }},
      {"MultiGetEntity without families",
       [](const Context& c) {
         return entities([&](Columns* columns, Status* statuses) {
           ColumnFamilyHandle** const none = nullptr;
           c.db->MultiGetEntity(ReadOptions(), 2, none, keys, columns->data(), statuses);
         });
       }},
      {"MultiGetEntity without keys",
       [](const Context& c) {
         return entities([&](Columns* columns, Status* statuses) {
           ColumnFamilyHandle* families[] = {c.family, c.family};
           c.db->MultiGetEntity(ReadOptions(), 2, families, nullptr, columns->data(), statuses);
         });
       }},
      {"MultiGetEntity without places",
       [](const Context& c) {
         return entities([&](Columns* /*columns*/, Status* statuses) {
           ColumnFamilyHandle* families[] = {c.family, c.family};
           c.db->MultiGetEntity(ReadOptions(), 2, families, keys, nullptr, statuses);
         });
       }},
      {"MultiGetEntity as another operation",
       [](const Context& c) {
         return entities([&](Columns* columns, Status* statuses) {
           ReadOptions options;
           options.io_activity = rocksdb::Env::IOActivity::kGet;
           ColumnFamilyHandle* families[] = {c.family, c.family};
           c.db->MultiGetEntity(options, 2, families, keys, columns->data(), statuses);
         });
       }},
      {"Get as another operation",
       [](const Context& c) {
         ReadOptions options;
         options.io_activity = rocksdb::Env::IOActivity::kCompaction;
         rocksdb::PinnableSlice value;
         return Outcome(c.db->Get(options, c.family, "a", &value));
       }},
      {"IngestExternalFiles of nothing", [](const Context& c) { return Outcome(c.db->IngestExternalFiles({})); }},
      {"IngestExternalFiles into no family",
       [](const Context& c) {
         rocksdb::IngestExternalFileArg argument;
         argument.external_files = {NewTable(c, "nowhere")};
         return Outcome(c.db->IngestExternalFiles({argument}));
       }},
      {"NewIterators of nothing",
       [](const Context& c) {
         std::vector<rocksdb::Iterator*> iterators;
         return Outcome(c.db->NewIterators(ReadOptions(), {}, &iterators)) + std::to_string(iterators.size());
       }},
      {"NewIterators as another operation",
       [](const Context& c) {
         ReadOptions options;
         options.io_activity = rocksdb::Env::IOActivity::kGet;
         std::vector<rocksdb::Iterator*> iterators;
         return Outcome(c.db->NewIterators(options, {c.family}, &iterators)) + std::to_string(iterators.size());
       }},
      {"NewCoalescingIterator of nothing",
       [](const Context& c) { return Outcome(c.db->NewCoalescingIterator(ReadOptions(), {})->status()); }},
      {"CompactFiles of nothing",
       [](const Context& c) { return Outcome(c.db->CompactFiles(rocksdb::CompactionOptions(), c.family, {}, 1)); }},
      {"CompactFiles of a stranger",
       [](const Context& c) {
         return Outcome(c.db->CompactFiles(rocksdb::CompactionOptions(), c.family, {"/000000.sst"}, 1));
       }},
      {"DropColumnFamily of the default", [](const Context& c) { return Outcome(c.db->DropColumnFamily(c.family)); }},
      {"CreateColumnFamily twice",
       [](const Context& c) {
         ColumnFamilyHandle* handle = nullptr;
         return Outcome(c.db->CreateColumnFamily(c.options, rocksdb::kDefaultColumnFamilyName, &handle));
       }},
      {"SetOptions of nothing", [](const Context& c) { return Outcome(c.db->SetOptions(c.family, {})); }},
      {"SetDBOptions of nothing", [](const Context& c) { return Outcome(c.db->SetDBOptions({})); }},
      {"GetProperty that there is not",
       [](const Context& c) {
         std::string value;
         return std::to_string(static_cast<int>(c.db->GetProperty(c.family, "rocksdb.none", &value)));
       }},
      {"GetUpdatesSince a number to come",
       [](const Context& c) {
         std::unique_ptr<rocksdb::TransactionLogIterator> updates;
         return Outcome(c.db->GetUpdatesSince(uint64_t{1} << 55, &updates));
       }},
  };
  return *checks;
}

// Functions of the header whose check is another's.
const std::map<std::string, std::string>& CheckedBy() {
  static const auto* const by = new std::map<std::string, std::string>{
      {"ReleaseSnapshot", "GetSnapshot"},
      {"DropColumnFamily", "CreateColumnFamily"},
      {"DestroyColumnFamilyHandle", "CreateColumnFamily"},
      {"DropColumnFamilies", "CreateColumnFamilies"},
      {"EnableManualCompaction", "DisableManualCompaction"},
      {"ContinueBackgroundWork", "PauseBackgroundWork"},
      {"EnableFileDeletions", "DisableFileDeletions"},
      {"UnlockWAL", "LockWAL"},
      {"EndTrace", "StartTrace"},
      {"EndIOTrace", "StartIOTrace"},
      {"EndBlockCacheTrace", "StartBlockCacheTrace"},
      {"ResumeAllCompactions", "AbortAllCompactions"},
      {"EnableStats", "GetAsync"},
      {"OnComplete", "GetAsync"},
      {"CommitFileIngestionHandle", "PrepareFileIngestion"},
      {"CommitFileIngestionHandles", "PrepareFileIngestion"},
  };
  return *by;
}

struct Difference {
  const char* outcome;
  const char* reason;
};

const std::map<std::pair<Kind, std::string>, Difference>& Differences() {
  static const auto* const differences = new std::map<std::pair<Kind, std::string>, Difference>{
      {{Kind::kTrie, "DeleteRange"}, {"Not implemented", "a range has no meaning in hash order"}},
      {{Kind::kTrie, "ClipColumnFamily"}, {"Not implemented", "it deletes ranges"}},
      {{Kind::kSilt, "DeleteRange"}, {"Not implemented", "a range has no meaning in hash order"}},
      {{Kind::kSilt, "ClipColumnFamily"}, {"Not implemented", "it deletes ranges"}},
      {{Kind::kDurable, "ClipColumnFamily"}, {"Not implemented", "it deletes ranges"}},
      {{Kind::kDurable, "DeleteRange"}, {"Not implemented", "range deletions bypass the pool"}},
      {{Kind::kDurable, "IngestWriteBatchWithIndex"}, {"Not implemented", "its writes bypass the pool"}},
      {{Kind::kDurable, "GetUpdatesSince"}, {"Not implemented", "there is no WAL"}},
      {{Kind::kDurable, "GetUpdatesSince a number to come"}, {"Not implemented", "there is no WAL"}},
  };
  return *differences;
}

// Virtual functions that rocksdb::DB declares.
std::set<std::string> FunctionsOfTheHeader() {
  std::ifstream file(std::string(CAIRN_ROCKSDB_TREE) + "/include/rocksdb/db.h");
  std::stringstream text;
  text << file.rdbuf();
  std::string header = std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
  header = header.substr(header.find("class DB {"));
  std::set<std::string> names;
  const std::regex declaration("virtual\\s+[^;{(]*?\\b([A-Za-z_]+)\\s*\\(");
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  names.erase("DB");                              // the destructor
  names.erase("AsyncCallback");                   // that of a class within
  names.erase("GetPropertiesOfTablesForLevels");  // 9.10 does not implement it yet
  return names;
}

TEST(DbInterfaceTest, EveryVirtualFunctionHasACheck) {
  const std::set<std::string> names = FunctionsOfTheHeader();
  ASSERT_GT(names.size(), 80u) << "the header was not read";
  for (const std::string& name : names) {
    const auto by = CheckedBy().find(name);
    EXPECT_EQ(Checks().count(by == CheckedBy().end() ? name : by->second), 1u) << name << " has no check";
  }
}

// As on a stock database, whose outcomes come first.
void ExpectTheSame(Kind kind, const std::string& function, const std::string& outcome,
                   std::map<std::string, std::string>* stock) {
  if (kind == Kind::kStock) {
    (*stock)[function] = outcome;
    return;
  }
  const auto difference = Differences().find({kind, function});
  EXPECT_EQ(outcome, difference == Differences().end() ? (*stock)[function] : difference->second.outcome) << function;
}

TEST(DbInterfaceTest, EveryKindAnswersAsAStockDatabase) {
  const TempDir dir;
  std::map<std::string, std::string> stock;
  for (const Kind kind :
       {Kind::kStock, Kind::kTrie, Kind::kSubMemTables, Kind::kDurable, Kind::kOrdered, Kind::kKeyTrie, Kind::kSilt}) {
    const std::string name = kKindNames[static_cast<int>(kind)];
    SCOPED_TRACE(name);
    const rocksdb::Options options = OptionsFor(kind);
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, dir / name, port::Into(&db)));
    EXPECT_EQ(CairnDB::Of(db.get()) == nullptr, kind == Kind::kStock);
    ASSERT_OK(db->Put(WriteOptions(), "a", "1"));
    const Context context{db.get(), db->DefaultColumnFamily(), options, dir, name};
    for (const auto& [function, check] : WrongArguments()) ExpectTheSame(kind, function, check(context), &stock);
    for (const auto& [function, check] : Checks()) {
      if (function != "Close") ExpectTheSame(kind, function, check(context), &stock);
    }
    ExpectTheSame(kind, "Close", Checks().at("Close")(context), &stock);
  }
}

}  // namespace
}  // namespace cairn::test
