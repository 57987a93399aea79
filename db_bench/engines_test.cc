#include "db_bench/engines.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "cairn/engines.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "db/engine_table.h"
#include "db_bench/keys.h"
#include "db_bench/measure.h"
#include "rocksdb/port/open_into.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {
namespace {

TEST(Engines, NamesAreDistinctAndFound) {
  std::set<std::string> names;
  for (const Engine& engine : Engines()) {
    names.insert(engine.name);
    EXPECT_EQ(FindEngine(engine.name), &engine);
    EXPECT_NE(EngineNames().find(engine.name), std::string::npos);
  }
  EXPECT_EQ(names.size(), Engines().size());
  EXPECT_EQ(FindEngine("no such engine"), nullptr);
}

// Each row of the table of engines is one here, too, but for what RocksDB's leveled engine is under another name.
TEST(Engines, EachRowOfTheTableIsOne) {
  for (const EngineRow& row : EngineTable()) {
    const std::string name = row.name;
    if (name == kStockEngine || name == "sub_memtables") continue;
    const Engine* engine = FindEngine(name);
    ASSERT_NE(engine, nullptr) << name;
    EXPECT_EQ(engine->key_order == KeyOrder::kBytes, row.keeps_key_order) << name;
    EXPECT_STREQ(engine->summary, row.summary);
  }
}

TEST(Engines, SettingsReachTheOptions) {
  for (const Engine& engine : Engines()) {
    SCOPED_TRACE(engine.name);
    EngineSettings settings;
    settings.write_buffer_size = 3 << 20;
    settings.background_jobs = 5;
    settings.level0_trigger = 6;
    Options options;
    ASSERT_TRUE(engine.configure(settings, &options).ok());
    EXPECT_EQ(options.write_buffer_size, 3u << 20);
    EXPECT_EQ(options.max_background_jobs, 5);
    SiltOptions silt;
    EXPECT_EQ(IsSilt(options, &silt) ? silt.max_hash_stores : options.level0_file_num_compaction_trigger, 6);
    EXPECT_EQ(options.compression, rocksdb::kNoCompression);
    EXPECT_NE(options.statistics, nullptr);
    settings.engine_options = "no_such_option=1";
    EXPECT_FALSE(engine.configure(settings, &options).ok());
  }
}

Options WithTwelveFilterBits(const char* engine, const char* engine_options) {
  EngineSettings settings;
  settings.filter_bits = 12;
  settings.engine_options = engine_options;
  Options options;
  EXPECT_TRUE(FindEngine(engine)->configure(settings, &options).ok());
  return options;
}

TEST(Engines, TheTrieTakesItsShapeFromTheSettings) {
  HashTrieOptions trie;
  ASSERT_TRUE(IsHashTrie(WithTwelveFilterBits("trie_sst", "trigger=5;slots=9"), &trie));
  EXPECT_EQ(trie.trigger, 5);
  EXPECT_EQ(trie.slots, 9);
  EXPECT_EQ(trie.filter_bits, 12);
}

TEST(Engines, TriesHaveSubMemTablesUnlessToldOtherwise) {
  for (const char* engine : {"trie", "trie_sst", "trie_cached"}) {
    EngineSettings settings;
    Options options;
    const Engine* trie = FindEngine(engine);
    ASSERT_TRUE(trie->configure(settings, &options).ok());
    EXPECT_STREQ(options.memtable_factory->Name(), "cairn.SubMemTable") << engine;
    for (const char* name : {"skip_list", "vector"}) {
      settings.memtable = name;
      ASSERT_TRUE(trie->configure(settings, &options).ok());
      ASSERT_TRUE(UseMemtable(settings, &options).ok());
      EXPECT_TRUE(options.memtable_factory->IsInstanceOf(name)) << engine;
    }
    settings.memtable = "no_such";
    EXPECT_FALSE(UseMemtable(settings, &options).ok()) << engine;
  }
}

TEST(Engines, TheSiltStoreTakesItsShapeFromTheSettings) {
  const Options options = WithTwelveFilterBits("silt", "partitions=1;merge_trigger=5;merge_threads=3;group=128;seed=9");
  SiltOptions silt;
  ASSERT_TRUE(IsSilt(options, &silt));
  EXPECT_EQ(silt.merge_trigger, 5);
  EXPECT_EQ(options.max_subcompactions, 3u);
  EXPECT_EQ(silt.table.group, 128u);
  EXPECT_EQ(silt.table.filter_tag_bits, 11u);
  EXPECT_EQ(silt.seed, 9u);
}

// Each engine stores, overwrites and deletes, and what is counted of it is plausible.
TEST(Engines, EachStoresAndIsMeasured) {
  constexpr uint64_t kKeys = 20000;
  for (const Engine& engine : Engines()) {
    SCOPED_TRACE(engine.name);
    ScratchFolder folder;
    ASSERT_TRUE(folder.Create("", "engines_test_").ok());
    EngineSettings settings;
    settings.write_buffer_size = 256 << 10;
    Options options;
    ASSERT_TRUE(engine.configure(settings, &options).ok());
    DB* raw = nullptr;
    rocksdb::Status s = engine.open(options, folder.path() + "/db", &raw);
    ASSERT_TRUE(s.ok()) << s.ToString();
    std::unique_ptr<DB> db(raw);
    ValueSource values(1);
    std::atomic<uint64_t> live{0};
    SpaceSampler sampler(raw, folder.path() + "/db", &live, 1 << 20);
    for (uint64_t round = 0; round < 3; round++) {
      for (uint64_t i = 0; i < kKeys; i++) {
        char key[kKeyBytes];
        EncodeKey(i, key);
        ASSERT_TRUE(
            db->Put(rocksdb::WriteOptions(), rocksdb::Slice(key, kKeyBytes), values.Value(i, 100 + round)).ok());
      }
      live = kKeys * (kKeyBytes + 100 + round);
    }
    s = engine.settle(raw);
    ASSERT_TRUE(s.ok()) << s.ToString();
    sampler.Stop();
    EXPECT_GT(sampler.max_table_file_bytes(), 0u);

    ResetLookupCounters();
    for (uint64_t i = 0; i < kKeys; i++) {
      char key[kKeyBytes];
      EncodeKey(i, key);
      std::string value;
      ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), rocksdb::Slice(key, kKeyBytes), &value).ok());
      ASSERT_EQ(value, values.Value(i, 102).ToString());
    }
    LookupCounters lookups = ReadLookupCounters();
    EXPECT_GE(lookups.blocks_read + lookups.blocks_cached, kKeys);
    if (engine.name != std::string("silt")) {  // whose last level has no filter
      EXPECT_GE(lookups.filter_passes, kKeys);
    }

    uint64_t ingested = 3 * kKeys * (kKeyBytes + 101);
    WriteCounters written = ReadWriteCounters(*options.statistics);
    EXPECT_GE(written.flush_bytes, ingested);
    EXPECT_LT(written.flush_bytes, 2 * ingested);
    EXPECT_GT(written.compaction_bytes, 0u);
    EXPECT_GE(written.wal_bytes, ingested);
    const uint64_t tables = LiveTableBytes(raw);
    EXPECT_GE(tables, live.load());
    EXPECT_LT(tables,
              written.flush_bytes + written.flush_bytes / 10);  // universal may have merged nothing yet
    EXPECT_GE(DirectoryBytes(folder.path()), tables);
    EXPECT_GT(sampler.max_live_tables(), 0);
    EXPECT_GT(sampler.max_table_files(), 0);
    EXPECT_GT(TableReaderMemory(raw), 0u);
    TreeShape shape = ReadShape(raw);
    EXPECT_GE(shape.files, shape.sorted_runs);
    EXPECT_GT(shape.sorted_runs, 0u);
    ASSERT_TRUE(db->Close().ok());
  }
}

