// The pool file below the database: what a loss of power leaves at any moment, and what damage does to it.

#include "memtable_cache/durable.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "db/dbformat.h"
#include "gtest/gtest.h"
#include "memtable_cache/recovery.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/file_system_type.h"
#include "test/testutil/test_seed.h"
#include "util/coding.h"

namespace cairn {
namespace {

std::string NewPath() {
  const char* const folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  static int count = 0;
  return std::string(folder) + "/cairn_durable_test." + std::to_string(getpid()) + "." + std::to_string(count++);
}

std::unique_ptr<PmemFile> OpenFile(const std::string& path, uint64_t bytes) {
  PmemFileOptions options;
  options.path = path;
  options.bytes = bytes;
  std::unique_ptr<PmemFile> file;
  const Status s = PmemFile::Open(options, &file);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return file;
}

std::string EntryOf(uint64_t sequence, const std::string& key, const std::string& value) {
  std::string entry;
  rocksdb::PutVarint32(&entry, static_cast<uint32_t>(key.size() + 8));
  entry += key;
  rocksdb::PutFixed64(&entry, sequence << 8 | rocksdb::kTypeValue);
  rocksdb::PutLengthPrefixedSlice(&entry, value);
  return entry;
}

// Column families 0 and 1; tables as the test says.
struct Facts : DatabaseFacts {
  bool HasColumnFamily(uint32_t id) const override { return id < 2; }
  bool TableEndsWith(uint32_t family, uint64_t sequence) const override { return ends.count({family, sequence}) != 0; }
  std::set<std::pair<uint32_t, uint64_t>> ends;
};

// What a database would do with a pool: memtables of two column families, batches over both, flushes.
class Workload {
 public:
  static constexpr uint64_t kSegmentBytes = 8192;
  static constexpr uint64_t kFileBytes = kSegmentsOffset + 16 * kSegmentBytes;

  explicit Workload(uint64_t seed) : random_(seed), path_(NewPath()) {
    std::unique_ptr<PmemFile> file = OpenFile(path_, kFileBytes);
    file_ = file.get();
    EXPECT_TRUE(DurablePool::Start(std::move(file), 0, &pool_).ok());
    char* rest = pool_->segments();
    for (int i = 0; i < 15; ++i) {
      char* const next = pool_->Split(rest, kSegmentBytes);
      free_.push_back(rest);
      rest = next;
    }
    free_.push_back(rest);
    for (int family = 0; family < 2; ++family) NewMemtable(family);
  }
  ~Workload() {
    pool_.reset();
    unlink(path_.c_str());
  }

  Status Arm() {
    return pool_->Arm("a database", {"/a/directory", 1, 2}, 7, [this] { return complete_; });
  }

  void Step() {
    const uint64_t dice = random_() % 20;
    if (dice == 0) {
      Flush(random_() % 2);
    } else if (dice == 1) {
      JoinAndSplit();
    } else if (dice == 2) {
      Seal(random_() % 2);
    } else {
      WriteGroup();
    }
  }

  // After a sync that failed.
  void Resume() {
    if (!pool_->Resume().ok()) return;
    for (char* segment : kept_) FreeOne(segment);
    kept_.clear();
  }

  PmemFile* file() const { return file_; }
  const std::string& path() const { return path_; }
  const Facts& facts() const { return facts_; }
  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t complete() const { return complete_; }
  DurablePool* pool() const { return pool_.get(); }
  // The last sequences of write groups.
  const std::set<uint64_t>& ends() const { return ends_; }
  // What must be recovered if everything up to `published` counts.
  std::map<uint64_t, std::string> Expected(uint64_t published) const {
    return std::map<uint64_t, std::string>(alive_.begin(), alive_.upper_bound(published));
  }

 private:
  struct Memtable {
    uint64_t id = 0;
    std::vector<char*> segments;
    std::vector<uint64_t> sequences;
  };

  void NewMemtable(int family) {
    memtables_[family] = Memtable();
    memtables_[family].id = ++last_memtable_;
  }

