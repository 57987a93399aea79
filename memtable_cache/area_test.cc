// The area that writers work in and segments that are sealed by copy, against a folder that answers as resctrl does, a
// platform that pretends to have persistent memory, and a model of a cache.

#include "memtable_cache/area_backing.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cairn/memtable.h"
#include "db/dbformat.h"
#include "gtest/gtest.h"
#include "memtable_cache/durable_backing.h"
#include "memtable_cache/recovery.h"
#include "memtable_cache/segment.h"
#include "memtable_cache/segment_pool.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/fake_resctrl.h"
#include "test/testutil/pretended_pmem.h"
#include "test/testutil/test_seed.h"
#include "util/coding.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::FakeKernel;
using test::Machine;

constexpr size_t kSegment = 1 << 20;
constexpr size_t kArea = 4 << 20;

struct Held {
  char* base = nullptr;
  size_t bytes = 0;
};

Held Claim(SegmentPool* pool, bool one_entry = false) {
  Held held;
  SegmentOwner owner;
  owner.one_entry = one_entry;
  EXPECT_OK(pool->Claim(100, kSegment, owner, &held.base, &held.bytes));
  return held;
}

void Fill(const Held& held, char with) {
  memset(held.base, with, held.bytes);
  reinterpret_cast<std::atomic<uint64_t>*>(held.base)->store(
      SegmentWord{1, SegmentState::kSealed, held.bytes}.Encode());
}

bool Holds(const Held& held, char with) {
  return std::all_of(held.base + 64, held.base + held.bytes, [&](char c) { return c == with; });
}

// Where the kernel says that an address lies: a file and an offset in it, or itself.
class Places {
 public:
  Places() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      uint64_t begin = 0;
      uint64_t end = 0;
      uint64_t offset = 0;
      uint64_t inode = 0;
      if (sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64, &begin, &end, &offset, &inode) ==
              4 &&
          inode != 0) {
        files_[end] = {begin, offset, inode};
      }
    }
  }
  // A number of the page's own; false: it is in no file.
  bool InFile(const char* address, uint64_t* place) const {
    const auto at = reinterpret_cast<uint64_t>(address);
    const auto found = files_.upper_bound(at);
    if (found == files_.end() || found->second.begin > at) return false;
    *place = found->second.inode << 40 | (found->second.offset + at - found->second.begin);
    return true;
  }
  uint64_t Of(const char* address) const {
    uint64_t place = 0;
    return InFile(address, &place) ? place : reinterpret_cast<uint64_t>(address);
  }

 private:
  struct File {
    uint64_t begin, offset, inode;
  };
  std::map<uint64_t, File> files_;
};

TEST(AreaTest, SealedSegmentsLeaveTheArea) {
  SegmentPool pool(NewAreaBacking(nullptr, kArea), 0);
  std::vector<Held> sealed;
  uint64_t first = 0;
  for (int i = 0; i < 20; ++i) {
    const Held held = Claim(&pool);
    Fill(held, static_cast<char>('a' + i));
    // All in the same pages.
    uint64_t place = 0;
    ASSERT_TRUE(Places().InFile(held.base, &place));
    if (i == 0) first = place;
    ASSERT_EQ(place, first);
    ASSERT_TRUE(pool.Seal(held.base, held.bytes, held.bytes));
    ASSERT_FALSE(Places().InFile(held.base, &place));
    sealed.push_back(held);
    for (int j = 0; j <= i; ++j) ASSERT_TRUE(Holds(sealed[j], static_cast<char>('a' + j))) << i << " " << j;
  }
  EXPECT_EQ(pool.GetStats().copied_bytes, 20 * kSegment);
  EXPECT_EQ(pool.GetStats().written_bytes, 20 * kSegment);
  for (const Held& held : sealed) pool.Release(held.base, held.bytes, true);
  EXPECT_EQ(pool.GetStats().copied_bytes, 0u);
}

TEST(AreaTest, WhatFindsNoRoomInTheAreaLiesBesideIt) {
  SegmentPool pool(NewAreaBacking(nullptr, kArea), 0);
  const Held large = Claim(&pool, true);
  std::vector<Held> held(6);
  for (Held& segment : held) segment = Claim(&pool);
  const auto in_area = [](const Held& segment) {
    uint64_t place = 0;
    return Places().InFile(segment.base, &place);
  };
  EXPECT_FALSE(in_area(large));
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(in_area(held[i]), i < 4) << i;
    Fill(held[i], static_cast<char>('a' + i));
  }
  EXPECT_FALSE(pool.Seal(held[5].base, kSegment, kSegment));
  EXPECT_TRUE(pool.Seal(held[1].base, kSegment, kSegment));
  pool.Release(held[0].base, kSegment, false);
  const Held again = Claim(&pool);
  EXPECT_TRUE(in_area(again));
  for (size_t i = 1; i < held.size(); ++i) EXPECT_TRUE(Holds(held[i], static_cast<char>('a' + i))) << i;
  for (size_t i = 1; i < held.size(); ++i) pool.Release(held[i].base, kSegment, i == 1);
  for (const Held& last : {again, large}) pool.Release(last.base, last.bytes, false);
  EXPECT_EQ(pool.GetStats().claimed_bytes, 0u);
}

