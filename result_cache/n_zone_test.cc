#include "result_cache/n_zone.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace cairn::cache {
namespace {

// A zone of one partition, full of items that nobody has asked for.
class Full {
 public:
  explicit Full(bool lossy = false) : lossy_(lossy), zone_(Options(), &buckets_, &arena_, clock_) {
    EvictSome(2 * kItems);
  }

  // Stores items of new keys, which push out as many.
  void EvictSome(int count) {
    for (int i = 0; i < count; ++i) Put("item" + std::to_string(next_++));
  }
  void Put(const std::string& key) {
    const MutexLock lock(zone_.mutex());
    ASSERT_EQ(zone_.Put(KeyOf(key), {key, value_}), NZone::Room::kYes);
  }
  // As a writer of a key does that somebody has asked for.
  void PutAskAndErase(const std::string& key) {
    Put(key);
    ASSERT_EQ(zone_.Lookup(KeyOf(key), nullptr), NZone::Found::kValue);
    const MutexLock lock(zone_.mutex());
    ASSERT_TRUE(zone_.Erase(KeyOf(key), NZone::For::kWriter));
  }
  void AskForAll() {
    for (int i = 0; i < next_; ++i) zone_.Lookup(KeyOf("item" + std::to_string(i)), nullptr);
  }
  uint64_t Reclaimed() {
    const MutexLock lock(zone_.mutex());
    return zone_.numbers().reclaimed;
  }
  bool HadOfLate(const std::string& key) const { return zone_.HadOfLate(KeyOf(key)); }
  size_t GhostBytes() {
    const MutexLock lock(zone_.mutex());
    return zone_.numbers().ghost_bytes;
  }
  void Clear() {
    const MutexLock lock(zone_.mutex());
    zone_.Clear();
  }
  bool GiveBack() {
    const MutexLock lock(zone_.mutex());
    return zone_.GiveBack();
  }
  size_t charged() const { return arena_.charged(); }

  static constexpr int kItems = 10000;  // that there is room for, more or less

 private:
  NZoneOptions Options() const {
    NZoneOptions options;
    options.seed = 1;
    options.lossy = lossy_;
    options.buckets = 64;
    options.max_buckets = kMaxBuckets;
    options.apart_bytes = kChunk / 4;
    options.admit_one_fill_in = 4;
    return options;
  }
  static Key KeyOf(const std::string& key) { return {key, HashKey(1, 0, key), 0}; }

  static constexpr size_t kCapacity = size_t{1} << 20;
  static constexpr size_t kChunk = 4096;
  static constexpr uint64_t kMaxBuckets = 1 << 13;

  const bool lossy_;
  const std::string value_ = std::string(80, 'v');
  const std::function<uint64_t()> clock_ = [] { return uint64_t{1}; };
  Arena arena_{kCapacity, kCapacity, kChunk, MappedRange::Pages::kSmall, {}};
  BucketRange buckets_{kMaxBuckets, 1, MappedRange::Pages::kSmall};
  NZone zone_;
  int next_ = 0;
};

TEST(NZoneTest, WhatTheSmallQueueLosesHasAGhostInItsBucket) {
  Full full;
  full.Put("key");
  int evicted = 0;
  while (!full.HadOfLate("key") && evicted < 2 * Full::kItems) {
    full.EvictSome(10);
    evicted += 10;
  }
  EXPECT_LT(evicted, 2 * Full::kItems);
  EXPECT_EQ(full.GhostBytes(), 0u) << "no table is needed for it";
}

// A miss must not pay for a lock and a line of memory for ever because of it.
TEST(NZoneTest, WhoErasesSeldomHasNoTable) {
  Full full;
  full.PutAskAndErase("erased");
  EXPECT_TRUE(full.HadOfLate("erased"));
  full.EvictSome(100);
  EXPECT_EQ(full.GhostBytes(), 0u);
}

TEST(NZoneTest, WhoErasesMuchHasATableAsLongAsItErases) {
  Full full;
  for (int i = 0; i < 1000; ++i) full.PutAskAndErase("erased" + std::to_string(i));
  EXPECT_GT(full.GhostBytes(), 0u);
  int had = 0;
  for (int i = 500; i < 1000; ++i) had += full.HadOfLate("erased" + std::to_string(i)) ? 1 : 0;
  EXPECT_GT(had, 490);
  // It comes back late, when others' ghosts in its bucket have gone.
  full.EvictSome(Full::kItems / 2);
  had = 0;
  for (int i = 500; i < 1000; ++i) had += full.HadOfLate("erased" + std::to_string(i)) ? 1 : 0;
  EXPECT_GT(had, 400);
  full.EvictSome(10 * Full::kItems);
  EXPECT_EQ(full.GhostBytes(), 0u) << "nobody has erased anything for long";
}

// Where most items have been asked for, a chunk is gained from many. Only where both queues want one at the same time
// does an item wait for more than two.
TEST(NZoneTest, FewItemsPayForManyChunks) {
  Full full;
  int paid_for_many = 0;
  uint64_t all = 0;
  for (int round = 0; round < 20; ++round) {
    full.AskForAll();
    for (int i = 0; i < 500; ++i) {
      const uint64_t before = full.Reclaimed();
      full.EvictSome(1);
      all += full.Reclaimed() - before;
      if (full.Reclaimed() - before > 2) ++paid_for_many;
    }
  }
  EXPECT_LE(paid_for_many, 5);
  EXPECT_GT(all, 2 * uint64_t{20 * 500 * 96 / 4096}) << "so the case is not there that this is about";
}

TEST(NZoneTest, GhostsAreGivenBackAsAllElse) {
  for (const bool lossy : {false, true}) {
    SCOPED_TRACE(lossy);
    Full cleared(lossy);
    const size_t of_index = size_t{64} * sizeof(Bucket);
    for (int i = 0; i < 1000; ++i) cleared.PutAskAndErase("erased" + std::to_string(i));
    ASSERT_GT(cleared.GhostBytes(), 0u);
    cleared.Clear();
    EXPECT_EQ(cleared.GhostBytes(), 0u);
    EXPECT_LE(cleared.charged(), of_index);
    Full shrunk(lossy);
    for (int i = 0; i < 1000; ++i) shrunk.PutAskAndErase("erased" + std::to_string(i));
    ASSERT_GT(shrunk.GhostBytes(), 0u);
    while (shrunk.GiveBack()) {
    }
    EXPECT_EQ(shrunk.GhostBytes(), 0u);
  }
}

}  // namespace
}  // namespace cairn::cache
