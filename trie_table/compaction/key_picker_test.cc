// Shape, cuts and picker of a trie in key order, driven without RocksDB: workloads run over simulated files, and what
// is chosen is checked against the invariants of key_shape.h, against the truth, and against what the workload may
// cost.

#include "trie_table/compaction/key_picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test/testutil/counting_comparator.h"
#include "test/testutil/paced_key_trie.h"
#include "test/testutil/test_seed.h"
#include "test/testutil/trie_fixture.h"
#include "trie_table/compaction/simulated_key_trie.h"
#include "trie_table/compaction/trie_options.h"
#include "util/mix64.h"

namespace cairn {
namespace {

constexpr uint64_t kEntriesPerFlush = 200;
constexpr SimulatedKeyTrie::Costs kCosts;

KeyTrieOptions SmallTrie() {
  auto trie = ShapedTrie<KeyTrieOptions>(/*fan_out=*/8, /*slots=*/10, /*trigger=*/7, /*depth=*/3, /*root_trigger=*/8);
  trie.space_bound = 1.5;
  return trie;
}

class KeyTrieTest : public testing::TestWithParam<KeyPicker::Moves> {
 protected:
  using Operation = SimulatedKeyTrie::Operation;

  explicit KeyTrieTest(const KeyTrieOptions& trie = SmallTrie(), const SimulatedKeyTrie::Costs& costs = kCosts)
      : options_(trie), trie_(trie, kEntriesPerFlush * costs.table_bytes, costs, GetParam()), random_(Seed()) {}

  void Put(uint64_t key) { Write({key, false}); }
  void Delete(uint64_t key) { Write({key, true}); }

  // Two compactions at a time, of which a random one ends first, while writes go on.
  void Write(const Operation& operation) {
    batch_.push_back(operation);
    if (operation.deleted) {
      model_.erase(operation.key);
    } else {
      model_.insert(operation.key);
    }
    if (batch_.size() < kEntriesPerFlush) return;
    trie_.Flush(batch_);
    batch_.clear();
    Work();
    Measure();
  }

  void Work() {
    TrieJob job;
    for (int steps = 0; steps < 6; ++steps) {
      while (running_.size() < 2 && trie_.picker.Pick(&job)) running_.push_back(trie_.Start(job));
      Measure();
      if (running_.empty()) return;
      const auto done = running_.begin() + static_cast<std::ptrdiff_t>(random_() % running_.size());
      trie_.Finish(*done);
      running_.erase(done);
    }
    // Writers wait for the root, and for space.
    while (!running_.empty() && (trie_.picker.SpacePressure() >= 1 ||
                                 (!trie_.shape.ContainersAt(0).empty() &&
                                  trie_.shape.ContainersAt(0).front().slots > 3 * options_.root_trigger))) {
      trie_.Finish(running_.front());
      running_.erase(running_.begin());
      while (running_.size() < 2 && trie_.picker.Pick(&job)) running_.push_back(trie_.Start(job));
    }
  }

  void Measure() {
    if (model_.size() < 10 * options_.root_trigger * kEntriesPerFlush) return;
    const double live = static_cast<double>((model_.size()) * kCosts.data_bytes);
    const double space = static_cast<double>(trie_.bytes()) / live;
    most_space_ = std::max(most_space_, space);
  }

  void FinishAll() {
    for (const auto& running : running_) trie_.Finish(running);
    running_.clear();
    trie_.Flush(batch_);
    batch_.clear();
  }

  void ExpectEverything() {
    FinishAll();
    ASSERT_TRUE(trie_.Settle()) << "the picker does not come to rest";
    EXPECT_EQ(trie_.LiveKeys(), std::vector<uint64_t>(model_.begin(), model_.end()));
    for (const std::string& violation : trie_.violations) ADD_FAILURE() << violation;
    // While there was most to compact, a root may have been larger than it is now.
    const KeySizes full(options_, kEntriesPerFlush * kCosts.table_bytes, options_.root_trigger);
    EXPECT_LE(trie_.largest_job, full.largest_job);
  }

  double Amplification() const { return static_cast<double>(trie_.written) / static_cast<double>(trie_.flushed); }

  void Report(const char* what) const {
    printf("%s: written %.2f per byte flushed, space %.2f, largest job %.2f of a root, %zu tables, %zu moved\n", what,
           Amplification(), most_space_,
           static_cast<double>(trie_.largest_job) / static_cast<double>(trie_.picker.sizes().unit),
           static_cast<size_t>(trie_.shape.files()), static_cast<size_t>(trie_.moved_files));
    for (int depth = 0; depth <= options_.depth; ++depth) {
      int slots = 0;
      uint64_t bytes = 0;
      size_t files = 0;
      for (const KeyContainer& container : trie_.shape.ContainersAt(depth)) {
        slots = std::max(slots, container.slots);
        bytes += container.bytes;
        files += container.files.size();
      }
      printf("  depth %d: %zu containers, %zu files, %d slots at most, %.1f roots\n", depth,
             trie_.shape.ContainersAt(depth).size(), files, slots,
             static_cast<double>(bytes) / static_cast<double>(trie_.picker.sizes().unit));
    }
  }

  bool moves() const { return GetParam() == KeyPicker::Moves::kMove; }