#ifdef CAIRN_HAVE_PMEM

using test::PowerLoss;
using test::PretendedPmem;

std::string NewPath() {
  static int count = 0;
  return "/dev/shm/cairn_area_test." + std::to_string(getpid()) + "." + std::to_string(count++);
}

Status OpenFile(const std::string& path, std::unique_ptr<PmemFile>* file, bool with_locked_cache = true) {
  PmemFileOptions options;
  options.path = path;
  options.bytes = Backing::kRegionBytes;
  options.require_persistent_cache = with_locked_cache;
  return PmemFile::Open(options, file);
}

TEST(DurableAreaTest, IsRefusedWhereTheCacheIsLostWithThePower) {
  const std::string path = NewPath();
  std::unique_ptr<PmemFile> file;
  Status s = OpenFile(path, &file);
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  EXPECT_NE(s.ToString().find("not on persistent memory"), std::string::npos) << s.ToString();
  const PretendedPmem platform(PowerLoss::kLosesTheCache);
  s = OpenFile(path, &file);
  EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
  EXPECT_NE(s.ToString().find("no eADR"), std::string::npos) << s.ToString();
  EXPECT_NE(s.ToString().find("locked_cache"), std::string::npos) << s.ToString();
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "it must not stay";
}

TEST(DurableAreaTest, ADeviceLendsWholeUnits) {
  const PretendedPmem platform(PowerLoss::kKeepsTheCache);
  const std::string path = NewPath();
  test::Put(path, std::string(12 * Backing::kRegionBytes, '\0'));
  PmemFileOptions options;
  options.path = path;
  options.keep_size = true;
  std::unique_ptr<PmemFile> file;
  ASSERT_OK(PmemFile::Open(options, &file));
  std::unique_ptr<DurablePool> made;
  ASSERT_OK(DurablePool::Start(std::move(file), 0, &made));
  const std::shared_ptr<DurablePool> durable = std::move(made);
  {
    SegmentPool pool(NewDurableBacking(durable, 0, 2 * Backing::kRegionBytes), 0);
    for (const size_t bytes : {Backing::kRegionBytes, size_t{64} << 10}) {
      Held held;
      ASSERT_OK(pool.Claim(4096, bytes, SegmentOwner{1, 0}, &held.base, &held.bytes));
      ASSERT_EQ(held.bytes, bytes);
      held.base[5000] = 'x';
      const bool copied = pool.Seal(held.base, 8192, held.bytes);
      EXPECT_EQ(copied, bytes == Backing::kRegionBytes);
      EXPECT_EQ(held.base[5000], 'x');
      pool.Release(held.base, held.bytes, copied);
    }
    durable->Freeze();
  }
  unlink(path.c_str());
}

struct Facts : DatabaseFacts {
  bool HasColumnFamily(uint32_t) const override { return true; }
  bool TableEndsWith(uint32_t, uint64_t) const override { return false; }
};

// Memtables of one column family in a pool file, with an area smaller than what is open at times.
class Database {
 public:
  static constexpr size_t kSegmentBytes = 32 << 10;

  explicit Database(uint64_t seed) : random_(seed), kernel_(Machine()), path_(NewPath()) {
    std::unique_ptr<PmemFile> file;
    EXPECT_OK(OpenFile(path_, &file));
    EXPECT_OK(kernel_.Write("schemata", "L3:0=ff\n"));
    EXPECT_OK(DurablePool::Start(std::move(file), Backing::kRegionBytes, &made_));
    durable_ = std::move(made_);
    ResctrlOptions wanted;
    wanted.bytes = Backing::kRegionBytes;
    auto cache = test::Acquire(&kernel_, wanted);
    EXPECT_GT(cache->bytes(), 0u) << cache->report();
    pool_ = std::make_unique<SegmentPool>(NewDurableBacking(durable_, 0, Backing::kRegionBytes, std::move(cache)), 0);
    EXPECT_OK(durable_->Arm("a database", {"/a/directory", 1, 2}, 7, [this] { return written_; }));
  }
  ~Database() {
    for (auto& memtable : memtables_) Release(&memtable);
    durable_->Freeze();
    pool_.reset();
    durable_.reset();
    unlink(path_.c_str());
  }

