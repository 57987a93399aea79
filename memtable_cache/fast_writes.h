// Writes that do not queue: into sub-MemTables, with a WAL or without (docs/design/write_path.md). What does not fit
// takes RocksDB's path, with the gate closed.
//
// Invariants
//   (1) A batch that could not be inserted to its end stops the database before it is published, and no write with a
//       later number returns OK.
//   (2) Inside the gate a writer waits for nobody who may wait for the gate.
//   (3) What a WAL is to hold is in it before any of it is in a memtable.
//
// Thread-safety: all functions, by all threads.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/dbformat.h"
#include "memtable_cache/write_gate.h"
#include "memtable_cache/write_log.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "util/mutex.h"

namespace rocksdb {
class ColumnFamilySet;
class ErrorHandler;
class FlushScheduler;
class InternalStats;
class SystemClock;
class Tracer;
class TrimHistoryScheduler;
class WriteBufferManager;
class WriteController;
}  // namespace rocksdb

namespace cairn {

class FastWrites {
 public:
  struct Logged {
    rocksdb::Status status;
    uint64_t bytes = 0;
    bool switch_due = false;  // the WALs are as large as they may be
  };

  // What of RocksDB's database it takes.
  struct Parts {
    std::atomic<uint64_t>* last_sequence;
    rocksdb::ColumnFamilySet* families;
    rocksdb::ErrorHandler* errors;
    const rocksdb::WriteController* controller;
    rocksdb::WriteBufferManager* buffers;
    rocksdb::FlushScheduler* flushes;
    rocksdb::TrimHistoryScheduler* trims;
    rocksdb::InternalStats* counts;
    rocksdb::Statistics* statistics;
    rocksdb::SystemClock* clock;
    std::atomic<bool>* has_unpersisted_data;
    const uint64_t* wal;  // the number of the newest one, which does not change while a writer is in
    const std::unique_ptr<rocksdb::Tracer>* tracer;
    // A batch could not be inserted.
    std::function<void(const rocksdb::Status&)> stop;
    // Writes a record to the WAL; an error stops the database. Null: what is logged queues.
    std::function<Logged(const rocksdb::WriteBatch& record)> log;
  };

  // Why a write took RocksDB's path.
  enum Reason : size_t {
    kNone,
    kCall,      // a transaction, a callback, a batch with an index
    kWal,       // it is logged, and the database's options are unusual there
    kOptions,   // of the write
    kBatch,     // range deletions, markers, checksums, merges that may read; too many entries, or none
    kFamilies,  // one has come that cannot
    kHeldBack,  // writes are delayed or stopped
    kSwitch,    // a memtable is full
    kClosed,    // the gate was closed for long
    kReasons
  };

  // Null if the database cannot, or its options do not want it.
  static std::unique_ptr<FastWrites> Create(const rocksdb::DBOptions& options, bool seq_per_batch,
                                            const std::vector<rocksdb::ColumnFamilyDescriptor>& families);
  ~FastWrites();

  // Whether the options of a column family allow it.
  static bool Fits(const rocksdb::ColumnFamilyOptions& options);
  // A column family comes, before it is made.
  void Admit(const rocksdb::ColumnFamilyOptions& options) {
    if (!Fits(options)) others_.store(true);
    if (options.max_successive_merges > 0 || options.merge_operator == nullptr) QueueMerges();
  }
  // Merges take RocksDB's path from now on: inserting one may read, or fail.
  void QueueMerges() { merges_queue_.store(true); }

  // Finds by the address of any part of the database's object. Null: there is none.
  static FastWrites* Around(const void* part) { return served.load() == 0 ? nullptr : Find(part); }
  // The database's object; until the FastWrites is gone.
  void Serve(const void* object, size_t bytes);

  bool IsReady() const { return gate_.IsUsed(); }
  void Use(const Parts& parts);
  WriteGate* gate() { return &gate_; }

  // False: nothing has happened, and the write is to take RocksDB's path. `call`: what is to be said against the call
  // itself. Unless null, *sequence becomes the batch's first, and *wal the number of the WAL that has it.
  bool Write(Reason call, const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch, uint64_t* wal,
             uint64_t* sequence, rocksdb::Status* status);

