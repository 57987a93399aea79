// A trie in key order in a real database: tables that move without being written, manual compactions of ranges, the
// size of compactions, what is refused, and what opens it again. What it answers is test/metamorphic_test's, and range
// deletions are key_trie_ranges_test's.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/ordered.h"
#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/await.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/key_trie_fixture.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "trie_table/compaction/table_moves.h"
#include "util/mix64.h"

namespace cairn {
namespace {

// What each compaction has written.
class Sizes : public rocksdb::EventListener {
 public:
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (info.reason == rocksdb::TableFileCreationReason::kCompaction) jobs_[info.job_id] += info.file_size;
  }
  uint64_t Largest() {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t largest = 0;
    for (const auto& [job, bytes] : jobs_) largest = std::max(largest, bytes);
    return largest;
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_.clear();
  }
  size_t Jobs() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return jobs_.size();
  }

 private:
  std::mutex mutex_;
  std::map<int, uint64_t> jobs_;
};

class KeyTrieDbTest : public KeyTrieFixture {
 protected:
  KeyTrieDbTest() { options_.listeners.push_back(sizes_); }

  void Put(uint64_t number, int round) { ASSERT_OK(db_->Put({}, Key(number), Value(number, round))); }
  std::set<uint64_t> TablesIn(const std::string& from, const std::string& to) {
    std::vector<rocksdb::LiveFileMetaData> files;
    db_->GetLiveFilesMetaData(&files);
    std::set<uint64_t> numbers;
    for (const auto& file : files) {
      if (file.largestkey >= from && file.smallestkey <= to) numbers.insert(file.file_number);
    }
    return numbers;
  }
  void ExpectKeys(uint64_t count, int round) {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    uint64_t i = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++i) {
      ASSERT_EQ(it->key().ToString(), Key(i));
      ASSERT_EQ(it->value().ToString(), Value(i, round));
    }
    ASSERT_OK(it->status());
    EXPECT_EQ(i, count);
  }

  const std::shared_ptr<Sizes> sizes_ = std::make_shared<Sizes>();
};

TEST_F(KeyTrieDbTest, SequentialKeysAreMovedAndWrittenOnce) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(i, 0);
  Settle();
  const TrieStats stats = Stats();
  EXPECT_GT(stats.moved_tables, 20u);
  EXPECT_EQ(stats.compacted_bytes, 0u) << TrieStatsToTable(stats);
  ExpectKeys(kKeys, 0);
  const auto tables = TablesIn("", "z");
  Open();
  EXPECT_EQ(TablesIn("", "z"), tables);
  ExpectKeys(kKeys, 0);
}

TEST_F(KeyTrieDbTest, MovesGoOnBesideIngestions) {
  Open();
  std::atomic<bool> done{false};
  std::thread ingester([&] {
    for (int round = 0; !done.load() && round < 200; ++round) {
      const std::string file = dir_ / "ingested.sst";
      std::map<std::string, std::string> records;
      for (uint64_t i = 0; i < 50; ++i) records["i" + Key(i * 7)] = std::to_string(round);
      ASSERT_OK(WriteTable(file, options_, records, db_->DefaultColumnFamily()));
      rocksdb::IngestExternalFileOptions move;
      move.move_files = true;
      ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {file}, move));
      std::string value;
      ASSERT_OK(db_->Get({}, "i" + Key(0), &value));
      ASSERT_EQ(value, std::to_string(round));
    }
  });
  for (uint64_t i = 0; i < kKeys; ++i) Put(i, 0);
  done.store(true);
  ingester.join();
  Settle();
  for (uint64_t i = 0; i < 50; ++i) ASSERT_OK(db_->Delete({}, "i" + Key(i * 7)));
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  ExpectKeys(kKeys, 0);
}

