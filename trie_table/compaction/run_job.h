// Runs one compaction that a plan has chosen in RocksDB, on the thread that calls it.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/status.h"
#include "table/deletion_cuts.h"
#include "trie_table/compaction/key_cuts.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

struct JobOutput {
  uint64_t bytes = 0;
  std::vector<uint64_t> tables;
};

// Moves tables where the job writes none. Listeners hear of what is written, as of RocksDB's own compactions. Aborted
// if others were faster: see IsConflict.
rocksdb::Status RunJob(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family, const TrieJob& job, JobOutput* output);

// Somebody else was faster. That a block cache has no room is Aborted, too.
inline bool IsConflict(const rocksdb::Status& s) { return s.IsAborted() && !s.IsMemoryLimit(); }

// Of the tables that a job writes, whose inputs reach from `smallest` to `largest`: last_level_temperature where
// nothing older lies below them, since that, and not RocksDB's last level, is where a trie's data ends up; else
// kUnknown, and the options say it of all tables.
rocksdb::Temperature OutputTemperature(const rocksdb::MutableCFOptions& options, rocksdb::VersionStorageInfo* storage,
                                       const rocksdb::InternalKey& smallest, const rocksdb::InternalKey& largest,
                                       int output_level);

// One more than its sequence number, which is 0 in a database without writes. 0: there is none.
uint64_t OldestSnapshot(rocksdb::DB* db);

// What RocksDB's CompactFiles has no parameter for, of the compaction that a trie's scheduler runs on this thread:
// where a trie in key order is cut, and its tables where range deletions are; why it runs; and what listeners are told.
//
// RocksDB makes the compaction and its partitioner on the thread that calls it.
class TrieJobScope {
 public:
  // `job` must outlive it.
  TrieJobScope(rocksdb::DBImpl* db, const rocksdb::Comparator* comparator, const TrieJob& job);
  ~TrieJobScope();
  TrieJobScope(const TrieJobScope&) = delete;
  TrieJobScope& operator=(const TrieJobScope&) = delete;

  // Of this thread's compaction, if a trie's scheduler has chosen it, in whatever order; else null.
  static TrieJobScope* Current();
  // Of this thread's compaction; null if it is none of a trie in key order.
  static std::unique_ptr<KeyCutter> NewCutter();

  rocksdb::DBImpl* db() const { return db_; }
  const TrieJob& job() const { return job_; }
  // RocksDB's, from when it is made until CompactFiles returns.
  rocksdb::Compaction* compaction = nullptr;
  bool is_told = false;  // listeners have heard that it begins

 private:
  rocksdb::DBImpl* const db_;
  const rocksdb::Comparator* const comparator_;
  const TrieJob& job_;
  const DeletionCutsScope deletion_cuts_;
  TrieJobScope* const outer_;
};

}  // namespace cairn
