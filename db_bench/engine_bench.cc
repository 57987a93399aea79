// engine_bench: loads one engine with small items and reports what db_bench cannot say exactly: write amplification (by
// flush and compaction), space amplification (the live bytes are counted, not estimated; also its peak during the
// load), the load rate by tenths, settle time, and the cost of lookups.
//
// One engine a process, so that no run inherits another's memory or caches; db_bench/compare runs several and compares.
// keys.h says what keys and values are.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/db.h"
#include "cairn/result_cache.h"
#include "db_bench/device.h"
#include "db_bench/engines.h"
#include "db_bench/keys.h"
#include "db_bench/lookups.h"
#include "db_bench/measure.h"
#include "db_bench/report.h"
#include "db_bench/run_mixes.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "util/rocksdb_names.h"

DEFINE_string(engine, "", "The engine to measure; unknown names are answered with the list");
DEFINE_string(engine_options, "", "The engine's own options as an option string, for example \"trigger=6\"");
DEFINE_uint64(puts, 2000000, "Puts, each of a key chosen anew");
DEFINE_uint64(keys, 0, "Key numbers to choose from; 0: as many as puts");
DEFINE_uint64(writers, 1, "Threads that put, each its share of the keys");
DEFINE_bool(fill, false, "The first puts store each key once, in random order; the others choose");
DEFINE_string(distribution, "uniform", "How keys are chosen, in puts and in gets of present keys: uniform or zipf");
DEFINE_double(theta, 0.99, "Exponent of the Zipf distribution, above 0 and not 1");
DEFINE_uint64(value_min, 1, "Smallest value, bytes");
DEFINE_uint64(value_max, 200, "Largest value, bytes, at most 65535; sizes are uniform");
DEFINE_uint64(deletes_percent, 0, "Share of the puts that are deletes of the chosen key instead");
DEFINE_bool(warm, false, "Before all reads, iterate over everything once, so that the block cache holds what fits");
DEFINE_uint64(gets, 500000, "Gets of present keys in each of two passes over the same sequence; 0: none");
DEFINE_uint64(missing_gets, 200000, "Gets of absent keys, after them");
DEFINE_int32(threads, 0, "After them, this many threads do --gets and --missing_gets each; 0: none");
DEFINE_uint64(
    seeks, 0,
    "After them, seeks with a new iterator for each: to present keys, to absent ones, and to present ones with "
    "10 and 50 steps. None where keys are in hash order");
DEFINE_bool(scan, false, "After them, iterate over everything once");
DEFINE_uint64(mixed_gets, 0,
              "After them, gets of present keys while another thread overwrites; latencies are measured");
DEFINE_uint64(write_buffer_size, 64 << 20, "Bytes");
DEFINE_int32(background_jobs, 2, "Flushes and compactions at once");
DEFINE_uint64(cache_size, uint64_t{1} << 30, "Block cache, bytes");
DEFINE_uint64(result_cache, 0, "Bytes of a result cache above the database (docs/design/result_cache.md); 0: none");
DEFINE_bool(hyper_clock_cache, false,
            "RocksDB's HyperClockCache as block cache, in place of its default, the LRU cache");
DEFINE_bool(index_in_cache, false, "Keep indexes and filters in the block cache, so that engines have equal memory");
DEFINE_double(bloom_bits, -1, "Filter bits per key; negative: what the engine's preset has");
DEFINE_int32(
    level0_trigger, -1,
    "Files of level 0 (universal: sorted runs) that start a compaction; negative: what the engine's preset has");
DEFINE_string(memtable, "", "RocksDB's name of a memtable, with options or without; empty: the engine's preset");
DEFINE_string(db_options, "",
              "RocksDB's options of the database, over the engine's own, for example \"enable_pipelined_write=true\"");
DEFINE_string(block_options, "",
              "RocksDB's options of the block-based table that the engine uses, over its own, for example "
              "\"partition_filters=true\"");
DEFINE_string(
    memory, "",
    "At last, open the database anew with direct reads and a block cache of so many bytes, indexes and filters "
    "in it, and get again: sizes, separated by commas");
DEFINE_uint64(memory_gets, 200000,
              "Then: gets of present keys in each of two passes, of absent keys, and of present keys in batches of 32");
DEFINE_string(memory_threads, "",
              "And by several threads, each so many gets divided by their number: numbers of threads, separated by "
              "commas");
DEFINE_bool(device, false,
            "After --memory, measure random reads of the device, as many at once as there are threads or keys in a "
            "batch, and say what share of it lookups have reached");
DEFINE_bool(paced, false,
            "Wait for flushes and compactions after each write buffer, so that what is written does not depend on how "
            "fast the machine is; rates and stalls then mean nothing");
DEFINE_bool(disable_wal, false, "Write no write-ahead log");
DEFINE_string(
    mix, "",
    "Instead of all this: store --keys items and run published mixes of operations on them, one after the other "
    "(mixes.h has the table): names, separated by commas, for example \"ycsb_a,ycsb_b\". --scan counts the items at "
    "last");
DEFINE_uint64(mix_operations, 1000000, "Operations of each mix");
DEFINE_uint64(mix_record_bytes, 0, "Bytes of a YCSB record; 0: 1,000, as published");
DEFINE_bool(direct_io, false, "With --mix: neither reads nor flushes and compactions go through the page cache");
DEFINE_uint64(seed, 1, "Seeds keys and sizes");
DEFINE_string(db, "", "Folder to make the database's scratch folder in; empty: $TMPDIR, or /tmp");
DEFINE_string(
    path, "",
    "Folder that keeps the database: filled if it is not there, else taken for what a run with the same flags "
    "has filled; empty: a scratch folder, removed at the end");
DEFINE_string(json, "", "File for the results; - is standard output, which then holds nothing else");

