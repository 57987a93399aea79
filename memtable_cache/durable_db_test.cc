// Durable memtables under a database: what recovery brings back, what it refuses, and that it may be killed itself.
//
// A crash is a copy of the database's directory, pool file included, taken while the database is open.

#include "memtable_cache/durable_writes.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "db/cairn_db.h"
#include "file/filename.h"
#include "gtest/gtest.h"
#include "memtable_cache/pool_presence.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/pretended_pmem.h"

// The disk, as the library sees it: how often it is synced, how long that takes, and whether it fails.
namespace {
std::atomic<int> syncs{0};
std::function<bool()> sync_may_end;  // a sync lasts until then; not to be set while there are any
std::atomic<bool> disk_fails{false};
std::atomic<bool> pool_fails{false};  // the pool file's syncs
std::atomic<bool> disk_is_full{false};
}  // namespace
// Beyond the size that a pool file begins with.
extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
  if (disk_is_full && offset + length > (2 << 20)) return ENOSPC;
  return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}
extern "C" int fdatasync(int fd) {
  ++syncs;
  while (sync_may_end && !sync_may_end()) std::this_thread::yield();
  char name[4096] = {};
  const bool of_pool = pool_fails &&
                       readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name) - 1) > 0 &&
                       std::strstr(name, "CAIRN_POOL") != nullptr;
  if (disk_fails || of_pool) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

Options DurableOptions(uint64_t pool_file_limit = 0) {
  Options options = test::BaseOptions();
  options.create_missing_column_families = true;
  options.write_buffer_size = 1 << 20;
  options.disable_auto_compactions = true;
  SubMemTableOptions memtable;
  memtable.durable = true;
  memtable.pool_file_limit = pool_file_limit;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  EXPECT_OK(
      rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator));
  return options;
}

using Contents = std::map<std::string, std::string>;

struct Opened {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  ~Opened() { Close(); }
  void Close() {
    for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    handles.clear();
    db.reset();
  }
  Status Open(const Options& options, const std::string& path) {
    return cairn::Open(options, path, {{"default", options}, {"second", options}}, &handles, port::Into(&db));
  }
  Contents Read(int family) {
    Contents found;
    const std::unique_ptr<rocksdb::Iterator> at(db->NewIterator(rocksdb::ReadOptions(), handles[family]));
    for (at->SeekToFirst(); at->Valid(); at->Next()) found[at->key().ToString()] = at->value().ToString();
    EXPECT_OK(at->status());
    return found;
  }
};

constexpr uint64_t kSmallPool = 12 << 20;

class DurableDbTest : public ::testing::Test {
 protected:
  // A copy of the database as a crash would leave it.
  std::string Crash() {
    const std::string copy = dir_ / ("copy" + std::to_string(copies_++));
    fs::copy(dir_ / "db", copy, fs::copy_options::recursive);
    return copy;
  }

  // Everything that an entry can be, over two column families; one of them has been flushed in between.
  void Fill(Opened* opened) {
    rocksdb::DB* const db = opened->db.get();
    const rocksdb::WriteOptions write;
    for (int i = 0; i < 50; ++i) ASSERT_OK(db->Merge(write, opened->handles[0], "m" + std::to_string(i % 5), "x"));
    ASSERT_OK(db->Put(write, opened->handles[0], "single", "1"));
    ASSERT_OK(db->Put(write, opened->handles[1], "a", "old"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions(), opened->handles[0]));
    for (int i = 0; i < 50; ++i) {
      rocksdb::WriteBatch batch;
      ASSERT_OK(batch.Merge(opened->handles[0], "m" + std::to_string(i % 5), "y"));
      ASSERT_OK(batch.Put(opened->handles[1], "b" + std::to_string(i), std::string(i * 10, 'v')));
      if (i % 7 == 0) ASSERT_OK(batch.Delete(opened->handles[1], "b" + std::to_string(i / 2)));
      ASSERT_OK(db->Write(write, &batch));
    }
    ASSERT_OK(db->SingleDelete(write, opened->handles[0], "single"));
    ASSERT_OK(db->Put(write, opened->handles[1], "a", "new"));
    ASSERT_OK(db->PutEntity(write, opened->handles[1], "entity", rocksdb::WideColumns{{"", "d"}, {"c", "1"}}));
    for (int family = 0; family < 2; ++family) expected_[family] = opened->Read(family);
    ASSERT_EQ(expected_[0].at("m0").size(), 39u);
    sequence_ = db->GetLatestSequenceNumber();
  }

  void CheckContents(const std::string& path) {
    Opened again;
    ASSERT_OK(again.Open(DurableOptions(), path));
    for (int family = 0; family < 2; ++family) EXPECT_EQ(again.Read(family), expected_[family]) << "family " << family;
    EXPECT_EQ(again.db->GetLatestSequenceNumber(), sequence_);
    rocksdb::PinnableWideColumns columns;
    ASSERT_OK(again.db->GetEntity(rocksdb::ReadOptions(), again.handles[1], "entity", &columns));
    EXPECT_EQ(columns.columns().size(), 2u);
  }

  // That a copy made now holds expected_, once it is opened with a factory of its own, not with the one of `in_use`.
  void CheckAfterCrash(const Options& in_use) {
    const std::string copy = Crash();
    Opened again;
    EXPECT_TRUE(again.Open(in_use, copy).IsBusy()) << "the factory is in use";
    ASSERT_OK(again.Open(DurableOptions(kSmallPool), copy));
    for (int family = 0; family < 2; ++family) EXPECT_TRUE(again.Read(family) == expected_[family]);
  }

