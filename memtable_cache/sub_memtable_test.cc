// Sub-MemTables against an ordered map, under several comparators and settings, and under concurrent writers, readers
// and long-lived iterators. CAIRN_SEED=n replays a run.

#include "memtable_cache/sub_memtable.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "db/dbformat.h"
#include "db/lookup_key.h"
#include "db/memtable.h"
#include "gtest/gtest.h"
#include "memory/concurrent_arena.h"
#include "memtable_cache/area_backing.h"
#include "memtable_cache/sub_memtable_factory.h"
#include "memtable_cache/tailing.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/write_buffer_manager.h"
#include "table/hash_order/hash_order.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/test_seed.h"

namespace cairn {
namespace {

using rocksdb::Comparator;
using rocksdb::KeyHandle;
using rocksdb::MemTableRep;

constexpr size_t kArenaBlock = 32 << 10;  // of a write buffer of 256 KiB

// Shorter keys first, and case does not count: neither prefixes nor hashes of the bytes mean anything.
class ForeignComparator : public Comparator {
 public:
  const char* Name() const override { return "test.Foreign"; }
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    for (size_t i = 0; i < a.size(); ++i) {
      const int difference = tolower(a[i]) - tolower(b[i]);
      if (difference != 0) return difference;
    }
    return 0;
  }
  bool CanKeysWithDifferentByteContentsBeEqual() const override { return true; }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

const Comparator* const kComparators[] = {rocksdb::BytewiseComparator(), rocksdb::ReverseBytewiseComparator(),
                                          HashOrderComparator(HashKind::kXxh3, 7), new ForeignComparator};

// A memtable as RocksDB would make it.
class Table {
 public:
  Table(const Comparator* comparator, const std::shared_ptr<SubMemTableFactory>& factory,
        size_t arena_block = kArenaBlock, rocksdb::AllocTracker* tracker = nullptr)
      : internal_(comparator),
        key_comparator_(internal_),
        tracker_(tracker),
        arena_(arena_block, tracker),
        rep_(factory->CreateMemTableRep(key_comparator_, &arena_, nullptr, nullptr, 0)) {}
  // RocksDB asserts that it is told before the arena goes.
  ~Table() {
    if (tracker_ != nullptr) tracker_->FreeMem();
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  static size_t EncodedBytes(const Slice& key, const Slice& value) {
    const auto internal_bytes = static_cast<uint32_t>(key.size() + 8);
    return rocksdb::VarintLength(internal_bytes) + internal_bytes + rocksdb::VarintLength(value.size()) + value.size();
  }

  KeyHandle Prepare(const Slice& key, uint64_t sequence, const Slice& value) {
    char* to = nullptr;
    KeyHandle handle = rep_->Allocate(EncodedBytes(key, value), &to);
    to = rocksdb::EncodeVarint32(to, static_cast<uint32_t>(key.size() + 8));
    memcpy(to, key.data(), key.size());
    rocksdb::EncodeFixed64(to + key.size(), rocksdb::PackSequenceAndType(sequence, rocksdb::kTypeValue));
    to = rocksdb::EncodeVarint32(to + key.size() + 8, static_cast<uint32_t>(value.size()));
    memcpy(to, value.data(), value.size());
    return handle;
  }

  void Add(const Slice& key, uint64_t sequence, const Slice& value) {
    rep_->InsertConcurrently(Prepare(key, sequence, value));
  }

  static uint64_t SequenceOf(const char* entry) { return KeyOf(entry).tag >> 8; }
  static std::string ValueOf(const char* entry) {
    const Slice key = rocksdb::GetLengthPrefixedSlice(entry);
    return rocksdb::GetLengthPrefixedSlice(key.data() + key.size()).ToString();
  }

  // The sequences of the key's versions up to `snapshot`, at most `limit`, as Get presents them.
  std::vector<uint64_t> Versions(const Slice& key, uint64_t snapshot, size_t limit) const {
    struct Collector {
      const Comparator* comparator;
      Slice key;
      size_t limit;
      std::vector<uint64_t> sequences;
    } collector{internal_.user_comparator(), key, limit, {}};
    const rocksdb::LookupKey lookup(key, snapshot);
    rep_->Get(lookup, &collector, [](void* argument, const char* entry) {
      auto* all = static_cast<Collector*>(argument);
      if (all->comparator->Compare(KeyOf(entry).user_key, all->key) != 0) return false;
      all->sequences.push_back(SequenceOf(entry));
      return all->sequences.size() < all->limit;
    });
    return collector.sequences;
  }

  MemTableRep* rep() const { return rep_.get(); }
  const rocksdb::InternalKeyComparator& internal() const { return internal_; }

 private:
  const rocksdb::InternalKeyComparator internal_;
  const rocksdb::MemTable::KeyComparator key_comparator_;
  rocksdb::AllocTracker* const tracker_;
  rocksdb::ConcurrentArena arena_;
  const std::unique_ptr<MemTableRep> rep_;
};

std::shared_ptr<SubMemTableFactory> FactoryOf(const std::string& options) {
  auto factory = std::make_shared<SubMemTableFactory>();
  const rocksdb::Status s = factory->ConfigureFromString(rocksdb::ConfigOptions(), options);
  EXPECT_TRUE(s.ok()) << s.ToString();
  return factory;
}

std::string InternalKey(const Slice& key, uint64_t sequence) {
  std::string bytes = key.ToString();
  rocksdb::PutFixed64(&bytes, rocksdb::PackSequenceAndType(sequence, rocksdb::kValueTypeForSeek));
  return bytes;
}

// Keys that are prefixes of each other, agree in many bytes, and differ in case only.
std::string RandomKey(std::mt19937_64* random) {
  const uint64_t number = (*random)() % 300;
  switch (number % 5) {
    case 0:
      return std::string(number / 5 % 20, '\0');
    case 1:
      return "a common beginning of many bytes " + std::to_string(number);
    case 2:
      return std::string(number % 2 == 0 ? "K" : "k") + std::to_string(number / 10);
    case 3:
      return std::string(8, static_cast<char>(number * 7)) + std::to_string(number % 3);
    default:
      return std::to_string(number * 2654435761U);
  }
}

class SubMemTableModelTest : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

struct Before {
  const rocksdb::InternalKeyComparator* comparator;
  bool operator()(const std::string& a, const std::string& b) const { return comparator->Compare(a, b) < 0; }
};
using Model = std::map<std::string, std::string, Before>;

void CheckScans(const Table& table, const Model& model, const std::string& target) {
  std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
  auto expect_at = [&](Model::const_iterator expected) {
    ASSERT_EQ(iterator->Valid(), expected != model.end());
    if (!iterator->Valid()) return;
    ASSERT_EQ(rocksdb::GetLengthPrefixedSlice(iterator->key()).ToString(true), Slice(expected->first).ToString(true));
    ASSERT_EQ(Table::ValueOf(iterator->key()), expected->second);
  };
  auto it = model.begin();
  for (iterator->SeekToFirst(); it != model.end(); ++it, iterator->Next()) expect_at(it);
  ASSERT_FALSE(iterator->Valid());
  auto back = model.rbegin();
  for (iterator->SeekToLast(); back != model.rend(); ++back, iterator->Prev()) expect_at(std::prev(back.base()));
  ASSERT_FALSE(iterator->Valid());
  // There and back again, from somewhere.
  it = model.lower_bound(target);
  iterator->Seek(target, nullptr);
  expect_at(it);
  for (int step = 0; it != model.end() && step < 40; ++step) {
    if (step % 5 < 3) {
      ++it;
      iterator->Next();
    } else if (it != model.begin()) {
      --it;
      iterator->Prev();
    }
    expect_at(it);
  }
  it = model.upper_bound(target);
  iterator->SeekForPrev(target, nullptr);
  expect_at(it == model.begin() ? model.end() : std::prev(it));
}

TEST_P(SubMemTableModelTest, AgreesWithAnOrderedMap) {
  std::mt19937_64 random(Seed() + static_cast<uint64_t>(std::get<0>(GetParam())));
  const Comparator* comparator = kComparators[std::get<0>(GetParam())];
  Table table(comparator, FactoryOf(std::get<1>(GetParam())));
  Model model(Before{&table.internal()});
  std::vector<uint64_t> sequences(4000);
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i] = i + 1;
  // Writers of other cores publish in another order.
  for (size_t i = 0; i + 1 < sequences.size(); ++i) {
    std::swap(sequences[i], sequences[i + random() % std::min<size_t>(20, sequences.size() - i)]);
  }
  // The first half is not read, so that the indexes begin with many entries.
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::string key = RandomKey(&random);
    const size_t value_bytes = random() % 500 == 0 ? random() % 100000 : random() % 60;
    const std::string value(value_bytes, static_cast<char>('a' + i % 26));
    table.Add(key, sequences[i], value);
    std::string internal_key = key;
    rocksdb::PutFixed64(&internal_key, rocksdb::PackSequenceAndType(sequences[i], rocksdb::kTypeValue));
    model[internal_key] = value;
    if (i > sequences.size() / 2 && random() % 8 == 0) {
      const std::string wanted = RandomKey(&random);
      const uint64_t snapshot = random() % 3 == 0 ? random() % sequences.size() : sequences.size();
      const size_t limit = 1 + random() % 6;
      std::vector<uint64_t> expected;
      for (auto it = model.lower_bound(InternalKey(wanted, snapshot));
           it != model.end() && expected.size() < limit &&
           comparator->Compare(rocksdb::ExtractUserKey(it->first), wanted) == 0;
           ++it) {
        expected.push_back(rocksdb::GetInternalKeySeqno(it->first));
      }
      ASSERT_EQ(table.Versions(wanted, snapshot, limit), expected)
          << Slice(wanted).ToString(true) << " at " << snapshot;
    }
    if (i > sequences.size() / 2 && random() % 200 == 0) {
      CheckScans(table, model, InternalKey(RandomKey(&random), random() % sequences.size()));
      if (HasFatalFailure()) return;
    }
  }
  const size_t before = table.rep()->ApproximateMemoryUsage();
  table.rep()->MarkReadOnly();
  const size_t frozen = table.rep()->ApproximateMemoryUsage();
  EXPECT_EQ(frozen, before);
  for (int i = 0; i < 20; ++i) {
    CheckScans(table, model, InternalKey(RandomKey(&random), random() % sequences.size()));
    if (HasFatalFailure()) return;
    const std::string wanted = RandomKey(&random);
    size_t versions = 0;
    for (const auto& entry : model) {
      versions += comparator->Compare(rocksdb::ExtractUserKey(entry.first), wanted) == 0 ? 1 : 0;
    }
    EXPECT_EQ(table.Versions(wanted, sequences.size(), SIZE_MAX).size(), versions);
  }
  EXPECT_EQ(table.rep()->ApproximateMemoryUsage(), frozen);
  EXPECT_EQ(table.rep()->ApproximateNumEntries(model.begin()->first, std::prev(model.end())->first), model.size() - 1);
  std::unordered_set<const char*> sample;
  table.rep()->UniqueRandomSample(model.size(), 100, &sample);
  EXPECT_EQ(sample.size(), 100u);
}

// Iterators after every few writes. Keys begin alike, as those of most programs do, and less so as more of them come.
TEST_P(SubMemTableModelTest, ScansBetweenWrites) {
  std::mt19937_64 random(Seed() + static_cast<uint64_t>(std::get<0>(GetParam())));
  for (size_t least = 0; least <= 30; least += 10) {
    Table table(kComparators[std::get<0>(GetParam())], FactoryOf(std::get<1>(GetParam())));
    Model model(Before{&table.internal()});
    for (size_t common = 30; common + 10 > least; common -= 10) {
      const auto random_key = [&] {
        std::string key(common, 'x');
        if (random() % 4 == 0) key.resize(random() % 64, 'y');
        return key + (common == 30 ? "z" : "") + std::to_string(random() % 50);
      };
      for (int i = 0; i < 150; ++i) {
        const std::string key = random_key();
        const uint64_t sequence = model.size() + 1;
        table.Add(key, sequence, key);
        std::string internal_key = key;
        rocksdb::PutFixed64(&internal_key, rocksdb::PackSequenceAndType(sequence, rocksdb::kTypeValue));
        model[internal_key] = key;
        if (random() % (i < 50 ? 1 : 20) != 0) continue;
        CheckScans(table, model, InternalKey(random() % 8 == 0 ? RandomKey(&random) : random_key(), random() % 400));
        if (HasFatalFailure()) return;
      }
      if (common == 0) break;
    }
    table.rep()->MarkReadOnly();
    for (int i = 0; i < 20; ++i) {
      const std::string key = RandomKey(&random);
      CheckScans(table, model, InternalKey(std::string(random() % 35, 'x') + key.substr(0, random() % 10), i * 20));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, SubMemTableModelTest,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3),
                                            ::testing::Values("segment_size=64K",
                                                              "segment_size=4K;copy_on_seal=true")));

TEST(SubMemTableTest, ValidatesTheOrderOfItsEntries) {
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""));
  for (uint64_t n = 0; n < 100; ++n) table.Add("key" + std::to_string(100 + n), n + 1, "value");
  const std::unique_ptr<port::MemTableRep::CheckedIterator> iterator(
      static_cast<port::MemTableRep::CheckedIterator*>(table.rep()->GetIterator()));
  const auto get = [&](const std::string& key) {
    const rocksdb::LookupKey lookup(key, 1000);
    return static_cast<port::MemTableRep*>(table.rep())
        ->GetChecked(
            lookup, nullptr, [](void*, const char*) { return true; }, true, nullptr);
  };
  ASSERT_TRUE(get("key150").ok());
  ASSERT_TRUE(iterator->SeekChecked(InternalKey("key150", 1000), nullptr, true, nullptr).ok());
  ASSERT_TRUE(iterator->NextAndValidate(true).ok());
  ASSERT_TRUE(iterator->PrevAndValidate(true).ok());
  ASSERT_EQ(KeyOf(iterator->key()).user_key.ToString(), "key150");
  iterator->Next();
  // A bit of "key151" flips, which becomes "+ey151".
  const_cast<char*>(KeyOf(iterator->key()).user_key.data())[0] ^= 0x40;
  EXPECT_TRUE(get("key150").IsCorruption());
  ASSERT_TRUE(iterator->SeekChecked(InternalKey("key150", 1000), nullptr, false, nullptr).ok());
  EXPECT_TRUE(iterator->NextAndValidate(false).IsCorruption());
  EXPECT_FALSE(iterator->Valid());
  ASSERT_TRUE(iterator->SeekChecked(InternalKey("key152", 1000), nullptr, true, nullptr).ok());
  EXPECT_TRUE(iterator->PrevAndValidate(true).ok());  // to the damaged one, which is smaller
  EXPECT_TRUE(iterator->PrevAndValidate(true).IsCorruption());
}

