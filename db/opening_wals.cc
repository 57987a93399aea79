// What an opening reads of a database's WALs, and what comes of that: the definitions that take the place of RocksDB's own
// (rocksdb/port/rocksdb_own.h).

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "db/db_impl/db_impl_secondary.h"
#include "db/unread_wals.h"
#include "file/filename.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/write_batch.h"

extern "C" {
extern const int cairn_opening_wals;
const int cairn_opening_wals = 1;
}

namespace cairn {
namespace {

// While this thread reads a database's WALs. A listener may open another database meanwhile.
class WalReading {
 public:
  explicit WalReading(rocksdb::DBImpl* db) : db_(db), outer_(newest_) { newest_ = this; }
  ~WalReading() { newest_ = outer_; }
  WalReading(const WalReading&) = delete;
  WalReading& operator=(const WalReading&) = delete;

  // How many entries it has read of each.
  std::map<uint64_t, uint64_t>& entries() { return entries_; }
  // A filter had it read no further: another opening may.
  void SetStoppedByFilter() { stopped_by_filter_ = true; }
  bool stopped_by_filter() const { return stopped_by_filter_; }

  static WalReading* Find(const rocksdb::DBImpl* db) {
    WalReading* reading = newest_;
    while (reading != nullptr && reading->db_ != db) reading = reading->outer_;
    return reading;
  }
  // The database that has found this batch prepared, or null.
  static rocksdb::DBImpl* FindOf(const rocksdb::WriteBatch* batch) {
    if (newest_ == nullptr) return nullptr;
    for (const auto& [name, transaction] : newest_->db_->recovered_transactions()) {
      for (const auto& [number, part] : transaction->batches_) {
        if (part.batch_ == batch) return newest_->db_;
      }
    }
    return nullptr;
  }

 private:
  static thread_local WalReading* newest_;
  rocksdb::DBImpl* const db_;
  WalReading* const outer_;
  std::map<uint64_t, uint64_t> entries_;
  bool stopped_by_filter_ = false;
};
thread_local WalReading* WalReading::newest_ = nullptr;

}  // namespace
}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// Before the MANIFEST tells what was recovered. Who passes over damage has read more, or less, than is counted.
Status DBImpl::RecoverLogFiles(const std::vector<uint64_t>& wals, SequenceNumber* next, bool read_only, bool is_retry,
                               bool* damaged, RecoveryContext* context) {
  const uint64_t oldest = MinLogNumberToKeep();
  cairn::WalReading reading(this);
  Status s = own::RecoverLogFiles(this, wals, next, read_only, is_retry, damaged, context);
  if (!s.ok() || read_only || damaged == nullptr || !*damaged || !allow_2pc()) return s;
  const bool passes_over = CAIRN_VERIFIES_WALS || !immutable_db_options_.paranoid_checks;
  if (passes_over || reading.stopped_by_filter()) return s;
  std::vector<cairn::ReadWal> read;
  const auto& of_known_size = versions_->GetWalSet().GetWals();
  for (const uint64_t wal : wals) {
    if (wal < oldest) continue;
    const bool keep_size = immutable_db_options_.track_and_verify_wals_in_manifest || of_known_size.count(wal) > 0;
    read.push_back({LogFileName(immutable_db_options_.GetWalDir(), wal), wal, reading.entries()[wal], keep_size});
  }
  return cairn::EraseUnread(immutable_db_options_.fs.get(), read, immutable_db_options_.logger);
}

bool DBImpl::InvokeWalFilterIfNeededOnWalRecord(uint64_t wal, const std::string& path, log::Reader::Reporter& reporter,
                                                Status& status, bool& stop, WriteBatch& entry) {
  cairn::WalReading* const reading = cairn::WalReading::Find(this);
  if (reading != nullptr) ++reading->entries()[wal];
  const bool applies = own::FilterWalEntry(this, wal, path, reporter, status, stop, entry);
  if (reading != nullptr && (stop || !status.ok())) reading->SetStoppedByFilter();
  return applies;
}

Status DBImplSecondary::RecoverLogFiles(const std::vector<uint64_t>& wals, SequenceNumber* next,
                                        std::unordered_set<ColumnFamilyData*>* changed, JobContext* job) {
  const cairn::WalReading reading(this);
  return own::RecoverSecondaryLogFiles(this, wals, next, changed, job);
}

// Who reads a Commit with a timestamp asks each family that the transaction has written to for the size of its timestamps. That was
// the end of the process where one was dropped since, or was not opened (read-only).
Status WriteBatch::UpdateTimestamps(const Slice& timestamp, std::function<size_t(uint32_t)> size_of) {
  DBImpl* const db = cairn::WalReading::FindOf(this);
  if (db == nullptr) return own::UpdateTimestamps(this, &timestamp, &size_of);
  ColumnFamilySet* const families = db->GetVersionSet()->GetColumnFamilySet();
  std::function<size_t(uint32_t)> size_of_any = [&](uint32_t family) {
    return families->GetColumnFamily(family) == nullptr ? 0 : size_of(family);
  };
  return own::UpdateTimestamps(this, &timestamp, &size_of_any);
}

}  // namespace rocksdb
