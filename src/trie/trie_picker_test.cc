// Shape, space estimate and picker, driven without RocksDB: files are made of key numbers, compactions are simulated on
// the shape, and what the picker chooses is checked against the invariants of trie_shape.h.

#include "src/trie/trie_picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "src/testutil/test_seed.h"
#include "src/trie/simulated_trie.h"
#include "src/trie/trie_options.h"
#include "src/trie/trie_shape.h"
#include "src/trie/trie_space.h"

namespace cairn {
namespace {

constexpr uint64_t kBytesPerEntry = 100;

TrieOptions SmallTrie() {
  TrieOptions trie;
  trie.fan_out = 4;
  trie.slots = 6;
  trie.trigger = 4;
  trie.depth = 3;
  trie.root_trigger = 4;
  return trie;
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

TEST(TriePickerTest, NothingIsDueInAnEmptyOrSmallTrie) {
  SimulatedTrie trie(SmallTrie());
  TrieJob job;
  EXPECT_FALSE(trie.picker.Pick(&job));
  for (uint64_t file = 0; file < 3; ++file) {
    std::vector<std::pair<uint64_t, bool>> puts;
    for (uint64_t i = 0; i < 100; ++i) puts.push_back({file * 100 + i, false});
    trie.Flush(puts);
  }
  EXPECT_FALSE(trie.picker.Pick(&job));
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
  TrieOptions options = SmallTrie();
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

TEST(TriePickerTest, TheRootGoesToTheOldestFreeSlot) {
  SimulatedTrie trie(SmallTrie());
  for (uint64_t round = 1; round <= 3; ++round) {
    for (uint64_t file = 0; file < 4; ++file) {
      std::vector<std::pair<uint64_t, bool>> puts;
      for (uint64_t i = 0; i < 500; ++i) puts.push_back({(round * 10 + file) * 1000 + i, false});
      trie.Flush(puts);
    }
    TrieJob job;
    ASSERT_TRUE(trie.picker.Pick(&job));
    EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
    EXPECT_EQ(job.inputs.size(), 4u);
    EXPECT_EQ(job.output_level, LastLevelOfDepth(SmallTrie(), 1) - static_cast<int>(round) + 1);
    trie.Run(job);
  }
}

// Random keys: one write a depth, and no more garbage than the bound allows.
TEST(TriePickerTest, InsertsAreWrittenOncePerDepth) {
  TrieOptions options = SmallTrie();
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
    TrieOptions options = SmallTrie();
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
  const TrieSpace space = EstimateSpace(trie.shape, 0);
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
  TrieShape shape_;
  std::vector<uint64_t> positions_;
  uint64_t files_ = 0;
};

using Entry = KeySketch::Entry;

TEST_F(OperandsTest, WhatLiesBelowOperandsIsLive) {
  Add(last_, 1, Entry::kValue, 1000);
  Add(last_ - 1, 1, Entry::kOperands, 20);
  Add(last_ - 2, 1, Entry::kOperands, 20);
  for (double share : {0.0, 0.5, 1.0}) {
    const TrieSpace space = EstimateSpace(shape_, share);
    const ContainerSpace& container = space.containers.at({1, 0});
    ExpectNear(space.live, keys_ * (1000 + 40 * share));
    ExpectNear(container.merged, keys_ * (1000 + 40 * share));
    if (share < 1) ExpectNear(container.folded, keys_ * 40);
    EXPECT_NEAR(MergedShare(*shape_.Find({1, 0}), true, share), (1000 + 40 * share) / 1040, 0.02);
  }
}

TEST_F(OperandsTest, OperandsOnNothingComeToOne) {
  Add(last_, 1, Entry::kOperands, 20);
  Add(last_ - 1, 1, Entry::kOperands, 20);
  Add(last_ - 2, 1, Entry::kDeletion, 10);
  Add(last_ - 3, 2, Entry::kOperands, 20);
  const TrieSpace space = EstimateSpace(shape_, 0);
  ExpectNear(space.live, keys_ / 2 * 20);  // those of the newest table
  ExpectNear(space.containers.at({1, 0}).merged, keys_ / 2 * 20);
}

TEST_F(OperandsTest, APushBringsOperandsToTheirValue) {
  Add(last_, 1, Entry::kValue, 1000);
  Add(0, 2, Entry::kOperands, 20);
  const TrieSpace space = EstimateSpace(shape_, 0);
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
  const TrieSpace space = EstimateSpace(shape_, 0);
  EXPECT_EQ(space.live, 150000u);
  EXPECT_EQ(space.containers.at({1, 0}).merged, 150000u);
  EXPECT_EQ(MergedShare(*shape_.Find({1, 0}), true, 0), 1.0);
}

TEST(TrieSpaceTest, ATableWithoutASketchCountsAsLive) {
  TrieShape shape(SmallTrie());
  TrieFile file;
  file.number = 1;
  file.level = 1;
  file.bytes = 1000;
  file.data_bytes = 900;
  shape.Add(file);
  const TrieSpace space = EstimateSpace(shape, 0);
  EXPECT_EQ(space.bytes, 1000u);
  EXPECT_EQ(space.live, 900u);
  EXPECT_EQ(MergedShare(*shape.Find({1, 0}), true, 0), 1.0);
}

TrieFile FileAt(uint64_t number, int level, uint64_t container) {
  TrieFile file;
  file.number = number;
  file.level = level;
  file.container = container;
  file.bytes = kBytesPerEntry;
  file.data_bytes = kBytesPerEntry;
  return file;
}

// While siblings are pushed one after the other, new slots would have to lie above those that are not yet.
TEST(TriePickerTest, AParentWaitsWhileItsChildrenArePushed) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0);
  uint64_t number = 100;
  for (int slot = 0; slot < options.trigger; ++slot) {
    shape.Add(FileAt(number++, LastLevelOfDepth(options, 1) - slot, 0));
  }
  shape.Add(FileAt(number++, LastLevelOfDepth(options, 2), 4));  // of container 1, which has no file itself
  uint64_t file = 1;
  for (; file <= 6; ++file) shape.Add(FileAt(file, 0, 0));
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kPush);
  EXPECT_EQ(job.id, (ContainerId{1, 0}));
  shape.SetBusy(job.id, true);
  EXPECT_FALSE(picker.Pick(&job)) << "the root does not wait";
  for (; file <= 10; ++file) shape.Add(FileAt(file, 0, 0));
  ASSERT_TRUE(picker.Pick(&job)) << "the root waits too long";
  EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
}

TEST(TriePickerTest, NearlyEmptyContainersSinkBeforeTheirParentRunsOutOfSlots) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0);
  const int level = FirstLevelOfDepth(options, 1) + 1;  // one slot free above
  shape.Add(FileAt(100, level, 1));
  shape.Add(FileAt(101, level, 3));
  for (uint64_t file = 1; file <= 4; ++file) shape.Add(FileAt(file, 0, 0));
  for (uint64_t container : {1, 3}) {
    TrieJob job;
    ASSERT_TRUE(picker.Pick(&job));
    EXPECT_EQ(job.kind, TrieJob::Kind::kMerge);
    EXPECT_EQ(job.id, (ContainerId{1, container}));
    EXPECT_EQ(job.output_level, LastLevelOfDepth(options, 1));
    shape.Remove(99 + (container + 1) / 2);
    shape.Add(FileAt(200 + container, job.output_level, container));
  }
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
  EXPECT_EQ(job.output_level, LastLevelOfDepth(options, 1) - 1);
}

