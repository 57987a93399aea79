// Shape, space estimate and picker, driven without RocksDB: files are made of key numbers, compactions are simulated on
// the shape, and what the picker chooses is checked against the invariants of hash_shape.h. Single choices are in
// testdata/picker.txt.

#include "trie_table/compaction/hash_picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "test/testutil/simulated_trie.h"
#include "test/testutil/test_seed.h"
#include "test/testutil/trie_fixture.h"
#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_space.h"

namespace cairn {
namespace {

constexpr uint64_t kBytesPerEntry = 100;

HashTrieOptions SmallTrie() {
  return ShapedTrie<HashTrieOptions>(/*fan_out=*/4, /*slots=*/6, /*trigger=*/4, /*depth=*/3, /*root_trigger=*/4);
}

TEST(TrieShapeTest, CountsWhatComesAndGoes) {
  SimulatedTrie trie(SmallTrie());
  TrieFile file;
  file.number = 7;
  file.level = LastLevelOfDepth(SmallTrie(), 2);
  file.container = 5;
  file.bytes = 100;
  trie.shape.Add(file);
  trie.shape.Add(file);  // twice changes nothing
  EXPECT_EQ(trie.shape.files(), 1u);
  EXPECT_EQ(trie.shape.bytes(), 100u);
  EXPECT_EQ(trie.shape.root().files_below, 1u);
  ASSERT_NE(trie.shape.Find({1, 1}), nullptr);
  EXPECT_EQ(trie.shape.Find({1, 1})->files_below, 1u);
  EXPECT_EQ(trie.shape.Children({1, 1}), std::vector<ContainerId>({{2, 5}}));
  EXPECT_EQ(trie.shape.NextFreeLevel({1, 1}), LastLevelOfDepth(SmallTrie(), 2) - 1);
  EXPECT_EQ(trie.shape.NextFreeLevel({1, 2}), LastLevelOfDepth(SmallTrie(), 2));
  trie.shape.Remove(8);  // not there
  trie.shape.Remove(7);
  EXPECT_EQ(trie.shape.files(), 0u);
  EXPECT_EQ(trie.shape.bytes(), 0u);
  EXPECT_TRUE(trie.shape.containers().empty());
}

// A few write buffers of new keys with some duplicates: the next one could not break the bound by much, and to rewrite
// them would free next to nothing.
TEST(TriePickerTest, AFewFlushesOfNewKeysAreLeftAlone) {
  SimulatedTrie trie(SmallTrie());
  TrieJob job;
  for (uint64_t file = 0; file < 3; ++file) {
    std::vector<std::pair<uint64_t, bool>> puts;
    for (uint64_t i = 0; i < 1000; ++i) puts.push_back({file * 930 + i, false});
    trie.Flush(puts);
    EXPECT_FALSE(trie.picker.Pick(&job)) << file;
    EXPECT_EQ(trie.picker.SpacePressure(), 0) << file;
  }
}

// A compaction runs; the trie is over its bound by what some write buffers bring.
double PressureOf(uint64_t keys, uint64_t keys_of_a_flush) {
  HashTrieOptions options = SmallTrie();
  options.root_trigger = 8;
  SimulatedTrie trie(options);
  const auto flush = [&](uint64_t first) {
    std::vector<std::pair<uint64_t, bool>> puts;
    for (uint64_t i = 0; i < keys_of_a_flush; ++i) puts.push_back({(first + i) % keys, false});
    trie.Flush(puts);
  };
  for (uint64_t first = 0; first < keys; first += keys_of_a_flush) flush(first);
  trie.Settle();
  const uint64_t bound = static_cast<uint64_t>(options.space_bound * static_cast<double>(keys * kBytesPerEntry));
  for (uint64_t first = 0; trie.shape.bytes() <= bound; first += keys_of_a_flush) flush(first);
  TrieJob job;
  EXPECT_TRUE(trie.picker.Pick(&job));
  trie.picker.Started(job);
  return trie.picker.SpacePressure();
}

TEST(TriePickerTest, TheSpaceBoundSlowsNobodyDownInATrieOfAFewFlushes) {
  EXPECT_EQ(PressureOf(12000, 1000), 0.0);
  EXPECT_GT(PressureOf(60000, 1000), 0.5);
}

// Random keys: one write a depth, and no more garbage than the bound allows.
TEST(TriePickerTest, InsertsAreWrittenOncePerDepth) {
  HashTrieOptions options = SmallTrie();
  options.depth = 5;
  SimulatedTrie trie(options);
  uint64_t key = 0;
  for (int flush = 0; flush < 300; ++flush) {
    std::vector<std::pair<uint64_t, bool>> puts;
    for (int i = 0; i < 500; ++i) puts.push_back({key++, false});
    trie.Flush(puts);
    ASSERT_TRUE(trie.Settle()) << "the picker does not come to rest";
  }
  const int deepest = trie.shape.containers().rbegin()->first.depth;
  EXPECT_GT(deepest, 1);
  EXPECT_LE(static_cast<double>(trie.written), (1.0 + deepest) * static_cast<double>(trie.flushed));
  EXPECT_EQ(trie.LiveEntries() * kBytesPerEntry, trie.shape.bytes());
  EXPECT_EQ(trie.violations, 0u);
}

TEST(TriePickerTest, UpdatesStayWithinTheSpaceBound) {
  for (double bound : {1.25, 1.5, 2.0}) {
    HashTrieOptions options = SmallTrie();
    options.space_bound = bound;
    SimulatedTrie trie(options);
    std::mt19937_64 random(Seed());
    const uint64_t keys = 20000;
    for (int flush = 0; flush < 200; ++flush) {
      std::vector<std::pair<uint64_t, bool>> puts;
      for (int i = 0; i < 500; ++i) puts.push_back({random() % keys, false});
      trie.Flush(puts);
      ASSERT_TRUE(trie.Settle()) << "the picker does not come to rest";
      if (flush < 40) continue;
      const double space = static_cast<double>(trie.shape.bytes());
      // The estimate may be a few percent off in so small a trie.
      ASSERT_LE(space, (bound + 0.08) * static_cast<double>(trie.LiveEntries() * kBytesPerEntry)) << flush;
    }
    EXPECT_EQ(trie.violations, 0u);
    printf("bound %.2f: write amplification %.2f\n", bound,
           static_cast<double>(trie.written) / static_cast<double>(trie.flushed));
  }
}

TEST(TriePickerTest, DeletesGiveTheirSpaceBack) {
  SimulatedTrie trie(SmallTrie());
  std::vector<std::pair<uint64_t, bool>> operations;
  for (bool deleted : {false, true}) {
    for (uint64_t key = 0; key < 20000; ++key) {
      operations.push_back({key, deleted});
      if (operations.size() < 500) continue;
      trie.Flush(operations);
      operations.clear();
      ASSERT_TRUE(trie.Settle()) << "the picker does not come to rest";
    }
  }
  EXPECT_EQ(trie.LiveEntries(), 0u);
  EXPECT_LT(trie.shape.bytes(), 20000 * kBytesPerEntry / 100);
}

TEST(TrieSpaceTest, EstimatesWithinFivePercent) {
  SimulatedTrie trie(SmallTrie());
  std::mt19937_64 random(Seed());
  for (int flush = 0; flush < 100; ++flush) {
    std::vector<std::pair<uint64_t, bool>> operations;
    for (int i = 0; i < 1000; ++i) operations.push_back({random() % 40000, random() % 10 == 0});
    trie.Flush(operations);
    TrieJob job;
    if (trie.picker.Pick(&job)) trie.Run(job);
  }
  const TrieSpace space = EstimateSpace(trie.shape, 0, SnapshotLedger());
  EXPECT_EQ(space.bytes, trie.shape.bytes());
  const double live = static_cast<double>(trie.LiveEntries() * kBytesPerEntry);
  EXPECT_NEAR(static_cast<double>(space.live) / live, 1.0, 0.05);
}

// Tables of `positions`, all of one container.
class OperandsTest : public testing::Test {
 protected:
  OperandsTest() : shape_(SmallTrie()) {
    std::mt19937_64 random(Seed());
    // Of container 0 at all depths.
    for (int i = 0; i < 20000; ++i) positions_.push_back(random() >> 6);
    std::sort(positions_.begin(), positions_.end());
  }

