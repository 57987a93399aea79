// Shape, space estimate and picker, driven without RocksDB: files are made of key numbers, compactions are simulated on
// the shape, and what the picker chooses is checked against the invariants of trie_shape.h.

#include "db/trie_picker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "db/trie_shape.h"
#include "db/trie_space.h"
#include "trie_table/trie_options.h"

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

// A trie whose files hold real (simulated) entries, so that estimates can be compared with the truth.
class SimulatedTrie {
 public:
  explicit SimulatedTrie(const TrieOptions& trie) : shape(trie), picker(&shape, 0), hash_(HashKind::kXxh3, trie.seed) {}

  uint64_t PositionOf(uint64_t key) const { return hash_(std::to_string(key)); }

  // Entries are key -> deleted?; the newest of a key wins.
  using Entries = std::map<uint64_t, bool>;  // by position

  void AddFile(const Entries& entries, int level) {
    if (entries.empty()) return;
    auto sketch = std::make_shared<KeySketch>();
    for (const auto& [position, deleted] : entries) sketch->Add(position, deleted);
    sketch->Sort();
    TrieFile file;
    file.number = next_number_++;
    file.level = level;
    file.bytes = kBytesPerEntry * entries.size();
    file.data_bytes = file.bytes;
    file.container = shape.map().ContainerAt(entries.begin()->first, DepthOfLevel(shape.trie(), level));
    file.sketch = sketch;
    files_[file.number] = {entries, level};
    shape.Add(file);
    written += file.bytes;
  }

  void Flush(const std::vector<std::pair<uint64_t, bool>>& operations) {
    Entries entries;
    for (const auto& [key, deleted] : operations) entries[PositionOf(key)] = deleted;
    AddFile(entries, 0);
    flushed += kBytesPerEntry * entries.size();
  }

  // What CompactFiles would do; also checks that the job keeps the invariants.
  void Run(const TrieJob& job) {
    const TrieOptions& trie = shape.trie();
    shape.SetBusy(job.id, true);
    picker.Started(job);
    Entries merged;
    for (uint64_t number : job.inputs) {  // newest first
      for (const auto& entry : files_.at(number).entries) merged.insert(entry);
    }
    const int depth = DepthOfLevel(trie, job.output_level);
    // RocksDB widens a compaction to every overlapping file between its inputs and its output: there must be none.
    for (const auto& [number, file] : files_) {
      if (std::count(job.inputs.begin(), job.inputs.end(), number) != 0) continue;
      if (job.kind == TrieJob::Kind::kMerge || file.level > job.output_level || file.level == 0) continue;
      if (DepthOfLevel(trie, file.level) != depth) continue;
      const uint64_t container = shape.map().ContainerAt(file.entries.begin()->first, depth);
      EXPECT_NE(shape.map().Parent(container), job.id.container) << "slot " << job.output_level << " is not free";
    }
    std::map<uint64_t, Entries> outputs;
    for (const auto& [position, deleted] : merged) {
      const uint64_t container = shape.map().ContainerAt(position, depth);
      if (deleted && !Lies(position, job.output_level, job.inputs)) continue;
      outputs[container][position] = deleted;
    }
    for (uint64_t number : job.inputs) {
      shape.Remove(number);
      files_.erase(number);
    }
    const uint64_t before = written;
    for (const auto& [container, entries] : outputs) AddFile(entries, job.output_level);
    shape.SetBusy(job.id, false);
    picker.Finished(job, true, written - before, 0);
  }

  void Settle() {
    TrieJob job;
    for (int jobs = 0; picker.Pick(&job); ++jobs) {
      ASSERT_LT(jobs, 10000) << "the picker does not come to rest";
      Run(job);
    }
  }

  uint64_t LiveEntries() const {
    // Newest first: by level, and level 0 by number.
    std::map<uint64_t, std::pair<std::pair<int, uint64_t>, bool>> newest;
    for (const auto& [number, file] : files_) {
      const std::pair<int, uint64_t> age{file.level, UINT64_MAX - number};
      for (const auto& [position, deleted] : file.entries) {
        auto [it, inserted] = newest.emplace(position, std::make_pair(age, deleted));
        if (!inserted && age < it->second.first) it->second = {age, deleted};
      }
    }
    return static_cast<uint64_t>(
        std::count_if(newest.begin(), newest.end(), [](const auto& entry) { return !entry.second.second; }));
  }

  TrieShape shape;
  TriePicker picker;
  uint64_t written = 0;
  uint64_t flushed = 0;

 private:
  struct File {
    Entries entries;
    int level;
  };

  bool Lies(uint64_t position, int below_level, const std::vector<uint64_t>& except) const {
    return std::any_of(files_.begin(), files_.end(), [&](const auto& entry) {
      return entry.second.level > below_level && entry.second.entries.count(position) != 0 &&
             std::count(except.begin(), except.end(), entry.first) == 0;
    });
  }

  const KeyHash hash_;
  std::map<uint64_t, File> files_;
  uint64_t next_number_ = 1;
};

uint64_t Seed() {
  const char* text = getenv("CAIRN_SEED");
  const uint64_t seed = text == nullptr ? std::random_device()() : strtoull(text, nullptr, 10);
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
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
  EXPECT_TRUE(trie.shape.columns().empty());
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
    trie.Settle();
  }
  const int deepest = trie.shape.columns().rbegin()->first.depth;
  EXPECT_GT(deepest, 1);
  EXPECT_LE(static_cast<double>(trie.written), (1.0 + deepest) * static_cast<double>(trie.flushed));
  EXPECT_EQ(trie.LiveEntries() * kBytesPerEntry, trie.shape.bytes());
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
      trie.Settle();
      if (flush < 40) continue;
      const double space = static_cast<double>(trie.shape.bytes());
      // The estimate may be a few percent off in so small a trie.
      ASSERT_LE(space, (bound + 0.08) * static_cast<double>(trie.LiveEntries() * kBytesPerEntry)) << flush;
    }
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
      trie.Settle();
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
  const TrieSpace space = EstimateSpace(trie.shape);
  EXPECT_EQ(space.bytes, trie.shape.bytes());
  const double live = static_cast<double>(trie.LiveEntries() * kBytesPerEntry);
  EXPECT_NEAR(static_cast<double>(space.live) / live, 1.0, 0.05);
}

TEST(TrieSpaceTest, ATableWithoutASketchCountsAsLive) {
  TrieShape shape(SmallTrie());
  TrieFile file;
  file.number = 1;
  file.level = 1;
  file.bytes = 1000;
  file.data_bytes = 900;
  shape.Add(file);
  const TrieSpace space = EstimateSpace(shape);
  EXPECT_EQ(space.bytes, 1000u);
  EXPECT_EQ(space.live, 900u);
  EXPECT_EQ(MergedShare(*shape.Find({1, 0}), true), 1.0);
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
  ASSERT_TRUE(trie.picker.PickColumn({0, 0}, &job));
  trie.Run(job);
  trie.Flush(puts);
  ASSERT_TRUE(trie.picker.PickColumn({0, 0}, &job));
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
