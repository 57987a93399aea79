#include "result_cache/z_zone.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/cache.h"
#include "test/testutil/test_seed.h"
#include "util/mutex.h"

namespace cairn::cache {
namespace {

using Compression = ResultCacheOptions::Compression;
using Found = NZone::Found;

// Words of a small language.
std::string Text(uint64_t seed, size_t bytes) {
  std::mt19937_64 random(seed);
  std::string text;
  while (text.size() < bytes) {
    uint64_t word = SplitMix64(random() % 300);
    for (uint64_t letters = 2 + word % 7; letters > 0; --letters, word /= 26)
      text += static_cast<char>('a' + word % 26);
    text += ' ';
  }
  text.resize(bytes);
  return text;
}

TEST(CodecTest, WhatWasCompressedComesBack) {
  for (const Compression compression : {Compression::kLz4, Compression::kZstd}) {
    size_t given_back = 0;
    const size_t budget = size_t{1} << 20;
    Codec codec(compression, 16 * budget, budget, [&given_back](size_t bytes) { given_back += bytes; });
    for (int phase = 0; phase < 2; ++phase) {
      for (const size_t bytes : {0, 1, 10, 100, 2048, 5000, 70000}) {
        for (const std::string& raw : {Text(bytes, bytes), std::string(bytes, 'x')}) {
          std::string stored, back;
          uint8_t method = 0;
          codec.Compress(raw, &stored, &method);
          ASSERT_TRUE(codec.Decompress(method, stored, raw.size(), &back));
          ASSERT_EQ(back, raw);
          ASSERT_LE(stored.size(), raw.size());
          if (raw.size() < 100) continue;
          ASSERT_FALSE(
              codec.Decompress(method, std::string_view(stored).substr(0, stored.size() / 2), raw.size(), &back));
        }
      }
      if (phase == 1) break;
      EXPECT_FALSE(codec.has_dictionary());
      for (uint64_t i = 0; codec.wants_samples(); ++i) codec.AddSample(Text(i, 2048));
      codec.Finish();
      EXPECT_TRUE(codec.has_dictionary());
      EXPECT_EQ(codec.bytes() + given_back, budget);
      EXPECT_LT(codec.bytes(), budget);
    }
    // Small blocks gain by the dictionary.
    std::string stored;
    uint8_t method = 0;
    codec.Compress(Text(12345, 500), &stored, &method);
    EXPECT_LT(stored.size(), 400u);
  }
}

TEST(CodecTest, ASmallBudgetDoesWithoutADictionary) {
  const Codec codec(Compression::kZstd, 16000, 1000, [](size_t) {});
  EXPECT_FALSE(codec.wants_samples());
}

// A zone by itself, with everything that it needs.
class ZZoneTest : public testing::Test {
 protected:
  ZZoneTest() { Open(size_t{4} << 20); }
  void Open(size_t capacity) {
    zone_.reset();
    arena_ = std::make_unique<Arena>(capacity, size_t{16} << 20, size_t{4096}, MappedRange::Pages::kSmall, nullptr);
    zone_ = std::make_unique<ZZone>(ZZoneOptions(), arena_.get(), &codec_, &mutex_, clock_);
  }
  static Key KeyOf(const std::string& key, uint32_t space = 0) { return {key, HashKey(0, space, key), space}; }
  void Insert(const std::string& key, const std::string& value, uint64_t expiry = 0, bool absent = false) {
    const MutexLock lock(&mutex_);
    zone_->Insert(KeyOf(key).hash, {key, value, expiry, 0, absent});
  }
  void Invalidate(const std::string& key) {
    const MutexLock lock(&mutex_);
    zone_->Invalidate(KeyOf(key).hash);
  }
  Found Lookup(const std::string& key, std::string* value) {
    uint64_t expiry = 0;
    return zone_->Lookup(KeyOf(key), value, tick_, 100, &again_, &stamp_, &expiry);
  }

