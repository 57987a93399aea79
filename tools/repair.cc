#include "tools/repair.h"

#include <cairn/db.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "db/column_family.h"
#include "db/stored_seed.h"
#include "db/table_cache.h"
#include "db/version_edit.h"
#include "db/version_util.h"
#include "file/filename.h"
#include "file/sequence_file_reader.h"
#include "memtable_cache/durable_recovery.h"
#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/pool_note.h"
#include "memtable_cache/pool_owner.h"
#include "memtable_cache/pool_presence.h"
#include "memtable_cache/recovery.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/log_reporter.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/utilities/options_util.h"
#include "tools/progress.h"
#include "util/key_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr char kUnchanged[] = "nothing was changed";

// An error of the machine or its configuration, whatever RocksDB has wrapped around it.
bool IsOfTheMachine(const Status& s) {
  const std::string text = s.ToString();
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOSPC, EDQUOT, EROFS, EACCES, EPERM, EIO, ESTALE, EAGAIN}) {
    if (text.find(strerror(error)) != std::string::npos) return true;
  }
  return false;
}

// Something in the database's files may be damaged or missing.
bool MayBeDamage(const Status& s) { return (s.IsCorruption() || s.IsPathNotFound()) && !IsOfTheMachine(s); }

Status NoDamage(const std::string& path, const Status& s) {
  return Status::Aborted(
      path, "does not open, but that is no damage that a repair mends: " + s.ToString() + "; " + kUnchanged);
}

class Drops : public port::LogReporter {
 public:
  void Dropped(size_t bytes, const Status& s) override {
    bytes_ += bytes;
    if (why_.ok()) why_ = s;
  }
  uint64_t bytes() const { return bytes_; }
  const Status& why() const { return why_; }

 private:
  uint64_t bytes_ = 0;
  Status why_;
};

// Reads a file of RocksDB's log format from end to end. The first record of a MANIFEST that cannot be decoded is an
// error, too.
Status ReadLog(rocksdb::Env* env, const std::string& path, bool is_manifest, uint64_t* dropped) {
  std::unique_ptr<rocksdb::SequentialFileReader> file;
  Status s = rocksdb::SequentialFileReader::Create(env->GetFileSystem(), path, rocksdb::FileOptions(), &file, nullptr,
                                                   nullptr);
  if (!s.ok()) return s;
  Drops drops;
  rocksdb::log::Reader reader(nullptr, std::move(file), &drops, true, 0);
  rocksdb::Slice record;
  std::string scratch;
  uint64_t records = 0;
  while (s.ok() && reader.ReadRecord(&record, &scratch, rocksdb::WALRecoveryMode::kAbsoluteConsistency)) {
    ++records;
    rocksdb::VersionEdit edit;
    if (is_manifest) s = edit.DecodeFrom(record);
  }
  *dropped = drops.bytes();
  if (s.ok()) s = drops.why();
  return s.ok() && is_manifest && records == 0 ? Status::Corruption(path, "is empty") : s;
}

struct Child {
  std::string name;
  uint64_t number = 0;
};

