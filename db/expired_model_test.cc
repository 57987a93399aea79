// A DBWithTTL over every engine agrees with a model by all ways to read it, while time goes on, the TTL changes and the
// database is flushed, compacted, copied and opened again.

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "test/support.h"
#include "test/testutil/set_clock.h"
#include "test/testutil/test_seed.h"
#include "util/rocksdb_names.h"

namespace cairn::test {
namespace {

using rocksdb::DBWithTTL;

constexpr int64_t kStart = 1800000000;
constexpr int kKeys = 200;
constexpr size_t kStampBytes = 4;
constexpr uint64_t kBlobBytes = 100;

std::string KeyOf(int number) { return "key" + std::to_string(1000000 + number * 7919); }

// The newest write of a key that was not deleted since.
struct Entry {
  std::string value;
  int64_t at = 0;
  bool merged = false;       // operands get the time at which they are folded, whenever that is
  bool was_expired = false;  // to a compaction, which may have dropped it
};

class Model {
 public:
  enum class Lives { kYes, kNo, kMaybe };

  void Put(int key, const std::string& value) { entries_[key] = {value, now_, false, false}; }
  void Merge(int key, const std::string& value) { entries_[key] = {value, now_, true, false}; }
  void Delete(int first, int end) { entries_.erase(entries_.lower_bound(first), entries_.lower_bound(end)); }
  void Advance(int64_t by) {
    now_ += by;
    Age();
  }
  // A compaction that is under way goes on with the TTL that it began with.
  void SetTtl(int32_t ttl) {
    ttl_ = ttl;
    if (Seconds(ttl) < Seconds(compactions_ttl_)) compactions_ttl_ = ttl;
    Age();
  }
  void NoCompactionRuns() { compactions_ttl_ = ttl_; }

  int32_t ttl() const { return ttl_; }
  const Entry* Find(int key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }
  Lives Of(const Entry& entry) const {
    const bool expired = entry.at + Seconds(ttl_) < now_;
    if (expired && !entry.merged) return Lives::kNo;
    return expired || entry.was_expired ? Lives::kMaybe : Lives::kYes;
  }

 private:
  static int64_t Seconds(int32_t ttl) { return ttl <= 0 ? INT32_MAX : ttl; }
  void Age() {
    for (auto& [key, entry] : entries_) entry.was_expired |= entry.at + Seconds(compactions_ttl_) < now_;
  }

  std::map<int, Entry> entries_;
  int64_t now_ = kStart;
  int32_t ttl_ = 0;
  int32_t compactions_ttl_ = 0;
};

// What a way of reading has found, one that passes over what has expired, or one that may not.
enum class Expired { kHidden, kMayBeThere };
using Found = std::map<std::string, std::string>;

class ExpiredModelTest : public testing::TestWithParam<const char*> {
 protected:
  ExpiredModelTest() : random_(Seed()) {
    const std::string name = GetParam();
    const std::string durable = "durable_";
    durable_ = name.compare(0, durable.size(), durable) == 0;
    options_ = OptionsOf(*FindEngine(durable_ ? name.substr(durable.size()) : name));
    options_.merge_operator = std::make_shared<LastOperator>();
    options_.env = env_.get();
    options_.enable_blob_files = Draw(2) == 0;
    options_.min_blob_size = kBlobBytes;
    options_.enable_blob_garbage_collection = true;
    options_.blob_garbage_collection_age_cutoff = 1;
    if (name == "leveled") expired_ = Expired::kMayBeThere;  // stock RocksDB
  }
  ~ExpiredModelTest() override { Release(); }

  uint64_t Draw(uint64_t below) { return random_() % below; }
  int DrawKey() { return static_cast<int>(Draw(kKeys)); }
  std::string DrawValue(int step) {
    return std::to_string(step) + ":" + std::string(Draw(Draw(8) == 0 ? 2000 : 2 * kBlobBytes), 'v');
  }
  int32_t DrawTtl() {
    constexpr int32_t kTtls[] = {0, 400, 1500, 5000};
    return kTtls[Draw(std::size(kTtls))];
  }
  std::string path() const { return dir_ / "db"; }
  bool in_key_order() const { return options_.comparator == rocksdb::BytewiseComparator(); }

