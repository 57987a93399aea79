// What one operation takes: processor time, or instructions, with everything that it reads in the block cache.
//
//   operation_counts_bench ENGINE FOLDER OPERATION COUNT [MILLIONS [WRITE_BUFFER_MIB]]
//   operation_counts_bench --steps ENGINE ...
//   operation_counts_bench --steps ENGINE FOLDER all COUNT ...    fills FOLDER, then counts each of the others
//
// ENGINE as in cairn::UseEngineFromString; "stock" is leveled. With ",MEMTABLE" behind it, RocksDB's name of one.
// OPERATION:
//   fill               MILLIONS (3) of keys, each once in random order, and as many uniform updates; COUNT is ignored
//   present, absent    Get of such keys
//   batch              MultiGet of 32 present keys; absent_batch: of absent ones. COUNT keys, up to whole batches
//   put                Put of present keys
//   update             Get, then Put of the same present key
//   compact            in a FOLDER that is not there yet: a compaction of 16 tables of COUNT keys together, per key
//   cache              with --steps, in a FOLDER that is not there yet: what a result cache of a tenth of the data
//                      costs that cannot help. COUNT Gets and COUNT Puts of uniform keys are counted without one, with
//                      one that is off and with one that is on; a minute of both tells how many there are with it on
//                      and off, and then Gets by Zipf's law, how many pass until it hits
//
// Prints the processor time per operation (of this thread, so without flushes and compactions). With --steps the
// instructions, which a parent counts (test/testutil/single_step.h): 100 operations take a minute; with
// CAIRN_STEP_ADDRESSES=FILE in the environment, FILE says of each instruction how often it was reached, with the
// library that it is in, for `nm` to name.

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/result_cache.h"
#include "cairn/trie.h"
#include "db/cairn_db.h"
#include "result_cache/database_cache.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/testutil/single_step.h"
#include "util/mix64.h"

namespace cairn {
namespace {

// Processor time of the calling thread: what else runs on the machine is no part of it.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

constexpr size_t kKeyBytes = 16, kValueBytes = 100, kBatch = 32;

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "operation_counts_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

// Present keys have even numbers.
std::string KeyOf(uint64_t number) {
  std::string key(kKeyBytes, '\0');
  const uint64_t words[2] = {__builtin_bswap64(SplitMix64(number)), number};
  std::copy_n(reinterpret_cast<const char*>(words), kKeyBytes, key.begin());
  return key;
}

rocksdb::Options OptionsOf(const std::string& engine, size_t write_buffer) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = write_buffer;
  options.target_file_size_base = write_buffer;
  options.max_bytes_for_level_base = 4 * write_buffer;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::HyperClockCacheOptions(size_t{2} << 30, 0).MakeSharedCache();
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  const size_t comma = engine.find(',');
  Check(UseEngineFromString("engine=" + engine.substr(0, comma), &options, &options));
  if (comma != std::string::npos) {
    rocksdb::ConfigOptions config;
    config.ignore_unsupported_options = false;
    Check(rocksdb::MemTableRepFactory::CreateFromString(config, engine.substr(comma + 1), &options.memtable_factory));
  }
  return options;
}

bool IsInBatches(const std::string& operation) { return operation == "batch" || operation == "absent_batch"; }

enum class CacheIs { kNone, kOff, kOn };
struct CacheUse;

class Bench {
 public:
  Bench(rocksdb::DB* db, const std::string& operation, uint64_t count, uint64_t keys)
      : db_(db), operation_(operation), count_(count), keys_(keys) {}

  void Fill() {
    std::vector<uint64_t> load(keys_);
    for (uint64_t i = 0; i < keys_; ++i) load[i] = i;
    std::shuffle(load.begin(), load.end(), std::mt19937_64(1));
    for (uint64_t number : load) Put(2 * number);
    for (uint64_t i = 0; i < keys_; ++i) Put(2 * (SplitMix64(i) % keys_));
    Check(db_->Flush(rocksdb::FlushOptions()));
    Check(db_->WaitForCompact(rocksdb::WaitForCompactOptions()));
    Check(WaitForTrieCompaction(db_));
  }

