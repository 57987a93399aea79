// Ingestion of tables: what later releases ask for besides.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

// Whether all keys of a range, but not of the whole column family, go when the tables come: atomic_replace_range of
// 11.0.
inline bool ReplacesRange(const rocksdb::IngestExternalFileArg& argument) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return argument.atomic_replace_range.has_value() &&
         (argument.atomic_replace_range->start.has_value() || argument.atomic_replace_range->limit.has_value());
#else
  (void)argument;
  return false;
#endif
}

// Has the tables replace the whole column family, or the keys in [start, limit); false if the release cannot.
inline bool ReplaceAll(rocksdb::IngestExternalFileArg* argument) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  argument->atomic_replace_range.emplace();
  argument->options.snapshot_consistency = false;
  return true;
#else
  (void)argument;
  return false;
#endif
}
inline bool ReplaceRange(rocksdb::IngestExternalFileArg* argument, const rocksdb::Slice& start,
                         const rocksdb::Slice& limit) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  argument->atomic_replace_range.emplace(start, limit);
  argument->options.snapshot_consistency = false;
  return true;
#else
  (void)argument;
  (void)start;
  (void)limit;
  return false;
#endif
}

// Ingests a live table of one database into another by what is known of it, without opening it (11.5); false if the
// release cannot.
inline bool IngestLiveTable(rocksdb::DB* from, const std::string& path, rocksdb::DB* to, rocksdb::Status* s) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 5)
  std::shared_ptr<const rocksdb::PreparedFileInfo> info;
  *s = from->GetPreparedFileInfoForExternalSstIngestion(path, &info);
  if (!s->ok()) return true;
  rocksdb::IngestExternalFileArg argument;
  argument.column_family = to->DefaultColumnFamily();
  argument.external_files = {path};
  argument.file_infos = {info.get()};
  argument.options.allow_db_generated_files = true;
  argument.options.write_global_seqno = false;
  *s = to->IngestExternalFiles({argument});
  return true;
#else
  (void)from;
  (void)path;
  (void)to;
  (void)s;
  return false;
#endif
}

}  // namespace cairn::port
