#include "memtable_cache/key_order.h"

#include "db/memtable.h"
#include "gtest/gtest.h"
#include "memory/arena.h"
#include "memory/concurrent_arena.h"
#include "rocksdb/comparator.h"
#include "table/hash_order/hash_order.h"
#include "util/class_of.h"

namespace cairn {
namespace {

TEST(KeyOrderTest, KnowsTheOrdersOfRocksDBsMemTables) {
  const auto is_fast = [](const rocksdb::Comparator* user) {
    const rocksdb::MemTable::KeyComparator comparator((rocksdb::InternalKeyComparator(user)));
    return KeyOrder(comparator).Prefix("\x01key") != 0;
  };
  EXPECT_TRUE(is_fast(rocksdb::BytewiseComparator()));
  EXPECT_TRUE(is_fast(rocksdb::ReverseBytewiseComparator()));
  EXPECT_TRUE(is_fast(HashOrderComparator(HashKind::kXxh3, 7)));
  EXPECT_FALSE(is_fast(rocksdb::BytewiseComparatorWithU64Ts()));
}

// An application's, or a benchmark's.
class OwnKeyComparator : public rocksdb::MemTableRep::KeyComparator {
 public:
  int operator()(const char* a, const char* b) const override { return a < b ? -1 : a > b ? 1 : 0; }
  int operator()(const char* a, const rocksdb::Slice& b) const override { return rocksdb::Slice(a).compare(b); }
};

TEST(KeyOrderTest, TakesNoOtherForThem) {
  const OwnKeyComparator own;
  EXPECT_EQ(KeyOrder(own).Prefix("\x01key"), 0U);
  EXPECT_FALSE(KeyOrder(own).equal_means_same_bytes());
}

TEST(ClassOfTest, TellsArenasApart) {
  rocksdb::Arena arena, arena_example;
  rocksdb::ConcurrentArena concurrent, concurrent_example;
  rocksdb::Allocator* allocator = &arena;
  EXPECT_EQ(AsSameClassAs(&arena_example, allocator), &arena);
  EXPECT_EQ(AsSameClassAs(&concurrent_example, allocator), nullptr);
  allocator = &concurrent;
  EXPECT_EQ(AsSameClassAs(&arena_example, allocator), nullptr);
  EXPECT_EQ(AsSameClassAs(&concurrent_example, allocator), &concurrent);
}

// Any comparator may have any name; only those that Cairn made are in hash order.
class Impostor : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "cairn.HashOrder:xxh3:7"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override { return a.compare(b); }
  void FindShortestSeparator(std::string* /*start*/, const rocksdb::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

TEST(ClassOfTest, AHashOrderIsOneThatWasMade) {
  const rocksdb::Comparator* const made = HashOrderComparator(HashKind::kXxh3, 7);
  ASSERT_NE(HashOfComparator(made), nullptr);
  const Impostor impostor;
  ASSERT_STREQ(impostor.Name(), made->Name());
  EXPECT_EQ(HashOfComparator(&impostor), nullptr);
}

}  // namespace
}  // namespace cairn
