// Every part of RocksDB's interface on a trie: it works, or it is refused with a status that says why.
//
// Each check runs on a trie in hash order and on one in key order, and adds rows to the table of
// docs/guide/features.md. When all checks of the program have run and passed, it writes the table to feature_table.md
// in the build folder; the ctest feature_table_test compares the two, so the table that users read cannot say what the
// tests do not show.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "cairn/db.h"
#include "cairn/prefix_order.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/experimental.h"
#include "rocksdb/file_checksum.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/metadata.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/port/table_properties.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/wide_columns.h"
#include "rocksdb/write_batch.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/ingest_again.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn::test {
namespace {

// ---- The table

enum Order { kHashOrder, kKeyOrder, kOrders };

struct Finding {
  std::string answer, remark;
};
struct Row {
  std::string feature;
  std::array<Finding, kOrders> found;
};
std::vector<Row>& Rows() {
  static std::vector<Row> rows;
  return rows;
}

// Of the trie that the running check is about.
Order g_order = kHashOrder;

void Add(const std::string& feature, const Finding& finding) {
  std::vector<Row>& rows = Rows();
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& one) { return one.feature == feature; });
  if (row == rows.end()) row = rows.insert(row, {feature, {}});
  row->found[g_order] = finding;
}
void Works(const std::string& feature, const std::string& remark = "") { Add(feature, {"works", remark}); }
void Refused(const std::string& feature, const std::string& remark) { Add(feature, {"refused", remark}); }
void Differs(const std::string& feature, const std::string& remark) { Add(feature, {"differs", remark}); }

std::string RemarkOf(const Row& row) {
  const Finding &hash = row.found[kHashOrder], &key = row.found[kKeyOrder];
  if (key.answer.empty() || hash.remark == key.remark) return hash.remark;
  if (hash.answer.empty()) return key.remark;
  std::string both = hash.remark.empty() ? "" : "hash order: " + hash.remark;
  if (!key.remark.empty()) both += (both.empty() ? "" : ". ") + std::string("Key order: ") + key.remark;
  return both;
}

// Their tables and levels are others.
const std::string kSilt = "SILT store: ";
bool IsOfSilt(const Row& row) { return row.feature.compare(0, kSilt.size(), kSilt) == 0; }

// What release_test finds, on RocksDB 11.8.
const char kOfRocksDB11[] = R"(
## What does RocksDB 11 bring?

Tests: [`release_test`](../../test/release_test.cc), `db_interface_test`. What is not named works.

| of RocksDB 11 | hash order | key order | remark |
| --- | --- | --- | --- |
| `open_files_async`, `fast_sst_open`, `reuse_manifest_on_open`, `async_wal_precreate`, )"
                            R"(`memtable_op_scan_flush_trigger`, `memtable_batch_lookup_optimization`, )"
                            R"(`separate_key_value_in_data_block`, `CompactOnDeletionCollector`, )"
                            R"(`GetAsync`, `PrepareFileIngestion` | works | works | on every engine |
| parallel compression | works | works | refused by SILT and ECT tables |
| `read_triggered_compaction_threshold` | refused | refused | on tries |
| `min_tombstones_for_range_conversion`, `atomic_replace_range` of a range | refused | works | |
| `user_defined_index_factory=trie_index` | refused | works | HTables have no index |
| `index_block_search_type=kInterpolation` | refused | works | by RocksDB |
| `enable_blob_direct_write`, `commit_bypass_memtable` | works | works | refused with durable memtables |
| `compression_manager` of your own | differs | works | refused by HTables and ECT tables |
| `OnCompactionPreCommit` | differs | differs | not called for a trie's own compactions |
)";

// The tries of the checks. CAIRN_ENGINE names another one of the same shape, about which no table is written.
const char kHashEngine[] = "trie_tiny";
const char kKeyEngine[] = "ordered_trie";
std::vector<std::string> EnginesToCheck() {
  const char* given = std::getenv("CAIRN_ENGINE");
  if (given != nullptr) return {given};
  return {kHashEngine, kKeyEngine};
}

class TableWriter : public ::testing::Environment {
 public:
  void TearDown() override {
    const ::testing::UnitTest& test = *::testing::UnitTest::GetInstance();
    const char* build = std::getenv("CAIRN_BUILD_DIR");
    if (build == nullptr || EnginesToCheck().size() != kOrders || !test.Passed() ||
        test.test_to_run_count() != test.total_test_count())
      return;
    std::ofstream out(std::string(build) + "/feature_table.md");
    out << "# RocksDB's features on a trie\n\n"
           "Generated by test/compatibility_test: each row is what a check found. `works`: as in RocksDB. `differs`: "
           "works, and the\nremark names the difference. `refused`: returns a status that says so. A dash: the "
           "question "
           "does not arise. The\ntable is the same with RocksDB 9.10.0 and 11.8.1. Other engines keep RocksDB's "
           "tables or compaction;\n[choose_engine.md](choose_engine.md) says what they refuse.\n\n"
           "| feature | trie in hash order | trie in key order | remark |\n"
           "| --- | --- | --- | --- |\n";
    for (const Row& row : Rows()) {
      if (IsOfSilt(row)) continue;
      out << "| " << row.feature;
      for (const Finding& finding : row.found) out << " | " << (finding.answer.empty() ? "-" : finding.answer);
      out << " | " << RemarkOf(row) << " |\n";
    }
    out << "\n| feature of a SILT store | | remark |\n| --- | --- | --- |\n";
    for (const Row& row : Rows()) {
      if (!IsOfSilt(row)) continue;
      const Finding& found = row.found[kHashOrder];
      out << "| " << row.feature.substr(kSilt.size()) << " | " << found.answer << " | " << found.remark << " |\n";
    }
    out << kOfRocksDB11;
  }
};
::testing::Environment* const kTableWriter = ::testing::AddGlobalTestEnvironment(new TableWriter);

// ---- Helpers

#define ASSERT_SAYS(expression, code, part)                                               \
  do {                                                                                    \
    const Status status_of_says = (expression);                                           \
    ASSERT_TRUE(status_of_says.code) << #expression << ": " << status_of_says.ToString(); \
    ASSERT_NE(status_of_says.ToString().find(part), std::string::npos)                    \
        << "no \"" << (part) << "\" in: " << status_of_says.ToString();                   \
  } while (false)

constexpr int kKeys = 2000;

std::string Key(int i) { return "key" + std::to_string(i); }
std::string Value(int i, int version) {
  return std::to_string(i) + " version " + std::to_string(version) + std::string(i % 50, 'v');
}

class FeatureTest : public ::testing::Test {
 protected:
  FeatureTest() { g_order = kHashOrder; }

  TempDir dir_;

  std::string DbPath() const { return dir_ / "db"; }

  static std::unique_ptr<rocksdb::DB> Open(const Options& options, const std::string& path) {
    rocksdb::DB* db = nullptr;
    EXPECT_OK(cairn::Open(options, path, &db));
    return std::unique_ptr<rocksdb::DB>(db);
  }
  std::unique_ptr<rocksdb::DB> Open(const Options& options) { return Open(options, DbPath()); }

  static std::unique_ptr<rocksdb::DB> PlainOpen(const Options& options, const std::string& path) {
    rocksdb::DB* db = nullptr;
    EXPECT_OK(rocksdb::DB::Open(options, path, port::Into(&db)));
    return std::unique_ptr<rocksdb::DB>(db);
  }

  // All keys, three versions each, a tenth deleted, over many flushed files.
  static void Fill(rocksdb::DB* db, ColumnFamilyHandle* family = nullptr) {
    if (family == nullptr) family = db->DefaultColumnFamily();
    for (int version = 0; version < 3; ++version) {
      for (int i = 0; i < kKeys; ++i) {
        ASSERT_OK(db->Put(WriteOptions(), family, Key(i), Value(i, version)));
        if (i % 400 == 399) ASSERT_OK(db->Flush(rocksdb::FlushOptions(), family));
      }
    }
    for (int i = 0; i < kKeys; i += 10) ASSERT_OK(db->Delete(WriteOptions(), family, Key(i)));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions(), family));
  }

  // That `db` holds what Fill wrote, by scan and by Get.
  static void Check(rocksdb::DB* db, ColumnFamilyHandle* family = nullptr) {
    if (family == nullptr) family = db->DefaultColumnFamily();
    std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(ReadOptions(), family));
    std::set<std::string> seen;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) seen.insert(iterator->key().ToString());
    ASSERT_OK(iterator->status());
    ASSERT_EQ(seen.size(), static_cast<size_t>(kKeys - kKeys / 10));
    for (int i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = db->Get(ReadOptions(), family, Key(i), &value);
      if (i % 10 == 0) {
        ASSERT_TRUE(status.IsNotFound()) << status.ToString();
      } else {
        ASSERT_OK(status);
        ASSERT_EQ(value, Value(i, 2));
      }
    }
  }

  // The same of the database's trie, which still takes writes and compacts to one table per key.
  static void CheckCompacts(rocksdb::DB* db) {
    ASSERT_NO_FATAL_FAILURE(Check(db));
    ASSERT_OK(db->Put(WriteOptions(), "extra", "1"));
    ASSERT_OK(db->Delete(WriteOptions(), "extra"));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(CompactTrie(db, db->DefaultColumnFamily()));
    rocksdb::TablePropertiesCollection tables;
    ASSERT_OK(db->GetPropertiesOfAllTables(&tables));
    uint64_t entries = 0;
    for (const auto& [file, properties] : tables) entries += properties->num_entries;
    EXPECT_EQ(entries, static_cast<uint64_t>(kKeys - kKeys / 10));
    Check(db);
  }
};

