#include "test/error_stress/copied_database.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <utility>

#include "cairn/memtable.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "utilities/merge_operators.h"

namespace cairn {
namespace errors {

using rocksdb::ColumnFamilyHandle;
using rocksdb::Status;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const std::array<Way, 12> kWays{{
    {"plain", false, false, false, false, rocksdb::WRITE_COMMITTED},
    {"pipelined", true, false, false, false, rocksdb::WRITE_COMMITTED},
    {"two_queues", false, true, false, false, rocksdb::WRITE_COMMITTED},
    {"unordered", false, false, true, false, rocksdb::WRITE_COMMITTED},
    {"transactions", false, false, false, true, rocksdb::WRITE_COMMITTED},
    {"pipelined_transactions", true, false, false, true, rocksdb::WRITE_COMMITTED},
    {"two_queues_transactions", false, true, false, true, rocksdb::WRITE_COMMITTED},
    {"write_prepared", false, true, false, true, rocksdb::WRITE_PREPARED},
    {"unordered_write_prepared", false, true, true, true, rocksdb::WRITE_PREPARED},
    {"one_queue_write_prepared", false, false, false, true, rocksdb::WRITE_PREPARED},
    {"write_unprepared", false, true, false, true, rocksdb::WRITE_UNPREPARED},
    {"one_queue_write_unprepared", false, false, false, true, rocksdb::WRITE_UNPREPARED},
}};

namespace {

constexpr uint64_t kMostCopies = 8;  // at a time

bool WritesBeforeCommit(const Way& way) { return way.policy != rocksdb::WRITE_COMMITTED; }

// WRITE_PREPARED and WRITE_UNPREPARED refuse memtables that do not take a key twice, as sub-MemTables.
rocksdb::Options EngineOf(const Way& way, test::Random* random) {
  rocksdb::Options options = random->OneIn(4) ? test::OptionsOf(*test::FindEngine("trie_tiny")) : test::BaseOptions();
  if (!WritesBeforeCommit(way) && random->OneIn(3)) options.memtable_factory = NewSubMemTableFactory();
  return options;
}

std::string NameOfFamily(size_t family) {
  return family == 0 ? rocksdb::kDefaultColumnFamilyName : "family" + std::to_string(family);
}

void SleepUpTo(test::Random* random, uint64_t most) {
  std::this_thread::sleep_for(microseconds(random->Uniform(most)));
}

std::string TextOf(const Way& way, const Setup& setup) {
  const rocksdb::Options& options = setup.options;
  std::ostringstream text;
  text << way.name << ", " << options.memtable_factory->Name() << ", compaction style "
       << static_cast<int>(options.compaction_style) << ", " << setup.families << " families, memtables of "
       << options.write_buffer_size << ", WALs of " << options.max_total_wal_size << ", synced one in "
       << setup.synced_one_in;
  if (options.atomic_flush) text << ", atomic_flush";
  if (options.recycle_log_file_num > 0) text << ", recycled WALs";
  if (options.WAL_ttl_seconds > 0) text << ", archived WALs";
  if (options.wal_compression != rocksdb::kNoCompression) text << ", compressed WALs";
  if (options.track_and_verify_wals_in_manifest) text << ", tracked WALs";
  if (options.manual_wal_flush) text << ", manual_wal_flush";
  if (options.allow_concurrent_memtable_write) text << ", concurrent";
  return text.str();
}

}  // namespace

Setup SetupOf(const Way& way, uint64_t seed, rocksdb::Env* env) {
  test::Random random(seed);
  Setup setup;
  rocksdb::Options options = EngineOf(way, &random);
  options.env = env;
  options.create_missing_column_families = true;
  options.sst_file_manager.reset(rocksdb::NewSstFileManager(env));
  options.merge_operator = rocksdb::MergeOperators::CreateUInt64AddOperator();
  options.bgerror_resume_retry_interval = 5000;
  options.max_background_jobs = 4;
  options.max_write_buffer_number = 2 + static_cast<int>(random.Uniform(4));
  options.write_buffer_size = uint64_t{64 << 10} << (2 * random.Uniform(3));
  if (random.OneIn(2)) options.max_total_wal_size = random.OneIn(2) ? 60000 : 200000;
  options.enable_pipelined_write = way.pipelined;
  options.two_write_queues = way.two_queues;
  options.unordered_write = way.unordered;
  options.allow_concurrent_memtable_write = way.unordered || random.OneIn(2);
  options.atomic_flush = !way.pipelined && !way.transactional && random.OneIn(4);
  if (random.OneIn(3)) {
    options.recycle_log_file_num = 3;
  } else if (random.OneIn(2)) {
    options.WAL_ttl_seconds = 1000;
  }
  if (random.OneIn(4)) options.wal_compression = rocksdb::kZSTD;
  options.avoid_flush_during_shutdown = random.OneIn(2);
  options.track_and_verify_wals_in_manifest = random.OneIn(4);
  // RocksDB waits for itself for ever with unordered_write (docs/guide/faults.md).
  options.manual_wal_flush = !way.unordered && random.OneIn(6);
  setup.options = std::move(options);
  setup.transactions.write_policy = way.policy;
  // With WRITE_UNPREPARED some transactions are written in one batch, some in several.
  setup.transactions.default_write_batch_flush_threshold = 200;
  setup.transactions.rollback_merge_operands = true;  // else a counter keeps what is rolled back
  setup.transactional = way.transactional;
  setup.families = random.OneIn(3) ? 1 : 3;
  constexpr uint64_t kSynced[] = {0, 1, 3};
  setup.synced_one_in = kSynced[random.Uniform(3)];
  setup.text = TextOf(way, setup);
  return setup;
}

Status OpenDatabase::Open(const Setup& setup, const std::string& path) {
  std::vector<std::string> present;
  const Status listed = rocksdb::DB::ListColumnFamilies(setup.options, path, &present);
  if (!listed.ok() && !setup.options.create_if_missing) return listed;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t family = 0; family < setup.families; ++family) {
    families.emplace_back(NameOfFamily(family), setup.options);
  }
  for (const std::string& name : present) {
    const auto is_it = [&](const rocksdb::ColumnFamilyDescriptor& family) { return family.name == name; };
    if (std::none_of(families.begin(), families.end(), is_it)) families.emplace_back(name, setup.options);
  }
  rocksdb::DB* opened = nullptr;
  Status s;
  if (setup.transactional) {
    s = rocksdb::TransactionDB::Open(setup.options, setup.transactions, path, families, &families_, &transactions_);
    opened = transactions_;
  } else {
    s = rocksdb::DB::Open(setup.options, path, families, &families_, port::Into(&opened));
  }
  if (!s.ok()) return s;
  db_.reset(opened);
  others_.assign(families_.begin() + static_cast<ptrdiff_t>(setup.families), families_.end());
  families_.resize(setup.families);
  return s;
}

Status OpenDatabase::Close() {
  if (db_ == nullptr) return Status::OK();
  for (const auto* families : {&families_, &others_}) {
    for (ColumnFamilyHandle* family : *families) db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
  families_.clear();
  others_.clear();
  Status s = db_->Close();
  // RocksDB's compactions have snapshots, with WRITE_PREPARED.
  for (; s.IsAborted(); s = db_->Close()) std::this_thread::sleep_for(milliseconds(1));
  db_.reset();
  transactions_ = nullptr;
  return s;
}

// Copies in the moments that are worth most. Its functions are called on the database's threads.
class CopiedDatabase::Listener : public rocksdb::EventListener {
 public:
  explicit Listener(CopiedDatabase* database) : database_(database) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/, Status* /*error*/) override {
    ++database_->counts_->errors;
    database_->stopped_ = true;
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    info.status.PermitUncheckedError();
    database_->MakeCopyOneIn(database_->stopped_ ? 2 : 12, "a table was made");
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, Status error, bool* /*recover*/) override {
    error.PermitUncheckedError();
    database_->MakeCopyOneIn(2, "a recovery begins");
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    info.old_bg_error.PermitUncheckedError();
    if (info.new_bg_error.ok()) database_->stopped_ = false;
    database_->MakeCopyOneIn(3, "a recovery ends");
  }

 private:
  CopiedDatabase* const database_;
};

CopiedDatabase::CopiedDatabase(const Way& way, uint64_t seed, const std::string& folder, std::chrono::seconds patience,
                               CopyCounts* counts, const Verdict* verdict)
    : folder_(folder),
      path_(folder + "/db"),
      patience_(patience),
      counts_(counts),
      verdict_(verdict),
      watch_(verdict),
      disk_(std::make_shared<SlowDisk>(rocksdb::FileSystem::Default(), seed)),
      env_(rocksdb::NewCompositeEnv(disk_)),
      random_(seed),
      setup_(SetupOf(way, random_.Next(), env_.get())) {
  // A write of these that is synced fails when its sync does, and RocksDB has put it into memtables or given it a number behind
  // which others went on by then, of two queues also where all are synced (docs/guide/faults.md).
  failed_may_return_ = (way.two_queues || way.unordered) &&
                       (setup_.synced_one_in > 1 || setup_.options.track_and_verify_wals_in_manifest ||
                        (setup_.synced_one_in == 1 && way.two_queues && way.transactional));
}

uint64_t CopiedDatabase::Uniform(uint64_t n) {
  const std::lock_guard<std::mutex> lock(random_mu_);
  return random_.Uniform(n);
}

void CopiedDatabase::Begin() {
  setup_.options.listeners.push_back(std::make_shared<Listener>(this));
  const Status s = db_.Open(setup_, path_);
  if (!s.ok()) verdict_->Fail("Open: " + s.ToString());
  for (size_t writer = 0; writer < kWriters; ++writer) {
    threads_.emplace_back([this, writer, seed = random_.Next()] { WriteOn(writer, seed); });
  }
  threads_.emplace_back([this, seed = random_.Next()] { SyncOn(seed); });
  threads_.emplace_back([this, seed = random_.Next()] { OperateOn(seed); });
  judge_ = std::thread([this] { JudgeOn(); });
}

Status CopiedDatabase::WriteBatchOf(size_t writer, uint64_t n, const rocksdb::WriteOptions& options,
                                    const std::string& value) {
  const Watch::Doing doing(&watch_, "Write");
  rocksdb::WriteBatch batch;
  const Status s = Fill(&batch, db_.families(), writer, n, value);
  return s.ok() ? db_->Write(options, &batch) : s;
}

// A stopped database refuses it. One that has nothing to roll back any more says so.
void CopiedDatabase::RollBack(rocksdb::Transaction* transaction) {
  const Watch::Doing doing(&watch_, "Rollback");
  for (Status s = transaction->Rollback(); !s.ok() && !s.IsInvalidArgument() && !ends_; s = transaction->Rollback()) {
    std::this_thread::sleep_for(milliseconds(2));
  }
}

Status CopiedDatabase::WriteTransactionOf(size_t writer, uint64_t n, const rocksdb::WriteOptions& options,
                                          const std::string& value, test::Random* random) {
  const Watch::Doing doing(&watch_, "Transaction");
  const std::unique_ptr<rocksdb::Transaction> transaction(db_.transactions()->BeginTransaction(options));
  Status s = transaction->SetName(NameOf(writer, n));
  if (s.ok()) s = Fill(transaction.get(), db_.families(), writer, n, value);
  const bool prepares = !random->OneIn(3);
  if (s.ok() && prepares) s = transaction->Prepare();
  if (s.ok() && prepares) {
    ledgers_[writer].Prepare(options.sync);
    if (random->OneIn(4)) SleepUpTo(random, random->OneIn(10) ? 300000 : 20000);
    ledgers_[writer].BeginEnd();
    if (random->OneIn(10)) s = Status::Aborted("rolled back");
  }
  if (s.ok()) s = transaction->Commit();
  if (!s.ok()) RollBack(transaction.get());
  return s;
}

void CopiedDatabase::WriteOn(size_t writer, uint64_t seed) {
  test::Random random(seed);
  while (!ends_) {
    const uint64_t n = ledgers_[writer].Begin();
    rocksdb::WriteOptions options;
    options.sync = setup_.synced_one_in > 0 && random.OneIn(setup_.synced_one_in);
    const std::string value(random.OneIn(50) ? random.Uniform(20000) : random.Uniform(400), 'v');
    const Status s = setup_.transactional && !random.OneIn(4) ? WriteTransactionOf(writer, n, options, value, &random)
                                                              : WriteBatchOf(writer, n, options, value);
    ledgers_[writer].End(s.ok(), options.sync);
    ++(s.ok() ? counts_->acknowledged : counts_->failed);
    if (!s.ok()) SleepUpTo(&random, 3000);
  }
}

void CopiedDatabase::SyncOn(uint64_t seed) {
  test::Random random(seed);
  while (!ends_) {
    SleepUpTo(&random, 8000);
    std::array<uint64_t, kWriters> acknowledged{};
    for (size_t writer = 0; writer < kWriters; ++writer) acknowledged[writer] = ledgers_[writer].acknowledged();
    const Watch::Doing doing(&watch_, "SyncWAL");
    const Status s = random.OneIn(2) && !setup_.options.manual_wal_flush ? db_->SyncWAL() : db_->FlushWAL(true);
    if (!s.ok()) continue;
    for (size_t writer = 0; writer < kWriters; ++writer) ledgers_[writer].KeepDurably(acknowledged[writer]);
  }
}

void CopiedDatabase::OperateOn(uint64_t seed) {
  test::Random random(seed);
  while (!ends_) {
    SleepUpTo(&random, 25000);
    const Watch::Doing doing(&watch_, "An operation");
    Operate(&random);
  }
}

void CopiedDatabase::Operate(test::Random* random) {
  rocksdb::FlushOptions flush;
  flush.wait = random->OneIn(2);
  const uint64_t choice = random->Uniform(10);
  switch (choice) {
    case 0: {
      flush.allow_write_stall = random->OneIn(2);
      ColumnFamilyHandle* const family = db_.families()[random->Uniform(db_.families().size())];
      return db_->Flush(flush, family).PermitUncheckedError();
    }
    case 1:
      flush.allow_write_stall = true;
      return db_->Flush(flush, db_.families()).PermitUncheckedError();
    case 2:
      return MakeFamily(random);
    case 3:
      return Ingest();
    case 4:
      return db_->Resume().PermitUncheckedError();
    case 5:
      if (!db_->LockWAL().ok()) return;
      SleepUpTo(random, 5000);
      return db_->UnlockWAL().PermitUncheckedError();
    case 6:
      return MakeCheckpoint(random->OneIn(2));
    case 7:
      return MakeSomeCopy("some moment");
    case 8:
      return ReadSnapshot(random);
    default:
      if (!random->OneIn(3)) return;
      db_->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).PermitUncheckedError();
  }
}

