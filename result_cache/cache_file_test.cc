// A result cache in a file: what is there after the process ended, was killed, or lost what was not synced.

#include "result_cache/cache_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cairn/cache.h"
#include "gtest/gtest.h"
#include "result_cache/file_binding.h"
#include "result_cache/get_or_begin.h"
#include "test/testutil/file_system_type.h"
#include "test/testutil/golden_file.h"
#include "test/testutil/random.h"
#include "test/testutil/test_seed.h"
#include "util/format_version.h"
#include "util/short_hash.h"

// The disk, as the library sees it.
namespace {
std::atomic<bool> disk_is_full{false};
}  // namespace
// Blocks that a file has stay its.
extern "C" int posix_fallocate(int fd, off_t offset, off_t length) {
  if (disk_is_full) {
    const off_t hole = lseek(fd, offset, SEEK_HOLE);
    if (hole < 0 || hole < offset + length) return ENOSPC;
  }
  return syscall(SYS_fallocate, fd, 0, offset, length) == 0 ? 0 : errno;
}

namespace cairn {
namespace {

using Answer = ResultCache::Answer;
using test::Random;

class CacheFileTest : public ::testing::Test {
 protected:
  ResultCacheOptions Options(size_t capacity = 1 << 20) const {
    ResultCacheOptions options;
    options.capacity = capacity;
    options.path = path_;
    return options;
  }
  static std::unique_ptr<ResultCache> Open(const ResultCacheOptions& options) {
    std::unique_ptr<ResultCache> cache;
    const IndexStatus s = ResultCache::Create(options, &cache);
    EXPECT_TRUE(s.ok()) << s.message();
    return cache;
  }
  static std::string KeyOf(uint64_t number) { return "key" + std::to_string(number); }
  static std::string ValueOf(uint64_t number, uint64_t version) {
    return std::to_string(version) + ":" + std::string(number * 7 % 300, 'v');
  }

  // Keys of all lengths that are kept in ways of their own, and values that are sometimes too large for the file.
  static std::string AnyKeyOf(uint64_t number) {
    size_t padding = 0;
    if (number % 40 == 3) padding = 5 << 10;
    if (number == 8) padding = 70000;
    if (number == 9) padding = 1 << 20;
    return "key" + std::string(padding, 'k') + std::to_string(number);
  }
  static std::string AnyValueOf(uint64_t number, uint64_t version) {
    const size_t padding = number % 160 == 5 && version / 2 % 2 == 1 ? 40000 : 0;
    return ValueOf(number, version) + std::string(padding, 'w');
  }

