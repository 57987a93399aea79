#include "memtable_cache/pool_presence.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "memtable_cache/durable_factory.h"
#include "memtable_cache/durable_writes.h"
#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/pool_format.h"
#include "memtable_cache/pool_note.h"
#include "memtable_cache/pool_owner.h"
#include "memtable_cache/recovery.h"
#include "rocksdb/env.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

namespace fs = std::filesystem;

thread_local int tables_only = 0;

rocksdb::Env* EnvOf(const rocksdb::DBOptions& options) {
  return options.env != nullptr ? options.env : rocksdb::Env::Default();
}

// Whether where superblocks lie is nothing but zeros: somebody made the file anew.
bool IsEmptyPool(const std::string& pool) {
  const int fd = open(pool.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::string bytes(2 * kPoolPageBytes, '\0');
  const ssize_t length = pread(fd, bytes.data(), bytes.size(), 0);
  close(fd);
  return length >= 0 && bytes.find_first_not_of('\0') == std::string::npos;
}

// The id of the database in a directory; empty: there is none.
std::string DatabaseIn(const rocksdb::DBOptions& options, const std::string& path) {
  std::string id;
  return ReadDatabaseId(options, path, &id).ok() ? id : std::string();
}

std::string Discard(const std::string& path) { return "; `cairn recover --discard " + path + "` gives them up"; }

// Looks at one file that may be the pool of the database in `path`.
class Inspection {
 public:
  Inspection(const rocksdb::DBOptions& options, const std::string& path, const PoolNote& note)
      : options_(options), path_(path), note_(note) {}

  PoolPresence Of(const std::string& pool) {
    found_ = PoolPresence();
    found_.pool = pool;
    expected_ = note_.live && IsSameFile(pool, note_.pool);
    std::unique_ptr<PmemFile> file;
    const Status s = PmemFile::OpenForReading(pool, &file);
    if (s.IsNotFound()) {
      if (expected_)
        Unusable(Status::InvalidArgument(pool, "held writes that are in no table, and is gone" + Discard(path_)));
    } else if (s.IsBusy()) {
      OfOwner();
    } else if (!s.ok() && IsSameFile(pool, note_.pool) && !note_.live) {
      found_.state = PoolState::kIdle;  // somebody else's, who may not read it
    } else if (!s.ok()) {
      Unusable(Status::IOError(pool, "is the pool file of a durable database and cannot be read: " + s.ToString()));
    } else {
      Read(file.get());
    }
    return found_;
  }

 private:
  void Unusable(const Status& why) {
    found_.state = PoolState::kUnusable;
    found_.why = why;
  }

  // Some process has it open.
  void OfOwner() {
    Superblock superblock;
    found_.state = PoolState::kInUse;
    if (!PeekSuperblock(found_.pool, &superblock)) return;
    found_.session = superblock.session;
    if (ServesAnother(options_.env, superblock, found_.pool, path_)) return OfOriginal(superblock);
    if (superblock.database.empty() || superblock.database == DatabaseIn(options_, path_)) return;
    Elsewhere("it serves database " + superblock.database + " now");
  }

  // The file belongs to another database. It is nothing to this one, unless it is where its own writes should be.
  void Elsewhere(const std::string& why) {
    found_.state = PoolState::kOfAnother;
    if (expected_)
      Unusable(Status::InvalidArgument(found_.pool, "held writes that are in no table, but " + why + Discard(path_)));
  }

  // This database is a copy of the one that the file belongs to.
  void OfOriginal(const Superblock& superblock) {
    found_.state = PoolState::kOfAnother;
    if (expected_) Unusable(PoolOfAnother(superblock, found_.pool, path_));
  }

  void Read(PmemFile* file) {
    Superblock superblock;
    const Status s = ReadSuperblock(*file, &superblock);
    if (s.ok()) found_.session = superblock.session;
    if (s.ok() && ServesAnother(options_.env, superblock, found_.pool, path_)) return OfOriginal(superblock);
    if (s.IsNotFound() || (s.ok() && superblock.phase == PoolPhase::kIdle)) {
      found_.state = PoolState::kIdle;
      if (expected_) {
        if (found_.session != note_.session) {
          Elsewhere(s.ok() ? "they were given up" : "is empty now");
        } else if (!NamesDirectory(superblock, path_) && !LiesIn(found_.pool, path_)) {
          OfOriginal(superblock);
        }
      } else if (!superblock.database.empty() && !LiesIn(found_.pool, path_) &&
                 superblock.database != DatabaseIn(options_, path_)) {
        found_.state = PoolState::kOfAnother;
      }
      return;
    }
    if (!s.ok()) {
      Unusable(s);
      return;
    }
    RecoveryReport report;
    const Status examined = ExaminePoolFile(options_, path_, file, &report);
    if (examined.ok()) {
      found_.writes = report.counts.replayed;
      found_.bytes = report.counts.replayed_bytes;
      found_.state = found_.writes > 0 ? PoolState::kHoldsWrites : PoolState::kIdle;
      found_.unfinished = found_.writes == 0;
    } else if (report.foreign && !LiesIn(found_.pool, path_)) {
      Elsewhere("it holds those of database " + superblock.database);
    } else {
      Unusable(examined);
    }
  }

  const rocksdb::DBOptions& options_;
  const std::string& path_;
  const PoolNote& note_;
  bool expected_ = false;  // the note says that writes lie there
  PoolPresence found_;
};

Status Recovered(const rocksdb::DBOptions& options, const std::string& path, const std::string& pool) {
  PmemFileOptions file_options;
  file_options.path = pool;
  std::unique_ptr<PmemFile> file;
  RecoveryReport report;
  const Status s = PmemFile::Open(file_options, &file);
  return s.ok() ? RecoverPoolFile(options, path, file.get(), &report) : s;
}

std::string Purpose(PoolUse use) {
  switch (use) {
    case PoolUse::kRead:
      return "which a reader would miss";
    case PoolUse::kWrite:
      return "which an opening without durable memtables would lose";
    case PoolUse::kRepair:
      return "which a repair would lose";
  }
  return "";
}

// Unlinks the pool file that `found` describes, unless somebody has begun to use it since.
void RemovePoolFile(const PoolPresence& found) {
  struct stat facts = {};
  if (stat(found.pool.c_str(), &facts) != 0) return;
  PmemFileOptions file_options;
  file_options.path = found.pool;
  if (S_ISCHR(facts.st_mode)) {
    std::unique_ptr<PmemFile> file;
    if (PmemFile::Open(file_options, &file).ok()) DiscardPoolFile(file.get()).PermitUncheckedError();
    return;
  }
  std::unique_ptr<PmemFile> file;
  if (!PmemFile::OpenForReading(found.pool, &file).ok()) return;
  Superblock superblock;
  if (found.session != 0 && PeekSuperblock(found.pool, &superblock) && superblock.session != found.session) return;
  unlink(found.pool.c_str());
}

bool IsOurs(const PoolPresence& found, const std::string& path) {
  switch (found.state) {
    case PoolState::kIdle:
    case PoolState::kHoldsWrites:
      return true;
    case PoolState::kUnusable:
      return LiesIn(found.pool, path);
    default:
      return false;
  }
}

}  // namespace

