// The bytes of a block-based table's own filter, where they lie in memory.

#pragma once

#include "table/block_based/block_based_table_reader.h"
#include "table/block_based/full_filter_block.h"
#include "table/block_based/parsed_full_filter_block.h"

namespace cairn::port {

// Of a filter that is one block and is kept outside the block cache, as long as the table is open; empty if there is
// none.
inline rocksdb::Slice FilterOnHeap(const rocksdb::BlockBasedTable::Rep& rep) {
  // RocksDB's readers of filters show the block to classes derived from them.
  struct Reader : rocksdb::FullFilterBlockReader {
    using Find = rocksdb::Status (rocksdb::FilterBlockReaderCommon<rocksdb::ParsedFullFilterBlock>::*)(
        rocksdb::GetContext*, rocksdb::BlockCacheLookupContext*,
        rocksdb::CachableEntry<rocksdb::ParsedFullFilterBlock>*, const rocksdb::ReadOptions&) const;
    static Find BlockOf() { return &Reader::GetOrReadFilterBlock; }
  };
  if (rep.filter == nullptr || rep.filter_type != rocksdb::BlockBasedTable::Rep::FilterType::kFullFilter ||
      rep.table_options.cache_index_and_filter_blocks) {
    return {};
  }
  const auto* const reader = static_cast<const rocksdb::FullFilterBlockReader*>(rep.filter.get());
  rocksdb::CachableEntry<rocksdb::ParsedFullFilterBlock> block;
  const rocksdb::Status s = (reader->*Reader::BlockOf())(nullptr, nullptr, &block, rocksdb::ReadOptions());
  // What this entry owns, or holds in the cache, is gone with it.
  const bool stays = s.ok() && !block.IsEmpty() && !block.IsCached() && !block.GetOwnValue();
  return stays ? block.GetValue()->ContentSlice() : rocksdb::Slice();
}

}  // namespace cairn::port
