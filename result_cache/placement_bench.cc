// What placement in memory is worth to the N-zone: huge pages, keys and values apart, a lookaside of pointers to hot
// items (SLB), hot and cold items spread over the rows of huge pages (Cavast), and a locked part of the processor's
// cache (CacheKV). Each is switched on alone.
//
//   build/bench/placement_bench [--keys 50000,3000000,10000000] [--zipf 0,0.99] [--threads 1,2] [--seconds 0.3]
//
// The first two rows are the cache itself. The others are a model of it, so that what is left out needs no place there:
// the same index, the same items, the same steps of a lookup that hits. Times are processor time per lookup, medians
// of rounds in turns. Counts are of simulated caches with LRU replacement, per lookup: lines of 64 bytes that are
// touched, those that the second level (1 MiB, 16 ways) and the last one (32 MiB, 16 ways) lack, and pages that a table
// of 4,096 pages lacks. They are the same on every machine.

#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cairn/cache.h"
#include "result_cache/arena.h"
#include "result_cache/bench_keys.h"
#include "result_cache/hash_index.h"
#include "result_cache/item.h"
#include "result_cache/n_zone.h"
#include "util/mix64.h"
#include "util/thread_seconds.h"

DEFINE_string(keys, "50000,3000000,10000000", "keys in the cache, in turn");
DEFINE_string(zipf, "0,0.99", "skews of the lookups, in turn; 0: uniform");
DEFINE_string(threads, "1,2", "threads that look up, in turn");
DEFINE_int64(value, 64, "bytes of a value");
DEFINE_double(seconds, 0.3, "of each measurement; 0: counts only");
DEFINE_int32(rounds, 5, "measurements of each");
DEFINE_bool(counts, true, "simulate the processor's caches");
DEFINE_bool(json, false, "print one line of JSON for each row");

namespace cairn::cache {
namespace {

using Numbers = std::vector<uint32_t>;

// ---- what is touched ----

struct Untold {
  void Touch(const void* /*at*/, size_t /*bytes*/) {}
};

// A cache of `lines` lines of 2^shift bytes, least recently used out.
class SimulatedCache {
 public:
  SimulatedCache(size_t lines, size_t ways, int shift) : shift_(shift), ways_(ways), lines_(lines, kNone) {}
  // Whether the line was there.
  bool Touch(uint64_t address) {
    const uint64_t line = address >> shift_;
    const auto set = lines_.begin() + static_cast<int64_t>(line % (lines_.size() / ways_) * ways_);
    const auto end = set + static_cast<int64_t>(ways_);
    const auto found = std::find(set, end, line);
    std::rotate(set, found == end ? end - 1 : found, found == end ? end : found + 1);
    *set = line;
    return found != end;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  const int shift_;
  const size_t ways_;
  std::vector<uint64_t> lines_;
};

class SimulatedProcessor {
 public:
  static constexpr size_t kLastLevel = size_t{32} << 20;
  static constexpr size_t kWays = 16;

  // `locked`: lines that stay in the last level, and the ways of it that they take.
  SimulatedProcessor(int page_shift, const std::unordered_set<uint64_t>* locked, size_t locked_ways)
      : locked_(locked),
        second_(size_t{1} << 14, 16, 6),
        last_(kLastLevel / kCacheLine / kWays * (kWays - locked_ways), kWays - locked_ways, 6),
        pages_(4096, 16, page_shift) {}

  void Touch(const void* at, size_t bytes) {
    const auto begin = reinterpret_cast<uint64_t>(at);
    for (uint64_t line = begin / kCacheLine; line <= (begin + bytes - 1) / kCacheLine; ++line) {
      ++touched;
      if (!pages_.Touch(line * kCacheLine)) ++walks;
      if (second_.Touch(line * kCacheLine)) continue;
      ++beyond_second;
      if (locked_ != nullptr && locked_->count(line) != 0) continue;
      if (!last_.Touch(line * kCacheLine)) ++beyond_last;
    }
  }
  void Forget() { touched = beyond_second = beyond_last = walks = 0; }

