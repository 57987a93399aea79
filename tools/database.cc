#include "tools/database.h"

#include <cairn/db.h>

#include "memtable_cache/pool_presence.h"
#include "memtable_cache/process_lock.h"
#include "rocksdb/env.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// Files may be compacted away between the reading of the MANIFEST and the opening of the tables.
constexpr int kReadAttempts = 5;

Status CheckExists(const std::string& path) {
  Status s = rocksdb::Env::Default()->FileExists(path + "/CURRENT");
  return s.ok() ? s : Status::NotFound(path, "is no RocksDB database (it has no file CURRENT)");
}

Status OpenOnce(const std::string& path, std::vector<rocksdb::ColumnFamilyHandle*>* families, rocksdb::DB** db,
                std::string* pool_text) {
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &options, &descriptors);
  if (s.IsNotFound()) return Status::NotFound(path, "has no OPTIONS file, which says how to read it");
  if (!s.ok()) return s;
  options.create_if_missing = false;
  options.listeners.clear();
  PoolPresence pool;
  s = FindPool(options, path, descriptors, &pool);
  if (!s.ok()) return s;
  *pool_text = pool.state >= PoolState::kHoldsWrites ? pool.ToString() : "";
  const TablesOnly tables_only;
  return rocksdb::DB::OpenForReadOnly(options, path, descriptors, families, port::Into(db));
}

}  // namespace

Status Database::OpenForReading(const std::string& path, std::unique_ptr<Database>* database) {
  Status s = CheckExists(path);
  std::unique_ptr<Database> result(new Database());
  for (int attempt = 0; s.ok() && attempt < kReadAttempts; attempt++) {
    Status opened = OpenOnce(path, &result->families_, &result->db_, &result->pool_text_);
    if (opened.ok()) {
      *database = std::move(result);
      return opened;
    }
    if (attempt + 1 == kReadAttempts || !(opened.IsIOError() || opened.IsCorruption())) s = opened;
  }
  return s;
}

Status Database::OpenForWriting(const std::string& path, std::unique_ptr<Database>* database) {
  Status s = CheckExists(path);
  if (!s.ok()) return s;
  rocksdb::FileLock* lock = nullptr;
  // Asked for first, because the opening's own error is about a file.
  s = rocksdb::Env::Default()->LockFile(path + "/LOCK", &lock);
  if (!s.ok()) return CannotLock(path, s);
  rocksdb::Env::Default()->UnlockFile(lock).PermitUncheckedError();
  std::unique_ptr<Database> result(new Database());
  std::vector<std::string> names;
  s = OpenWithStoredOptions(path, &names, &result->families_, &result->db_);
  if (s.ok()) *database = std::move(result);
  return s;
}

Database::~Database() { Close().PermitUncheckedError(); }

rocksdb::ColumnFamilyHandle* Database::Find(const std::string& column_family) const {
  for (rocksdb::ColumnFamilyHandle* handle : families_) {
    if (handle->GetName() == column_family) return handle;
  }
  return nullptr;
}

Status Database::Close() {
  if (db_ == nullptr) return Status::OK();
  for (rocksdb::ColumnFamilyHandle* handle : families_) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  families_.clear();
  Status s = db_->Close();
  delete db_;
  db_ = nullptr;
  return s.IsNotSupported() ? Status::OK() : s;  // a read-only database has nothing to close
}

}  // namespace cairn
