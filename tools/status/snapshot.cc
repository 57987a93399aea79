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

}  // namespace cairn