  void Add(int level, size_t every, KeySketch::Entry entry, uint64_t bytes_per_entry) {
    auto sketch = std::make_shared<KeySketch>();
    for (size_t i = 0; i < positions_.size(); i += every) sketch->Add(positions_[i], entry);
    sketch->Sort();
    TrieFile file;
    file.number = ++files_;
    file.level = level;
    file.bytes = sketch->keys() * bytes_per_entry;
    file.data_bytes = file.bytes;
    file.sketch = std::move(sketch);
    shape_.Add(file);
  }

  static void ExpectNear(uint64_t estimate, double expected) {
    EXPECT_NEAR(static_cast<double>(estimate), expected, 0.05 * expected + 1);
  }

  const int last_ = LastLevelOfDepth(SmallTrie(), 1);
  const double keys_ = 20000;
  HashShape shape_;
  std::vector<uint64_t> positions_;
  uint64_t files_ = 0;
};

using Entry = KeySketch::Entry;

TEST_F(OperandsTest, WhatLiesBelowOperandsIsLive) {
  Add(last_, 1, Entry::kValue, 1000);
  Add(last_ - 1, 1, Entry::kOperands, 20);
  Add(last_ - 2, 1, Entry::kOperands, 20);
  for (double share : {0.0, 0.5, 1.0}) {
    const TrieSpace space = EstimateSpace(shape_, share, SnapshotLedger());
    const ContainerSpace& container = space.containers.at({1, 0});
    ExpectNear(space.live, keys_ * (1000 + 40 * share));
    ExpectNear(container.merged, keys_ * (1000 + 40 * share));
    if (share < 1) ExpectNear(container.folded, keys_ * 40);
    EXPECT_NEAR(MergedShare(*shape_.Find({1, 0}), true, share, SnapshotLedger()), (1000 + 40 * share) / 1040, 0.02);
  }
}

TEST_F(OperandsTest, OperandsOnNothingComeToOne) {
  Add(last_, 1, Entry::kOperands, 20);
  Add(last_ - 1, 1, Entry::kOperands, 20);
  Add(last_ - 2, 1, Entry::kDeletion, 10);
  Add(last_ - 3, 2, Entry::kOperands, 20);
  const TrieSpace space = EstimateSpace(shape_, 0, SnapshotLedger());
  ExpectNear(space.live, keys_ / 2 * 20);  // those of the newest table
  ExpectNear(space.containers.at({1, 0}).merged, keys_ / 2 * 20);
}

TEST_F(OperandsTest, APushBringsOperandsToTheirValue) {
  Add(last_, 1, Entry::kValue, 1000);
  Add(0, 2, Entry::kOperands, 20);
  const TrieSpace space = EstimateSpace(shape_, 0, SnapshotLedger());
  const ContainerSpace& root = space.containers.at({0, 0});
  ExpectNear(space.live, keys_ * 1000);
  ExpectNear(root.merged, keys_ / 2 * 20);
  ExpectNear(root.folded_below, keys_ / 2 * 20);
  ExpectNear(root.shadowing, keys_ / 2 * 20);
  ExpectNear(space.containers.at({1, 0}).after_parent, keys_ * 1000);
}

// Keys of equal hashes are many, and no garbage: else the trie would merge them again and again.
TEST_F(OperandsTest, KeysOfOnePositionAreLive) {
  positions_.assign(1000, 400);
  Add(last_, 1, Entry::kValue, 100);
  Add(last_ - 1, 2, Entry::kValue, 100);
  const TrieSpace space = EstimateSpace(shape_, 0, SnapshotLedger());
  EXPECT_EQ(space.live, 150000u);
  EXPECT_EQ(space.containers.at({1, 0}).merged, 150000u);
  EXPECT_EQ(MergedShare(*shape_.Find({1, 0}), true, 0, SnapshotLedger()), 1.0);
}

}  // namespace
}  // namespace cairn
