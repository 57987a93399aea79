// What the scheduler keeps of one trie, whatever the order of its keys: the files of one Version, the compactions that
// run, and the choice of the next.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "src/table/written_totals.h"
#include "src/trie/key_picker.h"
#include "src/trie/key_shape.h"
#include "src/trie/trie_job.h"
#include "src/trie/trie_picker.h"
#include "src/trie/trie_shape.h"

namespace cairn {

class TriePlan {
 public:
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
  virtual double SpacePressure() = 0;
  virtual std::map<int, TriePicker::Due> PendingByDepth() const = 0;
  virtual void FillStats(const WrittenTotals& totals, TrieStats* stats) = 0;
};

class HashPlan final : public TriePlan {
 public:
  HashPlan(const TrieOptions& trie, TrieShape::LastOfAll last, uint64_t slack_bytes, uint64_t write_buffer_bytes)
      : shape(trie, last), picker(&shape, slack_bytes, write_buffer_bytes) {}

  const TrieOptions& trie() const override { return shape.trie(); }
  int LastLevel() const override { return shape.LastLevel(trie().depth); }
  uint64_t RootFiles() const override { return shape.root().files; }
  bool Contains(uint64_t number) const override { return shape.Contains(number); }
  int LevelOf(uint64_t number) const override { return shape.LevelOf(number); }
  std::vector<uint64_t> Numbers() const override { return shape.Numbers(); }
  void Add(const TrieFile& file) override { shape.Add(file); }
  void Remove(uint64_t number) override { shape.Remove(number); }
  bool Pick(TrieJob* job) override { return picker.Pick(job); }
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;
  double SpacePressure() override { return picker.SpacePressure(); }
  std::map<int, TriePicker::Due> PendingByDepth() const override { return picker.PendingByDepth(); }
  void FillStats(const WrittenTotals& totals, TrieStats* stats) override;

  TrieShape shape;
  TriePicker picker;

 private:
  void SetBusy(const TrieJob& job, bool busy);
};

class KeyPlan final : public TriePlan {
 public:
  KeyPlan(const TrieOptions& trie, const rocksdb::Comparator* comparator, TrieShape::LastOfAll last,
          uint64_t slack_bytes, uint64_t write_buffer_bytes, KeyPicker::Moves moves)
      : shape(trie, comparator, last), picker(&shape, slack_bytes, write_buffer_bytes, moves) {}

  const TrieOptions& trie() const override { return shape.trie(); }
  int LastLevel() const override { return shape.LastLevel(trie().depth); }
  uint64_t RootFiles() const override {
    return shape.ContainersAt(0).empty() ? 0 : shape.ContainersAt(0).front().files.size();
  }
  bool Contains(uint64_t number) const override { return shape.Contains(number); }
  int LevelOf(uint64_t number) const override { return shape.LevelOf(number); }
  std::vector<uint64_t> Numbers() const override { return shape.Numbers(); }
  void Add(const TrieFile& file) override { shape.Add(file); }
  void Remove(uint64_t number) override { shape.Remove(number); }
  bool Pick(TrieJob* job) override { return picker.Pick(job); }
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;
  double SpacePressure() override { return picker.SpacePressure(); }
  std::map<int, TriePicker::Due> PendingByDepth() const override { return picker.PendingByDepth(); }
  void FillStats(const WrittenTotals& totals, TrieStats* stats) override;

  KeyShape shape;
  KeyPicker picker;

 private:
  uint64_t next_job_ = 1;
};

}  // namespace cairn
