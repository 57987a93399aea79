// MultiGet over several tables: what is read together, what is hinted at, and that it changes no answer.

#include "trie_table/htable/htable_read_ahead.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/htable.h"
#include "cairn/ordered.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "env/composite_env_wrapper.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "table/ect/hash_order_table.h"
#include "test/testutil/controlled_file_system.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

using rocksdb::FSReadRequest;
using rocksdb::IOStatus;

enum class Reads { kDirect, kBuffered };
enum class Fault { kNone, kError, kShort, kWrong, kRefused };

// What the file system below is asked to do, and has done. Tables are opened in the background, too.
struct Control {
  void Reset() {
    reads = Reads::kDirect;
    slow = false;
    fault = Fault::kNone;
    plain_reads = 0;
    multi_reads = 0;
    polls = 0;
    hints = 0;
    started = 0;
    most_at_once = 0;
  }

  std::atomic<Reads> reads{Reads::kDirect};
  std::atomic<bool> slow{false};
  std::atomic<Fault> fault{Fault::kNone};
  std::atomic<size_t> plain_reads{0};  // single ones, and those of multi_reads
  std::atomic<size_t> multi_reads{0};
  std::atomic<size_t> polls{0};
  std::atomic<size_t> hints{0};
  std::atomic<size_t> started{0};
  std::atomic<size_t> most_at_once{0};
};

// The reads that this thread has started, by their handles; it polls them itself.
std::map<void*, std::function<void()>>& UnderWay() {
  static thread_local std::map<void*, std::function<void()>> reads;
  return reads;
}

class AsyncFile : public ControlledFile<Control> {
 public:
  using ControlledFile::ControlledFile;

  bool use_direct_io() const override { return control_->reads == Reads::kDirect; }

  IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                rocksdb::IODebugContext* dbg) const override {
    ++control_->plain_reads;
    if (control_->slow) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return target()->Read(offset, n, options, result, scratch, dbg);
  }

  IOStatus MultiRead(FSReadRequest* requests, size_t count, const rocksdb::IOOptions& options,
                     rocksdb::IODebugContext* dbg) override {
    ++control_->multi_reads;
    for (size_t i = 0; i < count; ++i) {
      FSReadRequest& request = requests[i];
      request.status = Read(request.offset, request.len, options, &request.result, request.scratch, dbg);
    }
    return IOStatus::OK();
  }

  IOStatus Prefetch(uint64_t /*offset*/, size_t /*n*/, const rocksdb::IOOptions& /*options*/,
                    rocksdb::IODebugContext* /*dbg*/) override {
    ++control_->hints;
    return IOStatus::OK();
  }

  // Reads nothing before Poll.
  IOStatus ReadAsync(FSReadRequest& request, const rocksdb::IOOptions& options,
                     std::function<void(FSReadRequest&, void*)> done, void* arg, void** handle,
                     rocksdb::IOHandleDeleter* delete_handle, rocksdb::IODebugContext* dbg) override {
    if (control_->fault == Fault::kRefused) return IOStatus::NotSupported("ReadAsync");
    ++control_->started;
    *handle = new int(0);
    *delete_handle = [](void* p) { delete static_cast<int*>(p); };
    const uint64_t offset = request.offset;
    const size_t size = request.len;
    char* const scratch = request.scratch;
    UnderWay().emplace(*handle, [this, offset, size, scratch, options, done, arg, dbg] {
      FSReadRequest finished;
      finished.offset = offset;
      finished.len = size;
      finished.scratch = scratch;
      finished.status = ReadIntoScratch(offset, size, options, &finished.result, scratch, dbg);
      if (control_->fault == Fault::kError) finished.status = IOStatus::IOError("as ordered");
      if (control_->fault == Fault::kShort) finished.result.remove_suffix(100);
      for (size_t at = 50; control_->fault == Fault::kWrong && at < size; at += 64) scratch[at] ^= 1;
      done(finished, arg);
    });
    control_->most_at_once = std::max(control_->most_at_once.load(), UnderWay().size());
    return IOStatus::OK();
  }
};

class AsyncFileSystem : public ControlledFileSystem<AsyncFile, Control> {
 public:
  using ControlledFileSystem::ControlledFileSystem;

  IOStatus Poll(std::vector<void*>& handles, size_t /*least*/) override {
    ++control_->polls;
    for (void* const handle : handles) {
      const auto read = UnderWay().find(handle);
      if (read == UnderWay().end()) continue;
      read->second();
      UnderWay().erase(read);
    }
    return IOStatus::OK();
  }