std::string PoolPresence::ToString() const {
  switch (state) {
    case PoolState::kNone:
      return "no pool file";
    case PoolState::kOfAnother:
      return pool + " is the pool file of another database";
    case PoolState::kIdle:
      return pool + " holds nothing";
    case PoolState::kHoldsWrites:
      return pool + " holds " + std::to_string(writes) + (writes == 1 ? " write (" : " writes (") +
             std::to_string(bytes) + " bytes) not in any table";
    case PoolState::kUnusable:
      return why.ToString();
    case PoolState::kInUse:
      return pool + " is in use: a process has the database open with durable memtables";
  }
  return "";
}

Status FindPool(const rocksdb::DBOptions& given, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families, PoolPresence* presence) {
  rocksdb::DBOptions options = given;
  options.env = EnvOf(given);
  *presence = PoolPresence();
  PoolNote note;
  const Status s = ReadPoolNote(options.env, path, &note);
  if (s.IsCorruption()) {
    presence->state = PoolState::kUnusable;
    presence->pool = path + "/" + kPoolNoteName;
    presence->why =
        Status::Corruption(presence->pool, "is damaged: where the pool file lies is not known; `cairn recover " + path +
                                               " --pool FILE` brings its writes back" + Discard(path));
    return Status::OK();
  }
  if (!s.ok() && !s.IsNotFound()) return s;
  std::vector<std::string> candidates;
  const auto add = [&candidates](const std::string& file) {
    for (const std::string& known : candidates) {
      if (IsSameFile(known, file)) return;
    }
    candidates.push_back(file);
  };
  if (s.ok()) add(note.pool);
  add(path + "/" + kPoolFileName);
  for (const auto& family : families) {
    DurableSettings settings;
    if (GetDurableSettings(family.options, &settings) && !settings.path.empty()) add(settings.path);
  }
  // A pool file that was moved is known by its session.
  Superblock superblock;
  std::error_code error;
  for (size_t i = 0; note.live && !fs::exists(note.pool, error) && i < candidates.size(); ++i) {
    if (PeekSuperblock(candidates[i], &superblock) && superblock.session == note.session) note.pool = candidates[i];
  }
  // The worst of what is found counts.
  Inspection inspection(options, path, note);
  for (const std::string& candidate : candidates) {
    PoolPresence found = inspection.Of(candidate);
    if (found.state > presence->state) *presence = std::move(found);
  }
  return s.IsNotFound() ? Status::OK() : s;
}