  const KeyTrieOptions options_;
  SimulatedKeyTrie trie_;
  std::mt19937_64 random_;
  std::vector<Operation> batch_;
  std::vector<SimulatedKeyTrie::Running> running_;
  std::set<uint64_t> model_;
  double most_space_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Moves, KeyTrieTest, testing::Values(KeyPicker::Moves::kMove, KeyPicker::Moves::kRewrite),
                         [](const auto& with) { return with.param == KeyPicker::Moves::kMove ? "Move" : "Rewrite"; });

constexpr uint64_t kMany = 80000;  // 50 roots

TEST_P(KeyTrieTest, SequentialKeysAreWrittenOnce) {
  for (uint64_t key = 0; key < kMany; ++key) Put(key);
  Report("sequential");
  ExpectEverything();
  EXPECT_LE(Amplification(), moves() ? 1.01 : 2.1);
}

TEST_P(KeyTrieTest, StreamsAreWrittenTwice) {
  const uint64_t streams = 16;
  for (uint64_t i = 0; i < kMany; ++i) Put(((i % streams) << 40) + i / streams);
  Report("16 streams");
  ExpectEverything();
  if (moves()) {
    EXPECT_LE(Amplification(), 2.5);
  }
}

TEST_P(KeyTrieTest, UniformPuts) {
  for (uint64_t i = 0; i < kMany; ++i) Put(random_() % kMany);
  Report("uniform");
  ExpectEverything();
  EXPECT_LE(most_space_, options_.space_bound + 0.05);
}

TEST_P(KeyTrieTest, UniformUpdatesAfterASequentialLoad) {
  for (uint64_t i = 0; i < kMany / 2; ++i) Put(i);
  for (uint64_t i = 0; i < kMany / 2; ++i) Put(random_() % (kMany / 2));
  Report("updates");
  ExpectEverything();
  EXPECT_LE(most_space_, options_.space_bound + 0.05);
}

TEST_P(KeyTrieTest, MovingHotSpot) {
  for (uint64_t i = 0; i < kMany; ++i) {
    const uint64_t spot = i / 4000 * 7919 % 100;
    Put(random_() % 10 == 0 ? random_() % kMany : spot * (kMany / 100) + random_() % (kMany / 100));
  }
  Report("moving hot spot");
  ExpectEverything();
}

TEST_P(KeyTrieTest, TimeOrderedWithDeletionOfTheOldest) {
  for (uint64_t i = 0; i < kMany; ++i) {
    Put(i);
    if (i >= kMany / 10) Delete(i - kMany / 10);
  }
  Report("time-ordered, the oldest deleted");
  ExpectEverything();
}

// They are equal but for their last byte.
TEST_P(KeyTrieTest, FewKeys) {
  for (uint64_t i = 0; i < kMany / 4; ++i) Put(random_() % 256);
  Report("256 keys");
  ExpectEverything();
}

// What is compared, cut and looked for is keys of a mebibyte that differ in their last two bytes.
class LongKeyTrieTest : public KeyTrieTest {
 protected:
  LongKeyTrieTest() : KeyTrieTest(SmallTrie(), {100, 100, 1 << 20}) {}
};

INSTANTIATE_TEST_SUITE_P(Moves, LongKeyTrieTest, testing::Values(KeyPicker::Moves::kMove));

TEST_P(LongKeyTrieTest, KeysOfAMebibyteGoWhereShortOnesDo) {
  SimulatedKeyTrie of_short(options_, kEntriesPerFlush * kCosts.table_bytes, kCosts, GetParam());
  const auto entries_of = [](const SimulatedKeyTrie& trie) {
    std::vector<std::pair<int, uint64_t>> tables;
    for (uint64_t number : trie.shape.Numbers())
      tables.emplace_back(trie.shape.LevelOf(number), trie.shape.Find(number)->bytes);
    std::sort(tables.begin(), tables.end());
    return tables;
  };
  for (int flush = 0; flush < 12; ++flush) {
    std::vector<Operation> batch;
    for (uint64_t i = 0; i < kEntriesPerFlush; ++i) batch.push_back({random_() % 2000, random_() % 20 == 0});
    for (SimulatedKeyTrie* trie : {&trie_, &of_short}) {
      trie->Flush(batch);
      ASSERT_TRUE(trie->Settle());
    }
    ASSERT_EQ(entries_of(trie_), entries_of(of_short)) << "flush " << flush;
  }
  EXPECT_GT(trie_.jobs[TrieJob::Kind::kMerge], 0u);
  EXPECT_EQ(trie_.LiveKeys(), of_short.LiveKeys());
  for (const std::string& violation : trie_.violations) ADD_FAILURE() << violation;
}

// --- How large is a root, and how long do writers wait? --------------------------------------------------------------

TEST(RootFilesTest, TwoNinthsOfTheGarbageThatTheBoundAllows) {
  KeyTrieOptions trie;
  trie.root_trigger = 16;
  trie.space_bound = 1.6;
  const auto at_bound = [&trie](uint64_t live) {
    return RootFilesFor(trie, live, static_cast<uint64_t>((trie.space_bound - 1) * static_cast<double>(live)), 100);
  };
  EXPECT_EQ(at_bound(0), 3);
  EXPECT_EQ(at_bound(2900), 3);
  EXPECT_EQ(at_bound(3001), 4);
  EXPECT_EQ(at_bound(7501), 10);
  EXPECT_EQ(at_bound(1000000), 16);
  EXPECT_EQ(RootFilesFor(trie, UINT64_MAX, 0, 0), 16);
  EXPECT_EQ(RootFilesFor(trie, 3001, UINT64_MAX, 100), 4);
  // A trie that grows has room for more.
  EXPECT_EQ(RootFilesFor(trie, 3001, 0, 100), 10);
  EXPECT_EQ(RootFilesFor(trie, 3001, 600, 100), 7);
  EXPECT_EQ(RootFilesFor(trie, 3001, 1134, 100), 4);
  EXPECT_EQ(RootFilesFor(trie, 7501, 0, 100), 16);
  trie.space_bound = 1.1;
  EXPECT_EQ(at_bound(18001), 4);
  trie.root_trigger = 2;
  EXPECT_EQ(at_bound(0), 2);
}

// Without a clock. At the rate that it sustains it writes what it may, and at half of that it holds nobody up for long:
// with roots of 16 write buffers, whatever the size of the trie, a hundredth of the puts waited 133 ms, and a trie of 2
// roots took 1.88 bytes per live byte. Where a second compaction takes all the room that there is, puts wait 128 ms.
TEST(PacedKeyTrieTest, AWriterAtHalfTheRateSeldomWaits) {
  for (const uint64_t buffers : {uint64_t{45}, uint64_t{177}}) {
    PacedPlay play;
    play.trie = KeyTrieOptions();
    play.buffers = buffers;
    play.rate = SustainedRate(play) / 2;
    const PacedOutcome paced = Play(play);
    printf("%zu write buffers at half of %.0f MB/s: p99 %.1f ms, longest %.1f ms, written %.2f, space %.2f\n",
           static_cast<size_t>(buffers), 2 * play.rate / 1e6, 1e3 * paced.p99, 1e3 * paced.longest, paced.written,
           paced.space);
    EXPECT_LE(paced.p99, 0.03);
    EXPECT_LE(paced.longest, 0.045);
    EXPECT_LE(paced.written, 2.8);
    EXPECT_LE(paced.space, 1.6);
    EXPECT_LE(paced.largest, 1.125);
  }
}

TEST_P(KeyTrieTest, DeletesGiveTheirSpaceBack) {
  for (uint64_t i = 0; i < kMany / 10; ++i) Put(i);
  for (uint64_t i = 0; i < kMany / 10; ++i) Delete(i);
  ExpectEverything();
  Report("all deleted");
  EXPECT_LT(trie_.shape.bytes(), trie_.picker.sizes().unit);
}

TEST_P(KeyTrieTest, AManualCompactionLeavesOneTableForAKey) {
  for (uint64_t i = 0; i < kMany / 4; ++i) {
    Put(random_() % 10000);
    if (i % 3 == 0) Delete(random_() % 10000);
  }
  ExpectEverything();
  ASSERT_TRUE(trie_.Compact());
  EXPECT_EQ(trie_.shape.bytes(), model_.size() * kCosts.table_bytes);
  for (const KeyContainer& container : trie_.shape.ContainersAt(options_.depth)) EXPECT_EQ(container.slots, 1);
}

// Those lie in gaps, where a table of them alone is moved to the last level, unwritten.
TEST_P(KeyTrieTest, AManualCompactionDropsDeletionsOfAbsentKeys) {
  for (int round = 0; round < 20; ++round) {
    for (uint64_t i = 0; i < kMany / 40; ++i) Put(1000 + random_() % 3000);
    Delete(static_cast<uint64_t>(round));
    Delete((uint64_t{1} << 40) + static_cast<uint64_t>(round));
    FinishAll();
    ASSERT_TRUE(trie_.Compact());
    ASSERT_EQ(trie_.shape.bytes(), model_.size() * kCosts.table_bytes) << "round " << round;
  }
}

TEST_P(KeyTrieTest, ZipfianUpdates) {
  // Bounded Pareto: a fifth of the keys gets most of the updates.
  for (uint64_t i = 0; i < kMany; ++i) {
    const double u = std::uniform_real_distribution<double>(0, 1)(random_);
    Put(Mix64(static_cast<uint64_t>(std::pow(static_cast<double>(kMany), u))) % (uint64_t{1} << 40));
  }
  Report("Zipf");
  ExpectEverything();
}

// --- Scans -----------------------------------------------------------------------------------------------------------

TEST_P(KeyTrieTest, WhatIsScannedIsMerged) {
  for (uint64_t i = 0; i < kMany; ++i) Put(random_() % kMany);
  // A hundredth of the keys is scanned while puts to all go on. In tables that a seek reads: of these keys, and of all,
  // because a shape is as good by itself in one place, rarely. In several places, because what lies above one of them
  // may have come just now.
  constexpr uint64_t kPlaces = 4;
  const auto scan = [&](uint64_t block_bytes) {
    size_t here = 0, all = 0;
    for (uint64_t i = 0; i < kMany / 2; ++i) {
      Put(random_() % kMany);
      here += trie_.Scan(kMany / kPlaces * (i % kPlaces) + random_() % (kMany / 100 / kPlaces), block_bytes);
      all += trie_.Scan(random_() % kMany, 0);
    }
    return std::pair(static_cast<double>(here) / (kMany / 2.0), static_cast<double>(all) / (kMany / 2.0));
  };
  scan(0);
  const double written_before = Amplification();
  EXPECT_EQ(trie_.written_for_scans, 0u);
  const auto [there, anywhere] = scan(100);
  printf("tables below the root that a seek reads: %.2f, where scans are %.2f; written for scans %.3f of flushed\n",
         anywhere, there, static_cast<double>(trie_.written_for_scans) / static_cast<double>(trie_.flushed));
  printf("written per byte flushed: %.2f before\n", written_before);
  Report("scanned");
  ExpectEverything();
  EXPECT_LT(there, 0.75 * anywhere);
  EXPECT_GT(trie_.written_for_scans, 0u);
  EXPECT_LE(static_cast<double>(trie_.written_for_scans), options_.scan_merge * static_cast<double>(trie_.flushed) +
                                                              static_cast<double>(trie_.picker.sizes().largest_job));
  EXPECT_LE(most_space_, options_.space_bound + 0.05);
}

TEST_P(KeyTrieTest, AMergeForScansThatIsNotStartedIsChosenAgain) {
  for (uint64_t i = 0; i < kMany; ++i) Put(random_() % kMany);
  FinishAll();
  ASSERT_TRUE(trie_.Settle());
  TrieJob job;
  for (int i = 0; i < 100000 && !trie_.picker.Pick(&job); ++i) trie_.Scan(kMany / 2 + random_() % 100, 1000);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(trie_.picker.Pick(&job)) << i;
    ASSERT_TRUE(job.for_scans);
  }
  trie_.Finish(trie_.Start(job));
  // What was read until then is no reason for another one.
  while (trie_.picker.Pick(&job)) {
    ASSERT_FALSE(job.for_scans);
    trie_.Finish(trie_.Start(job));
  }
}

// --- Cuts ------------------------------------------------------------------------------------------------------------

// Tables of these keys, each of ten bytes, as "a b | c".
std::string Cut(const KeyCuts& cuts, const std::vector<std::string>& keys) {
  KeyCutter cutter(rocksdb::BytewiseComparator(), std::make_shared<KeyCuts>(cuts));
  std::string text = keys.front();
  uint64_t bytes = 10;
  for (size_t i = 1; i < keys.size(); ++i) {
    const bool cut = cutter.CutBefore(keys[i - 1], keys[i], bytes);
    text += (cut ? " | " : " ") + keys[i];
    bytes = cut ? 10 : bytes + 10;
  }
  return text;
}

KeyCuts TwoBelow() {
  KeyCuts cuts;
  cuts.below = {{"c", "e", 100}, {"m", "p", 100}};
  cuts.least_bytes = 20;
  cuts.least_free_bytes = 20;
  cuts.table_bytes = 40;
  cuts.most_bytes = 80;
  cuts.joined_bytes = 150;
  return cuts;
}

TEST(KeyCutterTest, ATableEndsBeforeTheNextContainer) {
  EXPECT_EQ(Cut(TwoBelow(), {"a", "b", "c", "d", "n", "o"}), "a b | c d | n o");
}

TEST(KeyCutterTest, ASmallTableJoinsContainersAsLongAsTheyAreSmall) {
  KeyCuts cuts = TwoBelow();
  cuts.joined_bytes = 200;
  EXPECT_EQ(Cut(cuts, {"c", "n"}), "c n");
  EXPECT_EQ(Cut(TwoBelow(), {"c", "n"}), "c | n");
}

TEST(KeyCutterTest, ATableWithoutKeysInContainersDoesNotJoinThem) {
  EXPECT_EQ(Cut(TwoBelow(), {"a", "z"}), "a | z");
  EXPECT_EQ(Cut(TwoBelow(), {"a", "f"}), "a f");
}

TEST(KeyCutterTest, ALargeTableEndsBetweenContainers) {
  EXPECT_EQ(Cut(TwoBelow(), {"f", "g", "h", "i", "j", "k"}), "f g h i | j k");
}

TEST(KeyCutterTest, WithinAContainerATableEndsWhenItIsTooLarge) {
  EXPECT_EQ(Cut(TwoBelow(), {"c", "ca", "cb", "cc", "cd", "ce", "cf", "cg", "ch"}), "c ca cb cc cd ce cf cg | ch");
}

TEST(KeyCutterTest, AKeyIsNeverCut) {
  EXPECT_EQ(Cut(TwoBelow(), std::vector<std::string>(12, "c")), "c c c c c c c c c c c c");
}

TEST(KeyCutterTest, ATableEndsWhereAStreamOfKeysDoes) {
  KeyCuts cuts = TwoBelow();
  cuts.below.clear();
  EXPECT_EQ(Cut(cuts, {"a001", "a002", "a003", "b001", "b002"}), "a001 a002 a003 | b001 b002");
}

// They are at most half of joined_bytes apart; here any two containers are more than that.
TEST(KeyCutsTest, RangeDeletionsAreTakenApartBetweenContainers) {
  KeyCuts cuts;
  cuts.joined_bytes = 100;
  for (const char* smallest : {"b", "d", "f", "h"}) cuts.below.push_back({smallest, smallest, 30});
  EXPECT_EQ(cuts.DeletionCuts(), (std::vector<std::string>{"d", "f", "h"}));
  cuts.joined_bytes = 200;
  EXPECT_EQ(cuts.DeletionCuts(), (std::vector<std::string>{"h"}));
  for (KeyCuts::Below& below : cuts.below) below.bytes = 0;
  EXPECT_TRUE(cuts.DeletionCuts().empty());
}

// --- The shape -------------------------------------------------------------------------------------------------------

TrieFile FileOf(uint64_t number, int level, const std::string& smallest, const std::string& largest) {
  TrieFile file;
  file.number = number;
  file.level = level;
  file.bytes = 100;
  file.smallest = smallest;
  file.largest = largest;
  return file;
}

TEST(KeyShapeTest, ContainersAreTheTablesThatLieOverOneAnother) {
  const std::string same(1 << 20, 'k');  // keys of 1 MiB that differ in their last byte
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  const int last = shape.LastLevel(2);
  shape.Add(FileOf(1, last, same + "a", same + "c"));
  shape.Add(FileOf(2, last, same + "d", same + "e"));
  shape.Add(FileOf(3, last, same + "x", same + "z"));
  ASSERT_EQ(shape.ContainersAt(2).size(), 3u);
  shape.Add(FileOf(4, last - 1, same + "c", same + "d"));
  ASSERT_EQ(shape.ContainersAt(2).size(), 2u);
  EXPECT_EQ(shape.ContainersAt(2)[0].files.size(), 3u);
  EXPECT_EQ(shape.ContainersAt(2)[0].files.front()->number, 4u);
  EXPECT_EQ(shape.ContainersAt(2)[0].slots, 2);
  EXPECT_EQ(shape.ContainersAt(2)[0].bytes, 300u);
  EXPECT_EQ(shape.FirstLevelIn(1, {same + "f", same + "g"}), shape.LastLevel(3) + 1);
  EXPECT_EQ(shape.FirstLevelIn(1, {same + "b", same + "b"}), last);
  EXPECT_EQ(shape.NextDepthBelow(0, {same + "y", same + "y"}), 2);
  EXPECT_EQ(shape.NextDepthBelow(2, {same + "y", same + "y"}), 0);
  shape.Remove(4);
  shape.Remove(5);  // not there
  EXPECT_EQ(shape.ContainersAt(2).size(), 3u);
  EXPECT_EQ(shape.bytes(), 300u);
}

TEST(KeyShapeTest, ItTakesAnyOrder) {
  KeyShape shape(SmallTrie(), rocksdb::ReverseBytewiseComparator());
  shape.Add(FileOf(1, 1, "e", "c"));
  shape.Add(FileOf(2, 2, "d", "b"));
  shape.Add(FileOf(3, 2, "a", "A"));
  ASSERT_EQ(shape.ContainersAt(1).size(), 2u);
  EXPECT_EQ(shape.ContainersAt(1)[0].range.first, "e");
  EXPECT_EQ(shape.ContainersAt(1)[0].range.last, "b");
}

// A range deletion ends a table where the next one begins.
TEST(KeyShapeTest, AnExcludedEndTouchesNothing) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  TrieFile left = FileOf(1, 2, "a", "f");
  left.largest_excluded = true;
  shape.Add(left);
  shape.Add(FileOf(2, 2, "f", "k"));
  ASSERT_EQ(shape.ContainersAt(1).size(), 2u);
  EXPECT_TRUE(shape.ContainersAt(1)[0].range.last_excluded);
  EXPECT_EQ(shape.FilesIn(2, {"f", "g"}).size(), 1u);
  EXPECT_EQ(shape.FilesIn(2, {"e", "f"}).size(), 2u);
  EXPECT_EQ(shape.FilesIn(2, {"e", "f", true}).size(), 1u);
  EXPECT_EQ(shape.FirstLevelIn(1, {"0", "a", true}), shape.LastLevel(3) + 1);
  EXPECT_EQ(shape.FirstLevelIn(1, {"0", "a"}), 2);
  EXPECT_EQ(shape.Overlapping(1, {"f", "f"}), (std::pair<size_t, size_t>{1, 2}));
  // A table that has the key makes the end one of a container's.
  shape.Add(FileOf(3, 1, "e", "f"));
  ASSERT_EQ(shape.ContainersAt(1).size(), 1u);
  EXPECT_FALSE(shape.ContainersAt(1)[0].range.last_excluded);
  // RocksDB takes compactions that meet there for overlapping.
  shape.Begin(1, {{{"a", "f", true}, 2, 5}}, {1});
  EXPECT_TRUE(shape.Conflicts({{"f", "k"}, 2, 5}));
  shape.End(1);
}