  void SupportedOps(int64_t& ops) override { ops = 1 << rocksdb::FSSupportedOps::kAsyncIO; }
};

// What a program's merge operator reads may read in parallel, too: nothing of the lookup's may be under way then.
class WatchingOperator : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing, const rocksdb::Slice& value,
             std::string* merged, rocksdb::Logger* /*logger*/) const override {
    *merged = value.ToString();
    ++calls;
    if (existing == nullptr || *existing != value) ++others;
    if (!UnderWay().empty()) ++amid;
    return true;
  }
  const char* Name() const override { return "Watching"; }

  mutable std::atomic<size_t> calls{0};
  mutable std::atomic<size_t> amid{0};
  mutable std::atomic<size_t> others{0};  // operands that are not what they are merged into
};

class ReadAheadTest : public ::testing::Test {
 protected:
  static constexpr int kKeys = 20000;
  static constexpr int kBatch = 32;

  ReadAheadTest()
      : memory_(rocksdb::NewMemEnv(rocksdb::Env::Default())),
        env_(memory_.get(), std::make_shared<AsyncFileSystem>(memory_->GetFileSystem(), &control_)) {}
  ~ReadAheadTest() override { db_.reset(); }

  rocksdb::Options SmallTables() {
    rocksdb::Options options;
    options.env = &env_;
    options.create_if_missing = true;
    options.write_buffer_size = 128 << 10;
    options.compression = rocksdb::kNoCompression;
    return options;
  }

