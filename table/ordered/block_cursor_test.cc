#include "table/ordered/block_cursor.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/dbformat.h"
#include "file/writable_file_writer.h"
#include "gtest/gtest.h"
#include "options/cf_options.h"
#include "rocksdb/cache.h"
#include "rocksdb/comparator.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/table_builder.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using rocksdb::BlockBasedTableOptions;
using rocksdb::InternalIterator;
using Random = std::mt19937_64;
using Result = BlockCursor::Result;

struct Variant {
  const char* name;
  std::function<void(BlockBasedTableOptions*, rocksdb::Options*)> change;
  bool raw_index;  // the source's index serves
};

const std::vector<Variant>& Variants() {
  static const std::vector<Variant> variants = {
      {"plain", [](BlockBasedTableOptions*, rocksdb::Options*) {}, true},
      {"tiny_blocks", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->block_size = 1; }, true},
      {"one_block", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->block_size = 1 << 20; }, true},
      {"restarts", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->block_restart_interval = 1; }, true},
      {"whole_keys", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->use_delta_encoding = false; }, true},
      {"version2", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->format_version = 2; }, true},
      {"hash",
       [](BlockBasedTableOptions* t, rocksdb::Options*) {
         t->data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
       },
       true},
      {"compressed", [](BlockBasedTableOptions*, rocksdb::Options* o) { o->compression = rocksdb::kZSTD; }, true},
      {"long_index",
       [](BlockBasedTableOptions* t, rocksdb::Options*) {
         t->index_shortening = BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
       },
       true},
      {"index_restarts", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->index_block_restart_interval = 4; },
       false},
      {"cached_index", [](BlockBasedTableOptions* t, rocksdb::Options*) { t->cache_index_and_filter_blocks = true; },
       false},
      {"partitioned",
       [](BlockBasedTableOptions* t, rocksdb::Options*) {
         t->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
         t->metadata_block_size = 128;
       },
       false},
      {"small_cache", [](BlockBasedTableOptions*, rocksdb::Options*) {}, true},
  };
  return variants;
}

// Keys of many lengths: with many versions of one, with prefixes of others, and with long common prefixes.
std::string UserKey(Random* random, int kind) {
  const uint64_t n = (*random)();
  switch (kind) {
    case 0:
      return "key" + std::to_string(n % 5000);
    case 1:
      return std::string(n % 40, 'a') + static_cast<char>('a' + n / 64 % 3);
    case 2:
      return std::string(150, 'p') + std::to_string(n % 3000) + std::string(n / 4096 % 3, '\0');
    default: {
      std::string key;
      for (uint64_t i = 0; i < 1 + n % 12; ++i) key.push_back(static_cast<char>((*random)() % 4 * 85));
      return key;
    }
  }
}

