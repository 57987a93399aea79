#include "trie_table/compaction/trie_partitioner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "rocksdb/convenience.h"
#include "rocksdb/options.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

TEST(TrieOptionsTest, OptionsInKeyOrderRoundTripThroughAString) {
  KeyTrieOptions trie;
  trie.root_trigger = 2;
  trie.scan_merge = 0.125;
  KeyTrieOptions parsed;
  parsed.space_bound = 2;
  ASSERT_TRUE(TrieOptionsFromString(TrieOptionsToString(trie), &parsed).ok());
  EXPECT_EQ(TrieOptionsToString(parsed), TrieOptionsToString(trie));
  EXPECT_EQ(parsed.scan_merge, 0.125);
  EXPECT_EQ(parsed.space_bound, trie.space_bound);
}

// What means nothing in the order that the text names is kept for the OPTIONS file.
TEST(TrieOptionsTest, TextHoldsTheOptionsOfBothOrders) {
  TrieOptionText text;
  ASSERT_TRUE(TrieOptionsFromString("order=key;scan_merge=0.125;grow_liveness=0.75;space_bound=1.25", &text).ok());
  EXPECT_EQ(text.key_order().scan_merge, 0.125);
  EXPECT_EQ(text.key_order().space_bound, 1.25);
  EXPECT_EQ(text.key_order().filter_bits, HashTrieOptions().filter_bits) << "an option string has one set of defaults";
  EXPECT_EQ(text.hash_order().grow_liveness, 0.75);
  EXPECT_TRUE(TrieOptionsFromString("order=key;bottommost_format=ect", &text).IsInvalidArgument());
  HashTrieOptions hash;
  EXPECT_TRUE(TrieOptionsFromString("order=key", &hash).IsInvalidArgument());
  EXPECT_TRUE(TrieOptionsFromString("order=hash;scan_merge=0.125", &hash).ok());
  KeyTrieOptions key;
  EXPECT_TRUE(TrieOptionsFromString("order=hash", &key).IsInvalidArgument());
  EXPECT_TRUE(TrieOptionsFromString("scan_merge=0.125", &key).ok());
  EXPECT_EQ(key.scan_merge, 0.125);
  EXPECT_EQ(key.fan_out, 16);
}

TEST(TrieOptionsTest, BadValuesAreNamedAndChangeNothing) {
  for (const char* text :
       {"fan_out=7", "fan_out=128", "slots=1", "trigger=1", "trigger=65", "depth=0", "depth=100", "root_trigger=0",
        "filter_bits=-1", "filter_bits=nan", "space_bound=1", "scan_merge=-1", "grow_liveness=2", "hash=md5",
        "format=html", "bottommost_format=sst", "fan_outs=8", "fan_out=eight", "slots"}) {
    HashTrieOptions trie;
    const rocksdb::Status s = TrieOptionsFromString(text, &trie);
    EXPECT_TRUE(s.IsInvalidArgument()) << text;
    EXPECT_EQ(TrieOptionsToString(trie), TrieOptionsToString(HashTrieOptions())) << text;
  }
}

TEST(TrieOptionsTest, LevelsAndDepths) {
  HashTrieOptions trie;
  trie.slots = 4;
  trie.trigger = 3;
  trie.depth = 3;
  EXPECT_EQ(TrieLevels(trie), 13);
  EXPECT_EQ(DepthOfLevel(trie, 0), 0);
  for (int depth = 1; depth <= 3; ++depth) {
    for (int level = FirstLevelOfDepth(trie, depth); level <= LastLevelOfDepth(trie, depth); ++level) {
      EXPECT_EQ(DepthOfLevel(trie, level), depth);
    }
  }
  EXPECT_EQ(LastLevelOfDepth(trie, 3), TrieLevels(trie) - 1);
}

