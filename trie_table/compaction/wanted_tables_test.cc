// Compactions of a trie, in either order, for another reason than size: tables that a collector has marked, those that
// SuggestCompactRange names, and those whose blob files hold too much garbage.

#include "trie_table/compaction/wanted_tables.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "rocksdb/db.h"
#include "rocksdb/experimental.h"
#include "rocksdb/utilities/table_properties_collectors.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/key_trie_fixture.h"

namespace cairn {
namespace {

class WantedTablesTest : public EitherOrderFixture {
 protected:
  // Ordered tables mark tombstones by themselves.
  WantedTablesTest() {
    OrderFilterOptions unmarked;
    unmarked.tombstone_run = 0;
    options_.table_factory.reset(NewOrderedTableFactory({}, unmarked));
  }

  void MarkTombstones() {
    options_.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(/*sliding_window_size=*/64, /*deletion_trigger=*/32));
  }

  // All keys, as deep as they come.
  void Load() {
    Open();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put({}, Key(i), Value(i, 0)));
    ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  }

  void DeleteFirst(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_OK(db_->Delete({}, Key(i)));
    Settle();
  }

  uint64_t Tombstones() {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    uint64_t tombstones = 0;
    for (const rocksdb::LiveFileMetaData& file : files) tombstones += file.num_deletions;
    return tombstones;
  }

  void Check(uint64_t first) {
    uint64_t keys = 0;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++keys;
    ASSERT_OK(it->status());
    EXPECT_EQ(keys, kKeys - first);
  }

  double BlobGarbage() {
    uint64_t bytes = 0, of_them = 0;
    EXPECT_TRUE(db_->GetIntProperty("rocksdb.live-blob-file-size", &bytes));
    EXPECT_TRUE(db_->GetIntProperty("rocksdb.live-blob-file-garbage-size", &of_them));
    return static_cast<double>(of_them) / static_cast<double>(bytes);
  }

  // A quarter of the keys as they were written first, the others three times; nearly half is garbage.
  void LoadBlobs(rocksdb::BlobGarbageCollectionPolicy policy = rocksdb::BlobGarbageCollectionPolicy::kUseDefault) {
    options_.enable_blob_files = true;
    options_.min_blob_size = 50;
    options_.blob_file_size = 128 << 10;
    Open();
    ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));
    rocksdb::CompactRangeOptions compact;
    compact.blob_garbage_collection_policy = policy;
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kKeys / 4; ++i) {
        if (round > 0 && i % 4 == 0) continue;
        ASSERT_OK(db_->Put({}, Key(i), Value(i, round)));
      }
      ASSERT_OK(db_->CompactRange(compact, nullptr, nullptr));
    }
    ASSERT_GT(BlobGarbage(), 0.4);
    ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "false"}}));
  }

  static constexpr uint64_t kDeleted = 1000;
};

TEST_P(WantedTablesTest, TombstonesThatACollectorMarksComeDown) {
  MarkTombstones();
  Load();
  DeleteFirst(kDeleted);
  EXPECT_EQ(Tombstones(), 0u) << TrieStatsToTable(Stats());
  Check(kDeleted);
}

TEST_P(WantedTablesTest, TombstonesComeDownWhenItIsSuggested) {
  Load();
  DeleteFirst(kDeleted);
  ASSERT_EQ(Tombstones(), kDeleted);
  ASSERT_OK(rocksdb::experimental::SuggestCompactRange(db_.get(), nullptr, nullptr));
  Settle();
  EXPECT_EQ(Tombstones(), 0u) << TrieStatsToTable(Stats());
  Check(kDeleted);
}

TEST_P(WantedTablesTest, ASuggestionMayNameARange) {
  Load();
  DeleteFirst(kDeleted);
  const std::string begin = Key(kKeys - 10);
  const rocksdb::Slice slice = begin;
  const rocksdb::Status s = rocksdb::experimental::SuggestCompactRange(db_.get(), &slice, nullptr);
  EXPECT_EQ(s.IsNotSupported(), in_hash_order()) << s.ToString();
  Settle();
  EXPECT_EQ(Tombstones(), kDeleted);
}

// A table that a snapshot keeps from being cleaned is compacted no more than others, and cleaned later. In hash order
// its tombstones are scattered among others' keys by then, and no reason to compact.
TEST_P(WantedTablesTest, TombstonesThatASnapshotKeepsWaitForItsRelease) {
  MarkTombstones();
  Load();
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  DeleteFirst(kDeleted);
  EXPECT_EQ(Tombstones(), kDeleted);
  const uint64_t compacted = Stats().compacted_bytes;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(db_->Put({}, Key(kKeys - 1), Value(0, i)));
    Settle();
  }
  EXPECT_EQ(Stats().compacted_bytes, compacted);
  db_->ReleaseSnapshot(snapshot);
  Settle();
  EXPECT_LE(Tombstones(), in_hash_order() ? kDeleted : 0) << TrieStatsToTable(Stats());
  Check(kDeleted);
}

// There is nothing that they delete.
TEST_P(WantedTablesTest, TombstonesOverNothingGo) {
  MarkTombstones();
  Open();
  DeleteFirst(kDeleted);
  EXPECT_EQ(Tombstones(), 0u) << TrieStatsToTable(Stats());
}

TEST_P(WantedTablesTest, BlobFilesOfGarbageAreForced) {
  LoadBlobs();
  ASSERT_OK(db_->SetOptions({{"enable_blob_garbage_collection", "true"},
                             {"blob_garbage_collection_age_cutoff", "1"},
                             {"blob_garbage_collection_force_threshold", "0.3"}}));
  Settle();
  EXPECT_LE(BlobGarbage(), 0.3);
}

TEST_P(WantedTablesTest, CompactRangeCollectsBlobsAsItIsTold) {
  LoadBlobs();
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_OK(db_->CompactRange(compact, nullptr, nullptr));
  EXPECT_GT(BlobGarbage(), 0.4) << "enable_blob_garbage_collection is off";
  compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  compact.blob_garbage_collection_age_cutoff = 0;
  ASSERT_OK(db_->CompactRange(compact, nullptr, nullptr));
  EXPECT_GT(BlobGarbage(), 0.4) << "none is old enough";
  compact.blob_garbage_collection_age_cutoff = 1;
  ASSERT_OK(db_->CompactRange(compact, nullptr, nullptr));
  EXPECT_EQ(BlobGarbage(), 0);
}

TEST_P(WantedTablesTest, CompactRangeLeavesBlobsAsItIsTold) {
  options_.enable_blob_garbage_collection = true;
  options_.blob_garbage_collection_age_cutoff = 1;
  LoadBlobs(rocksdb::BlobGarbageCollectionPolicy::kDisable);
}

INSTANTIATE_TEST_SUITE_P(Orders, WantedTablesTest, testing::Values("hash", "key"),
                         [](const auto& order) { return order.param; });

}  // namespace
}  // namespace cairn