// What arrives in the free slots is merged along when they are merged in place at last.
TEST(TriePickerTest, NearlyEmptyContainersStayWhileTheirParentHasTwoSlotsForThem) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0);
  const int level = FirstLevelOfDepth(options, 1) + 2;
  shape.Add(FileAt(100, level, 1));
  shape.Add(FileAt(101, level, 3));
  for (uint64_t file = 1; file <= 4; ++file) shape.Add(FileAt(file, 0, 0));
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
  EXPECT_EQ(job.output_level, level - 1);
}

TrieFile SpanningFile(uint64_t number, int level, uint64_t first, uint64_t last) {
  TrieFile file = FileAt(number, level, first);
  file.spans = true;
  file.last_container = last;
  return file;
}

TEST(TrieShapeTest, SpanningFilesTakeTheirLevelInAllContainersThatTheyTouch) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  const int last = LastLevelOfDepth(options, 2);
  shape.Add(SpanningFile(1, last, 1, 2));
  shape.Add(SpanningFile(2, last, 6, 9));
  shape.Add(SpanningFile(3, last - 2, 7, 8));
  EXPECT_EQ(shape.NextFreeLevel({1, 0}), last - 1);
  EXPECT_EQ(shape.NextFreeLevel({1, 1}), last - 3);
  EXPECT_EQ(shape.NextFreeLevel({1, 2}), last - 3);
  EXPECT_EQ(shape.NextFreeLevel({1, 3}), last);
  EXPECT_EQ(shape.SpanningFilesIn({0, 0}, last - 2, last).size(), 3u);
  EXPECT_EQ(shape.SpanningFilesIn({2, 0}, last - 2, last).size(), 0u);
  EXPECT_EQ(shape.SpanningFilesIn({2, 2}, last - 2, last), std::vector<uint64_t>({1}));
  EXPECT_EQ(shape.SpanningFilesIn({2, 7}, last - 2, last), std::vector<uint64_t>({3, 2}));
  EXPECT_EQ(shape.SpanningFilesIn({3, 35}, last, last), std::vector<uint64_t>({2}));
  EXPECT_EQ(shape.bytes(), 3 * kBytesPerEntry);
  for (uint64_t number : {1, 2, 3}) shape.Remove(number);
  EXPECT_EQ(shape.NextFreeLevel({1, 1}), last);
  EXPECT_EQ(shape.bytes(), 0u);
}

