// Filter questions of a MultiGet: what is read together, and that it changes no answer.

#include "trie_table/bloom_cluster/bloom_batch.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "rocksdb/perf_context.h"
#include "rocksdb/statistics.h"
#include "test/testutil/bloom_cluster_fixture.h"
#include "test/testutil/controlled_file_system.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

enum class Fault { kNone, kError, kErrorOfAll, kShort, kWrong, kSecondPage };

struct Control {
  void Reset() { *this = Control{direct, Fault::kNone, 0, 0, 0, 0, {}}; }

  bool direct = true;
  Fault fault = Fault::kNone;
  size_t reads = 0;        // single ones
  size_t multi_reads = 0;  // and the requests in them
  size_t requests = 0;
  size_t bytes = 0;
  std::set<std::pair<const void*, uint64_t>> pages;
};

class BatchedFile : public ControlledFile<Control> {
 public:
  using ControlledFile::ControlledFile;

  bool use_direct_io() const override { return control_->direct; }
  size_t GetRequiredBufferAlignment() const override { return kFilterPageBytes; }

  IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                rocksdb::IODebugContext* dbg) const override {
    ++control_->reads;
    if (control_->fault != Fault::kNone) return IOStatus::IOError("as ordered");
    return target()->Read(offset, n, options, result, scratch, dbg);
  }

  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const rocksdb::IOOptions& options,
                     rocksdb::IODebugContext* dbg) override {
    ++control_->multi_reads;
    control_->requests += count;
    if (control_->fault == Fault::kErrorOfAll) return IOStatus::IOError("as ordered");
    for (size_t i = 0; i < count; ++i) {
      rocksdb::FSReadRequest& request = requests[i];
      control_->bytes += request.len;
      for (uint64_t at = request.offset; at < request.offset + request.len; at += kFilterPageBytes) {
        EXPECT_TRUE(control_->pages.emplace(this, at).second) << "read twice";
      }
      request.status = ReadIntoScratch(request.offset, request.len, options, &request.result, request.scratch, dbg);
      if (control_->fault == Fault::kError) request.status = IOStatus::IOError("as ordered");
      if (control_->fault == Fault::kSecondPage && i == 1) request.status = IOStatus::IOError("as ordered");
      if (control_->fault == Fault::kShort) request.result = rocksdb::Slice(request.scratch, 100);
      if (control_->fault == Fault::kWrong) {
        for (size_t at = 50; at < request.len; at += kFilterPageBytes) request.scratch[at] ^= 1;
      }
    }
    return IOStatus::OK();
  }
};

// Residency, and whether files are read directly.
class BloomBatchTest : public BloomClusterTest, public ::testing::WithParamInterface<std::pair<FilterResidency, bool>> {
 protected:
  void SetUp() override {
    fs_ = std::make_shared<ControlledFileSystem<BatchedFile, Control>>(env_->GetFileSystem(), &control_);
    control_.direct = GetParam().second;
  }

  void Fill(FilterClusters clusters = FilterClusters::kAuto) {
    Use(GetParam().first, clusters);
    for (int level = 16; level > 4; --level) Add(Hashes(10000), level);
    cache_->EraseUnRefEntries();
    control_.Reset();
  }
  bool cached() const { return GetParam().first == FilterResidency::kCache; }

  // A batch of keys of which the filters' memory knows none: where it is empty, and no other batch had them.
  FilterBatch FreshBatch() {
    cache_->EraseUnRefEntries();
    control_.Reset();
    while (true) {
      const FilterBatch batch = Batch();
      const std::set<uint64_t> keys(std::begin(batch.hashes), std::end(batch.hashes));
      if (std::any_of(keys.begin(), keys.end(), [&](uint64_t key) { return asked_.count(key) != 0; })) continue;
      asked_.insert(keys.begin(), keys.end());
      return batch;
    }
  }

  Control control_;
  std::set<uint64_t> asked_;
};

INSTANTIATE_TEST_SUITE_P(All, BloomBatchTest,
                         ::testing::Values(std::make_pair(FilterResidency::kCache, true),
                                           std::make_pair(FilterResidency::kCache, false),
                                           std::make_pair(FilterResidency::kDisk, true),
                                           std::make_pair(FilterResidency::kDisk, false)));

TEST_P(BloomBatchTest, OneMultiReadForAColumn) {
  Fill();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    FilterBatch batch = Batch();
    cache_->EraseUnRefEntries();
    control_.Reset();
    rocksdb::get_perf_context()->Reset();
    const uint64_t reads_before = PageReads();
    std::vector<uint64_t> answers;
    for (auto table = open_.rbegin(); table != open_.rend(); ++table) {
      answers.push_back((*table)->filter->MayContainBatch(read_options_, &batch));
    }
    EXPECT_EQ(control_.multi_reads, 1u);
    EXPECT_EQ(control_.reads, 0u);
    const size_t pages = control_.pages.size();
    EXPECT_GE(pages, 10u);
    EXPECT_LE(pages, FilterBatch::kMaxKeys);
    EXPECT_LE(control_.requests, pages);
    EXPECT_EQ(PageReads() - reads_before, pages);
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    EXPECT_EQ(counts.filter_block_read_count, pages);
    EXPECT_EQ(counts.block_read_count, pages);
    EXPECT_EQ(counts.block_read_byte, pages * kFilterPageBytes);
    EXPECT_EQ(counts.bloom_sst_hit_count + counts.bloom_sst_miss_count, open_.size() * FilterBatch::kMaxKeys);
    // Answers are those of single questions; with a cache these find all pages there.
    control_.Reset();
    size_t i = 0;
    for (auto table = open_.rbegin(); table != open_.rend(); ++table) {
      EXPECT_EQ(answers[i++], Singly(**table, batch));
    }
    if (cached()) {
      EXPECT_EQ(control_.reads, 0u);
    }
  }
}