// Releases of RocksDB that have the option ask a memtable for all keys of a MultiGet at once.
TEST(SubMemTableTest, BatchedLookupsFindWhatLookupsDo) {
  const std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  for (const char* const paranoid : {"false", "true"}) {
    rocksdb::ConfigOptions config;
    config.ignore_unknown_options = true;
    rocksdb::ColumnFamilyOptions family;
    ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(
        config, family, std::string("memtable_batch_lookup_optimization=true;paranoid_memory_checks=") + paranoid,
        &family));
    rocksdb::Options options(rocksdb::DBOptions(), family);
    options.create_if_missing = true;
    options.env = env.get();
    options.memtable_factory = NewSubMemTableFactory(SubMemTableOptions());
    std::unique_ptr<rocksdb::DB> db;
    ASSERT_OK(rocksdb::DB::Open(options, std::string("/batched_") + paranoid, port::Into(&db)));
    const rocksdb::Snapshot* snapshot = nullptr;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 300; i += 1 + round) {
        const std::string key = "key" + std::to_string(i);
        ASSERT_OK(i % 7 == round ? db->Delete({}, key) : db->Put({}, key, std::to_string(round)));
      }
      if (round == 1) snapshot = db->GetSnapshot();
    }
    for (const bool earlier : {false, true}) {
      rocksdb::ReadOptions read;
      if (earlier) read.snapshot = snapshot;
      std::vector<std::string> names;
      for (int i = 0; i < 310; ++i) names.push_back("key" + std::to_string(i));
      const std::vector<Slice> keys(names.begin(), names.end());
      std::vector<std::string> values;
      const std::vector<rocksdb::Status> found = db->MultiGet(read, keys, &values);
      for (size_t i = 0; i < keys.size(); ++i) {
        std::string value;
        ASSERT_EQ(found[i], db->Get(read, keys[i], &value)) << names[i];
        ASSERT_EQ(values[i], value) << names[i];
      }
    }
    db->ReleaseSnapshot(snapshot);
  }
}

