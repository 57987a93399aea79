// RocksDB's own ldb and sst_dump on trie databases of all formats, as they come: with nothing on the command line about
// the engine.

#include <cairn/db.h>
#include <cairn/prefix_order.h>
#include <cairn/trie.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"
#include "test/testutil/temp_dir.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr int kRecords = 1200;

std::set<std::string> Lines(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream input(text);
  for (std::string line; std::getline(input, line);) lines.insert(line);
  return lines;
}

Options SmallOptions() {
  Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = 64 << 10;
  return options;
}

// All records in each of the column families, in several tables that have been compacted.
void Make(const Options& options, const std::string& path, const std::vector<ColumnFamilyDescriptor>& families,
          std::string (*key)(int), std::string (*value)(int)) {
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<DB> db;
  const Status s = Open(options, path, families, &handles, port::Into(&db));
  ASSERT_TRUE(s.ok()) << s.ToString();
  for (int i = 0; i < kRecords; i++) {
    for (ColumnFamilyHandle* handle : handles) {
      ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), handle, key(i), value(i)).ok());
    }
    if (i % 200 == 199) {
      ASSERT_TRUE(db->Flush(rocksdb::FlushOptions(), handles).ok());
      ASSERT_TRUE(WaitForTrieCompaction(db.get()).ok());
    }
  }
  for (ColumnFamilyHandle* handle : handles) ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
}

struct Format {
  const char* name;
  const char* format;
  const char* bottommost;
};

// A trie "default" with files at several depths, an ordinary column family "plain" and a trie "second".
class LdbTest : public ::testing::TestWithParam<Format> {
 protected:
  LdbTest() { path_ = directory_ / "db"; }

  void SetUp() override {
    rocksdb::Options options = SmallOptions();
    const rocksdb::ColumnFamilyOptions plain(options);
    HashTrieOptions trie;
    trie.fan_out = 2;
    trie.slots = 4;
    trie.trigger = 2;
    trie.root_trigger = 2;
    trie.format = GetParam().format;
    trie.bottommost_format = GetParam().bottommost;
    ASSERT_TRUE(UseTrie(&options, trie).ok());
    Make(options, path_, {{"default", options}, {"plain", plain}, {"second", options}}, Key, Value);
  }

  static std::string Key(int i) { return "key" + std::to_string(i); }
  static std::string Value(int i) { return "value" + std::to_string(i * 7); }

  ProgramResult Ldb(std::vector<std::string> words) {
    words.insert(words.begin(), "--db=" + path_);
    return RunBuilt("ldb", words);
  }

  std::vector<std::string> Tables() {
    std::vector<std::string> tables;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().extension() == ".sst") tables.push_back(entry.path().string());
    }
    return tables;
  }

  const test::TempDir directory_;
  std::string path_;
};

TEST_P(LdbTest, ScanGetPutDelete) {
  for (const char* family : {"default", "plain", "second"}) {
    const std::string flag = std::string("--column_family=") + family;
    ProgramResult result = Ldb({"scan", flag});
    ASSERT_EQ(0, result.exit_code) << result.err;
    std::set<std::string> expected;
    for (int i = 0; i < kRecords; i++) expected.insert(Key(i) + " ==> " + Value(i));
    EXPECT_EQ(expected, Lines(result.out));
    EXPECT_EQ(Value(17) + "\n", Ldb({"get", Key(17), flag}).out);
    EXPECT_CONTAINS(Ldb({"get", "nothing", flag}).out, "not found");
    EXPECT_EQ("OK\n", Ldb({"put", "new", "one", flag}).out);
    EXPECT_EQ("one\n", Ldb({"get", "new", flag}).out);
    EXPECT_EQ("OK\n", Ldb({"delete", Key(17), flag}).out);
    EXPECT_CONTAINS(Ldb({"get", Key(17), flag}).out, "not found");
    EXPECT_EQ("OK\n", Ldb({"batchput", "a", "1", "b", "2", flag}).out);
    EXPECT_EQ("2\n", Ldb({"get", "b", flag}).out);
    EXPECT_CONTAINS(Ldb({"multi_get", "a", "b", flag}).out, "b ==> 2");
    result = Ldb({"dump", "--count_only", flag});
    EXPECT_CONTAINS(result.out, "Keys in range: " + std::to_string(kRecords - 1 + 3));
  }
}

