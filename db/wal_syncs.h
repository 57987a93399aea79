// With two_write_queues RocksDB's write with `sync` says that the WALs and their folder are synced, and has DBImpl::SyncWAL sync
// them then, which leaves out what is synced already. So it is OK when the folder cannot be synced, and the whole WAL may be gone
// when power fails; and with track_and_verify_wals_in_manifest the MANIFEST may name a WAL's size that it has not: the database
// does not open. Here such a write leaves all of that to SyncWAL.

#pragma once

#include <utility>

namespace rocksdb {
class DBImpl;
}  // namespace rocksdb

namespace cairn {

// While it lives, what this thread says of this database's WALs is left to SyncWAL. Null: not so.
class SyncsLater {
 public:
  explicit SyncsLater(const rocksdb::DBImpl* db) : before_(std::exchange(db_, db)) {}
  ~SyncsLater() {
    db_ = before_;
    left_ = false;
  }
  SyncsLater(const SyncsLater&) = delete;
  SyncsLater& operator=(const SyncsLater&) = delete;

  // Whether it is so, and has something to sync from now on.
  static bool Leaves(const rocksdb::DBImpl* db) { return left_ = db_ == db; }
  // Whether SyncWAL does what was left.
  static bool TakesLeft() { return std::exchange(left_, false); }

 private:
  static thread_local const rocksdb::DBImpl* db_;
  static thread_local bool left_;
  const rocksdb::DBImpl* const before_;
};

}  // namespace cairn
