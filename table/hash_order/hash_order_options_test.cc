#include "table/hash_order/hash_order_options.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "cairn/silt.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

namespace cairn {
namespace {

constexpr const char* kOrders[] = {"comparator", "trie", "silt"};

// A column family in hash order, made so in each way that there is.
void InHashOrder(const std::string& how, ColumnFamilyOptions* options) {
  if (how == "comparator") options->comparator = HashOrderComparator(HashKind::kXxh3, 0);
  if (how == "trie") ASSERT_OK(UseTrie(options));
  if (how == "silt") ASSERT_OK(UseSilt(options));
}

// Options of a database whose default column family is in hash order.
Options HashOrdered(const std::string& how) {
  Options options;
  options.create_if_missing = true;
  InHashOrder(how, &options);
  if (how == "trie") EXPECT_OK(UseTrieCompaction(&options));
  if (how == "silt") EXPECT_OK(UseSiltMerges(&options));
  return options;
}

// Prefixes come to options after the engine, as from a program that has read an OPTIONS file.
void SetPrefixes(ColumnFamilyOptions* options) { options->prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(3)); }

class HashOrderOptionsTest : public testing::Test {
 protected:
  HashOrderOptionsTest() : path_(testing::TempDir() + "/hash_order_options_test_" + std::to_string(getpid())) {
    EXPECT_OK(rocksdb::DestroyDB(path_, Options()));
  }
  ~HashOrderOptionsTest() override { EXPECT_OK(rocksdb::DestroyDB(path_, Options())); }

  static void ExpectRefused(const Status& s, const std::string& family) {
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    EXPECT_NE(s.ToString().find("prefix_extractor"), std::string::npos) << s.ToString();
    EXPECT_NE(s.ToString().find(family), std::string::npos) << s.ToString();
    EXPECT_NE(s.ToString().find("nullptr"), std::string::npos) << s.ToString();
  }

  std::unique_ptr<rocksdb::DB> Open(const Options& options) {
    rocksdb::DB* db = nullptr;
    EXPECT_OK(rocksdb::DB::Open(options, path_, port::Into(&db)));
    return std::unique_ptr<rocksdb::DB>(db);
  }