  // A value, an operand of a merge, or a deletion of either kind, which has no value.
  struct Entry {
    rocksdb::ValueType type;
    uint32_t family = 0;
    rocksdb::Slice key;
    rocksdb::Slice value;
  };
  // The same for a write of one entry, which needs no batch. False is not counted: the caller tries with a batch.
  bool Write(const rocksdb::WriteOptions& options, const Entry& entry, uint64_t* sequence, rocksdb::Status* status);

  // A write has queued, and its leader has switched what was due. REQUIRES: the gate is held.
  void NoteQueued() {
    switch_due_.store(false, std::memory_order_relaxed);
    if (report_due_.load(std::memory_order_relaxed) && report_due_.exchange(false)) Report();
  }

  // Tells RocksDB's statistics what has been written since they were told: now and then, and before they are read.
  void Report() CAIRN_EXCLUDES(report_mutex_);
  // One line for people.
  std::string ToText() const;
  // Of a reason that is not kNone, as it stands in that line and in metrics.
  static const char* NameOf(Reason reason);

  struct Counts {
    uint64_t writes = 0;
    uint64_t keys = 0;
    uint64_t bytes = 0;
    uint64_t logged = 0;     // of the writes
    uint64_t log_bytes = 0;  // of the records
    uint64_t waits = 0;      // for the publication of others
    uint64_t by_others = 0;  // inserted with others' records
    std::array<uint64_t, kReasons> others{};
  };
  Counts counts() const;
  WriteGate::Counts gate_counts() const { return gate_.counts(); }

 private:
  FastWrites() = default;
  class Inserter;

  static FastWrites* Find(const void* part);
  Reason Against(const rocksdb::WriteOptions& options) const;
  Reason Against(const rocksdb::WriteBatch& batch) const;
  Reason AgainstState() const;
  Reason AgainstOpening() const;  // REQUIRES: the gate is closed, and nobody holds it
  // Calls try_enter() until it returns the first number: that, or 0 and why not.
  template <class TryEnter>
  uint64_t Enter(const rocksdb::WriteOptions& options, const TryEnter& try_enter, Reason* reason);
  // Enters, has it logged and inserted, publishes and counts; false: why not. REQUIRES: *status is OK.
  template <class What>
  bool Run(const rocksdb::WriteOptions& options, const What& what, uint64_t* wal, uint64_t* sequence,
           rocksdb::Status* status, Reason* reason);
  class Batch;
  class Single;
  template <class What>
  rocksdb::Status Insert(bool ignore_missing_families, const What& what, uint64_t first);
  rocksdb::Status WriteRecord(const rocksdb::WriteBatch& record);
  // Inserts a record, unless it could not be logged, and publishes it.
  rocksdb::Status ApplyRecord(rocksdb::WriteBatch* record, bool ignore_missing_families, const rocksdb::Status& logged);
  void StopAt(uint64_t first);

  static std::atomic<int> served;

  WriteGate gate_;
  WriteLog log_;
  Parts parts_{};
  std::atomic<bool> switch_due_{false};
  std::atomic<bool> report_due_{false};
  std::atomic<bool> others_{false};
  std::atomic<bool> merges_queue_{false};
  std::atomic<uint64_t> failed_at_{UINT64_MAX};
  std::atomic<uint64_t> impatience_{0};  // so many writes do not wait at a closed gate

  // Each thread counts in one of its own, those that come late in the last one together.
  static constexpr size_t kLanes = 64;
  struct alignas(64) Lane {
    std::atomic<uint64_t> writes{0}, keys{0}, bytes{0}, logged{0}, log_bytes{0}, waits{0}, by_others{0};
    std::array<std::atomic<uint64_t>, kReasons> others{};
  };
  struct Thread;
  static const Thread& OwnThread();
  Lane* LaneOf(const Thread& thread);
  std::array<Lane, kLanes> lanes_;
  CheckedMutex report_mutex_;
  Counts reported_ CAIRN_GUARDED_BY(report_mutex_);
};

}  // namespace cairn
