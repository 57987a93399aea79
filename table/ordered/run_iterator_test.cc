// An iterator over all runs of a database (RunIterator), beside RocksDB's merging iterator over the same tables: every
// step comes to the same. ordered_runs_test compares it with RocksDB's own tables; here is what that does not reach:
// the engines' levels, tables that are opened for a look, errors, and that it is used at all.
//
// CAIRN_SEED names a seed, which a failure prints.

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/ordered.h"
#include "gtest/gtest.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/support.h"
#include "test/testutil/controlled_file_system.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/own_way.h"
#include "test/testutil/test_keys.h"
#include "utilities/merge_operators.h"

namespace cairn::test {
namespace {

constexpr uint64_t kKeys = 3000;

class RunIteratorTest : public ::testing::TestWithParam<const char*> {
 protected:
  void Open() {
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    Reopen();
  }
  void Reopen() {
    db_.reset();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, directory_ / "db", port::Into(&db)));
    db_.reset(db);
  }

  static std::string KeyOf(uint64_t number) {
    // Some share their first bytes, and some are the beginnings of others.
    std::string key = "key" + std::to_string(number * 104729 % kKeys);
    return number % 3 == 0 ? key.insert(0, "all of these begin so ") : key;
  }

  void Write(Random* random, uint64_t count, uint64_t step) {
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = KeyOf(random->Uniform(kKeys));
      const uint64_t kind = random->Uniform(20);
      if (kind < 13) {
        ASSERT_OK(db_->Put({}, key, std::to_string(step) + std::string(random->Uniform(90), 'v')));
      } else if (kind < 16) {
        ASSERT_OK(db_->Merge({}, key, std::to_string(step)));
      } else {
        ASSERT_OK(db_->Delete({}, key));
      }
    }
  }

  void DeleteSome(Random* random) {
    std::string begin = KeyOf(random->Uniform(kKeys)), end = KeyOf(random->Uniform(kKeys));
    if (end < begin) std::swap(begin, end);
    if (random->OneIn(2)) end = begin + "5";
    ASSERT_OK(db_->DeleteRange({}, begin, end));
  }

  // A table of RocksDB's, without what ours have.
  void Ingest(Random* random) {
    rocksdb::Options foreign = options_;
    foreign.table_factory.reset(rocksdb::NewBlockBasedTableFactory());
    foreign.sst_partitioner_factory = nullptr;
    std::map<std::string, std::string> records;
    for (int i = 0; i < 30; ++i) records[KeyOf(random->Uniform(kKeys))] = "ingested";
    ASSERT_OK(WriteTable(directory_ / "ingested", foreign, records));
    ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {directory_ / "ingested"}, {}));
  }

  // Whether the iterator has one child for all tables.
  static bool HasOneChild(Iterator* it) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    it->Seek("key5");
    const uint64_t sought = rocksdb::get_perf_context()->seek_child_seek_count;
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    return sought <= 2;
  }

  static std::string At(Iterator* it) {
    if (!it->Valid()) return it->status().ToString();
    return it->key().ToString() + "=" + it->value().ToString();
  }

  // Of both iterators, most often in one direction.
  static std::string Step(Random* random, bool back, std::unique_ptr<Iterator>* its) {
    const uint64_t choice = random->Uniform(16);
    std::string target = KeyOf(random->Uniform(kKeys));
    if (random->OneIn(2)) target.push_back(static_cast<char>('0' + random->Uniform(10)));
    const std::string what = (back ? "-" : "+") + std::to_string(choice) + ":" + target;
    const bool valid = its[0]->Valid();
    for (int i = 0; i < 2; ++i) {
      Iterator* const it = its[i].get();
      if (choice == 0) {
        it->SeekToFirst();
      } else if (choice == 1) {
        it->SeekToLast();
      } else if (choice < 6 || !valid) {
        if ((choice != 2) == back) {
          it->SeekForPrev(target);
        } else {
          it->Seek(target);
        }
      } else if ((choice < 14) == back) {
        it->Prev();
      } else {
        it->Next();
      }
    }
    return " " + what;
  }

  void Walk(Random* random, const ReadOptions& read) {
    std::unique_ptr<Iterator> its[2];
    its[0].reset(db_->NewIterator(read));
    {
      const OwnWay own_way;
      its[1].reset(db_->NewIterator(read));
    }
    std::string walked;
    const bool back = random->OneIn(2);
    for (int i = 0; i < 60; ++i) {
      walked += Step(random, back, its);
      ASSERT_EQ(At(its[1].get()), At(its[0].get())) << walked;
    }
  }

  TempDir directory_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_P(RunIteratorTest, StepsAreThoseOfTheMergingIterator) {
  const uint64_t seed = SeedFromEnvironment();
  Random random(seed);
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  options_ = OptionsOf(*FindEngine(GetParam()));
  options_.max_sequential_skip_in_iterations = random.Uniform(3);
  Open();
  std::vector<const rocksdb::Snapshot*> snapshots;
  for (uint64_t step = 0; step < 60 && !HasFailure(); ++step) {
    Write(&random, 400, step);
    if (random.OneIn(12)) DeleteSome(&random);
    if (random.OneIn(3)) snapshots.push_back(db_->GetSnapshot());
    if (random.OneIn(10)) Ingest(&random);
    if (!random.OneIn(3)) ASSERT_OK(db_->Flush({}));
    if (step == 40) ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), FindEngine(GetParam())->trie));
    if (random.OneIn(20)) {
      for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
      snapshots.clear();
      options_.allow_mmap_reads = random.OneIn(2);
      options_.max_open_files = random.OneIn(4) ? 12 : -1;
      Reopen();
    }
    for (int walk = 0; walk < 6 && !HasFailure(); ++walk) {
      ReadOptions read;
      std::string lower = KeyOf(random.Uniform(kKeys)), upper = KeyOf(random.Uniform(kKeys));
      if (upper < lower) std::swap(lower, upper);
      const Slice lower_bound = lower, upper_bound = upper;
      if (random.OneIn(3)) read.iterate_upper_bound = &upper_bound;
      if (random.OneIn(4)) read.iterate_lower_bound = &lower_bound;
      if (random.OneIn(2) && !snapshots.empty()) read.snapshot = snapshots[random.Uniform(snapshots.size())];
      if (random.OneIn(8)) read.table_filter = [](const rocksdb::TableProperties&) { return true; };
      read.fill_cache = !random.OneIn(4);
      read.verify_checksums = !random.OneIn(8);
      read.ignore_range_deletions = random.OneIn(10);
      Walk(&random, read);
    }
  }
  for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
}

