#include "cairn/silt.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/options_util.h"
#include "table/ect/ect_table.h"
#include "table/ect/ect_table_index.h"
#include "table/silt/silt_merges.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/own_way.h"

namespace cairn {
namespace {

std::string Key(uint64_t i) { return "key" + std::to_string(i); }

class SiltTest : public testing::Test {
 protected:
  SiltTest() {
    path_ = testing::TempDir() + "silt_test." + std::to_string(getpid());
    std::filesystem::remove_all(path_);
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
  }
  ~SiltTest() override {
    db_.reset();
    std::filesystem::remove_all(path_);
  }
  void Open() {
    db_.reset();
    const rocksdb::Status status = rocksdb::DB::Open(options_, path_, port::Into(&db_));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  int Files(int level) {
    std::string files;
    EXPECT_TRUE(db_->GetProperty("rocksdb.num-files-at-level" + std::to_string(level), &files));
    return std::stoi(files);
  }

  std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

SiltOptions OnePartition(int merge_trigger = SiltOptions().merge_trigger) {
  SiltOptions silt;
  silt.partitions = 1;
  silt.merge_trigger = merge_trigger;
  return silt;
}

TEST_F(SiltTest, MergesHashStoresIntoTheSortedStore) {
  options_.target_file_size_base = 64 << 10;
  ASSERT_TRUE(UseSilt(&options_, OnePartition(4)).ok());
  EXPECT_EQ(2u, options_.max_subcompactions);
  Open();
  std::map<std::string, std::string> model;
  std::mt19937_64 random(1);
  for (int store = 0; store < 10; ++store) {
    for (int i = 0; i < 1000; ++i) {
      const std::string key = Key(random() % 4000), value = std::to_string(store) + std::string(60, 'v');
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), key, value).ok());
      model[key] = value;
    }
    const std::string gone = Key(random() % 4000);
    ASSERT_TRUE(db_->Delete(rocksdb::WriteOptions(), gone).ok());
    model.erase(gone);
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  EXPECT_LT(Files(0), 5) << "a HashStore of 884 keys in 1000 writes counts a little less than one";
  EXPECT_GT(Files(1), 1);
  rocksdb::TablePropertiesCollection properties;
  ASSERT_TRUE(db_->GetPropertiesOfAllTables(&properties).ok());
  int filters = 0;
  for (const auto& [name, table] : properties) {
    EctTableFacts facts;
    ASSERT_TRUE(ReadEctTableFacts(*table, &facts).ok());
    filters += facts.filter_bytes > 0 ? 1 : 0;
  }
  EXPECT_EQ(Files(0), filters) << "HashStores have a filter, the SortedStore has none";
  for (int i = 0; i < 5000; ++i) {
    const auto found = model.find(Key(i));
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), Key(i), &value);
    ASSERT_EQ(found == model.end(), status.IsNotFound()) << Key(i);
    if (found != model.end()) {
      ASSERT_EQ(found->second, value);
    }
  }
}

// d is counted in keys: a HashStore whose write buffer had each key twice is half of one.
TEST_F(SiltTest, MergesAreDueByTheKeysOfHashStores) {
  ASSERT_TRUE(UseSilt(&options_, OnePartition(4)).ok());
  Open();
  const auto flush = [&](int writes, int keys) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(0), "once").ok());
    for (int i = 1; i < writes; ++i) {
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(1 + i % (keys - 1)), std::to_string(i)).ok());
    }
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  };
  EXPECT_EQ(0, Files(1));
  struct {
    int keys, stores;
  } const cases[] = {{1000, 4}, {1000, 4}, {500, 7}, {10, 12}, {250, 12}, {334, 11}};
  for (const auto& c : cases) {
    for (int store = 1; store < c.stores; ++store) {
      flush(1000, c.keys);
      EXPECT_EQ(store, Files(0)) << c.keys << " keys in 1000 writes";
    }
    flush(1000, c.keys);
    EXPECT_EQ(0, Files(0)) << c.keys << " keys in 1000 writes";
    EXPECT_EQ(1, Files(1));
  }
}

