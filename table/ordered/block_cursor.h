// A cursor over the data blocks of an open block-based table, for blocks that are in memory (in the block
// cache, or in a mapped file where they are not compressed): what RocksDB's own table iterator does, without its
// allocations, and with a search that compares few keys. The cursor reads the first blocks of a seek and the first one
// of a Get. All other blocks that are not in memory, and whatever needs more than the bytes of a block (readahead,
// filters for prefixes, checksums for each key), are left to RocksDB's iterator or reader: the cursor answers
// kElsewhere.
//
// Invariants
//   (1) While the cursor is at an entry, its block is held in the block cache or lies in the mapping, and the index is
//       at that block.
//   (2) kElsewhere leaves key() as it was, if the cursor was at an entry.
//
// Thread-safety: as rocksdb::InternalIterator: one thread at a time. A BlockSource may serve any number of cursors.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "db/dbformat.h"
#include "rocksdb/advanced_cache.h"
#include "rocksdb/options.h"
#include "table/block_based/block.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/get_context.h"
#include "table/internal_iterator.h"
#include "table/mapped_table.h"
#include "table/ordered/block_index.h"
#include "util/key_buffer.h"

namespace cairn {

// The table that cursors read.
class BlockSource {
 public:
  // `table` outlives this.
  BlockSource(rocksdb::BlockBasedTable* table, std::unique_ptr<const MappedTable> mapped,
              rocksdb::BlockCacheTracer* tracer);

  // Whether a cursor can read blocks by their bytes alone.
  bool is_simple() const { return simple_; }
  // Whether a cursor can serve lookups.
  bool ServesLookups() const { return index_.usable() && !IsTraced(); }
  // Whether a cursor can serve iterators with these options at all.
  bool Serves(const rocksdb::ReadOptions& read_options, const rocksdb::SliceTransform* prefix_extractor,
              bool skip_filters) const;

  rocksdb::BlockBasedTable* table() const { return table_; }
  const rocksdb::BlockBasedTable::Rep& rep() const { return *table_->get_rep(); }
  rocksdb::Cache* cache() const { return cache_; }
  const BlockIndex& index() const { return index_; }
  bool is_last_level() const { return is_last_level_; }
  // The bytes of the block with its checksum, where it lies in a mapped file; null: it is elsewhere, compressed, or
  // damaged.
  const char* Mapped(const rocksdb::BlockHandle& handle, const rocksdb::ReadOptions& read_options) const;
  bool is_mapped() const { return mapped_ != nullptr; }
  size_t bytes_in_memory() const { return mapped_ == nullptr ? 0 : mapped_->bytes_in_memory(); }
  bool IsTraced() const;

 private:
  rocksdb::BlockBasedTable* const table_;
  rocksdb::BlockCacheTracer* const tracer_;
  rocksdb::Cache* const cache_;
  const bool is_last_level_;
  BlockIndex index_;
  const std::unique_ptr<const MappedTable> mapped_;  // null: the file is not mapped
  const bool simple_;
};

class BlockCursor {
 public:
  enum class Result {
    kHere,        // at an entry
    kEnd,         // behind the table's last, or before its first
    kOutOfBound,  // the next entry is at or above iterate_upper_bound
    kElsewhere,   // for RocksDB's iterator or reader
  };

  // What becomes of a block that is not in memory.
  enum class Miss { kRead, kLeave };

  // Both outlive this.
  BlockCursor(const BlockSource* source, const rocksdb::ReadOptions* read_options)
      : source_(source),
        read_options_(read_options),
        global_sequence_(source->rep().get_global_seqno(rocksdb::BlockType::kData)) {}
  ~BlockCursor();
  BlockCursor(const BlockCursor&) = delete;
  BlockCursor& operator=(const BlockCursor&) = delete;

  // To the first entry at or above the internal key.
  Result Seek(const rocksdb::Slice& target, Miss miss = Miss::kRead);
  Result SeekToFirst();
  // To the last entry at or below it. kEnd: there is none.
  Result SeekForPrev(const rocksdb::Slice& target, Miss miss = Miss::kRead);
  // Only after kHere.
  Result Next();
  Result Prev();

  // Whether the target lies at or behind the current entry and no further than its block, so that Seek reads nothing.
  bool IsInBlock(const rocksdb::Slice& target) const;