namespace cairn::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTenths = 10;
constexpr size_t kBatch = 32;
constexpr double kDeviceSeconds = 2;
constexpr uint64_t kTimedPut = 64;  // two looks at the clock, 50 ns together, for one put in so many

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<uint64_t> Numbers(const std::string& separated_by_commas) {
  std::vector<uint64_t> numbers;
  std::stringstream text(separated_by_commas);
  for (std::string number; std::getline(text, number, ',');) {
    numbers.push_back(strtoull(number.c_str(), nullptr, 10));
  }
  return numbers;
}

uint64_t KeysOfFlags() { return FLAGS_keys == 0 ? FLAGS_puts : FLAGS_keys; }

struct LoadResult {
  double seconds = 0;
  double settle_seconds = 0;
  double tenths[kTenths] = {};               // puts per second
  uint64_t written_by_tenths[kTenths] = {};  // bytes of flushes and compactions at the end of each
  std::vector<uint32_t> put_nanos;           // of every kTimedPut-th put, sorted
  uint64_t ingested_bytes = 0;
  uint64_t distinct_keys = 0;
  uint64_t live_bytes = 0;
  uint64_t filled_bytes = 0;  // ingested when --fill had stored every key; 0 without it
  WriteCounters filled;
  WriteCounters at_load_end;
  WriteCounters settled;
  uint64_t flushes = 0;
  uint64_t table_bytes = 0;  // settled
  uint64_t directory_bytes = 0;
  double max_live_tables = 0;
  double max_table_files = 0;
  uint64_t max_table_file_bytes = 0;
  double writer_cpu_seconds = 0;
  double background_cpu_seconds = 0;  // to the end of settling
  uint64_t table_memory = 0;
  uint64_t index_filter_blocks = 0;
  TreeShape shape;
};

// Of sorted latencies, at `percent` of them; 0 when there are none.
double PercentileMicros(const std::vector<uint32_t>& sorted_nanos, double percent) {
  if (sorted_nanos.empty()) return 0;
  return 1e-3 * sorted_nanos[static_cast<size_t>(0.01 * percent * static_cast<double>(sorted_nanos.size() - 1))];
}

struct MixedResult {
  LookupResult reads;
  std::vector<uint32_t> nanos;  // of the gets, sorted
  uint64_t puts = 0;
};

// By so many threads, or in batches of so many.
struct ParallelResult {
  int depth = 0;
  LookupResult present;
  LookupResult missing;
};

// Lookups with a block cache of `bytes`.
struct MemoryResult {
  uint64_t bytes = 0;
  LookupResult present;
  LookupResult missing;
  LookupResult batches;
  std::vector<ParallelResult> threads;
};

struct ReadResults {
  LookupResult first;
  LookupResult second;
  LookupResult missing;
  LookupResult threads_present;
  LookupResult threads_missing;
  LookupResult seek, seek_absent, seek_10, seek_50;
  LookupResult scan;
  MixedResult mixed;
  std::vector<MemoryResult> memory;
  std::map<int, DeviceRate> device;  // by depth
};

// Write buffers that were filled.
class Sealed : public rocksdb::EventListener {
 public:
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { count_++; }
  uint64_t count() const { return count_; }

 private:
  std::atomic<uint64_t> count_{0};
};

// --paced: waits whenever there is one more.
class Pace {
 public:
  Status Wait(DB* db, const Sealed* sealed) {
    if (sealed == nullptr || sealed->count() == seen_) return Status::OK();
    seen_ = sealed->count();
    const Status s = db->WaitForCompact(rocksdb::WaitForCompactOptions());
    return s.ok() ? WaitForTrieCompaction(db) : s;
  }

 private:
  uint64_t seen_ = 0;
};

// Each key once, and then as another chooser says.
class FillFirst : public KeyChooser {
 public:
  FillFirst(uint64_t keys, std::unique_ptr<KeyChooser> then) : keys_(keys), then_(std::move(then)) {}
  uint64_t Next() override { return filled_ < keys_ ? filled_++ : then_->Next(); }

 private:
  const uint64_t keys_;
  const std::unique_ptr<KeyChooser> then_;
  uint64_t filled_ = 0;
};

class Workload {
 public:
  // `paced` may be null.
  explicit Workload(std::shared_ptr<const Sealed> paced)
      : paced_(std::move(paced)),
        values_(FLAGS_seed),
        keys_{KeysOfFlags(), FLAGS_distribution == "zipf", FLAGS_theta, FLAGS_seed},
        sizes_(keys_.keys, 0) {}

  Status Load(const Engine& engine, DB* db, const std::string& path, rocksdb::Statistics* statistics,
              LoadResult* result);
  // What a load with the same flags has stored.
  Status Replay(const Engine& engine, LoadResult* result);
  Status Read(const Engine& engine, DB* db, ReadResults* results);
  Status ReadWithMemory(const Engine& engine, DB* db, MemoryResult* result);

 private:
  // The key numbers of one of `writers` threads.
  KeySpace ShareOf(uint64_t writers) const {
    KeySpace share = keys_;
    share.keys /= writers;
    return share;
  }
  Lookups LookupsOf(DB* db) const { return Lookups(db, keys_, sizes_, values_); }
  // A null database: only remembers what the puts store.
  Status LoadShare(const Engine& engine, uint64_t writer, DB* db, rocksdb::Statistics* statistics, LoadResult* result);
  Status LoadAll(const Engine& engine, DB* db, rocksdb::Statistics* statistics, LoadResult* result);
  Status ReadWhileWriting(const std::string& step, DB* db, MixedResult* result);
  // Overwrites keys by what they hold, so that gets know what to expect.
  Status Overwrite(DB* db, const std::atomic<bool>& stop, uint64_t* puts);
  Status PutOne(DB* db, uint64_t number, size_t size);
  // The same, and takes the time of every kTimedPut-th.
  Status TimedPut(DB* db, uint64_t number, size_t size, uint64_t puts_before, LoadResult* result);
  void Remember(uint64_t number, size_t size, LoadResult* result);

  const std::shared_ptr<const Sealed> paced_;
  const ValueSource values_;
  const KeySpace keys_;
  SizeTable sizes_;
  std::atomic<uint64_t> live_bytes_{0};
};

