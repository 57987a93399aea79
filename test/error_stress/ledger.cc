#include "test/error_stress/ledger.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <sstream>

#include "util/coding.h"

namespace cairn {
namespace errors {
namespace {

// Of one writer, in one family.
struct Found {
  std::set<uint64_t> writes;
  uint64_t newest = 0;
  uint64_t counter = 0;
  bool has_odd_key = false;
};

// Of all families and writers, and the ingested keys.
struct Contents {
  std::vector<std::vector<Found>> families;
  std::set<uint64_t> ingested;
  uint64_t newest_ingested = 0;
};

std::string Key(char kind, size_t writer, uint64_t n) {
  char text[32];
  std::snprintf(text, sizeof text, "%c%zu_%08" PRIu64, kind, writer, n);
  return text;
}

rocksdb::Status Read(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const rocksdb::Snapshot* snapshot,
                     Contents* contents) {
  std::vector<Found>* const writers = &contents->families.back();
  rocksdb::ReadOptions how;
  how.snapshot = snapshot;
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(how, family));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string key = it->key().ToString();
    const uint64_t n = std::strtoull(key.c_str() + 3, nullptr, 10);
    Found& found = (*writers)[key[1] - '0'];
    if (key[0] == 'k') found.writes.insert(n);
    if (key[0] == 'n') found.newest = std::strtoull(it->value().ToString().c_str(), nullptr, 10);
    if (key[0] == 'c') found.counter = rocksdb::DecodeFixed64(it->value().data());
    if (key[0] == 'o') found.has_odd_key = true;
    if (key[0] == 'i' && n > 0) contents->ingested.insert(n);
    if (key[0] == 'i' && n == 0) contents->newest_ingested = std::strtoull(it->value().ToString().c_str(), nullptr, 10);
  }
  return it->status();
}

// A Get finds what an iterator has found.
void CompareGets(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, const rocksdb::Snapshot* snapshot, size_t writer,
                 const Found& found, const std::string& where, std::ostream* wrong) {
  rocksdb::ReadOptions how;
  how.snapshot = snapshot;
  const auto get = [&](const std::string& key, std::string* value) {
    const rocksdb::Status s = db->Get(how, family, key, value);
    if (!s.ok() && !s.IsNotFound()) *wrong << where << ": Get of " << key << ": " << s.ToString() << "\n";
    return s.ok();
  };
  std::string value;
  const uint64_t newest = get(NewestKeyOf(writer), &value) ? std::strtoull(value.c_str(), nullptr, 10) : 0;
  const uint64_t counter = get(CounterOf(writer), &value) ? rocksdb::DecodeFixed64(value.data()) : 0;
  const bool has_odd_key = get(OddKeyOf(writer), &value);
  if (newest != found.newest || counter != found.counter || has_odd_key != found.has_odd_key) {
    *wrong << where << ": Get finds the newest " << newest << ", the counter " << counter
           << (has_odd_key ? ", and" : ", not") << " the key of odd writes; an iterator " << found.newest << ", "
           << found.counter << (found.has_odd_key ? ", and that key\n" : ", and not that key\n");
  }
}

// A batch is there as a whole: its keys agree.
void CompareKeys(const Found& found, const std::string& where, std::ostream* wrong) {
  const uint64_t newest = found.writes.empty() ? 0 : *found.writes.rbegin();
  if (found.newest != newest) {
    *wrong << where << ": the newest is said to be " << found.newest << " and is " << newest << "\n";
  }
  if (found.counter != found.writes.size()) {
    *wrong << where << ": the counter says " << found.counter << " of " << found.writes.size() << " writes\n";
  }
  if (found.has_odd_key != (newest % 2 == 1)) {
    *wrong << where << ": the key of odd writes is " << (found.has_odd_key ? "there" : "not there") << " behind "
           << newest << "\n";
  }
}

void CompareOutcomes(const Found& found, const Ledger::View& view, bool failed_may_return, const std::string& where,
                     std::ostream* wrong) {
  uint64_t missing = 0;  // the first acknowledged one that is not there
  for (uint64_t n = 1; n <= view.outcomes.size(); ++n) {
    const bool is_there = found.writes.count(n) > 0;
    const Outcome outcome = view.outcomes[n - 1];
    if (outcome == Outcome::kRefuted && is_there && !failed_may_return) {
      *wrong << where << ": write " << n << " has failed, a later one was acknowledged, and it is there\n";
      return;
    }
    if (outcome != Outcome::kAcknowledged) continue;
    if (is_there && missing > 0) {
      *wrong << where << ": the acknowledged write " << missing << " is missing before " << n << "\n";
      return;
    }
    if (!is_there && missing == 0) missing = n;
  }
  if (missing > 0 && missing <= view.kept) {
    *wrong << where << " is lost from the acknowledged write " << missing << " on; acknowledged was " << view.kept
           << "\n";
  }
}

std::set<uint64_t> AcknowledgedOf(const std::set<uint64_t>& writes, const std::vector<Outcome>& outcomes) {
  std::set<uint64_t> acknowledged;
  for (const uint64_t n : writes) {
    if (n <= outcomes.size() && outcomes[n - 1] == Outcome::kAcknowledged) acknowledged.insert(n);
  }
  return acknowledged;
}

}  // namespace

