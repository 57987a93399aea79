#include "msls/key_sample.h"

#include <gtest/gtest.h>

#include <set>

#include "test/testutil/golden_file.h"
#include "util/coding.h"
#include "util/hash.h"

namespace cairn {
namespace {

std::string Key(uint64_t i) {
  std::string key;
  rocksdb::PutFixed64(&key, i);
  return key;
}

std::string SampleOf(uint64_t begin, uint64_t end, size_t most) {
  SmallestHashes hashes(most);
  for (uint64_t i = begin; i < end; i++) hashes.Add(Key(i));
  return hashes.Encode();
}

TEST(KeySampleTest, HoldsTheSmallestHashesOfATable) {
  std::set<uint64_t> all;
  for (uint64_t i = 0; i < 5000; i++) all.insert(rocksdb::Hash64(Key(i).data(), 8));
  const std::string sample = SampleOf(0, 5000, 100);
  ASSERT_EQ(sample.size(), 8u * 101);
  auto expected = all.begin();
  for (size_t i = 0; i < 100; i++, ++expected) EXPECT_EQ(rocksdb::DecodeFixed64(sample.data() + 8 + 8 * i), *expected);
  EXPECT_EQ(rocksdb::DecodeFixed64(sample.data()), *std::prev(expected));  // the limit is the last of them
}

TEST(KeySampleTest, GoldenFile) {
  SmallestHashes hashes(3);
  for (const char* key : {"a", "b", "c", "d"}) hashes.Add(key);
  ExpectGolden("key_sample", hashes.Encode(), "msls");
}

TEST(KeySampleTest, OneKeyWithManyVersionsIsOneKey) {
  SmallestHashes hashes(100);
  for (int i = 0; i < 50; i++) hashes.Add(Key(7));
  hashes.Add(Key(8));
  EXPECT_EQ(hashes.Encode().size(), 8u * 3);
}

TEST(KeySampleTest, AWindowCountsTablesOfEachKey) {
  KeySampleWindow window;
  // Smaller than the sample: every key is in it.
  for (uint64_t table = 0; table < 4; table++) ASSERT_TRUE(window.Add(SampleOf(10 * table, 10 * table + 20, 100)));
  EXPECT_EQ(window.tables(), 4u);
  EXPECT_DOUBLE_EQ(window.share(), 1);
  EXPECT_EQ(window.keys(), 50u);
  EXPECT_EQ(window.KeysByTables(), (std::vector<double>{0, 20, 30, 0, 0}));
}

TEST(KeySampleTest, ALargeTableNarrowsTheWindow) {
  KeySampleWindow window;
  ASSERT_TRUE(window.Add(SampleOf(0, 50, 100)));
  ASSERT_TRUE(window.Add(SampleOf(0, 100000, 1000)));
  EXPECT_NEAR(window.share(), 0.01, 0.002);
  EXPECT_NEAR(static_cast<double>(window.keys()) / window.share(), 100000, 15000);  // of 1,000 keys: 3 % is usual
}

TEST(KeySampleTest, MemoryIsBounded) {
  KeySampleWindow window;
  for (uint64_t table = 0; table < 400; table++) {
    ASSERT_TRUE(window.Add(SampleOf(1000 * table, 1000 * table + 1000, 1024)));
    ASSERT_LE(window.keys(), 1u << 16);
  }
  EXPECT_EQ(window.tables(), 400u);
  EXPECT_NEAR(static_cast<double>(window.keys()) / window.share(), 400000, 15000);
}

TEST(KeySampleTest, DamagedSamplesAreRefused) {
  const std::string good = SampleOf(0, 50, 20);
  for (const std::string& bad : {std::string(), std::string(7, 'x'), good.substr(0, good.size() - 1),
                                 good + good.substr(8), std::string(8, '\0') + good.substr(8)}) {
    KeySampleWindow window;
    ASSERT_TRUE(window.Add(good));
    EXPECT_FALSE(window.Add(bad)) << bad.size();
    EXPECT_EQ(window.tables(), 1u);
    EXPECT_EQ(window.keys(), 20u);
  }
}

TEST(KeySampleTest, OnlyTablesOfLevelZero) {
  KeySampleFactory factory;
  rocksdb::TablePropertiesCollectorFactory::Context context(0, 0, 7, 0);
  std::unique_ptr<rocksdb::TablePropertiesCollector> collector(factory.CreateTablePropertiesCollector(context));
  EXPECT_NE(collector, nullptr);
  context.level_at_creation = 3;
  EXPECT_EQ(factory.CreateTablePropertiesCollector(context), nullptr);
}

}  // namespace
}  // namespace cairn
