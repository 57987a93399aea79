// Threads write, read, flush, compact, back up and ingest, the process is killed (SIGKILL), and the database is
// compared with what was acknowledged; again and again, on any engine. docs/design/testing.md
//
//   cairn_stress [--engine=E,...] [--convert=E,...] [--cycles=N] [--seconds=S] [--seed=X] [--json=FILE] [--lose]
//
// E+E+E is a database that is opened as one of these engines, and after the kill as another. With --convert, databases
// are converted between runs (`cairn convert`, itself killed now and then), and go on as what they have become.
// --json appends a line for each engine.
//
// A failure prints the line that replays it: the same operations of each thread, not the same moments.

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "cairn/db.h"
#include "cairn/tuner.h"
#include "rocksdb/comparator.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/backup_engine.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/write_batch.h"
#include "test/faults/databases.h"
#include "test/flags.h"
#include "test/stress/expected.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"
#include "tools/converter.h"

extern char** environ;

namespace cairn::stress {
namespace {

namespace fs = std::filesystem;
using faults::kFamilyNames;
using faults::OpenedDatabase;
using test::Random;

constexpr char kHotKey[] = "hot";
constexpr int kOrderedFamily = 2;

// What a database has become by conversion, "@trie": its options are those that are stored with it.
bool IsConverted(const std::string& engine) { return engine[0] == '@'; }
bool IsTrie(const std::string& engine) {
  return IsConverted(engine) ? engine.compare(0, 5, "@trie") == 0 : faults::IsTrieEngine(engine);
}
// Its containers have no numbers.
bool IsInKeyOrder(const std::string& engine) { return engine.find("ordered_trie") != std::string::npos; }
bool HasNoWal(const std::string& engine) { return !IsConverted(engine) && faults::IsDurable(engine); }

// The four ways to open that give everything of an engine.
enum class Way { kCairn, kPlain, kOptimistic, kStoredOptions };
constexpr int kWays = 4;
const char* const kWayNames[kWays] = {"cairn::Open", "DB::Open", "OptimisticTransactionDB::Open", "the stored options"};

struct Database : OpenedDatabase {
  rocksdb::OptimisticTransactionDB* transactions = nullptr;  // null: opened another way
};

// RocksDB stores them last: one that was killed while it was made has none.
bool HasStoredOptions(const std::string& path) {
  if (!fs::exists(path)) return false;
  const fs::directory_iterator files(path);
  return std::any_of(fs::begin(files), fs::end(files), [](const fs::directory_entry& file) {
    return file.path().filename().string().rfind("OPTIONS-", 0) == 0;
  });
}

Status OpenBy(Way way, const std::string& engine, const std::string& path, Database* database) {
  if ((way == Way::kStoredOptions && HasStoredOptions(path)) || IsConverted(engine)) {
    const Status s = OpenWithStoredOptions(path, &database->names, &database->handles, port::Into(&database->db));
    return s;
  }
  Options options;
  Options leveled;
  Status s = faults::FillOptions(engine, &options, &leveled);
  if (!s.ok()) return s;
  options.max_manifest_file_size = 1 << 20;
  options.write_buffer_size = leveled.write_buffer_size = 256 << 10;
  options.max_open_files = 300;
  if (!IsTrie(engine) && options.compaction_style == rocksdb::kCompactionStyleLevel) s = UseTuner(&options);
  if (!s.ok()) return s;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (int family = 0; family < kFamilies; ++family) {
    families.emplace_back(kFamilyNames[family], family == kOrderedFamily ? leveled : options);
    database->names.emplace_back(kFamilyNames[family]);
  }
  DB* db = nullptr;
  switch (way) {
    case Way::kOptimistic:
      s = rocksdb::OptimisticTransactionDB::Open(options, path, families, &database->handles, &database->transactions);
      db = database->transactions;
      break;
    case Way::kPlain:
      s = DB::Open(options, path, families, &database->handles, port::Into(&db));
      break;
    default:
      s = cairn::Open(options, path, families, &database->handles, &db);
      break;
  }
  if (s.ok()) database->db.reset(db);
  return s;
}

// What the merges into the hot key have added up to: each operand is one "+".
uint64_t HotCount(const std::string& value) {
  return static_cast<uint64_t>(std::count(value.begin(), value.end(), '+'));
}

// ---- The process that is killed

class Worker {
 public:
  Worker(std::string engine, std::string folder, uint64_t seed, uint64_t cycle, double seconds, Shared* shared)
      : engine_(std::move(engine)),
        folder_(std::move(folder)),
        seed_(seed * 1000003 + cycle),
        seconds_(seconds),
        shared_(shared) {}