  // Changes bytes of the file while nobody has it.
  void Overwrite(uint64_t offset, const void* bytes, size_t count) const {
    const int fd = open(path_.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(pwrite(fd, bytes, count, static_cast<off_t>(offset)), static_cast<ssize_t>(count));
    close(fd);
  }
  std::string Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static constexpr uint64_t kBootAt = 64;
  // As if the system had been started anew since.
  void StartSystemAnew() const {
    const uint64_t other = 12345;
    Overwrite(kBootAt, &other, sizeof(other));
  }

  ~CacheFileTest() override { unlink(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "cairn_cache_file." + std::to_string(getpid());
};

TEST_F(CacheFileTest, WhoOpensItNextFindsWhatWasThere) {
  constexpr uint64_t kKeys = 3000;
  std::unique_ptr<ResultCache> cache = Open(Options());
  for (uint64_t i = 0; i < kKeys; ++i) EXPECT_TRUE(cache->Put(KeyOf(i), ValueOf(i, 1), i % 3));
  for (uint64_t i = 0; i < kKeys; i += 5) EXPECT_TRUE(cache->Put(KeyOf(i), ValueOf(i + 1, 2), i % 3));
  for (uint64_t i = 0; i < kKeys; i += 7) EXPECT_TRUE(cache->PutAbsent(KeyOf(i), i % 3));
  for (uint64_t i = 0; i < kKeys; i += 11) EXPECT_TRUE(cache->Erase(KeyOf(i), i % 3));
  for (const bool boots : {false, true, false}) {
    const uint64_t items = cache->GetStatistics().items;
    cache.reset();
    if (boots) StartSystemAnew();
    cache = Open(Options());
    EXPECT_EQ(cache->GetStatistics().items, items);
    EXPECT_EQ(cache->GetStatistics().recovered, items);
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value;
      const Answer answer = cache->Get(KeyOf(i), &value, i % 3);
      const Answer expected = i % 11 == 0 ? Answer::kMiss : i % 7 == 0 ? Answer::kAbsent : Answer::kValue;
      ASSERT_EQ(answer, expected) << i;
      if (answer == Answer::kValue) {
        ASSERT_EQ(value, i % 5 == 0 ? ValueOf(i + 1, 2) : ValueOf(i, 1));
      }
      ASSERT_EQ(cache->Get(KeyOf(i), &value, 3), Answer::kMiss) << "another space";
    }
  }
}

TEST_F(CacheFileTest, WhatIsFullComesBackAndGoesOn) {
  std::unique_ptr<ResultCache> cache = Open(Options());
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 20000; ++i) cache->Put(KeyOf(i), ValueOf(i, round));
    const ResultCache::Statistics before = cache->GetStatistics();
    EXPECT_LE(before.memory, before.capacity);
    cache.reset();
    cache = Open(Options());
    const ResultCache::Statistics after = cache->GetStatistics();
    EXPECT_LE(after.memory, after.capacity);
    EXPECT_GT(after.items, before.items - before.items / 8) << "what the index has no room for is dropped";
    for (uint64_t i = 0; i < 20000; ++i) {
      std::string value;
      if (cache->Get(KeyOf(i), &value) == Answer::kValue) {
        ASSERT_EQ(value, ValueOf(i, round));
      }
    }
  }
}

// A file that was copied has holes where the original has zeros. On a full file system, a store into one would end the
// process.
TEST_F(CacheFileTest, OnAFullDiskNothingIsStoredIntoHoles) {
  constexpr uint64_t kItems = 20000;
  {
    const auto cache = Open(Options(8 << 20));
    for (uint64_t i = 0; i < kItems; ++i) cache->Put(KeyOf(i), ValueOf(i, 1));
  }
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  const off_t bytes = facts.st_size;
  const int fd = open(path_.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  std::string page(4096, 0);
  const std::string zeros(4096, 0);
  for (off_t at = 0; at < bytes; at += 4096) {
    ASSERT_EQ(pread(fd, page.data(), 4096, at), 4096);
    if (at < (256 << 10)) {
      ASSERT_EQ(pwrite(fd, page.data(), 4096, at), 4096);  // the directory, and the chunk that holds nothing
    } else if (page == zeros) {
      ASSERT_EQ(syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, off_t{4096}), 0);
    }
  }
  close(fd);
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  const auto blocks = facts.st_blocks;
  disk_is_full = true;
  {
    const auto cache = Open(Options(8 << 20));
    ASSERT_NE(cache, nullptr);
    for (uint64_t i = 0; i < 20 * kItems; ++i) cache->Put(KeyOf(i), ValueOf(i, 2));
    std::string value;
    for (uint64_t i = 0; i < 20 * kItems; ++i) {
      if (cache->Get(KeyOf(i), &value) == Answer::kMiss) continue;
      ASSERT_EQ(value, ValueOf(i, 2)) << KeyOf(i);
    }
  }
  disk_is_full = false;
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_LE(facts.st_blocks, blocks);
}

TEST_F(CacheFileTest, WhereBlocksAreWrittenElsewhereItIsNot) {
  for (const long type : {0x9123683EL, 0x2fc12fc1L, 0xca451a4eL, 0x3434L}) {
    test::file_system_type = type;
    std::unique_ptr<ResultCache> cache;
    const IndexStatus s = ResultCache::Create(Options(), &cache);
    test::file_system_type = 0;
    EXPECT_EQ(s.code(), IndexStatus::Code::kIoError);
    EXPECT_NE(std::string(s.message()).find(path_), std::string::npos) << s.message();
  }
}

TEST_F(CacheFileTest, ClearedIsCleared) {
  std::unique_ptr<ResultCache> cache = Open(Options());
  for (uint64_t i = 0; i < 1000; ++i) cache->Put(KeyOf(i), "old");
  cache->Clear();
  cache->Put("new", "new");
  cache.reset();
  cache = Open(Options());
  EXPECT_EQ(cache->GetStatistics().items, 1u);
}

TEST_F(CacheFileTest, OthersFilesBeginEmpty) {
  Open(Options())->Put("key", "value");
  ResultCacheOptions other = Options();
  other.identity = "another database";
  std::unique_ptr<ResultCache> cache = Open(other);
  EXPECT_EQ(cache->GetStatistics().recovered, 0u);
  cache->Put("key", "value");
  cache.reset();
  EXPECT_EQ(Open(other)->GetStatistics().recovered, 1u);
  other.capacity *= 2;
  EXPECT_EQ(Open(other)->GetStatistics().recovered, 0u);
}

// A path that was mistyped must not cost what lies there.
TEST_F(CacheFileTest, AFileThatIsNoCacheStaysAsItIs) {
  for (const std::string& text : {std::string("something else"), std::string(50000, '\0'), std::string(5 << 20, 'x')}) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
    std::unique_ptr<ResultCache> cache;
    EXPECT_EQ(ResultCache::Create(Options(), &cache).code(), IndexStatus::Code::kIoError);
    EXPECT_TRUE(text == Bytes());
  }
  // What was cut, or never got further than its name, is a cache's.
  std::ofstream(path_, std::ios::binary | std::ios::trunc).close();
  Open(Options());
  for (const uint64_t bytes : {100000, 5, 0}) {
    ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(bytes)), 0);
    EXPECT_TRUE(Open(Options())->Put("key", "value"));
  }
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 build/test/cache_file_test.
class GoldenFileTest : public CacheFileTest {
 protected:
  static constexpr uint64_t kClosedAt = 72;
  static constexpr size_t kHeaderBytes = 128, kLineBytes = 64;