Status CheckPool(PoolUse use, const rocksdb::DBOptions& given, const std::string& path,
                 const std::vector<ColumnFamilyDescriptor>& families) {
  if (tables_only > 0) return Status::OK();
  PoolPresence found;
  const Status s = FindPool(given, path, families, &found);
  if (!s.ok()) return s;
  switch (found.state) {
    case PoolState::kInUse:
      return Status::Busy(path, "is open with durable memtables: acknowledged writes lie in " + found.pool +
                                    " only; ask the process that has it open, or close it there first");
    case PoolState::kHoldsWrites:
      return Status::InvalidArgument(path, found.ToString() + ", " + Purpose(use) + "; `cairn recover " + path +
                                               "` brings them back, as an opening with durable memtables does" +
                                               Discard(path));
    case PoolState::kUnusable:
      return found.why;
    case PoolState::kIdle: {
      if (!found.unfinished || use == PoolUse::kRead) return s;
      rocksdb::DBOptions options = given;
      options.env = EnvOf(given);
      return Recovered(options, path, found.pool);
    }
    default:
      return s;
  }
}

Status CheckPoolIsNoted(rocksdb::Env* env, const std::string& path, const std::string& pool) {
  Superblock superblock;
  std::error_code error;
  const bool readable = fs::is_regular_file(pool, error) && PeekSuperblock(pool, &superblock);
  if (readable && superblock.phase != PoolPhase::kIdle && ServesAnother(env, superblock, pool, path)) {
    return PoolOfAnother(superblock, pool, path);
  }
  PoolNote note;
  Status s = ReadPoolNote(env, path, &note);
  if (s.IsNotFound() || (s.ok() && !note.live)) return Status::OK();
  if (!s.ok()) return s;
  const bool is_noted = IsSameFile(note.pool, pool);
  const bool has_session = readable && superblock.session == note.session;
  if (has_session && superblock.phase == PoolPhase::kIdle && !NamesDirectory(superblock, path) && !LiesIn(pool, path)) {
    return PoolOfAnother(superblock, pool, path);
  }
  Superblock noted;
  const bool noted_has_session = !is_noted && fs::is_regular_file(note.pool, error) &&
                                 PeekSuperblock(note.pool, &noted) && noted.session == note.session;
  // Moved, perhaps; but not if the file is where the note says: then the database is a copy, and `pool` the original's.
  if (has_session && !noted_has_session) return Status::OK();
  if (!is_noted) {
    return Status::InvalidArgument(path, "has writes in the pool file " + note.pool + ", not in " + pool +
                                             ": set pool_file to it, or use `cairn recover " + path + "` first");
  }
  if (!fs::exists(pool, error)) {
    return Status::InvalidArgument(pool, "held writes that are in no table, and is gone" + Discard(path));
  }
  if (readable) {
    return Status::InvalidArgument(pool, "held writes that are in no table, and has others now" + Discard(path));
  }
  // What recovery finds wrong with a damaged file, it says; an empty one it would take for new.
  if (fs::is_regular_file(pool, error) && IsEmptyPool(pool)) {
    return Status::InvalidArgument(pool, "held writes that are in no table, and is empty now" + Discard(path));
  }
  return Status::OK();
}