// And drops it, mostly.
void CopiedDatabase::MakeFamily(test::Random* random) {
  ColumnFamilyHandle* family = nullptr;
  const std::string name = "other" + std::to_string(random->Next());
  if (!db_->CreateColumnFamily(setup_.options, name, &family).ok()) {
    // There is one all the same where only the OPTIONS file could not be written.
    if (family != nullptr) db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    return;
  }
  if (random->OneIn(2)) db_->Put(rocksdb::WriteOptions(), family, "key", "value").PermitUncheckedError();
  SleepUpTo(random, 30000);
  if (!random->OneIn(4)) db_->DropColumnFamily(family).PermitUncheckedError();
  db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
}

// One overwrites what the last one has brought, and so takes a sequence number. Where updates are compared there is none.
void CopiedDatabase::Ingest() {
  if (ComparesUpdates()) return;
  const uint64_t n = ingested_ + 1;
  const std::string file = folder_ + "/ingested.sst";
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), setup_.options);
  Status s = writer.Open(file);
  if (s.ok()) s = writer.Put(IngestedKey(0), std::to_string(n));
  if (s.ok()) s = writer.Put(IngestedKey(n), "value");
  if (s.ok()) s = writer.Finish();
  if (s.ok()) s = db_->IngestExternalFile(db_.families()[0], {file}, rocksdb::IngestExternalFileOptions());
  if (s.ok()) ingested_ = n;
}

