#include "db/environment_options.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <typeinfo>
#include <utility>

#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "db/cairn_db.h"
#include "db/engine_table.h"
#include "db/uses_part.h"
#include "gtest/gtest.h"
#include "rocksdb/c.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

namespace cairn::test {
namespace {

constexpr char kSub[] = "memtable_factory=cairn.SubMemTable";
constexpr char kProperty[] = "cairn.environment_options";

class EnvironmentOptionsTest : public ::testing::Test {
 protected:
  EnvironmentOptionsTest() { Unset(); }
  ~EnvironmentOptionsTest() override { Unset(); }

  static void Unset() {
    unsetenv("CAIRN_OPTIONS");
    unsetenv("CAIRN_OPTIONS_FILE");
  }
  static void Set(const std::string& text) { setenv("CAIRN_OPTIONS", text.c_str(), 1); }
  void SetFile(const std::string& text) {
    std::ofstream(dir_ / "options") << text;
    setenv("CAIRN_OPTIONS_FILE", (dir_ / "options").c_str(), 1);
  }

  static Options Program() {
    Options options;
    options.create_if_missing = true;
    return options;
  }
  std::unique_ptr<DB> Open(const Options& options, const std::string& name = "db") {
    DB* db = nullptr;
    EXPECT_OK(DB::Open(options, dir_ / name, port::Into(&db)));
    return std::unique_ptr<DB>(db);
  }
  std::unique_ptr<DB> Open() { return Open(Program()); }
  rocksdb::Status TryOpen(const Options& options) {
    DB* db = nullptr;
    const rocksdb::Status s = DB::Open(options, dir_ / "refused", port::Into(&db));
    EXPECT_EQ(db == nullptr, !s.ok());
    delete db;
    return s;
  }

  static std::string MemTables(DB* db, rocksdb::ColumnFamilyHandle* family = nullptr) {
    return db->GetOptions(family == nullptr ? db->DefaultColumnFamily() : family).memtable_factory->Name();
  }
  static std::string Property(DB* db, rocksdb::ColumnFamilyHandle* family = nullptr) {
    std::string value;
    return db->GetProperty(family == nullptr ? db->DefaultColumnFamily() : family, kProperty, &value) ? value : "";
  }
  static bool IsStock(DB* db) { return typeid(*db->GetRootDB()) == typeid(rocksdb::DBImpl); }
  static rocksdb::Version* VersionOf(DB* db) {
    return static_cast<rocksdb::ColumnFamilyHandleImpl*>(db->DefaultColumnFamily())->cfd()->current();
  }
  static rocksdb::ColumnFamilyOptions CloneOfTables(const Options& options) {
    rocksdb::ColumnFamilyOptions clone = options;
    clone.table_factory = options.table_factory->Clone();
    return clone;
  }
  std::string Log(const std::string& name = "db") {
    std::ifstream file(dir_ / (name + "/LOG"));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
};

TEST_F(EnvironmentOptionsTest, WithoutATextEverythingIsStock) {
  for (const char* text : {"", ";;\n", "# a remark\n", "[/elsewhere/*]memtable_factory=cairn.SubMemTable"}) {
    Set(text);
    auto db = Open();
    EXPECT_TRUE(IsStock(db.get())) << text;
    EXPECT_EQ(MemTables(db.get()), "SkipListFactory");
    EXPECT_EQ(Property(db.get()), "");
    EXPECT_EQ(Log().find("environment"), std::string::npos);
  }
}

TEST_F(EnvironmentOptionsTest, ATextIsLaidOverWhatTheProgramGave) {
  Set("memtable_factory=cairn.SubMemTable ; write_buffer_size=3M;max_write_buffer_number=5;");
  Options options = Program();
  options.info_log_level = rocksdb::WARN_LEVEL;
  {
    auto db = Open(options);
    EXPECT_FALSE(IsStock(db.get()));
    EXPECT_EQ(MemTables(db.get()), "cairn.SubMemTable");
    EXPECT_EQ(db->GetOptions().write_buffer_size, size_t{3} << 20);
    EXPECT_EQ(db->GetOptions().max_write_buffer_number, 5);
    const std::string said = Property(db.get());
    for (const char* part : {"column family default", kSub, "write_buffer_size=3M", "CAIRN_OPTIONS"}) {
      EXPECT_NE(said.find(part), std::string::npos) << said;
      EXPECT_NE(Log().find(part), std::string::npos) << part;
    }
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "a", "b"));
  }
  // The program's own options stay what they were, and the database opens without the text.
  EXPECT_STREQ(options.memtable_factory->Name(), "SkipListFactory");
  Unset();
  auto db = Open(options);
  EXPECT_TRUE(IsStock(db.get()));
  std::string value;
  ASSERT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
}

// RocksDB takes a Logger that implements one of the two Logv.
class LogOfLevels : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  explicit LogOfLevels(rocksdb::InfoLogLevel level) : Logger(level) {}
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    char line[1000];
    vsnprintf(line, sizeof(line), format, arguments);
    if (level < GetInfoLogLevel() || strstr(line, "options of the environment") == nullptr) return;
    ++lines_;
  }
  int lines() const { return lines_; }

 private:
  std::atomic<int> lines_{0};
};

