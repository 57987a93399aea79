// Iterators over many runs that hold the same keys, beside RocksDB's own table in a database that was written alike:
// the answers are the same, and no step takes more of RocksDB's steps than the runs explain. Where made-up keys led
// RocksDB to make up more of them, a step would not end; here its budget runs out.
//
// CAIRN_RUNS_ROUNDS=1000 lets it run for long, CAIRN_RUNS_ROUND=SEED runs one round again.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/ordered.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/ordered/ordered_table.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/close_keys.h"
#include "test/testutil/random.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "utilities/merge_operators.h"

namespace {
thread_local uint64_t passed_entries = 0;
thread_local uint64_t passed_limit = UINT64_MAX;
}  // namespace

// RocksDB calls it for each entry that an iterator passes over, and ends the call with Aborted if it says so.
extern "C" bool RocksDbThreadYieldAndCheckAbort() { return ++passed_entries > passed_limit; }

namespace cairn {
namespace {

using rocksdb::BlockBasedTableOptions;
using test::Near;
using test::Printable;
using test::Random;

constexpr int kDatabases = 2;  // with RocksDB's table, and with ours

// Each round but one in 16 has one of these, by its seed.
using RareOption = void (*)(Options*, BlockBasedTableOptions*);
constexpr RareOption kRareOptions[] = {
    [](Options*, BlockBasedTableOptions*) {},
    [](Options* o, BlockBasedTableOptions*) { o->compaction_style = rocksdb::kCompactionStyleUniversal; },
    [](Options* o, BlockBasedTableOptions*) {
      o->compression = rocksdb::kZSTD;
      o->compression_opts.max_dict_bytes = 4096;
    },
    [](Options* o, BlockBasedTableOptions*) {
      o->compression = rocksdb::kZSTD;
      o->compression_opts.parallel_threads = 2;
    },
    [](Options*, BlockBasedTableOptions* t) {
      t->format_version = 2;
      t->checksum = rocksdb::kCRC32c;
    },
    [](Options*, BlockBasedTableOptions* t) { t->format_version = 5; },
    [](Options*, BlockBasedTableOptions* t) { t->checksum = rocksdb::kNoChecksum; },
    [](Options*, BlockBasedTableOptions* t) {
      t->block_align = true;
      t->block_size = 4096;
    },
    [](Options* o, BlockBasedTableOptions*) { o->use_direct_io_for_flush_and_compaction = true; },
    [](Options*, BlockBasedTableOptions* t) {
      t->block_cache = rocksdb::HyperClockCacheOptions(256 << 10, 0).MakeSharedCache();
    },
    [](Options*, BlockBasedTableOptions* t) {
      rocksdb::LRUCacheOptions cache(32 << 10, 0, false, 0.5);
      cache.secondary_cache = rocksdb::NewCompressedSecondaryCache(1 << 20);
      t->block_cache = cache.MakeSharedCache();
    },
    [](Options* o, BlockBasedTableOptions*) { o->max_open_files = 10; },
    [](Options*, BlockBasedTableOptions* t) {
      t->cache_index_and_filter_blocks = !t->no_block_cache;
      t->metadata_cache_options.unpartitioned_pinning = rocksdb::PinningTier::kAll;
    },
    [](Options*, BlockBasedTableOptions* t) { t->metadata_block_size = 512; },
    [](Options*, BlockBasedTableOptions* t) { t->index_block_restart_interval = 5; },
    [](Options*, BlockBasedTableOptions* t) { t->read_amp_bytes_per_bit = 32; },
};
constexpr int kRare = sizeof(kRareOptions) / sizeof(kRareOptions[0]);

class OrderedRunsTest : public testing::Test {
 protected:
  struct Shape {
    Options options;
    BlockBasedTableOptions table;
    OrderFilterOptions filter;
    int runs = 0;
    bool transactions = false;
  };

