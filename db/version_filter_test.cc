// What a trie's Get and MultiGet answer with a VersionFilter is what RocksDB's own way answers, whatever comes between.

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/version_filter_fixture.h"

namespace cairn::test {
namespace {

TEST_F(VersionFilterTest, AbsentKeysAreKeptFromTheTablesThatRocksdbWouldAsk) {
  Open();
  Load(12);
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), true));
  ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));
  ASSERT_OK(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
  Load(4);
  MakeFilter();
  const auto kept_from = [&](uint64_t number) {
    std::string value;
    const uint64_t before = Ticker(rocksdb::BLOOM_FILTER_USEFUL) + Ticker(rocksdb::BLOOM_FILTER_FULL_POSITIVE);
    EXPECT_TRUE(db_->Get(ReadOptions(), KeyOf(number), &value).IsNotFound());
    return Ticker(rocksdb::BLOOM_FILTER_USEFUL) + Ticker(rocksdb::BLOOM_FILTER_FULL_POSITIVE) - before;
  };
  uint64_t with = 0, without = 0;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  for (uint64_t i = kKeys; i < kAllKeys; ++i) with += kept_from(i);
  const uint64_t counted =
      rocksdb::get_perf_context()->bloom_sst_miss_count + rocksdb::get_perf_context()->bloom_sst_hit_count;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  const OwnWay own_way;
  for (uint64_t i = kKeys; i < kAllKeys; ++i) without += kept_from(i);
  EXPECT_GT(with, 3 * (kAllKeys - kKeys));
  EXPECT_EQ(with, counted);
  // Only keys beyond a table's smallest and largest differ.
  EXPECT_GE(with, without);
  EXPECT_LT(static_cast<double>(with), 1.1 * static_cast<double>(without));
}

TEST_F(VersionFilterTest, ReadsOfTablesAreSampledAllTheSame) {
  Open();
  Load(3);
  const auto sampled = [&] {
    rocksdb::ColumnFamilyMetaData metadata;
    db_->GetColumnFamilyMetaData(&metadata);
    uint64_t reads = 0;
    for (const auto& level : metadata.levels) {
      for (const auto& file : level.files) reads += file.num_reads_sampled;
    }
    return reads;
  };
  MakeFilter();
  const uint64_t before = sampled();
  std::string value;
  for (int i = 0; i < 60000; ++i)
    ASSERT_TRUE(db_->Get(ReadOptions(), "absent" + std::to_string(i), &value).IsNotFound());
  EXPECT_GT(sampled(), before);
}

TEST_F(VersionFilterTest, WhatIsInMemtablesIsSeen) {
  Open();
  Load(2);
  MakeFilter();
  std::string value;
  ASSERT_OK(db_->Merge(WriteOptions(), KeyOf(kKeys + 1), "operand"));
  ASSERT_OK(db_->Get(ReadOptions(), KeyOf(kKeys + 1), &value));
  EXPECT_EQ("operand", value);
  ASSERT_OK(db_->Put(WriteOptions(), KeyOf(kKeys + 2), "new"));
  ASSERT_OK(db_->Delete(WriteOptions(), KeyOf(3)));
  model_[KeyOf(kKeys + 1)] = "operand";
  model_[KeyOf(kKeys + 2)] = "new";
  model_.erase(KeyOf(3));
  CheckAll();
}

// Where filters are: all in memory, some, none.
class FilterResidencyTest : public VersionFilterTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_OK(rocksdb::TableFactory::CreateFromString(
        rocksdb::ConfigOptions(),
        "id=cairn.HTable;" + std::string(GetParam()) + ";table={id=BlockBasedTable;block_cache={capacity=5000}}",
        &options_.table_factory));
  }
};
INSTANTIATE_TEST_SUITE_P(All, FilterResidencyTest,
                         ::testing::Values("filter_residency=pinned", "filter_residency=cache",
                                           "filter_residency=disk"));

