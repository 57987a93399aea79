#include "cairn/cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "result_cache/get_or_begin.h"
#include "result_cache/per_thread.h"
#include "test/testutil/await.h"
#include "test/testutil/test_seed.h"
#include "util/mix64.h"

namespace cairn {
namespace {

using Answer = ResultCache::Answer;

// A value that tells its key and version, of a length that both decide.
std::string ValueOf(uint64_t key, uint64_t version, size_t max_bytes) {
  uint64_t state = key * 1000003 + version;
  std::string value = std::to_string(key) + ":" + std::to_string(version) + ":";
  const size_t bytes = NextSplitMix64(&state) % (max_bytes + 1);
  while (value.size() < bytes) value += static_cast<char>(NextSplitMix64(&state));
  return value;
}
uint64_t VersionOf(const std::string& value) { return std::strtoull(value.c_str() + value.find(':') + 1, nullptr, 10); }

// A cache with this path gets a file that nobody has a name for.
const char kOwnFile[] = "own file";

// Named option sets that every property is checked with.
struct Variant {
  const char* name;
  ResultCacheOptions options;
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  ResultCacheOptions options;
  options.max_capacity = size_t{1} << 28;
  variants.push_back({"two_queues", options});
  options.lossy = true;
  options.expected_item_bytes = 256;
  variants.push_back({"lossy", options});
  options.lossy = false;
  options.path = kOwnFile;
  variants.push_back({"file", options});
  options.path.clear();
  options.compression = ResultCacheOptions::Compression::kLz4;
  variants.push_back({"z_lz4", options});
  options.compression = ResultCacheOptions::Compression::kZstd;
  options.n_zone_share = 0.05;
  variants.push_back({"z_zstd", options});
  options.path = kOwnFile;
  variants.push_back({"z_zstd_file", options});
  return variants;
}

std::unique_ptr<ResultCache> NewCache(const ResultCacheOptions& given) {
  ResultCacheOptions options = given;
  if (options.path == kOwnFile) options.path = testing::TempDir() + "result_cache_test." + std::to_string(getpid());
  std::unique_ptr<ResultCache> cache;
  const IndexStatus status = ResultCache::Create(options, &cache);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!options.path.empty()) unlink(options.path.c_str());
  return cache;
}

class ResultCacheTest : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<ResultCache> New(size_t capacity) {
    ResultCacheOptions options = GetParam().options;
    options.capacity = capacity;
    return NewCache(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Zones, ResultCacheTest, testing::ValuesIn(Variants()),
                         [](const auto& variant) { return std::string(variant.param.name); });

TEST_P(ResultCacheTest, AnswersWhatWasPut) {
  const auto cache = New(8 << 20);
  std::string value;
  EXPECT_EQ(cache->Get("apple", &value), Answer::kMiss);
  EXPECT_TRUE(cache->Put("apple", "red"));
  EXPECT_EQ(cache->Get("apple", &value), Answer::kValue);
  EXPECT_EQ(value, "red");
  EXPECT_EQ(cache->Get("apple", nullptr), Answer::kValue);
  EXPECT_EQ(cache->Get("apple", &value, 7), Answer::kMiss) << "another space";
  EXPECT_TRUE(cache->Put("apple", "green, and longer than it was", 7));
  EXPECT_EQ(cache->Get("apple", &value, 7), Answer::kValue);
  EXPECT_EQ(value, "green, and longer than it was");
  EXPECT_TRUE(cache->PutAbsent("apple"));
  EXPECT_EQ(cache->Get("apple", &value), Answer::kAbsent);
  EXPECT_TRUE(cache->Erase("apple"));
  EXPECT_FALSE(cache->Erase("apple"));
  EXPECT_EQ(cache->Get("apple", &value), Answer::kMiss);
  const ResultCache::Statistics s = cache->GetStatistics();
  EXPECT_EQ(s.hits, 3u);
  EXPECT_EQ(s.absent_hits, 1u);
  EXPECT_EQ(s.misses, 3u);
  EXPECT_EQ(s.items, 1u);
}

TEST_P(ResultCacheTest, KeysAndValuesMayBeEmpty) {
  const auto cache = New(8 << 20);
  std::string value = "left over";
  EXPECT_TRUE(cache->Put("", ""));
  EXPECT_EQ(cache->Get("", &value), Answer::kValue);
  EXPECT_EQ(value, "");
  EXPECT_TRUE(cache->Put("", "x"));
  EXPECT_EQ(cache->Get("", &value), Answer::kValue);
  EXPECT_EQ(value, "x");
  EXPECT_EQ(cache->Get(std::string(1, '\0'), &value), Answer::kMiss);
  EXPECT_TRUE(cache->Put(std::string(8, '\0'), std::string(3, '\0')));
  EXPECT_EQ(cache->Get(std::string(8, '\0'), &value), Answer::kValue);
  EXPECT_EQ(value, std::string(3, '\0'));
  EXPECT_EQ(cache->Get(std::string(7, '\0'), &value), Answer::kMiss);
}

TEST_P(ResultCacheTest, AnyLengthComesBack) {
  const auto cache = New(64 << 20);
  std::string value;
  for (size_t key_bytes = 0; key_bytes < 40; ++key_bytes) {
    for (const size_t value_bytes : {0, 1, 7, 8, 9, 63, 64, 255, 256, 257, 1000, 5000, 20000, 70000}) {
      const std::string key(key_bytes, 'k');
      const std::string expected = ValueOf(key_bytes, value_bytes, value_bytes);
      ASSERT_TRUE(cache->Put(key, expected));
      ASSERT_EQ(cache->Get(key, &value), Answer::kValue);
      ASSERT_EQ(value, expected);
    }
  }
  for (const size_t key_bytes : {1000, 20000, 70000}) {
    const std::string key(key_bytes, 'k');
    ASSERT_TRUE(cache->Put(key, "v"));
    ASSERT_EQ(cache->Get(key, &value), Answer::kValue);
    ASSERT_EQ(value, "v");
    ASSERT_TRUE(cache->Erase(key));
    ASSERT_EQ(cache->Get(key, &value), Answer::kMiss);
  }
}

TEST_P(ResultCacheTest, HugeKeysAndValues) {
  const auto cache = New(230 << 20);
  const std::string huge(100 << 20, 'h');
  std::string value;
  ASSERT_TRUE(cache->Put("huge", huge));
  ASSERT_TRUE(cache->Put(huge, "of a huge key"));
  ASSERT_EQ(cache->Get("huge", &value), Answer::kValue);
  EXPECT_TRUE(value == huge);
  ASSERT_EQ(cache->Get(huge, &value), Answer::kValue);
  EXPECT_EQ(value, "of a huge key");
  // A third one takes the place of another.
  ASSERT_TRUE(cache->Put("huge2", huge));
  EXPECT_LE(cache->GetStatistics().memory, size_t{230} << 20);
  EXPECT_EQ(cache->Get("huge2", nullptr), Answer::kValue);
  // One that cannot fit takes nobody's, and its old answer is gone.
  const uint64_t items = cache->GetStatistics().items;
  ASSERT_TRUE(cache->Put("small", "s"));
  EXPECT_FALSE(cache->Put("small", std::string(231 << 20, 'x')));
  EXPECT_EQ(cache->Get("small", &value), Answer::kMiss);
  EXPECT_EQ(cache->GetStatistics().items, items);
}

TEST_P(ResultCacheTest, TinyCapacitiesAnswerOrMiss) {
  for (const size_t capacity : {0, 1, 1000, 4096, 10000, 20000, 30000, 50000, 100000}) {
    const auto cache = New(capacity);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < 2000; ++i) {
      const std::string key = std::to_string(i % 300);
      if (cache->Put(key, ValueOf(i % 300, i, 300))) {
        std::string value;
        // It may have been displaced at once, but not answer something else.
        if (cache->Get(key, &value) == Answer::kValue) {
          ASSERT_EQ(value, ValueOf(i % 300, i, 300));
          ++kept;
        }
      } else {
        ASSERT_EQ(cache->Get(key, nullptr), Answer::kMiss);
      }
    }
    if (capacity >= 50000) {
      EXPECT_GT(kept, 1900u) << capacity;
    }
    const uint64_t fixed = NewCache({})->GetStatistics().memory;
    EXPECT_LE(cache->GetStatistics().memory, std::max<uint64_t>(capacity, fixed)) << capacity;
  }
}

TEST_P(ResultCacheTest, NothingIsLostWhileThereIsRoom) {
  if (GetParam().options.lossy) GTEST_SKIP() << "a bucket may be full";
  const auto cache = New(32 << 20);
  constexpr uint64_t kKeys = 100000;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(cache->Put("key" + std::to_string(i), ValueOf(i, 0, 100)));
  std::string value;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_EQ(cache->Get("key" + std::to_string(i), &value), Answer::kValue) << i;
    ASSERT_EQ(value, ValueOf(i, 0, 100));
  }
  const ResultCache::Statistics s = cache->GetStatistics();
  EXPECT_EQ(s.items, kKeys);
  EXPECT_LT(s.index_bytes, kKeys * 11) << "buckets are seven eighths full";
}

