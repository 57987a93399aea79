// The index of an open block-based table, read where it lies in memory: which data block holds the first key at or
// above a target. It interpolates between keys, which touches two or three cache lines of an index where a binary
// search touches two for each of its steps.
//
// Only for an index that is one block of full entries (index_block_restart_interval 1) and stays on the heap as long as
// the table is open (cache_index_and_filter_blocks off), both of which are RocksDB's defaults.
//
// Thread-safety: immutable after Open().

#pragma once

#include <cstdint>

#include "rocksdb/slice.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/format.h"

namespace cairn {

class BlockIndex {
 public:
  // Looks at the table's index; usable() says whether it can be read so. `table` outlives this.
  void Open(rocksdb::BlockBasedTable* table);

  bool usable() const { return count_ > 0; }
  // Data blocks.
  uint32_t count() const { return count_; }

  // The first block whose separator is at or above the internal key; count() if there is none.
  uint32_t Find(const rocksdb::Slice& target) const;
  // The user key of the block's separator, which is at or above all its keys.
  rocksdb::Slice Separator(uint32_t block) const;
  rocksdb::BlockHandle Handle(uint32_t block) const;

 private:
  rocksdb::Slice Key(uint32_t block) const;
  rocksdb::Slice UserKey(const rocksdb::Slice& key) const;
  uint64_t Window(const rocksdb::Slice& user_key) const;
  bool IsBelow(uint32_t block, const rocksdb::Slice& target) const;
  void PrefetchAround(uint32_t block) const;
  uint32_t Guess(const rocksdb::Slice& user_key) const;

  const char* data_ = nullptr;
  uint32_t restarts_ = 0;  // where the restart array begins
  uint32_t count_ = 0;
  bool with_tag_ = false;         // keys are internal keys
  bool with_value_size_ = false;  // entries have it
  const char* first_key_ = nullptr;
  size_t common_ = 0;              // bytes that all separators begin with
  uint64_t first_ = 0, last_ = 0;  // windows of the first and the last separator
};

}  // namespace cairn
