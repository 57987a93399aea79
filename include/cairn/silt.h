// SILT's three stores as one column family of RocksDB: many small items, an index of about a bit per key, and one block
// read for a lookup that hits.
//
//   rocksdb::Options options;
//   options.create_if_missing = true;
//   rocksdb::Status s = cairn::UseSilt(&options);
//   rocksdb::DB* db = nullptr;
//   if (s.ok()) s = rocksdb::DB::Open(options, "/path/to/db", &db);
//
// Thread-safety, ownership: options are the caller's; GetSiltStats may be called by any thread.
// Source: SILT (SOSP 2011); docs/design/silt.md.

#pragma once

#include <cstdint>
#include <string>

#include "cairn/ect_table.h"
#include "cairn/hash_seed.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// The three stores: the WAL and the memtable are the LogStore, the tables of the last level are the SortedStore, and
// those above it the HashStores (with a cuckoo filter). A hit reads one block in the SortedStore, and so does a miss,
// unless EctTableOptions::last_level_filter_bits gives it a filter.
//
// A merge rewrites the SortedStore, or that of one partition: with N keys in it, a key is written about N / d times
// more. Use it for many small values and few updates; a trie (trie.h) writes less.
struct SiltOptions {
  // Hash and seed of the order, as in HashTrieOptions.
  std::string hash = "xxh3";
  uint64_t seed = kDefaultSeed;

  // Parts of the hash space that are merged by turns, so that no merge needs more room than one of them: 2, 4 ... 64.
  // The store is a trie of one depth (trie.h), and a flushed table is cut into the partitions' HashStores, which writes
  // it once more. 1: a merge takes all HashStores and rewrites the whole SortedStore. A store with partitions cannot be
  // opened without; one without gets them at any open.
  int partitions = 16;

  // With partitions: the bytes of tables per live byte that are tolerated, as TrieOptions::space_bound. Beyond it the
  // partition is merged that frees most per byte written. Tables of small items take more than their keys and values:
  // 1.15 at 64 bytes.
  double space_bound = 1.5;

  // Without partitions: HashStores at which a merge into the SortedStore is due: SILT's d, in write buffers full of
  // distinct keys. A HashStore counts half if each key of its write buffer was written twice. More: fewer merges, but
  // more filters per lookup.
  int merge_trigger = 16;

  // A merge is also due at this many HashStores (of a partition), however few keys they hold: at most 60 with
  // partitions. 0: three times merge_trigger.
  int max_hash_stores = 0;

  // Without partitions: threads that share one merge, each with its range of hashes. 1 leaves writers their processors
  // where there are few.
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

// Makes a column family a SILT store: comparator, table factory, levels and their triggers, with partitions also the
// partitioner. What else the options hold (write buffer, compression, merge operator ...) stays. Call UseSiltMerges for
// the database, too; otherwise merges run on one thread, and a store with partitions is not opened.
rocksdb::Status UseSilt(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt = SiltOptions());

// Adds what starts the merges: with partitions that of tries (UseTrieCompaction); without, the listener
// `cairn.SiltMerges`, and max_subcompactions is raised to SiltOptions::merge_threads. Every opening of a SILT store
// adds them, too.
rocksdb::Status UseSiltMerges(rocksdb::DBOptions* options, const SiltOptions& silt = SiltOptions());

// Both of the above.
rocksdb::Status UseSilt(rocksdb::Options* options, const SiltOptions& silt = SiltOptions());

// True if `options` describe a SILT store; *silt (may be null) gets what they say of it, all but merge_threads.
bool IsSilt(const rocksdb::ColumnFamilyOptions& options, SiltOptions* silt);

// What a SILT store of this shape is predicted to cost, for updates of keys that are all as popular. Source: Lim's
// thesis (CMU 2015), equations 2.4 to 2.7; `hash_store_keys` is there 0.93 * 2^(tag_bits + 2), here what a write buffer
// holds.
struct SiltModelInput {
  double keys = 0;             // N, of all stores
  double merge_keys = 0;       // d, of the HashStores that one merge takes
  double hash_store_keys = 0;  // of one HashStore
  double tag_bits = 15;        // k
  double instances = 1;        // P, stores that share the keys: d and hash_store_keys are of one
  // Where Cairn's store differs from the paper's: its HashStores have no empty slots (there: 0.93), its filters are
  // fuller (0.93), the LogStore is the memtable (there an index of (k + 1) / 8 + 4 bytes over a log on flash, and a tag
  // to fail), and the index of its SortedStore is smaller (0.4).
  double hash_store_occupancy = 1;
  double filter_occupancy = 0.95;
  bool log_store_in_memory = true;
  bool cut_by_partition = false;     // a flushed table is written once more, as HashStores of the partitions
  double sorted_store_bytes = 0.11;  // of memory for a key in the SortedStore, its filter included
  double last_level_filter_bits = 0;
};

struct SiltModel {
  double write_amplification = 0;   // bytes written per byte put: log, HashStore, merges
  double hash_stores = 0;           // H, on average
  double read_amplification = 0;    // block reads of a lookup that no HashStore answers
  double absent_reads = 0;          // block reads for an absent key
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
  uint64_t sorted_live_bytes = 0;  // keys and values in it
  double hash_store_weight = 1;    // without partitions: mean part of a HashStore's writes that were of different keys
  // Since the column family was created, as far as its tables tell: data blocks, without indexes and filters.
  uint64_t flushed_bytes = 0;
  uint64_t compacted_bytes = 0;
  // In this process, of all column families that share the table factory.
  uint64_t resident_bytes = 0;  // of layouts, indexes and filters
  uint64_t lookups = 0;         // that a HashStore answered or that read in the SortedStore
  uint64_t kept_lookups = 0;    // that the SortedStore's filter kept from reading
  uint64_t absent_lookups = 0;  // that read in the SortedStore and found nothing
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