// Every kind of write, flushes, compactions, ingestion and openings, with snapshots: always what a map says.
TEST_P(FilterResidencyTest, AnswersAreTheModels) {
  const uint64_t seed = SeedFromEnvironment();
  Random random(seed);
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Open();
  uint64_t made = 0, files = 0;
  std::vector<std::pair<const rocksdb::Snapshot*, Model>> snapshots;
  const auto release_all = [&] {
    for (auto& [snapshot, model] : snapshots) db_->ReleaseSnapshot(snapshot);
    snapshots.clear();
  };
  for (int step = 0; step < 120; ++step) {
    for (int i = 0; i < 100; ++i) {
      const std::string key = KeyOf(random.Uniform(kKeys));
      const std::string value = "v" + std::to_string(random.Next()) + std::string(random.Uniform(60), 'x');
      const uint64_t kind = random.Uniform(10);
      if (kind < 6) {
        ASSERT_OK(db_->Put(WriteOptions(), key, value));
        model_[key] = value;
      } else if (kind < 8) {
        ASSERT_OK(db_->Merge(WriteOptions(), key, value));
        model_[key] = value;
      } else {
        ASSERT_OK(db_->Delete(WriteOptions(), key));
        model_.erase(key);
      }
    }
    switch (random.Uniform(12)) {
      case 0: {
        const std::string file = dir_ / ("ingested" + std::to_string(++files));
        std::map<std::string, std::string> records;
        for (int i = 0; i < 40; ++i) records[KeyOf(random.Uniform(kKeys))] = "ingested" + std::to_string(step);
        ASSERT_OK(WriteTable(file, db_->GetOptions(), records, db_->DefaultColumnFamily()));
        for (const auto& [key, value] : records) model_[key] = value;
        ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {file}, {}));
        break;
      }
      case 1:
        ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), true));
        break;
      case 2:
        made += Made();
        release_all();
        Open();
        break;
      case 3:
        snapshots.emplace_back(db_->GetSnapshot(), model_);
        break;
      case 4:
        release_all();
        break;
      default:
        ASSERT_OK(db_->Flush(FlushOptions()));
    }
    for (int i = 0; i < 150; ++i) {
      ASSERT_NO_FATAL_FAILURE(CheckKey(ReadOptions(), model_, random.Uniform(kAllKeys))) << "step " << step;
    }
    ASSERT_NO_FATAL_FAILURE(CheckBatch(ReadOptions(), model_, random.Uniform(kAllKeys), 1 + random.Uniform(70)));
    for (const auto& [snapshot, model] : snapshots) {
      ReadOptions old;
      old.snapshot = snapshot;
      for (int i = 0; i < 20; ++i) {
        ASSERT_NO_FATAL_FAILURE(CheckKey(old, model, random.Uniform(kAllKeys))) << "step " << step;
      }
      ASSERT_NO_FATAL_FAILURE(CheckBatch(old, model, random.Uniform(kAllKeys), 1 + random.Uniform(70)));
    }
  }
  release_all();
  CheckAll();
  EXPECT_GT(made + Made(), 60u);
}

// Two families in hash order whose numbers share a slot, and one that has no filter.
TEST_F(VersionFilterTest, FamiliesKeepToTheirOwn) {
  Open();
  std::vector<ColumnFamilyHandle*> families;
  rocksdb::ColumnFamilyOptions leveled = OptionsOf(*FindEngine("leveled"));
  for (int i = 1; i <= 65; ++i) {
    ColumnFamilyHandle* family = nullptr;
    ASSERT_OK(db_->CreateColumnFamily(i == 1 || i == 65 ? rocksdb::ColumnFamilyOptions(options_) : leveled,
                                      std::to_string(i), &family));
    families.push_back(family);
  }
  const std::vector<ColumnFamilyHandle*> asked = {families[0], families[64], families[1]};
  for (int round = 0; round < 4; ++round) {
    for (size_t f = 0; f < asked.size(); ++f) {
      for (uint64_t i = f; i < 600; i += asked.size()) ASSERT_OK(db_->Put(WriteOptions(), asked[f], KeyOf(i), "value"));
      ASSERT_OK(db_->Flush(FlushOptions(), asked[f]));
      for (uint64_t i = 0; i < 600; ++i) {
        for (size_t g = 0; g < asked.size(); ++g) {
          std::string value;
          const bool there = i % asked.size() == g && (round > 0 || g <= f);
          ASSERT_EQ(there, db_->Get(ReadOptions(), asked[g], KeyOf(i), &value).ok()) << round << f << g << i;
        }
      }
    }
  }
  EXPECT_GT(Made(), 4u);
  for (ColumnFamilyHandle* family : families) {
    ASSERT_OK(db_->DropColumnFamily(family));
    ASSERT_OK(db_->DestroyColumnFamilyHandle(family));
  }
}

