// Gets of one database with its memory spent in different ways: all of it in the block cache, a part in RocksDB's row
// cache, or the same part in the result cache. The memory is the same for all, and rounds are in turns.
//
//   build/bench/database_cache_bench --engine=leveled --keys=2000000 --zipf=0.99 --cache=0.1
//
// Prints one JSON object. Times are processor time of the reading thread, so that other work on the machine counts
// less; blocks are those that a Get asks the block cache for.

#include <gflags/gflags.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/result_cache.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/iostats_context.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "util/mix64.h"

DEFINE_string(engine, "leveled", "leveled, universal, or an engine of cairn::UseEngine");
DEFINE_uint64(keys, 1000000, "");
DEFINE_uint64(value_size, 100, "");
DEFINE_double(zipf, 0.99, "0: uniform");
DEFINE_double(cache, 0.1, "what is spent in turns, as a part of the data");
DEFINE_double(block_cache, 1.15, "memory of the block cache beside it, as a part of the data: it holds all blocks");
DEFINE_double(writes, 0, "part of the operations that are Puts");
DEFINE_double(absent, 0, "part of the Gets that ask for keys that are not there");
DEFINE_uint64(operations, 400000, "of a round");
DEFINE_uint64(rounds, 3, "that count");
DEFINE_uint64(warm_rounds, 1, "before them, in which caches fill");
DEFINE_bool(charge, false,
            "the result cache's memory is a part of the block cache's, which has it when it is given back");
DEFINE_string(db, "/dev/shm/database_cache_bench", "");

namespace {

using cairn::DatabaseCacheOptions;
using cairn::Mix64;
using rocksdb::Status;

void Check(const Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "%s\n", s.ToString().c_str());
  exit(1);
}

std::string KeyOf(uint64_t number) {
  char key[17];
  snprintf(key, sizeof(key), "%016lx", static_cast<unsigned long>(Mix64(number + 1)));
  return std::string(key, 16);
}

// Numbers below n by the law of Gray et al. (SIGMOD 1994), as YCSB draws them.
class Zipf {
 public:
  Zipf(uint64_t n, double theta) : n_(n), theta_(theta) {
    if (theta == 0) return;
    for (uint64_t i = 1; i <= n; ++i) zeta_ += std::pow(1.0 / static_cast<double>(i), theta);
    const double zeta2 = 1 + std::pow(0.5, theta);
    alpha_ = 1 / (1 - theta);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - theta)) / (1 - zeta2 / zeta_);
  }
  uint64_t Draw(std::mt19937_64* random) const {
    if (theta_ == 0) return (*random)() % n_;
    const double u = static_cast<double>((*random)() >> 11) * 0x1p-53;
    const double uz = u * zeta_;
    if (uz < 1) return 0;
    if (uz < 1 + std::pow(0.5, theta_)) return 1;
    const auto drawn = static_cast<uint64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, alpha_));
    return std::min(drawn, n_ - 1);
  }

 private:
  const uint64_t n_;
  const double theta_;
  double zeta_ = 0;
  double alpha_ = 0;
  double eta_ = 0;
};

uint64_t ThreadNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// One way to spend the memory: a database of its own.
struct Way {
  std::string name;
  std::unique_ptr<rocksdb::DB> db;
  std::shared_ptr<rocksdb::RowCache> row_cache;
  cairn::DatabaseCacheStats warm;  // when rounds begin to count
  std::vector<double> nanoseconds;
  std::vector<uint32_t> asked_tree;  // nanoseconds of Gets, as many as were timed in all rounds
  std::vector<uint32_t> spared_tree;
  double blocks = 0;
  double blocks_read = 0;  // of them, those that the block cache lacked
};

uint64_t DataBytes() { return FLAGS_keys * (16 + FLAGS_value_size); }

