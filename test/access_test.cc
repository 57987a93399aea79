// Every way to open a database's files and to read from them gives the same answers, whatever the format of the tables:
// mapped files, direct reads, caches of all kinds or none, few open files, reads of the cache only, bounds, read-ahead;
// over items of all shapes.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/wide_columns.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "utilities/merge_operators.h"

namespace cairn::test {
namespace {

using rocksdb::BlockBasedTableOptions;
using rocksdb::PinnableWideColumns;
using rocksdb::WideColumns;

constexpr int kKeys = 500;
// Wide columns point to their bytes.
const std::string kWide(3000, 'b');

std::string Key(int i) { return "key" + std::to_string(i); }

// Options to open with. `blocks` are those of the block-based table that all formats read through.
struct Setting {
  const char* name;
  std::function<void(Options* options, BlockBasedTableOptions* blocks)> set;
};

const std::vector<Setting>& Settings() {
  static const std::vector<Setting> settings = {
      {"as it comes", [](Options*, BlockBasedTableOptions*) {}},
      {"mapped files", [](Options* options, BlockBasedTableOptions*) { options->allow_mmap_reads = true; }},
      {"mapped files, not compressed, few open",
       [](Options* options, BlockBasedTableOptions*) {
         options->allow_mmap_reads = true;
         options->compression = rocksdb::kNoCompression;
         options->max_open_files = 20;
       }},
      {"mapped files, no cache",
       [](Options* options, BlockBasedTableOptions* blocks) {
         options->allow_mmap_reads = true;
         blocks->no_block_cache = true;
       }},
      {"direct reads",
       [](Options* options, BlockBasedTableOptions*) {
         options->use_direct_reads = true;
         options->use_direct_io_for_flush_and_compaction = true;
       }},
      {"no cache", [](Options*, BlockBasedTableOptions* blocks) { blocks->no_block_cache = true; }},
      {"tiny cache",
       [](Options*, BlockBasedTableOptions* blocks) { blocks->block_cache = rocksdb::NewLRUCache(16 << 10, 0); }},
      {"clock cache",
       [](Options*, BlockBasedTableOptions* blocks) {
         blocks->block_cache = rocksdb::HyperClockCacheOptions(4 << 20, 0).MakeSharedCache();
       }},
      {"compressed secondary cache",
       [](Options*, BlockBasedTableOptions* blocks) {
         rocksdb::LRUCacheOptions cache(64 << 10, 0, false, 0.5);
         cache.secondary_cache = rocksdb::NewCompressedSecondaryCache(8 << 20);
         blocks->block_cache = cache.MakeSharedCache();
       }},
      {"indexes in the cache",
       [](Options*, BlockBasedTableOptions* blocks) {
         blocks->cache_index_and_filter_blocks = true;
         blocks->cache_index_and_filter_blocks_with_high_priority = true;
         blocks->pin_l0_filter_and_index_blocks_in_cache = true;
       }},
      {"charged readers",
       [](Options*, BlockBasedTableOptions* blocks) {
         blocks->cache_usage_options.options_overrides[rocksdb::CacheEntryRole::kBlockBasedTableReader].charged =
             rocksdb::CacheEntryRoleOptions::Decision::kEnabled;
       }},
      {"few open files", [](Options* options, BlockBasedTableOptions*) { options->max_open_files = 20; }},
      {"row cache",
       [](Options* options, BlockBasedTableOptions*) { options->row_cache = rocksdb::NewLRUCache(1 << 20); }},
      {"statistics and a rate limiter",
       [](Options* options, BlockBasedTableOptions*) {
         options->statistics = rocksdb::CreateDBStatistics();
         options->rate_limiter.reset(
             rocksdb::NewGenericRateLimiter(1 << 30, 1000, 10, rocksdb::RateLimiter::Mode::kAllIo));
       }},
      {"no filters for hits",
       [](Options* options, BlockBasedTableOptions*) { options->optimize_filters_for_hits = true; }},
      {"no readahead of compactions",
       [](Options* options, BlockBasedTableOptions*) { options->compaction_readahead_size = 0; }},
  };
  return settings;
}

class AccessTest : public ::testing::TestWithParam<Engine> {
 protected:
  Options OptionsWith(const Setting& setting) {
    Options options = BaseOptions();
    BlockBasedTableOptions blocks = *options.table_factory->GetOptions<BlockBasedTableOptions>();
    setting.set(&options, &blocks);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
    options.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
    EXPECT_OK(GetParam().fill(&options));
    return options;
  }

  void Open(const Options& options) {
    Close();
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir_ / "db", port::Into(&db)));
    db_.reset(db);
    comparator_ = db->DefaultColumnFamily()->GetComparator();
  }
  void Close() {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
    db_.reset();
  }

