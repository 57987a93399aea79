// What engines write and what space they take under workloads in key order: counts, which do not depend on the machine.
//
//   engine_counts_bench ENGINE WORKLOAD MILLIONS [WRITE_BUFFER_MIB]
//
// ENGINE as in cairn::UseEngineFromString, "stock", "ordered" or "ordered_trie;space_bound=1.4". WORKLOAD:
//   uniform, zipf      puts of MILLIONS of keys, as many as there are keys
//   sequential         keys in order
//   streams            64 sequences, one key of each at a time
//   time               keys in order; each is deleted when it is a tenth of all old
//   updates            each key once, in random order, then uniform puts, of which those count that come after twice as
//   zipf_updates       many puts as keys, four times as many; or by Zipf: what cairn model computes. The writer waits
//                      for compactions twice for each write buffer
//   spot               nine of ten puts to a hundredth of the keys, another one every fortieth of the puts
//
// Keys of 16 bytes, values of 100 that zstd or snappy cannot make smaller. Prints bytes of tables written per byte
// flushed, the most bytes of tables at any moment per byte of live data (from a fourth of the puts on; what is deleted
// but still held by a running compaction included), and the largest compaction by what it wrote.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "src/util/mix64.h"

namespace cairn {
namespace {

constexpr uint64_t kStreams = 64;
constexpr size_t kKeyBytes = 16, kValueBytes = 100;

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "engine_counts_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

// Adds up the tables that come and go.
class Counter : public rocksdb::EventListener {
 public:
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!info.status.ok() || info.file_size == 0) return;
    sizes_[info.file_path] = info.file_size;
    space_ += info.file_size;
    written_ += info.file_size;
    if (info.reason == rocksdb::TableFileCreationReason::kFlush) {
      flushed_ += info.file_size;
      ++flushes_;
    } else {
      largest_ = std::max(largest_, jobs_[info.job_id] += info.file_size);
    }
    const uint64_t live = live_.load();
    if (live != 0) most_space_ = std::max(most_space_, static_cast<double>(space_) / static_cast<double>(live));
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(info.file_path);
    if (found == sizes_.end()) return;
    space_ -= found->second;
    sizes_.erase(found);
  }

  // What was written until now does not count.
  void Restart() {
    const std::lock_guard<std::mutex> lock(mutex_);
    written_ = flushed_ = flushes_ = largest_ = 0;
    most_space_ = 0;
  }

  // Of keys and values; 0: not yet to be compared with.
  void SetLive(uint64_t bytes) { live_.store(bytes); }

