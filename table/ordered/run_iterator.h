// One iterator over all sorted runs of a Version of ordered tables, in place of RocksDB's one for each level and each
// table of level 0. A seek hashes its key once and has the lines of all Bloom filters fetched together. Runs without
// the key wait side by side: their order filters are asked when the scan leaves the key, and a block is read when the
// scan reaches what a filter has said. Scans go forward or back in the same way. docs/design/ordered.md says why
// RocksDB's iterators above it give the same answers.
//
// Invariants
//   (1) A placeholder's key is (X, kMaxSequenceNumber - 1). Forward, target < X <= the next key of its runs, as that of
//       an OrderedIterator; back, it is at or before the target, and X is above the key before of its runs. After one,
//       the next position has another user key, or is an entry.
//   (2) No table that a seek's target lies in, or that the scan has reached, has range deletions: RocksDB's own
//       iterator goes on where one has, where a table is another's, or where its reader is not at hand.
//   (3) Runs in the heap are at an entry or at a bound; those in pending_ have no entry of the target's user key.
//
// Thread-safety: as rocksdb::InternalIterator: one thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "db/version_edit.h"
#include "memory/arena.h"
#include "rocksdb/port/table_reader.h"
#include "table/ordered/ordered_iterator.h"
#include "table/ordered/ordered_probe.h"
#include "util/key_buffer.h"

namespace cairn {

class RunIterator : public port::TableIterator {
 public:
  // The tables of a level; or one of level 0.
  struct Tables {
    const rocksdb::FdWithKeyRange* files;
    size_t count;
  };
  static constexpr size_t kMostRuns = 128;  // a store that has more lacks compaction

  // Whether it can serve iterators with these options.
  static bool Serves(const rocksdb::ReadOptions& read_options, const rocksdb::Comparator* comparator,
                     const rocksdb::SliceTransform* prefix_extractor, bool allow_unprepared_value);

  struct Family {
    const rocksdb::SliceTransform* prefix_extractor;
    bool sampled;         // RocksDB counts the reads of this iterator
    bool may_defer_back;  // not with max_sequential_skip_in_iterations at 0: DBIter then seeks every key that it leaves
                          // on its way back, and where it finds nothing, it ends
  };

  // All outlive this, and what `arena` has given is its own. Range deletions up to `sequence` are seen.
  RunIterator(const rocksdb::ReadOptions* read_options, const Family& family, rocksdb::SequenceNumber sequence,
              rocksdb::Arena* arena, const Tables* runs, size_t count);
  ~RunIterator() override;

  bool Valid() const final { return at_ == At::kOwn ? own_->Valid() : at_ != At::kNowhere; }
  void Seek(const rocksdb::Slice& target) final;
  void SeekToFirst() final;
  void SeekForPrev(const rocksdb::Slice& target) final;
  void SeekToLast() final;
  void Next() final;
  bool NextAndGetResult(rocksdb::IterateResult* result) final;
  void Prev() final;
  rocksdb::Slice key() const final { return at_ == At::kOwn ? own_->key() : key_; }
  rocksdb::Slice value() const final;
  uint64_t write_unix_time() const final;
  rocksdb::Status status() const final { return at_ == At::kOwn ? own_->status() : status_; }
  bool PrepareValue() final;
  rocksdb::IterBoundCheck UpperBoundCheckResult() final;
  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) final;
  void SetRangeDelReadSeqno(rocksdb::SequenceNumber sequence) final;
  bool IsKeyPinned() const final { return at_ == At::kOwn && own_->IsKeyPinned(); }
  bool IsValuePinned() const final;

 protected:
  void PrepareFor(const port::ScanRanges* ranges) final;
  // RocksDB's iterator over the same tables, in the arena. Called once.
  virtual rocksdb::InternalIterator* NewOwn(const rocksdb::ReadOptions& read_options, rocksdb::SequenceNumber sequence,
                                            rocksdb::Arena* arena) = 0;

