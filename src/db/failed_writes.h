// The end of a WAL whose last write has failed. It may be part of an entry: RocksDB reads past that in the newest WAL only; an
// older one that is still needed (it holds a prepared transaction, or what a column family has in no table) is taken to be
// damaged, and the database does not open. Or it is a whole entry, whose sync has failed: the next WAL begins with the same
// sequence number, so that DB::GetUpdatesSince gives the write that failed instead of the one that has succeeded; and who opens
// the database has it in those column families only that had not been flushed.
//
// With unordered_write a whole entry stays: RocksDB counts its sequence number as one of a write that has succeeded.
//
// Thread-safety: any thread, of a WAL that nobody writes any more. Errors: of the file; nothing of a write that has succeeded is
// lost by one.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"
#include "rocksdb/types.h"

namespace rocksdb {
class VersionSet;
}  // namespace rocksdb

namespace cairn {

inline constexpr uint64_t kNothingErased = UINT64_MAX;

// Writes zeros, which all readers skip in any wal_recovery_mode, over what lies behind the last whole entry, and over entries
// that begin beyond `last`, that of the last write that has succeeded. *from: where they begin, or kNothingErased. OK where there
// is nothing, no such file, or a file system that cannot write into a file.
rocksdb::IOStatus EraseFailedWrites(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                    rocksdb::SequenceNumber last, rocksdb::Logger* log, uint64_t* from);

// What is known of writes that have failed in the WALs of a database, which is named by its VersionSet. Thread-safe.
class FailedWrites {
 public:
  struct Range {
    uint64_t oldest_wal = UINT64_MAX;           // none has failed
    rocksdb::SequenceNumber last = UINT64_MAX;  // of the writes that have succeeded; all: not known
    bool wal_failed = false;                    // some WAL has, or its folder
  };

  // The database is about to stop, or has: a WAL, or its folder, could not be written or synced. Before it goes on all
  // memtables must be flushed, and there must be another WAL.
  void WalHasFailed(const rocksdb::VersionSet* database);
  // The database has stopped: they are in that WAL or a later one.
  void MayBeIn(const rocksdb::VersionSet* database, uint64_t wal);
  // Of a database that has stopped, when no write is under way any more, and before anything else takes sequence numbers: that
  // is the last one of a write that has succeeded. The first one counts.
  void Settle(const rocksdb::VersionSet* database, rocksdb::SequenceNumber last);
  Range Find(const rocksdb::VersionSet* database);
  // Earlier WALs were looked at.
  void AreNotBefore(const rocksdb::VersionSet* database, uint64_t wal);
  // The database goes on.
  void Clear(const rocksdb::VersionSet* database);

  // From there on; or they could not be, and count as erased all the same.
  void Erased(const rocksdb::VersionSet* database, uint64_t wal, uint64_t from);
  // Whether an entry that begins there was.
  bool IsErased(const rocksdb::VersionSet* database, uint64_t wal, uint64_t offset);

  // The database is closed.
  void Forget(const rocksdb::VersionSet* database);

 private:
  std::atomic<bool> has_erased_{false};
  std::mutex mu_;
  std::map<const rocksdb::VersionSet*, Range> failed_;
  std::map<std::pair<const rocksdb::VersionSet*, uint64_t>, uint64_t> erased_;  // from where on
};

// Of this process.
FailedWrites& AllFailedWrites();

}  // namespace cairn
