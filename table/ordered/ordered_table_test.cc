#include "table/ordered/ordered_table.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "db/dbformat.h"
#include "file/filename.h"
#include "file/writable_file_writer.h"
#include "gtest/gtest.h"
#include "options/cf_options.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/debug.h"
#include "table/ordered/order_block.h"
#include "table/table_builder.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::BlockBasedTableOptions;
using Random = std::mt19937_64;

std::string Number(uint64_t n) {
  char text[32];
  snprintf(text, sizeof(text), "%08llu", static_cast<unsigned long long>(n));
  return text;
}

std::string Key(uint64_t n) { return "key" + Number(n); }

constexpr uint64_t kSpace = 20000;  // of key numbers

class OrderedTest : public ::testing::Test {
 protected:
  OrderedTest() {
    options_.create_if_missing = true;
    options_.write_buffer_size = 64 << 10;
    options_.target_file_size_base = 64 << 10;
    options_.max_bytes_for_level_base = 256 << 10;
    options_.compression = rocksdb::kNoCompression;
    options_.paranoid_file_checks = true;
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    table_.block_size = 512;
    table_.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  }
  ~OrderedTest() override { ordered_.reset(); }

  void Open() {
    options_.table_factory.reset(NewOrderedTableFactory(table_));
    ASSERT_OK(DB::Open(options_, path_, port::Into(&ordered_)));
  }

  // The same files through RocksDB's own table factory, once no compaction removes any.
  std::unique_ptr<DB> OpenStock() {
    EXPECT_TRUE(ordered_->WaitForCompact({}).ok());
    Options stock = options_;
    stock.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_));
    DB* db = nullptr;
    const Status s = DB::OpenForReadOnly(stock, path_, port::Into(&db));
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<DB>(db);
  }

  // Puts, merges, deletes and range deletes of random keys, and a flush in the end.
  void Write(Random* random, int writes) {
    for (int i = 0; i < writes; ++i) {
      const uint64_t n = (*random)() % kSpace;
      const uint64_t kind = (*random)() % 100;
      if (kind < 5) {
        ASSERT_OK(ordered_->Delete({}, Key(n)));
      } else if (kind == 5 && ranges_) {
        ASSERT_OK(ordered_->DeleteRange({}, ordered_->DefaultColumnFamily(), Key(n), Key(n + 20)));
      } else if (kind < 12) {
        ASSERT_OK(ordered_->Merge({}, Key(n), Number((*random)())));
      } else if (kind < 15) {
        const std::string column = Number((*random)());
        ASSERT_OK(ordered_->PutEntity({}, ordered_->DefaultColumnFamily(), Key(n), {{"", column}, {"b", "column"}}));
      } else {
        ASSERT_OK(ordered_->Put({}, Key(n), std::string((*random)() % 60, 'v') + Number((*random)())));
      }
    }
    ASSERT_OK(ordered_->Flush({}));
    ASSERT_OK(ordered_->WaitForCompact({}));
  }

  OrderedSeekStats Seeks() {
    return ordered_->GetOptions().table_factory->CheckedCast<OrderedTableFactory>()->SeekStats();
  }

  std::vector<std::string> TableFiles() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      if (entry.path().extension() == ".sst") files.push_back(entry.path().string());
    }
    return files;
  }

  using Entries = std::map<std::string, std::string>;

  // What an iterator finds.
  Entries AllEntries(const rocksdb::Snapshot* snapshot = nullptr) {
    ReadOptions read;
    read.snapshot = snapshot;
    Entries entries;
    const std::unique_ptr<rocksdb::Iterator> it(ordered_->NewIterator(read));
    for (it->SeekToFirst(); it->Valid(); it->Next()) entries[it->key().ToString()] = it->value().ToString();
    return entries;
  }

  // A closed database of one small table, to be damaged.
  struct OneTable {
    std::string path;
    std::string bytes;
    Entries entries;
    OrderedStats stats;

    // The file is `bytes` but for a random bit of one byte.
    void Damage(size_t at, Random* random) const {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << (*random)() % 8));
      std::ofstream(path, std::ios::binary | std::ios::trunc) << damaged;
    }
    void Mend() const { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }
  };
  void WriteOneTable(Random* random, OneTable* table) {
    options_.disable_auto_compactions = true;
    Open();
    ranges_ = false;
    Write(random, 300);
    table->entries = AllEntries();
    ASSERT_OK(GetOrderedStats(ordered_.get(), ordered_->DefaultColumnFamily(), &table->stats));
    ordered_.reset();
    const std::vector<std::string> files = TableFiles();
    ASSERT_EQ(1u, files.size());
    table->path = files[0];
    std::ifstream file(table->path, std::ios::binary);
    table->bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    options_.table_factory.reset(NewOrderedTableFactory(table_));
  }

  test::TempDir directory_;
  const std::string path_ = directory_.path();
  Options options_;
  BlockBasedTableOptions table_;
  bool ranges_ = true;
  std::unique_ptr<DB> ordered_;
};

