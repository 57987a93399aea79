// A TriePlan is what the scheduler knows of one trie: the tables of one Version, the compactions that run, and which
// comes next. HashPlan (hash_plan.cc) and KeyPlan (key_plan.cc) are the plans of the two orders; nobody who uses a plan
// has to know which it is.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "table/written_totals.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_space.h"
#include "trie_table/compaction/wanted_tables.h"

namespace cairn {

// A manual compaction, job by job.
class ManualPlan {
 public:
  virtual ~ManualPlan() = default;

  // The job that comes next. One that was not run, or that failed, comes again.
  virtual ManualStep Pick(TrieJob* job) = 0;
  // To be called when the job that Pick gave was run, and the plan has the tables that it wrote.
  virtual void Done(const TrieJob& job) = 0;
};

// What a plan has to know of its column family.
struct PlannedFamily {
  std::string name;
  const rocksdb::Comparator* comparator = nullptr;
  uint64_t write_buffer_bytes = 0;
  LastOfAll last = LastOfAll::kUsed;
  std::string session_id;  // of the open database whose seeks count; empty: none
};

class TriePlan {
 public:
  virtual ~TriePlan() = default;

  virtual const TrieOptions& trie() const = 0;
  virtual int LastLevel() const = 0;  // of those that are the trie's
  virtual uint64_t RootFiles() const = 0;

  // The mirror of the Version. Add takes a file with its smallest and largest key.
  virtual bool Contains(uint64_t number) const = 0;
  virtual int LevelOf(uint64_t number) const = 0;
  virtual std::vector<uint64_t> Numbers() const = 0;
  // Of those that have keys from *begin to *end (null: no limit), where that has a meaning; else of all.
  virtual std::vector<uint64_t> NumbersIn(const rocksdb::Slice* begin, const rocksdb::Slice* end) const = 0;
  virtual WantedTables* wanted() = 0;
  virtual void Add(TrieFile file) = 0;
  virtual void Remove(uint64_t number) = 0;

  virtual bool Pick(TrieJob* job) = 0;
  // Around each compaction. Begin names the job.
  virtual void Begin(TrieJob* job) = 0;
  virtual void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) = 0;
  virtual void SetOldestSnapshot(uint64_t oldest_snapshot) = 0;  // SnapshotLedger::SetOldest
  // Values with a stamp of DBWithTTL (ttl_stamps.h) below this count as garbage.
  virtual void SetExpiredBefore(uint64_t stamp) = 0;
  // The oldest snapshot, as set, if its release lets a compaction free something; else 0.
  virtual uint64_t AwaitedSnapshot() = 0;
  virtual void SetWriteBuffer(uint64_t bytes) = 0;
  virtual double SpacePressure() = 0;
  // Bytes that have come into the root.
  virtual void Flushed(uint64_t bytes) = 0;

  // Whether what readers count may ever make a compaction due, and whether it may have done so now.
  virtual bool WatchesScans() const = 0;
  virtual bool HasScanNews() const = 0;

  // A manual compaction of what has keys from *begin to *end (null: no limit). NotSupported for what has no meaning in
  // the trie's order. The plan must outlive it.
  virtual rocksdb::Status PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin,
                                     const rocksdb::Slice* end, std::unique_ptr<ManualPlan>* manual) = 0;

  virtual std::map<int, DueContainers> PendingByDepth() = 0;
  // Fills what follows from the tables.
  virtual void FillStats(const WrittenTotals& totals, TrieStats* stats) = 0;
};

std::unique_ptr<TriePlan> NewTriePlan(const TrieOptionText& trie, const PlannedFamily& family);
std::unique_ptr<TriePlan> NewHashPlan(const HashTrieOptions& trie, const PlannedFamily& family);
std::unique_ptr<TriePlan> NewKeyPlan(const KeyTrieOptions& trie, const PlannedFamily& family);

// The number of the newest table; 0: there is none.
uint64_t NewestFile(const TriePlan& plan);

// Garbage that a trie is left alone with.
inline uint64_t SlackOf(uint64_t write_buffer_bytes) { return std::min<uint64_t>(write_buffer_bytes / 8, 64 << 10); }

// For FillDepths below: the row of a depth, made if it is missing, and what a container adds to its own.
TrieDepthStats& DepthOf(int depth, TrieStats* stats);
void AddContainer(uint64_t files, int filled_slots, uint64_t bytes, TrieDepthStats* depth);

// What follows from a shape and its picker, alike in both orders.
template <class Shape, class Picker>
class PlanOn : public TriePlan {
 public:
  using Options = std::decay_t<decltype(std::declval<Shape>().trie())>;

  const Options& trie() const final { return shape_.trie(); }
  int LastLevel() const final { return shape_.LastLevel(trie().depth); }
  bool Contains(uint64_t number) const final { return shape_.Contains(number); }
  int LevelOf(uint64_t number) const final { return shape_.LevelOf(number); }
  std::vector<uint64_t> Numbers() const final { return shape_.Numbers(); }
  WantedTables* wanted() final { return picker_.wanted(); }
  void Add(TrieFile file) final {
    if (file.marked) picker_.wanted()->Mark(file.number);
    picker_.snapshots()->Add(file);
    Place(std::move(file));
  }
  void Remove(uint64_t number) final {
    picker_.snapshots()->Remove(number);
    shape_.Remove(number);
  }
  bool Pick(TrieJob* job) final { return picker_.Pick(job); }
  void SetOldestSnapshot(uint64_t oldest_snapshot) final { picker_.SetOldestSnapshot(oldest_snapshot); }
  void SetExpiredBefore(uint64_t stamp) final { picker_.SetExpiredBefore(stamp); }
  uint64_t AwaitedSnapshot() final { return picker_.snapshots()->IsAwaited() ? picker_.snapshots()->oldest() : 0; }
  void SetWriteBuffer(uint64_t bytes) final { picker_.SetSizes(SlackOf(bytes), bytes); }
  double SpacePressure() final { return picker_.SpacePressure(); }
  std::map<int, DueContainers> PendingByDepth() final { return picker_.PendingByDepth(); }
  void FillStats(const WrittenTotals& totals, TrieStats* stats) final;

 protected:
  // Neither can be copied or moved: they are made here, the picker upon the shape.
  template <class OfShape, class... OfPicker>
  explicit PlanOn(OfShape of_shape, OfPicker... of_picker)
      : shape_(std::make_from_tuple<Shape>(of_shape)), picker_(&shape_, of_picker...) {}

  Shape shape_;
  Picker picker_;

 private:
  virtual void Place(TrieFile file) = 0;
  // The rows of stats->depths, without what is due, and at how many files the root is.
  virtual void FillDepths(const TrieSpace& space, TrieStats* stats) const = 0;
  virtual int RootDueFiles() const = 0;
};

// What both orders have beside the rows.
void FillTotals(const TrieSpace& space, const std::map<int, DueContainers>& pending, const TrieOptions& trie,
                const WrittenTotals& totals, TrieStats* stats);

template <class Shape, class Picker>
void PlanOn<Shape, Picker>::FillStats(const WrittenTotals& totals, TrieStats* stats) {
  const TrieSpace& space = picker_.Space();
  FillDepths(space, stats);
  FillTotals(space, picker_.PendingByDepth(), trie(), totals, stats);
  stats->root_due_files = RootDueFiles();
}

}  // namespace cairn
