#include "memtable_cache/write_gate.h"

#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "test/testutil/await.h"
#include "test/testutil/random.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

bool Always() { return true; }

class WriteGateTest : public ::testing::Test {
 protected:
  WriteGateTest() { gate_.Use(&newest_); }

  std::atomic<uint64_t> newest_{100};
  WriteGate gate_;
};

TEST_F(WriteGateTest, IsOpenedByTheFirstWhoMay) {
  EXPECT_EQ(gate_.Enter(1), 0u);
  EXPECT_FALSE(gate_.TryOpen([] { return false; }));
  EXPECT_EQ(gate_.Enter(1), 0u);
  EXPECT_TRUE(gate_.TryOpen(Always));
  EXPECT_EQ(gate_.Enter(3), 101u);
  EXPECT_FALSE(gate_.Publish(101, 103));
  EXPECT_EQ(newest_, 103u);
  EXPECT_EQ(gate_.Enter(1), 104u);
  EXPECT_FALSE(gate_.Publish(104, 104));
}

TEST_F(WriteGateTest, GivesNumbersBehindThoseThatOthersTook) {
  ASSERT_TRUE(gate_.TryOpen(Always));
  {
    const WriteGate::Exclusive first(&gate_), second(&gate_);
    newest_ = 500;
    EXPECT_FALSE(gate_.TryOpen(Always));
    EXPECT_EQ(gate_.Enter(1), 0u);
    EXPECT_FALSE(gate_.AwaitFree(std::chrono::microseconds(100)));
  }
  EXPECT_TRUE(gate_.AwaitFree(std::chrono::microseconds(100)));
  ASSERT_TRUE(gate_.TryOpen(Always));
  EXPECT_EQ(gate_.Enter(1), 501u);
  EXPECT_FALSE(gate_.Publish(501, 501));
  EXPECT_EQ(gate_.counts().closings, 1u);
}

// Invariant (4).
TEST_F(WriteGateTest, IsNotOpenedOverWhatSomebodyDidMeanwhile) {
  EXPECT_FALSE(gate_.TryOpen([&] {
    const WriteGate::Exclusive other(&gate_);
    return true;
  }));
  EXPECT_TRUE(gate_.TryOpen(Always));
}

TEST_F(WriteGateTest, PublishesInOrder) {
  ASSERT_TRUE(gate_.TryOpen(Always));
  const uint64_t first = gate_.Enter(2);
  // More batches than there are slots, and one that is larger than all of them.
  std::vector<std::thread> later;
  for (int i = 0; i < 8; ++i) {
    const uint64_t entries = i == 3 ? 5000 : 1;
    const uint64_t own = gate_.Enter(entries);
    later.emplace_back([this, own, entries] {
      EXPECT_TRUE(gate_.Publish(own, own + entries - 1));
      EXPECT_GE(newest_, own + entries - 1);
    });
  }
  std::thread closer([this] { const WriteGate::Exclusive exclusive(&gate_); });
  ASSERT_TRUE(Await([&] { return gate_.counts().sleeps >= 9; }));
  EXPECT_EQ(newest_, 100u);
  gate_.Publish(first, first + 1);
  for (auto& thread : later) thread.join();
  closer.join();
  EXPECT_EQ(newest_, 100u + 2 + 7 + 5000);
}

// More writers than slots, that pile up behind those that pause with a number. One whom nobody wakes hangs the test.
TEST_F(WriteGateTest, WakesEachOfManyWriters) {
  constexpr int kWriters = 1200;
  constexpr int kTries = 10;
  const uint64_t seed = Seed();
  ASSERT_TRUE(gate_.TryOpen(Always));
  std::promise<void> all_are_made;
  const std::shared_future<void> made = all_are_made.get_future().share();
  std::atomic<uint64_t> entries_in_all{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      test::Random random(seed + static_cast<uint64_t>(t));
      made.wait();
      for (int i = 0; i < kTries; ++i) {
        const uint64_t entries = random.Uniform(20) == 0 ? 1 + random.Uniform(3000) : 1;
        const uint64_t first = gate_.Enter(entries);
        ASSERT_NE(first, 0u);
        entries_in_all += entries;
        if (random.Uniform(500) == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(3));
        } else if (random.Uniform(8) == 0) {
          std::this_thread::yield();
        }
        const uint64_t last = first + entries - 1;
        if (random.Uniform(10) == 0) gate_.AwaitPublished(first - 1);
        gate_.Publish(first, last);
        ASSERT_GE(newest_, last);
      }
    });
  }
  all_are_made.set_value();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(newest_, 100u + entries_in_all);
  EXPECT_GT(gate_.counts().sleeps, static_cast<uint64_t>(kWriters));
}

// Nobody is in the gate while somebody holds it, and what is published is whole.
TEST_F(WriteGateTest, KeepsWritersAndOthersApart) {
  constexpr uint64_t kTries = 20000;
  constexpr uint64_t kNumbers = 1 << 20;
  std::vector<std::atomic<uint8_t>> inserted(kNumbers);
  std::atomic<int> inside{0};
  std::atomic<int> running{6};
  const uint64_t seed = 20261129;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      test::Random random(seed + t);
      for (uint64_t i = 0; i < kTries; ++i) {
        const uint64_t entries = random.Uniform(100) == 0 ? 300 : 1 + random.Uniform(4);
        const uint64_t first = gate_.Enter(entries);
        if (first == 0) {
          gate_.TryOpen(Always);
          continue;
        }
        ++inside;
        for (uint64_t n = first; n < first + entries && n < kNumbers; ++n) {
          inserted[n].store(1, std::memory_order_relaxed);
        }
        --inside;
        gate_.Publish(first, first + entries - 1);
      }
      --running;
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (running > 0) {
        const WriteGate::Exclusive exclusive(&gate_);
        EXPECT_EQ(inside, 0);
        std::this_thread::yield();
        EXPECT_EQ(inside, 0);
      }
    });
  }
  uint64_t seen = 100;
  while (running > 0) {
    const uint64_t newest = std::min(newest_.load(std::memory_order_acquire), kNumbers - 1);
    for (; seen < newest; ++seen) EXPECT_EQ(inserted[seen + 1].load(std::memory_order_relaxed), 1) << seen + 1;
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace cairn
