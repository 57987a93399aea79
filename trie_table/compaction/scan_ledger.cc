#include "trie_table/compaction/scan_ledger.h"

namespace cairn {

bool ScanLedger::HasNews(uint64_t bytes) const {
  return counts_ != nullptr && counts_->total() >= looked_at_ + bytes && MayWrite(1);
}

std::unordered_map<uint64_t, uint64_t> ScanLedger::Look() {
  seen_ = counts_->total();
  return counts_->ByTable();
}

bool ScanLedger::MayWrite(uint64_t bytes) const {
  if (scan_merge_ == 0 || running_) return false;
  const double budget = static_cast<double>(grant_) + scan_merge_ * static_cast<double>(flushed_);
  return static_cast<double>(written_ + bytes) <= budget;
}

void ScanLedger::Started() {
  running_ = true;
  looked_at_ = seen_;
}

void ScanLedger::Finished(uint64_t output_bytes) {
  running_ = false;
  written_ += output_bytes;
}

}  // namespace cairn
