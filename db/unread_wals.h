// What an opening does not read of a database's WALs, because it, or what is before it, is torn or damaged (as where power is lost)
// and the opening goes to where it began (kPointInTimeRecovery).
//
// Where transactions are prepared in two phases, such WALs may be kept, and read again when the database is opened next. RocksDB goes
// on behind what is torn only if the next WAL begins with the sequence number with which this one ends. For that it counts what a
// Commit in it commits, whose Prepare may be in a WAL that is gone by then; it counts keys that are in tables otherwise than others;
// and it may have read no entry at all. The database did not open any more, or lost at each opening what had been written since.
// So what an opening does not read, none ever does: it is erased.
//
// Invariants, whatever becomes of the process or of a file meanwhile:
// 1. Nothing is erased unless all that was not read is torn or damaged, or behind such. An opening may also stop at an entry that
//    it cannot apply (a merge without its operator), which another one can.
// 2. The next opening reads what this one has read. WALs are erased one by one, each at once, the newest first, because what is
//    behind something torn is read when that is gone. But the last WAL that is torn comes last: an opening is refused when
//    tables are newer than that ("SST file is ahead of WALs"), and those before it are older.
// 3. Other links to a WAL stay as they were.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace cairn {

// Of one that is needed.
struct ReadWal {
  std::string path;
  uint64_t number = 0;
  uint64_t entries = 0;    // it has read the first ones
  bool keep_size = false;  // the MANIFEST has it
};

// In the order of their numbers. Says in the log what it erases, or why it erases nothing. Such a WAL is cut; or, where that cannot be,
// it has other links or its size must stay, another file takes its place, which ends with zeros where the size must stay.
// Thread-safety: nobody writes the WALs. Errors: of the files; the database is then as it was, or as it is to be.
rocksdb::IOStatus EraseUnread(rocksdb::FileSystem* fs, const std::vector<ReadWal>& wals, rocksdb::Logger* log);

}  // namespace cairn