// Twice. Without transactions an unordered write may come to a snapshot later.
void CopiedDatabase::ReadSnapshot(test::Random* random) {
  if (setup_.options.unordered_write && !setup_.transactional) return;
  const Account account = Look(false);
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  for (const char* time : {"A snapshot", "A snapshot, read again"}) {
    const std::string wrong = WhatIsWrong(db_.get(), db_.families(), account, failed_may_return_, snapshot);
    if (!wrong.empty()) verdict_->Fail(setup_.text + "\n" + time + ":\n" + wrong);
    SleepUpTo(random, 20000);
  }
  db_->ReleaseSnapshot(snapshot);
}

Account CopiedDatabase::Look(bool durably) const {
  Account account;
  account.ingested = ingested_;
  for (const Ledger& ledger : ledgers_) account.writers.push_back(ledger.Look(durably));
  return account;
}

bool CopiedDatabase::BeginCopy(Copy* copy) {
  const std::lock_guard<std::mutex> lock(copies_mu_);
  if (waiting_ >= kMostCopies) return false;
  ++waiting_;
  copy->folder = folder_ + "/copy" + std::to_string(++begun_copies_);
  return true;
}

void CopiedDatabase::HandOver(Copy&& copy) {
  const std::lock_guard<std::mutex> lock(copies_mu_);
  copies_.push_back(std::move(copy));
}