INSTANTIATE_TEST_SUITE_P(Engines, RunIteratorTest, ::testing::Values("ordered", "leveled_ordered", "ordered_trie"),
                         [](const auto& engine) { return std::string(engine.param); });

TEST_F(RunIteratorTest, AllRunsAreOneChildWhereTheOptionsAllow) {
  options_ = OptionsOf(*FindEngine("leveled_ordered"));
  options_.disable_auto_compactions = true;
  Open();
  Random random(1);
  for (uint64_t run = 0; run < 6; ++run) {
    Write(&random, 1000, run);
    ASSERT_OK(db_->Flush({}));
  }
  const auto has_one_child = [&](const ReadOptions& read) {
    return HasOneChild(std::unique_ptr<Iterator>(db_->NewIterator(read)).get());
  };
  EXPECT_TRUE(has_one_child({}));
  std::unique_ptr<Iterator> own;
  {
    const OwnWay own_way;
    own.reset(db_->NewIterator({}));
  }
  EXPECT_FALSE(HasOneChild(own.get()));
  ReadOptions cache_only;
  cache_only.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_FALSE(has_one_child(cache_only));
  ReadOptions ahead;
  ahead.readahead_size = 1 << 20;
  EXPECT_FALSE(has_one_child(ahead));
  ReadOptions pinned;
  pinned.pin_data = true;
  EXPECT_FALSE(has_one_child(pinned));
}

