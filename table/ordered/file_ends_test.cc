// Reads at the ends of files, beside RocksDB's own table over the same files: range deletions that go on in the next
// file or end where it begins, versions of a key that lie in two files, files of range deletions alone, ingested files
// that meet others; by iterators of all kinds, Get and MultiGet, for targets that are such ends or lie beside them.
//
// CAIRN_ENDS_ROUNDS=1000 lets it run for long, CAIRN_ENDS_ROUND=SEED runs one round again.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/trie.h"
#include "db/snapshot_impl.h"
#include "gtest/gtest.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "table/ordered/close_keys.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/random.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace {

using rocksdb::BlockBasedTableOptions;
using rocksdb::DB;
using rocksdb::Iterator;
using rocksdb::Options;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using test::Near;
using test::Printable;
using test::Random;

enum class Shape { kByHand, kLeveled, kUniversal, kTrie };

class FileEndsTest : public testing::TestWithParam<Shape> {
 protected:
  using State = std::map<std::string, std::string>;

  void FillOptions(Random* random) {
    options_ = Options();
    options_.create_if_missing = true;
    options_.compression = rocksdb::kNoCompression;
    options_.num_levels = 6;
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    options_.max_sequential_skip_in_iterations = std::vector<uint64_t>{0, 1, 2, 8, 8, 1000}[random->Uniform(6)];
    options_.target_file_size_base = 256 << random->Uniform(5);
    options_.max_bytes_for_level_base = 4 << 10;
    options_.max_bytes_for_level_multiplier = 3;
    options_.max_subcompactions = static_cast<uint32_t>(1 + random->Uniform(3));
    if (random->OneIn(3)) options_.memtable_factory = NewSubMemTableFactory();
    if (random->OneIn(6)) {
      options_.enable_blob_files = true;
      options_.min_blob_size = 8;
    }
    table_ = BlockBasedTableOptions();
    if (random->OneIn(4)) {
      options_.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(1 + random->Uniform(10)));
      if (random->OneIn(3)) table_.index_type = BlockBasedTableOptions::kHashSearch;
    }
    table_.block_size = 64 << random->Uniform(5);
    table_.block_restart_interval = static_cast<int>(1 + random->Uniform(16));
    if (random->OneIn(8)) table_.index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
    if (random->OneIn(8)) table_.index_type = BlockBasedTableOptions::kBinarySearchWithFirstKey;
    if (!random->OneIn(4)) {
      table_.filter_policy.reset(rocksdb::NewBloomFilterPolicy(2.0 + static_cast<double>(random->Uniform(12))));
      table_.whole_key_filtering = !random->OneIn(4);
    }
    if (random->OneIn(4)) table_.block_cache = rocksdb::NewLRUCache(8 << 10, 0);
    if (random->OneIn(8)) table_.no_block_cache = true;
    if (!table_.no_block_cache && random->OneIn(4)) table_.cache_index_and_filter_blocks = true;
    filter_.order_bits = std::vector<double>{2.5, 2.5, 4, 6, 12, 20}[random->Uniform(6)];
    filter_.extra_order_bits = static_cast<double>(random->OneIn(2) ? 0 : 3);
    switch (GetParam()) {
      case Shape::kByHand:
        options_.disable_auto_compactions = true;
        options_.level0_file_num_compaction_trigger = 1000;
        options_.level0_slowdown_writes_trigger = 1000;
        options_.level0_stop_writes_trigger = 1000;
        options_.allow_ingest_behind = random->OneIn(3);
        break;
      case Shape::kLeveled:
        options_.level0_file_num_compaction_trigger = 2;
        break;
      case Shape::kUniversal:
        options_.compaction_style = rocksdb::kCompactionStyleUniversal;
        options_.level0_file_num_compaction_trigger = static_cast<int>(2 + random->Uniform(5));
        break;
      case Shape::kTrie:
        options_.write_buffer_size = 64 << 10;
        break;
    }
    options_.table_factory.reset(NewOrderedTableFactory(table_, filter_));
    if (GetParam() == Shape::kTrie) {
      TrieOptions trie;
      trie.order = "key";
      trie.format = "sst";
      trie.fan_out = 2;
      trie.slots = 4;
      trie.trigger = 2;
      trie.root_trigger = 2;
      trie.depth = 3;
      trie.space_bound = 1.2;
      ASSERT_OK(UseTrie(&options_, trie));
    }
  }

  void Open() {
    DB* db = nullptr;
    ASSERT_OK(DB::Open(options_, path_, port::Into(&db)));
    db_.reset(db);
  }

  // The same files by RocksDB's own table, and what is in the WAL by its own memtable.
  std::unique_ptr<DB> OpenStock() {
    Options stock = options_;
    stock.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_));
    stock.memtable_factory = std::make_shared<rocksdb::SkipListFactory>();
    stock.sst_partitioner_factory = nullptr;
    stock.listeners.clear();
    DB* db = nullptr;
    const Status s = DB::OpenForReadOnly(stock, path_, port::Into(&db));
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<DB>(db);
  }

  const std::string& AnyKey(Random* random) const { return keys_[random->Uniform(keys_.size())]; }
  // An end of a file, or what lies next to it; or to another key.
  std::string AnyPlace(Random* random) const {
    if (ends_.empty() || random->OneIn(3)) return Near(AnyKey(random), random);
    const std::string& end = ends_[random->Uniform(ends_.size())];
    return random->OneIn(2) ? end : Near(end, random);
  }

  void FindEnds() {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    ends_.clear();
    for (const rocksdb::LiveFileMetaData& file : files) {
      ends_.push_back(file.smallestkey);
      ends_.push_back(file.largestkey);
    }
    files_ = std::max(files_, files.size());
  }

  void DeleteRange(Random* random) {
    std::string begin = AnyPlace(random), end = AnyPlace(random);
    if (random->OneIn(2)) {  // a short one
      begin = end;
      const auto at = std::lower_bound(keys_.begin(), keys_.end(), end);
      const auto most = static_cast<uint64_t>(at - keys_.begin());
      if (most > 0) begin = keys_[most - 1 - random->Uniform(std::min<uint64_t>(most, 6))];
    }
    if (begin > end) std::swap(begin, end);
    ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), begin, end));
    state_.erase(state_.lower_bound(begin), state_.lower_bound(end));
  }

  void Write(Random* random) {
    rocksdb::WriteBatch batch;
    const size_t from = random->OneIn(2) ? 0 : random->Uniform(keys_.size());
    const size_t to = random->OneIn(2) ? keys_.size() : from + random->Uniform(keys_.size() - from) + 1;
    const uint64_t share = random->OneIn(2) ? 1 + random->Uniform(100) : 100;
    const uint64_t deletes = random->OneIn(3) ? random->Uniform(100) : 3, merges = random->OneIn(3) ? 50 : 3;
    std::string value = "v" + std::to_string(++written_) + std::string(random->OneIn(3) ? 100 : 0, 'v');
    // Tries cut their tables by write buffers, which are no smaller than 64 KiB.
    if (GetParam() == Shape::kTrie && random->OneIn(2)) value.resize(2000, 'v');
    for (size_t i = from; i < to; ++i) {
      if (random->Uniform(100) >= share) continue;
      const std::string& key = keys_[i];
      if (random->Uniform(100) < deletes) {
        ASSERT_OK(batch.Delete(key));
        state_.erase(key);
      } else if (random->Uniform(100) < merges) {
        ASSERT_OK(batch.Merge(key, value));
        std::string& merged = state_[key];
        merged += (merged.empty() ? "" : ",") + value;
      } else {
        ASSERT_OK(batch.Put(key, value));
        state_[key] = value;
      }
    }
    ASSERT_OK(db_->Write({}, &batch));
  }

  // One or two files that meet, with keys and range deletions up to where they do.
  void Ingest(Random* random) {
    std::string cuts[3] = {AnyPlace(random), AnyPlace(random), AnyPlace(random)};
    std::sort(std::begin(cuts), std::end(cuts));
    const bool behind = options_.allow_ingest_behind && random->OneIn(2), ranges = !behind && random->OneIn(2);
    const uint64_t files = behind ? 1 : 1 + random->Uniform(2);
    std::vector<std::string> paths;
    State state = state_;
    for (uint64_t file = 0; file < files; ++file) {
      const std::string path = path_ + ".ingested" + std::to_string(file);
      rocksdb::SstFileWriter writer({}, options_);
      ASSERT_OK(writer.Open(path));
      bool any = false;
      // RocksDB's Get takes a range deletion for one of the same file's entries that a compaction cuts off.
      const std::string split =
          ranges ? std::min(std::max(AnyPlace(random), cuts[file]), cuts[file + 1]) : cuts[file + 1];
      const uint64_t share = random->OneIn(3) ? random->Uniform(30) : 100;
      for (const std::string& key : keys_) {
        if (key < cuts[file] || key >= split || random->Uniform(100) >= share) continue;
        ASSERT_OK(writer.Put(key, "ingested" + std::to_string(file)));
        state[key] = "ingested" + std::to_string(file);
        any = true;
      }
      // Universal compaction leaves out tables that an ingested range deletion alone covers, and then cuts range deletions
      // of the level's others to the ends of their neighbours (VersionSet::MakeInputIterator).
      if (split < cuts[file + 1] && (any || GetParam() != Shape::kUniversal)) {
        ASSERT_OK(writer.DeleteRange(split, cuts[file + 1]));
        state.erase(state.lower_bound(split), state.lower_bound(cuts[file + 1]));
        any = true;
      }
      if (!any) continue;
      ASSERT_OK(writer.Finish());
      paths.push_back(path);
    }
    rocksdb::IngestExternalFileOptions how;
    how.move_files = true;
    how.ingest_behind = behind;
    if (paths.empty()) return;
    const Status s = db_->IngestExternalFile(paths, how);
    if (s.ok() && behind) knows_state_ = false;
    if (s.ok()) state_ = std::move(state);
    if (!s.ok()) printf("ingestion: %s\n", s.ToString().c_str());
  }

  void Compact(Random* random) {
    rocksdb::CompactRangeOptions how;
    how.bottommost_level_compaction =
        random->OneIn(2) ? rocksdb::BottommostLevelCompaction::kForce : rocksdb::BottommostLevelCompaction::kSkip;
    if (GetParam() == Shape::kByHand && random->OneIn(2)) {
      how.change_level = true;
      how.target_level = static_cast<int>(1 + random->Uniform(4));
    }
    std::string begin = AnyPlace(random), end = AnyPlace(random);
    if (begin > end) std::swap(begin, end);
    const Slice begin_slice(begin), end_slice(end);
    const bool whole = random->OneIn(3);
    db_->CompactRange(how, whole ? nullptr : &begin_slice, whole ? nullptr : &end_slice).PermitUncheckedError();
  }

  // That the database holds what was written, for each snapshot.
  void CheckState(const State& state, const rocksdb::Snapshot* snapshot) {
    ReadOptions read;
    read.snapshot = snapshot;
    read.total_order_seek = true;
    const std::unique_ptr<Iterator> it(db_->NewIterator(read));
    it->SeekToFirst();
    for (const auto& [key, value] : state) {
      ASSERT_TRUE(it->Valid()) << Printable(key) << it->status().ToString();
      ASSERT_EQ(Printable(it->key()) + "=" + it->value().ToString(), Printable(key) + "=" + value);
      it->Next();
    }
    ASSERT_FALSE(it->Valid()) << Printable(it->key());
    it->SeekToLast();
    for (auto entry = state.rbegin(); entry != state.rend(); ++entry) {
      ASSERT_TRUE(it->Valid()) << Printable(entry->first) << it->status().ToString();
      ASSERT_EQ(Printable(it->key()) + "=" + it->value().ToString(), Printable(entry->first) + "=" + entry->second);
      it->Prev();
    }
    ASSERT_FALSE(it->Valid()) << Printable(it->key());
    ASSERT_OK(it->status());
  }

  struct Walker {
    DB* db;
    ReadOptions read;
    std::unique_ptr<Iterator> it;
  };

  std::string Shown(const Walker& walker) const {
    Iterator* const it = walker.it.get();
    if (it->Valid() && walker.read.allow_unprepared_value && !it->PrepareValue()) return "not prepared";
    if (!it->Valid()) return it->status().ToString();
    return Printable(it->key()) + "=" + it->value().ToString();
  }

  void Walk(DB* stock, uint64_t seed) {
    Random random(seed);
    ReadOptions read;
    std::string lower = AnyPlace(&random), upper = AnyPlace(&random);
    if (upper < lower) std::swap(lower, upper);
    const Slice lower_slice(lower), upper_slice(upper);
    if (random.OneIn(3)) read.iterate_upper_bound = &upper_slice;
    if (random.OneIn(4)) read.iterate_lower_bound = &lower_slice;
    read.async_io = random.OneIn(6);
    read.readahead_size = random.OneIn(6) ? 4096 : 0;
    read.fill_cache = !random.OneIn(4);
    read.auto_readahead_size = random.OneIn(2);
    read.allow_unprepared_value = random.OneIn(3);
    read.ignore_range_deletions = random.OneIn(10);
    read.pin_data = random.OneIn(12);
    if (random.OneIn(8)) {
      const uint64_t part = random.Uniform(3);
      read.table_filter = [part](const rocksdb::TableProperties& table) {
        return part == 2 ? table.num_range_deletions == 0 : table.num_entries % 3 != part;
      };
    }
    bool in_prefix = false;
    if (options_.prefix_extractor != nullptr) {
      const uint64_t mode = random.Uniform(3);
      read.total_order_seek = mode == 0;
      read.auto_prefix_mode = mode == 1;
      in_prefix = mode == 2;
      read.prefix_same_as_start = in_prefix;
      if (in_prefix) read.iterate_lower_bound = nullptr;
    }
    Walker walkers[2] = {{stock, read, nullptr}, {db_.get(), read, nullptr}};
    rocksdb::SnapshotImpl then;
    if (!snapshots_.empty() && random.OneIn(2)) {
      walkers[1].read.snapshot = snapshots_[random.Uniform(snapshots_.size())];
      then.number_ = walkers[1].read.snapshot->GetSequenceNumber();
      walkers[0].read.snapshot = &then;
    }
    for (Walker& walker : walkers) walker.it.reset(walker.db->NewIterator(walker.read));
    std::string walked = " lower " + (read.iterate_lower_bound != nullptr ? Printable(lower) : "none") + " upper " +
                         (read.iterate_upper_bound != nullptr ? Printable(upper) : "none") +
                         (read.ignore_range_deletions ? " ignoring ranges" : "") + (read.pin_data ? " pinned" : "") +
                         (read.async_io ? " async" : "") + (in_prefix ? " in prefix" : "") +
                         (read.auto_prefix_mode ? " auto prefix" : "") + (read.table_filter ? " some tables" : "") +
                         (read.snapshot != nullptr ? " snapshot" : "") + ":";
    for (int i = 0; i < 30; ++i) {
      enum Kind { kSeek, kSeekForPrev, kFirst, kLast, kNext, kPrev } kind = kSeek;
      const bool valid = walkers[0].it->Valid(), forward_only = in_prefix || read.auto_prefix_mode;
      const uint64_t choice = random.Uniform(20);
      if (choice >= 6 && valid) kind = choice < 16 ? kNext : kPrev;
      if (choice == 0) kind = kSeekForPrev;
      if (choice == 1) kind = random.OneIn(2) ? kFirst : kLast;
      if (forward_only && kind != kNext && !(in_prefix && kind == kPrev)) kind = kSeek;
      std::string target;
      if (kind == kSeek || kind == kSeekForPrev) {
        target = valid && random.OneIn(3) ? Near(walkers[0].it->key().ToString(), &random) : AnyPlace(&random);
      }
      walked += " " + std::to_string(kind) + (target.empty() ? "" : ":" + Printable(target));
      std::string shown[2];
      for (int j = 0; j < 2; ++j) {
        Iterator* const it = walkers[j].it.get();
        if (kind == kSeek) it->Seek(target);
        if (kind == kSeekForPrev) it->SeekForPrev(target);
        if (kind == kFirst) it->SeekToFirst();
        if (kind == kLast) it->SeekToLast();
        if (kind == kNext) it->Next();
        if (kind == kPrev) it->Prev();
        shown[j] = Shown(walkers[j]);
      }
      ASSERT_EQ(shown[0], shown[1]) << "walk " << seed << " step " << i << walked;
    }
  }

  // RocksDB's Get ends at the first file of which a range deletion covers the key, by any sequence number. Where older
  // entries that are newer than the range deletion go on in the level's next file, merge operands lack those; an
  // iterator does not.
  static bool LacksOperands(const std::string& expected, const std::string& answer) {
    const std::string ok = "OK ";
    if (answer.size() >= expected.size() || answer.compare(0, ok.size(), ok) != 0) return false;
    const std::string lacking = "," + answer.substr(ok.size());
    return expected.compare(expected.size() - lacking.size(), lacking.size(), lacking) == 0;
  }

  void Get(DB* stock, uint64_t seed) {
    Random random(seed);
    ReadOptions reads[2];
    rocksdb::SnapshotImpl then;
    if (!snapshots_.empty() && random.OneIn(2)) {
      reads[1].snapshot = snapshots_[random.Uniform(snapshots_.size())];
      then.number_ = reads[1].snapshot->GetSequenceNumber();
      reads[0].snapshot = &then;
    }
    std::vector<std::string> wanted(1 + random.Uniform(20));
    for (std::string& key : wanted) key = AnyPlace(&random);
    const std::vector<Slice> slices(wanted.begin(), wanted.end());
    // A read-only database's Get knows no snapshots.
    reads[0].total_order_seek = true;
    const std::unique_ptr<Iterator> it(stock->NewIterator(reads[0]));
    std::vector<rocksdb::PinnableSlice> values(slices.size());
    std::vector<Status> statuses(slices.size());
    db_->MultiGet(reads[1], db_->DefaultColumnFamily(), slices.size(), slices.data(), values.data(), statuses.data());
    for (size_t i = 0; i < slices.size(); ++i) {
      it->Seek(slices[i]);
      ASSERT_OK(it->status());
      const bool there = it->Valid() && it->key() == slices[i];
      const std::string expected = there ? "OK " + it->value().ToString() : Status::NotFound().ToString() + " ";
      std::string value;
      const Status s = db_->Get(reads[1], slices[i], &value);
      const std::string answers[2] = {s.ToString() + " " + value, statuses[i].ToString() + " " + values[i].ToString()};
      for (int j = 0; j < 2; ++j) {
        if (LacksOperands(expected, answers[j])) {
          ++lacking_;
          continue;
        }
        ASSERT_EQ(expected, answers[j]) << (j == 0 ? "Get" : "MultiGet") << " of " << Printable(slices[i])
                                        << " of lookups " << seed;
      }
    }
  }

  void Compare(Random* random) {
    ASSERT_OK(db_->WaitForCompact({}));
    FindEnds();
    const std::unique_ptr<DB> stock = OpenStock();
    ASSERT_TRUE(stock != nullptr);
    if (knows_state_) {
      CheckState(state_, nullptr);
      for (size_t i = 0; i < snapshots_.size() && !HasFailure(); ++i) CheckState(states_[i], snapshots_[i]);
    }
    for (int i = 0; i < 30 && !HasFailure(); ++i) Walk(stock.get(), random->Next());
    for (int i = 0; i < 6 && !HasFailure(); ++i) Get(stock.get(), random->Next());
  }

  void Round(uint64_t seed) {
    Random random(seed);
    path_ = directory_.path() + "/" + std::to_string(++opened_);
    FillOptions(&random);
    keys_ = test::MakeKeys(&random);
    if (keys_.size() > 400) keys_.resize(400);
    ends_.clear();
    state_.clear();
    knows_state_ = true;
    Open();
    if (HasFatalFailure()) return;
    const uint64_t steps = 20 + random.Uniform(60);
    for (uint64_t i = 0; i < steps && !HasFailure(); ++i) {
      const uint64_t what = random.Uniform(26);
      if (what < 7) Write(&random);
      if (what >= 7 && what < 14) DeleteRange(&random);
      // RocksDB takes a snapshot of sequence number 0, which is that of files ingested into an empty database, for none:
      // its compactions drop what that shows, and merge operands with what a range deletion between them covers.
      if (what == 14 && snapshots_.size() < 4 && db_->GetLatestSequenceNumber() > 0) {
        snapshots_.push_back(db_->GetSnapshot());
        states_.push_back(state_);
      }
      if (what == 15 && !snapshots_.empty() && random.OneIn(3)) {
        db_->ReleaseSnapshot(snapshots_.back());
        snapshots_.pop_back();
        states_.pop_back();
      }
      if (what >= 16 && what < 19) {
        ASSERT_OK(db_->Flush({}));
        FindEnds();
      }
      if (what == 19 || what == 20) Compact(&random);
      if (what >= 21 && what < 24) Ingest(&random);
      if (what == 24 || i + 1 == steps) Compare(&random);
    }
    for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
    states_.clear();
    db_.reset();
    if (!HasFailure()) ASSERT_OK(rocksdb::DestroyDB(path_, options_));
  }

  test::TempDir directory_;
  std::string path_;
  int opened_ = 0;
  uint64_t written_ = 0;
  Options options_;
  BlockBasedTableOptions table_;
  OrderFilterOptions filter_;
  std::vector<std::string> keys_, ends_;
  size_t files_ = 0, lacking_ = 0;
  State state_;  // what was written
  bool knows_state_ = true;
  std::vector<State> states_;  // when the snapshots were taken
  std::unique_ptr<DB> db_;
  std::vector<const rocksdb::Snapshot*> snapshots_;
};

TEST_P(FileEndsTest, ReadsAreThoseOfRocksDB) {
  const char* const one = getenv("CAIRN_ENDS_ROUND");
  if (one != nullptr) return Round(strtoull(one, nullptr, 0));
  const char* const given = getenv("CAIRN_ENDS_ROUNDS");
  const int rounds = given != nullptr ? atoi(given) : 4;
  Random random(Seed());
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const uint64_t seed = random.Next();
    SCOPED_TRACE("round of seed " + std::to_string(seed));
    Round(seed);
  }
  printf("%zu files at most, %zu lookups that lack operands\n", files_, lacking_);
}

std::string NameOf(const testing::TestParamInfo<Shape>& shape) {
  static const char* const names[] = {"by_hand", "leveled", "universal", "trie"};
  return names[static_cast<int>(shape.param)];
}

INSTANTIATE_TEST_SUITE_P(Shapes, FileEndsTest,
                         testing::Values(Shape::kByHand, Shape::kLeveled, Shape::kUniversal, Shape::kTrie), NameOf);

}  // namespace
}  // namespace cairn
