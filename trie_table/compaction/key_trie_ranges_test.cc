// DeleteRange on a trie in key order: what is read, how large compactions become, and what becomes of the space.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/key_trie_fixture.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/mix64.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

class KeyTrieRangesTest : public KeyTrieFixture {
 protected:
  void Put(uint64_t number) {
    std::string value = Value(number, ++round_);
    ASSERT_OK(db_->Put({}, Key(number), value));
    expected_[Key(number)] = std::move(value);
  }
  void DeleteRange(uint64_t begin, uint64_t end) {
    ASSERT_OK(db_->DeleteRange({}, db_->DefaultColumnFamily(), Key(begin), Key(end)));
    expected_.erase(expected_.lower_bound(Key(begin)), expected_.lower_bound(Key(end)));
  }
  using Contents = std::map<std::string, std::string>;
  void Expect(const Contents& expected, const rocksdb::Snapshot* snapshot = nullptr) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
    auto want = expected.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++want) {
      ASSERT_NE(want, expected.end()) << it->key().ToString();
      ASSERT_EQ(it->key().ToString(), want->first);
      ASSERT_EQ(it->value().ToString(), want->second);
    }
    ASSERT_OK(it->status());
    ASSERT_EQ(want, expected.end()) << want->first;
    for (int i = 0; i < 200; ++i) {
      const std::string key = Key(SplitMix64(seed_++) % kKeys);
      std::string value;
      const rocksdb::Status s = db_->Get(read, key, &value);
      const auto found = expected.find(key);
      ASSERT_EQ(s.ok(), found != expected.end()) << key << ": " << s.ToString();
      if (s.ok()) {
        ASSERT_EQ(value, found->second);
      }
    }
  }
  void Expect() { Expect(expected_); }

  // What the largest compaction has read, and how many there were, as RocksDB's log says.
  std::pair<uint64_t, int> LargestCompaction() {
    uint64_t largest = 0;
    int count = 0;
    std::vector<std::string> names;
    EXPECT_OK(rocksdb::Env::Default()->GetChildren(dir_ / "db", &names));
    for (const std::string& name : names) {
      if (name.rfind("LOG", 0) != 0 || name == "LOCK") continue;
      std::ifstream log(dir_ / ("db/" + name));
      const std::string field = "\"input_data_size\": ";
      for (std::string line; std::getline(log, line);) {
        const size_t at = line.find(field);
        if (at == std::string::npos) continue;
        ++count;
        largest = std::max<uint64_t>(largest, std::stoull(line.substr(at + field.size())));
      }
    }
    return {largest, count};
  }
  static constexpr uint64_t kRoot = kRootTrigger * kWriteBuffer;

  Contents expected_;
  int round_ = 0;
  uint64_t seed_ = 1;
};

TEST_F(KeyTrieRangesTest, AThousandOverATenthOfTheKeysEach) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  for (uint64_t round = 0; round < 1000; ++round) {
    const uint64_t begin = SplitMix64(seed_++) % (kKeys - kKeys / 10);
    DeleteRange(begin, begin + kKeys / 10);
    for (int i = 0; i < 200; ++i) Put(SplitMix64(seed_++) % kKeys);
    if (round % 250 == 249) Expect();
  }
  Settle();
  Expect();
  const auto [largest, count] = LargestCompaction();
  EXPECT_GT(count, 20);
  EXPECT_LE(largest, kRoot * 12 / 10) << "of " << count;
  const TrieStats stats = Stats();
  uint64_t live = 0;
  for (const auto& [key, value] : expected_) live += key.size() + value.size();
  EXPECT_LT(stats.bytes, 2 * live + 2 * kRoot) << live;
  EXPECT_GT(stats.dropped_tables, 0u);
  Open();
  Expect();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect();
  EXPECT_LE(LargestCompaction().first, kRoot * 12 / 10);
  EXPECT_LT(Stats().bytes, live * 13 / 10);
}

TEST_F(KeyTrieRangesTest, TheSpaceOfWhatWasDeletedIsGoneWithTheFlush) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  const uint64_t before = Stats().bytes;
  const int compactions = LargestCompaction().second;
  DeleteRange(kKeys / 10, kKeys * 9 / 10);
  Settle();
  EXPECT_LT(Stats().bytes, before * 3 / 10);
  EXPECT_LE(LargestCompaction().second, compactions + 2);
  Expect();
  Open();
  Expect();
}

