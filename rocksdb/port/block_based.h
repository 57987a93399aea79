// Inside of the block-based table: its reader's templates, and blocks read as they are stored.

#pragma once

#include <string>
#include <type_traits>

#include "rocksdb/port/rocksdb_version.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/block_based/data_block_footer.h"
#include "table/block_based/data_block_hash_index.h"
#include "table/block_based/reader_common.h"
#include "table/block_fetcher.h"
#include "table/persistent_cache_options.h"

#if !CAIRN_ROCKSDB_AT_LEAST(11, 0)
// Since 11.0 the archive holds NewDataBlockIterator for data blocks; before, who calls it compiles it.
#include "table/block_based/block_based_table_reader_impl.h"
#endif

namespace cairn::port {

// Reads a block of the file past all caches, without decompressing it; checks it as `read_options` say.
inline rocksdb::Status ReadStoredBlock(const rocksdb::BlockBasedTable::Rep& rep,
                                       const rocksdb::ReadOptions& read_options, const rocksdb::BlockHandle& handle,
                                       rocksdb::BlockType type, rocksdb::BlockContents* contents) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
  rocksdb::BlockFetcher fetcher(rep.file.get(), nullptr, rep.footer, read_options, handle, contents, rep.ioptions,
                                false, false, type, nullptr, rocksdb::PersistentCacheOptions::kEmpty);
#else
  rocksdb::BlockFetcher fetcher(rep.file.get(), nullptr, rep.footer, read_options, handle, contents, rep.ioptions,
                                false, false, type, rocksdb::UncompressionDict::GetEmptyDict(),
                                rocksdb::PersistentCacheOptions::kEmpty);
#endif
  return fetcher.ReadBlockContents();
}

// Whether the bytes of a data block, with its trailer behind, have the checksum that the file says. Some releases want
// to know the kind of block.
template <class Verify = decltype(&rocksdb::VerifyBlockChecksum)>
rocksdb::Status VerifyDataBlock(const rocksdb::BlockBasedTable::Rep& rep, const char* block, size_t size,
                                uint64_t offset, Verify verify = &rocksdb::VerifyBlockChecksum) {
  const std::string& file = rep.file->file_name();
  if constexpr (std::is_invocable_v<Verify, const rocksdb::Footer&, const char*, size_t, const std::string&,
                                    uint64_t>) {
    return verify(rep.footer, block, size, file, offset);
  } else {
    return verify(rep.footer, block, size, file, offset, rocksdb::BlockType::kData);
  }
}

// Whether a block's entries lie one behind the other, keys beside their values, and values are the program's: so it
// always was before 11.0, and since then by default.
inline bool HasPlainEntries(const rocksdb::BlockBasedTable::Rep& rep) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return !rep.separate_key_value_in_data_block && !rep.has_embedded_blobs;
#else
  (void)rep;
  return true;
#endif
}

// Whether values of the table are places of values elsewhere in the same file, which only RocksDB's reader resolves.
inline bool HasEmbeddedBlobs(const rocksdb::BlockBasedTable::Rep& rep) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return rep.has_embedded_blobs;
#else
  (void)rep;
  return false;
#endif
}

// Finds the restart array of a data block's bytes with plain entries: how many restarts there are, and where the array
// ends. False if the block is damaged or of another layout.
inline bool FindRestarts(const rocksdb::Slice& block, uint32_t* count, uint32_t* end) {
  if (block.size() < 2 * sizeof(uint32_t) || block.size() > INT32_MAX) return false;
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  rocksdb::DataBlockFooter footer;
  rocksdb::Slice rest = block;
  if (!footer.DecodeFrom(&rest).ok() || footer.separated_kv) return false;
  *count = footer.num_restarts;
  *end = static_cast<uint32_t>(rest.size());
  if (footer.index_type != rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash) return true;
  rocksdb::DataBlockHashIndex hash;
  uint16_t map_offset = 0;
  if (!hash.Initialize(block.data(), rest.size(), &map_offset)) return false;
  *end = map_offset;
#else
  *end = static_cast<uint32_t>(block.size() - sizeof(uint32_t));
  const uint32_t footer = rocksdb::DecodeFixed32(block.data() + *end);
  auto type = rocksdb::BlockBasedTableOptions::kDataBlockBinarySearch;
  *count = footer;
  if (block.size() <= rocksdb::kMaxBlockSizeSupportedByHashIndex) {
    rocksdb::UnPackIndexTypeAndNumRestarts(footer, &type, count);
  }
  if (type == rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash) {
    // A byte for each bucket, and their number. RocksDB believes it.
    const size_t hash_bytes = rocksdb::DecodeFixed16(block.data() + *end - sizeof(uint16_t)) + sizeof(uint16_t);
    if (hash_bytes > *end) return false;
    *end -= static_cast<uint32_t>(hash_bytes);
  }
#endif
  return true;
}

}  // namespace cairn::port
