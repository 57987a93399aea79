// A result cache in a file over many sessions of one database, drawn at random: with and without the cache, by all ways
// of writing, ended cleanly, killed, or followed by somebody who copies, cuts, restores or damages files. Whatever
// happened, what the cache answers is what the tree holds.
//
// The second half of db/database_cache_file_test.cc, where each way is written down: here they meet one another.
// What RocksDB asks for is kept: a database is opened for transactions that are written at prepare, and afterwards
// otherwise, only while its WAL is empty.
//
// CAIRN_SEED=n replays a run, CAIRN_SESSIONS=n sets its length.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cairn/result_cache.h"
#include "db/cairn_db.h"
#include "gtest/gtest.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"

namespace cairn::test {
namespace {

namespace fs = std::filesystem;

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Options;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteBatch;
using rocksdb::WriteOptions;

constexpr char kFile[] = "ANSWERS";
constexpr uint64_t kKeys = 120;

// The empty key, keys that begin others, zeros; of all lengths that a cache keeps in ways of its own.
std::string KeyOf(uint64_t number) {
  if (number == 0) return "";
  if (number == 40) return std::string(1 << 20, 'k') + "40";
  if (number == 50) return std::string(70000, 'k') + "50";
  if (number % 10 == 5) return std::string(5 << 10, 'k') + std::to_string(number);
  if (number % 11 == 1) return std::string(number, '\0');
  return "key" + std::to_string(number);
}

class DropSome : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "DropSome"; }
  bool Filter(int /*level*/, const Slice& key, const Slice& /*value*/, std::string* /*new_value*/,
              bool* /*changed*/) const override {
    return Drops(key);
  }
  bool Drops(const Slice& key) const { return !key.empty() && key[key.size() - 1] == '7'; }
};

enum class Kind { kPlain, kOptimistic, kCommitted, kPrepared, kUnprepared };

// RocksDB's debug builds assert, where its release builds refuse to open, that no WAL holds what transactions of
// another kind have prepared.
#ifdef NDEBUG
constexpr uint64_t kKinds = 5;
#else
constexpr uint64_t kKinds = 3;
#endif

// One opening of the database. Everything that it does is drawn from its seed.
class Session {
 public:
  // `flushed`: the one before has left nothing in the WAL.
  Session(const std::string& path, const Engine& engine, uint64_t seed, bool flushed)
      : path_(path), engine_(engine), random_(seed), flushed_(flushed) {}

  bool flushed() const { return flushed_; }

  // Empty: all was right.
  std::string Run(bool cached) {
    std::string wrong = Open(cached);
    if (!wrong.empty()) return wrong == "-" ? "" : wrong;
    wrong = CheckAll("at its beginning");
    const uint64_t operations = random_.Uniform(60);
    for (uint64_t i = 0; wrong.empty() && i < operations && !failed_; ++i) {
      Do();
      if (random_.OneIn(6)) wrong = CheckAll(last_);
    }
    if (wrong.empty()) wrong = CheckAll("at its end");
    if (!wrong.empty()) return wrong + " (" + story_ + ")";
    const bool early = kind_ == Kind::kPrepared || kind_ == Kind::kUnprepared;
    if (!early && random_.OneIn(3)) kill(getpid(), SIGKILL);
    flushed_ = !failed_ && (early || random_.OneIn(3)) && FlushAll();
    if (early && !flushed_) return "what is written at prepare was not flushed";
    Close();
    return "";
  }

