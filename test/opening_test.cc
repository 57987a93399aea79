// In this library opening is one thing: whichever door a program takes (rocksdb::DB::Open, the C API, transactions,
// TTL, blobs), a database with parts of Cairn is whole, and one without any is RocksDB's own object.

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/memtable.h"
#include "cairn/trie.h"
#include "cairn/version.h"
#include "db/cairn_db.h"
#include "db/entry_sizes.h"
#include "gtest/gtest.h"
#include "rocksdb/c.h"
#include "rocksdb/convenience.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/version.h"
#include "test/support.h"
#include "test/testutil/copy_database.h"
#include "test/testutil/expect_contains.h"
#include "utilities/blob_db/blob_db.h"

namespace cairn::test {
namespace {

bool IsStock(DB* db) { return typeid(*db->GetRootDB()) == typeid(rocksdb::DBImpl); }

Options SubMemTables() {
  Options options = BaseOptions();
  options.memtable_factory = NewSubMemTableFactory(SubMemTableOptions());
  return options;
}

Options Durable() {
  Options options = BaseOptions();
  SubMemTableOptions memtable;
  memtable.durable = true;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  return options;
}

Options Trie() { return OptionsOf(*FindEngine("trie_tiny")); }
Options KeyTrie() { return OptionsOf(*FindEngine("ordered_trie")); }
Options Leveled() { return OptionsOf(*FindEngine("leveled")); }

class OpeningTest : public ::testing::Test {
 protected:
  static std::unique_ptr<DB> Open(const Options& options, const std::string& path) {
    DB* db = nullptr;
    EXPECT_OK(DB::Open(options, path, port::Into(&db)));
    return std::unique_ptr<DB>(db);
  }
  std::unique_ptr<DB> Open(const Options& options) { return Open(options, dir_ / "db"); }
  std::string DbPath() const { return dir_ / "db"; }

  static void Fill(DB* db, int keys = 2000) {
    for (int i = 0; i < keys; ++i) ASSERT_OK(db->Put(WriteOptions(), "key" + std::to_string(i), std::string(100, 'v')));
  }
  static void Check(DB* db, int keys = 2000) {
    std::string value;
    for (int i = 0; i < keys; ++i) ASSERT_OK(db->Get(ReadOptions(), "key" + std::to_string(i), &value));
  }

  TempDir dir_;
};

TEST_F(OpeningTest, ADatabaseWithoutCairnIsRocksDBsOwn) {
  auto db = Open(Leveled());
  EXPECT_TRUE(IsStock(db.get()));
  EXPECT_EQ(CairnDB::Of(db.get()), nullptr);
  std::string value;
  EXPECT_FALSE(db->GetProperty("cairn.stats", &value));
  db.reset();
  Options with_listener = Leveled();
  class Listener : public rocksdb::EventListener {};
  with_listener.listeners.push_back(std::make_shared<Listener>());
  db = Open(with_listener);
  EXPECT_TRUE(IsStock(db.get()));
  EXPECT_EQ(db->GetDBOptions().listeners.size(), 1u);
}

TEST_F(OpeningTest, SaysWhichCairnItIs) {
  const Engine& engine = *FindEngine("trie_tiny");
  auto db = Open(OptionsOf(engine));
  const std::string version = Version();
  std::string text;
  EXPECT_TRUE(db->GetProperty("cairn.stats", &text));
  EXPECT_EQ(text.rfind("Cairn " + version + ", RocksDB " + rocksdb::GetRocksVersionAsString() + "\n", 0), 0u) << text;
  EXPECT_TRUE(db->GetProperty("cairn.stats.json", &text));
  EXPECT_EQ(nlohmann::json::parse(text).at("version"), version);
  EXPECT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), db->GetName() + "/LOG", &text));
  const size_t said = text.find("Cairn version: " + version + "\n");
  EXPECT_LT(said, text.find("EVENT_LOG")) << text;
}

TEST_F(OpeningTest, EveryDoorOpensTheWholeEngine) {
  const auto is_whole = [](DB* db) {
    ASSERT_NE(CairnDB::Of(db), nullptr);
    std::string value;
    EXPECT_TRUE(db->GetProperty("cairn.stats", &value));
    EXPECT_TRUE(db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), "a", "b").IsNotSupported());
    Fill(db);
    EXPECT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    TrieStats stats;
    ASSERT_OK(GetTrieStats(db, db->DefaultColumnFamily(), &stats));
    EXPECT_EQ(stats.depths[0].files, 0u);
    Check(db);
  };
  {
    SCOPED_TRACE("DB::Open");
    auto db = Open(Trie());
    is_whole(db.get());
  }
  {
    SCOPED_TRACE("TransactionDB");
    rocksdb::TransactionDB* db = nullptr;
    ASSERT_OK(rocksdb::TransactionDB::Open(Trie(), rocksdb::TransactionDBOptions(), DbPath(), &db));
    const std::unique_ptr<DB> guard(db);
    is_whole(db);
    std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(WriteOptions()));
    ASSERT_OK(transaction->Put("in", "transaction"));
    ASSERT_OK(transaction->Commit());
    std::string value;
    EXPECT_OK(db->Get(ReadOptions(), "in", &value));
  }
  {
    SCOPED_TRACE("OptimisticTransactionDB");
    is_whole(OpenedAs<rocksdb::OptimisticTransactionDB>(Trie(), DbPath()).get());
  }
  {
    SCOPED_TRACE("cairn::Open");
    std::unique_ptr<DB> db;
    ASSERT_OK(cairn::Open(Trie(), DbPath(), port::Into(&db)));
    is_whole(db.get());
  }
  {
    SCOPED_TRACE("DBWithTTL");
    is_whole(OpenedAs<rocksdb::DBWithTTL>(Trie(), dir_ / "ttl").get());
  }
  {
    SCOPED_TRACE("BlobDB");
    rocksdb::blob_db::BlobDB* db = nullptr;
    ASSERT_OK(rocksdb::blob_db::BlobDB::Open(SubMemTables(), rocksdb::blob_db::BlobDBOptions(), dir_ / "blob", &db));
    const std::unique_ptr<DB> guard(db);
    EXPECT_NE(CairnDB::Of(db), nullptr);
    ASSERT_OK(db->Put(WriteOptions(), "a", "b"));
    std::string value;
    ASSERT_OK(db->Get(ReadOptions(), "a", &value));
  }
}