  // For lookups, which know no bounds and no readahead: to the first entry at or above the internal key. If its
  // block is not in memory, it is read for `reader`; null: it is left. kEnd: no entry of the target's user key is at or
  // behind it.
  Result Find(const rocksdb::Slice& target, rocksdb::GetContext* reader);
  // And from there to the entry behind. A block that is not in memory is left.
  Result FindNext();
  // The block that Find begins with, if it is neither in the cache nor mapped.
  bool FindUncached(const rocksdb::Slice& target, rocksdb::BlockHandle* handle);
  // `holder` holds the block from now on, for this cursor, too.
  void GiveBlock(rocksdb::Cleanable* holder);
  // `holder` and this cursor hold the block.
  void ShareBlock(rocksdb::Cleanable* holder);
  // Whether the block is one of a mapped file, which goes with its reader: who outlives that copies values. A manager
  // of pinned iterators keeps the reader.
  bool is_mapped() const { return is_mapped_; }

  rocksdb::Slice key() const { return key_.slice(); }
  rocksdb::Slice user_key() const { return {key_.data(), key_.size() - rocksdb::kNumInternalBytes}; }
  rocksdb::Slice value() const;
  // What BlockBasedTableIterator says of the entry's time.
  uint64_t write_unix_time() const;
  rocksdb::IterBoundCheck bound_check() const {
    return within_bound_ ? rocksdb::IterBoundCheck::kInbound : rocksdb::IterBoundCheck::kUnknown;
  }
  // Who keeps values beyond their block while it pins.
  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) { pinned_ = manager; }
  bool IsValuePinned() const { return pinned_ != nullptr && pinned_->PinningEnabled(); }

 private:
  enum class For { kScan, kLookup };

  // Of the index: the source's, or RocksDB's iterator.
  enum class Place { kBlock, kEnd, kError };
  bool MakeIndex();
  Place IndexState() const;
  Place FindBlock(const rocksdb::Slice& target);
  Place FirstBlock();
  Place LastBlock();
  Place FollowingBlock();
  Place PrecedingBlock();
  rocksdb::Slice Separator() const;
  Result Left(Place place);

  rocksdb::BlockHandle HandleOfBlock() const {
    return index_ != nullptr ? index_->value().handle : source_->index().Handle(index_at_);
  }
  bool Load(Miss miss, For use = For::kScan, rocksdb::GetContext* reader = nullptr);
  bool Hold(const rocksdb::BlockHandle& handle, Miss miss, rocksdb::GetContext* reader);
  Result FindFirstOfBlock();
  rocksdb::Cache::Handle* Lookup(const rocksdb::BlockHandle& handle);
  rocksdb::Cache::Handle* Read(const rocksdb::BlockHandle& handle, rocksdb::GetContext* reader);
  void Count(rocksdb::Cache::Handle* handle) const;
  void CountMapped(size_t bytes) const;
  bool Open(const rocksdb::Slice& block);
  void Release();
  void CheckBlockBound();
  Result BeginBlock(Miss miss);
  Result NextBlock();
  Result PrevBlock(Miss miss);
  Result CheckBound() const;

  // Within the block.
  struct Entry {
    uint32_t shared, unshared, value_size;
    const char* unshared_key;
  };
  bool Decode(uint32_t offset, Entry* entry) const;
  bool Parse(size_t known);
  bool SearchBlock(const rocksdb::Slice& target);
  Result ToEntryBefore(uint32_t offset, Miss miss);
  bool LeadsTo(uint32_t from, uint32_t offset) const;
  uint32_t RestartOffset(uint32_t index) const;
  // At or behind the block's end.
  bool AtEnd() const { return next_ >= restarts_; }

  const BlockSource* const source_;
  const rocksdb::ReadOptions* const read_options_;
  rocksdb::PinnedIteratorsManager* pinned_ = nullptr;
  uint32_t index_at_ = 0;
  std::optional<rocksdb::IndexBlockIter> index_block_;
  std::unique_ptr<rocksdb::InternalIteratorBase<rocksdb::IndexValue>> index_on_heap_;
  rocksdb::InternalIteratorBase<rocksdb::IndexValue>* index_ = nullptr;  // null if the source's index serves

  rocksdb::Cache::Handle* block_ = nullptr;  // null: there is none, it was given away, or is mapped
  rocksdb::Cleanable held_;                  // releases block_
  bool has_block_ = false;
  bool is_mapped_ = false;
  uint64_t block_offset_ = 0;
  bool within_bound_ = false;  // all of the block lies below iterate_upper_bound
  bool at_entry_ = false;
  int loaded_ = 0;               // blocks since the last seek
  mutable bool useful_ = false;  // its first value is still to be counted
  const char* data_ = nullptr;
  uint32_t restarts_ = 0;  // where the restart array begins
  uint32_t restart_count_ = 0;
  uint32_t offset_ = 0;  // of the current entry
  uint32_t next_ = 0;    // and of the one behind it
  const rocksdb::SequenceNumber global_sequence_;
  uint64_t stored_tag_ = 0;  // of the current key, if a global sequence number stands in its place
  rocksdb::Slice value_;
  KeyBuffer key_;
};

}  // namespace cairn
