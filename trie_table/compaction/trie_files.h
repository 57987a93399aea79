// Reads the files of a trie from RocksDB, and statistics where no scheduler keeps them.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <memory>
#include <vector>

#include "cairn/db.h"
#include "db/db_impl/db_impl.h"
#include "rocksdb/db.h"
#include "rocksdb/table_properties.h"
#include "table/written_totals.h"
#include "trie_table/compaction/trie_file.h"

namespace cairn {

// Sets sketch (null when the table carries none, or a malformed one) and data_bytes from a table's properties.
// REQUIRES: file->bytes is set.
void DescribeFile(const rocksdb::TableProperties& properties, TrieFile* file);

// Whether an open column family is a trie.
bool IsTrie(rocksdb::ColumnFamilyHandle* handle);

// Whether the options of a column family with a trie partitioner fit together; InvalidArgument says what to change.
rocksdb::Status CheckTrieOptions(const rocksdb::ColumnFamilyOptions& options);

// Seconds after which tables are compacted; 0: never.
struct TableAges {
  uint64_t push = 0;     // the option ttl: until nothing older lies below
  uint64_t rewrite = 0;  // the option periodic_compaction_seconds
};

// The files of one Version of a column family. The Version lives as long as this does, so they can be walked without
// the DB mutex. REQUIRES: whoever makes or destroys one holds neither the DB mutex nor a lock that a listener takes.
class HeldVersion {
 public:
  struct File {
    int level;
    const rocksdb::FileMetaData* meta;
    uint64_t number() const { return meta->fd.GetNumber(); }
  };

  // The current one; null when the DB has no such column family (any more).
  static std::unique_ptr<HeldVersion> Current(rocksdb::DBImpl* db, uint32_t column_family_id);
  ~HeldVersion();
  HeldVersion(const HeldVersion&) = delete;
  HeldVersion& operator=(const HeldVersion&) = delete;

  // A later Version of the same open database has a higher number.
  uint64_t number() const;
  // Of the column family at that time: SetOptions changes it.
  uint64_t write_buffer_bytes() const;
  std::vector<File> Files() const;
  // Those that are to be written again, because their blob files hold more garbage than
  // blob_garbage_collection_force_threshold.
  std::vector<uint64_t> TablesOfBlobGarbage() const;
  // TtlOf (ttl_stamps.h) of the column family.
  const int32_t* entry_ttl() const;
  TableAges table_ages() const;
  // Those that have passed one of the ages at `now`, in seconds.
  void TablesOlderThan(const TableAges& ages, uint64_t now, std::vector<uint64_t>* to_push,
                       std::vector<uint64_t>* to_rewrite) const;
  // What RocksDB's metadata say of a file: all but sketch and deletions.
  static TrieFile MetadataOf(const File& file);
  // What a trie has to know of `file`. A table whose properties cannot be read has no sketch: the status says why.
  // `written` (may be null) is told of the table.
  rocksdb::Status Describe(const File& file, TrieFile* described, WrittenTotalsReader* written) const;

 private:
  rocksdb::Status ReadDeletions(const File& file, TrieFile* described) const;

  HeldVersion(rocksdb::DBImpl* db, rocksdb::SuperVersion* super_version) : db_(db), super_version_(super_version) {}

  rocksdb::DBImpl* const db_;
  rocksdb::SuperVersion* const super_version_;
};

// Sets the fields of tables with an ECT index, which need the tables' properties, if the trie writes such.
rocksdb::Status AddEctTables(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats);

// For a DB without a scheduler (read-only, or none attached yet). NotFound when the column family is no trie.
rocksdb::Status ReadTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats);

}  // namespace cairn
