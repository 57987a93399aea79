// Records in the MANIFEST that move a table: later releases keep more of a table there, and pass fewer options.

#pragma once

#include "db/column_family.h"
#include "db/version_edit.h"
#include "db/version_set.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

inline void AddMovedTable(int level, const rocksdb::FileMetaData& table, rocksdb::VersionEdit* edit) {
  edit->AddFile(level, table.fd.GetNumber(), table.fd.GetPathId(), table.fd.GetFileSize(), table.smallest,
                table.largest, table.fd.smallest_seqno, table.fd.largest_seqno, table.marked_for_compaction,
                table.temperature, table.oldest_blob_file_number, table.oldest_ancester_time, table.file_creation_time,
                table.epoch_number, table.file_checksum, table.file_checksum_func_name, table.unique_id,
                table.compensated_range_deletion_size, table.tail_size, table.user_defined_timestamps_persisted
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
                ,
                table.min_timestamp, table.max_timestamp, table.file_open_metadata
#endif
  );
}

// REQUIRES: the DB mutex, which it lets go of meanwhile.
inline rocksdb::Status LogAndApply(rocksdb::VersionSet* versions, rocksdb::ColumnFamilyData* family,
                                   rocksdb::VersionEdit* edit, rocksdb::InstrumentedMutex* mutex,
                                   rocksdb::FSDirectory* directory) {
  const rocksdb::ReadOptions read(rocksdb::Env::IOActivity::kCompaction);
  const rocksdb::WriteOptions write(rocksdb::Env::IOActivity::kCompaction);
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  return versions->LogAndApply(family, read, write, edit, mutex, directory);
#else
  return versions->LogAndApply(family, *family->GetLatestMutableCFOptions(), read, write, edit, mutex, directory);
#endif
}

// Calls install(...) with the options that it takes in this release.
template <class Install>
void InstallVersion(const Install& install, rocksdb::ColumnFamilyData* family) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  (void)family;
  install();
#else
  install(*family->GetLatestMutableCFOptions());
#endif
}

}  // namespace cairn::port