TEST(SubMemTableTest, SortsByTheBytesBehindACommonBeginning) {
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""));
  const auto depth_with = [&](const std::string& key, uint64_t sequence) {
    table.Add(key, sequence, "");
    const std::shared_ptr<const RunSet> runs = static_cast<SubMemTable*>(table.rep())->SortedRuns();
    for (const auto& run : *runs) EXPECT_EQ(run->depth(), runs->front()->depth());
    return runs->back()->depth();
  };
  for (uint64_t i = 0; i < 100; ++i) table.Add("a long name " + std::to_string(i), i + 1, "");
  EXPECT_EQ(depth_with("a long name 100", 101), 12U);
  EXPECT_EQ(depth_with("a long name", 102), 11U);
  EXPECT_EQ(depth_with("a long time", 103), 7U);
  EXPECT_EQ(depth_with("a long name 200", 104), 7U);
  EXPECT_EQ(depth_with("", 105), 0U);
}

// So many at last that they are sorted in place.
TEST(SubMemTableTest, SortsAsTheComparatorSays) {
  std::mt19937_64 random(Seed());
  for (const Comparator* comparator : kComparators) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{40}, size_t{1000}, 3 * SortItems::kSpareItems}) {
      Table table(comparator, FactoryOf(""));
      for (uint64_t i = 1; i <= count; ++i)
        table.Add(RandomKey(&random) + (i % 3 == 0 ? RandomKey(&random) : ""), i, "");
      table.rep()->MarkReadOnly();
      std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
      size_t seen = 0;
      std::string last;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++seen) {
        const Slice key = rocksdb::GetLengthPrefixedSlice(iterator->key());
        if (seen > 0) {
          ASSERT_LT(table.internal().Compare(last, key), 0);
        }
        last = key.ToString();
      }
      EXPECT_EQ(seen, count);
    }
  }
}

// An entry may be too large for the segment in the slot and not for the next one, which would be larger.
TEST(SubMemTableTest, TakesEntriesOfEverySizeAsSegmentsGrow) {
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 60; ++round) {
    Table table(rocksdb::BytewiseComparator(), FactoryOf(""), 4096);
    constexpr uint64_t kEntries = 1500;
    for (uint64_t i = 1; i <= kEntries; ++i)
      table.Add("k", i, std::string(random() % (size_t{8} << random() % 15), 'v'));
    table.rep()->MarkReadOnly();
    EXPECT_EQ(table.Versions("k", kEntries, SIZE_MAX).size(), kEntries);
  }
}

// Writers with sequences of their own; `acknowledged[i]`: the writer's last sequence that was published.
struct Writers {
  static constexpr int kCount = 3;
  static constexpr uint64_t kKeys = 500;

  static std::string Key(int writer, uint64_t i) { return std::to_string(i % kKeys) + "/" + std::to_string(writer); }
  static uint64_t Sequence(int writer, uint64_t i) { return i * kCount + static_cast<uint64_t>(writer); }

  void Run(Table* table, int writer, uint64_t entries) {
    for (uint64_t i = 1; i <= entries; ++i) {
      const std::string value(i % 90, static_cast<char>('a' + i % 26));
      table->Add(Key(writer, i), Sequence(writer, i), i % 4001 == 0 ? std::string(30000, 'L') : value);
      acknowledged[writer].store(i, std::memory_order_release);
    }
    running.fetch_sub(1, std::memory_order_release);
  }

  std::atomic<uint64_t> acknowledged[kCount] = {};
  std::atomic<int> running{kCount};
};

class SubMemTableStressTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SubMemTableStressTest, ReadersAndLongIteratorsDuringWrites) {
  constexpr uint64_t kEntries = 40000;
  const std::shared_ptr<SubMemTableFactory> factory = FactoryOf(GetParam());
  Table table(HashOrderComparator(HashKind::kXxh3, 0), factory);
  Writers writers;
  std::vector<std::thread> threads;
  for (int w = 0; w < Writers::kCount; ++w) threads.emplace_back([&, w] { writers.Run(&table, w, kEntries); });
  // Point reads: what was acknowledged is found, newest first.
  threads.emplace_back([&] {
    std::mt19937_64 random(Seed());
    while (writers.running.load(std::memory_order_acquire) > 0) {
      const int w = static_cast<int>(random() % Writers::kCount);
      const uint64_t last = writers.acknowledged[w].load(std::memory_order_acquire);
      if (last == 0) continue;
      const uint64_t i = last - random() % std::min<uint64_t>(last, Writers::kKeys);
      const std::vector<uint64_t> found = table.Versions(Writers::Key(w, i), Writers::Sequence(w, i), 2);
      ASSERT_FALSE(found.empty());
      ASSERT_EQ(found[0], Writers::Sequence(w, i));
      if (found.size() == 2) {
        ASSERT_EQ(found[1], Writers::Sequence(w, i - Writers::kKeys));
      }
    }
  });
  // Long-lived iterators: they keep seeing whole, ordered entries, at least those acknowledged before.
  threads.emplace_back([&] {
    while (writers.running.load(std::memory_order_acquire) > 0) {
      uint64_t acknowledged = 0;
      for (const auto& each : writers.acknowledged) acknowledged += each.load(std::memory_order_acquire);
      std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
      std::vector<const char*> entries;
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) entries.push_back(iterator->key());
      ASSERT_GE(entries.size(), acknowledged);
      for (int round = 0; round < 3; ++round) {
        iterator->SeekToLast();
        for (int step = 0; step < 200 && iterator->Valid(); ++step) iterator->Prev();
        for (size_t i = 0; i < entries.size(); i += 17) {
          const std::string value = Table::ValueOf(entries[i]);
          ASSERT_TRUE(value.empty() || value.find_first_not_of(value[0]) == std::string::npos);
        }
        std::this_thread::yield();
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  table.rep()->MarkReadOnly();
  std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
  std::set<uint64_t> sequences;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    sequences.insert(Table::SequenceOf(iterator->key()));
  }
  EXPECT_EQ(sequences.size(), kEntries * Writers::kCount);
}

INSTANTIATE_TEST_SUITE_P(Settings, SubMemTableStressTest,
                         ::testing::Values("segment_size=64K", "segment_size=4K;copy_on_seal=true",
                                           "segment_size=8K;copy_on_seal=true;locked_cache=24K;resctrl_root=none"));

const SubMemTable& RepOf(const Table& table) { return *static_cast<const SubMemTable*>(table.rep()); }

// A writer that only appends is faster than a reader that indexes. Whatever the writer does, a lookup adds at most
// kReaderHelps entries to the hash; and what it has not is little soon, because writers add more than they write.
TEST(SubMemTableTest, LookupsCatchUpWithAFastWriter) {
  constexpr uint64_t kBefore = 200000;
  const std::shared_ptr<SubMemTableFactory> factory = FactoryOf("");
  Table table(rocksdb::BytewiseComparator(), factory, 8 << 20);
  auto key = [](uint64_t i) { return std::to_string(i * 2654435761U % 30000); };
  for (uint64_t i = 1; i <= kBefore; ++i) table.Add(key(i), i, "value");
  ASSERT_GE(RepOf(table).UnhashedEntries(), kBefore);
  for (uint64_t i = 0; i < 10; ++i) {
    const uint64_t before = RepOf(table).UnhashedEntries();
    ASSERT_EQ(table.Versions(key(i + 1), rocksdb::kMaxSequenceNumber, 1).size(), 1u);
    ASSERT_GE(RepOf(table).UnhashedEntries() + SubMemTable::kReaderHelps, before);
  }
  // 64 entries for every second one.
  for (uint64_t i = 1; i <= kBefore / 30; ++i) {
    table.Add(key(i), kBefore + i, "value");
    if (i % 100 == 0) table.Versions(key(i), rocksdb::kMaxSequenceNumber, 1);
  }
  EXPECT_LE(RepOf(table).UnhashedEntries(), 64u);
  // Without writers, lookups do it.
  for (uint64_t i = 1; i <= 2; ++i) table.Add(key(i), 2 * kBefore + i, "value");
  for (uint64_t i = 0; i < 64; ++i) table.Versions(key(i), rocksdb::kMaxSequenceNumber, 1);
  EXPECT_EQ(RepOf(table).UnhashedEntries(), 0u);
}

// Nobody reads: writers index what would be too much to look through.
TEST(SubMemTableTest, WhatIsNotIndexedIsBounded) {
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""), 32 << 20);
  for (uint64_t i = 1; i <= SubMemTable::kMostUnhashed * 3 / 2; ++i) {
    table.Add(std::to_string(i % 100000), i, "");
    if (i % 65536 == 0) {
      ASSERT_LE(RepOf(table).UnhashedEntries(), SubMemTable::kMostUnhashed + 4096);
    }
  }
  EXPECT_EQ(table.Versions("77", rocksdb::kMaxSequenceNumber, 1).size(), 1u);
}

// Versions of one key among those that no index has, in the orders in which they may come; then through the index.
TEST(SubMemTableTest, FindsEveryVersionOfAHotKeyInAnyOrder) {
  std::mt19937_64 random(Seed());
  constexpr uint64_t kVersions = 20000;
  std::vector<uint64_t> sequences(kVersions);
  for (uint64_t i = 0; i < kVersions; ++i) sequences[i] = i + 1;
  for (int order = 0; order < 4; ++order) {
    if (order == 1) std::reverse(sequences.begin(), sequences.end());
    if (order == 2) std::shuffle(sequences.begin(), sequences.end(), random);
    if (order == 3) {
      // As of two writers that do not meet.
      std::sort(sequences.begin(), sequences.end(),
                [](uint64_t a, uint64_t b) { return std::make_pair(a % 2, a) < std::make_pair(b % 2, b); });
    }
    Table table(rocksdb::BytewiseComparator(), FactoryOf(""), 8 << 20);
    for (uint64_t sequence : sequences) {
      table.Add("hot", sequence, "");
      if (sequence % 5 == 0) table.Add("other" + std::to_string(sequence), kVersions + sequence, "");
    }
    const auto check = [&](uint64_t snapshot, size_t limit) {
      std::vector<uint64_t> expected;
      for (uint64_t i = snapshot; i > 0 && expected.size() < limit; --i) expected.push_back(i);
      ASSERT_EQ(table.Versions("hot", snapshot, limit), expected);
    };
    for (int i = 0; i < 50; ++i) check(1 + random() % kVersions, 1 + random() % 150);
    for (uint64_t i = 0; i < 300; ++i) check(1 + random() % kVersions, 1);
    check(kVersions, SIZE_MAX);
    EXPECT_LE(RepOf(table).UnhashedEntries(), 64u);
    for (uint64_t i = 0; i < 300; ++i) check(1 + random() % kVersions, 1 + random() % 3);
    check(kVersions, SIZE_MAX);
  }
}

// As a tailing iterator does: what is written behind the last entry is seen from there, without a seek.
TEST(SubMemTableTest, AnIteratorGoesOnWhenSomethingWasWrittenBehindItsLastEntry) {
  for (const Comparator* comparator : {rocksdb::BytewiseComparator(), kComparators[3]}) {
    Table table(comparator, FactoryOf(""));
    const auto key = [](int i) { return std::to_string(1000 + i); };
    for (int i = 0; i < 10; ++i) table.Add(key(i), i + 1, "");
    const TailingScope tailing;
    std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
    std::unique_ptr<MemTableRep::Iterator> another(table.rep()->GetIterator());
    iterator->Seek(InternalKey(key(9), rocksdb::kMaxSequenceNumber), nullptr);
    for (int i = 9; i < 500; ++i) {
      ASSERT_TRUE(iterator->Valid());
      ASSERT_EQ(KeyOf(iterator->key()).user_key.ToString(), key(i));
      if (i % 3 != 0) table.Add(key(i + 1), i + 2, "");
      if (i % 3 == 0) {
        table.Add(key(i + 1), i + 2, "");
        table.Add(key(i - 1), 1000 + i, "");  // before it: of no interest
      }
      if (i % 4 == 0) another->SeekToFirst();  // sorts what is new
      iterator->Next();
    }
    iterator->Next();
    EXPECT_FALSE(iterator->Valid());
  }
}

