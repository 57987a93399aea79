// What durability costs: random puts with durable memtables, against the skip list with a WAL, and others; and how long
// recovery takes.
//
//   durable_bench DIRECTORY [millions of puts, default 2]
//
// The directory should be on a memory file system: WAL and pool file then cost what they cost the processor. Compaction
// is off. Rates are of whole runs, with the flushes that happened; each row is the median of three.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "memtable_cache/durable_recovery.h"
#include "rocksdb/write_batch.h"

namespace cairn {
namespace {

using rocksdb::Options;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "durable_bench: %s\n", s.ToString().c_str());
  exit(1);
}

struct Way {
  const char* name;
  bool sub_memtable;
  bool durable;
  bool wal;
};

Options OptionsOf(const Way& way) {
  Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1 << 20;
  options.compression = rocksdb::kNoCompression;
  options.max_background_jobs = 2;
  options.max_write_buffer_number = 3;
  if (way.sub_memtable) {
    SubMemTableOptions memtable;
    memtable.durable = way.durable;
    options.memtable_factory = NewSubMemTableFactory(memtable);
  }
  return options;
}

void Put(rocksdb::DB* db, const Way& way, uint64_t puts, uint64_t value_bytes, uint64_t batch_size, uint64_t seed) {
  rocksdb::WriteOptions write;
  write.disableWAL = !way.wal;
  const std::string value(value_bytes, 'v');
  uint64_t state = seed * 0x9e3779b97f4a7c15u;
  char key[17];
  rocksdb::WriteBatch batch;
  for (uint64_t i = 0; i < puts; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(state ^ state >> 29));
    if (batch_size == 1) {
      Check(db->Put(write, rocksdb::Slice(key, 16), value));
      continue;
    }
    Check(batch.Put(rocksdb::Slice(key, 16), value));
    if ((i + 1) % batch_size != 0) continue;
    Check(db->Write(write, &batch));
    batch.Clear();
  }
}

double Rate(const std::string& directory, const Way& way, int threads, uint64_t puts, uint64_t value_bytes,
            uint64_t batch_size) {
  std::vector<double> rates;
  for (int run = 0; run < 3; ++run) {
    std::filesystem::remove_all(directory);
    rocksdb::DB* db = nullptr;
    Check(cairn::Open(OptionsOf(way), directory, &db));
    const auto begin = Clock::now();
    std::vector<std::thread> writers;
    for (int t = 0; t < threads; ++t) {
      writers.emplace_back([&, t] {
        Put(db, way, puts / threads, value_bytes, batch_size,
            static_cast<uint64_t>(run) * 8 + static_cast<uint64_t>(t) + 1);
      });
    }
    for (auto& writer : writers) writer.join();
    rates.push_back(static_cast<double>(puts) / Seconds(begin) / 1000);
    Check(db->Close());
    delete db;
  }
  std::sort(rates.begin(), rates.end());
  return rates[1];
}

// A process fills a pool and is killed.
void MeasureRecovery(const std::string& directory) {
  const Way way = {"durable", true, true, false};
  Options options = OptionsOf(way);
  options.write_buffer_size = size_t{2} << 30;
  std::filesystem::remove_all(directory);
  const pid_t child = fork();
  if (child == 0) {
    rocksdb::DB* db = nullptr;
    Check(cairn::Open(options, directory, &db));
    Put(db, way, 4000000, 100, 1, 1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  PmemFileOptions file_options;
  file_options.path = directory + "/CAIRN_POOL";
  std::unique_ptr<PmemFile> file;
  Check(PmemFile::Open(file_options, &file));
  RecoveryReport report;
  auto begin = Clock::now();
  Check(RecoverPoolFile(options, directory, file.get(), &report));
  const double made = Seconds(begin);
  file.reset();
  begin = Clock::now();
  rocksdb::DB* db = nullptr;
  Check(cairn::Open(options, directory, &db));
  const double opened = Seconds(begin);
  const double gigabytes = static_cast<double>(report.counts.replayed_bytes) / (1 << 30);
  printf(
      "recovery: %.2f GB of keys and values, %llu writes: pool file to WAL %.2f s (%.2f s/GB), open (replay and flush) "
      "%.2f s (%.2f s/GB)\n",
      gigabytes, static_cast<unsigned long long>(report.counts.replayed), made, made / gigabytes, opened,
      opened / gigabytes);
  delete db;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: durable_bench DIRECTORY [millions of puts]\n");
    return 2;
  }
  const std::string directory = std::string(argv[1]) + "/durable_bench";
  const uint64_t puts = static_cast<uint64_t>((argc > 2 ? atof(argv[2]) : 2) * 1000000);
  const Way ways[] = {{"skip_list, WAL", false, false, true},
                      {"sub-MemTable, WAL", true, false, true},
                      {"sub-MemTable, durable", true, true, false},
                      {"sub-MemTable, no WAL", true, false, false},
                      {"skip_list, no WAL", false, false, false}};
  printf("K puts per second, 16 B keys, %llu puts\n%-24s", static_cast<unsigned long long>(puts), "");
  struct Shape {
    int threads;
    uint64_t value_bytes;
    uint64_t batch;
  };
  const Shape shapes[] = {{1, 64, 1}, {1, 100, 1}, {1, 256, 1}, {2, 100, 1}, {1, 100, 50}};
  for (const Shape& shape : shapes) {
    printf("  %dw %3lluB b%-2llu", shape.threads, static_cast<unsigned long long>(shape.value_bytes),
           static_cast<unsigned long long>(shape.batch));
  }
  printf("\n");
  for (const Way& way : ways) {
    printf("%-24s", way.name);
    for (const Shape& shape : shapes) {
      printf("  %10.0f", Rate(directory, way, shape.threads, puts, shape.value_bytes, shape.batch));
      fflush(stdout);
    }
    printf("\n");
  }
  MeasureRecovery(directory);
  std::filesystem::remove_all(directory);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(argc, argv); }
