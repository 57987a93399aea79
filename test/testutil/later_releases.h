// What listeners of later releases are told, and what iterators and ingestion may ask for, for test/release_test.cc.

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

#if CAIRN_ROCKSDB_AT_LEAST(11, 4)

constexpr bool kHasNewEvents = true;

class NewEvents : public rocksdb::EventListener {
 public:
  void OnCompactionPreCommit(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& /*info*/) override { ++precommits; }
  void OnDBShutdownBegin(rocksdb::DB* /*db*/) override { ++shutdowns; }

  std::atomic<int> precommits{0};
  std::atomic<int> shutdowns{0};
};

#else

constexpr bool kHasNewEvents = false;

class NewEvents : public rocksdb::EventListener {
 public:
  std::atomic<int> precommits{0};
  std::atomic<int> shutdowns{0};
};

#endif

// An iterator at a snapshot gives back from time to time what it holds: auto_refresh_iterator_with_snapshot of 10.0.
inline void RefreshByItself(rocksdb::ReadOptions* options) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  options->auto_refresh_iterator_with_snapshot = true;
#else
  (void)options;
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