  const std::string path_;
};

TEST_F(HashOrderOptionsTest, NoDatabaseIsOpenedWithPrefixes) {
  for (const std::string how : kOrders) {
    SCOPED_TRACE(how);
    Options options = HashOrdered(how);
    { const auto db = Open(options); }
    SetPrefixes(&options);
    rocksdb::DB* db = nullptr;
    ExpectRefused(rocksdb::DB::Open(options, path_, port::Into(&db)), "default");
    ExpectRefused(rocksdb::DB::OpenForReadOnly(options, path_, port::Into(&db)), "default");
    ExpectRefused(rocksdb::DB::OpenAsSecondary(options, path_, path_ + "/secondary", port::Into(&db)), "default");
    EXPECT_OK(rocksdb::DestroyDB(path_, Options()));
  }
}

// A range is what lies from the hash of its begin to that of its end, as for an iterator: of nothing, if that is
// before.
TEST_F(HashOrderOptionsTest, SizesAreOfRangesOfHashes) {
  for (const std::string how : {"comparator", "trie", "sst", "silt"}) {
    SCOPED_TRACE(how);
    Options options = HashOrdered(how == "sst" ? "silt" : how);
    if (how == "sst") {
      options = HashOrdered("comparator");
      HashTrieOptions trie;
      trie.format = "sst";
      ASSERT_OK(UseTrie(&options, trie));
    }
    options.compression = rocksdb::kNoCompression;
    ASSERT_OK(rocksdb::DestroyDB(path_, Options()));
    std::unique_ptr<rocksdb::DB> db = Open(options);
    ASSERT_NE(db, nullptr);
    const rocksdb::Comparator* const order = db->DefaultColumnFamily()->GetComparator();
    constexpr int kKeys = 8000;
    constexpr uint64_t kBytes = kKeys * 100;
    const auto key = [](int i) { return "key" + std::to_string(i); };
    const auto write = [&] {
      for (int i = 0; i < kKeys; ++i) ASSERT_OK(db->Put(rocksdb::WriteOptions(), key(i), std::string(93, 'v')));
    };
    const auto check = [&](const rocksdb::SizeApproximationOptions& sizing, rocksdb::DB* in) {
      std::vector<std::string> ends;
      for (int i = 0; i < kKeys; i += 100) ends.push_back(key(i));
      std::vector<rocksdb::Range> ranges;
      for (size_t i = 1; i < ends.size(); ++i) ranges.emplace_back(ends[i - 1], ends[i]);
      ranges.emplace_back(ends[0], ends[0]);
      std::vector<uint64_t> sizes(ranges.size(), 1);
      ASSERT_OK(in->GetApproximateSizes(sizing, in->DefaultColumnFamily(), ranges.data(),
                                        static_cast<int>(ranges.size()), sizes.data()));
      uint64_t sum = 0;
      for (size_t i = 0; i < ranges.size(); ++i) {
        ASSERT_LE(sizes[i], 2 * kBytes) << i;
        if (order->Compare(ranges[i].start, ranges[i].limit) >= 0) {
          ASSERT_EQ(sizes[i], 0u) << i;
        }
        sum += sizes[i];
        uint64_t count = 0, bytes = 0;
        in->GetApproximateMemTableStats(ranges[i], &count, &bytes);
        ASSERT_LE(count, static_cast<uint64_t>(kKeys)) << i;
        ASSERT_LE(bytes, 2 * kBytes) << i;
      }
      // Of two places at random, a half ascends, and these lie a third of all apart.
      EXPECT_GT(sum, kBytes * ranges.size() / 12);
      EXPECT_LT(sum, kBytes * ranges.size() / 3);
    };
    rocksdb::SizeApproximationOptions sizing;
    sizing.include_memtables = true;
    write();
    check(sizing, db.get());
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    sizing.include_memtables = false;
    check(sizing, db.get());
    ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    check(sizing, db.get());
    rocksdb::DB* reader = nullptr;
    ASSERT_OK(rocksdb::DB::OpenForReadOnly(options, path_, port::Into(&reader)));
    check(sizing, reader);
    delete reader;
    rocksdb::SizeApproximationOptions nothing;
    nothing.include_files = false;
    const rocksdb::Range range("a", "b");
    uint64_t size = 0;
    EXPECT_TRUE(db->GetApproximateSizes(nothing, db->DefaultColumnFamily(), &range, 1, &size).IsInvalidArgument());
  }
}

TEST_F(HashOrderOptionsTest, NoColumnFamilyIsAddedWithPrefixes) {
  for (const std::string how : kOrders) {
    for (const bool in_stock_database : {false, true}) {
      SCOPED_TRACE(how + (in_stock_database ? " in a database without Cairn" : ""));
      Options options = HashOrdered(how);
      if (in_stock_database) {
        options = Options();
        options.create_if_missing = true;
      }
      const auto db = Open(options);
      ColumnFamilyOptions family;
      InHashOrder(how, &family);
      SetPrefixes(&family);
      ColumnFamilyHandle* handle = nullptr;
      const Status s = db->CreateColumnFamily(family, "second", &handle);
      ExpectRefused(s, "second");
      EXPECT_OK(db->Close());
      EXPECT_OK(rocksdb::DestroyDB(path_, Options()));
    }
  }
}

TEST_F(HashOrderOptionsTest, PrefixesAreNotSetLater) {
  for (const std::string how : kOrders) {
    SCOPED_TRACE(how);
    const auto db = Open(HashOrdered(how));
    ExpectRefused(db->SetOptions({{"prefix_extractor", "fixed:3"}}), "default");
    ExpectRefused(db->SetOptions({{"prefix_extractor", "rocksdb.CappedPrefix.3"}}), "default");
    EXPECT_OK(db->SetOptions({{"prefix_extractor", "nullptr"}}));
    EXPECT_EQ(db->GetOptions().prefix_extractor, nullptr);
    EXPECT_OK(db->Close());
    EXPECT_OK(rocksdb::DestroyDB(path_, Options()));
  }
}

TEST_F(HashOrderOptionsTest, AColumnFamilyInKeyOrderBesideThemKeepsItsPrefixes) {
  const auto db = Open(HashOrdered("trie"));
  ColumnFamilyOptions family;
  SetPrefixes(&family);
  ColumnFamilyHandle* handle = nullptr;
  ASSERT_OK(db->CreateColumnFamily(family, "in key order", &handle));
  EXPECT_OK(db->SetOptions(handle, {{"prefix_extractor", "fixed:5"}}));
  EXPECT_OK(db->DestroyColumnFamilyHandle(handle));
  EXPECT_OK(db->Close());
}

// RocksDB's own object would let prefixes be set later.
TEST_F(HashOrderOptionsTest, ADatabaseWithoutCairnTakesNoColumnFamilyInHashOrder) {
  Options options;
  options.create_if_missing = true;
  const auto db = Open(options);
  for (const std::string how : kOrders) {
    SCOPED_TRACE(how);
    ColumnFamilyOptions family;
    InHashOrder(how, &family);
    ColumnFamilyHandle* handle = nullptr;
    EXPECT_TRUE(
        Says(db->CreateColumnFamily(family, "second", &handle), &Status::IsInvalidArgument, "among its descriptors"));
  }
  EXPECT_OK(db->Close());
}

}  // namespace
}  // namespace cairn
