// What the pool file of a database's durable memtables holds, for everything that opens, reads, repairs or removes the
// database without it: a process that was killed has left acknowledged writes there that are in no table and no WAL.
//
// The pool file may lie anywhere. It is looked for where the note in the directory (pool_note.h) says, where the
// memtable factories of the caller say, and in the directory itself.
//
// Thread-safety: the functions may be called by any thread; two about one database at a time see one another as another
// process would.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memtable_cache/durable_recovery.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

enum class PoolState {
  kNone,         // no pool file, and none is missed
  kOfAnother,    // one that another database uses or waits for, outside of this one's directory
  kIdle,         // nothing of it is needed
  kHoldsWrites,  // left by a process that ended without flushing
  kUnusable,     // damaged, lost, or it does not fit the database; `why` says it
  kInUse,        // a process, perhaps this one, has the database open with it
};

struct PoolPresence {
  PoolState state = PoolState::kNone;
  std::string pool;         // path of the pool file
  uint64_t writes = 0;      // kHoldsWrites: that are in no table
  uint64_t bytes = 0;       // of their keys and values
  bool unfinished = false;  // kIdle, but its superblock does not say so yet
  uint64_t session = 0;     // of its superblock; 0 where that cannot be read
  rocksdb::Status why;      // kUnusable

  // "<pool> holds 112 writes (13520 bytes) not in any table".
  std::string ToString() const;
};

// Reads only, nothing but the directory's note and pool files; `path` is the database's directory, which need not be
// there. `families` may be empty. Errors are those of reading the note.
rocksdb::Status FindPool(const rocksdb::DBOptions& options, const std::string& path,
                         const std::vector<rocksdb::ColumnFamilyDescriptor>& families, PoolPresence* presence);

enum class PoolUse {
  kWrite,   // open for writing, without durable memtables
  kRead,    // open for reading, or as a secondary
  kRepair,  // rebuild the MANIFEST
};

// OK when the database can be used like this without its pool file. Else Busy (a process has it open) or
// InvalidArgument with the remedy. For kWrite and kRepair a pool file that holds nothing is marked so.
rocksdb::Status CheckPool(PoolUse use, const rocksdb::DBOptions& options, const std::string& path,
                          const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// OK when `pool` is the file in which the database's unflushed writes lie, or when there are none. To be called before
// `pool` is made or opened for a durable database.
rocksdb::Status CheckPoolIsNoted(rocksdb::Env* env, const std::string& path, const std::string& pool);

// Removes the database by `destroy` (rocksdb::DestroyDB), and then its pool file and note. Busy, and nothing is
// removed, when a process has the pool file open. The pool file of another database stays.
rocksdb::Status DestroyWithPool(const rocksdb::DBOptions& options, const std::string& path,
                                const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                                const std::function<rocksdb::Status()>& destroy);

// Gives up what the database's pool file holds, for good; the caller holds the database's LOCK. `pool`: the file;
// empty: the one that FindPool finds.
rocksdb::Status DiscardPool(const rocksdb::DBOptions& options, const std::string& path, const std::string& pool);

// While one lives, this thread's CheckPool is always OK: for commands that want to see the tables only.
class TablesOnly {
 public:
  TablesOnly();
  ~TablesOnly();
  TablesOnly(const TablesOnly&) = delete;
  TablesOnly& operator=(const TablesOnly&) = delete;
};

}  // namespace cairn