  // Durable memtables serve one open database.
  rocksdb::Options OptionsToOpen() const {
    rocksdb::Options options = options_;
    if (!durable_) return options;
    SubMemTableOptions memtable;
    memtable.durable = true;
    memtable.pool_size = 2 << 20;
    memtable.segment_size = 64 << 10;
    options.memtable_factory = NewSubMemTableFactory(memtable);
    return options;
  }
  std::unique_ptr<DBWithTTL> Opened(const std::string& path, bool read_only = false) {
    DBWithTTL* db = nullptr;
    EXPECT_OK(DBWithTTL::Open(OptionsToOpen(), path, &db, model_.ttl(), read_only));
    return std::unique_ptr<DBWithTTL>(db);
  }
  void Reopen() {
    Release();
    const bool db_was_open = db_ != nullptr;
    db_.reset();
    model_.SetTtl(DrawTtl());
    model_.NoCompactionRuns();
    if (db_was_open && Draw(3) == 0) {
      const auto reader = Opened(path(), true);
      ASSERT_NE(reader, nullptr);
      Expect("read-only", Scanned(reader.get(), {}), Expired::kMayBeThere);
      Expect("Get, read-only", Got(reader.get(), {}), Expired::kMayBeThere);
    }
    db_ = Opened(path());
    ASSERT_NE(db_, nullptr);
  }
  void Settle() {
    ASSERT_OK(db_->Flush({}));
    ASSERT_OK(db_->WaitForCompact({}));
    if (IsTrie(options_)) {
      ASSERT_OK(WaitForTrieCompaction(db_->GetRootDB()));
    }
    model_.NoCompactionRuns();
  }
  void TakeSnapshot() {
    Release();
    snapshot_ = db_->GetSnapshot();
    snapshots_model_ = model_;
  }
  void Release() {
    if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }
  // Of all models.
  template <class Change>
  void Both(const Change& change) {
    change(&model_);
    change(&snapshots_model_);
  }

  // ---- ways to read ----

