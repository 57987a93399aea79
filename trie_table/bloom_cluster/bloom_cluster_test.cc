// BloomCluster as a table format uses it: blocks in files, tables that come and go, damage.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "gtest/gtest.h"
#include "test/testutil/bloom_cluster_fixture.h"
#include "test/testutil/controlled_file_system.h"
#include "util/bits.h"
#include "util/checksum.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

class ResidencyTest : public BloomClusterTest,
                      public ::testing::WithParamInterface<std::pair<FilterResidency, FilterClusters>> {
 protected:
  void SetUp() override { Use(GetParam().first, GetParam().second); }
};

INSTANTIATE_TEST_SUITE_P(All, ResidencyTest,
                         ::testing::Values(std::make_pair(FilterResidency::kPinned, FilterClusters::kAuto),
                                           std::make_pair(FilterResidency::kPinned, FilterClusters::kAlways),
                                           std::make_pair(FilterResidency::kCache, FilterClusters::kAuto),
                                           std::make_pair(FilterResidency::kCache, FilterClusters::kNever),
                                           std::make_pair(FilterResidency::kDisk, FilterClusters::kAuto),
                                           std::make_pair(FilterResidency::kDisk, FilterClusters::kNever)));

TEST_P(ResidencyTest, AColumnFillsAndAnswers) {
  for (int level = 16; level > 4; --level) Add(Hashes(2000 + random_() % 2000), level);
  ExpectNoWrongNo();
  EXPECT_LT(LetThrough(4000), 0.0006) << "more than an ideal Bloom filter of 16 bits";
  for (const auto& table : open_) {
    EXPECT_TRUE(table->filter->Verify(read_options_).ok());
    EXPECT_GT(table->filter->ApproximateMemoryUsage(), 0u);
  }
}

TEST_P(ResidencyTest, TablesGoInAnyOrder) {
  for (int level = 16; level > 4; --level) Add(Hashes(500), level);
  while (!open_.empty()) {
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(random_() % open_.size()));
    ExpectNoWrongNo();
    if (!open_.empty() && random_() % 2 == 0) {
      // A new table takes the number of one that is gone.
      Add(Hashes(300), 3);
      ExpectNoWrongNo();
      open_.pop_back();
    }
  }
  EXPECT_EQ(directory_->counters().memory, 0u);
}

TEST_P(ResidencyTest, ReopenedTablesAnswerTheSame) {
  for (int level = 16; level > 10; --level) Add(Hashes(1000), level);
  std::vector<size_t> order = {3, 0, 5, 1, 4, 2};
  for (auto& table : open_) table->filter.reset();
  directory_ = std::make_shared<FilterDirectory>(directory_->options());
  for (size_t i : order) ASSERT_TRUE(Open(open_[i].get()).ok());
  ExpectNoWrongNo();
  EXPECT_LT(LetThrough(4000), 0.0006);
}

TEST_P(ResidencyTest, OneTableOpenedTwice) {
  Add(Hashes(1000), 16);
  Add(Hashes(1000), 15);
  Table twin;
  twin.name = open_[0]->name;
  twin.context = open_[0]->context;
  twin.size = open_[0]->size;
  ASSERT_TRUE(Open(&twin).ok());
  for (uint64_t hash : open_[0]->hashes) ASSERT_TRUE(twin.filter->MayContain(read_options_, hash));
  open_[0]->filter.reset();
  for (uint64_t hash : open_[0]->hashes) ASSERT_TRUE(twin.filter->MayContain(read_options_, hash));
  ExpectNoWrongNo();
}

TEST_P(ResidencyTest, MoreTablesThanAContainerHas) {
  for (int i = 0; i < 80; ++i) Add(Hashes(200), 0);
  ExpectNoWrongNo();
  EXPECT_LT(LetThrough(1000), 0.001);
}

TEST_P(ResidencyTest, TablesOfDifferentSizesAndContainers) {
  for (size_t count : {20000, 1, 300, 5, 5000, 2}) Add(Hashes(count), 16 - static_cast<int>(open_.size()));
  Add(Hashes(700, 9), 3, 9);
  Add(Hashes(700, 9), 2, 9);
  ExpectNoWrongNo();
  EXPECT_LT(LetThrough(5000), 0.0008);
}

