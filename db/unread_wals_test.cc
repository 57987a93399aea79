// What an opening erases of WALs that are damaged, and that nothing else is, whatever happens to it (unread_wals.h has the
// invariants).

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/result_cache.h"
#include "db/unread_wals.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/wal_filter.h"
#include "test/support.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/copy_database.h"
#include "test/testutil/faulty_disk.h"
#include "test/testutil/flip_bit.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::IOStatus;
using rocksdb::Transaction;
using rocksdb::TransactionDB;

bool IsWal(const std::string& name) { return std::filesystem::path(name).extension() == ".log"; }

std::string Contents(const std::string& path) {
  std::string contents;
  EXPECT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), path, &contents));
  return contents;
}

// A disk that may refuse what changes it, and lose a bit of what is read.
class Disk : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "Disk"; }

  std::function<IOStatus(const std::string& name)> reopens = [](const std::string& /*name*/) { return IOStatus::OK(); };
  std::function<IOStatus(const std::string& name)> renames = reopens;
  std::function<IOStatus(const std::string& name)> creates = reopens;
  std::function<bool(const std::string& name)> flips = [](const std::string& /*name*/) { return false; };

  IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* file,
                              rocksdb::IODebugContext* context) override {
    const IOStatus s = reopens(name);
    return s.ok() ? FileSystemWrapper::ReopenWritableFile(name, options, file, context) : s;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                      rocksdb::IODebugContext* context) override {
    const IOStatus s = renames(to);
    return s.ok() ? FileSystemWrapper::RenameFile(from, to, options, context) : s;
  }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file, rocksdb::IODebugContext* context) override {
    const IOStatus s = creates(name);
    return s.ok() ? FileSystemWrapper::NewWritableFile(name, options, file, context) : s;
  }
  IOStatus NewSequentialFile(const std::string& name, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             rocksdb::IODebugContext* context) override {
    const IOStatus s = FileSystemWrapper::NewSequentialFile(name, options, file, context);
    if (s.ok() && flips(name)) *file = std::make_unique<Flipped>(std::move(*file));
    return s;
  }

 private:
  // One bit of its 40th byte.
  class Flipped : public rocksdb::FSSequentialFileOwnerWrapper {
   public:
    using FSSequentialFileOwnerWrapper::FSSequentialFileOwnerWrapper;
    IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                  rocksdb::IODebugContext* context) override {
      const IOStatus s = FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, context);
      if (!is_first_ || !s.ok() || result->size() < 40) return s;
      is_first_ = false;
      std::copy(result->data(), result->data() + result->size(), scratch);
      scratch[40] = static_cast<char>(scratch[40] ^ 1);
      *result = rocksdb::Slice(scratch, result->size());
      return s;
    }

   private:
    bool is_first_ = true;
  };
};

