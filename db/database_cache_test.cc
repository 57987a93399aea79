// Every way to write, one after the other: what the result cache answers is what the tree holds. Reads of a snapshot
// pass by the cache, so they say what the tree holds.

#include "result_cache/database_cache.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/engines.h"
#include "cairn/result_cache.h"
#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "result_cache/database_cache_reads.h"
#include "result_cache/result_cache_listener.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/experimental.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/wide_columns.h"
#include "test/support.h"

namespace cairn::test {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::Options;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteOptions;

class AppendOperator : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "Append"; }
  bool Merge(const Slice& /*key*/, const Slice* existing, const Slice& value, std::string* result,
             rocksdb::Logger* /*logger*/) const override {
    *result = (existing == nullptr ? "" : existing->ToString() + ",") + value.ToString();
    return true;
  }
};

// "value", or what else Get says.
std::string Text(const Status& s, const Slice& value) { return s.ok() ? value.ToString() : s.ToString(); }

class DatabaseCacheTest : public ::testing::Test {
 protected:
  static Options CachedOptions(uint64_t capacity = 1 << 20) {
    Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.merge_operator = std::make_shared<AppendOperator>();
    DatabaseCacheOptions cache;
    cache.capacity = capacity;
    UseResultCache(cache, &options);
    return options;
  }
  void Open(const Options& options) {
    Close();
    DB* db = nullptr;
    ASSERT_OK(DB::Open(options, dir_ / "db", port::Into(&db)));
    Take(db);
  }
  void OpenWithCacheOf(const std::string& families) {
    Options options = CachedOptions();
    DatabaseCacheOptions cache;
    cache.column_families = families;
    UseResultCache(cache, &options);
    Open(options);
  }
  void Take(DB* db) {
    db_.reset(db);
    family_ = db->DefaultColumnFamily();
  }
  void Close() {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
    handles_.clear();
    db_.reset();
  }
  ~DatabaseCacheTest() override { Close(); }

  ColumnFamilyHandle* AddFamily(const std::string& name, const ColumnFamilyOptions& options) {
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_OK(db_->CreateColumnFamily(options, name, &handle));
    handles_.push_back(handle);
    return handle;
  }
  std::string Get(const std::string& key, ColumnFamilyHandle* family = nullptr) {
    rocksdb::PinnableSlice value;
    const Status s = db_->Get(ReadOptions(), family == nullptr ? family_ : family, key, &value);
    return Text(s, value);
  }
  std::string Tree(const std::string& key, ColumnFamilyHandle* family = nullptr) {
    ReadOptions options;
    options.snapshot = db_->GetSnapshot();
    rocksdb::PinnableSlice value;
    const Status s = db_->Get(options, family == nullptr ? family_ : family, key, &value);
    db_->ReleaseSnapshot(options.snapshot);
    return Text(s, value);
  }
  DatabaseCacheStats Stats() {
    DatabaseCacheStats stats;
    EXPECT_OK(GetDatabaseCacheStats(db_.get(), &stats));
    return stats;
  }
  uint64_t Hits() {
    const DatabaseCacheStats stats = Stats();
    return stats.cache.hits + stats.cache.absent_hits;
  }
  std::string CloseAndReadLog() {
    Close();
    std::ifstream log(dir_ / "db/LOG");
    return {std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
  }
  DatabaseCache* Cache() { return CairnDB::Of(db_.get())->services()->cache(); }

  // All keys are in the cache, then `change` happens: each Get and a MultiGet of all say what the tree holds, twice.
  void AfterEach(const std::string& what, ColumnFamilyHandle* family, const std::function<Status()>& change) {
    SCOPED_TRACE(what);
    for (const char* key : kKeys) Get(key, family);
    const uint64_t before = Hits();
    for (const char* key : kKeys) Get(key, family);
    EXPECT_GE(Hits(), before + std::size(kKeys) - 1) << "they are there";
    EXPECT_OK(change());
    for (int round = 0; round < 2; ++round) {
      for (const char* key : kKeys) EXPECT_EQ(Get(key, family), Tree(key, family)) << key;
      ExpectMultiGetIsRight(family);
    }
  }
  void ExpectMultiGetIsRight(ColumnFamilyHandle* family) {
    std::vector<Slice> keys(std::begin(kKeys), std::end(kKeys));
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet(ReadOptions(), family, keys.size(), keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_EQ(Text(statuses[i], values[i]), Tree(keys[i].ToString(), family)) << kKeys[i];
    }
  }

  static constexpr const char* kKeys[] = {"a", "b", "c", "d", "e", "f"};

  TempDir dir_;
  std::unique_ptr<DB> db_;
  ColumnFamilyHandle* family_ = nullptr;
  std::vector<ColumnFamilyHandle*> handles_;
};

TEST_F(DatabaseCacheTest, AnswersASecondGet) {
  Open(CachedOptions());
  ASSERT_OK(db_->Put(WriteOptions(), "k", "v"));
  EXPECT_EQ(Get("k"), "v");
  const uint64_t hits = Hits();
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Hits(), hits + 1);
  EXPECT_EQ(Get("absent"), "NotFound: ");
  EXPECT_EQ(Get("absent"), "NotFound: ");
  EXPECT_EQ(Stats().cache.absent_hits, 1u);
  std::string value;
  ASSERT_OK(db_->Get(ReadOptions(), "k", &value));
  EXPECT_EQ(value, "v");
  EXPECT_EQ(Hits(), hits + 3);
  std::string text;
  EXPECT_TRUE(db_->GetProperty("cairn.result_cache", &text));
  EXPECT_NE(text.find("result cache: on"), std::string::npos) << text;
  EXPECT_TRUE(db_->GetProperty("cairn.result_cache.json", &text));
}