  void Put(const std::string& key, const std::string& value) {
    ASSERT_OK(db_->Put(rocksdb::WriteOptions(), key, value));
    model_[key] = value;
  }

  // Items of all shapes, over several tables, and a snapshot in their midst.
  void Fill() {
    const rocksdb::WriteOptions write;
    for (int i = 0; i < kKeys; ++i) Put(Key(i), std::string(static_cast<size_t>(i % 150), 'a'));
    Put("", "the empty key");
    Put("empty value", "");
    Put(std::string(64 << 10, 'k'), "a key of 64 KiB");
    Put(std::string("\0\0zeros\0", 8), std::string(5, '\0'));
    Put("large", std::string(2 << 20, 'L'));
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    snapshot_ = db_->GetSnapshot();
    at_snapshot_ = model_;
    for (int i = 0; i < kKeys; i += 3) Put(Key(i), "new");
    for (int i = 1; i < kKeys; i += 9) {
      ASSERT_OK(db_->Delete(write, Key(i)));
      model_.erase(Key(i));
    }
    for (int i = 2; i < kKeys; i += 9) {
      ASSERT_OK(db_->Merge(write, Key(i), "more"));
      model_[Key(i)] += ",more";
    }
    ASSERT_OK(db_->Merge(write, "merged", "one"));
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(db_->Merge(write, "merged", "two"));
    model_["merged"] = "one,two";
    ASSERT_OK(db_->Put(write, "single", "1"));
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(db_->SingleDelete(write, "single"));
    columns_ = {{rocksdb::kDefaultWideColumnName, "default"}, {"a", "1"}, {"b", kWide}};
    ASSERT_OK(db_->PutEntity(write, db_->DefaultColumnFamily(), "entity", columns_));
    model_["entity"] = "default";
    ASSERT_OK(db_->Flush(rocksdb::FlushOptions()));
  }

  std::vector<std::string> InOrder(const std::map<std::string, std::string>& model) const {
    std::vector<std::string> keys;
    for (const auto& item : model) keys.push_back(item.first);
    std::sort(keys.begin(), keys.end(),
              [this](const std::string& a, const std::string& b) { return comparator_->Compare(a, b) < 0; });
    return keys;
  }

  void CheckGets(const ReadOptions& read, const std::map<std::string, std::string>& model) {
    PinnableSlice value;
    for (const auto& [key, expected] : model) {
      value.Reset();
      const Status s = db_->Get(read, db_->DefaultColumnFamily(), key, &value);
      ASSERT_TRUE(s.ok()) << key.substr(0, 50) << ": " << s.ToString();
      ASSERT_TRUE(value == expected) << key.substr(0, 50);
    }
    for (int i = 0; i < 300; ++i) {
      const std::string key = "absent" + std::to_string(i);
      value.Reset();
      const Status s = db_->Get(read, db_->DefaultColumnFamily(), key, &value);
      ASSERT_TRUE(s.IsNotFound()) << s.ToString();
    }
  }

  void CheckMultiGet(const ReadOptions& read, const std::map<std::string, std::string>& model) {
    std::vector<std::string> names = {"absent", "also absent"};
    for (const auto& item : model) names.push_back(item.first);
    for (size_t first = 0; first < names.size(); first += 100) {
      const size_t count = std::min<size_t>(100, names.size() - first);
      const std::vector<Slice> keys(names.begin() + static_cast<ptrdiff_t>(first),
                                    names.begin() + static_cast<ptrdiff_t>(first + count));
      std::vector<PinnableSlice> values(count);
      std::vector<Status> statuses(count);
      db_->MultiGet(read, db_->DefaultColumnFamily(), count, keys.data(), values.data(), statuses.data());
      for (size_t i = 0; i < count; ++i) {
        const auto found = model.find(names[first + i]);
        if (found == model.end()) {
          ASSERT_TRUE(statuses[i].IsNotFound()) << statuses[i].ToString();
        } else {
          ASSERT_TRUE(statuses[i].ok()) << keys[i].ToString().substr(0, 50) << ": " << statuses[i].ToString();
          ASSERT_TRUE(values[i] == found->second) << keys[i].ToString().substr(0, 50);
        }
      }
    }
  }