  uint64_t touched = 0, beyond_second = 0, beyond_last = 0, walks = 0;

 private:
  const std::unordered_set<uint64_t>* const locked_;
  SimulatedCache second_, last_, pages_;
};

// ---- SLB ----

// Pointers to hot items, seven in a line with a counter each; a sampled log of what was found says who is hot.
class Lookaside {
 public:
  explicit Lookaside(size_t bytes)
      : lines_(bytes / sizeof(Line)),
        logs_(4 * lines_),
        memory_((lines_ + logs_) * kCacheLine, MappedRange::Pages::kHuge) {}

  // match(place) says whether the item is the one. 0: it is not known here.
  template <class Memory, class Match>
  uint64_t Find(uint64_t hash, const Match& match, Memory* memory) {
    Line* const line = LineOf(hash);
    memory->Touch(line, sizeof(Line));
    for (int i = 0; i < kEntries; ++i) {
      const uint64_t entry = line->entries[i].load(std::memory_order_relaxed);
      if (entry >> 48 != hash >> 48 || entry == 0 || !match(entry & kPlace)) continue;
      const uint8_t count = line->counts[i].load(std::memory_order_relaxed);
      if (count < UINT8_MAX) line->counts[i].store(static_cast<uint8_t>(count + 1), std::memory_order_relaxed);
      return entry & kPlace;
    }
    return 0;
  }

  // What the index has found.
  template <class Memory>
  void Emit(uint64_t hash, uint64_t place, Memory* memory) {
    thread_local uint64_t random = 1;
    if (NextSplitMix64(&random) % kSampled != 0) return;
    Log* const log = reinterpret_cast<Log*>(memory_.data()) + lines_ + hash % logs_;
    memory->Touch(log, sizeof(Log));
    const auto tag = static_cast<uint32_t>(hash >> 32);
    const uint32_t next = log->next.load(std::memory_order_relaxed) % kTags;
    log->tags[next].store(tag, std::memory_order_relaxed);
    log->next.store(next + 1, std::memory_order_relaxed);
    const auto seen = std::count_if(log->tags, log->tags + kTags, [tag](const std::atomic<uint32_t>& other) {
      return other.load(std::memory_order_relaxed) == tag;
    });
    if (seen < kHot) return;
    Line* const line = LineOf(hash);
    memory->Touch(line, sizeof(Line));
    int least = 0;
    for (int i = 1; i < kEntries; ++i) {
      if (line->counts[i].load(std::memory_order_relaxed) < line->counts[least].load(std::memory_order_relaxed))
        least = i;
    }
    line->entries[least].store((hash >> 48 << 48) | place, std::memory_order_relaxed);
    line->counts[least].store(1, std::memory_order_relaxed);
  }

 private:
  static constexpr int kEntries = 7;
  static constexpr int kTags = 15;
  static constexpr uint64_t kSampled = 20;
  static constexpr int64_t kHot = 3;
  static constexpr uint64_t kPlace = (uint64_t{1} << 48) - 1;
  struct alignas(kCacheLine) Line {
    std::atomic<uint8_t> counts[8];
    std::atomic<uint64_t> entries[kEntries];
  };
  struct alignas(kCacheLine) Log {
    std::atomic<uint32_t> next;
    std::atomic<uint32_t> tags[kTags];
  };
  Line* LineOf(uint64_t hash) { return reinterpret_cast<Line*>(memory_.data()) + (hash >> 8) % lines_; }

  const size_t lines_;
  const size_t logs_;
  MappedRange memory_;
};

// ---- the N-zone, as far as hits go ----

constexpr uint64_t kSeed = 1;

uint64_t HashOf(const BenchKey& key) { return HashBytes(kSeed, key.view()); }

// Numbers below n in an order that has nothing to do with theirs.
Numbers Shuffled(uint64_t n, uint64_t seed) {
  Numbers numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (size_t i = n; i > 1; --i) std::swap(numbers[i - 1], numbers[NextSplitMix64(&seed) % i]);
  return numbers;
}

// Index and items of keys, which are numbers in the order of popularity.
class Store {
 public:
  enum class Values { kBesideKeys, kApart };
  enum class Rows { kAsItComes, kDealtOut };  // popular items to the rows of huge pages in turn

