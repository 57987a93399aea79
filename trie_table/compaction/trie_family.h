// What the scheduler keeps of one trie column family: the plan, the Version that it shows, when compactions may start,
// and what they have come to.
//
// States: kUnread -> kReady with the first Version; kRefused when the options do not fit together (nothing is
// compacted; the reason is logged and in the statistics).
//
// Thread-safety: none but for what is const; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/status.h"
#include "table/written_totals.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_plan.h"

namespace cairn {

struct TrieFamily {
  enum class State { kUnread, kReady, kRefused };

  TrieFamily(uint32_t family_id, std::string family_name, std::unique_ptr<TriePlan> of_family)
      : id(family_id), name(std::move(family_name)), plan(std::move(of_family)) {}

  // Whether the plan shows an earlier Version, or none.
  bool IsBehind(const HeldVersion& version) const {
    return state == State::kUnread || version.number() > shown_version;
  }
  // Counts what has expired or is old by now, in seconds, and says when to look again.
  void LookAtAges(const HeldVersion& version, uint64_t expired_before, uint64_t now, uint64_t now_micros);
  // Of a Version, those that the plan does not hold where they are.
  std::vector<HeldVersion::File> UnknownFiles(const HeldVersion& version) const;
  // Brings the plan to the Version; `added` are its unknown files.
  void Show(const HeldVersion& version, const std::vector<TrieFile>& added);

  void CountJob(const TrieJob& job, uint64_t output_bytes);  // that has succeeded
  void TryAgain();                                           // without delay
  void FillStats(TrieStats* stats) const;

  const uint32_t id;
  const std::string name;
  const std::unique_ptr<TriePlan> plan;
  State state = State::kUnread;
  rocksdb::Status error;       // why it is kRefused, or the last compaction's failure
  uint64_t shown_version = 0;  // number of the Version that the plan shows; nothing while kUnread
  bool stale = true;           // there may be a later Version
  // When it is to be known what has got old meanwhile; 0: nothing does.
  uint64_t ages_at_micros = 0;
  uint64_t expired_before = 0;  // as the plan knows it
  bool automatic = true;        // disable_auto_compactions is off
  // Nothing is compacted before `retry_at_micros` (0: no waiting): after a failure, or while RocksDB is not willing.
  uint64_t retry_at_micros = 0;
  uint64_t backoff_micros = 0;
  int failures_in_a_row = 0;
  // When the last compaction was begun that RocksDB refused since DisableManualCompaction was called; 0: it takes them.
  uint64_t paused_began_micros = 0;
  std::shared_ptr<WrittenTotals> totals;
  std::map<int, uint64_t> written_bytes;  // by depth
  uint64_t running = 0;
  uint64_t finished[TrieJob::kKinds] = {};  // by TrieJob::Kind
  uint64_t failed = 0;
  uint64_t moved = 0;    // tables, unwritten
  uint64_t dropped = 0;  // tables that range deletions covered
  uint64_t age_compactions = 0;
  uint64_t age_compacted_bytes = 0;
  uint64_t scan_merges = 0;
  uint64_t scan_merged_bytes = 0;
  uint64_t pick_micros = 0;
};

}  // namespace cairn
