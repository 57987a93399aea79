// Reads the files of a trie from RocksDB and turns shapes into statistics.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <memory>
#include <vector>

#include "cairn/db.h"
#include "db/trie_picker.h"
#include "db/trie_shape.h"
#include "rocksdb/db.h"
#include "rocksdb/table_properties.h"
#include "table/written_totals.h"

namespace cairn {

// Sets sketch (null when the table carries none, or a malformed one) and data_bytes from a table's properties.
// REQUIRES: file->bytes is set.
void DescribeFile(const rocksdb::TableProperties& properties, TrieFile* file);

// Whether the options of a column family with a trie partitioner fit together; InvalidArgument says what to change.
rocksdb::Status CheckTrieOptions(const rocksdb::ColumnFamilyOptions& options);

// All files of the current Version. *totals (may be null) is raised to what the tables record.
rocksdb::Status ReadTrieFiles(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const TrieOptions& trie,
                              std::vector<TrieFile>* files, WrittenTotals* totals);

// Fills what follows from the files.
void FillTrieStats(const TrieShape& shape, TriePicker* picker, const WrittenTotals& totals, TrieStats* stats);

// Sets the fields of tables with an ECT index, which need the tables' properties, if the trie writes such.
rocksdb::Status AddEctTables(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats);

// For a DB without a scheduler (read-only, or none attached yet). NotFound when the column family is no trie.
rocksdb::Status ReadTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats);

}  // namespace cairn