  // Of a cache whose items have stamps or not, in a file of which nothing is believed yet.
  std::unique_ptr<ResultCache> OpenOf(bool stamps, cache::CacheFile** file) const {
    ResultCacheOptions options = Options();
    options.identity = "a golden file";
    options.hash_seed = 7;
    std::unique_ptr<ResultCache> cache;
    const IndexStatus s = cache::OpenUnbelieved(options, stamps, &cache, file);
    EXPECT_TRUE(s.ok()) << s.message();
    return cache;
  }
  // The header, and all that is not zero behind it, each line behind its place. The boot is left out.
  std::string Lines() const {
    const std::string bytes = Bytes();
    std::string lines =
        bytes.substr(0, kBootAt) + std::string(8, '\0') + bytes.substr(kBootAt + 8, kHeaderBytes - kBootAt - 8);
    for (size_t at = kHeaderBytes; at < bytes.size(); at += kLineBytes) {
      const std::string line = bytes.substr(at, kLineBytes);
      if (line != std::string(kLineBytes, '\0')) {
        lines += std::string(reinterpret_cast<const char*>(&at), sizeof(at)) + line;
      }
    }
    return lines;
  }
  // Makes the file what the golden one says, for another boot.
  void TakeGolden(const std::string& name) const {
    const std::string lines = GoldenBytes(name, "result_cache");
    std::string bytes(Bytes().size(), '\0');
    bytes.replace(0, kHeaderBytes, lines, 0, kHeaderBytes);
    for (size_t i = kHeaderBytes; i < lines.size(); i += sizeof(size_t) + kLineBytes) {
      size_t at = 0;
      lines.copy(reinterpret_cast<char*>(&at), sizeof(at), i);
      bytes.replace(at, kLineBytes, lines, i + sizeof(at), kLineBytes);
    }
    std::ofstream(path_, std::ios::binary) << bytes;
    StartSystemAnew();
  }
  static bool AnySpace(uint32_t /*space*/) { return true; }
};

TEST_F(GoldenFileTest, WithoutStamps) {
  cache::CacheFile* file = nullptr;
  std::unique_ptr<ResultCache> cache = OpenOf(false, &file);
  ASSERT_TRUE(file->Begin().ok());
  cache->Put("key", "value", 3);
  cache.reset();
  ExpectGolden("cache_file", Lines(), "result_cache");
  TakeGolden("cache_file");
  cache = OpenOf(false, &file);
  cache::Believe(cache.get(), AnySpace, nullptr);
  std::string value;
  EXPECT_EQ(cache->Get("key", &value, 3), Answer::kValue);
  EXPECT_EQ(value, "value");
}

