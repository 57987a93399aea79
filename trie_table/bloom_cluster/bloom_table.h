// What a table format uses of BloomCluster: a builder for the filter block of one table, and a filter for one open
// table that shares its probes with the tables that lie in other slots of the same container.
//
//   Build:  TableFilterBuilder filter(directory, FilterContextOf(table_builder_options));
//           filter.Add(hash);                      // of every user key, in any order
//           filter.Finish(&block);                 // to be written at a multiple of kFilterPageBytes
//   Read:   TableFilter::Open(directory, FilterContextOf(table_reader_options, properties), read_options, file, offset,
//                             size, &filter);
//           if (!filter->MayContain(read_options, hash)) return Status::OK();  // certainly not in this table
//
// The hash is the position of the user key in hash order (table/hash_order/hash_order.h): a uniform 64-bit number.
//
// Thread-safety: a builder serves one thread, a TableFilter any number, a FilterDirectory everything of one factory.
// Source: LSM-trie (USENIX ATC 2015; section 4.2.4.3 of Wu's dissertation, UT Arlington 2018);
// docs/design/bloom_cluster.md has bytes and invariants.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/cache_key.h"
#include "cairn/filter.h"
#include "file/random_access_file_reader.h"
#include "rocksdb/cache.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/options_type.h"
#include "table/table_builder.h"

namespace cairn {

class FilterBlock;
class FilterContainer;
struct FilterCover;
class FilterDirectory;
struct FilterShape;
class HTableFile;

// The name of the filter block in the metaindex.
constexpr char kFilterBlockName[] = "cairn.filter";

// A filter block begins at a multiple of this in its file, so that one read of one page answers a lookup.
constexpr size_t kFilterPageBytes = 4096;

// Describes the fields to RocksDB's option parser: filter_bits, filter_bits_per_depth, filter_residency (auto,
// pinned, cache, disk), filter_memory_share, filter_clusters (auto, never, always).
const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& FilterOptionTypes();

// What a filter must know of its table.
struct FilterContext {
  // Names the table and its content for ever: never the same for another table, not even after a restore or an import.
  // 0: unknown; the table's filter stays on its own.
  uint64_t table_id = 0;
  // The container at a depth of the trie that holds a key of this position. Tables of one container share their
  // probes. A wrong one costs speed, never answers. Empty or 0: none.
  std::function<uint64_t(uint64_t position, int depth)> container_of;
  // Of the trie, the root included.
  int depths = 0;
  // RocksDB's level, -1 if not known. Lower is newer.
  int level = -1;
  // Of the trie, -1 if there is none.
  int depth = -1;
  // For charges and cached pages; may be null.
  std::shared_ptr<rocksdb::Cache> block_cache;
  // Keys of this table's cached pages; only needed with block_cache and kCache.
  rocksdb::OffsetableCacheKey cache_key;
  rocksdb::Statistics* statistics = nullptr;
  // The open table, and its largest sequence number, for FindNewest.
  std::weak_ptr<const HTableFile> table;
  uint64_t newest = 0;
};

// The identity of a table; 0 if a part is missing.
uint64_t FilterTableId(const std::string& db_id, const std::string& db_session_id, uint64_t orig_file_number);

// Of a table that is being built. The container is that of a trie (the partitioner tells its shape), or none.
FilterContext FilterContextOf(const rocksdb::TableBuilderOptions& options);

// Of a table that is being opened; the caller fills in block_cache and cache_key.
FilterContext FilterContextOf(const rocksdb::TableReaderOptions& options, const rocksdb::TableProperties& properties);

// The filters of the open tables at a depth.
struct FilterDepth {
  int depth = 0;
  uint64_t tables = 0;
  uint64_t tables_in_memory = 0;  // whose filters are
  uint64_t file_bytes = 0;
  uint64_t memory_bytes = 0;
};

using FilterHashes = std::array<uint64_t, 32>;

// The keys of a MultiGet, by their places in it, of which a table is asked about some.
struct FilterBatch {
  static constexpr size_t kMaxKeys = std::tuple_size<FilterHashes>::value;

