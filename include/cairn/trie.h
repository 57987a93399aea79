// The SSTable-trie: a RocksDB column family whose data moves down a trie of containers, each byte written once per
// depth. A trie is in one of two orders, which is fixed for the life of a column family:
//
//   In hash order (HashTrieOptions) keys lie in the order of a 64-bit hash. Use it for point lookups over many small
//   items under a heavy write load. Iteration is complete, stable and snapshot-consistent, but follows the hash: there
//   is no range scan, and DeleteRange is refused with NotSupported.
//
//   In key order (KeyTrieOptions) keys lie in the order of the column family's comparator, so that iterators, ranges
//   and prefixes work.
//
//   rocksdb::Options options;
//   options.create_if_missing = true;
//   rocksdb::Status s = cairn::UseTrie(&options);
//   rocksdb::DB* db = nullptr;
//   if (s.ok()) s = cairn::Open(options, "/path/to/db", &db);  // cairn/db.h; the same as rocksdb::DB::Open
//
// Source: LSM-trie (USENIX ATC 2015; section 4.2.3 of Wu's dissertation, UT Arlington 2018). docs/design/trie.md says
// how it lies on RocksDB's levels, and docs/design/ordered_trie.md what is different in key order.

#pragma once

#include <cstdint>
#include <string>

#include "cairn/hash_seed.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// What shapes a trie in either order. All of it can be changed at any open (tables that no longer lie in one container
// are split). The options are written into the OPTIONS file as the option string of the partitioner
// ("cairn.TriePartitioner"), from where the compaction scheduler reads them.
struct TrieOptions {
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

  // Files of level 0 at which the root is compacted; in key order fewer in a small trie.
  int root_trigger = 16;

  // Bloom filter bits per key, more than the usual 10 for dozens of slots; 0: none.
  double filter_bits = 16;

  // Bytes of tables per byte of live data (keys and values, newest versions, not deleted) that are tolerated, 1.1 or
  // more. Lower: more rewriting. The deepest containers are merged in place when it is passed.
  double space_bound = 1.5;
};

// In option strings order=hash, which is the default there.
struct HashTrieOptions : TrieOptions {
  // The hash that orders the keys: "xxh3", or "sha1" as in the paper (about 20 times the CPU). Opening with another
  // hash, or an explicit seed other than the column family was created with, fails: the comparator's name holds both.
  std::string hash = "xxh3";

  // Seeds the hash, so that nobody can aim keys at one container. kRandomSeed: drawn when the column family is created,
  // and that of the database when it is opened again.
  uint64_t seed = kDefaultSeed;

  // The tables that are written: "htable" (htable.h), whose lookups read one bucket and need no index, or "sst",
  // block-based ones. Both are read, so it can be changed at any open. A table factory of the options that is neither
  // is left as it is.
  std::string format = "htable";

  // The format of tables below which the trie holds nothing older: "same" as the others, or "ect" (ect_table.h), which
  // have an index of about a bit per key and no filter, so that looking for an absent key reads a block of each. Tables
  // that were written before are read either way.
  std::string bottommost_format = "same";

  // A full container at the deepest populated depth goes one depth deeper when at least this share of its bytes is
  // live, and is merged in place when not. 0.52 is where both cost the same at 15 slots under uniform updates
  // (docs/design/trie.md).
  double grow_liveness = 0.52;
};

// In option strings order=key. Tables are those of the table factory. The defaults of what both orders share are those
// of the engine "ordered_trie"; an option string that says no more than order=key has those of TrieOptions.
struct KeyTrieOptions : TrieOptions {
  KeyTrieOptions() {
    fan_out = 16;
    filter_bits = 10;
    space_bound = 1.6;
  }

  // Bytes that may be written, per byte flushed, to merge tables that are scanned again and again. Such a merge is made
  // when nothing else is to be done and seeks have read as much in vain as it may write. 0: none.
  double scan_merge = 0.25;
};

// Parses "fan_out=8;slots=12;...": fields not named keep their value in *options. Unknown names and bad values are
// InvalidArgument and leave *options unchanged; so does `order`, unless it is that of *options. Names of the other
// order's options are taken and mean nothing.
rocksdb::Status TrieOptionsFromString(const std::string& text, HashTrieOptions* options);
rocksdb::Status TrieOptionsFromString(const std::string& text, KeyTrieOptions* options);

// All fields, in the form that TrieOptionsFromString reads.
std::string TrieOptionsToString(const HashTrieOptions& options);
std::string TrieOptionsToString(const KeyTrieOptions& options);

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateTrieOptions(const HashTrieOptions& options);
rocksdb::Status ValidateTrieOptions(const KeyTrieOptions& options);

// Makes a column family a trie: partitioner, table factory, number of levels, compaction style and level-0 triggers,
// and in hash order the comparator. What else the options hold (write buffer, compression, merge operator, block cache
// of a block-based table factory ...) stays. The database needs UseTrieCompaction as well.
rocksdb::Status UseTrie(rocksdb::ColumnFamilyOptions* options, const HashTrieOptions& trie = HashTrieOptions());
rocksdb::Status UseTrie(rocksdb::ColumnFamilyOptions* options, const KeyTrieOptions& trie);

// Adds the compaction scheduler ("cairn.TrieCompaction", an EventListener) unless it is there. One serves every trie
// column family of the database, and any number of databases; ordinary column families are not touched.
rocksdb::Status UseTrieCompaction(rocksdb::DBOptions* options);

// Both of the above.
rocksdb::Status UseTrie(rocksdb::Options* options, const HashTrieOptions& trie = HashTrieOptions());
rocksdb::Status UseTrie(rocksdb::Options* options, const KeyTrieOptions& trie);

// Whether `options` describe a trie column family; in hash order or in key order, whose options *trie (may be null)
// gets.
bool IsTrie(const rocksdb::ColumnFamilyOptions& options);
bool IsHashTrie(const rocksdb::ColumnFamilyOptions& options, HashTrieOptions* trie);
bool IsKeyTrie(const rocksdb::ColumnFamilyOptions& options, KeyTrieOptions* trie);

}  // namespace cairn
