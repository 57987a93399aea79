// The writing side of a pool file (docs/design/durable_memtable.md): what the pool tells it makes the file recoverable
// at every moment. The reading side is recovery.h.
//
// Life: Start (formats the file; nothing in it counts yet) -> the database is opened, its WALs are replayed and flushed
// -> Arm (from now on every published entry counts) -> writes -> Freeze -> the database is closed -> Finish.
//
// Invariants: those of docs/design/durable_memtable.md, cited as (1) to (11). A segment is named by the address of its
// header in the file's first mapping, or in another mapping of the same bytes.
//
// Thread-safety: AcknowledgeAll, Sync, SyncFlushMarks, Resume and the const functions may be called by all threads. Of
// the others, calls about different segments may run in parallel; those about one segment may not.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/pool_format.h"
#include "rocksdb/status.h"
#include "util/mutex.h"

namespace cairn {

class SegmentPool;

class DurablePool {
 public:
  // Takes the file, which must hold nothing to recover, gives it `bytes` (0: as it is), formats it as one free segment
  // and begins a session.
  static rocksdb::Status Start(std::unique_ptr<PmemFile> file, uint64_t bytes, std::unique_ptr<DurablePool>* pool);

  // From now on what is published counts; what is in the database by now is in tables. `database` is its id,
  // `directory` where it lies, `wal` the number of its empty WAL file; `latest` gives the last sequence of the last
  // complete write group, as GetLatestSequenceNumber does, until the pool is finished.
  rocksdb::Status Arm(const std::string& database, const DatabaseDirectory& directory, uint64_t wal,
                      std::function<uint64_t()> latest);

  // No segment will be freed any more: the database is being closed.
  void Freeze() { frozen_.store(true, std::memory_order_release); }
  // It is not, after all. Segments that were to be freed meanwhile stay until it is.
  void Thaw() { frozen_.store(false, std::memory_order_release); }

  // The database is closed, the pool frozen. If all of its memtables are in tables, nothing is left to recover.
  rocksdb::Status Finish();

  // The space for segments that Start has formatted, one free segment at first.
  char* segments() const { return file_->base() + kSegmentsOffset; }
  uint64_t segments_bytes() const { return segments_bytes_; }
  PmemFile* file() const { return file_.get(); }

  // The space for segments does not grow beyond `bytes`; 0: as far as the file system allows.
  void LimitTo(uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }
  // Maps `bytes` (a multiple of 4,096) at `at`, one free segment: of what was given back, or the file grows. NoSpace
  // when that cannot be had.
  rocksdb::Status Take(uint64_t bytes, char* at);
  // The free segment at `at`, of this size, is needed no more: its blocks go back to the file system, all but the first
  // page, in which the header stays. The caller unmaps it.
  void GiveBack(char* at, uint64_t bytes);
  bool CanGiveBack() const { return !file_->keeps_size() && !frozen_.load(std::memory_order_acquire); }
  uint64_t returned_bytes() const;
  // What cuts the segments for all sub-MemTables of the database, whichever factories they come from: what it keeps
  // free is there for each of them. Made by `make` if there is none.
  std::shared_ptr<SegmentPool> SharedCutter(const std::function<std::shared_ptr<SegmentPool>()>& make);
  // A number that no other user of this pool has, for those that count memtables on their own.
  uint64_t NextUser() { return users_.fetch_add(1) + 1; }

  // The pool could not take an entry: it lies elsewhere, and nothing that comes after it can be durable. status() says
  // so, and nothing is acknowledged, until FailureEnded has been called as often as Fail: what lay elsewhere is in
  // tables by then.
  void Fail(const rocksdb::Status& s);
  void FailureEnded();
  // Why nothing may be acknowledged: a failure as above, or a sync that failed, which stays until Resume.
  rocksdb::Status status() const;

  // Everything published before the call is safe from a loss of power when this returns OK. Calls at the same time
  // share a sync. After one has failed, this and status() return its error: nobody knows which pages the kernel gave
  // up.
  rocksdb::Status Sync() { return SyncTogether(true); }
  // After a sync that failed: writes all pages again; OK when they are safe, and the pool takes writes again.
  rocksdb::Status Resume();
  // The same as Sync for the flush marks stored so far: does nothing if they are safe. Before the MANIFEST can forget
  // the tables of flushed memtables.
  rocksdb::Status SyncFlushMarks();
  // Before the segments of a memtable are freed: what recovery would need of them is not needed any more when this
  // returns OK, because a later sync has been told of all others. Else they must not be freed.
  rocksdb::Status BeforeFree(const std::vector<char*>& segments);
  // Before a memtable is flushed: its table may be recorded only when all of its entries are safe, because recovery
  // knows a flushed memtable by them (9).
  rocksdb::Status SyncForFlush() { return SyncTogether(false); }