  int Run() {
    Random random(seed_);
    const Way way = static_cast<Way>(random.Uniform(kWays));
    const Status s = OpenBy(way, engine_, folder_ + "/db", &database_);
    if (!s.ok()) return Fail(std::string("opening by ") + kWayNames[static_cast<int>(way)], s);
    HoldSnapshot();
    shared_->opened.store(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back([this, t] { Write(t); });
    threads.emplace_back([this] { Read(); });
    threads.emplace_back([this] { Maintain(); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    while (!Stopped() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    stop_ = true;
    for (std::thread& thread : threads) thread.join();
    CheckSnapshot();
    db()->ReleaseSnapshot(snapshot_);
    if (shared_->failed.load() != 0) return 1;
    const Status closed = database_.Close();
    return closed.ok() ? 0 : Fail("closing", closed);
  }

 private:
  using Locks = std::array<std::array<std::mutex, kKeys>, kFamilies>;

  DB* db() { return database_.db.get(); }
  ColumnFamilyHandle* Family(int family) { return database_.Find(kFamilyNames[family]); }
  bool Stopped() const { return stop_ || shared_->failed.load() != 0; }

  int Fail(const std::string& what, const Status& s) {
    shared_->Fail(what + ": " + s.ToString());
    return 1;
  }
  void Wrong(const std::string& what) { shared_->Fail(what); }

  // Keys of a batch, locked in one order, so that nobody waits in a circle.
  class Locked {
   public:
    Locked(Locks* locks, std::vector<std::pair<int, int>> keys) : keys_(std::move(keys)), locks_(locks) {
      std::sort(keys_.begin(), keys_.end());
      keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
      for (const auto& [family, key] : keys_) (*locks_)[family][key].lock();
    }
    ~Locked() {
      for (const auto& [family, key] : keys_) (*locks_)[family][key].unlock();
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    const std::vector<std::pair<int, int>>& keys() const { return keys_; }

   private:
    std::vector<std::pair<int, int>> keys_;
    Locks* const locks_;
  };

  std::vector<std::pair<int, int>> SomeKeys(Random* random, int most) {
    std::vector<std::pair<int, int>> keys;
    const uint64_t count = 1 + random->Uniform(most);
    for (uint64_t i = 0; i < count; ++i) {
      // Some keys are more popular than others, and some batches have a key in every column family.
      const int key = static_cast<int>(random->OneIn(2) ? random->Uniform(50) : random->Uniform(kKeys));
      if (random->OneIn(3)) {
        for (int family = 0; family < kFamilies; ++family) keys.emplace_back(family, key);
      } else {
        keys.emplace_back(static_cast<int>(random->Uniform(kFamilies)), key);
      }
    }
    return keys;
  }

  void Write(int thread) {
    Random random(seed_ + 1 + static_cast<uint64_t>(thread) * 7919);
    while (!Stopped()) {
      ++shared_->slots[thread].operations;
      const uint64_t kind = random.Uniform(40);
      if (kind == 0) {
        Ingest(thread, &random);
      } else if (kind == 1 && !HasNoWal(engine_) && database_.transactions == nullptr) {
        DeleteRange(thread, &random);
      } else if (kind < 8) {
        MergeHot();
      } else {
        WriteBatch(thread, &random, kind < 14 && database_.transactions != nullptr);
      }
    }
  }

  // Puts down what is about to be written.
  void Begin(int thread, const std::vector<std::pair<int, int>>& keys, const std::vector<uint64_t>& numbers) {
    Slot& slot = shared_->slots[thread];
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto& [family, key] = keys[i];
      slot.writes[i] = {family, key, shared_->numbers[family][key].load(), numbers[i]};
    }
    slot.acknowledged.store(0);
    slot.pending.store(static_cast<int>(keys.size()));
  }

  void End(int thread, const std::string& what, const Status& s) {
    if (!s.ok()) {
      Fail(what, s);
      return;
    }
    Slot& slot = shared_->slots[thread];
    slot.acknowledged.store(1);
    const int count = slot.pending.load();
    for (int i = 0; i < count; ++i) {
      const PendingWrite& write = slot.writes[i];
      shared_->numbers[write.family][write.key].store(write.number);
    }
    slot.pending.store(0);
  }

  void WriteBatch(int thread, Random* random, bool in_transaction) {
    const Locked locked(&locks_, SomeKeys(random, random->OneIn(3) ? 1 : 12));
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < locked.keys().size(); ++i) {
      numbers.push_back(random->OneIn(4) ? 0 : ++shared_->next_number);
    }
    rocksdb::WriteOptions options;
    options.sync = random->OneIn(20);
    Begin(thread, locked.keys(), numbers);
    Status s;
    if (in_transaction) {
      const std::unique_ptr<rocksdb::Transaction> transaction(database_.transactions->BeginTransaction(options));
      for (size_t i = 0; i < numbers.size() && s.ok(); ++i) {
        const auto& [family, key] = locked.keys()[i];
        s = numbers[i] == 0 ? transaction->Delete(Family(family), KeyOf(key))
                            : transaction->Put(Family(family), KeyOf(key), ValueOf(key, numbers[i]));
      }
      if (s.ok()) s = transaction->Commit();
      if (s.IsTryAgain()) {
        // Its conflicts could not be looked for any more. It has done nothing.
        shared_->slots[thread].pending.store(0);
        return;
      }
    } else if (numbers.size() == 1) {
      const auto& [family, key] = locked.keys()[0];
      s = numbers[0] == 0 ? db()->Delete(options, Family(family), KeyOf(key))
                          : db()->Put(options, Family(family), KeyOf(key), ValueOf(key, numbers[0]));
    } else {
      rocksdb::WriteBatch batch;
      for (size_t i = 0; i < numbers.size() && s.ok(); ++i) {
        const auto& [family, key] = locked.keys()[i];
        s = numbers[i] == 0 ? batch.Delete(Family(family), KeyOf(key))
                            : batch.Put(Family(family), KeyOf(key), ValueOf(key, numbers[i]));
      }
      if (s.ok()) s = db()->Write(options, &batch);
    }
    End(thread, in_transaction ? "a transaction" : "a batch", s);
  }

  // Of any column family in key order.
  void DeleteRange(int thread, Random* random) {
    const int first = static_cast<int>(random->Uniform(kKeys - 20));
    const int any = static_cast<int>(random->Uniform(kOrderedFamily + 1));
    const bool takes_ranges = !IsConverted(engine_) && Family(any)->GetComparator() == rocksdb::BytewiseComparator();
    const int family = takes_ranges ? any : kOrderedFamily;
    std::vector<std::pair<int, int>> keys;
    for (int key = first; key < first + 20; ++key) keys.emplace_back(family, key);
    const Locked locked(&locks_, keys);
    Begin(thread, locked.keys(), std::vector<uint64_t>(keys.size(), 0));
    const Status s = db()->DeleteRange(rocksdb::WriteOptions(), Family(family), KeyOf(first), KeyOf(first + 20));
    if (s.IsNotSupported() && IsConverted(engine_)) {
      shared_->slots[thread].pending.store(0);  // what was durable still is
      return;
    }
    End(thread, "DeleteRange", s);
  }

  void Ingest(int thread, Random* random) {
    const int family = static_cast<int>(random->Uniform(kFamilies));
    std::vector<std::pair<int, int>> keys;
    for (int i = 0; i < 30; ++i) keys.emplace_back(family, static_cast<int>(random->Uniform(kKeys)));
    const Locked locked(&locks_, keys);
    std::vector<uint64_t> numbers;
    std::map<std::string, std::string> records;
    for (const auto& [same, key] : locked.keys()) {
      numbers.push_back(++shared_->next_number);
      records[KeyOf(key)] = ValueOf(key, numbers.back());
    }
    ColumnFamilyHandle* const handle = Family(family);
    const std::string path = folder_ + "/ingested" + std::to_string(thread);
    Status s = WriteTable(path, db()->GetOptions(handle), records, handle);
    if (!s.ok()) {
      Fail("a file to ingest", s);
      return;
    }
    Begin(thread, locked.keys(), numbers);
    s = IngestAgain(db(), handle, {path}, rocksdb::IngestExternalFileOptions());
    End(thread, "IngestExternalFile", s);
  }

  void MergeHot() {
    ++shared_->hot_begun;
    const Status s = db()->Merge(rocksdb::WriteOptions(), Family(0), kHotKey, "+");
    if (!s.ok()) {
      Fail("a merge", s);
      return;
    }
    ++shared_->hot_acknowledged;
  }

  // The number that the database has; fails for what is no value of ours.
  bool NumberAt(const rocksdb::ReadOptions& options, int family, int key, uint64_t* number) {
    std::string value;
    const Status s = db()->Get(options, Family(family), KeyOf(key), &value);
    *number = 0;
    if (s.IsNotFound()) return true;
    if (!s.ok()) {
      Fail("Get", s);
      return false;
    }
    if (NumberOf(key, value, number)) return true;
    Wrong("Get of " + KeyOf(key) + " gives what nobody wrote: " + value.substr(0, 100));
    return false;
  }

  void HoldSnapshot() {
    snapshot_ = db()->GetSnapshot();
    for (int key = 0; key < kKeys; key += 7) {
      for (int family = 0; family < kFamilies; ++family) held_.emplace_back(family, key);
    }
    for (const auto& [family, key] : held_) held_numbers_.push_back(shared_->numbers[family][key].load());
  }

  // It was taken before anybody wrote, and is held for the whole run.
  void CheckSnapshot() {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    for (size_t i = 0; i < held_.size() && shared_->failed.load() == 0; ++i) {
      uint64_t number = 0;
      if (NumberAt(options, held_[i].first, held_[i].second, &number) && number != held_numbers_[i]) {
        Wrong("at a snapshot held for the whole run, " + KeyOf(held_[i].second) + " is number " +
              std::to_string(number) + ", not " + std::to_string(held_numbers_[i]));
      }
    }
  }

  void Read() {
    Random random(seed_ + 2);
    while (!Stopped()) {
      switch (random.Uniform(4)) {
        case 0:
          ReadLocked(&random);
          break;
        case 1:
          ReadAtSnapshot(&random);
          break;
        case 2:
          Iterate(&random);
          break;
        default:
          if (random.OneIn(50)) CheckSnapshot();
          ReadHot();
          break;
      }
    }
  }

  void ReadLocked(Random* random) {
    const Locked locked(&locks_, SomeKeys(random, 20));
    std::vector<ColumnFamilyHandle*> families;
    std::vector<std::string> keys;
    for (const auto& [family, key] : locked.keys()) {
      families.push_back(Family(family));
      keys.push_back(KeyOf(key));
    }
    std::vector<std::string> values;
    const std::vector<Status> statuses = db()->MultiGet(rocksdb::ReadOptions(), families,
                                                        std::vector<rocksdb::Slice>(keys.begin(), keys.end()), &values);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto& [family, key] = locked.keys()[i];
      const uint64_t expected = shared_->numbers[family][key].load();
      uint64_t number = 0;
      if (!statuses[i].ok() && !statuses[i].IsNotFound()) Fail("MultiGet", statuses[i]);
      if (statuses[i].ok() && !NumberOf(key, values[i], &number)) Wrong("MultiGet gives what nobody wrote");
      if (number != expected) {
        Wrong("MultiGet of " + keys[i] + " in " + kFamilyNames[family] + " is number " + std::to_string(number) +
              ", not " + std::to_string(expected));
      }
    }
  }

  void ReadAtSnapshot(Random* random) {
    const rocksdb::Snapshot* snapshot = nullptr;
    std::vector<std::pair<int, int>> keys;
    std::vector<uint64_t> numbers;
    {
      const Locked locked(&locks_, SomeKeys(random, 10));
      keys = locked.keys();
      for (const auto& [family, key] : keys) numbers.push_back(shared_->numbers[family][key].load());
      snapshot = db()->GetSnapshot();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random->Uniform(20)));
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    for (size_t i = 0; i < keys.size(); ++i) {
      uint64_t number = 0;
      if (NumberAt(options, keys[i].first, keys[i].second, &number) && number != numbers[i]) {
        Wrong("at a snapshot, " + KeyOf(keys[i].second) + " is number " + std::to_string(number) + ", not " +
              std::to_string(numbers[i]));
      }
    }
    db()->ReleaseSnapshot(snapshot);
  }

  // Every record is one that somebody wrote, no key comes twice, and those that nobody writes meanwhile are exact.
  void Iterate(Random* random) {
    const int family = static_cast<int>(random->Uniform(kFamilies));
    std::vector<std::pair<int, int>> keys;
    for (int i = 0; i < 10; ++i) keys.emplace_back(family, static_cast<int>(random->Uniform(kKeys)));
    std::map<int, uint64_t> expected;
    std::unique_ptr<rocksdb::Iterator> iterator;
    {
      const Locked locked(&locks_, keys);
      for (const auto& [same, key] : locked.keys()) expected[key] = shared_->numbers[family][key].load();
      iterator.reset(db()->NewIterator(rocksdb::ReadOptions(), Family(family)));
    }
    std::map<int, uint64_t> found;
    const bool backwards = random->OneIn(2);
    for (backwards ? iterator->SeekToLast() : iterator->SeekToFirst(); iterator->Valid() && !Stopped();
         backwards ? iterator->Prev() : iterator->Next()) {
      const int key = IndexOf(iterator->key().ToString());
      if (key < 0) continue;  // the hot key
      uint64_t number = 0;
      if (!NumberOf(key, iterator->value().ToString(), &number)) Wrong("an iterator gives what nobody wrote");
      if (!found.emplace(key, number).second) Wrong("an iterator gives " + KeyOf(key) + " twice");
    }
    if (!iterator->status().ok()) Fail("an iterator", iterator->status());
    if (Stopped()) return;
    for (const auto& [key, number] : expected) {
      const auto at = found.find(key);
      const uint64_t got = at == found.end() ? 0 : at->second;
      if (got != number) {
        Wrong(std::string(backwards ? "Prev" : "Next") + " in " + kFamilyNames[family] + ": " + KeyOf(key) +
              " is number " + std::to_string(got) + ", not " + std::to_string(number));
      }
    }
  }

  void ReadHot() {
    const uint64_t at_least = shared_->hot_acknowledged.load();
    std::string value;
    const Status s = db()->Get(rocksdb::ReadOptions(), Family(0), kHotKey, &value);
    const uint64_t at_most = shared_->hot_begun.load();
    if (!s.ok() && !s.IsNotFound()) Fail("Get of the hot key", s);
    const uint64_t count = HotCount(value);
    if (count < at_least || count > at_most) {
      Wrong("the hot key has " + std::to_string(count) + " merges; " + std::to_string(at_least) +
            " were acknowledged, " + std::to_string(at_most) + " begun");
    }
  }

  void Maintain() {
    Random random(seed_ + 3);
    while (!Stopped()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random.Uniform(60)));
      const int family = static_cast<int>(random.Uniform(kFamilies));
      ColumnFamilyHandle* const handle = Family(family);
      const bool trie = IsTrie(engine_) && family != kOrderedFamily;
      Status s;
      std::string what = "Flush";
      switch (random.Uniform(12)) {
        case 0:
          what = "manual compaction";
          s = test::CompactAll(db(), handle, trie);
          break;
        case 1:
          what = "manual compaction of a container";
          if (trie) s = CompactContainer(handle, &random);
          break;
        case 2:
          what = "a checkpoint";
          s = MakeCheckpoint(&random);
          break;
        case 3:
          what = "a backup";
          s = MakeBackup();
          break;
        case 4:
          what = "FlushWAL";
          if (!HasNoWal(engine_)) s = db()->FlushWAL(true);
          break;
        default:
          s = db()->Flush(rocksdb::FlushOptions(), handle);
          break;
      }
      if (!s.ok()) Fail(what, s);
    }
  }