// A table that no Version knows, as those that a running compaction has written so far, takes space all the same.
TEST(SpaceSampler, CountsTablesUnderWay) {
  constexpr uint64_t kUnderWay = 3 << 20;
  const Engine* engine = FindEngine("leveled");
  ScratchFolder folder;
  ASSERT_TRUE(folder.Create("", "engines_test_").ok());
  Options options;
  ASSERT_TRUE(engine->configure(EngineSettings(), &options).ok());
  std::unique_ptr<DB> db;
  ASSERT_TRUE(engine->open(options, folder.path(), port::Into(&db)).ok());
  ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), "key", "value").ok());
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  const uint64_t before = TableFileBytes(folder.path());
  EXPECT_GT(before, 0u);
  std::ofstream(folder.path() + "/999999.sst") << std::string(kUnderWay, 'x');
  std::ofstream(folder.path() + "/999999.log") << std::string(kUnderWay, 'x');
  const std::atomic<uint64_t> live{kUnderWay};
  SpaceSampler sampler(db.get(), folder.path(), &live, 0);
  sampler.Stop();
  EXPECT_EQ(sampler.max_table_file_bytes(), before + kUnderWay);
  EXPECT_GT(sampler.max_table_files(), 1);
  EXPECT_LT(sampler.max_live_tables(), 0.1);
  EXPECT_EQ(TableFileBytes(folder.path() + "/none"), 0u);
  ASSERT_TRUE(db->Close().ok());
}

}  // namespace
}  // namespace cairn::bench
