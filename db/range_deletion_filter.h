// Takes range deletions on tries out of a write-ahead log while it is replayed.
//
// RocksDB refuses a range deletion on a table format that does not support it only after it has written it into the
// WAL; the write fails, and so does every later open, at the replay. cairn::Open refuses such a write beforehand, but a
// program that opened the database by rocksdb::DB::Open may have left one. Nobody was told that it had succeeded.
//
// Thread-safety: none; serves one open. It must outlive the database.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "rocksdb/wal_filter.h"
#include "rocksdb/write_batch.h"

namespace cairn {

class RangeDeletionFilter : public rocksdb::WalFilter {
 public:
  explicit RangeDeletionFilter(std::set<std::string> tries) : tries_(std::move(tries)) {}

  const char* Name() const override { return "cairn.RangeDeletionFilter"; }
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& log_numbers,
                                const std::map<std::string, uint32_t>& ids) override;
  // A batch with two-phase-commit markers is passed on as it is: RocksDB does not take range deletions in those.
  WalProcessingOption LogRecordFound(unsigned long long log_number, const std::string& log_name,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* new_batch,
                                     bool* batch_changed) override;

 private:
  const std::set<std::string> tries_;
  std::set<uint32_t> trie_ids_;
};

}  // namespace cairn