  Status CompactContainer(ColumnFamilyHandle* handle, Random* random) {
    if (IsInKeyOrder(engine_)) {
      std::string begin = KeyOf(static_cast<int>(random->Uniform(kKeys)));
      std::string end = KeyOf(static_cast<int>(random->Uniform(kKeys)));
      if (end < begin) std::swap(begin, end);
      const rocksdb::Slice from = begin;
      const rocksdb::Slice to = end;
      return db()->CompactRange(rocksdb::CompactRangeOptions(), handle, &from, &to);
    }
    TrieCompactOptions options;
    if (random->OneIn(2)) {
      options.depth = static_cast<int>(random->Uniform(3));
      const Status s = CompactTrie(db(), handle, options);
      return s.IsInvalidArgument() ? Status::OK() : s;  // so deep it is not
    }
    const int key = static_cast<int>(random->Uniform(kKeys));
    Status s = TrieContainerOf(handle, KeyOf(key), 1 + static_cast<int>(random->Uniform(2)), &options.container);
    if (s.ok()) s = CompactTrie(db(), handle, options);
    return s.IsInvalidArgument() || s.IsNotFound() ? Status::OK() : s;
  }

  // Holds what nobody has written since.
  Status MakeCheckpoint(Random* random) {
    const std::string path = folder_ + "/checkpoint";
    fs::remove_all(path);
    std::unique_ptr<rocksdb::Checkpoint> checkpoint;
    Status s = rocksdb::Checkpoint::Create(db(), port::Into(&checkpoint));
    if (!s.ok()) return s;
    std::vector<std::pair<int, int>> keys;
    std::vector<uint64_t> numbers;
    {
      const Locked locked(&locks_, SomeKeys(random, 20));
      keys = locked.keys();
      for (const auto& [family, key] : keys) numbers.push_back(shared_->numbers[family][key].load());
      s = checkpoint->CreateCheckpoint(path);
    }
    if (!s.ok()) return s;
    OpenedDatabase copy;
    DB* opened = nullptr;
    s = OpenWithStoredOptions(path, &copy.names, &copy.handles, &opened);
    copy.db.reset(opened);
    for (size_t i = 0; i < keys.size() && s.ok(); ++i) {
      const auto& [family, key] = keys[i];
      std::string value;
      uint64_t number = 0;
      s = opened->Get(rocksdb::ReadOptions(), copy.Find(kFamilyNames[family]), KeyOf(key), &value);
      if (s.ok() && !NumberOf(key, value, &number)) return Status::Corruption("it holds what nobody wrote");
      if (s.IsNotFound()) s = Status::OK();
      if (s.ok() && number != numbers[i]) {
        return Status::Corruption(KeyOf(key) + " is number " + std::to_string(number) + ", not " +
                                  std::to_string(numbers[i]));
      }
    }
    return s;
  }