// What the table of engines says of each: those that may be laid over existing data open, the others are refused by
// name.
TEST_F(EnvironmentOptionsTest, AnEngineIsGivenByItsNameAsTheTableOfEnginesAllows) {
  for (const EngineRow& row : EngineTable()) {
    Set("engine=" + std::string(row.name));
    if (row.environment == nullptr) {
      const rocksdb::Status s = TryOpen(Program());
      EXPECT_TRUE(s.IsInvalidArgument()) << row.name;
      EXPECT_NE(s.ToString().find("engine=" + std::string(row.name)), std::string::npos) << s.ToString();
      EXPECT_NE(s.ToString().find("leveled_ordered"), std::string::npos) << s.ToString();
      continue;
    }
    auto db = Open(Program(), row.name);
    ASSERT_NE(db, nullptr);
    EXPECT_NE(Property(db.get()).find(row.environment), std::string::npos) << Property(db.get());
  }
}

TEST_F(EnvironmentOptionsTest, ALoggerOfTheProgramGetsTheLineByALevelThatItTakes) {
  Set("write_buffer_size=3M");
  for (const auto level : {rocksdb::DEBUG_LEVEL, rocksdb::INFO_LEVEL, rocksdb::ERROR_LEVEL, rocksdb::FATAL_LEVEL}) {
    const auto log = std::make_shared<LogOfLevels>(level);
    Options options = Program();
    options.info_log = log;
    auto db = Open(options);
    EXPECT_EQ(log->lines(), 1) << level;
    rocksdb::ColumnFamilyHandle* family = nullptr;
    ASSERT_OK(db->CreateColumnFamily(options, "later" + std::to_string(level), &family));
    EXPECT_EQ(log->lines(), 2) << level;
    ASSERT_OK(db->DropColumnFamily(family));
    ASSERT_OK(db->DestroyColumnFamilyHandle(family));
  }
}

