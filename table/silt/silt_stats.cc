// What a SILT store holds and costs, predicted and measured.

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "cairn/silt.h"
#include "file/filename.h"
#include "rocksdb/metadata.h"
#include "table/ect/ect_table.h"
#include "table/ect/ect_table_index.h"
#include "table/silt/silt_merges.h"
#include "table/table_facts.h"
#include "table/written_totals.h"
#include "util/rocksdb_names.h"
#include "util/stats_text.h"

namespace cairn {

namespace {

constexpr double kAssociativity = 4;  // slots of a cuckoo filter's bucket; a key has two buckets

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }
double Ratio(uint64_t a, uint64_t b) { return Ratio(static_cast<double>(a), static_cast<double>(b)); }

uint64_t MemoryOf(const SiltLevelStats& level) { return level.layout_bytes + level.index_bytes + level.filter_bytes; }

using PropertiesByNumber = std::unordered_map<uint64_t, std::shared_ptr<const rocksdb::TableProperties>>;

void AddFile(const rocksdb::SstFileMetaData& file, const rocksdb::TableProperties* properties, SiltLevelStats* level) {
  ++level->files;
  level->bytes += file.size;
  EctTableFacts facts;
  if (properties == nullptr) return;
  if (!ReadEctTableFacts(*properties, &facts).ok()) {  // a table that came from elsewhere
    level->keys += properties->num_entries;
    return;
  }
  level->keys += facts.keys;
  level->layout_bytes += facts.layout_bytes;
  level->index_bytes += facts.index_bytes;
  level->filter_bytes += facts.filter_bytes;
}

Status ReadLevels(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, uint64_t write_buffer_size, SiltStats* stats) {
  rocksdb::TablePropertiesCollection collection;
  const Status s = db->GetPropertiesOfAllTables(handle, &collection);
  if (!s.ok()) return s;
  PropertiesByNumber properties;
  for (const auto& [name, table] : collection) {
    properties.emplace(rocksdb::TableFileNameToNumber(name), table);
    uint64_t flushed = 0, compacted = 0;
    if (!DecodeWrittenTotals(table->user_collected_properties, &flushed, &compacted)) continue;
    stats->flushed_bytes = std::max(stats->flushed_bytes, flushed);
    stats->compacted_bytes = std::max(stats->compacted_bytes, compacted);
  }
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(handle, &meta);
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      const auto found = properties.find(file.file_number);
      const rocksdb::TableProperties* const table = found == properties.end() ? nullptr : found->second.get();
      const bool sorted = level.level + 1 == static_cast<int>(meta.levels.size());
      if (sorted && table != nullptr) stats->sorted_live_bytes += KeyAndValueBytes(*table);
      AddFile(file, table, sorted ? &stats->sorted_store : &stats->hash_stores);
    }
  }
  if (stats->hash_stores.files > 0 && stats->options.partitions == 1) {
    stats->hash_store_weight =
        WeightOfHashStores(meta.levels[0], write_buffer_size) / static_cast<double>(stats->hash_stores.files);
  }
  return s;
}

void ReadCounters(const EctTableCounters& counters, SiltStats* stats) {
  stats->resident_bytes = counters.layout_bytes.load(std::memory_order_relaxed) +
                          counters.index_bytes.load(std::memory_order_relaxed) +
                          counters.filter_bytes.load(std::memory_order_relaxed);
  for (size_t core = 0; core < counters.lookups.Size(); ++core) {
    const EctLookupCounts& counts = *counters.lookups.AccessAtCore(core);
    const uint64_t kept = counts.last_kept.load(std::memory_order_relaxed);
    stats->lookups += counts.filtered_hits.load(std::memory_order_relaxed) +
                      counts.last_lookups.load(std::memory_order_relaxed) - kept;
    stats->kept_lookups += kept;
    stats->absent_lookups += counts.last_misses.load(std::memory_order_relaxed);
    stats->blocks_read += counts.blocks.load(std::memory_order_relaxed);
  }
  stats->searches = counters.searches.load(std::memory_order_relaxed);
  stats->search_blocks = counters.search_blocks.load(std::memory_order_relaxed);
  stats->index_loads = counters.index_loads.load(std::memory_order_relaxed);
}

// The keys of a HashStore of a partition: those that are there, or, right after a merge, as many as its part of a write
// buffer holds of entries like those of the SortedStore.
double KeysOfAHashStore(const SiltStats& stats, uint64_t write_buffer_size) {
  if (stats.hash_stores.files > 0) return Ratio(stats.hash_stores.keys, stats.hash_stores.files);
  const double entry = Ratio(stats.sorted_store.bytes, stats.sorted_store.keys);
  return Ratio(static_cast<double>(write_buffer_size), entry + kMemtableBytesBeyondTable) / stats.options.partitions;
}

