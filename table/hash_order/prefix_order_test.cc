#include "cairn/prefix_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/trie.h"
#include "rocksdb/c.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/hash_order/prefix_order.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

// --- The order -------------------------------------------------------------------------------------------------------

TEST(PrefixOrderTest, NamesRoundTrip) {
  const rocksdb::Comparator* comparator = nullptr;
  rocksdb::ConfigOptions strict;
  strict.ignore_unsupported_options = false;
  EXPECT_STREQ(PrefixOrder(8)->Name(), "cairn.PrefixOrder:fixed:8");
  EXPECT_STREQ(PrefixOrderUntil('/')->Name(), "cairn.PrefixOrder:until:2f");
  EXPECT_STREQ(PrefixOrderUntil('\0')->Name(), "cairn.PrefixOrder:until:00");
  EXPECT_STREQ(PrefixOrderUntil('\xff')->Name(), "cairn.PrefixOrder:until:ff");
  for (const rocksdb::Comparator* one :
       {PrefixOrder(0), PrefixOrder(8), PrefixOrder(1 << 20), PrefixOrderUntil('\0'), PrefixOrderUntil('\xff')}) {
    ASSERT_OK(PrefixOrderFromName(one->Name(), &comparator));
    EXPECT_EQ(comparator, one);
    ASSERT_OK(rocksdb::Comparator::CreateFromString(rocksdb::ConfigOptions(), one->Name(), &comparator));
    EXPECT_EQ(comparator, one);
  }
  for (const char* bad :
       {"cairn.PrefixOrder", "cairn.PrefixOrder:", "cairn.PrefixOrder:fixed",
        "cairn.PrefixOrder:fixed:", "cairn.PrefixOrder:fixed:08", "cairn.PrefixOrder:fixed:-1",
        "cairn.PrefixOrder:fixed:8x", "cairn.PrefixOrder:fixed:1048577", "cairn.PrefixOrder:fixed:99999999999999999999",
        "cairn.PrefixOrder:until:", "cairn.PrefixOrder:until:2F", "cairn.PrefixOrder:until:/",
        "cairn.PrefixOrder:until:100", "cairn.PrefixOrder:until:/ ", "cairn.PrefixOrder:hash:8",
        "cairn.PrefixOrder:fixed:8.u64ts", "cairn.HashOrder:"}) {
    EXPECT_TRUE(PrefixOrderFromName(bad, &comparator).IsInvalidArgument()) << bad;
    EXPECT_FALSE(rocksdb::Comparator::CreateFromString(strict, bad, &comparator).ok()) << bad;
    // Nor do options by text leave the order as it was.
    rocksdb::ColumnFamilyOptions options;
    EXPECT_FALSE(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), options,
                                                           "comparator=" + std::string(bad), &options)
                     .ok())
        << bad;
  }
}

// Keys of few different bytes, so that many share a prefix, are one, or have none.
std::vector<std::string> ShortKeys() {
  std::vector<std::string> keys{""};
  for (size_t begin = 0; keys.back().size() < 4; ++begin) {
    const std::string key = keys[begin];
    for (const char byte : {'\0', '/', '0', '\xff'}) keys.push_back(key + byte);
  }
  return keys;
}

std::string PrefixOf(const rocksdb::Comparator* order, const std::string& key) {
  if (order == PrefixOrder(2)) return key.substr(0, 2);
  const size_t slash = key.find('/');
  return slash == std::string::npos ? key : key.substr(0, slash + 1);
}

TEST(PrefixOrderTest, ItIsATotalOrderInWhichKeysOfAPrefixAreNeighbours) {
  const std::vector<std::string> keys = ShortKeys();
  for (const rocksdb::Comparator* order : {PrefixOrder(2), PrefixOrderUntil('/')}) {
    std::vector<std::string> sorted = keys;
    std::sort(sorted.begin(), sorted.end(), [order](const auto& a, const auto& b) { return order->Compare(a, b) < 0; });
    bool differs = false;
    for (size_t i = 0; i < sorted.size(); ++i) {
      for (size_t k = 0; k < sorted.size(); ++k) {
        const int compared = order->Compare(sorted[i], sorted[k]);
        ASSERT_EQ(compared < 0, i < k);
        ASSERT_EQ(compared == 0, i == k);
      }
      const std::string prefix = PrefixOf(order, sorted[i]);
      if (i == 0) continue;
      const std::string before = PrefixOf(order, sorted[i - 1]);
      ASSERT_LE(before, prefix);  // in the order of their bytes
      if (before != prefix) {
        ASSERT_TRUE(sorted[i] == prefix || !std::count(keys.begin(), keys.end(), prefix));  // the prefix comes first
      }
      differs |= sorted[i - 1] > sorted[i];
    }
    EXPECT_TRUE(differs) << "nothing is hashed";
  }
}

