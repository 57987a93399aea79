#include "db/durable_db.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "db/background_error.h"
#include "db/pool_note.h"
#include "db/pool_presence.h"
#include "file/filename.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/utilities/stackable_db.h"
#include "rocksdb/write_batch.h"

namespace cairn {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WriteOptions;

namespace {

DurableMemTableFactory* DurableFactoryOf(const ColumnFamilyOptions& options, DurableSettings* settings) {
  auto* const factory = dynamic_cast<DurableMemTableFactory*>(options.memtable_factory.get());
  return factory != nullptr && factory->GetDurableSettings(settings) ? factory : nullptr;
}

Status Refused(const std::string& what, const std::string& why) {
  return Status::NotSupported(what + " with durable memtables", why);
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

Status CheckFamilyOptions(const ColumnFamilyOptions& options, const std::string& name) {
  const std::string where = " of column family " + name;
  if (options.inplace_update_support) return Refused("inplace_update_support" + where, "entries must not change");
  if (options.experimental_mempurge_threshold > 0) {
    return Refused("experimental_mempurge_threshold" + where, "it counts memtables as flushed that are in no table");
  }
  if (options.comparator != nullptr && options.comparator->timestamp_size() > 0) {
    return Refused("user-defined timestamps" + where, "use a WAL");
  }
  return Status::OK();
}

bool IsSame(const DurableSettings& a, const DurableSettings& b) {
  return a.path == b.path && a.bytes == b.bytes && a.require_persistent_memory == b.require_persistent_memory;
}

// Tells the pool of tables that the MANIFEST holds. Without a name, so that no OPTIONS file mentions it.
class TableListener : public rocksdb::EventListener {
 public:
  explicit TableListener(std::shared_ptr<DurablePool> pool) : pool_(std::move(pool)) {}
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& info) override {
    pool_->NoteTable(info.file_number);
  }

 private:
  const std::shared_ptr<DurablePool> pool_;
};

// A durable database while it is open.
class DurableDB : public rocksdb::StackableDB {
 public:
  DurableDB(rocksdb::DB* db, std::shared_ptr<DurablePool> pool, DurableSettings settings,
            std::vector<std::shared_ptr<rocksdb::MemTableRepFactory>> factories)
      : StackableDB(db), pool_(std::move(pool)), settings_(std::move(settings)), factories_(std::move(factories)) {}

  ~DurableDB() override { Close().PermitUncheckedError(); }

  Status Close() override {
    if (closed_) return Status::OK();
    closed_ = true;
    // RocksDB flushes what is in memory, unless told otherwise; what has not been flushed must not be freed.
    pool_->Freeze();
    rocksdb::Env* const env = GetEnv();
    const std::string name = GetName();
    const Status s = StackableDB::Close();
    const Status finished = pool_->Finish();
    Superblock superblock;
    if (finished.ok() && ReadSuperblock(*pool_->file(), &superblock).ok() && superblock.phase == PoolPhase::kIdle) {
      NotePoolIdle(env, name).PermitUncheckedError();  // an idle pool alone says enough
    }
    for (const auto& factory : factories_) dynamic_cast<DurableMemTableFactory&>(*factory).UsePool(nullptr);
    return s.ok() ? finished : s;
  }

