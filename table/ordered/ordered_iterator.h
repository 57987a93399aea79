// The iterator of cairn.OrderedTable: a forward seek that need not read does not, and blocks in memory are read by a
// cursor. docs/design/ordered.md says why
// RocksDB's iterators above it give the same answers.
//
// Invariants
//   (1) A placeholder's key is (X, kMaxSequenceNumber - 1) with target < X <= the table's next key, so it sorts before
//       all entries of X, and no snapshot sees it.
//   (2) Whatever moves the iterator off a placeholder reads the table first.
//
// Thread-safety: as rocksdb::InternalIterator: one thread at a time.

#pragma once

#include <string>

#include "cairn/ordered.h"
#include "db/dbformat.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/slice_transform.h"
#include "table/internal_iterator.h"
#include "table/ordered/block_cursor.h"
#include "table/ordered/order_block.h"
#include "table/ordered/ordered_seeks.h"
#include "table/scan_counts.h"
#include "util/key_buffer.h"

namespace cairn {

// Sequence number and type of a placeholder: above all snapshots. RocksDB asserts that no entry that it steps back over
// has kMaxSequenceNumber itself.
constexpr uint64_t kPlaceholderTag = (rocksdb::kMaxSequenceNumber - 1) << 8 | rocksdb::kTypeValue;

// Of the thread: filters write their bounds here, so that an iterator needs no memory of its own for them.
std::string* BoundScratch();

// Whether iterators for this reader may defer, by what they are asked for.
bool MayDefer(const rocksdb::ReadOptions& read_options, const rocksdb::Comparator* comparator,
              rocksdb::TableReaderCaller caller, bool allow_unprepared_value);

class OrderedIterator final : public port::TableIterator {
 public:
  // What the table's own iterator is made of, in the arena if there is one, when it is first needed.
  struct Table {
    rocksdb::TableReader* reader;
    const BlockSource* blocks;
    const rocksdb::ReadOptions* read_options;
    const rocksdb::SliceTransform* prefix_extractor;
    rocksdb::Arena* arena;
    bool skip_filters;
    size_t compaction_readahead_size;
    ScanCounts::Table* scans;  // null: nobody wants to know
  };

  OrderedIterator(const Table& table, const OrderBlockPlace* place, OrderedSeeks* seeks)
      : table_(table),
        place_(place),
        seeks_(seeks),
        has_cursor_(table.blocks->Serves(*table.read_options, table.prefix_extractor, table.skip_filters)),
        cursor_(table.blocks, table.read_options) {}
  ~OrderedIterator() override;

  bool Valid() const override;
  void Seek(const rocksdb::Slice& target) override;
  void SeekToFirst() override;
  void SeekForPrev(const rocksdb::Slice& target) override;
  void SeekToLast() override;
  void Next() override;
  bool NextAndGetResult(rocksdb::IterateResult* result) override;
  void Prev() override;
  rocksdb::Slice key() const override;
  rocksdb::Slice value() const override;
  uint64_t write_unix_time() const override;
  rocksdb::Status status() const override;
  bool PrepareValue() override;
  rocksdb::IterBoundCheck UpperBoundCheckResult() override;
  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) override;
  bool IsKeyPinned() const override;
  bool IsValuePinned() const override;
  void GetReadaheadState(rocksdb::ReadaheadFileInfo* info) override;
  void SetReadaheadState(rocksdb::ReadaheadFileInfo* info) override;

  // For RunIterator, which asks the filters of all tables itself and then for entries: forward to the first one at or
  // above the internal key, or of the table; or back to the last one at or below the key.
  enum class ReadFor { kUsed, kAtHand, kResolved, kDirect, kUnfiltered };
  void ReadAt(const rocksdb::Slice& target, ReadFor read);
  void ReadFirst();
  void ReadBefore(const rocksdb::Slice& target, ReadFor read);
  // As ReadAt or ReadBefore if the block is in memory; false: it is not, and the iterator is nowhere.
  bool ReadInMemory(const rocksdb::Slice& target, bool back);
  // Whether the target lies in the current entry's block, at it or behind.
  bool HasAtHand(const rocksdb::Slice& target) const { return state_ == State::kCursor && cursor_.IsInBlock(target); }
  // Whether the entry's value needs no PrepareValue().
  bool is_prepared() const { return state_ == State::kCursor; }
  // Nobody has asked for more than the seek before has read, if it has.
  void Begin();

 protected:
  void PrepareFor(const port::ScanRanges* ranges) override;

 private:
  enum class State {
    kTable,        // where the table's own iterator is; invalid if there is none yet
    kCursor,       // where the cursor is, at an entry
    kPlaceholder,  // at placeholder_, which stands for what Seek(target_) would find
    kPastEnd,      // invalid: no key on that side of the target
    kPastBound,    // invalid: the next key is at or above iterate_upper_bound
  };

  rocksdb::InternalIterator* Inner();
  bool Moved(BlockCursor::Result result);
  void BeginRead(ReadFor read);
  void ReadBack(const rocksdb::Slice& target);
  void Read(const rocksdb::Slice& target);
  void ToFirst();
  void SeekInner(const rocksdb::Slice& target);
  bool WasShown(const rocksdb::Slice& user_key) const;
  bool IsBehindTarget(const rocksdb::Slice& at) const;
  bool HasReadFor(const rocksdb::Slice& target);
  bool StaysAtEntry() const;
  bool Defer(const rocksdb::Slice& user_key);
  void Resolve();
  void Used() const { read_ = ReadFor::kUsed; }
  void Publish();

  const Table table_;
  const OrderBlockPlace* const place_;
  OrderedSeeks* const seeks_;
  const bool has_cursor_;
  rocksdb::InternalIterator* inner_ = nullptr;
  rocksdb::PinnedIteratorsManager* pinned_ = nullptr;
  bool scans_prepared_ = false;  // then RocksDB's iterator, which has read the ranges' blocks, must see every seek
  State state_ = State::kTable;
  KeyBuffer target_;       // of the last Seek that made a placeholder or read
  KeyBuffer placeholder_;  // an internal key

  // What the last seek read is in vain if nobody asks for it until the next.
  mutable ReadFor read_ = ReadFor::kUsed;
  OrderedSeekStats stats_;
  uint64_t backward_ = 0;  // reads of seeks that stats_ does not count
  int unpublished_ = 0;
  BlockCursor cursor_;
};

}  // namespace cairn
