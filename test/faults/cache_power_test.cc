// A result cache that survives a loss of power: whatever the disk holds then of its file and of the database, what the
// cache answers is what the database answers (docs/design/result_cache.md, P11).
//
// A process works on a database, and what it does to the folder is recorded. Power is lost after some of its system
// calls, and of what was not synced any words, sectors or pages are left. The next process works on one of these
// states, and so on: what a loss leaves lying about must not come back with a later one. CAIRN_CYCLES is how many such
// chains there are.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/result_cache.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/faults/disk_image.h"
#include "test/faults/system_calls.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"
#include "test/testutil/random.h"
#include "test/testutil/test_seed.h"

namespace cairn::faults {
namespace {

namespace fs = std::filesystem;
using test::Random;

constexpr uint64_t kKeys = 400;
constexpr char kFile[] = "ANSWERS";

// Shared with the processes.
struct Seen {
  uint64_t losses = 0;
  uint64_t refused = 0;  // by RocksDB
  uint64_t warm = 0;     // openings that found answers
  uint64_t recovered = 0;
  uint64_t hits = 0;
  uint64_t wrong = 0;
  char message[512] = {};
  void Say(const std::string& text) {
    ++wrong;
    if (message[0] == '\0') text.copy(message, sizeof(message) - 1);
  }
};

std::string KeyOf(uint64_t number) { return "key" + std::to_string(number); }

// What one chain is opened with.
Options OptionsOf(uint64_t chain) {
  Random random(chain);
  Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = 64 << 10;
  options.max_background_jobs = 2;
  options.stats_dump_period_sec = 0;
  options.manifest_preallocation_size = 64 << 10;
  options.manual_wal_flush = random.OneIn(4);
  options.avoid_flush_during_recovery = random.OneIn(3);
  options.recycle_log_file_num = random.OneIn(4) ? 2 : 0;
  options.min_write_buffer_number_to_merge = random.OneIn(4) ? 2 : 1;
  options.max_write_buffer_number = 4;
  options.atomic_flush = random.OneIn(5);
  if (random.OneIn(4)) options.max_manifest_file_size = 4 << 10;
  DatabaseCacheOptions cache;
  // Small ones take chunks apart all the time.
  cache.capacity = random.OneIn(2) ? 96 << 10 : 1 << 20;
  cache.path = kFile;
  cache.adaptive = false;
  cache.admit_one_fill_in = 1;
  cache.survive_power_loss = true;
  if (random.OneIn(6)) cache.compression = ResultCacheOptions::Compression::kLz4;
  UseResultCache(cache, &options);
  return options;
}

class Database {
 public:
  Database(const std::string& path, const Options& options) {
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{rocksdb::kDefaultColumnFamilyName, options},
                                                                   {"second", options}};
    status = DB::Open(options, path, families, &handles_, port::Into(&db_));
  }
  ~Database() { Close(); }
  void Close() {
    if (db_ == nullptr) return;
    for (ColumnFamilyHandle* handle : handles_) static_cast<void>(db_->DestroyColumnFamilyHandle(handle));
    db_.reset();
  }
  DB* operator->() const { return db_.get(); }
  DB* get() const { return db_.get(); }
  ColumnFamilyHandle* Family(uint64_t number) const { return handles_[number % 2]; }

  std::string Get(uint64_t family, const std::string& key, const rocksdb::Snapshot* snapshot) const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;  // such reads pass by the cache
    rocksdb::PinnableSlice value;
    const Status s = db_->Get(options, Family(family), key, &value);
    return s.ok() ? value.ToString() : s.ToString();
  }
  // Says what is wrong.
  void Compare(Seen* seen, const std::string& when) const {
    rocksdb::ManagedSnapshot snapshot(db_.get());
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string cached = Get(i, KeyOf(i / 2), nullptr);
      const std::string tree = Get(i, KeyOf(i / 2), snapshot.snapshot());
      if (cached != tree) {
        seen->Say(when + ", family " + std::to_string(i % 2) + ", " + KeyOf(i / 2) + ": " + cached.substr(0, 40) +
                  " and not " + tree.substr(0, 40));
      }
    }
  }
  DatabaseCacheStats Stats() const {
    DatabaseCacheStats stats;
    static_cast<void>(GetDatabaseCacheStats(db_.get(), &stats));
    return stats;
  }

  Status status;

 private:
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

