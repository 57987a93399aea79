// The option tombstone_run in each engine that has it: what scans pass over once compaction is idle, and what is
// written for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>

#include "cairn/engines.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"

namespace cairn {
namespace {

// More than this a seek need not pass over: tables that have fewer in a row are left.
constexpr uint64_t kRun = 64;
constexpr uint64_t kKeys = 20000;

class Compactions : public rocksdb::EventListener {
 public:
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { ++count; }
  std::atomic<int> count{0};
};

class OrderedTombstonesTest : public testing::TestWithParam<const char*> {
 protected:
  void Open(uint64_t run) {
    db_.reset();
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 64 << 10;
    options.target_file_size_base = 64 << 10;
    options.max_bytes_for_level_base = 256 << 10;
    options.compression = rocksdb::kNoCompression;
    options.max_background_jobs = 1;
    options.max_subcompactions = 1;
    ASSERT_OK(UseEngineFromString(std::string("engine=") + GetParam() + ";tombstone_run=" + std::to_string(run),
                                  &options, &options));
    options.statistics = statistics_ = rocksdb::CreateDBStatistics();
    compactions_ = std::make_shared<Compactions>();
    options.listeners.push_back(compactions_);
    ASSERT_OK(rocksdb::DB::Open(options, dir_ / std::to_string(++opened_), port::Into(&db_)));
  }

  static std::string Key(uint64_t n) { return std::to_string(1000000000 + n); }
  void Put(uint64_t n) { ASSERT_OK(db_->Put({}, Key(n), std::string(100, 'v'))); }
  void Delete(uint64_t n) { ASSERT_OK(db_->Delete({}, Key(n))); }

  void Settle() {
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(db_->WaitForCompact({}));
  }

  // Data as deep as it comes by itself.
  void Load() {
    std::mt19937_64 random(1);
    for (uint64_t i = 0; i < 2 * kKeys; ++i) Put(random() % kKeys);
    for (uint64_t i = 0; i < kKeys; ++i) Put(i);
    Settle();
  }

  // Entries that a seek to the first key passes over. It comes to `first`.
  uint64_t SkippedBefore(uint64_t first) {
    rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    const auto skipped = [&counts] { return counts.internal_delete_skipped_count + counts.internal_key_skipped_count; };
    const uint64_t before = skipped();
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    it->Seek(Key(0));
    EXPECT_EQ(it->Valid() ? it->key().ToString() : it->status().ToString(), Key(first));
    return skipped() - before;
  }

  // Each run of tables may leave one that is not marked. Leveled compaction and a trie may happen to take all down
  // without marks; universal does not.
  static void Judge(uint64_t run, uint64_t skipped) {
    if (run != 0) {
      EXPECT_LE(skipped, 8 * kRun);
    } else if (std::string(GetParam()) == "ordered") {
      EXPECT_GE(skipped, 16 * kRun) << "the test shows nothing";
    }
  }

  uint64_t Written() const {
    return statistics_->getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
           statistics_->getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
  }

  test::TempDir dir_;
  int opened_ = 0;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::shared_ptr<Compactions> compactions_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_P(OrderedTombstonesTest, ASeekOverDeletesOfDeepData) {
  constexpr uint64_t kDeleted = kKeys / 5;
  for (const uint64_t run : {uint64_t{0}, kRun}) {
    Open(run);
    Load();
    uint64_t skipped = 0;
    for (uint64_t i = 0; i < kDeleted; ++i) {
      Delete(i);
      if (i % 400 != 399) continue;
      Settle();
      skipped = std::max(skipped, SkippedBefore(i + 1));
    }
    Judge(run, skipped);
  }
}

TEST_P(OrderedTombstonesTest, ASeekToTheFrontOfAQueue) {
  for (const uint64_t run : {uint64_t{0}, kRun}) {
    Open(run);
    uint64_t front = 0, end = 0, skipped = 0;
    for (; end < kKeys / 10; ++end) Put(end);
    while (end < kKeys / 2) {
      Put(end++);
      Delete(front++);
      if (end % 400 != 0) continue;
      Settle();
      skipped = std::max(skipped, SkippedBefore(front));
    }
    Judge(run, skipped);
  }
}

// A snapshot keeps the tombstones wherever they go: each table goes down once, and that is all.
TEST_P(OrderedTombstonesTest, CompactionEndsWhileASnapshotKeepsThem) {
  Open(kRun);
  Load();
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  const int before = compactions_->count;
  constexpr uint64_t kDeleted = kKeys / 5;
  for (uint64_t i = 0; i < kDeleted; ++i) Delete(i);
  Settle();
  EXPECT_LT(compactions_->count - before, 200);
  const uint64_t written = Written();
  for (int i = 0; i < 3; ++i) ASSERT_OK(db_->WaitForCompact({}));
  EXPECT_EQ(Written(), written);
  rocksdb::ReadOptions old;
  old.snapshot = snapshot;
  std::string value;
  EXPECT_OK(db_->Get(old, Key(0), &value));
  EXPECT_TRUE(db_->Get({}, Key(0), &value).IsNotFound());
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(db_->WaitForCompact({}));
  SkippedBefore(kDeleted);
}

// There is nothing below them.
TEST_P(OrderedTombstonesTest, CompactionEndsWhereNothingIsDeleted) {
  Open(kRun);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kKeys / 5; ++i) Delete(i);
    Settle();
  }
  EXPECT_LT(compactions_->count, 200);
}

// With one flush after the other and all that follows from it, it is the same each time.
TEST_P(OrderedTombstonesTest, ScatteredDeletesWriteNoMore) {
  if (std::string(GetParam()).find("trie") != std::string::npos) {
    GTEST_SKIP() << "when a trie's compactions come depends on its threads, and what they write on that";
  }
  for (const uint64_t percent : {5, 50}) {
    uint64_t written[2] = {};
    for (const bool marks : {false, true}) {
      Open(marks ? kRun : 0);
      std::mt19937_64 random(percent);
      for (int i = 0; i < 20000; ++i) {
        const uint64_t key = random() % kKeys;
        if (random() % 100 < percent) {
          Delete(key);
        } else {
          Put(key);
        }
        if (i % 400 == 399) Settle();
      }
      written[marks ? 1 : 0] = Written();
    }
    EXPECT_LE(static_cast<double>(written[1]), 1.02 * static_cast<double>(written[0])) << percent;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, OrderedTombstonesTest,
                         testing::Values("ordered", "leveled_ordered", "round_robin", "ordered;compaction=trie;runs=4"),
                         [](const auto& engine) {
                           std::string name = engine.param;
                           return name.substr(0, name.find(';')) + (name.find("trie") == name.npos ? "" : "_trie");
                         });

}  // namespace
}  // namespace cairn