  Status MakeBackup() {
    rocksdb::BackupEngineOptions options(folder_ + "/backup");
    std::unique_ptr<rocksdb::BackupEngine> engine;
    rocksdb::IOStatus s = rocksdb::BackupEngine::Open(options, rocksdb::Env::Default(), port::Into(&engine));
    rocksdb::BackupID id = 0;
    if (s.ok()) s = engine->CreateNewBackup(rocksdb::CreateBackupOptions(), db(), &id);
    if (s.ok()) s = engine->VerifyBackup(id, true);
    if (s.ok()) s = engine->PurgeOldBackups(1);
    return s;
  }

  const std::string engine_;
  const std::string folder_;
  const uint64_t seed_;
  const double seconds_;
  Shared* const shared_;
  Database database_;
  Locks locks_;
  std::atomic<bool> stop_{false};
  const rocksdb::Snapshot* snapshot_ = nullptr;
  std::vector<std::pair<int, int>> held_;
  std::vector<uint64_t> held_numbers_;
};

// ---- The process that looks at what is left

// Empty if every table in the folder belongs to the database: no killed compaction's output stays.
std::string LeftOver(const std::string& engine, const std::string& path, Database* database) {
  Status s;
  for (int family = 0; family < kFamilies && s.ok(); ++family) {
    ColumnFamilyHandle* const handle = database->Find(kFamilyNames[family]);
    s = database->db->Flush(rocksdb::FlushOptions(), handle);
    if (s.ok()) s = test::CompactAll(database->db.get(), handle, IsTrie(engine) && family != kOrderedFamily);
  }
  if (s.ok()) s = database->Close();
  if (s.ok()) s = OpenBy(Way::kCairn, engine, path, database);  // where nothing is left to compact
  if (!s.ok()) return s.ToString();
  std::vector<rocksdb::LiveFileMetaData> live;
  database->db->GetLiveFilesMetaData(&live);
  std::set<std::string> names;
  for (const rocksdb::LiveFileMetaData& file : live) names.insert(file.relative_filename);
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".sst" && names.count(name) == 0) return name + " belongs to no column family";
  }
  return "";
}

