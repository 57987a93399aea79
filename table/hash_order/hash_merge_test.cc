#include "table/hash_order/hash_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "test/testutil/key_of_one_hash.h"
#include "util/rocksdb_names.h"
#include "util/vector_iterator.h"

namespace cairn {
namespace {

using Entry = std::pair<std::string, std::string>;  // internal key, value

constexpr uint64_t kSeed = 0;

std::string InternalKey(const std::string& user_key, uint64_t sequence) {
  std::string key;
  rocksdb::AppendInternalKey(&key, rocksdb::ParsedInternalKey(user_key, sequence, rocksdb::kTypeValue));
  return key;
}

// Fails behind its entry number `fails_behind`.
class FailingIterator : public rocksdb::VectorIterator {
 public:
  FailingIterator(std::vector<std::string> keys, std::vector<std::string> values, size_t fails_behind)
      : VectorIterator(std::move(keys), std::move(values)), fails_behind_(fails_behind) {}
  bool Valid() const override { return VectorIterator::Valid() && current_ <= fails_behind_; }
  Status status() const override {
    return current_ > fails_behind_ && VectorIterator::Valid() ? Status::Corruption("broken") : Status::OK();
  }

 private:
  const size_t fails_behind_;
};

class HashMergeTest : public ::testing::Test {
 protected:
  HashMergeTest() : comparator_(HashOrderComparator(HashKind::kXxh3, kSeed)), hash_(HashKind::kXxh3, kSeed) {}

  void Sort(std::vector<Entry>* entries) const {
    std::sort(entries->begin(), entries->end(),
              [this](const Entry& a, const Entry& b) { return comparator_.Compare(a.first, b.first) < 0; });
  }

  rocksdb::InternalIterator* NewInput(std::vector<Entry> entries) const {
    Sort(&entries);
    std::vector<std::string> keys, values;
    for (auto& [key, value] : entries) {
      keys.push_back(key);
      values.push_back(value);
    }
    return new rocksdb::VectorIterator(std::move(keys), std::move(values), &comparator_);
  }

  std::unique_ptr<rocksdb::InternalIterator> Merge(const std::vector<rocksdb::InternalIterator*>& inputs) {
    std::vector<rocksdb::InternalIterator*> copy = inputs;
    return std::unique_ptr<rocksdb::InternalIterator>(
        NewHashMergingIterator(&comparator_, hash_, copy.data(), copy.size(), [this] { ++ends_; }));
  }

  static std::vector<Entry> Rest(rocksdb::InternalIterator* merged) {
    std::vector<Entry> entries;
    for (; merged->Valid(); merged->Next()) entries.emplace_back(merged->key().ToString(), merged->value().ToString());
    return entries;
  }

  // The entries of all inputs: from the first on, and from some of them on.
  void ExpectMerged(const std::vector<std::vector<Entry>>& of_inputs) {
    std::vector<rocksdb::InternalIterator*> inputs;
    std::vector<Entry> all;
    for (const auto& entries : of_inputs) {
      inputs.push_back(NewInput(entries));
      all.insert(all.end(), entries.begin(), entries.end());
    }
    Sort(&all);
    const auto merged = Merge(inputs);
    EXPECT_FALSE(merged->Valid());
    merged->SeekToFirst();
    EXPECT_EQ(Rest(merged.get()), all);
    EXPECT_TRUE(merged->status().ok());
    for (size_t i = 0; i < all.size(); i += all.size() / 10 + 1) {
      merged->Seek(all[i].first);
      EXPECT_EQ(Rest(merged.get()), std::vector<Entry>(all.begin() + static_cast<ptrdiff_t>(i), all.end()));
    }
  }

  const rocksdb::InternalKeyComparator comparator_;
  const KeyHash hash_;
  int ends_ = 0;
};

TEST_F(HashMergeTest, GivesAllEntriesOfAnyNumberOfInputsInOrder) {
  std::mt19937 random(1);
  for (size_t count = 1; count <= 40; ++count) {
    std::vector<std::vector<Entry>> inputs(count);
    uint64_t sequence = 1;
    for (int i = 0; i < 300; ++i, ++sequence) {
      // Versions of some keys, in any input; some inputs stay empty.
      const std::string key = "key" + std::to_string(random() % 200) + std::string(random() % 20, 'x');
      inputs[random() % (count / 2 + 1)].emplace_back(InternalKey(key, sequence), std::to_string(sequence));
    }
    ExpectMerged(inputs);
  }
}

TEST_F(HashMergeTest, ComparesKeysOfOneHash) {
  std::vector<std::vector<Entry>> inputs(5);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(hash_(KeyOfOneHash(i)), hash_(KeyOfOneHash(0)));
    inputs[i * 7 % 5].emplace_back(InternalKey(KeyOfOneHash(i / 3), i + 1), std::to_string(i));
  }
  ExpectMerged(inputs);
}

TEST_F(HashMergeTest, GivesTheNewerInputsEntryFirstWhereBothAreTheSame) {
  const std::string key = InternalKey("key", 7);
  const auto merged = Merge({NewInput({{key, "newer"}}), NewInput({{key, "older"}}), NewInput({})});
  merged->SeekToFirst();
  EXPECT_EQ(Rest(merged.get()), (std::vector<Entry>{{key, "newer"}, {key, "older"}}));
}

TEST_F(HashMergeTest, EndsWhereAnInputFails) {
  std::vector<Entry> entries;
  for (int i = 0; i < 100; ++i) entries.emplace_back(InternalKey("key" + std::to_string(i), 1), "value");
  Sort(&entries);
  std::vector<std::string> keys, values;
  for (const auto& [key, value] : entries) {
    keys.push_back(key);
    values.push_back(value);
  }
  const auto merged = Merge({NewInput(entries), new FailingIterator(keys, values, 49), NewInput({})});
  merged->SeekToFirst();
  const size_t given = Rest(merged.get()).size();
  EXPECT_GE(given, 99u);
  EXPECT_LE(given, 100u);
  EXPECT_TRUE(merged->status().IsCorruption());
  EXPECT_FALSE(merged->Valid());
}

TEST_F(HashMergeTest, GoesForwardOnlyAndSaysWhenItEnds) {
  auto merged = Merge({NewInput({{InternalKey("key", 1), "value"}})});
  merged->SeekToFirst();
  ASSERT_TRUE(merged->Valid());
  merged->Prev();
  EXPECT_FALSE(merged->Valid());
  EXPECT_TRUE(merged->status().IsNotSupported());
  EXPECT_EQ(ends_, 0);
  merged.reset();
  EXPECT_EQ(ends_, 1);
}

}  // namespace
}  // namespace cairn