// What an operator watches of reads: all that RocksDB counts for each Get, each MultiGet and each of their keys.
class ReadCounts {
 public:
  explicit ReadCounts(rocksdb::Statistics* statistics) {
    for (const rocksdb::Tickers ticker : {rocksdb::NUMBER_KEYS_READ, rocksdb::BYTES_READ,
                                          rocksdb::NUMBER_MULTIGET_CALLS, rocksdb::NUMBER_MULTIGET_KEYS_READ,
                                          rocksdb::NUMBER_MULTIGET_KEYS_FOUND, rocksdb::NUMBER_MULTIGET_BYTES_READ}) {
      counts_.emplace_back("ticker " + std::to_string(ticker), statistics->getTickerCount(ticker));
    }
    for (const rocksdb::Histograms name :
         {rocksdb::DB_GET, rocksdb::BYTES_PER_READ, rocksdb::DB_MULTIGET, rocksdb::BYTES_PER_MULTIGET}) {
      rocksdb::HistogramData histogram;
      statistics->histogramData(name, &histogram);
      counts_.emplace_back("samples of " + std::to_string(name), histogram.count);
      // Of a MultiGet that the cache answers in part, RocksDB's sample is of what it has read itself.
      if (name == rocksdb::BYTES_PER_READ) counts_.emplace_back("bytes of Gets", histogram.sum);
    }
    counts_.emplace_back("get_read_bytes", rocksdb::get_perf_context()->get_read_bytes);
    counts_.emplace_back("multiget_read_bytes", rocksdb::get_perf_context()->multiget_read_bytes);
  }
  std::string ToString() const {
    std::string text;
    for (const auto& [name, count] : counts_) text += name + ": " + std::to_string(count) + "\n";
    return text;
  }

 private:
  std::vector<std::pair<std::string, uint64_t>> counts_;
};

class ReadCountsTest : public DatabaseCacheTest, public ::testing::WithParamInterface<rocksdb::StatsLevel> {
 protected:
  ~ReadCountsTest() override { rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount); }

  void MultiGet(const std::vector<ColumnFamilyHandle*>& families, const std::vector<std::string>& texts) {
    std::vector<ColumnFamilyHandle*> handles = families;
    const std::vector<Slice> keys(texts.begin(), texts.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    db_->MultiGet(ReadOptions(), keys.size(), handles.data(), keys.data(), values.data(), nullptr, statuses.data());
    std::vector<std::string> strings;
    db_->MultiGet(ReadOptions(), families, keys, &strings);
  }

  // All that reads: what the cache answers whole, in part and not at all.
  void Read(ColumnFamilyHandle* other) {
    const std::vector<std::string> keys = {"a", "absent", "b", "c", "empty", "large"};
    for (int round = 0; round < 3; ++round) {
      for (const std::string& key : keys) Get(key);
      std::string value;
      db_->Get(ReadOptions(), "a", &value).PermitUncheckedError();
    }
    const std::vector<ColumnFamilyHandle*> one(keys.size(), family_);
    MultiGet(one, keys);
    std::vector<std::string> more = {"a", "b", "d", "e", "f", "no"};
    MultiGet(one, more);  // the first time three keys are new
    MultiGet({family_, family_, other, other}, {"a", "b", "a", "no"});
    MultiGet({other, family_, other, family_}, {"a", "c", "no", "absent"});
    MultiGet({family_, other, other, other}, {"a", "a", "b", "c"});
    MultiGet({family_}, {"a"});
    std::vector<Slice> slices(more.begin(), more.end());
    std::vector<rocksdb::PinnableWideColumns> columns(slices.size());
    std::vector<Status> statuses(slices.size());
    ASSERT_OK(db_->GetEntity(ReadOptions(), family_, "a", columns.data()));
    db_->MultiGetEntity(ReadOptions(), family_, slices.size(), slices.data(), columns.data(), statuses.data());
    ReadOptions async;
    async.async_io = true;
    std::vector<rocksdb::PinnableSlice> values(slices.size());
    db_->MultiGet(async, family_, slices.size(), slices.data(), values.data(), statuses.data());
  }

  // What is counted while everything is read.
  std::string Count(bool cached, rocksdb::PerfLevel perf_level, uint64_t* hits) {
    Options options = cached ? CachedOptions() : Options();
    options.create_if_missing = true;
    options.statistics = rocksdb::CreateDBStatistics();
    options.statistics->set_stats_level(GetParam());
    Close();
    EXPECT_OK(rocksdb::DestroyDB(dir_ / "db", options));
    Open(options);
    ColumnFamilyHandle* const other = AddFamily("other", ColumnFamilyOptions());
    for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
      EXPECT_OK(db_->Put(WriteOptions(), key, std::string("value of ") + key));
      EXPECT_OK(db_->Put(WriteOptions(), other, key, "other"));
    }
    EXPECT_OK(db_->Put(WriteOptions(), "empty", ""));
    EXPECT_OK(db_->Put(WriteOptions(), "large", std::string(5000, 'l')));
    if (cached) Get("a");  // one read of the cache in so many is compared with the tree's
    EXPECT_OK(options.statistics->Reset());
    rocksdb::SetPerfLevel(perf_level);
    rocksdb::get_perf_context()->Reset();
    Read(other);
    if (cached) *hits = Hits();
    return ReadCounts(options.statistics.get()).ToString();
  }
};

TEST_P(ReadCountsTest, AreThoseWithoutACache) {
  for (const rocksdb::PerfLevel perf_level :
       {rocksdb::PerfLevel::kDisable, rocksdb::PerfLevel::kEnableCount, rocksdb::PerfLevel::kEnableTime}) {
    uint64_t hits = 0;
    const std::string without = Count(false, perf_level, &hits);
    EXPECT_EQ(Count(true, perf_level, &hits), without);
    EXPECT_GT(hits, 50u) << "the cache has answered";
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ReadCountsTest,
                         ::testing::Values(rocksdb::StatsLevel::kAll, rocksdb::StatsLevel::kExceptDetailedTimers,
                                           rocksdb::StatsLevel::kExceptTimers,
                                           rocksdb::StatsLevel::kExceptHistogramOrTimers,
                                           rocksdb::StatsLevel::kExceptTickers));

// Where all keys are answered, the sizes are those of the calls, too, and the perf context has the time.
TEST_F(DatabaseCacheTest, WhatAnsweredMultiGetsCount) {
  Options options = CachedOptions();
  options.statistics = rocksdb::CreateDBStatistics();
  Open(options);
  const std::vector<std::string> texts = {"a", "b", "absent"};
  const std::vector<Slice> keys(texts.begin(), texts.end());
  ASSERT_OK(db_->Put(WriteOptions(), "a", std::string(100, 'a')));
  ASSERT_OK(db_->Put(WriteOptions(), "b", std::string(11, 'b')));
  for (const std::string& key : texts) {
    for (int i = 0; i < 2; ++i) Get(key);
  }
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<Status> statuses(keys.size());
  const auto read = [&] {
    db_->MultiGet(ReadOptions(), family_, keys.size(), keys.data(), values.data(), statuses.data());
  };
  read();
  ASSERT_OK(options.statistics->Reset());
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableTimeAndCPUTimeExceptForMutex);
  rocksdb::get_perf_context()->Reset();
  const uint64_t hits = Hits();
  read();
  EXPECT_EQ(Hits(), hits + keys.size());
  EXPECT_GT(rocksdb::get_perf_context()->get_cpu_nanos, 0u);
  rocksdb::get_perf_context()->Reset();
  Get("a");
  EXPECT_GT(rocksdb::get_perf_context()->get_cpu_nanos, 0u);
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::HistogramData bytes;
  options.statistics->histogramData(rocksdb::BYTES_PER_MULTIGET, &bytes);
  EXPECT_EQ(bytes.count, 1u);
  EXPECT_EQ(bytes.sum, 111u);
}