uint64_t Ledger::Begin() {
  const std::lock_guard<std::mutex> lock(mu_);
  outcomes_.push_back(Outcome::kUnderWay);
  return outcomes_.size();
}

void Ledger::End(bool ok, bool durable) {
  const std::lock_guard<std::mutex> lock(mu_);
  outcomes_.back() = ok ? Outcome::kAcknowledged : Outcome::kFailed;
  if (!ok) return;
  acknowledged_ = outcomes_.size();
  if (durable) durable_ = acknowledged_;
  for (size_t i = outcomes_.size() - 1; i > 0 && outcomes_[i - 1] == Outcome::kFailed; --i) {
    outcomes_[i - 1] = Outcome::kRefuted;
  }
}

void Ledger::Prepare(bool durable) {
  const std::lock_guard<std::mutex> lock(mu_);
  outcomes_.back() = Outcome::kPrepared;
  prepared_durably_ = durable;
}

void Ledger::BeginEnd() {
  const std::lock_guard<std::mutex> lock(mu_);
  outcomes_.back() = Outcome::kUnderWay;
}

void Ledger::KeepDurably(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mu_);
  durable_ = std::max(durable_, number);
}

uint64_t Ledger::acknowledged() const {
  const std::lock_guard<std::mutex> lock(mu_);
  return acknowledged_;
}

Ledger::View Ledger::Look(bool durably) const {
  const std::lock_guard<std::mutex> lock(mu_);
  const bool is_prepared =
      !outcomes_.empty() && outcomes_.back() == Outcome::kPrepared && (!durably || prepared_durably_);
  return {outcomes_, durably ? durable_ : acknowledged_, is_prepared ? outcomes_.size() : 0};
}

void Ledger::PretendOneMore() {
  Begin();
  End(true, true);
}

void Account::ForgetEnded(const Account& later) {
  for (size_t writer = 0; writer < writers.size(); ++writer) {
    if (writers[writer].prepared != later.writers[writer].prepared) writers[writer].prepared = 0;
  }
}

size_t FamiliesOf(size_t writer, size_t families) { return writer % 3 == 2 ? 1 : families; }
std::string KeyOf(size_t writer, uint64_t n) { return Key('k', writer, n); }
std::string NewestKeyOf(size_t writer) { return Key('n', writer, 0); }
std::string CounterOf(size_t writer) { return Key('c', writer, 0); }
std::string OddKeyOf(size_t writer) { return Key('o', writer, 0); }
std::string IngestedKey(uint64_t n) { return Key('i', 0, n); }

std::string OneMore() {
  std::string one;
  rocksdb::PutFixed64(&one, 1);
  return one;
}

