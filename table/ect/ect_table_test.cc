#include "table/ect/ect_table.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "file/random_access_file_reader.h"
#include "gtest/gtest.h"
#include "options/cf_options.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "table/ect/ect_table_index.h"
#include "table/format.h"
#include "table/hash_order/hash_order.h"
#include "table/meta_blocks.h"
#include "table/reader_charge.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/golden_file.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/table_test.h"
#include "test/testutil/test_seed.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

std::string Key(uint64_t i) { return "key" + std::to_string(i); }

void ReadPropertiesOf(const std::string& file, rocksdb::TableProperties* properties) {
  rocksdb::Options options;
  std::unique_ptr<rocksdb::RandomAccessFileReader> reader;
  ASSERT_TRUE(rocksdb::RandomAccessFileReader::Create(options.env->GetFileSystem(), file, rocksdb::FileOptions(),
                                                      &reader, nullptr)
                  .ok());
  std::unique_ptr<rocksdb::TableProperties> found;
  const rocksdb::ImmutableOptions immutable(options);
  const rocksdb::Status status =
      rocksdb::ReadTableProperties(reader.get(), std::filesystem::file_size(file),
                                   rocksdb::Footer::kNullTableMagicNumber, immutable, rocksdb::ReadOptions(), &found);
  ASSERT_TRUE(status.ok()) << status.ToString();
  *properties = *found;
}

class EctTableTest : public TableTest {
 protected:
  // Without a block cache if that is null.
  static rocksdb::TableFactory* NewFactory(EctIndexResidency residency,
                                           std::shared_ptr<rocksdb::Cache> cache = nullptr) {
    rocksdb::BlockBasedTableOptions block_options;
    block_options.no_block_cache = cache == nullptr;
    block_options.block_cache = std::move(cache);
    EctTableOptions table_options;
    table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
    table_options.index_residency = residency;
    return NewEctTableFactory(table_options);
  }
  const EctTableCounters& Counters() const {
    return options_.table_factory->CheckedCast<EctTableFactory>()->counters();
  }

  EctTableTest() : TableTest("ect_table_test") { options_.table_factory.reset(NewFactory(EctIndexResidency::kPinned)); }

  rocksdb::TablePropertiesCollection Properties() {
    rocksdb::TablePropertiesCollection properties;
    EXPECT_TRUE(db_->GetPropertiesOfAllTables(&properties).ok());
    return properties;
  }
};

TEST_F(EctTableTest, VersionsThatRunOverManyBlocks) {
  for (const EctIndexResidency residency : {EctIndexResidency::kPinned, EctIndexResidency::kDropped}) {
    options_.table_factory.reset(NewFactory(residency));
    OpenEmpty();
    ExpectEachSnapshotToSeeItsVersion();
    EXPECT_EQ(1u, Properties().size());
  }
}

TEST_F(EctTableTest, ReadsOneBlockForAHitAndForAMiss) {
  // A cache that holds nothing: a Get that used RocksDB's index would read that, too.
  rocksdb::BlockBasedTableOptions block_options;
  block_options.block_cache = rocksdb::NewLRUCache(0, 0);
  block_options.cache_index_and_filter_blocks = true;
  EctTableOptions table_options;
  table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  options_.table_factory.reset(NewEctTableFactory(table_options));
  OpenGood();
  const uint64_t keys = 20000;
  for (uint64_t i = 0; i < keys; ++i) Put(Key(i), std::string(100, 'v'));
  Flush();
  const auto reads = [&](uint64_t begin) {
    return BlocksReadBy([&] {
      for (uint64_t i = begin; i < begin + keys; ++i) Get(Key(i));
    });
  };
  EXPECT_EQ(keys, reads(0));
  EXPECT_EQ(0u, rocksdb::get_perf_context()->index_block_read_count);
  // In a table above the last level the filter answers for most keys that are not there.
  EXPECT_LE(reads(keys), keys / 500);
  EXPECT_GT(options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_USEFUL), keys * 99 / 100);
  CompactAll();
  EXPECT_EQ(keys, reads(0));
  EXPECT_LE(reads(keys), keys);
  for (const auto& [name, properties] : Properties()) {
    EctTableFacts facts;
    ASSERT_TRUE(ReadEctTableFacts(*properties, &facts).ok());
    EXPECT_EQ(0u, facts.filter_bytes) << "a filter in the last level";
    EXPECT_EQ(properties->num_entries, facts.keys);
    EXPECT_EQ(properties->num_data_blocks, facts.blocks);
    const double bytes = static_cast<double>(facts.layout_bytes + facts.index_bytes);
    EXPECT_LT(8.0 * bytes / static_cast<double>(facts.keys), 2.0);
  }
}

