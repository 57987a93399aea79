// Options of block-based tables that only later releases have.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/comparator.h"
#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/table.h"

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
#include "rocksdb/user_defined_index.h"
#endif

namespace cairn::port {

// Whether data blocks do not follow each other without gaps: block_align, and super_block_alignment_size of 11.0.
inline bool HasGapsBetweenBlocks(const rocksdb::BlockBasedTableOptions& options) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return options.block_align || options.super_block_alignment_size > 0;
#else
  return options.block_align;
#endif
}

// What the index of the program's own (user_defined_index_factory) says of keys in this order: RocksDB asks it only
// when the first table is written.
inline rocksdb::Status CheckUserIndex(const rocksdb::BlockBasedTableOptions& options,
                                      const rocksdb::Comparator* order) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  if (options.user_defined_index_factory == nullptr) return rocksdb::Status::OK();
  rocksdb::UserDefinedIndexOption asked;
  asked.comparator = order;
  std::unique_ptr<rocksdb::UserDefinedIndexBuilder> builder;
  const rocksdb::Status s = options.user_defined_index_factory->NewBuilder(asked, builder);
  if (s.ok()) return s;
  return rocksdb::Status::NotSupported(
      "user_defined_index_factory " + std::string(options.user_defined_index_factory->Name()), s.ToString());
#else
  (void)options;
  (void)order;
  return rocksdb::Status::OK();
#endif
}

}  // namespace cairn::port
