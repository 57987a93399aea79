#include "table/hash_order/batches.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/port/open_into.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"
#include "test/testutil/key_of_one_hash.h"

namespace cairn {
namespace {

constexpr uint64_t kSeed = 7;

// The default column family is by bytes, `one` and `two` in two hash orders.
class BatchOrderTest : public ::testing::Test {
 protected:
  BatchOrderTest() {
    rocksdb::Options options = test::BaseOptions();
    options.create_missing_column_families = true;
    std::vector<rocksdb::ColumnFamilyDescriptor> families = {
        {rocksdb::kDefaultColumnFamilyName, options}, {"one", Trie(kSeed)}, {"two", Trie(0)}};
    EXPECT_OK(rocksdb::DB::Open(options, dir_ / "db", families, &handles_, port::Into(&opened_)));
    db_.reset(opened_);
    by_bytes_ = handles_[0];
    one_ = handles_[1];
    two_ = handles_[2];
  }
  ~BatchOrderTest() override {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
  }

  static rocksdb::Options Trie(uint64_t seed) {
    rocksdb::Options options = test::BaseOptions();
    HashTrieOptions trie;
    trie.seed = seed;
    EXPECT_OK(UseTrie(&options, trie));
    return options;
  }

  // Sorts `keys`, of which key i is of family i modulo the number of `families`; what the keys are then.
  std::vector<std::string> Sorted(const std::vector<std::string>& keys,
                                  const std::vector<ColumnFamilyHandle*>& families, bool* sorted) {
    std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::KeyContext> contexts;
    contexts.reserve(keys.size());
    KeysOfBatch batch;
    for (size_t i = 0; i < keys.size(); ++i) {
      contexts.emplace_back(families[i % families.size()], slices[i], nullptr, nullptr, nullptr, nullptr);
      batch.push_back(&contexts.back());
    }
    *sorted = SortInHashOrder(batch.size(), &batch);
    std::vector<std::string> result;
    for (size_t i = 0; i < batch.size(); ++i) result.push_back(batch[i]->key->ToString());
    return result;
  }

  void ExpectSorted(std::vector<std::string> keys, ColumnFamilyHandle* family) {
    bool sorted = false;
    const std::vector<std::string> result = Sorted(keys, {family}, &sorted);
    EXPECT_TRUE(sorted);
    const rocksdb::Comparator* const order = family->GetComparator();
    std::sort(keys.begin(), keys.end(),
              [order](const std::string& a, const std::string& b) { return order->Compare(a, b) < 0; });
    EXPECT_EQ(result, keys);
  }

  std::vector<std::string> RandomKeys(size_t count) {
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) {
      std::string key(random_.Uniform(40), 0);
      for (char& c : key) c = static_cast<char>(random_.Next());
      keys.push_back(key);
    }
    return keys;
  }

  test::TempDir dir_;
  test::Random random_{test::SeedFromEnvironment()};
  rocksdb::DB* opened_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
  ColumnFamilyHandle* by_bytes_ = nullptr;
  ColumnFamilyHandle* one_ = nullptr;
  ColumnFamilyHandle* two_ = nullptr;
};

TEST_F(BatchOrderTest, SortsAsTheComparatorWould) {
  for (size_t count : {0, 1, 2, 31, 32, 33, 1000}) {
    SCOPED_TRACE(count);
    const std::vector<std::string> keys = RandomKeys(count);
    if (count == 0) continue;
    // Another thread knows no comparator yet.
    ExpectSorted(keys, one_);
    ExpectSorted(keys, two_);
    std::thread([&] { ExpectSorted(keys, one_); }).join();
  }
  // Of one hash, and twice the same.
  std::vector<std::string> keys;
  for (int i : {5, 3, 3, 9, 0, 5, 7, 1}) keys.push_back(KeyOfOneHash(static_cast<uint64_t>(i)));
  const KeyHash hash(HashKind::kXxh3, 0);
  ASSERT_EQ(hash(keys[0]), hash(keys[1]));
  ExpectSorted(keys, two_);
}

TEST_F(BatchOrderTest, LeavesOthersAlone) {
  const std::vector<std::string> keys = RandomKeys(20);
  bool sorted = true;
  EXPECT_EQ(Sorted(keys, {by_bytes_}, &sorted), keys);
  EXPECT_FALSE(sorted);
  EXPECT_EQ(Sorted(keys, {one_, two_}, &sorted), keys);
  EXPECT_FALSE(sorted);
  EXPECT_EQ(Sorted(keys, {one_, by_bytes_}, &sorted), keys);
  EXPECT_FALSE(sorted);
}

TEST_F(BatchOrderTest, MultiGetOverAllFamilies) {
  const std::vector<std::string> keys = RandomKeys(100);
  std::vector<ColumnFamilyHandle*> families;
  std::vector<Slice> slices;
  std::vector<std::string> expected;
  for (size_t i = 0; i < keys.size(); ++i) {
    families.push_back(handles_[i % 3]);
    slices.emplace_back(keys[i]);
    const std::string value = families[i]->GetName() + keys[i];
    // The same key may be asked twice; every third is absent, unless another is the same.
    if (i % 9 < 6) ASSERT_OK(db_->Put(rocksdb::WriteOptions(), families[i], keys[i], value));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    std::string value;
    const rocksdb::Status s = db_->Get(rocksdb::ReadOptions(), families[i], keys[i], &value);
    expected.push_back(s.ok() ? value : s.ToString());
  }
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db_->MultiGet(rocksdb::ReadOptions(), keys.size(), families.data(), slices.data(), values.data(), statuses.data());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(statuses[i].ok() ? values[i].ToString() : statuses[i].ToString(), expected[i]) << i;
  }
  for (ColumnFamilyHandle* family : handles_) {
    for (auto& value : values) value.Reset();
    db_->MultiGet(rocksdb::ReadOptions(), family, keys.size(), slices.data(), values.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (families[i] == family) {
        EXPECT_EQ(statuses[i].ok() ? values[i].ToString() : statuses[i].ToString(), expected[i]);
      }
    }
  }
}

}  // namespace
}  // namespace cairn