TEST_P(ResultCacheTest, MultiGetAnswersAsGet) {
  const auto cache = New(4 << 20);
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("key" + std::to_string(i));
  for (int i = 0; i < 1000; i += 3) cache->Put(names[i], ValueOf(i, 1, 90));
  for (int i = 1; i < 1000; i += 3) cache->PutAbsent(names[i]);
  for (const size_t count : {0, 1, 2, 31, 32, 33, 1000}) {
    std::vector<std::string_view> keys(names.begin(), names.begin() + count);
    std::vector<std::string> values(count);
    std::vector<Answer> answers(count);
    cache->MultiGet(count, keys.data(), values.data(), answers.data());
    for (size_t i = 0; i < count; ++i) {
      std::string value;
      ASSERT_EQ(answers[i], cache->Get(keys[i], &value)) << i;
      if (answers[i] == Answer::kValue) {
        ASSERT_EQ(values[i], value);
      }
    }
    cache->MultiGet(count, keys.data(), nullptr, answers.data());
  }
}

TEST_P(ResultCacheTest, AnswersExpire) {
  std::atomic<uint64_t> now{1000};
  ResultCacheOptions options = GetParam().options;
  options.capacity = 1 << 20;
  options.clock = [&now] { return now.load(); };
  const auto cache = NewCache(options);
  ASSERT_TRUE(cache->Put("short", "s", 0, 10));
  ASSERT_TRUE(cache->PutAbsent("absent", 0, 20));
  ASSERT_TRUE(cache->Put("long", std::string(50000, 'l'), 0, 30));
  ASSERT_TRUE(cache->Put("forever", "f", 0, UINT64_MAX));
  now = 1009;
  EXPECT_EQ(cache->Get("short", nullptr), Answer::kValue);
  now = 1010;
  EXPECT_EQ(cache->Get("short", nullptr), Answer::kMiss);
  EXPECT_FALSE(cache->Erase("short"));
  EXPECT_EQ(cache->Get("absent", nullptr), Answer::kAbsent);
  now = 1020;
  EXPECT_EQ(cache->Get("absent", nullptr), Answer::kMiss);
  EXPECT_EQ(cache->Get("long", nullptr), Answer::kValue);
  now = 1030;
  EXPECT_EQ(cache->Get("long", nullptr), Answer::kMiss);
  now = uint64_t{1} << 60;
  EXPECT_EQ(cache->Get("forever", nullptr), Answer::kValue);
}