  char* Claim(int family) {
    char* const segment = free_.back();
    free_.pop_back();
    Memtable& memtable = memtables_[family];
    pool_->Claim(segment, memtable.id, family, static_cast<uint32_t>(memtable.segments.size()));
    memtable.segments.push_back(segment);
    return segment;
  }

  void Append(int family, uint64_t sequence) {
    Memtable& memtable = memtables_[family];
    const std::string value(random_() % 200, static_cast<char>('a' + sequence % 26));
    const std::string entry = EntryOf(sequence, "key" + std::to_string(random_() % 50), value);
    char* segment = memtable.segments.empty() ? Claim(family) : memtable.segments.back();
    uint64_t word = DurablePool::TailWord(segment)->load();
    if (TailOf(word) + EntryBytes(entry.size()) > kSegmentBytes) {
      segment = Claim(family);
      word = DurablePool::TailWord(segment)->load();
    }
    char* const at = segment + TailOf(word) + kEntryHeaderBytes;
    std::copy_n(entry.data(), entry.size(), at);
    pool_->FinishEntry(segment, at, static_cast<uint32_t>(entry.size()));
    DurablePool::TailWord(segment)->store(PackTail(EntriesOf(word) + 1, 1, TailOf(word) + EntryBytes(entry.size())));
    pool_->PersistTail(segment);
    memtable.sequences.push_back(sequence);
    alive_[sequence] = value;
  }

  void WriteGroup() {
    if (free_.size() < 4) Flush(0);
    if (free_.size() < 4) Flush(1);
    if (free_.size() < 4) return;  // a disk that fails flushes nothing
    const uint64_t count = 1 + random_() % 6;
    for (uint64_t i = 1; i <= count; ++i) Append(random_() % 2, complete_ + i);
    complete_ += count;
    ends_.insert(complete_);
    pool_->AcknowledgeAll();
    acknowledged_ = complete_;
  }

  // The memtable becomes read-only, and waits for its flush.
  void Seal(int family) {
    if (memtables_[family].sequences.empty()) return;
    pool_->AcknowledgeAll();
    sealed_[family].push_back(memtables_[family]);
    NewMemtable(family);
  }

  // One table of all sealed memtables, which tells its smallest and its largest sequence. What the table drops from an
  // end, because something newer is in it, may leave one of the two only.
  void Flush(int family) {
    Seal(family);
    std::vector<Memtable> flushed;
    flushed.swap(sealed_[family]);
    if (flushed.empty()) return;
    if (!pool_->SyncForFlush().ok()) {
      sealed_[family] = flushed;
      return;
    }
    facts_.ends.insert({family, flushed.back().sequences.back()});
    if (random_() % 2 == 0) facts_.ends.insert({family, flushed.front().sequences.front()});
    for (const Memtable& memtable : flushed) {
      for (const uint64_t sequence : memtable.sequences) alive_.erase(sequence);
    }
    for (const Memtable& memtable : flushed) pool_->MarkFlushed(memtable.segments);
    pool_->NoteTable(++last_table_).PermitUncheckedError();
    for (const Memtable& memtable : flushed) {
      if (pool_->BeforeFree(memtable.segments).ok()) {
        for (char* segment : memtable.segments) FreeOne(segment);
      } else {
        kept_.insert(kept_.end(), memtable.segments.begin(), memtable.segments.end());
      }
    }
  }
  void FreeOne(char* segment) {
    EXPECT_TRUE(pool_->Free(segment));
    free_.insert(free_.begin() + random_() % (free_.size() + 1), segment);
  }

  void JoinAndSplit() {
    std::sort(free_.begin(), free_.end());
    for (size_t i = 0; i + 1 < free_.size(); ++i) {
      if (free_[i] + kSegmentBytes != free_[i + 1]) continue;
      pool_->Join(free_[i]);
      pool_->Split(free_[i], kSegmentBytes);
      break;
    }
    std::shuffle(free_.begin(), free_.end(), random_);
  }