// What others write to the database in between makes no store's merges late.
TEST_F(SiltTest, MergesAreDueByTheKeysOfHashStoresOfEachColumnFamily) {
  options_.write_buffer_size = 256 << 10;
  ASSERT_TRUE(UseSilt(&options_, OnePartition(4)).ok());
  Open();
  rocksdb::ColumnFamilyHandle* other = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(options_, "other", &other).ok());
  const std::unique_ptr<rocksdb::ColumnFamilyHandle> closes_first(other);
  size_t stores = 0;
  for (int i = 0; i < 30000; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), std::string(100, 'v')).ok());
    for (int j = 0; j < 3; ++j) {
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), other, Key(3 * i + j), std::string(100, 'v')).ok());
    }
    if (i % 500 == 499) {
      ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
      stores = std::max<size_t>(stores, Files(0));
    }
  }
  EXPECT_GE(stores, 3u);
  EXPECT_LE(stores, 5u) << "by sequence numbers alone, a HashStore is a quarter of one";
  EXPECT_GE(Files(1), 1);
}

// Stores of which HashStores are merged by their number.
TEST_F(SiltTest, AtMostMaxHashStoresWait) {
  SiltOptions silt = OnePartition(4);
  silt.max_hash_stores = 5;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  Open();
  for (int store = 1; store <= 15; ++store) {
    // Of two keys, which weigh next to nothing.
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i % 2), "value").ok());
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    EXPECT_EQ(store % 5, Files(0));
  }
}

// Operands are numbers, and so is their sum.
class Sum : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "Sum"; }
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice* before, const rocksdb::Slice& operand, std::string* sum,
             rocksdb::Logger*) const override {
    const uint64_t start = before == nullptr ? 0 : std::stoull(before->ToString());
    *sum = std::to_string(start + std::stoull(operand.ToString()));
    return true;
  }
};

// Whatever lies in which table, for now and for a snapshot.
TEST_F(SiltTest, LookupsAnswerAsTheyDoTableByTable) {
  options_.merge_operator = std::make_shared<Sum>();
  options_.statistics = rocksdb::CreateDBStatistics();
  SiltOptions silt = OnePartition(6);
  silt.table.last_level_filter_bits = 3;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  options_.target_file_size_base = 32 << 10;
  Open();
  std::mt19937_64 random(5);
  std::vector<const rocksdb::Snapshot*> snapshots = {nullptr};
  constexpr uint64_t kKeys = 3000;
  for (int store = 0; store < 18; ++store) {
    for (int i = 0; i < 1500; ++i) {
      const std::string key = Key(random() % kKeys);
      const uint64_t what = random() % 10;
      const rocksdb::WriteOptions write;
      const rocksdb::Status s = what < 5   ? db_->Put(write, key, std::to_string(random() % 1000))
                                : what < 9 ? db_->Merge(write, key, std::to_string(random() % 1000))
                                           : db_->Delete(write, key);
      ASSERT_TRUE(s.ok());
    }
    if (store != 17) {
      ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
      // Or the last merge may leave no HashStore.
      ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    }
    if (store % 5 == 2) snapshots.push_back(db_->GetSnapshot());
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  EXPECT_GT(Files(0), 0);
  EXPECT_GT(Files(1), 1);
  const auto look_up = [&](const rocksdb::ReadOptions& read, uint64_t i) {
    std::string value;
    const rocksdb::Status s = db_->Get(read, Key(i), &value);
    EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    std::string answer = s.ok() ? value : "none";
    rocksdb::GetMergeOperandsOptions most;
    most.expected_max_number_of_operands = 100;
    std::vector<rocksdb::PinnableSlice> operands(100);
    int count = 0;
    EXPECT_EQ(s.ok(),
              db_->GetMergeOperands(read, db_->DefaultColumnFamily(), Key(i), operands.data(), &most, &count).ok());
    for (int j = 0; s.ok() && j < count; ++j) answer += "," + operands[static_cast<size_t>(j)].ToString();
    return answer;
  };
  // Filters let a strange key pass now and then, each way the same.
  const auto ticks = [&] {
    return std::make_pair(options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_USEFUL),
                          options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_FULL_POSITIVE) -
                              options_.statistics->getTickerCount(rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE));
  };
  for (const rocksdb::Snapshot* snapshot : snapshots) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    std::vector<std::string> answers;
    const auto start = ticks();
    for (uint64_t i = 0; i < 2 * kKeys; ++i) answers.push_back(look_up(read, i));
    const auto between = ticks();
    EXPECT_GT(between.first, start.first + kKeys);
    const OwnWay own_way;
    for (uint64_t i = 0; i < 2 * kKeys; ++i) ASSERT_EQ(look_up(read, i), answers[i]) << Key(i);
    const auto end = ticks();
    EXPECT_NEAR(static_cast<double>(end.first - between.first), static_cast<double>(between.first - start.first),
                0.01 * static_cast<double>(end.first - between.first));
    EXPECT_NEAR(static_cast<double>(end.second - between.second), static_cast<double>(between.second - start.second),
                50);
  }
  EXPECT_EQ(CairnDB::Of(db_.get())->services()->silt_lookups()->made(), 1u) << "of one Version";
  for (const rocksdb::Snapshot* snapshot : snapshots) {
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
  }
}