void CopiedDatabase::MakeCheckpoint(bool flushes) {
  Copy copy;
  if (!BeginCopy(&copy)) return;
  copy.what = flushes ? "a checkpoint behind a flush" : "a checkpoint";
  copy.durably = setup_.options.manual_wal_flush;
  BeginAccount(&copy);
  rocksdb::Checkpoint* made = nullptr;
  Status s = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (s.ok()) s = checkpoint->CreateCheckpoint(copy.folder, flushes ? 0 : UINT64_MAX);
  FinishAccount(&copy);
  if (!s.ok()) copy.folder.clear();
  counts_->checkpoints += s.ok() ? 1 : 0;
  HandOver(std::move(copy));
}

void CopiedDatabase::MakeCopy(const std::string& when, bool loses_unsynced) {
  Copy copy;
  if (!BeginCopy(&copy)) return;
  copy.what = std::string("a copy") + (loses_unsynced ? " without what was not synced" : "") +
              " at the moment: " + when + (stopped_ ? " (an error stops the database)" : "");
  copy.durably = loses_unsynced || setup_.options.manual_wal_flush;
  BeginAccount(&copy);
  disk_->Copy(path_, copy.folder, loses_unsynced);
  FinishAccount(&copy);
  ++counts_->copies;
  HandOver(std::move(copy));
}