// 60 items per block, and 4: how far from the guess the block is depends on it.
TEST_F(EctTableTest, FindsTheBlockByInterpolation) {
  struct Case {
    uint64_t keys;
    size_t value;
    double most_blocks;  // a lookup
  };
  for (const Case& c : {Case{100000, 48, 1.35}, Case{10000, 1000, 2.0}}) {
    Close();
    std::filesystem::remove_all(path_);
    // A cache that holds nothing, so that every read is counted.
    options_.table_factory.reset(NewFactory(EctIndexResidency::kDropped, rocksdb::NewLRUCache(0, 0)));
    OpenGood();
    for (uint64_t i = 0; i < c.keys; ++i) Put(Key(i), std::string(c.value, 'v'));
    CompactAll();
    ASSERT_EQ(1u, Properties().size());
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    for (const uint64_t begin : {uint64_t{0}, c.keys}) {
      rocksdb::get_perf_context()->Reset();
      const uint64_t searched = Counters().searches, asked = Counters().search_blocks;
      for (uint64_t i = begin; i < begin + 5000; ++i) {
        ASSERT_EQ(begin == 0 ? std::string(c.value, 'v') : "-", Get(Key(i)));
      }
      const uint64_t reads = rocksdb::get_perf_context()->block_read_count;
      printf("%zu bytes a value, %s: %.3f blocks per lookup\n", c.value, begin == 0 ? "hits" : "misses",
             static_cast<double>(reads) / 5000);
      EXPECT_LE(static_cast<double>(reads) / 5000, c.most_blocks);
      // RocksDB answers for keys beyond the ends of the file.
      EXPECT_NEAR(5000, static_cast<double>(Counters().searches - searched), 10);
      EXPECT_EQ(reads, Counters().search_blocks - asked);
    }
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  }
}

TEST_F(EctTableTest, MemoryIsChargedAndCounted) {
  for (const EctIndexResidency residency :
       {EctIndexResidency::kPinned, EctIndexResidency::kCache, EctIndexResidency::kDropped}) {
    Close();
    std::filesystem::remove_all(path_);
    const auto cache = rocksdb::NewLRUCache(8 << 20, 0);
    options_.table_factory.reset(NewFactory(residency, cache));
    OpenGood();
    for (uint64_t i = 0; i < 50000; ++i) Put(Key(i), std::string(50, 'v'));
    Flush();
    EctTableFacts facts;
    ASSERT_TRUE(ReadEctTableFacts(*Properties().begin()->second, &facts).ok());
    EXPECT_GT(facts.filter_bytes, 90000u);
    EXPECT_GT(facts.index_bytes, 1000u);
    EXPECT_NEAR(static_cast<double>(facts.layout_bytes), static_cast<double>(Counters().layout_bytes), 100);
    EXPECT_EQ(facts.filter_bytes, Counters().filter_bytes);
    EXPECT_EQ(residency == EctIndexResidency::kDropped ? 0 : facts.index_bytes, Counters().index_bytes);
    const size_t always = Counters().layout_bytes + facts.filter_bytes;
    EXPECT_GE(cache->GetPinnedUsage(), always + (residency == EctIndexResidency::kPinned ? facts.index_bytes : 0));
    EXPECT_GE(cache->GetUsage(), always + (residency == EctIndexResidency::kDropped ? 0 : facts.index_bytes));
    EXPECT_LT(cache->GetPinnedUsage(), always + 2 * facts.index_bytes) << "or the properties are still there";
    std::string memory;
    ASSERT_TRUE(db_->GetProperty("rocksdb.estimate-table-readers-mem", &memory));
    EXPECT_LT(std::stoull(memory), always + facts.index_bytes + 100000) << "or the index is counted twice";
    Close();
    EXPECT_EQ(0u, Counters().layout_bytes + Counters().filter_bytes);
    EXPECT_EQ(0u, Counters().index_bytes) << "a closed table's index stays in the cache";
    EXPECT_EQ(0u, cache->GetPinnedUsage());
  }
}