// Two entries come one after the other, in different segments, while a tailing iterator collects what there is: who
// sees the second one has seen the first.
TEST(SubMemTableTest, ATailingIteratorPassesOverNothingThatWasWrittenBefore) {
  constexpr int kRounds = 10;
  // With such prefixes so many keys take milliseconds to collect.
  constexpr size_t kKeys = 40000;
  const Comparator* const comparator = HashOrderComparator(HashKind::kSha1, 7);
  std::vector<std::string> keys;
  for (size_t i = 0; i < kKeys; ++i) keys.push_back(std::to_string(i));
  std::sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) { return comparator->Compare(a, b) < 0; });
  for (int round = 0; round < kRounds; ++round) {
    rocksdb::WriteBufferManager manager(size_t{4} << 30);
    rocksdb::AllocTracker tracker(&manager);
    Table table(comparator, FactoryOf("segment_size=2M;pool_size=0"), 32 << 20, &tracker);
    KeyHandle first = nullptr;
    KeyHandle second = nullptr;
    std::thread([&] {
      for (size_t i = 0; i < kKeys - 2; ++i) table.Add(keys[i], i + 1, "");
      first = table.Prepare(keys[kKeys - 2], kKeys, "");
      // The segment that has most is busy, so that this one comes into another one, behind it.
      std::thread([&] { second = table.Prepare(keys[kKeys - 1], kKeys + 1, ""); }).join();
    }).join();
    const size_t before = manager.memory_usage();
    std::atomic<bool> ready{false};
    std::thread writer([&] {
      ready.store(true);
      // What is sorted is charged for before the first segment is looked at.
      while (manager.memory_usage() == before) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      table.rep()->InsertConcurrently(first);
      table.rep()->InsertConcurrently(second);
    });
    while (!ready.load()) std::this_thread::yield();
    const TailingScope tailing;
    const std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
    iterator->Seek(InternalKey(keys[kKeys - 2], rocksdb::kMaxSequenceNumber), nullptr);
    if (iterator->Valid()) {
      EXPECT_EQ(KeyOf(iterator->key()).user_key.ToString(), keys[kKeys - 2]) << "round " << round;
    }
    writer.join();
    iterator->Seek(InternalKey(keys[kKeys - 3], rocksdb::kMaxSequenceNumber), nullptr);
    for (size_t i = kKeys - 3; i < kKeys; ++i, iterator->Next()) {
      ASSERT_TRUE(iterator->Valid()) << i;
      ASSERT_EQ(KeyOf(iterator->key()).user_key.ToString(), keys[i]);
    }
    EXPECT_FALSE(iterator->Valid());
  }
}

// Sees what is counted while a memtable is sorted.
class WatchingComparator : public ForeignComparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override {
    most = std::max<size_t>(most, manager->memory_usage());
    return ForeignComparator::Compare(a, b);
  }
  rocksdb::WriteBufferManager* manager = nullptr;
  mutable std::atomic<size_t> most{0};
};

TEST(SubMemTableTest, SortingIsCountedAndLittle) {
  constexpr size_t kEntries = 200000;
  rocksdb::WriteBufferManager manager(size_t{1} << 30);
  const auto comparator = std::make_unique<WatchingComparator>();
  comparator->manager = &manager;
  const auto factory = FactoryOf("pool_size=0");
  {
    rocksdb::AllocTracker tracker(&manager);
    Table table(comparator.get(), factory, 8 << 20, &tracker);
    for (size_t i = 0; i < kEntries; ++i) table.Add(std::to_string(i * 7919 % kEntries), i + 1, "");
    table.rep()->MarkReadOnly();
    const size_t before = manager.memory_usage();
    const size_t active = manager.mutable_memtable_memory_usage();
    comparator->most = 0;
    std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
    iterator->SeekToFirst();
    EXPECT_GE(comparator->most, before + kEntries * 8);
    EXPECT_LE(comparator->most, before + kEntries * 8 + (1 << 20));
    EXPECT_EQ(manager.memory_usage(), before);
    EXPECT_EQ(manager.mutable_memtable_memory_usage(), active);
    SubMemTableStats stats;
    ASSERT_TRUE(GetSubMemTableStats(*factory, &stats).ok());
    EXPECT_EQ(stats.sorting_bytes, 0u);
    EXPECT_EQ(stats.most_sorting_bytes + before, comparator->most);
  }
  // Of an iterator over a memtable that is being written: all of it, but for two entries.
  rocksdb::AllocTracker tracker(&manager);
  Table table(comparator.get(), factory, 8 << 20, &tracker);
  for (size_t i = 0; i < kEntries; ++i) table.Add(std::to_string(i * 7919 % kEntries), i + 1, "");
  const size_t before = manager.memory_usage();
  comparator->most = 0;
  std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
  iterator->SeekToFirst();
  EXPECT_GE(comparator->most, before + kEntries * 24);
  EXPECT_LE(manager.memory_usage(), before + kEntries * 16 + 64);
}

// RocksDB adds the figure to the sum of its read-only memtables before MarkReadOnly, while readers go on, and takes
// away later what it is then: the sum would fall below zero.
TEST(SubMemTableTest, OnlyWritesChangeTheMemoryThatIsReported) {
  rocksdb::WriteBufferManager manager(size_t{1} << 30);
  rocksdb::AllocTracker tracker(&manager);
  Table table(rocksdb::BytewiseComparator(), FactoryOf("pool_size=0"), kArenaBlock, &tracker);
  uint64_t sequence = 0;
  for (; sequence < 20000; ++sequence) table.Add(std::to_string(sequence), sequence + 1, "");
  const size_t before = table.rep()->ApproximateMemoryUsage();
  const size_t held = manager.memory_usage();
  for (uint64_t i = 0; i < sequence; ++i) ASSERT_EQ(table.Versions(std::to_string(i), sequence, 1).size(), 1u);
  EXPECT_EQ(table.rep()->ApproximateMemoryUsage(), before);
  std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
  iterator->SeekToFirst();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(table.rep()->ApproximateMemoryUsage(), before);
  // What the hash and the runs take is known at once where memory is limited, and reported after the next write.
  const size_t taken = manager.memory_usage() - held;
  EXPECT_GE(taken, 2 * 8 * sequence);
  table.Add("a", ++sequence, "");
  EXPECT_GE(table.rep()->ApproximateMemoryUsage(), before + taken);
  const size_t at_last = table.rep()->ApproximateMemoryUsage();
  iterator->SeekToFirst();
  table.rep()->MarkReadOnly();
  EXPECT_EQ(table.rep()->ApproximateMemoryUsage(), at_last);
}

size_t CountMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

