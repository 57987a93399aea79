// Ingestion beside flushes and compactions of other threads.

#pragma once

#include <string>
#include <vector>

#include "rocksdb/db.h"

namespace cairn {

// IngestExternalFile, tried again where RocksDB says TryAgain, as a program has to: when it has flushed for an
// ingestion, and the thread of a compaction puts that flush into the MANIFEST together with its own, the memtable is
// off the list before the flush's thread installs its SuperVersion, and the ingestion that looks at that moment takes
// the state for inconsistent (ExternalSstFileIngestionJob::Run). It has done nothing then, and the files are where they
// were.
inline rocksdb::Status IngestAgain(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
                                   const std::vector<std::string>& files,
                                   const rocksdb::IngestExternalFileOptions& options) {
  rocksdb::Status s = db->IngestExternalFile(family, files, options);
  for (int tries = 1; s.IsTryAgain() && tries < 100; ++tries) s = db->IngestExternalFile(family, files, options);
  return s;
}

}  // namespace cairn