TEST_F(DatabaseCacheTest, EveryWayOfWriting) {
  Open(CachedOptions());
  ColumnFamilyHandle* const other = AddFamily("other", CachedOptions());
  DB* const db = db_.get();
  const WriteOptions write;
  for (ColumnFamilyHandle* family : {family_, other}) {
    AfterEach("Put", family, [&] { return db->Put(write, family, "a", "1"); });
    AfterEach("Delete", family, [&] { return db->Delete(write, family, "a"); });
    AfterEach("Put again", family, [&] { return db->Put(write, family, "b", "2"); });
    AfterEach("SingleDelete", family, [&] { return db->SingleDelete(write, family, "b"); });
    AfterEach("Merge into nothing", family, [&] { return db->Merge(write, family, "c", "3"); });
    AfterEach("Merge", family, [&] { return db->Merge(write, family, "c", "4"); });
    AfterEach("PutEntity", family, [&] {
      return db->PutEntity(write, family, "d", {{rocksdb::kDefaultWideColumnName, "5"}, {"column", "6"}});
    });
    AfterEach("batch", family, [&] {
      rocksdb::WriteBatch batch;
      batch.Put(family_, "a", "7").PermitUncheckedError();
      batch.Put(other, "a", "8").PermitUncheckedError();
      batch.Delete(family, "d").PermitUncheckedError();
      batch.Merge(family, "e", "9").PermitUncheckedError();
      batch.PutLogData("blob").PermitUncheckedError();
      return db->Write(write, &batch);
    });
    AfterEach("DeleteRange", family, [&] { return db->DeleteRange(write, family, "a", "d"); });
    AfterEach("batch with a range", family, [&] {
      rocksdb::WriteBatch batch;
      batch.Put(family, "e", "10").PermitUncheckedError();
      batch.DeleteRange(family, "e", "f").PermitUncheckedError();
      batch.Put(family, "f", "11").PermitUncheckedError();
      return db->Write(write, &batch);
    });
    AfterEach("flush", family, [&] { return db->Flush(rocksdb::FlushOptions(), family); });
    AfterEach("Put above a table", family, [&] { return db->Put(write, family, "f", "12"); });
    AfterEach("compaction", family, [&] { return db->CompactRange({}, family, nullptr, nullptr); });
    AfterEach("ingestion", family, [&] {
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), CachedOptions());
      const std::string file = dir_ / "file.sst";
      EXPECT_OK(writer.Open(file));
      EXPECT_OK(writer.Put("a", "13"));
      EXPECT_OK(writer.Delete("f"));
      EXPECT_OK(writer.Finish());
      return db->IngestExternalFile(family, {file}, rocksdb::IngestExternalFileOptions());
    });
    AfterEach("Put before files are deleted", family, [&] { return db->Put(write, family, "b", "14"); });
    EXPECT_OK(db->CompactRange({}, family, nullptr, nullptr));
    AfterEach("DeleteFilesInRange", family, [&] { return rocksdb::DeleteFilesInRange(db, family, nullptr, nullptr); });
    AfterEach("Put before the family is clipped", family, [&] { return db->Put(write, family, "c", "15"); });
    const Slice begin("d");
    AfterEach("ClipColumnFamily", family, [&] { return db->ClipColumnFamily(family, begin, "z"); });
    AfterEach("WriteBatchWithIndex", family, [&] {
      rocksdb::WriteBatchWithIndex batch;
      batch.Put(family, "a", "16").PermitUncheckedError();
      return db->Write(write, batch.GetWriteBatch());
    });
    AfterEach("no WAL", family, [&] {
      WriteOptions no_wal;
      no_wal.disableWAL = true;
      return db->Put(no_wal, family, "a", "17");
    });
  }
  EXPECT_GT(Stats().changes, 0u);
  EXPECT_EQ(Stats().wrong_hits, 0u);
}

// With Cairn's memtables a write of one key needs no batch: it bars its key by itself.
TEST_F(DatabaseCacheTest, WritesOfOneKeyThatNeedNoBatch) {
  Options options = CachedOptions();
  ASSERT_OK(UseEngineFromString("engine=trie", &options, &options));
  Open(options);
  const WriteOptions write;
  AfterEach("Put", family_, [&] { return db_->Put(write, family_, "a", "1"); });
  AfterEach("Put again", family_, [&] { return db_->Put(write, family_, "a", "2"); });
  AfterEach("Delete", family_, [&] { return db_->Delete(write, family_, "a"); });
  AfterEach("Merge", family_, [&] { return db_->Merge(write, family_, "c", "4"); });
  AfterEach("Put for SingleDelete", family_, [&] { return db_->Put(write, family_, "b", "3"); });
  AfterEach("SingleDelete", family_, [&] { return db_->SingleDelete(write, family_, "b"); });
  EXPECT_GE(Stats().barred_keys, 6u);
  std::string stats;
  ASSERT_TRUE(db_->GetProperty("cairn.stats", &stats));
  EXPECT_NE(stats.find("queued: none"), std::string::npos) << stats;
}

