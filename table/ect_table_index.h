// The two properties of a cairn.EctTable: collected while the table is written, and looked up in when it is read.
// docs/ect_table_format.md has their bytes.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "cairn/ect.h"
#include "cairn/silt.h"
#include "db/table_properties_collector.h"
#include "rocksdb/table_properties.h"
#include "table/elias_fano.h"
#include "table/hash_order.h"

namespace cairn {

enum class EctTableFilter { kNone, kCuckoo };

// Makes one collector for one table builder. RocksDB must write blocks as they fill up (no parallel or dictionary
// compression), so that the offsets that the collector sees are exact.
std::unique_ptr<rocksdb::InternalTblPropCollFactory> NewEctCollectorFactory(const EctTableOptions& options,
                                                                            const KeyHash& hash, EctTableFilter filter);

// A run of data blocks: first ... last, none if first > last.
struct BlockRun {
  uint64_t first;
  uint64_t last;
};

// What a reader keeps of the properties. Immutable; any number of threads may look up at once.
class EctTableIndex {
 public:
  // Views the properties' bytes in place and keeps them alive. NotFound if the table has no index, Corruption if it
  // does not fit.
  static rocksdb::Status Open(std::shared_ptr<const rocksdb::TableProperties> properties,
                              std::unique_ptr<EctTableIndex>* index);

  bool has_filter() const { return has_filter_; }
  bool MayContain(uint64_t hash) const { return filter_.MayContain(hash); }
  // All data blocks that can hold entries of a key with this hash.
  BlockRun Find(uint64_t hash) const;
  // Where a block lies in the file, and its size without RocksDB's trailer.
  void Locate(uint64_t block, uint64_t* offset, uint64_t* size) const;

  // Bytes of index and filter.
  size_t bytes() const { return bytes_; }

 private:
  EctTableIndex() = default;

  std::shared_ptr<const rocksdb::TableProperties> properties_;
  EctIndex index_;
  EliasFano offsets_;
  CuckooFilter filter_;
  bool has_filter_ = false;
  uint64_t data_end_ = 0;
  size_t bytes_ = 0;
};

}  // namespace cairn
