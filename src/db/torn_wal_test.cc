#include "src/db/torn_wal.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/log_reader.h"
#include "db/log_writer.h"
#include "file/sequence_file_reader.h"
#include "file/writable_file_writer.h"
#include "gtest/gtest.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "src/db/error_recovery_fixture.h"
#include "src/port/log_reporter.h"
#include "src/testutil/test_seed.h"
#include "test/support.h"

namespace cairn {
namespace {

using rocksdb::Status;
using rocksdb::WALRecoveryMode;
using test::Random;

constexpr uint64_t kNumber = 7;
constexpr uint64_t kBlock = rocksdb::log::kBlockSize;

// Counts the files that it opens to write into, which some file systems cannot.
class CountingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "CountingFileSystem"; }
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* context) override {
    ++opened;
    if (cannot) return rocksdb::IOStatus::NotSupported();
    return FileSystemWrapper::NewRandomRWFile(path, options, file, context);
  }
  int opened = 0;
  bool cannot = false;
};

class TornWalTest : public ::testing::Test {
 protected:
  // An entry may be cut off anywhere. Where each ends.
  std::vector<uint64_t> Write(const std::vector<size_t>& sizes, bool recycles = false) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_OK(Status(fs_.NewWritableFile(path_, rocksdb::FileOptions(), &file, nullptr)));
    auto writer = std::make_unique<rocksdb::WritableFileWriter>(std::move(file), path_, rocksdb::FileOptions());
    rocksdb::log::Writer log(std::move(writer), kNumber, recycles);
    std::vector<uint64_t> ends;
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_OK(Status(log.AddRecord(rocksdb::WriteOptions(), Entry(i, sizes[i]))));
      ends.push_back(log.file()->GetFileSize());
    }
    EXPECT_OK(Status(log.Close(rocksdb::WriteOptions())));
    return ends;
  }
  static std::string Entry(size_t i, size_t size) { return std::string(size, static_cast<char>('a' + i % 26)); }

  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void SetBytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  Status Erase() { return EraseTornEntry(&fs_, path_, kNumber, nullptr); }

  // The sizes of the entries that there are. OK only if nothing else is there.
  Status Read(WALRecoveryMode mode, std::vector<size_t>* sizes) {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    EXPECT_OK(Status(fs_.NewSequentialFile(path_, rocksdb::FileOptions(), &file, nullptr)));
    port::FirstFault fault;
    rocksdb::log::Reader reader(nullptr, std::make_unique<rocksdb::SequentialFileReader>(std::move(file), path_),
                                &fault,
                                /*checksum=*/true, kNumber);
    std::string scratch;
    rocksdb::Slice entry;
    while (reader.ReadRecord(&entry, &scratch, mode)) {
      EXPECT_EQ(entry.ToString(), Entry(sizes->size(), entry.size()));
      sizes->push_back(entry.size());
    }
    return fault.status;
  }
  void ExpectEntries(const std::vector<size_t>& sizes) {
    for (const WALRecoveryMode mode :
         {WALRecoveryMode::kAbsoluteConsistency, WALRecoveryMode::kPointInTimeRecovery,
          WALRecoveryMode::kTolerateCorruptedTailRecords, WALRecoveryMode::kSkipAnyCorruptedRecords}) {
      SCOPED_TRACE("mode " + std::to_string(static_cast<int>(mode)));
      std::vector<size_t> read;
      ASSERT_OK(Read(mode, &read));
      ASSERT_EQ(read, sizes);
    }
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "000007.log";
  CountingFileSystem fs_{rocksdb::FileSystem::Default()};
};

TEST_F(TornWalTest, AWholeOneStaysAsItIs) {
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{{}, {0}, {10, 100000, 3}}) {
    Write(sizes);
    const std::string bytes = Bytes();
    EXPECT_OK(Erase());
    EXPECT_EQ(fs_.opened, 0);
    EXPECT_EQ(Bytes(), bytes);
  }
}

// Also near the end of a block, where a header does not fit, or nothing behind it does.
TEST_F(TornWalTest, CutOffAnywhere) {
  Random random(Seed());
  for (const size_t last : {size_t{1}, size_t{40}, size_t{3 * kBlock}}) {
    for (size_t left = 0; left < 40; left += left < 16 ? 1 : 8) {
      const std::vector<size_t> whole = {10, kBlock - left - 2 * rocksdb::log::kHeaderSize - 10};
      std::vector<size_t> sizes = whole;
      sizes.push_back(last);
      const std::vector<uint64_t> ends = Write(sizes);
      const std::string bytes = Bytes();
      for (uint64_t cut = ends[1]; cut < ends[2]; cut += last < 100 ? 1 : 1 + random.Uniform(9000)) {
        SCOPED_TRACE("cut " + std::to_string(cut - ends[1]) + " behind an entry that ends " + std::to_string(left) +
                     " before a block");
        SetBytes(bytes.substr(0, cut));
        ASSERT_OK(Erase());
        ASSERT_EQ(Bytes().substr(0, ends[1]), bytes.substr(0, ends[1]));
        ASSERT_NO_FATAL_FAILURE(ExpectEntries(whole));
        ASSERT_OK(Erase());
        ASSERT_NO_FATAL_FAILURE(ExpectEntries(whole));
      }
    }
  }
}