// What lies in which partition changes no answer, for now and for a snapshot; nor does a restart without partitions'
// options, which are in the OPTIONS file, or a compaction of everything.
TEST_F(SiltTest, PartitionsAreMergedByTurns) {
  options_.merge_operator = std::make_shared<Sum>();
  options_.write_buffer_size = 64 << 10;
  SiltOptions silt;
  silt.partitions = 8;
  silt.max_hash_stores = 5;
  silt.space_bound = 4;
  silt.table.last_level_filter_bits = 4;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  Open();
  std::mt19937_64 random(11);
  std::map<std::string, uint64_t> model, at_snapshot;
  const rocksdb::Snapshot* snapshot = nullptr;
  constexpr uint64_t kKeys = 4000;
  const rocksdb::WriteOptions write;
  const auto change = [&](int times) {
    for (int i = 0; i < times; ++i) {
      const std::string key = Key(random() % kKeys);
      const uint64_t what = random() % 10, number = random() % 1000;
      if (what == 0) {
        ASSERT_TRUE(db_->Delete(write, key).ok());
        model.erase(key);
      } else if (what < 4) {
        ASSERT_TRUE(db_->Merge(write, key, std::to_string(number)).ok());
        model[key] += number;
      } else {
        ASSERT_TRUE(db_->Put(write, key, std::to_string(number)).ok());
        model[key] = number;
      }
    }
  };
  const auto check = [&](const std::map<std::string, uint64_t>& expected, const rocksdb::ReadOptions& read) {
    for (uint64_t i = 0; i < 2 * kKeys; ++i) {
      const auto found = expected.find(Key(i));
      std::string value;
      const rocksdb::Status s = db_->Get(read, Key(i), &value);
      ASSERT_EQ(found == expected.end(), s.IsNotFound()) << Key(i) << " " << s.ToString();
      if (found != expected.end()) {
        ASSERT_EQ(std::to_string(found->second), value) << Key(i);
      }
    }
    size_t keys = 0;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++keys;
    ASSERT_EQ(expected.size(), keys);
  };
  SiltStats stats;
  uint64_t most_hash_stores = 0;
  for (int round = 0; round < 12; ++round) {
    change(5000);
    ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
    most_hash_stores = std::max(most_hash_stores, stats.hash_stores.files);
    if (round == 7) {
      snapshot = db_->GetSnapshot();
      at_snapshot = model;
    }
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  check(model, rocksdb::ReadOptions());
  rocksdb::ReadOptions before;
  before.snapshot = snapshot;
  check(at_snapshot, before);
  {
    const OwnWay own_way;
    check(model, rocksdb::ReadOptions());
    check(at_snapshot, before);
  }
  db_->ReleaseSnapshot(snapshot);
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  printf("%s", SiltStatsToTable(stats).c_str());
  EXPECT_EQ(8, stats.options.partitions);
  EXPECT_EQ(8u, stats.sorted_store.files);
  EXPECT_GT(most_hash_stores, 8u);
  EXPECT_LE(stats.hash_stores.files, 8u * 6);
  db_.reset();
  rocksdb::ConfigOptions config;
  rocksdb::DBOptions loaded;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_TRUE(rocksdb::LoadLatestOptions(config, path_, &loaded, &families).ok());
  SiltOptions found;
  ASSERT_TRUE(IsSilt(families[0].options, &found));
  EXPECT_EQ(8, found.partitions);
  EXPECT_EQ(5, found.max_hash_stores);
  Open();
  check(model, rocksdb::ReadOptions());
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_TRUE(db_->CompactRange(all, nullptr, nullptr).ok());
  check(model, rocksdb::ReadOptions());
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  EXPECT_EQ(0u, stats.hash_stores.files);
  EXPECT_EQ(model.size(), stats.sorted_store.keys);
}

// Uniform updates keep the bound on space, and a partition is merged when that is passed, long before its slots fill.
TEST_F(SiltTest, PartitionsKeepTheBoundOnSpace) {
  options_.write_buffer_size = 256 << 10;
  SiltOptions silt;
  silt.partitions = 16;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  Open();
  constexpr uint64_t kKeys = 100000;
  const std::string value(80, 'v');
  std::mt19937_64 random(3);
  uint64_t most = 0;
  for (uint64_t i = 0; i < 4 * kKeys; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i < kKeys ? i : random() % kKeys), value).ok());
    if (i < kKeys || i % 1000 != 0) continue;
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    uint64_t bytes = 0;
    ASSERT_TRUE(db_->GetIntProperty("rocksdb.total-sst-files-size", &bytes));
    most = std::max(most, bytes);
  }
  SiltStats stats;
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  printf("%s", SiltStatsToTable(stats).c_str());
  const double live = kKeys * (80 + 7.9);
  EXPECT_LT(static_cast<double>(most) / live, 1.6);
  EXPECT_NEAR(1, stats.measured.write_amplification / stats.predicted.write_amplification, 0.35);
  EXPECT_LT(stats.measured.write_amplification, 7);
}

