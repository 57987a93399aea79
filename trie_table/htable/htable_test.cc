// HTable below a whole database, and its file damaged in every way.

#include "cairn/htable.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include "cairn/ect_table.h"
#include "file/random_access_file_reader.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/secondary_cache.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "table/ect/hash_order_table.h"
#include "table/hash_order/hash_order.h"
#include "table/sst_file_dumper.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/table_test.h"
#include "test/testutil/test_seed.h"
#include "trie_table/htable/htable_table.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

std::string Key(uint64_t i) { return "key" + std::to_string(i); }

enum class BlockCache { kNone, kLru };

std::shared_ptr<rocksdb::TableFactory> Factory(BlockCache cache, uint32_t bucket_size = 4096) {
  rocksdb::BlockBasedTableOptions block_options;
  block_options.no_block_cache = cache == BlockCache::kNone;
  if (cache == BlockCache::kLru) block_options.block_cache = rocksdb::NewLRUCache(8 << 20);
  HTableOptions options;
  options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  options.bucket_size = bucket_size;
  return std::shared_ptr<rocksdb::TableFactory>(NewHTableFactory(options));
}

class HTableTest : public TableTest {
 protected:
  HTableTest() : TableTest("htable_test") { options_.table_factory = Factory(BlockCache::kNone); }

  // Everything that can be asked gives the model's answers.
  void Check(const std::map<std::string, std::string>& model, const std::vector<std::string>& absent) {
    const std::vector<std::string> keys = Sorted(model);
    for (const std::string& key : keys) ASSERT_EQ(model.at(key), Get(key)) << key;
    for (const std::string& key : absent) ASSERT_EQ("-", Get(key)) << key;
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
    size_t at = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      ASSERT_LT(at, keys.size());
      ASSERT_EQ(keys[at], it->key().ToString());
      ASSERT_EQ(model.at(keys[at]), it->value().ToString());
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(keys.size(), at);
    for (it->SeekToLast(); it->Valid(); it->Prev()) ASSERT_EQ(keys[--at], it->key().ToString());
    ASSERT_EQ(0u, at);
    const auto before = [&](const std::string& a, const std::string& b) {
      return options_.comparator->Compare(a, b) < 0;
    };
    for (int i = 0; i < 200; ++i) {
      const std::string asked = Key(random_() % 100000);
      const auto place = std::lower_bound(keys.begin(), keys.end(), asked, before);
      it->Seek(asked);
      ASSERT_EQ(place != keys.end(), it->Valid()) << it->status().ToString();
      if (it->Valid()) {
        ASSERT_EQ(*place, it->key().ToString());
      }
      const auto behind = std::upper_bound(keys.begin(), keys.end(), asked, before);
      it->SeekForPrev(asked);
      ASSERT_EQ(behind != keys.begin(), it->Valid());
      if (it->Valid()) {
        ASSERT_EQ(*(behind - 1), it->key().ToString());
      }
      if (it->Valid() && random_() % 2 == 0) {
        it->Next();
        ASSERT_EQ(behind != keys.end(), it->Valid());
      }
    }
    std::vector<std::string> names, values;
    for (int i = 0; i < 200; ++i) {
      names.push_back(!keys.empty() && i % 2 == 0 ? keys[random_() % keys.size()] : Key(random_() % 100000));
    }
    const std::vector<rocksdb::Slice> asked(names.begin(), names.end());
    const std::vector<rocksdb::Status> statuses = db_->MultiGet(rocksdb::ReadOptions(), asked, &values);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = model.find(names[i]);
      ASSERT_EQ(found == model.end(), statuses[i].IsNotFound()) << names[i] << " " << statuses[i].ToString();
      if (found != model.end()) {
        ASSERT_EQ(found->second, values[i]);
      }
    }
    ASSERT_TRUE(db_->VerifyChecksum().ok());
  }
  rocksdb::TablePropertiesCollection Properties() {
    rocksdb::TablePropertiesCollection properties;
    EXPECT_TRUE(db_->GetPropertiesOfAllTables(&properties).ok());
    return properties;
  }

  std::mt19937_64 random_{Seed()};
};