  Store(uint64_t keys, Values values, Rows rows)
      : values_apart_(values == Values::kApart),
        value_words_(static_cast<size_t>(FLAGS_value) / sizeof(Word)),
        key_words_(kKeyWords + (values_apart_ ? 1 : value_words_)),
        range_(keys, 1, MappedRange::Pages::kHuge),
        index_(&range_, 0, 64, keys),
        items_((keys + 1) * key_words_ * sizeof(Word), MappedRange::Pages::kHuge),
        values_(values_apart_ ? keys * value_words_ * sizeof(Word) : 0, MappedRange::Pages::kHuge) {
    const std::string value(static_cast<size_t>(FLAGS_value), 'v');
    const Numbers places = rows == Rows::kDealtOut ? DealtOut(keys) : Shuffled(keys, 7);
    const auto hash_of = [this](uint64_t entry) { return HashBytes(kSeed, ViewItem(At(Entry::Place(entry))).key); };
    for (const uint32_t number : Shuffled(keys, 8)) {
      const BenchKey key = MakeBenchKey(number);
      const uint64_t place = (places[number] + uint64_t{1}) * key_words_;
      StoreItem(At(place), {key.view(), values_apart_ ? std::string_view() : value});
      if (values_apart_) {
        const uint64_t value_place = places[number] * value_words_;
        StoreWord(At(place) + kKeyWords, value_place);
        std::memcpy(values_.data() + value_place * sizeof(Word), value.data(), value.size());
      }
      // As a partition grows.
      const uint64_t hash = HashOf(key);
      while (8 * (index_.entries() + 1) > 49 * index_.buckets()) index_.Split(hash_of);
      while (!index_.Add(hash, Entry::Make(hash, place), hash_of)) index_.Split(hash_of);
    }
  }

  const HashIndex& index() const { return index_; }
  Word* At(uint64_t place) const { return reinterpret_cast<Word*>(items_.data()) + place; }
  size_t item_bytes() const { return key_words_ * sizeof(Word); }

  template <class Memory>
  bool IsOf(const Word* words, const BenchKey& key, Memory* memory) const {
    memory->Touch(words, kKeyWords * sizeof(Word));
    const ItemHeader header = ItemHeader::Decode(LoadWord(words));
    return header.key_bytes == sizeof(key.bytes) && SameBytes(words + 1, key.view());
  }
  template <class Memory>
  void Copy(const Word* words, std::string* value, Memory* memory) const {
    const Word* const from =
        values_apart_ ? reinterpret_cast<const Word*>(values_.data()) + LoadWord(words + kKeyWords) : words + kKeyWords;
    const auto bytes = static_cast<size_t>(FLAGS_value);
    const auto begin = reinterpret_cast<uintptr_t>(from);
    // The line where the key ends has been counted.
    const uintptr_t counted = values_apart_ ? begin : RoundUp(begin, kCacheLine);
    if (counted < begin + bytes) memory->Touch(reinterpret_cast<const void*>(counted), begin + bytes - counted);
    value->resize(bytes);
    LoadBytes(value->data(), from, 0, bytes);
  }

 private:
  static constexpr size_t kKeyWords = 3;  // with the header
  static constexpr size_t kRow = 4096;
  static constexpr size_t kRows = (size_t{2} << 20) / kRow;

  Numbers DealtOut(uint64_t keys) const {
    Numbers places = Shuffled(keys, 7);
    std::array<Numbers, kRows> rows;
    for (const uint32_t place : places) rows[place * item_bytes() / kRow % kRows].push_back(place);
    size_t next = 0;
    for (uint32_t& place : places) {
      while (rows[next % kRows].empty()) ++next;
      place = rows[next % kRows].back();
      rows[next++ % kRows].pop_back();
    }
    return places;
  }