TEST_F(OpeningTest, TheTrieCompactsAtOnceAndWithoutTheListenerGiven) {
  Options options = Trie();
  options.listeners.clear();
  auto db = Open(options);
  Fill(db.get(), 20000);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
  EXPECT_GT(DeepestDepth(db.get(), db->DefaultColumnFamily(), true), 0);
  Check(db.get(), 20000);
}

TEST_F(OpeningTest, TheCApiOpensTheWholeEngine) {
  rocksdb_options_t* const base = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(base, 1);
  rocksdb_options_t* const options = rocksdb_options_create();
  char* error = nullptr;
  rocksdb_get_options_from_string(base, "memtable_factory=cairn.SubMemTable:{durable=true}", options, &error);
  ASSERT_EQ(error, nullptr) << error;
  rocksdb_t* db = rocksdb_open(options, DbPath().c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  rocksdb_writeoptions_t* const write = rocksdb_writeoptions_create();
  rocksdb_put(db, write, "key", 3, "value", 5, &error);
  ASSERT_EQ(error, nullptr) << error;
  // As if the process had been killed here.
  rocksdb_close(db);
  EXPECT_OK(rocksdb::Env::Default()->FileExists(DbPath() + "/CAIRN_POOL"));
  db = rocksdb_open(options, DbPath().c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  rocksdb_readoptions_t* const read = rocksdb_readoptions_create();
  size_t length = 0;
  char* const value = rocksdb_get(db, read, "key", 3, &length, &error);
  ASSERT_EQ(error, nullptr) << error;
  EXPECT_EQ(std::string(value, length), "value");
  free(value);
  rocksdb_close(db);
  rocksdb_destroy_db(options, DbPath().c_str(), &error);
  ASSERT_EQ(error, nullptr) << error;
  EXPECT_FALSE(rocksdb::Env::Default()->FileExists(DbPath()).ok()) << "the pool file keeps the folder alive";
  rocksdb_readoptions_destroy(read);
  rocksdb_writeoptions_destroy(write);
  rocksdb_options_destroy(options);
  rocksdb_options_destroy(base);
}

TEST_F(OpeningTest, ATransactionsCommitIsChecked) {
  rocksdb::TransactionDB* db = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(Trie(), rocksdb::TransactionDBOptions(), DbPath(), &db));
  const std::unique_ptr<DB> guard(db);
  const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(WriteOptions()));
  // TransactionDB refuses range deletions; its batches can be rebuilt from one all the same.
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.DeleteRange("a", "b"));
  EXPECT_TRUE(db->GetRootDB()->Write(WriteOptions(), &batch).IsNotSupported());
  ASSERT_OK(transaction->Put("still", "works"));
  ASSERT_OK(transaction->Commit());
}

TEST_F(OpeningTest, OptionsOfOneDatabaseOpenAnother) {
  auto db = Open(Durable());
  ASSERT_OK(db->Put(WriteOptions(), "a", "b"));
  Options copied = db->GetOptions();
  EXPECT_TRUE(copied.listeners.empty());
  // They hold on to what the first database closes.
  copied.info_log = nullptr;
  copied.sst_file_manager = nullptr;
  copied.memtable_factory = Durable().memtable_factory;
  auto other = Open(copied, dir_ / "other");
  ASSERT_OK(other->Put(WriteOptions(), "c", "d"));
  db.reset();
  ASSERT_OK(other->Put(WriteOptions(), "e", "f"));
}

// ---- Column families

using CreateFamily = std::function<Status(DB*, const Options&, const std::string&, ColumnFamilyHandle**)>;

std::vector<std::pair<const char*, CreateFamily>> WaysToCreate() {
  return {
      {"CreateColumnFamily", [](DB* db, const Options& options, const std::string& name,
                                ColumnFamilyHandle** handle) { return db->CreateColumnFamily(options, name, handle); }},
      {"CreateColumnFamilies of names",
       [](DB* db, const Options& options, const std::string& name, ColumnFamilyHandle** handle) {
         std::vector<ColumnFamilyHandle*> handles;
         const Status s = db->CreateColumnFamilies(options, {name}, &handles);
         *handle = handles.empty() ? nullptr : handles[0];
         return s;
       }},
      {"CreateColumnFamilies of descriptors",
       [](DB* db, const Options& options, const std::string& name, ColumnFamilyHandle** handle) {
         std::vector<ColumnFamilyHandle*> handles;
         const Status s = db->CreateColumnFamilies({{name, options}}, &handles);
         *handle = handles.empty() ? nullptr : handles[0];
         return s;
       }},
      {"CreateColumnFamilyWithImport",
       [](DB* db, const Options& options, const std::string& name, ColumnFamilyHandle** handle) {
         rocksdb::ExportImportFilesMetaData files;
         files.db_comparator_name = options.comparator->Name();
         return db->CreateColumnFamilyWithImport(options, name, rocksdb::ImportColumnFamilyOptions(), files, handle);
       }},
  };
}