TEST_P(ResidencyTest, UnevenHashesGoWithoutAFilter) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < 100000; ++i) hashes.push_back(i * 3);
  hashes.push_back(~uint64_t{0});
  Table table = Build(hashes, 4);
  if (table.size == 0) return;
  ASSERT_TRUE(Open(&table).ok());
  for (uint64_t hash : hashes) ASSERT_TRUE(table.filter->MayContain(read_options_, hash));
}

// So does the part of a table with uneven hashes in a cluster that as a whole has a filter.
TEST_P(ResidencyTest, UnevenHashesInAClusterAreNotLost) {
  for (int round = 0; round < 8; ++round) {
    Add(Hashes(20000), 16);
    std::vector<uint64_t> hashes;
    for (uint64_t i = 0; i < uint64_t{1} << (6 + round); ++i) hashes.push_back((uint64_t{5} << 58) + i * 3);
    hashes.push_back(uint64_t{5} << 58 | LowMask(58));
    Table table = Build(hashes, 4);
    if (table.size == 0) continue;
    ASSERT_TRUE(Open(&table).ok());
    for (uint64_t hash : hashes) ASSERT_TRUE(table.filter->MayContain(read_options_, hash)) << "round " << round;
    ExpectNoWrongNo();
    table.filter.reset();
    open_.clear();
  }
}

TEST_P(ResidencyTest, UnsortedHashesAreSorted) {
  std::vector<uint64_t> hashes = Hashes(3000);
  std::shuffle(hashes.begin(), hashes.end(), random_);
  Add(hashes, 4);
  ExpectNoWrongNo();
}

// Flips bytes all over a block: either Open says so, or no key is lost.
TEST_P(ResidencyTest, DamageNeverLosesAKey) {
  for (int level = 16; level > 12; --level) Add(Hashes(1500), level);
  Table* const newest = open_.back().get();
  const std::string good = Read(newest->name);
  int refused = 0, opened = 0;
  for (int round = 0; round < 150; ++round) {
    newest->filter.reset();
    std::string bad = good;
    const size_t at = kFilterOffset + (round % 3 == 0 ? random_() % 200 : random_() % newest->size);
    if (round % 7 == 6) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(bad[at] ^ (1 + random_() % 255));
    }
    Write(newest->name, bad);
    const Status s = Open(newest);
    if (!s.ok()) {
      ++refused;
      ASSERT_TRUE(s.IsCorruption() || s.IsNotSupported()) << s.ToString();
      ASSERT_NE(s.ToString().find(newest->name), std::string::npos) << s.ToString();
    } else {
      ++opened;
    }
    // The cache would hide damage.
    cache_->EraseUnRefEntries();
    ExpectNoWrongNo();
  }
  EXPECT_GT(refused, 10);
  if (GetParam().first != FilterResidency::kPinned) {
    EXPECT_GT(opened, 10);
  }
}

// Read number `fails` fails, and the same read succeeds when it is tried again.
struct OneFault {
  int fails = -1;
  int reads = 0;
};

class FaultyFile : public ControlledFile<OneFault> {
 public:
  using ControlledFile::ControlledFile;
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* dbg) const override {
    if (control_->reads++ == control_->fails) return rocksdb::IOStatus::IOError("this once");
    return target()->Read(offset, n, options, result, scratch, dbg);
  }
};

// Either opening says so, or no key is lost.
TEST_P(ResidencyTest, AReadThatFailsOnceNeverLosesAKey) {
  OneFault fault;
  fs_ = std::make_shared<ControlledFileSystem<FaultyFile, OneFault>>(env_->GetFileSystem(), &fault);
  for (int level = 16; level > 12; --level) Add(Hashes(1500), level);
  Table* const newest = open_.back().get();
  int reads = 0;
  newest->filter.reset();
  fault.reads = 0;
  ASSERT_TRUE(Open(newest).ok());
  reads = fault.reads;
  ASSERT_GT(reads, 0);
  for (int fails = 0; fails < reads; ++fails) {
    newest->filter.reset();
    fault = {fails, 0};
    const Status s = Open(newest);
    fault.fails = -1;
    ASSERT_TRUE(s.ok() || s.IsIOError()) << s.ToString();
    ExpectNoWrongNo();
  }
}

