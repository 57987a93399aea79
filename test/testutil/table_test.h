// A database of one column family in hash order, for the tests of a table format.

#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "table/hash_order/hash_order.h"
#include "test/testutil/assert_ok.h"
#include "utilities/merge_operators.h"

namespace cairn {

class TableTest : public testing::Test {
 protected:
  // The folder is named after the test program.
  explicit TableTest(const std::string& program) {
    path_ = testing::TempDir() + program + "." + std::to_string(getpid());
    std::filesystem::remove_all(path_);
    options_.create_if_missing = true;
    options_.comparator = HashOrderComparator(HashKind::kXxh3, 7);
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options_.compression = rocksdb::kNoCompression;
    options_.statistics = rocksdb::CreateDBStatistics();
  }
  ~TableTest() override {
    Close();
    std::filesystem::remove_all(path_);
  }

  void Close() { db_.reset(); }
  rocksdb::Status Open() {
    Close();
    const rocksdb::Status status = rocksdb::DB::Open(options_, path_, port::Into(&db_));
    return status;
  }
  void OpenGood() { ASSERT_OK(Open()); }
  void OpenEmpty() {
    Close();
    std::filesystem::remove_all(path_);
    OpenGood();
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(rocksdb::WriteOptions(), key, value));
  }
  // One random write of the key, and the same to *model. A put is of what `value` returns.
  template <class Value>
  void Write(std::mt19937_64* random, const std::string& key, const Value& value,
             std::map<std::string, std::string>* model) {
    const uint64_t kind = (*random)() % 8;
    if (kind == 0) {
      ASSERT_OK(db_->Delete(rocksdb::WriteOptions(), key));
      model->erase(key);
    } else if (kind == 1) {
      ASSERT_OK(db_->Merge(rocksdb::WriteOptions(), key, "m"));
      const auto [entry, first] = model->emplace(key, "m");
      if (!first) entry->second += ",m";
    } else {
      Put(key, (*model)[key] = value());
    }
  }
  void Flush() { ASSERT_OK(db_->Flush(rocksdb::FlushOptions())); }
  void CompactAll() {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_OK(db_->CompactRange(all, nullptr, nullptr));
  }
  // "-" when it is not there.
  std::string Get(const std::string& key, const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    std::string value;
    const rocksdb::Status status = db_->Get(read, key, &value);
    if (status.IsNotFound()) return "-";
    EXPECT_OK(status);
    return value;
  }
  // Blocks that are read while `work` is done.
  template <class Work>
  static uint64_t BlocksReadBy(const Work& work) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    work();
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    return rocksdb::get_perf_context()->block_read_count;
  }
  // REQUIRES: the table factory's blocks are cached.
  void ExpectCacheOnlyReadsToSayThatTheyDoNotKnow() {
    OpenGood();
    Put("a", "1");
    Flush();
    OpenGood();
    rocksdb::ReadOptions cache_only;
    cache_only.read_tier = rocksdb::kBlockCacheTier;
    std::string value;
    EXPECT_TRUE(db_->Get(cache_only, "a", &value).IsIncomplete());
    EXPECT_EQ("1", Get("a"));
    EXPECT_OK(db_->Get(cache_only, "a", &value));
  }
  // Of keys with more versions than a block or page holds, in the memtable, a flushed table and one that is compacted.
  void ExpectEachSnapshotToSeeItsVersion() {
    const auto key = [](int i) { return "key" + std::to_string(i); };
    const auto value = [&](int k, int i) { return key(k) + "@" + std::to_string(i) + std::string(200, '.'); };
    std::vector<const rocksdb::Snapshot*> snapshots;
    for (int i = 0; i < 300; ++i) {
      for (int k = 0; k < 5; ++k) Put(key(k), value(k, i));
      Put(key(1000 + i), "between");
      snapshots.push_back(db_->GetSnapshot());
    }
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 300; ++i) {
        for (int k = 0; k < 5; ++k) ASSERT_EQ(value(k, i), Get(key(k), snapshots[i]));
        ASSERT_EQ("between", Get(key(1000 + i), snapshots[i]));
        ASSERT_EQ(i == 0 ? "between" : "-", Get(key(1000 + i), snapshots[i == 0 ? 0 : i - 1]));
      }
      if (round == 0) Flush();
      if (round == 1) CompactAll();
    }
    for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  }
  // In the order of the column family.
  std::vector<std::string> Sorted(const std::map<std::string, std::string>& model) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : model) keys.push_back(key);
    std::sort(keys.begin(), keys.end(),
              [&](const std::string& a, const std::string& b) { return options_.comparator->Compare(a, b) < 0; });
    return keys;
  }
  // The option string of a table factory is stored and read again: the factory, closed and opened with it.
  std::shared_ptr<rocksdb::TableFactory> ReopenFromOptionsFile(const std::string& text) {
    options_.table_factory = nullptr;
    const rocksdb::ConfigOptions config;
    EXPECT_OK(rocksdb::TableFactory::CreateFromString(config, text, &options_.table_factory));
    OpenGood();
    Put("a", "1");
    Flush();
    Close();
    rocksdb::DBOptions db_options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    EXPECT_OK(rocksdb::LoadLatestOptions(config, path_, &db_options, &families));
    options_ = rocksdb::Options(db_options, families.at(0).options);
    OpenGood();
    EXPECT_EQ("1", Get("a"));
    return options_.table_factory;
  }
  // `text` is the option string of a factory with this id, these options and this size of blocks.
  void ExpectToSurviveTheOptionsFile(const std::string& text, const char* id, const std::vector<std::string>& options,
                                     size_t block_size) {
    const auto factory = ReopenFromOptionsFile(text);
    EXPECT_STREQ(id, factory->Name());
    const std::string stored = factory->ToString(rocksdb::ConfigOptions());
    for (const std::string& option : options) EXPECT_NE(std::string::npos, stored.find(option)) << stored;
    EXPECT_EQ(block_size, factory->GetOptions<rocksdb::BlockBasedTableOptions>()->block_size);
  }

  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace cairn
