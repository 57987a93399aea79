// cairn repair: what it mends, what it leaves alone, and that it says so before it does anything.

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/trie.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "options/options_parser.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"
#include "tools/repair.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr int kTables = 40;
constexpr int kKeysOfTable = 50;

std::string KeyOf(int table, int i) { return "key" + std::to_string(table * 1000 + i + 100000); }

// Names and contents.
std::map<std::string, std::string> FilesOf(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    std::ostringstream bytes;
    if (entry.is_regular_file()) bytes << std::ifstream(entry.path()).rdbuf();
    files[entry.path().string()] = bytes.str();
  }
  return files;
}

class RepairTest : public ::testing::Test {
 protected:
  static Options Stock() {
    Options options;
    options.create_if_missing = true;
    options.num_levels = 3;
    options.disable_auto_compactions = true;
    options.keep_log_file_num = 1000;
    return options;
  }

  // Half of the tables at the bottom, half at the top, and something in the WAL.
  void Make(const Options& options) {
    std::unique_ptr<DB> db;
    ASSERT_OK(cairn::Open(options, path_, port::Into(&db)));
    for (int table = 0; table < kTables; ++table) {
      for (int i = 0; i < kKeysOfTable; ++i) ASSERT_OK(db->Put(WriteOptions(), KeyOf(table, i), "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
      if (table == kTables / 2 && options.compaction_style == rocksdb::kCompactionStyleLevel) {
        rocksdb::CompactRangeOptions move;
        ASSERT_OK(db->CompactRange(move, nullptr, nullptr));
      }
    }
    ASSERT_OK(db->Put(WriteOptions(), "in the WAL", "value"));
    ASSERT_OK(db->GetDbIdentity(id_));
    db->GetLiveFilesMetaData(&tables_);
  }

  // How many of the keys there are, with the options stored.
  void Read(int* keys, bool* wal, std::vector<rocksdb::LiveFileMetaData>* tables = nullptr) {
    std::vector<std::string> names;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    std::unique_ptr<DB> db;
    ASSERT_OK(OpenWithStoredOptions(path_, &names, &handles, port::Into(&db)));
    *keys = 0;
    std::string value;
    for (int table = 0; table < kTables; ++table) {
      for (int i = 0; i < kKeysOfTable; ++i) {
        *keys += db->Get(rocksdb::ReadOptions(), KeyOf(table, i), &value).ok() ? 1 : 0;
      }
    }
    *wal = db->Get(rocksdb::ReadOptions(), "in the WAL", &value).ok();
    std::string id;
    ASSERT_OK(db->GetDbIdentity(id));
    EXPECT_EQ(id, id_);
    if (tables != nullptr) db->GetLiveFilesMetaData(tables);
    for (rocksdb::ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  }
  void ExpectWhole() {
    int keys = 0;
    bool wal = false;
    Read(&keys, &wal);
    EXPECT_EQ(keys, kTables * kKeysOfTable);
    EXPECT_TRUE(wal);
  }

  ProgramResult Repair(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {"repair", path_};
    words.insert(words.end(), flags.begin(), flags.end());
    return Cairn(words);
  }

  // Says what it would do, and does nothing.
  ProgramResult ExpectAsks() {
    const auto before = FilesOf(path_);
    const ProgramResult result = Repair();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_CONTAINS(result.err, "--yes");
    EXPECT_TRUE(before == FilesOf(path_));
    return result;
  }

  void ExpectUntouched(const std::vector<std::string>& shell, const std::string& message, int exit_code = 1) {
    const auto before = FilesOf(path_);
    const ProgramResult result = shell.empty() ? Repair({"--yes"}) : RunProgram(shell);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_CONTAINS(result.err + result.out, message);
    EXPECT_TRUE(before == FilesOf(path_)) << result.err;
  }

  std::string File(const std::string& part) const {
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename().string().find(part) != std::string::npos) return entry.path().string();
    }
    return "";
  }

  test::TempDir dir_;
  std::string path_ = dir_ / "db";
  std::string id_;
  std::vector<rocksdb::LiveFileMetaData> tables_;
};

TEST_F(RepairTest, AHealthyDatabaseIsNotTouched) {
  Make(Stock());
  ExpectUntouched({}, "opens without repair", 0);
  ExpectWhole();
}

// The reviewer's case: any failed opening was taken for damage, and the repair put all tables into "lost".
TEST_F(RepairTest, TooManyOpenFilesIsNoDamage) {
  Make(Stock());
  ExpectUntouched({"/bin/sh", "-c", "ulimit -n 24; exec " + ProgramPath("cairn") + " repair --yes " + path_},
                  "Too many open files");
  ExpectWhole();
}

TEST_F(RepairTest, OptionsThatDoNotFitAreNoDamage) {
  Make(Stock());
  // Another comparator than the one that the MANIFEST names.
  const std::string file = [&] {
    std::string name;
    EXPECT_TRUE(rocksdb::GetLatestOptionsFileName(path_, rocksdb::Env::Default(), &name).ok());
    return path_ + "/" + name;
  }();
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  std::string changed = text.str();
  const std::string comparator = "comparator=leveldb.BytewiseComparator";
  changed.replace(changed.find(comparator), comparator.size(), "comparator=rocksdb.ReverseBytewiseComparator");
  std::ofstream(file) << changed;
  ExpectUntouched({}, "no damage");
}

TEST_F(RepairTest, DurableDatabases) {
  Options options = Stock();
  SubMemTableOptions memtable;
  memtable.durable = true;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  Make(options);
  ExpectUntouched({}, "opens without repair", 0);
  ExpectWhole();
  // As a killed process would leave it.
  options.memtable_factory = NewSubMemTableFactory(memtable);
  DB* db = nullptr;
  ASSERT_OK(cairn::Open(options, path_, &db));
  ASSERT_OK(db->Put(WriteOptions(), "in the pool", "value"));
  fs::copy(path_, dir_ / "killed");
  delete db;
  path_ = dir_ / "killed";
  ExpectUntouched({}, "cairn recover " + path_);
  fs::remove(path_ + "/CURRENT");
  EXPECT_EQ(Repair({"--yes"}).exit_code, 0);
  ExpectUntouched({}, "cairn recover " + path_);
  ExpectWhole();
}

// A killed durable database whose MANIFEST is lost: what the pool holds is not in it, and recovery needs a MANIFEST.
TEST_F(RepairTest, ALostManifestBesideAPoolThatHoldsWrites) {
  Options options = Stock();
  options.create_missing_column_families = true;
  ASSERT_OK(
      rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator));
  SubMemTableOptions memtable;
  memtable.durable = true;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  DB* raw = nullptr;
  ASSERT_OK(cairn::Open(options, path_, {{"default", options}, {"without a table", options}, {"third", options}},
                        &handles, &raw));
  std::unique_ptr<DB> db(raw);
  ASSERT_OK(db->GetDbIdentity(id_));
  handles.push_back(nullptr);
  ASSERT_OK(db->CreateColumnFamily(options, "later", &handles.back()));
  for (int i = 0; i < 100; ++i) {
    for (auto* handle : handles) {
      ASSERT_OK(db->Merge(WriteOptions(), handle, "key" + std::to_string(i % 10), std::to_string(i)));
    }
    if (i == 50) ASSERT_OK(db->Flush(rocksdb::FlushOptions(), handles[0]));
    if (i == 70) ASSERT_OK(db->Flush(rocksdb::FlushOptions(), {handles[0], handles[2]}));
  }
  const auto read = [](DB* from, const std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    std::map<std::string, std::string> all;
    for (auto* family : families) {
      const std::unique_ptr<rocksdb::Iterator> at(from->NewIterator(rocksdb::ReadOptions(), family));
      for (at->SeekToFirst(); at->Valid(); at->Next()) {
        all[family->GetName() + " " + at->key().ToString()] = at->value().ToString();
      }
    }
    return all;
  };
  const std::map<std::string, std::string> expected = read(db.get(), handles);
  ASSERT_EQ(expected.size(), 40u);
  const std::string killed = dir_ / "killed";
  fs::copy(path_, killed);
  for (auto* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
  db.reset();
  for (const std::string damage :
       {"MANIFEST is lost", "MANIFEST is cut off", "MANIFEST is garbage", "CURRENT is lost", "interrupted"}) {
    SCOPED_TRACE(damage);
    path_ = dir_ / damage;
    fs::copy(killed, path_);
    if (damage == "MANIFEST is cut off") {
      fs::resize_file(File("MANIFEST"), 30);
    } else if (damage == "MANIFEST is garbage") {
      std::ofstream(File("MANIFEST")) << std::string(5000, 'x');
    } else {
      fs::remove(File(damage == "CURRENT is lost" ? "CURRENT" : "MANIFEST"));
    }
    if (damage == "interrupted") {
      // After the new MANIFEST, before the pool's writes.
      std::vector<RepairStep> steps;
      const auto only_the_first = [&](RepairStep step) {
        steps.push_back(step);
        return steps.size() == 1;
      };
      std::string what_was_done;
      ASSERT_OK(RepairDatabase(
          path_, [](const std::string&) {}, only_the_first, &what_was_done));
      ASSERT_EQ(steps, (std::vector<RepairStep>{RepairStep::kRebuild, RepairStep::kTakePool}));
      ExpectUntouched({ProgramPath("cairn"), "recover", path_}, "cairn repair");
    } else {
      const ProgramResult asked = ExpectAsks();
      EXPECT_CONTAINS(asked.err, damage == "CURRENT is lost" ? "nothing is lost" : "writes in ");
    }
    const ProgramResult result = Repair({"--yes"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> names;
    std::vector<rocksdb::ColumnFamilyHandle*> again;
    ASSERT_OK(OpenWithStoredOptions(path_, &names, &again, &raw));
    db.reset(raw);
    EXPECT_EQ(read(db.get(), again), expected) << result.err << result.out;
    std::string id;
    ASSERT_OK(db->GetDbIdentity(id));
    EXPECT_EQ(id, id_);
    for (auto* handle : again) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    db.reset();
    ExpectUntouched({}, "opens without repair", 0);
  }
}

TEST_F(RepairTest, ABusyDatabase) {
  Make(Stock());
  DB* db = nullptr;
  ASSERT_OK(DB::Open(Stock(), path_, port::Into(&db)));
  EXPECT_TRUE(Says(1, Repair({"--yes"}), {"is open in another process"}));
  delete db;
  ExpectWhole();
}

// Only what is damaged goes; the others stay at their levels.
TEST_F(RepairTest, AMissingAndADamagedTable) {
  Make(Stock());
  std::string missing;
  std::string damaged;
  for (const auto& table : tables_) {
    if (table.level == 0) (missing.empty() ? missing : damaged) = table.relative_filename;
  }
  fs::remove(path_ + "/" + missing);
  fs::resize_file(path_ + "/" + damaged, 100);
  ProgramResult result = ExpectAsks();
  EXPECT_CONTAINS(result.err, missing);
  EXPECT_CONTAINS(result.err, damaged);
  EXPECT_TRUE(Says(0, Repair({"--yes"})));
  EXPECT_TRUE(fs::exists(path_ + "/lost/" + damaged));
  int keys = 0;
  bool wal = false;
  std::vector<rocksdb::LiveFileMetaData> tables;
  Read(&keys, &wal, &tables);
  EXPECT_EQ(keys, (kTables - 2) * kKeysOfTable);
  EXPECT_TRUE(wal);
  size_t found = 0;
  for (const auto& before : tables_) {
    for (const auto& after : tables) found += before.file_number == after.file_number && before.level == after.level;
  }
  EXPECT_EQ(found, tables_.size() - 2);
}

TEST_F(RepairTest, ALostCurrentLosesNothing) {
  Make(Stock());
  fs::remove(path_ + "/CURRENT");
  ProgramResult result = ExpectAsks();
  EXPECT_CONTAINS(result.err, "CURRENT");
  EXPECT_CONTAINS(result.err, "nothing is lost");
  EXPECT_TRUE(Says(0, Repair({"--yes"})));
  std::vector<rocksdb::LiveFileMetaData> tables;
  int keys = 0;
  bool wal = false;
  Read(&keys, &wal, &tables);
  EXPECT_EQ(keys, kTables * kKeysOfTable);
  EXPECT_TRUE(wal);
  EXPECT_GE(tables.size(), tables_.size());
}

TEST_F(RepairTest, ALostManifestIsRebuiltWithItsIdentity) {
  for (const bool trie : {false, true}) {
    SCOPED_TRACE(trie);
    fs::remove_all(path_);
    Options options = Stock();
    if (trie) ASSERT_OK(UseTrie(&options));
    Make(options);
    fs::remove(File("MANIFEST"));
    ProgramResult result = ExpectAsks();
    EXPECT_CONTAINS(result.err, "MANIFEST");
    EXPECT_CONTAINS(result.err, "may come back");
    EXPECT_TRUE(Says(0, Repair({"--yes"}), {"was rebuilt"}));
    ExpectWhole();
    ExpectUntouched({}, "opens without repair", 0);
  }
}

// It would give every column family the bytewise comparator, with which no trie can be read again.
TEST_F(RepairTest, NoRepairTakesATrieForSomethingElse) {
  Options options = Stock();
  ASSERT_OK(UseTrie(&options));
  Make(options);
  ExpectUntouched({ProgramPath("ldb"), "--db=" + path_, "repair"}, "cairn repair " + path_);
  ASSERT_TRUE(rocksdb::RepairDB(path_, Stock()).IsInvalidArgument());
  ASSERT_TRUE(rocksdb::RepairDB(path_, Stock(), {{"default", Stock()}}).IsInvalidArgument());
  ASSERT_TRUE(rocksdb::RepairDB(path_, Stock(), {}, Stock()).IsInvalidArgument());
  ExpectWhole();
  ASSERT_OK(rocksdb::RepairDB(path_, options, {{"default", options}}));
}

// `cairn options --into` makes such a folder; a repair would make a new database of it.
TEST_F(RepairTest, OptionsAloneAreNoDatabase) {
  for (const bool durable : {false, true}) {
    SCOPED_TRACE(durable);
    fs::remove_all(path_);
    std::vector<std::string> words = {ProgramPath("cairn"), "options", "trie", "--into", path_};
    if (durable)
      words.insert(words.end(), {"--rocksdb-option", "memtable_factory={id=cairn.SubMemTable;durable=true}"});
    ASSERT_EQ(RunProgram(words).exit_code, 0);
    ExpectUntouched({}, "nothing of a database");
    ExpectUntouched({ProgramPath("cairn"), "repair", path_}, "nothing to repair");
  }
}

// As `cairn options --into` writes them before there is a database.
TEST_F(RepairTest, StoredOptionsMayLeaveTheSeedOpen) {
  for (const std::string lost : {"MANIFEST", "CURRENT"}) {
    SCOPED_TRACE(lost);
    fs::remove_all(path_);
    Options options = Stock();
    ASSERT_OK(UseTrie(&options));
    Make(options);
    while (!File("OPTIONS").empty()) fs::remove(File("OPTIONS"));
    ASSERT_OK(rocksdb::PersistRocksDBOptions(WriteOptions(), options, {"default"}, {options}, path_ + "/OPTIONS-000005",
                                             rocksdb::FileSystem::Default().get()));
    fs::remove(File(lost));
    EXPECT_TRUE(Says(0, Repair({"--yes"})));
    ExpectWhole();
  }
}

// RocksDB's repair opens all tables as those of the default column family, and takes what that cannot read for damaged.
TEST_F(RepairTest, EachColumnFamilyIsReadInItsOwnOrderAndFormat) {
  std::vector<Options> kinds(5, Stock());
  HashTrieOptions trie;
  for (int i = 1; i < 4; ++i) {
    trie.format = i == 1 ? "sst" : "htable";
    if (i == 3) trie.bottommost_format = "ect";
    ASSERT_OK(UseTrie(&kinds[i], trie));
  }
  kinds[4].comparator = rocksdb::ReverseBytewiseComparator();
  for (size_t first = 0; first < kinds.size(); ++first) {
    SCOPED_TRACE(first);
    fs::remove_all(path_);
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (size_t i = 0; i < kinds.size(); ++i) {
      const Options& kind = kinds[(first + i) % kinds.size()];
      families.emplace_back(i == 0 ? "default" : "family" + std::to_string(i), kind);
    }
    rocksdb::DBOptions options = kinds[1];
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    ASSERT_OK(DB::Open(options, path_, families, &handles, port::Into(&db)));
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      ASSERT_OK(db->Put(WriteOptions(), handle, "table", "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions(), handle));
      ASSERT_OK(db->Put(WriteOptions(), handle, "wal", "value"));
      ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    }
    delete db;
    fs::remove(File("MANIFEST"));
    EXPECT_TRUE(Says(0, Repair({"--yes"})));
    handles.clear();
    ASSERT_OK(DB::Open(options, path_, families, &handles, port::Into(&db)));
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      for (const char* key : {"table", "wal"}) {
        std::string value;
        EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), handle, key, &value).ok()) << handle->GetName() << " " << key;
      }
      ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    }
    delete db;
  }
}