// The kernel gives a process so many mappings; a seal by copy that finds none left at any of its steps leaves all as it
// was.
TEST(CopyingBackingTest, SealsThatFailLeaveTheSegmentsAsTheyWere) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer needs mappings itself";
#endif
  size_t limit = 0;
  if (!(std::ifstream("/proc/sys/vm/max_map_count") >> limit) || limit > 200000) GTEST_SKIP() << "no limit to reach";
  const size_t mappings_before = CountMappings();
  size_t copied = 0;
  size_t refused = 0;
  {
    SegmentPool pool(NewAreaBacking(nullptr, 40 * (64 << 10)), 0);
    std::vector<char*> segments;
    for (int i = 0; i < 40; ++i) {
      char* base = nullptr;
      size_t bytes = 0;
      ASSERT_TRUE(pool.Claim(64 << 10, 64 << 10, {}, &base, &bytes).ok());
      memset(base, 'a' + i % 26, bytes);
      reinterpret_cast<std::atomic<uint64_t>*>(base)->store(SegmentWord{1, SegmentState::kSealed, 64 << 10}.Encode());
      segments.push_back(base);
    }
    // Neighbours of different protection, so that each page is a mapping; all that can be had, then a few less.
    const size_t pages = limit + 100;
    char* const room =
        static_cast<char*>(mmap(nullptr, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ASSERT_NE(room, MAP_FAILED);
    size_t used = 0;
    while (used + 2 < pages && mprotect(room + (used + 1) * 4096, 4096, PROT_READ) == 0) used += 2;
    std::vector<bool> is_copy;
    for (size_t i = 0; i < segments.size(); ++i) {
      if (i > 0 && i % 2 == 0 && used >= 2) {
        used -= 2;
        mprotect(room + (used + 1) * 4096, 4096, PROT_NONE);
      }
      is_copy.push_back(pool.Seal(segments[i], 64 << 10, 64 << 10));
      ++(is_copy.back() ? copied : refused);
    }
    munmap(room, pages * 4096);
    for (size_t i = 0; i < segments.size(); ++i) {
      for (size_t at = 64; at < 64 << 10; at += 777) ASSERT_EQ(segments[i][at], static_cast<char>('a' + i % 26)) << i;
      pool.Release(segments[i], 64 << 10, is_copy[i]);
    }
    const SegmentPool::Stats stats = pool.GetStats();
    EXPECT_EQ(stats.claimed_bytes, 0u);
    EXPECT_EQ(stats.copied_bytes, 0u);
  }
  EXPECT_GT(copied, 0u);
  EXPECT_GT(refused, 0u);
  // What is left at the limit of addresses without memory is no loss.
  EXPECT_LE(CountMappings(), mappings_before + 10);
}

// What the pool keeps free is counted, and is little of the limit.
TEST(SubMemTableTest, FreeSegmentsAreCounted) {
  const auto factory = FactoryOf("");
  rocksdb::WriteBufferManager manager(size_t{64} << 20);
  {
    rocksdb::AllocTracker tracker(&manager);
    Table stays(rocksdb::BytewiseComparator(), factory, 8 << 20, &tracker);
    const size_t before = manager.memory_usage();
    {
      rocksdb::AllocTracker other(&manager);
      Table table(rocksdb::BytewiseComparator(), factory, 8 << 20, &other);
      for (size_t i = 0; i < 20000; ++i) table.Add(std::to_string(i), i + 1, std::string(1000, 'x'));
      EXPECT_GT(manager.memory_usage(), size_t{20} << 20);
    }
    SubMemTableStats stats;
    ASSERT_TRUE(GetSubMemTableStats(*factory, &stats).ok());
    EXPECT_GT(stats.free_bytes, size_t{2} << 20);
    EXPECT_LE(stats.free_bytes, (size_t{4} << 20));
    EXPECT_EQ(manager.memory_usage() - before, stats.free_bytes);
    EXPECT_LT(manager.mutable_memtable_memory_usage(), size_t{1} << 20);
  }
  EXPECT_EQ(manager.memory_usage(), 0u);
  EXPECT_EQ(manager.mutable_memtable_memory_usage(), 0u);
}

// Many databases may share a WriteBufferManager, and all of them wait when it is full: what no flush would free is
// little of its limit, of all their pools together.
TEST(SubMemTableTest, FreeSegmentsOfManyPoolsAreLittleOfOneLimit) {
  constexpr size_t kLimit = size_t{4} << 20;
  rocksdb::WriteBufferManager manager(kLimit);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<SubMemTableFactory>> factories;
    std::vector<std::unique_ptr<rocksdb::AllocTracker>> trackers;
    std::vector<std::unique_ptr<Table>> tables;
    const auto passing = [&] { return manager.memory_usage() - manager.mutable_memtable_memory_usage(); };
    for (int i = 0; i < 12; ++i) {
      factories.push_back(FactoryOf(""));
      trackers.push_back(std::make_unique<rocksdb::AllocTracker>(&manager));
      tables.push_back(
          std::make_unique<Table>(rocksdb::BytewiseComparator(), factories.back(), kLimit, trackers.back().get()));
      tables.back()->Add("key", 1, "value");
      EXPECT_LE(passing(), kLimit / 16) << i;
    }
    EXPECT_GT(passing(), kLimit / 32);
    // Who is left counts what those who went have counted, when its pool changes.
    while (tables.size() > 1) {
      tables.pop_back();
      trackers.pop_back();
    }
    int written = 0;
    const auto write = [&] { tables[0]->Add(std::to_string(written), written + 2, std::string(1000, 'x')), ++written; };
    while (written < 3000) write();
    // How much that is depends on the cores that the thread has run on: it may just have claimed its last free segment.
    SubMemTableStats stats;
    do {
      write();
      ASSERT_TRUE(GetSubMemTableStats(*factories[0], &stats).ok());
    } while (stats.free_bytes < kLimit / 16 && written < 100000);
    EXPECT_GE(stats.free_bytes, kLimit / 16);
    EXPECT_EQ(passing(), std::min(stats.free_bytes, kLimit / 16));
    tables.clear();
    trackers.clear();
    EXPECT_EQ(manager.memory_usage(), 0u);
    EXPECT_EQ(manager.mutable_memtable_memory_usage(), 0u);
  }
}

// RocksDB lets databases that share a manager hold seven eighths of its limit, and an idle one flushes nothing: with
// allow_stall, another one would wait for ever if that, and what the pools keep free, were the limit.
TEST(SubMemTableTest, MemtablesBelowSevenEighthsOfALimitLetNobodyWait) {
  for (const size_t limit : {size_t{1} << 20, size_t{4} << 20, size_t{20} << 20}) {
    rocksdb::WriteBufferManager manager(limit, nullptr, /*allow_stall=*/true);
    std::vector<std::unique_ptr<rocksdb::AllocTracker>> trackers;
    std::vector<std::unique_ptr<Table>> tables;
    for (int i = 0; i < 3; ++i) {
      trackers.push_back(std::make_unique<rocksdb::AllocTracker>(&manager));
      tables.push_back(
          std::make_unique<Table>(rocksdb::BytewiseComparator(), FactoryOf(""), limit / 8, trackers.back().get()));
    }
    const auto is_little = [&] { return manager.mutable_memtable_memory_usage() < limit / 16 * 14; };
    for (uint64_t i = 0; is_little(); ++i) {
      tables[i % tables.size()]->Add(std::to_string(i), i + 1, std::string(1000, 'x'));
      ASSERT_TRUE(!is_little() || !manager.ShouldStall())
          << manager.mutable_memtable_memory_usage() << " and " << manager.memory_usage() << " of " << limit;
    }
    tables.clear();
  }
}

