// Files that come into a trie whole: where they go, what becomes of them, and that everything else goes on meanwhile.

#include "trie_table/compaction/trie_ingestion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/test_gate.h"
#include "test/testutil/trie_fixture.h"

namespace cairn {
namespace {

using test::TempDir;

constexpr uint64_t kPatienceMicros = 600'000'000;
constexpr uint64_t kMiB = 1 << 20;

ArrivingFile OverAllKeys(uint64_t bytes) { return {bytes, bytes / 100, 0, UINT64_MAX}; }

// One of `parts` files of a sorted load of `bytes` in all.
ArrivingFile PartOfLoad(uint64_t bytes, uint64_t parts, uint64_t part) {
  const uint64_t width = UINT64_MAX / parts;
  return {bytes / parts, bytes / parts / 100, part * width, part * width + width - 1};
}

TEST(ArrivingFileTest, SlotsGrowAsCompactionMakesThem) {
  const HashTrieOptions trie;  // 8 children, 16 files in the root, 15 slots
  EXPECT_DOUBLE_EQ(SlotBytes(trie, kMiB, 1), 2.0 * kMiB);
  EXPECT_DOUBLE_EQ(SlotBytes(trie, kMiB, 2), 3.75 * kMiB);
}

TEST(ArrivingFileTest, GoesAsDeepAsItsPartsAreNotSmall) {
  const HashTrieOptions trie;
  EXPECT_EQ(DepthOfArriving(trie, kMiB, OverAllKeys(8 * kMiB)), 0);
  EXPECT_EQ(DepthOfArriving(trie, kMiB, OverAllKeys(24 * kMiB)), 1);
  EXPECT_EQ(DepthOfArriving(trie, kMiB, OverAllKeys(1000 * kMiB)), 2);
  EXPECT_EQ(DepthOfArriving(trie, 64 * kMiB, OverAllKeys(1000 * kMiB)), 0);
  EXPECT_EQ(DepthOfArriving(trie, 64 * kMiB, OverAllKeys(10'000 * kMiB)), 1);
  EXPECT_EQ(DepthOfArriving(trie, kMiB, OverAllKeys(1ull << 60)), trie.depth);
}

TEST(ArrivingFileTest, AllFilesOfASortedLoadGoToOneDepth) {
  const HashTrieOptions trie;
  for (uint64_t parts : {1, 7, 100, 1600}) {
    for (uint64_t part = 0; part < parts; ++part) {
      EXPECT_EQ(DepthOfArriving(trie, 64 * kMiB, PartOfLoad(100'000 * kMiB, parts, part)), 2) << part << "/" << parts;
    }
  }
}

TEST(ArrivingFileTest, AFewKeysGoToTheRootHoweverNearTheyLie) {
  const HashTrieOptions trie;
  EXPECT_EQ(DepthOfArriving(trie, kMiB, {0, 0, 0, 0}), 0);
  EXPECT_EQ(DepthOfArriving(trie, kMiB, {kMiB, 1, 17, 17}), 0);
  EXPECT_EQ(DepthOfArriving(trie, kMiB, {kMiB, 5, 17, 18}), 0);
  // Any density is a number.
  EXPECT_EQ(DepthOfArriving(trie, kMiB, {kMiB, 1000, 17, 17}), trie.depth);
}

TEST(ArrivingFileTest, TakesTheNextLevelThatIsFree) {
  const HashTrieOptions trie;
  const auto level = [&](uint64_t bytes, int deepest, int taken_from) {
    return LevelOfArriving(trie, kMiB, OverAllKeys(bytes), deepest, [&](int l) { return l < taken_from; });
  };
  EXPECT_EQ(level(24 * kMiB, 80, 81), 20);
  EXPECT_EQ(level(24 * kMiB, 80, 20), 19) << "the oldest slot holds others";
  EXPECT_EQ(level(24 * kMiB, 5, 81), 5) << "above newer data";
  EXPECT_EQ(level(1000 * kMiB, 80, 81), 40);
  EXPECT_EQ(level(1000 * kMiB, 80, 21), 20) << "depth 2 is full";
  EXPECT_EQ(level(24 * kMiB, 80, 1), 0) << "depth 1 is full";
  EXPECT_EQ(level(1 * kMiB, 80, 81), 0);
}

class TrieIngestionTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.create_if_missing = true;
    options_.create_missing_column_families = true;
    options_.write_buffer_size = 64 << 10;
    options_.compression = rocksdb::kNoCompression;
    options_.max_background_jobs = 4;
    trie_ = ShapedTrie<HashTrieOptions>(/*fan_out=*/4, /*slots=*/5, /*trigger=*/3, /*depth=*/4, /*root_trigger=*/4);
    trie_.format = "sst";
    trie_.seed = 1;  // files are written in the order of these options
  }

  void Open() {
    db_.reset();
    ASSERT_OK(UseTrie(&options_, trie_));
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(options_, dir_ / "db", &db));
    db_.reset(db);
  }

  static std::string Key(int i) { return "key" + std::to_string(i); }

  bool Before(const std::string& a, const std::string& b) const { return options_.comparator->Compare(a, b) < 0; }

  std::vector<std::string> SortedKeys(int first, int count) const {
    std::vector<std::string> keys;
    keys.reserve(static_cast<size_t>(count));
    for (int i = first; i < first + count; ++i) keys.push_back(Key(i));
    std::sort(keys.begin(), keys.end(), [this](const auto& a, const auto& b) { return Before(a, b); });
    return keys;
  }

  // A file of `keys` (in order), all with `value`.
  std::string WriteFile(const std::vector<std::string>& keys, const std::string& value) {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
    const std::string path = dir_ / ("in" + std::to_string(++files_) + ".sst");
    EXPECT_OK(writer.Open(path));
    for (const std::string& key : keys) EXPECT_OK(writer.Put(key, value));
    EXPECT_OK(writer.Finish());
    return path;
  }

  void Ingest(const std::vector<std::string>& files) {
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = true;
    ASSERT_OK(IngestAgain(db_.get(), db_->DefaultColumnFamily(), files, ingest));
  }

  void CheckAll(const std::vector<std::string>& keys, const std::string& value) {
    std::string found;
    for (const std::string& key : keys) {
      ASSERT_OK(db_->Get({}, key, &found));
      ASSERT_EQ(found, value);
    }
  }

  TrieStats Stats() {
    TrieStats stats;
    EXPECT_OK(GetTrieStats(db_.get(), db_->DefaultColumnFamily(), &stats));
    return stats;
  }

  std::map<int, std::vector<rocksdb::SstFileMetaData>> FilesByDepth() {
    rocksdb::ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(&meta);
    std::map<int, std::vector<rocksdb::SstFileMetaData>> files;
    for (const auto& level : meta.levels) {
      for (const auto& file : level.files) files[DepthOfLevel(trie_, level.level)].push_back(file);
    }
    return files;
  }

  TempDir dir_;
  rocksdb::Options options_;
  HashTrieOptions trie_;
  std::unique_ptr<rocksdb::DB> db_;
  int files_ = 0;
};

TEST_F(TrieIngestionTest, AnEmptyTrieMakesNoSmallContainers) {
  Open();
  const auto keys = SortedKeys(0, 8000);
  Ingest({WriteFile(keys, std::string(100, 'v'))});
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  const auto files = FilesByDepth();
  ASSERT_EQ(files.size(), 1u) << TrieStatsToTable(Stats());
  EXPECT_EQ(files.begin()->first, 2);
  EXPECT_EQ(files.begin()->second.size(), 16u);
  EXPECT_EQ(Stats().split_compactions, 1u);
  for (const auto& file : files.begin()->second) {
    EXPECT_GT(static_cast<double>(file.size), 0.8 * SlotBytes(trie_, options_.write_buffer_size, 2));
  }
  CheckAll(keys, std::string(100, 'v'));
}

TEST_F(TrieIngestionTest, ASmallFileWaitsInTheRoot) {
  Open();
  const auto keys = SortedKeys(0, 500);
  Ingest({WriteFile(keys, std::string(100, 'v'))});
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  const auto files = FilesByDepth();
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files.begin()->first, 0);
  EXPECT_EQ(files.begin()->second.size(), 1u);
  CheckAll(keys, std::string(100, 'v'));
  // What is written later is newer, in the root as everywhere.
  for (const auto& key : keys) ASSERT_OK(db_->Put({}, key, "new"));
  ASSERT_OK(db_->Flush({}));
  CheckAll(keys, "new");
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  CheckAll(keys, "new");
}

// In one call, and file by file: what lies in one container is not written again.
TEST_F(TrieIngestionTest, ASortedLoadIsHardlyWrittenAgain) {
  for (const bool at_once : {true, false}) {
    SCOPED_TRACE(at_once);
    Open();
    const auto keys = SortedKeys(0, 11000);
    std::vector<std::string> files;
    const size_t parts = 100;
    for (size_t part = 0; part < parts; ++part) {
      const auto at = [&](size_t p) { return keys.begin() + static_cast<std::ptrdiff_t>(keys.size() * p / parts); };
      files.push_back(WriteFile({at(part), at(part + 1)}, std::string(100, 'v')));
    }
    if (at_once) {
      Ingest(files);
    } else {
      for (const auto& file : files) Ingest({file});
    }
    ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
    const TrieStats stats = Stats();
    EXPECT_EQ(FilesByDepth().size(), 1u) << TrieStatsToTable(stats);
    EXPECT_LE(stats.split_compactions, 15u);
    EXPECT_LT(stats.compacted_bytes, stats.bytes / 4) << TrieStatsToTable(stats);
    CheckAll(keys, std::string(100, 'v'));
    db_.reset();
    ASSERT_OK(rocksdb::DestroyDB(dir_ / "db", options_));
  }
}

// Keeps the first compaction waiting until it is let go.
class HeldSplit : public rocksdb::EventListener {
 public:
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kCompaction && !first_.exchange(true)) gate.Wait();
  }
  Gate gate;

 private:
  std::atomic<bool> first_{false};  // has begun
};

TEST_F(TrieIngestionTest, EverythingElseGoesOnWhileAFileIsSplit) {
  auto listener = std::make_shared<HeldSplit>();
  options_.listeners.push_back(listener);
  Open();
  const auto keys = SortedKeys(0, 8000);
  Ingest({WriteFile(keys, std::string(100, 'v'))});
  ASSERT_TRUE(listener->gate.AwaitWaiter());
  // The root moves, and so do its children.
  for (int flush = 0; flush < 4 * trie_.root_trigger; ++flush) {
    for (int i = 0; i < 400; ++i) ASSERT_OK(db_->Put({}, Key(flush * 400 + i), std::string(100, 'n')));
    ASSERT_OK(db_->Flush({}));
    // Or one compaction takes what is there for several.
    const auto due = static_cast<uint64_t>((flush + 1) / trie_.root_trigger);
    EXPECT_TRUE(Await([&] { return Stats().root_compactions >= due; })) << TrieStatsToTable(Stats());
  }
  const bool moved = Await([&] { return Stats().root_compactions >= 3 && Stats().push_compactions >= 1; });
  EXPECT_TRUE(moved) << TrieStatsToTable(Stats());
  EXPECT_EQ(Stats().split_compactions, 0u);
  listener->gate.Release();
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  EXPECT_EQ(Stats().split_compactions, 1u);
  CheckAll(SortedKeys(0, 6400), std::string(100, 'n'));
  CheckAll(SortedKeys(6400, 1600), std::string(100, 'v'));
  EXPECT_EQ(Stats().failed_compactions, 0u);
}

// Small parts: the file stays whole, and is part of what the statistics count.
TEST_F(TrieIngestionTest, AWholeFileIsCounted) {
  options_.disable_auto_compactions = true;
  Open();
  const auto keys = SortedKeys(0, 8000);
  Ingest({WriteFile(keys, std::string(100, 'v'))});
  const TrieStats stats = Stats();
  ASSERT_EQ(stats.depths.size(), 3u) << TrieStatsToTable(stats);
  EXPECT_EQ(stats.depths[2].files, 1u);
  EXPECT_EQ(stats.depths[2].bytes, stats.bytes);
  EXPECT_EQ(stats.depths[2].live_bytes, stats.live_bytes);
  EXPECT_GT(stats.live_bytes, 8000u * 100);
}

TEST_F(TrieIngestionTest, ASplitThatFindsNoRoomIsTriedAgain) {
  std::shared_ptr<rocksdb::SstFileManager> manager(rocksdb::NewSstFileManager(rocksdb::Env::Default()));
  options_.sst_file_manager = manager;
  Open();
  manager->SetMaxAllowedSpaceUsage(500'000);
  const auto keys = SortedKeys(0, 8000);
  Ingest({WriteFile(keys, std::string(100, 'v'))});
  const Status s = WaitForTrieCompaction(db_.get(), kPatienceMicros);
  EXPECT_TRUE(s.IsCompactionTooLarge()) << s.ToString();
  CheckAll(keys, std::string(100, 'v'));
  manager->SetMaxAllowedSpaceUsage(0);
  ASSERT_OK(CompactTrie(db_.get(), db_->DefaultColumnFamily()));
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  EXPECT_EQ(Stats().split_compactions, 1u);
  CheckAll(keys, std::string(100, 'v'));
}

// Threads that ingest, write, compact, pause, and create and drop column families, each with keys of its own, which it
// finds as it has left them.
TEST_F(TrieIngestionTest, ManyThreadsAtOnce) {
  options_.write_buffer_size = 16 << 10;
  Open();
  const uint64_t seed = test::SeedFromEnvironment();
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mutex files_mutex;
  const auto write_file = [&](const std::vector<std::string>& keys, const std::string& value) {
    std::lock_guard<std::mutex> lock(files_mutex);
    return WriteFile(keys, value);
  };
  const auto own_key = [](uint64_t thread, uint64_t i) { return Key(static_cast<int>(10 * i + thread)); };
  const uint64_t own_keys = 300;
  const auto ingest_and_write = [&](uint64_t thread) {
    test::Random random(seed + thread);
    std::map<std::string, std::string> model;
    for (int round = 0; round < 80; ++round) {
      const std::string value = std::to_string(round) + std::string(random.Uniform(100), 'v');
      std::vector<std::string> keys;
      const bool many = random.OneIn(2);
      for (uint64_t i = 0; i < own_keys; ++i) {
        if (many || random.OneIn(20)) keys.push_back(own_key(thread, i));
      }
      if (keys.empty()) continue;
      std::sort(keys.begin(), keys.end(), [this](const auto& a, const auto& b) { return Before(a, b); });
      if (random.OneIn(3)) keys.resize(1 + random.Uniform(keys.size()));  // a narrow range
      if (random.OneIn(3)) {
        for (const auto& key : keys) ASSERT_OK(db_->Put({}, key, value));
      } else {
        Ingest({write_file(keys, value)});
      }
      for (const auto& key : keys) model[key] = value;
      std::string found;
      for (const auto& [key, wanted] : model) {
        ASSERT_OK(db_->Get({}, key, &found));
        ASSERT_EQ(found, wanted) << key;
      }
    }
  };
  const auto create_and_drop = [&] {
    for (int round = 0; round < 20; ++round) {
      ColumnFamilyHandle* handle = nullptr;
      ASSERT_OK(db_->CreateColumnFamily(options_, "family" + std::to_string(round), &handle));
      const auto keys = SortedKeys(0, 3000);
      for (int file = 0; file < 3; ++file) {
        rocksdb::IngestExternalFileOptions ingest;
        ASSERT_OK(IngestAgain(db_.get(), handle, {write_file(keys, std::string(50, 'v'))}, ingest));
      }
      if (round % 2 == 0) ASSERT_OK(db_->Put({}, handle, "key", "value"));
      ASSERT_OK(db_->DropColumnFamily(handle));
      ASSERT_OK(db_->DestroyColumnFamilyHandle(handle));
    }
  };
  const auto operate = [&] {
    test::Random random(seed);
    for (int round = 0; round < 60; ++round) {
      const uint64_t what = random.Uniform(4);
      Status s;
      if (what == 0) s = CompactTrie(db_.get(), db_->DefaultColumnFamily());
      if (what == 1) s = db_->Flush({});
      if (what == 2) {
        s = db_->PauseBackgroundWork();
        if (s.ok()) s = db_->ContinueBackgroundWork();
      }
      ASSERT_OK(s);
      std::this_thread::sleep_for(std::chrono::milliseconds(random.Uniform(20)));
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) threads.emplace_back(ingest_and_write, thread);
  threads.emplace_back(create_and_drop);
  threads.emplace_back(operate);
  for (auto& thread : threads) thread.join();
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  EXPECT_EQ(Stats().failed_compactions, 0u) << Stats().last_error;
}

// Random writes, deletions, merges and ingestions, with everything that may happen in between, against a map.
class RandomIngestionTest : public TrieIngestionTest {
 protected:
  using Model = std::map<std::string, std::string>;
  static constexpr int kKeys = 3000;

  void SetUp() override {
    TrieIngestionTest::SetUp();
    options_.write_buffer_size = 16 << 10;
    options_.merge_operator = nullptr;
    trie_.root_trigger = 3;
    trie_.fan_out = 2 << random_.Uniform(2);
    trie_.slots = 4 + static_cast<int>(random_.Uniform(4));
    trie_.depth = 3 + static_cast<int>(random_.Uniform(2));
    trie_.trigger = 0;
    trie_.format = random_.OneIn(2) ? "htable" : "sst";
    printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    options_.allow_ingest_behind = random_.OneIn(3);
    OpenFamily();
    // RocksDB takes a snapshot of sequence number 0 for none, and drops what only that sees.
    ASSERT_OK(db_->Put({}, "key", "value"));
  }

  void TearDown() override { Close(); }

  void Close() {
    ReleaseSnapshot();
    if (handle_ != nullptr) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle_));
    handle_ = nullptr;
    db_.reset();
  }

  // The default column family is a trie that stays empty; `name_` changes with each import.
  void OpenFamily() {
    Close();
    ASSERT_OK(UseTrie(&options_, trie_));
    std::vector<ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    ASSERT_OK(cairn::Open(options_, dir_ / "db", {{"default", options_}, {name_, options_}}, &handles, &db));
    db_.reset(db);
    EXPECT_OK(db_->DestroyColumnFamilyHandle(handles[0]));
    handle_ = handles[1];
  }

  void ReleaseSnapshot() {
    if (snapshot_ == nullptr) return;
    db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
  }

  std::string NewValue() { return std::to_string(++values_) + std::string(random_.Uniform(200), 'v'); }

  // A file's keys: of all hashes, or of a narrow range of them.
  std::vector<std::string> SomeKeys(size_t most) {
    const auto count = static_cast<int>(1 + random_.Uniform(most));
    std::vector<std::string> keys;
    if (random_.OneIn(2)) {
      std::vector<std::string> all = SortedKeys(0, kKeys);
      const size_t first = random_.Uniform(all.size());
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first));
      all.resize(std::min(all.size(), static_cast<size_t>(count)));
      return all;
    }
    std::map<std::string, int> chosen;
    for (int i = 0; i < count; ++i) chosen[Key(static_cast<int>(random_.Uniform(kKeys)))] = 0;
    for (const auto& [key, unused] : chosen) keys.push_back(key);
    std::sort(keys.begin(), keys.end(), [this](const auto& a, const auto& b) { return Before(a, b); });
    return keys;
  }