TEST_F(HTableTest, AgreesWithAModel) {
  int round = 0;
  for (const rocksdb::CompressionType compression :
       {rocksdb::kNoCompression, rocksdb::kSnappyCompression, rocksdb::kZSTD}) {
    for (const BlockCache cache : {BlockCache::kNone, BlockCache::kLru}) {
      options_.compression = compression;
      options_.compression_opts.max_dict_bytes = compression == rocksdb::kZSTD ? 4096 : 0;
      options_.compression_opts.zstd_max_train_bytes = compression == rocksdb::kZSTD ? 65536 : 0;
      options_.write_buffer_size = 256 << 10;
      options_.table_factory = Factory(cache, round++ % 2 == 0 ? 4096 : 8192);
      OpenEmpty();
      std::map<std::string, std::string> model;
      for (int step = 0; step < 15000; ++step) {
        const std::string key = Key(random_() % 5000);
        const auto value = [&] {
          const uint64_t largest = random_() % 100 == 0 ? 20000 : random_() % 10 == 0 ? 1500 : 200;
          return std::string(random_() % largest, static_cast<char>('a' + step % 26));
        };
        Write(&random_, key, value, &model);
        if (random_() % 5000 == 0) Flush();
        if (random_() % 10000 == 0) CompactAll();
        if (random_() % 10000 == 0) OpenGood();
      }
      const std::vector<std::string> absent{Key(5000), Key(5001), "", "x"};
      Check(model, absent);
      CompactAll();
      Check(model, absent);
    }
  }
}

TEST_F(HTableTest, TablesOfFewKeys) {
  for (int keys = 1; keys <= 3; ++keys) {
    OpenEmpty();
    std::map<std::string, std::string> model;
    for (int i = 0; i < keys; ++i) {
      model[i == 2 ? "" : Key(i)] = std::string(i, 'v');
      Put(i == 2 ? "" : Key(i), std::string(i, 'v'));
    }
    Flush();
    Check(model, {"absent"});
  }
}

TEST_F(HTableTest, LargeKeysAndValues) {
  OpenEmpty();
  std::map<std::string, std::string> model;
  for (int i = 0; i < 60; ++i) {
    std::string key = Key(i);
    if (i % 3 == 0) key += std::string(i % 2 == 0 ? 65536 : 5000, 'k');
    model[key] = std::string(i % 5 == 0 ? (3 << 20) + i : i * 300, 'v');
    Put(key, model[key]);
  }
  for (int i = 1000; i < 3000; ++i) Put(Key(i), model[Key(i)] = "small");
  Flush();
  Check(model, {"absent"});
  CompactAll();
  Check(model, {"absent"});
}

TEST_F(HTableTest, AllItemsOfOneSize) {
  for (const size_t size :
       {size_t{1}, size_t{100}, size_t{1300}, size_t{2040}, size_t{2100}, size_t{4000}, size_t{4100}}) {
    OpenEmpty();
    std::map<std::string, std::string> model;
    for (int i = 0; i < 3000; ++i) Put(Key(i), model[Key(i)] = std::string(size, static_cast<char>('a' + i % 26)));
    Flush();
    Check(model, {"absent"});
  }
}

TEST_F(HTableTest, MoreVersionsThanAPageHolds) {
  OpenGood();
  ExpectEachSnapshotToSeeItsVersion();
}

TEST_F(HTableTest, SingleDeletesWideColumnsAndBlobs) {
  options_.enable_blob_files = true;
  options_.min_blob_size = 1000;
  OpenGood();
  for (int i = 0; i < 1000; ++i) {
    if (i % 3 == 0) {
      ASSERT_TRUE(
          db_->PutEntity(rocksdb::WriteOptions(), db_->DefaultColumnFamily(), Key(i), {{"a", "1"}, {"b", "2"}}).ok());
    } else {
      Put(Key(i), std::string(i % 3 == 1 ? 10 : 2000, 'v'));
    }
  }
  Flush();
  for (int i = 1; i < 1000; i += 3) ASSERT_TRUE(db_->SingleDelete(rocksdb::WriteOptions(), Key(i)).ok());
  Flush();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) {
      if (i % 3 == 0) {
        rocksdb::PinnableWideColumns columns;
        ASSERT_TRUE(db_->GetEntity(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), Key(i), &columns).ok());
        ASSERT_EQ(2u, columns.columns().size());
      } else {
        ASSERT_EQ(i % 3 == 1 ? "-" : std::string(2000, 'v'), Get(Key(i)));
      }
    }
    CompactAll();
  }
}