// --- In a database ---------------------------------------------------------------------------------------------------

class PrefixOrderDbTest : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 20000;

  PrefixOrderDbTest() { SetOptions(PrefixOrderUntil('/')); }

  void SetOptions(const rocksdb::Comparator* order) {
    options_ = rocksdb::Options();
    options_.create_if_missing = true;
    options_.write_buffer_size = 64 << 10;
    options_.compression = rocksdb::kNoCompression;
    options_.comparator = order;
  }

  // Half of all keys have the prefix "half/", the others a hundred others.
  static std::string Key(uint64_t i) {
    return i % 2 == 0 ? "half/" + std::to_string(i) : "p" + std::to_string(i / 2 % 100) + "/" + std::to_string(i);
  }
  void Open(const std::string& engine) {
    ASSERT_OK(UseEngineFromString(engine, &options_, &options_));
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db)));
    db_.reset(db);
  }
  void Load(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (uint64_t i = 0; i < kKeys; ++i) {
        const uint64_t number = i * 7919 % kKeys;
        ASSERT_OK(db_->Put({}, Key(number), std::to_string(round) + std::string(100, 'v')));
      }
    }
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(WaitForTrieCompaction(db_.get()));
  }
  size_t CountPrefix(const std::string& prefix, const rocksdb::ReadOptions& read) {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    size_t count = 0;
    for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) ++count;
    EXPECT_OK(it->status());
    return count;
  }

  test::TempDir dir_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

constexpr char kTrie[] = "engine=ordered_trie;fan_out=4;slots=6;trigger=4;depth=3;root_trigger=4";

TEST_F(PrefixOrderDbTest, APrefixWithHalfOfAllKeysIsSpreadOverContainers) {
  Open(kTrie);
  Load(2);
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  uint64_t within = 0, bytes = 0, largest = 0;
  for (const rocksdb::LiveFileMetaData& file : files) {
    bytes += file.size;
    if (file.level == 0) continue;
    largest = std::max<uint64_t>(largest, file.size);
    if (rocksdb::Slice(file.smallestkey).starts_with("half/") && rocksdb::Slice(file.largestkey).starts_with("half/")) {
      within += file.size;
    }
  }
  EXPECT_GT(within, bytes / 4);
  EXPECT_LE(largest, 4u * (64 << 10));  // no table, hence no container's smallest part, is the prefix as a whole
  EXPECT_EQ(CountPrefix("half/", {}), kKeys / 2);
  for (int i = 0; i < 100; i += 9) EXPECT_EQ(CountPrefix("p" + std::to_string(i) + "/", {}), kKeys / 200) << i;
}

TEST_F(PrefixOrderDbTest, PrefixSeeksBoundsAndRangeDeletionsOfWholePrefixes) {
  options_.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(3));
  rocksdb::BlockBasedTableOptions table;
  table.whole_key_filtering = true;
  options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options_.comparator = PrefixOrder(3);
  Open(kTrie);
  for (uint64_t i = 0; i < kKeys; ++i) {
    char key[32];
    snprintf(key, sizeof(key), "%03d%08d", static_cast<int>(i % 50), static_cast<int>(i));
    ASSERT_OK(db_->Put({}, key, std::string(100, 'v')));
  }
  ASSERT_OK(db_->Flush({}));
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  rocksdb::ReadOptions same_prefix;
  same_prefix.prefix_same_as_start = true;
  rocksdb::ReadOptions bounded;
  bounded.total_order_seek = true;
  const rocksdb::Slice upper("018");
  bounded.iterate_upper_bound = &upper;
  for (const rocksdb::ReadOptions& read : {same_prefix, bounded}) {
    std::set<std::string> found;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    for (it->Seek("017"); it->Valid(); it->Next()) found.insert(it->key().ToString());
    ASSERT_OK(it->status());
    EXPECT_EQ(found.size(), kKeys / 50);
    EXPECT_TRUE(rocksdb::Slice(*found.begin()).starts_with("017"));
    EXPECT_TRUE(rocksdb::Slice(*found.rbegin()).starts_with("017"));
  }
  ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), "017", "018"));
  for (int i = 0; i < 50; ++i) {
    char prefix[16];
    snprintf(prefix, sizeof(prefix), "%03d", i);
    ASSERT_EQ(CountPrefix(prefix, same_prefix), i == 17 ? 0 : kKeys / 50) << prefix;
  }
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_EQ(CountPrefix("017", same_prefix), 0u);
  EXPECT_EQ(CountPrefix("016", same_prefix), kKeys / 50);
}

