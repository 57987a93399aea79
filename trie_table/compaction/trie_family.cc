#include "trie_table/compaction/trie_family.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "trie_table/compaction/trie_options.h"

namespace cairn {

std::vector<HeldVersion::File> TrieFamily::UnknownFiles(const HeldVersion& version) const {
  std::vector<HeldVersion::File> unknown;
  const int last_level = plan->LastLevel();
  for (const HeldVersion::File& file : version.Files()) {
    if (file.level <= last_level && plan->LevelOf(file.number()) != file.level) unknown.push_back(file);
  }
  return unknown;
}

void TrieFamily::Show(const HeldVersion& version, const std::vector<TrieFile>& added) {
  std::unordered_set<uint64_t> present;
  for (const HeldVersion::File& file : version.Files()) present.insert(file.number());
  for (uint64_t number : plan->Numbers()) {
    if (present.count(number) == 0) plan->Remove(number);
  }
  uint64_t flushed = 0;
  for (const TrieFile& file : added) {
    plan->Remove(file.number);  // from another level
    plan->Add(file);
    if (file.level == 0) flushed += file.bytes;
  }
  // Before the first Version, the tables' own records have counted all.
  if (state == State::kReady) {
    totals->flushed_bytes += flushed;
    written_bytes[0] += flushed;
    plan->Flushed(flushed);
  }
  shown_version = version.number();
  state = State::kReady;
}

// A 32nd of what it takes to get old: so much more garbage than space_bound allows, at most.
void TrieFamily::LookAtAges(const HeldVersion& version, uint64_t expired_before_now, uint64_t now,
                            uint64_t now_micros) {
  constexpr uint64_t kParts = 32, kMostSeconds = 60;
  const TableAges ages = version.table_ages();
  const int32_t* const ttl = version.entry_ttl();
  std::vector<uint64_t> to_push, to_rewrite;
  version.TablesOlderThan(ages, now, &to_push, &to_rewrite);
  plan->wanted()->SetOld(std::move(to_push), std::move(to_rewrite));
  const uint64_t entry_age = expired_before_now == 0 ? 0 : std::max<uint64_t>(1, now - expired_before_now);
  uint64_t shortest = UINT64_MAX;
  for (uint64_t age : {ages.push, ages.rewrite, entry_age}) {
    if (age != 0) shortest = std::min(shortest, age);
  }
  // An earlier time is of a clock that was set back, or of a longer TTL.
  const uint64_t part = std::max<uint64_t>(1, entry_age / kParts);
  if (expired_before_now < expired_before || expired_before_now >= expired_before + part) {
    plan->SetExpiredBefore(expired_before_now);
    expired_before = expired_before_now;
  }
  const uint64_t step = std::clamp<uint64_t>(shortest / kParts, 1, kMostSeconds);
  ages_at_micros = ttl == nullptr && shortest == UINT64_MAX ? 0 : now_micros + step * 1000 * 1000;
}

void TrieFamily::CountJob(const TrieJob& job, uint64_t output_bytes) {
  ++finished[static_cast<int>(job.kind)];
  for (const TableMove& move : job.moves) {
    if (move.to != TableMove::kNowhere) ++moved;
    if (move.to == TableMove::kNowhere && !plan->Contains(move.number)) ++dropped;
  }
  if (job.for_age()) ++age_compactions;
  if (job.for_age()) age_compacted_bytes += output_bytes;
  if (job.for_scans) ++scan_merges;
  if (job.for_scans) scan_merged_bytes += output_bytes;
  totals->compacted_bytes += output_bytes;
  written_bytes[DepthOfLevel(plan->trie(), job.output_level)] += output_bytes;
}

void TrieFamily::TryAgain() {
  paused_began_micros = 0;
  backoff_micros = 0;
  retry_at_micros = 0;
  failures_in_a_row = 0;
}

void TrieFamily::FillStats(TrieStats* stats) const {
  const auto count = [this](TrieJob::Kind kind) { return finished[static_cast<int>(kind)]; };
  plan->FillStats(*totals, stats);
  stats->column_family = name;
  for (TrieDepthStats& depth : stats->depths) {
    const auto written = written_bytes.find(depth.depth);
    depth.written_bytes = written == written_bytes.end() ? 0 : written->second;
  }
  stats->running_compactions = running;
  stats->root_compactions = count(TrieJob::Kind::kRoot);
  stats->push_compactions = count(TrieJob::Kind::kPush);
  stats->merge_compactions = count(TrieJob::Kind::kMerge);
  stats->split_compactions = count(TrieJob::Kind::kSplit);
  stats->failed_compactions = failed;
  stats->moved_tables = moved;
  stats->dropped_tables = dropped;
  stats->age_compactions = age_compactions;
  stats->age_compacted_bytes = age_compacted_bytes;
  stats->scan_merges = scan_merges;
  stats->scan_merged_bytes = scan_merged_bytes;
  stats->pick_micros = pick_micros;
  if (!error.ok()) stats->last_error = error.ToString();
}

}  // namespace cairn