 private:
  Options Draw(bool cached) {
    Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.write_buffer_size = 16 << random_.Uniform(5) << 10;
    options.max_background_jobs = 2;
    options.avoid_flush_during_recovery = random_.OneIn(2);
    calm_ = random_.OneIn(2);
    options.avoid_flush_during_shutdown = random_.OneIn(2);
    options.manual_wal_flush = random_.OneIn(6);
    options.recycle_log_file_num = random_.OneIn(4) ? 2 : 0;
    options.max_manifest_file_size = random_.OneIn(4) ? 2048 : 1 << 30;
    options.enable_blob_files = random_.OneIn(5);
    options.min_blob_size = 20;
    options.enable_blob_garbage_collection = true;
    options.atomic_flush = random_.OneIn(5);
    options.compaction_style = random_.OneIn(4) ? rocksdb::kCompactionStyleUniversal : rocksdb::kCompactionStyleLevel;
    if (random_.OneIn(6)) options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    if (random_.OneIn(15)) options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
    const std::string delimiter = !calm_ && random_.OneIn(8) ? "+" : ",";
    const Status s = rocksdb::MergeOperator::CreateFromString(
        rocksdb::ConfigOptions(), "id=StringAppendOperator;delimiter=" + delimiter, &options.merge_operator);
    EXPECT_OK(s);
    EXPECT_OK(engine_.fill(&options));
    if (!cached) return options;
    DatabaseCacheOptions cache;
    cache.capacity = 1 << 20;
    cache.path = kFile;
    cache.max_item_bytes = cache.capacity / 2;
    cache.adaptive = false;
    cache.admit_one_fill_in = 1;
    if (!calm_) {
      cache.capacity = random_.OneIn(6) ? 2 << 20 : 1 << 20;
      cache.absent_keys = !random_.OneIn(8);
      cache.merged_values = !random_.OneIn(8);
      cache.charge_to_block_cache = random_.OneIn(8);
      if (random_.OneIn(8)) cache.compression = ResultCacheOptions::Compression::kLz4;
      if (random_.OneIn(8)) cache.column_families = "default,third";
    }
    UseResultCache(cache, &options);
    return options;
  }

  bool FlushAll() {
    if (pessimistic_ != nullptr && !EndPrepared().ok()) return false;
    for (ColumnFamilyHandle* family : handles_) {
      if (!db_->Flush(rocksdb::FlushOptions(), family).ok()) return false;
    }
    return true;
  }

