// Kills a process that writes (SIGKILL), reopens its database, and proves that no acknowledged write is lost and no
// batch is torn.
//
// The child (this program with --child) writes with the WAL on from several threads into three column families, while
// flushes and compactions run all the time. What batch number n of thread t holds follows from the seed alone, so the
// parent can compute what must be there: each thread's keys must be exactly those after some batch m, with
// acknowledged <= m <= started, and m must be the same in all column families. The two counts are in memory that both
// processes map.
//
// CAIRN_SEED=n replays the writes (not the moment of the kill), CAIRN_CRASH_CYCLES=n sets the number of kills an
// engine; build/test/crash_test --gtest_filter='*/trie_tiny' picks an engine.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/write_batch.h"
#include "test/simple_durable_rep.h"
#include "test/support.h"

extern char** environ;

namespace cairn {
namespace test {
namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::Status;

constexpr int kThreads = 3;
constexpr int kFamilies = 3;
constexpr uint64_t kKeys = 400;  // of one thread in one column family
const char* const kFamilyNames[kFamilies] = {"default", "second", "leveled"};

// Mapped by both processes. The child's threads write `started` before and `acknowledged` after each batch.
struct Shared {
  uint64_t next[kThreads];  // the first batch that the child is to write
  std::atomic<uint64_t> started[kThreads];
  std::atomic<uint64_t> acknowledged[kThreads];
  std::atomic<int> opened;
  std::atomic<int> failed;
  char message[1024];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics are shared between processes");

enum class Way { kPlain, kCairn, kOptionsFile, kReadOnly };
const char* const kWayNames[] = {"DB::Open", "cairn::Open", "OPTIONS file", "OpenForReadOnly"};

struct Database {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  ~Database() { Close(); }
  void Close() {
    for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
    handles.clear();
    db.reset();
  }
};

// Durable memtables instead of a WAL: the pool file is what must hold everything.
Status FillDurable(rocksdb::Options* options) {
  DurableSettings settings;
  settings.bytes = 16 << 20;
  static const std::shared_ptr<rocksdb::MemTableRepFactory> factory = NewSimpleDurableFactory(settings);
  options->memtable_factory = factory;
  return FindEngine("leveled")->fill(options);
}
const Engine kDurable = {"durable", FillDurable, false, 1};

Status FillDurableSubMemTable(rocksdb::Options* options) {
  SubMemTableOptions memtable;
  memtable.durable = true;
  memtable.segment_size = 16 << 10;
  static const std::shared_ptr<rocksdb::MemTableRepFactory> factory = NewSubMemTableFactory(memtable);
  options->memtable_factory = factory;
  options->enable_pipelined_write = true;  // the other durable engine writes group after group
  return FindEngine("leveled")->fill(options);
}
const Engine kDurableSubMemTable = {"durable_sub_memtable", FillDurableSubMemTable, false, 1};

bool IsDurableEngine(const Engine& engine) {
  return engine.name == std::string(kDurable.name) || engine.name == std::string(kDurableSubMemTable.name);
}

const Engine* EngineCalled(const std::string& name) {
  for (const Engine* engine : {&kDurable, &kDurableSubMemTable}) {
    if (name == engine->name) return engine;
  }
  return FindEngine(name);
}

// cairn::Open alone recovers a pool file.
Way ChooseWay(const Engine& engine, Random* random, uint64_t ways) {
  const uint64_t chosen = random->Uniform(ways);
  return IsDurableEngine(engine) ? Way::kCairn : static_cast<Way>(chosen);
}

Status OpenDatabase(const Engine& engine, const std::string& path, Way way, Database* database) {
  rocksdb::Options options = BaseOptions();
  Status status = engine.fill(&options);
  if (status.ok()) {
    status =
        rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options.merge_operator);
  }
  if (!status.ok()) return status;
  options.create_missing_column_families = true;
  rocksdb::Options leveled(options, BaseOptions());
  status = FindEngine("leveled")->fill(&leveled);
  leveled.merge_operator = options.merge_operator;
  leveled.memtable_factory = options.memtable_factory;
  if (!status.ok()) return status;
  rocksdb::DBOptions db_options = options;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {
      {kFamilyNames[0], options}, {kFamilyNames[1], options}, {kFamilyNames[2], leveled}};
  rocksdb::DB* db = nullptr;
  switch (way) {
    case Way::kOptionsFile: {
      std::vector<rocksdb::ColumnFamilyDescriptor> stored;
      status = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &db_options, &stored);
      if (status.ok() && stored.size() != descriptors.size())
        status = Status::Corruption("column families are missing");
      if (!status.ok()) return status;
      status = rocksdb::DB::Open(db_options, path, stored, &database->handles, port::Into(&db));
      break;
    }
    case Way::kPlain:
      status = rocksdb::DB::Open(db_options, path, descriptors, &database->handles, port::Into(&db));
      break;
    case Way::kCairn:
      status = cairn::Open(db_options, path, descriptors, &database->handles, &db);
      break;
    case Way::kReadOnly:
      status = rocksdb::DB::OpenForReadOnly(db_options, path, descriptors, &database->handles, port::Into(&db));
      break;
  }
  database->db.reset(db);
  return status;
}

std::string KeyOf(int thread, uint64_t index) { return "t" + std::to_string(thread) + "/" + std::to_string(index); }
std::string LastKey(int thread) { return "t" + std::to_string(thread) + "/last"; }
bool IsSingle(uint64_t index) { return index % 5 == 4; }

enum class Kind { kPut, kDelete, kSingleDelete, kMerge };

// Calls `apply` for each write of batch `number` of a thread. `present` says whether a key that only SingleDelete may
// delete is there; it is asked after the earlier writes were applied.
void Generate(uint64_t seed, int thread, uint64_t number, const std::function<bool(int, const std::string&)>& present,
              const std::function<void(Kind, int, const std::string&, const std::string&)>& apply) {
  Random random(seed * 1000003 + thread * 7919 + number * 2654435761u);
  // Now and then a batch of many blocks of the WAL, which is the likeliest to be torn.
  const uint64_t count = random.OneIn(50) ? 400 : 1 + random.Uniform(10);
  for (uint64_t i = 0; i < count; ++i) {
    const int family = static_cast<int>(random.Uniform(kFamilies));
    const uint64_t index = random.Uniform(kKeys);
    const std::string key = KeyOf(thread, index);
    const uint64_t kind = random.Uniform(10);
    std::string value = std::to_string(number) + ":" + std::to_string(i);
    value.append(random.OneIn(100) ? 4000 : random.Uniform(100), static_cast<char>('a' + number % 26));
    if (IsSingle(index)) {
      apply(present(family, key) ? Kind::kSingleDelete : Kind::kPut, family, key, value);
    } else if (kind < 2) {
      apply(Kind::kDelete, family, key, "");
    } else if (kind < 3) {
      apply(Kind::kMerge, family, key, value.substr(0, 20));
    } else {
      apply(Kind::kPut, family, key, value);
    }
  }
  for (int family = 0; family < kFamilies; ++family) {
    apply(Kind::kPut, family, LastKey(thread), std::to_string(number));
  }
}

// ---- The child

class Child {
 public:
  Child(const Engine& engine, std::string path, uint64_t seed, Way way, Shared* shared)
      : engine_(engine), path_(std::move(path)), seed_(seed), way_(way), shared_(shared) {}