// An extractor that takes more than the order's prefix has prefixes whose keys are no neighbours.
TEST_F(PrefixOrderDbTest, ExtractorsThatSplitPrefixesAreRefused) {
  const auto of = [](size_t bytes, bool capped) {
    return std::shared_ptr<const rocksdb::SliceTransform>(capped ? rocksdb::NewCappedPrefixTransform(bytes)
                                                                 : rocksdb::NewFixedPrefixTransform(bytes));
  };
  for (const std::string& engine : {std::string(kTrie), std::string("engine=stock")}) {
    SetOptions(PrefixOrder(3));
    ASSERT_OK(UseEngineFromString(engine, &options_, &options_));
    for (const bool capped : {false, true}) {
      options_.prefix_extractor = of(4, capped);
      rocksdb::DB* db = nullptr;
      const rocksdb::Status s = rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db));
      ASSERT_TRUE(s.IsNotSupported()) << s.ToString();
      EXPECT_NE(s.ToString().find("cairn.PrefixOrder:fixed:3"), std::string::npos) << s.ToString();
      EXPECT_NE(s.ToString().find("Prefix.4"), std::string::npos) << s.ToString();
    }
    options_.prefix_extractor = of(3, false);
    Open(engine);
    EXPECT_TRUE(db_->SetOptions({{"prefix_extractor", "rocksdb.FixedPrefix.4"}}).IsNotSupported());
    ASSERT_OK(db_->SetOptions({{"prefix_extractor", "rocksdb.CappedPrefix.2"}}));
    rocksdb::ColumnFamilyHandle* handle = nullptr;
    rocksdb::ColumnFamilyOptions other(options_);
    other.prefix_extractor = of(9, true);
    EXPECT_TRUE(db_->CreateColumnFamily(other, "other", &handle).IsNotSupported());
    other.comparator = PrefixOrder(9);
    ASSERT_OK(db_->CreateColumnFamily(other, "other", &handle));
    ASSERT_OK(db_->DestroyColumnFamilyHandle(handle));
    db_.reset();
    ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options_));
  }
  EXPECT_FALSE(SplitsPrefixes(PrefixOrderUntil('/'), *of(4, false)));
  EXPECT_FALSE(SplitsPrefixes(rocksdb::BytewiseComparator(), *of(4, false)));
}

// The stored options say the order; options of another are refused.
TEST_F(PrefixOrderDbTest, TheOrderIsPartOfTheDatabase) {
  Open(kTrie);
  Load(1);
  db_.reset();
  rocksdb::DBOptions stored;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir_ / "db", &stored, &families));
  EXPECT_EQ(families.front().options.comparator, PrefixOrderUntil('/'));
  rocksdb::DB* db = nullptr;
  for (const rocksdb::Comparator* other : {rocksdb::BytewiseComparator(), PrefixOrderUntil(':'), PrefixOrder(5)}) {
    rocksdb::Options options(stored, families.front().options);
    options.comparator = other;
    EXPECT_TRUE(rocksdb::DB::Open(options, dir_ / "db", port::Into(&db)).IsInvalidArgument()) << other->Name();
  }
  rocksdb::ColumnFamilyOptions by_text;
  ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), rocksdb::ColumnFamilyOptions(),
                                                      "comparator=cairn.PrefixOrder:until:2f", &by_text));
  options_.comparator = by_text.comparator;
  Open(kTrie);
  EXPECT_EQ(CountPrefix("half/", {}), kKeys / 2);
}

