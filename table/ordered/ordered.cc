// Sets RocksDB's options up for ordered tables, and says what they hold.

#include <cstddef>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cairn/ordered.h"
#include "rocksdb/comparator.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/metadata.h"
#include "rocksdb/utilities/options_type.h"
#include "table/ordered/order_block.h"
#include "table/ordered/ordered_table.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"
#include "util/stats_text.h"

namespace cairn {

namespace {

const OptionTypes& OrderedOptionTypes() {
  constexpr auto kOrder = offsetof(OrderedOptions, order);
  static const auto* types = new OptionTypes{
      {"compaction", {offsetof(OrderedOptions, compaction), rocksdb::OptionType::kString}},
      {"space_bound", {offsetof(OrderedOptions, space_bound), rocksdb::OptionType::kDouble}},
      {"runs", {offsetof(OrderedOptions, runs), rocksdb::OptionType::kInt}},
      {"max_size_amplification_percent",
       {offsetof(OrderedOptions, max_size_amplification_percent), rocksdb::OptionType::kInt}},
      {"size_ratio", {offsetof(OrderedOptions, size_ratio), rocksdb::OptionType::kInt}},
      {"filter_bits", {offsetof(OrderedOptions, filter_bits), rocksdb::OptionType::kDouble}},
      {"order_bits", {kOrder + offsetof(OrderFilterOptions, order_bits), rocksdb::OptionType::kDouble}},
      {"extra_order_bits", {kOrder + offsetof(OrderFilterOptions, extra_order_bits), rocksdb::OptionType::kDouble}},
      {"tombstone_run", {kOrder + offsetof(OrderFilterOptions, tombstone_run), rocksdb::OptionType::kUInt32T}}};
  return *types;
}

}  // namespace

Status OrderedOptionsFromString(const std::string& text, OrderedOptions* options) {
  return ParseOptions<OrderedOptions>(text, OrderedOptionTypes(), "options of ordered tables", nullptr, options);
}

Status UseOrderedTable(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered) {
  if (options->comparator != rocksdb::BytewiseComparator()) {
    return Status::NotSupported("an order filter with the comparator " + std::string(options->comparator->Name()),
                                "it knows rocksdb::BytewiseComparator() without timestamps");
  }
  if (!(ordered.filter_bits <= 100)) {
    return Status::InvalidArgument("option filter_bits is " + std::to_string(ordered.filter_bits),
                                   "it may be 0 to 100, or negative for the filter that the options have");
  }
  rocksdb::BlockBasedTableOptions table;
  if (options->table_factory != nullptr) {
    const auto* given = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (given == nullptr) {
      return Status::NotSupported(
          "an order filter with the table factory " + std::string(options->table_factory->Name()),
          "set a block-based table");
    }
    table = *given;
  }
  if (ordered.filter_bits >= 0) {
    table.filter_policy.reset(ordered.filter_bits > 0 ? rocksdb::NewBloomFilterPolicy(ordered.filter_bits) : nullptr);
  }
  auto factory = std::make_shared<OrderedTableFactory>(table, ordered.order);
  const Status s = factory->ValidateOptions(rocksdb::DBOptions(), rocksdb::ColumnFamilyOptions());
  if (s.ok()) options->table_factory = std::move(factory);
  return s;
}

bool IsOrdered(const rocksdb::ColumnFamilyOptions& options) {
  return options.table_factory != nullptr && options.table_factory->CheckedCast<OrderedTableFactory>() != nullptr;
}

Status GetOrderedStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, OrderedStats* stats) {
  *stats = OrderedStats();
  const rocksdb::Options options = db->GetOptions(column_family);
  const auto* factory = options.table_factory->CheckedCast<OrderedTableFactory>();
  if (factory == nullptr) {
    return Status::InvalidArgument("the table factory is " + std::string(options.table_factory->Name()),
                                   "order filters are cairn.OrderedTable's");
  }
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(column_family, &meta);
  stats->files = meta.file_count;
  stats->bytes = meta.size;
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    stats->runs += level.level == 0 ? level.files.size() : (level.files.empty() ? 0 : 1);
  }
  rocksdb::TablePropertiesCollection tables;
  const Status s = db->GetPropertiesOfAllTables(column_family, &tables);
  if (!s.ok()) return s;
  for (const auto& [name, properties] : tables) {
    OrderFacts facts;
    const auto found = properties->user_collected_properties.find(kOrderProperty);
    if (found == properties->user_collected_properties.end() || !DecodeOrderFacts(found->second, &facts)) continue;
    stats->filter_keys += facts.keys;
    stats->filter_bytes += facts.bytes;
    stats->filter_error += facts.error * static_cast<double>(facts.keys);
  }
  if (stats->filter_keys != 0) stats->filter_error /= static_cast<double>(stats->filter_keys);
  stats->seeks = factory->SeekStats();
  return s;
}

std::string OrderedStatsToTable(const OrderedStats& stats, const std::string& column_family) {
  const OrderedSeekStats& seeks = stats.seeks;
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const double bits =
      stats.filter_keys == 0 ? 0 : static_cast<double>(stats.filter_bytes) * 8 / static_cast<double>(stats.filter_keys);
  char text[1024];
  snprintf(text, sizeof(text),
           "column family %s: ordered tables\n"
           "  %llu sorted runs, %llu files, %s\n"
           "  order filters: %llu keys, %s, %.2f bits per key; %.1f %% of targets cannot be told from a key\n"
           "  seeks of tables: %llu saved (answered for good without reading a block)\n"
           "    %llu deferred, of which %llu were read later, %llu of those unused;\n"
           "    %llu past the table's end and %llu past the scan's bound without reading;\n"
           "    %llu read at once, %llu of those unused; %llu without an order filter\n",
           column_family.c_str(), number(stats.runs), number(stats.files), BytesText(stats.bytes).c_str(),
           number(stats.filter_keys), BytesText(stats.filter_bytes).c_str(), bits, stats.filter_error * 100,
           number(seeks.saved()), number(seeks.deferred), number(seeks.resolved), number(seeks.resolved_unused),
           number(seeks.past_end), number(seeks.past_bound), number(seeks.direct), number(seeks.direct_unused),
           number(seeks.unfiltered));
  return text;
}

std::string OrderedStatsToJson(const OrderedStats& stats, const std::string& column_family) {
  const OrderedSeekStats& seeks = stats.seeks;
  const nlohmann::ordered_json json = {{"column_family", column_family},
                                       {"engine", "ordered"},
                                       {"runs", stats.runs},
                                       {"files", stats.files},
                                       {"bytes", stats.bytes},
                                       {"filter_keys", stats.filter_keys},
                                       {"filter_bytes", stats.filter_bytes},
                                       {"filter_error", stats.filter_error},
                                       {"seeks",
                                        {{"saved", seeks.saved()},
                                         {"deferred", seeks.deferred},
                                         {"resolved", seeks.resolved},
                                         {"resolved_unused", seeks.resolved_unused},
                                         {"past_end", seeks.past_end},
                                         {"past_bound", seeks.past_bound},
                                         {"direct", seeks.direct},
                                         {"direct_unused", seeks.direct_unused},
                                         {"unfiltered", seeks.unfiltered}}}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace cairn
