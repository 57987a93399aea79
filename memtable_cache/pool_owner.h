// Which database directory a pool file's writes are of. A copy of a database has its id and its note; only the
// directory that the superblock names tells which of the two they belong to.
//
// Thread-safety: safe.

#pragma once

#include <string>

#include "memtable_cache/pool_format.h"
#include "rocksdb/env.h"
#include "rocksdb/status.h"

namespace cairn {

// Whether the two paths lead to one file, or would.
bool IsSameFile(const std::string& a, const std::string& b);
// Whether the file lies in the directory itself.
bool LiesIn(const std::string& file, const std::string& directory);

// The superblock of a file that another process may be writing to; false: there is none that could be read.
bool PeekSuperblock(const std::string& pool, Superblock* superblock);

DatabaseDirectory DirectoryOf(const std::string& path);

// Whether the superblock names the directory at `path`, renamed or not, or none.
bool NamesDirectory(const Superblock& superblock, const std::string& path);

// Whether the writes in the file `pool` are those of another directory than `path`, in which their database still is.
// A pool file in the directory itself is its own, and so is a copy of that of the other.
bool ServesAnother(rocksdb::Env* env, const Superblock& superblock, const std::string& pool, const std::string& path);

// The refusal, with the remedy.
rocksdb::Status PoolOfAnother(const Superblock& superblock, const std::string& pool, const std::string& path);

}  // namespace cairn
