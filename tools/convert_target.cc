#include "tools/convert_target.h"

#include <cairn/trie.h>

#include <algorithm>
#include <cstring>

#include "cairn/engines.h"
#include "cairn/round_robin.h"
#include "memtable_cache/sub_memtable_factory.h"
#include "rocksdb/convenience.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "table/hash_order/hash_order.h"
#include "tools/convert_state.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// Undoes UseEngine, and DropWhatHasNoMeaning: what they set comes from `before`. An order that is not the engine's
// stays.
void LeaveEngine(const ColumnFamilyOptions& before, ColumnFamilyOptions* options) {
  const bool round_robin = IsRoundRobin(*options, nullptr);
  if (HashOfComparator(options->comparator) != nullptr) options->comparator = before.comparator;
  options->sst_partitioner_factory = before.sst_partitioner_factory;
  options->table_factory = before.table_factory;
  options->num_levels = before.num_levels;
  options->compaction_style = before.compaction_style;
  options->compaction_options_universal = before.compaction_options_universal;
  options->level_compaction_dynamic_level_bytes = before.level_compaction_dynamic_level_bytes;
  options->max_bytes_for_level_base = before.max_bytes_for_level_base;
  if (round_robin) {
    options->compaction_pri = before.compaction_pri;
    options->max_bytes_for_level_multiplier = before.max_bytes_for_level_multiplier;
    options->max_bytes_for_level_multiplier_additional = before.max_bytes_for_level_multiplier_additional;
    options->table_properties_collector_factories = before.table_properties_collector_factories;
  }
  options->max_compaction_bytes = before.max_compaction_bytes;
  options->disable_auto_compactions = before.disable_auto_compactions;
  options->level0_file_num_compaction_trigger = before.level0_file_num_compaction_trigger;
  options->level0_slowdown_writes_trigger = before.level0_slowdown_writes_trigger;
  options->level0_stop_writes_trigger = before.level0_stop_writes_trigger;
  options->prefix_extractor = before.prefix_extractor;
  // The engine "trie" brings them.
  if (options->memtable_factory != nullptr &&
      options->memtable_factory->IsInstanceOf(SubMemTableFactory::kClassName())) {
    options->memtable_factory = before.memtable_factory;
  }
  if (options->ttl == 0) options->ttl = before.ttl;
  if (options->periodic_compaction_seconds == 0) {
    options->periodic_compaction_seconds = before.periodic_compaction_seconds;
  }
}

// What has no meaning in the new engine goes. What the user must have asked for gets a note.
void DropWhatHasNoMeaning(const std::string& family, ColumnFamilyOptions* options, std::vector<std::string>* notes) {
  if (options->prefix_extractor == nullptr) return;
  notes->push_back(
      "column family \"" + family + "\": prefix_extractor " + options->prefix_extractor->AsString() +
      " is left behind: in hash order, keys of one prefix are not neighbours, and there is no prefix seek");
  options->prefix_extractor.reset();
}

// What a column family was before it was of Cairn, as far as that is known: the options remembered under its name, or
// RocksDB's defaults.
Status LoadRememberedOptions(const std::string& directory, std::vector<ColumnFamilyDescriptor>* remembered) {
  const std::string file = directory + "/" + kConvertStockOptionsFile;
  Status s = rocksdb::Env::Default()->FileExists(file);
  if (s.IsNotFound()) return Status::OK();
  DBOptions ignored;
  if (s.ok()) s = rocksdb::LoadOptionsFromFile(rocksdb::ConfigOptions(), file, &ignored, remembered);
  return s;
}

ColumnFamilyOptions OptionsBefore(const std::vector<ColumnFamilyDescriptor>& remembered, const SourceFamily& family) {
  ColumnFamilyOptions before;
  for (const ColumnFamilyDescriptor& descriptor : remembered) {
    if (descriptor.name != family.name) continue;
    const bool usable = !IsOfCairn(descriptor.options) && descriptor.options.table_factory != nullptr;
    if (usable) return descriptor.options;
    // It was of Cairn from the beginning, and in an order that is not an engine's.
    if (HashOfComparator(descriptor.options.comparator) == nullptr) before.comparator = descriptor.options.comparator;
  }
  const auto* table = family.options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  if (table != nullptr) before.table_factory.reset(rocksdb::NewBlockBasedTableFactory(*table));
  return before;
}

const SubMemTableOptions* SubMemTablesOf(const ColumnFamilyOptions& options) {
  if (options.memtable_factory == nullptr ||
      !options.memtable_factory->IsInstanceOf(SubMemTableFactory::kClassName())) {
    return nullptr;
  }
  return options.memtable_factory->GetOptions<SubMemTableOptions>(SubMemTableFactory::kOptionsName());
}

