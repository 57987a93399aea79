// Iterators over a memtable that is being written: rounds of some puts and one new iterator, that seeks and reads some
// rows, on a sub-MemTable and on RocksDB's skip list in turns.
//
//   scan_bench [text-]rep REPETITIONS             the memtable alone
//   scan_bench [text-]db REPETITIONS [MEMTABLES]  DB::Put and DB::NewIterator; all but one of the memtables are full
//   scan_bench --steps [text-]rep|db PUTS ROWS    instructions per round (no counters needed)
//
// No WAL and no flush, 100-byte values, a write buffer of 64 MB with 300,000 entries before the first round. Keys have
// 16 bytes: random ones, or (with "text-") a Kafka store's, which are numbers in decimal behind a word. Prints for each
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
#include "db/memtable.h"
#include "memory/concurrent_arena.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "test/testutil/single_step.h"
#include "util/coding.h"
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

class Store {
 public:
  virtual ~Store() = default;
  virtual void Put(uint64_t number) = 0;
  // Reads rows from the first key that is not before this one; the bytes they have.
  virtual size_t Scan(uint64_t number, uint64_t rows) = 0;

 protected:
  const std::string value_ = std::string(100, 'v');
};

std::shared_ptr<rocksdb::MemTableRepFactory> NewFactory(bool sub) {
  if (sub) return NewSubMemTableFactory(SubMemTableOptions());
  return std::make_shared<rocksdb::SkipListFactory>();
}

class RepStore : public Store {
 public:
  explicit RepStore(bool sub)
      : factory_(NewFactory(sub)),
        internal_(rocksdb::BytewiseComparator()),
        comparator_(internal_),
        arena_(kWriteBuffer / 8),
        rep_(factory_->CreateMemTableRep(comparator_, &arena_, nullptr, nullptr)) {}

  void Put(uint64_t number) override {
    const Key key(number);
    char* to = nullptr;
    const rocksdb::KeyHandle handle = rep_->Allocate(1 + 24 + 1 + value_.size(), &to);
    to = rocksdb::EncodeVarint32(to, 24);
    memcpy(to, key.slice().data(), 16);
    rocksdb::EncodeFixed64(to + 16, rocksdb::PackSequenceAndType(++sequence_, rocksdb::kTypeValue));
    to = rocksdb::EncodeVarint32(to + 24, static_cast<uint32_t>(value_.size()));
    memcpy(to, value_.data(), value_.size());
    rep_->InsertConcurrently(handle);
  }

  size_t Scan(uint64_t number, uint64_t rows) override {
    const Key key(number);
    const rocksdb::InternalKey target(key.slice(), sequence_, rocksdb::kValueTypeForSeek);
    size_t bytes = 0;
    const std::unique_ptr<rocksdb::MemTableRep::Iterator> iterator(rep_->GetIterator(nullptr));
    for (iterator->Seek(target.Encode(), nullptr); rows > 0 && iterator->Valid(); --rows, iterator->Next()) {
      const Slice row = rocksdb::GetLengthPrefixedSlice(iterator->key());
      bytes += row.size() + rocksdb::GetLengthPrefixedSlice(row.data() + row.size()).size();
    }
    return bytes;
  }

 private:
  const std::shared_ptr<rocksdb::MemTableRepFactory> factory_;
  const rocksdb::InternalKeyComparator internal_;
  const rocksdb::MemTable::KeyComparator comparator_;
  rocksdb::ConcurrentArena arena_;
  const std::unique_ptr<rocksdb::MemTableRep> rep_;
  uint64_t sequence_ = 0;
};

class DbStore : public Store {
 public:
  DbStore(bool sub, int memtables) : path_("/dev/shm/scan_bench." + std::to_string(getpid()) + (sub ? "s" : "l")) {
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
  ~DbStore() override {
    db_.reset();
    rocksdb::DestroyDB(path_, options_).PermitUncheckedError();
  }

  void Put(uint64_t number) override { Check(db_->Put(write_options_, Key(number).slice(), value_)); }

  size_t Scan(uint64_t number, uint64_t rows) override {
    size_t bytes = 0;
    const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(rocksdb::ReadOptions()));
    for (iterator->Seek(Key(number).slice()); rows > 0 && iterator->Valid(); --rows, iterator->Next()) {
      bytes += iterator->key().size() + iterator->value().size();
    }
    return bytes;
  }

 private:
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

std::unique_ptr<Store> NewStore(bool db, bool sub, int memtables) {
  if (db) return std::make_unique<DbStore>(sub, memtables);
  return std::make_unique<RepStore>(sub);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Measure(bool db, int repetitions, int memtables) {
  constexpr size_t kShapes = std::size(kPuts) * std::size(kRows);
  // Per shape and repetition: put and iterator of the skip list, of the sub-MemTable, and the ratio of rounds.
  std::vector<double> all[kShapes][5];
  for (int r = 0; r < repetitions; ++r) {
    Side sides[2];
    for (int sub = 0; sub < 2; ++sub) {
      sides[sub].store = NewStore(db, sub == 1, memtables);
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

void CountSteps(bool db, uint64_t puts, uint64_t rows) {
  const uint64_t rounds = std::max<uint64_t>(2, 200 / puts);
  for (const bool sub : {false, true}) {
    uint64_t steps = 0;
    const int end = RunBySteps(
        [&] {
          Side side;
          side.store = NewStore(db, sub, 1);
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

int Main(const std::vector<std::string>& words) {
  const auto number = [&](size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  const bool steps = words.size() == 4 && words[0] == "--steps";
  std::string mode = words.empty() ? "" : words[steps ? 1 : 0];
  text_keys = mode.rfind("text-", 0) == 0;
  if (text_keys) mode = mode.substr(5);
  if (steps) {
    CountSteps(mode == "db", number(2), number(3));
  } else if (words.size() == 2 || words.size() == 3) {
    Measure(mode == "db", static_cast<int>(number(1)), words.size() == 3 ? static_cast<int>(number(2)) : 1);
  } else {
    fprintf(stderr, "scan_bench [text-]rep|db REPETITIONS [MEMTABLES]\nscan_bench --steps [text-]rep|db PUTS ROWS\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(std::vector<std::string>(argv + 1, argv + argc)); }