  const bool values_apart_;
  const size_t value_words_;
  const size_t key_words_;
  BucketRange range_;
  HashIndex index_;
  MappedRange items_, values_;
};

// How a lookup goes through a store.
struct Way {
  bool one_bucket = false;  // a key's second bucket is fetched only when the first one does not have it
  size_t lookaside = 0;     // bytes of an SLB
  int page_shift = 21;      // simulated only
  size_t locked_ways = 0;   // of the last level, for the most popular items and their buckets; simulated only

  bool simulated_only() const { return page_shift != 21 || locked_ways != 0; }
};

class Model {
 public:
  Model(std::shared_ptr<const Store> store, const Way& way, uint64_t keys) : store_(std::move(store)), way_(way) {
    if (way.lookaside != 0) lookaside_ = std::make_unique<Lookaside>(way.lookaside);
    if (way.locked_ways != 0) Lock(keys);
  }

  const Way& way() const { return way_; }
  const std::unordered_set<uint64_t>* locked() const { return way_.locked_ways == 0 ? nullptr : &locked_; }

  template <class Memory>
  bool Get(const BenchKey& key, std::string* value, Memory* memory) {
    const uint64_t hash = HashOf(key);
    if (lookaside_ != nullptr) {
      const auto match = [&](uint64_t at) { return store_->IsOf(store_->At(at), key, memory); };
      const uint64_t place = lookaside_->Find(hash, match, memory);
      if (place != 0) {
        store_->Copy(store_->At(place), value, memory);
        return true;
      }
    }
    const HashIndex& index = store_->index();
    Bucket* const candidates[2] = {index.First(hash, index.buckets()), index.Second(hash, index.buckets())};
    if (!way_.one_bucket) __builtin_prefetch(candidates[1]);
    if (!way_.one_bucket) memory->Touch(candidates[1], sizeof(Bucket));
    for (Bucket* const bucket : candidates) {
      if (way_.one_bucket || bucket == candidates[0]) memory->Touch(bucket, sizeof(Bucket));
      const uint32_t version = bucket->version.load(std::memory_order_acquire);
      for (auto& slot : bucket->entries) {
        const uint64_t entry = slot.load(std::memory_order_relaxed);
        if (Entry::Tag(entry) != Entry::TagOf(hash) || entry == 0) continue;
        const Word* const words = store_->At(Entry::Place(entry));
        __builtin_prefetch(words + kCacheLine / sizeof(Word));
        if (!store_->IsOf(words, key, memory)) continue;
        store_->Copy(words, value, memory);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (bucket->version.load(std::memory_order_relaxed) != version) return false;
        if (lookaside_ != nullptr) lookaside_->Emit(hash, Entry::Place(entry), memory);
        return true;
      }
    }
    return false;
  }

 private:
  void Lock(uint64_t keys) {
    const size_t room = SimulatedProcessor::kLastLevel / SimulatedProcessor::kWays * way_.locked_ways / kCacheLine;
    for (uint64_t number = 0; number < keys && locked_.size() < room; ++number) {
      const HashIndex::Slot slot = store_->index().Find(HashOf(MakeBenchKey(number)), [](uint64_t) { return true; });
      if (!slot.found()) continue;
      const auto item = reinterpret_cast<uint64_t>(store_->At(Entry::Place(slot.load())));
      locked_.insert(reinterpret_cast<uint64_t>(slot.bucket) / kCacheLine);
      for (uint64_t line = item / kCacheLine; line <= (item + store_->item_bytes() - 1) / kCacheLine; ++line) {
        locked_.insert(line);
      }
    }
  }

