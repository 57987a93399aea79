// What snapshots keep of a trie's tables: it counts as live as long as they do. Else the space bound would have the
// same bytes written again and again, and writers wait for it. A table tells how many older versions of its keys it
// holds. What compactions for space have not freed, though they were to, is kept until the oldest snapshot changes.
// And which values have expired, which count as deleted.
//
// Tables are named by their numbers, so it serves a trie in either order.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

class SnapshotLedger {
 public:
  // One more than the oldest snapshot's sequence number; 0: there is none.
  uint64_t oldest() const { return oldest_; }
  // True if that is another than before.
  bool SetOldest(uint64_t oldest);

  // Values with a stamp of DBWithTTL below this have expired.
  uint64_t expired_before() const { return expired_before_; }
  void SetExpiredBefore(uint64_t stamp) { expired_before_ = stamp; }

  // Whether a snapshot may see what an entry of this sequence number is newer than.
  bool SeesBefore(uint64_t sequence) const { return oldest_ != 0 && oldest_ <= sequence; }

  // Tables come and go.
  void Add(const TrieFile& file);
  void Remove(uint64_t number) { older_.erase(number); }
  // The part of a table that would be left if it were written again by itself.
  double NewestOf(const TrieFile& file) const { return SeesBefore(file.largest_sequence) ? 1 : file.newest; }
  // Whether the release of the oldest snapshot lets a compaction free something.
  bool IsAwaited() const;

  // The part of a table that stays whatever lies above it.
  double ShareOf(uint64_t number) const;

  // What was kept of the inputs goes along with what is written, and what a compaction for space has not freed, though
  // it was to, is kept as well. True if that is anything.
  bool Learn(const TrieJob& job, uint64_t output_bytes, const std::vector<const TrieFile*>& outputs);

  void Forget(uint64_t number) { kept_.erase(number); }

 private:
  struct Kept {
    uint64_t snapshot = 0;  // the oldest one
    double share = 0;       // of the table
    double bytes = 0;
  };
  Kept Of(uint64_t number) const;

  uint64_t oldest_ = 0;
  uint64_t expired_before_ = 0;
  std::unordered_map<uint64_t, Kept> kept_;
  std::unordered_map<uint64_t, uint64_t> older_;  // by table that holds what snapshots may keep: its largest_sequence
};

}  // namespace cairn