  FilterHashes hashes;
  // The set of places that the table is asked about.
  uint64_t wanted = 0;
  // Called when pages have to be read: fills in the hashes of all keys that have not been found yet, and returns their
  // places. Empty: only those that are wanted are read for.
  std::function<uint64_t(FilterHashes* hashes)> add_others;
  // Reads pages of several files at the same time; null if it cannot (CanReadTogether).
  rocksdb::FileSystem* async_reads = nullptr;
};

class TableFilterBuilder {
 public:
  TableFilterBuilder(std::shared_ptr<FilterDirectory> directory, const FilterContext& context);

  // Equal hashes one after the other count once. Ascending hashes (hash order) are the fastest.
  void Add(uint64_t hash);
  uint64_t keys() const { return hashes_.size(); }
  // Of the finished block, for TableBuilder::EstimatedFileSize.
  uint64_t EstimatedBytes() const;
  // Appends the block; it stays empty if there is nothing to write: no keys, no filter wanted, or hashes so uneven that
  // one is of no use.
  rocksdb::Status Finish(std::string* block);

 private:
  double bits() const;
  FilterShape OwnShape(unsigned wanted_precision) const;
  // False if a block could not be read, or the hashes are too uneven for a filter; *block is then unchanged.
  bool Write(const std::vector<FilterCover>& beneath, unsigned wanted_precision, std::string* block);

  const std::shared_ptr<FilterDirectory> directory_;
  const FilterContext context_;
  std::vector<uint64_t> hashes_;
  double pages_per_key_ = 0;  // as of the last of every kKeysPerEstimate keys
  bool sorted_ = true;
};

class TableFilter {
 public:
  TableFilter(std::shared_ptr<FilterDirectory> directory, const FilterContext& context,
              std::shared_ptr<const FilterBlock> block);
  ~TableFilter();
  TableFilter(const TableFilter&) = delete;

  // Corruption that names file and offset if the block's index is damaged. `file` is kept.
  static rocksdb::Status Open(const std::shared_ptr<FilterDirectory>& directory, const FilterContext& context,
                              const rocksdb::ReadOptions& read_options,
                              std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, uint64_t size,
                              std::unique_ptr<TableFilter>* filter);

  // False: no key with this hash is in the table. True: there may be one, or the filter cannot tell now (a page is
  // damaged, or kBlockCacheTier forbids to read it). Ticks RocksDB's BLOOM_FILTER_USEFUL and _FULL_POSITIVE.
  bool MayContain(const rocksdb::ReadOptions& read_options, uint64_t hash) const;

  // The same for a MultiGet: the wanted places whose keys may be in the table. Overlaps the cache misses of pinned
  // filters, and reads pages of others together: those that the table's keys need and, with async_reads, those that the
  // other keys will need at this depth of the trie. What they say the thread remembers until its next batch.
  uint64_t MayContainBatch(const rocksdb::ReadOptions& read_options, FilterBatch* batch) const;

  // The newest open table, at this depth of the trie or below, that may hold the key with this hash and place in the
  // thread's MultiGet, by what is in memory. False: a filter that would have to be asked is not in memory. *table is
  // null if there is none.
  bool FindNewest(size_t place, uint64_t hash, std::shared_ptr<const HTableFile>* table) const;

  // Whom to ask instead of this filter, together with the container's other tables: its number there does not change
  // while it is open.
  struct Membership {
    std::shared_ptr<FilterDirectory> directory;  // outlives the container
    std::shared_ptr<const FilterContainer> container;
    unsigned member = 0;
    bool in_memory = false;  // the container's answers, for now
  };
  Membership FindMembership() const;

  // Reads every page and compares its checksum.
  rocksdb::Status Verify(const rocksdb::ReadOptions& read_options) const;

  // This table's share of the memory.
  size_t ApproximateMemoryUsage() const;

 private:
  rocksdb::Status Join(const rocksdb::ReadOptions& read_options);

  const std::shared_ptr<FilterDirectory> directory_;
  const FilterContext context_;
  const std::shared_ptr<const FilterBlock> block_;
  std::shared_ptr<FilterContainer> container_;  // null: not joined
  unsigned member_ = 0;
};

}  // namespace cairn