TEST_F(EnvironmentOptionsTest, SectionsChooseByPathAndColumnFamily) {
  Set("write_buffer_size=1M;[*/state-?/*]write_buffer_size=2M;[*][index*]" + std::string(kSub) + ";[" +
      (dir_ / "state-1/a") + "][default]write_buffer_size=4M");
  Options options = Program();
  options.create_missing_column_families = true;
  std::filesystem::create_directories(dir_ / "state-1");
  struct Expected {
    std::string path;
    size_t of_default;
    size_t of_index;
  };
  const size_t mb = size_t{1} << 20;
  for (const Expected& expected : std::vector<Expected>{{"state-1/a", 4 * mb, 2 * mb},
                                                        {"state-1/b/", 2 * mb, 2 * mb},
                                                        {"state-1/../state-1/./c", 2 * mb, 2 * mb},
                                                        {"state-12", mb, mb}}) {
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    ASSERT_OK(DB::Open(options, dir_ / expected.path, {{"default", options}, {"index1", options}}, &handles,
                       port::Into(&db)));
    EXPECT_EQ(db->GetOptions(handles[0]).write_buffer_size, expected.of_default) << expected.path;
    EXPECT_EQ(db->GetOptions(handles[1]).write_buffer_size, expected.of_index) << expected.path;
    EXPECT_EQ(MemTables(db, handles[0]), "SkipListFactory");
    EXPECT_EQ(MemTables(db, handles[1]), "cairn.SubMemTable");
    EXPECT_EQ(Property(db, handles[0]).find("memtable"), std::string::npos);
    EXPECT_NE(Property(db, handles[1]).find("[*][index*] in CAIRN_OPTIONS"), std::string::npos);
    for (rocksdb::ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    delete db;
  }
}

TEST_F(EnvironmentOptionsTest, ARelativePathIsMatchedAsAnAbsoluteOne) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir_.path());
  Set("[" + std::filesystem::current_path().string() + "/db]" + kSub);
  DB* db = nullptr;
  const rocksdb::Status s = DB::Open(Program(), "db", port::Into(&db));
  EXPECT_OK(s);
  EXPECT_EQ(s.ok() ? MemTables(db) : "", "cairn.SubMemTable");
  delete db;
  std::filesystem::current_path(before);
}

TEST_F(EnvironmentOptionsTest, AFileIsReadAndTheVariableComesAfterIt) {
  SetFile(
      "# for the state stores\n"
      "write_buffer_size=1M\n"
      "  # more\n"
      "\n"
      "[*/db][default]\n"
      "memtable_factory={\n id=cairn.SubMemTable;\n segment_size=64K\n}\n"
      "max_write_buffer_number=7");
  Set("write_buffer_size=2M");
  auto db = Open();
  const Options options = db->GetOptions();
  EXPECT_STREQ(options.memtable_factory->Name(), "cairn.SubMemTable");
  EXPECT_EQ(options.write_buffer_size, size_t{2} << 20);
  EXPECT_EQ(options.max_write_buffer_number, 7);
  EXPECT_NE(Property(db.get()).find(dir_ / "options"), std::string::npos) << "the file is named";
}

