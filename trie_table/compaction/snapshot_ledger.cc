#include "trie_table/compaction/snapshot_ledger.h"

#include <algorithm>

namespace cairn {

bool SnapshotLedger::SetOldest(uint64_t oldest) {
  const bool changes = oldest != oldest_;
  oldest_ = oldest;
  return changes;
}

void SnapshotLedger::Add(const TrieFile& file) {
  if (file.newest < 1 || (file.marked && file.deletes)) older_.emplace(file.number, file.largest_sequence);
}

bool SnapshotLedger::IsAwaited() const {
  const auto kept = [this](const auto& of_table) { return of_table.second.snapshot == oldest_; };
  const auto older = [this](const auto& of_table) { return SeesBefore(of_table.second); };
  return oldest_ != 0 &&
         (std::any_of(kept_.begin(), kept_.end(), kept) || std::any_of(older_.begin(), older_.end(), older));
}

SnapshotLedger::Kept SnapshotLedger::Of(uint64_t number) const {
  const auto found = kept_.find(number);
  return found == kept_.end() || found->second.snapshot != oldest_ ? Kept() : found->second;
}

double SnapshotLedger::ShareOf(uint64_t number) const { return Of(number).share; }

bool SnapshotLedger::Learn(const TrieJob& job, uint64_t output_bytes, const std::vector<const TrieFile*>& outputs) {
  if (oldest_ == 0 || output_bytes == 0 || !job.writes()) return false;
  double bytes = 0;
  for (uint64_t number : job.inputs) bytes += Of(number).bytes;
  if (job.for_space) bytes += static_cast<double>(output_bytes) - static_cast<double>(job.expected_bytes);
  if (bytes <= 0) return false;
  const double share = std::min(1.0, bytes / static_cast<double>(output_bytes));
  for (const TrieFile* file : outputs) kept_[file->number] = {oldest_, share, share * static_cast<double>(file->bytes)};
  return true;
}

}  // namespace cairn