// Empty if all is well. Makes `shared` what is there.
std::string Judge(const std::string& engine, const std::string& folder, Way way, bool last, Shared* shared) {
  Database database;
  Status s = OpenBy(way, engine, folder + "/db", &database);
  if (!s.ok()) return std::string("it does not open by ") + kWayNames[static_cast<int>(way)] + ": " + s.ToString();
  std::vector<std::vector<uint64_t>> numbers(kFamilies, std::vector<uint64_t>(kKeys, 0));
  uint64_t hot = 0;
  for (int family = 0; family < kFamilies; ++family) {
    faults::Contents contents;
    s = faults::ReadAll(database.db.get(), database.Find(kFamilyNames[family]), &contents);
    if (!s.ok()) return s.ToString();
    for (const auto& [key, value] : contents) {
      const int index = IndexOf(key);
      if (key == kHotKey && family == 0) {
        hot = HotCount(value);
      } else if (index < 0 || !NumberOf(index, value, &numbers[family][index])) {
        return "in " + std::string(kFamilyNames[family]) + ", " + key +
               " is what nobody wrote: " + value.substr(0, 100);
      }
    }
    // The other way to read.
    for (int key = 0; key < kKeys; ++key) {
      std::string value;
      s = database.db->Get(rocksdb::ReadOptions(), database.Find(kFamilyNames[family]), KeyOf(key), &value);
      if (!s.ok() && !s.IsNotFound()) return s.ToString();
      if (s.ok() != (numbers[family][key] != 0) || (s.ok() && value != contents[KeyOf(key)])) {
        return "Get and an iterator differ at " + KeyOf(key) + " in " + kFamilyNames[family];
      }
    }
  }
  if (hot < shared->hot_acknowledged.load() || hot > shared->hot_begun.load()) {
    return "the hot key has " + std::to_string(hot) + " merges; " + std::to_string(shared->hot_acknowledged.load()) +
           " were acknowledged, " + std::to_string(shared->hot_begun.load()) + " begun";
  }
  shared->hot_acknowledged.store(hot);
  shared->hot_begun.store(hot);
  const std::string wrong = Settle(shared, [&](int family, int key) { return numbers[family][key]; });
  if (!wrong.empty()) return wrong;
  const std::string left_over = last ? LeftOver(engine, folder + "/db", &database) : "";
  if (!left_over.empty()) return left_over;
  s = database.Close();
  return s.ok() ? "" : s.ToString();
}

