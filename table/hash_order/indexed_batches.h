// WriteBatchWithIndex over a column family in hash order. Its index has the order of the comparator that it was made
// with, for the default column family, or of the handle; an iterator that joins it with a database needs both in one.
//
// Thread-safety: safe.

#pragma once

#include <memory>
#include <vector>

#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/utilities/write_batch_with_index.h"

namespace cairn {

// A database is being opened, with options as they were given and as their seeds were resolved. If its default column
// family has adopted an order, the database counts as open for as long as what is returned lives.
std::shared_ptr<const void> NoteAdoptedOrder(const std::vector<rocksdb::ColumnFamilyDescriptor>& given,
                                             const std::vector<rocksdb::ColumnFamilyDescriptor>& resolved);

// The order that is meant by a comparator that leaves the seed open: that of the one open database whose options were
// such, or of the one that was open last, or if there are several, `comparator` itself. Any other comparator stays.
const rocksdb::Comparator* OrderForIndex(const rocksdb::Comparator* comparator);

// Whether the index is in the order of the column family, if that is a hash order; null: that of the database which
// the batch was made for. InvalidArgument that says what to do if not.
rocksdb::Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family);

}  // namespace cairn