TEST_F(DatabaseCacheTest, ReadsThatPassBy) {
  Open(CachedOptions());
  ASSERT_OK(db_->Put(WriteOptions(), "k", "old"));
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  ASSERT_OK(db_->Put(WriteOptions(), "k", "new"));
  EXPECT_EQ(Get("k"), "new");
  const uint64_t reads = Stats().reads;
  ReadOptions options;
  options.snapshot = snapshot;
  std::string value;
  EXPECT_OK(db_->Get(options, "k", &value));
  EXPECT_EQ(value, "old");
  db_->ReleaseSnapshot(snapshot);
  options = ReadOptions();
  options.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_OK(db_->Get(options, "k", &value));
  options = ReadOptions();
  options.ignore_range_deletions = true;
  EXPECT_OK(db_->Get(options, "k", &value));
  bool found = false;
  EXPECT_TRUE(db_->KeyMayExist(ReadOptions(), "k", &value, &found));
  rocksdb::PinnableWideColumns columns;
  EXPECT_OK(db_->GetEntity(ReadOptions(), family_, "k", &columns));
  EXPECT_EQ(Stats().reads, reads);
  // Asks, but does not fill.
  ASSERT_OK(db_->Put(WriteOptions(), "other", "v"));
  const uint64_t items = Stats().cache.items;
  options = ReadOptions();
  options.fill_cache = false;
  EXPECT_OK(db_->Get(options, "other", &value));
  EXPECT_OK(db_->Get(options, "k", &value));
  EXPECT_EQ(value, "new");
  EXPECT_EQ(Stats().cache.items, items);
}

class DropsAll : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "DropsAll"; }
  bool Filter(int /*level*/, const Slice& /*key*/, const Slice& /*value*/, std::string* /*new_value*/,
              bool* /*changed*/) const override {
    return true;
  }
};

class EqualIgnoringCase : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "EqualIgnoringCase"; }
  int Compare(const Slice& a, const Slice& b) const override { return Lower(a).compare(Lower(b)); }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  static std::string Lower(const Slice& text) {
    std::string lower = text.ToString();
    for (char& c : lower) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
    return lower;
  }
};

TEST_F(DatabaseCacheTest, FamiliesWhoseAnswersChangeWithoutAWritePassBy) {
  Open(CachedOptions());
  const DropsAll filter;
  ColumnFamilyOptions filtered;
  filtered.compaction_filter = &filter;
  ColumnFamilyOptions fifo;
  fifo.compaction_style = rocksdb::kCompactionStyleFIFO;
  ColumnFamilyOptions timestamps;
  timestamps.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  for (const auto& [name, options] :
       std::map<std::string, ColumnFamilyOptions>{{"filtered", filtered}, {"fifo", fifo}}) {
    SCOPED_TRACE(name);
    ColumnFamilyHandle* const family = AddFamily(name, options);
    ASSERT_OK(db_->Put(WriteOptions(), family, "k", "v"));
    EXPECT_EQ(Get("k", family), "v");
    EXPECT_EQ(Get("k", family), "v");
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions(), family));
    if (name == "filtered") {
      ASSERT_OK(db_->CompactRange({}, family, nullptr, nullptr));
      EXPECT_EQ(Get("k", family), "NotFound: ");
    }
  }
  ColumnFamilyHandle* const with_timestamps = AddFamily("timestamps", timestamps);
  const std::string timestamp(8, '\1');
  ASSERT_OK(db_->Put(WriteOptions(), with_timestamps, "k", timestamp, "v"));
  EXPECT_TRUE(db_->Get(ReadOptions(), with_timestamps, "k", std::make_unique<std::string>().get()).IsInvalidArgument());
  EXPECT_EQ(Hits(), 0u);
  EXPECT_EQ(Stats().cache.items, 0u);
  const std::string lines = CloseAndReadLog();
  for (const char* why : {"filtered is not in the result cache: it has a compaction filter",
                          "fifo is not in the result cache", "timestamps is not in the result cache"}) {
    EXPECT_NE(lines.find(why), std::string::npos) << why;
  }
}

TEST_F(DatabaseCacheTest, EqualKeysOfDifferentBytes) {
  static const EqualIgnoringCase comparator;
  Options options = CachedOptions();
  options.comparator = &comparator;
  Open(options);
  ASSERT_OK(db_->Put(WriteOptions(), "key", "old"));
  EXPECT_EQ(Get("key"), "old");
  ASSERT_OK(db_->Put(WriteOptions(), "KEY", "new"));
  EXPECT_EQ(Get("key"), "new");
  EXPECT_EQ(Stats().cache.items, 0u);
}

TEST_F(DatabaseCacheTest, Ttl) {
  Options options = CachedOptions();
  options.merge_operator = nullptr;
  rocksdb::DBWithTTL* ttl = nullptr;
  ASSERT_OK(rocksdb::DBWithTTL::Open(options, dir_ / "db", &ttl, 1000));
  Take(ttl);
  ASSERT_OK(db_->Put(WriteOptions(), "k", "v"));
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Stats().cache.items, 0u);
}

TEST_F(DatabaseCacheTest, OnlyTheNamedFamilies) {
  OpenWithCacheOf("one,two");
  for (const char* name : {"one", "on", "two"}) {
    ColumnFamilyHandle* const family = AddFamily(name, ColumnFamilyOptions());
    ASSERT_OK(db_->Put(WriteOptions(), family, "k", "v"));
    EXPECT_EQ(Get("k", family), "v");
  }
  EXPECT_EQ(Get("k"), "NotFound: ");
  EXPECT_EQ(Stats().cache.items, 2u);
  const std::string log = CloseAndReadLog();
  for (const char* name : {"\"one\"", "\"two\""}) {  // when the database was opened
    EXPECT_NE(log.find("names " + std::string(name) + ", and there is no such"), std::string::npos) << log;
  }
}

TEST_F(DatabaseCacheTest, NamesOfFamiliesThatAreThereAreNoReasonToWarn) {
  OpenWithCacheOf("default");
  EXPECT_EQ(CloseAndReadLog().find("no such column family"), std::string::npos);
}

