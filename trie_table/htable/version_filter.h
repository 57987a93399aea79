// A VersionFilter looks for keys in a whole Version of a trie: one question for each container on the key's way down
// says which of its tables may hold a key, and only these are asked. RocksDB would look for a table in every slot, find
// its reader and ask that.
//
// Invariants
//   (1) A filter is asked about the Version that it was made of and no other, while the caller holds that Version. So
//       every table that it counts on is open: a Version keeps its tables' readers.
//   (2) Each table of the Version is known to every container of its depth that holds a key between the table's
//       smallest and largest. What made the table, and for which container, does not matter.
//   (3) A table that cannot be asked (no HTable, no filter, no reader that the Version keeps) makes all of these
//       containers answer "maybe".
//   (4) A part's members are those of the Version's tables; what other open tables the part's FilterContainer has, and
//       which come and go, changes no answer.
//   (5) Tables are numbered as RocksDB asks them: by level, then by their order in it. So a lower number is newer, for
//       any two that hold the same key.
//
// Hence "no" is certain: no table of the Version holds the key, not even a deletion of it.
//
// VersionFilters are those of an open database (table/version_slots.h).
//
// A filter that is not in memory is asked by a page for all tables of its container.
//
// Thread-safety: all methods. Lookups take no lock (util/hazard.h).

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "db/version_set.h"
#include "rocksdb/slice.h"
#include "rocksdb/statistics.h"
#include "table/hash_order/hash_order.h"
#include "table/version_lookup.h"
#include "table/version_slots.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "trie_table/compaction/container_map.h"
#include "trie_table/htable/htable_reader.h"

namespace cairn {

class FilterThread;

// A table of a Version, which keeps it open.
struct VersionTable {
  const HTableReader* reader = nullptr;
  rocksdb::FileMetaData* file = nullptr;
  int level = 0;
};

class VersionFilter : public OfVersion {
 public:
  // A lookup without a filter costs about as much more as describing so many tables.
  static constexpr uint64_t kFirstLookups = 32;
  static constexpr uint64_t kTablesPerLookup = 8;

  // Null if the column family is no trie in hash order, if most of its tables cannot be asked, or if they are spread
  // over so many containers that it is not worth its memory.
  // REQUIRES: the caller holds the Version.
  static std::unique_ptr<const VersionFilter> Make(rocksdb::Version* version);

  uint64_t tables() const { return tables_; }
  // Whether every table can be asked, so that Get answers.
  bool complete() const { return !by_number_.empty(); }
  // Whether all filters were in memory when it was made. If not, RocksDB's way reads the pages of a batch together.
  bool in_memory() const { return in_memory_; }

  // Whether a table of the Version may hold the key. If not, counts in RocksDB's statistics and perf context.
  bool MayHold(const rocksdb::Slice& user_key, FilterThread* thread) const;
  // What Version::Get does.
  // REQUIRES: complete().
  void Get(rocksdb::Version* version, const VersionRequest& request, FilterThread* thread) const;
  // What Version::MultiGet does.
  // REQUIRES: complete().
  void MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback, FilterThread* thread) const;

 private:
  // Tables that share a FilterContainer. None: tables that cannot be asked, by (3).
  struct Part {
    const FilterContainer* container = nullptr;
    uint64_t members = 0;
  };
  // A table of a container.
  struct Member {
    uint32_t table = 0;   // its number, by (5)
    uint16_t part = 0;    // of the container's
    uint16_t number = 0;  // in the part's FilterContainer
  };
  // Where a container's parts and members begin; they end where the next one's begin.
  struct Container {
    uint32_t part = 0;
    uint32_t member = 0;
  };
  // The containers of a depth, and one that stands for their end.
  struct Depth {
    int depth = 0;
    std::vector<Container> containers;
    std::vector<Part> parts;
    std::vector<Member> members;  // of each container newest first
  };
  class Maker;
  // How far a lookup has come.
  struct Way {
    size_t depth = 0;   // of depths_
    uint32_t next = 0;  // the next member of its container there
    uint32_t table = 0;
  };
  // More parts are more than a container has whose tables are all askable and at most a few thousand.
  static constexpr size_t kMostParts = 64;

  VersionFilter(const rocksdb::Version* version, const KeyHash& hash, const HashPrefixMap& map);

  // Sets way->table to the next table that may hold a key. False: there is none. *kept_from: passed over.
  bool NextTable(const rocksdb::ReadOptions& options, uint64_t hash, FilterThread* thread, Way* way,
                 uint64_t* kept_from) const;

  const KeyHash hash_;
  const HashPrefixMap map_;
  rocksdb::Statistics* const statistics_;
  uint64_t tables_ = 0;
  bool in_memory_ = true;
  std::vector<Depth> depths_;            // those with tables, newest first
  std::vector<VersionTable> by_number_;  // empty: some cannot be asked
  // Of the parts.
  std::vector<std::shared_ptr<FilterDirectory>> directories_;
  std::vector<std::shared_ptr<const FilterContainer>> containers_;
};

class VersionFilters {
 public:
  // Does what Version::Get does; false: it has not, and the caller has to ask RocksDB.
  // REQUIRES: the caller holds the Version, whose database has these filters.
  bool Get(rocksdb::Version* version, const VersionRequest& request);
  // Does what Version::MultiGet does for some keys of the batch, or all; these are then marked as done.
  void MultiGet(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
                rocksdb::ReadCallback* callback);

  // Filters made, for tests.
  uint64_t made() const { return slots_.made(); }

 private:
  // False: no table of the Version holds the key; RocksDB's counters say so. True: one may, or it is not known.
  bool MayHold(rocksdb::Version* version, const rocksdb::LookupKey& key);
  // Marks the keys of a batch that are not in the Version's tables as done and not found.
  void FinishAbsent(rocksdb::Version* version, rocksdb::MultiGetContext::Range* range);

  VersionSlots<VersionFilter> slots_;
};

}  // namespace cairn