  // "-": refused, and nothing was done.
  std::string Open(bool cached) {
    Options options = Draw(cached);
    kind_ = random_.OneIn(2) ? Kind::kPlain : static_cast<Kind>(random_.Uniform(kKinds));
    if (kind_ == Kind::kPrepared || kind_ == Kind::kUnprepared) {
      if (!flushed_) return "-";
      // RocksDB 9.10 waits for itself when universal compaction picks files of such a database.
      options.compaction_style = rocksdb::kCompactionStyleLevel;
    }
    flushed_ = false;
    // RocksDB might not open it again (docs/rocksdb_faults.md).
    if (kind_ != Kind::kPlain) options.recycle_log_file_num = 0;
    // RocksDB 9.10 waits for itself when both are on.
    if (kind_ == Kind::kPlain && !options.manual_wal_flush && random_.OneIn(6)) options.unordered_write = true;
    if (kind_ != Kind::kPrepared && kind_ != Kind::kUnprepared && !options.unordered_write && random_.OneIn(8)) {
      options.enable_pipelined_write = true;
    }
    if ((kind_ == Kind::kPlain || kind_ == Kind::kCommitted) && !options.enable_pipelined_write &&
        !options.unordered_write && random_.OneIn(8)) {
      options.two_write_queues = true;
    }
    unordered_ = options.unordered_write;
    std::vector<std::string> names;
    if (!DB::ListColumnFamilies(options, path_, &names).ok()) names = {"default", "second", "third"};
    for (const char* name : {"second", "third"}) {
      if (std::find(names.begin(), names.end(), name) == names.end() && random_.OneIn(2)) names.emplace_back(name);
    }
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) {
      families.emplace_back(name, options);
      if (name != "second" || !random_.OneIn(8)) continue;
      families.back().options.compaction_filter = &filter_;
      filtered_ = true;
    }
    const Status s = OpenAs(options, families);
    story_ = std::string(cached ? "cached" : "stock") + ", kind " + std::to_string(static_cast<int>(kind_)) +
             (options.unordered_write ? " unordered" : "") + (options.enable_pipelined_write ? " pipelined" : "") +
             (options.two_write_queues ? " two_queues" : "") + ":";
    if (!s.ok()) return s.IsInvalidArgument() || s.IsNotSupported() || s.IsCorruption() ? "-" : s.ToString();
    return "";
  }

  Status OpenAs(const Options& options, const std::vector<ColumnFamilyDescriptor>& families) {
    rocksdb::TransactionDBOptions transactions;
    switch (kind_) {
      case Kind::kPlain: {
        DB* db = nullptr;
        const Status s = DB::Open(options, path_, families, &handles_, port::Into(&db));
        db_.reset(db);
        return s;
      }
      case Kind::kOptimistic: {
        rocksdb::OptimisticTransactionDB* db = nullptr;
        const Status s = rocksdb::OptimisticTransactionDB::Open(options, path_, families, &handles_, &db);
        optimistic_ = db;
        db_.reset(db);
        return s;
      }
      case Kind::kPrepared:
        transactions.write_policy = rocksdb::WRITE_PREPARED;
        break;
      case Kind::kUnprepared:
        transactions.write_policy = rocksdb::WRITE_UNPREPARED;
        break;
      case Kind::kCommitted:
        break;
    }
    rocksdb::TransactionDB* db = nullptr;
    const Status s = rocksdb::TransactionDB::Open(options, transactions, path_, families, &handles_, &db);
    pessimistic_ = db;
    db_.reset(db);
    return s;
  }

  void Close() {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
    handles_.clear();
    db_.reset();
  }

  ColumnFamilyHandle* Family() { return handles_[random_.Uniform(handles_.size())]; }
  std::string Key() { return KeyOf(random_.Uniform(kKeys)); }
  // Its end: what of long keys is their own.
  static std::string Named(const std::string& key) {
    return Slice(key.size() <= 40 ? key : "..." + key.substr(key.size() - 8)).ToString(true);
  }
  std::string Value() { return std::to_string(random_.Next() % 1000000) + std::string(random_.Uniform(60), 'v'); }
  std::string Unique(const std::string& name) { return path_ + "." + name + std::to_string(random_.Next()); }

  WriteOptions HowToWrite() {
    WriteOptions how;
    how.sync = random_.OneIn(20);
    how.disableWAL = !how.sync && kind_ == Kind::kPlain && random_.OneIn(30);
    return how;
  }

  void Do() {
    const uint64_t what = random_.Uniform(40);
    Status s;
    if (what < 10) {
      last_ = "Put";
      s = db_->Put(HowToWrite(), Family(), Key(), Value());
    } else if (what < 13) {
      last_ = "Delete";
      s = db_->Delete(HowToWrite(), Family(), Key());
    } else if (what < 16) {
      last_ = "Merge";
      s = db_->Merge(HowToWrite(), Family(), Key(), Value());
    } else if (what < 18) {
      last_ = "Batch";
      s = WriteSeveral();
    } else if (what < 19) {
      last_ = "DeleteRange";
      const std::string a = Key();
      const std::string b = Key();
      s = db_->DeleteRange(WriteOptions(), Family(), std::min(a, b), std::max(a, b));
    } else if (what < 20) {
      last_ = "PutEntity";
      s = db_->PutEntity(HowToWrite(), Family(), Key(), {{"", Value()}, {"a", Value()}});
    } else if (what < 22) {
      last_ = "Ingest";
      s = Ingest();
    } else if (what < 24) {
      last_ = "Transaction";
      s = Transact();
    } else if (what < 26) {
      last_ = "Flush";
      s = db_->Flush(rocksdb::FlushOptions(), Family());
    } else if (what < 28) {
      last_ = "CompactRange";
      s = db_->CompactRange(rocksdb::CompactRangeOptions(), Family(), nullptr, nullptr);
    } else if (what < 29) {
      last_ = "DeleteFilesInRange";
      s = rocksdb::DeleteFilesInRange(db_.get(), Family(), nullptr, nullptr);
    } else if (what < 31) {
      last_ = "ANewFamily";
      s = ReplaceFamily();
    } else if (what < 32) {
      last_ = "HalfABatch";
      s = WriteToAGap();
    } else if (what < 33) {
      last_ = "SetOptions";
      s = db_->SetOptions(Family(), {{"write_buffer_size", std::to_string(20000 + random_.Uniform(90000))}});
    } else if (what < 34) {
      last_ = "FlushWAL";
      s = db_->FlushWAL(random_.OneIn(2));
    } else if (what < 35) {
      last_ = "Judge";
      Judge();
    } else if (what < 36) {
      last_ = "CopyOfTheFile";
      if (fs::exists(path_ + "/" + kFile)) {
        fs::copy_file(path_ + "/" + kFile, path_ + ".file", fs::copy_options::overwrite_existing);
      }
    } else if (what < 37) {
      last_ = "Checkpoint";
      s = MakeCheckpoint();
    } else {
      last_ = "Reads";
      ReadOtherwise();
    }
    story_ += std::string(" ") + last_ + (s.ok() ? "" : "!");
    // After a batch that failed halfway RocksDB takes no writes.
    failed_ = failed_ || (!s.ok() && !s.IsNotSupported() && !s.IsInvalidArgument());
  }

  Status WriteSeveral() {
    WriteBatch batch;
    for (uint64_t i = random_.Uniform(5) + 1; i > 0; --i) {
      if (random_.OneIn(4)) {
        batch.Delete(Family(), Key()).PermitUncheckedError();
      } else {
        batch.Put(Family(), Key(), Value()).PermitUncheckedError();
      }
    }
    return db_->Write(HowToWrite(), &batch);
  }

  Status Ingest() {
    ColumnFamilyHandle* const family = Family();
    const std::string file = Unique("table");
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db_->GetOptions(family));
    Status s = writer.Open(file);
    std::set<std::string> keys;
    for (uint64_t i = random_.Uniform(6) + 1; i > 0; --i) keys.insert(Key());
    for (const std::string& key : keys) {
      if (s.ok()) s = random_.OneIn(4) ? writer.Delete(key) : writer.Put(key, Value());
    }
    if (s.ok() && random_.OneIn(6)) s = writer.DeleteRange(KeyOf(2), KeyOf(5));
    if (s.ok()) s = writer.Finish();
    rocksdb::IngestExternalFileOptions how;
    how.move_files = random_.OneIn(2);
    how.snapshot_consistency = !random_.OneIn(4);
    if (s.ok()) s = IngestAgain(db_.get(), family, {file}, how);
    fs::remove(file);
    return s;
  }

  template <class Transaction>
  Status Finish(Transaction* transaction, bool phases) {
    Status s;
    for (uint64_t i = random_.Uniform(4) + 1; s.ok() && i > 0; --i) s = transaction->Put(Family(), Key(), Value());
    if (s.ok() && random_.OneIn(3)) s = transaction->Merge(Family(), Key(), Value());
    if (s.ok() && phases && random_.OneIn(2)) {
      s = transaction->SetName("t" + std::to_string(random_.Next()));
      if (s.ok()) s = transaction->Prepare();
      if (s.ok() && random_.OneIn(6)) ReadOtherwise();
    }
    if (!s.ok() || random_.OneIn(5)) return transaction->Rollback();
    return transaction->Commit();
  }

  // Those that a killed process had prepared.
  Status EndPrepared() {
    std::vector<rocksdb::Transaction*> found;
    pessimistic_->GetAllPreparedTransactions(&found);
    for (rocksdb::Transaction* transaction : found) {
      const std::unique_ptr<rocksdb::Transaction> owner(transaction);
      const Status s = random_.OneIn(2) ? transaction->Commit() : transaction->Rollback();
      if (!s.ok()) return s;
    }
    return Status::OK();
  }

  Status Transact() {
    if (pessimistic_ != nullptr) {
      const Status s = EndPrepared();
      if (!s.ok()) return s;
      const std::unique_ptr<rocksdb::Transaction> transaction(pessimistic_->BeginTransaction(WriteOptions()));
      return Finish(transaction.get(), kKinds > 3);
    }
    if (optimistic_ == nullptr) return Status::OK();
    const std::unique_ptr<rocksdb::Transaction> transaction(optimistic_->BeginTransaction(WriteOptions()));
    return Finish(transaction.get(), false);
  }

  Status ReplaceFamily() {
    if (handles_.size() < 2) return Status::OK();
    const size_t at = 1 + random_.Uniform(handles_.size() - 1);
    const std::string name = handles_[at]->GetName();
    // RocksDB dies of a family that is gone before its flush has told listeners of a stall, and at an opening when a
    // WAL has a prepared transaction that wrote to one (docs/rocksdb_faults.md): what ended it may be cut off. Now and
    // then its compactions find more to do for ever.
    if (pessimistic_ != nullptr && !FlushAll()) return Status::OK();
    rocksdb::WaitForCompactOptions wait;
    wait.timeout = std::chrono::seconds(20);
    Status s = db_->WaitForCompact(wait);
    if (s.IsTimedOut()) return Status::OK();
    if (s.ok()) s = db_->DropColumnFamily(handles_[at]);
    if (s.ok()) s = db_->DestroyColumnFamilyHandle(handles_[at]);
    handles_.erase(handles_.begin() + static_cast<ptrdiff_t>(at));
    if (!s.ok() || random_.OneIn(3)) return s;
    ColumnFamilyHandle* handle = nullptr;
    rocksdb::ColumnFamilyOptions options = db_->GetOptions(handles_[0]);
    s = db_->CreateColumnFamily(options, name, &handle);
    if (s.ok()) handles_.push_back(handle);
    return s;
  }

  Status WriteToAGap() {
    if (kind_ == Kind::kPrepared || kind_ == Kind::kUnprepared || unordered_ || !random_.OneIn(3)) return Status::OK();
    ColumnFamilyHandle* gone = nullptr;
    Status s = db_->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), "gone" + std::to_string(random_.Next()), &gone);
    if (!s.ok()) return s;
    s = db_->DropColumnFamily(gone);
    WriteBatch batch;
    batch.Put(Family(), Key(), Value()).PermitUncheckedError();
    batch.Put(gone, Key(), Value()).PermitUncheckedError();
    batch.Put(Family(), Key(), Value()).PermitUncheckedError();
    if (s.ok()) s = db_->Write(WriteOptions(), &batch);
    EXPECT_OK(db_->DestroyColumnFamilyHandle(gone));
    failed_ = true;
    return s;
  }

  void Judge() {
    CairnDB* const ours = CairnDB::Of(db_.get());
    DatabaseCache* const cache = ours == nullptr ? nullptr : ours->services()->cache();
    if (cache != nullptr && !calm_) cache->TEST_Judge(random_.OneIn(2) ? -1 : 1);
  }

  Status MakeCheckpoint() {
    fs::remove_all(path_ + ".state");
    rocksdb::Checkpoint* checkpoint = nullptr;
    Status s = rocksdb::Checkpoint::Create(db_.get(), &checkpoint);
    if (s.ok()) s = checkpoint->CreateCheckpoint(path_ + ".state");
    delete checkpoint;
    return s;
  }

  // Reads that may fill the cache, and those that must not.
  void ReadOtherwise() {
    for (int i = 0; i < 20; ++i) {
      ColumnFamilyHandle* const family = Family();
      const std::string key = Key();
      ReadOptions options;
      options.fill_cache = !random_.OneIn(3);
      PinnableSlice value;
      rocksdb::PinnableWideColumns columns;
      bool found = false;
      std::string text;
      switch (random_.Uniform(5)) {
        case 0:
          options.ignore_range_deletions = true;
          break;
        case 1:
          db_->GetEntity(options, family, key, &columns).PermitUncheckedError();
          continue;
        case 2:
          db_->KeyMayExist(options, family, key, &text, &found);
          continue;
        case 3:
          options.read_tier = rocksdb::kBlockCacheTier;
          break;
        default:
          break;
      }
      db_->Get(options, family, key, &value).PermitUncheckedError();
    }
  }

  static std::string Text(const Status& s, const PinnableSlice& value) {
    return s.ok() ? value.ToString() : s.ToString();
  }

  std::string CheckAll(const std::string& when) {
    for (ColumnFamilyHandle* family : handles_) {
      std::vector<std::string> keys;
      for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(KeyOf(i));
      if (random_.OneIn(2)) {
        for (uint64_t i = kKeys - 1; i > 0; --i) std::swap(keys[i], keys[random_.Uniform(i)]);
        keys.push_back(keys[3]);
        keys.push_back(keys[3]);
      }
      const std::vector<Slice> slices(keys.begin(), keys.end());
      std::vector<PinnableSlice> by_tree(keys.size());
      std::vector<PinnableSlice> at_once(keys.size());
      std::vector<Status> tree_statuses(keys.size());
      std::vector<Status> statuses(keys.size());
      {
        rocksdb::ManagedSnapshot snapshot(db_.get());
        ReadOptions of_snapshot;
        of_snapshot.snapshot = snapshot.snapshot();
        db_->MultiGet(of_snapshot, family, keys.size(), slices.data(), by_tree.data(), tree_statuses.data());
      }
      const bool several = random_.OneIn(3);
      if (several) {
        db_->MultiGet(ReadOptions(), family, keys.size(), slices.data(), at_once.data(), statuses.data());
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        PinnableSlice one;
        const std::string right = Text(tree_statuses[i], by_tree[i]);
        const std::string got =
            several ? Text(statuses[i], at_once[i]) : Text(db_->Get(ReadOptions(), family, keys[i], &one), one);
        // A compaction may drop it between the two reads.
        if (got == right || (filtered_ && filter_.Drops(keys[i]))) continue;
        return std::string(several ? "MultiGet of " : "") + family->GetName() + " " + Named(keys[i]) + " is " + right +
               ", and the cache says " + got + ", " + when;
      }
    }
    DatabaseCacheStats stats;
    if (GetDatabaseCacheStats(db_.get(), &stats).ok() && stats.wrong_hits > 0) return "the cache found itself wrong";
    return "";
  }

  const std::string path_;
  const Engine& engine_;
  Random random_;
  bool flushed_;
  const DropSome filter_;
  Kind kind_ = Kind::kPlain;
  bool unordered_ = false;
  bool calm_ = false;  // keeps what would make the file of the session before begin empty
  bool filtered_ = false;
  bool failed_ = false;
  std::string last_;
  std::string story_;
  std::unique_ptr<DB> db_;
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  rocksdb::TransactionDB* pessimistic_ = nullptr;
  std::vector<ColumnFamilyHandle*> handles_;
};