TEST_F(DatabaseCacheTest, OptimisticTransactions) {
  rocksdb::OptimisticTransactionDB* transactions = nullptr;
  ASSERT_OK(rocksdb::OptimisticTransactionDB::Open(CachedOptions(), dir_ / "db", &transactions));
  Take(transactions);
  AfterEach("commit", family_, [&] {
    const std::unique_ptr<rocksdb::Transaction> transaction(transactions->BeginTransaction(WriteOptions()));
    EXPECT_OK(transaction->Put("a", "1"));
    EXPECT_OK(transaction->Merge("b", "2"));
    EXPECT_EQ(Get("a"), "NotFound: ") << "not committed";
    return transaction->Commit();
  });
}

struct Policy {
  const char* name;
  rocksdb::TxnDBWritePolicy policy;
  bool two_queues;
};

class TransactionCacheTest : public DatabaseCacheTest, public ::testing::WithParamInterface<Policy> {};

TEST_P(TransactionCacheTest, CommitsAndRollbacks) {
  Options options = CachedOptions();
  options.two_write_queues = GetParam().two_queues;
  rocksdb::TransactionDBOptions transaction_options;
  transaction_options.write_policy = GetParam().policy;
  rocksdb::TransactionDB* transactions = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(options, transaction_options, dir_ / "db", &transactions));
  Take(transactions);
  const bool cached = GetParam().policy == rocksdb::WRITE_COMMITTED;
  const auto after = [&](const std::string& what, const std::function<Status(rocksdb::Transaction*)>& act,
                         bool bypass = false) {
    SCOPED_TRACE(what);
    rocksdb::TransactionOptions begin;
    begin.commit_bypass_memtable = bypass && cached;
    const std::unique_ptr<rocksdb::Transaction> transaction(transactions->BeginTransaction(WriteOptions(), begin));
    static int number = 0;
    EXPECT_OK(transaction->SetName("transaction" + std::to_string(++number)));
    for (const char* key : kKeys) Get(key);
    EXPECT_OK(act(transaction.get()));
    for (int round = 0; round < 2; ++round) {
      for (const char* key : kKeys) EXPECT_EQ(Get(key), Tree(key)) << key;
    }
  };
  after("commit", [&](rocksdb::Transaction* transaction) {
    EXPECT_OK(transaction->Put("a", "1"));
    for (const char* key : kKeys) EXPECT_EQ(Get(key), Tree(key));
    std::string value;
    EXPECT_OK(transaction->Get(ReadOptions(), "a", &value));
    EXPECT_EQ(value, "1");
    EXPECT_OK(transaction->GetForUpdate(ReadOptions(), "a", &value));
    return transaction->Commit();
  });
  EXPECT_EQ(Get("a"), "1");
  const auto in_two_phases = [&](const std::string& value, rocksdb::Transaction* transaction) {
    EXPECT_OK(transaction->Put("a", value));
    EXPECT_OK(transaction->Delete("b"));
    if (cached) EXPECT_OK(transaction->GetCommitTimeWriteBatch()->Put("c", value));
    EXPECT_OK(transaction->Prepare());
    for (const char* key : kKeys) EXPECT_EQ(Get(key), Tree(key)) << "prepared";
    return transaction->Commit();
  };
  after("two phases", [&](rocksdb::Transaction* transaction) { return in_two_phases("3", transaction); });
  EXPECT_EQ(Get("a"), "3");
  after("rollback", [&](rocksdb::Transaction* transaction) {
    EXPECT_OK(transaction->Put("a", "6"));
    EXPECT_OK(transaction->Prepare());
    for (const char* key : kKeys) EXPECT_EQ(Get(key), Tree(key)) << "prepared";
    return transaction->Rollback();
  });
  EXPECT_EQ(Get("a"), "3");
  after("a write beside transactions",
        [&](rocksdb::Transaction*) { return transactions->Put(WriteOptions(), "a", "7"); });
  after("a batch without locks", [&](rocksdb::Transaction*) {
    rocksdb::WriteBatch batch;
    batch.Put("a", "8").PermitUncheckedError();
    rocksdb::TransactionDBWriteOptimizations skip;
    skip.skip_concurrency_control = true;
    skip.skip_duplicate_key_check = true;
    return transactions->Write(WriteOptions(), skip, &batch);
  });
  EXPECT_EQ(Get("a"), "8");
  EXPECT_EQ(Stats().on, cached);
  EXPECT_EQ(Hits() > 0, cached);
  after(
      "past memtables", [&](rocksdb::Transaction* transaction) { return in_two_phases("9", transaction); }, true);
  EXPECT_EQ(Get("a"), "9");
  EXPECT_FALSE(Stats().on) << "RocksDB 9.10 itself answers with older values beside such commits";
}

INSTANTIATE_TEST_SUITE_P(Policies, TransactionCacheTest,
                         ::testing::Values(Policy{"committed", rocksdb::WRITE_COMMITTED, false},
                                           Policy{"committed_two_queues", rocksdb::WRITE_COMMITTED, true},
                                           Policy{"prepared", rocksdb::WRITE_PREPARED, false},
                                           Policy{"unprepared", rocksdb::WRITE_UNPREPARED, false}),
                         [](const auto& policy) { return std::string(policy.param.name); });

TEST_F(DatabaseCacheTest, PreparedTransactionsOfBeforeTheOpening) {
  const auto open = [&] {
    Close();
    rocksdb::TransactionDB* transactions = nullptr;
    EXPECT_OK(
        rocksdb::TransactionDB::Open(CachedOptions(), rocksdb::TransactionDBOptions(), dir_ / "db", &transactions));
    Take(transactions);
    return transactions;
  };
  rocksdb::TransactionDB* transactions = open();
  ASSERT_OK(db_->Put(WriteOptions(), "k", "old"));
  {
    const std::unique_ptr<rocksdb::Transaction> transaction(transactions->BeginTransaction(WriteOptions()));
    ASSERT_OK(transaction->SetName("prepared"));
    ASSERT_OK(transaction->Put("k", "new"));
    ASSERT_OK(transaction->Prepare());
  }
  transactions = open();
  EXPECT_EQ(Get("k"), "old");
  EXPECT_EQ(Get("k"), "old");
  rocksdb::Transaction* const transaction = transactions->GetTransactionByName("prepared");
  ASSERT_NE(transaction, nullptr);
  ASSERT_OK(transaction->Commit());
  delete transaction;
  EXPECT_EQ(Get("k"), "new");
}

