// Readers and writers at once: what a Get answers is linearizable.
//
// Each key is a register with a version, which only grows: even versions are deletions, odd ones values that name them.
// A Get may answer with a version that was the newest at some moment of the call: none older than what had been
// acknowledged, or seen by another Get that ended, before it began; none that nobody had begun to write when it ended.
//
// A read of several column families beside an ingestion may answer with any older one: RocksDB takes the sequence
// number first and the tables afterwards, and what was the newest at that number may be gone from them
// (docs/rocksdb_faults.md). The reads that follow show that none of it stays in the cache.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cairn/result_cache.h"
#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"

namespace cairn::test {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteOptions;

constexpr uint64_t kKeys = 24;
// Seldom drawn: 70,000 bytes and 1 MiB.
constexpr uint64_t kLargeKey = 8;
constexpr uint64_t kHugeKey = kKeys - 1;

struct Register {
  std::mutex writers;
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> known{0};  // acknowledged, or seen

  // What the next writer writes. With `writers`.
  uint64_t Begin(bool deletion) {
    const uint64_t now = begun.load();
    const uint64_t next = now + ((now & 1) == (deletion ? 0u : 1u) ? 2 : 1);
    begun = next;
    return next;
  }
  void Learn(uint64_t version) {
    uint64_t before = known.load();
    while (before < version && !known.compare_exchange_weak(before, version)) {
    }
  }
};

enum class Kind { kPlain, kTwoQueues, kPipelined, kUnordered, kTransactions, kOptimistic };

struct Setup {
  const char* name;
  const char* engine;
  Kind kind;
  ResultCacheOptions::Compression compression;
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

class DatabaseCacheRaceTest : public ::testing::TestWithParam<Setup> {
 protected:
  void Open() {
    options_ = OptionsOf(*FindEngine(GetParam().engine));
    options_.merge_operator = std::make_shared<LastOperator>();
    DatabaseCacheOptions cache;
    cache.capacity = NumberFromEnvironment("CAIRN_CACHE_BYTES", 512 << 10);
    cache.max_item_bytes = cache.capacity / 2;
    cache.compression = GetParam().compression;
    UseResultCache(cache, &options_);
    options_.two_write_queues = GetParam().kind == Kind::kTwoQueues;
    options_.enable_pipelined_write = GetParam().kind == Kind::kPipelined;
    options_.unordered_write = GetParam().kind == Kind::kUnordered;
    rocksdb::DB* db = nullptr;
    if (GetParam().kind == Kind::kTransactions || GetParam().kind == Kind::kTwoQueues) {
      ASSERT_OK(rocksdb::TransactionDB::Open(options_, rocksdb::TransactionDBOptions(), dir_ / "db", &transactions_));
      db = transactions_;
    } else if (GetParam().kind == Kind::kOptimistic) {
      ASSERT_OK(rocksdb::OptimisticTransactionDB::Open(options_, dir_ / "db", &optimistic_));
      db = optimistic_;
    } else {
      ASSERT_OK(rocksdb::DB::Open(options_, dir_ / "db", port::Into(&db)));
    }
    db_.reset(db);
    ASSERT_OK(db_->CreateColumnFamily(options_, "second", &second_));
    ranges_ = options_.comparator == rocksdb::BytewiseComparator();
  }
  ~DatabaseCacheRaceTest() override {
    if (second_ != nullptr) EXPECT_OK(db_->DestroyColumnFamilyHandle(second_));
  }

  // Even registers are keys of the default family; odd ones of the second, and together with the one before it they are
  // a pair that some batches write at once.
  ColumnFamilyHandle* FamilyOf(uint64_t number) const { return number % 2 == 0 ? db_->DefaultColumnFamily() : second_; }
  // Of all lengths that a cache keeps in ways of its own, and one that this one does not keep.
  static std::string KeyOf(uint64_t number) {
    size_t padding = 0;
    if (number % 12 == 3 || number % 12 == 4) padding = 5 << 10;
    if (number == kLargeKey) padding = 70000;
    if (number == kHugeKey) padding = 1 << 20;
    return "key" + std::string(padding, 'k') + std::to_string(number);
  }
  static uint64_t Draw(Random* random) {
    const uint64_t number = random->Uniform(kKeys);
    const bool again = (number == kHugeKey && !random->OneIn(200)) || (number == kLargeKey && !random->OneIn(8));
    return again ? random->Uniform(kLargeKey) : number;
  }
  static std::string ValueOf(uint64_t number, uint64_t version) {
    return std::to_string(version) + std::string(number * 7 % 90, 'x');
  }

