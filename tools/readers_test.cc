// A process that writes and compacts without pause, and others that open its database for reading: read-only, as a
// secondary, by ldb, by `cairn stats`, and by what shows the status page. None fails for good, none calls the database
// corrupt.
//
//   CAIRN_OPENINGS=2000 build/test/readers_test       that many openings of each kind on each engine

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/engines.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/run_program.h"

namespace cairn::test {
namespace {

constexpr char kPath[] = "CAIRN_READERS_TEST_PATH";
constexpr char kEngine[] = "CAIRN_READERS_TEST_ENGINE";
constexpr char kFirstKey[] = "key000";

// What the writing process runs until it is killed; no test of its own.
TEST(ReadersTest, DISABLED_Write) {
  if (getenv(kPath) == nullptr) GTEST_SKIP();
  rocksdb::Options options = OptionsOf(*FindEngine(getenv(kEngine)));
  // A secondary reads each record of the MANIFEST in a time that grows with those before it.
  options.max_manifest_file_size = 64 << 10;
  DB* db = nullptr;
  ASSERT_OK(DB::Open(options, getenv(kPath), port::Into(&db)));
  for (uint64_t round = 0;; ++round) {
    for (int i = 0; i < 2000; ++i) {
      char key[16];
      snprintf(key, sizeof(key), "key%03d", i % 500);
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, std::string(100, static_cast<char>('a' + round % 26))));
    }
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
}

class ReadersTest : public ::testing::TestWithParam<const char*> {
 protected:
  ReadersTest() : path_(dir_ / "db"), openings_(NumberFromEnvironment("CAIRN_OPENINGS", 4)) {
    setenv(kPath, path_.c_str(), 1);
    setenv(kEngine, GetParam(), 1);
    writer_ = StartProgram({std::filesystem::read_symlink("/proc/self/exe"),
                            "--gtest_filter=ReadersTest.DISABLED_Write", "--gtest_also_run_disabled_tests"});
    unsetenv(kPath);
  }
  ~ReadersTest() override {
    EXPECT_FALSE(HasEnded(writer_)) << "the writer has failed";
    kill(writer_, SIGKILL);
    WaitForProgram(writer_);
  }

  void ExpectReadable(const Status& opened, DB* raw) {
    const std::unique_ptr<DB> db(raw);
    ASSERT_OK(opened);
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), kFirstKey, &value));
  }
  static void ExpectSaid(const std::vector<std::string>& words, const std::string& expected) {
    EXPECT_TRUE(Says(0, RunProgram(words), {expected}));
  }

  const TempDir dir_;
  const std::string path_;
  const uint64_t openings_;
  pid_t writer_;
};

TEST_P(ReadersTest, OpenAtAnyTime) {
  ASSERT_TRUE(Await([&] {
    std::unique_ptr<DB> db;
    rocksdb::DBOptions options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    if (!rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path_, &options, &families).ok()) return false;
    std::string value;
    const rocksdb::Options all(options, families[0].options);
    if (!DB::OpenForReadOnly(all, path_, port::Into(&db)).ok()) return false;
    return db->Get(rocksdb::ReadOptions(), kFirstKey, &value).ok();
  }));
  rocksdb::Options options = OptionsOf(*FindEngine(GetParam()));
  for (uint64_t i = 0; i < openings_ && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    DB* db = nullptr;
    options.max_open_files = -1;
    Status s = DB::OpenForReadOnly(options, path_, port::Into(&db));
    ExpectReadable(s, db);
    s = DB::OpenAsSecondary(options, path_, dir_ / "secondary", port::Into(&db));
    ExpectReadable(s, db);
    ExpectSaid({ProgramPath("ldb"), "--db=" + path_, "--try_load_options", "get", kFirstKey}, "");
    ExpectSaid({ProgramPath("cairn"), "stats", path_}, "default");
    ExpectSaid({ProgramPath("cairn"), "top", path_}, "default");
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ReadersTest,
                         ::testing::Values("ordered", "leveled_ordered", "ordered_trie", "trie_tiny", "silt_pinned"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace cairn::test
