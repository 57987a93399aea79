// A Get or MultiGet in a Version of ordered tables: the Bloom filters of all tables that the key may be in are asked by
// one hash, their lines fetched together, and only what these let pass is asked further. RocksDB chooses each table,
// looks for its reader, and has that hash the key, one table after the other: some 500 instructions for each run, a
// filter's 40, and a miss of the processor's cache at a time.
//
// What a Version has is described once (OrderedTables): the first bytes of all tables' smallest and largest keys lie
// side by side, with what asks a Bloom filter. Only tables that may have the key are touched.
//
// Invariants
//   (1) A Version keeps its tables' readers; where it does not (max_open_files), where a table is another's, or where
//       range deletions may cover the key, RocksDB looks the key up, before anything was asked. So it does at once
//       where the Version's first table is another's: who has no ordered tables is not to pay for them.
//   (2) Level 0 is newest first, and each level newer than those of higher numbers.
//
// Thread-safety: all. The caller holds the Version.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/version_set.h"
#include "table/ordered/bloom_lines.h"
#include "table/ordered/ordered_probe.h"
#include "table/version_lookup.h"
#include "table/version_slots.h"

namespace cairn {

class OrderedTables : public OfVersion {
 public:
  // What is described for a lookup costs as much as this many tables do that RocksDB asks.
  static constexpr uint64_t kFirstLookups = 4;
  static constexpr uint64_t kTablesPerLookup = 32;

  // Null: only RocksDB can look for its keys.
  static std::unique_ptr<const OrderedTables> Make(rocksdb::Version* version);

  uint64_t tables() const { return tables_.size(); }
  // Does what Version::Get does; false: it has not.
  bool Get(rocksdb::Version* version, const VersionRequest& request) const;
  // Does what Version::MultiGet does, for all keys; false: for none of them.
  bool MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback) const;

 private:
  struct Table {
    const OrderedTableProbe* reader;  // null: only RocksDB can ask it, by (1)
    const rocksdb::FdWithKeyRange* file;
    BloomLines bloom;
    int level;
  };
  struct Level {
    size_t begin, end;  // of tables_
    bool overlaps;      // level 0
  };
  struct Asked;
  class Found;
  class Filters;
  class Batch;

  explicit OrderedTables(const rocksdb::Version* version) : OfVersion(version) {}
  void AddLevel(const rocksdb::LevelFilesBrief& files, int level);
  void DescribeKeys();
  // The first eight bytes behind those that all tables' smallest and largest keys begin with, as a number that compares
  // as they do; a shorter key's are followed by zeros. REQUIRES: it begins so, too.
  uint64_t WindowOf(const rocksdb::Slice& user_key) const;
  // Of the sign of key's order to a table's smallest or largest one.
  int CompareSmallest(uint64_t window, const rocksdb::Slice& user_key, size_t table) const;
  int CompareLargest(uint64_t window, const rocksdb::Slice& user_key, size_t table) const;
  // The first table of a level that does not end before the key; its end: there is none.
  size_t FirstAt(const Level& level, uint64_t window, const rocksdb::Slice& user_key) const;

  std::vector<Level> levels_;  // newest first, by (2)
  std::vector<Table> tables_;
  std::string beginning_;  // of all their smallest and largest keys
  // Windows of the tables' smallest and largest keys.
  std::vector<uint64_t> smallest_, largest_;
};

// Of an open database.
class OrderedLookups : public LookupsBy<OrderedTables> {
 public:
  // Does what Version::Get does; false: it has not, and the caller has to ask RocksDB.
  bool Get(rocksdb::Version* version, const VersionRequest& request);
  // The same of Version::MultiGet, for all keys or for none of them.
  bool MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback);
};

}  // namespace cairn
