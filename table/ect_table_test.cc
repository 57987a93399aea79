#include "table/ect_table.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "table/ect_table_index.h"
#include "table/hash_order.h"
#include "table/test_seed.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

std::string Key(uint64_t i) { return "key" + std::to_string(i); }

class EctTableTest : public testing::Test {
 protected:
  EctTableTest() {
    path_ = testing::TempDir() + "ect_table_test." + std::to_string(getpid());
    std::filesystem::remove_all(path_);
    rocksdb::BlockBasedTableOptions block_options;
    block_options.no_block_cache = true;
    EctTableOptions table_options;
    table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
    options_.create_if_missing = true;
    options_.comparator = HashOrderComparator(HashKind::kXxh3, 7);
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options_.compression = rocksdb::kNoCompression;
    options_.statistics = rocksdb::CreateDBStatistics();
    options_.table_factory.reset(NewEctTableFactory(table_options));
  }
  ~EctTableTest() override {
    Close();
    std::filesystem::remove_all(path_);
  }

  void Close() { db_.reset(); }
  rocksdb::Status Open() {
    Close();
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options_, path_, &db);
    db_.reset(db);
    return status;
  }
  void OpenGood() {
    const rocksdb::Status status = Open();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), key, value).ok());
  }
  void Flush() { ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok()); }
  void CompactAll() {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db_->CompactRange(all, nullptr, nullptr).ok());
  }
  std::string Get(const std::string& key, const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    std::string value;
    const rocksdb::Status status = db_->Get(read, key, &value);
    if (status.IsNotFound()) return "-";
    EXPECT_TRUE(status.ok()) << status.ToString();
    return value;
  }
  rocksdb::TablePropertiesCollection Properties() {
    rocksdb::TablePropertiesCollection properties;
    EXPECT_TRUE(db_->GetPropertiesOfAllTables(&properties).ok());
    return properties;
  }

  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(EctTableTest, AgreesWithAModel) {
  std::mt19937_64 random(Seed());
  for (const rocksdb::CompressionType compression : {rocksdb::kNoCompression, rocksdb::kSnappyCompression}) {
    options_.compression = compression;
    options_.write_buffer_size = 256 << 10;
    Close();
    std::filesystem::remove_all(path_);
    OpenGood();
    std::map<std::string, std::string> model;
    for (int step = 0; step < 30000; ++step) {
      const std::string key = Key(random() % 5000);
      switch (random() % 8) {
        case 0:
          ASSERT_TRUE(db_->Delete(rocksdb::WriteOptions(), key).ok());
          model.erase(key);
          break;
        case 1: {
          ASSERT_TRUE(db_->Merge(rocksdb::WriteOptions(), key, "m").ok());
          std::string& value = model[key];
          value += value.empty() ? "m" : ",m";
          break;
        }
        default: {
          const std::string value(1 + random() % (random() % 100 == 0 ? 20000 : 200),
                                  static_cast<char>('a' + step % 26));
          Put(key, value);
          model[key] = value;
        }
      }
      if (random() % 5000 == 0) Flush();
      if (random() % 10000 == 0) CompactAll();
      if (random() % 10000 == 0) OpenGood();
    }
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 6000; ++i) {
        const auto found = model.find(Key(i));
        ASSERT_EQ(found == model.end() ? "-" : found->second, Get(Key(i))) << Key(i);
      }
      std::vector<std::string> keys;
      for (const auto& [key, value] : model) keys.push_back(key);
      std::sort(keys.begin(), keys.end(),
                [&](const std::string& a, const std::string& b) { return options_.comparator->Compare(a, b) < 0; });
      std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
      size_t at = 0;
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
        ASSERT_EQ(keys[at], it->key().ToString());
        ASSERT_EQ(model[keys[at]], it->value().ToString());
      }
      ASSERT_EQ(keys.size(), at);
      for (it->SeekToLast(); it->Valid(); it->Prev()) ASSERT_EQ(keys[--at], it->key().ToString());
      ASSERT_EQ(0u, at);
      it->Seek(keys[keys.size() / 2]);
      ASSERT_EQ(keys[keys.size() / 2], it->key().ToString());
      // Many keys at once.
      std::vector<rocksdb::Slice> asked;
      std::vector<std::string> names, values;
      for (int i = 0; i < 100; ++i) names.push_back(Key(random() % 6000));
      for (const std::string& name : names) asked.push_back(name);
      const std::vector<rocksdb::Status> statuses = db_->MultiGet(rocksdb::ReadOptions(), asked, &values);
      for (size_t i = 0; i < names.size(); ++i) {
        const auto found = model.find(names[i]);
        ASSERT_EQ(found == model.end(), statuses[i].IsNotFound());
        if (found != model.end()) {
          ASSERT_EQ(found->second, values[i]);
        }
      }
      it.reset();
      CompactAll();
    }
  }
}