// RocksDB's iterator, which is made at the first step back, sees what the snapshot sees.
TEST_F(RunIteratorTest, ASnapshotMayGoBeforeItsIterator) {
  options_ = OptionsOf(*FindEngine("leveled_ordered"));
  options_.disable_auto_compactions = true;
  Open();
  ASSERT_OK(db_->Put({}, "key1", "first"));
  ASSERT_OK(db_->Put({}, "key2", "second"));
  ASSERT_OK(db_->Flush({}));
  ReadOptions read;
  read.snapshot = db_->GetSnapshot();
  ASSERT_OK(db_->DeleteRange({}, "key1", "key3"));
  ASSERT_OK(db_->Flush({}));
  std::unique_ptr<Iterator> it(db_->NewIterator(read));
  db_->ReleaseSnapshot(read.snapshot);
  it->SeekForPrev("key3");
  EXPECT_EQ("key2=second", At(it.get()));
  it->Prev();
  EXPECT_EQ("key1=first", At(it.get()));
  it->Seek("key1");
  EXPECT_EQ("key1=first", At(it.get()));
}

// The same for a snapshot that an iterator is refreshed to, be it from before the first write.
TEST_F(RunIteratorTest, ARefreshedIteratorSeesNoLaterDeletions) {
  options_ = OptionsOf(*FindEngine("leveled_ordered"));
  options_.disable_auto_compactions = true;
  Open();
  Random random(1);
  Ingest(&random);
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  EXPECT_EQ(0, snapshot->GetSequenceNumber());
  ASSERT_OK(db_->DeleteRange({}, "a", "z"));
  ASSERT_OK(db_->Flush({}));
  std::unique_ptr<Iterator> it(db_->NewIterator({}));
  it->Seek("a");
  EXPECT_EQ("OK", At(it.get()));
  ASSERT_OK(it->Refresh(snapshot));
  it->SeekToLast();
  EXPECT_TRUE(it->Valid());
  it.reset(db_->NewIterator({}));
  ASSERT_OK(it->Refresh(snapshot));
  it->SeekToLast();
  EXPECT_TRUE(it->Valid());
  db_->ReleaseSnapshot(snapshot);
}

// A key that one run has is found by one block; the others wait until the scan goes on.
TEST_F(RunIteratorTest, ASeekReadsTheBlockThatHasTheKey) {
  options_ = OptionsOf(*FindEngine("leveled_ordered"));
  options_.disable_auto_compactions = true;
  Open();
  for (int run = 0; run < 8; ++run) {
    for (int i = run; i < 8000; i += 8) ASSERT_OK(db_->Put({}, "key" + std::to_string(100000 + i), "value"));
    ASSERT_OK(db_->Flush({}));
  }
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  for (int i = 0; i < 8000; i += 10) {
    std::unique_ptr<Iterator> it(db_->NewIterator({}));
    it->Seek("key" + std::to_string(100000 + i));
    ASSERT_TRUE(it->Valid());
    ASSERT_EQ("key" + std::to_string(100000 + i), it->key().ToString());
  }
  const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
  EXPECT_LT(counts.block_cache_hit_count + counts.block_read_count, 800 * 1.3);
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
}