// Memory is reserved by what the index says, so it must not say more than the pages can hold.
TEST_P(ResidencyTest, ImpossibleNumbersAreRefused) {
  Add(Hashes(1500), 9);
  Table* const table = open_[0].get();
  const std::string good = Read(table->name);
  for (const size_t field : {32, 40}) {  // columns, keys
    table->filter.reset();
    std::string bad = good;
    char* const index = bad.data() + kFilterOffset;
    const uint64_t many = field == 32 ? uint64_t{1} << 30 : uint64_t{1} << 50;
    memcpy(index + field, &many, sizeof(many));
    const size_t end = 48 + 16 * static_cast<uint8_t>(index[19]) + 4 * LoadU32(index + 12);
    const uint32_t checksum = Crc32c(index, end);
    memcpy(index + end, &checksum, sizeof(checksum));
    Write(table->name, bad);
    const Status s = Open(table);
    EXPECT_TRUE(s.IsCorruption()) << field << ": " << s.ToString();
  }
}

TEST_P(ResidencyTest, ForeignBlockIsRefused) {
  Add(Hashes(100), 9);
  Table* const table = open_[0].get();
  table->filter.reset();
  ++table->context.table_id;
  EXPECT_TRUE(Open(table).IsCorruption());
}

TEST_F(BloomClusterTest, PinnedColumnIsProbedOncePerHash) {
  Use(FilterResidency::kPinned);
  for (int level = 16; level > 4; --level) Add(Hashes(2000), level);
  const uint64_t before = Probes();
  LetThrough(1000);
  EXPECT_EQ(Probes() - before, 1000u);
  EXPECT_EQ(PageReads(), 0u);
  // At most three images for twelve tables.
  const auto container = directory_->FindOpen(5);
  ASSERT_NE(container, nullptr);
  EXPECT_LE(container->sources(), 3u);
}

TEST_F(BloomClusterTest, OnePageReadForAColumn) {
  for (FilterResidency residency : {FilterResidency::kDisk, FilterResidency::kCache}) {
    Use(residency);
    open_.clear();
    for (int level = 16; level > 4; --level) Add(Hashes(2000), level);
    cache_->EraseUnRefEntries();
    uint64_t before = PageReads();
    LetThrough(500);
    EXPECT_LE(PageReads() - before, 500u);
    if (residency == FilterResidency::kDisk) {
      // A hash below the lowest or above the highest of the tables needs no page.
      EXPECT_GE(PageReads() - before, 480u);
    }
    // All pages are cached now, or nearly.
    before = PageReads();
    LetThrough(500);
    if (residency == FilterResidency::kCache) {
      EXPECT_LE(PageReads() - before, 20u);
    }
    // The newest, which covered the others, goes: the next one takes over.
    open_.pop_back();
    ExpectNoWrongNo();
    before = PageReads();
    LetThrough(100);
    EXPECT_LE(PageReads() - before, 100u);
  }
}

TEST_F(BloomClusterTest, WithoutClustersEveryTableIsRead) {
  Use(FilterResidency::kDisk, FilterClusters::kNever);
  for (int level = 16; level > 4; --level) Add(Hashes(2000), level);
  const uint64_t before = PageReads();
  LetThrough(100);
  EXPECT_LE(PageReads() - before, 1200u);
  EXPECT_GE(PageReads() - before, 1150u);
}

TEST_F(BloomClusterTest, CacheTierAnswersMaybe) {
  Use(FilterResidency::kCache);
  Add(Hashes(2000), 5);
  read_options_.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_GE(LetThrough(100), 0.9) << "all but hashes beyond the lowest or the highest of the table";
  read_options_.read_tier = rocksdb::kReadAllTier;
  EXPECT_LT(LetThrough(1000), 0.01);
  read_options_.read_tier = rocksdb::kBlockCacheTier;
  EXPECT_LT(LetThrough(1000), 0.01);
}

TEST_F(BloomClusterTest, MemoryIsCountedAndCharged) {
  Use(FilterResidency::kPinned);
  const size_t before = cache_->GetPinnedUsage();
  size_t keys = 0;
  for (int level = 16; level > 4; --level) {
    Add(Hashes(50000), level);
    keys += 50000;
  }
  const uint64_t memory = directory_->counters().memory.load();
  EXPECT_GT(memory, keys * 15 / 8);
  EXPECT_LT(memory, keys * 19 / 8);
  EXPECT_GE(cache_->GetPinnedUsage() - before, memory);
  EXPECT_LE(cache_->GetPinnedUsage() - before, memory + (1 << 20));
  size_t sum = 0;
  for (const auto& table : open_) sum += table->filter->ApproximateMemoryUsage();
  EXPECT_GT(sum, memory * 3 / 4);
  EXPECT_LT(sum, memory * 5 / 4);
  open_.clear();
  EXPECT_EQ(directory_->counters().memory.load(), 0u);
  EXPECT_LE(cache_->GetPinnedUsage(), before + (1 << 20));
}