std::shared_ptr<const std::vector<DeletedKeys>> Deleted(std::vector<DeletedKeys> parts) {
  return std::make_shared<const std::vector<DeletedKeys>>(std::move(parts));
}

TEST(KeyShapeTest, WhatRangeDeletionsCover) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  TrieFile deleting = FileOf(1, 0, "b", "x");
  deleting.deleted = Deleted({{"b", "d", 50}, {"d", "k", 40}, {"m", "x", 60}});
  const auto deleted_at = [&](const char* smallest, const char* largest, uint64_t largest_sequence,
                              bool excluded = false) {
    TrieFile file = FileOf(2, 5, smallest, largest);
    file.largest_sequence = largest_sequence;
    file.largest_excluded = excluded;
    return shape.DeletedAt(deleting, file);
  };
  EXPECT_EQ(deleted_at("b", "c", 49), 50u);
  EXPECT_EQ(deleted_at("b", "c", 50), 0u);
  EXPECT_EQ(deleted_at("c", "j", 39), 50u);
  EXPECT_EQ(deleted_at("c", "j", 45), 0u);
  EXPECT_EQ(deleted_at("c", "k", 39), 0u);
  EXPECT_EQ(deleted_at("c", "k", 39, true), 50u);
  EXPECT_EQ(deleted_at("e", "k", 39, true), 40u);
  EXPECT_EQ(deleted_at("j", "n", 1), 0u);
  EXPECT_EQ(deleted_at("a", "c", 1), 0u);
  EXPECT_EQ(deleted_at("y", "z", 1), 0u);
  EXPECT_EQ(deleted_at("m", "w", 1), 60u);
}