  Status Recover(const std::string& path, RecoveryReport* report, rocksdb::Env* env = rocksdb::Env::Default()) {
    PmemFileOptions pool;
    pool.path = path + "/CAIRN_POOL";
    std::unique_ptr<PmemFile> file;
    const Status s = PmemFile::Open(pool, &file);
    Options options = DurableOptions();
    options.env = env;
    return s.ok() ? RecoverPoolFile(options, path, file.get(), report) : s;
  }

  TempDir dir_;
  int copies_ = 0;
  Contents expected_[2];
  uint64_t sequence_ = 0;
};

// The pool file grows with what waits for its flush, and shrinks again; whatever moment it is killed at, nothing is
// lost.
TEST_F(DurableDbTest, ThePoolFileShrinks) {
  Options options = DurableOptions();
  SubMemTableOptions memtable;
  memtable.durable = true;
  memtable.pool_size = 0;
  options.memtable_factory = NewSubMemTableFactory(memtable);
  options.write_buffer_size = 16 << 20;
  Opened opened;
  const std::string path = dir_ / "db";
  ASSERT_OK(opened.Open(options, path));
  const auto blocks = [&] {
    struct stat facts = {};
    EXPECT_EQ(stat((path + "/CAIRN_POOL").c_str(), &facts), 0);
    return static_cast<uint64_t>(facts.st_blocks) * 512;
  };
  const auto fill = [&](int round, int count, size_t bytes) {
    for (int i = 0; i < count; ++i) {
      const std::string key = std::to_string(i);
      const std::string value(bytes, static_cast<char>('a' + round));
      ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i % 2], key, value));
      expected_[i % 2][key] = value;
    }
  };
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    // Every other round with entries that are larger than a region.
    fill(round, round % 2 == 0 ? 3000 : 5, round % 2 == 0 ? 4000 : 3 << 20);
    EXPECT_GT(blocks(), uint64_t{12} << 20);
    CheckAfterCrash(options);
    for (auto* handle : opened.handles) ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), handle));
    // RocksDB 11 frees memtables when the flush has returned.
    EXPECT_TRUE(Await([&] { return blocks() <= uint64_t{10} << 20; })) << blocks();
    CheckAfterCrash(options);
    fill(round + 10, 100, 100);
    CheckAfterCrash(options);
    ASSERT_OK(opened.db->SyncWAL());
  }
  // What was given back is used again before the file grows.
  EXPECT_LE(fs::file_size(path + "/CAIRN_POOL"), uint64_t{64} << 20);
}

// As the skip list's: a tailing iterator meets what was written behind the entry on which it stands.
TEST_F(DurableDbTest, TailingIteratorsSeeWhatIsWrittenAhead) {
  for (const std::string memtable : {"skip list", "sub-MemTable", "durable"}) {
    SCOPED_TRACE(memtable);
    Options options = memtable == "durable" ? DurableOptions() : test::BaseOptions();
    if (memtable == "sub-MemTable") options.memtable_factory = NewSubMemTableFactory();
    const std::string path = dir_ / memtable;
    std::unique_ptr<rocksdb::DB> db;
    ASSERT_OK(cairn::Open(options, path, port::Into(&db)));
    const rocksdb::WriteOptions write;
    ASSERT_OK(db->Put(write, "a", "1"));
    ASSERT_OK(db->Put(write, "k", "1"));
    rocksdb::ReadOptions tailing;
    tailing.tailing = true;
    const std::unique_ptr<rocksdb::Iterator> tail(db->NewIterator(tailing));
    const std::unique_ptr<rocksdb::Iterator> plain(db->NewIterator(rocksdb::ReadOptions()));
    plain->SeekToFirst();
    tail->SeekToFirst();
    ASSERT_OK(db->Put(write, "c", "2"));
    ASSERT_OK(db->Put(write, "z", "2"));
    ASSERT_OK(db->Delete(write, "k"));
    std::string seen;
    int round = 0;
    for (; tail->Valid(); tail->Next()) {
      seen += tail->key().ToString();
      if (++round < 5) ASSERT_OK(db->Put(write, tail->key().ToString() + "0", "3"));
    }
    EXPECT_EQ(seen, "aa0a00a000a0000cz");
    ASSERT_OK(tail->status());
    std::string seen_plain;
    for (; plain->Valid(); plain->Next()) seen_plain += plain->key().ToString();
    EXPECT_EQ(seen_plain, "ak");
  }
}

TEST_F(DurableDbTest, BringsEverythingBackOnce) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  const std::string copy = Crash();
  RecoveryReport report;
  ASSERT_OK(Recover(copy, &report));
  EXPECT_TRUE(report.had_work);
  EXPECT_EQ(report.counts.replayed, 50u + 50 + 8 + 1 + 3) << report.ToString();
  EXPECT_GT(report.wal, 0u);
  RecoveryReport again;
  ASSERT_OK(Recover(copy, &again));
  EXPECT_FALSE(again.had_work);
  CheckContents(copy);
  CheckContents(copy);
}

