// What a thread remembers between the tables of a lookup: what it has found out about recent hashes, and what it has
// still to count.
//
// Thread-safety: an object belongs to its thread.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "monitoring/perf_context_imp.h"
#include "monitoring/statistics_impl.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "util/hazard.h"
#include "util/of_thread.h"

namespace cairn {

// The files in the other slots of a container are asked about the same hash next, and those of a MultiGet about the
// same batch.
struct FilterMemo {
  uint64_t version = 0;  // of the container's snapshot
  uint64_t hash = 0;
  uint64_t known = 0;  // members that the answer is about
  uint64_t may = 0;
  unsigned last = 0;  // the member that lookups ask last

  bool Knows(uint64_t of_version, uint64_t of_hash, unsigned member) const {
    return hash == of_hash && version == of_version && (known >> member & 1) != 0;
  }
  // What could not be found out may be there.
  bool MayHold(unsigned member) const { return ((may | ~known) >> member & 1) != 0; }
};

class FilterThread {
 public:
  FilterThread() = default;
  FilterThread(const FilterThread&) = delete;
  FilterThread& operator=(const FilterThread&) = delete;

  HazardRecord* hazard() const { return hazard_.record(); }
  // Of a lookup as a whole: what it protects lives while it asks containers, which need the other one.
  HazardRecord* lookup_hazard() const { return lookup_hazard_.record(); }
  bool InLookup() const { return lookup_hazard_.InUse(); }
  // One for each depth of the trie, so that a lookup may go down twice.
  FilterMemo* MemoOf(uint64_t hash, int depth) { return &memos_[(hash + static_cast<uint64_t>(depth)) % kMemos]; }
  // Of the key at a place in the thread's MultiGet.
  FilterMemo* MemoAt(size_t place) { return &batch_memos_[place]; }

  // An answer, in RocksDB's perf context.
  void Count(int level, bool may) {
    if (*perf_level_ < rocksdb::PerfLevel::kEnableCount) return;
    ++(may ? perf_context_->bloom_sst_hit_count : perf_context_->bloom_sst_miss_count);
    if (perf_context_->per_level_perf_context_enabled && perf_context_->level_to_perf_context != nullptr) {
      auto& of_level = (*perf_context_->level_to_perf_context)[static_cast<uint32_t>(std::max(0, level))];
      ++(may ? of_level.bloom_filter_full_positive : of_level.bloom_filter_useful);
    }
  }

  // Whether RocksDB's perf context counts: without a look for the thread's own variables, of which there may be several
  // in each of RocksDB's macros.
  bool Counts() const { return *perf_level_ >= rocksdb::PerfLevel::kEnableCount; }

  // Whether what Count counts is wanted by level.
  bool CountsByLevel() const {
    return *perf_level_ >= rocksdb::PerfLevel::kEnableCount && perf_context_->per_level_perf_context_enabled;
  }

  // A table that a lookup is let pass to, for a lookup that asks for several at once.
  void CountPassed(rocksdb::Statistics* statistics) {
    if (*perf_level_ >= rocksdb::PerfLevel::kEnableCount) ++perf_context_->bloom_sst_hit_count;
    RecordTick(statistics, rocksdb::BLOOM_FILTER_FULL_POSITIVE);
  }

  // A lookup that was kept from so many tables at once.
  void CountKeptFrom(rocksdb::Statistics* statistics, uint64_t tables) {
    if (*perf_level_ >= rocksdb::PerfLevel::kEnableCount) perf_context_->bloom_sst_miss_count += tables;
    if (tables != 0) RecordTick(statistics, rocksdb::BLOOM_FILTER_USEFUL, tables);
  }

  // An answer, in RocksDB's statistics, whose tickers are dear at once a table: the tables that a lookup is kept from
  // are added up, and ticked when it is let pass or asks the last table of a container.
  void Tick(rocksdb::Statistics* statistics, uint64_t hash, bool may, bool is_last) {
    if (ticked_hash_ != hash || statistics_ != statistics) {
      // The lookup before ended before a last table. Statistics other than the caller's may be gone.
      if (statistics_ == statistics) TickUseful();
      useful_ = 0;
      ticked_hash_ = hash;
      statistics_ = statistics;
    }
    if (may) {
      RecordTick(statistics, rocksdb::BLOOM_FILTER_FULL_POSITIVE);
    } else {
      ++useful_;
    }
    if (may || is_last) TickUseful();
  }

 private:
  static constexpr size_t kMemos = 64;

  void TickUseful() {
    if (useful_ != 0) RecordTick(statistics_, rocksdb::BLOOM_FILTER_USEFUL, useful_);
    useful_ = 0;
  }

  const OwnedHazard hazard_;
  const OwnedHazard lookup_hazard_;
  // The thread's own, found once: finding them takes longer than a lookup that the memos answer.
  const rocksdb::PerfLevel* const perf_level_ = &rocksdb::perf_level;
  rocksdb::PerfContext* const perf_context_ = rocksdb::get_perf_context();
  rocksdb::Statistics* statistics_ = nullptr;
  uint64_t ticked_hash_ = 0;
  uint64_t useful_ = 0;  // tables that a filter kept that hash from, not yet ticked
  FilterMemo memos_[kMemos];
  FilterMemo batch_memos_[FilterBatch::kMaxKeys];
};

// The calling thread's; made when it first asks.
inline FilterThread* ThisFilterThread() { return OfThread<FilterThread>::Get(); }

}  // namespace cairn
