// Writes a block-based table and puts an order filter between its last block and its metaindex.
//
// Thread-safety: as rocksdb::TableBuilder.

#pragma once

#include <functional>

#include "rocksdb/table.h"
#include "table/table_builder.h"

namespace cairn {

// `make` makes the block-based builder, which writes to the file that it is given. What the order filter in making
// holds is charged to the table's block cache as cache_usage_options say of filters in construction.
rocksdb::TableBuilder* NewOrderedTableBuilder(
    double bits_per_key, const rocksdb::BlockBasedTableOptions& table, const rocksdb::TableBuilderOptions& options,
    rocksdb::WritableFileWriter* file,
    const std::function<rocksdb::TableBuilder*(const rocksdb::TableBuilderOptions&, rocksdb::WritableFileWriter*)>&
        make);

}  // namespace cairn