// A pool file serves one database, and durable memtables all of its column families or none.
void AdaptDurableMemtables(ConvertTarget* target) {
  size_t durable = 0;
  for (const TargetFamily& family : target->families) {
    const SubMemTableOptions* sub = SubMemTablesOf(family.options);
    durable += sub != nullptr && sub->durable ? 1 : 0;
  }
  for (TargetFamily& family : target->families) {
    const SubMemTableOptions* sub = SubMemTablesOf(family.options);
    if (sub == nullptr || !sub->durable) continue;
    SubMemTableOptions own = *sub;
    own.durable = durable == target->families.size();
    if (!own.durable) {
      target->notes.push_back("column family \"" + family.name +
                              "\": its memtables are not durable in the copy, because those of others are not");
    } else if (!own.pool_file.empty()) {
      target->notes.push_back("column family \"" + family.name + "\": pool_file (" + own.pool_file +
                              ") is left behind; the copy's pool file lies in its own directory");
    }
    own.pool_file.clear();
    family.options.memtable_factory = NewSubMemTableFactory(own);
  }
}

DBOptions DatabaseOptions(const ConvertSource& source) {
  DBOptions options = source.db_options();
  // Every place is the new directory's.
  options.db_paths.clear();
  options.wal_dir.clear();
  options.db_log_dir.clear();
  // The trie's scheduler comes with the engine.
  auto is_ours = [](const std::shared_ptr<rocksdb::EventListener>& listener) {
    return listener == nullptr || std::strncmp(listener->Name(), "cairn.", 6) == 0;
  };
  options.listeners.erase(std::remove_if(options.listeners.begin(), options.listeners.end(), is_ours),
                          options.listeners.end());
  return options;
}

}  // namespace

Status PlanConvertTarget(const ConvertSource& source, const std::string& engine,
                         const std::vector<std::string>& engine_options, const std::vector<std::string>& only,
                         ConvertTarget* target) {
  for (const std::string& name : only) {
    auto same_name = [&name](const SourceFamily& family) { return family.name == name; };
    if (std::none_of(source.families().begin(), source.families().end(), same_name)) {
      return Status::InvalidArgument(source.path(), "has no column family \"" + name + "\"");
    }
  }
  std::vector<ColumnFamilyDescriptor> remembered;
  Status s = LoadRememberedOptions(source.path(), &remembered);
  if (!s.ok()) return s;
  *target = ConvertTarget();
  target->db_options = DatabaseOptions(source);
  s = UseEngineInDatabase(engine, engine_options, &target->db_options);
  for (const SourceFamily& family : source.families()) {
    if (!s.ok()) return s;
    TargetFamily result;
    result.name = family.name;
    result.options = family.options;
    result.options.cf_paths.clear();
    result.converted = only.empty() || std::find(only.begin(), only.end(), family.name) != only.end();
    if (result.converted) {
      if (IsOfCairn(family.options)) LeaveEngine(OptionsBefore(remembered, family), &result.options);
      if (!KeepsKeyOrder(engine)) DropWhatHasNoMeaning(family.name, &result.options, &target->notes);
      if (engine == kStockEngine && SubMemTablesOf(result.options) != nullptr) {
        result.options.memtable_factory = ColumnFamilyOptions().memtable_factory;  // a stock RocksDB knows none of ours
      }
      s = UseEngine(engine, engine_options, &result.options);
    } else if (IsTrie(family.options)) {
      s = UseTrieCompaction(&target->db_options);
    }
    target->families.push_back(std::move(result));
  }
  AdaptDurableMemtables(target);
  return s;
}

ConvertTarget ForWriting(const ConvertTarget& target) {
  ConvertTarget result;
  const DBOptions& final_options = target.db_options;
  DBOptions& options = result.db_options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = final_options.max_open_files;
  options.max_background_jobs = final_options.max_background_jobs;
  options.max_subcompactions = final_options.max_subcompactions;
  options.use_direct_reads = final_options.use_direct_reads;
  options.use_direct_io_for_flush_and_compaction = final_options.use_direct_io_for_flush_and_compaction;
  options.use_fsync = final_options.use_fsync;
  options.bytes_per_sync = 1 << 20;
  options.listeners = final_options.listeners;
  // What the memtables below require.
  options.allow_concurrent_memtable_write = false;
  for (const TargetFamily& family : target.families) {
    TargetFamily writing = family;
    ColumnFamilyOptions& family_options = writing.options;
    family_options.compaction_filter = nullptr;
    family_options.compaction_filter_factory.reset();
    family_options.ttl = 0;
    family_options.periodic_compaction_seconds = 0;
    // One writer and no reader: append, and sort in the background when the memtable is flushed.
    family_options.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
    family_options.memtable_prefix_bloom_size_ratio = 0;
    family_options.inplace_update_support = false;
    family_options.max_write_buffer_number = std::max(4, family_options.max_write_buffer_number);
    result.families.push_back(std::move(writing));
  }
  return result;
}

Status StockOptionsToRemember(const ConvertSource& source, std::string* text) {
  rocksdb::Env* env = rocksdb::Env::Default();
  std::string file = kConvertStockOptionsFile;
  Status s = env->FileExists(source.path() + "/" + file);
  if (s.IsNotFound()) s = rocksdb::GetLatestOptionsFileName(source.path(), env, &file);
  return s.ok() ? rocksdb::ReadFileToString(env, source.path() + "/" + file, text) : s;
}

}  // namespace cairn
