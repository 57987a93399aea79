#include "trie_table/bloom_cluster/filter_budget.h"

#include <random>

#include "gtest/gtest.h"
#include "rocksdb/advanced_cache.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using Plan = std::vector<uint8_t>;

std::vector<FilterNeed> ThreeDepths() { return {{10000, 20}, {100000, 19}, {1000000, 16}}; }

uint64_t Takes(const std::vector<FilterNeed>& depths, const Plan& plan) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan.size(); ++i) bytes += plan[i] == 0 ? 0 : FilterBytes(depths[i].keys, plan[i]);
  return bytes;
}

TEST(FilterBudgetTest, ShallowDepthsFirst) {
  EXPECT_EQ(PlanFilterMemory(ThreeDepths(), 4000000), (Plan{20, 19, 16}));
  EXPECT_EQ(PlanFilterMemory(ThreeDepths(), 1900000), (Plan{20, 19, 12}));
  EXPECT_EQ(PlanFilterMemory(ThreeDepths(), 1000000), (Plan{20, 19, 0})) << "fewer than 8 bits are not worth it";
  EXPECT_EQ(PlanFilterMemory(ThreeDepths(), 150000), (Plan{20, 8, 0}));
  EXPECT_EQ(PlanFilterMemory(ThreeDepths(), 0), (Plan{0, 0, 0}));
}

TEST(FilterBudgetTest, ADepthThatHasJustBegunFits) {
  std::vector<FilterNeed> depths = ThreeDepths();
  depths.push_back({1000, 16});
  EXPECT_EQ(PlanFilterMemory(depths, 400000), (Plan{20, 19, 0, 16}));
}

TEST(FilterBudgetTest, NeverTakesMore) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 10000; ++round) {
    std::vector<FilterNeed> depths(random() % 5);
    for (FilterNeed& depth : depths) depth = {random() % 1000000, 6 + static_cast<double>(random() % 140) / 10};
    const uint64_t budget = random() % 5000000;
    const Plan plan = PlanFilterMemory(depths, budget);
    ASSERT_LE(Takes(depths, plan), budget);
  }
}

TEST(FilterBudgetTest, WhoeverSharesACacheSharesItsPart) {
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(1000000, 0);
  CacheShare first;
  EXPECT_EQ(first.Ask(nullptr, 1000, 0.5), 0u);
  EXPECT_EQ(first.Ask(cache, 1000, 0.5), 500000u);
  {
    CacheShare second;
    EXPECT_FALSE(first.IsTooMuch());
    EXPECT_TRUE(first.HasGrown());
    EXPECT_FALSE(first.HasGrown());
    EXPECT_EQ(second.Ask(cache, 100, 0.5), 45454u);
    EXPECT_FALSE(first.IsTooMuch()) << "a tenth";
    EXPECT_EQ(second.Ask(cache, 3000, 0.5), 375000u);
    EXPECT_TRUE(first.IsTooMuch());
    EXPECT_EQ(first.Ask(cache, 1000, 0.5), 125000u);
    EXPECT_FALSE(first.IsTooMuch());
    EXPECT_EQ(first.Ask(cache, 3000, 0.5), 250000u);
  }
  EXPECT_EQ(first.Ask(cache, 3000, 0.5), 500000u) << "the second is gone";
  cache->SetCapacity(2000000);
  EXPECT_EQ(first.Ask(cache, 3000, 0.5), 1000000u);
}

}  // namespace
}  // namespace cairn
