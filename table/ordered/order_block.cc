#include "table/ordered/order_block.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cache/typed_cache.h"
#include "memory/memory_allocator_impl.h"
#include "rocksdb/env.h"
#include "rocksdb/port/block_based.h"
#include "table/block_based/block.h"
#include "table/cache_counts.h"
#include "table/meta_blocks.h"
#include "test_util/sync_point.h"
#include "util/random.h"

namespace cairn {

namespace {

constexpr uint64_t kPageBytes = 4096;

using rocksdb::Status;
using BlockCache = rocksdb::BasicTypedCacheInterface<OrderBlock, rocksdb::CacheEntryRole::kFilterBlock>;

}  // namespace

std::string EncodeOrderFacts(const OrderFacts& facts) {
  char text[96];
  snprintf(text, sizeof(text), "keys=%llu;bytes=%llu;error=%.4f", static_cast<unsigned long long>(facts.keys),
           static_cast<unsigned long long>(facts.bytes), facts.error);
  return text;
}

bool DecodeOrderFacts(const std::string& text, OrderFacts* facts) {
  unsigned long long keys, bytes;
  double error;
  if (sscanf(text.c_str(), "keys=%llu;bytes=%llu;error=%lf", &keys, &bytes, &error) != 3) return false;
  *facts = {keys, bytes, error};
  return true;
}

Status OrderBlock::Make(rocksdb::BlockContents&& contents, std::unique_ptr<OrderBlock>* block) {
  auto made = std::make_unique<OrderBlock>();
  made->contents_ = std::move(contents);
  const rocksdb::Slice& data = made->contents_.data;
  const char* const wrong = made->filter_.Open(data.data(), data.size());
  if (wrong != nullptr) return Status::Corruption("the order filter is " + std::string(wrong));
  *block = std::move(made);
  return Status::OK();
}

OrderBlockPlace::OrderBlockPlace(const rocksdb::ReadOptions& read_options, rocksdb::BlockBasedTable* table,
                                 uint64_t file_size, bool prefetch, size_t max_file_size_for_l0_meta_pin)
    : table_(table),
      cache_(table->get_rep()->table_options.cache_index_and_filter_blocks ? table->get_rep()->table_options.block_cache
                                                                           : nullptr) {
  const rocksdb::BlockBasedTable::Rep& rep = *table->get_rep();
  const Status status = Find(read_options);
  IGNORE_STATUS_IF_ERROR(status);
  if (!status.ok()) {
    rocksdb::Warn(rep.ioptions.logger, "cairn.OrderedTable: %s has no order filter to be used: %s",
                  rep.file->file_name().c_str(), status.ToString().c_str());
  }
  if (!exists_) return;
  if (cache_ != nullptr) {
    key_ = rocksdb::BlockBasedTable::GetCacheKey(rep.base_cache_key, handle_);
    const bool stays = StaysInCache(file_size, max_file_size_for_l0_meta_pin);
    if (!stays && !prefetch) return;
    rocksdb::Cache::Handle* handle = cache_->BasicLookup(key_.AsSlice(), rep.ioptions.stats);
    if (handle == nullptr) handle = LoadIntoCache(read_options);
    if (stays) {
      pinned_ = handle;
    } else if (handle != nullptr) {
      cache_->Release(handle);
    }
    return;
  }
  held_ = Load(read_options);
  exists_ = held_ != nullptr;
  using Decision = rocksdb::CacheEntryRoleOptions::Decision;
  const bool charged = ReaderChargeDecision(rep.table_options) == Decision::kEnabled;
  const rocksdb::CacheKey key = rocksdb::BlockBasedTable::GetCacheKey(rep.base_cache_key, handle_);
  // RocksDB's reader has been charged and kept to a strict limit; what this adds to it is small, and where the cache
  // refuses it, it is not charged.
  charge_
      .Take(rep.table_options.block_cache, key.AsSlice(), bytes(), charged ? Decision::kEnabled : Decision::kDisabled)
      .PermitUncheckedError();
}

OrderBlockPlace::~OrderBlockPlace() {
  if (pinned_ != nullptr) cache_->Release(pinned_);
  if (forget_ && exists_ && cache_ != nullptr) cache_->Erase(key_.AsSlice());
}

// As RocksDB pins a filter that is not partitioned.
bool OrderBlockPlace::StaysInCache(uint64_t file_size, size_t max_file_size_for_l0_meta_pin) const {
  const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
  const bool maybe_flushed = rep.level == 0 && file_size <= max_file_size_for_l0_meta_pin;
  switch (rep.table_options.metadata_cache_options.unpartitioned_pinning) {
    case rocksdb::PinningTier::kFallback:
      return maybe_flushed && rep.table_options.pin_l0_filter_and_index_blocks_in_cache;
    case rocksdb::PinningTier::kNone:
      return false;
    case rocksdb::PinningTier::kFlushedAndSimilar:
      return maybe_flushed;
    case rocksdb::PinningTier::kAll:
      return true;
  }
  return false;
}

Status OrderBlockPlace::Find(const rocksdb::ReadOptions& read_options) {
  const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
  if (rep.table_properties == nullptr || rep.table_properties->user_collected_properties.count(kOrderProperty) == 0) {
    return Status::OK();
  }
  rocksdb::BlockContents contents;
  Status status = port::ReadStoredBlock(rep, read_options, rep.footer.metaindex_handle(),
                                        rocksdb::BlockType::kMetaIndex, &contents);
  if (!status.ok()) return status;
  rocksdb::Block meta_index(std::move(contents));
  const std::unique_ptr<rocksdb::InternalIterator> entries(meta_index.NewMetaIterator());
  // A tool may have written the file anew without it.
  status = rocksdb::FindOptionalMetaBlock(entries.get(), kOrderBlockName, &handle_);
  exists_ = status.ok() && !handle_.IsNull();
  return status;
}

std::unique_ptr<OrderBlock> OrderBlockPlace::Load(const rocksdb::ReadOptions& read_options) const {
  const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
  rocksdb::ReadOptions checked = read_options;
  checked.verify_checksums = true;
  rocksdb::BlockContents contents;
  std::unique_ptr<OrderBlock> block;
  Status status = port::ReadStoredBlock(rep, checked, handle_, rocksdb::BlockType::kFilter, &contents);
  // Of a mapped file these are the file's own bytes, which go with this reader; what lies in a cache stays.
  if (status.ok() && cache_ != nullptr && !contents.own_bytes()) {
    rocksdb::MemoryAllocator* const allocator = cache_->memory_allocator();
    contents = rocksdb::BlockContents(rocksdb::AllocateAndCopyBlock(contents.data, allocator), contents.data.size());
  }
  if (status.ok()) status = OrderBlock::Make(std::move(contents), &block);
  IGNORE_STATUS_IF_ERROR(status);
  if (!status.ok()) {
    rocksdb::Warn(rep.ioptions.logger, "cairn.OrderedTable: the order filter of %s at offset %llu cannot be read: %s",
                  rep.file->file_name().c_str(), static_cast<unsigned long long>(handle_.offset()),
                  status.ToString().c_str());
    return nullptr;
  }
  return block;
}

rocksdb::Cache::Handle* OrderBlockPlace::LoadIntoCache(const rocksdb::ReadOptions& read_options) const {
  std::unique_ptr<OrderBlock> block = Load(read_options);
  if (block == nullptr) return nullptr;
  const rocksdb::BlockBasedTable::Rep& rep = *table_->get_rep();
  const auto priority = rep.table_options.cache_index_and_filter_blocks_with_high_priority
                            ? rocksdb::Cache::Priority::HIGH
                            : rocksdb::Cache::Priority::LOW;
  BlockCache cache(cache_.get());
  BlockCache::TypedHandle* handle = nullptr;
  if (!cache.Insert(key_.AsSlice(), block.get(), block->ApproximateMemoryUsage(), &handle, priority).ok()) {
    return nullptr;
  }
  CountCacheAdd(rep.ioptions.stats, CachedPart::kFilter, block->ApproximateMemoryUsage());
  static_cast<void>(block.release());  // the cache owns it now
  return reinterpret_cast<rocksdb::Cache::Handle*>(handle);
}

Cached<OrderFilter> OrderBlockPlace::Acquire(const rocksdb::ReadOptions& read_options, For use) const {
  if (!exists_) return {};
  if (held_ != nullptr) return Cached<OrderFilter>(&held_->filter());
  if (pinned_ != nullptr) return Cached<OrderFilter>(Filter(pinned_));
  rocksdb::Statistics* const statistics = table_->get_rep()->ioptions.stats;
  const int level = std::max(0, table_->get_rep()->level);
  rocksdb::Cache::Handle* handle = cache_->BasicLookup(key_.AsSlice(), statistics);
  if (handle != nullptr) {
    CountCacheHit(statistics, CachedPart::kFilter, level, cache_->GetUsage(handle));
    return {Filter(handle), cache_.get(), handle};
  }
  CountCacheMiss(statistics, CachedPart::kFilter, level);
  if (read_options.read_tier == rocksdb::kBlockCacheTier) return {};
  const auto pages = static_cast<int>(handle_.size() / kPageBytes) + 1;
  if (use == For::kLookup && !rocksdb::Random::GetTLSInstance()->OneIn(pages)) return {};
  handle = LoadIntoCache(read_options);
  if (handle == nullptr) return {};
  return {Filter(handle), cache_.get(), handle};
}

}  // namespace cairn
