// Chooses the next compaction of a trie. Knows files and estimates, not RocksDB: a function of the shape and of what it
// has learnt from earlier compactions.
//
// What it chooses, most urgent first (a score of 1 is "due"):
//   - the root, when level 0 has root_trigger files: score = files / root_trigger
//   - a full container (`trigger` occupied slots): score = slots / trigger
//   - a container that holds one of WantedTables, after all that is due: score = as above
//   - a container without a free slot that keeps its parent from moving: 10 more
//   - containers that lie so high that their parent would run out of slots before they are full: 10 more; they are
//     merged in place, into the oldest slot, and their parent waits for that
//   - a file that spans containers is split where it lies: when its parts are of a sensible size (trie_ingestion.h), or
//     when it lies in the way of something that is due, which it then precedes. Nothing else waits for it
//   - while the trie takes more than space_bound bytes per live byte: the compaction that frees most per byte it
//     writes; its score grows with the excess
//
// What becomes of a chosen container: it is pushed one depth deeper if anything lies below it or most of it is live,
// and merged in place, into the oldest slot of its depth, if not.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/snapshot_ledger.h"
#include "trie_table/compaction/space_ledger.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_space.h"
#include "trie_table/compaction/wanted_tables.h"

namespace cairn {

class HashPicker {
 public:
  // `shape` must outlive the picker. A trie of less than slack_bytes garbage is left alone whatever the bound. 0 write
  // buffer: every part of a file that spans is of a sensible size.
  HashPicker(const HashShape* shape, uint64_t slack_bytes, uint64_t write_buffer_bytes = 0)
      : shape_(shape), write_buffer_bytes_(write_buffer_bytes), ledger_(shape->trie(), slack_bytes) {}

  // False when nothing is due. The container of *job is not busy; the caller marks it before it picks again.
  bool Pick(TrieJob* job);

  // The next file that spans containers, of numbers up to `last`, if there is one that is not being split.
  bool PickSplit(uint64_t last, TrieJob* job) const;

  // The compaction of one container whatever its state; false when it is busy, empty, has no slot to go to, or is
  // already one table of live keys in the oldest slot, of a number beyond `rewritten`; or when a spanning file lies in
  // its way. For manual compaction.
  bool PickContainer(const ContainerId& id, TrieJob* job, uint64_t rewritten = 0);

  // To be called around each compaction. `oldest_snapshot` tells whether a merge that freed nothing may do better now.
  void Started(const TrieJob& job);
  void Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot);
  void SetOldestSnapshot(uint64_t oldest_snapshot);
  // Values with a stamp of DBWithTTL below this count as deleted.
  void SetExpiredBefore(uint64_t stamp);
  // Of what is chosen from here on.
  void SetSizes(uint64_t slack_bytes, uint64_t write_buffer_bytes);

  // SpaceLedger::Pressure; and 0 when no compaction runs nor could free space.
  double SpacePressure();

  std::map<int, DueContainers> PendingByDepth() const;

  // The latest estimate, made anew if the shape has changed.
  const TrieSpace& Space();

  WantedTables* wanted() { return &wanted_; }
  SnapshotLedger* snapshots() { return &snapshots_; }

 private:
  bool IsLeaf(const Container& container) const { return container.files_below == 0; }
  bool IsFull(const ContainerId& id, const Container& container) const;
  int FilledSlots(const ContainerId& id, const Container& container) const;
  TrieJob::Kind KindFor(const ContainerId& id, const Container& container);
  std::vector<ContainerId> ChildrenToMergeInPlace(const ContainerId& parent) const;
  bool WaitsForChildren(const ContainerId& parent, const Container& container) const;
  bool MakeJob(const ContainerId& id, const Container& container, TrieJob::Kind kind, TrieJob* job) const;
  static void MakeSplit(const HashShape& shape, const TrieFile& file, double score, TrieJob* job);
  bool PickLargestSplit(TrieJob* job) const;
  bool PickDueSplit(const std::map<uint64_t, double>& holding, TrieJob* best) const;
  bool IsSensible(const TrieFile& spanning_file) const;
  // Those that keep a container from moving, or its parent from writing to it.
  std::vector<uint64_t> SpanningFilesHolding(const ContainerId& id, TrieJob::Kind kind) const;
  // Under one of the container's files.
  bool HasOlderBelow(const ContainerId& id, const Container& container, const TrieFile& file) const;
  // Those that hold a wanted table which a compaction would bring further. Of spanning files that are wanted, *holding
  // gets the numbers.
  std::map<ContainerId, WantedTables::Why> WantedContainers(std::map<uint64_t, double>* holding);
  bool PickForSpace(TrieJob* job);
  bool PickForSpace(const TrieSpace& space, TrieJob* job);
  bool PickThatFrees(const TrieSpace& space, TrieJob* best);
  bool PickThatComesCloser(const TrieSpace& space, TrieJob* best) const;
  double NextFlush() const;
  bool IsFutile(const ContainerId& id, const Container& container) const;
  double CachedMergedShare(const ContainerId& id, const Container& container);
  std::vector<const TrieFile*> OutputsOf(const TrieJob& job) const;

  const HashShape* const shape_;
  uint64_t write_buffer_bytes_;
  SpaceLedger ledger_;

  struct Share {
    uint64_t version;
    double share;
  };
  std::map<ContainerId, Share> shares_;

  // Merges that freed too little. Not tried again before the oldest snapshot or the container changes.
  struct Futile {
    uint64_t container_version;
    uint64_t oldest_snapshot;
  };
  std::map<ContainerId, Futile> futile_;
  SnapshotLedger snapshots_;
  WantedTables wanted_;
};

}  // namespace cairn
