// A Get or MultiGet in the tables of a SILT store. What a Version has is described once (SiltTables): of each part of
// the hash space the HashStores that reach into it, with their filters, one behind the other, and the tables of the
// SortedStore. A lookup begins to load what it will read of all filters, asks them newest first, and looks only into
// the tables that they let pass, then into that of the SortedStore. RocksDB would choose each table, look for its
// reader and ask that: several hundred instructions for each HashStore, a filter's 60. A MultiGet starts the reads of
// all its keys' first blocks before it waits for one (util/async_read.h).
//
// Invariants
//   (1) A Version keeps its tables' readers; where it does not (max_open_files) or where a table is another's, RocksDB
//       looks keys up.
//   (2) Level 0 is newest first, and of two levels the lower number is newer.
//   (3) SiltTables are asked about the Version that they were made of and no other, while the caller holds it.
//
// Thread-safety: all methods. Lookups take no lock.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "db/version_set.h"
#include "table/ect/ect_table_reader.h"
#include "table/version_lookup.h"
#include "table/version_slots.h"

namespace cairn {

class SiltTables : public OfVersion {
 public:
  // What is described for a lookup costs as much as this many tables' filters do that RocksDB asks.
  static constexpr uint64_t kFirstLookups = 8;
  static constexpr uint64_t kTablesPerLookup = 16;

  // Null: only RocksDB can look for its keys.
  static std::unique_ptr<const SiltTables> Make(rocksdb::Version* version);

  uint64_t tables() const { return tables_; }
  // Does what Version::Get does.
  void Get(rocksdb::Version* version, const VersionRequest& request) const;
  // Does what Version::MultiGet does. REQUIRES: VersionBatch::Serves.
  void MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback) const;

 private:
  // A HashStore, or another table above the last level.
  struct alignas(64) Store {
    CuckooFilter filter;
    const EctTableProbe* reader = nullptr;
    const rocksdb::FdWithKeyRange* file = nullptr;
    int level = 0;
    uint32_t number = 0;           // of all tables, newer ones first
    uint16_t first = 0, last = 0;  // first bits of its hashes

    bool Covers(uint64_t hash) const { return hash >> 48 >= first && hash >> 48 <= last; }
  };
  struct Sorted {
    uint64_t first = 0, last = 0;  // hashes
    const EctTableProbe* reader = nullptr;
    const rocksdb::FdWithKeyRange* file = nullptr;
    uint32_t number = 0;
  };
  // What was asked of those that may hold a key, and what comes next.
  struct Way {
    uint64_t hash;
    const Store* begin;  // of its part
    const Store* end;
    const Store* store;  // the next one
    size_t first_sorted;
    size_t sorted;                          // the next one, once `store` is `end`
    const EctTableProbe* reader = nullptr;  // of the table that may hold it
    int level = 0;
    uint32_t number = 0;
  };
  class Batch;

  explicit SiltTables(const rocksdb::Version* version);
  // False: there is one that cannot be asked.
  bool AddStores(const rocksdb::VersionStorageInfo& storage);
  bool AddSorted(const rocksdb::VersionStorageInfo& storage);
  size_t PartOf(uint64_t hash) const { return static_cast<size_t>((hash >> 1) >> (63 - part_bits_)); }
  // The first that may hold the hash.
  size_t FirstSorted(uint64_t hash) const;
  // At its beginning; loads of all filters are begun.
  Way WayOf(uint64_t hash) const;
  // To the next table that may hold the key. False: there is none.
  bool Next(Way* way, uint64_t* kept_from) const;
  // As RocksDB's own way does for each table that it asks, the last of which is the one that has the key, if one has.
  void SampleReads(const Way& way, bool brought) const;

  const KeyHash* const hash_;
  const int last_level_;
  uint32_t tables_ = 0;
  int part_bits_ = 0;
  std::vector<uint32_t> begins_;  // of each part's stores, and the end of the last one's
  std::vector<Store> stores_;     // of each part newest first
  std::vector<Sorted> sorted_;    // by hash
};

class SiltLookups : public LookupsBy<SiltTables> {
 public:
  // Does what Version::Get does; false: it has not, and the caller has to ask RocksDB.
  // REQUIRES: the caller holds the Version, whose database has these lookups.
  bool Get(rocksdb::Version* version, const VersionRequest& request);
  // The same of Version::MultiGet.
  bool MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback);
};

}  // namespace cairn
