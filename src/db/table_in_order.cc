#include "src/db/table_in_order.h"

#include "table/format.h"
#include "table/meta_blocks.h"

namespace cairn {

rocksdb::Status ReadPropertiesOf(rocksdb::RandomAccessFileReader* file, uint64_t file_size,
                                 const rocksdb::TableReaderOptions& options, const rocksdb::ReadOptions& read_options,
                                 std::unique_ptr<rocksdb::TableProperties>* properties) {
  return rocksdb::ReadTableProperties(file, file_size, rocksdb::Footer::kNullTableMagicNumber, options.ioptions,
                                      read_options, properties);
}

rocksdb::TableReaderOptions InOrder(const rocksdb::TableReaderOptions& options,
                                    const rocksdb::InternalKeyComparator& order) {
  return rocksdb::TableReaderOptions(
      options.ioptions, options.prefix_extractor, options.env_options, order, options.block_protection_bytes_per_key,
      options.skip_filters, options.immortal, options.force_direct_prefetch, options.level, options.block_cache_tracer,
      options.max_file_size_for_l0_meta_pin, options.cur_db_session_id, options.cur_file_num, options.unique_id,
      options.largest_seqno, options.tail_size, options.user_defined_timestamps_persisted);
}

}  // namespace cairn
