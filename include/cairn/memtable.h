// A memtable for write-heavy stores: writes append to small per-core tables that stay in the processor's cache, and
// nothing else; the indexes are built by the reads that need them, and by the flush.
//
//   rocksdb::Options options;
//   options.memtable_factory = cairn::NewSubMemTableFactory();
//
// or "memtable_factory=cairn.SubMemTable" in an OPTIONS file, "--memtablerep=cairn.SubMemTable:segment_size=1M" in
// db_bench. Any comparator; bytewise, reverse bytewise and Cairn's hash order are fast. What it does not offer:
// WritePrepared and WriteUnprepared transactions (RocksDB refuses them at open).
//
// Thread-safety: a factory may be shared by any number of column families and databases; they then share its pool.
//
// Source: CacheKV (ICDE 2023). docs/design/sub_memtable.md tells what differs and why.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

struct SubMemTableOptions {
  // Bytes of a segment (a sub-MemTable) when nothing speaks for a smaller one; a power of two, 4 KiB to 2 MiB. Larger:
  // fewer seals; smaller: less memory that is claimed and not yet written. A memtable takes no segment larger than a
  // 32nd of its write buffer.
  uint64_t segment_size = uint64_t{1} << 20;

  // Bytes of free segments that stay mapped for the next memtables, but no more than a 16th of the limit of a
  // WriteBufferManager; what is beyond goes back to the system, of a pool file to the file system. About what dies at
  // a flush; less costs page faults, more costs memory.
  uint64_t pool_size = uint64_t{64} << 20;

  // Writers work in few pages, an area of locked_cache bytes (0: of pool_size), and a full segment is copied past the
  // cache to other memory. For locked_cache: without it, others' stores may push the area out of the cache, and bytes
  // are written twice. A durable pool copies only if locked_cache is set and libpmem tells of eADR.
  bool copy_on_seal = false;

  // Keeps the pool in a file, so that every acknowledged write survives the death of the process without a WAL, batches
  // as a whole (docs/design/durable_memtable.md). Opening such a database recovers what the file holds; it is written
  // without a WAL from then on, and refuses what cannot be durable. All column families must have the same
  // settings. On a file system in memory or on a disk it is safe from a crash of the process; on persistent memory, or
  // with WriteOptions::sync, also from one of the machine.
  bool durable = false;

  // The pool file, or a device-DAX path; empty: CAIRN_POOL in the database's directory.
  std::string pool_file;

  // The pool file does not grow beyond this (8 MiB at least); 0: as far as its file system allows. A write that finds
  // the pool full waits while what is in it is flushed, also with no_slowdown; if that made no room, the write fails
  // with NoSpace and has done nothing. So that this is rare, a pool needs max_write_buffer_number times
  // write_buffer_size for each column family, a tenth more, and 4 MiB.
  uint64_t pool_file_limit = 0;

  // Bytes of the last-level cache to keep for the process's cores, as a class of ways of the kernel's resctrl file
  // system; 0: none. What the machine lacks is in the log and no error; what somebody has configured stays, so ways
  // must belong to no class. With copy_on_seal writers work in as many bytes. With durable, opening is refused unless
  // the pool file is on persistent memory and the cache survives a loss of power (eADR). Counts as part of
  // pool_file_limit.
  uint64_t locked_cache = 0;

  // Where the resctrl file system is mounted.
  std::string resctrl_root = "/sys/fs/resctrl";

  // Ordinary writes do not go through RocksDB's queue of writers (docs/design/write_path.md has what still does). All
  // column families of a database must have it on. A Put without a WAL takes a third of the instructions then, with one
  // three quarters, and a second writer adds to the first.
  bool queueless_writes = true;

  // Refuses a pool file that is not on persistent memory.
  bool require_persistent_memory = false;
};

// Its name is "cairn.SubMemTable"; the fields above are its options.
std::shared_ptr<rocksdb::MemTableRepFactory> NewSubMemTableFactory(
    const SubMemTableOptions& options = SubMemTableOptions());

// Gives a column family sub-MemTables in place of RocksDB's default, the skip list; another choice is left as it is.
void PreferSubMemTables(rocksdb::ColumnFamilyOptions* options, const SubMemTableOptions& sub = SubMemTableOptions());

// InvalidArgument that names the field and what it may be, or OK.
rocksdb::Status ValidateSubMemTableOptions(const SubMemTableOptions& options);

// What the pool of a factory holds, in bytes.
struct SubMemTableStats {
  uint64_t claimed_bytes = 0;  // in memtables
  uint64_t copied_bytes = 0;   // in memtables, sealed by copy
  uint64_t free_bytes = 0;     // kept for the next ones; a WriteBufferManager counts up to a 16th of its limit of it
  uint64_t claims = 0;         // segments given to memtables so far
  uint64_t misses = 0;         // writers that found their core's segment taken
  // Taken for as long as memtables are sorted (by a flush, a first lookup or iterator), besides what they report: 8
  // bytes an entry and 1 MiB, for iterators over memtables that are being written 24. A WriteBufferManager counts them.
  uint64_t sorting_bytes = 0;
  uint64_t most_sorting_bytes = 0;  // so far
  std::string backing;  // where the pool lies, and what of huge pages and locked cache could not be had, and why
};

// NotSupported if the factory is another. Also a line of the property "cairn.stats", and of `cairn stats`, which sees
// the settings and the machine but not the memtables of another process.
rocksdb::Status GetSubMemTableStats(const rocksdb::MemTableRepFactory& factory, SubMemTableStats* stats);

// One line for people.
std::string SubMemTableStatsToTable(const SubMemTableStats& stats);

}  // namespace cairn
