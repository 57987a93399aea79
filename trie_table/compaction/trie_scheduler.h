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
//   (3) The shape is that of one Version of the column family, never an older one than before. RocksDB's events say
//       only that there may be another: a flush can leave no file, and events come late or not at all.
//   (4) What goes wrong in one column family (its compactions fail, or wait for RocksDB) delays no other.
//
// Column family states: kUnread -> kReady with the first Version; kRefused when the options do not fit together
// (nothing is compacted, the reason is logged and in the statistics).
//
// Thread-safety: safe. mutex_ guards everything but the DB, is never held while the DB's mutex or the write throttle's
// is taken, and is a leaf for callbacks from RocksDB. Functions named ...Locked are called with it; those that say so let
// go of it meanwhile, so that what they were told by reference must not be in families_ but held by a FamilyPtr.

#pragma once

#include <algorithm>
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
#include "table/written_totals.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_plan.h"
#include "trie_table/compaction/write_throttle.h"
#include "util/mutex.h"

namespace cairn {

// CompactRange of a trie in key order.
rocksdb::Status CompactTrieKeys(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                                const rocksdb::Slice* end, const TrieCompactOptions& options);

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

  void OnFlush(uint32_t column_family_id);
  void OnCompaction();  // of a column family that RocksDB compacts by itself
  void OnFilesIngested(const std::string& column_family_name);
  void OnFileDeleted(const std::string& db_path, const std::string& file_path);
  void OnRecovered();  // from a background error

  // Waits for compactions under way and forgets the DB. Idempotent.
  void Shutdown();

  // Returns when no compaction is running; none starts before as many calls of Continue.
  void Pause();
  void Continue();

  rocksdb::Status Compact(rocksdb::ColumnFamilyHandle* handle, const TrieCompactOptions& options);
  // Of a trie in key order, what has keys from `begin` to `end`; null: no limit.
  rocksdb::Status CompactKeys(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice* begin,
                              const rocksdb::Slice* end, const TrieCompactOptions& options);
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
  enum class State { kUnread, kReady, kRefused };

  // Guarded by mutex_ but for what is const.
  struct Family {
    Family(uint32_t family_id, std::string family_name, const TrieOptions& trie, const rocksdb::Comparator* comparator,
           TrieShape::LastOfAll last, uint64_t write_buffer_bytes);

    // One of them is null.
    HashPlan* hash() const { return IsInKeyOrder(plan->trie()) ? nullptr : static_cast<HashPlan*>(plan.get()); }
    KeyPlan* keys() const { return IsInKeyOrder(plan->trie()) ? static_cast<KeyPlan*>(plan.get()) : nullptr; }

    const uint32_t id;
    const std::string name;
    State state = State::kUnread;
    rocksdb::Status error;  // why it is kRefused, or the last compaction's failure
    std::unique_ptr<TriePlan> plan;
    uint64_t version = 0;   // number of the Version that the shape is of; nothing while kUnread
    bool stale = true;      // there may be a later Version
    bool automatic = true;  // disable_auto_compactions is off
    // Nothing is compacted before `retry_at_micros` (0: no waiting): after a failure, or while RocksDB is not willing.
    uint64_t retry_at_micros = 0;
    uint64_t backoff_micros = 0;
    int failures_in_a_row = 0;
    // When the last compaction was begun that RocksDB refused since DisableManualCompaction was called; 0: it takes them.
    uint64_t paused_began_micros = 0;
    std::shared_ptr<WrittenTotals> totals;
    std::map<int, uint64_t> written_bytes;  // by depth
    uint64_t running = 0;
    uint64_t finished[TrieJob::kKinds] = {};  // by TrieJob::Kind
    uint64_t failed = 0;
    uint64_t moved = 0;    // tables, unwritten
    uint64_t dropped = 0;  // tables that range deletions covered
    uint64_t scan_merges = 0;
    uint64_t scan_merged_bytes = 0;
    uint64_t pick_micros = 0;
  };
  using FamilyPtr = std::shared_ptr<Family>;

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
  uint64_t OldestSnapshot() const;
  rocksdb::Status CallCompactFiles(const FamilyPtr& family, const TrieJob& job, uint64_t* output_bytes)
      CAIRN_EXCLUDES(mutex_);
  void HandleFailureLocked(const FamilyPtr& family, const TrieJob& job, uint64_t began_micros,
                           const rocksdb::Status& status) CAIRN_REQUIRES(mutex_);
  // Why a manual compaction ends before it is done; OK: it goes on.
  rocksdb::Status EndOfManualLocked(const TrieCompactOptions& options) const CAIRN_REQUIRES(mutex_);
  // Those of numbers up to `last`. Lets go of the mutex meanwhile, as CompactContainerLocked does.
  rocksdb::Status SplitSpanningFilesLocked(const FamilyPtr& family, uint64_t last, const TrieCompactOptions& options)
      CAIRN_REQUIRES(mutex_);
  rocksdb::Status CompactKeysLocked(const FamilyPtr& family, const KeyRange* range, const TrieCompactOptions& options)
      CAIRN_REQUIRES(mutex_);
  // Tables of numbers up to `rewritten` whatever is in them.
  rocksdb::Status CompactContainerLocked(const FamilyPtr& family, const ContainerId& id, uint64_t rewritten,
                                         const TrieCompactOptions& options) CAIRN_REQUIRES(mutex_);

  // Null when the column family is no trie or is gone. They let go of the mutex meanwhile.
  FamilyPtr FamilyOfLocked(rocksdb::ColumnFamilyHandle* handle) CAIRN_REQUIRES(mutex_);
  FamilyPtr FamilyOfLocked(uint32_t id) CAIRN_REQUIRES(mutex_);
  FamilyPtr MakeFamily(rocksdb::ColumnFamilyHandle* handle) const CAIRN_EXCLUDES(mutex_);
  bool IdleLocked() const CAIRN_REQUIRES(mutex_);
  // Why compaction will not come to an end by waiting, or OK.
  // Why compactions cannot go on, as far as those say that were begun at `since_micros` or later.
  rocksdb::Status StuckLocked(uint64_t since_micros) CAIRN_REQUIRES(mutex_);
  // Brings the shape to the current Version. Lets go of the mutex meanwhile.
  rocksdb::Status FollowLocked(const FamilyPtr& family) CAIRN_REQUIRES(mutex_);
  // Of the Version, those that the shape does not hold where they are.
  static std::vector<HeldVersion::File> UnknownFiles(const Family& family, const HeldVersion& version);
  // Reads what the shape wants to know of files; with `totals`, what their records say of bytes written so far, too.
  std::vector<TrieFile> Describe(const Family& family, const HeldVersion& version,
                                 const std::vector<HeldVersion::File>& files, WrittenTotals* totals) const
      CAIRN_EXCLUDES(mutex_);
  void MirrorLocked(const FamilyPtr& family, const HeldVersion& version, const std::vector<TrieFile>& added)
      CAIRN_REQUIRES(mutex_);
  void TryAgainLocked(const FamilyPtr& family) CAIRN_REQUIRES(mutex_);  // without delay
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

  std::unique_ptr<WriteThrottle> throttle_;

  std::thread retry_thread_;
};

}  // namespace cairn
