#include "memtable_cache/write_log.h"

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/await.h"
#include "test/testutil/random.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using rocksdb::WriteBatchInternal;

// A WAL in memory. Records are of values "number by number": an entry's value is the number that it was given.
class Wal {
 public:
  Wal() {
    log.Use([this](const WriteBatch& record) { return Write(record); },
            [this](WriteBatch* record, bool, const Status& logged_status) { return Apply(*record, logged_status); });
  }

  // Returns the first number.
  uint64_t Append(uint64_t entries, bool as_a_whole, Status* s) {
    WriteBatch batch;
    uint64_t first = 0;
    const auto enter = [&] {
      first = next.fetch_add(entries);
      for (uint64_t i = 0; i < entries; ++i) EXPECT_OK(batch.Put("", std::to_string(first + i)));
      return first;
    };
    const auto add = [&](WriteBatch* record) { EXPECT_OK(WriteBatchInternal::Append(record, &batch)); };
    auto how = WriteLog::Applied::kNot;
    first = log.Append(entries, false, enter, as_a_whole ? &batch : nullptr, add, &how, s);
    if (how == WriteLog::Applied::kNot) {
      applied += entries;
    } else {
      ++shared;
    }
    return first;
  }

  struct Reader : WriteBatch::Handler {
    void Put(const rocksdb::Slice&, const rocksdb::Slice& value) override {
      values.push_back(std::stoull(value.ToString()));
    }
    std::vector<uint64_t> values;
  };
  Status Write(const WriteBatch& record) {
    EXPECT_FALSE(writing.exchange(true));
    while (held) std::this_thread::yield();
    if (fails || WriteBatchInternal::Sequence(&record) >= fails_from) {
      writing = false;
      return Status::IOError("it fails");
    }
    Reader reader;
    EXPECT_OK(record.Iterate(&reader));
    EXPECT_EQ(reader.values.size(), record.Count());
    uint64_t number = WriteBatchInternal::Sequence(&record);
    for (const uint64_t value : reader.values) EXPECT_EQ(value, number++);
    EXPECT_GT(reader.values.front(), newest);
    newest = reader.values.back();
    ++records;
    logged += reader.values.size();
    writing = false;
    return Status::OK();
  }

  // As often as a record is written, or was to be.
  Status Apply(const WriteBatch& record, const Status& logged_status) {
    EXPECT_EQ(logged_status.ok(), newest >= WriteBatchInternal::Sequence(&record) + record.Count() - 1);
    applied += record.Count();
    if (WriteBatchInternal::Sequence(&record) < insert_fails_from) return logged_status;
    return Status::InvalidArgument("it cannot be inserted");
  }

  WriteLog log;
  std::atomic<uint64_t> next{1};
  std::atomic<bool> held{false}, fails{false}, writing{false};
  std::atomic<uint64_t> newest{0}, records{0}, logged{0}, applied{0}, shared{0};
  std::atomic<uint64_t> fails_from{UINT64_MAX}, insert_fails_from{UINT64_MAX};
};