TEST_P(LdbTest, DeleteRange) {
  EXPECT_EQ("OK\n", Ldb({"deleterange", "a", "b", "--column_family=plain"}).out);
  EXPECT_TRUE(Says(1, Ldb({"deleterange", "a", "b"}), {"DeleteRange on column family default"}));
  // It was refused before it was logged: nothing is left of it.
  EXPECT_EQ(Value(1) + "\n", Ldb({"get", Key(1)}).out);
}

TEST_P(LdbTest, Metadata) {
  EXPECT_TRUE(Says(0, Ldb({"list_column_families"}), {"{default, plain, second}"}));
  EXPECT_EQ("OK\n", Ldb({"checkconsistency"}).out);
  EXPECT_TRUE(Says(0, Ldb({"manifest_dump"}), {"cairn.HashOrder:xxh3:", "Column family \"second\""}));
  EXPECT_TRUE(Says(0, Ldb({"manifest_dump", "--verbose"}), {"AddFile:"}));
  EXPECT_TRUE(Says(0, Ldb({"dump_live_files"})));
  EXPECT_TRUE(Says(0, Ldb({"list_live_files_metadata"}), {".sst"}));
  EXPECT_TRUE(Says(0, Ldb({"get_property", "rocksdb.estimate-num-keys"}), {"rocksdb.estimate-num-keys: "}));
  EXPECT_TRUE(Says(0, Ldb({"update_manifest", "--update_temperatures"})));
  EXPECT_EQ("OK\n", Ldb({"checkconsistency"}).out);
  EXPECT_EQ("OK\n", Ldb({"put_entity", "wide", "a:1", "b:2"}).out);
  EXPECT_EQ("a:1 b:2\n", Ldb({"get_entity", "wide"}).out);
  EXPECT_TRUE(Says(0, Ldb({"idump", "--max_keys=5"}), {"seq:"}));
}

TEST_P(LdbTest, CheckpointBackupAndRestore) {
  const std::string expected = Ldb({"scan"}).out;
  const std::string checkpoint = directory_ / "checkpoint";
  EXPECT_EQ("OK\n", Ldb({"checkpoint", "--checkpoint_dir=" + checkpoint}).out);
  EXPECT_EQ(expected, RunBuilt("ldb", {"--db=" + checkpoint, "scan"}).out);
  const std::string backups = "--backup_dir=" + directory_ / "backups";
  ProgramResult result = Ldb({"backup", backups});
  EXPECT_CONTAINS(result.out, "create new backup OK");
  const std::string restored = "--db=" + directory_ / "restored";
  result = RunBuilt("ldb", {restored, "restore", backups});
  EXPECT_CONTAINS(result.out, "restore from backup OK");
  EXPECT_EQ(expected, RunBuilt("ldb", {restored, "scan"}).out);
}

TEST_P(LdbTest, SstDumpReadsEveryTable) {
  const std::vector<std::string> tables = Tables();
  ASSERT_GT(tables.size(), 6u);
  auto dump = [this](const std::string& command) {
    return RunBuilt("sst_dump", {"--file=" + path_, "--command=" + command, "--show_properties"});
  };
  for (const char* command : {"verify", "check", "scan"}) {
    const ProgramResult result = dump(command);
    EXPECT_EQ(0, result.exit_code) << result.err;
    size_t records = 0;
    size_t properties = 0;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      records += Contains(line, " => value") ? 1 : 0;
      properties += Contains(line, "# entries: ") ? 1 : 0;
    }
    // Of HTables it prints entries in a form of its own (htable_tools_test).
    if (std::string(command) == "scan" && std::string(GetParam().format) == "sst") {
      EXPECT_EQ(3u * kRecords, records);
      EXPECT_EQ(tables.size(), properties);
    }
  }
  const ProgramResult one = RunBuilt("sst_dump", {"--file=" + tables[0], "--command=verify"});
  // Which table comes first is the file system's choice; an HTable is reported in words of its own.
  EXPECT_TRUE(Contains(one.out, "The file is ok") || Contains(one.out, "every checksum matches")) << one.out;
}