// Version 3, with what it says of a database whose WAL 9 was written up to 1234: after a loss of power it is found, and
// which of its writes had come to the disk.
TEST_F(GoldenFileTest, WithStamps) {
  constexpr uint64_t kStamp = 1234, kWal = 9, kOptions = 77;
  cache::CacheFile* file = nullptr;
  std::unique_ptr<ResultCache> cache = OpenOf(true, &file);
  {
    FileBinding binding(file, path_);
    ASSERT_TRUE(binding.Begin());
    binding.SetStamp([] { return kStamp; });
    binding.SetSpace(5, 3, kOptions);
    cache->Put("key", "value", 3);
    binding.NoteWrite(kWal, kStamp);
    binding.NotePoint({kStamp, kWal, true});
  }
  cache.reset();
  ExpectGolden("cache_file_stamps", Lines(), "result_cache");
  TakeGolden("cache_file_stamps");
  constexpr uint64_t kNotClosed = 0;
  Overwrite(kClosedAt, &kNotClosed, sizeof(kNotClosed));
  cache = OpenOf(true, &file);
  EXPECT_TRUE(file->lost_power());
  const FileBinding binding(file, path_);
  EXPECT_EQ(binding.found_point().sequence, kStamp);
  EXPECT_EQ(binding.found_point().wal, kWal);
  EXPECT_TRUE(binding.found_point().wal_has_writes);
  EXPECT_EQ(binding.SpaceOf(5, kOptions), 3u);
  uint64_t stamp = 0;
  cache::Believe(cache.get(), AnySpace, [&](std::string_view /*key*/, uint64_t found) { return (stamp = found) != 0; });
  EXPECT_EQ(stamp, kStamp);
  std::string value;
  EXPECT_EQ(cache->Get("key", &value, 3), Answer::kValue);
  EXPECT_EQ(value, "value");
}

TEST_F(CacheFileTest, ALaterVersionStaysAsItIs) {
  for (const bool stamps : {false, true}) {
    unlink(path_.c_str());
    std::unique_ptr<ResultCache> cache;
    cache::CacheFile* file = nullptr;
    ASSERT_TRUE(cache::OpenUnbelieved(Options(), stamps, &cache, &file).ok());
    cache.reset();
    uint64_t header[8];
    Bytes().copy(reinterpret_cast<char*>(header), sizeof(header));
    EXPECT_EQ(header[1], stamps ? 3 : 2);
    header[1] = 4;
    header[7] = XXH3_64bits(header, 7 * sizeof(uint64_t));
    Overwrite(0, header, sizeof(header));
    const std::string before = Bytes();
    const IndexStatus s = cache::OpenUnbelieved(Options(), stamps, &cache, &file);
    EXPECT_EQ(s.code(), IndexStatus::Code::kNotSupported);
    EXPECT_EQ(s.message(), "result cache file " + path_ + " has " + UnknownVersion(4, 3) + ", or remove the file");
    EXPECT_TRUE(Bytes() == before);
  }
}

TEST_F(CacheFileTest, OneCacheAtATime) {
  const std::unique_ptr<ResultCache> cache = Open(Options());
  std::unique_ptr<ResultCache> second;
  const IndexStatus s = ResultCache::Create(Options(), &second);
  EXPECT_EQ(s.code(), IndexStatus::Code::kInvalidArgument);
  EXPECT_NE(s.message().find(path_), std::string::npos) << s.message();
  ResultCacheOptions nowhere;
  nowhere.path = path_ + "/no/such/folder";
  EXPECT_EQ(ResultCache::Create(nowhere, &second).code(), IndexStatus::Code::kIoError);
}

TEST_F(CacheFileTest, WhatExpiresIsBelievedUnderItsClockOnly) {
  uint64_t now = 1000;
  ResultCacheOptions options = Options();
  options.clock = [&] { return now; };
  for (const bool boots : {false, true}) {
    std::unique_ptr<ResultCache> cache = Open(options);
    cache->Put("short", "value", 0, 10);
    cache->Put("long", "value", 0, 1000);
    cache->Put("ever", "value");
    cache.reset();
    if (boots) StartSystemAnew();
    now += 100;
    cache = Open(options);
    std::string value;
    EXPECT_EQ(cache->Get("short", &value), Answer::kMiss);
    EXPECT_EQ(cache->Get("long", &value), boots ? Answer::kMiss : Answer::kValue);
    EXPECT_EQ(cache->Get("ever", &value), Answer::kValue);
  }
}