class CompatibilityTest : public FeatureTest, public ::testing::WithParamInterface<std::string> {
 protected:
  CompatibilityTest() { g_order = InKeyOrder() ? kKeyOrder : kHashOrder; }

  static Options TrieOptionsOf() { return OptionsOf(*FindEngine(GetParam())); }
  static TrieOptionText ShapeOf(const Options& options) {
    TrieOptionText trie;
    EXPECT_TRUE(IsTrie(options, &trie));
    return trie;
  }
  static bool InKeyOrder() { return ShapeOf(TrieOptionsOf()).order == "key"; }

  // Options of a column family that keeps its keys in another order than the trie does.
  static Options OfAnotherOrder() {
    Options options = OptionsOf(*FindEngine("leveled"));
    if (InKeyOrder()) options.comparator = rocksdb::ReverseBytewiseComparator();
    options.num_levels = 64;
    return options;
  }

  using FeatureTest::Open;
  std::unique_ptr<rocksdb::DB> Open() { return Open(TrieOptionsOf()); }
};

INSTANTIATE_TEST_SUITE_P(Orders, CompatibilityTest, ::testing::ValuesIn(EnginesToCheck()),
                         [](const auto& with) { return with.param; });

// ---- Reading and writing

TEST_P(CompatibilityTest, PointReadsAndWrites) {
  Options options = TrieOptionsOf();
  ASSERT_OK(
      rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator));
  auto db = Open(options);
  Fill(db.get());
  Check(db.get());
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(Key(i));
  std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db->MultiGet(ReadOptions(), slices, &values);
  for (int i = 0; i < 100; ++i) {
    if (i % 10 == 0) {
      EXPECT_TRUE(statuses[i].IsNotFound());
    } else {
      EXPECT_EQ(values[i], Value(i, 2));
    }
  }
  Works("Get, MultiGet, Put, Delete, WriteBatch", "engine_model_test");
  ASSERT_OK(db->Put(WriteOptions(), "once", "1"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(db->SingleDelete(WriteOptions(), "once"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  std::string value;
  EXPECT_TRUE(db->Get(ReadOptions(), "once", &value).IsNotFound());
  Works("SingleDelete", "engine_model_test");
  for (const char* piece : {"a", "b", "c"}) {
    ASSERT_OK(db->Merge(WriteOptions(), "merged", piece));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  ASSERT_OK(db->Get(ReadOptions(), "merged", &value));
  EXPECT_EQ(value, "a,b,c");
  rocksdb::GetMergeOperandsOptions merge_options;
  merge_options.expected_max_number_of_operands = 10;
  std::vector<rocksdb::PinnableSlice> operands(10);
  int count = 0;
  ASSERT_OK(db->GetMergeOperands(ReadOptions(), db->DefaultColumnFamily(), "merged", operands.data(), &merge_options,
                                 &count));
  EXPECT_GE(count, 1);
  Works("Merge, GetMergeOperands", "engine_model_test");
  ASSERT_OK(db->PutEntity(WriteOptions(), db->DefaultColumnFamily(), "entity", {{"a", "1"}, {"b", "2"}}));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  rocksdb::PinnableWideColumns columns;
  ASSERT_OK(db->GetEntity(ReadOptions(), db->DefaultColumnFamily(), "entity", &columns));
  EXPECT_EQ(columns.columns().size(), 2u);
  Works("wide columns (PutEntity, GetEntity)", "engine_model_test");
}

TEST_P(CompatibilityTest, Snapshots) {
  auto db = Open();
  ASSERT_OK(db->Put(WriteOptions(), "old", "1"));
  const rocksdb::Snapshot* snapshot = db->GetSnapshot();
  Fill(db.get());
  ASSERT_OK(db->Put(WriteOptions(), "old", "2"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  ReadOptions at;
  at.snapshot = snapshot;
  std::string value;
  ASSERT_OK(db->Get(at, "old", &value));
  EXPECT_EQ(value, "1");
  std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(at));
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), "old");
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
  iterator.reset();
  db->ReleaseSnapshot(snapshot);
  Works("snapshots", "engine_model_test");
}

TEST_P(CompatibilityTest, Iterators) {
  auto db = Open();
  Fill(db.get());
  const rocksdb::Comparator* order = db->DefaultColumnFamily()->GetComparator();
  ReadOptions read;
  read.readahead_size = 1 << 16;
  read.async_io = true;
  std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(read));
  std::string previous;
  int forward = 0, backward = 0;
  bool by_bytes = true;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++forward) {
    if (forward != 0) {
      ASSERT_LT(order->Compare(previous, iterator->key()), 0);
      by_bytes = by_bytes && previous < iterator->key().ToString();
    }
    previous = iterator->key().ToString();
  }
  EXPECT_EQ(by_bytes, InKeyOrder());
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) ++backward;
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward, kKeys - kKeys / 10);
  if (InKeyOrder()) {
    Works("iterators", "bounds, SeekForPrev and range scans as in RocksDB; metamorphic_test");
  } else {
    Differs("iterators", "complete, both directions, snapshot-consistent; there is no range scan");
  }
  Works("read-ahead, async_io");
  ASSERT_OK(db->Put(WriteOptions(), "fresh", "1"));
  iterator->Seek("fresh");
  EXPECT_TRUE(!iterator->Valid() || iterator->key() != "fresh");
  ASSERT_OK(iterator->Refresh());
  iterator->Seek("fresh");
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), "fresh");
  Works("Iterator::Refresh", "engine_model_test");
  ASSERT_OK(db->Delete(WriteOptions(), "fresh"));
  read = ReadOptions();
  read.tailing = true;
  iterator.reset(db->NewIterator(read));
  int tailed = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++tailed;
  ASSERT_OK(iterator->status());
  EXPECT_EQ(tailed, kKeys - kKeys / 10);
  ASSERT_OK(db->Put(WriteOptions(), "tail", "1"));
  iterator->Seek("tail");
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->key(), "tail");
  Works("tailing iterators");
}

// Every range of keys between bounds, forward, backward and by SeekForPrev, and every prefix.
TEST_P(CompatibilityTest, RangesAndPrefixes) {
  if (!InKeyOrder()) return;  // OptionsWithoutMeaningAreRefused
  Options options = TrieOptionsOf();
  options.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(5));  // "key" and two digits
  ASSERT_OK(UseTrie(&options, ShapeOf(options)));
  auto db = Open(options);
  Fill(db.get());
  std::set<std::string> keys;
  for (int i = 0; i < kKeys; ++i) {
    if (i % 10 != 0) keys.insert(Key(i));
  }
  for (int i = 0; i < kKeys; i += 97) {
    const std::string from = Key(i), to = Key(i) + "9";
    const Slice lower(from), upper(to);
    ReadOptions read;
    read.iterate_lower_bound = &lower;
    read.iterate_upper_bound = &upper;
    read.total_order_seek = true;
    const std::vector<std::string> expected(keys.lower_bound(from), keys.lower_bound(to));
    std::vector<std::string> forward, backward;
    std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(read));
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) forward.push_back(iterator->key().ToString());
    for (iterator->SeekForPrev(to); iterator->Valid(); iterator->Prev()) backward.push_back(iterator->key().ToString());
    ASSERT_OK(iterator->status());
    std::reverse(backward.begin(), backward.end());
    EXPECT_EQ(forward, expected) << from;
    EXPECT_EQ(backward, expected) << from;
    ReadOptions of_prefix;
    of_prefix.prefix_same_as_start = true;
    const std::string prefix = from.substr(0, 5);
    if (prefix.size() < 5) continue;
    size_t count = 0;
    iterator.reset(db->NewIterator(of_prefix));
    for (iterator->Seek(prefix); iterator->Valid(); iterator->Next()) ++count;
    ASSERT_OK(iterator->status());
    EXPECT_EQ(count, static_cast<size_t>(std::distance(keys.lower_bound(prefix), keys.lower_bound(prefix + ":"))));
  }
  ASSERT_OK(db->SetOptions({{"prefix_extractor", "fixed:3"}}));
  CheckCompacts(db.get());
  Works("prefix extractors", "scans of a prefix, at any open and by SetOptions");
}

TEST_P(CompatibilityTest, PrefixOrders) {
  if (!InKeyOrder()) return;
  Options options = TrieOptionsOf();
  options.comparator = PrefixOrder(4);  // "key" and a digit
  options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(4));
  ASSERT_OK(UseTrie(&options, ShapeOf(options)));
  {
    auto db = Open(options);
    Fill(db.get());
  }
  rocksdb::DBOptions stored;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), DbPath(), &stored, &families));
  EXPECT_EQ(families[0].options.comparator, PrefixOrder(4));
  auto db = Open(options);
  Check(db.get());
  ReadOptions of_prefix;
  of_prefix.prefix_same_as_start = true;
  size_t count = 0, expected = 0;
  std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(of_prefix));
  for (iterator->Seek("key7"); iterator->Valid(); iterator->Next()) ++count;
  ASSERT_OK(iterator->status());
  for (int i = 0; i < kKeys; ++i) expected += i % 10 != 0 && Key(i)[3] == '7' ? 1 : 0;
  EXPECT_EQ(count, expected);
  iterator.reset();
  CheckCompacts(db.get());
  Works("keys by a prefix, and within it by a hash (cairn.PrefixOrder)",
        "scans, bounds and DeleteRange of whole prefixes; prefix_order_test");
  ASSERT_SAYS(db->SetOptions({{"prefix_extractor", "fixed:5"}}), IsNotSupported(), "cairn.PrefixOrder:fixed:4");
  Refused("a prefix extractor that takes more bytes than cairn.PrefixOrder",
          "NotSupported, at any open and by SetOptions");
}