INSTANTIATE_TEST_SUITE_P(Formats, LdbTest,
                         ::testing::Values(Format{"sst", "sst", "same"}, Format{"htable_ect", "htable", "ect"}),
                         [](const ::testing::TestParamInfo<Format>& format) { return format.param.name; });

// A trie in key order and a leveled column family in the order of cairn.PrefixOrder. What is written of it in the
// MANIFEST, the OPTIONS file and the tables is all that the programs are told.
class PrefixOrderToolsTest : public ::testing::Test {
 protected:
  PrefixOrderToolsTest() { path_ = directory_ / "db"; }

  void SetUp() override {
    rocksdb::Options options = SmallOptions();
    options.comparator = PrefixOrderUntil('/');
    rocksdb::ColumnFamilyOptions plain(options);
    plain.comparator = PrefixOrder(2);
    KeyTrieOptions trie;
    trie.fan_out = 2;
    trie.slots = 4;
    trie.root_trigger = 2;
    ASSERT_TRUE(UseTrie(&options, trie).ok());
    Make(options, path_, {{"default", options}, {"plain", plain}}, Key, [](int i) { return std::to_string(i); });
    for (int i = 0; i < kRecords; i++) expected_.push_back(Key(i));
    std::sort(expected_.begin(), expected_.end(),
              [](const std::string& a, const std::string& b) { return PrefixOrderUntil('/')->Compare(a, b) < 0; });
  }

  static std::string Key(int i) { return "user" + std::to_string(i % 10) + "/" + std::to_string(i * 7919); }
  static std::string Hex(const std::string& text) { return "0x" + rocksdb::Slice(text).ToString(true); }

  ProgramResult Ldb(std::vector<std::string> words, const std::string& copy = "") {
    words.insert(words.begin(), "--db=" + path_ + copy);
    return RunBuilt("ldb", words);
  }
  // The keys of a scan, in its order.
  static std::vector<std::string> Keys(const ProgramResult& scan) {
    EXPECT_EQ(0, scan.exit_code) << scan.err;
    std::vector<std::string> keys;
    std::istringstream input(scan.out);
    for (std::string line; std::getline(input, line);) keys.push_back(line.substr(0, line.find(" ==> ")));
    return keys;
  }

  const test::TempDir directory_;
  std::string path_;
  std::vector<std::string> expected_;
};

TEST_F(PrefixOrderToolsTest, Ldb) {
  EXPECT_EQ(expected_, Keys(Ldb({"scan"})));
  std::vector<std::string> of_user3;
  for (const std::string& key : expected_) {
    if (key.compare(0, 6, "user3/") == 0) of_user3.push_back(key);
  }
  EXPECT_EQ(of_user3, Keys(Ldb({"scan", "--from=user3/", "--to=user30"})));
  std::vector<std::string> in_hex;
  for (const std::string& key : of_user3) in_hex.push_back(Hex(key));
  EXPECT_EQ(in_hex, Keys(Ldb({"scan", "--hex", "--from=" + Hex("user3/"), "--to=" + Hex("user30")})));
  EXPECT_EQ(static_cast<size_t>(kRecords), Keys(Ldb({"scan", "--column_family=plain"})).size());
  EXPECT_EQ("17\n", Ldb({"get", Key(17)}).out);
  EXPECT_EQ(Hex("17") + "\n", Ldb({"get", "--hex", Hex(Key(17))}).out);
  EXPECT_EQ("OK\n", Ldb({"put", "user3/new", "one"}).out);
  EXPECT_EQ("OK\n", Ldb({"deleterange", "user3/", "user30"}).out);
  EXPECT_EQ(0u, Keys(Ldb({"scan", "--from=user3/", "--to=user30"})).size());
  EXPECT_TRUE(Says(0, Ldb({"compact"})));
  EXPECT_EQ(expected_.size() - of_user3.size(), Keys(Ldb({"scan"})).size());
  EXPECT_TRUE(Says(0, Ldb({"manifest_dump"}), {"cairn.PrefixOrder:until:2f", "cairn.PrefixOrder:fixed:2"}));
  EXPECT_TRUE(Says(0, Ldb({"idump", "--max_keys=5"}), {"seq:"}));
  ProgramResult result = Ldb({"dump", "--count_only"});
  EXPECT_CONTAINS(result.out, "Keys in range: " + std::to_string(expected_.size() - of_user3.size()));
  EXPECT_EQ("OK\n", Ldb({"checkconsistency"}).out);
  EXPECT_EQ("OK\n", Ldb({"checkpoint", "--checkpoint_dir=" + path_ + ".copy"}).out);
  EXPECT_EQ(Ldb({"scan"}).out, Ldb({"scan"}, ".copy").out);
  // With options of its own instead of the stored ones.
  result = RunBuilt("ldb", {"--db=" + path_, "scan", "--try_load_options=false"});
  EXPECT_NE(0, result.exit_code);
  EXPECT_CONTAINS(result.err + result.out, "cairn.PrefixOrder");
  // It would give all column families the bytewise order.
  result = Ldb({"repair"});
  EXPECT_NE(0, result.exit_code);
  EXPECT_CONTAINS(result.err + result.out, "cairn repair " + path_);
}