TEST_F(OpeningTest, AColumnFamilyThatADatabaseCannotServeIsRefusedAtEveryDoor) {
  Options broken = Trie();
  broken.num_levels = 3;
  const std::vector<std::pair<Options, Options>> refused = {
      {Leveled(), Trie()},          // nothing would compact it
      {SubMemTables(), Trie()},     // nor here
      {SubMemTables(), KeyTrie()},  // nor this one
      {Trie(), broken},             // no trie
      {Leveled(), Durable()},       // no pool
      {SubMemTables(), Durable()},  // no pool
      {Durable(), Leveled()},       // its writes would be lost
      {Durable(), SubMemTables()},  // so would these
  };
  for (size_t i = 0; i < refused.size(); ++i) {
    auto db = Open(refused[i].first, dir_ / std::to_string(i));
    for (const auto& [way, create] : WaysToCreate()) {
      SCOPED_TRACE(std::to_string(i) + " " + way);
      ColumnFamilyHandle* handle = nullptr;
      const Status s = create(db.get(), refused[i].second, "added", &handle);
      EXPECT_FALSE(s.ok());
      EXPECT_NE(s.ToString().find("added"), std::string::npos) << s.ToString();
      EXPECT_EQ(handle, nullptr);
    }
    Fill(db.get(), 100);
    Check(db.get(), 100);
  }
}

TEST_F(OpeningTest, AColumnFamilyThatFitsIsTakenAtEveryDoor) {
  const std::vector<std::pair<Options, Options>> taken = {
      {Trie(), Trie()}, {Trie(), Leveled()}, {Leveled(), SubMemTables()}, {Durable(), Durable()}};
  for (size_t i = 0; i < taken.size(); ++i) {
    auto db = Open(taken[i].first, dir_ / std::to_string(i));
    for (const auto& [way, create] : WaysToCreate()) {
      if (strcmp(way, "CreateColumnFamilyWithImport") == 0) continue;  // no files: RocksDB refuses it
      SCOPED_TRACE(std::to_string(i) + " " + way);
      Options options = taken[i].second;
      if (i == 3) options.memtable_factory = taken[i].first.memtable_factory;
      ColumnFamilyHandle* handle = nullptr;
      ASSERT_OK(create(db.get(), options, "added", &handle));
      ASSERT_OK(db->Put(WriteOptions(), handle, "a", "b"));
      ASSERT_OK(db->DropColumnFamily(handle));
      ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    }
  }
}

TEST_F(OpeningTest, AStockDatabaseTakesNoTrieInEitherOrder) {
  const Options tries[] = {Trie(), KeyTrie()};
  for (size_t i = 0; i < std::size(tries); ++i) {
    SCOPED_TRACE(i);
    auto source = Open(tries[i], dir_ / ("trie" + std::to_string(i)));
    Fill(source.get());
    Options with_seed = source->GetOptions();
    with_seed.cf_paths.clear();  // the source's own
    std::unique_ptr<rocksdb::Checkpoint> checkpoint;
    ASSERT_OK(rocksdb::Checkpoint::Create(source.get(), port::Into(&checkpoint)));
    std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
    const std::string exported = dir_ / ("exported" + std::to_string(i));
    ASSERT_OK(checkpoint->ExportColumnFamily(source->DefaultColumnFamily(), exported, port::Into(&files)));

    const std::string path = dir_ / ("stock" + std::to_string(i));
    auto db = Open(Leveled(), path);
    ASSERT_TRUE(IsStock(db.get()));
    ColumnFamilyHandle* handle = nullptr;
    const Status refused[] = {db->CreateColumnFamily(with_seed, "added", &handle),
                              db->CreateColumnFamilyWithImport(with_seed, "added", {}, *files, &handle)};
    for (const Status& s : refused) {
      ASSERT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_EQ(handle, nullptr);
      for (const char* part :
           {"added", "nothing would compact it", "UseTrieCompaction", "create_missing_column_famil"}) {
        EXPECT_NE(s.ToString().find(part), std::string::npos) << s.ToString();
      }
    }
    db.reset();
    // As the message says.
    Options with_listener = Leveled();
    UseTrieCompaction(&with_listener);
    db = Open(with_listener, path);
    ASSERT_OK(db->CreateColumnFamilyWithImport(with_seed, "added", {}, *files, &handle));
    std::string value;
    EXPECT_OK(db->Get(ReadOptions(), handle, "key7", &value));
    ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  }
}

