#include "memtable_cache/durable_recovery.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "db/dbformat.h"
#include "db/log_writer.h"
#include "db/version_edit.h"
#include "db/write_batch_internal.h"
#include "file/filename.h"
#include "file/sequence_file_reader.h"
#include "file/writable_file_writer.h"
#include "memtable_cache/durable.h"
#include "memtable_cache/pool_note.h"
#include "memtable_cache/pool_owner.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/log_reporter.h"
#include "rocksdb/sst_file_reader.h"
#include "util/coding.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Records of the WAL are batches of about this many bytes.
constexpr size_t kRecordBytes = 1 << 20;

class ManifestFacts : public DatabaseFacts {
 public:
  Status Read(const rocksdb::DBOptions& options, const std::string& path) {
    const auto& fs = options.env->GetFileSystem();
    std::string current;
    Status s = rocksdb::ReadFileToString(fs.get(), rocksdb::CurrentFileName(path), &current);
    if (!s.ok()) return s;
    while (!current.empty() && current.back() == '\n') current.pop_back();
    std::unique_ptr<rocksdb::SequentialFileReader> file;
    s = rocksdb::SequentialFileReader::Create(fs, path + "/" + current, rocksdb::FileOptions(), &file, nullptr,
                                              nullptr);
    if (!s.ok()) return s;
    port::FirstFault stop;
    rocksdb::log::Reader reader(nullptr, std::move(file), &stop, true, 0);
    families_ = {0};
    Slice record;
    std::string scratch;
    std::vector<rocksdb::VersionEdit> group;
    while (s.ok() && stop.status.ok() && reader.ReadRecord(&record, &scratch)) {
      rocksdb::VersionEdit edit;
      s = edit.DecodeFrom(record);
      if (!s.ok()) break;
      // An atomic group counts when its last edit is there.
      const bool more = edit.IsInAtomicGroup() && edit.GetRemainingEntries() > 0;
      group.push_back(std::move(edit));
      if (more) continue;
      for (const auto& each : group) Apply(each);
      group.clear();
    }
    if (s.ok()) s = stop.status;
    if (s.ok() && next_file_ == 0) s = Status::Corruption(path + "/" + current, "holds no state of a database");
    if (s.ok() && database_.empty()) {
      s = rocksdb::ReadFileToString(fs.get(), rocksdb::IdentityFileName(path), &database_);
      while (!database_.empty() && database_.back() == '\n') database_.pop_back();
    }
    return s;
  }

  bool HasColumnFamily(uint32_t id) const override { return families_.count(id) != 0; }
  bool TableEndsWith(uint32_t column_family, uint64_t sequence) const override {
    const auto family = ends_.find(column_family);
    return family != ends_.end() && family->second.count(sequence) != 0;
  }
  const std::string& database() const { return database_; }
  uint64_t next_file() const { return next_file_; }

 protected:
  struct Table {
    uint64_t number = 0;
    uint32_t path = 0;
    uint64_t smallest = 0;
    uint64_t largest = 0;
  };
  bool HasTables(uint32_t family) const { return tables_.count(family) != 0; }
  const std::vector<Table>& TablesOf(uint32_t family) const { return tables_.at(family); }
  const std::string& NameOf(uint32_t family) const { return names_.at(family); }

 private:
  void Apply(const rocksdb::VersionEdit& edit) {
    const uint32_t family = edit.GetColumnFamily();
    if (edit.IsColumnFamilyAdd()) {
      families_.insert(family);
      names_[family] = edit.GetColumnFamilyName();
    }
    if (edit.IsColumnFamilyDrop()) families_.erase(family);
    if (edit.HasDbId()) database_ = edit.GetDbId();
    if (edit.HasNextFile()) next_file_ = std::max(next_file_, edit.GetNextFile());
    for (const auto& [level, table] : edit.GetNewFiles()) {
      ends_[family].insert(table.fd.smallest_seqno);
      ends_[family].insert(table.fd.largest_seqno);
      tables_[family].push_back(
          {table.fd.GetNumber(), table.fd.GetPathId(), table.fd.smallest_seqno, table.fd.largest_seqno});
    }
  }

  std::set<uint32_t> families_;
  std::map<uint32_t, std::string> names_ = {{0, rocksdb::kDefaultColumnFamilyName}};
  std::map<uint32_t, std::vector<Table>> tables_;
  std::unordered_map<uint32_t, std::unordered_set<uint64_t>> ends_;  // of tables, by column family
  std::string database_;
  uint64_t next_file_ = 0;
};