TEST_F(PrefixOrderToolsTest, SstDump) {
  for (const char* command : {"verify", "check", "scan", "raw"}) {
    const ProgramResult result = RunBuilt(
        "sst_dump", {"--file=" + path_, "--show_properties", std::string("--command=") + command, "--output_hex"});
    EXPECT_EQ(0, result.exit_code) << result.err;
    EXPECT_CONTAINS(result.out, std::string(command) == "verify" ? "The file is ok" : ".sst");
    size_t records = 0;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) records += Contains(line, "' seq:") ? 1 : 0;
    EXPECT_EQ(std::string(command) == "scan" ? 2u * kRecords : 0u, records);
    if (std::string(command) != "scan") continue;
    EXPECT_CONTAINS(result.out, "cairn.PrefixOrder:until:2f");
    EXPECT_CONTAINS(result.out, "cairn.PrefixOrder:fixed:2");
  }
}

TEST_F(PrefixOrderToolsTest, Cairn) {
  ProgramResult result = Cairn({"stats", path_});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_CONTAINS(result.out, "trie default");
  EXPECT_TRUE(Says(0, Cairn({"compact", path_})));
  EXPECT_TRUE(Says(0, Cairn({"top", path_}), {"default (trie)"}));
  EXPECT_EQ(expected_, Keys(Ldb({"scan"})));
  // Every engine in key order keeps it; and what comes back from hash order has it again.
  std::string from;
  for (const std::string engine : {"stock", "ordered_trie", "sub_memtables", "trie", "ordered_trie", "stock"}) {
    SCOPED_TRACE(from + " to " + engine);
    const std::string to = from + "." + engine;
    ASSERT_TRUE(Says(0, Cairn({"convert", path_ + from, path_ + to, "--to", engine})));
    if (engine == "trie") {
      std::vector<std::string> keys = Keys(Ldb({"scan"}, to)), sorted = expected_;
      std::sort(keys.begin(), keys.end());
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, keys);
    } else {
      EXPECT_EQ(expected_, Keys(Ldb({"scan"}, to)));
      result = Ldb({"manifest_dump"}, to);
      EXPECT_CONTAINS(result.out, "cairn.PrefixOrder:until:2f");
      EXPECT_CONTAINS(result.out, "cairn.PrefixOrder:fixed:2");
    }
    from = to;
  }
  EXPECT_TRUE(Says(0, Cairn({"options", "ordered_trie", "--rocksdb-option", "comparator=cairn.PrefixOrder:fixed:8"}),
                   {"comparator=cairn.PrefixOrder:fixed:8"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "ordered_trie", "--rocksdb-option", "comparator=cairn.PrefixOrder:fixed:08"}),
                   {"cairn.PrefixOrder:fixed:8"}));
  EXPECT_TRUE(
      Says(2, Cairn({"options", "trie", "--rocksdb-option", "comparator=cairn.PrefixOrder:fixed:8"}), {"comparator"}));
  for (const char* lost : {"CURRENT", "MANIFEST-"}) {
    SCOPED_TRACE(lost);
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.compare(0, std::string(lost).size(), lost) == 0) fs::remove(entry.path());
    }
    EXPECT_TRUE(Says(0, Cairn({"repair", path_, "--yes"})));
    EXPECT_EQ(expected_, Keys(Ldb({"scan"})));
  }
}

}  // namespace
}  // namespace cairn
