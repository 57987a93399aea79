// The trie's model and simulator against its real picker (trie_table/compaction/hash_picker.h) over a model of the
// files: the same rules must write the same.

#include <gtest/gtest.h>

#include <cstdio>

#include "cairn/msls.h"
#include "msls/model_options.h"
#include "msls/workload.h"
#include "test/testutil/simulated_trie.h"
#include "test/testutil/test_seed.h"

namespace cairn::msls {
namespace {

constexpr double kWarm = 2, kCounted = 6;  // requests for each key
constexpr uint64_t kFlush = 394;           // requests in a write buffer
// That model and simulation may be off. Over 70 seeds the model lies 2.6 % above the picker under Zipf 0.99 and at
// 50,000 uniform keys, the simulation 0.5 %; the means below spread by 0.6 to 0.9 % (standard deviation).
constexpr double kMost = 0.065;
constexpr double kDataBytes = 100, kTableBytes = 109;

struct Written {
  double write_amplification = 0;
  double space_amplification = 0;
};

Written RunPicker(const HashTrieOptions& options, const Popularity& p, uint64_t seed) {
  SimulatedTrie trie(options, {static_cast<uint64_t>(kDataBytes), static_cast<uint64_t>(kTableBytes)});
  Workload workload(p, seed);
  const uint64_t keys = workload.keys();
  const auto begin = static_cast<uint64_t>((1 + kWarm) * p.keys());
  const auto end = begin + static_cast<uint64_t>(kCounted * p.keys());
  uint64_t counted = 0, written = 0, samples = 0;
  double bytes = 0;
  for (uint64_t next = 0; next < end;) {
    std::vector<std::pair<uint64_t, bool>> operations;
    for (uint64_t i = 0; i < kFlush; i++, next++) {
      operations.emplace_back(next < keys ? workload.Load(next) : workload.Draw(), false);
    }
    const uint64_t before = trie.written;
    trie.Flush(operations);
    EXPECT_TRUE(trie.Settle());
    if (next <= begin) continue;
    counted += kFlush;
    written += trie.written - before;
    bytes += static_cast<double>(trie.shape.bytes());
    samples++;
  }
  EXPECT_EQ(trie.violations, 0u);
  return {static_cast<double>(written) / kTableBytes / static_cast<double>(counted),
          bytes / static_cast<double>(samples) / kTableBytes / p.keys()};
}

StoreShape StoreOf(const HashTrieOptions& options) {
  StoreShape store = StoreShape::Default(Design::kTrie);
  store.log = false;
  store.item_bytes = kTableBytes;
  store.write_buffer_bytes = static_cast<double>(kFlush) * kTableBytes;
  SetTrieShape(options, kDataBytes, kTableBytes, &store);
  return store;
}

// How far the model and the simulation are above the picker, on average over `runs`: one that happens to send one
// container more or less a depth deeper writes 1 to 3 % more or less.
void Compare(const HashTrieOptions& options, double keys, double skew, int runs) {
  Popularity p;
  ASSERT_TRUE(Popularity::Zipf(keys, skew, &p).ok());
  const StoreShape store = StoreOf(options);
  Report model, simulation;
  ASSERT_TRUE(Model(store, p, &model).ok());
  Written picker, simulated;
  for (int run = 0; run < runs; run++) {
    const uint64_t seed = Seed() + static_cast<uint64_t>(run);
    const Written real = RunPicker(options, p, seed);
    SimulationOptions play;
    play.seed = seed;
    play.warm_requests = kWarm * keys;
    play.requests = kCounted * keys;
    ASSERT_TRUE(Simulate(store, p, play, &simulation).ok());
    picker.write_amplification += real.write_amplification / runs;
    picker.space_amplification += real.space_amplification / runs;
    simulated.write_amplification += simulation.write_amplification / runs;
    simulated.space_amplification += simulation.space_amplification / runs;
  }
  const double of_model = model.write_amplification / picker.write_amplification - 1;
  const double of_simulation = simulated.write_amplification / picker.write_amplification - 1;
  printf("%6.0f keys, %-10s picker %.3f simulation %.3f (%+.1f %%) model %.3f (%+.1f %%), space %.3f %.3f %.3f\n", keys,
         p.name().c_str(), picker.write_amplification, simulated.write_amplification, 100 * of_simulation,
         model.write_amplification, 100 * of_model, picker.space_amplification, simulated.space_amplification,
         model.space_amplification);
  EXPECT_NEAR(of_model, 0, kMost);
  EXPECT_NEAR(of_simulation, 0, kMost);
  EXPECT_NEAR(model.space_amplification / picker.space_amplification, 1, 0.05);
}

// What is written while the trie is filled, against the picker.
TEST(TrieModelTest, Load) {
  const HashTrieOptions options;
  for (uint64_t keys : {uint64_t{30000}, uint64_t{150000}}) {
    Popularity p;
    ASSERT_TRUE(Popularity::Uniform(static_cast<double>(keys), &p).ok());
    SimulatedTrie trie(options, {static_cast<uint64_t>(kDataBytes), static_cast<uint64_t>(kTableBytes)});
    Workload workload(p, Seed());
    for (uint64_t next = 0; next < keys;) {
      std::vector<std::pair<uint64_t, bool>> operations;
      for (uint64_t i = 0; i < kFlush && next < keys; i++) operations.emplace_back(workload.Load(next++), false);
      trie.Flush(operations);
      ASSERT_TRUE(trie.Settle());
    }
    double model = 0;
    ASSERT_TRUE(ModelLoad(StoreOf(options), static_cast<double>(keys), &model).ok());
    EXPECT_NEAR(model / (static_cast<double>(trie.written) / kTableBytes / static_cast<double>(keys)), 1, 0.03);
  }
}

// Around the size at which part of the containers goes one depth deeper when the trie has been loaded.
TEST(TrieModelTest, Uniform) {
  for (double keys : {31e3, 39e3, 50e3, 62e3}) Compare(HashTrieOptions(), keys, 0, 2);
}

TEST(TrieModelTest, Zipf) { Compare(HashTrieOptions(), 39e3, 0.99, 8); }

// Little or no headroom: containers are merged in place or block their parents.
TEST(TrieModelTest, NoHeadroom) {
  HashTrieOptions options;
  options.trigger = 20;
  Compare(options, 31e3, 0, 1);
  options.slots = options.trigger = 6;
  options.root_trigger = 4;
  options.fan_out = 4;
  Compare(options, 31e3, 0, 1);
  options.space_bound = 3;
  Compare(options, 31e3, 0, 1);
}

}  // namespace
}  // namespace cairn::msls