TEST_F(DatabaseCacheTest, DroppedFamiliesAndNewOnesOfTheirName) {
  Open(CachedOptions());
  ColumnFamilyHandle* const before = AddFamily("family", CachedOptions());
  ASSERT_OK(db_->Put(WriteOptions(), before, "k", "old"));
  EXPECT_EQ(Get("k", before), "old");
  EXPECT_EQ(Get("k", before), "old");
  ASSERT_OK(db_->DropColumnFamily(before));
  EXPECT_EQ(Get("k", before), "old") << "as RocksDB: a handle that lives reads on";
  ColumnFamilyHandle* const after = AddFamily("family", CachedOptions());
  EXPECT_EQ(Get("k", after), "NotFound: ");
  ASSERT_OK(db_->Put(WriteOptions(), after, "k", "new"));
  EXPECT_EQ(Get("k", after), "new");
}

TEST_F(DatabaseCacheTest, OpenedForReadingOnly) {
  Open(CachedOptions());
  ASSERT_OK(db_->Put(WriteOptions(), "k", "old"));
  Options options = CachedOptions();
  DB* secondary = nullptr;
  ASSERT_OK(DB::OpenAsSecondary(options, dir_ / "db", dir_ / "secondary", port::Into(&secondary)));
  const std::unique_ptr<DB> owned(secondary);
  std::string value;
  EXPECT_OK(secondary->Get(ReadOptions(), "k", &value));
  ASSERT_OK(db_->Put(WriteOptions(), "k", "new"));
  EXPECT_OK(secondary->TryCatchUpWithPrimary());
  EXPECT_OK(secondary->Get(ReadOptions(), "k", &value));
  EXPECT_EQ(value, "new");
  DatabaseCacheStats stats;
  EXPECT_TRUE(GetDatabaseCacheStats(secondary, &stats).IsNotFound());
  Close();
  DB* reader = nullptr;
  ASSERT_OK(DB::OpenForReadOnly(options, dir_ / "db", port::Into(&reader)));
  const std::unique_ptr<DB> owned_reader(reader);
  EXPECT_OK(reader->Get(ReadOptions(), "k", &value));
  EXPECT_TRUE(GetDatabaseCacheStats(reader, &stats).IsNotFound());
}

TEST_F(DatabaseCacheTest, LargeAndEmpty) {
  Open(CachedOptions());
  const std::string large(100000, 'x');
  for (const std::string& key : {std::string(), std::string("k"), std::string(30000, 'k')}) {
    for (const std::string& value : {std::string(), std::string("v"), large}) {
      ASSERT_OK(db_->Put(WriteOptions(), key, value));
      EXPECT_EQ(Get(key), value);
      EXPECT_EQ(Get(key), value);
    }
    ASSERT_OK(db_->Delete(WriteOptions(), key));
    for (int round = 0; round < 3; ++round) {
      std::string value;
      EXPECT_TRUE(db_->Get(ReadOptions(), key, &value).IsNotFound()) << key.size();
      std::vector<std::string> values;
      EXPECT_TRUE(db_->MultiGet(ReadOptions(), std::vector<Slice>{key}, &values)[0].IsNotFound()) << key.size();
    }
  }
  EXPECT_GT(Hits(), 0u);
  EXPECT_LE(Stats().cache.memory, Stats().cache.capacity);
}

// As RocksDB copies the key before it writes the value, Get(value, &value) follows a chain.
TEST_F(DatabaseCacheTest, TheKeyMayLieInTheValue) {
  for (const bool without : {true, false}) {
    SCOPED_TRACE(without ? "without a cache" : "with a cache");
    Options options = CachedOptions(4 << 20);
    if (without) options.listeners.clear();
    Open(options);
    const std::vector<size_t> lengths = {1, 7, 14, 30, 200, 400, 1500, 9000, 3, 20000, 60};
    std::vector<std::string> ring;
    for (const size_t bytes : lengths) ring.push_back(std::string(bytes, 'r') + std::to_string(ring.size()));
    for (size_t i = 0; i < ring.size(); ++i) {
      ASSERT_OK(db_->Put(WriteOptions(), ring[i], ring[(i + 1) % ring.size()]));
    }
    std::string at = ring[0];
    rocksdb::PinnableSlice pinned;
    for (size_t i = 1; i < 4 * ring.size(); ++i) {
      ASSERT_OK(db_->Get(ReadOptions(), family_, at, &at));
      ASSERT_EQ(at, ring[i % ring.size()]) << i;
    }
    if (!without) {
      EXPECT_GE(Hits(), 2 * ring.size()) << "they are stored as what they are";
    }
    // Without any copy: the memtable's values are in the slice itself.
    *pinned.GetSelf() = ring[0];
    pinned.PinSelf();
    for (size_t i = 1; i < 4 * ring.size(); ++i) {
      ASSERT_OK(db_->Get(ReadOptions(), family_, Slice(*pinned.GetSelf()), &pinned));
      ASSERT_EQ(Slice(pinned), Slice(ring[i % ring.size()])) << i;
      if (pinned.IsPinned()) pinned.GetSelf()->assign(pinned.data(), pinned.size());
    }
    std::vector<rocksdb::PinnableSlice> values(ring.size());
    std::vector<Status> statuses(ring.size());
    for (size_t i = 0; i < ring.size(); ++i) *values[i].GetSelf() = ring[i];
    for (size_t step = 1; step < 4 * ring.size(); ++step) {
      if (step == ring.size()) {
        ASSERT_OK(db_->Put(WriteOptions(), ring[2], ring[3]));  // some are not in the cache
      }
      // Each reads into what is the key of another.
      std::vector<Slice> keys;
      for (size_t i = 0; i < ring.size(); ++i) keys.emplace_back(*values[(i + 5) % ring.size()].GetSelf());
      db_->MultiGet(ReadOptions(), family_, keys.size(), keys.data(), values.data(), statuses.data());
      for (size_t i = 0; i < ring.size(); ++i) {
        ASSERT_OK(statuses[i]);
        ASSERT_EQ(Slice(values[i]), Slice(ring[(i + 6 * step) % ring.size()])) << step << " " << i;
        if (values[i].IsPinned()) values[i].GetSelf()->assign(values[i].data(), values[i].size());
      }
    }
    for (const std::string& key : ring) EXPECT_EQ(Get(key), Tree(key));
    if (!without) {
      EXPECT_GT(Hits(), 0u);
      EXPECT_EQ(Stats().wrong_hits, 0u);
    }
  }
}