  Shape MakeShape(Random* random) {
    Shape shape;
    Options& options = shape.options;
    BlockBasedTableOptions& table = shape.table;
    options.create_if_missing = true;
    options.disable_auto_compactions = true;
    options.level0_file_num_compaction_trigger = 1000;
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    options.target_file_size_base = random->OneIn(2) ? 2 << 10 : 64 << 10;
    options.num_levels = 5;
    options.compression = rocksdb::kNoCompression;
    options.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options.max_sequential_skip_in_iterations = std::vector<uint64_t>{0, 1, 2, 8, 8, 1000}[random->Uniform(6)];
    if (random->OneIn(4)) {
      options.enable_blob_files = true;
      options.min_blob_size = 8;
    }
    if (random->OneIn(5)) {
      options.prefix_extractor.reset(random->OneIn(2) ? rocksdb::NewFixedPrefixTransform(1 + random->Uniform(4))
                                                      : rocksdb::NewCappedPrefixTransform(1 + random->Uniform(4)));
      if (random->OneIn(2)) table.index_type = BlockBasedTableOptions::kHashSearch;
    }
    table.block_size = 64 << random->Uniform(7);
    table.block_restart_interval = static_cast<int>(1 + random->Uniform(16));
    if (random->OneIn(6)) table.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
    if (!random->OneIn(4)) {
      table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(2.0 + static_cast<double>(random->Uniform(10))));
      table.whole_key_filtering = !random->OneIn(4);
    }
    if (random->OneIn(3)) table.block_cache = rocksdb::NewLRUCache(random->OneIn(2) ? 1 << 20 : 8 << 10, 0);
    if (random->OneIn(8)) table.no_block_cache = true;
    if (!table.no_block_cache && random->OneIn(3)) table.cache_index_and_filter_blocks = true;
    shape.filter.order_bits = std::vector<double>{2.5, 4, 6, 6, 12, 20}[random->Uniform(6)];
    shape.runs = static_cast<int>(random->OneIn(4) ? 3 + random->Uniform(8) : 10 + random->Uniform(50));
    shape.transactions = random->OneIn(3);
    if (odd_) MakeOdd(random, &shape);
    kRareOptions[rare_](&options, &table);
    return shape;
  }

  static void MakeOdd(Random* random, Shape* shape) {
    BlockBasedTableOptions& table = shape->table;
    if (random->OneIn(3)) table.index_type = BlockBasedTableOptions::kBinarySearchWithFirstKey;
    if (random->OneIn(3)) table.index_shortening = BlockBasedTableOptions::IndexShorteningMode::kNoShortening;
    if (random->OneIn(3)) table.data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
    table.partition_filters = table.index_type == BlockBasedTableOptions::kTwoLevelIndexSearch;
    shape->options.allow_mmap_reads = random->OneIn(3);
    if (random->OneIn(4)) shape->options.block_protection_bytes_per_key = 1;
  }

  void Open(const Shape& shape) {
    shape_ = shape;
    for (int i = 0; i < kDatabases; ++i) {
      Options options = shape.options;
      options.table_factory.reset(i == 0 ? rocksdb::NewBlockBasedTableFactory(shape.table)
                                         : NewOrderedTableFactory(shape.table, shape.filter));
      path_[i] = directory_.path() + "/" + std::to_string(++opened_);
      if (shape.transactions) {
        rocksdb::TransactionDB* db = nullptr;
        ASSERT_OK(rocksdb::TransactionDB::Open(options, {}, path_[i], &db));
        db_[i].reset(db);
      } else {
        DB* db = nullptr;
        ASSERT_OK(DB::Open(options, path_[i], port::Into(&db)));
        db_[i].reset(db);
      }
    }
  }
  void Close() {
    for (int i = 0; i < kDatabases; ++i) {
      for (const rocksdb::Snapshot* snapshot : snapshots_[i]) db_[i]->ReleaseSnapshot(snapshot);
      snapshots_[i].clear();
      db_[i].reset();
      ASSERT_OK(rocksdb::DestroyDB(path_[i], shape_.options));
    }
  }

  template <class Function>
  void Both(const Function& function) {
    for (int i = 0; i < kDatabases; ++i) {
      SCOPED_TRACE(i == 0 ? "with RocksDB's table" : "with the ordered table");
      ASSERT_OK(function(db_[i].get()));
    }
  }

  const std::string& AnyKey(Random* random) const { return keys_[random->Uniform(keys_.size())]; }