// Nor is anything lost when somebody asks what is due, or when another column family's tables go first.
TEST_F(KeyTrieRangesTest, TablesAreRemovedWhoeverAsksOrGoesFirst) {
  Open();
  rocksdb::ColumnFamilyHandle* made = nullptr;
  ASSERT_OK(db_->CreateColumnFamily(options_, "other", &made));
  const std::unique_ptr<rocksdb::ColumnFamilyHandle> other(made);
  rocksdb::ColumnFamilyHandle* const families[] = {db_->DefaultColumnFamily(), other.get()};
  for (rocksdb::ColumnFamilyHandle* family : families) {
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_OK(db_->Put({}, family, Key(SplitMix64(i) % kKeys), Value(i, 1)));
    ASSERT_OK(db_->CompactRange({}, family, nullptr, nullptr));
  }
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  const std::shared_ptr<TrieScheduler> scheduler = TrieScheduler::Find(db_.get());
  ASSERT_NE(scheduler, nullptr);
  scheduler->Pause();
  for (rocksdb::ColumnFamilyHandle* family : families) {
    ASSERT_OK(db_->DeleteRange({}, family, Key(kKeys / 10), Key(kKeys * 9 / 10)));
  }
  ASSERT_OK(db_->Flush({}, {families[0], families[1]}));
  for (rocksdb::ColumnFamilyHandle* family : families) {
    uint64_t bytes = 0;
    ASSERT_TRUE(db_->GetIntProperty(family, rocksdb::DB::Properties::kEstimatePendingCompactionBytes, &bytes));
    EXPECT_GT(bytes, 0u);
  }
  scheduler->Continue();
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  for (rocksdb::ColumnFamilyHandle* family : families) {
    TrieStats stats;
    ASSERT_OK(GetTrieStats(db_.get(), family, &stats));
    EXPECT_GT(stats.dropped_tables, 0u) << family->GetName();
  }
}

TEST_F(KeyTrieRangesTest, SnapshotsKeepWhatTheySee) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  const rocksdb::Snapshot* snapshot = db_->GetSnapshot();
  const Contents then = expected_;
  DeleteRange(kKeys / 10, kKeys * 9 / 10);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect(then, snapshot);
  Expect();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(seed_++) % kKeys);
  Settle();
  Expect(then, snapshot);
  Expect();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect(then, snapshot);
  Expect();
  EXPECT_LE(LargestCompaction().first, kRoot * 12 / 10);
  db_->ReleaseSnapshot(snapshot);
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(seed_++) % kKeys);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect();
  EXPECT_LE(LargestCompaction().first, kRoot * 12 / 10);
  uint64_t live = 0;
  for (const auto& [key, value] : expected_) live += key.size() + value.size();
  EXPECT_LT(Stats().bytes, live * 13 / 10);
}

// A snapshot that sees one of two range deletions that cover a table together sees what only the other one deletes.
TEST_F(KeyTrieRangesTest, ASnapshotBetweenRangeDeletionsKeepsWhatItSees) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  constexpr uint64_t kMiddle = kKeys * 3 / 7;  // within a table
  DeleteRange(kMiddle, kKeys);
  const rocksdb::Snapshot* snapshot = db_->GetSnapshot();
  const Contents then = expected_;
  DeleteRange(0, kMiddle);
  ASSERT_OK(db_->Flush({}));
  Settle();
  EXPECT_GT(Stats().dropped_tables, 0u);
  Expect(then, snapshot);
  Expect();
  db_->ReleaseSnapshot(snapshot);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect();
}

