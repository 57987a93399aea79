// Everything of ours and of RocksDB's that opens, repairs or removes a database, on one with durable memtables whose
// process was killed, on one that a process has open, and in a folder that cannot be written to: it recovers what the
// pool file holds, sees it, removes it, or refuses and says what to do. Nothing acts as if there were no pool file.

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/trie.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr int kInTables = 20;
constexpr int kInPool = 10;

std::string KeyOf(int i) { return "key" + std::to_string(i); }

class KilledDurableTest : public ::testing::TestWithParam<const char*> {
 protected:
  ~KilledDurableTest() override { umount(path_.c_str()); }

  // One table, and the rest in the pool file. What a killed process leaves is a copy made while it runs.
  void SetUp() override {
    ASSERT_OK(Start(dir_ / "running", &running_));
    fs::copy(dir_ / "running", dir_ / "killed");
    path_ = dir_ / "db";
    Kill();
  }

  Options PlainOptions() const {
    Options options = test::BaseOptions();
    if (GetParam() == std::string("trie")) EXPECT_OK(UseTrie(&options));
    return options;
  }
  Options DurableOptions() const {
    Options options = PlainOptions();
    SubMemTableOptions memtable;
    memtable.durable = true;
    options.memtable_factory = NewSubMemTableFactory(memtable);
    return options;
  }

  Status Start(const std::string& path, std::unique_ptr<DB>* db) const {
    Status s = cairn::Open(DurableOptions(), path, port::Into(db));
    if (!s.ok()) return s;
    for (int i = 0; s.ok() && i < kInTables + kInPool; ++i) {
      if (i == kInTables) s = (*db)->Flush(rocksdb::FlushOptions());
      if (s.ok()) s = (*db)->Put(WriteOptions(), KeyOf(i), "value");
    }
    return s;
  }

  void Kill() {
    fs::remove_all(path_);
    fs::copy(dir_ / "killed", path_);
  }

  // Whether all that was acknowledged is there, when a program that knows how to opens the database next.
  void ExpectWhole() {
    std::vector<std::string> names;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> db;
    ASSERT_OK(OpenWithStoredOptions(path_, &names, &handles, port::Into(&db)));
    for (int i = 0; i < kInTables + kInPool; ++i) {
      std::string value;
      EXPECT_OK(db->Get(rocksdb::ReadOptions(), KeyOf(i), &value));
    }
    for (rocksdb::ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  }

  void ExpectRefused(const std::string& what, const Status& s) {
    SCOPED_TRACE(what);
    EXPECT_FALSE(s.ok());
    EXPECT_CONTAINS(s.ToString(), "cairn recover " + path_);
    ExpectWhole();
    Kill();
  }

  ProgramResult Ldb(std::vector<std::string> words) {
    words.insert(words.begin(), "--db=" + path_);
    return RunBuilt("ldb", words);
  }

  test::TempDir dir_;
  std::string path_;
  std::unique_ptr<DB> running_;
};

TEST_P(KilledDurableTest, WaysToOpen) {
  DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const Options plain = PlainOptions();
  const Options durable = DurableOptions();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", durable}};
  ExpectRefused("without durable", DB::Open(plain, path_, port::Into(&db)));
  ExpectRefused("without durable, by cairn", cairn::Open(plain, path_, &db));
  rocksdb::TransactionDB* transactions = nullptr;
  ExpectRefused("transactions", rocksdb::TransactionDB::Open(plain, {}, path_, &transactions));
  rocksdb::DBWithTTL* ttl = nullptr;
  if (GetParam() != std::string("trie")) ExpectRefused("ttl", rocksdb::DBWithTTL::Open(plain, path_, &ttl));
  for (const Options& options : {plain, durable}) {
    ExpectRefused("read-only", DB::OpenForReadOnly(options, path_, port::Into(&db)));
    ExpectRefused("read-only families",
                  DB::OpenForReadOnly(options, path_, {{"default", options}}, &handles, port::Into(&db)));
    ExpectRefused("secondary", DB::OpenAsSecondary(options, path_, dir_ / "secondary", port::Into(&db)));
    ExpectRefused("secondary families", DB::OpenAsSecondary(options, path_, dir_ / "secondary", {{"default", options}},
                                                            &handles, port::Into(&db)));
  }
  ExpectRefused("repair", rocksdb::RepairDB(path_, plain));
  ExpectRefused("repair families", rocksdb::RepairDB(path_, durable, families));
  ExpectRefused("repair unknown families", rocksdb::RepairDB(path_, durable, families, durable));
  // The two that recover it.
  ASSERT_OK(DB::Open(durable, path_, port::Into(&db)));
  delete db;
  ExpectWhole();
  Kill();
  EXPECT_EQ(Cairn({"recover", path_}).exit_code, 0);
  ASSERT_OK(DB::Open(plain, path_, port::Into(&db)));
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), KeyOf(kInTables), &value));
  delete db;
}

TEST_P(KilledDurableTest, DestroyLeavesNothing) {
  ASSERT_OK(rocksdb::DestroyDB(path_, Options()));
  EXPECT_FALSE(fs::exists(path_));
  DB* db = nullptr;
  ASSERT_OK(cairn::Open(DurableOptions(), path_, &db));
  std::string value;
  EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), KeyOf(0), &value).IsNotFound());
  EXPECT_FALSE(rocksdb::DestroyDB(path_, Options()).ok());
  delete db;
}