// Where a table cannot be asked in memory RocksDB asks it.
class OtherTablesTest : public VersionFilterTest, public ::testing::WithParamInterface<const char*> {
 protected:
  OtherTablesTest() : VersionFilterTest(GetParam()) {}
};

TEST_P(OtherTablesTest, AnswersAreTheModels) {
  Open();
  for (int round = 0; round < 3; ++round) {
    Load(4);
    CheckAll();
    ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), true));
    CheckAll();
    CheckAll();
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, OtherTablesTest,
                         ::testing::Values("trie_tiny", "trie_ect", "trie_htable_ect", "ordered_trie"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_F(VersionFilterTest, TablesOfSeveralFormatsAtOnce) {
  Open();
  Load(4);
  const auto of_htables = options_.table_factory;
  // HTables, a block-based table of the same order, and HTables over it.
  options_.table_factory = OptionsOf(*FindEngine("trie_tiny")).table_factory;
  options_.disable_auto_compactions = true;
  Open();
  if (HasFatalFailure()) return;
  for (uint64_t i = 0; i < kKeys; i += 3) {
    model_[KeyOf(i + kKeys)] = "block-based";
    ASSERT_OK(db_->Put(WriteOptions(), KeyOf(i + kKeys), "block-based"));
  }
  ASSERT_OK(db_->Flush(FlushOptions()));
  options_.table_factory = of_htables;
  Open();
  CheckAll();
  CheckAll();
}

TEST_F(VersionFilterTest, TablesThatSpanContainers) {
  HashTrieOptions trie;
  ASSERT_TRUE(IsHashTrie(options_, &trie));
  Open();
  Load(12);
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), true));
  Load(3);
  ASSERT_OK(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
  // Containers of the new shape are parts of the old one's.
  trie.fan_out *= 2;
  const auto of_htables = options_.table_factory;
  ASSERT_OK(UseTrie(&options_, trie));
  options_.disable_auto_compactions = true;
  options_.table_factory = of_htables;
  Open();
  if (HasFatalFailure()) return;
  // What is not split yet stays as it is: some tables hold keys of several containers.
  MakeFilter();
  rocksdb::ColumnFamilyMetaData metadata;
  db_->GetColumnFamilyMetaData(&metadata);
  EXPECT_LT(metadata.file_count, 100u);
  CheckAll();
}

// As with a RocksDB that keeps its filters in the block cache. The share of it changes while the database is open.
TEST_F(VersionFilterTest, FiltersThatAreNotInMemory) {
  ASSERT_OK(rocksdb::TableFactory::CreateFromString(rocksdb::ConfigOptions(),
                                                    "id=cairn.HTable;table={id=BlockBasedTable;block_cache={capacity="
                                                    "100000};cache_index_and_filter_blocks=true}",
                                                    &options_.table_factory));
  Open();
  const auto in_memory = [&] {
    std::string text;
    EXPECT_TRUE(db_->GetProperty("cairn.stats.json", &text));
    const auto depths = nlohmann::json::parse(text)["depths"];
    uint64_t bytes = 0;
    for (const auto& depth : depths) bytes += depth["filter_memory_bytes"].get<uint64_t>();
    return bytes;
  };
  Load(4);
  CheckAll();
  EXPECT_GT(in_memory(), 0u);
  EXPECT_GT(Made(), 0u);
  ASSERT_OK(db_->SetOptions({{"table_factory.filter_memory_share", "0"}}));
  Load(2);
  CheckAll();
  EXPECT_EQ(in_memory(), 0u);
  ASSERT_OK(db_->SetOptions({{"table_factory.filter_memory_share", "1"}}));
  Load(2);
  CheckAll();
  EXPECT_GT(in_memory(), 0u);
  // RocksDB sets it in the factory itself. What is refused must not stay there.
  for (const char* bad : {"2", "-1", "nan", "0.5x", "x"}) {
    EXPECT_TRUE(db_->SetOptions({{"table_factory.filter_memory_share", bad}}).IsInvalidArgument()) << bad;
    EXPECT_OK(db_->SetOptions({{"write_buffer_size", "65536"}}));
  }
  EXPECT_EQ(db_->GetOptions().table_factory->GetOptions<FilterOptions>("cairn.HTable.filter")->memory_share, 1);
}