// DBIter passes over a few made-up keys that are alike and then seeks what they say: that must be nearer to a key.
TEST_F(OrderedTest, SeeksOfTablesWithTheSameKeysEnd) {
  options_.disable_auto_compactions = true;
  Open();
  Random random(Seed());
  std::set<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.insert(Key(random() % 100000000));
  for (int run = 0; run < 12; ++run) {
    for (const std::string& key : keys) ASSERT_OK(ordered_->Put({}, key, "value"));
    ASSERT_OK(ordered_->Flush({}));
  }
  for (const char* passed : {"8", "0"}) {
    ASSERT_OK(ordered_->SetOptions({{"max_sequential_skip_in_iterations", passed}}));
    const std::unique_ptr<rocksdb::Iterator> it(ordered_->NewIterator({}));
    for (int i = 0; i < 2000; ++i) {
      const std::string target = Key(random() % 100000000);
      it->Seek(target);
      const auto key = keys.lower_bound(target);
      ASSERT_EQ(it->Valid(), key != keys.end());
      if (it->Valid()) {
        ASSERT_EQ(*key, it->key());
      }
    }
    ASSERT_OK(it->status());
  }
}

TEST_F(OrderedTest, ASeekReadsWhatItReturns) {
  options_.disable_auto_compactions = true;
  Open();
  Random random(Seed());
  ranges_ = false;
  for (int run = 0; run < 12; ++run) Write(&random, 600);
  const std::unique_ptr<DB> stock = OpenStock();
  ASSERT_TRUE(stock != nullptr);
  uint64_t blocks[2] = {};
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  for (int ordered = 0; ordered < 2; ++ordered) {
    Random targets(5);
    rocksdb::get_perf_context()->Reset();
    const std::unique_ptr<rocksdb::Iterator> it((ordered == 1 ? ordered_ : stock)->NewIterator({}));
    for (int i = 0; i < 2000; ++i) it->Seek(Key(targets() % kSpace));
    blocks[ordered] =
        rocksdb::get_perf_context()->block_cache_hit_count + rocksdb::get_perf_context()->block_read_count;
  }
  rocksdb::SetPerfLevel(rocksdb::kDisable);
  EXPECT_GT(blocks[0], 2000u * 11);
  EXPECT_LT(blocks[1], 2000u * 18 / 10);
}