TEST_F(BloomClusterTest, HalfOfACacheWithAStrictLimitStaysFree) {
  cache_ = rocksdb::NewLRUCache(2 << 20, 0, /*strict_capacity_limit=*/true);
  Use(FilterResidency::kPinned);
  for (int level = 16; level > 4; --level) Add(Hashes(100000), level);
  EXPECT_GT(directory_->counters().memory.load(), cache_->GetCapacity()) << "or there is nothing to see";
  EXPECT_GT(cache_->GetPinnedUsage(), cache_->GetCapacity() / 4);
  EXPECT_LE(cache_->GetPinnedUsage(), cache_->GetCapacity() / 2 + (16 << 10)) << "with what the cache's entries take";
  ExpectNoWrongNo();
  open_.clear();
  EXPECT_LE(cache_->GetPinnedUsage(), 1u << 20);
}

TEST_F(BloomClusterTest, BatchesAgreeWithSingles) {
  Use(FilterResidency::kPinned);
  for (int level = 16; level > 8; --level) Add(Hashes(3000), level);
  for (int round = 0; round < 100; ++round) {
    FilterBatch batch = Batch();
    batch.wanted &= ~uint64_t{0x81};
    for (const auto& table : open_) {
      EXPECT_EQ(table->filter->MayContainBatch(read_options_, &batch), Singly(*table, batch));
    }
  }
}

// Tables come and go while readers ask; under the thread sanitizer, too.
TEST_P(ResidencyTest, TablesComeAndGoWhileReadersAsk) {
  constexpr int kReaders = 3;
  std::mutex mutex;
  std::deque<std::shared_ptr<Table>> tables;  // guarded by mutex
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> lost{0}, asked{0};
  const auto read = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!stop) {
      // As in RocksDB, the tables of a version are held while it is read.
      std::vector<std::shared_ptr<Table>> version;
      {
        std::lock_guard<std::mutex> lock(mutex);
        version.assign(tables.begin(), tables.end());
      }
      for (int i = 0; i < 50 && !version.empty(); ++i) {
        const Table& table = *version[random() % version.size()];
        const uint64_t hash = table.hashes[random() % table.hashes.size()];
        for (const auto& other : version) {
          const bool may = other->filter->MayContain(read_options_, hash);
          lost += other.get() == &table && !may ? 1 : 0;
          ++asked;
        }
      }
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) readers.emplace_back(read, random_());
  for (int i = 0; i < 120; ++i) {
    auto table = std::make_shared<Table>(Build(Hashes(300), 20 - i % 20));
    ASSERT_TRUE(Open(table.get()).ok());
    const uint64_t before = asked;
    {
      std::lock_guard<std::mutex> lock(mutex);
      tables.push_back(std::move(table));
      if (tables.size() > 10) tables.erase(tables.begin() + static_cast<ptrdiff_t>(random_() % tables.size()));
      if (i % 40 == 39) tables.clear();
    }
    // A busy machine must not let the writer run alone.
    for (int wait = 0; wait < 1000 && asked == before && i % 40 != 39; ++wait) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(lost, 0u);
  EXPECT_GT(asked, 0u);
}

// Tables of three depths, and a share of the cache that changes.
class BudgetTest : public BloomClusterTest {
 protected:
  static constexpr int kDepths = 3;

  void SetUp() override {
    cache_ = rocksdb::NewLRUCache(size_t{1} << 20, 0);
    Use(FilterResidency::kCache);
  }
  // At a depth's own container, where it lies beneath its older ones.
  Table* AddAt(int depth, size_t keys) {
    depth_ = depth;
    return Add(Hashes(keys), 20 * depth + 19 - static_cast<int>(tables_ % 20), 5 + static_cast<uint64_t>(depth));
  }
  uint64_t MemoryAt(int depth) {
    for (const FilterDepth& each : directory_->Depths()) {
      if (each.depth == depth) return each.memory_bytes;
    }
    return 0;
  }
  uint64_t Memory() { return MemoryAt(0) + MemoryAt(1) + MemoryAt(2); }
};