// ---- Conversions

// The column family in which keys keep their order stays as it is.
Status Convert(const std::string& from, const std::string& to, const std::string& engine) {
  ConvertOptions options;
  options.source = from;
  options.destination = to;
  options.engine = engine;
  if (engine.compare(0, 4, "trie") == 0 || engine == "ordered_trie")
    options.engine_options = {"fan_out=2;slots=3;trigger=2;root_trigger=2;depth=5"};
  for (int family = 0; family < kFamilies; ++family) {
    if (family != kOrderedFamily) options.column_families.emplace_back(kFamilyNames[family]);
  }
  options.check_space = false;
  ConvertReport report;
  return cairn::Convert(options, &report);
}

// ---- The driver

struct Arguments {
  std::vector<std::string> engines = {"leveled_sub", "durable",       "durable_trie", "trie_tiny",
                                      "trie_htable", "trie_ect",      "silt_pinned",  "silt_cache",
                                      "ordered",     "ordered_cache", "ordered_trie"};
  std::vector<std::string> conversions;  // engines that databases are converted to; empty: they are not
  std::string json;
  uint64_t cycles = 10;
  double seconds = 2;  // at most, of each
  uint64_t seed = 1;
  bool lose = false;  // the driver drops an acknowledged write, and must see it
};

class Driver {
 public:
  Driver(Arguments arguments, std::string base) : arguments_(std::move(arguments)), base_(std::move(base)) {}

  int Run() {
    int code = 0;
    for (const std::string& engine : arguments_.engines) {
      if (!RunEngine(engine)) code = 1;
    }
    return code;
  }

 private:
  std::string Folder() const { return base_ + "/run"; }

  // Why a database cannot change between these engines; empty if it can.
  static std::string CheckGroup(const std::vector<std::string>& group) {
    int levels = 0;
    for (const std::string& name : group) {
      Options options;
      Options leveled;
      const Status s = faults::FillOptions(name, &options, &leveled);
      if (!s.ok()) return name + ": " + s.ToString();
      if (levels != 0 && options.num_levels != levels) {
        return name + " has " + std::to_string(options.num_levels) + " levels, and " + group.front() + " " +
               std::to_string(levels) + ": RocksDB opens no database with fewer levels than hold tables";
      }
      levels = options.num_levels;
    }
    return "";
  }