// Commands of ldb that open the database by its stored options recover it; others refuse or touch nothing.
TEST_P(KilledDurableTest, Ldb) {
  const bool trie = GetParam() == std::string("trie");
  std::vector<std::vector<std::string>> seeing = {
      {"get", KeyOf(kInTables)}, {"scan"}, {"dump"}, {"idump"}, {"multi_get", KeyOf(0), KeyOf(kInTables)}};
  for (const auto& words : seeing) {
    SCOPED_TRACE(words[0]);
    const ProgramResult result = Ldb(words);
    // It shows what is in the pool file, or says why not.
    if (result.exit_code == 0) {
      EXPECT_CONTAINS(result.out, words[0] == "get" || words[0] == "multi_get" ? "value" : KeyOf(kInTables));
    } else {
      EXPECT_CONTAINS(result.err + result.out, "cairn recover " + path_);
    }
    ExpectWhole();
    Kill();
  }
  std::vector<std::vector<std::string>> others = {
      {"put", "new", "value"},
      {"delete", "new"},
      {"batchput", "new", "value"},
      {"compact"},
      {"checkconsistency"},
      {"list_column_families"},
      {"manifest_dump"},
      {"dump_live_files"},
      {"list_live_files_metadata"},
      {"get_property", "rocksdb.stats"},
      {"create_column_family", "other"},
      {"repair"},
      {"reduce_levels", "--new_levels=2"},
      {"change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"},
      {"update_manifest"},
      {"checkpoint", "--checkpoint_dir=" + (dir_ / "checkpoint")},
      {"backup", "--backup_dir=" + (dir_ / "backup")},
      {"file_checksum_dump"},
      {"approxsize"},
      {"list_file_range_deletes"},
      {"put", "new", "value", "--ttl"},
      {"scan", "--secondary_path=" + (dir_ / "secondary")}};
  for (const auto& words : others) {
    SCOPED_TRACE(words[0]);
    const ProgramResult result = Ldb(words);
    const std::string said = result.out + result.err;
    if (words[0] == "repair" || words.back().find("secondary") != std::string::npos) {
      EXPECT_NE(result.exit_code, 0) << said;
      EXPECT_CONTAINS(said, "cairn recover " + path_);
    }
    ExpectWhole();
    Kill();
  }
  // Copies hold it, too.
  for (const std::string copy : {"checkpoint", "restored"}) {
    SCOPED_TRACE(copy);
    if (copy == "restored") {
      path_ = dir_ / "restored";
      EXPECT_EQ(Ldb({"restore", "--backup_dir=" + (dir_ / "backup")}).exit_code, 0);
    }
    path_ = dir_ / copy;
    ExpectWhole();
  }
  (void)trie;
}

TEST_P(KilledDurableTest, Cairn) {
  EXPECT_TRUE(Says(0, Cairn({"stats", path_}), {"holds 10 writes"}));
  EXPECT_TRUE(Says(1, Cairn({"convert", path_, dir_ / "converted", "--to", "stock"}), {"cairn recover " + path_}));
  EXPECT_TRUE(Says(1, Cairn({"repair", path_, "--yes"}), {"cairn recover " + path_}));
  ExpectWhole();
  Kill();
  if (GetParam() == std::string("trie")) {
    EXPECT_TRUE(Says(0, Cairn({"compact", path_})));
    ExpectWhole();
  }
}

// What a process has open.
TEST_P(KilledDurableTest, ALiveDatabase) {
  path_ = dir_ / "running";
  DB* db = nullptr;
  for (const Options& options : {PlainOptions(), DurableOptions()}) {
    EXPECT_TRUE(DB::OpenForReadOnly(options, path_, port::Into(&db)).IsBusy());
    EXPECT_TRUE(DB::OpenAsSecondary(options, path_, dir_ / "secondary", port::Into(&db)).IsBusy());
    EXPECT_FALSE(DB::Open(options, path_, port::Into(&db)).ok());
    EXPECT_FALSE(rocksdb::DestroyDB(path_, options).ok());
    EXPECT_FALSE(rocksdb::RepairDB(path_, options).ok());
  }
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"get", KeyOf(0)}, {"scan"}, {"put", "new", "value"}, {"repair"}, {"compact"}, {"checkconsistency"}}) {
    const ProgramResult result = Ldb(words);
    EXPECT_NE(result.exit_code, 0) << words[0] << result.out;
  }
  EXPECT_EQ(Cairn({"stats", path_}).exit_code, 0);
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"convert", path_, dir_ / "converted", "--to", "stock"},
                                             {"repair", path_, "--yes"},
                                             {"recover", path_},
                                             {"recover", path_, "--discard"},
                                             {"compact", path_}}) {
    EXPECT_TRUE(Says(1, Cairn(words)));
  }
  ASSERT_OK(running_->Put(WriteOptions(), "still", "works"));
  running_.reset();
  ExpectWhole();
}

TEST_P(KilledDurableTest, AFolderThatCannotBeWritten) {
  if (mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    GTEST_SKIP() << "mounting takes root: " << strerror(errno);
  }
  DB* db = nullptr;
  EXPECT_FALSE(DB::Open(DurableOptions(), path_, port::Into(&db)).ok());
  EXPECT_FALSE(DB::Open(PlainOptions(), path_, port::Into(&db)).ok());
  const Status s = DB::OpenForReadOnly(PlainOptions(), path_, port::Into(&db));
  EXPECT_CONTAINS(s.ToString(), "cairn recover " + path_);
  EXPECT_EQ(Cairn({"stats", path_}).exit_code, 0);
  EXPECT_EQ(Cairn({"recover", path_}).exit_code, 1);
  EXPECT_EQ(Cairn({"repair", path_, "--yes"}).exit_code, 1);
  EXPECT_FALSE(rocksdb::DestroyDB(path_, Options()).ok());
  umount(path_.c_str());
  ExpectWhole();
}

INSTANTIATE_TEST_SUITE_P(Engines, KilledDurableTest, ::testing::Values("leveled", "trie"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn
