// Lookups a second of a result cache, of RocksDB's HyperClockCache, and of std::unordered_map in shards with a lock and
// CLOCK, which is what people write themselves. Keys of 16 bytes, all of them in the cache; each hit copies its value.
//
//   build/bench/lookup_bench [--threads 2] [--keys 100000] [--value 64] [--zipf 0.99] [--seconds 1] [--rounds 3]
//
// The three take turns; medians of the rounds. Rates are per second of processor time, so that other programs on the
// machine matter less.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cairn/cache.h"
#include "result_cache/bench_keys.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "util/mutex.h"
#include "util/thread_seconds.h"

DEFINE_int32(threads, 2, "threads that look up");
DEFINE_int64(keys, 100000, "keys in the cache");
DEFINE_int64(value, 64, "bytes of a value");
DEFINE_double(zipf, 0, "skew of the lookups; 0: uniform");
DEFINE_double(seconds, 1, "of each measurement");
DEFINE_int32(rounds, 3, "measurements of each");
DEFINE_int32(batch, 16, "keys of a MultiGet");

namespace cairn {
namespace {

// One of the three, behind what they have in common.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void Put(const BenchKey& key, const std::string& value) = 0;
  virtual bool Get(const BenchKey& key, std::string* value) = 0;
};

class OurCache : public Contender {
 public:
  explicit OurCache(size_t capacity) {
    ResultCacheOptions options;
    options.capacity = capacity;
    const IndexStatus status = ResultCache::Create(options, &cache_);
    if (!status.ok()) fprintf(stderr, "%s\n", status.message().c_str());
  }
  void Put(const BenchKey& key, const std::string& value) override { cache_->Put(key.view(), value); }
  bool Get(const BenchKey& key, std::string* value) override {
    return cache_->Get(key.view(), value) == ResultCache::Answer::kValue;
  }
  ResultCache* cache() { return cache_.get(); }

 private:
  std::unique_ptr<ResultCache> cache_;
};

class HyperClock : public Contender {
 public:
  HyperClock(size_t capacity, size_t estimated_charge)
      : cache_(rocksdb::HyperClockCacheOptions(capacity, estimated_charge).MakeSharedCache()) {}
  void Put(const BenchKey& key, const std::string& value) override {
    cache_->Insert({key.bytes, sizeof(key.bytes)}, new std::string(value), &kHelper, value.size() + 64)
        .PermitUncheckedError();
  }
  bool Get(const BenchKey& key, std::string* value) override {
    rocksdb::Cache::Handle* const handle = cache_->Lookup({key.bytes, sizeof(key.bytes)});
    if (handle == nullptr) return false;
    *value = *static_cast<std::string*>(cache_->Value(handle));
    cache_->Release(handle);
    return true;
  }

 private:
  static void Delete(rocksdb::Cache::ObjectPtr object, rocksdb::MemoryAllocator* /*allocator*/) {
    delete static_cast<std::string*>(object);
  }
  static inline const rocksdb::Cache::CacheItemHelper kHelper{rocksdb::CacheEntryRole::kMisc, &Delete};

  std::shared_ptr<rocksdb::Cache> cache_;
};

class ShardedMap : public Contender {
 public:
  explicit ShardedMap(size_t items) : items_a_shard_(items / kShards + 1) {}
  void Put(const BenchKey& key, const std::string& value) override {
    Shard& shard = Of(key);
    const MutexLock lock(&shard.mutex);
    auto& item = shard.map[std::string(key.view())];
    item.value = value;
    item.referenced = true;
    for (auto hand = shard.map.begin(); shard.map.size() > items_a_shard_;) {
      hand = hand->second.referenced ? (hand->second.referenced = false, std::next(hand)) : shard.map.erase(hand);
      if (hand == shard.map.end()) hand = shard.map.begin();
    }
  }
  bool Get(const BenchKey& key, std::string* value) override {
    Shard& shard = Of(key);
    const MutexLock lock(&shard.mutex);
    const auto found = shard.map.find(std::string(key.view()));
    if (found == shard.map.end()) return false;
    *value = found->second.value;
    found->second.referenced = true;
    return true;
  }

 private:
  static constexpr size_t kShards = 64;
  struct Item {
    std::string value;
    bool referenced = false;
  };
  struct alignas(64) Shard {
    CheckedMutex mutex;
    std::unordered_map<std::string, Item> map;
  };
  Shard& Of(const BenchKey& key) { return shards_[static_cast<uint8_t>(key.bytes[0]) % kShards]; }