  void WriteRun(Random* random, int run) {
    const uint64_t share = random->OneIn(3) ? 1 + random->Uniform(100) : 100;  // of the keys, in percent
    const uint64_t deletes = random->OneIn(3) ? random->Uniform(100) : 3, merges = random->OneIn(3) ? 50 : 3;
    const std::string value = "v" + std::to_string(run) + std::string(random->OneIn(3) ? 100 : 0, 'v');
    const uint64_t seed = random->Next();
    Both([&](DB* db) {
      Random same(seed);
      rocksdb::WriteBatch batch;
      for (const std::string& key : keys_) {
        if (same.Uniform(100) >= share) continue;
        if (same.Uniform(100) < deletes) {
          batch.Delete(key).PermitUncheckedError();
        } else if (same.Uniform(100) < merges) {
          batch.Merge(key, value).PermitUncheckedError();
        } else if (!shape_.transactions && same.OneIn(30)) {
          batch.PutEntity(db->DefaultColumnFamily(), key, {{"", value}, {"b", value}}).PermitUncheckedError();
        } else {
          batch.Put(key, value).PermitUncheckedError();
        }
      }
      return db->Write({}, &batch);
    });
    while (!shape_.transactions && random->OneIn(3)) {
      std::string begin = Near(AnyKey(random), random), end = Near(AnyKey(random), random);
      if (begin > end) std::swap(begin, end);
      has_ranges_ = true;
      Both([&](DB* db) { return db->DeleteRange({}, db->DefaultColumnFamily(), begin, end); });
    }
    if (random->OneIn(8)) {
      for (int i = 0; i < kDatabases; ++i) snapshots_[i].push_back(db_[i]->GetSnapshot());
    }
    if (!random->OneIn(20)) Both([](DB* db) { return db->Flush({}); });
    if (random->OneIn(12)) IngestRun(run);
    if (random->OneIn(15)) {
      has_compacted_ = true;
      rocksdb::CompactRangeOptions how;
      how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
      if (random->OneIn(2)) {
        how.change_level = true;
        how.target_level = static_cast<int>(1 + random->Uniform(4));
      }
      for (int i = 0; i < kDatabases; ++i) db_[i]->CompactRange(how, nullptr, nullptr).PermitUncheckedError();
    }
  }

  void IngestRun(int run) {
    const std::string path = directory_.path() + "/ingested";
    rocksdb::SstFileWriter writer({}, shape_.options);
    ASSERT_OK(writer.Open(path));
    for (const std::string& key : keys_) {
      ASSERT_OK(writer.Put(key, "ingested" + std::to_string(run)));
    }
    ASSERT_OK(writer.Finish());
    rocksdb::IngestExternalFileOptions ingest;
    ingest.write_global_seqno = run % 2 == 0;
    Both([&](DB* db) { return db->IngestExternalFile({path}, ingest); });
  }

  struct Bounds {
    std::string lower, upper;
    Slice lower_slice, upper_slice;
  };

  ReadOptions MakeReadOptions(Random* random, Bounds* bounds, size_t* snapshot) const {
    ReadOptions read;
    bounds->lower = Near(AnyKey(random), random);
    bounds->upper = Near(AnyKey(random), random);
    if (bounds->upper < bounds->lower) std::swap(bounds->lower, bounds->upper);
    bounds->lower_slice = bounds->lower;
    bounds->upper_slice = bounds->upper;
    if (random->OneIn(3)) read.iterate_upper_bound = &bounds->upper_slice;
    if (random->OneIn(4)) read.iterate_lower_bound = &bounds->lower_slice;
    read.async_io = random->OneIn(6);
    read.readahead_size = random->OneIn(6) ? 4096 : 0;
    read.fill_cache = !random->OneIn(4);
    read.auto_readahead_size = random->OneIn(2);
    read.adaptive_readahead = random->OneIn(2);
    read.background_purge_on_iterator_cleanup = random->OneIn(2);
    read.allow_unprepared_value = random->OneIn(3);
    // What a compaction has dropped depends on how tables are cut, by their bytes.
    read.ignore_range_deletions = random->OneIn(10) && !has_compacted_;
    read.pin_data = random->OneIn(12);
    read.tailing = random->OneIn(16) && !has_ranges_;
    if (read.tailing) read.iterate_lower_bound = nullptr;
    if (shape_.options.prefix_extractor != nullptr) {
      const uint64_t mode = random->Uniform(3);
      read.total_order_seek = mode == 0;
      read.auto_prefix_mode = mode == 1;
      read.prefix_same_as_start = mode == 2;
      if (mode == 2) read.iterate_lower_bound = nullptr;
    }
    // Until then their tables are cut alike.
    if (!has_compacted_ && random->OneIn(6)) {
      read.table_filter = [](const rocksdb::TableProperties& table) { return table.num_entries % 3 != 0; };
    }
    if (!has_compacted_ && random->OneIn(12)) read.max_skippable_internal_keys = 5;
    if (odd_) read.verify_checksums = random->OneIn(2);
    if (alone_ || (odd_ && read.table_filter == nullptr && random->OneIn(2)))
      read.table_filter = [](const rocksdb::TableProperties&) { return true; };
    *snapshot =
        snapshots_[0].empty() || read.tailing || random->OneIn(2) ? SIZE_MAX : random->Uniform(snapshots_[0].size());
    return read;
  }

