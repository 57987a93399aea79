// Filters of the tables of a trie: how many bits, and where they are kept. Part of HTableOptions; in option strings the
// fields are named filter_bits, filter_bits_per_depth, filter_residency (auto, pinned, cache, disk),
// filter_memory_share and filter_clusters (auto, never, always).
//
// The filters of all tables that a lookup may have to ask at one depth lie side by side and answer together: by one or
// two cache lines where they are pinned in memory, by at most one page read where they are not.
//
// Source: LSM-trie (USENIX ATC 2015; section 4.2.4.3 of Wu's dissertation, UT Arlington 2018);
// docs/design/bloom_cluster.md.

#pragma once

#include "rocksdb/status.h"

namespace cairn {

// Where filters are when they are asked. Fewer bytes of memory, more reads, from first to last.
enum class FilterResidency {
  kAuto,    // kCache where RocksDB's cache_index_and_filter_blocks is set, otherwise kPinned
  kPinned,  // all in memory, charged to the block cache; tables in other slots are asked along, without I/O
  kCache,   // whole depths in memory while memory_share allows, the shallowest first; of the others pages in the block
            // cache: at most one page read for all slots of a depth
  kDisk,    // pages are read whenever they are asked: one read for all slots of a depth
};

enum class FilterClusters {
  kAuto,  // kAlways unless filters are pinned
  kNever,
  kAlways,
};

struct FilterOptions {
  // Bits of filter a key, 6 to 20; 0: no filters. 16 lets through 0.01 % a table, 0.15 % a container of 16 slots.
  double bits_per_key = 16;

  // More bits per key for each depth above the deepest one that has tables, 0 to 10, up to 20 bits in all. A false
  // positive costs a read at any depth, but bits are cheap where keys are few: log2(fan_out) is the optimum (Monkey,
  // SIGMOD 2017). At 3 and a fan-out of 8 it is half a bit per key on average, and a trie of three depths lets through
  // a third.
  double bits_per_depth = 3;

  // kPinned takes bits_per_key of memory for every key of the database.
  FilterResidency residency = FilterResidency::kAuto;

  // With kCache: the share of the block cache, 0 to 1, that filters of whole depths may take. The deepest depth of them
  // may get fewer bits a key than its files have, if it fits then. Column families and databases that share a cache
  // share this, by the filters that they have. Can be changed by SetOptions, for tables that are opened from then on.
  double memory_share = 0.8;

  // Whether a new table's filter block also holds the filters of the slots beneath it. It costs up to a tenth more
  // bytes written, and saves all but one of the page reads of a depth when filters are not pinned.
  FilterClusters clusters = FilterClusters::kAuto;
};

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateFilterOptions(const FilterOptions& options);

}  // namespace cairn
