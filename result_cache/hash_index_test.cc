#include "result_cache/hash_index.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

namespace cairn::cache {
namespace {

uint64_t TestSeed() {
  const char* const given = std::getenv("CAIRN_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

// An index whose entries' places are numbers of hashes.
class Filled {
  static constexpr uint64_t kMaxBuckets = 1 << 14;
  BucketRange range_{kMaxBuckets, 4, MappedRange::Pages::kSmall};

 public:
  // The last of four partitions.
  Filled(uint64_t buckets, uint64_t seed) : index(&range_, 3, buckets, kMaxBuckets), random_(seed) {}

  bool Add() {
    hashes_.push_back(random_());
    ++adds;
    if (index.Add(hashes_.back(), EntryOf(hashes_.size() - 1), HashOf())) return true;
    hashes_.pop_back();
    return false;
  }
  // As a partition does: seven eighths full.
  void Grow() {
    while (8 * (index.entries() + 1) > 49 * index.buckets() && index.Split(HashOf())) {
    }
  }
  bool Finds(size_t number) const {
    const HashIndex::Slot slot =
        index.Find(hashes_[number], [&](uint64_t entry) { return Entry::Place(entry) == number + 1; });
    return slot.found() && slot.load() == EntryOf(number);
  }
  size_t size() const { return hashes_.size(); }
  void Split() { ASSERT_TRUE(index.Split(HashOf())); }
  void Merge() {
    ASSERT_TRUE(index.Merge(HashOf(), [](uint64_t) {}));
  }

  uint64_t adds = 0;
  uint64_t looks = 0;  // at an item, to have its hash
  HashIndex index;

 private:
  uint64_t EntryOf(size_t number) const { return Entry::Make(hashes_[number], number + 1); }
  std::function<uint64_t(uint64_t)> HashOf() {
    return [this](uint64_t entry) {
      ++looks;
      return hashes_[Entry::Place(entry) - 1];
    };
  }

  std::mt19937_64 random_;
  std::vector<uint64_t> hashes_;
};

TEST(HashIndexTest, EveryEntryIsFoundWhateverTheNumberOfBuckets) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  for (const uint64_t buckets : {1, 2, 3, 5, 64, 65, 96, 127, 128, 1000}) {
    Filled filled(buckets, seed);
    // Entries move as often as they can until none finds a place any more.
    while (filled.Add()) {
    }
    EXPECT_GT(filled.size(), buckets * Bucket::kEntries * (buckets < 64 ? 4 : 7) / 10);
    for (size_t i = 0; i < filled.size(); ++i) ASSERT_TRUE(filled.Finds(i)) << buckets << " buckets, entry " << i;
  }
  Filled growing(1, seed);
  for (int i = 0; i < 60000; ++i) {
    growing.Grow();
    static_cast<void>(growing.Add());
  }
  EXPECT_GT(growing.size(), 59900u);
  for (size_t i = 0; i < growing.size(); ++i) ASSERT_TRUE(growing.Finds(i)) << i;
}

TEST(HashIndexTest, AnEntryMovesWithoutALookAtItsItem) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  // A power of two: every bucket's number has all bits that choose it. Half way to the next: the items of some.
  for (const uint64_t buckets : {4096, 6144}) {
    Filled filled(buckets, seed);
    while (filled.index.entries() < buckets * 49 / 8) ASSERT_TRUE(filled.Add());
    EXPECT_LE(filled.looks, buckets == 4096 ? 0 : filled.adds / 2) << buckets;
  }
}

// A reader that has slept meanwhile must not take the bucket for the one that it has begun to read.
TEST(HashIndexTest, ABucketThatComesAgainHasNoVersionThatItHadBefore) {
  Filled filled(64, 1);
  while (filled.size() < 400) static_cast<void>(filled.Add());
  uint32_t newest = 0;
  for (int life = 0; life < 3; ++life) {
    filled.Split();
    // A hash whose first bucket is the last one.
    Bucket* const last = filled.index.First(64, filled.index.buckets());
    EXPECT_GT(last->version.load(), newest) << "life " << life;
    for (int change = 0; change < 10; ++change) {
      HashIndex::BeginChange(last);
      HashIndex::EndChange(last);
    }
    newest = last->version.load();
    filled.Merge();
    filled.index.ReleaseUnused();
  }
}

// Splits give both buckets the ghosts, so each key finds its own.
TEST(HashIndexTest, AGhostStaysWhileTheIndexGrows) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    Filled filled(1, seed);
    const uint64_t first = random();
    uint64_t second = random();
    while (BucketGhosts::Mark(second) == BucketGhosts::Mark(first)) second = random();
    filled.index.AddGhost(first);
    filled.index.AddGhost(second);
    for (int i = 0; i < 50; ++i) {
      filled.Split();
      ASSERT_TRUE(filled.index.HasGhost(first)) << i;
      ASSERT_TRUE(filled.index.HasGhost(second)) << i;
    }
    EXPECT_TRUE(filled.index.TakeGhost(first));
    EXPECT_FALSE(filled.index.HasGhost(first));
    EXPECT_FALSE(filled.index.TakeGhost(first));
    EXPECT_TRUE(filled.index.HasGhost(second));
  }
}

}  // namespace
}  // namespace cairn::cache