TEST_P(CompatibilityTest, OptionsWithoutMeaningAreRefused) {
  const TrieOptionText trie = ShapeOf(TrieOptionsOf());
  Options options = BaseOptions();
  if (!InKeyOrder()) {
    options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(3));
    ASSERT_SAYS(UseTrie(&options, trie), IsNotSupported(), "prefix");
    Refused("prefix extractors",
            "NotSupported at UseTrie, open, CreateColumnFamily and SetOptions: keys of one prefix do not lie together");
  }
  options = BaseOptions();
  options.ttl = 3600;
  options.periodic_compaction_seconds = 7200;
  ASSERT_OK(UseTrie(&options, trie));
  auto db = Open(options);
  EXPECT_EQ(db->GetOptions().ttl, 3600u);
  ASSERT_OK(db->SetOptions({{"ttl", "7200"}, {"periodic_compaction_seconds", "3600"}}));
  Works("the options ttl and periodic_compaction_seconds",
        "30 days, RocksDB's default, are none; expired_entries_test");
}

TEST_P(CompatibilityTest, WriteBatchWithIndex) {
  auto db = Open();
  Fill(db.get());
  rocksdb::WriteBatchWithIndex batch(db->DefaultColumnFamily()->GetComparator(), 0, true);
  ASSERT_OK(batch.Put(Key(1), "from the batch"));
  ASSERT_OK(batch.Delete(Key(2)));
  ASSERT_OK(batch.Put("new", "1"));
  std::string value;
  ASSERT_OK(batch.GetFromBatchAndDB(db.get(), ReadOptions(), Key(1), &value));
  EXPECT_EQ(value, "from the batch");
  EXPECT_TRUE(batch.GetFromBatchAndDB(db.get(), ReadOptions(), Key(2), &value).IsNotFound());
  ASSERT_OK(batch.GetFromBatchAndDB(db.get(), ReadOptions(), Key(3), &value));
  EXPECT_EQ(value, Value(3, 2));
  std::unique_ptr<rocksdb::Iterator> iterator(batch.NewIteratorWithBase(db->NewIterator(ReadOptions())));
  int seen = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++seen;
  EXPECT_EQ(seen, kKeys - kKeys / 10);
  iterator.reset();
  ASSERT_OK(db->Write(WriteOptions(), batch.GetWriteBatch()));
  ASSERT_OK(db->Get(ReadOptions(), Key(1), &value));
  EXPECT_EQ(value, "from the batch");
  Works("WriteBatchWithIndex", InKeyOrder() ? "" : "give it the column family's comparator");
}

// Refused before anything is logged. RocksDB changes a transaction's state before it writes, so this one cannot be
// rolled back: what was prepared before is ended when the database is opened next.
TEST_P(CompatibilityTest, RangeDeletionsInPreparedTransactions) {
  if (InKeyOrder()) return;  // it takes them
  for (const bool at_commit : {true, false}) {
    SCOPED_TRACE(at_commit);
    const auto open = [&](std::unique_ptr<rocksdb::TransactionDB>* db) {
      ASSERT_OK(
          rocksdb::TransactionDB::Open(TrieOptionsOf(), rocksdb::TransactionDBOptions(), DbPath(), port::Into(db)));
    };
    std::unique_ptr<rocksdb::TransactionDB> db;
    open(&db);
    ASSERT_OK(db->Put(WriteOptions(), "a", "0"));
    std::unique_ptr<rocksdb::Transaction> one(db->BeginTransaction(WriteOptions()));
    ASSERT_OK(one->SetName("one"));
    ASSERT_OK(one->Put("a", "1"));
    if (at_commit) {
      ASSERT_OK(one->Prepare());
      ASSERT_OK(one->GetCommitTimeWriteBatch()->DeleteRange("a", "b"));
      EXPECT_TRUE(one->Commit().IsNotSupported());
    } else {
      ASSERT_OK(one->GetWriteBatch()->GetWriteBatch()->DeleteRange("a", "b"));
      EXPECT_TRUE(one->Prepare().IsNotSupported());
    }
    one.reset();
    db.reset();
    open(&db);
    rocksdb::Transaction* const prepared = db->GetTransactionByName("one");
    EXPECT_EQ(prepared != nullptr, at_commit);
    if (prepared != nullptr) {
      ASSERT_OK(prepared->Rollback());
      delete prepared;
    }
    std::string value;
    ASSERT_OK(db->Get(ReadOptions(), "a", &value));
    EXPECT_EQ(value, "0");
  }
}

TEST_P(CompatibilityTest, Transactions) {
  {
    std::unique_ptr<rocksdb::TransactionDB> db;
    ASSERT_OK(
        rocksdb::TransactionDB::Open(TrieOptionsOf(), rocksdb::TransactionDBOptions(), DbPath(), port::Into(&db)));
    Fill(db.get());
    std::unique_ptr<rocksdb::Transaction> one(db->BeginTransaction(WriteOptions()));
    ASSERT_OK(one->Put("a", "1"));
    rocksdb::TransactionOptions quick;
    quick.lock_timeout = 1;
    std::unique_ptr<rocksdb::Transaction> two(db->BeginTransaction(WriteOptions(), quick));
    EXPECT_TRUE(two->Put("a", "2").IsTimedOut());
    ASSERT_OK(one->Commit());
    ASSERT_OK(db->Delete(WriteOptions(), "a"));
    Check(db.get());
    two.reset(db->BeginTransaction(WriteOptions()));
    ASSERT_OK(two->SetName("survivor"));
    ASSERT_OK(two->Put("b", "prepared"));
    ASSERT_OK(two->Prepare());
    two.reset();
    one.reset();
  }
  {
    std::unique_ptr<rocksdb::TransactionDB> db;
    ASSERT_OK(
        rocksdb::TransactionDB::Open(TrieOptionsOf(), rocksdb::TransactionDBOptions(), DbPath(), port::Into(&db)));
    std::unique_ptr<rocksdb::Transaction> prepared(db->GetTransactionByName("survivor"));
    ASSERT_NE(prepared, nullptr);
    ASSERT_OK(prepared->Commit());
    std::string value;
    ASSERT_OK(db->Get(ReadOptions(), "b", &value));
    EXPECT_EQ(value, "prepared");
    ASSERT_OK(db->Delete(WriteOptions(), "b"));
    prepared.reset();
    CheckCompacts(db->GetRootDB());
  }
  Works("TransactionDB, two-phase commit", "engine_model_test");
  std::unique_ptr<rocksdb::OptimisticTransactionDB> db;
  ASSERT_OK(rocksdb::OptimisticTransactionDB::Open(TrieOptionsOf(), DbPath(), port::Into(&db)));
  std::unique_ptr<rocksdb::Transaction> one(db->BeginTransaction(WriteOptions()));
  ASSERT_OK(one->Put("a", "1"));
  ASSERT_OK(db->Put(WriteOptions(), "a", "2"));
  EXPECT_TRUE(one->Commit().IsBusy());
  ASSERT_OK(db->Delete(WriteOptions(), "a"));
  Check(db.get());
  Works("OptimisticTransactionDB", "engine_model_test");
}

TEST_P(CompatibilityTest, ColumnFamilies) {
  auto db = Open();
  ColumnFamilyHandle* leveled = nullptr;
  ColumnFamilyHandle* other = nullptr;
  ASSERT_OK(db->CreateColumnFamily(OptionsOf(*FindEngine("leveled")), "leveled", &leveled));
  ASSERT_OK(db->CreateColumnFamily(OptionsOf(*FindEngine("trie_sha1")), "sha1", &other));
  Fill(db.get());
  Fill(db.get(), leveled);
  Fill(db.get(), other);
  Check(db.get());
  Check(db.get(), leveled);
  Check(db.get(), other);
  TrieStats stats;
  ASSERT_SAYS(CompactTrie(db.get(), leveled), IsNotSupported(), "leveled");
  ASSERT_SAYS(GetTrieStats(db.get(), leveled, &stats), IsNotFound(), "leveled");
  ASSERT_OK(db->DropColumnFamily(other));
  ASSERT_OK(db->DestroyColumnFamilyHandle(other));
  ASSERT_OK(db->DestroyColumnFamilyHandle(leveled));
  Works("column families",
        "tries of different shapes beside ordinary ones; created and dropped while open; engine_model_test");
}