class UnreadWalsTest : public ::testing::Test {
 protected:
  UnreadWalsTest() {
    options_.env = env_.get();
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
  }
  rocksdb::Status Open(std::unique_ptr<TransactionDB>* db) { return Open(options_, copy_, db); }
  static rocksdb::Status Open(const rocksdb::Options& options, const std::string& path,
                              std::unique_ptr<TransactionDB>* db) {
    TransactionDB* opened = nullptr;
    const rocksdb::Status s = TransactionDB::Open(options, rocksdb::TransactionDBOptions(), path, &opened);
    db->reset(opened);
    return s;
  }
  static void Prepare(TransactionDB* db, const std::string& name) {
    Transaction* const transaction = db->BeginTransaction(rocksdb::WriteOptions());  // as of a process that is killed
    ASSERT_OK(transaction->SetName(name));
    ASSERT_OK(transaction->Put("of " + name, "value"));
    ASSERT_OK(transaction->Prepare());
    prepared_.emplace_back(transaction);
  }
  // What `write` does, as a crash leaves it.
  void WriteAndCopy(const std::function<void(TransactionDB*)>& write) {
    std::unique_ptr<TransactionDB> db;
    ASSERT_OK(Open(options_, dir_ / "db", &db));
    write(db.get());
    test::CopyDatabase(db.get(), copy_);
    for (const auto& transaction : prepared_) ASSERT_OK(transaction->Rollback());
    prepared_.clear();
  }
  // The copy's, with something in them.
  std::vector<std::string> Wals() const {
    std::vector<std::string> wals;
    for (const auto& file : std::filesystem::directory_iterator(copy_)) {
      if (IsWal(file.path()) && file.file_size() > 0) wals.push_back(file.path());
    }
    std::sort(wals.begin(), wals.end());
    return wals;
  }
  static void Shorten(const std::string& path, uint64_t bytes) {
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - bytes);
  }
  // Two are needed, of which the last entry of the older one is damaged, and the first one of the newer.
  void WriteTwoDamagedWals() {
    ASSERT_NO_FATAL_FAILURE(WriteAndCopy([](TransactionDB* db) {
      Prepare(db, "first");
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "a", "value"));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "torn", "value"));
      ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
    }));
    const std::vector<std::string> wals = Wals();
    ASSERT_EQ(wals.size(), 2u);
    test::FlipBit(wals[0], std::filesystem::file_size(wals[0]) - 1);
    test::FlipBit(wals[1], 15);
  }
  void ExpectPrepared(TransactionDB* db, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::unique_ptr<Transaction> transaction(db->GetTransactionByName(name));
      EXPECT_NE(transaction, nullptr) << name;
    }
  }

  const test::TempDir dir_;
  const std::filesystem::path copy_ = dir_ / "copy";
  const std::shared_ptr<Disk> disk_ = std::make_shared<Disk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
  rocksdb::Options options_ = test::BaseOptions();
  inline static std::vector<std::unique_ptr<Transaction>> prepared_;
};

// It was counted on that thread what an opening has read.
TEST_F(UnreadWalsTest, AListenerOpensAnotherDatabaseMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(WriteAndCopy([](TransactionDB* db) {
    Prepare(db, "first");
    for (int i = 0; i < 100; ++i) {
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), std::to_string(i), std::string(10000, 'v')));
    }
    Prepare(db, "last");
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "torn", "value"));
  }));
  Shorten(Wals().back(), 3);
  class Listener : public rocksdb::EventListener {
   public:
    explicit Listener(std::string path) : path_(std::move(path)) {}
    void OnTableFileCreated(const rocksdb::TableFileCreationInfo& /*info*/) override {
      rocksdb::DB* opened = nullptr;
      rocksdb::Options options;
      options.create_if_missing = true;
      ASSERT_OK(rocksdb::DB::Open(options, path_, port::Into(&opened)));
      const std::unique_ptr<rocksdb::DB> db(opened);
      EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
      ++times;
    }
    int times = 0;

   private:
    const std::string path_;
  };
  const auto listener = std::make_shared<Listener>(dir_ / "another");
  listener->OnTableFileCreated(rocksdb::TableFileCreationInfo());  // so that it has a WAL to read
  rocksdb::Options options = options_;
  options.listeners = {listener};
  options.write_buffer_size = 128 << 10;  // flushed while the WAL is read
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    std::unique_ptr<TransactionDB> db;
    ASSERT_OK(Open(options, copy_, &db));
    ExpectPrepared(db.get(), {"first", "last"});
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "later", "value"));
  }
  EXPECT_GT(listener->times, 2);
}