  int Run() {
    Status status = OpenDatabase(engine_, path_, way_, &database_);
    if (!status.ok()) return Fail("open by " + std::string(kWayNames[static_cast<int>(way_)]), status);
    shared_->opened.store(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back([this, t] { Write(t); });
    threads.emplace_back([this] { Read(); });
    threads.emplace_back([this] { FlushAndCompact(); });
    for (std::thread& thread : threads) thread.join();  // only after a failure: the parent kills
    return 1;
  }

 private:
  int Fail(const std::string& what, const Status& status) {
    if (shared_->failed.exchange(1) == 0) {
      const std::string text = what + ": " + status.ToString();
      strncpy(shared_->message, text.c_str(), sizeof(shared_->message) - 1);
      shared_->failed.store(2);
    }
    return 1;
  }

  void Write(int thread) {
    std::set<std::pair<int, std::string>> present;
    for (int family = 0; family < kFamilies; ++family) {
      for (uint64_t index = 0; index < kKeys; ++index) {
        if (!IsSingle(index)) continue;
        std::string value;
        const std::string key = KeyOf(thread, index);
        const Status status = database_.db->Get(rocksdb::ReadOptions(), database_.handles[family], key, &value);
        if (status.ok()) present.emplace(family, key);
        if (!status.ok() && !status.IsNotFound()) {
          Fail("Get", status);
          return;
        }
      }
    }
    for (uint64_t number = shared_->next[thread]; shared_->failed.load() == 0; ++number) {
      rocksdb::WriteBatch batch;
      Generate(
          seed_, thread, number,
          [&](int family, const std::string& key) {
            return present.count({family, key}) != 0;
          },
          [&](Kind kind, int family, const std::string& key, const std::string& value) {
            ColumnFamilyHandle* handle = database_.handles[family];
            switch (kind) {
              case Kind::kPut:
                batch.Put(handle, key, value);
                present.emplace(family, key);
                break;
              case Kind::kDelete:
                batch.Delete(handle, key);
                break;
              case Kind::kSingleDelete:
                batch.SingleDelete(handle, key);
                present.erase({family, key});
                break;
              case Kind::kMerge:
                batch.Merge(handle, key, value);
                break;
            }
          });
      shared_->started[thread].store(number);
      const Status status = database_.db->Write(rocksdb::WriteOptions(), &batch);
      if (!status.ok()) {
        Fail("Write", status);
        return;
      }
      shared_->acknowledged[thread].store(number);
    }
  }

  // A snapshot shows a batch in all column families or in none.
  void Read() {
    Random random(seed_ + 1);
    while (shared_->failed.load() == 0) {
      const rocksdb::Snapshot* snapshot = database_.db->GetSnapshot();
      rocksdb::ReadOptions options;
      options.snapshot = snapshot;
      const std::string key = LastKey(static_cast<int>(random.Uniform(kThreads)));
      std::string values[kFamilies];
      for (int family = 0; family < kFamilies; ++family) {
        const Status status = database_.db->Get(options, database_.handles[family], key, &values[family]);
        if (!status.ok() && !status.IsNotFound()) Fail("Get at a snapshot", status);
      }
      for (int family = 1; family < kFamilies; ++family) {
        if (values[family] != values[0]) {
          Fail("torn batch at a snapshot", Status::Corruption(values[0] + " and " + values[family]));
        }
      }
      database_.db->ReleaseSnapshot(snapshot);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void FlushAndCompact() {
    Random random(seed_ + 2 + shared_->next[0]);
    while (shared_->failed.load() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random.Uniform(20)));
      const int family = static_cast<int>(random.Uniform(kFamilies));
      Status status = database_.db->Flush(rocksdb::FlushOptions(), database_.handles[family]);
      if (!status.ok()) Fail("Flush", status);
      if (random.OneIn(10)) {
        status = CompactAll(database_.db.get(), database_.handles[family], engine_.trie && family != 2);
        if (!status.ok()) Fail("manual compaction", status);
      }
    }
  }

  const Engine& engine_;
  const std::string path_;
  const uint64_t seed_;
  const Way way_;
  Shared* const shared_;
  Database database_;
};

Shared* MapShared(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

int ChildMain(char** arguments) {
  const Engine* engine = EngineCalled(arguments[0]);
  Shared* shared = MapShared(arguments[2]);
  if (engine == nullptr || shared == nullptr) return 2;
  return Child(*engine, arguments[1], std::strtoull(arguments[3], nullptr, 0),
               static_cast<Way>(std::atoi(arguments[4])), shared)
      .Run();
}

// ---- The parent

class CrashTest : public ::testing::TestWithParam<Engine> {
 protected:
  using Contents = std::map<std::string, std::string>;

  void SetUp() override {
    seed_ = SeedFromEnvironment();
    printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    shared_ = MapShared(dir_ / "shared");
    ASSERT_NE(shared_, nullptr);
  }
  void TearDown() override {
    if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  }

  static void Nap(uint64_t micros) { std::this_thread::sleep_for(std::chrono::microseconds(micros)); }

  // Runs the child and kills it, at open or under load.
  void RunAndKill(Random* random, Way way) {
    for (int t = 0; t < kThreads; ++t) {
      shared_->next[t] = models_[t].batches + 1;
      shared_->started[t].store(models_[t].batches);
      shared_->acknowledged[t].store(models_[t].batches);
    }
    shared_->opened.store(0);
    shared_->failed.store(0);
    char self[PATH_MAX] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
    std::string words[] = {self,
                           "--child",
                           GetParam().name,
                           dir_ / "db",
                           dir_ / "shared",
                           std::to_string(seed_),
                           std::to_string(static_cast<int>(way))};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = 0;
    ASSERT_EQ(posix_spawn(&child, self, nullptr, nullptr, arguments.data(), environ), 0);
    const bool at_open = random->OneIn(5);
    if (at_open) {
      Nap(random->Uniform(60000));
    } else {
      int status = 0;
      for (int i = 0; shared_->opened.load() == 0 && i < 60000 && waitpid(child, &status, WNOHANG) == 0; ++i) Nap(1000);
      Nap(20000 + random->Uniform(250000));
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!at_open) {
      ASSERT_EQ(shared_->opened.load(), 1) << "the child did not open the database: " << shared_->message;
    }
    if (shared_->failed.load() == 1) Nap(10000);
    ASSERT_EQ(shared_->failed.load(), 0) << "the child failed: " << shared_->message;
  }

  // Compares the whole database with what the batches must have left.
  void Check(Database* database) {
    Contents found[kFamilies];
    for (int family = 0; family < kFamilies; ++family) {
      rocksdb::ReadOptions options;
      options.verify_checksums = true;
      std::unique_ptr<rocksdb::Iterator> iterator(database->db->NewIterator(options, database->handles[family]));
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
        const bool fresh = found[family].emplace(iterator->key().ToString(), iterator->value().ToString()).second;
        ASSERT_TRUE(fresh) << "twice in " << kFamilyNames[family] << ": " << iterator->key().ToString();
      }
      ASSERT_OK(iterator->status());
    }
    Contents expected[kFamilies];
    for (int t = 0; t < kThreads; ++t) {
      uint64_t last[kFamilies];
      for (int family = 0; family < kFamilies; ++family) {
        const auto at = found[family].find(LastKey(t));
        last[family] = at == found[family].end() ? 0 : std::strtoull(at->second.c_str(), nullptr, 10);
      }
      for (int family = 1; family < kFamilies; ++family) {
        ASSERT_EQ(last[0], last[family]) << "a batch of thread " << t << " is torn: it is in one of " << kFamilyNames[0]
                                         << " and " << kFamilyNames[family] << " only";
      }
      ASSERT_GE(last[0], shared_->acknowledged[t].load()) << "thread " << t << " lost acknowledged batches";
      ASSERT_LE(last[0], shared_->started[t].load()) << "thread " << t << " has batches that nobody wrote";
      ASSERT_GE(last[0], models_[t].batches) << "thread " << t << " lost batches that were read before";
      while (models_[t].batches < last[0]) Advance(t);
      for (int family = 0; family < kFamilies; ++family) {
        expected[family].insert(models_[t].contents[family].begin(), models_[t].contents[family].end());
      }
    }
    for (int family = 0; family < kFamilies; ++family) {
      for (const auto& [key, value] : expected[family]) {
        const auto at = found[family].find(key);
        ASSERT_TRUE(at != found[family].end()) << "lost in " << kFamilyNames[family] << ": " << key;
        ASSERT_EQ(at->second, value) << "in " << kFamilyNames[family] << " at " << key;
        // The other way to read: filters and indexes instead of a merge of everything.
        std::string got;
        ASSERT_OK(database->db->Get(rocksdb::ReadOptions(), database->handles[family], key, &got));
        ASSERT_EQ(got, value) << "in " << kFamilyNames[family] << " at " << key;
      }
      for (const auto& [key, value] : found[family]) {
        ASSERT_EQ(expected[family].count(key), 1u) << "back from the dead in " << kFamilyNames[family] << ": " << key;
      }
    }
  }

  // By levels, because a database opened for reading gives no statistics of the trie.
  int Deepest(Database* database) {
    rocksdb::ColumnFamilyMetaData metadata;
    database->db->GetColumnFamilyMetaData(database->handles[0], &metadata);
    TrieOptions trie;
    const bool is_trie = IsTrie(database->db->GetOptions(database->handles[0]), &trie);
    int deepest = 0;
    for (const rocksdb::LevelMetaData& level : metadata.levels) {
      if (!level.files.empty()) deepest = is_trie ? (level.level + trie.slots - 1) / trie.slots : level.level;
    }
    return deepest;
  }

  // Every table in the folder belongs to the database: no killed compaction's output stays.
  void CheckNothingLeftOver() {
    Database database;
    ASSERT_OK(OpenDatabase(GetParam(), dir_ / "db", Way::kCairn, &database));
    for (int family = 0; family < kFamilies; ++family) {
      ASSERT_OK(database.db->Flush(rocksdb::FlushOptions(), database.handles[family]));
      ASSERT_OK(CompactAll(database.db.get(), database.handles[family], GetParam().trie && family != 2));
    }
    Check(&database);
    if (HasFatalFailure()) return;
    database.Close();
    ASSERT_OK(OpenDatabase(GetParam(), dir_ / "db", Way::kReadOnly, &database));
    std::vector<rocksdb::LiveFileMetaData> live;
    database.db->GetLiveFilesMetaData(&live);
    std::set<std::string> names;
    for (const rocksdb::LiveFileMetaData& file : live) names.insert(file.name.substr(file.name.rfind('/') + 1));
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "db")) {
      if (entry.path().extension() == ".sst") {
        EXPECT_EQ(names.count(entry.path().filename().string()), 1u) << entry.path() << " belongs to no column family";
      }
    }
  }