TEST(WriteLogTest, HoldsAllBatchesInTheOrderOfTheirNumbers) {
  const uint64_t seed = Seed();
  Wal wal;
  std::atomic<uint64_t> unlogged{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      test::Random random(seed + t);
      for (int i = 0; i < 4000; ++i) {
        if (random.OneIn(5)) {
          unlogged += wal.next++ > 0 ? 1 : 0;  // another begins a record behind it
          continue;
        }
        Status s;
        const uint64_t entries = 1 + random.Uniform(4);
        const uint64_t first = wal.Append(entries, random.OneIn(2), &s);
        EXPECT_OK(s);
        EXPECT_GE(wal.newest, first + entries - 1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wal.logged + unlogged + 1, wal.next);
  EXPECT_EQ(wal.applied, wal.logged);
}

TEST(WriteLogTest, WritesOneRecordForAllWhoWait) {
  Wal wal;
  wal.held = true;
  std::vector<std::thread> threads;
  const auto write = [&] {
    Status s;
    wal.Append(1, false, &s);
    EXPECT_OK(s);
  };
  threads.emplace_back(write);
  ASSERT_TRUE(Await([&] { return wal.writing.load(); }));
  for (int i = 0; i < 5; ++i) threads.emplace_back(write);
  ASSERT_TRUE(Await([&] { return wal.next == 7; }));
  wal.held = false;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wal.logged, 6u);
  // The last may have taken its number, and not yet the lock.
  EXPECT_LE(wal.records, 3u);
  EXPECT_GE(wal.shared, 4u);
  EXPECT_EQ(wal.applied, 6u);
}

// A record of number 1, and while it is written two of one group: of 2 and 3, and, as nobody logs 4, of 5 to 7.
std::array<Status, 6> WriteTwoRecordsOfAGroup(Wal* wal) {
  wal->held = true;
  std::vector<std::thread> threads;
  std::array<Status, 6> statuses;
  const auto write = [&](size_t i) { threads.emplace_back([&, i] { wal->Append(1, false, &statuses[i]); }); };
  write(0);
  EXPECT_TRUE(Await([&] { return wal->writing.load(); }));
  for (size_t i = 1; i <= 2; ++i) write(i);
  EXPECT_TRUE(Await([&] { return wal->next == 4; }));
  EXPECT_EQ(wal->next++, 4u);
  for (size_t i = 3; i <= 5; ++i) write(i);
  EXPECT_TRUE(Await([&] { return wal->next == 8; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the last gets the lock behind its number
  wal->held = false;
  for (auto& thread : threads) thread.join();
  return statuses;
}

// A number that was not logged begins another record; only what is in that one fails with it.
TEST(WriteLogTest, KeepsWhatIsInRecordsBeforeTheOneThatFailed) {
  Wal wal;
  wal.fails_from = 4;
  const std::array<Status, 6> statuses = WriteTwoRecordsOfAGroup(&wal);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(statuses[i].IsIOError(), i >= 3) << i << ": " << statuses[i].ToString();
  EXPECT_EQ(wal.logged, 3u);
}

// Another record of the same group, and a record that was not logged, are not the reason.
TEST(WriteLogTest, TellsWhoCouldNotBeInserted) {
  Wal wal;
  wal.insert_fails_from = 5;
  const std::array<Status, 6> statuses = WriteTwoRecordsOfAGroup(&wal);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(statuses[i].IsInvalidArgument(), i >= 3) << i;
  EXPECT_EQ(wal.logged, 6u);
  EXPECT_EQ(wal.applied, 6u);
}

TEST(WriteLogTest, WritesNothingBehindARecordThatFailed) {
  Wal wal;
  wal.held = true;
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      Status s;
      EXPECT_GT(wal.Append(1, i % 2 == 0, &s), 0u);
      if (s.IsIOError()) ++refused;
    });
  }
  ASSERT_TRUE(Await([&] { return wal.writing && wal.next == 7; }));
  wal.fails = true;
  wal.held = false;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, 6);
  EXPECT_EQ(wal.applied, 6u);
  wal.fails = false;
  Status s;
  wal.Append(1, true, &s);
  EXPECT_TRUE(s.IsIOError());
  EXPECT_EQ(wal.records, 0u);
  wal.log.Reset();
  s = Status::OK();
  wal.Append(1, false, &s);
  EXPECT_OK(s);
  EXPECT_EQ(wal.logged, 1u);
}

TEST(WriteLogTest, TakesNothingFromWhoGetsNoNumber) {
  Wal wal;
  Status s;
  auto applied = WriteLog::Applied::kNot;
  EXPECT_EQ(wal.log.Append(
                1, false, [] { return uint64_t{0}; }, nullptr, [](WriteBatch*) { ADD_FAILURE(); }, &applied, &s),
            0u);
  EXPECT_EQ(wal.records, 0u);
}

}  // namespace
}  // namespace cairn
