// cairn.HTable: the table of a trie, for column families in hash order. Buckets of 4 KiB that a key's hash addresses,
// so that a Get reads one bucket, hit or miss, and keeps 2 bytes per bucket in memory instead of an index of keys.
//
//   options.comparator = ...;    // hash order: "cairn.HashOrder:xxh3"
//   options.table_factory.reset(cairn::NewHTableFactory(cairn::HTableOptions()));
//
// or as an option string: table_factory={id=cairn.HTable;bucket_size=4096;table={id=BlockBasedTable;...}}
//
// The factory writes HTables and reads whatever a column family holds: HTables, tables of cairn.EctTable and RocksDB's
// block-based tables, told apart by their magic number. So a database moves into HTable and out of it by compaction.
//
// Thread-safety: as rocksdb::TableFactory. Bytes: docs/design/htable.md. Source: LSM-trie (USENIX ATC 2015; section
// 4.2.4.2 of Wu's dissertation, UT Arlington 2018).

#pragma once

#include <cstdint>
#include <memory>

#include "cairn/filter.h"
#include "rocksdb/table.h"

namespace cairn {

struct HTableOptions {
  // Reads block-based tables; its block cache (or no_block_cache) serves HTable's buckets, too. Null: RocksDB's
  // defaults.
  std::shared_ptr<rocksdb::TableFactory> table;

  // Bytes of a bucket: 4096, 8192, 16384 or 32768. Larger ones waste less where values have several hundred bytes, and
  // compress better; a lookup reads more.
  uint32_t bucket_size = 4096;

  // Buckets that are laid out together, 8 to 256. One costs 2 bytes of memory, a group 36 more; a table that is being
  // written holds one group in memory.
  uint32_t group_buckets = 128;

  // Filters spare a lookup the buckets of tables that have not got the key. The tables of all column families that
  // share the factory share the memory that is reported.
  FilterOptions filter;
};

// The caller owns the factory.
rocksdb::TableFactory* NewHTableFactory(const HTableOptions& options);

}  // namespace cairn
