// A database that another process writes: read-only openings and secondaries while tables come and go. Here the writer
// is another object of this process, so that what it does in between is known.

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"
#include "test/testutil/await.h"

namespace cairn::test {
namespace {

bool IsTable(const std::string& file) { return file.size() > 4 && file.substr(file.size() - 4) == ".sst"; }

// Calls a function before each table that it opens.
class TellingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit TellingFileSystem(std::function<void()> tell)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), tell_(std::move(tell)) {}
  const char* Name() const override { return "TellingFileSystem"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* dbg) override {
    if (IsTable(name)) tell_();
    return target()->NewRandomAccessFile(name, options, file, dbg);
  }

 private:
  const std::function<void()> tell_;
};

class SecondProcessTest : public ::testing::TestWithParam<Engine> {
 protected:
  SecondProcessTest() : options_(OptionsOf(GetParam())), path_(dir_ / "db") {
    options_.max_open_files = -1;
    EXPECT_OK(DB::Open(options_, path_, port::Into(&db_)));
  }

  void Write(const std::string& value) {
    for (int i = 0; i < 100; ++i) {
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), value + std::to_string(i)));
    }
  }
  // All that was written is in new tables, and the old ones are deleted.
  void Settle() {
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  }
  static void ExpectAll(DB* db, const std::string& value) {
    std::map<std::string, std::string> expected, found;
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) found[it->key().ToString()] = it->value().ToString();
    EXPECT_OK(it->status());
    for (int i = 0; i < 100; ++i) {
      const std::string key = "key" + std::to_string(i);
      std::string got;
      expected[key] = value + std::to_string(i);
      ASSERT_OK(db->Get(rocksdb::ReadOptions(), key, &got));
      ASSERT_EQ(got, expected[key]);
    }
    EXPECT_EQ(found, expected);
  }

  const TempDir dir_;
  Options options_;
  const std::string path_;
  std::unique_ptr<DB> db_;
};

// The memtable of the secondary holds the values before the last ones, which are in tables alone when it hears of them,
// without sequence numbers.
TEST_P(SecondProcessTest, ASecondaryForgetsWhatTablesHave) {
  Write("first");
  DB* opened = nullptr;
  ASSERT_OK(DB::OpenAsSecondary(options_, path_, dir_ / "secondary", port::Into(&opened)));
  const std::unique_ptr<DB> secondary(opened);
  ExpectAll(secondary.get(), "first");
  for (const char* value : {"second", "third"}) {
    Write(value);
    Settle();
    ASSERT_OK(secondary->TryCatchUpWithPrimary());
    ExpectAll(secondary.get(), value);
    Write(std::string("after the ") + value);
    ASSERT_OK(secondary->TryCatchUpWithPrimary());
    ExpectAll(secondary.get(), std::string("after the ") + value);
  }
}

// While the primary writes, flushes and compacts without pause: what was written before it catches up is there after.
TEST_P(SecondProcessTest, ASecondaryIsNeverBehind) {
  const uint64_t kWritten = NumberFromEnvironment("CAIRN_ROUNDS", 60);
  Write("0");
  ASSERT_NO_FATAL_FAILURE(Settle());
  DB* opened = nullptr;
  ASSERT_OK(DB::OpenAsSecondary(options_, path_, dir_ / "secondary", port::Into(&opened)));
  const std::unique_ptr<DB> secondary(opened);
  std::atomic<uint64_t> written{0};
  std::thread writer([&] {
    for (uint64_t round = 1; round <= kWritten; ++round) {
      for (int i = 0; i < 100; ++i) {
        EXPECT_OK(db_->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), std::to_string(round)));
      }
      written = round;
      if (round % 3 == 0) EXPECT_OK(db_->Flush(rocksdb::FlushOptions()));
      if (round % 9 == 0) EXPECT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
    }
  });
  uint64_t reads = 0, stale_gets = 0, stale_rows = 0;
  for (uint64_t before = 0; before < kWritten;) {
    before = written;
    EXPECT_OK(secondary->TryCatchUpWithPrimary());
    const std::unique_ptr<rocksdb::Iterator> it(secondary->NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      std::string value;
      EXPECT_OK(secondary->Get(rocksdb::ReadOptions(), it->key(), &value));
      stale_gets += std::stoull(value) < before ? 1 : 0;
      stale_rows += std::stoull(it->value().ToString()) < before ? 1 : 0;
      ++reads;
    }
    EXPECT_OK(it->status());
  }
  writer.join();
  EXPECT_EQ(stale_gets, 0u) << "of " << reads;
  EXPECT_EQ(stale_rows, 0u) << "of " << reads;
  EXPECT_GE(reads, 100u);
}

TEST_P(SecondProcessTest, AReadOnlyOpeningGoesAfterTheManifest) {
  Write("first");
  Settle();
  int changes = 0;
  const auto file_system = std::make_shared<TellingFileSystem>([&] {
    if (changes-- <= 0) return;
    Write("value");
    Settle();
  });
  const std::unique_ptr<rocksdb::Env> env(rocksdb::NewCompositeEnv(file_system));
  Options reading = options_;
  reading.env = env.get();
  changes = 3;
  DB* opened = nullptr;
  ASSERT_OK(DB::OpenForReadOnly(reading, path_, port::Into(&opened)));
  const std::unique_ptr<DB> reader(opened);
  EXPECT_LE(changes, 0);
  ExpectAll(reader.get(), "value");
  // Where it never gets on it does not say that the database is corrupt; of a file that is lost it does.
  changes = 1000000;
  Status s = DB::OpenForReadOnly(reading, path_, port::Into(&opened));
  EXPECT_TRUE(s.ok() || s.IsTryAgain()) << s.ToString();
  if (s.ok()) delete opened;
  changes = 0;
  std::vector<rocksdb::LiveFileMetaData> tables;
  db_->GetLiveFilesMetaData(&tables);
  ASSERT_FALSE(tables.empty());
  db_.reset();
  ASSERT_OK(rocksdb::Env::Default()->DeleteFile(path_ + tables[0].name));
  s = DB::OpenForReadOnly(reading, path_, port::Into(&opened));
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
}

// Those whose column families name a part of Cairn; docs/rocksdb_faults.md has what the others do.
std::vector<Engine> EnginesWithParts() {
  std::vector<Engine> engines;
  for (const char* const name :
       {"leveled_sub", "ordered", "leveled_ordered", "ordered_trie", "trie_tight", "trie_ect", "silt_pinned"}) {
    engines.push_back(*FindEngine(name));
  }
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, SecondProcessTest, ::testing::ValuesIn(EnginesWithParts()), EngineName);

}  // namespace
}  // namespace cairn::test