TEST_P(CompatibilityTest, DeleteRange) {
  auto db = Open();
  Fill(db.get());
  if (InKeyOrder()) {
    const std::string first = Key(1000), last = Key(1500);
    const auto check = [&] {
      std::string value;
      for (int i = 0; i < kKeys; ++i) {
        const bool deleted = i % 10 == 0 || (Key(i) >= first && Key(i) < last);
        EXPECT_EQ(db->Get(ReadOptions(), Key(i), &value).IsNotFound(), deleted) << Key(i);
      }
    };
    rocksdb::WriteBatch batch;
    ASSERT_OK(batch.Put(Key(1200), "before"));
    ASSERT_OK(batch.DeleteRange(first, last));
    ASSERT_OK(db->Write(WriteOptions(), &batch));
    check();
    db.reset();
    db = Open();
    check();
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(WaitForTrieCompaction(db.get()));
    check();
    ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
    check();
    Works("DeleteRange",
          "tables that one covers are removed unread, and no compaction becomes larger; key_trie_ranges_test, "
          "engine_model_test");
    // Which keys go is the tables' to say: those that lie within the range, below level 0. How many tables the keys
    // are in is the compactions' matter, so the range is one table's.
    ASSERT_OK(WaitForTrieCompaction(db.get()));
    const auto below_0 = [&] {
      std::vector<rocksdb::LiveFileMetaData> files, result;
      db->GetLiveFilesMetaData(&files);
      for (const auto& file : files) {
        if (file.level > 0) result.push_back(file);
      }
      return result;
    };
    const auto tables = below_0();
    ASSERT_FALSE(tables.empty());
    const std::string begin = tables.front().smallestkey, end = tables.front().largestkey;
    const auto within = [&] {
      std::vector<rocksdb::LiveFileMetaData> result;
      for (const auto& file : below_0()) {
        if (file.smallestkey >= begin && file.largestkey <= end) result.push_back(file);
      }
      return result;
    };
    const auto gone = within();
    EXPECT_FALSE(gone.empty());
    const Slice from(begin), to(end);
    ASSERT_OK(rocksdb::DeleteFilesInRange(db.get(), db->DefaultColumnFamily(), &from, &to));
    EXPECT_TRUE(within().empty());
    std::string value;
    for (const auto& file : gone) {
      EXPECT_TRUE(db->Get(ReadOptions(), file.smallestkey, &value).IsNotFound()) << file.smallestkey;
    }
    for (int i = 0; i < kKeys; ++i) {
      const bool deleted = i % 10 == 0 || (Key(i) >= first && Key(i) < last);
      if (!deleted && (Key(i) < begin || Key(i) > end)) EXPECT_OK(db->Get(ReadOptions(), Key(i), &value));
    }
    Works("DeleteFilesInRange");
    return;
  }
  ASSERT_SAYS(db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), Key(1), Key(5)), IsNotSupported(),
              "DeleteRange");
  rocksdb::WriteBatch batch;
  ASSERT_OK(batch.DeleteRange(Key(1), Key(5)));
  ASSERT_OK(batch.Put(Key(10), "torn"));
  ASSERT_SAYS(db->Write(WriteOptions(), &batch), IsNotSupported(), "DeleteRange");
  Check(db.get());
  db.reset();
  db = Open();
  CheckCompacts(db.get());
  Refused("DeleteRange",
          "NotSupported, before it is logged: a range of keys is no range of hashes; delete the keys, or drop the "
          "column family");
}

TEST_P(CompatibilityTest, CompactRange) {
  auto db = Open();
  Fill(db.get());
  const std::string first = Key(1), last = Key(5);
  const Slice begin(first), end(last);
  if (InKeyOrder()) {
    ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), &begin, &end));
    Check(db.get());
    ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), &begin, nullptr));
    ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, &end));
    Check(db.get());
    Works("CompactRange from a key or up to one");
  } else {
    ASSERT_SAYS(db->CompactRange(rocksdb::CompactRangeOptions(), &begin, nullptr), IsNotSupported(), "CompactTrie");
    Refused("CompactRange from a key or up to one", "NotSupported, names CompactTrie");
  }
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  TrieStats stats;
  ASSERT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &stats));
  EXPECT_EQ(stats.depths[0].files, 0u);
  Works("CompactRange of everything", "other column families compact as ever");
  ColumnFamilyHandle* leveled = nullptr;
  ASSERT_OK(db->CreateColumnFamily(OptionsOf(*FindEngine("leveled")), "leveled", &leveled));
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), leveled, nullptr, nullptr));
  ASSERT_OK(db->DropColumnFamily(leveled));
  ASSERT_OK(db->DestroyColumnFamilyHandle(leveled));
  CheckCompacts(db.get());
  TrieCompactOptions one;
  if (InKeyOrder()) {
    ASSERT_SAYS(TrieContainerOf(db->DefaultColumnFamily(), Key(1), 2, &one.container), IsNotSupported(), "key order");
    one.depth = 2;
    ASSERT_SAYS(CompactTrie(db.get(), db->DefaultColumnFamily(), one), IsNotSupported(), "CompactRange");
    Works("manual compaction of everything", "cairn::CompactTrie");
    Refused("manual compaction of a container or a depth", "NotSupported: they have no numbers, names CompactRange");
    return;
  }
  ASSERT_OK(TrieContainerOf(db->DefaultColumnFamily(), Key(1), 2, &one.container));
  ASSERT_EQ(one.container.size(), 2u);
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily(), one));
  one.container = {99};
  ASSERT_SAYS(CompactTrie(db.get(), db->DefaultColumnFamily(), one), IsInvalidArgument(), "99");
  Works("manual compaction of everything", "cairn::CompactTrie");
  Works("manual compaction of a container or a depth", "cairn::CompactTrie");
}

TEST_P(CompatibilityTest, PausesAndManualCompaction) {
  auto db = Open();
  Fill(db.get());
  ASSERT_OK(db->PauseBackgroundWork());
  EXPECT_TRUE(CompactTrie(db.get(), db->DefaultColumnFamily()).IsIncomplete());
  ASSERT_OK(db->ContinueBackgroundWork());
  Works("PauseBackgroundWork, ContinueBackgroundWork", "shutdown_test");
  db->DisableManualCompaction();
  Fill(db.get());
  EXPECT_TRUE(CompactTrie(db.get(), db->DefaultColumnFamily()).IsIncomplete());
  db->EnableManualCompaction();
  CheckCompacts(db.get());
  Differs("DisableManualCompaction",
          "a trie's automatic compactions wait for EnableManualCompaction, too; shutdown_test");
}

// ---- Copies of a database

TEST_P(CompatibilityTest, Backup) {
  auto db = Open();
  rocksdb::BackupEngineOptions options(dir_ / "backup");
  options.share_files_with_checksum = true;
  std::unique_ptr<rocksdb::BackupEngine> engine;
  ASSERT_OK(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), options, port::Into(&engine)));
  Fill(db.get());
  ASSERT_OK(engine->CreateNewBackup(db.get(), true));
  ASSERT_OK(db->Put(WriteOptions(), "later", "1"));
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  ASSERT_OK(engine->CreateNewBackup(db.get(), true));
  ASSERT_OK(engine->VerifyBackup(1, true));
  ASSERT_OK(engine->VerifyBackup(2, true));
  ASSERT_OK(engine->RestoreDBFromBackup(1, dir_ / "one", dir_ / "one"));
  ASSERT_OK(engine->RestoreDBFromLatestBackup(dir_ / "two", dir_ / "two"));
  auto one = Open(TrieOptionsOf(), dir_ / "one");
  CheckCompacts(one.get());
  auto two = PlainOpen(TrieOptionsOf(), dir_ / "two");
  std::string value;
  ASSERT_OK(two->Get(ReadOptions(), "later", &value));
  ASSERT_OK(two->Delete(WriteOptions(), "later"));
  Check(two.get());
  Works("BackupEngine: incremental backup, verification, restore");
}

TEST_P(CompatibilityTest, Checkpoint) {
  auto db = Open();
  Fill(db.get());
  rocksdb::Checkpoint* raw = nullptr;
  ASSERT_OK(rocksdb::Checkpoint::Create(db.get(), &raw));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  ASSERT_OK(checkpoint->CreateCheckpoint(dir_ / "copy"));
  ASSERT_OK(db->Put(WriteOptions(), Key(1), "changed later"));
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  auto copy = Open(TrieOptionsOf(), dir_ / "copy");
  CheckCompacts(copy.get());
  Works("Checkpoint");
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> metadata;
  ASSERT_OK(rocksdb::Checkpoint::Create(copy.get(), &raw));
  checkpoint.reset(raw);
  ASSERT_OK(checkpoint->ExportColumnFamily(copy->DefaultColumnFamily(), dir_ / "export", port::Into(&metadata)));
  auto other = Open(TrieOptionsOf(), dir_ / "other");
  ColumnFamilyHandle* imported = nullptr;
  ASSERT_OK(other->CreateColumnFamilyWithImport(TrieOptionsOf(), "imported", rocksdb::ImportColumnFamilyOptions(),
                                                *metadata, &imported));
  Check(other.get(), imported);
  Fill(other.get(), imported);
  ASSERT_OK(CompactTrie(other.get(), imported));
  Check(other.get(), imported);
  ASSERT_OK(other->DestroyColumnFamilyHandle(imported));
  Works("ExportColumnFamily, CreateColumnFamilyWithImport",
        InKeyOrder() ? "into a trie with as many levels" : "into a trie of the same shape, hash and seed");
  // Another order cannot take the files.
  imported = nullptr;
  EXPECT_TRUE(Says(other->CreateColumnFamilyWithImport(OfAnotherOrder(), "wrong", rocksdb::ImportColumnFamilyOptions(),
                                                       *metadata, &imported),
                   &Status::IsInvalidArgument, "omparator"));
  Refused("import into a column family of another order", "InvalidArgument, names the comparators");
}