// RocksDB's write-prepared transactions do not survive every loss of power (docs/guide/faults.md).
void CopiedDatabase::MakeSomeCopy(const std::string& when) {
  const bool may_lose =
      setup_.options.recycle_log_file_num == 0 && setup_.transactions.write_policy == rocksdb::WRITE_COMMITTED;
  MakeCopy(when, may_lose && Uniform(3) == 0);
}

void CopiedDatabase::MakeCopyOneIn(uint64_t n, const char* when) {
  if (!ends_ && Uniform(n) == 0) MakeSomeCopy(when);
}

void CopiedDatabase::JudgeOn() {
  for (;;) {
    Copy copy;
    {
      const std::lock_guard<std::mutex> lock(copies_mu_);
      if (copies_.empty() && waiting_ == 0 && !judges_) return;
      if (!copies_.empty()) {
        copy = std::move(copies_.front());
        copies_.pop_front();
      }
    }
    if (copy.what.empty()) {
      std::this_thread::sleep_for(milliseconds(2));
      continue;
    }
    if (!copy.folder.empty()) Judge(&copy);
    const std::lock_guard<std::mutex> lock(copies_mu_);
    --waiting_;
  }
}

void CopiedDatabase::Expect(const Status& s, const Copy& copy, const std::string& what) const {
  if (s.ok()) return;
  verdict_->Fail(setup_.text + "\n" + copy.folder + ", " + copy.what + ", " + what + ": " + s.ToString());
}