// Tables of a store without partitions are split and merged into them.
TEST_F(SiltTest, AStoreGetsPartitionsAtAnOpening) {
  SiltOptions silt = OnePartition();
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  options_.write_buffer_size = 64 << 10;
  Open();
  const auto put_all = [&](const std::string& text) {
    for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), text + Key(i)).ok());
  };
  const auto check_all = [&](const std::string& text) {
    std::string value;
    for (uint64_t i = 0; i < 5000; ++i) {
      ASSERT_TRUE(db_->Get(rocksdb::ReadOptions(), Key(i), &value).ok()) << Key(i);
      ASSERT_EQ(text + Key(i), value);
    }
  };
  put_all("old");
  ASSERT_TRUE(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  EXPECT_GE(Files(1), 1);
  db_.reset();
  options_ = rocksdb::Options();
  options_.compression = rocksdb::kNoCompression;
  options_.write_buffer_size = 64 << 10;
  silt.partitions = 4;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  Open();
  check_all("old");
  put_all("new");
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  check_all("new");
  ASSERT_TRUE(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  check_all("new");
  SiltStats stats;
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  EXPECT_EQ(4u, stats.sorted_store.files);
  EXPECT_EQ(5000u, stats.sorted_store.keys);
}

// Blocks that `count` lookups of absent keys ask for, of which a third goes to MultiGet.
class AbsentKeys {
 public:
  AbsentKeys(rocksdb::DB* db, uint64_t first) : db_(db), next_(first) {}
  double BlocksPerLookup(int count) {
    const uint64_t before = Blocks();
    std::string value;
    for (int i = 0; i < count / 3 * 2; ++i) {
      EXPECT_TRUE(db_->Get(rocksdb::ReadOptions(), Key(next_++), &value).IsNotFound());
    }
    for (int i = 0; i < count / 3; i += 30) {
      std::vector<std::string> names, values;
      for (int j = 0; j < 30; ++j) names.push_back(Key(next_++));
      const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
      for (const auto& status : db_->MultiGet(rocksdb::ReadOptions(), keys, &values)) EXPECT_TRUE(status.IsNotFound());
    }
    return static_cast<double>(Blocks() - before) / count;
  }
  SiltStats Stats() {
    SiltStats stats;
    EXPECT_TRUE(GetSiltStats(db_, db_->DefaultColumnFamily(), &stats).ok());
    return stats;
  }

 private:
  uint64_t Blocks() { return Stats().blocks_read; }

  rocksdb::DB* const db_;
  uint64_t next_;
};

TEST_F(SiltTest, TheSortedStoreHasTheFilterThatItsOptionsAskFor) {
  constexpr uint64_t kKeys = 30000;
  constexpr int kLookups = 9000;
  const auto open = [&](uint32_t bits) {
    options_ = rocksdb::Options();
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
    SiltOptions silt = OnePartition();
    silt.table.last_level_filter_bits = bits;
    ASSERT_TRUE(UseSilt(&options_, silt).ok());
    options_.target_file_size_base = 512 << 10;
    Open();
  };
  const auto merge = [&] {
    rocksdb::CompactRangeOptions all;
    all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db_->CompactRange(all, nullptr, nullptr).ok());
  };
  // RocksDB's filter has its slots by the 128, so a small table has up to a tenth more or less. Its false positives
  // differ from run to run, since a table's name seeds its hashes: 0.0445 to 0.057 in 240 runs.
  const auto bits_per_key = [&] {
    const SiltStats stats = AbsentKeys(db_.get(), 0).Stats();
    EXPECT_GT(stats.sorted_store.files, 1u);
    EXPECT_EQ(kKeys, stats.sorted_store.keys);
    return 8.0 * static_cast<double>(stats.sorted_store.filter_bytes) / kKeys;
  };
  open(4);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), std::string(100, 'v')).ok());
  }
  merge();
  EXPECT_NEAR(4.4, bits_per_key(), 0.5);
  EXPECT_NEAR(1.0 / 16, AbsentKeys(db_.get(), kKeys).BlocksPerLookup(kLookups), 0.03);
  const SiltStats stats = AbsentKeys(db_.get(), kKeys).Stats();
  printf("%s", SiltStatsToTable(stats).c_str());
  EXPECT_NEAR(1.0 / 16, stats.predicted.absent_reads, 0.003);
  EXPECT_NEAR(1.0 / 16, stats.measured.absent_reads, 0.03);
  // What lies between two tables is in none: of as many lookups as keys, about one for each table.
  EXPECT_NEAR(kLookups, static_cast<double>(stats.kept_lookups + stats.absent_lookups),
              10 + 2 * static_cast<double>(stats.sorted_store.files));
  const auto check_all = [&] {
    std::string value;
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Get(rocksdb::ReadOptions(), Key(i), &value).ok()) << Key(i);
  };
  check_all();
  // Whatever a later opening asks for, tables stay as they are until they are merged.
  open(0);
  EXPECT_NEAR(4.4, bits_per_key(), 0.5);
  EXPECT_LT(AbsentKeys(db_.get(), kKeys).BlocksPerLookup(kLookups), 0.08);
  merge();
  EXPECT_EQ(0, bits_per_key());
  EXPECT_NEAR(1, AbsentKeys(db_.get(), kKeys).BlocksPerLookup(kLookups), 0.02);
  check_all();
  open(10);
  EXPECT_NEAR(1, AbsentKeys(db_.get(), kKeys).BlocksPerLookup(kLookups), 0.02);
  merge();
  EXPECT_NEAR(10, bits_per_key(), 1);
  EXPECT_LT(AbsentKeys(db_.get(), kKeys).BlocksPerLookup(kLookups), 0.005);
  check_all();
}