// The block of one run is damaged: who comes there is told, who does not is not, and a later seek is as good as new.
// And of the run that has the entry before, if none has the key.
TEST_F(RunIteratorTest, AStepBackReadsTheBlockThatHasTheEntry) {
  options_ = OptionsOf(*FindEngine("ordered"));
  options_.disable_auto_compactions = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 1024;
  options_.table_factory.reset(NewOrderedTableFactory(table));
  Open();
  constexpr uint64_t kRuns = 10, kOf = 2000;
  for (uint64_t run = 0; run < kRuns; ++run) {
    for (uint64_t n = run; n < kRuns * kOf; n += kRuns) ASSERT_OK(db_->Put({}, BigEndian(n * 15485863 << 20), "value"));
    ASSERT_OK(db_->Flush({}));
  }
  Random random(SeedFromEnvironment());
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  const auto blocks = [] {
    return rocksdb::get_perf_context()->block_cache_hit_count + rocksdb::get_perf_context()->block_read_count;
  };
  uint64_t of_seeks = 0, of_last = 0;
  for (int i = 0; i < 1000; ++i) {
    std::unique_ptr<Iterator> it(db_->NewIterator({}));
    rocksdb::get_perf_context()->Reset();
    const uint64_t n = random.Uniform(kRuns * kOf);
    it->SeekForPrev(BigEndian((n * 15485863 << 20) + random.Uniform(2) * (1 + random.Uniform(1 << 20))));
    ASSERT_TRUE(it->Valid());
    of_seeks += blocks();
    rocksdb::get_perf_context()->Reset();
    it->SeekToLast();
    ASSERT_EQ(BigEndian((kRuns * kOf - 1) * 15485863 << 20), it->key());
    of_last += blocks();
  }
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
  EXPECT_LT(of_seeks, 1000u * 16 / 10);
  EXPECT_LE(of_last, 1000u);
}

TEST_F(RunIteratorTest, AnErrorEndsTheScanThatComesToIt) {
  options_ = OptionsOf(*FindEngine("leveled_ordered"));
  options_.disable_auto_compactions = true;
  options_.write_buffer_size = 8 << 20;
  options_.paranoid_file_checks = false;  // leaves the blocks in the cache
  Open();
  for (const char* const first : {"a", "b", "c"}) {
    for (int i = 1000; i < 3000; ++i) ASSERT_OK(db_->Put({}, first + std::to_string(i), std::string(50, 'v')));
    ASSERT_OK(db_->Put({}, "z" + std::string(first), "last"));
    ASSERT_OK(db_->Flush({}));
  }
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  for (const auto& file : files) {
    if (file.smallestkey[0] != 'b') continue;
    std::fstream table(file.directory + "/" + file.relative_filename, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(table.seekp(static_cast<std::streamoff>(file.size / 3)).write("damage", 6).good());
  }
  Reopen();
  std::unique_ptr<Iterator> it(db_->NewIterator({}));
  int rows = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++rows;
  EXPECT_TRUE(it->status().IsCorruption()) << it->status().ToString();
  EXPECT_GT(rows, 2000);
  EXPECT_LT(rows, 4000);
  it->Seek("c1000");
  ASSERT_TRUE(it->Valid()) << it->status().ToString();
  EXPECT_EQ("c1000", it->key().ToString());
  for (rows = 0; it->Valid(); it->Next()) ++rows;
  EXPECT_OK(it->status());
  EXPECT_EQ(2003, rows);
  Random random(7);
  Walk(&random, {});
}

struct FailingReads {
  Random random{1};
  uint64_t one_in = 0;  // 0: none fails
  uint64_t failed = 0;
};

class FailingFile : public ControlledFile<FailingReads> {
 public:
  using ControlledFile::ControlledFile;
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, Slice* result, char* scratch,
                         rocksdb::IODebugContext* dbg) const override {
    if (control_->one_in != 0 && control_->random.OneIn(control_->one_in)) {
      ++control_->failed;
      return rocksdb::IOStatus::IOError("injected");
    }
    return target()->Read(offset, n, options, result, scratch, dbg);
  }
};