TEST_F(EnvironmentOptionsTest, AWrongTextRefusesEveryOpeningAndIsNamed) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"no_such_option=1", "no_such_option=1"},
      {"memtable_factory", "memtable_factory"},
      {"memtable_factory=cairn.SubMemtable", "cairn.SubMemtable"},
      {"memtable_factory={id=cairn.SubMemTable;pice_size=1M}", "pice_size"},
      {"memtable_factory={id=cairn.SubMemTable", "closing brace"},
      {"memtable_factory=vector", "memtable_factory=vector"},
      {"memtable_factory={id=cairn.SubMemTable;durable=true}", "durable"},
      {"comparator=cairn.HashOrder:xxh3:0", "comparator"},
      {"table_factory=cairn.HashOrderTable", "table_factory=cairn.HashOrderTable"},
      {"table_factory=BlockBasedTable", "cairn.OrderedTable"},
      {"table_factory={id=cairn.OrderedTable;order_bit=6}", "order_bit"},
      {"table_factory={id=cairn.OrderedTable;block_size=5e3}", "block_size is 5e3"},
      {"table_factory={id=cairn.OrderedTable;block_size=16Q;order_bits=6}", "block_size is 16Q"},
      {"write_buffer_size=many", "write_buffer_size=many"},
      {"write_buffer_size=32 M", "write_buffer_size=32 M"},
      {"write_buffer_size=32MB", "write_buffer_size=32MB"},
      {"write_buffer_size=1e8", "write_buffer_size=1e8"},
      {"write_buffer_size=0x4000000", "write_buffer_size=0x4000000"},
      {"write_buffer_size=-1", "write_buffer_size=-1"},
      {"write_buffer_size=32", "from 65536 to 68719476736"},
      {"write_buffer_size=65G", "from 65536 to 68719476736"},
      {"write_buffer_size=18446744073709551616", "write_buffer_size=18446744073709551616"},
      {"write_buffer_size=1M # a remark", "# a remark"},
      {"write_buffer_size=1M,max_write_buffer_number=3", "1M,max_write_buffer_number=3"},
      {"write_buffer_size=1M max_write_buffer_number=3", "1M max_write_buffer_number=3"},
      {"max_write_buffer_number=0", "from 2"},
      {"max_write_buffer_number=-3", "max_write_buffer_number=-3"},
      {"max_write_buffer_number=4G", "from 2"},
      {"min_write_buffer_number_to_merge=0", "from 1"},
      {"memtable_factory=", "no value"},
      {"result_cache=64 M", "result_cache=64 M"},
      {"result_cache=64M,write_buffer_size=1M", "result_cache=64M,write_buffer_size=1M"},
      {"compression=kZSTD", "compression"},
      {"[/data/*", "no ]"},
      {"[data/*]write_buffer_size=1M", "[data/*]"},
      {"[/elsewhere]write_buffer_size=x", "[/elsewhere]"},
      {"[/elsewhere][]write_buffer_size=1M", "[/elsewhere][]"},
      {"[/elsewhere/]write_buffer_size=1M", "[/elsewhere/]"},
      {"[*/index/../db]write_buffer_size=1M", "[*/index/../db]"},
      {"[/else/.]write_buffer_size=1M", "[/else/.]"},
      {"[/else//where]write_buffer_size=1M", "[/else//where]"},
      {"[/elsewhere]\nwrite_buffer_size=1M ; [/more]\nfoo=bar", "[/more]"},
  };
  for (const auto& [text, named] : wrong) {
    for (const bool in_file : {false, true}) {
      Unset();
      in_file ? SetFile(text) : Set(text);
      const rocksdb::Status s = TryOpen(Program());
      EXPECT_TRUE(s.IsInvalidArgument()) << text << ": " << s.ToString();
      EXPECT_NE(s.ToString().find(named), std::string::npos) << text << ": " << s.ToString();
      EXPECT_NE(s.ToString().find(in_file ? dir_ / "options" : "CAIRN_OPTIONS"), std::string::npos) << s.ToString();
    }
  }
  Unset();
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  SetFile(std::string((1 << 20) + 1, ' '));
  for (const std::string& name : {dir_ / "missing", dir_.path(), dir_ / "pipe", dir_ / "options",
                                  std::string("/dev/zero"), std::string("/dev/null")}) {
    setenv("CAIRN_OPTIONS_FILE", name.c_str(), 1);
    EXPECT_TRUE(Says(TryOpen(Program()), &Status::IsInvalidArgument, "CAIRN_OPTIONS_FILE names " + name));
  }
}

TEST_F(EnvironmentOptionsTest, AnEmptyFileSaysNothing) {
  for (const std::string& text : {std::string(), std::string("\n"), std::string(1 << 20, ' ')}) {
    SetFile(text);
    auto db = Open();
    EXPECT_TRUE(IsStock(db.get()));
  }
}

TEST_F(EnvironmentOptionsTest, RandomTextsAreRefusedOrFollowed) {
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  const std::vector<std::string> parts = {"[",
                                          "]",
                                          "*",
                                          "/a",
                                          "{",
                                          "}",
                                          "=",
                                          ";",
                                          "\n",
                                          "#",
                                          " ",
                                          "id",
                                          "write_buffer_size",
                                          "memtable_factory",
                                          "cairn.SubMemTable",
                                          "table_factory",
                                          "cairn.OrderedTable",
                                          "9",
                                          "k",
                                          "-",
                                          std::string(1, '\0'),
                                          "\xff"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (uint64_t n = random.Uniform(24); n > 0; --n) text += parts[random.Uniform(parts.size())];
    std::shared_ptr<EnvironmentOptions> options;
    const rocksdb::Status s = EnvironmentOptions::FromText("a test", text, "/a/b", &options);
    ASSERT_TRUE(s.ok() || s.IsInvalidArgument()) << text;
    ASSERT_TRUE(s.ok() || options == nullptr) << text;
    if (options == nullptr) continue;
    rocksdb::ColumnFamilyDescriptor family;
    ASSERT_OK(options->Apply(&family));
  }
}