Status Workload::PutOne(DB* db, uint64_t number, size_t size) {
  rocksdb::WriteOptions write;
  write.disableWAL = FLAGS_disable_wal;
  char key[kKeyBytes];
  EncodeKey(number, key);
  rocksdb::Slice key_slice(key, kKeyBytes);
  return size == 0 ? db->Delete(write, key_slice) : db->Put(write, key_slice, values_.Value(number, size));
}

Status Workload::TimedPut(DB* db, uint64_t number, size_t size, uint64_t puts_before, LoadResult* result) {
  if (puts_before % kTimedPut != 0) return PutOne(db, number, size);
  const Clock::time_point start = Clock::now();
  const Status s = PutOne(db, number, size);
  result->put_nanos.push_back(NanosSince(start));
  return s;
}

void Workload::Remember(uint64_t number, size_t size, LoadResult* result) {
  uint64_t before = sizes_[number] == 0 ? 0 : kKeyBytes + sizes_[number];
  uint64_t after = size == 0 ? 0 : kKeyBytes + size;
  result->distinct_keys += static_cast<uint64_t>(after > 0) - static_cast<uint64_t>(before > 0);
  result->ingested_bytes += kKeyBytes + size;
  sizes_[number] = static_cast<uint16_t>(size);
  live_bytes_.fetch_add(after - before, std::memory_order_relaxed);
}

// Writer `writer` of FLAGS_writers: its share of the puts, of its own keys.
Status Workload::LoadShare(const Engine& engine, uint64_t writer, DB* db, rocksdb::Statistics* statistics,
                           LoadResult* result) {
  const uint64_t writers = FLAGS_writers;
  std::unique_ptr<KeyChooser> chooser = ShareOf(writers).NewChooser(16 * writer);
  if (FLAGS_fill) chooser = std::make_unique<FillFirst>(keys_.keys, std::move(chooser));
  Random64 sizes(FLAGS_seed + 16 * writer + 1);
  const uint64_t puts = FLAGS_puts / writers;
  CpuSeconds cpu_start = ReadCpu();
  std::optional<Progress> bar;
  if (writer == 0) bar.emplace(engine.name + std::string(": load"), "puts", FLAGS_puts, 0, stderr, kBarOnly);
  uint64_t done = 0;
  Pace pace;
  for (int tenth = 0; tenth < kTenths; tenth++) {
    uint64_t end = puts / kTenths * (tenth + 1) + (tenth == kTenths - 1 ? puts % kTenths : 0);
    uint64_t count = end - done;
    Clock::time_point tenth_start = Clock::now();
    for (; done < end; done++) {
      size_t size = FLAGS_value_min + sizes.Uniform(FLAGS_value_max - FLAGS_value_min + 1);
      if (FLAGS_deletes_percent > 0 && sizes.Uniform(100) < FLAGS_deletes_percent) {
        size = 0;
      }
      const uint64_t number = chooser->Next() * writers + writer;
      Status s = db == nullptr ? Status::OK() : TimedPut(db, number, size, done, result);
      if (s.ok() && db != nullptr) s = pace.Wait(db, paced_.get());
      if (!s.ok()) {
        return s;
      }
      Remember(number, size, result);
      if (FLAGS_fill && done + 1 == keys_.keys) {
        result->filled_bytes = result->ingested_bytes;
        if (statistics != nullptr) result->filled = ReadWriteCounters(*statistics);
      }
      if (bar.has_value()) bar->Step(done * writers);
    }
    result->tenths[tenth] = static_cast<double>(count * writers) / SecondsSince(tenth_start);
    if (statistics == nullptr) continue;
    const WriteCounters written = ReadWriteCounters(*statistics);
    result->written_by_tenths[tenth] = written.flush_bytes + written.compaction_bytes;
  }
  result->writer_cpu_seconds = ReadCpu().thread - cpu_start.thread;
  return Status::OK();
}

