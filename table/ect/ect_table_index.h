// The properties of a cairn.EctTable: collected while the table is written, and taken apart when it is opened.
// docs/design/ect.md has their bytes.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "cairn/ect.h"
#include "cairn/ect_table.h"
#include "db/table_properties_collector.h"
#include "rocksdb/table_properties.h"
#include "table/block_based/filter_policy_internal.h"
#include "table/ect/ect_block_layout.h"
#include "table/hash_order/hash_order.h"
#include "util/core_local.h"

namespace cairn {

// kCuckoo, with EctTableOptions::filter_tag_bits, or kRibbon, with last_level_filter_bits: none if these are 0.
enum class EctTableFilter { kCuckoo, kRibbon };

// Makes one collector for one table builder, which asks for the table's compaction if `compact`. RocksDB must write
// blocks as they fill up (no parallel or dictionary compression), so that the offsets that the collector sees are
// exact.
std::unique_ptr<rocksdb::InternalTblPropCollFactory> NewEctCollectorFactory(const EctTableOptions& options,
                                                                            const KeyHash& hash, EctTableFilter filter,
                                                                            bool compact);

// What a table's properties say of its index without the index itself. NotFound if the table has none, Corruption or
// NotSupported (a newer version) if it cannot be read.
struct EctTableFacts {
  uint64_t keys = 0;          // user keys
  uint64_t blocks = 0;        // data blocks
  uint64_t layout_bytes = 0;  // where blocks lie
  uint64_t index_bytes = 0;   // ECT
  uint64_t filter_bytes = 0;  // 0: no filter
};
rocksdb::Status ReadEctTableFacts(const rocksdb::TableProperties& properties, EctTableFacts* facts);

// Cuts the properties down to what ReadEctTableFacts needs.
void DropEctTableBytes(rocksdb::TableProperties* properties);

// What lookups found and read, counted by the core that they ran on.
struct EctLookupCounts {
  std::atomic<uint64_t> filtered_hits{0};  // of tables with a cuckoo filter (HashStores) that had entries of the key
  std::atomic<uint64_t> last_lookups{0};   // of others (of the last level)
  std::atomic<uint64_t> last_kept{0};      // ... which their filter kept from reading
  std::atomic<uint64_t> last_misses{0};    // ... which read and found nothing
  std::atomic<uint64_t> blocks{0};         // data blocks asked for, in the cache or not
};

// What the open tables of one factory hold in memory, and what lookups cost. Counters of their own, no order among
// them.
struct EctTableCounters {
  rocksdb::CoreLocalArray<EctLookupCounts> lookups;
  std::atomic<uint64_t> layout_bytes{0};
  std::atomic<uint64_t> index_bytes{0};
  std::atomic<uint64_t> filter_bytes{0};
  std::atomic<uint64_t> searches{0};       // lookups by interpolation
  std::atomic<uint64_t> search_blocks{0};  // data blocks that they asked for
  std::atomic<uint64_t> index_loads{0};    // indexes read again after they were evicted
};

// A run of data blocks: first ... last, none if first > last.
struct BlockRun {
  uint64_t first;
  uint64_t last;
};

// Takes the layout out of the properties; errors as those of ReadEctTableFacts.
rocksdb::Status OpenEctBlockLayout(const rocksdb::TableProperties& properties, std::unique_ptr<EctBlockLayout>* layout);

// The ECT index of one table in memory. Immutable; any number of threads may look up at once.
class EctTries {
 public:
  // Copies the index out of the properties. `counters` (may be null) knows of it while it lives.
  static rocksdb::Status Open(const rocksdb::TableProperties& properties, std::shared_ptr<EctTableCounters> counters,
                              std::unique_ptr<EctTries>* tries);
  ~EctTries();
  EctTries(const EctTries&) = delete;
  EctTries& operator=(const EctTries&) = delete;

  // All data blocks that can hold entries of a key with this hash.
  BlockRun Find(uint64_t hash) const;
  // The same for many.
  void FindBatch(const std::vector<uint64_t>& hashes, std::vector<BlockRun>* runs) const;

  uint64_t blocks() const { return index_.blocks(); }
  size_t bytes() const { return bytes_.size(); }

 private:
  EctTries() = default;
  BlockRun BlocksOf(const EctMatch& match) const;

  std::string bytes_;
  EctIndex index_;  // views bytes_
  std::shared_ptr<EctTableCounters> counters_;
};

// What RocksDB's ribbon filter has as the key of a hash, which must outlive it.
inline rocksdb::Slice RibbonKey(const uint64_t& hash) { return {reinterpret_cast<const char*>(&hash), sizeof(hash)}; }

// The filter of one table in memory. Immutable.
class EctTableFilterInMemory {
 public:
  // OK and no filter (it then lets everything pass) if the table has none.
  static rocksdb::Status Open(const rocksdb::TableProperties& properties,
                              std::unique_ptr<EctTableFilterInMemory>* filter);
  bool exists() const { return !bytes_.empty(); }
  // One that tables of the last level do not have.
  bool is_cuckoo() const { return cuckoo_.tag_bits() != 0; }
  bool MayContain(uint64_t hash) const {
    return is_cuckoo() || ribbon_ == nullptr ? cuckoo_.MayContain(hash) : ribbon_->MayMatch(RibbonKey(hash));
  }
  const CuckooFilter& cuckoo() const { return cuckoo_; }
  size_t bytes() const { return bytes_.size(); }

 private:
  std::string bytes_;
  // Views of bytes_, of which one is there, or none.
  CuckooFilter cuckoo_;
  std::unique_ptr<rocksdb::FilterBitsReader> ribbon_;
};

}  // namespace cairn