  bool RunEngine(const std::string& engine) {
    fs::remove_all(Folder());
    fs::create_directory(Folder());
    Shared* const shared = MapShared(Folder() + "/expected");
    if (shared == nullptr) return false;
    Random random(arguments_.seed);
    const std::vector<std::string> group = test::FlagValue(engine).List('+');
    const std::string unfit = CheckGroup(group);
    if (!unfit.empty()) {
      printf("%s: %s\n", engine.c_str(), unfit.c_str());
      return false;
    }
    std::string converted;  // empty: not yet
    const auto one_of_the_group = [&] { return converted.empty() ? group[random.Uniform(group.size())] : converted; };
    const auto begun = std::chrono::steady_clock::now();
    uint64_t kills = 0;
    uint64_t conversions = 0;
    for (uint64_t cycle = 0; cycle < arguments_.cycles; ++cycle) {
      const double seconds = arguments_.seconds * static_cast<double>(1 + random.Uniform(100)) / 100;
      const bool killed = !random.OneIn(6);
      const bool at_opening = killed && random.OneIn(8);
      const Way way = static_cast<Way>(random.Uniform(kWays));
      std::string wrong = Cycle(one_of_the_group(), cycle, seconds, killed, at_opening, shared);
      kills += killed ? 1 : 0;
      if (wrong.empty() && arguments_.lose) shared->numbers[0][7].store(++shared->next_number);
      if (wrong.empty()) wrong = JudgeApart(one_of_the_group(), way, cycle + 1 == arguments_.cycles, shared);
      if (wrong.empty() && !arguments_.conversions.empty() && random.OneIn(3)) {
        const std::string& to = arguments_.conversions[random.Uniform(arguments_.conversions.size())];
        wrong = ConvertApart(to, &random, &kills, shared);
        converted = "@" + to;
        ++conversions;
        if (wrong.empty()) wrong = JudgeApart(converted, Way::kStoredOptions, false, shared);
        if (!wrong.empty()) wrong = "after a conversion to " + to + ": " + wrong;
      }
      if (wrong.empty()) continue;
      printf(
          "FAILED %s in cycle %llu: %s\n  cairn_stress --engine=%s --cycles=%llu --seconds=%g --seed=%llu%s%s replays "
          "it\n",
          engine.c_str(), static_cast<unsigned long long>(cycle), wrong.c_str(), engine.c_str(),
          static_cast<unsigned long long>(cycle) + 1, arguments_.seconds,
          static_cast<unsigned long long>(arguments_.seed),
          arguments_.conversions.empty() ? "" : " --convert=", Joined(arguments_.conversions).c_str());
      fflush(stdout);
      const std::string kept = base_ + "/" + engine;
      std::error_code error;
      fs::rename(Folder(), kept, error);
      return false;
    }
    uint64_t operations = 0;
    for (const Slot& slot : shared->slots) operations += slot.operations.load();
    printf("%-16s %4llu cycles, %4llu kills, %4llu conversions, %9llu operations, nothing lost\n", engine.c_str(),
           static_cast<unsigned long long>(arguments_.cycles), static_cast<unsigned long long>(kills),
           static_cast<unsigned long long>(conversions), static_cast<unsigned long long>(operations));
    fflush(stdout);
    FILE* const json = arguments_.json.empty() ? nullptr : fopen(arguments_.json.c_str(), "a");
    if (json == nullptr) return true;
    fprintf(json,
            "{\"engine\": \"%s\", \"seed\": %llu, \"cycles\": %llu, \"kills\": %llu, \"conversions\": %llu, "
            "\"operations\": %llu, \"seconds\": %.0f}\n",
            engine.c_str(), static_cast<unsigned long long>(arguments_.seed),
            static_cast<unsigned long long>(arguments_.cycles), static_cast<unsigned long long>(kills),
            static_cast<unsigned long long>(conversions), static_cast<unsigned long long>(operations),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    fclose(json);
    return true;
  }

  static std::string Joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
    return text;
  }

  // A conversion that is killed goes on with the same command.
  std::string ConvertApart(const std::string& engine, Random* random, uint64_t* kills, Shared* shared) {
    const std::string from = Folder() + "/db";
    const std::string to = Folder() + "/converted";
    shared->failed.store(0);
    for (int attempt = 0; attempt < 8; ++attempt) {
      const pid_t child = Start({"--conversion", Folder(), from, to, engine});
      if (child < 0) return "the conversion does not start";
      const bool killed = attempt < 3 && random->OneIn(2);
      int status = 0;
      if (Await(child, killed ? 0.001 * static_cast<double>(random->Uniform(200)) : 120, &status)) {
        if (shared->failed.load() != 0) return shared->message;
        if (!WIFEXITED(status)) return std::string("it died by ") + strsignal(WTERMSIG(status));
        fs::remove_all(from);
        fs::rename(to, from);
        return "";
      }
      kill(child, killed ? SIGKILL : SIGABRT);
      waitpid(child, &status, 0);
      if (!killed) return "it hung for two minutes";
      ++*kills;
    }
    return "it is never whole";
  }