TEST_F(CacheFileTest, DamageIsAMiss) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  constexpr uint64_t kKeys = 2000;
  for (int round = 0; round < 60; ++round) {
    std::unique_ptr<ResultCache> cache = Open(Options(256 << 10));
    for (uint64_t i = 0; i < kKeys; ++i) cache->Put(KeyOf(i), ValueOf(i, 1));
    cache.reset();
    const auto size = static_cast<uint64_t>(std::ifstream(path_, std::ios::ate).tellg());
    for (uint64_t bytes = random.Uniform(30) + 1; bytes > 0; --bytes) {
      const char byte = static_cast<char>(random.Uniform(256));
      Overwrite(random.OneIn(3) ? random.Uniform(4 * 4096) : random.Uniform(size), &byte, 1);
    }
    cache = Open(Options(256 << 10));
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value;
      const Answer answer = cache->Get(KeyOf(i), &value);
      ASSERT_NE(answer, Answer::kAbsent);
      if (answer == Answer::kValue) {
        ASSERT_EQ(value, ValueOf(i, 1));
      }
      cache->Put(KeyOf(i), ValueOf(i, 1));
    }
  }
}

// An item whose time is gone is shorter than its header says. What takes the chunk apart later must not fall between
// its words, and leave items behind it in the index whose chunk is another's by then.
TEST_F(CacheFileTest, AnItemWithoutTheTimeThatItHadEndsItsChunk) {
  constexpr uint64_t kKeys = 300;
  const ResultCacheOptions options = Options(256 << 10);
  std::unique_ptr<ResultCache> cache = Open(options);
  for (uint64_t i = 0; i < kKeys; ++i) cache->Put(KeyOf(i), std::string(64, '\xff'), 0, 3600000);
  cache.reset();
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const uint64_t none = 0;
  constexpr size_t kTimeBeforeKey = 16;  // and the checksum
  for (uint64_t i = 100; i < kKeys; i += 50) {
    const size_t key_at = bytes.find(KeyOf(i) + "\xff");
    ASSERT_NE(key_at, std::string::npos);
    Overwrite(key_at - kTimeBeforeKey, &none, sizeof(none));
  }
  cache = Open(options);
  EXPECT_GT(cache->GetStatistics().recovered, 0u);
  const auto check_items = [&](uint64_t keys) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < keys; ++i) {
      std::string value;
      if (cache->Get(KeyOf(i), &value) != Answer::kValue) continue;
      ASSERT_EQ(value, std::string(64, '\xff')) << i;
      ++found;
    }
    EXPECT_EQ(found, cache->GetStatistics().items);
  };
  check_items(kKeys);
  for (uint64_t i = kKeys; i < 20000; ++i) cache->Put(KeyOf(i), std::string(64, '\xff'));
  check_items(20000);
}

// Old values that were replaced, of keys that were erased, and copies left behind where what survived has moved from.
class DeadItemsTest : public CacheFileTest {
 protected:
  static constexpr uint64_t kKeys = 1200;

  DeadItemsTest() {
    const std::unique_ptr<ResultCache> cache = Open(Options(128 << 10));
    for (uint64_t i = 0; i < kKeys; ++i) {
      cache->Put(KeyOf(i), "old" + std::string(60, 'o'));
      std::string value;
      if (i % 3 == 0) cache->Get(KeyOf(i), &value);
    }
    for (uint64_t i = 0; i < kKeys; ++i) {
      cache->Bar(KeyOf(i));
      cache->Unbar(KeyOf(i));
      if (i % 40 == 0) cache->Put(KeyOf(i), "new");  // few, so that what free chunks hold stays
    }
  }
  void ExpectNothingOld(const std::string& what) const {
    const std::unique_ptr<ResultCache> cache = Open(Options(128 << 10));
    for (uint64_t i = 0; i < kKeys; ++i) {
      std::string value;
      const Answer answer = cache->Get(KeyOf(i), &value);
      ASSERT_TRUE(answer == Answer::kMiss || (answer == Answer::kValue && i % 40 == 0 && value == "new"))
          << KeyOf(i) << ": " << value << ", " << what;
    }
  }
};