// RocksDB charges what its reader holds while it opens a table, and ours holds less and other things.
TEST_F(EctTableTest, ReadersAreChargedOnceWhereRocksDbChargesThem) {
  using Decision = rocksdb::CacheEntryRoleOptions::Decision;
  for (const Decision decision : {Decision::kFallback, Decision::kEnabled, Decision::kDisabled}) {
    Close();
    std::filesystem::remove_all(path_);
    rocksdb::LRUCacheOptions cache_options(64 << 20, 0, false, 0);
    cache_options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
    const std::shared_ptr<rocksdb::Cache> cache = cache_options.MakeSharedCache();
    rocksdb::BlockBasedTableOptions blocks;
    blocks.block_cache = cache;
    blocks.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged = decision;
    EctTableOptions table;
    table.table.reset(rocksdb::NewBlockBasedTableFactory(blocks));
    options_.table_factory.reset(NewEctTableFactory(table));
    OpenGood();
    for (uint64_t i = 0; i < 100000; ++i) Put(Key(i), "v");
    Flush();
    OpenGood();
    uint64_t memory = 0;
    ASSERT_TRUE(db_->GetIntProperty("rocksdb.estimate-table-readers-mem", &memory));
    const double ours = static_cast<double>(Counters().layout_bytes + Counters().filter_bytes + Counters().index_bytes);
    EXPECT_GT(ours, 180000);
    EXPECT_GT(static_cast<double>(memory), ours);
    const double expected = decision == Decision::kEnabled    ? static_cast<double>(memory)
                            : decision == Decision::kFallback ? ours
                                                              : 0;
    // RocksDB's own charge comes in steps of 256 KiB, and goes down late.
    const double pinned = static_cast<double>(cache->GetPinnedUsage());
    EXPECT_GE(pinned, 0.97 * expected);
    EXPECT_LE(pinned, 1.03 * expected + 5000);
  }
}