TEST_P(CompatibilityTest, LiveFiles) {
  auto db = Open();
  Fill(db.get());
  ASSERT_OK(db->DisableFileDeletions());
  std::vector<std::string> files;
  uint64_t manifest_size = 0;
  ASSERT_OK(db->GetLiveFiles(files, &manifest_size));
  EXPECT_GT(files.size(), 3u);
  for (const std::string& file : files) EXPECT_TRUE(std::filesystem::exists(DbPath() + file)) << file;
  std::vector<rocksdb::LiveFileStorageInfo> infos;
  ASSERT_OK(db->GetLiveFilesStorageInfo(rocksdb::LiveFilesStorageInfoOptions(), &infos));
  EXPECT_GT(infos.size(), 3u);
  ASSERT_OK(db->EnableFileDeletions());
  Works("GetLiveFiles, GetLiveFilesStorageInfo, DisableFileDeletions");
  std::unique_ptr<rocksdb::TransactionLogIterator> log;
  ASSERT_OK(db->Put(WriteOptions(), "last", "1"));
  ASSERT_OK(db->GetUpdatesSince(db->GetLatestSequenceNumber(), &log));
  ASSERT_TRUE(log->Valid());
  EXPECT_EQ(log->GetBatch().sequence, db->GetLatestSequenceNumber());
  Works("GetUpdatesSince");
}

TEST_P(CompatibilityTest, OptionsFileAlone) {
  {
    Options options = TrieOptionsOf();
    ASSERT_OK(
        rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator));
    auto db = Open(options);
    ASSERT_OK(db->Put(WriteOptions(), "first", "1"));
    ASSERT_OK(db->Delete(WriteOptions(), "first"));
  }
  // From here on, no line names Cairn: what any program for RocksDB does.
  rocksdb::DBOptions db_options;
  std::vector<ColumnFamilyDescriptor> descriptors;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), DbPath(), &db_options, &descriptors));
  ASSERT_EQ(descriptors.size(), 1u);
  // The database's own seed.
  uint64_t seed = 0;
  if (!InKeyOrder()) ASSERT_OK(GetHashSeed(descriptors[0].options, &seed));
  ASSERT_NE(descriptors[0].options.sst_partitioner_factory, nullptr);
  EXPECT_STREQ(descriptors[0].options.sst_partitioner_factory->Name(), "cairn.TriePartitioner");
  EXPECT_TRUE(db_options.listeners.empty());  // every opening of a trie brings its own
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_OK(rocksdb::DB::Open(db_options, DbPath(), descriptors, &handles, port::Into(&db)));
  Fill(db.get());
  Check(db.get());
  ASSERT_OK(db->DestroyColumnFamilyHandle(handles[0]));
  // It did compact, by itself.
  ASSERT_OK(WaitForTrieCompaction(db.get()));
  TrieStats stats;
  ASSERT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &stats));
  EXPECT_GT(stats.root_compactions, 0u);
  EXPECT_GE(stats.depths.back().depth, 1);
  db.reset();
  ASSERT_OK(rocksdb::CheckOptionsCompatibility(rocksdb::ConfigOptions(), DbPath(), db_options, descriptors));
  Works("OPTIONS file", "LoadLatestOptions and DB::Open run the trie with no Cairn call in the program");
}

TEST_P(CompatibilityTest, ReadOnlyAndSecondary) {
  auto db = Open();
  Fill(db.get());
  ASSERT_OK(db->Put(WriteOptions(), "in the log only", "1"));
  rocksdb::DB* raw = nullptr;
  ASSERT_OK(rocksdb::DB::OpenAsSecondary(TrieOptionsOf(), DbPath(), dir_ / "secondary", port::Into(&raw)));
  std::unique_ptr<rocksdb::DB> secondary(raw);
  std::string value;
  ASSERT_OK(secondary->TryCatchUpWithPrimary());
  ASSERT_OK(secondary->Get(ReadOptions(), "in the log only", &value));
  ASSERT_OK(db->Delete(WriteOptions(), "in the log only"));
  ASSERT_OK(secondary->TryCatchUpWithPrimary());
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  ASSERT_OK(secondary->TryCatchUpWithPrimary());
  Check(secondary.get());
  EXPECT_FALSE(secondary->Put(WriteOptions(), "k", "v").ok());
  secondary.reset();
  Works("secondary instance (OpenAsSecondary, TryCatchUpWithPrimary)", "max_open_files = -1, as in RocksDB");
  db.reset();
  ASSERT_OK(rocksdb::DB::OpenForReadOnly(TrieOptionsOf(), DbPath(), port::Into(&raw)));
  std::unique_ptr<rocksdb::DB> read_only(raw);
  Check(read_only.get());
  EXPECT_TRUE(read_only->Put(WriteOptions(), "k", "v").IsNotSupported());
  Works("OpenForReadOnly");
}

TEST_P(CompatibilityTest, IngestFiles) {
  // All keys in one file, in the trie's order, as SstFileWriter demands. The database is made after its files.
  Options options = TrieOptionsOf();
  TrieOptionText trie = ShapeOf(options);
  if (!InKeyOrder()) trie.seed = 17;
  ASSERT_OK(UseTrie(&options, trie));
  auto write = [&](const std::string& path, int parity) {
    std::map<std::string, std::string> records;
    for (int i = 0; i < kKeys; ++i) {
      if (i % 10 != 0 && (parity == 2 || i % 2 == parity)) records[Key(i)] = Value(i, 2);
    }
    ASSERT_OK(WriteTable(path, options, records));
  };
  write(dir_ / "even.sst", 0);
  write(dir_ / "odd.sst", 1);
  write(dir_ / "all.sst", 2);
  {
    auto db = Open(options);
    // Into an empty trie: RocksDB would choose the last slot of the deepest depth, where no file may span containers.
    ASSERT_OK(db->IngestExternalFile({dir_ / "even.sst"}, rocksdb::IngestExternalFileOptions()));
    ASSERT_OK(db->IngestExternalFile({dir_ / "odd.sst"}, rocksdb::IngestExternalFileOptions()));
    CheckCompacts(db.get());
  }
  {
    auto db = Open(options, dir_ / "filled");
    Fill(db.get());
    for (int i = 0; i < kKeys; ++i) {
      if (i % 10 != 0) ASSERT_OK(db->Put(WriteOptions(), Key(i), "older than the ingested"));
    }
    ASSERT_OK(IngestAgain(db.get(), db->DefaultColumnFamily(), {dir_ / "all.sst"}, {}));
    Check(db.get());
    // And what comes after the ingested file wins over it.
    Fill(db.get());
    Check(db.get());
    ASSERT_OK(WaitForTrieCompaction(db.get()));
    CheckCompacts(db.get());
  }
  Works("IngestExternalFile, SstFileWriter, SstFileReader",
        InKeyOrder() ? "sorted bulk loads are never written again"
                     : "write the files with the options, or with the seed, of the column family");
  rocksdb::SstFileReader reader(options);
  ASSERT_OK(reader.Open(dir_ / "all.sst"));
  ASSERT_OK(reader.VerifyChecksum());
  // A file in another order.
  std::map<std::string, std::string> others;
  for (int i = 1000; i < 2000; ++i) others[Key(i)] = "1";
  ASSERT_OK(WriteTable(dir_ / "bytes.sst", OfAnotherOrder(), others));
  auto db = Open(options, dir_ / "filled");
  EXPECT_TRUE(Says(db->IngestExternalFile({dir_ / "bytes.sst"}, rocksdb::IngestExternalFileOptions()),
                   &Status::IsInvalidArgument, "omparator"));
  Check(db.get());
  Refused("ingestion of a file in another order", "InvalidArgument, names the comparators");
  if (InKeyOrder()) return;
  rocksdb::SstFileWriter without_seed(rocksdb::EnvOptions(), TrieOptionsOf());
  ASSERT_OK(without_seed.Open(dir_ / "open.sst"));
  ASSERT_SAYS(without_seed.Put(Key(1), "1"), IsInvalidArgument(), "GetHashSeed");
  Refused("SstFileWriter with options that leave the seed open", "InvalidArgument, says how to get the seed");
}

TEST_P(CompatibilityTest, Repair) {
  {
    auto db = Open();
    Fill(db.get());
    ASSERT_OK(WaitForTrieCompaction(db.get()));
  }
  for (const auto& entry : std::filesystem::directory_iterator(DbPath())) {
    const std::string name = entry.path().filename().string();
    if (name == "CURRENT" || name.rfind("MANIFEST", 0) == 0) std::filesystem::remove(entry.path());
  }
  ASSERT_OK(rocksdb::RepairDB(DbPath(), TrieOptionsOf()));
  auto db = Open();
  CheckCompacts(db.get());
  Differs("RepairDB", "with the trie's options; all tables go back to the root and are compacted anew");
}

// ---- What lives in the tables