TEST(KeyShapeTest, CompactionsConflictWhereRangesAndLevelsMeet) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  shape.Add(FileOf(1, 3, "c", "g"));
  shape.Begin(1, {{{"c", "g"}, 3, 12}}, {1});
  EXPECT_TRUE(shape.ContainersAt(1)[0].busy);
  EXPECT_TRUE(shape.Conflicts({{"g", "k"}, 12, 12}));
  EXPECT_TRUE(shape.Conflicts({{"a", "z"}, 0, 3}));
  EXPECT_FALSE(shape.Conflicts({{"a", "z"}, 0, 2}));
  EXPECT_FALSE(shape.Conflicts({{"h", "k"}, 3, 12}));
  shape.End(1);
  EXPECT_FALSE(shape.ContainersAt(1)[0].busy);
  EXPECT_FALSE(shape.Conflicts({{"a", "z"}, 0, 20}));
}

TrieFile LiveFileOf(uint64_t number, int level, const std::string& smallest, const std::string& largest,
                    uint64_t bytes) {
  TrieFile file = FileOf(number, level, smallest, largest);
  file.bytes = file.data_bytes = bytes;
  return file;
}

// A trie of so much that a root has all its files, of which nobody has asked for a compaction since it was opened.
TEST(KeyPickerTest, WhatIsDueAndWhatIsCompactedManuallyIsMeasuredByTheTrieAsItIs) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  shape.Add(LiveFileOf(1, shape.LastLevel(3), "a", "z", 1000000));
  for (uint64_t number = 2; number < 9; ++number) shape.Add(LiveFileOf(number, 0, "a", "z", 1000));
  KeyPicker stats(&shape, 0, 1000, KeyPicker::Moves::kMove);
  EXPECT_TRUE(stats.PendingByDepth().empty()) << "seven of eight files";
  EXPECT_EQ(stats.sizes().root_files, 8);
  KeyPicker manual(&shape, 0, 1000, KeyPicker::Moves::kMove);
  TrieJob job;
  ASSERT_EQ(manual.PickManual(0, nullptr, 8, &job), ManualStep::kJob);
  EXPECT_EQ(job.inputs.size(), 7u);
  EXPECT_EQ(job.cuts->table_bytes, 1000u);
}

