// Writing to a database whose memtables are durable: without a WAL, into a recovered pool file
// (docs/design/durable_memtable.md).
//
// Life: Check (the options) -> Start (recovers the pool file, gives the column families' memtable factories a pool) ->
// the database is opened -> Arm -> writes -> BeginClose -> the database is closed -> FinishClose. A DurableWrites that
// is destroyed before Arm leaves a pool file that holds nothing.
//
// Thread-safety: Write, Sync and Adopt may be called by all threads, the others by whoever opens or closes the
// database.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "memtable_cache/durable_factory.h"
#include "memtable_cache/durable_recovery.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "util/mutex.h"

namespace cairn {

// Whether the column family asks for durable memtables, and for which.
bool GetDurableSettings(const rocksdb::ColumnFamilyOptions& options, DurableSettings* settings);

// Whether any of the column families asks for durable memtables.
bool IsDurable(const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

// For an opening that only reads, and for a repair: what a WAL holds is replayed into memtables in plain memory,
// whatever database the factories serve.
void UsePlainMemory(std::vector<rocksdb::ColumnFamilyDescriptor>* families);

// The pool file that the column families share. InvalidArgument or NotSupported, with the option to change, when they
// differ or when the options rule durability out.
rocksdb::Status CheckDurable(const rocksdb::DBOptions& options, const std::string& path,
                             const std::vector<rocksdb::ColumnFamilyDescriptor>& families, DurableSettings* settings);

// That of one column family's options, at whichever door they come in.
rocksdb::Status CheckDurableFamily(const rocksdb::ColumnFamilyOptions& options, const std::string& name);

class DurableWrites {
 public:
  // What an entry takes in the pool file beyond its key and value, at most.
  static constexpr size_t kEntryOverhead = 48;

  // Checks the options, takes the database's lock while it recovers the pool file into a WAL, and starts a new session
  // of the file. Busy when another process has the database or the pool file open.
  static rocksdb::Status Start(const rocksdb::DBOptions& options, const std::string& path,
                               const std::vector<rocksdb::ColumnFamilyDescriptor>& families,
                               std::unique_ptr<DurableWrites>* writes);
  ~DurableWrites();
  DurableWrites(const DurableWrites&) = delete;
  DurableWrites& operator=(const DurableWrites&) = delete;

  // The database is open and has replayed its WALs: flushes what it has replayed, and has the pool count from now on.
  rocksdb::Status Arm(rocksdb::DBImpl* db, const std::vector<rocksdb::ColumnFamilyHandle*>& handles);

  // Calls write(options without WAL), which ends in RocksDB's WriteImpl. NoSpace or NotSupported before anything is
  // done when the pool cannot hold the batch.
  template <class WriteFunction>
  rocksdb::Status Write(rocksdb::DBImpl* db, rocksdb::WriteOptions options, rocksdb::WriteBatch* batch,
                        bool has_indexed_batch, const WriteFunction& write) {
    const bool sync = options.sync;
    rocksdb::Status s = Admit(db, batch, has_indexed_batch);
    if (!s.ok()) return s;
    options.disableWAL = true;
    options.sync = false;
    s = write(options);
    return s.ok() ? Acknowledge(db, batch, sync) : s;
  }

  // The same for one entry without a batch, of so many bytes: false, and nothing has happened, when write(options,
  // &sequence) says so or the pool has no room.
  template <class WriteFunction>
  bool WriteEntry(rocksdb::DBImpl* db, rocksdb::WriteOptions options, uint64_t bytes, const WriteFunction& write,
                  rocksdb::Status* s) {
    if (!pool_->CheckRoom(bytes + kEntryOverhead).ok()) return false;
    const bool sync = options.sync;
    options.disableWAL = true;
    options.sync = false;
    uint64_t sequence = 0;
    if (!write(options, &sequence)) return false;
    if (s->ok()) *s = AcknowledgeUpTo(db, sequence, sync);
    return true;
  }

  // Everything acknowledged is on the medium when it returns OK. An I/O error puts the database into its
  // background-error state, as a failed sync of the WAL does.
  rocksdb::Status Sync(rocksdb::DBImpl* db);

  DurablePool::SyncCounts sync_counts() const { return pool_->sync_counts(); }

  // Before RocksDB resumes: syncs what a failed sync left open. Errors as Sync.
  rocksdb::Status Resume(rocksdb::DBImpl* db);

  // A new column family's memtables join the pool. Busy when their factory serves another open database.
  rocksdb::Status Adopt(const rocksdb::ColumnFamilyDescriptor& family);

  // It has been created: its name is noted.
  void NoteFamily(uint32_t id, const std::string& name);

  // The MANIFEST holds the table. An error of the pool file is the database's, as one of Sync.
  void NoteTable(rocksdb::DBImpl* db, uint64_t file_number) {
    Checked(db, pool_->NoteTable(file_number)).PermitUncheckedError();
  }

  // RocksDB could not insert a batch to its end, and has stopped; nothing else has been written since.
  void NoteFailedInsertion() { pool_->Hold(); }

  // What the database has not flushed when it is closed stays in the pool file.
  void BeginClose() { pool_->Freeze(); }
  // The database goes on: Close was refused.
  void CancelClose() { pool_->Thaw(); }
  rocksdb::Status FinishClose();

  // While somebody has the WAL locked, nothing can be flushed, and live files lack what is in the pool.
  rocksdb::Status CheckWalUnlocked() const;
  void CountWalLock(int by) { wal_locks_.fetch_add(by); }

 private:
  DurableWrites(rocksdb::Env* env, std::string path, std::shared_ptr<DurablePool> pool, DurableSettings settings)
      : env_(env), path_(std::move(path)), pool_(std::move(pool)), settings_(std::move(settings)) {}

  rocksdb::Status Admit(rocksdb::DBImpl* db, const rocksdb::WriteBatch* batch, bool has_indexed_batch);
  rocksdb::Status MakeRoom(rocksdb::DBImpl* db, size_t bytes);
  rocksdb::Status Acknowledge(rocksdb::DBImpl* db, const rocksdb::WriteBatch* batch, bool sync);
  rocksdb::Status AcknowledgeUpTo(rocksdb::DBImpl* db, uint64_t sequence, bool sync);
  static rocksdb::Status Checked(rocksdb::DBImpl* db, const rocksdb::Status& s);
  rocksdb::Status Use(const rocksdb::ColumnFamilyDescriptor& family);

  rocksdb::Env* const env_;
  const std::string path_;  // the database's directory
  const std::shared_ptr<DurablePool> pool_;
  const DurableSettings settings_;  // as the options have them
  RecoveryReport recovery_;
  std::atomic<int> wal_locks_{0};
  CheckedMutex room_mutex_;  // one writer at a time makes room
  CheckedMutex factories_mutex_;
  std::vector<std::shared_ptr<rocksdb::MemTableRepFactory>> factories_ CAIRN_GUARDED_BY(factories_mutex_);
  CheckedMutex note_mutex_;
  std::map<uint32_t, std::string> noted_families_ CAIRN_GUARDED_BY(note_mutex_);  // by id
  bool finished_ = false;
};

}  // namespace cairn