  struct SyncCounts {
    uint64_t asked = 0;  // calls, the pool's own included
    uint64_t syncs = 0;  // of the file
    uint64_t waiting = 0;
  };
  SyncCounts sync_counts() const;

  // Those who cut segments say how much more (or less) they have free, and whether they could not add to it.
  void CountFree(int64_t bytes, int full);
  // NoSpace if a write of about `bytes` might not find room. Cheap, if the write is small and there is room.
  rocksdb::Status CheckRoom(uint64_t bytes) const;

  // Whether a full pool could grow again by now: its file system may have got room. Then the next segment does.
  bool HasRoomAgain();

  // Cuts a free segment in two; the first has `bytes`, a multiple of 4,096. Returns the second.
  char* Split(char* segment, uint64_t bytes);
  // Makes a free segment and the free one behind it one.
  void Join(char* segment);

  // A free segment becomes one of a memtable, empty. Its tail word is {0 entries, state 0, kSegmentHeaderBytes}.
  void Claim(char* segment, uint64_t memtable, uint32_t column_family, uint32_t ordinal);
  // The segment's tail word, which the pool changes; see PackTail.
  static std::atomic<uint64_t>* TailWord(char* segment) {
    return reinterpret_cast<std::atomic<uint64_t>*>(segment + kTailWordOffset);
  }
  // The entry's `length` bytes are at `entry`, kEntryHeaderBytes behind the segment's tail: completes and persists it
  // (2). The caller then moves the tail by EntryBytes(length) and calls PersistTail.
  void FinishEntry(char* segment, char* entry, uint32_t length);
  void PersistTail(char* segment) { file_->Persist(segment + kTailWordOffset, sizeof(uint64_t)); }

  // The memtable of all these segments is in a table that the MANIFEST holds (6).
  void MarkFlushed(const std::vector<char*>& segments);
  // A live segment becomes free, unless the pool is frozen (7); whether it did.
  bool Free(char* segment);
  // The same of one that MoveHome has left, whose entries are at home.
  void FreeMoved(char* segment);

  // A free segment of `bytes` among those that tile `begin` to `begin + length`; null if there is none.
  char* TakeFree(char* begin, uint64_t length, uint64_t bytes);
  // `segment` shows what the file has where `other` lies; with itself: what it showed first.
  rocksdb::Status MapAs(char* segment, char* other, uint64_t bytes);
  // A sealed segment that MapAs has given the bytes of another: they are copied past the cache to where it was before,
  // which it shows again. The other is a copy then, still live (11). False: nothing has changed.
  bool MoveHome(char* segment, uint64_t used, uint64_t bytes);

  // Everything up to `sequence` is published, and may be acknowledged when this returns (3). To be called when a write
  // has returned OK, with the last sequence of its batch.
  void AcknowledgeUpTo(uint64_t sequence);
  // The same for all that RocksDB has published, unless Hold was called. Returns up to where; for a memtable that
  // becomes read-only (5).
  uint64_t AcknowledgeAll();
  // A batch could not be inserted to its end, yet RocksDB publishes its sequences, and stops: what it has published
  // since the last write that returned OK is never acknowledged (4).
  void Hold() { held_.store(true, std::memory_order_release); }
  // The MANIFEST holds the table of this file number: tells an older state of the database, restored since.
  // An error is one of the sync, which stays.
  rocksdb::Status NoteTable(uint64_t file_number) {
    StoreWord(kNewestTableOffset, EncodeSequenceWord(file_number));
    return SyncFlushMarks();
  }
  uint64_t published() const { return acknowledged_.load(std::memory_order_acquire); }

 private:
  DurablePool() = default;

  mutable CheckedMutex mutex_;
  CheckedMutex unsynced_mutex_;
  CheckedMutex cutter_mutex_;
  mutable CheckedMutex sync_mutex_;

  rocksdb::Status Format() CAIRN_REQUIRES(mutex_);
  rocksdb::Status ArmLocked(const std::string& database, const DatabaseDirectory& directory, uint64_t wal,
                            std::function<uint64_t()> latest) CAIRN_REQUIRES(mutex_);
  void Acknowledge(uint64_t sequence);
  bool EverythingFlushed() const CAIRN_REQUIRES(mutex_);
  // One sync at a time for all who wait. `asked`: by a client.
  rocksdb::Status SyncTogether(bool asked);
  void WaitForCompany() CAIRN_REQUIRES(sync_mutex_);
  rocksdb::Status SyncOnce(bool asked) CAIRN_EXCLUDES(mutex_, unsynced_mutex_);
  // How many there were to store. They are to be counted when the sync has returned OK; after one that failed, the next
  // stores them again, in the same places.
  uint64_t StoreSyncLines(uint64_t number);
  void CountSyncLines();
  void ClearSyncLines(char* segment);
  void TouchAllPages() CAIRN_EXCLUDES(mutex_);
  // Whether the medium keeps what was synced only.
  bool NeedsSync() const { return !file_->on_persistent_memory() && armed_.load(std::memory_order_acquire); }
  void WriteHeader(char* segment, SegmentHeader header);
  SegmentHeader HeaderOf(const char* segment) const;
  void ResetTail(char* segment);
  void FormatFree(char* segment, uint64_t bytes);
  void StoreWord(size_t offset, uint64_t encoded);