// Where memory for memtables is short, or somebody flushes again and again: taken for full write buffers they would be
// as many more compactions, slots and bytes written (370 roots, and 11 bytes per byte instead of 6.5).
TEST(KeyPickerTest, SmallFilesMakeARootOfMore) {
  constexpr uint64_t kKeys = 20 * kEntriesPerFlush;
  SimulatedKeyTrie trie(KeyTrieOptions(), kEntriesPerFlush * kCosts.table_bytes, kCosts, KeyPicker::Moves::kMove);
  std::mt19937_64 random(Seed());
  const auto put = [&](size_t entries) {
    std::vector<SimulatedKeyTrie::Operation> batch;
    for (size_t i = 0; i < entries; ++i) batch.push_back({random() % kKeys, false});
    trie.Flush(batch);
    ASSERT_TRUE(trie.Settle());
  };
  for (int i = 0; i < 60; ++i) put(kEntriesPerFlush);
  const uint64_t flushed = trie.flushed, written = trie.written, roots = trie.jobs[TrieJob::Kind::kRoot];
  uint64_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    put(kEntriesPerFlush / 50);
    most = std::max(most, trie.bytes());
  }
  const uint64_t small_roots = trie.jobs[TrieJob::Kind::kRoot] - roots;
  const double space = static_cast<double>(most) / static_cast<double>(trie.LiveKeys().size() * kCosts.data_bytes);
  printf("small files: %.2f bytes written per byte, %zu roots of 2000 files, space %.2f\n",
         static_cast<double>(trie.written - written) / static_cast<double>(trie.flushed - flushed),
         static_cast<size_t>(small_roots), space);
  EXPECT_LE(small_roots, 2000u / 14);
  EXPECT_LE(space, 1.6);
  for (const std::string& violation : trie.violations) ADD_FAILURE() << violation;
}