  void CheckIteration(ReadOptions read, const std::map<std::string, std::string>& model) {
    const std::vector<std::string> keys = InOrder(model);
    const size_t from = keys.size() / 4, to = keys.size() * 3 / 4;
    const Slice lower(keys[from]), upper(keys[to]);
    for (const bool bounded : {false, true}) {
      read.iterate_lower_bound = bounded ? &lower : nullptr;
      read.iterate_upper_bound = bounded ? &upper : nullptr;
      const size_t begin = bounded ? from : 0, end = bounded ? to : keys.size();
      std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
      size_t at = begin;
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
        ASSERT_LT(at, end);
        ASSERT_TRUE(it->key() == keys[at]) << at;
        ASSERT_TRUE(it->value() == model.at(keys[at])) << at;
      }
      ASSERT_OK(it->status());
      ASSERT_EQ(at, end);
      for (it->SeekToLast(); it->Valid(); it->Prev()) {
        ASSERT_GT(at, begin);
        ASSERT_TRUE(it->key() == keys[--at]) << at;
      }
      ASSERT_OK(it->status());
      ASSERT_EQ(at, begin);
      for (size_t i = begin; i < end; i += 97) {
        it->Seek(keys[i]);
        ASSERT_TRUE(it->Valid() && it->key() == keys[i]) << it->status().ToString();
        it->SeekForPrev(keys[i]);
        ASSERT_TRUE(it->Valid() && it->key() == keys[i]) << it->status().ToString();
      }
    }
  }

  enum class Kinds { kAll, kTwo };
  void CheckReads(Kinds wanted) {
    std::vector<std::pair<const char*, ReadOptions>> kinds(7);
    kinds[0].first = "plain";
    kinds[1].first = "fill_cache = false";
    kinds[1].second.fill_cache = false;
    kinds[2].first = "verify_checksums = false";
    kinds[2].second.verify_checksums = false;
    kinds[3].first = "readahead_size";
    kinds[3].second.readahead_size = 64 << 10;
    kinds[4].first = "async_io";
    kinds[4].second.async_io = true;
    kinds[4].second.adaptive_readahead = true;
    kinds[5].first = "pin_data";
    kinds[5].second.pin_data = true;
    kinds[6].first = "total_order_seek, rate limited";
    kinds[6].second.total_order_seek = true;
    kinds[6].second.rate_limiter_priority = rocksdb::Env::IO_USER;
    for (auto& [name, read] : kinds) {
      SCOPED_TRACE(name);
      if (wanted == Kinds::kTwo && read.fill_cache && !read.async_io) continue;
      CheckGets(read, model_);
      CheckMultiGet(read, model_);
      CheckIteration(read, model_);
      if (HasFatalFailure()) return;
    }
    if (snapshot_ != nullptr) {
      SCOPED_TRACE("snapshot");
      ReadOptions read;
      read.snapshot = snapshot_;
      CheckGets(read, at_snapshot_);
      CheckMultiGet(read, at_snapshot_);
      CheckIteration(read, at_snapshot_);
    }
  }

  // Reads of the cache only say so where they do not know.
  void CheckCacheOnly() {
    ReadOptions read;
    read.read_tier = rocksdb::kBlockCacheTier;
    std::string value;
    size_t unknown = 0;
    for (const auto& [key, expected] : model_) {
      const Status s = db_->Get(read, key, &value);
      ASSERT_TRUE(s.ok() || s.IsIncomplete()) << s.ToString();
      if (s.ok()) {
        ASSERT_TRUE(value == expected) << key.substr(0, 50);
      }
      unknown += s.IsIncomplete();
      ASSERT_TRUE(db_->KeyMayExist(ReadOptions(), key, &value)) << key.substr(0, 50);
    }
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    size_t seen = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) ++seen;
    ASSERT_TRUE(it->status().ok() || it->status().IsIncomplete()) << it->status().ToString();
    if (it->status().ok()) {
      ASSERT_EQ(model_.size(), seen);
    }
  }

  void CheckTheRest() {
    PinnableWideColumns columns;
    ASSERT_OK(db_->GetEntity(ReadOptions(), db_->DefaultColumnFamily(), "entity", &columns));
    ASSERT_EQ(columns_, columns.columns());
    const Slice names[] = {"entity", "key0", "absent"};
    std::vector<PinnableWideColumns> several(3);
    Status statuses[3];
    db_->MultiGetEntity(ReadOptions(), db_->DefaultColumnFamily(), 3, names, several.data(), statuses);
    ASSERT_OK(statuses[0]);
    ASSERT_EQ(columns_, several[0].columns());
    ASSERT_OK(statuses[1]);
    ASSERT_TRUE(statuses[2].IsNotFound());
    ASSERT_OK(db_->VerifyChecksum());
    ASSERT_OK(db_->VerifyFileChecksums(ReadOptions()));
    const std::vector<std::string> keys = InOrder(model_);
    const rocksdb::Range ranges[] = {{keys.front(), keys.back()}, {keys.front(), keys[keys.size() / 2]}};
    rocksdb::SizeApproximationOptions sizing;
    sizing.include_files = true;
    uint64_t sizes[2] = {0, 0}, live = 0;
    // The last key is not in the range, and may be the large one: which it is in hash order depends on the seed.
    const uint64_t last = model_[keys.back()].size();
    // In the end: a compaction may end between two questions.
    EXPECT_TRUE(Await([&] {
      EXPECT_OK(db_->GetApproximateSizes(sizing, db_->DefaultColumnFamily(), ranges, 2, sizes));
      EXPECT_TRUE(db_->GetIntProperty("rocksdb.live-sst-files-size", &live));
      return sizes[0] >= sizes[1] && sizes[0] + last > live / 2 && sizes[0] <= live;
    })) << sizes[0]
        << " and " << sizes[1] << " of " << live;
  }

  TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
  const rocksdb::Comparator* comparator_ = nullptr;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::map<std::string, std::string> model_, at_snapshot_;
  WideColumns columns_;

  ~AccessTest() override { Close(); }
};