Status DestroyWithPool(const rocksdb::DBOptions& given, const std::string& path,
                       const std::vector<ColumnFamilyDescriptor>& families, const std::function<Status()>& destroy) {
  PoolPresence found;
  Status s = FindPool(given, path, families, &found);
  if (!s.ok()) return s;
  if (found.state == PoolState::kInUse) return CheckPool(PoolUse::kWrite, given, path, families);
  s = destroy();
  if (!s.ok() || found.state == PoolState::kNone) return s;
  rocksdb::Env* const env = EnvOf(given);
  if (IsOurs(found, path)) RemovePoolFile(found);
  PoolPresence inside;
  inside.pool = path + "/" + kPoolFileName;
  RemovePoolFile(inside);
  for (const char* suffix : {"", ".tmp"}) {
    env->DeleteFile(path + "/" + kPoolNoteName + suffix).PermitUncheckedError();
  }
  env->DeleteDir(path).PermitUncheckedError();  // if nothing else is in it, as RocksDB does
  return s;
}

Status DiscardPool(const rocksdb::DBOptions& options, const std::string& path, const std::string& pool) {
  rocksdb::Env* const env = EnvOf(options);
  std::string file_path = pool;
  PoolNote note;
  std::error_code error;
  const Status noted = ReadPoolNote(env, path, &note);
  if (pool.empty()) {
    PoolPresence found;
    const Status s = FindPool(options, path, {}, &found);
    if (!s.ok()) return s;
    if ((noted.ok() || noted.IsNotFound()) && found.state != PoolState::kOfAnother) file_path = found.pool;
  } else if (noted.ok() && note.live && !IsSameFile(pool, note.pool) && fs::exists(note.pool, error)) {
    return Status::InvalidArgument(pool, "is not the pool file of " + path + ", which is " + note.pool);
  }
  Superblock superblock;
  if (!file_path.empty() && PeekSuperblock(file_path, &superblock) &&
      (ServesAnother(env, superblock, file_path, path) ||
       (!NamesDirectory(superblock, path) && !LiesIn(file_path, path) && superblock.phase == PoolPhase::kIdle))) {
    if (!pool.empty()) {
      return Status::InvalidArgument(pool, "is the pool file of the database in " + superblock.directory.path +
                                               "; `cairn recover --discard " + superblock.directory.path +
                                               "` gives up what it holds");
    }
    file_path.clear();
  }
  Status s;
  if (!file_path.empty() && fs::exists(file_path, error) && !IsEmptyPool(file_path)) {
    PmemFileOptions file_options;
    file_options.path = file_path;
    std::unique_ptr<PmemFile> file;
    s = PmemFile::Open(file_options, &file);
    if (s.ok()) s = DiscardPoolFile(file.get());
  }
  return s.ok() ? NotePoolIdle(env, path) : s;
}

TablesOnly::TablesOnly() { ++tables_only; }
TablesOnly::~TablesOnly() { --tables_only; }

}  // namespace cairn