// A limit of all memtables that is far below one's write buffer is not taken by one segment.
TEST(SubMemTableTest, OneSegmentIsLittleOfASmallLimit) {
  constexpr size_t kLimit = 100000;
  rocksdb::WriteBufferManager manager(kLimit);
  rocksdb::AllocTracker tracker(&manager);
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""), size_t{1} << 20, &tracker);
  table.Add("key", 1, "value");
  EXPECT_LT(manager.mutable_memtable_memory_usage(), kLimit / 4);
}

// RocksDB may give up an entry between Allocate and Insert: its place and its segment are used again.
TEST(SubMemTableTest, AnEntryThatIsNeverInsertedBlocksNobody) {
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""));
  for (int round = 0; round < 1000; ++round) {
    table.Prepare("given up" + std::to_string(round), 5000 + round, round % 100 == 0 ? std::string(9000, 'x') : "");
    if (round % 3 == 0) table.Add(std::to_string(round), round + 1, "v");
    if (round % 50 == 0) std::thread([&] { table.Prepare("by another", 5000, ""); }).join();
  }
  for (int round = 0; round < 1000; round += 3) {
    EXPECT_EQ(table.Versions(std::to_string(round), 4000, 9).size(), 1u) << round;
  }
  EXPECT_TRUE(table.Versions("given up0", 9000, 9).empty());
  table.rep()->MarkReadOnly();
  std::unique_ptr<MemTableRep::Iterator> iterator(table.rep()->GetIterator());
  int seen = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) ++seen;
  EXPECT_EQ(seen, 334);
}

// A read-only memtable that nobody has read: lookups go without an index while it is sorted, then to the final run.
TEST(SubMemTableTest, LooksUpWhileAReadOnlyMemtableIsSorted) {
  for (const Comparator* comparator : kComparators) {
    Table table(comparator, FactoryOf(""), 8 << 20);
    for (uint64_t i = 1; i <= 100000; ++i) table.Add(std::to_string(i % 1000), i, "v");
    table.rep()->MarkReadOnly();
    for (int round = 0; round < 20; ++round) {
      for (uint64_t i = 0; i < 1000; i += 37) {
        ASSERT_EQ(table.Versions(std::to_string(i), 3000 + i, 2), (std::vector<uint64_t>{3000 + i, 2000 + i}));
      }
      ASSERT_TRUE(table.Versions("none", 100000, 1).empty());
      ASSERT_EQ(table.Versions("5", 100000, SIZE_MAX).size(), 100u);
    }
  }
}

// Entries of RocksDB's memtables, by sequence.
std::string PlainEntry(const Slice& key, uint64_t sequence) {
  std::string entry;
  rocksdb::PutVarint32(&entry, static_cast<uint32_t>(key.size() + 8));
  entry.append(key.data(), key.size());
  rocksdb::PutFixed64(&entry, rocksdb::PackSequenceAndType(sequence, rocksdb::kTypeValue));
  rocksdb::PutLengthPrefixedSlice(&entry, "");
  return entry;
}

// One run of words, of keys that all belong to its first one, some with equal tags: every key is found all the same,
// also while the table grows, and the search for one that is not there ends.
TEST(HashIndexTest, BearsALongCluster) {
  constexpr uint64_t kKeys = 1000;
  std::mt19937_64 random(Seed());
  HashIndex index(KeyHash(HashKind::kXxh3, Seed()));
  const auto draw_key = [&] {
    // The bits of the home in a table of 4,096 words, or fewer.
    for (;;) {
      const std::string key = std::to_string(random());
      if ((index.HashOf(key) >> 37 & 0xfff) == 0xff0) return key;
    }
  };
  std::map<std::pair<std::string, uint64_t>, std::string> entries;  // newest first
  std::vector<std::string> keys;
  const auto check = [&](const std::string& key, uint64_t sequence) {
    auto versions =
        index.FindHashed({key, rocksdb::PackSequenceAndType(sequence, rocksdb::kValueTypeForSeek)}, index.HashOf(key));
    for (auto it = entries.lower_bound({key, ~sequence}); it != entries.end() && it->first.first == key; ++it) {
      ASSERT_TRUE(versions.Valid()) << key;
      ASSERT_EQ(versions.entry(), it->second.data());
      versions.Next();
    }
    ASSERT_FALSE(versions.Valid()) << key;
  };
  for (uint64_t i = 0; i < 3 * kKeys; ++i) {
    if (i % 3 == 0) keys.push_back(draw_key());
    const std::string& key = keys[random() % keys.size()];
    const uint64_t sequence = random() % 1000000;
    const auto added = entries.emplace(std::make_pair(key, ~sequence), PlainEntry(key, sequence));
    if (!added.second) continue;
    index.Add(added.first->second.data());
    if (i % 16 == 0) check(keys[random() % keys.size()], random() % 1000000);
    if (HasFatalFailure()) return;
  }
  for (const std::string& key : keys) check(key, UINT64_MAX >> 8);
  for (int i = 0; i < 10; ++i) check(draw_key(), UINT64_MAX >> 8);
}

// A writer that comes again while another has just claimed its segment must not take it for one that it left itself.
TEST(SubMemTableTest, ASegmentThatIsOpenHasNoWriter) {
  Table table(rocksdb::BytewiseComparator(), FactoryOf(""));
  for (const bool abandoned : {false, true}) {
    if (abandoned) table.Prepare("b", 2, "never published");
    char* entry = nullptr;
    auto* segment = static_cast<Segment*>(table.rep()->Allocate(32, &entry));
    EXPECT_NE(segment->writer.load(), 0U);
    const std::string encoded = PlainEntry("a", 1);
    ASSERT_LE(encoded.size(), 32U);
    std::copy(encoded.begin(), encoded.end(), entry);
    table.rep()->Insert(segment);
    EXPECT_EQ(segment->writer.load(), 0U);
    EXPECT_EQ(SegmentWord::Decode(segment->word->load()).state, SegmentState::kOpen);
  }
}