// Of a MANIFEST that a repair has made of all tables that were there, those of flushes that were never recorded
// included.
class RebuiltFacts : public ManifestFacts {
 public:
  RebuiltFacts(const rocksdb::DBOptions& options, const std::string& path,
               const std::vector<rocksdb::ColumnFamilyDescriptor>& families)
      : options_(options), families_(families), folders_(options.db_paths) {
    if (folders_.empty()) folders_.emplace_back(path, 0);
  }

  bool TablesAreInOrder() const override { return false; }
  bool TableHolds(uint32_t family, uint64_t sequence) const override {
    if (!HasTables(family)) return false;
    for (const Table& table : TablesOf(family)) {
      if (table.smallest <= sequence && sequence <= table.largest && SequencesOf(family, table).count(sequence) != 0) {
        return true;
      }
    }
    return false;
  }
  // Of the tables that had to be read.
  const Status& status() const { return status_; }

 private:
  using Sequences = std::unordered_set<uint64_t>;

  const Sequences& SequencesOf(uint32_t family, const Table& table) const {
    const auto [found, is_new] = read_.try_emplace(table.number);
    if (!is_new) return found->second;
    const Status s = ReadSequences(family, table, &found->second);
    if (status_.ok()) status_ = s;
    return found->second;
  }

  Status ReadSequences(uint32_t family, const Table& table, Sequences* sequences) const {
    const auto descriptor =
        std::find_if(families_.begin(), families_.end(), [&](const auto& one) { return one.name == NameOf(family); });
    if (descriptor == families_.end()) return Status::OK();  // dropped
    rocksdb::SstFileReader reader(rocksdb::Options(options_, descriptor->options));
    const Status s = reader.Open(rocksdb::TableFileName(folders_, table.number, table.path));
    if (!s.ok()) return s;
    const std::unique_ptr<rocksdb::Iterator> at = reader.NewTableIterator();
    for (at->SeekToFirst(); at->Valid(); at->Next()) sequences->insert(rocksdb::GetInternalKeySeqno(at->key()));
    return at->status();
  }

  const rocksdb::DBOptions& options_;
  const std::vector<rocksdb::ColumnFamilyDescriptor>& families_;
  std::vector<rocksdb::DbPath> folders_;
  mutable std::unordered_map<uint64_t, Sequences> read_;  // by file number
  mutable Status status_;
};

// Of a MANIFEST that cannot be read.
class NoFacts : public DatabaseFacts {
 public:
  bool HasColumnFamily(uint32_t /*id*/) const override { return true; }
  bool TableEndsWith(uint32_t /*column_family*/, uint64_t /*sequence*/) const override { return false; }
};

std::string WalDirectory(const rocksdb::DBOptions& options, const std::string& path) {
  return options.wal_dir.empty() ? path : options.wal_dir;
}

// Above the number of every file that is there, whatever the MANIFEST says.
Status FreeFileNumber(const rocksdb::DBOptions& options, const std::string& path, uint64_t next_file,
                      uint64_t* number) {
  *number = std::max<uint64_t>(next_file, 1);
  for (const std::string& folder : {path, WalDirectory(options, path)}) {
    std::vector<std::string> names;
    const Status s = options.env->GetChildren(folder, &names);
    if (!s.ok()) return s;
    for (const std::string& name : names) {
      uint64_t used = 0;
      rocksdb::FileType type = rocksdb::kTempFile;
      if (rocksdb::ParseFileName(name, &used, &type) && type != rocksdb::kInfoLogFile) {
        *number = std::max(*number, used + 1);
      }
    }
  }
  return Status::OK();
}

// What the WAL calls an entry of a memtable of a column family. False: it has no place there.
bool WalTypeOf(unsigned char type, char* wal_type) {
  switch (type) {
    case rocksdb::kTypeValue:
      *wal_type = rocksdb::kTypeColumnFamilyValue;
      return true;
    case rocksdb::kTypeDeletion:
      *wal_type = rocksdb::kTypeColumnFamilyDeletion;
      return true;
    case rocksdb::kTypeSingleDeletion:
      *wal_type = rocksdb::kTypeColumnFamilySingleDeletion;
      return true;
    case rocksdb::kTypeMerge:
      *wal_type = rocksdb::kTypeColumnFamilyMerge;
      return true;
    case rocksdb::kTypeBlobIndex:
      *wal_type = rocksdb::kTypeColumnFamilyBlobIndex;
      return true;
    case rocksdb::kTypeWideColumnEntity:
      *wal_type = rocksdb::kTypeColumnFamilyWideColumnEntity;
      return true;
    default:
      return false;
  }
}