// The bytes of a mapped file go with its reader; a cache that outlives the reader must not refer to them.
TEST_F(OrderedTest, ACachedFilterOfAMappedFileOutlivesItsReader) {
  options_.allow_mmap_reads = true;
  table_.cache_index_and_filter_blocks = true;
  table_.block_cache = rocksdb::NewLRUCache(8 << 20);
  Open();
  for (uint64_t n = 0; n < 4000; ++n) ASSERT_OK(ordered_->Put({}, Key(n * 2), "value"));
  ASSERT_OK(ordered_->Flush({}));
  std::string value;
  ASSERT_OK(ordered_->Get({}, Key(2), &value));
  ordered_.reset();
  // Whatever is mapped next may lie where the file was.
  const std::vector<std::string> noise(64, std::string(1 << 20, 'x'));
  Open();
  for (uint64_t n = 0; n < 4000; ++n) ASSERT_OK(ordered_->Get({}, Key(n * 2), &value));
}

// A table whose blocks would not shrink is compressed by its properties alone.
TEST_F(OrderedTest, AGetReadsAMappedBlockOnce) {
  options_.allow_mmap_reads = true;
  options_.compression = rocksdb::kLZ4Compression;
  Open();
  Random random(Seed());
  for (uint64_t n = 0; n < 400; ++n) {
    std::string noise(200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    ASSERT_OK(ordered_->Put({}, Key(n * 2), noise));
  }
  ASSERT_OK(ordered_->Flush({}));
  std::string value;
  ASSERT_OK(ordered_->Get({}, Key(2), &value));
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  for (uint64_t n = 0; n < 400; ++n) ASSERT_OK(ordered_->Get({}, Key(n * 2), &value));
  rocksdb::SetPerfLevel(rocksdb::kDisable);
  EXPECT_EQ(400u, rocksdb::get_perf_context()->block_read_count);
}

// RocksDB's count of written bytes is that of the files.
TEST_F(OrderedTest, WhatIsWrittenIsCountedOnce) {
  options_.statistics = rocksdb::CreateDBStatistics();
  options_.disable_auto_compactions = true;
  Open();
  Random random(Seed());
  Write(&random, 3000);
  uint64_t sizes = 0;
  for (const std::string& file : TableFiles()) sizes += std::filesystem::file_size(file);
  // Besides tables, a flush writes a line of the MANIFEST.
  EXPECT_NEAR(static_cast<double>(sizes),
              static_cast<double>(options_.statistics->getTickerCount(rocksdb::FLUSH_WRITE_BYTES)),
              1024.0 * static_cast<double>(TableFiles().size()));
  rocksdb::ColumnFamilyMetaData meta;
  ordered_->GetColumnFamilyMetaData(&meta);
  EXPECT_EQ(sizes, meta.size);
}

// A compaction that ends with an error or a shutdown closes its file before its builder.
TEST_F(OrderedTest, ABuilderMayOutliveItsFile) {
  options_.table_factory.reset(NewOrderedTableFactory(table_));
  const rocksdb::ImmutableOptions immutable(options_);
  const rocksdb::MutableCFOptions changeable(options_);
  const rocksdb::InternalKeyComparator comparator(rocksdb::BytewiseComparator());
  const rocksdb::InternalTblPropCollFactories collectors;
  const ReadOptions read;
  const rocksdb::WriteOptions write;
  const std::string family = "default";
  const rocksdb::TableBuilderOptions build(immutable, changeable, read, write, comparator, &collectors,
                                           options_.compression, options_.compression_opts, 0, family, -1, 0);
  for (const int keys : {1, 100, 20000}) {
    const std::string name = path_ + "/given_up";
    std::unique_ptr<rocksdb::FSWritableFile> file;
    ASSERT_OK(immutable.fs->NewWritableFile(name, rocksdb::FileOptions(), &file, nullptr));
    auto writer = std::make_unique<rocksdb::WritableFileWriter>(std::move(file), name, rocksdb::FileOptions());
    std::unique_ptr<rocksdb::TableBuilder> builder(options_.table_factory->NewTableBuilder(build, writer.get()));
    for (int i = 0; i < keys; ++i) {
      std::string key;
      rocksdb::AppendInternalKey(&key, {Key(static_cast<uint64_t>(i)), 1, rocksdb::kTypeValue});
      builder->Add(key, "value");
    }
    builder->Abandon();
    ASSERT_OK(writer->Close(rocksdb::IOOptions()));
    const uint64_t written = writer->GetFileSize();
    writer.reset();
    builder.reset();
    EXPECT_EQ(written, std::filesystem::file_size(name));
  }
}

TEST_F(OrderedTest, IsOneOfRocksDBsBlockBasedTables) {
  Open();
  const auto& factory = ordered_->GetOptions().table_factory;
  EXPECT_STREQ("cairn.OrderedTable", factory->Name());
  EXPECT_TRUE(factory->IsInstanceOf("BlockBasedTable"));
  ASSERT_TRUE(factory->CheckedCast<OrderedTableFactory>() != nullptr);
  ASSERT_TRUE(factory->GetOptions<BlockBasedTableOptions>() != nullptr);
  EXPECT_EQ(512u, factory->GetOptions<BlockBasedTableOptions>()->block_size);
  // RocksDB reserves this for block-based tables.
  ordered_.reset();
  options_.ttl = 1000;
  options_.periodic_compaction_seconds = 2000;
  Open();
}

// What a table in the making holds of an order filter, as RocksDB's own filters: only if it is asked for.
TEST_F(OrderedTest, ABuilderIsChargedToTheBlockCache) {
  using Decision = rocksdb::CacheEntryRoleOptions::Decision;
  for (const Decision decision : {Decision::kFallback, Decision::kEnabled}) {
    BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(64 << 20);
    table.cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kFilterConstruction].charged = decision;
    Options options;
    options.table_factory.reset(NewOrderedTableFactory(table));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    ASSERT_OK(writer.Open(path_ + "/charged"));
    Random random(Seed());
    char key[64];
    for (int i = 0; i < 50000; ++i) {
      snprintf(key, sizeof(key), "%08d/%016llx%016llx", i, static_cast<unsigned long long>(random()),
               static_cast<unsigned long long>(random()));
      ASSERT_OK(writer.Put(key, "value"));
    }
    const size_t charged = table.block_cache->GetPinnedUsage();
    // 41 bytes of each of these keys; RocksDB charges in pieces of 256 KiB.
    if (decision == Decision::kEnabled) {
      EXPECT_LT(50000u * 41 - (256u << 10), charged);
    } else {
      EXPECT_EQ(0u, charged);
    }
    ASSERT_OK(writer.Finish());
    EXPECT_EQ(0u, table.block_cache->GetPinnedUsage());
  }
}