TEST_P(BloomBatchTest, CountsInStatistics) {
  const auto statistics = rocksdb::CreateDBStatistics();
  statistics_ = statistics.get();
  Fill();
  FilterBatch batch = Batch();
  uint64_t may = 0;
  for (const auto& table : open_) {
    may += static_cast<uint64_t>(__builtin_popcountll(table->filter->MayContainBatch(read_options_, &batch)));
  }
  const auto ticks = [&](rocksdb::Tickers ticker) { return statistics->getTickerCount(ticker); };
  EXPECT_EQ(ticks(rocksdb::BLOOM_FILTER_FULL_POSITIVE), may);
  EXPECT_EQ(ticks(rocksdb::BLOOM_FILTER_USEFUL), open_.size() * FilterBatch::kMaxKeys - may);
  const uint64_t pages = cached() ? control_.pages.size() : 0;
  EXPECT_EQ(ticks(rocksdb::BLOCK_CACHE_FILTER_MISS), pages);
  EXPECT_EQ(ticks(rocksdb::BLOCK_CACHE_FILTER_ADD), pages);
  EXPECT_EQ(ticks(rocksdb::BLOCK_CACHE_MISS), pages);
  EXPECT_EQ(ticks(rocksdb::BLOCK_CACHE_ADD), pages);
}

TEST_P(BloomBatchTest, WithoutClustersOneMultiReadATable) {
  Fill(FilterClusters::kNever);
  FilterBatch batch = Batch();
  for (const auto& table : open_) table->filter->MayContainBatch(read_options_, &batch);
  EXPECT_EQ(control_.multi_reads, open_.size());
  EXPECT_EQ(control_.reads, 0u);
  for (const auto& table : open_) {
    EXPECT_EQ(table->filter->MayContainBatch(read_options_, &batch), Singly(*table, batch));
  }
}

TEST_P(BloomBatchTest, WhatCannotBeReadMayBeThere) {
  Fill();
  for (const Fault fault : {Fault::kError, Fault::kErrorOfAll, Fault::kShort, Fault::kWrong}) {
    SCOPED_TRACE(static_cast<int>(fault));
    FilterBatch batch = FreshBatch();
    control_.fault = fault;
    const uint64_t bad_before = directory_->counters().bad_pages;
    const uint64_t reads_before = PageReads();
    EXPECT_EQ(open_.back()->filter->MayContainBatch(read_options_, &batch), batch.wanted);
    const uint64_t bad = directory_->counters().bad_pages - bad_before;
    EXPECT_GT(bad, 0u);
    EXPECT_LE(bad, PageReads() - reads_before);
    // Once the fault is gone so are the doubts.
    control_.Reset();
    for (const auto& table : open_) {
      EXPECT_EQ(table->filter->MayContainBatch(read_options_, &batch), Singly(*table, batch));
    }
  }
}

TEST_P(BloomBatchTest, OneBadPageSpoilsItsOwnAnswersOnly) {
  Fill();
  // The page that is spoiled may be one of keys that are in the table anyway.
  bool some_spoiled = false;
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE(round);
    FilterBatch batch = FreshBatch();
    control_.fault = Fault::kSecondPage;
    const uint64_t bad_before = directory_->counters().bad_pages;
    const uint64_t may = open_.back()->filter->MayContainBatch(read_options_, &batch);
    EXPECT_GT(directory_->counters().bad_pages, bad_before);
    control_.Reset();
    const uint64_t right = Singly(*open_.back(), batch);
    EXPECT_EQ(may & right, right) << "no wrong no";
    some_spoiled |= may != right;
    EXPECT_NE(may, batch.wanted);
  }
  EXPECT_TRUE(some_spoiled);
}

TEST_P(BloomBatchTest, CacheTierReadsNothing) {
  Fill();
  FilterBatch batch = Batch();
  read_options_.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_EQ(open_.back()->filter->MayContainBatch(read_options_, &batch), batch.wanted);
  EXPECT_EQ(control_.multi_reads + control_.reads, 0u);
  read_options_.read_tier = rocksdb::kReadAllTier;
  const uint64_t may = open_.back()->filter->MayContainBatch(read_options_, &batch);
  EXPECT_EQ(may, Singly(*open_.back(), batch));
  read_options_.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_EQ(open_.back()->filter->MayContainBatch(read_options_, &batch), may) << "it has just been found out";
}

TEST_P(BloomBatchTest, DoesNotFillTheCacheAgainstTheCallersWish) {
  Fill();
  FilterBatch batch = Batch();
  read_options_.fill_cache = false;
  const size_t before = cache_->GetUsage();
  open_.back()->filter->MayContainBatch(read_options_, &batch);
  EXPECT_EQ(cache_->GetUsage(), before);
  EXPECT_EQ(control_.multi_reads, 1u);
}

}  // namespace
}  // namespace cairn
