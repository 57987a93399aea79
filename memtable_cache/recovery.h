// The reading side of a pool file (docs/design/durable_memtable.md): what a session that ended without flushing has
// left. Needs nothing of the database but what its MANIFEST says, which the caller brings.
//
// Thread-safety: none; the caller holds the file, and nobody writes to it.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/pool_format.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn {

// One entry that is to be replayed; points into the file's mapping.
struct PoolEntry {
  uint64_t sequence = 0;
  uint32_t column_family = 0;
  unsigned char type = 0;  // RocksDB's ValueType
  rocksdb::Slice key;      // the user's
  rocksdb::Slice value;
};

// What recovery found, for people.
struct PoolCounts {
  uint64_t segments = 0;        // live
  uint64_t replayed = 0;        // entries: all below go elsewhere
  uint64_t replayed_bytes = 0;  // of their keys and values
  uint64_t flushed = 0;         // of memtables whose table the MANIFEST holds
  uint64_t unacknowledged = 0;  // above the last published sequence
  uint64_t dropped_family = 0;  // of column families that are gone
  uint64_t older = 0;           // of before the session; in tables
  // After a loss of power, or damage above the last sync: what was recovered is the database as of the sequence that
  // the last sync covered. Why, and the sequences above it that had been acknowledged (without sync) and are given up.
  std::string reason;
  uint64_t synced = 0;
  uint64_t given_up = 0;
  std::string ToString() const;
};

// What the pool cannot know.
class DatabaseFacts {
 public:
  virtual ~DatabaseFacts() = default;
  virtual bool HasColumnFamily(uint32_t id) const = 0;
  // A table of the column family has this sequence as its smallest or largest.
  virtual bool TableEndsWith(uint32_t column_family, uint64_t sequence) const = 0;
  // Tables were recorded in the order of the memtables, so what is older than one of them is in a table. Not so after a
  // repair, which takes every table that it finds.
  virtual bool TablesAreInOrder() const { return true; }
  // Else: whether a table of the column family holds this sequence.
  virtual bool TableHolds(uint32_t column_family, uint64_t sequence) const { return false; }
};

// The superblock that counts. NotFound for a file that holds none because it is new (zeros), Corruption for a damaged
// or truncated one.
rocksdb::Status ReadSuperblock(const PmemFile& file, Superblock* superblock);

// Largest file number of a table that a MANIFEST of the database is known to hold.
rocksdb::Status ReadNewestTable(const PmemFile& file, uint64_t* number);

// Collects what is to be replayed, in the order of sequence. The superblock's phase is kLive or kRecovering. If the
// machine may have lost power since, and anything is missing, or if anything is damaged that a client's sync did not
// cover: what the last sync covered, and counts->reason says so. Corruption, with the offset, when anything that counts
// is damaged: then nothing is given.
rocksdb::Status ReadPool(const PmemFile& file, const Superblock& superblock, const DatabaseFacts& database,
                         std::vector<PoolEntry>* entries, PoolCounts* counts);

}  // namespace cairn
