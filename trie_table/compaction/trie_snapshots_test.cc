// What a trie writes for its space bound while snapshots keep old versions, in either order of keys. One compaction
// runs at a time and all are waited for after each flush, so that counts are the same in every run.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cairn/trie.h"
#include "rocksdb/db.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/key_trie_fixture.h"

namespace cairn {
namespace {

class TrieSnapshotsTest : public EitherOrderFixture {
 protected:
  static constexpr uint64_t kMost = 4000;     // keys, some two roots
  static constexpr uint64_t kOfAFlush = 320;  // which fit into a write buffer

  TrieSnapshotsTest() {
    if (GetParam() == "key_of_16") trie_.root_trigger = 16;  // which is a root's size when they keep so much
    options_.max_background_compactions = 1;
    options_.max_background_flushes = 1;
  }

  // Every key once, in an order that scatters them.
  void WriteAll(int round) {
    for (uint64_t i = 0; i < kMost; ++i) {
      const uint64_t number = i * 1009 % kMost;
      ASSERT_OK(db_->Put({}, Key(number), Value(number, round)));
      if (i % kOfAFlush == kOfAFlush - 1) Settle();
    }
    Settle();
  }
};

// The space bound is one for what can be dropped: what snapshots keep would else be written again for each root, and
// writers would wait for it.
TEST_P(TrieSnapshotsTest, WhatTheyKeepIsNotWrittenAgainAndAgain) {
  constexpr int rounds = 16;
  Open();
  std::vector<const rocksdb::Snapshot*> snapshots;
  TrieStats half;
  for (int round = 0; round < rounds; ++round) {
    if (round == rounds / 2) half = Stats();
    WriteAll(round);
    snapshots.push_back(db_->GetSnapshot());
  }
  const TrieStats stats = Stats();
  const double written = static_cast<double>(stats.compacted_bytes - half.compacted_bytes) /
                         static_cast<double>(stats.flushed_bytes - half.flushed_bytes);
  printf("compacted per byte flushed: %.2f\n", written);
  EXPECT_LT(written, 7) << TrieStatsToTable(stats);
  for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  WriteAll(rounds);
  EXPECT_LT(Stats().bytes, stats.bytes / 4) << "what they have kept is garbage now";
}

// A manual compaction writes what a snapshot keeps into the same tables.
TEST_P(TrieSnapshotsTest, WhatAReleasedOneHasKeptIsGarbage) {
  Open();
  WriteAll(0);
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  WriteAll(1);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  const TrieStats held = Stats();
  EXPECT_LT(held.space_amplification, trie_.space_bound) << "what it keeps is live\n" << TrieStatsToTable(held);
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  const TrieStats released = Stats();
  EXPECT_LT(released.bytes, held.bytes * 3 / 4) << TrieStatsToTable(released);
  EXPECT_NEAR(static_cast<double>(released.live_bytes), static_cast<double>(held.live_bytes) / 2,
              0.05 * static_cast<double>(held.live_bytes))
      << TrieStatsToTable(released);
  EXPECT_LE(released.space_amplification, trie_.space_bound) << TrieStatsToTable(released);
}

INSTANTIATE_TEST_SUITE_P(Orders, TrieSnapshotsTest, testing::Values("hash", "key", "key_of_16"),
                         [](const auto& order) { return order.param; });

}  // namespace
}  // namespace cairn