// Entries of consecutive sequences as one batch of RocksDB's WAL.
class WalRecord {
 public:
  bool empty() const { return count_ == 0; }
  size_t bytes() const { return bytes_.size(); }
  bool Continues(uint64_t sequence) const { return sequence == sequence_ + count_; }

  Status Add(const PoolEntry& entry) {
    char type = 0;
    if (!WalTypeOf(entry.type, &type)) {
      return Status::NotSupported("an entry of type " + std::to_string(entry.type) + " in a pool file",
                                  "it was written by another version");
    }
    if (count_ == 0) {
      sequence_ = entry.sequence;
      bytes_.assign(rocksdb::WriteBatchInternal::kHeader, '\0');
    }
    bytes_.push_back(type);
    rocksdb::PutVarint32(&bytes_, entry.column_family);
    rocksdb::PutLengthPrefixedSlice(&bytes_, entry.key);
    const bool has_value = entry.type != rocksdb::kTypeDeletion && entry.type != rocksdb::kTypeSingleDeletion;
    if (has_value) rocksdb::PutLengthPrefixedSlice(&bytes_, entry.value);
    ++count_;
    return Status::OK();
  }

  Status WriteTo(rocksdb::log::Writer* log) {
    if (count_ == 0) return Status::OK();
    rocksdb::EncodeFixed64(bytes_.data(), sequence_);
    rocksdb::EncodeFixed32(bytes_.data() + 8, count_);
    count_ = 0;
    return log->AddRecord(rocksdb::WriteOptions(), bytes_);
  }

 private:
  std::string bytes_;
  uint64_t sequence_ = 0;
  uint32_t count_ = 0;
};

Status WriteWal(const rocksdb::DBOptions& options, const std::string& name, uint64_t number,
                const std::vector<PoolEntry>& entries) {
  std::unique_ptr<rocksdb::WritableFileWriter> file;
  Status s =
      rocksdb::WritableFileWriter::Create(options.env->GetFileSystem(), name, rocksdb::FileOptions(), &file, nullptr);
  if (!s.ok()) return s;
  rocksdb::WritableFileWriter* const writer = file.get();
  rocksdb::log::Writer log(std::move(file), number, false, true);
  WalRecord record;
  for (const PoolEntry& entry : entries) {
    if (!record.empty() && (!record.Continues(entry.sequence) || record.bytes() >= kRecordBytes)) {
      s = record.WriteTo(&log);
    }
    if (s.ok()) s = record.Add(entry);
    if (!s.ok()) return s;
  }
  s = record.WriteTo(&log);
  if (s.ok()) s = log.WriteBuffer(rocksdb::WriteOptions());
  if (s.ok()) s = writer->Sync(rocksdb::IOOptions(), true);
  return s.ok() ? Status(log.Close(rocksdb::WriteOptions())) : s;
}

Status SyncDirectory(const rocksdb::DBOptions& options, const std::string& path) {
  std::unique_ptr<rocksdb::Directory> directory;
  const Status s = options.env->NewDirectory(path, &directory);
  return s.ok() ? directory->Fsync() : s;
}

class Recovery {
 public:
  Recovery(const rocksdb::DBOptions& options, std::string path, PmemFile* file, RecoveryReport* report)
      : options_(options), path_(std::move(path)), file_(file), report_(report) {}

  // The MANIFEST is one that a repair has made.
  void AfterRepair(const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
    rebuilt_ = std::make_unique<RebuiltFacts>(options_, path_, families);
  }

