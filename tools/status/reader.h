// Where a status comes from: an open database of this process (NewDatabaseReader), or the files of one that any process
// may have open (OpenFilesReader).
//
// Thread-safety: none; one thread asks.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/status.h"
#include "tools/status/snapshot.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

class StatusReader {
 public:
  virtual ~StatusReader() = default;

  // Reads what changed and fills *snapshot. An error leaves *snapshot without meaning; later calls may do better.
  virtual rocksdb::Status Read(StatusSnapshot* snapshot) = 0;

  // What the source knows of the time before the first Read that it has not handed out yet, oldest first.
  virtual std::vector<StatusSample> TakePast() { return {}; }
};

// REQUIRES: *db stays open as long as the reader lives.
std::unique_ptr<StatusReader> NewDatabaseReader(rocksdb::DB* db);

// From outside: MANIFEST, OPTIONS, LOG and the properties of tries' tables. Nothing is written, no lock is taken, no
// WAL is replayed, pool files of durable memtables are not touched. Reads the MANIFEST once; NotFound when there is no
// database at `path`. REQUIRES: this process does not have the database open (to ask who holds its LOCK would let go of
// it).
rocksdb::Status OpenFilesReader(const std::string& path, std::unique_ptr<StatusReader>* reader);

// "trie", "silt" ... as in FamilyStatus::engine; *trie gets the shape of a trie.
std::string EngineOf(const rocksdb::ColumnFamilyOptions& options, std::optional<TrieOptionText>* trie);

}  // namespace cairn