TEST_P(AccessTest, AllSettingsGiveTheSameAnswers) {
  Open(OptionsWith(Settings()[0]));
  Fill();
  if (HasFatalFailure()) return;
  {
    SCOPED_TRACE("with the snapshot");
    CheckReads(Kinds::kAll);
    ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
    CheckReads(Kinds::kAll);
  }
  for (const Setting& setting : Settings()) {
    SCOPED_TRACE(setting.name);
    Open(OptionsWith(setting));
    if (HasFatalFailure()) return;
    CheckCacheOnly();
    CheckReads(Kinds::kTwo);
    CheckCacheOnly();
    CheckTheRest();
    if (HasFatalFailure()) return;
    // Written with the setting, too.
    for (int i = 0; i < kKeys; i += 11) Put(Key(i), setting.name);
    ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
    CheckGets(ReadOptions(), model_);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AccessTest, DeletesFilesInARangeOfTheKeys) {
  Open(OptionsWith(Settings()[0]));
  for (int i = 0; i < kKeys; ++i) Put(Key(i), std::string(100, 'a'));
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  const std::vector<std::string> keys = InOrder(model_);
  const Slice begin(keys.front()), middle(keys[keys.size() / 2]);
  Status deleted = rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), &begin, &middle);
  if (HashOfComparator(db_->DefaultColumnFamily()->GetComparator()) != nullptr) {
    ASSERT_TRUE(deleted.IsNotSupported()) << deleted.ToString();
    CheckReads(Kinds::kTwo);
    // Everything is the same in every order.
    deleted = rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), nullptr, nullptr);
  }
  ASSERT_OK(deleted);
  const bool some = HashOfComparator(db_->DefaultColumnFamily()->GetComparator()) == nullptr;
  // What lies beyond the range is there, and what is found within it is right.
  std::string value;
  for (size_t i = 0; i < keys.size(); ++i) {
    const Status s = db_->Get(ReadOptions(), keys[i], &value);
    ASSERT_TRUE(s.ok() || ((!some || i <= keys.size() / 2) && s.IsNotFound())) << i << " " << s.ToString();
  }
  for (int i = 0; i < kKeys; ++i) Put(Key(i), "again");
  ASSERT_OK(CompactAll(db_.get(), db_->DefaultColumnFamily(), GetParam().trie));
  CheckReads(Kinds::kTwo);
}

// RocksDB keeps a cursor for it by lists that its own pickers make.
TEST_P(AccessTest, CompactionsThatTakeTurns) {
  Options options = OptionsWith(Settings()[0]);
  options.compaction_pri = rocksdb::kRoundRobin;
  Open(options);
  constexpr int kPuts = 20000;
  for (int i = 0; i < kPuts; ++i) ASSERT_OK(db_->Put({}, Key(i * 7 % kPuts), std::string(100, 'v')));
  ASSERT_OK(db_->Flush({}));
  ASSERT_OK(db_->WaitForCompact({}));
  std::string value;
  for (int i = 0; i < kPuts; i += 100) ASSERT_OK(db_->Get({}, Key(i), &value));
}

std::vector<Engine> EnginesHere() {
  std::vector<Engine> engines;
  for (const char* name : {"leveled", "trie_htable", "trie_zstd", "trie_htable_ect", "silt_pinned", "silt_dropped",
                           "ordered", "leveled_ordered", "ordered_trie", "round_robin"}) {
    engines.push_back(*FindEngine(name));
  }
  return engines;
}

INSTANTIATE_TEST_SUITE_P(Engines, AccessTest, ::testing::ValuesIn(EnginesHere()), EngineName);

}  // namespace
}  // namespace cairn::test
