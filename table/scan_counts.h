// What seeks of iterators have read of each table of one open database: a trie in key order merges what is scanned
// again and again. A count lives as long as the table's reader and is lost with it.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "util/mutex.h"

namespace cairn {

class ScanCounts {
 public:
  // Of one open table.
  class Table {
   public:
    // block_bytes: what a seek reads of it.
    Table(std::shared_ptr<ScanCounts> counts, uint64_t number, uint64_t block_bytes);
    ~Table();
    Table(const Table&) = delete;
    Table& operator=(const Table&) = delete;

    // Counts so many seeks that read a block, by one call in 16: the threads of a scanned range share the count.
    void Add(uint64_t seeks);

   private:
    friend class ScanCounts;
    const std::shared_ptr<ScanCounts> counts_;
    const uint64_t number_;
    const uint64_t block_bytes_;
    std::atomic<uint64_t> bytes_{0};  // in no order with anything else
  };

  // Of the open database with this session id; made at first use.
  static std::shared_ptr<ScanCounts> Of(const std::string& db_session_id);

  // Bytes that seeks have read of all tables, those that have been closed included.
  uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  // By table; what was not read is not there.
  std::unordered_map<uint64_t, uint64_t> ByTable() const;

 private:
  mutable CheckedMutex mutex_;
  std::set<std::pair<uint64_t, const Table*>> tables_ CAIRN_GUARDED_BY(mutex_);  // a table may be open twice
  std::atomic<uint64_t> total_{0};                                               // in no order with anything else
};

}  // namespace cairn