TEST(SubMemTableAccountingTest, CountsTheSegmentsThatAreHeld) {
  for (const char* options : {"", "copy_on_seal=true"}) {
    const std::shared_ptr<SubMemTableFactory> factory = FactoryOf(options);
    rocksdb::WriteBufferManager manager(size_t{1} << 30);
    {
      rocksdb::AllocTracker tracker(&manager);
      Table table(rocksdb::BytewiseComparator(), factory, 1 << 20, &tracker);
      Writers writers;
      std::vector<std::thread> threads;
      for (int w = 0; w < Writers::kCount; ++w) threads.emplace_back([&, w] { writers.Run(&table, w, 20000); });
      for (int sample = 0; sample < 20; ++sample) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        // The memtable's figure lies between what the pool counted before it and after it.
        const SegmentPool::Stats before = factory->pool(nullptr)->GetStats();
        const size_t usage = table.rep()->ApproximateMemoryUsage();
        const SegmentPool::Stats after = factory->pool(nullptr)->GetStats();
        EXPECT_GE(usage * 1.05 + (2 << 20), before.claimed_bytes + before.copied_bytes);
        const size_t marks = RepOf(table).mark_bytes();
        EXPECT_LE(usage, (after.claimed_bytes + after.copied_bytes) * 1.25 + (2 << 20) + marks);
      }
      for (std::thread& thread : threads) thread.join();
      table.rep()->MarkReadOnly();
      const SegmentPool::Stats pool = factory->pool(nullptr)->GetStats();
      const size_t usage = table.rep()->ApproximateMemoryUsage();
      const size_t marks = RepOf(table).mark_bytes();
      EXPECT_LE(marks, 60000 * 5 / 2 + (128 << 10));
      // The final run's part of segments that were open at the end is not in the usage, which may not change any more.
      EXPECT_GE(usage, pool.claimed_bytes + pool.copied_bytes);
      EXPECT_LE(usage, pool.claimed_bytes + pool.copied_bytes + 9 * 60000 + marks);
      EXPECT_EQ(manager.memory_usage(), pool.claimed_bytes + pool.copied_bytes + pool.free_bytes + 9 * 60000 + marks +
                                            rocksdb::Arena::kInlineSize);
      // The final run takes what was counted in advance.
      const auto* sub = static_cast<const SubMemTable*>(table.rep());
      const std::shared_ptr<const RunSet> runs = sub->SortedRuns();
      ASSERT_EQ(runs->size(), 1u);
      EXPECT_LE((*runs)[0]->MemoryBytes(), 9u * 60000);
      EXPECT_GE((*runs)[0]->MemoryBytes(), 8u * 60000);
      // No more than 5 % of what is claimed is room that nobody used.
      size_t entries_bytes = 0;
      for (size_t i = 0; i < (*runs)[0]->size(); ++i) {
        const char* entry = (*runs)[0]->entry(i);
        entries_bytes += Table::EncodedBytes(KeyOf(entry).user_key, Table::ValueOf(entry)) + 4;
      }
      EXPECT_LE(pool.claimed_bytes + pool.copied_bytes, entries_bytes * 1.05 + Writers::kCount * (256 << 10));
    }
    EXPECT_EQ(manager.memory_usage(), 0u);
    const SegmentPool::Stats pool = factory->pool(nullptr)->GetStats();
    EXPECT_EQ(pool.claimed_bytes, 0u);
    EXPECT_EQ(pool.copied_bytes, 0u);
    EXPECT_EQ(pool.copies > 0, std::string(options) == "copy_on_seal=true");
  }
}

TEST(SegmentPoolTest, KeepsEveryByteInOnePlace) {
  for (bool copy : {false, true}) {
    std::mt19937_64 random(Seed());
    // Smaller than what is held at a time.
    SegmentPool pool(copy ? NewAreaBacking(nullptr, 2 << 20) : NewPlainBacking(), 4 << 20);
    struct Held {
      char* base;
      size_t bytes;
      bool copied;
      char mark;
    };
    std::vector<Held> held;
    int copies = 0;
    for (int i = 0; i < 3000; ++i) {
      if (held.size() < 60 && random() % 2 == 0) {
        Held segment{};
        const bool large = random() % 50 == 0;
        ASSERT_TRUE(pool.Claim(large ? random() % (5 << 20) : 100, 4096 << random() % 8, SegmentOwner(), &segment.base,
                               &segment.bytes)
                        .ok());
        segment.mark = static_cast<char>(i);
        memset(segment.base, segment.mark, segment.bytes);
        held.push_back(segment);
      } else if (!held.empty()) {
        const size_t victim = random() % held.size();
        Held& segment = held[victim];
        for (size_t at = 0; at < segment.bytes; at += 509) ASSERT_EQ(segment.base[at], segment.mark);
        if (!segment.copied && random() % 2 == 0) {
          segment.copied = pool.Seal(segment.base, segment.bytes, segment.bytes);
          ASSERT_TRUE(copy || !segment.copied);
          copies += segment.copied ? 1 : 0;
          for (size_t at = 0; at < segment.bytes; at += 509) ASSERT_EQ(segment.base[at], segment.mark);
        } else {
          pool.Release(segment.base, segment.bytes, segment.copied);
          held.erase(held.begin() + static_cast<ptrdiff_t>(victim));
        }
      }
    }
    size_t claimed = 0;
    size_t copied = 0;
    for (const Held& segment : held) (segment.copied ? copied : claimed) += segment.bytes;
    EXPECT_EQ(pool.GetStats().claimed_bytes, claimed);
    EXPECT_EQ(pool.GetStats().copied_bytes, copied);
    for (const Held& segment : held) pool.Release(segment.base, segment.bytes, segment.copied);
    EXPECT_EQ(pool.GetStats().claimed_bytes, 0u);
    EXPECT_LE(pool.GetStats().free_bytes, size_t{4} << 20);
    EXPECT_EQ(copies > 100, copy);
  }
}

TEST(SubMemTableFactoryTest, IsMadeFromAStringAndComesBack) {
  std::shared_ptr<rocksdb::MemTableRepFactory> factory;
  rocksdb::ConfigOptions config;
  for (const char* text : {"cairn.SubMemTable:segment_size=64K;copy_on_seal=true",
                           "{id=cairn.SubMemTable;segment_size=65536;copy_on_seal=true}"}) {
    const rocksdb::Status s = rocksdb::MemTableRepFactory::CreateFromString(config, text, &factory);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_TRUE(factory->IsInstanceOf("cairn.SubMemTable"));
    const auto* options = factory->GetOptions<SubMemTableOptions>("cairn.SubMemTableOptions");
    ASSERT_NE(options, nullptr);
    EXPECT_EQ(options->segment_size, uint64_t{64} << 10);
    EXPECT_TRUE(options->copy_on_seal);
  }
  std::shared_ptr<rocksdb::MemTableRepFactory> again;
  ASSERT_TRUE(rocksdb::MemTableRepFactory::CreateFromString(config, factory->ToString(config), &again).ok());
  std::string mismatch;
  EXPECT_TRUE(factory->AreEquivalent(config, again.get(), &mismatch)) << mismatch;
  EXPECT_FALSE(
      rocksdb::MemTableRepFactory::CreateFromString(config, "cairn.SubMemTable:segment_size=5000", &again).ok());
  EXPECT_FALSE(rocksdb::MemTableRepFactory::CreateFromString(config, "cairn.SubMemTable:none=1", &again).ok());
  SubMemTableStats stats;
  EXPECT_TRUE(GetSubMemTableStats(*factory, &stats).ok());
  EXPECT_NE(stats.backing.find("plain memory"), std::string::npos);
  EXPECT_NE(SubMemTableStatsToTable(stats).find(stats.backing), std::string::npos);
  EXPECT_TRUE(GetSubMemTableStats(rocksdb::SkipListFactory(), &stats).IsNotSupported());
  ASSERT_TRUE(rocksdb::MemTableRepFactory::CreateFromString(
                  config, "cairn.SubMemTable:locked_cache=1M;copy_on_seal=true;resctrl_root=none", &factory)
                  .ok());
  ASSERT_TRUE(GetSubMemTableStats(*factory, &stats).ok());
  EXPECT_NE(stats.backing.find("writers work in 1048576 bytes of a memory file"), std::string::npos) << stats.backing;
  EXPECT_NE(stats.backing.find("no resctrl file system at none"), std::string::npos) << stats.backing;
}

}  // namespace
}  // namespace cairn
