#include "memtable_cache/pool_owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "memtable_cache/pool_note.h"

namespace cairn {

namespace fs = std::filesystem;

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return fs::absolute(a, error).lexically_normal() == fs::absolute(b, error).lexically_normal();
}

bool LiesIn(const std::string& file, const std::string& directory) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(file, error);
  return !error && whole.parent_path() == fs::weakly_canonical(directory, error) && !error;
}

bool PeekSuperblock(const std::string& pool, Superblock* superblock) {
  const int fd = open(pool.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  Superblock copies[2];
  bool valid[2];
  for (int i = 0; i < 2; ++i) {
    char bytes[kSuperblockBytes];
    valid[i] = pread(fd, bytes, sizeof(bytes), static_cast<off_t>(i * kPoolPageBytes)) == sizeof(bytes) &&
               DecodeSuperblock(bytes, &copies[i]);
  }
  close(fd);
  if (!valid[0] && !valid[1]) return false;
  *superblock = copies[!valid[0] || (valid[1] && copies[1].edition > copies[0].edition) ? 1 : 0];
  return true;
}

DatabaseDirectory DirectoryOf(const std::string& path) {
  DatabaseDirectory directory;
  std::error_code error;
  fs::path whole = fs::weakly_canonical(path, error);
  if (error) whole = fs::absolute(path, error);
  // Without the empty name behind a slash at the end.
  directory.path = (whole.has_filename() ? whole : whole.parent_path()).string();
  struct stat facts = {};
  if (stat(path.c_str(), &facts) == 0) {
    directory.device = facts.st_dev;
    directory.inode = facts.st_ino;
  }
  return directory;
}

bool NamesDirectory(const Superblock& superblock, const std::string& path) {
  const DatabaseDirectory& named = superblock.directory;
  if (named.path.empty()) return true;
  const DatabaseDirectory here = DirectoryOf(path);
  return named.path == here.path || (here.inode != 0 && named.inode == here.inode && named.device == here.device);
}

bool ServesAnother(rocksdb::Env* env, const Superblock& superblock, const std::string& pool, const std::string& path) {
  if (NamesDirectory(superblock, path) || LiesIn(pool, path)) return false;
  PoolNote note;
  if (!ReadPoolNote(env, superblock.directory.path, &note).ok() || note.session != superblock.session) return false;
  // The other has its own.
  Superblock other;
  return IsSameFile(note.pool, pool) || !PeekSuperblock(note.pool, &other) || other.session != superblock.session;
}

rocksdb::Status PoolOfAnother(const Superblock& superblock, const std::string& pool, const std::string& path) {
  const std::string& owner = superblock.directory.path;
  const bool holds = superblock.phase != PoolPhase::kIdle;
  return rocksdb::Status::InvalidArgument(
      pool, "is the pool file of the database in " + owner + " " +
                (holds ? "and holds writes of it that are in no table" : "which has taken the writes it held") + "; " +
                path + " is a copy that lacks them: copy " + owner + " when it is closed, or by a checkpoint; " +
                (holds ? "or copy the pool file, too, and run `cairn recover " + path + " --pool COPY`; or remove " +
                             owner + ", if this is to take its place; "
                       : "") +
                "`cairn recover --discard " + path +
                "` opens the copy without these writes, and leaves the pool file "
                "alone");
}

}  // namespace cairn