// Whoever else holds all of a cache with a strict limit: tables are written, opened, read and merged.
TEST_F(EctTableTest, AFullCacheWithAStrictLimitStopsNothing) {
  for (const EctIndexResidency residency :
       {EctIndexResidency::kPinned, EctIndexResidency::kCache, EctIndexResidency::kDropped}) {
    const auto cache = rocksdb::NewLRUCache(64 << 10, 0, /*strict_capacity_limit=*/true);
    rocksdb::BlockBasedTableOptions blocks;
    blocks.block_cache = cache;
    EctTableOptions table;
    table.index_residency = residency;
    options_.table_factory = NewEctTableFactoryLike(blocks, table);
    options_.paranoid_file_checks = residency != EctIndexResidency::kCache;
    OpenEmpty();
    for (uint64_t i = 0; i < 5000; ++i) Put(Key(i), std::string(50, 'v'));
    Flush();
    ReaderCharge others;
    // Room for nothing, or for RocksDB's index and no block.
    const size_t left = residency == EctIndexResidency::kDropped ? 3500 : 256;
    const size_t all = cache->GetCapacity() - cache->GetPinnedUsage() - left;
    ASSERT_OK(others.Take(cache, Key(0), all, rocksdb::CacheEntryRoleOptions::Decision::kEnabled));
    for (uint64_t i = 2500; i < 10000; ++i) Put(Key(i), std::string(50, 'w'));
    Flush();
    CompactAll();
    const auto check = [&](const rocksdb::ReadOptions& read) {
      std::string value;
      for (uint64_t i = 0; i < 10000; i += 7) {
        ASSERT_OK(db_->Get(read, Key(i), &value));
        ASSERT_EQ(std::string(50, i < 2500 ? 'v' : 'w'), value);
      }
      std::vector<std::string> names;
      for (uint64_t i = 0; i < 200; ++i) names.push_back(Key(i * 60));
      std::vector<std::string> values;
      const auto statuses = db_->MultiGet(read, std::vector<rocksdb::Slice>(names.begin(), names.end()), &values);
      for (uint64_t i = 0; i < 200; ++i) ASSERT_EQ(i * 60 < 10000, statuses[i].ok()) << statuses[i].ToString();
    };
    rocksdb::ReadOptions past_cache;
    past_cache.fill_cache = false;
    check(rocksdb::ReadOptions());
    check(past_cache);
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(past_cache));
    uint64_t found = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++found;
    ASSERT_OK(it->status());
    EXPECT_EQ(10000u, found);
    it.reset();
    OpenGood();
    check(rocksdb::ReadOptions());
  }
}

// Blocks of these tables and of others find room beside what is charged, in every shard.
TEST_F(EctTableTest, ChargesLeaveRoomInACacheWithAStrictLimit) {
  using Decision = rocksdb::CacheEntryRoleOptions::Decision;
  constexpr size_t kShard = 64 << 10;
  rocksdb::LRUCacheOptions options(4 * kShard, /*num_shard_bits=*/2, /*strict_capacity_limit=*/true, 0);
  options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
  const std::shared_ptr<rocksdb::Cache> cache = options.MakeSharedCache();
  const auto room_everywhere = [&](size_t bytes) {
    for (uint64_t i = 0; i < 100; ++i) {
      ReaderCharge block;
      const std::string key = std::string(8, 'b') + std::to_string(10000000 + i);
      if (!block.Take(cache, key, bytes, Decision::kEnabled).ok()) return false;
    }
    return true;
  };
  for (const size_t bytes : {size_t{1} << 10, size_t{20} << 10, kShard - 512}) {
    std::vector<std::unique_ptr<ReaderCharge>> tables;
    for (uint64_t i = 0; i < 300; ++i) {
      tables.push_back(std::make_unique<ReaderCharge>());
      const std::string key = std::string(8, 't') + std::to_string(10000000 + i);
      ASSERT_OK(tables.back()->Take(cache, key, bytes, Decision::kFallback));
    }
    EXPECT_LE(cache->GetPinnedUsage(), cache->GetCapacity() / 2) << bytes;
    EXPECT_TRUE(room_everywhere(8 << 10)) << bytes << " bytes a table";
    if (bytes < kShard / 2) {
      EXPECT_GT(cache->GetPinnedUsage(), cache->GetCapacity() / 4) << "what has room is charged";
    }
    tables.clear();
    EXPECT_EQ(0u, cache->GetPinnedUsage());
  }
}