// The tenths are those of the first writer.
Status Workload::LoadAll(const Engine& engine, DB* db, rocksdb::Statistics* statistics, LoadResult* result) {
  std::vector<LoadResult> results(FLAGS_writers);
  std::vector<Status> statuses(FLAGS_writers);
  std::vector<std::thread> writers;
  for (uint64_t i = 1; i < FLAGS_writers; i++) {
    writers.emplace_back([&, i] { statuses[i] = LoadShare(engine, i, db, statistics, &results[i]); });
  }
  statuses[0] = LoadShare(engine, 0, db, statistics, result);
  for (std::thread& writer : writers) writer.join();
  for (uint64_t i = 1; i < FLAGS_writers; i++) {
    result->distinct_keys += results[i].distinct_keys;
    result->ingested_bytes += results[i].ingested_bytes;
    result->writer_cpu_seconds += results[i].writer_cpu_seconds;
    result->put_nanos.insert(result->put_nanos.end(), results[i].put_nanos.begin(), results[i].put_nanos.end());
  }
  std::sort(result->put_nanos.begin(), result->put_nanos.end());
  for (const Status& s : statuses) {
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status Workload::Replay(const Engine& engine, LoadResult* result) {
  Status s = LoadAll(engine, nullptr, nullptr, result);
  result->live_bytes = live_bytes_.load(std::memory_order_relaxed);
  return s;
}

Status Workload::Load(const Engine& engine, DB* db, const std::string& path, rocksdb::Statistics* statistics,
                      LoadResult* result) {
  CpuSeconds cpu_start = ReadCpu();
  SpaceSampler sampler(db, path + "/db", &live_bytes_, 4 * FLAGS_write_buffer_size);
  Clock::time_point start = Clock::now();
  Status s = LoadAll(engine, db, statistics, result);
  if (!s.ok()) {
    return s;
  }
  result->seconds = SecondsSince(start);
  result->at_load_end = ReadWriteCounters(*statistics);

  Clock::time_point settle_start = Clock::now();
  s = engine.settle(db);
  if (!s.ok()) {
    return s;
  }
  result->settle_seconds = SecondsSince(settle_start);
  sampler.Stop();
  CpuSeconds cpu_end = ReadCpu();
  result->background_cpu_seconds =
      (cpu_end.process - cpu_start.process) - result->writer_cpu_seconds - sampler.cpu_seconds();
  result->settled = ReadWriteCounters(*statistics);
  rocksdb::HistogramData flushes;
  statistics->histogramData(rocksdb::FLUSH_TIME, &flushes);
  result->flushes = flushes.count;
  result->live_bytes = live_bytes_.load(std::memory_order_relaxed);
  result->table_bytes = LiveTableBytes(db);
  result->directory_bytes = DirectoryBytes(path);
  result->max_live_tables = sampler.max_live_tables();
  result->max_table_files = sampler.max_table_files();
  result->max_table_file_bytes = sampler.max_table_file_bytes();
  result->table_memory = TableReaderMemory(db);
  result->index_filter_blocks = IndexFilterBlocks(db);
  result->shape = ReadShape(db);
  return s;
}

Status Workload::Overwrite(DB* db, const std::atomic<bool>& stop, uint64_t* puts) {
  std::unique_ptr<KeyChooser> chooser = keys_.NewChooser(4);
  Status s;
  while (s.ok() && !stop.load(std::memory_order_relaxed)) {
    uint64_t number = chooser->Next();
    if (sizes_[number] == 0) {
      continue;
    }
    s = PutOne(db, number, sizes_[number]);
    ++*puts;
  }
  return s;
}

Status Workload::ReadWhileWriting(const std::string& step, DB* db, MixedResult* result) {
  std::atomic<bool> stop{false};
  Status written;
  const Lookups lookups = LookupsOf(db);
  std::thread writer([&] { written = Overwrite(db, stop, &result->puts); });
  std::vector<uint32_t>& nanos = result->nanos;
  nanos.reserve(FLAGS_mixed_gets);
  std::unique_ptr<KeyChooser> chooser = keys_.NewChooser(5);
  Status s;
  {
    Progress bar(step, "gets", FLAGS_mixed_gets, 0, stderr, kBarOnly);
    ResetLookupCounters();
    Clock::time_point start = Clock::now();
    rocksdb::PinnableSlice value;
    while (s.ok() && nanos.size() < FLAGS_mixed_gets) {
      uint64_t number = chooser->Next();
      if (sizes_[number] == 0) {
        continue;
      }
      Clock::time_point before = Clock::now();
      s = lookups.GetPresent(number, &value);
      nanos.push_back(NanosSince(before));
      value.Reset();
      bar.Step(nanos.size());
    }
    result->reads.seconds = SecondsSince(start);
    result->reads.counters = ReadLookupCounters();
  }
  stop.store(true, std::memory_order_relaxed);
  writer.join();
  result->reads.gets = nanos.size();
  std::sort(nanos.begin(), nanos.end());
  return s.ok() ? written : s;
}

Status Workload::Read(const Engine& engine, DB* db, ReadResults* results) {
  const Lookups lookups = LookupsOf(db);
  const std::string name = engine.name;
  Status s;
  LookupResult ignored;
  if (FLAGS_warm) s = lookups.Scan(/*fill_cache=*/true, &ignored);
  if (s.ok() && FLAGS_gets > 0) s = lookups.Present(name + ": first pass", FLAGS_gets, &results->first);
  if (s.ok() && FLAGS_gets > 0) s = lookups.Present(name + ": second pass", FLAGS_gets, &results->second);
  if (s.ok() && FLAGS_missing_gets > 0) s = lookups.Missing(FLAGS_missing_gets, &results->missing);
  if (s.ok() && FLAGS_threads > 0 && FLAGS_gets > 0) {
    s = lookups.InThreads(FLAGS_threads, FLAGS_gets, true, &results->threads_present);
  }
  if (s.ok() && FLAGS_threads > 0 && FLAGS_missing_gets > 0) {
    s = lookups.InThreads(FLAGS_threads, FLAGS_missing_gets, false, &results->threads_missing);
  }
  if (FLAGS_seeks > 0 && engine.key_order == KeyOrder::kBytes) {
    const auto seek = [&](const char* what, Lookups::SeekTo to, int steps, LookupResult* result) {
      if (s.ok()) s = lookups.Seeks(name + what, FLAGS_seeks, to, steps, result);
    };
    seek(": seeks", Lookups::SeekTo::kPresent, 0, &results->seek);
    seek(": seeks of absent keys", Lookups::SeekTo::kAbsent, 0, &results->seek_absent);
    seek(": seeks and 10 steps", Lookups::SeekTo::kPresent, 10, &results->seek_10);
    seek(": seeks and 50 steps", Lookups::SeekTo::kPresent, 50, &results->seek_50);
  }
  if (s.ok() && FLAGS_scan) s = lookups.Scan(/*fill_cache=*/false, &results->scan);
  if (s.ok() && FLAGS_mixed_gets > 0) s = ReadWhileWriting(name + ": gets during overwrites", db, &results->mixed);
  return s;
}

Status Workload::ReadWithMemory(const Engine& engine, DB* db, MemoryResult* result) {
  const Lookups lookups = LookupsOf(db);
  const std::string name = std::string(engine.name) + ", " + HumanBytes(static_cast<double>(result->bytes));
  // The first pass fills the cache.
  LookupResult first;
  Status s = lookups.Present(name + ": first pass", FLAGS_memory_gets, &first);
  if (s.ok()) s = lookups.InBatches(name + ": batches", FLAGS_memory_gets, kBatch, &result->batches);
  result->present.timed = true;
  if (s.ok()) s = lookups.Present(name + ": second pass", FLAGS_memory_gets, &result->present);
  if (s.ok()) s = lookups.Missing(FLAGS_memory_gets, &result->missing);
  for (const uint64_t threads : Numbers(FLAGS_memory_threads)) {
    if (!s.ok()) break;
    result->threads.emplace_back();
    ParallelResult& parallel = result->threads.back();
    parallel.depth = static_cast<int>(threads);
    s = lookups.InThreads(parallel.depth, FLAGS_memory_gets / threads, true, &parallel.present);
    if (s.ok()) s = lookups.InThreads(parallel.depth, FLAGS_memory_gets / threads, false, &parallel.missing);
  }
  return s;
}

double PerByte(uint64_t bytes, uint64_t of) {
  return of == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(of);
}

double PerSecond(uint64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

// From the end of --fill on; 0 without it.
double WrittenPerByteOfUpdates(const LoadResult& load) {
  if (load.filled_bytes == 0) return 0;
  const uint64_t written = load.settled.flush_bytes + load.settled.compaction_bytes;
  const uint64_t before = load.filled.flush_bytes + load.filled.compaction_bytes;
  return PerByte(written - before, load.ingested_bytes - load.filled_bytes);
}

void AddReadFields(const LookupResult& r, JsonWriter* json) {
  json->Add("gets", r.gets)
      .Add("per_second", PerSecond(r.gets, r.seconds))
      .Add("cpu_micros", r.gets == 0 ? 0 : 1e6 * r.cpu_seconds / static_cast<double>(r.gets))
      .Add("blocks_read_per_get", PerByte(r.counters.blocks_read, r.gets))
      .Add("filter_blocks_read_per_get", PerByte(r.counters.filter_blocks_read, r.gets))
      .Add("index_blocks_read_per_get", PerByte(r.counters.index_blocks_read, r.gets))
      .Add("data_blocks_read_per_get", PerByte(r.counters.data_blocks_read(), r.gets))
      .Add("blocks_cached_per_get", PerByte(r.counters.blocks_cached, r.gets))
      .Add("filters_asked_per_get", PerByte(r.counters.filter_passes + r.counters.filter_stops, r.gets))
      .Add("filters_passed_per_get", PerByte(r.counters.filter_passes, r.gets));
}

void AddReads(const char* name, const LookupResult& r, JsonWriter* json) {
  if (r.gets == 0) {
    return;
  }
  json->BeginObject(name);
  AddReadFields(r, json);
  json->EndObject();
}

void AddMixed(const MixedResult& r, JsonWriter* json) {
  if (r.reads.gets == 0) {
    return;
  }
  json->BeginObject("mixed");
  AddReadFields(r.reads, json);
  json->Add("puts", r.puts)
      .Add("puts_per_second", PerSecond(r.puts, r.reads.seconds))
      .Add("p50_micros", PercentileMicros(r.nanos, 50))
      .Add("p99_micros", PercentileMicros(r.nanos, 99))
      .Add("p999_micros", PercentileMicros(r.nanos, 99.9));
  json->EndObject();
}

// Of what the device does at this depth; 0 if it is not known.
double DeviceShare(const LookupResult& r, int depth, const ReadResults& reads) {
  const auto rate = reads.device.find(depth);
  if (rate == reads.device.end() || r.seconds == 0) return 0;
  return static_cast<double>(r.counters.blocks_read) / r.seconds / rate->second.reads_per_second;
}

void AddMemory(const ReadResults& reads, JsonWriter* json) {
  const std::vector<MemoryResult>& memory = reads.memory;
  if (memory.empty()) return;
  // By the order of --memory: "0", "1", ...
  json->BeginObject("memory");
  for (size_t i = 0; i < memory.size(); ++i) {
    json->BeginObject(std::to_string(i)).Add("bytes", memory[i].bytes);
    AddReads("present", memory[i].present, json);
    AddReads("missing", memory[i].missing, json);
    AddReads("batches", memory[i].batches, json);
    json->Add("present_p99_micros", PercentileMicros(memory[i].present.nanos, 99))
        .Add("present_device_share", DeviceShare(memory[i].present, 1, reads))
        .Add("batches_device_share", DeviceShare(memory[i].batches, kBatch, reads));
    for (const ParallelResult& threads : memory[i].threads) {
      json->BeginObject("threads_" + std::to_string(threads.depth));
      AddReads("present", threads.present, json);
      AddReads("missing", threads.missing, json);
      json->Add("present_device_share", DeviceShare(threads.present, threads.depth, reads));
      json->EndObject();
    }
    json->EndObject();
  }
  json->EndObject();
}

std::string ResultsAsJson(const Engine& engine, const LoadResult& load, const ReadResults& reads) {
  JsonWriter json;
  json.BeginObject();
  json.Add("program", "engine_bench").Add("engine", engine.name);
  json.BeginObject("workload")
      .Add("puts", FLAGS_puts)
      .Add("keys", KeysOfFlags())
      .Add("distribution", FLAGS_distribution)
      .Add("theta", FLAGS_distribution == "zipf" ? FLAGS_theta : 0.0)
      .Add("value_min", FLAGS_value_min)
      .Add("value_max", FLAGS_value_max)
      .Add("deletes_percent", FLAGS_deletes_percent)
      .Add("write_buffer_size", FLAGS_write_buffer_size)
      .Add("background_jobs", FLAGS_background_jobs)
      .Add("cache_size", FLAGS_cache_size)
      .Add("level0_trigger", FLAGS_level0_trigger)
      .Add("wal", FLAGS_disable_wal ? "off" : "on")
      .Add("writers", FLAGS_writers)
      .Add("memtable", FLAGS_memtable)
      .Add("engine_options", FLAGS_engine_options)
      .Add("db_options", FLAGS_db_options)
      .Add("fill", FLAGS_fill ? "yes" : "no")
      .Add("result_cache", FLAGS_result_cache)
      .Add("hyper_clock_cache", FLAGS_hyper_clock_cache ? "yes" : "no")
      .Add("index_in_cache", FLAGS_index_in_cache ? "yes" : "no")
      .Add("seed", FLAGS_seed)
      .EndObject();
  json.Add("ingested_bytes", load.ingested_bytes)
      .Add("flushes", load.flushes)
      .Add("flush_bytes", load.settled.flush_bytes)
      .Add("compaction_bytes", load.settled.compaction_bytes)
      .Add("compaction_read_bytes", load.settled.compaction_read_bytes)
      .Add("wal_bytes", load.settled.wal_bytes)
      .Add("written_per_byte", PerByte(load.settled.flush_bytes + load.settled.compaction_bytes, load.ingested_bytes))
      .Add("written_per_byte_at_load_end",
           PerByte(load.at_load_end.flush_bytes + load.at_load_end.compaction_bytes, load.ingested_bytes))
      .Add("written_per_byte_of_updates", WrittenPerByteOfUpdates(load))
      .Add("load_seconds", load.seconds)
      .Add("puts_per_second", PerSecond(FLAGS_puts, load.seconds))
      .Add("puts_per_second_until_settled", PerSecond(FLAGS_puts, load.seconds + load.settle_seconds));
  json.BeginArray("puts_per_second_by_tenth");
  for (double rate : load.tenths) {
    json.AddElement(rate);
  }
  json.EndArray();
  json.BeginArray("written_bytes_by_tenth");
  for (uint64_t bytes : load.written_by_tenths) {
    json.AddElement(static_cast<double>(bytes));
  }
  json.EndArray();
  json.Add("put_p50_micros", PercentileMicros(load.put_nanos, 50))
      .Add("put_p99_micros", PercentileMicros(load.put_nanos, 99))
      .Add("put_p999_micros", PercentileMicros(load.put_nanos, 99.9))
      .Add("put_max_micros", PercentileMicros(load.put_nanos, 100));
  json.Add("stall_seconds", 1e-6 * static_cast<double>(load.settled.stall_micros))
      .Add("settle_seconds", load.settle_seconds)
      .Add("writer_cpu_seconds", load.writer_cpu_seconds)
      .Add("background_cpu_seconds", load.background_cpu_seconds)
      .Add("distinct_keys", load.distinct_keys)
      .Add("live_bytes", load.live_bytes)
      .Add("table_bytes", load.table_bytes)
      .Add("directory_bytes", load.directory_bytes)
      .Add("space_amplification", PerByte(load.table_bytes, load.live_bytes))
      .Add("max_space_amplification", load.max_live_tables)
      .Add("max_space_amplification_on_disk", load.max_table_files)
      .Add("max_table_file_bytes", load.max_table_file_bytes)
      .Add("files", load.shape.files)
      .Add("sorted_runs", load.shape.sorted_runs)
      .Add("index_filter_memory_bytes", load.table_memory)
      .Add("index_filter_block_bytes", load.index_filter_blocks);
  AddReads("first_pass", reads.first, &json);
  AddReads("second_pass", reads.second, &json);
  AddReads("missing", reads.missing, &json);
  AddReads("threads_present", reads.threads_present, &json);
  AddReads("threads_missing", reads.threads_missing, &json);
  AddReads("seek", reads.seek, &json);
  AddReads("seek_absent", reads.seek_absent, &json);
  AddReads("seek_10", reads.seek_10, &json);
  AddReads("seek_50", reads.seek_50, &json);
  AddReads("scan", reads.scan, &json);
  AddMixed(reads.mixed, &json);
  AddMemory(reads, &json);
  for (const auto& [depth, rate] : reads.device) {
    json.BeginObject("device_" + std::to_string(depth))
        .Add("per_second", rate.reads_per_second)
        .Add("cpu_micros", rate.cpu_micros);
    json.EndObject();
  }
  json.EndObject();
  return json.text();
}

std::string Percentiles(const std::vector<uint32_t>& nanos) {
  return Fixed(PercentileMicros(nanos, 50), 1) + ", " + Fixed(PercentileMicros(nanos, 99), 1) + ", " +
         Fixed(PercentileMicros(nanos, 99.9), 1);
}

std::string ReadLine(const LookupResult& r) {
  return ShortCount(PerSecond(r.gets, r.seconds)) + "/s, " +
         Fixed(1e6 * r.cpu_seconds / static_cast<double>(r.gets), 2) + " us of CPU, " +
         Fixed(PerByte(r.counters.blocks_read, r.gets), 3) + " blocks read";
}

void PrintForPeople(const Engine& engine, const LoadResult& load, const ReadResults& reads) {
  std::string tenths;
  for (double rate : load.tenths) {
    tenths += (tenths.empty() ? "" : " ") + Fixed(rate / 1000, 0);
  }
  std::vector<std::vector<std::string>> rows = {
      {"engine", engine.name},
      {"ingested", HumanBytes(static_cast<double>(load.ingested_bytes))},
      {"written by flush and compaction",
       HumanBytes(static_cast<double>(load.settled.flush_bytes + load.settled.compaction_bytes))},
      {"write amplification",
       Fixed(PerByte(load.settled.flush_bytes + load.settled.compaction_bytes, load.ingested_bytes), 2)},
      {"load rate", ShortCount(PerSecond(FLAGS_puts, load.seconds)) + "/s"},
      {"  by tenths, thousands/s", tenths},
      {"  Put p50, p99, p99.9 us", Percentiles(load.put_nanos)},
      {"settle", Fixed(load.settle_seconds, 1) + " s"},
      {"CPU time, writer", Fixed(load.writer_cpu_seconds, 1) + " s"},
      {"CPU time, background", Fixed(load.background_cpu_seconds, 1) + " s"},
      {"live bytes", HumanBytes(static_cast<double>(load.live_bytes))},
      {"table bytes", HumanBytes(static_cast<double>(load.table_bytes))},
      {"space amplification at the end", Fixed(PerByte(load.table_bytes, load.live_bytes), 2)},
      {"peak space amplification, live tables", Fixed(load.max_live_tables, 2)},
      {"peak space amplification", Fixed(load.max_table_files, 2)},
      {"files, sorted runs", std::to_string(load.shape.files) + ", " + std::to_string(load.shape.sorted_runs)},
      {"index and filter memory", HumanBytes(static_cast<double>(load.table_memory))},
  };
  const auto add = [&rows](const std::string& label, const LookupResult& r) {
    if (r.gets > 0) rows.push_back({label, ReadLine(r)});
  };
  add("Get, first pass", reads.first);
  add("Get, second pass", reads.second);
  add("Get, absent keys", reads.missing);
  add("Get by threads", reads.threads_present);
  add("Get by threads, absent keys", reads.threads_missing);
  add("Seek", reads.seek);
  add("Seek, absent keys", reads.seek_absent);
  add("Seek and 10 steps", reads.seek_10);
  add("Seek and 50 steps", reads.seek_50);
  add("scan, entries", reads.scan);
  add("Get during overwrites", reads.mixed.reads);
  if (reads.mixed.reads.gets > 0) rows.push_back({"  p50, p99, p99.9 us", Percentiles(reads.mixed.nanos)});
  for (const MemoryResult& memory : reads.memory) {
    rows.push_back({"with memory", HumanBytes(static_cast<double>(memory.bytes))});
    add("  Get", memory.present);
    add("  Get, absent keys", memory.missing);
    rows.push_back({"    p50, p99, p99.9 us", Percentiles(memory.present.nanos)});
    add("  MultiGet of " + std::to_string(kBatch), memory.batches);
    for (const ParallelResult& threads : memory.threads) {
      add("  Get by " + std::to_string(threads.depth) + " threads", threads.present);
      add("  Get by " + std::to_string(threads.depth) + " threads, absent keys", threads.missing);
    }
  }
  for (const auto& [depth, rate] : reads.device) {
    rows.push_back({"device, " + std::to_string(depth) + " reads at once",
                    ShortCount(rate.reads_per_second) + "/s, " + Fixed(rate.cpu_micros, 2) + " us of CPU"});
  }
  fputs(AlignTable(rows).c_str(), stdout);
}

std::string MixNames() {
  std::string names;
  for (const Mix& mix : Mixes()) names += (names.empty() ? "" : ", ") + std::string(mix.name);
  return names;
}

// False when a name is unknown, or the items of one mix are not those of another.
bool FindMixes(std::vector<const Mix*>* mixes) {
  std::stringstream text(FLAGS_mix);
  for (std::string name; std::getline(text, name, ',');) {
    mixes->push_back(FindMix(name));
    if (mixes->back() == nullptr || mixes->back()->shape != mixes->front()->shape) return false;
  }
  return true;
}

// Empty, or what is wrong with the flags.
std::string CheckFlags() {
  if (FLAGS_engine.empty()) {
    return "--engine is missing; it may be " + EngineNames();
  }
  if (FindEngine(FLAGS_engine) == nullptr) {
    return "unknown --engine=" + FLAGS_engine + "; it may be " + EngineNames();
  }
  if (FLAGS_distribution != "uniform" && FLAGS_distribution != "zipf") {
    return "unknown --distribution=" + FLAGS_distribution + "; it may be uniform or zipf";
  }
  if (FLAGS_theta <= 0 || FLAGS_theta == 1) {
    return "--theta must be above 0 and not 1";
  }
  if (FLAGS_puts == 0) {
    return "--puts must be at least 1";
  }
  if (FLAGS_writers < 1 || FLAGS_writers > 64 || FLAGS_writers > FLAGS_puts) {
    return "--writers must be from 1 to 64, and at most --puts";
  }
  if (FLAGS_paced && FLAGS_writers > 1) {
    return "--paced needs one writer";
  }
  if (FLAGS_fill && FLAGS_writers > 1) {
    return "--fill needs one writer";
  }
  if (FLAGS_fill && FLAGS_keys > FLAGS_puts) {
    return "--fill needs at least as many --puts as --keys";
  }
  if (FLAGS_value_min < 1 || FLAGS_value_max > 65535 || FLAGS_value_min > FLAGS_value_max) {
    return "value sizes must be 1 <= --value_min <= --value_max <= 65535";
  }
  const std::vector<uint64_t> sizes = Numbers(FLAGS_memory);
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    return "--memory must be numbers of bytes, separated by commas: \"" + FLAGS_memory + "\"";
  }
  for (const uint64_t threads : Numbers(FLAGS_memory_threads)) {
    if (threads < 1 || threads > 64) return "--memory_threads must be numbers from 1 to 64, separated by commas";
  }
  std::vector<const Mix*> mixes;
  if (!FindMixes(&mixes)) {
    return "--mix must name mixes of one shape; there are " + MixNames();
  }
  if (!mixes.empty() && FLAGS_keys < 1000) {
    return "--mix needs at least 1000 --keys";
  }
  if (FLAGS_mix_record_bytes > ValueSource::kMaxValueBytes) {
    return "--mix_record_bytes must be at most 65536";
  }
  if (FLAGS_deletes_percent > 99) {
    return "--deletes_percent must be at most 99";
  }
  return "";
}

EngineSettings SettingsOfFlags() {
  EngineSettings settings;
  settings.write_buffer_size = FLAGS_write_buffer_size;
  settings.block_cache_size = FLAGS_cache_size;
  settings.background_jobs = FLAGS_background_jobs;
  settings.filter_bits = FLAGS_bloom_bits;
  settings.level0_trigger = FLAGS_level0_trigger;
  settings.hyper_clock_cache = FLAGS_hyper_clock_cache;
  settings.index_in_cache = FLAGS_index_in_cache;
  settings.memtable = FLAGS_memtable;
  settings.engine_options = FLAGS_engine_options;
  return settings;
}

Status UseDBOptions(rocksdb::Options* options) {
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  rocksdb::DBOptions database;
  const Status s = rocksdb::GetDBOptionsFromString(config, rocksdb::DBOptions(*options), FLAGS_db_options, &database);
  if (s.ok()) *options = rocksdb::Options(database, *options);
  return s;
}

Status UseBlockOptions(rocksdb::Options* options) {
  auto* const table = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (table == nullptr) return Status::InvalidArgument("--block_options: the engine has no block-based table");
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  rocksdb::BlockBasedTableOptions changed;
  const Status s = rocksdb::GetBlockBasedTableOptionsFromString(config, *table, FLAGS_block_options, &changed);
  if (s.ok()) *table = changed;
  return s;
}

Status OpenEngine(const Engine& engine, const EngineSettings& settings, bool direct_reads, const std::string& path,
                  rocksdb::Options* options, std::unique_ptr<DB>* db,
                  const std::shared_ptr<rocksdb::EventListener>& listener = nullptr) {
  Status s = engine.configure(settings, options);
  if (listener != nullptr) options->listeners.push_back(listener);
  if (s.ok()) {
    s = UseMemtable(settings, options);
  }
  if (s.ok()) {
    s = UseDBOptions(options);
  }
  if (s.ok() && !FLAGS_block_options.empty()) s = UseBlockOptions(options);
  options->use_direct_reads = direct_reads;
  options->use_direct_io_for_flush_and_compaction = FLAGS_direct_io;
  if (FLAGS_result_cache > 0) {
    DatabaseCacheOptions cache;
    cache.capacity = FLAGS_result_cache;
    UseResultCache(cache, options);
  }
  DB* raw = nullptr;
  if (s.ok()) {
    s = engine.open(*options, path + "/db", &raw);
  }
  db->reset(raw);
  return s;
}

Status ReadWithEachMemory(const Engine& engine, const std::string& path, Workload* workload, ReadResults* reads) {
  Status s;
  for (const uint64_t bytes : Numbers(FLAGS_memory)) {
    EngineSettings settings = SettingsOfFlags();
    settings.block_cache_size = bytes;
    settings.index_in_cache = true;
    rocksdb::Options options;
    std::unique_ptr<DB> db;
    s = OpenEngine(engine, settings, /*direct_reads=*/true, path, &options, &db);
    if (!s.ok()) break;
    reads->memory.emplace_back();
    reads->memory.back().bytes = bytes;
    s = workload->ReadWithMemory(engine, db.get(), &reads->memory.back());
    const Status closed = db->Close();
    if (s.ok()) s = closed;
    if (!s.ok()) break;
  }
  if (!FLAGS_device) return s;
  std::vector<uint64_t> depths = Numbers(FLAGS_memory_threads);
  depths.push_back(1);
  depths.push_back(kBatch);
  for (const uint64_t depth : depths) {
    if (!s.ok()) break;
    s = MeasureDevice(path + "/db", static_cast<unsigned>(depth), kDeviceSeconds,
                      &reads->device[static_cast<int>(depth)]);
  }
  return s;
}

Status RunMixesOfFlags(const Engine& engine) {
  ScratchFolder folder;
  Status s = folder.Create(FLAGS_db, std::string("engine_bench_") + engine.name + "_");
  rocksdb::Options options;
  std::unique_ptr<DB> db;
  if (s.ok()) s = OpenEngine(engine, SettingsOfFlags(), FLAGS_direct_io, folder.path(), &options, &db);
  if (!s.ok()) return s;
  MixSettings settings;
  FindMixes(&settings.mixes);
  settings.items = FLAGS_keys;
  settings.operations = FLAGS_mix_operations;
  settings.record_bytes = FLAGS_mix_record_bytes;
  settings.write_buffer_size = FLAGS_write_buffer_size;
  settings.seed = FLAGS_seed;
  settings.count_at_last = FLAGS_scan;
  settings.database = folder.path() + "/db";
  JsonWriter json;
  json.BeginObject().Add("program", "engine_bench").Add("engine", engine.name);
  s = RunMixes(engine, settings, db.get(), *options.statistics, &json);
  json.EndObject();
  const Status closed = db->Close();
  if (s.ok()) s = closed;
  return s.ok() ? WriteTextFile(FLAGS_json.empty() ? "-" : FLAGS_json, json.text()) : s;
}

Status Run(const Engine& engine) {
  if (!FLAGS_mix.empty()) return RunMixesOfFlags(engine);
  ScratchFolder folder;
  Status s;
  std::string path = FLAGS_path;
  bool filled = false;
  if (path.empty()) {
    s = folder.Create(FLAGS_db, std::string("engine_bench_") + engine.name + "_");
    path = folder.path();
  } else {
    std::error_code error;
    filled = std::filesystem::exists(path + "/db/CURRENT", error);
    std::filesystem::create_directories(path, error);
  }
  rocksdb::Options options;
  std::unique_ptr<DB> db;
  const std::shared_ptr<Sealed> paced = FLAGS_paced ? std::make_shared<Sealed>() : nullptr;
  if (s.ok()) {
    s = OpenEngine(engine, SettingsOfFlags(), /*direct_reads=*/false, path, &options, &db, paced);
  }
  if (!s.ok()) {
    return s;
  }
  Workload workload(paced);
  LoadResult load;
  ReadResults reads;
  if (filled) {
    s = workload.Replay(engine, &load);
  } else {
    s = workload.Load(engine, db.get(), path, options.statistics.get(), &load);
  }
  if (s.ok()) {
    s = workload.Read(engine, db.get(), &reads);
  }
  const Status closed = db->Close();
  db.reset();
  if (s.ok()) s = closed;
  if (s.ok()) {
    s = ReadWithEachMemory(engine, path, &workload, &reads);
  }
  if (s.ok() && FLAGS_json != "-") {
    PrintForPeople(engine, load, reads);
  }
  if (s.ok() && !FLAGS_json.empty()) {
    s = WriteTextFile(FLAGS_json, ResultsAsJson(engine, load, reads));
  }
  return s;
}

}  // namespace
}  // namespace cairn::bench

// Lets RocksDB read by io_uring, which MultiGet needs to read pages together with direct I/O.
extern "C" bool RocksDbIOUringEnable() { return true; }

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  gflags::SetUsageMessage("measures one engine under a load of small items\n\n  engine_bench --engine=NAME [flags]");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::string wrong = argc > 1 ? std::string("unexpected argument ") + argv[1] : cairn::bench::CheckFlags();
  if (!wrong.empty()) {
    fprintf(stderr, "engine_bench: %s\n", wrong.c_str());
    return 2;
  }
  rocksdb::Status s = cairn::bench::Run(*cairn::bench::FindEngine(FLAGS_engine));
  if (!s.ok()) {
    fprintf(stderr, "engine_bench: %s: %s\n", FLAGS_engine.c_str(), s.ToString().c_str());
    return 1;
  }
  return 0;
}