  uint64_t now_ = 1;
  const std::function<uint64_t()> clock_ = [this] { return now_; };
  uint32_t tick_ = 1000;
  bool again_ = false;
  uint64_t stamp_ = 0;
  CheckedMutex mutex_;
  Codec codec_{Compression::kLz4, 0, 0, [](size_t) {}};
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<ZZone> zone_;
};

TEST_F(ZZoneTest, HoldsMoreThanItTakes) {
  constexpr uint64_t kItems = 20000;
  std::string value;
  for (uint64_t i = 0; i < kItems; ++i) Insert("key" + std::to_string(i), Text(i, 100));
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_EQ(Lookup("key" + std::to_string(i), &value), Found::kValue) << i;
    ASSERT_EQ(value, Text(i, 100));
    ASSERT_EQ(Lookup("other" + std::to_string(i), &value), Found::kNo);
  }
  const ZZone::Numbers numbers = zone_->numbers();
  EXPECT_EQ(numbers.items, kItems);
  EXPECT_LT(numbers.bytes, numbers.item_bytes);
  EXPECT_GT(numbers.stored_bytes * 100, numbers.bytes * 85) << "the part that holds items";
  EXPECT_EQ(arena_->charged(), numbers.bytes);
  // A compression serves several items.
  EXPECT_LT(numbers.rebuilds, kItems);
}

TEST_F(ZZoneTest, AskingAgainWithinTheBenchmarkIsNoticed) {
  Insert("k", "v");
  // Only of what was asked for often: the first three times count.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Lookup("k", nullptr), Found::kValue);
    EXPECT_FALSE(again_);
  }
  tick_ += 99;
  EXPECT_EQ(Lookup("k", nullptr), Found::kValue);
  EXPECT_TRUE(again_);
  tick_ += 100;
  EXPECT_EQ(Lookup("k", nullptr), Found::kValue);
  EXPECT_FALSE(again_);
  EXPECT_TRUE(zone_->StillThere(KeyOf("k"), stamp_));
  Invalidate("k");
  EXPECT_FALSE(zone_->StillThere(KeyOf("k"), stamp_));
  EXPECT_EQ(Lookup("k", nullptr), Found::kNo);
}

TEST_F(ZZoneTest, CountsHowOftenAnItemWasAskedFor) {
  const auto there = [this](const std::string& key) {
    const MutexLock lock(&mutex_);
    return zone_->MayHave(KeyOf(key).hash);
  };
  EXPECT_EQ(there("k"), 0u);
  Insert("k", "v");
  for (const uint32_t expected : {1u, 2u, 3u, 4u, 4u}) {
    EXPECT_EQ(there("k"), expected);
    Lookup("k", nullptr);
  }
  // Each sweep takes one off; then it goes.
  for (const uint32_t expected : {3u, 2u, 1u, 0u}) {
    Insert("other", Text(1, 300));
    const MutexLock lock(&mutex_);
    zone_->GiveBack(1);
    EXPECT_EQ(zone_->MayHave(KeyOf("k").hash), expected);
  }
}

TEST_F(ZZoneTest, SweepsKeepWhatIsAskedFor) {
  Open(size_t{1} << 20);
  const auto name = [](int i) { return "hot" + std::to_string(i); };
  for (int i = 0; i < 500; ++i) Insert(name(i), Text(static_cast<uint64_t>(i), 100));
  for (int i = 0; i < 40000; ++i) {
    Insert("cold" + std::to_string(i), Text(static_cast<uint64_t>(i), 100));
    Lookup(name(i % 500), nullptr);
  }
  int kept = 0;
  for (int i = 0; i < 500; ++i) kept += Lookup(name(i), nullptr) == Found::kValue ? 1 : 0;
  EXPECT_GT(kept, 450);
  EXPECT_GT(zone_->numbers().evictions, 10000u);
  EXPECT_LE(arena_->charged(), arena_->capacity());
}

TEST_F(ZZoneTest, GivesBackEverything) {
  for (uint64_t i = 0; i < 5000; ++i) Insert("key" + std::to_string(i), Text(i, 100));
  const size_t before = zone_->bytes();
  const MutexLock lock(&mutex_);
  zone_->GiveBack(before / 2);
  EXPECT_LE(zone_->bytes(), before / 2);
  EXPECT_GT(zone_->bytes(), 0u);
  zone_->GiveBack(before);
  EXPECT_EQ(zone_->bytes(), 0u);
  EXPECT_EQ(arena_->charged(), 0u);
}

