// What is seen of a pool file from outside: processes of this program (--child) write to a durable database and are
// killed, or hold it open.

#include "memtable_cache/pool_presence.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <memory>
#include <thread>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "gtest/gtest.h"
#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/pool_note.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

extern char** environ;

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

constexpr int kWrites = 100;

Options DurableOptions(const std::string& pool) {
  Options options = test::BaseOptions();
  SubMemTableOptions memtable;
  memtable.durable = true;
  memtable.pool_file = pool;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  return options;
}

std::string KeyOf(int i) { return "key" + std::to_string(i); }

// Opens, writes kWrites records, and waits to be killed. `flush`: they are in a table by then.
int ChildMain(const std::string& path, const std::string& pool, const std::string& flush, const std::string& ready) {
  rocksdb::DB* db = nullptr;
  Status s = cairn::Open(DurableOptions(pool), path, &db);
  for (int i = 0; s.ok() && i < kWrites; ++i) s = db->Put(rocksdb::WriteOptions(), KeyOf(i), "value");
  if (s.ok() && flush == "flush") s = db->Flush(rocksdb::FlushOptions());
  if (!s.ok()) {
    fprintf(stderr, "child: %s\n", s.ToString().c_str());
    return 1;
  }
  fclose(fopen(ready.c_str(), "w"));
  for (;;) pause();
}

class PoolPresenceTest : public ::testing::Test {
 protected:
  ~PoolPresenceTest() override { Kill(); }

  void Start(const std::string& pool = "", const std::string& flush = "memory") {
    char self[PATH_MAX] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    const std::string ready = dir_ / "ready";
    fs::remove(ready);
    std::string words[] = {self, "--child", path_, pool, flush, ready};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&child_, self, nullptr, nullptr, arguments.data(), environ), 0);
    int status = 0;
    while (!fs::exists(ready)) {
      ASSERT_EQ(waitpid(child_, &status, WNOHANG), 0) << "the child failed";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void Kill() {
    if (child_ == 0) return;
    kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
  }

  void StartAndKill(const std::string& pool = "", const std::string& flush = "memory") {
    Start(pool, flush);
    Kill();
  }

  PoolPresence Find() {
    PoolPresence found;
    EXPECT_OK(FindPool(rocksdb::DBOptions(), path_, {}, &found));
    return found;
  }
  PoolState State() { return Find().state; }

  Status Check(PoolUse use) { return CheckPool(use, rocksdb::DBOptions(), path_, {}); }

  void ExpectRefused(const std::string& part) {
    for (const PoolUse use : {PoolUse::kWrite, PoolUse::kRead, PoolUse::kRepair}) {
      const Status s = Check(use);
      EXPECT_TRUE(s.IsInvalidArgument() || s.IsCorruption()) << s.ToString();
      EXPECT_NE(s.ToString().find(part), std::string::npos) << s.ToString();
      EXPECT_NE(s.ToString().find("cairn recover "), std::string::npos) << s.ToString();
    }
  }

  // Whether the database, opened with durable memtables in `pool`, holds what the child wrote.
  void ExpectRecovered(const std::string& pool = "") {
    std::unique_ptr<rocksdb::DB> db;
    ASSERT_OK(cairn::Open(DurableOptions(pool), path_, port::Into(&db)));
    for (int i = 0; i < kWrites; ++i) {
      std::string value;
      ASSERT_OK(db->Get(rocksdb::ReadOptions(), KeyOf(i), &value));
    }
  }

  Status Destroy() {
    return DestroyWithPool(rocksdb::DBOptions(), path_, {}, [this] { return rocksdb::DestroyDB(path_, Options()); });
  }

  TempDir dir_;
  const std::string path_ = dir_ / "db";
  const std::string outside_ = dir_ / "elsewhere";
  pid_t child_ = 0;
};

