// What one thread writes to a database, and whether a database holds of it what it must.

#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/utilities/transaction_db.h"

namespace cairn {
namespace errors {

enum class Outcome : char {
  kUnderWay,
  kPrepared,  // a transaction that is to be committed next, or rolled back
  kAcknowledged,
  kFailed,   // may be there all the same
  kRefuted,  // has failed, and the thread's next write was acknowledged: cannot come back any more
};

// Thread-safe. One thread writes, and its writes are numbered from 1.
class Ledger {
 public:
  struct View {
    std::vector<Outcome> outcomes;  // of the writes 1, 2, ...
    uint64_t kept = 0;              // what was acknowledged up to this one is there
    uint64_t prepared = 0;          // a transaction that is; 0: none
  };

  uint64_t Begin();
  // Of the newest. durable: whether an acknowledged one survives a loss of power.
  void End(bool ok, bool durable);
  // Of the newest: it is prepared, until what ends it begins.
  void Prepare(bool durable);
  void BeginEnd();
  // Whatever was acknowledged up to this one survives a loss of power.
  void KeepDurably(uint64_t number);
  uint64_t acknowledged() const;
  // What a copy that is made from now on must hold.
  View Look(bool durably) const;
  // Of a write that never was, to see that a loss is seen.
  void PretendOneMore();

 private:
  mutable std::mutex mu_;
  std::vector<Outcome> outcomes_;
  uint64_t acknowledged_ = 0;
  uint64_t durable_ = 0;
  bool prepared_durably_ = false;
};

// What all wrote, and how many keys were ingested.
struct Account {
  // Who is not prepared any more in a later one may have been ended between the two.
  void ForgetEnded(const Account& later);

  std::vector<Ledger::View> writers;
  uint64_t ingested = 0;
  uint64_t written_behind = 0;  // what the newest of the ingested was overwritten with since; 0: nothing
};

// Families that a writer writes to, from the first.
size_t FamiliesOf(size_t writer, size_t families);

// The n-th write of a writer: to each of its families a key of its own, the number of the newest, one more in a counter, of a
// UInt64AddOperator, and a key that each second write deletes. `Batch`: a WriteBatch or a transaction.
std::string KeyOf(size_t writer, uint64_t n);
std::string NewestKeyOf(size_t writer);
std::string CounterOf(size_t writer);
std::string OddKeyOf(size_t writer);  // there behind odd writes
std::string OneMore();
std::string IngestedKey(uint64_t n);  // from 1; that of 0 has the number of the newest

template <class Batch>
rocksdb::Status Fill(Batch* batch, const std::vector<rocksdb::ColumnFamilyHandle*>& families, size_t writer, uint64_t n,
                     const std::string& value) {
  rocksdb::Status s;
  for (size_t family = 0; s.ok() && family < FamiliesOf(writer, families.size()); ++family) {
    s = batch->Put(families[family], KeyOf(writer, n), value);
    if (s.ok()) s = batch->Put(families[family], NewestKeyOf(writer), std::to_string(n));
    if (s.ok()) s = batch->Merge(families[family], CounterOf(writer), OneMore());
    if (s.ok() && n % 2 == 1) s = batch->Put(families[family], OddKeyOf(writer), value);
    if (s.ok() && n % 2 == 0) s = batch->Delete(families[family], OddKeyOf(writer));
  }
  return s;
}

// Ends what a database that was just opened has prepared, the transactions that NameOf says: what the account takes for
// acknowledged is committed, what has failed rolled back, and of others one or the other; the account says so afterwards.
// failed_may_be: transactions that have failed, or were rolled back, may be prepared. Empty, or what is wrong.
std::string NameOf(size_t writer, uint64_t n);
std::string EndPrepared(rocksdb::TransactionDB* db, Account* account, bool failed_may_be);

// Empty if the database, or a snapshot of it, holds what it must, else what is wrong with it. failed_may_return: writes that have
// failed may be there, and in some families only.
std::string WhatIsWrong(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families,
                        const Account& account, bool failed_may_return, const rocksdb::Snapshot* snapshot = nullptr);

}  // namespace errors
}  // namespace cairn