  static Found Got(DB* db, const ReadOptions& options) {
    Found found;
    std::string value;
    for (int key = 0; key < kKeys; ++key) {
      const Status s = db->Get(options, KeyOf(key), &value);
      if (s.ok()) found[KeyOf(key)] = value;
      EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    }
    return found;
  }
  static Found GotTogether(DB* db, const ReadOptions& options) {
    std::vector<std::string> keys, values;
    for (int key = 0; key < kKeys; ++key) keys.push_back(KeyOf(key));
    const std::vector<Status> statuses = db->MultiGet(options, {keys.begin(), keys.end()}, &values);
    Found found;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) found[keys[i]] = values[i];
      EXPECT_TRUE(statuses[i].ok() || statuses[i].IsNotFound()) << statuses[i].ToString();
    }
    return found;
  }
  static Found Scanned(DB* db, const ReadOptions& options) {
    Found found;
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
    for (it->SeekToFirst(); it->Valid(); it->Next()) found[it->key().ToString()] = it->value().ToString();
    EXPECT_OK(it->status());
    return found;
  }
  static Found ScannedBackward(DB* db, const ReadOptions& options) {
    Found found;
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
    for (it->SeekToLast(); it->Valid(); it->Prev()) found[it->key().ToString()] = it->value().ToString();
    EXPECT_OK(it->status());
    return found;
  }
  static Found Sought(DB* db, const ReadOptions& options) {
    Found found;
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
    for (int key = 0; key < kKeys; ++key) {
      key % 2 == 0 ? it->Seek(KeyOf(key)) : it->SeekForPrev(KeyOf(key));
      EXPECT_OK(it->status());
      if (it->Valid() && it->key() == KeyOf(key)) found[KeyOf(key)] = it->value().ToString();
    }
    return found;
  }
  // An indexed batch asks the database below the DBWithTTL, which leaves the stamps where they are. An iterator over
  // both asks that of the DBWithTTL for wide columns, which RocksDB asserts that nobody does.
  static std::string WithoutStamp(const std::string& value) {
    EXPECT_GE(value.size(), kStampBytes);
    return value.substr(0, value.size() - std::min(value.size(), kStampBytes));
  }
  Found GotBesideBatch() {
    rocksdb::WriteBatchWithIndex batch;
    Found found;
    std::string value;
    for (int key = 0; key < kKeys; ++key) {
      const Status s = batch.GetFromBatchAndDB(db_.get(), {}, KeyOf(key), &value);
      if (s.ok()) found[KeyOf(key)] = WithoutStamp(value);
      EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    }
    return found;
  }
  Found GotTogetherBesideBatch() {
    rocksdb::WriteBatchWithIndex batch;
    std::vector<std::string> keys;
    for (int key = 0; key < kKeys; ++key) keys.push_back(KeyOf(key));
    const std::vector<Slice> slices(keys.begin(), keys.end());
    std::vector<rocksdb::PinnableSlice> values(kKeys);
    std::vector<Status> statuses(kKeys);
    batch.MultiGetFromBatchAndDB(db_.get(), {}, db_->DefaultColumnFamily(), kKeys, slices.data(), values.data(),
                                 statuses.data(), false);
    Found found;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].ok()) found[keys[i]] = WithoutStamp(values[i].ToString());
    }
    return found;
  }
  // What may be gone and was not found is not found again: the ways agree.
  void Expect(const std::string& way, const Found& found, Expired expired) { Expect(model_, way, found, expired); }
  void Expect(const Model& model, const std::string& way, const Found& found, Expired expired) {
    size_t known = 0;
    for (int key = 0; key < kKeys; ++key) {
      const auto there = found.find(KeyOf(key));
      known += there != found.end() ? 1 : 0;
      const Entry* const entry = model.Find(key);
      if (entry == nullptr) {
        EXPECT_TRUE(there == found.end()) << way << " finds deleted " << KeyOf(key) << ": " << there->second;
        continue;
      }
      const Model::Lives lives = model.Of(*entry);
      if (there == found.end()) {
        EXPECT_NE(lives, Model::Lives::kYes) << way << " does not find " << KeyOf(key) << " of " << entry->at - kStart;
        if (&model == &model_) gone_.insert(key);
        continue;
      }
      EXPECT_EQ(there->second, entry->value) << way << ": " << KeyOf(key);
      if (expired == Expired::kMayBeThere) continue;
      EXPECT_NE(lives, Model::Lives::kNo) << way << " finds " << KeyOf(key) << " of " << entry->at - kStart;
      EXPECT_TRUE(&model != &model_ || gone_.count(key) == 0) << way << " finds again " << KeyOf(key);
    }
    EXPECT_EQ(known, found.size()) << way << " finds keys that were never written";
  }
  void CheckAllWays() {
    gone_.clear();
    Expect("Get", Got(db_.get(), {}), expired_);
    Expect("MultiGet", GotTogether(db_.get(), {}), expired_);
    Expect("forward", Scanned(db_.get(), {}), expired_);
    Expect("backward", ScannedBackward(db_.get(), {}), expired_);
    Expect("Seek", Sought(db_.get(), {}), expired_);
    Expect("indexed batch", GotBesideBatch(), expired_);
    Expect("MultiGet of an indexed batch", GotTogetherBesideBatch(), Expired::kMayBeThere);
    if (snapshot_ == nullptr) return;
    ReadOptions options;
    options.snapshot = snapshot_;
    Expect(snapshots_model_, "Get of a snapshot", Got(db_.get(), options), expired_);
    Expect(snapshots_model_, "MultiGet of a snapshot", GotTogether(db_.get(), options), expired_);
    Expect(snapshots_model_, "scan of a snapshot", ScannedBackward(db_.get(), options), expired_);
  }
  void CheckCheckpoint() {
    rocksdb::Checkpoint* made = nullptr;
    ASSERT_OK(rocksdb::Checkpoint::Create(db_->GetRootDB(), &made));
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    const std::string copy = dir_ / "copy";
    ASSERT_OK(checkpoint->CreateCheckpoint(copy));
    gone_.clear();
    {
      const auto db = Opened(copy);
      ASSERT_NE(db, nullptr);
      Expect("checkpoint", Scanned(db.get(), {}), expired_);
      Expect("MultiGet of a checkpoint", GotTogether(db.get(), {}), expired_);
    }
    ASSERT_OK(rocksdb::DestroyDB(copy, OptionsToOpen()));
  }
  // It has no TTL, so it returns stamps and what has expired. Refused with durable memtables; of blob files RocksDB's
  // dies (docs/rocksdb_faults.md).
  void CheckSecondary() {
    if (durable_ || options_.enable_blob_files) return;
    ASSERT_OK(db_->WaitForCompact({}));  // it may miss a flush that ends while it opens
    DB* opened = nullptr;
    rocksdb::Options options = OptionsToOpen();
    options.max_open_files = -1;
    ASSERT_OK(DB::OpenAsSecondary(options, path(), dir_ / "secondary", port::Into(&opened)));
    const std::unique_ptr<DB> db(opened);
    Found found = Scanned(db.get(), {});
    for (auto& [key, value] : found) value = WithoutStamp(value);
    Expect("secondary", found, Expired::kMayBeThere);
  }

  void WriteOne(int step) {
    const int key = DrawKey();
    const std::string value = DrawValue(step);
    const uint64_t what = Draw(100);
    if (what < 60) {
      ASSERT_OK(db_->Put({}, KeyOf(key), value));
      model_.Put(key, value);
    } else if (what < 85) {
      ASSERT_OK(db_->Merge({}, KeyOf(key), value));
      model_.Merge(key, value);
    } else if (what < 99 || durable_ || !in_key_order()) {
      ASSERT_OK(db_->Delete({}, KeyOf(key)));
      model_.Delete(key, key + 1);
    } else {
      ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), KeyOf(key), KeyOf(key + 5)));
      model_.Delete(key, key + 5);
    }
  }
  void DoSeldom() {
    const uint64_t what = Draw(100);
    if (what < 20) {
      const int32_t ttl = DrawTtl();
      db_->SetTtl(ttl);
      Both([&](Model* model) { model->SetTtl(ttl); });
    } else if (what < 50) {
      ASSERT_OK(db_->Flush({}));
    } else if (what < 60) {
      Settle();
    } else if (what < 65) {
      ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
    } else if (what < 75) {
      TakeSnapshot();
    } else if (what < 78) {
      CheckCheckpoint();
    } else if (what < 80) {
      CheckSecondary();
    } else if (what < 87) {
      Reopen();
    } else {
      CheckAllWays();
    }
  }

  const TempDir dir_;
  const std::shared_ptr<SetClock> clock_ = std::make_shared<SetClock>(kStart);
  const std::unique_ptr<rocksdb::Env> env_ = EnvOf(clock_);
  std::mt19937_64 random_;
  bool durable_ = false;
  Expired expired_ = Expired::kHidden;  // of the ways of a DBWithTTL's own
  rocksdb::Options options_;
  Model model_, snapshots_model_;
  std::set<int> gone_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::unique_ptr<DBWithTTL> db_;
};

TEST_P(ExpiredModelTest, AllWaysAgree) {
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(Seed()) + (options_.enable_blob_files ? ", blob files" : ""));
  const uint64_t steps = NumberFromEnvironment("CAIRN_TTL_STEPS", 6000);
  Reopen();
  for (uint64_t step = 0; step < steps && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const uint64_t what = Draw(1000);
    if (what < 950) {
      WriteOne(static_cast<int>(step));
    } else if (what < 975) {
      const auto by = static_cast<int64_t>(Draw(300));
      clock_->Advance(by);
      Both([&](Model* model) { model->Advance(by); });
    } else {
      DoSeldom();
    }
  }
  if (!HasFailure()) CheckAllWays();
}

INSTANTIATE_TEST_SUITE_P(Engines, ExpiredModelTest,
                         testing::Values("leveled", "leveled_sub", "leveled_ordered", "ordered", "ordered_trie",
                                         "ordered_trie_tight", "trie_tiny", "trie_tight", "trie_htable", "trie_ect",
                                         "silt_pinned", "silt_partitions", "durable_leveled", "durable_trie_tiny",
                                         "durable_ordered"),
                         [](const auto& engine) { return std::string(engine.param); });

}  // namespace
}  // namespace cairn::test
