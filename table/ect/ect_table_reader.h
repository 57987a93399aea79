// The reader of cairn.EctTable: Get and MultiGet by the ECT index, or by interpolation where that is not in memory, and
// everything else by the block-based table within.
//
// Thread-safety: as rocksdb::TableReader: any number of threads may read at once.

#pragma once

#include <atomic>
#include <memory>

#include "cairn/ect_table.h"
#include "db/version_edit.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/ect/ect_table.h"
#include "table/ect/ect_table_index.h"
#include "table/hash_order/hash_order.h"
#include "table/wrapped_table_reader.h"

namespace cairn {

// The reader of an EctTable, for a lookup that has chosen the table and asks its filter and its blocks one by one.
class EctTableProbe : public WrappedTableReader {
 public:
  using WrappedTableReader::WrappedTableReader;

  // Null: it is none, or null.
  static const EctTableProbe* Of(const rocksdb::TableReader* reader);

  // The hashes of the smallest and the largest key of the table, which is that file.
  struct Hashes {
    uint64_t first, last;
  };
  Hashes HashesOf(const rocksdb::FdWithKeyRange& file) const;

  virtual const KeyHash& hash() const = 0;
  // What the table's filter says; true if it has none. Counts nothing.
  virtual bool MayHold(uint64_t hash) const = 0;
  // Begins to load what MayHold will read: tables are chosen first, then asked, so that their cache misses overlap.
  virtual void PrefetchFilter(uint64_t hash) const = 0;
  // Its filter has kept a lookup from it: counts those of a table of the SortedStore.
  virtual void CountKeptFromLast() const = 0;
  // Get of a key that the filter lets pass. `hash` is the key's.
  virtual rocksdb::Status Find(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& internal_key,
                               uint64_t hash, rocksdb::GetContext* get_context) const = 0;

 private:
  // Found by the first who asks. first_hash_ is set last; what is kUnknown may be asked for again.
  static constexpr uint64_t kUnknown = ~uint64_t{0};
  mutable std::atomic<uint64_t> first_hash_{kUnknown}, last_hash_{0};
};

// The same read, but what it brings from the file stays out of the block cache, which may be full.
rocksdb::ReadOptions PastCache(const rocksdb::ReadOptions& read_options);

// Puts a reader with an index around *reader, which holds `table`, and takes the bytes of index and filter out of the
// properties that `table` keeps. Not OK, and *reader as it was, if the properties do not describe an index that fits.
rocksdb::Status OpenEctTableReader(const EctTableOptions& options, const KeyHash& hash, uint64_t file_size,
                                   const std::shared_ptr<EctTableCounters>& counters, rocksdb::BlockBasedTable* table,
                                   std::unique_ptr<rocksdb::TableReader>* reader);

}  // namespace cairn