  DurablePool* durable() { return durable_.get(); }
  SegmentPool* pool() { return pool_.get(); }
  const std::string& path() const { return path_; }
  uint64_t written() const { return written_; }

  void Step() {
    if (memtables_.empty() || random_() % 200 == 0) memtables_.emplace_back();
    Write(&memtables_.back());
    if (memtables_.size() > 3) Flush();
  }

  // What must be recovered if everything up to `last` counts: the smallest is that of the oldest memtable.
  std::map<uint64_t, std::string> Expected(uint64_t last) const {
    return std::map<uint64_t, std::string>(alive_.begin(), alive_.upper_bound(last));
  }

 private:
  struct Part : Held {
    bool copied = false;
    bool sealed = false;
  };
  struct Memtable {
    uint64_t id = 0;
    std::vector<Part> parts;
    uint64_t last = 0;
  };

  void Write(Memtable* memtable) {
    const uint64_t sequence = written_ + 1;
    const std::string value(random_() % 3000, static_cast<char>('a' + sequence % 26));
    std::string entry;
    rocksdb::PutVarint32(&entry, 11);
    entry += "key";
    rocksdb::PutFixed64(&entry, sequence << 8 | rocksdb::kTypeValue);
    rocksdb::PutLengthPrefixedSlice(&entry, value);
    Part* part = nullptr;
    for (Part& open : memtable->parts) part = open.sealed || random_() % 2 == 0 ? part : &open;
    if (part != nullptr && TailOf(WordOf(*part)) + EntryBytes(entry.size()) > part->bytes) {
      const uint64_t word = WordOf(*part);
      DurablePool::TailWord(part->base)->store(PackTail(EntriesOf(word), kSealedState, TailOf(word)));
      part->sealed = true;
      part->copied = pool_->Seal(part->base, TailOf(word), part->bytes);
      part = nullptr;
    }
    if (part == nullptr) {
      if (memtable->id == 0) memtable->id = pool_->NextMemTable();
      memtable->parts.emplace_back();
      part = &memtable->parts.back();
      EXPECT_OK(pool_->Claim(4096, kSegmentBytes, SegmentOwner{memtable->id, 0}, &part->base, &part->bytes));
    }
    const uint64_t word = WordOf(*part);
    char* const at = part->base + TailOf(word) + kEntryHeaderBytes;
    std::copy(entry.begin(), entry.end(), at);
    pool_->backing()->FinishEntry(part->base, at, static_cast<uint32_t>(entry.size()));
    DurablePool::TailWord(part->base)->store(PackTail(EntriesOf(word) + 1, 1, TailOf(word) + EntryBytes(entry.size())));
    pool_->backing()->Publish(part->base);
    alive_[sequence] = value;
    memtable->last = sequence;
    written_ = sequence;
    durable_->AcknowledgeUpTo(sequence);
  }

  void Flush() {
    Memtable oldest = std::move(memtables_.front());
    memtables_.erase(memtables_.begin());
    alive_.erase(alive_.begin(), alive_.upper_bound(oldest.last));
    std::vector<char*> bases;
    for (const Part& part : oldest.parts) bases.push_back(part.base);
    durable_->MarkFlushed(bases);
    Release(&oldest);
  }
  void Release(Memtable* memtable) {
    for (const Part& part : memtable->parts) pool_->Release(part.base, part.bytes, part.copied);
  }
  static uint64_t WordOf(const Held& held) { return DurablePool::TailWord(held.base)->load(); }

  std::mt19937_64 random_;
  FakeKernel kernel_;
  const std::string path_;
  std::unique_ptr<DurablePool> made_;
  std::shared_ptr<DurablePool> durable_;
  std::unique_ptr<SegmentPool> pool_;
  std::vector<Memtable> memtables_;
  std::map<uint64_t, std::string> alive_;
  uint64_t written_ = 0;
};

Status Recovered(const std::string& image, std::map<uint64_t, std::string>* found) {
  const std::string path = NewPath();
  fs::copy_file(image, path);
  std::unique_ptr<PmemFile> file;
  Status s = OpenFile(path, &file);
  Superblock superblock;
  std::vector<PoolEntry> entries;
  PoolCounts counts;
  if (s.ok()) s = ReadSuperblock(*file, &superblock);
  if (s.ok()) s = ReadPool(*file, superblock, Facts(), &entries, &counts);
  found->clear();
  for (const PoolEntry& entry : entries) (*found)[entry.sequence] = entry.value.ToString();
  unlink(path.c_str());
  return s;
}