  // Several files, in the order of ingestion; a later one wins.
  void IngestSome() {
    rocksdb::IngestExternalFileOptions ingest;
    ingest.move_files = random_.OneIn(2);
    ingest.allow_global_seqno = !random_.OneIn(8);
    ingest.snapshot_consistency = snapshot_ != nullptr || random_.OneIn(2);
    ingest.allow_blocking_flush = !random_.OneIn(8);
    ingest.fail_if_not_bottommost_level = random_.OneIn(8);
    // It is there for older snapshots, too.
    ingest.ingest_behind = options_.allow_ingest_behind && snapshot_ == nullptr && random_.OneIn(3);
    Model after = model_;
    std::vector<std::string> files;
    std::vector<std::string> ever;
    Model behind;
    const size_t count = 1 + random_.Uniform(4);
    for (size_t f = 0; f < count; ++f) {
      const auto keys = SomeKeys(random_.OneIn(4) ? 1500 : 60);
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_->GetOptions(handle_), handle_);
      files.push_back(dir_ / ("in" + std::to_string(++files_) + ".sst"));
      ASSERT_OK(writer.Open(files.back()));
      for (const std::string& key : keys) {
        const bool deletes = !ingest.ingest_behind && random_.OneIn(10);
        const std::string value = NewValue();
        ASSERT_OK(deletes ? writer.Delete(key) : writer.Put(key, value));
        const bool seen = ingest.ingest_behind && written_.count(key) > 0;
        if (deletes) after.erase(key);
        if (!deletes && !seen) after[key] = value;
        if (seen && model_.count(key) == 0) behind[key] = value;
        ever.push_back(key);
      }
      ASSERT_OK(writer.Finish());
      if (ingest.ingest_behind) break;
    }
    const bool may_fail = ingest.ingest_behind || !ingest.allow_global_seqno || !ingest.allow_blocking_flush ||
                          ingest.fail_if_not_bottommost_level;
    const Status s =
        may_fail ? db_->IngestExternalFile(handle_, files, ingest) : IngestAgain(db_.get(), handle_, files, ingest);
    if (!s.ok()) {
      ASSERT_TRUE(may_fail) << s.ToString();
      ASSERT_TRUE(s.IsInvalidArgument() || s.IsTryAgain()) << s.ToString();
      return;
    }
    model_ = after;
    // A deletion that RocksDB has dropped, having found nothing older, hides nothing that is ingested behind it.
    for (const auto& key : ever) behind_.erase(key);
    for (const auto& [key, value] : behind) {
      std::string found;
      // A compaction that began before may still drop the deletion.
      behind_[key] = value;
      if (!db_->Get({}, handle_, key, &found).ok()) continue;
      ASSERT_EQ(found, value) << key;
      model_[key] = value;
    }
    written_.insert(ever.begin(), ever.end());
    ++ingested_;
  }

  void WriteSome() {
    const size_t count = 1 + random_.Uniform(300);
    for (size_t i = 0; i < count; ++i) {
      const std::string key = Key(static_cast<int>(random_.Uniform(kKeys)));
      written_.insert(key);
      behind_.erase(key);
      if (random_.OneIn(8)) {
        ASSERT_OK(db_->Delete({}, handle_, key));
        model_.erase(key);
      } else {
        const std::string value = NewValue();
        ASSERT_OK(db_->Put({}, handle_, key, value));
        model_[key] = value;
      }
    }
  }

  void TakeSnapshot() {
    ReleaseSnapshot();
    if (random_.OneIn(2)) return;
    snapshot_ = db_->GetSnapshot();
    then_ = model_;
    then_behind_ = behind_;
  }

  // Goes on in a copy of the column family.
  void ExportAndImport() {
    ReleaseSnapshot();
    std::unique_ptr<rocksdb::Checkpoint> checkpoint;
    ASSERT_OK(rocksdb::Checkpoint::Create(db_.get(), port::Into(&checkpoint)));
    std::unique_ptr<rocksdb::ExportImportFilesMetaData> metadata;
    const std::string folder = dir_ / ("export" + std::to_string(++files_));
    ASSERT_OK(checkpoint->ExportColumnFamily(handle_, folder, port::Into(&metadata)));
    if (metadata->files.empty()) return;
    ColumnFamilyHandle* copy = nullptr;
    name_ = "copy" + std::to_string(files_);
    ASSERT_OK(db_->CreateColumnFamilyWithImport(options_, name_, {}, *metadata, &copy));
    ASSERT_OK(db_->DropColumnFamily(handle_));
    EXPECT_OK(db_->DestroyColumnFamilyHandle(handle_));
    handle_ = copy;
  }

  void Reopen() {
    if (random_.OneIn(2)) trie_.slots += random_.OneIn(2) ? 1 : 0;
    if (random_.OneIn(4)) trie_.fan_out = 2 << random_.Uniform(2);
    // As RocksDB asks, not to be switched on later.
    if (random_.OneIn(4)) options_.allow_ingest_behind = false;
    if (random_.OneIn(4)) trie_.format = random_.OneIn(2) ? "htable" : "sst";
    OpenFamily();
  }

  // `surfacing`: what may be there beyond the model.
  void CheckAt(const rocksdb::Snapshot* snapshot, const Model& model, const Model& surfacing) {
    const auto surfaces = [&surfacing](const std::string& key, const std::string& found) {
      const auto at = surfacing.find(key);
      return at != surfacing.end() && at->second == found;
    };
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    std::string value;
    for (int i = 0; i < kKeys; ++i) {
      const Status s = db_->Get(read, handle_, Key(i), &value);
      const auto wanted = model.find(Key(i));
      if (wanted == model.end()) {
        ASSERT_TRUE(s.IsNotFound() || (s.ok() && surfaces(Key(i), value)))
            << Key(i) << " " << s.ToString() << " " << value.substr(0, 20);
      } else {
        ASSERT_TRUE(s.ok()) << Key(i) << ": " << s.ToString();
        ASSERT_EQ(value, wanted->second) << Key(i);
      }
    }
    size_t seen = 0;
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read, handle_));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      const auto wanted = model.find(it->key().ToString());
      if (wanted == model.end()) {
        ASSERT_TRUE(surfaces(it->key().ToString(), it->value().ToString())) << it->key().ToString();
        continue;
      }
      ASSERT_EQ(it->value().ToString(), wanted->second);
      ++seen;
    }
    ASSERT_OK(it->status());
    ASSERT_EQ(seen, model.size());
  }

  void Check() {
    CheckAt(nullptr, model_, behind_);
    if (snapshot_ != nullptr && !HasFatalFailure()) CheckAt(snapshot_, then_, then_behind_);
  }

  void Step() {
    switch (random_.Uniform(16)) {
      case 0:
        ASSERT_OK(db_->Flush({}, handle_));
        break;
      case 1:
        ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
        break;
      case 2:
        if (random_.OneIn(3)) ASSERT_OK(CompactTrie(db_.get(), handle_));
        break;
      case 3:
        TakeSnapshot();
        break;
      case 4:
        if (random_.OneIn(3)) ExportAndImport();
        break;
      case 5:
        if (random_.OneIn(3)) Reopen();
        break;
      case 6:
      case 7:
      case 8:
        WriteSome();
        break;
      default:
        IngestSome();
    }
  }

  const uint64_t seed_ = test::SeedFromEnvironment();
  test::Random random_{seed_};
  ColumnFamilyHandle* handle_ = nullptr;
  std::string name_ = "trie";
  Model model_, then_;
  // Values that were ingested behind deletions. RocksDB drops a deletion below which nothing lay when the compaction
  // began, whatever has been ingested there since.
  Model behind_, then_behind_;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::set<std::string> written_;  // keys that were ever written: nothing can be ingested behind them
  uint64_t values_ = 0;
  int ingested_ = 0;
};

TEST_F(RandomIngestionTest, ReadsAreThoseOfAMap) {
  const uint64_t steps = test::NumberFromEnvironment("CAIRN_STEPS", 250);
  for (uint64_t step = 0; step < steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step) + ", " + TrieOptionsToString(trie_));
    Step();
    if (!HasFatalFailure() && random_.OneIn(10)) Check();
    if (HasFatalFailure()) return;
  }
  ASSERT_OK(WaitForTrieCompaction(db_.get(), kPatienceMicros));
  Check();
  ASSERT_OK(CompactTrie(db_.get(), handle_));
  Check();
  EXPECT_GT(ingested_, 0);
  TrieStats stats;
  ASSERT_OK(GetTrieStats(db_.get(), handle_, &stats));
  EXPECT_EQ(stats.failed_compactions, 0u) << stats.last_error;
}

}  // namespace
}  // namespace cairn
