#include "db/table_in_order.h"

#include "table/format.h"
#include "table/meta_blocks.h"

namespace cairn {

rocksdb::Status ReadPropertiesOf(rocksdb::RandomAccessFileReader* file, uint64_t file_size,
                                 const rocksdb::TableReaderOptions& options, const rocksdb::ReadOptions& read_options,
                                 std::unique_ptr<rocksdb::TableProperties>* properties) {
  return rocksdb::ReadTableProperties(file, file_size, rocksdb::Footer::kNullTableMagicNumber, options.ioptions,
                                      read_options, properties);
}

}  // namespace cairn