TEST_F(EnvironmentOptionsTest, OrderedTablesTakeOverWhatTheBlockBasedOnesWere) {
  Set("table_factory={id=cairn.OrderedTable;order_bits=8}");
  Options options = Program();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(1 << 20);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(12));
  table.block_size = 8192;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  {
    auto db = Open(options);
    const Options opened = db->GetOptions();
    EXPECT_TRUE(IsOrdered(opened));
    // RocksDB without Cairn opens no database whose OPTIONS file names other tables.
    EXPECT_STREQ(opened.table_factory->Name(), "BlockBasedTable");
    EXPECT_TRUE(IsOrdered(Options(rocksdb::DBOptions(), CloneOfTables(opened))));
    std::string text;
    ASSERT_OK(rocksdb::GetStringFromColumnFamilyOptions(&text, opened));
    EXPECT_EQ(text.find("cairn"), std::string::npos) << text;
    EXPECT_EQ(text.find("order_bits"), std::string::npos) << text;
    const auto* const now = opened.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    ASSERT_NE(now, nullptr);
    EXPECT_EQ(now->block_cache, table.block_cache);
    EXPECT_EQ(now->filter_policy, table.filter_policy);
    EXPECT_EQ(now->block_size, table.block_size);
    EXPECT_NE(opened.table_factory->GetPrintableOptions().find("order_bits: 8"), std::string::npos)
        << opened.table_factory->GetPrintableOptions();
    for (int i = 0; i < 1000; ++i) ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), "value"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    OrderedStats stats;
    ASSERT_OK(GetOrderedStats(db.get(), db->DefaultColumnFamily(), &stats));
    EXPECT_EQ(stats.filter_keys, 1000u);
    EXPECT_TRUE(UsesCairnTables(VersionOf(db.get()))) << "a lookup asks all filters at once";
  }
  {
    SCOPED_TRACE("files without order filters, and back");
    Unset();
    auto db = Open(options);
    EXPECT_TRUE(IsStock(db.get()));
    EXPECT_FALSE(UsesCairnTables(VersionOf(db.get())));
    std::string value;
    ASSERT_OK(db->Get(rocksdb::ReadOptions(), "key7", &value));
  }
  options.table_factory.reset(rocksdb::NewPlainTableFactory());
  Set("table_factory=cairn.OrderedTable");
  const rocksdb::Status s = TryOpen(options);
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  for (const char* part : {"table_factory=cairn.OrderedTable", "CAIRN_OPTIONS", "default", "PlainTable"}) {
    EXPECT_NE(s.ToString().find(part), std::string::npos) << s.ToString();
  }
}

TEST_F(EnvironmentOptionsTest, AColumnFamilyOfCairnKeepsItsOwnOptions) {
  Options durable = Program();
  SubMemTableOptions memtable;
  memtable.durable = true;
  durable.memtable_factory = NewSubMemTableFactory(memtable);
  Set(std::string(kSub) + ";write_buffer_size=1M");
  auto db = Open(durable);
  EXPECT_EQ(db->GetOptions().memtable_factory, durable.memtable_factory);
  EXPECT_EQ(db->GetOptions().write_buffer_size, durable.write_buffer_size);
  EXPECT_NE(Property(db.get()).find("keeps"), std::string::npos);
  EXPECT_NE(Log().find("column family default: keeps"), std::string::npos);
}