  void Advance(int thread) {
    ThreadModel& model = models_[thread];
    Generate(
        seed_, thread, model.batches + 1,
        [&](int family, const std::string& key) { return model.contents[family].count(key) != 0; },
        [&](Kind kind, int family, const std::string& key, const std::string& value) {
          Contents& contents = model.contents[family];
          const auto at = contents.find(key);
          switch (kind) {
            case Kind::kPut:
              contents[key] = value;
              break;
            case Kind::kDelete:
            case Kind::kSingleDelete:
              contents.erase(key);
              break;
            case Kind::kMerge:
              contents[key] = at == contents.end() ? value : at->second + "," + value;
              break;
          }
        });
    ++model.batches;
  }

  struct ThreadModel {
    uint64_t batches = 0;  // how many `contents` hold; batches count from 1
    Contents contents[kFamilies];
  };

  TempDir dir_;
  uint64_t seed_ = 0;
  Shared* shared_ = nullptr;
  ThreadModel models_[kThreads];
};

TEST_P(CrashTest, LosesNothing) {
  const Engine& engine = GetParam();
  const bool chief = engine.name == std::string("leveled") || engine.name == std::string("trie_tiny");
  const bool durable = IsDurableEngine(engine);
  const uint64_t cycles = NumberFromEnvironment("CAIRN_CRASH_CYCLES", chief ? 25 : durable ? 10 : 5);
  Random random(seed_);
  // A busy machine gives a child too little of it to write and to compact in every cycle: then there are more of them.
  const int depth = std::min(engine.depth, 2);
  uint64_t cycle = 0;
  int deepest = 0;
  {
    Database created;
    ASSERT_OK(OpenDatabase(engine, dir_ / "db", Way::kCairn, &created));
  }
  const auto batches = [&] {
    uint64_t sum = 0;
    for (const ThreadModel& model : models_) sum += model.batches;
    return sum;
  };
  for (; cycle < cycles || ((deepest < depth || batches() <= cycles) && cycle < 20 * cycles); ++cycle) {
    const Way child_way = ChooseWay(engine, &random, 3);
    const Way parent_way = ChooseWay(engine, &random, 4);
    SCOPED_TRACE("cycle " + std::to_string(cycle) + ", child opened by " + kWayNames[static_cast<int>(child_way)] +
                 ", then " + kWayNames[static_cast<int>(parent_way)]);
    RunAndKill(&random, child_way);
    if (HasFatalFailure()) return;
    Database database;
    ASSERT_OK(OpenDatabase(engine, dir_ / "db", parent_way, &database));
    Check(&database);
    if (HasFatalFailure()) return;
    deepest = std::max(deepest, Deepest(&database));
    if (parent_way != Way::kReadOnly && random.OneIn(5)) {
      ASSERT_OK(CompactAll(database.db.get(), database.handles[0], engine.trie));
      Check(&database);
      if (HasFatalFailure()) return;
    }
  }
  printf("%llu kills, %llu batches, deepest %d\n", static_cast<unsigned long long>(cycle),
         static_cast<unsigned long long>(batches()), deepest);
  EXPECT_GT(batches(), cycles) << "the child hardly wrote";
  EXPECT_GE(deepest, depth) << "the child hardly compacted";
  CheckNothingLeftOver();
}

INSTANTIATE_TEST_SUITE_P(Engines, CrashTest, ::testing::ValuesIn(Engines()), EngineName);
INSTANTIATE_TEST_SUITE_P(Durable, CrashTest, ::testing::Values(kDurable, kDurableSubMemTable), EngineName);

}  // namespace
}  // namespace test
}  // namespace cairn

int main(int argc, char** argv) {
  if (argc == 7 && std::string(argv[1]) == "--child") return cairn::test::ChildMain(argv + 2);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