TEST_F(DurableDbTest, AFailedSyncStopsTheDatabaseUntilItIsOpenedAgain) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  ASSERT_OK(opened.db->Put(synced, "a", "1"));
  disk_fails = true;
  EXPECT_TRUE(opened.db->Put(synced, "b", "2").IsIOError());
  disk_fails = false;
  EXPECT_TRUE(opened.db->Put(synced, "c", "3").IsIOError());
  EXPECT_TRUE(opened.db->Put(rocksdb::WriteOptions(), "d", "4").IsIOError());
  EXPECT_TRUE(opened.db->SyncWAL().IsIOError());
  uint64_t errors = 0;
  ASSERT_TRUE(opened.db->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &errors));
  // As with a WAL: RocksDB takes it for fatal.
  EXPECT_FALSE(opened.db->Resume().ok());
  EXPECT_FALSE(opened.db->Put(rocksdb::WriteOptions(), "e", "5").ok());
  opened.Close();
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  std::string value;
  ASSERT_OK(opened.db->Get(rocksdb::ReadOptions(), "a", &value));
  EXPECT_TRUE(opened.db->Get(rocksdb::ReadOptions(), "c", &value).IsNotFound());
  ASSERT_OK(opened.db->Put(synced, "c", "3"));
}

// A table in the MANIFEST says that all of its memtable is safe: after a loss of power, recovery would replay what is
// left of the memtable over it.
TEST_F(DurableDbTest, AFlushWhoseSyncFailsIsNone) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  ASSERT_OK(opened.db->Put(synced, "a", "1"));
  ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), "a", "2"));
  pool_fails = true;
  EXPECT_TRUE(Says(opened.db->Flush(rocksdb::FlushOptions()), &Status::IsIOError, "CAIRN_POOL"));
  std::vector<rocksdb::LiveFileMetaData> tables;
  opened.db->GetLiveFilesMetaData(&tables);
  EXPECT_TRUE(tables.empty());
  EXPECT_FALSE(opened.db->Put(rocksdb::WriteOptions(), "b", "1").ok());
  pool_fails = false;
  opened.Close();
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  std::string value;
  ASSERT_OK(opened.db->Get(rocksdb::ReadOptions(), "a", &value));
  EXPECT_EQ(value, "2");
  ASSERT_OK(opened.db->Put(synced, "b", "1"));
  ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions()));
}

TEST_F(DurableDbTest, SyncedWritesAtTheSameTimeShareASync) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  constexpr uint64_t kThreads = 8;
  constexpr int kRounds = 50;
  // The first sync of a round lasts until all have asked for one.
  const DurableWrites* const writes = CairnDB::Of(opened.db.get())->services()->durable();
  uint64_t asked = 0;
  sync_may_end = [&] { return writes->sync_counts().asked >= asked + kThreads; };
  syncs = 0;
  for (int round = 0; round < kRounds; ++round) {
    asked = writes->sync_counts().asked;
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { EXPECT_OK(opened.db->Put(synced, std::to_string(t), "v")); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  sync_may_end = nullptr;
  EXPECT_LE(syncs, 2 * kRounds) << "who came while one ran shares the next";
}

// Copies pages of the words and of segments' headers that differ from one pool file to the other; how many.
int TakeWordsAndHeaders(const std::string& from, const std::string& to) {
  std::fstream now(from + "/CAIRN_POOL", std::ios::in | std::ios::binary);
  std::fstream disk(to + "/CAIRN_POOL", std::ios::in | std::ios::out | std::ios::binary);
  std::string after(4096, 0);
  std::string before(4096, 0);
  int taken = 0;
  for (int page = 0; now.read(after.data(), 4096) && disk.seekg(page * 4096).read(before.data(), 4096); ++page) {
    const bool header = before.compare(0, 128, after, 0, 128) == 0 && before.compare(128, 8, after, 128, 8) != 0;
    if (before == after || (!header && page != 2)) continue;
    disk.seekp(page * 4096).write(after.data(), 4096);
    ++taken;
  }
  return taken;
}

// Of the pages written since the last sync, a loss of power leaves any; here: those of the words and of the segments'
// headers, not those of the entries. A thread that moves to another processor may begin segments that were not in use,
// so that nothing is there to be taken; then it is tried again.
TEST_F(DurableDbTest, ALossOfPowerKeepsWhatWasSynced) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  std::string copy;
  int taken = 0;
  for (int attempt = 0; attempt < 20 && taken < 2; ++attempt) {
    ASSERT_OK(opened.db->SyncWAL());
    copy = Crash();
    sequence_ = opened.db->GetLatestSequenceNumber();
    for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
    for (int i = 0; i < 200; ++i) {
      ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i % 2], "later" + std::to_string(i),
                               std::string(200, 'x')));
    }
    taken = TakeWordsAndHeaders(Crash(), copy);
  }
  ASSERT_GE(taken, 2);
  RecoveryReport report;
  ASSERT_OK(Recover(copy, &report));
  EXPECT_EQ(report.counts.synced, sequence_) << report.ToString();
  EXPECT_EQ(report.counts.given_up, 200u);
  CheckContents(copy);
}

TEST_F(DurableDbTest, ClosingLeavesNothingToRecover) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  opened.Close();
  RecoveryReport report;
  ASSERT_OK(Recover(dir_ / "db", &report));
  EXPECT_FALSE(report.had_work);
  CheckContents(dir_ / "db");
}