TEST_F(PrefixOrderDbTest, OrderFiltersRefuseIt) {
  EXPECT_TRUE(UseEngineFromString("engine=ordered", &options_, &options_).IsNotSupported());
}

// Beside a model, on every kind of compaction: what is written by batches, indexed batches and ingested files, deleted
// by ranges of prefixes, and read in both directions.
TEST_F(PrefixOrderDbTest, EnginesAgreeWithAMap) {
  for (const char* engine : {kTrie, "engine=stock", "engine=sub_memtables"}) {
    SCOPED_TRACE(engine);
    options_ = rocksdb::Options();
    options_.create_if_missing = true;
    options_.write_buffer_size = 32 << 10;
    options_.comparator = PrefixOrderUntil('/');
    Open(engine);
    const auto less = [](const std::string& a, const std::string& b) {
      return PrefixOrderUntil('/')->Compare(a, b) < 0;
    };
    std::map<std::string, std::string, decltype(less)> model(less);
    std::mt19937_64 random(Seed());
    const auto key = [&] {
      return std::to_string(random() % 20) + (random() % 50 == 0 ? "" : "/") + std::to_string(random() % 300);
    };
    for (int step = 0; step < 6000; ++step) {
      const std::string value = std::to_string(step) + std::string(50, 'v');
      switch (random() % 40) {
        case 0: {
          const std::string prefix = std::to_string(random() % 20);
          ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), prefix + "/", prefix + "0"));
          model.erase(model.lower_bound(prefix + "/"), model.lower_bound(prefix + "0"));
          break;
        }
        case 1: {
          rocksdb::WriteBatchWithIndex batch(options_.comparator);
          for (int i = 0; i < 5; ++i) {
            const std::string one = key();
            ASSERT_OK(batch.Put(one, value));
            model[one] = value;
          }
          const std::unique_ptr<rocksdb::Iterator> it(batch.NewIteratorWithBase(db_->NewIterator({})));
          auto expected = model.begin();
          for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
            ASSERT_NE(expected, model.end());
            ASSERT_EQ(it->key().ToString(), expected->first);
          }
          ASSERT_EQ(expected, model.end());
          ASSERT_OK(db_->Write({}, batch.GetWriteBatch()));
          break;
        }
        case 2: {
          std::map<std::string, std::string, decltype(less)> records(less);
          while (records.size() < 20) records[key()] = value;
          const std::string path = dir_ / ("file" + std::to_string(step));
          ASSERT_OK(WriteTable(path, options_, records));
          for (const auto& record : records) model[record.first] = value;
          ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {path}, {}));
          break;
        }
        default: {
          const std::string one = key();
          if (random() % 4 == 0) {
            ASSERT_OK(db_->Delete({}, one));
            model.erase(one);
          } else {
            ASSERT_OK(db_->Put({}, one, value));
            model[one] = value;
          }
        }
      }
      if (step % 500 != 499) continue;
      if (step % 1000 == 999) ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
      const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
      auto expected = model.begin();
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
        ASSERT_NE(expected, model.end());
        ASSERT_EQ(it->key().ToString(), expected->first);
        ASSERT_EQ(it->value().ToString(), expected->second);
      }
      ASSERT_EQ(expected, model.end());
      ASSERT_OK(it->status());
      auto backward = model.rbegin();
      for (it->SeekToLast(); it->Valid(); it->Prev(), ++backward) ASSERT_EQ(it->key().ToString(), backward->first);
      ASSERT_EQ(backward, model.rend());
      for (int i = 0; i < 100; ++i) {
        const std::string one = key();
        std::string value_found;
        const rocksdb::Status s = db_->Get({}, one, &value_found);
        ASSERT_EQ(s.ok(), model.count(one) != 0) << s.ToString();
      }
    }
    ASSERT_OK(db_->Close());
    db_.reset();
    ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options_));
  }
}

// Whatever lies between two blocks or tables, in the words of RocksDB's index, filters and bounds: keys that are equal
// but for one byte, keys of few bytes, and one prefix with half of all, for prefixes that no key, every key or some
// keys end in.
class AdversarialKeysTest : public PrefixOrderDbTest {
 protected:
  enum class Shape { kOneByte, kShort, kHalf };
  static constexpr char kBytes[] = {'\0', '\1', '.', '/', '0', '\xfe', '\xff'};

