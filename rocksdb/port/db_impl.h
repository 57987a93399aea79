// RocksDB's open database as CairnDB derives from it: functions that later releases have split or joined, in one form;
// and options of it, and of ingestion into it, that only later releases have.
//
// Adds no data (invariant 1 of db/cairn_db.h).

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

// The name of the listener that a database with a part of Cairn has as its first, and no other has: known by its
// address.
inline constexpr char kServicesName[] = "";
// That of one opened for reading, in the same way.
inline constexpr char kLookupsName[] = "";

// Whether the database uses a part of Cairn. A client's listener is asked for its name only.
inline bool UsesCairn(const rocksdb::ImmutableDBOptions& options) {
  return !options.listeners.empty() && options.listeners.front()->Name() == kServicesName;
}

using OptionTexts = std::unordered_map<std::string, std::string>;
using FamilyChanges = std::unordered_map<rocksdb::ColumnFamilyHandle*, OptionTexts>;

class DbImpl : public rocksdb::DBImpl {
 public:
  using rocksdb::DBImpl::DBImpl;
  using rocksdb::DBImpl::SetOptions;

#if CAIRN_ROCKSDB_AT_LEAST(10, 11)
  // All other forms of SetOptions come here.
  rocksdb::Status SetOptions(const FamilyChanges& changes) final { return ChangeOptions(changes); }
#else
  rocksdb::Status SetOptions(rocksdb::ColumnFamilyHandle* family, const OptionTexts& options) final {
    return ChangeOptions({{family, options}});
  }
#endif

#if CAIRN_ROCKSDB_AT_LEAST(11, 5)
  // Ingestion in two steps, of which the second changes what is read; that in one step takes them, too.
  using rocksdb::DBImpl::PrepareFileIngestion;
  rocksdb::Status PrepareFileIngestion(const std::vector<rocksdb::IngestExternalFileArg>& arguments,
                                       std::unique_ptr<rocksdb::FileIngestionHandle>* handle) final {
    const rocksdb::Status s = CheckIngestion(arguments);
    return s.ok() ? rocksdb::DBImpl::PrepareFileIngestion(arguments, handle) : s;
  }
  rocksdb::Status CommitFileIngestionHandles(std::vector<std::unique_ptr<rocksdb::FileIngestionHandle>> handles) final {
    rocksdb::Status s;
    WhileFilesChange([&] { s = rocksdb::DBImpl::CommitFileIngestionHandles(std::move(handles)); });
    return s;
  }
#endif

#if !CAIRN_ROCKSDB_AT_LEAST(11, 0)
  rocksdb::Status DeleteFile(std::string name) final {
    rocksdb::Status s;
    WhileFilesChange([&] { s = rocksdb::DBImpl::DeleteFile(std::move(name)); });
    return s;
  }
#endif

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  // RocksDB's compactions, those of CompactFiles too, end and none begins until they are resumed; those of an engine
  // stop before and begin after.
  void AbortAllCompactions() final {
    rocksdb::DBImpl::AbortAllCompactions();
    CompactionsAborted();
  }
  void ResumeAllCompactions() final {
    rocksdb::DBImpl::ResumeAllCompactions();
    CompactionsResumed();
  }
#endif

 protected:
  virtual rocksdb::Status ChangeOptions(const FamilyChanges& changes) = 0;
  // NotSupported if what the arguments ask for besides the tables has no meaning in the column family.
  virtual rocksdb::Status CheckIngestion(const std::vector<rocksdb::IngestExternalFileArg>& arguments) = 0;
  // Calls change(), by which tables come or go, of any column family, whose entries are no one's writes.
  virtual void WhileFilesChange(const std::function<void()>& change) = 0;
  virtual void CompactionsAborted() = 0;
  virtual void CompactionsResumed() = 0;

  // RocksDB's own.
  rocksdb::Status SetRocksdbOptions(const FamilyChanges& changes) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 11)
    return rocksdb::DBImpl::SetOptions(changes);
#else
    return rocksdb::DBImpl::SetOptions(changes.begin()->first, changes.begin()->second);  // of one family each
#endif
  }
};

// Whether an opening goes on with the MANIFEST that is there: reuse_manifest_on_open of 11.3. A new database then goes
// on with its first, into which RocksDB has not written in what order the default column family is.
inline bool ReusesManifest(const rocksdb::DBOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 3)
  return options.reuse_manifest_on_open;
#else
  (void)options;
  return false;
#endif
}

inline void StartNewManifest(rocksdb::DBOptions* options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 3)
  options->reuse_manifest_on_open = false;
#else
  (void)options;
#endif
}

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

}  // namespace cairn::port