  // Whether the counted operations find what they should.
  bool Run();
  void Compact();
  // Counts Gets, then Puts.
  void CountInCache(CacheIs is);
  CacheUse UseCache(double seconds);

 private:
  void Put(uint64_t number) {
    std::string value(kValueBytes, '\0');
    for (size_t at = 0; at + 8 <= kValueBytes; at += 8) {
      const uint64_t bytes = SplitMix64(number * kValueBytes + at);
      std::copy_n(reinterpret_cast<const char*>(&bytes), 8, &value[at]);
    }
    Check(db_->Put(write_options_, KeyOf(number), value));
  }

  void MixUniform(uint64_t first, uint64_t count);

  bool Get(uint64_t number) {
    value_.Reset();
    return db_->Get(read_options_, db_->DefaultColumnFamily(), KeyOf(number), &value_).ok();
  }

  uint64_t GetBatch(uint64_t first, uint64_t odd) {
    std::string names[kBatch];
    rocksdb::Slice keys[kBatch];
    rocksdb::PinnableSlice values[kBatch];
    rocksdb::Status statuses[kBatch];
    for (uint64_t i = 0; i < kBatch; ++i) {
      names[i] = KeyOf(2 * NumberAt(first + i) + odd);
      keys[i] = names[i];
    }
    db_->MultiGet(read_options_, db_->DefaultColumnFamily(), kBatch, keys, values, statuses);
    return static_cast<uint64_t>(std::count_if(statuses, statuses + kBatch, [](const auto& s) { return s.ok(); }));
  }

  uint64_t NumberAt(uint64_t i) const { return SplitMix64(i + 12345) % keys_; }

  friend uint64_t MeasuredOperations(Bench* bench);

