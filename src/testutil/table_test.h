// A database of one column family in hash order, for the tests of a table format.

#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "src/hash_order/hash_order.h"
#include "src/port/open_into.h"
#include "src/testutil/assert_ok.h"
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
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options_, path_, port::Into(&db));
    db_.reset(db);
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

  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace cairn
