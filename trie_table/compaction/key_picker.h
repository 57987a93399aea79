// Chooses the next compaction of a trie in key order: a function of the shape and of what it has learnt from earlier
// compactions, as TriePicker is for hash order. docs/design/ordered_trie.md gives the reasons.
//
// What it chooses, most urgent first (a score of 1 is "due"):
//   - older tables all of whose keys a range deletion covers: they are removed, which costs next to nothing
//   - tables that can come to a deeper level without being written, for the same reason
//   - the root, when level 0 has root_trigger files; in a small trie fewer (RootFilesFor), where files are small not as few
//   - a container with `trigger` slots, or with as many bytes as a full root
//   - a container whose newest slot keeps the one above from moving: 10 more
//   - while the trie takes more than space_bound bytes per live byte: the compaction that frees most per byte it writes
//   - if there is nothing else to do: the merge that would have saved scans most per byte it writes
//
// What becomes of a chosen container: with anything below it, it is pushed to the next depth that holds keys of its
// range, or to a free depth above that where the containers there would be too many for it (DepthFor). With nothing
// below, it is merged at the deepest depth, where it splits into tables that no longer lie over one another.
//
// No compaction reads more than KeySizes::largest_job, unless a single table is larger.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/scan_ledger.h"
#include "trie_table/compaction/snapshot_ledger.h"
#include "trie_table/compaction/space_ledger.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_space.h"

namespace cairn {

// At how many files a root is due in a trie of so many live bytes, and so much garbage: root_trigger, but no more than two
// ninths of the garbage that the bound allows, or three fifths of what it allows beyond the garbage that there is, because
// that must have room for what a compaction of the root writes. file_bytes: of a file.
int RootFilesFor(const KeyTrieOptions& trie, uint64_t live_bytes, uint64_t garbage_bytes, uint64_t file_bytes);

struct KeySizes {
  KeySizes(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, int root_files);

  int root_files = 0;        // at which it is due
  uint64_t unit = 0;         // a full root, and a full container
  uint64_t table = 0;        // a table that compactions write: a fan_out-th of that
  uint64_t least = 0;        // ... at least, where containers below end
  uint64_t most = 0;         // ... at most
  uint64_t joined = 0;       // containers that one new table may join to one
  uint64_t largest_job = 0;  // input of a compaction
};

class KeyPicker {
 public:
  enum class Moves { kRewrite, kMove };  // whether the scheduler can move a table to another level

  // `shape` must outlive the picker. A trie of less than slack_bytes garbage is left alone whatever the bound.
  KeyPicker(const KeyShape* shape, uint64_t slack_bytes, uint64_t write_buffer_bytes, Moves moves)
      : shape_(shape),
        slack_bytes_(slack_bytes),
        write_buffer_bytes_(write_buffer_bytes),
        sizes_(shape->trie(), write_buffer_bytes, RootFilesFor(shape->trie(), 0, 0, write_buffer_bytes)),
        moves_(moves),
        ledger_(shape->trie(), slack_bytes, sizes_.largest_job),
        scans_(shape->trie().scan_merge, sizes_.largest_job) {}

  // False when nothing is due. The caller begins the job in the shape before it picks again, or leaves it: then it is due
  // as before.
  bool Pick(TrieJob* job);

  // For a manual compaction, which goes from depth to depth: the next compaction of what lies at `depth` and has keys
  // of the range (null: all). `newest`: the newest file when it came to the depth. Newer ones came later, and it need not
  // wait for them, or are its own. Those up to `rewritten` it takes whatever is in them.
  ManualStep PickManual(int depth, const KeyRange* range, uint64_t newest, TrieJob* job, uint64_t rewritten = 0);

  void Started(const TrieJob& job);
  void Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot);
  void SetOldestSnapshot(uint64_t oldest_snapshot);
  void SetSizes(uint64_t slack_bytes, uint64_t write_buffer_bytes);

  ScanLedger* scans() { return &scans_; }
  // Whether seeks have read so much since scans were last a reason to look for a merge that they may be one again.
  bool HasScanNews() const;

  // As TriePicker's.
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

  bool PickDrops(TrieJob* job);
  bool PickMoves(TrieJob* job);
  void MoveOffRoot(TrieJob* job) const;
  bool AddMove(const TrieFile& file, int level, TrieJob* job) const;
  int LowestFreeLevel(const TrieFile& file) const;

  // What MakeJob came to.
  enum class Made { kJob, kConflict, kNoLevel };
  Made MakeJob(const KeyContainer& container, TrieJob* job) const;
  std::vector<size_t> InTheWay(const KeyContainer& container) const;
  bool MakeJobOrWay(const KeyContainer& container, TrieJob* job) const;
  Made MakePush(const KeyContainer& container, TrieJob* job) const;
  Made MakeMerge(const KeyContainer& container, TrieJob* job) const;
  bool CanSplit(const TrieFile& file) const;
  Made MakeSplit(const TrieFile& file, int level, TrieJob* job) const;
  Made Fill(const KeyContainer& container, std::vector<const TrieFile*> files, int output_level, TrieJob* job) const;
  int DepthFor(int depth, int next, const KeyRange& range) const;
  std::shared_ptr<const KeyCuts> CutsAt(int depth, const KeyRange& range, bool joins) const;
  std::vector<const TrieFile*> OldestFiles(const KeyContainer& container) const;
  std::vector<const TrieFile*> WithAllBelow(const TrieFile& file) const;
  KeyRange RangeOf(const std::vector<const TrieFile*>& files) const;

  double NextFlush() const;
  bool PickForSpace(TrieJob* job);
  bool PickForSpace(const TrieSpace& space, TrieJob* job) const;
  void Expect(const KeyContainer& container, const ContainerSpace& space, TrieJob* job) const;
  bool PickForScans(TrieJob* job);
  Made MakeScanMerge(const KeyContainer& container, TrieJob* job) const;
  uint64_t ReadInVain(const std::vector<const TrieFile*>& files,
                      const std::unordered_map<uint64_t, uint64_t>& read) const;
  bool IsFutile(const KeyContainer& container) const;

  const KeyShape* const shape_;
  uint64_t slack_bytes_;
  uint64_t write_buffer_bytes_;
  KeySizes sizes_;
  const Moves moves_;
  uint64_t nothing_to_move_at_ = UINT64_MAX;  // a version of the shape
  SpaceLedger ledger_;
  ScanLedger scans_;

  // Files that compactions for space have written which freed too little, with the oldest snapshot then. A container of
  // these alone is not tried again before that changes.
  std::unordered_map<uint64_t, uint64_t> futile_;
  SnapshotLedger snapshots_;

  // Files with range deletions that cover no table any more which could be removed. kSnapshot, kBusy: something keeps some,
  // and it is tried again when the oldest snapshot has changed, or when a compaction has ended.
  enum class Dropped { kAll, kSnapshot, kBusy };
  std::unordered_map<uint64_t, Dropped> dropped_;
  // Files that are what a split has left: all it came to.
  std::set<uint64_t> whole_;
};

}  // namespace cairn