// As with RocksDB's LOCK: nobody waits for the object to be deleted.
TEST_F(DurableDbTest, AClosedDatabaseCanBeOpenedBeforeItsObjectIsDeleted) {
  const Options options = DurableOptions();
  for (const bool same_factory : {true, false}) {
    Opened closed, again;
    ASSERT_OK(closed.Open(options, dir_ / "db"));
    ASSERT_OK(closed.db->Put(rocksdb::WriteOptions(), "a", same_factory ? "1" : "2"));
    for (ColumnFamilyHandle* handle : closed.handles) ASSERT_OK(closed.db->DestroyColumnFamilyHandle(handle));
    closed.handles.clear();
    ASSERT_OK(closed.db->Close());
    ASSERT_OK(again.Open(same_factory ? options : DurableOptions(), dir_ / "db"));
    ASSERT_OK(closed.db->Close());
    closed.db.reset();
    std::string value;
    ASSERT_OK(again.db->Get(rocksdb::ReadOptions(), "a", &value));
    EXPECT_EQ(value, same_factory ? "1" : "2");
    ASSERT_OK(again.db->Put(rocksdb::WriteOptions(), "b", "3"));
  }
}

TEST_F(DurableDbTest, ClosingWithoutFlushKeepsThePool) {
  Options options = DurableOptions();
  options.avoid_flush_during_shutdown = true;
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  Fill(&opened);
  opened.Close();
  CheckContents(dir_ / "db");
}

// Lets so many calls change a folder; then it is as if the process had been killed.
class FewCalls : public rocksdb::FileSystemWrapper {
 public:
  explicit FewCalls(int calls) : FileSystemWrapper(rocksdb::FileSystem::Default()), left_(calls) {}
  const char* Name() const override { return "FewCalls"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* dbg) override {
    return left_-- > 0 ? target()->NewWritableFile(name, options, file, dbg) : rocksdb::IOStatus::Aborted();
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* dbg) override {
    return left_-- > 0 ? target()->RenameFile(from, to, options, dbg) : rocksdb::IOStatus::Aborted();
  }
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* dbg) override {
    return left_-- > 0 ? target()->NewDirectory(name, options, directory, dbg) : rocksdb::IOStatus::Aborted();
  }

 private:
  int left_;
};

// Before its WAL is made, named, known of, and before the note says that nothing is left.
TEST_F(DurableDbTest, RecoveryMayBeKilledAnywhere) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  int calls = 0;
  for (bool killed = true; killed; ++calls) {
    SCOPED_TRACE(calls);
    const std::string copy = Crash();
    const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(std::make_shared<FewCalls>(calls));
    RecoveryReport report;
    const Status s = Recover(copy, &report, env.get());
    killed = !s.ok();
    EXPECT_TRUE(!killed || s.IsAborted()) << s.ToString();
    CheckContents(copy);
  }
  EXPECT_GE(calls, 5);
}

// The crash between the MANIFEST's record of a flush and the mark in the pool: merges must not be applied twice.
TEST_F(DurableDbTest, FlushThatThePoolDoesNotKnow) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  const std::string before = Crash();
  // A flush that Fill has made may be one that the pool does not know yet.
  fs::copy(before, dir_ / "at first", fs::copy_options::recursive);
  RecoveryReport at_first;
  ASSERT_OK(Recover(dir_ / "at first", &at_first));
  for (const int family : {0, 1}) {
    ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), opened.handles[family]));
    const std::string copy = Crash();
    fs::copy(before + "/CAIRN_POOL", copy + "/CAIRN_POOL", fs::copy_options::overwrite_existing);
    RecoveryReport report;
    ASSERT_OK(Recover(copy, &report));
    EXPECT_EQ(report.counts.flushed, at_first.counts.flushed + (family == 0 ? 51 : 112)) << report.ToString();
    CheckContents(copy);
  }
}

TEST_F(DurableDbTest, DroppedColumnFamily) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  ASSERT_OK(opened.db->DropColumnFamily(opened.handles[1]));
  const std::string copy = Crash();
  RecoveryReport report;
  ASSERT_OK(Recover(copy, &report));
  EXPECT_EQ(report.counts.dropped_family, 61u) << report.ToString();
}

// RocksDB inserts a batch record by record, and stops at one whose column family is gone.
TEST_F(DurableDbTest, ABatchThatFailsHalfwayDoesNotComeBackInPart) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  rocksdb::WriteOptions synced;
  synced.sync = true;
  ASSERT_OK(opened.db->Put(synced, "before", "acknowledged"));
  ASSERT_OK(opened.db->DropColumnFamily(opened.handles[1]));
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.Put(opened.handles[0], "half", "of a batch"));
  ASSERT_OK(batch.Put(opened.handles[1], "other half", "of a batch"));
  const Status s = opened.db->Write(synced, &batch);
  ASSERT_TRUE(s.IsInvalidArgument()) << s.ToString();
  // The memtable becomes read-only, if RocksDB lets it.
  opened.db->Flush(rocksdb::FlushOptions(), opened.handles[0]).PermitUncheckedError();

  const std::string copy = Crash();
  const Contents expected = {{"before", "acknowledged"}};
  Opened again;
  ASSERT_OK(again.Open(DurableOptions(), copy));
  EXPECT_EQ(again.Read(0), expected);
  opened.Close();
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  EXPECT_EQ(opened.Read(0), expected);
}

TEST_F(DurableDbTest, PoolOfAnotherDatabase) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  const std::string copy = Crash();
  const std::string other = dir_ / "other";
  {
    Opened second;
    ASSERT_OK(second.Open(DurableOptions(), other));
  }
  fs::copy(copy + "/CAIRN_POOL", other + "/CAIRN_POOL", fs::copy_options::overwrite_existing);
  Opened again;
  EXPECT_TRUE(Says(again.Open(DurableOptions(), other), &Status::IsInvalidArgument, "this is database"));
}

