// Tells the partitioner of a trie in key order where the compaction that runs on this thread is to be cut, and its
// tables where range deletions are.
//
// RocksDB makes the partitioner of CompactFiles on the thread that calls it, and hands it nothing of the caller's.
//
// Thread-safety: of a scope, the thread that made it.

#pragma once

#include <memory>

#include "rocksdb/comparator.h"
#include "table/deletion_cuts.h"
#include "trie_table/compaction/key_cuts.h"

namespace cairn {

class KeyJobScope {
 public:
  KeyJobScope(const rocksdb::Comparator* comparator, std::shared_ptr<const KeyCuts> cuts);
  ~KeyJobScope();
  KeyJobScope(const KeyJobScope&) = delete;
  KeyJobScope& operator=(const KeyJobScope&) = delete;

  // Whether this thread's compaction is one that a trie's scheduler has chosen, in whatever order.
  static bool IsOpen();
  // Of this thread's compaction; null if it is none of a trie in key order.
  static std::unique_ptr<KeyCutter> NewCutter();

 private:
  const rocksdb::Comparator* const comparator_;
  const std::shared_ptr<const KeyCuts> cuts_;
  const DeletionCutsScope deletion_cuts_;
  KeyJobScope* const outer_;
};

}  // namespace cairn