// Counts the threads of each compaction.
class ThreadCounter : public rocksdb::EventListener {
 public:
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++of_job_[info.job_id];
  }
  // Of the last compaction.
  int Last() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return of_job_.empty() ? 0 : of_job_.rbegin()->second;
  }

 private:
  std::mutex mutex_;
  std::map<int, int> of_job_;
};

TEST_F(SiltTest, MergesShareThreads) {
  SiltOptions silt = OnePartition(4);
  silt.merge_threads = 3;
  options_.target_file_size_base = 16 << 10;
  options_.write_buffer_size = 256 << 10;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  const auto threads = std::make_shared<ThreadCounter>();
  options_.listeners.push_back(threads);
  Open();
  for (uint64_t i = 0; i < 12000; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), std::string(60, 'v')).ok());
    if (i % 1000 != 999) continue;
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  }
  EXPECT_EQ(0, Files(0));
  EXPECT_GT(threads->Last(), 1);
}

// The example that Lim's thesis (CMU 2015) computes: table 2.4 and what follows from it.
TEST(SiltModelTest, GivesTheNumbersOfTheThesis) {
  SiltModelInput input;
  input.keys = 100e6;
  input.merge_keys = 7.5e6;
  input.tag_bits = 15;
  input.hash_store_keys = 0.93 * (1 << 17);
  input.instances = 4;
  input.hash_store_occupancy = 0.93;
  input.filter_occupancy = 0.93;
  input.log_store_in_memory = false;
  input.sorted_store_bytes = 0.4;
  const SiltModel model = PredictSilt(input);
  EXPECT_NEAR(5.4, model.write_amplification, 0.01);
  EXPECT_NEAR(31, model.hash_stores, 0.5);
  EXPECT_NEAR(1.008, model.read_amplification, 0.0005);
  EXPECT_NEAR(0.73, model.memory_bytes_per_key, 0.01);
  EXPECT_EQ(0, PredictSilt(SiltModelInput()).write_amplification);
}