TEST_F(DurableDbTest, OpenedWithoutThePoolSince) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  const std::string copy = Crash();
  Options plain = DurableOptions();
  plain.memtable_factory = Options().memtable_factory;
  {
    // By RocksDB itself, as a program with another library would; ours refuses.
    Opened without;
    EXPECT_TRUE(without.Open(plain, copy).IsInvalidArgument());
    rocksdb::DB* db = nullptr;
    bool can_retry = false;
    ASSERT_OK(rocksdb_own::DBImplOpen(plain, copy, {{"default", plain}, {"second", plain}}, &without.handles,
                                      port::Into(&db), false, true, false, &can_retry));
    without.db.reset(db);
    ASSERT_OK(without.db->Put(rocksdb::WriteOptions(), "between", "1"));
  }
  Opened again;
  EXPECT_TRUE(Says(again.Open(DurableOptions(), copy), &Status::IsInvalidArgument, "opened without the pool file"));
  // Asking again changes nothing; giving up does.
  EXPECT_TRUE(again.Open(DurableOptions(), copy).IsInvalidArgument());
  ASSERT_OK(DiscardPool(plain, copy, ""));
  ASSERT_OK(again.Open(DurableOptions(), copy));
}

TEST_F(DurableDbTest, AnEmptyPoolFileWhereWritesWereIsRefused) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  for (const int64_t zeros : {0, 1000, 12288, 8 << 20}) {
    SCOPED_TRACE(zeros);
    const std::string copy = Crash();
    const std::string pool = copy + "/CAIRN_POOL";
    fs::resize_file(pool, 0);
    fs::resize_file(pool, static_cast<uint64_t>(zeros));
    Opened again;
    Status s = again.Open(DurableOptions(), copy);
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
    EXPECT_NE(s.ToString().find("is empty now"), std::string::npos) << s.ToString();
    Options plain = DurableOptions();
    plain.memtable_factory = Options().memtable_factory;
    s = again.Open(plain, copy);
    EXPECT_NE(s.ToString().find("is empty now"), std::string::npos) << s.ToString();
    ASSERT_OK(DiscardPool(DurableOptions(), copy, ""));
    ASSERT_OK(again.Open(DurableOptions(), copy));
  }
}

TEST_F(DurableDbTest, EarlierStateRestoredSince) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  const std::string before = Crash();
  Fill(&opened);
  ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), opened.handles[1]));
  rocksdb::CancelAllBackgroundWork(opened.db.get(), true);  // OnFlushCompleted has run
  ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), "late", "1"));
  fs::copy(dir_ / "db/CAIRN_POOL", before + "/CAIRN_POOL", fs::copy_options::overwrite_existing);
  Opened again;
  EXPECT_TRUE(Says(again.Open(DurableOptions(), before), &Status::IsInvalidArgument, "earlier state"));
}

TEST_F(DurableDbTest, RefusesWhatCannotBeDurable) {
  const auto refused = [&](const std::function<void(Options*)>& change) {
    Options options = DurableOptions();
    change(&options);
    Opened opened;
    const Status s = opened.Open(options, dir_ / "refused");
    return s.IsNotSupported() && s.ToString().find("durable memtables") != std::string::npos;
  };
  EXPECT_TRUE(refused([](Options* o) { o->unordered_write = true; }));
  EXPECT_TRUE(refused([](Options* o) { o->allow_2pc = true; }));
  EXPECT_TRUE(refused([](Options* o) { o->two_write_queues = true; }));
  EXPECT_TRUE(refused([](Options* o) { o->persist_stats_to_disk = true; }));
  EXPECT_TRUE(refused([](Options* o) { o->recycle_log_file_num = 1; }));
  EXPECT_TRUE(refused([](Options* o) { o->inplace_update_support = true; }));
  EXPECT_TRUE(refused([](Options* o) { o->experimental_mempurge_threshold = 1; }));

  Options options = DurableOptions();
  Options plain = test::BaseOptions();
  std::vector<ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  EXPECT_TRUE(cairn::Open(options, dir_ / "refused", {{"default", options}, {"second", plain}}, &handles, &db)
                  .IsInvalidArgument());
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  const rocksdb::WriteOptions write;
  EXPECT_TRUE(opened.db->DeleteRange(write, opened.handles[0], "a", "b").IsNotSupported());
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.DeleteRange("a", "b"));
  EXPECT_TRUE(opened.db->Write(write, &batch).IsNotSupported());
  ColumnFamilyHandle* third = nullptr;
  EXPECT_TRUE(opened.db->CreateColumnFamily(plain, "third", &third).IsInvalidArgument());
  rocksdb::WriteOptions sync;
  sync.sync = true;
  EXPECT_OK(opened.db->Put(sync, "still", "works"));
  Opened second;
  EXPECT_TRUE(second.Open(DurableOptions(), dir_ / "db").IsBusy());
}

