// Sets RocksDB's options up for a SILT store.

#include "cairn/silt.h"

#include <algorithm>

#include "table/ect_table.h"
#include "table/hash_order.h"
#include "table/hash_order_table.h"

namespace cairn {

using rocksdb::Status;

namespace {

// The last level takes everything, however much that is.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

}  // namespace

Status UseSilt(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt) {
  if (silt.merge_trigger < 1 || silt.merge_trigger > 1000) {
    return Status::InvalidArgument("merge_trigger must be within 1 ... 1000");
  }
  if (silt.merge_threads < 1) return Status::InvalidArgument("merge_threads must be at least 1");
  if (options->prefix_extractor != nullptr) {
    return Status::NotSupported("prefix_extractor", "keys of one prefix are not neighbours in hash order");
  }
  HashKind kind = HashKind::kXxh3;
  Status s = ParseHashKind(silt.hash, &kind);
  if (!s.ok()) return s;

  EctTableOptions table = silt.table;
  if (table.table == nullptr && options->table_factory != nullptr &&
      options->table_factory->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName())) {
    rocksdb::BlockBasedTableOptions block_options =
        *options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    // Gets need neither RocksDB's index nor its filter, so only iterators should pay for them.
    block_options.filter_policy = nullptr;
    block_options.cache_index_and_filter_blocks = !block_options.no_block_cache;
    table.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
  }
  options->comparator = HashOrderComparator(kind, silt.seed);
  options->table_factory =
      std::make_shared<HashOrderTableFactory>(std::shared_ptr<rocksdb::TableFactory>(NewEctTableFactory(table)));
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->num_levels = 2;
  options->level_compaction_dynamic_level_bytes = false;
  options->max_bytes_for_level_base = kNoLimit;
  options->max_compaction_bytes = kNoLimit;
  options->level0_file_num_compaction_trigger = silt.merge_trigger;
  options->level0_slowdown_writes_trigger = 3 * silt.merge_trigger;
  options->level0_stop_writes_trigger = 4 * silt.merge_trigger;
  return Status::OK();
}

Status UseSilt(rocksdb::Options* options, const SiltOptions& silt) {
  const Status s = UseSilt(static_cast<rocksdb::ColumnFamilyOptions*>(options), silt);
  if (s.ok()) options->max_subcompactions = std::max(options->max_subcompactions, silt.merge_threads);
  return s;
}

}  // namespace cairn
