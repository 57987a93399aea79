// Runs the compactions of all trie column families of one open database, on RocksDB's own low-priority threads.
//
// Life
//   A scheduler is made when its DB* is first seen (cairn::Open, or the first flush after rocksdb::DB::Open) and shut
//   down when RocksDB closes the database. RocksDB has no event for closing, but Close destroys the DB's own handle of
//   the default column family after it has raised the shutdown flag and before it tears anything down, and announces
//   that to listeners without holding its mutex. There the scheduler waits for its compactions, which the flag makes
//   prompt, so by the time Close goes on, no thread of ours is in the DB or will enter it.
//
// Invariants
//   (1) Between Attach and Shutdown the DB is alive: whoever uses it is counted in users_, and Shutdown waits for zero.
//   (2) At most one compaction of a container runs at a time (Container::busy); a container may gain files meanwhile.
//   (3) A plan shows one Version of the column family, never an older one than before. RocksDB's events say
//       only that there may be another: a flush can leave no file, and events come late or not at all.
//   (4) What goes wrong in one column family (its compactions fail, or wait for RocksDB) delays no other.
//
// Thread-safety: safe. mutex_ guards everything but the DB, is never held while the DB's mutex or the write throttle's
// is taken, and is a leaf for callbacks from RocksDB. Functions named ...Locked are called with it; those that say so
// let go of it meanwhile, so that what they were told by reference must not be in families_ but held by a FamilyPtr.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/db.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/trie_family.h"
#include "trie_table/compaction/trie_plan.h"
#include "trie_table/compaction/write_throttle.h"
#include "util/mutex.h"

namespace cairn {

// A manual compaction of what has keys from *begin to *end (null: no limit). NotSupported for what has no meaning in
// the trie's order.
rocksdb::Status CompactTrieRange(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                                 const rocksdb::Slice* end, const TrieCompactOptions& options,
                                 const BlobCollection& blobs = BlobCollection());

class TrieScheduler : public std::enable_shared_from_this<TrieScheduler> {
 public:
  // The scheduler of an open database, by any pointer to it (the root DB, or a StackableDB around it); null if there is
  // none.
  static std::shared_ptr<TrieScheduler> Find(rocksdb::DB* db);
  // As Find, but makes one. REQUIRES: the call comes from the DB's user before Close, or from one of its callbacks.
  static std::shared_ptr<TrieScheduler> Attach(rocksdb::DB* db);
  // For the listener: the scheduler whose DB owns `handle` as its default handle.
  static std::shared_ptr<TrieScheduler> FindByDefaultHandle(rocksdb::ColumnFamilyHandle* handle);
  static std::vector<std::shared_ptr<TrieScheduler>> All();

  // Reads the shape of every trie column family and starts what is due. InvalidArgument when one cannot be a trie as
  // its options describe it.
  rocksdb::Status LoadAll(const std::vector<rocksdb::ColumnFamilyHandle*>& handles);

  void OnFlush(uint32_t column_family_id);  // or other options
  void OnCompaction();                      // of a column family that RocksDB compacts by itself
  void OnFilesIngested(const std::string& column_family_name);
  void OnFileDeleted(const std::string& db_path, const std::string& file_path);
  void OnRecovered();  // from a background error
  void OnSnapshotReleased(uint64_t sequence);

  // Waits for compactions under way and forgets the DB. Idempotent.
  void Shutdown();

  // Returns when no compaction is running; none starts before as many calls of Continue.
  void Pause();
  void Continue();

  // As CompactTrieRange. REQUIRES: `handle` is of a trie.
  rocksdb::Status Compact(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                          const TrieCompactOptions& options, const BlobCollection& blobs);
  // Tables with keys from *begin to *end (null: no limit), and what becomes of them, are compacted until nothing older
  // lies under them.
  rocksdb::Status Suggest(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin, const rocksdb::Slice* end);
  // The error when compactions keep failing, Incomplete when one is due but paused.
  rocksdb::Status WaitUntilIdle(uint64_t timeout_micros);
  // Whether the column family's compactions start by themselves (disable_auto_compactions); manual ones do in any case.
  void SetAutomatic(uint32_t family_id, bool automatic);

