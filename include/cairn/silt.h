// cairn.EctTable: the table of SILT's SortedStore and HashStores, for column families in hash order. Blocks lie in hash
// order, a Get finds its block by an ECT index (ect.h) of a few bits per key in memory, and reads exactly that one
// block, hit or miss; tables that are not of the last level also have a partial-key cuckoo filter (cuckoo_filter.h),
// which keeps a miss from reading.
//
//   options.comparator = ...;    // hash order: "cairn.HashOrder:xxh3"
//   options.table_factory.reset(cairn::NewEctTableFactory(cairn::EctTableOptions()));
//
// or as an option string:
// table_factory={id=cairn.EctTable;filter_tag_bits=15;table={id=BlockBasedTable;block_size=4096}}
//
// The file is a block-based table of RocksDB; index and filter are two of its properties ("cairn.ect", "cairn.cuckoo").
// Iterators, tools, checksums, compression, the block cache and ingestion are RocksDB's own, and a program without
// Cairn's tables reads the file, too. RocksDB's own index is used by iterators and seeks only, and is evicted from the
// block cache when they are rare.
//
// Bytes: docs/ect_table_format.md. Source: H. Lim et al., SILT (SOSP 2011), sections 4.2 and 4.3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/hash_seed.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "rocksdb/table.h"

namespace cairn {

// Where the ECT index of an open table is. What tells where blocks lie, about 16 bits a block, is always in memory.
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

  // Where indexes are kept: "pinned", "cache" or "dropped". A lookup without the index finds its block by
  // interpolation, since hashes are uniform, with 1.2 block reads instead of 1 at 60 items a block (docs/silt.md). An
  // evicted index is read again when such reads have cost as much as that. Filters are always in memory, charged to the
  // block cache.
  EctIndexResidency index_residency = EctIndexResidency::kPinned;
};

// The caller owns the factory.
rocksdb::TableFactory* NewEctTableFactory(const EctTableOptions& options);

// SILT's three stores as one column family: the WAL and the memtable are the LogStore, the tables of level 0 the
// HashStores (with a cuckoo filter), and level 1, the last one, is the SortedStore (no filter: a hit reads one block,
// and so does a miss that all filters let pass).
//
// A merge rewrites the whole SortedStore, and that is what it costs: with N keys in it, a key is written about N / d
// times more. Many small values and few updates are what it is for; a trie (trie.h) writes less.
struct SiltOptions {
  // Hash and seed of the order, as in TrieOptions.
  std::string hash = "xxh3";
  uint64_t seed = kDefaultSeed;

  // HashStores whose merge into the SortedStore is due: SILT's d, in write buffers full of different keys. Of a write
  // buffer in which each key was written twice the HashStore counts as half of one. More: fewer merges, but every
  // lookup asks as many filters.
  int merge_trigger = 16;

  // A merge is due as well when there are so many HashStores, however few keys they hold. 0: three times merge_trigger.
  int max_hash_stores = 0;

  // Threads that share one merge, each with its range of hashes.
  uint32_t merge_threads = 2;

  // `table` within it is taken from the column family's options if those are block-based.
  EctTableOptions table;
};

// Parses "merge_trigger=8;filter_tag_bits=12;...": fields not named keep their value in *options. The fields of `table`
// are named like those of SiltOptions itself, but for `table` within it. Unknown names and bad values are
// InvalidArgument and leave *options unchanged.
rocksdb::Status SiltOptionsFromString(const std::string& text, SiltOptions* options);

// All fields, in the form that SiltOptionsFromString reads.
std::string SiltOptionsToString(const SiltOptions& options);

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateSiltOptions(const SiltOptions& options);

// Makes a column family a SILT store: comparator, table factory, two levels and their triggers. What else the options
// hold (write buffer, compression, merge operator ...) stays. The database wants UseSiltMerges as well, or merges run
// on one thread.
rocksdb::Status UseSilt(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt = SiltOptions());

