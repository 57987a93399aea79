// Turns what a pool file holds into a WAL file of its database, before that is opened (docs/design/durable_memtable.md,
// Recovery).
//
// Thread-safety: none. The caller holds the pool file and the database's LOCK.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memtable_cache/recovery.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

struct RecoveryReport {
  bool had_work = false;
  bool foreign = false;  // refused, because it waits for another database
  uint64_t wal = 0;      // number of the WAL file made; 0: nothing was left to replay
  PoolCounts counts;
  std::string ToString() const;
};

rocksdb::Status RecoverPoolFile(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file,
                                RecoveryReport* report);

// For a repair of the database, whose MANIFEST is damaged or missing: finds out that the pool file is this database's
// and what it holds; has it wait for the repair, until when nobody else may recover it; and recovers it when a new
// MANIFEST names every column family. `families`: the database's.
rocksdb::Status ExamineForRepair(const rocksdb::DBOptions& options, const std::string& path, const PmemFile& file,
                                 PoolCounts* counts);
rocksdb::Status HoldForRepair(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file);
rocksdb::Status NoteRebuilt(PmemFile* file);  // the new MANIFEST is complete
rocksdb::Status RecoverAfterRepair(const rocksdb::DBOptions& options, const std::string& path,
                                   const std::vector<rocksdb::ColumnFamilyDescriptor>& families, PmemFile* file,
                                   RecoveryReport* report);

// Whether the MANIFEST can be read, but has lost its end: it does not know a table that the pool was told of and that
// is there.
bool IsManifestCutOff(const rocksdb::DBOptions& options, const std::string& path, const PmemFile& file);

// What RecoverPoolFile would find, doing nothing. `file` may be open for reading only.
rocksdb::Status ExaminePoolFile(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file,
                                RecoveryReport* report);

// The id of the database in a directory.
rocksdb::Status ReadDatabaseId(const rocksdb::DBOptions& options, const std::string& path, std::string* id);

// Gives up what the pool file holds, whatever that is.
rocksdb::Status DiscardPoolFile(PmemFile* file);

}  // namespace cairn