class DatabaseCacheSessionsTest : public ::testing::TestWithParam<Engine> {
 protected:
  std::string Path() const { return dir_ / "db"; }
  std::string File() const { return Path() + "/" + kFile; }

  std::string NewestWal() const {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(Path())) {
      if (entry.path().extension() == ".log") newest = std::max(newest, entry.path().string());
    }
    return newest;
  }

  static void CopyOver(const std::string& from, const std::string& to) {
    std::ifstream source(from, std::ios::binary);
    std::ofstream(to, std::ios::binary | std::ios::trunc) << source.rdbuf();
  }

  // What happens while nobody has the database open.
  std::string Disturb(Random* random) {
    const uint64_t what = random->Uniform(16);
    const std::string wal = NewestWal();
    if (what == 0 && !wal.empty()) {
      fs::resize_file(wal, fs::file_size(wal) - std::min<uint64_t>(fs::file_size(wal), random->Uniform(200)));
      return "cut the newest WAL";
    }
    if (what == 1 && !wal.empty()) {
      fs::remove(wal);
      return "remove the newest WAL";
    }
    if (what == 2 && fs::exists(Path() + ".file")) {
      fs::rename(Path() + ".file", File());
      return "put a copy of the file back";
    }
    if (what == 3 && fs::exists(Path() + ".state")) {
      const bool keep = fs::exists(File());
      if (keep) fs::rename(File(), Path() + ".kept");
      fs::remove_all(Path());
      fs::rename(Path() + ".state", Path());
      if (keep) fs::rename(Path() + ".kept", File());
      return "put a checkpoint in the database's place";
    }
    if (what == 4) {
      fs::remove_all(Path() + ".copy");
      fs::copy(Path(), Path() + ".copy", fs::copy_options::recursive);
      return "copy the folder";
    }
    if (what == 5 && fs::exists(Path() + ".copy")) {
      for (const auto& entry : fs::directory_iterator(Path())) {
        if (entry.path().filename() != kFile) fs::remove_all(entry.path());
      }
      for (const auto& entry : fs::directory_iterator(Path() + ".copy")) {
        if (entry.path().filename() != kFile) CopyOver(entry.path(), Path() + "/" + entry.path().filename().string());
      }
      return "restore the folder's copy, but not the file";
    }
    if (what == 6 && fs::exists(Path() + ".copy")) {
      for (const auto& entry : fs::directory_iterator(Path())) {
        if (!fs::exists(Path() + ".copy/" + entry.path().filename().string())) fs::remove_all(entry.path());
      }
      for (const auto& entry : fs::directory_iterator(Path() + ".copy")) {
        CopyOver(entry.path(), Path() + "/" + entry.path().filename().string());
      }
      return "restore the folder's copy in place";
    }
    if (what == 7 && fs::exists(File())) {
      std::fstream file(File(), std::ios::in | std::ios::out | std::ios::binary);
      for (int i = 0; i < 20; ++i) {
        const uint64_t at = random->OneIn(2) ? random->Uniform(3 * 4096) : random->Uniform(fs::file_size(File()));
        file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(random->Next()));
      }
      return "damage the file";
    }
    if (what == 8) {
      fs::rename(Path(), Path() + ".moved");
      fs::rename(Path() + ".moved", Path());
      return "move the folder away and back";
    }
    return "";
  }

  TempDir dir_;
};