TEST(TrieShapeTest, TheLastLevelMayBelongToWhatIsIngestedBehind) {
  const TrieOptions options = SmallTrie();
  const TrieShape shape(options, TrieShape::LastOfAll::kReserved);
  const int last = LastLevelOfDepth(options, options.depth);
  EXPECT_EQ(shape.LastLevel(options.depth), last - 1);
  EXPECT_EQ(shape.NextFreeLevel({options.depth - 1, 0}), last - 1);
  EXPECT_EQ(shape.LastLevel(1), LastLevelOfDepth(options, 1));
}

// A file whose parts would be small stays whole until it is in the way.
TEST(TriePickerTest, AStraddlingFileIsSplitWhenItIsInTheWay) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0, 1000 * kBytesPerEntry);
  const int last = LastLevelOfDepth(options, 1);
  shape.Add(SpanningFile(1, last - 1, 0, 1));
  TrieJob job;
  EXPECT_FALSE(picker.Pick(&job)) << "its parts are small";
  // Below it, a container is full, and goes its way.
  shape.Add(FileAt(2, last, 1));
  for (uint64_t number = 10; number < 14; ++number)
    shape.Add(FileAt(number, last + 1 - static_cast<int>(number - 10), 3));
  shape.Remove(10);
  shape.Add(FileAt(10, last - 4, 3));
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kPush);
  EXPECT_EQ(job.id, (ContainerId{1, 3}));
  shape.SetBusy(job.id, true);
  EXPECT_FALSE(picker.Pick(&job));
  // Above and below it, container 1 becomes full: with the file itself it has four slots.
  shape.Add(FileAt(3, last - 2, 1));
  EXPECT_FALSE(picker.Pick(&job));
  shape.Add(FileAt(4, last - 3, 1));
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kSplit);
  EXPECT_EQ(job.inputs, std::vector<uint64_t>({1}));
  EXPECT_EQ(job.output_level, last - 1);
  shape.SetSpanningFileBusy(1, true);
  EXPECT_FALSE(picker.Pick(&job)) << "while it is split, its container waits";
  shape.Remove(1);
  shape.Add(FileAt(20, last - 1, 0));
  shape.Add(FileAt(21, last - 1, 1));
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.id, (ContainerId{1, 1}));
}

TEST(TriePickerTest, NothingElseWaitsForAStraddlingFile) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0);  // all parts are large enough
  const int last = LastLevelOfDepth(options, 1);
  shape.Add(SpanningFile(1, last, 0, 3));
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kSplit);
  shape.SetSpanningFileBusy(1, true);
  EXPECT_FALSE(picker.Pick(&job));
  for (uint64_t number = 10; number < 14; ++number) shape.Add(FileAt(number, 0, 0));
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
  EXPECT_EQ(job.output_level, last - 1);
}

// No level is free above it, and no container is there that could be compacted.
TEST(TriePickerTest, AStraddlingFileInTheNewestSlotIsSplitForItsParent) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0, 1000 * kBytesPerEntry);
  shape.Add(SpanningFile(1, FirstLevelOfDepth(options, 1), 0, 3));
  for (uint64_t number = 10; number < 14; ++number) shape.Add(FileAt(number, 0, 0));
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kSplit);
}

TEST(TriePickerTest, WhatStraddlesIsNoGarbage) {
  const TrieOptions options = SmallTrie();
  TrieShape shape(options);
  TriePicker picker(&shape, 0, 1000 * kBytesPerEntry);
  for (uint64_t container = 0; container < 4; ++container) {
    shape.Add(FileAt(container + 10, LastLevelOfDepth(options, 1), container));
  }
  shape.Add(SpanningFile(1, LastLevelOfDepth(options, 2), 0, 3));
  EXPECT_EQ(picker.Space().live, 5 * kBytesPerEntry);
  EXPECT_EQ(picker.Space().bytes, 5 * kBytesPerEntry);
  EXPECT_EQ(picker.SpacePressure(), 0);
}

// A merge that frees nothing (a snapshot holds the old versions) is not tried for ever.
TEST(TriePickerTest, AFutileMergeIsNotRepeated) {
  TrieOptions options = SmallTrie();
  options.depth = 1;
  SimulatedTrie trie(options);
  std::vector<std::pair<uint64_t, bool>> puts;
  for (uint64_t i = 0; i < 1000; ++i) puts.push_back({i, false});
  TrieJob job;
  trie.Flush(puts);
  ASSERT_TRUE(trie.picker.PickContainer({0, 0}, &job));
  trie.Run(job);
  trie.Flush(puts);
  ASSERT_TRUE(trie.picker.PickContainer({0, 0}, &job));
  trie.Run(job);
  std::set<uint64_t> tried;
  while (trie.picker.Pick(&job)) {
    ASSERT_TRUE(job.for_space);
    ASSERT_TRUE(tried.insert(job.id.container).second) << "container " << job.id.container << " is merged again";
    trie.picker.Started(job);
    trie.picker.Finished(job, true, job.input_bytes, 42);  // as large as before
  }
  EXPECT_EQ(tried.size(), 4u);
  trie.picker.SetOldestSnapshot(43);  // released: worth another try
  EXPECT_TRUE(trie.picker.Pick(&job));
}

}  // namespace
}  // namespace cairn