  rocksdb::DB* const db_;
  const std::string operation_;
  const uint64_t count_, keys_;
  rocksdb::ReadOptions read_options_;
  rocksdb::WriteOptions write_options_;
  rocksdb::PinnableSlice value_;
};

uint64_t MeasuredOperations(Bench* bench) {
  uint64_t found = 0;
  const bool gets = bench->operation_ == "present" || bench->operation_ == "update";
  const bool puts = bench->operation_ == "put" || bench->operation_ == "update";
  const uint64_t odd = bench->operation_.rfind("absent", 0) == 0 ? 1 : 0;
  if (IsInBatches(bench->operation_)) {
    for (uint64_t i = 0; i < bench->count_; i += kBatch) found += bench->GetBatch(i, odd);
    return found;
  }
  for (uint64_t i = 0; i < bench->count_; ++i) {
    const uint64_t number = 2 * bench->NumberAt(i) + odd;
    if (gets || odd == 1) found += bench->Get(number) ? 1 : 0;
    if (puts) bench->Put(number);
  }
  return found;
}

bool Bench::Run() {
  // What is asked for comes into the block cache, and lookups learn the tables.
  for (uint64_t i = 0; i < count_ + 1000; ++i) Get(2 * NumberAt(i));
  const double before = ThreadSeconds();
  MarkSteps(StepMark::kBegin);
  const uint64_t found = MeasuredOperations(this);
  MarkSteps(StepMark::kEnd);
  printf("%s: %.0f ns of processor time per operation\n", operation_.c_str(),
         1e9 * (ThreadSeconds() - before) / static_cast<double>(count_));
  return found == (operation_ == "put" || operation_.rfind("absent", 0) == 0 ? 0 : count_);
}

void Bench::Compact() {
  constexpr uint64_t kTables = 16;
  for (uint64_t i = 0; i < count_; ++i) {
    Put(i);
    if ((i + 1) % (count_ / kTables) == 0) Check(db_->Flush(rocksdb::FlushOptions()));
  }
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(&meta);
  std::vector<std::string> tables;
  for (const auto& table : meta.levels[0].files) tables.push_back(table.name);
  // The oldest slot of a trie's first depth, a tree's last level.
  const int output = std::min(static_cast<int>(meta.levels.size()) - 1, HashTrieOptions().slots);
  const double before = ThreadSeconds();
  MarkSteps(StepMark::kBegin);
  const rocksdb::Status s = db_->CompactFiles(rocksdb::CompactionOptions(), tables, output);
  MarkSteps(StepMark::kEnd);
  Check(s);
  printf("%zu tables: %.0f ns of processor time per key\n", tables.size(),
         1e9 * (ThreadSeconds() - before) / static_cast<double>(count_));
}

// How many Gets and Puts there were while the cache was on and while it was off.
struct CacheUse {
  uint64_t operations[2][2] = {};
  uint64_t times_off = 0, reads_to_hits = 0;
};

// Half Gets, half Puts of uniform keys. More of them, with `count` of each counted.
void Bench::MixUniform(uint64_t first, uint64_t count) {
  for (uint64_t i = first; i < first + count; ++i) {
    (SplitMix64(i) >> 63) != 0 ? Put(2 * NumberAt(i)) : static_cast<void>(Get(2 * NumberAt(i)));
  }
}

void Bench::CountInCache(CacheIs is) {
  constexpr uint64_t kWarm = 20000;
  MixUniform(0, kWarm);
  if (is == CacheIs::kOff) CairnDB::Of(db_)->services()->cache()->TEST_Judge(-1);
  MixUniform(3 * kWarm, 10);  // the first call of a function looks for it
  MarkSteps(StepMark::kBegin);
  for (uint64_t i = 0; i < count_; ++i) Get(2 * NumberAt(kWarm + i));
  MarkSteps(StepMark::kNext);
  for (uint64_t i = 0; i < count_; ++i) Put(2 * NumberAt(2 * kWarm + i));
  MarkSteps(StepMark::kEnd);
}

CacheUse Bench::UseCache(double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr uint64_t kALook = 1024;
  CacheUse use;
  DatabaseCacheStats stats, before;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (uint64_t i = 0; Clock::now() < end; i += kALook) {
    Check(GetDatabaseCacheStats(db_, &before));
    MixUniform(i, kALook);
    Check(GetDatabaseCacheStats(db_, &stats));
    const uint64_t gets = stats.reads - before.reads;
    use.operations[before.on ? 1 : 0][0] += gets;
    use.operations[before.on ? 1 : 0][1] += kALook - gets;
  }
  use.times_off = stats.times_off;
  // Then by Zipf's law of exponent 1, by which all powers of two have the same share.
  constexpr uint64_t kMost = uint64_t{1} << 28;
  uint64_t& reads = use.reads_to_hits;
  for (uint64_t hits = 0; hits < kALook / 2 && reads < kMost;) {
    const uint64_t hits_before = stats.cache.hits;
    for (const uint64_t enough = reads + kALook; reads < enough; ++reads) {
      const double part = static_cast<double>(SplitMix64(reads) >> 11) * 0x1p-53;
      Get(2 * static_cast<uint64_t>(std::pow(static_cast<double>(keys_), part) - 1));
    }
    Check(GetDatabaseCacheStats(db_, &stats));
    hits = stats.cache.hits - hits_before;
  }
  return use;
}

struct Arguments {
  std::string engine, path, operation;
  uint64_t count = 0;
  double millions = 3;
  double write_buffer_mib = 4;
  CacheIs cache = CacheIs::kNone;
};

// Of a tenth of the data.
DatabaseCacheOptions CacheOf(const Arguments& arguments) {
  DatabaseCacheOptions cache;
  cache.capacity = static_cast<uint64_t>(arguments.millions * 1e5 * (kKeyBytes + kValueBytes));
  return cache;
}

// COUNT is of whole batches.
void SetOperation(const std::string& operation, uint64_t count, Arguments* arguments) {
  arguments->operation = operation;
  arguments->count = IsInBatches(operation) ? (count + kBatch - 1) / kBatch * kBatch : count;
}

int Main(const Arguments& arguments) {
  const std::string& operation = arguments.operation;
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::Options options = OptionsOf(arguments.engine, static_cast<size_t>(arguments.write_buffer_mib * (1 << 20)));
  if (arguments.cache != CacheIs::kNone) UseResultCache(CacheOf(arguments), &options);
  if (operation == "compact") {
    options.error_if_exists = options.disable_auto_compactions = true;
    options.write_buffer_size = size_t{256} << 20;
  }
  Check(Open(options, arguments.path, port::Into(&db)));
  Bench bench(db.get(), operation, arguments.count, static_cast<uint64_t>(arguments.millions * 1e6));
  bool right = true;
  if (operation == "cache") {
    bench.CountInCache(arguments.cache);
  } else if (operation == "fill") {
    bench.Fill();
    std::string levels;
    db->GetProperty("rocksdb.levelstats", &levels);
    printf("%s", levels.c_str());
  } else if (operation == "compact") {
    bench.Compact();
  } else {
    right = bench.Run();
  }
  Check(db->Close());
  if (!right) fprintf(stderr, "operation_counts_bench: not every key was found or absent as it should be\n");
  fflush(stdout);
  return right ? 0 : 1;
}

// Into the file that CAIRN_STEP_ADDRESSES names: a line for each address, with its file and how often it was reached.
void WriteAddresses(const StepAddresses& addresses) {
  const char* const path = getenv("CAIRN_STEP_ADDRESSES");
  FILE* const file = path == nullptr ? nullptr : fopen(path, "w");
  if (file == nullptr) return;
  for (const auto& [address, count] : addresses) {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0) continue;
    fprintf(file, "%s %llx %llu\n", info.dli_fname,
            static_cast<unsigned long long>(address - reinterpret_cast<uint64_t>(info.dli_fbase)),
            static_cast<unsigned long long>(count));
  }
  fclose(file);
}