// Whatever read fails: what is shown is right, and the end is none if there is more.
TEST_F(RunIteratorTest, NoRowIsMissingWhereReadsFail) {
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  FailingReads reads;
  reads.random = Random(random.Next());
  const auto env = rocksdb::NewCompositeEnv(
      std::make_shared<ControlledFileSystem<FailingFile, FailingReads>>(rocksdb::FileSystem::Default(), &reads));
  for (int round = 0; round < 12 && !HasFailure(); ++round) {
    options_ = OptionsOf(*FindEngine(random.OneIn(2) ? "leveled_ordered" : "ordered"));
    options_.env = env.get();
    options_.disable_auto_compactions = true;
    options_.enable_blob_files = random.OneIn(4);
    options_.min_blob_size = 60;
    auto* const table = options_.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    table->block_cache = rocksdb::NewLRUCache(random.OneIn(2) ? 1 << 20 : 16 << 10, 0);
    table->cache_index_and_filter_blocks = random.OneIn(2);
    if (random.OneIn(4)) table->index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    if (random.OneIn(4)) table->index_type = rocksdb::BlockBasedTableOptions::kBinarySearchWithFirstKey;
    Open();
    for (uint64_t step = 0; step < 12; ++step) {
      Write(&random, 300, step);
      if (random.OneIn(24)) DeleteSome(&random);
      ASSERT_OK(db_->Flush({}));
      if (step == 6 && random.OneIn(2)) ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
      if (random.OneIn(12)) Ingest(&random);
    }
    std::vector<std::pair<std::string, std::string>> rows;
    std::unique_ptr<Iterator> all(db_->NewIterator({}));
    for (all->SeekToFirst(); all->Valid(); all->Next()) {
      rows.emplace_back(all->key().ToString(), all->value().ToString());
    }
    ASSERT_OK(all->status());
    for (int walk = 0; walk < 40 && !HasFailure(); ++walk) {
      ReadOptions read;
      read.fill_cache = !random.OneIn(4);
      read.async_io = random.OneIn(10);
      if (random.OneIn(10)) read.readahead_size = 4096;
      reads.one_in = 0;
      std::unique_ptr<Iterator> it(db_->NewIterator(read));
      const auto at_or_above = [&](const std::string& key) {
        return std::lower_bound(rows.begin(), rows.end(), std::make_pair(key, std::string())) - rows.begin();
      };
      ptrdiff_t at = -1;
      std::string walked;
      reads.one_in = 1 + random.Uniform(random.OneIn(2) ? 30 : 300);
      for (int i = 0; i < 60 && !HasFailure(); ++i) {
        uint64_t choice = random.Uniform(30);
        const std::string target = KeyOf(random.Uniform(kKeys));
        const auto count = static_cast<ptrdiff_t>(rows.size());
        if (!it->Valid()) choice %= 4;
        const uint64_t failed = reads.failed;
        if (choice == 0) {
          it->SeekForPrev(target);
          at = at_or_above(target);
          if (at == count || rows[at].first != target) --at;
        } else if (choice < 3) {
          it->Seek(target);
          at = at_or_above(target);
        } else if (choice == 3) {
          it->SeekToFirst();
          at = 0;
        } else if (choice < 27) {
          it->Next();
          ++at;
        } else {
          it->Prev();
          --at;
        }
        walked += " " + std::to_string(choice) + ":" + target + (failed != reads.failed ? "!" : "");
        if (it->Valid()) {
          ASSERT_GE(at, 0) << walked;
          ASSERT_LT(at, count) << walked;
          ASSERT_EQ(rows[at].first, it->key().ToString()) << walked;
          ASSERT_EQ(rows[at].second, it->value().ToString()) << walked;
        } else if (it->status().ok()) {
          ASSERT_TRUE(at < 0 || at == count) << walked;
        } else {
          ASSERT_TRUE(it->status().IsIOError()) << walked << it->status().ToString();
        }
      }
    }
    reads.one_in = 0;
    all.reset();
    db_.reset();
    ASSERT_OK(rocksdb::DestroyDB(directory_ / "db", options_));
  }
  EXPECT_GT(reads.failed, 0);
}

}  // namespace
}  // namespace cairn::test
