// SST files outside a database, under options that leave the seed of the hash order open (cairn/hash_seed.h): a reader
// takes each file's own order, a writer needs to be told.
//
// Thread-safety: safe.

#pragma once

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// What a SstFileWriter of `options` and `comparator` is to be made with. A column family to ingest into gives its
// order. A writer that has none is given options with which every Open fails, and says why.
void PrepareSstFileWriter(rocksdb::ColumnFamilyHandle* family, rocksdb::Options* options,
                          const rocksdb::Comparator** comparator);

// What a SstFileReader of `options` is to be made with: the first file that it opens decides the order.
void PrepareSstFileReader(rocksdb::Options* options);

}  // namespace cairn