Status FilesOfType(rocksdb::Env* env, const std::string& folder, rocksdb::FileType type, std::vector<Child>* files) {
  std::vector<std::string> names;
  const Status s = env->GetChildren(folder, &names);
  for (const std::string& name : names) {
    uint64_t number = 0;
    rocksdb::FileType found = rocksdb::kTempFile;
    if (rocksdb::ParseFileName(name, &number, &found) && found == type) files->push_back({name, number});
  }
  std::sort(files->begin(), files->end(), [](const Child& a, const Child& b) { return a.number < b.number; });
  return s;
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Status MoveToLost(rocksdb::Env* env, const std::string& path) {
  const std::string lost = FolderOf(path) + "/lost";
  const Status s = env->CreateDirIfMissing(lost);
  return s.ok() ? env->RenameFile(path, lost + "/" + NameOf(path)) : s;
}

Status CopyToLost(rocksdb::Env* env, const std::string& path) {
  const std::string lost = FolderOf(path) + "/lost";
  std::string bytes;
  Status s = env->CreateDirIfMissing(lost);
  if (s.ok()) s = rocksdb::ReadFileToString(env, path, &bytes);
  return s.ok() ? rocksdb::WriteStringToFile(env, bytes, lost + "/" + NameOf(path), /*should_sync=*/true) : s;
}

std::string WalFolder(const rocksdb::DBOptions& options, const std::string& path) {
  return options.wal_dir.empty() ? path : options.wal_dir;
}

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Opens a file as a table of any of the column families.
Status OpenTable(const rocksdb::DBOptions& options, const std::vector<ColumnFamilyDescriptor>& families,
                 const std::string& path) {
  Status first;
  for (const ColumnFamilyDescriptor& family : families) {
    rocksdb::SstFileReader reader(rocksdb::Options(options, family.options));
    const Status s = reader.Open(path);
    if (s.ok()) return s;
    if (first.ok()) first = s;
  }
  return first;
}

// Whether there is something of a database but its options, in any folder that they name.
bool HoldsSomething(rocksdb::Env* env, const std::string& path, const rocksdb::DBOptions& options,
                    const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<std::string> folders = {path, WalFolder(options, path)};
  for (const rocksdb::DbPath& one : options.db_paths) folders.push_back(one.path);
  for (const ColumnFamilyDescriptor& family : families) {
    for (const rocksdb::DbPath& one : family.options.cf_paths) folders.push_back(one.path);
  }
  for (const std::string& folder : folders) {
    std::vector<std::string> names;
    env->GetChildren(folder, &names).PermitUncheckedError();  // it may not be there
    for (const std::string& name : names) {
      uint64_t number = 0;
      rocksdb::FileType type = rocksdb::kOptionsFile;
      if (!rocksdb::ParseFileName(name, &number, &type)) continue;
      if (type == rocksdb::kCurrentFile || type == rocksdb::kDescriptorFile || type == rocksdb::kTableFile ||
          type == rocksdb::kWalFile || type == rocksdb::kBlobFile) {
        return true;
      }
    }
  }
  return false;
}

struct RepairPlan {
  RepairStep step = RepairStep::kNone;
  // For people, a line each: why it does not open, what would be done, what that loses.
  std::vector<std::string> lines;
  std::string done;  // what has been done when Do has returned: "was rebuilt from its tables and WAL"

  struct File {
    std::string path;
    uint64_t number = 0;
    int level = 0;               // tables
    uint32_t column_family = 0;  // tables
  };
  std::vector<File> files;  // damaged
  uint64_t manifest = 0;    // to which CURRENT is to point
};

class DatabaseRepair {
 public:
  // Reads the stored options and takes the database's LOCK. Busy: another process has the database open.
  static Status Begin(const std::string& path, std::unique_ptr<DatabaseRepair>* repair) {
    std::unique_ptr<DatabaseRepair> result(new DatabaseRepair(path));
    rocksdb::DBOptions& options = result->options_;
    Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &options, &result->families_);
    if (s.IsNotFound() || s.IsPathNotFound()) {
      return Status::NotFound(path, "has no OPTIONS file, which says how to read it");
    }
    if (!s.ok()) return s;
    options.create_if_missing = false;
    options.create_missing_column_families = false;
    // A file that was there before the database (cairn options --into) leaves seeds open.
    if (HasOpenSeed(result->families_)) {
      ResolveSeeds(FindStoredOrders(options, path, result->families_), nullptr, &result->families_);
    }
    PoolPresence pool;
    if (!HoldsSomething(result->env_, path, options, result->families_)) {
      s = FindPool(options, path, result->families_, &pool);
      if (s.ok() && pool.state < PoolState::kHoldsWrites) {
        return Status::NotFound(path,
                                "holds options and nothing of a database, so there is nothing to repair; open it "
                                "with these options and create_if_missing for a new one, or restore a backup");
      }
    }
    if (s.ok()) s = result->Lock();
    if (!s.ok()) return s;
    s = FindPool(options, path, result->families_, &pool);
    if (s.ok() && pool.state >= PoolState::kHoldsWrites) {
      s = pool.state == PoolState::kInUse ? CheckPool(PoolUse::kRepair, options, path, result->families_)
                                          : result->HoldPool(pool.pool);
    }
    if (s.ok()) *repair = std::move(result);
    return s;
  }

  ~DatabaseRepair() { Unlock(); }
  DatabaseRepair(const DatabaseRepair&) = delete;
  DatabaseRepair& operator=(const DatabaseRepair&) = delete;

  // Changes nothing. kNone: the database opens.
  Status Plan(RepairPlan* plan) {
    *plan = RepairPlan();
    Superblock superblock;
    if (pool_ != nullptr) {
      const Status s = ReadSuperblock(*pool_, &superblock);
      if (!s.ok()) return s;
    }
    if (superblock.repair == PoolRepair::kRebuilding) {
      return PlanToRebuild("the MANIFEST is one that an interrupted repair has begun to make", plan);
    }
    if (pool_ != nullptr && superblock.repair == PoolRepair::kNone && manifest_cut_off_) {
      return PlanToRebuild("the MANIFEST is cut off: it does not know the newest table", plan);
    }
    if (superblock.repair == PoolRepair::kRebuilt) {
      plan->step = RepairStep::kTakePool;
      plan->lines.push_back("The MANIFEST is a new one; what " + pool_->path() +
                            " holds and no table does would be written into a WAL. By that, nothing is lost.");
      plan->done = "was rebuilt from its tables and WAL, and has the writes of " + pool_->path() +
                   "; what could not be read lies in " + path_ + "/lost";
      return Status::OK();
    }
    const Status opened = TryToRead(options_);
    if (opened.ok()) return opened;
    plan->lines.push_back("It does not open: " + opened.ToString());
    if (!MayBeDamage(opened)) return NoDamage(path_, opened);
    Status s = PlanForCurrent(plan);
    if (s.ok() && plan->step == RepairStep::kNone) s = PlanForTables(plan);
    if (s.ok() && plan->step == RepairStep::kNone) s = PlanForWal(plan);
    if (s.ok() && plan->step == RepairStep::kNone) {
      s = Status::Aborted(path_, "does not open, and neither its MANIFEST, its tables nor its WAL was found damaged: " +
                                     opened.ToString() + "; " + kUnchanged);
    }
    return s;
  }

  // One step; ask Plan again afterwards whether it was enough.
  Status Do(const RepairPlan& plan) {
    // A pool file with nothing in it must not be taken for one that was forgotten.
    Status s = pool_ == nullptr ? CheckPool(PoolUse::kRepair, options_, path_, families_) : Status::OK();
    if (!s.ok()) return s;
    switch (plan.step) {
      case RepairStep::kNone:
        return s;
      case RepairStep::kPointToManifest:
        return rocksdb::SetCurrentFile(rocksdb::WriteOptions(), env_->GetFileSystem().get(), path_, plan.manifest,
                                       rocksdb::Temperature::kUnknown, nullptr);
      case RepairStep::kDropTables:
        return DropTables(plan);
      case RepairStep::kSkipRecords:
        s = SkipRecords(plan);
        break;
      case RepairStep::kRebuild:
        s = Rebuild();
        break;
      case RepairStep::kTakePool:
        s = TakePool();
        break;
    }
    const Status locked = lock_ == nullptr ? Lock() : Status::OK();
    return s.ok() ? locked : s;
  }

 private:
  using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;

  explicit DatabaseRepair(std::string path) : path_(std::move(path)) {}

  Status Lock() {
    const Status s = env_->LockFile(rocksdb::LockFileName(path_), &lock_);
    if (s.ok()) return s;
    lock_ = nullptr;
    if (IsOfTheMachine(s) && s.ToString().find(strerror(EAGAIN)) == std::string::npos) return NoDamage(path_, s);
    return Status::Busy(path_, "is open in another process; close it there first");
  }

  void Unlock() {
    if (lock_ != nullptr) env_->UnlockFile(lock_).PermitUncheckedError();
    lock_ = nullptr;
  }

  Status TryToRead(const rocksdb::DBOptions& given) const {
    rocksdb::DBOptions options = given;
    options.listeners.clear();
    const TablesOnly tables_only;
    rocksdb::DB* db = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const Status s = rocksdb::DB::OpenForReadOnly(options, path_, families_, &handles, port::Into(&db));
    if (!s.ok()) return s;
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    delete db;
    return s;
  }

  Status OpenOnce(const rocksdb::DBOptions& options) const {
    rocksdb::DB* db = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    Status s = cairn::Open(options, path_, families_, &handles, &db);
    if (!s.ok()) return s;
    for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    s = db->Close();
    delete db;
    return s;
  }

  // CURRENT names a MANIFEST that can be read, or it can be made to.
  Status PlanForCurrent(RepairPlan* plan) const {
    std::string current;
    uint64_t dropped = 0;
    Status s = rocksdb::ReadFileToString(env_, rocksdb::CurrentFileName(path_), &current);
    if (!s.ok() && !s.IsPathNotFound() && !s.IsNotFound()) return NoDamage(path_, s);
    const bool has_end = !current.empty() && current.back() == '\n';
    if (has_end) current.pop_back();
    if (has_end && current.find('/') == std::string::npos && env_->FileExists(path_ + "/" + current).ok()) {
      s = ReadLog(env_, path_ + "/" + current, true, &dropped);
      if (s.ok()) return s;
      return IsOfTheMachine(s) ? NoDamage(path_, s)
                               : PlanToRebuild(current + " is damaged (" + s.ToString() + ")", plan);
    }
    std::vector<Child> manifests;
    s = FilesOfType(env_, path_, rocksdb::kDescriptorFile, &manifests);
    if (!s.ok()) return NoDamage(path_, s);
    // Of several, one may have been half written when the machine stopped.
    if (manifests.size() == 1 && ReadLog(env_, path_ + "/" + manifests[0].name, true, &dropped).ok()) {
      plan->step = RepairStep::kPointToManifest;
      plan->manifest = manifests[0].number;
      plan->lines.push_back("The file CURRENT is damaged or missing; it is made to name " + manifests[0].name +
                            ", which is whole. By that, nothing is lost.");
      plan->done = "opens again; CURRENT names " + manifests[0].name;
      return s;
    }
    return PlanToRebuild(manifests.empty() ? "the MANIFEST is missing" : "CURRENT names no MANIFEST that is there",
                         plan);
  }

  Status PlanForTables(RepairPlan* plan) const {
    rocksdb::OfflineManifestWriter manifest(options_, path_);
    Status s = manifest.Recover(families_);
    if (!s.ok()) {
      return MayBeDamage(s) ? PlanToRebuild("the MANIFEST contradicts itself (" + s.ToString() + ")", plan)
                            : NoDamage(path_, s);
    }
    uint64_t bytes = 0;
    for (rocksdb::ColumnFamilyData* family : *manifest.Versions().GetColumnFamilySet()) {
      const rocksdb::VersionStorageInfo& version = *family->current()->storage_info();
      for (const auto& blob : version.GetBlobFiles()) {
        const std::string path =
            rocksdb::BlobFileName(port::ImmutableOptionsOf(*family).cf_paths.front().path, blob->GetBlobFileNumber());
        if (env_->FileExists(path).ok()) continue;
        return Status::NotSupported(
            path, std::string("is missing, and with it the values in it; restore a backup, ") + kUnchanged);
      }
      for (int level = 0; level < version.num_levels(); ++level) {
        for (const rocksdb::FileMetaData* table : version.LevelFiles(level)) {
          std::shared_ptr<const rocksdb::TableProperties> properties;
          s = family->table_cache()->GetTableProperties(rocksdb::FileOptions(), rocksdb::ReadOptions(),
                                                        family->internal_comparator(), *table, &properties,
                                                        port::MutableOptionsOf(*family));
          if (s.ok()) continue;
          if (!MayBeDamage(s)) return NoDamage(path_, s);
          RepairPlan::File file;
          file.number = table->fd.GetNumber();
          file.path =
              rocksdb::TableFileName(port::ImmutableOptionsOf(*family).cf_paths, file.number, table->fd.GetPathId());
          file.level = level;
          file.column_family = family->GetID();
          bytes += table->fd.GetFileSize();
          plan->lines.push_back(
              NameOf(file.path) + " of column family \"" + family->GetName() + "\", level " + std::to_string(level) +
              ", " + ShortBytes(static_cast<double>(table->fd.GetFileSize())) + ", keys " +
              KeyText(table->smallest.user_key()) + " to " + KeyText(table->largest.user_key()) + ": " + s.ToString());
          plan->files.push_back(std::move(file));
        }
      }
    }
    if (plan->files.empty()) return Status::OK();
    plan->step = RepairStep::kDropTables;
    plan->lines.push_back("The MANIFEST is whole and stays; " + Plural(plan->files.size(), "table") + " (" +
                          ShortBytes(static_cast<double>(bytes)) +
                          ") would be taken out of it. What only they hold is "
                          "lost, and older values or deleted keys that they hid may come back.");
    plan->done = "opens again without " + Plural(plan->files.size(), "table") + "; what was left of them lies in " +
                 path_ + "/lost";
    return Status::OK();
  }

  Status PlanForWal(RepairPlan* plan) const {
    rocksdb::DBOptions tolerant = options_;
    tolerant.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
    if (!TryToRead(tolerant).ok()) return Status::OK();
    const std::string folder = WalFolder(options_, path_);
    std::vector<Child> wals;
    Status s = FilesOfType(env_, folder, rocksdb::kWalFile, &wals);
    if (!s.ok()) return NoDamage(path_, s);
    for (const Child& wal : wals) {
      uint64_t dropped = 0;
      const std::string path = folder + "/" + wal.name;
      s = ReadLog(env_, path, false, &dropped);
      if (s.ok()) continue;
      if (IsOfTheMachine(s)) return NoDamage(path_, s);
      RepairPlan::File file;
      file.path = path;
      file.number = wal.number;
      plan->files.push_back(std::move(file));
      plan->lines.push_back("WAL " + wal.name + ": about " + ShortBytes(static_cast<double>(dropped)) +
                            " cannot be read: " + s.ToString());
    }
    plan->step = RepairStep::kSkipRecords;
    plan->lines.emplace_back(
        "The records of the WAL that can be read would be applied, the others left out: the writes in "
        "them are lost, and what was written later is there without them.");
    plan->done = "opens again without the damaged records of its WAL; the damaged files lie in " + folder + "/lost";
    return Status::OK();
  }

  Status PlanToRebuild(const std::string& why, RepairPlan* plan) const {
    const std::string refused = why + ", and it cannot be rebuilt: ";
    const std::string remedy = std::string("; restore a backup, ") + kUnchanged;
    std::vector<std::string> folders = {path_};
    for (const rocksdb::DbPath& folder : options_.db_paths) {
      if (folder.path != path_) folders.push_back(folder.path);
    }
    for (const ColumnFamilyDescriptor& family : families_) {
      if (family.options.cf_paths.empty()) continue;
      return Status::NotSupported(path_, refused + "column family \"" + family.name +
                                             "\" has its tables in cf_paths, where RocksDB's repair does not look" +
                                             remedy);
    }
    std::vector<Child> tables;
    std::vector<std::string> unreadable;
    for (const std::string& folder : folders) {
      std::vector<Child> here;
      std::vector<Child> blobs;
      Status s = FilesOfType(env_, folder, rocksdb::kTableFile, &here);
      if (s.ok()) s = FilesOfType(env_, folder, rocksdb::kBlobFile, &blobs);
      if (!s.ok()) return NoDamage(path_, s);
      if (!blobs.empty()) {
        return Status::NotSupported(path_, refused + "it has blob files, which RocksDB's repair forgets" + remedy);
      }
      for (const Child& table : here) {
        s = OpenTable(options_, families_, folder + "/" + table.name);
        if (!s.ok() && !MayBeDamage(s)) return NoDamage(path_, s);
        if (!s.ok()) unreadable.push_back(table.name + " cannot be read and goes to \"lost\": " + s.ToString());
      }
      tables.insert(tables.end(), here.begin(), here.end());
    }
    std::vector<Child> wals;
    const Status s = FilesOfType(env_, WalFolder(options_, path_), rocksdb::kWalFile, &wals);
    if (!s.ok()) return NoDamage(path_, s);
    plan->step = RepairStep::kRebuild;
    plan->lines.push_back(why + ".");
    plan->lines.insert(plan->lines.end(), unreadable.begin(), unreadable.end());
    plan->lines.push_back("A new MANIFEST would be made of the " + Plural(tables.size() - unreadable.size(), "table") +
                          " and " + Plural(wals.size(), "WAL file") +
                          ", all in level 0. Deleted keys, old values and dropped column families may come back, where "
                          "files of before a compaction are still there; damaged parts of the WAL and prepared "
                          "transactions are lost. Keep a copy of the directory.");
    if (pool_ != nullptr) {
      plan->lines.push_back("Of the " + Plural(pool_counts_.replayed, "write") + " in " + pool_->path() +
                            ", those that are in no table would be applied afterwards; none is lost" +
                            (pool_counts_.reason.empty() ? "." : ", but " + pool_counts_.ToString() + "."));
    }
    plan->done = "was rebuilt from its tables and WAL; what could not be read lies in " + path_ + "/lost";
    return s;
  }

  // The files are moved first: killed in between, the next repair finds the same tables missing.
  Status DropTables(const RepairPlan& plan) const {
    for (const RepairPlan::File& file : plan.files) {
      const Status s = env_->FileExists(file.path).ok() ? MoveToLost(env_, file.path) : Status::OK();
      if (!s.ok()) return s;
    }
    rocksdb::OfflineManifestWriter manifest(options_, path_);
    Status s = manifest.Recover(families_);
    std::unique_ptr<rocksdb::FSDirectory> directory;
    if (s.ok()) {
      s = env_->GetFileSystem()->NewDirectory(path_, rocksdb::IOOptions(), &directory, nullptr);
    }
    for (const RepairPlan::File& file : plan.files) {
      if (!s.ok()) return s;
      rocksdb::VersionEdit edit;
      edit.SetColumnFamily(file.column_family);
      edit.DeleteFile(file.level, file.number);
      s = manifest.LogAndApply(rocksdb::ReadOptions(), rocksdb::WriteOptions(),
                               manifest.Versions().GetColumnFamilySet()->GetColumnFamily(file.column_family), &edit,
                               directory.get());
    }
    return s;
  }

  Status SkipRecords(const RepairPlan& plan) {
    for (const RepairPlan::File& file : plan.files) {
      const Status s = CopyToLost(env_, file.path);
      if (!s.ok()) return s;
    }
    rocksdb::DBOptions tolerant = options_;
    tolerant.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
    tolerant.avoid_flush_during_recovery = false;
    Unlock();
    const Status s = OpenOnce(tolerant);
    return s.ok() ? OpenOnce(options_) : s;  // stores the options that were there before
  }

  Status HoldPool(const std::string& pool) {
    // Recovery needs the MANIFEST. Where that cannot be read, the writes follow when there is a new one.
    std::string id;
    Superblock superblock;
    PmemFileOptions file_options;
    file_options.path = pool;
    if (!PeekSuperblock(pool, &superblock)) return CheckPool(PoolUse::kRepair, options_, path_, families_);
    Status s = PmemFile::Open(file_options, &pool_);
    if (!s.ok()) return s;
    manifest_cut_off_ = IsManifestCutOff(options_, path_, *pool_);
    if (superblock.repair == PoolRepair::kNone && !manifest_cut_off_ && ReadDatabaseId(options_, path_, &id).ok()) {
      pool_.reset();
      return CheckPool(PoolUse::kRepair, options_, path_, families_);
    }
    return ExamineForRepair(options_, path_, *pool_, &pool_counts_);
  }

  Status Rebuild() {
    std::string id;
    ReadDatabaseId(options_, path_, &id).PermitUncheckedError();
    if (id.empty()) {
      rocksdb::ReadFileToString(env_, rocksdb::IdentityFileName(path_), &id).PermitUncheckedError();
      while (!id.empty() && id.back() == '\n') id.pop_back();
    }
    Status s = pool_ == nullptr ? Status::OK() : HoldForRepair(options_, path_, pool_.get());
    if (!s.ok()) return s;
    Unlock();
    {
      const TablesOnly tables_only;
      s = rocksdb::RepairDB(path_, options_, families_);
    }
    if (s.ok() && !id.empty()) s = SetIdentity(id);
    if (!s.ok()) return s;
    if (pool_ != nullptr) return NoteRebuilt(pool_.get());
    rocksdb::DBOptions options = options_;
    options.create_missing_column_families = true;  // those without a table
    s = OpenOnce(options);
    return s.ok() ? OpenOnce(options_) : s;
  }

  // May be begun again wherever it was interrupted.
  Status TakePool() {
    Superblock superblock;
    Status s = ReadSuperblock(*pool_, &superblock);
    if (s.ok()) s = SetIdentity(superblock.database);
    if (s.ok()) s = AddFamiliesOfNote();
    RecoveryReport report;
    if (s.ok()) s = RecoverAfterRepair(options_, path_, families_, pool_.get(), &report);
    if (!s.ok()) return s;
    pool_.reset();
    Unlock();
    rocksdb::DBOptions options = options_;
    options.create_missing_column_families = true;  // those that nothing had been written to
    s = OpenOnce(options);
    return s.ok() ? OpenOnce(options_) : s;
  }

  // *names: the column families that the MANIFEST knows.
  Status OpenManifest(rocksdb::OfflineManifestWriter* manifest, std::unique_ptr<rocksdb::FSDirectory>* directory,
                      std::vector<std::string>* names) const {
    Status s = rocksdb::DB::ListColumnFamilies(options_, path_, names);
    Families there;
    for (const ColumnFamilyDescriptor& family : families_) {
      if (std::find(names->begin(), names->end(), family.name) != names->end()) there.push_back(family);
    }
    if (s.ok()) s = manifest->Recover(there);
    if (s.ok()) s = env_->GetFileSystem()->NewDirectory(path_, rocksdb::IOOptions(), directory, nullptr);
    return s;
  }

  // A column family that had no table yet is in no MANIFEST that was made of tables. What the pool file holds names it
  // by its id, so it gets that again.
  Status AddFamiliesOfNote() const {
    PoolNote note;
    Status s = ReadPoolNote(env_, path_, &note);
    if (s.IsNotFound()) return Status::OK();
    std::vector<std::string> names;
    rocksdb::OfflineManifestWriter manifest(options_, path_);
    std::unique_ptr<rocksdb::FSDirectory> directory;
    if (s.ok()) s = OpenManifest(&manifest, &directory, &names);
    for (const ColumnFamilyDescriptor& family : families_) {
      if (!s.ok()) return s;
      const auto noted = std::find_if(note.families.begin(), note.families.end(),
                                      [&](const auto& one) { return one.second == family.name; });
      if (noted == note.families.end() || std::find(names.begin(), names.end(), family.name) != names.end()) continue;
      rocksdb::VersionEdit edit;
      edit.SetColumnFamily(noted->first);
      edit.AddColumnFamily(family.name);
      edit.SetComparatorName(family.options.comparator->Name());
      edit.SetPersistUserDefinedTimestamps(family.options.persist_user_defined_timestamps);
      edit.SetLogNumber(0);
      const rocksdb::Options options(options_, family.options);
      rocksdb::InstrumentedMutex mutex;
      mutex.Lock();
      s = port::AddFamilyToManifest(&manifest.Versions(), options, &edit, &mutex, directory.get());
      mutex.Unlock();
    }
    return s;
  }

  // Later entries of a MANIFEST count.
  Status SetIdentity(const std::string& id) const {
    std::string now;
    Status s = ReadDatabaseId(options_, path_, &now);
    if (!s.ok() || now == id) return s;
    std::vector<std::string> names;
    rocksdb::OfflineManifestWriter manifest(options_, path_);
    std::unique_ptr<rocksdb::FSDirectory> directory;
    s = OpenManifest(&manifest, &directory, &names);
    if (!s.ok()) return s;
    rocksdb::VersionEdit edit;
    edit.SetColumnFamily(0);
    edit.SetDBId(id);
    s = manifest.LogAndApply(rocksdb::ReadOptions(), rocksdb::WriteOptions(),
                             manifest.Versions().GetColumnFamilySet()->GetDefault(), &edit, directory.get());
    if (!s.ok()) return s;
    return rocksdb::SetIdentityFile(rocksdb::WriteOptions(), env_, path_, rocksdb::Temperature::kUnknown, id);
  }

  const std::string path_;
  rocksdb::Env* const env_ = rocksdb::Env::Default();
  rocksdb::DBOptions options_;
  Families families_;
  rocksdb::FileLock* lock_ = nullptr;
  // Of a database whose MANIFEST is damaged, when the pool file holds writes.
  std::unique_ptr<PmemFile> pool_;
  PoolCounts pool_counts_;
  bool manifest_cut_off_ = false;
};

}  // namespace

Status RepairDatabase(const std::string& path, const std::function<void(const std::string& line)>& tell,
                      const std::function<bool(RepairStep step)>& agree, std::string* what_was_done) {
  // Each step removes a cause; the same one twice is a step that did not help.
  constexpr int kMostSteps = 6;
  *what_was_done = "opens without repair; nothing was changed";
  std::unique_ptr<DatabaseRepair> repair;
  Status s = DatabaseRepair::Begin(path, &repair);
  RepairStep last = RepairStep::kNone;
  for (int i = 0; s.ok() && i < kMostSteps; ++i) {
    RepairPlan plan;
    s = repair->Plan(&plan);
    if (!s.ok() || plan.step == RepairStep::kNone) return s;
    for (const std::string& line : plan.lines) tell(line);
    if (plan.step == last) break;
    last = plan.step;
    what_was_done->clear();
    if (!agree(plan.step)) return s;
    s = repair->Do(plan);
    *what_was_done = plan.done;
  }
  return s.ok() ? Status::Aborted(path, "still does not open; restore a backup") : s;
}

}  // namespace cairn