// Whoever copies options clones the factory, and options may be read into the original afterwards.
TEST_F(VersionFilterTest, AClonedFactoryTakesOptions) {
  const auto clone = options_.table_factory->Clone();
  ASSERT_OK(options_.table_factory->ConfigureFromString(rocksdb::ConfigOptions(), "filter_bits=0"));
  Open();
  Load(1);
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(db_->GetPropertiesOfAllTables(&tables));
  ASSERT_FALSE(tables.empty());
  for (const auto& [file, properties] : tables) EXPECT_EQ(properties->filter_size, 0u) << file;
}

TEST_F(VersionFilterTest, AFewOpenFiles) {
  options_.max_open_files = 20;
  Open();
  Load(12);
  CheckAll();
  CheckAll();
}

// Readers of keys that stay, of keys that are never written, and of keys that come, while tables come and go.
TEST_P(FilterResidencyTest, NothingIsMissedWhileTablesComeAndGo) {
  constexpr uint64_t kStable = 400;
  options_.max_background_jobs = 3;
  Open();
  for (uint64_t i = 0; i < kStable; ++i) ASSERT_OK(db_->Put(WriteOptions(), KeyOf(i), "stable"));
  ASSERT_OK(db_->Flush(FlushOptions()));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> written{kStable};  // all below are there
  std::atomic<uint64_t> wrong{0};
  const auto read = [&](uint64_t seed) {
    Random random(seed);
    std::vector<rocksdb::PinnableSlice> values(16);
    std::vector<Status> statuses(16);
    while (!stop) {
      const uint64_t there = written;
      std::string value;
      if (!db_->Get(ReadOptions(), KeyOf(random.Uniform(there)), &value).ok()) ++wrong;
      if (!db_->Get(ReadOptions(), "absent" + std::to_string(random.Next()), &value).IsNotFound()) ++wrong;
      std::vector<std::string> names;
      for (int i = 0; i < 16; ++i) {
        names.push_back(i % 2 == 0 ? KeyOf(random.Uniform(there)) : "absent" + std::to_string(random.Next()));
      }
      const std::vector<Slice> keys(names.begin(), names.end());
      for (auto& pinned : values) pinned.Reset();
      db_->MultiGet(ReadOptions(), db_->DefaultColumnFamily(), 16, keys.data(), values.data(), statuses.data());
      for (size_t i = 0; i < 16; ++i) wrong += (i % 2 == 0 ? statuses[i].ok() : statuses[i].IsNotFound()) ? 0 : 1;
    }
  };
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 3; ++i) readers.emplace_back(read, i);
  const std::string dropped = "dropped";
  for (int step = 0; step < 250; ++step) {
    for (int i = 0; i < 60; ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), KeyOf(written), std::string(80, 'x')));
      ++written;
    }
    if (step % 3 == 0) ASSERT_OK(db_->Flush(FlushOptions()));
    if (step % 80 == 79) ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), true));
    if (step % 25 == 24) {
      ColumnFamilyHandle* family = nullptr;
      ASSERT_OK(db_->CreateColumnFamily(options_, dropped, &family));
      ASSERT_OK(db_->Put(WriteOptions(), family, "key", "value"));
      ASSERT_OK(db_->Flush(FlushOptions(), family));
      std::string value;
      for (int i = 0; i < 60; ++i) {
        ASSERT_OK(db_->Get(ReadOptions(), family, "key", &value));
        ASSERT_TRUE(db_->Get(ReadOptions(), family, "none" + std::to_string(i), &value).IsNotFound());
      }
      ASSERT_OK(db_->DropColumnFamily(family));
      ASSERT_OK(db_->Get(ReadOptions(), family, "key", &value));
      ASSERT_OK(db_->DestroyColumnFamilyHandle(family));
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(0u, wrong);
  EXPECT_GT(Made(), 10u);
}

}  // namespace
}  // namespace cairn::test