// What has been dropped is too little for a new estimate by itself, but a root of three files is one now. Whoever is
// told that nothing is due asks again only when the tables change.
TEST(KeyPickerTest, ARootThatTheEstimateForSpaceMakesDueIsChosen) {
  KeyTrieOptions trie = SmallTrie();
  trie.space_bound = 1 + 5.0 / 27;  // a root may take a ninth of what is live, as long as there is no garbage
  KeyShape shape(trie, rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kMove);
  shape.Add(LiveFileOf(1, shape.LastLevel(3), "a", "z", 33000));
  for (uint64_t number = 2; number < 5; ++number) shape.Add(LiveFileOf(number, 0, "a", "z", 1000));
  shape.Add(LiveFileOf(5, shape.LastLevel(3), "zz", "zz", 100));
  TrieJob job;
  EXPECT_FALSE(picker.Pick(&job));
  ASSERT_EQ(picker.sizes().root_files, 4);
  shape.Remove(5);
  shape.Remove(1);
  shape.Add(LiveFileOf(6, shape.LastLevel(3), "a", "z", 32900));
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kRoot);
  EXPECT_EQ(picker.sizes().root_files, 3);
}

// After a repair, or where compaction was switched off, all tables of a large database lie there.
TEST(KeyPickerTest, TablesOfALargeRootAreNotComparedWithEachOther) {
  test::CountingComparator comparator;
  KeyShape shape(SmallTrie(), &comparator);
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kMove);
  constexpr uint64_t kTables = 3000;
  TrieFile file = FileOf(0, 0, "", "");
  file.bytes = file.data_bytes = 100000;
  for (uint64_t i = 0; i < kTables; ++i) {
    file.number = i + 1;
    // Every third one lies over the next.
    file.smallest = SimulatedKeyTrie::KeyOf(i * 100);
    file.largest = SimulatedKeyTrie::KeyOf(i * 100 + (i % 3 == 0 ? 100 : 99));
    shape.Add(file);
  }
  comparator.compares = 0;
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.moves.size(), kTables / 3);
  EXPECT_LT(comparator.compares, kTables * 100);
}

// By (4) of key_shape.h: the neighbour's versions of the key are older, and something keeps it from moving as far.
TEST(KeyPickerTest, WhatSharesAKeyWithItsNeighbourIsNotMoved) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kMove);
  shape.Add(FileOf(1, 2, "a", "k"));
  shape.Add(FileOf(2, 2, "k", "p"));
  shape.Add(FileOf(3, 5, "n", "n"));
  shape.Add(FileOf(4, 2, "q", "z"));
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  std::vector<uint64_t> moved;
  for (const TableMove& move : job.moves) moved.push_back(move.number);
  std::sort(moved.begin(), moved.end());
  EXPECT_EQ(moved, (std::vector<uint64_t>{3, 4}));
}

// The container's oldest level is too large for one compaction, and the oldest table above it lies over none of its
// tables: only what is newer joins them. That table, too, is too large.
TEST(KeyPickerTest, ALargeTableOverNoneOfTheOldestLevelIsMerged) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kRewrite);
  const int last = shape.LastLevel(3);
  const auto add = [&](TrieFile file, uint64_t bytes) {
    file.bytes = bytes;
    shape.Add(file);
  };
  add(FileOf(1, last, "a", "c"), 8000);
  add(FileOf(2, last, "d", "f"), 8000);
  add(FileOf(3, last - 1, "k", "z"), picker.sizes().largest_job + 1);
  add(FileOf(4, last - 2, "b", "m"), 10);
  ASSERT_EQ(shape.ContainersAt(3).size(), 1u);
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kMerge);
  EXPECT_EQ(job.inputs, std::vector<uint64_t>{3});
  EXPECT_EQ(job.output_level, last);
}