  // What there is to do, doing none of it: *entries are to be replayed, unless report's wal is that of a file already
  // there.
  Status Examine(std::vector<PoolEntry>* entries) {
    *report_ = RecoveryReport();
    Status s = ReadSuperblock(*file_, &superblock_);
    if (s.IsNotFound()) return Status::OK();
    if (!s.ok() || superblock_.phase == PoolPhase::kIdle) return s;
    if (ServesAnother(options_.env, superblock_, file_->path(), path_)) {
      report_->foreign = true;
      return PoolOfAnother(superblock_, file_->path(), path_);
    }
    report_->had_work = true;
    const std::string directory = WalDirectory(options_, path_);
    if (superblock_.phase == PoolPhase::kRecovering &&
        options_.env->FileExists(rocksdb::LogFileName(directory, superblock_.recovery_wal)).ok()) {
      report_->wal = superblock_.recovery_wal;
      return s;
    }
    if (superblock_.repair != PoolRepair::kNone && rebuilt_ == nullptr) {
      return Status::InvalidArgument(file_->path(),
                                     "holds writes that wait for a repair of the database, which was "
                                     "interrupted; run `cairn repair " +
                                         path_ + "` again");
    }
    ManifestFacts& facts = rebuilt_ == nullptr ? facts_ : *rebuilt_;
    s = facts.Read(options_, path_);
    if (!s.ok()) {
      report_->foreign = true;
      return Foreign("there is no database that it could belong to (" + s.ToString() + ")");
    }
    next_file_ = facts.next_file();
    if (rebuilt_ == nullptr) s = CheckState(directory);
    if (s.ok()) s = ReadPool(*file_, superblock_, facts, entries, &report_->counts);
    return s.ok() && rebuilt_ != nullptr ? rebuilt_->status() : s;
  }

  Status Run() {
    std::vector<PoolEntry> entries;
    Status s = Examine(&entries);
    if (!s.ok() || !report_->had_work) return s;
    if (report_->wal != 0) return Finish();
    if (!entries.empty()) s = MakeWal(WalDirectory(options_, path_), entries);
    return s.ok() ? Finish() : s;
  }

 private:
  Status Foreign(const std::string& why) {
    return Status::InvalidArgument(
        file_->path(), "holds writes of database " + superblock_.database + " that are in no table, but " + why +
                           "; `cairn recover --discard` gives them up, another path makes another pool file");
  }

  Status CheckState(const std::string& directory) {
    if (facts_.database() != superblock_.database) {
      report_->foreign = true;
      return Foreign("this is database " + facts_.database());
    }
    uint64_t newest_table = 0;
    Status s = ReadNewestTable(*file_, &newest_table);
    if (!s.ok()) return s;
    // Every opening makes a WAL of its own and removes those of before.
    if (!options_.env->FileExists(rocksdb::LogFileName(directory, superblock_.session_wal)).ok()) {
      return Foreign("the database has been opened without the pool file since");
    }
    if (facts_.next_file() <= newest_table) return Foreign("the database is an earlier state, restored since");
    return Status::OK();
  }

  Status MakeWal(const std::string& directory, const std::vector<PoolEntry>& entries) {
    uint64_t number = 0;
    Status s = FreeFileNumber(options_, path_, next_file_, &number);
    if (!s.ok()) return s;
    superblock_.phase = PoolPhase::kRecovering;
    superblock_.recovery_wal = number;
    s = StoreSuperblock(file_, &superblock_);
    const std::string name = rocksdb::LogFileName(directory, number);
    const std::string unfinished = name + ".dbtmp";
    if (s.ok()) s = WriteWal(options_, unfinished, number, entries);
    if (s.ok()) s = options_.env->RenameFile(unfinished, name);
    if (s.ok()) s = SyncDirectory(options_, directory);
    if (s.ok()) report_->wal = number;
    return s;
  }

  Status Finish() {
    superblock_.phase = PoolPhase::kIdle;
    superblock_.repair = PoolRepair::kNone;
    superblock_.directory = DirectoryOf(path_);
    const Status s = StoreSuperblock(file_, &superblock_);
    return s.ok() ? NotePoolIdle(options_.env, path_) : s;
  }

  const rocksdb::DBOptions& options_;
  const std::string path_;
  PmemFile* const file_;
  RecoveryReport* const report_;
  Superblock superblock_;
  ManifestFacts facts_;
  std::unique_ptr<RebuiltFacts> rebuilt_;  // null: the MANIFEST is the one of the session
  uint64_t next_file_ = 0;
};

// The id that the file IDENTITY has; empty: there is none.
std::string StoredIdentity(const rocksdb::DBOptions& options, const std::string& path) {
  std::string id;
  rocksdb::ReadFileToString(options.env, rocksdb::IdentityFileName(path), &id).PermitUncheckedError();
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

}  // namespace

std::string RecoveryReport::ToString() const {
  if (!had_work) return "nothing to recover";
  return wal == 0 ? counts.ToString() : counts.ToString() + "; WAL " + std::to_string(wal);
}

