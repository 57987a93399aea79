// What operations of a database take that uses no part of Cairn. db_bench/overhead runs it with RocksDB's library and
// with Cairn's; the program knows RocksDB's public headers only.
//
//   overhead_program steps FOLDER [OPERATION ...]   instructions and system calls of the calling thread, per operation
//   overhead_program time FOLDER [OPERATION ...]    nanoseconds per operation
//
// Prints a line for each operation: its name, instructions, system calls (or nanoseconds). With steps, a line
// "at OPERATION OBJECT OFFSET COUNT" for each instruction says where they were spent.

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/write_batch.h"
#include "test/testutil/single_step.h"

namespace {

constexpr int kKeys = 50000;
constexpr int kBatch = 50;
constexpr int kReads = 32;
constexpr int kScan = 10;

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "overhead_program: %s\n", s.ToString().c_str());
  _exit(1);
}

std::string Key(int number) {
  char key[17];
  std::snprintf(key, sizeof(key), "%016d", number);
  return key;
}

// One operation after the other on a database of its own: Prepare, then what is measured.
class Subject {
 public:
  Subject(const std::string& folder, const std::string& operation)
      : folder_(folder), operation_(operation), keys_(301) {
    std::filesystem::remove_all(folder);
    rocksdb::Options options;
    options.create_if_missing = true;
    if (operation == "put_synced_recycled") options.recycle_log_file_num = 2;
    if (operation == "get_absent") {
      rocksdb::BlockBasedTableOptions table;
      table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
      options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
      options.disable_auto_compactions = true;
    }
    if (operation == "commit") {
      rocksdb::TransactionDB* db = nullptr;
      Check(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), folder, &db));
      transactions_ = db;
      db_.reset(db);
    } else {
      Open(options);
    }
    Fill();
    if (operation == "get_absent") FlushFourTimes();
    if (operation == "put" || operation == "put_no_wal" || operation == "get" || operation == "get_absent" ||
        operation == "multiget" || operation == "seek") {
      return;
    }
    // The log that writes now go to is a used one, if any is kept.
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3000; ++j) Check(db_->Put(rocksdb::WriteOptions(), Key(j), value_));
      Check(db_->Flush(rocksdb::FlushOptions()));
    }
  }
  ~Subject() {
    values_.clear();  // they hold blocks of the cache
    transaction_.reset();
    iterator_.reset();
    db_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Prepare() {
    keys.clear();
    const int count = operation_ == "batch" ? kBatch : operation_ == "multiget" ? kReads : 1;
    for (int i = 0; i < count; ++i) keys.push_back(Key(static_cast<int>(keys_() % kKeys)));
    batch_.Clear();
    if (operation_ == "batch") {
      for (const std::string& key : keys) Check(batch_.Put(key, value_));
    } else if (operation_ == "multiget") {
      slices_.assign(keys.begin(), keys.end());
      values_ = std::vector<rocksdb::PinnableSlice>(kReads);
      statuses_ = std::vector<rocksdb::Status>(kReads);
    } else if (operation_ == "seek") {
      iterator_.reset(db_->NewIterator(rocksdb::ReadOptions()));
    } else if (operation_ == "commit") {
      transaction_.reset(transactions_->BeginTransaction(rocksdb::WriteOptions()));
      Check(transaction_->Put(keys[0], value_));
    }
  }

  void Run() {
    rocksdb::WriteOptions how;
    if (operation_ == "put") {
      Check(db_->Put(how, keys[0], value_));
    } else if (operation_ == "put_no_wal") {
      how.disableWAL = true;
      Check(db_->Put(how, keys[0], value_));
    } else if (operation_ == "put_synced" || operation_ == "put_synced_recycled") {
      how.sync = true;
      Check(db_->Put(how, keys[0], value_));
    } else if (operation_ == "batch") {
      Check(db_->Write(how, &batch_));
    } else if (operation_ == "get_absent") {
      rocksdb::PinnableSlice value;
      if (!db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), keys[0] + "-", &value).IsNotFound()) _exit(1);
    } else if (operation_ == "get") {
      rocksdb::PinnableSlice value;
      Check(db_->Get(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), keys[0], &value));
    } else if (operation_ == "multiget") {
      db_->MultiGet(rocksdb::ReadOptions(), db_->DefaultColumnFamily(), kReads, slices_.data(), values_.data(),
                    statuses_.data());
      for (const rocksdb::Status& s : statuses_) Check(s);
    } else if (operation_ == "seek") {
      iterator_->Seek(keys[0]);
      for (int i = 0; i < kScan && iterator_->Valid(); ++i) iterator_->Next();
      Check(iterator_->status());
    } else if (operation_ == "commit") {
      Check(transaction_->Commit());
    }
  }

 private:
  void Open(const rocksdb::Options& options) {
#if ROCKSDB_MAJOR >= 11
    Check(rocksdb::DB::Open(options, folder_, &db_));
#else
    rocksdb::DB* db = nullptr;
    Check(rocksdb::DB::Open(options, folder_, &db));
    db_.reset(db);
#endif
  }

  // Tables of one level, read once, and a memtable with a few thousand entries.
  void Fill() {
    for (int i = 0; i < kKeys; ++i) Check(db_->Put(rocksdb::WriteOptions(), Key(i), value_));
    Check(db_->Flush(rocksdb::FlushOptions()));
    Check(db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    std::string value;
    for (int i = 0; i < kKeys; ++i) Check(db_->Get(rocksdb::ReadOptions(), Key(i), &value));
    for (int i = 0; i < 3000; ++i) Check(db_->Put(rocksdb::WriteOptions(), Key(i * 16 % kKeys), value_));
  }

  // Four tables above the others, each over all keys: with those, a Get asks five filters.
  void FlushFourTimes() {
    for (int table = 0; table < 4; ++table) {
      for (int key : {0, kKeys}) Check(db_->Put(rocksdb::WriteOptions(), Key(key), value_));
      Check(db_->Flush(rocksdb::FlushOptions()));
    }
  }

  const std::string folder_, operation_;
  const std::string value_ = std::string(100, 'v');
  std::mt19937 keys_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::TransactionDB* transactions_ = nullptr;  // db_, if it is one
  std::vector<std::string> keys;
  rocksdb::WriteBatch batch_;
  std::vector<rocksdb::Slice> slices_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  std::unique_ptr<rocksdb::Transaction> transaction_;
};