  char Byte() { return kBytes[random_() % sizeof(kBytes)]; }
  std::string Key(Shape shape) {
    std::string key;
    switch (shape) {
      case Shape::kOneByte:
        key = std::string(40, '/') + std::string(40, '\xff');
        key[random_() % 2 == 0 ? 79 : random_() % key.size()] = static_cast<char>(random_());
        return key;
      case Shape::kShort:
        for (uint64_t size = random_() % 6; key.size() < size;) key += Byte();
        return key;
      case Shape::kHalf:
        key = random_() % 2 == 0 ? "ha/" : std::string{'h', Byte(), Byte()};
        return key + std::to_string(random_() % 1000);
    }
    return key;
  }

  void Run(const rocksdb::Comparator* order, Shape shape) {
    const auto less = [order](const std::string& a, const std::string& b) { return order->Compare(a, b) < 0; };
    std::map<std::string, std::string, decltype(less)> model(less);
    for (int step = 0; step < 1200; ++step) {
      const std::string key = Key(shape), value = std::to_string(step) + std::string(30, 'v');
      const uint64_t what = random_() % 60;
      if (what == 0) {
        std::string end = Key(shape);
        if (less(end, key)) continue;
        ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), key, end));
        model.erase(model.lower_bound(key), model.lower_bound(end));
      } else if (what < 15) {
        ASSERT_OK(db_->Delete({}, key));
        model.erase(key);
      } else {
        ASSERT_OK(db_->Put({}, key, value));
        model[key] = value;
      }
      if (step % 100 == 99) ASSERT_OK(db_->Flush({}));
      if (step % 600 == 599) ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
    }
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    const auto expect_at = [&](auto expected, auto end) {
      ASSERT_EQ(it->Valid(), expected != end);
      if (!it->Valid()) return;
      ASSERT_EQ(it->key().ToString(true), rocksdb::Slice(expected->first).ToString(true));
    };
    for (int i = 0; i < 300; ++i) {
      const std::string key = Key(shape);
      it->Seek(key);
      expect_at(model.lower_bound(key), model.end());
      it->SeekForPrev(key);
      expect_at(std::make_reverse_iterator(model.upper_bound(key)), model.rend());
      std::string value;
      const rocksdb::Status s = db_->Get({}, key, &value);
      ASSERT_EQ(s.ok(), model.count(key) != 0) << s.ToString();
      if (s.ok()) {
        ASSERT_EQ(value, model[key]);
      }
    }
    for (int i = 0; i < 60; ++i) {
      std::string from = Key(shape), to = Key(shape);
      if (less(to, from)) std::swap(from, to);
      const rocksdb::Slice lower(from), upper(to);
      rocksdb::ReadOptions read;
      read.iterate_lower_bound = &lower;
      read.iterate_upper_bound = &upper;
      const std::unique_ptr<rocksdb::Iterator> bounded(db_->NewIterator(read));
      auto expected = model.lower_bound(from);
      for (bounded->SeekToFirst(); bounded->Valid(); bounded->Next(), ++expected) {
        ASSERT_EQ(bounded->key().ToString(), expected->first);
        ASSERT_EQ(bounded->value().ToString(), expected->second);
      }
      ASSERT_OK(bounded->status());
      ASSERT_EQ(expected == model.end() ? "" : expected->first,
                model.lower_bound(to) == model.end() ? "" : model.lower_bound(to)->first);
      bounded->SeekToLast();
      for (; expected != model.lower_bound(from); bounded->Prev()) {
        --expected;
        ASSERT_TRUE(bounded->Valid());
        ASSERT_EQ(bounded->key().ToString(), expected->first);
      }
      ASSERT_FALSE(bounded->Valid());
    }
  }

  std::mt19937_64 random_{Seed()};
};