  using StackableDB::Put;
  Status Put(const WriteOptions& options, ColumnFamilyHandle* family, const Slice& key, const Slice& value) override {
    return Admitted(options, key.size() + value.size(),
                    [&](const WriteOptions& without) { return StackableDB::Put(without, family, key, value); });
  }
  using StackableDB::PutEntity;
  Status PutEntity(const WriteOptions& options, ColumnFamilyHandle* family, const Slice& key,
                   const rocksdb::WideColumns& columns) override {
    size_t bytes = key.size();
    for (const auto& column : columns) bytes += BytesOf(column);
    return Admitted(options, bytes,
                    [&](const WriteOptions& without) { return StackableDB::PutEntity(without, family, key, columns); });
  }
  Status PutEntity(const WriteOptions& options, const Slice& key, const rocksdb::AttributeGroups& groups) override {
    size_t bytes = 0;
    for (const auto& group : groups) {
      bytes += key.size() + kEntryOverhead;
      for (const auto& column : group.columns()) bytes += BytesOf(column);
    }
    return Admitted(options, bytes,
                    [&](const WriteOptions& without) { return StackableDB::PutEntity(without, key, groups); });
  }
  using StackableDB::Delete;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* family, const Slice& key) override {
    return Admitted(options, key.size(),
                    [&](const WriteOptions& without) { return StackableDB::Delete(without, family, key); });
  }
  using StackableDB::SingleDelete;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* family, const Slice& key) override {
    return Admitted(options, key.size(),
                    [&](const WriteOptions& without) { return StackableDB::SingleDelete(without, family, key); });
  }
  using StackableDB::Merge;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* family, const Slice& key, const Slice& value) override {
    return Admitted(options, key.size() + value.size(),
                    [&](const WriteOptions& without) { return StackableDB::Merge(without, family, key, value); });
  }
  using StackableDB::DeleteRange;
  Status DeleteRange(const WriteOptions& /*options*/, ColumnFamilyHandle* /*family*/, const Slice& /*begin*/,
                     const Slice& /*end*/) override {
    return Refused("DeleteRange", "range deletions bypass the pool; delete the keys one by one");
  }
  Status Write(const WriteOptions& options, rocksdb::WriteBatch* batch) override {
    if (batch != nullptr && batch->HasDeleteRange()) {
      return Refused("a batch with DeleteRange", "range deletions bypass the pool; delete the keys one by one");
    }
    if (batch != nullptr && batch->HasTimedPut()) {
      return Refused("a batch with TimedPut", "its write time is not kept; use Put");
    }
    const size_t bytes = batch == nullptr ? 0 : batch->GetDataSize() + batch->Count() * kEntryOverhead;
    return Admitted(options, bytes, [&](const WriteOptions& without) { return StackableDB::Write(without, batch); });
  }

  Status SyncWAL() override { return Checked(pool_->Sync()); }
  Status FlushWAL(bool sync) override { return sync ? SyncWAL() : Status::OK(); }
  Status Resume() override {
    const Status s = StackableDB::Resume();
    return s.ok() ? Checked(pool_->Resume()) : s;
  }

  Status CreateColumnFamily(const ColumnFamilyOptions& options, const std::string& name,
                            ColumnFamilyHandle** handle) override {
    const Status s = Adopt({{name, options}});
    return s.ok() ? StackableDB::CreateColumnFamily(options, name, handle) : s;
  }
  Status CreateColumnFamilies(const ColumnFamilyOptions& options, const std::vector<std::string>& names,
                              std::vector<ColumnFamilyHandle*>* handles) override {
    std::vector<ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options);
    const Status s = Adopt(families);
    return s.ok() ? StackableDB::CreateColumnFamilies(options, names, handles) : s;
  }
  Status CreateColumnFamilies(const std::vector<ColumnFamilyDescriptor>& families,
                              std::vector<ColumnFamilyHandle*>* handles) override {
    const Status s = Adopt(families);
    return s.ok() ? StackableDB::CreateColumnFamilies(families, handles) : s;
  }
  using StackableDB::CreateColumnFamilyWithImport;
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& options, const std::string& name,
                                      const rocksdb::ImportColumnFamilyOptions& import_options,
                                      const std::vector<const rocksdb::ExportImportFilesMetaData*>& files,
                                      ColumnFamilyHandle** handle) override {
    const Status s = Adopt({{name, options}});
    return s.ok() ? StackableDB::CreateColumnFamilyWithImport(options, name, import_options, files, handle) : s;
  }

 private:
  // What an entry takes in the pool file beyond its key and value, at most.
  static constexpr size_t kEntryOverhead = 48;
  static size_t BytesOf(const rocksdb::WideColumn& column) {
    return column.name().size() + column.value().size() + kEntryOverhead;
  }

  // A write of about `bytes`: refused before it has done anything if the pool file has no room for it.
  template <class Write>
  Status Admitted(const WriteOptions& options, size_t bytes, const Write& write) {
    Status s = pool_->CheckRoom(bytes + kEntryOverhead);
    if (!s.ok()) s = MakeRoom(bytes + kEntryOverhead);
    return s.ok() ? Acknowledge(options, write(WithoutWal(options))) : s;
  }

  // The pool file is full: flushes what is in it, as if the write buffers were, and waits for the memtables to go.
  Status MakeRoom(uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(room_mutex_);
    Status s = pool_->CheckRoom(bytes);
    if (s.ok() || !s.IsNoSpace()) return Checked(s);
    // Flushes every column family; what it lists is of no interest.
    std::vector<std::string> files;
    uint64_t manifest_bytes = 0;
    const Status flushed = StackableDB::GetLiveFiles(files, &manifest_bytes, true);
    if (!flushed.ok()) return flushed;
    // Memtables die a little after their flush has been reported.
    constexpr int kMilliseconds = 500;
    for (int i = 0; i < kMilliseconds && !(s = pool_->CheckRoom(bytes)).ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return s;
  }

  static WriteOptions WithoutWal(WriteOptions options) {
    options.disableWAL = true;
    options.sync = false;
    return options;
  }

  // A write has returned: its group is complete, and so are all before it.
  Status Acknowledge(const WriteOptions& options, const Status& s) {
    if (!s.ok()) return s;
    pool_->AcknowledgeAll();
    const Status pool_status = pool_->status();
    if (!pool_status.ok()) return Checked(pool_status);
    return options.sync ? SyncWAL() : s;
  }

  // A sync that failed stops the database, as that of a WAL does.
  Status Checked(const Status& s) {
    if (!s.ok() && !s.IsNoSpace()) SetBackgroundError(this, s);
    return s;
  }

  Status Adopt(const std::vector<ColumnFamilyDescriptor>& families) {
    for (const auto& family : families) {
      DurableSettings settings;
      auto* const factory = DurableFactoryOf(family.options, &settings);
      if (factory == nullptr || !IsSame(settings, settings_)) {
        return Status::InvalidArgument("column family " + family.name,
                                       "needs the durable memtables of the database's other column families");
      }
      const Status s = CheckFamilyOptions(family.options, family.name);
      if (!s.ok()) return s;
    }
    const std::lock_guard<std::mutex> lock(factories_mutex_);
    for (const auto& family : families) {
      factories_.push_back(family.options.memtable_factory);
      dynamic_cast<DurableMemTableFactory&>(*family.options.memtable_factory).UsePool(pool_);
    }
    return Status::OK();
  }

  const std::shared_ptr<DurablePool> pool_;
  const DurableSettings settings_;
  std::mutex room_mutex_;
  std::mutex factories_mutex_;
  std::vector<std::shared_ptr<rocksdb::MemTableRepFactory>> factories_;
  bool closed_ = false;
};