// Every chunk is said to be in use, and full.
TEST_F(DeadItemsTest, NoDirectoryBringsThemBack) {
  constexpr uint64_t kDirectoryAt = 3 * 4096, kWords = 4096 / 8, kChunks = 34;
  // A cache has room for most of them: those with the highest orders.
  for (const bool upward : {true, false}) {
    for (uint64_t chunk = 1; chunk < kChunks; ++chunk) {
      const uint64_t entry[2] = {1 | kWords << 32, upward ? chunk : kChunks - chunk};
      Overwrite(kDirectoryAt + chunk * sizeof(entry), entry, sizeof(entry));
    }
    ExpectNothingOld("full chunks");
  }
}

// One bit is enough to bring back what is dead, if nothing but a bit says that it is.
TEST_F(DeadItemsTest, NoDamagedBitBringsThemBack) {
  std::ifstream file(path_, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<size_t> places;
  for (size_t at = 3 * 4096; at < 4 * 4096; ++at) places.push_back(at);  // the directory
  for (size_t at = bytes.find("oldooo"); at != std::string::npos; at = bytes.find("oldooo", at + 1)) {
    for (size_t byte = at - 40; byte < at; ++byte) places.push_back(byte);
  }
  std::shuffle(places.begin(), places.end(), std::mt19937_64(Seed()));
  places.resize(std::min<size_t>(places.size(), 400));
  for (const size_t place : places) {
    for (int bit = 0; bit < 8; ++bit) {
      const char flipped = static_cast<char>(bytes[place] ^ (1 << bit));
      Overwrite(place, &flipped, 1);
      ExpectNothingOld("bit " + std::to_string(bit) + " of byte " + std::to_string(place));
      if (HasFatalFailure()) return;
      Overwrite(0, bytes.data(), bytes.size());
    }
  }
}

// What a killed process had promised: of each key, the version that was begun last and the one that was acknowledged
// last. Even versions are erasures. In memory that outlives the process.
struct Promises {
  static constexpr uint64_t kKeys = 12000;
  std::atomic<uint64_t> begun[kKeys];
  std::atomic<uint64_t> acknowledged[kKeys];
  std::atomic<uint64_t> writes;  // of all processes
};

// Each thread has keys of its own to write. Never returns.
[[noreturn]] void WriteUntilKilled(const ResultCacheOptions& options, Promises* promises, uint64_t seed,
                                   std::string (*key_of)(uint64_t), std::string (*value_of)(uint64_t, uint64_t)) {
  std::unique_ptr<ResultCache> cache;
  if (!ResultCache::Create(options, &cache).ok()) _exit(1);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed * 2 + t);
      for (;;) {
        const uint64_t number = random.Uniform(Promises::kKeys / 2) * 2 + t;
        const std::string key = key_of(number);
        std::string value;
        cache->Get(key_of(random.Uniform(Promises::kKeys)), &value);
        const bool erase = random.OneIn(4);
        const uint64_t now = promises->begun[number];
        const uint64_t next = now + ((now & 1) == (erase ? 0u : 1u) ? 2 : 1);
        promises->begun[number] = next;
        if (erase && random.OneIn(2)) {
          cache->Erase(key);
        } else if (random.OneIn(2)) {
          cache->Bar(key);
          cache->Unbar(key);
          if (!erase) cache->Fill(cache->BeginFill(key), key, value_of(number, next));
        } else if (erase) {
          cache->Bar(key);
          cache->Unbar(key);
        } else {
          cache->Put(key, value_of(number, next));
        }
        promises->acknowledged[number] = next;
        ++promises->writes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  _exit(1);
}

// How often a process is killed.
uint64_t Cycles() {
  const char* const given = getenv("CAIRN_CYCLES");
  return given != nullptr ? std::stoull(given) : 40;
}

TEST_F(CacheFileTest, KilledItAnswersTheNewestOrNothing) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  void* const shared = mmap(nullptr, sizeof(Promises), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const promises = new (shared) Promises();
  uint64_t answered = 0;
  uint64_t warm = 0;
  const uint64_t cycles = Cycles();
  for (uint64_t cycle = 0; cycle < cycles; ++cycle) {
    const uint64_t writes = promises->writes;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteUntilKilled(Options(), promises, seed + cycle, AnyKeyOf, AnyValueOf);
    // At any moment, of its opening, too; but mostly once it has written, however long it waits for a processor.
    const bool written = cycle % 4 != 0;
    int status = 0;
    while (written && promises->writes < writes + 1000 && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
    usleep(static_cast<useconds_t>(random.Uniform(30000) + 5000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const std::unique_ptr<ResultCache> cache = Open(Options());
    const uint64_t answered_before = answered;
    for (uint64_t i = 0; i < Promises::kKeys; ++i) {
      std::string value;
      const Answer answer = cache->Get(AnyKeyOf(i), &value);
      ASSERT_NE(answer, Answer::kAbsent);
      if (answer == Answer::kMiss) continue;
      ++answered;
      const uint64_t version = std::stoull(value);
      ASSERT_EQ(value, AnyValueOf(i, version));
      ASSERT_EQ(version & 1, 1u);
      ASSERT_GE(version, promises->acknowledged[i]) << "cycle " << cycle << ", " << AnyKeyOf(i);
      ASSERT_LE(version, promises->begun[i]) << "cycle " << cycle << ", " << AnyKeyOf(i);
    }
    if (answered > answered_before) ++warm;
    // What the next process acknowledges counts on top of what is there now.
    for (uint64_t i = 0; i < Promises::kKeys; ++i) promises->acknowledged[i] = promises->begun[i].load() & ~uint64_t{1};
    for (uint64_t i = 0; i < Promises::kKeys; ++i) {
      std::string value;
      if (cache->Get(AnyKeyOf(i), &value) == Answer::kValue) promises->acknowledged[i] = std::stoull(value);
    }
  }
  EXPECT_GT(answered, cycles * 100);
  RecordProperty("recovered", std::to_string(warm));
  RecordProperty("hits", std::to_string(answered));
  munmap(shared, sizeof(Promises));
}

// Its copy of the object is not the cache's owner: what it destroys is its own.
TEST_F(CacheFileTest, AForkedChildClosesNothing) {
  std::unique_ptr<ResultCache> cache = Open(Options());
  cache->Put("key", "value");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cache.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  std::unique_ptr<ResultCache> second;
  EXPECT_EQ(ResultCache::Create(Options(), &second).code(), IndexStatus::Code::kInvalidArgument)
      << "it is locked still";
  second.reset();
  constexpr uint64_t kClosedAt = 72;
  uint64_t closed = 1;
  std::ifstream file(path_, std::ios::binary);
  file.seekg(kClosedAt).read(reinterpret_cast<char*>(&closed), sizeof(closed));
  EXPECT_EQ(closed, 0u);
}

// What the processor and the system had not written yet is as it was at some moment since the opening, each line by
// itself. What was synced is there: that the file is not closed.
TEST_F(CacheFileTest, ALossOfPowerThatDropsAnyLinesLeavesItEmpty) {
  const uint64_t seed = Seed();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  const auto read_file = [&] {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int round = 0; round < 30; ++round) {
    std::unique_ptr<ResultCache> cache = Open(Options(128 << 10));
    std::vector<std::string> states = {read_file()};
    for (uint64_t state = 1; state < 4; ++state) {
      for (uint64_t i = 0; i < 1000; ++i) {
        const std::string key = KeyOf(random.Uniform(600));
        if (random.OneIn(4)) {
          cache->Erase(key);
        } else {
          cache->Put(key, ValueOf(state, random.Uniform(600)));
        }
      }
      states.push_back(read_file());
    }
    cache.reset();
    std::string left = states[0];
    constexpr size_t kLine = 64;
    const size_t unit = random.OneIn(2) ? kLine : 4096;
    for (size_t at = 0; at < left.size(); at += unit)
      left.replace(at, unit, states[random.Uniform(4)].substr(at, unit));
    Overwrite(0, left.data(), left.size());
    StartSystemAnew();
    cache = Open(Options(128 << 10));
    ASSERT_EQ(cache->GetStatistics().recovered, 0u);
    for (uint64_t i = 0; i < 600; ++i) ASSERT_EQ(cache->Get(KeyOf(i), nullptr), Answer::kMiss);
  }
}

}  // namespace
}  // namespace cairn