  void Load(const rocksdb::Options& options) {
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, "/db", port::Into(&db)).ok());
    db_.reset(db);
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), Value(i)).ok());
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
    ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
    ASSERT_TRUE(WaitForTrieCompaction(db_.get()).ok());
  }

  void OpenSilt() {
    rocksdb::Options options = SmallTables();
    rocksdb::BlockBasedTableOptions block_based;
    cache_ = block_based.block_cache = rocksdb::NewLRUCache(64 << 20, 0);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(block_based));
    options.merge_operator = operator_;
    options.statistics = statistics_;
    SiltOptions silt;
    silt.partitions = 4;
    ASSERT_TRUE(UseSilt(&options, silt).ok());
    Load(options);
    control_.Reset();
  }

  // Runs of ordered tables, all blocks cold; their indexes in the cache or beside it.
  void OpenOrdered(bool index_in_cache) {
    rocksdb::Options options = SmallTables();
    options.disable_auto_compactions = true;
    options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1000;
    rocksdb::BlockBasedTableOptions block_based;
    block_based.cache_index_and_filter_blocks = index_in_cache;
    block_based.block_size = 512;
    cache_ = block_based.block_cache = rocksdb::NewLRUCache(64 << 20, 0);
    options.table_factory.reset(NewOrderedTableFactory(block_based));
    Load(options);
  }

  // A trie of small tables, all pages cold. A cache of 0 bytes: none.
  void Open(size_t cache_bytes, FilterResidency residency = FilterResidency::kPinned) {
    rocksdb::Options options = SmallTables();
    HashTrieOptions trie;
    trie.fan_out = 4;
    trie.slots = 6;
    trie.root_trigger = 3;
    ASSERT_TRUE(UseTrie(&options, trie).ok());
    rocksdb::BlockBasedTableOptions block_based;
    block_based.no_block_cache = cache_bytes == 0;
    if (cache_bytes > 0) cache_ = block_based.block_cache = rocksdb::NewLRUCache(cache_bytes, 0);
    HTableOptions table;
    table.filter.residency = residency;
    table.filter.memory_share = 0;  // filters that are not pinned are asked by pages at every depth
    table.table.reset(rocksdb::NewBlockBasedTableFactory(block_based));
    options.table_factory =
        std::make_shared<HashOrderTableFactory>(std::shared_ptr<rocksdb::TableFactory>(NewHTableFactory(table)));
    Load(options);
    rocksdb::ColumnFamilyMetaData data;
    db_->GetColumnFamilyMetaData(&data);
    ASSERT_GE(data.file_count, 4u);
    depths_ = 1;
    for (const auto& level : data.levels) {
      if (!level.files.empty()) depths_ = 1 + static_cast<size_t>(std::max(0, DepthOfLevel(trie, level.level)));
    }
    if (cache_ != nullptr) cache_->EraseUnRefEntries();
    control_.Reset();
  }

  void Close() {
    db_.reset();
    control_.Reset();
    rocksdb::Options options;
    options.env = &env_;
    ASSERT_TRUE(rocksdb::DestroyDB("/db", options).ok());
  }

  static std::string Key(int i) { return "key" + std::to_string(i); }
  static std::string Value(int i) { return std::string(50, static_cast<char>('a' + i % 26)) + std::to_string(i); }

  static size_t At(int i) { return static_cast<size_t>(i); }

  // Every key of a batch, of which one in four is absent, has its answer.
  void ExpectBatch(int first, const rocksdb::ReadOptions& read = rocksdb::ReadOptions()) {
    std::vector<std::string> keys(kBatch);
    std::vector<rocksdb::Slice> slices;
    for (int i = 0; i < kBatch; ++i) {
      keys[At(i)] = i % 4 == 3 ? "absent" + std::to_string(first + i) : Key(first + i * 137);
      slices.emplace_back(keys[At(i)]);
    }
    std::vector<rocksdb::PinnableSlice> values(kBatch);
    std::vector<rocksdb::Status> statuses(kBatch);
    db_->MultiGet(read, db_->DefaultColumnFamily(), kBatch, slices.data(), values.data(), statuses.data());
    for (int i = 0; i < kBatch; ++i) {
      if (i % 4 == 3) {
        EXPECT_TRUE(statuses[At(i)].IsNotFound()) << statuses[At(i)].ToString();
      } else {
        ASSERT_TRUE(statuses[At(i)].ok()) << keys[At(i)] << ": " << statuses[At(i)].ToString();
        EXPECT_EQ(values[At(i)], Value(first + i * 137));
      }
    }
  }

  Control control_;
  std::unique_ptr<rocksdb::Env> memory_;
  rocksdb::CompositeEnvWrapper env_;
  std::shared_ptr<rocksdb::Cache> cache_;
  const std::shared_ptr<WatchingOperator> operator_ = std::make_shared<WatchingOperator>();
  const std::shared_ptr<rocksdb::Statistics> statistics_ = rocksdb::CreateDBStatistics();
  size_t depths_ = 0;  // of the trie, that hold tables
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(ReadAheadTest, DirectReadsOfABatchAreUnderWayTogether) {
  for (const size_t cache : {size_t{0}, size_t{16} << 10, size_t{64} << 20}) {
    SCOPED_TRACE(cache);
    Close();
    Open(cache);
    ExpectBatch(0);
    EXPECT_GE(control_.most_at_once.load(), 16u);
    // No page is read twice, and none alone, unless a filter has named a newer table that has not got the key: once in
    // a hundred batches, for one of its keys.
    EXPECT_LE(control_.started.load(), 24u);
    EXPECT_LE(control_.plain_reads.load(), 1u);
    // What is cached is not read again.
    const size_t before = control_.started;
    ExpectBatch(0);
    if (cache == size_t{64} << 20) {
      EXPECT_EQ(control_.started.load(), before);
    }
    ExpectBatch(1);
    EXPECT_EQ(control_.hints.load(), 0u);
  }
}

// Whatever has become of a read, RocksDB's reader or the cursor reads again what is not in the cache.
TEST_F(ReadAheadTest, FirstBlocksOfAnOrderedBatchAreReadTogether) {
  for (const bool index_in_cache : {false, true}) {
    SCOPED_TRACE(index_in_cache);
    Close();
    OpenOrdered(index_in_cache);
    // A Version's tables are described after some lookups, and indexes come into the cache with the first.
    for (int i = 0; i < 12; ++i) ExpectBatch(7000);
    control_.Reset();
    ExpectBatch(0);
    EXPECT_GE(control_.most_at_once.load(), 16u);
    EXPECT_LE(control_.started.load(), 24u);
    EXPECT_LE(control_.plain_reads.load(), index_in_cache ? 16u : 1u);
    const size_t before = control_.started;
    ExpectBatch(0);
    EXPECT_EQ(control_.started.load(), before);
    int first = 40;
    for (const Fault fault : {Fault::kError, Fault::kShort, Fault::kWrong, Fault::kRefused}) {
      SCOPED_TRACE(static_cast<int>(fault));
      control_.fault = fault;
      const size_t plain = control_.plain_reads;
      ExpectBatch(first);
      // What is cut off may lie beside a block.
      const bool is_read_again = fault != Fault::kShort;
      EXPECT_GE(control_.plain_reads.load(), plain + (is_read_again ? 1 : 0));
      first += 41;
    }
    control_.Reset();
    control_.reads = Reads::kBuffered;
    ExpectBatch(300);
    EXPECT_EQ(control_.started.load(), 0u);
  }
}

