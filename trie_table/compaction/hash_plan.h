// The plan of a trie in hash order: HashPlan puts tables into containers by the hashes of their keys (hash_shape.h) and
// leaves the choice of the next compaction to HashPicker (hash_picker.h).
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trie_table/compaction/hash_picker.h"
#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/trie_plan.h"

namespace cairn {

class HashPlan final : public PlanOn<HashShape, HashPicker> {
 public:
  HashPlan(const HashTrieOptions& trie, const PlannedFamily& family)
      : PlanOn(std::tie(trie, family.last), SlackOf(family.write_buffer_bytes), family.write_buffer_bytes),
        name_(family.name) {}

  uint64_t RootFiles() const override { return shape_.root().files; }
  std::vector<uint64_t> NumbersIn(const rocksdb::Slice*, const rocksdb::Slice*) const override { return Numbers(); }
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;
  void Flushed(uint64_t) override {}
  bool WatchesScans() const override { return false; }
  bool HasScanNews() const override { return false; }
  // Of the containers that `options` name. NotSupported for a range of keys.
  rocksdb::Status PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                             std::unique_ptr<ManualPlan>* manual) override;

 private:
  void Place(TrieFile file) override;
  void SetBusy(const TrieJob& job, bool busy);
  void FillDepths(const TrieSpace& space, TrieStats* stats) const override;
  int RootDueFiles() const override { return trie().root_trigger; }

  const std::string name_;
};

}  // namespace cairn
