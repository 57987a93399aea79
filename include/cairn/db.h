// Opening a database with Cairn engines, and what RocksDB's own interface has no place for: manual compaction of a
// trie and its statistics.
//
// Every function is thread-safe. A `db` is a database opened for writing in this process, or a StackableDB around it.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// The same as rocksdb::DB::Open of this library. docs/design/opening.md says what is different in a database with parts
// of Cairn: pool files are recovered, tries compact at once, CompactRange compacts a whole trie, and
// GetProperty("cairn.stats") and ("cairn.stats.json") give Cairn's version and the text of GetTrieStats, or of
// GetSiltStats (cairn/silt.h). The caller deletes *db.
rocksdb::Status Open(const rocksdb::Options& options, const std::string& path, rocksdb::DB** db);
rocksdb::Status Open(const rocksdb::DBOptions& options, const std::string& path,
                     const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                     std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db);

// Opens what the database's own OPTIONS file describes, all column families. `handles` are in the order of `names`; the
// caller destroys them (db->DestroyColumnFamilyHandle) and deletes *db.
rocksdb::Status OpenWithStoredOptions(const std::string& path, std::vector<std::string>* names,
                                      std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db);

struct TrieCompactOptions {
  // Limits the work to one container and what lies below it: the path from the root, one number per depth ({3, 0}:
  // child 0 of child 3). Empty: the whole trie.
  std::vector<int> container;

  // Compacts the containers of this depth only, each into the depth below, or in place where nothing lies below; 0 is
  // the root. -1: everything, until each key lies in one table and what was overwritten or deleted is gone.
  int depth = -1;

  // Also rewrites tables of which nothing was overwritten or deleted: for a compaction filter, or for a new format or
  // compression.
  bool rewrite = false;

  // Ends with Incomplete before its next compaction when it is true; null: not so. Outlives the call.
  const std::atomic<bool>* canceled = nullptr;
};

// Compacts now. Returns when it is done, or the error of a compaction that failed. Other compactions of this trie go
// on; it waits for those that work on the same containers. NotSupported: the column family is no trie. Incomplete:
// paused (DisableManualCompaction, PauseBackgroundWork). ShutdownInProgress: the database is being closed.
rocksdb::Status CompactTrie(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family,
                            const TrieCompactOptions& options = TrieCompactOptions());

// Returns when no trie compaction is due, running or queued; with the error when compactions of a column family keep
// failing; Incomplete when one is due while compaction is paused (DisableManualCompaction, PauseBackgroundWork);
// TimedOut after `timeout_micros` (0: no limit).
rocksdb::Status WaitForTrieCompaction(rocksdb::DB* db, uint64_t timeout_micros = 0);

// The container that holds `key` at `depth`, as a path from the root.
rocksdb::Status TrieContainerOf(rocksdb::ColumnFamilyHandle* column_family, const rocksdb::Slice& key, int depth,
                                std::vector<int>* path);

// One depth of a trie. Bytes are file sizes.
struct TrieDepthStats {
  int depth = 0;       // 0: the root, RocksDB's level 0
  int containers = 0;  // containers that hold files
  int slots_min = 0;   // occupied slots of the emptiest and of the fullest of them
  int slots_max = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t live_bytes = 0;  // estimated from the tables' sketches: keys and values, newest versions, not deleted
  uint64_t pending_containers = 0;  // full containers that wait for a compaction
  uint64_t pending_bytes = 0;
  uint64_t written_bytes = 0;  // since the database was opened: by flush (depth 0) or by compaction into this depth
  // HTables' filters (filter.h). 0 in a database that is not open.
  uint64_t filter_bytes = 0;         // in files
  uint64_t filter_memory_bytes = 0;  // in memory, whole
  uint64_t filters_in_memory = 0;    // tables whose filters are; those of the others are asked by pages
};

struct TrieStats {
  std::string column_family;
  std::vector<TrieDepthStats> depths;  // down to the deepest that holds files
  int root_due_files = 0;  // at which the root is compacted: root_trigger, in key order fewer in a small trie
  uint64_t bytes = 0;
  uint64_t live_bytes = 0;
  double space_amplification = 0;  // bytes / live_bytes; 0 when nothing is live
  double space_bound = 0;
  // Since the column family was created; every table carries the totals of the time when it was made.
  uint64_t flushed_bytes = 0;
  uint64_t compacted_bytes = 0;
  double write_amplification = 0;  // (flushed + compacted) / flushed
  // Of the tables with an ECT index (HashTrieOptions::bottommost_format); all 0 while the option is "same".
  uint64_t ect_files = 0;
  uint64_t ect_keys = 0;
  uint64_t ect_bytes = 0;         // of the files
  uint64_t ect_memory_bytes = 0;  // where their blocks lie, and their indexes
  // Since the database was opened.
  uint64_t filter_pages_read = 0;    // to answer lookups
  uint64_t filter_pages_cached = 0;  // found in the block cache
  uint64_t running_compactions = 0;
  uint64_t root_compactions = 0;  // finished, by kind
  uint64_t push_compactions = 0;
  uint64_t merge_compactions = 0;
  uint64_t moved_tables = 0;       // of a trie in key order: to a deeper level, unwritten
  uint64_t dropped_tables = 0;     // of a trie in key order: unread, because a range deletion covered all their keys
  uint64_t scan_merges = 0;        // of a trie in key order: because of scans (KeyTrieOptions::scan_merge), of any kind
  uint64_t scan_merged_bytes = 0;  // ... and what they wrote
  uint64_t age_compactions = 0;    // because of the options ttl and periodic_compaction_seconds, of any kind
  uint64_t age_compacted_bytes = 0;  // ... and what they wrote
  uint64_t split_compactions = 0;    // of ingested files, and of files written under another fan_out or number of slots
  uint64_t failed_compactions = 0;
  uint64_t delayed_write_rate = 0;  // bytes per second that writers are held to because the root is behind; 0: none
  uint64_t pick_micros = 0;         // spent choosing compactions
  std::string last_error;           // empty: none
};

rocksdb::Status GetTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, TrieStats* stats);

// As a table for people, and as JSON for programs.
std::string TrieStatsToTable(const TrieStats& stats);
std::string TrieStatsToJson(const TrieStats& stats);

}  // namespace cairn