TEST_F(EctTableTest, MemoryPressureDropsTheIndexUntilItPaysToReadItAgain) {
  const auto cache = rocksdb::NewLRUCache(1 << 20, 0);
  options_.table_factory.reset(NewFactory(EctIndexResidency::kCache, cache));
  OpenGood();
  for (uint64_t i = 0; i < 50000; ++i) Put(Key(i), std::string(50, 'v'));
  CompactAll();
  ASSERT_EQ("-", Get(Key(50000)));
  EXPECT_EQ(0u, Counters().searches);
  ASSERT_GT(Counters().index_bytes, 0u);
  // Other users of the cache take the room.
  cache->SetCapacity(0);
  EXPECT_EQ(0u, Counters().index_bytes) << "evicted";
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(std::string(50, 'v'), Get(Key(i)));
  EXPECT_GE(Counters().searches, 80u) << "it is tried again now and then";
  cache->SetCapacity(1 << 20);
  const uint64_t loads = Counters().index_loads;
  rocksdb::ReadOptions cache_only;
  cache_only.read_tier = rocksdb::kBlockCacheTier;
  uint64_t i = 100;
  std::string value;
  for (; i < 50000 && Counters().index_bytes == 0; ++i) {
    ASSERT_TRUE(i % 16 != 0 || db_->Get(cache_only, Key(40000), &value).IsIncomplete());
    ASSERT_EQ(std::string(50, 'v'), Get(Key(i)));
  }
  EXPECT_LT(i, 5000u);
  EXPECT_EQ(loads + 1, Counters().index_loads);
  const uint64_t searches = Counters().searches;
  for (uint64_t k = 0; k < 1000; ++k) ASSERT_EQ(std::string(50, 'v'), Get(Key(k)));
  EXPECT_EQ(searches, Counters().searches);
  options_.table_factory.reset(NewFactory(EctIndexResidency::kCache));
  EXPECT_TRUE(Open().IsInvalidArgument()) << "index_residency=cache without a cache";
}

TEST_F(EctTableTest, MultiGetAsksABlockOnceForNeighbours) {
  options_.table_factory.reset(NewFactory(EctIndexResidency::kPinned, rocksdb::NewLRUCache(0, 0)));
  OpenGood();
  const uint64_t keys = 3000;
  std::vector<std::string> names;
  for (uint64_t i = 0; i < keys; ++i) {
    names.push_back(Key(i));
    Put(names.back(), Key(i) + std::string(20, 'v'));
    if (i % 3 != 0) continue;
    ASSERT_TRUE(db_->Merge(rocksdb::WriteOptions(), names.back(), "more").ok());
  }
  CompactAll();
  std::sort(names.begin(), names.end(),
            [&](const std::string& a, const std::string& b) { return options_.comparator->Compare(a, b) < 0; });
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  for (size_t at = 0; at < keys; at += 30) {
    std::vector<rocksdb::Slice> asked(names.begin() + static_cast<ptrdiff_t>(at),
                                      names.begin() + static_cast<ptrdiff_t>(at + 30));
    asked.emplace_back("absent");
    std::vector<rocksdb::PinnableSlice> values(asked.size());
    std::vector<rocksdb::Status> statuses(asked.size());
    db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), asked.size(), asked.data(), values.data(),
                  statuses.data());
    for (size_t i = 0; i < 30; ++i) {
      ASSERT_TRUE(statuses[i].ok()) << statuses[i].ToString();
      const uint64_t number = std::stoull(names[at + i].substr(3));
      ASSERT_EQ(names[at + i] + std::string(20, 'v') + (number % 3 == 0 ? ",more" : ""), values[i].ToString());
    }
    EXPECT_TRUE(statuses[30].IsNotFound());
  }
  // 30 neighbours lie in one block or two; the absent key is in one of its own.
  EXPECT_LT(rocksdb::get_perf_context()->block_read_count, keys / 30 * 4);
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
}

TEST_F(EctTableTest, CacheOnlyReadsSayThatTheyDoNotKnow) {
  rocksdb::BlockBasedTableOptions block_options;
  EctTableOptions table_options;
  table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  options_.table_factory.reset(NewEctTableFactory(table_options));
  ExpectCacheOnlyReadsToSayThatTheyDoNotKnow();
}