TEST_F(HTableTest, ReadsOneBucketForAHitAndForAMiss) {
  OpenGood();
  const uint64_t keys = 20000;
  for (uint64_t i = 0; i < keys; ++i) Put(Key(i), std::string(1 + random_() % 800, 'v'));
  Flush();
  CompactAll();
  const auto reads = [&](uint64_t begin) {
    return BlocksReadBy([&] {
      for (uint64_t i = begin; i < begin + keys; ++i) Get(Key(i));
    });
  };
  EXPECT_EQ(keys, reads(0));
  EXPECT_LE(reads(keys), keys + 10);
}

TEST_F(HTableTest, CacheOnlyReadsSayThatTheyDoNotKnow) {
  options_.table_factory = Factory(BlockCache::kLru);
  ExpectCacheOnlyReadsToSayThatTheyDoNotKnow();
  EXPECT_GT(options_.statistics->getTickerCount(rocksdb::BLOCK_CACHE_DATA_HIT), 0u);
}

TEST_F(HTableTest, ReadsOtherFormatsAndIsLeftByCompaction) {
  const auto htable = options_.table_factory;
  const auto block_based = std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory());
  const auto ect = std::shared_ptr<rocksdb::TableFactory>(NewEctTableFactory(EctTableOptions()));
  std::map<std::string, std::string> model;
  options_.level0_file_num_compaction_trigger = 100;
  int next = 0;
  for (const auto& factory : {block_based, ect, htable}) {
    options_.table_factory = factory;
    OpenGood();
    for (int i = 0; i < 2000; ++i, ++next) Put(Key(next), model[Key(next)] = "value" + std::to_string(i));
    Flush();
    options_.table_factory = htable;
    OpenGood();
    Check(model, {"absent"});
  }
  // Out of it again, in a column family that a wrapper keeps in hash order.
  options_.table_factory = std::make_shared<HashOrderTableFactory>(block_based);
  OpenGood();
  Check(model, {"absent"});
  CompactAll();
  options_.table_factory = block_based;
  OpenGood();
  Check(model, {"absent"});
}

// They share a magic number (docs/design/htable.md), and nothing else.
TEST_F(HTableTest, PlainTablesRefuseIt) {
  OpenGood();
  Put("a", "1");
  Flush();
  for (rocksdb::TableFactory* other :
       {rocksdb::NewPlainTableFactory(), rocksdb::NewAdaptiveTableFactory(), rocksdb::NewBlockBasedTableFactory()}) {
    options_.table_factory.reset(other);
    options_.allow_mmap_reads = true;
    const rocksdb::Status opened = Open();
    std::string value;
    EXPECT_FALSE(opened.ok() && db_->Get(rocksdb::ReadOptions(), "a", &value).ok());
    EXPECT_FALSE(opened.ok() && db_->Get(rocksdb::ReadOptions(), "a", &value).IsNotFound());
  }
}

// As `ldb dump_live_files` does. Lengths that a plain table reads in pages could lead anywhere.
TEST_F(HTableTest, AScanAsAPlainTableEndsAtTheFirstByte) {
  OpenGood();
  for (uint64_t i = 0; i < 20000; ++i) Put(Key(i), std::string(1 + i % 100, 'x'));
  Flush();
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_FALSE(files.empty());
  for (const rocksdb::LiveFileMetaData& file : files) {
    const std::string path = file.db_path + file.name;
    std::string bytes;
    ASSERT_TRUE(rocksdb::ReadFileToString(rocksdb::Env::Default(), path, &bytes).ok());
    for (size_t unit = 0; unit < 4; ++unit) {
      EXPECT_EQ(0, bytes[unit * 4096]) << unit;
      EXPECT_EQ(0x40, bytes[unit * 4096 + 1] & 0xe0) << unit;
    }
    rocksdb::SstFileDumper dumper(options_, path, rocksdb::Temperature::kUnknown, 0, /*verify_checksum=*/false,
                                  /*output_hex=*/false, /*decode_blob_index=*/false, rocksdb::EnvOptions(),
                                  /*silent=*/true);
    ASSERT_TRUE(dumper.getStatus().ok()) << dumper.getStatus().ToString();
    const rocksdb::Status s = dumper.ReadSequential(/*print_kv=*/false, UINT64_MAX, false, "", false, "");
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_EQ(0u, dumper.GetReadNumber());
  }
}

