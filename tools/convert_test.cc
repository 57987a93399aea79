// cairn convert where the machine is in its way: full file systems, sources that somebody else writes to, sources with
// durable memtables.

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

Options Durable(const std::string& pool = "") {
  SubMemTableOptions memtable;
  memtable.durable = true;
  memtable.pool_file = pool;
  Options options;
  options.create_if_missing = true;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  return options;
}

class ConvertTest : public ::testing::Test {
 protected:
  ~ConvertTest() override {
    if (!mounted_.empty()) umount(mounted_.c_str());
  }

  void Make(const Options& options, int records, int value_bytes) {
    std::unique_ptr<DB> db;
    ASSERT_OK(cairn::Open(options, source_, port::Into(&db)));
    std::mt19937_64 random(1);
    for (int i = 0; i < records; ++i) {
      std::string value;
      for (int at = 0; at < value_bytes; at += 8) value += std::to_string(random()).substr(0, 8);
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key" + std::to_string(random()), value));
    }
  }

  // Ends it after two minutes: 124.
  ProgramResult Convert(const std::string& destination, const std::vector<std::string>& flags,
                        const std::vector<std::string>& prefix = {}) {
    std::vector<std::string> words = {"/usr/bin/timeout", "-s", "KILL", "120"};
    words.insert(words.end(), prefix.begin(), prefix.end());
    words.insert(words.end(), {ProgramPath("cairn"), "convert", source_, destination});
    words.insert(words.end(), flags.begin(), flags.end());
    return RunProgram(words);
  }

  bool Mount(const std::string& path, const std::string& size) {
    const unsigned long flags = mounted_.empty() ? 0 : MS_REMOUNT;
    fs::create_directory(path);
    if (mount("none", path.c_str(), "tmpfs", flags, ("size=" + size).c_str()) != 0) return false;
    mounted_ = path;
    return true;
  }

  test::TempDir dir_;
  const std::string source_ = dir_ / "source";
  std::string mounted_;
};

// Too small for the copy, or for its compactions only, which then fail for ever while writes wait for them.
TEST_F(ConvertTest, AFullFileSystemEndsIt) {
  const std::string small = dir_ / "small";
  if (!Mount(small, "1m")) GTEST_SKIP() << "mounting takes root: " << strerror(errno);
  Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 256 << 10;
  options.compression = rocksdb::kNoCompression;
  Make(options, 20000, 400);
  for (const std::string engine : {"trie", "stock"}) {
    for (int megabytes = 6; megabytes <= 12; megabytes += 3) {
      SCOPED_TRACE(engine + " onto " + std::to_string(megabytes) + " MiB");
      ASSERT_TRUE(Mount(small, std::to_string(megabytes) + "m"));
      std::vector<std::string> flags = {"--to", engine, "--check-space=false", "--compact"};
      if (engine[0] == 't') flags.insert(flags.end(), {"--option", "fan_out=2;slots=4;trigger=2;root_trigger=2"});
      ProgramResult result = Convert(small + "/copy", flags);
      ASSERT_TRUE(result.exit_code == 0 || result.exit_code == 1) << result.exit_code << result.err;
      if (result.exit_code == 1) {
        EXPECT_CONTAINS(result.err, "No space left on device");
        EXPECT_CONTAINS(result.err, "the same command goes on");
        ASSERT_TRUE(Mount(small, "100m"));
        result = Convert(small + "/copy", flags);
        EXPECT_EQ(result.exit_code, 0) << result.err;
      }
      EXPECT_CONTAINS(result.out, "20000 records");
      fs::remove_all(small + "/copy");
    }
  }
}

