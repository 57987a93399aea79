#include "table/ordered/bloom_lines.h"

#include <memory>
#include <string>
#include <utility>

#include "db/dbformat.h"
#include "gtest/gtest.h"
#include "options/cf_options.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/ordered/point_filter.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using rocksdb::BlockBasedTable;
using rocksdb::BlockBasedTableOptions;
using Random = std::mt19937_64;

class BloomLinesTest : public ::testing::Test {
 protected:
  // A table of keys 0, 3, 6, ...
  void Make(const BlockBasedTableOptions& table, int keys) {
    reader_.reset();
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    immutable_ = std::make_unique<rocksdb::ImmutableOptions>(options_);
    const std::string name = directory_.path() + "/table" + std::to_string(++tables_);
    rocksdb::SstFileWriter writer(environment_, options_);
    ASSERT_OK(writer.Open(name));
    for (int i = 0; i < keys; ++i) ASSERT_OK(writer.Put(Key(3 * i), "value"));
    rocksdb::ExternalSstFileInfo info;
    ASSERT_OK(writer.Finish(&info));
    std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
    ASSERT_OK(immutable_->fs->NewRandomAccessFile(name, rocksdb::FileOptions(), &opened, nullptr));
    auto reader = std::make_unique<rocksdb::RandomAccessFileReader>(std::move(opened), name);
    const rocksdb::TableReaderOptions read = port::OfFileAlone(*immutable_, no_prefixes_, environment_, comparator_);
    ASSERT_OK(options_.table_factory->NewTableReader(read, std::move(reader), info.file_size, &reader_));
  }

  static std::string Key(int n) {
    char text[16];
    snprintf(text, sizeof(text), "key%09d", n);
    return text;
  }

  const BlockBasedTable::Rep& rep() const { return *static_cast<BlockBasedTable*>(reader_.get())->get_rep(); }

  test::TempDir directory_;
  int tables_ = 0;
  rocksdb::Options options_;
  const rocksdb::EnvOptions environment_;
  const std::shared_ptr<const rocksdb::SliceTransform> no_prefixes_;
  const rocksdb::InternalKeyComparator comparator_{rocksdb::BytewiseComparator()};
  std::unique_ptr<rocksdb::ImmutableOptions> immutable_;
  std::unique_ptr<rocksdb::TableReader> reader_;
};

TEST_F(BloomLinesTest, SayWhatRocksDbsFilterSays) {
  Random random(Seed());
  for (const double bits : {1.0, 3.0, 8.5, 10.0, 14.0, 25.0, 60.0}) {
    for (const int keys : {1, 2, 60, 1000, 20000}) {
      BlockBasedTableOptions table;
      table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(bits));
      Make(table, keys);
      const BloomLines bloom(rep());
      ASSERT_TRUE(bloom.exist()) << bits << " " << keys;
      for (int i = 0; i < 5000; ++i) {
        const int n = static_cast<int>(random() % (static_cast<uint64_t>(keys) * 3));
        const rocksdb::InternalKey internal(Key(n), rocksdb::kMaxSequenceNumber, rocksdb::kValueTypeForSeek);
        const uint64_t hash = BloomLines::HashOf(Key(n));
        bloom.Prefetch(bloom.LineOf(hash));
        ASSERT_EQ(PointFilterMayHold(rep(), rocksdb::ReadOptions(), internal.Encode()),
                  bloom.MayHold(hash, bloom.LineOf(hash)))
            << bits << " " << keys << " " << n;
      }
    }
  }
}

TEST_F(BloomLinesTest, AreNoneOfOtherFilters) {
  const auto exist = [this](const BlockBasedTableOptions& table) {
    Make(table, 1000);
    return BloomLines(rep()).exist();
  };
  BlockBasedTableOptions bloom;
  bloom.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  ASSERT_TRUE(exist(bloom));
  BlockBasedTableOptions none;
  EXPECT_FALSE(exist(none));
  BlockBasedTableOptions ribbon;
  ribbon.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
  EXPECT_FALSE(exist(ribbon));
  BlockBasedTableOptions old = bloom;
  old.format_version = 4;
  EXPECT_FALSE(exist(old));
  BlockBasedTableOptions cached = bloom;
  cached.cache_index_and_filter_blocks = true;
  EXPECT_FALSE(exist(cached));
  BlockBasedTableOptions partitioned = bloom;
  partitioned.partition_filters = true;
  partitioned.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
  EXPECT_FALSE(exist(partitioned));
  BlockBasedTableOptions prefixes = bloom;
  prefixes.whole_key_filtering = false;
  EXPECT_FALSE(exist(prefixes));
}

}  // namespace
}  // namespace cairn
