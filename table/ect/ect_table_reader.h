// The reader of cairn.EctTable: Get and MultiGet by the ECT index, or by interpolation where that is not in memory, and
// everything else by the block-based table within.
//
// Thread-safety: as rocksdb::TableReader: any number of threads may read at once.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "cairn/ect_table.h"
#include "file/file_prefetch_buffer.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/ect/ect_table.h"
#include "table/ect/ect_table_index.h"
#include "table/hash_order/hash_order.h"
#include "table/multiget_context.h"
#include "table/wrapped_table_reader.h"

namespace cairn {

// The reader of an EctTable, for a lookup that has chosen the table and asks its filter and its blocks one by one.
class EctTableProbe : public WrappedTableReader {
 public:
  using WrappedTableReader::WrappedTableReader;

  // Null: it is none, or null.
  static const EctTableProbe* Of(const rocksdb::TableReader* reader);

  // What the table's filter says; true if it has none. Counts nothing.
  virtual bool MayHold(uint64_t hash) const = 0;
  // A view of the table's cuckoo filter; an empty one if it has none. MayHold asks it, or the other kind.
  virtual CuckooFilter filter_of_store() const = 0;
  // Its filter has kept a lookup from it: counts those of a table of the SortedStore.
  virtual void CountKeptFromLast() const = 0;
  // Get of a key that the filter lets pass. `hash` is the key's. `started`, which may be null, has been awaited.
  virtual rocksdb::Status Find(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& internal_key,
                               uint64_t hash, rocksdb::GetContext* get_context,
                               rocksdb::FilePrefetchBuffer* started = nullptr) const = 0;

  // The same of keys of a batch; sets their statuses.
  struct KeyOfBatch {
    rocksdb::KeyContext* key;
    uint64_t hash;
    rocksdb::FilePrefetchBuffer* started;
  };
  virtual void FindBatch(const rocksdb::ReadOptions& read_options, const std::vector<KeyOfBatch>& keys) const = 0;

  // For lookups of many keys, whose reads shall be under way together (util/async_read.h): the block that Find looks
  // into first, if that is of use; kNoBlock: it is not, or the block is in memory.
  static constexpr uint64_t kNoBlock = UINT64_MAX;
  virtual uint64_t BlockToStart(const rocksdb::ReadOptions& read_options, uint64_t hash) const = 0;
  // Null: the read could not be started. Who starts reads awaits all of them before the thread does anything else:
  // RocksDB's other asynchronous and parallel reads take completions that are not theirs.
  virtual std::unique_ptr<rocksdb::FilePrefetchBuffer> StartRead(const rocksdb::ReadOptions& read_options,
                                                                 uint64_t block) const = 0;
  virtual void AwaitRead(const rocksdb::ReadOptions& read_options, uint64_t block,
                         rocksdb::FilePrefetchBuffer* started) const = 0;
};

// The same read, but what it brings from the file stays out of the block cache, which may be full.
rocksdb::ReadOptions PastCache(const rocksdb::ReadOptions& read_options);

// Puts a reader with an index around *reader, which holds `table`, and takes the bytes of index and filter out of the
// properties that `table` keeps. Not OK, and *reader as it was, if the properties do not describe an index that fits.
rocksdb::Status OpenEctTableReader(const EctTableOptions& options, const KeyHash& hash, uint64_t file_size,
                                   const std::shared_ptr<EctTableCounters>& counters, rocksdb::BlockBasedTable* table,
                                   std::unique_ptr<rocksdb::TableReader>* reader);

}  // namespace cairn
