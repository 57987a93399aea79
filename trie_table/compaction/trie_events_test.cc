// What listeners and LOG are told of a trie's compactions, in either order: as of RocksDB's own.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/key_trie_fixture.h"

namespace cairn {
namespace {

using rocksdb::CompactionReason;

// Checks that each compaction is told of in order: it begins, then its part, which ends before it.
class Events : public rocksdb::EventListener {
 public:
  struct Told {
    rocksdb::CompactionJobInfo begun, completed;
    std::string events;
  };

  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    EXPECT_NE(db, nullptr);
    const std::lock_guard<std::mutex> lock(mutex_);
    told_[info.job_id].begun = info;
    told_[info.job_id].events += "B";
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    EXPECT_NE(db, nullptr);
    const std::lock_guard<std::mutex> lock(mutex_);
    told_[info.job_id].completed = info;
    told_[info.job_id].events += "C";
  }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_[info.job_id].events += "b";
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    told_[info.job_id].events += "c";
  }

  std::map<int, Told> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(told_);
  }

 private:
  std::mutex mutex_;
  std::map<int, Told> told_;  // by job
};

class TrieEventsTest : public EitherOrderFixture {
 protected:
  TrieEventsTest() { options_.listeners.push_back(events_); }

  static void Check(const Events::Told& told) {
    EXPECT_EQ(told.events, "BbcC");
    const rocksdb::CompactionJobInfo& info = told.completed;
    EXPECT_OK(info.status);
    EXPECT_EQ(info.cf_name, "default");
    EXPECT_FALSE(info.input_files.empty());
    EXPECT_EQ(info.input_files, told.begun.input_files);
    EXPECT_EQ(info.base_input_level, told.begun.base_input_level);
    EXPECT_EQ(info.output_level, told.begun.output_level);
    EXPECT_EQ(info.compaction_reason, told.begun.compaction_reason);
    EXPECT_TRUE(told.begun.output_files.empty());
    EXPECT_EQ(info.stats.num_input_files, info.input_files.size());
    EXPECT_EQ(info.stats.num_output_files, info.output_files.size());
    EXPECT_GT(info.stats.num_input_records, 0u);
    EXPECT_GT(info.stats.total_output_bytes, 0u);
    EXPECT_EQ(info.stats.is_manual_compaction, info.compaction_reason == CompactionReason::kManualCompaction);
    for (const auto* files : {&info.input_files, &info.output_files}) {
      for (const std::string& file : *files) EXPECT_EQ(info.table_properties.count(file), 1u) << file;
    }
  }

  // How often LOG has a line with all of these.
  int LinesOfLog(const std::vector<std::string>& texts) {
    std::ifstream log(dir_ / "db/LOG");
    int lines = 0;
    for (std::string line; std::getline(log, line);) {
      bool all = true;
      for (const std::string& text : texts) all &= line.find(text) != std::string::npos;
      lines += all ? 1 : 0;
    }
    return lines;
  }

  const std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

TEST_P(TrieEventsTest, EachCompactionIsToldOf) {
  Open();
  for (uint64_t i = 0; i < 2 * kKeys; ++i) ASSERT_OK(db_->Put({}, Key(i * 7919 % kKeys), Value(i, 0)));
  Settle();
  TrieStats stats = Stats();
  std::map<int, Events::Told> all = events_->Take();
  EXPECT_EQ(all.size(),
            stats.root_compactions + stats.push_compactions + stats.merge_compactions + stats.split_compactions);
  std::map<CompactionReason, int> reasons;
  for (const auto& [job, told] : all) {
    Check(told);
    ++reasons[told.completed.compaction_reason];
  }
  EXPECT_EQ(reasons.count(CompactionReason::kManualCompaction), 0u);
  EXPECT_GT(reasons[CompactionReason::kLevelL0FilesNum], 0);
  EXPECT_LE(static_cast<uint64_t>(reasons[CompactionReason::kLevelL0FilesNum]), stats.root_compactions);
  for (const auto& [reason, count] : reasons) {
    const std::string text = rocksdb::GetCompactionReasonString(reason);
    EXPECT_EQ(LinesOfLog({"\"event\": \"compaction_started\"", "\"compaction_reason\": \"" + text + "\""}), count);
  }
  EXPECT_EQ(LinesOfLog({"\"event\": \"compaction_finished\""}), static_cast<int>(all.size()));

  rocksdb::CompactRangeOptions rewrite;
  rewrite.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_OK(db_->CompactRange(rewrite, nullptr, nullptr));
  uint64_t manual = 0;
  for (const auto& [job, told] : events_->Take()) {
    Check(told);
    manual += told.completed.compaction_reason == CompactionReason::kManualCompaction ? 1 : 0;
  }
  EXPECT_GT(manual, 0u);
}

// A program's own call of CompactFiles is told of as on a database without a trie: in parts only.
TEST_P(TrieEventsTest, CompactFilesOfAProgramAreNot) {
  Open();
  ASSERT_OK(db_->Put({}, Key(1), Value(1, 0)));
  ASSERT_OK(db_->Flush({}));
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 1u);
  ASSERT_OK(db_->CompactFiles({}, {files[0].name}, 0));
  for (const auto& [job, told] : events_->Take()) EXPECT_EQ(told.events, "bc");
}

INSTANTIATE_TEST_SUITE_P(Orders, TrieEventsTest, testing::Values("hash", "key"),
                         [](const auto& order) { return order.param; });

}  // namespace
}  // namespace cairn
