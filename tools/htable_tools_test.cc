// sst_dump and cairn dump on the tables of a trie over HTables.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"
#include "test/testutil/temp_dir.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

constexpr int kRecords = 3000;

class HTableToolsTest : public ::testing::Test {
 protected:
  HTableToolsTest() {}

  void SetUp() override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    HashTrieOptions trie;
    trie.format = "htable";
    trie.seed = 0;  // under some seeds two of the keys are one pair of the filter
    ASSERT_TRUE(UseTrie(&options, trie).ok());
    rocksdb::DB* db = nullptr;
    const rocksdb::Status s = Open(options, directory_ / "db", &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (int i = 0; i < kRecords; i++) {
      ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), std::string(i % 300, 'v')).ok());
    }
    ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
    delete db;
    for (const auto& entry : fs::directory_iterator(directory_ / "db")) {
      if (entry.path().extension() == ".sst") file_ = entry.path().string();
    }
    ASSERT_FALSE(file_.empty());
  }

  // Changes a byte; of the first page if nothing else is said.
  void Damage(long offset = 1000) const {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put('\x7f');
  }

  const test::TempDir directory_;
  std::string file_;
};

TEST_F(HTableToolsTest, DumpDescribesVerifiesAndLists) {
  ProgramResult result = Cairn({"dump", file_, "--verify", "--entries"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  for (const char* text : {"home buckets", "spilled", "buckets by fill",
                           "cairn.HashOrder:xxh3:", "every checksum matches", "6B657931 "}) {  // "key1"
    EXPECT_CONTAINS(result.out, text);
  }
  Damage();
  EXPECT_TRUE(Says(1, Cairn({"dump", file_, "--verify"}), {"offset 0"}));
}

TEST_F(HTableToolsTest, DumpDescribesAndVerifiesTheFilter) {
  ProgramResult result = Cairn({"dump", file_, "--verify"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  const size_t at = result.out.find("  filter ");
  ASSERT_NE(std::string::npos, at) << result.out;
  const std::string line = result.out.substr(at, result.out.find('\n', at) - at);
  EXPECT_NE(std::string::npos, line.find(std::to_string(kRecords) + " pairs")) << line;
  EXPECT_CONTAINS(result.out, "(this one), " + std::to_string(kRecords) + " keys");
  const long offset = std::stol(line.substr(line.find("offset ") + 7));
  // A byte of a page of columns; then the index.
  Damage(offset + 4096 + 700);
  result = Cairn({"dump", file_, "--verify"});
  EXPECT_EQ(1, result.exit_code);
  EXPECT_NE(std::string::npos, result.err.find("filter block at offset " + std::to_string(offset + 4096)))
      << result.err;
  Damage(offset + 40);
  EXPECT_TRUE(Says(1, Cairn({"dump", file_}), {"filter block"}));
}

TEST_F(HTableToolsTest, DumpRefusesOtherFiles) {
  std::ofstream(directory_ / "other") << "not a table at all";
  EXPECT_TRUE(Says(1, Cairn({"dump", directory_ / "other"}), {"is no HTable"}));
}

TEST_F(HTableToolsTest, SstDumpKnowsHTables) {
  ProgramResult result = RunBuilt("sst_dump", {"--file=" + file_, "--command=scan"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_EQ(kRecords + 1, std::count(result.out.begin(), result.out.end(), '\n'));
  EXPECT_TRUE(
      Says(0, RunBuilt("sst_dump", {"--file=" + directory_ / "db", "--command=verify"}), {"every checksum matches"}));
  EXPECT_TRUE(Says(1, RunBuilt("sst_dump", {"--file=" + file_, "--command=recompress"}), {"is not for HTables"}));
  Damage();
  EXPECT_TRUE(Says(1, RunBuilt("sst_dump", {"--file=" + file_, "--command=verify"})));
}

TEST_F(HTableToolsTest, SstDumpObeysOrRefusesEveryFlag) {
  const auto dump = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "--file=" + file_);
    return RunBuilt("sst_dump", flags);
  };
  EXPECT_TRUE(Says(0, dump({}), {"every checksum matches"}));
  ProgramResult result = dump({"--show_properties"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_CONTAINS(result.out, "# entries: " + std::to_string(kRecords));
  EXPECT_EQ(std::string::npos, result.out.find("6B657931")) << result.out;
  EXPECT_EQ(std::string::npos, result.out.find("every checksum")) << result.out;
  EXPECT_TRUE(Says(0, dump({"--help"}), {"--read_num=<num>"}));
  for (const char* flag : {"--nonsense", "nonsense", "--read_num=3", "--from=a", "--decode_blob_index"}) {
    result = dump({"--command=scan", flag});
    EXPECT_EQ(1, result.exit_code) << flag;
    EXPECT_EQ("", result.out) << flag;
    EXPECT_CONTAINS(result.err, std::string(flag) + " is not for HTables");
  }
}

}  // namespace
}  // namespace cairn
