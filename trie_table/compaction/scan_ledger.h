// When scans are a reason to merge tables of a trie in key order: what seeks have read of them, and what may still be
// written for it. Which tables that are is KeyPicker's to say.
//
// Invariants
//   (1) Merges for scans write at most `scan_merge` bytes per byte flushed since the trie was opened, and `grant`
//       bytes.
//   (2) One of them runs at a time.
//   (3) A merge writes no more than seeks have read in vain of the tables that it merges. So scans that come to an end
//       with it have cost twice what they would have, and no more.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "table/scan_counts.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

class ScanLedger {
 public:
  // `grant`: what they may write without any flush, by (1).
  ScanLedger(double scan_merge, uint64_t grant) : scan_merge_(scan_merge), grant_(grant) {}
  void SetGrant(uint64_t grant) { grant_ = grant; }

  // Null: nothing is merged for scans.
  void SetCounts(std::shared_ptr<const ScanCounts> counts) { counts_ = std::move(counts); }
  void Flushed(uint64_t bytes) { flushed_ += bytes; }

  // Whether it is worth to Look: something may be written, and seeks have read `bytes` more than at the last Look that
  // came to something: to a merge that was started, or to it that there is none.
  bool HasNews(uint64_t bytes) const;
  // Bytes that seeks have read, by table.
  std::unordered_map<uint64_t, uint64_t> Look();
  // The last Look has shown nothing that is to be merged.
  void SawNothing() { looked_at_ = seen_; }

  // By (1) and (2).
  bool MayWrite(uint64_t bytes) const;

  // To be called around each merge for scans. One that was chosen is not always started: that of another column family
  // may be more urgent.
  void Started();
  void Finished(uint64_t output_bytes);

  uint64_t written() const { return written_; }

 private:
  const double scan_merge_;
  uint64_t grant_;
  std::shared_ptr<const ScanCounts> counts_;
  uint64_t flushed_ = 0;
  uint64_t written_ = 0;
  uint64_t seen_ = 0;       // counts_->total() at the last Look
  uint64_t looked_at_ = 0;  // the same of the last one that came to something
  bool running_ = false;
};

}  // namespace cairn