// With eADR a loss of power keeps what has been stored; whatever a seal by copy is at then, each entry is there once.
// Nothing leaves the cache before: without eADR, a machine that works so has lost what it acknowledged.
TEST(DurableAreaTest, ALossOfPowerKeepsWhatIsInTheCacheWithEadrOnly) {
  const PretendedPmem platform(PowerLoss::kKeepsTheCache);
  std::mt19937_64 random(Seed());
  uint64_t losses = 0;
  uint64_t in_seals = 0;
  for (int run = 0; run < 3; ++run) {
    Database database(random());
    const std::string before = NewPath();
    fs::copy_file(database.path(), before);
    const auto check = [&](bool loses) {
      std::map<uint64_t, std::string> found;
      const Status s = Recovered(loses ? before : database.path(), &found);
      if (loses) {
        EXPECT_TRUE(!s.ok() || found.size() < database.Expected(database.written()).size());
        return;
      }
      ASSERT_OK(s);
      ++losses;
      const uint64_t last = found.empty() ? 0 : found.rbegin()->first;
      // The entry that is being acknowledged may count already.
      ASSERT_GE(last, database.written() - std::min<uint64_t>(database.written(), 1));
      ASSERT_TRUE(found == database.Expected(last)) << found.size() << " of " << database.Expected(last).size();
    };
    database.durable()->file()->SetPersistObserver([&](const void*, size_t length) {
      // What a seal or a claim stores are headers and words; of those that entries store, few are looked at.
      if (HasFatalFailure() || random() % (length == kHeaderLineBytes ? 8 : 400) != 0) return;
      in_seals += length == kHeaderLineBytes ? 1 : 0;
      check(false);
    });
    const int flushes = PretendedPmem::flushes();
    for (int step = 0; step < 1500 && !HasFatalFailure(); ++step) database.Step();
    database.durable()->file()->SetPersistObserver(nullptr);
    if (HasFatalFailure()) return;
    check(false);
    check(true);
    unlink(before.c_str());
    EXPECT_GT(database.pool()->GetStats().copies, 10u);
    // But of segments that found no room in the area.
    EXPECT_LE(PretendedPmem::flushes() - flushes, 30);
    EXPECT_NE(database.pool()->backing()->Report().find("sealed by copy"), std::string::npos);
  }
  printf("%" PRIu64 " losses of power, %" PRIu64 " at a header's rewriting\n", losses, in_seals);
  EXPECT_GT(in_seals, 50u);
}

#endif

// A last-level cache of 8 MiB, 16 ways, that replaces the line used longest ago. Of its ways, some may be the writer's.
class CacheModel {
 public:
  static constexpr uint64_t kLine = 64;
  static constexpr int kWays = 16;
  static constexpr uint64_t kSets = (8 << 20) / kLine / kWays;

  explicit CacheModel(int writer_ways) : writer_ways_(writer_ways) {}

  // A store, of the writer or of somebody else. Whether it missed.
  bool Store(uint64_t address, bool of_writer) {
    const uint64_t line = address / kLine;
    auto& set = sets_[line % kSets];
    // All may hit everywhere, but fill their own ways only.
    const int begin = of_writer || writer_ways_ == 0 ? 0 : writer_ways_;
    const int end = of_writer && writer_ways_ != 0 ? writer_ways_ : kWays;
    Line* oldest = &set[static_cast<size_t>(begin)];
    for (int way = 0; way < kWays; ++way) {
      Line& candidate = set[static_cast<size_t>(way)];
      if (candidate.used != 0 && candidate.line == line) {
        candidate.used = ++clock_;
        return false;
      }
      if (way >= begin && way < end && candidate.used < oldest->used) oldest = &candidate;
    }
    if (oldest->used != 0 && oldest->of_writer) ++writer_evictions_;
    *oldest = {line, ++clock_, of_writer};
    return true;
  }

  uint64_t writer_evictions() const { return writer_evictions_; }  // all of them dirty

 private:
  struct Line {
    uint64_t line = 0;
    uint64_t used = 0;
    bool of_writer = false;
  };
  const int writer_ways_;
  std::vector<std::array<Line, kWays>> sets_ = std::vector<std::array<Line, kWays>>(kSets);
  uint64_t clock_ = 0;
  uint64_t writer_evictions_ = 0;
};

struct Costs {
  double misses = 0;   // of the writer, per put
  double written = 0;  // to memory, bytes per byte put
};

