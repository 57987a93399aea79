// The blocks that a batch's lookups begin with, read into the block cache together. Where files are read directly, the
// batch then waits for the device once, and not once for each key.
//
// Thread-safety: one thread at a time.

#pragma once

#include <memory>
#include <vector>

#include "file/file_prefetch_buffer.h"
#include "rocksdb/options.h"
#include "table/format.h"
#include "table/get_context.h"
#include "table/ordered/block_cursor.h"

namespace cairn {

class BlockReads {
 public:
  // Outlives this.
  explicit BlockReads(const rocksdb::ReadOptions* read_options) : read_options_(read_options) {}

  // Whether blocks of the table can be read so, and are cached.
  static bool Serves(const BlockSource& source, const rocksdb::ReadOptions& read_options);

  // Begins to read the block that a lookup of this internal key begins with, unless it is in the cache or on its way.
  // REQUIRES: Serves(), and all outlive this.
  void Begin(const BlockSource& source, const rocksdb::Slice& key, rocksdb::GetContext* reader);
  // Waits for them. What cannot be read or cached the lookup reads again, and what it fails in counts.
  void Finish();

 private:
  struct Read {
    const BlockSource* source;
    rocksdb::BlockHandle handle;
    rocksdb::GetContext* reader;
    std::unique_ptr<rocksdb::FilePrefetchBuffer> bytes;
  };

  const rocksdb::ReadOptions* const read_options_;
  std::vector<Read> reads_;
};

}  // namespace cairn