// The LOCK of a database that may not be there yet.
class DatabaseLock {
 public:
  DatabaseLock(rocksdb::Env* env, const std::string& path) : env_(env) {
    if (!env->FileExists(path).ok()) return;
    status_ = env->LockFile(rocksdb::LockFileName(path), &lock_);
    if (!status_.ok()) status_ = Status::Busy(path, "is open already; close it there first");
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

Status ArmPool(rocksdb::DB* db, const std::vector<ColumnFamilyHandle*>& handles, DurablePool* pool) {
  Status s = FlushReplayed(db, handles);
  std::string database;
  if (s.ok()) s = db->GetDbIdentity(database);
  std::unique_ptr<rocksdb::LogFile> wal;
  if (s.ok()) s = db->GetCurrentWalFile(&wal);
  Superblock superblock;
  if (s.ok()) s = ReadSuperblock(*pool->file(), &superblock);
  // The note first: from the pool's phase on, writes may lie there.
  if (s.ok()) s = NotePoolLive(db->GetEnv(), db->GetName(), pool->file()->path(), superblock.session);
  return s.ok() ? pool->Arm(database, wal->LogNumber(), [db] { return db->GetLatestSequenceNumber(); }) : s;
}

}  // namespace

bool GetDurableSettings(const ColumnFamilyOptions& options, DurableSettings* settings) {
  return DurableFactoryOf(options, settings) != nullptr;
}

bool IsDurable(const std::vector<ColumnFamilyDescriptor>& column_families) {
  DurableSettings settings;
  for (const auto& family : column_families) {
    if (DurableFactoryOf(family.options, &settings) != nullptr) return true;
  }
  return false;
}

Status CheckDurable(const rocksdb::DBOptions& options, const std::string& path,
                    const std::vector<ColumnFamilyDescriptor>& column_families, DurableSettings* settings) {
  Status s = CheckDatabaseOptions(options);
  for (size_t i = 0; s.ok() && i < column_families.size(); ++i) {
    const auto& family = column_families[i];
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
    s = CheckFamilyOptions(family.options, family.name);
  }
  if (settings->path.empty()) settings->path = path + "/" + kPoolFileName;
  return s;
}

Status OpenDurable(const rocksdb::DBOptions& options, const std::string& path,
                   const std::vector<ColumnFamilyDescriptor>& column_families, const OpenFunction& open,
                   std::vector<ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  DurableSettings settings;
  Status s = CheckDurable(options, path, column_families, &settings);
  for (const auto& family : column_families) {
    if (s.ok() && dynamic_cast<DurableMemTableFactory&>(*family.options.memtable_factory).HasPool()) {
      s = Status::Busy("the durable memtables of column family " + family.name,
                       "serve an open database already; give each database a memtable_factory of its own");
    }
  }
  RecoveryReport report;
  std::shared_ptr<DurablePool> pool;
  if (s.ok()) s = PreparePool(options, path, settings, &report, &pool);
  if (!s.ok()) return s;
  std::vector<std::shared_ptr<rocksdb::MemTableRepFactory>> factories;
  for (const auto& family : column_families) {
    factories.push_back(family.options.memtable_factory);
    dynamic_cast<DurableMemTableFactory&>(*family.options.memtable_factory).UsePool(pool);
  }
  rocksdb::DBOptions flushing = options;
  flushing.avoid_flush_during_recovery = false;
  flushing.listeners.push_back(std::make_shared<TableListener>(pool));
  rocksdb::DB* opened = nullptr;
  s = open(flushing, handles, &opened);
  if (s.ok()) s = ArmPool(opened, *handles, pool.get());
  if (s.ok()) {
    const auto& log = opened->GetDBOptions().info_log;
    rocksdb::Info(log, "[cairn] %s", pool->file()->Report().c_str());
    const auto level = report.counts.reason.empty() ? rocksdb::INFO_LEVEL : rocksdb::WARN_LEVEL;
    rocksdb::Log(level, log, "[cairn] recovery of the pool file: %s", report.ToString().c_str());
    DurableSettings as_given;
    DurableFactoryOf(column_families[0].options, &as_given);
    *db = new DurableDB(opened, std::move(pool), as_given, std::move(factories));
    return s;
  }
  for (const auto& factory : factories) dynamic_cast<DurableMemTableFactory&>(*factory).UsePool(nullptr);
  if (opened == nullptr) return s;
  for (ColumnFamilyHandle* handle : *handles) opened->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  handles->clear();
  delete opened;
  return s;
}

}  // namespace cairn
