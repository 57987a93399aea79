// Keys of one hash, as somebody makes them who knows the seed: every operation takes a logarithm of them, nothing
// fails, and compaction comes to an end.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"
#include "test/testutil/key_of_one_hash.h"

namespace cairn {
namespace {

using test::TempDir;

constexpr uint64_t kSeed = 0;
constexpr int kKeys = 20000;

// Even numbers are there.
std::string Present(int i) { return KeyOfOneHash(2 * static_cast<uint64_t>(i)); }
std::string Absent(int i) { return KeyOfOneHash(2 * static_cast<uint64_t>(i) + 1); }
std::string Value(int i, int version) {
  return std::to_string(i) + " " + std::to_string(version) + std::string(90, 'v');
}

struct Engine {
  const char* name;
  const char* format;
  const char* bottommost;  // null: SILT
  bool sub_memtables;
  EctIndexResidency residency;
};

class EqualHashTest : public ::testing::TestWithParam<Engine> {
 protected:
  void Open() {
    Options options = test::BaseOptions();
    options.write_buffer_size = 256 << 10;
    if (GetParam().sub_memtables) options.memtable_factory = NewSubMemTableFactory(SubMemTableOptions());
    if (GetParam().bottommost == nullptr) {
      SiltOptions silt;
      silt.seed = kSeed;
      silt.table.index_residency = GetParam().residency;
      ASSERT_OK(UseSilt(&options, silt));
    } else {
      HashTrieOptions trie;
      trie.seed = kSeed;
      trie.format = GetParam().format;
      trie.bottommost_format = GetParam().bottommost;
      trie.root_trigger = 2;
      ASSERT_OK(UseTrie(&options, trie));
    }
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(options, dir_ / "db", &db));
    db_.reset(db);
  }

  // Blocks that an operation looks into, wherever they are.
  template <class Operation>
  uint64_t Blocks(const Operation& operation) {
    rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    rocksdb::get_perf_context()->Reset();
    operation();
    const rocksdb::PerfContext* const context = rocksdb::get_perf_context();
    comparisons_ = context->user_key_comparison_count;
    return context->block_cache_hit_count + context->block_read_count;
  }

  uint64_t Files() {
    rocksdb::ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(&meta);
    return meta.file_count;
  }

  void Check(int version) {
    const uint64_t files = Files();
    // Two for a filter and an index, and a binary search for the block, in each table.
    const uint64_t blocks = files * (2 + 2 * static_cast<uint64_t>(std::log2(kKeys)));
    const uint64_t comparisons = (files + 10) * 4 * static_cast<uint64_t>(std::log2(kKeys));
    std::string value;
    for (int i : {0, 1, kKeys / 3, kKeys / 2, kKeys - 1}) {
      EXPECT_LE(Blocks([&] { ASSERT_OK(db_->Get(ReadOptions(), Present(i), &value)); }), blocks);
      EXPECT_LE(comparisons_, comparisons);
      EXPECT_EQ(value, Value(i, version));
      EXPECT_LE(Blocks([&] { EXPECT_TRUE(db_->Get(ReadOptions(), Absent(i), &value).IsNotFound()); }), blocks);
      EXPECT_LE(comparisons_, comparisons);
      std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(ReadOptions()));
      EXPECT_LE(Blocks([&] { iterator->Seek(Absent(i)); }), blocks);
      EXPECT_LE(comparisons_, comparisons);
      ASSERT_OK(iterator->status());
      ASSERT_EQ(iterator->Valid(), i + 1 < kKeys);
      if (iterator->Valid()) {
        EXPECT_EQ(iterator->key(), Present(i + 1));
      }
      EXPECT_LE(Blocks([&] { iterator->SeekForPrev(Absent(i)); }), blocks);
      ASSERT_TRUE(iterator->Valid()) << iterator->status().ToString();
      EXPECT_EQ(iterator->key(), Present(i));
    }
    std::vector<std::string> keys;
    for (int i = 0; i < 50; ++i) keys.push_back(i % 2 == 0 ? Present(i * 100) : Absent(i * 100));
    const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
    std::vector<std::string> values;
    const auto statuses = db_->MultiGet(ReadOptions(), slices, &values);
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(statuses[static_cast<size_t>(i)].ok(), i % 2 == 0) << statuses[static_cast<size_t>(i)].ToString();
    }
    const std::unique_ptr<rocksdb::Iterator> scan(db_->NewIterator(ReadOptions()));
    int found = 0;
    for (scan->SeekToFirst(); scan->Valid(); scan->Next(), ++found) ASSERT_EQ(scan->key(), Present(found));
    ASSERT_OK(scan->status());
    EXPECT_EQ(found, kKeys);
    for (scan->SeekToLast(); scan->Valid(); scan->Prev()) ASSERT_EQ(scan->key(), Present(--found));
    ASSERT_OK(scan->status());
    EXPECT_EQ(found, 0);
  }

  TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
  uint64_t comparisons_ = 0;
};

TEST_P(EqualHashTest, EverythingIsLogarithmic) {
  const KeyHash hash(HashKind::kXxh3, kSeed);
  ASSERT_EQ(hash(KeyOfOneHash(1)), hash(KeyOfOneHash(123456)));
  Open();
  for (int version = 0; version < 3; ++version) {
    // Neither in order nor against it.
    for (int i = 0; i < kKeys; ++i) {
      const int key = static_cast<int>(i * 7919LL % kKeys);
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), Present(key), Value(key, version)));
    }
    std::string value;
    ASSERT_OK(db_->Get(ReadOptions(), Present(kKeys - 1), &value));
    if (version == 0) ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    Check(version);
  }
  rocksdb::WaitForCompactOptions wait;
  wait.flush = true;
  ASSERT_OK(db_->WaitForCompact(wait));
  Check(2);
  ASSERT_OK(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  Check(2);
  db_.reset();
  Open();
  Check(2);
  ASSERT_OK(db_->VerifyChecksum());
}

INSTANTIATE_TEST_SUITE_P(
    Engines, EqualHashTest,
    ::testing::Values(Engine{"trie_sst", "sst", "same", false, EctIndexResidency::kPinned},
                      Engine{"trie_htable", "htable", "same", true, EctIndexResidency::kPinned},
                      Engine{"trie_htable_ect", "htable", "ect", false, EctIndexResidency::kPinned},
                      Engine{"silt", nullptr, nullptr, true, EctIndexResidency::kPinned},
                      Engine{"silt_dropped", nullptr, nullptr, false, EctIndexResidency::kDropped}),
    [](const auto& engine) { return std::string(engine.param.name); });

}  // namespace
}  // namespace cairn