TEST_F(SiltTest, StatsSetTheMeasuredBesideThePredicted) {
  options_.write_buffer_size = 128 << 10;
  ASSERT_TRUE(UseSilt(&options_, OnePartition(4)).ok());
  ASSERT_TRUE(cairn::Open(options_, path_, port::Into(&db_)).ok());
  constexpr uint64_t kKeys = 20000;
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), std::string(100, 'v')).ok());
  }
  for (uint64_t i = 0; i < 5 * kKeys; ++i) {
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(random() % kKeys), std::string(100, 'w')).ok());
    // A merge of more HashStores than were due, because the machine is busy, would write less.
    if (i % 500 == 0) {
      ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    }
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  std::string value;
  for (uint64_t i = 0; i < 2 * kKeys; ++i) {
    ASSERT_EQ(i >= kKeys, db_->Get(rocksdb::ReadOptions(), Key(i), &value).IsNotFound());
  }
  SiltStats stats;
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  printf("%s", SiltStatsToTable(stats).c_str());
  EXPECT_NEAR(kKeys, static_cast<double>(stats.sorted_store.keys), kKeys / 50.0);
  EXPECT_LT(stats.hash_stores.files, 4u);
  EXPECT_GT(stats.predicted.write_amplification, 3);
  EXPECT_NEAR(1, stats.measured.write_amplification / stats.predicted.write_amplification, 0.35);
  EXPECT_GE(stats.measured.read_amplification, 0.9);
  EXPECT_LT(stats.measured.read_amplification, 1.01);
  EXPECT_GT(stats.lookups, kKeys);
  EXPECT_LT(stats.measured.memory_bytes_per_key, 2);
  EXPECT_EQ(0u, stats.searches);
  EXPECT_GT(stats.resident_bytes, kKeys / 10);
  ASSERT_TRUE(db_->GetProperty("cairn.stats", &value));
  EXPECT_NE(std::string::npos, value.find("written per byte put"));
  ASSERT_TRUE(db_->GetProperty("cairn.stats.json", &value));
  EXPECT_NE(std::string::npos, value.find("\"predicted\""));
  // What was written is known after a restart, too.
  Open();
  SiltStats again;
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &again).ok());
  EXPECT_GE(again.flushed_bytes, stats.flushed_bytes);
  EXPECT_GE(again.compacted_bytes, stats.compacted_bytes);
  ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), "one", "more").ok());
  ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  EXPECT_GT(stats.flushed_bytes, again.flushed_bytes);
  EXPECT_LT(stats.flushed_bytes, again.flushed_bytes + again.flushed_bytes / 4);
  db_.reset();
  options_ = rocksdb::Options();
  options_.create_if_missing = true;
  std::filesystem::remove_all(path_);
  Open();
  EXPECT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).IsNotSupported());
}

