// A program's own thread-local objects may be the last of their thread that use a database: what the library keeps for a thread has to
// last as long (util/of_thread.h). The address sanitizer sees what this test may not.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/result_cache.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"

namespace cairn {
namespace test {
namespace {

constexpr int kKeys = 3000;

std::string KeyOf(int i) { return "key" + std::to_string(i); }
std::string ValueOf(int i) { return std::string(100, static_cast<char>('a' + i % 26)) + std::to_string(i); }

// Reads, by each of the ways, and writes.
void Use(rocksdb::DB* db, Random* random) {
  std::string value;
  for (int i = 0; i < 500; ++i) {
    const int key = static_cast<int>(random->Uniform(kKeys));
    ASSERT_OK(db->Get(rocksdb::ReadOptions(), KeyOf(key), &value));
    ASSERT_EQ(value, ValueOf(key));
    if (i % 10 == 0) ASSERT_OK(db->Put(rocksdb::WriteOptions(), KeyOf(key), ValueOf(key)));
  }
  std::vector<std::string> keys;
  for (int i = 0; i < 30; ++i) keys.push_back(KeyOf(i * 7));
  std::vector<std::string> values;
  rocksdb::ReadOptions of_table;
  of_table.fill_cache = false;
  for (const auto& read_options : {rocksdb::ReadOptions(), of_table}) {
    db->MultiGet(read_options, std::vector<rocksdb::Slice>(keys.begin(), keys.end()), &values);
    for (int i = 0; i < 30; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], ValueOf(i * 7));
  }
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  it->Seek(KeyOf(7));
  for (int i = 0; i < 20 && it->Valid(); ++i) it->Next();
  ASSERT_OK(it->status());
}

// As the connection of an application's thread.
class Connection {
 public:
  Connection(rocksdb::DB* db, uint64_t seed) : db_(db), random_(seed) {}
  ~Connection() { Work(); }
  void Work() { Use(db_, &random_); }

 private:
  rocksdb::DB* const db_;
  Random random_;
};

class ThreadEndTest : public ::testing::TestWithParam<Engine> {};
INSTANTIATE_TEST_SUITE_P(All, ThreadEndTest, ::testing::ValuesIn(Engines()), EngineName);

TEST_P(ThreadEndTest, ThreadLocalObjectsUseTheDatabaseAtTheirEnd) {
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  for (const auto compression : {ResultCacheOptions::Compression::kNone, ResultCacheOptions::Compression::kLz4,
                                 ResultCacheOptions::Compression::kZstd}) {
    const TempDir dir;
    rocksdb::Options options = OptionsOf(GetParam());
    DatabaseCacheOptions cache;
    cache.capacity = 300 << 10;
    cache.compression = compression;
    cache.admit_one_fill_in = 1;
    cache.adaptive = false;
    cache.huge_pages = false;
    options.listeners.push_back(NewResultCache(cache));
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(db->Put(rocksdb::WriteOptions(), KeyOf(i), ValueOf(i)));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    for (int i = 0; i < 4; ++i) {
      std::thread([&] {
        // Made before anything that the library makes for the thread, it ends after that.
        static thread_local std::unique_ptr<Connection> connection;
        connection = std::make_unique<Connection>(db.get(), seed + static_cast<uint64_t>(i));
        if (i % 2 == 0) connection->Work();
      }).join();
    }
  }
}

}  // namespace
}  // namespace test
}  // namespace cairn
