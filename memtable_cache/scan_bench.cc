// Iterators over a memtable that is being written: rounds of some puts and one new iterator, that seeks and reads some
// rows, on a sub-MemTable and on RocksDB's skip list in turns.
//
//   scan_bench [--text] REPETITIONS [MEMTABLES]  DB::Put and DB::NewIterator; all but one of the memtables are full
//   scan_bench [--text] --steps PUTS ROWS        instructions per round (no counters needed)
//
// No WAL and no flush, 100-byte values, a write buffer of 64 MB with 300,000 entries before the first round. Keys have
// 16 bytes: random ones, or (with --text) a Kafka store's, which are numbers in decimal behind a word. Prints for each
// number of puts per iterator and of rows the medians over the repetitions: processor time per put and per iterator
// of either, and how many times as many rounds the sub-MemTable makes in a second of it.

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cairn/memtable.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "test/testutil/single_step.h"
#include "util/mix64.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

constexpr uint64_t kEntries = 300000;
constexpr uint64_t kPutsOfShape = 5000;
constexpr size_t kWriteBuffer = size_t{64} << 20;
constexpr uint64_t kPuts[] = {1, 10, 100, 1000};
constexpr uint64_t kRows[] = {10, 50};

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "scan_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

bool text_keys = false;

class Key {
 public:
  explicit Key(uint64_t number) {
    const uint64_t words[2] = {Mix64(number + 1), number};
    memcpy(bytes_, words, kBytes);
    if (text_keys) snprintf(bytes_, sizeof(bytes_), "key%013d", static_cast<int>(words[0] % 10000000));
  }
  Slice slice() const { return {bytes_, kBytes}; }

 private:
  static constexpr size_t kBytes = 16;
  char bytes_[kBytes + 1];
};

std::shared_ptr<rocksdb::MemTableRepFactory> NewFactory(bool sub) {
  if (sub) return NewSubMemTableFactory(SubMemTableOptions());
  return std::make_shared<rocksdb::SkipListFactory>();
}

class Store {
 public:
  Store(bool sub, int memtables) : path_("/dev/shm/scan_bench." + std::to_string(getpid()) + (sub ? "s" : "l")) {
    options_.create_if_missing = true;
    options_.write_buffer_size = kWriteBuffer;
    options_.min_write_buffer_number_to_merge = memtables + 1;
    options_.max_write_buffer_number = memtables + 2;
    options_.memtable_factory = NewFactory(sub);
    options_.avoid_flush_during_shutdown = true;
    write_options_.disableWAL = true;
    Check(rocksdb::DestroyDB(path_, options_));
    Check(rocksdb::DB::Open(options_, path_, port::Into(&db_)));
    uint64_t full = 0;
    for (uint64_t i = 0; full + 1 < static_cast<uint64_t>(memtables); ++i) {
      Put(i << 32 | 1);
      if (i % 64 == 0) db_->GetIntProperty(rocksdb::DB::Properties::kNumImmutableMemTable, &full);
    }
  }
  ~Store() {
    db_.reset();
    rocksdb::DestroyDB(path_, options_).PermitUncheckedError();
  }

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void Put(uint64_t number) { Check(db_->Put(write_options_, Key(number).slice(), value_)); }

  // Reads rows from the first key that is not before this one; the bytes they have.
  size_t Scan(uint64_t number, uint64_t rows) {
    size_t bytes = 0;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(rocksdb::ReadOptions()));
    for (iterator->Seek(Key(number).slice()); rows > 0 && iterator->Valid(); --rows, iterator->Next()) {
      bytes += iterator->key().size() + iterator->value().size();
    }
    return bytes;
  }

 private:
  const std::string value_ = std::string(100, 'v');
  const std::string path_;
  rocksdb::Options options_;
  rocksdb::WriteOptions write_options_;
  std::unique_ptr<rocksdb::DB> db_;
};

// Of this thread, so that what else runs on the machine is little of it. A call takes a quarter of a microsecond.
double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A store, and the time that its rounds of one shape took.
struct Side {
  std::unique_ptr<Store> store;
  uint64_t next = 0;
  double put_seconds = 0;
  double scan_seconds = 0;

  void Fill() {
    while (next < kEntries) store->Put(next++);
    store->Scan(0, 1);
  }

