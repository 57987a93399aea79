// What benchmarks of engines in key order write: keys of 16 bytes, values of 100 that zstd or snappy cannot make
// smaller.
//
// Thread-safety: functions of their arguments; a WorkloadDatabase serves one thread.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "db/table_counter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "util/mix64.h"

namespace cairn {

constexpr uint64_t kWorkloadStreams = 64;
constexpr size_t kWorkloadKeyBytes = 16, kWorkloadValueBytes = 100;

inline std::string WorkloadKey(uint64_t number) {
  std::string key(kWorkloadKeyBytes, '\0');
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

// The put number `i` of `keys`. uniform; zipf or zipf_updates, of 0.99; sequential or time; streams: of each a key in
// turn; spot: nine of ten to a hundredth of the keys, another one every fortieth of the puts.
inline uint64_t WorkloadKeyAt(const std::string& workload, uint64_t i, uint64_t keys) {
  const uint64_t random = SplitMix64(i);
  if (workload == "sequential" || workload == "time") return i;
  if (workload == "streams") return ((i % kWorkloadStreams) << 40) + i / kWorkloadStreams;
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

// Another one for each put. REQUIRES: it has kWorkloadValueBytes.
inline void MakeWorkloadValue(uint64_t i, std::string* value) {
  for (size_t at = 0; at + 8 <= kWorkloadValueBytes; at += 8) {
    const uint64_t bytes = SplitMix64(i * kWorkloadValueBytes + at);
    std::copy_n(reinterpret_cast<const char*>(&bytes), 8, &(*value)[at]);
  }
}

// ENGINE as in UseEngineFromString: "stock", "ordered", "ordered_trie;space_bound=1.4"; ORDER the name of a comparator,
// or nothing. Two compactions at a time.
inline rocksdb::Status WorkloadOptions(const std::string& engine, uint64_t write_buffer, const std::string& order,
                                       rocksdb::Options* options) {
  options->create_if_missing = true;
  options->write_buffer_size = write_buffer;
  options->target_file_size_base = write_buffer;
  options->max_bytes_for_level_base = 4 * write_buffer;
  options->max_background_jobs = 3;
  options->compression = rocksdb::kNoCompression;
  rocksdb::Status s;
  if (!order.empty()) s = rocksdb::Comparator::CreateFromString(rocksdb::ConfigOptions(), order, &options->comparator);
  return s.ok() ? UseEngineFromString("engine=" + engine, options, options) : s;
}

// A new database on an engine, whose tables are counted.
class WorkloadDatabase {
 public:
  // In the folder `name` of the temporary one.
  rocksdb::Status Open(const std::string& name, const std::string& engine, uint64_t write_buffer,
                       const std::string& order = "") {
    path_ = std::filesystem::temp_directory_path().string() + "/" + name;
    rocksdb::Status s = WorkloadOptions(engine, write_buffer, order, &options_);
    options_.listeners.push_back(counter_);
    if (s.ok()) s = rocksdb::DestroyDB(path_, options_);
    rocksdb::DB* opened = nullptr;
    if (s.ok()) s = cairn::Open(options_, path_, &opened);
    db_.reset(opened);
    if (s.ok()) counter_->Watch(opened);
    return s;
  }
  // Until nothing is left to compact.
  rocksdb::Status Settle() {
    rocksdb::Status s = db_->WaitForCompact(rocksdb::WaitForCompactOptions());
    return s.ok() ? WaitForTrieCompaction(db_.get()) : s;
  }
  rocksdb::Status Destroy() {
    counter_->Unwatch();
    const rocksdb::Status s = db_->Close();
    db_.reset();
    return s.ok() ? rocksdb::DestroyDB(path_, options_) : s;
  }

  rocksdb::DB* db() { return db_.get(); }
  TableCounter* counter() { return counter_.get(); }

 private:
  std::string path_;
  rocksdb::Options options_;
  const std::shared_ptr<TableCounter> counter_ = std::make_shared<TableCounter>();
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace cairn
