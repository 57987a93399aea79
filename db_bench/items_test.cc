#include "db_bench/items.h"
#include "test/testutil/expect_contains.h"
#include "util/rocksdb_names.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace cairn::bench {
namespace {

std::string Key(const ItemSource& items, uint64_t item) {
  std::string key;
  items.Key(item, &key);
  return key;
}

std::string Value(const ItemSource& items, uint64_t item, uint32_t version = 0) {
  std::string value;
  items.Value(item, version, &value);
  return value;
}

TEST(PackageIndex, OneItemAField) {
  std::istringstream text(
      "Package: a\nVersion: 1:2.0\nTag: one,\n two\nEmpty:\n"
      "\n"
      "Package: b\nVersion: 3\n");
  std::unique_ptr<ItemSource> items;
  ASSERT_TRUE(ReadPackageIndex(&text, &items).ok());
  ASSERT_EQ(items->count(), 6u);
  EXPECT_EQ(Key(*items, 0), "a/1:2.0/Package");
  EXPECT_EQ(Value(*items, 0), "a");
  EXPECT_EQ(Value(*items, 1), "1:2.0");
  EXPECT_EQ(Key(*items, 2), "a/1:2.0/Tag");
  EXPECT_EQ(Value(*items, 2), "one,\n two");
  EXPECT_EQ(Key(*items, 3), "a/1:2.0/Empty");
  EXPECT_EQ(Value(*items, 3), "");
  EXPECT_EQ(Key(*items, 5), "b/3/Version");
}

TEST(PackageIndex, OfEqualKeysTheLastStays) {
  std::istringstream text("Package: a\nVersion: 1\nSize: 5\n\nPackage: a\nVersion: 1\nSize: 6\n");
  std::unique_ptr<ItemSource> items;
  ASSERT_TRUE(ReadPackageIndex(&text, &items).ok());
  ASSERT_EQ(items->count(), 3u);
  EXPECT_EQ(Key(*items, 2), "a/1/Size");
  EXPECT_EQ(Value(*items, 2), "6");
  EXPECT_NE(items->Description().find("3 items with the key of a later one"), std::string::npos);
}

TEST(PackageIndex, WrongTextNamesItsLine) {
  std::unique_ptr<ItemSource> items;
  std::istringstream no_field("Package: a\nnonsense\n");
  EXPECT_TRUE(Says(ReadPackageIndex(&no_field, &items), &Status::IsCorruption, "line 2"));
  std::istringstream no_start(" continued\n");
  EXPECT_TRUE(ReadPackageIndex(&no_start, &items).IsCorruption());
  std::istringstream empty("");
  EXPECT_TRUE(ReadPackageIndex(&empty, &items).IsNotFound());
}

TEST(Tsv, KeysAndValues) {
  std::istringstream text("k1\tv1\nk2\tv2\twith tab\n\t\nk1\tv3\n");
  std::unique_ptr<ItemSource> items;
  ASSERT_TRUE(ReadTsv(&text, "x.tsv", &items).ok());
  ASSERT_EQ(items->count(), 3u);
  EXPECT_EQ(Key(*items, 0), "k2");
  EXPECT_EQ(Value(*items, 0), "v2\twith tab");
  EXPECT_EQ(Key(*items, 1), "");
  EXPECT_EQ(Value(*items, 2), "v3");
  std::istringstream wrong("k1\tv1\nk2 v2\n");
  Status s = ReadTsv(&wrong, "x.tsv", &items);
  EXPECT_NE(s.ToString().find("x.tsv, line 2"), std::string::npos) << s.ToString();
}

TEST(MadeUp, KeysAreDistinctAndSizesLikeThePackageIndex) {
  constexpr uint64_t kCount = 50000;
  std::unique_ptr<ItemSource> items = MakeUpItems(kCount);
  std::set<std::string> keys;
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
  for (uint64_t i = 0; i < kCount; i++) {
    std::string key = Key(*items, i);
    key_bytes += key.size();
    keys.insert(key);
    value_bytes += Value(*items, i).size();
    EXPECT_EQ(Value(*items, i, 1), Value(*items, i, 1));
  }
  EXPECT_EQ(keys.size(), kCount);
  EXPECT_NEAR(static_cast<double>(key_bytes) / kCount, 38, 4);    // 38.0 in the index
  EXPECT_NEAR(static_cast<double>(value_bytes) / kCount, 31, 4);  // 34.3 there, where a few are very large
}

TEST(StoredItems, AReplacedItemTakesAnotherText) {
  std::ostringstream text;
  for (int i = 0; i < 1000; i++) {
    text << "k" << i << "\tvalue" << i << "\n";
  }
  std::istringstream input(text.str());
  std::unique_ptr<ItemSource> items;
  ASSERT_TRUE(ReadTsv(&input, "x", &items).ok());
  int changed = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    changed += Value(*items, i, 1) != Value(*items, i, 0) ? 1 : 0;
    changed += Value(*items, i, 2) != Value(*items, i, 1) ? 1 : 0;
  }
  EXPECT_GT(changed, 1980);
}

}  // namespace
}  // namespace cairn::bench