TEST_F(AdversarialKeysTest, TablesAndIndexesAgreeWithAMap) {
  rocksdb::BlockBasedTableOptions plain;
  plain.block_size = 128;
  rocksdb::BlockBasedTableOptions partitioned = plain;
  partitioned.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  partitioned.partition_filters = true;
  partitioned.metadata_block_size = 128;
  partitioned.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  partitioned.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  rocksdb::BlockBasedTableOptions first_key = plain;
  first_key.index_type = rocksdb::BlockBasedTableOptions::kBinarySearchWithFirstKey;
  first_key.index_shortening = rocksdb::BlockBasedTableOptions::IndexShorteningMode::kShortenSeparatorsAndSuccessor;
  const std::pair<const char*, const rocksdb::BlockBasedTableOptions*> kinds[] = {
      {kTrie, &plain}, {kTrie, &partitioned}, {"engine=stock", &partitioned}, {"engine=stock", &first_key}};
  for (const rocksdb::Comparator* order : {PrefixOrder(0), PrefixOrder(3), PrefixOrder(1 << 20), PrefixOrderUntil('/'),
                                           PrefixOrderUntil('\0'), PrefixOrderUntil('\xff')}) {
    for (const auto& [engine, table] : kinds) {
      for (const Shape shape : {Shape::kOneByte, Shape::kShort, Shape::kHalf}) {
        SCOPED_TRACE(std::string(order->Name()) + " " + engine + " " + std::to_string(static_cast<int>(shape)));
        SetOptions(order);
        options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(*table));
        Open(engine);
        if (HasFatalFailure()) return;
        Run(order, shape);
        if (HasFatalFailure()) return;
        db_.reset();
        ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options_));
      }
    }
  }
}

TEST_F(PrefixOrderDbTest, FilesOfAnotherOrderAreNotIngested) {
  for (const std::string& engine :
       {std::string(kTrie), std::string("engine=stock"), std::string("engine=ordered_trie")}) {
    SCOPED_TRACE(engine);
    SetOptions(PrefixOrderUntil('/'));
    Open(engine);
    ASSERT_OK(db_->Put({}, "user1/x", "v"));
    for (const rocksdb::Comparator* other : {rocksdb::BytewiseComparator(), PrefixOrder(6)}) {
      rocksdb::Options of_file;
      of_file.comparator = other;
      const std::string path = dir_ / "file";
      std::map<std::string, std::string> records;
      for (int i = 0; i < 100; ++i) records["user1/" + std::to_string(i)] = "v";
      ASSERT_OK(WriteTable(path, of_file, records));
      EXPECT_TRUE(Says(db_->IngestExternalFile({path}, {}), &Status::IsInvalidArgument, other->Name()));
    }
    EXPECT_EQ(CountPrefix("user1/", {}), 1u);
    db_.reset();
    ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options_));
  }
}

// The pool file is read in the order that the options say.
TEST_F(PrefixOrderDbTest, DurableMemtables) {
  for (int round = 0; round < 2; ++round) {
    Open("engine=sub_memtables;durable=true");
    if (round == 0) {
      for (uint64_t i = 0; i < 100; ++i) ASSERT_OK(db_->Put({}, Key(i), "v"));
    }
    EXPECT_EQ(CountPrefix("half/", {}), 50u);
    db_.reset();
    if (round == 1) break;
    rocksdb::Options other = options_;
    other.comparator = PrefixOrderUntil(':');
    rocksdb::DB* db = nullptr;
    EXPECT_TRUE(rocksdb::DB::Open(other, dir_ / "db", port::Into(&db)).IsInvalidArgument());
  }
}

