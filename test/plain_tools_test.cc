// RocksDB's ldb and sst_dump, linked with RocksDB as it is and nothing of Cairn's, on a database of ordered tables.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/testutil/run_program.h"
#include "test/testutil/temp_dir.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

#define ASSERT_OK(expression)                                                         \
  do {                                                                                \
    const Status status_of_it = (expression);                                         \
    ASSERT_TRUE(status_of_it.ok()) << #expression << ": " << status_of_it.ToString(); \
  } while (false)

std::string Key(int i) {
  char text[32];
  snprintf(text, sizeof(text), "user%06d", i);
  return text;
}

class PlainToolsTest : public ::testing::Test {
 protected:
  PlainToolsTest() { path_ = directory_ / "db"; }

  // Several runs, with what was written over, deleted one by one and by a range.
  void SetUp() override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.disable_auto_compactions = true;
    options.compression = rocksdb::kNoCompression;
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(8.5));
    options.table_factory.reset(NewOrderedTableFactory(table));
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(options, path_, port::Into(&db)));
    for (int run = 0; run < 3; ++run) {
      for (int i = run; i < 6000; i += run + 1) {
        const std::string value = "v" + std::to_string(run) + "_" + std::to_string(i);
        ASSERT_OK(db->Put({}, Key(i), value));
        expected_[Key(i)] = value;
      }
      for (int i = 0; i < 6000; i += 97) {
        ASSERT_OK(db->Delete({}, Key(i)));
        expected_.erase(Key(i));
      }
      const int from = 1000 * run;
      ASSERT_OK(db->DeleteRange({}, db->DefaultColumnFamily(), Key(from), Key(from + 200)));
      expected_.erase(expected_.lower_bound(Key(from)), expected_.lower_bound(Key(from + 200)));
      ASSERT_OK(db->Flush({}));
    }
  }

  static ProgramResult Run(const std::string& tool, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), ProgramPath("../test/plain_rocksdb/" + tool));
    return RunProgram(arguments);
  }

  // "key ==> value" of each entry.
  std::string Listing() const {
    std::string text;
    for (const auto& [key, value] : expected_) text.append(key).append(" ==> ").append(value).append("\n");
    return text;
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().extension() == ".sst") files.push_back(entry.path().string());
    }
    return files;
  }

  const test::TempDir directory_;
  std::string path_;
  std::map<std::string, std::string> expected_;
};

TEST_F(PlainToolsTest, LdbReadsAndWrites) {
  // The OPTIONS file names a table that RocksDB does not know; a plain ldb that loads it has none and crashes.
  const std::string db = "--db=" + path_, own_options = "--try_load_options=false";
  ProgramResult result = Run("ldb", {db, own_options, "scan"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_EQ(Listing(), result.out);
  result = Run("ldb", {db, own_options, "get", Key(501)});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_EQ(expected_[Key(501)] + "\n", result.out);
  EXPECT_TRUE(Says(0, Run("ldb", {db, own_options, "checkconsistency"})));
  EXPECT_TRUE(Says(0, Run("ldb", {db, own_options, "put", "zebra", "striped"})));
  expected_["zebra"] = "striped";
  EXPECT_TRUE(Says(0, Run("ldb", {db, own_options, "compact"})));
  result = Run("ldb", {db, own_options, "scan"});
  EXPECT_EQ(Listing(), result.out);
  // And back.
  rocksdb::Options options;
  options.table_factory.reset(NewOrderedTableFactory(rocksdb::BlockBasedTableOptions()));
  std::unique_ptr<DB> ordered;
  ASSERT_OK(DB::Open(options, path_, port::Into(&ordered)));
  const std::unique_ptr<rocksdb::Iterator> it(ordered->NewIterator({}));
  auto wanted = expected_.begin();
  for (it->SeekToFirst(); it->Valid() && wanted != expected_.end(); it->Next(), ++wanted) {
    ASSERT_EQ(wanted->first, it->key().ToString());
    ASSERT_EQ(wanted->second, it->value().ToString());
  }
  ASSERT_OK(it->status());
  EXPECT_TRUE(!it->Valid() && wanted == expected_.end());
}

TEST_F(PlainToolsTest, SstDumpReadsEachFile) {
  const std::vector<std::string> files = Files();
  ASSERT_EQ(3u, files.size());
  size_t entries = 0;
  for (const std::string& file : files) {
    for (const char* command : {"check", "verify", "identify"}) {
      EXPECT_TRUE(Says(0, Run("sst_dump", {"--file=" + file, std::string("--command=") + command})));
    }
    const ProgramResult scan = Run("sst_dump", {"--file=" + file, "--command=scan"});
    EXPECT_EQ(0, scan.exit_code) << scan.err;
    std::istringstream lines(scan.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("type:1 => v") != std::string::npos) ++entries;
    }
    EXPECT_TRUE(Says(0, Run("sst_dump", {"--file=" + file, "--show_properties"}), {"cairn.order: 0x"}));
  }
  // What was put and not deleted before it was flushed.
  EXPECT_LT(9000u, entries);
}

}  // namespace
}  // namespace cairn
