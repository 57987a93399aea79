// Runs one compaction that a plan has chosen in RocksDB, on the thread that calls it.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/db.h"
#include "rocksdb/status.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

struct JobOutput {
  uint64_t bytes = 0;
  std::vector<uint64_t> tables;
};

// Moves tables where the job writes none. Listeners hear of what is written, as of RocksDB's own compactions. Aborted
// if others were faster: see IsConflict.
rocksdb::Status RunJob(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family, const TrieJob& job, JobOutput* output);

// Somebody else was faster. That a block cache has no room is Aborted, too.
inline bool IsConflict(const rocksdb::Status& s) { return s.IsAborted() && !s.IsMemoryLimit(); }

// One more than its sequence number, which is 0 in a database without writes. 0: there is none.
uint64_t OldestSnapshot(rocksdb::DB* db);

}  // namespace cairn
