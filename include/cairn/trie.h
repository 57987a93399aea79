// The SSTable-trie: a RocksDB column family whose data moves down a trie of containers, each byte written once per
// depth.
//
// Use it for point lookups over many small items under a heavy write load. Keys are kept in the order of a 64-bit hash,
// so iteration is complete, stable and snapshot-consistent, but follows the hash: there is no range scan, and
// DeleteRange is refused with NotSupported.
//
//   rocksdb::Options options;
//   options.create_if_missing = true;
//   rocksdb::Status s = cairn::UseTrie(&options);
//   rocksdb::DB* db = nullptr;
//   if (s.ok()) s = cairn::Open(options, "/path/to/db", &db);  // cairn/db.h; the same as rocksdb::DB::Open
//
// Source: LSM-trie (USENIX ATC 2015), "SSTable-trie"; docs/design/trie.md says how it lies on RocksDB's levels.

#pragma once

#include <cstdint>
#include <string>

#include "cairn/hash_seed.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// What shapes a trie. Hash and seed are fixed for the life of a column family; the rest can be changed at any open
// (tables that no longer lie in one container are split). Written into the OPTIONS file as the option string of
// the partitioner ("cairn.TriePartitioner"), from where the compaction scheduler reads it.
struct TrieOptions {
  // In what order the keys lie: "hash", or "key" (docs/design/ordered_trie.md), that of the column family's comparator, so
  // that iterators, ranges and prefixes work; `hash`, `seed`, `format` and `grow_liveness` then mean nothing, and tables
  // are those of the table factory. It is fixed for the life of a column family.
  std::string order = "hash";

  // The hash that orders the keys: "xxh3", or "sha1" as in the paper (about 20 times the CPU). Opening with another
  // hash, or an explicit seed other than the column family was created with, fails: the comparator's name holds both.
  std::string hash = "xxh3";

  // Seeds the hash, so that nobody can aim keys at one container. kRandomSeed: drawn when the column family is created,
  // and that of the database when it is opened again.
  uint64_t seed = kDefaultSeed;

  // Children of a container: 2, 4, 8, 16, 32 or 64. More: a shallower trie (fewer writes), but more files a compaction
  // writes at once.
  int fan_out = 8;

  // RocksDB levels that one depth takes. Those beyond `trigger` are headroom: a parent can go on writing while its
  // children wait for their own compaction.
  int slots = 20;

  // Occupied slots at which a container is compacted into the depth below. Fewer: fewer files to search; more: fewer
  // writes, because more duplicates meet before they move. 2 to `slots`; 0: three quarters of `slots`.
  int trigger = 0;

  // Depths below the root. 4 depths of 15 full slots hold 45 TB at a 64 MiB write buffer. Opening with fewer levels
  // than hold data fails.
  int depth = 4;

  // Files of level 0 at which the root is compacted; in key order fewer in a small trie (docs/design/ordered_trie.md).
  int root_trigger = 16;

  // Bloom filter bits per key, more than the usual 10 for dozens of slots; 0: none. Comparators: docs/design/ordered_trie.md.
  double filter_bits = 16;

  // The tables that are written: "htable" (htable.h), whose lookups read one bucket and need no index, or "sst",
  // block-based ones. Both are read, so it can be changed at any open. A table factory of the options that is neither is
  // left as it is.
  std::string format = "htable";

  // The format of tables below which the trie holds nothing older: "same" as the others, or "ect" (ect_table.h), which have
  // an index of about a bit per key and no filter, so that looking for an absent key reads a block of each. Tables that
  // were written before are read either way.
  std::string bottommost_format = "same";

  // Bytes of tables per byte of live data (keys and values, newest versions, not deleted) that are tolerated, 1.1 or
  // more. Lower: more rewriting. The deepest containers are merged in place when it is passed.
  double space_bound = 1.5;

  // Of order=key: bytes that may be written, per byte flushed, to merge tables that are scanned again and again. Such a
  // merge is made when nothing else is to be done and seeks have read as much in vain as it may write. 0: none.
  double scan_merge = 0.25;

  // A full container at the deepest populated depth goes one depth deeper when at least this share of its bytes is
  // live, and is merged in place when not. 0.52 is where both cost the same at 15 slots under uniform updates
  // (docs/design/trie.md).
  double grow_liveness = 0.52;
};

// Parses "fan_out=8;slots=12;...": fields not named keep their value in *options. Unknown names and bad values are
// InvalidArgument and leave *options unchanged.
rocksdb::Status TrieOptionsFromString(const std::string& text, TrieOptions* options);

// All fields, in the form that TrieOptionsFromString reads.
std::string TrieOptionsToString(const TrieOptions& options);

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateTrieOptions(const TrieOptions& options);

// Makes a column family a trie: comparator, partitioner, table factory, number of levels, compaction style and level-0
// triggers. What else the options hold (write buffer, compression, merge operator, block cache of a block-based table
// factory ...) stays. The database needs UseTrieCompaction as well.
rocksdb::Status UseTrie(rocksdb::ColumnFamilyOptions* options, const TrieOptions& trie = TrieOptions());

// Adds the compaction scheduler ("cairn.TrieCompaction", an EventListener) unless it is there. One serves every trie
// column family of the database, and any number of databases; ordinary column families are not touched.
rocksdb::Status UseTrieCompaction(rocksdb::DBOptions* options);

// Both of the above.
rocksdb::Status UseTrie(rocksdb::Options* options, const TrieOptions& trie = TrieOptions());

// True if `options` describe a trie column family; *trie (may be null) gets its shape.
bool IsTrie(const rocksdb::ColumnFamilyOptions& options, TrieOptions* trie);

}  // namespace cairn