TEST_P(ResultCacheTest, AFillThatAWriterOvertookIsRefused) {
  const auto cache = New(1 << 20);
  auto ticket = cache->BeginFill("k");
  EXPECT_TRUE(cache->Fill(ticket, "k", "old"));
  cache->Bar("k");
  EXPECT_EQ(cache->Get("k", nullptr), Answer::kMiss);
  EXPECT_FALSE(cache->Fill(ticket, "k", "old"));
  const auto during = cache->BeginFill("k");
  EXPECT_FALSE(cache->Fill(during, "k", "old"));
  cache->Bar("k");
  cache->Unbar("k");
  EXPECT_FALSE(cache->Fill(cache->BeginFill("k"), "k", "old")) << "one of two writers is under way";
  cache->Unbar("k");
  EXPECT_FALSE(cache->Fill(ticket, "k", "old"));
  EXPECT_FALSE(cache->Fill(during, "k", "old"));
  EXPECT_FALSE(cache->Fill(ResultCache::FillTicket(), "k", "old"));
  EXPECT_EQ(cache->Get("k", nullptr), Answer::kMiss);
  ticket = cache->BeginFill("k");
  EXPECT_TRUE(cache->Fill(ticket, "k", "new"));
  EXPECT_TRUE(cache->Fill(ticket, "k", "new")) << "two readers";
  cache->BarAll();
  EXPECT_FALSE(cache->Fill(ticket, "k", "new"));
  EXPECT_FALSE(cache->FillAbsent(cache->BeginFill("other"), "other"));
  EXPECT_EQ(cache->Get("k", nullptr), Answer::kMiss);
  cache->UnbarAll();
  EXPECT_FALSE(cache->Fill(ticket, "k", "new"));
  EXPECT_TRUE(cache->FillAbsent(cache->BeginFill("k"), "k"));
  EXPECT_EQ(cache->Get("k", nullptr), Answer::kAbsent);
  ticket = cache->BeginFill("k");
  cache->Clear();
  EXPECT_EQ(cache->GetStatistics().items, 0u);
  EXPECT_FALSE(cache->FillAbsent(ticket, "k"));
}

TEST_P(ResultCacheTest, EveryByteIsCountedAndGivenBack) {
  std::atomic<int64_t> told{0};
  ResultCacheOptions options = GetParam().options;
  options.capacity = 6 << 20;
  options.memory_changed = [&told](int64_t change) { told += change; };
  {
    const auto cache = NewCache(options);
    const int64_t empty = told;
    for (uint64_t i = 0; i < 60000; ++i) {
      cache->Put("key" + std::to_string(i), ValueOf(i, 0, i % 100 == 0 ? 100000 : 100));
      if (i % 1000 == 0) {
        ASSERT_EQ(cache->GetStatistics().memory, static_cast<uint64_t>(told));
        ASSERT_LE(told, 6 << 20);
      }
    }
    EXPECT_GT(told, 5 << 20);
    EXPECT_GT(cache->GetStatistics().evictions, 0u);
    cache->Clear();
    if (!options.lossy) {
      EXPECT_LE(told, empty);  // less, if what the dictionary was trained on was given back
    }
    for (uint64_t i = 0; i < 60000; ++i) cache->Put("key" + std::to_string(i), ValueOf(i, 0, 100));
  }
  EXPECT_EQ(told, 0);
}