// Only where what is in the cache survives a loss of power.
TEST_F(DurableDbTest, LockedCacheSealsByCopyWithEadr) {
  const auto options_of = [] {
    Options options = DurableOptions();
    SubMemTableOptions memtable;
    memtable.durable = true;
    memtable.copy_on_seal = true;
    memtable.locked_cache = 1 << 20;
    memtable.resctrl_root = "none";
    options.memtable_factory = NewSubMemTableFactory(memtable);
    return options;
  };
  Opened opened;
  EXPECT_TRUE(Says(opened.Open(options_of(), dir_ / "db"), &Status::IsNotSupported, "locked_cache"));
#ifdef CAIRN_HAVE_PMEM
  const test::PretendedPmem platform(test::PowerLoss::kKeepsTheCache);
  const Options options = options_of();
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  Fill(&opened);
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(
        opened.db->Put(rocksdb::WriteOptions(), opened.handles[i % 2], std::to_string(i), std::string(2000, 'v')));
  }
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  sequence_ = opened.db->GetLatestSequenceNumber();
  SubMemTableStats stats;
  ASSERT_OK(GetSubMemTableStats(*options.memtable_factory, &stats));
  EXPECT_GT(stats.copied_bytes, 0u);
  EXPECT_NE(stats.backing.find("sealed by copy, writers work in 2097152 bytes"), std::string::npos) << stats.backing;
  CheckContents(Crash());
  opened.Close();
  CheckContents(dir_ / "db");
#endif
}

// Holds each flush up while it is on.
class SlowFlushes : public rocksdb::EventListener {
 public:
  std::atomic<bool> on{false};
  void OnFlushBegin(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override {
    if (on.load()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
};

// A checkpoint flushes several column families at once behind a flush that is under way. RocksDB takes the other
// family's memtables for those that it waits for, and there is no WAL to make up for what the checkpoint then lacks.
TEST_F(DurableDbTest, ACheckpointWaitsForEachColumnFamilyOfAnAtomicFlush) {
  // Whichever order RocksDB's is: each family has its turn as the one with more memtables behind it.
  for (const int many : {0, 1}) {
    Options options = DurableOptions();
    options.atomic_flush = true;
    const auto slow = std::make_shared<SlowFlushes>();
    options.listeners.push_back(slow);
    const std::string path = dir_ / ("durable" + std::to_string(many));
    Opened opened;
    ASSERT_OK(opened.Open(options, path));
    rocksdb::DB* const db = opened.db.get();
    ColumnFamilyHandle* const old = opened.handles[many];
    ColumnFamilyHandle* const young = opened.handles[1 - many];
    for (int i = 0; i < 8; ++i) {
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), old, "key" + std::to_string(i), "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions(), old));
    }
    slow->on = true;
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), young, "key", "value"));
    ASSERT_OK(BeginFlush(db, young));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), old, "last", "value"));
    std::unique_ptr<rocksdb::Checkpoint> checkpoint;
    ASSERT_OK(rocksdb::Checkpoint::Create(db, port::Into(&checkpoint)));
    ASSERT_OK(checkpoint->CreateCheckpoint(path + ".copy"));
    slow->on = false;
    opened.Close();
    options.memtable_factory = DurableOptions().memtable_factory;
    ASSERT_OK(opened.Open(options, path + ".copy"));
    EXPECT_EQ(opened.Read(many).count("last"), 1u) << path;
    EXPECT_EQ(opened.Read(1 - many).count("key"), 1u) << path;
  }
}

// Memtables would be flushed at 64 MiB, the pool holds 12: writes wait for it, and none fails.
TEST_F(DurableDbTest, AFullPoolFileIsFlushed) {
  Options options = DurableOptions(kSmallPool);
  options.write_buffer_size = 64 << 20;
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  constexpr int kPuts = 15000;
  std::atomic<int> failed{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kPuts; ++i) {
        const std::string key = std::to_string(w) + "/" + std::to_string(i);
        const Status s = opened.db->Put(rocksdb::WriteOptions(), opened.handles[i % 2], key, std::string(1000, 'v'));
        if (!s.ok() && failed.fetch_add(1) == 0) ADD_FAILURE() << s.ToString();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_LE(fs::file_size(dir_ / "db/CAIRN_POOL"), kSmallPool + (16 << 10));
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  EXPECT_EQ(expected_[0].size() + expected_[1].size(), 2u * kPuts);
  CheckAfterCrash(options);
}

// An iterator keeps flushed memtables in the pool: writes fail before they do anything, until it is gone.
TEST_F(DurableDbTest, AFullPoolFileRefusesWritesUntilThereIsRoom) {
  Options options = DurableOptions(kSmallPool);
  options.write_buffer_size = 64 << 20;
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  const rocksdb::WriteOptions write;
  const std::string value(10000, 'v');
  for (int i = 0; i < 300; ++i) ASSERT_OK(opened.db->Put(write, opened.handles[0], "early" + std::to_string(i), value));
  std::unique_ptr<rocksdb::Iterator> holder(opened.db->NewIterator(rocksdb::ReadOptions(), opened.handles[0]));
  Status s;
  int count = 0;
  std::vector<std::unique_ptr<rocksdb::Iterator>> holders;
  for (; s.ok() && count < 3000; ++count) {
    if (count % 50 == 0) holders.emplace_back(opened.db->NewIterator(rocksdb::ReadOptions(), opened.handles[0]));
    s = opened.db->Put(write, opened.handles[0], "held" + std::to_string(count), value);
  }
  ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_NE(s.ToString().find("CAIRN_POOL is full"), std::string::npos) << s.ToString();
  std::string found;
  EXPECT_TRUE(opened.db->Get(rocksdb::ReadOptions(), opened.handles[0], "held" + std::to_string(count - 1), &found)
                  .IsNotFound());
  holder.reset();
  holders.clear();
  for (int i = 0; i < 1000; ++i) ASSERT_OK(opened.db->Put(write, opened.handles[1], "late" + std::to_string(i), value));
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.Put(opened.handles[1], "large", std::string(2 * kSmallPool, 'x')));
  EXPECT_TRUE(opened.db->Write(write, &batch).IsNoSpace());
  ASSERT_OK(opened.db->Put(write, opened.handles[1], "last", "1"));
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  EXPECT_EQ(expected_[0].size(), 300u + static_cast<size_t>(count) - 1);
  EXPECT_EQ(expected_[1].size(), 1001u);
  CheckAfterCrash(options);
}