TEST_F(KeyTrieDbTest, ATableWithAnotherInItsWayIsNotMoved) {
  Open();
  ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 10; ++i) Put(i, round);
    ASSERT_OK(db_->Flush({}));
  }
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  ASSERT_EQ(files.size(), 2u);
  const auto [older, newer] = std::minmax(files[0].file_number, files[1].file_number);
  const auto move = [&](const std::vector<TableMove>& moves) {
    return MoveTables(static_cast<rocksdb::DBImpl*>(db_->GetRootDB()), db_->DefaultColumnFamily(), moves);
  };
  EXPECT_TRUE(move({{newer, 0, 5}}).IsAborted()) << "it would come below the older one";
  EXPECT_TRUE(move({{older, 1, 5}}).IsAborted()) << "it lies elsewhere";
  EXPECT_TRUE(move({{older + 100, 0, 5}}).IsAborted());
  EXPECT_OK(move({{older, 0, 5}}));
  EXPECT_TRUE(move({{newer, 0, 5}}).IsAborted());
  EXPECT_TRUE(move({{newer, 0, 6}}).IsAborted());
  EXPECT_OK(move({{newer, 0, 4}}));
  EXPECT_TRUE(move({{newer, 4, 7}}).IsAborted());
  ExpectKeys(10, 1);
  Open();
  ExpectKeys(10, 1);
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  ExpectKeys(10, 1);
}

// RocksDB's own compactions cut tables of one level apart between versions of one key, where snapshots keep them. What
// holds the newer ones must not come below the others.
TEST_F(KeyTrieDbTest, TablesThatShareAKeyStayInOrder) {
  trie_.depth = 2;
  rocksdb::Options leveled;
  leveled.create_if_missing = true;
  leveled.num_levels = 1 + trie_.depth * trie_.slots;
  leveled.disable_auto_compactions = true;
  leveled.target_file_size_base = 4 << 10;
  leveled.compression = rocksdb::kNoCompression;
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::Open(leveled, dir_ / "db", port::Into(&db)));
  db_.reset(db);
  rocksdb::CompactRangeOptions to;
  to.change_level = true;
  // Another table lies below those behind the key.
  Put(550, 0);
  to.target_level = 10;
  ASSERT_OK(db_->CompactRange(to, nullptr, nullptr));
  std::vector<const rocksdb::Snapshot*> snapshots;
  for (int round = 1; round <= 100; ++round) {
    Put(500, round);
    snapshots.push_back(db_->GetSnapshot());
  }
  for (uint64_t i = 400; i < 800; ++i) {
    if (i != 500) Put(i, 100);
  }
  to.target_level = 2;
  ASSERT_OK(db_->Flush({}));
  std::vector<std::string> names;
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  for (const auto& file : files) {
    if (file.level == 0) names.push_back(file.name);
  }
  rocksdb::CompactionOptions cut;
  cut.output_file_size_limit = 4 << 10;
  ASSERT_OK(db_->CompactFiles(cut, names, 2));
  files.clear();
  db_->GetLiveFilesMetaData(&files);
  const auto shares = std::count_if(files.begin(), files.end(), [](const rocksdb::LiveFileMetaData& file) {
    return file.smallestkey <= Key(500) && file.largestkey >= Key(500);
  });
  EXPECT_GT(shares, 1);
  for (const rocksdb::Snapshot* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  Open();
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  for (uint64_t i = 400; i < 800; ++i) {
    std::string value;
    ASSERT_OK(db_->Get({}, Key(i), &value));
    ASSERT_EQ(value, Value(i, 100)) << i;
  }
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  for (uint64_t i = 400; i < 800; ++i) {
    std::string value;
    ASSERT_OK(db_->Get({}, Key(i), &value));
    ASSERT_EQ(value, Value(i, 100)) << i;
  }
}

TEST_F(KeyTrieDbTest, NoCompactionIsLargerThanARoot) {
  Open();
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, round);
  }
  Settle();
  ExpectKeys(kKeys, 1);
  EXPECT_GT(sizes_->Jobs(), 5u);
  // A table has some bytes more than its write buffer's entries, and what is flushed at the end is smaller.
  EXPECT_LT(sizes_->Largest(), kWriteBuffer * kRootTrigger * 12 / 10) << TrieStatsToTable(Stats());
}