// Puts 16-byte keys and 100-byte values into memtables of 16 MiB, of which two are held, while others store
// `noise` lines per put, each once. The pool is the production's; the cache is the model.
Costs CostsOf(std::unique_ptr<Backing> backing, int writer_ways, uint64_t noise) {
  constexpr uint64_t kPuts = 600000;
  constexpr size_t kEntry = 4 + 1 + 16 + 8 + 1 + 100;
  constexpr size_t kMemtable = 16;  // segments
  SegmentPool pool(std::move(backing), 64 << 20);
  CacheModel cache(writer_ways);
  struct Full : Held {
    bool copied;
  };
  std::vector<Full> full;
  Held open = Claim(&pool);
  uint64_t place = Places().Of(open.base);
  size_t tail = 64;
  uint64_t misses = 0;
  uint64_t other = uint64_t{1} << 62;
  uint64_t evictions = 0;
  uint64_t copied = 0;
  for (uint64_t put = 0; put < kPuts; ++put) {
    if (put == kPuts / 2) {
      // Warm by now.
      misses = 0;
      evictions = cache.writer_evictions();
      copied = pool.GetStats().written_bytes;
    }
    if (tail + kEntry > open.bytes) {
      reinterpret_cast<std::atomic<uint64_t>*>(open.base)->store(SegmentWord{1, SegmentState::kSealed, tail}.Encode());
      // The copy's stores pass the cache by.
      full.push_back({{open}, pool.Seal(open.base, tail, open.bytes)});
      if (full.size() == 2 * kMemtable) {
        for (size_t i = 0; i < kMemtable; ++i) pool.Release(full[i].base, full[i].bytes, full[i].copied);
        full.erase(full.begin(), full.begin() + kMemtable);
      }
      open = Claim(&pool);
      place = Places().Of(open.base);
      tail = 64;
    }
    misses += cache.Store(place, true) ? 1 : 0;  // the tail word
    for (uint64_t at = place + tail; at < place + tail + kEntry; at += CacheModel::kLine) {
      misses += cache.Store(at, true) ? 1 : 0;
    }
    misses += cache.Store(place + tail + kEntry - 1, true) ? 1 : 0;
    tail += kEntry;
    for (uint64_t i = 0; i < noise; ++i) cache.Store(other += CacheModel::kLine, false);
  }
  const double puts = static_cast<double>(kPuts) / 2;
  const auto written = static_cast<double>((cache.writer_evictions() - evictions) * CacheModel::kLine +
                                           pool.GetStats().written_bytes - copied);
  pool.Release(open.base, open.bytes, false);
  for (const Full& held : full) pool.Release(held.base, held.bytes, held.copied);
  return {static_cast<double>(misses) / puts, written / (puts * 116)};
}

TEST(CacheModelTest, WritersInAnAreaMissOnlyWhereOthersTakeItsLines) {
  printf(
      "lines of others per put | in place: misses per put, bytes written per byte | by copy | by copy, 4 of 16 ways\n");
  for (const uint64_t noise : {0, 4, 16, 64}) {
    const Costs in_place = CostsOf(NewPlainBacking(), 0, noise);
    const Costs copied = CostsOf(NewAreaBacking(nullptr, 2 << 20), 0, noise);
    const Costs locked = CostsOf(NewAreaBacking(nullptr, 2 << 20), 4, noise);
    printf("%3" PRIu64 " | %.3f %.2f | %.3f %.2f | %.3f %.2f\n", noise, in_place.misses, in_place.written,
           copied.misses, copied.written, locked.misses, locked.written);
    EXPECT_GT(in_place.misses, 1.9);
    EXPECT_EQ(locked.misses, 0);
    EXPECT_NEAR(locked.written, 130.0 / 116, 0.01);
    if (noise == 0) {
      EXPECT_EQ(copied.misses, 0);
    }
    if (noise == 64) {
      EXPECT_GT(copied.misses, 1.9);
    }
    EXPECT_LE(copied.misses, in_place.misses);
  }
}

// An area is a part of the pool file; a factory without one is refused nothing.
TEST(AreaTest, APoolFileHasRoomForItsArea) {
  SubMemTableOptions options;
  options.pool_file_limit = 2 * Backing::kSpareBytes;
  options.copy_on_seal = true;
  EXPECT_TRUE(ValidateSubMemTableOptions(options).ok());
  options.durable = true;
  EXPECT_TRUE(ValidateSubMemTableOptions(options).ok());
  options.locked_cache = 4 << 20;
  EXPECT_TRUE(ValidateSubMemTableOptions(options).IsInvalidArgument());
  options.pool_file_limit *= 2;
  EXPECT_TRUE(ValidateSubMemTableOptions(options).ok());
}

}  // namespace
}  // namespace cairn