double HashStoresOfAMerge(const SiltStats& stats, double hash_store_keys) {
  const SiltOptions& options = stats.options;
  if (options.partitions == 1) {
    return std::min<double>(MaxHashStores(options), options.merge_trigger / stats.hash_store_weight);
  }
  const double hash_store = Ratio(hash_store_keys * options.partitions, static_cast<double>(stats.sorted_store.keys));
  if (hash_store == 0) return MaxHashStores(options);
  return HashStoresAtTheBound(options, Ratio(stats.sorted_live_bytes, stats.sorted_store.bytes), hash_store);
}

SiltModelInput ModelInputOf(const SiltStats& stats, uint64_t write_buffer_size) {
  SiltModelInput input;
  input.keys = static_cast<double>(stats.sorted_store.keys);
  input.hash_store_keys = KeysOfAHashStore(stats, write_buffer_size);
  input.merge_keys = input.hash_store_keys * HashStoresOfAMerge(stats, input.hash_store_keys);
  input.instances = stats.options.partitions;
  input.cut_by_partition = stats.options.partitions > 1;
  input.tag_bits = stats.options.table.filter_tag_bits;
  input.last_level_filter_bits = stats.options.table.last_level_filter_bits;
  return input;
}

}  // namespace

SiltModel PredictSilt(const SiltModelInput& input) {
  SiltModel model;
  if (input.keys <= 0 || input.merge_keys <= 0 || input.hash_store_keys <= 0) return model;
  const double instance_keys = input.keys / input.instances;
  // (2.4): the log, the HashStore, and a SortedStore written anew for every merge_keys updates.
  const double cut = input.cut_by_partition ? 1 : 0;
  model.write_amplification = 1 + 1 / input.hash_store_occupancy + cut + instance_keys / input.merge_keys;
  // (2.5)
  model.hash_stores = input.merge_keys / 2 / input.hash_store_keys;
  // (2.6): both buckets of the key may hold its tag by chance; without filters all HashStores are read.
  const double false_positives =
      input.tag_bits > 0 ? std::min(1.0, 2 * kAssociativity / std::pow(2.0, input.tag_bits)) : 1;
  const double stores_asked = model.hash_stores + (input.log_store_in_memory ? 0 : 1);
  model.read_amplification = 1 + stores_asked * false_positives;
  model.absent_reads = std::pow(2.0, -input.last_level_filter_bits) + stores_asked * false_positives;
  // (2.7)
  const double slots = input.hash_store_keys / input.filter_occupancy;
  const double log_store = input.log_store_in_memory ? 0 : ((input.tag_bits + 1) / 8 + 4) * slots;
  const double filters = input.tag_bits / 8 * slots * model.hash_stores;
  model.memory_bytes_per_key = (log_store + filters) / instance_keys + input.sorted_store_bytes;
  return model;
}

Status GetSiltStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, SiltStats* stats) {
  *stats = SiltStats();
  rocksdb::ColumnFamilyDescriptor descriptor;
  Status s = handle->GetDescriptor(&descriptor);
  if (!s.ok()) return s;
  if (!IsSilt(descriptor.options, &stats->options)) {
    return Status::NotSupported("column family " + handle->GetName(), "is no SILT store");
  }
  stats->column_family = handle->GetName();
  s = ReadLevels(db, handle, descriptor.options.write_buffer_size, stats);
  if (!s.ok()) return s;
  ReadCounters(descriptor.options.table_factory->CheckedCast<EctTableFactory>()->counters(), stats);

  stats->model_input = ModelInputOf(*stats, descriptor.options.write_buffer_size);
  const SiltLevelStats& sorted = stats->sorted_store;
  if (sorted.keys > 0) stats->model_input.sorted_store_bytes = Ratio(MemoryOf(sorted), sorted.keys);
  stats->predicted = PredictSilt(stats->model_input);

  stats->measured.hash_stores = Ratio(stats->hash_stores.files, static_cast<uint64_t>(stats->options.partitions));
  stats->measured.read_amplification = Ratio(stats->blocks_read, stats->lookups);
  stats->measured.absent_reads = Ratio(stats->absent_lookups, stats->absent_lookups + stats->kept_lookups);
  stats->measured.memory_bytes_per_key =
      Ratio(MemoryOf(stats->hash_stores) + MemoryOf(sorted), std::max(sorted.keys, stats->hash_stores.keys));
  if (stats->flushed_bytes > 0) {
    stats->measured.write_amplification =
        1 + Ratio(stats->flushed_bytes + stats->compacted_bytes, stats->flushed_bytes);
  }
  return s;
}