class DropOdd : public rocksdb::CompactionFilter {
 public:
  bool Filter(int, const Slice& key, const Slice&, std::string*, bool*) const override {
    return (key[key.size() - 1] - '0') % 2 == 1;
  }
  const char* Name() const override { return "DropOdd"; }
};

TEST_P(CompatibilityTest, CompactionFilters) {
  DropOdd filter;
  Options options = TrieOptionsOf();
  options.compaction_filter = &filter;
  auto db = Open(options);
  Fill(db.get());
  const auto expect_odd_keys_dropped = [&] {
    for (int i = 0; i < kKeys; ++i) {
      std::string value;
      const Status status = db->Get(ReadOptions(), Key(i), &value);
      EXPECT_EQ(status.ok(), i % 2 == 0 && i % 10 != 0) << i << " " << status.ToString();
    }
  };
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  expect_odd_keys_dropped();
  // CompactRange shows a filter also what lies in one table already; or writes it again for other reasons.
  options.compaction_filter = nullptr;
  db.reset();
  db = Open(options);
  Fill(db.get());
  ASSERT_OK(db->CompactRange({}, nullptr, nullptr));
  const auto tables = [&] {
    std::vector<rocksdb::LiveFileMetaData> files;
    db->GetLiveFilesMetaData(&files);
    std::set<uint64_t> numbers;
    for (const rocksdb::LiveFileMetaData& file : files) numbers.insert(file.file_number);
    return numbers;
  };
  const std::set<uint64_t> before = tables();
  ASSERT_OK(db->CompactRange({}, nullptr, nullptr));
  EXPECT_EQ(tables(), before);
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  ASSERT_OK(db->CompactRange(all, nullptr, nullptr));
  for (const uint64_t table : tables()) EXPECT_GT(table, *before.rbegin());
  Check(db.get());
  options.compaction_filter = &filter;
  db.reset();
  db = Open(options);
  ASSERT_OK(db->CompactRange({}, nullptr, nullptr));
  expect_odd_keys_dropped();
  Works("compaction filters");
}

TEST_P(CompatibilityTest, BlobFiles) {
  Options options = TrieOptionsOf();
  options.enable_blob_files = true;
  options.min_blob_size = 20;
  options.blob_file_size = 64 << 10;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 0.5;
  {
    auto db = Open(options);
    Fill(db.get());
    CheckCompacts(db.get());
    rocksdb::ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(&metadata);
    EXPECT_GT(metadata.blob_file_count, 0u);
  }
  auto db = Open(options);
  Check(db.get());
  Works("blob files (enable_blob_files, garbage collection)");
}

TEST_P(CompatibilityTest, FileChecksums) {
  Options options = TrieOptionsOf();
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  auto db = Open(options);
  Fill(db.get());
  ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
  ASSERT_OK(db->VerifyFileChecksums(ReadOptions()));
  ASSERT_OK(db->VerifyChecksum());
  Works("file checksums, VerifyFileChecksums, VerifyChecksum");
  // A damaged table is noticed.
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  ASSERT_FALSE(files.empty());
  const std::string name = DbPath() + "/" + files[0].relative_filename;
  db.reset();
  {
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.write("damaged!", 8);
  }
  db = Open(options);
  const Status status = db->VerifyFileChecksums(ReadOptions());
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
}

TEST_P(CompatibilityTest, Compression) {
  Options options = TrieOptionsOf();
  options.compression = rocksdb::kZSTD;
  TrieOptionText trie;
  ASSERT_TRUE(IsTrie(options, &trie));
  // Tables with an ECT index have no dictionaries.
  if (trie.bottommost_format == "same") {
    options.compression_opts.max_dict_bytes = 4096;
    options.compression_opts.zstd_max_train_bytes = 16384;
  }
  auto db = Open(options);
  Fill(db.get());
  CheckCompacts(db.get());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(db->GetPropertiesOfAllTables(&tables));
  ASSERT_FALSE(tables.empty());
  for (const auto& [file, properties] : tables) EXPECT_EQ(port::CompressionNames(*properties), "ZSTD");
  Works("compression, dictionaries");
}

TEST_P(CompatibilityTest, Temperatures) {
  Options options = TrieOptionsOf();
  options.last_level_temperature = rocksdb::Temperature::kCold;
  auto db = Open(options);
  Fill(db.get());
  ASSERT_OK(CompactAll(db.get(), db->DefaultColumnFamily(), true));
  ASSERT_OK(db->Put(WriteOptions(), "flushed", "last"));
  ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  rocksdb::ColumnFamilyMetaData tables;
  db->GetColumnFamilyMetaData(&tables);
  ASSERT_GT(tables.file_count, tables.levels[0].files.size());
  for (const auto& level : tables.levels) {
    const auto expected = level.level == 0 ? rocksdb::Temperature::kUnknown : rocksdb::Temperature::kCold;
    for (const auto& file : level.files) EXPECT_EQ(file.temperature, expected) << file.name << " " << level.level;
  }
  Works("last_level_temperature", "of tables with nothing older below them");
}

TEST_P(CompatibilityTest, TimeToLive) {
  std::unique_ptr<rocksdb::DBWithTTL> db;
  ASSERT_OK(rocksdb::DBWithTTL::Open(TrieOptionsOf(), DbPath(), port::Into(&db), 100000));
  Fill(db.get());
  Check(db.get());
  Works("DBWithTTL", "[most reads](../design/trie.md#how-do-entries-expire) hide what has expired; expired_model_test");
}

TEST_P(CompatibilityTest, SizesAndProperties) {
  auto db = Open();
  Fill(db.get());
  ASSERT_OK(WaitForTrieCompaction(db.get()));
  std::string first, last;
  {
    std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(ReadOptions()));
    iterator->SeekToFirst();
    first = iterator->key().ToString();
    iterator->SeekToLast();
    last = iterator->key().ToString();
  }
  const rocksdb::Range range(first, last);
  uint64_t size = 0;
  ASSERT_OK(db->GetApproximateSizes(rocksdb::SizeApproximationOptions(), db->DefaultColumnFamily(), &range, 1, &size));
  EXPECT_GT(size, 10000u);
  if (InKeyOrder()) {
    Works("GetApproximateSizes");
  } else {
    Differs("GetApproximateSizes", "of ranges of hashes; 0 where they end before they begin");
  }
  uint64_t number = 0;
  EXPECT_TRUE(db->GetIntProperty("rocksdb.estimate-num-keys", &number));
  EXPECT_GT(number, 0u);
  EXPECT_TRUE(db->GetIntProperty("rocksdb.total-sst-files-size", &number));
  EXPECT_GT(number, 0u);
  std::string text;
  EXPECT_TRUE(db->GetProperty("rocksdb.stats", &text));
  EXPECT_TRUE(db->GetProperty("rocksdb.levelstats", &text));
  Works("DB properties, statistics, table properties");
  EXPECT_TRUE(db->GetProperty("cairn.stats", &text));
  EXPECT_NE(text.find("depth"), std::string::npos) << text;
  EXPECT_TRUE(db->GetProperty("cairn.stats.json", &text));
  EXPECT_EQ(text.substr(0, 1), "{") << text;
  TrieStats stats;
  ASSERT_OK(GetTrieStats(db.get(), db->DefaultColumnFamily(), &stats));
  EXPECT_GT(stats.flushed_bytes, 0u);
  EXPECT_GT(stats.write_amplification, 1.0);
  ASSERT_OK(db->EnableAutoCompaction({db->DefaultColumnFamily()}));
  Works("cairn.stats, cairn.stats.json", "DB::GetProperty");
}

TEST_P(CompatibilityTest, SharedResources) {
  Options options = TrieOptionsOf();
  options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(50 << 20));
  options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(256 << 10);
  options.row_cache = rocksdb::NewLRUCache(1 << 20);
  options.statistics = rocksdb::CreateDBStatistics();
  options.atomic_flush = true;
  auto db = Open(options);
  Fill(db.get());
  ASSERT_OK(WaitForTrieCompaction(db.get()));  // rows in the cache are those of a table, and go with it
  Check(db.get());
  std::string value;
  for (int i = 0; i < 2; ++i) ASSERT_OK(db->Get(ReadOptions(), Key(1), &value));
  EXPECT_GT(options.rate_limiter->GetTotalBytesThrough(), 0);
  EXPECT_GT(options.statistics->getTickerCount(rocksdb::COMPACT_WRITE_BYTES), 0u);
  EXPECT_GT(options.statistics->getTickerCount(rocksdb::ROW_CACHE_HIT), 0u);
  Works("rate limiter, write buffer manager, row cache, atomic_flush");
}