TEST_F(PoolPresenceTest, NothingToSee) {
  EXPECT_EQ(State(), PoolState::kNone);
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), path_, port::Into(&db)));
  delete db;
  EXPECT_EQ(State(), PoolState::kNone);
  EXPECT_OK(Check(PoolUse::kWrite));
  ASSERT_OK(Destroy());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PoolPresenceTest, KilledProcessesLeaveWrites) {
  for (const std::string& pool : {std::string(), outside_}) {
    SCOPED_TRACE(pool);
    StartAndKill(pool);
    const PoolPresence found = Find();
    EXPECT_EQ(found.state, PoolState::kHoldsWrites) << found.ToString();
    EXPECT_EQ(found.writes, uint64_t{kWrites});
    EXPECT_TRUE(fs::equivalent(found.pool, pool.empty() ? path_ + "/CAIRN_POOL" : pool)) << found.pool;
    ExpectRefused("100 writes");
    ExpectRefused("cairn recover " + path_);
    {
      const TablesOnly tables_only;
      EXPECT_OK(Check(PoolUse::kRead));
    }
    ExpectRecovered(pool);
    EXPECT_EQ(State(), PoolState::kIdle);
    EXPECT_OK(Check(PoolUse::kWrite));
    ASSERT_OK(Destroy());
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_FALSE(fs::exists(outside_));
  }
}

TEST_F(PoolPresenceTest, ARunningProcessIsSeen) {
  for (const std::string& pool : {std::string(), outside_}) {
    SCOPED_TRACE(pool);
    Start(pool);
    EXPECT_EQ(State(), PoolState::kInUse);
    EXPECT_TRUE(Check(PoolUse::kRead).IsBusy());
    EXPECT_TRUE(Check(PoolUse::kWrite).IsBusy());
    bool destroyed = false;
    EXPECT_TRUE(DestroyWithPool(rocksdb::DBOptions(), path_, {}, [&] {
                  destroyed = true;
                  return Status::OK();
                }).IsBusy());
    EXPECT_FALSE(destroyed);
    Kill();
    ASSERT_OK(Destroy());
    EXPECT_FALSE(fs::exists(outside_));
  }
}

// Flushed before the kill: the file still says live, but nothing in it counts.
TEST_F(PoolPresenceTest, AKilledProcessThatHadFlushedLeavesNothing) {
  StartAndKill("", "flush");
  const PoolPresence found = Find();
  EXPECT_EQ(found.state, PoolState::kIdle) << found.ToString();
  EXPECT_TRUE(found.unfinished);
  EXPECT_OK(Check(PoolUse::kRead));
  EXPECT_TRUE(Find().unfinished);
  EXPECT_OK(Check(PoolUse::kWrite));
  EXPECT_FALSE(Find().unfinished);
  // Opened without the pool, then with it again.
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), path_, port::Into(&db)));
  delete db;
  ExpectRecovered();
}

TEST_F(PoolPresenceTest, ALostPoolFileIsMissed) {
  StartAndKill(outside_);
  fs::remove(outside_);
  ExpectRefused("is gone");
  rocksdb::DB* db = nullptr;
  const Status s = cairn::Open(DurableOptions(outside_), path_, &db);
  EXPECT_NE(s.ToString().find("is gone"), std::string::npos) << s.ToString();
  EXPECT_FALSE(fs::exists(outside_));
  ASSERT_OK(DiscardPool(rocksdb::DBOptions(), path_, ""));
  EXPECT_OK(Check(PoolUse::kWrite));
  ASSERT_OK(cairn::Open(DurableOptions(outside_), path_, &db));
  delete db;
}

// A pool file that was given up by somebody who did not say which database it was of.
TEST_F(PoolPresenceTest, AnEmptiedPoolFileIsMissed) {
  StartAndKill(outside_);
  {
    PmemFileOptions options;
    options.path = outside_;
    std::unique_ptr<PmemFile> file;
    ASSERT_OK(PmemFile::Open(options, &file));
    ASSERT_OK(DiscardPoolFile(file.get()));
  }
  ExpectRefused("given up");
  rocksdb::DB* db = nullptr;
  EXPECT_TRUE(cairn::Open(DurableOptions(outside_), path_, &db).IsInvalidArgument());
  EXPECT_TRUE(DiscardPool(rocksdb::DBOptions(), path_, dir_ / "wrong").IsInvalidArgument());
  ASSERT_OK(DiscardPool(rocksdb::DBOptions(), path_, ""));
  EXPECT_OK(Check(PoolUse::kWrite));
}

TEST_F(PoolPresenceTest, AnotherPoolFileInTheOptionsDoesNotHideIt) {
  StartAndKill(outside_);
  rocksdb::DB* db = nullptr;
  for (const std::string& other : {std::string(), dir_ / "another"}) {
    EXPECT_TRUE(Says(cairn::Open(DurableOptions(other), path_, &db), &Status::IsInvalidArgument, outside_));
  }
  EXPECT_FALSE(fs::exists(path_ + "/CAIRN_POOL"));
  ExpectRecovered(outside_);
  ExpectRecovered(dir_ / "another");
}