class BlockCursorTest : public ::testing::TestWithParam<Variant> {
 protected:
  BlockCursorTest() {
    options_.compression = rocksdb::kNoCompression;
    options_.statistics = rocksdb::CreateDBStatistics();
    table_.block_size = 300;
    GetParam().change(&table_, &options_);
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_));
    immutable_ = std::make_unique<rocksdb::ImmutableOptions>(options_);
    mutable_options_ = std::make_unique<rocksdb::MutableCFOptions>(options_);
  }
  ~BlockCursorTest() override {
    source_.reset();
    reader_.reset();
  }

  // A table of random keys with up to three versions each.
  void Make(Random* random, int kind, int keys) {
    source_.reset();
    reader_.reset();
    // Tables without a database's identity may share keys of the cache.
    table_.block_cache = rocksdb::NewLRUCache(cache_bytes_, 0);
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_));
    std::map<std::string, int> users;
    for (int i = 0; i < keys; ++i) ++users[UserKey(random, kind)];
    const std::string name = path_ + "/table" + std::to_string((*random)());
    std::unique_ptr<rocksdb::FSWritableFile> file;
    ASSERT_OK(immutable_->fs->NewWritableFile(name, rocksdb::FileOptions(), &file, nullptr));
    rocksdb::WritableFileWriter writer(std::move(file), name, rocksdb::FileOptions());
    const rocksdb::InternalTblPropCollFactories collectors;
    const rocksdb::TableBuilderOptions build(*immutable_, *mutable_options_, read_, write_, comparator_, &collectors,
                                             options_.compression, options_.compression_opts, 0, name_, -1, 0);
    const std::unique_ptr<rocksdb::TableBuilder> builder(options_.table_factory->NewTableBuilder(build, &writer));
    for (const auto& [user, versions] : users) {
      for (int version = 0; version < 1 + versions % 3; ++version) {
        std::string key;
        rocksdb::AppendInternalKey(&key,
                                   {user, static_cast<rocksdb::SequenceNumber>(100 - version), rocksdb::kTypeValue});
        builder->Add(key, std::string((*random)() % 40, 'v') + std::to_string((*random)()));
      }
    }
    ASSERT_OK(builder->Finish());
    ASSERT_OK(writer.Close(rocksdb::IOOptions()));
    std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
    ASSERT_OK(immutable_->fs->NewRandomAccessFile(name, rocksdb::FileOptions(), &opened, nullptr));
    auto reader = std::make_unique<rocksdb::RandomAccessFileReader>(std::move(opened), name);
    const rocksdb::TableReaderOptions read = port::OfFileAlone(*immutable_, no_prefixes_, environment_, comparator_);
    ASSERT_OK(options_.table_factory->NewTableReader(read, std::move(reader), builder->FileSize(), &reader_));
    source_ = std::make_unique<BlockSource>(static_cast<rocksdb::BlockBasedTable*>(reader_.get()), nullptr, nullptr);
    ASSERT_TRUE(source_->Serves(ReadOptions(), nullptr, false));
    // With few blocks, there are no restarts between.
    if (GetParam().raw_index || users.size() > 200) {
      ASSERT_EQ(GetParam().raw_index, source_->index().usable());
    }
  }

  std::unique_ptr<InternalIterator> Stock(const ReadOptions& read) {
    return std::unique_ptr<InternalIterator>(
        reader_->NewIterator(read, nullptr, nullptr, false, rocksdb::TableReaderCaller::kUserIterator, 0, true));
  }

  size_t cache_bytes_ = std::string("small_cache") == GetParam().name ? 4 << 10 : 8 << 20;
  test::TempDir directory_;
  const std::string path_ = directory_.path();
  const std::string name_ = "default";
  const ReadOptions read_;
  const rocksdb::WriteOptions write_;
  rocksdb::Options options_;
  BlockBasedTableOptions table_;
  const rocksdb::EnvOptions environment_;
  const std::shared_ptr<const rocksdb::SliceTransform> no_prefixes_;
  const rocksdb::InternalKeyComparator comparator_{rocksdb::BytewiseComparator()};
  std::unique_ptr<rocksdb::ImmutableOptions> immutable_;
  std::unique_ptr<rocksdb::MutableCFOptions> mutable_options_;
  std::unique_ptr<rocksdb::TableReader> reader_;
  std::unique_ptr<BlockSource> source_;
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