 private:
  enum class At {
    kNowhere,  // invalid
    kEntry,    // the first run of the heap has it
    kBound,    // a placeholder for the first run of the heap
    kPending,  // a placeholder for those of pending_
    kOwn,      // where own_ is
  };
  struct Run {
    Tables tables;
    size_t file = 0;  // where it is or goes on
    const OrderedTableProbe* table = nullptr;
    const char* line = nullptr;       // of the table's Bloom filter; null: it has none that is asked here
    OrderedIterator* scan = nullptr;  // of scan_file
    size_t scan_file = 0;
    void* place = nullptr;    // of the scan
    bool is_entry = false;    // else a bound
    bool at_edge = false;     // the bound tells of the table's first or last key, and the table is not open yet
    uint64_t window = 0;      // first bytes of user_key
    rocksdb::Slice user_key;  // of the entry or bound
    uint64_t tag = 0;         // sequence number and type
    KeyBuffer bound;
  };
  // In the heap: a run, and the first bytes of its user key.
  struct Placed {
    uint64_t window;
    Run* run;
  };
  enum class Went { kOn, kEnded, kPastBound, kElsewhere };  // kElsewhere: (2) or an error

  // Of one run.
  size_t FirstFile(const Run& run) const;
  size_t LastFile(const Run& run) const;
  bool IsBetweenFiles(const Run& run) const;
  bool Open(Run* run) const;
  bool IsPastBound(const rocksdb::Slice& user_key) const;
  Went ToBound(Run* run, const rocksdb::Slice& user_key);
  Went ToEdge(Run* run);
  Went ToNextFile(Run* run);
  Went ToEntry(Run* run);
  bool BloomSaysMaybe(const Run& run, uint64_t hash) const;
  Went SeekTable(Run* run);
  Went AskOrder(Run* run);
  Went GoTo(Run* run, OrderAnswer answer, OrderedIterator::ReadFor read);
  void CountDeferred(Went went);
  Went ReadAt(Run* run, OrderedIterator::ReadFor read);
  Went ReadBound(Run* run);
  OrderedIterator* Scan(Run* run);
  void EndScan(Run* run);

  // Of all.
  bool IsBefore(const Placed& a, const Placed& b) const;
  void Push(Run* run);
  void Pop();
  void SiftDown();
  void Took(Run* run, Went went);
  void TookFirst(Went went);
  void SeekRuns();
  size_t OpenRuns(uint64_t hash);
  void Step();
  void StepOfEntry();
  void Turn();
  void AskTogether(const uint8_t* runs, size_t count, OrderAnswer* answers);
  void AskPending();
  void Settle(const rocksdb::Slice& otherwise);
  bool ShowPending();
  void ShowFirst();
  void ShowPlaceholder(At at);
  rocksdb::InternalIterator* Own();
  void SeekOwn(const rocksdb::Slice& target);
  void Begin(bool back);
  void Publish();
  Run* first() const { return heap_[0].run; }

  const rocksdb::ReadOptions* const read_options_;
  const Family family_;
  rocksdb::Arena* const arena_;
  Run* const runs_;
  const size_t count_;
  Placed* const heap_;
  uint8_t* const pending_;  // numbers of runs
  size_t heap_size_ = 0;
  size_t pending_count_ = 0;

  At at_ = At::kNowhere;
  bool back_ = false;       // steps go back
  bool elsewhere_ = false;  // a run is for RocksDB's iterator, or has failed: then status_ says so
  rocksdb::Status status_;
  rocksdb::Slice key_;
  KeyBuffer target_;       // of the last Seek
  KeyBuffer placeholder_;  // an internal key
  uint64_t target_window_ = 0;

  rocksdb::PinnedIteratorsManager* pinned_ = nullptr;
  bool scans_prepared_ = false;
  rocksdb::SequenceNumber deletions_up_to_;
  // A program may release its snapshot while it has the iterator: these have none, and NewOwn knows what is seen.
  std::optional<rocksdb::ReadOptions> own_options_;
  std::unique_ptr<rocksdb::Arena> own_arena_;
  rocksdb::InternalIterator* own_ = nullptr;

  OrderedSeeks* seeks_ = nullptr;  // of the first table that was asked
  OrderedSeekStats stats_;
  int unpublished_ = 0;
};

}  // namespace cairn
