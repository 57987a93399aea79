// Tables that have nothing but a filter, for tests of BloomCluster.

#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "file/writable_file_writer.h"
#include "gtest/gtest.h"
#include "rocksdb/env.h"
#include "test/testutil/test_seed.h"
#include "trie_table/bloom_cluster/bloom_directory.h"
#include "trie_table/bloom_cluster/bloom_table.h"

namespace cairn {

// Of the filter block in its file.
constexpr uint64_t kFilterOffset = 3 * kFilterPageBytes;

// A table that has nothing but a filter.
struct Table {
  std::string name;
  FilterContext context;
  std::vector<uint64_t> hashes;
  uint64_t size = 0;
  std::unique_ptr<TableFilter> filter;
};

class BloomClusterTest : public ::testing::Test {
 protected:
  BloomClusterTest() : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())), random_(Seed()) {}

  void Use(FilterResidency residency, FilterClusters clusters = FilterClusters::kAuto, double bits = 16) {
    FilterOptions options;
    options.residency = residency;
    options.clusters = clusters;
    options.bits_per_key = bits;
    ASSERT_TRUE(ValidateFilterOptions(options).ok());
    directory_ = std::make_shared<FilterDirectory>(options);
  }

  std::vector<uint64_t> Hashes(size_t count, uint64_t container = 5) {
    std::vector<uint64_t> hashes(count);
    for (uint64_t& hash : hashes) hash = container << 58 | random_() >> 6;
    std::sort(hashes.begin(), hashes.end());
    return hashes;
  }

  // Builds the table's block while the tables that are open now are open.
  Table Build(std::vector<uint64_t> hashes, int level, uint64_t container = 5) {
    Table table;
    table.name = "/table" + std::to_string(++tables_);
    table.context.table_id = 1000 + tables_;
    table.context.level = level;
    table.context.depth = depth_;
    table.context.container_of = [container](uint64_t, int) { return container; };
    table.context.block_cache = cache_;
    table.context.statistics = statistics_;
    table.context.cache_key = rocksdb::OffsetableCacheKey("db", "session", tables_);
    table.hashes = std::move(hashes);
    TableFilterBuilder builder(directory_, table.context);
    for (uint64_t hash : table.hashes) builder.Add(hash);
    std::string block;
    EXPECT_TRUE(builder.Finish(&block).ok());
    EXPECT_EQ(block.size() % kFilterPageBytes, 0u);
    table.size = block.size();
    Write(table.name, std::string(kFilterOffset, 'x') + block + std::string(100, 'y'));
    return table;
  }

  void Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(rocksdb::WriteStringToFile(env_.get(), bytes, name).ok());
  }

  std::string Read(const std::string& name) {
    std::string bytes;
    EXPECT_TRUE(rocksdb::ReadFileToString(env_.get(), name, &bytes).ok());
    return bytes;
  }

  rocksdb::Status Open(Table* table) {
    std::unique_ptr<rocksdb::RandomAccessFileReader> file;
    rocksdb::Status s =
        rocksdb::RandomAccessFileReader::Create(fs_, table->name, rocksdb::FileOptions(), &file, nullptr);
    if (!s.ok()) return s;
    return TableFilter::Open(directory_, table->context, read_options_, std::move(file), kFilterOffset, table->size,
                             &table->filter);
  }

  Table* Add(std::vector<uint64_t> hashes, int level, uint64_t container = 5) {
    open_.push_back(std::make_unique<Table>(Build(std::move(hashes), level, container)));
    const rocksdb::Status s = Open(open_.back().get());
    EXPECT_TRUE(s.ok()) << s.ToString();
    return open_.back().get();
  }

  // Every key of every open table is found in its table.
  void ExpectNoWrongNo() {
    for (const auto& table : open_) {
      if (table->filter == nullptr) continue;
      for (uint64_t hash : table->hashes) {
        ASSERT_TRUE(table->filter->MayContain(read_options_, hash)) << table->name << " " << hash;
      }
    }
  }

  // The part of strange hashes that tables let through, of all pairs of hash and table.
  double LetThrough(int questions, uint64_t container = 5) {
    uint64_t yes = 0, asked = 0;
    for (int i = 0; i < questions; ++i) {
      const uint64_t hash = container << 58 | random_() >> 6;
      for (const auto& table : open_) {
        if (table->filter == nullptr) continue;
        ++asked;
        yes += table->filter->MayContain(read_options_, hash) ? 1 : 0;
      }
    }
    return static_cast<double>(yes) / static_cast<double>(asked);
  }

  // Every other key is in some table.
  FilterBatch Batch() {
    FilterBatch batch;
    batch.wanted = (uint64_t{1} << FilterBatch::kMaxKeys) - 1;
    for (size_t i = 0; i < FilterBatch::kMaxKeys; ++i) {
      const Table& table = *open_[random_() % open_.size()];
      batch.hashes[i] = i % 2 == 0 ? table.hashes[random_() % table.hashes.size()] : uint64_t{5} << 58 | random_() >> 6;
    }
    return batch;
  }

  // What the table answers for the keys of a batch one by one.
  uint64_t Singly(const Table& table, const FilterBatch& batch) {
    uint64_t may = 0;
    for (size_t i = 0; i < FilterBatch::kMaxKeys; ++i) {
      if ((batch.wanted >> i & 1) == 0 || !table.filter->MayContain(read_options_, batch.hashes[i])) continue;
      may |= uint64_t{1} << i;
    }
    return may;
  }

  uint64_t PageReads() const { return directory_->counters().page_reads; }
  uint64_t Probes() const { return directory_->counters().probes; }

  std::unique_ptr<rocksdb::Env> env_;
  std::shared_ptr<rocksdb::FileSystem> fs_ = env_->GetFileSystem();  // tables are read through this
  std::mt19937_64 random_;
  std::shared_ptr<rocksdb::Cache> cache_ = rocksdb::NewLRUCache(64 << 20);
  rocksdb::ReadOptions read_options_;
  std::shared_ptr<FilterDirectory> directory_;
  uint64_t tables_ = 0;
  int depth_ = -1;
  rocksdb::Statistics* statistics_ = nullptr;  // of tables built from now on
  std::vector<std::unique_ptr<Table>> open_;
};

}  // namespace cairn
