// What RocksDB's CompactFiles has no parameter for, of the compaction that a trie's scheduler runs on this thread:
// where a trie in key order is cut, and its tables where range deletions are; why it runs; and what listeners are told.
//
// RocksDB makes the compaction and its partitioner on the thread that calls it.
//
// Thread-safety: of a scope, the thread that made it.

#pragma once

#include <memory>

#include "db/db_impl/db_impl.h"
#include "rocksdb/comparator.h"
#include "table/deletion_cuts.h"
#include "trie_table/compaction/key_cuts.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

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
