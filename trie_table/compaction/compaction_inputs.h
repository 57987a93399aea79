// Which tables RocksDB's CompactFiles must take along in a trie.
//
// They are those of RocksDB's own rule (CompactionPicker::SanitizeCompactionInputFilesForAllLevels), found in the lists
// of files and not in a description of each. And that rule compares user keys. A table whose last part of a range
// deletion ends where the next table begins has that key for its largest, and no entry of it: by that rule the two
// overlap, and one compaction takes all tables that the range deletion covers. Here, as in RocksDB's leveled
// compaction, they do not.
//
// Thread-safety: a function of its arguments. REQUIRES: the DB mutex.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "db/version_set.h"
#include "rocksdb/comparator.h"
#include "rocksdb/status.h"

namespace cairn {

// Adds to the tables that are named: in each level those between them, and those that share a key with one of them; of
// level 0 all that are older; then, in the levels from theirs to the output's, all that have keys in the range of what
// is taken of these and of levels above. InvalidArgument if one is not there, or lies below the output; Aborted if one
// is being compacted.
rocksdb::Status AddOverlappingFiles(const rocksdb::VersionStorageInfo& storage, const rocksdb::Comparator* comparator,
                                    int output_level, std::unordered_set<uint64_t>* files);

// Of CompactFiles by somebody else than the trie's scheduler: InvalidArgument if it would cut these tables of a trie in
// hash order, with all that overlap, into more tables, which are on average smaller than the parts that a spanning file
// is split into at once (kSensiblePart, trie_table/compaction/trie_ingestion.h): as small as they are they would stay,
// until as much has come as their depth is made for. What RocksDB refuses is OK here.
rocksdb::Status CheckCompactFiles(const rocksdb::ColumnFamilyData& family, const rocksdb::Version& version,
                                  const std::vector<std::string>& names, int output_level);

}  // namespace cairn