Status RecoverPoolFile(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file,
                       RecoveryReport* report) {
  return Recovery(options, path, file, report).Run();
}

Status ExaminePoolFile(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file,
                       RecoveryReport* report) {
  std::vector<PoolEntry> entries;
  return Recovery(options, path, file, report).Examine(&entries);
}

Status ExamineForRepair(const rocksdb::DBOptions& options, const std::string& path, const PmemFile& file,
                        PoolCounts* counts) {
  Superblock superblock;
  Status s = ReadSuperblock(file, &superblock);
  if (!s.ok()) return s;
  if (ServesAnother(options.env, superblock, file.path(), path)) return PoolOfAnother(superblock, file.path(), path);
  const std::string id = StoredIdentity(options, path);
  const std::string wal = rocksdb::LogFileName(WalDirectory(options, path), superblock.session_wal);
  const bool repairing = superblock.repair != PoolRepair::kNone;
  if (!repairing && !id.empty() && id != superblock.database) {
    return Status::InvalidArgument(file.path(),
                                   "holds writes of database " + superblock.database + ", and this is database " + id);
  }
  if (!repairing && !options.env->FileExists(wal).ok()) {
    return Status::InvalidArgument(file.path(),
                                   "holds writes that are in no table, but the database has been opened "
                                   "without it since, or has lost " +
                                       wal);
  }
  std::vector<PoolEntry> entries;
  return ReadPool(file, superblock, NoFacts(), &entries, counts);
}

bool IsManifestCutOff(const rocksdb::DBOptions& options, const std::string& path, const PmemFile& file) {
  ManifestFacts facts;
  uint64_t newest = 0;
  if (!facts.Read(options, path).ok() || !ReadNewestTable(file, &newest).ok() || facts.next_file() > newest) {
    return false;
  }
  std::vector<rocksdb::DbPath> folders = options.db_paths;
  if (folders.empty()) folders.emplace_back(path, 0);
  return std::any_of(folders.begin(), folders.end(), [&](const rocksdb::DbPath& folder) {
    return options.env->FileExists(rocksdb::MakeTableFileName(folder.path, newest)).ok();
  });
}

Status HoldForRepair(const rocksdb::DBOptions& options, const std::string& path, PmemFile* file) {
  Superblock superblock;
  Status s = ReadSuperblock(*file, &superblock);
  if (!s.ok() || superblock.repair != PoolRepair::kNone) return s;
  // A WAL that an interrupted recovery has made: the file still has all of it.
  if (superblock.phase == PoolPhase::kRecovering) {
    const std::string wal = rocksdb::LogFileName(WalDirectory(options, path), superblock.recovery_wal);
    if (options.env->FileExists(wal).ok()) s = options.env->DeleteFile(wal);
    if (!s.ok()) return s;
  }
  superblock.phase = PoolPhase::kLive;
  superblock.repair = PoolRepair::kRebuilding;
  return StoreSuperblock(file, &superblock);
}

Status NoteRebuilt(PmemFile* file) {
  Superblock superblock;
  const Status s = ReadSuperblock(*file, &superblock);
  if (!s.ok()) return s;
  superblock.repair = PoolRepair::kRebuilt;
  return StoreSuperblock(file, &superblock);
}

Status RecoverAfterRepair(const rocksdb::DBOptions& options, const std::string& path,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families, PmemFile* file,
                          RecoveryReport* report) {
  Recovery recovery(options, path, file, report);
  recovery.AfterRepair(families);
  return recovery.Run();
}

Status ReadDatabaseId(const rocksdb::DBOptions& options, const std::string& path, std::string* id) {
  ManifestFacts facts;
  const Status s = facts.Read(options, path);
  *id = facts.database();
  return s;
}

Status DiscardPoolFile(PmemFile* file) {
  Superblock idle;
  Superblock old;
  for (int copy = 0; copy < 2 && file->bytes() >= kSegmentsOffset; ++copy) {
    if (DecodeSuperblock(file->base() + copy * kPoolPageBytes, &old))
      idle.edition = std::max(idle.edition, old.edition);
  }
  if (file->bytes() < kSegmentsOffset) {
    const Status s = file->Resize(kSegmentsOffset + kPoolPageBytes);
    if (!s.ok()) return s;
  }
  idle.file_bytes = file->bytes();
  return StoreSuperblock(file, &idle);
}

}  // namespace cairn