// RocksDB asks tables only when it opens.
TEST_F(OpeningTest, AColumnFamilyWhoseTablesAnOpeningRefusesIsNotCreated) {
  Options bits = OptionsOf(*FindEngine("ordered"));
  ASSERT_OK(bits.table_factory->ConfigureOption(rocksdb::ConfigOptions(), "order_bits", "100"));
  Options key_trie = KeyTrie();
  ASSERT_OK(rocksdb::TableFactory::CreateFromString(rocksdb::ConfigOptions(), "cairn.HTable", &key_trie.table_factory));
  const std::vector<std::pair<Options, Options>> refused = {
      {Leveled(), bits}, {SubMemTables(), bits}, {KeyTrie(), key_trie}};
  for (size_t i = 0; i < refused.size(); ++i) {
    SCOPED_TRACE(i);
    DB* other = nullptr;
    const Status said = DB::Open(refused[i].second, dir_ / "other", port::Into(&other));
    ASSERT_FALSE(said.ok());
    auto db = Open(refused[i].first, dir_ / std::to_string(i));
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_EQ(db->CreateColumnFamily(refused[i].second, "added", &handle).ToString(), said.ToString());
    EXPECT_EQ(handle, nullptr);
  }
}

// Keys of other bytes may be equal. A program may set it when the engine's preset has set a filter already.
class CaselessOrder : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "opening_test.Caseless"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override { return Lower(a).compare(Lower(b)); }
  void FindShortestSeparator(std::string* /*start*/, const rocksdb::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  static std::string Lower(const rocksdb::Slice& key) {
    std::string lower = key.ToString();
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
  }
};

TEST_F(OpeningTest, WhatNoTableHoldsIsRefusedBeforeItIsLogged) {
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.Put("key", std::string(100, 'v')));
  ASSERT_OK(batch.Merge("key", std::string(200, 'v')));
  EXPECT_OK(CheckEntrySizes(batch, 203));
  const Status s = CheckEntrySizes(batch, 202);
  EXPECT_TRUE(s.IsInvalidArgument() && s.ToString().find("at most 202") != std::string::npos) << s.ToString();
  if (NumberFromEnvironment("CAIRN_LARGE_ENTRIES", 0) == 0) GTEST_SKIP() << "CAIRN_LARGE_ENTRIES=1 takes 9 GiB";
  for (const Options& options : {SubMemTables(), Durable(), KeyTrie()}) {
    auto db = Open(options);
    const std::string value((uint64_t{1} << 32) - 20, 'v');
    EXPECT_TRUE(db->Put(WriteOptions(), "key", value).IsInvalidArgument());
    std::string found;
    EXPECT_TRUE(db->Get(ReadOptions(), "key", &found).IsNotFound());
    db.reset();
    ASSERT_OK(rocksdb::DestroyDB(DbPath(), options));
  }
}

TEST_F(OpeningTest, AFilterByBytesIsRefusedWhereOtherBytesMayBeEqual) {
  static const CaselessOrder order;
  for (const char* engine : {"ordered", "leveled_ordered", "ordered_trie"}) {
    SCOPED_TRACE(engine);
    const std::string path = dir_ / engine;
    Options options = Leveled();
    ASSERT_OK(UseEngineFromString(std::string("engine=") + engine, &options, &options));
    options.comparator = &order;
    Options none = options;
    none.table_factory = options.table_factory->Clone();
    ASSERT_OK(none.table_factory->ConfigureOption(rocksdb::ConfigOptions(), "filter_policy", "nullptr"));
    auto db = Open(none, path);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    std::string value;
    EXPECT_OK(db->Get(ReadOptions(), "KEY", &value));
    ColumnFamilyHandle* handle = nullptr;
    std::vector<Status> refused = {db->CreateColumnFamily(options, "added", &handle),
                                   db->SetOptions({{"table_factory.filter_policy", "bloomfilter:10"}}),
                                   db->SetOptions({{"block_based_table_factory", "{filter_policy=ribbonfilter:10}"}})};
    db.reset();
    DB* other = nullptr;
    refused.push_back(DB::Open(options, path, port::Into(&other)));
    refused.push_back(DB::OpenForReadOnly(options, path, port::Into(&other)));
    refused.push_back(DB::OpenAsSecondary(options, path, dir_ / "secondary", port::Into(&other)));
    for (const Status& s : refused) {
      EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
      EXPECT_NE(s.ToString().find("CanKeysWithDifferentByteContentsBeEqual"), std::string::npos) << s.ToString();
    }
    EXPECT_EQ(other, nullptr);
  }
}

using Changes = std::unordered_map<std::string, std::string>;

// kAsOpening: in the words of an opening with the same options. kItself: of what RocksDB finds out only later.
enum class Refusal { kNone, kAsOpening, kItself };

struct Change {
  const char* engine;
  Changes changes;
  Refusal refusal;
  const char* said;
};

std::string TextOf(const Options& options) {
  std::string text;
  EXPECT_OK(rocksdb::GetStringFromColumnFamilyOptions(rocksdb::ConfigOptions(), options, &text));
  return text;
}

// What an opening with the same options says.
Status OpeningWith(const Options& current, const Changes& changes, const std::string& path) {
  Options changed = current;
  rocksdb::ConfigOptions config;
  EXPECT_OK(rocksdb::GetColumnFamilyOptionsFromMap(config, current, changes, &changed));
  DB* db = nullptr;
  const Status s = DB::Open(changed, path, port::Into(&db));
  delete db;
  return s;
}