std::shared_ptr<const KeySketch> SketchOf(uint64_t first, uint64_t last) {
  std::vector<uint64_t> positions;
  for (uint64_t key = first; key <= last; ++key) positions.push_back(KeySketch::PositionOf(Mix64(key)));
  std::sort(positions.begin(), positions.end());
  auto sketch = std::make_shared<KeySketch>();
  for (uint64_t position : positions) sketch->Add(position, KeySketch::Entry::kValue);
  sketch->Sort();
  return sketch;
}

// Of its three slots the two oldest, which have the same keys. A snapshot keeps all versions of them.
TEST(KeyPickerTest, ACompactionOfAPartOfAContainerLearnsWhatSnapshotsKeep) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 27000, KeyPicker::Moves::kMove);  // a root has three of these
  const int last = shape.LastLevel(3);
  const auto add = [&](TrieFile file, uint64_t bytes, uint64_t first_key) {
    file.bytes = file.data_bytes = bytes;
    file.sketch = SketchOf(first_key, first_key + 999);
    shape.Add(file);
  };
  add(FileOf(1, last, "a", "c"), 40000, 0);
  add(FileOf(2, last - 1, "a", "c"), 40000, 0);
  add(FileOf(3, last - 2, "a", "c"), 40000, 1000);
  // Most of the garbage lies elsewhere, and is being compacted.
  add(FileOf(4, last, "d", "e"), 150000, 2000);
  add(FileOf(5, last - 1, "d", "e"), 150000, 2000);
  shape.Begin(1, {{{"d", "e"}, last - 1, last}}, {4, 5});
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_TRUE(job.for_space);
  ASSERT_EQ(job.inputs, (std::vector<uint64_t>{2, 1}));
  EXPECT_EQ(job.expected_bytes, 40000u);
  const uint64_t live = picker.Space().live;
  picker.Started(job);
  shape.Remove(1);
  shape.Remove(2);
  add(FileOf(6, last, "a", "c"), 80000, 0);
  picker.Finished(job, true, 80000, 7);
  EXPECT_EQ(picker.Space().live, live + 40000);
  // What lies above shadows the rest, and no more.
  add(FileOf(7, last - 3, "a", "c"), 40000, 0);
  EXPECT_EQ(picker.Space().live, live + 40000);
}

// Before anything else, and again when what kept some of them may be gone.
TEST(KeyPickerTest, TablesThatARangeDeletionCoversAreRemoved) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kMove);
  const int last = shape.LastLevel(3);
  shape.Add(FileOf(1, last, "a", "c"));
  shape.Add(FileOf(2, last, "d", "f"));
  shape.Add(FileOf(3, last, "g", "k"));
  shape.Add(FileOf(4, last - 1, "h", "j"));
  TrieFile deleting = FileOf(5, 0, "b", "l");
  deleting.deleted = Deleted({{"b", "l", 9}});
  shape.Add(deleting);
  shape.Begin(1, {{{"d", "f"}, last, last}}, {2});
  TrieJob job;
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.kind, TrieJob::Kind::kDrop);
  std::set<uint64_t> dropped;
  for (const TableMove& move : job.moves) dropped.insert(move.number);
  EXPECT_EQ(dropped, (std::set<uint64_t>{3, 4}));
  EXPECT_EQ(job.moves[0].deleted_by, 5u);
  EXPECT_EQ(job.moves[0].deleted_at, 9u);
  // One went, a snapshot keeps the other: it is asked for again when the oldest snapshot is another.
  picker.Started(job);
  shape.Remove(4);
  picker.Finished(job, true, 0, 7);
  EXPECT_FALSE(picker.Pick(&job));
  shape.End(1);
  TrieJob merge;
  picker.Started(merge);
  picker.Finished(merge, true, 0, 7);
  EXPECT_FALSE(picker.Pick(&job));
  picker.Started(merge);
  picker.Finished(merge, true, 0, 8);
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.moves.size(), 2u);
  // It fails: it is asked for once more.
  picker.Started(job);
  picker.Finished(job, false, 0, 8);
  ASSERT_TRUE(picker.Pick(&job));
  EXPECT_EQ(job.moves.size(), 2u);
}

// As where another column family's compaction is more urgent, or somebody asks only what is due.
TEST(KeyPickerTest, WhatIsChosenAndNotStartedIsChosenAgain) {
  KeyShape shape(SmallTrie(), rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kMove);
  const int last = shape.LastLevel(3);
  shape.Add(FileOf(1, last, "a", "c"));
  shape.Add(FileOf(2, last, "d", "f"));
  // Both cover table 2.
  for (uint64_t number = 3; number <= 4; ++number) {
    TrieFile deleting = FileOf(number, 0, "b", "l");
    deleting.deleted = Deleted({{"b", "l", number + 6}});
    shape.Add(deleting);
  }
  TrieJob job;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(picker.Pick(&job)) << i;
    EXPECT_EQ(job.kind, TrieJob::Kind::kDrop);
    ASSERT_EQ(job.moves.size(), 1u);
    EXPECT_EQ(job.moves[0].number, 2u);
  }
  // While it runs, and when it has ended, there is nothing to be removed.
  picker.Started(job);
  shape.Begin(1, job.runs, job.inputs);
  EXPECT_FALSE(picker.Pick(&job));
  shape.End(1);
  shape.Remove(2);
  picker.Finished(job, true, 0, 7);
  EXPECT_FALSE(picker.Pick(&job));
}