void Ingest(const Database& db, const std::string& table, uint64_t number, const std::string& value) {
  Status s = WriteTable(table, db->GetOptions(db.Family(number)), {{KeyOf(number / 2), value}});
  if (s.ok()) s = db->IngestExternalFile(db.Family(number), {table}, rocksdb::IngestExternalFileOptions());
}

void DoOne(const Database& db, const std::string& folder, uint64_t operation, Random* random, Seen* seen) {
  const uint64_t number = random->OneIn(2) ? random->Uniform(40) : random->Uniform(kKeys);
  const std::string value = std::to_string(operation) + ":" + std::string(random->Uniform(120), 'v');
  rocksdb::WriteOptions options;
  options.sync = random->OneIn(6);
  switch (random->Uniform(40)) {
    case 0:
      static_cast<void>(db->Flush(rocksdb::FlushOptions(), db.Family(number)));
      break;
    case 1:
      static_cast<void>(db->DeleteRange(options, db.Family(number), KeyOf(number / 2), KeyOf(number / 2) + "~"));
      break;
    case 2:
      if (random->OneIn(3)) Ingest(db, folder + "/table" + std::to_string(operation), number, value);
      break;
    case 3:
      static_cast<void>(db->CompactRange(rocksdb::CompactRangeOptions(), db.Family(number), nullptr, nullptr));
      break;
    case 4:
      static_cast<void>(db->FlushWAL(random->OneIn(2)));
      break;
    case 5:
      if (random->OneIn(4)) {
        static_cast<void>(db->SetOptions(db.Family(number), {{"level0_file_num_compaction_trigger", "3"}}));
      } else if (random->OneIn(30)) {
        options.sync = false;
        options.disableWAL = true;  // from now on it begins empty
        static_cast<void>(db->Put(options, db.Family(number), KeyOf(number / 2), value));
      }
      break;
    case 6:
    case 7:
    case 8:
      db.Compare(seen, "while it was open");
      break;
    case 9:
    case 10:
    case 11:
      static_cast<void>(db->Delete(options, db.Family(number), KeyOf(number / 2)));
      break;
    default:
      static_cast<void>(db->Put(options, db.Family(number), KeyOf(number / 2), value));
      // Hot keys are read at once.
      if (random->OneIn(2)) static_cast<void>(db.Get(number, KeyOf(number / 2), nullptr));
      break;
  }
}

class CachePowerTest : public ::testing::Test {
 protected:
  CachePowerTest() {
    void* const shared = mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seen_ = new (shared) Seen();
  }
  ~CachePowerTest() override { munmap(seen_, sizeof(Seen)); }