// The bytes behind it are not written at all, or are those of a file that was there before.
TEST_F(TornWalTest, BytesOfItsEndAreOthers) {
  Random random(Seed());
  for (const bool recycles : {false, true}) {
    const std::vector<uint64_t> ends = Write({10, 3000, 50000, 70000}, recycles);
    const std::string bytes = Bytes();
    for (int i = 0; i < 100; ++i) {
      const uint64_t from = ends[2] + random.Uniform(ends[3] - ends[2]);
      std::string torn = bytes.substr(0, from);
      for (uint64_t at = from; at < bytes.size(); ++at) torn.push_back(static_cast<char>(~bytes[at]));
      SetBytes(torn);
      ASSERT_OK(Erase());
      ASSERT_EQ(Bytes().size(), bytes.size());
      ASSERT_NO_FATAL_FAILURE(ExpectEntries({10, 3000, 50000}));
    }
  }
}

// What is damaged before the last whole entry is for others to tell.
TEST_F(TornWalTest, DamageInTheMiddleStays) {
  const std::vector<uint64_t> ends = Write({1000, 1000, kBlock, 1000});
  std::string bytes = Bytes();
  bytes[ends[0] + 100] ^= 1;
  SetBytes(bytes);
  ASSERT_OK(Erase());
  EXPECT_EQ(Bytes(), bytes);
}

TEST_F(TornWalTest, WhatItCannotDo) {
  EXPECT_OK(Erase());  // there is no such file
  const std::vector<uint64_t> ends = Write({1000, 1000});
  const std::string bytes = Bytes().substr(0, ends[1] - 1);
  SetBytes(bytes);
  fs_.cannot = true;
  EXPECT_OK(Erase());
  EXPECT_EQ(Bytes(), bytes);
}

// A WAL that a full disk has torn, which a prepared transaction keeps.
class TornWalDbTest : public ErrorRecoveryTest {
 protected:
  // With a key in a table, so that a table can be ahead of a WAL.
  std::unique_ptr<rocksdb::TransactionDB> OpenTransactions() {
    rocksdb::TransactionDB* opened = nullptr;
    const Status s = rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), dir_ / "db", &opened);
    EXPECT_OK(s);
    std::unique_ptr<rocksdb::TransactionDB> db(opened);
    if (!s.ok()) return db;
    EXPECT_OK(Put(db.get()));
    EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
    return db;
  }
  void TearTheWal(rocksdb::DB* db) {
    EXPECT_OK(Put(db));
    disk_->torn = test::kWal;
    EXPECT_TRUE(db->Put(rocksdb::WriteOptions(), "torn", std::string(1000, 'v')).IsNoSpace());
    disk_->torn = 0;
  }
  void PrepareThenTearTheWal(rocksdb::TransactionDB* db) {
    const std::unique_ptr<rocksdb::Transaction> transaction(db->BeginTransaction(rocksdb::WriteOptions()));
    EXPECT_OK(transaction->SetName("prepared"));
    EXPECT_OK(transaction->Put("key of the transaction", "value"));
    EXPECT_OK(transaction->Prepare());
    TearTheWal(db);
    EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  }
  static void ExpectTheTransaction(rocksdb::TransactionDB* db) {
    ASSERT_NE(db, nullptr);
    const std::unique_ptr<rocksdb::Transaction> transaction(db->GetTransactionByName("prepared"));
    ASSERT_NE(transaction, nullptr);
    EXPECT_OK(transaction->Commit());
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key of the transaction", &value));
    EXPECT_TRUE(db->Get(rocksdb::ReadOptions(), "torn", &value).IsNotFound());
  }
};

TEST_F(TornWalDbTest, NothingIsWrittenAfterTheRecovery) {
  PrepareThenTearTheWal(OpenTransactions().get());
  ExpectTheTransaction(OpenTransactions().get());
}

// A write that fails takes its sequence numbers with it, and the next WAL does not go on where this one ends.
TEST_F(TornWalDbTest, WithTwoWriteQueues) {
  options_.two_write_queues = true;
  {
    const auto db = OpenTransactions();
    PrepareThenTearTheWal(db.get());
    EXPECT_OK(Put(db.get()));
  }
  ExpectTheTransaction(OpenTransactions().get());
}

TEST_F(TornWalDbTest, WithAbsoluteConsistency) {
  options_.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  {
    const auto db = OpenTransactions();
    PrepareThenTearTheWal(db.get());
    EXPECT_OK(Put(db.get()));
  }
  ExpectTheTransaction(OpenTransactions().get());
}

// A recovery flushes one column family after the other. What they were between two of them:
TEST_F(TornWalDbTest, TheProcessDiesDuringTheRecovery) {
  const std::string copy = dir_ / "copy";
  const auto db = Open(options_);
  rocksdb::ColumnFamilyHandle* created = nullptr;
  ASSERT_OK(db->CreateColumnFamily(options_, "other", &created));
  const std::unique_ptr<rocksdb::ColumnFamilyHandle> other(created);
  EXPECT_OK(Put(db.get()));
  EXPECT_OK(db->Put(rocksdb::WriteOptions(), other.get(), "key", "value"));
  listener_->at_table = [&](const std::string& family) {
    if (family == "other") std::filesystem::copy(dir_ / "db", copy, std::filesystem::copy_options::recursive);
  };
  TearTheWal(db.get());
  EXPECT_TRUE(Await([&] { return listener_->recovered > 0; }));
  ASSERT_TRUE(std::filesystem::exists(copy));
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  rocksdb::Options options = test::BaseOptions();
  ASSERT_OK(
      rocksdb::DB::Open(options, copy, {{"default", options}, {"other", options}}, &handles, port::Into(&opened)));
  const std::unique_ptr<rocksdb::DB> copied(opened);
  std::string value;
  EXPECT_OK(copied->Get(rocksdb::ReadOptions(), handles[1], "key", &value));
  for (rocksdb::ColumnFamilyHandle* const handle : handles) EXPECT_OK(copied->DestroyColumnFamilyHandle(handle));
}

}  // namespace
}  // namespace cairn