  std::unique_ptr<PmemFile> file_;
  uint64_t session_ = 0;         // of this opening
  uint64_t segments_bytes_ = 0;  // formatted by Start

  struct Region {
    uint64_t offset;  // in the file
    uint64_t bytes;
  };
  rocksdb::Status Grow(uint64_t bytes, char* at) CAIRN_REQUIRES(mutex_);
  // Bytes of the file at `offset` that were given back, `bytes` in a row; false: there are none.
  bool FindReturned(uint64_t bytes, uint64_t* offset) const CAIRN_REQUIRES(mutex_);

  rocksdb::Status CheckGrowth(uint64_t bytes) const CAIRN_REQUIRES(mutex_);

  Superblock superblock_ CAIRN_GUARDED_BY(mutex_);
  std::map<char*, Region> regions_ CAIRN_GUARDED_BY(mutex_);  // with returned_, tile the file from kSegmentsOffset on
  std::map<uint64_t, uint64_t> returned_ CAIRN_GUARDED_BY(mutex_);  // what was given back: free segments, by offset
  uint64_t returned_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
  rocksdb::Status failure_ CAIRN_GUARDED_BY(mutex_);
  int failures_ CAIRN_GUARDED_BY(mutex_) = 0;  // that have not ended
  std::atomic<bool> failed_{false};

  // What a sync still has to tell of each live segment; those that are sealed and told of are left out.
  struct Unsynced {
    uint64_t word = 0;    // of the last line that a sync has returned for
    int line = 0;         // the next to write
    uint64_t stored = 0;  // of the line that is there by now; 0: none
  };
  std::unordered_map<char*, Unsynced> unsynced_ CAIRN_GUARDED_BY(unsynced_mutex_);

  ConditionVariable sync_ended_;
  ConditionVariable sync_asked_;
  uint64_t syncs_asked_ CAIRN_GUARDED_BY(sync_mutex_) = 0;
  uint64_t syncs_covered_ CAIRN_GUARDED_BY(sync_mutex_) = 0;  // so many of those who asked
  uint64_t syncs_waiting_ CAIRN_GUARDED_BY(sync_mutex_) = 0;
  uint64_t sync_company_ CAIRN_GUARDED_BY(sync_mutex_) = 0;  // that the last sync had, with those who came meanwhile
  std::chrono::nanoseconds sync_takes_ CAIRN_GUARDED_BY(sync_mutex_){0};
  bool sync_runs_ CAIRN_GUARDED_BY(sync_mutex_) = false;
  bool client_asked_ CAIRN_GUARDED_BY(sync_mutex_) = false;
  rocksdb::Status sync_error_ CAIRN_GUARDED_BY(sync_mutex_);

  std::atomic<bool> sync_failed_{false};
  std::atomic<uint64_t> sync_number_{0};  // of the last one that was begun
  std::atomic<uint64_t> syncs_{0};
  std::atomic<uint64_t> marks_stored_{0};
  std::atomic<uint64_t> marks_synced_{0};

  std::weak_ptr<SegmentPool> cutter_ CAIRN_GUARDED_BY(cutter_mutex_);  // it keeps the pool

  std::atomic<uint64_t> limit_{0};
  std::atomic<int64_t> free_bytes_{0};
  std::atomic<int> full_users_{0};
  std::atomic<uint64_t> users_{0};
  std::function<uint64_t()> latest_;
  std::atomic<uint64_t> generations_{0};
  std::atomic<uint64_t> acknowledged_{0};
  std::atomic<bool> armed_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<bool> held_{false};
};

// The pool's tail word: a counter of entries, a state that is the pool's own business, and the offset in the segment
// behind the last entry.
constexpr int kTailBits = 24;
constexpr int kStateBits = 2;
constexpr uint64_t PackTail(uint64_t entries, uint64_t state, uint64_t tail) {
  return entries << (kTailBits + kStateBits) | state << kTailBits | tail;
}
constexpr uint64_t TailOf(uint64_t word) { return word & ((uint64_t{1} << kTailBits) - 1); }
constexpr uint64_t EntriesOf(uint64_t word) { return word >> (kTailBits + kStateBits); }
constexpr uint64_t kMaxSegmentBytes = (uint64_t{1} << kTailBits) - 1;

// Of PackTail: nothing will be added.
constexpr uint64_t kSealedState = 3;

// Rewrites the superblock of a file, both copies, the older first, each synced before anything else is written: a loss
// of power leaves one of them whole. `superblock->edition` counts up.
rocksdb::Status StoreSuperblock(PmemFile* file, Superblock* superblock);

}  // namespace cairn