TEST_F(EctTableTest, MovesInAndOutInPlace) {
  const auto block_based = std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory());
  const auto ect = options_.table_factory;
  std::string value;
  // Tables without an index are read, and get one when they are compacted.
  options_.table_factory = block_based;
  OpenGood();
  for (uint64_t i = 0; i < 3000; ++i) Put(Key(i), "plain");
  Flush();
  options_.table_factory = ect;
  OpenGood();
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_EQ("plain", Get(Key(i)));
  ASSERT_EQ("-", Get(Key(3000)));
  EXPECT_EQ(0u, Properties().begin()->second->user_collected_properties.count(kEctProperty));
  CompactAll();
  EXPECT_EQ(1u, Properties().begin()->second->user_collected_properties.count(kEctProperty));
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_EQ("plain", Get(Key(i)));
  // RocksDB's own table reads what Cairn's wrote.
  options_.table_factory = block_based;
  OpenGood();
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_EQ("plain", Get(Key(i)));
}

TEST_F(EctTableTest, IngestsFiles) {
  OpenGood();
  Put(Key(1), "old");
  std::map<std::string, std::string> model;
  for (uint64_t i = 0; i < 2000; ++i) model[Key(i)] = "ingested";
  const std::string file = path_ + ".sst";
  ASSERT_TRUE(WriteTable(file, options_, model).ok());
  ASSERT_TRUE(db_->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions()).ok());
  for (const auto& record : model) ASSERT_EQ("ingested", Get(record.first));
  std::filesystem::remove(file);
}

TEST_F(EctTableTest, OptionsSurviveTheOptionsFile) {
  ExpectToSurviveTheOptionsFile(
      "{id=cairn.EctTable;group=128;filter_tag_bits=12;table={id=BlockBasedTable;block_size=8192}}", "cairn.EctTable",
      {"group=128", "filter_tag_bits=12"}, 8192);
}

TEST_F(EctTableTest, RefusesWhatItCannotDo) {
  const rocksdb::Options good = options_;
  options_.comparator = rocksdb::BytewiseComparator();
  EXPECT_TRUE(Open().IsInvalidArgument());
  options_ = good;
  options_.compression_opts.parallel_threads = 2;
  EXPECT_TRUE(Open().IsNotSupported());
  options_ = good;
  options_.bottommost_compression_opts.max_dict_bytes = 1000;
  EXPECT_TRUE(Open().IsNotSupported());
  options_ = good;
  EctTableOptions table_options;
  table_options.filter_tag_bits = 30;
  options_.table_factory.reset(NewEctTableFactory(table_options));
  EXPECT_TRUE(Open().IsInvalidArgument());
  options_ = good;
  OpenGood();
  EXPECT_TRUE(db_->DeleteRange(rocksdb::WriteOptions(), "a", "b").IsNotSupported());
}

