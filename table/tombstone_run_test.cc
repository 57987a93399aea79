#include "table/tombstone_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

namespace cairn {
namespace {

std::string Key(int n) { return std::to_string(100000000 + n); }

TEST(TombstoneRunTest, IsSoManyInARow) {
  for (const int count : {99, 100}) {
    TombstoneRun run(100, TombstoneRun::Share::kAny);
    for (int i = 0; i < 1000; ++i) run.Add(Key(i), false);
    for (int i = 0; i < count; ++i) run.Add(Key(1000 + i), true);
    for (int i = 0; i < 1000; ++i) run.Add(Key(2000 + i), false);
    EXPECT_EQ(run.found(), count == 100);
  }
}

TEST(TombstoneRunTest, OneKeyInSixteenEndsIt) {
  for (const int every : {17, 30}) {
    TombstoneRun run(100, TombstoneRun::Share::kAny);
    for (int i = 0; i < 10000; ++i) run.Add(Key(i), i % every != 0);
    EXPECT_EQ(run.found(), every == 30);
  }
}

TEST(TombstoneRunTest, ScatteredDeletesAreNone) {
  std::mt19937_64 random(1);
  for (const double share : {0.05, 0.5, 0.9}) {
    TombstoneRun run(512, TombstoneRun::Share::kAny);
    for (int i = 0; i < 1000000; ++i) run.Add(Key(i), static_cast<double>(random() % 1000) < share * 1000);
    EXPECT_FALSE(run.found()) << share;
  }
}

TEST(TombstoneRunTest, MayHaveToBeAnEighth) {
  for (const int keys : {1000, 700}) {
    TombstoneRun run(50, TombstoneRun::Share::kEighth);
    for (int i = 0; i < keys; ++i) run.Add(Key(i), i >= 100 && i < 200);
    EXPECT_EQ(run.found(), keys == 700);
  }
}

// A snapshot keeps them. A key counts once, by its newest version.
TEST(TombstoneRunTest, OlderVersionsOfADeletedKeyDoNotEndIt) {
  constexpr auto kAny = TombstoneRun::Share::kAny;
  TombstoneRun deleted(100, kAny), twice(100, kAny), live(100, kAny);
  for (int i = 0; i < 100; ++i) {
    deleted.Add(Key(i), true);
    deleted.Add(Key(i), false);
  }
  EXPECT_TRUE(deleted.found());
  for (int i = 0; i < 100; ++i) twice.Add(Key(i / 2), true);
  EXPECT_FALSE(twice.found());
  for (int i = 0; i < 1000; ++i) live.Add(Key(i / 2), i % 2 == 1);
  EXPECT_FALSE(live.found());
}

// Nothing lies below it.
TEST(TombstoneRunTest, NoTableOfTheLastLevelIsMarked) {
  TombstoneMarkerFactory factory(1);
  rocksdb::TablePropertiesCollectorFactory::Context context;
  for (const int level : {-1, 0, 5, 6}) {
    context.level_at_creation = level;
    context.num_levels = 7;
    const std::unique_ptr<rocksdb::TablePropertiesCollector> marker(factory.CreateTablePropertiesCollector(context));
    ASSERT_EQ(marker == nullptr, level == 6) << level;
    if (marker == nullptr) continue;
    EXPECT_FALSE(marker->NeedCompact());
    EXPECT_TRUE(marker->AddUserKey("a", "b", rocksdb::kEntryRangeDeletion, 1, 0).ok());
    EXPECT_FALSE(marker->NeedCompact());
    EXPECT_TRUE(marker->AddUserKey("a", "", rocksdb::kEntryDelete, 1, 0).ok());
    EXPECT_TRUE(marker->NeedCompact());
  }
}

}  // namespace
}  // namespace cairn