// A root is as many write buffers as before, where the bound allows as much garbage for either size (RootFilesFor).
TEST_F(KeyTrieDbTest, SetOptionsChangesTheSizeOfARoot) {
  trie_.space_bound = 3.5;
  Open();
  const auto put_all = [&](int round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, round);
    Settle();
  };
  put_all(0);
  const uint64_t small = sizes_->Largest();
  ASSERT_OK(db_->SetOptions({{"write_buffer_size", std::to_string(4 * kWriteBuffer)}}));
  for (int round = 1; round < 4; ++round) put_all(round);
  EXPECT_GT(sizes_->Largest(), 2 * small) << TrieStatsToTable(Stats());
  ASSERT_OK(db_->SetOptions({{"write_buffer_size", std::to_string(kWriteBuffer)}}));
  for (int round = 4; round < 8; ++round) put_all(round);
  sizes_->Clear();
  put_all(8);
  ExpectKeys(kKeys, 8);
  EXPECT_GT(sizes_->Jobs(), 5u);
  EXPECT_LT(sizes_->Largest(), kWriteBuffer * kRootTrigger * 12 / 10) << TrieStatsToTable(Stats());
}

// Nothing has been chosen in it when it is compacted manually, so nothing has measured it yet.
TEST_F(KeyTrieDbTest, AManualCompactionIsAsLargeAsTheTrieWantsWhereNoneIsAutomatic) {
  trie_.root_trigger = 16;
  trie_.space_bound = 3.5;
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, 0);
  Settle();
  const int root_files = Stats().root_due_files;
  EXPECT_GT(root_files, 12);
  Open();
  ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));
  sizes_->Clear();
  for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, 1);
  ASSERT_OK(db_->Flush({}));
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_GT(sizes_->Largest(), static_cast<uint64_t>(root_files) * kWriteBuffer / 2) << TrieStatsToTable(Stats());
  ExpectKeys(kKeys, 1);
}

// After a repair all tables lie in level 0, and RocksDB orders them there by their entries, not by their numbers.
TEST_F(KeyTrieDbTest, ARepairedTrieIsCompactedByRoots) {
  Open();
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, round);
  }
  Settle();
  db_.reset();
  ASSERT_OK(rocksdb::RepairDB(dir_ / "db", options_));
  sizes_->Clear();
  Open();
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  ExpectKeys(kKeys, 2);
  EXPECT_GT(sizes_->Jobs(), 3u);
  EXPECT_LT(sizes_->Largest(), kWriteBuffer * kRootTrigger * 12 / 10) << TrieStatsToTable(Stats());
}

TEST_F(KeyTrieDbTest, ACompactionOfARangeLeavesTheRestAlone) {
  Open();
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, round);
  }
  Settle();
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  for (uint64_t i = 8000; i < 9000; ++i) Put(i, 1);
  Settle();
  ASSERT_OK(db_->SetOptions({{"disable_auto_compactions", "true"}}));
  const auto left = TablesIn("", Key(7000)), right = TablesIn(Key(10000), "z");
  const std::string begin = Key(8000), end = Key(9000);
  const Slice from(begin), to(end);
  ASSERT_OK(db_->CompactRange({}, &from, &to));
  EXPECT_EQ(TablesIn("", Key(7000)), left);
  EXPECT_EQ(TablesIn(Key(10000), "z"), right);
  ExpectKeys(kKeys, 1);
  ASSERT_OK(db_->CompactRange({}, nullptr, &from));
  ASSERT_OK(db_->CompactRange({}, &to, nullptr));
  ExpectKeys(kKeys, 1);
}

