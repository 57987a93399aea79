#include "table/ect/ect_residency.h"

#include <algorithm>
#include <utility>

#include "cache/typed_cache.h"
#include "rocksdb/env.h"
#include "table/cache_counts.h"
#include "table/meta_blocks.h"
#include "table/perf_counts.h"

namespace cairn {

namespace {

using IndexCache = rocksdb::BasicTypedCacheInterface<EctTries, rocksdb::CacheEntryRole::kIndexBlock>;

// No block has the file's end as its offset.
rocksdb::CacheKey KeyOf(const rocksdb::BlockBasedTable& table, uint64_t file_size) {
  return table.get_rep()->base_cache_key.WithOffset(file_size >> 2);
}

}  // namespace

EctResidency::EctResidency(EctIndexResidency residency, rocksdb::BlockBasedTable* table, uint64_t file_size,
                           std::unique_ptr<EctTries> tries, size_t always_bytes, size_t load_bytes,
                           std::shared_ptr<EctTableCounters> counters)
    : residency_(residency),
      table_(table),
      file_size_(file_size),
      blocks_(tries->blocks()),
      load_bytes_(load_bytes),
      counters_(std::move(counters)),
      cache_(table->get_rep()->table_options.block_cache) {
  if (residency == EctIndexResidency::kPinned) pinned_ = std::move(tries);
  if (cache_ == nullptr) return;
  key_ = KeyOf(*table, file_size);
  if (residency == EctIndexResidency::kCache) Insert(std::move(tries));
  // RocksDB's reader has been charged and kept to a strict limit: what it holds without the index is less. Where the
  // cache refuses this, it is not charged.
  charge_.Take(cache_, key_.AsSlice(), always_bytes + bytes(), ReaderChargeDecision(table->get_rep()->table_options))
      .PermitUncheckedError();
}

EctResidency::~EctResidency() {
  // The table is closed, and often because its file is gone.
  if (residency_ == EctIndexResidency::kCache && cache_ != nullptr) cache_->Erase(key_.AsSlice());
}

void EctResidency::Insert(std::unique_ptr<EctTries> tries) const {
  const size_t charge = sizeof(EctTries) + tries->bytes();
  // A full cache with a strict limit refuses it, and then there is no index.
  if (IndexCache(cache_.get())
          .Insert(key_.AsSlice(), tries.get(), charge, nullptr, rocksdb::Cache::Priority::HIGH)
          .ok()) {
    CountCacheAdd(table_->get_rep()->ioptions.stats, CachedPart::kIndex, charge);
    static_cast<void>(tries.release());  // the cache owns it now
  }
}

std::unique_ptr<EctTries> EctResidency::Load(const rocksdb::ReadOptions& read_options) const {
  const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
  std::unique_ptr<rocksdb::TableProperties> properties;
  std::unique_ptr<EctTries> tries;
  rocksdb::Status status = rocksdb::ReadTableProperties(
      rep.file.get(), file_size_, rocksdb::Footer::kNullTableMagicNumber, rep.ioptions, read_options, &properties);
  if (status.ok()) status = EctTries::Open(*properties, counters_, &tries);
  if (status.ok() && tries->blocks() != blocks_) {
    status = rocksdb::Status::Corruption("the index is not the one that was there when the file was opened");
    tries.reset();
  }
  if (!status.ok()) {
    rocksdb::Warn(rep.ioptions.logger, "cairn.EctTable: the index of %s cannot be read again: %s",
                  rep.file->file_name().c_str(), status.ToString().c_str());
    return nullptr;
  }
  // Its blocks have counted as properties.
  PERF_COUNTER_ADD(index_block_read_count, 1);
  counters_->index_loads.fetch_add(1, std::memory_order_relaxed);
  return tries;
}

Cached<EctTries> EctResidency::Acquire(const rocksdb::ReadOptions& read_options) {
  if (pinned_ != nullptr) return Cached<EctTries>(pinned_.get());
  if (residency_ != EctIndexResidency::kCache || cache_ == nullptr) return {};
  rocksdb::Statistics* const statistics = table_->get_rep()->ioptions.stats;
  const int level = std::max(0, table_->get_rep()->level);
  rocksdb::Cache::Handle* handle = cache_->BasicLookup(key_.AsSlice(), statistics);
  if (handle != nullptr) {
    CountCacheHit(statistics, CachedPart::kIndex, level, cache_->GetUsage(handle));
    return {Value(handle), cache_.get(), handle};
  }
  CountCacheMiss(statistics, CachedPart::kIndex, level);
  uint64_t excess = excess_bytes_.load(std::memory_order_relaxed);
  // One thread pays, the others go on without. A hint only, so no order with anything else.
  if (excess < load_bytes_ || read_options.read_tier == rocksdb::kBlockCacheTier || !read_options.fill_cache ||
      !excess_bytes_.compare_exchange_strong(excess, 0, std::memory_order_relaxed)) {
    return {};
  }
  std::unique_ptr<EctTries> tries = Load(read_options);
  if (tries != nullptr) Insert(std::move(tries));
  handle = cache_->BasicLookup(key_.AsSlice(), statistics);
  if (handle == nullptr) return {};
  return {Value(handle), cache_.get(), handle};
}

void EctResidency::AddExcess(uint64_t blocks) {
  excess_bytes_.fetch_add(blocks * table_->get_rep()->table_options.block_size, std::memory_order_relaxed);
}

}  // namespace cairn