// Wherever the cursor goes, RocksDB's iterator goes, too.
TEST_P(BlockCursorTest, GoesWhereRocksDBsIteratorGoes) {
  Random random(Seed());
  uint64_t here = 0, elsewhere = 0;
  for (int round = 0; round < 24; ++round) {
    Make(&random, round % 4, 1 << (round / 2 % 12));
    std::string upper;
    Slice upper_bound;
    ReadOptions read;
    if (round % 3 == 1) {
      upper = UserKey(&random, round % 4);
      upper_bound = upper;
      read.iterate_upper_bound = &upper_bound;
    }
    const std::unique_ptr<InternalIterator> stock = Stock(read);
    BlockCursor cursor(source_.get(), &read);
    for (int i = 0; i < 200; ++i) {
      // Bounds may change between seeks.
      if (read.iterate_upper_bound != nullptr && i % 50 == 49) {
        upper = UserKey(&random, round % 4);
        upper_bound = upper;
      }
      std::string target;
      rocksdb::AppendInternalKey(&target, {UserKey(&random, round % 4), 97 + random() % 5, rocksdb::kTypeValue});
      const bool from_first = i % 20 == 7, back = !from_first && i % 3 == 0;
      Result result = from_first ? cursor.SeekToFirst() : back ? cursor.SeekForPrev(target) : cursor.Seek(target);
      if (from_first) {
        stock->SeekToFirst();
      } else if (back) {
        stock->SeekForPrev(target);
      } else {
        stock->Seek(target);
      }
      for (uint64_t steps = random() % 40;; --steps) {
        elsewhere += result == Result::kElsewhere ? 1 : 0;
        if (result == Result::kElsewhere) break;
        ASSERT_EQ(stock->Valid(), result == Result::kHere)
            << "round " << round << " seek " << i << ": " << stock->status().ToString() << " "
            << static_cast<int>(result) << " " << cursor.key().ToString(true) << " bound "
            << Slice(upper).ToString(true) << " target " << Slice(target).ToString(true)
            << (from_first ? " first" : "");
        if (!stock->Valid()) {
          if (back) break;
          ASSERT_EQ(stock->UpperBoundCheckResult() == rocksdb::IterBoundCheck::kOutOfBound,
                    result == Result::kOutOfBound);
          break;
        }
        ++here;
        ASSERT_EQ(stock->key().ToString(true), cursor.key().ToString(true));
        ASSERT_EQ(stock->value().ToString(), cursor.value().ToString());
        ASSERT_EQ(stock->write_unix_time(), cursor.write_unix_time());
        if (!back) {
          ASSERT_EQ(stock->UpperBoundCheckResult(), cursor.bound_check());
        }
        if (steps == 0) break;
        const std::string before = cursor.key().ToString();
        // Now and then the other way, within the bound.
        const bool steps_back = back != (read.iterate_upper_bound == nullptr && random() % 8 == 0);
        result = steps_back ? cursor.Prev() : cursor.Next();
        if (result == Result::kElsewhere) {
          ASSERT_EQ(before, cursor.key().ToString());
        }
        if (steps_back) {
          stock->Prev();
        } else {
          stock->Next();
        }
      }
    }
  }
  EXPECT_GT(here, 10000u);
  if (std::string("small_cache") == GetParam().name) {
    EXPECT_GT(elsewhere, 100u);
  } else {
    EXPECT_LT(elsewhere, here / 10);
  }
}

// The tickers are RocksDB's: each data block that is looked up is one hit or one miss.
TEST_P(BlockCursorTest, BlocksAreCountedAsRocksDBCountsThem) {
  Random random(Seed());
  Make(&random, 0, 2000);
  const auto& statistics = *options_.statistics;
  const ReadOptions read;
  const auto blocks = [&](const std::function<void(const std::string&)>& seek) {
    Random targets(1);
    const uint64_t before = statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_HIT) +
                            statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS);
    for (int i = 0; i < 100; ++i) {
      std::string target;
      rocksdb::AppendInternalKey(&target, {UserKey(&targets, 0), 100, rocksdb::kTypeValue});
      seek(target);
    }
    return statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_HIT) +
           statistics.getTickerCount(rocksdb::BLOCK_CACHE_DATA_MISS) - before;
  };
  const uint64_t by_cursor = blocks([&](const std::string& target) {
    BlockCursor cursor(source_.get(), &read);
    cursor.Seek(target);
  });
  const uint64_t by_stock = blocks([&](const std::string& target) { Stock(read)->Seek(target); });
  // Where the target lies behind a block's last key, the cursor leaves the next block to RocksDB.
  EXPECT_GE(by_stock, by_cursor);
  EXPECT_NEAR(static_cast<double>(by_stock), static_cast<double>(by_cursor), 20);
}

INSTANTIATE_TEST_SUITE_P(Variants, BlockCursorTest, ::testing::ValuesIn(Variants()),
                         [](const ::testing::TestParamInfo<Variant>& variant) {
                           return std::string(variant.param.name);
                         });

}  // namespace
}  // namespace cairn