TEST_F(OrderedTest, ComesBackFromAnOptionString) {
  rocksdb::ConfigOptions config;
  std::shared_ptr<rocksdb::TableFactory> factory;
  ASSERT_OK(rocksdb::TableFactory::CreateFromString(config,
                                                    "id=cairn.OrderedTable;order_bits=7.5;extra_order_bits=1;tombstone_"
                                                    "run=99;block_size=8192;filter_policy=bloomfilter:12",
                                                    &factory));
  const auto* ordered = factory->CheckedCast<OrderedTableFactory>();
  ASSERT_TRUE(ordered != nullptr);
  EXPECT_EQ(7.5, ordered->filter().order_bits);
  EXPECT_EQ(1, ordered->filter().extra_order_bits);
  EXPECT_EQ(99u, ordered->filter().tombstone_run);
  EXPECT_EQ(8192u, factory->GetOptions<BlockBasedTableOptions>()->block_size);
  const std::unique_ptr<rocksdb::TableFactory> clone = factory->Clone();
  const std::string text = factory->ToString(config);
  EXPECT_EQ(text, clone->ToString(config));
  std::shared_ptr<rocksdb::TableFactory> again;
  ASSERT_OK(rocksdb::TableFactory::CreateFromString(config, text, &again));
  std::string mismatch;
  EXPECT_TRUE(factory->AreEquivalent(config, again.get(), &mismatch)) << mismatch;
  EXPECT_NE(std::string::npos, factory->GetPrintableOptions().find("order_bits: 7.5"));
  EXPECT_NE(std::string::npos, factory->GetPrintableOptions().find("tombstone_run: 99"));
}