TEST_F(HTableTest, IngestsFiles) {
  for (const bool write_global_seqno : {false, true}) {
    OpenEmpty();
    std::map<std::string, std::string> model;
    for (uint64_t i = 0; i < 4000; ++i) Put(Key(i), "old");
    const rocksdb::Snapshot* snapshot = db_->GetSnapshot();
    for (uint64_t i = 0; i < 2000; ++i) model[Key(i)] = "ingested" + std::string(i % 300, 'x');
    const std::string file = path_ + ".sst";
    ASSERT_TRUE(WriteTable(file, options_, model).ok());
    rocksdb::IngestExternalFileOptions ingest;
    ingest.write_global_seqno = write_global_seqno;
    const rocksdb::Status status = db_->IngestExternalFile({file}, ingest);
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (uint64_t i = 2000; i < 4000; ++i) model[Key(i)] = "old";
    Check(model, {"absent"});
    EXPECT_EQ("old", Get(Key(1), snapshot));
    db_->ReleaseSnapshot(snapshot);
    OpenGood();
    Check(model, {"absent"});
    CompactAll();
    Check(model, {"absent"});
    std::filesystem::remove(file);
  }
}

TEST_F(HTableTest, OptionsSurviveTheOptionsFile) {
  ExpectToSurviveTheOptionsFile(
      "{id=cairn.HTable;bucket_size=8192;group_buckets=64;table={id=BlockBasedTable;block_size=16384}}", "cairn.HTable",
      {"bucket_size=8192", "group_buckets=64"}, 16384);
}

TEST_F(HTableTest, RefusesWhatItCannotDo) {
  const rocksdb::Options good = options_;
  options_.comparator = rocksdb::BytewiseComparator();
  EXPECT_TRUE(Open().IsInvalidArgument());
  options_ = good;
  options_.table_factory = Factory(BlockCache::kNone, 5000);
  EXPECT_TRUE(Open().IsInvalidArgument());
  options_ = good;
  OpenGood();
  EXPECT_TRUE(db_->DeleteRange(rocksdb::WriteOptions(), "a", "b").IsNotSupported());
}