TEST_F(OpeningTest, SetOptionsSaysWhatAnOpeningWouldSay) {
  constexpr Refusal kNone = Refusal::kNone, kAsOpening = Refusal::kAsOpening, kItself = Refusal::kItself;
  const Changes aligned = {{"compression", "kZSTD"}, {"table_factory.block_align", "true"}};
  const Change kChanges[] = {
      {"silt_pinned",
       {{"compression", "kZSTD"}, {"compression_opts", "{parallel_threads=2}"}},
       kAsOpening,
       "parallel_threads=1"},
      {"silt_pinned", {{"compression_opts", "{max_dict_bytes=16384;enabled=true}"}}, kAsOpening, "max_dict_bytes=0"},
      {"silt_pinned",
       {{"bottommost_compression_opts", "{max_dict_bytes=99;enabled=true}"}},
       kAsOpening,
       "max_dict_bytes=0"},
      {"silt_pinned", {{"compression", "kZSTD"}}, kNone, ""},
      {"silt_pinned", {{"table_factory", "PlainTable"}}, kItself, "cairn convert"},
      {"silt_pinned", {{"table_factory", "CuckooTable"}}, kItself, "cairn convert"},
      {"ordered", {{"table_factory.order_bits", "100"}}, kAsOpening, "2.5 to 20"},
      {"ordered", {{"table_factory.order_bits", "-1"}}, kAsOpening, "2.5 to 20"},
      {"ordered", {{"table_factory.order_bits", "20"}}, kNone, ""},
      {"ordered", aligned, kAsOpening, "block_align"},
      {"ordered", {{"table_factory.format_version", "99"}}, kAsOpening, "format_version"},
      {"ordered", {{"table_factory.index_type", "kHashSearch"}}, kAsOpening, "prefix_extractor"},
      {"ordered_trie", {{"table_factory.order_bits", "100"}}, kAsOpening, "2.5 to 20"},
      {"ordered_trie", aligned, kAsOpening, "block_align"},
      {"ordered_trie", {{"table_factory", "cairn.HTable"}}, kAsOpening, "cairn.HTable needs keys in hash order"},
      {"ordered_trie", {{"table_factory", "cairn.EctTable"}}, kAsOpening, "cairn.EctTable needs keys in hash order"},
      {"ordered_trie", {{"table_factory", "cairn.SiltTable"}}, kAsOpening, "cairn.EctTable needs keys in hash order"},
      {"ordered_trie", {{"table_factory", "PlainTable"}}, kItself, "cairn convert"},
      {"ordered_trie", {{"table_factory", "CuckooTable"}}, kItself, "cairn convert"},
      {"ordered_trie", {{"table_factory", "BlockBasedTable"}}, kNone, ""},
      {"ordered_trie", {{"table_factory.block_size", "8192"}}, kNone, ""},
      {"trie_tiny", {{"table_factory", "PlainTable"}}, kItself, "cairn convert"},
      {"trie_tiny", {{"table_factory", "CuckooTable"}}, kItself, "cairn convert"},
      {"trie_tiny", {{"table_factory", "cairn.HTable"}}, kNone, ""},
      {"trie_sub_copy", {{"compression", "kZSTD"}}, kNone, ""},
      // Of these RocksDB dies, at once or at the next flush.
      {"ordered", {{"table_factory", "nullptr"}}, kItself, "table_factory"},
      {"trie_tiny", {{"table_factory", "nonsense"}}, kItself, "table_factory"},
      {"ordered", {{"table_factory.partition_filters", "true"}}, kItself, "kTwoLevelIndexSearch"},
      {"ordered",
       {{"table_factory.index_type", "kTwoLevelIndexSearch"}, {"table_factory.partition_filters", "true"}},
       kNone,
       ""},
  };
  int number = 0;
  for (const auto& [engine, changes, refusal, said] : kChanges) {
    const std::string path = dir_ / std::to_string(++number);
    SCOPED_TRACE(std::string(engine) + " " + changes.begin()->first + "=" + changes.begin()->second);
    auto db = Open(OptionsOf(*FindEngine(engine)), path);
    Fill(db.get(), 500);
    const Options before = db->GetOptions();
    const Status s = db->SetOptions(changes);
    EXPECT_EQ(s.ok(), refusal == Refusal::kNone) << s.ToString();
    if (s.ok() && refusal != Refusal::kNone) continue;  // the next flush may kill
    if (!s.ok()) {
      EXPECT_NE(s.ToString().find(said), std::string::npos) << s.ToString();
      EXPECT_EQ(TextOf(db->GetOptions()), TextOf(before));
    }
    if (refusal == Refusal::kAsOpening) {
      EXPECT_EQ(s.ToString(), OpeningWith(before, changes, path + "_other").ToString());
    }
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    Fill(db.get(), 1000);
    db.reset();
    // With what is stored.
    rocksdb::DBOptions database;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &database, &families));
    db = Open(Options(database, families[0].options), path);
    ASSERT_NE(db, nullptr);
    Check(db.get(), 1000);
  }
}