// Puts, range deletions of all lengths, snapshots, ingestions, manual compactions and reopening, in random order.
TEST_F(KeyTrieRangesTest, RandomOperations) {
  Open();
  struct Seen {
    const rocksdb::Snapshot* snapshot;
    Contents contents;
  };
  std::vector<Seen> seen;
  const auto release = [&](size_t i) {
    db_->ReleaseSnapshot(seen[i].snapshot);
    seen.erase(seen.begin() + static_cast<std::ptrdiff_t>(i));
  };
  const auto random = [&](uint64_t end) { return SplitMix64(seed_++) % end; };
  for (int step = 0; step < 1500; ++step) {
    const uint64_t what = random(100);
    if (what < 60) {
      const uint64_t first = random(kKeys);
      const uint64_t stride = random(4) == 0 ? 1 : 1 + random(997);
      for (uint64_t i = 0; i < 60; ++i) Put((first + i * stride) % kKeys);
    } else if (what < 85) {
      const uint64_t length = 1 + random(random(3) == 0 ? kKeys : random(2) == 0 ? kKeys / 20 : 50);
      const uint64_t begin = random(kKeys);
      DeleteRange(begin, std::min(begin + length, kKeys));
    } else if (what < 90) {
      ASSERT_OK(db_->Flush({}));
    } else if (what < 93) {
      if (seen.size() < 3) seen.push_back({db_->GetSnapshot(), expected_});
    } else if (what < 96) {
      if (!seen.empty()) release(random(seen.size()));
    } else if (what < 97) {
      const std::string begin = Key(random(kKeys)), end = Key(random(kKeys));
      const Slice from(std::min(begin, end)), to(std::max(begin, end));
      ASSERT_OK(db_->CompactRange({}, &from, &to));
    } else if (what < 98) {
      const std::string name = dir_ / ("in" + std::to_string(step) + ".sst");
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
      ASSERT_OK(writer.Open(name));
      const uint64_t begin = random(kKeys - 2000), end = begin + 1 + random(2000);
      ASSERT_OK(writer.DeleteRange(Key(begin), Key(end)));
      expected_.erase(expected_.lower_bound(Key(begin)), expected_.lower_bound(Key(end)));
      for (uint64_t i = begin; i < end + 100 && i < kKeys; i += 7) {
        ASSERT_OK(writer.Put(Key(i), "ingested"));
        expected_[Key(i)] = "ingested";
      }
      ASSERT_OK(writer.Finish());
      ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), {name}, {}));
    } else if (what < 99) {
      while (!seen.empty()) release(seen.size() - 1);
      Open();
    } else {
      ASSERT_OK(WaitForTrieCompaction(db_.get()));
    }
    if (step % 50 == 0) {
      Expect();
      for (const Seen& one : seen) Expect(one.contents, one.snapshot);
    }
    if (HasFatalFailure()) return;
  }
  while (!seen.empty()) release(seen.size() - 1);
  Settle();
  Expect();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  Expect();
  EXPECT_LE(LargestCompaction().first, kRoot * 12 / 10);
  TrieStats stats = Stats();
  EXPECT_EQ(stats.failed_compactions, 0u) << stats.last_error;
}

// Containers that end where a range deletion does are not those that begin there.
TEST_F(KeyTrieRangesTest, WhoReadsOnlySeesTheSameContainers) {
  Open();
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  const rocksdb::Snapshot* snapshot = db_->GetSnapshot();
  DeleteRange(kKeys / 10, kKeys * 9 / 10);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  const TrieStats open = Stats();
  db_->ReleaseSnapshot(snapshot);
  db_.reset();
  rocksdb::DB* db = nullptr;
  ASSERT_OK(rocksdb::DB::OpenForReadOnly(options_, dir_ / "db", port::Into(&db)));
  db_.reset(db);
  const TrieStats read = Stats();
  ASSERT_EQ(open.depths.size(), read.depths.size());
  for (size_t i = 0; i < open.depths.size(); ++i) {
    EXPECT_EQ(open.depths[i].containers, read.depths[i].containers) << i;
    EXPECT_EQ(open.depths[i].files, read.depths[i].files) << i;
  }
}

// Also where the last table of all is ended by a range deletion, whose end is no key of it.
TEST_F(KeyTrieRangesTest, ACompactRangeTakesWhatBeginsAtItsEnd) {
  Open();
  Put(100);
  DeleteRange(5000, 9000);
  ASSERT_OK(db_->Flush({}));
  const std::string begin = Key(0), end = Key(100);
  const rocksdb::Slice from(begin), to(end);
  ASSERT_OK(db_->CompactRange({}, &from, &to));
  rocksdb::ColumnFamilyMetaData files;
  db_->GetColumnFamilyMetaData(&files);
  EXPECT_TRUE(files.levels[0].files.empty());
}

// RocksDB removes a blob file when a compaction has counted each of its values as garbage, or when no table refers to
// it or an older one. So one key that stays would keep the values of all tables that were removed unread.
TEST_F(KeyTrieRangesTest, BlobsOfWhatWasDeletedAreGone) {
  options_.enable_blob_files = true;
  options_.min_blob_size = 50;
  Open();
  ASSERT_OK(db_->Put({}, "a", std::string(100, 'a')));
  ASSERT_OK(db_->Flush({}));
  const auto blob_bytes = [&] {
    rocksdb::ColumnFamilyMetaData files;
    db_->GetColumnFamilyMetaData(&files);
    return files.blob_file_size;
  };
  for (uint64_t i = 0; i < kKeys; ++i) Put(SplitMix64(i) % kKeys);
  Settle();
  const uint64_t before = blob_bytes();
  DeleteRange(0, kKeys);
  Settle();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_LT(blob_bytes(), before / 10);
  EXPECT_LE(LargestCompaction().first, kRoot * 12 / 10);
}

}  // namespace
}  // namespace cairn