// The next opening reads the same, and may be refused no more than this one.
TEST_F(UnreadWalsTest, AnOpeningFailsBetweenTwo) {
  for (const bool is_of_known_size : {false, true}) {
    for (int fails = 0;; ++fails) {
      SCOPED_TRACE(std::to_string(fails) + (is_of_known_size ? " of known size" : ""));
      options_.track_and_verify_wals_in_manifest = is_of_known_size;
      ASSERT_NO_FATAL_FAILURE(WriteTwoDamagedWals());
      int left = fails;
      bool failed = false;
      const auto change = [&](const std::string& name) {
        if (!IsWal(name) || left-- > 0) return IOStatus::OK();
        failed = true;
        return IOStatus::IOError("While it was tested", name);
      };
      disk_->reopens = disk_->renames = change;
      std::unique_ptr<TransactionDB> db;
      const rocksdb::Status s = Open(&db);
      disk_->reopens = disk_->renames = [](const std::string& /*name*/) { return IOStatus::OK(); };
      if (s.ok()) db.reset();
      for (int i = 0; i < 2; ++i) {
        SCOPED_TRACE(i);
        ASSERT_OK(Open(&db));
        std::string value;
        EXPECT_OK(db->Get(rocksdb::ReadOptions(), "a", &value));
        ExpectPrepared(db.get(), {"first"});
        EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "behind", &value).IsNotFound());
        db.reset();
      }
      for (const char* const name : {"db", "copy"}) std::filesystem::remove_all(dir_ / name);
      if (!failed) {
        EXPECT_GE(fails, 2);
        break;
      }
    }
  }
}

// Whose file listens to what is read.
TEST_F(UnreadWalsTest, WithAResultCacheInAFile) {
  DatabaseCacheOptions cache;
  cache.capacity = 1 << 20;
  cache.path = "ANSWERS";
  UseResultCache(cache, &options_);
  ASSERT_NO_FATAL_FAILURE(WriteTwoDamagedWals());
  const std::string oldest = Wals().front();
  std::unique_ptr<TransactionDB> db;
  const uint64_t before = std::filesystem::file_size(oldest);
  ASSERT_OK(Open(&db));
  EXPECT_LT(std::filesystem::file_size(oldest), before);
}

// Another opening reads what is behind it.
TEST_F(UnreadWalsTest, AnEntryThatCannotBeApplied) {
  ASSERT_NO_FATAL_FAILURE(WriteAndCopy([](TransactionDB* db) {
    Prepare(db, "first");
    ASSERT_OK(db->Merge(rocksdb::WriteOptions(), "merged", "value"));
    Prepare(db, "last");
  }));
  const std::string wal = Wals().back();
  const std::string before = Contents(wal);
  rocksdb::Options without = options_;
  without.merge_operator.reset();
  std::unique_ptr<TransactionDB> db;
  ASSERT_OK(Open(without, copy_, &db));
  ExpectPrepared(db.get(), {"first"});
  db.reset();
  EXPECT_TRUE(Contents(wal) == before);
}

// Of another user.
TEST_F(UnreadWalsTest, AWalThatCannotBeWritten) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoDamagedWals());
  disk_->reopens = [](const std::string& name) { return IOStatus::IOError("Permission denied", name); };
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<TransactionDB> db;
    ASSERT_OK(Open(&db));
    ExpectPrepared(db.get(), {"first"});
    std::string value;
    for (int j = 0; j < i; ++j) EXPECT_OK(db->Get(rocksdb::ReadOptions(), std::to_string(j), &value));
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), std::to_string(i), "value"));
  }
}

TEST_F(UnreadWalsTest, TheSecondReadingSeesLess) {
  ASSERT_NO_FATAL_FAILURE(WriteAndCopy([](TransactionDB* db) {
    Prepare(db, "first");
    Prepare(db, "last");
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "torn", "value"));
  }));
  const std::string wal = Wals().back();
  Shorten(wal, 3);
  int times = 0;
  disk_->flips = [&](const std::string& name) { return name == wal && ++times == 2; };
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<TransactionDB> db;
    ASSERT_OK(Open(&db));
    ExpectPrepared(db.get(), {"first", "last"});
  }
  EXPECT_GE(times, 2);
}

// RocksDB waited for itself.
TEST_F(UnreadWalsTest, TheNextWalCannotBeWritten) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoDamagedWals());
  const auto disk = std::make_shared<test::FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(disk);
  rocksdb::Options options = options_;
  options.env = env.get();
  options.manual_wal_flush = true;
  std::unique_ptr<TransactionDB> db;
  disk->full = test::kWal;
  EXPECT_TRUE(Open(options, copy_, &db).IsNoSpace());
  disk->full = 0;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Open(options, copy_, &db));
    ExpectPrepared(db.get(), {"first"});
    db.reset();
  }
}