// As the N-zone uses it: an item is inserted only after it was invalidated, when it has changed. Whatever the order and
// however little room there is, the answer is the newest or none.
TEST_F(ZZoneTest, AgreesWithAMap) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int run = 0; run < 8; ++run) {
    Open(random() % 2 == 0 ? size_t{4} << 20 : 5000 + random() % 100000);
    struct Expected {
      std::string value;
      uint64_t expiry;
      bool absent;
    };
    std::map<std::string, Expected> model;
    uint64_t hits = 0;
    for (int op = 0; op < 30000; ++op) {
      // Up to what no longer fits: what is longer lies apart in the N-zone, and comes here all the same.
      const uint64_t number = random() % 1000;
      const std::string key = "key" + std::string(number % 50 == 7 ? number * 5 : 0, 'k') + std::to_string(number);
      switch (random() % 8) {
        case 0:
        case 1: {
          const Expected item{Text(random(), random() % (random() % 20 == 0 ? 5000 : 150)),
                              random() % 4 == 0 ? now_ + random() % 50 : 0, random() % 8 == 0};
          Invalidate(key);
          Insert(key, item.absent ? "" : item.value, item.expiry, item.absent);
          model[key] = item;
          break;
        }
        case 2:
          Invalidate(key);
          model.erase(key);
          break;
        case 3:
          now_ += random() % 3;
          break;
        case 4:
          if (random() % 300 == 0) {
            const MutexLock lock(&mutex_);
            zone_->GiveBack(random() % 20000);
          }
          break;
        default: {
          std::string value;
          const Found found = Lookup(key, &value);
          if (found == Found::kNo) break;
          ++hits;
          const auto expected = model.find(key);
          ASSERT_TRUE(expected != model.end()) << key;
          ASSERT_EQ(found == Found::kAbsent, expected->second.absent);
          ASSERT_TRUE(expected->second.expiry == 0 || expected->second.expiry > now_);
          if (found == Found::kValue) {
            ASSERT_EQ(value, expected->second.value);
          }
        }
      }
    }
    EXPECT_GT(hits, 0u);
    EXPECT_LE(arena_->charged(), arena_->capacity());
    EXPECT_EQ(arena_->charged(), zone_->numbers().bytes);
  }
}

// Both zones in one cache.
TEST(TwoZonesTest, EvictedItemsAreFoundCompressedAndComeBack) {
  ResultCacheOptions options;
  options.capacity = 2 << 20;
  options.n_zone_requests = 0;
  options.n_zone_share = 0.2;
  const auto items = [&](Compression compression) {
    options.compression = compression;
    std::unique_ptr<ResultCache> cache;
    EXPECT_TRUE(ResultCache::Create(options, &cache).ok());
    std::string value;
    // Items that are asked for again, so that they are worth a place in the Z-zone.
    for (uint64_t i = 0; i < 30000; ++i) {
      cache->Put(std::to_string(i), Text(i, 120));
      cache->Get(std::to_string(i), nullptr);
    }
    // Twice each, so that those in the Z-zone go back.
    for (uint64_t i = 0; i < 30000; ++i) {
      for (int round = 0; round < 3; ++round) {
        if (cache->Get(std::to_string(i), &value) == ResultCache::Answer::kValue) {
          EXPECT_EQ(value, Text(i, 120));
        }
      }
    }
    const ResultCache::Statistics s = cache->GetStatistics();
    EXPECT_LE(s.memory, options.capacity);
    if (compression != Compression::kNone) {
      EXPECT_GT(s.z_hits, 0u);
      EXPECT_GT(s.promotions, 0u);
    }
    return s.items;
  };
  const uint64_t plain = items(Compression::kNone);
  EXPECT_GT(items(Compression::kLz4), plain * 12 / 10);
  EXPECT_GT(items(Compression::kZstd), plain * 14 / 10);
}

// Misses of Zipf 0.99 requests of a seed, a tenth of them writes, of both zones against those of an N-zone alone.
TEST(TwoZonesTest, ReplacementLosesLittleOfWhatCompressionGains) {
  constexpr uint64_t kItems = 60000;
  std::vector<double> sums(kItems);
  double sum = 0;
  for (uint64_t i = 0; i < kItems; ++i) sums[i] = sum += std::pow(static_cast<double>(i + 1), -0.99);
  const auto misses = [&](Compression compression) {
    ResultCacheOptions options;
    options.capacity = size_t{1} << 20;
    options.compression = compression;
    options.n_zone_requests = 0;
    options.n_zone_share = 0.2;
    options.hash_seed = 1;
    std::unique_ptr<ResultCache> cache;
    EXPECT_TRUE(ResultCache::Create(options, &cache).ok());
    std::mt19937_64 random(1);
    std::string value;
    uint64_t missed = 0;
    for (int request = 0; request < 300000; ++request) {
      const double at = static_cast<double>(random() >> 11) * 0x1p-53 * sum;
      const auto item = static_cast<uint64_t>(std::lower_bound(sums.begin(), sums.end(), at) - sums.begin());
      const std::string key = std::to_string(item);
      const bool write = random() % 10 == 0;
      if (!write && cache->Get(key, &value) != ResultCache::Answer::kMiss) continue;
      if (!write && request >= 100000) ++missed;
      cache->Put(key, "all of them have this at their beginning and what follows is " + Text(item, 60));
    }
    return static_cast<double>(missed);
  };
  const double alone = misses(Compression::kNone);
  const double with_z = misses(Compression::kLz4);
  printf("misses: %.0f alone, %.0f with a Z-zone: %.1f %% fewer\n", alone, with_z, 100 * (1 - with_z / alone));
  EXPECT_LT(with_z, alone * 0.74);
}

}  // namespace
}  // namespace cairn::cache