  void Print(const std::string& engine, const std::string& workload, uint64_t puts) {
    const std::lock_guard<std::mutex> lock(mutex_);
    printf(
        "%s %s: %.2f bytes written per byte flushed, %.2f bytes of tables per live byte at most, %.2f at the end, "
        "largest compaction %.1f MiB, %zu tables, %.0f puts and %.0f KiB per flush\n",
        engine.c_str(), workload.c_str(), static_cast<double>(written_) / static_cast<double>(flushed_), most_space_,
        static_cast<double>(space_) / static_cast<double>(std::max<uint64_t>(live_.load(), 1)),
        static_cast<double>(largest_) / (1 << 20), sizes_.size(),
        static_cast<double>(puts) / static_cast<double>(std::max<uint64_t>(flushes_, 1)),
        static_cast<double>(flushed_) / static_cast<double>(std::max<uint64_t>(flushes_, 1)) / 1024);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> sizes_;
  std::map<int, uint64_t> jobs_;
  std::atomic<uint64_t> live_{0};
  uint64_t space_ = 0, written_ = 0, flushed_ = 0, flushes_ = 0, largest_ = 0;
  double most_space_ = 0;
};

std::string KeyOf(uint64_t number) {
  std::string key(kKeyBytes, '\0');
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

// The put number `i` of `keys`.
uint64_t KeyAt(const std::string& workload, uint64_t i, uint64_t keys) {
  const uint64_t random = SplitMix64(i);
  if (workload == "sequential" || workload == "time") return i;
  if (workload == "streams") return ((i % kStreams) << 40) + i / kStreams;
  if (workload == "zipf" || workload == "zipf_updates") {
    // By the inverse of the integral of x^-0.99, scattered over the keys.
    const double u = static_cast<double>(random >> 11) / 9007199254740992.0;
    const double n = std::pow(static_cast<double>(keys), 0.01);
    return SplitMix64(static_cast<uint64_t>(std::pow(u * (n - 1) + 1, 100.0))) % keys;
  }
  if (workload == "spot" && random % 10 != 0) {
    const uint64_t spot = i / std::max<uint64_t>(keys / 40, 1) * 37 % 100;
    return spot * (keys / 100) + (random >> 8) % std::max<uint64_t>(keys / 100, 1);
  }
  return (random >> 8) % keys;
}

void Run(const std::string& engine, const std::string& workload, uint64_t keys, uint64_t write_buffer) {
  const std::string path = std::filesystem::temp_directory_path().string() + "/engine_counts_bench";
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = write_buffer;
  options.target_file_size_base = write_buffer;
  options.max_bytes_for_level_base = 4 * write_buffer;
  options.max_background_jobs = 3;
  options.compression = rocksdb::kNoCompression;
  Check(UseEngineFromString("engine=" + engine, &options, &options));
  const auto counter = std::make_shared<Counter>();
  options.listeners.push_back(counter);
  Check(rocksdb::DestroyDB(path, options));
  rocksdb::DB* opened = nullptr;
  Check(Open(options, path, &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteOptions without_log;
  without_log.disableWAL = true;
  std::string value(kValueBytes, '\0');
  std::vector<bool> present(workload == "streams" ? 0 : keys);
  uint64_t live = 0;
  const bool updates = workload == "updates" || workload == "zipf_updates";
  std::vector<uint64_t> load(updates ? keys : 0);
  std::iota(load.begin(), load.end(), uint64_t{0});
  std::shuffle(load.begin(), load.end(), std::mt19937_64(1));
  const rocksdb::WaitForCompactOptions wait;
  const uint64_t puts_per_wait = std::max<uint64_t>(write_buffer / 2 / (kKeyBytes + kValueBytes), 1);
  const uint64_t puts = updates ? 7 * keys : keys;
  for (uint64_t i = 0; i < puts; ++i) {
    const uint64_t key = i < load.size() ? load[i] : KeyAt(workload, i, keys);
    if (updates && i % puts_per_wait == 0) {
      Check(db->WaitForCompact(wait));
      Check(WaitForTrieCompaction(db.get()));
    }
    if (updates && i == 3 * keys) counter->Restart();
    for (size_t at = 0; at + 8 <= kValueBytes; at += 8) {
      const uint64_t bytes = SplitMix64(i * kValueBytes + at);
      std::copy_n(reinterpret_cast<const char*>(&bytes), 8, &value[at]);
    }
    Check(db->Put(without_log, KeyOf(key), value));
    if (present.empty() || !present[key]) ++live;
    if (!present.empty()) present[key] = true;
    if (workload == "time" && i >= keys / 10) {
      Check(db->Delete(without_log, KeyOf(i - keys / 10)));
      --live;
    }
    if (i >= keys / 4) counter->SetLive(live * (kKeyBytes + kValueBytes));
  }
  Check(db->Flush(rocksdb::FlushOptions()));
  Check(db->WaitForCompact(wait));
  Check(WaitForTrieCompaction(db.get()));
  counter->Print(engine, workload, updates ? 4 * keys : keys);
  Check(db->Close());
  Check(rocksdb::DestroyDB(path, options));
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: engine_counts_bench ENGINE WORKLOAD MILLIONS [WRITE_BUFFER_MIB]\n");
    return 2;
  }
  const double millions = std::strtod(argv[3], nullptr);
  const double mib = argc > 4 ? std::strtod(argv[4], nullptr) : 64;
  cairn::Run(argv[1], argv[2], static_cast<uint64_t>(millions * 1e6), static_cast<uint64_t>(mib * (1 << 20)));
  return 0;
}
