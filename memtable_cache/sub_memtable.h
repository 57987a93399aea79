// A memtable whose entries lie in segments of a pool. A write appends to the segment of its core and does nothing else;
// the indexes follow when somebody needs them (docs/design/sub_memtable.md):
//   - a hash of the keys, for point lookups while the memtable is written;
//   - sorted runs, for iterators while it is written;
//   - one sorted run of all entries, once it is read-only: for the flush, iterators, and lookups if there is no hash.
//
// Invariants
//   (1) An entry that was published before a lookup or an iterator began is in the index that it uses, or it is one of
//       those behind the hash that a lookup finds by their marks (segment_marks.h).
//   (2) Every index reaches every entry, superseded or not: a snapshot may need it, and the flush counts them.
//   (3) ApproximateMemoryUsage changes only while an entry is written: RocksDB adds it to a sum when nobody writes any
//       more, but before MarkReadOnly, and takes away later what it is then. What readers take shows after the next
//       write.
//   (4) A lookup waits for nobody who brings an index up to date, and adds no more than kReaderHelps entries itself.
//
// Thread-safety: as RocksDB's MemTableRep: any number of writers (each its own Allocate, then Insert) and of readers.
// Lock order: hash_mutex_ or sort_mutex_ -> segments_mutex_ -> the pool's.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "cairn/memtable.h"
#include "memtable_cache/arena_charge.h"
#include "memtable_cache/hash_index.h"
#include "memtable_cache/key_order.h"
#include "memtable_cache/segment.h"
#include "memtable_cache/segment_pool.h"
#include "memtable_cache/sorted_run.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/port/memtable_rep.h"
#include "util/mutex.h"

namespace cairn {

// The runs that an iterator goes over: all entries that were published when it was made.
using RunSet = std::vector<std::shared_ptr<const SortedRun>>;

// The runs' entries up to a tag. Where it has one entry, it has all whose writes had ended when that one's began. Runs
// alone have not: they are made of one segment after the other, while writers go from segment to segment.
struct RunView {
  std::shared_ptr<const RunSet> runs;
  uint64_t newest_tag = UINT64_MAX;
};

class SubMemTable : public port::MemTableRep {
 public:
  SubMemTable(const SubMemTableOptions& options, std::shared_ptr<SegmentPool> pool, const KeyComparator& comparator,
              rocksdb::Allocator* allocator, uint32_t column_family);
  ~SubMemTable() override;

  rocksdb::KeyHandle Allocate(size_t length, char** buffer) override;
  void Insert(rocksdb::KeyHandle handle) override;
  void InsertConcurrently(rocksdb::KeyHandle handle) override { Insert(handle); }