// Though this opening does not ask for it, and does not get as far as to the MANIFEST.
TEST_F(UnreadWalsTest, TheManifestHasItsSize) {
  options_.track_and_verify_wals_in_manifest = true;
  ASSERT_NO_FATAL_FAILURE(WriteTwoDamagedWals());
  rocksdb::Options without = options_;
  without.track_and_verify_wals_in_manifest = false;
  disk_->creates = [](const std::string& name) {
    return IsWal(name) ? IOStatus::IOError("While it was tested", name) : IOStatus::OK();
  };
  std::unique_ptr<TransactionDB> db;
  EXPECT_FALSE(Open(without, copy_, &db).ok());
  disk_->creates = [](const std::string& /*name*/) { return IOStatus::OK(); };
  ASSERT_OK(Open(&db));
  ExpectPrepared(db.get(), {"first"});
}

// Of the oldest WAL nothing can be read, or not all: it is torn, or an entry is damaged that others are behind. RocksDB did not read
// either, at any later opening, what had been written and synced since.
class UnreadWalsOfWritesTest : public UnreadWalsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  UnreadWalsOfWritesTest() {
    options_.enable_pipelined_write = GetParam() == std::string("pipelined");
    options_.two_write_queues = GetParam() == std::string("two_queues");
  }
  // With a prepared transaction before all others the next opening needs the first one, too, where this one reads it.
  void WriteTwoWals(bool with_prepared = false) {
    ASSERT_NO_FATAL_FAILURE(WriteAndCopy([=](TransactionDB* db) {
      if (with_prepared) Prepare(db, "first");
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "before", "value"));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "damaged", std::string(40000, 'v')));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
      ASSERT_OK(db->PauseBackgroundWork());
      ASSERT_OK(BeginFlush(db));
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), "behind", "value"));
    }));
    ASSERT_EQ(Wals().size(), 2u);
  }
  std::string OldestWal() const { return Wals().front(); }
  void ExpectThatWritesStay(bool has_before) {
    rocksdb::WriteOptions synced;
    synced.sync = true;
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE(i);
      std::unique_ptr<TransactionDB> db;
      ASSERT_OK(Open(&db));
      if (has_before) ExpectPrepared(db.get(), {"first"});
      std::string value;
      EXPECT_EQ(db->Get(rocksdb::ReadOptions(), "before", &value).ok(), has_before);
      for (const char* lost : {"damaged", "behind"}) {
        EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), lost, &value).IsNotFound()) << lost;
      }
      for (int last = 0; last < i; ++last) EXPECT_OK(db->Get(rocksdb::ReadOptions(), std::to_string(last), &value));
      ASSERT_OK(db->Put(synced, std::to_string(i), "value"));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Writes, UnreadWalsOfWritesTest, ::testing::Values("plain", "pipelined", "two_queues"));

TEST_P(UnreadWalsOfWritesTest, TornInItsFirstEntry) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  std::filesystem::resize_file(OldestWal(), 20);
  ExpectThatWritesStay(/*has_before=*/false);
}

TEST_P(UnreadWalsOfWritesTest, DamagedInItsFirstEntry) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  test::FlipBit(OldestWal(), 20);
  ExpectThatWritesStay(/*has_before=*/false);
}

TEST_P(UnreadWalsOfWritesTest, DamagedInItsFirstEntryAndOfASizeThatTheManifestHas) {
  options_.track_and_verify_wals_in_manifest = true;
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  test::FlipBit(OldestWal(), 20);
  ExpectThatWritesStay(/*has_before=*/false);
}

TEST_P(UnreadWalsOfWritesTest, DamagedBehindWhatIsRead) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals(/*with_prepared=*/true));
  const std::string damaged = OldestWal();
  test::FlipBit(damaged, 1000);
  ExpectThatWritesStay(/*has_before=*/true);
  EXPECT_LT(std::filesystem::file_size(damaged), 1000u);
}

// The last entry of the only WAL is in a block of its own, and whole.
TEST_P(UnreadWalsOfWritesTest, DamagedBeforeAWholeEntry) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  test::FlipBit(OldestWal(), 20);
  std::filesystem::remove(Wals().back());
  ExpectThatWritesStay(/*has_before=*/false);
}

