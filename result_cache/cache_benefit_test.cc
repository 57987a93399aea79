#include "result_cache/cache_benefit.h"

#include "gtest/gtest.h"

namespace cairn {
namespace {

constexpr CacheBenefit::By kByTree = CacheBenefit::kByTree;
constexpr CacheBenefit::By kByCache = CacheBenefit::kByCache;
constexpr CacheBenefit::Found kValue = CacheBenefit::kValue;
constexpr CacheBenefit::Found kAbsent = CacheBenefit::kAbsent;

TEST(CacheBenefitTest, WhatReadsTakeWithAndWithoutIsCompared) {
  CacheBenefit benefit;
  EXPECT_FALSE(benefit.Knows(384));
  EXPECT_EQ(benefit.SavedPerRead({1000, 0}), 0);
  for (int i = 0; i < 400; ++i) {
    benefit.AddRead(kByTree, kValue, 2000);
    benefit.AddRead(kByCache, kValue, i % 4 == 0 ? 2400 : 100);
    benefit.AddWrite(10, 1000);
  }
  EXPECT_TRUE(benefit.Knows(384));
  EXPECT_NEAR(benefit.SavedPerRead({1000, 0}), 2000 - 675, 200);
  EXPECT_LT(benefit.SavedPerRead({1000, 20000}), 0) << "twenty writes for each read";
  EXPECT_EQ(benefit.SavedPerRead({0, 0}), 0);
  benefit.Forget();
  EXPECT_FALSE(benefit.Knows(384));
}

TEST(CacheBenefitTest, ACacheThatAnswersSeldomCosts) {
  CacheBenefit benefit;
  for (int i = 0; i < 400; ++i) {
    benefit.AddRead(kByTree, kValue, i % 3 == 0 ? 1500 : 900);
    benefit.AddRead(kByCache, kValue, i % 10 == 0 ? 100 : i % 3 == 0 ? 1900 : 1250);
  }
  EXPECT_LT(benefit.SavedPerRead({1000, 0}), -50);
}

// On a busy machine some samples hold milliseconds in which another thread ran.
TEST(CacheBenefitTest, LostProcessorsAreNoCosts) {
  CacheBenefit benefit;
  for (int i = 0; i < 1280; ++i) {
    benefit.AddRead(kByTree, kValue, 2000);
    benefit.AddRead(kByCache, kValue, i % 200 == 0 ? 8000000 : 100);
  }
  EXPECT_GT(benefit.SavedPerRead({1000, 0}), 800);
}

// A tree that reads from a disk now and then is slow though its median is not.
TEST(CacheBenefitTest, DisksCount) {
  CacheBenefit benefit;
  for (int i = 0; i < 1280; ++i) {
    benefit.AddRead(kByTree, kValue, i % 4 == 0 ? 100000 : 3000);
    benefit.AddRead(kByCache, kValue, i % 8 == 0 ? 100000 : i % 2 == 0 ? 3300 : 100);
  }
  EXPECT_GT(benefit.SavedPerRead({1000, 0}), 1000);
}

// A sample of the tree's reads that holds more absent keys than the cache's is no gain.
TEST(CacheBenefitTest, KindsOfAnswersAreComparedApart) {
  CacheBenefit benefit;
  for (int i = 0; i < 600; ++i) {
    if (i % 3 == 0) {
      benefit.AddRead(kByTree, kValue, 2000);
      benefit.AddRead(kByCache, kAbsent, 250);
    } else {
      benefit.AddRead(kByTree, kAbsent, 150);
      benefit.AddRead(kByCache, kValue, 2100);
    }
  }
  EXPECT_NEAR(benefit.SavedPerRead({1000, 0}), -100, 60);
  EXPECT_NEAR(benefit.TreeNanoseconds(), 767, 80);
}

}  // namespace
}  // namespace cairn