// Raises the database's max_subcompactions to SiltOptions::merge_threads and adds the listener `cairn.SiltMerges`,
// which starts merges by what the HashStores hold; every opening of a SILT store adds it, too.
rocksdb::Status UseSiltMerges(rocksdb::DBOptions* options, const SiltOptions& silt = SiltOptions());

// Both of the above.
rocksdb::Status UseSilt(rocksdb::Options* options, const SiltOptions& silt = SiltOptions());

// True if `options` describe a SILT store; *silt (may be null) gets what they say of it, all but merge_threads.
bool IsSilt(const rocksdb::ColumnFamilyOptions& options, SiltOptions* silt);

// What a SILT store of this shape is predicted to cost, for updates of keys that are all as popular. Source: H. Lim's
// thesis (2015), equations 2.4 to 2.7; `hash_store_keys` is there 0.93 * 2^(tag_bits + 2), here what a write buffer
// holds.
struct SiltModelInput {
  double keys = 0;             // N, of all stores
  double merge_keys = 0;       // d, of the HashStores that one merge takes
  double hash_store_keys = 0;  // of one HashStore
  double tag_bits = 15;        // k
  double instances = 1;        // P, stores that share the keys
  // Where Cairn's store differs from the paper's: its HashStores have no empty slots (there: 0.93), its filters are
  // fuller (0.93), the LogStore is the memtable (there an index of (k + 1) / 8 + 4 bytes over a log on flash, and a tag
  // to fail), and the index of its SortedStore is smaller (0.4).
  double hash_store_occupancy = 1;
  double filter_occupancy = 0.95;
  bool log_store_in_memory = true;
  double sorted_store_bytes = 0.11;  // of memory for a key in the SortedStore
};

struct SiltModel {
  double write_amplification = 0;   // bytes written per byte put: log, HashStore, merges
  double hash_stores = 0;           // H, on average
  double read_amplification = 0;    // block reads of a lookup that no HashStore answers
  double memory_bytes_per_key = 0;  // indexes and filters
};

SiltModel PredictSilt(const SiltModelInput& input);

// One of the two levels.
struct SiltLevelStats {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t keys = 0;          // user keys, one file by one
  uint64_t layout_bytes = 0;  // of memory: where blocks lie,
  uint64_t index_bytes = 0;   // the ECT indexes, if resident,
  uint64_t filter_bytes = 0;  // the filters
};

struct SiltStats {
  std::string column_family;
  SiltOptions options;
  SiltLevelStats hash_stores;
  SiltLevelStats sorted_store;
  double hash_store_weight = 1;  // mean part of a HashStore's writes that were of different keys
  // Since the column family was created, as far as its tables tell: data blocks, without indexes and filters.
  uint64_t flushed_bytes = 0;
  uint64_t compacted_bytes = 0;
  // In this process, of all column families that share the table factory.
  uint64_t resident_bytes = 0;  // of layouts, indexes and filters
  uint64_t lookups = 0;         // that a HashStore answered or that reached the SortedStore
  uint64_t blocks_read = 0;     // data blocks asked for by them, from the block cache or not
  uint64_t searches = 0;        // lookups without an index in memory
  uint64_t search_blocks = 0;   // data blocks asked for by these
  uint64_t index_loads = 0;     // evicted indexes read again

  SiltModelInput model_input;  // this store's shape
  SiltModel predicted;
  SiltModel measured;  // a field is 0 where nothing was measured yet; the log is counted as 1
};

// NotSupported for a column family that is no SILT store. Also the property "cairn.stats" ("cairn.stats.json") of a
// database of this library.
rocksdb::Status GetSiltStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, SiltStats* stats);

// As a table for people, and as JSON for programs.
std::string SiltStatsToTable(const SiltStats& stats);
std::string SiltStatsToJson(const SiltStats& stats);

}  // namespace cairn