  const size_t items_a_shard_;
  Shard shards_[kShards];
};

// Million lookups a second of a thread's processor time. work(numbers, count) looks up and returns the hits.
double Measure(const std::vector<std::vector<uint32_t>>& drawn,
               const std::function<uint64_t(const uint32_t*, size_t)>& work) {
  constexpr size_t kPart = 4096;
  std::atomic<uint64_t> done{0}, hits{0}, nanoseconds{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (const auto& numbers : drawn) {
    threads.emplace_back([&] {
      uint64_t mine = 0, my_hits = 0;
      const double start = ThreadSeconds();
      for (size_t at = 0; !stop.load(std::memory_order_relaxed); at = (at + kPart) % numbers.size()) {
        my_hits += work(numbers.data() + at, kPart);
        mine += kPart;
      }
      nanoseconds += static_cast<uint64_t>(1e9 * (ThreadSeconds() - start));
      done += mine;
      hits += my_hits;
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  if (hits != done)
    fprintf(stderr, "%.2f %% misses in the next figure\n",
            100.0 * static_cast<double>(done - hits) / static_cast<double>(done));
  return 1e3 * static_cast<double>(done) / static_cast<double>(nanoseconds);
}

int Main() {
  const std::string value(static_cast<size_t>(FLAGS_value), 'v');
  const auto keys = static_cast<size_t>(FLAGS_keys);
  OurCache ours(keys * (value.size() + 64) + (8 << 20));
  HyperClock hyper_clock(keys * (value.size() + 300), value.size() + 64);
  ShardedMap map(2 * keys);
  for (size_t i = 0; i < keys; ++i) {
    for (Contender* contender :
         {static_cast<Contender*>(&ours), static_cast<Contender*>(&hyper_clock), static_cast<Contender*>(&map)}) {
      contender->Put(MakeBenchKey(i), value);
    }
  }
  std::vector<std::vector<uint32_t>> drawn;
  for (int i = 0; i < FLAGS_threads; ++i)
    drawn.push_back(
        DrawBenchKeys(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(FLAGS_keys), FLAGS_zipf, size_t{1} << 20));

  const auto singly = [](Contender* contender) {
    return [contender](const uint32_t* numbers, size_t count) {
      thread_local std::string result;
      uint64_t hits = 0;
      for (size_t i = 0; i < count; ++i) hits += contender->Get(MakeBenchKey(numbers[i]), &result) ? 1 : 0;
      return hits;
    };
  };
  const auto batched = [&ours](const uint32_t* numbers, size_t count) {
    const auto batch = static_cast<size_t>(FLAGS_batch);
    thread_local std::vector<BenchKey> batch_keys;
    thread_local std::vector<std::string_view> views;
    thread_local std::vector<std::string> values;
    thread_local std::vector<ResultCache::Answer> answers;
    batch_keys.resize(batch), views.resize(batch), values.resize(batch), answers.resize(batch);
    uint64_t hits = 0;
    for (size_t i = 0; i < count; i += batch) {
      const size_t part = std::min(batch, count - i);
      for (size_t j = 0; j < part; ++j) {
        batch_keys[j] = MakeBenchKey(numbers[i + j]);
        views[j] = batch_keys[j].view();
      }
      ours.cache()->MultiGet(part, views.data(), values.data(), answers.data());
      for (size_t j = 0; j < part; ++j) hits += answers[j] == ResultCache::Answer::kValue ? 1 : 0;
    }
    return hits;
  };
  struct Row {
    const char* name;
    std::function<uint64_t(const uint32_t*, size_t)> work;
    std::vector<double> rates = {};
  };
  std::vector<Row> rows = {{"result cache", singly(&ours)},
                           {"result cache, MultiGet", batched},
                           {"HyperClockCache", singly(&hyper_clock)},
                           {"unordered_map, 64 shards", singly(&map)}};
  for (int round = 0; round < FLAGS_rounds; ++round) {
    for (Row& row : rows) row.rates.push_back(Measure(drawn, row.work));
  }
  printf("%zu keys, values of %zu bytes, zipf %.2f, %d threads: million lookups a second of a core\n", keys,
         value.size(), FLAGS_zipf, FLAGS_threads);
  for (Row& row : rows) {
    std::sort(row.rates.begin(), row.rates.end());
    printf("  %-26s %6.2f   (%.2f to %.2f)\n", row.name, row.rates[row.rates.size() / 2], row.rates.front(),
           row.rates.back());
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cairn::Main();
}
