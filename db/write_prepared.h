// What is said to databases whose transactions are written before they commit.

#pragma once

#include "rocksdb/types.h"

namespace rocksdb {
class ColumnFamilySet;
class SnapshotChecker;
class SnapshotList;
}  // namespace rocksdb

namespace cairn {

// What an import finds, and leaves.
struct ImportedNumbers {
  rocksdb::SequenceNumber read = 0;    // what those read that have no snapshot
  rocksdb::SequenceNumber before = 0;  // the last that was handed out
  rocksdb::SequenceNumber newest = 0;  // of what is imported, unless all of it is older
};

// By this thread.
void NoteImported(const ImportedNumbers& numbers);

// Leaves out of what is to be compacted next the files that hold what is prepared, or was when the oldest snapshot was taken.
// REQUIRES: the DB mutex; a checker of transactions that are written before they commit.
void LeaveOutPrepared(const rocksdb::SnapshotChecker& checker, const rocksdb::SnapshotList& snapshots,
                      rocksdb::ColumnFamilySet* families);

}  // namespace cairn