  std::mt19937_64 random_;
  const std::string path_;
  PmemFile* file_ = nullptr;
  std::unique_ptr<DurablePool> pool_;
  std::vector<char*> free_;
  std::vector<char*> kept_;  // could not be freed
  Memtable memtables_[2];
  std::vector<Memtable> sealed_[2];  // oldest first
  uint64_t last_memtable_ = 0;
  uint64_t last_table_ = 0;
  uint64_t complete_ = 0;
  uint64_t acknowledged_ = 0;
  std::map<uint64_t, std::string> alive_;
  std::set<uint64_t> ends_ = {0};
  Facts facts_;
};

enum class Boot { kSame, kAnother };

Status Recovered(const PmemFile& file, const Facts& facts, std::map<uint64_t, std::string>* found,
                 Boot boot = Boot::kSame) {
  found->clear();
  Superblock superblock;
  Status s = ReadSuperblock(file, &superblock);
  if (!s.ok() || superblock.phase == PoolPhase::kIdle) return s;
  if (boot == Boot::kAnother) superblock.boot = 0;
  std::vector<PoolEntry> entries;
  PoolCounts counts;
  s = ReadPool(file, superblock, facts, &entries, &counts);
  for (const PoolEntry& entry : entries) (*found)[entry.sequence] = entry.value.ToString();
  return s;
}

// The medium: what has been persisted. Of the lines that were stored to since, a loss of power keeps any subset of
// their 8-byte words.
class Medium {
 public:
  Medium(const PmemFile& live, const std::string& path) : live_(live), image_(live.base(), live.bytes()), path_(path) {
    after_ = OpenFile(path, live.bytes());
  }
  ~Medium() { unlink(path_.c_str()); }

  void Persisted(const void* address, size_t length) {
    const size_t begin = (static_cast<const char*>(address) - live_.base()) / 64 * 64;
    const size_t end = (static_cast<const char*>(address) - live_.base() + length + 63) / 64 * 64;
    memcpy(image_.data() + begin, live_.base() + begin, end - begin);
  }

  const PmemFile& AfterPowerLoss(std::mt19937_64* random) {
    memcpy(after_->base(), image_.data(), image_.size());
    // Sometimes all, sometimes none: the ends of the range are the likeliest to be thought of wrongly.
    const uint64_t kept = (*random)() % 5;
    for (size_t at = 0; at < image_.size(); at += 8) {
      if (memcmp(image_.data() + at, live_.base() + at, 8) == 0) continue;
      if (kept == 4 || (kept > 0 && (*random)() % 4 < kept)) memcpy(after_->base() + at, live_.base() + at, 8);
    }
    return *after_;
  }