// A manual compaction ends, however many files come meanwhile.
TEST(KeyPickerManualTest, WhatComesLaterIsLeftAlone) {
  KeyTrieOptions trie = SmallTrie();
  trie.depth = 1;
  KeyShape shape(trie, rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kRewrite);
  TrieJob job;
  shape.Add(FileOf(1, shape.LastLevel(1), "a", "z"));
  shape.Add(FileOf(2, shape.LastLevel(1) - 1, "a", "m"));
  shape.Add(FileOf(3, 0, "a", "z"));
  shape.Add(FileOf(4, 0, "a", "z"));
  EXPECT_EQ(picker.PickManual(0, nullptr, 2, &job), ManualStep::kDone);
  EXPECT_EQ(picker.PickManual(0, nullptr, 3, &job), ManualStep::kJob);
  EXPECT_EQ(job.inputs.back(), 3u);
  EXPECT_EQ(picker.PickManual(1, nullptr, 4, &job), ManualStep::kJob);
  // Both slots were written by others since.
  EXPECT_EQ(picker.PickManual(1, nullptr, 0, &job), ManualStep::kDone);
  EXPECT_EQ(picker.PickManual(1, nullptr, 1, &job), ManualStep::kJob);
  // One slot, which may hold deletions, unless this compaction has written it here.
  shape.Remove(2);
  EXPECT_EQ(picker.PickManual(1, nullptr, 0, &job), ManualStep::kDone);
  EXPECT_EQ(picker.PickManual(1, nullptr, 4, &job), ManualStep::kJob);
}

// Tables of one level that have the versions of a key in common, and are more than one compaction may take.
// So many of one level, 1 and on, each of which shares a key with the next: one container of one slot.
constexpr uint64_t kTables = 20;
void AddTablesThatShareKeys(KeyShape* shape) {
  for (uint64_t i = 1; i <= kTables; ++i) {
    const std::string first(1, static_cast<char>('a' + i)), last(1, static_cast<char>('b' + i));
    TrieFile file = FileOf(i, shape->LastLevel(1), first, last);
    file.bytes = 1 << 20;
    file.only_live = true;
    shape->Add(file);
  }
}

// A compaction whose outputs are as its inputs were, which are neighbours of one level. Returns how many.
size_t WriteAgain(const TrieJob& job, KeyShape* shape, uint64_t* last_number) {
  const std::vector<const TrieFile*> level = shape->FilesIn(job.output_level, job.runs.front().range);
  std::vector<TrieFile> files;
  for (uint64_t number : job.inputs) files.push_back(*shape->Find(number));
  for (const TrieFile* file : level) {
    const bool is_input = std::find(job.inputs.begin(), job.inputs.end(), file->number) != job.inputs.end();
    const KeyRange& range = job.runs.front().range;
    EXPECT_TRUE(is_input || file->largest <= range.first || file->smallest >= range.last);
  }
  for (TrieFile& file : files) {
    shape->Remove(file.number);
    file.number = ++*last_number;
    shape->Add(file);
  }
  return files.size();
}

TEST(KeyPickerManualTest, LiveTablesThatShareKeysAreWrittenAgain) {
  KeyTrieOptions trie = SmallTrie();
  trie.depth = 1;
  KeyShape shape(trie, rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kRewrite);
  AddTablesThatShareKeys(&shape);
  TrieJob job;
  EXPECT_EQ(picker.PickManual(1, nullptr, kTables, &job), ManualStep::kDone);
  uint64_t next = kTables, jobs = 0;
  while (picker.PickManual(1, nullptr, kTables, &job, kTables) == ManualStep::kJob && ++jobs <= kTables) {
    ASSERT_EQ(WriteAgain(job, &shape, &next), job.inputs.size());
  }
  EXPECT_LE(jobs, kTables);
}

// Tables that share keys are one container, here of one slot, which is too large for one compaction.
TEST(KeyPickerTest, EveryTableOfALargeSlotIsWrittenAgainByPeriod) {
  KeyTrieOptions trie = SmallTrie();
  trie.depth = 1;
  KeyShape shape(trie, rocksdb::BytewiseComparator());
  KeyPicker picker(&shape, 0, 1000, KeyPicker::Moves::kRewrite);
  AddTablesThatShareKeys(&shape);
  std::vector<uint64_t> old(kTables);
  std::iota(old.begin(), old.end(), 1);
  ASSERT_EQ(shape.ContainersAt(1).size(), 1u);
  ASSERT_GT(shape.ContainersAt(1)[0].bytes, picker.sizes().largest_job);
  TrieJob job;
  uint64_t next = kTables, jobs = 0;
  while (!old.empty() && ++jobs <= kTables) {
    picker.wanted()->SetOld({}, old);
    ASSERT_TRUE(picker.Pick(&job));
    ASSERT_EQ(WriteAgain(job, &shape, &next), job.inputs.size());
    const auto is_gone = [&](uint64_t number) { return !shape.Contains(number); };
    old.erase(std::remove_if(old.begin(), old.end(), is_gone), old.end());
  }
  EXPECT_TRUE(old.empty());
}

// A table that a manual compaction has no reason to write, at the first level of its depth: what is above has no level
// to come to until it has moved, whether or not anything else compacts.
TEST(KeyPickerManualTest, WhatIsDoneMovesOutOfTheWay) {
  KeyTrieOptions trie = SmallTrie();
  trie.depth = 1;
  for (const auto moves : {KeyPicker::Moves::kRewrite, KeyPicker::Moves::kMove}) {
    KeyShape shape(trie, rocksdb::BytewiseComparator());
    KeyPicker picker(&shape, 0, 1000, moves);
    TrieFile file;
    file.number = 1;
    file.level = FirstLevelOfDepth(trie, 1);
    file.bytes = 100;
    file.data_bytes = 100;
    file.only_live = true;
    file.smallest = "a";
    file.largest = "z";
    shape.Add(file);
    file.number = 2;
    file.level = 0;
    shape.Add(file);
    TrieJob job;
    ASSERT_EQ(picker.PickManual(0, nullptr, 2, &job), ManualStep::kJob);
    EXPECT_EQ(job.inputs, std::vector<uint64_t>{1});
    EXPECT_EQ(job.output_level, shape.LastLevel(1));
  }
}

}  // namespace
}  // namespace cairn