int CountSteps(const Arguments& arguments) {
  uint64_t steps = 0;
  StepAddresses addresses;
  const int result = RunBySteps([&] { return Main(arguments); }, &steps, &addresses);
  WriteAddresses(addresses);
  printf("%s: %.0f instructions per operation\n", arguments.operation.c_str(),
         static_cast<double>(steps) / static_cast<double>(arguments.count));
  fflush(stdout);
  return result;
}

int CountAll(Arguments arguments) {
  const std::string folder = arguments.path;
  const uint64_t count = arguments.count;
  arguments.path = folder + "/store";
  arguments.operation = "fill";
  const pid_t child = fork();
  if (child == 0) _exit(Main(arguments));
  int result = -1;
  if (waitpid(child, &result, 0) != child || result != 0) return 1;
  for (const char* operation : {"present", "absent", "batch", "absent_batch", "put", "update"}) {
    SetOperation(operation, count, &arguments);
    if ((result = CountSteps(arguments)) != 0) return result;
  }
  arguments.path = folder + "/compacted";
  arguments.operation = "compact";
  arguments.count = 20 * count;
  return CountSteps(arguments);
}

// In a process of its own.
bool UseCacheForAMinute(const Arguments& arguments, CacheUse* use) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    rocksdb::DB* opened = nullptr;
    rocksdb::Options options = OptionsOf(arguments.engine, static_cast<size_t>(arguments.write_buffer_mib * (1 << 20)));
    UseResultCache(CacheOf(arguments), &options);
    Check(Open(options, arguments.path, &opened));
    *use = Bench(opened, arguments.operation, 0, static_cast<uint64_t>(arguments.millions * 1e6)).UseCache(60);
    Check(opened->Close());
    _exit(write(ends[1], use, sizeof(*use)) == sizeof(*use) ? 0 : 1);
  }
  int result = -1;
  return waitpid(child, &result, 0) == child && result == 0 && read(ends[0], use, sizeof(*use)) == sizeof(*use);
}