// The reader trusts nothing in the properties, though RocksDB's checksum covers them.
TEST_F(EctTableTest, DamagedPropertiesAreRefusedOrHarmless) {
  OpenGood();
  for (uint64_t i = 0; i < 3000; ++i) Put(Key(i), std::string(50, 'v'));
  Flush();
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  // Of the file, since those of the open table hold no index any more.
  rocksdb::TableProperties good;
  ReadPropertiesOf(path_ + files.at(0).name, &good);
  std::unique_ptr<EctBlockLayout> layout;
  std::unique_ptr<EctTries> tries;
  std::unique_ptr<EctTableFilterInMemory> filter;
  EctTableFacts facts;
  ASSERT_TRUE(OpenEctBlockLayout(good, &layout).ok());
  ASSERT_TRUE(EctTries::Open(good, nullptr, &tries).ok());
  ASSERT_TRUE(EctTableFilterInMemory::Open(good, &filter).ok());
  ASSERT_TRUE(filter->exists());
  rocksdb::TableProperties of_one_hash = good;
  std::string& header = of_one_hash.user_collected_properties[kEctProperty];
  header.replace(24, 8, header, 16, 8);  // the last hash is the first
  ASSERT_TRUE(OpenEctBlockLayout(of_one_hash, &layout).ok());
  EXPECT_EQ(layout->blocks(), layout->BlocksWithin(UINT64_MAX));
  rocksdb::TableProperties later = good;
  ++later.user_collected_properties[kEctProperty][0];
  const rocksdb::Status of_later = OpenEctBlockLayout(later, &layout);
  EXPECT_TRUE(of_later.IsNotSupported());
  EXPECT_CONTAINS(of_later.ToString(), "property cairn.ect of format version 3; Cairn ");
  std::mt19937_64 random(Seed());
  int refused = 0;
  for (const char* name : {kEctProperty, kCuckooProperty}) {
    const std::string& bytes = good.user_collected_properties.at(name);
    for (size_t at = 0; at < bytes.size(); ++at) {
      rocksdb::TableProperties damaged = good;
      std::string& changed = damaged.user_collected_properties[name];
      if (at % 2 == 0) {
        changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      } else {
        changed.resize(at);
      }
      ReadEctTableFacts(damaged, &facts).PermitUncheckedError();
      const bool opened = OpenEctBlockLayout(damaged, &layout).ok();
      ASSERT_EQ(opened, layout != nullptr);
      for (int i = 0; opened && i < 100; ++i) {
        uint64_t offset, size;
        const uint64_t block = layout->Guess(random());
        ASSERT_LT(block, layout->blocks());
        layout->Locate(block, &offset, &size);
        ASSERT_LE(offset + size, good.data_size);
        const uint64_t within = layout->BlocksWithin(random());
        ASSERT_TRUE(within >= 1 && within <= layout->blocks()) << within;
      }
      const bool has_tries = EctTries::Open(damaged, nullptr, &tries).ok();
      ASSERT_EQ(has_tries, tries != nullptr);
      for (int i = 0; has_tries && i < 100; ++i) tries->Find(random());
      const bool has_filter = EctTableFilterInMemory::Open(damaged, &filter).ok();
      refused += opened && has_tries && has_filter ? 0 : 1;
    }
  }
  // Wrong hashes and samples cost only speed; everything else is noticed.
  EXPECT_GT(refused, 1000);
  rocksdb::TableProperties without = good;
  without.user_collected_properties.clear();
  EXPECT_TRUE(EctTries::Open(without, nullptr, &tries).IsNotFound());
  EXPECT_TRUE(OpenEctBlockLayout(without, &layout).IsNotFound());
}

// Written in hash order by RocksDB's own writer, so nothing of it depends on time or place.
TEST_F(EctTableTest, GoldenProperties) {
  std::map<std::string, std::string> records;
  for (uint64_t i = 0; i < 1500; ++i) records[Key(i)] = std::string(40, 'v');
  std::filesystem::create_directories(path_);
  const std::string file = path_ + "/golden.sst";
  ASSERT_TRUE(WriteTable(file, options_, records).ok());
  rocksdb::TableProperties properties;
  ReadPropertiesOf(file, &properties);
  ExpectGolden("ect_table_property", properties.user_collected_properties.at(kEctProperty), "table/ect");
  ExpectGolden("ect_table_cuckoo", properties.user_collected_properties.at(kCuckooProperty).substr(0, 1024),
               "table/ect");
}

TEST_F(EctTableTest, DamagedBlocksFailTheirOwnReadsOnly) {
  OpenGood();
  for (uint64_t i = 0; i < 3000; ++i) Put(Key(i), std::string(100, 'v'));
  Flush();
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_EQ(1u, files.size());
  Close();
  {
    FILE* file = fopen((path_ + files[0].name).c_str(), "r+b");
    ASSERT_NE(nullptr, file);
    ASSERT_EQ(0, fseek(file, 10000, SEEK_SET));
    const int byte = fgetc(file);
    ASSERT_EQ(0, fseek(file, 10000, SEEK_SET));
    fputc(byte ^ 0x55, file);
    fclose(file);
  }
  OpenGood();
  int corrupt = 0;
  std::string value;
  for (uint64_t i = 0; i < 3000; ++i) {
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), Key(i), &value);
    if (status.IsCorruption()) {
      ++corrupt;
    } else {
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(std::string(100, 'v'), value);
    }
  }
  EXPECT_GT(corrupt, 0);
  EXPECT_LT(corrupt, 100);
}

}  // namespace
}  // namespace cairn