// Whatever an operator does at once, each of it ends, and says nothing but OK or what it was told to refuse.
TEST_F(KeyTrieDbTest, AllThatGoesOnAtOnceComesToAnEnd) {
  Open();
  std::atomic<bool> done{false};
  std::atomic<int> compactions{0};
  std::vector<std::thread> threads;
  const auto expect_end = [](const Status& s) { EXPECT_TRUE(s.ok() || s.IsIncomplete()) << s.ToString(); };
  threads.emplace_back([&] {
    for (uint64_t i = 0; !done.load(); ++i) {
      const std::string begin = i % 2 == 0 ? "x" : Key(i * 1237 % kKeys);
      const std::string end = i % 2 == 0 ? "z" : Key(i * 1237 % kKeys + kKeys / 10);
      const Slice from(begin), to(end);
      expect_end(i % 5 == 0 ? CompactTrie(db_.get(), db_->DefaultColumnFamily()) : db_->CompactRange({}, &from, &to));
      compactions.fetch_add(1);
    }
  });
  threads.emplace_back([&] {
    for (uint64_t i = 0; !done.load(); ++i) {
      // What is written there is of nobody's interest.
      const std::string begin = "x" + Key(i * 37 % 1000), end = "x" + Key(i * 37 % 1000 + 200);
      const Slice from(begin), to(end);
      EXPECT_OK(rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), &from, &to));
      std::this_thread::yield();
    }
  });
  threads.emplace_back([&] {
    for (uint64_t i = 0; !done.load(); ++i) {
      EXPECT_OK(db_->SetOptions({{"disable_auto_compactions", i % 2 == 0 ? "true" : "false"}}));
      if (i % 8 == 1) {
        EXPECT_OK(db_->PauseBackgroundWork());
        EXPECT_OK(db_->ContinueBackgroundWork());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_OK(db_->SetOptions({{"disable_auto_compactions", "false"}}));
  });
  threads.emplace_back([&] {
    for (int round = 0; !done.load(); ++round) {
      const std::string path = dir_ / "ingested.sst";
      std::map<std::string, std::string> records;
      for (uint64_t i = 0; i < 200; ++i) records["x" + Key(i * 5)] = Value(i, round);
      EXPECT_OK(WriteTable(path, options_, records, db_->DefaultColumnFamily()));
      EXPECT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {path}, {}));
    }
  });
  for (int round = 0; round < 4 || compactions.load() < 10; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(round % 2 == 0 ? i : i * 7919 % kKeys, 0);
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  Settle();
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  const std::string end = "l";
  const Slice to(end);
  rocksdb::ReadOptions read;
  read.iterate_upper_bound = &to;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
  uint64_t i = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++i) ASSERT_EQ(it->key().ToString(), Key(i));
  ASSERT_OK(it->status());
  EXPECT_EQ(i, kKeys);
}

bool IsWithoutFlushes(rocksdb::DB* db) {
  using Properties = rocksdb::DB::Properties;
  for (const std::string& property : {Properties::kNumRunningFlushes, Properties::kMemTableFlushPending}) {
    uint64_t flushes = 1;
    if (!db->GetIntProperty(property, &flushes) || flushes > 0) return false;
  }
  return true;
}

// What a root of one size has made is compacted by one of any other, and by leveled compaction, and comes to rest each
// time.
TEST_F(KeyTrieDbTest, RootsOfAnySizeAndLeveledCompactionOpenIt) {
  std::mt19937_64 random(Seed());
  std::map<std::string, std::string> model;
  for (int round = 0; round < 12; ++round) {
    const int roots[] = {1, 2, 3, 4, 16, 64};
    const double bounds[] = {1.1, 1.6, 4};
    trie_.root_trigger = roots[random() % 6];
    trie_.space_bound = bounds[random() % 3];
    options_.write_buffer_size = kWriteBuffer << (random() % 3);
    const bool leveled = round % 4 == 3;
    SCOPED_TRACE(std::to_string(round) + (leveled ? " leveled" : "") + ", root " + std::to_string(trie_.root_trigger) +
                 ", bound " + std::to_string(trie_.space_bound) + ", write buffer " +
                 std::to_string(options_.write_buffer_size));
    db_.reset();
    if (leveled) {
      rocksdb::Options plain;
      plain.num_levels = 1 + trie_.depth * trie_.slots;
      plain.write_buffer_size = options_.write_buffer_size;
      plain.target_file_size_base = kWriteBuffer;
      plain.max_bytes_for_level_base = 4 * kWriteBuffer;
      plain.level0_file_num_compaction_trigger = 2;
      rocksdb::DB* db = nullptr;
      ASSERT_OK(rocksdb::DB::Open(plain, dir_ / "db", port::Into(&db)));
      db_.reset(db);
    } else {
      Open();
    }
    const rocksdb::Snapshot* const snapshot = random() % 2 == 0 ? db_->GetSnapshot() : nullptr;
    // Now it grows, now it shrinks, in one place or everywhere.
    const uint64_t from = random() % 20000, width = random() % 2 == 0 ? 500 : 20000, deletes = random() % 4;
    for (int i = 0; i < 6000; ++i) {
      const std::string key = Key(from + random() % width);
      if (random() % 4 < deletes) {
        ASSERT_OK(db_->Delete({}, key));
        model.erase(key);
      } else {
        model[key] = Value(random() % 1000, round);
        ASSERT_OK(db_->Put({}, key, model[key]));
      }
    }
    if (random() % 3 == 0) {
      const std::string begin = Key(random() % 20000), end = Key(20000 + random() % 10000);
      ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), begin, end));
      model.erase(model.lower_bound(begin), model.lower_bound(end));
    }
    if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
    if (random() % 2 == 0) ASSERT_OK(db_->Flush({}));
    ASSERT_TRUE(Await([&] { return IsWithoutFlushes(db_.get()); }));  // each may bring a compaction
    ASSERT_OK(leveled ? db_->WaitForCompact({}) : WaitForTrieCompaction(db_.get()));
    if (!leveled && random() % 4 == 0) ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    auto expected = model.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
      ASSERT_TRUE(expected != model.end());
      ASSERT_EQ(it->key().ToString(), expected->first);
      ASSERT_EQ(it->value().ToString(), expected->second);
    }
    ASSERT_OK(it->status());
    ASSERT_TRUE(expected == model.end());
    if (leveled) continue;
    uint64_t pending = 0;
    ASSERT_TRUE(db_->GetIntProperty("rocksdb.estimate-pending-compaction-bytes", &pending));
    EXPECT_EQ(pending, 0u) << TrieStatsToTable(Stats());
  }
}