TEST_P(CompatibilityTest, ChangedOptions) {
  auto db = Open();
  Fill(db.get());
  ASSERT_OK(db->SetOptions({{"write_buffer_size", "131072"}}));
  ASSERT_OK(db->SetOptions({{"compression", "kZSTD"}}));
  ASSERT_OK(db->SetDBOptions({{"max_background_jobs", "4"}}));
  Fill(db.get());
  Check(db.get());
  Works("SetOptions, SetDBOptions");
  db.reset();
  // Marked "can be changed at any open".
  TrieOptionText trie;
  Options options = TrieOptionsOf();
  ASSERT_TRUE(IsTrie(options, &trie));
  trie.trigger = 3;
  trie.root_trigger = 4;
  trie.space_bound = 2;
  trie.grow_liveness = 0.9;
  trie.depth = 6;
  const auto works_as = [&](const TrieOptionText& changed) {
    options = BaseOptions();
    ASSERT_OK(UseTrie(&options, changed));
    db = Open(options);
    Check(db.get());
    Fill(db.get());
    CheckCompacts(db.get());
    db.reset();
  };
  works_as(trie);
  Works("another trigger, root_trigger, space_bound, grow_liveness or a larger depth at a later open");
  // Tables of several new containers are split. No fewer levels than before: how many hold files depends on how
  // far compaction came.
  trie.fan_out = 4;
  trie.slots = 15;
  trie.depth = 8;
  works_as(trie);
  Works("another fan_out or number of slots at a later open",
        InKeyOrder() ? "the levels that hold files must remain"
                     : "the tables are split anew; the levels that hold files must remain");
}

TEST_P(CompatibilityTest, UserTimestampsAreRefused) {
  Options options = BaseOptions();
  options.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  ASSERT_SAYS(UseTrie(&options, ShapeOf(TrieOptionsOf())), IsNotSupported(), "timestamp");
  auto db = Open();
  const std::string timestamp(8, '\0');
  EXPECT_FALSE(db->Put(WriteOptions(), Key(1), timestamp, "v").ok());
  Refused("user-defined timestamps", "NotSupported at UseTrie");
}

// ---- SILT stores, whose tables and levels are others

class SiltCompatibilityTest : public FeatureTest {
 protected:
  static Options SiltOptionsOf() { return OptionsOf(*FindEngine("silt_partitions")); }
  static Status Merge(rocksdb::DB* db) { return CompactAll(db, db->DefaultColumnFamily(), false); }
};

TEST_F(SiltCompatibilityTest, BackupCheckpointExport) {
  auto db = Open(SiltOptionsOf());
  Fill(db.get());
  std::unique_ptr<rocksdb::BackupEngine> engine;
  ASSERT_OK(rocksdb::BackupEngine::Open(rocksdb::Env::Default(), rocksdb::BackupEngineOptions(dir_ / "backup"),
                                        port::Into(&engine)));
  ASSERT_OK(engine->CreateNewBackup(db.get(), true));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db.get(), port::Into(&checkpoint)));
  ASSERT_OK(checkpoint->CreateCheckpoint(dir_ / "copy"));
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> metadata;
  ASSERT_OK(checkpoint->ExportColumnFamily(db->DefaultColumnFamily(), dir_ / "export", port::Into(&metadata)));
  ASSERT_OK(db->Put(WriteOptions(), Key(1), "changed later"));
  ASSERT_OK(Merge(db.get()));
  ASSERT_OK(engine->VerifyBackup(1, true));
  ASSERT_OK(engine->RestoreDBFromLatestBackup(dir_ / "restored", dir_ / "restored"));
  for (const char* name : {"copy", "restored"}) {
    auto other = Open(SiltOptionsOf(), dir_ / name);
    Check(other.get());
    ASSERT_OK(Merge(other.get()));
    Check(other.get());
  }
  auto other = Open(SiltOptionsOf(), dir_ / "other");
  ColumnFamilyHandle* imported = nullptr;
  ASSERT_OK(other->CreateColumnFamilyWithImport(SiltOptionsOf(), "imported", rocksdb::ImportColumnFamilyOptions(),
                                                *metadata, &imported));
  Check(other.get(), imported);
  ASSERT_OK(other->DestroyColumnFamilyHandle(imported));
  Works("SILT store: BackupEngine, Checkpoint, ExportColumnFamily, CreateColumnFamilyWithImport");
}

TEST_F(SiltCompatibilityTest, OtherOpenings) {
  auto db = Open(SiltOptionsOf());
  Fill(db.get());
  rocksdb::DB* raw = nullptr;
  ASSERT_OK(rocksdb::DB::OpenAsSecondary(SiltOptionsOf(), DbPath(), dir_ / "secondary", port::Into(&raw)));
  std::unique_ptr<rocksdb::DB> secondary(raw);
  ASSERT_OK(Merge(db.get()));
  ASSERT_OK(secondary->TryCatchUpWithPrimary());
  Check(secondary.get());
  secondary.reset();
  db.reset();
  ASSERT_OK(rocksdb::DB::OpenForReadOnly(SiltOptionsOf(), DbPath(), port::Into(&raw)));
  Check(std::unique_ptr<rocksdb::DB>(raw).get());
  rocksdb::DBWithTTL* with_ttl = nullptr;
  ASSERT_OK(rocksdb::DBWithTTL::Open(SiltOptionsOf(), dir_ / "ttl", &with_ttl, 100000));
  std::unique_ptr<rocksdb::DB> ttl(with_ttl);
  Fill(ttl.get());
  ASSERT_OK(Merge(ttl.get()));
  Check(ttl.get());
  std::filesystem::remove(DbPath() + "/CURRENT");
  ASSERT_OK(rocksdb::RepairDB(DbPath(), SiltOptionsOf()));
  db = Open(SiltOptionsOf());
  ASSERT_OK(Merge(db.get()));
  Check(db.get());
  Works("SILT store: secondary instance, OpenForReadOnly, DBWithTTL, RepairDB");
}

TEST_F(SiltCompatibilityTest, BlobsFiltersChecksumsCompression) {
  DropOdd filter;
  Options options = SiltOptionsOf();
  options.enable_blob_files = true;
  options.min_blob_size = 20;
  options.blob_file_size = 64 << 10;
  options.enable_blob_garbage_collection = true;
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  options.compression = rocksdb::kSnappyCompression;
  auto db = Open(options);
  Fill(db.get());
  ASSERT_OK(Merge(db.get()));
  Check(db.get());
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  EXPECT_GT(metadata.blob_file_count, 0u);
  ASSERT_OK(db->VerifyFileChecksums(ReadOptions()));
  ASSERT_OK(db->VerifyChecksum());
  db.reset();
  options.compaction_filter = &filter;
  db = Open(options);
  ASSERT_OK(Merge(db.get()));
  for (int i = 0; i < kKeys; ++i) {
    std::string value;
    EXPECT_EQ(db->Get(ReadOptions(), Key(i), &value).ok(), i % 2 == 0 && i % 10 != 0) << i;
  }
  Works("SILT store: blob files, compaction filters, file checksums, compression");
}

TEST_F(SiltCompatibilityTest, CompactsAndRefuses) {
  auto db = Open(SiltOptionsOf());
  Fill(db.get());
  ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  Check(db.get());
  Works("SILT store: CompactRange of everything");
  const std::string first = Key(1);
  const Slice begin(first);
  ASSERT_SAYS(db->CompactRange(rocksdb::CompactRangeOptions(), &begin, nullptr), IsNotSupported(), "hash order");
  Refused("SILT store: CompactRange from a key or up to one", "NotSupported: a range has no meaning in hash order");
  ASSERT_SAYS(db->DeleteRange(WriteOptions(), db->DefaultColumnFamily(), "a", "b"), IsNotSupported(), "hash order");
  SiltStats stats;
  ASSERT_OK(GetSiltStats(db.get(), db->DefaultColumnFamily(), &stats));
  Refused("SILT store: DeleteRange", "NotSupported, before it is logged");
  db.reset();
  Options options = SiltOptionsOf();
  options.compression_opts.max_dict_bytes = 1000;
  rocksdb::DB* raw = nullptr;
  ASSERT_SAYS(cairn::Open(options, DbPath(), &raw), IsNotSupported(), "max_dict_bytes");
  options.compression_opts.max_dict_bytes = 0;
  options.compression_opts.parallel_threads = 2;
  ASSERT_SAYS(cairn::Open(options, DbPath(), &raw), IsNotSupported(), "parallel_threads");
  Refused("SILT store: dictionary and parallel compression", "NotSupported, names the option");
}

// ---- Bad configurations: each is an error that says what is wrong

class BadConfigurationTest : public CompatibilityTest {
 protected:
  void SetUp() override {
    auto db = Open();
    Fill(db.get());
    ASSERT_OK(CompactTrie(db.get(), db->DefaultColumnFamily()));
    ASSERT_OK(db->Put(WriteOptions(), Key(1), Value(1, 2)));
  }
  // Whatever was tried, the database opens as before with nothing lost.
  void TearDown() override {
    auto db = Open();
    Check(db.get());
  }
  Status TryOpen(const Options& options) {
    rocksdb::DB* db = nullptr;
    const Status status = cairn::Open(options, DbPath(), &db);
    delete db;
    return status;
  }
  Status TryPlainOpen(const Options& options) {
    rocksdb::DB* db = nullptr;
    const Status status = rocksdb::DB::Open(options, DbPath(), port::Into(&db));
    delete db;
    return status;
  }
  static TrieOptionText Shape() { return ShapeOf(TrieOptionsOf()); }
  static Options With(const TrieOptionText& trie) {
    Options options = BaseOptions();
    EXPECT_OK(UseTrie(&options, trie));
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Orders, BadConfigurationTest, ::testing::ValuesIn(EnginesToCheck()),
                         [](const auto& with) { return with.param; });

TEST_P(BadConfigurationTest, WrongHash) {
  TrieOptionText trie = Shape();
  trie.hash = "md5";
  ASSERT_SAYS(ValidateTrieOptions(trie), IsInvalidArgument(), "md5");
  if (InKeyOrder()) return;  // it has none
  trie.hash = "sha1";
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "omparator");
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "sha1");
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "xxh3");
  ASSERT_SAYS(TryPlainOpen(With(trie)), IsInvalidArgument(), "xxh3");
  Refused("another hash than the database's", "InvalidArgument, names both comparators");
}

