// What writes of transactions have to know of each other.

#pragma once

#include <utility>

#include "rocksdb/status.h"
#include "rocksdb/write_batch.h"

namespace rocksdb {
class DBImpl;
}  // namespace rocksdb

namespace cairn {

// This thread rolls a transaction of a database back; a listener of that may write to another one.
//
// With two write queues RocksDB does it in two steps where it is written before it commits (WRITE_PREPARED, WRITE_UNPREPARED):
// the second one only counts what the first has written. Refused then by a database that has stopped meanwhile, the
// rollback would be neither there nor not there, and would lead compactions astray.
class RollbackScope {
 public:
  explicit RollbackScope(const rocksdb::DBImpl* database) : before_(std::exchange(database_, database)) {}
  ~RollbackScope() { database_ = before_; }
  RollbackScope(const RollbackScope&) = delete;
  RollbackScope& operator=(const RollbackScope&) = delete;

  static bool IsOf(const rocksdb::DBImpl* database) { return database == database_; }

 private:
  static thread_local const rocksdb::DBImpl* database_;
  const rocksdb::DBImpl* const before_;
};

// Of a transaction that is written before it commits. RocksDB takes entities, and then knows neither how to count nor how to roll
// them back: of such a transaction that was prepared the process died at the next opening.
rocksdb::Status CheckEntities(const rocksdb::WriteBatch& batch);

}  // namespace cairn