// They are equal but for their last two bytes; a write buffer holds four of them.
TEST_F(KeyTrieDbTest, KeysOfAQuarterOfAMebibyte) {
  options_.write_buffer_size = 1 << 20;
  Open();
  std::mt19937_64 random(Seed());
  const std::string same(256 << 10, 'k');
  std::map<std::string, std::string> model;  // by what follows
  const auto ending = [&] { return std::string{static_cast<char>(random()), static_cast<char>(random() % 4)}; };
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  for (int i = 0; i < 160; ++i) {
    const std::string end = ending();
    if (i % 40 == 39) {
      std::string other = ending();
      if (other < end) continue;
      ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), same + end, same + other));
      model.erase(model.lower_bound(end), model.lower_bound(other));
    } else if (random() % 5 == 0) {
      ASSERT_OK(db_->Delete({}, same + end));
      model.erase(end);
    } else {
      ASSERT_OK(db_->Put({}, same + end, std::to_string(i)));
      model[end] = std::to_string(i);
    }
    if (i == 100) db_->ReleaseSnapshot(snapshot);
  }
  Settle();
  EXPECT_GT(Stats().root_compactions, 2u) << TrieStatsToTable(Stats());
  const auto expect_all = [&] {
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    auto expected = model.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
      ASSERT_TRUE(expected != model.end());
      ASSERT_TRUE(it->key() == same + expected->first);
      ASSERT_EQ(it->value().ToString(), expected->second);
    }
    ASSERT_OK(it->status());
    ASSERT_TRUE(expected == model.end());
  };
  expect_all();
  Open();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  expect_all();
}

TEST_F(KeyTrieDbTest, DeletedRangesOfFilesGiveTheirSpaceBack) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(i, 0);
  Settle();
  const std::string end = Key(kKeys / 2);
  const Slice to(end);
  ASSERT_OK(rocksdb::DeleteFilesInRange(db_.get(), db_->DefaultColumnFamily(), nullptr, &to));
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  EXPECT_LT(Stats().bytes, kKeys * 80);
  for (uint64_t i = 0; i < kKeys; ++i) Put(i, 1);
  Settle();
  ExpectKeys(kKeys, 1);
}

// Upper and lower case are one key.
class CaselessOrder : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "key_trie_db_test.Caseless"; }
  int Compare(const Slice& a, const Slice& b) const override { return Lower(a).compare(Lower(b)); }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  static std::string Lower(const Slice& key) {
    std::string lower = key.ToString();
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower;
  }
};

// A filter goes by bytes.
TEST_F(KeyTrieDbTest, KeysOfOtherBytesThatCompareEqualAreFound) {
  static const CaselessOrder order;
  options_.comparator = &order;
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(i, 0);
  ASSERT_OK(db_->Flush({}));
  for (uint64_t i = 0; i < kKeys; i += 7) {
    std::string key = Key(i), value;
    key[0] = 'K';
    ASSERT_OK(db_->Get({}, key, &value));
    ASSERT_EQ(value, Value(i, 0));
  }
  // A filter of the program's own may know more, and stays.
  rocksdb::Options with_filter;
  with_filter.comparator = &order;
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
  with_filter.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  ASSERT_OK(UseTrie(&with_filter, trie_));
  const auto* const kept = with_filter.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->filter_policy, table.filter_policy);
}

