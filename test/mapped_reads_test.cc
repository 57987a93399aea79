// Reads of tables that the file system maps (docs/design/mapped_tables.md): where they lie, verified before their first
// use, and never past the life of the mapping.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "file/random_access_file_reader.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "table/mapped_table.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

namespace cairn {
namespace test {
namespace {

class MappedReadsTest : public ::testing::TestWithParam<Engine> {
 protected:
  static constexpr uint64_t kKeys = 3000;
  static std::string Key(uint64_t i) { return "key" + std::to_string(1000000 + i); }

  MappedReadsTest() : options_(BaseOptions()) {
    EXPECT_OK(GetParam().fill(&options_));
    options_.compression = options_.bottommost_compression = rocksdb::kNoCompression;
    options_.allow_mmap_reads = true;
    options_.disable_auto_compactions = true;
  }

  void Open() {
    db_.reset();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db)));
    db_.reset(db);
  }
  void Fill() {
    Open();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put({}, Key(i), ValueOf(i)));
    ASSERT_OK(db_->Flush({}));
    // RocksDB checks a new table, and may have read all of it.
    Open();
  }
  static std::string ValueOf(uint64_t i) { return std::string(100, static_cast<char>('a' + i % 26)) + Key(i); }

  // Changes all places of the tables where the value lies; returns how many.
  size_t Damage(const std::string& value) const {
    size_t places = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "db")) {
      if (entry.path().extension() != ".sst") continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      for (size_t at = bytes.find(value); at != std::string::npos; at = bytes.find(value, at + 1), ++places) {
        file.seekp(static_cast<std::streamoff>(at));
        file.put('!');
      }
    }
    return places;
  }

  TempDir dir_;
  Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

INSTANTIATE_TEST_SUITE_P(Engines, MappedReadsTest, ::testing::ValuesIn(Engines()), EngineName);

TEST_P(MappedReadsTest, DamageIsFoundBeforeTheFirstUse) {
  Fill();
  ASSERT_LT(0u, Damage(ValueOf(7)));
  std::string value;
  EXPECT_TRUE(Says(db_->Get({}, Key(7), &value), &Status::IsCorruption, ".sst"));
  // And again.
  EXPECT_TRUE(db_->Get({}, Key(7), &value).IsCorruption());
}

TEST_P(MappedReadsTest, DamageBehindTheFirstUseIsFoundByWhatReadsPastTheCaches) {
  Fill();
  std::string value;
  ASSERT_OK(db_->Get({}, Key(7), &value));
  ASSERT_LT(0u, Damage(ValueOf(7)));
  ReadOptions past_cache;
  past_cache.fill_cache = false;
  EXPECT_TRUE(db_->Get(past_cache, Key(7), &value).IsCorruption());
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(past_cache));
  for (it->SeekToFirst(); it->Valid(); it->Next()) continue;
  EXPECT_TRUE(it->status().IsCorruption()) << it->status().ToString();
  EXPECT_TRUE(db_->VerifyChecksum().IsCorruption());
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  EXPECT_TRUE(db_->CompactRange(all, nullptr, nullptr).IsCorruption());
}

TEST_P(MappedReadsTest, ReadsOfTheCacheOnlyReadNoFile) {
  Fill();
  ReadOptions cache_only;
  cache_only.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  EXPECT_TRUE(db_->Get(cache_only, Key(7), &value).IsIncomplete());
  ASSERT_OK(db_->Get({}, Key(7), &value));
  EXPECT_TRUE(db_->Get(cache_only, Key(7), &value).IsIncomplete());
}

// A value that is held must not be where a mapping was.
TEST_P(MappedReadsTest, AHeldValueOutlivesItsTable) {
  options_.max_open_files = 20;
  Fill();
  std::vector<PinnableSlice> held(100);
  for (uint64_t i = 0; i < held.size(); ++i) {
    ASSERT_OK(db_->Get({}, db_->DefaultColumnFamily(), Key(i), &held[i]));
  }
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_OK(db_->CompactRange(all, nullptr, nullptr));
  const std::vector<std::string> noise(16, std::string(1 << 20, 'x'));
  for (uint64_t i = 0; i < held.size(); ++i) EXPECT_EQ(ValueOf(i), held[i].ToString());
}

TEST(MappedTableTest, BlocksOfOneGranuleAreNotTakenForEachOther) {
  const TempDir dir;
  const std::string path = dir / "file";
  std::ofstream(path, std::ios::binary) << std::string(10000, 'x') + "end";
  rocksdb::FileOptions options;
  const auto reader_of = [&] {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    EXPECT_TRUE(rocksdb::FileSystem::Default()->NewRandomAccessFile(path, options, &file, nullptr).ok());
    return std::make_unique<rocksdb::RandomAccessFileReader>(std::move(file), path);
  };
  rocksdb::TableProperties properties;
  properties.compression_name = "NoCompression";
  std::unique_ptr<const MappedTable> mapped;
  EXPECT_OK(MappedTable::Find(*reader_of(), 10003, properties, 4096, &mapped));
  EXPECT_EQ(nullptr, mapped);
  options.use_mmap_reads = true;
  const auto reader = reader_of();
  properties.compression_name = "LZ4";
  EXPECT_OK(MappedTable::Find(*reader, 10003, properties, 4096, &mapped));
  EXPECT_EQ(nullptr, mapped);
  properties.compression_name = "NoCompression";
  EXPECT_OK(MappedTable::Find(*reader, 10003, properties, 4096, &mapped));
  ASSERT_NE(nullptr, mapped);
  EXPECT_EQ("end", std::string(mapped->At(10000), 3));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{4095}, uint64_t{4096}, uint64_t{10002}}) {
    EXPECT_FALSE(mapped->IsVerified(offset));
    mapped->SetVerified(offset);
    EXPECT_TRUE(mapped->IsVerified(offset));
    EXPECT_FALSE(mapped->IsVerified(offset ^ 1));
  }
  EXPECT_FALSE(mapped->IsVerified(0));  // displaced by 4095
  EXPECT_TRUE(mapped->IsVerified(4096));
}

}  // namespace
}  // namespace test
}  // namespace cairn