  // In a process of its own, which believes in that boot. False: it did not end well.
  static bool InProcess(uint64_t boot, const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      PretendAnotherBoot(std::to_string(boot));
      PretendSameFiles();
      work();
      _exit(0);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  // Works on the database in the folder, and records what that does to it.
  bool Work(const std::string& folder, const Options& options, uint64_t seed, bool forget_syncs) {
    return InProcess(boot_, [&] {
      WatchOptions watch;
      watch.folder = folder;
      watch.record = true;
      if (forget_syncs) watch.forget_syncs_of = kFile;
      Watch(watch);
      Random random(seed);
      for (int session = 0; session < 2; ++session) {
        Database db(folder + "/db", options);
        if (!db.status.ok()) {
          ++seen_->refused;
          break;
        }
        for (uint64_t i = 0; i < 60 + random.Uniform(120); ++i) {
          DoOne(db, folder, seed % 1000 * 1000 + static_cast<uint64_t>(session) * 500 + i, &random, seen_);
        }
        if (session == 1 || random.OneIn(2)) {
          // As it is killed.
          if (!SaveEvents(Recorded(), dir_ / "events")) _exit(3);
          _exit(0);
        }
      }
    });
  }
  // What is in the folder after the loss of power; under the same boot, after a kill.
  bool Judge(const std::string& folder, uint64_t boot, const Options& options) {
    return InProcess(boot, [&] {
      ++seen_->losses;
      for (int opening = 0; opening < 2; ++opening) {
        Database db(folder + "/db", options);
        if (!db.status.ok()) {
          // RocksDB itself may find that its tables are ahead of what is left of the WALs.
          ++seen_->refused;
          return;
        }
        const uint64_t recovered = db.Stats().cache.recovered;
        db.Compare(seen_, opening == 0 ? "after the loss" : "after the next opening");
        if (opening == 0) {
          seen_->warm += recovered > 0 ? 1 : 0;
          seen_->recovered += recovered;
          seen_->hits += db.Stats().cache.hits + db.Stats().cache.absent_hits;
        }
        for (uint64_t i = 0; i < 20; ++i) static_cast<void>(db->Put({}, db.Family(i), KeyOf(i), "after"));
        db.Compare(seen_, "after more writes");
      }
    });
  }

  // Three losses of power after each other, and some that lead nowhere beside each.
  void RunChain(uint64_t seed, bool forget_syncs) {
    Random random(seed);
    const Options options = OptionsOf(seed);
    const std::string work = dir_ / "work";
    const std::string image = dir_ / "image";
    fs::remove_all(work);
    fs::create_directories(work + "/db");
    for (int generation = 0; generation < 3; ++generation) {
      fs::remove(dir_ / "events");
      ASSERT_TRUE(Work(work, options, random.Next(), forget_syncs));
      std::vector<Event> events;
      if (!LoadEvents(dir_ / "events", &events)) break;
      for (int loss = 0; loss < 4; ++loss) {
        // Before the first call is what was there. The first opening is not what this is about.
        uint64_t begin = generation == 0 ? events.size() / 3 : 0;
        while (!events[begin].is_call) ++begin;
        const uint64_t end = begin + random.Uniform(events.size() - begin);
        DiskImage disk;
        for (uint64_t i = 0; i <= end; ++i) disk.Play(events[i]);
        const bool goes_on = loss == 3;
        const std::string& to = goes_on ? work : image;
        fs::create_directories(to);
        const uint64_t kind = random.Uniform(6);
        const Loss left = kind < 2 ? Loss::kNone : kind == 2 ? Loss::kAll : Loss::kSome;
        ASSERT_EQ(disk.Write(to, left, random.Next()), "");
        const uint64_t boot = boot_ + (kind == 0 ? 0 : 1);
        if (goes_on) {
          boot_ = boot;
        } else if (fs::exists(to + "/db/CURRENT")) {
          if (random.OneIn(4)) FlipBits(to + "/db/" + kFile, &random);
          ASSERT_TRUE(Judge(to, boot, options)) << seen_->message;
        }
      }
    }
  }

  static void FlipBits(const std::string& path, Random* random) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    if (!file || fs::file_size(path) == 0) return;
    for (uint64_t bits = 1 + random->Uniform(8); bits > 0; --bits) {
      // Most of what tells about all the others is in the beginning.
      const uint64_t at =
          random->Uniform(random->OneIn(2) ? std::min<uint64_t>(20480, fs::file_size(path)) : fs::file_size(path));
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1 << random->Uniform(8)));
    }
  }

  test::TempDir dir_;
  Seen* seen_ = nullptr;
  uint64_t boot_ = 1;
};

uint64_t Cycles() {
  const char* const given = getenv("CAIRN_CYCLES");
  return given != nullptr ? std::stoull(given) : 30;
}

TEST_F(CachePowerTest, WhatItAnswersIsTheDatabases) {
  const uint64_t seed = Seed();
  const uint64_t cycles = Cycles();
  for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
    SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed + cycle) + " CAIRN_CYCLES=1");
    RunChain(seed + cycle, false);
    ASSERT_EQ(seen_->wrong, 0u) << seen_->message;
  }
  printf("%llu losses of power, %llu with answers, %llu answers recovered, %llu hits, %llu openings refused\n",
         static_cast<unsigned long long>(seen_->losses), static_cast<unsigned long long>(seen_->warm),
         static_cast<unsigned long long>(seen_->recovered), static_cast<unsigned long long>(seen_->hits),
         static_cast<unsigned long long>(seen_->refused));
  EXPECT_GT(seen_->recovered, 0u);
  EXPECT_LT(seen_->refused, 1 + seen_->losses / 20);
}