  bool Contains(const char* entry) const override;
  void MarkReadOnly() override;
  void MarkFlushed() override;
  void Get(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*)) override;
  // By the runs, not by the hash, whose lookups compare no order.
  rocksdb::Status GetChecked(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*),
                             bool allow_data_in_errors, const port::CheckEntry& check) override;
  uint64_t ApproximateNumEntries(const rocksdb::Slice& start, const rocksdb::Slice& end) override;
  void UniqueRandomSample(uint64_t num_entries, uint64_t target_sample_size,
                          std::unordered_set<const char*>* entries) override;
  size_t ApproximateMemoryUsage() override { return charged_.load(std::memory_order_relaxed); }
  Iterator* GetIterator(rocksdb::Arena* arena = nullptr) override;

  // Brings the runs up to date.
  std::shared_ptr<const RunSet> SortedRuns() const;
  // What a tailing iterator may show, for which no snapshot says it.
  RunView SortedView() const;
  // Whether the runs lack entries that have been published.
  bool RunsAreStale() const;
  // Whether entries may have been published that these runs, which the caller holds, do not have.
  bool HasNewerThan(const RunSet* runs) const;
  const KeyOrder& order() const { return order_; }

  // Entries that no hash has and a lookup would look for by their marks; counted until there are `enough`.
  uint64_t UnhashedEntries(uint64_t enough = UINT64_MAX) const;

  // Taken by the marks.
  size_t mark_bytes() const { return mark_bytes_.load(std::memory_order_relaxed); }

  // So many entries without a hash are few enough for a lookup to go over their marks; what is more, writers index.
  static constexpr uint64_t kMostUnhashed = uint64_t{1} << 20;
  // What a lookup adds to the hash at most.
  static constexpr size_t kReaderHelps = 256;
  static constexpr uint64_t kManyUnhashed = 64;

 private:
  mutable CheckedMutex segments_mutex_;  // of what it guards below, and of charges

  // The segment of a core; another thread of the same core may be in it.
  struct alignas(64) Slot {
    std::atomic<Segment*> segment{nullptr};
  };

  Segment* ClaimForWriting(size_t entry_bytes);
  // What a slot answers to a writer: its segment is the writer's now; it has no segment; another thread is in its
  // segment; its segment has no room, but is too good to be sealed for one large entry.
  enum class Answer { kClaimed, kEmpty, kBusy, kTooLarge };
  Answer TryClaim(Slot* slot, size_t entry_bytes, Segment** claimed);
  // A new segment, claimed, for a slot that has none; null if it has got one meanwhile.
  Segment* FillSlot(Slot* slot, size_t entry_bytes);
  Segment* OversizeSegment(size_t entry_bytes);
  Segment* AddSegment(size_t at_least, bool oversize) CAIRN_REQUIRES(segments_mutex_);
  void SealSegment(Segment* segment);
  size_t WantedSegmentBytes() const;
  void ChargeLocked(size_t bytes) CAIRN_REQUIRES(segments_mutex_);
  void ChargeIndex(size_t bytes) const;
  // A writer's part: by (3) only it may let ApproximateMemoryUsage grow.
  void ReportIndexes() {
    if (unreported_.load(std::memory_order_relaxed) == 0) return;
    charged_.fetch_add(unreported_.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
  }

  // The versions of a key that were published, but are not in the hash.
  class Unhashed;

  bool UsesHash() const { return order_.equal_means_same_bytes(); }
  uint64_t HashOf(const rocksdb::Slice& user_key) const { return hash_function_(user_key); }
  // Calls callback(argument, entry) for the versions of the key, newest first, until it returns false.
  void GetHashed(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*));
  void GetSorted(const rocksdb::Slice& internal_key, void* argument, bool (*callback)(void*, const char*));
  void AddMark(Segment* segment, const char* entry, const SegmentWord& word);
  // A writer's part of the indexing after its `entries`-th entry in a segment; the second: while there are lookups.
  void HelpIndex(uint64_t entries);
  void HelpReaders(uint64_t entries) const;
  // A writer has published so many more entries: if those without a hash are too many, adds as many to it.
  void BoundUnhashed(uint64_t entries) const;
  // A reader's part, after it found `unhashed` entries that no hash has.
  void HelpAsReader(uint64_t unhashed) const;
  // Sorts the memtable, which is read-only, in a thread of its own, unless that has begun: a lookup must not wait for
  // it.
  void SortInBackground() const;
  // Returns when the hash has every entry that was published before the call, through whomever.
  void UpdateHash() const;
  enum class Growth { kAny, kSmall };
  // Adds at most `limit` entries. kSmall: none if a large hash table had to grow for them.
  void UpdateHashLocked(size_t limit, Growth growth) const CAIRN_REQUIRES(hash_mutex_);
  // Calls visit(entry) for every entry that is new to an index and was published before, at most `limit` of them; how
  // many they were. The caller holds the index's mutex. Writers may be as fast as this is: what they publish meanwhile
  // is left to the next call. finish() is called before a segment's progress is stored: from then on, readers rely on
  // the index.
  template <class Visitor, class Finish>
  size_t CatchUp(Segment::Progress Segment::*progress, std::atomic<Segment*>* first, size_t limit, Visitor&& visit,
                 Finish&& finish) const;
  size_t CountEntries() const;
  size_t CountUnsorted() const;
  class Sorting;
  // Those that are not on the heap.
  std::vector<char*> PoolSegments() const CAIRN_REQUIRES(segments_mutex_);
  // Sorts what is new. False when it has seen all that was published before the call: what comes to one segment while
  // it runs may leave no room for what another has had for long.
  void CatchUpRuns() const CAIRN_REQUIRES(sort_mutex_);
  bool SortSome() const CAIRN_REQUIRES(sort_mutex_);
  std::shared_ptr<const SortedRun> SortAll() const;
  void AddRun(std::shared_ptr<const SortedRun> run) const CAIRN_REQUIRES(sort_mutex_);
  // REQUIRES: has_final_run_ was seen. The runs do not change any more then.
  const std::shared_ptr<const RunSet>& FinalRun() const CAIRN_NO_THREAD_SAFETY_ANALYSIS { return runs_; }

  const SubMemTableOptions options_;
  const std::shared_ptr<SegmentPool> pool_;
  const SegmentLayout layout_;
  const SegmentOwner owner_;
  const KeyOrder order_;
  const KeyHash hash_function_;  // of the hash and the marks; nobody knows its seed
  const size_t block_bytes_;     // of the arena: an eighth of the write buffer
  mutable ArenaCharge arena_charge_;
  std::atomic<size_t> charged_{0};             // what ApproximateMemoryUsage says
  mutable std::atomic<size_t> unreported_{0};  // taken by indexes since the last write, and not in charged_ yet
  std::atomic<bool> read_only_{false};

  std::atomic<size_t> mark_bytes_{0};

  size_t slot_mask_;
  std::unique_ptr<Slot[]> slots_;

  std::atomic<Segment*> last_segment_{nullptr};
  std::vector<std::unique_ptr<Segment>> segments_ CAIRN_GUARDED_BY(segments_mutex_);
  size_t slots_in_use_ CAIRN_GUARDED_BY(segments_mutex_) = 0;
  bool flushed_ CAIRN_GUARDED_BY(segments_mutex_) = false;  // of a durable one: MarkFlushed has been called

  mutable CheckedMutex hash_mutex_;                       // of the hash's only writer
  mutable std::atomic<Segment*> first_to_hash_{nullptr};  // the list of segments that the hash is not done with
  mutable std::atomic<HashIndex*> hash_{nullptr};         // null: nobody has looked anything up
  mutable std::unique_ptr<HashIndex> hash_owner_ CAIRN_GUARDED_BY(hash_mutex_);
  mutable size_t hash_charged_ CAIRN_GUARDED_BY(hash_mutex_) = 0;
  mutable std::atomic<bool> looked_up_{false};  // lately; writers reset it
  mutable std::atomic<uint64_t> unhashed_{0};   // entries, counted by the thousand

  mutable std::atomic<bool> has_final_run_{false};  // runs_ is that run, and does not change any more
  mutable std::atomic<bool> run_is_better_{false};  // than a hash that lacks many entries: lookups use the run
  mutable std::atomic<bool> sorting_{false};
  mutable std::thread sorter_;

  mutable CheckedMutex sort_mutex_;
  mutable std::atomic<Segment*> first_to_sort_{nullptr};  // the list of segments that the runs are not done with
  mutable std::shared_ptr<const RunSet> runs_ CAIRN_GUARDED_BY(sort_mutex_);  // without it: FinalRun
  mutable std::atomic<const RunSet*>
      newest_runs_;  // runs_, for a look without the mutex; null: entries are being sorted
  mutable uint64_t newest_tag_ CAIRN_GUARDED_BY(sort_mutex_) =
      0;  // of the entries in runs_, until there is a final run
  mutable size_t runs_charged_ CAIRN_GUARDED_BY(sort_mutex_) = 0;
};

}  // namespace cairn