 private:
  const PmemFile& live_;
  std::string image_;
  const std::string path_;
  std::unique_ptr<PmemFile> after_;
};

// As on device-DAX: regions come out of what is there, at multiples of 2 MiB, until nothing is left.
TEST(DurablePoolTest, ADeviceKeepsItsSizeAndGivesItsRegions) {
  constexpr uint64_t kUnit = PmemFile::kDeviceUnitBytes;
  const std::string path = NewPath();
  OpenFile(path, 4 * kUnit).reset();
  PmemFileOptions options;
  options.path = path;
  options.keep_size = true;
  std::unique_ptr<PmemFile> file;
  ASSERT_OK(PmemFile::Open(options, &file));
  EXPECT_TRUE(file->Resize(kUnit).IsNotSupported());
  PmemFile* const device = file.get();
  std::unique_ptr<DurablePool> pool;
  ASSERT_OK(DurablePool::Start(std::move(file), kSegmentsOffset + kPoolPageBytes, &pool));
  char* const room =
      static_cast<char*>(mmap(nullptr, 5 * kUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(room, MAP_FAILED);
  char* const at = room + (kUnit - reinterpret_cast<uintptr_t>(room) % kUnit) % kUnit;
  for (uint64_t region = 0; region < 3; ++region) {
    ASSERT_OK(pool->Take(kUnit, at + region * kUnit));
    // The same bytes, through the region and through the device.
    at[region * kUnit + kUnit - 1] = static_cast<char>('a' + region);
    EXPECT_EQ(device->base()[(region + 2) * kUnit - 1], static_cast<char>('a' + region));
  }
  EXPECT_TRUE(pool->Take(kUnit, at + 3 * kUnit).IsNoSpace());
  EXPECT_EQ(device->bytes(), 4 * kUnit);
  pool.reset();
  munmap(room, 5 * kUnit);
  unlink(path.c_str());
}

// Where a store on a full file system would be a SIGBUS, there is no pool.
TEST(DurablePoolTest, EveryStoreHasABlock) {
  constexpr uint64_t kBytes = 1 << 20;
  const std::string path = NewPath();
  // As a file that was copied with its holes.
  std::ofstream(path).close();
  ASSERT_EQ(truncate(path.c_str(), kBytes), 0);
  std::unique_ptr<DurablePool> pool;
  ASSERT_OK(DurablePool::Start(OpenFile(path, kBytes), kBytes, &pool));
  struct stat facts = {};
  ASSERT_EQ(stat(path.c_str(), &facts), 0);
  EXPECT_GE(static_cast<uint64_t>(facts.st_blocks) * 512, kBytes);
  pool.reset();
  for (const long type : {0x9123683EL, 0x2fc12fc1L, 0xca451a4eL, 0x3434L}) {
    test::file_system_type = type;
    const Status s = DurablePool::Start(OpenFile(path, kBytes), kBytes, &pool);
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    EXPECT_NE(s.ToString().find(path), std::string::npos) << s.ToString();
    EXPECT_NE(s.ToString().find("pool_file"), std::string::npos) << s.ToString();
  }
  test::file_system_type = 0x794c7630L;
  ASSERT_OK(DurablePool::Start(OpenFile(path, kBytes), kBytes, &pool));
  EXPECT_NE(pool->file()->Report().find("overlay"), std::string::npos) << pool->file()->Report();
  test::file_system_type = 0;
  pool.reset();
  unlink(path.c_str());
}

TEST(DurablePoolTest, SurvivesALossOfPowerAtAnyMoment) {
  std::mt19937_64 random(Seed());
  uint64_t losses = 0;
  for (int run = 0; run < 12; ++run) {
    Workload workload(random());
    Medium medium(*workload.file(), NewPath());
    const auto check = [&] {
      std::map<uint64_t, std::string> found;
      const Status s = Recovered(medium.AfterPowerLoss(&random), workload.facts(), &found);
      ASSERT_TRUE(s.ok()) << s.ToString() << " after " << losses << " losses";
      ++losses;
      // The group that is being acknowledged may count already; half of one never does.
      if (found == workload.Expected(workload.acknowledged())) return;
      ASSERT_EQ(found, workload.Expected(workload.complete())) << "acknowledged: " << workload.acknowledged();
    };
    workload.file()->SetPersistObserver([&](const void* address, size_t length) {
      if (random() % 3 == 0 && !::testing::Test::HasFatalFailure()) check();
      medium.Persisted(address, length);
    });
    ASSERT_OK(workload.Arm());
    for (int step = 0; step < 150 && !HasFatalFailure(); ++step) workload.Step();
    workload.file()->SetPersistObserver(nullptr);
    if (HasFatalFailure()) return;
  }
  printf("%llu losses of power\n", static_cast<unsigned long long>(losses));
  EXPECT_GT(losses, 1000u);
}

// An ordinary disk: what was synced is there, and any subset of the sectors, or of the pages, that were written since.
class Disk {
 public:
  Disk(const PmemFile& live, const std::string& path, size_t unit = kPoolPageBytes)
      : live_(live), unit_(unit), image_(live.base(), live.bytes()), path_(path) {
    after_ = OpenFile(path, live.bytes());
  }
  ~Disk() { unlink(path_.c_str()); }

  void Synced() { memcpy(image_.data(), live_.base(), image_.size()); }
  // Some of it.
  void HalfSynced(std::mt19937_64* random) {
    for (size_t at = 0; at < image_.size(); at += unit_) {
      if ((*random)() % 2 == 0) memcpy(image_.data() + at, live_.base() + at, unit_);
    }
  }

  const PmemFile& AfterPowerLoss(std::mt19937_64* random) {
    memcpy(after_->base(), image_.data(), image_.size());
    const uint64_t kept = (*random)() % 9;
    for (size_t at = 0; at < image_.size(); at += unit_) {
      if (kept == 8 || (kept > 0 && (*random)() % 8 < kept)) memcpy(after_->base() + at, live_.base() + at, unit_);
    }
    return *after_;
  }

 private:
  const PmemFile& live_;
  const size_t unit_;
  std::string image_;
  const std::string path_;
  std::unique_ptr<PmemFile> after_;
};

// At least what was synced is there, and what is there is the database as it was after some write group. A disk that
// fails has got to some of the pages.
void LosePower(bool disk_fails) {
  std::mt19937_64 random(Seed());
  uint64_t losses = 0;
  uint64_t failures = 0;
  uint64_t more = 0;
  for (int run = 0; run < 25; ++run) {
    Workload workload(random());
    Disk disk(*workload.file(), NewPath(), run % 2 == 0 ? kPoolPageBytes : kSectorBytes);
    uint64_t synced = 0;
    bool syncing = false;
    const auto check = [&] {
      std::map<uint64_t, std::string> found;
      const Status s = Recovered(disk.AfterPowerLoss(&random), workload.facts(), &found, Boot::kAnother);
      ++losses;
      ASSERT_TRUE(s.ok()) << s.ToString() << " after " << losses << " losses";
      uint64_t matches = UINT64_MAX;
      for (const uint64_t end : workload.ends()) {
        if (end >= synced && end <= workload.complete() && workload.Expected(end) == found) matches = end;
      }
      ASSERT_NE(matches, UINT64_MAX) << "synced: " << synced << ", found " << found.size();
      more += matches > synced ? 1 : 0;
    };
    workload.file()->SetSyncFunction([&] {
      syncing = true;
      const uint64_t covers = workload.acknowledged();
      for (int i = 0; i < 3 && !::testing::Test::HasFatalFailure(); ++i) check();
      if (disk_fails && workload.complete() > 0 && random() % 3 == 0) {
        disk.HalfSynced(&random);
        ++failures;
        syncing = false;
        return Status::IOError("the disk");
      }
      disk.Synced();
      synced = std::max(synced, covers);
      syncing = false;
      return Status::OK();
    });
    ASSERT_OK(workload.Arm());
    workload.file()->SetPersistObserver([&](const void*, size_t) {
      if (!syncing && random() % 10 == 0 && !::testing::Test::HasFatalFailure()) check();
    });
    for (int step = 0; step < 150 && !::testing::Test::HasFatalFailure(); ++step) {
      workload.Step();
      const Status s = random() % 6 == 0 ? workload.pool()->Sync() : Status::OK();
      if (!disk_fails) EXPECT_OK(s);
      if (!workload.pool()->status().ok() && random() % 3 == 0) workload.Resume();
    }
    workload.pool()->Freeze();
    const Status finished = workload.pool()->Finish();
    if (!disk_fails) EXPECT_OK(finished);
    if (!::testing::Test::HasFatalFailure()) check();
    workload.file()->SetPersistObserver(nullptr);
    workload.file()->SetSyncFunction(nullptr);
    if (::testing::Test::HasFatalFailure()) return;
  }
  printf("%llu losses of power, %llu of which left more than what was synced; %llu syncs failed\n",
         static_cast<unsigned long long>(losses), static_cast<unsigned long long>(more),
         static_cast<unsigned long long>(failures));
  EXPECT_GT(losses, 1000u);
  EXPECT_GT(more, 0u);
  EXPECT_EQ(failures > 50, disk_fails);
}

TEST(DurablePoolTest, ADiskThatLosesAnyPagesKeepsWhatWasSynced) { LosePower(false); }
TEST(DurablePoolTest, ADiskWhoseSyncsFailKeepsWhatWasSynced) { LosePower(true); }

// Of the superblock's two copies, one at most has changed since the last sync, from the making of the file on:
// whichever sectors of a page a disk had got to, the other is whole. A file that does not say anything yet is all
// zeros.
TEST(DurablePoolTest, OneSuperblockIsAlwaysOnTheDisk) {
  constexpr uint64_t kBytes = kSegmentsOffset + (uint64_t{1} << 16);
  const std::string path = NewPath();
  std::unique_ptr<PmemFile> made = OpenFile(path, kBytes);
  PmemFile* const file = made.get();
  std::string disk(kBytes, '\0');
  uint64_t syncs = 0;
  file->SetSyncFunction([&] {
    int changed = 0;
    for (int copy = 0; copy < 2; ++copy) {
      const size_t at = copy * kPoolPageBytes;
      changed += memcmp(disk.data() + at, file->base() + at, kPoolPageBytes) != 0 ? 1 : 0;
    }
    EXPECT_LE(changed, 1);
    Superblock superblock;
    if (ReadSuperblock(*file, &superblock).ok() && ++syncs == 1) {
      EXPECT_EQ(
          disk.compare(kSegmentsOffset, std::string::npos, file->base() + kSegmentsOffset, kBytes - kSegmentsOffset),
          0);
    }
    memcpy(disk.data(), file->base(), kBytes);
    return Status::OK();
  });
  std::unique_ptr<DurablePool> pool;
  ASSERT_OK(DurablePool::Start(std::move(made), 0, &pool));
  EXPECT_GE(syncs, 2u);
  ASSERT_OK(pool->Arm("a database", {"/a/directory", 1, 2}, 7, [] { return uint64_t{0}; }));
  pool->Freeze();
  ASSERT_OK(pool->Finish());
  EXPECT_GE(syncs, 6u);
  pool.reset();
  unlink(path.c_str());
}

// A pool that grows syncs nothing: a copy must be whole whichever of its sectors are old.
TEST(DurablePoolTest, ASuperblockOfTheSameDirectoryChangesInOneSector) {
  Superblock superblock;
  superblock.directory.path = std::string(kMaxDirectoryBytes, 'd');
  superblock.database = std::string(kMaxDatabaseIdBytes, 'i');
  char before[kSuperblockBytes];
  EncodeSuperblock(superblock, before);
  superblock.edition += 7;
  superblock.file_bytes = UINT64_MAX;
  superblock.phase = PoolPhase::kRecovering;
  char after[kSuperblockBytes];
  EncodeSuperblock(superblock, after);
  EXPECT_EQ(memcmp(before + kSectorBytes, after + kSectorBytes, kSuperblockBytes - kSectorBytes), 0);
  Superblock decoded;
  EXPECT_TRUE(DecodeSuperblock(after, &decoded));
  after[kSuperblockBytes - kMaxDirectoryBytes] ^= 1;
  EXPECT_FALSE(DecodeSuperblock(after, &decoded));
}

TEST(DurablePoolTest, AFailedSyncStaysUntilResume) {
  Workload workload(1);
  ASSERT_OK(workload.Arm());
  for (int step = 0; step < 20; ++step) workload.Step();
  bool fails = true;
  workload.file()->SetSyncFunction([&] { return fails ? Status::IOError("the disk") : Status::OK(); });
  EXPECT_TRUE(workload.pool()->Sync().IsIOError());
  fails = false;
  EXPECT_TRUE(workload.pool()->Sync().IsIOError());
  EXPECT_TRUE(workload.pool()->status().IsIOError());
  EXPECT_TRUE(workload.pool()->CheckRoom(10).IsIOError());
  fails = true;
  EXPECT_TRUE(workload.pool()->Resume().IsIOError());
  EXPECT_TRUE(workload.pool()->status().IsIOError());
  fails = false;
  EXPECT_OK(workload.pool()->Resume());
  EXPECT_OK(workload.pool()->status());
  EXPECT_OK(workload.pool()->Sync());
  workload.file()->SetSyncFunction(nullptr);
}

// A disk that fails while a database is opened or closed is an error, and nobody waits for ever.
TEST(DurablePoolTest, AFailedSyncWhileArmingOrFinishing) {
  {
    Workload workload(1);
    int calls = 0;
    // The superblock's copies are synced; the sync behind them fails.
    workload.file()->SetSyncFunction([&] { return ++calls > 2 ? Status::IOError("the disk") : Status::OK(); });
    EXPECT_TRUE(workload.Arm().IsIOError()) << calls;
    workload.file()->SetSyncFunction(nullptr);
  }
  Workload workload(1);
  ASSERT_OK(workload.Arm());
  for (int step = 0; step < 20; ++step) workload.Step();
  workload.pool()->Freeze();
  workload.file()->SetSyncFunction([] { return Status::IOError("the disk"); });
  EXPECT_TRUE(workload.pool()->Finish().IsIOError());
  workload.file()->SetSyncFunction(nullptr);
}

// The proof that SurvivesALossOfPowerAtAnyMoment can fail: entries that are persisted after the tail that covers them.
TEST(DurablePoolTest, AMediumThatForgetsEntriesIsSeen) {
  std::mt19937_64 random(Seed());
  Workload workload(random());
  Medium medium(*workload.file(), NewPath());
  int wrong = 0;
  workload.file()->SetPersistObserver([&](const void* address, size_t length) {
    const size_t at = (static_cast<const char*>(address) - workload.file()->base() - kSegmentsOffset) % 8192;
    const bool entry = address > workload.file()->base() + kSegmentsOffset && at >= kSegmentHeaderBytes;
    if (!entry) medium.Persisted(address, length);
  });
  ASSERT_OK(workload.Arm());
  for (int step = 0; step < 50; ++step) {
    workload.Step();
    std::map<uint64_t, std::string> found;
    const Status s = Recovered(medium.AfterPowerLoss(&random), workload.facts(), &found);
    wrong += !s.ok() || found != workload.Expected(workload.acknowledged()) ? 1 : 0;
  }
  workload.file()->SetPersistObserver(nullptr);
  EXPECT_GT(wrong, 10);
}

TEST(DurablePoolTest, DamageIsSeenOrHarmless) {
  std::mt19937_64 random(Seed());
  Workload workload(random());
  ASSERT_OK(workload.Arm());
  // Not when it has just been flushed: there is hardly anything to damage then.
  for (int step = 0; step < 60 || workload.Expected(workload.acknowledged()).size() < 20; ++step) workload.Step();
  const auto expected = workload.Expected(workload.acknowledged());
  char* const base = workload.file()->base();
  int seen = 0;
  int harmless = 0;
  const auto check = [&](const std::string& what) {
    std::map<uint64_t, std::string> found;
    const Status s = Recovered(*workload.file(), workload.facts(), &found);
    if (s.ok()) {
      ASSERT_EQ(found, expected) << what;
      ++harmless;
    } else {
      ASSERT_TRUE(s.IsCorruption()) << s.ToString();
      ASSERT_TRUE(found.empty());
      ++seen;
    }
  };
  // One bit of every 8th byte, then each word of zeros or ones, each line, each page.
  for (uint64_t at = 0; at < workload.file()->bytes() && !HasFatalFailure(); at += 1 + random() % 8) {
    const auto bit = static_cast<char>(1 << random() % 8);
    base[at] ^= bit;
    check("bit at " + std::to_string(at));
    base[at] ^= bit;
  }
  for (const size_t size : {size_t{8}, size_t{64}, size_t{4096}}) {
    for (uint64_t at = 0; at < workload.file()->bytes() && !HasFatalFailure(); at += size * (size == 8 ? 5 : 1)) {
      const std::string before(base + at, size);
      memset(base + at, random() % 2 == 0 ? 0 : 0xff, size);
      if (before != std::string(base + at, size)) check(std::to_string(size) + " bytes at " + std::to_string(at));
      memcpy(base + at, before.data(), size);
    }
  }
  printf("damage seen %d times, harmless %d times\n", seen, harmless);
  EXPECT_GT(seen, 100);
}

// A sync that has returned is not taken for one that had not, and the one before it for the last: what it covered is
// there, or an error says that it is damaged.
TEST(DurablePoolTest, DamageGivesUpNothingThatWasSynced) {
  std::mt19937_64 random(Seed());
  int refused = 0;
  int given_up = 0;
  for (int run = 0; run < 3; ++run) {
    Workload workload(random());
    ASSERT_OK(workload.Arm());
    for (int sync = 0; sync < 3; ++sync) {
      for (int step = 0; step < 15; ++step) workload.Step();
      ASSERT_OK(workload.pool()->Sync());
    }
    const uint64_t synced = workload.acknowledged();
    for (int step = 0; step < 6; ++step) workload.Step();
    char* const base = workload.file()->base();
    const auto check = [&](uint64_t at, Boot boot) {
      std::map<uint64_t, std::string> found;
      const Status s = Recovered(*workload.file(), workload.facts(), &found, boot);
      if (!s.ok()) {
        ASSERT_TRUE(s.IsCorruption()) << s.ToString();
        ASSERT_TRUE(found.empty());
        ++refused;
        return;
      }
      if (found == workload.Expected(workload.complete())) return;
      ++given_up;
      const bool enough = std::any_of(workload.ends().lower_bound(synced), workload.ends().end(),
                                      [&](uint64_t end) { return workload.Expected(end) == found; });
      ASSERT_TRUE(enough) << "byte " << at << ", " << found.size() << " entries of "
                          << workload.Expected(workload.complete()).size();
    };
    for (uint64_t at = 0; at < workload.file()->bytes() && !HasFatalFailure(); at += 1 + random() % 8) {
      const auto bit = static_cast<char>(1 << random() % 8);
      base[at] ^= bit;
      check(at, random() % 2 == 0 ? Boot::kSame : Boot::kAnother);
      base[at] ^= bit;
    }
    if (HasFatalFailure()) return;
  }
  printf("%d refused, %d times what was not synced was given up\n", refused, given_up);
  EXPECT_GT(refused, 100);
  EXPECT_GT(given_up, 100);
}

TEST(DurablePoolTest, TruncationIsSeen) {
  std::mt19937_64 random(Seed());
  Workload workload(random());
  ASSERT_OK(workload.Arm());
  for (int step = 0; step < 30; ++step) workload.Step();
  const std::string whole(workload.file()->base(), workload.file()->bytes());
  const std::string path = NewPath();
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{8192}, uint64_t{12288}, uint64_t{16384}, uint64_t{65536},
                               whole.size() - 4096, whole.size() - 1}) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, bytes);
    std::map<uint64_t, std::string> found;
    const Status s = Recovered(*OpenFile(path, 0), workload.facts(), &found);
    EXPECT_TRUE(s.IsCorruption()) << bytes << ": " << s.ToString();
  }
  unlink(path.c_str());
}

TEST(PmemFileTest, RefusesWhatIsNotOnPersistentMemory) {
  PmemFileOptions options;
  options.path = NewPath();
  options.bytes = 65536;
  options.require_persistent_memory = true;
  std::unique_ptr<PmemFile> file;
  const Status s = PmemFile::Open(options, &file);
  if (s.ok()) GTEST_SKIP() << "the machine has persistent memory at " << options.path;
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  EXPECT_NE(access(options.path.c_str(), F_OK), 0) << "it must not stay";
}

TEST(PmemFileTest, SecondMappingIsTheSameBytes) {
  const std::string path = NewPath();
  auto file = OpenFile(path, 65536);
  EXPECT_NE(file->Report().find(path), std::string::npos);
  ASSERT_OK(file->MapAt(file->base() + 8192, 4096, 4096));
  memcpy(file->base() + 4096, "hello", 6);
  EXPECT_STREQ(file->base() + 8192, "hello");
  EXPECT_TRUE(file->Sync().ok());
  unlink(path.c_str());
}

}  // namespace
}  // namespace cairn