TEST_F(EctTableTest, VersionsThatRunOverManyBlocks) {
  options_.level0_file_num_compaction_trigger = 100;
  OpenGood();
  std::mt19937_64 random(Seed());
  std::vector<const rocksdb::Snapshot*> snapshots;
  for (int i = 0; i < 300; ++i) {
    for (uint64_t key = 0; key < 5; ++key) Put(Key(key), Key(key) + "@" + std::to_string(i) + std::string(200, '.'));
    Put(Key(1000 + i), "between");
    snapshots.push_back(db_->GetSnapshot());
  }
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 300; ++i) {
      for (uint64_t key = 0; key < 5; ++key) {
        ASSERT_EQ(Key(key) + "@" + std::to_string(i) + std::string(200, '.'), Get(Key(key), snapshots[i]));
      }
      ASSERT_EQ("between", Get(Key(1000 + i), snapshots[i]));
      ASSERT_EQ(i == 0 ? "-" : "between", Get(Key(1000 + i - 1 + (i == 0 ? 1000 : 0)), snapshots[i]));
    }
    if (round == 0) Flush();
    if (round == 0) CompactAll();
  }
  EXPECT_EQ(1u, Properties().size());
  for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
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
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  const auto reads = [&](uint64_t begin) {
    rocksdb::get_perf_context()->Reset();
    for (uint64_t i = begin; i < begin + keys; ++i) Get(Key(i));
    return rocksdb::get_perf_context()->block_read_count;
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
    EXPECT_EQ(1u, properties->user_collected_properties.count(kEctProperty));
    EXPECT_EQ(0u, properties->user_collected_properties.count(kCuckooProperty)) << "a filter in the last level";
    const double bits = 8.0 * static_cast<double>(properties->user_collected_properties.at(kEctProperty).size()) /
                        static_cast<double>(properties->num_entries);
    EXPECT_LT(bits, 2.0);
  }
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
}

TEST_F(EctTableTest, CacheOnlyReadsSayThatTheyDoNotKnow) {
  rocksdb::BlockBasedTableOptions block_options;
  EctTableOptions table_options;
  table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  options_.table_factory.reset(NewEctTableFactory(table_options));
  OpenGood();
  Put("a", "1");
  Flush();
  OpenGood();
  rocksdb::ReadOptions cache_only;
  cache_only.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  EXPECT_TRUE(db_->Get(cache_only, "a", &value).IsIncomplete());
  EXPECT_EQ("1", Get("a"));
  EXPECT_TRUE(db_->Get(cache_only, "a", &value).ok());
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
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < 2000; ++i) keys.push_back(Key(i));
  std::sort(keys.begin(), keys.end(),
            [&](const std::string& a, const std::string& b) { return options_.comparator->Compare(a, b) < 0; });
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
  const std::string file = path_ + ".sst";
  ASSERT_TRUE(writer.Open(file).ok());
  for (const std::string& key : keys) ASSERT_TRUE(writer.Put(key, "ingested").ok());
  ASSERT_TRUE(writer.Finish().ok());
  ASSERT_TRUE(db_->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions()).ok());
  for (const std::string& key : keys) ASSERT_EQ("ingested", Get(key));
  std::filesystem::remove(file);
}

TEST_F(EctTableTest, OptionsSurviveTheOptionsFile) {
  options_.table_factory = nullptr;
  const rocksdb::ConfigOptions config;
  const rocksdb::Status parsed = rocksdb::TableFactory::CreateFromString(
      config, "{id=cairn.EctTable;group=128;filter_tag_bits=12;table={id=BlockBasedTable;block_size=8192}}",
      &options_.table_factory);
  ASSERT_TRUE(parsed.ok()) << parsed.ToString();
  OpenGood();
  Put("a", "1");
  Flush();
  Close();
  rocksdb::DBOptions db_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_TRUE(rocksdb::LoadLatestOptions(config, path_, &db_options, &families).ok());
  const auto& factory = families[0].options.table_factory;
  ASSERT_STREQ("cairn.EctTable", factory->Name());
  const std::string text = factory->ToString(config);
  EXPECT_NE(std::string::npos, text.find("group=128")) << text;
  EXPECT_NE(std::string::npos, text.find("filter_tag_bits=12")) << text;
  EXPECT_EQ(8192u, factory->GetOptions<rocksdb::BlockBasedTableOptions>()->block_size);
  options_ = rocksdb::Options(db_options, families[0].options);
  OpenGood();
  EXPECT_EQ("1", Get("a"));
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
  const auto collection = Properties();
  const rocksdb::TableProperties& good = *collection.begin()->second;
  std::unique_ptr<EctTableIndex> index;
  ASSERT_TRUE(EctTableIndex::Open(collection.begin()->second, &index).ok());
  std::mt19937_64 random(Seed());
  for (const char* name : {kEctProperty, kCuckooProperty}) {
    const std::string& bytes = good.user_collected_properties.at(name);
    for (size_t at = 0; at < bytes.size(); ++at) {
      const auto damaged = std::make_shared<rocksdb::TableProperties>(good);
      std::string& changed = damaged->user_collected_properties[name];
      if (at % 2 == 0) {
        changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      } else {
        changed.resize(at);
      }
      if (!EctTableIndex::Open(damaged, &index).ok()) {
        ASSERT_EQ(nullptr, index);
        continue;
      }
      for (int i = 0; i < 100; ++i) {
        const BlockRun run = index->Find(random());
        for (uint64_t block = run.first; block <= run.last; ++block) {
          uint64_t offset, size;
          index->Locate(block, &offset, &size);
          ASSERT_LE(offset + size, good.data_size);
        }
      }
    }
  }
  rocksdb::TableProperties without = good;
  without.user_collected_properties.clear();
  EXPECT_TRUE(EctTableIndex::Open(std::make_shared<rocksdb::TableProperties>(without), &index).IsNotFound());
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
