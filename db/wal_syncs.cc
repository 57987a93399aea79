// What RocksDB does to WALs: the definitions that take the place of its own (rocksdb/port/rocksdb_own.h).

#include "db/wal_syncs.h"

#include <cstdint>
#include <string>
#include <utility>

#include "db/error_recovery.h"
#include "db/failed_writes.h"
#include "file/filename.h"
#include "rocksdb/port/rocksdb_own.h"

extern "C" {
extern const int cairn_wal_syncs;
const int cairn_wal_syncs = 1;
}

namespace cairn {

thread_local const rocksdb::DBImpl* SyncsLater::db_ = nullptr;
thread_local bool SyncsLater::left_ = false;

}  // namespace cairn

namespace rocksdb {

namespace own = cairn::rocksdb_own;

// What a file system keeps of the first entry of a WAL that cannot be begun is damage as soon as there is a next WAL. It has
// nothing of anybody yet.
IOStatus DBImpl::CreateWAL(CAIRN_FIRST_WAL_PARAMETERS const WriteOptions& options, uint64_t number, uint64_t recycled,
                           size_t preallocated CAIRN_MORE_WAL_PARAMETERS, log::Writer** wal) {
  IOStatus s = own::CreateWAL(this, CAIRN_FIRST_WAL_ARGUMENTS options, number, recycled,
                              preallocated CAIRN_MORE_WAL_ARGUMENTS, wal);
  if (s.ok()) return s;
  delete std::exchange(*wal, nullptr);
  const std::string path = LogFileName(immutable_db_options_.GetWalDir(), number);
  const IOStatus removed = fs_->DeleteFile(path, IOOptions(), nullptr);
  if (!removed.ok() && !cairn::IsGone(removed)) {
    Warn(immutable_db_options_.info_log, "%s could not be begun, and cannot be removed: %s", path.c_str(),
         removed.ToString().c_str());
  }
  return s;
}

// The MANIFEST is a log, too, of number 0.
IOStatus log::Writer::AddRecord(const WriteOptions& options, const Slice& entry CAIRN_MORE_ENTRY_PARAMETERS) {
  if (log_number_ != 0) cairn::WrittenEntry::BeginsAt({log_number_, dest_->GetFileSize()});
  return own::AddRecord(this, options, entry CAIRN_MORE_ENTRY_ARGUMENTS);
}

// A write whose sync has failed must stop the database, which goes on behind it otherwise: RocksDB tells of files only.
Status DBImpl::SyncWAL() {
  const bool is_of_write = cairn::SyncsLater::TakesLeft();
  const cairn::SyncsLater now(nullptr);
  const uint64_t told = cairn::errors_told;
  Status s = own::SyncWAL(this);
  if (is_of_write && s.IsIOError() && cairn::errors_told == told) {
    own::WriteErrorToBackgroundError(this, status_to_io_status(Status(s)));
  }
  return s;
}

// An opening may be here with the mutex that this would wait for (a damaged WAL, manual_wal_flush). It says itself why it fails.
void DBImpl::WALIOStatusCheck(const IOStatus& error) {
  if (error.ok() || opened_successfully_) own::WriteErrorToBackgroundError(this, error);
}

void DBImpl::MarkLogsSynced(uint64_t up_to, bool synced_dir, VersionEdit* edit) {
  if (cairn::SyncsLater::Leaves(this)) return MarkLogsNotSynced(up_to);
  own::MarkLogsSynced(this, up_to, synced_dir, edit);
}

}  // namespace rocksdb