TEST_F(ReadAheadTest, AnswersDoNotDependOnIt) {
  Open(64 << 20);
  int first = 0;
  for (const Fault fault : {Fault::kError, Fault::kShort, Fault::kWrong, Fault::kRefused}) {
    SCOPED_TRACE(static_cast<int>(fault));
    control_.fault = fault;
    const size_t before = control_.plain_reads;
    ExpectBatch(first);
    first += 5;
    EXPECT_GT(control_.plain_reads.load(), before);
  }
}

// Filters that are not in memory: two rounds of reads a depth, one for the pages of filters, of all containers, and one
// for data.
TEST_F(ReadAheadTest, FilterPagesOfABatchAreReadTogether) {
  for (const FilterResidency residency : {FilterResidency::kCache, FilterResidency::kDisk}) {
    SCOPED_TRACE(static_cast<int>(residency));
    Close();
    Open(64 << 20, residency);
    ASSERT_GE(depths_, 2u);
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    for (int first : {0, 1000, 2000}) {
      SCOPED_TRACE(first);
      cache_->EraseUnRefEntries();
      control_.Reset();
      rocksdb::get_perf_context()->Reset();
      ExpectBatch(first);
      // One may be of a table's own page, that a filter has named in error.
      EXPECT_LE(control_.polls + control_.multi_reads, 2 * depths_ + 1);
      EXPECT_GE(control_.polls + control_.multi_reads, 2u);
      EXPECT_LE(control_.most_at_once.load(), size_t{kBatch});
      const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
      EXPECT_GT(counts.filter_block_read_count, 0u);
      EXPECT_LE(counts.filter_block_read_count, depths_ * kBatch);
      EXPECT_LE(counts.block_read_count - counts.filter_block_read_count, 25u);
      // Neighbouring pages of one file are one read.
      EXPECT_LE(control_.started + control_.plain_reads, counts.block_read_count);
      EXPECT_GE(control_.started + control_.plain_reads, counts.block_read_count * 3 / 4);
    }
  }
}

TEST_F(ReadAheadTest, AnswersDoNotDependOnFilterPages) {
  for (const FilterResidency residency : {FilterResidency::kCache, FilterResidency::kDisk}) {
    Close();
    Open(64 << 20, residency);
    int first = 0;
    for (const Reads reads : {Reads::kDirect, Reads::kBuffered}) {
      for (const Fault fault : {Fault::kNone, Fault::kError, Fault::kShort, Fault::kWrong, Fault::kRefused}) {
        SCOPED_TRACE(static_cast<int>(fault));
        cache_->EraseUnRefEntries();
        control_.reads = reads;
        control_.fault = fault;
        ExpectBatch(first);
        ExpectBatch(first);
        first += 5;
      }
    }
  }
}

TEST_F(ReadAheadTest, BufferedReadsAreHintedAtWhenTheyAreSlow) {
  Open(64 << 20);
  control_.reads = Reads::kBuffered;
  control_.slow = true;
  ExpectBatch(0);
  EXPECT_GE(control_.hints.load(), 10u);
  EXPECT_LE(control_.hints.load(), 24u);
  EXPECT_EQ(control_.started.load(), 0u);
  rocksdb::ReadOptions no_fill;
  no_fill.fill_cache = false;
  control_.hints = 0;
  ExpectBatch(2, no_fill);
  EXPECT_GE(control_.hints.load(), 10u);
  EXPECT_LE(control_.hints.load(), 24u);
}