int CompareUselessCache(Arguments arguments) {
  const std::string folder = arguments.path;
  std::filesystem::create_directory(folder);
  arguments.path = folder + "/filled";
  const pid_t child = fork();
  if (child == 0) {
    arguments.operation = "fill";
    _exit(Main(arguments));
  }
  int result = -1;
  if (waitpid(child, &result, 0) != child || result != 0) return 1;
  const char* const names[] = {"none", "off", "on"};
  double steps[3][2] = {};  // of a Get and of a Put
  for (const CacheIs is : {CacheIs::kNone, CacheIs::kOff, CacheIs::kOn}) {
    uint64_t all = 0;
    std::vector<uint64_t> each;
    arguments.cache = is;
    arguments.path = folder + "/" + names[static_cast<int>(is)];
    std::filesystem::copy(folder + "/filled", arguments.path);
    if ((result = RunBySteps([&] { return Main(arguments); }, &all, nullptr, &each)) != 0) return result;
    double* const of_state = steps[static_cast<int>(is)];
    for (size_t i = 0; i < 2; ++i) of_state[i] = static_cast<double>(each.at(i)) / static_cast<double>(arguments.count);
    printf("cache %s: %.0f instructions for a Get, %.0f for a Put\n", names[static_cast<int>(is)], of_state[0],
           of_state[1]);
    fflush(stdout);
  }
  arguments.path = folder + "/filled";
  CacheUse use;
  if (!UseCacheForAMinute(arguments, &use)) return 1;
  const uint64_t gets = use.operations[0][0] + use.operations[1][0];
  const uint64_t puts = use.operations[0][1] + use.operations[1][1];
  double without = 0, with = 0;
  for (int on = 0; on < 2; ++on) {
    for (int i = 0; i < 2; ++i) {
      without += static_cast<double>(use.operations[on][i]) * steps[0][i];
      with += static_cast<double>(use.operations[on][i]) * steps[1 + on][i];
    }
  }
  printf(
      "a minute: %llu Gets and %llu Puts, %llu and %llu of them with the cache on, which went off %llu times\n"
      "%.4f times the instructions; by Zipf's law half of the Gets hit after %llu\n",
      static_cast<unsigned long long>(gets), static_cast<unsigned long long>(puts),
      static_cast<unsigned long long>(use.operations[1][0]), static_cast<unsigned long long>(use.operations[1][1]),
      static_cast<unsigned long long>(use.times_off), with / without,
      static_cast<unsigned long long>(use.reads_to_hits));
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  const bool by_steps = argc > 1 && std::string(argv[1]) == "--steps";
  if (by_steps) {
    ++argv;
    --argc;
  }
  if (argc < 5) {
    fprintf(stderr,
            "usage: operation_counts_bench [--steps] ENGINE FOLDER OPERATION COUNT [MILLIONS [WRITE_BUFFER_MIB]]\n");
    return 2;
  }
  cairn::Arguments arguments;
  arguments.engine = argv[1];
  arguments.path = argv[2];
  cairn::SetOperation(argv[3], std::strtoull(argv[4], nullptr, 10), &arguments);
  if (argc > 5) arguments.millions = std::strtod(argv[5], nullptr);
  if (argc > 6) arguments.write_buffer_mib = std::strtod(argv[6], nullptr);
  if (!by_steps) return cairn::Main(arguments);
  if (arguments.operation == "cache") return cairn::CompareUselessCache(arguments);
  return arguments.operation == "all" ? cairn::CountAll(arguments) : cairn::CountSteps(arguments);
}
