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
//   batch              MultiGet of 32 present keys; absent_batch: of absent ones. COUNT keys
//   put                Put of present keys
//   update             Get, then Put of the same present key
//   compact            in a FOLDER that is not there yet: a compaction of 16 tables of COUNT keys together, per key
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
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
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

 private:
  void Put(uint64_t number) {
    std::string value(kValueBytes, '\0');
    for (size_t at = 0; at + 8 <= kValueBytes; at += 8) {
      const uint64_t bytes = SplitMix64(number * kValueBytes + at);
      std::copy_n(reinterpret_cast<const char*>(&bytes), 8, &value[at]);
    }
    Check(db_->Put(write_options_, KeyOf(number), value));
  }

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
  if (bench->operation_ == "batch" || bench->operation_ == "absent_batch") {
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
  const uint64_t wanted = operation_ == "put" || operation_.rfind("absent", 0) == 0 ? 0 : count_;
  return found == (wanted + kBatch - 1) / kBatch * kBatch || found == wanted;
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

struct Arguments {
  std::string engine, path, operation;
  uint64_t count = 0;
  double millions = 3;
  double write_buffer_mib = 4;
};

int Main(const Arguments& arguments) {
  const std::string& operation = arguments.operation;
  rocksdb::DB* opened = nullptr;
  rocksdb::Options options = OptionsOf(arguments.engine, static_cast<size_t>(arguments.write_buffer_mib * (1 << 20)));
  if (operation == "compact") {
    options.error_if_exists = options.disable_auto_compactions = true;
    options.write_buffer_size = size_t{256} << 20;
  }
  Check(Open(options, arguments.path, &opened));
  const std::unique_ptr<rocksdb::DB> db(opened);
  Bench bench(opened, operation, arguments.count, static_cast<uint64_t>(arguments.millions * 1e6));
  bool right = true;
  if (operation == "fill") {
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
    arguments.operation = operation;
    if ((result = CountSteps(arguments)) != 0) return result;
  }
  arguments.path = folder + "/compacted";
  arguments.operation = "compact";
  arguments.count = 20 * count;
  return CountSteps(arguments);
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
  arguments.operation = argv[3];
  arguments.count = std::strtoull(argv[4], nullptr, 10);
  if (argc > 5) arguments.millions = std::strtod(argv[5], nullptr);
  if (argc > 6) arguments.write_buffer_mib = std::strtod(argv[6], nullptr);
  if (!by_steps) return cairn::Main(arguments);
  return arguments.operation == "all" ? cairn::CountAll(arguments) : cairn::CountSteps(arguments);
}