// A session is a process of its own, so that it can be killed.
TEST_P(DatabaseCacheSessionsTest, WhateverHappensInBetweenItAnswersAsTheTree) {
  const uint64_t seed = SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  Random random(seed);
  const uint64_t sessions = NumberFromEnvironment("CAIRN_SESSIONS", 20);
  constexpr int kFlushed = 2;
  std::string story;
  bool flushed = true;
  for (uint64_t i = 0; i < sessions; ++i) {
    const uint64_t own = random.Next();
    const bool cached = !random.OneIn(5);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(600);  // who hangs, not who waits for a processor
      Session session(Path(), GetParam(), own, flushed);
      // At any moment: while it is opened or closed, too.
      if (Random(own + 1).OneIn(4)) {
        std::thread([&] {
          usleep(static_cast<useconds_t>(Random(own + 2).Uniform(60000)));
          kill(getpid(), SIGKILL);
        }).detach();
      }
      const std::string wrong = session.Run(cached);
      if (!wrong.empty()) {
        fprintf(stderr, "session %llu: %s\n", static_cast<unsigned long long>(i), wrong.c_str());
        fflush(stderr);
      }
      _exit(!wrong.empty() || HasFailure() ? 1 : session.flushed() ? kFlushed : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    flushed = WIFEXITED(status) && WEXITSTATUS(status) == kFlushed;
    ASSERT_TRUE(flushed || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
        << "session " << i << ", status " << status << ", before it: " << story;
    story = fs::exists(Path() + "/CURRENT") ? Disturb(&random) : "";
    // What cannot be opened any more is of no use.
    if (random.OneIn(30)) fs::remove_all(Path());
    if (!story.empty()) flushed = false;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, DatabaseCacheSessionsTest, ::testing::ValuesIn(Engines()), EngineName);

}  // namespace
}  // namespace cairn::test
