// Databases where something is short: descriptors, memory for write buffers, room in a cache that refuses, iterators by
// the ten thousand. What is acknowledged stays, and a read is right or an error.

#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/table.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/faults/databases.h"
#include "test/stress/expected.h"
#include "test/support.h"

namespace cairn::stress {
namespace {

class LimitsTest : public ::testing::TestWithParam<const char*> {
 protected:
  Options MakeOptions() {
    Options options;
    Options leveled;
    EXPECT_OK(faults::FillOptions(GetParam(), &options, &leveled));
    options.max_manifest_file_size = 1 << 20;
    options.write_buffer_size = 32 << 10;
    return options;
  }

  std::unique_ptr<rocksdb::DB> Open(const Options& options, const std::string& name = "db") {
    rocksdb::DB* db = nullptr;
    const Status s = cairn::Open(options, dir_ / name, &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  // Writes the keys [from, to); those after the first error are not there.
  int Write(rocksdb::DB* db, int from, int to, Status* s) {
    for (int key = from; key < to; ++key) {
      *s = db->Put(rocksdb::WriteOptions(), KeyOf(key), ValueOf(key, 1));
      if (!s->ok()) return key;
    }
    return to;
  }

  // Each of the first `count` keys is right, or an error; returns how many were errors.
  int Check(rocksdb::DB* db, int count) {
    int errors = 0;
    for (int key = 0; key < count && !HasFatalFailure(); ++key) {
      std::string value;
      const Status s = db->Get(rocksdb::ReadOptions(), KeyOf(key), &value);
      EXPECT_FALSE(s.IsNotFound()) << KeyOf(key) << " is lost";
      EXPECT_FALSE(s.IsCorruption()) << s.ToString();
      if (s.ok()) {
        EXPECT_EQ(value, ValueOf(key, 1));
      }
      errors += s.ok() ? 0 : 1;
    }
    return errors;
  }

  test::TempDir dir_;
};

// As a shell with `ulimit -n 300` starts it.
TEST_P(LimitsTest, FewDescriptors) {
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 300;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  Options options = MakeOptions();
  options.max_open_files = 150;
  int count = 0;
  Status s;
  {
    const std::unique_ptr<rocksdb::DB> db = Open(options);
    ASSERT_NE(db, nullptr);
    count = Write(db.get(), 0, kKeys, &s);
    EXPECT_EQ(count, kKeys) << s.ToString();
    EXPECT_EQ(Check(db.get(), count), 0);
  }
  // With every table open there may be too few: then opening or reading says so, and nothing is lost.
  options.max_open_files = -1;
  rocksdb::DB* db = nullptr;
  s = cairn::Open(options, dir_ / "db", &db);
  if (s.ok()) Check(db, count);
  EXPECT_FALSE(s.IsCorruption()) << s.ToString();
  delete db;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const std::unique_ptr<rocksdb::DB> again = Open(options);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(Check(again.get(), count), 0);
}

// No descriptor left at all while it flushes and compacts.
TEST_P(LimitsTest, NoDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer opens a pipe to ask whether memory is there, and takes what it cannot ask for wrong";
#endif
  struct rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Options options = MakeOptions();
  int count = 0;
  {
    const std::unique_ptr<rocksdb::DB> db = Open(options);
    ASSERT_NE(db, nullptr);
    Status s;
    count = Write(db.get(), 0, kKeys / 2, &s);
    EXPECT_OK(s);
    struct rlimit none = before;
    none.rlim_cur = 3;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    count = Write(db.get(), count, kKeys, &s);
    Check(db.get(), count);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  const std::unique_ptr<rocksdb::DB> db = Open(options);
  ASSERT_NE(db, nullptr);
  EXPECT_EQ(Check(db.get(), count), 0);
  Status s;
  EXPECT_EQ(Write(db.get(), count, kKeys, &s), kKeys) << s.ToString();
  EXPECT_EQ(Check(db.get(), kKeys), 0);
}

// All memory for writes is a few hundred KiB, counted in a cache of little more that refuses what does not fit.
TEST_P(LimitsTest, LittleMemory) {
  Options options = MakeOptions();
  rocksdb::LRUCacheOptions cache_options;
  cache_options.capacity = 1 << 20;
  cache_options.strict_capacity_limit = true;
  const std::shared_ptr<rocksdb::Cache> cache = cache_options.MakeSharedCache();
  options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(256 << 10, cache);
  const std::unique_ptr<rocksdb::DB> db = Open(options);
  ASSERT_NE(db, nullptr);
  Status s;
  const int count = Write(db.get(), 0, kKeys, &s);
  EXPECT_EQ(count, kKeys) << s.ToString();
  EXPECT_EQ(Check(db.get(), count), 0);
}

// Databases that share a WriteBufferManager wait for one another when it is full, and go on. (Memory that an idle one
// holds is freed by nobody, in RocksDB as here: write buffers are small beside the limit.)
TEST_P(LimitsTest, SharedMemoryThatStalls) {
  constexpr int kDatabases = 6;
  constexpr size_t kLimit = 8 << 20;
  const auto manager = std::make_shared<rocksdb::WriteBufferManager>(kLimit, nullptr, /*allow_stall=*/true);
  std::vector<std::unique_ptr<rocksdb::DB>> databases;
  for (int i = 0; i < kDatabases; ++i) {
    Options options = MakeOptions();
    options.write_buffer_size = 256 << 10;
    options.write_buffer_manager = manager;
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(options, dir_ / ("db" + std::to_string(i)), &db));
    databases.emplace_back(db);
  }
  std::vector<Status> statuses(kDatabases);
  std::vector<std::thread> threads;
  for (int i = 0; i < kDatabases; ++i) {
    threads.emplace_back([&, i] {
      const std::string value(1000, 'x');
      for (int key = 0; key < 1000 && statuses[i].ok(); ++key) {
        statuses[i] = databases[i]->Put(rocksdb::WriteOptions(), KeyOf(key), value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& s : statuses) EXPECT_OK(s);
  databases.clear();
  EXPECT_EQ(manager->memory_usage(), 0u);
}

// What an idle database holds is not the limit, so another one writes.
TEST_P(LimitsTest, AnIdleDatabaseHoldsNobodyUp) {
  constexpr size_t kLimit = 4 << 20;
  const auto manager = std::make_shared<rocksdb::WriteBufferManager>(kLimit, nullptr, /*allow_stall=*/true);
  std::vector<std::unique_ptr<rocksdb::DB>> databases;
  for (const char* name : {"idle", "writes"}) {
    Options options = MakeOptions();
    options.write_buffer_size = kLimit;
    options.arena_block_size = 64 << 10;
    options.write_buffer_manager = manager;
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(options, dir_ / name, &db));
    databases.emplace_back(db);
  }
  rocksdb::WriteOptions no_waiting;
  no_waiting.no_slowdown = true;
  const std::string value(1000, 'x');
  for (int key = 0; manager->mutable_memtable_memory_usage() < kLimit / 4 * 3; ++key) {
    ASSERT_OK(databases[0]->Put(no_waiting, KeyOf(key), value));
  }
  ASSERT_LT(manager->mutable_memtable_memory_usage(), kLimit / 8 * 7);
  for (int key = 0; key < 100; ++key) {
    ASSERT_OK(databases[1]->Put(no_waiting, KeyOf(key), value));
  }
}

// A block cache that has hardly room for one block, and one with room for none, and both say no.
TEST_P(LimitsTest, ACacheThatRefuses) {
  for (const size_t capacity : {20 << 10, 1 << 10}) {
    const std::string name = "db" + std::to_string(capacity);
    Options options = MakeOptions();
    rocksdb::LRUCacheOptions cache_options;
    cache_options.capacity = capacity;
    cache_options.num_shard_bits = 0;
    cache_options.strict_capacity_limit = true;
    const std::shared_ptr<rocksdb::Cache> cache = cache_options.MakeSharedCache();
    auto* const table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    ASSERT_NE(table, nullptr) << "this test is of tables with a block cache";
    table->block_cache = cache;
    table->cache_index_and_filter_blocks = true;
    int count = 0;
    {
      const std::unique_ptr<rocksdb::DB> db = Open(options, name);
      ASSERT_NE(db, nullptr);
      Status s;
      count = Write(db.get(), 0, kKeys, &s);
      const int errors = Check(db.get(), count);
      printf("%s, %zu bytes: %d keys were taken, %d of their reads refused, %zu bytes are cached; %s\n", GetParam(),
             capacity, count, errors, cache->GetUsage(), s.ToString().c_str());
      EXPECT_LE(cache->GetUsage(), capacity);
    }
    const std::unique_ptr<rocksdb::DB> db = Open(MakeOptions(), name);
    ASSERT_NE(db, nullptr);
    EXPECT_EQ(Check(db.get(), count), 0);
    Status s;
    EXPECT_EQ(Write(db.get(), count, kKeys, &s), kKeys) << s.ToString();
    EXPECT_EQ(Check(db.get(), kKeys), 0);
  }
}

TEST_P(LimitsTest, TenThousandIterators) {
  const std::unique_ptr<rocksdb::DB> db = Open(MakeOptions());
  ASSERT_NE(db, nullptr);
  Status s;
  ASSERT_EQ(Write(db.get(), 0, kKeys, &s), kKeys) << s.ToString();
  std::vector<std::unique_ptr<rocksdb::Iterator>> iterators;
  for (int i = 0; i < 10000; ++i) {
    iterators.emplace_back(db->NewIterator(rocksdb::ReadOptions()));
    iterators.back()->Seek(KeyOf(i % kKeys));
    ASSERT_TRUE(iterators.back()->Valid()) << i << ": " << iterators.back()->status().ToString();
  }
  // What they stand on goes away below them.
  for (int key = 0; key < kKeys; ++key) {
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), KeyOf(key), ValueOf(key, 2)));
  }
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(test::CompactAll(db.get(), db->DefaultColumnFamily(), faults::IsTrieEngine(GetParam())));
  for (int i = 0; i < 10000; ++i) {
    ASSERT_TRUE(iterators[i]->Valid());
    ASSERT_EQ(iterators[i]->key().ToString(), KeyOf(i % kKeys));
    ASSERT_EQ(iterators[i]->value().ToString(), ValueOf(i % kKeys, 1));
    if (i % 100 == 0) iterators[i]->Next();
    ASSERT_OK(iterators[i]->status());
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, LimitsTest,
                         ::testing::Values("leveled", "leveled_sub", "durable", "durable_trie", "trie_htable",
                                           "trie_ect", "silt_pinned", "ordered", "ordered_trie"));

}  // namespace
}  // namespace cairn::stress