// In the log, apart from it, and beyond what a header of the log has room for.
TEST_P(ResultCacheTest, KeysOfAnyLengthMayBeAbsent) {
  const auto cache = New(32 << 20);
  std::string value;
  for (const size_t bytes : {0, 1, 100, 1000, 4000, 5000, 16000, 65535, 65536, 300000}) {
    const std::string key(bytes, 'k');
    for (int round = 0; round < 2; ++round) {
      EXPECT_TRUE(cache->PutAbsent(key)) << bytes;
      EXPECT_EQ(cache->Get(key, &value), Answer::kAbsent) << bytes;
      EXPECT_EQ(cache->Get(key, nullptr), Answer::kAbsent) << bytes;
      std::string_view view(key);
      Answer answer = Answer::kMiss;
      cache->MultiGet(1, &view, &value, &answer);
      EXPECT_EQ(answer, Answer::kAbsent) << bytes;
      EXPECT_TRUE(cache->Put(key, "")) << bytes;
      EXPECT_EQ(cache->Get(key, &value), Answer::kValue) << bytes;
      EXPECT_EQ(value, "") << bytes;
    }
    cache->Erase(key);
    cache->FillAbsent(cache->BeginFill(key), key, 5, 1000000);
    EXPECT_EQ(cache->Get(key, &value, 5), Answer::kAbsent) << bytes;
  }
}

// Of ghosts of an index that has never grown, too.
TEST_P(ResultCacheTest, WhatIsNearlyEmptyGivesBackAll) {
  std::atomic<int64_t> told{0};
  ResultCacheOptions options = GetParam().options;
  options.capacity = 1 << 20;
  options.memory_changed = [&told](int64_t change) { told += change; };
  auto cache = NewCache(options);
  EXPECT_TRUE(cache->Put("a", std::string(100, 'a')));
  EXPECT_EQ(cache->GetStatistics().memory, static_cast<uint64_t>(told));
  cache.reset();
  EXPECT_EQ(told, 0);
}

// However small items are said to be, its index leaves room for them.
TEST(LossyResultCacheTest, TheIndexLeavesRoom) {
  for (const size_t item_bytes : {0, 1, 10, 100, 100000}) {
    ResultCacheOptions options;
    options.capacity = 1 << 20;
    options.lossy = true;
    options.expected_item_bytes = item_bytes;
    const auto cache = NewCache(options);
    EXPECT_TRUE(cache->Put("a", "b")) << item_bytes;
    EXPECT_EQ(cache->Get("a", nullptr), Answer::kValue) << item_bytes;
    EXPECT_LE(cache->GetStatistics().memory, size_t{1} << 20) << item_bytes;
  }
}

TEST_P(ResultCacheTest, SetCapacityHoldsAtOnce) {
  const auto cache = New(16 << 20);
  std::string value;
  uint64_t version = 0;
  const uint64_t fixed = cache->GetStatistics().memory;
  for (const size_t capacity : {16 << 20, 4 << 20, 64 << 20, 1 << 20, 0, 8 << 20, 100000, 32 << 20}) {
    ASSERT_TRUE(cache->SetCapacity(capacity).ok());
    ASSERT_LE(cache->GetStatistics().memory,
              std::max<uint64_t>(capacity, fixed + (GetParam().options.lossy ? 1 << 20 : 16384)));
    ++version;
    for (uint64_t i = 0; i < 50000; ++i) cache->Put("key" + std::to_string(i), ValueOf(i, version, 200));
    ASSERT_LE(cache->GetStatistics().memory,
              std::max<uint64_t>(capacity, fixed + (GetParam().options.lossy ? 1 << 20 : 16384)));
    for (uint64_t i = 0; i < 50000; ++i) {
      if (cache->Get("key" + std::to_string(i), &value) == Answer::kValue) {
        ASSERT_EQ(value, ValueOf(i, version, 200));
      }
    }
  }
  EXPECT_GT(cache->GetStatistics().items, 49000u) << "32 MiB hold everything";
  EXPECT_FALSE(cache->SetCapacity((size_t{1} << 28) + 1).ok());
}

// The index shrinks beside the log, not after it.
TEST_P(ResultCacheTest, WhatShrinksKeepsWhatThereIsRoomFor) {
  if (GetParam().options.lossy) GTEST_SKIP() << "its index stays as it is";
  const auto fill = [](ResultCache* cache, uint64_t keys) {
    for (uint64_t i = 0; i < keys; ++i) cache->Put("key" + std::to_string(i), std::string(20, 'v'));
    return cache->GetStatistics().items;
  };
  const auto small = New(2 << 20);
  const uint64_t room = fill(small.get(), 200000);
  const auto cache = New(32 << 20);
  fill(cache.get(), 1000000);
  ASSERT_TRUE(cache->SetCapacity(2 << 20).ok());
  const ResultCache::Statistics s = cache->GetStatistics();
  EXPECT_LE(s.memory, size_t{2} << 20);
  // What sweeps of a Z-zone leave depends on more than room.
  const bool has_z_zone = GetParam().options.compression != ResultCacheOptions::Compression::kNone;
  EXPECT_GT(s.items, has_z_zone ? 0 : room / 2);
}