  void Round(uint64_t puts, uint64_t rows) {
    const double begin = ProcessorSeconds();
    for (uint64_t i = 0; i < puts; ++i) store->Put(next++);
    const double written = ProcessorSeconds();
    if (store->Scan(Mix64(next) % next, rows) == 0) fprintf(stderr, "scan_bench: no rows\n");
    put_seconds += written - begin;
    scan_seconds += ProcessorSeconds() - written;
  }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(int repetitions, int memtables) {
  constexpr size_t kShapes = std::size(kPuts) * std::size(kRows);
  // Per shape and repetition: put and iterator of the skip list, of the sub-MemTable, and the ratio of rounds.
  std::vector<double> all[kShapes][5];
  for (int r = 0; r < repetitions; ++r) {
    Side sides[2];
    for (int sub = 0; sub < 2; ++sub) {
      sides[sub].store = std::make_unique<Store>(sub == 1, memtables);
      sides[sub].Fill();
    }
    for (size_t shape = 0; shape < kShapes; ++shape) {
      const uint64_t puts = kPuts[shape / std::size(kRows)];
      const uint64_t rounds = kPutsOfShape / puts;
      const uint64_t turn = std::max<uint64_t>(1, rounds / 10);
      for (Side& side : sides) side.put_seconds = side.scan_seconds = 0;
      for (uint64_t i = 0; i < 2 * rounds; ++i) {
        sides[i / turn % 2].Round(puts, kRows[shape % std::size(kRows)]);
      }
      double seconds[2];
      for (int sub = 0; sub < 2; ++sub) {
        all[shape][2 * sub].push_back(sides[sub].put_seconds * 1e6 / static_cast<double>(rounds * puts));
        all[shape][2 * sub + 1].push_back(sides[sub].scan_seconds * 1e6 / static_cast<double>(rounds));
        seconds[sub] = sides[sub].put_seconds + sides[sub].scan_seconds;
      }
      all[shape][4].push_back(seconds[0] / seconds[1]);
    }
  }
  printf("%6s %4s | %22s | %22s | %s\n", "puts", "rows", "skip list: put, iter", "sub: put, iter (us)", "rounds");
  for (size_t shape = 0; shape < kShapes; ++shape) {
    double m[5];
    for (int i = 0; i < 5; ++i) m[i] = Median(all[shape][i]);
    printf("%6d %4d | %10.2f %11.2f | %10.2f %11.2f | %.2f\n", static_cast<int>(kPuts[shape / std::size(kRows)]),
           static_cast<int>(kRows[shape % std::size(kRows)]), m[0], m[1], m[2], m[3], m[4]);
  }
}

void CountSteps(uint64_t puts, uint64_t rows) {
  const uint64_t rounds = std::max<uint64_t>(2, 200 / puts);
  for (const bool sub : {false, true}) {
    uint64_t steps = 0;
    const int end = RunBySteps(
        [&] {
          Side side;
          side.store = std::make_unique<Store>(sub, 1);
          side.Fill();
          for (uint64_t i = 0; i < 5 * rounds; ++i) side.Round(puts, rows);
          MarkSteps(StepMark::kBegin);
          for (uint64_t i = 0; i < rounds; ++i) side.Round(puts, rows);
          MarkSteps(StepMark::kEnd);
          return 0;
        },
        &steps);
    printf("%s: %d puts, %d rows: %.0f instructions per round\n", sub ? "sub-MemTable" : "skip list",
           static_cast<int>(puts), static_cast<int>(rows),
           end == 0 ? static_cast<double>(steps) / static_cast<double>(rounds) : -1.0);
  }
}

int Main(std::vector<std::string> words) {
  text_keys = !words.empty() && words[0] == "--text";
  if (text_keys) words.erase(words.begin());
  const auto number = [&](size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  if (words.size() == 3 && words[0] == "--steps") {
    CountSteps(number(1), number(2));
  } else if (words.size() == 1 || words.size() == 2) {
    Measure(static_cast<int>(number(0)), words.size() == 2 ? static_cast<int>(number(1)) : 1);
  } else {
    fprintf(stderr, "scan_bench [--text] REPETITIONS [MEMTABLES]\nscan_bench [--text] --steps PUTS ROWS\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(std::vector<std::string>(argv + 1, argv + argc)); }
