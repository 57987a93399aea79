#include "src/database_cache/cache_benefit.h"

#include "gtest/gtest.h"

namespace cairn {
namespace {

TEST(CacheBenefitTest, HitsSaveAndTheRestCosts) {
  CacheBenefit benefit;
  EXPECT_FALSE(benefit.Knows());
  for (int i = 0; i < 100; ++i) {
    benefit.AddHit(100, 2000);
    benefit.AddMiss(100, 8000);
    benefit.AddFill(400);
    benefit.AddWrite(10, 1000);
  }
  EXPECT_TRUE(benefit.Knows());
  EXPECT_NEAR(benefit.SavedPerRead({1000, 1000, 0, 0}), 1900, 200);
  EXPECT_NEAR(benefit.SavedPerRead({1000, 500, 500, 0}), 1000 - 100 - 200, 150);
  EXPECT_LT(benefit.SavedPerRead({1000, 100, 900, 0}), 0) << "uniform reads";
  EXPECT_LT(benefit.SavedPerRead({1000, 500, 500, 10000}), 0) << "ten writes for each read";
  EXPECT_EQ(benefit.SavedPerRead({0, 0, 0, 0}), 0);
  benefit.Forget();
  EXPECT_FALSE(benefit.Knows());
}

// On a busy machine some samples hold milliseconds in which another thread ran.
TEST(CacheBenefitTest, LostProcessorsAreNoCosts) {
  CacheBenefit benefit;
  for (int i = 0; i < 128; ++i) {
    const bool lost = i % 20 == 0;
    benefit.AddHit(lost ? 8000000 : 100, 2000);
    benefit.AddMiss(100, 8000);
    benefit.AddFill(lost ? 20000000 : 400);
  }
  EXPECT_GT(benefit.SavedPerRead({1000, 700, 300, 0}), 800);
}

// A tree that reads from a disk now and then is slow though its median is not.
TEST(CacheBenefitTest, DisksCount) {
  CacheBenefit benefit;
  for (int i = 0; i < 128; ++i) benefit.AddHit(100, i % 4 == 0 ? 100000 : 3000);
  EXPECT_GT(benefit.SavedPerRead({1000, 100, 900, 0}), 1000);
}

}  // namespace
}  // namespace cairn
