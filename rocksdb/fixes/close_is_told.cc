// Without it: Close of a database waits for ever, when another thread looks for obsolete files just then and finds
// none. While that thread looks it counts as something to wait for, lets go of the DB mutex, and at its end tells
// nobody. The threads of a trie look when they let go of a Version: about one Close in 400 that comes right after an
// opening.
// Seen in: RocksDB 9.10. Needs no mending since 11.8.
// Cost: a notification of a condition variable for each look.
// Test: close_is_told_test.

#include "db/db_impl/db_impl.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/port/rocksdb_version.h"

extern "C" {
extern const int cairn_close_is_told;
const int cairn_close_is_told = 1;
}

#if !CAIRN_ROCKSDB_AT_LEAST(11, 8)

namespace cairn::rocksdb_own {

void FindObsoleteFiles(rocksdb::DBImpl* db, rocksdb::JobContext* job, bool force,
                       bool no_full_scan) asm("cairn_rocksdb_FindObsoleteFiles");

}  // namespace cairn::rocksdb_own

namespace rocksdb {

void DBImpl::FindObsoleteFiles(JobContext* job, bool force, bool no_full_scan) {
  cairn::rocksdb_own::FindObsoleteFiles(this, job, force, no_full_scan);
  if (!cairn::port::UsesCairn(immutable_db_options_)) return;
  if (pending_purge_obsolete_files_ == 0) bg_cv_.SignalAll();
}

}  // namespace rocksdb

#endif
