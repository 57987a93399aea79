#include "memtable_cache/durable_writes.h"

#include <chrono>
#include <thread>
#include <utility>

#include "db/write_batch_internal.h"
#include "file/filename.h"
#include "memtable_cache/backing.h"
#include "memtable_cache/pool_note.h"
#include "memtable_cache/pool_owner.h"
#include "memtable_cache/pool_presence.h"
#include "memtable_cache/process_lock.h"
#include "rocksdb/env.h"
#include "rocksdb/port/family_options.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/transaction_log.h"
#include "util/cairn_parts.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// REQUIRES: the factory was taken for a durable one by DurableFactoryOf.
DurableMemTableFactory& AsDurable(rocksdb::MemTableRepFactory& factory) {
  return dynamic_cast<DurableMemTableFactory&>(factory);
}

// Null if the options ask for memtables that are not durable.
DurableMemTableFactory* DurableFactoryOf(const ColumnFamilyOptions& options, DurableSettings* settings) {
  rocksdb::MemTableRepFactory* const any = options.memtable_factory.get();
  // An object of a client may not be cast: it may have been compiled without RTTI.
  if (any == nullptr || !IsCairnName(any->Name())) return nullptr;
  auto* const factory = dynamic_cast<DurableMemTableFactory*>(any);
  return factory != nullptr && factory->GetDurableSettings(settings) ? factory : nullptr;
}

Status Refused(const std::string& what, const std::string& why) {
  return Status::NotSupported(what + " with durable memtables", why);
}

Status ServesAnother(const ColumnFamilyDescriptor& family) {
  return Status::Busy("the durable memtables of column family " + family.name,
                      "serve an open database already; give each database a memtable_factory of its own");
}

Status CheckDatabaseOptions(const rocksdb::DBOptions& options) {
  if (options.unordered_write) return Refused("unordered_write", "it publishes writes before they are in the memtable");
  if (options.allow_2pc) return Refused("allow_2pc", "prepared transactions live in the WAL, which is off");
  if (options.two_write_queues) return Refused("two_write_queues", "sequences are published before they are written");
  if (options.persist_stats_to_disk) return Refused("persist_stats_to_disk", "RocksDB writes them through the WAL");
  if (options.recycle_log_file_num > 0)
    return Refused("recycle_log_file_num", "RocksDB then refuses writes without WAL");
  if (options.best_efforts_recovery) return Refused("best_efforts_recovery", "it ignores the WAL that recovery makes");
  return Status::OK();
}

bool IsSame(const DurableSettings& a, const DurableSettings& b) {
  return a.path == b.path && a.bytes == b.bytes && a.require_persistent_memory == b.require_persistent_memory &&
         a.locked_cache == b.locked_cache;
}

// The LOCK of a database that may not be there yet.
class DatabaseLock {
 public:
  DatabaseLock(rocksdb::Env* env, const std::string& path) : env_(env) {
    if (!env->FileExists(path).ok()) return;
    const Status s = env->LockFile(rocksdb::LockFileName(path), &lock_);
    if (!s.ok()) status_ = CannotLock(path, s);
  }
  ~DatabaseLock() {
    if (lock_ != nullptr) env_->UnlockFile(lock_).PermitUncheckedError();
  }
  DatabaseLock(const DatabaseLock&) = delete;
  DatabaseLock& operator=(const DatabaseLock&) = delete;
  const Status& status() const { return status_; }

 private:
  rocksdb::Env* const env_;
  rocksdb::FileLock* lock_ = nullptr;
  Status status_;
};