TEST_F(OpeningTest, SetOptionsThatTheEngineDoesNotFollowAreRefused) {
  auto db = Open(Trie());
  for (const char* option :
       {"level0_file_num_compaction_trigger", "level0_slowdown_writes_trigger", "level0_stop_writes_trigger",
        "max_bytes_for_level_base", "max_bytes_for_level_multiplier", "max_compaction_bytes",
        "soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit"}) {
    EXPECT_TRUE(Says(db->SetOptions({{option, "12"}}), &Status::IsNotSupported, option));
  }
  EXPECT_TRUE(db->SetOptions({{"compaction_options_universal", "{size_ratio=5}"}}).IsNotSupported());
  EXPECT_TRUE(db->SetOptions({{"no_such_option", "1"}}).IsInvalidArgument());
  EXPECT_TRUE(db->SetOptions({{"table_factory", "BlockBasedTable"}}).IsNotSupported());
  EXPECT_OK(db->SetOptions({{"write_buffer_size", "131072"}}));
  db.reset();
  db = Open(Durable(), dir_ / "durable");
  EXPECT_TRUE(db->SetOptions({{"experimental_mempurge_threshold", "1.0"}}).IsNotSupported());
  EXPECT_OK(db->SetOptions({{"write_buffer_size", "131072"}}));
}

TEST_F(OpeningTest, WhatDeletesRangesLeavesHashOrderAlone) {
  auto db = Open(Trie());
  Fill(db.get());
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  ColumnFamilyHandle* const family = db->DefaultColumnFamily();
  EXPECT_TRUE(db->ClipColumnFamily(family, "key100", "key1900").IsNotSupported());
  const rocksdb::Slice begin = "key100";
  const rocksdb::Slice end = "key1900";
  EXPECT_TRUE(rocksdb::DeleteFilesInRange(db.get(), family, &begin, &end).IsNotSupported());
  const rocksdb::RangePtr range(&begin, &end);
  EXPECT_TRUE(rocksdb::DeleteFilesInRanges(db.get(), family, &range, 1).IsNotSupported());
  const Options options = Trie();
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db->GetOptions());
  const std::string file = dir_ / "ranges.sst";
  ASSERT_OK(writer.Open(file));
  if (writer.DeleteRange("key100", "key1900").ok() || writer.DeleteRange("key1900", "key100").ok()) {
    ASSERT_OK(writer.Finish());
    EXPECT_TRUE(db->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions()).IsNotSupported());
  }
  Check(db.get());
  // Column families in key order beside it are as ever.
  ColumnFamilyHandle* leveled = nullptr;
  ASSERT_OK(db->CreateColumnFamily(Leveled(), "leveled", &leveled));
  ASSERT_OK(db->Put(WriteOptions(), leveled, "b", "1"));
  ASSERT_OK(db->ClipColumnFamily(leveled, "c", "d"));
  std::string value;
  EXPECT_TRUE(db->Get(ReadOptions(), leveled, "b", &value).IsNotFound());
  ASSERT_OK(db->DestroyColumnFamilyHandle(leveled));
}

TEST_F(OpeningTest, AnImportOfMoreLevelsIsRefused) {
  auto db = Open(Trie());
  Fill(db.get(), 20000);
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db.get(), port::Into(&checkpoint)));
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> metadata;
  ASSERT_OK(checkpoint->ExportColumnFamily(db->DefaultColumnFamily(), dir_ / "export", port::Into(&metadata)));
  int deepest = 0;
  for (const auto& file : metadata->files) deepest = std::max(deepest, file.level);
  ASSERT_GT(deepest, 1);
  Options flat = Trie();
  flat.num_levels = deepest;
  ColumnFamilyHandle* handle = nullptr;
  const Status s =
      db->CreateColumnFamilyWithImport(flat, "flat", rocksdb::ImportColumnFamilyOptions(), *metadata, &handle);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  EXPECT_EQ(handle, nullptr);
}

TEST_F(OpeningTest, ADurableDatabaseThatIsNotThereIsNotMade) {
  Options options = Durable();
  options.create_if_missing = false;
  DB* raw = nullptr;
  for (const bool folder : {false, true}) {
    if (folder) ASSERT_OK(rocksdb::Env::Default()->CreateDir(DbPath()));
    EXPECT_TRUE(Says(DB::Open(options, DbPath(), port::Into(&raw)), &Status::IsInvalidArgument, "create_if_missing"));
    EXPECT_TRUE(rocksdb::Env::Default()->FileExists(DbPath() + "/CAIRN_POOL").IsNotFound());
  }
}