// Readers against merges, with a block cache from which the indexes are evicted and read again all the time.
TEST_F(SiltTest, LookupsAndMergesAtOnce) {
  constexpr uint64_t kKeys = 4000;
  rocksdb::BlockBasedTableOptions block_options;
  block_options.block_cache = rocksdb::NewLRUCache(64 << 10, 0);
  block_options.block_size = 1024;
  options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  options_.write_buffer_size = 64 << 10;
  SiltOptions silt = OnePartition(3);
  silt.table.index_residency = EctIndexResidency::kCache;
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  options_.target_file_size_base = 64 << 10;
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), "0").ok());
  ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, lookups{0};
  // A value is a number and never becomes smaller.
  const auto read = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<uint64_t> seen(kKeys, 0);
    while (!stop.load()) {
      std::vector<uint64_t> numbers;
      for (int i = 0; i < 8; ++i) numbers.push_back(random() % (kKeys + kKeys / 4));
      std::vector<std::string> names, values;
      for (const uint64_t number : numbers) names.push_back(Key(number));
      std::vector<rocksdb::Status> statuses;
      if (random() % 2 == 0) {
        statuses =
            db_->MultiGet(rocksdb::ReadOptions(), std::vector<rocksdb::Slice>(names.begin(), names.end()), &values);
      } else {
        values.resize(names.size());
        for (size_t i = 0; i < names.size(); ++i) {
          statuses.push_back(db_->Get(rocksdb::ReadOptions(), names[i], &values[i]));
        }
      }
      for (size_t i = 0; i < names.size(); ++i) {
        if (numbers[i] >= kKeys) {
          wrong += statuses[i].IsNotFound() ? 0 : 1;
          continue;
        }
        const uint64_t value = statuses[i].ok() ? std::stoull(values[i]) : 0;
        wrong += statuses[i].ok() && value >= seen[numbers[i]] ? 0 : 1;
        seen[numbers[i]] = value;
      }
      lookups += names.size();
    }
  };
  std::vector<std::thread> readers;
  for (uint64_t seed = 1; seed <= 3; ++seed) readers.emplace_back(read, seed);
  std::mt19937_64 random(99);
  for (uint64_t i = 1; i <= 30000; ++i) {
    const std::string value = std::to_string(i) + std::string(30, ' ');
    ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(random() % kKeys), value).ok());
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  stop = true;
  for (std::thread& reader : readers) reader.join();
  SiltStats stats;
  ASSERT_TRUE(GetSiltStats(db_.get(), db_->DefaultColumnFamily(), &stats).ok());
  printf("%s", SiltStatsToTable(stats).c_str());
  EXPECT_EQ(0u, wrong.load());
  EXPECT_GT(lookups.load(), 0u);
  EXPECT_GT(stats.searches, 0u);
  EXPECT_GT(stats.index_loads, 0u);
}

// As ldb change_compaction_style would: it asks for one file in level 0.
TEST_F(SiltTest, TheSortedStoreStaysInItsLevel) {
  ASSERT_TRUE(UseSilt(&options_, OnePartition()).ok());
  Open();
  ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), "a", "b").ok());
  rocksdb::CompactRangeOptions to_level;
  to_level.change_level = true;
  to_level.target_level = 0;
  EXPECT_TRUE(
      Says(db_->CompactRange(to_level, nullptr, nullptr), &rocksdb::Status::IsNotSupported, "the SILT store default"));
  to_level.target_level = 1;
  ASSERT_TRUE(db_->CompactRange(to_level, nullptr, nullptr).ok());
  EXPECT_EQ(0, Files(0));
  EXPECT_EQ(1, Files(1));
}

TEST_F(SiltTest, KeepsTheBlocksOptions) {
  rocksdb::BlockBasedTableOptions block_options;
  block_options.block_size = 16384;
  block_options.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  ASSERT_TRUE(UseSilt(&options_).ok());
  const auto* kept = options_.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  ASSERT_NE(nullptr, kept);
  EXPECT_EQ(16384u, kept->block_size);
  EXPECT_EQ(nullptr, kept->filter_policy);
}

TEST_F(SiltTest, RefusesWhatItCannotDo) {
  SiltOptions silt = OnePartition(0);
  EXPECT_TRUE(UseSilt(&options_, silt).IsInvalidArgument());
  silt = SiltOptions();
  silt.hash = "none";
  EXPECT_FALSE(UseSilt(&options_, silt).ok());
  options_.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(3));
  EXPECT_TRUE(UseSilt(&options_).IsNotSupported());
}

