// What can be done in a trie in key order without writing a table: tables that range deletions cover are removed, and
// tables come to a deeper level where nothing lies in between. Both go before all that is written.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <unordered_map>

#include "trie_table/compaction/key_job_maker.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

class KeyMoves {
 public:
  // `shape` must outlive it.
  explicit KeyMoves(const KeyShape* shape) : shape_(shape) {}

  // All that is possible now, as one job. False: nothing is.
  bool PickDrops(TrieJob* job);
  bool PickMoves(const KeySizes& sizes, TrieJob* job);

  // To be called when another root is due than before, when the oldest snapshot has changed, and after each compaction.
  void RootChanged() { nothing_to_move_at_ = UINT64_MAX; }
  void SnapshotsChanged();
  void Finished(const TrieJob& job, bool ok);

 private:
  void MoveOffRoot(const KeySizes& sizes, TrieJob* job) const;
  bool AddMove(const TrieFile& file, int level, TrieJob* job) const;
  int LowestFreeLevel(const TrieFile& file) const;

  const KeyShape* const shape_;
  uint64_t nothing_to_move_at_ = UINT64_MAX;  // a version of the shape

  // Files with range deletions that cover no table any more which could be removed. kSnapshot, kBusy: something keeps
  // some, and it is tried again when the oldest snapshot has changed, or when a compaction has ended.
  enum class Dropped { kAll, kSnapshot, kBusy };
  std::unordered_map<uint64_t, Dropped> dropped_;
};

}  // namespace cairn
