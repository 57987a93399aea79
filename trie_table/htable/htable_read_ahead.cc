#include "trie_table/htable/htable_read_ahead.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "util/async_read.h"
#include "util/of_thread.h"

namespace cairn {

using rocksdb::IOStatus;
using rocksdb::MultiGetContext;

namespace {

// Larger units (extents of large values) are left to the lookup: there is little to gain from overlapping them.
constexpr size_t kLargestUnit = 128 << 10;

struct WantedUnit {
  std::shared_ptr<const HTableFile> file;
  UnitPlace place;
};

// Whose units of the current batch have been found. Batches have no number, so a batch is told from the one before
// by its address and the hashes of its keys; the same keys once more in the same places are taken for the same batch,
// and their units have just been read.
struct RecentBatch {
  const MultiGetContext* context = nullptr;
  std::array<uint64_t, MultiGetContext::MAX_BATCH_SIZE> hashes{};
};

RecentBatch* RecentBatchOf(const MultiGetContext* context) {
  thread_local RecentBatch recent;
  if (recent.context != context) {
    recent = RecentBatch();
    recent.context = context;
  }
  return &recent;
}

// The units that lookups of the batch's remaining keys will read first, without those in the block cache.
// *is_new: no table has looked at the batch before.
std::vector<WantedUnit> UnitsOf(const BatchOfTable& batch, bool* is_new) {
  std::vector<WantedUnit> units;
  *is_new = true;
  MultiGetContext* const context = batch.range->context();
  RecentBatch* const recent = RecentBatchOf(context);
  const MultiGetContext::Range whole = context->GetMultiGetRange();
  for (auto key = whole.begin(); key != whole.end(); ++key) {
    const uint64_t hash = (*batch.hash)(rocksdb::ExtractUserKey(key->ikey));
    if (recent->hashes[key.index()] == hash) {
      *is_new = false;
      continue;
    }
    WantedUnit unit;
    // A filter that is not in memory may be when the batch has come to it.
    if (!batch.filter->FindNewest(key.index(), hash, &unit.file)) continue;
    recent->hashes[key.index()] = hash;
    if (unit.file == nullptr || unit.file->index().empty()) continue;
    unit.place = unit.file->FirstUnitOf(hash);
    if (unit.place.size <= kLargestUnit && !unit.file->IsCached(unit.place)) units.push_back(std::move(unit));
  }
  const auto key_of = [](const WantedUnit& unit) { return std::make_pair(unit.file.get(), unit.place.offset); };
  std::sort(units.begin(), units.end(),
            [&](const WantedUnit& a, const WantedUnit& b) { return key_of(a) < key_of(b); });
  const auto same = [&](const WantedUnit& a, const WantedUnit& b) { return key_of(a) == key_of(b); };
  units.erase(std::unique(units.begin(), units.end(), same), units.end());
  return units;
}

// What ReadBatch leaves to the thread's next lookups.
struct ReadUnit {
  uint64_t file;
  uint64_t offset;
  std::unique_ptr<AsyncRead> read;
};

std::vector<ReadUnit>& ReadUnitsOfThread() {
  struct Units {
    std::vector<ReadUnit> units;
  };
  return OfThread<Units>::Get()->units;
}

}  // namespace

bool CanReadBatch(const HTableFile& file, const rocksdb::ReadOptions& read_options) {
  return CanReadTogether(file.fs().get(), *file.file(), read_options);
}

void ReadBatch(const BatchOfTable& batch) {
  bool is_new = false;
  std::vector<WantedUnit> units = UnitsOf(batch, &is_new);
  if (is_new) ReadUnitsOfThread().clear();
  // One unit alone is the lookup's own.
  if (units.size() < 2) return;
  std::vector<std::unique_ptr<AsyncRead>> reads;
  for (const WantedUnit& unit : units) {
    reads.push_back(std::make_unique<AsyncRead>(unit.file->file(), unit.place.offset, unit.place.size));
  }
  if (!ReadTogether(batch.file->fs().get(), *batch.read_options, &reads)) return;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i]->complete()) continue;
    ReadUnitsOfThread().push_back({units[i].file->id(), units[i].place.offset, std::move(reads[i])});
  }
}

std::unique_ptr<HTableUnit> CopyReadAhead(const HTableFile& file, const UnitPlace& place) {
  for (const ReadUnit& unit : ReadUnitsOfThread()) {
    if (unit.file != file.id() || unit.offset != place.offset) continue;
    std::unique_ptr<HTableUnit> copy = HTableUnit::New(place.size);
    memcpy(copy->bytes(), unit.read->bytes(), place.size);
    return copy;
  }
  return nullptr;
}

void HintBatch(const BatchOfTable& batch) {
  bool is_new = false;
  for (const WantedUnit& unit : UnitsOf(batch, &is_new)) {
    rocksdb::IOOptions io_options;
    IOStatus s = unit.file->file()->PrepareIOOptions(*batch.read_options, io_options);
    if (s.ok()) s = unit.file->file()->Prefetch(io_options, unit.place.offset, unit.place.size);
    if (!s.ok()) return;
  }
}

}  // namespace cairn
