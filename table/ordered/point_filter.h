// RocksDB's own filter of one table, asked without the rest of what a lookup does.
//
// Thread-safety: any number of threads.

#pragma once

#include "rocksdb/options.h"
#include "table/block_based/block_based_table_reader.h"

namespace cairn {

// Whether the table may have entries of this internal key's user key, by a filter of whole keys; true if there is none.
inline bool PointFilterMayHold(const rocksdb::BlockBasedTable::Rep& rep, const rocksdb::ReadOptions& read_options,
                               const rocksdb::Slice& key, rocksdb::GetContext* get_context = nullptr) {
  return rep.filter == nullptr || !rep.whole_key_filtering ||
         rep.filter->KeyMayMatch(rocksdb::ExtractUserKey(key), &key, get_context, nullptr, read_options);
}

}  // namespace cairn