  void Write(Random* random) {
    const uint64_t number = Draw(random);
    const uint64_t kind = random->Uniform(100);
    // A memtable tells each processor of a range deletion in turn. With unordered_write, its sequence number is
    // published before, so one reader may see it and a later one not: RocksDB promises no more until it is
    // acknowledged.
    const bool ranges = ranges_ && transactions_ == nullptr && optimistic_ == nullptr;
    if (kind == 0 && ranges && GetParam().kind != Kind::kUnordered) return DeleteAll(number % 2);
    if (kind == 1) return Ingest(number, random);
    if (kind < 20) return WritePair(number / 2 * 2, random);
    const std::lock_guard<std::mutex> lock(registers_[number].writers);
    const bool deletion = random->OneIn(4);
    const uint64_t version = registers_[number].Begin(deletion);
    const std::string value = ValueOf(number, version);
    const std::string key = KeyOf(number);
    ColumnFamilyHandle* const family = FamilyOf(number);
    Status s;
    if (kind < 40 && (transactions_ != nullptr || optimistic_ != nullptr)) {
      s = WriteByTransaction(family, key, value, deletion, random);
    } else if (deletion) {
      s = db_->Delete(WriteOptions(), family, key);
    } else if (random->OneIn(3)) {
      s = db_->Merge(WriteOptions(), family, key, value);
    } else {
      s = db_->Put(WriteOptions(), family, key, value);
    }
    EXPECT_OK(s);
    registers_[number].Learn(version);
  }
  Status WriteByTransaction(ColumnFamilyHandle* family, const std::string& key, const std::string& value, bool deletion,
                            Random* random) {
    const std::unique_ptr<rocksdb::Transaction> transaction(transactions_ != nullptr
                                                                ? transactions_->BeginTransaction(WriteOptions())
                                                                : optimistic_->BeginTransaction(WriteOptions()));
    EXPECT_OK(deletion ? transaction->Delete(family, key) : transaction->Put(family, key, value));
    if (transactions_ != nullptr && random->OneIn(2)) {
      EXPECT_OK(transaction->SetName(key.substr(key.size() - std::min<size_t>(key.size(), 20)) + "." + value));
      EXPECT_OK(transaction->Prepare());
    }
    // An optimistic transaction may not know whether there was a conflict: nothing was written.
    for (;;) {
      const Status s = transaction->Commit();
      if (!s.IsTryAgain()) return s;
      EXPECT_OK(transaction->Rollback());
      EXPECT_OK(deletion ? transaction->Delete(family, key) : transaction->Put(family, key, value));
    }
  }
  void WritePair(uint64_t first, Random* random) {
    const std::lock_guard<std::mutex> lock(registers_[first].writers);
    const std::lock_guard<std::mutex> second_lock(registers_[first + 1].writers);
    rocksdb::WriteBatch batch;
    uint64_t versions[2];
    for (uint64_t i = 0; i < 2; ++i) {
      versions[i] = registers_[first + i].Begin(false);
      EXPECT_OK(batch.Put(FamilyOf(first + i), KeyOf(first + i), ValueOf(first + i, versions[i])));
    }
    if (random->OneIn(8)) EXPECT_OK(batch.PutLogData("remark"));
    EXPECT_OK(db_->Write(WriteOptions(), &batch));
    for (uint64_t i = 0; i < 2; ++i) registers_[first + i].Learn(versions[i]);
  }
  // One family's keys, all at once.
  void DeleteAll(uint64_t parity) {
    std::vector<std::unique_lock<std::mutex>> locks;
    std::vector<uint64_t> versions(kKeys);
    for (uint64_t i = parity; i < kKeys; i += 2) {
      locks.emplace_back(registers_[i].writers);
      versions[i] = registers_[i].Begin(true);
    }
    EXPECT_OK(db_->DeleteRange(WriteOptions(), FamilyOf(parity), "key", "kez"));
    for (uint64_t i = parity; i < kKeys; i += 2) registers_[i].Learn(versions[i]);
  }
  void Ingest(uint64_t number, Random* random) {
    const std::lock_guard<std::mutex> lock(registers_[number].writers);
    const std::string file = dir_ / ("file" + std::to_string(random->Next()));
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_->GetOptions(FamilyOf(number)));
    const uint64_t version = registers_[number].Begin(false);
    EXPECT_OK(writer.Open(file));
    EXPECT_OK(writer.Put(KeyOf(number), ValueOf(number, version)));
    EXPECT_OK(writer.Finish());
    rocksdb::IngestExternalFileOptions move;
    move.move_files = true;
    ++ingestions_begun_;
    EXPECT_OK(IngestAgain(db_.get(), FamilyOf(number), {file}, move));
    ++ingestions_ended_;
    registers_[number].Learn(version);
  }