void Open(Way* way) {
  rocksdb::Options options;
  options.create_if_missing = true;
  if (FLAGS_engine == "universal") {
    options.compaction_style = rocksdb::kCompactionStyleUniversal;
  } else if (FLAGS_engine != "leveled") {
    Check(cairn::UseEngineFromString("engine=" + FLAGS_engine, &options, &options));
  }
  const auto spent = static_cast<size_t>(FLAGS_cache * static_cast<double>(DataBytes()));
  auto beside = static_cast<size_t>(FLAGS_block_cache * static_cast<double>(DataBytes()));
  if (way->name == "block_cache" || (way->name == "result_cache" && FLAGS_charge)) beside += spent;
  auto* const table = options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (table != nullptr) {
    table->block_cache = rocksdb::HyperClockCacheOptions(beside, 0).MakeSharedCache();
    if (FLAGS_engine == "leveled" || FLAGS_engine == "universal") {
      table->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    }
  }
  options.write_buffer_size = 16 << 20;
  options.target_file_size_base = 16 << 20;
  options.max_bytes_for_level_base = 64 << 20;
  if (way->name == "row_cache") {
    way->row_cache = rocksdb::NewLRUCache(spent);
    options.row_cache = way->row_cache;
  }
  if (way->name == "result_cache") {
    DatabaseCacheOptions cache;
    cache.capacity = spent;
    cache.charge_to_block_cache = FLAGS_charge;
    cairn::UseResultCache(cache, &options);
  }
  const std::string path = FLAGS_db + "." + way->name;
  Check(rocksdb::DestroyDB(path, options));
  rocksdb::DB* db = nullptr;
  Check(rocksdb::DB::Open(options, path, cairn::port::Into(&db)));
  way->db.reset(db);
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  std::string value(FLAGS_value_size, 'v');
  // All of them, in an order that has nothing to do with popularity.
  uint64_t step = FLAGS_keys * 5 / 8 | 1;
  while (std::gcd(step, FLAGS_keys) != 1) ++step;
  for (uint64_t i = 0; i < FLAGS_keys; ++i) {
    const uint64_t number = i * step % FLAGS_keys;
    memcpy(value.data(), &number, std::min(sizeof(number), value.size()));
    Check(db->Put(write, KeyOf(number), value));
  }
  Check(db->Flush(rocksdb::FlushOptions()));
  Check(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
}

struct Measured {
  uint64_t nanoseconds = 0;
  uint64_t blocks = 0;
  uint64_t blocks_read = 0;
  std::vector<uint32_t> asked_tree;
  std::vector<uint32_t> spared_tree;
};

// Every so many operations are timed. It has no factor in common with what the cache samples.
constexpr uint64_t kTimed = 7;

uint64_t Nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// What only a Get counts that has asked the tree.
uint64_t TreeCounts() {
  const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
  return counts.get_from_memtable_count + counts.bloom_memtable_hit_count + counts.bloom_memtable_miss_count +
         counts.block_cache_hit_count + counts.block_read_count + counts.bloom_sst_hit_count +
         counts.bloom_sst_miss_count;
}

Status TimedGet(rocksdb::DB* db, const std::string& key, rocksdb::PinnableSlice* found, Measured* measured) {
  const uint64_t counted = TreeCounts();
  const uint64_t begin = Nanoseconds();
  const Status s = db->Get(rocksdb::ReadOptions(), db->DefaultColumnFamily(), key, found);
  const auto took = static_cast<uint32_t>(std::min<uint64_t>(UINT32_MAX, Nanoseconds() - begin));
  (TreeCounts() > counted ? measured->asked_tree : measured->spared_tree).push_back(took);
  return s;
}

struct Operation {
  bool put;
  std::string key;
};

std::vector<Operation> Draw(const Zipf& zipf, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Operation> operations(FLAGS_operations);
  const auto part = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (Operation& operation : operations) {
    uint64_t number = zipf.Draw(&random);
    operation.put = part() < FLAGS_writes;
    if (!operation.put && part() < FLAGS_absent) number += FLAGS_keys;
    operation.key = KeyOf(number);
  }
  return operations;
}

void Run(rocksdb::DB* db, const Zipf& zipf, uint64_t seed, Measured* measured) {
  const std::vector<Operation> operations = Draw(zipf, seed);
  const std::string value(FLAGS_value_size, 'w');
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  const rocksdb::ReadOptions read;
  rocksdb::PinnableSlice found;
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  const uint64_t begin = ThreadNanoseconds();
  for (uint64_t i = 0; i < FLAGS_operations; ++i) {
    const std::string& key = operations[i].key;
    if (operations[i].put) {
      Check(db->Put(write, key, value));
      continue;
    }
    found.Reset();
    const Status s =
        i % kTimed == 0 ? TimedGet(db, key, &found, measured) : db->Get(read, db->DefaultColumnFamily(), key, &found);
    if (!s.ok() && !s.IsNotFound()) Check(s);
  }
  measured->nanoseconds = ThreadNanoseconds() - begin;
  measured->blocks_read = rocksdb::get_perf_context()->block_read_count;
  measured->blocks = rocksdb::get_perf_context()->block_cache_hit_count + measured->blocks_read;
}

void Round(Way* way, const Zipf& zipf, uint64_t round) {
  if (round == FLAGS_warm_rounds && way->name == "result_cache") {
    Check(cairn::GetDatabaseCacheStats(way->db.get(), &way->warm));
  }
  Measured measured;
  Run(way->db.get(), zipf, round * 1000, &measured);
  if (round < FLAGS_warm_rounds) return;
  way->asked_tree.insert(way->asked_tree.end(), measured.asked_tree.begin(), measured.asked_tree.end());
  way->spared_tree.insert(way->spared_tree.end(), measured.spared_tree.begin(), measured.spared_tree.end());
  const auto operations = static_cast<double>(FLAGS_operations);
  way->nanoseconds.push_back(static_cast<double>(measured.nanoseconds) / operations);
  way->blocks = static_cast<double>(measured.blocks) / operations;
  way->blocks_read = static_cast<double>(measured.blocks_read) / operations;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

uint32_t Quantile(std::vector<uint32_t> values, double part) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<int64_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

nlohmann::ordered_json Quantiles(const std::vector<uint32_t>& values) {
  return {{"timed", values.size()},
          {"p50", Quantile(values, 0.5)},
          {"p90", Quantile(values, 0.9)},
          {"p99", Quantile(values, 0.99)},
          {"p999", Quantile(values, 0.999)}};
}

nlohmann::ordered_json Report(const Way& way) {
  std::vector<uint32_t> all = way.asked_tree;
  all.insert(all.end(), way.spared_tree.begin(), way.spared_tree.end());
  nlohmann::ordered_json json = {{"nanoseconds", std::round(Median(way.nanoseconds))},
                                 {"p99_nanoseconds", Quantile(all, 0.99)},
                                 {"all", Quantiles(all)},
                                 {"asked_tree", Quantiles(way.asked_tree)},
                                 {"spared_tree", Quantiles(way.spared_tree)},
                                 {"blocks", std::round(way.blocks * 1000) / 1000},
                                 {"blocks_read", std::round(way.blocks_read * 1000) / 1000}};
  cairn::DatabaseCacheStats stats;
  if (cairn::GetDatabaseCacheStats(way.db.get(), &stats).ok()) {
    const auto reads = static_cast<double>(std::max<uint64_t>(1, stats.reads - way.warm.reads));
    const auto hits_of = [](const cairn::ResultCache::Statistics& cache) { return cache.hits + cache.absent_hits; };
    json["hits"] = static_cast<double>(hits_of(stats.cache) - hits_of(way.warm.cache)) / reads;
    json["items"] = stats.cache.items;
    json["memory"] = stats.cache.memory;
    json["on"] = stats.on;
    json["times_off"] = stats.times_off;
    json["saved_nanoseconds"] = std::round(stats.saved_nanoseconds);
    json["wrong_hits"] = stats.wrong_hits;
  }
  if (way.row_cache != nullptr) json["memory"] = way.row_cache->GetUsage();
  return json;
}

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::vector<Way> ways;
  for (const char* name : {"block_cache", "row_cache", "result_cache"}) {
    ways.emplace_back();
    ways.back().name = name;
    Open(&ways.back());
  }
  const Zipf zipf(FLAGS_keys, FLAGS_zipf);
  for (uint64_t round = 0; round < FLAGS_warm_rounds + FLAGS_rounds; ++round) {
    for (Way& way : ways) Round(&way, zipf, round);
  }
  nlohmann::ordered_json json = {{"engine", FLAGS_engine},
                                 {"keys", FLAGS_keys},
                                 {"value_size", FLAGS_value_size},
                                 {"zipf", FLAGS_zipf},
                                 {"cache", FLAGS_cache},
                                 {"charge", FLAGS_charge},
                                 {"block_cache_part", FLAGS_block_cache},
                                 {"writes", FLAGS_writes},
                                 {"absent", FLAGS_absent},
                                 {"operations", FLAGS_operations},
                                 {"warm_rounds", FLAGS_warm_rounds}};
  for (const Way& way : ways) json[way.name] = Report(way);
  printf("%s\n", json.dump().c_str());
  for (Way& way : ways) {
    Check(way.db->Close());
    way.db.reset();
    Check(rocksdb::DestroyDB(FLAGS_db + "." + way.name, rocksdb::Options()));
  }
  return 0;
}
