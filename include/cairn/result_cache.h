// A result cache above a database: a Get that has been asked before is answered by one probe, whatever the engine and
// however many sorted runs there are. It is right or it misses (docs/design/result_cache.md).
//
//   cairn::DatabaseCacheOptions cache;
//   cache.capacity = uint64_t{1} << 30;
//   cairn::UseResultCache(cache, &options);
//   rocksdb::DB::Open(options, ...)
//
// or, as text, among the listeners of an OPTIONS file:
//
//   listeners={id=cairn.ResultCache;capacity=1G}
//
// or, for a program whose options are fixed: CAIRN_OPTIONS="result_cache=1G" (docs/guide/switch_on.md).
//
// Get and MultiGet use it. Reads of a snapshot, with a timestamp or of some tiers bypass it, as do column families
// whose answers may change without a write: with a compaction filter, a TTL or FIFO compaction. LOG lists them and why.
// Each database that is opened with the listener gets a cache of its own. Read-only, secondary and follower instances
// have none, nor has a TransactionDB with a write policy other than WRITE_COMMITTED.
//
// Thread-safety: the functions may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

struct DatabaseCacheOptions {
  // Bytes of memory, all of it. 0: there is no cache.
  uint64_t capacity = uint64_t{64} << 20;

  // A file that survives restarts. The next open finds the answers again, whether the process ended or was killed,
  // unless somebody else has opened, copied or restored the database, or the WAL has lost writes: then the cache starts
  // empty (docs/design/result_cache.md, P7 to P9). The file takes the capacity on disk and in the page cache. A path
  // without a leading "/" is in the database's folder. The cache always starts empty if writes bypass the WAL, are
  // pipelined, or use two-phase commit. Empty: no file.
  std::string path;

  // The file survives a loss of power, too: what is found then was synced, and is right at the state of the database
  // that is left. Each flush of a memtable syncs WAL and file once more, and an item takes 8 bytes more. Needs a path,
  // and a WAL for every write; not with pipelined or unordered writes, two_write_queues, allow_mmap_writes, nor a
  // TransactionDB.
  bool survive_power_loss = false;

  // Charges its memory to the block cache of the default column family (as CacheEntryRole::kMisc), which then holds
  // that much less: one budget for both. A full block cache with a strict limit may refuse a charge; the memory is used
  // anyway.
  bool charge_to_block_cache = false;

  // A second zone of compressed items, if a miss takes over 30 us (ResultCacheOptions::compression): none, lz4, zstd.
  ResultCacheOptions::Compression compression = ResultCacheOptions::Compression::kNone;

  // Also keeps "there is no such key".
  bool absent_keys = true;

  // Keeps values that a merge operator made. Turn it off for an operator whose result depends on more than its
  // operands, on a clock for example.
  bool merged_values = true;

  // Key and value together; larger ones are not kept. 0: a 64th of the capacity.
  uint64_t max_item_bytes = 0;

  // A full cache keeps only one in so many answers for keys that it has not held recently. 1: every one.
  uint32_t admit_one_fill_in = 4;

  // Asks for huge pages (ResultCacheOptions::huge_pages).
  bool huge_pages = true;

  // Names separated by commas. Empty: all.
  std::string column_families;

  // The cache measures what it saves and what it costs. If it costs more, it frees its memory and lets everything
  // bypass it; from time to time it tries again. false: it is always on.
  bool adaptive = true;
};

// The listener that asks for it.
std::shared_ptr<rocksdb::EventListener> NewResultCache(const DatabaseCacheOptions& cache = DatabaseCacheOptions());

// Adds it to the listeners, in the place of one that is there.
void UseResultCache(const DatabaseCacheOptions& cache, rocksdb::DBOptions* options);

struct DatabaseCacheStats {
  ResultCache::Statistics cache;
  uint64_t reads = 0;            // Gets and keys of MultiGets that might have been answered
  uint64_t barred_keys = 0;      // keys of writes
  uint64_t changes = 0;          // of whole column families: range deletions, ingestion
  uint64_t checked_hits = 0;     // hits that were compared with the tree, one in some thousand
  uint64_t wrong_hits = 0;       // ... and were wrong: then the cache turns itself off for good
  uint64_t times_off = 0;        // how often it has turned itself off because nothing was gained
  bool on = false;               // now
  double saved_nanoseconds = 0;  // for each read of late, costs of misses and writes taken off; measured by samples
};

// NotFound: the database has no result cache.
rocksdb::Status GetDatabaseCacheStats(rocksdb::DB* db, DatabaseCacheStats* stats);

// The text of DB::GetProperty("cairn.result_cache") and ("cairn.result_cache.json").
std::string DatabaseCacheStatsToTable(const DatabaseCacheStats& stats);
std::string DatabaseCacheStatsToJson(const DatabaseCacheStats& stats);

}  // namespace cairn