// One that leaves nothing out.
TEST_P(UnreadWalsOfWritesTest, WithAFilter) {
  struct Filter : public rocksdb::WalFilter {
    WalProcessingOption LogRecord(const rocksdb::WriteBatch& /*entry*/, rocksdb::WriteBatch* /*other*/,
                                  bool* /*is_other*/) const override {
      ++entries;
      return WalProcessingOption::kContinueProcessing;
    }
    const char* Name() const override { return "Filter"; }
    mutable int entries = 0;
  };
  Filter filter;
  options_.wal_filter = &filter;
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  test::FlipBit(OldestWal(), 20);
  ExpectThatWritesStay(/*has_before=*/false);
  EXPECT_GT(filter.entries, 0);
}

// What a process has left that died while it erased.
TEST_P(UnreadWalsOfWritesTest, TheCopyOfAnotherOpeningIsRemoved) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals());
  const std::string damaged = OldestWal();
  test::FlipBit(damaged, 1000);  // behind one entry
  const std::filesystem::path left = std::filesystem::path(damaged).replace_extension(".dbtmp");
  std::filesystem::copy_file(damaged, left);
  const uint64_t number = std::stoull(left.stem());
  ASSERT_OK(EraseUnread(disk_.get(), {{damaged, number, /*entries=*/1}}, /*log=*/nullptr));
  EXPECT_LT(std::filesystem::file_size(damaged), 1000u);
  EXPECT_FALSE(std::filesystem::exists(left));
}

// As of an operator who looks at a database through them.
TEST_P(UnreadWalsOfWritesTest, BehindASymbolicLinkIsLeftAsItWas) {
  ASSERT_NO_FATAL_FAILURE(WriteTwoWals(/*with_prepared=*/true));
  const std::string damaged = OldestWal();
  test::FlipBit(damaged, 1000);
  const std::string original = dir_ / "original";
  std::filesystem::rename(copy_, original);
  std::filesystem::create_directory(copy_);
  std::map<std::string, std::string> before;
  for (const auto& file : std::filesystem::directory_iterator(original)) {
    before[file.path()] = Contents(file.path());
    std::filesystem::create_symlink(file.path(), copy_ / file.path().filename());
  }
  ASSERT_NO_FATAL_FAILURE(ExpectThatWritesStay(/*has_before=*/true));
  EXPECT_FALSE(std::filesystem::is_symlink(damaged));
  for (const auto& [file, contents] : before) EXPECT_TRUE(Contents(file) == contents) << file;
}

// As an operator links a database before he opens it: the links stay as they were.
TEST_P(UnreadWalsOfWritesTest, OfAnotherLinkIsLeftAsItWas) {
  for (const bool is_of_known_size : {false, true}) {
    SCOPED_TRACE(is_of_known_size);
    options_.track_and_verify_wals_in_manifest = is_of_known_size;
    ASSERT_NO_FATAL_FAILURE(WriteTwoWals(/*with_prepared=*/true));
    const std::string damaged = OldestWal();
    test::FlipBit(damaged, 1000);
    const std::string unread = Contents(damaged);
    const std::string linked = dir_ / "linked";
    std::filesystem::copy(copy_, linked,
                          std::filesystem::copy_options::recursive | std::filesystem::copy_options::create_hard_links);
    const auto contents = [&] {
      std::map<std::string, std::string> wals;
      for (const auto& file : std::filesystem::directory_iterator(linked)) {
        if (IsWal(file.path())) wals[file.path()] = Contents(file.path());
      }
      return wals;
    };
    const auto before = contents();
    ASSERT_NO_FATAL_FAILURE(ExpectThatWritesStay(/*has_before=*/true));
    EXPECT_TRUE(contents() == before);
    EXPECT_FALSE(Contents(damaged) == unread);
    for (const char* const name : {"db", "copy", "linked"}) std::filesystem::remove_all(dir_ / name);
  }
}

}  // namespace
}  // namespace cairn