// Not even the first file finds room, which an earlier run has not begun either.
TEST_F(ConvertTest, ANearlyFullFileSystemSaysWhatToDo) {
  const std::string small = dir_ / "small";
  if (!Mount(small, "1m")) GTEST_SKIP() << "mounting takes root: " << strerror(errno);
  Options options;
  options.create_if_missing = true;
  Make(options, 1000, 100);
  for (const std::string size : {"4k", "8k", "12k", "16k", "32k", "64k"}) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(Mount(small, size));
    EXPECT_TRUE(Says(1, Convert(small + "/copy", {"--to", "trie", "--check-space=false"}),
                     {"No space left on device", "make room there, and the same command goes on"}));
    ASSERT_TRUE(Mount(small, "100m"));
    // That there might be too little is not that there is none.
    ProgramResult result = Convert(small + "/copy", {"--to", "trie", "--reserve", "1T"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_CONTAINS(result.err, "--check-space=false goes on all the same");
    EXPECT_EQ(result.err.find("is full"), std::string::npos) << result.err;
    EXPECT_TRUE(Says(0, Convert(small + "/copy", {"--to", "trie", "--check-space=false"}), {"1000 records"}));
    fs::remove_all(small + "/copy");
  }
}

// The signal that comes with it would end the program without a word.
TEST_F(ConvertTest, FilesThatMayNotGrowEndIt) {
  Options options;
  options.create_if_missing = true;
  Make(options, 1000, 400);
  for (const std::string blocks : {"2", "64", "200"}) {
    SCOPED_TRACE(blocks);
    EXPECT_TRUE(Says(1,
                     Convert(dir_ / "copy", {"--to", "trie", "--check-space=false"},
                             {"/bin/sh", "-c", "ulimit -f " + blocks + " && exec \"$@\"", "sh"}),
                     {"raise the limit (ulimit -f), and the same command goes on"}));
    EXPECT_TRUE(Says(0, Convert(dir_ / "copy", {"--to", "trie"}), {"1000 records"}));
    fs::remove_all(dir_ / "copy");
  }
}

// A process of another user, who may read the source but not write to it.
TEST_F(ConvertTest, AWriterWhoseFilesMayOnlyBeRead) {
  Make(Options(Durable(), rocksdb::ColumnFamilyOptions()), 1000, 100);
  Options options;
  DB* db = nullptr;
  ASSERT_OK(DB::Open(options, source_, port::Into(&db)));
  std::vector<std::string> prefix;
  if (geteuid() == 0) {
    fs::permissions(dir_.path(), fs::perms::all);
    prefix = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
    std::vector<std::string> probe = prefix;
    probe.insert(probe.end(), {ProgramPath("cairn"), "help"});
    if (RunProgram(probe).exit_code != 0) GTEST_SKIP() << "another user cannot run the program";
  } else {
    chmod((source_ + "/LOCK").c_str(), 0444);
  }
  for (const mode_t mode : {0444, 0000}) {
    SCOPED_TRACE(mode);
    chmod((source_ + "/LOCK").c_str(), mode);
    EXPECT_TRUE(Says(1, Convert(dir_ / "copy", {"--to", "stock"}, prefix),
                     {mode == 0 ? "cannot be read" : "is open in another process"}));
    EXPECT_FALSE(fs::exists(dir_ / "copy"));
  }
  delete db;
  chmod((source_ + "/LOCK").c_str(), 0444);
  EXPECT_TRUE(Says(0, Convert(dir_ / "copy", {"--to", "stock"}, prefix)));
}

// The other way round: nobody opens for writing what is being read.
TEST_F(ConvertTest, AWriterHasToWait) {
  Options options;
  options.create_if_missing = true;
  Make(options, 50000, 100);
  const pid_t pid = StartProgram({ProgramPath("cairn"), "convert", source_, dir_ / "copy", "--to", "trie_sst"});
  while (!fs::exists(dir_ / "copy/CAIRN_CONVERT") && !HasEnded(pid)) usleep(100);
  kill(pid, SIGSTOP);
  DB* db = nullptr;
  const rocksdb::Status s = DB::Open(options, source_, port::Into(&db));
  EXPECT_TRUE(HasEnded(pid) || s.IsIOError()) << s.ToString();
  delete db;
  kill(pid, SIGCONT);
  WaitForProgram(pid);
}

TEST_F(ConvertTest, DurableMemtables) {
  for (const std::string& pool : {std::string(), dir_ / "pool"}) {
    SCOPED_TRACE(pool);
    fs::remove_all(source_);
    Make(Durable(pool), 1000, 100);
    // As a killed process would leave it.
    DB* db = nullptr;
    const Options options = Durable(pool);
    ASSERT_OK(cairn::Open(options, source_, &db));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "in the pool", "value"));
    EXPECT_TRUE(Says(1, Convert(dir_ / "copy", {"--to", "trie"}), {"is open in another process"}));
    // What only reads tables works, and says what it does not see.
    EXPECT_TRUE(
        Says(0, Cairn({"stats", source_}), {"is in use: a process has the database open with durable memtables"}));
    fs::copy(source_, dir_ / "killed");
    if (!pool.empty()) fs::copy(pool, dir_ / "killed pool");
    delete db;
    if (!pool.empty()) fs::rename(dir_ / "killed pool", pool);
    fs::remove_all(source_);
    fs::rename(dir_ / "killed", source_);

    EXPECT_TRUE(Says(1, Convert(dir_ / "copy", {"--to", "trie"}), {"holds 1 write (", "cairn recover " + source_}));
    EXPECT_FALSE(fs::exists(dir_ / "copy"));
    EXPECT_TRUE(Says(0, Cairn({"stats", source_, "--json"}), {"holds 1 write ("}));
    EXPECT_EQ(Cairn({"recover", source_}).exit_code, 0);
    for (const std::string engine : {"trie", "stock"}) {
      EXPECT_TRUE(Says(0, Convert(dir_ / engine, {"--to", engine}), {"1001 records"}));
      const std::string options_text = [&] {
        std::string name;
        std::string text;
        EXPECT_OK(rocksdb::GetLatestOptionsFileName(dir_ / engine, rocksdb::Env::Default(), &name));
        EXPECT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), (dir_ / engine) + "/" + name, &text));
        return text;
      }();
      // The trie keeps its durable memtables, with a pool file of its own; a stock RocksDB knows none.
      EXPECT_EQ(options_text.find("cairn.SubMemTable") != std::string::npos, engine == "trie");
      EXPECT_EQ(options_text.find("durable=true") != std::string::npos, engine == "trie");
      EXPECT_EQ(fs::exists((dir_ / engine) + "/CAIRN_POOL"), engine == "trie");
      EXPECT_EQ(options_text.find(dir_ / "pool"), std::string::npos);
      fs::remove_all(dir_ / engine);
    }
    fs::remove(dir_ / "pool");
  }
}

}  // namespace
}  // namespace cairn
