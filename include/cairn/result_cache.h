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
// or, for a program whose options are fixed: CAIRN_OPTIONS="result_cache=1G" (docs/guide/environment_options.md).
//
// Get and MultiGet use it. Reads of a snapshot, with a timestamp or of some tiers pass by, and so do column families
// whose answers may change without a write: with a compaction filter, a TTL or FIFO compaction. LOG names them and why.
// Every database that is opened with one listener gets a cache of its own. Databases opened for reading only, as
// secondaries or followers, and by TransactionDB with a write policy other than WRITE_COMMITTED, have none.
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

  // A file for what it holds, in a file system of any kind: who opens the database next finds the answers again, whether
  // the process ended or was killed, as long as nobody else has opened, copied or restored the database in between and
  // the WAL has lost nothing; else it begins empty (docs/design/result_cache.md, P7 to P9). It takes the capacity, in the
  // system's page cache and on the disk. A path that does not begin with "/" is in the database's folder. Of a database
  // whose writes have no WAL, are pipelined or in two phases nothing is found again. Empty: memory.
  std::string path;

  // Whether its memory is charged to the block cache of the default column family (as RocksDB's CacheEntryRole::kMisc),
  // which then holds that much less: one budget for both. The part that a full block cache with a strict limit refuses
  // is used without a charge.
  bool charge_to_block_cache = false;

  // A second zone of compressed items, for databases on slow disks (ResultCacheOptions::compression): none, lz4, zstd.
  ResultCacheOptions::Compression compression = ResultCacheOptions::Compression::kNone;

  // Whether "there is no such key" is kept, too.
  bool absent_keys = true;

  // Whether values that a merge operator made are kept. Turn it off for an operator that does not always make the same
  // of the same operands, one that looks at a clock for example.
  bool merged_values = true;

  // Key and value together; larger ones are not kept. 0: a 64th of the capacity.
  uint64_t max_item_bytes = 0;

  // Once the cache is full, the answer for a key that it has not had of late is kept once in so many times. 1: always.
  uint32_t admit_one_fill_in = 4;

  // Whether its memory asks for huge pages (ResultCacheOptions::huge_pages).
  bool huge_pages = true;

  // Names separated by commas. Empty: all.
  std::string column_families;

  // The cache measures what it saves and what it costs. Where it costs more it gives its memory back and passes
  // everything by; from time to time it tries again with an eighth of keys and memory. false: it is always on.
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
