#include "tools/status/snapshot.h"

#include <set>

namespace cairn {

std::optional<FamilyTotals> TotalsOf(const StatusSnapshot& snapshot) {
  FamilyTotals sum;
  for (const FamilyStatus& family : snapshot.families) {
    if (!family.totals.has_value()) return std::nullopt;
    sum.flushed_bytes += family.totals->flushed_bytes;
    sum.compaction_read_bytes += family.totals->compaction_read_bytes;
    sum.compaction_written_bytes += family.totals->compaction_written_bytes;
  }
  return sum;
}

std::optional<uint64_t> MemoryOf(const StatusSnapshot& snapshot) {
  uint64_t sum = 0;
  std::set<const void*> caches;
  for (const FamilyStatus& family : snapshot.families) {
    if (!family.memory.has_value()) return std::nullopt;
    sum += family.memory->memtables + family.memory->table_readers;
    if (caches.insert(family.memory->cache_identity).second) sum += family.memory->block_cache;
  }
  return sum;
}

uint64_t BytesOf(const StatusSnapshot& snapshot) {
  uint64_t sum = 0;
  for (const FamilyStatus& family : snapshot.families) sum += family.picture.bytes;
  return sum;
}

namespace {

// A database of one family has that family's amplification; one of several the amplification of all bytes together.
std::optional<double> SpaceAmplificationOf(const StatusSnapshot& snapshot) {
  double bytes = 0, live = 0;
  for (const FamilyStatus& family : snapshot.families) {
    if (family.picture.bytes == 0) continue;
    if (!family.space_amplification.has_value() || *family.space_amplification <= 0) return std::nullopt;
    bytes += static_cast<double>(family.picture.bytes);
    live += static_cast<double>(family.picture.bytes) / *family.space_amplification;
  }
  return live > 0 ? std::optional<double>(bytes / live) : std::nullopt;
}

// Of one family its own, which may reach back to its creation; of several, what all of them wrote since the opening.
std::optional<double> WriteAmplificationOf(const StatusSnapshot& snapshot) {
  if (snapshot.families.size() == 1) return snapshot.families.front().write_amplification;
  const std::optional<FamilyTotals> totals = TotalsOf(snapshot);
  if (!totals.has_value() || totals->flushed_bytes == 0) return std::nullopt;
  return 1 + static_cast<double>(totals->compaction_written_bytes) / static_cast<double>(totals->flushed_bytes);
}

}  // namespace

StatusSample SampleOf(const StatusSnapshot& snapshot) {
  StatusSample sample;
  sample.at = snapshot.at;
  sample.user_bytes = snapshot.user_bytes;
  sample.user_keys = snapshot.user_keys;
  if (snapshot.tickers.has_value()) {
    const auto found = snapshot.tickers->find("rocksdb.number.keys.read");
    if (found != snapshot.tickers->end()) sample.keys_read = static_cast<double>(found->second);
  }
  if (const std::optional<FamilyTotals> totals = TotalsOf(snapshot); totals.has_value()) {
    sample.flushed_bytes = static_cast<double>(totals->flushed_bytes);
    sample.compaction_read_bytes = static_cast<double>(totals->compaction_read_bytes);
    sample.compaction_written_bytes = static_cast<double>(totals->compaction_written_bytes);
  }
  sample.bytes = static_cast<double>(BytesOf(snapshot));
  sample.memory_bytes = MemoryOf(snapshot);
  sample.write_amplification = WriteAmplificationOf(snapshot);
  sample.space_amplification = SpaceAmplificationOf(snapshot);
  return sample;
}

std::optional<double> RateOf(std::optional<double> before, std::optional<double> after, double seconds) {
  if (!before.has_value() || !after.has_value() || seconds <= 0 || *after < *before) return std::nullopt;
  return (*after - *before) / seconds;
}

void History::Add(const StatusSample& sample) {
  if (!samples_.empty() && sample.at < samples_.back().at) samples_.clear();
  // A sampler's clock is never exact: a tenth too early is not too near.
  if (!samples_.empty() && sample.at - samples_.back().at < 0.9 * spacing_) return;
  if (samples_.size() >= limit_) {
    for (size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
    samples_.resize((samples_.size() + 1) / 2);
    spacing_ *= 2;
  }
  samples_.push_back(sample);
}

}  // namespace cairn