// Two databases with one pool file, of which the first was killed: it is nothing to the second.
TEST_F(PoolPresenceTest, ThePoolFileOfAnotherDatabase) {
  StartAndKill(outside_);
  const std::string other = dir_ / "other";
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), other, port::Into(&db)));
  delete db;
  PoolPresence found;
  const Options options = DurableOptions(outside_);
  ASSERT_OK(FindPool(options, other, {{"default", options}}, &found));
  EXPECT_EQ(found.state, PoolState::kOfAnother) << found.ToString();
  EXPECT_OK(CheckPool(PoolUse::kWrite, options, other, {{"default", options}}));
  ASSERT_OK(
      DestroyWithPool(options, other, {{"default", options}}, [&] { return rocksdb::DestroyDB(other, Options()); }));
  EXPECT_TRUE(fs::exists(outside_));
  ExpectRecovered(outside_);
}

TEST_F(PoolPresenceTest, APoolFileThatWasMoved) {
  StartAndKill(outside_);
  const std::string moved = dir_ / "moved";
  fs::rename(outside_, moved);
  EXPECT_EQ(State(), PoolState::kUnusable);
  PoolPresence found;
  const Options options = DurableOptions(moved);
  ASSERT_OK(FindPool(options, path_, {{"default", options}}, &found));
  EXPECT_EQ(found.state, PoolState::kHoldsWrites) << found.ToString();
  ExpectRecovered(moved);
  EXPECT_EQ(State(), PoolState::kIdle);
}

TEST_F(PoolPresenceTest, ADirectoryThatWasMoved) {
  StartAndKill();
  fs::rename(path_, dir_ / "moved");
  PoolPresence found;
  ASSERT_OK(FindPool(rocksdb::DBOptions(), dir_ / "moved", {}, &found));
  EXPECT_EQ(found.state, PoolState::kHoldsWrites) << found.ToString();
  fs::rename(dir_ / "moved", path_);
  ExpectRecovered();
}

// A copy of a killed database, made file by file, has the note, but the pool file stays the original's.
TEST_F(PoolPresenceTest, ACopyOfADatabaseDoesNotTakeItsPool) {
  StartAndKill(outside_);
  const std::string copy = dir_ / "copy";
  fs::copy(path_, copy, fs::copy_options::recursive);
  const auto expect_refused = [&] {
    rocksdb::DB* db = nullptr;
    const Status opened = cairn::Open(DurableOptions(outside_), copy, &db);
    RecoveryReport report;
    std::unique_ptr<PmemFile> file;
    PmemFileOptions options;
    options.path = outside_;
    ASSERT_OK(PmemFile::Open(options, &file));
    const Status recovered = RecoverPoolFile(rocksdb::DBOptions(), copy, file.get(), &report);
    file.reset();
    for (const Status& s : {opened, CheckPool(PoolUse::kWrite, rocksdb::DBOptions(), copy, {}),
                            CheckPool(PoolUse::kRead, rocksdb::DBOptions(), copy, {}), recovered}) {
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.ToString().find(fs::canonical(path_).string() + " "), std::string::npos) << s.ToString();
      EXPECT_NE(s.ToString().find("copy"), std::string::npos) << s.ToString();
      EXPECT_NE(s.ToString().find("cairn recover"), std::string::npos) << s.ToString();
    }
  };
  expect_refused();
  // Neither removing the copy nor giving its writes up touches the original's.
  const std::string second = dir_ / "second";
  fs::copy(path_, second, fs::copy_options::recursive);
  ASSERT_OK(DestroyWithPool(rocksdb::DBOptions(), second, {}, [&] { return rocksdb::DestroyDB(second, Options()); }));
  ASSERT_TRUE(fs::exists(outside_));
  fs::copy(path_, second, fs::copy_options::recursive);
  ASSERT_OK(DiscardPool(rocksdb::DBOptions(), second, ""));
  EXPECT_OK(CheckPool(PoolUse::kWrite, rocksdb::DBOptions(), second, {}));
  EXPECT_TRUE(DiscardPool(rocksdb::DBOptions(), second, outside_).IsInvalidArgument());
  EXPECT_EQ(State(), PoolState::kHoldsWrites);
  ExpectRecovered(outside_);
  // The original has taken them; the copy is told.
  rocksdb::DB* db = nullptr;
  EXPECT_TRUE(cairn::Open(DurableOptions(outside_), copy, &db).IsInvalidArgument());
  ASSERT_OK(DiscardPool(rocksdb::DBOptions(), copy, ""));
  EXPECT_OK(CheckPool(PoolUse::kWrite, rocksdb::DBOptions(), copy, {}));
}

