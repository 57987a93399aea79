// How much more than its live bytes a trie takes, and what it is allowed to take: the latest estimate, what running
// compactions are about to free, and what merges have shown about merge operands. The pickers ask it when to compact
// for space and how much to slow writers down; which compaction frees most is theirs to say.
//
// A compaction of RocksDB holds the Version that it began with: what others replace meanwhile stays on the disk until
// it ends. Where the bound counts what running compactions have written, it counts that, too (*held* below).
//
// Bytes and sizes are handed in, so it knows no shape and serves a trie in either order.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "cairn/trie.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_space.h"

namespace cairn {

class SpaceLedger {
 public:
  // A trie of less than slack_bytes garbage is left alone whatever the bound. largest_job: the most that a compaction
  // writes, if the bound counts what running compactions have written; else 0.
  SpaceLedger(const TrieOptions& trie, uint64_t slack_bytes, uint64_t largest_job = 0)
      : space_bound_(trie.space_bound),
        root_files_(trie.root_trigger),
        slack_bytes_(static_cast<double>(slack_bytes)),
        largest_job_(static_cast<double>(largest_job)) {}
  // From here on. root_files: of a full root. REQUIRES: largest_job is 0 if it was.
  void SetSizes(uint64_t slack_bytes, uint64_t largest_job, int root_files);

  // Bytes, by the latest estimate.
  uint64_t live() const { return space_.live; }

  // What is flushed while a compaction runs, expected from the sizes of the root's files: the median, because a file
  // that was ingested may be of any size. 0 without files.
  static double NextFlush(std::vector<uint64_t> sizes);

  // Whether a merge for space freed less than half of what the sketches promised: a snapshot holds the old versions.
  static bool FreedTooLittle(const TrieJob& job, uint64_t output_bytes);

  // Whether a trie of so many bytes calls for a fresh estimate, which costs tens of milliseconds: it has changed by a
  // part in 64.
  bool HasChanged(uint64_t bytes) const;

  // The estimate of the shape of this version and size; `estimate` makes it, from operand_share(), if the latest is of
  // another.
  const TrieSpace& Estimate(uint64_t version, uint64_t bytes, const std::function<TrieSpace(double)>& estimate);

  // The latest estimate is of something else by now.
  void Outdate() { version_ = UINT64_MAX; }

  // How much more the trie takes than makes compaction for space due, as a part of that; what running compactions free
  // is not counted. Nothing if it is not due.
  std::optional<double> Excess(double next_flush) const;

  // If it is due, has `pick` choose a compaction, and scores it. False if there is none.
  bool Pick(double next_flush, TrieJob* job, const std::function<bool(TrieJob*)>& pick);

  // Whether anything runs or could run that frees space: if not, it would not help to slow writers down.
  bool CanFree() const { return running_ > 0 || more_; }

  // 0 while the write buffer that is being flushed and the one that is being filled keep the space bound, 1 if a trie
  // of so many bytes has reached it. Also 0 where the bound allows less garbage than a root of write buffers.
  double Pressure(uint64_t bytes, double next_flush);

  // Whether a trie of so many bytes has room for what the compaction writes and for what writers may flush meanwhile,
  // beside what others are writing and holding. One always has.
  bool MayStart(const TrieJob& job, uint64_t bytes) const;

  // Whether it has room for that and the space bound is kept: for a compaction that need not be.
  bool HasRoom(const TrieJob& job, uint64_t bytes) const;

  // To be called around each compaction.
  void Started(const TrieJob& job);
  void Finished(const TrieJob& job, bool ok);

  // Learns what stays of merge operands that are folded from a merge for space. True if that changes what containers
  // are worth: the estimate is then made anew.
  bool Learn(const TrieJob& job, uint64_t output_bytes);

  // What stays of merge operands that are folded (trie_space.h).
  double operand_share() const { return operand_share_; }

  // Of tables that the trie does not have any more, and that running compactions hold.
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  struct Held {
    uint64_t bytes;
    std::set<uint64_t> by;  // numbers of compactions
  };

  double OutsideTheTrie() const { return static_cast<double>(being_written_ + held_bytes_); }
  double Reserve() const;
  double Allowed(double share) const;

  const double space_bound_;
  int root_files_;
  double slack_bytes_;
  double largest_job_;

  double operand_share_ = 0;  // as for counters, until a merge shows that more stays
  TrieSpace space_;
  uint64_t version_ = UINT64_MAX;  // of the shape when space_ was made
  uint64_t at_bytes_ = 0;          // its bytes then
  uint64_t being_freed_ = 0;       // by compactions under way
  uint64_t being_written_ = 0;     // by them
  int running_ = 0;                // compactions under way
  std::set<uint64_t> numbers_;     // of those of them that write
  std::vector<Held> held_;
  uint64_t held_bytes_ = 0;
  double flush_bytes_ = 0;  // the latest next_flush that was not 0
  bool more_ = false;       // the latest Pick found a compaction
};

}  // namespace cairn
