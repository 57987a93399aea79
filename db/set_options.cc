#include "db/set_options.h"

#include "cairn/trie.h"
#include "db/cairn_db.h"
#include "db/opening.h"
#include "memtable_cache/durable_writes.h"
#include "rocksdb/convenience.h"
#include "rocksdb/table.h"
#include "util/cairn_parts.h"
#include "util/rocksdb_names.h"

namespace cairn {

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
  return options.table_factory->IsDeleteRangeSupported();
}

// Whether these are RocksDB's tables of another kind: they read none of those that a trie has, or of Cairn's, and do
// not write what is in its memtables. Opening leaves it to the first flush to say so.
bool HasForeignTables(const rocksdb::ColumnFamilyOptions& options) {
  const std::string name = options.table_factory->Name();
  return name == rocksdb::TableFactory::kPlainTableName() || name == rocksdb::TableFactory::kCuckooTableName();
}

Status RefusedTables(const std::string& family, const std::string& why) {
  return Status::NotSupported("SetOptions of table_factory on column family " + family,
                              why + "; `cairn convert` moves a database to other tables");
}

// What RocksDB mends in options that it opens with, but not in those that SetOptions brings, and does not survive.
Status CheckPartitions(const rocksdb::ColumnFamilyOptions& changed, const std::string& family) {
  const auto* const blocks = changed.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (blocks == nullptr || !blocks->partition_filters ||
      blocks->index_type == rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch) {
    return Status::OK();
  }
  return Status::InvalidArgument("SetOptions of partition_filters on column family " + family,
                                 "filters have partitions where the index has: set index_type=kTwoLevelIndexSearch");
}

// As OpenDatabase (db/opening.cc), in its order.
Status CheckAsOpening(const rocksdb::DBOptions& database, const rocksdb::ColumnFamilyOptions& changed,
                      const std::string& family, const DatabaseServices& services) {
  Status s = CheckFamily(database, {family, changed});
  if (s.ok() && services.cache() != nullptr && family == rocksdb::kDefaultColumnFamilyName) {
    s = CheckCacheCharge(WantedCache(database, services.environment()), BlockCacheOf(changed));
  }
  if (s.ok() && services.durable() != nullptr) s = CheckDurableFamily(changed, family);
  return s.ok() ? CheckParts(database, changed) : s;
}

}  // namespace

std::unordered_map<std::string, std::string> ByNamesOfTables(
    const rocksdb::ColumnFamilyOptions& current, const std::unordered_map<std::string, std::string>& changes) {
  const auto blocks = changes.find("block_based_table_factory");
  std::unordered_map<std::string, std::string> values;
  if (blocks == changes.end() || !IsCairnName(current.table_factory->Name()) ||
      current.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>() == nullptr ||
      blocks->second.find('=') == std::string::npos || !rocksdb::StringToMap(blocks->second, &values).ok()) {
    return changes;
  }
  auto named = changes;
  named.erase(blocks->first);
  for (const auto& [option, value] : values) named["table_factory." + option] = value;
  return named;
}

Status CheckSetOptions(const rocksdb::Options& current, const std::string& family, const DatabaseServices& services,
                       const std::unordered_map<std::string, std::string>& changes) {
  const bool trie = IsTrie(current);
  if (trie) {
    for (const auto& [option, value] : changes) {
      for (const char* name : kNotForTries) {
        if (!Names(option, name)) continue;
        return Status::NotSupported(
            "SetOptions of " + option + " on the trie " + family,
            "a trie compacts by its own options (cairn/trie.h), which are fixed when it is opened");
      }
    }
  }
  rocksdb::ConfigOptions config;
  config.mutable_options_only = true;
  rocksdb::ColumnFamilyOptions changed;
  const Status parsed = rocksdb::GetColumnFamilyOptionsFromMap(config, current, changes, &changed);
  if (!parsed.ok()) return Status::OK();  // RocksDB says it better
  if (changed.table_factory == nullptr) {
    return Status::InvalidArgument("SetOptions of table_factory on column family " + family,
                                   "it names none that is registered here: BlockBasedTable is, say");
  }
  if (!DeletesRanges(current) && DeletesRanges(changed)) {
    return RefusedTables(family, "tables in hash order are those of cairn.HashOrderTable");
  }
  Status s = CheckAsOpening(current, changed, family, services);
  if (s.ok()) s = CheckPartitions(changed, family);
  if (!s.ok() || !HasForeignTables(changed) || !(trie || IsCairnName(current.table_factory->Name()))) return s;
  return RefusedTables(family,
                       std::string(changed.table_factory->Name()) + " cannot replace " + current.table_factory->Name());
}

}  // namespace cairn