TEST(ContainerMapTest, ChildrenShareTheirParentsPrefix) {
  const HashPrefixMap map(KeyHash(), 3);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t position = map.Position("key" + std::to_string(i));
    EXPECT_EQ(map.ContainerAt(position, 0), 0u);
    for (int depth = 0; depth < 10; ++depth) {
      const uint64_t parent = map.ContainerAt(position, depth);
      const uint64_t child = map.ContainerAt(position, depth + 1);
      EXPECT_EQ(map.Parent(child), parent);
      EXPECT_GE(child, map.FirstChild(parent));
      EXPECT_LT(child, map.FirstChild(parent) + 8);
    }
  }
}

TEST(TriePartitionerTest, CutsExactlyBetweenContainersOfTheOutputDepth) {
  HashTrieOptions trie;
  TriePartitionerFactory factory(trie);
  const HashPrefixMap map = ContainerMapOf(trie);
  std::vector<std::string> keys;
  for (int i = 0; i < 5000; ++i) keys.push_back("key" + std::to_string(i));
  std::sort(keys.begin(), keys.end(),
            [&](const std::string& a, const std::string& b) { return map.Position(a) < map.Position(b); });
  for (int depth = 0; depth <= 2; ++depth) {
    rocksdb::SstPartitioner::Context context;
    context.output_level = depth == 0 ? 0 : LastLevelOfDepth(trie, depth);
    auto partitioner = factory.CreatePartitioner(context);
    std::set<uint64_t> containers{map.ContainerAt(map.Position(keys[0]), depth)};
    size_t cuts = 0;
    for (size_t i = 1; i < keys.size(); ++i) {
      const rocksdb::Slice previous(keys[i - 1]);
      const rocksdb::Slice current(keys[i]);
      cuts += partitioner->ShouldPartition({previous, current, 0}) == rocksdb::kRequired;
      containers.insert(map.ContainerAt(map.Position(current), depth));
    }
    EXPECT_EQ(cuts + 1, containers.size()) << depth;
    EXPECT_EQ(containers.size(), size_t{1} << (3 * depth));
    EXPECT_EQ(partitioner->CanDoTrivialMove(keys.front(), keys.back()), depth == 0);
  }
}

TEST(TriePartitionerTest, ComesFromAnOptionStringAndGoesBackToOne) {
  rocksdb::ConfigOptions config;
  std::shared_ptr<rocksdb::SstPartitionerFactory> factory;
  ASSERT_TRUE(rocksdb::SstPartitionerFactory::CreateFromString(
                  config, "{id=cairn.TriePartitioner;fan_out=16;space_bound=1.2}", &factory)
                  .ok());
  auto* trie_factory = factory->CheckedCast<TriePartitionerFactory>();
  ASSERT_NE(trie_factory, nullptr);
  EXPECT_EQ(trie_factory->trie().fan_out, 16);
  EXPECT_EQ(trie_factory->trie().space_bound, 1.2);
  std::shared_ptr<rocksdb::SstPartitionerFactory> again;
  ASSERT_TRUE(rocksdb::SstPartitionerFactory::CreateFromString(config, factory->ToString(config), &again).ok());
  std::string mismatch;
  EXPECT_TRUE(again->AreEquivalent(config, factory.get(), &mismatch)) << mismatch;
  EXPECT_TRUE(rocksdb::SstPartitionerFactory::CreateFromString(config, "{id=cairn.TriePartitioner;fan_out=7}", &again)
                  .IsInvalidArgument());
  // In key order with an option that means nothing there, as OPTIONS files may have it.
  ASSERT_TRUE(rocksdb::SstPartitionerFactory::CreateFromString(
                  config, "{id=cairn.TriePartitioner;order=key;grow_liveness=0.75}", &again)
                  .ok());
  EXPECT_NE(again->ToString(config).find("grow_liveness=0.75"), std::string::npos) << again->ToString(config);
  EXPECT_NE(again->ToString(config).find("order=key"), std::string::npos) << again->ToString(config);
}

}  // namespace
}  // namespace cairn