TEST_F(DatabaseCacheTest, OffAndOnAgain) {
  Open(CachedOptions());
  const auto expect_right = [&](const std::string& value) {
    ASSERT_OK(db_->Put(WriteOptions(), "k", value));
    EXPECT_EQ(Get("k"), value);
    EXPECT_EQ(Get("k"), value);
  };
  expect_right("1");
  EXPECT_TRUE(Stats().on);
  Cache()->TEST_Judge(-1);
  EXPECT_FALSE(Stats().on);
  EXPECT_EQ(Stats().cache.items, 0u);
  const uint64_t hits = Hits();
  expect_right("2");
  EXPECT_EQ(Hits(), hits);
  EXPECT_EQ(Stats().times_off, 1u);
  // A writer that began while nobody barred holds it back.
  {
    const DatabaseCache::WriteScope writer(Cache(), nullptr);
    Cache()->TEST_Judge(1);
    EXPECT_FALSE(Stats().on);
    expect_right("3");
    EXPECT_EQ(Hits(), hits);
  }
  Cache()->TEST_Judge(1);
  EXPECT_TRUE(Stats().on);
  EXPECT_EQ(Stats().cache.capacity, uint64_t{1} << 20);
  expect_right("4");
  EXPECT_GT(Hits(), hits);
}

// Reads of keys that are never asked for again: no hit, whatever the memory.
TEST_F(DatabaseCacheTest, WhereNothingIsGainedItTurnsItselfOff) {
  Open(CachedOptions(16 << 20));
  uint64_t number = 0;
  const uint64_t most = uint64_t{1} << 21;
  while (Stats().on && number < most) {
    for (int i = 0; i < 4096; ++i) Get(std::to_string(++number));
  }
  EXPECT_LT(number, most);
  EXPECT_EQ(Stats().times_off, 1u);
  EXPECT_EQ(Stats().cache.items, 0u);
  EXPECT_EQ(Stats().cache.capacity, 0u);
  // After a pause it tries again, which brings nothing either.
  const uint64_t off_at = Stats().reads;
  while (Stats().times_off < 2 && number < most * 4) {
    for (int i = 0; i < 4096; ++i) Get(std::to_string(++number));
  }
  EXPECT_EQ(Stats().times_off, 2u);
  EXPECT_GT(Stats().reads, off_at + (1 << 20));
  const std::string lines = CloseAndReadLog();
  EXPECT_NE(lines.find("the result cache is off: it costs"), std::string::npos);
  EXPECT_NE(lines.find("tries again after"), std::string::npos);
}

// A range deletion that begins before the family was ever read, and ends after.
TEST_F(DatabaseCacheTest, AFamilyIsMetWhileItChanges) {
  Open(CachedOptions());
  ColumnFamilyHandle* const family = AddFamily("family", CachedOptions());
  ASSERT_OK(db_->Put(WriteOptions(), family, "k", "v"));
  {
    const DatabaseCache::ChangeScope change(Cache(), {family->GetID()});
    EXPECT_EQ(Get("k", family), "v");
    EXPECT_EQ(Get("k", family), "v");
    EXPECT_EQ(Hits(), 0u);
  }
  EXPECT_EQ(Get("k", family), "v");
  EXPECT_EQ(Get("k", family), "v");
  EXPECT_EQ(Hits(), 1u);
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.Put(family, "k", "w"));
  {
    const DatabaseCache::WriteScope write(Cache(), &batch);
    EXPECT_EQ(Get("k", family), "v");
    EXPECT_EQ(Get("k", family), "v");
    EXPECT_EQ(Hits(), 1u) << "barred";
  }
}

// A MultiGet of several families beside an ingestion may read what was overwritten long ago
// (docs/rocksdb_faults.md). Then it says so, and the reads after it do not.
TEST_F(DatabaseCacheTest, WhatWasReadBesideAnIngestionIsNotKept) {
  Open(CachedOptions());
  ColumnFamilyHandle* families[] = {family_, AddFamily("other", CachedOptions())};
  const Slice keys[] = {"a", "a"};
  for (ColumnFamilyHandle* family : families) {
    ASSERT_OK(db_->Put(WriteOptions(), family, "a", "old"));
    EXPECT_EQ(Get("no key", family), "NotFound: ");  // it is known now
  }
  const std::string file = dir_ / "file.sst";
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), CachedOptions());
  ASSERT_OK(writer.Open(file));
  ASSERT_OK(writer.Put("a", "new"));
  ASSERT_OK(writer.Finish());
  rocksdb::ManagedSnapshot before(db_.get());
  rocksdb::PinnableSlice values[2];
  Status statuses[2];
  std::vector<ResultCache::Answer> answers;
  const auto read_old = [&](size_t count, ColumnFamilyHandle** left_families, const Slice* left_keys,
                            rocksdb::PinnableSlice* left_values, Status* left_statuses) {
    ASSERT_EQ(count, 2u);
    EXPECT_OK(db_->IngestExternalFile(families[1], {file}, rocksdb::IngestExternalFileOptions()));
    ReadOptions old;
    old.snapshot = before.snapshot();
    db_->MultiGet(old, count, left_families, left_keys, left_values, left_statuses);
  };
  Cache()->MultiGet(2, families, keys, DatabaseCache::Fills::kYes, values, statuses, &answers, read_old);
  EXPECT_EQ(Text(statuses[1], values[1]), "old");
  EXPECT_EQ(Get("a", families[1]), "new");
  const uint64_t hits = Hits();
  EXPECT_EQ(Get("a", families[0]), "old");
  EXPECT_EQ(Hits(), hits + 1) << "what was read of the other family is kept";
}

// An operator that looks at something else than its operands: the samples find it out.
class CountingOperator : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "Counting"; }
  bool Merge(const Slice& /*key*/, const Slice* /*existing*/, const Slice& /*value*/, std::string* result,
             rocksdb::Logger* /*logger*/) const override {
    *result = std::to_string(++count_);
    return true;
  }

 private:
  mutable std::atomic<int> count_{0};
};