Status PreparePool(const rocksdb::DBOptions& options, const std::string& path, const DurableSettings& settings,
                   RecoveryReport* report, std::shared_ptr<DurablePool>* pool) {
  if (options.create_if_missing) options.env->CreateDirIfMissing(path).PermitUncheckedError();
  const DatabaseLock lock(options.env, path);
  Status s = lock.status();
  PmemFileOptions file_options;
  file_options.path = settings.path;
  file_options.bytes = settings.bytes;
  file_options.require_persistent_memory = settings.require_persistent_memory;
  file_options.require_persistent_cache = settings.locked_cache != 0;
  std::unique_ptr<PmemFile> file;
  if (s.ok()) s = CheckPoolIsNoted(options.env, path, settings.path);
  if (s.ok()) s = PmemFile::Open(file_options, &file);
  if (s.ok()) s = RecoverPoolFile(options, path, file.get(), report);
  // Before the pool gets another session: the note goes with the old one.
  if (s.ok()) s = NotePoolIdle(options.env, path);
  std::unique_ptr<DurablePool> started;
  if (s.ok()) s = DurablePool::Start(std::move(file), settings.bytes, &started);
  if (s.ok()) *pool = std::move(started);
  return s;
}

// Memtables must be empty when the pool is armed: what they hold was replayed from WALs that nobody keeps.
Status FlushReplayed(rocksdb::DB* db, const std::vector<ColumnFamilyHandle*>& handles) {
  for (ColumnFamilyHandle* handle : handles) {
    uint64_t active = 0;
    uint64_t immutable = 0;
    db->GetIntProperty(handle, rocksdb::DB::Properties::kNumEntriesActiveMemTable, &active);
    db->GetIntProperty(handle, rocksdb::DB::Properties::kNumImmutableMemTable, &immutable);
    if (active == 0 && immutable == 0) continue;
    const Status s = db->Flush(rocksdb::FlushOptions(), handle);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

}  // namespace

bool GetDurableSettings(const ColumnFamilyOptions& options, DurableSettings* settings) {
  return DurableFactoryOf(options, settings) != nullptr;
}

bool IsDurable(const std::vector<ColumnFamilyDescriptor>& families) {
  DurableSettings settings;
  for (const auto& family : families) {
    if (DurableFactoryOf(family.options, &settings) != nullptr) return true;
  }
  return false;
}

void UsePlainMemory(std::vector<ColumnFamilyDescriptor>* families) {
  for (ColumnFamilyDescriptor& family : *families) {
    DurableSettings settings;
    const DurableMemTableFactory* const factory = DurableFactoryOf(family.options, &settings);
    if (factory != nullptr) family.options.memtable_factory = factory->InPlainMemory();
  }
}

Status CheckDurableFamily(const ColumnFamilyOptions& options, const std::string& name) {
  const std::string where = " of column family " + name;
  if (options.inplace_update_support) return Refused("inplace_update_support" + where, "entries must not change");
  if (options.experimental_mempurge_threshold > 0) {
    return Refused("experimental_mempurge_threshold" + where, "it counts memtables as flushed that are in no table");
  }
  if (port::WritesBlobsAtOnce(options)) {
    return Refused("enable_blob_direct_write" + where,
                   "recovery would not find the values: no MANIFEST names their files");
  }
  if (options.comparator != nullptr && options.comparator->timestamp_size() > 0) {
    return Refused("user-defined timestamps" + where, "use a WAL");
  }
  return Status::OK();
}

Status CheckDurable(const rocksdb::DBOptions& options, const std::string& path,
                    const std::vector<ColumnFamilyDescriptor>& families, DurableSettings* settings) {
  Status s = CheckDatabaseOptions(options);
  for (size_t i = 0; s.ok() && i < families.size(); ++i) {
    const auto& family = families[i];
    DurableSettings own;
    if (DurableFactoryOf(family.options, &own) == nullptr) {
      return Status::InvalidArgument("column family " + family.name,
                                     "has no durable memtables, others of the database do: all or none");
    }
    if (i == 0) *settings = own;
    if (!IsSame(own, *settings)) {
      return Status::InvalidArgument("column family " + family.name,
                                     "has another pool file than the database's others");
    }
    s = CheckDurableFamily(family.options, family.name);
  }
  if (settings->path.empty()) settings->path = path + "/" + kPoolFileName;
  return s;
}

Status DurableWrites::Start(const rocksdb::DBOptions& options, const std::string& path,
                            const std::vector<ColumnFamilyDescriptor>& families,
                            std::unique_ptr<DurableWrites>* writes) {
  DurableSettings settings;
  Status s = CheckDurable(options, path, families, &settings);
  DurableSettings as_given;
  for (const auto& family : families) {
    if (!s.ok()) return s;
    if (DurableFactoryOf(family.options, &as_given)->HasPool()) s = ServesAnother(family);
  }
  // RocksDB says the same, but the pool file would have been made by then.
  if (s.ok() && !options.create_if_missing && options.env->FileExists(rocksdb::CurrentFileName(path)).IsNotFound()) {
    s = Status::InvalidArgument(path, "does not exist (create_if_missing is false)");
  }
  RecoveryReport report;
  std::shared_ptr<DurablePool> pool;
  if (s.ok()) s = PreparePool(options, path, settings, &report, &pool);
  if (!s.ok()) return s;
  std::unique_ptr<DurableWrites> made(new DurableWrites(options.env, path, std::move(pool), std::move(as_given)));
  made->recovery_ = report;
  for (const auto& family : families) {
    if (s.ok()) s = made->Use(family);
  }
  if (s.ok()) *writes = std::move(made);
  return s;
}

DurableWrites::~DurableWrites() {
  if (!finished_) BeginClose();
  FinishClose().PermitUncheckedError();
}

Status DurableWrites::FinishClose() {
  if (finished_) return Status::OK();
  finished_ = true;
  const Status s = pool_->Finish();
  Superblock superblock;
  if (s.ok() && ReadSuperblock(*pool_->file(), &superblock).ok() && superblock.phase == PoolPhase::kIdle) {
    NotePoolIdle(env_, path_).PermitUncheckedError();  // an idle pool alone says enough
  }
  const MutexLock lock(&factories_mutex_);
  for (const auto& factory : factories_) AsDurable(*factory).LeavePool();
  return s;
}

Status DurableWrites::Arm(rocksdb::DBImpl* db, const std::vector<ColumnFamilyHandle*>& handles) {
  Status s = FlushReplayed(db, handles);
  std::string database;
  if (s.ok()) s = db->GetDbIdentity(database);
  std::unique_ptr<rocksdb::LogFile> wal;
  if (s.ok()) s = db->GetCurrentWalFile(&wal);
  Superblock superblock;
  if (s.ok()) s = ReadSuperblock(*pool_->file(), &superblock);
  // The note first: from the pool's phase on, writes may lie there.
  const MutexLock lock(&note_mutex_);
  for (ColumnFamilyHandle* handle : handles) noted_families_[handle->GetID()] = handle->GetName();
  if (s.ok()) s = NotePoolLive(env_, path_, pool_->file()->path(), superblock.session, noted_families_);
  if (s.ok())
    s = pool_->Arm(database, DirectoryOf(path_), wal->LogNumber(), [db] { return db->GetLatestSequenceNumber(); });
  if (!s.ok()) return s;
  const auto& log = db->immutable_db_options().info_log;
  rocksdb::Info(log, "[cairn] %s", pool_->file()->Report().c_str());
  const auto level = recovery_.counts.reason.empty() ? rocksdb::INFO_LEVEL : rocksdb::WARN_LEVEL;
  rocksdb::Log(level, log, "[cairn] recovery of the pool file: %s", recovery_.ToString().c_str());
  return s;
}

Status DurableWrites::Use(const ColumnFamilyDescriptor& family) {
  const auto& factory = family.options.memtable_factory;
  const MutexLock lock(&factories_mutex_);
  if (!AsDurable(*factory).UsePool(pool_)) return ServesAnother(family);
  factories_.push_back(factory);
  return Status::OK();
}

Status DurableWrites::Adopt(const ColumnFamilyDescriptor& family) {
  DurableSettings settings;
  if (DurableFactoryOf(family.options, &settings) == nullptr || !IsSame(settings, settings_)) {
    return Status::InvalidArgument("column family " + family.name,
                                   "needs the durable memtables of the database's other column families");
  }
  const Status s = CheckDurableFamily(family.options, family.name);
  return s.ok() ? Use(family) : s;
}

// Only a repair needs it, so an error is none of the client's.
void DurableWrites::NoteFamily(uint32_t id, const std::string& name) {
  Superblock superblock;
  const MutexLock lock(&note_mutex_);
  for (auto it = noted_families_.begin(); it != noted_families_.end();) {
    it = it->second == name ? noted_families_.erase(it) : std::next(it);
  }
  noted_families_[id] = name;
  if (!ReadSuperblock(*pool_->file(), &superblock).ok()) return;
  NotePoolLive(env_, path_, pool_->file()->path(), superblock.session, noted_families_).PermitUncheckedError();
}

Status DurableWrites::Admit(rocksdb::DBImpl* db, const rocksdb::WriteBatch* batch, bool has_indexed_batch) {
  if (batch == nullptr) return Status::OK();
  if (batch->HasDeleteRange()) {
    return Refused("DeleteRange", "range deletions bypass the pool; delete the keys one by one");
  }
  if (batch->HasTimedPut()) return Refused("TimedPut", "its write time is not kept; use Put");
  if (has_indexed_batch) {
    return Refused("a commit that bypasses the memtable", "leave TransactionOptions::commit_bypass_memtable off");
  }
  const size_t bytes = batch->GetDataSize() + batch->Count() * kEntryOverhead;
  const Status s = pool_->CheckRoom(bytes);
  return s.ok() ? s : MakeRoom(db, bytes);
}

// Full. One flush frees what is in memory, and whoever waits for it finds room.
Status DurableWrites::MakeRoom(rocksdb::DBImpl* db, size_t bytes) {
  const MutexLock lock(&room_mutex_);
  Status s = pool_->CheckRoom(bytes);
  if (s.ok() || !s.IsNoSpace()) return Checked(db, s);
  db->mutex()->Lock();
  const Status flushed =
      rocksdb_own::FlushAllColumnFamilies(db, rocksdb::FlushOptions(), rocksdb::FlushReason::kGetLiveFiles);
  db->mutex()->Unlock();
  if (!flushed.ok()) return flushed;
  // Memtables die a little after their flush has been reported.
  constexpr int kMilliseconds = 500;
  for (int i = 0; i < kMilliseconds && !(s = pool_->CheckRoom(bytes)).ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // With nothing in memory that could be flushed, only the file system can have made room.
  if (s.IsNoSpace() && bytes <= Backing::kSpareBytes / 4 && pool_->HasRoomAgain()) s = Status::OK();
  return s;
}

// A write has returned: its group is complete, and so are all before it. RocksDB may have published a later one that
// failed halfway, so it is the batch that says how far.
Status DurableWrites::Acknowledge(rocksdb::DBImpl* db, const rocksdb::WriteBatch* batch, bool sync) {
  using rocksdb::WriteBatchInternal;
  const uint32_t count = batch == nullptr ? 0 : WriteBatchInternal::Count(batch);
  return AcknowledgeUpTo(db, count == 0 ? 0 : WriteBatchInternal::Sequence(batch) + count - 1, sync);
}

Status DurableWrites::AcknowledgeUpTo(rocksdb::DBImpl* db, uint64_t sequence, bool sync) {
  if (sequence > 0) pool_->AcknowledgeUpTo(sequence);
  const Status s = pool_->status();
  return s.ok() && sync ? Sync(db) : Checked(db, s);
}

Status DurableWrites::Sync(rocksdb::DBImpl* db) { return Checked(db, pool_->Sync()); }

Status DurableWrites::Resume(rocksdb::DBImpl* db) { return Checked(db, pool_->Resume()); }

// A sync that failed stops the database, as that of a WAL does.
Status DurableWrites::Checked(rocksdb::DBImpl* db, const Status& s) {
  if (s.ok() || s.IsNoSpace()) return s;
  const rocksdb::IOStatus error = rocksdb::IOStatus::IOError(s.getState() == nullptr ? "" : s.getState());
  rocksdb_own::WriteErrorToBackgroundError(db, error);
  return s;
}

Status DurableWrites::CheckWalUnlocked() const {
  if (wal_locks_.load() == 0) return Status::OK();
  return Status::TryAgain("the WAL is locked (LockWAL): what is in the pool file cannot be flushed",
                          "copy the live files after UnlockWAL");
}

}  // namespace cairn
