// The plan of a trie in key order: KeyPlan groups tables into containers by their keys (key_shape.h) and leaves the
// choice of the next compaction to KeyPicker (key_picker.h).
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_plan.h"

namespace cairn {

class KeyPlan final : public PlanOn<KeyShape, KeyPicker> {
 public:
  KeyPlan(const KeyTrieOptions& trie, const PlannedFamily& family);

  uint64_t RootFiles() const override;
  std::vector<uint64_t> NumbersIn(const rocksdb::Slice* begin, const rocksdb::Slice* end) const override;
  void Begin(TrieJob* job) override;
  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override;
  void Flushed(uint64_t bytes) override { picker_.scans()->Flushed(bytes); }
  bool WatchesScans() const override { return trie().scan_merge > 0; }
  bool HasScanNews() const override { return picker_.HasScanNews(); }
  // NotSupported for a container or a depth, which have no numbers that stay.
  rocksdb::Status PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                             std::unique_ptr<ManualPlan>* manual) override;

 private:
  void Place(TrieFile file) override { shape_.Add(file); }
  // None: all keys.
  std::optional<KeyRange> RangeOf(const rocksdb::Slice* begin, const rocksdb::Slice* end) const;
  void FillDepths(const TrieSpace& space, TrieStats* stats) const override;
  int RootDueFiles() const override { return picker_.sizes().root_files; }

  const std::string name_;
  uint64_t next_job_ = 1;
};

}  // namespace cairn