TEST_F(KeyTrieDbTest, WhatItCannotBeIsRefused) {
  rocksdb::Options options;
  options.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  EXPECT_TRUE(UseTrie(&options, trie_).IsNotSupported());
  options.comparator = rocksdb::BytewiseComparator();
  rocksdb::ColumnFamilyOptions family;
  EXPECT_TRUE(UseEngineFromString("engine=ordered_trie;bottommost_format=ect", nullptr, &family).IsInvalidArgument());
  EXPECT_TRUE(UseEngineFromString("engine=ordered_trie;order=hash", nullptr, &family).IsInvalidArgument());
  OrderedOptions ordered;
  ordered.compaction = "leveled";
  EXPECT_TRUE(UseOrdered(&family, ordered).IsInvalidArgument());
}

// Also with nobody writing; and never more than the budget.
TEST_F(KeyTrieDbTest, WhatIsScannedAgainAndAgainIsMerged) {
  Open();
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, round);
  }
  Settle();
  const std::string from = Key(kKeys / 2), to = Key(kKeys / 2 + 200);
  ASSERT_EQ(Stats().scan_merges, 0u);
  const auto scan = [&] {
    for (uint64_t i = 0; i < 2000; ++i) {
      const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
      uint64_t key = kKeys / 2 + i % 190;
      it->Seek(Key(key));
      for (int step = 0; step < 10; ++step, it->Next()) {
        ASSERT_TRUE(it->Valid());
        ASSERT_EQ(it->key().ToString(), Key(key++));
      }
    }
  };
  // A shape may have nothing to merge there, or no room for what that would write: after more puts it is another one.
  size_t tables = 0;
  uint64_t merges_before = 0;
  int newest = 1;
  for (int attempt = 0; attempt < 20 && Stats().scan_merges == merges_before; ++attempt) {
    if (attempt > 0) {
      ++newest;
      for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, newest);
      Settle();
    }
    tables = TablesIn(from, to).size();
    merges_before = Stats().scan_merges;
    for (int i = 0; i < 30 && Stats().scan_merges == merges_before; ++i) {
      scan();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  const TrieStats stats = Stats();
  EXPECT_GT(stats.scan_merges, merges_before);
  EXPECT_LT(TablesIn(from, to).size(), tables);
  EXPECT_LE(static_cast<double>(stats.scan_merged_bytes),
            trie_.scan_merge * static_cast<double>(stats.flushed_bytes) + 1.125 * kRootTrigger * kWriteBuffer);
  ExpectKeys(kKeys, newest);
}

// As RocksDB programs meet it: by the preset of ordered tables, and by the options that the database holds.
TEST_F(KeyTrieDbTest, ThePresetOfOrderedTablesAndTheStoredOptions) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = kWriteBuffer;
  ASSERT_OK(UseEngineFromString("engine=ordered;compaction=trie;runs=4;order_bits=7", &options, &options));
  KeyTrieOptions trie;
  ASSERT_TRUE(IsKeyTrie(options, &trie));
  EXPECT_TRUE(IsOrdered(options));
  EXPECT_EQ(trie.root_trigger, 4);
  {
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir_ / "db", port::Into(&db)));
    db_.reset(db);
    for (uint64_t i = 0; i < kKeys; ++i) Put(i * 7919 % kKeys, 0);
    Settle();
    db_.reset();
  }
  rocksdb::DBOptions stored;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir_ / "db", &stored, &families));
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::Open(stored, dir_ / "db", families, &handles, port::Into(&db)));
  db_.reset(db);
  ASSERT_OK(db_->DestroyColumnFamilyHandle(handles[0]));
  ExpectKeys(kKeys, 0);
  OrderedStats stats;
  ASSERT_OK(GetOrderedStats(db_.get(), db_->DefaultColumnFamily(), &stats));
  EXPECT_GT(stats.filter_keys, kKeys / 2);
  EXPECT_EQ(Stats().depths.size(), static_cast<size_t>(trie.depth) + 1);
}

}  // namespace
}  // namespace cairn