  // `before`: what was known when the read began.
  void Check(uint64_t number, uint64_t before, const Status& s, const Slice& value) {
    const uint64_t begun = registers_[number].begun;
    const bool absent = s.IsNotFound();
    uint64_t version = absent ? before + (before & 1) : 0;
    if (!absent) {
      if (s.ok()) version = std::stoull(value.ToString());
      if (!s.ok() || value != Slice(ValueOf(number, version)) || (version & 1) == 0)
        return Fail(number, before, s, value);
    }
    if (version < before || version > begun) return Fail(number, before, s, value);
    registers_[number].Learn(version);
  }
  void Fail(uint64_t number, uint64_t before, const Status& s, const Slice& value) {
    if (failures_.fetch_add(1) < 5) {
      ADD_FAILURE() << "register " << number << ", " << before << " known: " << s.ToString() << " " << value.ToString();
    }
  }
  void Read(Random* random) {
    if (random->OneIn(10)) return ReadMany(random);
    if (random->OneIn(50)) return Iterate(random);
    const uint64_t number = Draw(random);
    const uint64_t before = registers_[number].known;
    rocksdb::PinnableSlice value;
    const Status s = db_->Get(ReadOptions(), FamilyOf(number), KeyOf(number), &value);
    Check(number, before, s, value);
  }
  // Calls read(). Whether no ingestion was under way meanwhile.
  template <class Read>
  bool IsAlone(const Read& read) {
    const uint64_t ended = ingestions_ended_;  // first: an ingestion that ends between the two looks is seen
    const bool alone = ingestions_begun_ == ended;
    read();
    return alone && ingestions_begun_ == ended;
  }
  void Iterate(Random* random) {
    const uint64_t first = Draw(random) / 2 * 2;
    const uint64_t before[2] = {registers_[first].known, registers_[first + 1].known};
    std::vector<rocksdb::Iterator*> iterators;
    const bool alone = IsAlone([&] {
      const Status made = db_->NewIterators(ReadOptions(), {FamilyOf(first), FamilyOf(first + 1)}, &iterators);
      EXPECT_OK(made);
    });
    for (uint64_t i = 0; i < iterators.size(); ++i) {
      const std::unique_ptr<rocksdb::Iterator> iterator(iterators[i]);
      const std::string key = KeyOf(first + i);
      iterator->Seek(key);
      const bool found = iterator->Valid() && iterator->key() == key;
      const Status s = !iterator->status().ok() || found ? iterator->status() : Status::NotFound();
      Check(first + i, alone ? before[i] : 0, s, found ? iterator->value() : Slice());
    }
  }
  void ReadMany(Random* random) {
    std::vector<uint64_t> numbers(random->Uniform(12) + 1);
    std::vector<uint64_t> before;
    std::vector<std::string> names;
    std::vector<ColumnFamilyHandle*> families;
    const bool one_family = random->OneIn(2);
    for (uint64_t& number : numbers) {
      do number = Draw(random);
      while (one_family && FamilyOf(number) != FamilyOf(numbers[0]));
      families.push_back(FamilyOf(number));
      names.push_back(KeyOf(number));
    }
    for (const uint64_t number : numbers) before.push_back(registers_[number].known);
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<Status> statuses(keys.size());
    const bool alone = IsAlone([&] {
      db_->MultiGet(ReadOptions(), keys.size(), families.data(), keys.data(), values.data(), statuses.data());
    });
    for (size_t i = 0; i < keys.size(); ++i)
      Check(numbers[i], one_family || alone ? before[i] : 0, statuses[i], values[i]);
  }