const std::vector<std::string> kOperations = {"put",   "put_no_wal", "put_synced", "put_synced_recycled",
                                              "batch", "get",        "get_absent", "multiget",
                                              "seek",  "commit"};

// One step is some ten microseconds.
int StepsOf(const std::string& operation) { return operation == "batch" || operation == "multiget" ? 4 : 40; }

void CountSteps(const std::string& folder, const std::string& operation) {
  using cairn::MarkSteps;
  using cairn::StepMark;
  const int count = StepsOf(operation);
  uint64_t steps = 0;
  cairn::StepAddresses addresses;
  const int result = cairn::RunBySteps(
      [&] {
        Subject subject(folder, operation);
        for (int i = 0; i < count; ++i) {  // what an operation sets up when a thread does it first
          subject.Prepare();
          subject.Run();
        }
        for (int i = 0; i < count; ++i) {
          subject.Prepare();
          MarkSteps(StepMark::kBegin);
          subject.Run();
          MarkSteps(StepMark::kEnd);
        }
        return 0;
      },
      &steps, &addresses);
  if (result != 0) {
    std::fprintf(stderr, "overhead_program: %s cannot be counted (%d)\n", operation.c_str(), result);
    _exit(1);
  }
  uint64_t system_calls = 0;
  for (const auto& [address, times] : addresses) {
    Dl_info info = {};
    // Not mapped by a file: the kernel's, for clocks.
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) continue;
    if (std::memcmp(reinterpret_cast<const void*>(address), "\x0f\x05", 2) == 0) system_calls += times;
    std::printf("at %s %s %" PRIx64 " %" PRIu64 "\n", operation.c_str(), info.dli_fname,
                address - reinterpret_cast<uint64_t>(info.dli_fbase), times);
  }
  // The mark of the end is a system call, too.
  std::printf("%s %.1f %.2f\n", operation.c_str(), static_cast<double>(steps) / count,
              static_cast<double>(system_calls) / count - 1);
}

void Time(const std::string& folder, const std::string& operation) {
  Subject subject(folder, operation);
  const int count = operation.find("synced") != std::string::npos     ? 2000
                    : operation == "batch" || operation == "multiget" ? 4000
                                                                      : 100000;
  std::chrono::nanoseconds taken{};
  for (int i = 0; i < count; ++i) {
    subject.Prepare();
    const auto begin = std::chrono::steady_clock::now();
    subject.Run();
    taken += std::chrono::steady_clock::now() - begin;
  }
  std::printf("%s %.1f\n", operation.c_str(), static_cast<double>(taken.count()) / count);
}

struct Arguments {
  bool steps = false;
  std::string folder;
  std::vector<std::string> operations;
};

void* Main(void* argument) {
  const Arguments& arguments = *static_cast<Arguments*>(argument);
  for (const std::string& operation : arguments.operations) {
    (arguments.steps ? CountSteps : Time)(arguments.folder, operation);
    std::fflush(stdout);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (argc < 3 || (std::strcmp(argv[1], "steps") != 0 && std::strcmp(argv[1], "time") != 0)) {
    std::fprintf(stderr, "usage: overhead_program steps|time FOLDER [OPERATION ...]\n");
    return 2;
  }
  arguments.steps = std::strcmp(argv[1], "steps") == 0;
  arguments.folder = argv[2];
  arguments.operations.assign(argv + 3, argv + argc);
  if (arguments.operations.empty()) arguments.operations = kOperations;
  // RocksDB seeds a thread's random numbers, by which a skip list takes its heights, with the thread's address. A stack
  // in the same place gives both libraries the same lists.
  constexpr size_t kStack = 8 << 20;
  void* const stack = mmap(reinterpret_cast<void*>(0x200000000000), kStack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  if (stack == MAP_FAILED || pthread_attr_init(&attributes) != 0 ||
      pthread_attr_setstack(&attributes, stack, kStack) != 0 ||
      pthread_create(&thread, &attributes, Main, &arguments) != 0) {
    std::perror("overhead_program");
    return 1;
  }
  pthread_join(thread, nullptr);
  return 0;
}