TEST_P(BadConfigurationTest, WrongSeed) {
  if (InKeyOrder()) return;  // it has none
  TrieOptionText trie = Shape();
  trie.seed = 12345;
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "omparator");
  ASSERT_SAYS(TryPlainOpen(With(trie)), IsInvalidArgument(), "omparator");
  Refused("another seed", "InvalidArgument, names both comparators");
}

TEST_P(BadConfigurationTest, WrongComparator) {
  Options options = TrieOptionsOf();
  options.comparator = OfAnotherOrder().comparator;
  ASSERT_SAYS(TryOpen(options), IsInvalidArgument(), "omparator");
  ASSERT_SAYS(TryPlainOpen(options), IsInvalidArgument(), "omparator");
  Refused("another comparator", "InvalidArgument, names both");
}

// A trie of the other order, which has another comparator.
TEST_P(BadConfigurationTest, WrongOrder) {
  TrieOptionText trie = Shape();
  trie.order = InKeyOrder() ? "hash" : "key";
  trie.format = HashTrieOptions().format;
  trie.bottommost_format = HashTrieOptions().bottommost_format;
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "omparator");
  ASSERT_SAYS(TryPlainOpen(With(trie)), IsInvalidArgument(), "omparator");
  Refused("the other order", "InvalidArgument, names both comparators; `cairn convert` moves it");
}

TEST_P(BadConfigurationTest, PlainRocksDb) {
  rocksdb::DB* db = nullptr;
  if (InKeyOrder()) {
    ASSERT_SAYS(TryPlainOpen(Options()), IsInvalidArgument(), "num_levels");
    ASSERT_SAYS(rocksdb::DB::OpenForReadOnly(Options(), DbPath(), port::Into(&db)), IsInvalidArgument(), "num_levels");
    Refused("a trie database opened with RocksDB's default options", "InvalidArgument, names num_levels");
    // The files are RocksDB's own, in RocksDB's order: with as many levels it is a leveled or universal database.
    for (const char* engine : {"leveled", "universal", "ordered"}) {
      Options options = OptionsOf(*FindEngine(engine));
      options.num_levels = TrieOptionsOf().num_levels;
      auto stock = PlainOpen(options, DbPath());
      Check(stock.get());
      ASSERT_OK(stock->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
      Fill(stock.get());
      Check(stock.get());
      stock.reset();
      auto trie = Open();
      CheckCompacts(trie.get());
    }
    Works("a trie database opened as RocksDB's, with as many levels, and again as a trie");
    return;
  }
  ASSERT_SAYS(TryPlainOpen(Options()), IsInvalidArgument(), "does not match existing comparator");
  ASSERT_SAYS(TryPlainOpen(Options()), IsInvalidArgument(), "cairn");
  ASSERT_SAYS(rocksdb::DB::OpenForReadOnly(Options(), DbPath(), port::Into(&db)), IsInvalidArgument(), "comparator");
  Refused("a trie database opened with RocksDB's default options", "InvalidArgument, names the hash order");
}

TEST_P(BadConfigurationTest, TrieOptionsOnALeveledDatabase) {
  {
    auto leveled = PlainOpen(OptionsOf(*FindEngine("leveled")), dir_ / "leveled");
    Fill(leveled.get());
    if (InKeyOrder()) {
      ASSERT_OK(leveled->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
      Fill(leveled.get());
    }
  }
  if (InKeyOrder()) {
    auto db = Open(TrieOptionsOf(), dir_ / "leveled");
    Check(db.get());
    Fill(db.get());
    CheckCompacts(db.get());
    Works("a stock database opened as a trie", "its tables lie in the trie as they are");
    return;
  }
  rocksdb::DB* db = nullptr;
  ASSERT_SAYS(cairn::Open(TrieOptionsOf(), dir_ / "leveled", &db), IsInvalidArgument(), "omparator");
  Refused("a stock database opened as a trie", "InvalidArgument, names both comparators; `cairn convert` moves it");
}

// Range tombstones that are there already: of a stock database, or of a file that is ingested.
TEST_P(CompatibilityTest, RangeTombstonesFromElsewhere) {
  if (!InKeyOrder()) return;
  const auto check = [](rocksdb::DB* db) {
    std::string value;
    for (int i = 1000; i < kKeys; ++i) {
      const bool deleted = i % 10 == 0 || (Key(i) >= "key12" && Key(i) < "key17");
      EXPECT_EQ(db->Get(ReadOptions(), Key(i), &value).IsNotFound(), deleted) << Key(i);
    }
  };
  {
    auto stock = PlainOpen(OptionsOf(*FindEngine("leveled")), dir_ / "leveled");
    Fill(stock.get());
    const rocksdb::Snapshot* snapshot = stock->GetSnapshot();  // so that the tombstone goes down the levels
    ASSERT_OK(stock->DeleteRange(WriteOptions(), stock->DefaultColumnFamily(), "key12", "key17"));
    ASSERT_OK(stock->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    check(stock.get());
    stock->ReleaseSnapshot(snapshot);
  }
  const auto check_compacts = [&check](rocksdb::DB* db) {
    check(db);
    for (int i = 5000; i < 9000; ++i) ASSERT_OK(db->Put(WriteOptions(), Key(i), Value(i, 0)));
    ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
    ASSERT_OK(WaitForTrieCompaction(db));
    check(db);
    ASSERT_OK(CompactTrie(db, db->DefaultColumnFamily()));
    check(db);
  };
  check_compacts(Open(TrieOptionsOf(), dir_ / "leveled").get());
  // Ingested.
  auto other = Open(TrieOptionsOf(), dir_ / "other");
  Fill(other.get());
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), TrieOptionsOf());
  ASSERT_OK(writer.Open(dir_ / "tombstone.sst"));
  ASSERT_OK(writer.DeleteRange("key12", "key17"));
  ASSERT_OK(writer.Finish());
  ASSERT_OK(IngestAgain(other.get(), other->DefaultColumnFamily(), {dir_ / "tombstone.sst"}, {}));
  check_compacts(other.get());
  Works("range tombstones of ingested files, and of a stock database opened as a trie");
}

TEST_P(BadConfigurationTest, FewerLevelsThanPopulated) {
  Options options = TrieOptionsOf();
  options.num_levels = 3;
  ASSERT_SAYS(TryPlainOpen(options), IsInvalidArgument(), "levels");
  ASSERT_SAYS(TryOpen(options), IsInvalidArgument(), "levels");
  TrieOptionText trie = Shape();
  trie.depth = 1;
  ASSERT_SAYS(TryOpen(With(trie)), IsInvalidArgument(), "levels");
  Refused("fewer levels (a smaller depth) than hold files", "InvalidArgument");
}

TEST_P(BadConfigurationTest, PartitionerWithoutComparator) {
  Options options = TrieOptionsOf();
  rocksdb::DB* db = nullptr;
  if (InKeyOrder()) {
    options.comparator = OptionsOf(*FindEngine("trie_sha1")).comparator;
  } else {
    options.comparator = rocksdb::BytewiseComparator();
  }
  ASSERT_SAYS(cairn::Open(options, dir_ / "new", &db), IsInvalidArgument(), "comparator");
  ASSERT_EQ(db, nullptr);
  Refused("a trie's partitioner with a comparator of the other order", "InvalidArgument, names both");
}

TEST_P(BadConfigurationTest, SeveralPaths) {
  Options options = TrieOptionsOf();
  options.db_paths = {{DbPath(), 1 << 20}, {dir_ / "elsewhere", 1 << 30}};
  EXPECT_TRUE(Says(TryOpen(options), &Status::IsNotSupported, "path"));
  Refused("several db_paths or cf_paths", "NotSupported, by RocksDB for every style but leveled and universal");
}

TEST_P(BadConfigurationTest, OptionStrings) {
  HashTrieOptions trie;
  const std::string before = TrieOptionsToString(trie);
  ASSERT_SAYS(TrieOptionsFromString("fan_out=3", &trie), IsInvalidArgument(), "fan_out");
  ASSERT_SAYS(TrieOptionsFromString("slots=1", &trie), IsInvalidArgument(), "slots");
  ASSERT_SAYS(TrieOptionsFromString("slots=4;trigger=5", &trie), IsInvalidArgument(), "trigger");
  ASSERT_SAYS(TrieOptionsFromString("no_such_option=1", &trie), IsInvalidArgument(), "no_such_option");
  ASSERT_SAYS(TrieOptionsFromString("space_bound=0.5", &trie), IsInvalidArgument(), "space_bound");
  EXPECT_EQ(TrieOptionsToString(trie), before);
  ASSERT_OK(TrieOptionsFromString("fan_out=16;hash=sha1", &trie));
  EXPECT_EQ(trie.fan_out, 16);
  EXPECT_EQ(trie.hash, "sha1");
  EXPECT_EQ(trie.slots, HashTrieOptions().slots);
  Refused("unknown or impossible trie options", "InvalidArgument, names the option and what it may be");
}

}  // namespace
}  // namespace cairn::test