TEST_F(OrderedTest, BadOptionsAreRefused) {
  for (const char* text : {"order_bits=1", "order_bits=21", "extra_order_bits=-1", "order_bits=nan"}) {
    rocksdb::ConfigOptions config;
    std::shared_ptr<rocksdb::TableFactory> factory;
    ASSERT_OK(rocksdb::TableFactory::CreateFromString(config, std::string("id=cairn.OrderedTable;") + text, &factory));
    options_.table_factory = factory;
    DB* db = nullptr;
    EXPECT_TRUE(DB::Open(options_, path_, port::Into(&db)).IsInvalidArgument()) << text;
    delete db;
  }
}

TEST_F(OrderedTest, WhoNeedsRealKeysGetsThem) {
  options_.disable_auto_compactions = true;
  Open();
  Random random(Seed());
  for (int run = 0; run < 4; ++run) Write(&random, 500);
  const auto seek = [this](const ReadOptions& read) {
    const std::unique_ptr<rocksdb::Iterator> it(ordered_->NewIterator(read));
    for (int i = 0; i < 100; ++i) it->Seek(Key(static_cast<uint64_t>(i) * 190));
    EXPECT_TRUE(it->status().ok());
  };
  seek({});
  uint64_t deferred = Seeks().deferred;
  EXPECT_GT(deferred, 100u);
  ReadOptions tailing, pinned, counting;
  tailing.tailing = true;
  pinned.pin_data = true;
  counting.max_skippable_internal_keys = 1000;
  for (const ReadOptions& read : {tailing, pinned, counting}) seek(read);
  std::vector<rocksdb::KeyVersion> versions, stock_versions;
  ASSERT_OK(rocksdb::GetAllKeyVersions(ordered_.get(), "", "", 1000000, &versions));
  EXPECT_EQ(deferred, Seeks().deferred);
  for (const rocksdb::KeyVersion& version : versions) {
    EXPECT_EQ(11u, version.user_key.size());
    EXPECT_LT(version.sequence, rocksdb::kMaxSequenceNumber);
  }
  // A compaction, too.
  ASSERT_OK(ordered_->CompactRange({}, nullptr, nullptr));
  EXPECT_EQ(deferred, Seeks().deferred);
}

// A placeholder that still stands is resolved for the newest target: RocksDB's iterator asks its Bloom filter for the
// prefix of what is sought, and that of the target before may not be in the table.
TEST_F(OrderedTest, APlaceholderStandsForTheNewestTargetsPrefix) {
  options_.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(9));
  options_.disable_auto_compactions = true;
  Open();
  // Prefixes take turns between two tables, so that a seek of one leaves a placeholder in the other table.
  for (const uint64_t table : {0, 1}) {
    for (uint64_t prefix = table; prefix < 200; prefix += 2) ASSERT_OK(ordered_->Put({}, Key(prefix * 100 + 90), "v"));
    ASSERT_OK(ordered_->Flush({}));
  }
  for (const bool same : {false, true}) {
    ReadOptions read;
    read.prefix_same_as_start = same;
    const std::unique_ptr<rocksdb::Iterator> it(ordered_->NewIterator(read));
    for (uint64_t prefix = 0; prefix < 200; ++prefix) {
      it->Seek(Key(prefix * 100));
      ASSERT_TRUE(it->Valid()) << prefix << " " << it->status().ToString();
      EXPECT_EQ(it->key(), Key(prefix * 100 + 90));
    }
  }
}