// Somebody has it, or the file system is read-only, or something else is in the way.
TEST_F(DurableDbTest, SaysWhyADatabaseCannotBeLocked) {
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Opened again;
  EXPECT_TRUE(Says(again.Open(DurableOptions(), dir_ / "db"), &Status::IsBusy, "is open in this process"));
  opened.Close();
  fs::remove(dir_ / "db/LOCK");
  fs::create_directory(dir_ / "db/LOCK");
  EXPECT_TRUE(Says(again.Open(DurableOptions(), dir_ / "db"), &Status::IsIOError, strerror(EISDIR)));
  fs::remove(dir_ / "db/LOCK");
  EXPECT_OK(again.Open(DurableOptions(), dir_ / "db"));
}

// GetOptions of a database has its factory. Another database that made a column family of these options took the
// factory, and from then on the first one's memtables lay in the other's pool file, or in no file when that one was
// closed.
TEST_F(DurableDbTest, AFactoryThatServesADatabaseIsNotTakenByAnother) {
  const Options options = DurableOptions();
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  {
    Opened other;
    ASSERT_OK(other.Open(DurableOptions(), dir_ / "other"));
    ColumnFamilyHandle* handle = nullptr;
    const Status s = other.db->CreateColumnFamily(opened.db->GetOptions(opened.handles[1]), "third", &handle);
    EXPECT_TRUE(s.IsBusy()) << s.ToString();
    if (handle != nullptr) other.handles.push_back(handle);
  }
  for (ColumnFamilyHandle* handle : opened.handles) {
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), handle, "early", "1"));
    ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), handle));
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), handle, "late", "1"));
  }
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  CheckAfterCrash(options);
}

class AtTables : public rocksdb::EventListener {
 public:
  explicit AtTables(std::function<void()> begins) : begins_(std::move(begins)) {}
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& /*info*/) override { begins_(); }

 private:
  const std::function<void()> begins_;
};

// What a WAL holds was replayed into the pool file of the database that the factory serves: after a crash it was that
// one's, or kept it from being opened.
TEST_F(DurableDbTest, WhatIsOpenedForReadingWithItsFactoryIsNotInThePoolFile) {
  const Options plain = [] {
    Options created = test::BaseOptions();
    created.create_missing_column_families = true;
    return created;
  }();
  {
    Opened killed;
    ASSERT_OK(killed.Open(plain, dir_ / "open"));
    for (int i = 0; i < 10; ++i) {
      ASSERT_OK(killed.db->Put(rocksdb::WriteOptions(), killed.handles[i % 2], "foreign" + std::to_string(i), "1"));
    }
    fs::copy(dir_ / "open", dir_ / "killed", fs::copy_options::recursive);
  }
  const Options options = DurableOptions();
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i % 2], "own" + std::to_string(i), "1"));
  }
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families{{"default", options}, {"second", options}};
  for (const bool secondary : {false, true}) {
    SCOPED_TRACE(secondary);
    Opened reader;
    rocksdb::DB* db = nullptr;
    if (secondary) {
      ASSERT_OK(rocksdb::DB::OpenAsSecondary(options, dir_ / "killed", dir_ / "secondary", families, &reader.handles,
                                             port::Into(&db)));
    } else {
      ASSERT_OK(rocksdb::DB::OpenForReadOnly(options, dir_ / "killed", families, &reader.handles, port::Into(&db)));
    }
    reader.db.reset(db);
    EXPECT_EQ(reader.Read(1).size(), 5u);
    CheckAfterCrash(options);
  }
  int tables = 0;
  Options listens = options;
  listens.listeners.push_back(std::make_shared<AtTables>([&] {
    ++tables;
    CheckAfterCrash(options);
  }));
  ASSERT_OK(rocksdb::RepairDB(dir_ / "killed", listens, families));
  EXPECT_GT(tables, 0);
}

// As an OPTIONS file gives them: each column family has a factory of its own.
TEST_F(DurableDbTest, FactoriesOfColumnFamiliesShareWhatThePoolFileHasFree) {
  constexpr uint64_t kLeastPool = 8 << 20;
  std::vector<Options> own(4);
  for (Options& options : own) {
    options = DurableOptions(kLeastPool);
    options.write_buffer_size = 256 << 10;
  }
  Opened opened;
  rocksdb::DB* db = nullptr;
  ASSERT_OK(cairn::Open(own[0], dir_ / "db", {{"default", own[0]}, {"second", own[1]}}, &opened.handles, &db));
  opened.db.reset(db);
  for (int i = 2; i < 4; ++i) {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_OK(db->CreateColumnFamily(own[i], std::to_string(i), &handle));
    opened.handles.push_back(handle);
  }
  const std::string value(500, 'v');
  for (int i = 0; i < 4000; ++i) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), opened.handles[i % 4], "key" + std::to_string(i), value));
  }
  EXPECT_LE(fs::file_size(dir_ / "db/CAIRN_POOL"), kLeastPool + (16 << 10));
}

