// What a write costs one or more writers of a memtable that never fills: no WAL, 16-byte keys, 100-byte values.
//
//   write_bench MODE WRITERS ENTRIES_PER_BATCH BATCHES
//   write_bench --steps MODE ENTRIES_PER_BATCH            instructions per batch of one writer (no counters needed)
//
// MODE: fast (writers do not queue), queue (the same memtable by RocksDB's path), skip (RocksDB's skip list), unordered
// (queue, with unordered_write: snapshots are none then); with -copy, sealed by copy; with -durable, into a pool file;
// with -wal, with a WAL; with -pipelined, -leader: RocksDB's options. A batch of one entry is a Put; with -batch, a
// Write.
//
// Prints thousand entries per second, and per batch: processor time, context switches; the longest batch.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/memtable.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/write_batch.h"
#include "test/testutil/single_step.h"
#include "util/mix64.h"

namespace cairn {
namespace {

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "write_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

class Bench {
 public:
  explicit Bench(const std::string& mode) {
    const auto has = [&](const char* part) { return mode.find(part) != std::string::npos; };
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = size_t{3} << 30;
    options.compression = rocksdb::kNoCompression;
    options.avoid_flush_during_shutdown = true;
    options.unordered_write = has("unordered");
    options.enable_pipelined_write = has("pipelined");
    options.allow_concurrent_memtable_write = !has("leader");
    SubMemTableOptions sub;
    sub.queueless_writes = has("fast");
    sub.durable = has("durable");
    sub.copy_on_seal = has("copy");
    batches_ = has("batch");
    if (!has("skip")) options.memtable_factory = NewSubMemTableFactory(sub);
    write_options_.disableWAL = !has("wal") && !has("durable");
    path_ = "/dev/shm/write_bench." + std::to_string(getpid());
    Check(rocksdb::DestroyDB(path_, options));
    Check(rocksdb::DB::Open(options, path_, port::Into(&db_)));
    options_ = options;
  }
  ~Bench() {
    std::string stats;
    if (db_->GetProperty("cairn.stats", &stats)) fputs(stats.c_str(), stdout);
    db_.reset();
    rocksdb::DestroyDB(path_, options_).PermitUncheckedError();
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void Write(uint64_t number, uint64_t entries, std::string* value, rocksdb::WriteBatch* batch) {
    if (entries == 1 && !batches_) {
      const uint64_t key[2] = {SplitMix64(number), number};
      memcpy(value->data(), key, sizeof(key));
      return Check(db_->Put(write_options_, rocksdb::Slice(reinterpret_cast<const char*>(key), sizeof(key)), *value));
    }
    batch->Clear();
    for (uint64_t i = 0; i < entries; ++i) {
      const uint64_t key[2] = {SplitMix64(number * entries + i), number * entries + i};
      memcpy(value->data(), key, sizeof(key));
      Check(batch->Put(rocksdb::Slice(reinterpret_cast<const char*>(key), sizeof(key)), *value));
    }
    Check(db_->Write(write_options_, batch));
  }

 private:
  std::string path_;
  rocksdb::Options options_;
  rocksdb::WriteOptions write_options_;
  bool batches_ = false;
  std::unique_ptr<rocksdb::DB> db_;
};

void Measure(const std::string& mode, uint64_t writers, uint64_t entries, uint64_t batches) {
  using Clock = std::chrono::steady_clock;
  Bench bench(mode);
  std::vector<std::thread> threads;
  std::vector<double> longest(writers);
  {
    // Reserves the WAL's file.
    std::string value(100, 'v');
    rocksdb::WriteBatch batch;
    bench.Write(batches, entries, &value, &batch);
  }
  rusage before, after;
  // Thousands of threads would else have written their share by the time that the last is made.
  std::promise<void> all_are_made;
  const std::shared_future<void> made = all_are_made.get_future().share();
  for (uint64_t t = 0; t < writers; ++t) {
    threads.emplace_back([&, t] {
      std::string value(100, 'v');
      rocksdb::WriteBatch batch;
      made.wait();
      auto last = Clock::now();
      for (uint64_t i = t; i < batches; i += writers) {
        bench.Write(i, entries, &value, &batch);
        const auto now = Clock::now();
        longest[t] = std::max(longest[t], std::chrono::duration<double>(now - last).count());
        last = now;
      }
    });
  }
  getrusage(RUSAGE_SELF, &before);
  const auto begin = Clock::now();
  all_are_made.set_value();
  for (auto& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  getrusage(RUSAGE_SELF, &after);
  const auto used = [](const timeval& a, const timeval& b) {
    return static_cast<double>(b.tv_sec - a.tv_sec) + 1e-6 * static_cast<double>(b.tv_usec - a.tv_usec);
  };
  const double cpu = used(before.ru_utime, after.ru_utime) + used(before.ru_stime, after.ru_stime);
  const auto number = static_cast<double>(batches);
  printf("%-20s %2d writers %3d entries: %7.0f K/s, %6.3f us, %5.2f switches, longest %.1f ms\n", mode.c_str(),
         static_cast<int>(writers), static_cast<int>(entries), number * static_cast<double>(entries) / seconds / 1e3,
         cpu / number * 1e6, static_cast<double>(after.ru_nvcsw - before.ru_nvcsw) / number,
         1e3 * *std::max_element(longest.begin(), longest.end()));
}

void CountSteps(const std::string& mode, uint64_t entries) {
  constexpr uint64_t kBatches = 200;
  uint64_t steps = 0;
  const int end = RunBySteps(
      [&] {
        Bench bench(mode);
        std::string value(100, 'v');
        rocksdb::WriteBatch batch;
        for (uint64_t i = 0; i < 5000; ++i) bench.Write(i, entries, &value, &batch);
        MarkSteps(StepMark::kBegin);
        for (uint64_t i = 5000; i < 5000 + kBatches; ++i) bench.Write(i, entries, &value, &batch);
        MarkSteps(StepMark::kEnd);
        return 0;
      },
      &steps);
  printf("%-20s %3d entries: %.0f instructions per batch\n", mode.c_str(), static_cast<int>(entries),
         end == 0 ? static_cast<double>(steps) / kBatches : -1.0);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool steps = !words.empty() && words[0] == "--steps";
  if (words.size() != (steps ? 3 : 4)) {
    fprintf(stderr, "write_bench MODE WRITERS ENTRIES_PER_BATCH BATCHES\nwrite_bench --steps MODE ENTRIES_PER_BATCH\n");
    return 2;
  }
  const auto number = [&](size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  if (steps) {
    cairn::CountSteps(words[1], number(2));
  } else {
    cairn::Measure(words[0], number(1), number(2), number(3));
  }
  return 0;
}
