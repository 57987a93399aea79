// Chooses the next compaction of a trie in key order: a function of the shape and of what it has learnt from earlier
// compactions, as HashPicker is for hash order. docs/design/ordered_trie.md gives the reasons.
//
// What it chooses, most urgent first (a score of 1 is "due"):
//   - older tables all of whose keys a range deletion covers: they are removed, which costs next to nothing
//   - tables that can come to a deeper level without being written, for the same reason
//   - the root, when level 0 has root_trigger files; in a small trie fewer (RootFilesFor), where files are small not as
//     few
//   - a container with `trigger` slots, or with as many bytes as a full root
//   - a container that holds one of WantedTables, after all that is due
//   - a container whose newest slot keeps the one above from moving: 10 more
//   - while the trie takes more than space_bound bytes per live byte: the compaction that frees most per byte it writes
//   - if there is nothing else to do: the merge that would have saved scans most per byte it writes
//
// KeyJobMaker (key_job_maker.h) says what becomes of a chosen container, and KeyMoves (key_moves.h) finds what need not
// be written.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trie_table/compaction/key_job_maker.h"
#include "trie_table/compaction/key_moves.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/scan_ledger.h"
#include "trie_table/compaction/snapshot_ledger.h"
#include "trie_table/compaction/space_ledger.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_space.h"
#include "trie_table/compaction/wanted_tables.h"

namespace cairn {

class KeyPicker {
 public:
  enum class Moves { kRewrite, kMove };  // whether the scheduler can move a table to another level

  // `shape` must outlive the picker. A trie of less than slack_bytes garbage is left alone whatever the bound.
  KeyPicker(const KeyShape* shape, uint64_t slack_bytes, uint64_t write_buffer_bytes, Moves moves)
      : shape_(shape),
        slack_bytes_(slack_bytes),
        write_buffer_bytes_(write_buffer_bytes),
        sizes_(shape->trie(), write_buffer_bytes, RootFilesFor(shape->trie(), 0, 0, write_buffer_bytes)),
        may_move_(moves == Moves::kMove),
        moves_(shape),
        job_maker_(shape, &sizes_),
        ledger_(shape->trie(), slack_bytes, sizes_.largest_job),
        scans_(shape->trie().scan_merge, sizes_.largest_job) {}

  // False when nothing is due. The caller begins the job in the shape before it picks again, or leaves it: then it is
  // due as before.
  bool Pick(TrieJob* job);

  // For a manual compaction, which goes from depth to depth: the next compaction of what lies at `depth` and has keys
  // of the range (null: all). `newest`: the newest file when it came to the depth. Newer ones came later, and it need
  // not wait for them, or are its own. Those up to `rewritten` it takes whatever is in them.
  ManualStep PickManual(int depth, const KeyRange* range, uint64_t newest, TrieJob* job, uint64_t rewritten = 0);

  void Started(const TrieJob& job);
  void Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot);
  void SetOldestSnapshot(uint64_t oldest_snapshot);
  void SetExpiredBefore(uint64_t stamp);
  void SetSizes(uint64_t slack_bytes, uint64_t write_buffer_bytes);

  ScanLedger* scans() { return &scans_; }
  WantedTables* wanted() { return &wanted_; }
  SnapshotLedger* snapshots() { return &snapshots_; }
  // Whether seeks have read so much since scans were last a reason to look for a merge that they may be one again.
  bool HasScanNews() const;

  // As HashPicker's.
  double SpacePressure();
  // Of tables that the trie does not have any more, and that running compactions hold.
  uint64_t held_bytes() const { return ledger_.held_bytes(); }
  std::map<int, DueContainers> PendingByDepth();
  const TrieSpace& Space();

  const KeySizes& sizes() const { return sizes_; }  // by the latest estimate

 private:
  bool Refresh();
  void Resize();
  bool IsFull(const KeyContainer& container) const;
  bool IsLeaf(const KeyContainer& container) const;
  double Score(const KeyContainer& container) const;
  bool IsManuallyDone(const KeyContainer& container, uint64_t newest, uint64_t rewritten) const;

  // Bytes before and after a compaction for space, and what it writes, with the merges that it lets those below do.
  struct Gain {
    double before = 0, after = 0, written = 0;
  };
  Gain GainOf(const KeyContainer& container, int next, const ContainerSpace& own, const TrieSpace& space) const;

  double NextFlush() const;
  // Of a file, its container's depth, and its place there.
  std::pair<int, size_t> PlaceOf(const TrieFile& file) const;
  // Those that hold a wanted table which a compaction would bring further.
  std::map<std::pair<int, size_t>, WantedTables::Why> WantedContainers();
  bool PickForSpace(TrieJob* job);
  bool PickForSpace(const TrieSpace& space, TrieJob* job) const;
  void Expect(const KeyContainer& container, const ContainerSpace& space, TrieJob* job) const;
  bool PickForScans(TrieJob* job);
  uint64_t ReadInVain(const std::vector<const TrieFile*>& files,
                      const std::unordered_map<uint64_t, uint64_t>& read) const;
  bool IsFutile(const KeyContainer& container) const;

  const KeyShape* const shape_;
  uint64_t slack_bytes_;
  uint64_t write_buffer_bytes_;
  KeySizes sizes_;
  const bool may_move_;
  KeyMoves moves_;
  KeyJobMaker job_maker_;
  SpaceLedger ledger_;
  ScanLedger scans_;

  // Files that compactions for space have written which freed too little, with the oldest snapshot then. A container of
  // these alone is not tried again before that changes.
  std::unordered_map<uint64_t, uint64_t> futile_;
  SnapshotLedger snapshots_;
  WantedTables wanted_;
};

}  // namespace cairn