TEST_F(OpeningTest, RocksDBsSignalsTellWhatATrieDoes) {
  Options options = Trie();
  options.disable_auto_compactions = true;
  auto db = Open(options);
  const auto property = [&](const std::string& name) {
    uint64_t number = 0;
    EXPECT_TRUE(db->GetIntProperty(name, &number));
    std::string text;
    EXPECT_TRUE(db->GetProperty(name, &text));
    EXPECT_EQ(text, std::to_string(number));
    return number;
  };
  for (int i = 0; i < 8; ++i) {
    Fill(db.get());
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  // Due, and obeyed: nothing runs, and nobody is slowed down.
  EXPECT_EQ(property(DB::Properties::kCompactionPending), 1u);
  EXPECT_GT(property(DB::Properties::kEstimatePendingCompactionBytes), 0u);
  EXPECT_EQ(property(DB::Properties::kNumRunningCompactions), 0u);
  EXPECT_EQ(property(DB::Properties::kActualDelayedWriteRate), 0u);
  EXPECT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
  EXPECT_EQ(DeepestDepth(db.get(), db->DefaultColumnFamily(), true), 0);
  ASSERT_OK(db->EnableAutoCompaction({db->DefaultColumnFamily()}));
  EXPECT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
  EXPECT_GT(DeepestDepth(db.get(), db->DefaultColumnFamily(), true), 0);
  EXPECT_EQ(property(DB::Properties::kCompactionPending), 0u);
  EXPECT_EQ(property(DB::Properties::kEstimatePendingCompactionBytes), 0u);
  uint64_t all = 1;
  ASSERT_TRUE(db->GetAggregatedIntProperty(DB::Properties::kEstimatePendingCompactionBytes, &all));
  EXPECT_EQ(all, 0u);
  ASSERT_OK(db->SetOptions({{"disable_auto_compactions", "true"}}));
  for (int i = 0; i < 8; ++i) {
    Fill(db.get());
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  EXPECT_EQ(property(DB::Properties::kCompactionPending), 1u);
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  EXPECT_EQ(property(DB::Properties::kCompactionPending), 0u);
  Check(db.get());
}

// ---- Durable memtables

class DurableOpeningTest : public OpeningTest {
 protected:
  void SetUp() override {
    db_ = Open(Durable());
    for (int i = 0; i < 1000; ++i) ASSERT_OK(db_->Put(WriteOptions(), "key" + std::to_string(i), "v"));
  }
  // What the process would leave if it were killed now. Files are copied one after the other: nothing may be flushed
  // meanwhile, or the copy had a pool that is newer than its MANIFEST.
  static void CopyAsACrashWould(DB* db, const std::string& to) {
    ASSERT_OK(db->WaitForCompact({}));
    test::CopyDatabase(db, to);
  }
  void CheckCopy(const std::string& path, const Options& options) {
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, path, port::Into(&db)));
    Check(db.get(), 1000);
  }

  std::unique_ptr<DB> db_;
};

TEST_F(DurableOpeningTest, ABackupHoldsWhatThePoolHolds) {
  for (const bool flush : {false, true}) {
    SCOPED_TRACE(flush);
    const std::string backup = dir_ / ("backup" + std::to_string(flush));
    std::unique_ptr<rocksdb::BackupEngine> engine;
    ASSERT_OK(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), rocksdb::BackupEngineOptions(backup),
                                          port::Into(&engine)));
    ASSERT_OK(db_->Put(WriteOptions(), "key0", "after the last flush"));
    ASSERT_OK(engine->CreateNewBackup(rocksdb::CreateBackupOptions(), db_.get()));
    ASSERT_OK(engine->VerifyBackup(1));
    const std::string restored = dir_ / ("restored" + std::to_string(flush));
    ASSERT_OK(engine->RestoreDBFromLatestBackup(restored, restored));
    CheckCopy(restored, Leveled());
    CheckCopy(restored, Durable());
  }
}

TEST_F(DurableOpeningTest, ACheckpointHoldsWhatThePoolHolds) {
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db_.get(), port::Into(&checkpoint)));
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1} << 30, UINT64_MAX}) {
    SCOPED_TRACE(limit);
    ASSERT_OK(db_->Put(WriteOptions(), "key0", "after the last flush"));
    const std::string copy = dir_ / ("copy" + std::to_string(limit));
    ASSERT_OK(checkpoint->CreateCheckpoint(copy, limit));
    CheckCopy(copy, Leveled());
  }
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> metadata;
  ASSERT_OK(db_->Put(WriteOptions(), "only", "here"));
  ASSERT_OK(checkpoint->ExportColumnFamily(db_->DefaultColumnFamily(), dir_ / "export", port::Into(&metadata)));
  auto other = Open(Leveled(), dir_ / "other");
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_OK(other->CreateColumnFamilyWithImport(Leveled(), "imported", rocksdb::ImportColumnFamilyOptions(), *metadata,
                                                &handle));
  std::string value;
  EXPECT_OK(other->Get(ReadOptions(), handle, "only", &value));
  EXPECT_OK(other->Get(ReadOptions(), handle, "key999", &value));
  ASSERT_OK(other->DestroyColumnFamilyHandle(handle));
}

// Writes a batch over two column families when the first of them has been flushed, the second not yet.
class WritesBetweenFlushes : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(DB* db, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_name != rocksdb::kDefaultColumnFamilyName || families == nullptr) return;
    rocksdb::WriteBatch batch;
    for (ColumnFamilyHandle* family : *std::exchange(families, nullptr)) EXPECT_OK(batch.Put(family, "batch", "v"));
    EXPECT_OK(db->Write(WriteOptions(), &batch));
  }
  const std::vector<ColumnFamilyHandle*>* families = nullptr;
};