TEST_F(SiltTest, OptionsGoThroughStringsAndColumnFamilyOptions) {
  SiltOptions silt;
  ASSERT_TRUE(SiltOptionsFromString("hash=sha1;seed=3;partitions=1;space_bound=1.25;merge_trigger=5;max_hash_stores=7;"
                                    "group=64;hmax=32;filter_tag_bits=9;"
                                    "last_level_filter_bits=3;index_residency=cache",
                                    &silt)
                  .ok());
  SiltOptions copy;
  ASSERT_TRUE(SiltOptionsFromString(SiltOptionsToString(silt), &copy).ok());
  EXPECT_EQ(SiltOptionsToString(silt), SiltOptionsToString(copy));
  EXPECT_FALSE(IsSilt(options_, nullptr));
  ASSERT_TRUE(UseSilt(&options_, silt).ok());
  SiltOptions found;
  ASSERT_TRUE(IsSilt(options_, &found));
  EXPECT_EQ(SiltOptionsToString(silt), SiltOptionsToString(found));
  for (const char* bad :
       {"no_such=1", "merge_trigger=0", "merge_threads=0", "partitions=1;max_hash_stores=5;merge_trigger=6",
        "partitions=3", "partitions=128", "partitions=0", "space_bound=1", "partitions=2;max_hash_stores=61", "group=8",
        "hmax=1", "filter_tag_bits=3", "last_level_filter_bits=17", "hash=md5", "merge_trigger",
        "index_residency=no"}) {
    EXPECT_TRUE(SiltOptionsFromString(bad, &copy).IsInvalidArgument()) << bad;
  }
  EXPECT_EQ(SiltOptionsToString(silt), SiltOptionsToString(copy));
  for (const char* shape : {"merge_trigger=5;max_hash_stores=0", "merge_trigger=5;max_hash_stores=5",
                            "partitions=32;space_bound=1.3;max_hash_stores=2", "partitions=1;max_hash_stores=0"}) {
    ASSERT_TRUE(SiltOptionsFromString(shape, &silt).ok());
    ASSERT_TRUE(UseSilt(&options_, silt).ok());
    ASSERT_TRUE(IsSilt(options_, &found));
    EXPECT_EQ(SiltOptionsToString(silt), SiltOptionsToString(found)) << shape;
  }
}

// RocksDB takes no listener once it is open.
TEST_F(SiltTest, MergesComeWithAStoreThatIsCreatedLater) {
  rocksdb::ColumnFamilyOptions store = options_;
  SiltOptions silt = OnePartition(4);
  ASSERT_TRUE(UseSilt(&store, silt).ok());
  options_.memtable_factory = NewSubMemTableFactory(SubMemTableOptions());
  Open();
  EXPECT_TRUE(db_->GetDBOptions().listeners.empty()) << "other databases get what this one was given";
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  ASSERT_TRUE(db_->CreateColumnFamily(store, "late", &handle).ok());
  std::mt19937_64 random(1);
  for (int flush = 0; flush < 10; ++flush) {
    for (int i = 0; i < 1000; ++i) {
      ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), handle, Key(random() % 4000), std::string(60, 'v')).ok());
    }
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions(), handle).ok());
  }
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  std::string stores;
  EXPECT_TRUE(db_->GetProperty(handle, "rocksdb.num-files-at-level0", &stores));
  EXPECT_LT(std::stoi(stores), 5);
  ASSERT_TRUE(db_->DestroyColumnFamilyHandle(handle).ok());
}

// The OPTIONS file names no listener, and needs none.
TEST_F(SiltTest, MergesComeWithTheOpening) {
  ASSERT_TRUE(UseSilt(&options_, OnePartition()).ok());
  Open();
  db_.reset();
  rocksdb::ConfigOptions config;
  rocksdb::DBOptions loaded;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_TRUE(rocksdb::LoadLatestOptions(config, path_, &loaded, &families).ok());
  EXPECT_TRUE(loaded.listeners.empty());
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(loaded, path_, families, &handles, port::Into(&db)).ok());
  const rocksdb::DBOptions opened = db->GetDBOptions();
  ASSERT_TRUE(db->DestroyColumnFamilyHandle(handles[0]).ok());
  delete db;
  ASSERT_EQ(1u, opened.listeners.size());
  EXPECT_STREQ("cairn.SiltMerges", opened.listeners[0]->Name());
}

}  // namespace
}  // namespace cairn