TEST_P(ResultCacheTest, AskedForItemsOutliveAScan) {
  const auto cache = New(4 << 20);
  const auto name = [](int i) { return "hot" + std::to_string(i); };
  for (int i = 0; i < 2000; ++i) cache->Put(name(i), std::string(100, 'h'));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2000; ++i) cache->Get(name(i), nullptr);
  }
  for (int i = 0; i < 100000; ++i) {
    cache->Put("scan" + std::to_string(i), std::string(100, 's'));
    if (i % 5 == 0) cache->Get(name(i / 5 % 2000), nullptr);
  }
  int kept = 0;
  for (int i = 0; i < 2000; ++i) kept += cache->Get(name(i), nullptr) == Answer::kValue ? 1 : 0;
  EXPECT_GT(kept, 1800);
}

// Whatever is done in whatever order, an answer is that of a map, or a miss.
TEST_P(ResultCacheTest, AgreesWithAMap) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int run = 0; run < 6; ++run) {
    std::atomic<uint64_t> now{1};
    ResultCacheOptions options = GetParam().options;
    options.capacity = size_t{1} << (14 + random() % 9);
    options.hash_seed = random();
    options.clock = [&now] { return now.load(); };
    const auto cache = NewCache(options);
    struct Expected {
      bool absent = false;
      std::string value;
      uint64_t expiry = UINT64_MAX;
    };
    std::map<std::pair<uint32_t, std::string>, Expected> model;
    const uint64_t keys = 1 + random() % 5000;
    uint64_t hits = 0;
    for (int op = 0; op < 40000; ++op) {
      std::string key = std::string(random() % 4 == 0 ? random() % 40 : 0, 'k') + std::to_string(random() % keys);
      // What lies apart because of its key, and what is longer than a header of the log says.
      if (random() % 40 == 0) key.insert(0, random() % 20 == 0 ? 70000 : 5 << 10, 'l');
      const auto space = static_cast<uint32_t>(random() % 2 * ResultCache::kMaxSpace);
      const uint64_t ttl = random() % 8 == 0 ? 1 + random() % 1000 : 0;
      const uint64_t expiry = ttl == 0 ? UINT64_MAX : now + ttl;
      switch (random() % 16) {
        case 0:
        case 1:
        case 2:
        case 3:
        case 4: {
          const std::string value = ValueOf(op, random() % 10, random() % 50 == 0 ? 40000 : 200);
          if (cache->Put(key, value, space, ttl)) {
            model[{space, key}] = {false, value, expiry};
          } else {
            model.erase({space, key});
          }
          break;
        }
        case 5:
          if (cache->PutAbsent(key, space, ttl)) {
            model[{space, key}] = {true, "", expiry};
          } else {
            model.erase({space, key});
          }
          break;
        case 6:
          cache->Erase(key, space);
          model.erase({space, key});
          break;
        case 7:
          cache->Bar(key, space);
          cache->Unbar(key);
          model.erase({space, key});
          break;
        case 8:
          now += random() % 20;
          break;
        case 9:
          if (random() % 500 == 0) {
            cache->Clear();
            model.clear();
          } else if (random() % 100 == 0) {
            ASSERT_TRUE(cache->SetCapacity(size_t{1} << (13 + random() % 10)).ok());
          }
          break;
        default: {
          std::string value;
          const Answer answer = cache->Get(key, &value, space);
          if (answer == Answer::kMiss) break;
          ++hits;
          const auto expected = model.find({space, key});
          ASSERT_TRUE(expected != model.end()) << key;
          ASSERT_GT(expected->second.expiry, now) << key;
          ASSERT_EQ(answer == Answer::kAbsent, expected->second.absent) << key;
          if (answer == Answer::kValue) {
            ASSERT_EQ(value, expected->second.value) << key;
          }
        }
      }
    }
    const ResultCache::Statistics s = cache->GetStatistics();
    EXPECT_LE(s.items - s.z_items, model.size());
    EXPECT_EQ(s.hits + s.absent_hits, hits);
    EXPECT_GT(hits, 0u);
  }
}

// Two writers and three readers beside each other for a while, and what the test wants beside them.
class Race {
 public:
  using Body = std::function<void(std::mt19937_64 random)>;  // until stop()

  bool stop() const { return stop_; }
  void Hit() { ++hits_; }
  void Fail() { ++failures_; }

  void Run(const Body& write, const Body& read, const std::function<void()>& beside = {}) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 2; ++i) threads.emplace_back(write, std::mt19937_64(i));
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back(read, std::mt19937_64(100 + i));
    if (beside) threads.emplace_back(beside);
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    EXPECT_TRUE(Await([this] { return hits_ > 0; }));
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures_, 0u);
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> hits_{0}, failures_{0};
};