TEST_F(EnvironmentOptionsTest, EveryDoorReadsTheText) {
  Set(kSub);
  const auto check = [](DB* db) {
    EXPECT_EQ(MemTables(db), "cairn.SubMemTable");
    EXPECT_NE(Property(db).find(kSub), std::string::npos);
    rocksdb::ColumnFamilyHandle* added = nullptr;
    ASSERT_OK(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "added", &added));
    EXPECT_EQ(MemTables(db, added), "cairn.SubMemTable");
    EXPECT_NE(Property(db, added).find("column family added: " + std::string(kSub)), std::string::npos);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), added, "a", "b"));
    ASSERT_OK(db->DestroyColumnFamilyHandle(added));
  };
  {
    SCOPED_TRACE("DB::Open");
    auto db = Open();
    check(db.get());
    EXPECT_NE(Log().find("column family added: " + std::string(kSub)), std::string::npos);
  }
  {
    SCOPED_TRACE("TransactionDB");
    check(OpenedAs<rocksdb::TransactionDB>(Program(), rocksdb::TransactionDBOptions(), dir_ / "transactions").get());
  }
  {
    SCOPED_TRACE("OptimisticTransactionDB");
    check(OpenedAs<rocksdb::OptimisticTransactionDB>(Program(), dir_ / "optimistic").get());
  }
  {
    SCOPED_TRACE("DBWithTTL");
    EXPECT_EQ(MemTables(OpenedAs<rocksdb::DBWithTTL>(Program(), dir_ / "ttl").get()), "cairn.SubMemTable");
  }
  {
    SCOPED_TRACE("the C API");
    rocksdb_options_t* const options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    char* error = nullptr;
    rocksdb_t* const db = rocksdb_open(options, (dir_ / "c").c_str(), &error);
    ASSERT_EQ(error, nullptr) << error;
    char* const value = rocksdb_property_value(db, kProperty);
    ASSERT_NE(value, nullptr);
    EXPECT_NE(std::string(value).find(kSub), std::string::npos) << value;
    free(value);
    rocksdb_close(db);
    rocksdb_options_destroy(options);
  }
}

TEST_F(EnvironmentOptionsTest, OpeningsForReadingReadTheText) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", Program()}};
  Set(kSub);
  { ASSERT_OK(Open()->Put(rocksdb::WriteOptions(), "a", "b")); }
  const auto check = [&](DB* db, const std::string& log) {
    EXPECT_EQ(MemTables(db), "cairn.SubMemTable");
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
    EXPECT_NE(Log(log).find("column family default: " + std::string(kSub)), std::string::npos) << log;
    delete db;
  };
  DB* db = nullptr;
  ASSERT_OK(DB::OpenForReadOnly(Program(), dir_ / "db", port::Into(&db)));
  check(db, "db");
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ASSERT_OK(DB::OpenForReadOnly(Program(), dir_ / "db", families, &handles, port::Into(&db)));
  delete handles[0];
  check(db, "db");
  ASSERT_OK(DB::OpenAsSecondary(Program(), dir_ / "db", dir_ / "secondary", port::Into(&db)));
  check(db, "secondary");
  Set("memtable_factory=none");
  EXPECT_TRUE(DB::OpenForReadOnly(Program(), dir_ / "db", port::Into(&db)).IsInvalidArgument());
  EXPECT_EQ(db, nullptr);
  EXPECT_TRUE(DB::OpenAsSecondary(Program(), dir_ / "db", dir_ / "secondary", port::Into(&db)).IsInvalidArgument());
}

TEST_F(EnvironmentOptionsTest, AColumnFamilyThatIsCreatedAnewIsJudgedAnew) {
  Set(kSub);
  auto db = Open();
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  ASSERT_OK(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "a", &handle));
  EXPECT_EQ(Property(db.get(), handle).find("keeps"), std::string::npos);
  ASSERT_OK(db->DropColumnFamily(handle));
  ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  rocksdb::ColumnFamilyOptions own;
  own.memtable_factory = NewSubMemTableFactory();
  ASSERT_OK(db->CreateColumnFamily(own, "a", &handle));
  EXPECT_NE(Property(db.get(), handle).find("keeps"), std::string::npos);
  ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
}