// Of the cache's file: how often it was synced, and how many pages had to be written then.
struct Costs {
  uint64_t syncs = 0;
  uint64_t pages = 0;
};
Costs CostsOf(const std::vector<Event>& events) {
  constexpr uint64_t kPage = 4096;
  Costs costs;
  int file = -1;
  std::set<uint64_t> dirty;
  bool counts = false;
  for (const Event& event : events) {
    if (event.kind == EventKind::kMakeFile && event.path == std::string("db/") + kFile) file = event.file;
    if (event.kind == EventKind::kMark && event.other == "count") counts = true;
    if (event.file != file) continue;
    if (event.kind == EventKind::kData) {
      for (const Chunk& chunk : event.chunks) dirty.insert(chunk.offset / kPage);
    } else if (event.kind == EventKind::kSync) {
      const auto begin = dirty.lower_bound(event.number / kPage);
      const auto end = event.size == 0 ? dirty.end() : dirty.lower_bound((event.number + event.size) / kPage);
      if (counts) costs.pages += static_cast<uint64_t>(std::distance(begin, end));
      if (counts) ++costs.syncs;
      dirty.erase(begin, end);
    }
  }
  return costs;
}

TEST_F(CachePowerTest, CostsAndShare) {
  constexpr uint64_t kItems = 20000;
  constexpr uint64_t kWrites = 8000;
  const std::string work = dir_ / "work";
  Options options = OptionsOf(0);
  options.manual_wal_flush = false;
  options.recycle_log_file_num = 0;
  options.atomic_flush = false;
  options.min_write_buffer_number_to_merge = 1;
  options.write_buffer_size = 256 << 10;
  DatabaseCacheOptions cache;
  cache.capacity = 6 << 20;
  cache.path = kFile;
  cache.adaptive = false;
  cache.survive_power_loss = true;
  UseResultCache(cache, &options);
  fs::create_directories(work + "/db");
  ASSERT_TRUE(InProcess(boot_, [&] {
    Random random(1);
    const std::string value(100, 'v');
    const auto any_key = [&] { return KeyOf(random.Uniform(kItems)); };
    WatchOptions watch;
    watch.folder = work;
    watch.record = true;
    Watch(watch);
    Database db(work + "/db", options);
    for (uint64_t i = 0; i < kItems; i += 100) {
      rocksdb::WriteBatch batch;
      for (uint64_t j = i; j < i + 100; ++j) static_cast<void>(batch.Put(KeyOf(j), value));
      static_cast<void>(db->Write({}, &batch));
    }
    for (uint64_t i = 0; i < kItems; ++i) static_cast<void>(db.Get(0, KeyOf(i), nullptr));
    static_cast<void>(db->Flush({}));
    Mark(0, "count");
    for (uint64_t i = 0; i < kWrites; ++i) {
      static_cast<void>(db->Put({}, any_key(), value));
      for (int read = 0; read < 4; ++read) static_cast<void>(db.Get(0, any_key(), nullptr));
    }
    seen_->hits = db.Stats().cache.items;
    if (!SaveEvents(Recorded(), dir_ / "events")) _exit(3);
    _exit(0);
  }));
  const uint64_t held = std::exchange(seen_->hits, 0);
  std::vector<Event> events;
  ASSERT_TRUE(LoadEvents(dir_ / "events", &events));
  const Costs costs = CostsOf(events);
  printf("%llu puts: %llu syncs of the file, %llu bytes for each put\n", static_cast<unsigned long long>(kWrites),
         static_cast<unsigned long long>(costs.syncs), static_cast<unsigned long long>(costs.pages * 4096 / kWrites));
  DiskImage disk;
  for (const Event& event : events) disk.Play(event);
  for (const Loss loss : {Loss::kNone, Loss::kSome, Loss::kAll}) {
    ASSERT_EQ(disk.Write(work, loss, 1), "");
    *seen_ = Seen();
    ASSERT_TRUE(Judge(work, ++boot_, options));
    EXPECT_EQ(seen_->wrong, 0u) << seen_->message;
    printf("power lost, %s of what was not synced: %llu of %llu answers found\n",
           loss == Loss::kAll    ? "and all"
           : loss == Loss::kSome ? "and some"
                                 : "and none",
           static_cast<unsigned long long>(seen_->recovered), static_cast<unsigned long long>(held));
    EXPECT_GT(seen_->recovered, held / 2);
  }
}

// The proof that this can fail: a disk whose syncs of the cache's file do nothing.
TEST_F(CachePowerTest, SyncsThatDoNothingAreSeen) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  for (uint64_t cycle = 0; cycle < 200 && seen_->wrong == 0; ++cycle) RunChain(seed + cycle, true);
  EXPECT_GT(seen_->wrong, 0u);
}

}  // namespace
}  // namespace cairn::faults
