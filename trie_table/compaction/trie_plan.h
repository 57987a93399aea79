// What the scheduler keeps of one trie, whatever the order of its keys: the files of one Version, the compactions that
// run, and the choice of the next.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "table/written_totals.h"
#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_job.h"
#include "trie_table/compaction/trie_picker.h"
#include "trie_table/compaction/trie_shape.h"

namespace cairn {

class TriePlan {
 public:
  // Garbage that a trie is left alone with.
  static uint64_t SlackOf(uint64_t write_buffer_bytes) { return std::min<uint64_t>(write_buffer_bytes / 8, 64 << 10); }

  virtual ~TriePlan() = default;

  virtual const TrieOptions& trie() const = 0;
  virtual int LastLevel() const = 0;  // of those that are the trie's
  virtual uint64_t RootFiles() const = 0;

  // The mirror of the Version.
  virtual bool Contains(uint64_t number) const = 0;
  virtual int LevelOf(uint64_t number) const = 0;
  virtual std::vector<uint64_t> Numbers() const = 0;
  virtual void Add(const TrieFile& file) = 0;
  virtual void Remove(uint64_t number) = 0;

  virtual bool Pick(TrieJob* job) = 0;
  // Around each compaction. Begin names the job.
  virtual void Begin(TrieJob* job) = 0;
  virtual void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) = 0;
  virtual void SetOldestSnapshot(uint64_t oldest_snapshot) = 0;  // SnapshotLedger::SetOldest
  virtual void SetWriteBuffer(uint64_t bytes) = 0;
  virtual double SpacePressure() = 0;
  // Bytes that have come into the root.
  virtual void Flushed(uint64_t bytes) = 0;
  // Whether what readers have counted may have made a compaction due.
  virtual bool HasScanNews() const = 0;
  virtual std::map<int, TriePicker::Due> PendingByDepth() = 0;
  virtual void FillStats(const WrittenTotals& totals, TrieStats* stats) = 0;
};

// What follows from a shape and its picker, alike in every order.
template <class Shape, class Picker>
class PlanOn : public TriePlan {
 public:
  const TrieOptions& trie() const final { return shape.trie(); }
  int LastLevel() const final { return shape.LastLevel(trie().depth); }
  bool Contains(uint64_t number) const final { return shape.Contains(number); }
  int LevelOf(uint64_t number) const final { return shape.LevelOf(number); }
  std::vector<uint64_t> Numbers() const final { return shape.Numbers(); }
  void Add(const TrieFile& file) final { shape.Add(file); }
  void Remove(uint64_t number) final { shape.Remove(number); }
  bool Pick(TrieJob* job) final { return picker.Pick(job); }
  void SetOldestSnapshot(uint64_t oldest_snapshot) final { picker.SetOldestSnapshot(oldest_snapshot); }
  void SetWriteBuffer(uint64_t bytes) final { picker.SetSizes(SlackOf(bytes), bytes); }
  double SpacePressure() final { return picker.SpacePressure(); }
  std::map<int, TriePicker::Due> PendingByDepth() final { return picker.PendingByDepth(); }
  void FillStats(const WrittenTotals& totals, TrieStats* stats) final { FillTrieStats(shape, &picker, totals, stats); }

  Shape shape;
  Picker picker;

 protected:
  // Neither can be copied or moved: they are made here, the picker upon the shape.
  template <class OfShape, class... OfPicker>
  explicit PlanOn(OfShape of_shape, OfPicker... of_picker)
      : shape(std::make_from_tuple<Shape>(of_shape)), picker(&shape, of_picker...) {}
};

class HashPlan final : public PlanOn<TrieShape, TriePicker> {
 public:
  HashPlan(const TrieOptions& trie, TrieShape::LastOfAll last, uint64_t write_buffer_bytes)
      : PlanOn(std::tie(trie, last), SlackOf(write_buffer_bytes), write_buffer_bytes) {}

  uint64_t RootFiles() const override { return shape.root().files; }
  void Flushed(uint64_t) override {}
  bool HasScanNews() const override { return false; }
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;

 private:
  void SetBusy(const TrieJob& job, bool busy);
};

class KeyPlan final : public PlanOn<KeyShape, KeyPicker> {
 public:
  KeyPlan(const TrieOptions& trie, const rocksdb::Comparator* comparator, TrieShape::LastOfAll last,
          uint64_t write_buffer_bytes, KeyPicker::Moves moves)
      : PlanOn(std::tie(trie, comparator, last), SlackOf(write_buffer_bytes), write_buffer_bytes, moves) {}

  uint64_t RootFiles() const override {
    return shape.ContainersAt(0).empty() ? 0 : shape.ContainersAt(0).front().files.size();
  }
  void Flushed(uint64_t bytes) override { picker.scans()->Flushed(bytes); }
  bool HasScanNews() const override { return picker.HasScanNews(); }
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;

 private:
  uint64_t next_job_ = 1;
};

}  // namespace cairn