std::string SiltStatsToTable(const SiltStats& stats) {
  std::string table = FormatText("silt %s\n", stats.column_family.c_str());
  table += "store          files        bytes          keys       layout        index       filter\n";
  const std::pair<const char*, const SiltLevelStats*> levels[] = {{"HashStores", &stats.hash_stores},
                                                                  {"SortedStore", &stats.sorted_store}};
  for (const auto& [name, level] : levels) {
    table += FormatText("%-12s %7" PRIu64 " %12s %13" PRIu64 " %12s %12s %12s\n", name, level->files,
                        BytesText(level->bytes).c_str(), level->keys, BytesText(level->layout_bytes).c_str(),
                        BytesText(level->index_bytes).c_str(), BytesText(level->filter_bytes).c_str());
  }
  table += FormatText("                                  predicted     measured\n");
  const auto row = [&](const char* name, double predicted, double measured) {
    table += FormatText("%-30s %12.3f", name, predicted);
    table += measured > 0 ? FormatText(" %12.3f\n", measured) : "            -\n";
  };
  row("memory, bytes per key", stats.predicted.memory_bytes_per_key, stats.measured.memory_bytes_per_key);
  row("block reads per lookup", stats.predicted.read_amplification, stats.measured.read_amplification);
  row("the same of absent keys", stats.predicted.absent_reads, stats.measured.absent_reads);
  row("written per byte put", stats.predicted.write_amplification, stats.measured.write_amplification);
  row("HashStores (now)", stats.predicted.hash_stores, stats.measured.hash_stores);
  table += FormatText(
      "model: N = %.0f keys in %.0f partitions, d = %.0f keys a merge (%.0f HashStores), k = %.0f tag bits, "
      "%.0f bits before the SortedStore\n",
      stats.model_input.keys, stats.model_input.instances, stats.model_input.merge_keys,
      Ratio(stats.model_input.merge_keys, stats.model_input.hash_store_keys), stats.model_input.tag_bits,
      stats.model_input.last_level_filter_bits);
  table += FormatText("written since creation: %s flushed, %s by merges (data blocks), and the log\n",
                      BytesText(stats.flushed_bytes).c_str(), BytesText(stats.compacted_bytes).c_str());
  table += FormatText("in this process: %s of layouts, indexes and filters resident; %" PRIu64 " lookups, %" PRIu64
                      " without an index (%" PRIu64 " blocks), %" PRIu64 " indexes read again\n",
                      BytesText(stats.resident_bytes).c_str(), stats.lookups, stats.searches, stats.search_blocks,
                      stats.index_loads);
  return table;
}

namespace {

nlohmann::ordered_json LevelJson(const SiltLevelStats& level) {
  return {{"files", level.files},
          {"bytes", level.bytes},
          {"keys", level.keys},
          {"layout_bytes", level.layout_bytes},
          {"index_bytes", level.index_bytes},
          {"filter_bytes", level.filter_bytes}};
}

nlohmann::ordered_json ModelJson(const SiltModel& model) {
  return {{"memory_bytes_per_key", model.memory_bytes_per_key},
          {"read_amplification", model.read_amplification},
          {"absent_reads", model.absent_reads},
          {"write_amplification", model.write_amplification},
          {"hash_stores", model.hash_stores}};
}

}  // namespace

std::string SiltStatsToJson(const SiltStats& stats) {
  const nlohmann::ordered_json json = {{"column_family", stats.column_family},
                                       {"engine", "silt"},
                                       {"options", SiltOptionsToString(stats.options)},
                                       {"hash_stores", LevelJson(stats.hash_stores)},
                                       {"sorted_store", LevelJson(stats.sorted_store)},
                                       {"flushed_bytes", stats.flushed_bytes},
                                       {"compacted_bytes", stats.compacted_bytes},
                                       {"resident_bytes", stats.resident_bytes},
                                       {"lookups", stats.lookups},
                                       {"kept_lookups", stats.kept_lookups},
                                       {"absent_lookups", stats.absent_lookups},
                                       {"blocks_read", stats.blocks_read},
                                       {"searches", stats.searches},
                                       {"search_blocks", stats.search_blocks},
                                       {"index_loads", stats.index_loads},
                                       {"merge_keys", stats.model_input.merge_keys},
                                       {"predicted", ModelJson(stats.predicted)},
                                       {"measured", ModelJson(stats.measured)}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cairn