TEST_F(DurableOpeningTest, ACheckpointTearsNoBatch) {
  const auto listener = std::make_shared<WritesBetweenFlushes>();
  Options options = Durable();
  options.create_missing_column_families = true;
  options.listeners.push_back(listener);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, options},
                                                                 {"second", options}};
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<DB> db;
  ASSERT_OK(DB::Open(options, dir_ / "two", families, &handles, port::Into(&db)));
  for (ColumnFamilyHandle* handle : handles) ASSERT_OK(db->Put(WriteOptions(), handle, "before", "v"));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db.get(), port::Into(&checkpoint)));
  listener->families = &handles;
  ASSERT_OK(checkpoint->CreateCheckpoint(dir_ / "copy"));
  ASSERT_EQ(listener->families, nullptr);

  std::vector<ColumnFamilyHandle*> copied;
  DB* raw_copy = nullptr;
  ASSERT_OK(DB::OpenForReadOnly(options, dir_ / "copy", families, &copied, port::Into(&raw_copy)));
  const std::unique_ptr<DB> copy(raw_copy);
  std::string value;
  const Status first = copy->Get(ReadOptions(), copied[0], "batch", &value);
  const Status second = copy->Get(ReadOptions(), copied[1], "batch", &value);
  EXPECT_EQ(first.ToString(), second.ToString());
  for (ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  for (ColumnFamilyHandle* handle : copied) ASSERT_OK(copy->DestroyColumnFamilyHandle(handle));
}

TEST_F(DurableOpeningTest, LiveFilesHoldWhatThePoolHoldsOrAreRefused) {
  std::vector<std::string> files;
  uint64_t manifest_bytes = 0;
  for (const bool flush : {false, true}) {
    ASSERT_OK(db_->Put(WriteOptions(), "key0", "after the last flush"));
    ASSERT_OK(db_->GetLiveFiles(files, &manifest_bytes, flush));
    uint64_t entries = 1;
    ASSERT_TRUE(db_->GetIntProperty(DB::Properties::kNumEntriesActiveMemTable, &entries));
    EXPECT_EQ(entries, 0u);
  }
  // RocksDB flushes nothing while the WAL is locked.
  ASSERT_OK(db_->Put(WriteOptions(), "key0", "before the lock"));
  ASSERT_OK(db_->LockWAL());
  std::vector<rocksdb::LiveFileStorageInfo> infos;
  EXPECT_TRUE(db_->GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions(), &infos).IsTryAgain());
  EXPECT_TRUE(db_->GetLiveFiles(files, &manifest_bytes, true).IsTryAgain());
  ASSERT_OK(db_->UnlockWAL());
  ASSERT_OK(db_->GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions(), &infos));
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  const Status s = db_->GetUpdatesSince(1, &updates, rocksdb::TransactionLogIterator::ReadOptions());
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
}

TEST_F(DurableOpeningTest, PersistedReadsSeeThePool) {
  ReadOptions options;
  options.read_tier = rocksdb::kPersistedTier;
  std::string value;
  EXPECT_OK(db_->Get(options, "key1", &value));
  rocksdb::PinnableWideColumns columns;
  EXPECT_OK(db_->GetEntity(options, db_->DefaultColumnFamily(), "key1", &columns));
  std::vector<std::string> values;
  for (const Status& s : db_->MultiGet(options, {"key1", "key2"}, &values)) EXPECT_OK(s);
  const rocksdb::Slice keys[] = {"key1", "key2"};
  rocksdb::PinnableSlice results[2];
  Status statuses[2];
  db_->MultiGet(options, db_->DefaultColumnFamily(), 2, keys, results, statuses);
  EXPECT_OK(statuses[1]);
  rocksdb::PinnableWideColumns entities[2];
  db_->MultiGetEntity(options, db_->DefaultColumnFamily(), 2, keys, entities, statuses);
  EXPECT_OK(statuses[1]);
}

TEST_F(DurableOpeningTest, ARefusedCloseLeavesItDurable) {
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  EXPECT_TRUE(db_->Close().IsAborted());
  ASSERT_OK(db_->Put(WriteOptions(), "after", "the refusal"));
  // Memtables that are flushed meanwhile give their space back, or the pool would fill up.
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 100; ++i)
      ASSERT_OK(db_->Put(WriteOptions(), "key" + std::to_string(i), std::string(10000, 'v')));
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
  }
  ASSERT_OK(db_->Put(WriteOptions(), "last", "one"));
  uint64_t bytes = 0;
  ASSERT_OK(rocksdb::Env::Default()->GetFileSize(DbPath() + "/CAIRN_POOL", &bytes));
  EXPECT_LT(bytes, 40u << 20);
  // What a crash would leave.
  const std::string copy = dir_ / "crash";
  CopyAsACrashWould(db_.get(), copy);
  {
    auto again = Open(Durable(), copy);
    std::string value;
    EXPECT_OK(again->Get(ReadOptions(), "after", &value));
    EXPECT_OK(again->Get(ReadOptions(), "last", &value));
  }
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(db_->Close());
}

TEST_F(DurableOpeningTest, TransactionsAreDurableOrRefused) {
  db_.reset();
  rocksdb::TransactionDB* pessimistic = nullptr;
  EXPECT_TRUE(rocksdb::TransactionDB::Open(Durable(), rocksdb::TransactionDBOptions(), DbPath(), &pessimistic)
                  .IsNotSupported());
  std::unique_ptr<rocksdb::OptimisticTransactionDB> db;
  ASSERT_OK(rocksdb::OptimisticTransactionDB::Open(Durable(), DbPath(), port::Into(&db)));
  std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(WriteOptions()));
  ASSERT_OK(transaction->Put("in", "transaction"));
  ASSERT_OK(transaction->Commit());
  const std::string copy = dir_ / "crash";
  CopyAsACrashWould(db.get(), copy);
  auto again = Open(Durable(), copy);
  std::string value;
  EXPECT_OK(again->Get(ReadOptions(), "in", &value));
}

}  // namespace
}  // namespace cairn::test