  // What runs and waits in one column family, or in all of them (kAllFamilies).
  struct Activity {
    uint64_t running = 0;  // compactions
    uint64_t due = 0;      // containers that wait for one
    uint64_t due_bytes = 0;
  };
  static constexpr uint32_t kAllFamilies = UINT32_MAX;
  Activity GetActivity(uint32_t family_id);

  // NotFound when the column family is no trie.
  rocksdb::Status GetStats(rocksdb::ColumnFamilyHandle* handle, TrieStats* stats);

  explicit TrieScheduler(rocksdb::DB* db);
  ~TrieScheduler();
  TrieScheduler(const TrieScheduler&) = delete;
  TrieScheduler& operator=(const TrieScheduler&) = delete;

 private:
  using FamilyPtr = std::shared_ptr<TrieFamily>;

  // After a conflict with another compaction.
  static constexpr uint64_t kConflictRetryMicros = 50 * 1000;
  static uint64_t NowMicros();

  static void RunScheduled(void* arg);
  static void DropScheduled(void* arg);

  bool EnterLocked() CAIRN_REQUIRES(mutex_);  // counts a user of the DB; false once Shutdown has begun
  void LeaveLocked() CAIRN_REQUIRES(mutex_);

  // Of a column family that the DB has open, else null.
  std::unique_ptr<rocksdb::ColumnFamilyHandle> HandleOf(uint32_t id) const CAIRN_EXCLUDES(mutex_);

  // Whether no automatic compaction may start. A manual one keeps others from the containers that it is compacting, and
  // from no more. Whoever ends such a time calls WakeLocked or ScheduleLocked.
  bool PausedLocked() const CAIRN_REQUIRES(mutex_);
  // Something may be due now: after every change of the shapes but those that a thread-pool item makes.
  void WakeLocked() CAIRN_REQUIRES(mutex_);
  // Keeps as many thread-pool items under way as there may be compactions, while there is work.
  void ScheduleLocked() CAIRN_REQUIRES(mutex_);
  void Work() CAIRN_EXCLUDES(mutex_);
  // Slows writers down, or lets them go, as the fullest root demands. While they are held, the retry thread calls it
  // every tenth of a second.
  void UpdateThrottle() CAIRN_EXCLUDES(mutex_);
  void UpdateThrottleLocked() CAIRN_REQUIRES(mutex_);  // lets go of the mutex meanwhile
  bool PickLocked(FamilyPtr* family, TrieJob* job) CAIRN_REQUIRES(mutex_);
  // Runs a compaction that was picked, and its bookkeeping. Lets go of the mutex meanwhile.
  rocksdb::Status RunJobLocked(const FamilyPtr& family, TrieJob job) CAIRN_REQUIRES(mutex_);
  rocksdb::Status RunJobOf(const FamilyPtr& family, const TrieJob& job, JobOutput* output) CAIRN_EXCLUDES(mutex_);
  void HandleFailureLocked(const FamilyPtr& family, const TrieJob& job, uint64_t began_micros,
                           const rocksdb::Status& status) CAIRN_REQUIRES(mutex_);
  // Why a manual compaction ends before it is done; OK: it goes on.
  rocksdb::Status EndOfManualLocked(const TrieCompactOptions& options) const CAIRN_REQUIRES(mutex_);
  // Lets go of the mutex meanwhile.
  rocksdb::Status RunManualLocked(const FamilyPtr& family, ManualPlan* manual, const TrieCompactOptions& options,
                                  const BlobCollection& blobs) CAIRN_REQUIRES(mutex_);

