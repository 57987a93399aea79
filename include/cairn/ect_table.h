// cairn.EctTable: the table of SILT's SortedStore and HashStores, for column families in hash order. Blocks lie in hash
// order, a Get finds its block by an ECT index (ect.h) of a few bits per key in memory, and reads exactly that one
// block, hit or miss; tables that are not of the last level also have a partial-key cuckoo filter (cuckoo_filter.h),
// which keeps a miss from reading. Those of the last level may have RocksDB's Ribbon filter of as many bits as you like
// to spend.
//
//   options.comparator = ...;    // hash order: "cairn.HashOrder:xxh3"
//   options.table_factory.reset(cairn::NewEctTableFactory(cairn::EctTableOptions()));
//
// or as an option string:
// table_factory={id=cairn.EctTable;filter_tag_bits=15;table={id=BlockBasedTable;block_size=4096}}
//
// The file is a block-based table of RocksDB; index and filter are two of its properties ("cairn.ect", and
// "cairn.cuckoo" or "cairn.ribbon128").
// Iterators, tools, checksums, compression, the block cache and ingestion are RocksDB's own, and a program without
// Cairn's tables reads the file, too. RocksDB's own index is used by iterators and seeks only, and is evicted from the
// block cache when they are rare.
//
// Bytes: docs/design/ect.md. Source: SILT (SOSP 2011; sections 2.2.2 and 2.2.3 of Lim's thesis, CMU 2015).
#pragma once

#include <cstdint>
#include <memory>

#include "rocksdb/table.h"

namespace cairn {

// Where the ECT index of an open table is. What tells where blocks lie, about 16 bits per block, is always in memory.
enum class EctIndexResidency {
  kPinned,   // in memory, charged to the block cache and never evicted
  kCache,    // in the block cache, from which memory pressure evicts it
  kDropped,  // in the file only
};

struct EctTableOptions {
  // The block-based table that holds the blocks. Null: 4 KiB blocks, RocksDB's index in the block cache, no Bloom
  // filter. Parallel and dictionary compression and block_align do not go with an ECT index and are refused.
  std::shared_ptr<rocksdb::TableFactory> table;

  // As in EctOptions: mean keys in a virtual bucket, and the largest trie with a Huffman code.
  uint32_t group = 256;
  uint32_t hmax = 64;

  // Bits of a tag in the filter of tables that are not of the last level, 4 to 25; 0: no filter. 15 means 15.8 bits a
  // key and 0.023 % false positives.
  uint32_t filter_tag_bits = 15;

  // Bits of the filter of tables of the last level, 1 to 16; 0: no filter, and a Get of an absent key reads a block.
  // With b bits, of absent keys 1 in 2^b reads one, and the filter takes a little more than b bits per key.
  uint32_t last_level_filter_bits = 0;

  // Where indexes are kept: "pinned", "cache" or "dropped". A lookup without the index finds its block by
  // interpolation, since hashes are uniform, with 1.2 block reads instead of 1 at 60 items per block
  // (docs/design/silt.md). An evicted index is read again when such reads have cost as much as that. Filters are always
  // in memory, charged to the block cache.
  EctIndexResidency index_residency = EctIndexResidency::kPinned;
};

// The caller owns the factory.
rocksdb::TableFactory* NewEctTableFactory(const EctTableOptions& options);

}  // namespace cairn