void CopiedDatabase::Judge(Copy* judged) {
  const Copy& copy = *judged;
  Setup setup = setup_;
  setup.options.env = rocksdb::Env::Default();
  setup.options.listeners.clear();
  setup.options.sst_file_manager.reset();
  setup.options.create_if_missing = setup.options.create_missing_column_families = false;
  // What is wrong stays as it was.
  const std::string folder = copy.folder + "_opened";
  std::filesystem::copy(copy.folder, folder);
  OpenDatabase opened;
  Expect(opened.Open(setup, folder), copy, "does not open");
  if (opened.transactions() != nullptr) {
    const std::string wrong = EndPrepared(opened.transactions(), &judged->account, failed_may_return_ || copy.durably);
    if (!wrong.empty()) verdict_->Fail(setup_.text + "\n" + copy.folder + ", " + copy.what + ":\n" + wrong);
  }
  Compare(opened, copy.account, copy.folder + ", " + copy.what);
  if (opened.transactions() != nullptr) RollBackOver(opened, copy);
  if (copy.folder.back() % 4 < 2) WriteBehindSnapshot(opened, copy);
  Expect(opened.Close(), copy, "Close");
  // Every second one.
  if (copy.folder.back() % 2 == 0) JudgeAgain(setup, folder, judged);
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(copy.folder);
}

void CopiedDatabase::RollBackOver(const OpenDatabase& opened, const Copy& copy) {
  for (size_t writer = 0; writer < kWriters; ++writer) {
    const std::unique_ptr<rocksdb::Transaction> transaction(
        opened.transactions()->BeginTransaction(rocksdb::WriteOptions()));
    Expect(transaction->SetName("over " + std::to_string(writer)), copy, "SetName");
    Expect(Fill(transaction.get(), opened.families(), writer, copy.account.writers[writer].outcomes.size(), "over"),
           copy, "a transaction over the newest keys");
    Expect(transaction->Prepare(), copy, "Prepare");
    Expect(transaction->Rollback(), copy, "Rollback");
  }
  Compare(opened, copy.account, copy.folder + ", " + copy.what + ", behind rollbacks");
}

void CopiedDatabase::WriteBehindSnapshot(const OpenDatabase& opened, const Copy& copy) {
  const rocksdb::Snapshot* const snapshot = opened->GetSnapshot();
  ColumnFamilyHandle* const family = opened.families()[0];
  std::array<std::string, kWriters> newest;
  for (size_t writer = 0; writer < kWriters; ++writer) {
    const Status s = opened->Get(rocksdb::ReadOptions(), family, NewestKeyOf(writer), &newest[writer]);
    if (!s.IsNotFound()) Expect(s, copy, "Get");
    Expect(opened->Put(rocksdb::WriteOptions(), family, NewestKeyOf(writer), "0"), copy, "Put");
  }
  Expect(opened->Flush(rocksdb::FlushOptions(), family), copy, "Flush");
  Expect(opened->CompactRange(rocksdb::CompactRangeOptions(), family, nullptr, nullptr), copy, "CompactRange");
  Compare(opened, copy.account, copy.folder + ", " + copy.what + ", by a snapshot behind a compaction", snapshot);
  opened->ReleaseSnapshot(snapshot);
  for (size_t writer = 0; writer < kWriters; ++writer) {
    const std::string key = NewestKeyOf(writer);
    Expect(newest[writer].empty() ? opened->Delete(rocksdb::WriteOptions(), family, key)
                                  : opened->Put(rocksdb::WriteOptions(), family, key, newest[writer]),
           copy, "Put");
  }
}

// Written to and closed; who is opened next has it.
void CopiedDatabase::JudgeAgain(const Setup& setup, const std::string& folder, Copy* copy) {
  for (const char* time : {"second time", "third time", "fourth time"}) {
    const std::string what = std::string("opened for the ") + time;
    OpenDatabase opened;
    Expect(opened.Open(setup, folder), *copy, what);
    Compare(opened, copy->account, copy->folder + ", " + copy->what + ", " + what);
    const uint64_t behind = std::max(copy->account.ingested, copy->account.written_behind) + 1;
    Expect(opened->Put(rocksdb::WriteOptions(), opened.families()[0], IngestedKey(0), std::to_string(behind)), *copy,
           what + ", Put");
    if (setup.options.manual_wal_flush) Expect(opened->FlushWAL(false), *copy, what + ", FlushWAL");
    copy->account.written_behind = behind;
    Expect(opened.Close(), *copy, what + ", Close");
  }
}

void CopiedDatabase::Compare(const OpenDatabase& db, const Account& account, const std::string& what,
                             const rocksdb::Snapshot* snapshot) const {
  const std::string wrong = WhatIsWrong(db.get(), db.families(), account, failed_may_return_, snapshot);
  if (!wrong.empty()) verdict_->Fail(setup_.text + "\n" + what + ":\n" + wrong);
}

