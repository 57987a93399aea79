// A database of a trie whose lookups go by VersionFilters, and a map that says what is in it.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/wide_columns.h"
#include "test/support.h"
#include "test/testutil/own_way.h"
#include "trie_table/htable/version_filter.h"

namespace cairn::test {

constexpr uint64_t kKeys = 1500;     // that are ever written
constexpr uint64_t kAllKeys = 3000;  // that are asked for

inline std::string KeyOf(uint64_t number) { return "key" + std::to_string(number * 7919); }

class VersionFilterTest : public ::testing::Test {
 protected:
  using Model = std::map<std::string, std::string>;

  explicit VersionFilterTest(const char* engine = "trie_htable") : options_(OptionsOf(*FindEngine(engine))) {
    options_.merge_operator = std::make_shared<LastOperator>();
    options_.statistics = rocksdb::CreateDBStatistics();
  }

  void Open() {
    db_.reset();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db)));
    db_.reset(db);
  }

  uint64_t Made() { return CairnDB::Of(db_.get())->services()->version_filters()->made(); }
  uint64_t Ticker(rocksdb::Tickers ticker) { return options_.statistics->getTickerCount(ticker); }

  // Until there is a filter for the present Version.
  void MakeFilter() {
    std::string value;
    const uint64_t before = Made();
    for (int i = 0; i < 100000 && Made() == before; ++i)
      db_->Get(ReadOptions(), "in no memtable", &value).PermitUncheckedError();
    ASSERT_GT(Made(), before);
  }

  void Load(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        model_[KeyOf(i)] = "value" + std::to_string(i + static_cast<uint64_t>(round));
        ASSERT_OK(db_->Put(WriteOptions(), KeyOf(i), model_[KeyOf(i)]));
      }
      ASSERT_OK(db_->Flush(FlushOptions()));
    }
  }

  void CheckKey(const ReadOptions& options, const Model& model, uint64_t number) {
    const auto found = model.find(KeyOf(number));
    std::string value;
    const Status s = db_->Get(options, KeyOf(number), &value);
    if (found == model.end()) {
      ASSERT_TRUE(s.IsNotFound()) << KeyOf(number) << ": " << s.ToString();
    } else {
      ASSERT_TRUE(s.ok()) << KeyOf(number) << ": " << s.ToString();
      ASSERT_EQ(found->second, value) << KeyOf(number);
    }
    rocksdb::PinnableWideColumns columns;
    ASSERT_EQ(s.code(), db_->GetEntity(options, db_->DefaultColumnFamily(), KeyOf(number), &columns).code());
    ASSERT_TRUE(found == model.end() || db_->KeyMayExist(options, KeyOf(number), &value)) << KeyOf(number);
  }

  void CheckBatch(const ReadOptions& options, const Model& model, uint64_t first, size_t count) {
    std::vector<std::string> names;
    for (uint64_t i = 0; i < count; ++i) names.push_back(KeyOf((first + i * 17) % kAllKeys));
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(count);
    std::vector<Status> statuses(count);
    db_->MultiGet(options, db_->DefaultColumnFamily(), count, keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < count; ++i) {
      const auto found = model.find(names[i]);
      if (found == model.end()) {
        ASSERT_TRUE(statuses[i].IsNotFound()) << names[i] << ": " << statuses[i].ToString();
      } else {
        ASSERT_TRUE(statuses[i].ok()) << names[i] << ": " << statuses[i].ToString();
        ASSERT_EQ(found->second, values[i].ToString()) << names[i];
      }
    }
  }

  void CheckAll() {
    for (uint64_t i = 0; i < kAllKeys; ++i) CheckKey(ReadOptions(), model_, i);
    for (uint64_t i = 0; i < kAllKeys; i += 32) CheckBatch(ReadOptions(), model_, i, 40);
  }

  TempDir dir_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  Model model_;
};

}  // namespace cairn::test