  const std::shared_ptr<const Store> store_;
  const Way way_;
  std::unique_ptr<Lookaside> lookaside_;
  std::unordered_set<uint64_t> locked_;
};

// ---- rows of the table ----

using Work = std::function<uint64_t(const uint32_t* numbers, size_t count)>;

// Nanoseconds of processor time per lookup.
double Measure(const std::vector<Numbers>& drawn, size_t threads, const Work& work) {
  constexpr size_t kPart = 4096;
  std::atomic<uint64_t> done{0}, hits{0}, nanoseconds{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> running;
  for (size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      uint64_t mine = 0, my_hits = 0;
      const double start = ThreadSeconds();
      for (size_t at = 0; !stop.load(std::memory_order_relaxed); at = (at + kPart) % drawn[t].size()) {
        my_hits += work(drawn[t].data() + at, kPart);
        mine += kPart;
      }
      nanoseconds += static_cast<uint64_t>(1e9 * (ThreadSeconds() - start));
      done += mine;
      hits += my_hits;
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_seconds));
  stop = true;
  for (std::thread& thread : running) thread.join();
  if (hits * 100 < done * 99) fprintf(stderr, "placement_bench: more than one lookup in a hundred misses\n");
  return static_cast<double>(nanoseconds) / static_cast<double>(done);
}

struct Row {
  std::string name;
  std::unique_ptr<ResultCache> cache;  // or
  std::unique_ptr<Model> model;
  std::vector<std::vector<double>> times = {};  // by number of threads
};

Work WorkOf(const Row& row) {
  return [&row](const uint32_t* numbers, size_t count) {
    thread_local std::string value;
    Untold untold;
    uint64_t hits = 0;
    for (size_t i = 0; i < count; ++i) {
      const BenchKey key = MakeBenchKey(numbers[i]);
      const bool hit = row.cache != nullptr ? row.cache->Get(key.view(), &value) == ResultCache::Answer::kValue
                                            : row.model->Get(key, &value, &untold);
      hits += hit ? 1 : 0;
    }
    return hits;
  };
}

Row RowOfCache(const std::string& name, bool huge_pages, uint64_t keys) {
  ResultCacheOptions options;
  options.capacity = keys * (static_cast<size_t>(FLAGS_value) + 64) + (size_t{8} << 20);
  options.max_capacity = options.capacity;
  options.huge_pages = huge_pages;
  options.hash_seed = 1;
  Row row{name, nullptr, nullptr};
  const IndexStatus status = ResultCache::Create(options, &row.cache);
  if (!status.ok()) fprintf(stderr, "%s\n", status.message().c_str());
  const std::string value(static_cast<size_t>(FLAGS_value), 'v');
  uint64_t step = keys * 5 / 8 | 1;
  while (std::gcd(step, keys) != 1) ++step;
  for (uint64_t i = 0; i < keys; ++i) row.cache->Put(MakeBenchKey(i * step % keys).view(), value);
  return row;
}

std::vector<Row> RowsOf(uint64_t keys) {
  std::vector<Row> rows;
  rows.push_back(RowOfCache("the cache, small pages", false, keys));
  rows.push_back(RowOfCache("the cache", true, keys));
  const auto usual = std::make_shared<Store>(keys, Store::Values::kBesideKeys, Store::Rows::kAsItComes);
  const auto add = [&](const std::string& name, const std::shared_ptr<const Store>& store, const Way& way) {
    rows.push_back({name, nullptr, std::make_unique<Model>(store, way, keys)});
  };
  Way way;
  way.page_shift = 12;
  add("model, small pages", usual, way);
  way = {};
  add("model", usual, way);
  add("keys and values apart", std::make_shared<Store>(keys, Store::Values::kApart, Store::Rows::kAsItComes), way);
  add("popular items in all rows", std::make_shared<Store>(keys, Store::Values::kBesideKeys, Store::Rows::kDealtOut),
      way);
  way.one_bucket = true;
  add("second bucket when needed", usual, way);
  way = {};
  for (const size_t kib : {256, 2048, 16384}) {
    way.lookaside = kib << 10;
    add("lookaside of " + std::to_string(kib) + " KiB", usual, way);
  }
  way = {};
  way.locked_ways = 4;
  add("8 MiB locked", usual, way);
  return rows;
}

nlohmann::ordered_json Counts(const Row& row, const Numbers& numbers) {
  if (row.model == nullptr || !FLAGS_counts) return nullptr;
  const Way& way = row.model->way();
  const auto processor = std::make_unique<SimulatedProcessor>(way.page_shift, row.model->locked(), way.locked_ways);
  std::string value;
  const size_t warm = numbers.size() / 2;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i == warm) processor->Forget();
    row.model->Get(MakeBenchKey(numbers[i]), &value, processor.get());
  }
  const auto each = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(numbers.size() - warm);
  };
  return {{"lines", each(processor->touched)},
          {"not_in_l2", each(processor->beyond_second)},
          {"not_in_l3", each(processor->beyond_last)},
          {"pages", each(processor->walks)}};
}

