// Files to ingest, and their ingestion beside flushes and compactions of other threads.

#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/sst_file_writer.h"

namespace cairn {

// Writes the records, pairs of a key and a value, to a file that may be ingested, in the order of the options.
template <class Records = std::map<std::string, std::string>>
rocksdb::Status WriteTable(const std::string& path, const rocksdb::Options& options, const Records& records,
                           rocksdb::ColumnFamilyHandle* family = nullptr) {
  std::vector<std::pair<std::string, std::string>> sorted(records.begin(), records.end());
  std::sort(sorted.begin(), sorted.end(),
            [&options](const auto& a, const auto& b) { return options.comparator->Compare(a.first, b.first) < 0; });
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, family);
  rocksdb::Status s = writer.Open(path);
  for (const auto& [key, value] : sorted) {
    if (s.ok()) s = writer.Put(key, value);
  }
  return s.ok() ? writer.Finish() : s;
}

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