  struct Step {
    enum Kind { kSeek, kSeekForPrev, kFirst, kLast, kNext, kPrev, kRefresh } kind = kSeek;
    std::string target;
  };

  // What the step came to; *passed entries, *sought children of RocksDB's merging iterator.
  static std::string Take(const Step& step, const ReadOptions& read, Iterator* it, uint64_t* passed, uint64_t* sought) {
    rocksdb::get_perf_context()->Reset();
    passed_entries = 0;
    switch (step.kind) {
      case Step::kSeek:
        it->Seek(step.target);
        break;
      case Step::kSeekForPrev:
        it->SeekForPrev(step.target);
        break;
      case Step::kFirst:
        it->SeekToFirst();
        break;
      case Step::kLast:
        it->SeekToLast();
        break;
      case Step::kNext:
        it->Next();
        break;
      case Step::kPrev:
        it->Prev();
        break;
      case Step::kRefresh:
        if (it->Refresh(read.snapshot).ok()) it->SeekToFirst();
        break;
    }
    *passed = passed_entries;
    *sought = rocksdb::get_perf_context()->seek_child_seek_count;
    if (it->Valid() && read.allow_unprepared_value && !it->PrepareValue()) return "not prepared";
    if (!it->Valid()) return it->status().ToString();
    std::string seen = Printable(it->key()) + "=" + it->value().ToString();
    for (const rocksdb::WideColumn& column : it->columns()) {
      seen += " " + column.name().ToString() + ":" + column.value().ToString();
    }
    return seen;
  }

  Iterator* NewIterator(int i, const ReadOptions& read, rocksdb::Transaction* transaction) {
    return transaction != nullptr ? transaction->GetIterator(read) : db_[i]->NewIterator(read);
  }

  void Walk(uint64_t seed) {
    Random random(seed);
    Bounds bounds;
    size_t snapshot = 0;
    ReadOptions read = MakeReadOptions(&random, &bounds, &snapshot);
    std::unique_ptr<rocksdb::Transaction> transactions[kDatabases];
    std::unique_ptr<Iterator> its[kDatabases];
    const bool in_transaction = shape_.transactions && !read.tailing && !read.prefix_same_as_start && random.OneIn(2);
    std::vector<std::string> own;
    for (uint64_t i = random.Uniform(4); i > 0; --i) own.push_back(Near(AnyKey(&random), &random));
    ReadOptions reads[kDatabases];
    for (int i = 0; i < kDatabases; ++i) {
      reads[i] = read;
      if (snapshot != SIZE_MAX) reads[i].snapshot = snapshots_[i][snapshot];
      if (in_transaction) {
        transactions[i].reset(static_cast<rocksdb::TransactionDB*>(db_[i].get())->BeginTransaction({}));
        for (const std::string& key : own) ASSERT_OK(transactions[i]->Put(key, "own"));
      }
      its[i].reset(NewIterator(i, reads[i], transactions[i].get()));
    }
    std::string last = AnyKey(&random);
    std::string walked = std::string(read.tailing ? " tailing" : "") +
                         (read.ignore_range_deletions ? " ignoring ranges" : "") + (read.pin_data ? " pinned" : "") +
                         (read.async_io ? " async" : "") + (in_transaction ? " in a transaction" : "");
    for (int i = 0; i < 40; ++i) {
      Step step;
      const bool valid = its[0]->Valid();
      const uint64_t choice = random.Uniform(20);
      if (choice < 5 || (!valid && choice >= 8)) {
        step.kind = Step::kSeek;
      } else if (choice == 5) {
        step.kind = Step::kSeekForPrev;
      } else if (choice == 6) {
        step.kind = random.OneIn(2) ? Step::kFirst : Step::kLast;
      } else if (choice == 7) {
        step.kind = random.OneIn(3) && !read.tailing && !in_transaction ? Step::kRefresh : Step::kSeek;
      } else {
        step.kind = choice < 16 ? Step::kNext : Step::kPrev;
      }
      const bool backward = step.kind == Step::kSeekForPrev || step.kind == Step::kLast || step.kind == Step::kPrev;
      if (backward && (read.tailing || read.auto_prefix_mode)) step.kind = valid ? Step::kNext : Step::kSeek;
      // Within a prefix, RocksDB only knows forward steps from a key that has one.
      if (read.prefix_same_as_start && step.kind != Step::kNext) step.kind = Step::kSeek;
      if (step.kind == Step::kSeek || step.kind == Step::kSeekForPrev) {
        step.target =
            random.OneIn(2) && valid ? Near(its[0]->key().ToString(), &random) : Near(AnyKey(&random), &random);
        if (read.prefix_same_as_start && !shape_.options.prefix_extractor->InDomain(step.target)) continue;
      }
      walked += " " + std::to_string(step.kind) + ":" + Printable(step.target);
      uint64_t passed = 0, sought = 0, passed_here = 0, sought_here = 0;
      passed_limit = UINT64_MAX;
      const std::string stock = Take(step, reads[0], its[0].get(), &passed, &sought);
      const auto runs = static_cast<uint64_t>(shape_.runs) + 8;
      passed_limit = kTimes * (passed + runs);
      const std::string ours = Take(step, reads[1], its[1].get(), &passed_here, &sought_here);
      passed_limit = UINT64_MAX;
      ASSERT_EQ(stock, ours) << "walk " << seed << " step " << i << walked;
      ASSERT_EQ(its[0]->Valid(), its[1]->Valid()) << "walk " << seed << " step " << i << walked;
      ASSERT_LE(sought_here, kTimes * (sought + runs)) << "walk " << seed << " step " << i << walked;
      worst_ = std::max(worst_, static_cast<double>(sought_here) / static_cast<double>(sought + runs));
      worst_ = std::max(worst_, static_cast<double>(passed_here) / static_cast<double>(passed + runs));
      if (its[0]->Valid() && (step.kind == Step::kSeek && random.OneIn(2))) last = its[0]->key().ToString();
    }
  }