  TempDir dir_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::TransactionDB* transactions_ = nullptr;
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  ColumnFamilyHandle* second_ = nullptr;
  bool ranges_ = false;
  Register registers_[kKeys];
  std::atomic<uint64_t> ingestions_begun_{0};
  std::atomic<uint64_t> ingestions_ended_{0};
  std::atomic<uint64_t> failures_{0};
};

// CAIRN_OPERATIONS: of each thread. With CAIRN_CACHE_BYTES=0 there is no cache, and RocksDB is what is tested.
TEST_P(DatabaseCacheRaceTest, AnswersAreLinearizable) {
  Open();
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  const uint64_t operations = NumberFromEnvironment("CAIRN_OPERATIONS", 10000);
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([this, seed, t, operations] {
      Random random(seed * 8 + t);
      for (uint64_t i = 0; i < operations && failures_ == 0; ++i)
        random.OneIn(t < 4 ? 3 : 30) ? Write(&random) : Read(&random);
    });
  }
  // Meanwhile the cache goes off and on, and files move.
  std::thread other([&] {
    Random random(seed + 100);
    DatabaseCache* const cache = CairnDB::Of(db_.get())->services()->cache();
    while (!stop) {
      if (cache != nullptr) cache->TEST_Judge(random.OneIn(2) ? 1 : -1);
      if (random.OneIn(50)) EXPECT_OK(db_->Flush(rocksdb::FlushOptions()));
      std::this_thread::sleep_for(std::chrono::microseconds(random.Uniform(2000)));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  other.join();
  EXPECT_EQ(failures_, 0u);
  DatabaseCacheStats stats;
  if (CairnDB::Of(db_.get())->services()->cache() == nullptr) return;
  EXPECT_OK(GetDatabaseCacheStats(db_.get(), &stats));
  EXPECT_GT(stats.cache.hits, 0u);
  EXPECT_EQ(stats.wrong_hits, 0u);
  RecordProperty("hits", std::to_string(stats.cache.hits + stats.cache.absent_hits));
}

// All values of a MultiGet are of one state, wherever they come from.
TEST_P(DatabaseCacheRaceTest, MultiGetIsOneState) {
  if (GetParam().kind == Kind::kUnordered) GTEST_SKIP() << "RocksDB does not promise it with unordered_write";
  Open();
  constexpr int kWidth = 6;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> torn{0};
  std::thread writer([&] {
    for (uint64_t version = 1; !stop; ++version) {
      rocksdb::WriteBatch batch;
      for (uint64_t i = 0; i < kWidth; ++i) EXPECT_OK(batch.Put(FamilyOf(i), KeyOf(i), std::to_string(version)));
      EXPECT_OK(db_->Write(WriteOptions(), &batch));
      if (version % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      Random random(t);
      std::vector<std::string> names;
      std::vector<ColumnFamilyHandle*> families;
      for (uint64_t i = 0; i < kWidth; ++i) {
        names.push_back(KeyOf(i));
        families.push_back(FamilyOf(i));
      }
      const std::vector<Slice> keys(names.begin(), names.end());
      const uint64_t rounds = NumberFromEnvironment("CAIRN_OPERATIONS", 4000);
      for (uint64_t round = 0; round < rounds; ++round) {
        // So that some are in the cache and some are not.
        rocksdb::PinnableSlice one;
        const uint64_t which = random.Uniform(kWidth);
        db_->Get(ReadOptions(), families[which], keys[which], &one).PermitUncheckedError();
        rocksdb::PinnableSlice values[kWidth];
        Status statuses[kWidth];
        db_->MultiGet(ReadOptions(), kWidth, families.data(), keys.data(), values, statuses);
        for (int i = 1; i < kWidth; ++i) {
          if (statuses[i].ok() != statuses[0].ok() || (statuses[i].ok() && values[i] != values[0])) ++torn;
        }
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, DatabaseCacheRaceTest,
    ::testing::Values(Setup{"leveled", "leveled", Kind::kPlain, ResultCacheOptions::Compression::kNone},
                      Setup{"leveled_lz4", "leveled", Kind::kPlain, ResultCacheOptions::Compression::kLz4},
                      Setup{"trie", "trie_htable", Kind::kPlain, ResultCacheOptions::Compression::kNone},
                      Setup{"pipelined", "universal", Kind::kPipelined, ResultCacheOptions::Compression::kNone},
                      Setup{"unordered", "leveled", Kind::kUnordered, ResultCacheOptions::Compression::kNone},
                      Setup{"transactions", "leveled", Kind::kTransactions, ResultCacheOptions::Compression::kZstd},
                      Setup{"two_queues", "leveled", Kind::kTwoQueues, ResultCacheOptions::Compression::kNone},
                      Setup{"optimistic", "ordered", Kind::kOptimistic, ResultCacheOptions::Compression::kNone}),
    [](const auto& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace cairn::test