TEST_F(OrderedTest, SnapshotsSeeWhatTheySaw) {
  options_.disable_auto_compactions = true;
  Open();
  Random random(Seed());
  Write(&random, 3000);
  const rocksdb::Snapshot* const snapshot = ordered_->GetSnapshot();
  const Entries before = AllEntries(snapshot);
  for (int run = 0; run < 5; ++run) Write(&random, 1000);
  EXPECT_EQ(before, AllEntries(snapshot));
  EXPECT_NE(before, AllEntries());
  ReadOptions read;
  read.snapshot = snapshot;
  const std::unique_ptr<rocksdb::Iterator> it(ordered_->NewIterator(read));
  for (int i = 0; i < 500; ++i) {
    const std::string target = Key(random() % kSpace);
    it->Seek(target);
    const auto expected = before.lower_bound(target);
    ASSERT_EQ(expected != before.end(), it->Valid());
    if (it->Valid()) {
      ASSERT_EQ(expected->first, it->key().ToString());
    }
  }
  ordered_->ReleaseSnapshot(snapshot);
}

TEST_F(OrderedTest, TablesSayWhatTheirFiltersAre) {
  Open();
  Random random(Seed());
  Write(&random, 3000);
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(ordered_->GetPropertiesOfAllTables(&tables));
  ASSERT_FALSE(tables.empty());
  for (const auto& [name, properties] : tables) {
    OrderFacts facts;
    const auto found = properties->user_collected_properties.find(kOrderProperty);
    ASSERT_TRUE(found != properties->user_collected_properties.end()) << name;
    ASSERT_TRUE(DecodeOrderFacts(found->second, &facts)) << found->second;
    EXPECT_GT(facts.keys, 0u);
    EXPECT_GT(facts.bytes, 0u);
    EXPECT_GE(facts.error, 0);
    EXPECT_LT(facts.error, 0.5);
  }
}

// Readers of single files never defer, so the filter's own bytes, and those behind them, are asked through a database:
// its seeks and lookups go by the filter.
TEST_F(OrderedTest, NoByteOfAFilterMayLie) {
  Random random(Seed());
  OneTable table;
  ASSERT_NO_FATAL_FAILURE(WriteOneTable(&random, &table));
  // The filter is the last block but the metaindex.
  const size_t found = table.bytes.rfind("COF2");
  ASSERT_NE(std::string::npos, found);
  ASSERT_LT(found + table.stats.filter_bytes, table.bytes.size());
  size_t refused = 0, unfiltered = 0, filtered = 0;
  for (size_t at = found; at < table.bytes.size(); ++at) {
    table.Damage(at, &random);
    options_.table_factory.reset(NewOrderedTableFactory(table_));
    std::unique_ptr<DB> db;
    const Status s = DB::OpenForReadOnly(options_, path_, port::Into(&db));
    if (!s.ok()) {
      ++refused;
      continue;
    }
    for (int i = 0; i < 20; ++i) {
      const std::string target = Key(random() % kSpace);
      const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
      it->Seek(target);
      const auto next = table.entries.lower_bound(target);
      std::string value;
      const Status got = db->Get({}, target, &value);
      if (it->status().IsCorruption() || got.IsCorruption()) continue;
      ASSERT_OK(it->status());
      ASSERT_EQ(next != table.entries.end(), it->Valid()) << "byte " << at;
      ASSERT_TRUE(!it->Valid() || (next->first == it->key() && next->second == it->value())) << "byte " << at;
      ASSERT_EQ(table.entries.count(target) != 0, got.ok()) << "byte " << at << ": " << got.ToString();
    }
    const OrderedSeekStats seeks = options_.table_factory->CheckedCast<OrderedTableFactory>()->SeekStats();
    ++(seeks.unfiltered == 0 ? filtered : unfiltered);
  }
  printf("%zu refused, %zu read without the filter, %zu with it\n", refused, unfiltered, filtered);
  EXPECT_GT(unfiltered, 0u);
  table.Mend();
}

}  // namespace
}  // namespace cairn