std::vector<double> ListOf(const std::string& flag) {
  std::vector<double> list;
  std::istringstream in(flag);
  for (std::string one; std::getline(in, one, ',');) list.push_back(std::stod(one));
  return list;
}

void Print(const nlohmann::ordered_json& row) {
  printf("  %-28s", row["placement"].get<std::string>().c_str());
  const auto& counts = row["counts"];
  if (counts.is_null()) {
    printf(" %29s", "");
  } else {
    printf(" %6.2f %7.2f %7.2f %6.2f", counts["lines"].get<double>(), counts["not_in_l2"].get<double>(),
           counts["not_in_l3"].get<double>(), counts["pages"].get<double>());
  }
  for (const auto& times : row.value("nanoseconds", nlohmann::ordered_json::array())) {
    printf("   %6.1f (%.1f to %.1f)", times["median"].get<double>(), times["least"].get<double>(),
           times["most"].get<double>());
  }
  printf("\n");
}

void Compare(uint64_t keys, double zipf, std::vector<Row>* rows) {
  const std::vector<double> threads = ListOf(FLAGS_threads);
  const auto most = static_cast<size_t>(*std::max_element(threads.begin(), threads.end()));
  std::vector<Numbers> drawn;
  for (size_t t = 0; t < most; ++t) drawn.push_back(DrawBenchKeys(t + 1, keys, zipf, size_t{1} << 21));
  for (Row& row : *rows) row.times.assign(threads.size(), {});
  for (int round = 0; round < FLAGS_rounds && FLAGS_seconds > 0; ++round) {
    for (size_t t = 0; t < threads.size(); ++t) {
      for (Row& row : *rows) {
        if (row.model != nullptr && row.model->way().simulated_only()) continue;
        row.times[t].push_back(Measure(drawn, static_cast<size_t>(threads[t]), WorkOf(row)));
      }
    }
  }
  const Numbers numbers = DrawBenchKeys(99, keys, zipf, size_t{1} << 22);
  if (!FLAGS_json) {
    printf("%llu keys, zipf %.2f: lines and pages a lookup, nanoseconds with %s threads\n",
           static_cast<unsigned long long>(keys), zipf, FLAGS_threads.c_str());
    printf("  %-28s %6s %7s %7s %6s\n", "", "lines", "not L2", "not L3", "pages");
  }
  for (Row& row : *rows) {
    nlohmann::ordered_json json = {{"keys", keys}, {"zipf", zipf}, {"placement", row.name}};
    json["counts"] = Counts(row, numbers);
    for (size_t t = 0; t < threads.size(); ++t) {
      std::vector<double>& times = row.times[t];
      if (times.empty()) continue;
      std::sort(times.begin(), times.end());
      json["nanoseconds"].push_back({{"threads", threads[t]},
                                     {"median", times[times.size() / 2]},
                                     {"least", times.front()},
                                     {"most", times.back()}});
    }
    if (FLAGS_json) {
      printf("%s\n", json.dump().c_str());
    } else {
      Print(json);
    }
    fflush(stdout);
  }
}

int Main() {
  for (const double keys : ListOf(FLAGS_keys)) {
    std::vector<Row> rows = RowsOf(static_cast<uint64_t>(keys));
    for (const double zipf : ListOf(FLAGS_zipf)) Compare(static_cast<uint64_t>(keys), zipf, &rows);
  }
  return 0;
}

}  // namespace
}  // namespace cairn::cache

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cairn::cache::Main();
}