  // What a step may take more than RocksDB's: each run's made-up keys lead it to seek all of them a few times.
  static constexpr uint64_t kTimes = 12;

  void Round(uint64_t seed) {
    Random random(seed);
    odd_ = seed % 2 == 1;
    rare_ = seed / 2 % kRare;
    const Shape shape = MakeShape(&random);
    keys_ = test::MakeKeys(&random);
    // RocksDB's own fixed prefixes read beyond shorter keys.
    if (shape.options.prefix_extractor != nullptr && shape.options.prefix_extractor->Name()[8] == 'F') {
      for (std::string& key : keys_) key.insert(0, "pref");
    }
    has_ranges_ = has_compacted_ = false;
    Open(shape);
    if (HasFatalFailure()) return;
    for (int run = 0; run < shape.runs && !HasFailure(); ++run) WriteRun(&random, run);
    for (int i = 0; i < 60 && !HasFailure(); ++i) Walk(random.Next());
    ASSERT_OK(db_[1]->VerifyChecksum());
    const OrderedSeekStats seeks = db_[1]->GetOptions().table_factory->CheckedCast<OrderedTableFactory>()->SeekStats();
    deferred_ += seeks.deferred;
    past_bound_ += seeks.past_bound;
    Close();
  }

  test::TempDir directory_;
  std::string path_[kDatabases];
  int opened_ = 0;
  Shape shape_;
  std::vector<std::string> keys_;
  std::unique_ptr<DB> db_[kDatabases];
  std::vector<const rocksdb::Snapshot*> snapshots_[kDatabases];
  bool has_ranges_ = false, has_compacted_ = false;
  size_t rare_ = 0;  // of kRareOptions
  uint64_t deferred_ = 0, past_bound_ = 0;
  bool odd_ = false;    // tables are of a shape that few have
  bool alone_ = false;  // each table has an iterator of its own
  double worst_ = 0;
};

TEST_F(OrderedRunsTest, EveryStepEndsWhereRocksDBsDoes) {
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  const char* const one = getenv("CAIRN_RUNS_ROUND");
  if (one != nullptr) return Round(strtoull(one, nullptr, 0));
  const char* const given = getenv("CAIRN_RUNS_ROUNDS");
  const int rounds = given != nullptr ? atoi(given) : kRare;
  Random random(Seed());
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const uint64_t seed =
        (random.Next() / kRare * kRare + static_cast<uint64_t>(round) % kRare) * 2 + random.Uniform(2);
    SCOPED_TRACE("round of seed " + std::to_string(seed));
    Round(seed);
  }
  EXPECT_GT(deferred_, 0u);
  EXPECT_GT(past_bound_, 0u);
  printf("at most %.1f times what a step of RocksDB takes and a look at each run\n", worst_);
}

// Runs of the same keys, of which a seek once had no end.
TEST_F(OrderedRunsTest, MadeUpKeysDoNotLeadToOthers) {
  Round(710100233786309728);
  alone_ = true;
  Round(710100233786309728);
}

}  // namespace
}  // namespace cairn