TEST_F(PoolPresenceTest, ACopyWithACopyOfThePoolHasItsWrites) {
  StartAndKill(outside_);
  const std::string original = path_;
  const std::string copy = dir_ / "copy";
  const std::string pool_copy = dir_ / "pool copy";
  fs::copy(path_, copy, fs::copy_options::recursive);
  fs::copy_file(outside_, pool_copy);
  {
    PmemFileOptions options;
    options.path = pool_copy;
    std::unique_ptr<PmemFile> file;
    ASSERT_OK(PmemFile::Open(options, &file));
    RecoveryReport report;
    ASSERT_OK(RecoverPoolFile(rocksdb::DBOptions(), copy, file.get(), &report));
    EXPECT_EQ(report.counts.replayed, uint64_t{kWrites});
  }
  ExpectRecovered(outside_);
}

// Renamed, or moved to another file system, which is a copy whose original is removed.
TEST_F(PoolPresenceTest, ADirectoryThatWasMovedKeepsItsPoolOutside) {
  for (const bool renamed : {true, false}) {
    SCOPED_TRACE(renamed);
    StartAndKill(outside_);
    const std::string moved = dir_ / "moved";
    if (renamed) {
      fs::rename(path_, moved);
    } else {
      fs::copy(path_, moved, fs::copy_options::recursive);
      fs::remove_all(path_);
    }
    PoolPresence found;
    ASSERT_OK(FindPool(rocksdb::DBOptions(), moved, {}, &found));
    EXPECT_EQ(found.state, PoolState::kHoldsWrites) << found.ToString();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(DurableOptions(outside_), moved, &db));
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), KeyOf(0), &value));
    delete db;
    fs::remove_all(moved);
  }
}

// Copied while it was open, then the original is closed as it should be: what the pool file held is in its tables.
TEST_F(PoolPresenceTest, ACopyOfARunningDatabaseIsToldWhatItLacks) {
  rocksdb::DB* db = nullptr;
  ASSERT_OK(cairn::Open(DurableOptions(outside_), path_, &db));
  ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
  const std::string copy = dir_ / "copy";
  fs::copy(path_, copy, fs::copy_options::recursive);
  rocksdb::DB* second = nullptr;
  EXPECT_TRUE(cairn::Open(DurableOptions(outside_), copy, &second).IsInvalidArgument());
  EXPECT_TRUE(CheckPool(PoolUse::kWrite, rocksdb::DBOptions(), copy, {}).IsInvalidArgument());
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  delete db;
  EXPECT_TRUE(cairn::Open(DurableOptions(outside_), copy, &second).IsInvalidArgument());
  EXPECT_TRUE(CheckPool(PoolUse::kWrite, rocksdb::DBOptions(), copy, {}).IsInvalidArgument());
}

// Two databases of one id that take turns with a pool file: the second is killed, the first is not to take its writes,
// nor to give them up.
TEST_F(PoolPresenceTest, ACopyThatTookThePoolLater) {
  rocksdb::DB* db = nullptr;
  ASSERT_OK(cairn::Open(DurableOptions(outside_), path_, &db));
  delete db;
  const std::string first = dir_ / "first";
  fs::copy(path_, first, fs::copy_options::recursive);
  StartAndKill(outside_);
  const Options options = DurableOptions(outside_);
  EXPECT_TRUE(Says(cairn::Open(options, first, &db), &Status::IsInvalidArgument, fs::canonical(path_).string() + " "));
  EXPECT_OK(CheckPool(PoolUse::kWrite, options, first, {{"default", options}}));
  ASSERT_OK(DiscardPool(options, first, ""));
  ASSERT_OK(
      DestroyWithPool(options, first, {{"default", options}}, [&] { return rocksdb::DestroyDB(first, options); }));
  ExpectRecovered(outside_);
}

// Children of fork wait as long before they come to anybody else's handler: this one is registered first.
std::atomic<useconds_t> child_waits{0};
const int child_wait_registered = pthread_atfork(nullptr, nullptr, [] { usleep(child_waits); });

