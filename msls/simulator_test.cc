// The models against the simulator: at most 5 % apart over designs, picks, sizes and skews.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>

#include "cairn/msls.h"
#include "msls/simulator.h"
#include "test/testutil/msls_fixture.h"

namespace cairn::msls {
namespace {

uint64_t Seed() {
  const char* text = getenv("CAIRN_SEED");
  const uint64_t seed = text ? strtoull(text, nullptr, 10) : std::random_device()();
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// Both in one line each, for the record; returns model / simulation - 1.
double CompareOnce(const std::string& name, const StoreShape& store, const Popularity& p, double warm,
                   double requests) {
  Report model, simulation;
  SimulationOptions options;
  options.seed = Seed();
  options.warm_requests = warm * p.keys();
  options.requests = requests * p.keys();
  IndexStatus s = Model(store, p, &model);
  EXPECT_TRUE(s.ok()) << s.message();
  s = Simulate(store, p, options, &simulation);
  EXPECT_TRUE(s.ok()) << s.message();
  const double error = model.write_amplification / simulation.write_amplification - 1;
  printf("%-60s model %.3f simulation %.3f (%+.1f %%)\n", (name + ", " + p.name()).c_str(), model.write_amplification,
         simulation.write_amplification, 100 * error);
  EXPECT_NEAR(model.space_amplification / simulation.space_amplification, 1, 0.1) << name;
  EXPECT_NEAR(model.sorted_runs / simulation.sorted_runs, 1, 0.1) << name;
  return error;
}

// There are a hundred comparisons, of which a run has a third, another one each time; with CAIRN_EVERY_SHAPE=1 it has
// all.
bool IsLeftOut() {
  static std::mt19937_64 random(Seed());
  return getenv("CAIRN_EVERY_SHAPE") == nullptr && random() % 3 != 0;
}

// A simulation strays by 1 to 2 % from one seed to another under skewed keys: one that is far off is judged together
// with four more.
double Compare(const std::string& name, const StoreShape& store, const Popularity& p, double warm, double requests) {
  if (IsLeftOut()) return 0;
  constexpr double kNotable = 0.03;
  constexpr int kMore = 4;
  double sum = CompareOnce(name, store, p, warm, requests);
  if (std::abs(sum) < kNotable) return sum;
  for (int i = 0; i < kMore; ++i) sum += CompareOnce(name, store, p, warm, requests);
  return sum / (1 + kMore);
}

constexpr double kKeys = 400000;

// RocksDB's proportions (64 MiB, 256 MiB, 32 MiB files), 1 : 640.
StoreShape SmallRocksDB(FilePick pick) {
  StoreShape store = StoreShape::Default(Design::kRocksDB);
  store.pick = pick;
  store.dynamic_level_bytes = false;
  store.write_buffer_bytes = 104857.6;
  store.level_base_bytes = 4 * 104857.6;
  store.file_bytes = 52428.8;
  return store;
}

class PickTest : public ::testing::TestWithParam<FilePick> {};

TEST_P(PickTest, RocksDBWithinFivePercent) {
  const FilePick pick = GetParam();
  const std::string name = FilePickName(pick);
  for (double skew : {0.0, 0.5, 0.99}) {
    StoreShape store = SmallRocksDB(pick);
    EXPECT_NEAR(Compare(name + ", static levels", store, Keys(kKeys, skew), 2, 3), 0, 0.05);
    store.dynamic_level_bytes = true;
    EXPECT_NEAR(Compare(name + ", dynamic levels", store, Keys(kKeys, skew), 2, 3), 0, 0.05);
    store.file_bytes /= 2;
    EXPECT_NEAR(Compare(name + ", half the file size", store, Keys(kKeys, skew), 2, 3), 0, 0.05);
    if (pick == FilePick::kByCompensatedSize) continue;  // unstable there: docs/design/msls.md
    store = SmallRocksDB(pick);
    store.level_multiplier = 5;
    EXPECT_NEAR(Compare(name + ", multiplier 5", store, Keys(kKeys, skew), 2, 3), 0, 0.06);
    store = SmallRocksDB(pick);
    store.level_bytes = {1.6e6, 4.8e6};
    EXPECT_NEAR(Compare(name + ", levels of 4 % and 12 %", store, Keys(kKeys / 2, skew), 2, 3), 0, 0.06);
  }
}

INSTANTIATE_TEST_SUITE_P(Picks, PickTest,
                         ::testing::Values(FilePick::kByCompensatedSize, FilePick::kOldestLargestSeqFirst,
                                           FilePick::kOldestSmallestSeqFirst, FilePick::kMinOverlappingRatio,
                                           FilePick::kRoundRobin),
                         [](const ::testing::TestParamInfo<FilePick>& i) { return FilePickName(i.param); });

// Dynamic level bytes make level 2 anything from 1 to 10 times as large as level 1.
TEST(SimulatorTest, SecondLevelOfAnySizeWithinFivePercent) {
  for (FilePick pick : {FilePick::kMinOverlappingRatio, FilePick::kRoundRobin}) {
    for (double ratio : {1.25, 2.0, 3.0, 5.0}) {
      // kRoundRobin then moves many tables down without merging them, at twice level 1 in some runs and not in others.
      // The model does not know of it: docs/design/tuner.md.
      if (pick == FilePick::kRoundRobin && ratio <= 2) continue;
      for (double skew : {0.0, 0.99}) {
        StoreShape store = SmallRocksDB(pick);
        store.dynamic_level_bytes = true;
        store.file_bytes = store.write_buffer_bytes;
        const double keys = 10 * ratio * store.level_base_bytes / store.item_bytes;
        char name[80];
        snprintf(name, sizeof(name), "%s, level 2 of %g times level 1", FilePickName(pick), ratio);
        EXPECT_NEAR(Compare(name, store, Keys(keys, skew), 3, 10), 0, 0.06);
      }
    }
  }
}

TEST(SimulatorTest, LevelDBWithinFivePercent) {
  for (double skew : {0.0, 0.5, 0.99}) {
    StoreShape store = LevelDB1KB();
    EXPECT_NEAR(Compare("LevelDB, 1 kB items", store, Keys(1e6, skew), 1, 3), 0, 0.05);
    store.level_bytes = {40e6, 200e6};
    EXPECT_NEAR(Compare("LevelDB, levels of 40 and 200 MB", store, Keys(1e6, skew), 1, 3), 0, 0.05);
  }
}

TEST(SimulatorTest, UniversalWithinFivePercent) {
  for (double skew : {0.0, 0.5, 0.99}) {
    for (int trigger : {4, 8}) {
      StoreShape store = StoreShape::Default(Design::kUniversal);
      store.write_buffer_bytes = 4e5;
      store.level0_trigger = trigger;
      // Strong skew with few runs: what one compaction takes along differs so much from run to run that the mean of 40
      // spans was seen to move by 8.5 % from one seed to another.
      const bool erratic = skew > 0.9 && trigger == 4;
      EXPECT_NEAR(
          Compare("universal, trigger " + std::to_string(trigger), store, Keys(2e5, skew), 6, erratic ? 40 : 20), 0,
          erratic ? 0.12 : 0.05);
    }
  }
}

TEST(SimulatorTest, GrowthDesignsWithinFivePercent) {
  for (Design design : {Design::kSamt, Design::kCola}) {
    for (int growth : {2, 4}) {
      for (double skew : {0.0, 0.99}) {
        StoreShape store = StoreShape::Default(design);
        store.write_buffer_bytes = 2e5;
        store.growth = growth;
        EXPECT_NEAR(Compare(DesignName(design) + std::string(", growth ") + std::to_string(growth), store,
                            Keys(2e5, skew), 2.56, 12.8),
                    0, 0.05);
      }
    }
  }
}

TEST(SimulatorTest, SiltWithinFivePercent) {
  for (double skew : {0.0, 0.5, 0.99}) {
    StoreShape store = StoreShape::Default(Design::kSilt);
    store.hash_store_slots = 4000;
    store.hash_stores = 20;
    EXPECT_NEAR(Compare("silt", store, Keys(5e5, skew), 2, 8), 0, 0.05);
  }
}

TEST(SimulatorTest, TrieWithinFivePercent) {
  struct Case {
    double skew, write_buffer, space_bound;
  };
  for (const Case& c : {Case{0, 1e5, 1.5}, Case{0, 4e4, 1.5}, Case{0, 6e4, 1.2}, Case{0, 6e4, 4}, Case{0.99, 4e4, 1.5},
                        Case{0.99, 3e4, 4}}) {
    StoreShape store = StoreShape::Default(Design::kTrie);
    store.write_buffer_bytes = c.write_buffer;
    store.space_bound = c.space_bound;
    char name[80];
    snprintf(name, sizeof(name), "trie, write buffer %g, space bound %g", c.write_buffer, c.space_bound);
    EXPECT_NEAR(Compare(name, store, Keys(2e5, c.skew), 8, 20), 0, 0.05);
  }
}

// The most space is that of the merge of everything, whose inputs and outputs lie beside each other; a compaction of a
// container of a trie takes a part of that.
TEST(SimulatorTest, TheMostSpaceHasTheOutputsOfTheLargestCompaction) {
  Popularity p;
  ASSERT_TRUE(Popularity::Uniform(kKeys, &p).ok());
  StoreShape store;
  store.design = Design::kUniversal;
  store.item_bytes = 100;
  store.write_buffer_bytes = 100 * kKeys / 28;
  store.level0_trigger = 16;
  Report universal, trie;
  SimulationOptions options;
  options.seed = Seed();
  ASSERT_TRUE(Simulate(store, p, options, &universal).ok());
  EXPECT_GT(universal.most_space_amplification, universal.space_amplification + 1);
  store.design = Design::kTrie;
  ASSERT_TRUE(Simulate(store, p, options, &trie).ok());
  EXPECT_GT(trie.most_space_amplification, trie.space_amplification);
  EXPECT_LT(trie.most_space_amplification, universal.most_space_amplification - 1);
}

TEST(SimulatorTest, LoadIsAPermutation) {
  for (double keys : {2.0, 3.0, 100.0, 4097.0}) {
    const Popularity p = Keys(keys, 0.5);
    Workload workload(p, Seed());
    std::set<uint32_t> seen;
    for (uint64_t i = 0; i < workload.keys(); i++) seen.insert(workload.Load(i));
    EXPECT_EQ(seen.size(), workload.keys());
    EXPECT_LT(*seen.rbegin(), workload.keys());
  }
}

TEST(SimulatorTest, DrawsFollowThePopularity) {
  Popularity histogram;
  ASSERT_TRUE(Popularity::Histogram({{50, 10}, {1, 5000}, {0.1, 100000}}, &histogram).ok());
  for (const Popularity& p : {Keys(100000, 0), Keys(100000, 0.7), Keys(100000, 0.99), Keys(100000, 1.5), histogram}) {
    Workload workload(p, Seed());
    std::set<uint32_t> seen;
    const int kRequests = 50000;
    for (int i = 0; i < kRequests; i++) seen.insert(workload.Draw());
    // Keys are seen or not nearly independently of each other, so the variance is below the mean.
    const double expected = p.Unique(kRequests);
    EXPECT_NEAR(static_cast<double>(seen.size()), expected, 5 * std::sqrt(expected)) << p.name();
  }
}

// A load, against a store of levels that is played with real keys.
TEST(SimulatorTest, LoadOfLevels) {
  StoreShape store = StoreShape::Default(Design::kRocksDB);
  store.log = false;
  store.dynamic_level_bytes = false;
  store.write_buffer_bytes = store.file_bytes = 1000 * store.item_bytes;
  store.level_base_bytes = 4 * store.write_buffer_bytes;
  constexpr uint32_t kLoaded = 600000;
  std::vector<double> targets;
  ASSERT_TRUE(LevelItems(store, Keys(kLoaded, 0), &targets).ok());
  const std::unique_ptr<AdjustableStore> levels = NewAdjustableStore(store, targets, Deletions::kAllValues);
  Workload workload(Keys(kLoaded, 0), Seed());
  for (uint32_t next = 0; next < kLoaded;) {
    Table table;
    for (int i = 0; i < 1000; i++, next++) table.push_back(uint64_t{workload.Load(next)} << 32 | next);
    std::sort(table.begin(), table.end());
    levels->Flush(std::move(table));
  }
  double written = 0, model = 0;
  for (const WriteCost& step : levels->write_stats.steps()) written += step.value / kLoaded;
  ASSERT_TRUE(ModelLoad(store, kLoaded, &model).ok());
  printf("load: simulation %.3f model %.3f\n", written, model);
  EXPECT_NEAR(model / written, 1, 0.06);
}

}  // namespace
}  // namespace cairn::msls