TEST_F(BudgetTest, ShallowDepthsStayInMemoryWhenTheDeepestDoesNotFit) {
  AddAt(0, 2000);
  for (int i = 0; i < 4; ++i) AddAt(1, 10000);
  for (int i = 0; i < 4; ++i) AddAt(2, 25000);
  EXPECT_GT(MemoryAt(0), 0u);
  EXPECT_GT(MemoryAt(1), 0u);
  EXPECT_GT(MemoryAt(2), 100000u * 15 / 8) << "everything fits";
  uint64_t reads = PageReads();
  LetThrough(100);
  EXPECT_EQ(PageReads(), reads);
  // With more keys they have fewer bits, and then they are asked by pages.
  for (int i = 0; i < 12; ++i) AddAt(2, 25000);
  EXPECT_GT(MemoryAt(2), 400000u);
  EXPECT_LT(MemoryAt(2), 800000u);
  ExpectNoWrongNo();
  EXPECT_LT(LetThrough(300), 0.02);
  EXPECT_EQ(PageReads(), reads);
  for (int i = 0; i < 20; ++i) AddAt(2, 25000);
  EXPECT_EQ(MemoryAt(2), 0u);
  EXPECT_GT(MemoryAt(1), 0u);
  ExpectNoWrongNo();
  EXPECT_GT(PageReads(), reads);
  EXPECT_LE(cache_->GetPinnedUsage(), (size_t{1} << 20) * 9 / 10);
  // Where there is room again they come back with the next table.
  open_.resize(8);
  AddAt(1, 1000);
  EXPECT_GT(MemoryAt(2), 0u);
  ExpectNoWrongNo();
  open_.clear();
  EXPECT_EQ(directory_->counters().memory.load(), 0u);
}

// One that opens no table any more, too.
TEST_F(BudgetTest, AnotherFamilyOnTheCacheTakesItsPart) {
  for (int i = 0; i < 14; ++i) AddAt(2, 25000);
  const std::shared_ptr<FilterDirectory> first = directory_;
  const uint64_t alone = first->counters().memory.load();
  EXPECT_GT(alone, (size_t{1} << 20) / 2);
  directory_ = std::make_shared<FilterDirectory>(first->options());
  for (int i = 0; i < 14; ++i) AddAt(2, 25000);
  EXPECT_LT(first->counters().memory.load(), alone);
  EXPECT_LE(first->counters().memory.load() + directory_->counters().memory.load(), (size_t{1} << 20) * 9 / 10);
  ExpectNoWrongNo();
}

TEST_F(BudgetTest, NothingIsMissedWhateverIsInMemory) {
  for (int step = 0; step < 300; ++step) {
    const uint64_t kind = random_() % 10;
    if (kind < 6 && open_.size() < 40) {
      const auto depth = static_cast<int>(random_() % kDepths);
      AddAt(depth, 1 + random_() % (depth == 2 ? 30000 : 5000));
    } else if (kind < 8 && !open_.empty()) {
      open_.erase(open_.begin() + static_cast<ptrdiff_t>(random_() % open_.size()));
    } else {
      directory_->SetMemoryShare(static_cast<double>(random_() % 5) / 4);
    }
    if (step % 10 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectNoWrongNo()) << "step " << step;
    }
    FilterBatch batch;
    if (!open_.empty()) batch = Batch();
    for (const auto& table : open_) {
      ASSERT_EQ(table->filter->MayContainBatch(read_options_, &batch) & ~Singly(*table, batch), 0u) << "step " << step;
    }
    ASSERT_LE(Memory(), cache_->GetCapacity() * 5 / 4);
  }
}

// A filter block that cannot be read must not keep a table from opening where filters may stay in the file.
TEST_F(BudgetTest, APageThatCannotBeReadIsLeftInTheFile) {
  AddAt(2, 20000);
  Table* const table = open_[0].get();
  table->filter.reset();
  std::string bytes = Read(table->name);
  bytes[kFilterOffset + kFilterPageBytes + 100] ^= 1;
  Write(table->name, bytes);
  ASSERT_TRUE(Open(table).ok());
  EXPECT_EQ(MemoryAt(2), 0u);
  ExpectNoWrongNo();
  AddAt(2, 20000);
  ExpectNoWrongNo();
}

