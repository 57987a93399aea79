#include "table/hash_order/hash_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/options.h"

namespace cairn {
namespace {

TEST(KeyHashTest, KnownValues) {
  // XXH3's published test vector for no input, and the digest of FIPS 180's "abc".
  EXPECT_EQ(KeyHash(HashKind::kXxh3, 0)(""), 0x2d06800538d394c2u);
  EXPECT_EQ(KeyHash(HashKind::kSha1, 0)("abc"), 0xa9993e364706816au);
  EXPECT_NE(KeyHash(HashKind::kXxh3, 1)("abc"), KeyHash(HashKind::kXxh3, 0)("abc"));
  EXPECT_NE(KeyHash(HashKind::kSha1, 1)("abc"), KeyHash(HashKind::kSha1, 0)("abc"));
}

TEST(HashOrderTest, OrdersByHashThenBytes) {
  const rocksdb::Comparator* comparator = HashOrderComparator(HashKind::kXxh3, 7);
  const KeyHash hash(HashKind::kXxh3, 7);
  std::vector<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back("key" + std::to_string(i));
  std::sort(keys.begin(), keys.end(),
            [&](const std::string& a, const std::string& b) { return comparator->Compare(a, b) < 0; });
  for (size_t i = 1; i < keys.size(); ++i) {
    EXPECT_LT(hash(keys[i - 1]), hash(keys[i]));
    EXPECT_GT(comparator->Compare(keys[i], keys[i - 1]), 0);
  }
  EXPECT_EQ(comparator->Compare("same", "same"), 0);
  EXPECT_TRUE(comparator->Equal("same", "same"));
}

TEST(HashOrderTest, NameHoldsHashAndSeedAndRoundTrips) {
  const rocksdb::Comparator* comparator = HashOrderComparator(HashKind::kSha1, UINT64_MAX);
  EXPECT_STREQ(comparator->Name(), "cairn.HashOrder:sha1:18446744073709551615");
  const rocksdb::Comparator* again = nullptr;
  ASSERT_TRUE(HashOrderComparatorFromName(comparator->Name(), &again).ok());
  EXPECT_EQ(again, comparator);
  ASSERT_TRUE(HashOrderComparatorFromName("cairn.HashOrder", &again).ok());
  EXPECT_EQ(SeedIsOpen(again), kDefaultSeed == kRandomSeed);
  EXPECT_TRUE(SeedIsOpen(OpenSeedComparator(HashKind::kXxh3)));
  EXPECT_FALSE(SeedIsOpen(HashOrderComparator(HashKind::kXxh3, SeedOrRandom(kRandomSeed))));
}

TEST(HashOrderTest, RefusesMalformedNames) {
  const rocksdb::Comparator* comparator = nullptr;
  for (const char* name : {"", "cairn.HashOrde", "cairn.HashOrder:", "cairn.HashOrder:md5:0",
                           "cairn.HashOrder:xxh3:", "cairn.HashOrder:xxh3:-1", "cairn.HashOrder:xxh3:1x",
                           "cairn.HashOrderly", "cairn.HashOrder:xxh3:18446744073709551616"}) {
    EXPECT_TRUE(HashOrderComparatorFromName(name, &comparator).IsInvalidArgument()) << name;
  }
  EXPECT_EQ(comparator, nullptr);
}

TEST(HashOrderTest, ComesFromAnOptionString) {
  rocksdb::ColumnFamilyOptions options;
  ASSERT_TRUE(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), rocksdb::ColumnFamilyOptions(),
                                                        "comparator=cairn.HashOrder:xxh3:42", &options)
                  .ok());
  EXPECT_EQ(options.comparator, HashOrderComparator(HashKind::kXxh3, 42));
  ASSERT_NE(HashOfComparator(options.comparator), nullptr);
  EXPECT_EQ(HashOfComparator(options.comparator)->seed(), 42u);
  EXPECT_EQ(HashOfComparator(rocksdb::BytewiseComparator()), nullptr);
}

}  // namespace
}  // namespace cairn