TEST_F(HTableTest, DirectReadsAndManyThreads) {
  options_.use_direct_reads = true;
  options_.table_factory = Factory(BlockCache::kLru);
  rocksdb::Status opened = Open();
  if (!opened.ok()) {
    options_.use_direct_reads = false;  // a file system in memory
    OpenGood();
  }
  std::map<std::string, std::string> model;
  for (int i = 0; i < 20000; ++i) Put(Key(i), model[Key(i)] = std::string(i % 900, 'v'));
  Flush();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::string value;
      for (int i = 0; i < 5000; ++i) {
        const uint64_t key = random() % 21000;
        const rocksdb::Status s = db_->Get(rocksdb::ReadOptions(), Key(key), &value);
        if (key < 20000) {
          EXPECT_TRUE(s.ok() && value == model.at(Key(key))) << s.ToString();
        } else {
          EXPECT_TRUE(s.IsNotFound());
        }
        if (i % 1000 == 0) {
          std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
          it->Seek(Key(key));
          for (int n = 0; n < 500 && it->Valid(); ++n) it->Next();
          EXPECT_TRUE(it->status().ok());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  Check(model, {"absent"});
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;
#else
constexpr bool kCountsAllocations = true;
#endif

size_t Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// What an open table says that it takes is what it allocates, and is charged to the block cache as RocksDB's option
// has it.
TEST_F(HTableTest, MemoryIsChargedAndCounted) {
  using Decision = rocksdb::CacheEntryRoleOptions::Decision;
  options_.compression = rocksdb::kZSTD;
  options_.compression_opts.max_dict_bytes = 16 << 10;
  rocksdb::BlockBasedTableOptions block_options;
  for (const double filter_bits : {0.0, 16.0}) {
    for (const Decision decision : {Decision::kFallback, Decision::kEnabled, Decision::kDisabled}) {
      rocksdb::LRUCacheOptions cache_options(8 << 20, 0, false, 0);
      cache_options.metadata_charge_policy = rocksdb::kDontChargeCacheMetadata;
      const std::shared_ptr<rocksdb::Cache> cache = cache_options.MakeSharedCache();
      block_options.block_cache = cache;
      block_options.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged =
          decision;
      HTableOptions table;
      table.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
      table.filter.bits_per_key = filter_bits;
      options_.table_factory.reset(NewHTableFactory(table));
      OpenEmpty();
      for (uint64_t i = 0; i < 60000; ++i) Put(Key(i), std::string(random_() % 100, 'v'));
      Flush();
      OpenGood();
      uint64_t memory = 0;
      ASSERT_TRUE(db_->GetIntProperty("rocksdb.estimate-table-readers-mem", &memory));
      EXPECT_GT(memory, filter_bits == 0 ? 10000u : 120000u);
      const double in_dummies = filter_bits == 0 ? 0 : 256 << 10;  // what filters are charged in
      if (decision == Decision::kDisabled) {
        EXPECT_LE(static_cast<double>(cache->GetPinnedUsage()), filter_bits / 8 * 66000 + in_dummies);
      } else {
        EXPECT_GE(static_cast<double>(cache->GetPinnedUsage()), 0.97 * static_cast<double>(memory));
        EXPECT_LE(static_cast<double>(cache->GetPinnedUsage()), 1.03 * static_cast<double>(memory) + in_dummies);
      }
      std::vector<rocksdb::LiveFileMetaData> files;
      db_->GetLiveFilesMetaData(&files);
      ASSERT_EQ(1u, files.size());
      const std::string path = files[0].directory + "/" + files[0].relative_filename;
      Close();
      EXPECT_EQ(0u, cache->GetPinnedUsage()) << "a closed table is still charged";
      if (!kCountsAllocations) continue;
      std::unique_ptr<rocksdb::RandomAccessFileReader> file;
      ASSERT_TRUE(rocksdb::RandomAccessFileReader::Create(rocksdb::FileSystem::Default(), path, rocksdb::FileOptions(),
                                                          &file, nullptr)
                      .ok());
      const rocksdb::ImmutableOptions immutable(options_);
      const rocksdb::InternalKeyComparator comparator(options_.comparator);
      const rocksdb::EnvOptions env_options;
      const rocksdb::TableReaderOptions reader_options = port::OfFileAlone(immutable, nullptr, env_options, comparator);
      std::unique_ptr<rocksdb::TableReader> reader;
      const size_t before = Allocated();
      ASSERT_TRUE(
          options_.table_factory
              ->NewTableReader(rocksdb::ReadOptions(), reader_options, std::move(file), files[0].size, &reader, false)
              .ok());
      const double allocated = static_cast<double>(Allocated() - before);
      EXPECT_NEAR(allocated, static_cast<double>(reader->ApproximateMemoryUsage()), 0.04 * allocated + 6000);
    }
  }
}

TEST_F(HTableTest, AFullCacheWithAStrictLimitRefusesTables) {
  rocksdb::BlockBasedTableOptions block_options;
  block_options.block_cache = rocksdb::NewLRUCache(512, 0, /*strict_capacity_limit=*/true);
  HTableOptions table;
  table.filter.bits_per_key = 0;
  for (const auto decision :
       {rocksdb::CacheEntryRoleOptions::Decision::kFallback, rocksdb::CacheEntryRoleOptions::Decision::kEnabled}) {
    block_options.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged =
        decision;
    table.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
    options_.table_factory = Factory(BlockCache::kNone);
    OpenEmpty();
    for (uint64_t i = 0; i < 20000; ++i) Put(Key(i), std::string(100, 'v'));
    Flush();
    options_.table_factory.reset(NewHTableFactory(table));
    const rocksdb::Status status = Open();
    if (decision == rocksdb::CacheEntryRoleOptions::Decision::kEnabled) {
      EXPECT_TRUE(status.IsMemoryLimit()) << status.ToString();
    } else {
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(std::string(100, 'v'), Get(Key(17)));
    }
  }
}

// A secondary cache whose entries come back damaged.
class DamagingCache : public rocksdb::SecondaryCache {
 public:
  enum class Damage { kNone, kFlippedBit, kCutOff, kZeros, kAnotherEntry, kEmpty };

  explicit DamagingCache(Damage damage) : damage_(damage) {}
  const char* Name() const override { return "DamagingCache"; }
  rocksdb::Status Insert(const rocksdb::Slice& key, rocksdb::Cache::ObjectPtr object,
                         const rocksdb::Cache::CacheItemHelper* helper, bool /*force*/) override {
    std::string bytes(helper->size_cb(object), '\0');
    const rocksdb::Status s = helper->saveto_cb(object, 0, bytes.size(), bytes.data());
    entries_[key.ToString()] = bytes;
    return s;
  }
  rocksdb::Status InsertSaved(const rocksdb::Slice& /*key*/, const rocksdb::Slice& /*saved*/,
                              rocksdb::CompressionType /*type*/, rocksdb::CacheTier /*source*/) override {
    return rocksdb::Status::OK();
  }
  std::unique_ptr<rocksdb::SecondaryCacheResultHandle> Lookup(const rocksdb::Slice& key,
                                                              const rocksdb::Cache::CacheItemHelper* helper,
                                                              rocksdb::Cache::CreateContext* context, bool /*wait*/,
                                                              bool /*advise_erase*/, rocksdb::Statistics* /*stats*/,
                                                              bool& kept) override {
    kept = true;
    const auto found = entries_.find(key.ToString());
    if (found == entries_.end()) return nullptr;
    auto handle = std::make_unique<Handle>();
    const rocksdb::Status s =
        helper->create_cb(Damaged(found->second), rocksdb::kNoCompression, rocksdb::CacheTier::kVolatileTier, context,
                          nullptr, &handle->value, &handle->size);
    if (!s.ok()) return nullptr;
    hits++;
    return handle;
  }
  bool SupportForceErase() const override { return false; }
  void Erase(const rocksdb::Slice& key) override { entries_.erase(key.ToString()); }
  void WaitAll(std::vector<rocksdb::SecondaryCacheResultHandle*> /*handles*/) override {}
  std::string GetPrintableOptions() const override { return ""; }

  uint64_t hits = 0;

 private:
  struct Handle : public rocksdb::SecondaryCacheResultHandle {
    bool IsReady() override { return true; }
    void Wait() override {}
    rocksdb::Cache::ObjectPtr Value() override { return value; }
    size_t Size() override { return size; }
    rocksdb::Cache::ObjectPtr value = nullptr;
    size_t size = 0;
  };

  std::string Damaged(const std::string& bytes) {
    std::string damaged = bytes;
    switch (damage_) {
      case Damage::kNone:
        break;
      case Damage::kFlippedBit:
        damaged[random_() % damaged.size()] ^= static_cast<char>(1 << random_() % 8);
        break;
      case Damage::kCutOff:
        damaged.resize(random_() % damaged.size());
        break;
      case Damage::kZeros:
        std::fill(damaged.begin(), damaged.end(), '\0');
        break;
      case Damage::kAnotherEntry:
        damaged = entries_.begin()->second;
        break;
      case Damage::kEmpty:
        damaged.clear();
        break;
    }
    return damaged;
  }

  const Damage damage_;
  std::mt19937_64 random_{1};
  std::map<std::string, std::string> entries_;
};

TEST_F(HTableTest, DamageInASecondaryCacheIsReadFromTheFileAgain) {
  using Damage = DamagingCache::Damage;
  for (const rocksdb::CompressionType compression : {rocksdb::kNoCompression, rocksdb::kZSTD}) {
    options_.compression = compression;
    options_.table_factory = Factory(BlockCache::kNone);
    OpenEmpty();
    constexpr int kKeys = 8000;
    const std::string tail(60, 'v');
    for (int i = 0; i < kKeys; ++i) Put(Key(i), std::to_string(i) + tail);
    Flush();
    for (Damage damage :
         {Damage::kNone, Damage::kFlippedBit, Damage::kCutOff, Damage::kZeros, Damage::kAnotherEntry, Damage::kEmpty}) {
      Close();
      auto damaging = std::make_shared<DamagingCache>(damage);
      rocksdb::LRUCacheOptions primary(512 << 10, 0, false, 0.5);
      primary.secondary_cache = damaging;
      rocksdb::BlockBasedTableOptions block_options;
      block_options.block_cache = primary.MakeSharedCache();
      HTableOptions table;
      table.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
      options_.table_factory.reset(NewHTableFactory(table));
      OpenGood();
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < kKeys; ++i) ASSERT_EQ(std::to_string(i) + tail, Get(Key(i))) << static_cast<int>(damage);
      }
      std::vector<std::string> names;
      for (int i = 0; i < kKeys; i += 50) names.push_back(Key(i));
      const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
      std::vector<std::string> values;
      for (const rocksdb::Status& s : db_->MultiGet(rocksdb::ReadOptions(), keys, &values)) {
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
      std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
      int seen = 0;
      for (it->SeekToFirst(); it->Valid(); it->Next()) seen++;
      ASSERT_TRUE(it->status().ok()) << it->status().ToString();
      EXPECT_EQ(kKeys, seen);
      EXPECT_GT(damaging->hits, 100u);
    }
  }
}

}  // namespace
}  // namespace cairn
