#include "table/ordered/block_reads.h"

#include <algorithm>
#include <utility>

#include "table/block_based/block_based_table_reader.h"
#include "table/perf_counts.h"
#include "trace_replay/block_cache_tracer.h"
#include "util/async_read.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::BlockBasedTable;

bool BlockReads::Serves(const BlockSource& source, const rocksdb::ReadOptions& read_options) {
  const BlockBasedTable::Rep& rep = source.rep();
  return read_options.fill_cache && read_options.read_tier == rocksdb::kReadAllTier && source.is_simple() &&
         !source.IsTraced() && rep.table_options.persistent_cache == nullptr &&
         CanReadTogether(rep.ioptions.fs.get(), *rep.file, read_options);
}

void BlockReads::Begin(const BlockSource& source, const Slice& key, rocksdb::GetContext* reader) {
  rocksdb::BlockHandle handle;
  if (!BlockCursor(&source, read_options_).FindUncached(key, &handle)) return;
  const auto same = [&](const Read& read) { return read.source == &source && read.handle.offset() == handle.offset(); };
  if (std::any_of(reads_.begin(), reads_.end(), same)) return;
  const BlockBasedTable::Rep& rep = source.rep();
  rocksdb::ReadaheadParams no_readahead;
  no_readahead.num_buffers = 1;
  auto bytes = std::make_unique<rocksdb::FilePrefetchBuffer>(no_readahead, true, false, rep.ioptions.fs.get(),
                                                             rep.ioptions.clock, rep.ioptions.stats);
  rocksdb::IOOptions io_options;
  if (!rep.file->PrepareIOOptions(*read_options_, io_options).ok()) return;
  Slice at_once;
  const Status s = bytes->PrefetchAsync(io_options, rep.file.get(), handle.offset(),
                                        BlockBasedTable::BlockSizeWithTrailer(handle), &at_once);
  if (s.IsTryAgain()) reads_.push_back({&source, handle, reader, std::move(bytes)});
}

void BlockReads::Finish() {
  for (const Read& read : reads_) {
    rocksdb::BlockCacheLookupContext context{rocksdb::TableReaderCaller::kUserMultiGet};
    rocksdb::DataBlockIter block;
    Status s;
    read.source->table()->NewDataBlockIterator<rocksdb::DataBlockIter>(*read_options_, read.handle, &block,
                                                                       rocksdb::BlockType::kData, read.reader, &context,
                                                                       read.bytes.get(), false, false, s, true);
    IGNORE_STATUS_IF_ERROR(s);
    IGNORE_STATUS_IF_ERROR(block.status());
    PERF_COUNTER_ADD(block_read_count, 1);
    PERF_COUNTER_ADD(block_read_byte, BlockBasedTable::BlockSizeWithTrailer(read.handle));
  }
  reads_.clear();
}

}  // namespace cairn