TEST_F(BudgetTest, FiltersComeAndGoWhileReadersAsk) {
  for (int i = 0; i < 6; ++i) AddAt(i % kDepths, 5000);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> lost{0}, asked{0};
  const std::vector<Table*> tables = [&] {
    std::vector<Table*> all;
    for (const auto& table : open_) all.push_back(table.get());
    return all;
  }();
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 3; ++i) {
    readers.emplace_back([&, random = std::mt19937_64(i)]() mutable {
      while (!stop) {
        const Table& table = *tables[random() % tables.size()];
        FilterBatch batch;
        batch.wanted = LowMask(FilterBatch::kMaxKeys);
        for (uint64_t& hash : batch.hashes) hash = table.hashes[random() % table.hashes.size()];
        lost += table.filter->MayContain(read_options_, batch.hashes[0]) ? 0 : 1;
        lost += table.filter->MayContainBatch(read_options_, &batch) == batch.wanted ? 0 : 1;
        ++asked;
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    directory_->SetMemoryShare(i % 2);
    for (int depth = 0; depth < kDepths; ++depth) AddAt(depth, 100);
    open_.resize(6);
    const uint64_t before = asked;
    for (int wait = 0; wait < 1000 && asked == before; ++wait) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(lost, 0u);
}

TEST(FilterOptionsTest, BadSharesAreRefused) {
  for (double share : {-0.1, 1.1, 1e9}) {
    FilterOptions options;
    options.memory_share = share;
    EXPECT_TRUE(ValidateFilterOptions(options).IsInvalidArgument()) << share;
  }
}

TEST(FilterOptionsTest, BadBitsAreRefused) {
  for (double bits : {-1.0, 1.0, 5.9, 20.1, 1e9}) {
    FilterOptions options;
    options.bits_per_key = bits;
    EXPECT_TRUE(ValidateFilterOptions(options).IsInvalidArgument()) << bits;
  }
}

TEST(FilterOptionsTest, ReadsAndWritesStrings) {
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  FilterOptions options;
  ASSERT_TRUE(rocksdb::OptionTypeInfo::ParseType(
                  config, "filter_bits=12;filter_bits_per_depth=1.5;filter_residency=disk;filter_clusters=never",
                  FilterOptionTypes(), &options)
                  .ok());
  EXPECT_EQ(options.bits_per_key, 12);
  EXPECT_EQ(options.bits_per_depth, 1.5);
  EXPECT_EQ(options.residency, FilterResidency::kDisk);
  EXPECT_EQ(options.clusters, FilterClusters::kNever);
  std::string text;
  ASSERT_TRUE(rocksdb::OptionTypeInfo::SerializeType(config, FilterOptionTypes(), &options, &text).ok());
  EXPECT_NE(text.find("filter_residency=disk"), std::string::npos) << text;
  EXPECT_FALSE(rocksdb::OptionTypeInfo::ParseType(config, "filter_residency=tape", FilterOptionTypes(), &options).ok());
}

// The deepest depth has the bits that were asked for, those above it more.
TEST_F(BloomClusterTest, DepthsAboveGetMoreBits) {
  Use(FilterResidency::kPinned, FilterClusters::kAuto, 12);
  EXPECT_EQ(directory_->BitsAt(-1), 12);
  EXPECT_EQ(directory_->BitsAt(2), 12);
  depth_ = 2;
  Add(Hashes(20000), 20);
  EXPECT_EQ(directory_->BitsAt(2), 12);
  EXPECT_EQ(directory_->BitsAt(1), 15);
  EXPECT_EQ(directory_->BitsAt(0), 18);
  depth_ = 4;
  Add(Hashes(20000), 40);
  EXPECT_EQ(directory_->BitsAt(0), 20) << "as many as there can be";
  depth_ = 2;
  const Table* const above = Add(Hashes(20000, 7), 20, 7);
  EXPECT_GT(above->size, open_[1]->size * 5 / 4);
  open_.clear();
  EXPECT_EQ(directory_->BitsAt(0), 12);
}

TEST(FilterTableIdTest, DiffersByEveryPart) {
  const uint64_t id = FilterTableId("db", "session", 7);
  EXPECT_NE(id, 0u);
  EXPECT_NE(id, FilterTableId("db2", "session", 7));
  EXPECT_NE(id, FilterTableId("db", "session2", 7));
  EXPECT_NE(id, FilterTableId("db", "session", 8));
  EXPECT_EQ(FilterTableId("db", "", 7), 0u);
  EXPECT_EQ(FilterTableId("db", "session", 0), 0u);
}

}  // namespace
}  // namespace cairn
