// What cannot be read is said as RocksDB's tables say it, on each engine's: deadlines and timeouts reach every read, a
// failed read or a damaged block fails the lookups that want it and no other, and names the file.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

namespace cairn::test {
namespace {

using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;

constexpr uint64_t kKeys = 2000;
constexpr size_t kBatch = 20;

std::string KeyOf(uint64_t number) { return "key" + std::to_string(100000 + number * 7919 % 100003); }

// What happens to reads of tables, and what was seen of them.
struct Reads {
  std::atomic<bool> fail{false}, damage{false};
  std::atomic<uint64_t> count{0}, without_timeout{0};

  IOStatus Begin(const IOOptions& options) {
    ++count;
    if (options.timeout.count() == 0) ++without_timeout;
    return fail ? IOStatus::IOError("the disk is gone") : IOStatus::OK();
  }
  // A damaged copy in scratch.
  void End(Slice* result, char* scratch) const {
    if (!damage || result->empty()) return;
    if (result->data() != scratch) std::copy_n(result->data(), result->size(), scratch);
    scratch[result->size() / 2] ^= 1;
    *result = Slice(scratch, result->size());
  }
};

class WatchedFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  WatchedFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, Reads* reads)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), reads_(reads) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* context) const override {
    IOStatus s = reads_->Begin(options);
    if (s.ok()) s = target()->Read(offset, n, options, result, scratch, context);
    if (s.ok()) reads_->End(result, scratch);
    return s;
  }
  IOStatus MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* context) override {
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest& request = requests[i];
      request.status = Read(request.offset, request.len, options, &request.result, request.scratch, context);
    }
    return IOStatus::OK();
  }

 private:
  Reads* const reads_;
};

// No reads but those of WatchedFile: none that the file system does by itself.
class WatchedFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit WatchedFileSystem(Reads* reads) : FileSystemWrapper(rocksdb::FileSystem::Default()), reads_(reads) {}
  const char* Name() const override { return "Watched"; }
  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file, IODebugContext* context) override {
    const IOStatus s = target()->NewRandomAccessFile(name, options, file, context);
    if (s.ok()) *file = std::make_unique<WatchedFile>(std::move(*file), reads_);
    return s;
  }
  void SupportedOps(int64_t& operations) override { operations = 0; }

 private:
  Reads* const reads_;
};

class LookupErrorsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    env_ = rocksdb::NewCompositeEnv(std::make_shared<WatchedFileSystem>(&reads_));
    Open();
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kKeys; i += round == 0 ? 1 : 3) {
        ASSERT_OK(db_->Put(WriteOptions(), KeyOf(2 * i), std::string(80, static_cast<char>('a' + i % 20))));
      }
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
    Open();
    // Lookups that find no VersionFilter yet, and whatever is loaded when it is first asked for.
    // They leave no block in the cache.
    ReadOptions options;
    options.fill_cache = false;
    std::string value;
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(db_->Get(options, "absent" + std::to_string(i), &value).IsNotFound());
    reads_.count = reads_.without_timeout = 0;
  }

  // With a new block cache.
  void Open() {
    db_.reset();
    rocksdb::Options options = OptionsOf(*FindEngine(GetParam()));
    auto* table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    ASSERT_NE(nullptr, table);
    table->block_cache = rocksdb::NewLRUCache(64 << 20);
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1000;
    options.env = env_.get();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir_ / "db", port::Into(&db)));
    db_.reset(db);
  }

  // What Get, or MultiGet, say of all keys.
  std::vector<Status> GetAll(const ReadOptions& options, bool batched) {
    std::vector<Status> statuses(kKeys);
    std::vector<std::string> names;
    for (uint64_t i = 0; i < kKeys; ++i) names.push_back(KeyOf(2 * i));
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(kKeys);
    for (size_t i = 0; i < kKeys; i += batched ? kBatch : 1) {
      if (batched) {
        db_->MultiGet(options, db_->DefaultColumnFamily(), kBatch, &keys[i], &values[i], &statuses[i]);
      } else {
        statuses[i] = db_->Get(options, db_->DefaultColumnFamily(), keys[i], &values[i]);
      }
    }
    for (size_t i = 0; i < kKeys; ++i) {
      EXPECT_TRUE(!statuses[i].ok() || values[i].ToString() == std::string(80, static_cast<char>('a' + i % 20))) << i;
    }
    return statuses;
  }

  Reads reads_;
  // Every lookup says so as long as the fault lasts, and none afterwards.
  void ExpectFailuresWhile(std::atomic<bool>* fault, bool (Status::*kind)() const, const char* part) {
    ReadOptions options;
    options.fill_cache = false;
    for (const bool batched : {false, true}) {
      SCOPED_TRACE(batched);
      *fault = true;
      for (const Status& s : GetAll(options, batched)) ASSERT_TRUE(Says(s, kind, part));
      *fault = false;
      for (const Status& s : GetAll(options, batched)) ASSERT_OK(s);
    }
  }

  std::unique_ptr<rocksdb::Env> env_;
  TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_P(LookupErrorsTest, TimeoutsReachEveryRead) {
  for (const bool batched : {false, true}) {
    SCOPED_TRACE(batched);
    ReadOptions options;
    options.fill_cache = false;
    if (batched) {
      options.io_timeout = std::chrono::seconds(100);
    } else {
      options.deadline = std::chrono::microseconds(env_->NowMicros()) + std::chrono::seconds(1000);
    }
    for (const Status& s : GetAll(options, batched)) ASSERT_OK(s);
    EXPECT_GT(reads_.count.exchange(0), 10u);
    EXPECT_EQ(0u, reads_.without_timeout.exchange(0));
  }
}

TEST_P(LookupErrorsTest, WhatCannotBeReadInTimeSaysSo) {
  for (const bool batched : {false, true}) {
    SCOPED_TRACE(batched);
    ReadOptions options;
    options.deadline = std::chrono::microseconds(1);
    for (const Status& s : GetAll(options, batched)) ASSERT_TRUE(s.IsTimedOut()) << s.ToString();
    EXPECT_EQ(0u, reads_.count);
  }
}

TEST_P(LookupErrorsTest, AFailedReadFailsItsKeysOnly) {
  ExpectFailuresWhile(&reads_.fail, &Status::IsIOError, "the disk is gone");
  ReadOptions options;
  options.fill_cache = false;
  // Half of the keys' blocks are in the cache.
  std::string value;
  for (uint64_t i = 0; i < kKeys; i += 37) ASSERT_OK(db_->Get(ReadOptions(), KeyOf(2 * i), &value));
  reads_.fail = true;
  for (const bool batched : {false, true}) {
    SCOPED_TRACE(batched);
    const std::vector<Status> statuses = GetAll(options, batched);
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(statuses[i].ok() || (statuses[i].IsIOError() && i % 37 != 0)) << i << statuses[i].ToString();
    }
  }
}

TEST_P(LookupErrorsTest, ADamagedBlockIsNamed) { ExpectFailuresWhile(&reads_.damage, &Status::IsCorruption, ".sst"); }

INSTANTIATE_TEST_SUITE_P(Engines, LookupErrorsTest,
                         ::testing::Values("leveled", "leveled_ordered", "ordered", "ordered_cache", "trie_htable",
                                           "trie_zstd", "silt_pinned", "silt_cache", "silt_dropped", "trie_ect"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn::test