// As with RocksDB's LOCK: a child of the process, of which it knows nothing, does not keep the database locked, not
// even one that has not run yet.
TEST_F(PoolPresenceTest, AForkedChildDoesNotKeepThePool) {
  ASSERT_EQ(0, child_wait_registered);
  for (const bool reading : {false, true}) {
    SCOPED_TRACE(reading);
    rocksdb::DB* db = nullptr;
    std::unique_ptr<PmemFile> reader;
    if (reading) {
      ASSERT_OK(PmemFile::OpenForReading(path_ + "/CAIRN_POOL", &reader));
    } else {
      ASSERT_OK(cairn::Open(DurableOptions(""), path_, &db));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
    }
    child_waits = 500000;
    const pid_t forked = fork();
    if (forked == 0) {
      for (;;) pause();
    }
    child_waits = 0;
    ASSERT_GT(forked, 0);
    child_ = forked;
    std::unique_ptr<PmemFile> another;
    PmemFileOptions options;
    options.path = path_ + "/CAIRN_POOL";
    if (!reading) {
      EXPECT_TRUE(PmemFile::Open(options, &another).IsBusy()) << "the parent has it";
    }
    delete db;
    reader.reset();
    EXPECT_OK(PmemFile::Open(options, &another));
    Kill();
  }
}

TEST_F(PoolPresenceTest, DamageIsNamed) {
  StartAndKill();
  fs::copy(path_, dir_ / "copy");
  fs::resize_file(path_ + "/CAIRN_POOL", 1 << 20);
  ExpectRefused("CAIRN_POOL");
  rocksdb::DB* db = nullptr;
  EXPECT_TRUE(cairn::Open(DurableOptions(""), path_, &db).IsCorruption());
  EXPECT_EQ(fs::file_size(path_ + "/CAIRN_POOL"), uint64_t{1} << 20);
  fs::remove_all(path_);
  fs::copy(dir_ / "copy", path_);
  fs::resize_file(path_ + "/CAIRN_POOL_NOTE", 30);
  ExpectRefused("CAIRN_POOL_NOTE");
  ASSERT_OK(DiscardPool(rocksdb::DBOptions(), path_, ""));
  EXPECT_EQ(State(), PoolState::kHoldsWrites);
  ExpectRecovered();
  ASSERT_OK(Destroy());
  EXPECT_FALSE(fs::exists(path_));
}

// A pool file can be read by its owner only, the database perhaps by others.
TEST_F(PoolPresenceTest, AnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "takes root, to become another user";
  fs::permissions(dir_.path(), fs::perms::all);
  for (const bool killed : {false, true}) {
    StartAndKill();
    if (!killed) ExpectRecovered();
    ASSERT_EQ(seteuid(65534), 0);
    const Status s = Check(PoolUse::kRead);
    ASSERT_EQ(seteuid(0), 0);
    EXPECT_EQ(s.ok(), !killed) << s.ToString();
    EXPECT_EQ(s.IsIOError(), killed) << s.ToString();
  }
}

// To find that there is no pool file takes no descriptor.
TEST_F(PoolPresenceTest, NoDescriptorsLeft) {
  struct rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const struct rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status s = Check(PoolUse::kWrite);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_OK(s);
}

// Readers and openers take turns.
TEST_F(PoolPresenceTest, AnOpenerWaitsForReaders) {
  StartAndKill();
  std::unique_ptr<PmemFile> reader;
  ASSERT_OK(PmemFile::OpenForReading(path_ + "/CAIRN_POOL", &reader));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    reader.reset();
  });
  ExpectRecovered();
  later.join();
}

TEST_F(PoolPresenceTest, NoteRoundTrip) {
  PoolNote note;
  note.pool = "/a path/with\nlines and  spaces ";
  note.session = 0xfedcba9876543210;
  note.live = true;
  note.families = {{0, "default"}, {7, "a name\npool x"}, {9, ""}};
  const std::string text = EncodePoolNote(note);
  PoolNote read;
  ASSERT_OK(DecodePoolNote(text, &read));
  EXPECT_EQ(read.pool, note.pool);
  EXPECT_EQ(read.session, note.session);
  EXPECT_TRUE(read.live);
  EXPECT_EQ(read.families, note.families);
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_TRUE(DecodePoolNote(text.substr(0, length), &read).IsCorruption()) << length;
    std::string damaged = text;
    damaged[length] ^= 1;
    const Status s = DecodePoolNote(damaged, &read);
    EXPECT_TRUE(s.IsCorruption() || (s.IsNotSupported() && length == text.find('\n') - 1)) << length;
  }
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--child") return cairn::ChildMain(argv[2], argv[3], argv[4], argv[5]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