TEST_F(RepairTest, ADamagedManifest) {
  Make(Stock());
  const std::string manifest = File("MANIFEST");
  std::fstream file(manifest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(manifest) / 2));
  file << "damaged";
  file.close();
  ExpectAsks();
  EXPECT_TRUE(Says(0, Repair({"--yes"})));
  ExpectWhole();
}

// RocksDB's repair forgets blob files, and the next opening then deletes them.
TEST_F(RepairTest, ADatabaseWithBlobFilesIsNotRebuilt) {
  Options options = Stock();
  options.enable_blob_files = true;
  Make(options);
  ASSERT_NE(File(".blob"), "");
  fs::remove(File("MANIFEST"));
  ExpectUntouched({}, "blob");
}

TEST_F(RepairTest, ADamagedWal) {
  Options options = Stock();
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  Make(options);
  {
    DB* db = nullptr;
    ASSERT_OK(DB::Open(options, path_, port::Into(&db)));
    for (int i = 0; i < 100; ++i)
      ASSERT_OK(db->Put(WriteOptions(), "late" + std::to_string(i), std::string(1000, 'v')));
    ASSERT_OK(db->Put(WriteOptions(), "in the WAL", "value"));
    delete db;
  }
  std::string wal;
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path().extension() == ".log" && entry.file_size() > 10000) wal = entry.path().string();
  }
  ASSERT_NE(wal, "");
  std::fstream file(wal, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(5000);
  file << "damaged";
  file.close();
  ProgramResult result = ExpectAsks();
  EXPECT_CONTAINS(result.err, fs::path(wal).filename().string());
  EXPECT_TRUE(Says(0, Repair({"--yes"})));
  EXPECT_TRUE(fs::exists(path_ + "/lost/" + fs::path(wal).filename().string()));
  ExpectWhole();
  ExpectUntouched({}, "opens without repair", 0);
}

TEST_F(RepairTest, AReadOnlyFolder) {
  Make(Stock());
  fs::remove(path_ + "/" + tables_[0].relative_filename);
  if (mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
      mount(nullptr, path_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) {
    umount(path_.c_str());
    GTEST_SKIP() << "mounting takes root: " << strerror(errno);
  }
  ExpectUntouched({}, "Read-only file system");
  umount(path_.c_str());
}

}  // namespace
}  // namespace cairn