// With manual_wal_flush a WAL that fails stops the database for good.
Fault CopiedDatabase::SomeFault() {
  if (setup_.options.manual_wal_flush) {
    constexpr Fault kNotOfWals[] = {Fault::kTableAppend, Fault::kManifestAppend, Fault::kManifestSync};
    return kNotOfWals[Uniform(3)];
  }
  return Uniform(3) == 0 ? Fault::kWalSync : static_cast<Fault>(1 + Uniform(kFaults));
}

void CopiedDatabase::FailOnce() {
  std::this_thread::sleep_for(microseconds(Uniform(150000)));
  const Fault fault = SomeFault();
  const uint64_t felt = disk_->felt();
  disk_->Arm(fault, Uniform(6) == 0);
  const auto end = steady_clock::now() + milliseconds(400);
  while (disk_->felt() == felt && steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  disk_->Arm(Fault::kNone, false);
  if (disk_->felt() == felt) return;
  ++counts_->faults;
  for (uint64_t copies = Uniform(4); copies > 0; --copies) {
    std::this_thread::sleep_for(microseconds(Uniform(20000)));
    MakeSomeCopy(std::string("after a fault: ") + NameOf(fault));
  }
  AwaitProgress(fault);
}

// RocksDB's recovery may have given up; a program calls Resume then.
void CopiedDatabase::AwaitProgress(Fault fault) {
  const Watch::Doing doing(&watch_, std::string("The wait for all writers after a failed ") + NameOf(fault));
  watch_.Expect(patience_);
  std::array<uint64_t, kWriters> before{};
  for (size_t writer = 0; writer < kWriters; ++writer) before[writer] = ledgers_[writer].acknowledged();
  const auto goes_on = [&] {
    for (size_t writer = 0; writer < kWriters; ++writer) {
      if (ledgers_[writer].acknowledged() <= before[writer] + 1) return false;
    }
    return true;
  };
  auto resumed = steady_clock::now();
  while (!goes_on()) {
    if (steady_clock::now() - resumed > std::chrono::seconds(15)) {
      db_->Resume().PermitUncheckedError();
      resumed = steady_clock::now();
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  watch_.Settle();
}

void CopiedDatabase::End() {
  watch_.Expect(patience_);
  MakeCopy("the last one", false);
  disk_->BeFast();
  ends_ = true;
  for (std::thread& thread : threads_) thread.join();
  judges_ = false;
  judge_.join();
  Compare(db_, Look(false), "The database at the end");
  Status s = setup_.options.manual_wal_flush ? db_->FlushWAL(true) : Status::OK();
  if (!s.ok()) verdict_->Fail(setup_.text + "\nFlushWAL: " + s.ToString());
  if (ComparesUpdates()) CompareUpdates();
  s = db_.Close();
  if (!s.ok()) verdict_->Fail(setup_.text + "\nClose: " + s.ToString());
  if (pretends_) ledgers_[0].PretendOneMore();
  Copy copy;
  copy.folder = folder_ + "/closed";
  copy.what = "the closed database";
  copy.account = Look(false);
  disk_->Copy(path_, copy.folder, false);
  Judge(&copy);
  watch_.Settle();
}

bool CopiedDatabase::ComparesUpdates() const {
  return setup_.options.WAL_ttl_seconds > 0 && !setup_.transactional && !setup_.options.unordered_write;
}

// Without a gap: an ingestion takes a number that is in no WAL.
void CopiedDatabase::CompareUpdates() {
  std::unique_ptr<rocksdb::TransactionLogIterator> updates;
  Status s = db_->GetUpdatesSince(0, &updates);
  rocksdb::SequenceNumber next = 0;
  for (; s.ok() && updates->Valid(); updates->Next()) {
    const rocksdb::BatchResult batch = updates->GetBatch();
    if (next > 0 && batch.sequence != next) s = Status::Corruption("a gap before", std::to_string(batch.sequence));
    next = batch.sequence + batch.writeBatchPtr->Count();
  }
  if (s.ok()) s = updates->status();
  if (!s.ok()) verdict_->Fail(setup_.text + "\nGetUpdatesSince: " + s.ToString());
}

}  // namespace errors
}  // namespace cairn
