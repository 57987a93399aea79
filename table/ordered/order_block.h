// The order filter as a block of a block-based table's file: a meta block that RocksDB passes over.
// docs/design/ordered.md says where it lies and why RocksDB does not mind.
//
// Thread-safety: an OrderBlock is immutable; OrderBlockPlace may be asked by any number of threads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/advanced_cache.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/cached.h"
#include "table/format.h"
#include "table/ordered/order_filter.h"
#include "table/reader_charge.h"

namespace cairn {

// RocksDB knows names that begin so as those of old filters, which it ignores, in debug builds, too.
constexpr char kOrderBlockName[] = "filter.cairn.order";
// The property that says that there is one.
constexpr char kOrderProperty[] = "cairn.order";

// What the property says.
struct OrderFacts {
  uint64_t keys = 0;
  uint64_t bytes = 0;
  double error = 0;  // estimated share of targets that the filter cannot tell from a key
};
std::string EncodeOrderFacts(const OrderFacts& facts);
// False if it is not that property's value.
bool DecodeOrderFacts(const std::string& text, OrderFacts* facts);

class OrderBlock {
 public:
  // Corruption names what is wrong.
  static rocksdb::Status Make(rocksdb::BlockContents&& contents, std::unique_ptr<OrderBlock>* block);

  const OrderFilter& filter() const { return filter_; }
  size_t ApproximateMemoryUsage() const {
    return sizeof(*this) + contents_.ApproximateMemoryUsage() + filter_.memory();
  }

 private:
  rocksdb::BlockContents contents_;
  OrderFilter filter_;
};

// Where the order filter of one open table is: on the heap, or in the block cache, as the options say of RocksDB's own
// filters (cache_index_and_filter_blocks and how those are pinned).
class OrderBlockPlace {
 public:
  // `table` outlives this. `prefetch`: read a filter that is to be cached now.
  OrderBlockPlace(const rocksdb::ReadOptions& read_options, rocksdb::BlockBasedTable* table, uint64_t file_size,
                  bool prefetch, size_t max_file_size_for_l0_meta_pin);
  ~OrderBlockPlace();
  OrderBlockPlace(const OrderBlockPlace&) = delete;
  OrderBlockPlace& operator=(const OrderBlockPlace&) = delete;

  bool exists() const { return exists_; }
  // What asks. A filter saves a seek a block, and a point lookup only the block that a Bloom filter has let pass in
  // error. So of lookups that miss it in the cache, one in as many reads it as it has pages.
  enum class For { kSeek, kLookup };
  // The filter for the time of one of these; empty if there is none, or none without more I/O than it is worth.
  Cached<OrderFilter> Acquire(const rocksdb::ReadOptions& read_options, For use) const;
  // Bytes outside the block cache.
  size_t bytes() const { return held_ == nullptr ? 0 : held_->ApproximateMemoryUsage(); }
  // The file is gone: its filter is not to stay in the cache.
  void Forget() { forget_ = true; }

 private:
  rocksdb::Status Find(const rocksdb::ReadOptions& read_options);
  std::unique_ptr<OrderBlock> Load(const rocksdb::ReadOptions& read_options) const;
  const OrderFilter* Filter(rocksdb::Cache::Handle* handle) const {
    return &static_cast<const OrderBlock*>(cache_->Value(handle))->filter();
  }
  rocksdb::Cache::Handle* LoadIntoCache(const rocksdb::ReadOptions& read_options) const;
  bool StaysInCache(uint64_t file_size, size_t max_file_size_for_l0_meta_pin) const;

  rocksdb::BlockBasedTable* const table_;
  rocksdb::BlockHandle handle_;
  bool exists_ = false;
  bool forget_ = false;
  const std::shared_ptr<rocksdb::Cache> cache_;  // null if it is kept on the heap
  rocksdb::CacheKey key_;
  std::unique_ptr<OrderBlock> held_;
  rocksdb::Cache::Handle* pinned_ = nullptr;
  ReaderCharge charge_;
};

}  // namespace cairn
