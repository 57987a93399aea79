#include "src/db/set_options.h"

#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/table.h"
#include "src/hash_order/hash_order_options.h"
#include "src/util/cairn_parts.h"

namespace cairn {

using rocksdb::Status;

namespace {

// Options by which RocksDB decides what to compact and when to stall, and which a trie decides by its own. The
// values do not matter: none of them would be obeyed.
constexpr const char* kNotForTries[] = {
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_bytes_for_level_multiplier_additional",
    "max_compaction_bytes",
    "target_file_size_multiplier",
    "soft_pending_compaction_bytes_limit",
    "hard_pending_compaction_bytes_limit",
    "ttl",
    "periodic_compaction_seconds",
    "read_triggered_compaction_threshold",
    "compaction_options_universal",
    "compaction_options_fifo",
    // RocksDB refuses to set it, but takes nullptr and ignores that.
    "sst_partitioner_factory",
};

// "compaction_options_universal.size_ratio" sets a part of "compaction_options_universal".
bool Names(const std::string& option, const std::string& name) {
  return option == name || (option.compare(0, name.size(), name) == 0 && option[name.size()] == '.');
}

bool DeletesRanges(const rocksdb::ColumnFamilyOptions& options) {
  return options.table_factory == nullptr || options.table_factory->IsDeleteRangeSupported();
}

}  // namespace

Status CheckSetOptions(const rocksdb::ColumnFamilyOptions& current, const std::string& family, bool durable,
                       const std::unordered_map<std::string, std::string>& changes) {
  const bool trie = IsTrie(current, nullptr);
  if (trie) {
    for (const auto& [option, value] : changes) {
      for (const char* name : kNotForTries) {
        if (!Names(option, name)) continue;
        return Status::NotSupported(
            "SetOptions of " + option + " on the trie " + family,
            "a trie compacts by its own options (cairn::TrieOptions), which are fixed when it is opened");
      }
    }
  }
  rocksdb::ConfigOptions config;
  config.mutable_options_only = true;
  rocksdb::ColumnFamilyOptions changed;
  const Status s = rocksdb::GetColumnFamilyOptionsFromMap(config, current, changes, &changed);
  if (!s.ok()) return Status::OK();  // RocksDB says it better
  const Status order = CheckHashOrder(changed, family);
  if (!order.ok()) return order;
  if (!DeletesRanges(current) && DeletesRanges(changed)) {
    return Status::NotSupported(
        "SetOptions of table_factory on column family " + family,
        "tables in hash order are those of cairn.HashOrderTable; `cairn convert` moves a database "
        "to other tables");
  }
  if (durable && changed.experimental_mempurge_threshold > 0) {
    return Status::NotSupported("SetOptions of experimental_mempurge_threshold with durable memtables",
                                "it counts memtables as flushed that are in no table");
  }
  return Status::OK();
}

}  // namespace cairn