  // Null when the column family is no trie or is gone. They let go of the mutex meanwhile.
  FamilyPtr FamilyOfLocked(rocksdb::ColumnFamilyHandle* handle) CAIRN_REQUIRES(mutex_);
  FamilyPtr FamilyOfLocked(uint32_t id) CAIRN_REQUIRES(mutex_);
  FamilyPtr MakeFamily(rocksdb::ColumnFamilyHandle* handle) const CAIRN_EXCLUDES(mutex_);
  bool IdleLocked() const CAIRN_REQUIRES(mutex_);
  // Why compactions cannot go on, as far as those say that were begun at `since_micros` or later.
  rocksdb::Status StuckLocked(uint64_t since_micros) CAIRN_REQUIRES(mutex_);
  // Brings the plan to the current Version. Lets go of the mutex meanwhile.
  rocksdb::Status FollowLocked(const FamilyPtr& family) CAIRN_REQUIRES(mutex_);
  uint64_t AskOldestSnapshotLocked() CAIRN_REQUIRES(mutex_);
  void LookAtSnapshotsLocked(TrieFamily* family) CAIRN_REQUIRES(mutex_);
  // Reads what the plan wants to know of files; with `totals`, what their records say of bytes written so far, too.
  std::vector<TrieFile> Describe(const TrieFamily& family, const HeldVersion& version,
                                 const std::vector<HeldVersion::File>& files, WrittenTotals* totals) const
      CAIRN_EXCLUDES(mutex_);
  void RetryLaterLocked(const FamilyPtr& family, uint64_t micros) CAIRN_REQUIRES(mutex_);
  // Of the tries that may merge for scans: how many there are, and whether one wants to.
  struct ScanWatch {
    bool any = false;
    bool due = false;
  };
  ScanWatch WatchScansLocked() const CAIRN_REQUIRES(mutex_);
  // Looks after what nobody else tells of: the time at which something is tried again, writers that are held, scans.
  void RetryLoop() CAIRN_EXCLUDES(mutex_);
  void StartRetryLoopLocked() CAIRN_REQUIRES(mutex_);
  void WaitMicrosLocked(uint64_t micros) CAIRN_REQUIRES(mutex_);

  rocksdb::DB* const db_;  // the root DB
  rocksdb::Env* const env_;
  rocksdb::ColumnFamilyHandle* const default_handle_;
  const std::string path_;
  const std::string session_id_;
  std::shared_ptr<rocksdb::Logger> log_;

  CheckedMutex mutex_;
  ConditionVariable changed_;  // of anything below
  std::map<uint32_t, FamilyPtr> families_ CAIRN_GUARDED_BY(mutex_);
  bool stopping_ CAIRN_GUARDED_BY(mutex_) = false;
  int paused_ CAIRN_GUARDED_BY(mutex_) = 0;
  int manual_ CAIRN_GUARDED_BY(mutex_) = 0;  // calls of Compact under way
  int users_ CAIRN_GUARDED_BY(mutex_) = 0;
  int scheduled_ CAIRN_GUARDED_BY(mutex_) = 0;  // items in the thread pool's queue or running
  int running_ CAIRN_GUARDED_BY(mutex_) = 0;    // compactions
  int max_running_ CAIRN_GUARDED_BY(mutex_) = 1;
  // Something has happened since the last pick that found nothing. Where it is set, an item is scheduled or compactions
  // are paused: else WaitUntilIdle would wait for nobody.
  bool work_pending_ CAIRN_GUARDED_BY(mutex_) = false;
  // A plan has an AwaitedSnapshot. Asked without the mutex at each release, so what it says may be of a moment ago: of
  // a snapshot that is released while a compaction ends, the next event tells.
  std::atomic<bool> awaits_snapshot_{false};

  std::unique_ptr<WriteThrottle> throttle_;

  std::thread retry_thread_;
};

// The part of the compaction scheduler that RocksDB knows: an EventListener that brings each database's events to its
// TrieScheduler. It holds no state, so one may serve any number of databases.
//
// Option string: cairn.TrieCompaction
// Thread-safety: safe.
class TrieListener : public rocksdb::EventListener {
 public:
  static const char* kClassName() { return "cairn.TrieCompaction"; }
  const char* Name() const override { return kClassName(); }
  // Not in OPTIONS files and option strings: every opening of a trie adds it (db/opening.cc), and RocksJava's parser
  // takes no list of listeners.
  std::string GetId() const override { return std::string(); }

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnExternalFileIngested(rocksdb::DB* db, const rocksdb::ExternalFileIngestionInfo& info) override;
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override;
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override;
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;
};

}  // namespace cairn