// What a program may do with a database beside reading and writing it.
TEST_F(PrefixOrderDbTest, EveryDoorKeepsTheOrder) {
  for (const std::string& engine : {std::string(kTrie), std::string("engine=stock")}) {
    SCOPED_TRACE(engine);
    SetOptions(PrefixOrderUntil('/'));
    ASSERT_OK(
        rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options_.merge_operator));
    ASSERT_OK(UseEngineFromString(engine, &options_, &options_));
    const std::string path = dir_ / ("db" + std::to_string(engine.size()));
    std::vector<std::string> expected;
    {
      rocksdb::TransactionDB* transactions = nullptr;
      ASSERT_OK(rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), path, &transactions));
      const std::unique_ptr<rocksdb::DB> db(transactions);
      for (uint64_t i = 0; i < 3000; ++i) {
        ASSERT_OK(db->Put({}, Key(i), "v"));
        expected.push_back(Key(i));
      }
      const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
      ASSERT_OK(db->Merge({}, "half/0", "more"));
      {
        const std::unique_ptr<rocksdb::Transaction> transaction(transactions->BeginTransaction({}));
        ASSERT_OK(transaction->Put("half/t", "in"));
        ASSERT_OK(transaction->Delete("half/2"));
        const std::unique_ptr<rocksdb::Iterator> it(transaction->GetIterator({}));
        std::set<std::string> half;
        for (it->Seek("half/"); it->Valid() && it->key().starts_with("half/"); it->Next())
          half.insert(it->key().ToString());
        EXPECT_EQ(half.size(), 1500u);
        EXPECT_EQ(half.count("half/t"), 1u);
        ASSERT_OK(transaction->Rollback());
      }
      ASSERT_OK(db->Flush({}));
      rocksdb::ReadOptions then;
      then.snapshot = snapshot;
      std::string value;
      ASSERT_OK(db->Get(then, "half/0", &value));
      EXPECT_EQ(value, "v");
      ASSERT_OK(db->Get({}, "half/0", &value));
      EXPECT_EQ(value, "v,more");
      db->ReleaseSnapshot(snapshot);
      rocksdb::Checkpoint* checkpoint = nullptr;
      ASSERT_OK(rocksdb::Checkpoint::Create(db.get(), &checkpoint));
      ASSERT_OK(checkpoint->CreateCheckpoint(path + ".checkpoint"));
      delete checkpoint;
      rocksdb::BackupEngine* backups = nullptr;
      const rocksdb::BackupEngineOptions where(path + ".backups");
      ASSERT_OK(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), where, &backups));
      ASSERT_OK(backups->CreateNewBackup(db.get(), true));
      ASSERT_OK(backups->RestoreDBFromLatestBackup(path + ".restored", path + ".restored"));
      delete backups;
    }
    std::sort(expected.begin(), expected.end(),
              [](const std::string& a, const std::string& b) { return PrefixOrderUntil('/')->Compare(a, b) < 0; });
    const auto expect_all = [&](rocksdb::DB* db) {
      const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
      size_t i = 0;
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++i) {
        ASSERT_LT(i, expected.size());
        ASSERT_EQ(it->key().ToString(), expected[i]);
      }
      ASSERT_OK(it->status());
      EXPECT_EQ(i, expected.size());
    };
    for (const char* copy : {"", ".checkpoint", ".restored"}) {
      SCOPED_TRACE(copy);
      rocksdb::DB* db = nullptr;
      ASSERT_OK(rocksdb::DB::OpenForReadOnly(options_, path + copy, port::Into(&db)));
      expect_all(db);
      delete db;
      rocksdb::Options few = options_;
      few.max_open_files = -1;
      ASSERT_OK(rocksdb::DB::OpenAsSecondary(few, path + copy, path + ".secondary", port::Into(&db)));
      expect_all(db);
      delete db;
      // By RocksDB's C interface, with the stored options alone.
      char* error = nullptr;
      rocksdb_options_t* const none = rocksdb_options_create();
      rocksdb_options_t* const by_text = rocksdb_options_create();
      rocksdb_get_options_from_string(none, "comparator=cairn.PrefixOrder:until:2f;merge_operator=stringappend",
                                      by_text, &error);
      ASSERT_EQ(error, nullptr) << error;
      if (engine == "engine=stock") {
        rocksdb_t* const c = rocksdb_open(by_text, (path + copy).c_str(), &error);
        ASSERT_EQ(error, nullptr) << error;
        rocksdb_close(c);
        rocksdb_t* const wrong = rocksdb_open(none, (path + copy).c_str(), &error);
        EXPECT_EQ(wrong, nullptr);
        ASSERT_NE(error, nullptr);
        EXPECT_NE(std::string(error).find("cairn.PrefixOrder:until:2f"), std::string::npos) << error;
        rocksdb_free(error);
      }
      rocksdb_options_destroy(by_text);
      rocksdb_options_destroy(none);
    }
    ASSERT_OK(rocksdb::RepairDB(path + ".checkpoint", options_));
    rocksdb::Options bytewise;
    EXPECT_TRUE(rocksdb::RepairDB(path, bytewise).IsInvalidArgument());
    rocksdb::DB* db = nullptr;
    for (const char* copy : {"", ".checkpoint"}) {
      SCOPED_TRACE(copy);
      ASSERT_OK(rocksdb::DB::Open(options_, path + copy, port::Into(&db)));
      expect_all(db);
      delete db;
    }
  }
}

}  // namespace
}  // namespace cairn