  // Of `words`, this very program is run; -1: it could not be.
  static pid_t Start(std::vector<std::string> words) {
    char self[PATH_MAX] = {};
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) return -1;
    words.insert(words.begin(), self);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = 0;
    return posix_spawn(&child, self, nullptr, nullptr, arguments.data(), environ) == 0 ? child : -1;
  }

  // True: it ended by itself within the time.
  static bool Await(pid_t child, double seconds, int* status) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (waitpid(child, status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  std::string Cycle(const std::string& engine, uint64_t cycle, double seconds, bool killed, bool at_opening,
                    Shared* shared) {
    shared->opened.store(0);
    shared->failed.store(0);
    const pid_t child = Start({"--worker", engine, Folder(), std::to_string(arguments_.seed), std::to_string(cycle),
                               std::to_string(killed ? 3600.0 : seconds)});
    if (child < 0) return "the worker does not start";
    int status = 0;
    if (!at_opening) {
      // A busy machine may take its time.
      for (int i = 0; i < 60000 && shared->opened.load() == 0 && shared->failed.load() == 0; ++i) {
        if (Await(child, 0.002, &status)) break;
      }
    }
    const bool ended = Await(child, killed ? seconds : seconds + 120, &status);
    if (!ended) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    if (shared->failed.load() != 0) return shared->message;
    if (ended && WIFSIGNALED(status)) return std::string("the worker died by ") + strsignal(WTERMSIG(status));
    if (ended && WEXITSTATUS(status) != 0) return "the worker ended with " + std::to_string(WEXITSTATUS(status));
    if (!ended && !killed) return "the worker hung for two minutes";
    return "";
  }

  std::string JudgeApart(const std::string& engine, Way way, bool last, Shared* shared) {
    shared->failed.store(0);
    const pid_t child =
        Start({"--judge", engine, Folder(), std::to_string(static_cast<int>(way)), last ? "last" : "more"});
    int status = 0;
    if (child < 0) return "the judge does not start";
    if (!Await(child, 120, &status)) {
      kill(child, SIGABRT);
      waitpid(child, &status, 0);
      return "the opening hung for two minutes";
    }
    if (shared->failed.load() != 0) return shared->message;
    if (!WIFEXITED(status)) return std::string("the opening died by ") + strsignal(WTERMSIG(status));
    return "";
  }

  const Arguments arguments_;
  const std::string base_;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  using Value = test::FlagValue;
  return test::ParseFlags(argc, argv, "cairn_stress",
                          {{"engine", [=](const Value& value) { arguments->engines = value.List(); }},
                           {"convert", [=](const Value& value) { arguments->conversions = value.List(); }},
                           {"json", [=](const Value& value) { arguments->json = value.Text(); }},
                           {"cycles", [=](const Value& value) { arguments->cycles = value.Number(); }},
                           {"seconds", [=](const Value& value) { arguments->seconds = value.Fraction(); }},
                           {"seed", [=](const Value& value) { arguments->seed = value.Seed(); }},
                           {"lose", [=](const Value& /*value*/) { arguments->lose = true; }}});
}

int Main(int argc, char** argv) {
  if (argc == 7 && std::string(argv[1]) == "--worker") {
    Shared* const shared = MapShared(std::string(argv[3]) + "/expected");
    if (shared == nullptr) return 2;
    return std::make_unique<Worker>(argv[2], argv[3], std::strtoull(argv[4], nullptr, 0),
                                    std::strtoull(argv[5], nullptr, 0), std::strtod(argv[6], nullptr), shared)
        ->Run();
  }
  if (argc == 6 && std::string(argv[1]) == "--judge") {
    Shared* const shared = MapShared(std::string(argv[3]) + "/expected");
    if (shared == nullptr) return 2;
    const bool last = std::string(argv[5]) == "last";
    const std::string wrong = Judge(argv[2], argv[3], static_cast<Way>(std::atoi(argv[4])), last, shared);
    if (!wrong.empty()) shared->Fail(wrong);
    return wrong.empty() ? 0 : 1;
  }
  if (argc == 6 && std::string(argv[1]) == "--conversion") {
    Shared* const shared = MapShared(std::string(argv[2]) + "/expected");
    if (shared == nullptr) return 2;
    if (freopen("/dev/null", "w", stderr) == nullptr) return 2;  // how far it is, nobody asks
    const Status s = Convert(argv[3], argv[4], argv[5]);
    if (!s.ok()) shared->Fail(s.ToString());
    return s.ok() ? 0 : 1;
  }
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) return 2;
  const char* const chosen = std::getenv("TEST_TMPDIR");
  std::string base = chosen != nullptr && *chosen != '\0' ? chosen : "/dev/shm";
  base += "/cairn_stress.XXXXXX";
  if (mkdtemp(base.data()) == nullptr) {
    fprintf(stderr, "cairn_stress: no folder at %s\n", base.c_str());
    return 1;
  }
  printf("seed %llu\n", static_cast<unsigned long long>(arguments.seed));
  const int code = Driver(arguments, base).Run();
  std::error_code ignored;
  if (code == 0 || arguments.lose) {
    fs::remove_all(base, ignored);
  } else {
    printf("files are in %s\n", base.c_str());
  }
  return code;
}

}  // namespace
}  // namespace cairn::stress

int main(int argc, char** argv) { return cairn::stress::Main(argc, argv); }
