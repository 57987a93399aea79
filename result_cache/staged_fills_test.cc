#include "result_cache/cache_fills.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cairn {
namespace {

std::string Take(StagedFills* fills) {
  std::string taken = "none";
  fills->TakeOne([&](const StagedFills::Fill& fill) {
    taken = std::string(fill.key) + "=" + (fill.absent ? "absent" : std::string(fill.value)) + "/" +
            std::to_string(fill.space);
  });
  return taken;
}

TEST(StagedFillsTest, AreTakenInTheirOrder) {
  StagedFills fills;
  EXPECT_TRUE(fills.empty());
  EXPECT_EQ(Take(&fills), "none");
  for (int round = 0; round < 3; ++round) {
    {
      std::string key = "key", value(StagedFills::kMostBytes - key.size(), 'v');
      EXPECT_TRUE(fills.Add({{}, 7, false, key, value}));
      EXPECT_TRUE(fills.Add({{}, 8, true, key, {}}));
      EXPECT_TRUE(fills.Add({{}, 9, false, {}, {}}));
      EXPECT_TRUE(fills.Add({{}, 9, false, "a", "b"}));
      EXPECT_FALSE(fills.Add({{}, 9, false, "no", "room"}));
    }
    EXPECT_TRUE(fills.Holds("key", 7));
    EXPECT_TRUE(fills.Holds("key", 8));
    EXPECT_FALSE(fills.Holds("key", 9));
    EXPECT_TRUE(fills.Holds("", 9));
    EXPECT_EQ(Take(&fills), "key=" + std::string(StagedFills::kMostBytes - 3, 'v') + "/7");
    EXPECT_FALSE(fills.Holds("key", 7));
    EXPECT_EQ(Take(&fills), "key=absent/8");
    EXPECT_EQ(Take(&fills), "=/9");
    EXPECT_EQ(Take(&fills), "a=b/9");
    EXPECT_TRUE(fills.empty());
  }
  EXPECT_FALSE(fills.Add({{}, 0, false, std::string(StagedFills::kMostBytes, 'k'), "v"})) << "too large";
}

TEST(StagedFillsTest, AnotherThreadGoesOnWithout) {
  StagedFills fills;
  ASSERT_TRUE(fills.Add({{}, 0, false, "k", "v"}));
  fills.TakeOne([&](const StagedFills::Fill&) {
    EXPECT_FALSE(fills.Add({{}, 0, false, "other", "v"}));
    EXPECT_FALSE(fills.TakeOne([](const StagedFills::Fill&) {}));
    EXPECT_FALSE(fills.Holds("k", 0));
  });
  EXPECT_TRUE(fills.empty());
}

TEST(StagedFillsTest, ManyThreadsTakeEachOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  StagedFills fills;
  std::atomic<int> added{0}, taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string key = std::to_string(t) + ":" + std::to_string(i);
        if (fills.Add({{}, 0, false, key, key})) ++added;
        fills.TakeOne([&](const StagedFills::Fill& fill) {
          EXPECT_EQ(fill.key, fill.value);
          ++taken;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (Take(&fills) != "none") ++taken;
  EXPECT_EQ(added, taken);
}

}  // namespace
}  // namespace cairn