TEST_F(DatabaseCacheTest, WrongAnswersAreFoundOut) {
  Options options = CachedOptions();
  options.merge_operator = std::make_shared<CountingOperator>();
  Open(options);
  const std::string key = "a" + std::string(3000, 'k') + "z";
  ASSERT_OK(db_->Merge(WriteOptions(), key, "1"));
  for (int i = 0; i < 20000 && Stats().on; ++i) Get(key);
  EXPECT_FALSE(Stats().on);
  EXPECT_EQ(Stats().wrong_hits, 1u);
  const std::string first = Get(key);
  EXPECT_NE(Get(key), first);
  const std::string lines = CloseAndReadLog();
  EXPECT_NE(lines.find("merged_values=false"), std::string::npos);
  // Of a long key the line has the ends.
  const size_t named = lines.find("0x616B6B");
  ASSERT_NE(named, std::string::npos);
  EXPECT_EQ(lines.substr(lines.find("6B6B7A", named), 19), "6B6B7A (3002 bytes)");
  EXPECT_LT(lines.find('\n', named) - named, 500u);
}

TEST_F(DatabaseCacheTest, OptionsAsText) {
  Options options = CachedOptions();
  DatabaseCacheOptions cache;
  cache.capacity = 3 << 20;
  cache.compression = ResultCacheOptions::Compression::kZstd;
  cache.column_families = "default,a b;{}";
  cache.absent_keys = false;
  UseResultCache(cache, &options);
  Open(options);
  Close();
  rocksdb::DBOptions loaded;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir_ / "db", &loaded, &families));
  const ResultCacheListener* const listener = ResultCacheListener::In(loaded);
  ASSERT_NE(listener, nullptr);
  EXPECT_EQ(listener->options().capacity, cache.capacity);
  EXPECT_EQ(listener->options().compression, cache.compression);
  EXPECT_EQ(listener->options().column_families, cache.column_families);
  EXPECT_FALSE(listener->options().absent_keys);
  EXPECT_TRUE(listener->options().adaptive);

  DatabaseCacheOptions parsed;
  EXPECT_OK(ParseDatabaseCacheOptions("64M", &parsed));
  EXPECT_EQ(parsed.capacity, uint64_t{64} << 20);
  EXPECT_OK(ParseDatabaseCacheOptions("{capacity=1G;compression=lz4}", &parsed));
  EXPECT_EQ(parsed.capacity, uint64_t{1} << 30);
  EXPECT_EQ(parsed.compression, ResultCacheOptions::Compression::kLz4);
  for (const char* wrong : {"", "much", "{capacity=1G;colour=red}", "{compression=rle}", "{capacity=100T}"}) {
    EXPECT_FALSE(ParseDatabaseCacheOptions(wrong, &parsed).ok()) << wrong;
  }
}

TEST_F(DatabaseCacheTest, CapacityNothing) {
  Open(CachedOptions(0));
  ASSERT_OK(db_->Put(WriteOptions(), "k", "v"));
  EXPECT_EQ(Get("k"), "v");
  DatabaseCacheStats stats;
  EXPECT_TRUE(GetDatabaseCacheStats(db_.get(), &stats).IsNotFound());
  Open(CachedOptions(1));
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Get("k"), "v");
  EXPECT_OK(GetDatabaseCacheStats(db_.get(), &stats));
}

TEST_F(DatabaseCacheTest, FromTheEnvironment) {
  setenv("CAIRN_OPTIONS", "result_cache={capacity=2M;adaptive=false}", 1);
  Options options;
  options.create_if_missing = true;
  Open(options);
  unsetenv("CAIRN_OPTIONS");
  ASSERT_OK(db_->Put(WriteOptions(), "k", "v"));
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Get("k"), "v");
  EXPECT_EQ(Hits(), 1u);
  EXPECT_EQ(Stats().cache.capacity, uint64_t{2} << 20);
  EXPECT_TRUE(db_->GetDBOptions().listeners.empty()) << "RocksDB without Cairn reads the OPTIONS file";
  setenv("CAIRN_OPTIONS", "[*][default]result_cache=2M", 1);
  Close();
  DB* db = nullptr;
  EXPECT_TRUE(DB::Open(options, dir_ / "db", port::Into(&db)).IsInvalidArgument());
  unsetenv("CAIRN_OPTIONS");
}

TEST_F(DatabaseCacheTest, ItsMemoryMayBeChargedToTheBlockCache) {
  for (const char* name : {"leveled", "trie_htable", "trie_sub_copy", "ordered_cache"}) {
    SCOPED_TRACE(name);
    Options options = OptionsOf(*FindEngine(name));
    auto* const table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    ASSERT_NE(table, nullptr);
    table->block_cache = rocksdb::NewLRUCache(16 << 20);
    DatabaseCacheOptions cache;
    cache.capacity = 4 << 20;
    cache.charge_to_block_cache = true;
    UseResultCache(cache, &options);
    Open(options);
    const size_t before = table->block_cache->GetUsage();
    for (int i = 0; i < 3000; ++i) ASSERT_OK(db_->Put(WriteOptions(), std::to_string(i), std::string(1000, 'v')));
    for (int i = 0; i < 3000; ++i) Get(std::to_string(i), family_);
    EXPECT_GT(Stats().cache.memory, 2u << 20);
    EXPECT_GE(table->block_cache->GetUsage(), before + Stats().cache.memory);
    if (strcmp(name, "leveled") == 0) {
      // The database would not open again.
      const Status s = db_->SetOptions({{"table_factory.no_block_cache", "true"}});
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.ToString().find("charge_to_block_cache"), std::string::npos) << s.ToString();
    }
    const std::shared_ptr<rocksdb::Cache> kept = table->block_cache;
    Close();
    ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options));
    kept->EraseUnRefEntries();
    EXPECT_EQ(kept->GetUsage(), 0u) << "what was charged is given back";
  }
  Options options = CachedOptions();
  rocksdb::BlockBasedTableOptions blocks;
  blocks.no_block_cache = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  DatabaseCacheOptions cache;
  cache.charge_to_block_cache = true;
  UseResultCache(cache, &options);
  DB* db = nullptr;
  const Status s = DB::Open(options, dir_ / "db", port::Into(&db));
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  EXPECT_NE(s.ToString().find("charge_to_block_cache"), std::string::npos) << s.ToString();
}

}  // namespace
}  // namespace cairn::test