// Each of its column families takes a segment. The first ones took all that the pool file could give, in large
// segments, and the batch was visible, returned NoSpace and held all other writes back.
TEST_F(DurableDbTest, ABatchOverManyColumnFamiliesFindsItsPlaces) {
  constexpr uint64_t kLeastPool = 8 << 20;
  Options options = DurableOptions(kLeastPool);
  options.write_buffer_size = 64 << 20;
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  rocksdb::DB* const db = opened.db.get();
  for (int i = 2; i < 100; ++i) {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_OK(db->CreateColumnFamily(options, std::to_string(i), &handle));
    opened.handles.push_back(handle);
  }
  for (int round = 0; round < 3; ++round) {
    rocksdb::WriteBatch batch;
    for (ColumnFamilyHandle* handle : opened.handles) {
      ASSERT_OK(batch.Put(handle, "key" + std::to_string(round), std::string(500, 'v')));
    }
    ASSERT_OK(db->Write(rocksdb::WriteOptions(), &batch));
  }
}

// An entry for which the pool file has no place in one piece is in plain memory until its memtable is in a table,
// whatever keeps that memtable for longer.
TEST_F(DurableDbTest, WritesGoOnWhenAnEntryWithoutAPlaceIsInATable) {
  Options options = DurableOptions(2 * kSmallPool);
  options.write_buffer_size = 64 << 20;
  Opened opened;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  rocksdb::DB* const db = opened.db.get();
  const rocksdb::WriteOptions write;
  for (int i = 0; i < 180; ++i) {
    ASSERT_OK(db->Put(write, opened.handles[0], "early" + std::to_string(i), std::string(100000, 'v')));
  }
  ASSERT_OK(db->Flush(rocksdb::FlushOptions(), opened.handles[0]));
  Status s;
  for (int i = 0; i < 1000 && !s.IsNoSpace(); ++i) {  // until the pool's file has all of its length
    s = db->Put(write, opened.handles[0], "large", std::string(3 << 20, 'x'));
    if (s.ok()) s = db->Flush(rocksdb::FlushOptions(), opened.handles[0]);
  }
  ASSERT_NE(s.ToString().find("could not take a write"), std::string::npos) << s.ToString();
  const std::unique_ptr<rocksdb::Iterator> holder(db->NewIterator(rocksdb::ReadOptions(), opened.handles[0]));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions(), opened.handles[0]));
  EXPECT_OK(db->Put(write, opened.handles[0], "late", "1"));
  EXPECT_OK(db->Put(write, opened.handles[1], "late", "1"));
  for (int family = 0; family < 2; ++family) expected_[family] = opened.Read(family);
  CheckAfterCrash(options);
}

// The file system is full from the beginning: nothing is begun that cannot be kept. When it has room, writes go on.
TEST_F(DurableDbTest, AFullFileSystemRefusesWritesUntilThereIsRoom) {
  Options options = DurableOptions();
  options.write_buffer_size = 64 << 20;  // no flush while the files are copied
  Opened opened;
  disk_is_full = true;
  ASSERT_OK(opened.Open(options, dir_ / "db"));
  std::string value;
  for (int i = 0; i < 2; ++i) {
    const Status s = opened.db->Put(rocksdb::WriteOptions(), opened.handles[i], "key", "value");
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
    EXPECT_TRUE(opened.db->Get(rocksdb::ReadOptions(), opened.handles[i], "key", &value).IsNotFound());
  }
  disk_is_full = false;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i], "key", "value"));
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i], "large", std::string(1 << 20, 'x')));
    expected_[i] = opened.Read(i);
    EXPECT_EQ(expected_[i].size(), 2u);
  }
  CheckAfterCrash(options);
}

// The program does what cairn::Open does.
TEST_F(DurableDbTest, CairnRecover) {
  const char* const build = std::getenv("CAIRN_BUILD_DIR");
  if (build == nullptr) GTEST_SKIP() << "run by ctest, which says where the program is";
  Opened opened;
  ASSERT_OK(opened.Open(DurableOptions(), dir_ / "db"));
  Fill(&opened);
  const std::string copy = Crash();
  const auto run = [&](const std::string& flags) {
    const std::string command = std::string(build) + "/bin/cairn recover " + flags + " 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[512];
    while (fgets(buffer, sizeof(buffer), pipe) != nullptr) output += buffer;
    return std::make_pair(WEXITSTATUS(pclose(pipe)), output);
  };
  auto [code, output] = run(copy + " --json");
  EXPECT_EQ(code, 0) << output;
  EXPECT_NE(output.find("\"replayed\":112"), std::string::npos) << output;
  std::tie(code, output) = run(copy);
  EXPECT_EQ(code, 0);
  EXPECT_NE(output.find("nothing to recover"), std::string::npos) << output;
  CheckContents(copy);
  // While the database is open. (Its LOCK may be free: copying the file has given it up. The pool file's is not.)
  std::tie(code, output) = run(dir_ / "db");
  EXPECT_EQ(code, 1);
  EXPECT_NE(output.find("another process"), std::string::npos) << output;
  // Damaged, then given up.
  const std::string damaged = Crash();
  fs::resize_file(damaged + "/CAIRN_POOL", 1 << 20);
  EXPECT_EQ(run(damaged).first, 1);
  EXPECT_EQ(run(damaged + " --discard").first, 0);
  EXPECT_EQ(run(damaged).first, 0);
}

}  // namespace
}  // namespace cairn
