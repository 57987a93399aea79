// The inputs of a trie's compactions are those that RocksDB would choose, without a copy of all files' descriptions.

#include "trie_table/compaction/compaction_inputs.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "db/column_family.h"
#include "db/compaction/compaction_picker.h"
#include "db/db_impl/db_impl.h"
#include "gtest/gtest.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/rocksdb_own.h"
#include "test/support.h"
#include "test/testutil/test_seed.h"

namespace cairn::test {
namespace {

using rocksdb::CompactionInputFiles;
using rocksdb::FileMetaData;

class CompactionInputsTest : public ::testing::TestWithParam<const char*> {
 protected:
  CompactionInputsTest() : random_(Seed()), options_(OptionsOf(*FindEngine(GetParam()))) {}

  void SetUp() override {
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db)));
    db_.reset(db);
    for (int i = 0; i < 60000; ++i) {
      ASSERT_OK(db_->Put(rocksdb::WriteOptions(), "key" + std::to_string(random_() % 20000), std::string(50, 'v')));
      // Compactions that are behind leave fewer tables.
      if (i % 1000 == 999) ASSERT_OK(WaitForTrieCompaction(db_.get()));
    }
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(WaitForTrieCompaction(db_.get()));
    // What moves on while the same question is asked twice would be no difference.
    ASSERT_OK(db_->PauseBackgroundWork());
  }
  void TearDown() override { ASSERT_OK(db_->ContinueBackgroundWork()); }

  struct Answer {
    Status status;
    std::vector<std::pair<int, std::vector<uint64_t>>> inputs;
  };
  static Answer AnswerOf(Status status, const std::vector<CompactionInputFiles>& inputs) {
    Answer answer{std::move(status), {}};
    if (!answer.status.ok()) return answer;
    for (const CompactionInputFiles& level : inputs) {
      answer.inputs.emplace_back(level.level, std::vector<uint64_t>());
      for (const FileMetaData* file : level.files) answer.inputs.back().second.push_back(file->fd.GetNumber());
    }
    return answer;
  }

  std::mt19937_64 random_;
  const TempDir dir_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_P(CompactionInputsTest, AreThoseThatRocksDBChooses) {
  auto* const impl = static_cast<rocksdb::DBImpl*>(db_->GetRootDB());
  rocksdb::ColumnFamilyData* const family =
      static_cast<rocksdb::ColumnFamilyHandleImpl*>(db_->DefaultColumnFamily())->cfd();
  const rocksdb::InstrumentedMutexLock lock(impl->mutex());
  rocksdb::Version* const version = family->current();
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  std::vector<std::pair<int, FileMetaData*>> all;
  for (int level = 0; level < storage.num_levels(); ++level) {
    for (FileMetaData* file : storage.LevelFiles(level)) all.emplace_back(level, file);
  }
  ASSERT_GT(all.size(), 30u);
  ASSERT_GT(all.back().first, 3);
  int chosen = 0;
  int refused = 0;
  int widened = 0;
  for (int i = 0; i < 5000; ++i) {
    // Neighbours of a file by level and place, or any.
    const size_t first = random_() % all.size();
    std::unordered_set<uint64_t> files;
    int deepest = 0;
    for (size_t n = 1 + random_() % 6; n > 0; --n) {
      const size_t at = random_() % 4 == 0 ? random_() % all.size() : std::min(first + random_() % 8, all.size() - 1);
      files.insert(all[at].second->fd.GetNumber());
      deepest = std::max(deepest, all[at].first);
    }
    if (random_() % 50 == 0) files.insert(1000000);
    const int output_level = random_() % 10 == 0
                                 ? static_cast<int>(random_() % static_cast<uint64_t>(storage.num_levels() + 2)) - 1
                                 : std::min(deepest + static_cast<int>(random_() % 8), storage.num_levels() - 1);
    FileMetaData* const busy = random_() % 3 == 0 ? all[random_() % all.size()].second : nullptr;
    if (busy != nullptr) busy->being_compacted = true;
    std::unordered_set<uint64_t> ours = files;
    std::unordered_set<uint64_t> theirs = files;
    std::vector<CompactionInputFiles> inputs;
    std::vector<CompactionInputFiles> expected_inputs;
    const rocksdb::CompactionPicker* const picker = family->compaction_picker();
    const Answer answer =
        AnswerOf(picker->SanitizeAndConvertCompactionInputFiles(&ours, output_level, version, &inputs), inputs);
    const Answer expected = AnswerOf(
        rocksdb_own::ChooseCompactionInputs(picker, &theirs, output_level, version, &expected_inputs), expected_inputs);
    if (busy != nullptr) busy->being_compacted = false;
    ASSERT_EQ(answer.status.ok(), expected.status.ok())
        << answer.status.ToString() << " for " << expected.status.ToString() << ", output level " << output_level;
    ASSERT_EQ(answer.inputs, expected.inputs) << "output level " << output_level;
    size_t taken = 0;
    for (const auto& level : answer.inputs) taken += level.second.size();
    chosen += answer.status.ok();
    refused += !answer.status.ok();
    widened += taken > files.size();
  }
  EXPECT_GT(chosen, 500);
  EXPECT_GT(refused, 100);
  EXPECT_GT(widened, 100);
}

INSTANTIATE_TEST_SUITE_P(Engines, CompactionInputsTest, ::testing::Values("trie_tiny", "trie_htable", "ordered_trie"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace cairn::test
