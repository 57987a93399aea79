// What deletes cost scans, and what it costs to have them compacted: bytes written, and what a seek passes over.
//
//   tombstone_bench --path=DIR --engine=ENGINE[;OPTION=VALUE...] --load=LOAD [--items=1000000] [--operations=1000000]
//
// ENGINE as in cairn::UseEngineFromString, or "universal" for RocksDB's own; tombstone_run=0 is without marks. DIR must
// not be there yet. It is filled with puts of random items, then comes LOAD:
//
//   deep       deletes of the first tenth of the items, in order; then seeks to the first item
//   queue      puts at the end and deletes at the front of a queue of 10,000 beside the items; after each hundred a
//              seek to its front
//   busy       the same for one operation in 50, and puts of random items for the others
//   mixed      puts of random items, of which --deletes (0.05) are deletes
//   purge      deletes of all items in random order

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cairn/engines.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"

DEFINE_string(path, "", "Folder of the database");
DEFINE_string(engine, "ordered", "Engine and its options");
DEFINE_string(load, "deep", "deep, queue, busy, mixed or purge");
DEFINE_uint64(items, 1000000, "Items that are there first");
DEFINE_uint64(operations, 1000000, "Operations of the load");
DEFINE_double(deletes, 0.05, "Share of deletes");
DEFINE_uint64(write_buffer_size, 4 << 20, "Bytes");

namespace {

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "tombstone_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

// Of this thread: a busy machine does not count.
double Micros() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

std::string Key(char table, uint64_t n) {
  char key[24];
  snprintf(key, sizeof(key), "%c%015" PRIx64, table, n);
  return key;
}

// Items are behind the queue in key order.
std::string Item(uint64_t n) { return Key('m', n); }
std::string Queued(uint64_t n) { return Key('j', n); }

class Load {
 public:
  Load() {
    options_.create_if_missing = true;
    options_.error_if_exists = true;
    options_.write_buffer_size = FLAGS_write_buffer_size;
    options_.target_file_size_base = FLAGS_write_buffer_size;
    options_.max_bytes_for_level_base = 4 * FLAGS_write_buffer_size;
    options_.compression = rocksdb::kNoCompression;
    options_.max_background_jobs = 2;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(size_t{1} << 30);
    options_.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    if (FLAGS_engine == "universal") {
      options_.compaction_style = rocksdb::kCompactionStyleUniversal;
    } else {
      Check(cairn::UseEngineFromString("engine=" + FLAGS_engine, &options_, &options_));
    }
    options_.statistics = rocksdb::CreateDBStatistics();
    write_.disableWAL = true;
    Check(rocksdb::DB::Open(options_, FLAGS_path, cairn::port::Into(&db_)));
    for (uint64_t i : Shuffled()) Put(Item(i));
    for (; end_ < kBacklog; ++end_) Put(Queued(end_));
    Settle();
  }

  void Run() {
    const uint64_t written = Written();
    if (FLAGS_load == "deep") {
      for (uint64_t i = 0; i < FLAGS_items / 10; ++i) Delete(Item(i));
    } else if (FLAGS_load == "purge") {
      for (uint64_t i : Shuffled()) Delete(Item(i));
    } else {
      for (uint64_t i = 0; i < FLAGS_operations; ++i) Step();
    }
    if (seeks_ > 0) PrintSeeks("busy");
    Settle();
    const uint64_t load = Written() - written;
    for (int i = 0; i < 20; ++i) SeekTo(FLAGS_load == "deep" ? Item(0) : Queued(0));
    PrintSeeks("idle");
    printf("%-40s %-6s %8.1f MB written\n", FLAGS_engine.c_str(), FLAGS_load.c_str(), static_cast<double>(load) / 1e6);
  }

 private:
  static constexpr uint64_t kBacklog = 10000;

  void Step() {
    if (FLAGS_load == "mixed") {
      const bool deletes = static_cast<double>(random_() % 1000000) < FLAGS_deletes * 1e6;
      return deletes ? Delete(Item(random_() % FLAGS_items)) : Put(Item(random_() % FLAGS_items));
    }
    if (FLAGS_load == "busy" && random_() % 50 != 0) return Put(Item(random_() % FLAGS_items));
    Put(Queued(end_++));
    Delete(Queued(front_++));
    if (end_ % 100 == 0) SeekTo(Queued(0));
  }

  std::vector<uint64_t> Shuffled() {
    std::vector<uint64_t> items(FLAGS_items);
    std::iota(items.begin(), items.end(), 0);
    std::shuffle(items.begin(), items.end(), random_);
    return items;
  }

  void Put(const std::string& key) { Check(db_->Put(write_, key, value_)); }
  void Delete(const std::string& key) { Check(db_->Delete(write_, key)); }

  void Settle() {
    Check(db_->Flush({}));
    Check(db_->WaitForCompact({}));
  }

  uint64_t Written() const {
    return options_.statistics->getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
           options_.statistics->getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
  }

  static uint64_t Skipped() {
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    return counts.internal_delete_skipped_count + counts.internal_key_skipped_count;
  }

  void SeekTo(const std::string& key) {
    const uint64_t skipped = Skipped();
    const double start = Micros();
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    it->Seek(key);
    micros_ += Micros() - start;
    Check(it->status());
    skipped_ += Skipped() - skipped;
    ++seeks_;
  }

  void PrintSeeks(const char* when) {
    const auto seeks = static_cast<double>(seeks_);
    printf("%-40s %-6s %s: %10.1f us per seek, %10.1f entries skipped\n", FLAGS_engine.c_str(), FLAGS_load.c_str(),
           when, micros_ / seeks, static_cast<double>(skipped_) / seeks);
    micros_ = 0;
    seeks_ = skipped_ = 0;
  }

  std::mt19937_64 random_{7};
  const std::string value_ = std::string(100, 'v');
  rocksdb::Options options_;
  rocksdb::WriteOptions write_;
  std::unique_ptr<rocksdb::DB> db_;
  uint64_t front_ = 0, end_ = 0;  // of the queue
  double micros_ = 0;
  uint64_t seeks_ = 0, skipped_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  Load().Run();
  return 0;
}
