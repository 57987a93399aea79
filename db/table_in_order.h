// Opening a table in an order that its properties name, not in the one that RocksDB opens it with.
//
// Thread-safety: functions without shared state.

#pragma once

#include <memory>

#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "table/table_builder.h"

namespace cairn {

// Of a table of any format.
rocksdb::Status ReadPropertiesOf(rocksdb::RandomAccessFileReader* file, uint64_t file_size,
                                 const rocksdb::TableReaderOptions& options, const rocksdb::ReadOptions& read_options,
                                 std::unique_ptr<rocksdb::TableProperties>* properties);

}  // namespace cairn