// Several writers and readers on few keys: a reader sees no version older than one whose Put had returned, none that
// was not yet begun, and none older than it has seen itself; and values are whole.
TEST_P(ResultCacheTest, ThreadsSeeTheNewestOrNothing) {
  constexpr uint64_t kKeys = 40;
  const auto cache = New(100000);
  struct Truth {
    std::mutex writers;
    std::atomic<uint64_t> begun{0};
    std::atomic<uint64_t> done{0};
  };
  std::vector<Truth> truths(kKeys);
  Race race;
  const auto write = [&](std::mt19937_64 random) {
    while (!race.stop()) {
      const uint64_t key = random() % kKeys;
      Truth& truth = truths[key];
      const std::lock_guard<std::mutex> lock(truth.writers);
      const uint64_t version = ++truth.begun;
      const std::string name = "key" + std::to_string(key);
      switch (random() % 8) {
        case 0:
          cache->Erase(name);
          break;
        case 1:
          cache->Put(name, ValueOf(key, version, 30000));
          break;
        default:
          cache->Put(name, ValueOf(key, version, 600));
      }
      truth.done = version;
    }
  };
  const auto read = [&](std::mt19937_64 random) {
    std::vector<uint64_t> seen(kKeys, 0);
    std::string value;
    while (!race.stop()) {
      const uint64_t key = random() % kKeys;
      const uint64_t done = truths[key].done;
      if (cache->Get("key" + std::to_string(key), &value) != Answer::kValue) continue;
      const uint64_t begun = truths[key].begun;
      const uint64_t version = VersionOf(value);
      race.Hit();
      const bool whole = value == ValueOf(key, version, 600) || value == ValueOf(key, version, 30000);
      if (!whole || version < done || version > begun || version < seen[key]) race.Fail();
      seen[key] = version;
    }
  };
  race.Run(write, read, [&] {
    for (size_t i = 0; !race.stop(); ++i) {
      cache->SetCapacity(60000 + i % 7 * 30000);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
}

// A writer bars fills of its key in every space, because the space may change while it writes.
TEST_P(ResultCacheTest, BarsHoldInAllSpaces) {
  const auto cache = New(200000);
  std::atomic<uint32_t> space{ResultCache::kNoSpace};
  const auto before = cache->BeginFill("k");
  EXPECT_TRUE(cache->Unchanged(before));
  const uint32_t stripe = cache->Bar("k", space);
  EXPECT_FALSE(cache->Unchanged(before));
  EXPECT_FALSE(cache->Fill(before, "k", "old", 7));
  const auto during = cache->BeginFill("k");
  EXPECT_FALSE(cache->Unchanged(during));
  cache->UnbarStripe(stripe);
  EXPECT_FALSE(cache->Fill(during, "k", "old", 7));
  EXPECT_FALSE(cache->Fill(before, "k", "old", 7));

  ResultCache::FillTicket ticket;
  std::string value;
  EXPECT_EQ(cache->GetOrBegin("k", &value, 7, &ticket), Answer::kMiss);
  EXPECT_TRUE(cache->Fill(ticket, "k", "new", 7));
  EXPECT_EQ(cache->GetOrBegin("k", &value, 7, &ticket), Answer::kValue);
  EXPECT_EQ(value, "new");
  EXPECT_EQ(cache->Get("k", &value, 8), Answer::kMiss) << "of another space";
  EXPECT_TRUE(cache->Unchanged(ticket));
  space = 7;
  cache->UnbarStripe(cache->Bar("k", space));
  EXPECT_EQ(cache->Get("k", &value, 7), Answer::kMiss);
}

// The same above a store, as a database asks: bars by writers; whether a fill is admitted is decided before its ticket
// is taken, and it waits for a later read.
// There are more keys than room, and the room changes, so that keys come and go with their ghosts.
TEST_P(ResultCacheTest, FillsThatWaitNeverUndoAWriter) {
  constexpr uint64_t kKeys = 1000;
  const auto cache = New(100000);
  struct Stored {
    std::mutex writers;
    std::atomic<uint64_t> version{0};
    std::atomic<uint64_t> done{0};
  };
  std::vector<Stored> store(kKeys);
  // Half of what is done is done to a few.
  const auto draw = [](std::mt19937_64* random) {
    return (*random)() % 2 == 0 ? (*random)() % 20 : (*random)() % kKeys;
  };
  Race race;
  const auto write = [&](std::mt19937_64 random) {
    while (!race.stop()) {
      const uint64_t key = draw(&random);
      const std::string name = "key" + std::to_string(key);
      const std::lock_guard<std::mutex> lock(store[key].writers);
      const bool all = random() % 2000 == 0;
      all ? cache->BarAll() : cache->Bar(name);
      const uint64_t version = ++store[key].version;
      all ? cache->UnbarAll() : cache->Unbar(name);
      store[key].done = version;
      for (int i = 0; i < 20 && random() % 4 != 0; ++i) std::this_thread::yield();
    }
  };
  struct Waiting {
    ResultCache::FillTicket ticket;
    std::string name, value;
  };
  const auto read = [&](std::mt19937_64 random) {
    const size_t cell = cache::ThreadCell();
    std::string value;
    std::vector<Waiting> waiting;
    const auto fill_one = [&] {
      cache->Fill(waiting.front().ticket, waiting.front().name, waiting.front().value);
      waiting.erase(waiting.begin());
    };
    while (!race.stop()) {
      const uint64_t key = draw(&random);
      const std::string name = "key" + std::to_string(key);
      const uint64_t done = store[key].done;
      uint64_t hash = 0;
      if (cache::GetIn(cell, cache.get(), name, &value, 0, &hash) == Answer::kValue) {
        race.Hit();
        const uint64_t version = VersionOf(value);
        if (version < done || value != ValueOf(key, version, 100)) race.Fail();
        if (!waiting.empty()) fill_one();
        continue;
      }
      Waiting fill;
      if (!cache::BeginFillOf(cell, cache.get(), hash, 0, &fill.ticket)) continue;
      fill.name = name;
      fill.value = ValueOf(key, store[key].version, 100);
      if (waiting.size() == 4) fill_one();
      waiting.push_back(std::move(fill));
      if (random() % 4 == 0) std::this_thread::yield();
    }
  };
  race.Run(write, read, [&] {
    for (size_t i = 0; !race.stop(); ++i) {
      cache->SetCapacity(i % 50 == 49 ? 0 : 60000 + i % 7 * 30000);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  });
}

// A cache of 1 MiB that is full of items of 100 bytes.
std::unique_ptr<ResultCache> NewFullCache(uint32_t admit_one_fill_in) {
  ResultCacheOptions options;
  options.capacity = 1 << 20;
  options.hash_seed = 1;
  options.admit_one_fill_in = admit_one_fill_in;
  std::unique_ptr<ResultCache> cache = NewCache(options);
  for (int i = 0; i < 20000; ++i) EXPECT_TRUE(cache->Put("full" + std::to_string(i), std::string(100, 'f')));
  return cache;
}

int FillsStored(ResultCache* cache, int fills) {
  int stored = 0;
  for (int i = 0; i < fills; ++i) {
    const std::string key = "fill" + std::to_string(i);
    const bool filled = cache->Fill(cache->BeginFill(key), key, std::string(100, 'x'));
    std::string value;
    EXPECT_EQ(filled, cache->Get(key, &value) == Answer::kValue);
    stored += filled ? 1 : 0;
  }
  return stored;
}

TEST(ResultCacheAdmissionTest, AFullCacheStoresOneFillOfMany) {
  EXPECT_EQ(FillsStored(NewFullCache(1).get(), 4000), 4000);
  const std::unique_ptr<ResultCache> cache = NewFullCache(4);
  EXPECT_NEAR(FillsStored(cache.get(), 4000), 1000, 150);
  const ResultCache::Statistics statistics = cache->GetStatistics();
  EXPECT_NEAR(statistics.unadmitted_fills, 3000, 150);
  EXPECT_EQ(statistics.refused_fills, 0u);
}

TEST(ResultCacheAdmissionTest, WhoAsksBeforeDrawsOneLot) {
  const std::unique_ptr<ResultCache> cache = NewFullCache(4);
  int admitted = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string key = "fill" + std::to_string(i);
    ResultCache::FillTicket ticket = cache->BeginFill(key);
    if (!cache->Admit(&ticket, 0)) continue;
    ++admitted;
    EXPECT_TRUE(cache->Fill(ticket, key, std::string(100, 'x')));
  }
  EXPECT_NEAR(admitted, 1000, 150);
  EXPECT_EQ(cache->GetStatistics().unadmitted_fills, 4000u - static_cast<unsigned>(admitted));
}

TEST(ResultCacheAdmissionTest, WhatIsAdmittedIsStillBarred) {
  const std::unique_ptr<ResultCache> cache = NewFullCache(1);
  ResultCache::FillTicket before = cache->BeginFill("k");
  EXPECT_TRUE(cache->Admit(&before, 0));
  cache->Bar("k");
  ResultCache::FillTicket during = cache->BeginFill("k");
  EXPECT_FALSE(cache->Admit(&during, 0)) << "nothing could be filled";
  cache->Unbar("k");
  EXPECT_FALSE(cache->Fill(before, "k", "old"));
  EXPECT_EQ(cache->GetStatistics().refused_fills, 2u);
  ResultCache::FillTicket after = cache->BeginFill("k");
  EXPECT_TRUE(cache->Admit(&after, 0));
  EXPECT_TRUE(cache->Fill(after, "k", "new"));
}

TEST(ResultCacheAdmissionTest, WhileMemoryIsFreeAllAreStored) {
  ResultCacheOptions options;
  options.capacity = 4 << 20;
  options.admit_one_fill_in = 1000;
  EXPECT_EQ(FillsStored(NewCache(options).get(), 5000), 5000);
}

TEST(ResultCacheAdmissionTest, WhatWritersEraseIsWelcomeAgain) {
  const std::unique_ptr<ResultCache> cache = NewFullCache(1000000);
  int stored = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "popular" + std::to_string(i);
    ASSERT_TRUE(cache->Put(key, "old"));
    std::string value;
    ASSERT_EQ(cache->Get(key, &value), Answer::kValue);
    cache->Bar(key);
    cache->Unbar(key);
    stored += cache->Fill(cache->BeginFill(key), key, "new") ? 1 : 0;
  }
  EXPECT_GT(stored, 950) << "ghosts push out one another";
}

TEST(ResultCacheAdmissionTest, WhatWasEvictedIsWelcomeAgain) {
  const std::unique_ptr<ResultCache> cache = NewFullCache(1000000);
  int stored = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string key = "full" + std::to_string(i);
    std::string value;
    if (cache->Get(key, &value) != Answer::kMiss) continue;
    stored += cache->Fill(cache->BeginFill(key), key, "again") ? 1 : 0;
  }
  EXPECT_GT(stored, 1000);
}

TEST(ResultCacheOptionsTest, MostOfTheMemoryHoldsItems) {
  ResultCacheOptions options;
  options.capacity = 16 << 20;
  const auto cache = NewCache(options);
  for (uint64_t i = 0; i < 200000; ++i) cache->Put(std::to_string(1000000000000000 + i), std::string(134, 'v'));
  const ResultCache::Statistics s = cache->GetStatistics();
  EXPECT_GT(s.item_bytes * 100, s.capacity * 85);
  EXPECT_GT(s.memory * 100, s.capacity * 99);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
size_t ResidentBytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(getpagesize());
}

TEST(ResultCacheOptionsTest, ItTakesNoMoreMemoryThanItCounts) {
  for (const bool huge_pages : {false, true}) {
    SCOPED_TRACE(huge_pages);
    const size_t before = ResidentBytes();
    ResultCacheOptions options;
    options.capacity = size_t{128} << 20;
    options.huge_pages = huge_pages;
    const auto cache = NewCache(options);
    // What the process has for itself: pages that its heap keeps when a cache shrinks, 2.7 MiB seen.
    constexpr size_t kBeyond = size_t{4} << 20;
    for (int i = 0; i < 100000; ++i) ASSERT_TRUE(cache->Put(std::to_string(i), std::string(100, 'v')));
    EXPECT_LT(ResidentBytes(), before + cache->GetStatistics().memory + kBeyond);
    for (int i = 0; i < 1000000; ++i) ASSERT_TRUE(cache->Put(std::to_string(i), std::string(100, 'v')));
    EXPECT_LT(ResidentBytes(), before + cache->GetStatistics().memory + kBeyond);
    // On both sides of 64 MiB, where huge pages begin.
    for (const size_t mebibytes : {80, 8, 100}) {
      SCOPED_TRACE(mebibytes);
      ASSERT_TRUE(cache->SetCapacity(mebibytes << 20).ok());
      EXPECT_LT(ResidentBytes(), before + cache->GetStatistics().memory + kBeyond);
      for (int i = 0; i < 1000000; ++i) cache->Put(std::to_string(i), std::string(100, 'v'));
      EXPECT_LT(ResidentBytes(), before + cache->GetStatistics().memory + kBeyond);
      EXPECT_LE(cache->GetStatistics().memory, mebibytes << 20);
    }
  }
}
#endif

// Who asks for less and who asks for more at the same moment: the capacity is that of one of them, and it is kept.
TEST(ResultCacheOptionsTest, TwoThreadsResizeIt) {
  ResultCacheOptions options;
  options.capacity = size_t{100} << 20;
  const auto cache = NewCache(options);
  for (int round = 0; round < 300; ++round) {
    std::thread other([&] { ASSERT_TRUE(cache->SetCapacity(size_t{100} << 20).ok()); });
    ASSERT_TRUE(cache->SetCapacity(size_t{1} << 20).ok());
    other.join();
    const ResultCache::Statistics s = cache->GetStatistics();
    ASSERT_LE(s.memory, s.capacity) << "round " << round;
  }
}

TEST(ResultCacheOptionsTest, ContradictionsAreRefused) {
  ResultCacheOptions options;
  options.capacity = 1 << 20;
  options.max_capacity = 1 << 19;
  std::unique_ptr<ResultCache> cache;
  EXPECT_FALSE(ResultCache::Create(options, &cache).ok());
  EXPECT_EQ(cache, nullptr);
  options.max_capacity = SIZE_MAX / 2;
  const IndexStatus status = ResultCache::Create(options, &cache);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("max_capacity"), std::string::npos) << status.message();
}

TEST(ResultCacheOptionsTest, TheSeedMovesKeys) {
  // With one seed the same keys are displaced again; with two, others are.
  const auto kept = [](uint64_t seed) {
    ResultCacheOptions options;
    options.capacity = 1 << 20;
    options.hash_seed = seed;
    options.lossy = true;
    options.expected_item_bytes = 4096;
    const auto cache = NewCache(options);
    std::vector<bool> result;
    for (int i = 0; i < 4000; ++i) cache->Put(std::to_string(i), "v");
    for (int i = 0; i < 4000; ++i) result.push_back(cache->Get(std::to_string(i), nullptr) == Answer::kValue);
    return result;
  };
  EXPECT_EQ(kept(1), kept(1));
  EXPECT_NE(kept(1), kept(2));
}

}  // namespace
}  // namespace cairn
