// The end of a WAL whose last write has failed. It may be part of an entry: RocksDB reads past that in the newest WAL only; an
// older one that is still needed (it holds a prepared transaction, or what a column family has in no table) is taken to be
// damaged, and the database does not open. Or it is a whole entry, whose sync has failed: the next WAL begins with the same
// sequence number, so that DB::GetUpdatesSince gives the write that failed instead of the one that has succeeded; and who opens
// the database has it in those column families only that had not been flushed.
//
// Such entries are known by their sequence numbers, and by where they begin: in two phases they have none of their own (a Prepare,
// a Commit or a Rollback), and with unordered_write RocksDB counts them as those of writes that have succeeded. One behind which
// others have succeeded stays: with two_write_queues or unordered_write, where some writes are synced, and others are not.
//
// Thread-safety: any thread, of a WAL that nobody writes any more. Errors: of the file; nothing of a write that has succeeded is
// lost by one.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"
#include "rocksdb/types.h"

namespace rocksdb {
class VersionSet;
}  // namespace rocksdb

namespace cairn {

inline constexpr uint64_t kNothingErased = UINT64_MAX;

// Of a file, or of its folder.
inline bool IsGone(const rocksdb::IOStatus& s) { return s.IsNotFound() || s.IsPathNotFound(); }

// An entry of a WAL is the first that begins there or behind.
struct WalPlace {
  uint64_t wal = 0;
  uint64_t offset = 0;
};

// The entry that the write of this thread has in a WAL, for whoever hears on the same thread that the write has failed.
class WrittenEntry {
 public:
  // A write to that database begins, be it by a listener of another one. Null: one begins whose entries nobody asks for.
  explicit WrittenEntry(const rocksdb::VersionSet* database)
      : database_before_(std::exchange(database_, database)), before_(std::exchange(place_, WalPlace())) {}
  ~WrittenEntry() {
    database_ = database_before_;
    place_ = before_;
  }
  WrittenEntry(const WrittenEntry&) = delete;
  WrittenEntry& operator=(const WrittenEntry&) = delete;

  static void BeginsAt(const WalPlace& place) {
    if (database_ != nullptr) place_ = place;
  }
  // Whether this thread writes to that database.
  static bool IsOf(const rocksdb::VersionSet* database) { return database == database_; }
  // Of WAL 0: there is none of that database.
  static WalPlace Find(const rocksdb::VersionSet* database) { return database == database_ ? place_ : WalPlace(); }

 private:
  static thread_local const rocksdb::VersionSet* database_;
  static thread_local WalPlace place_;
  const rocksdb::VersionSet* const database_before_;
  const WalPlace before_;
};

// Writes zeros, which all readers skip in any wal_recovery_mode, over what lies behind the last whole entry, and over entries
// that have failed: those that begin beyond `last`, the sequence number of the last write that has succeeded, and those at the
// offsets `failed`, in order. *from: where they begin, or kNothingErased. OK where there is nothing, no such file, or a file system
// that cannot write into a file.
rocksdb::IOStatus EraseFailedWrites(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                    rocksdb::SequenceNumber last, const std::vector<uint64_t>& failed,
                                    rocksdb::Logger* log, uint64_t* from);

// What is known of writes that have failed in the WALs of a database, which is named by its VersionSet. Thread-safe.
class FailedWrites {
 public:
  struct Range {
    uint64_t oldest_wal = UINT64_MAX;                // none has failed
    rocksdb::SequenceNumber last = UINT64_MAX;       // of the writes that have succeeded; all: not known
    bool wal_failed = false;                         // some WAL has, or its folder
    std::map<uint64_t, std::set<uint64_t>> offsets;  // of entries, by their WALs

    // In order.
    std::vector<uint64_t> OffsetsIn(uint64_t wal) const;
  };

  // The database is about to stop, or has: a WAL, or its folder, could not be written or synced. Before it goes on all
  // memtables must be flushed, and there must be another WAL. That is the entry of the write that has failed by it; of WAL 0:
  // there is none.
  void WalHasFailed(const rocksdb::VersionSet* database, const WalPlace& entry);
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