std::string NameOf(size_t writer, uint64_t n) { return Key('t', writer, n); }

std::string EndPrepared(rocksdb::TransactionDB* db, Account* account, bool failed_may_be) {
  std::ostringstream wrong;
  std::vector<rocksdb::Transaction*> found;
  db->GetAllPreparedTransactions(&found);
  std::set<std::string> names;
  for (rocksdb::Transaction* const transaction : found) {
    const std::unique_ptr<rocksdb::Transaction> owned(transaction);
    const std::string name = transaction->GetName();
    names.insert(name);
    Ledger::View* const view = &account->writers[name[1] - '0'];
    const uint64_t n = std::strtoull(name.c_str() + 3, nullptr, 10);
    // What began later is in no account.
    Outcome ignored = Outcome::kUnderWay;
    Outcome* const outcome = n <= view->outcomes.size() ? &view->outcomes[n - 1] : &ignored;
    if (*outcome == Outcome::kRefuted && !failed_may_be) {
      wrong << name << " has failed, a later write was acknowledged, and it is prepared\n";
    }
    // One that is under way may fail yet; what of it is there may be in some families only, where that may be.
    const bool may_commit = *outcome == Outcome::kPrepared || (*outcome == Outcome::kUnderWay && !failed_may_be);
    const bool commits = *outcome == Outcome::kAcknowledged || (may_commit && n % 2 == 0);
    const rocksdb::Status s = commits ? transaction->Commit() : transaction->Rollback();
    if (!s.ok()) wrong << (commits ? "Commit of " : "Rollback of ") << name << ": " << s.ToString() << "\n";
    *outcome = commits ? Outcome::kAcknowledged : Outcome::kRefuted;
    if (commits && n <= view->outcomes.size()) view->kept = std::max(view->kept, n);
  }
  for (size_t writer = 0; writer < account->writers.size(); ++writer) {
    const uint64_t prepared = account->writers[writer].prepared;
    if (prepared > 0 && names.count(NameOf(writer, prepared)) == 0) {
      wrong << NameOf(writer, prepared) << " was prepared, and is lost\n";
    }
  }
  return wrong.str();
}

std::string WhatIsWrong(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& families,
                        const Account& account, bool failed_may_return, const rocksdb::Snapshot* snapshot) {
  std::ostringstream wrong;
  Contents contents;
  for (rocksdb::ColumnFamilyHandle* family : families) {
    contents.families.emplace_back(account.writers.size());
    const rocksdb::Status s = Read(db, family, snapshot, &contents);
    if (!s.ok()) return "Iterator: " + s.ToString() + "\n";
  }
  for (size_t writer = 0; writer < account.writers.size(); ++writer) {
    const size_t span = FamiliesOf(writer, families.size());
    for (size_t family = 0; family < span; ++family) {
      const std::string where = "writer " + std::to_string(writer) + ", family " + std::to_string(family);
      const Found& found = contents.families[family][writer];
      CompareKeys(found, where, &wrong);
      CompareGets(db, families[family], snapshot, writer, found, where, &wrong);
      CompareOutcomes(found, account.writers[writer], failed_may_return, where, &wrong);
      const std::vector<Outcome>& outcomes = account.writers[writer].outcomes;
      const std::set<uint64_t>& first = contents.families[0][writer].writes;
      if (failed_may_return ? AcknowledgedOf(found.writes, outcomes) != AcknowledgedOf(first, outcomes)
                            : found.writes != first) {
        wrong << where << ": has not what the first one has\n";
      }
    }
  }
  for (uint64_t n = 1; n <= account.ingested; ++n) {
    if (contents.ingested.count(n) == 0) wrong << "The ingested key " << n << " is lost\n";
  }
  const uint64_t newest = std::max(account.ingested, account.written_behind);
  if (contents.newest_ingested < newest) {
    wrong << "What was ingested last is said to be " << contents.newest_ingested << " and is " << newest << "\n";
  }
  return wrong.str();
}

}  // namespace errors
}  // namespace cairn
