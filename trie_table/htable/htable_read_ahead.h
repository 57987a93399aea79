// Reads the buckets of a whole MultiGet at once.
//
// RocksDB asks one table after the other for the keys of a batch, and 32 keys of a trie lie in nearly as many tables:
// 32 reads would follow each other. So the first table that has to read a bucket looks at the whole batch. It finds the
// tables of the other keys by the filters in memory, pages that the batch has just asked among them, and
//
//   - with direct I/O reads the buckets of all keys together and keeps them for this thread's next tables (ReadBatch,
//     CopyReadAhead), if the file system reads asynchronously. RocksDB's does where there is io_uring and the program
//     defines RocksDbIOUringEnable;
//   - with buffered I/O tells the operating system to fetch them (HintBatch), if the table's own read was a slow one.
//
// It is a matter of speed alone: what is read or hinted at in vain, or not at all, changes no answer.
//
// Thread-safety: any number of threads.

#pragma once

#include <memory>

#include "rocksdb/options.h"
#include "table/hash_order/hash_order.h"
#include "table/multiget_context.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "trie_table/htable/htable_file.h"
#include "trie_table/htable/htable_unit.h"

namespace cairn {

// A MultiGet that a table is asked to serve a part of.
struct BatchOfTable {
  const HTableFile* file;
  const TableFilter* filter;
  const KeyHash* hash;
  const rocksdb::ReadOptions* read_options;
  const rocksdb::MultiGetContext::Range* range;
};

// Whether units of the file can be read by ReadBatch.
bool CanReadBatch(const HTableFile& file, const rocksdb::ReadOptions& read_options);

// Reads the units of all keys that have not been found yet, those of `batch.file` among them. What nobody takes is
// freed by the thread's next batch that has to read. REQUIRES: CanReadBatch.
void ReadBatch(const BatchOfTable& batch);

// A copy of a unit that ReadBatch has read in this thread, as it lies in the file, not checked; null if it has not.
std::unique_ptr<HTableUnit> CopyReadAhead(const HTableFile& file, const UnitPlace& place);

// Starts the reads of all units of keys that have not been found yet.
void HintBatch(const BatchOfTable& batch);

}  // namespace cairn
