// A database on a slow disk that fails now and then, is copied as a crash would leave it, and is judged by its copies: the
// part of cairn_copy_stress that is one round.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/error_stress/ledger.h"
#include "test/error_stress/slow_disk.h"
#include "test/error_stress/watch.h"
#include "test/testutil/random.h"

namespace cairn {
namespace errors {

// How a program writes; what options it has beside, a seed says.
struct Way {
  const char* name;
  bool pipelined, two_queues, unordered, transactional;
  rocksdb::TxnDBWritePolicy policy;  // of one that is transactional
};
extern const std::array<Way, 12> kWays;

struct Setup {
  rocksdb::Options options;
  rocksdb::TransactionDBOptions transactions;
  bool transactional = false;
  size_t families = 1;
  uint64_t synced_one_in = 0;  // of the writes; 0: none is synced
  std::string text;            // for people
};
Setup SetupOf(const Way& way, uint64_t seed, rocksdb::Env* env);

// The database of a setup, open.
class OpenDatabase {
 public:
  OpenDatabase() = default;
  ~OpenDatabase() { Close().PermitUncheckedError(); }
  OpenDatabase(const OpenDatabase&) = delete;
  OpenDatabase& operator=(const OpenDatabase&) = delete;

  // Makes it if it is not there; opens what families are there.
  rocksdb::Status Open(const Setup& setup, const std::string& path);
  rocksdb::Status Close();

  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::DB* get() const { return db_.get(); }
  // Null if it has none.
  rocksdb::TransactionDB* transactions() const { return transactions_; }
  // Those of the setup.
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return families_; }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::TransactionDB* transactions_ = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families_, others_;
};

// How often what was met; says what a run was worth.
struct CopyCounts {
  std::atomic<uint64_t> acknowledged{0}, failed{0}, faults{0}, errors{0}, copies{0}, checkpoints{0};
};

// Invariant: a copy is judged by an account that was taken before it was begun, and whoever writes says so first.
class CopiedDatabase {
 public:
  static constexpr size_t kWriters = 5;

  CopiedDatabase(const Way& way, uint64_t seed, const std::string& folder, std::chrono::seconds patience,
                 CopyCounts* counts, const Verdict* verdict);
  CopiedDatabase(const CopiedDatabase&) = delete;
  CopiedDatabase& operator=(const CopiedDatabase&) = delete;

  const std::string& text() const { return setup_.text; }
  void Begin();
  // One call fails; then all writers go on, within the patience.
  void FailOnce();
  // Nothing is slow any more: all threads end, and the database and a copy of it hold what they must.
  void End();
  // To see that a loss is seen. REQUIRES: before End.
  void PretendOneMore() { pretends_ = true; }

 private:
  class Listener;
  struct Copy {
    std::string folder, what;
    bool durably = false;  // what is not synced may be lacking: a Rollback, too
    Account account;
  };

  // The threads.
  void WriteOn(size_t writer, uint64_t seed);
  void SyncOn(uint64_t seed);
  void OperateOn(uint64_t seed);
  void JudgeOn();

  rocksdb::Status WriteBatchOf(size_t writer, uint64_t n, const rocksdb::WriteOptions& options,
                               const std::string& value);
  rocksdb::Status WriteTransactionOf(size_t writer, uint64_t n, const rocksdb::WriteOptions& options,
                                     const std::string& value, test::Random* random);
  void RollBack(rocksdb::Transaction* transaction);
  void Operate(test::Random* random);
  void MakeFamily(test::Random* random);
  void Ingest();
  void ReadSnapshot(test::Random* random);
  void MakeCheckpoint(bool flushes);
  void MakeCopy(const std::string& when, bool loses_unsynced);
  // By chance one that loses what is not synced.
  void MakeSomeCopy(const std::string& when);
  // The listener's: now and then.
  void MakeCopyOneIn(uint64_t n, const char* when);

  Account Look(bool durably) const;
  // What a copy must hold: taken before it is begun, and when it is finished.
  void BeginAccount(Copy* copy) const { copy->account = Look(copy->durably); }
  void FinishAccount(Copy* copy) const { copy->account.ForgetEnded(Look(copy->durably)); }
  // False if the judge has enough to do. The folder's name is new.
  bool BeginCopy(Copy* copy);
  void HandOver(Copy&& copy);
  // Its account is what it holds afterwards.
  void Judge(Copy* copy);
  void JudgeAgain(const Setup& setup, const std::string& folder, Copy* copy);
  // What is rolled back over the newest keys, and what is written behind a snapshot, changes neither.
  void RollBackOver(const OpenDatabase& opened, const Copy& copy);
  void WriteBehindSnapshot(const OpenDatabase& opened, const Copy& copy);
  void Compare(const OpenDatabase& db, const Account& account, const std::string& what,
               const rocksdb::Snapshot* snapshot = nullptr) const;
  // It is well, as what is done to a copy must be.
  void Expect(const rocksdb::Status& s, const Copy& copy, const std::string& what) const;
  bool ComparesUpdates() const;
  void CompareUpdates();
  Fault SomeFault();
  void AwaitProgress(Fault fault);
  uint64_t Uniform(uint64_t n);

  const std::string folder_, path_;
  const std::chrono::seconds patience_;
  CopyCounts* const counts_;
  const Verdict* const verdict_;
  Watch watch_;
  const std::shared_ptr<SlowDisk> disk_;
  const std::unique_ptr<rocksdb::Env> env_;
  std::mutex random_mu_;
  test::Random random_;  // under random_mu_
  Setup setup_;
  bool failed_may_return_ = false;

  OpenDatabase db_;
  std::array<Ledger, kWriters> ledgers_;
  std::atomic<uint64_t> ingested_{0};
  std::atomic<bool> ends_{false}, judges_{true}, pretends_{false}, stopped_{false};
  std::vector<std::thread> threads_;
  std::thread judge_;

  std::mutex copies_mu_;
  std::deque<Copy> copies_;    // under copies_mu_
  uint64_t begun_copies_ = 0;  // under copies_mu_
  uint64_t waiting_ = 0;       // under copies_mu_: copies that are made, or wait, or are judged
};

}  // namespace errors
}  // namespace cairn
