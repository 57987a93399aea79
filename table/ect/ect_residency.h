// Where the ECT index of one table lives: in memory while the table is open, in the block cache while that has room, or
// only in the file. EctIndexResidency (cairn/ect_table.h) says which.
//
// Thread-safety: any number of threads may ask at once.

#pragma once

#include <atomic>
#include <memory>

#include "cairn/ect_table.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/table.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/cached.h"
#include "table/ect/ect_table_index.h"
#include "table/reader_charge.h"

namespace cairn {

class EctResidency {
 public:
  // `table` outlives this. `tries` were read when it was opened; they are kept, cached or forgotten. `always_bytes`:
  // what the reader holds besides, charged to the block cache together with a pinned index.
  // `load_bytes`: what reading an evicted index again reads.
  EctResidency(EctIndexResidency residency, rocksdb::BlockBasedTable* table, uint64_t file_size,
               std::unique_ptr<EctTries> tries, size_t always_bytes, size_t load_bytes,
               std::shared_ptr<EctTableCounters> counters);
  ~EctResidency();
  EctResidency(const EctResidency&) = delete;
  EctResidency& operator=(const EctResidency&) = delete;

  // The index for the time of one lookup; empty if it is not in memory. An evicted index is read again once lookups
  // without it have read as many bytes too many as that reads, so that both together never cost more than twice what
  // the better of the two would have.
  Cached<EctTries> Acquire(const rocksdb::ReadOptions& read_options);

  // After a lookup without the index that read this many blocks more than one.
  void AddExcess(uint64_t blocks);

  // Bytes that this keeps in memory outside the block cache.
  size_t bytes() const { return pinned_ == nullptr ? 0 : pinned_->bytes(); }

 private:
  void Insert(std::unique_ptr<EctTries> tries) const;
  const EctTries* Value(rocksdb::Cache::Handle* handle) const {
    return static_cast<const EctTries*>(cache_->Value(handle));
  }
  std::unique_ptr<EctTries> Load(const rocksdb::ReadOptions& read_options) const;

  const EctIndexResidency residency_;
  rocksdb::BlockBasedTable* const table_;
  const uint64_t file_size_;
  const uint64_t blocks_;    // of the table
  const size_t load_bytes_;  // that Load reads
  const std::shared_ptr<EctTableCounters> counters_;
  const std::shared_ptr<rocksdb::Cache> cache_;  // may be null
  rocksdb::CacheKey key_;
  std::unique_ptr<EctTries> pinned_;
  ReaderCharge charge_;                    // for what is held outside the cache
  std::atomic<uint64_t> excess_bytes_{0};  // read by lookups since the index was last in memory
};

}  // namespace cairn