// The tables of a SILT store read in the same way.
TEST_F(ReadAheadTest, DirectReadsOfABatchInASiltStoreAreUnderWayTogether) {
  OpenSilt();
  for (int first = 0; first < 10; ++first) ExpectBatch(first);  // after some lookups the stores are described
  cache_->EraseUnRefEntries();
  control_.Reset();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  ExpectBatch(100);
  EXPECT_EQ(rocksdb::get_perf_context()->block_read_count, control_.started + control_.plain_reads);
  EXPECT_GE(control_.most_at_once.load(), 16u);
  EXPECT_LE(control_.started.load(), 32u);
  // Of the store that a filter of 9 bits has named in error, or an index of a block too early.
  EXPECT_LE(control_.plain_reads.load(), 8u);
  const size_t before = control_.started;
  ExpectBatch(100);
  EXPECT_EQ(control_.started.load(), before) << "what is cached is not read again";
  rocksdb::ReadOptions cached;
  cached.read_tier = rocksdb::kBlockCacheTier;
  std::string value;
  EXPECT_TRUE(db_->Get(cached, Key(100), &value).ok());
  control_.reads = Reads::kBuffered;
  cache_->EraseUnRefEntries();
  ExpectBatch(200);
  EXPECT_EQ(control_.started.load(), before);
}

TEST_F(ReadAheadTest, NothingIsUnderWayWhenASiltStoreAnswers) {
  OpenSilt();
  for (int i = 0; i < kKeys; i += 3) {
    ASSERT_TRUE(db_->Merge(rocksdb::WriteOptions(), Key(i), Value(i)).ok());
  }
  ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  ASSERT_TRUE(db_->WaitForCompact(rocksdb::WaitForCompactOptions()).ok());
  for (int first = 0; first < 10; ++first) ExpectBatch(first);
  for (int first = 10; first < 20; ++first) {
    cache_->EraseUnRefEntries();
    ExpectBatch(first);
  }
  EXPECT_GT(control_.started.load(), 0u);
  EXPECT_GT(operator_->calls.load(), 0u);
  EXPECT_EQ(operator_->amid.load(), 0u);
}

// A merge operand lies in one table and the value below it in another, at about the same place.
TEST_F(ReadAheadTest, WhatIsReadAheadInASiltStoreIsOfOneTable) {
  OpenSilt();
  ASSERT_TRUE(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  ASSERT_TRUE(db_->SetOptions({{"write_buffer_size", "64M"}, {"disable_auto_compactions", "true"}}).ok());
  for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(db_->Merge(rocksdb::WriteOptions(), Key(i), Value(i)).ok());
  ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions()).ok());
  for (int first = 0; first < 10; ++first) ExpectBatch(first);
  for (const bool verifies : {true, false}) {
    for (const bool fills : {true, false}) {
      rocksdb::ReadOptions read;
      read.verify_checksums = verifies;
      read.fill_cache = fills;
      for (int first = 0; first < 100; ++first) {
        cache_->EraseUnRefEntries();
        ExpectBatch(first, read);
      }
    }
  }
  EXPECT_GT(control_.started.load(), 0u);
  EXPECT_GT(operator_->calls.load(), 0u);
  EXPECT_EQ(operator_->others.load(), 0u);
  EXPECT_EQ(statistics_->getTickerCount(rocksdb::BLOCK_CHECKSUM_MISMATCH_COUNT), 0u);
}

TEST_F(ReadAheadTest, AnswersOfASiltStoreDoNotDependOnIt) {
  OpenSilt();
  int first = 0;
  for (; first < 10; ++first) ExpectBatch(first);
  for (const Fault fault : {Fault::kError, Fault::kShort, Fault::kWrong, Fault::kRefused}) {
    SCOPED_TRACE(static_cast<int>(fault));
    control_.fault = fault;
    cache_->EraseUnRefEntries();
    const size_t before = control_.plain_reads;
    ExpectBatch(first);
    first += 5;
    EXPECT_GT(control_.plain_reads.load(), before);
  }
}

// Tables come and go while batches read ahead in them.
class CompactionsTest : public ReadAheadTest, public ::testing::WithParamInterface<FilterResidency> {};

INSTANTIATE_TEST_SUITE_P(All, CompactionsTest, ::testing::Values(FilterResidency::kPinned, FilterResidency::kDisk));

TEST_P(CompactionsTest, BatchesAmongCompactions) {
  Open(0, GetParam());
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([this, reader, &stop] {
      for (int first = reader; !stop; first = (first + 7) % 5000) ExpectBatch(first);
    });
  }
  for (int i = 0; i < kKeys; ++i) EXPECT_TRUE(db_->Put(rocksdb::WriteOptions(), Key(i), Value(i)).ok());
  EXPECT_TRUE(WaitForTrieCompaction(db_.get()).ok());
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(control_.started.load(), 0u);
}

}  // namespace
}  // namespace cairn