TEST_F(EnvironmentOptionsTest, AColumnFamilyThatCannotFollowIsNotCreated) {
  Set("[*][plain]table_factory=cairn.OrderedTable");
  auto db = Open();
  rocksdb::ColumnFamilyOptions plain;
  plain.table_factory.reset(rocksdb::NewPlainTableFactory());
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  EXPECT_TRUE(db->CreateColumnFamily(plain, "plain", &handle).IsNotSupported());
  EXPECT_EQ(handle, nullptr);
  ASSERT_OK(db->CreateColumnFamily(plain, "other", &handle));
  ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
}

// Their memtables must take a key twice under one sequence number.
TEST_F(EnvironmentOptionsTest, TransactionsThatNeedOtherMemTablesAreToldWhoseTheseAre) {
  for (const rocksdb::TxnDBWritePolicy policy :
       {rocksdb::TxnDBWritePolicy::WRITE_PREPARED, rocksdb::TxnDBWritePolicy::WRITE_UNPREPARED}) {
    SCOPED_TRACE(policy);
    rocksdb::TransactionDBOptions transactions;
    transactions.write_policy = policy;
    const std::string path = dir_ / ("transactions" + std::to_string(policy));
    rocksdb::TransactionDB* db = nullptr;
    Set(kSub);
    const rocksdb::Status s = rocksdb::TransactionDB::Open(Program(), transactions, path, &db);
    EXPECT_EQ(db, nullptr);
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    for (const char* part : {kSub, "everything in CAIRN_OPTIONS", "column family default", "WRITE_PREPARED",
                             "[PATH]memtable_factory=skip_list"}) {
      EXPECT_NE(s.ToString().find(part), std::string::npos) << s.ToString();
    }
    Set(std::string(kSub) + ";[*/transactions*][default]memtable_factory=skip_list");
    ASSERT_OK(rocksdb::TransactionDB::Open(Program(), transactions, path, &db));
    rocksdb::ColumnFamilyHandle* added = nullptr;
    const rocksdb::Status of_new = db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "added", &added);
    EXPECT_TRUE(of_new.IsNotSupported() || of_new.IsInvalidArgument()) << of_new.ToString();
    delete db;
    Set("write_buffer_size=1M;[*/transactions*]memtable_factory=skip_list");
    ASSERT_OK(rocksdb::TransactionDB::Open(Program(), transactions, path, &db));
    ASSERT_OK(db->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "added", &added));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), added, "a", "b"));
    EXPECT_EQ(db->GetOptions(added).write_buffer_size, size_t{1} << 20);
    delete added;
    delete db;
  }
}

// Run by the next test, as another user's.
TEST_F(EnvironmentOptionsTest, DISABLED_AProgramWithMoreRights) {
  auto db = Open();
  EXPECT_NE(getauxval(AT_SECURE), 0u);
  EXPECT_TRUE(IsStock(db.get()));
  db.reset();
  fflush(nullptr);
  // Without a sanitizer's look for leaks: such a program may not look at its own memory from outside.
  _exit(HasFailure() ? 1 : 0);
}

TEST_F(EnvironmentOptionsTest, AProgramWithMoreRightsThanItsCallerReadsNoEnvironment) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a program to another user";
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path copy = program.string() + "_setuid_" + std::to_string(getpid());
  std::filesystem::copy_file(program, copy);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(chown(copy.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chmod(copy.c_str(), 04755), 0);
  ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv("CAIRN_OPTIONS", kSub, 1);
    setenv("TMPDIR", dir_.path().c_str(), 1);
    execl(copy.c_str(), copy.c_str(), "--gtest_also_run_disabled_tests", "--gtest_filter=*AProgramWithMoreRights",
          nullptr);
    _exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove(copy);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace cairn::test
